"""Revisions in the file: applied in one transaction, written down, and taken back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import AlreadyUndone, ChangedMeanwhile, DuplicateRecord
from agentmem.base.types import UNUSED, Memory, Scope, visible
from agentmem.stores.rows import usage_values
from agentmem.stores.rules import (
    KEPT_RUNS,
    Item,
    JournalEntry,
    Relation,
    Revision,
    Undone,
    added_item,
    digest,
    link_state,
    plan_relation,
    plan_undo,
    planned_changes,
    require_revision,
    revised,
)
from agentmem.stores.sqlite.connection import Read, Row, Write, opened, seal
from agentmem.stores.sqlite.reading import (
    COLUMN,
    found_in,
    intern_owner,
    read_memories,
    rows_by_id,
    rows_by_key,
)
from agentmem.stores.sqlite.schema import (
    INDEXED,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    MEMORIES,
    SETTINGS,
    USAGE,
)
from agentmem.stores.sqlite.side import Owned, set_value
from agentmem.stores.sqlite.writing import add, hide, place_text, refuse_circles
from agentmem.stores.values import (
    Entry,
    Link,
    from_microseconds,
    pack_terms,
    to_microseconds,
    unpack_terms,
    write_json,
)

_FLAGGED = ("superseded_by", "valid_from", "valid_to", "deleted_at")


class SqliteJournal(Owned):
    """`Journal` over the file."""

    table = JOURNAL
    what = "run"
    seen_with = "consolidate --log"

    def apply(self, scope: Scope, revision: Revision, *, at: datetime) -> JournalEntry:
        """Make all the changes, or none when a memory is no longer what was planned for."""
        require_revision(scope, revision, at)
        moment = to_microseconds(at, "at")
        report = write_json(revision.report, "report")
        planned = planned_changes(revision)
        with self._database.write() as write:
            if write.rows(JOURNAL, "WHERE id = ?", (revision.id,)):
                raise DuplicateRecord(revision.id)
            owner = intern_owner(write, ("private", scope))
            (entry,) = write.take(JOURNAL)
            new = add(write, revision.added)
            rows = self._change(write, scope, planned)
            kept = [*(item for _, _, item in planned), *map(_added, revision.added)]
            items: list[Row] = [
                (row, None, "", write_json(item, "item"))
                for row, item in zip((*rows, *new), kept, strict=True)
            ]
            items += self._relate(write, scope, revision.relations)
            write.log("update", rows)
            mark = _set_mark(write, revision.mark)
            write.insert(
                JOURNAL, [(entry, revision.id, owner, revision.kind, moment, None, report, mark)]
            )
            _keep_items(write, entry, items)
            _forget_old(write, owner, revision.kind)
        return JournalEntry(
            id=revision.id,
            kind=revision.kind,
            created_at=from_microseconds(moment),
            report=json.loads(report),
            scope=scope,
            items=len(items),
        )

    def undo(self, scope: Scope, journal_id: str, *, at: datetime) -> Undone:
        """Put back what the run changed, except what somebody changed since."""
        require_text(journal_id, "journal_id")
        moment = to_microseconds(at, "at")
        with self._database.write() as write:
            run = self._find(write, scope, journal_id)
            if run[5] is not None:
                raise AlreadyUndone(journal_id)
            items = write.rows(JOURNAL_ITEMS, "WHERE entry = ? ORDER BY item", (run[0],))
            removed, count, left = self._restore(
                write, scope, [i for i in items if i[3] is None], at=at
            )
            relations, left_too = _unrelate(write, [i for i in items if i[3] is not None])
            _unset_mark(write, run[7])
            write.change(JOURNAL, run, undone_at=moment, mark="")
            write.delete(JOURNAL_ITEMS, [item[0] for item in items])
        return Undone(
            id=journal_id,
            restored=count,
            relations=relations,
            removed=removed,
            left=(*left, *left_too),
        )

    def get(self, scope: Scope, journal_id: str, /) -> JournalEntry:
        """The run with this id."""
        require_text(journal_id, "journal_id")
        with self._database.read() as read:
            return self._entry(read, self._find(read, scope, journal_id))

    def recent(self, scope: Scope, *, limit: int = 20) -> tuple[JournalEntry, ...]:
        """The newest runs, newest first."""
        require_count(limit, "limit")
        with self._database.read() as read:
            return tuple(self._entry(read, row) for row in self._newest(read, scope, limit))

    def _entry(self, read: Read, row: Row) -> JournalEntry:
        entry, run_id, _, kind, created_at, undone_at, report, _ = row
        ((items,),) = read.execute("SELECT count(*) FROM journal_items WHERE entry = ?", (entry,))
        return JournalEntry(
            id=run_id,
            kind=kind,
            created_at=from_microseconds(created_at),
            undone_at=None if undone_at is None else from_microseconds(undone_at),
            report=json.loads(report),
            scope=self._scope(read, row),
            items=items,
        )

    # -- memories ---------------------------------------------------------------------

    def _change(
        self, write: Write, scope: Scope, planned: Sequence[tuple[Memory, Memory, Item]]
    ) -> list[int]:
        found = rows_by_id(write, [before.id for before, _, _ in planned])
        for before, _, _ in planned:
            if before.id not in found:
                raise ChangedMeanwhile(before.id)
        rows = [found[before.id] for before, _, _ in planned]
        edges: list[tuple[str, str]] = []
        current = read_memories(write, rows)
        for row, memory, (before, after, item) in zip(rows, current, planned, strict=True):
            if not visible(memory, scope):
                raise ChangedMeanwhile(memory.id)
            if "superseded_by" in item.get("fields", ()) and after.superseded_by is not None:
                edges.append((memory.id, after.superseded_by))
            rewrite_fields(write, row, memory, revised(memory, before, after, item))
        refuse_circles(write, edges)
        return [row[0] for row in rows]

    def _restore(
        self, write: Write, scope: Scope, items: Sequence[Row], *, at: datetime
    ) -> tuple[int, int, list[str]]:
        known = {item[2]: json.loads(item[5]) for item in items}
        found = {one.row: one for one in found_in(write, rows_by_key(write, known))}
        plan = plan_undo({key: one.memory for key, one in found.items()}, known, scope)
        for key, new in plan.changed.items():
            rewrite_fields(write, *found[key], new)
        write.log("update", list(plan.changed))
        if plan.gone:
            hide(write, [found[key] for key in plan.gone], at)
        return len(plan.gone), len(plan.changed), list(plan.left)

    # -- relations --------------------------------------------------------------------

    def _relate(self, write: Write, scope: Scope, relations: Sequence[Relation]) -> list[Row]:
        ids = [i for r in relations for i in (r.link.first_id, r.link.second_id)]
        rows = rows_by_id(write, ids)
        memories = read_memories(write, list(rows.values()))
        seen = {memory.id for memory in memories if visible(memory, scope)}
        items: list[Row] = []
        for relation in relations:
            link = relation.link
            for memory_id in (link.first_id, link.second_id):
                if memory_id not in seen:
                    raise ChangedMeanwhile(memory_id)
            ends = rows[link.first_id][0], rows[link.second_id][0]
            there = _find_link(write, relation.family, ends, link.relation)
            what, item = plan_relation(relation, None if there is None else _state_of(there))
            if what == "add":
                _insert_link(write, relation.family, ends, link)
            elif there is not None and what == "change":
                _change_link(write, there, link_state(link))
            if what != "keep":
                items.append((*ends, relation.family, item))
        return items


def rewrite_fields(write: Write, row: Row, old: Memory, new: Memory) -> None:
    """Store `new` in the place of `old`, which has the same text, owner and place."""
    columns = place_text(write, row[0], new, old=row)
    write.change(MEMORIES, row, **dict(zip(MEMORIES.columns[4:], columns, strict=True)))
    flagged = any(getattr(old, name) != getattr(new, name) for name in _FLAGGED)
    if flagged or old.metadata != new.metadata:
        (blob,) = write.rows(INDEXED, "WHERE row = ?", (row[0],))
        kept = unpack_terms(opened(row[0], blob[1]))
        owner, strand = row[COLUMN["owner"]], row[COLUMN["strand"]] or 0
        packed = pack_terms(new, **kept, owner=owner, strand=strand)
        write.change(INDEXED, blob, data=seal(row[0], packed))
    if old.usage != new.usage:
        write.delete(USAGE, [row[0]])
        if new.usage != UNUSED:
            write.insert(USAGE, [(row[0], *usage_values(new.usage))])


def _find_link(read: Read, family: str, ends: tuple[int, int], relation: str) -> Row | None:
    found = read.rows(
        LINKS,
        "WHERE family = ? AND first = ? AND second = ? AND relation = ?",
        (family, *ends, relation),
    )
    return found[0] if found else None


def _insert_link(write: Write, family: str, ends: tuple[int, int], link: Link) -> None:
    (key,) = write.take(LINKS)
    created = to_microseconds(link.created_at, "created_at")
    settled = None if link.settled_at is None else to_microseconds(link.settled_at, "settled_at")
    note = require_text(link.note, "note")
    relation = require_text(link.relation, "relation")
    write.insert(LINKS, [(key, family, *ends, relation, created, note, settled)])


def _state_of(row: Row) -> Any:
    settled = None if row[7] is None else from_microseconds(row[7]).isoformat()
    return [row[6], settled]


def _change_link(write: Write, row: Row, state: Any) -> None:
    note, settled = state
    moment = None if settled is None else to_microseconds(datetime.fromisoformat(settled))
    write.change(LINKS, row, note=note, settled_at=moment)


def _unrelate(write: Write, items: Sequence[Row]) -> tuple[int, list[str]]:
    count = 0
    left: list[str] = []
    for _, _, first, second, family, data in items:
        kept = json.loads(data)
        there = _find_link(write, family, (first, second), kept["relation"])
        if there is None or digest(_state_of(there)) != kept["after"]:
            left.append(f"{family} {kept['relation']}")
            continue
        if kept["before"] is None:
            write.delete(LINKS, [there[0]])
        else:
            _change_link(write, there, kept["before"])
        count += 1
    return count, left


def _set_mark(write: Write, name: str) -> str:
    if not name:
        return ""
    found = write.rows(SETTINGS, "WHERE name = ?", (name,))
    now = str(write.ledger.seq())
    set_value(write, name, now)
    return json.dumps([name, found[0][2] if found else None, now])


def _unset_mark(write: Write, written: str) -> None:
    if not written:
        return
    name, before, after = json.loads(written)
    found = write.rows(SETTINGS, "WHERE name = ?", (name,))
    if found and found[0][2] == after:
        set_value(write, name, before)


def _keep_items(write: Write, entry: int, items: Sequence[Row]) -> None:
    if items:
        keys = write.take(JOURNAL_ITEMS, len(items))
        rows = [(key, entry, *item) for key, item in zip(keys, items, strict=True)]
        write.insert(JOURNAL_ITEMS, rows)


def _added(entry: Entry) -> Item:
    return added_item(entry.memory)


def _forget_old(write: Write, owner: int, kind: str) -> None:
    # By kind: what is learned every turn must not push out last week's consolidation.
    old = write.execute(
        "SELECT entry FROM journal WHERE owner = ? AND kind = ? "
        "ORDER BY entry DESC LIMIT -1 OFFSET ?",
        (owner, kind, KEPT_RUNS),
    )
    for (entry,) in old:
        items = write.execute("SELECT item FROM journal_items WHERE entry = ?", (entry,))
        write.delete(JOURNAL_ITEMS, [item for (item,) in items])
        write.delete(JOURNAL, [entry])
