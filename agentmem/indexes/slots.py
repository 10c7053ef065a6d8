"""Which row's vector lies in which slot, and the vectors themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.indexes.batch import distinct
from agentmem.indexes.codes import VectorCodes
from agentmem.indexes.matrix import Matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Slots:
    """Which row is in which slot, and the vectors themselves."""

    def __init__(self, dimensions: int) -> None:
        self.matrix = Matrix(dimensions)
        self.row_of = np.zeros(0, dtype=np.int32)
        self.live = np.zeros(0, dtype=bool)
        self.slot_of = np.zeros(0, dtype=np.int32)  # by row id, one more than the slot
        self.live_count = 0
        self.codes: VectorCodes | None = None
        self.trained_at = 0

    @property
    def size(self) -> int:
        return self.matrix.size

    @property
    def coded(self) -> int:
        return 0 if self.codes is None else self.codes.size

    def append(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        self.delete(rows)
        start = self.matrix.size
        end = start + len(rows)
        if end > len(self.live):
            capacity = max(1024, end, len(self.live) * 3 // 2)
            self.row_of = _grown(self.row_of, capacity)
            self.live = _grown(self.live, capacity)
        highest = int(rows.max())
        if highest >= len(self.slot_of):
            self.slot_of = _grown(self.slot_of, max(1024, highest + 1, len(self.slot_of) * 3 // 2))
        # Searches read without a lock: a vector must be there before anything leads to it.
        self.matrix.append(vectors)
        slots = np.arange(start, end, dtype=np.int32)
        self.row_of[start:end] = rows
        self.slot_of[rows] = slots + 1
        alive = self.slot_of[rows] == slots + 1  # the last of several for one row
        self.live[start:end] = alive
        self.live_count += int(np.count_nonzero(alive))

    def restore(self, rows: NDArray[np.int32], vectors: NDArray[np.int16]) -> None:
        """Begin with these, all live and each row once."""
        self.matrix = Matrix(self.matrix.dimensions, vectors)
        self.row_of = rows.copy()
        self.live = np.ones(len(rows), dtype=bool)
        self.live_count = len(rows)
        self.slot_of = np.zeros(int(rows.max()) + 1 if rows.size else 0, dtype=np.int32)
        self.slot_of[rows] = np.arange(1, len(rows) + 1, dtype=np.int32)

    def delete(self, rows: NDArray[Any]) -> int:
        slots = self.slots_of(rows)
        slots = slots[slots >= 0]
        if slots.size > 1:
            slots = distinct(slots)
        if slots.size:
            self.live[slots] = False
            self.slot_of[self.row_of[slots]] = 0
            self.live_count -= int(slots.size)
        return int(slots.size)

    def slots_of(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The slot of each row, -1 for a row without a vector."""
        known = self.slot_of
        inside = (rows >= 0) & (rows < len(known))
        if inside.all():
            return known.take(rows) - np.int64(1)
        if not inside.any():
            return np.full(len(rows), -1, dtype=np.int64)
        return np.where(inside, known.take(np.where(inside, rows, 0)) - np.int64(1), -1)


def _grown(values: NDArray[Any], capacity: int) -> NDArray[Any]:
    larger = np.zeros(capacity, dtype=values.dtype)
    larger[: len(values)] = values
    return larger
