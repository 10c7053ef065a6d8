"""Make the answer: ask a model and check it, or take the sources' own sentences."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from itertools import chain, zip_longest
from typing import Any

from agentmem.base.config import EXTRACTIVE
from agentmem.base.types import Origin
from agentmem.data import read_lists
from agentmem.living.conflicts import Statement, find_conflicts
from agentmem.models.call import Model
from agentmem.models.extract import ExtractedAnswer, ExtractSource, extract_answer
from agentmem.prompt.block import BlockSource
from agentmem.prompt.build import OfferedSource, build_block
from agentmem.prompt.cite import (
    Citation,
    FoundSource,
    find_citation,
    number_sources,
    resolve_citations,
)
from agentmem.prompt.messages import reference_messages
from agentmem.text.clean import drop_invisible, show_quote
from agentmem.text.markdown import remove_live_markup
from agentmem.text.sentences import sentences
from agentmem.text.terms import analyse, analyse_query, idf
from agentmem.tokens.encodings import estimate_tokens

# ----------------------------------------------------------------------------
# What memory and the web found, as one numbered list.
#
# A page that both found is one source with both texts. Where a finding stands in
# the input decides nothing: each side is ordered by its scores, and the two sides
# take turns, memory first.


MOST_SOURCES = 20

FOCUS_CHARACTERS = 2_400
PASSAGE_CHARACTERS = 900
QUOTE_CHARACTERS = 300
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(FoundSource):
    """One thing that one side found, with its words; a higher score is better."""

    text: str
    score: float = 0.0
    origin: Origin = "web"

    def __post_init__(self) -> None:
        # Two memories without an address are two sources even when they read the same.
        if not self.url and not self.memory_id:
            object.__setattr__(self, "quote", self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedSource:
    """A citation with all that was found under it, the web's before the memory's."""

    citation: Citation
    findings: tuple[Finding, ...]

    @property
    def index(self) -> int:
        return self.citation.index

    @property
    def text(self) -> str:
        """Every text once, parted by blank lines, so that no sentence runs across two."""
        return "\n\n".join(dict.fromkeys(f.text.strip() for f in self.findings if f.text.strip()))


def _extracted(question: str, sources: Sequence[NumberedSource], *, most: int) -> ExtractedAnswer:
    """The sentences of the sources that answer the question best."""
    offered = [
        ExtractSource(
            index=one.index, text=one.text, title=one.citation.title, date=one.citation.date
        )
        for one in sources
    ]
    return extract_answer(question, offered, most_sentences=most)


def merge_findings(question: str, findings: Sequence[Finding]) -> tuple[NumberedSource, ...]:
    """The best 20 sources of both sides, numbered from 1, each quoted by its best sentence."""
    sides: list[list[Finding]] = [
        sorted(
            (finding for finding in findings if finding.source == side),
            key=lambda f: (-f.score, f.memory_id, f.url, f.title, f.text, str(f.date)),
        )
        for side in ("memory", "web")
    ]
    ordered = list(filter(None, chain.from_iterable(zip_longest(*sides))))
    citations = number_sources(ordered)
    grouped = defaultdict[Citation | None, list[Finding]](list)
    for finding in sorted(ordered, key=lambda finding: finding.source != "web"):
        grouped[find_citation(citations, finding)].append(finding)
    numbered = []
    for citation in citations[:MOST_SOURCES]:
        source = NumberedSource(citation=citation, findings=tuple(grouped[citation]))
        quoted = replace(citation, quote=_best_quote(question, source))
        numbered.append(replace(source, citation=quoted))
    return tuple(numbered)


def _best_quote(question: str, source: NumberedSource) -> str:
    """The sentence of a source that fits the question best, else its first one, verbatim."""
    found = _extracted(question, [source], most=1)
    if found.found and len(found.sentences[0].quote) <= QUOTE_CHARACTERS:
        return found.sentences[0].quote
    first, last = next(sentences(source.text), (0, 0))
    return source.text[first : min(last, first + QUOTE_CHARACTERS)]


def focus(question: str, text: str, *, limit_characters: int = FOCUS_CHARACTERS) -> str:
    """The passages of a long text that share most with the question, in their order.

    A text within the limit stays whole. Passages are paragraphs, or runs of
    sentences where a paragraph is long.
    """
    if len(text) <= limit_characters:
        return text
    passages = [text[start:end] for start, end in _passages(text)]
    asked = dict(analyse_query(question))
    held = [set(analyse(passage)) & set(asked) for passage in passages]
    often = Counter(chain.from_iterable(held))
    worth = {term: asked[term] * idf(often[term], len(passages)) for term in asked}
    kept: list[int] = []
    left = limit_characters
    for at in sorted(range(len(passages)), key=lambda at: (-sum(worth[t] for t in held[at]), at)):
        if len(passages[at]) + 2 <= left:
            kept.append(at)
            left -= len(passages[at]) + 2
    return "\n\n".join(passages[at] for at in sorted(kept))


def _passages(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in (*_PARAGRAPH.finditer(text), None):
        end = match.start() if match else len(text)
        yield from _runs(text, start, end)
        start = match.end() if match else end


def _runs(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The part from `start` to `end` in runs of whole sentences of a passage's size."""
    if end - start <= PASSAGE_CHARACTERS:
        if text[start:end].strip():
            yield start, end
        return
    first: int | None = None
    last = start
    for begin, stop in sentences(text[start:end]):
        if first is not None and start + stop - first > PASSAGE_CHARACTERS:
            yield first, last
            first = None
        if first is None:
            first = start + begin
        last = min(start + stop, first + PASSAGE_CHARACTERS)
    if first is not None:
        yield first, last


