"""Worked scores, and packages of each kind."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidNumber, InvalidText
from agentmem.base.types import Memory
from agentmem.prompt.budget import (
    COMPONENTS,
    ContentPackage,
    composite,
    make_package,
    recency,
    rule_for,
)
from agentmem.prompt.build import memory_type
from agentmem.text.messages import require_message

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def package(**fields: Any) -> ContentPackage:
    return ContentPackage(**{"id": "a", "type": "x", "tokens": 3, **fields})


def test_the_score_is_the_weighted_sum() -> None:
    a_month_ago = recency(NOW - timedelta(days=30), now=NOW)
    made = composite(priority=8, importance=0.5, relevance=0.9, recency=a_month_ago)
    assert made == pytest.approx(0.4 * 0.8 + 0.3 * 0.5 + 0.2 * 0.9 + 0.1 * math.exp(-1))


def test_an_unknown_relevance_and_an_unknown_date_count_half() -> None:
    assert composite(priority=10, importance=1, relevance=None) == pytest.approx(
        0.4 + 0.3 + 0.2 * 0.5 + 0.1 * 0.5
    )


def test_the_best_and_the_worst_package_reach_the_ends() -> None:
    now, long_ago = recency(NOW, now=NOW), recency(NOW - timedelta(days=100_000), now=NOW)
    assert composite(priority=10, importance=1, relevance=1, recency=now) == 1.0
    worst = composite(priority=1, importance=0, relevance=0, recency=long_ago)
    assert worst == pytest.approx(0.04)


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


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("tokens", -1, InvalidNumber),
        ("tokens", 1.0, InvalidNumber),
        ("relevance", 1.01, InvalidNumber),
        ("priority", 0, InvalidNumber),
        ("priority", 11, InvalidNumber),
    ],
)
def test_a_package_is_checked_on_construction(
    field: str, value: Any, error: type[InvalidInput]
) -> None:
    with pytest.raises(error, match=field):
        package(**{field: value})


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
def test_memories_are_packages_of_their_cognitive_type(
    kind: str, type_: str, priority: int
) -> None:
    one = Memory(id="m", text="likes tea", created_at=NOW, kind=kind)
    assert memory_type(one) == type_
    made = make_package(type_, id=one.id, tokens=9)
    assert (made.priority, made.can_drop) == (priority, True)
    assert not make_package(type_, id=one.id, tokens=9, can_drop=False).can_drop


def test_every_type_has_a_component() -> None:
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
