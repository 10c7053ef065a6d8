"""Memories in the file: found, added, changed and removed, inside one transaction."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agentmem.base.errors import DuplicateRecord, InvalidInput
from agentmem.base.filters import (
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
    may_see,
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
    Table,
    corrupt,
    in_strand,
    memory_of,
    memory_values,
    owned_by,
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
    pack_terms,
    shortest,
    unpack_terms,
)
from agentmem.stores.writing import keep_version, refuse_circles

# ----------------------------------------------------------------------------
# Owners, strands and embedders as numbers, so that a row names each in a few bytes.


_T = TypeVar("_T")
KEPT_READERS = 256


def intern_strands(write: Write, strands: Iterable[Strand]) -> tuple[dict[Strand, int], set[int]]:
    """The numbers of these strands, and which of them are new."""
    numbers: dict[Strand, int] = {}
    new: list[Row] = []
    known = write.numbers(STRANDS)
    for strand in dict.fromkeys(strands):
        if strand in known:
            numbers[strand] = known[strand]
            continue
        owner, url, session = strand
        found = write.rows(
            STRANDS, "WHERE url = ? AND session = ? AND owner = ?", (url, session, owner)
        )
        if found:
            numbers[strand] = known[strand] = found[0][0]
        else:
            (numbers[strand],) = write.take(STRANDS)
            new.append((numbers[strand], *strand))
    if new:
        write.insert(STRANDS, new)
    return numbers, {row[0] for row in new}


class NameCache:
    """Owners and strands by number. They never change, so what was read once stays true.

    And memories by the rows they were read from: a row that is the same needs no second look.
    """

    def __init__(self, limit: int = 50_000, most_memories: int = 2_000) -> None:
        self._limit = limit
        self._most_memories = most_memories
        self._memories: dict[int, tuple[Row, Memory]] = {}
        self._owners: dict[int, Owner] = {}
        self._strands: dict[int, Strand] = {}
        self._visible: dict[Scope, tuple[tuple[int, ...], list[int]]] = {}

    def visible(self, scope: Scope, tally: tuple[int, ...]) -> list[int] | None:
        """Whom this reader may see, if it is known of the table with this tally."""
        kept = self._visible.get(scope)
        return kept[1] if kept is not None and kept[0] == tally else None

    def keep_visible(self, scope: Scope, tally: tuple[int, ...], owners: list[int]) -> list[int]:
        if len(self._visible) >= KEPT_READERS:
            self._visible = {}
        self._visible[scope] = (tally, owners)
        return owners

    def known_owner(self, number: int) -> Owner | None:
        """The owner with this number, if it was read before."""
        return self._owners.get(number)

    def known_strand(self, number: int | None) -> Strand | None:
        """The strand with this number, if it was read before; none is one too."""
        return NO_STRAND if number is None else self._strands.get(number)

    def known_memory(self, stored: Row) -> Memory | None:
        """The memory of this very row with its usage, if it was read before."""
        kept = self._memories.get(stored[0])
        return kept[1] if kept is not None and kept[0] == stored else None

    def keep_memory(self, stored: Row, memory: Memory) -> None:
        if len(self._memories) >= self._most_memories:
            self._memories = {}
        self._memories[stored[0]] = (stored, memory)

    def owners(self, read: Read, numbers: Collection[int]) -> dict[int, Owner]:
        found, rows = _known(read, self._owners, OWNERS, numbers)
        for key, visibility, user, project, agent, run in rows:
            scope = Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)
            found[key] = (visibility, scope)
        return self._keep(self._owners, found, numbers)

    def strands(self, read: Read, numbers: Collection[int]) -> dict[int, Strand]:
        found, rows = _known(read, self._strands, STRANDS, numbers)
        for key, owner, url, session in rows:
            found[key] = (owner, url, session)
        return self._keep(self._strands, found, numbers)

    def clear(self) -> None:
        """Forget everything, as after an erasure."""
        self._owners = {}
        self._strands = {}
        self._visible = {}
        self._memories = {}

    def _keep(
        self, known: dict[int, _T], found: dict[int, _T], numbers: Collection[int]
    ) -> dict[int, _T]:
        if len(found) != len(set(numbers)):
            raise corrupt("an owner or source that a row belongs to is missing")
        if len(known) > self._limit:
            known.clear()
        known.update(found)
        return found


def _known(
    read: Read, known: dict[int, _T], table: Table, numbers: Collection[int]
) -> tuple[dict[int, _T], list[Row]]:
    """What is known of `numbers`, and the rows of those that are not."""
    found = {n: value for n in set(numbers) if (value := known.get(n)) is not None}
    wanted = [number for number in set(numbers) if number not in found]
    if not wanted:
        return found, []
    return found, read.rows(table, f"WHERE {table.key} IN {INTEGERS}", (integers(wanted),))


INTEGERS = "(SELECT value FROM json_each(?))"
"""SQL for "one of these", with `integers(...)` as its parameter."""
FEW = 32
"""So many numbers are sooner bound one by one than read from a list."""
_MARKS = tuple(f"({', '.join('?' * size)})" for size in range(FEW + 1))


def among(numbers: Sequence[int]) -> tuple[str, Sequence[Any]]:
    """SQL for "one of these", and its parameters."""
    if len(numbers) <= FEW:
        return _MARKS[len(numbers)], numbers
    return INTEGERS, (integers(numbers),)


def find_embedder(read: Read, embedder: EmbedderId) -> int | None:
    found = read.rows(
        EMBEDDERS,
        "WHERE name = ? AND version = ? AND dimensions = ?",
        (embedder.name, embedder.version, embedder.dimensions),
    )
    return found[0][0] if found else None


def intern_embedder(write: Write, embedder: EmbedderId) -> int:
    """The number of this vector space, new if it has none yet."""
    known = write.numbers(EMBEDDERS)
    if embedder in known:
        return known[embedder]
    found = find_embedder(write, embedder)
    if found is not None:
        known[embedder] = found
    else:
        (found,) = write.take(EMBEDDERS)
        write.insert(EMBEDDERS, [(found, embedder.name, embedder.version, embedder.dimensions)])
    return found


# ----------------------------------------------------------------------------
# Memories as rows of the file and back.


_OWNER, _STRAND, _TEXT = COLUMN["owner"], COLUMN["strand"], COLUMN["text"]


def read_memories(read: Read, rows: Sequence[Row]) -> list[Memory]:
    """The memories of tested rows of the memories table, in their order."""
    if not rows:
        return []
    keys = [row[0] for row in rows]
    owners = read.names.owners(read, [row[_OWNER] for row in rows])
    strands = read.names.strands(
        read, [strand for row in rows if (strand := row[_STRAND]) is not None]
    )
    marks, numbers = among(keys)
    usage = {row[0]: usage_of(row) for row in read.rows(USAGE, f"WHERE row IN {marks}", numbers)}
    cold = cold_texts(read, [row[0] for row in rows if not row[_TEXT]])
    try:
        return [
            memory_of(
                row,
                owners[row[_OWNER]],
                NO_STRAND if row[_STRAND] is None else strands[row[_STRAND]],
                usage.get(row[0], UNUSED),
                row[_TEXT] or cold.get(row[0], ""),
            )
            for row in rows
        ]
    except (InvalidInput, ValueError, OverflowError, TypeError, KeyError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


def known_memories(
    ask: Callable[[str, Sequence[Any]], list[Row]],
    names: NameCache,
    keys: Sequence[int],
    reader: Scope,
) -> dict[int, Memory] | None:
    """The memories of some rows that `reader` may see, found by one statement.

    None where that is not enough: for a text that was put away, or a name that
    was not met before.
    """
    marks, numbers = among(keys)
    found: dict[int, Memory] = {}
    try:
        for stored in ask(_WITH_USAGE.format(marks), numbers):
            memory = names.known_memory(stored)
            if memory is None:
                row = checked(MEMORIES, stored[:_WIDTH])
                owner = names.known_owner(row[_OWNER])
                strand = names.known_strand(row[_STRAND])
                if owner is None or strand is None or not row[_TEXT]:
                    return None
                used = stored[_WIDTH:]
                usage = UNUSED if used[0] is None else usage_of(checked(USAGE, used))
                memory = memory_of(row, owner, strand, usage, row[_TEXT])
                names.keep_memory(stored, memory)
            if may_see(reader, memory.visibility, memory.scope):
                found[stored[0]] = memory
    except (InvalidInput, ValueError, OverflowError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error
    return found


_MEMORIES, _USAGE = STORED["memories"], STORED["usage"]
_WIDTH = len(_MEMORIES)
_WITH_USAGE = (
    f"SELECT {', '.join(f'm.{name}' for name in _MEMORIES)}, "  # noqa: S608 # our own names
    f"{', '.join(f'u.{name}' for name in _USAGE)} "
    "FROM memories AS m LEFT JOIN usage AS u ON u.row = m.row WHERE m.row IN {} ORDER BY m.row"
)


def cold_texts(read: Read, keys: Collection[int]) -> dict[int, str]:
    """The texts of those rows that are kept compressed, outside the rows themselves."""
    if not keys:
        return {}
    found = read.rows(COLD, f"WHERE row IN {INTEGERS}", (integers(keys),))
    try:
        return {key: zlib.decompress(opened(key, data)).decode("utf-8") for key, data in found}
    except (zlib.error, UnicodeDecodeError):
        raise corrupt("a cold text cannot be unpacked") from None


def pack_text(key: int, text: str) -> Row:
    """A row of the table of cold texts."""
    return key, seal(key, zlib.compress(text.encode("utf-8"), 9))


def seen_rows(read: Read, rows: Sequence[Row], reader: Scope) -> list[Row]:
    """Those of tested rows of the memories table that `reader` may see."""
    owners = read.names.owners(read, [row[_OWNER] for row in rows])
    seen = {number for number, owner in owners.items() if may_see(reader, *owner)}
    return [row for row in rows if row[_OWNER] in seen]


def rows_by_id(read: Read, ids: Collection[str]) -> dict[str, Row]:
    """The stored rows of these ids, tested; ids nobody has are left out."""
    found: dict[str, Row] = {}
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        asked = set(part)
        marks = ", ".join("?" * len(part))
        for row in read.rows(MEMORIES, f"WHERE id IN ({marks})", part):
            if row[1] not in asked:
                raise corrupt("the index of ids points to another memory")
            found[row[1]] = row
    return found


def rows_by_key(read: Read, keys: Collection[int]) -> list[Row]:
    """The stored rows with these numbers, tested, ascending."""
    marks, numbers = among(tuple(keys))
    return read.rows(MEMORIES, f"WHERE row IN {marks} ORDER BY row", numbers)


_COLUMN_OF = {"index": "index_text", "position": "place"}


def found_in(read: Read, rows: Sequence[Row]) -> list[Found]:
    """Tested rows of the memories table with their memories, in their order."""
    return list(map(Found, rows, read_memories(read, rows)))


def by_ids(
    read: Read, ids: Sequence[str], *, lock: bool = False, last: bool = False
) -> dict[str, Found]:
    """What these ids stand for, whoever owns it; who writes has the whole file locked."""
    return {one.memory.id: one for one in found_in(read, list(rows_by_id(read, ids).values()))}


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
    for start in range(0, len(keys), 1000):
        part = rows_by_key(read, keys[start : start + 1000])
        if reader is not None:
            part = seen_rows(read, part, reader)
        found |= {one.row: one for one in found_in(read, part)}
    return found


def find_where(read: Read, where: str, /, *, lock: bool = False, **values: Any) -> list[Found]:
    """The memories `m` that meet a condition, by row."""
    asked = RowQuery(ANY, where, values, "ORDER BY m.row")
    return found_in(read, read.rows(MEMORIES, *read.sql_of(asked, alias="m")))


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
    columns = sorted({_COLUMN_OF.get(f, f) for f in fields if f in _IN_MEMORIES} | {"metadata"})
    listed = ", ".join(f"m.{column}" for column in ("row", "owner", "strand", *columns))
    chosen: list[int] = []
    try:
        for row in _ask(read, listed, asked, f"ORDER BY {order}"):
            if len(chosen) == limit:
                break
            if holds(selection.where, _reader(read, columns, row)):
                chosen.append(row[0])
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


_IN_MEMORIES = MEMORY_FIELDS - SCOPE_FIELDS - {"visibility", "source_url", "session"}


def count(read: Read, selection: Selection) -> int:
    """How many rows a selection chooses."""
    asked = Conditions(selection, Read)
    if not asked.exact:
        return len(select_rows(read, selection))
    ((found,),) = _ask(read, "count(*)", asked)
    return int(found)


def _ask(read: Read, columns: str, asked: Conditions, rest: str = "") -> list[Row]:
    told, given = read.sql_of(RowQuery(ANY, asked.sql, asked.values, rest), alias="m")
    return read.execute(f"SELECT {columns} FROM memories {told}", given)  # noqa: S608 # our own names


def _reader(read: Read, columns: Sequence[str], row: Row) -> Callable[[str], Any]:
    _, owner, strand, *rest = row
    values = dict(zip(columns, rest, strict=True))

    def field(name: str) -> Any:
        if name == "text" and not values[name]:
            return cold_texts(read, [row[0]]).get(row[0], "")
        if name in _IN_MEMORIES:
            return _in_python(name, values[_COLUMN_OF.get(name, name)])
        if name in ("source_url", "session"):
            if strand is None:
                return ""
            return read.names.strands(read, [strand])[strand][1 if name == "source_url" else 2]
        if name == "visibility":
            return read.names.owners(read, [owner])[owner][0]
        if name in SCOPE_FIELDS:
            value = getattr(read.names.owners(read, [owner])[owner][1], name)
            return MISSING if value is None else value
        written = values["metadata"]
        return MISSING if written == "{}" else metadata_field(json.loads(written), name)

    return field


def _in_python(name: str, value: Any) -> Any:

    if value is None or (name == "position" and value == NO_POSITION):
        return MISSING
    if name in ("created_at", "valid_from", "valid_to", "deleted_at"):
        return from_microseconds(value)
    return tuple(json.loads(value)) if name == "heading_path" else value


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
