"""An answer made of the sources' own best sentences, with the number of each source.

What stands in for a model when there is none: each sentence of the sources is
scored by the words it shares with the question (rare ones count more), by what
stands around it (title, heading, the sentences beside it), and by whether it
looks like the answer asked for (a date for "when", a number for "how many").
Measured by benchmarks/extractive.py; see docs/decisions/0012-web-search.md.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from functools import cache
from math import sqrt

from agentmem.core.answer_cues import answer_kinds, answer_likeness
from agentmem.core.checks import require_count, require_text
from agentmem.core.lexical import STOP_WORDS, analyse, analyse_query, idf
from agentmem.core.patterns import compile_late
from agentmem.core.sentences import sentences
from agentmem.core.showing import show_quote
from agentmem.core.values import dataclass
from agentmem.data import read_lists
from agentmem.errors import InvalidInput

MOST_CHARACTERS = 400_000
"""Of all sources together so much is read, the first ones first: an answer stays instant."""
LONGEST_SENTENCE = 600
MAX_QUESTION_CHARACTERS = 2_000

NOTHING_FOUND = "None of the sources answers this."

# Fitted on half of the questions of benchmarks/extractive.py, rounded.
_NEIGHBOUR = 0.35
_TITLE = 0.8
_HEADING = 0.5
_SOURCE = 0.25
_AFTER_QUESTION = 0.8
_LIKENESS = 0.35
# A date or a number is told from other words for sure; a name or a reason is guessed.
_SURE = frozenset({"when", "count", "money"})
_SURE_LIKENESS = 0.7
_PHRASE = 0.25
_IS_QUESTION = 0.6
_NEAR_WORD = 0.8
_LEAST_COVERAGE = 0.25
_LEAST_SHARE = 0.35
_SAME = 0.7
_LENGTH = 0.25
_COMMON = 0.7
_SAME_SOURCE = 0.85

_LINE_ITEM = compile_late(r"\n(?=\s*(?:[-*+•·|#>]|\d{1,3}[.)]\s))")
_AFTER_HEADING = compile_late(r"^[ \t]*#{1,6}[ \t][^\n]*(\n)", re.MULTILINE)
_HEADING_LINE = compile_late(r"#{1,6}\s+\S|[^\n.!?:;,]{1,80}\Z")
_QUESTION_END = compile_late(r"[?？؟][\"'”’)\]»*_\s]*\Z")
_WORDS = compile_late(r"\w")
# Who says a paragraph says all its sentences: "Ada: I moved. It was in May."
_LABEL = compile_late(r"([^\W\d][\w.'’ -]{0,40}):\s+\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSource:
    """A numbered text to answer from."""

    index: int
    text: str
    title: str = ""
    date: date | None = None

    def __post_init__(self) -> None:
        require_count(self.index, "index", least=1)
        require_text(self.text, "text")
        require_text(self.title, "title")
        if self.date is not None and not isinstance(self.date, date | datetime):
            raise InvalidInput("date", self.date, "is not a date", remedy="Pass a date or None.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedSentence:
    """One sentence of the answer: `quote` is `source.text[start:end]`, to the letter."""

    index: int
    quote: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractedAnswer:
    """The best sentences, each with the number of its source; `found` is False when none fits.

    `text` shows the sentences with their markup taken apart (`show_quote`);
    without any it says that nothing was found.
    """

    text: str
    sentences: tuple[ExtractedSentence, ...] = ()
    found: bool = False


def extract_answer(
    question: str, sources: Sequence[ExtractSource], *, most_sentences: int = 3
) -> ExtractedAnswer:
    """The sentences of `sources` that answer `question` best, the best first, with [n] marks.

    At most `most_sentences`, fewer when the others fit much worse or say the
    same. A question that shares too little with every sentence is not
    answered: `found` is False and there are no sentences. The order of
    `sources` decides only between equals.
    """
    require_text(question, "question")
    require_count(most_sentences, "most_sentences", least=1)
    for source in sources:
        if not isinstance(source, ExtractSource):
            raise InvalidInput(
                "sources", source, "is not an ExtractSource", remedy="Wrap it in ExtractSource(…)."
            )
    units = list(_units(sources))
    asked = dict(analyse_query(question[:MAX_QUESTION_CHARACTERS]))
    if not units or not asked:
        return ExtractedAnswer(text=NOTHING_FOUND)
    scored = _score(question, asked, units, sources)
    chosen = _choose(scored, most_sentences)
    if not chosen:
        return ExtractedAnswer(text=NOTHING_FOUND)
    found = tuple(
        ExtractedSentence(
            index=sources[unit.place].index,
            quote=sources[unit.place].text[unit.start : unit.end],
            start=unit.start,
            end=unit.end,
            score=round(score, 6),
        )
        for score, unit in chosen
    )
    return ExtractedAnswer(text=write_answer(found), sentences=found, found=True)


def write_answer(found: Sequence[ExtractedSentence]) -> str:
    """The sentences as one text, the number of its source behind each."""
    return " ".join(f"{show_quote(part.quote)} [{part.index}]" for part in found)


@dataclass(slots=True)
class _Unit:
    """A sentence with its place; `heading` and `above` are what stands over and before it."""

    place: int
    start: int
    end: int
    terms: list[str]
    heading: list[str]
    is_question: bool
    order: int


def _units(sources: Sequence[ExtractSource]) -> Iterator[_Unit]:
    left = MOST_CHARACTERS
    for place, source in enumerate(sources):
        text = source.text[:left]
        left -= len(text)
        heading: list[str] = []
        order = 0
        for start, end in _spans(text):
            shown = text[start:end]
            terms = analyse(shown)
            if not terms:
                continue
            label = _LABEL.match(shown) if _opens_paragraph(text, start) else None
            if label:
                heading = analyse(label[1])
            elif _is_heading(text, start, end):
                heading = terms
                if shown.lstrip().startswith("#"):
                    continue
            yield _Unit(
                place=place,
                start=start,
                end=end,
                terms=terms,
                heading=heading if heading is not terms else [],
                is_question=_QUESTION_END.search(shown) is not None,
                order=order,
            )
            order += 1


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Sentences; list items, table rows and headings apart; what has no end cut at a blank."""
    for first, last in sentences(text):
        start = first
        breaks = {match.start() for match in _LINE_ITEM.finditer(text, first, last)}
        breaks |= {match.start(1) for match in _AFTER_HEADING.finditer(text, first, last)}
        for end in (*sorted(breaks), last):
            yield from _pieces(text, start, end)
            start = end


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        cut = end
        if end - start > LONGEST_SENTENCE:
            limit = start + LONGEST_SENTENCE
            cut = max(text.rfind("\n", start + 1, limit), start)
            if cut - start < LONGEST_SENTENCE // 3:
                cut = max(text.rfind(" ", start + 1, limit), start)
            if cut - start < LONGEST_SENTENCE // 3:
                cut = limit
        piece = text[start:cut]
        bare = piece.strip()
        if bare and _WORDS.search(bare):
            first = start + piece.index(bare)
            yield first, first + len(bare)
        start = cut


