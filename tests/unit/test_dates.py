"""Dates in questions."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.text.dates import DateRange, find_date_range

NOW = datetime(2026, 3, 15, 10, 30, tzinfo=UTC)  # a Sunday


def found(text: str, now: datetime | None = NOW) -> tuple[date, date] | None:
    dates = find_date_range(text, now=now)
    return None if dates is None else (dates.start.date(), dates.end.date())


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("on 8 May 2023", (2023, 5, 8), (2023, 5, 9)),
        ("May 8th, 2023?", (2023, 5, 8), (2023, 5, 9)),
        ("2023-05-08", (2023, 5, 8), (2023, 5, 9)),
        ("in May 2023", (2023, 5, 1), (2023, 6, 1)),
        ("in December of 2023", (2023, 12, 1), (2024, 1, 1)),
        ("in 2022", (2022, 1, 1), (2023, 1, 1)),
        ("the summer of 2021", (2021, 6, 1), (2021, 9, 1)),
        ("winter 2021", (2021, 12, 1), (2022, 3, 1)),
        ("last May", (2025, 5, 1), (2025, 6, 1)),
        ("last March", (2025, 3, 1), (2025, 4, 1)),
        ("this March", (2026, 3, 1), (2026, 4, 1)),
        ("next January", (2027, 1, 1), (2027, 2, 1)),
        ("on 20 December", (2025, 12, 20), (2025, 12, 21)),
        ("yesterday", (2026, 3, 14), (2026, 3, 15)),
        ("today", (2026, 3, 15), (2026, 3, 16)),
        ("tomorrow", (2026, 3, 16), (2026, 3, 17)),
        ("last week", (2026, 3, 2), (2026, 3, 9)),
        ("last weekend", (2026, 3, 7), (2026, 3, 9)),
        ("last month", (2026, 2, 1), (2026, 3, 1)),
        ("this year", (2026, 1, 1), (2027, 1, 1)),
        ("last year", (2025, 1, 1), (2026, 1, 1)),
        ("two days ago", (2026, 3, 13), (2026, 3, 14)),
        ("3 weeks ago", (2026, 2, 19), (2026, 2, 26)),
        ("last Friday", (2026, 3, 13), (2026, 3, 14)),
        ("on Sunday", (2026, 3, 8), (2026, 3, 9)),
        ("last summer", (2025, 6, 1), (2025, 9, 1)),
    ],
)
def test_dates_are_read(text: str, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    assert found(f"What did Ada do {text}?") == (date(*start), date(*end))


@pytest.mark.parametrize(
    "text", ["", "what may happen", "31 February 2024", "room 2500", "in may be", "99 May", "soon"]
)
def test_what_is_no_date_gives_none(text: str) -> None:
    assert found(text) is None


def test_relative_dates_need_to_know_the_day() -> None:
    for text in ("yesterday", "last May", "last week", "on 20 December"):
        assert found(text, now=None) is None
    assert found("8 May 2023", now=None) == (date(2023, 5, 8), date(2023, 5, 9))


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidInput):
        find_date_range("yesterday", now=datetime(2026, 1, 1))
    with pytest.raises(InvalidInput):
        DateRange(start=datetime(2026, 1, 1), end=datetime(2026, 1, 2))


def test_the_ends_of_the_calendar_do_not_raise() -> None:
    for now in (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)):
        for text in (
            "yesterday",
            "tomorrow",
            "last year",
            "next year",
            "999 years ago",
            "last May",
        ):
            find_date_range(text, now=now)
