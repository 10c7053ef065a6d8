"""Vectors with one byte a number, and codes that pick the few of many that are looked at.

They are the whole numbers that the store keeps (`stores.values.in_steps`), so what is compared
is what every other reader of the store would compare.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.search.indexes.rows import distinct, grown, places_in
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

    def add(self, vectors: NDArray[np.float32]) -> None:
        with one_thread():
            self._index.add(np.ascontiguousarray(vectors))
        self.size = int(self._index.ntotal)

    def search(self, query: NDArray[np.float32], n: int) -> NDArray[np.int64]:
        """About the `n` nearest slots, roughly nearest first."""
        if not self.size:
            return np.zeros(0, dtype=np.int64)
        with one_thread():
            slots: NDArray[np.int64] = self._index.search(query[None], min(n, self.size))[1][0]
        return slots[slots >= 0]

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


AT_ONCE = 256
"""So many vectors are widened at a time: they stay in the processor's cache."""


class Matrix:
    """A growing list of unit vectors in steps; a slot, once filled, keeps its values.

    Who reads takes the arrays as they are at one moment, and needs no lock.
    """

    def __init__(self, dimensions: int, size: int = 0) -> None:
        """The first `size` slots are there and not filled yet."""
        self.dimensions = dimensions
        self.size = size
        self._lock = threading.Lock()
        self._gaps = size > 0
        """Whether any slot may be without its vector."""
        self._arrays = _room(0, dimensions)
        self.reserve(size)

    def reserve(self, size: int) -> None:
        """Have room for so many, and for half as many more: the system gives memory only to what
        is written."""
        with self._lock:
            counts, steps = self._arrays
            if size > len(steps):
                larger = _room(max(1024, size * 3 // 2), self.dimensions)
                larger[0][: len(counts)], larger[1][: len(steps)] = counts, steps
                self._arrays = larger

    def append(self, counts: NDArray[np.int8], steps: NDArray[np.float32]) -> None:
        """Write vectors in steps at the end."""
        end = self.size + len(counts)
        self.reserve(end)
        self.put(np.arange(self.size, end), counts, steps)
        self.size = end

    def put(
        self, slots: NDArray[np.int64], counts: NDArray[np.int8], steps: NDArray[np.float32]
    ) -> None:
        """Fill slots with vectors in steps: how many, and how long a step of each is."""
        with self._lock:
            self._arrays[0][slots], self._arrays[1][slots] = counts, steps

    def at(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """What was put into `slots`; a step of NaN where nothing was."""
        counts, steps = self._arrays
        return counts.take(slots, axis=0), steps.take(slots)

    def missing(self, slots: NDArray[Any]) -> NDArray[Any]:
        """Those of `slots` that are not filled."""
        return slots.compress(np.isnan(self._arrays[1].take(slots))) if self._gaps else slots[:0]

    def take(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The unit vectors in `slots`, zeros where none is filled in."""
        counts, steps = self.at(slots)
        return counts * np.nan_to_num(steps)[:, None]

    def products(self, slots: NDArray[Any], query: NDArray[np.float32]) -> NDArray[np.float32]:
        """The inner product of each slot's unit vector with `query`, NaN where none is filled in.

        Row by row, so the bits do not depend on what else is asked for, and no BLAS
        starts threads (which cost more than they give).
        """
        import faiss

        counts, steps = self._arrays
        found = np.empty(len(slots), dtype=np.float32)
        query = np.ascontiguousarray(query, dtype=np.float32)
        wide = np.empty((min(AT_ONCE, len(slots)), self.dimensions), dtype=np.float32)
        lines = np.arange(len(wide), dtype=np.int64)
        with one_thread():
            for start in range(0, len(slots), AT_ONCE):
                part = slots[start : start + AT_ONCE]
                wide[: len(part)] = counts.take(part, axis=0)
                faiss.fvec_inner_products_by_idx(  # type: ignore[attr-defined]  # SWIG
                    faiss.swig_ptr(found[start:]),
                    faiss.swig_ptr(query),
                    faiss.swig_ptr(wide),
                    faiss.swig_ptr(lines),
                    self.dimensions,
                    1,
                    len(part),
                )
        return found * steps.take(slots)


def _room(size: int, dimensions: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Room for vectors in steps, of which none is there.

    In small pages: `np.empty` asks for pages of two megabytes, each of which is cleared whole
    for the first vector in it, and a saved index is filled here and there.
    """
    steps = np.full(size, np.nan, dtype=np.float32)
    if os.name != "posix" or not size:
        return np.empty((size, dimensions), dtype=np.int8), steps
    pages = mmap.mmap(-1, size * dimensions, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype=np.int8).reshape(size, dimensions), steps


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


# ----------------------------------------------------------------------------
# Which row's vector lies in which slot, and the vectors themselves.


Fetch = Callable[["NDArray[np.int64]"], tuple["NDArray[np.int64]", "NDArray[np.float32]"]]
"""Gives those of some rows that have a vector, ascending, and the vectors."""
FETCHED_AT_ONCE = 4096
NO_ROWS = np.zeros(0, dtype=np.int32)
Near = tuple["NDArray[np.int64]", "NDArray[np.float32]"]
"""Slots, and the cosines of what is in them."""


class Slots:
    """Which row is in which slot, and the vectors themselves: each fetched when it is first
    compared, unless it was appended here."""

    def __init__(self, dimensions: int, fetch: Fetch, rows: NDArray[np.int32] = NO_ROWS) -> None:
        """Begin with `rows`, all live and each once; their vectors are to be fetched."""
        self.fetch = fetch
        self.matrix = Matrix(dimensions, len(rows))
        self.row_of = rows.copy()
        self.live = np.ones(len(rows), dtype=bool)
        self.live_count = len(rows)
        self.slot_of = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.int32)
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
            self.row_of, self.live = grown(self.row_of, capacity), grown(self.live, capacity)
        highest = int(rows.max())
        if highest >= len(self.slot_of):
            self.slot_of = grown(self.slot_of, max(1024, highest + 1, len(self.slot_of) * 3 // 2))
        # Searches read without a lock: a vector must be there before anything leads to it.
        self.matrix.append(counts, steps)
        slots = np.arange(start, end, dtype=np.int32)
        self.row_of[start:end] = rows
        self.slot_of[rows] = slots + 1
        alive = self.slot_of[rows] == slots + 1  # the last of several for one row
        self.live[start:end] = alive
        self.live_count += int(np.count_nonzero(alive))

    def fill(self, slots: NDArray[Any]) -> NDArray[Any]:
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
        slots = distinct(slots[slots >= 0])
        self.live[slots] = False
        self.slot_of[self.row_of[slots]] = 0
        self.live_count -= len(slots)
        return len(slots)

    def slots_of(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The slot of each row, -1 for a row without a vector."""
        return places_in(self.slot_of, rows)

    def nearest(self, among: NDArray[Any], query: NDArray[np.float32], n: int) -> Near:
        """The `n` nearest slots of `among`, and those as near as the last of them."""
        among = self.fill(among)
        products = self.matrix.products(among, query)
        if len(among) <= n:
            return among, products
        keep = products >= np.partition(products, len(products) - n)[len(products) - n]
        return among.compress(keep), products.compress(keep)
