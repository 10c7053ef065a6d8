"""Let a model do better what the rules did, within a limit: shorter texts, surer verdicts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentmem.core.conflicts import Verdict
from agentmem.core.living.compression import accept_model_text
from agentmem.core.living.plans import (
    Compress,
    ConsolidationPlan,
    ConsolidationSettings,
    LivingState,
    OpenContradiction,
    Operation,
    Pair,
    SimilarPair,
    Summarise,
    apply_plan,
    is_active,
    pair_of,
)
from agentmem.core.living.requests import (
    JUDGEMENT_FORMAT,
    SHORTER_FORMAT,
    Judgement,
    read_judgement,
    read_shorter,
    request_judgement,
    request_shorter,
)
from agentmem.living.asking import Asker, Model, Spend
from agentmem.protocols import TokenCounter
from agentmem.types import Memory

if TYPE_CHECKING:
    from agentmem.stores.base import Settings as StoreSettings

__all__ = ["Model", "ModelHelp", "Spend"]

SURE = 0.9
"""A verdict of the rules at least so sure is not put to a model."""


class ModelHelp:
    """One model for one run of consolidation; `asker` knows what it was asked."""

    def __init__(
        self, model: Model, *, spend: Spend, count: TokenCounter, kept: StoreSettings
    ) -> None:
        self.asker = Asker(model, spend=spend, count=count)
        self._count = count
        self._kept = kept

    def improve(
        self,
        plan: ConsolidationPlan,
        state: LivingState,
        *,
        similar: Iterable[SimilarPair],
        settings: ConsolidationSettings,
        now: Any,
    ) -> ConsolidationPlan:
        """The plan with shorter summaries, and with contradictions as the model sees them."""
        memories = {one.id: one for one in state.memories}
        after = {one.id: one for one in apply_plan(state, plan, now=now).memories}
        judged = self._judged(plan.operations, memories)
        judged += self._found(judged, after, similar, settings, state)
        shortened = self._shortened(judged, memories)
        return ConsolidationPlan(operations=tuple(shortened))

    # -- contradictions ---------------------------------------------------------------------

    def _judged(
        self, operations: Iterable[Operation], memories: Mapping[str, Memory]
    ) -> list[Operation]:
        kept: list[Operation] = []
        for one in operations:
            if isinstance(one, OpenContradiction) and one.verdict.confidence < SURE:
                said = self._judge(memories[one.first].text, memories[one.second].text)
                if said == "no":
                    continue
            kept.append(one)
        return kept

    def _found(
        self,
        operations: Iterable[Operation],
        after: Mapping[str, Memory],
        similar: Iterable[SimilarPair],
        settings: ConsolidationSettings,
        state: LivingState,
    ) -> list[Operation]:
        """Contradictions among what is alike that no rule saw."""
        known: set[Pair] = {*state.contested, *state.settled}
        known |= {
            pair_of(one.first, one.second)
            for one in operations
            if isinstance(one, OpenContradiction)
        }
        found: list[Operation] = []
        for pair in sorted(similar, key=lambda p: (-p.similarity, p.first, p.second)):
            first, second = after.get(pair.first), after.get(pair.second)
            if first is None or second is None or pair_of(pair.first, pair.second) in known:
                continue
            kinds = {first.kind, second.kind} <= settings.contradiction_kinds
            if not kinds or not (is_active(first) and is_active(second)):
                continue
            if first.text == second.text or (first.scope, first.visibility) != (
                second.scope,
                second.visibility,
            ):
                continue
            if self._judge(first.text, second.text) == "yes":
                verdict = Verdict(kind="contradicts", reason="value", confidence=0.7)
                found.append(OpenContradiction(first=first.id, second=second.id, verdict=verdict))
        return found

    def _judge(self, first: str, second: str) -> Judgement:
        """The verdict of an earlier run, or the model's; it is kept without the texts."""
        one, other = sorted((first, second))
        written = f"{one}\x00{other}".encode()
        name = f"verdict {hashlib.blake2b(written, digest_size=16).hexdigest()}"
        kept = self._kept.get(name)
        if kept is not None:
            return read_judgement(kept)
        said = read_judgement(self.asker.ask(request_judgement(one, other), JUDGEMENT_FORMAT))
        if said:
            self._kept.set(name, said)
        return said

    # -- summaries ------------------------------------------------------------------------------

    def _shortened(
        self, operations: list[Operation], memories: Mapping[str, Memory]
    ) -> list[Operation]:
        made: dict[str, str] = {}
        wanted = [one for one in operations if isinstance(one, Summarise)]
        for one in sorted(wanted, key=lambda o: (-self._count(memories[o.id].text), o.id)):
            text = memories[one.id].text
            proposed = read_shorter(self.asker.ask(request_shorter(text), SHORTER_FORMAT))
            shorter = proposed and self._count(proposed) < self._count(one.summary)
            if shorter and accept_model_text(text, proposed, self._count).accepted:
                made[one.id] = proposed
        return [self._replaced(one, made, memories) for one in operations]

    def _replaced(
        self, one: Operation, made: Mapping[str, str], memories: Mapping[str, Memory]
    ) -> Operation:
        if isinstance(one, Summarise) and one.id in made:
            saved = self._count(memories[one.id].text) - self._count(made[one.id])
            return replace(one, summary=made[one.id], tokens_saved=saved)
        if isinstance(one, Compress) and one.id in made:
            # Each level costs no more than the one above it (P35).
            limit = self._count(made[one.id])
            compressed = one.compressed if self._count(one.compressed) <= limit else made[one.id]
            least = self._count(compressed)
            index = one.index if self._count(one.index) <= least else compressed
            return replace(
                one, compressed=compressed, index=index, tokens_saved=max(0, limit - least)
            )
        return one
