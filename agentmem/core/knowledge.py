"""Fill the knowledge section by strict score order, with a reason for every candidate.

No lower-scored source is in while a higher-scored one is out (P7), and only
the last one may be cut, at a sentence end (P8). What is counted is the section
as it will be sent: heading, citations and escapes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from agentmem.core.block import Source, clean_source
from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.cleaning import clean_text, escape_text
from agentmem.core.context import knowledge_section, render_source
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter

Truncate = Callable[[str, int, TokenCounter], str]
"""`truncate_at_sentence(text, limit_tokens, count)`."""

Outcome = Literal["included", "cut", "dropped"]

# No tokenizer has tokens longer than this, so a longer text need not be read to know it is large.
CHARACTERS_A_TOKEN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A source that may be shown. Ids break ties between equal scores."""

    id: str
    source: Source
    score: float

    def __post_init__(self) -> None:
        require_text(self.id, "id")
        require_number(self.score, "score")
        if not isinstance(self.source, Source):
            raise InvalidInput("source", self.source, "is not a Source", remedy="Use source_of().")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of one candidate, and why. `tokens` is 0 for what was never counted."""

    id: str
    outcome: Outcome
    reason: str
    tokens: int = 0
    score: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFill:
    """`sources` as they came, the last one perhaps cut; `shown` the same as they are rendered.

    `fates` has every candidate, best first. `text` is the whole section as it
    is sent, and `tokens` what it costs.
    """

    sources: tuple[Source, ...] = ()
    shown: tuple[Source, ...] = ()
    fates: tuple[Fate, ...] = ()
    tokens: int = 0
    text: str = ""


def fill_knowledge(
    candidates: Iterable[Candidate],
    limit_tokens: int,
    *,
    count: TokenCounter,
    truncate: Truncate,
    total_found: int = 0,
) -> KnowledgeFill:
    """The best candidates whose section has at most `limit_tokens` tokens.

    Equal scores keep the order of their ids, whatever the order of the input.
    `total_found` is what "Showing X of Y" names as Y when more was found than
    is given here.
    """
    require_count(limit_tokens, "limit_tokens")
    ordered = in_order(candidates)
    total = max(len(ordered), require_count(total_found, "total_found"))
    margin = 0
    while True:
        fill = _fill(ordered, limit_tokens - margin, count, truncate, total)
        if not fill.sources:
            return fill
        tokens = count(fill.text)
        if tokens <= limit_tokens:
            return replace(fill, tokens=tokens)
        # The parts cost less than the whole with this counter: leave that much more room.
        margin = max(2 * margin, margin + tokens - limit_tokens)


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; equal scores by id, whatever order they came in."""
    return sorted(candidates, key=lambda c: (-c.score, c.id, c.source.url, c.source.text))


def _fill(
    ordered: list[Candidate], limit_tokens: int, count: TokenCounter, truncate: Truncate, total: int
) -> KnowledgeFill:
    left = limit_tokens - count(knowledge_section((), total)) if ordered else 0
    rendered: list[str] = []
    sources: list[Source] = []
    shown: list[Source] = []
    fates: list[Fate] = []
    for at, candidate in enumerate(ordered, start=1):
        whole = None
        tokens = 0
        if len(candidate.source.text) <= max(left, 0) * CHARACTERS_A_TOKEN:
            whole = clean_source(candidate.source)
            source = render_source(whole, at)
            tokens = count(f"{source}\n")
        if whole is not None and tokens <= left:
            left -= tokens
            sources.append(candidate.source)
            shown.append(whole)
            rendered.append(source)
            fates.append(_fate(candidate, "included", "fits", tokens))
            continue
        part, tokens_cut = _cut(candidate.source, at, left, count, truncate)
        if part is not None:
            sources.append(part)
            shown.append(clean_source(part))
            rendered.append(render_source(shown[-1], at))
            kept = sum(1 for _ in sentences(part.text))
            reason = f"cut at sentence {kept:,}, to the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "cut", reason, tokens_cut))
        else:
            reason = f"not even one sentence fits in the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "dropped", reason, tokens))
        rest = "a source with a higher score was the last to fit"
        fates += [_fate(later, "dropped", rest, 0) for later in ordered[at:]]
        break
    return KnowledgeFill(
        sources=tuple(sources),
        shown=tuple(shown),
        fates=tuple(fates),
        text=knowledge_section(rendered, total),
    )


def _cut(
    source: Source, index: int, left: int, count: TokenCounter, truncate: Truncate
) -> tuple[Source | None, int]:
    """The longest part of whole sentences that fits with its citation, and its cost."""
    empty = clean_source(replace(source, text="", cut=True))
    room = left - count(f"{render_source(empty, index)}\n")
    while room > 0:
        text = truncate(source.text, room, lambda part: count(escape_text(clean_text(part))))
        if not text:
            return None, 0
        if len(text) < len(source.text):
            part = replace(source, text=text, cut=True)
            tokens = count(f"{render_source(clean_source(part), index)}\n")
            if tokens <= left:
                return part, tokens
            room -= tokens - left
        else:
            room -= 1 + room // 8
    return None, 0


def _fate(candidate: Candidate, outcome: Outcome, reason: str, tokens: int) -> Fate:
    return Fate(
        id=candidate.id, outcome=outcome, reason=reason, tokens=tokens, score=candidate.score
    )
