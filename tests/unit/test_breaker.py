"""The breaker's story, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agentmem.base.errors import InvalidNumber
from agentmem.base.guards import Breaker, BreakerSettings

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def state_of(breaker: Breaker) -> tuple[Any, ...]:
    return breaker.state, breaker.failures, breaker.since, breaker._ticket


def tripped() -> Breaker:
    breaker = Breaker()
    for _ in range(3):
        breaker.report(0, START, failed=True)
    return breaker


def asked_again(breaker: Breaker, now: datetime) -> int:
    """The ticket of a trial that begins now."""
    ticket, wait = breaker.allow(now)
    assert ticket is not None
    assert (breaker.state, wait) == ("half_open", 0.0)
    return ticket


def test_three_failures_in_a_row_open_it_for_five_minutes() -> None:
    breaker = tripped()
    assert (breaker.state, breaker.failures, breaker.since) == ("open", 3, START)
    assert breaker.allow(at(299)) == (None, 1)
    asked_again(breaker, at(300))
    assert breaker.allow(at(300)).ticket is None


def test_it_says_which_failure_opens_it() -> None:
    breaker = Breaker()
    assert [breaker.report(0, START, failed=True) for _ in range(4)] == [False, False, True, False]


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = Breaker()
    for failed in (True, True, False, True):
        breaker.report(0, START, failed=failed)
    assert (breaker.state, breaker.failures) == ("closed", 1)


def test_the_trial_decides() -> None:
    breaker = tripped()
    assert not breaker.report(asked_again(breaker, at(300)), START, failed=False)
    assert breaker.state == "closed"
    breaker = tripped()
    assert breaker.report(asked_again(breaker, at(300)), at(301), failed=True)
    assert (breaker.state, breaker.since) == ("open", at(301))
    assert breaker.allow(at(600)).ticket is None
    assert breaker.allow(at(601)).ticket is not None


def test_a_late_report_from_before_changes_nothing() -> None:
    breaker = Breaker()
    early = breaker.allow(START).ticket
    assert early is not None
    for _ in range(3):
        breaker.report(early, START, failed=True)
    opened = state_of(breaker)
    breaker.report(early, START, failed=False)
    assert state_of(breaker) == opened
    trial = asked_again(breaker, at(300))
    half_open = state_of(breaker)
    for failed in (False, True):
        breaker.report(early, at(301), failed=failed)
        assert state_of(breaker) == half_open
    breaker.report(trial, START, failed=False)
    breaker.report(early, at(302), failed=True)
    assert breaker.failures == 0


def test_a_lost_trial_is_replaced() -> None:
    breaker = tripped()
    lost = asked_again(breaker, at(300))
    assert breaker.allow(at(359)).ticket is None
    asked_again(breaker, at(360))
    second = state_of(breaker)
    breaker.report(lost, START, failed=False)
    assert state_of(breaker) == second


def test_a_clock_that_jumps_back_waits_one_cooldown_at_most() -> None:
    breaker, a_year_back = tripped(), START - timedelta(days=365)
    assert breaker.allow(a_year_back).retry_after_seconds == 300
    asked_again(breaker, a_year_back + timedelta(seconds=300))


def test_daylight_saving_does_not_shorten_the_wait() -> None:
    berlin, breaker = ZoneInfo("Europe/Berlin"), Breaker()
    for _ in range(3):
        breaker.report(0, datetime(2024, 3, 31, 1, 59, tzinfo=berlin), failed=True)
    assert breaker.allow(datetime(2024, 3, 31, 3, 1, tzinfo=berlin)).ticket is None


@pytest.mark.parametrize(
    "bad",
    [
        {"failure_limit": 0},
        {"failure_limit": 1.5},
        {"cooldown_seconds": -1},
        {"cooldown_seconds": float("nan")},
        {"trial_timeout_seconds": None},
    ],
)
def test_settings_that_cannot_work_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidNumber):
        BreakerSettings(**bad)
