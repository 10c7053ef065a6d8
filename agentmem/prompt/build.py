"""Build the block of one turn within a hard token limit (P16).

The profile comes first and from its own budget, whatever the query (P11);
then knowledge by strict score order, then pointers. What is
counted is the message pair as it will be sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, Literal, TypeVar

from agentmem.base.checks import require_number
from agentmem.base.config import Framing, ReferenceRole
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import EMPTY, Hit, Memory, cognitive_type, served_text
from agentmem.prompt.block import (
    BlockSource,
    ContextBlock,
    Pointer,
    clean_pointer,
    clean_profile_line,
    clean_source,
    render_body,
    render_knowledge,
    render_line,
    render_pointer,
    render_profile_line,
    render_source,
    seal,
    source_of,
    speaker_label,
)
from agentmem.prompt.budget import calculate_token_budgets, composite, recency, rule_for
from agentmem.prompt.cite import Citation
from agentmem.prompt.messages import read_conversation, reference_messages
from agentmem.text.clean import clean_text, escape_text
from agentmem.text.language import QUESTION_MARKS, only_asks
from agentmem.text.sentences import sentences, truncate_at_sentence
from agentmem.text.terms import STOP_WORDS, analyse

# ----------------------------------------------------------------------------
# Fill the knowledge section by strict order of relevance, with a reason for every candidate.
#
# No less relevant source is in while a more relevant one is out (P7), and only
# the last one may be cut, at a sentence end (P8). What is counted is the section
# as it will be sent: heading, citations and escapes included.


T = TypeVar("T")
Rank = tuple[float, float, float]
Outcome = Literal["included", "cut", "dropped"]
RELEVANCE_DECIMALS = 2
"""Finer differences of relevance say nothing; there importance and age decide."""

# No tokenizer has tokens longer than this, so a longer text need not be read to know it is large.
CHARACTERS_A_TOKEN = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSource:
    """A source that may be shown: a package of `type` whose relevance is `score`.

    `merit` is its composite score, which decides between sources that are
    equally relevant. Of a memory the source is made when somebody asks for it:
    most are never looked at.
    """

    id: str
    source: BlockSource | Memory
    score: float
    merit: float = 0.0
    type: str = "memory-episodic"
    timestamp: datetime | None = None

    def __post_init__(self) -> None:
        require_number(self.score, "score")
        require_number(self.merit, "merit")

    @property
    def offered(self) -> BlockSource:
        """The source itself."""
        return _source(self.source) if isinstance(self.source, Memory) else self.source


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFate:
    """What became of one candidate, and why. `tokens` is 0 for what was never counted."""

    id: str
    outcome: Outcome
    reason: str
    tokens: int = 0
    score: float = 0.0
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeFill:
    """`sources` as they came, the last one perhaps cut; `shown` the same as they are rendered.

    Both are in the order they are shown in, and so are their `ids`. `fates` has
    every candidate, best first. `text` is the whole section as it is sent, and
    `tokens` what it costs.
    """

    ids: tuple[str, ...] = ()
    sources: tuple[BlockSource, ...] = ()
    shown: tuple[BlockSource, ...] = ()
    fates: tuple[SourceFate, ...] = ()
    tokens: int = 0
    text: str = ""


def fill_knowledge(
    candidates: Iterable[OfferedSource],
    limit_tokens: int,
    *,
    count: TokenCounter,
    total_found: int = 0,
) -> KnowledgeFill:
    """The best candidates whose section has at most `limit_tokens` tokens.

    The order is that of `in_order`, whatever the order of the input.
    `total_found` is what "Showing X of Y" names as Y when more was found than
    is given here.
    """
    ordered = in_order(candidates)
    total = max(len(ordered), total_found)
    margin = 0
    while True:
        fill = _fill(ordered, limit_tokens - margin, count, total)
        if not fill.sources:
            return fill
        tokens = count(fill.text)
        if tokens <= limit_tokens:
            return replace(fill, tokens=tokens)
        # The parts cost less than the whole with this counter: leave that much more room.
        margin = max(2 * margin, margin + tokens - limit_tokens)


def in_order(candidates: Iterable[OfferedSource]) -> list[OfferedSource]:
    """Best first, whatever order and whatever ids they came with (P40).

    Relevance decides, to the second decimal (P7); among equals the merit, then
    what is left of the relevance, then what they say.
    """
    return sort_ranked(
        candidates,
        rank=lambda c: rank_key(c.score, c.merit),
        content=lambda c: (*content_key(c.offered), c.id),
    )


def sort_ranked(
    items: Iterable[T], *, rank: Callable[[T], Rank], content: Callable[[T], tuple[str, ...]]
) -> list[T]:
    """Sorted by `rank`, and equals by `content`, which is worked out for them alone."""
    given = list(items)
    ranks = list(map(rank, given))
    found: list[T] = []
    for _, group in groupby(sorted(range(len(given)), key=ranks.__getitem__), ranks.__getitem__):
        equals = [given[at] for at in group]
        found += sorted(equals, key=content) if len(equals) > 1 else equals
    return found


def rank_key(relevance: float, merit: float) -> Rank:
    """What puts the more relevant first, and of equally relevant ones the one of more merit."""
    return (-round(relevance, RELEVANCE_DECIMALS), -merit, -relevance)


def content_key(source: BlockSource) -> tuple[str, ...]:
    """What a source says, without the id it happens to have."""
    return (
        source.url, source.text, source.title, source.section, source.kind, source.speaker,
        source.origin, source.retrieved.isoformat(),
    )  # fmt: skip


def arrange(candidates: Iterable[tuple[OfferedSource, BlockSource]]) -> list[int]:
    """The places of chosen candidates in the order they are shown, given the best first.

    What people said comes first, the newest before older ones, so that a new value
    stands before the one it replaced (P43); a day on which several people talked is
    shown as they did. Then what the assistant said, which may be wrong about them
    (R13), and then pages and the like, the best first.
    """
    listed = [(speaker_label(source), one, source.retrieved) for one, source in candidates]
    people: dict[date, set[str]] = {}
    for label, _, day in listed:
        if label and label not in ("assistant", "fact"):
            people.setdefault(day, set()).add(label)

    def key(at: int) -> tuple[int, int, float, int]:
        label, one, day = listed[at]
        if label is None:
            return 2, 0, 0.0, at
        moment = one.timestamp.timestamp() if one.timestamp else 0.0
        if label != "assistant" and len(people.get(day, ())) <= 1:
            moment = -moment
        return int(label == "assistant"), -day.toordinal(), moment, at

    return sorted(range(len(listed)), key=key)


def _fill(
    ordered: list[OfferedSource],
    limit_tokens: int,
    count: TokenCounter,
    total: int,
) -> KnowledgeFill:
    left = limit_tokens - count(render_knowledge((), total)) if ordered else 0
    widest = len(ordered)
    days: set[date] = set()
    kept: list[tuple[OfferedSource, BlockSource, BlockSource]] = []  # as it came, cut, and shown
    fates: list[SourceFate] = []
    for at, candidate in enumerate(ordered, start=1):
        source = candidate.offered
        whole = label = None
        tokens = 0
        if len(source.text) <= max(left, 0) * CHARACTERS_A_TOKEN:
            whole = clean_source(source)
            label = speaker_label(whole)
            piece = render_line(whole, widest, label) if label else render_source(whole, widest)
            new_day = label is not None and whole.retrieved not in days
            tokens = count(f"{whole.retrieved.isoformat()}\n{piece}\n" if new_day else f"{piece}\n")
        if whole is not None and tokens <= left:
            left -= tokens
            if label is not None:
                days.add(whole.retrieved)
            kept.append((candidate, source, whole))
            fates.append(_fate(candidate, "included", "fits", tokens))
            continue
        part, tokens_cut = _cut(source, widest, left, count)
        if part is not None:
            kept.append((candidate, part, clean_source(part)))
            sentence = sum(1 for _ in sentences(part.text))
            reason = f"cut at sentence {sentence:,}, to the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "cut", reason, tokens_cut))
        else:
            reason = f"not even one sentence fits in the {max(left, 0):,} tokens left"
            fates.append(_fate(candidate, "dropped", reason, tokens))
        rest = "a source with a higher score was the last to fit"
        fates += [_fate(later, "dropped", rest, 0) for later in ordered[at:]]
        break
    kept = [kept[at] for at in arrange([(candidate, shown) for candidate, _, shown in kept])]
    return KnowledgeFill(
        ids=tuple([candidate.id for candidate, _, _ in kept]),
        sources=tuple([source for _, source, _ in kept]),
        shown=tuple([shown for _, _, shown in kept]),
        fates=tuple(fates),
        text=render_knowledge([shown for _, _, shown in kept], total),
    )


def _cut(
    source: BlockSource, index: int, left: int, count: TokenCounter
) -> tuple[BlockSource | None, int]:
    """The longest part of whole sentences that fits with its citation, and its cost."""
    empty = clean_source(replace(source, text="", cut=True))
    room = left - count(f"{render_source(empty, index)}\n")
    while room > 0:
        text = truncate_at_sentence(
            source.text, room, lambda part: count(escape_text(clean_text(part)))
        )
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


def _fate(candidate: OfferedSource, outcome: Outcome, reason: str, tokens: int) -> SourceFate:
    return SourceFate(
        id=candidate.id, outcome=outcome, reason=reason, tokens=tokens, score=candidate.score,
        type=candidate.type,
    )  # fmt: skip


Item = TypeVar("Item", str, Pointer)
MessageCounter = Callable[[Sequence[dict[str, Any]]], int]
"""What messages cost as they are sent, with whatever a provider adds to each."""

MESSAGE_OVERHEAD_TOKENS = 4
INVISIBLE = "nothing visible in it"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltBlock:
    """The block of a turn, ready to be injected, and what became of everything offered.

    `block` is as shown (cleaned). Where nothing fits, `block` and `text` are
    `None` and the fates still say why.
    """

    block: ContextBlock | None = None
    text: str | None = None
    tokens: int = 0
    profile: tuple[SourceFate, ...] = ()
    knowledge: KnowledgeFill = field(default_factory=KnowledgeFill)
    pointers: tuple[SourceFate, ...] = ()


def build_block(
    *,
    secret: bytes,
    limit_tokens: int,
    count: TokenCounter,
    user_profile: Sequence[str] = (),
    profile_tokens: int | None = None,
    candidates: Iterable[OfferedSource] = (),
    knowledge_tokens: int | None = None,
    total_found: int = 0,
    working_memory: Sequence[Pointer] = (),
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
    count_messages: MessageCounter | None = None,
) -> BuiltBlock:
    """The best block whose messages have at most `limit_tokens` tokens, wrapper included.

    `profile_tokens` and `knowledge_tokens` are the most those sections may
    take; left out, each may take what there is. Without `count_messages` a
    message costs its content, its role and `MESSAGE_OVERHEAD_TOKENS`.
    """
    cost = count_messages or partial(message_tokens, count=count)
    offered = tuple(candidates)

    def sealed(block: ContextBlock, knowledge: str = "") -> tuple[str, int]:
        text = seal(render_body(block, knowledge=knowledge), secret=secret)
        return text, cost(reference_messages(text, framing=framing, role=role))

    frame = empty_frame(secret)
    frame_tokens = cost(reference_messages(frame, framing=framing, role=role))
    margin = profile_margin = 0
    while True:
        left = max(0, limit_tokens - frame_tokens - profile_margin)
        most = left if profile_tokens is None else min(left, profile_tokens)
        lines, profile, spent = _fill_section(
            user_profile,
            most,
            "user_profile",
            count=count,
            show=clean_profile_line,
            render=render_profile_line,
            cut=lambda line, room: truncate_at_sentence(
                line, room, lambda part: count(f"{render_profile_line(part)}\n")
            ),
        )
        left = max(0, left - spent - margin)
        most = left if knowledge_tokens is None else min(left, knowledge_tokens)
        knowledge = fill_knowledge(offered, most, count=count, total_found=total_found)
        left -= knowledge.tokens
        kept, pointers, _ = _fill_section(
            working_memory,
            left,
            "working_memory",
            count=count,
            show=clean_pointer,
            render=render_pointer,
        )
        block = ContextBlock(
            user_profile=lines,
            related_knowledge=knowledge.shown,
            working_memory=kept,
            total_found=max(len(offered), total_found) if knowledge.shown else 0,
        )
        built = BuiltBlock(profile=profile, knowledge=knowledge, pointers=pointers)
        if block.empty:
            return built
        text, tokens = sealed(block, knowledge.text)
        if tokens <= limit_tokens:
            return replace(
                built, block=replace(block, total_tokens=tokens), text=text, tokens=tokens
            )
        # The whole cost more than its parts with this counter: leave that much more room,
        # at the profile's expense only when nothing else is left.
        over = tokens - limit_tokens
        if knowledge.shown or kept:
            margin = max(2 * margin, margin + over)
        else:
            profile_margin = max(2 * profile_margin, profile_margin + over)


@lru_cache(maxsize=64)
def empty_frame(secret: bytes) -> str:
    """A block with nothing in it: what every block costs at least."""
    return seal(render_body(ContextBlock()), secret=secret)


def message_tokens(
    messages: Sequence[dict[str, Any]], count: TokenCounter, *, frame: int = MESSAGE_OVERHEAD_TOKENS
) -> int:
    """What text messages cost: content, role and a few tokens that frame each."""
    return sum(count(m["content"]) + count(m["role"]) + frame for m in messages)


def _fill_section(
    items: Sequence[Item],
    limit_tokens: int,
    tag: str,
    *,
    count: TokenCounter,
    show: Callable[[Item], Item],
    render: Callable[[Item], str],
    cut: Callable[[Item, int], Item] | None = None,
) -> tuple[tuple[Item, ...], tuple[SourceFate, ...], int]:
    """The items that fit in order, what became of each, and what the section costs.

    One that is too large is passed over; smaller ones after it are still tried.
    Where none fits, `cut` may make the first that it can fit.
    """
    kept: list[Item] = []
    fates: list[SourceFate] = []
    spent = count(f"<{tag}>\n</{tag}>\n") if items else 0
    for item in items:
        name = item if isinstance(item, str) else item.id
        shown = show(item)
        tokens = count(f"{render(shown)}\n")
        if shown == "":
            fates.append(SourceFate(id=name, outcome="dropped", reason=INVISIBLE))
        elif spent + tokens <= limit_tokens:
            spent += tokens
            kept.append(shown)
            fates.append(SourceFate(id=name, outcome="included", reason="fits", tokens=tokens))
        else:
            left = max(0, limit_tokens - spent)
            reason = f"does not fit in the {left:,} tokens left"
            fates.append(SourceFate(id=name, outcome="dropped", reason=reason, tokens=tokens))
    if cut is not None and not kept:
        for at, item in enumerate(items):
            part = cut(show(item), max(0, limit_tokens - spent))
            tokens = count(f"{render(part)}\n")
            says = isinstance(part, str) and any(map(str.isalnum, part))
            if says and spent + tokens <= limit_tokens:
                fates[at] = SourceFate(
                    id=fates[at].id, outcome="cut", reason="cut to fit", tokens=tokens
                )
                return (part,), tuple(fates), spent + tokens
    return tuple(kept), tuple(fates), spent if kept else 0


# ----------------------------------------------------------------------------
# Write the block of a turn without counting a token, where all of it fits for certain.
#
# Short memories in a large budget are the usual case. What a text costs at most
# is known from its length; while that is within every limit, nothing has to be
# left out, and the exact counts can wait until somebody asks for them.


MESSAGE_TOKENS = 8
"""More than any provider frames a message with."""


def write_whole(
    *,
    at_most: TokenCounter,
    limit_tokens: int,
    knowledge_tokens: int,
    candidates: Sequence[OfferedSource] = (),
    **offered: Any,
) -> str | None:
    """The text that `build_block` gives for the same, or None where something might not fit.

    `at_most` gives no less than the tokens of a text, however they are counted, and no less
    than its length.
    """
    known = 0
    for one in candidates:
        source = one.source
        known += at_most(served_text(source) if isinstance(source, Memory) else source.text)
        if known > min(knowledge_tokens, limit_tokens):
            return None  # seen at a glance, before anything is cleaned

    built = build_block(
        count=at_most,
        count_messages=partial(message_tokens, count=at_most, frame=MESSAGE_TOKENS),
        limit_tokens=limit_tokens,
        knowledge_tokens=knowledge_tokens,
        candidates=candidates,
        **offered,
    )
    fates = (*built.profile, *built.knowledge.fates, *built.pointers)
    whole = all(fate.outcome == "included" or fate.reason == INVISIBLE for fate in fates)
    return built.text if whole else None


# ----------------------------------------------------------------------------
# How much of a request the block may take.


FRAME_TOKENS = 250
"""More than the block's own lines cost with any counter; what is not used is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many tokens the block may take, and its knowledge section.

    A `full` room is as large as the settings allow: messages that cost less
    would not make it larger.
    """

    limit_tokens: int = 0
    knowledge_tokens: int = 0
    full: bool = False


def room_for(
    *,
    window_tokens: int,
    reserve_tokens: int = 0,
    system_tokens: int = 0,
    query_tokens: int = 0,
    other_tokens: int = 0,
    preference_budget: int,
    knowledge_budget: int,
    working_budget: int,
) -> Room:
    """The room beside messages that cost so much; `other_tokens` are those that have to stay."""
    budgets = calculate_token_budgets(
        window_tokens=window_tokens,
        system_tokens=system_tokens,
        query_tokens=query_tokens,
        reserve_tokens=reserve_tokens,
        preference_tokens=preference_budget,
        base_knowledge_tokens=knowledge_budget,
    )
    free = budgets.available_tokens - other_tokens
    wanted = budgets.preference_tokens + budgets.knowledge_tokens + working_budget + FRAME_TOKENS
    return Room(
        limit_tokens=max(0, min(free, wanted)),
        knowledge_tokens=budgets.knowledge_tokens,
        full=(
            free >= wanted
            and budgets.preference_tokens == preference_budget
            and budgets.knowledge_tokens == knowledge_budget
        ),
    )


# ----------------------------------------------------------------------------
# Choose from what was recalled what is offered to the block, and number what it shows.


QUOTE_CHARACTERS = 200
NO_ADDRESS = "text:"
"""How the address of a text begins that has none of its own: an id, which tells nobody anything."""
_WORD = re.compile(r"\w+")
_NUMBERED = re.compile(r"\[[\d, ]+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is offered to the block, as knowledge and as pointers; the rest, and why.

    `related` counts what could have been offered as knowledge but for `top_k`;
    `merits` are the composite scores of everything that was looked at.
    """

    candidates: tuple[OfferedSource, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    passed_over: tuple[tuple[Hit, str], ...] = ()
    related: int = 0
    merits: Mapping[str, float] = field(default_factory=lambda: EMPTY)


def choose(
    hits: Sequence[Hit],
    messages: Iterable[Any],
    *,
    top_k: int,
    threshold: float,
    now: datetime,
    factors: Mapping[str, float] = EMPTY,
) -> Chosen:
    """What of `hits` is offered to the block.

    Preferences have their own section. What the conversation says already is
    not said again. Of the rest the `top_k` best at or above the threshold, in
    the order of their scores times `factors`; between equally relevant ones
    the composite score decides, by kind, importance and age (P40).
    """
    conversation = read_conversation(messages)
    candidates: list[OfferedSource] = []
    pointers: list[Pointer] = []
    passed_over: list[tuple[Hit, str]] = []
    related = 0
    merits: dict[str, float] = {}
    weighed: list[tuple[Hit, float, float]] = []
    for hit in hits:
        score = hit.score * factors.get(hit.memory.id, 1.0)
        merit = merits[hit.memory.id] = merit_of(hit.memory, score, now=now)
        weighed.append((hit, score, merit))
    ordered = sort_ranked(
        weighed,
        rank=lambda one: rank_key(one[1], one[2]),
        content=lambda one: (*content_key(_source(one[0].memory)), one[0].memory.id),
    )
    for hit, score, merit in ordered:
        memory = hit.memory
        if memory.kind == "preference":
            passed_over.append((hit, "a preference: it stands in the profile"))
        elif hit.score < threshold:
            passed_over.append((hit, f"below the threshold {threshold:g}"))
        elif is_own_question(memory):
            passed_over.append((hit, "a question, which answers nothing"))
        elif memory.kind == "message" and hit.lexical is None and not says_something(memory.text):
            passed_over.append((hit, "says nothing without what stands around it"))
        elif conversation.says(memory.text):
            passed_over.append((hit, "already in the conversation"))
        elif len(candidates) + len(pointers) >= top_k:
            passed_over.append((hit, f"over top_k {top_k}"))
            related += memory.kind != "tool_result"
        elif memory.kind == "tool_result" and memory.metadata.get("large"):
            pointers.append(
                Pointer(
                    id=memory.id,
                    tool=str(memory.metadata.get("name", "")),
                    tokens=int(memory.metadata.get("tokens", 0)),
                    summary=memory.at_level("summary"),
                )
            )
        else:
            candidates.append(
                OfferedSource(
                    id=memory.id,
                    source=memory,
                    score=score,
                    merit=merit,
                    type=memory_type(memory),
                    timestamp=memory.created_at,
                )
            )
    return Chosen(
        candidates=tuple(candidates),
        pointers=tuple(pointers),
        passed_over=tuple(passed_over),
        related=len(candidates) + related,
        merits=merits,
    )


def merit_of(memory: Memory, relevance: float, *, now: datetime) -> float:
    """The composite score of a memory that is so relevant (P15)."""
    return composite(
        priority=rule_for(memory_type(memory)).priority,
        importance=memory.importance,
        relevance=min(max(relevance, 0.0), 1.0),
        recency=recency(memory.created_at, now=now),
    )


def _source(memory: Memory) -> BlockSource:
    return source_of(memory, served_text(memory))


def memory_type(memory: Memory) -> str:
    """What a memory is as a package: `memory-semantic`, `-episodic` or `-procedural`."""
    return f"memory-{cognitive_type(memory.kind)}"


def says_something(text: str) -> bool:
    """Whether a text holds a word that means something, or a number."""
    return any(
        word.isdigit() or (len(word) > 1 and word not in STOP_WORDS)
        for word in _WORD.findall(text.casefold())
    )


def is_own_question(memory: Memory) -> bool:
    """Whether a memory is something the user once asked: it answers nothing."""
    return memory.kind == "message" and memory.origin == "user" and is_only_asked(memory.text)


@lru_cache(2_048)  # what was asked often stands among what a question finds
def is_only_asked(text: str) -> bool:
    """Whether a text asks and tells nothing, be it without a mark."""
    if not text.rstrip().endswith(QUESTION_MARKS):
        return only_asks(text)
    parts = [text[start:end].rstrip() for start, end in sentences(text)]
    return bool(parts) and all(part.endswith(QUESTION_MARKS) for part in parts)


def citations_of(
    built: BuiltBlock, hits: Sequence[Hit], *, asked: str = "", answer: str = ""
) -> tuple[Citation, ...]:
    """One citation a source in the block, under the number it has there.

    Each quotes the part of its source that `answer` makes use of where it cites
    it, or else that is nearest to what was `asked`.
    """
    known = {hit.memory.id for hit in hits}
    fill = built.knowledge
    sought = _telling(asked)
    said = [answer[start:end] for start, end in sentences(answer)]

    def quote(at: int, text: str) -> str:
        # "It is noon. [1]": the number may stand behind the full stop of what it belongs to.
        used = [" ".join(said[max(0, n - 1) : n + 1]) for n, part in enumerate(said)
                if f"[{at}]" in part]  # fmt: skip
        return quote_of(text, _telling(_NUMBERED.sub("", " ".join(used))) or sought)

    return tuple(
        Citation(
            index=at,
            source="memory",
            url="" if source.url.startswith(NO_ADDRESS) else source.url,
            title=source.title,
            quote=quote(at, source.text),
            date=source.retrieved,
            memory_id=memory_id if memory_id in known else "",
        )
        for at, (source, memory_id) in enumerate(zip(fill.shown, fill.ids, strict=True), start=1)
    )


def quote_of(text: str, sought: Collection[str], *, most_characters: int = QUOTE_CHARACTERS) -> str:
    """The sentence of a text that holds most of the terms sought, cut where it is too long.

    A text that is short enough is quoted whole; where no sentence holds any of
    the terms, the first one.
    """
    if len(text) <= most_characters:
        return text
    parts = [text[start:end].strip() for start, end in sentences(text)]
    found = [len(_telling(part) & set(sought)) for part in parts]
    best = parts[found.index(max(found))] if parts else text
    return best[:most_characters]


def _telling(text: str) -> set[str]:
    return {term for term in analyse(text) if term not in STOP_WORDS}
