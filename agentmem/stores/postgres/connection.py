"""Connections, transactions and their errors: the only file that talks to psycopg.

No session state is relied on: what a transaction needs it sets for itself, so a pooler
may give each transaction another connection.
"""

from __future__ import annotations

import json
import os
import random
import re
import selectors
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agentmem.base.errors import (
    DuplicateRecord,
    InvalidInput,
    MissingExtra,
    NotAStore,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreTooNew,
    StoreUnavailable,
)
from agentmem.stores.postgres.schema import (
    LOCK,
    MIGRATIONS,
    OLDEST_SERVER,
    OLDEST_VECTOR,
    ROLE,
    SCHEMA,
    TABLES,
    Step,
    granted,
    guarded,
)
from agentmem.stores.postgres.tables import NumberKind, TableRows
from agentmem.stores.tables import Row, runs
from agentmem.stores.values import Operation

try:
    import psycopg
    from psycopg import conninfo, sql
    from psycopg import errors as pg
    from psycopg.adapt import Dumper
    from psycopg.types import TypeInfo
    from psycopg.types.string import TextLoader
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout
except ImportError:
    raise MissingExtra("psycopg", extra="postgres", purpose="A store in PostgreSQL") from None

T = TypeVar("T")
_LOOK_SECONDS = 0.5
PREPARED_AFTER = 3
"""A statement that one connection sends more often than this is prepared."""
MOST_TRIES = 8
"""A transaction that lost against another one is tried so often."""
MOST_NUMBERS = 100_000
"""The numbers of so many owners and of so many strands are remembered."""
_RETRIED = (
    pg.SerializationFailure, pg.DeadlockDetected, pg.ForeignKeyViolation, pg.UniqueViolation,
)  # fmt: skip
"""A row that was referred to and is gone has a new number, or none, and one that somebody else
made at the same moment is there: looked up again, each is right."""


# ----------------------------------------------------------------------------
# Text of any kind: PostgreSQL has no NUL, our texts do.


def _escaped(text: str) -> str:
    return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x03")


def _plain(text: str) -> str:
    return text.replace("\x01\x03", "\x00").replace("\x01\x02", "\x01")


def _sent(value: Any) -> Any:
    """A parameter as it is sent: texts without NUL, whatever they hold."""
    if isinstance(value, str):
        return _escaped(value) if "\x00" in value or "\x01" in value else value
    if isinstance(value, list) and value and any(isinstance(one, str) for one in value):
        return [_sent(one) for one in value]
    return value


