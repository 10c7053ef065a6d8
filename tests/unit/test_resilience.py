"""Time limits, threads that hang, and what a breaker lets through."""

from __future__ import annotations

import threading

import pytest

from agentmem.base.errors import InvalidNumber, TimedOut
from agentmem.base.guards import STUCK_LIMIT, CallGuard, Lanes, TtlCache
from agentmem.testing import ManualClock


def test_a_call_gives_its_value_or_its_own_error() -> None:
    lanes = Lanes()
    assert lanes.run(lambda: 41 + 1, 5) == 42
    nothing: dict[str, int] = {}
    with pytest.raises(KeyError):
        lanes.run(lambda: nothing["no"], 5)
    assert lanes.run(threading.get_ident, 5) == lanes.run(threading.get_ident, 5)
    lanes.close()


def test_a_call_that_hangs_is_left_behind_and_the_next_one_gets_a_thread_of_its_own() -> None:
    lanes, let_go = Lanes(), threading.Event()
    with pytest.raises(TimedOut, match=r"0\.01 seconds"):
        lanes.run(lambda: let_go.wait(30), 0.01)
    assert lanes.run(lambda: "fine", 5) == "fine"
    let_go.set()
    lanes.close()


def test_so_many_hanging_calls_are_enough() -> None:
    lanes, let_go, ended = Lanes(), threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        let_go.wait(30)
        ended.release()

    for _ in range(STUCK_LIMIT):
        with pytest.raises(TimedOut):
            lanes.run(hang, 0.001)
    with pytest.raises(TimedOut, match="still hanging"):
        lanes.run(lambda: None, 5)
    let_go.set()
    for _ in range(STUCK_LIMIT):
        ended.acquire(timeout=30)
    while lanes._stuck:  # the threads note their end right after the call's
        threading.Event().wait(0.001)
    assert lanes.run(lambda: 1, 5) == 1


def test_a_guard_reports_failures_and_never_raises_them() -> None:
    clock = ManualClock()
    guard = CallGuard(clock)

    def burn() -> None:
        raise OSError("no disk")

    attempts = [guard.call(burn, timeout_seconds=5) for _ in range(3)]
    for attempt in attempts:
        assert attempt.problem == "OSError: no disk"
        assert not attempt.refused
    assert [attempt.opened for attempt in attempts] == [False, False, True]
    refused = guard.call(lambda: 1, timeout_seconds=5)
    assert refused.refused
    clock.advance(301)
    assert guard.call(lambda: 1, timeout_seconds=5).value == 1
    assert guard.state == "closed"
    guard.close()


def test_the_cache_forgets_the_one_used_longest_ago() -> None:
    cache: TtlCache[int] = TtlCache(ManualClock(), capacity=2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert (cache.hits, cache.misses) == (3, 1)
    cache.clear()
    assert len(cache) == 0
    with pytest.raises(InvalidNumber):
        TtlCache(ManualClock(), ttl_seconds=-1)
