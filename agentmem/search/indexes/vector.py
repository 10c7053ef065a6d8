"""Vectors to rows: exact while small, then codes that pick and the vectors that decide.

A scope's rows are scanned exactly when they are few, however large the store
is. Beyond `approximate_from` vectors a search of many rows asks the codes for
candidates and scores those on the stored vectors; the newest ones, which
have no codes yet, are always scanned.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.guards import Ahead, IndexUpkeep
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.rows import (
    EVERYTHING,
    RowScope,
    RowSelection,
    RowTable,
    distinct,
    grown,
    places_in,
)
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


# ----------------------------------------------------------------------------
# Which row's vector lies in which slot, and the vectors themselves, one byte a number: the whole
# numbers that the store keeps (`stores.values.in_steps`), so that what is compared is what every
# other reader of the store would compare.


AT_ONCE = 256
"""So many vectors are widened at a time: they stay in the processor's cache."""
FETCHED_AT_ONCE = 4096
NO_ROWS = np.zeros(0, dtype=np.int32)

Fetch = Callable[["NDArray[np.int64]"], tuple["NDArray[np.int64]", "NDArray[np.float32]"]]
"""Gives those of some rows that have a vector, ascending, and the vectors."""
Near = tuple["NDArray[np.int64]", "NDArray[np.float32]"]
"""Slots or rows, and the cosines of what is in them."""


