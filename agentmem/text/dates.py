"""The stretch of time a text means: "8 May 2023", "5. März", "Q1 2026", "last May", "yesterday".

Found by plain patterns over the words of `data/date_words.json`, never guessed: a
phrase that needs today's date ("last week") gives nothing when `now` is not said.
The range is used softly, so a wrong guess costs a little and hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

from agentmem.base.lazy import compile_late
from agentmem.base.types import require_instant
from agentmem.data import read_json

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}

_WORD = compile_late(r"\w+")
_ISO = compile_late(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
# 31.12.2026 and 31/12/2026; of 1/2/2026 nobody knows which is the month.
_DOTTED = compile_late(rf"\b(?P<day>\d{{1,2}})\.\s?(?P<month>\d{{1,2}})\.\s?{_YEAR}\b")
_SLASHED = compile_late(rf"\b(?P<day>1[3-9]|2\d|3[01])/(?P<month>\d{{1,2}})/{_YEAR}\b")
_SLASHED_MONTH = compile_late(rf"\b(?P<month>\d{{1,2}})/(?P<day>1[3-9]|2\d|3[01])/{_YEAR}\b")
# 2026年3月5日, 3月5日, 2026年3月
_EAST = compile_late(
    r"(?:(?P<year>(?:19|20)\d\d)\s?年)?\s?(?P<month>\d{1,2})\s?月(?:\s?(?P<day>\d{1,2})\s?[日号])?"
)
_QUARTER = compile_late(
    r"\bQ(?P<quarter>[1-4])(?:[ /-]?(?P<year>(?:19|20)\d\d))?\b"
    r"|\b(?P<word>first|second|third|fourth) quarter(?:(?: of)? (?P<year2>(?:19|20)\d\d))?\b"
    r"|\b(?P<ordinal>[1-4])\. Quartal(?: (?P<year3>(?:19|20)\d\d))?\b",
    re.IGNORECASE,
)
_SEASON = compile_late(
    rf"\b(?:(?P<which>last|this|next|in|the) )?(?:the )?"
    rf"(?P<season>spring|summer|autumn|fall|winter)(?: of)?(?: {_YEAR})?\b",
    re.IGNORECASE,
)
_YEAR_ALONE = compile_late(rf"(?<![\d.,]){_YEAR}(?![\d]|[.,]\d)")
_AGO = compile_late(
    r"\b(?P<count>\d{1,3}|an?|one|two|three|four|five|six) (?P<unit>day|week|month|year)s? ago\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """From `start` to before `end`, both in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        require_instant(self.start, "start")
        require_instant(self.end, "end")


class _Patterns:
    """The patterns that are made of words in several languages, and what the words mean."""

    def __init__(self) -> None:
        table: dict[str, Any] = read_json("date_words.json")
        self.months = _numbered(enumerate(table["months"], 1))
        self.weekdays = _numbered(enumerate(table["weekdays"]))
        self.days = _numbered((int(number), listed) for number, listed in table["days"].items())
        self.units = {w: unit for unit, listed in table["units"].items() for w in listed.split("|")}
        self.steps = _numbered(((-1, table["last"]), (0, table["this"]), (1, table["next"])))
        month = rf"(?P<month>{_any(self.months)})\.?"
        day = r"(?P<day>\d{1,2})(?:st|nd|rd|th|\.|º|er)?"
        year = rf"(?:,? (?:of |de |del )?{_YEAR})?"
        since, within = table["since"].split("|"), table["in"].split("|")
        step, unit = _any(self.steps), _any(self.units)
        which = rf"(?P<which>{_any((*self.steps, *since, *within))})"
        east = {word for word in self.days if ord(word[0]) > 0x3000}
        spaced = {word for word in self.days if word[0].isalpha() or word.isascii()} - east
        self.day_month = _compiled(rf"\b{day}(?: of| de| di)? {month}{year}(?!\w)")
        self.month_day = _compiled(rf"\b{month} {day}(?!\d){year}(?!\w)")
        self.month_year = _compiled(rf"\b{month},?(?: of| de| del)? {_YEAR}\b")
        self.named_month = _compiled(rf"\b{which}[ -]{month}(?!\w)")
        self.month_last = _compiled(rf"\b{month} (?P<which>{step})(?!\w)")
        self.day_word = _compiled(rf"(?<!\w)(?:{_any(spaced)})(?!\w)|(?:{_any(east)})")
        self.weekday = _compiled(
            rf"\b(?:{which} )?(?P<weekday>{_any(self.weekdays)})(?: (?P<after>{step}))?(?!\w)"
        )
        self.unit = _compiled(
            rf"\b(?:(?P<which>{step}) (?P<unit>{unit})"
            rf"|(?P<unit2>{unit}) (?P<which2>{step}))(?!\w)"
        )
        self.since = _compiled(rf"\b(?:{_any(since)})\b[ ']")
        # The first words of what is listed: a text without them is told without a pattern.
        self.heads = {
            name: frozenset(_WORD.findall(word.lower())[0] for word in getattr(self, name))
            for name in ("days", "months", "weekdays", "units", "steps")
        }


