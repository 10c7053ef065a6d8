"""Worked scores, and packages of each kind."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidNumber, InvalidText
from agentmem.base.types import Hit, Memory
from agentmem.prompt.budget import (
    COMPONENTS,
    ContentPackage,
    ScoreWeights,
    TypeRule,
    make_package,
    package_media,
    package_memory,
    package_preference,
    package_tool_result,
    recency,
    rule_for,
    score,
    with_types,
)
from agentmem.text.messages import require_message

NOW = datetime(2026, 1, 31, tzinfo=UTC)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}


def package(**fields: Any) -> ContentPackage:
    return ContentPackage(**{"id": "a", "type": "x", "content": "hi", "tokens": 3, **fields})


def memory(**fields: Any) -> Memory:
    return Memory(**{"id": "m", "text": "likes tea", "created_at": NOW, **fields})


def test_the_score_is_the_weighted_sum() -> None:
    made = package(priority=8, importance=0.5, relevance=0.9, timestamp=NOW - timedelta(days=30))
    expected = 0.4 * 0.8 + 0.3 * 0.5 + 0.2 * 0.9 + 0.1 * math.exp(-1)
    assert score(made, now=NOW) == pytest.approx(expected)


def test_an_unknown_relevance_and_an_unknown_date_count_half() -> None:
    assert score(package(priority=10, importance=1), now=NOW) == pytest.approx(
        0.4 + 0.3 + 0.2 * 0.5 + 0.1 * 0.5
    )


def test_the_best_and_the_worst_package_reach_the_ends() -> None:
    best = package(priority=10, importance=1, relevance=1, timestamp=NOW)
    assert score(best, now=NOW) == 1.0
    nothing = ScoreWeights(priority=0, importance=0, relevance=1, recency=0)
    assert score(package(relevance=0), now=NOW, weights=nothing) == 0.0


def test_a_moment_in_the_future_counts_as_now() -> None:
    assert recency(NOW + timedelta(days=400), now=NOW) == 1.0


def test_time_zones_are_respected() -> None:
    elsewhere = timezone(timedelta(hours=9))
    assert recency(NOW.astimezone(elsewhere), now=NOW) == 1.0


def test_the_ends_of_the_calendar_have_a_recency() -> None:
    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))
    last = datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))
    assert recency(first, now=last) == 0.0
    assert recency(last, now=first) == 1.0


def test_only_the_proportions_of_weights_matter() -> None:
    one = package(priority=3, importance=0.2, relevance=0.7, timestamp=NOW - timedelta(days=9))
    tens = ScoreWeights(priority=4, importance=3, relevance=2, recency=1)
    assert score(one, now=NOW, weights=tens) == pytest.approx(score(one, now=NOW))


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "1", None, True, 1e300])
def test_weights_are_checked(value: Any) -> None:
    with pytest.raises(InvalidNumber, match="recency"):
        ScoreWeights(recency=value)


def test_weights_that_are_all_zero_are_refused() -> None:
    with pytest.raises(InvalidNumber, match="all zero"):
        ScoreWeights(priority=0, importance=0, relevance=0, recency=0)


class NowhereZone(tzinfo):
    """A zone that is attached and says nothing, so the moment is still unknown."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("id", "", InvalidText),
        ("id", None, InvalidText),
        ("type", "\ud800", InvalidText),
        ("content", None, InvalidInput),
        ("content", "\ud800", InvalidText),
        ("content", ["x"], InvalidInput),
        ("tokens", -1, InvalidNumber),
        ("tokens", 1.0, InvalidNumber),
        ("importance", math.nan, InvalidNumber),
        ("relevance", 1.01, InvalidNumber),
        ("timestamp", datetime(2026, 1, 1), InvalidInput),
        ("timestamp", datetime(2026, 1, 1, tzinfo=NowhereZone()), InvalidInput),
        ("timestamp", "2026-01-01", InvalidInput),
        ("can_drop", 1, InvalidInput),
        ("priority", 0, InvalidNumber),
        ("priority", 11, InvalidNumber),
        ("min_tokens", 4, InvalidNumber),
        ("min_tokens", -1, InvalidNumber),
        ("metadata", None, InvalidInput),
    ],
)
def test_a_package_is_checked_on_construction(
    field: str, value: Any, error: type[InvalidInput]
) -> None:
    with pytest.raises(error, match=field):
        package(**{field: value})


