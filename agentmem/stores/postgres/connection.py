"""Connections, transactions and their errors: the only file that talks to psycopg.

No session state is relied on: what a transaction needs it sets for itself, so a pooler
may give each transaction another connection.
"""

from __future__ import annotations

import os
import random
import re
import selectors
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

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
from agentmem.stores.postgres.tables import escaped, plain
from agentmem.stores.postgres.transaction import READ, WRITE, Halves, Numbers, Transaction

try:
    import psycopg
    from psycopg import conninfo, sql
    from psycopg import errors as pg
    from psycopg.adapt import Dumper
    from psycopg.types import TypeInfo
    from psycopg.types.string import TextLoader
except ImportError:
    raise MissingExtra("psycopg", extra="postgres", purpose="A store in PostgreSQL") from None

T = TypeVar("T")
_IDLE_SECONDS = 600.0
"""A connection that nobody needed for so long is closed."""
PREPARED_AFTER = 3
"""A statement that one connection sends more often than this is prepared."""
MOST_TRIES = 8
"""A transaction that lost against another one is tried so often."""
MOST_NUMBERS = 100_000
"""The numbers of so many owners and strands are remembered."""
_RETRIED = (
    pg.SerializationFailure, pg.DeadlockDetected, pg.ForeignKeyViolation, pg.UniqueViolation,
)  # fmt: skip
"""A row that was referred to and is gone has a new number, or none, and one that somebody else
made at the same moment is there: looked up again, each is right."""


class _Loader(TextLoader):
    def load(self, data: Any) -> Any:
        text = str(bytes(data), "utf-8")
        return plain(text) if "\x01" in text else text


class _BinaryLoader(_Loader):
    format = psycopg.pq.Format.BINARY


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
                head = struct.pack(">ihh", 4 + len(vector), len(vector) // 2, 0)
                parts.append(head + np.frombuffer(vector, "<f2").astype(">f2").tobytes())
            # Dimensions, whether NULLs may be in it, type, size, from where it counts.
            shape = (1, 1, info.oid, len(parts), 1) if parts else (0, 0, info.oid)
            return struct.pack(f">{len(shape)}i", *shape) + b"".join(parts)

    return _HalvesDumper


# ----------------------------------------------------------------------------
# The pool.


class _Pool:
    """Connections to one server, each for one transaction at a time, opened as they are needed."""

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        *,
        most: int,
        busy_seconds: float,
        where: str,
    ) -> None:
        self._connect = connect
        self._free = threading.Semaphore(most)
        self._busy_seconds = busy_seconds
        self._where = where
        self._idle: list[tuple[float, psycopg.Connection[Any]]] = []
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self, timeout_seconds: float | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection that the server has not ended, outside any transaction."""
        wait = self._busy_seconds if timeout_seconds is None else timeout_seconds
        if not self._free.acquire(timeout=wait):
            raise StoreBusy(
                f"All connections to {self._where} were in use for too long.",
                remedy="Try again, or allow more connections.",
            )
        try:
            connection = self._living() or self._connect()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _living(self) -> psycopg.Connection[Any] | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                _, connection = self._idle.pop()
            if not _has_ended(connection):
                return connection
            connection.close()

    def _give_back(self, connection: psycopg.Connection[Any]) -> None:
        if not connection.closed and connection.info.transaction_status != 0:
            try:
                connection.execute("ROLLBACK")
            except psycopg.Error:
                connection.close()
        with self._lock:
            if not connection.closed:
                self._idle.append((time.monotonic(), connection))
        self._close_idle(0.0 if self._closed else _IDLE_SECONDS)

    def _close_idle(self, seconds: float) -> None:
        before = time.monotonic() - seconds
        with self._lock:
            old = [connection for since, connection in self._idle if since <= before]
            self._idle = [one for one in self._idle if one[0] > before]
        for connection in old:
            connection.close()

    def close(self) -> None:
        """Close what nobody uses, and the others when they are given back."""
        self._closed = True
        self._close_idle(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """What was found out about the server when it was first connected to."""

    pool: _Pool
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
        """Where the log stood after the last write of this object, with a replica only."""
        self._numbers: Numbers = {}
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
    def reading(self) -> Iterator[Transaction]:
        """One state of the database, for as long as it takes; nothing is tried again."""
        ready = self.ready()
        with as_our_errors(self.where), ready.pool.connection() as connection:
            transaction = Transaction(connection, self.tenant, self._known(), ready.beginning(READ))
            yield transaction
            transaction.finish()

    def _tried(self, call: Callable[[Transaction], T], *, read: bool) -> T:
        deadline = time.monotonic() + self.busy_seconds
        for attempt in range(MOST_TRIES):
            ready = self._reads_from() if read else self.ready()
            begin = ready.beginning(READ if read else WRITE)
            try:
                with as_our_errors(self.where, but=_RETRIED), ready.pool.connection() as connection:
                    transaction = Transaction(connection, self.tenant, self._known(), begin)
                    result = call(transaction)
                    transaction.finish()
                    if not read and self._read_dsn is not None:
                        lsn = connection.execute("SELECT pg_current_wal_insert_lsn()::text")
                        self._written = str((lsn.fetchone() or ("0/0",))[0])
                    return result
            except _RETRIED as error:
                last: Exception = error
                self._numbers.clear()
                if error.diag.constraint_name == "memories_tenant_key_key":
                    taken = self._first_taken(transaction.added)
                    if taken is not None:
                        raise DuplicateRecord(taken) from None
            if time.monotonic() > deadline:
                break
            time.sleep(random.uniform(0, 0.005 * 2**attempt))  # noqa: S311 - no secret
        raise StoreBusy(
            f"Others changed the same rows of {self.where} {MOST_TRIES} times in a row.",
            remedy="Try again.",
        ) from last

    def _known(self) -> Numbers:
        """The numbers of owners and strands that were seen so far; not too many."""
        if len(self._numbers) > MOST_NUMBERS:
            self._numbers = {}
        return self._numbers

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

    # -- opening ----------------------------------------------------------------------

    def ready(self) -> _Ready:
        """The pool of the primary, with tables that are as they must be."""
        with self._lock:
            if self.closed:
                raise StoreClosed(
                    f"{self.where} was closed.", remedy="Open it again with agentmem.open()."
                )
            if self._ready is None or self._ready.pid != os.getpid():
                self._ready = self._opened(self.dsn, primary=True)
            return self._ready

    @property
    def iterative(self) -> bool:
        """Whether the server's pgvector goes on looking when a filter left too few."""
        return self.ready().iterative

    def _reads_from(self) -> _Ready:
        primary = self.ready()
        if self._read_dsn is None:
            return primary
        try:
            with self._lock:
                if self._replica is None or self._replica.pid != os.getpid():
                    self._replica = self._opened(self._read_dsn, primary=False)
                replica = self._replica
            return replica if self._caught_up(replica) else primary
        except (StoreError, psycopg.Error):
            return primary  # it is not there, or has not heard of the tables yet

    def _caught_up(self, replica: _Ready) -> bool:
        """Wait for what was written here last; false when it takes too long."""
        wanted = self._written
        if wanted is None:
            return True
        deadline = time.monotonic() + self._replica_seconds
        with replica.pool.connection(self._replica_seconds) as connection:
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
                    connection, self.tenant, self._known(), (kind.format(WRITE), settings)
                )
                first.run("INSERT INTO tenants (tenant) VALUES (%(tenant)s) ON CONFLICT DO NOTHING")
                first.finish()
            halves = TypeInfo.fetch(connection, "halfvec")

        def connect() -> psycopg.Connection[Any]:
            made = _connected(dsn)
            if halves is not None:
                made.adapters.register_dumper(Halves, _halves_dumper(halves))
            if _is_direct(made):
                made.prepare_threshold = PREPARED_AFTER
            return made

        pool = _Pool(
            connect, most=self._connections, busy_seconds=self.busy_seconds, where=self.where
        )
        return _Ready(pool=pool, pid=os.getpid(), begin=begin, iterative=iterative)

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
                    ready.pool.close()
            self._ready = self._replica = None

    def has_connections(self) -> bool:
        return self._ready is not None and self._ready.pid == os.getpid()


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
    for name in ("text", "varchar"):
        connection.adapters.register_loader(name, _Loader)
        connection.adapters.register_loader(name, _BinaryLoader)
    return connection


