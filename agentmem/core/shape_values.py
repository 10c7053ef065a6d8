"""What a tool result looks like, as a value, and the words all shapes share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentmem.core.values import dataclass

SAMPLE_LINES = 200
LINE_CHARACTERS = 400
MOST_LINES = 2_000
"""How far from either end a telling line is looked for."""
_TELLING = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a result is (`what`), how much of it there is, and its most telling lines.

    `notes` are further lines worth showing when there is room. `reads` are the
    arguments of a read that suit it. Everything here is raw text of the result:
    whoever shows it cleans it first.
    """

    kind: str
    what: str
    counts: tuple[str, ...] = ()
    first: str = ""
    last: str = ""
    notes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ('lines="1-40"', 'grep="…"')


def number(count: int, noun: str, *, plural: str = "") -> str:
    """`1 line`, `1,204 lines`, `2 matches`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def telling(lines: Sequence[str]) -> str:
    """The first line that says something, or the first that is not blank, or ""."""
    shown = next((line for line in lines if _TELLING.search(line[:LINE_CHARACTERS])), "")
    shown = shown or next((line for line in lines if line.strip()), "")
    return (
        shown.strip().rpartition("\r")[2].strip()[:LINE_CHARACTERS]
    )  # a progress bar's last state


def ends(lines: Sequence[str]) -> tuple[str, str]:
    """The first and the last telling line; the last is "" when it is the first."""
    first = telling(lines[:MOST_LINES])
    last = telling(lines[: -MOST_LINES - 1 : -1])
    return first, "" if last == first else last


def some(lines: Sequence[str]) -> list[str]:
    """Lines from the beginning, the middle and the end: enough to tell what a text is."""
    if len(lines) <= SAMPLE_LINES:
        return [line for line in lines if line.strip()]
    third = SAMPLE_LINES // 3
    middle = len(lines) // 2
    chosen = [*lines[:third], *lines[middle : middle + third], *lines[-third:]]
    return [line for line in chosen if line.strip()]


def share(pattern: re.Pattern[str], lines: Sequence[str]) -> float:
    """Which part of the lines `pattern` matches at their beginning."""
    if not lines:
        return 0.0
    return sum(1 for line in lines if pattern.match(line[:LINE_CHARACTERS])) / len(lines)
