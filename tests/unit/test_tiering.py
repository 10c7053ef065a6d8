"""Contexts by tiers: what is critical, what is relevant, and what becomes of it in a turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import agentmem
from agentmem import BudgetConfig, LearnConfig, LoopConfig, RecallConfig
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.base.errors import InvalidInput, InvalidNumber
from agentmem.base.types import Scope
from agentmem.inspector.replay import replay
from agentmem.living.facts import (
    Episode,
    EpisodeArtifact,
    Pattern,
    Record,
    Workflow,
    to_memory_fields,
)
from agentmem.living.tiers import Tier, TierItem, assemble_tiers
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.block import parse_context
from agentmem.prompt.strip import strip
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Link
from agentmem.testing import FaultyStore, HashEmbedder, ManualClock, ScriptedModel

LEDGER = Episode(
    title="Use Postgres for the ledger",
    narrative="We keep the ledger in Postgres.",
    sort="decision",
    reason="it needs transactions",
    artifacts=(EpisodeArtifact(kind="file", reference="src/billing/ledger.py"),),
)
TIERS = LoopConfig(recall=RecallConfig(assembly="tiers"))


@pytest.fixture
def memory() -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as opened:
        yield opened


def keep(memory: MemoryManager, record: Record, **options: Any) -> str:
    fields = to_memory_fields(record)
    options.setdefault("user_id", "ana")
    added = memory.add(fields.text, kind=fields.kind, metadata=dict(fields.metadata), **options)
    return added.items[0].id


def tier_of(context: Any, memory_id: str) -> int | None:
    return next((f.tier for f in context.fates if f.id == memory_id), None)


def test_a_decision_for_the_open_file_is_critical_and_told_with_its_reason(
    memory: MemoryManager,
) -> None:
    ledger = keep(memory, LEDGER)
    other = keep(memory, Episode(title="Name branches after issues", sort="decision"))
    for path in (
        "src/billing/ledger.py",
        "./src/billing/ledger.py",
        "/home/ana/src/billing/ledger.py",
    ):
        context = memory.living.assemble_context(signals=[("file", path)], user_id="ana")
        assert tier_of(context, ledger) == 1
        assert tier_of(context, other) == 4
    assert "it needs transactions" in context.text
    assert "decision for ledger.py" in context.text


def test_a_decision_is_critical_for_a_task_that_shares_its_words(memory: MemoryManager) -> None:
    ledger = keep(memory, LEDGER)
    context = memory.living.assemble_context(task="move the ledger off Postgres", user_id="ana")
    assert tier_of(context, ledger) == 1
    context = memory.living.assemble_context(task="choose a colour for the logo", user_id="ana")
    assert tier_of(context, ledger) != 1


def test_both_sides_of_an_open_contradiction_are_critical(memory: MemoryManager) -> None:
    first = memory.add("Deploys go out on Thursdays.", user_id="ana").items[0].id
    second = memory.add("Deploys go out on Mondays.", user_id="ana").items[0].id
    scope = Scope(user_id="ana")
    now = memory.clock.now()
    link = Link(first_id=first, second_id=second, relation="contradicts", created_at=now)
    memory.store.contradictions.put(scope, link)
    context = memory.living.assemble_context(user_id="ana")
    assert (tier_of(context, first), tier_of(context, second)) == (1, 1)
    memory.store.contradictions.settle(scope, link, at=now)
    context = memory.living.assemble_context(user_id="ana")
    assert (tier_of(context, first), tier_of(context, second)) == (4, 4)


def test_an_error_is_critical_for_a_day_and_then_only_when_it_is_seen_again(
    memory: MemoryManager,
) -> None:
    error = keep(
        memory,
        Episode(title="Export failed", sort="error", error="KeyError: 'total'", fix="default to 0"),
    )
    context = memory.living.assemble_context(user_id="ana")
    assert tier_of(context, error) == 1
    assert "default to 0" in context.text
    memory.clock.advance(25 * 3600)  # type: ignore[attr-defined]  # the manual clock
    assert tier_of(memory.living.assemble_context(user_id="ana"), error) == 4
    seen = memory.living.assemble_context(signals=[("error", "KeyError: 'total'")], user_id="ana")
    assert tier_of(seen, error) == 2


def test_a_failed_call_is_shown_with_the_one_that_worked_after_it(memory: MemoryManager) -> None:
    turn = memory.turn([{"role": "user", "content": "run it"}], user_id="ana")
    turn.tool_result("pytest", {"path": "test"}, "", error="no such folder: test")
    memory.clock.advance(60)  # type: ignore[attr-defined]  # the manual clock
    turn.tool_result("pytest", {"path": "tests"}, "12 passed in 3 seconds")
    context = memory.living.assemble_context(user_id="ana")
    critical = [f for f in context.fates if f.tier == 1]
    assert [f.why for f in critical] == [
        "call that failed in the last 24 hours",
        "worked after the call that failed",
    ]
    assert "no such folder" in context.text


def test_collaborators_preferences_are_relevant_and_strangers_are_not_seen(
    memory: MemoryManager,
) -> None:
    memory.add(
        "Bob prefers small commits.", kind="preference", visibility="project",
        user_id="bob", project_id="shop",
    )  # fmt: skip
    memory.add("Bob prefers loud music.", kind="preference", user_id="bob")
    context = memory.living.assemble_context(user_id="ana", project_id="shop")
    assert "small commits" in context.text
    assert "preference of bob" in context.text
    assert "loud music" not in context.text
    assert "small commits" not in memory.living.assemble_context(user_id="ana").text


def test_conventions_and_workflows_are_background_nearest_first(memory: MemoryManager) -> None:
    release = keep(
        memory, Workflow(trigger="release a version", steps=("run tests", "tag", "push"))
    )
    tests = keep(memory, Pattern(trigger="naming tests", template="def test_<sentence>() -> None:"))
    keep(memory, Workflow(trigger="rotate keys", steps=("make a key", "swap it")))
    context = memory.living.assemble_context(task="release a version of the app", user_id="ana")
    assert "When: release a version" in context.text
    fates = [f.id for f in context.fates if f.tier == 3 or f.id == release]
    assert release in fates
    assert tests in fates


def test_topics_carry_ids_that_memory_read_opens(memory: MemoryManager) -> None:
    page = memory.sources.add_document(
        "# Coffee\n\nThe machine wants 14 g.", url="https://wiki/c", user_id="ana"
    )
    context = memory.living.assemble_context(user_id="ana")
    assert f"(memory_read {page.items[0].id})" in context.text
    turn = memory.turn([{"role": "user", "content": "hello"}], user_id="ana")
    assert "14 g" in turn.working.read(page.items[0].id).content


def test_the_budget_is_hard_and_shares_move_with_the_activity(memory: MemoryManager) -> None:
    for number in range(60):
        keep(memory, Episode(title=f"Decision {number}: use tool {number}", sort="decision"))
    for budget in (0, 1, 20, 100, 700):
        context = memory.living.assemble_context(budget, task="which tool to use", user_id="ana")
        assert context.tokens <= budget
        assert context.budget_tokens == budget == sum(context.tier_budgets.values())
    debugging = memory.living.assemble_context(1000, activity="debugging", user_id="ana")
    assert debugging.tier_budgets[1] == 375
    table = {"mine": (0.0, 0.0, 0.0, 1.0)}
    mine = memory.living.assemble_context(1000, activity="mine", table=table, user_id="ana")
    assert mine.tier_budgets[4] == 1000


@pytest.mark.parametrize(
    "options",
    [
        {"budget": -1},
        {"budget": True},
        {"activity": "sleeping"},
        {"signals": "file"},
        {"signals": [("weather", "rain")]},
        {"signals": [3]},
        {"task": "\ud800"},
        {"table": {"general": (0.5, 0.5, 0.5, 0.5)}},
    ],
)
def test_what_makes_no_sense_is_refused(memory: MemoryManager, options: dict[str, Any]) -> None:
    with pytest.raises((InvalidInput, InvalidNumber)):
        memory.living.assemble_context(**options)


def test_a_part_that_fails_is_left_out_and_named(memory: MemoryManager) -> None:
    store = SqliteStore(":memory:")
    with MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock()) as whole:
        keep(whole, LEDGER)
        broken: Any = FaultyStore(
            store, lambda name: OSError("disk") if "contradictions" in name else None
        )
        part = MemoryManager(broken, embedder=HashEmbedder(), clock=ManualClock())
        context = part.living.assemble_context(user_id="ana")
        assert "ledger" in context.text
        assert context.degradations == ("contradictions failed: OSError: disk",)
        nothing: Any = FaultyStore(store, lambda name: OSError("disk"))
        dead = MemoryManager(nothing, embedder=HashEmbedder(), clock=ManualClock())
        assert dead.living.assemble_context(user_id="ana").text == ""


def test_a_turn_by_tiers_is_one_block_that_cites_and_is_traced(memory: MemoryManager) -> None:
    ledger = keep(memory, LEDGER)
    memory.add("The ledger table has 14 columns.", user_id="ana")
    keep(memory, Pattern(trigger="errors", template="raise InvalidInput(name, value)"))
    memory.sources.add_document(
        "# Coffee\n\nThe machine wants 14 g.", url="https://wiki/c", user_id="ana"
    )
    turn = memory.turn(
        [{"role": "user", "content": "How many columns has the ledger table?"}],
        config=replace(TIERS, recall=replace(TIERS.recall, top_k=1)),
        signals=[("file", "src/billing/ledger.py")],
        user_id="ana",
    )
    assert turn.degradations == []
    block = parse_context(turn.block_text, secret=memory.store.settings.secret())
    assert block.related_knowledge[0].section == "Critical: decision for ledger.py"
    assert "14 columns" in turn.block_text
    assert turn.citations[0].memory_id == ledger
    assert block.working_memory
    assert block.working_memory[0].tool == "memory_read"
    assert strip(f"I was shown: {turn.block_text}").strip() == "I was shown:"
    assert turn.snapshot is not None
    reasons = {looked.id: looked.reason for looked in turn.snapshot.looked_at}
    assert reasons[ledger].startswith("tier 1, critical: decision for ledger.py; as full")
    count = memory.runtime.tokenizer("")[0]
    again = replay(turn.snapshot, count=count)
    assert again.changes == ()


def test_nothing_is_pointed_to_when_the_model_cannot_read_it(memory: MemoryManager) -> None:
    memory.sources.add_document(
        "# Coffee\n\nThe machine wants 14 g.", url="https://wiki/c", user_id="ana"
    )
    config = LoopConfig(recall=RecallConfig(assembly="tiers"), memory_tools=False)
    turn = memory.turn([{"role": "user", "content": "zebra"}], config=config, user_id="ana")
    assert "memory_read" not in turn.block_text


def test_the_tiers_of_a_turn_stay_in_its_budget(memory: MemoryManager) -> None:
    for number in range(80):
        keep(memory, Episode(title=f"Decision {number} on the ledger table " * 5, sort="decision"))
    ask = [{"role": "user", "content": "Which decisions are there on the ledger table?"}]
    for tokens in (50, 300, 1500):
        config = LoopConfig(
            recall=RecallConfig(assembly="tiers"), budget=BudgetConfig(knowledge=tokens)
        )
        turn = memory.turn(ask, config=config, user_id="ana")
        assert turn.context.built.knowledge.tokens <= tokens
        assert turn.degradations == []


def test_the_loop_answers_with_tiers_and_never_stores_them_again(memory: MemoryManager) -> None:
    keep(memory, LEDGER)
    result = run_agent_loop_sync(
        "Where do we keep the ledger?",
        memory=memory,
        model=ScriptedModel("All of it lies in Postgres [1]."),
        config=TIERS,
        user_id="ana",
    )
    assert result.degradations == ()
    assert result.citations[0].index == 1
    assert "Critical: decision for this task" in result.block
    memory.flush(10)
    kept = [m.text for m in memory.get_all(user_id="ana", kinds=["message"])]
    assert sorted(kept) == ["All of it lies in Postgres.", "Where do we keep the ledger?"]


def test_failing_tiers_leave_the_turn_with_what_search_found(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add("The ledger table has 14 columns.", user_id="ana")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk")

    monkeypatch.setattr(memory.runtime.tiers, "offer", fail)
    ask = [{"role": "user", "content": "How many columns has the ledger table?"}]
    turn = memory.turn(ask, config=TIERS, user_id="ana")
    assert "14 columns" in turn.block_text
    assert turn.degradations == ["tiers failed: OSError: disk"]


@pytest.mark.parametrize(
    "broken",
    [
        "recent", "get_many", "scan", "feed.seq", "settings.get", "settings.set",
        "settings.secret", "contradictions.all", "search_by_source_url", "get_rows",
    ],
)  # fmt: skip
def test_whatever_fails_the_loop_with_tiers_gives_its_answer(broken: str) -> None:
    store: Any = FaultyStore(
        SqliteStore(":memory:"), lambda name: OSError("disk") if name == broken else None
    )
    with MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock()) as memory:
        result = run_agent_loop_sync(
            "Where do we keep the ledger?",
            memory=memory,
            model=ScriptedModel("In Postgres."),
            config=LoopConfig(
                recall=RecallConfig(assembly="tiers", timeout_seconds=30),
                learn=LearnConfig(workflows=True),
            ),
            signals=[("file", "src/billing/ledger.py")],
            user_id="ana",
        )
        assert result.answer == "In Postgres."
        memory.living.prefetch([("task", "x")], user_id="ana")
        if broken in ("recent", "contradictions.all", "feed.seq", "settings.secret"):
            assert result.degradations


def test_tiers_hand_on_what_they_leave_and_show_the_first_level_that_fits() -> None:
    def item(id_: str, *tokens: int) -> TierItem:
        full, summary, compressed, index = (" ".join(id_ * n) for n in tokens)
        return TierItem(id_, (full, summary, compressed, index))

    items: dict[Tier, list[TierItem]] = {
        1: [item("a", 9, 5, 4, 1), item("b", 9, 8, 7, 6)],
        2: [item("a", 1, 1, 1, 1), item("c", 4, 4, 4, 4)],
    }
    built = assemble_tiers(
        items, 20, count=lambda text: len(text.split()), shares=(0.5, 0.25, 0.25, 0.0)
    )
    assert [(fate.id, fate.tier, fate.outcome, fate.tokens) for fate in built.fates] == [
        ("a", 1, "lowered", 6),  # 8 of the 10 are left beside the heading
        ("b", 1, "dropped", 0),
        ("c", 2, "included", 5),  # 5 of its own and the 2 that were left; "a" is in already
    ]
