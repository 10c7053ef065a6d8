"""What a turn keeps between turns is never older than what others have written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent import context as contexts
from agentmem.agent.context import Context
from agentmem.agent.turn import build_context
from agentmem.base.config import LoopConfig
from agentmem.base.types import COLD_AT, Memory, Scope
from agentmem.prompt.budget import pack_context
from agentmem.prompt.messages import Conversation
from agentmem.search.intake import prepare
from tests.local_search import local

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


def test_a_preference_that_another_process_keeps_meanwhile_is_kept_once(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    said = [{"role": "user", "content": "I am vegetarian."}]
    (theirs,) = other.preferences.detect(said, user_id="ann")
    with monkeypatch.context() as before:
        before.setattr(one.preferences, "current", lambda _: ())
        (ours,) = one.preferences.detect(said, user_id="ann")
    assert ours.id == theirs.id
    assert len(profile(one)) == 1


def test_a_tool_result_that_another_process_keeps_is_known_at_once(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager],
) -> None:
    one, other = two
    assert not one.runtime.has_results(ANN, "s")
    result = Memory(
        id="r", text="42", created_at=NOW, kind="tool_result", scope=ANN, session="s", origin="tool"
    )
    other.store.put([prepare(replace(result, session="other"))])
    assert not one.runtime.has_results(ANN, "s")
    other.store.put([prepare(replace(result, id="s"))])
    assert one.runtime.has_results(ANN, "s")


def test_searches_go_on_with_the_old_index_while_a_new_one_is_built(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    other.sources.add_document(
        [f"Milk {number}" for number in range(2_500)], url="m", user_id="ann"
    )
    read = one.store.feed.index_rows
    known: list[int] = []

    def index_rows(**which: Any) -> Any:
        found = read(**which)
        known.append(len(local(one).words))
        return found

    monkeypatch.setattr(one.store.feed, "index_rows", index_rows)
    assert one.search("milk 7", user_id="ann")
    assert local(one).rebuilds == 2
    assert known == [1]


def test_plan_and_snapshot_may_be_asked_for_at_once(
    two: tuple[agentmem.MemoryManager, agentmem.MemoryManager], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, both = threading.Event(), threading.Event()
    packed: list[int] = []

    def slow_pack(*given: Any, **options: Any) -> Any:
        begun.set()
        assert both.wait(5)
        packed.append(1)
        return pack_context(*given, **options)

    monkeypatch.setattr(contexts, "pack_context", slow_pack)
    messages = Conversation([{"role": "user", "content": "Is tea green?"}])
    context = build_context(two[0].runtime, Context(given=messages, scope=ANN, config=LoopConfig()))
    found: list[object] = []

    def plan() -> None:
        assert begun.wait(5)
        both.set()
        found.append(context.budget)

    threads = [
        threading.Thread(target=lambda: found.append(context.snapshot), daemon=True),
        threading.Thread(target=plan, daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(found) == 2
    assert packed == [1]
