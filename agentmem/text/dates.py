"""The stretch of time a question means: "8 May 2023", "in 2022", "last May", "yesterday".

Found by plain English patterns, never guessed: a phrase that needs today's
date ("last week") gives nothing when `now` is not said. The range is used
softly, so a wrong guess costs a little and hides nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from agentmem.base.lazy import compile_late
from agentmem.base.types import require_instant

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}

_ISO = compile_late(r"\b(?P<year>(?:19|20)\d\d)-(?P<month>\d\d)(?:-(?P<day>\d\d))?\b")
_DAY_MONTH = compile_late(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?\b", re.IGNORECASE)
_MONTH_DAY = compile_late(rf"\b{_MONTH} {_DAY}(?!\d)(?:,? {_YEAR})?\b", re.IGNORECASE)
_MONTH_YEAR = compile_late(rf"\b{_MONTH},?(?: of)? {_YEAR}\b", re.IGNORECASE)
_LAST_MONTH_NAMED = compile_late(
    rf"\b(?P<which>last|this|next|in|during|since|of|early|late|mid)[ -]{_MONTH}\b", re.IGNORECASE
)
_SEASON = compile_late(
    rf"\b(?:(?P<which>last|this|next|in|the) )?(?:the )?"
    rf"(?P<season>spring|summer|autumn|fall|winter)(?: of)?(?: {_YEAR})?\b",
    re.IGNORECASE,
)
_YEAR_ALONE = compile_late(rf"\b{_YEAR}\b")
_DAY_WORD = compile_late(r"\b(?P<word>today|tonight|yesterday|tomorrow)\b", re.IGNORECASE)
_UNIT = compile_late(
    r"\b(?P<which>last|this|next|past|previous) (?P<unit>week|weekend|month|year)\b", re.IGNORECASE
)
_AGO = compile_late(
    r"\b(?P<count>\d{1,3}|an?|one|two|three|four|five|six) (?P<unit>day|week|month|year)s? ago\b",
    re.IGNORECASE,
)
_WEEKDAY = compile_late(rf"\b(?P<which>last|on|this) (?P<weekday>{'|'.join(_WEEKDAYS)})\b", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateRange:
    """From `start` to before `end`, both in UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        require_instant(self.start, "start")
        require_instant(self.end, "end")


def find_date_range(text: str, *, now: datetime | None = None) -> DateRange | None:
    """The stretch of time named in `text`, or None; of several, the most exact one."""
    require_instant(now, "now")
    try:
        return _absolute(text, now) or (None if now is None else _relative(text, now))
    except (ValueError, OverflowError):  # the 31st of February, the year 0
        return None


def _absolute(text: str, now: datetime | None) -> DateRange | None:
    if not any(map(str.isdecimal, text)):
        return None  # no rule below does without a digit, and most questions have none
    for pattern in (_ISO, _DAY_MONTH, _MONTH_DAY, _MONTH_YEAR):
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
    for found in _SEASON.finditer(text):
        if found["year"]:
            return _season_range(int(found["year"]), found["season"].lower())
    if year_alone := _YEAR_ALONE.search(text):
        year = int(year_alone["year"])
        return DateRange(start=_utc(year, 1, 1), end=_utc(year + 1, 1, 1))
    return None


def _relative(text: str, now: datetime) -> DateRange | None:
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    if found := _DAY_WORD.search(text):
        offset = {"yesterday": -1, "tomorrow": 1}.get(found["word"].lower(), 0)
        return DateRange(start=today + offset * day, end=today + (offset + 1) * day)
    if found := _AGO.search(text):
        count = _NUMBERS.get(found["count"].lower()) or int(found["count"])
        return _ago(today, count, found["unit"].lower())
    if found := _WEEKDAY.search(text):
        back = (today.weekday() - _WEEKDAYS.index(found["weekday"].lower())) % 7
        start = today - (back or 7) * day
        return DateRange(start=start, end=start + day)
    if found := _UNIT.search(text):
        step = {"this": 0, "next": 1}.get(found["which"].lower(), -1)
        return _unit_range(today, step, found["unit"].lower())
    if found := _LAST_MONTH_NAMED.search(text):
        month = _month_number(found["month"])
        which = found["which"].lower()
        if month == 5 and not found["month"][0].isupper() and which not in ("last", "this", "next"):
            return None  # "of may" and "in may" written small are too often the verb
        year = _nearest_past_year(month, 1, now)
        if which == "this":
            year = today.year
        elif which == "next":
            year = today.year if month > today.month else today.year + 1
        elif which == "last" and (year, month) == (today.year, today.month):
            year -= 1
        return _month_range(year, month)
    if (found := _SEASON.search(text)) and found["which"]:
        season = found["season"].lower()
        year = today.year + {"next": 1}.get(found["which"].lower(), 0)
        while _season_range(year, season).start > today and found["which"].lower() != "next":
            year -= 1
        if found["which"].lower() == "last" and _season_range(year, season).end > today:
            year -= 1
        return _season_range(year, season)
    return None


def _month_number(name: str) -> int:
    if name.isdigit():
        return int(name)
    return 1 + next(i for i, month in enumerate(MONTHS) if month.startswith(name.lower()[:3]))


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