class Slots:
    """A growing list of unit vectors in steps, each with its row, and the codes of the first.

    A vector is fetched when it is first compared, unless it was appended here; a slot, once
    filled, keeps its values. Who reads takes the arrays as they are at one moment, and needs no
    lock.
    """

    def __init__(self, dimensions: int, fetch: Fetch, rows: NDArray[np.int32] = NO_ROWS) -> None:
        """Begin with `rows`, all live and each once; their vectors are to be fetched."""
        self.dimensions = dimensions
        self.fetch = fetch
        self.size = self.live_count = len(rows)
        self.row_of = rows.copy()
        self.live = np.ones(len(rows), dtype=bool)
        self.slot_of = np.zeros(int(rows.max(initial=0)) + 1, dtype=np.int32)
        self.slot_of[rows] = np.arange(1, len(rows) + 1, dtype=np.int32)
        """By row id, one more than the slot."""
        self.codes: VectorCodes | None = None
        self.trained_at = 0
        self._vectors = _room(len(rows), dimensions)
        self._gaps = len(rows) > 0
        """Whether any slot may be without its vector."""
        self._lock = threading.Lock()

    @property
    def coded(self) -> int:
        return 0 if self.codes is None else self.codes.size

    def reserve(self, size: int) -> None:
        """Have room for so many, and for half as many more: the system gives memory only to what
        is written."""
        with self._lock:
            counts, steps = self._vectors
            if size > len(steps):
                capacity = max(1024, size * 3 // 2)
                larger = _room(capacity, self.dimensions)
                larger[0][: len(counts)], larger[1][: len(steps)] = counts, steps
                self._vectors = larger
                self.row_of, self.live = grown(self.row_of, capacity), grown(self.live, capacity)

    def append(
        self, rows: NDArray[np.int64], counts: NDArray[np.int8], steps: NDArray[np.float32]
    ) -> None:
        """Write vectors in steps at the end, instead of those that the rows had."""
        self.delete(rows)
        start, end = self.size, self.size + len(rows)
        self.reserve(end)
        highest = int(rows.max())
        if highest >= len(self.slot_of):
            self.slot_of = grown(self.slot_of, max(1024, highest + 1, len(self.slot_of) * 3 // 2))
        slots = np.arange(start, end, dtype=np.int32)
        # Searches read without a lock: a vector must be there before anything leads to it.
        self.put(slots, counts, steps)
        self.size = end
        self.row_of[start:end] = rows
        self.slot_of[rows] = slots + 1
        alive = self.slot_of[rows] == slots + 1  # the last of several for one row
        self.live[start:end] = alive
        self.live_count += int(np.count_nonzero(alive))

    def put(
        self, slots: NDArray[Any], counts: NDArray[np.int8], steps: NDArray[np.float32]
    ) -> None:
        """Fill slots with vectors in steps: how many, and how long a step of each is."""
        with self._lock:
            self._vectors[0][slots], self._vectors[1][slots] = counts, steps

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

    def missing(self, slots: NDArray[Any]) -> NDArray[Any]:
        """Those of `slots` that are not filled."""
        return slots.compress(np.isnan(self._vectors[1].take(slots))) if self._gaps else slots[:0]

    def fill(self, slots: NDArray[Any]) -> NDArray[Any]:
        """Fetch what is not here yet; those of `slots` that have a vector."""
        missing = self.missing(slots)
        if not missing.size:
            return slots
        for start in range(0, len(missing), FETCHED_AT_ONCE):
            wanted = missing[start : start + FETCHED_AT_ONCE]
            wanted = wanted[np.argsort(self.row_of.take(wanted))]
            rows = self.row_of.take(wanted).astype(np.int64)
            found, vectors = self.fetch(rows)
            if len(found):
                self.put(wanted[np.isin(rows, found)], *directions(vectors))
        gone = self.missing(slots)
        return slots[~np.isin(slots, gone)] if gone.size else slots

    def at(self, slots: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """What was put into `slots`; a step of NaN where nothing was."""
        counts, steps = self._vectors
        return counts.take(slots, axis=0), steps.take(slots)

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

        counts, steps = self._vectors
        found = np.empty(len(slots), dtype=np.float32)
        query = np.ascontiguousarray(query, dtype=np.float32)
        wide = np.empty((min(AT_ONCE, len(slots)), self.dimensions), dtype=np.float32)
        for start in range(0, len(slots), AT_ONCE):
            part = slots[start : start + AT_ONCE]
            wide[: len(part)] = counts.take(part, axis=0)
            faiss.fvec_inner_products_ny(  # type: ignore[attr-defined]  # SWIG
                faiss.swig_ptr(found[start:]),
                faiss.swig_ptr(query),
                faiss.swig_ptr(wide),
                self.dimensions,
                len(part),
            )
        return found * steps.take(slots)

    def nearest(self, among: NDArray[Any], query: NDArray[np.float32], n: int) -> Near:
        """The rows of the `n` nearest slots of `among` and their cosines, equal ones by row."""
        among = self.fill(among)
        products = self.products(among, query)
        if len(among) > n:
            keep = products >= np.partition(products, len(products) - n)[len(products) - n]
            among, products = among.compress(keep), products.compress(keep)
        rows = self.row_of.take(among).astype(np.int64)
        order = np.lexsort((rows, -products))[:n]
        return rows[order], products[order].clip(-1.0, 1.0)  # rounding may have carried them past


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


ROUNDED = 0.05
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
    kept = np.abs(squares * step**2 - 1.0) <= ROUNDED
    return counts, np.where(kept, step, 1.0 / np.sqrt(np.maximum(squares, 1.0))).astype(np.float32)


# ----------------------------------------------------------------------------
# The index: what is added, coded beside the searches, and asked.


ahead = Ahead()

APPROXIMATE_FROM = 6144
EXACT_SHARE = 32
"""One row in so many is sooner compared than found among what the codes pick."""
WIDEST = 65_536
NOTHING = np.zeros(0, dtype=np.int64)
CODED_AT_ONCE = 256
ADDED_AT_ONCE = 4096
RETRAIN_GROWTH = 8
UNIT = 1e-3
"""A vector whose square is that near to 1 is of unit length."""
SCANNED_AHEAD = 50_000
"""From so many codes on, another thread scans them while the words are looked up."""


class VectorIndex:
    """Nearest vectors of one embedder; safe to use from several threads.

    `table` says whose each row is, `fetch` gives the vectors of rows that `restore` brought
    without them. `background=False` does all upkeep inside the call that makes it due.
    """

    approximate_from = APPROXIMATE_FROM
    exact_scope = 4096
    """Exactly searched are up to so many rows in scope."""
    depth = 1024
    """How many of those the codes pick are looked at again."""
    fresh = 1024

    def __init__(
        self, embedder: EmbedderId, table: RowTable, fetch: Fetch, *, background: bool = True
    ) -> None:
        self.embedder = embedder
        self.table = table
        self._lock = threading.RLock()
        self._fetch = fetch
        self._slots = Slots(embedder.dimensions, fetch)
        self.upkeep = IndexUpkeep(self._tidy, background=background)

    def __len__(self) -> int:
        return self._slots.live_count

    @property
    def unfinished(self) -> bool:
        """Whether upkeep has something left to do, such as the first codes."""
        with self._lock:
            return self._job_due() is not None

    # -- changing -----------------------------------------------------------------

    def add(self, rows: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
        """Take in a vector for each row; a row that has one gets the new one.

        Vectors not of unit length are brought to it.
        """
        with self._lock:
            self._slots.reserve(self._slots.size + len(rows))
            for start in range(0, len(rows), ADDED_AT_ONCE):
                part = slice(start, start + ADDED_AT_ONCE)
                self._slots.append(rows[part], *directions(vectors[part]))
        self._see_to_it()

    def delete(self, rows: NDArray[Any] | Sequence[int]) -> int:
        """Take the vectors of `rows` out and return how many there were."""
        with self._lock:
            count = self._slots.delete(np.asarray(rows, dtype=np.int64))
        self._see_to_it()
        return count

    def snapshot(self) -> tuple[dict[str, int], dict[str, NDArray[Any]]]:
        """Every row at one moment, none of the deleted, and the codes of the first of them: how
        many, and how many vectors there were when they were fitted, then all that is long."""
        while True:
            with self._lock:
                slots, codes = self._slots, self._slots.codes
                if slots.live_count == slots.size:
                    rows = slots.row_of[: slots.size].copy()
                    if codes is None:
                        return {}, {"rows": rows}
                    return (
                        {"trained_at": slots.trained_at, "coded": codes.size},
                        {"rows": rows, "centroids": codes.centroids, "packed": codes.packed()},
                    )
            self.upkeep.wait()
            self._rebuild()

    def restore(self, told: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `snapshot` gave; ValueError or KeyError if it does not fit together."""
        rows = arrays["rows"]
        if rows.min(initial=1) < 1 or not 0 <= told.get("coded", 0) <= len(rows):
            raise ValueError("rows that are none")
        slots = Slots(self.embedder.dimensions, self._fetch, rows)
        if (slots.slots_of(rows) != np.arange(len(rows))).any():
            raise ValueError("rows twice")
        if "packed" in arrays:
            slots.codes = VectorCodes(arrays["centroids"], self.embedder.dimensions)
            slots.codes.load_packed(arrays["packed"], told["coded"])
            slots.trained_at = max(1, told["trained_at"])
        with self._lock:
            self._slots = slots
        self._see_to_it()

    def close(self) -> None:
        """Let the job at hand finish; searches still work."""
        self.upkeep.close()

    def _see_to_it(self) -> None:
        if self.unfinished:
            self.upkeep.wake()

    # -- upkeep ---------------------------------------------------------------------

    def _job_due(self) -> Callable[[], None] | None:
        slots = self._slots
        enough = RETRAIN_GROWTH * slots.trained_at if slots.codes else self.approximate_from
        dead = slots.size - slots.live_count
        if slots.live_count >= enough or dead > max(self.fresh, slots.size // 8):
            return self._rebuild
        uncoded = slots.size - slots.coded if slots.codes else 0
        return self._code_fresh if uncoded >= self.fresh else None

    def _tidy(self) -> bool:
        with self._lock:
            job = self._job_due()
        if job is not None:
            job()
        return job is not None

    def _code_fresh(self) -> None:
        """Give the newest vectors codes, a few at a time so that searches come between."""
        slots = self._slots
        end = slots.size
        while True:
            with self._lock:
                codes = slots.codes
                if slots is not self._slots or codes is None or codes.size >= end:
                    return
                wanted = np.arange(codes.size, min(end, codes.size + CODED_AT_ONCE))
                slots.fill(wanted)
                codes.add(slots.take(wanted))

    def _rebuild(self) -> None:
        """Make everything anew without the dead, beside the searches, then swap it in."""
        with self._lock:
            old = self._slots
            end = old.size
            kept = np.flatnonzero(old.live[:end])
            rows = old.row_of[kept].astype(np.int64)
        old.fill(kept)
        new = old  # where there is nothing to leave out, only the codes are new
        if len(kept) < end:
            new = Slots(self.embedder.dimensions, self._fetch)
            for first in range(0, len(kept), CODED_AT_ONCE):
                part = slice(first, first + CODED_AT_ONCE)
                new.append(rows[part], *old.at(kept[part]))
        codes, trained_at = self._new_codes(old, new, len(kept))
        with self._lock:
            if self._slots is not old:
                return
            if new is not old:
                new.delete(rows[old.slots_of(rows) != kept])
                since = np.flatnonzero(old.live[end : old.size]) + end
                if since.size:
                    new.append(old.row_of[since].astype(np.int64), *old.at(since))
            new.codes, new.trained_at = codes, trained_at
            self._slots = new

    def _new_codes(self, old: Slots, new: Slots, count: int) -> tuple[VectorCodes | None, int]:
        if count < self.approximate_from:
            return None, 0
        codes, trained_at = old.codes, old.trained_at
        if codes is None or count >= RETRAIN_GROWTH * trained_at:
            step = max(1, count // TRAINING_ROWS)
            codes = VectorCodes.trained(new.take(np.arange(0, count, step)))
            trained_at = count
        else:
            codes = VectorCodes(codes.centroids, codes.dimensions)
        for first in range(0, count, CODED_AT_ONCE):
            codes.add(new.take(np.arange(first, min(count, first + CODED_AT_ONCE))))
        return codes, trained_at

    # -- searching --------------------------------------------------------------------

    def search(self, vector: NDArray[np.float32], n: int, *, scope: RowScope = EVERYTHING) -> Near:
        """The `n` nearest rows of `scope` and their cosines, nearest first, equal ones by row.

        A query of zeros is near nothing.
        """
        return self.begin(vector, n, self.table.select(scope))()

    def begin(self, vector: NDArray[np.float32], n: int, among: RowSelection) -> Callable[[], Near]:
        """`search`, begun: what is returned gives its answer.

        Many codes are scanned meanwhile by another thread.
        """
        query, slots, in_scope = _unit(vector), self._slots, among.count
        if not n or not slots.size or not in_scope or not query.any():
            return lambda: (NOTHING, np.zeros(0, dtype=np.float32))
        exact = max(self.exact_scope, slots.size // EXACT_SHARE)
        if among.positions is not None and in_scope <= exact:
            wanted = slots.slots_of(among.rows)
            return lambda: slots.nearest(wanted[wanted >= 0], query, n)
        deep = max(self.depth, 4 * n)
        wide = _width(deep, in_scope, slots.size)

        def scan() -> tuple[NDArray[np.int64], int]:
            """What the codes pick, and how many slots have one."""
            with self._lock:
                return slots.codes.search(query, wide) if slots.codes else NOTHING, slots.coded

        scanned = ahead.start(scan) if slots.coded >= SCANNED_AHEAD else scan

        def seen(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
            wanted = wanted.compress(slots.live.take(wanted))
            return wanted.compress(among.holds(slots.row_of.take(wanted)))

        def end() -> Near:
            raw, coded = scanned()
            chosen = seen(raw)
            # Codes of vectors that are all alike give fewer than asked for; and a scope that lies
            # far from the query may have too few rows among those picked.
            short = len(raw) < min(wide, coded) or len(chosen) < min(n, in_scope)
            if short and len(raw) < coded:
                return slots.nearest(seen(np.arange(slots.size)), query, n)
            fresh = seen(np.arange(coded, slots.size))
            return slots.nearest(np.concatenate((chosen[:deep], fresh)), query, n)

        return end

    def cosines_of(
        self, vector: NDArray[np.float32], rows: NDArray[Any] | Sequence[int]
    ) -> NDArray[np.float32]:
        """The cosine of each row with `vector`, NaN for a row without a vector."""
        slots = self._slots
        wanted = slots.slots_of(np.asarray(rows, dtype=np.int64))
        there = wanted >= 0
        found = np.full(len(wanted), np.nan, dtype=np.float32)
        if there.any():
            slots.fill(wanted[there])
            found[there] = slots.products(wanted[there], _unit(vector)).clip(-1.0, 1.0)
        return found


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """A vector of unit length; as embedders give it, it is only looked at."""
    if abs(float(vector.dot(vector)) - 1.0) <= UNIT:
        return vector
    wide = vector.astype(np.float64)
    return np.asarray(wide / (float(np.linalg.norm(wide)) or 1.0), dtype=np.float32)


def _width(depth: int, in_scope: int, size: int) -> int:
    """How many slots the codes are asked for, so that about `depth` of them are in scope.

    The smaller the part of the store that is in scope, the less even it may lie.
    """
    others = max(1.0, size / max(1, in_scope))
    return min(WIDEST, int(depth * others * (1.0 + min(0.5, 4.0 * (others - 1.0)))))
