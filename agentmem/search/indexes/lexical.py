"""Words to rows: postings on arrays that grow with the store and answer for any scope.

BM25 with the statistics of the rows in scope and of no others (P24): how many
there are, how many hold each word, how long they are on average.

The newest rows lie in a short tail that is searched as it is; a full tail
becomes a segment, and segments are joined when the one before is not much
larger, so that there are few of them and a row is moved a few dozen times in
its life, always beside the searches and never in their way.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from agentmem.base.guards import IndexUpkeep
from agentmem.search.indexes.rows import (
    COLUMNS,
    DELETED,
    EVERYTHING,
    RowScope,
    RowSelection,
    RowTable,
    distinct,
    firsts_of,
    grown,
)
from agentmem.stores.values import IndexRows
from agentmem.text.terms import K1, B, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# Postings that never change: made from a batch, joined with their neighbours, cleared of the
# dead.
#
# Terms are sorted; a term's postings are the positions that hold it, ascending, with the count
# in each.


PIECE = 1 << 20
"""Postings joined at a time: bounds both the memory and how long a search waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """Postings of a run of positions."""

    terms: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    positions: NDArray[np.int32]
    counts: NDArray[np.uint8]

    @property
    def size(self) -> int:
        return len(self.positions)


EMPTY = Segment(
    terms=np.zeros(0, dtype=np.uint64),
    offsets=np.zeros(1, dtype=np.int64),
    positions=np.zeros(0, dtype=np.int32),
    counts=np.zeros(0, dtype=np.uint8),
)


def build(
    terms: NDArray[np.uint64], counts: NDArray[np.uint8], positions: NDArray[np.int32]
) -> Segment:
    """A segment of postings in the order of their positions, one value each."""
    if not len(terms):
        return EMPTY
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    firsts = firsts_of(ordered)
    return Segment(
        terms=ordered[firsts],
        offsets=np.append(firsts, len(terms)).astype(np.int64),
        positions=positions[order],
        counts=counts[order],
    )


def join(
    segments: Sequence[Segment],
    live: NDArray[np.bool_],
    renumbered: NDArray[np.int32] | None = None,
) -> Segment:
    """One segment of the live postings of `segments`, whose positions follow each other.

    With `renumbered`, positions become what it says, in any order.
    """
    if not segments:
        return EMPTY
    terms = distinct(np.concatenate([segment.terms for segment in segments]))
    numbers = [terms.searchsorted(segment.terms) for segment in segments]
    sizes = np.zeros(len(terms), dtype=np.int64)
    for segment, number in zip(segments, numbers, strict=True):
        sizes[number] += np.diff(segment.offsets)
    ends = np.cumsum(sizes)
    positions = np.empty(int(sizes.sum()), dtype=np.int32)
    counts = np.empty(len(positions), dtype=np.uint8)
    left = np.empty(len(terms), dtype=np.int64)
    written = at = 0
    while at < len(terms):
        done = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        parts = [
            _live_part(segment, number, int(first), int(last), live)
            for segment, number in zip(segments, numbers, strict=True)
            for first, last in [number.searchsorted((at, until))]
        ]
        which, held, often = (np.concatenate(values) for values in zip(*parts, strict=True))
        if renumbered is not None:
            held = renumbered.take(held)
        order = np.argsort((which << np.int64(32)) | held)
        end = written + len(held)
        positions[written:end], counts[written:end] = held.take(order), often.take(order)
        left[at:until] = np.bincount(which - at, minlength=until - at)
        written, at = end, until
    present = left > 0
    return Segment(
        terms=terms[present],
        offsets=np.concatenate(([0], np.cumsum(left[present]))).astype(np.int64),
        positions=positions[:written].copy(),
        counts=counts[:written].copy(),
    )


def _live_part(
    segment: Segment, numbers: NDArray[np.int64], first: int, last: int, live: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.uint8]]:
    """The live postings of some of a segment's terms: each one's number, position and count."""
    offsets = segment.offsets[first : last + 1]
    part = slice(int(offsets[0]), int(offsets[-1]))
    positions = segment.positions[part]
    keep = live.take(positions)
    which = np.repeat(numbers[first:last], np.diff(offsets))
    return which.compress(keep), positions.compress(keep), segment.counts[part].compress(keep)


