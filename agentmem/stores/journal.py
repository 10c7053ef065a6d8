"""Revisions of a store: applied in one transaction, written down, and taken back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import (
    AlreadyUndone,
    ChangedMeanwhile,
    DuplicateRecord,
    InvalidInput,
    InvalidScope,
    RecordNotFound,
)
from agentmem.base.types import (
    EMPTY,
    Memory,
    Scope,
    Usage,
    memory_to_fields,
    require_instant,
    visible,
)
from agentmem.stores.side import find_link, get_value, link_values, newest, set_value
from agentmem.stores.tables import (
    ANY,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    Found,
    Row,
    TableReader,
    Tables,
    TableWriter,
)
from agentmem.stores.values import (
    NO_SCOPE,
    Entry,
    Link,
    check_entries,
    from_microseconds,
    memory_from_fields,
    to_microseconds,
    write_json,
)
from agentmem.stores.writing import hide, refuse_circles

# ----------------------------------------------------------------------------
# Many small changes as one step that can be taken back: what is kept of it, how it is undone.
#
# A revision adds memories, changes fields of those that are there, and relations
# between them; it removes no memory and touches no text. For every field it
# changes, the journal keeps what the field was, and a digest of what it became.
# Undoing puts back each field that still is what the revision made it, and
# leaves alone what somebody changed since; counts of use go back by what the
# revision added to them. What it added is deleted as `delete` does it, unless
# its words or its place among the values of a key were changed since; then what
# led up to it stays as well, so that a key keeps one value at a time.


Family = Literal["link", "contradiction"]
REVISED = (
    "summary", "compressed", "index", "importance", "valid_from", "valid_to", "supersedes",
    "superseded_by",
)  # fmt: skip
"""The fields a revision may change, beside metadata and usage."""
_COUNTS = ("retrieved", "cited", "ignored")
KEPT_RUNS = 100
"""Of one owner and kind; older ones can no longer be undone."""
ADDED = "added"
"""Where an item tells of a memory that was not there before."""
Item = dict[str, Any]
"""What the journal keeps of one memory or one relation, as JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A link or contradiction as it is to be; `replaces` is what stands there now, if anything."""

    family: Family
    link: Link
    replaces: Link | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Changes that are made together: memories as they were read and as they are to be.

    `added` are new memories, as they are once all is done. `mark` names a
    setting that gets the store's sequence number after the change. `report` is
    kept in the journal; it must hold no text of a memory.
    """

    id: str
    kind: str
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    added: tuple[Entry, ...] = ()
    relations: tuple[Relation, ...] = ()
    mark: str = ""
    report: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        for name in ("id", "kind", "mark"):
            require_text(getattr(self, name), name)
        if [m.id for m in self.before] != [m.id for m in self.after]:
            raise InvalidInput("after", len(self.after), "are not the memories of `before`")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A revision that was applied; `undone_at` when it was taken back."""

    id: str
    kind: str
    created_at: datetime
    report: Mapping[str, Any]
    scope: Scope = NO_SCOPE
    undone_at: datetime | None = None
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What taking a revision back did. `left` names what somebody changed since, and stays.

    `removed` counts the memories it had added, which are deleted now.
    """

    id: str
    restored: int
    relations: int
    removed: int = 0
    left: tuple[str, ...] = ()


def changed_fields(before: Memory, after: Memory) -> Item:
    """What the journal keeps of a memory that becomes `after`; empty when nothing differs."""
    kept: dict[str, Any] = {name: getattr(before, name) for name in REVISED}
    if replace(after, **kept, metadata=before.metadata, usage=before.usage) != before:
        raise InvalidInput(
            "after", after.id, "differs in a field that a revision cannot change",
            remedy=f"Change only {', '.join(REVISED)}, metadata and usage.",
        )  # fmt: skip
    old, new = memory_to_fields(before), memory_to_fields(after)
    item: Item = {}
    fields = {n: [old[n], digest(new[n])] for n in REVISED if old[n] != new[n]}
    if fields:
        item["fields"] = fields
    had, has = old["metadata"], new["metadata"]
    keys = {
        key: [key in had, had.get(key), _digest_of(has, key)]
        for key in sorted({*had, *has})
        if _digest_of(had, key) != _digest_of(has, key)
    }
    if keys:
        item["metadata"] = keys
    if before.usage != after.usage:
        item["usage"] = [old["usage"], new["usage"]]
    return item


