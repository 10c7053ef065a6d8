"""Finding memories in the file: by id, by row, by selection."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from agentmem.base.errors import InvalidInput
from agentmem.base.filters import (
    ALWAYS,
    MEMORY_FIELDS,
    MISSING,
    SCOPE_FIELDS,
    And,
    Compare,
    Filter,
    Selection,
    conditions,
    holds,
    metadata_field,
)
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import (
    FORGOTTEN_AT,
    UNUSED,
    Memory,
    Scope,
    may_see,
    visible,
)
from agentmem.stores.rows import (
    NO_STRAND,
    Owner,
    Strand,
    memory_of,
    scope_values,
    usage_of,
)
from agentmem.stores.sqlite.connection import Read, Row, Write, checked, corrupt, opened, seal
from agentmem.stores.sqlite.schema import (
    COLD,
    EMBEDDERS,
    HISTORY,
    MEMORIES,
    OWNERS,
    STRANDS,
    USAGE,
    Table,
)
from agentmem.stores.values import (
    NO_POSITION,
    Version,
    from_microseconds,
    memory_from_fields,
    to_microseconds,
)

# ----------------------------------------------------------------------------
# Owners, strands and embedders as numbers, so that a row names each in a few bytes.


_VISIBLE = """
    WHERE visibility = 'system'
    OR (visibility = 'private' AND user_id IS ?1
        AND (?2 IS NULL OR project_id IS NULL OR project_id = ?2)
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
    OR (visibility = 'project' AND project_id IS ?2
        AND (?3 IS NULL OR agent_id IS NULL OR agent_id = ?3)
        AND (?4 IS NULL OR run_id IS NULL OR run_id = ?4))
"""
_SAME_OWNER = """
    WHERE visibility = ? AND user_id IS ? AND project_id IS ? AND agent_id IS ? AND run_id IS ?
"""
_T = TypeVar("_T")
KEPT_READERS = 256


def visible_owners(read: Read, scope: Scope) -> list[int]:
    """The owners whose memories a reader may see: `core.scope.visible`, in SQL (P24)."""
    found = read.rows(OWNERS, _VISIBLE, scope_values(scope))
    return sorted(row[0] for row in found)


def find_owner(read: Read, owner: Owner) -> int | None:
    visibility, scope = owner
    found = read.rows(OWNERS, _SAME_OWNER, (visibility, *scope_values(scope)))
    return found[0][0] if found else None


def intern_owner(write: Write, owner: Owner) -> int:
    """The number of this owner, new if it has none yet."""
    known = write.numbers(OWNERS)
    if owner in known:
        return known[owner]
    found = find_owner(write, owner)
    if found is not None:
        known[owner] = found
        return found
    (key,) = write.take(OWNERS)
    visibility, scope = owner
    write.insert(OWNERS, [(key, visibility, *scope_values(scope))])
    return key


def intern_strands(
    write: Write, strands: Iterable[Strand], *, all_new: bool = False
) -> tuple[dict[Strand, int], set[int]]:
    """The numbers of these strands, and which of them are new; `all_new` if that is known."""
    numbers: dict[Strand, int] = {}
    new: list[Row] = []
    known = write.numbers(STRANDS)
    for strand in dict.fromkeys(strands):
        if strand in known:
            numbers[strand] = known[strand]
            continue
        owner, url, session = strand
        found = (
            []
            if all_new
            else write.rows(
                STRANDS, "WHERE url = ? AND session = ? AND owner = ?", (url, session, owner)
            )
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
    """Owners and strands by number. They never change, so what was read once stays true."""

    def __init__(self, limit: int = 50_000) -> None:
        self._limit = limit
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


def integers(numbers: Collection[int]) -> str:
    return f"[{','.join([str(int(number)) for number in numbers])}]"


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


def all_embedders(read: Read) -> dict[int, EmbedderId]:
    return {
        key: EmbedderId(name=name, version=version, dimensions=dimensions)
        for key, name, version, dimensions in read.rows(EMBEDDERS, "ORDER BY embedder")
    }


# ----------------------------------------------------------------------------
# Memories as rows of the file and back.


COLUMN = {name: index for index, name in enumerate(MEMORIES.columns)}
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


def few_memories(
    ask: Callable[[str, Sequence[Any]], list[Row]],
    names: NameCache,
    keys: Sequence[int],
    reader: Scope,
) -> dict[int, Memory] | None:
    """The memories of a few rows that `reader` may see, found by one statement.

    None where that is not enough: for a text that was put away, or a name that
    was not met before.
    """
    marks, numbers = among(keys)
    found: dict[int, Memory] = {}
    try:
        for stored in ask(_WITH_USAGE.format(marks), numbers):
            row = checked(MEMORIES, stored[:_WIDTH])
            owner = names.known_owner(row[_OWNER])
            strand = names.known_strand(row[_STRAND])
            if owner is None or strand is None or not row[_TEXT]:
                return None
            if may_see(reader, *owner):
                used = stored[_WIDTH:]
                usage = UNUSED if used[0] is None else usage_of(checked(USAGE, used))
                found[row[0]] = memory_of(row, owner, strand, usage, row[_TEXT])
    except (InvalidInput, ValueError, OverflowError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error
    return found


_WIDTH = len(MEMORIES.stored)
_WITH_USAGE = (
    f"SELECT {', '.join(f'm.{name}' for name in MEMORIES.stored)}, "  # noqa: S608 # our own names
    f"{', '.join(f'u.{name}' for name in USAGE.stored)} "
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
_BOUND = 20_000
"""As many values as one statement takes; longer lists are looked at row by row."""
_PLAIN = frozenset({"kind", "origin", "speaker", "title", "content_hash", "id"})
"""Text columns that are never empty in the sense of "missing", and compare in SQL as in Python."""


_NOT_FORGOTTEN = (
    # Looked for in the text first: nearly all metadata need not be read as JSON.
    f"NOT instr(m.metadata, '\"{FORGOTTEN_AT}\"') "
    f"OR json_type(m.metadata, '$.{FORGOTTEN_AT}') IS NULL"
)


class Found(NamedTuple):
    """A tested row of the memories table, and the memory it holds."""

    columns: Row
    memory: Memory

    @property
    def row(self) -> int:
        return int(self.columns[0])


def found_in(read: Read, rows: Sequence[Row]) -> list[Found]:
    """Tested rows of the memories table with their memories, in their order."""
    return list(map(Found, rows, read_memories(read, rows)))


def by_ids(
    read: Read, ids: Sequence[str], *, lock: bool = False, last: bool = False
) -> dict[str, Found]:
    """What these ids stand for, whoever owns it; who writes has the whole file locked."""
    return {one.memory.id: one for one in found_in(read, list(rows_by_id(read, ids).values()))}


def by_rows(read: Read, keys: Sequence[int], *, reader: Scope | None = None) -> dict[int, Memory]:
    """The memories of these rows, whoever owns them, or those that `reader` may see."""
    found: dict[int, Memory] = {}
    for start in range(0, len(keys), 1000):
        rows = rows_by_key(read, keys[start : start + 1000])
        if reader is not None:
            rows = seen_rows(read, rows, reader)
        memories = read_memories(read, rows)
        found.update((row[0], memory) for row, memory in zip(rows, memories, strict=True))
    return found


def versions(read: Read, scope: Scope, row: int) -> tuple[Version, ...]:
    """The earlier versions of a row the reader could have seen, oldest first."""
    found = read.rows(HISTORY, "WHERE row = ? ORDER BY version", (row,))
    kept = [
        Version(memory=memory_from_fields(json.loads(data)), replaced_at=from_microseconds(at))
        for _, _, at, data in found
    ]
    return tuple(version for version in kept if visible(version.memory, scope))


MOST_ROWS = 2**62
"""SQLite counts no further than twice this."""


def select_rows(
    read: Read, selection: Selection, *, order: str = "m.row", limit: int = -1
) -> list[int]:
    """The rows `core.filters.selected` would choose, found inside SQL (P24).

    What SQL cannot say exactly as Python does is narrowed there and decided here.
    """
    clauses, values = _conditions(read, selection)
    fields = sorted({c.field for c in conditions(selection.where)})
    where = " AND ".join(clauses)
    if selection.where == ALWAYS:
        found = read.execute(
            f"SELECT m.row FROM memories AS m WHERE {where} ORDER BY {order} LIMIT ?",  # noqa: S608 # our own names
            (*values, min(limit, MOST_ROWS)),
        )
        return [row for (row,) in found]
    necessary, more = _necessary(selection.where)
    columns = sorted({_COLUMN_OF.get(f, f) for f in fields if f in _IN_MEMORIES} | {"metadata"})
    listed = ", ".join(f"m.{column}" for column in ("row", "owner", "strand", *columns))
    rows = read.connection.execute(
        f"SELECT {listed} FROM memories AS m WHERE {where}{necessary} ORDER BY {order}",  # noqa: S608 # our own names
        (*values, *more),
    )
    chosen: list[int] = []
    try:
        for row in rows.fetchall():
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
    found: dict[int, Found] = {}
    for start in range(0, len(rows), 1000):
        part = rows_by_key(read, rows[start : start + 1000])
        found |= {one.row: one for one in found_in(read, part)}
    return [found[row] for row in rows]


_IN_MEMORIES = MEMORY_FIELDS - SCOPE_FIELDS - {"visibility", "source_url", "session"}


def count(read: Read, selection: Selection) -> int:
    """How many rows a selection chooses."""
    if selection.where != ALWAYS:
        return len(select_rows(read, selection))
    clauses, values = _conditions(read, selection)
    ((found,),) = read.execute(
        f"SELECT count(*) FROM memories AS m WHERE {' AND '.join(clauses)}",  # noqa: S608 # our own names
        values,
    )
    return int(found)


def _conditions(read: Read, selection: Selection) -> tuple[list[str], list[Any]]:
    owners = visible_owners(read, selection.reader)
    if set(selection.visibilities) != {"private", "project", "system"}:
        marks = ", ".join("?" * len(selection.visibilities))
        kept = read.execute(
            f"SELECT owner FROM owners WHERE visibility IN ({marks})",  # noqa: S608 # our own names
            selection.visibilities,
        )
        owners = sorted(set(owners) & {owner for (owner,) in kept})
    clauses, values = [f"m.owner IN {INTEGERS}"], [integers(owners)]
    if selection.source_url is not None or selection.session is not None:
        sql, value = _in_strands(read, selection, owners)
        clauses.append(sql)
        values.append(value)
    if selection.kinds is not None:
        clauses.append(f"m.kind IN ({', '.join('?' * len(selection.kinds))})")
        values += selection.kinds
        if "page" not in selection.kinds:
            clauses.append("m.kind <> 'page'")  # lets SQLite use the index of hashes
    moments: list[Any] = []
    if not selection.deleted:
        clauses.append("m.deleted_at IS NULL")
    for name, comparison in (("since", ">="), ("until", "<")):
        moment = getattr(selection, name)
        if moment is not None:
            clauses.append(f"m.created_at {comparison} ?")
            moments.append(to_microseconds(moment, name))
    if not selection.forgotten:
        spared = "m.superseded_by IS NOT NULL OR " if selection.as_of is not None else ""
        clauses.append(f"({spared}{_NOT_FORGOTTEN})")
    if selection.as_of is None:
        if not selection.superseded:
            clauses.append("m.superseded_by IS NULL")
    else:
        at = to_microseconds(selection.as_of, "as_of")
        clauses.append("m.created_at <= ? AND (m.valid_from IS NULL OR m.valid_from <= ?)")
        clauses.append("(m.valid_to IS NULL OR ? < m.valid_to)")
        moments += [at, at, at]
        if not selection.superseded:
            clauses.append("(m.superseded_by IS NULL OR m.valid_to IS NOT NULL)")
    return clauses, values + moments


def _in_strands(read: Read, selection: Selection, owners: Sequence[int]) -> tuple[str, str]:
    url, session = selection.source_url, selection.session
    wanted = [(c, v) for c, v in (("url", url), ("session", session)) if v is not None]
    found = read.rows(
        STRANDS,
        "WHERE " + " AND ".join(f"{column} = ?" for column, _ in wanted),
        [value for _, value in wanted],
    )
    allowed = set(owners)
    strands = integers([row[0] for row in found if row[1] in allowed])
    inside = f"m.strand IN {INTEGERS}"
    # A row of no strand has neither url nor session.
    if all(value == "" for _, value in wanted):
        return f"(m.strand IS NULL OR {inside})", strands
    return inside, strands


def _necessary(where: Filter) -> tuple[str, list[Any]]:
    """SQL that everything matching `where` meets, so that less has to be looked at."""
    parts = where.parts if isinstance(where, And) else (where,)
    sql: list[str] = []
    values: list[Any] = []
    for part in parts:
        if isinstance(part, Compare) and part.operator == "in" and part.field in _PLAIN:
            # Bound one by one: SQLite ends a text from JSON at its first NUL.
            if len(part.value) <= _BOUND and all(isinstance(v, str) for v in part.value):
                sql.append(f" AND m.{part.field} IN ({', '.join('?' * len(part.value))})")
                values += part.value
            continue
        if not isinstance(part, Compare) or not isinstance(part.value, str):
            continue
        if part.operator != "eq":
            continue
        if part.field in _PLAIN:
            sql.append(f" AND m.{part.field} = ?")
            values.append(part.value)
        elif part.field not in MEMORY_FIELDS:
            written = json.dumps(part.value, ensure_ascii=False)
            sql.append(" AND instr(m.metadata, ?)")
            values.append(f":{written}")
    return "".join(sql), values


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
