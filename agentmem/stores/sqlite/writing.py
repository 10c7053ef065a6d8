"""Adding, changing and hiding memories, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from agentmem.base.errors import DuplicateRecord
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import UNUSED, Memory, is_cold, memory_to_fields
from agentmem.stores.rows import Owner, memory_values, owned_by, usage_values
from agentmem.stores.rules import Edge, refuse_cycles, supersession_edges
from agentmem.stores.sqlite.connection import (
    CONSTRAINT,
    Read,
    Row,
    Write,
    code_of,
    corrupt,
    opened,
    seal,
    vector_key,
    vectors_tally,
)
from agentmem.stores.sqlite.reading import (
    COLUMN,
    INTEGERS,
    Found,
    all_embedders,
    find_owner,
    found_in,
    integers,
    intern_embedder,
    intern_owner,
    intern_strands,
    pack_text,
    read_memories,
    rows_by_id,
)
from agentmem.stores.sqlite.schema import (
    COLD,
    EMBEDDINGS,
    HISTORY,
    INDEXED,
    MEMORIES,
    SOURCES,
    STRANDS,
    USAGE,
)
from agentmem.stores.values import (
    Entry,
    Source,
    SourceReport,
    pack,
    pack_terms,
    shortest,
    to_microseconds,
    unpack_terms,
    write_json,
)

_SAME_PLACE = """
    SELECT row FROM memories
    WHERE owner = ? AND strand = ? AND place = ? AND row > ? AND deleted_at IS NULL
    ORDER BY row LIMIT 1
"""
_LATER_PLACE = """
    SELECT row FROM memories
    WHERE owner = ? AND strand = ? AND place > ? AND deleted_at IS NULL
    ORDER BY place, row LIMIT 1
"""
_NEWER = """
    SELECT superseded_by FROM memories WHERE id = ?1 AND superseded_by IS NOT NULL
    UNION SELECT id FROM memories WHERE supersedes = ?1
"""
_SAME_CONTENT = """
    WHERE content_hash IN (SELECT value FROM json_each(?))
    AND owner IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL
"""
Place = tuple[int, int | None, int, int]
"""Owner, strand, place and row: where a memory stands among its neighbours."""


def add(write: Write, entries: Sequence[Entry], *, new_source: bool = False) -> tuple[int, ...]:
    """Store checked entries under new rows; of a `new_source` there is no strand yet."""
    if not entries:
        return ()
    edges = [
        edge
        for entry in entries
        if entry.memory.supersedes is not None or entry.memory.superseded_by is not None
        for edge in supersession_edges(entry.memory)
    ]
    refuse_circles(write, edges)
    owners = _owners_of(write, entries)
    strands = _strands_of(
        write,
        list(zip(owners, [e.memory for e in entries], strict=True)),
        all_new=new_source,
    )
    rows = write.take(MEMORIES, len(entries))
    stored: list[Row] = []
    blobs: list[Row] = []
    for row, entry, owner, strand in zip(rows, entries, owners, strands.numbers, strict=True):
        memory = entry.memory
        stored.append((row, memory.id, owner, strand, *place_text(write, row, memory)))
        blob = pack(entry, owner=owner, strand=strand or 0)
        blobs.append((row, seal(row, blob)))
    moved = followers(write, [place(row) for row in stored if row[3] in strands.old], new=True)
    _insert_memories(write, stored)
    write.insert(INDEXED, blobs)
    used = [
        (row, *usage_values(entry.memory.usage))
        for row, entry in zip(rows, entries, strict=True)
        if entry.memory.usage is not UNUSED and entry.memory.usage != UNUSED
    ]
    if used:
        write.insert(USAGE, used)
    _add_vectors(write, rows, entries)
    for row, entry in zip(rows, entries, strict=True):
        for version in entry.versions:
            keep_version(write, row, version.memory, version.replaced_at)
    write.log("update", moved)
    return tuple(rows)


def of_same_content(write: Write, entries: Sequence[Entry]) -> list[Memory]:
    """What the owners of `entries` have with the content of one of them, deleted ones left out."""
    condition = _SAME_CONTENT
    if all(entry.memory.kind != "page" for entry in entries):
        condition += " AND kind <> 'page'"  # so that the index, which leaves them out, will do
    hashes = json.dumps(list({entry.memory.content_hash for entry in entries}))
    owners = integers(set(_owners_of(write, entries)))
    return read_memories(write, write.rows(MEMORIES, condition, (hashes, owners)))


def place_text(write: Write, row: int, memory: Memory, *, old: Row | None = None) -> Row:
    """The columns of a memory from its place on; a cold one's text is put away, compressed."""
    columns = memory_values(memory)
    if old is not None and not old[COLUMN["text"]]:
        write.delete(COLD, [row])
    if not is_cold(memory) or not memory.text:
        return columns
    write.insert(COLD, [pack_text(row, memory.text)])
    at = COLUMN["text"] - COLUMN["place"]
    return (*columns[:at], "", *columns[at + 1 :])


