"""The model that needs none: it answers by quoting the reference message."""

from __future__ import annotations

import itertools
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Literal

from agentmem.base.checks import require_count, require_text
from agentmem.base.config import EXTRACTIVE
from agentmem.base.errors import MalformedBlock
from agentmem.base.lazy import compile_late
from agentmem.base.threads import awaited
from agentmem.data import read_json, read_lists
from agentmem.prompt.block import STUB, ContextBlock, parse_context
from agentmem.prompt.build import is_only_asked
from agentmem.prompt.messages import is_reference, last_question
from agentmem.prompt.query import read_queries
from agentmem.prompt.strip import strip
from agentmem.text.clean import show_quote
from agentmem.text.dates import say_day, tell_when
from agentmem.text.detect import hear
from agentmem.text.messages import ModelAnswer, text_of
from agentmem.text.sentences import sentences
from agentmem.text.terms import STOP_WORDS, analyse, analyse_query, idf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# ----------------------------------------------------------------------------
# What kind of answer a question wants, and whether a sentence looks like one.


AnswerKind = Literal["when", "count", "money", "who", "where", "why", "how", "what", "any"]

Marks = Mapping[str, tuple[tuple[re.Pattern[str], float], ...]]
"""What a sentence has that answers a kind of question, and what each mark is worth."""


@cache
def _answers() -> tuple[tuple[tuple[AnswerKind, re.Pattern[str]], ...], Marks]:
    """How each kind of question is asked, and how its answers look; patterns are compiled late."""
    told = read_json("answers.json")
    return (
        tuple((kind, compile_late(asked, re.IGNORECASE)) for kind, asked in told["asked"]),
        {
            kind: tuple(
                (compile_late(pattern, re.IGNORECASE if any_case else 0), worth)
                for pattern, worth, any_case in marks
            )
            for kind, marks in told["marks"].items()
        },
    )


def answer_kinds(question: str) -> tuple[AnswerKind, ...]:
    """What `question` asks for, the first thing asked first; `("any",)` when it does not say."""
    kinds = [kind for kind, pattern in _answers()[0] if pattern.search(question)]
    # "How much does it cost" is a count as well as money; "what" is in nearly all of them.
    return tuple(dict.fromkeys(kinds[:2])) or ("any",)


def answer_likeness(sentence: str, kinds: tuple[AnswerKind, ...]) -> float:
    """How much `sentence` looks like such an answer, 0 to 1; 0 when nothing is known of it."""
    best = 0.0
    for rank, kind in enumerate(kinds):
        marks = _answers()[1].get(kind, ())
        worth = sum(value for pattern, value in marks if pattern.search(sentence))
        best = max(best, min(1.0, worth) * (1.0 if rank == 0 else 0.5))
    return best


# ----------------------------------------------------------------------------
# An answer made of the sources' own best sentences, with the number of each source.
#
# What stands in for a model when there is none: each sentence of the sources is
# scored by the words it shares with the question (rare ones count more), by what
# stands around it (title, heading, the sentences beside it), and by whether it
# looks like the answer asked for (a date for "when", a number for "how many").
# Measured by benchmarks/extractive.py; see docs/decisions/0012-web-search.md.


Embed = Callable[[Sequence[str]], "NDArray[np.float32] | None"]
"""Gives the MiniLM vectors of texts, or None where there is no such embedder."""

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
_LEAST_SHARE = 0.75
_SAME = 0.7
_LENGTH = 0.25
_COMMON = 0.7
_SAME_SOURCE = 0.85
_TELLS_WHEN = 0.7
_FAR = 0.1
_MEANING = 2.0
_LEAST_MEANT = 0.45
_TOLD = 0.33
MOST_EMBEDDED = 64
"""So many sentences are compared by meaning, the best by their words."""

