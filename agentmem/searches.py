"""What is asked of a search, what its legs bring in, and what is made of two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, get_args

from agentmem.core.checks import require_choice, require_count, require_text, require_unit
from agentmem.core.filters import Selection
from agentmem.core.living.gathering import mentions
from agentmem.core.question import Question, names_in
from agentmem.core.ranking import Evidence
from agentmem.core.values import dataclass
from agentmem.results import SearchResults
from agentmem.settings import SearchMode
from agentmem.types import Hit, Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Reranker = Callable[[str, Sequence[Memory]], Sequence[float]]
"""Gives each memory a score from 0 to 1 for the question; any callable will do."""

READ_CHARACTERS = 1_000
WEAK = 0.5
"""A best score below this may mean that what was asked for has been put away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One search: the question, who asks, and what narrows it.

    `cold` says whether memories that were put away are searched too; left
    out, they are when the others do not answer well.
    """

    query: str
    selection: Selection
    top_k: int = 5
    threshold: float = 0.0
    mode: SearchMode = "hybrid"
    explain: bool = False
    cold: bool | None = None
    now: datetime | None = None

    def __post_init__(self) -> None:
        require_text(self.query, "query")
        require_count(self.top_k, "top_k")
        require_unit(self.threshold, "threshold")
        require_choice(self.mode, get_args(SearchMode), "mode")


class Leg:
    """What one leg brought in: row to its rank (from 1), and the raw scores in that order."""

    __slots__ = ("_scores", "places")

    def __init__(
        self, rows: NDArray[np.int64] | None = None, scores: NDArray[Any] | None = None
    ) -> None:
        self._scores = scores
        self.places = {} if rows is None else dict(zip(rows.tolist(), count(1), strict=False))

    def of(self, row: int) -> tuple[int | None, float | None]:
        """The rank and raw score of a row; None for one that another leg brought in."""
        place = self.places.get(row)
        if place is None or self._scores is None:
            return None, None
        return place, float(self._scores[place - 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What both legs brought in, before ranking; `asked` is the question's vector."""

    question: Question
    asked: NDArray[np.float32] | None
    rows: NDArray[np.int64]
    lexical: Leg
    vector: Leg
    evidence: Evidence


def still_there(memory: Memory, selection: Selection) -> bool:
    """Whether a memory was not deleted or replaced while it was searched for."""
    if memory.deleted_at is not None and not selection.deleted:
        return False
    told_apart = selection.superseded or selection.as_of is not None
    return memory.superseded_by is None or told_apart


def is_thin(request: Request, found: SearchResults) -> bool:
    """Whether a search left so much to be wished that it is worth asking the cold memories.

    It found little, or nothing good, or nothing with a name that was asked for.
    """
    if 2 * len(found) < request.top_k or found[0].score < WEAK:
        return True
    names = [name for name in names_in(request.query[:READ_CHARACTERS]) if name[2:]]
    said = [f"{hit.memory.speaker} {hit.memory.title} {hit.memory.text}" for hit in found]
    return not all(any(mentions(text, name) for text in said) for name in names)


def joined(request: Request, found: SearchResults, more: SearchResults) -> SearchResults:
    """What both searches found, the best first."""
    hits = sorted((*found.hits, *more.hits), key=lambda hit: (-hit.score, hit.memory.id))
    return SearchResults(
        hits=tuple(hits[: request.top_k]),
        own_world=max(found.own_world, more.own_world),
        degradations=tuple(dict.fromkeys((*found.degradations, *more.degradations))),
        candidates=(*found.candidates, *more.candidates),
    )


def reranked(
    rerank: Reranker, request: Request, hits: list[Hit], degradations: list[str]
) -> list[Hit]:
    try:
        scores = [
            require_unit(float(score), "score")
            for score in rerank(request.query, [hit.memory for hit in hits])
        ]
        pairs = list(zip(hits, scores, strict=True))
    except Exception as error:  # noqa: BLE001 - somebody else's model must not break a search
        degradations.append(f"re-ranker: {error}; its order was not used")
        return hits
    again = [replace(hit, score=score) for hit, score in pairs if score >= request.threshold]
    return sorted(again, key=lambda hit: (-hit.score, hit.memory.id))