_words = cache(_Patterns)


def _compiled(pattern: str) -> re.Pattern[str]:
    return compile_late(pattern, re.IGNORECASE)  # each is long, and few texts need any


def _numbered(listed: Iterable[tuple[int, str]]) -> dict[str, int]:
    return {word: number for number, words in listed for word in words.split("|")}


def _any(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(set(words), key=lambda word: (-len(word), word))))


def find_date_range(text: str, *, now: datetime | None = None) -> DateRange | None:
    """The stretch of time named in `text`, or None; of several, the most exact one.

    "since Monday" reaches to the end of today.
    """
    require_instant(now, "now")
    text = text.replace("’", "'")
    try:
        found = _absolute(text, now) or (None if now is None else _relative(text, now))
    except (ValueError, OverflowError):  # the 31st of February, the year 0
        return None
    if found is not None and now is not None and _words().since.search(text):
        tomorrow = _day_of(now) + timedelta(days=1)
        if found.start < tomorrow:
            return DateRange(start=found.start, end=max(found.end, tomorrow))
    return found


def _absolute(text: str, now: datetime | None) -> DateRange | None:
    if not any(map(str.isdecimal, text)):
        return None  # no rule below does without a digit, and most questions have none
    words = _words()
    for pattern in (
        _ISO, _DOTTED, _SLASHED, _SLASHED_MONTH, _EAST, words.day_month, words.month_day,
        words.month_year,
    ):  # fmt: skip
        for found in pattern.finditer(text):
            parts = found.groupdict()
            month = _month_number(parts["month"])
            day = int(parts["day"]) if parts.get("day") else None
            year = int(parts["year"]) if parts.get("year") else None
            if year is None and now is not None:
                year = _nearest_past_year(month, day or 1, now)
            if year is None or (day is not None and not 1 <= day <= 31) or not 1 <= month <= 12:
                continue
            return _day_range(year, month, day) if day else _month_range(year, month)
    if (quarter := _quarter(text, now)) is not None:
        return quarter
    for found in _SEASON.finditer(text):
        if found["year"]:
            return _season_range(int(found["year"]), found["season"].lower())
    if year_alone := _YEAR_ALONE.search(text):
        year = int(year_alone["year"])
        return DateRange(start=_utc(year, 1, 1), end=_utc(year + 1, 1, 1))
    return None


def _quarter(text: str, now: datetime | None) -> DateRange | None:
    found = _QUARTER.search(text)
    if found is None:
        return None
    ordinals = {"first": 1, "second": 2, "third": 3, "fourth": 4}
    number = int(found["quarter"] or found["ordinal"] or ordinals[(found["word"] or "").lower()])
    month = 3 * number - 2
    said = found["year"] or found["year2"] or found["year3"]
    if said is None and now is None:
        return None
    year = int(said) if said else _nearest_past_year(month, 1, now or _utc(1, 1, 1))
    return DateRange(start=_utc(year, month, 1), end=_utc(*_month_later(year, month + 2), 1))


def _relative(text: str, now: datetime) -> DateRange | None:
    today = _day_of(now)
    day = timedelta(days=1)
    words = _words()
    said = frozenset(_WORD.findall(text.lower()))

    def says(*listed: str) -> bool:
        return not text.isascii() or not any(said.isdisjoint(words.heads[one]) for one in listed)

    if says("days") and (found := words.day_word.search(text)):
        offset = words.days[found[0].lower()]
        return DateRange(start=today + offset * day, end=today + (offset + 1) * day)
    if found := _AGO.search(text):
        count = _NUMBERS.get(found["count"].lower()) or int(found["count"])
        return _ago(today, count, found["unit"].lower())
    for found in words.weekday.finditer(text) if says("weekdays") else ():
        if found["which"] is None and found["after"] is None:
            continue
        wanted = words.weekdays[found["weekday"].lower()]
        step = words.steps.get((found["after"] or found["which"]).lower(), -1)
        if step == 1:
            start = today + ((wanted - today.weekday()) % 7 or 7) * day
        else:
            start = today - ((today.weekday() - wanted) % 7 or 7) * day
        return DateRange(start=start, end=start + day)
    if says("units", "steps") and (found := words.unit.search(text)):
        step = words.steps[(found["which"] or found["which2"]).lower()]
        return _unit_range(today, step, words.units[(found["unit"] or found["unit2"]).lower()])
    if says("months"):
        for found in (*words.month_last.finditer(text), *words.named_month.finditer(text)):
            return _named_month(found, now)
    if (found := _SEASON.search(text)) and found["which"]:
        season = found["season"].lower()
        year = today.year + {"next": 1}.get(found["which"].lower(), 0)
        while _season_range(year, season).start > today and found["which"].lower() != "next":
            year -= 1
        if found["which"].lower() == "last" and _season_range(year, season).end > today:
            year -= 1
        return _season_range(year, season)
    return None