_LINE_ITEM = compile_late(r"\n(?=\s*(?:[-*+•·|#>]|\d{1,3}[.)]\s))")
_AFTER_HEADING = compile_late(r"^[ \t]*#{1,6}[ \t][^\n]*(\n)", re.MULTILINE)
_HEADING_LINE = compile_late(r"#{1,6}\s+\S|[^\n.!?:;,]{1,80}\Z")
_QUESTION_END = compile_late(r"[?？؟][\"'”’)\]»*_\s]*\Z")
_WORDS = compile_late(r"\w")
# Who says a paragraph says all its sentences: "Ada: I moved. It was in May."
_LABEL = compile_late(r"([^\W\d][\w.'’ -]{0,40}):\s+\S")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractSource:
    """A numbered text to answer from; what was `said` was said on its date.

    What the user `told` of themselves answers in words that are not the question's.
    """

    index: int
    text: str
    title: str = ""
    date: date | None = None
    said: bool = False
    told: bool = False


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
    question: str,
    sources: Sequence[ExtractSource],
    *,
    most_sentences: int = 3,
    embed: Embed | None = None,
) -> ExtractedAnswer:
    """The sentences of `sources` that answer `question` best, the best first, with [n] marks.

    At most `most_sentences`, fewer when the others fit much worse or say the
    same. A question that shares too little with every sentence is not
    answered: `found` is False and there are no sentences. The order of
    `sources` decides only between equals. With `embed` a sentence that says
    it in other words answers too.
    """
    require_text(question, "question")
    require_count(most_sentences, "most_sentences", least=1)
    units = list(_units(sources))
    asked = dict(analyse_query(question[:MAX_QUESTION_CHARACTERS]))
    if not units or not asked:
        return ExtractedAnswer(text=NOTHING_FOUND)
    _score(question, asked, units, sources)
    if embed is not None:
        units = _by_meaning(question, units, sources, embed)
    chosen = _choose(units, most_sentences)
    if not chosen:
        return ExtractedAnswer(text=NOTHING_FOUND)
    found = tuple(
        ExtractedSentence(
            index=sources[unit.place].index,
            quote=sources[unit.place].text[unit.start : unit.end],
            start=unit.start,
            end=unit.end,
            score=round(unit.score, 6),
        )
        for unit in chosen
    )
    text = " ".join(f"{show_quote(part.quote)} [{part.index}]" for part in found)
    return ExtractedAnswer(text=text, sentences=found, found=True)


@dataclass(slots=True)
class _Unit:
    """A sentence with its place and the heading it stands under.

    `coverage` is how much of the question it holds together with what is around it.
    """

    place: int
    start: int
    end: int
    terms: list[str]
    heading: list[str]
    is_question: bool
    score: float = 0.0
    coverage: float = 0.0


def _units(sources: Sequence[ExtractSource]) -> Iterator[_Unit]:
    left = MOST_CHARACTERS
    for place, source in enumerate(sources):
        text = source.text[:left]
        left -= len(text)
        heading: list[str] = []
        for start, end in _spans(text):
            shown = text[start:end]
            terms = analyse(shown)
            if not terms:
                continue
            opens_paragraph = start == 0 or text[start - 1] == "\n"
            label = _LABEL.match(shown) if opens_paragraph else None
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
            )


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
            least, limit = start + LONGEST_SENTENCE // 3, start + LONGEST_SENTENCE
            found = (text.rfind(mark, least, limit) for mark in "\n ")
            cut = next((at for at in found if at >= 0), limit)
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


def _score(
    question: str,
    asked: dict[str, float],
    units: list[_Unit],
    sources: Sequence[ExtractSource],
) -> None:
    """Give each sentence its score and its coverage."""
    kinds, common = answer_kinds(question), _common_terms()
    vectors = _matches(asked, units)
    worth = {
        term: weight
        * (_COMMON if term in common else 1.0)
        * idf(sum(term in vector for vector in vectors), len(units))
        for term, weight in asked.items()
    }
    total = sum(worth.values()) or 1.0
    mean_length = sum(len(unit.terms) for unit in units) / len(units)
    titles = [[term for term in analyse(source.title) if term in worth] for source in sources]
    bigrams = set(itertools.pairwise(asked))
    held: list[dict[str, float]] = [{} for _ in sources]  # by each source somewhere
    for unit, vector in zip(units, vectors, strict=True):
        _widen(held[unit.place], vector)

    def share(words: Mapping[str, float]) -> float:
        """How much of the question these words are."""
        return sum(held * worth[term] for term, held in words.items()) / total

    def around(at: int) -> dict[str, float]:
        """What title, heading and the sentences beside it add: terms the sentence itself lacks."""
        unit, found = units[at], dict[str, float]()
        for neighbour, near in ((at - 1, _NEIGHBOUR), (at + 1, _NEIGHBOUR / 2)):
            if 0 <= neighbour < len(units) and units[neighbour].place == unit.place:
                _widen(found, vectors[neighbour], near)
        _widen(found, dict.fromkeys(titles[unit.place], _TITLE))
        _widen(found, {term: _HEADING for term in unit.heading if term in worth})
        return {term: held for term, held in found.items() if term not in vectors[at]}

    in_source = [share(words) for words in held]
    for at, (unit, vector) in enumerate(zip(units, vectors, strict=True)):
        length = 1.0 - _LENGTH + _LENGTH * len(unit.terms) / mean_length
        own, beside = share(vector), share(around(at))
        score = own / sqrt(length) + beside + _SOURCE * in_source[unit.place]
        if bigrams:
            pairs = set(itertools.pairwise(unit.terms))
            score += _PHRASE * len(bigrams & pairs) / len(bigrams)
        unit.coverage = own + beside
        if at and units[at - 1].place == unit.place and units[at - 1].is_question:
            before = _AFTER_QUESTION * share(vectors[at - 1])
            score += before
            unit.coverage = max(unit.coverage, before)
        likeness = answer_likeness(sources[unit.place].text[unit.start : unit.end], kinds)
        score *= 1.0 + (_SURE_LIKENESS if kinds[0] in _SURE else _LIKENESS) * likeness
        if unit.is_question:
            score *= 1.0 - _IS_QUESTION
        unit.score = score * (0.7 if len(unit.terms) < 3 else 1.0)


