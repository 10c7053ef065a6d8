"""What memory and the web found, as one numbered list.

A page that both found is one source with both texts. Where a finding stands in
the input decides nothing: each side is ordered by its scores, and the two sides
take turns, memory first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Literal, get_args

from agentmem.core.checks import require_choice, require_number, require_text
from agentmem.core.citations import Citation, Source, find_citation, number_sources
from agentmem.core.extractive import ExtractSource, extract_answer
from agentmem.core.lexical import analyse, analyse_query, idf
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass
from agentmem.types import Origin

MOST_SOURCES = 20

Side = Literal["memory", "web"]

FOCUS_CHARACTERS = 2_400
PASSAGE_CHARACTERS = 900
QUOTE_CHARACTERS = 300
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that one side found; a higher score is better."""

    side: Side
    text: str
    url: str = ""
    title: str = ""
    date: date | None = None
    memory_id: str = ""
    score: float = 0.0
    origin: Origin = "web"

    def __post_init__(self) -> None:
        require_choice(self.side, get_args(Side), "side")
        require_choice(self.origin, get_args(Origin), "origin")
        for name in ("text", "url", "title", "memory_id"):
            require_text(getattr(self, name), name)
        require_number(self.score, "score")


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


def merge_findings(
    question: str, memory: Sequence[Finding], web: Sequence[Finding]
) -> tuple[NumberedSource, ...]:
    """The best 20 sources of both sides, numbered from 1, each quoted by its best sentence."""
    require_text(question, "question")
    ordered = list(_take_turns(_by_score(memory), _by_score(web)))
    citations = number_sources(map(_source, ordered))
    grouped: dict[int, list[Finding]] = {citation.index: [] for citation in citations}
    for finding in ordered:
        citation = find_citation(citations, _source(finding))
        if citation is not None:
            grouped[citation.index].append(finding)
    numbered = []
    for citation in citations[:MOST_SOURCES]:
        found = sorted(grouped[citation.index], key=lambda finding: finding.side != "web")
        source = NumberedSource(citation=citation, findings=tuple(found))
        quote = best_quote(question, source)
        numbered.append(replace(source, citation=replace(citation, quote=quote)))
    return tuple(numbered)


def best_quote(question: str, source: NumberedSource) -> str:
    """The sentence of a source that fits the question best, else its first one, verbatim."""
    text = source.text
    found = extract_answer(
        question,
        [ExtractSource(index=1, text=text, title=source.citation.title)],
        most_sentences=1,
    )
    if found.found and len(found.sentences[0].quote) <= QUOTE_CHARACTERS:
        return found.sentences[0].quote
    first, last = next(sentences(text), (0, 0))
    return text[first : min(last, first + QUOTE_CHARACTERS)]


def focus(question: str, text: str, *, limit_characters: int = FOCUS_CHARACTERS) -> str:
    """The passages of a long text that share most with the question, in their order.

    A text within the limit stays whole. Passages are paragraphs, or runs of
    sentences where a paragraph is long.
    """
    if len(text) <= limit_characters:
        return text
    passages = list(_passages(text))
    asked = dict(analyse_query(question))
    held = [set(analyse(text[start:end])) & set(asked) for start, end in passages]
    often = {term: sum(term in terms for terms in held) for term in asked}
    worth = {term: asked[term] * idf(often[term], len(passages)) for term in asked}
    ranked = sorted(
        range(len(passages)), key=lambda at: (-sum(worth[term] for term in held[at]), at)
    )
    kept: list[int] = []
    left = limit_characters
    for at in ranked:
        start, end = passages[at]
        if end - start + 2 <= left:
            kept.append(at)
            left -= end - start + 2
    return "\n\n".join(text[start:end] for start, end in (passages[at] for at in sorted(kept)))


def _by_score(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(
        findings, key=lambda f: (-f.score, f.memory_id, f.url, f.title, f.text, str(f.date))
    )


def _take_turns(first: list[Finding], second: list[Finding]) -> Iterator[Finding]:
    for at in range(max(len(first), len(second))):
        yield from first[at : at + 1]
        yield from second[at : at + 1]


def _source(finding: Finding) -> Source:
    # Two memories without an address are two sources even when they read the same.
    return Source(
        source=finding.side,
        url=finding.url,
        title=finding.title,
        quote="" if finding.url or finding.memory_id else finding.text,
        date=finding.date,
        memory_id=finding.memory_id,
    )


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
