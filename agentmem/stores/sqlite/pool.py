"""Connections, transactions and waiting: one writer, readers that never block it.

All statements of one read see one state of the store. A write holds SQLite's
write lock from its first statement, so it never has to be tried again halfway.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import getpid
from threading import get_ident
from typing import Any, TypeVar

from agentmem.base.errors import StoreBusy, StoreError
from agentmem.stores.sqlite.connection import Connection, Ledger, Read, Write, typed
from agentmem.stores.sqlite.opening import OpenFile, close_quietly, in_transaction
from agentmem.stores.tables import Row, corrupt

_IDLE_READERS = 8
T = TypeVar("T")


class Database(OpenFile):
    """The file, to be read and written; safe to use from several threads."""

    # Reading

    @contextmanager
    def reading(self) -> Iterator[Read]:
        """One consistent state; empty when there is no file yet."""
        with self._taken_reader() as connection:
            yield Read(connection, self._retrying(lambda: self._begin_read(connection)))

    @contextmanager
    def _taken_reader(self) -> Iterator[Connection]:
        with typed(self.name):
            connection, reusable = self.take_reader()
            process = getpid()
            try:
                yield connection
            finally:
                if getpid() == process:  # else it is that of the parent of this child
                    self.give_back(connection, reusable)

    def read(self, call: Callable[[Read], T], /) -> T:
        """What `call` gives of one consistent state."""
        with self.reading() as read:
            return call(read)

    def ask(self, sql: str, parameters: Sequence[Any]) -> list[Row]:
        """What one statement finds: one state of the store by itself, so nothing is begun."""
        with self._taken_reader() as connection:
            found: list[Row] = self._retrying(
                lambda: connection.execute(sql, parameters).fetchall()
            )
        return found

    def _begin_read(self, connection: Connection) -> str:
        """Begin to look at one state, unless that was begun; gives its ledger as it is written."""
        if not in_transaction(connection):
            connection.execute("BEGIN")
        return _written_ledger(connection)

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
                written = _written_ledger(connection)
                last, self._last_ledger = self._last_ledger, None
                parsed = last[1] if last is not None and last[0] == written else None
                write = Write(connection, written, parsed=parsed, numbers=self._numbers)
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
        written = transaction.finish()
        transaction.connection.execute("COMMIT")
        self._require_in_place()
        self._last_ledger = (written, transaction.ledger)
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


def _written_ledger(connection: Connection) -> str:
    found = connection.execute("SELECT data FROM ledger WHERE one = 1").fetchone()
    if found is None:
        raise corrupt("its ledger is missing")
    return str(found[0])


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
