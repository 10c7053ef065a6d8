"""Properties of merging two memories: nothing lost, nothing twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from agentmem.base.filters import Selection
from agentmem.base.types import Memory
from agentmem.living.merge import StoreMerger
from agentmem.memory.manager import MemoryManager
from tests.properties.living_samples import (
    ANN,
    BOB,
    PLACES,
    Place,
    living_memories,
    opened_memory,
)


def said(memory: MemoryManager) -> set[Any]:
    """Who says what, superseded and forgotten ones included."""
    return {
        (one.scope, one.visibility, one.kind, one.text)
        for scope in (ANN, BOB)
        for one in memory.store.scan(
            Selection(reader=scope, superseded=True, forgotten=True, deleted=True)
        )
    }


@given(living_memories(6), living_memories(6), PLACES)
def test_merging_loses_nothing_and_adds_nothing_twice(
    ours: list[Memory], theirs: list[Memory], place: Place
) -> None:
    """G3 Merge. After merging a store into another all that either held is there, once more
    adds nothing, and the other one is unchanged."""
    with (
        opened_memory(ours, "memory") as here,
        opened_memory(theirs, place) as there,
    ):
        here.living.consolidate(user_id="ann")
        there.living.consolidate(user_id="ann")
        both, other = said(here) | said(there), said(there)
        before = {m.id: m for m in here.get_all(user_id="ann", limit=1_000)}
        report = StoreMerger(here).merge_store(there.store)
        assert said(here) == both
        assert said(there) == other
        assert report.added + report.same == len(theirs)
        again = StoreMerger(here).merge_store(there.store)
        assert (again.added, again.renamed) == (0, 0)
        assert said(here) == both
        kept = {m.id for m in here.get_all(user_id="ann", superseded=True, limit=1_000)}
        assert set(before) <= kept
