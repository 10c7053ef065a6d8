"""Put the reference message into a list of chat messages, where it costs no cache.

The block goes directly before the last message in which the user speaks, so
that everything before it stays as it was and the tool calls of the same turn
come after it (P18). It is never last, never the system's, and never between a
tool call and its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args

from agentmem.core.checks import require_choice
from agentmem.core.context import STUB, ContextBlock, is_rendered, render_context
from agentmem.core.message_parts import (
    call_ids,
    is_question,
    is_result,
    makes_calls,
    parts_of,
    require_message,
    result_ids,
    text_of,
)
from agentmem.errors import InvalidInput, InvalidMessage, MalformedBlock, RoleRefused

Framing = Literal["pair", "single"]
ReferenceRole = Literal["assistant", "user"]
Placement = Literal["before_last_user", "append"]
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
    block: ContextBlock | str | None,
    *,
    secret: bytes | None = None,
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
    placement: Placement = "before_last_user",
) -> list[dict[str, Any]]:
    """A new list with the block before the last message in which the user speaks.

    `block` is a rendered text, or a ContextBlock together with `secret`. A
    block of this turn that is there already is replaced, so injecting twice is
    injecting once. Blocks of earlier turns are taken out, or kept with
    `placement="append"`. With `None` or an empty block only that removal is
    done. Where no user speaks nothing is added: the reference would be last.

    `role="user"` gives one message, since two user turns in a row get merged.
    Messages may be mappings or objects with `model_dump`; the input is not
    changed.
    """
    require_choice(placement, _PLACEMENTS, "placement")
    text = _rendered(block, secret)
    added = reference_messages(text or "", framing=framing, role=role) if text else []
    reference_messages("", framing=framing, role=role)  # a refused role is refused without a block
    kept = [as_dict(message, at) for at, message in enumerate(messages)]
    asked = last_question(kept)
    if asked is None:
        return kept
    place = _outside_calls(kept, asked)
    ours = _references(kept, asked, place)
    if placement == "append":
        ours = _run_up_to(place, ours) | _run_up_to(asked, ours)
    before = [message for at, message in enumerate(kept[:place]) if at not in ours]
    after = [message for at, message in enumerate(kept[place:], start=place) if at not in ours]
    return before + added + after


def last_question(messages: list[dict[str, Any]]) -> int | None:
    """Where the user spoke last: not a tool's result, not our stub."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if is_question(message) and not is_result(message) and not is_stub(message):
            return at
    return None


def is_stub(message: Mapping[str, Any]) -> bool:
    """Whether the message is the constant `user` turn of our pair."""
    return message.get("role") == "user" and _only_text(message) == STUB


def is_reference(message: Mapping[str, Any]) -> bool:
    """Whether the message is one rendered block and nothing else."""
    return message.get("role") in _ROLES and is_rendered(_only_text(message))


def _references(messages: list[dict[str, Any]], asked: int, place: int) -> set[int]:
    """Which messages before the question at `asked` are ours; `place` is where the block goes.

    A lone reference in the history that directly follows a user's message may
    be the model's answer, a copy of what it was shown: that stays, since to
    drop an answer is worse than to send an old block again.
    """
    ours = {at for at in range(asked) if is_stub(messages[at])}
    for at in range(asked):
        if not is_reference(messages[at]):
            continue
        this_turn = at + 1 in (asked, place)
        stubbed = at - 1 in ours and is_stub(messages[at - 1])
        answer = at > 0 and at - 1 not in ours and is_question(messages[at - 1])
        if this_turn or stubbed or (is_question(messages[at + 1]) and not answer):
            ours.add(at)
    return ours


def _run_up_to(end: int, ours: set[int]) -> set[int]:
    """The unbroken run of our messages that ends right before `end`."""
    start = end
    while start - 1 in ours:
        start -= 1
    return set(range(start, end))


def _outside_calls(messages: list[dict[str, Any]], at: int) -> int:
    """`at`, or the place before the tool call whose result would otherwise come after us."""
    waiting: dict[str, int] = {}
    for place, message in enumerate(messages[:at]):
        for call in call_ids(message):
            waiting[call] = place
        for call in result_ids(message):
            waiting.pop(call, None)
    answered = {call for message in messages[at:] for call in result_ids(message)}
    unanswered = [place for call, place in waiting.items() if call in answered]
    if at and is_result(messages[at]) and makes_calls(messages[at - 1]):
        unanswered.append(at - 1)
    return min(unanswered, default=at)


def _only_text(message: Mapping[str, Any]) -> str:
    """The text of a message that has text alone, else nothing."""
    parts = parts_of(message)
    if len(parts) != 1 or makes_calls(message):
        return ""
    return text_of(message)


def _rendered(block: ContextBlock | str | None, secret: bytes | None) -> str | None:
    if block is None:
        return None
    if isinstance(block, ContextBlock):
        if secret is None:
            raise InvalidInput(
                "secret",
                None,
                "is missing",
                remedy="Pass the store's secret, or a text from render_context.",
            )
        return None if block.empty else render_context(block, secret=secret)
    if not isinstance(block, str) or not is_rendered(block):
        raise MalformedBlock(
            "Only a whole rendered block can be injected.",
            remedy="Pass what render_context returned, or a ContextBlock and the secret.",
        )
    return block


def as_dict(message: Any, at: int) -> dict[str, Any]:
    """The message at `at` as a dict of its own, checked."""
    if not isinstance(message, Mapping):
        dump = getattr(message, "model_dump", None)
        if not callable(dump):
            raise InvalidMessage(
                f"messages[{at}]",
                message,
                "is not a mapping",
                remedy="Pass dicts with role and content, or objects with model_dump().",
            )
        message = dump(exclude_none=True)
    return dict(require_message(message, f"messages[{at}]"))
