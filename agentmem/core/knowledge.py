"""Fill the knowledge section by strict order of relevance, with a reason for every candidate.

No less relevant source is in while a more relevant one is out (P7), and only
the last one may be cut, at a sentence end (P8). What is counted is the section
as it will be sent: heading, citations and escapes included.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from datetime import date, datetime
from itertools import groupby
from typing import Literal, TypeVar

from agentmem.core.block import Source, clean_source
from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.cleaning import clean_text, escape_text
from agentmem.core.context import render_knowledge, render_line, render_source, speaker_label
from agentmem.core.packagers import rule_for
from agentmem.core.packages import ContentPackage
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter

Truncate = Callable[[str, int, TokenCounter], str]
"""`truncate_at_sentence(text, limit_tokens, count)`."""

T = TypeVar("T")
Rank = tuple[float, float, float]
Outcome = Literal["included", "cut", "dropped"]
RELEVANCE_DECIMALS = 2
"""Finer differences of relevance say nothing; there importance and age decide."""

# No tokenizer has tokens longer than this, so a longer text need not be read to know it is large.
CHARACTERS_A_TOKEN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A source that may be shown: a package of `type` whose relevance is `score`.

    `merit` is its composite score, which decides between sources that are
    equally relevant.
    """

    id: str
    source: Source
    score: float
    merit: float = 0.0
    type: str = "memory-episodic"
    importance: float = 0.5
    timestamp: datetime | None = None

    def __post_init__(self) -> None:
        require_text(self.id, "id")
        require_number(self.score, "score")
        require_number(self.merit, "merit")
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

    Both are in the order they are shown in, and so are their `ids`. `fates` has
    every candidate, best first; `packages` are those that are
    shown, as the whole request accounts for them. `text` is the whole section as it
    is sent, and `tokens` what it costs.
    """

    ids: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    shown: tuple[Source, ...] = ()
    fates: tuple[Fate, ...] = ()
    packages: tuple[ContentPackage, ...] = ()
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

    The order is that of `in_order`, whatever the order of the input.
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
    """Best first, whatever order and whatever ids they came with (P40).

    Relevance decides, to the second decimal (P7); among equals the merit, then
    what is left of the relevance, then what they say.
    """
    return sort_ranked(
        candidates,
        rank=lambda c: rank_key(c.score, c.merit),
        content=lambda c: (*content_key(c.source), c.id),
    )


def sort_ranked(
    items: Iterable[T], *, rank: Callable[[T], Rank], content: Callable[[T], tuple[str, ...]]
) -> list[T]:
    """Sorted by `rank`, and equals by `content`, which is worked out for them alone."""
    found: list[T] = []
    for _, group in groupby(sorted(items, key=rank), key=rank):
        equals = list(group)
        found += sorted(equals, key=content) if len(equals) > 1 else equals
    return found


def rank_key(relevance: float, merit: float) -> Rank:
    """What puts the more relevant first, and of equally relevant ones the one of more merit."""
    return (-round(relevance, RELEVANCE_DECIMALS), -merit, -relevance)


def content_key(source: Source) -> tuple[str, ...]:
    """What a source says, without the id it happens to have."""
    return (
        source.url, source.text, source.title, source.section, source.kind, source.speaker,
        source.origin, source.retrieved.isoformat(),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """A candidate that is shown: as it came or cut, and as it is rendered."""

    candidate: Candidate
    source: Source
    shown: Source


def arrange(candidates: Iterable[tuple[Candidate, Source]]) -> list[int]:
    """The places of chosen candidates in the order they are shown, given the best first.

    What was said comes first, the newest day before older ones, so that a new
    value stands before the one it replaced, and within a day as it was said;
    then pages and the like, the best first.
    """
    places = list(enumerate(candidates))
    said = [(at, one) for at, one in places if speaker_label(one[1]) is not None]

    def by_day(place: tuple[int, tuple[Candidate, Source]]) -> tuple[int, float, int]:
        at, (candidate, source) = place
        moment = candidate.timestamp.timestamp() if candidate.timestamp else 0.0
        return -source.retrieved.toordinal(), moment, at

    ordered = [at for at, _ in sorted(said, key=by_day)]
    return ordered + sorted({at for at, _ in places} - set(ordered))


def _fill(
    ordered: list[Candidate], limit_tokens: int, count: TokenCounter, truncate: Truncate, total: int
) -> KnowledgeFill:
    left = limit_tokens - count(render_knowledge((), total)) if ordered else 0
    widest = len(ordered)
    days: set[date] = set()
    kept: list[_Kept] = []
    fates: list[Fate] = []
    packages: list[ContentPackage] = []
    for at, candidate in enumerate(ordered, start=1):
        whole = None
        tokens = 0
        if len(candidate.source.text) <= max(left, 0) * CHARACTERS_A_TOKEN:
            whole = clean_source(candidate.source)
            tokens = count(f"{render_piece(whole, widest, days)}\n")
        if whole is not None and tokens <= left:
            left -= tokens
            if speaker_label(whole) is not None:
                days.add(whole.retrieved)
            kept.append(_Kept(candidate=candidate, source=candidate.source, shown=whole))
            fates.append(_fate(candidate, "included", "fits", tokens))
            packages.append(_package(candidate, tokens))
            continue
        part, tokens_cut = _cut(candidate.source, widest, left, count, truncate)
        if part is not None:
            kept.append(_Kept(candidate=candidate, source=part, shown=clean_source(part)))
            sentence = sum(1 for _ in sentences(part.text))
            reason = f"cut at sentence {sentence:,}, to the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "cut", reason, tokens_cut))
            packages.append(_package(candidate, tokens_cut))
        else:
            reason = f"not even one sentence fits in the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "dropped", reason, tokens))
        rest = "a source with a higher score was the last to fit"
        fates += [_fate(later, "dropped", rest, 0) for later in ordered[at:]]
        break
    kept = [kept[at] for at in arrange((one.candidate, one.shown) for one in kept)]
    return KnowledgeFill(
        ids=tuple(one.candidate.id for one in kept),
        sources=tuple(one.source for one in kept),
        shown=tuple(one.shown for one in kept),
        fates=tuple(fates),
        packages=tuple(packages),
        text=render_knowledge([one.shown for one in kept], total),
    )


def render_piece(source: Source, index: int, days: Collection[date]) -> str:
    """What a cleaned source adds to a section that has lines of these days."""
    label = speaker_label(source)
    if label is None:
        return render_source(source, index)
    line = render_line(source, index, label)
    return line if source.retrieved in days else f"{source.retrieved.isoformat()}\n{line}"


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


def _package(candidate: Candidate, tokens: int) -> ContentPackage:
    """What is shown of a candidate, which was chosen already and cannot be dropped again."""
    return ContentPackage(
        id=candidate.id,
        type=candidate.type,
        content="",
        tokens=tokens,
        importance=candidate.importance,
        relevance=min(max(candidate.score, 0.0), 1.0),
        timestamp=candidate.timestamp,
        can_drop=False,
        priority=rule_for(candidate.type).priority,
    )


def _fate(candidate: Candidate, outcome: Outcome, reason: str, tokens: int) -> Fate:
    return Fate(
        id=candidate.id, outcome=outcome, reason=reason, tokens=tokens, score=candidate.score
    )
