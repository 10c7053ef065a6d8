"""Whatever way a memory comes in, what it contradicts is found in the background."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from agentmem import Episode
from agentmem.base.config import LoopConfig
from agentmem.base.types import Scope
from agentmem.living.consolidate import revision_of
from agentmem.living.settle import Settler
from agentmem.memory.manager import MemoryManager
from agentmem.stores.base import Store
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import FaultyStore, HashEmbedder, ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PORTS = ("The staging server runs on port 8080.", "The staging server runs on port 9090.")
SAID = (
    "Morning! The staging server runs on port 8080. Can you look at the logs?",
    "Thanks a lot. The staging server runs on port 9090. See you!",
)


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    store = (
        SqliteStore(":memory:") if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    )
    with MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock(NOW)) as made:
        yield made


def found(memory: MemoryManager) -> list[tuple[str, str]]:
    assert memory.flush(30)
    return [(one.a.text, one.b.text) for one in memory.living.contradictions(user_id="ann")]


def say(memory: MemoryManager, text: str, role: str = "user", name: str = "") -> None:
    message = {"role": role, "content": text} | ({"name": name} if name else {})
    memory.add(message, user_id="ann")
    memory.clock.advance(60)  # type: ignore[attr-defined]  # a clock that is set by hand


def test_what_two_messages_state_is_compared(memory: MemoryManager) -> None:
    for text in SAID:
        say(memory, text)
    assert found(memory) == [SAID]
    (one,) = memory.living.contradictions(user_id="ann")
    assert (one.a_value, one.b_value) == ("8080", "9090")


def test_a_message_is_compared_with_a_fact(memory: MemoryManager) -> None:
    memory.add(PORTS[0], user_id="ann")
    say(memory, SAID[1])
    assert found(memory) == [(PORTS[0], SAID[1])]


def test_a_turn_is_compared_with_what_was_said_before(memory: MemoryManager) -> None:
    for text in SAID:
        with memory.turn(
            [{"role": "user", "content": text}], config=LoopConfig(), user_id="ann"
        ) as turn:
            turn.done("Noted.")
        assert memory.flush(30)
        memory.clock.advance(3_600)  # type: ignore[attr-defined]  # a clock that is set by hand
    assert found(memory) == [SAID]


def test_small_talk_the_assistant_and_other_people_contradict_nobody(
    memory: MemoryManager,
) -> None:
    say(memory, "Thanks, Gina! Your support means so much.")
    say(memory, "I won't give up, Gina! I'll keep pushing.")
    say(memory, SAID[0])
    say(memory, PORTS[1], role="assistant")
    say(memory, PORTS[1], name="Bob")
    assert found(memory) == []


def test_a_change_told_in_a_message_is_no_contradiction_of_a_message(
    memory: MemoryManager,
) -> None:
    say(memory, "We use Postgres 15.")
    say(memory, "We moved to MySQL 8.")
    assert found(memory) == []


def test_what_was_learned_speaks_for_the_message_it_is_from(memory: MemoryManager) -> None:
    for text in PORTS:
        say(memory, text)
        memory.living.learn({"role": "user", "content": text}, user_id="ann")
    say(memory, "Lunch?")
    assert found(memory) == []
    assert [m.text for m in memory.get_all(user_id="ann", kinds=["fact"])] == [PORTS[1]]


def test_what_goes_while_it_is_compared_is_compared_again_without_a_warning(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = "The staging server runs on port 7070."
    first, *_ = memory.add(PORTS[0], user_id="ann").ids
    gone: list[str] = []

    def delete_first(*given: Any, **more: Any) -> Any:
        if not gone:
            gone.append(first)
            memory.erase(first, user_id="ann")
        return revision_of(*given, **more)

    monkeypatch.setattr("agentmem.living.settle.revision_of", delete_first)
    for text in (PORTS[1], kept):
        memory.add(text, user_id="ann")
    assert found(memory) == [(PORTS[1], kept)]
    assert gone == [first]
    assert not [one for one in caplog.records if one.levelname == "WARNING"]


def test_preferences_are_compared_too(memory: MemoryManager) -> None:
    for text in ("I prefer tabs.", "I prefer spaces."):
        memory.add(text, kind="preference", user_id="ann")
    assert len(found(memory)) == 1


def imported(memory: MemoryManager, folder: Path) -> None:
    path = folder / "export.json"
    path.write_text(json.dumps([{"id": "1", "memory": PORTS[1]}]), encoding="utf-8")
    memory.upkeep.import_from(path, "mem0", user_id="ann")


def updated(memory: MemoryManager, folder: Path) -> None:
    (item,) = memory.add("The staging server is slow.", user_id="ann").items
    memory.flush(30)
    memory.update(item.id, PORTS[1], user_id="ann")


def superseded(memory: MemoryManager, folder: Path) -> None:
    (item,) = memory.add("The staging server is slow.", user_id="ann").items
    memory.flush(30)
    memory.living.supersede(item.id, PORTS[1], user_id="ann")


def taken_in(memory: MemoryManager, folder: Path) -> None:
    path = folder / "export.jsonl"
    with MemoryManager(SqliteStore(":memory:"), embedder=None, clock=ManualClock(NOW)) as other:
        other.add(PORTS[1], user_id="ann")
        other.upkeep.export_jsonl(path)
    memory.upkeep.import_jsonl(path, user_id="ann")


@pytest.mark.parametrize("come", [imported, updated, superseded, taken_in])
def test_every_way_in_is_watched(
    memory: MemoryManager, tmp_path: Path, come: Callable[[MemoryManager, Path], None]
) -> None:
    memory.add(PORTS[0], user_id="ann")
    assert found(memory) == []
    come(memory, tmp_path)
    assert [tuple(sorted(pair)) for pair in found(memory)] == [PORTS]


def test_what_others_add_meanwhile_hides_nothing(memory: MemoryManager) -> None:
    memory.settings = replace(memory.settings, judge_new=False)
    for text in PORTS:
        memory.add(text, user_id="ann")
    memory.add([{"role": "user", "content": f"Row {n}."} for n in range(300)], user_id="bob")
    assert found(memory) == []
    Settler(memory).judge_new(Scope(user_id="ann"))
    assert found(memory) == [PORTS]


SHARED: Any = {"project_id": "p", "visibility": "project"}


def test_what_two_people_share_with_a_project_is_compared(memory: MemoryManager) -> None:
    memory.add(PORTS[0], user_id="ann", **SHARED)
    memory.add(PORTS[1], user_id="bob", **SHARED)
    assert memory.flush(30)
    for user in ("ann", "bob", "cy"):
        (one,) = memory.living.contradictions(user_id=user, project_id="p")
        assert (one.a.text, one.b.text) == PORTS
    assert memory.living.contradictions(user_id="ann", project_id="q") == ()
    resolved = memory.living.resolve(one.id, "b_wins", user_id="cy", project_id="p")
    assert [m.text for m in memory.get_all(user_id="ann", project_id="p")] == [PORTS[1]]
    memory.living.undo(resolved.journal_id, user_id="cy", project_id="p")


def test_consolidation_compares_what_is_shared_and_merges_nobody_elses(
    memory: MemoryManager,
) -> None:
    memory.settings = replace(memory.settings, judge_new=False)
    memory.add(PORTS[0], user_id="ann", **SHARED)
    memory.add(PORTS[1], user_id="bob", **SHARED)
    memory.add(PORTS[1], user_id="cy", **SHARED)
    memory.add(PORTS[1], user_id="ann", project_id="p")  # her own affair
    report = memory.living.consolidate(user_id="bob", project_id="p")
    assert (report.contradictions, report.deduped) == (2, 0)
    assert len(memory.living.contradictions(user_id="ann", project_id="p")) == 2


def test_a_change_that_somebody_else_tells_is_for_people_to_settle(memory: MemoryManager) -> None:
    memory.add("We use Postgres for the ledger.", user_id="ann", **SHARED)
    memory.add("We moved from Postgres to MySQL for the ledger.", user_id="bob", **SHARED)
    assert memory.flush(30)
    assert len(memory.living.contradictions(user_id="ann", project_id="p")) == 1
    assert len(memory.get_all(user_id="ann", project_id="p")) == 2


def test_two_events_of_two_days_are_two_events(memory: MemoryManager) -> None:
    for text in ("The nightly deploy took 30 minutes.", "The nightly deploy took 45 minutes."):
        memory.add(Episode(title=text), user_id="ann")
        memory.clock.advance(3 * 86_400)  # type: ignore[attr-defined]  # a clock set by hand
    assert found(memory) == []
    memory.add(Episode(title="The nightly deploy took 50 minutes."), user_id="ann")
    memory.clock.advance(3_600)  # type: ignore[attr-defined]  # a clock set by hand
    memory.add(Episode(title="The nightly deploy took 20 minutes."), user_id="ann")
    assert len(found(memory)) == 1
    assert memory.living.consolidate(full=True, user_id="ann").contradictions == 0


def test_two_decisions_of_two_days_may_contradict(memory: MemoryManager) -> None:
    for text in ("We use Kafka for the events.", "We use RabbitMQ for the events."):
        memory.add(Episode(title=text, sort="decision"), user_id="ann")
        memory.clock.advance(3 * 86_400)  # type: ignore[attr-defined]  # a clock set by hand
    assert len(found(memory)) == 1


@pytest.mark.parametrize(
    ("first", "second", "days", "found_so_many"),
    [
        ("Lunch is at 12:30 today.", "Lunch is at 13:00 today.", 1, 0),
        ("Lunch is at 12:30 today.", "Lunch is at 13:00 today.", 0, 1),
        ("Standup is at 9:30.", "Standup is at 10:00 tomorrow.", 3, 0),
        ("This week's budget is 300 euros.", "This week's budget is 500 euros.", 7, 0),
        ("Standup is at 9:30.", "Standup is at 10:00.", 3, 1),
        ("Standup is at 9:30.", "Standup is at 10:00 from tomorrow on.", 3, 1),
    ],
)
def test_what_holds_for_a_day_contradicts_nothing_of_another_day(
    memory: MemoryManager, first: str, second: str, days: int, found_so_many: int
) -> None:
    memory.add(first, user_id="ann")
    memory.clock.advance(days * 86_400)  # type: ignore[attr-defined]  # a clock set by hand
    memory.add(second, user_id="ann")
    assert len(found(memory)) == found_so_many


def test_a_preference_is_not_compared_with_the_message_it_may_be_from(
    memory: MemoryManager,
) -> None:
    memory.add("My favourite colour is blue", kind="preference", user_id="ann")
    message = {"role": "user", "content": "My favourite colour is green."}
    memory.add([message], listen=False, user_id="ann")  # heard, it would replace the blue
    assert found(memory) == []
    memory.add("My favourite colour is red", kind="preference", user_id="ann")
    assert len(found(memory)) == 1


def test_what_is_learned_is_compared_with_what_was_added(memory: MemoryManager) -> None:
    limits = ("The API limit is 100 requests a minute.", "The API limit is 250 requests a minute.")
    memory.add(limits[0], user_id="ann")
    assert found(memory) == []
    memory.living.learn(limits[1], user_id="ann", dry_run=True)
    assert found(memory) == []
    memory.living.learn(limits[1], user_id="ann")
    assert [tuple(sorted(pair)) for pair in found(memory)] == [limits]


def test_judging_looks_at_no_links_but_those_of_what_it_judges() -> None:
    """At a hundred thousand rows, reading every user's took 56 ms for each new memory."""
    store = FaultyStore(
        SqliteStore(":memory:"),
        lambda path: OSError("all of them") if path.endswith(".all") else None,
    )
    with MemoryManager(cast(Store, store), embedder=HashEmbedder(), clock=ManualClock(NOW)) as made:
        made.add(PORTS[0], user_id="ann")
        made.add(PORTS[1], user_id="ann")
        assert made.flush(30)
        assert store.failed == []
        ids = [one.id for one in made.get_all(user_id="ann")]
        assert len(made.store.contradictions.among(Scope(user_id="ann"), ids)) == 1
        Settler(made).judge(Scope(user_id="ann"), made.get_all(user_id="ann"))
        assert len(made.store.contradictions.among(Scope(user_id="ann"), ids)) == 1
