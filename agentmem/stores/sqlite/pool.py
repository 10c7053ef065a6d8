"""The file of a store: opened when it is first needed, read and written, closed; and forks.

One writer, readers that never block it. All statements of one read see one state of the store.
A write holds SQLite's write lock from its first statement, so it never has to be tried again
halfway.
"""

from __future__ import annotations

import errno
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from os import getpid
from pathlib import Path
from threading import get_ident
from typing import Any, TypeVar

from agentmem.base.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreReplaced
from agentmem.stores.open_files import (
    Key,
    OpenStore,
    alone,
    key_of,
    new_file,
    note_closed,
    note_holder,
    note_open,
    spoil,
    sync_folder,
)
from agentmem.stores.sqlite.connection import (
    CANTOPEN,
    READONLY,
    Connection,
    Ledger,
    closed,
    code_of,
    in_transaction,
    is_busy,
    typed,
)
from agentmem.stores.sqlite.opening import (
    Connect,
    Mark,
    beside,
    close_quietly,
    connect_sqlite,
    has_log,
    inspect,
    not_a_store,
    require_our_schema,
    require_own_log,
    size_of,
)
from agentmem.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS, Step
from agentmem.stores.sqlite.transaction import Read, Write, written_ledger
from agentmem.stores.tables import SETTINGS, corrupt
from agentmem.stores.values import Durability

_LONGEST_WAIT_SECONDS = 0.02
_IDLE_READERS = 8
T = TypeVar("T")


