"""Find the numbers an answer cites, keep those that exist, remove the rest (P12)."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from agentmem.core.checks import require_text
from agentmem.core.citations import (
    LONGEST_URL,
    WIDEST_RANGE,
    Citation,
    page_key,
    require_distinct,
)
from agentmem.core.patterns import compile_late
from agentmem.core.regions import Span, code_spans, cover
from agentmem.core.values import dataclass

_NUMBER = r"\d{1,9}"
_ITEM = rf"{_NUMBER}(?:\s?[-–—‑]\s?{_NUMBER})?"
_NAMED = r"(?:(?:web |knowledge )?(?:sources?|base|citations?|refs?\.?|references?)\s?:?\s?#?|[#^])"
_LIST = rf"{_NAMED}?{_ITEM}(?:\s?(?:[,;，、&]|and)\s?{_NAMED}?{_ITEM}){{0,50}}"
_URL = rf"(?:[^()\s]|\([^()\s]{{0,200}}\)){{0,{LONGEST_URL}}}"
_MARK = compile_late(
    rf"(?m:^) {{0,3}}\[\^?(?P<defined>{_NUMBER})"
    rf"\]:[ \t]+<?(?P<target>(?:https?://|www\.)[^\s>]{{1,{LONGEST_URL}}})"
    rf"[^\n]{{0,300}}"
    rf"|(?P<image>!)?[\[［]\s?(?P<list>{_LIST})\s?[\]］]"
    rf"(?P<link>\(\s?<?(?P<url>{_URL})>?(?:\s+(?:\"[^\"\n]{{0,300}}\"|'[^'\n]{{0,300}}'))?\s?\))?"
    rf"|【\s?(?P<lens>{_LIST})(?:†[^【】\n]{{0,80}})?\s?】",
    re.IGNORECASE,
)
_RANGE = compile_late(rf"({_NUMBER})(?:\s?[-–—‑]\s?({_NUMBER}))?")
_SENTENCE_END = compile_late(r"[.!?…。！？।؟]+[\"'”’)\]»*_]*(?=\s|\Z|[\[【［])|[。！？।؟]+|\n+")
_ABBREVIATION = compile_late(
    r"(?:\b(?:e\.g|i\.e|dr|mr|mrs|ms|vs|etc|approx|no|fig|al|cf|st)|\b[a-z])\Z", re.IGNORECASE
)
_SPACE_BEFORE = compile_late(r"[ \t]+\Z")
_NEEDS_NO_BLANK = compile_late(r"[\s.,;:!?)\]}»”。，、！？]|\Z")
_NEAR = compile_late(r"[ \t]{0,3}")
_PASSES = 20
_LETTER = compile_late(r"[^\W\d_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The citations that the characters `start` to `end` of the resolved text stand for."""

    start: int
    end: int
    indexes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedAnswer:
    """An answer in which every number cited exists.

    `cited` are its sources in the order they are first cited, `unused` those
    it never cites, `missing` the numbers that were removed because no source
    has them, `wrong_links` the addresses that were taken off a number because
    its source has another one. `uncited_sentences` are those without a number,
    code and headings aside.
    """

    text: str
    cited: tuple[Citation, ...] = ()
    unused: tuple[Citation, ...] = ()
    missing: tuple[int, ...] = ()
    wrong_links: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()
    uncited_sentences: tuple[str, ...] = ()


def resolve_citations(answer: str, citations: Sequence[Citation]) -> ResolvedAnswer:
    """`answer` without the numbers that no citation has, and what the others stand for.

    Marks whose numbers all exist stay byte for byte. Of a mixed one the
    existing numbers stay (`[1, 9]` becomes `[1]`); one without any goes,
    together with the blank before it and the address behind it. A link on a
    number keeps its address only when it is the source's own. Code is left
    alone.
    """
    require_text(answer, "answer")
    require_distinct(citations)
    by_index = {citation.index: citation for citation in citations}
    missing: dict[int, None] = {}
    wrong: dict[str, None] = {}
    written = _rewrite(answer, by_index, missing, wrong)
    # Taking out a mark may join what stood around it to another: "[1[9]2]".
    for _ in range(_PASSES):
        if written.unchanged:
            break
        written = _rewrite(written.text(), by_index, missing, wrong)
    else:
        written = _rewrite(_unbracketed(written.text(), by_index), by_index, missing, wrong)
    text = written.text()
    cited = dict.fromkeys(index for mark in written.marks for index in mark.indexes)
    return ResolvedAnswer(
        text=text,
        cited=tuple(by_index[index] for index in cited),
        unused=tuple(citation for citation in citations if citation.index not in cited),
        missing=tuple(missing),
        wrong_links=tuple(wrong),
        marks=tuple(written.marks),
        uncited_sentences=tuple(_uncited(text, written.marks)),
    )


