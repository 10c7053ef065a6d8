"""What is learned from what was cited, kept in the store, used, and forgotten."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem import LoopConfig, RecallConfig
from agentmem.base.errors import InvalidInput
from agentmem.living.predict import Predictor, Signal, pack, read_signals, unpack
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder, ManualClock

ASK = [{"role": "user", "content": "What did we say about the ledger?"}]
LEDGER = [("file", "src/billing/ledger.py")]


def open_at(path: Path | str) -> MemoryManager:
    return agentmem.open(path, embedder=HashEmbedder(), clock=ManualClock())


def teach(memory: MemoryManager, text: str, signals: Any, **whose: Any) -> str:
    """Have an answer cite `text` while `signals` are on."""
    made = memory.add(text, **whose)
    turn = memory.turn(
        [{"role": "user", "content": f"Tell me: {text}"}],
        signals=signals, config=LoopConfig(recall=RecallConfig(top_k=1)), **whose,
    )  # fmt: skip
    turn.done("It is so [1].")
    assert memory.flush(10)
    return made.items[0].id


def predictors(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, value FROM settings").fetchall()
    connection.close()
    return {name: value for name, value in rows if str(name).startswith("predictor ")}


def test_what_was_cited_under_a_signal_is_predicted_when_it_comes_again(tmp_path: Path) -> None:
    with open_at(tmp_path / "m.db") as memory:
        ledger = teach(memory, "The ledger is append-only.", LEDGER, user_id="ana")
        auth = teach(memory, "Tokens last an hour.", [("file", "src/auth.py")], user_id="ana")
    with open_at(tmp_path / "m.db") as memory:
        found = memory.living.predict(LEDGER, user_id="ana")
        assert found[0].memory.id == ledger
        assert 0 < found[-1].confidence <= found[0].confidence <= 1
        assert any(name == "file:src/billing/ledger.py" for name in found[0].because)
        assert (
            memory.living.predict([("file", "src/auth.py")], limit=1, user_id="ana")[0].memory.id
            == auth
        )
        assert memory.living.predict(LEDGER, user_id="bob") == ()
        assert memory.living.predict(LEDGER, limit=0, user_id="ana") == ()


def test_predicted_memories_stand_in_the_second_tier() -> None:
    with open_at(":memory:") as memory:
        ledger = teach(memory, "The ledger is append-only.", LEDGER, user_id="ana")
        context = memory.living.assemble_context(signals=LEDGER, user_id="ana")
        (fate,) = [f for f in context.fates if f.id == ledger]
        assert fate.tier == 2
        assert fate.why.startswith("needed before in this situation")


def test_noted_signals_serve_later_turns_for_two_hours() -> None:
    with open_at(":memory:") as memory:
        memory.living.signal("file", "src/billing/ledger.py", user_id="ana")
        ledger = teach(memory, "The ledger is append-only.", (), user_id="ana")
        assert memory.living.predict(user_id="ana")[0].memory.id == ledger
        assert "file:src/billing/ledger.py" in memory.living.predict(user_id="ana")[0].because
        memory.clock.advance(3 * 3600)  # type: ignore[attr-defined]  # the manual clock
        assert "file:src/billing/ledger.py" not in memory.living.predict(user_id="ana")[0].because
        with pytest.raises(InvalidInput):
            memory.living.signal("weather", "rain")  # type: ignore[arg-type]  # the mistake


def test_without_signals_or_tiers_nothing_is_learned(tmp_path: Path) -> None:
    with open_at(tmp_path / "m.db") as memory:
        teach(memory, "The ledger is append-only.", (), user_id="ana")
    assert predictors(tmp_path / "m.db") == {}


def test_a_predictor_holds_no_words_and_forgets_what_is_erased(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with open_at(path) as memory:
        signals = [("error", "KeyError: zanzibar"), ("task", "count the okapis")]
        ledger = teach(memory, "The ledger is append-only.", signals, user_id="ana")
        auth = teach(memory, "Tokens last an hour.", signals, user_id="ana")
        memory.upkeep.sync()
        (kept,) = predictors(path).values()
        written = str(unpack(kept))
        assert ledger in written
        assert "zanzibar" not in written.lower()
        assert "okapi" not in written.lower()
        memory.erase(ledger, user_id="ana")
        assert all(p.memory.id != ledger for p in memory.living.predict(signals, user_id="ana"))
        (kept,) = predictors(path).values()
        assert ledger not in str(unpack(kept))
        assert auth in str(unpack(kept))
        memory.upkeep.erase_all(user_id="ana")
    assert predictors(path) == {}
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        for gone in (ledger, auth, kept, "zanzibar", "okapi"):
            assert gone.encode() not in data, file.name


def test_erasing_what_is_shared_takes_it_out_of_every_readers_predictor(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with open_at(path) as memory:
        shared = memory.add(
            "The ledger is append-only.", visibility="project", user_id="ana", project_id="shop"
        ).items[0].id  # fmt: skip
        for user in ("ana", "bob"):
            turn = memory.turn(
                [{"role": "user", "content": "Is the ledger append-only?"}],
                signals=LEDGER, user_id=user, project_id="shop",
            )  # fmt: skip
            turn.done("Yes [1].")
        assert memory.flush(10)
        assert (
            memory.living.predict(LEDGER, user_id="bob", project_id="shop")[0].memory.id == shared
        )
        memory.erase(shared, user_id="ana", project_id="shop")
        assert len(predictors(path)) == 2
        assert all(shared not in str(unpack(value)) for value in predictors(path).values())


def test_a_lesson_that_waits_is_not_learned_after_its_memory_is_erased(tmp_path: Path) -> None:
    with open_at(tmp_path / "m.db") as memory:
        ledger = teach(memory, "The ledger is append-only.", LEDGER, user_id="ana")
        memory.erase(ledger, user_id="ana")
        scope = agentmem.Scope(user_id="ana")
        memory.runtime.predictions.remember(("file:x",), [ledger], scope)
        assert memory.flush(10)
        assert memory.living.predict([("file", "x")], user_id="ana") == ()
        assert all(ledger not in str(unpack(v)) for v in predictors(tmp_path / "m.db").values())


def test_erasing_anothers_memory_changes_no_predictor(tmp_path: Path) -> None:
    with open_at(tmp_path / "m.db") as memory:
        ledger = teach(memory, "The ledger is append-only.", LEDGER, user_id="ana")
        with pytest.raises(agentmem.AgentMemError):
            memory.erase(ledger, user_id="bob")
        assert memory.living.predict(LEDGER, user_id="ana")[0].memory.id == ledger


def test_a_damaged_predictor_begins_anew(tmp_path: Path) -> None:
    with open_at(tmp_path / "m.db") as memory:
        teach(memory, "The ledger is append-only.", LEDGER, user_id="ana")
        memory.store.settings.set(next(iter(predictors(tmp_path / "m.db"))), "not a predictor")
        assert memory.living.predict(LEDGER, user_id="ana") == ()


def test_prefetch_lets_the_next_turn_be_served_from_the_cache() -> None:
    with open_at(":memory:") as memory:
        memory.add("The ledger is append-only.", user_id="ana")
        cold = memory.turn(ASK, user_id="ana", dry=True)
        assert cold.snapshot is not None
        assert not cold.snapshot.cached
        memory.add("The ledger has 14 columns.", user_id="ana")
        ready = memory.living.prefetch(
            [("task", str(ASK[0]["content"]))], budget_ms=60_000, user_id="ana"
        )
        assert ready.questions == (ASK[0]["content"],)
        assert ready.skipped == ready.degradations == ()
        warm = memory.turn(ASK, user_id="ana", dry=True)
        assert warm.snapshot is not None
        assert warm.snapshot.cached
        late = memory.living.prefetch([("task", "something else")], budget_ms=0, user_id="ana")
        assert "something else" in late.skipped


def test_files_that_import_each_other_stand_for_each_other() -> None:
    with open_at(":memory:") as memory:
        scope = agentmem.Scope(user_id="ana")
        memory.runtime.predictions.relate(
            {"src/b.py": ["src/a.py"], "src/a.py": ["src/b.py"]}, scope
        )
        first = teach(memory, "The ledger is append-only.", [("file", "src/a.py")], user_id="ana")
        teach(memory, "Tokens last an hour.", [("file", "other/c.py")], user_id="ana")
        for path in ("src/b.py", "/home/ana/src/b.py"):
            found = memory.living.predict([("file", path)], user_id="ana")
            assert found[0].memory.id == first, path


def test_a_decision_about_an_open_file_is_predicted_before_anything_was_cited() -> None:
    with open_at(":memory:") as memory:
        memory.add("Tokens last an hour.", user_id="ana")
        about = memory.add("We decided that ledger.py writes no floats.", user_id="ana")
        (found,) = memory.living.predict(LEDGER, user_id="ana")
        assert found.memory.id == about.items[0].id
        assert found.because == ("names ledger.py",)
        assert memory.living.predict(LEDGER, user_id="bob") == ()
        assert memory.living.predict([("file", "src/edger.py")], user_id="ana") == ()


def test_what_an_earlier_version_learned_is_read_and_forgotten() -> None:
    before = {"half_life_days": 21.0, "start": None, "seen": {"file:x": {"a": 2.0, "b": 1.0}},
              "times": {"file:x": 2.0}, "cited": {}, "last": {}, "skill": {}}  # fmt: skip
    predictor = Predictor.from_dict(before)
    assert [one.id for one in predictor.predict(["file:x"])] == ["a", "b"]
    assert predictor.forget(["a"])
    assert not predictor.forget(["a"])
    assert [one.id for one in predictor.predict(["file:x"])] == ["b"]


def test_signals_are_read_as_people_write_them() -> None:
    file = Signal(kind="file", value="a.py")
    assert read_signals(file) == read_signals([file]) == read_signals([["file", "a.py"]]) == (file,)
    assert len(read_signals([("error", "x" * 10**6)])[0].value) == 2_000
    for bad in ("file", {"file": "a"}, 3, None, [("file",)], [("file", None)]):
        with pytest.raises(InvalidInput):
            read_signals(bad)


def test_packed_settings_are_read_back_and_nothing_else_is() -> None:
    value = Predictor().to_dict()
    assert unpack(pack(value)) == value
    for bad in ("", "x", pack({"a": 1})[:-3], "é", pack({"a": 1}) + "0"):
        with pytest.raises(InvalidInput):
            unpack(bad)
