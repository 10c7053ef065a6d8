"""The breaker's story, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agentmem.base.errors import InvalidNumber
from agentmem.base.guards import Breaker, BreakerSettings, allow, report

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def fail(breaker: Breaker, ticket: int, now: datetime) -> Breaker:
    return report(breaker, ticket, now, failed=True)


def succeed(breaker: Breaker, ticket: int) -> Breaker:
    return report(breaker, ticket, START, failed=False)


def is_trial(asked: tuple[Any, Breaker]) -> bool:
    decision, breaker = asked
    return decision.ticket == breaker.ticket and breaker.state == "half_open"


def tripped() -> Breaker:
    breaker = Breaker()
    for _ in range(3):
        breaker = fail(breaker, breaker.ticket, START)
    return breaker


def test_three_failures_in_a_row_open_it_for_five_minutes() -> None:
    breaker = tripped()
    assert (breaker.state, breaker.failures, breaker.since) == ("open", 3, START)
    decision, breaker = allow(breaker, at(299))
    assert decision.ticket is None
    assert decision.retry_after_seconds == 1
    decision, breaker = allow(breaker, at(300))
    assert is_trial((decision, breaker))
    assert allow(breaker, at(300))[0].ticket is None


def test_a_success_in_between_starts_the_count_again() -> None:
    breaker = fail(fail(Breaker(), 0, START), 0, START)
    breaker = fail(succeed(breaker, 0), 0, START)
    assert (breaker.state, breaker.failures) == ("closed", 1)


def test_the_trial_decides() -> None:
    decision, breaker = allow(tripped(), at(300))
    assert decision.ticket is not None
    assert succeed(breaker, decision.ticket).state == "closed"
    again = fail(breaker, decision.ticket, at(301))
    assert (again.state, again.since) == ("open", at(301))
    assert allow(again, at(600))[0].ticket is None
    assert allow(again, at(601))[0].ticket is not None


def test_a_late_report_from_before_changes_nothing() -> None:
    early, closed = allow(Breaker(), START)
    assert early.ticket is not None
    breaker = closed
    for _ in range(3):
        breaker = fail(breaker, early.ticket, START)
    assert succeed(breaker, early.ticket) == breaker
    trial, half_open = allow(breaker, at(300))
    assert succeed(half_open, early.ticket) == half_open
    assert fail(half_open, early.ticket, at(301)) == half_open
    assert trial.ticket is not None
    assert fail(succeed(half_open, trial.ticket), early.ticket, at(302)).failures == 0


def test_a_lost_trial_is_replaced() -> None:
    lost, breaker = allow(tripped(), at(300))
    assert allow(breaker, at(359))[0].ticket is None
    second, breaker = allow(breaker, at(360))
    assert is_trial((second, breaker))
    assert lost.ticket is not None
    assert succeed(breaker, lost.ticket) == breaker


def test_a_clock_that_jumps_back_waits_one_cooldown_at_most() -> None:
    a_year_back = START - timedelta(days=365)
    decision, breaker = allow(tripped(), a_year_back)
    assert decision.retry_after_seconds == 300
    assert is_trial(allow(breaker, a_year_back + timedelta(seconds=300)))


def test_daylight_saving_does_not_shorten_the_wait() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    breaker = Breaker(state="open", failures=3, since=datetime(2024, 3, 31, 1, 59, tzinfo=berlin))
    assert allow(breaker, datetime(2024, 3, 31, 3, 1, tzinfo=berlin))[0].ticket is None


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
