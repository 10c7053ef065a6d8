"""Revisions in the database: applied in one transaction, written down, and taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import AlreadyUndone, ChangedMeanwhile, DuplicateRecord, RecordNotFound
from agentmem.base.types import Memory, Scope, visible
from agentmem.stores.postgres.connection import PostgresDatabase, Row, Transaction, as_json, digest
from agentmem.stores.postgres.reading import StoredRow, by_ids, by_rows, seen_owners
from agentmem.stores.postgres.side import (
    change_link,
    find_link,
    get_value,
    insert_link,
    remove_link,
    scope_of,
    set_value,
)
from agentmem.stores.postgres.writing import (
    add,
    hide,
    intern_owner,
    refuse_circles,
    rewrite,
    set_usage,
)
from agentmem.stores.rules import (
    KEPT_RUNS,
    Item,
    JournalEntry,
    Relation,
    Revision,
    Undone,
    added_item,
    link_state,
    plan_relation,
    plan_undo,
    planned_changes,
    require_revision,
    revised,
)
from agentmem.stores.rules import digest as digest_of
from agentmem.stores.values import from_microseconds, to_microseconds, write_json

_ENTRY = """SELECT t.entry, t.id, t.kind, t.created_at, t.undone_at, t.report, t.mark,
        (SELECT count(*) FROM journal_items AS i WHERE i.tenant = %(tenant)s AND i.entry = t.entry),
        o.user_id, o.project_id, o.agent_id, o.run_id
    FROM journal AS t JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = t.owner
    WHERE t.tenant = %(tenant)s AND t.owner = ANY({owners}) """

_ITEMS = ("entry", "row", "other", "relation", "data")


class PostgresJournal:
    """`Journal` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def apply(self, scope: Scope, revision: Revision, *, at: datetime) -> JournalEntry:
        """Make all the changes, or none when a memory is no longer what was planned for."""
        require_revision(scope, revision, at)
        moment = to_microseconds(at, "at")
        report = write_json(revision.report, "report")
        planned = planned_changes(revision)

        def change(transaction: Transaction) -> int:
            owner = intern_owner(transaction, ("private", scope))
            entry = _new_entry(transaction, revision, owner, moment, report)
            new = add(transaction, revision.added)
            rows = _change(transaction, scope, planned)
            kept = [
                *(item for _, _, item in planned),
                *(added_item(e.memory) for e in revision.added),
            ]
            items: list[Row] = [
                (entry, row, None, "", write_json(item, "item"))
                for row, item in zip((*rows, *new), kept, strict=True)
            ]
            items += [(entry, *i) for i in _relate(transaction, scope, revision.relations)]
            transaction.later(
                """INSERT INTO journal_items (tenant, entry, row, other, relation, data)
                SELECT %(tenant)s, i.* FROM json_to_recordset(%(items)s::json) AS i(
                    entry bigint, row bigint, other bigint, relation text, data text)""",
                items=as_json([dict(zip(_ITEMS, item, strict=True)) for item in items]),
            )
            transaction.log("update", rows)
            _forget_old(transaction, owner, revision.kind)
            if revision.mark:
                _set_mark(transaction, entry, revision.mark)
            return len(items)

        return JournalEntry(
            id=revision.id,
            kind=revision.kind,
            created_at=from_microseconds(moment),
            report=json.loads(report),
            scope=scope,
            items=self._database.write(change),
        )

    def undo(self, scope: Scope, journal_id: str, *, at: datetime) -> Undone:
        """Put back what the run changed, except what somebody changed since."""
        require_text(journal_id, "journal_id")
        moment = to_microseconds(at, "at")

        def take_back(transaction: Transaction) -> Undone:
            entry, *_, undone, _, mark, _ = _find(transaction, scope, journal_id, lock=True)[:8]
            if undone is not None:
                raise AlreadyUndone(journal_id)
            items = transaction.all(
                "SELECT row, other, relation, data FROM journal_items "
                "WHERE tenant = %(tenant)s AND entry = %(entry)s ORDER BY item",
                entry=entry,
            )
            memories = [item for item in items if item[1] is None]
            removed, count, left = _restore(transaction, scope, memories, at=at)
            relations, left_too = _unrelate(transaction, [i for i in items if i[1] is not None])
            _unset_mark(transaction, mark)
            transaction.run(
                "UPDATE journal SET undone_at = %(at)s, mark = '' "
                "WHERE tenant = %(tenant)s AND entry = %(entry)s",
                at=moment,
                entry=entry,
            )
            transaction.run(
                "DELETE FROM journal_items WHERE tenant = %(tenant)s AND entry = %(entry)s",
                entry=entry,
            )
            return Undone(
                id=journal_id,
                restored=count,
                relations=relations,
                removed=removed,
                left=(*left, *left_too),
            )

        return self._database.write(take_back)

    def get(self, scope: Scope, journal_id: str, /) -> JournalEntry:
        """The run with this id."""
        require_text(journal_id, "journal_id")
        return _entry(self._database.read(lambda t: _find(t, scope, journal_id)))

    def recent(self, scope: Scope, *, limit: int = 20) -> tuple[JournalEntry, ...]:
        """The newest runs, newest first."""
        count = require_count(limit, "limit")
        seen = seen_owners(scope)
        found = self._database.read(
            lambda t: t.only(
                f"{_ENTRY.format(owners=seen.sql)} ORDER BY t.created_at DESC, t.entry DESC "
                "LIMIT %(limit)s",
                limit=count,
                **seen.values,
            )
        )
        return tuple(map(_entry, found))


