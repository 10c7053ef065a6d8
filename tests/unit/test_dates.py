"""Dates in questions."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.text.dates import DateRange, find_date_range, tell_when

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
        ("on 08.05.2023", (2023, 5, 8), (2023, 5, 9)),
        ("am 8. 5. 2023", (2023, 5, 8), (2023, 5, 9)),
        ("on 31/12/2023", (2023, 12, 31), (2024, 1, 1)),
        ("on 12/31/2023", (2023, 12, 31), (2024, 1, 1)),
        ("the day before yesterday", (2026, 3, 13), (2026, 3, 14)),
        ("the day after tomorrow", (2026, 3, 17), (2026, 3, 18)),
        ("since Monday", (2026, 3, 9), (2026, 3, 16)),
        ("since last May", (2025, 5, 1), (2026, 3, 16)),
        ("since 2024", (2024, 1, 1), (2026, 3, 16)),
        ("in Q1 2026", (2026, 1, 1), (2026, 4, 1)),
        ("in Q4", (2025, 10, 1), (2026, 1, 1)),
        ("in the third quarter of 2024", (2024, 7, 1), (2024, 10, 1)),
        ("im 2. Quartal 2025", (2025, 4, 1), (2025, 7, 1)),
        ("am 5. März 2025", (2025, 3, 5), (2025, 3, 6)),
        ("im Dezember", (2025, 12, 1), (2026, 1, 1)),
        ("vorgestern", (2026, 3, 13), (2026, 3, 14)),
        ("letzte Woche", (2026, 3, 2), (2026, 3, 9)),
        ("seit Montag", (2026, 3, 9), (2026, 3, 16)),
        ("el 5 de marzo de 2025", (2025, 3, 5), (2025, 3, 6)),
        ("en enero", (2026, 1, 1), (2026, 2, 1)),
        ("la semana pasada", (2026, 3, 2), (2026, 3, 9)),
        ("le 14 juillet 2025", (2025, 7, 14), (2025, 7, 15)),
        ("en août", (2025, 8, 1), (2025, 9, 1)),
        ("hier", (2026, 3, 14), (2026, 3, 15)),
        ("le mois dernier", (2026, 2, 1), (2026, 3, 1)),
        ("lundi dernier", (2026, 3, 9), (2026, 3, 10)),
        ("em fevereiro", (2026, 2, 1), (2026, 3, 1)),
        ("anteontem", (2026, 3, 13), (2026, 3, 14)),
        ("il 3 settembre 2025", (2025, 9, 3), (2025, 9, 4)),
        ("l'altro ieri", (2026, 3, 13), (2026, 3, 14)),
        ("2025年3月5日", (2025, 3, 5), (2025, 3, 6)),
        ("3月5日", (2026, 3, 5), (2026, 3, 6)),
        ("昨天", (2026, 3, 14), (2026, 3, 15)),
        ("一昨日", (2026, 3, 13), (2026, 3, 14)),
    ],
)
def test_dates_are_read(text: str, start: tuple[int, int, int], end: tuple[int, int, int]) -> None:
    assert found(f"What did Ada do {text}?") == (date(*start), date(*end))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what may happen",
        "31 February 2024",
        "room 2500",
        "in may be",
        "99 May",
        "soon",
        "version 1.2.2024a",
        "on 1/2/2026 or so"[:9],
        "a mars bar",
        "the Q5",
        "to the Monday club",
    ],
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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("I went to a support group yesterday", "14 March 2026"),
        ("we ran a race last Saturday", "the Saturday before 15 March 2026"),
        ("we went camping last week", "the week before 15 March 2026"),
        ("a picnic last weekend", "the weekend before 15 March 2026"),
        ("it was two weeks ago", "two weeks before 15 March 2026"),
        ("a year ago she left", "one year before 15 March 2026"),
        ("three days ago", "12 March 2026"),
        ("I'm going next month", "April 2026"),
        ("I did that last year", "2025"),
        ("my birthday is on 3 May", "3 May 2025"),
        ("vorgestern war ich dort", "13 March 2026"),
        ("it opened on 3 May 2024", None),
        ("we talked a lot", None),
    ],
)
def test_what_was_told_on_a_day_says_when_it_was(text: str, told: str | None) -> None:
    assert tell_when(text, said_on=NOW.date()) == told


@pytest.mark.parametrize(
    "text",
    [
        "LAST May", "the day before yesterday", "next week", "la semana pasada", "on Monday",
        "since last Tuesday", "marzo pasado", "im Januar", "in may", "what about it",
    ],
)  # fmt: skip
def test_a_text_that_is_looked_at_closer_means_the_same(text: str) -> None:
    assert found(text) == found(f"{text} \N{EM DASH}")  # not ASCII: every pattern is asked