def _is_heading(text: str, start: int, end: int) -> bool:
    """A line of its own before a blank line, or one marked with #, without a sentence's end."""
    if not _HEADING_LINE.match(text[start:end]):
        return False
    return text[start] == "#" or (text[end : end + 2] == "\n\n" and "\n" not in text[start:end])


def _opens_paragraph(text: str, start: int) -> bool:
    return start == 0 or text[start - 1] == "\n"


@dataclass(slots=True)
class _Scored:
    score: float
    coverage: float
    unit: _Unit


def _score(
    question: str,
    asked: dict[str, float],
    units: list[_Unit],
    sources: Sequence[ExtractSource],
) -> list[_Scored]:
    kinds = answer_kinds(question)
    ordered = list(asked)
    common = _common_terms()
    asked = {term: weight * (_COMMON if term in common else 1.0) for term, weight in asked.items()}
    vectors = _matches(asked, units)
    frequency = {term: sum(term in vector for vector in vectors) for term in ordered}
    worth = {term: asked[term] * idf(frequency[term], len(units)) for term in ordered}
    total = sum(worth.values()) or 1.0
    mean_length = sum(len(unit.terms) for unit in units) / len(units)
    in_source = _source_shares(vectors, units, worth, total, sources)
    titles = [set(analyse(source.title)) & set(ordered) for source in sources]
    bigrams = set(itertools.pairwise(ordered))
    scored: list[_Scored] = []
    for at, (unit, vector) in enumerate(zip(units, vectors, strict=True)):
        own = {term: share * worth[term] for term, share in vector.items()}
        length = 1.0 - _LENGTH + _LENGTH * len(unit.terms) / mean_length
        base = sum(own.values()) / (total * sqrt(length))
        context = _context(at, units, vectors, worth=worth, titles=titles, own=own)
        score = base + context / total + _SOURCE * in_source[unit.place]
        if bigrams:
            pairs = set(zip(unit.terms, unit.terms[1:], strict=False))
            score += _PHRASE * len(bigrams & pairs) / len(bigrams)
        coverage = (sum(own.values()) + context) / total
        if at and _follows(units[at - 1], unit) and units[at - 1].is_question:
            before = sum(share * worth[t] for t, share in vectors[at - 1].items()) / total
            score += _AFTER_QUESTION * before
            coverage = max(coverage, _AFTER_QUESTION * before)
        source = sources[unit.place]
        likeness = answer_likeness(source.text[unit.start : unit.end], kinds)
        score *= 1.0 + (_SURE_LIKENESS if kinds[0] in _SURE else _LIKENESS) * likeness
        if unit.is_question:
            score *= 1.0 - _IS_QUESTION
        if len(unit.terms) < 3:
            score *= 0.7
        scored.append(_Scored(score=score, coverage=coverage, unit=unit))
    return scored


