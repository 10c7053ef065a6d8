"""Worked examples of relative time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.base.time import relative_time

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "phrase"),
    [
        (0, "just now"),
        (59.999999, "just now"),
        (60, "1 minute ago"),
        (5 * 60 + 59, "5 minutes ago"),
        (3600, "1 hour ago"),
        (86_399, "23 hours ago"),
        (86_400, "1 day ago"),
        (6.9 * 86_400, "6 days ago"),
        (7 * 86_400, "1 week ago"),
        (27 * 86_400, "3 weeks ago"),
        (28 * 86_400, "1 month ago"),
        (100 * 86_400, "3 months ago"),
        (366 * 86_400, "1 year ago"),
        (-0.000001, "in a moment"),
        (-60, "in 1 minute"),
        (-3 * 3600, "in 3 hours"),
        (-40 * 86_400, "in 1 month"),
        (-800 * 86_400, "in 2 years"),
    ],
)
def test_phrases(seconds: float, phrase: str) -> None:
    assert relative_time(NOW - timedelta(seconds=seconds), NOW) == phrase


def test_an_hour_lost_to_daylight_saving_is_not_counted() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    noon = datetime(2024, 3, 31, 12, tzinfo=berlin)
    assert relative_time(datetime(2024, 3, 30, 12, tzinfo=berlin), noon) == "23 hours ago"


def test_the_ends_of_the_calendar_have_words() -> None:
    first = datetime.min.replace(tzinfo=ZoneInfo("Asia/Tokyo"))
    last = datetime.max.replace(tzinfo=ZoneInfo("America/New_York"))
    assert relative_time(first, last) == "9,999 years ago"
    assert relative_time(last, first) == "in 9,999 years"


class Silent(tzinfo):
    """A zone that knows no offset."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    def dst(self, moment: datetime | None) -> None:
        return None

    def tzname(self, moment: datetime | None) -> str:
        return "silent"


@pytest.mark.parametrize(
    "bad", [datetime(2026, 1, 1), None, "now", date(2026, 1, 1), NOW.replace(tzinfo=Silent())]
)
def test_a_moment_without_a_zone_is_refused(bad: datetime) -> None:
    with pytest.raises(InvalidInput, match="then"):
        relative_time(bad, NOW)
    with pytest.raises(InvalidInput, match="now"):
        relative_time(NOW, bad)
