"""Learning is one step: all of it or nothing, written down, and taken back; on both stores."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.base.errors import AlreadyUndone, ChangedMeanwhile, InvalidScope
from agentmem.base.types import Memory, Scope
from agentmem.living.learn import LEARN, Learner
from agentmem.memory.facade import AsyncMemoryManager
from agentmem.memory.manager import MemoryManager
from agentmem.search.intake import prepare
from agentmem.stores import journal as store_journal
from agentmem.stores.journal import KEPT_RUNS, Relation, Revision
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Link
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Scope(user_id="ann")
SAID = (
    "The API limit is 900 requests. The team decided to use Kafka because it scales. "
    "The build takes 12 minutes."
)


def opened(path: Path | None) -> MemoryManager:
    store = SqliteStore(":memory:") if path is None else SqliteStore(path)
    return MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock(NOW), path=path)


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    with opened(None if request.param == "memory" else tmp_path / "store.db") as made:
        yield made


def texts(memory: MemoryManager) -> list[str]:
    return [one.text for one in memory.get_all(user_id="ann")]


def wait(memory: MemoryManager, days: float = 1) -> None:
    assert isinstance(memory.clock, ManualClock)
    memory.clock.advance(days * 86_400)


def test_all_that_is_learned_is_one_entry_of_the_journal(memory: MemoryManager) -> None:
    learned = memory.living.learn(SAID, user_id="ann")
    assert len(learned) == 3
    (run,) = memory.living.journal(user_id="ann")
    assert (run.id, run.kind, run.items) == (learned.journal_id, LEARN, 3)
    assert run.report == {"added": 3, "superseded": 0, "known": 0}
    assert len(json.loads(json.dumps(learned.to_dict()))["added"]) == 3
    assert memory.upkeep.verify().ok
    found = memory.search("how many requests does the API allow", user_id="ann")
    assert found.hits[0].memory.text == "The API limit is 900 requests."
    assert memory.store.feed.missing_vectors(HashEmbedder().id) == ()


def test_what_was_learned_is_taken_back_together(memory: MemoryManager) -> None:
    source = memory.add([{"role": "user", "content": SAID}], user_id="ann").items[0].id
    before = texts(memory)
    learned = memory.living.learn([{"role": "user", "content": SAID}], user_id="ann")
    assert len(memory.store.links.of(ANN, source)) == 3
    undone = memory.living.undo(learned.journal_id, user_id="ann")
    assert (undone.removed, undone.restored, undone.relations, undone.left) == (3, 0, 3, ())
    assert texts(memory) == before
    assert memory.store.links.of(ANN, source) == ()
    kinds = {hit.memory.kind for hit in memory.search("API limit", user_id="ann").hits}
    assert kinds <= {"message"}
    assert memory.upkeep.verify().ok
    with pytest.raises(AlreadyUndone):
        memory.living.undo(learned.journal_id, user_id="ann")
    assert len(memory.living.learn(SAID, user_id="ann")) == 3


def test_the_value_before_holds_again_when_the_later_one_is_taken_back(
    memory: MemoryManager,
) -> None:
    memory.living.learn("The API limit is 900 requests.", user_id="ann")
    wait(memory)
    later = memory.living.learn("The API limit is 600 requests.", user_id="ann")
    assert texts(memory) == ["The API limit is 600 requests."]
    memory.living.undo(later.journal_id, user_id="ann")
    (held,) = memory.get_all(user_id="ann")
    assert (held.text, held.valid_to) == ("The API limit is 900 requests.", None)
    assert memory.living.history_of("API limit", user_id="ann") == (held,)


def test_what_somebody_built_on_stays_and_is_named(memory: MemoryManager) -> None:
    memory.living.learn("The API limit is 900 requests.", user_id="ann")
    wait(memory)
    second = memory.living.learn("The API limit is 600 requests.", user_id="ann")
    wait(memory)
    memory.living.learn("The API limit is 300 requests.", user_id="ann")
    history = memory.living.history_of("API limit", user_id="ann")
    undone = memory.living.undo(second.journal_id, user_id="ann")
    assert undone.removed == undone.restored == 0
    assert set(undone.left) == {history[1].id, history[0].id}
    assert memory.living.history_of("API limit", user_id="ann") == history


def test_a_dry_run_changes_nothing(memory: MemoryManager) -> None:
    seq = memory.store.feed.seq()
    learned = memory.living.learn(SAID, dry_run=True, user_id="ann")
    assert learned.dry_run
    assert [one.kind for one in learned.added] == ["fact", "fact", "episode"]
    assert learned.journal_id == ""
    assert (memory.store.feed.seq(), texts(memory), memory.living.journal(user_id="ann")) == (
        seq,
        [],
        (),
    )


def test_of_two_values_said_at_once_the_last_one_counts(memory: MemoryManager) -> None:
    said = "The API limit is 900 requests. The API limit is 600 requests."
    assert len(memory.living.learn(said, user_id="ann")) == 1
    wait(memory)
    again = memory.living.learn(said, user_id="ann")
    assert (len(again), again.known, again.journal_id) == (0, 1, "")
    assert texts(memory) == ["The API limit is 600 requests."]


def test_a_failure_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "store.db") as memory:
        memory.living.learn("The API limit is 900 requests.", user_id="ann")
        wait(memory)
        seq = memory.store.feed.seq()

        def fail(*_: Any) -> None:
            raise OSError("the power is gone")

        with monkeypatch.context() as broken:
            broken.setattr(store_journal, "_forget_old", fail)
            with pytest.raises(OSError, match="power"):
                memory.living.learn("The API limit is 600 requests. " + SAID[30:], user_id="ann")
        assert memory.store.feed.seq() == seq
        assert texts(memory) == ["The API limit is 900 requests."]
        assert len(memory.living.journal(user_id="ann")) == 1
        assert memory.upkeep.verify().ok
    with opened(tmp_path / "store.db") as memory:
        assert texts(memory) == ["The API limit is 900 requests."]


def test_a_revision_that_cannot_be_applied_adds_nothing(memory: MemoryManager) -> None:
    new = Memory(id="new", text="Tea is hot.", created_at=NOW, scope=ANN, kind="fact")
    link = Link(first_id="new", second_id="nobody", relation="r", created_at=NOW)
    revision = Revision(
        id="r1", kind=LEARN, added=(prepare(new),), relations=(Relation(family="link", link=link),)
    )
    with pytest.raises(ChangedMeanwhile):
        memory.store.journal.apply(ANN, revision, at=NOW)
    other = replace(revision, added=(prepare(replace(new, scope=Scope(user_id="bob"))),))
    with pytest.raises(InvalidScope):
        memory.store.journal.apply(ANN, other, at=NOW)
    assert memory.store.feed.seq() == 0
    assert memory.living.journal(user_id="ann") == ()
    assert memory.upkeep.verify().ok


def test_it_is_planned_again_when_somebody_writes_meanwhile(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.living.learn("The API limit is 900 requests.", user_id="ann")
    wait(memory)
    learner = Learner(memory)
    plan = learner._plan
    tried: list[bool] = []

    def interrupted(*given: Any) -> Any:
        made = plan(*given)
        if not tried:
            tried.append(True)
            other = memory.living.learn("The API limit is 700 requests.", user_id="ann")
            assert len(other) == 1
        return made

    monkeypatch.setattr(learner, "_plan", interrupted)
    said = learner.read(ANN, "The API limit is 600 requests.")
    learned = learner.learn(ANN, said)
    assert len(learned) == 1
    values = [m.text.split()[4] for m in memory.living.history_of("API limit", user_id="ann")]
    assert values == ["900", "700", "600"]


def test_learning_often_does_not_push_out_other_runs(tmp_path: Path) -> None:
    with opened(tmp_path / "store.db") as memory:
        memory.living.learn("The API limit is 1 request.", user_id="ann")
        first = memory.get_all(user_id="ann")[0].id
        brought = memory.living.bring_back(first, user_id="ann")
        for number in range(2, KEPT_RUNS + 4):
            wait(memory, 1 / 24)
            memory.living.learn(f"The API limit is {number} requests.", user_id="ann")
        runs = memory.living.journal(limit=1_000, user_id="ann")
        assert brought.id in {run.id for run in runs}
        assert sum(run.kind == LEARN for run in runs) == KEPT_RUNS


def test_a_value_that_had_ended_before_keeps_its_end(memory: MemoryManager) -> None:
    memory.living.learn("The API limit is 900 requests.", user_id="ann")
    (fact,) = memory.get_all(user_id="ann")
    until = NOW + timedelta(hours=1)
    revision = Revision(
        id="r1", kind="test", before=(fact,), after=(replace(fact, valid_to=until),)
    )
    memory.store.journal.apply(ANN, revision, at=NOW)
    wait(memory)
    memory.living.learn("The API limit is 600 requests.", user_id="ann")
    assert memory.living.history_of("API limit", user_id="ann")[0].valid_to == until


def test_what_was_learned_and_erased_is_nowhere_to_be_undone(memory: MemoryManager) -> None:
    learned = memory.living.learn(SAID, user_id="ann")
    memory.erase(learned.added[0].id, user_id="ann")
    undone = memory.living.undo(learned.journal_id, user_id="ann")
    assert (undone.removed, undone.left) == (2, ())
    assert texts(memory) == []
    assert memory.upkeep.verify().ok


async def learn_async() -> tuple[int, int]:
    async with AsyncMemoryManager(opened(None)) as memory:
        model = ScriptedModel('{"records": []}')
        learned = await memory.run(memory.manager.living.learn, SAID, model=model, user_id="ann")
        undone = await memory.run(memory.manager.living.undo, learned.journal_id, user_id="ann")
        return len(learned), undone.removed


def test_the_awaited_memory_learns_the_same() -> None:
    assert asyncio.run(learn_async()) == (3, 3)