def _matches(asked: dict[str, float], units: list[_Unit]) -> list[dict[str, float]]:
    """Which of the asked terms each sentence holds: 1 for the term, less for a word close to it."""
    vocabulary = {term for unit in units for term in unit.terms}
    near: dict[str, str] = {}
    for term in vocabulary.difference(asked):
        for wanted in asked:
            if say_alike(term, wanted) or _is_near(term, wanted):
                near[term] = wanted
                break
    vectors: list[dict[str, float]] = []
    for unit in units:
        vector: dict[str, float] = {}
        for term in unit.terms:
            if term in asked:
                vector[term] = 1.0
            elif term in near:
                vector.setdefault(near[term], _NEAR_WORD)
        vectors.append(vector)
    return vectors


def _is_near(term: str, wanted: str) -> bool:
    """Of one family by their beginning: "inventor" and "invent"."""
    if term[0] != wanted[0] or not (term.isalpha() and wanted.isalpha()):
        return False
    short, long = sorted((term, wanted), key=len)
    if len(short) < 4 or len(long) - len(short) > 4:
        return False
    same = next(
        (i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short)
    )
    return same >= 4 and same >= len(short) - 1 and same >= 0.6 * len(long)


def _source_shares(
    vectors: list[dict[str, float]],
    units: list[_Unit],
    worth: dict[str, float],
    total: float,
    sources: Sequence[ExtractSource],
) -> list[float]:
    """How much of the question each source holds somewhere."""
    held: list[dict[str, float]] = [{} for _ in sources]
    for unit, vector in zip(units, vectors, strict=True):
        for term, share in vector.items():
            held[unit.place][term] = max(share, held[unit.place].get(term, 0.0))
    return [sum(share * worth[term] for term, share in one.items()) / total for one in held]


def _context(
    at: int,
    units: list[_Unit],
    vectors: list[dict[str, float]],
    *,
    worth: dict[str, float],
    titles: list[set[str]],
    own: dict[str, float],
) -> float:
    """What title, heading and the sentences beside it add: terms the sentence itself lacks."""
    unit = units[at]
    around: dict[str, float] = {}
    for neighbour in (at - 1, at + 1):
        if 0 <= neighbour < len(units) and _follows(
            units[min(at, neighbour)], units[max(at, neighbour)]
        ):
            share = _NEIGHBOUR if neighbour < at else _NEIGHBOUR / 2
            for term, value in vectors[neighbour].items():
                around[term] = max(around.get(term, 0.0), share * value)
    for terms, share in ((titles[unit.place], _TITLE), (unit.heading, _HEADING)):
        for term in terms:
            if term in worth:
                around[term] = max(around.get(term, 0.0), share)
    return sum(share * worth[term] for term, share in around.items() if term not in own)


def _follows(before: _Unit, after: _Unit) -> bool:
    return before.place == after.place


def _choose(scored: list[_Scored], most_sentences: int) -> list[tuple[float, _Unit]]:
    ranked = sorted(scored, key=lambda one: (-one.score, one.unit.place, one.unit.start))
    best = next((one for one in ranked if one.coverage >= _LEAST_COVERAGE), None)
    if best is None:
        return []
    least = _LEAST_SHARE * best.score
    waiting = [one for one in ranked if one is not best and one.score >= least]
    chosen = [best]
    while waiting and len(chosen) < most_sentences:
        quoted = {one.unit.place for one in chosen}
        # A second sentence of one source often scores for the words of the first.
        following = max(
            waiting, key=lambda one: one.score * (_SAME_SOURCE if one.unit.place in quoted else 1.0)
        )
        waiting.remove(following)
        if not any(_says_the_same(following.unit, known.unit) for known in chosen):
            chosen.append(following)
    return [(one.score, one.unit) for one in chosen]


def _says_the_same(first: _Unit, second: _Unit) -> bool:
    one, other = set(first.terms) - STOP_WORDS, set(second.terms) - STOP_WORDS
    if {term for term in one ^ other if any(map(str.isdigit, term))}:
        return False  # another number is another statement
    return len(one & other) >= _SAME * max(1, min(len(one), len(other))) and (
        len(one & other) >= 0.5 * len(one | other)
    )


def say_alike(one: str, other: str) -> bool:
    """Whether two terms, as `analyse` gives them, are forms of one verb or say nearly the same.

    "choose" and "chose" are, and "tall" and "height".
    """
    families = _families()
    return one in families and not families[one].isdisjoint(families.get(other, ()))


@cache
def _families() -> dict[str, frozenset[int]]:
    """The families of words that each term belongs to, by their number."""
    lists = read_lists("answer_words.txt")
    table: dict[str, set[int]] = {}
    for number, family in enumerate([*lists["irregular"], *lists["alike"]]):
        for word in family.split():
            for term in analyse(word)[:1]:
                table.setdefault(term, set()).add(number)
    return {term: frozenset(numbers) for term, numbers in table.items()}


@cache
def _common_terms() -> frozenset[str]:
    words = " ".join(read_lists("answer_words.txt")["common"]).split()
    return frozenset(term for word in words for term in analyse(word))