def _widen(words: dict[str, float], more: Mapping[str, float], share: float = 1.0) -> None:
    """Add what `more` holds, each word as much as it is held at best."""
    for term, held in more.items():
        words[term] = max(words.get(term, 0.0), share * held)


def _by_meaning(
    question: str, units: list[_Unit], sources: Sequence[ExtractSource], embed: Embed
) -> list[_Unit]:
    """The best by their words, with what their vectors say added."""
    best = sorted(units, key=lambda unit: -unit.score)[:MOST_EMBEDDED]
    vectors = embed([question, *(_in_place(unit, sources[unit.place].text) for unit in best)])
    if vectors is None:
        return units
    for unit, cosine in zip(best, (vectors[1:] @ vectors[0]).tolist(), strict=True):
        worth = max(0.0, cosine - _FAR)
        unit.score += _MEANING * worth * (1.0 - _IS_QUESTION * unit.is_question)
        enough = unit.coverage + worth >= _LEAST_MEANT
        if sources[unit.place].told:
            enough = unit.coverage >= _LEAST_COVERAGE or cosine >= _TOLD
        unit.coverage = _LEAST_COVERAGE if enough else 0.0
    return best


def _in_place(unit: _Unit, text: str) -> str:
    """A sentence under the heading it stands under, which often says what it is about."""
    shown = text[unit.start : unit.end]
    above = [term for term in unit.heading if term not in unit.terms]
    return f"{' '.join(above)}: {shown}" if above else shown


def _matches(asked: dict[str, float], units: list[_Unit]) -> list[dict[str, float]]:
    """Which of the asked terms each sentence holds: 1 for the term, less for a word close to it."""
    near = {
        term: wanted
        for term in {term for unit in units for term in unit.terms}.difference(asked)
        for wanted in reversed(asked)  # of several the first stays
        if say_alike(term, wanted) or _is_near(term, wanted)
    }
    vectors: list[dict[str, float]] = []
    for unit in units:
        close = {near[term]: _NEAR_WORD for term in unit.terms if term in near}
        vectors.append(close | {term: 1.0 for term in unit.terms if term in asked})
    return vectors


def _is_near(term: str, wanted: str) -> bool:
    """Of one family by their beginning: "inventor" and "invent"."""
    if term[0] != wanted[0] or not (term.isalpha() and wanted.isalpha()):
        return False
    short, long = sorted((term, wanted), key=len)
    if len(short) < 4 or len(long) - len(short) > 4:
        return False
    same = next((at for at, letter in enumerate(short) if letter != long[at]), len(short))
    return same >= 4 and same >= len(short) - 1 and same >= 0.6 * len(long)


def _choose(units: list[_Unit], most_sentences: int) -> list[_Unit]:
    ranked = sorted(units, key=lambda unit: (-unit.score, unit.place, unit.start))
    best = next((unit for unit in ranked if unit.coverage >= _LEAST_COVERAGE), None)
    if best is None:
        return []
    least = _LEAST_SHARE * best.score
    waiting = [unit for unit in ranked if unit is not best and unit.score >= least]
    chosen = [best]
    while waiting and len(chosen) < most_sentences:
        quoted = {unit.place for unit in chosen}
        # A second sentence of one source often scores for the words of the first.
        following = max(
            waiting, key=lambda unit: unit.score * (_SAME_SOURCE if unit.place in quoted else 1.0)
        )
        waiting.remove(following)
        if not any(_says_the_same(following, known) for known in chosen):
            chosen.append(following)
    return chosen


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


NOTHING = "Nothing in memory answers this."
NOTED = "Noted."
TOLD = "You told me: "
_WORD = re.compile(r"\w+")


