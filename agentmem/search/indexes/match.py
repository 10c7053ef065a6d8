"""One query's words against one scope: the best rows, and the score of any row.

BM25 with the statistics of the rows in scope and of no others (P24): how many
there are, how many hold each word, how long they are on average.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.search.indexes.rows import distinct, places_in
from agentmem.text.terms import K1, B, idf

if TYPE_CHECKING:
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# What each row may score at most, added up word by word for one query.
#
# Of a large table most rows hold none of a question's rarer words, so only the
# rows that were touched are looked at, and the array is used again by the next
# query of the same thread.


SAMPLE = 1 << 12
"""How many sums are looked at to guess what a good one is."""

SPARSE = 8
"""While at most one row in so many is touched, the touched ones are looked at and no others."""

_TINY = np.float32(1e-30)  # a bound of 0 would say that the word is not there
_kept = threading.local()


class Sums:
    """The sums of one query; `values` is 0 where nothing was added."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values
        self.added = 0
        self._touched: list[NDArray[np.int32]] = []

    def add(self, held: Postings, factor: float, bounds: NDArray[np.float32]) -> None:
        """Add what each row of a word may score at most."""
        highest = np.maximum(bounds * np.float32(factor * (1.0 + 1e-6)), _TINY)
        self._touched.append(held.positions)
        self.added += len(held.positions)
        np.add.at(self.values, held.positions, highest.take(held.codes))

    def highest(self, n: int) -> NDArray[np.int32]:
        """About `n` positions with high sums: a good guess is enough, so a sample sets the bar."""
        positions, values = self._looked_at()
        step = max(1, len(values) // SAMPLE)
        found = _from_bar(values, np.sort(values[::step]), n // step)
        if step > 1 and not n // 2 <= len(found) <= 8 * n:
            found = _from_bar(values, np.sort(values[values > 0.0]), n)
        if positions is None:
            return found[: 8 * n].astype(np.int32)
        return distinct(positions.take(found))[: 8 * n]

    def reaching(self, least: float) -> NDArray[np.int32]:
        """The positions whose sums are at least `least`, and more than 0."""
        positions, values = self._looked_at()
        found = np.flatnonzero(_reach(values, least))
        return found.astype(np.int32) if positions is None else distinct(positions.take(found))

    def count_reaching(self, least: float) -> int:
        """How many they are, or a little more."""
        return int(np.count_nonzero(_reach(self._looked_at()[1], least)))

    def leave_out(self, positions: NDArray[np.int32]) -> None:
        """Let these reach nothing any more."""
        self.values[positions] = 0.0

    def clear(self) -> None:
        """Set what was touched back to 0."""
        for positions in self._touched:
            self.values[positions] = 0.0

    def _looked_at(self) -> tuple[NDArray[np.int32] | None, NDArray[np.float32]]:
        """The touched positions (some of them twice) with their sums; None stands for all."""
        if self.added * SPARSE > len(self.values):
            return None, self.values
        positions = np.concatenate(self._touched)
        return positions, self.values.take(positions)


@contextmanager
def summing(end: int) -> Iterator[Sums]:
    """Sums for the positions below `end`."""
    values: NDArray[np.float32] | None = getattr(_kept, "values", None)
    _kept.values = None  # a search within a search would take its own
    if values is None or len(values) < end:
        values = np.zeros(end + end // 4, dtype=np.float32)
    sums = Sums(values[:end])
    try:
        yield sums
    finally:
        sums.clear()
        _kept.values = values


def _reach(values: NDArray[np.float32], least: float) -> NDArray[np.bool_]:
    bar = np.float32(least)  # 0 for what four bytes cannot tell from it
    return values >= bar if bar > 0.0 else values > 0.0


def _from_bar(
    values: NDArray[np.float32], ascending: NDArray[np.float32], rank: int
) -> NDArray[np.intp]:
    """Where the values reach the one that stands at `rank` from the end."""
    bar = ascending[-min(len(ascending), max(1, rank))] if len(ascending) else np.float32(0)
    return np.flatnonzero(values >= bar if bar > 0.0 else values > 0.0)


# ----------------------------------------------------------------------------
# Postings that never change: made from a batch, joined with their neighbours, cleared of the
# dead.
#
# Terms are sorted; a term's postings are the positions that hold it, ascending,
# with the count in each and a code that bounds what it can score there.


PIECE = 1 << 20
"""Postings joined at a time: bounds both the memory and how long a search waits for its turn."""

# A code is five bits of length and three of count: enough to bound a score within a
# few per cent without looking the length up, for any mean length.
LENGTH_EDGES = distinct(np.round(3 * 1.16 ** np.arange(31)).astype(np.int32))
_COUNT_CLASSES = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """Postings of a run of positions."""

    terms: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    positions: NDArray[np.int32]
    counts: NDArray[np.uint8]
    codes: NDArray[np.uint8]

    @property
    def size(self) -> int:
        return len(self.positions)


EMPTY = Segment(
    terms=np.zeros(0, dtype=np.uint64),
    offsets=np.zeros(1, dtype=np.int64),
    positions=np.zeros(0, dtype=np.int32),
    counts=np.zeros(0, dtype=np.uint8),
    codes=np.zeros(0, dtype=np.uint8),
)


_OF_POSTINGS = ("positions", "counts", "codes")


def encode(counts: NDArray[np.uint8], lengths: NDArray[np.int32]) -> NDArray[np.uint8]:
    """One byte that says roughly how often a word stands in a row of what length."""
    buckets = np.searchsorted(LENGTH_EDGES, lengths, side="right").astype(np.uint8)
    classes = np.minimum(counts, _COUNT_CLASSES) - np.uint8(1)
    return np.asarray((buckets << 3) | classes, dtype=np.uint8)


@lru_cache(maxsize=64)
def code_bounds(mean_length: float) -> NDArray[np.float32]:
    """For each code, no less than what its postings can score before idf and weight."""
    shortest = np.concatenate(([0], LENGTH_EDGES)).astype(np.float64)
    shortest = np.pad(shortest, (0, 32 - len(shortest)), mode="edge")
    highest = np.arange(1, _COUNT_CLASSES + 1, dtype=np.float64)
    highest[-1] = 255
    norm = K1 * (1 - B + B * shortest / mean_length if mean_length else np.ones(32))
    bounds = highest[None, :] * (K1 + 1) / (highest[None, :] + norm[:, None])
    rounded_up: NDArray[np.float32] = (bounds * (1 + 1e-6)).astype(np.float32).reshape(-1)
    rounded_up.flags.writeable = False  # everybody gets the same one
    return rounded_up


def build(
    terms: NDArray[np.uint64],
    counts: NDArray[np.uint8],
    positions: NDArray[np.int32],
    lengths: NDArray[np.int32],
) -> Segment:
    """A segment of postings in the order of their positions, one value each."""
    if not len(terms):
        return EMPTY
    order = np.argsort(terms, kind="stable")
    ordered = terms[order]
    firsts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return Segment(
        terms=ordered[firsts],
        offsets=np.append(firsts, len(terms)).astype(np.int64),
        positions=positions[order],
        counts=counts[order],
        codes=encode(counts, lengths)[order],
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
    terms = np.concatenate([s.terms for s in segments])
    order = np.argsort(terms, kind="stable")
    terms = terms[order]
    bases = np.cumsum([0] + [s.size for s in segments[:-1]])
    starts = [s.offsets[:-1] + base for s, base in zip(segments, bases, strict=True)]
    starts_of = np.concatenate(starts)[order]
    sizes = np.concatenate([np.diff(s.offsets) for s in segments])[order]
    made = [np.empty(int(sizes.sum()), getattr(EMPTY, name).dtype) for name in _OF_POSTINGS]
    left = np.empty(len(terms), dtype=np.int64)
    ends = np.cumsum(sizes)
    new = np.append(True, terms[1:] != terms[:-1])[: len(terms)]
    """Where a term begins; it may come in several segments."""
    written = at = 0
    while at < len(terms):
        done = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        while until < len(terms) and not new[until]:
            until += 1
        piece = sizes[at:until]
        firsts = np.cumsum(piece) - piece
        source = np.repeat(starts_of[at:until] - firsts, piece)
        source += np.arange(len(source))
        moved = _gather(segments, bases, source)
        keep = live.take(moved[0])
        left[at:until] = np.add.reduceat(keep, firsts, dtype=np.int64)
        kept = [part.compress(keep) for part in moved]
        if renumbered is not None:
            kept[0] = renumbered.take(kept[0])
            which = np.repeat(np.cumsum(new[at:until]), left[at:until])
            order = np.argsort((which << np.int64(32)) | kept[0])
            kept = [part.take(order) for part in kept]
        end = written + len(kept[0])
        for whole, part in zip(made, kept, strict=True):
            whole[written:end] = part
        written, at = end, until
    frequencies = np.add.reduceat(left, np.flatnonzero(new))
    present = frequencies > 0
    positions, counts, codes = (whole[:written].copy() for whole in made)
    return Segment(
        terms=terms[new][present],
        offsets=np.concatenate(([0], np.cumsum(frequencies[present]))).astype(np.int64),
        positions=positions,
        counts=counts,
        codes=codes,
    )


def _gather(
    segments: Sequence[Segment], bases: NDArray[np.int64], source: NDArray[np.int64]
) -> list[NDArray[Any]]:
    """The postings at `source`, counted through all segments one after the other."""
    if len(segments) == 1:
        return [getattr(segments[0], name).take(source) for name in _OF_POSTINGS]
    found = [np.empty(len(source), getattr(EMPTY, name).dtype) for name in _OF_POSTINGS]
    which = np.searchsorted(bases, source, side="right") - 1
    for number, segment in enumerate(segments):
        here = np.flatnonzero(which == number)
        local = source.take(here) - bases[number]
        for values, name in zip(found, _OF_POSTINGS, strict=True):
            values[here] = getattr(segment, name).take(local)
    return found


SMALL = 1 << 15
"""A table of up to so many rows is scored whole: choosing what to score would cost more."""

CHEAP = 1 << 16
"""Rare words are added up, up to this many postings, before asking what can be left out."""

_SLACK = 1.0 + 1e-4  # sums of bounds are kept in four bytes
_STEP = 12  # looking a row up costs about as much as adding up this many postings


Piece = tuple["NDArray[np.int32]", "NDArray[np.uint8]", "NDArray[np.uint8] | None"]
"""Positions that hold a word, how often, and the codes that bound their scores (not made of
the newest ones)."""


class Postings:
    """The rows in scope that hold one word of the query.

    They come in pieces, ascending; who needs them together has them joined.
    """

    def __init__(self, pieces: Sequence[Piece], lengths: NDArray[np.int32], weight: float) -> None:
        self._pieces = pieces
        self._lengths = lengths
        self.weight = weight
        self.size = self.frequency = sum([len(positions) for positions, _, _ in pieces])

    @cached_property
    def positions(self) -> NDArray[np.int32]:
        return _joined([positions for positions, _, _ in self._pieces], np.int32)

    @cached_property
    def counts(self) -> NDArray[np.uint8]:
        return _joined([counts for _, counts, _ in self._pieces], np.uint8)

    @cached_property
    def codes(self) -> NDArray[np.uint8]:
        """For each position what bounds its score, from how often and how long."""
        made = [
            encode(counts, self._lengths.take(positions)) if codes is None else codes
            for positions, counts, codes in self._pieces
        ]
        return _joined(made, np.uint8)

    def counts_at(self, positions: NDArray[np.int32]) -> NDArray[np.uint8]:
        """How often the word stands at each position, 0 where it does not."""
        if not self.size:
            return np.zeros(len(positions), dtype=np.uint8)
        at = self.positions.searchsorted(positions)
        found = self.positions.take(at, mode="clip") == positions
        counts: NDArray[np.uint8] = self.counts.take(at, mode="clip") * found
        return counts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """The table's arrays as they were when the query came.

    For a scope that is a list (`listed`, by position), `row` and `length` are of the
    rows in it, and postings say places in that list: nothing is as long as the table.
    For another one `inside` says which positions are in it.
    """

    row: NDArray[np.int32]
    length: NDArray[np.int32]
    inside: NDArray[np.bool_] | None
    position_of: NDArray[np.int32]
    listed: NDArray[np.int32] | None
    end: int


class Match:
    """What one query finds in one scope at one moment; later changes do not touch it."""

    def __init__(
        self,
        postings: Sequence[Postings],
        columns: Columns,
        *,
        row_count: int,
        mean_length: float,
    ) -> None:
        self.row_count = row_count
        self.mean_length = mean_length
        self._columns = columns
        self._postings = postings
        self._factors = [
            p.weight * idf(p.frequency, row_count) if p.frequency else 0.0 for p in postings
        ]

    @property
    def row_frequencies(self) -> NDArray[np.int64]:
        """How many rows in scope hold each word, in the order of the query."""
        return np.array([p.frequency for p in self._postings], dtype=np.int64)

    def top(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The `n` best rows and their scores, best first, equal scores by row id; exact.

        Rows that hold no word of the query are never among them.
        """
        pairs = zip(self._postings, self._factors, strict=True)
        used = [(held, factor) for held, factor in pairs if held.size and factor > 0.0]
        if n <= 0 or not used:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
        whole = self._columns.end <= SMALL
        positions, scores = self._all_scored(used) if whole else self._contenders(used, n)
        if len(scores) > 4 * n:
            keep = scores >= np.partition(scores, len(scores) - n)[len(scores) - n]
            positions, scores = positions.compress(keep), scores.compress(keep)
        rows = self._columns.row.take(positions).astype(np.int64)
        order = np.lexsort((rows, -scores))[:n]
        return rows[order], scores[order]

    def counts_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """How often each row holds each word of the query: one line a row, one column a word."""
        columns = self._columns
        positions = places_in(columns.position_of, rows)
        here = (positions >= 0) & (positions < columns.end)
        if columns.listed is not None:
            places = columns.listed.searchsorted(positions)
            here = columns.listed.take(places, mode="clip") == positions if columns.end else here
            positions = places.astype(np.int32)
        elif columns.inside is not None and columns.end:
            here &= columns.inside.take(positions, mode="clip")
        there = np.flatnonzero(here)
        there = there.take(positions.take(there).argsort())  # in order they are found sooner
        wanted = positions.take(there)
        counts = np.zeros((len(positions), len(self._postings)), dtype=np.uint8)
        for number, postings in enumerate(self._postings):
            if postings.size:
                counts[there, number] = postings.counts_at(wanted)
        return counts

    def _living(self, positions: NDArray[np.int32]) -> NDArray[np.int32]:
        """Without what is not in scope: lists made for a scope hold nothing else."""
        inside = self._columns.inside
        return positions if inside is None else positions.compress(inside.take(positions))

    def _score(self, positions: NDArray[np.int32]) -> NDArray[np.float64]:
        """Exact scores: always the same sum in the same order, whichever way a row was found."""
        norm = self._norm(self._columns.length.take(positions))
        total = np.zeros(len(positions), dtype=np.float64)
        for postings, factor in zip(self._postings, self._factors, strict=True):
            if factor > 0.0:
                counts = postings.counts_at(positions).astype(np.float64)
                total += factor * (counts * (K1 + 1.0) / (counts + norm))
        return total

    def _norm(self, lengths: NDArray[np.int32]) -> NDArray[np.float64]:
        norm = lengths.astype(np.float64)
        norm *= K1 * B / self.mean_length if self.mean_length else 0.0
        norm += K1 * (1.0 - B)
        return norm

    def _all_scored(
        self, used: Sequence[tuple[Postings, float]]
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Every row that holds a word, and the score that `_score` gives it, bit for bit."""
        end = self._columns.end
        held = np.concatenate([postings.positions for postings, _ in used])
        gains = np.concatenate([postings.counts for postings, _ in used]).astype(np.float64)
        norm = self._norm(self._columns.length[:end]).take(held)
        norm += gains
        gains *= K1 + 1.0
        gains /= norm
        gains *= np.repeat([factor for _, factor in used], [held.size for held, _ in used])
        # Each row's gains are added up in the order of the terms, as `_score` does.
        total: NDArray[Any] = np.bincount(held, weights=gains, minlength=end)
        if self._columns.inside is not None:
            total *= self._columns.inside
        positions = np.flatnonzero(total)
        return positions.astype(np.int32), total.take(positions)

    def _contenders(
        self, used: Sequence[tuple[Postings, float]], n: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Every row that can be among the `n` best, with its exact score.

        Words are added up from the rarest on, as bounds. Once `n` rows are known
        to reach some score, a word too common to lift any new row there is only
        looked up for the rows it could still lift.
        """
        bounds = code_bounds(self.mean_length)
        most = float(bounds.max())
        rest = sorted(used, key=lambda item: item[0].size)
        with summing(self._columns.end) as sums:
            while rest and (not sums.added or sums.added + rest[0][0].size <= CHEAP):
                sums.add(*rest.pop(0), bounds)
            tried = self._living(sums.highest(3 * n))
            tried_scores = self._score(tried)
            reached = 0.0
            if len(tried) >= n:
                reached = float(np.sort(tried_scores)[len(tried) - n])
            while True:
                open_bound = sum(factor for _, factor in rest) * most
                least = max(0.0, (reached - open_bound) / _SLACK)
                if not rest:
                    break
                if open_bound < reached:
                    contenders = sums.count_reaching(least)
                    left = sum(p.size for p, _ in rest)
                    if contenders <= 4 * n or contenders * len(used) * _STEP < left:
                        break
                sums.add(*rest.pop(0), bounds)
            sums.leave_out(tried)
            positions = self._living(sums.reaching(least))
        return (
            np.concatenate((tried, positions)),
            np.concatenate((tried_scores, self._score(positions))),
        )


def _joined(parts: Sequence[NDArray[Any]], dtype: type) -> NDArray[Any]:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
