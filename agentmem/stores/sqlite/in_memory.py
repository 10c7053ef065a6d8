"""A database that lives in this process alone: one connection, used by one thread at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import suppress

from agentmem.stores.sqlite.connection import Database
from agentmem.stores.sqlite.failures import closed
from agentmem.stores.sqlite.ledger import corrupt
from agentmem.stores.sqlite.opening import close_quietly, in_transaction
from agentmem.stores.sqlite.transactions import Connection, Write


class MemoryDatabase(Database):
    """SQLite's `:memory:` in place of a file.

    Several connections to one database in memory would wait for each other's
    locks, so reads and writes take turns with one. A read within a read, or
    within a write, of the same thread sees what that one sees. A forked child
    goes on with a copy of its own.
    """

    in_memory = True
    _commits = 0

    def _require_open(self) -> None:
        if os.getpid() != self._process:
            self.go_on_in_child()
        if self._closed:
            raise closed(self.name)

    def hold_all(self, wait_seconds: float, /) -> None:
        """Nothing: who reads holds the turn that `hold_writes` waits for."""

    def go_on_in_child(self) -> None:
        """Keep the connection, which is a copy, and begin with locks that nobody holds."""
        self._process = os.getpid()
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

    def begin_read(self, connection: Connection) -> str:
        """Begin to look at one state, unless that was begun; gives its ledger as it is written."""
        if not in_transaction(connection):
            return super().begin_read(connection)
        return str(connection.execute("SELECT data FROM ledger WHERE one = 1").fetchone()[0])

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
        super()._end(transaction)
        self._commits += not transaction.abandoned

    def _drop_connections(self) -> None:
        if self._writer is not None:
            close_quietly(self._writer)
        self._writer = None
