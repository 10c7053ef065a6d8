"""Vectors in blocks that are never copied when more come, two bytes a number.

Numbers from -1 to 1 are kept as whole steps of 1/32767: of unit vectors no cosine
is off by more than a few hundred-thousandths, and half as much is read for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.search.indexes.rows import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# Vectors shortened to four bits a piece, and a fast look through all of them.
#
# FAISS product quantisation with packed tables. The codes only pick candidates:
# who is near is decided on the vectors themselves.


CENTROIDS = 16
TRAINING_ROWS = 256 * CENTROIDS


class VectorCodes:
    """Codes of the first `size` slots; a search and an `add` at once need a lock around them."""

    def __init__(self, centroids: NDArray[np.float32], dimensions: int) -> None:
        import faiss

        self.dimensions = dimensions
        self.centroids = centroids
        self._index: Any = faiss.IndexPQFastScan(
            dimensions, pieces_of(dimensions), 4, faiss.METRIC_INNER_PRODUCT
        )
        if centroids.shape != (CENTROIDS * dimensions,):
            raise ValueError(f"{centroids.shape} centroids for {dimensions} dimensions")
        faiss.copy_array_to_vector(
            np.ascontiguousarray(centroids, dtype=np.float32), self._index.pq.centroids
        )
        self._index.is_trained = True
        self.size = 0

    @classmethod
    def trained(cls, sample: NDArray[np.float32]) -> VectorCodes:
        """Empty codes fitted to `sample`, of which a few thousand rows are enough."""
        import faiss

        dimensions = sample.shape[1]
        if len(sample) < CENTROIDS:
            sample = np.resize(sample, (CENTROIDS, dimensions))
        with one_thread():
            quantiser = faiss.ProductQuantizer(dimensions, pieces_of(dimensions), 4)
            # A small sample is no mistake here: small thresholds are for tests.
            quantiser.cp.min_points_per_centroid = 1
            quantiser.train(np.ascontiguousarray(sample[:TRAINING_ROWS], dtype=np.float32))
        return cls(faiss.vector_to_array(quantiser.centroids), dimensions)

    def emptied(self) -> VectorCodes:
        """The same quantiser without any codes."""
        return VectorCodes(self.centroids, self.dimensions)

    def add(self, vectors: NDArray[np.float32]) -> None:
        with one_thread():
            self._index.add(np.ascontiguousarray(vectors))
        self.size = int(self._index.ntotal)

    def search(self, query: NDArray[np.float32], n: int) -> NDArray[np.int64]:
        """About the `n` nearest slots, roughly nearest first."""
        if not self.size:
            return np.zeros(0, dtype=np.int64)
        import faiss

        query = np.ascontiguousarray(query, dtype=np.float32)
        count = min(n, self.size)
        near, slots = np.empty(count, dtype=np.float32), np.empty(count, dtype=np.int64)
        with one_thread():  # what Index.search does, without the checks of its wrapper
            self._index.search_c(
                1,
                faiss.swig_ptr(query),
                count,
                faiss.swig_ptr(near),
                faiss.swig_ptr(slots),
            )
        return slots if slots[-1] >= 0 else slots[slots >= 0]

    def packed(self) -> NDArray[np.uint8]:
        """The codes as they lie in memory."""
        import faiss

        size = self._index.codes.size()
        if not size:
            return np.zeros(0, dtype=np.uint8)
        view: NDArray[np.uint8] = faiss.rev_swig_ptr(self._index.codes.get(), size)
        return view.copy()

    def load_packed(self, packed: NDArray[np.uint8], size: int) -> None:
        """Take codes from `packed`; anything but what this size needs is refused."""
        import faiss

        block = int(self._index.bbs)
        rounded = -(-size // block) * block
        if size < 0 or len(packed) != rounded * int(self._index.M2) // 2:
            raise ValueError(f"{len(packed)} bytes of codes for {size} vectors")
        if not size:
            return
        packed = np.ascontiguousarray(packed, dtype=np.uint8)
        self._index.codes.resize(len(packed))
        faiss.memcpy(self._index.codes.get(), faiss.swig_ptr(packed), packed.nbytes)
        self._index.ntotal = size
        self._index.ntotal2 = rounded
        self.size = size


@lru_cache(maxsize=64)
def pieces_of(dimensions: int) -> int:
    """How many pieces a vector is cut into: one for every four dimensions where that goes up."""
    for width in (4, 3, 5, 2, 6, 7, 8):
        if dimensions % width == 0:
            return dimensions // width
    return dimensions


class one_thread:  # noqa: N801 - used as `with one_thread():`, and much cheaper than a generator
    """FAISS in this thread alone: for one query, waking others costs more than it gives."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        import faiss

        self._before = faiss.omp_get_max_threads()
        if self._before != 1:
            faiss.omp_set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        if self._before != 1:
            import faiss

            faiss.omp_set_num_threads(self._before)


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


# ----------------------------------------------------------------------------
# Which row's vector lies in which slot, and the vectors themselves.


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


# ----------------------------------------------------------------------------
# The nearest of some slots, and how many to look at to find them.


WIDEST = 65_536

Near = tuple["NDArray[np.int64]", "NDArray[np.float32]"]
Scan = tuple[bool, "NDArray[np.int64]", int]
"""Whether there are codes, what they picked, and how many slots they cover."""


def nearest(slots: Slots, among: NDArray[np.int64], query: NDArray[np.float32], n: int) -> Near:
    """The `n` nearest slots of `among`, and those as near as the last of them; their cosines."""
    products = slots.matrix.products(among, query)
    if len(among) <= n:
        return among, products
    keep = products >= np.partition(products, len(products) - n)[len(products) - n]
    return among.compress(keep), products.compress(keep)


def bounded(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosines, which rounding may have carried past 1 or -1."""
    return np.minimum(np.maximum(cosines, np.float32(-1.0)), np.float32(1.0))


def width(depth: int, in_scope: int, size: int) -> int:
    """How many slots the codes are asked for, so that about `depth` of them are in scope.

    The smaller the part of the store that is in scope, the less even it may lie.
    """
    others = max(1.0, size / max(1, in_scope))
    return min(WIDEST, int(depth * others * (1.0 + min(0.5, 4.0 * (others - 1.0)))))


class Narrow:
    """Leaves of some slots those that are live and whose rows are in the scope."""

    def __init__(
        self,
        slots: Slots,
        position_of: NDArray[np.int32],
        mask: NDArray[np.bool_] | None,
    ) -> None:
        self.slots = slots
        self._position_of = position_of
        self._mask = mask

    def __call__(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        slots, position_of, mask = self.slots, self._position_of, self._mask
        wanted = wanted.compress(slots.live.take(wanted))
        if mask is None:
            return wanted
        rows = slots.row_of.take(wanted)
        known = rows < len(position_of)
        positions = position_of.take(np.where(known, rows, 0)) - 1
        known &= (positions >= 0) & (positions < len(mask))
        if len(mask):
            known &= mask.take(np.where(known, positions, 0))
        return wanted.compress(known)
