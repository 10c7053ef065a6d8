"""Worked scores, and packages of each kind."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidMessage, InvalidNumber, InvalidText
from agentmem.base.types import Memory
from agentmem.prompt.budget import (
    COMPONENTS,
    ContentPackage,
    make_package,
    recency,
    rule_for,
    score,
)
from agentmem.prompt.build import memory_type
from agentmem.text.messages import require_message

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def package(**fields: Any) -> ContentPackage:
    return ContentPackage(**{"id": "a", "type": "x", "content": "hi", "tokens": 3, **fields})


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
    long_ago = NOW - timedelta(days=100_000)
    worst = package(priority=1, importance=0, relevance=0, timestamp=long_ago)
    assert score(worst, now=NOW) == pytest.approx(0.04)


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


class NowhereZone(tzinfo):
    """A zone that is attached and says nothing, so the moment is still unknown."""

    def utcoffset(self, moment: datetime | None) -> None:
        return None

    dst = tzname = utcoffset


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("tokens", -1, InvalidNumber),
        ("tokens", 1.0, InvalidNumber),
        ("importance", math.nan, InvalidNumber),
        ("relevance", 1.01, InvalidNumber),
        ("timestamp", datetime(2026, 1, 1), InvalidInput),
        ("timestamp", datetime(2026, 1, 1, tzinfo=NowhereZone()), InvalidInput),
        ("timestamp", "2026-01-01", InvalidInput),
        ("priority", 0, InvalidNumber),
        ("priority", 11, InvalidNumber),
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
def test_memories_are_packages_of_their_cognitive_type(
    kind: str, type_: str, priority: int
) -> None:
    one = Memory(id="m", text="likes tea", created_at=NOW, kind=kind)
    assert memory_type(one) == type_
    made = make_package(type_, one.text, id=one.id, tokens=9)
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
