"""A search without any index: obvious loops over what the store has, for comparison.

It shows what a database has to bring in to be searched like `LocalSearch`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentmem.base.filters import Selection
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.protocol import (
    RANKED_BY,
    Asked,
    Candidates,
    IndexState,
    Leg,
    brought_in,
    gather,
)
from agentmem.stores.base import Store
from agentmem.stores.values import COLD, IndexRows
from agentmem.text.terms import K1, B, idf

Numbers = NDArray[np.int64]


class ScanSearch:
    """Reads everything for every question."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def seq(self) -> int:
        return self._store.feed.seq()

    def _seen(self, selection: Selection, *, cold: bool) -> IndexRows:
        """What the reader may see, ascending by row."""
        rows = self._store.feed.index_rows(rows=self._store.select_rows(selection).tolist())
        return rows.without(((rows.flags & COLD) != 0) != cold)

    def speakers(self, reader: Scope, *, cold: bool = False) -> Collection[int]:
        everything = Selection(reader=reader, superseded=True, forgotten=True)
        return set(self._seen(everything, cold=cold).speaker.tolist()) - {0}

    def candidates(self, asked: Asked) -> Candidates | None:
        selection = asked.selection
        if asked.unfiltered:
            selection = Selection(reader=selection.reader, superseded=True, forgotten=True)
        seen = self._seen(selection, cold=asked.cold)
        question = asked.question
        terms = question.hashes().tolist()
        counts = np.array([_counts(seen, at, terms) for at in range(len(seen.rows))])
        counts = counts.reshape(len(seen.rows), len(terms))
        holders = (counts > 0).sum(axis=0)
        total, mean = len(seen.rows), float(seen.length.mean()) if len(seen.rows) else 0.0
        lexical = vector = Leg()
        if asked.words:
            norm = seen.length * (K1 * B / mean if mean else 0.0) + K1 * (1.0 - B)
            scores = np.zeros(total)
            for term, weight in enumerate(question.term_weights):
                if holders[term]:
                    worth = weight * idf(int(holders[term]), total)
                    scores += worth * (counts[:, term] * (K1 + 1.0) / (counts[:, term] + norm))
            lexical = _best(seen.rows, scores, scores > 0, asked.most)
        cosines = np.full(total, np.nan, dtype=np.float32)
        if asked.vector is not None:
            embedder, wanted = asked.vector
            rows, vectors = self._store.feed.vectors(embedder, rows=seen.rows.tolist())
            cosines[np.searchsorted(seen.rows, rows)] = vectors @ wanted
            vector = _best(seen.rows, cosines, ~np.isnan(cosines), asked.most)
        if not lexical.places and not vector.places:
            return None

        def at(rows: Numbers) -> Numbers:
            return np.searchsorted(seen.rows, rows)

        def neighbours(rows: Numbers) -> tuple[Numbers, Numbers]:
            before = [int(seen.previous[at(row)]) for row in rows]
            after = [max(seen.rows[seen.previous == row].tolist(), default=0) for row in rows]
            known = set(seen.rows.tolist())
            return np.array([b if b in known else 0 for b in before]), np.array(after)

        return gather(
            asked,
            lexical,
            vector,
            brought_in(lexical, vector),
            columns_of=lambda of: {name: getattr(seen, name)[at(of)] for name in RANKED_BY},
            neighbours=neighbours,
            counts_of=lambda of: counts[at(of)],
            cosines_of=(lambda of: cosines[at(of)]) if asked.vector is not None else None,
            row_frequencies=holders,
            rows_in_scope=total,
            mean_length=mean,
        )

    def nearest(
        self, embedder: EmbedderId, rows: Collection[int], most: int, *, among: Collection[int]
    ) -> Iterator[tuple[int, Numbers, NDArray[np.float32]]]:
        keys, vectors = self._store.feed.vectors(embedder, rows=among)
        asking, wanted = self._store.feed.vectors(embedder, rows=rows)
        for key, cosines in zip(asking.tolist(), wanted @ vectors.T, strict=True):
            order = np.lexsort((keys, -cosines))[:most]
            yield key, keys[order], cosines[order]

    def has_cold(self) -> bool:
        return self._store.feed.cold_count() > 0

    def take_gaps(self, embedder: EmbedderId) -> bool:
        return False

    def changes_of(self, kind: str) -> Hashable | None:
        return None

    def state(self) -> IndexState:
        return IndexState(rows=len(self._store.feed.index_rows().rows), seq=self.seq)

    def catch_up(self) -> None: ...
    def keep_up(self) -> None: ...
    def expect(self, rows: int, embedder: Callable[[], EmbedderId | None]) -> None: ...
    def save(self, embedder: EmbedderId | None = None, *, if_worth: bool = False) -> None: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...


def _counts(seen: IndexRows, at: int, terms: list[int]) -> list[int]:
    here = slice(seen.term_offsets[at], seen.term_offsets[at + 1])
    held = dict(zip(seen.terms[here].tolist(), seen.frequencies[here].tolist(), strict=True))
    return [min(held.get(term, 0), 255) for term in terms]


def _best(rows: Numbers, scores: NDArray[Any], found: NDArray[np.bool_], most: int) -> Leg:
    rows, scores = rows[found], scores[found]
    order = np.lexsort((rows, -scores))[:most]
    return Leg(rows[order], scores[order])
