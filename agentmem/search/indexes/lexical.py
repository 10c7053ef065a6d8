"""Words to rows: postings on arrays that grow with the store and answer for any scope.

The newest rows lie in a short tail that is searched as it is; a full tail
becomes a segment, and segments are joined when the one before is not much
larger, so that there are few of them and a row is moved a few dozen times in
its life, always beside the searches and never in their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

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
from agentmem.search.indexes.rows import (
    DELETED,
    EVERYTHING,
    RowScope,
    RowSelection,
    RowTable,
    columns_in,
    grown,
)
from agentmem.stores.values import IndexRows

if TYPE_CHECKING:
    from numpy.typing import NDArray


KEPT_FREQUENCIES = 10_000
SCATTERED = 4
"""Rows in runs shorter than this are looked up one by one."""


class _Tail:
    """The newest postings, in the order they came: term, count, position, length of its row."""

    def __init__(self) -> None:
        self.rows = 0
        self._size = 0
        self._values = [
            np.empty(1 << 14, dtype=dtype) for dtype in (np.uint64, np.uint8, np.int32, np.int32)
        ]

    def append(self, batch: IndexRows, start: int) -> None:
        size, end = self._size, self._size + len(batch.terms)
        if end > len(self._values[0]):
            self._values = [grown(values[:size], 2 * end) for values in self._values]
        sizes = np.diff(batch.term_offsets)
        positions = np.repeat(np.arange(start, start + len(batch)), sizes)
        lengths = np.repeat(batch.length, sizes)
        given: list[NDArray[Any]] = [batch.terms, batch.counts(), positions, lengths]
        for values, new in zip(self._values, given, strict=True):
            values[size:end] = new
        self._size = end
        self.rows += len(batch)

    def columns(self) -> list[NDArray[Any]]:
        return [values[: self._size] for values in self._values]


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
        self._compactions = 0
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
                self._tail.append(part, self.table.append(columns_in(part)))
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
        with self.table.lock:
            compact = self._compaction_due()
            run = self._run_to_join()
            live = self.table.live
        if compact:
            self._compact()
        elif run:
            self._swap(run, join(run, live))
        return compact or bool(run)

    def _compaction_due(self) -> bool:
        return self.table.dead_count > max(2 * self.seal_rows, self.table.size // 8)

    def _run_to_join(self) -> list[Segment]:
        """The newest segments that are worth making one, if any."""
        known = self._segments
        first = len(known) - 1
        total = known[first].size if known else 0
        while first > 0 and known[first - 1].size < self.join_ratio * total:
            first -= 1
            total += known[first].size
        return known[first:] if first < len(known) - 1 else []

    def _swap(self, old: Sequence[Segment], new: Segment) -> None:
        with self.table.lock:
            known = self._segments
            first = next((at for at, one in enumerate(known) if one is old[0]), len(known))
            last = first + len(old)
            if known[first:last] == old:  # else a compaction came first
                self._segments = _with_postings(*known[:first], new, *known[last:])

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
        table = RowTable.restored({name: v[kept] for name, v in columns.items()})
        joined = join(old, live, renumbered)
        with self.table.lock:
            if self._compactions != before or self._segments[: len(old)] != old:
                return  # another compaction or a join came first
            self._compactions += 1
            self._seal()
            moved = np.int32(self.table.adopt(table, end=end))
            newer = [replace(s, positions=s.positions - moved) for s in self._segments[len(old) :]]
            self._segments = _with_postings(joined, *newer)

    # -- searching --------------------------------------------------------------------

    def match(
        self, terms: NDArray[np.uint64], weights: Sequence[float], *, scope: RowScope = EVERYTHING
    ) -> Match:
        """What the query's words, each given once, find in `scope`; the weights multiply idf."""
        table = self.table
        with table.lock:
            selection = table.select(scope)
            segments, tail = tuple(self._segments), self._tail.columns()
            if selection.unlisted:
                row, length = table.column["rows"], table.column["length"]
            else:
                row, length = selection.rows_and_lengths
            columns = Columns(
                row=row,
                length=length,
                inside=selection.mask if selection.unlisted else None,
                position_of=table.position_of,
                listed=None if selection.unlisted else selection.listed,
                end=len(row) if not selection.unlisted else selection.end,
            )
        found = _find(segments, tail, terms)
        return Match(
            [
                _unlisted(term, pieces, selection, length, weight)
                if selection.unlisted
                else Postings([_listed(one, selection) for one in pieces], length, weight)
                for term, pieces, weight in zip(terms.tolist(), found, weights, strict=True)
            ],
            columns,
            row_count=selection.count,
            mean_length=selection.mean_length,
        )


