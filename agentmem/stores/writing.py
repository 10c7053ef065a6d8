"""Changes of memories that every store makes alike, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Generic, TypeVar

from agentmem.base.types import Memory, Scope, is_pinned, memory_to_fields, visible
from agentmem.prompt.snapshot import TEXT_PREFIX, said_mention
from agentmem.prompt.strip import Names, Quotes, texts_in
from agentmem.stores.rules import Edge, refuse_cycles
from agentmem.stores.side import mentioned, plain_data, set_value
from agentmem.stores.tables import (
    ANY,
    ARTIFACTS,
    HISTORY,
    INDEX_FILES,
    JOBS,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    MEMORIES,
    OWNERS,
    SNAPSHOTS,
    SOURCES,
    STRANDS,
    Found,
    Reads,
    Row,
    Table,
    TableReader,
    TableWriter,
    Writes,
)
from agentmem.stores.values import (
    DERIVED,
    ERASED,
    STATED_IN,
    Entry,
    Receipt,
    Source,
    SourceReport,
    to_microseconds,
    write_json,
)

R = TypeVar("R", bound=TableReader)
W = TypeVar("W", bound=TableWriter)
AT_ONCE = 500
"""So many rows are asked for at once."""


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
    write.put(SOURCES, **_source_values(write, replace(source, synced_at=at)))
    return SourceReport(unchanged=False, added=len(entries), removed=len(old))


def note_source(write: TableWriter, source: Source) -> None:
    """Keep the hash of a source whose chunks came some other way, unless it has one."""
    write.add(SOURCES, **_source_values(write, source))


def _source_values(write: TableWriter, source: Source) -> dict[str, Any]:
    synced = source.synced_at
    return {
        "owner": write.owner_number((source.visibility, source.scope)),
        "url": source.url,
        "title": source.title,
        "content_hash": source.content_hash,
        "synced_at": 0 if synced is None else to_microseconds(synced, "synced_at"),
    }


# ----------------------------------------------------------------------------
# What goes with a memory when it is erased: its duplicates, and what was made of it.
#
# Somebody who erases what they see means all of it: a near-duplicate that was merged into it says
# the same, a fact or a preference that was taken from it quotes it, and so does what a tool result
# was promoted to.


class _Origins(Generic[R]):
    """How memories, by row, came from each other, in one transaction."""

    def __init__(self, reads: Reads[R], read: R, found: Sequence[Found]) -> None:
        self._reads = reads
        self._read = read
        self.found = {one.row: one for one in found}

    def memory(self, row: int) -> Memory | None:
        if row not in self.found:
            self.found |= self._reads.by_rows(self._read, [row])
        kept = self.found.get(row)
        return None if kept is None else kept.memory

    def merged_into(self, survivor: Memory) -> list[int]:
        """The rows of duplicates that `survivor` stands for."""
        named = survivor.metadata.get("merged_from")
        if not named or not isinstance(named, list | tuple):
            return []
        ids = set(map(str, named))
        found = self._reads.find_where(self._read, "m.superseded_by = :id", id=survivor.id)
        self.found |= {one.row: one for one in found if one.row not in self.found}
        return [one.row for one in found if one.memory.id in ids and one.memory.valid_to is None]

    def made_of(self, row: int, gone: Collection[int]) -> list[int]:
        """The rows of what was made of this one, and what nothing else states."""
        return [
            one
            for one, relation in self._related("first", "second", row)
            if relation == DERIVED or not self._is_stated(one, gone)
        ]

    def _is_stated(self, row: int, gone: Collection[int]) -> bool:
        """Whether a message is left that states this."""
        sources = self._related("second", "first", row)
        left = [s for s, relation in sources if relation in STATED_IN and s not in gone]
        return any((m := self.memory(s)) is not None and m.deleted_at is None for s in left)

    def _related(self, wanted: str, given: str, row: int) -> list[Row]:
        match = {"family": "link", given: row, "relation": [DERIVED, *STATED_IN]}
        return self._read.ask(f"{wanted}, relation", LINKS, match)


def with_derived(reads: Reads[R], read: R, found: Sequence[Found], reader: Scope) -> list[Found]:
    """`found`, and after it what goes with it, as far as the reader sees it; pinned ones stay."""
    origins = _Origins(reads, read, found)
    more: list[int] = []
    waiting = [one.row for one in found]
    gone = set(waiting)
    while waiting:
        row = waiting.pop()
        merged = origins.merged_into(origins.found[row].memory)
        for one in (*merged, *origins.made_of(row, gone)):
            derived = origins.memory(one)
            if one in gone or derived is None or is_pinned(derived) or not visible(derived, reader):
                continue
            gone.add(one)
            more.append(one)
            waiting.append(one)
    return [*found, *(origins.found[row] for row in more)]


# ----------------------------------------------------------------------------
# Removing memories for good: from every table, with what was made of them (P26).


_REFERENCES = ("supersedes", "superseded_by")
_TEXTS = ("text", "summary", "compressed", "index")
_NO_ROWS = """NOT EXISTS (SELECT 1 FROM memories AS m
    WHERE [m] AND m.owner = t.owner AND m.strand = t.strand)"""
_NOTHING_LEFT = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table.name} AS u WHERE [u] AND u.owner = t.owner)"  # noqa: S608 # our own names
    for table in (MEMORIES, STRANDS, SOURCES, SNAPSHOTS, ARTIFACTS, JOBS, JOURNAL)
)


def erase_rows(
    reads: Reads[W],
    writes: Writes[W],
    write: W,
    found: Sequence[Found],
    *,
    at: datetime,
    reader: Scope | None = None,
    all_of: Scope | None = None,
) -> Receipt:
    """Take memories out of every table; what is left to do on disk is the back end's.

    With a `reader`, what was made of them goes too, as far as the reader sees
    it. With `all_of`, so do the snapshots, artifacts and jobs that reader owns.
    """
    named = len(found)
    if reader is not None:
        found = with_derived(reads, write, found, reader)
    rows = [one.row for one in found]
    ids = [one.memory.id for one in found]
    moved = writes.followers(write, [one.place for one in found])
    owners = {one.owner for one in found}
    quotes = Quotes(_texts(write, found))
    versions = write.remove(HISTORY, {"row": rows})
    for column in ("first", "second"):
        write.remove(LINKS, {column: rows})
    for column in ("row", "other"):
        write.remove(JOURNAL_ITEMS, {column: rows})
    vectors = writes.remove_rows(write, found)
    _forget_references(reads, writes, write, ids)
    own = set() if all_of is None else _private_owners(write, all_of)
    owners |= own
    runs = [entry for (entry,) in write.ask("entry", JOURNAL, {"owner": own})] if own else []
    write.remove(JOURNAL_ITEMS, {"entry": runs})
    write.remove(JOURNAL, {"entry": runs})
    readers = _readers(write, [one.memory for one in found])
    snapshots, artifacts, jobs = (
        _remove_mentioning(write, table, ids=ids, quotes=quotes, readers=readers, own=own)
        for table in (SNAPSHOTS, ARTIFACTS, JOBS)
    )
    forget_empty_sources(write, found)
    strands = {one.strand for one in found if one.strand is not None}
    write.remove(STRANDS, {"strand": strands}, _NO_ROWS)
    write.remove(OWNERS, {"owner": owners}, _NOTHING_LEFT)
    writes.after_erasing(write, owners)
    files = tuple(row[1] for row in write.find(INDEX_FILES))
    write.remove(INDEX_FILES, ANY)
    write.log("erase", rows)
    write.log("update", moved - set(rows))
    set_value(write, "erased_seq", str(write.seq()))
    return Receipt(
        ids=tuple(ids),
        derived=tuple(ids[named:]),
        vectors=vectors,
        versions=versions,
        snapshots=snapshots,
        artifacts=artifacts,
        jobs=jobs,
        index_files=files,
        complete=False,
        erased_at=at,
    )


def _texts(read: TableReader, found: Sequence[Found]) -> Iterator[str]:
    """What to look for inside other records: the texts of memories, and what they said before."""
    for one in found:
        yield from (text for name in _TEXTS if (text := getattr(one.memory, name)) is not None)
    for (data,) in read.ask("data", HISTORY, {"row": [one.row for one in found]}):
        kept = json.loads(data)
        yield from (kept[name] for name in _TEXTS if isinstance(kept.get(name), str))


def _private_owners(read: TableReader, reader: Scope) -> set[int]:
    found = read.ask("owner", OWNERS, {"owner": reader, "visibility": "private"})
    return {owner for (owner,) in found}


def _readers(read: TableReader, memories: Sequence[Memory]) -> set[int]:
    """The owners whose records may quote these memories: the same user, or anybody if shared."""
    users = {memory.scope.user_id for memory in memories}
    shared = any(memory.visibility != "private" for memory in memories)
    return {row[0] for row in read.find(OWNERS) if shared or row[2] in users}


def _remove_mentioning(
    write: TableWriter,
    table: Table,
    *,
    ids: Sequence[str],
    quotes: Quotes,
    readers: set[int],
    own: set[int],
) -> int:
    """Remove records that name one of `ids`, or that are `readers`' and quote an erased text.

    Those of `own` go all. Texts that snapshots share are not counted: they are no records of
    their own.
    """
    names, exact = Names(ids), {*ids, *map(said_mention, ids)}
    gone: list[int] = []
    counted = 0
    for row in write.find(table):
        columns = dict(zip(table.columns, row, strict=True))
        owner = columns["owner"]
        written = [_value(value) for value in row if isinstance(value, str | list)]
        data = ""
        if table is SNAPSHOTS:
            written.append(json.loads(plain_data(columns["data"])))
        elif table is ARTIFACTS:
            data = columns["data"].decode("utf-8", "replace")
        texts = list(texts_in(written))
        if (
            owner in own
            or (table is SNAPSHOTS and not exact.isdisjoint(mentioned(columns["mentions"])))
            or any(map(names.are_in, texts))
            or (owner in readers and any(map(quotes.are_in, (*texts, data))))
        ):
            gone.append(row[0])
            counted += table is not SNAPSHOTS or not columns["id"].startswith(TEXT_PREFIX)
    write.remove(table, {table.key: gone})
    return counted


def _value(written: Any) -> Any:
    """A column as JSON has it, or else itself."""
    try:
        return json.loads(written) if isinstance(written, str) else written
    except ValueError:
        return written


def _forget_references(reads: Reads[W], writes: Writes[W], write: W, ids: Sequence[str]) -> None:
    """Put a constant where other memories name an erased one."""
    gone = set(ids)
    for start in range(0, len(ids), AT_ONCE):
        part = list(ids[start : start + AT_ONCE])
        condition = "m.supersedes IN :ids OR m.superseded_by IN :ids"
        for one in reads.find_where(write, condition, lock=True, ids=part):
            changes: dict[str, Any] = {
                name: ERASED for name in _REFERENCES if getattr(one.memory, name) in gone
            }
            writes.rewrite(write, one, replace(one.memory, **changes))
            write.log("update", [one.row])
    naming = " OR ".join(f"""t.data LIKE '%"{name}":"%'""" for name in _REFERENCES)
    for row in write.find(HISTORY, ANY, naming):
        kept = json.loads(row[3])
        named = {name: ERASED for name in _REFERENCES if kept.get(name) in gone}
        if named:
            written = json.dumps(kept | named, ensure_ascii=False, separators=(",", ":"))
            write.change(HISTORY, row, data=written)
