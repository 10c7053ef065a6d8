"""The lines of a result that match a model's pattern, in bounded time.

`regex` alone takes a time limit, and lets other threads run meanwhile; it looks
at the clock now and then, so long lines are searched window by window.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from itertools import islice
from typing import Any

from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput

LONGEST_SECONDS = 1.0
PATTERN_CHARACTERS = 1_000
LONG_LINE_CHARACTERS = 2_000
_CONTEXT_CHARACTERS = 100
_MOST_IN_A_LINE = 50
_WINDOW = 20_000
_OVERLAP = 500
_SPECIAL = re.compile(r"[^\w\s\"'=,:;/<>@!%&~`-]")

_RECURSIVE = re.compile(r"\(\?(?:R|&|P>|[+-]?\d)")

_Spans = Callable[[str], Iterable[tuple[int, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was found, as text, and a few words about how."""

    text: str
    note: str


@dataclass(slots=True)
class _Found:
    """Matching lines as they are shown; `stopped` at a line when the time was over."""

    shown: list[str] = field(default_factory=list)
    lines: int = 0
    stopped: int = 0


def grep(text: str, pattern: str) -> View:
    """The lines that match, each with its number: `12: text`.

    Of a line longer than 2,000 characters only what stands around each match is
    shown, with its place in the whole text. A pattern that is no regular
    expression is looked for as plain text. When nothing matches, upper and
    lower case are taken as equal. A pattern too slow for a second stops there:
    what was found until then is given, and the plain text is looked for when
    nothing was.
    """
    if not pattern:
        raise InvalidInput("grep", pattern, "is empty", remedy="Give a word or a pattern.")
    if len(pattern) > PATTERN_CHARACTERS:
        raise InvalidInput("grep", pattern, "is too long", remedy="Look for a shorter text.")
    lines = text.removesuffix("\n").split("\n")
    found, how = _search(lines, pattern, time.monotonic() + LONGEST_SECONDS)
    note = f"{found.lines:,} matching line{'' if found.lines == 1 else 's'} of {len(lines):,}"
    return View(text="".join(found.shown), note=f"{note} ({how})" if how else note)


def _search(lines: list[str], pattern: str, deadline: float) -> tuple[_Found, str]:
    """What matches, and what had to be done otherwise than asked."""
    plain = not _SPECIAL.search(pattern)
    spans = _plain_spans(pattern) if plain else _pattern_spans(pattern, deadline)
    if spans is None:
        return _look(
            lines, _plain_spans(pattern, fold=True)
        ), "no pattern; looked for as plain text"
    found = _look(lines, spans)
    if found.stopped:
        slow = f"the pattern is too slow, stopped at line {found.stopped:,}"
        if found.lines:
            return found, slow
        found = _look(lines, _plain_spans(pattern, fold=True))
        return found, f"{slow}; looked for as plain text"
    if found.lines:
        return found, ""
    if plain:
        folded: _Spans | None = _plain_spans(pattern, fold=True)
    else:
        folded = _pattern_spans(pattern, deadline, fold=True)
    found = _look(lines, folded) if folded is not None else found
    return found, "upper and lower case taken as equal" if found.lines else ""


def _look(lines: list[str], spans: _Spans) -> _Found:
    found = _Found()
    offset = 0
    for count, line in enumerate(lines, 1):
        try:
            matches = list(islice(spans(line), _MOST_IN_A_LINE if _is_long(line) else 1))
        except TimeoutError:
            found.stopped = count
            return found
        if matches:
            found.lines += 1
            found.shown += _show(count, line, matches, offset)
        offset += len(line) + 1
    return found


def _show(number: int, line: str, matches: list[tuple[int, int]], offset: int) -> Iterator[str]:
    if not _is_long(line):
        yield f"{number}: {line}\n"
        return
    shown_to = -1
    for start, end in matches:
        if start < shown_to:
            continue  # it stands in what was shown around the match before
        first = max(start - _CONTEXT_CHARACTERS, 0)
        shown_to = min(end, start + _CONTEXT_CHARACTERS) + _CONTEXT_CHARACTERS
        yield f"{number}: (character {offset + start}) …{line[first:shown_to]}…\n"


def _is_long(line: str) -> bool:
    return len(line) > LONG_LINE_CHARACTERS


def _plain_spans(wanted: str, *, fold: bool = False) -> _Spans:
    needle = wanted.lower() if fold else wanted

    def spans(line: str) -> Iterator[tuple[int, int]]:
        searched = line.lower() if fold else line
        at = searched.find(needle)
        while at >= 0:
            yield at, at + len(needle)
            at = searched.find(needle, at + len(needle))

    return spans


def _pattern_spans(pattern: str, deadline: float, *, fold: bool = False) -> _Spans | None:
    """The matches of a regular expression, or None when it is none."""
    if _RECURSIVE.search(pattern):
        return None  # a pattern that calls itself fills the memory before the time is over
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if fold else 0)
    except (regex.error, OverflowError, RecursionError, MemoryError, ValueError):
        return None

    def spans(line: str) -> Iterator[tuple[int, int]]:
        if _is_long(line):
            yield from _windows(compiled, line, deadline)
        elif match := compiled.search(line, timeout=_left(deadline), concurrent=True):
            yield match.span()

    return spans


def _windows(compiled: Any, line: str, deadline: float) -> Iterator[tuple[int, int]]:
    start, last = 0, -1
    while True:
        end = min(start + _WINDOW, len(line))
        for match in compiled.finditer(line, start, end, timeout=_left(deadline), concurrent=True):
            at, to = match.span()
            cut_off = to == end < len(line)  # the next window sees all of it
            if at > last and not cut_off:
                last = at
                yield at, to
        if end == len(line):
            return
        start = end - _OVERLAP


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