class Database:
    """The file, to be read and written; safe to use from several threads."""

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
        note_holder(self)

    def _start(self) -> None:
        self._lock = threading.RLock()
        self._writing = threading.RLock()
        self._closed = False
        self._ready = False
        self.writable = True
        self._writer: Connection | None = None
        self._watcher: Connection | None = None
        self._idle: list[Connection] = []
        self._mark = Mark(self.path)
        self._last_write: Write | None = None
        self._read_ledger: tuple[int, Ledger] | None = None
        self._opened: OpenStore | None = None
        self._log: Key | None = None
        self._given_back = threading.Condition(self._lock)
        self._readers: list[int] = []
        self._writes = 0
        self._held = False

    def exists(self) -> bool:
        """Whether there is a store on the disk."""
        with typed(self.name), self._lock:
            self._require_open()
            return self._ensure_ready(create=False)

    def _require_open(self) -> None:
        if self._closed:
            raise closed(self.name)

    def _ensure_ready(self, *, create: bool) -> bool:
        """Open, check and migrate the file once; false when there is none and none was wanted."""
        if self._ready:
            return True
        if not inspect(self.path, known_version=len(self._migrations)) and not create:
            return False
        if not self.path.exists():
            self._create()
        self._opened = note_open(self.path)
        try:
            self._check_log()
            self._writer = self._retrying(lambda: self._connect_to("rw"))
            self._retrying(self._make_current)
            self._ready = True
            self._close_idle()  # they stood in for the file
            self._prepare(self)
        except BaseException:
            self._ready = False
            self._drop_connections()
            raise
        return True

    def _create(self) -> None:
        """Make a file only its owner can read, and its folder.

        It is filled under another name, so that it appears complete or not at
        all: a power cut leaves nothing that looks like something else.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # When another process was first, its file is the one.
            with (
                suppress(FileExistsError),
                new_file(self.path, replace=False) as new,
                closing(connect_sqlite(new.absolute().as_uri())) as connection,
            ):
                connection.execute("BEGIN IMMEDIATE")
                self._migrate(connection)
                connection.execute("COMMIT")
                connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise StoreFull(
                    f"There is no room left for {self.path}.", remedy="Free some space."
                ) from error
            raise StoreReadOnly(
                f"{self.path} cannot be created ({error.strerror}).",
                remedy="Choose a folder you may write to.",
            ) from error

    def _check_log(self) -> None:
        """Refuse a store whose log lost commits that were acknowledged (see above)."""
        if not has_log(self.path):
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
            # It opens the file once more; closing that would drop the locks of others here, who
            # have looked at the log themselves.
            with alone(self._opened) as nobody_else:
                if ledger and nobody_else:
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
            raise not_a_store(self.path, "it belongs to another program")
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
            if code_of(error) not in (CANTOPEN, READONLY) or size_of(beside(self.path, "-wal")):
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
        if not size_of(beside(self.path, "-wal")):
            self._mark.remove()

    def _note_closed(self) -> None:
        opened, self._opened = self._opened, None
        note_closed(opened)

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
            self._log = key_of(beside(self.path, "-wal"))

    def _require_in_place(self) -> None:
        """Refuse to go on when others took the file or its log away: nobody would find the write.

        Nobody takes a log away while it is locked. Where it is gone, the locks
        were dropped, because this process opened the file past the store and
        closed it. The connections then hold pages that would overwrite those of
        others, so they are not even closed.
        """
        if self._opened is None:
            return
        if key_of(self.path) != self._opened.key:
            raise StoreReplaced(
                f"{self.path} was deleted, moved or replaced while it was open.",
                remedy="What was written since is not in it. Close the store and open it again.",
            )
        if self._log is None:
            return
        if key_of(beside(self.path, "-wal")) != self._log:
            error = StoreReplaced(
                f"The log of {self.path} was taken away while it was open.",
                remedy="Open it in a new process. Never open or copy the files of an open store: "
                "that drops its locks; use backup().",
            )
            with self._lock:
                if self._closed:
                    raise closed(self.name)  # another thread closed it, and so took the log away
                self._give_up(error)
            raise error

    def _give_up(self, error: StoreError) -> None:
        """Use the file no more in this process, and leave it as it is."""
        opened, self._opened, self._ready = self._opened, None, False
        connections = self._taken_connections()
        if opened is not None:
            spoil(opened.key, error, *connections)
            note_closed(opened)

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
            spoil(opened.key, error, *connections)
        self._start()
        self._closed = was_closed

    def has_connections(self) -> bool:
        """Whether there is something to close."""
        return self._ready or bool(self._idle)

    def close(self) -> None:
        """Close every connection; the last process to close moves the log into the file."""
        if self._closed:
            return
        with self._writing, self._lock:
            self._closed = True
            was_ready, self._ready = self._ready, False
            if was_ready:
                self._drop_connections()
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            close_quietly(self._idle.pop())

    def _roll_back(self, connection: Connection) -> None:
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

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Read]:
        """One consistent state; empty when there is no file yet."""
        with typed(self.name):
            connection, reusable = self.take_reader()
            process = getpid()
            try:
                yield Read(connection, self._retrying)
            finally:
                if getpid() == process:  # else it is that of the parent of this child
                    self.give_back(connection, reusable)

    def read(self, call: Callable[[Read], T], /) -> T:
        """What `call` gives of one consistent state."""
        with self.reading() as read:
            return call(read)

    def take_reader(self) -> tuple[Connection, bool]:
        """A connection to read with, and whether it is one to the file."""
        thread = get_ident()
        with self._lock:
            while self._held and thread not in self._readers:  # a fork is waiting
                self._given_back.wait()
            self._require_open()
            ready = self._ensure_ready(create=False)
            found = self._idle.pop() if self._idle else None if ready else self._nothing_yet()
            self._readers.append(thread)
        if found is not None:
            return found, ready
        try:
            return self._open_reader(), True
        except BaseException:
            with self._lock:
                self._forget_reader()
            raise

    def _open_reader(self) -> Connection:
        connection: Connection = self._retrying(lambda: self._connect_to("rw"))
        connection.execute("PRAGMA query_only = ON")
        return connection

    def give_back(self, connection: Connection, reusable: bool) -> None:
        """End what was read with a connection, and keep it for the next."""
        usable = True
        try:
            if in_transaction(connection):
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            usable = False
        with self._lock:
            full = self._closed or len(self._idle) >= _IDLE_READERS
            if usable and self._ready == reusable and not full:
                self._idle.append(connection)
            else:
                close_quietly(connection)
            self._forget_reader()

    def _forget_reader(self) -> None:
        thread = get_ident()
        self._readers.remove(thread if thread in self._readers else self._readers[-1])
        if self._held:
            self._given_back.notify_all()
        if self._closed and not self._readers:
            self._note_closed()

    def data_version(self) -> int:
        """A number that changes whenever anybody has committed something.

        SQLite counts for each connection alone, so which one was asked is part
        of it: a forked child, with a connection of its own, begins anew.
        """
        with typed(self.name), self._lock:
            self._require_open()
            if not self._ensure_ready(create=False):
                return 0
            if self._watcher is None:
                self._watcher = self._open_reader()
                self._watchers += 1
            watcher = self._watcher
            found = self._retrying(lambda: watcher.execute("PRAGMA data_version").fetchone())
            return self._watchers << 32 | int(found[0])

    def ledger(self) -> Ledger:
        """The tallies as of now, to look at; read anew only when somebody has committed since."""
        version = self.data_version()  # before the ledger: what is kept is never older than it
        kept = self._read_ledger
        if kept is None or kept[0] != version:
            with self.reading() as read:
                kept = self._read_ledger = (version, read.ledger)
        return kept[1]

    def first_secret(self, there: str | None, /) -> str:
        """The secret, which is made with the file."""
        if there is None:
            raise corrupt("its secret is missing")
        return there

    # Writing

    def write(self, call: Callable[[Write], T], /) -> T:
        """What `call` gives, all of it written or nothing."""
        with self.writing() as write:
            return call(write)

    @contextmanager
    def writing(self, *, wait_seconds: float | None = None) -> Iterator[Write]:
        """A transaction; committed and durable when the block ends, undone when it raises."""
        with self.alone(wait_seconds=wait_seconds) as connection:
            process = getpid()
            try:
                self._retrying(lambda: connection.execute("BEGIN IMMEDIATE"), wait_seconds)
                last, self._last_write = self._last_write, None
                write = Write(connection, written_ledger(connection), last)
                yield write
                if getpid() != process:
                    raise StoreError("This process was forked inside a write; its parent goes on.")
                self._end(write)
            except BaseException:
                if getpid() == process:
                    self._roll_back(connection)
                raise

    def _end(self, transaction: Write) -> None:
        if not transaction.changed():
            transaction.connection.execute("ROLLBACK")
            return
        transaction.finish()
        transaction.connection.execute("COMMIT")
        self._require_in_place()
        self._last_write = transaction
        if self.durability == "full":
            self._mark.write(transaction.ledger.commits)

    @contextmanager
    def alone(self, *, wait_seconds: float | None = None) -> Iterator[Connection]:
        """The writing connection, which nobody else uses meanwhile; no transaction is begun."""
        self._take_turn(self.busy_seconds if wait_seconds is None else wait_seconds)
        process = getpid()
        try:
            with typed(self.name):
                connection = self._ready_writer()
                self._require_in_place()
                yield connection
        finally:
            if getpid() == process:  # a child that was forked inside the block has other locks
                self._end_turn()

    def _take_turn(self, wait: float) -> None:
        self._require_open()
        if not self._writing.acquire(timeout=wait):
            raise StoreBusy(
                f"Another thread held {self.path} for {wait:g} s.",
                remedy="Try again, or raise busy_seconds.",
            )
        self._writes += 1

    def _end_turn(self) -> None:
        self._writes -= 1
        self._writing.release()

    def _ready_writer(self) -> Connection:
        with self._lock:
            self._require_open()
            self._ensure_ready(create=True)
            if self._writer is None:
                self._writer = self._retrying(lambda: self._connect_to("rw"))
            self._note_log()
            return self._writer

    def vacuum(self, *, wait_seconds: float | None = None) -> None:
        """Write the whole file anew, without what is unused."""
        with self.writing(wait_seconds=wait_seconds) as write:
            write.must_commit = True  # what is kept in other places is another file (`opening.py`)
        with self.alone(wait_seconds=wait_seconds) as connection:
            self._retrying(lambda: connection.execute("VACUUM"), wait_seconds)


# ----------------------------------------------------------------------------
# A database that lives in this process alone: one connection, used by one thread at a time.


class MemoryDatabase(Database):
    """SQLite's `:memory:` in place of a file.

    Several connections to one database in memory would wait for each other's
    locks, so reads and writes take turns with one. A read within a read, or
    within a write, of the same thread sees what that one sees. A forked child
    goes on with a copy of its own.
    """

    in_memory = True
    _commits = 0

    def hold_all(self, wait_seconds: float, /) -> None:
        """Nothing: who reads holds the turn that `hold_writes` waits for."""

    def go_on_in_child(self) -> None:
        """Keep the connection, which is a copy, and begin with locks that nobody holds."""
        self._lock, self._writing = threading.RLock(), threading.RLock()
        self._given_back = threading.Condition(self._lock)
        if self._writer is not None:
            self._roll_back(self._writer)  # what another thread of the parent had begun

    def _ensure_ready(self, *, create: bool) -> bool:
        if not self._ready:
            connection = self._configured(self._connect("file::memory:"))
            self._migrate(connection)
            self._writer, self._ready = connection, True
        return True

    def _connect_to(self, mode: str) -> Connection:
        raise corrupt("it went with the write that could not be undone")

    def take_reader(self) -> tuple[Connection, bool]:
        """The connection, and whether nothing is read or written with it yet."""
        self._take_turn(self.busy_seconds)
        try:
            connection = self._ready_writer()
        except BaseException:
            self._end_turn()
            raise
        return connection, not in_transaction(connection)

    def give_back(self, connection: Connection, reusable: bool) -> None:
        """End what was read with the connection, and let the next have it."""
        try:
            if reusable and in_transaction(connection):
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        finally:
            self._end_turn()

    def data_version(self) -> int:
        """How often something was committed."""
        self._require_open()
        return self._commits

    def _end(self, transaction: Write) -> None:
        changed = transaction.changed()
        super()._end(transaction)
        self._commits += changed

    def _drop_connections(self) -> None:
        if self._writer is not None:
            close_quietly(self._writer)
        self._writer = None
