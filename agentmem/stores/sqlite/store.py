"""The store of record: one SQLite file, safe against crashes, power cuts and other processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, get_args

from agentmem.base.checks import (
    require_choice,
    require_count,
    require_number,
    require_path,
    require_text,
)
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope, require_instant
from agentmem.stores.rules import Sameness, check_source_entries, split_new, wipes_owner
from agentmem.stores.sqlite import reading as sqlite_reading
from agentmem.stores.sqlite import writing as sqlite_writing
from agentmem.stores.sqlite.connection import Read, Row
from agentmem.stores.sqlite.erasing import clean_files, erase_rows, erased_nothing, with_derived
from agentmem.stores.sqlite.feed import SqliteFeed
from agentmem.stores.sqlite.journal import SqliteJournal
from agentmem.stores.sqlite.opening import Connect, connect_sqlite
from agentmem.stores.sqlite.pool import Database, MemoryDatabase
from agentmem.stores.sqlite.reading import (
    FEW,
    by_rows,
    count,
    few_memories,
    get_many,
    history,
    read_memories,
    rows_by_key,
    select_rows,
    visible_owners,
)
from agentmem.stores.sqlite.schema import MIGRATIONS, OWNERS, Step
from agentmem.stores.sqlite.side import (
    SqliteArtifacts,
    SqliteJobs,
    SqliteLinks,
    SqliteSettings,
    SqliteSnapshots,
)
from agentmem.stores.sqlite.upkeep import SqliteUpkeep, check_small
from agentmem.stores.sqlite.writing import (
    find,
    has_source,
    hide,
    mark_superseded,
    note_source,
    of_same_content,
    record_usage,
    replace_source,
    supersede,
    unsupersede,
    update,
)
from agentmem.stores.values import (
    Artifact,
    Durability,
    Entry,
    Receipt,
    Source,
    SourceReport,
    Version,
    check_entries,
    require_ids,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CHECKED_BELOW_BYTES = 8 << 20
IN_MEMORY = ":memory:"


class SqliteStore:
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
        self._closed = True  # until there is something to close
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
        self.feed = SqliteFeed(self._database)
        self.upkeep = SqliteUpkeep(self._database)
        self.settings = SqliteSettings(self._database)
        self.jobs = SqliteJobs(self._database)
        self.snapshots = SqliteSnapshots(self._database)
        self.artifacts = SqliteArtifacts(self._database)
        self.links = SqliteLinks(self._database, family="link")
        self.contradictions = SqliteLinks(self._database, family="contradiction")
        self.journal = SqliteJournal(self._database)
        self._closed = False

    @property
    def folder(self) -> Path:
        """Where the file is, and where index files belong."""
        return self.path.parent

    # Writing

    def put(
        self, entries: Iterable[Entry], /, *, artifacts: Sequence[Artifact] = ()
    ) -> tuple[int, ...]:
        """Add memories and `artifacts`, all or none; gives the rows of the memories."""
        batch = list(entries)
        check_entries(batch)
        if not batch and not artifacts:
            return ()
        with self._database.write() as write:
            rows = sqlite_writing.add(write, batch)
            for artifact in artifacts:
                self.artifacts.add(write, artifact)
            return rows

    def put_new(self, entries: Iterable[Entry], /, *, same: Sameness) -> tuple[str, ...]:
        """Add the memories whose owner has no current one that is the same, all or none.

        Gives the id of each, or of the one that was there, however many
        threads and processes say the same at once.
        """
        batch = list(entries)
        check_entries(batch)
        if not batch:
            return ()
        with self._database.write() as write:
            known = of_same_content(write, batch)
            fresh, ids = split_new(batch, known, same)
            write.abandoned = not fresh
            sqlite_writing.add(write, fresh)
        return ids

    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches in one transaction, and the hashes of sources that are not known yet.

        Gives how many memories were added. Other writers wait meanwhile.
        """
        with self._database.write() as write:
            added = 0
            for batch in batches:
                check_entries(batch)
                added += len(sqlite_writing.add(write, batch))
            for source in sources:
                note_source(write, source)
            return added

    def has_source(self, source: Source, /) -> bool:
        """Whether the owner's page with this url has this very content."""
        with self._database.read() as read:
            return has_source(read, source)

    def replace_source(
        self, source: Source, entries: Sequence[Entry], *, at: datetime
    ) -> SourceReport:
        """Make `entries` the chunks of a source; its old ones are deleted at `at` (P6).

        When the source has this content hash already, nothing happens, however
        many threads and processes say so at once.
        """
        check_entries(entries)
        check_source_entries(source, entries)
        require_instant(at, "at")
        with self._database.write() as write:
            return replace_source(write, source, entries, at=at)

    def update(
        self, scope: Scope, entry: Entry, *, at: datetime, was: Memory | None = None
    ) -> Memory:
        """Replace the memory that has the entry's id; what it was goes to its history.

        Usage, supersession and deletion stay as they are. When the text changes,
        vectors that are not given anew are removed. `ChangedMeanwhile` if it is
        no longer what it `was` when the entry was made of it.
        """
        check_entries([entry])
        require_instant(at, "at")
        with self._database.write() as write:
            return update(write, scope, entry, at=at, was=was)

    def supersede(self, scope: Scope, old_id: str, entry: Entry, *, at: datetime) -> Memory:
        """Add a memory that stands for `old_id` from `at` on."""
        check_entries([entry])
        require_instant(at, "at")
        with self._database.write() as write:
            return supersede(write, scope, old_id, entry, at=at)

    def mark_superseded(self, scope: Scope, old_id: str, new_id: str, *, at: datetime) -> Memory:
        """Let `new_id` stand for `old_id` from `at` on; gives the old memory as it is now."""
        require_instant(at, "at")
        with self._database.write() as write:
            return mark_superseded(write, scope, old_id, new_id, at=at)

    def unsupersede(self, scope: Scope, old_id: str, /) -> Memory:
        """Make a superseded memory current again."""
        with self._database.write() as write:
            return unsupersede(write, scope, old_id)

    def delete(
        self, scope: Scope, ids: Sequence[str], *, at: datetime, artifacts: bool = False
    ) -> int:
        """Hide memories, all or none; `restore` brings them back.

        With `artifacts` the bytes under the same ids are removed, for good.
        """
        require_instant(at, "at")
        with self._database.write() as write:
            found = find(write, scope, require_ids(ids), deleted=False)
            if artifacts:
                self.artifacts.take_out(write, scope, ids)
            return hide(write, found, at)

    def restore(self, scope: Scope, ids: Sequence[str], /) -> int:
        """Bring deleted memories back, all or none."""
        with self._database.write() as write:
            found = find(write, scope, require_ids(ids), deleted=True)
            return hide(write, found, None)

    def delete_all(self, selection: Selection, *, at: datetime) -> int:
        """Hide everything selected; gives how many."""
        require_instant(at, "at")
        if not self._database.exists():
            return 0
        with self._database.write() as write:
            rows = select_rows(write, replace(selection, deleted=False, forgotten=True))
            stored = rows_by_key(write, rows)
            write.abandoned = not stored
            memories = read_memories(write, stored)
            return hide(write, list(zip(stored, memories, strict=True)), at)

    def remove_by_source_url(
        self, scope: Scope, url: str, *, at: datetime, visibilities: tuple[str, ...] = ("private",)
    ) -> int:
        """Hide every chunk of a source, so that it can be added again."""
        selection = Selection(
            reader=scope, source_url=url, superseded=True, visibilities=visibilities
        )
        return self.delete_all(selection, at=at)

    def to_erase(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """What `erase` would remove: the memories with these ids, and what was made of them."""
        with self._database.read() as read:
            found = find(read, scope, require_ids(ids), deleted=None)
            return tuple(m for _, m in with_derived(read, found, scope))

    def to_erase_all(self, selection: Selection, /) -> tuple[Memory, ...]:
        """What `erase_all` would remove."""
        if not self._database.exists():
            return ()
        with self._database.read() as read:
            found = self._selected_to_erase(read, selection)
            reader = selection.reader
            return tuple(m for _, m in with_derived(read, found, reader))

    def erase(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> Receipt:
        """Remove memories for good, all or none: no file of the store holds them after (P26).

        Their merged duplicates and what was learned from nothing else go with
        them; so does every trace and job that quotes one of them.
        """
        require_instant(at, "at")
        with self._database.write() as write:
            found = find(write, scope, require_ids(ids), deleted=None)
            receipt = erase_rows(write, found, at=at, reader=scope)
        return self._finish_erasure(receipt)

    def erase_all(self, selection: Selection, *, at: datetime) -> Receipt:
        """Remove everything selected for good, deleted and superseded memories included.

        What goes with a memory goes here too. When nothing narrows the
        selection, the reader's snapshots, artifacts and jobs go as well: nothing
        of that user is left.
        """
        require_instant(at, "at")
        if not self._database.exists():
            return erased_nothing(at)
        with self._database.write() as write:
            receipt = erase_rows(
                write,
                self._selected_to_erase(write, selection),
                at=at,
                reader=selection.reader,
                all_of=selection.reader if wipes_owner(selection) else None,
            )
        return self._finish_erasure(receipt)

    def _selected_to_erase(self, read: Read, selection: Selection) -> list[tuple[Row, Memory]]:
        everything = replace(selection, deleted=True, superseded=True, forgotten=True)
        stored = rows_by_key(read, select_rows(read, everything))
        memories = read_memories(read, stored)
        return list(zip(stored, memories, strict=True))

    def _finish_erasure(self, receipt: Receipt) -> Receipt:
        self._database.names.clear()
        wait = self._database.busy_seconds
        return replace(receipt, complete=clean_files(self._database, wait_seconds=wait))

    def record_usage(
        self,
        scope: Scope,
        ids: Collection[str],
        *,
        at: datetime,
        retrieved: int = 0,
        cited: int = 0,
        ignored: int = 0,
    ) -> int:
        """Add to the counts of those `ids` that are there and visible; gives how many."""
        require_instant(at, "at")
        added = {"retrieved": retrieved, "cited": cited, "ignored": ignored}
        for name, value in added.items():
            require_count(value, name)
        with self._database.write() as write:
            known = {m.id for m in get_many(write, scope, require_ids(ids))}
            write.abandoned = not known
            found = find(write, scope, sorted(known), deleted=False)
            return record_usage(write, found, at=at, **added)

    # Reading

    def get(self, scope: Scope, memory_id: str, *, deleted: bool = False) -> Memory:
        """The memory with this id; superseded ones too, deleted ones only when asked for."""
        require_text(memory_id, "id")
        with self._database.read() as read:
            return sqlite_reading.get(read, scope, memory_id, deleted=deleted)[1]

    def row_of(self, scope: Scope, memory_id: str, /) -> int:
        """The row of an id, as indexes know it."""
        require_text(memory_id, "id")
        with self._database.read() as read:
            return sqlite_reading.get(read, scope, memory_id, deleted=True)[0]

    def get_many(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """The memories among `ids` that are there, visible and not deleted, in that order."""
        wanted = require_ids(ids)
        with self._database.read() as read:
            return tuple(get_many(read, scope, wanted))

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        keys = [int(row) for row in rows]
        if len(keys) <= FEW:
            found = few_memories(self._database.ask, self._database.names, keys, scope)
            if found is not None:
                return found
        with self._database.read() as read:
            return by_rows(read, keys, reader=scope)

    def history(self, scope: Scope, memory_id: str, /) -> tuple[Version, ...]:
        """What the memory was before each update, oldest first."""
        require_text(memory_id, "id")
        with self._database.read() as read:
            row, _ = sqlite_reading.get(read, scope, memory_id, deleted=True)
            return history(read, scope, row)

    def scan(self, selection: Selection, /) -> Iterator[Memory]:
        """The selected memories, oldest row first.

        Which ones is decided at once; each is read when its turn comes, and
        left out if it was deleted or erased by then.
        """
        with self._database.read() as read:
            rows = select_rows(read, selection)
        for start in range(0, len(rows), 500):
            found = self.get_rows(selection.reader, rows[start : start + 500])
            for row in rows[start : start + 500]:
                memory = found.get(row)
                if memory is not None and (memory.deleted_at is None or selection.deleted):
                    yield memory

    def select_rows(self, selection: Selection, /) -> NDArray[np.int64]:
        """The selected rows, ascending."""
        import numpy as np

        with self._database.read() as read:
            return np.asarray(select_rows(read, selection), dtype=np.int64)

    def count(self, selection: Selection, /) -> int:
        """How many memories are selected."""
        with self._database.read() as read:
            return count(read, selection)

    def recent(self, selection: Selection, *, limit: int) -> tuple[Memory, ...]:
        """The newest selected memories, newest first; of equal age, the later row first."""
        require_count(limit, "limit")
        with self._database.read() as read:
            rows = select_rows(read, selection, order="m.created_at DESC, m.row DESC", limit=limit)
            found = by_rows(read, rows)
        return tuple(found[row] for row in rows)

    def search_by_source_url(self, scope: Scope, url: str, /) -> tuple[Memory, ...]:
        """The current chunks of a source, in their order."""
        selection = Selection(reader=scope, source_url=url)
        with self._database.read() as read:
            rows = select_rows(read, selection)
            found = by_rows(read, rows).values()
        return tuple(sorted(found, key=lambda m: (m.position is None, m.position or 0)))

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        tally = tuple(self._database.ledger().tally(OWNERS.name))
        found = self._database.names.visible(scope, tally)
        if found is None:
            with self._database.read() as read:
                found = self._database.names.keep_visible(scope, tally, visible_owners(read, scope))
        return np.asarray(found, dtype=np.int32)

    # Closing

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._closed = True
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self._database.has_connections():
            if not self._database.in_memory:
                warnings.warn(f"unclosed store {self.path}", ResourceWarning, stacklevel=1)
            self.close()


def _prepare(checked_below_bytes: int, database: Database) -> None:
    """Look at a store that was just opened, and finish an erasure that was cut short."""
    check_small(database, below_bytes=checked_below_bytes)
    if database.writable:
        clean_files(database, wait_seconds=0)
