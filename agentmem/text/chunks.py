"""A document cut into chunks of about one size, at the borders a reader would choose.

Three steps, each linear: read the blocks, break down those that are too large
into pieces, then gather pieces into chunks. A chunk is
always characters of the document as they stand.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from agentmem.base.checks import require_count, require_instance
from agentmem.base.errors import InvalidNumber
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Chunk, Document, TextFormat
from agentmem.data import read_words
from agentmem.text.markdown import Block, Line, code_blocks, lines_of, markdown_blocks
from agentmem.text.sentences import boundary_at_or_before, sentences

# ----------------------------------------------------------------------------
# The parts of a document broken down until each fits into a chunk.


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
    """One way to break a part down; its parts may be as large as a chunk, or as it should be."""

    split: Callable[[str], Spans]
    border: float
    small: bool = False


class Cutter:
    """Everything that has to count: the text, its counter and the sizes asked for."""

    def __init__(self, text: str, count: TokenCounter, *, target: int, limit: int) -> None:
        self.text = text
        self.count = count
        self.target = target
        self.limit = limit
        self._characters_a_token = 4.0
        self._room = limit  # the tokens that the block at hand may have

    def pieces(self, blocks: Iterable[Block]) -> Iterator[Piece]:
        """The blocks as pieces within the limit, with the border after each."""
        held: list[Piece] = []
        carried = 0  # tokens of the headings that go with what comes now
        for block in blocks:
            self._room = self.limit - carried if carried * 2 < self.limit else self.limit
            broken = self._broken(block)
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

    def _broken(self, block: Block) -> list[Piece]:
        most = self.limit if block.kind in _WHOLE else min(self.target, self._room)
        end = block.start + len(self.text[block.start : block.end].rstrip())
        levels = _OF_CODE if block.kind in _WHOLE else _OF_TEXT
        whole = Piece(block.start, end, -1, PARAGRAPH, block)
        return list(self._broken_down(whole, levels, most)) if end > block.start else []

    def _most(self, level: _Level) -> int:
        return min(self.target, self._room) if level.small else self._room

    def _broken_down(self, whole: Piece, levels: tuple[_Level, ...], most: int) -> Iterator[Piece]:
        """`whole` if it has at most `most` tokens, else its parts by the first level with any."""
        part = self.text[whole.start : whole.end]
        surely_large = len(part) > _SURELY_LARGE * most
        tokens = None if surely_large else self.count(part)
        for number, level in enumerate(levels):
            if tokens is not None and tokens <= most:
                break
            spans = list(level.split(part))
            most = self._most(level)
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
                yield from self._broken_down(piece, rest, self._most(level))

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


_OF_CODE = (
    _Level(_at(_BLANK), ITEM, small=True),
    _Level(_at(_TOP_LEVEL), ITEM, small=True),
    _Level(_at(_NEWLINE), LINE),
)
_OF_TEXT = (
    _Level(_at(_NESTED), ITEM, small=True),
    _Level(_at(_BLANK), ITEM, small=True),
    _Level(sentences, SENTENCE),
    _Level(_at(_NEWLINE), LINE),
)


# ----------------------------------------------------------------------------
# The turns of a chat transcript, with who spoke and when.


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY_NAME = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\.?,?[ ]+)?"
_TIME = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:[.,]\d{1,6})?)?(?:[ \u00a0\u202f]?[ap]\.?m\.?)?"
_ZONE = r"(?:[ ]?(?:z|utc|gmt|[+-]\d{2}:?\d{2}))?"
_DAY = (
    rf"{_DAY_NAME}(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?[ ]+(?:of[ ]+)?{_MONTH},?(?:[ ]+\d{{4}})?"
    rf"|{_MONTH}[ ]+\d{{1,2}}(?:st|nd|rd|th)?(?:,?[ ]+\d{{4}})?)"
)
_WHEN = (
    rf"(?:{_DAY}(?:(?:,[ ]*|[ ]+(?:at[ ]+|-[ ]+)?|t){_TIME}{_ZONE})?"
    rf"|{_TIME}{_ZONE}(?:(?:,[ ]*|[ ]+(?:on[ ]+)?){_DAY})?)"
)
# A name stands in one line, is short, and has no colon.
_NAME = r"(?:[^\W_](?:[^\n:<>\[\](){}|*`\"]{0,38}[^\s:<>\[\](){}|*`\"])?)"
_TURN = compile_late(
    rf"[ \t]{{0,3}}(?:[-*>][ ]+)?"
    rf"(?:[\[(](?P<before>{_WHEN})[\])][ ]*[-–—]?[ ]*|(?P<bare>{_WHEN})[ ]*[-–—|][ ]*)?"
    rf"(?:<(?P<irc>[^\s<>]{{1,40}})>(?=[ \t]|$)"
    rf"|(?P<bold>\*\*|__)?(?P<name>{_NAME})(?:\*\*|__)?"
    rf"(?:[ ]*[\[(](?P<after>{_WHEN})[\])])?[ ]*:(?:\*\*|__)?(?=\s|$))",
    re.IGNORECASE,
)
_DATE_LINE = compile_late(
    rf"[ \t#*=>_~-]*(?:(?:date|session(?:[ ]+\d+)?|day(?:[ ]+\d+)?|conversation)[ ]*[:,(–—-]?[ ]*)?"
    rf"[\[(]?(?P<when>{_WHEN})[\])]?[ \t*=_~:-]*$",
    re.IGNORECASE,
)
_CLOCK = compile_late(rf"(?:,[ ]*|[ ]+(?:at[ ]+|-[ ]+)?|(?<=\d)t|^){_TIME}{_ZONE}", re.IGNORECASE)
_FENCE = compile_late(r"[ \t]*(?:```|~~~)")
_LONGEST_PREFIX = 160


def turn_blocks(text: str) -> Iterator[Block]:
    """The turns in order; lines without a speaker belong to the turn before them.

    A line that is only a date dates the turns after it. What stands before the
    first turn is a block without speaker.
    """
    speaker = date = day = ""
    start: int | None = None
    end = 0
    in_fence = False
    previous: tuple[str, str] | None = None

    def closed(first: int) -> Block:
        return Block(
            first, end, "turn", (), speaker, date, previous != (speaker, day_of(date)), True
        )

    for line in lines_of(text):
        if not line.text.strip():
            continue
        if _FENCE.match(line.text):
            in_fence = not in_fence
        elif not in_fence:
            turn = read_turn(line)
            dated = None if turn else read_date_line(line.text)
            if turn or dated:
                if start is not None and not _is_date_only(text, start, end):
                    yield closed(start)
                    previous = (speaker, day_of(date))
                    start = None
                if start is None:
                    start = line.start
                if turn:
                    speaker, said = turn
                    date = _full_date(said, day)
                elif dated:
                    day = date = dated
                    speaker = ""
        if start is None:
            start = line.start
        end = line.start + len(line.text)
    if start is not None:
        yield closed(start)


def read_turn(line: Line) -> tuple[str, str] | None:
    """Who begins to speak in this line and the date it gives ("" if none), or None."""
    match = _TURN.match(line.text[:_LONGEST_PREFIX])
    if match is None:
        return None
    when = match["before"] or match["bare"] or match["after"] or ""
    if match["irc"]:
        return match["irc"], when
    name = match["name"].strip()
    if not when and not _is_name(name):
        return None
    return name, when


def read_date_line(line: str) -> str:
    """The date of a line that says nothing else, or ""."""
    match = _DATE_LINE.match(line) if len(line) <= _LONGEST_PREFIX else None
    return match["when"].strip() if match else ""


def day_of(date: str) -> str:
    """The date without its clock time."""
    return _CLOCK.sub("", date).strip(" ,")


def _full_date(said: str, day: str) -> str:
    """A turn's own date, with the day of the last date line when it gives only a time."""
    if said and day_of(said):
        return said
    return f"{day} {said}".strip() if day else said


