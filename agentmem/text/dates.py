"""The stretch of time a text means: "8 May 2023", "5. März", "Q1 2026", "last May", "yesterday".

Found by the patterns and words of `data/date_words.json`, never guessed: a phrase
that needs today's date ("last week") gives nothing when `now` is not said, and of
1/2/2026 nobody knows which is the month. The range is used softly, so a wrong guess
costs a little and hides nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

from agentmem.base.types import require_instant
from agentmem.data import patterns_of

P = patterns_of("date_words.json")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """From `start` to before `end`, both in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        require_instant(self.start, "start")
        require_instant(self.end, "end")


@cache
def _numbers(listed: str, first: int = 0, apart: int = 1) -> dict[str, int]:
    """Each word of a list → the number of its line, counted from `first`."""
    lines = enumerate(P.told["words"][listed])
    return {
        word: first + apart * place
        for place, line in lines
        for word in line.replace("\\", "").split("|")
    }


def _period(name: str) -> tuple[int, int]:
    """The number of the first month of a month, season or quarter, and how many it has."""
    if name.isdigit() or name.lower() in _numbers("MONTHS", 1):
        return int(name) if name.isdigit() else _numbers("MONTHS", 1)[name.lower()], 1
    return (_numbers("SEASONS", 3, 3) | _numbers("QUARTERS", 1, 3))[name.lower()], 3


def _step(which: str | None) -> int | None:
    """-1 for a word that says "last", 0 for "this", 1 for "next", None for any other."""
    return _numbers("STEPS", -1).get((which or "").lower())


def find_date_range(text: str, *, now: datetime | None = None) -> DateRange | None:
    """The stretch of time named in `text`, or None; of several, the most exact one.

    "since Monday" reaches to the end of today.
    """
    require_instant(now, "now")
    return _find(text.replace("’", "'"), now)[0]


def _find(text: str, now: datetime | None) -> tuple[DateRange | None, str]:
    told = ""
    try:
        found = _absolute(text, now)
        if found is None and now is not None:
            found, told = _relative(text, _day_of(now))
    except (ValueError, OverflowError):  # the 31st of February, the year 0
        return None, ""
    if found is not None and now is not None and P.since.search(text):
        tomorrow = _day_of(now) + timedelta(days=1)
        if found.start < tomorrow:
            told = told if P.ago.search(text) else ""
            found = DateRange(start=found.start, end=max(found.end, tomorrow))
    return found, told


def _absolute(text: str, now: datetime | None) -> DateRange | None:
    if not any(map(str.isdecimal, text)):
        return None  # no rule below does without a digit, and most questions have none
    for pattern in (
        P.iso, P.dotted, P.slashed, P.slashed_month, P.east, P.day_month, P.month_day,
        P.month_year, P.quarter, P.season_year,
    ):  # fmt: skip
        for found in pattern.finditer(text):
            said = found.groupdict()
            month, length = _period(said["month"])
            day = int(said["day"]) if said.get("day") else None
            year = int(said["year"] or 0)
            if not year and now is not None:  # the last one that there was
                today = _day_of(now)
                year = today.year - ((month, day or 1) > (today.month, today.day))
            if not year or not 1 <= month <= 12 or not (day is None or 1 <= day <= 31):
                continue
            return _months(year, month, length) if day is None else _days(_utc(year, month, day))
    alone = P.year.search(text)
    return None if alone is None else _months(int(alone["year"]), 1, 12)


@cache
def _telling() -> frozenset[str]:
    """The words that end a phrase, one of which stands in every text that names a time."""
    listed = ("DAYS", "WEEKDAYS", "UNITS", "MONTHS", "SEASONS")
    return frozenset(_WORD.findall(word)[-1] for one in listed for word in _numbers(one)) | {"ago"}


