"""Relative time is true for any moment in any zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from io import StringIO
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.time import relative_time, time_between
from agentmem.cli.common import CommandRun
from agentmem.cli.memories import when
from agentmem.inspector.layout import Pen

ZONES = (
    UTC,
    timezone(timedelta(hours=14)),
    timezone(timedelta(hours=-12)),
    timezone(timedelta(hours=23, minutes=59)),
    ZoneInfo("Europe/Berlin"),
    ZoneInfo("America/New_York"),
    ZoneInfo("Pacific/Apia"),
)
PHRASE = re.compile(r"(?:in )?([\d,]+) (minute|hour|day|week|month|year)s?(?: ago)?\Z")
TERMINAL = CommandRun(out=StringIO(), err=StringIO(), pen=Pen(), width=80, on_terminal=True)
SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
MOST = {"minute": 59, "hour": 23, "day": 6, "week": 4, "month": 11, "year": 9_999}
"""More than so many of a unit are said with the next larger one."""


def moments() -> st.SearchStrategy[datetime]:
    """Any moment of any year in many zones; often within a year of another one."""
    anywhere = st.datetimes(timezones=st.sampled_from(ZONES))
    near = st.builds(
        lambda seconds, zone: (
            datetime(2024, 3, 31, tzinfo=UTC) + timedelta(seconds=seconds)
        ).astimezone(zone),
        st.floats(-4e7, 4e7) | st.integers(-10_000, 10_000),
        st.sampled_from(ZONES),
    )
    return anywhere | near


def pairs_of_moments() -> st.SearchStrategy[tuple[datetime, datetime]]:
    """Two moments that lie minutes, hours, days, weeks, months or an age apart."""
    apart = st.one_of(
        *(st.integers(-n * 10**6, n * 10**6) for n in (100, 7_200, 172_800, 1_300_000, 6_000_000))
    )
    around = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
    near = st.builds(
        lambda moment, microseconds, zone: (
            (moment + timedelta(microseconds=microseconds)).astimezone(zone),
            moment,
        ),
        around,
        apart | st.integers(-40, 40).map(lambda days: days * 86_400 * 10**6),
        st.sampled_from(ZONES),
    )
    return near | st.tuples(moments(), moments())


def ordinal(moment: datetime) -> int:
    """Microseconds on one line for all zones; slow, obvious, no overflow."""
    offset = moment.utcoffset()
    assert offset is not None
    wall = moment.replace(tzinfo=None) - datetime(1, 1, 1)
    return (wall - offset) // timedelta(microseconds=1)


def months_later(moment: datetime, months: int) -> int:
    """The line position `months` calendar months after `moment` in UTC; a day the month lacks runs over."""
    utc = moment.astimezone(UTC)
    year, month = divmod(utc.year * 12 + utc.month - 1 + months, 12)
    first = utc.replace(year=year, month=month + 1, day=1)
    last_day = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    if utc.day > last_day.day:
        return ordinal(
            (last_day + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        )
    return ordinal(first.replace(day=utc.day))


@given(pairs_of_moments())
@example((datetime(2024, 3, 30, 12, tzinfo=ZONES[4]), datetime(2024, 3, 31, 12, tzinfo=ZONES[4])))
@example((datetime(1, 1, 1, tzinfo=ZONES[1]), datetime.max.replace(tzinfo=ZONES[2])))
@example((datetime(2024, 1, 31, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC)))
@example((datetime(2020, 2, 29, tzinfo=UTC), datetime(2021, 2, 28, 23, tzinfo=UTC)))
@example((datetime(2024, 3, 25, tzinfo=UTC), datetime(2024, 3, 31, tzinfo=UTC)))
def test_every_phrase_is_true(pair: tuple[datetime, datetime]) -> None:
    """P13 Relative time. What `list`, `search` and `get` say of a memory's age holds, past, present or future."""
    then, now = pair
    phrase = when(TERMINAL, then, now)
    age = ordinal(now) - ordinal(then)
    if phrase == "just now":
        assert 0 <= age < 60_000_000
        return
    if phrase == "in a moment":
        assert -60_000_000 < age < 0
        return
    assert phrase.endswith(" ago") == (age > 0)
    assert phrase.startswith("in ") == (age < 0)
    match = PHRASE.match(phrase)
    assert match, phrase
    count, unit = int(match[1].replace(",", "")), match[2]
    assert 1 <= count <= MOST[unit]
    assert (f"{match[1]} {unit}s" in phrase) == (count != 1)
    start, end = sorted((then, now), key=ordinal)
    if unit in SECONDS:
        size = SECONDS[unit] * 1_000_000
        assert count * size <= abs(age) < (count + 1) * size
        return
    months = count * (12 if unit == "year" else 1)
    step = 12 if unit == "year" else 1
    if start.year > 2 and end.year < 9990:  # the slow twin stays inside datetime's years
        assert months_later(start, months) <= ordinal(end) < months_later(start, months + step)


def described_seconds(phrase: str) -> float:
    """A phrase's place on the line, later is larger."""
    if phrase in ("just now", "in a moment"):
        return -0.5 if phrase == "just now" else 0.5
    match = PHRASE.match(phrase)
    assert match
    size = {**SECONDS, "month": 28 * 86_400 + 1, "year": 365 * 86_400}[match[2]]
    amount = int(match[1].replace(",", "")) * size
    # Four full weeks may come before or after a full month; months always win when full.
    if match[2] == "week":
        amount = min(amount, 28 * 86_400)
    return float(-amount if phrase.endswith("ago") else amount)


@given(moments(), moments(), moments())
def test_a_later_moment_is_never_described_as_longer_ago(
    one: datetime, other: datetime, now: datetime
) -> None:
    """S1 Relative time is monotone. Of two moments seen from one now, the later is never described as longer ago."""
    earlier, later = sorted((one, other), key=ordinal)
    assert described_seconds(relative_time(earlier, now)) <= described_seconds(
        relative_time(later, now)
    )


@given(moments(), moments())
def test_zones_do_not_matter(then: datetime, now: datetime) -> None:
    """S2 Same moment, same words. Writing either moment in another zone changes nothing."""
    assert time_between(then, now) // timedelta(microseconds=1) == ordinal(now) - ordinal(then)
    if 2 < then.year < 9998 and 2 < now.year < 9998:
        phrase = relative_time(then, now)
        for zone in ZONES:
            assert relative_time(then.astimezone(zone), now.astimezone(UTC)) == phrase
