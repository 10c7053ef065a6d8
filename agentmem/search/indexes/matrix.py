"""Vectors in blocks that are never copied when more come, one byte a number.

They are the whole numbers that the store keeps (`stores.values.in_steps`), so what is compared
is what every other reader of the store would compare.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from agentmem.search.indexes.rows import distinct
from agentmem.stores.values import in_steps

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


FIRST_BLOCK_BYTES = 1 << 24
AT_ONCE = 256
"""So many vectors are widened at a time: they stay in the processor's cache."""

Part: TypeAlias = "slice | NDArray[np.intp]"
_Block = tuple[int, "NDArray[np.int8]", "NDArray[np.float32]"]
"""The first slot of a block, its vectors in steps, and how long a step of each is: NaN for a vector
that is still in the store."""


class Matrix:
    """A growing list of unit vectors; a slot, once filled, keeps its values.

    Nothing is ever copied: each new block is as large as all before it, so there
    are few. The system gives memory to a block only as it is written. Who reads
    takes the blocks as they are at one moment, and needs no lock.
    """

    def __init__(self, dimensions: int, size: int = 0) -> None:
        """The first `size` slots are there and not filled yet."""
        self.dimensions = dimensions
        self.size = size
        self._blocks: tuple[_Block, ...] = ()
        self._gaps = size > 0
        """Whether any slot may be without its vector."""
        self._grow(size, empty=_small_pages)

    def append(self, counts: NDArray[np.int8], steps: NDArray[np.float32]) -> None:
        """Write vectors in steps at the end."""
        self._grow(self.size + len(counts))
        self.put(np.arange(self.size, self.size + len(counts)), counts, steps)
        self.size += len(counts)

    def put(
        self, slots: NDArray[np.int64], counts: NDArray[np.int8], steps: NDArray[np.float32]
    ) -> None:
        """Fill slots with vectors in steps."""
        for first, block, known, here in self._by_block(slots):
            at = slots[here] - first
            block[at] = counts[here]
            known[at] = steps[here]

    def at(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """What was put into `slots`."""
        counts = np.empty((len(slots), self.dimensions), dtype=np.int8)
        steps = np.empty(len(slots), dtype=np.float32)
        for first, block, known, here in self._by_block(slots):
            at = slots[here] - first
            counts[here], steps[here] = block.take(at, axis=0), known.take(at)
        return counts, steps

    def _grow(self, size: int, *, empty: Callable[..., NDArray[np.int8]] = np.empty) -> None:
        capacity = self._blocks[-1][0] + len(self._blocks[-1][1]) if self._blocks else 0
        if size > capacity:
            least = max(1, FIRST_BLOCK_BYTES // self.dimensions)
            larger = max(least, capacity, size - capacity)
            counts = empty((larger, self.dimensions), dtype=np.int8)
            steps = np.full(larger, np.nan, dtype=np.float32)
            self._blocks = (*self._blocks, (capacity, counts, steps))

    def missing(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of `slots` that are not filled."""
        return slots.compress(np.isnan(self._steps(slots))) if self._gaps else slots[:0]

    def take(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit vectors in `slots`, zeros where none is filled in."""
        counts, steps = self.at(slots)
        return counts * np.nan_to_num(steps)[:, None]

    def products(self, slots: NDArray[np.int64], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The inner product of each slot's unit vector with `query`, NaN where none is filled in.

        Row by row, so the bits do not depend on what else is asked for, and no BLAS
        starts threads (which cost more than they give).
        """
        slots = np.ascontiguousarray(slots, dtype=np.int64)
        found = np.empty(len(slots), dtype=np.float32)
        if not len(slots):
            return found
        if int(slots.view(np.uint64).max()) >= self.size:  # a negative one is very large there
            raise IndexError("a slot that holds no vector")
        query = np.ascontiguousarray(query, dtype=np.float32)
        for first, block, steps, here in self._by_block(slots):
            at = slots[here] - first
            part = np.empty(len(at), dtype=np.float32)
            _products(block, at, query, part)
            found[here] = part * steps.take(at)
        return found

    def _steps(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        found = np.empty(len(slots), dtype=np.float32)
        for first, _, steps, here in self._by_block(slots):
            found[here] = steps.take(slots[here] - first)
        return found

    def _by_block(
        self, slots: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int8], NDArray[np.float32], Part]]:
        """Each block that holds some of `slots`, and which of them."""
        blocks = self._blocks
        if len(blocks) == 1:
            yield *blocks[0], slice(len(slots))
            return
        starts = [first for first, _, _ in blocks]
        if (slots[1:] >= slots[:-1]).all():
            cuts = [*slots.searchsorted(starts).tolist(), len(slots)]
            for block, start, end in zip(blocks, cuts, cuts[1:], strict=False):
                if start < end:
                    yield *block, slice(start, end)
            return
        which = np.searchsorted(starts, slots, side="right") - 1
        for number, block in enumerate(blocks):
            here = np.flatnonzero(which == number)
            if here.size:
                yield *block, here


def _small_pages(shape: tuple[int, int], *, dtype: type[np.int8]) -> NDArray[np.int8]:
    """`np.empty` for what is filled here and there: it asks for pages of two megabytes, each of
    which is cleared whole for the first vector in it."""
    if os.name != "posix":
        return np.empty(shape, dtype=dtype)
    pages = mmap.mmap(-1, shape[0] * shape[1], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=dtype).reshape(shape)


UNIT = 0.05
"""A vector whose square is that near to 1 was of unit length before it was rounded to steps."""


def directions(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Vectors in steps and how long a step is: the store's, or that of the unit vector if the
    vector was of another length."""
    counts, step = in_steps(vectors)
    odd = np.flatnonzero(np.isnan(step))
    if odd.size:  # too large or too small for the store's steps
        wide = vectors[odd].astype(np.float64)
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        counts[odd] = in_steps((wide / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32))[0]
    whole = counts.astype(np.float32)
    squares = np.einsum("ij,ij->i", whole, whole)
    kept = np.abs(squares * step**2 - 1.0) <= UNIT
    return counts, np.where(kept, step, 1.0 / np.sqrt(np.maximum(squares, 1.0))).astype(np.float32)


def _products(
    block: NDArray[np.int8],
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


Fetch = Callable[["NDArray[np.int64]"], tuple["NDArray[np.int64]", "NDArray[np.float32]"]]
"""Gives those of some rows that have a vector, ascending, and the vectors."""
FETCHED_AT_ONCE = 4096


class Slots:
    """Which row is in which slot, and the vectors themselves: each fetched when it is first
    compared, unless it was appended here."""

    def __init__(
        self,
        dimensions: int,
        *,
        fetch: Fetch,
        rows: NDArray[np.int32] | None = None,
    ) -> None:
        """Begin with `rows`, all live and each once; their vectors are to be fetched."""
        rows = np.zeros(0, dtype=np.int32) if rows is None else rows
        self.fetch = fetch
        self.matrix = Matrix(dimensions, len(rows))
        self.row_of = rows.copy()
        self.live = np.ones(len(rows), dtype=bool)
        self.live_count = len(rows)
        self.slot_of = np.zeros(int(rows.max()) + 1 if rows.size else 0, dtype=np.int32)
        self.slot_of[rows] = np.arange(1, len(rows) + 1, dtype=np.int32)
        """By row id, one more than the slot."""
        self.codes: VectorCodes | None = None
        self.trained_at = 0

    @property
    def size(self) -> int:
        return self.matrix.size

    @property
    def coded(self) -> int:
        return 0 if self.codes is None else self.codes.size

    def append(
        self, rows: NDArray[np.int64], counts: NDArray[np.int8], steps: NDArray[np.float32]
    ) -> None:
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
        self.matrix.append(counts, steps)
        slots = np.arange(start, end, dtype=np.int32)
        self.row_of[start:end] = rows
        self.slot_of[rows] = slots + 1
        alive = self.slot_of[rows] == slots + 1  # the last of several for one row
        self.live[start:end] = alive
        self.live_count += int(np.count_nonzero(alive))

    def fill(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Fetch what is not here yet; those of `slots` that have a vector."""
        missing = self.matrix.missing(slots)
        if not missing.size:
            return slots
        for start in range(0, len(missing), FETCHED_AT_ONCE):
            wanted = missing[start : start + FETCHED_AT_ONCE]
            wanted = wanted[np.argsort(self.row_of.take(wanted))]
            rows = self.row_of.take(wanted).astype(np.int64)
            found, vectors = self.fetch(rows)
            if len(found):
                if len(found) < len(rows):
                    wanted = wanted[np.isin(rows, found)]
                self.matrix.put(wanted, *directions(vectors))
        gone = self.matrix.missing(slots)
        return slots[~np.isin(slots, gone)] if gone.size else slots

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
    among = slots.fill(among)
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
