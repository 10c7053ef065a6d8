"""The table of failures in docs/loop.md, a test for each line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import agentmem
from agentmem.agent.loop import AgentLoopResult, run_agent_loop_sync
from agentmem.base.config import BudgetConfig, LoopConfig
from agentmem.base.guards import BreakerSettings
from agentmem.memory.manager import MemoryManager
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import FaultyStore, HashEmbedder, ManualClock, ScriptedModel
from agentmem.text.sentences import sentence_ends

FACT = "Deploys go out on Thursdays at 10:00."
QUESTION = "When do deploys go out?"


class BrokenEmbedder(HashEmbedder):
    def embed_query(self, text: str, /) -> Any:
        raise RuntimeError("the model is not there")


def run(memory: MemoryManager, goal: str = QUESTION, **options: Any) -> AgentLoopResult:
    result = run_agent_loop_sync(
        goal, memory=memory, model=ScriptedModel("Fine."), user_id="sam", **options
    )
    assert result.answer == "Fine."
    return result


def filled(store: Any = None, **options: Any) -> MemoryManager:
    options = {"embedder": HashEmbedder(), "clock": ManualClock(), **options}
    memory = MemoryManager(store or SqliteStore(":memory:"), **options)
    memory.add(FACT, user_id="sam")
    memory.preferences.add("I prefer short answers", user_id="sam")
    return memory


def test_a_store_that_cannot_be_opened_leaves_the_loop_without_memory(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("x")
    memory = agentmem.open(not_a_folder / "memory.db", embedder=HashEmbedder())
    result = run(memory)
    assert result.block == ""
    assert result.degradations
    memory.close()


def test_an_embedder_that_is_not_ready_leaves_the_words() -> None:
    result = run(filled(embedder=BrokenEmbedder()))
    assert FACT in result.block
    assert "I prefer short answers" in result.block
    assert any("words alone" in problem for problem in result.degradations)


def test_a_search_that_fails_leaves_the_preferences() -> None:
    memory = filled()

    def burn(*_: Any, **__: Any) -> Any:
        raise OSError("no index")

    memory.search = burn  # type: ignore[method-assign]  # a part that fails
    result = run(memory)
    assert FACT not in result.block
    assert "I prefer short answers" in result.block
    assert any("no index" in problem for problem in result.degradations)


def test_after_three_failures_the_newest_memories_stand_in_and_later_one_trial_is_made() -> None:
    memory = filled()
    search, asked = memory.search, []

    def burn(*_: Any, **__: Any) -> Any:
        asked.append(1)
        raise OSError("no index")

    memory.search = burn  # type: ignore[method-assign]  # a part that fails
    for _ in range(3):
        assert FACT not in run(memory).block
    fourth = run(memory)
    assert len(asked) == 3
    assert FACT in fourth.block
    assert any("stand in" in problem for problem in fourth.degradations)
    memory.search = search  # type: ignore[method-assign]  # mended
    memory.clock.advance(BreakerSettings().cooldown_seconds + 1)  # type: ignore[attr-defined]  # the clock of this test
    assert run(memory).degradations == ()


def test_indexing_that_fails_leaves_the_answer_and_is_told_by_the_worker() -> None:
    broken = False

    def fails(name: str) -> Exception | None:
        return OSError("disk") if broken and name in {"put", "replace_source"} else None

    memory = filled(FaultyStore(SqliteStore(":memory:"), fails))
    broken = True
    result = run(memory, pages=[("https://wiki.example/", "A page.")])
    memory.flush(5)
    assert result.degradations == ()
    assert "disk" in memory.runtime.worker.state.last_error
    broken = False


def test_preferences_over_budget_are_cut_to_it() -> None:
    memory = filled()
    for number in range(40):
        memory.preferences.add(f"I like the colour number {number} most of all", user_id="sam")
    result = run(memory, config=LoopConfig(budget=BudgetConfig(preferences=60)))
    assert result.block.count("I like the colour") in range(1, 8)
    assert FACT in result.block


def test_one_preference_over_budget_is_cut_at_a_sentence() -> None:
    memory = MemoryManager(SqliteStore(":memory:"), embedder=HashEmbedder(), clock=ManualClock())
    long = "I prefer short answers. " + "They must be kind, and they must be true as well. " * 30
    memory.preferences.add(long.strip(), user_id="sam")
    turn = memory.turn(
        [{"role": "user", "content": QUESTION}], user_id="sam",
        config=LoopConfig(budget=BudgetConfig(preferences=40)),
    )  # fmt: skip
    assert turn.block is not None
    (line,) = turn.block.user_profile
    assert long.startswith(line)
    assert line.endswith(".")
    assert turn.snapshot is not None
    assert [seen.decision for seen in turn.snapshot.looked_at] == ["dropped", "cut"]


def test_one_memory_over_budget_is_cut_at_a_sentence() -> None:
    memory = filled()
    long = " ".join(f"Deploys go out in wave {n} of the rollout." for n in range(200))
    memory.add(long, user_id="bob")
    result = run_agent_loop_sync(
        QUESTION, memory=memory, model=ScriptedModel("Fine."), user_id="bob",
        config=LoopConfig(budget=BudgetConfig(knowledge=150)),
    )  # fmt: skip
    (offered,) = result.offered
    assert long.startswith(offered.quote)
    shown = memory.turn([{"role": "user", "content": QUESTION}], user_id="bob",
                        config=LoopConfig(budget=BudgetConfig(knowledge=150))).block  # fmt: skip
    assert shown is not None
    text = shown.related_knowledge[0].text
    assert len(text) in set(sentence_ends(long))
    assert shown.related_knowledge[0].cut


def test_without_a_budget_there_are_preferences_only_and_then_nothing() -> None:
    memory = filled()
    some = run(memory, config=LoopConfig(budget=BudgetConfig(knowledge=0)))
    assert FACT not in some.block
    assert "I prefer short answers" in some.block
    none = run(memory, config=LoopConfig(budget=BudgetConfig(knowledge=0, preferences=0)))
    assert none.block == ""
