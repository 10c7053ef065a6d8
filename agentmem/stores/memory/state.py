"""Everything the dictionary store holds, under one lock."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Self

from agentmem.core.quoting import Names, Quotes, texts_in
from agentmem.core.scope import visible
from agentmem.core.snapshot_codec import TEXT_PREFIX, said_mention
from agentmem.core.values import dataclass
from agentmem.errors import (
    StoreClosed,
)
from agentmem.protocols import EmbedderId
from agentmem.stores import packing
from agentmem.stores.entries import (
    EPOCH,
    freeze_metadata,
    from_microseconds,
    to_microseconds,
    write_json,
)
from agentmem.stores.revisions import JournalEntry
from agentmem.stores.values import (
    Artifact,
    Change,
    Entry,
    IndexFile,
    Job,
    Link,
    Operation,
    SnapshotRecord,
    Source,
    Version,
)
from agentmem.types import Memory, Scope, Visibility


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalItem:
    """What a journal keeps of one memory, or of the relation between two."""

    rows: tuple[int, ...]
    data: dict[str, Any]
    key: tuple[str, int, int, str] | None = None


@dataclass(slots=True, kw_only=True)
class Journaled:
    """A revision that was applied, with what it takes to undo it."""

    entry: JournalEntry
    items: list[JournalItem]
    mark: tuple[str, str | None, str] | None


@dataclass(slots=True)
class State:
    """Everything a `MemoryStore` holds; entering it takes the lock."""

    lock: threading.RLock = field(default_factory=threading.RLock)
    closed: bool = False
    last_row: int = 0
    entries: dict[int, Entry] = field(default_factory=dict)
    row_of: dict[str, int] = field(default_factory=dict)
    history: dict[int, list[Version]] = field(default_factory=dict)
    vectors: dict[EmbedderId, dict[int, bytes]] = field(default_factory=dict)
    sources: dict[tuple[Visibility, Scope, str], Source] = field(default_factory=dict)
    owners: dict[tuple[Visibility, Scope], int] = field(default_factory=dict)
    strands: dict[tuple[int, str, str], int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    writes: int = 0
    erased_seq: int = 0
    index_files: dict[str, IndexFile] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    snapshots: dict[str, SnapshotRecord] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    links: dict[tuple[str, int, int, str], Link] = field(default_factory=dict)
    jobs: dict[int, tuple[Job, str, str, datetime, Scope]] = field(default_factory=dict)
    last_job: int = 0
    journal: dict[str, Journaled] = field(default_factory=dict)
    last_sync: datetime | None = None

    def __enter__(self) -> Self:
        self.lock.acquire()
        if self.closed:
            self.lock.release()
            raise StoreClosed("The store was closed.", remedy="Open it again.")
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def owner_number(self, memory: Memory) -> int:
        return self.owners.setdefault((memory.visibility, memory.scope), len(self.owners) + 1)

    def strand_number(self, memory: Memory) -> int:
        if not memory.source_url and not memory.session:
            return 0
        strand = (self.owner_number(memory), memory.source_url, memory.session)
        return self.strands.setdefault(strand, len(self.strands) + 1)

    def visible_owners(self, scope: Scope) -> list[int]:
        return sorted({
            self.owner_number(entry.memory)
            for entry in self.entries.values()
            if visible(entry.memory, scope)
        })  # fmt: skip

    def log(self, operation: Operation, rows: Iterable[int]) -> None:
        self.writes += 1
        for row in sorted(set(rows)):
            seq = len(self.changes) + 1
            self.changes.append(Change(seq=seq, operation=operation, first=row, last=row))

    def previous_rows(self) -> dict[int, int]:
        """For each row that is not deleted, the one before it in its strand, or 0."""
        strands: dict[int, list[tuple[int, int]]] = {}
        for row, entry in self.entries.items():
            if entry.memory.deleted_at is None and (strand := self.strand_number(entry.memory)):
                strands.setdefault(strand, []).append((packing.place_of(entry.memory), row))
        previous = {}
        for places in strands.values():
            before = 0
            for _, row in sorted(places):
                previous[row] = before
                before = row
        return previous

    def log_moved(self, before: Mapping[int, int]) -> None:
        """Tell indexes which old rows follow another row now."""
        now = self.previous_rows()
        self.log("update", [row for row in now if row in before and before[row] != now[row]])

    def drop_vectors(self, row: int) -> int:
        return sum(vectors.pop(row, None) is not None for vectors in self.vectors.values())

    def forget_empty_sources(self, rows: Collection[int], *, without: Collection[int] = ()) -> None:
        """Forget the content hash of sources that have no chunk left, so they can come again."""
        for row in rows:
            memory = self.entries[row].memory
            key = (memory.visibility, memory.scope, memory.source_url)
            left = any(
                (m.visibility, m.scope, m.source_url) == key and m.deleted_at is None
                for other, entry in self.entries.items()
                if other not in without
                for m in (entry.memory,)
            )
            if not left:
                self.sources.pop(key, None)

    # -- how memories came from each other (`Origins`) -----------------------------------

    def memory(self, row: int, /) -> Memory | None:
        return self.entries[row].memory if row in self.entries else None

    def merged_into(self, survivor: Memory, /) -> Iterable[int]:
        return [r for r, e in self.entries.items() if e.memory.superseded_by == survivor.id]

    def made_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return [
            (first, relation)
            for family, first, second, relation in self.links
            if family == "link" and second == row
        ]

    def sources_of(self, row: int, /) -> Iterable[tuple[int, str]]:
        return [
            (second, relation)
            for family, first, second, relation in self.links
            if family == "link" and first == row
        ]

    def forget_mentions(
        self, gone: Sequence[Memory], *, said: Sequence[Memory], all_of: Scope | None
    ) -> dict[str, int]:
        """Remove what names erased memories or quotes what they `said`, and what `all_of` owns."""
        ids = [memory.id for memory in gone]
        exact = {*ids, *map(said_mention, ids)}
        names = Names(ids)
        quotes = Quotes(
            text
            for one in said
            for text in (one.text, one.summary, one.compressed, one.index)
            if text is not None
        )
        users = {memory.scope.user_id for memory in gone}
        shared = any(memory.visibility != "private" for memory in gone)

        def mentioned(written: Any, scope: Scope) -> bool:
            if all_of is not None and may_see("private", scope, all_of):
                return True
            texts = list(texts_in(written))
            if any(map(names.are_in, texts)):
                return True
            return (shared or scope.user_id in users) and any(map(quotes.are_in, texts))

        counts = {}
        for name, table in (("snapshots", self.snapshots), ("artifacts", self.artifacts)):
            doomed = [
                key
                for key, record in table.items()
                if mentioned(_written(record), record.scope)
                or not exact.isdisjoint(getattr(record, "mentions", ()))
            ]
            counts[name] = sum(
                name != "snapshots" or not key.startswith(TEXT_PREFIX) for key in doomed
            )
            for key in doomed:
                del table[key]
        jobs = [n for n, job in self.jobs.items() if mentioned(job[0].payload, job[4])]
        for number in jobs:
            del self.jobs[number]
        rows = set(self.entries)
        for name, known in list(self.journal.items()):
            known.items = [item for item in known.items if set(item.rows) <= rows]
            if all_of is not None and may_see("private", known.entry.scope, all_of):
                del self.journal[name]
        self.links = {key: link for key, link in self.links.items() if set(key[1:3]) <= rows}
        return {**counts, "jobs": len(jobs)}


def _written(record: SnapshotRecord | Artifact) -> Any:
    if isinstance(record, SnapshotRecord):
        return [record.id, record.data]
    return [record.id, record.data.decode("utf-8", "replace"), record.metadata]


def may_see(visibility: Visibility, owner: Scope, reader: Scope) -> bool:
    probe = Memory(id="probe", text="", created_at=EPOCH, scope=owner, visibility=visibility)
    return visible(probe, reader)


def job_counts(state: State, scope: Scope | None) -> dict[str, int]:
    counts = {"waiting": 0, "running": 0, "failed": 0}
    for _, name, _, _, owner in state.jobs.values():
        if scope is None or may_see("private", owner, scope):
            counts[name] += 1
    return counts


def normalised(memory: Memory) -> Memory:
    """`memory` as it would come back from a file: plain JSON metadata, moments in UTC."""
    moments: dict[str, Any] = {
        name: from_microseconds(to_microseconds(moment, name))
        for name in ("created_at", "valid_from", "valid_to", "deleted_at")
        if (moment := getattr(memory, name)) is not None
    }
    metadata = json.loads(write_json(memory.metadata, "metadata")) if memory.metadata else {}
    return replace(memory, metadata=freeze_metadata(metadata), **moments)


def newer_than(state: State, memory_id: str) -> list[str]:
    newer = [
        entry.memory.id for entry in state.entries.values() if entry.memory.supersedes == memory_id
    ]
    row = state.row_of.get(memory_id)
    if row is not None and (by := state.entries[row].memory.superseded_by) is not None:
        newer.append(by)
    return newer