def revised(current: Memory, before: Memory, after: Memory, item: Item) -> Memory:
    """`current` with the changes from `before` to `after`.

    `ChangedMeanwhile` when a field to be changed is not what it was in
    `before`. Use that was counted meanwhile is kept.
    """
    now = memory_to_fields(current)
    old = memory_to_fields(before)
    same = all(now[name] == old[name] for name in item.get("fields", ())) and all(
        _digest_of(now["metadata"], key) == _digest_of(old["metadata"], key)
        for key in item.get("metadata", ())
    )
    if not same or current.deleted_at != before.deleted_at:
        raise ChangedMeanwhile(current.id)
    metadata = dict(current.metadata)
    for key in item.get("metadata", ()):
        metadata.pop(key, None)
        if key in after.metadata:
            metadata[key] = after.metadata[key]
    changes: dict[str, Any] = {name: getattr(after, name) for name in item.get("fields", ())}
    if "metadata" in item:
        changes["metadata"] = metadata
    if "usage" in item:
        changes["usage"] = _moved(current.usage, before.usage, after.usage)
    return replace(current, **changes)


def restored(current: Memory, item: Item) -> tuple[Memory, tuple[str, ...]]:
    """`current` as it was before the revision, and the names of what somebody changed since."""
    now = memory_to_fields(current)
    left: list[str] = []
    fields: dict[str, Any] = {}
    for name, (before, after) in item.get("fields", {}).items():
        if digest(now[name]) == after:
            fields[name] = before
        else:
            left.append(name)
    metadata = dict(now["metadata"])
    for key, (had, before, after) in item.get("metadata", {}).items():
        if _digest_of(now["metadata"], key) != after:
            left.append(f"metadata.{key}")
            continue
        metadata.pop(key, None)
        if had:
            metadata[key] = before
    made = memory_from_fields({**now, **fields, "metadata": metadata})
    if "usage" in item:
        before, after = (_usage(written) for written in item["usage"])
        made = replace(made, usage=_moved(current.usage, after, before))
    return made, tuple(left)


def added_item(memory: Memory) -> Item:
    """What the journal keeps of a memory that a revision added; none of its words."""
    return {ADDED: digest(_standing(memory))}


def is_as_added(memory: Memory, item: Item) -> bool:
    """Whether an added memory still says what it said, in the place where it was put."""
    return bool(digest(_standing(memory)) == item[ADDED])


def plan_undo(
    found: Mapping[int, Memory], known: Mapping[int, Item], scope: Scope
) -> tuple[list[int], dict[int, Memory], list[str]]:
    """How memories, by row, become what they were before the items of a revision.

    Gives the rows to delete, the rows to write, and what stays.
    """
    added = {r: m for r, m in found.items() if ADDED in known[r] and m.deleted_at is None}
    gone = [r for r, m in added.items() if visible(m, scope) and is_as_added(m, known[r])]
    kept = frozenset(m.id for r, m in added.items() if r not in gone)
    left = sorted(kept)
    changed: dict[int, Memory] = {}
    for row, memory in found.items():
        if ADDED in known[row]:
            continue
        beside = memory.superseded_by in kept or memory.supersedes in kept
        if beside or not visible(memory, scope):
            left.append(memory.id)
            continue
        new, since = restored(memory, known[row])
        left += [f"{memory.id} {name}" for name in since]
        if new != memory:
            changed[row] = new
    return gone, changed, left


