"""Circuit-breaker transitions as functions over one value (P31).

    closed ──(failure_limit failures in a row)──▶ open
    open ──(cool-down over, somebody asks)──▶ half_open: that one call is the trial
    half_open ──(trial succeeds)──▶ closed        ──(trial fails)──▶ open
    half_open ──(trial silent for too long, somebody asks)──▶ half_open, a new trial

`allow` hands out a ticket with each permitted call, and `succeed` or `fail`
take it back. A ticket from before the last change of state changes nothing: a
slow call that began while the breaker was closed can neither close it again
nor be taken for the trial. The shell keeps one `Breaker` under a lock and
replaces it by what these functions return; nothing here waits or calls.

A clock that jumps back starts the wait again at the new time, so no wait is
ever longer than its setting counted from the last jump.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Literal, get_args

from agentmem.core.checks import require_choice, require_count, require_number
from agentmem.core.reltime import time_between, utc_offset
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import require_instant

BreakerState = Literal["closed", "open", "half_open"]
Permission = Literal["call", "trial", "refuse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When to stop calling, for how long, and how long a trial may stay silent."""

    failure_limit: int = 3
    cooldown_seconds: float = 300.0
    trial_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        require_count(self.failure_limit, "failure_limit", least=1)
        require_number(self.cooldown_seconds, "cooldown_seconds", low=0)
        require_number(self.trial_timeout_seconds, "trial_timeout_seconds", low=0)


DEFAULT_SETTINGS = BreakerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The whole state: failures in a row, since when it waits, and which tickets count.

    `opened_at` is when it opened last, and `trial_at` when the running trial
    began; each is set exactly while it is being waited for.
    """

    state: BreakerState = "closed"
    failures: int = 0
    opened_at: datetime | None = None
    trial_at: datetime | None = None
    ticket: int = 0

    def __post_init__(self) -> None:
        require_choice(self.state, get_args(BreakerState), "state")
        require_count(self.failures, "failures")
        require_count(self.ticket, "ticket")
        require_instant(self.opened_at, "opened_at")
        require_instant(self.trial_at, "trial_at")
        if (self.opened_at is not None) != (self.state == "open"):
            raise InvalidInput("opened_at", self.opened_at, f"does not fit the state {self.state}")
        if (self.trial_at is not None) != (self.state == "half_open"):
            raise InvalidInput("trial_at", self.trial_at, f"does not fit the state {self.state}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether to call. A permitted call reports back with `ticket`; a refused one may ask
    again after `retry_after_seconds`."""

    permission: Permission
    ticket: int | None = None
    retry_after_seconds: float = 0.0

    @property
    def allowed(self) -> bool:
        """Whether the call may be made."""
        return self.permission != "refuse"


def allow(
    breaker: Breaker, now: datetime, *, settings: BreakerSettings = DEFAULT_SETTINGS
) -> tuple[Decision, Breaker]:
    """Whether a call may be made at `now`, and the breaker to keep from here on.

    After the cool-down exactly one asker gets the trial; all others are
    refused until it reports or has been silent for `trial_timeout_seconds`.
    """
    utc_offset(now, "now")
    if breaker.opened_at is not None:
        left, since = _wait(breaker.opened_at, now, settings.cooldown_seconds)
        waiting = replace(breaker, opened_at=since)
    elif breaker.trial_at is not None:
        left, since = _wait(breaker.trial_at, now, settings.trial_timeout_seconds)
        waiting = replace(breaker, trial_at=since)
    else:
        return Decision(permission="call", ticket=breaker.ticket), breaker
    if left > 0:
        return Decision(permission="refuse", retry_after_seconds=left), waiting
    trial = replace(
        breaker, state="half_open", opened_at=None, trial_at=now, ticket=breaker.ticket + 1
    )
    return Decision(permission="trial", ticket=trial.ticket), trial


def succeed(breaker: Breaker, ticket: int) -> Breaker:
    """The breaker after the call with `ticket` succeeded: the count of failures starts anew.

    A successful trial closes it. An old ticket changes nothing.
    """
    if not _counts(breaker, ticket):
        return breaker
    if breaker.state == "half_open":
        return Breaker(ticket=breaker.ticket + 1)
    return replace(breaker, failures=0) if breaker.failures else breaker


def fail(
    breaker: Breaker, ticket: int, now: datetime, *, settings: BreakerSettings = DEFAULT_SETTINGS
) -> Breaker:
    """The breaker after the call with `ticket` failed at `now`: one more in a row.

    It opens at the limit, and at once when the trial fails. An old ticket
    changes nothing.
    """
    utc_offset(now, "now")
    if not _counts(breaker, ticket):
        return breaker
    failures = breaker.failures + 1
    if breaker.state == "closed" and failures < settings.failure_limit:
        return replace(breaker, failures=failures)
    return Breaker(state="open", failures=failures, opened_at=now, ticket=breaker.ticket + 1)


def _counts(breaker: Breaker, ticket: int) -> bool:
    require_count(ticket, "ticket")
    return ticket == breaker.ticket and breaker.state != "open"


def _wait(since: datetime, now: datetime, seconds: float) -> tuple[float, datetime]:
    """How many of `seconds` are left, and since when they count."""
    passed = time_between(since, now).total_seconds()
    if passed < 0:
        return seconds, now
    return max(0.0, seconds - passed), since