class ExtractiveModel:
    """Answers with the best sentences of the reference message and their numbers.

    What the user said earlier in the conversation is not in that message, and
    is quoted too. It reads nothing else and invents nothing; where there is no
    answer it says so.
    """

    name = EXTRACTIVE

    def __init__(self, *, embed: Embed | None = None) -> None:
        self._embed = embed

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tools_off: bool = False,
        on_chunk: Callable[[str], Awaitable[None] | None] | None = None,
        response_format: Mapping[str, Any] | None = None,
    ) -> ModelAnswer:
        text = answer_from(messages, embed=self._embed)
        if on_chunk is not None:
            await awaited(on_chunk(text))
        return ModelAnswer(text=text, model=self.name)


def answer_from(messages: Sequence[Mapping[str, Any]], *, embed: Embed | None = None) -> str:
    """The answer to the last question that the reference message or the user's own words hold.

    Where it is asked when something was and the sentence says "yesterday", the
    day that means.
    """
    given = [dict(message) for message in messages]
    if is_told(given):
        return NOTED
    block = find_block(given) or ContextBlock()
    sources = [
        ExtractSource(
            index=at,
            text=source.text,
            title=source.title,
            date=source.retrieved,
            said=source.kind == "message",
            told=source.origin == "user" and source.speaker in ("", "user"),
        )
        for at, source in enumerate(block.related_knowledge, start=1)
    ]
    said = [
        ExtractSource(index=at, text=text)
        for at, text in enumerate(earlier_statements(given), start=len(sources) + 1)
    ]
    profile = [
        ExtractSource(index=at, text=line) for at, line in enumerate(block.user_profile, start=1)
    ]
    questions = read_queries(given)
    # Of "I moved. Where is my bike?" only the second half asks.
    parts = [one for one in questions[1:] if one.endswith("?") and one in questions[0]]
    questions = (*parts, *(one for one in questions if one not in parts))
    for question in questions[: len(parts) or 1]:  # others may hold words of the message before
        found = extract_answer(question, [*sources, *said], embed=embed)
        if found.found and found.sentences[0].index > len(sources):
            return TOLD + show_quote(found.sentences[0].quote)
    for question in questions:
        found = extract_answer(question, sources, embed=embed)
        if found.found:
            return _told_when(question, found, sources) or found.text
    for question in questions:
        told = extract_answer(question, profile, embed=embed)
        if told.found:
            lines = [block.user_profile[sentence.index - 1] for sentence in told.sentences]
            return TOLD + "; ".join(dict.fromkeys(lines))
    asked = last_question(given)
    return NOTED if asked is not None and is_statement(text_of(given[asked])) else NOTHING


def _told_when(
    question: str, found: ExtractedAnswer, sources: Sequence[ExtractSource]
) -> str | None:
    """The day that the best sentence tells by the day it was said on, if that is asked for."""
    best = found.sentences[0]
    source = sources[best.index - 1]
    if answer_kinds(question)[0] != "when" or source.date is None or not source.said:
        return None
    day = source.date.date() if isinstance(source.date, datetime) else source.date
    told = tell_when(best.quote, said_on=day)
    if told is not None:
        return f"{told[0].upper()}{told[1:]} [{best.index}]"
    if answer_likeness(best.quote, ("when",)) >= _TELLS_WHEN:
        return None
    return f"{show_quote(best.quote)} (said on {say_day(day)}) [{best.index}]"


def earlier_statements(messages: Sequence[dict[str, Any]]) -> list[str]:
    """What the user said before the last question and did not ask, the newest first."""
    asked = last_question(messages)
    texts = [
        strip(text_of(message)).strip()
        for message in messages[: asked or 0]
        if message.get("role") == "user" and text_of(message) != STUB
    ]
    return [text for text in reversed(texts) if text and not is_only_asked(text)]


def is_statement(text: str) -> bool:
    """Whether a text says something rather than asks for it, as far as its form tells."""
    words = _WORD.findall(text.casefold())
    ends = text.rstrip().endswith((".", "!", "。"))
    asking = " ".join(read_lists("answer_words.txt")["asking"]).split()
    return ends and "?" not in text and len(words) > 2 and not {*words[:6]} & {*asking}


def is_told(messages: Sequence[dict[str, Any]]) -> bool:
    """Whether the user last said something about themselves and asked nothing."""
    asked = last_question(messages)
    if asked is None:
        return False
    said = text_of(messages[asked])
    return "?" not in said and bool(hear(strip(said)).stated)


def find_block(messages: Sequence[dict[str, Any]]) -> ContextBlock | None:
    """The last reference message as a block, or none."""
    for message in reversed(messages):
        if is_reference(message):
            try:
                return parse_context(text_of(message))
            except MalformedBlock:
                return None
    return None
