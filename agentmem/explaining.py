"""What a search looked at and what became of each candidate."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentmem.core.filters import ALWAYS, Selection, selected
from agentmem.core.marks import is_forgotten
from agentmem.core.ranking import FEATURES, LEG_FEATURES, Ranked
from agentmem.results import Candidate
from agentmem.stores.base import Store
from agentmem.types import Hit, Memory

if TYPE_CHECKING:
    from agentmem.searches import Found, Request

_NARROWING = ("where", "kinds", "source_url", "session", "since", "until", "as_of")


def explain(
    store: Store, request: Request, found: Found, ranked: Ranked, hits: Sequence[Hit]
) -> tuple[Candidate, ...]:
    """Every candidate of both legs and every neighbour that was ranked, best first."""
    returned = {hit.memory.id for hit in hits}
    return tuple(
        _candidate(memory, found, ranked, at, fate=_fate(memory.id in returned, score, request))
        for memory, at, score in _memories(store, request, found, ranked)
    )


def explain_filtered(
    store: Store, request: Request, found: Found, ranked: Ranked, known: Collection[str]
) -> tuple[Candidate, ...]:
    """Those that a filter kept from being candidates, and which filter it was."""
    return tuple(
        _candidate(memory, found, ranked, at, fate=f"filtered: {removed_by(request, memory)}")
        for memory, at, _ in _memories(store, request, found, ranked)
        if memory.id not in known and not selected(request.selection, memory)
    )


def removed_by(request: Request, memory: Memory) -> str:
    """The first part of the selection that this memory does not pass."""
    bare = Selection(reader=request.selection.reader)
    if not selected(bare, memory):
        if is_forgotten(memory):
            return "forgotten"
        return "superseded" if memory.superseded_by is not None else "not current"
    for name in _NARROWING:
        value = getattr(request.selection, name)
        if value not in (None, ALWAYS) and not selected(replace(bare, **{name: value}), memory):
            return "filters" if name == "where" else name
    return "visibility"


def _memories(
    store: Store, request: Request, found: Found, ranked: Ranked
) -> Iterator[tuple[Memory, int, float]]:
    memories = store.get_rows(request.selection.reader, found.rows.tolist())
    for at in ranked.order.tolist():
        memory = memories.get(int(found.rows[at]))
        if memory is not None:
            yield memory, at, float(ranked.scores[at])


def _candidate(memory: Memory, found: Found, ranked: Ranked, at: int, *, fate: str) -> Candidate:
    row = int(found.rows[at])
    lexical_rank, lexical_raw = found.lexical.of(row)
    vector_rank, vector_raw = found.vector.of(row)
    boosts = zip(FEATURES[LEG_FEATURES:], ranked.features[at, LEG_FEATURES:], strict=True)
    return Candidate(
        id=memory.id,
        score=float(ranked.scores[at]),
        lexical_raw=lexical_raw,
        vector_raw=vector_raw,
        lexical=float(ranked.lexical[at]),
        vector=None if ranked.vector is None else float(ranked.vector[at]),
        lexical_rank=lexical_rank,
        vector_rank=vector_rank,
        boosts={name: round(float(value), 4) for name, value in boosts if value},
        fate=fate,
    )


def _fate(returned: bool, score: float, request: Request) -> str:
    if returned:
        return "returned"
    return "over top_k" if score >= request.threshold else f"below threshold {request.threshold:g}"
