"""Run a consolidation against a store: read, plan, apply in one step that can be undone.

read what the reader sees ─▶ pairs that are alike ─▶ core plans ─▶ one transaction + journal
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from agentmem.core.filters import Selection
from agentmem.core.living.consolidation import plan_consolidation
from agentmem.core.living.plans import (
    AddLink,
    ConsolidationPlan,
    ConsolidationSettings,
    LivingState,
    OpenContradiction,
    Pair,
    SimilarPair,
    apply_plan,
    pair_of,
)
from agentmem.core.marks import COLD_AT, FORGOTTEN_AT
from agentmem.core.values import dataclass
from agentmem.errors import ChangedMeanwhile, InvalidInput
from agentmem.living.co_citing import co_cited
from agentmem.living.contradictions import opened
from agentmem.living.model_help import Model, ModelHelp, Spend
from agentmem.living.reports import ConsolidationReport, report_of
from agentmem.living.similar import find_similar
from agentmem.stores.revisions import JournalEntry, Relation, Revision, Undone
from agentmem.stores.values import Link
from agentmem.telemetry import span
from agentmem.tokenizer import tokenizer_for
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

_log = logging.getLogger(__name__)

KIND = "consolidate"
COUNTED_FOR = "gpt-4o"
"""Whose tokens are counted to know what a level saves."""
RELATED = "related"
"""The relation of links that consolidation discovers."""
TRIES = 3
MARKS = frozenset({FORGOTTEN_AT, COLD_AT, "forgotten_because"})
CONTRADICTION_SIMILARITY = 0.75
"""Pairs at least so alike are looked at for contradictions, though not merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What a run looks at: memories by row, what is known of them, and which are new to it."""

    rows: Mapping[int, Memory]
    state: LivingState
    changed: frozenset[int] | None
    seq: int


class Consolidator:
    """Plans and applies consolidations of one memory."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def run(
        self,
        scope: Scope,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
    ) -> ConsolidationReport:
        """Consolidate what `scope` sees.

        Only what changed since the last run with these settings is compared
        again, unless `full`. When somebody else writes meanwhile, it is
        planned anew. A dry run asks no model.
        """
        chosen = settings or ConsolidationSettings()
        if not isinstance(chosen, ConsolidationSettings):
            raise InvalidInput("settings", chosen, "are no ConsolidationSettings")
        began = time.perf_counter()
        for attempt in range(TRIES):
            try:
                help_ = None
                if model is not None and not dry_run:
                    help_ = ModelHelp(
                        model,
                        spend=spend or Spend(),
                        count=tokenizer_for(COUNTED_FOR),
                        kept=self._memory.store.settings,
                    )
                with span(
                    "update_memory", store_id=self._memory.telemetry_id, step=KIND, dry_run=dry_run
                ) as told:
                    report = self._once(scope, chosen, dry_run=dry_run, full=full, help_=help_)
                    told.found(len(report.operations))
            except ChangedMeanwhile as error:
                if attempt == TRIES - 1:
                    raise
                _log.info("Planning the consolidation again: %s", error)
            else:
                return replace(report, duration_seconds=round(time.perf_counter() - began, 3))
        raise AssertionError("unreachable")

    def undo(self, scope: Scope, journal_id: str) -> Undone:
        """Take a run back; what somebody changed since stays as it is."""
        return self._memory.store.journal.undo(scope, journal_id, at=self._memory.clock.now())

    def _once(
        self,
        scope: Scope,
        settings: ConsolidationSettings,
        *,
        dry_run: bool,
        full: bool,
        help_: ModelHelp | None = None,
    ) -> ConsolidationReport:
        memory, now = self._memory, self._memory.clock.now()
        mark = mark_of(scope, settings)
        loaded = self._load(scope, mark, full=full)
        notes: tuple[str, ...] = ()
        if not _is_used(loaded.state.memories):
            settings = replace(settings, forget_unused=False, cool_unused=False)
            notes = ("use was never counted, so nothing is forgotten for not being used",)
        plan, similar = self._plan(loaded, settings, now)
        if help_ is not None:
            plan = help_.improve(plan, loaded.state, similar=similar, settings=settings, now=now)
            notes += tuple(help_.asker.notes)
        looked = loaded.rows if loaded.changed is None else loaded.changed
        report = report_of(plan, memories=len(loaded.rows), looked_at=len(looked), dry_run=dry_run)
        report = replace(report, notes=notes)
        if help_ is not None:
            asker = help_.asker
            report = replace(report, model_calls=asker.calls, model_tokens=asker.tokens)
        if dry_run:
            return report
        if plan.empty:
            if loaded.rows and memory.store.settings.get(mark) != str(loaded.seq):
                memory.store.settings.set(mark, str(loaded.seq))
            return report
        revision = revision_of(
            plan,
            loaded.state,
            revision_id=memory.ids.new(),
            now=now,
            mark=mark,
        )
        entry = memory.store.journal.apply(scope, revision, at=now)
        return replace(report, journal_id=entry.id)

    def _load(self, scope: Scope, mark: str, *, full: bool) -> Loaded:
        store = self._memory.store
        seq = store.feed.seq()
        changed = None if full else _changed_since(self._memory, mark)
        selection = Selection(reader=scope, superseded=True, forgotten=True)
        rows = {
            row: one
            for row, one in read_rows(self._memory, scope, selection).items()
            if one.visibility != "system"
            or one.scope == scope  # everybody's are not ours to change
        }
        links = store.links.all(scope)
        known = store.contradictions.all(scope)
        state = LivingState(
            memories=tuple(rows.values()),
            links=frozenset(
                pair_of(link.first_id, link.second_id) for link in links if link.relation == RELATED
            ),
            contested=frozenset(_pair(link) for link in known if link.settled_at is None),
            settled=frozenset(_pair(link) for link in known if link.settled_at is not None),
            co_cited=co_cited(links),
        )
        touched = None if changed is None else frozenset(changed & rows.keys())
        return Loaded(rows=rows, state=state, changed=touched, seq=seq)

    def _plan(
        self, loaded: Loaded, settings: ConsolidationSettings, now: datetime
    ) -> tuple[ConsolidationPlan, tuple[SimilarPair, ...]]:
        similar = find_similar(
            self._memory,
            loaded.rows,
            changed=loaded.changed,
            least=settings.merge_similarity,
            related=CONTRADICTION_SIMILARITY,
            related_kinds=settings.contradiction_kinds,
        )
        changed = loaded.changed
        plan = plan_consolidation(
            loaded.state,
            now=now,
            count=tokenizer_for(COUNTED_FOR),
            similar=similar,
            settings=settings,
            changed=None if changed is None else frozenset(loaded.rows[r].id for r in changed),
        )
        return plan, similar


