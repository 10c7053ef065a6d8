"""Vectors in blocks that are never copied when more come, two bytes a number.

Numbers from -1 to 1 are kept as whole steps of 1/32767: of unit vectors no cosine
is off by more than a few hundred-thousandths, and half as much is read for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from agentmem.indexes.codes import one_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_BLOCK = 1024
COPIED_BYTES = 1 << 25
"""Up to so many bytes all vectors lie in one block, which is copied when it is full."""

STEPS = 32767
AT_ONCE = 256
"""So many vectors are widened at a time: they stay in the processor's cache."""

_Block = tuple[int, "NDArray[np.int16]"]
"""The first slot of a block, and its vectors in steps."""


class Matrix:
    """A growing list of vectors; a slot, once written, keeps its values.

    A small one is a single block. From `COPIED_BYTES` on nothing is copied any
    more: each new block is as large as all before it, so there are few. The
    system gives memory to a block only as it is written. Who reads takes the
    blocks as they are at one moment, and needs no lock.
    """

    def __init__(self, dimensions: int, first: NDArray[np.int16] | None = None) -> None:
        self.dimensions = dimensions
        self.size = 0
        self._blocks: tuple[_Block, ...] = ()
        if first is not None and len(first):
            self._blocks, self.size = ((0, first),), len(first)

    def append(self, vectors: NDArray[np.float32]) -> int:
        """Write vectors at the end and return the first one's slot."""
        start = self.size
        written = 0
        while written < len(vectors):
            if self.size == self._capacity:
                self._grow(len(vectors) - written)
            first, block = self._blocks[-1]
            count = min(self._capacity - self.size, len(vectors) - written)
            at = self.size - first
            for part in range(0, count, AT_ONCE):
                end = min(count, part + AT_ONCE)
                block[at + part : at + end] = _steps(vectors[written + part : written + end])
            written += count
            self.size += count
        return start

    @property
    def _capacity(self) -> int:
        if not self._blocks:
            return 0
        first, block = self._blocks[-1]
        return first + len(block)

    def _grow(self, count: int) -> None:
        """Make room for at least one more vector, and if possible for `count`."""
        capacity = self._capacity
        larger = max(SMALLEST_BLOCK, capacity, count)
        if (capacity + larger) * self.dimensions * 2 > COPIED_BYTES:
            fresh = np.empty((larger, self.dimensions), dtype=np.int16)
            self._blocks = (*self._blocks, (capacity, fresh))
            return
        whole = np.empty((capacity + larger, self.dimensions), dtype=np.int16)
        for first, block in self._blocks:
            whole[first : first + len(block)] = block
        self._blocks = ((0, whole),)

    def take(self, slots: NDArray[np.intp]) -> NDArray[np.float32]:
        """The vectors in `slots`."""
        blocks = self._blocks
        if len(blocks) == 1:
            return _wide(blocks[0][1].take(slots, axis=0))
        found = np.empty((len(slots), self.dimensions), dtype=np.float32)
        for first, block, here in _by_block(blocks, slots):
            found[here] = _wide(block.take(slots.take(here) - first, axis=0))
        return found

    def products(self, slots: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The inner product of each slot's vector with `query`.

        Row by row, so the bits do not depend on what else is asked for, and no BLAS
        starts threads (which cost more than they give).
        """
        slots = np.ascontiguousarray(slots, dtype=np.int64)
        found = np.empty(len(slots), dtype=np.float32)
        if not len(slots):
            return found
        if int(slots.view(np.uint64).max()) >= self.size:  # a negative one is very large there
            raise IndexError("a slot that holds no vector")
        query = np.ascontiguousarray(query, dtype=np.float32) / np.float32(STEPS)
        blocks = self._blocks
        if len(blocks) == 1:
            _products(blocks[0][1], slots, query, found)
            return found
        for first, block, here in _by_block(blocks, slots):
            part = np.empty(len(here), dtype=np.float32)
            _products(block, slots.take(here) - first, query, part)
            found[here] = part
        return found

    def pieces(self, start: int, end: int, rows: int) -> Iterator[NDArray[np.float32]]:
        """At most `rows` vectors at a time, from the slot `start` to before `end`."""
        for part in self._parts(start, end):
            for at in range(0, len(part), rows):
                yield _wide(part[at : at + rows])

    def joined(self, end: int) -> NDArray[np.int16]:
        """The slots below `end` as one array of steps, copied only if they lie in several."""
        parts = self._parts(0, end)
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return np.zeros((0, self.dimensions), dtype=np.int16)
        return np.concatenate(parts)

    def _parts(self, start: int, end: int) -> list[NDArray[np.int16]]:
        bounds = [
            (block, max(0, start - first), min(end - first, len(block)))
            for first, block in self._blocks
        ]
        return [block[low:high] for block, low, high in bounds if low < high]


def _steps(vectors: NDArray[np.float32]) -> NDArray[np.int16]:
    steps = np.rint(vectors * np.float32(STEPS))
    return np.asarray(steps.clip(-STEPS, STEPS), dtype=np.int16)


def _wide(steps: NDArray[np.int16]) -> NDArray[np.float32]:
    return steps.astype(np.float32) / np.float32(STEPS)


def _by_block(
    blocks: Sequence[_Block], slots: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int16], NDArray[np.intp]]]:
    """Each block that holds some of `slots`, and which of them."""
    which = np.searchsorted([first for first, _ in blocks], slots, side="right") - 1
    for number, (first, block) in enumerate(blocks):
        here = np.flatnonzero(which == number)
        if here.size:
            yield first, block, here


def _products(
    block: NDArray[np.int16],
    slots: NDArray[np.int64],
    query: NDArray[np.float32],
    found: NDArray[np.float32],
) -> None:
    import faiss

    wide = np.empty((min(AT_ONCE, len(slots)), block.shape[1]), dtype=np.float32)
    lines = np.arange(len(wide), dtype=np.int64)
    with one_thread():
        for start in range(0, len(slots), AT_ONCE):
            part = slots[start : start + AT_ONCE]
            wide[: len(part)] = block.take(part, axis=0)
            faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # SWIG
                faiss.swig_ptr(found[start:]),
                faiss.swig_ptr(query),
                faiss.swig_ptr(wide),
                faiss.swig_ptr(lines),
                block.shape[1],
                1,
                len(part),
            )
