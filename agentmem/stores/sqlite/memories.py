"""Memories in the file: found, added, changed and removed, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import accumulate
from typing import Any

from agentmem.base.errors import DuplicateRecord, InvalidInput
from agentmem.base.filters import (
    INSTANT_FIELDS,
    MEMORY_FIELDS,
    MISSING,
    SCOPE_FIELDS,
    Selection,
    conditions,
    holds,
    metadata_field,
)
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import (
    UNUSED,
    Memory,
    Scope,
    Usage,
    is_cold,
    visible,
)
from agentmem.stores.rules import supersession_edges
from agentmem.stores.side import set_value
from agentmem.stores.sqlite.connection import (
    CONSTRAINT,
    Read,
    Write,
    checked,
    code_of,
    integers,
    opened,
    seal,
    vector_key,
    vectors_tally,
)
from agentmem.stores.sqlite.schema import COLD, EMBEDDINGS, INDEXED, STORED
from agentmem.stores.tables import (
    ANY,
    COLUMN,
    EMBEDDERS,
    MEMORIES,
    MOST_ROWS,
    NO_STRAND,
    OWNERS,
    STRANDS,
    USAGE,
    Conditions,
    Found,
    Owner,
    Place,
    Row,
    RowQuery,
    Strand,
    corrupt,
    in_strand,
    memory_of,
    memory_values,
    owned_by,
    owner_of,
    place_in,
    usage_of,
    usage_values,
)
from agentmem.stores.upkeep import all_embedders
from agentmem.stores.values import (
    NO_POSITION,
    Entry,
    flags_of,
    from_microseconds,
    pack,
    shortest,
    unpack_terms,
)
from agentmem.stores.writing import keep_version, refuse_circles

Ask = Callable[[str, Sequence[Any]], list[Row]]
"""Gives what a statement finds."""
INTEGERS = "(SELECT value FROM json_each(?))"
"""SQL for "one of these", with `integers(...)` as its parameter."""
AT_ONCE = 1_000
"""So many rows are read by one statement."""
_OWNER, _STRAND, _TEXT = COLUMN["owner"], COLUMN["strand"], COLUMN["text"]
_FEW = 32
"""So many numbers are sooner bound one by one than read from a list."""
_JOINS = """
    FROM memories AS m LEFT JOIN usage AS u ON u.row = m.row
    LEFT JOIN owners AS o ON o.owner = m.owner LEFT JOIN strands AS s ON s.strand = m.strand
    LEFT JOIN cold AS c ON c.row = m.row """
_JOINED = {
    "m": STORED["memories"], "u": STORED["usage"][1:], "o": STORED["owners"][1:],
    "s": STORED["strands"][2:], "c": STORED["cold"][1:],
}  # fmt: skip
"""What is read of each; the numbers that they begin with stand in the memory."""
_ENDS = tuple(accumulate(map(len, _JOINED.values())))
_PARTS = tuple(map(slice, (0, *_ENDS), _ENDS))
_SELECT = "SELECT {}{}".format(
    ", ".join(f"{alias}.{name}" for alias, names in _JOINED.items() for name in names), _JOINS
)
"""A memory with its usage, whose it is, what it belongs to, and its text if that was put away."""


@lru_cache(maxsize=2_000)
def _memory_of(stored: Row) -> Memory:
    """The memory of a row that `_SELECT` found, tested; the same row needs no second look."""
    memory, usage, owner, strand, (cold,) = (stored[part] for part in _PARTS)
    row = checked(MEMORIES, memory)
    try:
        return memory_of(
            row,
            _owner_of((row[_OWNER], *owner)),
            NO_STRAND if row[_STRAND] is None else _strand_of((row[_STRAND], row[_OWNER], *strand)),
            UNUSED if usage[0] is None else usage_of(checked(USAGE, (row[0], *usage))),
            row[_TEXT] or unpack_text(row[0], cold),
        )
    except (InvalidInput, ValueError, OverflowError, TypeError, KeyError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


@lru_cache(maxsize=10_000)
def _owner_of(stored: Row) -> Owner:
    return owner_of(checked(OWNERS, stored))


@lru_cache(maxsize=10_000)
def _strand_of(stored: Row) -> Strand:
    _, owner, url, session = checked(STRANDS, stored)
    return owner, url, session


def forget_read() -> None:
    """Keep nothing of what was read, as after an erasure."""
    for cache in (_memory_of, _owner_of, _strand_of):
        cache.cache_clear()


def pack_text(key: int, text: str) -> Row:
    """A row of the table of cold texts, which are kept compressed."""
    return key, seal(key, zlib.compress(text.encode("utf-8"), 9))


def unpack_text(key: int, data: bytes | None) -> str:
    """The text in such a row; none where there is no row."""
    if data is None:
        return ""
    try:
        return zlib.decompress(opened(key, data)).decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        raise corrupt("a cold text cannot be unpacked") from None


# ----------------------------------------------------------------------------
# Found by id, by row, by selection.


def _found(rows: Iterable[Row]) -> list[Found]:
    return [Found(stored[: len(MEMORIES.columns)], _memory_of(stored)) for stored in rows]


def by_ids(
    read: Read, ids: Sequence[str], *, lock: bool = False, last: bool = False
) -> dict[str, Found]:
    """What these ids stand for, whoever owns it; who writes has the whole file locked."""
    found: dict[str, Found] = {}
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        marks = ", ".join("?" * len(part))
        here = _found(read.execute(f"{_SELECT} WHERE m.id IN ({marks})", part))
        found |= {one.memory.id: one for one in here}
    if not found.keys() <= set(wanted):
        raise corrupt("the index of ids points to another memory")
    return found


def by_rows(
    read: Read,
    rows: Collection[int],
    *,
    reader: Scope | None = None,
    lock: bool = False,
    last: bool = False,
) -> dict[int, Found]:
    """What stands in these rows, whoever owns it, or what `reader` may see of it."""
    found: dict[int, Found] = {}
    keys = list(rows)
    for start in range(0, len(keys), AT_ONCE):
        found |= ask_rows(read.execute, keys[start : start + AT_ONCE], reader)
    return found


def ask_rows(ask: Ask, keys: Sequence[int], reader: Scope | None) -> dict[int, Found]:
    """The same of a few rows, found by one statement."""
    few = len(keys) <= _FEW
    marks = f"({', '.join('?' * len(keys))})" if few else INTEGERS
    asked = keys if few else (integers(keys),)
    found = _found(ask(f"{_SELECT} WHERE m.row IN {marks} ORDER BY m.row", asked))
    return {one.row: one for one in found if reader is None or visible(one.memory, reader)}


def find_where(read: Read, where: str, /, *, lock: bool = False, **values: Any) -> list[Found]:
    """The memories `m` that meet a condition, by row."""
    told, given = read.sql_of(RowQuery(ANY, where, values, "ORDER BY m.row"))
    return _found(read.execute(_SELECT + told, given))


def select_rows(
    read: Read, selection: Selection, *, order: str = "m.row", limit: int = -1
) -> list[int]:
    """The rows `base.filters.selected` would choose, found inside SQL (P24).

    What SQL cannot say exactly as Python does is narrowed there and decided here.
    """
    asked = Conditions(selection, Read)
    if asked.exact:
        rest = f"ORDER BY {order} LIMIT {min(limit, MOST_ROWS)}"
        return [row for (row,) in _ask(read, "m.row", asked, rest)]
    fields = {c.field for c in conditions(selection.where)}
    columns = sorted({"m.row", "c.data", *(_COLUMN_OF.get(f, "m.metadata") for f in fields)})
    chosen: list[int] = []
    try:
        for row in _ask(read, ", ".join(columns), asked, f"ORDER BY {order}", joins=_JOINS):
            if len(chosen) == limit:
                break
            values = dict(zip(columns, row, strict=True))
            if holds(selection.where, partial(_field, values)):
                chosen.append(values["m.row"])
    except ValueError as error:
        raise corrupt(f"a row cannot be read ({error})") from error
    return chosen


def select(
    read: Read,
    selection: Selection,
    *,
    order: str = "m.row",
    limit: int | None = None,
    lock: bool = False,
    last: bool = False,
) -> list[Found]:
    """The memories of a selection; who writes has the whole file locked."""
    rows = select_rows(read, selection, order=order, limit=-1 if limit is None else limit)
    found = by_rows(read, rows)
    return [found[row] for row in rows]


def count(read: Read, selection: Selection) -> int:
    """How many rows a selection chooses."""
    asked = Conditions(selection, Read)
    if not asked.exact:
        return len(select_rows(read, selection))
    ((found,),) = _ask(read, "count(*)", asked)
    return int(found)


def _ask(
    read: Read, columns: str, asked: Conditions, rest: str = "", joins: str = " FROM memories AS m "
) -> list[Row]:
    told, given = read.sql_of(RowQuery(ANY, asked.sql, asked.values, rest))
    return read.execute(f"SELECT {columns}{joins}{told}", given)  # our own names


_COLUMN_OF = {
    **{name: f"m.{name}" for name in MEMORY_FIELDS},
    **{name: f"o.{name}" for name in ("visibility", *SCOPE_FIELDS)},
    "index": "m.index_text",
    "position": "m.place",
    "source_url": "s.url",
    "session": "s.session",
}


def _field(values: Mapping[str, Any], name: str) -> Any:
    """A field of the memory that has these columns, as Python compares it."""
    column = _COLUMN_OF.get(name)
    if column is None:
        written = values["m.metadata"]
        return MISSING if written == "{}" else metadata_field(json.loads(written), name)
    value = values[column]
    if name == "text" and not value:
        return unpack_text(values["m.row"], values["c.data"])
    if value is None:
        return "" if column.startswith("s.") else MISSING  # a row of no strand has neither
    if name in INSTANT_FIELDS:
        return from_microseconds(value)
    if name == "heading_path":
        return tuple(json.loads(value))
    return MISSING if name == "position" and value == NO_POSITION else value


def find_embedder(read: Read, embedder: EmbedderId) -> int | None:
    """The number of this vector space, if it has one."""
    found = read.find(EMBEDDERS, _space(embedder))
    return found[0][0] if found else None


def _space(embedder: EmbedderId) -> dict[str, Any]:
    return {name: getattr(embedder, name) for name in EMBEDDERS.columns[1:]}


# ----------------------------------------------------------------------------
# Adding, changing and removing.


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
_SAME_CONTENT = """m.content_hash IN (SELECT value FROM json_each(:hashes))
    AND m.owner IN :owners AND m.deleted_at IS NULL"""


def add(write: Write, entries: Sequence[Entry], *, last: bool = False) -> tuple[int, ...]:
    """Store checked entries under new rows."""
    if not entries:
        return ()
    refuse_circles(write, [edge for e in entries for edge in supersession_edges(e.memory)])
    owners = _owners_of(write, entries)
    strands, old_strands = _strands_of(write, owners, [e.memory for e in entries])
    rows = write.take(MEMORIES, len(entries))
    stored: list[Row] = []
    blobs: list[Row] = []
    for row, entry, owner, strand in zip(rows, entries, owners, strands, strict=True):
        memory = entry.memory
        stored.append((row, memory.id, owner, strand, *place_text(write, row, memory)))
        blob = pack(entry, owner=owner, strand=strand or 0)
        blobs.append((row, seal(row, blob)))
    old = [place_in(row) for row in stored if row[3] in old_strands]
    moved = followers(write, old, new=True)
    _insert_memories(write, stored)
    write.insert(INDEXED, blobs)
    used = [
        (row, *usage_values(entry.memory.usage))
        for row, entry in zip(rows, entries, strict=True)
        if entry.memory.usage != UNUSED
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
        condition += " AND m.kind <> 'page'"  # so that the index, which leaves them out, will do
    hashes = json.dumps(list({entry.memory.content_hash for entry in entries}))
    owners = set(_owners_of(write, entries))
    return [one.memory for one in find_where(write, condition, hashes=hashes, owners=owners)]


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
        taken = [i for i, one in by_ids(write, ids).items() if one.row < stored[0][0]]
        raise (DuplicateRecord(taken[0]) if taken else error) from None


def _owners_of(write: Write, entries: Sequence[Entry]) -> list[int]:
    owners = [owned_by(entry.memory) for entry in entries]
    numbers = {owner: write.owner_number(owner) for owner in dict.fromkeys(owners)}
    return [numbers[owner] for owner in owners]


def _strands_of(
    write: Write, owners: Sequence[int], memories: Sequence[Memory]
) -> tuple[list[int | None], set[int]]:
    """The numbers of the strands that memories belong to, and which of them were there before."""
    strands = [(o, m.source_url, m.session) for o, m in zip(owners, memories, strict=True)]
    numbers: dict[Strand, int | None] = {}
    old: set[int] = set()
    for strand in dict.fromkeys(strands):
        numbers[strand] = None
        if strand[1:] != NO_STRAND[1:]:
            number, is_new = write.number(STRANDS, strand)
            numbers[strand] = number
            if not is_new:
                old.add(number)
    return [numbers[strand] for strand in strands], old


def _add_vectors(write: Write, rows: Iterable[int], entries: Sequence[Entry]) -> None:
    by_embedder: dict[EmbedderId, list[tuple[int, bytes]]] = {}
    for row, entry in zip(rows, entries, strict=True):
        for embedder, vector in entry.vectors:
            by_embedder.setdefault(embedder, []).append((row, vector))
    for embedder, given in by_embedder.items():
        store_vectors(write, embedder, given)


def store_vectors(write: Write, embedder: EmbedderId, given: Sequence[tuple[int, bytes]]) -> None:
    """Keep packed vectors of rows that have none in this space."""
    number, _ = write.number(EMBEDDERS, tuple(_space(embedder).values()))
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
        (strand,), _ = _strands_of(write, [owner], [memory])
    values = (row[0], memory.id, owner, strand, *place_text(write, row[0], memory, old=row))
    places = {old.place, place_in(values)}
    moved = len(places) > 1 or (memory.deleted_at is None) != (old.memory.deleted_at is None)
    after = followers(write, places) if moved and relink else set()
    write.change(MEMORIES, row, **dict(zip(MEMORIES.columns, values, strict=True)))
    if entry is not None or len(places) > 1 or _told(memory) != _told(old.memory):
        blob = _terms(write, row[0])
        kept = Entry(memory=memory, **unpack_terms(opened(*blob))) if entry is None else entry
        packed = pack(replace(kept, memory=memory), owner=owner, strand=strand or 0)
        write.change(INDEXED, blob, data=seal(row[0], packed))
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
        for embedder, _ in entry.vectors:
            number = find_embedder(write, embedder)
            if number is not None:
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
