"""The store of record: one SQLite file, safe against crashes, power cuts and other processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args

from agentmem.base.checks import require_choice, require_count, require_number, require_path
from agentmem.base.types import Memory, Scope
from agentmem.stores.base import BaseStore
from agentmem.stores.sqlite import reading, writing
from agentmem.stores.sqlite.connection import Read, Write
from agentmem.stores.sqlite.erasing import clean_files
from agentmem.stores.sqlite.feed import SqliteFeed
from agentmem.stores.sqlite.opening import Connect, connect_sqlite
from agentmem.stores.sqlite.pool import Database, MemoryDatabase
from agentmem.stores.sqlite.reading import known_memories
from agentmem.stores.sqlite.schema import MIGRATIONS, Step
from agentmem.stores.sqlite.upkeep import SqliteUpkeep, check_small
from agentmem.stores.tables import OWNERS
from agentmem.stores.values import Durability, Entry, Receipt, Source, check_entries
from agentmem.stores.writing import note_source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CHECKED_BELOW_BYTES = 8 << 20
IN_MEMORY = ":memory:"
T = TypeVar("T")


AT_ONCE = 1_000
"""So many rows are read by one statement."""


class SqliteStore(BaseStore[Read, Write]):
    """A `Store` in one file.

    Nothing is created before the first write; until then every read finds
    nothing. A write that has returned survives a crash of the process and, with
    `durability="full"`, a power cut; with "normal" a power cut may take the last
    writes, never the file. Threads may share one store, processes may each open
    it. Files below `checked_below_bytes` are checked completely when opened.
    `":memory:"` is a store without a file that ends with this object.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        durability: Durability = "full",
        busy_seconds: float = 30.0,
        checked_below_bytes: int = CHECKED_BELOW_BYTES,
        connect: Connect = connect_sqlite,
        random_bytes: Callable[[int], bytes] = os.urandom,
        migrations: tuple[Step, ...] = MIGRATIONS,
    ) -> None:
        in_memory = path == IN_MEMORY
        self.path = Path(IN_MEMORY) if in_memory else Path(require_path(path)).absolute()
        require_choice(durability, get_args(Durability), "durability")
        require_number(busy_seconds, "busy_seconds", low=0)
        require_count(checked_below_bytes, "checked_below_bytes")
        self._database = (MemoryDatabase if in_memory else Database)(
            self.path,
            durability="normal" if in_memory else durability,
            busy_seconds=busy_seconds,
            connect=connect,
            new_secret=lambda: random_bytes(32),
            migrations=migrations,
            prepare=partial(_prepare, checked_below_bytes),
        )
        self._wire(self._database)
        self.feed = SqliteFeed(self._database, reading)
        self.upkeep = SqliteUpkeep(self._database)

    @property
    def folder(self) -> Path:
        """Where the file is, and where index files belong."""
        return self.path.parent

    _reading = _holding = reading
    _writing = writing

    # Writing

    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches in one transaction, and the hashes of sources that are not known yet.

        Gives how many memories were added. Other writers wait meanwhile.
        """
        with self._database.writing() as write:
            added = 0
            for batch in batches:
                check_entries(batch)
                added += len(writing.add(write, batch))
            for source in sources:
                note_source(write, source)
            return added

    def _cleaned(self, receipt: Receipt) -> Receipt:
        return replace(receipt, complete=clean_files(self._database))

    # Reading

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        keys = [int(row) for row in rows]
        if len(keys) <= AT_ONCE:
            found = known_memories(self._database.ask, self._database.names, keys, scope)
            if found is not None:
                return found
        return super().get_rows(scope, keys)

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        tally = tuple(self._database.ledger().tally(OWNERS.name))
        found = self._database.names.visible(scope, tally)
        if found is None:
            with self._database.reading() as read:
                found = self._database.names.keep_visible(scope, tally, read.visible_owners(scope))
        return np.asarray(found, dtype=np.int32)


def _prepare(checked_below_bytes: int, database: Database) -> None:
    """Look at a store that was just opened, and finish an erasure that was cut short."""
    check_small(database, below_bytes=checked_below_bytes)
    if database.writable:
        clean_files(database, wait_seconds=0)
