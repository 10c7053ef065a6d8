"""What a manager does with memories over time, on a database as on a file."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from agentmem.base.errors import AlreadyUndone
from agentmem.memory.manager import MemoryManager
from agentmem.search.postgres import PostgresSearch
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
        memory.add_messages([{"role": "user", "content": STORY}], session=f"s{number}",
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
