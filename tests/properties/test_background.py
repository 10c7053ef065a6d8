"""Background work: nothing is lost, whatever fails, fills up or is closed in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from agentmem.base.types import Scope
from agentmem.sources.background import (
    LONGEST_RETRY_SECONDS,
    MOST_ATTEMPTS,
    Worker,
    retry_delay,
)
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import ManualClock

SCOPES = (Scope(), Scope(user_id="ana"), Scope(user_id="ana", project_id="p"))
LONG_ENOUGH = 10_000


@dataclass
class Sent:
    """A job the worker took: who it is the same as, and how often it is to fail."""

    identity: tuple[str, Scope, str]
    fails: int
    worker: int
    tried: int = 0
    done: int = 0


@dataclass
class Book:
    """What the handlers saw, in order."""

    sent: list[Sent] = field(default_factory=list)
    succeeded: list[int] = field(default_factory=list)

    def run(self, payload: Mapping[str, Any], scope: Scope) -> None:
        job = self.sent[payload["number"]]
        assert job.identity[1] == scope
        job.tried += 1
        if job.tried <= job.fails:
            raise RuntimeError("not this time")
        job.done += 1
        self.succeeded.append(payload["number"])

    def replaced(self, number: int) -> bool:
        """Whether the same job was sent again later."""
        identity = self.sent[number].identity
        return bool(identity[2]) and any(s.identity == identity for s in self.sent[number + 1 :])

    def settled(self, number: int) -> bool:
        job = self.sent[number]
        return bool(job.done) or job.tried >= MOST_ATTEMPTS or self.replaced(number)


class NothingIsLost(RuleBasedStateMachine):
    """X1 No lost work. A job the worker took is done once, or given up after its last try and kept as failed, or replaced by a newer one of the same key; through any failures, a full queue and restarts, and an older payload never comes after a newer one."""

    @initialize(capacity=st.integers(1, 4))
    def begin(self, capacity: int) -> None:
        self.capacity = capacity
        self.clock = ManualClock()
        self.store = SqliteStore(":memory:")
        self.book = Book()
        self.workers = 0
        self.open()

    def open(self) -> None:
        self.workers += 1
        self.worker = Worker(self.store, clock=self.clock, capacity=self.capacity, threaded=False)
        self.worker.handle("page", self.book.run)

    @rule(
        kind=st.sampled_from(("page", "page", "late")),
        scope=st.sampled_from(SCOPES),
        key=st.sampled_from(("", "", "a", "A")),
        fails=st.sampled_from((0, 0, 0, 1, 2, 9)),
    )
    def submit(self, kind: str, scope: Scope, key: str, fails: int) -> None:
        payload = {"number": len(self.book.sent)}
        dropped = self.worker.state.dropped
        if self.worker.submit(kind, payload, scope=scope, key=key):
            self.book.sent.append(
                Sent(identity=(kind, scope, key), fails=fails, worker=self.workers)
            )
        else:
            assert self.worker.state.dropped == dropped + 1
            assert self.worker.state.queued >= 2 * self.capacity

    @rule()
    def handle_the_late_ones(self) -> None:
        self.worker.handle("late", self.book.run)

    @rule()
    def flush(self) -> None:
        if self.worker.flush():
            for number, job in enumerate(self.book.sent):
                assert job.worker != self.workers or self.book.settled(number)

    @rule(seconds=st.sampled_from((0, 1, 2, 4, 60, LONG_ENOUGH)))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(timeout=st.sampled_from((0.0, 5.0)))
    def restart(self, timeout: float) -> None:
        self.worker.close(timeout_seconds=timeout)
        assert self.worker.state.dropped == 0 or self.worker.state.queued == 0
        assert not self.worker.submit("page", {})
        self.open()

    def teardown(self) -> None:
        if not hasattr(self, "worker"):
            return
        failed_before = 0
        self.worker.handle("late", self.book.run)
        for _ in range(MOST_ATTEMPTS + 1):
            self.worker.flush()
            self.clock.advance(LONG_ENOUGH)
        assert self.worker.flush()
        for number, job in enumerate(self.book.sent):
            assert job.done <= 1
            assert job.tried <= MOST_ATTEMPTS
            assert self.book.settled(number)
            failed_before += not job.done and job.tried == MOST_ATTEMPTS
        assert self.store.jobs.counts() == {"waiting": 0, "running": 0, "failed": failed_before}
        newest: Counter[tuple[str, Scope, str]] = Counter()
        for number in self.book.succeeded:
            identity = self.book.sent[number].identity
            if identity[2]:
                assert number >= newest[identity], "an older payload came after a newer one"
                newest[identity] = number


TestNothingIsLost = NothingIsLost.TestCase
TestNothingIsLost.settings = settings(stateful_step_count=25)


@given(attempts=st.integers(1, 10**6), most=st.integers(1, 10**6))
def test_waits_grow_and_end(attempts: int, most: int) -> None:
    """X2 Back-off. Each wait before another try is at least as long as the one before it and never longer than the limit, and after the last try there is none."""
    delay = retry_delay(attempts, most_attempts=most)
    assert (delay is None) == (attempts >= most)
    if delay is not None:
        assert 0 < delay <= LONGEST_RETRY_SECONDS
        if attempts > 1:
            before = retry_delay(attempts - 1, most_attempts=most)
            assert before is not None
            assert before <= delay
