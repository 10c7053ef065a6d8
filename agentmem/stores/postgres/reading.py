"""Finding memories: by id, by row, by selection; each in one statement."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from agentmem.base.errors import InvalidInput, StoreCorrupt
from agentmem.base.filters import (
    ALL_VISIBILITIES,
    ALWAYS,
    MEMORY_FIELDS,
    And,
    Compare,
    Filter,
    Selection,
    matches,
)
from agentmem.base.types import Memory, Scope, Usage, visible
from agentmem.stores.postgres.connection import Row, Transaction, digest
from agentmem.stores.rows import Owner, memory_of, scope_values
from agentmem.stores.values import (
    DELETED,
    FORGOTTEN,
    SUPERSEDED,
    Version,
    from_microseconds,
    memory_from_fields,
    to_microseconds,
)

COLUMNS = (
    "id", "owner", "strand", "place", "kind", "origin", "speaker", "created_at", "valid_from",
    "valid_to", "supersedes", "superseded_by", "deleted_at", "importance", "content_hash", "title",
    "heading_path", "metadata", "text", "summary", "compressed", "index_text",
)  # fmt: skip
_SELECT = f"""
    SELECT m.row, {", ".join(f"m.{name}" for name in COLUMNS)},
        o.visibility, o.user_id, o.project_id, o.agent_id, o.run_id, s.url, s.session,
        u.retrieved, u.cited, u.ignored, u.last_used_at
    FROM memories AS m JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
    LEFT JOIN strands AS s ON s.tenant = %(tenant)s AND s.strand = m.strand
    LEFT JOIN usage AS u ON u.tenant = %(tenant)s AND u.row = m.row
    WHERE m.tenant = %(tenant)s AND """  # noqa: S608 # our own names
_WIDTH = 1 + len(COLUMNS)


class StoredRow(NamedTuple):
    """A memory and where it stands."""

    row: int
    owner: int
    strand: int | None
    place: int
    memory: Memory


def find_where(
    transaction: Transaction,
    condition: str,
    *,
    lock: bool = False,
    last: bool = False,
    **values: Any,
) -> list[StoredRow]:
    """The memories that meet a condition; with `lock`, nobody else changes them until the end.

    With `last` the transaction ends here.
    """
    statement = _SELECT + condition + (" FOR NO KEY UPDATE OF m" if lock else "")
    ask = transaction.only if last else transaction.all
    return [_stored(row) for row in ask(statement, **values)]


def _stored(row: Row) -> StoredRow:
    visibility, user, project, agent, run, url, session, retrieved, *used = row[_WIDTH:]
    scope = Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)
    try:
        usage = None
        if retrieved is not None:
            cited, ignored, last = used
            usage = Usage(
                retrieved=retrieved,
                cited=cited,
                ignored=ignored,
                last_used_at=None if last is None else from_microseconds(last),
            )
        memory = memory_of(
            row[:_WIDTH], (visibility, scope), (row[2], url or "", session or ""), usage
        )
    except (InvalidInput, ValueError, OverflowError, TypeError) as error:
        raise StoreCorrupt(
            f"A row cannot be read ({error}).", remedy="Run `agentmem doctor`."
        ) from error
    return StoredRow(row[0], row[2], row[3], row[4], memory)


def by_ids(
    transaction: Transaction, ids: Iterable[str], *, lock: bool = False, last: bool = False
) -> dict[str, StoredRow]:
    """What these ids stand for, whoever owns it; ids nobody has are left out."""
    keys = [digest(memory_id) for memory_id in dict.fromkeys(ids)]
    if not keys:
        return {}
    condition = "m.key = ANY(%(keys)s) ORDER BY m.row"
    found = find_where(transaction, condition, lock=lock, last=last, keys=keys)
    return {one.memory.id: one for one in found}


def by_rows(
    transaction: Transaction,
    rows: Collection[int],
    *,
    reader: Scope | None = None,
    lock: bool = False,
    last: bool = False,
) -> dict[int, StoredRow]:
    """What stands in these rows, whoever owns it, or what `reader` may see of it."""
    if not rows:
        return {}
    condition = "m.row = ANY(%(rows)s) ORDER BY m.row"
    wanted = [int(row) for row in rows]
    found = find_where(transaction, condition, lock=lock, last=last, rows=wanted)
    return {one.row: one for one in found if reader is None or visible(one.memory, reader)}


def versions(transaction: Transaction, scope: Scope, row: int) -> tuple[Version, ...]:
    """The earlier versions of a row the reader could have seen, oldest first."""
    found = transaction.all(
        "SELECT replaced_at, data FROM history WHERE tenant = %(tenant)s AND row = %(row)s "
        "ORDER BY version",
        row=row,
    )
    kept = [
        Version(memory=memory_from_fields(json.loads(data)), replaced_at=from_microseconds(at))
        for at, data in found
    ]
    return tuple(version for version in kept if visible(version.memory, scope))


# ----------------------------------------------------------------------------
# Whom a reader may see.


class SeenOwners(NamedTuple):
    """Whom a reader may see: the numbers of the owners as SQL, and what it asks for."""

    sql: str
    values: dict[str, Any]


def seen_owners(scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES) -> SeenOwners:
    """The owners whose memories a reader may see: `base.types.visible`, in SQL (P24)."""
    condition, values = seen_condition(scope, visibilities)
    return SeenOwners(
        f"ARRAY(SELECT o.owner FROM owners AS o WHERE o.tenant = %(tenant)s AND {condition})",  # noqa: S608 # our own names
        values,
    )


def seen_condition(
    scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
) -> tuple[str, dict[str, Any]]:
    """SQL for "this owner `o` is one of them"."""
    user, project, agent, run = scope_values(scope)

    def is_(column: str, value: str | None) -> str:
        return f"o.{column} IS NULL" if value is None else f"o.{column} = %(of_{column})s"

    def open_(column: str, value: str | None) -> str:
        return "true" if value is None else f"(o.{column} IS NULL OR {is_(column, value)})"

    inner = f"{open_('agent_id', agent)} AND {open_('run_id', run)}"
    parts = {
        "system": "o.visibility = 'system'",
        "private": f"(o.visibility = 'private' AND {is_('user_id', user)} "
        f"AND {open_('project_id', project)} AND {inner})",
        "project": f"(o.visibility = 'project' AND {is_('project_id', project)} AND {inner})",
    }
    chosen = [sql for name, sql in parts.items() if name in visibilities] or ["false"]
    values = {
        "of_user_id": user, "of_project_id": project, "of_agent_id": agent, "of_run_id": run,
    }  # fmt: skip
    return f"({' OR '.join(chosen)})", values


def visible_owners(
    transaction: Transaction, scope: Scope, visibilities: Collection[str] = ALL_VISIBILITIES
) -> list[int]:
    """The same as numbers, ascending."""
    condition, values = seen_condition(scope, visibilities)
    found = transaction.all(
        f"SELECT o.owner FROM owners AS o WHERE o.tenant = %(tenant)s AND {condition} ORDER BY 1",  # noqa: S608 # our own names
        **values,
    )
    return [owner for (owner,) in found]


def owner_key(owner: Owner) -> bytes:
    visibility, scope = owner
    return digest(visibility, *scope_values(scope))


def find_owner(transaction: Transaction, owner: Owner) -> int | None:
    key = owner_key(owner)
    return transaction.numbers("owners", [key]).get(key)


# ----------------------------------------------------------------------------
# Selections.


_PLAIN = frozenset({"kind", "origin", "speaker", "title", "content_hash"})
"""Text columns that are never empty in the sense of "missing", and compare in SQL as in Python."""


class Conditions:
    """What a selection asks for, as SQL; `exact` unless a filter is left for Python to decide."""

    def __init__(self, selection: Selection) -> None:
        self._owners, self.values = seen_owners(selection.reader, selection.visibilities)
        self.exact = selection.where == ALWAYS
        clauses = [f"m.owner = ANY({self._owners})"]
        clauses += self._strands(selection)
        if selection.kinds is not None:
            clauses.append("m.kind = ANY(%(kinds)s)")
            self.values["kinds"] = list(selection.kinds)
            if "page" not in selection.kinds:
                clauses.append("m.kind <> 'page'")  # lets the index of hashes be used
        clauses += self._moments(selection)
        clauses += self._necessary(selection.where)
        self.sql = " AND ".join(clauses)

    def _strands(self, selection: Selection) -> list[str]:
        clauses = []
        for name, value in (("url", selection.source_url), ("session", selection.session)):
            if value is None:
                continue
            self.values[name] = value
            inside = (
                "m.strand IN (SELECT s.strand FROM strands AS s WHERE s.tenant = %(tenant)s "  # noqa: S608 # our own names
                f"AND s.{name} = %({name})s AND s.owner = ANY({self._owners}))"
            )
            # A row of no strand has neither url nor session.
            clauses.append(inside if value else f"(m.strand IS NULL OR {inside})")
        return clauses

    def _moments(self, selection: Selection) -> list[str]:
        clauses = []
        for name, comparison in (("since", ">="), ("until", "<")):
            moment = getattr(selection, name)
            if moment is not None:
                clauses.append(f"m.created_at {comparison} %({name})s")
                self.values[name] = to_microseconds(moment, name)
        if not selection.deleted:
            clauses.append(f"m.flags & {DELETED} = 0")
        if not selection.forgotten:
            spared = f"m.flags & {SUPERSEDED} <> 0 OR " if selection.as_of is not None else ""
            clauses.append(f"({spared}m.flags & {FORGOTTEN} = 0)")
        if selection.as_of is None:
            if not selection.superseded:
                clauses.append(f"m.flags & {SUPERSEDED} = 0")
            return clauses
        self.values["as_of"] = to_microseconds(selection.as_of, "as_of")
        clauses.append("m.created_at <= %(as_of)s")
        clauses.append("(m.valid_from IS NULL OR m.valid_from <= %(as_of)s)")
        clauses.append("(m.valid_to IS NULL OR %(as_of)s < m.valid_to)")
        if not selection.superseded:
            clauses.append(f"(m.flags & {SUPERSEDED} = 0 OR m.valid_to IS NOT NULL)")
        return clauses

    def _necessary(self, where: Filter) -> list[str]:
        """SQL that everything matching `where` meets, so that less has to be looked at."""
        clauses = []
        for number, part in enumerate(where.parts if isinstance(where, And) else (where,)):
            if not isinstance(part, Compare):
                continue
            name, value = f"w{number}", part.value
            if part.operator == "in" and all(isinstance(one, str) for one in value):
                if part.field in _PLAIN:
                    clauses.append(f"m.{part.field} = ANY(%({name})s)")
                    self.values[name] = list(value)
                elif part.field == "id":
                    clauses.append(f"m.key = ANY(%({name})s)")
                    self.values[name] = [digest(one) for one in value]
            elif part.operator == "eq" and isinstance(value, str):
                if part.field in _PLAIN:
                    clauses.append(f"m.{part.field} = %({name})s")
                    self.values[name] = value
                elif part.field == "id":
                    clauses.append(f"m.key = %({name})s")
                    self.values[name] = digest(value)
                elif part.field not in MEMORY_FIELDS:
                    clauses.append(f"position(%({name})s IN m.metadata) > 0")
                    self.values[name] = f":{json.dumps(value, ensure_ascii=False)}"
        return clauses


def select(
    transaction: Transaction,
    selection: Selection,
    *,
    order: str = "m.row",
    limit: int | None = None,
    lock: bool = False,
    last: bool = False,
) -> list[StoredRow]:
    """The memories `base.filters.selected` would choose, found inside SQL (P24).

    What SQL cannot say exactly as Python does is narrowed there and decided here.
    """
    asked = Conditions(selection)
    most = f" LIMIT {int(limit)}" if asked.exact and limit is not None else ""
    condition = f"{asked.sql} ORDER BY {order}{most}"
    found = find_where(transaction, condition, lock=lock, last=last, **asked.values)
    chosen = [one for one in found if asked.exact or matches(selection.where, one.memory)]
    return chosen if limit is None else chosen[:limit]


def select_rows(transaction: Transaction, selection: Selection) -> list[int]:
    """The rows of a selection, ascending."""
    asked = Conditions(selection)
    if not asked.exact:
        return [one.row for one in select(transaction, selection)]
    found = transaction.all(
        f"SELECT m.row FROM memories AS m WHERE m.tenant = %(tenant)s AND {asked.sql} ORDER BY 1",  # noqa: S608 # our own names
        **asked.values,
    )
    return [row for (row,) in found]


def count(transaction: Transaction, selection: Selection) -> int:
    """How many memories a selection chooses."""
    asked = Conditions(selection)
    if not asked.exact:
        return len(select(transaction, selection))
    found = transaction.only(
        f"SELECT count(*) FROM memories AS m WHERE m.tenant = %(tenant)s AND {asked.sql}",  # noqa: S608 # our own names
        **asked.values,
    )
    return int(found[0][0])
