"""What each row may score at most, added up word by word for one query.

Of a large table most rows hold none of a question's rarer words, so only the
rows that were touched are looked at, and the array is used again by the next
query of the same thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import numpy as np

from agentmem.indexes.batch import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLE = 1 << 12
"""How many sums are looked at to guess what a good one is."""

SPARSE = 8
"""While at most one row in so many is touched, the touched ones are looked at and no others."""

_TINY = np.float32(1e-30)  # a bound of 0 would say that the word is not there
_kept = threading.local()


class Held(Protocol):
    """The rows that hold a word: their positions, and a code each that bounds the score."""

    @property
    def positions(self) -> NDArray[np.int32]: ...
    @property
    def codes(self) -> NDArray[np.uint8]: ...


class Sums:
    """The sums of one query; `values` is 0 where nothing was added."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values
        self.added = 0
        self._touched: list[NDArray[np.int32]] = []

    def add(self, held: Held, factor: float, bounds: NDArray[np.float32]) -> None:
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
