"""How far the text around a place is one quotation: the most that a cut block can fill.

A block that lost its end runs on to the end of what quotes it: a JSON string,
lines with a prefix such as `> `, a code fence, or else the whole text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict

from agentmem.core.skeleton import Seen

_QUOTE = re.compile(r'(\\*)"')
_FENCE = re.compile(r"^[ \t>]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE)
_PREFIX = re.compile(r"[ \t]*((?:(?:[>|#;*]|//)[ \t]?)+)")

Span = tuple[int, int]


class Quotations:
    """The quotations of one text; each question costs a look-up, not a scan."""

    def __init__(self, text: str, seen: Seen) -> None:
        self._text = text
        self._seen = seen
        self._breaks = [m.start() for m in re.finditer("\n", seen.text)]
        self._lines = [m.start() for m in re.finditer("\n", text)]
        self._fences = [m.span() for m in _FENCE.finditer(text)]
        self._fence_starts = {start for start, _ in self._fences}
        self._quotes: dict[int, list[Span]] | None = None
        self._prefixed: dict[str, list[Span]] = {}

    def around(self, view: Span, place: Span, *, opens: bool) -> Span | None:
        """The JSON string or prefixed lines around `place`, which stands at `view` in the view."""
        if backslashes := self._backslashes(view, opens=opens):
            return self._string(place, backslashes - 1)
        start = self._line_start(place[0])
        if prefix := _PREFIX.match(self._text, start, place[0]):
            return self._lines_with(prefix[1].split()[0], place)
        return None

    def fence_above(self, position: int) -> int | None:
        """Where a fence's content starts, if `position` is in its first line."""
        start = self._line_start(position)
        return start if start and self._line_start(start - 1) in self._fence_starts else None

    def fence_below(self, position: int) -> bool:
        """Whether the line after the one with `position` is a fence."""
        at = bisect_left(self._lines, position)
        return at < len(self._lines) and self._lines[at] + 1 in self._fence_starts

    def first_fence(self) -> int:
        """Where the text's first fence ends."""
        return self._fences[0][1] + 1 if self._fences else 0

    def last_fence(self, after: int) -> int:
        """Where the last fence after `after` starts, or the end of the text."""
        if self._fences and self._fences[-1][0] >= after:
            return self._fences[-1][0]
        return len(self._text)

    def _line_start(self, position: int) -> int:
        at = bisect_left(self._lines, position)
        return self._lines[at - 1] + 1 if at else 0

    def _backslashes(self, view: Span, *, opens: bool) -> int:
        """How many backslashes write a line break here: 0 where it is a real one."""
        after = bisect_left(self._breaks, view[1])
        before = bisect_left(self._breaks, view[0]) - 1
        for at in (after, before) if opens else (before, after):
            if 0 <= at < len(self._breaks):
                start, end = self._seen.span(self._breaks[at], self._breaks[at] + 1)
                return self._text.count("\\", start, end) if self._text[end - 1] in "nr" else 0
        return 0

    def _string(self, place: Span, backslashes: int) -> Span:
        if self._quotes is None:
            self._quotes = defaultdict(list)
            for match in _QUOTE.finditer(self._text):
                self._quotes[len(match[1])].append(match.span())
        quotes = self._quotes.get(backslashes, [])
        at = bisect_left(quotes, (place[1], 0))
        before = bisect_right(quotes, (place[0], 0)) - 1
        start = quotes[before][1] if before >= 0 else 0
        return start, quotes[at][0] if at < len(quotes) else len(self._text)

    def _lines_with(self, symbol: str, place: Span) -> Span:
        """The lines around `place` that start with `symbol`; a blank line ends them.

        A line that is not blank and has no prefix goes on with the paragraph
        above it, as in Markdown.
        """
        if symbol not in self._prefixed:
            self._prefixed[symbol] = self._runs(symbol)
        runs = self._prefixed[symbol]
        return runs[bisect_right(runs, (place[0], len(self._text))) - 1]

    def _runs(self, symbol: str) -> list[Span]:
        runs: list[Span] = []
        start = 0
        inside = False
        for end in (*self._lines, len(self._text)):
            line = self._text[start:end].strip()
            if inside and line:
                runs[-1] = (runs[-1][0], end)
            elif line.startswith(symbol):
                runs.append((start, end))
                inside = True
            else:
                inside = False
            start = end + 1
        return runs
