"""Changes of memories that every store makes alike, inside one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from agentmem.base.types import Memory, memory_to_fields
from agentmem.stores.rules import Edge, refuse_cycles
from agentmem.stores.tables import (
    HISTORY,
    MEMORIES,
    SOURCES,
    Found,
    Reads,
    TableReader,
    TableWriter,
    Writes,
)
from agentmem.stores.values import Entry, Source, SourceReport, to_microseconds, write_json

W = TypeVar("W", bound=TableWriter)


def refuse_circles(write: TableWriter, edges: Sequence[Edge]) -> None:
    """Refuse edges that close a circle (P38); others who add edges wait until this one ends."""
    if edges:
        write.hold("edges")
        refuse_cycles(edges, lambda memory_id: _newer_than(write, memory_id))


def _newer_than(read: TableReader, memory_id: str) -> list[str]:
    """The ids of those that stand for this memory directly."""
    named = read.ask("superseded_by", MEMORIES, {"id": memory_id}, "superseded_by IS NOT NULL")
    return [newer for (newer,) in (*named, *read.ask("id", MEMORIES, {"supersedes": memory_id}))]


def keep_version(write: TableWriter, row: int, old: Memory, at: datetime) -> None:
    """Remember what a memory was until `at`."""
    data = write_json(memory_to_fields(old), "memory")
    write.add(HISTORY, row=row, replaced_at=to_microseconds(at, "at"), data=data)


def hide(writes: Writes[W], write: W, found: Sequence[Found], at: datetime | None) -> int:
    """Mark memories as deleted at `at`, or as there again (None)."""
    # Before anything is marked: a row that is hidden next has its follower close by.
    moved = writes.followers(write, [one.place for one in found])
    for one in found:
        writes.rewrite(write, one, replace(one.memory, deleted_at=at), relink=False)
    rows = [one.row for one in found]
    write.log("delete" if at is not None else "update", rows)
    write.log("update", moved - set(rows))
    if at is not None:
        forget_empty_sources(write, found)
    return len(found)


# ----------------------------------------------------------------------------
# Sources.


_CHUNKS = """m.owner = :owner AND m.deleted_at IS NULL AND m.strand IN (
    SELECT s.strand FROM strands AS s WHERE [s] AND s.url = :url AND s.owner = :owner)"""
_NO_CHUNK = """NOT EXISTS (SELECT 1 FROM strands AS s
    JOIN memories AS m ON m.owner = s.owner AND m.strand = s.strand
    WHERE [s] AND [m] AND s.url = :of_url AND s.owner = t.owner AND m.deleted_at IS NULL)"""


def forget_empty_sources(write: TableWriter, found: Collection[Found]) -> None:
    """Forget the content hash of sources that have no chunk left, so they can come again."""
    for owner, url in sorted({(one.owner, one.memory.source_url) for one in found}):
        if url:
            write.remove(SOURCES, {"owner": owner, "url": url}, _NO_CHUNK, of_url=url)


def has_source(read: TableReader, source: Source) -> bool:
    """Whether the owner's page with this url has this very content."""
    owner = read.find_owner((source.visibility, source.scope))
    if owner is None:
        return False
    known = read.find(SOURCES, {"owner": owner, "url": source.url})
    return bool(known) and known[0][4] == source.content_hash


def replace_source(
    reads: Reads[W],
    writes: Writes[W],
    write: W,
    source: Source,
    entries: Sequence[Entry],
    *,
    at: datetime,
) -> SourceReport:
    """Make `entries` the only chunks of a source; nothing when its content is the same (P6)."""
    owner = write.owner_number((source.visibility, source.scope))
    write.hold(f"source {owner} {source.url}")  # who says the same at once finds it said
    known = write.find(SOURCES, {"owner": owner, "url": source.url})
    if known and known[0][4] == source.content_hash:
        return SourceReport(unchanged=True, added=0, removed=0)
    old = reads.find_where(write, _CHUNKS, lock=True, owner=owner, url=source.url)
    if old:
        hide(writes, write, old, at)
    writes.add(write, entries)
    write.put(
        SOURCES,
        owner=owner,
        url=source.url,
        title=source.title,
        content_hash=source.content_hash,
        synced_at=to_microseconds(at, "at"),
    )
    return SourceReport(unchanged=False, added=len(entries), removed=len(old))


def note_source(write: TableWriter, source: Source) -> None:
    """Keep the hash of a source whose chunks came some other way, unless it has one."""
    write.add(
        SOURCES,
        owner=write.owner_number((source.visibility, source.scope)),
        url=source.url,
        title=source.title,
        content_hash=source.content_hash,
        synced_at=0 if source.synced_at is None else to_microseconds(source.synced_at),
    )
