"""Finding memories in the file: by id, by row, by selection."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agentmem.core.filters import (
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
from agentmem.core.marks import FORGOTTEN_AT
from agentmem.core.scope import visible
from agentmem.errors import RecordNotFound
from agentmem.stores.entries import from_microseconds, memory_from_fields, to_microseconds
from agentmem.stores.sqlite.ledger import Row, corrupt
from agentmem.stores.sqlite.names import INTEGERS, NameCache, integers, visible_owners
from agentmem.stores.sqlite.rows import (
    cold_texts,
    read_memories,
    rows_by_id,
    rows_by_key,
    seen_rows,
)
from agentmem.stores.sqlite.schema import HISTORY, STRANDS
from agentmem.stores.sqlite.transactions import Read
from agentmem.stores.values import Version
from agentmem.types import Memory, Scope

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


def get(
    read: Read, names: NameCache, scope: Scope, memory_id: str, *, deleted: bool
) -> tuple[int, Memory]:
    """The row and memory of an id, as far as the reader may see it."""
    found = rows_by_id(read, [memory_id])
    if memory_id in found:
        row = found[memory_id]
        (memory,) = read_memories(read, names, [row])
        if visible(memory, scope) and (deleted or memory.deleted_at is None):
            return row[0], memory
    raise RecordNotFound(memory_id)


def get_many(read: Read, names: NameCache, scope: Scope, ids: Sequence[str]) -> list[Memory]:
    """The memories of those ids that are there and visible, in the order of `ids`."""
    rows = rows_by_id(read, ids)
    wanted = [rows[memory_id] for memory_id in dict.fromkeys(ids) if memory_id in rows]
    return [
        memory
        for memory in read_memories(read, names, wanted)
        if visible(memory, scope) and memory.deleted_at is None
    ]


def by_rows(
    read: Read, names: NameCache, keys: Sequence[int], *, reader: Scope | None = None
) -> dict[int, Memory]:
    """The memories of these rows, whoever owns them, or those that `reader` may see."""
    found: dict[int, Memory] = {}
    for start in range(0, len(keys), 1000):
        rows = rows_by_key(read, keys[start : start + 1000])
        if reader is not None:
            rows = seen_rows(read, names, rows, reader)
        memories = read_memories(read, names, rows)
        found.update((row[0], memory) for row, memory in zip(rows, memories, strict=True))
    return found


def history(read: Read, scope: Scope, row: int) -> tuple[Version, ...]:
    """The earlier versions of a row the reader could have seen, oldest first."""
    found = read.rows(HISTORY, "WHERE row = ? ORDER BY version", (row,))
    versions = [
        Version(memory=memory_from_fields(json.loads(data)), replaced_at=from_microseconds(at))
        for _, _, at, data in found
    ]
    return tuple(version for version in versions if visible(version.memory, scope))


def select_rows(
    read: Read, names: NameCache, selection: Selection, *, order: str = "m.row", limit: int = -1
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
            (*values, limit),
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
            if holds(selection.where, _reader(read, names, columns, row)):
                chosen.append(row[0])
    except ValueError as error:
        raise corrupt(f"a row cannot be read ({error})") from error
    return chosen


_IN_MEMORIES = MEMORY_FIELDS - SCOPE_FIELDS - {"visibility", "source_url", "session"}


def count(read: Read, names: NameCache, selection: Selection) -> int:
    """How many rows a selection chooses."""
    if selection.where != ALWAYS:
        return len(select_rows(read, names, selection))
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


def _reader(read: Read, names: NameCache, columns: Sequence[str], row: Row) -> Callable[[str], Any]:
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
            return names.strands(read, [strand])[strand][1 if name == "source_url" else 2]
        if name == "visibility":
            return names.owners(read, [owner])[owner][0]
        if name in SCOPE_FIELDS:
            value = getattr(names.owners(read, [owner])[owner][1], name)
            return MISSING if value is None else value
        written = values["metadata"]
        return MISSING if written == "{}" else metadata_field(json.loads(written), name)

    return field


def _in_python(name: str, value: Any) -> Any:
    from agentmem.stores.entries import NO_POSITION

    if value is None or (name == "position" and value == NO_POSITION):
        return MISSING
    if name in ("created_at", "valid_from", "valid_to", "deleted_at"):
        return from_microseconds(value)
    return tuple(json.loads(value)) if name == "heading_path" else value
