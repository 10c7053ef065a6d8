"""Ask a memory for what belongs to a turn, so that a failing memory never breaks it (P30)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from agentmem.config import LoopConfig
from agentmem.core.choosing import is_own_question
from agentmem.core.filters import Selection
from agentmem.core.gate import turn_score
from agentmem.core.values import dataclass
from agentmem.preparing import TEXT_KINDS
from agentmem.resilience import Guard, Lanes, TtlCache
from agentmem.types import Hit, Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager
    from agentmem.results import SearchResults

FALLBACK_SCORE = 0.5
OFFERED = 2
"""So many times `top_k` are looked at: what is already in the conversation gives its place up."""
LEAST_OFFERED = 15
WIDER = 5
"""So many times more are looked at when most of them are questions that were asked before."""

How = Literal["searched", "cached", "fallback", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What was found, best first, those below the threshold too, and what went wrong.

    `own_world` is how likely the user's own world is asked about. `fallback`
    hits are the most recent memories, which nobody compared with the question.
    """

    hits: tuple[Hit, ...] = ()
    own_world: float = 0.0
    how: How = "nothing"
    degradations: tuple[str, ...] = ()


class Recaller:
    """Searches behind a time limit, a breaker and a short memory of answers."""

    def __init__(
        self,
        memory: MemoryManager,
        *,
        guard: Guard | None = None,
        cache: TtlCache[Recalled] | None = None,
    ) -> None:
        self._memory = memory
        self._lanes = Lanes()
        self.guard = Guard(memory.clock, lanes=self._lanes) if guard is None else guard
        self.cache = TtlCache(memory.clock) if cache is None else cache
        """What each query found; a turn may ask several, of which some were asked before."""

    def recall(self, queries: Sequence[str], scope: Scope, config: LoopConfig) -> Recalled:
        """What the queries find together; a memory found by several keeps its best score."""
        if not queries or not config.top_k:
            return Recalled()
        attempt = self.guard.call(
            lambda: self._search(tuple(queries), scope, config),
            timeout_seconds=config.retrieval_timeout_seconds,
        )
        if attempt.value is not None:
            return attempt.value
        if attempt.refused:
            return self._recent(scope, config, f"memory search is {attempt.problem}")
        return Recalled(degradations=(f"memory search failed: {attempt.problem}",))

    def close(self) -> None:
        """Let go of the threads."""
        self.guard.close()
        self._lanes.close()

    def _search(self, queries: tuple[str, ...], scope: Scope, config: LoopConfig) -> Recalled:
        memory = self._memory
        wanted = max(LEAST_OFFERED, OFFERED * config.top_k)
        # Read before the search: an answer kept under a sequence is never older than it.
        state = (memory.store.feed.seq(), memory.embedding.serving_id, memory.embedding.error)
        best: dict[str, Hit] = {}
        degradations: dict[str, None] = {}
        how: How = "cached"
        found: list[Recalled] = []
        for query in queries:
            key = (scope, query, wanted, config.search_mode, state)
            kept = self.cache.get(key)
            if kept is None:
                how = "searched"
                kept = self._ask(query, scope, config, wanted)
                if not kept.degradations:
                    self.cache.put(key, kept)
            degradations |= dict.fromkeys(kept.degradations)
            found.append(kept)
        # One sentence of a long task may sound personal: the message as a whole decides.
        worlds = [one.own_world for one in found]
        whole = max(
            world for query, world in zip(queries, worlds, strict=True) if queries[0] in query
        )
        for kept, world in zip(found, worlds, strict=True):
            for hit in kept.hits:
                page = hit.memory.kind in TEXT_KINDS
                score = turn_score(hit.score, min(world, whole), page=page)
                known = best.get(hit.memory.id)
                if known is None or score > known.score:
                    best[hit.memory.id] = replace(hit, score=score)
        hits = sorted(best.values(), key=lambda hit: (-hit.score, hit.memory.id))
        return Recalled(
            hits=tuple(hits), own_world=whole, how=how, degradations=tuple(degradations)
        )

    def _ask(self, query: str, scope: Scope, config: LoopConfig, wanted: int) -> Recalled:
        """What one query finds, with the scores of a search."""
        found = self._find(query, scope, config, wanted)
        if len(found) == wanted and _usable(found) < wanted // 2:
            # Questions asked before look most like a question and answer nothing.
            found = self._find(query, scope, config, wanted * WIDER)
        return Recalled(
            hits=tuple(found),
            own_world=found.own_world,
            how="searched",
            degradations=tuple(found.degradations),
        )

    def _find(self, query: str, scope: Scope, config: LoopConfig, wanted: int) -> SearchResults:
        return self._memory.search(
            query,
            top_k=wanted,
            threshold=0.0,
            mode=config.search_mode,
            user_id=scope.user_id,
            project_id=scope.project_id,
            agent_id=scope.agent_id,
            run_id=scope.run_id,
        )

    def _recent(self, scope: Scope, config: LoopConfig, problem: str) -> Recalled:
        """The newest memories in place of a search, each with the same middling score."""
        selection = Selection(reader=scope)

        def newest() -> tuple[Memory, ...]:
            return self._memory.store.recent(selection, limit=OFFERED * config.top_k)

        try:
            found = self._lanes.run(newest, config.retrieval_timeout_seconds)
        except Exception as error:  # noqa: BLE001 - the turn goes on without memories
            return Recalled(degradations=(problem, f"recent memories failed: {error}"))
        return Recalled(
            hits=tuple(Hit(memory=memory, score=FALLBACK_SCORE) for memory in found),
            how="fallback",
            degradations=(f"{problem}; the most recent memories stand in",),
        )


def _usable(hits: Sequence[Hit]) -> int:
    return sum(not is_own_question(hit.memory) for hit in hits)