def revision_of(
    plan: ConsolidationPlan,
    state: LivingState,
    *,
    revision_id: str,
    now: datetime,
    mark: str = "",
    kind: str = KIND,
) -> Revision:
    """What a store has to write for a plan: the difference between the two states."""
    after = apply_plan(state, plan, now=now)
    pairs = [
        (old, new)
        for old, new in zip(state.memories, after.memories, strict=True)
        if old is not new and old != new
    ]
    relations: list[Relation] = []
    for operation in plan.operations:
        if isinstance(operation, AddLink):
            first, second = pair_of(operation.first, operation.second)
            note = json.dumps({"reason": operation.reason, "weight": operation.weight})
            link = Link(
                first_id=first, second_id=second, relation=RELATED, created_at=now, note=note
            )
            relations.append(Relation(family="link", link=link))
        elif isinstance(operation, OpenContradiction):
            link = opened(operation.first, operation.second, operation.verdict, at=now)
            relations.append(Relation(family="contradiction", link=link))
    return Revision(
        id=revision_id,
        kind=kind,
        before=tuple(old for old, _ in pairs),
        after=tuple(new for _, new in pairs),
        relations=tuple(relations),
        mark=mark,
        report=plan.counts(),
    )


def bring_back(memory: MemoryManager, scope: Scope, ids: Sequence[str]) -> JournalEntry:
    """Take the marks of forgetting and of cold from memories."""
    before = [memory.store.get(scope, one) for one in ids]
    after = [
        replace(one, metadata={k: v for k, v in one.metadata.items() if k not in MARKS})
        for one in before
    ]
    revision = Revision(
        id=memory.ids.new(),
        kind="bring back",
        before=tuple(before),
        after=tuple(after),
        report={"memories": len(before)},
    )
    return memory.store.journal.apply(scope, revision, at=memory.clock.now())


def read_rows(memory: MemoryManager, scope: Scope, selection: Selection) -> dict[int, Memory]:
    """The selected memories by row, oldest row first."""
    wanted = memory.store.select_rows(selection).tolist()
    found: dict[int, Memory] = {}
    for start in range(0, len(wanted), 1_000):
        part = wanted[start : start + 1_000]
        there = memory.store.get_rows(scope, part)
        found.update((row, there[row]) for row in part if row in there)
    return found


def mark_of(scope: Scope, settings: ConsolidationSettings) -> str:
    """The setting that keeps how far the runs of this reader have looked; names nobody."""
    written = ascii((scope, settings)).encode("ascii")
    return f"consolidated {hashlib.blake2b(written, digest_size=12).hexdigest()}"


def _is_used(memories: Iterable[Memory]) -> bool:
    """Whether use is counted here at all: who searches without a loop counts none."""
    return any(one.usage.retrieved or one.usage.cited or one.usage.ignored for one in memories)


def _changed_since(memory: MemoryManager, mark: str) -> set[int] | None:
    seen = memory.store.settings.get(mark)
    if seen is None:
        return None
    changes = memory.store.feed.changes(int(seen))
    if not changes.complete:
        return None
    return {row for change in changes.items for row in range(change.first, change.last + 1)}


def _pair(link: Link) -> Pair:
    return pair_of(link.first_id, link.second_id)
