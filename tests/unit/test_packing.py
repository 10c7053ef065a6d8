"""A whole conversation packed into windows of different sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentmem.base.errors import FixedContentTooLarge, InvalidMessage, InvalidNumber
from agentmem.base.types import Message
from agentmem.prompt.budget import ContextPlan, make_package, pack_context
from agentmem.text.messages import media_parts, text_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
SYSTEM = {"role": "system", "content": "Be brief."}
ASKED = {"role": "user", "content": "What did I say about tea?"}
HISTORY = [
    {"role": "user", "content": "I like tea " * 10},
    {"role": "assistant", "content": "Noted. " * 10},
    {"role": "user", "content": "And rain."},
    {"role": "assistant", "content": "Noted."},
]


def count_message(message: Message) -> int:
    return 4 + len(text_of(message)) + 100 * len(media_parts(message))


KNOWN = [
    make_package("memory-semantic", id="tea", tokens=9, can_drop=False),
    make_package("memory-episodic", id="rain", tokens=10, can_drop=False),
]


def packed(messages: Sequence[Any] | None = None, **options: Any) -> ContextPlan:
    given = [SYSTEM, *HISTORY, ASKED] if messages is None else messages
    settings: dict[str, Any] = {
        "window_tokens": 1_000,
        "reserve_tokens": 100,
        "count_message": count_message,
        **options,
    }
    return pack_context(given, **settings)


def ids(plan: ContextPlan) -> set[str]:
    return {package.id for package in plan.report.kept}


def test_everything_goes_in_when_there_is_room() -> None:
    plan = packed(packages=KNOWN)
    assert list(plan.messages) == [SYSTEM, *HISTORY, ASKED]
    assert {"tea", "rain"} <= ids(plan)
    used = {use.name: use.tokens for use in plan.budget.components}
    assert used["memories"] == len("likes tea") + len("likes rain")
    assert {use.type for use in plan.budget.component("memories").by_type} == {
        "memory-semantic",
        "memory-episodic",
    }
    assert plan.budget.used_tokens == plan.report.used_tokens


def test_old_messages_go_before_memories() -> None:
    plan = packed(window_tokens=320, packages=KNOWN)
    assert {"tea", "rain"} <= ids(plan)
    assert HISTORY[0] not in plan.messages
    assert plan.messages[0] == SYSTEM
    assert plan.messages[-1] == ASKED


def test_preferences_results_media_and_tools_are_packages_of_their_own_types() -> None:
    packages = [
        make_package("preference", id="p", tokens=13),
        make_package("tool-result", id="r", tokens=7),
        make_package("media-image", id="picture", tokens=100),
        make_package("tool-schema", id="tool-schema", tokens=30),
    ]
    plan = packed(packages=packages)
    used = {use.name: use.tokens for use in plan.budget.components}
    assert used["preferences"] == len("short answers")
    assert used["tool_results"] == len("42 rows")
    assert used["media"] == 100
    assert used["tool_schemas"] == 30


@pytest.mark.parametrize("as_they_are", [False, True])
def test_an_image_in_the_current_message_counts_as_media(as_they_are: bool) -> None:
    shown = {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]}
    given: list[Message] = [SYSTEM, shown]
    plan = packed(given, as_they_are=as_they_are)
    assert plan.messages == (SYSTEM, shown)
    used = {use.name: use.tokens for use in plan.budget.components}
    assert used["media"] == count_message(shown) - count_message(
        {"role": "user", "content": "What is this?\n[image left out]"}
    )
    assert plan.budget.used_tokens == sum(map(count_message, given))


def test_the_steps_of_the_present_turn_follow_the_current_message() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps: list[Message] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    plan = packed([SYSTEM, *HISTORY, ASKED, *steps])
    assert list(plan.messages) == [SYSTEM, *HISTORY, ASKED, *steps]


def test_messages_that_are_not_ours_to_shorten_all_go_in_and_are_accounted_for() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    steps: list[Message] = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    messages: list[Message] = [SYSTEM, *HISTORY, ASKED, *steps]
    plan = packed(messages, window_tokens=120, packages=KNOWN, as_they_are=True)
    assert list(plan.messages) == messages
    assert plan.report.dropped == ()
    assert plan.budget.over_budget
    known = sum(package.tokens for package in KNOWN)
    assert plan.budget.used_tokens == sum(count_message(message) for message in messages) + known
    assert plan.budget.component("recent_messages").items == len(HISTORY) + len(steps)
    assert plan.budget.component("system_prompt").items == 1
    assert plan.budget.component("current_message").items == 1


def test_no_memories_though_some_were_asked_for_is_a_warning() -> None:
    assert [w.code for w in packed(memories_asked=3).budget.warnings] == ["no_memories"]
    assert not packed(memories_asked=3, packages=KNOWN).budget.warnings


def test_a_window_smaller_than_what_must_be_sent_is_an_error_before_any_call() -> None:
    with pytest.raises(FixedContentTooLarge) as caught:
        packed(window_tokens=120)
    assert caught.value.needed_tokens == count_message(SYSTEM) + count_message(ASKED)
    assert caught.value.limit_tokens == 20


def test_a_type_of_ones_own_is_counted_beside_the_others() -> None:
    note = make_package("note", id="note", tokens=17)
    plan = packed(packages=[note])
    assert plan.budget.component("other").tokens == 17


def test_bad_input_is_a_typed_error() -> None:
    for messages, options, error in (
        ([SYSTEM], {}, InvalidMessage),
        ([{"role": "user"}], {}, InvalidMessage),
        ([{"role": "user", "content": "x"}, {"role": "bot", "content": ""}], {}, InvalidMessage),
        (None, {"reserve_tokens": 2_000}, InvalidNumber),
        (None, {"window_tokens": -1}, InvalidNumber),
    ):
        with pytest.raises(error):
            packed(messages, **options)
