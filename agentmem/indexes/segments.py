"""Postings that never change: made from a batch, joined with their neighbours, cleared of the dead.

Terms are sorted; a term's postings are the positions that hold it, ascending,
with the count in each and a code that bounds what it can score there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.values import dataclass
from agentmem.indexes.batch import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def encode(counts: NDArray[np.uint8], lengths: NDArray[np.int32]) -> NDArray[np.uint8]:
    """One byte that says roughly how often a word stands in a row of what length."""
    buckets = np.searchsorted(LENGTH_EDGES, lengths, side="right").astype(np.uint8)
    classes = np.minimum(counts, _COUNT_CLASSES) - np.uint8(1)
    return np.asarray((buckets << 3) | classes, dtype=np.uint8)


@lru_cache(maxsize=64)
def code_bounds(*, k1: float, b: float, mean_length: float) -> NDArray[np.float32]:
    """For each code, no less than what its postings can score before idf and weight."""
    shortest = np.concatenate(([0], LENGTH_EDGES)).astype(np.float64)
    shortest = np.pad(shortest, (0, 32 - len(shortest)), mode="edge")
    highest = np.arange(1, _COUNT_CLASSES + 1, dtype=np.float64)
    highest[-1] = 255
    norm = k1 * (1 - b + b * shortest / mean_length if mean_length else np.ones(32))
    bounds = highest[None, :] * (k1 + 1) / (highest[None, :] + norm[:, None])
    rounded_up: NDArray[np.float32] = (bounds * (1 + 1e-6)).astype(np.float32).reshape(-1)
    rounded_up.flags.writeable = False  # everybody gets the same one
    return rounded_up


def build(
    terms: NDArray[np.uint64],
    counts: NDArray[np.uint8],
    *,
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
    starts = np.concatenate(
        [s.offsets[:-1] + base for s, base in zip(segments, bases, strict=True)]
    )[order]
    sizes = np.concatenate([np.diff(s.offsets) for s in segments])[order]
    total = int(sizes.sum())
    positions = np.empty(total, dtype=np.int32)
    counts = np.empty(total, dtype=np.uint8)
    codes = np.empty(total, dtype=np.uint8)
    left = np.empty(len(terms), dtype=np.int64)
    ends = np.cumsum(sizes)
    new = np.ones(len(terms), dtype=bool)  # where a term begins; it may come in several segments
    new[1:] = terms[1:] != terms[:-1]
    written = 0
    at = 0
    while at < len(terms):
        done = int(ends[at - 1]) if at else 0
        until = max(at + 1, int(np.searchsorted(ends, done + PIECE, side="right")))
        while until < len(terms) and not new[until]:
            until += 1
        piece = sizes[at:until]
        firsts = np.cumsum(piece) - piece
        source = np.repeat(starts[at:until] - firsts, piece)
        source += np.arange(len(source))
        moved = _gather(segments, bases, source)
        keep = live.take(moved[0])
        left[at:until] = np.add.reduceat(keep, firsts, dtype=np.int64)
        kept = [part.compress(keep) for part in moved]
        end = written + len(kept[0])
        if renumbered is not None:
            kept[0] = renumbered.take(kept[0])
            which = np.repeat(np.cumsum(new[at:until]), left[at:until])
            kept = _in_order(which, kept)
        positions[written:end], counts[written:end], codes[written:end] = kept
        written, at = end, until
    firsts = np.flatnonzero(new) if total else []
    if not len(firsts):
        return EMPTY
    frequencies = np.add.reduceat(left, firsts)
    present = frequencies > 0
    return Segment(
        terms=terms[firsts][present],
        offsets=np.concatenate(([0], np.cumsum(frequencies[present]))).astype(np.int64),
        positions=_fitted(positions, written),
        counts=_fitted(counts, written),
        codes=_fitted(codes, written),
    )


def _in_order(which: NDArray[np.int64], postings: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """The postings, positions first, by position within each term; `which` ascends."""
    keys = (which << np.int64(32)) | postings[0]
    if bool((keys[1:] > keys[:-1]).all()):
        return postings
    order = np.argsort(keys)
    return [part.take(order) for part in postings]


def _gather(
    segments: Sequence[Segment], bases: NDArray[np.int64], source: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8], NDArray[np.uint8]]:
    """The postings at `source`, counted through all segments one after the other."""
    positions = np.empty(len(source), dtype=np.int32)
    counts = np.empty(len(source), dtype=np.uint8)
    codes = np.empty(len(source), dtype=np.uint8)
    if len(segments) == 1:
        only = segments[0]
        return only.positions.take(source), only.counts.take(source), only.codes.take(source)
    which = np.searchsorted(bases, source, side="right") - 1
    for number, segment in enumerate(segments):
        here = np.flatnonzero(which == number)
        local = source.take(here) - bases[number]
        positions[here] = segment.positions.take(local)
        counts[here] = segment.counts.take(local)
        codes[here] = segment.codes.take(local)
    return positions, counts, codes


def _fitted(values: NDArray[Any], size: int) -> NDArray[Any]:
    return values if len(values) == size else values[:size].copy()
