"""Which memories of one audience are alike: by their vectors, by their words, by their hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from agentmem.core.living.merging import choose_survivor
from agentmem.core.living.plans import SimilarPair, is_active
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

Row = int
Audience = tuple[Any, ...]


def find_similar(
    memory: Base,
    rows: Mapping[Row, Memory],
    *,
    changed: Collection[Row] | None = None,
    least: float,
) -> tuple[SimilarPair, ...]:
    """Pairs at least `least` alike among memories that the same people see.

    With `changed`, only pairs with one of these rows. Memories with a vector
    are compared by it, the others by their words. The same text is alike in
    any case.
    """
    audiences: dict[Audience, list[Row]] = defaultdict(list)
    for row, one in rows.items():
        if is_active(one):
            audiences[one.scope, one.visibility].append(row)
    touched = None if changed is None else set(changed)
    found: dict[tuple[Row, Row], float] = {}
    for members in audiences.values():
        if touched is not None and touched.isdisjoint(members):
            continue
        for first, second in _same_text(members, rows, touched):
            found[first, second] = 1.0
        seen = _by_vector(memory, sorted(members), touched, least, found)
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

    at, near = np.nonzero(cosines >= least)
    values = cosines[at, near]
    order = np.lexsort((keys[near], -values, at))
    taken: dict[int, int] = defaultdict(int)
    for place in order.tolist():
        own = int(at[place])
        taken[own] += 1
        if taken[own] <= MOST_ALIKE:
            one, other = int(keys[here[own]]), int(keys[near[place]])
            pair = (min(one, other), max(one, other))
            found[pair] = max(found.get(pair, -1.0), float(values[place]))


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

    Two such sets share one of their rarest terms, so only rows that do are compared.
    """
    if len(members) < 2:
        return
    indexed = memory.store.feed.index_rows(rows=members)
    offsets = indexed.term_offsets.tolist()
    terms = [
        frozenset(indexed.terms[offsets[at] : offsets[at + 1]].tolist())
        for at in range(len(indexed.rows))
    ]
    keys = [int(row) for row in indexed.rows]
    holders: dict[int, int] = defaultdict(int)
    for held in terms:
        for term in held:
            holders[term] += 1
    by_rare: dict[int, list[int]] = defaultdict(list)
    for at, held in enumerate(terms):
        needed = len(held) - int(least * least * len(held)) + 1
        for term in sorted(held, key=lambda term: (holders[term], term))[:needed]:
            by_rare[term].append(at)
    taken: dict[int, int] = defaultdict(int)
    for group in by_rare.values():
        for place, one in enumerate(group):
            for other in group[place + 1 : place + 1 + BLOCK_ROWS]:
                if taken[one] >= MOST_ALIKE or taken[other] >= MOST_ALIKE:
                    continue
                pair = (keys[one], keys[other])
                if pair in found or (changed is not None and changed.isdisjoint(pair)):
                    continue
                alike = _shared(terms[one], terms[other])
                if alike >= least:
                    found[pair] = alike
                    taken[one] += 1
                    taken[other] += 1


def _shared(one: frozenset[int], other: frozenset[int]) -> float:
    product = len(one) * len(other)
    return 0.0 if not product else float(len(one & other) / product**0.5)
