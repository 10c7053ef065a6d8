"""Consolidation, its journal and undo, forgetting, cold memories, levels that are served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentmem.base.config import MemorySettings
from agentmem.base.errors import AlreadyUndone, ChangedMeanwhile, InvalidInput, RecordNotFound
from agentmem.base.types import Scope, served_text
from agentmem.living.consolidate import Nightly, run_nightly, seconds_until
from agentmem.living.models import Spend
from agentmem.living.plans import ConsolidationSettings
from agentmem.memory.manager import MemoryManager
from agentmem.stores.journal import Revision
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Scope(user_id="ann")
DAY = 86_400
STORY = (
    "Gustavo painted zebra stripes on the old warehouse wall in Porto. It was really a very long "
    "afternoon for everybody who was there. Then they all simply went home again."
)


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    store = (
        SqliteStore(":memory:") if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    )
    with MemoryManager(
        store,
        embedder=HashEmbedder(),
        clock=ManualClock(NOW),
        settings=MemorySettings(judge_new=False, save_indexes=False),
        path=None if request.param == "memory" else tmp_path / "store.db",
    ) as made:
        yield made


def say(memory: MemoryManager, *texts: str, **options: Any) -> list[str]:
    """Remember messages of Ann's; their ids."""
    messages = [{"role": "user", "content": text} for text in texts]
    return [item.id for item in memory.add(messages, user_id="ann", **options, listen=False).items]


def wait(memory: MemoryManager, days: float) -> None:
    clock = memory.clock
    assert isinstance(clock, ManualClock)
    clock.advance(days * DAY)


def use(memory: MemoryManager, memory_id: str) -> None:
    memory.store.record_usage(ANN, [memory_id], at=memory.clock.now(), retrieved=1, cited=1)


def test_many_copies_of_one_text_become_one_in_a_single_run(memory: MemoryManager) -> None:
    for number in range(40):
        wait(memory, 0.001)
        memory.add([{"role": "user", "content": STORY}], session=f"s{number}",
                            user_id="ann", listen=False)  # fmt: skip
    report = memory.living.consolidate(user_id="ann")
    assert report.deduped == 39
    (left,) = memory.get_all(user_id="ann")
    assert len(left.metadata["merged_from"]) == 39
    assert all(memory.get(i, user_id="ann").superseded_by for i in left.metadata["merged_from"])


def test_a_forgotten_memory_is_found_by_its_id_alone_and_can_be_brought_back(
    memory: MemoryManager,
) -> None:
    used, chatter = say(memory, STORY, "Hey, see you at the lighthouse!")
    use(memory, used)
    wait(memory, 100)
    report = memory.living.consolidate(user_id="ann")
    assert report.forgotten == 1
    assert [hit.memory.id for hit in memory.search("lighthouse", user_id="ann")] == []
    assert [one.id for one in memory.get_all(user_id="ann")] == [used]
    listed = memory.get_all(user_id="ann", forgotten=True)
    assert {one.id for one in listed} == {used, chatter}
    assert memory.get(chatter, user_id="ann").metadata["forgotten_because"] == "unused"
    entry = memory.living.bring_back(chatter, user_id="ann")
    assert memory.search("lighthouse", user_id="ann")[0].memory.id == chatter
    memory.living.undo(entry.id, user_id="ann")
    assert len(memory.search("lighthouse", user_id="ann")) == 0


def test_nothing_is_unused_where_use_is_never_counted(memory: MemoryManager) -> None:
    say(memory, "Hey, see you at the lighthouse!")
    wait(memory, 400)
    report = memory.living.consolidate(user_id="ann")
    assert report.forgotten == 0
    assert "never counted" in report.notes[0]


def test_undo_leaves_what_somebody_changed_since(memory: MemoryManager) -> None:
    (told,) = say(memory, STORY)
    wait(memory, 40)
    report = memory.living.consolidate(user_id="ann")
    assert report.compressed == 1
    memory.store.record_usage(ANN, [told], at=memory.clock.now(), retrieved=3)
    memory.update(told, "Something else altogether, which is new.", user_id="ann")
    undone = memory.living.undo(report.journal_id, user_id="ann")
    now = memory.get(told, user_id="ann")
    assert now.text == "Something else altogether, which is new."
    assert now.usage.retrieved == 3
    assert {left.split()[1] for left in undone.left} == {"summary", "compressed", "index"}
    with pytest.raises(AlreadyUndone):
        memory.living.undo(report.journal_id, user_id="ann")


