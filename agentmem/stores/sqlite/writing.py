"""Adding, changing and hiding memories, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from agentmem.base.errors import DuplicateRecord
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import UNUSED, Memory, Usage, is_cold
from agentmem.stores.rows import Owner, in_strand, memory_values, owned_by, usage_values
from agentmem.stores.rules import supersession_edges
from agentmem.stores.side import set_value
from agentmem.stores.sqlite.connection import (
    CONSTRAINT,
    Write,
    code_of,
    integers,
    opened,
    seal,
    vector_key,
    vectors_tally,
)
from agentmem.stores.sqlite.reading import (
    intern_embedder,
    intern_strands,
    pack_text,
    read_memories,
    rows_by_id,
)
from agentmem.stores.sqlite.schema import COLD, EMBEDDINGS, INDEXED
from agentmem.stores.tables import COLUMN, MEMORIES, USAGE, Found, Place, Row, corrupt, place_in
from agentmem.stores.upkeep import all_embedders
from agentmem.stores.values import Entry, flags_of, pack, pack_terms, shortest, unpack_terms
from agentmem.stores.writing import keep_version, refuse_circles

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
ERASE_PENDING = "erase_pending"
"""The setting that says that what was erased is still to be taken out of the files."""
_SAME_CONTENT = """
    WHERE content_hash IN (SELECT value FROM json_each(?))
    AND owner IN (SELECT value FROM json_each(?)) AND deleted_at IS NULL
"""


def add(write: Write, entries: Sequence[Entry], *, last: bool = False) -> tuple[int, ...]:
    """Store checked entries under new rows."""
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
    strands = _strands_of(write, list(zip(owners, [e.memory for e in entries], strict=True)))
    rows = write.take(MEMORIES, len(entries))
    stored: list[Row] = []
    blobs: list[Row] = []
    for row, entry, owner, strand in zip(rows, entries, owners, strands.numbers, strict=True):
        memory = entry.memory
        stored.append((row, memory.id, owner, strand, *place_text(write, row, memory)))
        blob = pack(entry, owner=owner, strand=strand or 0)
        blobs.append((row, seal(row, blob)))
    old = [place_in(row) for row in stored if row[3] in strands.old]
    moved = followers(write, old, new=True)
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


def same_content(write: Write, entries: Sequence[Entry]) -> list[Memory]:
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
                known[owner] = write.owner_number(owner)
            number, last = known[owner], memory
        found.append(number)
    return found


class _Strands:
    def __init__(self, numbers: list[int | None], old: set[int]) -> None:
        self.numbers = numbers
        self.old = old


def _strands_of(write: Write, owned: Sequence[tuple[int, Memory]]) -> _Strands:
    wanted = [
        (owner, memory.source_url, memory.session) if memory.source_url or memory.session else None
        for owner, memory in owned
    ]
    named = dict.fromkeys(strand for strand in wanted if strand is not None)
    numbers, new = intern_strands(write, named)
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
        store_vectors(write, embedder, given)


def store_vectors(write: Write, embedder: EmbedderId, given: Sequence[tuple[int, bytes]]) -> None:
    """Keep packed vectors of rows that have none in this space."""
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


def rewrite(
    write: Write, old: Found, memory: Memory, *, entry: Entry | None = None, relink: bool = True
) -> None:
    """Store `memory` in the place of `old`; with an entry, its terms too.

    With `relink`, the rows that follow its old and new place are logged.
    """
    row = old.columns
    owner, strand = old.owner, old.strand
    if in_strand(memory) != in_strand(old.memory):
        owner = write.owner_number(owned_by(memory))
        (strand,) = _strands_of(write, [(owner, memory)]).numbers
    values = (row[0], memory.id, owner, strand, *place_text(write, row[0], memory, old=row))
    places = {old.place, place_in(values)}
    moved = len(places) > 1 or (memory.deleted_at is None) != (old.memory.deleted_at is None)
    after = followers(write, places) if moved and relink else set()
    write.change(MEMORIES, row, **dict(zip(MEMORIES.columns, values, strict=True)))
    if entry is None:
        if len(places) > 1 or _told(memory) != _told(old.memory):
            blob = _terms(write, row[0])
            kept = unpack_terms(opened(*blob))
            packed = pack_terms(memory, **kept, owner=owner, strand=strand or 0)
            write.change(INDEXED, blob, data=seal(row[0], packed))
    else:
        packed = pack(replace(entry, memory=memory), owner=owner, strand=strand or 0)
        write.change(INDEXED, _terms(write, row[0]), data=seal(row[0], packed))
    write.log("update", after - {row[0]})


def _terms(write: Write, row: int) -> Row:
    found = write.rows(INDEXED, "WHERE row = ?", (row,))
    if not found:
        raise corrupt(f"the terms of row {row} are missing")
    return found[0]


def _told(memory: Memory) -> tuple[Any, ...]:
    """What the terms of a row tell of its memory beside where it stands."""
    moments = memory.created_at, memory.valid_from, memory.valid_to
    return flags_of(memory), memory.kind, memory.speaker, *moments


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


def set_usage(write: Write, row: int, usage: Usage) -> None:
    """Write the counts of a row over those that stand there."""
    write.delete(USAGE, [row])
    if usage != UNUSED:
        write.insert(USAGE, [(row, *usage_values(usage))])


def count_usage(
    write: Write, found: Sequence[Found], *, retrieved: int, cited: int, ignored: int, at: int
) -> None:
    """Add to the counts; the moment never goes back."""
    rows: list[Row] = []
    for row, memory in found:
        before = usage_values(memory.usage)
        last = at if before[3] is None else max(at, before[3])
        rows.append((row[0], before[0] + retrieved, before[1] + cited, before[2] + ignored, last))
    write.delete(USAGE, [row[0] for row in rows])
    write.insert(USAGE, rows)


def remove_rows(write: Write, found: Sequence[Found]) -> int:
    """Take memories out with all that is kept of them alone; gives how many vectors went."""
    rows = [one.row for one in found]
    for table in (USAGE, INDEXED, COLD, MEMORIES):
        write.delete(table, rows)
    return remove_vectors(write, rows)


def after_erasing(write: Write, owners: Collection[int]) -> None:
    """Note that the files are to be cleaned: see `clean_files`."""
    set_value(write, ERASE_PENDING, "yes")