def _named_month(found: re.Match[str], now: datetime) -> DateRange | None:
    """ "last May", "im März", "marzo pasado"."""
    today = _day_of(now)
    month = _month_number(found["month"])
    which = found["which"].lower()
    step = _words().steps.get(which)
    if found["month"] in ("may", "mar", "mars", "march") and step is None:
        return None  # "of may" and "in may" written small are too often the verb
    year = _nearest_past_year(month, 1, now)
    if step == 0:
        year = today.year
    elif step == 1:
        year = today.year if month > today.month else today.year + 1
    elif step == -1 and (year, month) == (today.year, today.month):
        year -= 1
    return _month_range(year, month)


# ----------------------------------------------------------------------------
# When something was that somebody told on a certain day.


def tell_when(text: str, *, said_on: date) -> str | None:
    """What a text that was said on a day means by "yesterday" or "last week", in words.

    "7 May 2023", "the week before 9 June 2023", "June 2023"; None when it
    names no time, or says it without need of that day.
    """
    now = datetime(said_on.year, said_on.month, said_on.day, 12, tzinfo=UTC)
    if find_date_range(text) is not None:
        return None
    read = text.replace("’", "'")
    found = find_date_range(read, now=now)
    if found is None:
        return None
    words = _words()
    said = say_day(said_on)
    days = (found.end - found.start).days
    if not words.day_word.search(read):
        if (ago := _AGO.search(read)) and ago["unit"].lower() != "day":
            count = ago["count"].lower()
            number = {"a": "one", "an": "one"}.get(count, count)
            unit = ago["unit"].lower() + ("" if number in ("1", "one") else "s")
            return f"{number} {unit} before {said}"
        if days == 1 and (weekday := words.weekday.search(read)):
            name = found.start.strftime("%A")
            which = (weekday["after"] or weekday["which"] or "").lower()
            return f"the {name} {'after' if words.steps.get(which) == 1 else 'before'} {said}"
        if days in (2, 7) and (unit_said := words.unit.search(read)):
            step = words.steps[(unit_said["which"] or unit_said["which2"]).lower()]
            unit = words.units[(unit_said["unit"] or unit_said["unit2"]).lower()]
            return f"the {unit} {('of', 'after', 'before')[step]} {said}"
    if days == 1:
        return say_day(found.start.date())
    if found.start.day == 1 and days <= 31:
        return found.start.strftime("%B %Y").strip()
    if (found.start.month, found.start.day) == (1, 1) and days >= 365:
        return str(found.start.year)
    return f"{say_day(found.start.date())} to {say_day(found.end.date() - timedelta(days=1))}"


def say_day(day: date) -> str:
    """A day in words: "7 May 2023"."""
    return f"{day.day} {MONTHS[day.month - 1].title()} {day.year}"


def _day_of(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _month_number(name: str) -> int:
    return int(name) if name.isdigit() else _words().months[name.lower()]


def _nearest_past_year(month: int, day: int, now: datetime) -> int:
    now = now.astimezone(UTC)
    return now.year if (month, day) <= (now.month, now.day) else now.year - 1


def _utc(year: int, month: int, day: int) -> datetime:
    return datetime(year, month, day, tzinfo=UTC)


def _day_range(year: int, month: int, day: int) -> DateRange:
    start = _utc(year, month, day)
    return DateRange(start=start, end=start + timedelta(days=1))


def _month_range(year: int, month: int) -> DateRange:
    return DateRange(start=_utc(year, month, 1), end=_utc(*_month_later(year, month), 1))


def _month_later(year: int, month: int) -> tuple[int, int]:
    return (year + 1, 1) if month == 12 else (year, month + 1)


def _season_range(year: int, season: str) -> DateRange:
    month = _SEASONS[season]
    end = (year + 1, 3) if season == "winter" else (year, month + 3)
    return DateRange(start=_utc(year, month, 1), end=_utc(*end, 1))


def _unit_range(today: datetime, step: int, unit: str) -> DateRange:
    if unit == "year":
        return DateRange(start=_utc(today.year + step, 1, 1), end=_utc(today.year + step + 1, 1, 1))
    if unit == "month":
        months = today.year * 12 + today.month - 1 + step
        return _month_range(months // 12, months % 12 + 1)
    monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
    first = monday + timedelta(days=5 if unit == "weekend" else 0)
    return DateRange(start=first, end=monday + timedelta(weeks=1))


def _ago(today: datetime, count: int, unit: str) -> DateRange:
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit]
    middle = today - timedelta(days=days * count)
    slack = timedelta(days={"day": 0, "week": 3, "month": 15, "year": 183}[unit])
    return DateRange(start=middle - slack, end=middle + slack + timedelta(days=1))
