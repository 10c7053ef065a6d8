"""How far the text around a place is one quotation: the most that a cut block can fill.

A block that lost its end runs on to the end of what quotes it: a JSON string,
lines that all start with `>`, or else the whole text. A code fence
is no limit, since fences in the quoted content look the same.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict

from agentmem.core.patterns import compile_late
from agentmem.core.skeleton import Seen

_QUOTE = compile_late(r'(\\*)"')
_PREFIX = compile_late(
    r"[ \t]*>[> \t]*"
)  # the block itself writes every ">" of its content as "&gt;"

Span = tuple[int, int]


class Quotations:
    """The quotations of one text; each question costs a look-up, not a scan."""

    def __init__(self, text: str, seen: Seen) -> None:
        self._text = text
        self._seen = seen
        self._lines = [match.start() for match in re.finditer("\n", text)]
        self._strings: dict[int, list[Span]] | None = None
        self._is_json: bool | None = None
        self._runs: list[Span] | None = None

    def around(self, view: Span) -> Span:
        """The quotation around the place that the view shows at `view`."""
        place = self._seen.span(*view)
        escapes = self._escapes(view)
        if escapes:
            return self._string(place, escapes - 1)
        at = bisect_left(self._lines, place[0])
        line = self._lines[at - 1] + 1 if at else 0
        if _PREFIX.fullmatch(self._text, line, place[0]):
            return self._run(place)
        return 0, len(self._text)

    def _escapes(self, view: Span) -> int:
        """With how many backslashes a JSON string writes the line break next to our markup.

        0 where the line break is a real one, and where quotes are not escaped
        to the same depth, as in a Python literal.
        """
        seen = self._seen.text
        for at in (view[0] - 1, view[1]):
            if 0 <= at < len(seen) and seen[at] == "\n":
                start, end = self._seen.span(at, at + 1)
                escapes = end - start - 1 if self._text[end - 1] == "n" else 0
                return escapes if escapes and self._escapes_quotes(view, 2 * escapes - 1) else 0
        return 0

    def _escapes_quotes(self, view: Span, backslashes: int) -> bool:
        start, end = self._seen.span(*view)
        quote = self._text.find('"', start, end)
        if quote >= 0:
            written = self._text[max(start, quote - backslashes - 1) : quote]
            return len(written) - len(written.rstrip("\\")) == backslashes
        if self._is_json is None:
            try:
                json.loads(self._text)
                self._is_json = True
            except (ValueError, RecursionError):
                self._is_json = False
        return self._is_json

    def _string(self, place: Span, backslashes: int) -> Span:
        if self._strings is None:
            self._strings = defaultdict(list)
            for match in _QUOTE.finditer(self._text):
                self._strings[len(match[1])].append(match.span())
        quotes = self._strings.get(backslashes, [])
        after = bisect_left(quotes, (place[1], 0))
        before = bisect_right(quotes, (place[0], 0)) - 1
        start = quotes[before][1] if before >= 0 else 0
        return start, quotes[after][0] if after < len(quotes) else len(self._text)

    def _run(self, place: Span) -> Span:
        """The lines around `place` that all start with `>`, blank ones between them aside.

        Where a line without it follows directly, the quotation goes on in a
        way nobody can tell, as in Markdown: then it is the whole text.
        """
        if self._runs is None:
            self._runs = self._find_runs()
        at = bisect_right(self._runs, (place[0], len(self._text))) - 1
        return self._runs[at]

    def _find_runs(self) -> list[Span]:
        runs: list[Span] = []
        start = 0
        blank = inside = False
        for end in (*self._lines, len(self._text)):
            line = self._text[start:end].strip()
            if line.startswith(">"):
                if inside:
                    runs[-1] = (runs[-1][0], end)
                else:
                    runs.append((start, end))
                inside = True
            elif line:
                if inside and not blank:
                    runs[-1] = (runs[-1][0], len(self._text))
                inside = False
            blank = not line
            start = end + 1
        return runs
