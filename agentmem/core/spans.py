"""Which part of a result is meant: `range="0-500"`, `lines="10-20"`, `lines="-5"`."""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.core.patterns import compile_late
from agentmem.errors import InvalidInput

_PAIR = compile_late(r"\s*(\d{1,15})\s*(?:(?:-|:|–|\.\.|,)\s*(\d{1,15})?)?\s*")
_LAST = compile_late(r"\s*-\s*(\d{1,15})\s*")

Span = str | int | Sequence[int]


def read_range(value: Span, length: int) -> tuple[int, int]:
    """Start and end (not included) of a range: "0-500", "500-", "-200" for the last, (0, 500).

    What lies outside is cut off. A single number asks for everything from there.
    """
    first, last, from_end = _read(value, "range", 'Use "0-500", "500-" or "-200" (the last 200).')
    if from_end is not None:
        return max(length - from_end, 0), length
    end = length if last is None else min(last, length)
    start = min(first, length)
    return start, max(start, end)


def read_lines(value: Span, text: str) -> tuple[int, int]:
    """Where in `text` the lines asked for begin and end: "10-20" (both included), "10", "-5".

    Lines count from 1 and end with `\\n`, which belongs to them.
    """
    first, last, from_end = _read(value, "lines", 'Use "10-20", "10", "10-" or "-5" (the last 5).')
    if from_end is not None:
        return _last_lines(text, from_end), len(text)
    one = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
    if one:
        last = first
    first = max(first, 1)
    start = _line_start(text, first)
    end = len(text) if last is None else _line_start(text, max(last, 0) + 1)
    return start, max(start, end)


def line_number(text: str, position: int) -> int:
    """The number of the line that holds `position`."""
    return text.count("\n", 0, position) + 1


def _line_start(text: str, line: int) -> int:
    position = 0
    for _ in range(line - 1):
        found = text.find("\n", position)
        if found < 0:
            return len(text)
        position = found + 1
    return position


def _last_lines(text: str, lines: int) -> int:
    position = len(text) - 1 if text.endswith("\n") else len(text)
    for _ in range(lines):
        if position <= 0:
            return 0
        position = text.rfind("\n", 0, position)
    return position + 1 if lines else len(text)


def _read(value: Span, name: str, remedy: str) -> tuple[int, int | None, int | None]:
    """First, last, and how many from the end."""
    if isinstance(value, bool):
        raise InvalidInput(name, value, "is no range", remedy=remedy)
    if isinstance(value, int):
        return (value, None, None) if value >= 0 else (0, None, -value)
    if isinstance(value, str):
        if match := _LAST.fullmatch(value):
            return 0, None, int(match[1])
        match = _PAIR.fullmatch(value)
        if match is None:
            raise InvalidInput(name, value, "is no range", remedy=remedy)
        first, last = int(match[1]), None if match[2] is None else int(match[2])
    else:
        pair = list(value) if isinstance(value, list | tuple) else []
        if len(pair) != 2 or not all(type(n) is int and n >= 0 for n in pair):
            raise InvalidInput(name, value, "is no range", remedy=remedy)
        first, last = pair
    if last is not None and last < first:
        raise InvalidInput(name, value, "ends before it begins", remedy=remedy)
    return first, last, None
