"""A whole conversation packed into windows of different sizes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentmem.core.message_parts import media_parts, text_of
from agentmem.core.packagers import TypeRule, make_package, with_types
from agentmem.core.packing import ContextPlan, pack_context
from agentmem.errors import FixedContentTooLarge, InvalidInput, InvalidMessage, InvalidNumber
from agentmem.types import Hit, Memory, Message

NOW = datetime(2026, 1, 31, tzinfo=UTC)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def count(text: str) -> int:
    return len(text)


def count_message(message: Message) -> int:
    return 4 + len(text_of(message)) + 100 * len(media_parts(message))


def memory(name: str, text: str, kind: str = "fact") -> Memory:
    return Memory(id=name, text=text, kind=kind, created_at=NOW - timedelta(days=3))


def packed(**options: Any) -> ContextPlan:
    settings: dict[str, Any] = {
        "system": "Be brief.",
        "current": "What did I say about tea?",
        "window_tokens": 1_000,
        "reserve_tokens": 100,
        "preference_tokens": 50,
        "count": count,
        "count_message": count_message,
        "count_media": lambda part: 100,
        "now": NOW,
        **options,
    }
    return pack_context(**settings)


HISTORY = [
    {"role": "user", "content": "I like tea " * 10},
    {"role": "assistant", "content": "Noted. " * 10},
    {"role": "user", "content": "And rain."},
    {"role": "assistant", "content": "Noted."},
]
HITS = [
    Hit(memory=memory("tea", "likes tea"), score=0.9),
    Hit(memory=memory("rain", "likes rain", "episode"), score=0.4),
]


def test_everything_goes_in_when_there_is_room() -> None:
    plan = packed(history=HISTORY, memories=HITS, preferences=[memory("p", "short answers")])
    assert plan.messages == (
        {"role": "system", "content": "Be brief."},
        *HISTORY,
        {"role": "user", "content": "What did I say about tea?"},
    )
    assert plan.memories == tuple(HITS)
    assert [p.content for p in plan.sent("preferences")] == ["short answers"]
    assert plan.budget.used_tokens == plan.report.used_tokens
    assert plan.budget.component("recent_messages").items == 4
    assert plan.notes == ()


def test_old_messages_go_before_memories() -> None:
    plan = packed(history=HISTORY, memories=HITS, window_tokens=250, preference_tokens=0)
    assert plan.memories == tuple(HITS)
    assert plan.messages[1:-1] == tuple(HISTORY[2:])


def test_memories_stay_within_the_knowledge_budget_and_the_best_go_in() -> None:
    plan = packed(memories=HITS, base_knowledge_tokens=10)
    assert plan.token_budgets.knowledge_tokens == 10
    assert plan.memories == (HITS[0],)
    dropped = [fate for fate in plan.report.fates if not fate.sent]
    assert [f.reason for f in dropped] == ["knowledge budget: needs 10, 1 left"]


def test_a_cut_memory_is_reported_as_it_first_came() -> None:
    long = memory("long", "tea " * 100)
    plan = packed(
        memories=[long],
        base_knowledge_tokens=40,
        min_memory_tokens=10,
        shrink=lambda text, room: text[:room],
    )
    assert plan.memories == (long,)
    assert plan.sent("memories")[0].content == ("tea " * 100)[:40]
    fate = next(f for f in plan.report.fates if f.package.id == "long")
    assert (fate.outcome, fate.package.tokens, fate.tokens) == ("cut", 400, 40)


def test_a_memory_offered_twice_goes_in_once() -> None:
    plan = packed(memories=[*HITS, HITS[0]], preferences=[HITS[1]])
    assert [h.memory.id for h in plan.memories if isinstance(h, Hit)] == ["tea"]
    assert plan.preferences == (HITS[1],)
    assert sum(f.reason == "offered twice" for f in plan.report.fates) == 2


def test_preferences_have_their_own_budget() -> None:
    liked = [memory("p1", "x" * 30), memory("p2", "y" * 30)]
    plan = packed(preferences=liked)
    assert plan.preferences == (liked[0],)
    assert plan.token_budgets.preference_tokens == 50


def test_media_goes_in_if_it_fits() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    assert packed(media=[IMAGE, sound]).media == (IMAGE, sound)
    plan = packed(media=[IMAGE], window_tokens=180)
    assert plan.media == ()
    assert plan.notes == ("none of the media fits",)


def test_media_without_a_way_to_count_it_is_refused() -> None:
    with pytest.raises(InvalidInput, match="count_media"):
        packed(media=[IMAGE], current="What is in this picture?", count_media=None)


def test_tool_results_schemas_and_overhead_are_accounted_for() -> None:
    plan = packed(tool_results={"tool-1": "42 rows"}, tool_schema_tokens=60, overhead_tokens=3)
    assert plan.budget.component("tool_results").tokens == 7
    assert plan.budget.component("tool_schemas").tokens == 60
    assert plan.budget.component("other").tokens == 3


def test_the_steps_of_the_present_turn_follow_the_current_message() -> None:
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]},
        {"role": "tool", "tool_call_id": "a", "content": "42"},
    ]
    plan = packed(history=HISTORY, steps=steps)
    assert plan.messages[-2:] == tuple(steps)
    assert plan.budget.component("current_message").items == 1


def test_no_memories_though_some_were_asked_for_is_a_warning() -> None:
    assert [w.code for w in packed(memories_asked=5).budget.warnings] == ["no_memories"]
    assert packed().budget.warnings == ()


def test_a_window_smaller_than_the_system_prompt_is_an_error_before_any_call() -> None:
    with pytest.raises(FixedContentTooLarge, match="system prompt") as caught:
        packed(system="x" * 2_000)
    assert caught.value.needed_tokens == 2_004 + 29
    assert caught.value.limit_tokens == 900


def test_a_type_of_ones_own_competes_with_the_others() -> None:
    types = with_types({"calendar": TypeRule(component="calendar", priority=9)})
    extra = make_package("calendar", "dentist at 9", id="c", tokens=12, types=types)
    plan = packed(extra=[extra], types=types)
    assert plan.sent("calendar") == (extra,)
    assert plan.budget.component("calendar").tokens == 12


def test_system_and_current_may_be_whole_messages_or_missing() -> None:
    system = {"role": "developer", "content": "Be brief."}
    current = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert packed(system=system, current=current).messages == (system, current)
    assert packed(system=None).messages == (
        {"role": "user", "content": "What did I say about tea?"},
    )


def test_bad_input_is_a_typed_error() -> None:
    with pytest.raises(InvalidMessage, match="user"):
        packed(current={"role": "assistant", "content": "hi"})
    with pytest.raises(InvalidMessage, match=r"messages\[1\]"):
        packed(history=[{"role": "alien", "content": "hi"}])
    with pytest.raises(InvalidMessage):
        packed(current=None)
    with pytest.raises(InvalidNumber, match="reserve_tokens"):
        packed(reserve_tokens=1_001)
    with pytest.raises(InvalidNumber, match="window_tokens"):
        packed(window_tokens=-1)
    with pytest.raises(InvalidNumber, match="overhead_tokens"):
        packed(overhead_tokens=-3)
    with pytest.raises(InvalidMessage, match="system"):
        packed(system={"role": "system"})
    with pytest.raises(InvalidMessage, match=r"system\.role"):
        packed(system={"role": "user", "content": "Be brief."})
    with pytest.raises(InvalidMessage, match=r"messages\[1\]"):
        packed(history=[None], current="And what colour is it?")
