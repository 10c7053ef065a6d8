"""The breaker under any interleaving of callers and any clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from copy import copy
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmem.base.guards import Breaker, BreakerDecision, BreakerSettings
from agentmem.testing import ManualClock


class BreakerMachine(RuleBasedStateMachine):
    """P31 Breaker. Opens after the set number of failures in a row, refuses while it cools down, tries exactly once afterwards, closes when that trial succeeds; under any interleaving and clock."""

    @initialize(
        limit=st.integers(1, 4),
        cooldown=st.sampled_from((0.0, 1.0, 300.0)),
        timeout=st.sampled_from((0.5, 60.0, 600.0)),
    )
    def start(self, limit: int, cooldown: float, timeout: float) -> None:
        self.settings = BreakerSettings(
            failure_limit=limit, cooldown_seconds=cooldown, trial_timeout_seconds=timeout
        )
        self.clock = ManualClock()
        self.breaker = Breaker(self.settings)
        self.running: list[BreakerDecision] = []  # permitted calls that have not reported
        # The truth, kept apart: the calls that count, and what the callers lived through.
        self.row = 0
        self.current: list[BreakerDecision] = []
        self.trial: BreakerDecision | None = None
        self.tripped = False
        self.since = self.clock.now()  # when the wait began, or the earliest time seen since

    @rule(seconds=st.sampled_from((0.0, 0.5, 1.0, 59.0, 299.0, 300.0, 1e6)) | st.floats(0, 1e5))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.floats(0.001, 1e7))
    def the_clock_jumps_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)
        self.ask()  # somebody looks at the new time, from where the wait starts again

    @rule()
    def ask(self) -> None:
        decision = self.breaker.allow(self.clock.now())
        self.since = min(self.since, self.clock.now())
        waited = (self.clock.now() - self.since).total_seconds()
        limit = (
            self.settings.cooldown_seconds
            if self.trial is None
            else self.settings.trial_timeout_seconds
        )
        if decision.ticket is None:
            assert self.tripped
            assert waited < limit
            assert 0 < decision.retry_after_seconds <= limit
        elif self.breaker.state == "closed":
            assert not self.tripped
            self.current.append(decision)
            self.running.append(decision)
        else:
            assert self.tripped
            assert waited >= limit
            self.trial = decision
            self.since = self.clock.now()
            self.running.append(decision)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), worked=st.booleans())
    def report(self, data: st.DataObject, worked: bool) -> None:
        decision = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        assert decision.ticket is not None
        before = self.breaker.state
        opened = self.breaker.report(decision.ticket, self.clock.now(), failed=not worked)
        assert opened == (self.breaker.state == "open" != before)
        if decision is self.trial:
            self.trial = None
            self.tripped = not worked
            self.row = 0 if worked else self.row + 1
            self.since = self.clock.now()
            self.current.clear()
        elif any(decision is call for call in self.current):
            self.row = 0 if worked else self.row + 1
            if self.row >= self.settings.failure_limit:
                self.tripped = True
                self.since = self.clock.now()
                self.current.clear()  # what still runs from before no longer counts

    @precondition(lambda self: self.running)
    @rule()
    def a_caller_dies(self) -> None:
        self.running.pop()

    @invariant()
    def it_is_open_exactly_when_it_tripped(self) -> None:
        if not hasattr(self, "settings"):
            return
        assert (self.breaker.state == "closed") == (not self.tripped)
        assert (self.breaker.state == "half_open") == (self.trial is not None)
        assert self.breaker.failures == self.row
        assert self.tripped or self.row < self.settings.failure_limit

    @invariant()
    def it_never_hangs(self) -> None:
        """After both waits somebody may call, whatever happened before."""
        if not hasattr(self, "settings"):
            return
        wait = max(self.settings.cooldown_seconds, self.settings.trial_timeout_seconds)
        now = self.clock.now()
        breaker = copy(self.breaker)
        breaker.allow(now)
        assert breaker.allow(now + timedelta(seconds=wait)).ticket is not None


TestBreaker = BreakerMachine.TestCase


def test_many_askers_at_once_get_one_trial() -> None:
    """Several threads ask in the half-open moment; the breaker's lock makes it a sequence."""
    start, breaker = datetime(2026, 1, 1, tzinfo=UTC), Breaker()
    for _ in range(3):
        breaker.report(0, start, failed=True)
    later = start + timedelta(seconds=300)
    with ThreadPoolExecutor(8) as pool:
        granted = [one.ticket for one in pool.map(lambda _: breaker.allow(later), range(50))]
    assert granted.count(2) == 1
    assert granted.count(None) == 49