def plan_letting_go(
    found: Mapping[int, Memory],
    known: Mapping[int, Item],
    said: Sequence[tuple[int, int, Item]],
    scope: Scope,
) -> tuple[dict[int, Memory], list[int]]:
    """How memories that were added stop standing for others, by what later runs noted of both.

    `said` is what they noted of rows, the latest first, each with its number; gives the rows that
    change and the numbers of what was taken back. What was changed otherwise stays as it is.
    """
    changed: dict[int, Memory] = {}
    done: list[int] = []
    for row, memory in found.items():
        if ADDED not in known.get(row, {}) or not visible(memory, scope):
            continue
        own = [(n, i) for n, at, i in said if at == row and _says_only(i, "supersedes")]
        was = memory
        for _, item in own:
            was = restored(was, item)[0]
        if memory.deleted_at is not None or not is_as_added(was, known[row]):
            continue
        done += [number for number, _ in own]
        if was != memory:
            changed[row] = was
        for number, at, item in said:
            after = item.get("fields", {}).get("superseded_by", (None, None))[1]
            if after == digest(memory.id) and visible(found[at], scope):
                changed[at] = restored(changed.get(at, found[at]), item)[0]
                done.append(number)
    return changed, done


def _says_only(item: Item, field: str) -> bool:
    return set(item) == {"fields"} and set(item["fields"]) == {field}


def _standing(memory: Memory) -> list[str | None]:
    return [memory.text, memory.supersedes, memory.superseded_by]


def digest(value: Any) -> str:
    """A short name for a JSON value that tells it from others without saying it."""
    written = write_json(value, "value") if isinstance(value, dict | list) else repr(value)
    return hashlib.blake2b(written.encode("utf-8"), digest_size=12).hexdigest()


def link_state(link: Link | None) -> Any:
    """What of a relation can change, as JSON values."""
    if link is None:
        return None
    settled = None if link.settled_at is None else link.settled_at.isoformat()
    return [link.note, settled]


def _digest_of(metadata: Mapping[str, Any], key: str) -> str | None:
    return digest([metadata[key]]) if key in metadata else None


def _moved(current: Usage, start: Usage, end: Usage) -> Usage:
    """`current` with what lies between `start` and `end` added; never below zero."""
    counts = {
        name: max(0, getattr(current, name) + getattr(end, name) - getattr(start, name))
        for name in _COUNTS
    }
    unused_since = current.last_used_at == start.last_used_at
    last = end.last_used_at if unused_since else current.last_used_at
    return Usage(**counts, last_used_at=last)


def _usage(written: Mapping[str, Any]) -> Usage:
    last = written["last_used_at"]
    return Usage(
        **{name: written[name] for name in _COUNTS},
        last_used_at=None if last is None else datetime.fromisoformat(last),
    )


# ----------------------------------------------------------------------------
# What is kept of it in a store.