def _is_date_only(text: str, start: int, end: int) -> bool:
    return end - start <= _LONGEST_PREFIX and bool(read_date_line(text[start:end]))


def _is_name(name: str) -> bool:
    """Whether a word before a colon looks like somebody: one word, or each with a capital."""
    words = name.split()
    if name.casefold() in read_words("turn_words.txt")["labels"] or len(words) > 4:
        return False
    if len(words) == 1:
        return "/" not in name and "\\" not in name and not name.isdigit()
    return all(
        word[0].isupper()
        or word[0].isdigit()
        or word in read_words("turn_words.txt")["small"]
        or word[0].lower() == word[0].upper()
        for word in words
    )


_READERS: dict[TextFormat, Callable[[str], Iterator[Block]]] = {
    "markdown": markdown_blocks,
    "text": partial(markdown_blocks, plain=True),
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
    require_instance(document, Document, "document", remedy="Use Document(text=…).")
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
_SAMPLE_CHARACTERS = 20_000
_SAMPLE_LINE = 200


def format_of(document: Document) -> TextFormat:
    """How `document` is read: as it says, or as its first lines look when that is left to us.

    A chat when at least two lines, and one in three, name a speaker and somebody
    speaks twice (lines of "key: value" look like turns, too); code when most lines
    look like statements; else Markdown, as which plain text reads as well.
    """
    if document.format != "auto":
        return document.format
    sample = document.text[:_SAMPLE_CHARACTERS]
    lines = [line for line in lines_of(sample) if line.text.strip()]
    speakers = [turn[0] for turn in map(read_turn, lines) if turn is not None]
    if len(speakers) >= 2 and len(speakers) * 3 >= len(lines):
        return "chat" if 1 < len(set(speakers)) < len(speakers) else "markdown"
    shown = [line.text[:_SAMPLE_LINE].rstrip() for line in lines]
    fenced = any(line.lstrip().startswith(("```", "~~~")) for line in shown)
    statements = sum(1 for line in shown if _CODE_LINE.match(line))
    indented = sum(1 for line in shown if line[:1] in " \t")
    if not fenced and statements * 4 >= len(lines) and statements + indented > len(lines) // 2:
        return "code"
    return "markdown"
