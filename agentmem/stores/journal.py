"""Revisions of a store: applied in one transaction, written down, and taken back."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, TypeVar

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import AlreadyUndone, ChangedMeanwhile, DuplicateRecord, RecordNotFound
from agentmem.base.types import Memory, Scope, visible
from agentmem.stores.rules import (
    ADDED,
    KEPT_RUNS,
    Item,
    JournalEntry,
    Relation,
    Revision,
    Undone,
    added_item,
    digest,
    link_state,
    plan_letting_go,
    plan_relation,
    plan_undo,
    planned_changes,
    require_revision,
    revised,
)
from agentmem.stores.side import find_link, get_value, link_values, newest, set_value
from agentmem.stores.tables import (
    ANY,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    Found,
    Reads,
    Row,
    TableReader,
    Tables,
    TableWriter,
    Writes,
)
from agentmem.stores.values import from_microseconds, to_microseconds, write_json
from agentmem.stores.writing import hide, refuse_circles

W = TypeVar("W", bound=TableWriter)


class StoredJournal(Generic[W]):
    """Many small changes at once, each step of which can be taken back."""

    def __init__(self, tables: Tables[TableReader, W], reads: Reads[W], writes: Writes[W]) -> None:
        self._tables = tables
        self._reads = reads
        self._writes = writes

    def apply(self, scope: Scope, revision: Revision, *, at: datetime) -> JournalEntry:
        """Make all the changes, or none when a memory is no longer what was planned for."""
        require_revision(scope, revision, at)
        moment = to_microseconds(at, "at")
        report = write_json(revision.report, "report")
        planned = planned_changes(revision)

        def change(write: W) -> int:
            owner = write.owner_number(("private", scope))
            entry = write.add(
                JOURNAL,
                id=revision.id,
                owner=owner,
                kind=revision.kind,
                created_at=moment,
                undone_at=None,
                report=report,
                mark="",
            )
            if entry is None:
                raise DuplicateRecord(revision.id)
            new = self._writes.add(write, revision.added)
            rows = self._change(write, scope, planned)
            kept = [item for _, _, item in planned] + [added_item(e.memory) for e in revision.added]
            items: list[Row] = [
                (row, None, "", write_json(item, "item"))
                for row, item in zip((*rows, *new), kept, strict=True)
            ]
            items += self._relate(write, scope, revision.relations)
            names = JOURNAL_ITEMS.columns[1:]
            noted = [dict(zip(names, (entry, *item), strict=True)) for item in items]
            write.add_all(JOURNAL_ITEMS, noted)
            write.log("update", rows)
            _forget_old(write, owner, revision.kind)
            if revision.mark:
                _set_mark(write, entry, revision.mark)
            return len(items)

        return JournalEntry(
            id=revision.id,
            kind=revision.kind,
            created_at=from_microseconds(moment),
            report=json.loads(report),
            scope=scope,
            items=self._tables.write(change),
        )

    def undo(
        self, scope: Scope, journal_id: str, *, at: datetime, along: Collection[str] = ()
    ) -> Undone:
        """Put back what the run changed, except what somebody changed since.

        What it added goes with all its relations, and with what later runs of the kinds
        `along` let it stand for.
        """
        require_text(journal_id, "journal_id")
        moment = to_microseconds(at, "at")

        def take_back(write: W) -> Undone:
            run = _find(write, scope, journal_id, lock=True)
            if run[5] is not None:
                raise AlreadyUndone(journal_id)
            items = write.find(JOURNAL_ITEMS, {"entry": run[0]}, order="t.item")
            memories = {
                row: json.loads(data) for _, _, row, other, _, data in items if other is None
            }
            # Held from here on: who judges one of them now waits, and finds it gone.
            found = self._reads.by_rows(write, memories, lock=True)
            if along:
                self._let_go(write, scope, run, found, memories, along=along)
                found = self._reads.by_rows(write, memories, lock=True)
            gone, count, left = self._restore(write, scope, found, memories, at=at)
            relations, left_too = _unrelate(write, [item for item in items if item[3] is not None])
            _forget_relations(write, gone, along)
            _unset_mark(write, run[7])
            write.change(JOURNAL, run, undone_at=moment, mark="")
            write.remove(JOURNAL_ITEMS, {"entry": run[0]})
            return Undone(
                id=journal_id,
                restored=count,
                relations=relations,
                removed=len(gone),
                left=(*left, *left_too),
            )

        return self._tables.write(take_back)

    def get(self, scope: Scope, journal_id: str, /) -> JournalEntry:
        """The run with this id."""
        require_text(journal_id, "journal_id")
        return self._tables.read(lambda read: _entries(read, [_find(read, scope, journal_id)])[0])

    def recent(self, scope: Scope, *, limit: int = 20) -> tuple[JournalEntry, ...]:
        """The newest runs, newest first."""
        most = require_count(limit, "limit")
        return self._tables.read(
            lambda read: _entries(read, newest(read, JOURNAL, {"owner": scope}, limit=most))
        )

    # -- memories ---------------------------------------------------------------------

    def _change(
        self, write: W, scope: Scope, planned: Sequence[tuple[Memory, Memory, Item]]
    ) -> list[int]:
        edges = [
            (before.id, after.superseded_by)
            for before, after, item in planned
            if "superseded_by" in item.get("fields", ()) and after.superseded_by is not None
        ]
        newer = [one for _, one in edges]
        ids = [before.id for before, _, _ in planned]
        found = self._reads.by_ids(write, [*ids, *newer], lock=True)
        _require_live(found, newer, scope)
        for before, after, item in planned:
            one = found.get(before.id)
            if one is None or not visible(one.memory, scope):
                raise ChangedMeanwhile(before.id)
            self._write_fields(write, one, revised(one.memory, before, after, item))
        refuse_circles(write, edges)
        return [found[before.id].row for before, _, _ in planned]

    def _let_go(
        self,
        write: W,
        scope: Scope,
        run: Row,
        found: Mapping[int, Found],
        known: Mapping[int, Item],
        *,
        along: Collection[str],
    ) -> None:
        """Take back that what a run added stands for others, where later runs `along` said so."""
        added = {row: one for row, one in found.items() if ADDED in known[row]}
        ids = [one.memory.id for one in added.values()]
        replaced = self._reads.find_where(write, "m.superseded_by IN :ids", lock=True, ids=ids)
        touched = added | {one.row: one for one in replaced}
        later = write.find(
            JOURNAL_ITEMS,
            {"row": list(touched), "other": None},
            """t.entry > :run AND EXISTS (SELECT 1 FROM journal AS j
                WHERE [j] AND j.entry = t.entry AND j.kind IN :along)""",
            order="t.item DESC",
            run=run[0],
            along=list(along),
        )
        changed, done = plan_letting_go(
            {row: one.memory for row, one in touched.items()},
            known,
            [(item, row, json.loads(data)) for item, _, row, _, _, data in later],
            scope,
        )
        for row, new in changed.items():
            self._write_fields(write, touched[row], new)
        write.log("update", list(changed))
        write.remove(JOURNAL_ITEMS, {"item": done})

    def _restore(
        self,
        write: W,
        scope: Scope,
        found: Mapping[int, Found],
        known: Mapping[int, Item],
        *,
        at: datetime,
    ) -> tuple[list[int], int, list[str]]:
        gone, changed, left = plan_undo(
            {row: one.memory for row, one in found.items()}, known, scope
        )
        for row, new in changed.items():
            self._write_fields(write, found[row], new)
        write.log("update", list(changed))
        if gone:
            hide(self._writes, write, [found[row] for row in gone], at)
        return gone, len(changed), left

    def _write_fields(self, write: W, old: Found, new: Memory) -> None:
        """Store `new` in the place of `old`, which has the same text, owner and place."""
        self._writes.rewrite(write, old, new, relink=False)
        if new.usage != old.memory.usage:
            self._writes.set_usage(write, old.row, new.usage)

    # -- relations --------------------------------------------------------------------

    def _relate(self, write: W, scope: Scope, relations: Sequence[Relation]) -> list[Row]:
        ids = [i for r in relations for i in (r.link.first_id, r.link.second_id)]
        found = self._reads.by_ids(write, ids, lock=True)
        _require_live(found, ids, scope)
        items: list[Row] = []
        for relation in relations:
            link = relation.link
            first, second = found[link.first_id].row, found[link.second_id].row
            there = find_link(write, relation.family, (first, second), link.relation)
            what, item = plan_relation(relation, None if there is None else _state_of(there))
            if what == "add":
                values = link_values(link)
                write.add(LINKS, family=relation.family, first=first, second=second, **values)
            elif there is not None and what == "change":
                _set_state(write, there, link_state(link))
            if what != "keep":
                items.append((first, second, relation.family, item))
        return items


def _require_live(found: Mapping[str, Found], ids: Iterable[str], scope: Scope) -> None:
    """`ChangedMeanwhile` if one of these is gone: nothing new may point at it."""
    for memory_id in ids:
        one = found.get(memory_id)
        if one is None or one.memory.deleted_at is not None or not visible(one.memory, scope):
            raise ChangedMeanwhile(memory_id)


def _find(read: TableReader, scope: Scope, journal_id: str, *, lock: bool = False) -> Row:
    found = read.find(JOURNAL, {"id": journal_id, "owner": scope}, lock=lock)
    if not found:
        raise RecordNotFound(journal_id, what="run", seen_with="consolidate --log")
    return found[0]


def _entries(read: TableReader, runs: Sequence[Row]) -> tuple[JournalEntry, ...]:
    counts: dict[int, int] = dict(
        read.ask("entry, count(*)", JOURNAL_ITEMS, {"entry": [r[0] for r in runs]}, group="entry")
    )
    return tuple(
        JournalEntry(
            id=run_id,
            kind=kind,
            created_at=from_microseconds(created_at),
            undone_at=None if undone_at is None else from_microseconds(undone_at),
            report=json.loads(report),
            scope=read.owners([owner])[owner][1],
            items=counts.get(entry, 0),
        )
        for entry, run_id, owner, kind, created_at, undone_at, report, _ in runs
    )


def _state_of(row: Row) -> Any:
    settled = None if row[7] is None else from_microseconds(row[7]).isoformat()
    return [row[6], settled]


def _set_state(write: TableWriter, row: Row, state: Any) -> None:
    note, settled = state
    moment = None if settled is None else to_microseconds(datetime.fromisoformat(settled))
    write.change(LINKS, row, note=note, settled_at=moment)


def _unrelate(write: TableWriter, items: Sequence[Row]) -> tuple[int, list[str]]:
    count = 0
    left: list[str] = []
    for _, _, first, second, family, data in items:
        kept = json.loads(data)
        there = find_link(write, family, (first, second), kept["relation"])
        if there is None or digest(_state_of(there)) != kept["after"]:
            left.append(f"{family} {kept['relation']}")
            continue
        if kept["before"] is None:
            write.remove(LINKS, {"link": there[0]})
        else:
            _set_state(write, there, kept["before"])
        count += 1
    return count, left


def _forget_relations(write: TableWriter, rows: Sequence[int], along: Collection[str]) -> None:
    """Remove every relation of these rows, and what runs `along` noted of it."""
    if not rows:
        return
    write.remove(LINKS, ANY, "t.first IN :rows OR t.second IN :rows", rows=rows)
    if along:
        noted = """t.other IS NOT NULL AND (t.row IN :rows OR t.other IN :rows)
            AND EXISTS (SELECT 1 FROM journal AS j
                WHERE [j] AND j.entry = t.entry AND j.kind IN :along)"""
        write.remove(JOURNAL_ITEMS, ANY, noted, rows=rows, along=list(along))


def _set_mark(write: TableWriter, entry: int, name: str) -> None:
    before = get_value(write, name)
    now = str(write.seq())
    set_value(write, name, now)
    for run in write.find(JOURNAL, {"entry": entry}):
        write.change(JOURNAL, run, mark=json.dumps([name, before, now]))


def _unset_mark(write: TableWriter, written: str) -> None:
    if written:
        name, before, after = json.loads(written)
        if get_value(write, name) == after:
            set_value(write, name, before)


def _forget_old(write: TableWriter, owner: int, kind: str) -> None:
    # By kind: what is learned every turn must not push out last week's consolidation.
    runs = write.ask("entry", JOURNAL, {"owner": owner, "kind": kind}, order="entry DESC")
    old = [entry for (entry,) in runs[KEPT_RUNS:]]
    if old:
        write.remove(JOURNAL_ITEMS, {"entry": old})
        write.remove(JOURNAL, {"entry": old})