class StoredJournal:
    """Many small changes at once, each step of which can be taken back."""

    def __init__(self, tables: Tables[TableReader]) -> None:
        self._tables = tables

    def apply(self, scope: Scope, revision: Revision, *, at: datetime) -> JournalEntry:
        """Make all the changes, or none when a memory is no longer what was planned for."""
        require_instant(at, "at")
        if not revision.id:
            raise InvalidInput("id", revision.id, "is empty", remedy="Give the revision an id.")
        check_entries(revision.added)
        for entry in revision.added:
            if not visible(entry.memory, scope):
                raise InvalidScope(
                    "added", entry.memory.scope, "is not the scope of the revision",
                    remedy="Add memories that their writer may see.",
                )  # fmt: skip
        moment = to_microseconds(at, "at")
        report = write_json(revision.report, "report")
        planned = [
            (before, after, item)
            for before, after in zip(revision.before, revision.after, strict=True)
            if (item := changed_fields(before, after))
        ]

        def change(write: TableWriter) -> int:
            owner = write.owner_number(("private", scope))
            run = write.add(
                JOURNAL,
                id=revision.id,
                owner=owner,
                kind=revision.kind,
                created_at=moment,
                undone_at=None,
                report=report,
                mark="",
            )
            if run is None:
                raise DuplicateRecord(revision.id)
            new = write.add_memories(revision.added)
            rows = self._change(write, scope, planned)
            kept = [item for _, _, item in planned] + [added_item(e.memory) for e in revision.added]
            items: list[Row] = [
                (row, None, "", write_json(item, "item"))
                for row, item in zip((*rows, *new), kept, strict=True)
            ]
            items += self._relate(write, scope, revision.relations)
            names = JOURNAL_ITEMS.columns[1:]
            write.add_all(JOURNAL_ITEMS, [dict(zip(names, (run, *i), strict=True)) for i in items])
            write.log("update", rows)
            _forget_old(write, owner, revision.kind)
            if revision.mark:
                _set_mark(write, run, revision.mark)
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

        def take_back(write: TableWriter) -> Undone:
            run = _find(write, scope, journal_id, lock=True)
            if run[5] is not None:
                raise AlreadyUndone(journal_id)
            items = write.find(JOURNAL_ITEMS, {"entry": run[0]}, order="t.item")
            memories = {
                row: json.loads(data) for _, _, row, other, _, data in items if other is None
            }
            # Held from here on: who judges one of them now waits, and finds it gone.
            found = write.by_rows(memories, lock=True)
            if along:
                self._let_go(write, scope, run, found, memories, along=along)
                found = write.by_rows(memories, lock=True)
            was = {row: one.memory for row, one in found.items()}
            gone, changed, left = plan_undo(was, memories, scope)
            for row, new in changed.items():
                write.rewrite(found[row], new, relink=False)
            write.log("update", list(changed))
            if gone:
                hide(write, [found[row] for row in gone], at)
            relations, left_too = _unrelate(write, [item for item in items if item[3] is not None])
            _forget_relations(write, gone, along)
            _unset_mark(write, run[7])
            write.change(JOURNAL, run, undone_at=moment, mark="")
            write.remove(JOURNAL_ITEMS, {"entry": run[0]})
            return Undone(
                id=journal_id,
                restored=len(changed),
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
        self, write: TableWriter, scope: Scope, planned: Sequence[tuple[Memory, Memory, Item]]
    ) -> list[int]:
        edges = [
            (before.id, after.superseded_by)
            for before, after, item in planned
            if "superseded_by" in item.get("fields", ()) and after.superseded_by is not None
        ]
        newer = [one for _, one in edges]
        ids = [before.id for before, _, _ in planned]
        found = write.by_ids([*ids, *newer], lock=True)
        _require_live(found, newer, scope)
        for before, after, item in planned:
            one = found.get(before.id)
            if one is None or not visible(one.memory, scope):
                raise ChangedMeanwhile(before.id)
            write.rewrite(one, revised(one.memory, before, after, item), relink=False)
        refuse_circles(write, edges)
        return [found[before.id].row for before, _, _ in planned]

    def _let_go(
        self,
        write: TableWriter,
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
        replaced = write.find_where("m.superseded_by IN :ids", lock=True, ids=ids)
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
            write.rewrite(touched[row], new, relink=False)
        write.log("update", list(changed))
        write.remove(JOURNAL_ITEMS, {"item": done})

    # -- relations --------------------------------------------------------------------

    def _relate(self, write: TableWriter, scope: Scope, relations: Sequence[Relation]) -> list[Row]:
        ids = [i for r in relations for i in (r.link.first_id, r.link.second_id)]
        found = write.by_ids(ids, lock=True)
        _require_live(found, ids, scope)
        items: list[Row] = []
        for relation in relations:
            link = relation.link
            first, second = found[link.first_id].row, found[link.second_id].row
            there = find_link(write, relation.family, (first, second), link.relation)
            before, after = link_state(relation.replaces), link_state(link)
            if before is not None:
                if there is None or _state_of(there) != before:
                    raise ChangedMeanwhile(link.first_id)
                _set_state(write, there, after)
            elif there is None:
                values = link_values(link)
                write.add(LINKS, family=relation.family, first=first, second=second, **values)
            else:
                continue  # somebody else found it too
            item = {"relation": link.relation, "before": before, "after": digest(after)}
            items.append((first, second, relation.family, write_json(item, "item")))
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
