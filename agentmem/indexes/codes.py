"""Vectors shortened to four bits a piece, and a fast look through all of them.

FAISS product quantisation with packed tables. The codes only pick candidates:
who is near is decided on the vectors themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
