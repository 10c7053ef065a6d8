"""Trimming a conversation (P17) and the order in which things go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.errors import FixedContentTooLarge
from agentmem.prompt.budget import ContentPackage, TrimPlan, group_turns, trim
from agentmem.text.messages import media_parts
from tests.properties.conversations import conversations, packages, size_of

Messages = list[dict[str, Any]]
SYSTEM = ("system", "developer")


def asks(message: dict[str, Any]) -> bool:
    content = message["content"]
    if message["role"] != "user":
        return False
    return isinstance(content, str) or any(p.get("type") != "tool_result" for p in content)


def made(message: dict[str, Any]) -> list[str]:
    parts = message["content"] if isinstance(message["content"], list) else []
    return [c["id"] for c in message.get("tool_calls", [])] + [
        p["id"] for p in parts if p["type"] == "tool_use"
    ]


def answered(message: dict[str, Any]) -> list[str]:
    parts = message["content"] if isinstance(message["content"], list) else []
    own = [message["tool_call_id"]] if "tool_call_id" in message else []
    return own + [p["tool_use_id"] for p in parts if p["type"] == "tool_result"]


def pairs(messages: Messages) -> list[tuple[int, int]]:
    """Every (call, result) by the obvious loop: the nearest call before with that id."""
    found = []
    for place, message in enumerate(messages):
        for wanted in answered(message):
            before = [i for i in range(place) if wanted in made(messages[i])]
            if before:
                found.append((before[-1], place))
    return found


def current_of(messages: Messages) -> int | None:
    asked = [i for i, m in enumerate(messages) if asks(m)]
    users = [i for i, m in enumerate(messages) if m["role"] == "user"]
    return asked[-1] if asked else users[-1] if users else None


def sent_of(plan: TrimPlan, others: Any) -> list[ContentPackage]:
    """The packages beside the messages that go out."""
    given = {id(package) for package in others}
    return [package for package in plan.report.kept if id(package) in given]


def tried(messages: Messages, percent: int, *, others: Any = ()) -> TrimPlan | None:
    """The plan when `percent` of what can be dropped has room; below 0 not even the rest has."""
    fixed = {i for unit in group_turns(messages) if unit.fixed for i in unit.indices}
    needed = sum(size_of(messages[i]) for i in fixed)
    needed += sum(p.tokens for p in others)
    total = sum(map(size_of, messages)) + sum(p.tokens for p in others)
    limit = needed + (total - needed) * percent // 100 if percent >= 0 else needed + percent

    def plan() -> TrimPlan:
        return trim(
            messages,
            max(0, limit),
            count_message=size_of,
            packages=others,
        )

    if needed <= max(0, limit):
        made = plan()
        used = sum(map(size_of, made.messages)) + sum(p.tokens for p in sent_of(made, others))
        assert made.report.used_tokens == used <= max(0, limit)
        return made
    with pytest.raises(FixedContentTooLarge):
        plan()
    return None


percents = st.integers(-3, 100)


@given(conversations(), percents)
@example(
    [
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        {"role": "user", "content": "hi"},
    ],
    100,
)
def test_trimming_keeps_whole_turns(messages: Messages, percent: int) -> None:
    """P17 Whole turns. Trimming never separates a tool call from its result, never drops the current message or the system prompt, drops oldest first."""
    plan = tried(messages, percent)
    if plan is None:
        return
    kept = set(plan.kept_indices)
    linked = pairs(messages)
    for call, result in linked:
        assert (call in kept) == (result in kept)
    current = current_of(messages)
    assert current is None or current in kept
    assert all(i in kept for i, m in enumerate(messages) if m["role"] in SYSTEM)

    units = group_turns(messages)
    assert sorted(i for unit in units for i in unit.indices) == list(range(len(messages)))
    gone = [u.indices[0] for u in units if u.indices[0] not in kept]
    left = [u.indices[0] for u in units if u.indices[0] in kept and not u.fixed]
    assert not gone or not left or max(gone) < min(left)

    first = next((i for i in plan.kept_indices if messages[i]["role"] not in SYSTEM), None)
    if first is not None and first != current and answered(messages[first]):
        assert any(result == first for _, result in linked)


@given(conversations(), percents)
@example(
    [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "1!"},
        {"role": "user", "content": "now"},
    ],
    50,
)
@example(
    [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "content": ""},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": ""},
                {"type": "text", "text": "and now?"},
            ],
        },
    ],
    0,
)
def test_no_answer_stays_without_its_question(messages: Messages, percent: int) -> None:
    """B7 Question and answer. In whole turns, what follows a user's message stays only if that message does, a call that the current message answers aside, so a trimmed history does not open with a lone answer."""
    plan = tried(messages, percent)
    current = current_of(messages)
    if plan is None or current is None:
        return
    held = {i for unit in group_turns(messages) if unit.current for i in unit.indices}
    for place in plan.kept_indices:
        if place >= current or place in held or messages[place]["role"] in SYSTEM:
            continue
        asked = [i for i in range(place + 1) if asks(messages[i]) and i not in held]
        assert not asked or asked[-1] in plan.kept_indices


@given(
    conversations(max_size=4),
    st.lists(packages(can_drop=st.just(False)), max_size=5),
    percents,
)
def test_media_goes_before_messages_and_messages_before_memories(
    messages: Messages, others: list[ContentPackage], percent: int
) -> None:
    """B8 Trimming order. A message is dropped only when no media is left outside the fixed messages, and none of what goes with the conversation ever is."""
    plan = tried(messages, percent, others=others)
    if plan is None:
        return
    assert sorted(map(id, sent_of(plan, others))) == sorted(map(id, others))
    units = group_turns(messages)
    for_room = [fate for fate in plan.report.dropped if "tool call" not in fate.reason]
    if any(fate.package.type == "message-recent" for fate in for_room):
        fixed = {i for u in units if u.fixed for i in u.indices}
        sent = dict(zip(plan.kept_indices, plan.messages, strict=True))
        assert not any(media_parts(m) for i, m in sent.items() if i not in fixed)


@given(conversations(), st.lists(packages(can_drop=st.just(False)), max_size=4))
def test_what_fits_is_left_alone(messages: Messages, others: list[ContentPackage]) -> None:
    """B9 Untouched when it fits. When all of it fits, every message is passed on as the same object in the same order, except tool results at the front that have no call."""
    plan = tried(messages, 100, others=others)
    assert plan is not None
    assert all(
        sent is messages[i] for i, sent in zip(plan.kept_indices, plan.messages, strict=True)
    )
    assert sorted(map(repr, sent_of(plan, others))) == sorted(map(repr, others))
    for place in set(range(len(messages))) - set(plan.kept_indices):
        unit = next(u for u in group_turns(messages) if place in u.indices)
        assert unit.orphan


def test_an_empty_conversation_is_an_empty_plan() -> None:
    plan = tried([], 0)
    assert plan is not None
    assert plan.messages == ()