def _insert_memories(write: Write, stored: Sequence[Row]) -> None:
    try:
        write.insert(MEMORIES, stored)
    except sqlite3.Error as error:
        if code_of(error) != CONSTRAINT:
            raise
        ids = [row[1] for row in stored]
        # Some of this batch are in the table by now: only older rows are in the way.
        taken = [i for i, row in rows_by_id(write, ids).items() if row[0] < stored[0][0]]
        raise (DuplicateRecord(taken[0]) if taken else error) from None


def _owners_of(write: Write, entries: Sequence[Entry]) -> list[int]:
    known: dict[Owner, int] = {}
    found: list[int] = []
    last: Memory | None = None
    for entry in entries:
        memory = entry.memory
        same = last is not None and memory.scope is last.scope
        if not same or last is None or memory.visibility != last.visibility:
            owner = owned_by(memory)
            if owner not in known:
                known[owner] = intern_owner(write, owner)
            number, last = known[owner], memory
        found.append(number)
    return found


class _Strands:
    def __init__(self, numbers: list[int | None], old: set[int]) -> None:
        self.numbers = numbers
        self.old = old


def _strands_of(
    write: Write, owned: Sequence[tuple[int, Memory]], *, all_new: bool = False
) -> _Strands:
    wanted = [
        (owner, memory.source_url, memory.session) if memory.source_url or memory.session else None
        for owner, memory in owned
    ]
    named = dict.fromkeys(strand for strand in wanted if strand is not None)
    numbers, new = intern_strands(write, named, all_new=all_new)
    return _Strands(
        [None if strand is None else numbers[strand] for strand in wanted],
        set(numbers.values()) - new,
    )


def _add_vectors(write: Write, rows: Iterable[int], entries: Sequence[Entry]) -> None:
    by_embedder: dict[EmbedderId, list[tuple[int, bytes]]] = {}
    for row, entry in zip(rows, entries, strict=True):
        for embedder, vector in entry.vectors:
            by_embedder.setdefault(embedder, []).append((row, vector))
    for embedder, given in by_embedder.items():
        number = intern_embedder(write, embedder)
        short = shortest([vector for _, vector in given])
        keys = [vector_key(number, row) for row, _ in given]
        packed = [(key, seal(key, data)) for key, data in zip(keys, short, strict=True)]
        write.insert(EMBEDDINGS, packed, tally=vectors_tally(number))


def remove_vectors(write: Write, rows: Iterable[int]) -> int:
    """Remove the vectors of `rows` in every space; gives how many there were."""
    keys = list(rows)
    return sum(
        len(write.delete(EMBEDDINGS, [vector_key(n, row) for row in keys], tally=vectors_tally(n)))
        for n in all_embedders(write)
    )


def place(row: Row) -> Place:
    """Where a stored row stands."""
    return row[COLUMN["owner"]], row[COLUMN["strand"]], row[COLUMN["place"]], row[0]