class _Tail:
    """The newest postings, in the order they came: term, count, position."""

    def __init__(self) -> None:
        self.rows = 0
        self._size = 0
        self._values = [np.empty(1 << 14, dtype=dtype) for dtype in (np.uint64, np.uint8, np.int32)]

    def append(self, batch: IndexRows, start: int) -> None:
        size, end = self._size, self._size + len(batch.terms)
        if end > len(self._values[0]):
            self._values = [grown(values[:size], 2 * end) for values in self._values]
        positions = np.repeat(
            np.arange(start, start + len(batch), dtype=np.int32), np.diff(batch.term_offsets)
        )
        given: list[NDArray[Any]] = [batch.terms, batch.counts(), positions]
        for values, new in zip(self._values, given, strict=True):
            values[size:end] = new
        self._size = end
        self.rows += len(batch)

    def columns(self) -> list[NDArray[Any]]:
        return [values[: self._size] for values in self._values]


# ----------------------------------------------------------------------------
# One query's words against one scope: the best rows, and the words of any row.


CHEAP = 1 << 14
"""Up to so many postings are sooner added up than it is asked which of them may be left out."""
_STEP = 12  # looking a row up costs about as much as adding up this many postings
_SLACK = 1.0 - 1e-4  # sums are kept in four bytes
_TINY = np.float32(1e-30)  # a sum of 0 would say that no word is there

_NOTHING = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.uint8)

Piece = tuple["NDArray[np.int32]", "NDArray[np.uint8]"]
"""Positions that hold a word, ascending, and how often."""


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The rows in scope that hold one word of the query, by their place in it, and how often."""

    places: NDArray[np.int32]
    counts: NDArray[np.uint8]

    def counts_at(self, places: NDArray[np.int32]) -> NDArray[np.uint8]:
        """How often the word stands at each place, 0 where it does not."""
        if not len(self.places):
            return np.zeros(len(places), dtype=np.uint8)
        at = self.places.searchsorted(places)
        found = self.places.take(at, mode="clip") == places
        counts: NDArray[np.uint8] = self.counts.take(at, mode="clip") * found
        return counts


class Match:
    """What one query finds in one scope at one moment; later changes do not touch it."""

    def __init__(
        self, found: Sequence[Sequence[Piece]], weights: Sequence[float], selection: RowSelection
    ) -> None:
        self.selection = selection
        self.row_count = selection.count
        self.mean_length = selection.mean_length
        self._found = found
        self._weights = weights

    @cached_property
    def _postings(self) -> list[Postings]:
        made = []
        for pieces in self._found:
            parts = [self.selection.within(*piece) for piece in pieces]
            if len(parts) != 1:
                joined = map(np.concatenate, zip(_NOTHING, *parts, strict=True))
                parts = [cast("Piece", tuple(joined))]
            made.append(Postings(*parts[0]))
        return made

    @cached_property
    def _factors(self) -> list[float]:
        """What a word counts."""
        return [
            weight * idf(len(held.places), self.row_count) if len(held.places) else 0.0
            for held, weight in zip(self._postings, self._weights, strict=True)
        ]

    @property
    def row_frequencies(self) -> NDArray[np.int64]:
        """How many rows in scope hold each word, in the order of the query."""
        return np.array([len(held.places) for held in self._postings], dtype=np.int64)

    def top(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The `n` best rows and their scores, best first, equal scores by row id; exact.

        Rows that hold no word of the query are never among them.
        """
        pairs = zip(self._postings, self._factors, strict=True)
        used = sorted(
            ((held, factor) for held, factor in pairs if factor > 0.0),
            key=lambda pair: len(pair[0].places),
        )
        if n <= 0 or not used:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        places = self._contenders(used, n)
        scores = self._score(places)
        rows = self.selection.rows_and_lengths[0].take(places).astype(np.int64)
        order = np.lexsort((rows, -scores))[:n]
        return rows[order], scores[order]

    def counts_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """How often each row holds each word of the query: one line a row, one column a word."""
        places = self.selection.places_of(rows)
        order = places.argsort()  # in order they are found sooner
        wanted = places.take(order)
        counts = np.zeros((len(rows), len(self._postings)), dtype=np.uint8)
        for number, held in enumerate(self._postings):
            counts[order, number] = held.counts_at(wanted)
        return counts

    def _norm(self, lengths: NDArray[Any]) -> NDArray[Any]:
        """What a row's length costs its words."""
        lengths *= K1 * B / self.mean_length if self.mean_length else 0.0
        lengths += K1 * (1.0 - B)
        return lengths

    def _score(self, places: NDArray[np.int32]) -> NDArray[np.float64]:
        """Exact scores: always the same sum in the same order, however a row was found."""
        lengths = self.selection.rows_and_lengths[1]
        norm = self._norm(lengths.take(places).astype(np.float64))
        total = np.zeros(len(places), dtype=np.float64)
        for held, factor in zip(self._postings, self._factors, strict=True):
            if factor > 0.0:
                counts = held.counts_at(places).astype(np.float64)
                total += factor * (counts * (K1 + 1.0) / (counts + norm))
        return total

    def _contenders(self, used: Sequence[tuple[Postings, float]], n: int) -> NDArray[np.int32]:
        """Every place that can be among the `n` best; `used` is rarest first.

        Words are added up from the rarest on. Once `n` rows reach more than the words that are
        left could give to any other, these words need not be added up: where few rows are so near
        that they might still come in, they are looked up for those alone.
        """
        lengths = self.selection.rows_and_lengths[1]
        sums = np.zeros(len(lengths), dtype=np.float32)
        known = np.zeros(0, dtype=np.int32)
        left = sum(len(held.places) for held, _ in used)
        most = (K1 + 1.0) * sum(factor for _, factor in used)
        for held, factor in used:
            gains = held.counts.astype(np.float32)
            norm = self._norm(lengths.take(held.places).astype(np.float32))
            norm += gains
            gains *= np.float32(factor * (K1 + 1.0))
            gains /= norm
            np.maximum(gains, _TINY, out=gains)
            before = sums.take(held.places)
            sums[held.places] = before + gains
            known = np.concatenate((known, held.places.compress(before == 0.0)))
            left -= len(held.places)
            most -= factor * (K1 + 1.0)
            if len(known) <= n or 0 < left <= CHEAP:
                continue
            reached = sums.take(known)
            least = float(np.partition(reached, len(known) - n)[len(known) - n]) * _SLACK
            if not left or least > most:
                near = np.flatnonzero(reached >= least - max(most, 0.0))
                if len(near) * len(used) * _STEP < left or not left:
                    return known.take(near)
        return known


