"""Where a text may be cut without breaking what a reader sees as one character (UAX 29)."""

from __future__ import annotations

from functools import cache
from typing import Any

_CONJUNCT = r"\X(?:(?<=\p{CCC=9})\X)*"  # a virama binds the next consonant, as in क्ष


@cache
def _pattern(source: str) -> Any:
    import regex  # type: ignore[import-untyped]

    return regex.compile(source)


def extends(char: str) -> bool:
    """Whether `char` belongs to the character before it.

    So does one that Unicode does not know yet: it may be a mark.
    """
    if char < "\u0300":
        return False
    marks = r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}\p{M}\p{Cn}]"
    return _pattern(marks).fullmatch(char) is not None


def boundary_at_or_before(text: str, position: int, *, start: int) -> int:
    """The last cut in `(start, position]` that keeps characters whole; `start` is a cut too.

    When all of it is one character (a base under thousands of marks),
    `position` itself: a hard limit comes before a whole character.
    """
    if position >= len(text):
        return len(text)
    if text[position - 1] < "\u0300" > text[position] != "\n":
        return position
    for clusters in (_CONJUNCT, r"\X"):
        # One character more is read, so that one that reaches over `position` ends behind it.
        found = (one.end() for one in _pattern(clusters).finditer(text, start, position + 1))
        cut = max((end for end in found if end <= position), default=0)
        if cut:
            return cut
    return position
