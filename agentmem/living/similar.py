"""Which memories of one audience are alike: by their vectors, by their words, by their hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from agentmem.core.living.merging import choose_survivor
from agentmem.core.living.plans import SimilarPair, is_active
from agentmem.core.scope import audience
from agentmem.types import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.manager.base import Base

BLOCK_ROWS = 1_024
WHOLE_ROWS = 50_000
"""Up to so many vectors of one audience are compared each with each; beyond, the index is asked."""
MOST_ALIKE = 16
"""So many neighbours of one memory are looked at."""
ALIKE_WORDS = 0.92
HASHES, BAND, BESIDE = 48, 6, 8
"""Min-wise hashes of a row's terms, how far apart the sortings begin, and who is looked at."""

Row = int
Audience = tuple[Any, ...]


def find_similar(
    memory: Base,
    rows: Mapping[Row, Memory],
    *,
    changed: Collection[Row] | None = None,
    least: float,
    related: float = 1.0,
    related_kinds: Collection[str] = (),
) -> tuple[SimilarPair, ...]:
    """Pairs at least `least` alike among memories that the same people see.

    Of `related_kinds`, pairs that are at least `related` alike, too. With
    `changed`, only pairs with one of these rows. Memories with a vector are
    compared by it, the others by their words. The same text is alike in any
    case.
    """
    audiences: dict[Audience, list[Row]] = defaultdict(list)
    for row, one in rows.items():
        if is_active(one):
            audiences[audience(one)].append(row)
    touched = None if changed is None else set(changed)
    found: dict[tuple[Row, Row], float] = {}
    for members in audiences.values():
        if touched is not None and touched.isdisjoint(members):
            continue
        for first, second in _same_text(members, rows, touched):
            found[first, second] = 1.0
        near: dict[tuple[Row, Row], float] = {}
        lowest = min(least, related) if related_kinds else least
        seen = _by_vector(memory, sorted(members), touched, lowest, near)
        for (first, second), alike in near.items():
            kinds = {rows[first].kind, rows[second].kind}
            if alike >= least or kinds.issubset(related_kinds):
                found[first, second] = max(found.get((first, second), -1.0), alike)
        rest = [row for row in members if row not in seen]
        _by_words(memory, sorted(rest), touched, max(least, ALIKE_WORDS), found)
    return tuple(
        SimilarPair(first=rows[first].id, second=rows[second].id, similarity=min(1.0, value))
        for (first, second), value in sorted(found.items())
    )


def _same_text(
    members: Sequence[Row], rows: Mapping[Row, Memory], changed: set[Row] | None
) -> Iterator[tuple[Row, Row]]:
    """Each memory with the one of the same text that would stay."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in members:
        one = rows[row]
        groups[one.text, one.kind, one.origin, one.speaker].append(row)
    for group in groups.values():
        if len(group) < 2 or (changed is not None and changed.isdisjoint(group)):
            continue
        by_id = {rows[row].id: row for row in group}
        best = by_id[reduce(lambda a, b: choose_survivor(a, b)[0], (rows[r] for r in group)).id]
        for row in group:
            if row != best:
                yield min(row, best), max(row, best)


def _by_vector(
    memory: Base,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> set[Row]:
    """Adds what is near in the served embedder's space; gives the rows that have a vector."""
    import numpy as np

    embedder = memory.embedding.serving_id
    if embedder is None or len(members) < 2:
        return set()
    if len(members) > WHOLE_ROWS:
        return _by_index(memory, members, changed, least, found)
    keys, vectors = memory.store.feed.vectors(embedder, rows=members)
    if not len(keys):
        return set()
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    asking = (
        np.arange(len(keys))
        if changed is None
        else np.flatnonzero(np.isin(keys, np.fromiter(changed, np.int64, len(changed))))
    )
    for start in range(0, len(asking), BLOCK_ROWS):
        here = asking[start : start + BLOCK_ROWS]
        cosines: NDArray[np.float32] = units[here] @ units.T
        cosines[np.arange(len(here)), here] = -1
        _add_nearest(keys, here, cosines, least, found)
    return {int(key) for key in keys}