def test_a_large_text_and_nul_are_fine() -> None:
    assert package(content="x" * 10_000_000 + "\x00").tokens == 3


@pytest.mark.parametrize(
    ("kind", "type_", "priority"),
    [
        ("fact", "memory-semantic", 8),
        ("preference", "memory-semantic", 8),
        ("workflow", "memory-procedural", 7),
        ("pattern", "memory-procedural", 7),
        ("episode", "memory-episodic", 6),
        ("page", "memory-episodic", 6),
        ("something new", "memory-episodic", 6),
    ],
)
def test_memories_are_packaged_by_their_cognitive_type(
    kind: str, type_: str, priority: int
) -> None:
    made = package_memory(memory(kind=kind, importance=0.7), count=len)
    assert (made.type, made.priority, made.can_drop) == (type_, priority, True)
    assert (made.tokens, made.importance, made.relevance) == (9, 0.7, None)


def test_a_hit_brings_its_score_as_relevance() -> None:
    made = package_memory(Hit(memory=memory(), score=0.8), count=len, overhead_tokens=5)
    assert (made.relevance, made.tokens, made.timestamp) == (0.8, 14, NOW)


def test_a_memory_can_go_in_at_another_level() -> None:
    made = package_memory(memory(summary="tea"), count=len, level="summary")
    assert (made.content, made.tokens) == ("tea", 3)


def test_a_minimum_above_the_size_is_lowered_to_it() -> None:
    assert package_memory(memory(), count=len, min_tokens=100).min_tokens == 9


def test_content_is_counted_once() -> None:
    seen: list[str] = []

    def count(text: str) -> int:
        seen.append(text)
        return 1

    package_memory(memory(), count=count, min_tokens=1)
    package_preference(memory(), count=count)
    package_tool_result("out", id="t", count=count)
    assert seen == ["likes tea", "likes tea", "out"]


@pytest.mark.parametrize("answer", [-1, 1.5, math.nan, None, "3"])
def test_a_counter_that_misbehaves_is_named(answer: Any) -> None:
    with pytest.raises(InvalidNumber, match="count"):
        package_memory(memory(), count=lambda text: answer)


def test_media_tool_results_and_preferences_have_their_place() -> None:
    media = package_media(IMAGE, id="i", count_media=lambda part: 85)
    result = package_tool_result("rows", id="t", count=len)
    preference = package_preference(Hit(memory=memory(), score=0.1), count=len)
    assert (media.type, media.priority, media.tokens) == ("media-image", 3, 85)
    assert (result.type, result.priority) == ("tool-result", 5)
    assert (preference.type, preference.priority, preference.relevance) == ("preference", 9, None)


def test_something_that_is_no_media_is_refused() -> None:
    with pytest.raises(InvalidInput, match="media"):
        package_media({"type": "text", "text": "x"}, id="i", count_media=lambda part: 1)
    with pytest.raises(InvalidInput, match="Memory"):
        package_memory("tea", count=len)  # type: ignore[arg-type]  # what a caller may do


def test_a_new_type_needs_one_row_only() -> None:
    types = with_types({"calendar": TypeRule(component="calendar", priority=7)})
    made = make_package("calendar", "dentist at 9", id="c", tokens=4, types=types)
    assert made.priority == 7
    assert rule_for("calendar", types).component == "calendar"
    assert rule_for("calendar").component == "other"
    assert rule_for("media-hologram").component == "media"
    assert {rule_for(t).component for t in ("message-x", "memory-x")} <= set(COMPONENTS)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "robot", "content": "hi"},
        {"content": "hi"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "tool", "content": None, "tool_call_id": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": [5]},
        {"role": ["user"], "content": "x"},
        "hi",
        None,
    ],
)
def test_messages_no_provider_takes_are_refused(message: Any) -> None:
    with pytest.raises(InvalidMessage) as caught:
        require_message(message)
    assert caught.value.remedy


@pytest.mark.parametrize("content", ["\ud800", [{"type": "text", "text": "\ud800"}], ["\ud800"]])
def test_messages_that_are_not_unicode_are_refused(content: Any) -> None:
    with pytest.raises(InvalidText, match="surrogate"):
        require_message({"role": "user", "content": content})
