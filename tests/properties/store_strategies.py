"""Memories, scopes and filters for the store's properties: small pools, so that they collide.

Strategies are made once, here: making them anew for every draw is most of a run.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope, Usage
from agentmem.stores.values import Entry
from tests.entries import make_entry
from tests.properties.strategies import instants, texts, units

IDS = ("a", "A", "\u00e9", "e\u0301", "\x00", "0190-7", "b", "c", "d", "e")
URLS = ("", "https://e.x/a", "https://e.x/A", "file:\x00")
SESSIONS = ("", "s", "S")
KINDS = ("fact", "page", "message", "né")
SPACES = (
    EmbedderId(name="h", version="1", dimensions=2),
    EmbedderId(name="h", version="2", dimensions=3),
)

_USERS = ("ann", "ann", "ann", None, "Ann", "ann\x00")
_PROJECTS = (None, None, None, "p", "P")
_MOMENT = datetime(2024, 1, 1, tzinfo=UTC)
_SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"kind": "page", "origin": "web", "title": "T", "heading_path": ("a", "]]>")},
    {"kind": "message", "speaker": "Ann", "summary": "s", "compressed": "", "index": "\x00"},
    {"kind": "né", "speaker": "ann", "title": "日本語。", "usage": Usage(retrieved=3)},
    {"kind": "page", "usage": Usage(cited=1, last_used_at=_MOMENT), "heading_path": ("\x00",)},
    {"content_hash": "h1", "valid_from": _MOMENT, "summary": "\u200b", "title": "a\x00b"},
    {"content_hash": "h2", "valid_to": _MOMENT + timedelta(days=5), "importance": 1.0},
    {"content_hash": "h1", "valid_from": _MOMENT, "valid_to": _MOMENT + timedelta(days=9)},
)

_scopes = st.builds(
    Scope,
    user_id=st.sampled_from(_USERS),
    project_id=st.sampled_from(_PROJECTS),
    agent_id=st.sampled_from((None,) * 6 + ("x", "y")),
    run_id=st.sampled_from((None,) * 6 + ("r", "s")),
)
_texts = texts(20)
_small = texts(3)
_instants = instants()
_units = units()
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_small, inner, max_size=3),
    max_leaves=4,
)
_metadatas: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    ({}, {}, *({"tag": tag} for tag in ("x", "y", 1, True, 1.0, None, ["x"], "xy")))
) | st.dictionaries(_small, _json, max_size=2)
_owners = st.tuples(_scopes, st.sampled_from(("private", "private", "project", "system")))
_places = st.tuples(
    st.sampled_from(tuple(product(URLS, SESSIONS))),
    st.none() | st.integers(-2, 5) | st.integers(-(2**61), 2**61),
)
_shapes = st.sampled_from(_SHAPES)
_ids = st.sampled_from(IDS)
_terms = st.dictionaries(st.integers(0, 2**64 - 1), st.integers(1, 65_535), max_size=4)
_numbers = st.floats(-1, 1, width=32)
_vectors = st.fixed_dictionaries(
    {}, optional={space: st.tuples(*[_numbers] * space.dimensions) for space in SPACES}
)


def scopes() -> st.SearchStrategy[Scope]:
    return _scopes


def json_values() -> st.SearchStrategy[Any]:
    return _json


def _memory(  # noqa: PLR0917 # a strategy's parts come by position
    memory_id: str,
    text: str,
    created_at: datetime,
    owner: tuple[Scope, str],
    place: tuple[tuple[str, str], int | None],
    shape: dict[str, Any],
    metadata: dict[str, Any],
) -> Memory:
    scope, visibility = owner
    if visibility == "project" and scope.project_id is None:
        visibility = "private"
    (url, session), position = place
    return Memory(
        id=memory_id,
        text=text,
        created_at=created_at,
        scope=scope,
        visibility=visibility,  # type: ignore[arg-type]  # sampled from the choices
        source_url=url,
        session=session,
        position=position,
        metadata=metadata,
        **shape,
    )


_memories = st.builds(_memory, _ids, _texts, _instants, _owners, _places, _shapes, _metadatas)


def memories() -> st.SearchStrategy[Memory]:
    return _memories


def make(memory: Memory, terms: dict[int, int], vectors: dict[EmbedderId, Any]) -> Entry:
    """An entry with these terms and vectors."""
    return make_entry(
        memory,
        terms=np.array(sorted(terms), np.uint64),
        frequencies=np.array([terms[term] for term in sorted(terms)], np.uint16),
        text_flags=len(memory.text) % 256,
        vectors={space: np.array(vector, np.float32) for space, vector in vectors.items()},
    )


_entries = st.builds(make, _memories, _terms, _vectors)


def entries() -> st.SearchStrategy[Entry]:
    return _entries


def filters() -> st.SearchStrategy[dict[str, Any]]:
    """Filters as users write them, that hit and miss."""
    return _filters


_values = st.sampled_from(("x", "y", 1, 1.0, True, None, "xy", 0.5)) | _json
_scalars = _values.filter(lambda v: not isinstance(v, list | dict) and v != "*")
_conditions: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda v: {"tag": v}, _scalars),
    st.builds(
        lambda op, v: {"tag": {op: v}},
        st.sampled_from(("eq", "ne", "gt", "gte", "lt", "lte", "contains", "icontains")),
        _values,
    ),
    st.builds(
        lambda op, v: {"tag": {op: v}},
        st.sampled_from(("in", "nin")),
        st.lists(_values, max_size=3),
    ),
    st.builds(lambda v: {"kind": v}, st.sampled_from(KINDS)),
    st.builds(
        lambda f, v: {f: {"in": v}},
        st.sampled_from(("title", "id", "speaker", "content_hash", "kind")),
        st.lists(_small | st.sampled_from(("a\x00b", "a", "h1", "Ann", "fact", 5)), max_size=3),
    ),
    st.builds(
        lambda op, v: {"created_at": {op: v}}, st.sampled_from(("gt", "lte", "eq")), _instants
    ),
    st.builds(
        lambda op, v: {"position": {op: v}},
        st.sampled_from(("gt", "lte", "ne")),
        st.integers(-2, 5),
    ),
    st.builds(lambda v: {"importance": {"gte": v}}, _units),
    st.builds(
        lambda f, v: {f: v},
        st.sampled_from(
            (
                "text",
                "title",
                "user_id",
                "speaker",
                "session",
                "source_url",
                "summary",
                "id",
                "visibility",
                "agent_id",
                "content_hash",
                "metadata.tag",
            )
        ),
        _small | st.sampled_from(("ann", "x", "a", "private", "*", "h1")),
    ),
    st.builds(
        lambda f: {f: "*"}, st.sampled_from(("summary", "tag", "position", "valid_to", "user_id"))
    ),
    st.builds(lambda v: {"heading_path": {"contains": v}}, st.sampled_from(("a", "\x00", "]]"))),
)
_filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _conditions,
    lambda inner: (
        st.builds(
            lambda word, parts: {word: parts},
            st.sampled_from(("AND", "OR", "NOT")),
            st.lists(inner, max_size=3),
        )
        | st.builds(lambda a, b: {**a, **b}, inner, inner)
    ),
    max_leaves=4,
)