def test_use_counted_after_a_merge_stays_when_it_is_undone(memory: MemoryManager) -> None:
    first, second = (
        memory.add([{"role": "user", "content": STORY}], session=s, user_id="ann", listen=False)
        .items[0].id
        for s in ("a", "b")
    )  # fmt: skip
    use(memory, first)
    use(memory, second)
    report = memory.living.consolidate(user_id="ann")
    (kept,) = memory.get_all(user_id="ann")
    assert kept.usage.cited == 2
    use(memory, kept.id)
    memory.living.undo(report.journal_id, user_id="ann")
    counts = {i: memory.get(i, user_id="ann").usage.cited for i in (first, second)}
    assert sorted(counts.values()) == [1, 2]
    assert counts[kept.id] == 2


def test_nobody_undoes_somebody_elses_run(memory: MemoryManager) -> None:
    say(memory, STORY)
    wait(memory, 40)
    report = memory.living.consolidate(user_id="ann")
    others: list[dict[str, Any]] = [{}, {"user_id": "bob"}]
    for whose in others:
        with pytest.raises(RecordNotFound):
            memory.living.undo(report.journal_id, **whose)
        assert memory.living.journal(**whose) == ()
    with pytest.raises(RecordNotFound):
        memory.living.undo("no such run", user_id="ann")
    (run,) = memory.living.journal(user_id="ann")
    assert run.report["compressed"] == 1


def test_a_plan_for_what_has_changed_writes_nothing(memory: MemoryManager) -> None:
    one, two = say(memory, STORY, "Another story.")
    before = [memory.get(i, user_id="ann") for i in (one, two)]
    after = [replace(m, importance=0.9) for m in before]
    memory.update(two, importance=0.1, user_id="ann")
    revision = Revision(id="r", kind="test", before=tuple(before), after=tuple(after))
    with pytest.raises(ChangedMeanwhile, match=two):
        memory.store.journal.apply(ANN, revision, at=NOW)
    assert memory.get(one, user_id="ann").importance == 0.5
    with pytest.raises(RecordNotFound):
        memory.store.journal.get(ANN, "r")
    with pytest.raises(InvalidInput, match="cannot change"):
        memory.store.journal.apply(
            ANN, replace(revision, after=tuple(replace(m, text="x") for m in before)), at=NOW
        )