def _begin(tenant: str, role: str | None, *, durable: bool) -> tuple[str, str]:
    """What opens a transaction; `{}` is its kind. Nothing of it outlives the transaction."""
    settings = {"search_path": f"{SCHEMA}, public, pg_temp", "agentmem.tenant": escaped(tenant)}
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
    known = "SELECT 1 FROM pg_roles WHERE rolname = %s"
    refused = (pg.InsufficientPrivilege, pg.DuplicateObject, pg.UniqueViolation)
    with suppress(*refused), connection.transaction():
        if not connection.execute(known, (ROLE,)).fetchone():
            connection.execute(f"CREATE ROLE {ROLE} NOLOGIN")
    if not connection.execute(known, (ROLE,)).fetchone():
        return None
    with suppress(pg.InsufficientPrivilege, pg.InternalError_), connection.transaction():
        connection.execute(f"GRANT {ROLE} TO CURRENT_USER")
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


def translated(error: psycopg.Error, where: str) -> StoreError | InvalidInput:
    """The typed error for what the server or the driver said."""
    said = " ".join(str(error).split())
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
        return StoreUnavailable(
            f"{where} cannot be reached ({said}).",
            remedy="Check that the server runs; the next call tries again.",
        )
    return StoreError(f"{where}: {said}.", remedy="Run `agentmem doctor`.")


class as_our_errors:  # noqa: N801 - used as `with typed(where):`
    """Raise our errors for the driver's inside the block."""

    def __init__(self, where: str, *, but: tuple[type[psycopg.Error], ...] = ()) -> None:
        self._where = where
        self._but = but

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, psycopg.Error) and not isinstance(error, self._but):
            raise translated(error, self._where) from error
