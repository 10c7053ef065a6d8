"""Finding memories: by id, by row, by selection; each in one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from agentmem.base.errors import InvalidInput
from agentmem.base.filters import (
    Selection,
    matches,
)
from agentmem.base.types import Scope, visible
from agentmem.stores.postgres.tables import Transaction, digest, in_sql, owner_of
from agentmem.stores.tables import MEMORIES, Conditions, Found, Row, corrupt, memory_of, usage_of

COLUMNS = MEMORIES.columns[1:]
_SELECT = f"""
    SELECT m.row, {", ".join(f"m.{name}" for name in COLUMNS)},
        o.visibility, o.user_id, o.project_id, o.agent_id, o.run_id, s.url, s.session,
        u.retrieved, u.cited, u.ignored, u.last_used_at
    FROM memories AS m JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = m.owner
    LEFT JOIN strands AS s ON s.tenant = %(tenant)s AND s.strand = m.strand
    LEFT JOIN usage AS u ON u.tenant = %(tenant)s AND u.row = m.row
    WHERE m.tenant = %(tenant)s AND """  # noqa: S608 # our own names
_WIDTH = 1 + len(COLUMNS)


def find_where(
    transaction: Transaction, where: str, /, *, lock: bool = False, **values: Any
) -> list[Found]:
    """The memories `m` that meet a condition, by row."""
    told, given = in_sql(where, values)
    return _find(transaction, f"({told}) ORDER BY m.row", lock=lock, **given)


def _find(
    transaction: Transaction,
    condition: str,
    *,
    lock: bool = False,
    last: bool = False,
    **values: Any,
) -> list[Found]:
    statement = _SELECT + condition + (" FOR NO KEY UPDATE OF m" if lock else "")
    ask = transaction.only if last else transaction.all
    return [_stored(row) for row in ask(statement, **values)]


def _stored(row: Row) -> Found:
    columns, owner, (url, session) = row[:_WIDTH], row[_WIDTH : _WIDTH + 5], row[_WIDTH + 5 : -4]
    used = row[-4:]
    try:
        usage = None if used[0] is None else usage_of((row[0], *used))
        strand = row[2], url or "", session or ""
        return Found(columns, memory_of(columns, owner_of(owner), strand, usage))
    except (InvalidInput, ValueError, OverflowError, TypeError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


def by_ids(
    transaction: Transaction, ids: Iterable[str], *, lock: bool = False, last: bool = False
) -> dict[str, Found]:
    """What these ids stand for, whoever owns it; ids nobody has are left out."""
    keys = [digest(memory_id) for memory_id in dict.fromkeys(ids)]
    if not keys:
        return {}
    condition = "m.key = ANY(%(keys)s) ORDER BY m.row"
    found = _find(transaction, condition, lock=lock, last=last, keys=keys)
    return {one.memory.id: one for one in found}


def by_rows(
    transaction: Transaction,
    rows: Collection[int],
    *,
    reader: Scope | None = None,
    lock: bool = False,
    last: bool = False,
) -> dict[int, Found]:
    """What stands in these rows, whoever owns it, or what `reader` may see of it."""
    if not rows:
        return {}
    condition = "m.row = ANY(%(rows)s) ORDER BY m.row"
    wanted = [int(row) for row in rows]
    found = _find(transaction, condition, lock=lock, last=last, rows=wanted)
    return {one.row: one for one in found if reader is None or visible(one.memory, reader)}


# ----------------------------------------------------------------------------
# Selections.


def told_of(selection: Selection) -> Conditions:
    """What a selection asks of memories `m`, as the server reads it."""
    asked = Conditions(selection, Transaction)
    asked.sql, asked.values = in_sql(asked.sql, asked.values)
    return asked


def select(
    transaction: Transaction,
    selection: Selection,
    *,
    order: str = "m.row",
    limit: int | None = None,
    lock: bool = False,
    last: bool = False,
) -> list[Found]:
    """The memories `base.filters.selected` would choose, found inside SQL (P24).

    What SQL cannot say exactly as Python does is narrowed there and decided here.
    """
    asked = told_of(selection)
    most = f" LIMIT {int(limit)}" if asked.exact and limit is not None else ""
    condition = f"{asked.sql} ORDER BY {order}{most}"
    found = _find(transaction, condition, lock=lock, last=last, **asked.values)
    chosen = [one for one in found if asked.exact or matches(selection.where, one.memory)]
    return chosen if limit is None else chosen[:limit]


def select_rows(transaction: Transaction, selection: Selection) -> list[int]:
    """The rows of a selection, ascending."""
    asked = told_of(selection)
    if not asked.exact:
        return [one.row for one in select(transaction, selection)]
    found = transaction.all(
        f"SELECT m.row FROM memories AS m WHERE m.tenant = %(tenant)s AND {asked.sql} ORDER BY 1",  # noqa: S608 # our own names
        **asked.values,
    )
    return [row for (row,) in found]


def count(transaction: Transaction, selection: Selection) -> int:
    """How many memories a selection chooses."""
    asked = told_of(selection)
    if not asked.exact:
        return len(select(transaction, selection))
    found = transaction.only(
        f"SELECT count(*) FROM memories AS m WHERE m.tenant = %(tenant)s AND {asked.sql}",  # noqa: S608 # our own names
        **asked.values,
    )
    return int(found[0][0])
