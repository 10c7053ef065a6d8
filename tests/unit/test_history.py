"""Worked conversations: what belongs together, what goes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentmem.base.errors import FixedContentTooLarge, InvalidNumber
from agentmem.base.types import Message
from agentmem.prompt.budget import ContentPackage, TrimPlan, group_turns, trim
from agentmem.text.messages import media_parts, text_of

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
Messages = list[dict[str, Any]]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def calls(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
        ],
    }


def result(call_id: str | None, text: str = "rows") -> dict[str, Any]:
    named = {} if call_id is None else {"tool_call_id": call_id}
    return {"role": "tool", "content": text, **named}


def uses(*ids: str) -> dict[str, Any]:
    blocks = [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "one moment"}, *blocks]}


def used(*ids: str, then: str = "") -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": i, "content": "rows"} for i in ids
    ]
    if then:
        blocks.append({"type": "text", "text": then})
    return {"role": "user", "content": blocks}


SYSTEM = {"role": "system", "content": "Be brief."}


def ten(message: Any) -> int:
    return 10 + 100 * len(media_parts(message))


def trimmed(messages: Messages, limit: int, **options: Any) -> TrimPlan:
    return trim(messages, limit, count_message=ten, **options)


def packages_of(plan: TrimPlan) -> list[str]:
    """The ids of what goes with the messages."""
    kept = plan.report.kept
    return [package.id for package in kept if not package.id.startswith("message-")]


def groups(messages: Messages) -> list[tuple[int, ...]]:
    """By calls and results alone, as in the steps of the present turn."""
    return [unit.indices for unit in group_turns(messages, current=0)]


def current_index(messages: Sequence[Message]) -> int | None:
    found = [u.indices for u in group_turns(messages) if u.current]
    return found[0][-1] if found else None


def test_parallel_calls_and_their_results_are_one_group() -> None:
    messages = [user("q"), calls("a", "b"), result("b"), result("a"), answer("done")]
    assert groups(messages) == [(0,), (1, 2, 3), (4,)]


def test_content_blocks_are_grouped_like_tool_messages() -> None:
    messages = [user("q"), uses("a", "b"), used("a", "b"), answer("done"), user("next")]
    assert groups(messages) == [(0,), (1, 2), (3,), (4,)]
    assert current_index(messages) == 4


def test_an_id_used_again_belongs_to_the_nearest_call() -> None:
    messages = [calls("a"), result("a"), user("q"), calls("a"), result("a")]
    assert groups(messages) == [(0, 1), (2,), (3, 4)]


def test_a_result_that_comes_late_still_belongs_to_its_call() -> None:
    assert groups([calls("a"), user("wait"), result("a")]) == [(0, 2), (1,)]


def test_a_result_without_an_id_belongs_to_the_call_it_follows() -> None:
    assert groups([calls("a"), result(None), answer("x"), result(None)]) == [(0, 1), (2,), (3,)]


def test_old_function_calls_are_grouped_by_name() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": ""}}
    reply = {"role": "function", "name": "f", "content": "1"}
    assert groups([user("q"), call, reply]) == [(0,), (1, 2)]


def test_bedrock_blocks_are_grouped_too() -> None:
    call = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f"}}]}
    reply = {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": []}}]}
    messages = [user("q"), call, reply]
    assert groups(messages) == [(0,), (1, 2)]
    assert current_index(messages) == 0


def test_the_current_message_is_where_the_user_last_spoke() -> None:
    assert current_index([user("q"), uses("a"), used("a")]) == 0
    assert current_index([user("q"), uses("a"), used("a", then="and faster")]) == 2
    assert current_index([used("a")]) == 0
    assert current_index([answer("hello")]) is None


def test_whole_turns_keep_question_and_answer_together() -> None:
    messages = [
        SYSTEM,
        answer("hello!"),
        user("1"),
        calls("a"),
        result("a"),
        answer("1!"),
        user("2"),
    ]
    assert [u.indices for u in group_turns(messages)] == [(0,), (1,), (2, 3, 4, 5), (6,)]


def test_a_call_answered_in_the_current_message_is_kept_with_it() -> None:
    messages = [user("q"), uses("a"), used("a", then="and faster")]
    fixed = [u.indices for u in group_turns(messages) if u.fixed]
    assert fixed == [(1, 2)]


def test_the_oldest_turn_goes_first() -> None:
    messages = [SYSTEM, user("1"), answer("1!"), user("2"), answer("2!"), user("now")]
    assert trimmed(messages, 60).kept_indices == (0, 1, 2, 3, 4, 5)
    assert trimmed(messages, 59).kept_indices == (0, 3, 4, 5)
    assert trimmed(messages, 40).kept_indices == (0, 3, 4, 5)
    assert trimmed(messages, 39).kept_indices == (0, 5)
    with pytest.raises(FixedContentTooLarge, match="message-000"):
        trimmed(messages, 19)


def test_a_big_old_turn_stops_the_search_for_older_ones() -> None:
    messages = [user("small"), user("x" * 500), user("now")]
    plan = trim(messages, 60, count_message=lambda m: len(text_of(m)) + 1)
    assert plan.kept_indices == (2,)
    assert [f.reason for f in plan.report.fates] == [
        "trimmed: older than one that did not fit",
        "trimmed, oldest first: needs 501, 56 left",
        "fixed: always sent",
    ]


def test_an_orphaned_result_at_the_front_is_left_out_even_when_all_fits() -> None:
    messages = [SYSTEM, result("gone"), result("gone too"), answer("so"), user("now")]
    plan = trimmed(messages, 1_000)
    assert plan.kept_indices == (0, 3, 4)
    assert "tool call is not in the conversation" in plan.report.fates[1].reason


def test_an_orphaned_result_in_the_middle_is_the_callers_business() -> None:
    assert trimmed([user("1"), result("gone"), user("now")], 1_000).kept_indices == (0, 1, 2)


def test_the_steps_of_the_present_turn_go_last() -> None:
    messages = [user("old"), user("now"), calls("a"), result("a"), calls("b"), result("b")]
    memory = ContentPackage(id="m", type="memory-semantic", tokens=10, can_drop=False)
    kept = {
        limit: trimmed(messages, limit, packages=[memory]).kept_indices
        for limit in (70, 69, 60, 59, 39)
    }
    assert kept == {
        70: (0, 1, 2, 3, 4, 5),
        69: (1, 2, 3, 4, 5),
        60: (1, 2, 3, 4, 5),
        59: (1, 4, 5),
        39: (1,),
    }
    without_steps = trimmed(messages, 39, packages=[memory]).report.fates[0]
    assert without_steps.reason == "trimmed: earlier messages go before the steps of this turn"


def test_media_inside_earlier_messages_goes_before_any_message() -> None:
    picture = {"role": "user", "content": [{"type": "text", "text": "my lamp"}, IMAGE]}
    messages = [picture, answer("nice"), user("thanks"), answer("sure"), user("now")]
    whole = trimmed(messages, 150)
    assert whole.messages[0] is picture
    plan = trimmed(messages, 149)
    assert plan.kept_indices == (0, 1, 2, 3, 4)
    assert plan.messages[0]["content"] == [
        {"type": "text", "text": "my lamp"},
        {"type": "text", "text": "[image left out]"},
    ]
    assert picture["content"][1] is IMAGE
    assert plan.report.used_tokens == 50


def test_the_picture_in_the_current_message_stays() -> None:
    current = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, IMAGE]}
    plan = trimmed([user("old"), current], 110)
    assert plan.messages == (current,)
    with pytest.raises(FixedContentTooLarge):
        trimmed([user("old"), current], 109)


def test_the_newest_of_two_pictures_stays() -> None:
    pictures: Messages = [{"role": "user", "content": [IMAGE]} for _ in range(2)]
    plan = trimmed([*pictures, user("now")], 130)
    assert [media_parts(m) == () for m in plan.messages] == [True, False, True]


def test_images_of_a_tool_and_images_beside_the_content_can_be_left_out() -> None:
    shot = {**result("a"), "content": [IMAGE]}
    local = {"role": "user", "content": "look", "images": ["AAAA"]}
    plan = trimmed([local, calls("a"), shot, user("now")], 45)
    assert plan.messages[0] == {"role": "user", "content": "look\n[image left out]"}
    assert plan.messages[2]["content"] == [{"type": "text", "text": "[image left out]"}]
    assert plan.messages[2]["tool_call_id"] == "a"


def test_fixed_packages_are_always_sent() -> None:
    schema = ContentPackage(id="t", type="tool-schema", tokens=50, can_drop=False)
    plan = trimmed([user("old"), user("now")], 60, packages=[schema])
    assert packages_of(plan) == [schema.id]
    with pytest.raises(FixedContentTooLarge, match="t 50"):
        trimmed([user("now")], 59, packages=[schema])


def test_each_message_is_counted_once() -> None:
    seen: list[Any] = []

    def count(message: Any) -> int:
        seen.append(message)
        return 1

    messages = [SYSTEM, user("1"), answer("1!"), user("now")]
    trim(messages, 100, count_message=count)
    assert seen == messages


def test_the_input_is_never_changed() -> None:
    picture = {"role": "user", "content": [IMAGE]}
    messages: Messages = [picture, user("now")]
    trimmed(messages, 25)
    assert messages == [{"role": "user", "content": [IMAGE]}, user("now")]


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InvalidNumber, match="limit_tokens"):
        trimmed([], -1)


def test_an_empty_conversation_needs_nothing() -> None:
    assert trimmed([], 0).messages == ()


def test_a_long_conversation_keeps_its_newest_hundred_messages() -> None:
    messages = [
        m for i in range(5_000) for m in (user(str(i)), calls("a"), result("a"), answer(""))
    ]
    plan = trimmed(messages, 1_000)
    assert len(plan.messages) == 100
