"""Deciding past contexts again."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.types import Hit, Memory
from agentmem.inspector.replay import replay
from agentmem.prompt.build import BuiltBlock, Chosen, build_block, choose
from agentmem.prompt.snapshot import Snapshot, looked_at_knowledge
from tests.properties.snapshots import plain_snapshot, snapshots
from tests.properties.strategies import texts, units, word_counter

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SENTENCES = st.lists(
    st.sampled_from(("The boats are in.", "It rains again today.", "Tea is green.", "日本語。")),
    min_size=1,
    max_size=12,
).map(" ".join)


@st.composite
def found(draw: st.DrawFn) -> tuple[Hit, ...]:
    """What a search may have found, best first."""
    count = draw(st.integers(0, 8))
    hits = [
        Hit(
            memory=Memory(
                id=f"m{at}",
                text=draw(SENTENCES | texts(60)),
                created_at=NOW,
                kind=draw(st.sampled_from(("fact", "page"))),
                title=draw(texts(10)),
                origin=draw(st.sampled_from(("user", "web"))),
                content_hash=f"h{at}",
            ),
            score=draw(units()),
        )
        for at in range(count)
    ]
    return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.memory.id)))


def build(
    hits: tuple[Hit, ...], top_k: int, threshold: float, budget: int
) -> tuple[Chosen, BuiltBlock]:
    chosen = choose(hits, [], top_k=top_k, threshold=threshold, now=NOW)
    built = build_block(
        secret=b"s" * 16,
        limit_tokens=10**6,
        count=word_counter,
        candidates=chosen.candidates,
        knowledge_tokens=budget,
        total_found=len(hits),
    )
    return chosen, built


def recorded(hits: tuple[Hit, ...], top_k: int, threshold: float, budget: int) -> Snapshot:
    chosen, built = build(hits, top_k, threshold, budget)
    return plain_snapshot(
        window_tokens=10**7,
        settings={"top_k": top_k, "similarity_threshold": threshold, "knowledge_budget": budget},
        looked_at=tuple(looked_at_knowledge(hits, chosen, built)),
    )


SETTINGS = st.tuples(st.integers(0, 9), units(), st.integers(0, 200))


@given(found(), SETTINGS, SETTINGS)
def test_a_replay_decides_as_the_turn_would_have(
    hits: tuple[Hit, ...], first: tuple[int, float, int], other: tuple[int, float, int]
) -> None:
    """N3 Replay. With the settings it was built with a context is decided as it was, with others as a turn would have decided it."""
    was = recorded(hits, *first)
    same = replay(was, count=word_counter)
    assert same.looked_at == was.looked_at
    assert same.changes == ()
    names = ("top_k", "similarity_threshold", "knowledge_budget")
    again = replay(was, dict(zip(names, other, strict=True)), count=word_counter)
    would = recorded(hits, *other)
    assert [(one.id, one.decision, one.reason) for one in again.looked_at] == [
        (one.id, one.decision, one.reason) for one in would.looked_at
    ]
    assert again.knowledge_tokens == build(hits, *other)[1].knowledge.tokens


@given(snapshots(), st.integers(0, 50), units(), st.integers(0, 5000))
def test_any_snapshot_can_be_replayed(
    snapshot: Snapshot, top_k: int, threshold: float, budget: int
) -> None:
    """N8 Replay totality. Whatever was recorded can be decided again; nothing is added or lost."""
    changes = {"top_k": top_k, "similarity_threshold": threshold, "knowledge_budget": budget}
    again = replay(snapshot, changes, count=word_counter)
    assert [(one.id, one.section) for one in again.looked_at] == [
        (one.id, one.section) for one in snapshot.looked_at
    ]
