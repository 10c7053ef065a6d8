"""Find contradictions of new memories in the background, show them, and resolve them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from agentmem.core.checks import require_choice, require_text
from agentmem.core.filters import Compare, Selection
from agentmem.core.living.plans import (
    ConsolidationPlan,
    ConsolidationSettings,
    LivingState,
    SimilarPair,
    is_active,
    pair_of,
)
from agentmem.core.living.settling import plan_contradictions, settle_as_one, settle_for
from agentmem.core.living.stating import JUDGED_KINDS, may_state, stated_text
from agentmem.core.living.timelines import key_of
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, RecordNotFound
from agentmem.living.consolidating import revision_of
from agentmem.living.contradictions import (
    Contradiction,
    Resolution,
    contradiction_id,
    read_contradiction,
    settled,
)
from agentmem.living.learning import LEARNED_FROM
from agentmem.searches import Request
from agentmem.stores.revisions import Relation, Revision
from agentmem.stores.values import Link
from agentmem.telemetry import span
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

JUDGE = "judge"
RESOLVE = "resolve"
CANDIDATES = 8
"""So many memories that a search finds are compared with a new one."""
MOST_LOOKED_AT = 5_000
"""So many new rows, of whoever, are looked through for those of a reader."""
AT_ONCE = 200
"""Of more new memories the newest are judged at once; consolidation looks at all."""
LEAST_OF_AN_ID = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A contradiction that was resolved, and what `undo` takes to open it again."""

    contradiction: Contradiction
    journal_id: str