# ----------------------------------------------------------------------------
# Ask a model for an answer with numbers, and check what it wrote (P12, P20).


LONGEST_ANSWER = 40_000
UNCITED_MARK = "[uncited]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompting:
    """What a model is asked with, and by when it has to answer."""

    secret: bytes
    limit_tokens: int
    today: date
    timeout_seconds: float = 60.0

    def request(
        self, prompt: str, sources: Sequence[BlockSource], question: str
    ) -> tuple[list[dict[str, Any]], int]:
        """The messages that ask about `sources`, and how many of them are in the one block.

        `prompt` is what the instructions are called in `data/web_prompts.txt`.

        They stand in their order, and where they do not all fit the last ones
        are left out; no messages when none fits.
        """
        built = build_block(
            secret=self.secret,
            limit_tokens=self.limit_tokens,
            count=estimate_tokens,
            candidates=[
                OfferedSource(id=f"{at:06}", score=-float(at), source=source)
                for at, source in enumerate(sources)
            ],
        )
        if built.text is None or built.block is None:
            return [], 0
        messages = [
            {"role": "system", "content": " ".join(read_lists("web_prompts.txt")[prompt])},
            *reference_messages(built.text),
            {"role": "user", "content": question},
        ]
        return messages, len(built.block.related_knowledge)

    async def ask(self, model: Model, messages: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """What a model answers, and why nothing came: it may raise anything."""
        try:
            async with asyncio.timeout(self.timeout_seconds):
                return (await model(messages)).text, ""
        except TimeoutError:
            return "", f"no answer within {self.timeout_seconds:g} seconds"
        except Exception as error:  # noqa: BLE001 - the sources are there, and answer instead
            return "", f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer in which every number exists and nothing is fetched when it is shown.

    `cited` are the sources it uses. `uncited_sentences` are the model's without
    a number, `removed_numbers` those it cited that no source has,
    `removed_links` the addresses taken out of it. `answered_by` is the model's
    name, `"extractive"`, or empty when there is no answer.
    """

    answer: str = ""
    found: bool = False
    cited: tuple[Citation, ...] = ()
    uncited_sentences: tuple[str, ...] = ()
    removed_numbers: tuple[int, ...] = ()
    removed_links: tuple[str, ...] = ()
    answered_by: str = ""


def request_answer(
    question: str, sources: Sequence[NumberedSource], prompting: Prompting
) -> tuple[list[dict[str, Any]], tuple[Citation, ...]]:
    """The messages that ask for an answer, and the citations whose sources they show.

    The numbers in the reference are those of the citations.
    """
    offered = [
        BlockSource(
            text=focus(question, source.text),
            retrieved=source.citation.date or prompting.today,
            url=source.citation.url,
            title=source.citation.title,
            origin=source.findings[0].origin if source.findings else "web",
            id=source.citation.memory_id,
        )
        for source in sources
    ]
    messages, shown = prompting.request("answer", offered, question)
    return messages, tuple(source.citation for source in sources[:shown])


def check_answer(text: str, citations: Sequence[Citation]) -> Answer:
    """A model's answer made safe to show and checked against `citations`.

    Past `LONGEST_ANSWER` characters it is cut.
    """
    readable = text[:LONGEST_ANSWER].encode("utf-8", "replace").decode("utf-8")
    readable = drop_invisible(readable).strip()
    allowed = frozenset(citation.url for citation in citations if citation.url)
    safe = remove_live_markup(readable, allowed)
    resolved = resolve_citations(safe.text.strip(), citations)
    missing = resolved.missing
    again = remove_live_markup(resolved.text, allowed)
    if again.text != resolved.text:  # taking out a number joined what stood around it
        resolved = resolve_citations(again.text, citations)
        missing = (*missing, *resolved.missing)
    links = dict.fromkeys((*safe.removed, *again.removed, *resolved.wrong_links))
    return Answer(
        answer=resolved.text,
        found=bool(resolved.cited),
        cited=resolved.cited,
        removed_numbers=tuple(dict.fromkeys(missing)),
        removed_links=tuple(filter(None, links)),
        uncited_sentences=resolved.uncited_sentences,
    )


def mark_uncited(answer: str, uncited: Sequence[str]) -> str:
    """`answer` with a mark behind every sentence that has no number."""
    position = 0
    parts: list[str] = []
    for sentence in uncited:
        found = answer.find(sentence, position)
        if found < 0:
            continue
        end = found + len(sentence)
        parts += (answer[position:end], " ", UNCITED_MARK)
        position = end
    return re.sub(r"[ \t]+$", "", "".join((*parts, answer[position:])))


# ----------------------------------------------------------------------------
# Where the memory and the web disagree, and the sentence that says so.
#
# The newer side is not preferred: a page of today can be wrong, and what the user
# said in spring can still hold. Both are named with their dates.


MOST_CONFLICTS = 5
SHOWN_CHARACTERS = 200

_VERDICT = re.compile(r"(?m)^\W*(\d{1,4})\W+(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConflict:
    """A sentence of the memory and one of the web that cannot both be true now.

    `confirmed` is what a model said of it, `None` when none was asked.
    """

    subject: str
    reason: str
    memory_index: int
    memory_quote: str
    memory_value: str
    memory_date: date | None
    web_index: int
    web_quote: str
    web_value: str
    web_date: date | None
    confidence: float
    confirmed: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """The conflict as JSON values."""

        def side(name: str) -> dict[str, Any]:
            said = {part: getattr(self, f"{name}_{part}") for part in ("index", "quote", "value")}
            day = getattr(self, f"{name}_date")
            return {**said, "date": day.isoformat() if day else None}

        return {
            "subject": self.subject,
            "reason": self.reason,
            "memory": side("memory"),
            "web": side("web"),
            "confidence": self.confidence,
            "confirmed": self.confirmed,
        }


def conflicts_between(
    question: str, sources: Sequence[NumberedSource]
) -> tuple[SearchConflict, ...]:
    """The surest disagreements between the memory's findings and the web's."""

    def stated(side: str) -> list[tuple[Statement, Finding, int]]:
        return [
            (Statement(text=focus(question, one.text), date=_instant(one.date)), one, source.index)
            for source in sources
            for one in source.findings
            if one.source == side and one.text.strip()
        ]

    ours, theirs = stated("memory"), stated("web")
    if not ours or not theirs:
        return ()
    found = find_conflicts(
        [s for s, _, _ in ours], [s for s, _, _ in theirs], most=20 * MOST_CONFLICTS
    )
    kept: dict[tuple[str, str], SearchConflict] = {}
    for conflict in found:
        verdict = conflict.verdict
        _, our_finding, our_index = ours[conflict.our_index]
        _, their_finding, their_index = theirs[conflict.their_index]
        made = SearchConflict(
            subject=verdict.subject,
            reason=verdict.reason,
            memory_index=our_index,
            memory_quote=conflict.ours.text,
            memory_value=verdict.first_value,
            memory_date=our_finding.date,
            web_index=their_index,
            web_quote=conflict.theirs.text,
            web_value=verdict.second_value,
            web_date=their_finding.date,
            confidence=verdict.confidence,
        )
        kept.setdefault((made.memory_quote, made.web_value.casefold()), made)
    return tuple(kept.values())[:MOST_CONFLICTS]


def _instant(value: date | None) -> datetime | None:
    return None if value is None else datetime(value.year, value.month, value.day, tzinfo=UTC)


def write_disclaimer(conflicts: Sequence[SearchConflict]) -> str:
    """What to show beside the answer; empty when nothing disagrees."""
    shown = [conflict for conflict in conflicts if conflict.confirmed is not False]
    if not shown:
        return ""
    lines = ["Your knowledge base and the web disagree; neither is preferred for being newer."]

    def side(name: str, index: int, day: date | None, quote: str) -> str:
        said = show_quote(quote)
        said = said if len(said) <= SHOWN_CHARACTERS else said[: SHOWN_CHARACTERS - 1] + "…"
        return f"the {name} [{index}] ({day.isoformat() if day else 'undated'}) says “{said}”"

    for one in shown:
        about = f"{show_quote(one.subject)}: " if one.subject.strip() else ""
        ours = side("knowledge base", one.memory_index, one.memory_date, one.memory_quote)
        theirs = side("web", one.web_index, one.web_date, one.web_quote)
        lines.append(f"- {about}{ours}, {theirs}.")
    return "\n".join(lines)


TOLD_NUMBERS = 10


def extract(question: str, sources: Sequence[NumberedSource], *, most_sentences: int) -> Answer:
    """The sources' own best sentences."""
    answer = _extracted(question, sources, most=most_sentences)
    by_index = {source.index: source.citation for source in sources}
    quotes: dict[int, str] = {}
    for sentence in answer.sentences:
        quotes.setdefault(sentence.index, sentence.quote)
    return Answer(
        answer=answer.text,
        found=answer.found,
        answered_by=EXTRACTIVE,
        cited=tuple(replace(by_index[index], quote=quote) for index, quote in quotes.items()),
    )


async def answer_from(
    question: str,
    sources: Sequence[NumberedSource],
    *,
    model: Model | None,
    prompting: Prompting,
    most_sentences: int,
) -> tuple[Answer, str]:
    """The model's checked answer; without one, or when it fails, the extractive one, and why."""
    extracted = extract(question, sources, most_sentences=most_sentences)
    if model is None or not sources:
        return extracted, ""
    messages, offered = request_answer(question, sources, prompting)
    if not messages:
        problem = f"no source fits into {prompting.limit_tokens:,} tokens"
        return extracted, f"the model was not asked: {problem}"
    text, problem = await prompting.ask(model, messages)
    if problem:
        return extracted, f"the model failed: {problem}"
    checked = check_answer(text, offered)
    if not checked.answer:
        return extracted, "the model gave an empty answer"
    if checked.removed_numbers:
        numbers = ", ".join(map(str, checked.removed_numbers[:TOLD_NUMBERS]))
        if (more := len(checked.removed_numbers) - TOLD_NUMBERS) > 0:
            numbers += f" and {more} more"
        problem = f"the model cited sources that do not exist: {numbers}"
    return replace(checked, answered_by=model.name or "model"), problem


async def confirm(
    conflicts: Sequence[SearchConflict], *, model: Model, prompting: Prompting
) -> tuple[tuple[SearchConflict, ...], str]:
    """The conflicts with what the model thinks of each, and what went wrong.

    Its first word on a pair counts; pairs are numbered from 1.
    """
    pairs = [
        BlockSource(text=f"A: {one.memory_quote}\nB: {one.web_quote}", retrieved=prompting.today)
        for one in conflicts
    ]
    asked = "Which of the pairs contradict each other?"
    messages, _ = prompting.request("check", pairs, asked)
    if not messages:
        return tuple(conflicts), ""
    text, problem = await prompting.ask(model, messages)
    if problem:
        return tuple(conflicts), f"the conflicts were not checked: {problem}"
    said = {int(number): word.lower() == "yes" for number, word in reversed(_VERDICT.findall(text))}
    checked = (replace(one, confirmed=said.get(at)) for at, one in enumerate(conflicts, start=1))
    return tuple(checked), ""
