"""Numbers with units, dates, times and versions as they are written, and whether two agree.

"1,000", "1k" and "one thousand" are one number; "15 minutes" and "900 seconds"
are one length of time; "3 May" agrees with "May 3rd, 2024"; version 15 agrees
with 15.2. "About 100" leaves a tenth of room, "at least 100" leaves all above.
"""

from __future__ import annotations

import math
import re
from typing import Literal

from agentmem.core.dates import MONTHS
from agentmem.core.values import dataclass

ValueKind = Literal["number", "date", "time", "version"]
Comparison = Literal["exact", "about", "least", "most"]

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Value:
    """One typed value in a statement; what the fields hold depends on `kind`.

    number: `low` to `high` in the base of `unit`. date: `parts` are year, month,
    day and weekday, None where unsaid, and 1 when day and month may be swapped.
    time: `low` and `high` are minutes after midnight.
    version: `parts` are its numbers and `unit` the name before it.
    """

    kind: ValueKind
    shown: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    label: str = ""
    comparison: Comparison = "exact"
    parts: tuple[int | None, ...] = ()
    raw: float = 0.0


_SECONDS = {
    "ms": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3, "msec": 1e-3,
    "us": 1e-6, "µs": 1e-6, "microsecond": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "nanosecond": 1e-9, "nanoseconds": 1e-9,
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "min": 60.0, "mins": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hrs": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "day": 86400.0, "days": 86400.0, "week": 604800.0, "weeks": 604800.0,
    "wk": 604800.0, "wks": 604800.0, "fortnight": 1209600.0,
    "month": 2629746.0, "months": 2629746.0,
    "year": 31556952.0, "years": 31556952.0, "yr": 31556952.0, "yrs": 31556952.0,
    "decade": 315569520.0, "decades": 315569520.0,
}  # fmt: skip
_BYTES = {
    "b": 1.0, "byte": 1.0, "bytes": 1.0, "kb": 1024.0, "kib": 1024.0, "kilobytes": 1024.0,
    "mb": 1024.0**2, "mib": 1024.0**2, "megabyte": 1024.0**2, "megabytes": 1024.0**2,
    "gb": 1024.0**3, "gib": 1024.0**3, "gigabyte": 1024.0**3, "gigabytes": 1024.0**3,
    "tb": 1024.0**4, "tib": 1024.0**4, "terabyte": 1024.0**4, "terabytes": 1024.0**4,
}  # fmt: skip
_METRES = {
    "mm": 1e-3, "millimeter": 1e-3, "millimeters": 1e-3, "millimetres": 1e-3,
    "cm": 1e-2, "centimeter": 1e-2, "centimeters": 1e-2, "centimetres": 1e-2,
    "meter": 1.0, "meters": 1.0, "metre": 1.0, "metres": 1.0,
    "km": 1e3, "kilometer": 1e3, "kilometers": 1e3, "kilometre": 1e3, "kilometres": 1e3,
    "mile": 1609.344, "miles": 1609.344, "mi": 1609.344, "ft": 0.3048, "foot": 0.3048,
    "feet": 0.3048, "inch": 0.0254, "inches": 0.0254, "yard": 0.9144, "yards": 0.9144,
}  # fmt: skip
_GRAMS = {
    "mg": 1e-3, "g": 1.0, "gram": 1.0, "grams": 1.0, "kg": 1e3, "kgs": 1e3, "kilo": 1e3,
    "kilos": 1e3, "kilogram": 1e3, "kilograms": 1e3, "lb": 453.592, "lbs": 453.592,
    "pound": 453.592, "pounds": 453.592, "ton": 1e6, "tons": 1e6, "tonne": 1e6, "tonnes": 1e6,
    "oz": 28.3495, "ounce": 28.3495, "ounces": 28.3495,
}  # fmt: skip
_MONEY = {
    "dollar": "usd", "dollars": "usd", "usd": "usd", "bucks": "usd", "$": "usd", "euro": "eur",
    "euros": "eur", "eur": "eur", "€": "eur", "gbp": "gbp", "£": "gbp", "sterling": "gbp",
    "yen": "jpy", "jpy": "jpy", "¥": "jpy", "rupees": "inr", "inr": "inr", "₹": "inr",
    "francs": "chf", "chf": "chf",
}  # fmt: skip
_SCALES = {
    "k": 1e3, "thousand": 1e3, "m": 1e6, "mm": 1e6, "mn": 1e6, "million": 1e6, "millions": 1e6,
    "b": 1e9, "bn": 1e9, "billion": 1e9, "billions": 1e9, "trillion": 1e12, "tn": 1e12,
    "hundred": 1e2, "thousands": 1e3, "dozen": 12.0,
}  # fmt: skip
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL_NUMBERS = {word: float(value) for value, word in enumerate(_ONES.split())} | {
    word: 10.0 * (value + 2) for value, word in enumerate(_TENS.split())
}