def _find(transaction: Transaction, scope: Scope, journal_id: str, *, lock: bool = False) -> Row:
    seen = seen_owners(scope)
    found = transaction.one(
        f"{_ENTRY.format(owners=seen.sql)} AND t.key = %(key)s{' FOR UPDATE OF t' if lock else ''}",
        key=digest(journal_id),
        **seen.values,
    )
    if found is None:
        raise RecordNotFound(journal_id, what="run", seen_with="consolidate --log")
    return found


def _entry(row: Row) -> JournalEntry:
    _, run_id, kind, created_at, undone_at, report, _, items, *whose = row
    return JournalEntry(
        id=run_id,
        kind=kind,
        created_at=from_microseconds(created_at),
        undone_at=None if undone_at is None else from_microseconds(undone_at),
        report=json.loads(report),
        scope=scope_of(whose),
        items=items,
    )


def _new_entry(
    transaction: Transaction, revision: Revision, owner: int, moment: int, report: str
) -> int:
    found = transaction.one(
        """INSERT INTO journal (tenant, key, id, owner, kind, created_at, report, mark)
        VALUES (%(tenant)s, %(key)s, %(id)s, %(owner)s, %(kind)s, %(at)s, %(report)s, '')
        ON CONFLICT (tenant, key) DO NOTHING RETURNING entry""",
        key=digest(revision.id),
        id=revision.id,
        owner=owner,
        kind=revision.kind,
        at=moment,
        report=report,
    )
    if found is None:
        raise DuplicateRecord(revision.id)
    return int(found[0])


# ----------------------------------------------------------------------------
# Memories.


def _change(
    transaction: Transaction, scope: Scope, planned: Sequence[tuple[Memory, Memory, Item]]
) -> list[int]:
    found = by_ids(transaction, [before.id for before, _, _ in planned], lock=True)
    edges: list[tuple[str, str]] = []
    for before, after, item in planned:
        one = found.get(before.id)
        if one is None or not visible(one.memory, scope):
            raise ChangedMeanwhile(before.id)
        if "superseded_by" in item.get("fields", ()) and after.superseded_by is not None:
            edges.append((before.id, after.superseded_by))
        _write_fields(transaction, one, revised(one.memory, before, after, item))
    refuse_circles(transaction, edges)
    return [found[before.id].row for before, _, _ in planned]