def followers(write: Write, places: Iterable[Place], *, new: bool = False) -> set[int]:
    """The rows that come right after these places, before anything is changed there.

    A `new` row comes after all that have the same place.
    """
    found: set[int] = set()
    by_strand: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for owner, strand, at, row in places:
        if strand is not None:
            by_strand.setdefault((owner, strand), []).append((at, row))
    for (owner, strand), here in by_strand.items():
        # Nearly always something is added at the end, where nothing follows.
        later = write.execute(_LATER_PLACE, (owner, strand, min(at for at, _ in here)))
        for at, row in here:
            after = write.execute(_SAME_PLACE, (owner, strand, at, row)) if not new else []
            if later and not after:
                after = write.execute(_LATER_PLACE, (owner, strand, at))
            found.update(row for (row,) in after)
    return found


def newer_than(write: Write, memory_id: str) -> list[str]:
    """The ids of those that stand for this memory directly."""
    return [newer for (newer,) in write.execute(_NEWER, (memory_id,))]


def refuse_circles(write: Write, edges: Sequence[Edge]) -> None:
    """Refuse edges that close a circle (P38)."""
    if edges:
        refuse_cycles(edges, lambda memory_id: newer_than(write, memory_id))


def rewrite(
    write: Write, old: Found, memory: Memory, *, entry: Entry | None = None, relink: bool = True
) -> None:
    """Store `memory` in the place of `old`; with an entry, its terms too.

    With `relink`, the rows that follow its old and new place are logged.
    """
    row = old.columns
    owner = intern_owner(write, owned_by(memory))
    (strand,) = _strands_of(write, [(owner, memory)]).numbers
    columns = place_text(write, row[0], memory, old=row)
    values = (row[0], memory.id, owner, strand, *columns)
    places = {place(row), place(values)}
    moved = len(places) > 1 or (memory.deleted_at is None) != (row[COLUMN["deleted_at"]] is None)
    after = followers(write, places) if moved and relink else set()
    changed = dict(zip(MEMORIES.columns, values, strict=True))
    write.change(MEMORIES, row, **changed)
    found = write.rows(INDEXED, "WHERE row = ?", (row[0],))
    if not found:
        raise corrupt(f"the terms of row {row[0]} are missing")
    blob = found[0]
    if entry is None:
        kept = unpack_terms(opened(row[0], blob[1]))
        packed = pack_terms(memory, **kept, owner=owner, strand=strand or 0)
    else:
        packed = pack(replace(entry, memory=memory), owner=owner, strand=strand or 0)
    write.change(INDEXED, blob, data=seal(row[0], packed))
    write.log("update", after - {row[0]})


def renew(write: Write, old: Found, memory: Memory, entry: Entry) -> None:
    """Store `memory` in the place of `old` with an entry's terms and vectors.

    When the text changes, vectors that are not given anew are removed.
    """
    rewrite(write, old, memory, entry=entry)
    if memory.text != old.memory.text:
        remove_vectors(write, [old.row])
    else:
        given = {intern_embedder(write, embedder) for embedder, _ in entry.vectors}
        for number in given:
            write.delete(EMBEDDINGS, [vector_key(number, old.row)], tally=vectors_tally(number))
    _add_vectors(write, [old.row], [entry])


def keep_version(write: Write, row: int, old: Memory, at: datetime) -> None:
    """Remember what a memory was until `at`."""
    (version,) = write.take(HISTORY)
    data = write_json(memory_to_fields(old), "memory")
    write.insert(HISTORY, [(version, row, to_microseconds(at, "at"), data)])


def hide(write: Write, found: Sequence[Found], at: datetime | None) -> int:
    """Mark rows as deleted at `at`, or as there again (None)."""
    write.abandoned = not found
    # Before anything is marked: a row that is hidden next has its follower close by.
    moved = followers(write, [place(row) for row, _ in found])
    for one in found:
        rewrite(write, one, replace(one.memory, deleted_at=at), relink=False)
    rows = [one.row for one in found]
    write.log("delete" if at is not None else "update", rows)
    write.log("update", moved - set(rows))
    if at is not None:
        forget_empty_sources(write, {row[COLUMN["strand"]] for row, _ in found} - {None})
    return len(found)