def test_an_erased_memory_is_in_no_journal(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    secret = "The passphrase of Zanzibar is quetzalcoatl and nobody else must know about it."
    with MemoryManager(SqliteStore(path), clock=ManualClock(NOW), path=path) as memory:
        told, other = say(memory, f"{secret} We were all quite happy. It was a nice day.", STORY)
        wait(memory, 40)
        first = memory.living.consolidate(user_id="ann")
        settings = ConsolidationSettings(compress_after=timedelta(0))
        memory.living.bring_back([told], user_id="ann")
        memory.store.journal.apply(
            ANN,
            Revision(
                id="back",
                kind="test",
                before=(memory.get(told, user_id="ann"),),
                after=(replace(memory.get(told, user_id="ann"), summary=None, compressed=None),),
            ),
            at=NOW,
        )
        assert b"quetzalcoatl" in path.read_bytes() + _log(path)
        memory.erase(told, user_id="ann")
        assert b"quetzalcoatl" not in path.read_bytes() + _log(path)
        memory.living.undo(first.journal_id, user_id="ann")
        assert memory.get(other, user_id="ann").compressed is None
        assert memory.upkeep.verify().ok
        assert settings.compress_after == timedelta(0)


def _log(path: Path) -> bytes:
    log = path.with_name(path.name + "-wal")
    return log.read_bytes() if log.exists() else b""


def test_erasing_a_survivor_erases_its_duplicates(memory: MemoryManager) -> None:
    for session in ("a", "b", "c"):
        memory.add(
            [{"role": "user", "content": STORY}], session=session, user_id="ann", listen=False
        )
    memory.living.consolidate(user_id="ann")
    (kept,) = memory.get_all(user_id="ann")
    receipt = memory.erase(kept.id, user_id="ann")
    assert len(receipt.ids) == 3
    assert memory.get_all(user_id="ann", superseded=True, forgotten=True) == ()


def test_a_run_can_be_undone_after_the_store_was_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    clock = ManualClock(NOW)
    with MemoryManager(SqliteStore(path), clock=clock, path=path) as memory:
        (told,) = say(memory, STORY)
        clock.advance(40 * DAY)
        report = memory.living.consolidate(user_id="ann")
    with MemoryManager(SqliteStore(path), clock=clock, path=path) as memory:
        assert memory.get(told, user_id="ann").compressed
        assert memory.living.undo(report.journal_id, user_id="ann").restored == 1
        assert memory.get(told, user_id="ann").compressed is None


def test_what_was_put_away_leaves_the_hot_search_and_is_still_reached(
    memory: MemoryManager,
) -> None:
    (told,) = say(memory, STORY)
    (used,) = say(memory, "The beach was warm and the water cold, and Marta swam to the buoy.")
    use(memory, used)
    wait(memory, 200)
    settings = ConsolidationSettings(hot_memories=1)
    report = memory.living.consolidate(settings=settings, user_id="ann")
    assert report.cooled == 1
    assert memory.store.feed.cold_count() == 1
    assert memory.upkeep.verify().ok
    asked: dict[str, Any] = {"user_id": "ann"}
    assert [h.memory.id for h in memory.search("zebra stripes", cold=False, **asked)] == []
    for cold in (None, True):
        (hit,) = memory.search("zebra stripes", top_k=1, cold=cold, **asked)
        assert hit.memory.text == STORY
    assert memory.get(told, user_id="ann").text == STORY
    found = memory.get_all(filters={"text": {"contains": "zebra"}}, **asked)
    assert [one.id for one in found] == [told]
    memory.living.undo(report.journal_id, user_id="ann")
    assert memory.store.feed.cold_count() == 0
    assert memory.search("zebra stripes", cold=False, **asked)[0].memory.text == STORY
    assert memory.upkeep.verify().ok


def test_a_name_that_is_only_in_what_was_put_away_is_looked_for_there(
    memory: MemoryManager,
) -> None:
    trips = [f"On the trip to Cabo{n} the lighthouse was painted white and red." for n in range(8)]
    (first, *_, last) = [say(memory, trip)[0] for trip in trips]
    for _ in range(2):
        use(memory, last)
    wait(memory, 200)
    report = memory.living.consolidate(
        settings=ConsolidationSettings(hot_memories=4), user_id="ann"
    )
    assert report.cooled == 4
    asked: dict[str, Any] = {"user_id": "ann", "top_k": 1}
    for name, cold, wanted in (("Cabo7", None, last), ("Cabo0", None, first), ("Cabo0", False, "")):
        found = memory.search(
            f"How was the white lighthouse painted at {name}?", cold=cold, **asked
        )
        assert ([hit.memory.id for hit in found] == [wanted]) is bool(wanted)


def test_contexts_show_the_level_that_was_made(memory: MemoryManager) -> None:
    (told,) = say(memory, STORY)
    fact = memory.add("Deploys go out on Thursdays.", user_id="ann").items[0].id
    wait(memory, 40)
    memory.living.consolidate(user_id="ann")
    one = memory.get(told, user_id="ann")
    assert one.compressed is not None
    assert served_text(one) == one.compressed
    assert len(served_text(one)) < len(STORY)
    stated = memory.get(fact, user_id="ann")
    assert served_text(stated) == stated.text
    messages = [{"role": "user", "content": "What did Gustavo paint on the wall?"}]
    turn = memory.turn(messages, user_id="ann", dry=True)
    assert "Gustavo painted zebra stripes" in turn.block_text
    assert "simply went home again" not in turn.block_text


def test_a_model_writes_shorter_summaries_within_its_limit(memory: MemoryManager) -> None:
    short = "Gustavo painted zebra stripes on the old warehouse wall in Porto."
    ids = say(memory, STORY, STORY.replace("Porto", "Lisbon"))
    wait(memory, 8)
    model = ScriptedModel(short)
    report = memory.living.consolidate(model=model, spend=Spend(calls=1), full=True, user_id="ann")
    assert report.model_calls == len(model.requests) == 1
    assert report.model_tokens > 0
    assert "spend limit" in report.notes[-1]
    summaries = [memory.get(i, user_id="ann").summary for i in ids]
    assert summaries.count(short) <= 1
    memory.living.undo(report.journal_id, user_id="ann")
    lying = ScriptedModel("Gustavo painted 7 elephants in Madrid.")
    memory.living.consolidate(model=lying, full=True, user_id="ann")
    assert all("elephants" not in (memory.get(i, user_id="ann").summary or "") for i in ids)


def test_a_model_that_fails_changes_nothing_but_the_notes(memory: MemoryManager) -> None:
    say(memory, STORY)
    wait(memory, 40)
    predicted = memory.living.consolidate(dry_run=True, user_id="ann")
    broken = ScriptedModel(RuntimeError("no network"))
    report = memory.living.consolidate(model=broken, user_id="ann")
    assert report.operations == predicted.operations
    assert "no network" in report.notes[-1]


def test_verdicts_of_a_model_are_kept(memory: MemoryManager) -> None:
    memory.add("The kitchen wall of our office is painted blue today.", user_id="ann")
    memory.add("The kitchen wall of our office is painted in blue today.", user_id="ann")
    settings = ConsolidationSettings(merge_similarity=1.0)
    model = ScriptedModel("yes")
    report = memory.living.consolidate(model=model, settings=settings, user_id="ann")
    asked = len(model.requests)
    assert report.contradictions == 1
    assert model.requests[0]["response_format"]["json_schema"]["name"] == "verdict"
    memory.living.undo(report.journal_id, user_id="ann")
    again = memory.living.consolidate(model=model, settings=settings, full=True, user_id="ann")
    assert again.contradictions == 1
    assert len(model.requests) == asked


def test_bad_settings_are_refused(memory: MemoryManager) -> None:
    with pytest.raises(InvalidInput, match="settings"):
        memory.living.consolidate(settings={"merge": 1}, user_id="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        memory.living.consolidate(model=7, user_id="ann")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput):
        memory.living.consolidate(nobody="x")  # type: ignore[call-arg]  # on purpose
    with pytest.raises(InvalidInput):
        Spend(calls=-1)


def test_the_night_consolidates_everybody(memory: MemoryManager) -> None:
    say(memory, STORY)
    memory.add([{"role": "user", "content": STORY}], user_id="bob", listen=False)
    wait(memory, 40)
    assert run_nightly(memory) == 2
    assert all(len(memory.living.journal(user_id=who)) == 1 for who in ("ann", "bob"))
    assert run_nightly(memory, limit_seconds=-1) == 0
    memory.runtime.worker.submit("consolidate", {}, key="consolidate")
    assert memory.flush(30)
    assert memory.runtime.worker.state.failed == 0


def test_one_owner_who_fails_keeps_nobody_from_the_night(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in ("ann", "bob", "cy"):
        memory.add([{"role": "user", "content": STORY}], user_id=who, listen=False)
    wait(memory, 40)
    apply = memory.store.journal.apply

    def broken(scope: Scope, *given: Any, **options: Any) -> Any:
        if scope.user_id == "ann":
            raise ChangedMeanwhile("somebody writes all the time")
        return apply(scope, *given, **options)

    monkeypatch.setattr(memory.store.journal, "apply", broken)
    assert run_nightly(memory) == 2
    assert [len(memory.living.journal(user_id=who)) for who in ("ann", "bob", "cy")] == [0, 1, 1]


def test_the_schedule_waits_for_the_hour_and_can_be_closed(memory: MemoryManager) -> None:
    local = datetime(2026, 1, 1, 2, 0).astimezone()
    assert seconds_until(local, 3) == 3_600
    assert seconds_until(local, 2) == DAY
    nightly = Nightly(memory)
    nightly.start()
    nightly.start()
    nightly.close()
    nightly.start()  # after closing, nothing starts again


def test_what_everybody_sees_is_only_consolidated_by_its_owner(memory: MemoryManager) -> None:
    memory.add(
        [{"role": "user", "content": STORY}], visibility="system", user_id="operator", listen=False
    )
    wait(memory, 40)
    assert memory.living.consolidate(user_id="ann").empty
    assert memory.living.consolidate(user_id="operator").compressed == 1


def test_an_empty_memory_stays_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with MemoryManager(SqliteStore(path), clock=ManualClock(NOW), path=path) as memory:
        assert memory.living.consolidate().empty
        assert memory.living.consolidate(dry_run=True).empty
        assert memory.living.contradictions() == ()
        assert memory.living.journal() == ()
        assert memory.living.history_of("anything") == ()
    assert not path.exists()


def test_a_run_goes_on_when_somebody_writes_meanwhile(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    (told,) = say(memory, STORY)
    wait(memory, 40)
    journal = memory.store.journal
    real = journal.apply
    calls: list[int] = []

    def apply(scope: Scope, revision: Revision, *, at: datetime) -> Any:
        calls.append(1)
        if len(calls) == 1:
            memory.update(told, "Another text, which Gustavo wrote on the way home to Porto. It "
                          "was really very long and nobody read it.", user_id="ann")  # fmt: skip
            raise ChangedMeanwhile(told)
        return real(scope, revision, at=at)

    monkeypatch.setattr(journal, "apply", apply)
    report = memory.living.consolidate(user_id="ann")
    assert len(calls) == 2
    assert report.journal_id
    assert "zebra" not in (memory.get(told, user_id="ann").compressed or "")