UNITS: dict[str, tuple[str, float]] = (
    {name: ("duration", factor) for name, factor in _SECONDS.items()}
    | {name: ("bytes", factor) for name, factor in _BYTES.items()}
    | {name: ("length", factor) for name, factor in _METRES.items()}
    | {name: ("mass", factor) for name, factor in _GRAMS.items()}
    | {name: (currency, 1.0) for name, currency in _MONEY.items()}
    | {"%": ("percent", 1.0), "percent": ("percent", 1.0), "pct": ("percent", 1.0)}
    | {"°c": ("celsius", 1.0), "celsius": ("celsius", 1.0), "°f": ("fahrenheit", 1.0)}
    | {"fahrenheit": ("fahrenheit", 1.0), "°": ("degree", 1.0), "degrees": ("degree", 1.0)}
)
NUMBER_WORDS = frozenset(SMALL_NUMBERS) | {
    "dozen",
    "half",
    "hundred",
    "thousand",
    "million",
    "billion",
}
SCALES = _SCALES

_MONTH_NUMBERS = {name: index + 1 for index, name in enumerate(MONTHS)} | {
    name[:3]: index + 1 for index, name in enumerate(MONTHS)
} | {"sept": 9}  # fmt: skip


def month_number(name: str) -> int:
    """1 to 12 for a month's name or its short form, 0 for anything else."""
    return _MONTH_NUMBERS.get(name.lower().rstrip("."), 0)


def weekday_number(name: str) -> int | None:
    """0 for Monday to 6 for Sunday, from "Thursday", "thursdays" or "Thu"; else None."""
    return _WEEKDAY_NUMBERS.get(name.lower().rstrip("."))


_WEEKDAY_NUMBERS = {
    form: number
    for number, weekday in enumerate(WEEKDAYS)
    for form in (weekday, weekday + "s", weekday[:3], weekday[:4], weekday[:5])
    if form not in ("sund", "frid", "mond", "satu", "satur", "wedn", "wedne", "thursd")
}


def read_float(digits: str) -> float:
    """The number written with digits, thousands separators allowed; never raises."""
    plain = digits.replace(",", "").replace("_", "").replace("\u202f", "")
    try:
        value = float(plain[:300])
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


_PART = re.compile(r"\d{1,9}")


def read_version(text: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 3, 1) for "v2.3.1"."""
    return tuple(int(part) for part in _PART.findall(text)[:6])


def values_comparable(first: Value, second: Value) -> bool:
    """Whether the two speak of the same sort of thing, so that they can differ at all."""
    if first.kind != second.kind:
        return {first.kind, second.kind} == {"number", "version"} and (
            not first.unit or not second.unit
        )
    if first.kind == "version":
        return not first.unit or not second.unit or first.unit == second.unit
    if first.kind == "date":
        return any(
            a is not None and b is not None
            for a, b in zip(first.parts[:4], second.parts[:4], strict=True)
        )
    if first.kind == "number":
        if first.label and second.label and first.label != second.label:
            return False
        return first.unit == second.unit or not first.unit or not second.unit
    return True


def values_agree(first: Value, second: Value) -> bool:
    """Whether two comparable values can both be true."""
    if first.kind == "date" and second.kind == "date":
        return _dates_agree(first.parts, second.parts)
    if "version" in (first.kind, second.kind):
        one, other = _as_version(first), _as_version(second)
        length = min(len(one), len(other))
        if one[:length] == other[:length]:
            return True
        # "3.8 or newer" leaves room for 3.11; two such bounds do not agree for being open.
        return first.comparison != second.comparison and (
            _version_allows(first, one, other) or _version_allows(second, other, one)
        )
    if first.unit != second.unit:  # one of them has no unit: as written, or in base units
        bare, full = (first, second) if not first.unit else (second, first)
        return _near(bare.raw, full.raw, 1e-9) or _near(bare.raw, full.low, 1e-6)
    return _ranges_agree(first, second)


def _version_allows(
    bound: Value, limit: tuple[int | None, ...], other: tuple[int | None, ...]
) -> bool:
    above = [part or 0 for part in other] > [part or 0 for part in limit]
    return bound.comparison == ("least" if above else "most")


def _as_version(value: Value) -> tuple[int | None, ...]:
    return value.parts if value.kind == "version" else read_version(value.shown)


def _dates_agree(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    return all(
        a is None or b is None or a == b for a, b in zip(one[:4], other[:4], strict=True)
    ) or _swapped(one, other)


def _swapped(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    """03/05 may be March or May: a marked date (fifth part 1) agrees in either order."""
    if not (one[4] or other[4]):
        return False
    return (one[0] is None or other[0] is None or one[0] == other[0]) and (
        one[1] == other[2] and one[2] == other[1]
    )


def _ranges_agree(first: Value, second: Value) -> bool:
    room = 0.03 if first.unit == "bytes" else 0.02 if first.unit in ("duration", "length") else 1e-9
    if first.unit == "duration" and max(first.low, second.low) < 2e6:
        room = 1e-6  # only months and years are uneven
    if "about" in (first.comparison, second.comparison):
        room = max(room, 0.1)
    if first.comparison == second.comparison:
        return _below(first.low, second.high, room) and _below(second.low, first.high, room)
    low_first, high_first = _bounds(first)
    low_second, high_second = _bounds(second)
    return _below(low_first, high_second, room) and _below(low_second, high_first, room)


def _bounds(value: Value) -> tuple[float, float]:
    if value.comparison == "least":
        return value.low, math.inf
    if value.comparison == "most":
        return -math.inf, value.high
    return value.low, value.high


def _below(low: float, high: float, room: float) -> bool:
    return low <= high or _near(low, high, room)


def _near(one: float, other: float, room: float) -> bool:
    return abs(one - other) <= room * max(abs(one), abs(other), 1e-12)