def _with_postings(*segments: Segment) -> list[Segment]:
    return [segment for segment in segments if segment.size]


def _find(
    segments: Sequence[Segment], tail: Sequence[NDArray[Any]], terms: NDArray[np.uint64]
) -> list[list[Piece]]:
    """Each term's postings in the whole table, dead ones included, by position."""
    found: list[list[Piece]] = [[] for _ in range(len(terms))]
    for segment in segments:
        at = segment.terms.searchsorted(terms)
        here = segment.terms.take(at, mode="clip") == terms
        firsts = segment.offsets.take(at, mode="clip").tolist()
        lasts = segment.offsets.take(at + 1, mode="clip").tolist()
        for number in here.nonzero()[0].tolist():
            part = slice(firsts[number], lasts[number])
            found[number].append(
                (segment.positions[part], segment.counts[part], segment.codes[part])
            )
    known, counts, positions, _ = tail
    if len(known):
        which, at = np.nonzero(known == terms[:, None])
        positions, counts = positions.take(at), counts.take(at)
        bounds = which.searchsorted(np.arange(len(terms) + 1)).tolist()
        for number, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                found[number].append((positions[first:last], counts[first:last], None))
    return found


def _unlisted(
    term: int,
    found: Sequence[Piece],
    selection: RowSelection,
    lengths: NDArray[np.int32],
    weight: float,
) -> Postings:
    """All postings of a word, and how many of them are in a scope of most of the table.

    Those of the dead and of others stay in the list: they are counted out here
    and left out of the results later, which costs less than copying the list.
    """
    postings = Postings(found, lengths, weight)
    if selection.count < selection.end:
        known = selection.frequencies.get(term)
        if known is None:
            known = postings.size - sum(len(_common(p, selection.outside)[0]) for p, _, _ in found)
            if len(selection.frequencies) >= KEPT_FREQUENCIES:
                selection.frequencies.clear()
            selection.frequencies[term] = known
        postings.frequency = known
    return postings


def _listed(piece: Piece, selection: RowSelection) -> Piece:
    """The postings of the rows in a scope that is a list, by their places in that list.

    What lies in the runs of the scope when they are few, else one lookup each.
    """
    positions, counts, codes = piece
    wanted = selection.listed
    starts, ends, places = selection.runs
    if len(starts) == 1:
        part = slice(*positions.searchsorted((starts[0], ends[0])).tolist())
        return positions[part] - starts[0], counts[part], None if codes is None else codes[part]
    here: NDArray[Any]
    if SCATTERED * len(starts) > len(wanted):
        if len(positions) > 32 * len(wanted):
            at, here = _common(positions, wanted)
        else:
            at = np.flatnonzero(selection.mask.take(positions))
            here = wanted.searchsorted(positions.take(at))
    else:
        firsts = positions.searchsorted(starts)
        sizes = positions.searchsorted(ends) - firsts
        at = np.repeat(firsts - np.cumsum(sizes) + sizes, sizes)
        at += np.arange(len(at))
        here = positions.take(at) - np.repeat(starts - places, sizes)
    held = here.astype(np.int32, copy=False)
    return held, counts.take(at), None if codes is None else codes.take(at)


def _common(
    one: NDArray[np.int32], other: NDArray[np.int32]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where the numbers that are in both stand in each; both ascending, each number once."""
    if len(one) > len(other):
        return _common(other, one)[::-1]
    at = other.searchsorted(one)
    here = np.flatnonzero(other.take(at, mode="clip") == one) if len(other) else at
    return here, at.take(here)
