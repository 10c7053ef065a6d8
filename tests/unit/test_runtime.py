"""What a turn keeps between turns is never older than what others have written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import agentmem
from agentmem.core.marks import COLD_AT
from agentmem.preparing import prepare
from agentmem.types import Memory, Scope

ANN = Scope(user_id="ann")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[agentmem.MemoryManager, agentmem.MemoryManager]]:
    """One store, open twice as two processes have it, and both have searched it."""
    path = tmp_path / "memory.db"
    with (
        agentmem.open(path, embedder=None, judge_new=False) as one,
        agentmem.open(path, embedder=None, judge_new=False) as other,
    ):
        one.add("Tea is green", user_id="ann")
        for memory in (one, other):
            assert memory.search("green tea", user_id="ann")
        yield one, other


def profile(memory: agentmem.MemoryManager) -> list[str]:
    return [preference.text for preference in memory.runtime.profile(ANN)]


def test_a_preference_that_another_process_adds_changes_or_deletes_is_known_at_once(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager],
) -> None:
    one, other = two
    assert profile(one) == []
    (name,) = other.add("I like short answers", kind="preference", user_id="ann").ids
    assert profile(one) == ["I like short answers"]
    other.update(name, "I like long answers", user_id="ann")
    assert profile(one) == ["I like long answers"]
    other.delete(name, user_id="ann")
    assert profile(one) == []


def test_a_preference_that_was_put_away_and_then_deleted_is_not_kept(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager],
) -> None:
    one, other = two
    (name,) = other.add("I like short answers", kind="preference", user_id="ann").ids
    other.update(name, metadata={COLD_AT: NOW.isoformat()}, user_id="ann")
    assert profile(one) == ["I like short answers"]
    other.delete(name, user_id="ann")
    assert profile(one) == []


def test_a_preference_that_another_process_erases_is_not_kept(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager],
) -> None:
    one, other = two
    (name,) = other.add("I like short answers", kind="preference", user_id="ann").ids
    assert profile(one) == ["I like short answers"]
    other.erase(name, user_id="ann")
    assert profile(one) == []


def test_a_tool_result_that_another_process_keeps_is_known_at_once(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager],
) -> None:
    one, other = two
    assert not one.runtime.has_results(ANN, "s")
    result = Memory(
        id="r", text="42", created_at=NOW, kind="tool_result", scope=ANN, session="s", origin="tool"
    )
    other.store.put([prepare(replace(result, session="other"), {})])
    assert not one.runtime.has_results(ANN, "s")
    other.store.put([prepare(replace(result, id="s"), {})])
    assert one.runtime.has_results(ANN, "s")