def _add_nearest(
    keys: NDArray[np.int64],
    here: NDArray[np.int64],
    cosines: NDArray[np.float32],
    least: float,
    found: dict[tuple[Row, Row], float],
) -> None:
    import numpy as np

    most = min(MOST_ALIKE, cosines.shape[1])
    near = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
    values = np.take_along_axis(cosines, near, axis=1)
    for own, place in zip(*(axis.tolist() for axis in np.nonzero(values >= least)), strict=True):
        one, other = int(keys[here[own]]), int(keys[near[own, place]])
        pair = (min(one, other), max(one, other))
        found[pair] = max(found.get(pair, -1.0), float(values[own, place]))


def _by_index(
    memory: Base,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> set[Row]:
    """The same, row by row through the index: exact comparison would take too long."""
    import numpy as np

    from agentmem.indexes.scope import RowScope

    embedder = memory.embedding.serving_id
    if embedder is None:
        return set()
    memory.index.catch_up()
    index = memory.index.vectors(embedder)
    scope = RowScope(rows=np.asarray(members, dtype=np.int64))
    asking = members if changed is None else [row for row in members if row in changed]
    for start in range(0, len(asking), BLOCK_ROWS):
        keys, vectors = memory.store.feed.vectors(embedder, rows=asking[start : start + BLOCK_ROWS])
        for key, vector in zip(keys.tolist(), vectors, strict=True):
            near, cosines = index.search(vector, MOST_ALIKE + 1, scope=scope)
            for other, value in zip(near.tolist(), cosines.tolist(), strict=True):
                if other != key and value >= least:
                    pair = (min(key, other), max(key, other))
                    found[pair] = max(found.get(pair, -1.0), value)
    return set(members)


def _by_words(
    memory: Base,
    members: Sequence[Row],
    changed: set[Row] | None,
    least: float,
    found: dict[tuple[Row, Row], float],
) -> None:
    """Adds pairs whose sets of terms are alike: the shared ones over the root of both counts.

    Which pairs to look at is told by min-wise hashes: sets that are alike have
    most of them in common, so they stand beside each other when rows are
    sorted by them, beginning at one of several places. A few pairs are missed.
    """
    import numpy as np

    if len(members) < 2:
        return
    indexed = memory.store.feed.index_rows(rows=members)
    sizes = np.diff(indexed.term_offsets)
    keys = [int(row) for row in indexed.rows[sizes > 0]]
    if len(keys) < 2:
        return
    starts = indexed.term_offsets[:-1][sizes > 0]
    ends = (starts + sizes[sizes > 0]).tolist()
    marks = _signatures(indexed.terms, starts)
    terms = [
        frozenset(indexed.terms[start:end].tolist())
        for start, end in zip(starts.tolist(), ends, strict=True)
    ]
    for first in range(0, HASHES, BAND):
        columns = [marks[(first + place) % HASHES] for place in range(2 * BAND)]
        order = np.lexsort(columns[::-1]).tolist()
        for place, one in enumerate(order):
            for other in order[place + 1 : place + 1 + BESIDE]:
                pair = (min(keys[one], keys[other]), max(keys[one], keys[other]))
                if pair in found or (changed is not None and changed.isdisjoint(pair)):
                    continue
                alike = _shared(terms[one], terms[other])
                if alike >= least:
                    found[pair] = alike


def _signatures(terms: NDArray[np.uint64], starts: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
    """For each of `HASHES` ways to hash, the least hash of each row's terms."""
    import numpy as np

    numbers = np.random.default_rng(1)  # any fixed numbers will do
    made = []
    for _ in range(HASHES):
        factor, mask = numbers.integers(1, 1 << 63, 2, dtype=np.uint64) * np.uint64(2) + np.uint64(
            1
        )
        made.append(np.minimum.reduceat((terms ^ mask) * factor, starts))
    return made


def _shared(one: frozenset[int], other: frozenset[int]) -> float:
    product = len(one) * len(other)
    return 0.0 if not product else float(len(one & other) / product**0.5)
