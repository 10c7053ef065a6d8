"""A store in dictionaries: the obvious twin of the SQLite store, and the quickest start for tests.

Everything is a plain loop over `core.filters.selected`; nothing outlives the object.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Self

from agentmem.core.checks import require_count, require_text
from agentmem.core.filters import Selection, selected
from agentmem.core.scope import visible
from agentmem.errors import RecordNotFound, StoreClosed
from agentmem.protocols import EmbedderId
from agentmem.stores.entries import (
    check_entries,
    require_ids,
)
from agentmem.stores.memory.adding import add, check_new, check_storable, hide, set_entry
from agentmem.stores.memory.feed import MemoryFeed, MemoryUpkeep
from agentmem.stores.memory.journal import MemoryJournal
from agentmem.stores.memory.side import (
    MemoryArtifacts,
    MemoryJobs,
    MemoryLinks,
    MemorySettings,
    MemorySnapshots,
)
from agentmem.stores.memory.state import State, newer_than
from agentmem.stores.rules import (
    Sameness,
    check_source_entries,
    current_again,
    refuse_cycles,
    split_new,
    superseding,
    updated,
    wipes_owner,
)
from agentmem.stores.values import ERASED, Artifact, Entry, Receipt, Source, SourceReport, Version
from agentmem.types import Memory, Scope, Usage, require_instant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class MemoryStore:
    """A `Store` that forgets everything when it goes."""

    def __init__(self, *, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._state = state = State()
        self.feed = MemoryFeed(state)
        self.upkeep = MemoryUpkeep(state, self)
        self.settings = MemorySettings(state, random_bytes(32))
        self.jobs = MemoryJobs(state)
        self.snapshots = MemorySnapshots(state)
        self.artifacts = MemoryArtifacts(state)
        self.links = MemoryLinks(state, family="link")
        self.contradictions = MemoryLinks(state, family="contradiction")
        self.journal = MemoryJournal(state)

    # Writing

    def put(
        self, entries: Iterable[Entry], /, *, artifacts: Sequence[Artifact] = ()
    ) -> tuple[int, ...]:
        """Add memories and `artifacts`, all or none; gives the rows of the memories."""
        batch = list(entries)
        check_entries(batch)
        with self._open() as state:
            kept = dict(state.artifacts) if artifacts else state.artifacts
            try:
                for artifact in artifacts:
                    self.artifacts.put(artifact)
                return add(state, batch)
            except BaseException:
                state.artifacts = kept
                raise

    def put_new(self, entries: Iterable[Entry], /, *, same: Sameness) -> tuple[str, ...]:
        """Add the memories whose owner has no current one that is the same, all or none.

        Gives the id of each, or of the one that was there.
        """
        batch = list(entries)
        check_entries(batch)
        with self._open() as state:
            known = [entry.memory for entry in state.entries.values()]
            fresh, ids = split_new(batch, known, same)
            add(state, fresh)
            return ids

    def load(self, batches: Iterable[Sequence[Entry]], *, sources: Iterable[Source] = ()) -> int:
        """Add many batches, all or none, and the hashes of sources that are not known yet."""
        entries = [entry for batch in batches for entry in batch]
        with self._open() as state:
            added = len(self.put(entries))
            for source in sources:
                state.sources.setdefault((source.visibility, source.scope, source.url), source)
            return added

    def has_source(self, source: Source, /) -> bool:
        """Whether the owner's page with this url has this very content."""
        with self._open() as state:
            known = state.sources.get((source.visibility, source.scope, source.url))
            return known is not None and known.content_hash == source.content_hash

    def replace_source(
        self, source: Source, entries: Sequence[Entry], *, at: datetime
    ) -> SourceReport:
        """Make `entries` the chunks of a source; its old ones are deleted at `at` (P6)."""
        check_entries(entries)
        check_source_entries(source, entries)
        require_instant(at, "at")
        with self._open() as state:
            key = (source.visibility, source.scope, source.url)
            known = state.sources.get(key)
            if known is not None and known.content_hash == source.content_hash:
                return SourceReport(unchanged=True, added=0, removed=0)
            check_new(state, entries)
            old = [
                row
                for row, entry in state.entries.items()
                if entry.memory.source_url == source.url
                and (entry.memory.visibility, entry.memory.scope) == key[:2]
                and entry.memory.deleted_at is None
            ]
            hide(state, old, at)
            add(state, entries)
            state.sources[key] = replace(source, synced_at=at)
            return SourceReport(unchanged=False, added=len(entries), removed=len(old))

    def update(
        self, scope: Scope, entry: Entry, *, at: datetime, was: Memory | None = None
    ) -> Memory:
        """Replace the memory that has the entry's id; what it was goes to its history."""
        check_entries([entry])
        require_instant(at, "at")
        with self._open() as state:
            (row,) = self._find(state, scope, [entry.memory.id], deleted=False)
            old = state.entries[row].memory
            new = updated(old, entry.memory, scope, was=was)
            check_storable(new)
            before = state.previous_rows()
            state.history.setdefault(row, []).append(Version(memory=old, replaced_at=at))
            if new.text != old.text:
                state.drop_vectors(row)
            set_entry(state, row, replace(entry, memory=new))
            state.owner_number(new)
            state.log("update", [row])
            state.log_moved(before)
            return state.entries[row].memory

    def supersede(self, scope: Scope, old_id: str, entry: Entry, *, at: datetime) -> Memory:
        """Add a memory that stands for `old_id` from `at` on."""
        check_entries([entry])
        require_instant(at, "at")
        with self._open() as state:
            (row,) = self._find(state, scope, [old_id], deleted=False)
            ended, new = superseding(state.entries[row].memory, entry.memory, at)
            add(state, [replace(entry, memory=new)])
            self._rewrite(state, row, ended)
            return new

    def mark_superseded(self, scope: Scope, old_id: str, new_id: str, *, at: datetime) -> Memory:
        """Let `new_id` stand for `old_id` from `at` on; gives the old memory as it is now."""
        require_instant(at, "at")
        with self._open() as state:
            refuse_cycles([(old_id, new_id)], lambda memory_id: newer_than(state, memory_id))
            old_row, new_row = self._find(state, scope, [old_id, new_id], deleted=False)
            new = state.entries[new_row].memory
            ended, standing = superseding(
                state.entries[old_row].memory, replace(new, supersedes=None), at
            )
            self._rewrite(state, old_row, ended)
            if new.supersedes is None:
                self._rewrite(state, new_row, standing)
            return ended

    def unsupersede(self, scope: Scope, old_id: str, /) -> Memory:
        """Make a superseded memory current again."""
        with self._open() as state:
            (row,) = self._find(state, scope, [old_id], deleted=False)
            old = state.entries[row].memory
            again = current_again(old)
            newer = state.row_of.get(str(old.superseded_by))
            if newer is not None and state.entries[newer].memory.supersedes == old_id:
                self._rewrite(state, newer, replace(state.entries[newer].memory, supersedes=None))
            self._rewrite(state, row, again)
            return again

    @staticmethod
    def _rewrite(state: State, row: int, memory: Memory) -> None:
        state.entries[row] = replace(state.entries[row], memory=memory)
        state.log("update", [row])

    def delete(
        self, scope: Scope, ids: Sequence[str], *, at: datetime, artifacts: bool = False
    ) -> int:
        """Hide memories, all or none; `restore` brings them back.

        With `artifacts` the bytes under the same ids are removed, for good.
        """
        require_instant(at, "at")
        with self._open() as state:
            rows = self._find(state, scope, require_ids(ids), deleted=False)
            for artifact_id in ids if artifacts else ():
                with suppress(RecordNotFound):
                    self.artifacts.remove(scope, artifact_id)
            return hide(state, rows, at)

    def restore(self, scope: Scope, ids: Sequence[str], /) -> int:
        """Bring deleted memories back, all or none."""
        with self._open() as state:
            rows = self._find(state, scope, require_ids(ids), deleted=True)
            return hide(state, rows, None)

    def delete_all(self, selection: Selection, *, at: datetime) -> int:
        """Hide everything selected; gives how many."""
        require_instant(at, "at")
        with self._open() as state:
            return hide(state, self._select(replace(selection, deleted=False, forgotten=True)), at)

    def remove_by_source_url(
        self, scope: Scope, url: str, *, at: datetime, visibilities: tuple[str, ...] = ("private",)
    ) -> int:
        """Hide every chunk of a source, so that it can be added again."""
        selection = Selection(
            reader=scope, source_url=url, superseded=True, visibilities=visibilities
        )
        return self.delete_all(selection, at=at)

    def erase(self, scope: Scope, ids: Sequence[str], *, at: datetime) -> Receipt:
        """Remove memories for good, all or none (P26)."""
        require_instant(at, "at")
        with self._open() as state:
            rows = self._find(state, scope, require_ids(ids), deleted=None)
            return self._erase(state, rows, at=at)

    def erase_all(self, selection: Selection, *, at: datetime) -> Receipt:
        """Remove everything selected for good, deleted and superseded memories included."""
        require_instant(at, "at")
        with self._open() as state:
            rows = self._select(replace(selection, deleted=True, superseded=True, forgotten=True))
            all_of = selection.reader if wipes_owner(selection) else None
            return self._erase(state, rows, at=at, all_of=all_of)

    def _erase(
        self, state: State, rows: Sequence[int], *, at: datetime, all_of: Scope | None = None
    ) -> Receipt:
        before = state.previous_rows()
        gone = {row: state.entries[row].memory for row in rows}
        ids = {memory.id for memory in gone.values()}
        state.forget_empty_sources(rows, without=set(rows))
        vectors = sum(state.drop_vectors(row) for row in rows)
        versions = sum(len(state.history.pop(row, ())) for row in rows)
        for row, memory in gone.items():
            del state.entries[row], state.row_of[memory.id]
        for row, entry in list(state.entries.items()):
            named = {
                name: ERASED
                for name in ("supersedes", "superseded_by")
                if getattr(entry.memory, name) in ids
            }
            if named:
                self._rewrite(state, row, replace(entry.memory, **named))  # type: ignore[arg-type]  # both are texts
        for kept in state.history.values():
            kept[:] = [replace(v, memory=_without(v.memory, ids)) for v in kept]
        counts = state.forget_mentions(list(gone.values()), all_of=all_of)
        state.log("erase", rows)
        state.log_moved(before)
        state.erased_seq = len(state.changes)
        files, state.index_files = tuple(state.index_files), {}
        return Receipt(
            ids=tuple(memory.id for memory in gone.values()),
            vectors=vectors,
            versions=versions,
            snapshots=counts["snapshots"],
            artifacts=counts["artifacts"],
            jobs=counts["jobs"],
            index_files=files,
            complete=True,
            erased_at=at,
        )

    def purge(self, *, deleted_before: datetime) -> int:
        """Remove for good what was deleted before a moment; gives how many rows went."""
        with self._open() as state:
            rows = [
                row
                for row, entry in state.entries.items()
                if entry.memory.deleted_at is not None and entry.memory.deleted_at < deleted_before
            ]
            self._erase(state, rows, at=deleted_before)
            return len(rows)

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
        added = (
            require_count(retrieved, "retrieved"),
            require_count(cited, "cited"),
            require_count(ignored, "ignored"),
        )
        with self._open() as state:
            memories = self._many(state, scope, require_ids(ids))
            for memory in memories:
                row, usage = state.row_of[memory.id], memory.usage
                last = at if usage.last_used_at is None else max(at, usage.last_used_at)
                counted = Usage(
                    retrieved=usage.retrieved + added[0],
                    cited=usage.cited + added[1],
                    ignored=usage.ignored + added[2],
                    last_used_at=last,
                )
                state.entries[row] = replace(
                    state.entries[row], memory=replace(memory, usage=counted)
                )
            return len(memories)

    # Reading

    def get(self, scope: Scope, memory_id: str, *, deleted: bool = False) -> Memory:
        """The memory with this id; superseded ones too, deleted ones only when asked for."""
        require_text(memory_id, "id")
        with self._open() as state:
            row = self._find(state, scope, [memory_id], deleted=None if deleted else False)[0]
            return state.entries[row].memory

    def row_of(self, scope: Scope, memory_id: str, /) -> int:
        """The row of an id, as indexes know it."""
        require_text(memory_id, "id")
        with self._open() as state:
            return self._find(state, scope, [memory_id], deleted=None)[0]

    def get_many(self, scope: Scope, ids: Sequence[str], /) -> tuple[Memory, ...]:
        """The memories among `ids` that are there, visible and not deleted, in that order."""
        with self._open() as state:
            return tuple(self._many(state, scope, require_ids(ids)))

    @staticmethod
    def _many(state: State, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        found = [
            state.entries[state.row_of[i]].memory for i in dict.fromkeys(ids) if i in state.row_of
        ]
        return [m for m in found if visible(m, scope) and m.deleted_at is None]

    def get_rows(self, scope: Scope, rows: Collection[int], /) -> Mapping[int, Memory]:
        """The memories of those rows the reader may see, deleted ones included."""
        with self._open() as state:
            found = {int(r): state.entries[int(r)].memory for r in rows if int(r) in state.entries}
            return {row: memory for row, memory in found.items() if visible(memory, scope)}

    def history(self, scope: Scope, memory_id: str, /) -> tuple[Version, ...]:
        """What the memory was before each update, oldest first."""
        with self._open() as state:
            row = self._find(state, scope, [memory_id], deleted=None)[0]
            return tuple(v for v in state.history.get(row, ()) if visible(v.memory, scope))

    def scan(self, selection: Selection, /) -> Iterator[Memory]:
        """The selected memories, oldest row first."""
        with self._open() as state:
            found = [state.entries[row].memory for row in self._select(selection)]
        return iter(found)

    def select_rows(self, selection: Selection, /) -> NDArray[np.int64]:
        """The selected rows, ascending."""
        import numpy as np

        with self._open():
            return np.asarray(self._select(selection), dtype=np.int64)

    def count(self, selection: Selection, /) -> int:
        """How many memories are selected."""
        with self._open():
            return len(self._select(selection))

    def recent(self, selection: Selection, *, limit: int) -> tuple[Memory, ...]:
        """The newest selected memories, newest first; of equal age, the later row first."""
        require_count(limit, "limit")
        with self._open() as state:
            found = [(row, state.entries[row].memory) for row in self._select(selection)]
        found.sort(key=lambda pair: (pair[1].created_at, pair[0]), reverse=True)
        return tuple(memory for _, memory in found[:limit])

    def search_by_source_url(self, scope: Scope, url: str, /) -> tuple[Memory, ...]:
        """The current chunks of a source, in their order."""
        found = self.scan(Selection(reader=scope, source_url=url))
        return tuple(sorted(found, key=lambda m: (m.position is None, m.position or 0)))

    def visible_owners(self, scope: Scope, /) -> NDArray[np.int32]:
        """The owners whose rows the reader may see, as numbered in `IndexRows.owner`."""
        import numpy as np

        with self._open() as state:
            return np.asarray(state.visible_owners(scope), dtype=np.int32)

    # Searching, slowly

    def lexical_scores(self, terms: Collection[int], rows: Sequence[int]) -> list[float]:
        """The BM25 score of each of `rows` among themselves for these term hashes."""
        import numpy as np
        from rank_bm25 import BM25Okapi

        with self._open() as state:
            documents = [
                np.repeat(
                    np.frombuffer(state.entries[row].terms, "<u8"),
                    np.frombuffer(state.entries[row].frequencies, "<u2"),
                ).tolist()
                for row in rows
            ]
        if not any(documents):
            return [0.0] * len(rows)
        return [float(score) for score in BM25Okapi(documents).get_scores(list(terms))]

    def vector_scores(
        self, embedder: EmbedderId, query: NDArray[np.float32], rows: Sequence[int]
    ) -> list[float]:
        """The cosine of each row's vector with `query`; -1 for a row that has none."""
        import numpy as np

        with self._open() as state:
            vectors = state.vectors.get(embedder, {})
            scores = []
            for row in rows:
                vector = np.frombuffer(vectors.get(row, b""), "<f4").astype(np.float64)
                norm = float(np.linalg.norm(vector) * np.linalg.norm(query))
                scores.append(float(vector @ query) / norm if len(vector) and norm else -1.0)
            return scores

    # Closing

    def close(self) -> None:
        """Refuse all further use; a second time does nothing."""
        self._state.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> State:
        if self._state.closed:
            raise StoreClosed("The store was closed.", remedy="Open it again.")
        return self._state

    def _select(self, selection: Selection) -> list[int]:
        return [
            row
            for row, entry in sorted(self._state.entries.items())
            if selected(selection, entry.memory)
        ]

    @staticmethod
    def _find(state: State, scope: Scope, ids: Sequence[str], *, deleted: bool | None) -> list[int]:
        rows = []
        for memory_id in dict.fromkeys(ids):
            row = state.row_of.get(memory_id)
            memory = None if row is None else state.entries[row].memory
            if row is None or memory is None or not visible(memory, scope):
                raise RecordNotFound(memory_id)
            if deleted is not None and (memory.deleted_at is not None) != deleted:
                raise RecordNotFound(memory_id)
            rows.append(row)
        return rows


def _without(memory: Memory, ids: set[str]) -> Memory:
    if memory.supersedes in ids:
        memory = replace(memory, supersedes=ERASED)
    return replace(memory, superseded_by=ERASED) if memory.superseded_by in ids else memory
