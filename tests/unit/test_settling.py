"""Contradictions, learning and merging, on both stores."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.base.config import LearnConfig, LoopConfig
from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.types import Memory, Scope
from agentmem.living.settle import Settler
from agentmem.memory.manager import MemoryManager
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import LEARNED_FROM
from agentmem.testing import HashEmbedder, ManualClock
from tests.unit.cli_running import Cli

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Scope(user_id="ann")
LIMITS = ("The API limit is 900 requests per minute.", "The API limit is 600 requests per minute.")


def opened(path: Path | None, **options: Any) -> MemoryManager:
    store = SqliteStore(":memory:") if path is None else SqliteStore(path)
    return MemoryManager(
        store, embedder=HashEmbedder(), clock=ManualClock(NOW), path=path, **options
    )


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    with opened(None if request.param == "memory" else tmp_path / "store.db") as made:
        yield made


def contradict(memory: MemoryManager) -> str:
    for text in LIMITS:
        memory.add(text, user_id="ann")
    assert memory.flush(30)
    (found,) = memory.living.contradictions(user_id="ann")
    return found.id


def test_a_new_fact_is_compared_with_what_is_known(memory: MemoryManager) -> None:
    found = memory.living.contradiction(contradict(memory), user_id="ann")
    assert found.open
    assert (found.a.text, found.b.text) == LIMITS
    assert (found.a_value, found.b_value) == ("900 requests per minute", "600 requests per minute")
    assert found.reason == "number"
    assert memory.living.contradictions() == ()
    assert memory.living.contradictions(user_id="bob") == ()
    memory.add("Deploys go out on Thursdays.", user_id="ann")
    memory.add(LIMITS[0], user_id="bob")
    assert memory.flush(30)
    assert len(memory.living.contradictions(user_id="ann")) == 1
    assert memory.living.contradictions(user_id="bob") == ()


def test_what_was_judged_is_not_judged_again_by_the_next_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def note(self: Settler, scope: Scope, new: Sequence[Memory]) -> Any:
        judged.extend(one.text for one in new)
        return plain(self, scope, new)

    plain = Settler.judge
    monkeypatch.setattr(Settler, "judge", note)
    for text in LIMITS:
        with opened(tmp_path / "store.db") as memory:
            for number in range(3):
                memory.add(f"{text} Note {number}.", user_id="ann")
                assert memory.flush(30)
    assert judged == [f"{text} Note {number}." for text in LIMITS for number in range(3)]


@pytest.mark.parametrize(
    ("how", "left"),
    [("a_wins", LIMITS[:1]), ("b_wins", LIMITS[1:]), ("both_valid", LIMITS)],
)
def test_a_contradiction_is_resolved_and_the_resolution_undone(
    memory: MemoryManager, how: Any, left: tuple[str, ...]
) -> None:
    name = contradict(memory)
    done = memory.living.resolve(name[:6], how, note="asked Eva", user_id="ann")
    assert done.contradiction.state == how
    assert done.contradiction.note == "asked Eva"
    assert done.contradiction.resolved_at == NOW
    assert sorted(m.text for m in memory.get_all(user_id="ann")) == sorted(left)
    assert memory.living.contradictions(user_id="ann") == ()
    assert len(memory.living.contradictions(open_only=False, user_id="ann")) == 1
    assert memory.living.consolidate(full=True, user_id="ann").contradictions == 0
    with pytest.raises(InvalidInput, match="resolved already"):
        memory.living.resolve(name, "a_wins", user_id="ann")
    memory.living.undo(done.journal_id, user_id="ann")
    assert len(memory.get_all(user_id="ann")) == 2
    assert memory.living.contradiction(name, user_id="ann").open


def test_merged_keeps_the_metadata_of_both(memory: MemoryManager) -> None:
    memory.add(LIMITS[0], metadata={"tags": ["x"]}, user_id="ann")
    memory.add(LIMITS[1], metadata={"tags": ["y"]}, user_id="ann")
    assert memory.flush(30)
    (found,) = memory.living.contradictions(user_id="ann")
    memory.living.resolve(found.id, "merged", user_id="ann")
    (left,) = memory.get_all(user_id="ann")
    assert sorted(left.metadata["tags"]) == ["x", "y"]


def test_what_cannot_be_resolved_is_refused(memory: MemoryManager) -> None:
    name = contradict(memory)
    with pytest.raises(InvalidInput, match="known choice"):
        memory.living.resolve(name, "maybe", user_id="ann")  # type: ignore[arg-type]
    for given, whose in ((name, {"user_id": "bob"}), ("c0ffee", {"user_id": "ann"}), ("", {})):
        with pytest.raises(RecordNotFound):
            memory.living.resolve(given, "a_wins", **whose)


def test_facts_are_learned_from_the_user_alone(memory: MemoryManager) -> None:
    said = [
        {"role": "user", "content": "We use Postgres 15 for everything."},
        {"role": "assistant", "content": "The API limit is 900 requests."},
        {"role": "tool", "content": "The upload limit is 3 MB.", "tool_call_id": "t"},
    ]
    memory.add(said[:1], user_id="ann")
    learned = memory.living.learn(said, user_id="ann")
    (fact,) = learned.added
    assert fact.kind == "fact"
    assert fact.origin == "user"
    assert fact.metadata["record"]["value"].startswith("Postgres 15")
    assert 0 < fact.metadata["confidence"] <= 1
    (link,) = memory.store.links.of(ANN, fact.id)
    assert link.relation == LEARNED_FROM
    again = memory.living.learn(said, user_id="ann")
    assert (len(again), again.known) == (0, 1)
    memory.erase(link.second_id, user_id="ann")
    with pytest.raises(RecordNotFound):
        memory.get(fact.id, user_id="ann")


def test_a_later_value_takes_the_place_of_the_earlier_one(memory: MemoryManager) -> None:
    clock = memory.clock
    assert isinstance(clock, ManualClock)
    memory.living.learn("The API limit is 900 requests.", user_id="ann")
    clock.advance(86_400)
    later = memory.living.learn("The API limit is 600 requests.", user_id="ann")
    assert len(later.superseded) == 1
    texts = [m.text for m in memory.get_all(user_id="ann")]
    assert texts == ["The API limit is 600 requests."]
    before = memory.get_all(as_of=NOW + timedelta(hours=1), user_id="ann")
    assert [m.text for m in before] == ["The API limit is 900 requests."]
    (held,) = memory.living.history_of("limit of the API", as_of=NOW, user_id="ann")
    assert held.text == "The API limit is 900 requests."
    assert len(memory.living.history_of("API limit", user_id="ann")) == 2
    assert memory.living.history_of("nothing", user_id="ann") == ()
    assert memory.living.history_of("API limit", user_id="bob") == ()


def test_decisions_and_fixes_are_kept_as_episodes(memory: MemoryManager) -> None:
    learned = memory.living.learn(
        "We decided to use Kafka because it scales. "
        "The build failed with a missing header; fixed it by installing libpq-dev.",
        user_id="ann",
    )
    records = [m.metadata["record"] for m in learned.added if m.kind == "episode"]
    assert [record["sort"] for record in records] == ["decision", "error"]
    assert records[0]["reason"] == "it scales"
    assert records[1]["fix"] == "installing libpq-dev"


@pytest.mark.parametrize("data", [None, 3, b"x", {"role": "user"}, [None], "", "\x00"])
def test_nothing_is_learned_from_nothing(memory: MemoryManager, data: Any) -> None:
    with contextlib.suppress(InvalidInput):
        assert len(memory.living.learn(data, user_id="ann")) == 0


def test_the_loop_learns_when_it_is_told_to(memory: MemoryManager) -> None:
    messages = [{"role": "user", "content": "Deploys go out on Thursdays."}]
    for config, count in ((LoopConfig(), 0), (LoopConfig(learn=LearnConfig(facts=True)), 1)):
        with memory.turn(messages, user_id="ann", config=config) as turn:
            turn.done("Noted.")
        assert memory.flush(30)
        assert len(memory.get_all(kinds=["fact"], user_id="ann")) == count


def test_cited_together_is_counted_and_becomes_a_link(memory: MemoryManager) -> None:
    ids = [memory.add(t, user_id="ann").items[0].id for t in ("Tea is hot.", "Ice is cold.")]
    for _ in range(2):
        memory.runtime.worker.submit("usage", {"cited": ids, "ignored": []}, scope=ANN)
        assert memory.flush(30)
    report = memory.living.consolidate(user_id="ann")
    assert report.links == 1
    related = [link for link in memory.store.links.all(ANN) if link.relation == "related"]
    assert json.loads(related[0].note)["reason"] == "co-citation"


def test_two_stores_become_one_and_nothing_is_lost(tmp_path: Path) -> None:
    with opened(tmp_path / "b.db") as b:
        b.add("Tea is served at four.", user_id="ann")
        b.add(LIMITS[1], user_id="ann")
        b.add("Bob's own.", user_id="bob")
        b.sources.add_document("Their page.", url="https://e.x/p", user_id="ann")
        new = b.add("Old value of theirs.", user_id="ann").items[0].id
        b.living.supersede(new, "New value of theirs.", user_id="ann")
        b.flush(30)
    with opened(tmp_path / "a.db") as a:
        a.add("Tea is served at four.", user_id="ann")
        a.add(LIMITS[0], user_id="ann")
        a.sources.add_document("Our page.", url="https://e.x/p", user_id="ann")
        a.flush(30)
        report = a.upkeep.merge_from(tmp_path / "b.db")
        assert (report.added, report.same) == (5, 1)
        assert {c.kind for c in report.conflicts} == {"page", "contradiction"}
        (said,) = [c.done for c in report.conflicts if c.kind == "contradiction"]
        assert said.startswith("contradicts ")
        assert "900 requests per minute" in said
        texts = {m.text for m in a.get_all(user_id="ann")}
        assert texts == {
            "Tea is served at four.", *LIMITS, "Our page.", "New value of theirs.",
        }  # fmt: skip
        assert len(a.living.contradictions(user_id="ann")) == 1
        assert [m.text for m in a.get_all(user_id="bob")] == ["Bob's own."]
        assert a.upkeep.verify().ok
        again = a.upkeep.merge_from(tmp_path / "b.db")
        assert (again.added, again.same) == (0, 6)
    with pytest.raises(InvalidInput, match="no store"), opened(None) as none:
        none.upkeep.merge_from(tmp_path / "nowhere.db")


def test_a_store_merged_with_its_own_copy_stays_the_same(tmp_path: Path) -> None:
    with opened(tmp_path / "a.db") as a:
        for text in LIMITS:
            a.add(text, user_id="ann")
        a.living.learn("We use Postgres 15.", user_id="ann")
        a.flush(30)
        a.upkeep.backup(tmp_path / "copy.db")
        before = a.get_all(user_id="ann", superseded=True)
        report = a.upkeep.merge_from(tmp_path / "copy.db")
        assert (report.added, report.renamed, report.conflicts) == (0, 0, ())
        assert a.get_all(user_id="ann", superseded=True) == before
        a.update(before[0].id, "Changed here since.", user_id="ann")
        report = a.upkeep.merge_from(tmp_path / "copy.db")
        assert (report.added, report.renamed) == (1, 1)
        assert "Changed here since." in {m.text for m in a.get_all(user_id="ann")}


def test_one_users_memories_are_given_to_another(memory: MemoryManager) -> None:
    memory.add("Tea is served at four.", user_id="ann")
    memory.add("Tea is served at four.", user_id="bob")
    memory.add("Bob likes chess.", user_id="bob")
    report = memory.upkeep.merge_from(user_id="bob", into="ann")
    assert (report.added, report.same) == (1, 1)
    texts = {m.text for m in memory.get_all(user_id="ann")}
    assert texts == {"Tea is served at four.", "Bob likes chess."}
    assert len(memory.get_all(user_id="bob")) == 2
    with pytest.raises(InvalidInput, match="same user"):
        memory.upkeep.merge_from(user_id="ann", into="ann")


def test_the_commands_do_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Cli(tmp_path / "s.db", monkeypatch)
    ann = ("--user", "ann")
    for text in LIMITS:
        run.add(text, *ann)
    found = run("contradictions", "list", "--json", *ann).json["contradictions"]
    assert [one["state"] for one in found] == ["open"]
    name = found[0]["id"]
    assert "900" in run("contradictions", "show", name, *ann).out
    assert name in run("contradictions", *ann).out
    done = run("contradictions", "resolve", name, "b-wins", "--note", "ok", "--json", *ann)
    assert done.json["state"] == "b_wins"
    undo = done.json["journal_id"]
    assert "and 1 relation are back" in run("consolidate", "--undo", undo[-12:], *ann).out
    planned = run("consolidate", "--dry-run", "--json", *ann).json
    assert planned["dry_run"] is True
    made = run("consolidate", "--json", *ann).json
    assert made["operations"] == planned["operations"]
    assert "consolidate" in run("consolidate", "--log", *ann).out
    assert "Nothing to do" in run("consolidate", "--everyone").out
    assert run("consolidate", "--undo", "nothing", *ann).code == 3
    assert [run("consolidate", "--undo", some, *ann).code for some in ("", " ", "a")] == [2, 2, 2]
    assert run("contradictions", "resolve", name, "perhaps", *ann).code == 2
    other = ("--store", str(tmp_path / "t.db"), *ann)
    run.add("Tea is served at four.", *other)
    merged = run("merge", str(tmp_path / "s.db"), str(tmp_path / "t.db"), "--json")
    assert merged.json["added"] == 1
    assert run("merge", "bob", "ann").out.startswith("Added: 3.")
    assert run("merge", "ann", "nobody").code == 2
    assert run("merge", str(tmp_path / "s.db"), "nobody").code == 2


def test_merged_takes_a_text_of_the_caller_s_in_the_place_of_both(memory: MemoryManager) -> None:
    for text in ("The retry limit is 3.", "The retry limit is 5."):
        memory.add(text, user_id="ann")
    assert memory.flush(30)
    (found,) = memory.living.contradictions(user_id="ann")
    both = "The retry limit is 3 in tests and 5 in production."
    done = memory.living.resolve(found.id, "merged", text=both, user_id="ann")
    assert [one.text for one in memory.get_all(user_id="ann")] == [both]
    assert done.contradiction.state == "merged"
    memory.living.undo(done.journal_id, user_id="ann")
    assert len(memory.get_all(user_id="ann")) == 2
    with pytest.raises(InvalidInput):
        memory.living.resolve(found.id, "a_wins", text=both, user_id="ann")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The deadline is Friday.", "The deadline was pushed to Monday."),
        ("The deadline is Friday.", "We pushed the deadline to Monday."),
        ("Our database is Postgres 14.", "Our database was upgraded to Postgres 16."),
        ("Ana lives in Berlin.", "Ana used to live in Berlin."),
        ("The retry limit is 3.", "That was a mistake, the retry limit is 5."),
        ("The retry limit is 3.", "That was a mistake. The retry limit is 5."),
    ],
)
def test_a_stated_change_takes_the_old_value_s_place(
    memory: MemoryManager, old: str, new: str
) -> None:
    for text in (old, new):
        memory.add(text, user_id="ann")
        memory.clock.advance(60)  # type: ignore[attr-defined]  # the clock of this test
    assert memory.flush(30)
    assert [one.text for one in memory.get_all(user_id="ann", kinds=["fact"])] == [new]