def forget_empty_sources(write: Write, strands: Collection[int]) -> None:
    """Forget the content hash of sources that have no chunk left, so they can come again."""
    touched = {
        (owner, url)
        for _, owner, url, _ in write.rows(
            STRANDS, f"WHERE strand IN {INTEGERS}", (integers(strands),)
        )
        if url
    }
    for owner, url in touched:
        left = write.execute(
            "SELECT 1 FROM strands AS s JOIN memories AS m ON m.owner = s.owner "
            "AND m.strand = s.strand WHERE s.url = ? AND s.owner = ? "
            "AND m.deleted_at IS NULL LIMIT 1",
            (url, owner),
        )
        if not left:
            keys = write.rows(SOURCES, "WHERE url = ? AND owner = ?", (url, owner))
            write.delete(SOURCES, [row[0] for row in keys])


def has_source(read: Read, source: Source) -> bool:
    """Whether the owner's page with this url has this very content."""
    owner = find_owner(read, (source.visibility, source.scope))
    known = read.rows(SOURCES, "WHERE url = ? AND owner = ?", (source.url, owner))
    return bool(known) and known[0][4] == source.content_hash


def replace_source(
    write: Write, source: Source, entries: Sequence[Entry], *, at: datetime
) -> SourceReport:
    """Make `entries` the only chunks of a source; nothing when its content is the same (P6)."""
    owner = intern_owner(write, (source.visibility, source.scope))
    known = write.rows(SOURCES, "WHERE url = ? AND owner = ?", (source.url, owner))
    if known and known[0][4] == source.content_hash:
        write.abandoned = True
        return SourceReport(unchanged=True, added=0, removed=0)
    moment = to_microseconds(at, "at")
    before = write.rows(STRANDS, "WHERE url = ? AND owner = ?", (source.url, owner))
    old = _chunks_in(write, owner, [strand for strand, *_ in before]) if before else []
    if old:
        hide(write, found_in(write, old), at)
        known = write.rows(SOURCES, "WHERE url = ? AND owner = ?", (source.url, owner))
    add(write, entries, new_source=not before)
    write.delete(SOURCES, [row[0] for row in known])
    _insert_source(write, source, owner, moment)
    return SourceReport(unchanged=False, added=len(entries), removed=len(old))


def _chunks_in(write: Write, owner: int, strands: Sequence[int]) -> list[Row]:
    """The rows of these strands that are not deleted, tested, in the order they came."""
    return write.rows(
        MEMORIES,
        f"WHERE owner = ? AND strand IN {INTEGERS} AND deleted_at IS NULL ORDER BY row",
        (owner, integers(strands)),
    )


def _insert_source(write: Write, source: Source, owner: int, moment: int) -> None:
    (key,) = write.take(SOURCES)
    write.insert(SOURCES, [(key, owner, source.url, source.title, source.content_hash, moment)])


def note_source(write: Write, source: Source) -> None:
    """Keep the hash of a source whose chunks came some other way, unless it has one."""
    owner = intern_owner(write, (source.visibility, source.scope))
    if not write.rows(SOURCES, "WHERE url = ? AND owner = ?", (source.url, owner)):
        moment = 0 if source.synced_at is None else to_microseconds(source.synced_at)
        _insert_source(write, source, owner, moment)


def count_usage(
    write: Write, found: Sequence[Found], *, retrieved: int, cited: int, ignored: int, at: int
) -> None:
    """Add to the counts; the moment never goes back."""
    write.abandoned = not found
    rows: list[Row] = []
    for row, memory in found:
        before = usage_values(memory.usage)
        last = at if before[3] is None else max(at, before[3])
        rows.append((row[0], before[0] + retrieved, before[1] + cited, before[2] + ignored, last))
    write.delete(USAGE, [row[0] for row in rows])
    write.insert(USAGE, rows)