def as_json(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as the server's JSON functions read them."""
    written = [
        {
            name: f"\\x{value.hex()}" if isinstance(value, bytes) else _sent(value)
            for name, value in row.items()
        }
        for row in rows
    ]
    return json.dumps(written, ensure_ascii=False)


class _Loader(TextLoader):
    def load(self, data: Any) -> Any:
        text = str(bytes(data), "utf-8")
        return _plain(text) if "\x01" in text else text


class _BinaryLoader(_Loader):
    format = psycopg.pq.Format.BINARY


# ----------------------------------------------------------------------------
# One transaction.


class Transaction(TableRows):
    """Statements that happen together; the tenant is a parameter of every one of them.

    What nobody waits for travels with the next statement: how the transaction begins, what
    `later` is given, and how it ends. `log` says which rows indexes must look at again; the lines
    are numbered when the transaction ends, one transaction of a tenant after the other, so that
    the numbers come in the order of the commits.
    """

    def __init__(
        self, connection: psycopg.Connection[Any], tenant: str, known: Numbers, begin: Sequence[str]
    ) -> None:
        super().__init__()
        self._connection = connection
        self._tenant = tenant
        self._lines: list[tuple[Operation, int, int]] = []
        self._waiting: list[_Later] = [_Later(statement, {}) for statement in begin]
        self._known = known
        self.begun = self.ending = self.ended = False
        self.added: dict[bytes, str] = {}
        """Ids of memories that are sent, by key: which of them was there already is heard late."""

    def numbers(self, kind: NumberKind, keys: Collection[bytes]) -> dict[bytes, int]:
        """The numbers of those owners or strands that have one.

        They are remembered from one transaction to the next: who refers to one
        that is gone by then is tried again, without the memory.
        """
        known = self._known[kind]
        if all(key in known for key in keys):
            return {key: known[key] for key in keys}
        found = self.all(
            f"SELECT key, {kind[:-1]} FROM {kind} "  # noqa: S608 # our own names
            "WHERE tenant = %(tenant)s AND key = ANY(%(keys)s)",
            keys=list(keys),
        )
        numbers = {bytes(key): int(number) for key, number in found}
        if not self._made:  # what this transaction made may never be committed
            known.update(numbers)
        return numbers

    def all(self, statement: str, /, **values: Any) -> list[Row]:
        """What a statement gives."""
        return self._execute(statement, values).fetchall()

    def one(self, statement: str, /, **values: Any) -> Row | None:
        """The first row a statement gives, if any."""
        found: Row | None = self._execute(statement, values).fetchone()
        return found

    def only(self, statement: str, /, **values: Any) -> list[Row]:
        """What the last statement gives: the transaction ends with it, in one round trip."""
        return self._execute(statement, values, last=True).fetchall()

    def run(self, statement: str, /, **values: Any) -> int:
        """How many rows a statement touched."""
        return int(self._execute(statement, values).rowcount)

    def later(self, statement: str, /, **values: Any) -> Callable[[], list[Row]]:
        """Send a statement together with the next one; what it gives can be had after that."""
        waiting = _Later(statement, values)
        self._waiting.append(waiting)
        return waiting.rows

    def log(self, operation: Operation, rows: Collection[int], /) -> None:
        """Tell indexes that `rows` changed; neighbouring rows make one line."""
        self._lines += [(operation, first, last) for first, last in runs(rows)]

    def seq(self) -> int:
        """Number the lines so far; whoever else changes this tenant waits from here on."""
        (seq,) = self._numbered(last=False).fetchone() or (None,)
        if seq is None:
            raise StoreCorrupt("The tenant's line is gone.", remedy="Open the store again.")
        return int(seq)

    def _numbered(self, *, last: bool) -> psycopg.Cursor[Any]:
        lines, self._lines = self._lines, []
        return self._execute(
            _NUMBER_CHANGES,
            {
                "operations": [line[0] for line in lines],
                "firsts": [line[1] for line in lines],
                "lasts": [line[2] for line in lines],
            },
            last=last,
        )

    def finish(self) -> None:
        """Number what was not numbered yet, and end."""
        if self._lines:
            self._numbered(last=True)
        elif not self.ended and (self.begun or len(self._waiting) > _BEGINNING):
            self._execute("COMMIT", {})
        self.ended = True

    def _execute(
        self, statement: str, values: dict[str, Any], *, last: bool = False
    ) -> psycopg.Cursor[Any]:
        asked = _Later(statement, values)
        sent, self._waiting = [*self._waiting, asked], []
        if last and not self.begun and self._may_stand_alone(sent):
            del sent[0]  # what is sent together is one transaction by itself
        elif last:
            sent.append(_Later("COMMIT", {}))
        self.ending = last or statement == "COMMIT"
        with self._connection.pipeline() if len(sent) > 1 else nullcontext():
            for one in sent:
                cursor = one.cursor = self._connection.cursor(binary=True)
                given = {name: _sent(value) for name, value in one.values.items()}
                cursor.execute(one.statement, {**given, "tenant": _sent(self._tenant)})
        self.begun, self.ended = True, self.ended or last
        found: psycopg.Cursor[Any] = asked.cursor
        return found

    @staticmethod
    def _may_stand_alone(sent: Sequence[_Later]) -> bool:
        """Whether it is all the same in which state of the database each statement is."""
        return len(sent) == _BEGINNING + 1 or _WRITE in sent[0].statement


_BEGINNING = 2
"""So many statements begin a transaction."""
Numbers = dict[NumberKind, dict[bytes, int]]
_NUMBER_CHANGES = """SELECT log_changes(
    %(tenant)s, %(operations)s::text[], %(firsts)s::bigint[], %(lasts)s::bigint[])"""


class _Later:
    """A statement that is sent with the next one."""

    def __init__(self, statement: str, values: dict[str, Any]) -> None:
        self.statement = statement
        self.values = values
        self.cursor: Any = None

    def rows(self) -> list[Row]:
        found: list[Row] = self.cursor.fetchall()
        return found


class Integers:
    """A column of numbers, sent in the server's own form without a look at each."""

    def __init__(self, column: Any, bits: Literal[16, 32, 64] = 64) -> None:
        self.column, self.bits = column, bits


class Halves:
    """A column of vectors in half precision, each as `<f2` or None."""

    def __init__(self, vectors: Sequence[bytes | None]) -> None:
        self.vectors = vectors


_INTEGERS = {16: (21, 1005), 32: (23, 1007), 64: (20, 1016)}
"""The numbers that PostgreSQL gives to the types of integers, and to arrays of them."""


class _IntegersDumper(Dumper):
    format = psycopg.pq.Format.BINARY

    def get_key(self, obj: Integers, format: Any) -> Any:  # noqa: A002 - psycopg's name
        return (self.cls, obj.bits)

    def upgrade(self, obj: Integers, format: Any) -> Dumper:  # noqa: A002 - psycopg's name
        made = type(self)(self.cls)
        made.oid = _INTEGERS[obj.bits][1]
        return made

    def dump(self, obj: Integers) -> bytes:
        import numpy as np

        size = obj.bits // 8
        lines = np.empty(len(obj.column), [("size", ">i4"), ("value", f">i{size}")])
        lines["size"], lines["value"] = size, obj.column
        return _array(_INTEGERS[obj.bits][0], len(lines), lines.tobytes())


def _array(oid: int, count: int, data: bytes) -> bytes:
    """An array as the server reads it: dimensions, whether NULLs may be in it, type, size, from."""
    if not count:
        return struct.pack(">iii", 0, 0, oid)
    return struct.pack(">iiiii", 1, 1, oid, count, 1) + data


def _halves_dumper(info: TypeInfo) -> type[Dumper]:
    class _HalvesDumper(Dumper):
        format = psycopg.pq.Format.BINARY
        oid = info.array_oid

        def dump(self, obj: Halves) -> bytes:
            import numpy as np

            parts: list[bytes] = []
            for vector in obj.vectors:
                if vector is None:
                    parts.append(b"\xff\xff\xff\xff")
                    continue
                size = len(vector) // 2
                parts.append(struct.pack(">ihh", 4 + len(vector), size, 0))
                parts.append(np.frombuffer(vector, "<f2").astype(">f2").tobytes())
            return _array(info.oid, len(obj.vectors), b"".join(parts))

    return _HalvesDumper


# ----------------------------------------------------------------------------
# The pool.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What was found out about the server when the pool was opened."""

    pool: ConnectionPool[psycopg.Connection[Any]]
    dsn: str
    pid: int
    begin: tuple[str, str]
    """The kind of a transaction goes into the first, what it needs is set by the second."""
    iterative: bool

    def beginning(self, kind: str) -> tuple[str, str]:
        return self.begin[0].format(kind), self.begin[1]


class PostgresDatabase:
    """Transactions on one tenant of a database, connected to when it is first asked.

    Reads may go to a replica (`read_dsn`): a read waits until the replica has the
    last write of this object, at most `replica_seconds`, then asks the primary.
    """

    in_memory = False

    def __init__(
        self,
        dsn: str,
        *,
        tenant: str,
        read_dsn: str | None = None,
        connections: int = 10,
        busy_seconds: float = 30.0,
        replica_seconds: float = 1.0,
        migrations: tuple[Step, ...] = MIGRATIONS,
        migrate: bool = True,
        durable: bool = True,
    ) -> None:
        self.dsn = dsn
        self.tenant = tenant
        self.busy_seconds = busy_seconds
        self.where = self.name = described(dsn)
        self._read_dsn = read_dsn
        self._connections = connections
        self._replica_seconds = replica_seconds
        self._migrations = migrations
        self._migrate = migrate
        self._durable = durable
        self._lock = threading.RLock()
        self._ready: _Ready | None = None
        self._replica: _Ready | None = None
        self._written: str | None = None
        self._numbers: dict[str, Numbers] = {}
        self.closed = False

    # -- transactions -----------------------------------------------------------------

    def read(self, call: Callable[[Transaction], T]) -> T:
        """What `call` gives of one state of the database."""
        return self._tried(call, read=True)

    def write(self, call: Callable[[Transaction], T]) -> T:
        """What `call` gives, all of it written or nothing; it may be called more than once."""
        return self._tried(call, read=False)

    def exists(self) -> bool:
        """Always: there is nothing to wait for."""
        return True

    def first_secret(self, there: str | None, /) -> str:
        """The secret of the tenant, made when it is first asked for."""
        return there or os.urandom(32).hex()

    @contextmanager
    def one_state(self) -> Iterator[Transaction]:
        """A transaction that reads, for as long as it takes; nothing is tried again."""
        ready = self.ready()
        with (
            as_our_errors(self.where),
            ready.pool.connection(timeout=self.busy_seconds) as connection,
        ):
            transaction = Transaction(
                connection, self.tenant, self._known(), ready.beginning(_READ)
            )
            yield transaction
            transaction.finish()

    def _tried(self, call: Callable[[Transaction], T], *, read: bool) -> T:
        deadline = time.monotonic() + self.busy_seconds
        for attempt in range(MOST_TRIES):
            ready = self._reading() if read else self.ready()
            try:
                return self._once(ready, call, read=read)
            except _RETRIED as error:
                last: Exception = error
                self._numbers.clear()
            except _Taken as error:
                taken = self._first_taken(error.added)
                if taken is not None:
                    raise DuplicateRecord(taken) from None
                last = error
            except _Stale as error:  # the pool held a connection that had ended meanwhile
                last = error
                self._let_go(ready)
                continue
            if time.monotonic() > deadline:
                break
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - no secret
        if isinstance(last, _Stale):
            raise unavailable(self.where, last) from last.__cause__
        raise StoreBusy(
            f"Others changed the same rows of {self.where} {MOST_TRIES} times in a row.",
            remedy="Try again.",
        ) from last

    def _known(self) -> Numbers:
        """The numbers of owners and strands of this tenant that were seen so far; not too many."""
        known = self._numbers.get(self.tenant)
        if known is None or max(map(len, known.values())) > MOST_NUMBERS:
            known = self._numbers[self.tenant] = {"owners": {}, "strands": {}}
        return known

    def _let_go(self, ready: _Ready) -> None:
        """Forget a pool whose connections ended; the next call sees whether anybody is there."""
        with self._lock:
            self._ready = None if self._ready is ready else self._ready
            self._replica = None if self._replica is ready else self._replica
        ready.pool.close(0)

    def _taken(self, ready: _Ready) -> psycopg.Connection[Any]:
        """A connection of the pool; while none comes, a look whether the server is there at all."""
        deadline = time.monotonic() + self.busy_seconds
        while True:
            left = deadline - time.monotonic()
            try:
                return ready.pool.getconn(timeout=max(0.01, min(_LOOK_SECONDS, left)))
            except PoolClosed as error:
                if self.closed:
                    raise
                raise _Stale("the pool was let go") from error
            except PoolTimeout:
                if left < _LOOK_SECONDS:
                    raise
                try:
                    _connected(ready.dsn).close()
                except psycopg.OperationalError as error:
                    self._let_go(ready)
                    raise translated(error, self.where) from error

    def _once(self, ready: _Ready, call: Callable[[Transaction], T], *, read: bool) -> T:
        with as_our_errors(self.where):
            connection = self._taken(ready)
        if not read and _has_ended(connection):  # of a read nothing is lost by finding out late
            connection.close()
            ready.pool.putconn(connection)
            raise _Stale("the server ended it")
        begin = ready.beginning(_READ if read else _WRITE)
        transaction = Transaction(connection, self.tenant, self._known(), begin)
        try:
            result = call(transaction)
            transaction.finish()
            if not read and self._read_dsn is not None:
                self._note_lsn(connection)
            return result
        except _RETRIED as error:
            if error.diag.constraint_name == "memories_tenant_key_key":
                raise _Taken(transaction.added) from error
            raise
        except psycopg.Error as error:
            if connection.closed:
                self._let_go(ready)
                if not transaction.begun and (read or not transaction.ending):
                    raise _Stale(str(error)) from error
            raise translated(error, self.where) from error
        finally:
            if not connection.closed and connection.info.transaction_status != 0:
                _roll_back(connection)
            ready.pool.putconn(connection)

    def _note_lsn(self, connection: psycopg.Connection[Any]) -> None:
        found = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        if found is not None:
            self._written = str(found[0])

    def _first_taken(self, added: Mapping[bytes, str]) -> str | None:
        """The first of these ids that is there; none if it went away meanwhile."""
        found = self.read(
            lambda t: t.only(
                "SELECT key FROM memories WHERE tenant = %(tenant)s AND key = ANY(%(keys)s)",
                keys=list(added),
            )
        )
        there = {bytes(key) for (key,) in found}
        return next((memory_id for key, memory_id in added.items() if key in there), None)

    def lsn(self) -> str | None:
        """Where the log stood after the last write of this object, with a replica only."""
        return self._written

    # -- opening ----------------------------------------------------------------------

    def ready(self) -> _Ready:
        """The pool of the primary, with tables that are as they must be."""
        with self._lock:
            if self.closed:
                raise closed(self.where)
            if self._ready is None or self._ready.pid != os.getpid():
                self._ready = self._opened(self.dsn, primary=True)
            return self._ready

    @property
    def iterative(self) -> bool:
        """Whether the server's pgvector goes on looking when a filter left too few."""
        return self.ready().iterative

    def _reading(self) -> _Ready:
        primary = self.ready()
        if self._read_dsn is None:
            return primary
        try:
            with self._lock:
                if self._replica is None or self._replica.pid != os.getpid():
                    self._replica = self._opened(self._read_dsn, primary=False)
                replica = self._replica
            return replica if self._caught_up(replica) else primary
        except (StoreError, psycopg.Error, PoolTimeout, PoolClosed):
            return primary  # it is not there, or has not heard of the tables yet

    def _caught_up(self, replica: _Ready) -> bool:
        """Wait for what was written here last; false when it takes too long."""
        wanted = self._written
        if wanted is None:
            return True
        deadline = time.monotonic() + self._replica_seconds
        with replica.pool.connection(timeout=self._replica_seconds) as connection:
            while True:
                found = connection.execute(
                    "SELECT coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, true)", (wanted,)
                ).fetchone()
                if found is not None and found[0]:
                    return True
                if time.monotonic() > deadline:
                    return False
                time.sleep(0.002)

    def _opened(self, dsn: str, *, primary: bool) -> _Ready:
        halves: TypeInfo | None = None

        def configure(connection: psycopg.Connection[Any]) -> None:
            _configure(connection)
            if halves is not None:
                connection.adapters.register_dumper(Halves, _halves_dumper(halves))
            if _is_direct(connection):
                connection.prepare_threshold = PREPARED_AFTER

        pool = ConnectionPool(
            dsn,
            min_size=0,
            max_size=self._connections,
            timeout=self.busy_seconds,
            max_waiting=0,
            configure=configure,
            kwargs={"autocommit": True, "prepare_threshold": None, "connect_timeout": 10},
            open=False,
            num_workers=1,
            name=f"agentmem-{'write' if primary else 'read'}",
        )
        try:
            with as_our_errors(self.where), _connected(dsn) as connection:
                _require_server(connection)
                if primary and self._migrate:
                    migrate(connection, self._migrations)
                version = _version(connection)
                self._require_version(version)
                role = _may_become(connection)
                iterative = _vector_version(connection) >= (0, 8)
                begin = _begin(self.tenant, role, durable=self._durable)
                if primary:
                    kind, settings = begin
                    first = Transaction(
                        connection, self.tenant, self._known(), (kind.format(_WRITE), settings)
                    )
                    first.run(
                        "INSERT INTO tenants (tenant) VALUES (%(tenant)s) ON CONFLICT DO NOTHING"
                    )
                    first.finish()
                halves = TypeInfo.fetch(connection, "halfvec")
                pool.open()
        except BaseException:
            pool.close(0)
            raise
        return _Ready(pool=pool, dsn=dsn, pid=os.getpid(), begin=begin, iterative=iterative)

    def _require_version(self, version: int) -> None:
        known = len(self._migrations)
        if version > known:
            raise StoreTooNew(
                f"{self.where} has tables of version {version}; this package knows {known}.",
                remedy="Upgrade agentmem on this machine.",
            )
        if version < known:
            raise NotAStore(
                f"{self.where} has {'no tables of agentmem' if not version else 'older tables'}.",
                remedy="Run `agentmem migrate --store DSN` as a role that may create them.",
            )

    def migrate(self) -> tuple[int, int]:
        """Bring the tables up to date; from which version, to which."""
        with as_our_errors(self.where), _connected(self.dsn) as connection:
            _require_server(connection)
            return migrate(connection, self._migrations)

    def apart(self, call: Callable[[psycopg.Connection[Any]], T]) -> T:
        """`call` with a connection of its own, outside any transaction."""
        self.ready()
        with as_our_errors(self.where), _connected(self.dsn) as connection:
            return call(connection)

    def close(self) -> None:
        """Close every connection; a second time does nothing."""
        with self._lock:
            self.closed = True
            for ready in (self._ready, self._replica):
                if ready is not None and ready.pid == os.getpid():
                    ready.pool.close(5)
            self._ready = self._replica = None

    def has_connections(self) -> bool:
        return self._ready is not None and self._ready.pid == os.getpid()


_READ, _WRITE = "REPEATABLE READ READ ONLY", "READ COMMITTED READ WRITE"


class _Stale(Exception):
    """The connection had ended before the transaction began."""


class _Taken(Exception):
    """A memory that was added has the id of another one."""

    def __init__(self, added: Mapping[bytes, str]) -> None:
        super().__init__("an id is taken")
        self.added = added


def _configure(connection: psycopg.Connection[Any]) -> None:
    adapters = connection.adapters
    adapters.register_dumper(Integers, _IntegersDumper)
    for name in ("text", "varchar"):
        adapters.register_loader(name, _Loader)
        adapters.register_loader(name, _BinaryLoader)


def _has_ended(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server ended an idle connection: then there is something to be read on it."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(connection, selectors.EVENT_READ)
        return bool(waiting.select(0))


def _is_direct(connection: psycopg.Connection[Any]) -> bool:
    """Whether this is the server itself: a pooler that changes connections says another number.

    Only there statements are prepared, which saves the server half of what a search costs it.
    """
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    return bool(pid == connection.info.backend_pid)


def _connected(dsn: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None, connect_timeout=10)
    _configure(connection)
    return connection


def _roll_back(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _begin(tenant: str, role: str | None, *, durable: bool) -> tuple[str, str]:
    """What opens a transaction; `{}` is its kind. Nothing of it outlives the transaction."""
    settings = {"search_path": f"{SCHEMA}, public, pg_temp", "agentmem.tenant": _escaped(tenant)}
    if role:
        settings["role"] = role
    if not durable:
        settings["synchronous_commit"] = "off"
    listed = ", ".join(
        f"set_config('{name}', {sql.quote(value)}, true)" for name, value in settings.items()
    )
    return "BEGIN ISOLATION LEVEL {}", f"SELECT {listed}".replace("%", "%%")


# ----------------------------------------------------------------------------
# Tables.


def migrate(
    connection: psycopg.Connection[Any], migrations: tuple[Step, ...] = MIGRATIONS
) -> tuple[int, int]:
    """Bring the tables up to date, one process at a time; from which version, to which."""
    before = _version(connection)
    if before >= len(migrations):
        return before, before
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        before = _version(connection)
        if before >= len(migrations):
            return before, before
        if not before:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        connection.execute(f"SET LOCAL search_path = {SCHEMA}, public")
        if not before:
            connection.execute("CREATE TABLE version (version integer NOT NULL)")
            connection.execute("INSERT INTO version VALUES (0)")
        _require_vector(connection)
        for table in TABLES:  # until it is guarded again, its owner sees all of its rows
            connection.execute(f"ALTER TABLE IF EXISTS {table} NO FORCE ROW LEVEL SECURITY")
        for step in migrations[before:]:
            for statement in step:
                connection.execute(statement)
        for table in TABLES:
            for statement in guarded(table):
                connection.execute(statement)
        connection.execute("UPDATE version SET version = %s", (len(migrations),))
        role = _role(connection)
        if role is not None:
            for statement in granted(role):
                connection.execute(statement)
    return before, len(migrations)


def _role(connection: psycopg.Connection[Any]) -> str | None:
    """The role that transactions become, made if it may be; None without the right to do so."""
    try:
        with connection.transaction():
            if not connection.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)
            ).fetchone():
                connection.execute(f"CREATE ROLE {ROLE} NOLOGIN")
    except (pg.InsufficientPrivilege, pg.DuplicateObject, pg.UniqueViolation):
        pass
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
        return None
    try:
        with connection.transaction():
            connection.execute(f"GRANT {ROLE} TO CURRENT_USER")
    except (pg.InsufficientPrivilege, pg.InternalError_):
        pass
    return ROLE


def _may_become(connection: psycopg.Connection[Any]) -> str | None:
    """The role without rights of its own, if this login may become it.

    A login that may not is held by the policies all the same, unless it is a
    superuser or bypasses them: then it is refused.
    """
    found = connection.execute(
        """SELECT (SELECT pg_has_role(r.oid, 'MEMBER') FROM pg_roles r WHERE r.rolname = %s),
            (SELECT u.rolsuper OR u.rolbypassrls FROM pg_roles u WHERE u.rolname = current_user)""",
        (ROLE,),
    ).fetchone()
    member, unbound = found or (False, False)
    if member:
        return ROLE
    if unbound:
        raise StoreReadOnly(
            "This login sees the rows of every tenant and may not become a role that does not.",
            remedy=f"Run `agentmem migrate`, or GRANT {ROLE} to it.",
        )
    return None


def _version(connection: psycopg.Connection[Any]) -> int:
    found = connection.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.version",)).fetchone()
    if found is None or found[0] is None:
        return 0
    row = connection.execute(f"TABLE {SCHEMA}.version").fetchone()
    return int(row[0]) if row else 0


def _require_server(connection: psycopg.Connection[Any]) -> None:
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreTooNew(
            f"PostgreSQL {connection.info.server_version // 10000} is too old.",
            remedy="Use PostgreSQL 15 or newer.",
        )


def _vector_version(connection: psycopg.Connection[Any]) -> tuple[int, ...]:
    found = connection.execute(
        "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    ).fetchone()
    return tuple(map(int, re.findall(r"\d+", found[0])[:2])) if found else (0,)


def _require_vector(connection: psycopg.Connection[Any]) -> None:
    if _vector_version(connection) < OLDEST_VECTOR:
        raise StoreError("pgvector is too old.", remedy="ALTER EXTENSION vector UPDATE (0.7+).")


# ----------------------------------------------------------------------------
# PostgreSQL's errors as ours, in one place.


def described(dsn: str) -> str:
    """A DSN without its password."""
    try:
        parts = conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise InvalidInput(
            "store", "…", f"is no connection string ({str(error).strip()})",
            remedy="Write postgresql://user@host/database.",
        ) from None  # fmt: skip
    host = parts.get("host") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{host if not str(host).startswith('/') else ''}{port}/" + str(
        parts.get("dbname") or ""
    )


def unavailable(where: str, error: object) -> StoreUnavailable:
    said = " ".join(str(error).split())
    return StoreUnavailable(
        f"{where} cannot be reached ({said}).",
        remedy="Check that the server runs; the next call tries again.",
    )


def closed(where: str) -> StoreClosed:
    return StoreClosed(f"{where} was closed.", remedy="Open it again with agentmem.open().")


def translated(error: Exception, where: str) -> StoreError | InvalidInput:
    """The typed error for what the server or the driver said."""
    said = " ".join(str(error).split())
    if isinstance(error, PoolTimeout):
        return StoreBusy(
            f"All connections to {where} were in use for too long.",
            remedy="Try again, or allow more connections.",
        )
    if isinstance(error, PoolClosed):
        return closed(where)
    if isinstance(error, pg.LockNotAvailable | pg.QueryCanceled | pg.TooManyConnections):
        return StoreBusy(f"{where} did not answer in time ({said}).", remedy="Try again.")
    if isinstance(error, pg.DiskFull | pg.OutOfMemory):
        return StoreFull(f"There is no room left for {where}.", remedy="Free some space.")
    if isinstance(error, pg.InsufficientPrivilege | pg.ReadOnlySqlTransaction):
        return StoreReadOnly(f"{where} may not be changed ({said}).", remedy="Check the grants.")
    if isinstance(error, pg.UndefinedFile | pg.FeatureNotSupported):
        return StoreError(f"{where}: {said}.", remedy="Install the pgvector extension.")
    if isinstance(error, pg.DataCorrupted | pg.IndexCorrupted):
        return StoreCorrupt(f"{where} is damaged ({said}).", remedy="Restore a backup.")
    if isinstance(error, pg.ProgramLimitExceeded):
        return InvalidInput("text", "…", f"is larger than PostgreSQL can keep ({said})")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return unavailable(where, said)
    return StoreError(f"{where}: {said}.", remedy="Run `agentmem doctor`.")


class as_our_errors:  # noqa: N801 - used as `with typed(where):`
    """Raise our errors for the driver's inside the block."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, psycopg.Error | PoolTimeout | PoolClosed):
            raise translated(error, self._where) from error
