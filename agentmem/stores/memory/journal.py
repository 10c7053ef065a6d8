"""Revisions over dictionaries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from agentmem.core.checks import require_count, require_text
from agentmem.core.scope import visible
from agentmem.errors import AlreadyUndone, ChangedMeanwhile, DuplicateRecord, RecordNotFound
from agentmem.stores.entries import write_json
from agentmem.stores.memory.adding import add, check_new, hide, rows_to_be
from agentmem.stores.memory.state import (
    Journaled,
    JournalItem,
    State,
    may_see,
    newer_than,
    normalised,
)
from agentmem.stores.revisions import (
    ADDED,
    JournalEntry,
    Relation,
    Revision,
    Undone,
    added_item,
    changed_fields,
    digest,
    is_as_added,
    leads_to,
    link_state,
    require_revision,
    restored,
    revised,
)
from agentmem.stores.rules import refuse_cycles, supersession_edges
from agentmem.stores.values import Link
from agentmem.types import Memory, Scope, require_instant


class MemoryJournal:
    """`Journal` over dictionaries."""

    def __init__(self, state: State) -> None:
        self._state = state

    def apply(self, scope: Scope, revision: Revision, *, at: datetime) -> JournalEntry:
        require_revision(scope, revision, at)
        report = json.loads(write_json(revision.report, "report"))
        with self._state as state:
            if revision.id in state.journal:
                raise DuplicateRecord(revision.id)
            check_new(state, revision.added)
            new = rows_to_be(state, revision.added)
            changes, items = self._planned(state, scope, revision)
            links, more = self._related(state, scope, revision.relations, new)
            items += [
                JournalItem(rows=(new[entry.memory.id],), data=added_item(entry.memory))
                for entry in revision.added
            ]
            if revision.added:
                add(state, revision.added)
            for row, memory in changes.items():
                state.entries[row] = replace(state.entries[row], memory=memory)
            state.links |= links
            state.log("update", changes)
            mark = None
            if revision.mark:
                now = str(len(state.changes))
                mark = (revision.mark, state.settings.get(revision.mark), now)
                state.settings[revision.mark] = now
            entry = JournalEntry(
                id=revision.id, kind=revision.kind, created_at=at, report=report, scope=scope,
                items=len(items) + len(more),
            )  # fmt: skip
            state.journal[entry.id] = Journaled(entry=entry, items=[*items, *more], mark=mark)
            return entry

    def undo(self, scope: Scope, journal_id: str, *, at: datetime) -> Undone:
        require_instant(at, "at")
        with self._state as state:
            known = self._find(state, scope, journal_id)
            if known.entry.undone_at is not None:
                raise AlreadyUndone(journal_id)
            touched: list[int] = []
            gone, left = self._added(state, scope, known.items)
            kept = frozenset(left)
            relations = 0
            for item in known.items:
                if ADDED in item.data:
                    continue
                if item.key is None:
                    left += self._restore(state, scope, item, touched, kept)
                elif self._unrelate(state, item):
                    relations += 1
                else:
                    left.append(f"{item.key[0]} {item.key[3]}")
            state.log("update", touched)
            if gone:
                hide(state, gone, at)
            if known.mark is not None:
                name, before, after = known.mark
                if state.settings.get(name) == after:
                    if before is None:
                        del state.settings[name]
                    else:
                        state.settings[name] = before
            known.entry = replace(known.entry, undone_at=at, items=0)
            known.items = []
            return Undone(
                id=journal_id,
                restored=len(touched),
                relations=relations,
                removed=len(gone),
                left=tuple(left),
            )

    def get(self, scope: Scope, journal_id: str, /) -> JournalEntry:
        with self._state as state:
            return self._shown(self._find(state, scope, journal_id))

    def recent(self, scope: Scope, *, limit: int = 20) -> tuple[JournalEntry, ...]:
        require_count(limit, "limit")
        with self._state as state:
            seen = [k for k in state.journal.values() if may_see("private", k.entry.scope, scope)]
            seen.sort(key=lambda known: known.entry.created_at)
            return tuple(self._shown(known) for known in seen[::-1][:limit])

    @staticmethod
    def _shown(known: Journaled) -> JournalEntry:
        return replace(known.entry, items=len(known.items))

    @staticmethod
    def _find(state: State, scope: Scope, journal_id: str) -> Journaled:
        known = state.journal.get(require_text(journal_id, "journal_id"))
        if known is None or not may_see("private", known.entry.scope, scope):
            raise RecordNotFound(journal_id, what="run", seen_with="consolidate --log")
        return known

    @staticmethod
    def _planned(
        state: State, scope: Scope, revision: Revision
    ) -> tuple[dict[int, Memory], list[JournalItem]]:
        changes: dict[int, Memory] = {}
        items: list[JournalItem] = []
        edges = [edge for one in revision.added for edge in supersession_edges(one.memory)]
        for before, after in zip(revision.before, revision.after, strict=True):
            data = changed_fields(before, after)
            if not data:
                continue
            row = state.row_of.get(before.id)
            if row is None or not visible(state.entries[row].memory, scope):
                raise ChangedMeanwhile(before.id)
            memory = revised(state.entries[row].memory, before, after, data)
            changes[row] = normalised(memory)
            if "superseded_by" in data.get("fields", ()) and after.superseded_by is not None:
                edges.append((before.id, after.superseded_by))
            items.append(JournalItem(rows=(row,), data=json.loads(write_json(data, "item"))))
        refuse_cycles(edges, lambda memory_id: newer_than(state, memory_id))
        return changes, items

    @staticmethod
    def _related(
        state: State, scope: Scope, relations: Sequence[Relation], new: Mapping[str, int]
    ) -> tuple[dict[Any, Link], list[JournalItem]]:
        links: dict[Any, Link] = {}
        items: list[JournalItem] = []
        for relation in relations:
            link = relation.link
            require_text(link.relation, "relation")
            require_text(link.note, "note")
            rows = []
            for memory_id in (link.first_id, link.second_id):
                row = new.get(memory_id, state.row_of.get(memory_id))
                seen = memory_id in new or (
                    row is not None and visible(state.entries[row].memory, scope)
                )
                if row is None or not seen:
                    raise ChangedMeanwhile(memory_id)
                rows.append(row)
            key = (str(relation.family), rows[0], rows[1], link.relation)
            there = links.get(key, state.links.get(key))
            if there is not None and relation.replaces is None:
                continue
            if relation.replaces is not None and (
                there is None or link_state(there) != link_state(relation.replaces)
            ):
                raise ChangedMeanwhile(link.first_id)
            links[key] = link
            kept = {"before": link_state(relation.replaces), "after": digest(link_state(link))}
            items.append(JournalItem(rows=tuple(rows), data=kept, key=key))
        return links, items

    @staticmethod
    def _added(
        state: State, scope: Scope, items: Sequence[JournalItem]
    ) -> tuple[list[int], list[str]]:
        """The rows that were added and can go, and the ids of those that were changed since."""
        gone: list[int] = []
        left: list[str] = []
        for item in items:
            if ADDED not in item.data:
                continue
            (row,) = item.rows
            memory = state.entries[row].memory
            if memory.deleted_at is not None:
                continue
            if visible(memory, scope) and is_as_added(memory, item.data):
                gone.append(row)
            else:
                left.append(memory.id)
        return gone, left

    @staticmethod
    def _restore(
        state: State,
        scope: Scope,
        item: JournalItem,
        touched: list[int],
        kept: frozenset[str],
    ) -> list[str]:
        (row,) = item.rows
        memory = state.entries[row].memory
        if not visible(memory, scope) or leads_to(memory, kept):
            return [memory.id]
        new, left = restored(memory, item.data)
        if new != memory:
            state.entries[row] = replace(state.entries[row], memory=normalised(new))
            touched.append(row)
        return [f"{memory.id} {name}" for name in left]

    @staticmethod
    def _unrelate(state: State, item: JournalItem) -> bool:
        assert item.key is not None  # noqa: S101 - relations have one
        there = state.links.get(item.key)
        if there is None or digest(link_state(there)) != item.data["after"]:
            return False
        if item.data["before"] is None:
            del state.links[item.key]
        else:
            note, settled = item.data["before"]
            at = None if settled is None else datetime.fromisoformat(settled)
            state.links[item.key] = replace(there, note=note, settled_at=at)
        return True
