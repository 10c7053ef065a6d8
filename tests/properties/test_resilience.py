"""Whatever fails or hangs, the answer goes on, and nothing stale or foreign is given."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import agentmem
from agentmem.agent.context import LEAST_OFFERED, OFFERED, Recaller
from agentmem.base.config import LoopConfig, RecallConfig
from agentmem.base.guards import BreakerSettings, CallGuard, TtlCache
from agentmem.base.types import Scope
from agentmem.search.results import SearchResults
from agentmem.testing import HashEmbedder, ManualClock

TEXTS = ("the deploy failed on a lock", "deploys go out on Thursday", "tea with milk", "a lock")
USERS = ("ana", "bob")


class CacheMachine(RuleBasedStateMachine):
    """P32 Cache. A cached answer equals a fresh one as of the same store sequence, is never older than its time to live, and never crosses scopes."""

    @initialize(ttl=st.sampled_from((0.0, 1.0, 60.0)), capacity=st.integers(0, 3))
    def start(self, ttl: float, capacity: int) -> None:
        self.clock = ManualClock()
        self.memory = agentmem.open(":memory:", embedder=HashEmbedder(), clock=self.clock)
        self.ttl = ttl
        self.capacity = capacity
        self.cache: TtlCache[SearchResults] = TtlCache(
            self.clock, capacity=capacity, ttl_seconds=ttl
        )
        self.recaller = Recaller(self.memory)
        self.recaller.cache = self.cache
        self.filled: dict[Any, Any] = {}

    @rule(seconds=st.sampled_from((0.0, 0.5, 1.0, 30.0, 61.0, -5.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(text=st.sampled_from(TEXTS), user=st.sampled_from(USERS))
    def add(self, text: str, user: str) -> None:
        self.memory.add(text, user_id=user)

    @rule(user=st.sampled_from(USERS))
    def erase(self, user: str) -> None:
        self.memory.upkeep.erase_all(user_id=user)

    @rule(query=st.sampled_from(TEXTS), user=st.sampled_from(USERS), top_k=st.integers(1, 6))
    def ask(self, query: str, user: str, top_k: int) -> None:
        scope, config = Scope(user_id=user), LoopConfig(recall=RecallConfig(top_k=top_k))
        got = self.recaller.recall([query], scope, config)
        fresh = Recaller(self.memory)
        fresh.cache = TtlCache(self.clock, capacity=0)
        assert [(h.memory.id, h.score) for h in got.hits] == [
            (h.memory.id, h.score) for h in fresh.recall([query], scope, config).hits
        ]
        assert all(hit.memory.scope.user_id == user for hit in got.hits)
        key = (query, user, max(LEAST_OFFERED, OFFERED * top_k), self.memory.store.feed.seq())
        now = self.clock.now()
        if got.how == "cached":
            assert self.capacity > 0
            assert timedelta(0) <= now - self.filled[key] <= timedelta(seconds=self.ttl)
        else:
            assert got.how == "searched"
            self.filled[key] = now
        assert len(self.cache) <= self.capacity

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.recaller.close()
            self.memory.close()


TestCache = CacheMachine.TestCase


class GuardMachine(RuleBasedStateMachine):
    """Q1 Guarded recall. A recall never raises: while searches fail it gives nothing and says so, and once they failed often enough the newest memories stand in, marked, with the score 0.5, until a trial succeeds."""

    @initialize(limit=st.integers(1, 3), cooldown=st.sampled_from((1.0, 300.0)))
    def start(self, limit: int, cooldown: float) -> None:
        self.clock = ManualClock()
        self.memory = agentmem.open(":memory:", embedder=None, clock=self.clock)
        for number, text in enumerate(TEXTS):
            self.clock.advance(1)
            self.memory.add(f"{text} {number}", user_id="ana")
        self.limit, self.cooldown = limit, cooldown
        settings = BreakerSettings(failure_limit=limit, cooldown_seconds=cooldown)
        self.recaller = Recaller(self.memory)
        self.recaller.guard = CallGuard(self.clock, settings=settings)
        self.recaller.cache = TtlCache(self.clock, capacity=0)
        self.broken = False
        self.search = self.memory.search
        self.memory.search = self._search  # type: ignore[method-assign]  # a part that fails
        self.row = 0
        self.open_until: Any = None

    def _search(self, *args: Any, **options: Any) -> Any:
        if self.broken:
            raise OSError("the disk is on fire")
        return self.search(*args, **options)

    @rule(broken=st.booleans())
    def break_or_mend(self, broken: bool) -> None:
        self.broken = broken

    @rule(seconds=st.sampled_from((0.5, 1.0, 299.0, 301.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def ask(self) -> None:
        got = self.recaller.recall(["the lock"], Scope(user_id="ana"), LoopConfig())
        now = self.clock.now()
        if self.open_until is not None and now < self.open_until:
            newest = self.memory.get_all(limit=20, user_id="ana")
            assert [hit.memory.id for hit in got.hits] == [memory.id for memory in newest]
            assert got.how == "fallback"
            assert {hit.score for hit in got.hits} == {0.5}
            assert "stand in" in got.degradations[0]
        elif self.broken:
            assert not got.hits
            assert "the disk is on fire" in got.degradations[0]
            self.row = self.limit if self.open_until is not None else self.row + 1
            if self.row >= self.limit:
                self.open_until = now + timedelta(seconds=self.cooldown)
        else:
            assert got.how == "searched"
            assert got.hits
            self.row, self.open_until = 0, None

    def teardown(self) -> None:
        if hasattr(self, "memory"):
            self.recaller.close()
            self.memory.close()


TestGuard = GuardMachine.TestCase
