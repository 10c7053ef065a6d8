"""Opening the file of a store: made, checked and brought up to date once, and closed again."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from agentmem.errors import StoreCorrupt, StoreError, StoreReplaced
from agentmem.stores import open_files
from agentmem.stores.sqlite import files
from agentmem.stores.sqlite.failures import CANTOPEN, READONLY, closed, code_of, is_busy, typed
from agentmem.stores.sqlite.ledger import Ledger, Row, corrupt
from agentmem.stores.sqlite.logs import require_own_log
from agentmem.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, SETTINGS, Step
from agentmem.stores.sqlite.transactions import Connection, Numbers, Write
from agentmem.stores.values import Durability
from agentmem.stores.whole_files import sync_folder

_LONGEST_WAIT_SECONDS = 0.02


class Connect(Protocol):
    """Opens the database at a URI such as `file:/a/b.db?mode=rw`."""

    def __call__(self, uri: str, /) -> Connection: ...


def connect_sqlite(uri: str) -> Connection:
    """A connection of Python's own SQLite, in autocommit and without waits: both are ours."""
    return sqlite3.connect(
        uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False,
        cached_statements=256,
    )  # fmt: skip


class OpenFile:
    """The file, opened when it is first needed; its connections are used by `Database`."""

    in_memory = False

    def __init__(
        self,
        path: Path,
        *,
        durability: Durability,
        busy_seconds: float,
        connect: Connect,
        new_secret: Callable[[], bytes],
        migrations: tuple[Step, ...] = MIGRATIONS,
        prepare: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self.path = path
        self.name = str(path)
        self.durability = durability
        self.busy_seconds = busy_seconds
        self._connect = connect
        self._migrations = migrations
        self._prepare = prepare
        self._secret = new_secret()
        self._watchers = 0
        self._start()
        open_files.note_holder(self)

    def _start(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._writing = threading.RLock()
        self._closed = False
        self._ready = False
        self.writable = True
        self._writer: Connection | None = None
        self._watcher: Connection | None = None
        self._idle: list[Connection] = []
        self._stand_ins: list[Connection] = []
        self._mark = files.Mark(self.path)
        self._last_ledger: tuple[str, Ledger] | None = None
        self._read_ledger: tuple[int, Ledger] | None = None
        self._numbers = Numbers()
        self._opened: open_files.OpenStore | None = None
        self._log: open_files.Key | None = None
        self._given_back = threading.Condition(self._lock)
        self._readers: list[int] = []
        self._writes = 0
        self._held = False

    def exists(self) -> bool:
        """Whether there is a store on the disk."""
        self._require_open()
        with typed(self.name), self._lock:
            self._require_open()
            return self._ensure_ready(create=False)

    def _require_open(self) -> None:
        if os.getpid() != self._process:
            self.go_on_in_child()
        if self._closed:
            raise closed(str(self.path))

    def _ensure_ready(self, *, create: bool) -> bool:
        """Open, check and migrate the file once; false when there is none and none was wanted."""
        if self._ready:
            return True
        if not files.inspect(self.path, known_version=len(self._migrations)) and not create:
            return False
        try:
            files.create(self.path, self._make_file)
        except OSError as error:
            raise _cannot_create(self.path, error) from error
        self._opened = open_files.note_open(self.path)
        try:
            self._check_log()
            self._writer = self._retrying(lambda: self._connect_to("rw"))
            self._retrying(self._make_current)
            self._ready = True
            while self._stand_ins:
                close_quietly(self._stand_ins.pop())
            self._prepare(self)
        except BaseException:
            self._ready = False
            self._drop_connections()
            raise
        return True

    def _make_file(self, path: Path) -> None:
        connection = connect_sqlite(path.absolute().as_uri())
        try:
            connection.execute("BEGIN IMMEDIATE")
            self._migrate(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        finally:
            connection.close()

    def _check_log(self) -> None:
        """Refuse a store whose log lost commits that were acknowledged (see `files.py`)."""
        if not files.has_log(self.path):
            self._mark.forget()
            return
        marked = self._mark.read()  # before the store: others may be writing to both
        # Read-only, because closing the last connection that may write removes the log.
        connection: Connection = self._retrying(lambda: self._connect_to("ro"))
        try:
            self._retrying(lambda: require_our_schema(connection, self.path, self._migrations))
            try:
                ledger = self._retrying(
                    lambda: connection.execute("SELECT data FROM ledger").fetchone()
                )
            except sqlite3.OperationalError as error:
                if is_busy(error):
                    raise
                ledger = None  # no tables yet, or none any more
            commits = Ledger(str(ledger[0])).commits if ledger else 0
            if ledger:
                self._retrying(lambda: require_own_log(self.path, connection, self._connect))
        finally:
            connection.close()
            self._log = None
        if commits < marked:
            raise corrupt(
                f"{marked - commits:,} acknowledged writes are missing because its log "
                f"({self.path.name}-wal) was altered; removing {self.path.name}-mark "
                "opens it without them"
            )

    def _make_current(self) -> None:
        connection = self._writer or self._connect_to("rw")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION_ID:
            raise files.not_a_store(self.path, "it belongs to another program")
        require_our_schema(connection, self.path, self._migrations)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            connection.execute("PRAGMA journal_mode = WAL")
        if version < len(self._migrations):
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._migrate(connection)
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back(connection)
                raise
            sync_folder(self.path.parent)
            require_our_schema(connection, self.path, self._migrations)

    def _migrate(self, connection: Connection) -> None:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for number, step in enumerate(self._migrations[version:], start=version + 1):
            for statement in step:
                connection.execute(statement)
            if number == 1:
                first = Write(connection, Ledger().write())
                connection.execute(
                    "INSERT INTO ledger (one, data) VALUES (1, ?)", (first.ledger.write(),)
                )
                first.insert(SETTINGS, [(first.take(SETTINGS)[0], "secret", self._secret.hex())])
                first.finish()
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")

    def _connect_to(self, mode: str) -> Connection:
        self._require_in_place()
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            connection = self._configured(self._connect(uri))
            self._note_log()
            return connection
        except sqlite3.Error as error:
            if code_of(error) not in (CANTOPEN, READONLY) or files.has_content(
                files.beside(self.path, "-wal")
            ):
                raise
            # A folder that cannot be written: without a log the file can be read as it stands.
            self.writable = False
            return self._configured(
                self._connect(f"{self.path.absolute().as_uri()}?mode=ro&immutable=1")
            )

    def _configured(self, connection: Connection) -> Connection:
        try:
            for setting in (
                "trusted_schema = OFF",
                "cell_size_check = ON",
                "secure_delete = ON",
                "temp_store = MEMORY",
                "cache_size = -8000",
                f"synchronous = {self.durability.upper()}",
                f"fullfsync = {'ON' if self.durability == 'full' else 'OFF'}",
                f"checkpoint_fullfsync = {'ON' if self.durability == 'full' else 'OFF'}",
            ):
                connection.execute(f"PRAGMA {setting}").fetchall()
            connection.execute("PRAGMA user_version").fetchall()  # a failing file fails here
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop_connections(self) -> None:
        with suppress(StoreReplaced):  # SQLite leaves the files alone when it closes a moved one
            self._require_in_place()
        self._close_connections()
        if not self._readers:  # else whoever reads last says so
            self._note_closed()
        self._mark.close(clean=not files.has_content(files.beside(self.path, "-wal")))

    def _note_closed(self) -> None:
        opened, self._opened = self._opened, None
        open_files.note_closed(opened)

    def _close_connections(self) -> None:
        for connection in self._taken_connections():
            close_quietly(connection)

    def _taken_connections(self) -> list[Connection]:
        """The connections nobody uses at this moment, which are not used again."""
        connections = [c for c in (*self._idle, self._watcher, self._writer) if c is not None]
        self._idle, self._watcher, self._writer, self._log = [], None, None, None
        return connections

    # The files under the connections

    def _note_log(self) -> None:
        """Note which log was opened: it stays for as long as a connection does."""
        if self._log is None and self.writable:
            self._log = open_files.key_of(files.beside(self.path, "-wal"))

    def _require_in_place(self) -> None:
        """Refuse to go on when others took the file or its log away: nobody would find the write.

        Nobody takes a log away while it is locked. Where it is gone, the locks
        were dropped, because this process opened the file past the store and
        closed it. The connections then hold pages that would overwrite those of
        others, so they are not even closed.
        """
        if self._opened is None:
            return
        if open_files.key_of(self.path) != self._opened.key:
            raise StoreReplaced(
                f"{self.path} was deleted, moved or replaced while it was open.",
                remedy="What was written since is not in it. Close the store and open it again.",
            )
        if self._log is None:
            return
        if open_files.key_of(files.beside(self.path, "-wal")) != self._log:
            error = StoreReplaced(
                f"The log of {self.path} was taken away while it was open.",
                remedy="Open it in a new process. Never open or copy the files of an open store: "
                "that drops its locks; use backup().",
            )
            with self._lock:
                self._give_up(error)
            raise error

    def _give_up(self, error: StoreError) -> None:
        """Use the file no more in this process, and leave it as it is."""
        opened, self._opened, self._ready = self._opened, None, False
        connections = self._taken_connections()
        if opened is not None:
            open_files.spoil(opened.key, error, *connections)
            open_files.note_closed(opened)

    # Forks

    def hold_writes(self, wait_seconds: float, /) -> Callable[[], object] | None:
        """Wait until nobody writes; what this gives lets writes go on."""
        writing = self._writing
        return writing.release if writing.acquire(timeout=wait_seconds) else None

    def hold_all(self, wait_seconds: float, /) -> Callable[[], object] | None:
        """Wait until nobody reads, and close every connection: none may cross a fork."""
        lock = self._lock
        if not lock.acquire(timeout=wait_seconds):
            return None
        self._held = True
        idle = self._given_back.wait_for(lambda: not self._readers, wait_seconds)
        self._held = False
        self._given_back.notify_all()
        if idle and not self._writes:
            self._close_connections()
        return lock.release

    def go_on_in_child(self) -> None:
        """Begin anew with connections of its own; those that could not be closed are not used."""
        opened, was_closed = self._opened, self._closed
        in_use = bool(self._readers) or not self._lock.acquire(blocking=False)
        connections = self._taken_connections()
        if opened is not None and (connections or in_use):
            error = StoreError(
                f"This process was forked while its parent was using {self.path}.",
                remedy="Fork when no other thread reads or writes, or open the store after it.",
            )
            open_files.spoil(opened.key, error, *connections)
        self._start()
        self._closed = was_closed

    def has_connections(self) -> bool:
        """Whether there is something to close."""
        return (self._ready or bool(self._stand_ins)) and os.getpid() == self._process

    def close(self) -> None:
        """Close every connection; the last process to close moves the log into the file."""
        if self._closed or os.getpid() != self._process:
            return
        with self._writing, self._lock:
            self._closed = True
            while self._stand_ins:
                close_quietly(self._stand_ins.pop())
            was_ready, self._ready = self._ready, False
            if was_ready:
                self._drop_connections()

    def _roll_back(self, connection: Connection) -> None:
        if os.getpid() != self._process:
            return  # a child that was forked inside the block
        try:
            if in_transaction(connection):
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            # A connection that cannot even undo is not used again.
            close_quietly(connection)
            self._writer, self._log = None, None

    def _nothing_yet(self) -> Connection:
        """A database in memory with no rows, read in place of the file that is not there."""
        connection = self._connect("file::memory:")
        self._migrate(connection)
        return connection

    def _retrying(self, attempt: Callable[[], Any], wait_seconds: float | None = None) -> Any:
        """What `attempt` gives, tried again at random short intervals while others hold a lock.

        Random waits of bounded length let every waiting process through;
        SQLite's own growing waits starve the one that has waited longest.
        """
        wait = self.busy_seconds if wait_seconds is None else wait_seconds
        deadline = None
        longest = 0.001
        while True:
            try:
                return attempt()
            except sqlite3.Error as error:
                now = time.monotonic()
                deadline = now + wait if deadline is None else deadline
                if not is_busy(error) or now > deadline:
                    raise
            time.sleep(random.uniform(0, longest))  # noqa: S311 # spreading waits, not secrets
            longest = min(longest * 1.5, _LONGEST_WAIT_SECONDS)


def require_our_schema(
    connection: Connection, path: Path, migrations: tuple[Step, ...] = MIGRATIONS
) -> None:
    """Refuse a file with any table, index, trigger or view that its version does not have.

    Asked before anything else is read from a file: a statement on a table that
    somebody made a view, or gave a trigger, runs what they wrote.
    """
    connection.execute("PRAGMA trusted_schema = OFF").fetchall()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise files.too_new(path, version, len(migrations))
    found = schema_of(connection)
    if found and version < 1:
        raise corrupt("its schema version is missing, and it has tables")
    if found != _expected_schema(migrations[:version]):
        raise StoreCorrupt(
            f"{path} has other tables, indexes, triggers or views than agentmem made.",
            remedy="Nothing in it was run or changed. Restore a backup, and do not use it if "
            "somebody sent it to you.",
        )


def schema_of(connection: Connection) -> list[Row]:
    """Everything in the file's schema as it was made; the figures of ANALYZE left out."""
    return [
        row
        for row in connection.execute(
            "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
        ).fetchall()
        if row not in _STATISTICS
    ]


_STATISTICS = tuple(
    ("table", name, name, f"CREATE TABLE {name}({columns})")
    for name, columns in (
        ("sqlite_stat1", "tbl,idx,stat"),
        ("sqlite_stat4", "tbl,idx,neq,nlt,ndlt,sample"),
    )
)
_EXPECTED: dict[int, list[Row]] = {}


def _expected_schema(migrations: tuple[Step, ...]) -> list[Row]:
    key = hash(migrations)
    if key not in _EXPECTED:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            for step in migrations:
                for statement in step:
                    connection.execute(statement)
            _EXPECTED[key] = schema_of(connection)
        finally:
            connection.close()
    return _EXPECTED[key]


def _cannot_create(path: Path, error: OSError) -> Exception:
    from agentmem.errors import StoreFull, StoreReadOnly

    if error.errno == 28:
        return StoreFull(f"There is no room left for {path}.", remedy="Free some space.")
    return StoreReadOnly(
        f"{path} cannot be created ({error.strerror}).",
        remedy="Choose a folder you may write to.",
    )


def in_transaction(connection: Connection) -> bool:
    return bool(getattr(connection, "in_transaction", False))


def close_quietly(connection: Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()
