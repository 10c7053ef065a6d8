"""What every store does the same way: checks, the order of the steps, what is told.

A back end brings modules that find and change memories inside one of its transactions
(`Reads`, `Writes` of `tables.py`); what they do is SQL, what they are called for stands here.
"""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import RecordNotFound
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope, require_instant, visible
from agentmem.stores.journal import StoredJournal
from agentmem.stores.side import (
    StoredArtifacts,
    StoredJobs,
    StoredLinks,
    StoredSettings,
    StoredSnapshots,
    add_artifact,
    remove_artifacts,
)
from agentmem.stores.tables import HISTORY, SOURCES, Found, TableReader, Tables, TableWriter
from agentmem.stores.upkeep import BaseFeed, BaseUpkeep
from agentmem.stores.values import (
    Artifact,
    Entry,
    Receipt,
    Source,
    SourceReport,
    Version,
    check_entries,
    from_microseconds,
    memory_from_fields,
    require_ids,
    to_microseconds,
)
from agentmem.stores.writing import (
    AT_ONCE,
    CHUNKS,
    Sameness,
    check_source_entries,
    current_again,
    erase_rows,
    hide,
    keep_version,
    refuse_circles,
    source_values,
    split_new,
    superseding,
    updated,
    wipes_owner,
    with_derived,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEWEST = "m.created_at DESC, m.row DESC"


def find(
    found: Mapping[str, Found], scope: Scope, ids: Sequence[str], deleted: bool | None
) -> list[Found]:
    """What the reader may see of `ids`, all or an error; `deleted` asks for those only, or all."""
    for memory_id in ids:
        one = found.get(memory_id)
        if one is None or not visible(one.memory, scope):
            raise RecordNotFound(memory_id)
        if deleted is not None and (one.memory.deleted_at is not None) != deleted:
            raise RecordNotFound(memory_id)
    return [found[memory_id] for memory_id in dict.fromkeys(ids)]


def _held(
    write: TableWriter, scope: Scope, ids: Sequence[str], *, deleted: bool | None = False
) -> list[Found]:
    return find(write.by_ids(ids, lock=True), scope, ids, deleted)


def there_of(found: Mapping[str, Found], scope: Scope, ids: Sequence[str]) -> list[Found]:
    """What is there of `ids`, visible and not deleted, in their order."""
    wanted = [found[memory_id] for memory_id in dict.fromkeys(ids) if memory_id in found]
    return [one for one in wanted if visible(one.memory, scope) and one.memory.deleted_at is None]


class BaseStore(ABC):
    """Memories, kept: what a store does without asking its back end how.

    Writes are atomic, and durable when they return.
    """

    feed: BaseFeed
    upkeep: BaseUpkeep[Any]

    _closed = True  # until there is something to close

    def _wire(self, tables: Tables[TableReader]) -> None:
        """Make the parts that every store has of its transactions."""
        self._closed = False
        self._tables = tables
        self.settings = StoredSettings(tables)
        self.jobs = StoredJobs(tables)
        self.snapshots = StoredSnapshots(tables)
        self.artifacts = StoredArtifacts(tables)
        self.links = StoredLinks(tables, family="link")
        self.contradictions = StoredLinks(tables, family="contradiction")
        self.journal = StoredJournal(tables)

    def _cleaned(self, receipt: Receipt) -> Receipt:
        """What is left to do once an erasure is committed, and what the receipt says then."""
        return receipt

    # Writing

    def put(
        self, entries: Iterable[Entry], /, *, artifacts: Sequence[Artifact] = ()
    ) -> tuple[int, ...]:
        """Add memories and `artifacts`, all or none; gives the rows of the memories."""
        batch = list(entries)
        check_entries(batch)
        if not batch and not artifacts:
            return ()

        def apply(write: TableWriter) -> tuple[int, ...]:
            rows = write.add_memories(batch, last=not artifacts)
            for artifact in artifacts:
                add_artifact(write, artifact)
            return rows

        return self._tables.write(apply)

    def put_new(self, entries: Iterable[Entry], /, *, same: Sameness) -> tuple[str, ...]:
        """Add the memories whose owner has no current one that is the same, all or none.

        Gives the id of each, or of the one that was there, however many
        threads, processes and machines say the same at once.
        """
        batch = list(entries)
        check_entries(batch)
        if not batch:
            return ()

        def apply(write: TableWriter) -> tuple[str, ...]:
            fresh, ids = split_new(batch, write.same_content(batch), same)
            write.add_memories(fresh)
            return ids

        return self._tables.write(apply)

    @abstractmethod
    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches in one transaction, and the hashes of sources that are not known yet.

        Gives how many memories were added.
        """

    def has_source(self, source: Source, /) -> bool:
        """Whether the owner's page with this url has this very content."""

        def apply(read: TableReader) -> bool:
            owner = read.find_owner((source.visibility, source.scope))
            match = {"owner": owner, "url": source.url}
            known = [] if owner is None else read.find(SOURCES, match)
            return bool(known) and bool(known[0][4] == source.content_hash)

        return self._tables.read(apply)

    def replace_source(
        self, source: Source, entries: Sequence[Entry], *, at: datetime
    ) -> SourceReport:
        """Make `entries` the chunks of a source; its old ones are deleted at `at` (P6).

        When the source has this content hash already, nothing happens, however
        many threads, processes and machines say so at once.
        """
        check_entries(entries)
        check_source_entries(source, entries)
        require_instant(at, "at")
        to_microseconds(at, "at")

        def apply(write: TableWriter) -> SourceReport:
            owner = write.owner_number((source.visibility, source.scope))
            write.hold(f"source {owner} {source.url}")  # who says the same at once finds it said
            known = write.find(SOURCES, {"owner": owner, "url": source.url})
            if known and known[0][4] == source.content_hash:
                return SourceReport(unchanged=True, added=0, removed=0)
            old = write.find_where(CHUNKS, lock=True, owner=owner, url=source.url)
            if old:
                hide(write, old, at)
            write.add_memories(entries)
            write.put(SOURCES, **source_values(write, replace(source, synced_at=at)))
            return SourceReport(unchanged=False, added=len(entries), removed=len(old))

        return self._tables.write(apply)

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

        def apply(write: TableWriter) -> Memory:
            (old,) = _held(write, scope, [entry.memory.id])
            new = updated(old.memory, entry.memory, scope, was=was)
            keep_version(write, old.row, old.memory, at)
            write.rewrite(old, new, entry=entry)
            write.log("update", [old.row])
            return new

        return self._tables.write(apply)

    def supersede(self, scope: Scope, old_id: str, entry: Entry, *, at: datetime) -> Memory:
        """Add a memory that stands for `old_id` from `at` on."""
        check_entries([entry])
        require_instant(at, "at")

        def apply(write: TableWriter) -> Memory:
            (old,) = _held(write, scope, [old_id])
            ended, new = superseding(old.memory, entry.memory, at)
            write.add_memories([replace(entry, memory=new)])
            write.rewrite(old, ended)
            write.log("update", [old.row])
            return new

        return self._tables.write(apply)

    def mark_superseded(self, scope: Scope, old_id: str, new_id: str, *, at: datetime) -> Memory:
        """Let `new_id` stand for `old_id` from `at` on; gives the old memory as it is now."""
        require_instant(at, "at")

        def apply(write: TableWriter) -> Memory:
            refuse_circles(write, [(old_id, new_id)])
            old, new = _held(write, scope, [old_id, new_id])
            ended, standing = superseding(old.memory, replace(new.memory, supersedes=None), at)
            write.rewrite(old, ended)
            if new.memory.supersedes is None:  # it may stand for several; it names the first
                write.rewrite(new, standing)
            write.log("update", [old.row, new.row])
            return ended

        return self._tables.write(apply)

    def unsupersede(self, scope: Scope, old_id: str, /) -> Memory:
        """Make a superseded memory current again."""

        def apply(write: TableWriter) -> Memory:
            (old,) = _held(write, scope, [old_id])
            again = current_again(old.memory)
            newer = write.by_ids([str(old.memory.superseded_by)], lock=True)
            write.rewrite(old, again)
            for one in newer.values():
                if one.memory.supersedes == old_id:
                    write.rewrite(one, replace(one.memory, supersedes=None))
                    write.log("update", [one.row])
            write.log("update", [old.row])
            return again

        return self._tables.write(apply)

    def delete(
        self, scope: Scope, ids: Sequence[str], *, at: datetime, artifacts: bool = False
    ) -> int:
        """Hide memories, all or none; `restore` brings them back.

        With `artifacts` the bytes under the same ids are removed, for good.
        """
        require_instant(at, "at")
        wanted = require_ids(ids)

        def apply(write: TableWriter) -> int:
            found = _held(write, scope, wanted)
            if artifacts:
                remove_artifacts(write, scope, wanted)
            return hide(write, found, at)

        return self._tables.write(apply)

    def restore(self, scope: Scope, ids: Sequence[str], /) -> int:
        """Bring deleted memories back, all or none."""
        wanted = require_ids(ids)
        return self._tables.write(lambda w: hide(w, _held(w, scope, wanted, deleted=True), None))

    def delete_all(self, selection: Selection, *, at: datetime) -> int:
        """Hide everything selected; gives how many."""
        require_instant(at, "at")
        if not self._tables.exists():
            return 0
        chosen = replace(selection, deleted=False, forgotten=True)
        return self._tables.write(lambda w: hide(w, w.select(chosen, lock=True), at))

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
        wanted = require_ids(ids)

        def apply(read: TableReader) -> list[Found]:
            found = find(read.by_ids(wanted), scope, wanted, None)
            return with_derived(read, found, scope)

        return tuple(one.memory for one in self._tables.read(apply))

    def to_erase_all(self, selection: Selection, /) -> tuple[Memory, ...]:
        """What `erase_all` would remove."""

        def apply(read: TableReader) -> list[Found]:
            found = read.select(_with_hidden(selection))
            return with_derived(read, found, selection.reader)

        return tuple(one.memory for one in self._tables.read(apply))

    def erase(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> Receipt:
        """Remove memories for good, all or none: nothing of the store holds them after (P26).

        Their merged duplicates and what was learned from nothing else go with
        them; so does every trace and job that quotes one of them. The receipt
        says what is still to be done on disk.
        """
        require_instant(at, "at")
        wanted = require_ids(ids)

        def apply(write: TableWriter) -> Receipt:
            found = _held(write, scope, wanted, deleted=None)
            return erase_rows(write, found, at=at, reader=scope)

        return self._cleaned(self._tables.write(apply))

    def erase_all(self, selection: Selection, *, at: datetime) -> Receipt:
        """Remove everything selected for good, deleted and superseded memories included.

        What goes with a memory goes here too. When nothing narrows the
        selection, the reader's snapshots, artifacts and jobs go as well: nothing
        of that user is left.
        """
        require_instant(at, "at")
        if not self._tables.exists():
            return Receipt(ids=(), complete=True, erased_at=at)

        def apply(write: TableWriter) -> Receipt:
            return erase_rows(
                write,
                write.select(_with_hidden(selection), lock=True),
                at=at,
                reader=selection.reader,
                all_of=selection.reader if wipes_owner(selection) else None,
            )

        return self._cleaned(self._tables.write(apply))

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
        moment = to_microseconds(at, "at")
        added = {"retrieved": retrieved, "cited": cited, "ignored": ignored}
        for name, value in added.items():
            require_count(value, name)
        wanted = require_ids(ids)

        def apply(write: TableWriter) -> int:
            found = there_of(write.by_ids(wanted), scope, wanted)
            write.count_usage(found, at=moment, **added)
            return len(found)

        return self._tables.write(apply)

    # Reading

    def _get(self, scope: Scope, memory_id: str, *, deleted: bool) -> Found:
        require_text(memory_id, "id")
        found = self._tables.read(lambda r: r.by_ids([memory_id], last=True))
        return find(found, scope, [memory_id], None if deleted else False)[0]

    def get(self, scope: Scope, memory_id: str, *, deleted: bool = False) -> Memory:
        """The memory with this id; superseded ones too, deleted ones only when asked for."""
        return self._get(scope, memory_id, deleted=deleted).memory

    def row_of(self, scope: Scope, memory_id: str, /) -> int:
        """The row of an id, as indexes know it."""
        return self._get(scope, memory_id, deleted=True).row

    def get_many(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """The memories among `ids` that are there, visible and not deleted, in that order."""
        wanted = require_ids(ids)
        found = self._tables.read(lambda r: r.by_ids(wanted, last=True))
        return tuple(one.memory for one in there_of(found, scope, wanted))

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        found = self._tables.read(lambda r: r.by_rows(rows, reader=scope, last=True))
        return {row: one.memory for row, one in found.items()}

    def history(self, scope: Scope, memory_id: str, /) -> tuple[Version, ...]:
        """What the memory was before each update, oldest first."""
        row = self.row_of(scope, memory_id)
        return self._tables.read(lambda r: _versions(r, scope, row))

    def scan(self, selection: Selection, /) -> Iterator[Memory]:
        """The selected memories, oldest row first.

        Which ones is decided at once; each is read when its turn comes, and
        left out if it was deleted or erased by then.
        """
        rows = self._tables.read(lambda r: r.select_rows(selection, last=True))
        for start in range(0, len(rows), AT_ONCE):
            found = self.get_rows(selection.reader, rows[start : start + AT_ONCE])
            for row in rows[start : start + AT_ONCE]:
                memory = found.get(row)
                if memory is not None and (memory.deleted_at is None or selection.deleted):
                    yield memory

    def select_rows(self, selection: Selection, /) -> NDArray[np.int64]:
        """The selected rows, ascending."""
        import numpy as np

        found = self._tables.read(lambda r: r.select_rows(selection, last=True))
        return np.asarray(found, dtype=np.int64)

    def count(self, selection: Selection, /) -> int:
        """How many memories are selected."""
        return self._tables.read(lambda r: r.count(selection, last=True))

    def recent(self, selection: Selection, *, limit: int) -> tuple[Memory, ...]:
        """The newest selected memories, newest first; of equal age, the later row first."""
        require_count(limit, "limit")
        found = self._tables.read(
            lambda r: r.select(selection, order=NEWEST, limit=limit, last=True)
        )
        return tuple(one.memory for one in found)

    def search_by_source_url(self, scope: Scope, url: str, /) -> tuple[Memory, ...]:
        """The current chunks of a source, in their order."""
        selection = Selection(reader=scope, source_url=url)
        kept = self._tables.read(lambda r: r.select(selection, last=True))
        found = [one.memory for one in kept]
        return tuple(sorted(found, key=lambda m: (m.position is None, m.position or 0)))

    @abstractmethod
    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""

    # Closing

    def close(self) -> None:
        """Close the store; a second time does nothing."""
        self._closed = True
        self._tables.close()

    def __del__(self) -> None:
        if not self._closed and self._tables.has_connections():
            if not self._tables.in_memory:
                warnings.warn(f"unclosed store {self._tables.name}", ResourceWarning, stacklevel=1)
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Store = BaseStore


def _versions(read: TableReader, scope: Scope, row: int) -> tuple[Version, ...]:
    """The earlier versions of a row the reader could have seen, oldest first."""
    kept = [
        Version(memory=memory_from_fields(json.loads(data)), replaced_at=from_microseconds(at))
        for _, _, at, data in read.find(HISTORY, {"row": row}, order="t.version")
    ]
    return tuple(version for version in kept if visible(version.memory, scope))


def _with_hidden(selection: Selection) -> Selection:
    return replace(selection, deleted=True, superseded=True, forgotten=True)
