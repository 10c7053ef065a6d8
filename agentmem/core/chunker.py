"""A document cut into chunks of about one size, at the borders a reader would choose.

Three steps, each linear: read the parts (`structure`, `turns`), break down the
ones that are too large (`pieces`), then gather pieces into chunks. A chunk is
always characters of the document as they stand.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agentmem.core.checks import require_count, require_text
from agentmem.core.patterns import compile_late
from agentmem.core.pieces import NEVER, SECTION, Cutter, Piece
from agentmem.core.structure import Block, code_blocks, lines_of, markdown_blocks, plain_blocks
from agentmem.core.turns import read_turn, turn_blocks
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter
from agentmem.types import Chunk, Document, TextFormat

_READERS: dict[TextFormat, Callable[[str], Iterator[Block]]] = {
    "markdown": markdown_blocks,
    "text": plain_blocks,
    "code": code_blocks,
    "chat": turn_blocks,
}


def chunk(
    document: Document,
    *,
    count: TokenCounter,
    target_tokens: int = 250,
    limit_tokens: int | None = None,
) -> tuple[Chunk, ...]:
    """The document's chunks in order: about `target_tokens` each, never above `limit_tokens`.

    The limit is twice the target unless given; a limit below the target lowers
    the target. Every visible character is in exactly one chunk (C6), and none
    is above the limit as counted (C7). A heading goes with what follows it;
    code, tables and fences stay whole while they fit; a turn of a chat is never
    joined with another speaker's. A text of white space has no chunks.
    """
    if not isinstance(document, Document):
        raise InvalidInput(
            "document", document, "is not a Document", remedy="Use Document(text=…)."
        )
    if not callable(count):
        raise InvalidInput(
            "count", count, "is not callable", remedy="Pass a function from str to int."
        )
    require_count(target_tokens, "target_tokens", least=1)
    limit = 2 * target_tokens if limit_tokens is None else limit_tokens
    require_count(limit, "limit_tokens", least=1)
    cutter = Cutter(document.text, count, target=min(target_tokens, limit), limit=limit)
    pieces = list(cutter.pieces(_READERS[format_of(document)](document.text)))
    return tuple(_Gathering(cutter, pieces).chunks())


class _Run(NamedTuple):
    """Pieces `first` to `last` as one chunk, and its tokens as counted."""

    first: int
    last: int
    tokens: int


class _Gathering:
    """Neighbouring pieces on their way to become chunks.

    Sums of the pieces' tokens only guide the choice; what becomes a chunk was
    counted as it stands.
    """

    def __init__(self, cutter: Cutter, pieces: list[Piece]) -> None:
        self.cutter = cutter
        self.pieces = pieces
        self.low = cutter.target // 4  # below this a chunk is too small to stand alone
        self.scale = 1.0  # tokens of a chunk for one in the sum of its pieces, as seen so far
        self.sums = [0]
        for piece in pieces:
            self.sums.append(self.sums[-1] + piece.tokens)
        self.section_ends = [i for i, piece in enumerate(pieces[:-1]) if piece.border == SECTION]
        self.section_ends.append(len(pieces) - 1)

    def chunks(self) -> Iterator[Chunk]:
        held: _Run | None = None
        first = 0
        while first < len(self.pieces):
            run = self._next_run(first)
            first = run.last + 1
            joined = self._joined(held, run) if held else None
            if held and not joined:
                yield self._as_chunk(held)
            held = joined or run
        if held:
            yield self._as_chunk(held)

    def _next_run(self, first: int) -> _Run:
        stop = len(self.pieces)
        while True:
            last = self._best_last(first, stop)
            if last == first:
                return _Run(first, last, self.pieces[first].tokens)
            tokens = self._counted(first, last)
            scale = tokens / max(1, self.sums[last + 1] - self.sums[first])
            if tokens <= self.cutter.limit:
                self.scale = (self.scale + scale) / 2
                return _Run(first, last, tokens)
            self.scale, stop = max(self.scale, scale), last

    def _best_last(self, first: int, stop: int) -> int:
        """The last piece of the best chunk that begins with `first`, by the sums.

        A chunk goes on past the end of its section only while it is too small
        to stand alone, and never past the end of a speaker's turns.
        """
        target = self.cutter.target
        section = bisect_left(self.section_ends, first)
        best, best_score = first, float("-inf")
        for last in range(first, stop):
            size = self.scale * (self.sums[last + 1] - self.sums[first])
            if size > self.cutter.limit and last > first:
                break
            if self.section_ends[section] < last:
                section += 1
            section_end = self.section_ends[section]
            left = self.scale * (self.sums[section_end + 1] - self.sums[last + 1])
            score = SECTION if last == section_end else self.pieces[last].border
            score -= (3 if size > target else 1) * abs(size - target) / target
            score -= 2 * (size < self.low) + (0 < left < self.low)
            if score > best_score or self.pieces[best].border == NEVER:
                best, best_score = last, score
            if last == section_end and (size >= self.low or self._starts_apart(last + 1)):
                break
            if size > 1.5 * target and self.pieces[best].border != NEVER:
                break
        return best

    def _starts_apart(self, number: int) -> bool:
        """Whether a border must stand before this piece."""
        if number >= len(self.pieces):
            return True
        block = self.pieces[number].block
        return block.apart and block is not self.pieces[number - 1].block

    def _joined(self, left: _Run, right: _Run) -> _Run | None:
        """Both as one when one of them is too small to stand alone and they fit."""
        if min(left.tokens, right.tokens) >= self.low or self._starts_apart(right.first):
            return None
        if left.tokens + right.tokens > 1.5 * self.cutter.target:
            return None
        tokens = self._counted(left.first, right.last)
        return _Run(left.first, right.last, tokens) if tokens <= self.cutter.limit else None

    def _counted(self, first: int, last: int) -> int:
        return self.cutter.count(self.cutter.text[self.pieces[first].start : self.pieces[last].end])

    def _as_chunk(self, run: _Run) -> Chunk:
        start, end = self.pieces[run.first].start, self.pieces[run.last].end
        block = self.pieces[run.first].block
        return Chunk(
            text=self.cutter.text[start:end],
            start=start,
            end=end,
            tokens=run.tokens,
            heading_path=_common_path(self.pieces[run.first : run.last + 1]),
            speaker=block.speaker,
            date=block.date,
        )


def _common_path(pieces: list[Piece]) -> tuple[str, ...]:
    """The headings all of the text stands under; a heading without text of its own is passed."""
    paths = {piece.block.path for piece in pieces if piece.block.kind != "heading"}
    if not paths:
        return pieces[-1].block.path
    shortest = min(paths, key=len)
    for depth, title in enumerate(shortest):
        if any(path[depth] != title for path in paths):
            return shortest[:depth]
    return shortest


_CODE_LINE = compile_late(
    r"\s*(?:def |class |import |from \S+ import|return\b|(?:if|for|while) .*[:{]$|else\b|function\b"
    r"|const |let |var |fn |pub |use |#include|package |func |public |private |struct |\})"
    r"|.*[;{}]\s*$"
)
_MARKDOWN_LINE = compile_late(r" {0,3}(?:#{1,6} |```|~~~|>\s|\|.*\|\s*$|={3,}\s*$)|.*\]\([^)\s]+\)")
_SAMPLE_CHARACTERS = 20_000
_SAMPLE_LINE = 200


def format_of(document: Document) -> TextFormat:
    """How `document` is read: as it says, or as it looks when that is left to us.

    Only code and chats in which somebody speaks twice are taken for such: lines
    of "key: value" look like turns, and plain text reads as Markdown too.
    """
    if document.format != "auto":
        return document.format
    found = detect_format(document.text)
    if found == "chat":
        turns = map(read_turn, lines_of(document.text[:_SAMPLE_CHARACTERS]))
        speakers = [turn[0] for turn in turns if turn is not None]
        return "chat" if 1 < len(set(speakers)) < len(speakers) else "markdown"
    return "code" if found == "code" else "markdown"


def detect_format(text: str) -> TextFormat:
    """What `text` looks like, from its first lines: a guess for callers who were not told.

    Chat when at least two lines, and one in three, name a speaker; code when
    most lines look like statements; Markdown when a heading, fence, quotation,
    table or link is in it; text otherwise.
    """
    sample = require_text(text, "text")[:_SAMPLE_CHARACTERS]
    lines = [line for line in lines_of(sample) if line.text.strip()]
    if not lines:
        return "text"
    shown = [line.text[:_SAMPLE_LINE].rstrip() for line in lines]
    fenced = any(line.lstrip().startswith(("```", "~~~")) for line in shown)
    turns = sum(1 for line in lines if read_turn(line) is not None)
    if turns >= 2 and turns * 3 >= len(lines):
        return "chat"
    statements = sum(1 for line in shown if _CODE_LINE.match(line))
    indented = sum(1 for line in shown if line[:1] in " \t")
    if not fenced and statements * 4 >= len(lines) and statements + indented > len(lines) // 2:
        return "code"
    if fenced or any(_MARKDOWN_LINE.match(line) for line in shown):
        return "markdown"
    return "text"
