"""Properties of consolidation against a store: reversible, predicted, never across scopes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.errors import AlreadyUndone
from agentmem.base.types import Memory, Usage
from agentmem.memory.manager import MemoryManager
from tests.properties.living_samples import (
    ANN,
    MARKET,
    NOW,
    PLACES,
    Place,
    contents,
    living_memories,
    opened_memory,
)

WHOSE: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    ({"user_id": "ann"}, {"user_id": "bob", "project_id": "p"})
)


TAGGED = [
    Memory(
        id=f"t{number}",
        text=MARKET,
        created_at=NOW - timedelta(days=days),
        kind="message",
        scope=ANN,
        usage=Usage(retrieved=2, cited=number, last_used_at=NOW - timedelta(days=1)),
        metadata={"tags": [f"x{number}"], "n": number, "base_importance": 0.5},
    )
    for number, days in enumerate((200, 40, 3))
]


@given(living_memories(), PLACES, st.booleans(), WHOSE)
@example(TAGGED, "file", True, {"user_id": "ann"})
@example(TAGGED, "memory", False, {"user_id": "ann"})
@example(TAGGED, "database", True, {"user_id": "ann"})
def test_a_consolidation_can_be_predicted_and_undone(
    memories: list[Memory], place: Place, embedder: bool, whose: dict[str, Any]
) -> None:
    """P37 Reversible. Consolidate then undo gives the store back; a dry run changes nothing
    and predicts exactly what the run does."""
    with opened_memory(memories, place, embedder=embedder) as memory:
        before, seq = contents(memory), memory.store.feed.seq()
        predicted = memory.living.consolidate(dry_run=True, **whose)
        assert contents(memory) == before
        assert memory.store.feed.seq() == seq
        assert not predicted.journal_id
        assert memory.living.journal(**whose) == ()
        done = memory.living.consolidate(**whose)
        unlike: dict[str, Any] = {"dry_run": True, "journal_id": "", "duration_seconds": 0.0}
        assert replace(done, **unlike) == replace(predicted, **unlike)
        assert bool(done.journal_id) != done.empty
        assert memory.upkeep.verify().ok
        if done.empty:
            assert contents(memory) == before
            return
        assert contents(memory) != before
        undone = memory.living.undo(done.journal_id, **whose)
        assert undone.left == ()
        assert contents(memory) == before
        assert memory.upkeep.verify().ok
        with pytest.raises(AlreadyUndone):
            memory.living.undo(done.journal_id, **whose)
        again = memory.living.consolidate(dry_run=True, **whose)
        assert again.operations == predicted.operations


@given(living_memories(), PLACES, st.booleans())
def test_both_stores_agree_and_a_second_run_finds_nothing(
    memories: list[Memory], place: Place, embedder: bool
) -> None:
    """G1 Settled. Both stores end the same, and a second run, incremental or full, does
    nothing."""
    with (
        opened_memory(memories, place, embedder=embedder) as file,
        opened_memory(memories, "memory", embedder=embedder) as slow,
    ):
        reports = [one.living.consolidate(user_id="ann") for one in (file, slow)]
        assert reports[0].operations == reports[1].operations
        kept = [list(contents(one)["memories"].values()) for one in (file, slow)]
        assert kept[0] == kept[1]
        assert contents(file)["links"] == contents(slow)["links"]
        assert contents(file)["contradictions"] == contents(slow)["contradictions"]
        for one in (file, slow):
            after = contents(one)
            assert one.living.consolidate(user_id="ann").empty
            assert one.living.consolidate(user_id="ann", full=True).empty
            assert contents(one) == after


def not_anns(memory: MemoryManager) -> dict[str, Memory]:
    """Every memory, whole, that is not Ann's."""
    stored = contents(memory)["memories"].values()
    return {one.id: one for one in stored if one.scope != ANN}


@given(living_memories(), PLACES)
def test_a_run_touches_nobody_elses_memories(memories: list[Memory], place: Place) -> None:
    """G2 Own memories. A run changes no memory its reader cannot see, and relates none
    across audiences."""
    with opened_memory(memories, place) as memory:
        before = not_anns(memory)
        memory.living.consolidate(user_id="ann")
        assert not_anns(memory) == before
        seen = {m.id for m in memories if m.scope == ANN}
        for link in (*memory.store.links.all(ANN), *memory.store.contradictions.all(ANN)):
            assert {link.first_id, link.second_id} <= seen
