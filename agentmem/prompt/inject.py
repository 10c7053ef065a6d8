"""Put the reference message into a list of chat messages, where it costs no cache.

The block goes directly before the last message in which the user speaks, so
that everything before it stays as it was and the tool calls of the same turn
come after it (P18). It is never last, never the system's, and never between a
tool call and its result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from agentmem.base.checks import require_choice
from agentmem.base.config import Framing, Placement, ReferenceRole
from agentmem.base.errors import MalformedBlock, RoleRefused
from agentmem.prompt.block import STUB, is_rendered
from agentmem.prompt.messages import read_conversation

_FRAMINGS, _ROLES, _PLACEMENTS = map(get_args, (Framing, ReferenceRole, Placement))


def reference_messages(
    text: str, *, framing: Framing = "pair", role: ReferenceRole = "assistant"
) -> list[dict[str, Any]]:
    """The messages that carry a rendered block: a stub and the reference, or the lone reference."""
    if role not in _ROLES:
        raise RoleRefused(role)
    require_choice(framing, _FRAMINGS, "framing")
    reference = {"role": role, "content": text}
    if framing == "single" or role == "user":
        return [reference]
    return [{"role": "user", "content": STUB}, reference]


def inject(
    messages: Iterable[Any],
    text: str | None,
    *,
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
    placement: Placement = "before_last_user",
) -> list[dict[str, Any]]:
    """A new list with the block before the last message in which the user speaks.

    `text` is what `render_context` wrote. A block of this turn that is there
    already is replaced, so injecting twice is injecting once. Blocks of earlier
    turns are taken out, or kept with `placement="append"`. With `None` only that
    removal is done. Where no user speaks nothing is added: the reference would be last.

    `role="user"` gives one message, since two user turns in a row get merged.
    Messages may be mappings or objects with `model_dump`; the input is not
    changed.
    """
    require_choice(placement, _PLACEMENTS, "placement")
    if text is not None and not (isinstance(text, str) and is_rendered(text)):
        raise MalformedBlock(
            "Only a whole rendered block can be injected.",
            remedy="Pass what render_context returned.",
        )
    # A refused role is refused without a block.
    added = reference_messages(text or "", framing=framing, role=role)
    added = [] if text is None else added
    conversation = read_conversation(messages)
    kept = conversation.copies()
    if conversation.asked is None:
        return kept
    place = conversation.place
    gone = conversation.references_to_replace(keep_earlier=placement == "append")
    if not gone:
        return kept[:place] + added + kept[place:]
    before = [message for at, message in enumerate(kept[:place]) if at not in gone]
    after = [message for at, message in enumerate(kept[place:], start=place) if at not in gone]
    return before + added + after