def cited_numbers(answer: str) -> tuple[int, ...]:
    """Every number `answer` cites, in order and once each; of a wide range both ends."""
    require_text(answer, "answer")
    numbers: dict[int, None] = {}
    for match in _marks(answer):
        for first, last in _ranges(match["list"] or match["lens"] or match["defined"]):
            inside = range(first, last + 1) if last - first < WIDEST_RANGE else (first, last)
            numbers.update(dict.fromkeys(inside))
    return tuple(numbers)


class _Writer:
    """Text written piece by piece, with the places of the marks in it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.marks: list[Mark] = []
        self.unchanged = True

    def copy(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._length += len(text)

    def mark(self, text: str, indexes: Sequence[int]) -> None:
        start = self._length
        self.copy(text)
        self.marks.append(Mark(start=start, end=self._length, indexes=tuple(indexes)))

    def drop_blank(self, following: str) -> None:
        """Take back the blank before a removed mark where none is needed."""
        self.unchanged = False
        if self._parts and _NEEDS_NO_BLANK.match(following):
            last = self._parts.pop()
            kept = _SPACE_BEFORE.sub("", last[-50:])
            self._length -= len(last[-50:]) - len(kept)
            self._parts.append(last[:-50] + kept)

    def text(self) -> str:
        return "".join(self._parts)


def _rewrite(
    answer: str, by_index: dict[int, Citation], missing: dict[int, None], wrong: dict[str, None]
) -> _Writer:
    """One pass over the marks of `answer`; what had to go is added to `missing` and `wrong`."""
    writer = _Writer()
    position = 0
    for match in _marks(answer):
        writer.copy(answer[position : match.start()])
        position = match.end()
        kept, lost = _existing(match["list"] or match["lens"] or match["defined"], by_index)
        missing.update(dict.fromkeys(lost))
        url = match["url"] if match["link"] else match["target"]
        own = url is None or any(page_key(url) == page_key(by_index[i].url) for i in kept)
        if kept and not own:
            wrong[url] = None
        if kept and own and not lost:
            writer.mark(match[0], kept)
        elif kept and not match["defined"]:
            writer.unchanged = False
            writer.mark("[" + ", ".join(map(str, kept)) + "]", kept)
        else:
            writer.drop_blank(answer[position : position + 1])
    writer.copy(answer[position:])
    return writer


def _unbracketed(answer: str, by_index: dict[int, Citation]) -> str:
    """`answer` with round brackets around numbers that do not exist: no mark can come of them."""
    rounded = str.maketrans("[]［］【】", "()()()")
    parts: list[str] = []
    position = 0
    for match in _marks(answer):
        if _existing(match["list"] or match["lens"] or match["defined"], by_index)[1]:
            parts += (answer[position : match.start()], match[0].translate(rounded))
            position = match.end()
    return "".join((*parts, answer[position:]))


def _marks(answer: str) -> Iterator[re.Match[str]]:
    """The citation marks outside of code; images with a number for a name are none."""
    code = code_spans(answer)
    starts = [start for start, _ in code]
    position = 0
    while match := _MARK.search(answer, position):
        place = bisect_right(starts, match.start()) - 1
        if place >= 0 and match.start() < code[place][1]:
            position = code[place][1]
            continue
        position = match.end()
        if match["image"] is None or match["link"] is None:
            yield match


def _ranges(listed: str) -> Iterator[Span]:
    for match in _RANGE.finditer(listed):
        first, last = int(match[1]), int(match[2] or match[1])
        yield min(first, last), max(first, last)


def _existing(listed: str, by_index: dict[int, Citation]) -> tuple[list[int], list[int]]:
    """Of the numbers in a mark those that exist and those that do not."""
    kept: dict[int, None] = {}
    lost: dict[int, None] = {}
    for first, last in _ranges(listed):
        if last - first < WIDEST_RANGE:
            inside: Sequence[int] = range(first, last + 1)
        else:
            inside = sorted({first, last, *(i for i in by_index if first <= i <= last)})
        for index in inside:
            (kept if index in by_index else lost)[index] = None
    return list(kept), list(lost)


def _uncited(text: str, marks: Sequence[Mark]) -> Iterator[str]:
    prose = cover(text, code_spans(text), " ")
    cursor = 0
    for start, end in _sentences(text, marks):
        while cursor < len(marks) and marks[cursor].end <= start:
            cursor += 1
        if cursor < len(marks) and marks[cursor].start < end:
            continue
        sentence = text[start:end].strip()
        if _LETTER.search(prose, start, end) and not sentence.startswith("#"):
            yield sentence


def _sentences(text: str, marks: Sequence[Mark]) -> Iterator[Span]:
    """Sentences with the marks that directly follow their full stop."""
    start = cursor = 0
    for match in _SENTENCE_END.finditer(text):
        if match.start() < start:
            continue
        if match[0] == "." and _ABBREVIATION.search(
            text, max(start, match.start() - 8), match.start()
        ):
            continue
        end = match.end()
        while cursor < len(marks) and marks[cursor].start < end:
            cursor += 1
        following = cursor
        while following < len(marks) and _NEAR.fullmatch(text, end, marks[following].start):
            end = marks[following].end
            following += 1
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)
