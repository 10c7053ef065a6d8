"""Vectors in blocks that are never copied when more come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from agentmem.indexes.codes import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_BLOCK = 1024


class Matrix:
    """A growing list of vectors; a slot, once written, keeps its place and its values.

    Each block is as large as all before it, so there are few; the system gives
    memory to a block only as it is written.
    """

    def __init__(self, dimensions: int, first: NDArray[np.float32] | None = None) -> None:
        self.dimensions = dimensions
        self.size = 0
        self._blocks: list[NDArray[np.float32]] = []
        self._starts: list[int] = []
        if first is not None and len(first):
            self._blocks, self._starts, self.size = [first], [0], len(first)

    def append(self, vectors: NDArray[np.float32]) -> int:
        """Write vectors at the end and return the first one's slot."""
        start = self.size
        written = 0
        while written < len(vectors):
            capacity = self._starts[-1] + len(self._blocks[-1]) if self._blocks else 0
            if self.size == capacity:
                larger = max(SMALLEST_BLOCK, capacity, len(vectors) - written)
                self._blocks.append(np.empty((larger, self.dimensions), dtype=np.float32))
                self._starts.append(capacity)
                capacity += larger
            count = min(capacity - self.size, len(vectors) - written)
            at = self.size - self._starts[-1]
            self._blocks[-1][at : at + count] = vectors[written : written + count]
            written += count
            self.size += count
        return start

    def take(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        """The vectors in `slots`."""
        if len(self._blocks) == 1:
            return self._blocks[0].take(slots, axis=0)
        found = np.empty((len(slots), self.dimensions), dtype=np.float32)
        which = np.searchsorted(self._starts, slots, side="right") - 1
        for number, block in enumerate(self._blocks):
            here = np.flatnonzero(which == number)
            if here.size:
                found[here] = block.take(slots.take(here) - self._starts[number], axis=0)
        return found

    def products(self, slots: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The inner product of each slot's vector with `query`.

        Row by row, so the bits do not depend on what else is asked for; nothing
        is gathered first, and no BLAS starts threads (which cost more than they give).
        """
        import faiss

        slots = np.ascontiguousarray(slots, dtype=np.int64)
        found = np.empty(len(slots), dtype=np.float32)
        if not len(slots):
            return found
        if int(slots.min()) < 0 or int(slots.max()) >= self.size:
            raise IndexError("a slot that holds no vector")
        query = np.ascontiguousarray(query, dtype=np.float32)
        blocks = tuple(zip(self._starts, self._blocks, strict=True))
        if len(blocks) == 1:
            here: NDArray[np.intp] | None = None
        else:
            which = np.searchsorted([start for start, _ in blocks], slots, side="right") - 1
        for number, (start, block) in enumerate(blocks):
            if len(blocks) == 1:
                local, part = slots, found
            else:
                here = np.flatnonzero(which == number)
                if not len(here):
                    continue
                local = slots.take(here) - start
                part = np.empty(len(here), dtype=np.float32)
            with one_thread():
                faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # SWIG
                    faiss.swig_ptr(part),
                    faiss.swig_ptr(query),
                    faiss.swig_ptr(block),
                    faiss.swig_ptr(local),
                    self.dimensions,
                    1,
                    len(local),
                )
            if here is not None:
                found[here] = part
        return found

    def pieces(self, start: int, end: int, rows: int) -> list[tuple[int, NDArray[np.float32]]]:
        """Views of at most `rows` vectors that cover the slots from `start` to before `end`."""
        found = []
        for first, block in zip(self._starts, self._blocks, strict=True):
            low, high = max(start, first), min(end, first + len(block))
            found += [
                (at, block[at - first : min(high, at + rows) - first])
                for at in range(low, high, rows)
            ]
        return found

    def joined(self, end: int) -> NDArray[np.float32]:
        """The slots below `end` as one array, copied only if they lie in several blocks."""
        parts = [piece for _, piece in self.pieces(0, end, max(1, end))]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return np.zeros((0, self.dimensions), dtype=np.float32)
        return np.concatenate(parts)

    @property
    def bytes_reserved(self) -> int:
        return sum(block.nbytes for block in self._blocks)