def _relative(text: str, today: datetime) -> tuple[DateRange | None, str]:
    if text.isascii() and _telling().isdisjoint(_WORD.findall(text.lower())):
        return None, ""
    if found := P.day_word.search(text):
        return _days(today, after=_numbers("DAYS", -2)[found[0].lower()]), ""
    if found := P.ago.search(text):
        return _ago(today, found["count"].lower(), found["unit"].lower())
    for found in P.weekday.finditer(text):
        if which := found["after"] or found["which"]:
            away = (_numbers("WEEKDAYS")[found["weekday"].lower()] - today.weekday()) % 7
            coming = _step(which) == 1
            day = _days(today, after=away or 7 if coming else away - 7)
            return day, f"the {day.start:%A} {'after' if coming else 'before'}"
    if found := P.unit.search(text):
        step = _step(found["which"] or found["which2"]) or 0
        line = _numbers("UNITS")[(found["unit"] or found["unit2"]).lower()]
        return _unit(today, step, P.told["words"]["UNITS"][line].partition("|")[0])
    for pattern in (P.month_step, P.named_month, P.named_season):
        if found := pattern.search(text):
            return _named(today, found["month"], _step(found["which"])), ""
    return None, ""


def _ago(today: datetime, count: str, unit: str) -> tuple[DateRange, str]:
    number = _numbers("COUNTS", 1).get(count) or int(count)
    days, slack = {"day": (1, 0), "week": (7, 3), "month": (30, 15), "year": (365, 183)}[unit]
    range_ = _days(today, after=-days * number - slack, count=2 * slack + 1)
    word = "one" if count in ("a", "an") else count
    return range_, "" if unit == "day" else f"{word} {unit}{'s' * (number > 1)} before"


def _unit(today: datetime, step: int, unit: str) -> tuple[DateRange, str]:
    if unit == "year":
        return _months(today.year + step, 1, 12), ""
    if unit == "month":
        return _months(today.year, today.month + step), ""
    days = 2 if unit == "weekend" else 7
    sunday = 7 * (step + 1) - today.weekday()
    range_ = _days(today, after=sunday - days, count=days)
    return range_, f"the {unit} {('of', 'after', 'before')[step]}"


def _named(today: datetime, name: str, step: int | None) -> DateRange | None:
    """ "last May", "im März", "marzo pasado", "this summer"."""
    if name in ("may", "mar", "mars", "march") and step is None:
        return None  # "of may" and "in may" written small are too often the verb
    month, length = _period(name)
    year = today.year - (month > today.month) + (step == 1)
    if step == 0 and length == 1:
        year = today.year  # of a season that is to come this year people say "next"
    found = _months(year, month, length)
    return _months(year - 1, month, length) if step == -1 and found.end > today else found


# ----------------------------------------------------------------------------
# When something was that somebody told on a certain day.


def tell_when(text: str, *, said_on: date) -> str | None:
    """What a text that was said on a day means by "yesterday" or "last week", in words.

    "7 May 2023", "the week before 9 June 2023", "June 2023"; None when it
    names no time, or says it without need of that day.
    """
    read = text.replace("’", "'")
    found, told = _find(read, datetime(said_on.year, said_on.month, said_on.day, 12, tzinfo=UTC))
    if found is None or _find(read, None)[0] is not None:
        return None
    if told:
        return f"{told} {say_day(said_on)}"
    days = (found.end - found.start).days
    if days == 1:
        return say_day(found.start.date())
    if found.start.day == 1 and days <= 31:
        return f"{found.start:%B %Y}"
    if (found.start.month, found.start.day) == (1, 1) and days >= 365:
        return str(found.start.year)
    return f"{say_day(found.start.date())} to {say_day(found.end.date() - timedelta(days=1))}"


def say_day(day: date) -> str:
    """A day in words: "7 May 2023"."""
    return f"{day.day} {day:%B %Y}"


def _day_of(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _utc(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


def _days(day: datetime, *, after: int = 0, count: int = 1) -> DateRange:
    start = day + timedelta(days=after)
    return DateRange(start=start, end=start + timedelta(days=count))


def _months(year: int, month: int, count: int = 1) -> DateRange:
    """So many months from one on, which may be the 0th or the 13th of a year."""
    first = 12 * year + month - 1
    start, end = (_utc(at // 12, at % 12 + 1, 1) for at in (first, first + count))
    return DateRange(start=start, end=end)
