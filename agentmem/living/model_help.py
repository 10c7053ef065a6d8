"""Let a model do better what the rules did, within a limit: shorter texts, surer verdicts."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentmem.core.checks import require_count
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
    Judgement,
    read_judgement,
    read_shorter,
    request_judgement,
    request_shorter,
)
from agentmem.protocols import TokenCounter
from agentmem.types import Memory

if TYPE_CHECKING:
    from agentmem.stores.base import Settings as StoreSettings

Model = str | Callable[..., Any]
SURE = 0.9
"""A verdict of the rules at least so sure is not put to a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The most a run may ask of a model: calls, tokens in and out together, and seconds a call."""

    calls: int = 50
    tokens: int = 50_000
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        require_count(self.calls, "calls")
        require_count(self.tokens, "tokens")


class ModelHelp:
    """One model for one run; counts what it was asked, and stops at the limit."""

    def __init__(
        self, model: Model, *, spend: Spend, count: TokenCounter, kept: StoreSettings
    ) -> None:
        from agentmem.models import as_model

        self._model = as_model(model)
        self._spend = spend
        self._count = count
        self._kept = kept
        self.calls = self.tokens = 0
        self.notes: list[str] = []

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
        said = read_judgement(self._ask(request_judgement(one, other)))
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
            proposed = read_shorter(self._ask(request_shorter(text)))
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

    def _ask(self, messages: list[dict[str, Any]]) -> str:
        """The reply, or "" once the limit is reached or when the model fails."""
        from agentmem.web.running import run_anywhere

        cost = sum(self._count(message["content"]) for message in messages)
        if self.calls >= self._spend.calls or self.tokens + cost > self._spend.tokens:
            self._say("the spend limit of the model was reached; rules did the rest")
            return ""
        self.calls += 1
        self.tokens += cost

        async def ask() -> str:
            reply = await asyncio.wait_for(
                self._model(messages), timeout=self._spend.timeout_seconds
            )
            return reply.text

        try:
            text = run_anywhere(ask)
        except Exception as error:  # noqa: BLE001 - the rules' own work stands without a model
            self._say(f"the model failed: {type(error).__name__}: {error}")
            return ""
        self.tokens += self._count(text)
        return text

    def _say(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
