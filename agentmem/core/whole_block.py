"""Write the block of a turn without counting a token, where all of it fits for certain.

Short memories in a large budget are the usual case. What a text costs at most
is known from its length; while that is within every limit, nothing has to be
left out, and the exact counts can wait until somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agentmem.core.assembly import empty_frame
from agentmem.core.block import (
    ContextBlock,
    Pointer,
    clean_pointer,
    clean_profile_line,
    clean_source,
)
from agentmem.core.context import (
    render_body,
    render_knowledge,
    render_pointer,
    render_profile_line,
    seal,
)
from agentmem.core.injection import Framing, ReferenceRole, reference_messages
from agentmem.core.knowledge import Candidate, arrange, in_order, render_piece

AtMost = Callable[[str], int]
"""No less than the tokens of a text, however they are counted, and no less than its length."""

MESSAGE_TOKENS = 8
"""More than any provider frames a message with."""


def write_whole(
    *,
    secret: bytes,
    limit_tokens: int,
    at_most: AtMost,
    user_profile: Sequence[str] = (),
    profile_tokens: int,
    candidates: Sequence[Candidate] = (),
    knowledge_tokens: int,
    total_found: int = 0,
    working_memory: Sequence[Pointer] = (),
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
) -> str | None:
    """The text that `build_block` gives for the same, or None where something might not fit."""
    if sum(len(one.source.text) for one in candidates) > min(knowledge_tokens, limit_tokens):
        return None  # seen at a glance, before anything is cleaned
    lines = tuple(filter(None, map(clean_profile_line, user_profile)))
    best = [(one, clean_source(one.source)) for one in in_order(candidates)]
    shown = [best[at][1] for at in arrange(best)]
    total = max(len(shown), total_found)
    sources = [render_piece(source, len(shown), ()) for source in shown]
    pointers = tuple(map(clean_pointer, working_memory))
    block = ContextBlock(
        user_profile=lines,
        related_knowledge=tuple(shown),
        working_memory=pointers,
        total_found=total if shown else 0,
    )
    if block.empty:
        return None
    section = render_knowledge(shown, total) if shown else ""
    text = seal(render_body(block, knowledge=section), secret=secret)
    profile = _most("user_profile", map(render_profile_line, lines), at_most)
    pointed = _most("working_memory", map(render_pointer, pointers), at_most)
    knowledge = 0
    if shown:
        parts = at_most(render_knowledge((), total)) + sum(at_most(f"{one}\n") for one in sources)
        knowledge = max(parts, at_most(section))

    def cost(sent: str) -> int:
        return sum(
            at_most(message["content"]) + at_most(message["role"]) + MESSAGE_TOKENS
            for message in reference_messages(sent, framing=framing, role=role)
        )

    fits = (
        profile <= profile_tokens
        and knowledge <= knowledge_tokens
        and cost(empty_frame(secret)) + profile + knowledge + pointed <= limit_tokens
        and cost(text) <= limit_tokens
    )
    return text if fits else None


def _most(tag: str, rendered: Iterable[str], at_most: AtMost) -> int:
    """What a section of these lines costs at most; nothing without any."""
    lines = sum(at_most(f"{line}\n") for line in rendered)
    return lines + at_most(f"<{tag}>\n</{tag}>\n") if lines else 0
