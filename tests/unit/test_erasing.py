"""What goes with a memory when it is erased, and what stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.config import LearnConfig, LoopConfig
from agentmem.base.types import Memory, Scope
from agentmem.stores.values import Receipt
from agentmem.testing import HashEmbedder, ManualClock
from tests.at_once import record

ANA: dict[str, Any] = {"user_id": "ana"}
CONFIG = LoopConfig(learn=LearnConfig(facts=True, nightly=False))


@pytest.fixture(params=["file", "dictionaries"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    path = tmp_path / "memory.db" if request.param == "file" else ":memory:"
    with agentmem.open(path, embedder=HashEmbedder(16), clock=ManualClock()) as opened:
        yield opened


def say(memory: agentmem.MemoryManager, text: str, answer: str = "Good.") -> Memory:
    """The memory of what was said in a turn."""
    with memory.turn([{"role": "user", "content": text}], config=CONFIG, **ANA) as turn:
        turn.done(answer)
    assert memory.flush(10)
    memory.clock.advance(60)  # type: ignore[attr-defined]  # a ManualClock
    words = " ".join(text.split())
    found = [m for m in kept(memory, "message") if " ".join(m.text.split()) == words]
    return found[0]


def kept(memory: agentmem.MemoryManager, kind: str) -> list[Memory]:
    return list(memory.get_all(kinds=[kind], **ANA))


def traces(memory: agentmem.MemoryManager) -> int:
    return len(memory.store.snapshots.list(Scope(**ANA), limit=1_000))


FILLER = "Nothing much happened on that day at the sea. " * 100


@pytest.mark.parametrize(
    "said",
    ["  The safe code is 4711.\n\n", f"The code is 4711. {FILLER} The door is green."],
    ids=["outer white space", "more than 4,000 characters"],
)
def test_the_trace_of_a_turn_goes_with_what_was_said_in_it(
    memory: agentmem.MemoryManager, said: str
) -> None:
    receipt = memory.erase(say(memory, said).id, **ANA)
    assert (receipt.snapshots, receipt.complete) == (1, True)
    assert traces(memory) == 0


def test_the_trace_of_an_answer_goes_though_its_citations_were_not_kept(
    memory: agentmem.MemoryManager,
) -> None:
    say(memory, "What is it?", "It [1] is the old [2] number, as far as I [1, 2] can tell.")
    (answer,) = [m for m in kept(memory, "message") if m.origin == "assistant"]
    assert "[1]" not in answer.text
    assert memory.erase(answer.id, **ANA).snapshots == 1


def test_the_trace_of_an_earlier_version_goes_with_a_memory(
    memory: agentmem.MemoryManager,
) -> None:
    said = say(memory, "The safe code is 4711.")
    memory.update(said.id, "There is no safe.", **ANA)
    assert memory.erase(said.id, **ANA).snapshots == 1


def test_traces_of_many_memories_go_in_one_call(memory: agentmem.MemoryManager) -> None:
    said = say(memory, "The safe code is 4711.")
    more = memory.sources.add_document([f"Shelf {n} is full." for n in range(220)], url="u", **ANA)
    receipt = memory.erase([said.id, *more.ids], **ANA)
    assert (len(receipt.ids), receipt.snapshots) == (221, 1)


def test_a_trace_written_before_traces_named_what_was_said_goes_by_its_words(
    memory: agentmem.MemoryManager,
) -> None:
    with memory.turn([{"role": "user", "content": f"{FILLER} 4711"}], dry=True, **ANA) as turn:
        assert turn.snapshot is not None
        record(memory.runtime.trace, turn.snapshot)
    assert memory.flush(10)
    assert traces(memory) == 1
    other = memory.add("The sea is blue on most days, but nothing of it is quoted.", **ANA)
    assert memory.erase(other.ids, **ANA).snapshots == 0
    same = memory.add([{"role": "user", "content": f"\n{FILLER} 4711 "}], **ANA)
    assert memory.erase(same.ids, **ANA).snapshots == 1


def test_a_fact_goes_with_the_last_message_that_states_it(memory: agentmem.MemoryManager) -> None:
    first = say(memory, "Our database is Postgres.")
    again = say(memory, "As of today: our database is Postgres.")
    (fact,) = [m for m in kept(memory, "fact") if "Postgres" in m.text]
    assert fact.id not in memory.erase(first.id, **ANA).derived
    assert memory.get(fact.id, **ANA).text == fact.text
    assert fact.id in memory.erase(again.id, **ANA).derived
    assert not kept(memory, "fact")


def test_erasing_by_a_filter_takes_learned_facts_too(memory: agentmem.MemoryManager) -> None:
    say(memory, "Our database is Postgres.")
    (fact,) = kept(memory, "fact")
    receipt = memory.upkeep.erase_all(filters={"kind": "message"}, **ANA)
    assert fact.id in receipt.derived
    assert not memory.get_all(**ANA)


def test_a_preference_goes_with_the_last_message_that_states_it(
    memory: agentmem.MemoryManager,
) -> None:
    first = say(memory, "I prefer green tea over coffee.")
    again = say(memory, "Hello again! I prefer green tea over coffee.")
    (preference,) = kept(memory, "preference")
    assert memory.erase(first.id, **ANA).derived == ()
    assert [p.id for p in memory.preferences.get_all(**ANA)] == [preference.id]
    assert memory.erase(again.id, **ANA).derived == (preference.id,)
    assert memory.preferences.get_all(**ANA) == ()


def test_a_preference_found_in_remembered_messages_goes_with_them(
    memory: agentmem.MemoryManager,
) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "I prefer green tea."}]
    added = memory.add(messages, **ANA)
    (preference,) = memory.preferences.get_all(**ANA)
    assert memory.erase(added.ids, **ANA).derived == (preference.id,)


def test_what_a_result_was_promoted_to_goes_with_it_unless_it_is_pinned(
    memory: agentmem.MemoryManager,
) -> None:
    def promoted(name: str) -> tuple[str, Memory]:
        working = memory.turn([{"role": "user", "content": "x"}], dry=True, **ANA).working
        result = working.keep("read", {"file": name}, f"The {name} holds 4711.")
        return result.id, working.promote(result.id, "fact")

    result, fact = promoted("safe")
    assert memory.erase(result, **ANA).derived == (fact.id,)
    result, fact = promoted("box")
    memory.update(fact.id, metadata={**fact.metadata, "pinned": True}, **ANA)
    assert memory.erase(result, **ANA).derived == ()
    assert memory.get(fact.id, **ANA).text == fact.text


def test_what_goes_is_told_before_and_the_same_as_after(memory: agentmem.MemoryManager) -> None:
    said = say(memory, "Our database is Postgres. I prefer green tea.")
    told = memory.store.to_erase(Scope(**ANA), [said.id])
    receipt: Receipt = memory.erase(said.id, **ANA)
    assert {m.id for m in told} == set(receipt.ids)
    assert set(receipt.ids) == {said.id, *receipt.derived}
    assert len(receipt.derived) >= 2


def test_nobody_elses_memory_goes_with_mine(memory: agentmem.MemoryManager) -> None:
    mine = say(memory, "Our database is Postgres.")
    with memory.turn(
        [{"role": "user", "content": "Our database is Postgres."}], config=CONFIG, user_id="bob"
    ) as turn:
        turn.done("Good.")
    assert memory.flush(10)
    before = memory.get_all(user_id="bob")
    memory.erase(mine.id, **ANA)
    assert memory.get_all(user_id="bob") == before
    assert len(memory.store.snapshots.list(Scope(user_id="bob"))) == 1
