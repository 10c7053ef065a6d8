"""What a manager does with memories over time, on a database as on a file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem.base.errors import AlreadyUndone
from agentmem.base.filters import Selection
from agentmem.base.types import Scope
from agentmem.living.consolidate import revision_of
from agentmem.living.settle import JUDGE, Settler
from agentmem.memory.manager import MemoryManager
from agentmem.search.postgres import PostgresSearch
from agentmem.stores import journal
from agentmem.stores.postgres.store import PostgresStore
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.servers.postgres import postgres_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PORTS = ("The server listens on port 8080.", "The server listens on port 9090.")
STORY = (
    "Gustavo painted zebra stripes on the old warehouse wall in Porto. It was a very long "
    "afternoon for everybody who was there. Then they all went home again."
)


@pytest.fixture
def managers() -> Iterator[dict[str, MemoryManager]]:
    database = postgres_store()
    made: dict[str, MemoryManager] = {}
    for name, store, parts in (
        ("file", SqliteStore(":memory:"), {}),
        ("database", database, {"search": PostgresSearch(database)}),
    ):
        clock = ManualClock(NOW)
        made[name] = MemoryManager(store, embedder=HashEmbedder(), clock=clock, **parts)  # type: ignore[arg-type]  # as each store has it
    yield made
    for memory in made.values():
        memory.close()


def held(memory: MemoryManager) -> list[str]:
    return sorted(one.text for one in memory.preferences.get_all(user_id="ann"))


def lived(memory: MemoryManager) -> dict[str, Any]:
    """One life through every way of changing what is known; what each step left."""
    told: dict[str, Any] = {}
    clock = memory.clock
    assert isinstance(clock, ManualClock)

    # What the user says of themselves, learned and taken back again.
    memory.add([{"role": "user", "content": "I live in Rome."}], user_id="ann")
    assert memory.flush(30)
    told["heard"] = held(memory)
    learned = memory.living.learn("I live in Lisbon. No emojis please.", user_id="ann")
    assert memory.flush(30)  # what looks for contradictions has looked
    told["learned"] = held(memory)
    memory.living.undo(learned.journal_id, user_id="ann")
    told["taken back"] = held(memory)

    # Two statements that cannot both be true.
    for text in PORTS:
        clock.advance(60)
        memory.add({"role": "user", "content": text}, user_id="ann")
        assert memory.flush(30)
    (open_one,) = memory.living.contradictions(user_id="ann")
    told["against each other"] = (open_one.a_value, open_one.b_value)
    memory.living.resolve(open_one.id, "b_wins", user_id="ann")
    told["still open"] = memory.living.contradictions(user_id="ann")
    told["port"] = [
        hit.memory.text
        for hit in memory.search("server port", user_id="ann")
        if "port" in hit.memory.text
    ]

    # Copies become one, and are several again.
    for number in range(5):
        clock.advance(60)
        memory.add([{"role": "user", "content": STORY}], session=f"s{number}",
                            user_id="ann", listen=False)  # fmt: skip
    assert memory.flush(30)
    before = len(memory.get_all(user_id="ann"))
    report = memory.living.consolidate(user_id="ann")
    told["merged"] = (report.deduped, before - len(memory.get_all(user_id="ann")))
    told["undone"] = memory.living.undo(report.journal_id, user_id="ann").restored
    told["several again"] = len(memory.get_all(user_id="ann")) - before
    with pytest.raises(AlreadyUndone):
        memory.living.undo(report.journal_id, user_id="ann")
    told["journal"] = [
        (one.kind, one.undone_at is not None) for one in memory.living.journal(user_id="ann")
    ]
    told["of others"] = memory.living.journal(user_id="bob")
    told["problems"] = memory.store.upkeep.verify().problems
    return told


def test_a_life_of_changes_leaves_the_same_in_a_database_as_in_a_file(
    managers: dict[str, MemoryManager],
) -> None:
    told = {name: lived(memory) for name, memory in managers.items()}
    assert told["database"] == told["file"]
    assert told["database"]["merged"] == (4, 4)
    assert told["database"]["undone"] == 5  # the copies, and the one that stood for them
    assert told["database"]["learned"] != told["database"]["taken back"] == ["I live in Rome"]
    assert told["database"]["port"] == [PORTS[1]]
    assert told["database"]["still open"] == told["database"]["of others"] == ()
    assert told["database"]["problems"] == ()


# ----------------------------------------------------------------------------
# What was learned is taken back while the background judges it.


ANN = Scope(user_id="ann")
LIMIT = "The API limit is 100 requests a minute."
AGAINST = "The API limit is 250 requests a minute."
INSTEAD = "As of today the API limit is 250 requests a minute."


def known(memory: MemoryManager) -> dict[str, Any]:
    """What Ann can read and follow."""
    every = Selection(reader=ANN, superseded=True, forgotten=True)
    return {
        "memories": list(memory.store.scan(every)),
        "links": memory.store.links.all(ANN),
        "contradictions": memory.store.contradictions.all(ANN),
    }


def learned(memory: MemoryManager, text: str) -> tuple[dict[str, Any], Callable[[], None]]:
    """What is known before a text is learned, and what takes that back; nothing is judged yet."""
    memory.settings = replace(memory.settings, judge_new=False)
    memory.add(LIMIT, user_id="ann")
    assert isinstance(memory.clock, ManualClock)
    memory.clock.advance(60)
    before = known(memory)
    run = memory.living.learn(text, user_id="ann")

    def take_back() -> None:
        undone = memory.living.undo(run.journal_id, user_id="ann")
        assert (undone.removed, undone.left) == (1, ())

    return before, take_back


@pytest.mark.parametrize("text", [AGAINST, INSTEAD])
@pytest.mark.parametrize("place", ["file", "database"])
def test_what_is_taken_back_takes_with_it_what_was_judged_of_it(
    managers: dict[str, MemoryManager], place: str, text: str
) -> None:
    memory = managers[place]
    before, take_back = learned(memory, text)
    assert not Settler(memory).judge_new(ANN).empty
    take_back()
    assert known(memory) == before
    (judged,) = (one for one in memory.living.journal(user_id="ann") if one.kind == JUDGE)
    assert judged.items == 0
    assert memory.store.upkeep.verify().problems == ()


@pytest.mark.parametrize("text", [AGAINST, INSTEAD])
@pytest.mark.parametrize("place", ["file", "database"])
def test_nothing_is_judged_of_what_was_taken_back_since_it_was_read(
    managers: dict[str, MemoryManager],
    place: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory = managers[place]
    before, take_back = learned(memory, text)
    left = [take_back]

    def after_undoing(*given: Any, **how: Any) -> Any:
        while left:
            left.pop()()
        return revision_of(*given, **how)

    monkeypatch.setattr("agentmem.living.settle.revision_of", after_undoing)
    assert Settler(memory).judge_new(ANN).empty
    assert known(memory) == before


@pytest.mark.parametrize("text", [AGAINST, INSTEAD])
@pytest.mark.parametrize("first", ["judging", "undoing"])
def test_of_judging_and_taking_back_at_once_the_second_waits_for_the_first(
    managers: dict[str, MemoryManager], first: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = managers["database"]
    before, take_back = learned(memory, text)
    calls: dict[str, Callable[[], object]] = {
        "judging": lambda: Settler(memory).judge_new(ANN),
        "undoing": take_back,
    }
    # The last thing that each does before its transaction ends.
    last = "_forget_old" if first == "judging" else "_unset_mark"
    real = getattr(journal, last)
    there, go_on = threading.Event(), threading.Event()

    def held(*given: Any) -> None:
        real(*given)
        there.set()
        assert go_on.wait(30)

    monkeypatch.setattr(journal, last, held)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(calls.pop(first))
        assert there.wait(30)
        monkeypatch.setattr(journal, last, real)
        other = pool.submit(calls.popitem()[1])
        wait_until_it_waits(memory, other)
        go_on.set()
        one.result(30)
        other.result(30)
    assert known(memory) == before


def wait_until_it_waits(memory: MemoryManager, call: Future[Any]) -> None:
    """Come back when a call waits for a lock of another transaction, or has ended."""
    assert isinstance(memory.store, PostgresStore)
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with memory.store.database.ready().pool.connection() as watching:
        while not call.done() and not watching.execute(asked).fetchall():
            watching.rollback()