def _restore(
    transaction: Transaction, scope: Scope, items: Sequence[Row], *, at: datetime
) -> tuple[int, int, list[str]]:
    known = {item[0]: json.loads(item[3]) for item in items}
    found = by_rows(transaction, known, lock=True)
    plan = plan_undo({row: one.memory for row, one in found.items()}, known, scope)
    for row, new in plan.changed.items():
        _write_fields(transaction, found[row], new)
    transaction.log("update", list(plan.changed))
    if plan.gone:
        hide(transaction, [found[row] for row in plan.gone], at)
    return len(plan.gone), len(plan.changed), list(plan.left)


def _write_fields(transaction: Transaction, old: StoredRow, new: Memory) -> None:
    """Store `new` in the place of `old`, which has the same text, owner and place."""
    rewrite(transaction, old, new, relink=False)
    if new.usage != old.memory.usage:
        set_usage(transaction, old.row, new.usage)


# ----------------------------------------------------------------------------
# Relations.


def _relate(transaction: Transaction, scope: Scope, relations: Sequence[Relation]) -> list[Row]:
    ids = [i for r in relations for i in (r.link.first_id, r.link.second_id)]
    found = by_ids(transaction, ids)
    items: list[Row] = []
    for relation in relations:
        link = relation.link
        for memory_id in (link.first_id, link.second_id):
            if memory_id not in found or not visible(found[memory_id].memory, scope):
                raise ChangedMeanwhile(memory_id)
        ends = found[link.first_id].row, found[link.second_id].row
        there = find_link(transaction, relation.family, ends, link.relation)
        what, item = plan_relation(relation, None if there is None else _state_of(there))
        if what == "add":
            insert_link(transaction, relation.family, ends, link)
        elif there is not None and what == "change":
            _set_state(transaction, int(there[0]), link_state(link))
        if what != "keep":
            items.append((*ends, relation.family, item))
    return items


def _state_of(row: Row) -> Any:
    settled = None if row[2] is None else from_microseconds(row[2]).isoformat()
    return [row[1], settled]


def _set_state(transaction: Transaction, key: int, state: Any) -> None:
    note, settled = state
    moment = None if settled is None else to_microseconds(datetime.fromisoformat(settled))
    change_link(transaction, key, note, moment)


def _unrelate(transaction: Transaction, items: Sequence[Row]) -> tuple[int, list[str]]:
    count = 0
    left: list[str] = []
    for first, second, family, data in items:
        kept = json.loads(data)
        there = find_link(transaction, family, (first, second), kept["relation"])
        if there is None or digest_of(_state_of(there)) != kept["after"]:
            left.append(f"{family} {kept['relation']}")
            continue
        if kept["before"] is None:
            remove_link(transaction, int(there[0]))
        else:
            _set_state(transaction, int(there[0]), kept["before"])
        count += 1
    return count, left


# ----------------------------------------------------------------------------
# Marks, and how long a run is kept.


def _set_mark(transaction: Transaction, entry: int, name: str) -> None:
    before = get_value(transaction, name)
    now = str(transaction.seq())
    set_value(transaction, name, now)
    transaction.run(
        "UPDATE journal SET mark = %(mark)s WHERE tenant = %(tenant)s AND entry = %(entry)s",
        mark=json.dumps([name, before, now]),
        entry=entry,
    )


def _unset_mark(transaction: Transaction, written: str) -> None:
    if written:
        name, before, after = json.loads(written)
        if get_value(transaction, name) == after:
            set_value(transaction, name, before)


def _forget_old(transaction: Transaction, owner: int, kind: str) -> None:
    # By kind: what is learned every turn must not push out last week's consolidation.
    transaction.run(
        """DELETE FROM journal WHERE tenant = %(tenant)s AND entry IN (
            SELECT entry FROM journal WHERE tenant = %(tenant)s AND owner = %(owner)s
            AND kind = %(kind)s ORDER BY entry DESC OFFSET %(kept)s)""",
        owner=owner,
        kind=kind,
        kept=KEPT_RUNS,
    )
