"""The obvious loops the search engines are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import rank_bm25
from hypothesis import strategies as st

from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.rows import EVERYTHING, RowScope
from agentmem.search.indexes.vector import VectorIndex
from agentmem.stores.values import IndexRows
from agentmem.text.terms import K1, PRIOR_ROWS, B

TERMS = (0, 1, 2, 3, 5, 2**63, 2**64 - 2, 2**64 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row as a test draws it."""

    row: int
    owner: int = 0
    strand: int = 0
    previous: int = 0
    speaker: int = 0
    kind: int = 0
    created_at: int = 0
    valid_from: int = -(1 << 63)
    valid_to: int = (1 << 63) - 1
    length: int = 1
    flags: int = 0
    words: tuple[tuple[int, int], ...] = ()


def batch(rows: Sequence[Row]) -> IndexRows:
    """The rows as the engines take them."""

    def column(name: str, dtype: type[np.generic]) -> np.ndarray:
        return np.array([getattr(row, name) for row in rows], dtype=dtype)

    sizes = [len(row.words) for row in rows]
    return IndexRows(
        rows=column("row", np.int64),
        owner=column("owner", np.int32),
        strand=column("strand", np.int64),
        place=column("strand", np.int64),
        previous=column("previous", np.int64),
        speaker=column("speaker", np.int64),
        kind=column("kind", np.int64),
        created_at=column("created_at", np.int64),
        valid_from=column("valid_from", np.int64),
        valid_to=column("valid_to", np.int64),
        length=column("length", np.int32),
        flags=column("flags", np.uint32),
        term_offsets=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        terms=np.array([term for row in rows for term, _ in row.words], dtype=np.uint64),
        frequencies=np.array([count for row in rows for _, count in row.words], dtype=np.uint16),
    )


def sees(scope: RowScope, row: Row) -> bool:
    """Whether a row is in the scope."""
    return (
        (scope.owners is None or row.owner in scope.owners)
        and (scope.rows is None or row.row in scope.rows.tolist())
        and (scope.kinds is None or row.kind in scope.kinds)
        and (scope.created_from_us is None or row.created_at >= scope.created_from_us)
        and (scope.created_before_us is None or row.created_at < scope.created_before_us)
        and not row.flags & scope.without_flags
    )


Settings = TypeVar("Settings", PostingsIndex, VectorIndex)


def tuned(index: Settings, **settings: int) -> Settings:
    """The index with other limits than those for stores of usual size."""
    for name, value in settings.items():
        assert hasattr(type(index), name)
        setattr(index, name, value)
    return index


def no_vectors(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a store gives that has none."""
    return rows[:0], np.zeros((0, 0), dtype=np.float32)


def search_words(
    index: PostingsIndex, query: Mapping[int, float], n: int, scope: RowScope = EVERYTHING
) -> list[tuple[int, float]]:
    """The `n` best rows for the query and their scores."""
    match = index.match(np.array(list(query), dtype=np.uint64), list(query.values()), scope=scope)
    return list(zip(*(part.tolist() for part in match.top(n)), strict=True))


def bm25_scores(rows: Iterable[Row], query: Mapping[int, float]) -> dict[int, float]:
    """The score of every row that holds a word of the query, counted over `rows` alone."""
    held = {row.row: dict(row.words) for row in rows}
    lengths = {row.row: row.length for row in rows}
    mean = sum(lengths.values()) / len(lengths) if lengths else 0.0
    factors: dict[int, float] = {}
    for term, weight in query.items():
        frequency = sum(term in words for words in held.values())
        if frequency and weight:
            idf = math.log1p((len(held) + 100 - frequency + 0.5) / (frequency + 0.5))
            factors[term] = weight * idf
    scores: dict[int, float] = {}
    for row, words in held.items():
        norm = lengths[row] * (K1 * B / mean if mean else 0.0) + K1 * (1.0 - B)
        total = 0.0
        for term, factor in factors.items():
            count = float(min(words.get(term, 0), 255))
            total += factor * (count * (K1 + 1.0) / (count + norm))
        if total > 0.0:
            scores[row] = total
    return scores


class ReferenceBM25(rank_bm25.BM25Okapi):  # type: ignore[misc]  # the package has no types
    """BM25 as another hand wrote it.

    Okapi's own idf has a floor for words that half of the rows hold. `BM25L`
    has the one without, which ours is for PRIOR_ROWS more rows.
    """

    corpus_size: int

    def _calc_idf(self, nd: dict[str, int]) -> None:
        rows = self.corpus_size
        self.corpus_size += PRIOR_ROWS
        rank_bm25.BM25L._calc_idf(self, nd)
        self.corpus_size = rows


def best(scores: Mapping[int, float], n: int) -> list[tuple[int, float]]:
    """The `n` best, equal scores by row."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:n]


def words() -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """A row's words, from a small pool that collides, with counts up to beyond a byte."""
    counts = st.integers(1, 4) | st.sampled_from((8, 255, 256, 60_000))
    return st.dictionaries(st.sampled_from(TERMS), counts, max_size=6).map(
        lambda held: tuple(sorted(held.items()))
    )


def rows(highest: int = 40) -> st.SearchStrategy[Row]:
    """Rows of a few owners, often the same ones again."""
    return st.builds(
        Row,
        row=st.integers(1, highest),
        owner=st.integers(0, 3),
        strand=st.integers(0, 2),
        previous=st.integers(0, highest),
        speaker=st.integers(0, 2),
        kind=st.integers(0, 2),
        created_at=st.integers(0, 9),
        length=st.integers(0, 9) | st.sampled_from((100, 10_000)),
        flags=st.sampled_from((0, 0, 0, 2, 1)),
        words=words(),
    )


def queries() -> st.SearchStrategy[dict[int, float]]:
    """Words to look for, with weights; one word in the pool is never held by anything."""
    weights = st.sampled_from((0.0, 0.5, 1.0, 1.0)) | st.floats(0, 10)
    return st.dictionaries(st.sampled_from((*TERMS, 77)), weights, max_size=6)


def scopes(highest: int = 40) -> st.SearchStrategy[RowScope]:
    """Scopes that narrow by any mixture of owners, rows, kinds, times and flags."""
    chosen = st.lists(st.integers(0, highest + 2), max_size=highest).map(
        lambda ids: np.array(ids, dtype=np.int64)
    )
    plain = st.builds(RowScope, owners=st.none() | st.frozensets(st.integers(0, 4), max_size=4))
    return plain | st.builds(
        RowScope,
        owners=st.none() | st.frozensets(st.integers(0, 4), max_size=4),
        rows=st.none() | chosen,
        kinds=st.none() | st.frozensets(st.integers(0, 3), max_size=3),
        created_from_us=st.none() | st.integers(0, 9),
        created_before_us=st.none() | st.integers(0, 9),
        without_flags=st.sampled_from((0, 2)),
    )