class Settler:
    """Contradictions of one memory."""

    def __init__(
        self, memory: MemoryManager, *, settings: ConsolidationSettings | None = None
    ) -> None:
        self._memory = memory
        self._settings = settings or ConsolidationSettings(contradiction_kinds=JUDGED_KINDS)

    # -- what is known -----------------------------------------------------------------

    def all(self, scope: Scope, *, open_only: bool = True) -> tuple[Contradiction, ...]:
        """The contradictions whose both sides this reader sees, oldest first."""
        links = self._memory.store.contradictions.all(scope, open_only=open_only)
        ids = [i for link in links for i in (link.first_id, link.second_id)]
        known = {one.id: one for one in self._memory.store.get_many(scope, ids)}
        found = (read_contradiction(link, known) for link in links)
        return tuple(
            one for one in found if one is not None and (not open_only or self._matters(one))
        )

    @staticmethod
    def _matters(one: Contradiction) -> bool:
        """Whether both sides still hold: what was superseded since contradicts nobody."""
        return is_active(one.a) and is_active(one.b)

    def get(self, scope: Scope, contradiction: str) -> Contradiction:
        """The contradiction with this id, or with an id that begins so."""
        link = self._link(scope, contradiction)
        ids = [link.first_id, link.second_id]
        known = {one.id: one for one in self._memory.store.get_many(scope, ids)}
        found = read_contradiction(link, known)
        if found is None:
            raise RecordNotFound(
                contradiction, what="contradiction", seen_with="contradictions list"
            )
        return found

    def resolve(
        self, scope: Scope, contradiction: str, resolution: Resolution, *, note: str = ""
    ) -> Resolved:
        """Say which side holds; the other one is superseded. `undo` takes it back."""
        require_choice(resolution, get_args(Resolution), "resolution")
        require_text(note, "note")
        known = self.get(scope, contradiction)
        link = self._link(scope, contradiction)
        if link.settled_at is not None:
            raise InvalidInput(
                "contradiction", contradiction, f"is resolved already ({known.state})",
                remedy="Undo that resolution first.",
            )  # fmt: skip
        now = self._memory.clock.now()
        revision = Revision(
            id=self._memory.ids.new(),
            kind=RESOLVE,
            **_sides(known, resolution),
            relations=(
                Relation(
                    family="contradiction",
                    link=settled(link, resolution, at=now, note=note),
                    replaces=link,
                ),
            ),
            report={"contradiction": known.id, "resolution": resolution},
        )
        with span("update_memory", store_id=self._memory.telemetry_id, step=RESOLVE):
            entry = self._memory.store.journal.apply(scope, revision, at=now)
        return Resolved(contradiction=self.get(scope, known.id), journal_id=entry.id)

    def _link(self, scope: Scope, given: str) -> Link:
        require_text(given, "contradiction")
        links = [
            link
            for link in self._memory.store.contradictions.all(scope)
            if contradiction_id(link.first_id, link.second_id).startswith(given.strip())
        ]
        if not links or len(given.strip()) < LEAST_OF_AN_ID:
            raise RecordNotFound(given, what="contradiction", seen_with="contradictions list")
        if len({_pair(link) for link in links}) > 1:
            raise InvalidInput(
                "contradiction", given, "could be several", remedy="Give more of its id."
            )
        return next((link for link in links if link.settled_at is None), links[-1])

    # -- what is new ---------------------------------------------------------------------

    def judge_new(self, scope: Scope) -> ConsolidationPlan:
        """Compare what came since the last time with what it may contradict; gives what was done.

        It may be called again and again: only new memories are looked at.
        """
        store = self._memory.store
        mark = mark_of(scope)
        seen = store.settings.get(mark)
        now_at = store.feed.seq()
        changes = store.feed.changes(int(seen or 0))
        rows = {
            row
            for change in changes.items
            if change.operation in ("put", "update")
            for row in range(max(change.first, change.last - MOST_LOOKED_AT), change.last + 1)
        }
        plan = self.judge(scope, self._new_ones(scope, sorted(rows, reverse=True)))
        if seen != str(now_at):
            store.settings.set(mark, str(now_at))
        return plan

    def _new_ones(self, scope: Scope, rows: Sequence[int]) -> list[Memory]:
        """Of the newest of these rows that this reader sees, those that state something."""
        found: list[Memory] = []
        for start in range(0, min(len(rows), MOST_LOOKED_AT), AT_ONCE):
            seen = self._memory.store.get_rows(scope, rows[start : start + AT_ONCE])
            found += (seen[row] for row in sorted(seen, reverse=True) if may_state(seen[row]))
            if len(found) >= AT_ONCE:
                break
        return [one for one in found[:AT_ONCE] if self._states(one)]

    def judge(self, scope: Scope, new: Sequence[Memory]) -> ConsolidationPlan:
        """Compare these memories with what they may contradict, and write down what was found."""
        if not new:
            return ConsolidationPlan()
        rows: dict[str, Memory] = {one.id: one for one in new}
        similar: list[SimilarPair] = []
        for one in new:
            for other, alike in self._candidates(scope, one):
                rows.setdefault(other.id, other)
                if other.id != one.id:
                    similar.append(SimilarPair(first=one.id, second=other.id, similarity=alike))
        links = self._memory.store.contradictions.among(scope, rows)
        state = LivingState(
            memories=tuple(rows[name] for name in sorted(rows)),
            contested=frozenset(_pair(link) for link in links if link.settled_at is None),
            settled=frozenset(_pair(link) for link in links if link.settled_at is not None),
        )
        now = self._memory.clock.now()
        plan = plan_contradictions(
            state, now=now, new={one.id for one in new}, similar=similar, settings=self._settings
        )
        if not plan.empty:
            revision = revision_of(
                plan, state, revision_id=self._memory.ids.new(), now=now, kind=JUDGE
            )
            with span("update_memory", store_id=self._memory.telemetry_id, step=JUDGE) as told:
                self._memory.store.journal.apply(scope, revision, at=now)
                told.found(len(plan.operations))
        return plan

    def _states(self, one: Memory) -> bool:
        """Whether it states something itself: what was learned of a message speaks for it."""
        if one.kind not in self._settings.contradiction_kinds or not is_active(one):
            return False
        if one.kind != "message":
            return True
        if not stated_text(one):
            return False
        links = self._memory.store.links.of(one.scope, one.id)
        return not any(link.relation == LEARNED_FROM for link in links)

    def _candidates(self, scope: Scope, one: Memory) -> list[tuple[Memory, float]]:
        """What a search finds for it, and the facts of its key."""
        kinds = tuple(sorted(self._settings.contradiction_kinds))
        selection = Selection(reader=scope, kinds=kinds)
        request = Request(
            query=stated_text(one), selection=selection, top_k=CANDIDATES + 1, threshold=0.0
        )
        hits = self._memory.find(request)
        found = [(hit.memory, hit.score) for hit in hits if self._states(hit.memory)]
        key = key_of(one)
        if key:
            where = Compare(field="title", operator="eq", value=key)
            same = Selection(reader=scope, kinds=("fact",), where=where)
            found += [(other, 1.0) for other in self._memory.store.scan(same)]
        return found


def _sides(known: Contradiction, resolution: Resolution) -> dict[str, Any]:
    a, b = known.a, known.b
    if resolution == "both_valid" or not (a.superseded_by is None and b.superseded_by is None):
        return {}
    if resolution == "merged":
        after = settle_as_one(a, b)
    else:
        after = settle_for(a, b) if resolution == "a_wins" else settle_for(b, a)
    by_id: Mapping[str, Memory] = {one.id: one for one in after}
    return {"before": (a, b), "after": (by_id[a.id], by_id[b.id])}


def _pair(link: Link) -> tuple[str, str]:
    return pair_of(link.first_id, link.second_id)


def mark_of(scope: Scope) -> str:
    """The setting that keeps how far the new memories of a reader were judged; names nobody."""
    written = ascii(scope).encode("ascii")
    return f"judged {hashlib.blake2b(written, digest_size=12).hexdigest()}"
