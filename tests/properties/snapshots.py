"""Strategies for snapshots: whole traces whose numbers hang together."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from agentmem.base.types import Scope
from agentmem.prompt.snapshot import Decision, Looked, Outcome, Part, Section, Snapshot
from tests.properties.strategies import COLLIDING, instants, texts

NUMBERS = st.integers(0, 10**9)
WORDS = st.sampled_from(COLLIDING)
"""For fields that are only carried along: drawing unrestricted text for each would take minutes."""
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | FINITE | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=3,
)


def scopes() -> st.SearchStrategy[Scope]:
    """Nobody in particular, or one of two users."""
    return st.builds(Scope, user_id=st.sampled_from((None, "ann", "bob")))


def looked() -> st.SearchStrategy[Looked]:
    """Anything that was offered to a context; ids and long texts repeat."""
    score = st.sampled_from((None, 0.0, 0.5, 1.0)) | FINITE
    rank = st.sampled_from((None, 1, 2, 10_000))
    return st.builds(
        Looked,
        id=st.sampled_from(("m1", "m2", "m3")) | WORDS.filter(bool),
        section=st.sampled_from(get_args(Section)),
        decision=st.sampled_from(get_args(Decision)),
        reason=WORDS,
        kind=st.sampled_from(("fact", "page", "")),
        title=WORDS,
        text=texts(200) | st.sampled_from(("The same long text. " * 10, "x" * 80)),
        tokens=NUMBERS,
        rank=rank,
        score=score,
        lexical=st.sampled_from((None, 0.0, 7.25)),
        vector=st.sampled_from((None, -0.5, 1.0)),
        lexical_rank=rank,
        vector_rank=rank,
        boosts=st.dictionaries(WORDS, FINITE, max_size=1),
        url=WORDS,
        origin=st.sampled_from(("", "user", "web")),
        retrieved=st.sampled_from(("", "2026-01-01")),
        heading=WORDS,
        speaker=WORDS,
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
        usage=st.dictionaries(WORDS, JSON, max_size=1),
        error=WORDS,
        calls=st.dictionaries(WORDS, NUMBERS, max_size=2),
    )


def snapshots(**fixed: Any) -> st.SearchStrategy[Snapshot]:
    """Any snapshot; `fixed` are strategies for fields that should be otherwise."""
    parts = st.builds(Part, name=WORDS, tokens=NUMBERS, items=NUMBERS)
    fields: dict[str, Any] = {
        "id": texts(20).filter(bool),
        "message_id": WORDS,
        "created_at": instants(),
        "scope": scopes(),
        "model": WORDS,
        "query": texts(60),
        "window_tokens": NUMBERS,
        "reserve_tokens": NUMBERS,
        "estimated_tokens": NUMBERS,
        "settings": st.dictionaries(WORDS, JSON, max_size=2),
        "parts": st.lists(parts, max_size=3).map(tuple),
        "looked_at": st.lists(looked(), max_size=3).map(tuple),
        "message": texts(200),
        "warnings": st.lists(WORDS, max_size=2).map(tuple),
        "degradations": st.lists(WORDS, max_size=2).map(tuple),
        "timings_ms": st.dictionaries(WORDS, st.floats(0, 10**6), max_size=1),
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
