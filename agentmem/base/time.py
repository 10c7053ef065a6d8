"""How long ago a moment was, in words that stay true (P13)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from agentmem.base.errors import InvalidInput

GREGORIAN_CYCLE_YEARS = 400


class _Calendar(NamedTuple):
    """A moment in UTC, comparable also in years no `datetime` can hold."""

    months: int
    day: int
    since_midnight: timedelta


def relative_time(then: datetime, now: datetime) -> str:
    """How far `then` lies from `now`: "just now", "5 minutes ago", "in 3 hours".

    What each phrase promises, with whole units rounded down:

    - "just now": 0 to under 60 seconds ago; "in a moment": under 60 seconds ahead.
    - "N minutes", "N hours", "N days", "N weeks": at least N of them and less
      than N + 1; minutes below an hour, hours below 24, days below 7.
    - "N months", "N years": at least N calendar months (years) in UTC and
      less than N + 1. From 31 January to 28 February is not yet a month.

    Weeks give way to months, and months to years, as soon as one is full. There
    is no "yesterday": it would be true in one time zone and false in the next.
    """
    elapsed = time_between(then, now)
    ahead = elapsed < timedelta(0)
    start, end = (now, then) if ahead else (then, now)
    amount = _amount(start, end, abs(elapsed))
    if amount is None:
        return "in a moment" if ahead else "just now"
    return f"in {amount}" if ahead else f"{amount} ago"


def time_between(then: datetime, now: datetime) -> timedelta:
    """`now` − `then` as it passed for everybody, negative when `then` is ahead.

    Plain subtraction compares wall clocks when both share a zone, so it is an
    hour off across a daylight-saving change.
    """
    offsets = utc_offset(now, "now") - utc_offset(then, "then")
    return (_wall(now) - _wall(then)) - offsets


def _amount(start: datetime, end: datetime, elapsed: timedelta) -> str | None:
    months = _whole_months(start, end)
    if months >= 12:
        return _counted(months // 12, "year")
    if months >= 1:
        return _counted(months, "month")
    seconds = elapsed // timedelta(seconds=1)
    for unit, size in (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            return _counted(seconds // size, unit)
    return None


def _whole_months(start: datetime, end: datetime) -> int:
    first, last = _calendar(start), _calendar(end)
    return last.months - first.months - (first[1:] > last[1:])


def _calendar(moment: datetime) -> _Calendar:
    # Year 1 in Tokyo is year 0 in UTC, which datetime refuses; a whole cycle away
    # the calendar is the same and there is room.
    shift = GREGORIAN_CYCLE_YEARS if moment.year < 5000 else -GREGORIAN_CYCLE_YEARS
    wall = _wall(moment).replace(year=moment.year + shift)
    utc = wall - utc_offset(moment, "moment")
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
    return _Calendar((utc.year - shift) * 12 + utc.month, utc.day, utc - midnight)


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}" + ("" if number == 1 else "s")


def _wall(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None, fold=0)


def utc_offset(moment: datetime, name: str) -> timedelta:
    """`moment`'s distance from UTC; a moment without one is refused under `name`."""
    offset = moment.utcoffset() if isinstance(moment, datetime) else None
    if offset is None:
        raise InvalidInput(
            name,
            moment,
            "is not a moment with a known offset from UTC",
            remedy="Attach datetime.UTC, or a zone such as zoneinfo.ZoneInfo('Europe/Berlin').",
        )
    return offset


# ----------------------------------------------------------------------------
# The machine's clock, for those who are not given another.


class SystemClock:
    """What time it is now."""

    def now(self) -> datetime:
        return datetime.now(UTC)
