"""The parts of a document broken down until each fits into a chunk."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from agentmem.core.graphemes import boundary_at_or_before
from agentmem.core.patterns import compile_late
from agentmem.core.sentences import sentences
from agentmem.core.structure import Block
from agentmem.errors import InvalidNumber
from agentmem.protocols import TokenCounter

# How good a border is, on the scale on which a chunk loses one for missing its size by the target.
SECTION, PARAGRAPH, ITEM, SENTENCE, LINE, WORD, NEVER = 2.0, 0.8, 0.6, 0.5, 0.4, 0.0, -9.0

_SURELY_LARGE = 20  # characters a token: above this, break a part down without counting it
_BLANK = compile_late(r"\n(?=[^\S\n]*\n)")
_NESTED = compile_late(r"\n(?=[ \t]+(?:[-*+•]|\d{1,9}[.)])[ \t])")
_TOP_LEVEL = compile_late(r"\n(?=[^\s)\]}])")
_NEWLINE = compile_late(r"[\n\r\u2028\u2029]")
_WHOLE = ("fence", "table", "code")

Spans = Iterator[tuple[int, int]]


class Piece(NamedTuple):
    """A part no larger than a chunk; `border` says how good a cut after it is."""

    start: int
    end: int
    tokens: int
    border: float
    block: Block


class _Level(NamedTuple):
    """One way to break a part down, and the tokens its parts may keep."""

    split: Callable[[str], Spans]
    border: float
    most: int


class Cutter:
    """Everything that has to count: the text, its counter and the sizes asked for."""

    def __init__(self, text: str, count: TokenCounter, *, target: int, limit: int) -> None:
        self.text = text
        self.count = count
        self.target = target
        self.limit = limit
        self._characters_a_token = 4.0
        self._levels = {limit: self._levels_within(limit)}

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Piece]:
        """The blocks as pieces within the limit, with the border after each."""
        held: list[Piece] = []
        carried = 0  # tokens of the headings that go with what comes now
        for block in blocks:
            room = self.limit - carried if carried * 2 < self.limit else self.limit
            broken = self._broken(block, room)
            if not broken:
                continue
            if held:
                yield from held[:-1]
                start, end, tokens, _, before = held[-1]
                yield Piece(start, end, tokens, _border(self.text, before, block), before)
            held = broken
            if block.kind == "heading" and len(held) == 1:
                carried += held[0].tokens + 2  # the line breaks between them
            else:
                carried = 0
        yield from held

    def _broken(self, block: Block, room: int) -> list[Piece]:
        most = self.limit if block.kind in _WHOLE else min(self.target, room)
        part = self.text[block.start : block.end].rstrip()
        end = block.start + len(part)
        tokens = self._counted(part, most)
        if tokens is not None and tokens <= most:
            return [Piece(block.start, end, tokens, PARAGRAPH, block)] if part else []
        if room not in self._levels:
            self._levels = {self.limit: self._levels[self.limit], room: self._levels_within(room)}
        of_code, of_text = self._levels[room]
        levels = of_code if block.kind in _WHOLE else of_text
        whole = Piece(block.start, end, -1, PARAGRAPH, block)
        return list(self._broken_down(whole, levels, most, tokens))

    def _levels_within(self, room: int) -> tuple[tuple[_Level, ...], tuple[_Level, ...]]:
        """How to break down code, and how all else, when the first piece has `room` tokens."""
        small = min(self.target, room)
        of_code = (
            _Level(_at(_BLANK), ITEM, small),
            _Level(_at(_TOP_LEVEL), ITEM, small),
            _Level(_at(_NEWLINE), LINE, room),
        )
        of_text = (
            _Level(_at(_NESTED), ITEM, small),
            _Level(_at(_BLANK), ITEM, small),
            _Level(sentences, SENTENCE, room),
            _Level(_at(_NEWLINE), LINE, room),
        )
        return of_code, of_text

    def _counted(self, part: str, most: int) -> int | None:
        """The tokens of `part`, or None when it is so long that it surely has more than `most`."""
        return self.count(part) if len(part) <= _SURELY_LARGE * most else None

    def _broken_down(
        self, whole: Piece, levels: tuple[_Level, ...], most: int, tokens: int | None
    ) -> Iterator[Piece]:
        """`whole` if it has at most `most` tokens, else its parts by the first level with any."""
        part = self.text[whole.start : whole.end]
        for number, level in enumerate(levels):
            if tokens is not None and tokens <= most:
                break
            spans = list(level.split(part))
            most = level.most
            if len(spans) > 1:
                yield from self._parts(whole, part, spans, levels[number:])
                return
        if tokens is not None and tokens <= most:
            yield whole._replace(tokens=tokens)
        else:
            yield from self._hard_cut(whole, min(most, self.target))

    def _parts(
        self, whole: Piece, part: str, spans: list[tuple[int, int]], levels: tuple[_Level, ...]
    ) -> Iterator[Piece]:
        level, rest = levels[0], levels[1:]
        for first, last, following in _grouped(spans, self.target // 8):
            border = whole.border
            if following is not None:
                broken = level.border == SENTENCE and "\n" in part[last:following]
                border = ITEM if broken else level.border
            span = part[first:last].rstrip()
            if span:
                start = whole.start + first
                piece = Piece(start, start + len(span), -1, border, whole.block)
                tokens = self._counted(span, level.most)
                yield from self._broken_down(piece, rest, level.most, tokens)

    def _hard_cut(self, whole: Piece, most: int) -> Iterator[Piece]:
        """Pieces of a span with no border left in it: at spaces, else between characters."""
        start, end = whole.start, whole.end
        while start < end:
            cut, tokens = self._fitting(start, end, most)
            if cut < end:
                space = _last_space(self.text, (start + cut) // 2, cut)
                cut = space or boundary_at_or_before(self.text, cut, start=start)
                cut, tokens = self._shrunk(start, cut)
            piece = self.text[start:cut]
            kept = piece.rstrip()
            if kept:
                if len(kept) < len(piece):
                    cut, tokens = self._shrunk(start, start + len(kept))
                    kept = self.text[start:cut]
                yield Piece(
                    start,
                    start + len(kept),
                    tokens,
                    whole.border if cut >= end else WORD,
                    whole.block,
                )
            start = cut
            while start < end and self.text[start].isspace():
                start += 1

    def _fitting(self, start: int, end: int, most: int) -> tuple[int, int]:
        """A cut whose piece has at most `most` tokens, and nearly that many; and its tokens."""
        low, low_tokens, high = 0, 0, end - start + 1
        size = max(1, int(most * self._characters_a_token))
        while high - low > 1 and low_tokens * 8 < most * 7:
            size = min(max(size, low + 1), high - 1)
            tokens = self.count(self.text[start : start + size])
            if tokens <= most:
                low, low_tokens = size, tokens
                size = size * 2 if high > end - start else (low + high) // 2
            else:
                high = size
                size = (low + high) // 2
        if low == 0:
            low, low_tokens = 1, self.count(self.text[start])
            if low_tokens > self.limit:
                raise InvalidNumber(
                    "limit_tokens",
                    self.limit,
                    f"is below the {low_tokens} tokens of one character",
                    remedy="Raise limit_tokens, or use a counter without a fixed cost.",
                )
        self._characters_a_token = low / max(1, low_tokens)
        return start + low, low_tokens

    def _shrunk(self, start: int, cut: int) -> tuple[int, int]:
        """`cut`, or an earlier one if a shorter text happens to have more tokens; its tokens."""
        tokens = self.count(self.text[start:cut])
        while tokens > self.limit and cut - start > 1:
            earlier = start + (cut - start) * 3 // 4
            cut = boundary_at_or_before(self.text, max(earlier, start + 1), start=start)
            tokens = self.count(self.text[start:cut])
        return cut, tokens


def _border(text: str, before: Block, after: Block) -> float:
    """How good a cut between two blocks is."""
    if after.apart:
        return SECTION
    if before.kind == "heading":
        return NEVER
    if after.kind == "heading":
        return SECTION
    if before.kind == "item" and after.kind == "item":
        return ITEM
    if before.kind == "code" and after.kind == "code" and not after.strong:
        return ITEM
    if before.kind == "text" and after.kind != "text" and text[before.end - 1] in ":：":
        return WORD  # a list, table or listing stays with the line that announces it
    return PARAGRAPH


def _grouped(
    spans: list[tuple[int, int]], characters: int
) -> Iterator[tuple[int, int, int | None]]:
    """Neighbouring spans of a few characters as one, each with the start of the next.

    A million two-letter lines need not be looked at one by one to find chunks.
    """
    first = spans[0][0]
    for (_, last), (following, following_last) in pairwise(spans):
        if following_last - first > characters:
            yield first, last, following
            first = following
    yield first, spans[-1][1], None


def _last_space(text: str, start: int, end: int) -> int:
    """The position after the last white space in the span, or 0."""
    words = text[start:end].rsplit(None, 1)
    if text[end - 1].isspace() or not words:
        return end
    return end - len(words[1]) if len(words) == 2 else 0


def _at(border: re.Pattern[str]) -> Callable[[str], Spans]:
    """A splitter at each match of `border`; the parts keep their indentation."""

    def split(part: str) -> Spans:
        start = 0
        for match in border.finditer(part):
            if match.start() > start:
                yield start, match.start()
            start = match.end()
        if start < len(part):
            yield start, len(part)

    return split
