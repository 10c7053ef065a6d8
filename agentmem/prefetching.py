"""Do ahead, within a budget of time, what the next turn would have to do first.

What takes longer than the budget is not stopped: it goes on in the background
and is there for whoever asks next. So a small budget never makes a turn think
that memory fails.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from agentmem.core.checks import require_number
from agentmem.core.living.gathering import Fetched, question_of
from agentmem.core.values import dataclass
from agentmem.errors import TimedOut
from agentmem.resilience import Lanes
from agentmem.tiering import Parts

if TYPE_CHECKING:
    from agentmem.config import LoopConfig
    from agentmem.core.living.prediction import Signal
    from agentmem.manager import MemoryManager
    from agentmem.recalling import Recalled
    from agentmem.types import Scope

T = TypeVar("T")
ASKED = ("task", "error")
"""What a user will say in these words; of the others only the words are telling."""
PREDICTED = "predicted memories"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched:
    """What `prefetch` made ready: the memories it expects, the questions answered ahead.

    `found` are memories that speak of what the signals name. `skipped` names
    what there was no time for.
    """

    predicted: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    spent_ms: float = 0.0
    degradations: tuple[str, ...] = ()


class Prefetcher:
    """Makes one memory ready for what its signals announce."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory
        self._lanes = Lanes("agentmem-prefetch")

    def run(
        self, scope: Scope, signals: Sequence[Signal], *, budget_ms: float, config: LoopConfig
    ) -> Prefetched:
        """Search for what the signals say, fetch what is predicted, and load what counts tokens.

        Tasks and errors are searched for as if they were asked: a turn that
        asks the same, with nothing stored in between, is served from the cache
        (P32). Any other turn finds the embedder and the indexes loaded.
        """
        require_number(budget_ms, "budget_ms", low=0)
        until = time.perf_counter() + budget_ms / 1000
        parts = Parts()
        given = self._memory.runtime.tiers.signals_for(signals, scope)
        fetched = self._try(PREDICTED, partial(self._fetch, scope, given, parts), until, parts)
        answered: list[str] = []
        found: dict[str, None] = {}
        skipped = [] if fetched is not None else [PREDICTED]
        for signal in given:
            question = question_of(signal)
            if not question:
                continue
            expect = partial(self._memory.runtime.expect, question, scope, config)
            recalled = self._try("search", expect, until, parts)
            if recalled is None or recalled.degradations:
                skipped.append(signal.value)
                continue
            if signal.kind in ASKED:
                answered.append(signal.value)
            found |= dict.fromkeys(_relevant(recalled, config))
        self._try("counting", partial(self._prepare, fetched), until, parts)
        return Prefetched(
            predicted=tuple(memory.id for memory, _ in fetched.predicted) if fetched else (),
            questions=tuple(answered),
            found=tuple(found),
            skipped=tuple(skipped),
            spent_ms=round(budget_ms + 1000 * (time.perf_counter() - until), 3),
            degradations=tuple(dict.fromkeys(parts.problems)),
        )

    def close(self) -> None:
        """Let go of the threads."""
        self._lanes.close()

    def _try(self, name: str, call: Callable[[], T], until: float, parts: Parts) -> T | None:
        """What `call` gives, if there is time and it needs no more than there is."""
        left = until - time.perf_counter()
        if left <= 0:
            return None
        try:
            return parts.read(name, partial(self._lanes.run, call, left), but=(TimedOut,))
        except TimedOut:
            return None

    def _fetch(self, scope: Scope, signals: Sequence[Signal], parts: Parts) -> Fetched:
        return self._memory.runtime.tiers.fetch(scope, signals, parts)

    def _prepare(self, fetched: Fetched | None) -> None:
        self._memory.runtime.tokenizer("")
        if fetched is not None:
            self._memory.runtime.tiers.prepare([memory for memory, _ in fetched.predicted])


def _relevant(recalled: Recalled, config: LoopConfig) -> list[str]:
    """The ids that a turn would be shown."""
    least, most = config.similarity_threshold, config.top_k
    return [hit.memory.id for hit in recalled.hits if hit.score >= least][:most]
