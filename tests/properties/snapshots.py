"""Strategies for snapshots: whole traces whose numbers hang together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from agentmem.core.snapshot import Decision, Looked, Outcome, Part, Section, Snapshot
from agentmem.types import Scope
from tests.properties.strategies import instants, texts

NUMBERS = st.integers(0, 10**9)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | FINITE | texts(20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(8), inner, max_size=3),
    max_leaves=6,
)


def scopes() -> st.SearchStrategy[Scope]:
    """Nobody in particular, or one of two users."""
    return st.builds(Scope, user_id=st.sampled_from((None, "ann", "bob")))


def looked() -> st.SearchStrategy[Looked]:
    """Anything that was offered to a context; ids and long texts repeat."""
    score = st.none() | FINITE
    rank = st.none() | st.integers(1, 10_000)
    return st.builds(
        Looked,
        id=st.sampled_from(("m1", "m2", "m3")) | texts(12),
        section=st.sampled_from(get_args(Section)),
        decision=st.sampled_from(get_args(Decision)),
        reason=texts(40),
        kind=st.sampled_from(("fact", "page", "")),
        title=texts(20),
        text=texts(200) | st.sampled_from(("The same long text. " * 10, "x" * 80)),
        tokens=NUMBERS,
        rank=rank,
        score=score,
        lexical=score,
        vector=score,
        lexical_rank=rank,
        vector_rank=rank,
        boosts=st.dictionaries(texts(8), FINITE, max_size=2),
        url=texts(20),
        origin=st.sampled_from(("", "user", "web")),
        retrieved=st.sampled_from(("", "2026-01-01")),
        heading=texts(10),
        speaker=texts(10),
    )


def outcomes() -> st.SearchStrategy[Outcome]:
    """What a model may have answered."""
    number = st.none() | NUMBERS
    return st.builds(
        Outcome,
        answer=texts(100),
        prompt_tokens=number,
        completion_tokens=number,
        total_tokens=number,
        duration_ms=st.none() | st.floats(0, 10**6),
        usage=st.dictionaries(texts(8), JSON, max_size=2),
        error=texts(20),
    )


def snapshots(**fixed: Any) -> st.SearchStrategy[Snapshot]:
    """Any snapshot; `fixed` are strategies for fields that should be otherwise."""
    parts = st.builds(Part, name=texts(12), tokens=NUMBERS, items=NUMBERS)
    fields: dict[str, Any] = {
        "id": texts(20).filter(bool),
        "message_id": texts(12),
        "created_at": instants(),
        "scope": scopes(),
        "model": texts(12),
        "query": texts(60),
        "window_tokens": NUMBERS,
        "reserve_tokens": NUMBERS,
        "estimated_tokens": NUMBERS,
        "settings": st.dictionaries(texts(8), JSON, max_size=3),
        "parts": st.lists(parts, max_size=3).map(tuple),
        "looked_at": st.lists(looked(), max_size=4).map(tuple),
        "message": texts(200),
        "warnings": st.lists(texts(20), max_size=2).map(tuple),
        "degradations": st.lists(texts(20), max_size=2).map(tuple),
        "timings_ms": st.dictionaries(texts(8), st.floats(0, 10**6), max_size=2),
        "cached": st.booleans(),
        "outcome": st.none() | outcomes(),
        "knowledge_limit": st.none() | NUMBERS,
        "total_found": NUMBERS,
    }
    return st.builds(Snapshot, **(fields | fixed))


def plain_snapshot(**fields: Any) -> Snapshot:
    """A snapshot with nothing in it but what is named."""
    base: dict[str, Any] = {
        "id": "s1",
        "message_id": "q1",
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "scope": Scope(),
        "model": "gpt-4o",
        "query": "what do I like?",
        "window_tokens": 128_000,
        "reserve_tokens": 4_000,
        "estimated_tokens": 0,
    }
    return Snapshot(**(base | fields))
