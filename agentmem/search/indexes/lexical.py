"""Words to rows: postings on arrays that grow with the store and answer for any scope.

The newest rows lie in a short tail that is searched as it is; a full tail
becomes a segment, and segments are joined when the one before is not much
larger, so that there are few of them and a row is moved a few dozen times in
its life, always beside the searches and never in their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.checks import require_count, require_number
from agentmem.base.errors import InvalidInput, InvalidNumber
from agentmem.base.guards import IndexUpkeep
from agentmem.search.indexes.match import (
    EMPTY,
    Columns,
    Match,
    Piece,
    Postings,
    Segment,
    build,
    join,
)
from agentmem.search.indexes.rows import DELETED, EVERYTHING, RowScope, RowSelection, RowTable
from agentmem.stores.values import IndexRows

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEAL_ROWS = 512
JOIN_RATIO = 8
BULK_ROWS = 131_072
KEPT_FREQUENCIES = 10_000
SCATTERED = 4
"""Rows in runs shorter than this are looked up one by one."""
K1 = 1.2
B = 0.5


class _Tail:
    """The newest postings, in the order they came."""

    __slots__ = ("counts", "lengths", "positions", "rows", "size", "terms")

    def __init__(self, capacity: int) -> None:
        self.rows = 0
        self.size = 0
        self.terms = np.empty(capacity, dtype=np.uint64)
        self.counts = np.empty(capacity, dtype=np.uint8)
        self.positions = np.empty(capacity, dtype=np.int32)
        self.lengths = np.empty(capacity, dtype=np.int32)

    def append(self, batch: IndexRows, start: int) -> None:
        size = self.size
        end = size + len(batch.terms)
        if end > len(self.terms):
            for name in ("terms", "counts", "positions", "lengths"):
                values = getattr(self, name)
                larger = np.empty(2 * end, dtype=values.dtype)
                larger[:size] = values[:size]
                setattr(self, name, larger)
        self.terms[size:end] = batch.terms
        self.counts[size:end] = batch.counts()
        if len(batch) == 1:
            self.positions[size:end] = start
            self.lengths[size:end] = batch.length[0]
        else:
            sizes = np.diff(batch.term_offsets)
            self.positions[size:end] = np.repeat(np.arange(start, start + len(batch)), sizes)
            self.lengths[size:end] = np.repeat(batch.length, sizes)
        self.size = end
        self.rows += len(batch)

    def sealed(self) -> Segment:
        end = self.size
        return build(
            self.terms[:end],
            self.counts[:end],
            positions=self.positions[:end],
            lengths=self.lengths[:end],
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """All postings at one moment."""

    segments: Sequence[Segment]
    terms: NDArray[np.uint64]
    counts: NDArray[np.uint8]
    positions: NDArray[np.int32]


class PostingsIndex:
    """BM25 over rows in memory; safe to use from several threads.

    `background=False` does all upkeep inside the call that makes it due.
    """

    def __init__(
        self,
        table: RowTable | None = None,
        *,
        base: Segment | None = None,
        background: bool = True,
        seal_rows: int = SEAL_ROWS,
        join_ratio: int = JOIN_RATIO,
        bulk_rows: int = BULK_ROWS,
    ) -> None:
        self.table = RowTable() if table is None else table
        self._seal_rows = require_count(seal_rows, "seal_rows", least=1)
        self._join_ratio = require_count(join_ratio, "join_ratio", least=1)
        self._bulk_rows = require_count(bulk_rows, "bulk_rows", least=1)
        self._segments: list[Segment] = [base] if base is not None and base.size else []
        self._tail = self._new_tail()
        self._compactions = 0
        self.upkeep = IndexUpkeep(self._tidy, background=background)

    def __len__(self) -> int:
        return self.table.live_count

    # -- changing -----------------------------------------------------------------

    def add(self, batch: IndexRows) -> None:
        """Take rows in; one that is here already is replaced, one flagged deleted is taken out."""
        if not isinstance(batch, IndexRows):
            raise InvalidInput("batch", batch, "is not IndexRows")
        deleted = (batch.flags & DELETED) != 0
        if deleted.any():
            self.delete(batch.rows[deleted])
            batch = batch.without(deleted)
        with self.table.lock:
            if len(batch) < self._seal_rows:
                self._tail.append(batch, self.table.append(batch))
                due = self._tail.rows >= self._seal_rows
                if due:
                    self._seal()
            else:
                self._seal()
                for first in range(0, len(batch), self._bulk_rows):
                    self._add_segment(batch.part(first, min(len(batch), first + self._bulk_rows)))
                due = True
            due = due or self._compaction_due()
        if due:
            self.upkeep.wake()

    def delete(self, rows: NDArray[Any] | Sequence[int]) -> int:
        """Take rows out and return how many were here."""
        wanted = np.asarray(rows)
        if wanted.size and not np.issubdtype(wanted.dtype, np.integer):
            raise InvalidInput("rows", rows, "is not a list of row ids")
        with self.table.lock:
            count = self.table.delete(wanted)
            due = bool(count) and self._compaction_due()
        if due:
            self.upkeep.wake()
        return count

    def compact(self) -> None:
        """Make one segment of all that is live, an owner's rows side by side; no dead stay."""
        self.snapshot()

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], Segment]:
        """Every live row's columns and words at one moment, as the one segment they now are."""
        while True:
            with self.table.lock:
                tidy = not self.table.dead_count and not self._tail.rows and not self.table.mixed
                if tidy and len(self._segments) <= 1:
                    end = self.table.size
                    columns = {name: v[:end] for name, v in self.table.column.items()}
                    return columns, self._segments[0] if self._segments else EMPTY
            self.upkeep.wait()
            self._compact()

    def close(self) -> None:
        """Let the job at hand finish; searches still work."""
        self.upkeep.close()

    def _add_segment(self, batch: IndexRows) -> None:
        start = self.table.append(batch)
        sizes = np.diff(batch.term_offsets)
        positions = np.arange(start, start + len(batch), dtype=np.int32)
        segment = build(
            batch.terms,
            batch.counts(),
            positions=np.repeat(positions, sizes),
            lengths=np.repeat(batch.length, sizes),
        )
        if segment.size:
            self._segments.append(segment)

    def _new_tail(self) -> _Tail:
        return _Tail(min(self._seal_rows, 1024) * 32)

    def _seal(self) -> None:
        if self._tail.size:
            self._segments.append(self._tail.sealed())
        if self._tail.rows:
            self._tail = self._new_tail()

    # -- upkeep ---------------------------------------------------------------------

    def _tidy(self) -> bool:
        """Do the one job that is most due; whether there was one."""
        with self.table.lock:
            compact = self._compaction_due()
            run = self._run_to_join()
            live = self.table.live
        if compact:
            self._compact()
        elif run:
            self._swap(run, join(run, live))
        else:
            return False
        return True

    def _compaction_due(self) -> bool:
        return self.table.dead_count > max(2 * self._seal_rows, self.table.size // 8)

    def _run_to_join(self) -> list[Segment]:
        """The newest segments that are worth making one, if any."""
        known = self._segments
        first = len(known) - 1
        total = known[first].size if known else 0
        while first > 0 and known[first - 1].size < self._join_ratio * total:
            first -= 1
            total += known[first].size
        return known[first:] if first < len(known) - 1 else []

    def _swap(self, old: Sequence[Segment], new: Segment) -> None:
        with self.table.lock:
            first = next((i for i, s in enumerate(self._segments) if s is old[0]), None)
            if first is None or any(
                a is not b for a, b in zip(self._segments[first:], old, strict=False)
            ):
                return  # a compaction came first
            replaced = [new] if new.size else []
            self._segments = self._segments[:first] + replaced + self._segments[first + len(old) :]

    def _compact(self) -> None:
        with self.table.lock:
            self._seal()
            end = self.table.size
            before = self._compactions
            old = list(self._segments)
            live = self.table.live[:end].copy()
            columns = {name: values[:end] for name, values in self.table.column.items()}
        kept = np.flatnonzero(live)
        kept = kept[np.argsort(columns["owner"][kept], kind="stable")]
        renumbered = np.zeros(end, dtype=np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        table = RowTable.from_columns({name: v[kept] for name, v in columns.items()})
        joined = join(old, live, renumbered)
        with self.table.lock:
            if self._compactions != before or self._segments[: len(old)] != old:
                return  # another compaction or a join came first
            self._compactions += 1
            moved = self.table.adopt(table, end=end)
            newer = [_moved(s, moved) for s in self._segments[len(old) :]]
            self._segments = ([joined] if joined.size else []) + newer
            if self._tail.rows:
                tail = self._new_tail()
                tail.terms, tail.counts = self._tail.terms, self._tail.counts
                tail.positions = self._tail.positions - np.int32(moved)
                tail.lengths, tail.size = self._tail.lengths, self._tail.size
                tail.rows = self._tail.rows
                self._tail = tail

    # -- searching --------------------------------------------------------------------

    def match(
        self,
        terms: NDArray[np.uint64] | Sequence[int],
        weights: NDArray[np.float64] | Sequence[float] | None = None,
        *,
        scope: RowScope = EVERYTHING,
        k1: float = K1,
        b: float = B,
    ) -> Match:
        """What the query's words find in `scope`: the best rows, or the score of any.

        Weights multiply idf, 1 when left out; a word given twice counts with both.
        """
        wanted, factors = _query(terms, weights)
        k1 = require_number(k1, "k1", low=0.0, high=100.0)
        b = require_number(b, "b", low=0.0, high=1.0)
        table = self.table
        with table.lock:
            selection = table.select(scope)
            tail = self._tail
            parts = _Parts(
                segments=tuple(self._segments),
                terms=tail.terms[: tail.size],
                counts=tail.counts[: tail.size],
                positions=tail.positions[: tail.size],
            )
            unlisted = selection.whole or selection.wide
            outside = None
            if not selection.whole:
                outside = selection.outside() if unlisted else None
            elif table.dead_count:
                outside = table.dead_positions()
            row, length, end = table.column["rows"], table.column["length"], table.size
            if not unlisted:
                row, length = selection.taken(row, length)
                end = selection.count
            columns = Columns(
                row=row,
                length=length,
                inside=selection.mask() if unlisted and not selection.whole else table.live,
                position_of=table.position_of,
                listed=None if unlisted else selection.positions,
                end=end,
            )
        found = _find(parts, wanted)
        return Match(
            [
                _unlisted(term, one, selection, outside, lengths=columns.length, weight=weight)
                if unlisted
                else _in_scope(one, selection, lengths=columns.length, weight=weight)
                for term, one, weight in zip(wanted.tolist(), found, factors, strict=True)
            ],
            columns,
            row_count=selection.count,
            mean_length=selection.mean_length,
            k1=k1,
            b=b,
        )

    def search(
        self,
        terms: NDArray[np.uint64] | Sequence[int],
        weights: NDArray[np.float64] | Sequence[float] | None = None,
        *,
        n: int,
        scope: RowScope = EVERYTHING,
        k1: float = K1,
        b: float = B,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The `n` best rows of `scope` and their scores; see `Match.top`."""
        require_count(n, "n")
        return self.match(terms, weights, scope=scope, k1=k1, b=b).top(n)


def _query(
    terms: NDArray[np.uint64] | Sequence[int],
    weights: NDArray[np.float64] | Sequence[float] | None,
) -> tuple[NDArray[np.uint64], list[float]]:
    try:
        wanted = np.asarray(terms, dtype=np.uint64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("terms", terms, "is not a list of 64-bit hashes") from None
    if weights is None:
        factors = [1.0] * len(wanted)
    else:
        factors = np.asarray(weights, dtype=np.float64).reshape(-1).tolist()
    if len(factors) != len(wanted):
        raise InvalidInput("weights", weights, f"is not one weight for each of {len(wanted)} terms")
    for weight in factors:
        if not 0.0 <= weight < np.inf:
            raise InvalidNumber("weights", weight, "is negative or not finite")
    merged: dict[int, float] = {}
    for term, weight in zip(wanted.tolist(), factors, strict=True):
        merged[term] = merged.get(term, 0.0) + weight
    return np.array(list(merged), dtype=np.uint64), list(merged.values())


def _find(parts: _Parts, terms: NDArray[np.uint64]) -> list[list[Piece]]:
    """Each term's postings in the whole table, dead ones included, by position."""
    found: list[list[Piece]] = [[] for _ in range(len(terms))]
    for segment in parts.segments:
        at = segment.terms.searchsorted(terms)
        here = segment.terms.take(at, mode="clip") == terms
        firsts = segment.offsets.take(at, mode="clip").tolist()
        lasts = segment.offsets.take(at + 1, mode="clip").tolist()
        for number in here.nonzero()[0].tolist():
            first, last = firsts[number], lasts[number]
            found[number].append(
                (
                    segment.positions[first:last],
                    segment.counts[first:last],
                    segment.codes[first:last],
                )
            )
    if len(parts.terms):
        which, at = np.nonzero(parts.terms == terms[:, None])
        positions, counts = parts.positions.take(at), parts.counts.take(at)
        bounds = which.searchsorted(np.arange(len(terms) + 1)).tolist()
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                found[number].append((positions[first:last], counts[first:last], None))
    return found


def _unlisted(
    term: int,
    found: Sequence[Piece],
    selection: RowSelection,
    outside: NDArray[np.int32] | None,
    *,
    lengths: NDArray[np.int32],
    weight: float,
) -> Postings:
    """All postings of a word, and how many of them are in a scope of most of the table.

    Those of the dead and of others stay in the list: they are counted out here
    and left out of the results later, which costs less than copying the list.
    """
    postings = Postings(found, lengths=lengths, frequency=0, weight=weight)
    postings.frequency = postings.size
    if outside is not None:
        known = selection.frequencies.get(term)
        if known is None:
            known = postings.size - sum(_shared(positions, outside) for positions, _, _ in found)
            if len(selection.frequencies) >= KEPT_FREQUENCIES:
                selection.frequencies.clear()
            selection.frequencies[term] = known
        postings.frequency = known
    return postings


def _in_scope(
    found: Sequence[Piece], selection: RowSelection, *, lengths: NDArray[np.int32], weight: float
) -> Postings:
    """The postings of the rows in a scope that is a list, by their places in that list."""
    postings = Postings(
        [_listed(piece, selection) for piece in found], lengths=lengths, frequency=0, weight=weight
    )
    postings.frequency = postings.size
    return postings


def _listed(piece: Piece, selection: RowSelection) -> Piece:
    """What lies in the runs of the scope when they are few, else one lookup each."""
    positions, counts, codes = piece
    wanted = selection.positions
    if wanted is None:
        raise AssertionError("a whole table has no list")
    starts, ends, places = selection.runs()
    if len(starts) == 1:
        part = slice(*positions.searchsorted((starts[0], ends[0])).tolist())
        return positions[part] - starts[0], counts[part], None if codes is None else codes[part]
    here: NDArray[Any]
    if SCATTERED * len(starts) > len(wanted):
        if len(positions) > 32 * len(wanted):
            at = positions.searchsorted(wanted)
            here = np.flatnonzero(positions.take(at, mode="clip") == wanted)
            at = at.take(here)
        else:
            at = np.flatnonzero(selection.mask().take(positions))
            here = wanted.searchsorted(positions.take(at))
    else:
        firsts = positions.searchsorted(starts)
        sizes = positions.searchsorted(ends) - firsts
        at = np.repeat(firsts - np.cumsum(sizes) + sizes, sizes)
        at += np.arange(len(at))
        here = positions.take(at) - np.repeat(starts - places, sizes)
    held = here.astype(np.int32, copy=False)
    return held, counts.take(at), None if codes is None else codes.take(at)


def _shared(positions: NDArray[np.int32], dead: NDArray[np.int32]) -> int:
    """How many of `positions` are dead; both ascending."""
    few, many = (positions, dead) if len(positions) < len(dead) else (dead, positions)
    if not len(few):
        return 0
    at = many.searchsorted(few)
    return int(np.count_nonzero(many.take(at, mode="clip") == few))


def _moved(segment: Segment, down: int) -> Segment:
    return Segment(
        terms=segment.terms,
        offsets=segment.offsets,
        positions=segment.positions - np.int32(down),
        counts=segment.counts,
        codes=segment.codes,
    )