# ----------------------------------------------------------------------------
# The index: what is added, joined beside the searches, and asked.


class PostingsIndex:
    """BM25 over rows in memory; safe to use from several threads.

    `background=False` does all upkeep inside the call that makes it due.
    """

    seal_rows = 512
    join_ratio = 8
    bulk_rows = 131_072

    def __init__(
        self, table: RowTable | None = None, *, base: Segment = EMPTY, background: bool = True
    ) -> None:
        self.table = RowTable() if table is None else table
        self._segments = _with_postings(base)
        self._tail = _Tail()
        self._job = threading.Lock()
        """Held by who joins or compacts."""
        self.upkeep = IndexUpkeep(self._tidy, background=background)

    def __len__(self) -> int:
        return self.table.live_count

    # -- changing -----------------------------------------------------------------

    def add(self, batch: IndexRows) -> None:
        """Take rows in; one that is here already is replaced, one flagged deleted is taken out."""
        deleted = (batch.flags & DELETED) != 0
        if deleted.any():
            self.delete(batch.rows[deleted])
            batch = batch.without(deleted)
        with self.table.lock:
            before = len(self._segments)
            for first in range(0, len(batch), self.bulk_rows):
                part = batch.part(first, min(len(batch), first + self.bulk_rows))
                columns = {name: getattr(part, name) for name in COLUMNS}
                self._tail.append(part, self.table.append(columns))
                if self._tail.rows >= self.seal_rows:
                    self._seal()
            due = len(self._segments) > before or self._compaction_due()
        if due:
            self.upkeep.wake()

    def delete(self, rows: NDArray[Any] | Sequence[int]) -> int:
        """Take rows out and return how many were here."""
        with self.table.lock:
            count = self.table.delete(np.asarray(rows, dtype=np.int64))
            due = bool(count) and self._compaction_due()
        if due:
            self.upkeep.wake()
        return count

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], Segment]:
        """Every live row's columns and words at one moment, as the one segment they now are: an
        owner's rows side by side, and none of the dead."""
        while True:
            with self.table.lock:
                tidy = not self.table.dead_count and not self._tail.rows and not self.table.mixed
                if tidy and len(self._segments) <= 1:
                    end = self.table.size
                    columns = {name: v[:end] for name, v in self.table.column.items()}
                    return columns, self._segments[0] if self._segments else EMPTY
            self.upkeep.wait()
            with self._job:
                self._compact()

    def close(self) -> None:
        """Let the job at hand finish; searches still work."""
        self.upkeep.close()

    def _seal(self) -> None:
        if self._tail.rows:
            self._segments = _with_postings(*self._segments, build(*self._tail.columns()))
            self._tail = _Tail()

    # -- upkeep ---------------------------------------------------------------------

    def _tidy(self) -> bool:
        """Do the one job that is most due; whether there was one."""
        if not self._job.acquire(blocking=False):
            return False  # who is at it leaves nothing to do
        try:
            with self.table.lock:
                compact = self._compaction_due()
                first = self._first_to_join()
                run, live = self._segments[first:], self.table.live
            if compact:
                self._compact()
            elif len(run) > 1:
                joined = join(run, live)
                with self.table.lock:
                    newer = self._segments[first + len(run) :]
                    self._segments = _with_postings(*self._segments[:first], joined, *newer)
            return compact or len(run) > 1
        finally:
            self._job.release()

    def _compaction_due(self) -> bool:
        return self.table.dead_count > max(2 * self.seal_rows, self.table.size // 8)

    def _first_to_join(self) -> int:
        """From which segment on they are worth making one."""
        known = self._segments
        first = max(0, len(known) - 1)
        total = known[first].size if known else 0
        while first > 0 and known[first - 1].size < self.join_ratio * total:
            first -= 1
            total += known[first].size
        return first

    def _compact(self) -> None:
        """Make one segment of all, without the dead and with each owner's rows side by side."""
        with self.table.lock:
            self._seal()
            end = self.table.size
            old = self._segments
            live = self.table.live[:end].copy()
            columns = {name: values[:end] for name, values in self.table.column.items()}
        kept = np.flatnonzero(live)
        kept = kept[np.argsort(columns["owner"][kept], kind="stable")]
        renumbered = np.zeros(end, dtype=np.int32)
        renumbered[kept] = np.arange(len(kept), dtype=np.int32)
        table = RowTable.restored({name: v[kept] for name, v in columns.items()})
        joined = join(old, live, renumbered)
        with self.table.lock:
            self._seal()
            moved = np.int32(self.table.adopt(table, end=end))
            newer = [replace(s, positions=s.positions - moved) for s in self._segments[len(old) :]]
            self._segments = _with_postings(joined, *newer)

    # -- searching --------------------------------------------------------------------

    def match(
        self, terms: NDArray[np.uint64], weights: Sequence[float], *, scope: RowScope = EVERYTHING
    ) -> Match:
        """What the query's words, each given once, find in `scope`; the weights multiply idf."""
        with self.table.lock:
            selection = self.table.select(scope)
            segments, tail = self._segments, self._tail.columns()
        found: list[list[Piece]] = [[] for _ in range(len(terms))]
        for segment in segments:
            at = segment.terms.searchsorted(terms)
            here = segment.terms.take(at, mode="clip") == terms
            firsts = segment.offsets.take(at, mode="clip").tolist()
            lasts = segment.offsets.take(at + 1, mode="clip").tolist()
            for number in here.nonzero()[0].tolist():
                part = slice(firsts[number], lasts[number])
                found[number].append((segment.positions[part], segment.counts[part]))
        known, counts, positions = tail
        if len(known):
            which, at = np.nonzero(known == terms[:, None])
            positions, counts = positions.take(at), counts.take(at)
            bounds = which.searchsorted(np.arange(len(terms) + 1)).tolist()
            for number, (first, last) in enumerate(pairwise(bounds)):
                if first < last:
                    found[number].append((positions[first:last], counts[first:last]))
        return Match(found, weights, selection)


def _with_postings(*segments: Segment) -> list[Segment]:
    return [segment for segment in segments if segment.size]
