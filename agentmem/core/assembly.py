"""Build the block of one turn within a hard token limit (P16).

The profile comes first and from its own budget, whatever the query (P11);
then knowledge by strict score order, then pointers, then the summary. What is
counted is the message pair as it will be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeVar

from agentmem.core.block import ContextBlock, Pointer, clean_pointer, clean_profile_line
from agentmem.core.checks import require_count, require_text
from agentmem.core.cleaning import clean_text, escape_text
from agentmem.core.context import render_body, render_pointer, render_profile_line, seal
from agentmem.core.injection import Framing, ReferenceRole, reference_messages
from agentmem.core.knowledge import Candidate, Fate, KnowledgeFill, Truncate, fill_knowledge
from agentmem.core.sentences import truncate_at_sentence
from agentmem.core.values import dataclass
from agentmem.protocols import TokenCounter

Item = TypeVar("Item", str, Pointer)
MessageCounter = Callable[[Sequence[dict[str, Any]]], int]
"""What messages cost as they are sent, with whatever a provider adds to each."""

MESSAGE_OVERHEAD_TOKENS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltBlock:
    """The block of a turn, ready to be injected, and what became of everything offered.

    `block` is as shown (cleaned). Where nothing fits, `block` and `text` are
    `None` and the fates still say why.
    """

    block: ContextBlock | None = None
    text: str | None = None
    tokens: int = 0
    profile: tuple[Fate, ...] = ()
    knowledge: KnowledgeFill = field(default_factory=KnowledgeFill)
    pointers: tuple[Fate, ...] = ()


def build_block(
    *,
    secret: bytes,
    limit_tokens: int,
    count: TokenCounter,
    user_profile: Sequence[str] = (),
    profile_tokens: int | None = None,
    candidates: Iterable[Candidate] = (),
    knowledge_tokens: int | None = None,
    total_found: int = 0,
    working_memory: Sequence[Pointer] = (),
    summary: str = "",
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
    count_messages: MessageCounter | None = None,
    truncate: Truncate = truncate_at_sentence,
) -> BuiltBlock:
    """The best block whose messages have at most `limit_tokens` tokens, wrapper included.

    `profile_tokens` and `knowledge_tokens` are the most those sections may
    take; left out, each may take what there is. Without `count_messages` a
    message costs its content, its role and `MESSAGE_OVERHEAD_TOKENS`.
    """
    require_count(limit_tokens, "limit_tokens")
    for name, value in (("profile_tokens", profile_tokens), ("knowledge_tokens", knowledge_tokens)):
        if value is not None:
            require_count(value, name)
    require_text(summary, "summary")
    counted = remembering(count)
    cost = count_messages or (lambda messages: message_tokens(messages, counted))
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
            count=counted,
            show=clean_profile_line,
            render=render_profile_line,
            cut=lambda line, room: truncate(
                line, room, lambda part: counted(f"{render_profile_line(part)}\n")
            ),
        )
        left = max(0, left - spent - margin)
        most = left if knowledge_tokens is None else min(left, knowledge_tokens)
        knowledge = fill_knowledge(
            offered, most, count=counted, truncate=truncate, total_found=total_found
        )
        left -= knowledge.tokens
        kept, pointers, spent = _fill_section(
            working_memory,
            left,
            "working_memory",
            count=counted,
            show=clean_pointer,
            render=render_pointer,
        )
        left -= spent
        block = ContextBlock(
            user_profile=lines,
            related_knowledge=knowledge.shown,
            working_memory=kept,
            summary=_fit_summary(summary, left, counted, truncate),
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
        if knowledge.shown or kept or block.summary:
            margin = max(2 * margin, margin + over)
        else:
            profile_margin = max(2 * profile_margin, profile_margin + over)


@lru_cache(maxsize=64)
def empty_frame(secret: bytes) -> str:
    """A block with nothing in it: what every block costs at least."""
    return seal(render_body(ContextBlock()), secret=secret)


def message_tokens(messages: Sequence[dict[str, Any]], count: TokenCounter) -> int:
    """What text messages cost: content, role and a few tokens that frame each."""
    return sum(
        count(message["content"]) + count(message["role"]) + MESSAGE_OVERHEAD_TOKENS
        for message in messages
    )


def remembering(count: TokenCounter) -> TokenCounter:
    """`count` that counts each text once; the memory goes when the result does."""
    known: dict[str, int] = {}

    def counted(text: str, /) -> int:
        tokens = known.get(text)
        if tokens is None:
            tokens = known[text] = count(text)
        return tokens

    return counted


def _fill_section(
    items: Sequence[Item],
    limit_tokens: int,
    tag: str,
    *,
    count: TokenCounter,
    show: Callable[[Item], Item],
    render: Callable[[Item], str],
    cut: Callable[[Item, int], Item] | None = None,
) -> tuple[tuple[Item, ...], tuple[Fate, ...], int]:
    """The items that fit in order, what became of each, and what the section costs.

    One that is too large is passed over; smaller ones after it are still tried.
    Where none fits, `cut` may make the first that it can fit.
    """
    kept: list[Item] = []
    fates: list[Fate] = []
    spent = count(f"<{tag}>\n</{tag}>\n") if items else 0
    for item in items:
        name = item if isinstance(item, str) else item.id
        shown = show(item)
        tokens = count(f"{render(shown)}\n")
        if shown == "":
            fates.append(Fate(id=name, outcome="dropped", reason="nothing visible in it"))
        elif spent + tokens <= limit_tokens:
            spent += tokens
            kept.append(shown)
            fates.append(Fate(id=name, outcome="included", reason="fits", tokens=tokens))
        else:
            left = max(0, limit_tokens - spent)
            reason = f"does not fit in the {left:,} tokens left"
            fates.append(Fate(id=name, outcome="dropped", reason=reason, tokens=tokens))
    if cut is not None and not kept:
        for at, item in enumerate(items):
            part = cut(show(item), max(0, limit_tokens - spent))
            tokens = count(f"{render(part)}\n")
            if _says_something(part) and spent + tokens <= limit_tokens:
                fates[at] = Fate(id=fates[at].id, outcome="cut", reason="cut to fit", tokens=tokens)
                return (part,), tuple(fates), spent + tokens
    return tuple(kept), tuple(fates), spent if kept else 0


def _says_something(item: str | Pointer) -> bool:
    return isinstance(item, str) and any(map(str.isalnum, item))


def _fit_summary(summary: str, limit_tokens: int, count: TokenCounter, truncate: Truncate) -> str:
    if not summary:
        return ""
    tag = "conversation_summary"
    left = limit_tokens - count(f"<{tag}>\n</{tag}>\n")
    if left <= 0:
        return ""
    return clean_text(truncate(summary, left, lambda part: count(escape_text(clean_text(part)))))
