"""Vectors to rows: exact while small, then codes that pick and the vectors that decide.

A scope's rows are scanned exactly when they are few, however large the store
is. Beyond `approximate_from` vectors a search of many rows asks the codes for
candidates and scores those on the stored vectors; the newest ones, which
have no codes yet, are always scanned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.guards import Ahead, IndexUpkeep
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.matrix import (
    TRAINING_ROWS,
    Fetch,
    Matrix,
    Slots,
    VectorCodes,
    directions,
    pieces_of,
)
from agentmem.search.indexes.rows import EVERYTHING, RowScope, RowTable, places_in

if TYPE_CHECKING:
    from numpy.typing import NDArray


ahead = Ahead()

APPROXIMATE_FROM = 6144
FINE_PIECES, FINE_SIZE = 48, 50_000
"""Codes of so many pieces tell so many vectors apart well enough for half of that."""
WIDEST = 65_536
NOTHING = np.zeros(0, dtype=np.int64)
CODED_AT_ONCE = 256
ADDED_AT_ONCE = 4096
RETRAIN_GROWTH = 8
UNIT = 1e-3
"""A vector whose square is that near to 1 is of unit length."""
SCANNED_AHEAD = 50_000
"""From so many codes on, another thread scans them while the words are looked up."""
# What one row costs, in nanoseconds: to score exactly, to pass over by its code, to pick.
SCORED, PASSED, PICKED = 140.0, 2.5, 100.0


class VectorIndex:
    """Nearest vectors of one embedder; safe to use from several threads.

    `table` says whose each row is, `fetch` gives the vectors of rows that `restore` brought
    without them. `background=False` does all upkeep inside the call that makes it due.
    """

    approximate_from = APPROXIMATE_FROM
    exact_scope = 4096
    """Exactly searched are up to so many rows in scope (0: never mind the scope)."""
    depth = 1024
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
            self._slots.matrix.reserve(self._slots.size + len(rows))
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

    def snapshot(
        self,
    ) -> tuple[NDArray[np.int32], tuple[NDArray[np.uint8], int, NDArray[np.float32], int] | None]:
        """Every row at one moment, none of the deleted, and the codes: packed, how many,
        centroids, and how many vectors there were when they were fitted."""
        while True:
            with self._lock:
                slots = self._slots
                if slots.live_count == slots.size:
                    rows, codes = slots.row_of[: slots.size].copy(), slots.codes
                    if codes is None:
                        return rows, None
                    return rows, (codes.packed(), codes.size, codes.centroids, slots.trained_at)
            self.upkeep.wait()
            self._rebuild()

    def restore(
        self,
        rows: NDArray[np.int32],
        packed: NDArray[np.uint8] | None,
        coded: int,
        centroids: NDArray[np.float32] | None,
        trained_at: int,
    ) -> None:
        """Take over what `snapshot` gave; ValueError if it does not fit together."""
        if rows.min(initial=1) < 1 or not 0 <= coded <= len(rows):
            raise ValueError("rows that are none")
        slots = Slots(self.embedder.dimensions, self._fetch, rows)
        if (slots.slots_of(rows) != np.arange(len(rows))).any():
            raise ValueError("rows twice")
        if packed is not None and centroids is not None:
            slots.codes = VectorCodes(centroids, self.embedder.dimensions)
            slots.codes.load_packed(packed, coded)
            slots.trained_at = max(1, trained_at)
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
                codes.add(slots.matrix.take(wanted))

    def _rebuild(self) -> None:
        """Make everything anew without the dead, beside the searches, then swap it in."""
        with self._lock:
            old = self._slots
            end = old.size
            kept = np.flatnonzero(old.live[:end])
            rows = old.row_of[kept].astype(np.int64)
        old.fill(kept)
        new = Slots(self.embedder.dimensions, self._fetch)
        if len(kept) == end:
            new.matrix = old.matrix  # nothing to leave out: only the codes are new
        else:
            for first in range(0, len(kept), CODED_AT_ONCE):
                part = slice(first, first + CODED_AT_ONCE)
                new.append(rows[part], *old.matrix.at(kept[part]))
        codes, trained_at = self._new_codes(old, new.matrix, len(kept))
        with self._lock:
            if self._slots is not old:
                return
            if new.matrix is old.matrix:
                old.codes, old.trained_at = codes, trained_at
                return
            new.delete(rows[old.slots_of(rows) != kept])
            since = np.flatnonzero(old.live[end : old.size]) + end
            if since.size:
                new.append(old.row_of[since].astype(np.int64), *old.matrix.at(since))
            new.codes, new.trained_at = codes, trained_at
            self._slots = new

    def _new_codes(self, old: Slots, matrix: Matrix, count: int) -> tuple[VectorCodes | None, int]:
        if count < self.approximate_from:
            return None, 0
        codes, trained_at = old.codes, old.trained_at
        if codes is None or count >= RETRAIN_GROWTH * trained_at:
            step = max(1, count // TRAINING_ROWS)
            codes = VectorCodes.trained(matrix.take(np.arange(0, count, step)))
            trained_at = count
        else:
            codes = VectorCodes(codes.centroids, codes.dimensions)
        for first in range(0, count, CODED_AT_ONCE):
            codes.add(matrix.take(np.arange(first, min(count, first + CODED_AT_ONCE))))
        return codes, trained_at

    # -- searching --------------------------------------------------------------------

    def search(
        self, vector: NDArray[np.float32], n: int, *, scope: RowScope = EVERYTHING
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The `n` nearest rows of `scope` and their cosines, nearest first, equal ones by row.

        A query of zeros is near nothing.
        """
        return self.begin(vector, n, scope=scope)()

    def begin(
        self, vector: NDArray[np.float32], n: int, *, scope: RowScope = EVERYTHING
    ) -> Callable[[], tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """`search`, begun: what is returned gives its answer.

        Many codes are scanned meanwhile by another thread.
        """
        query, slots, table = _unit(vector), self._slots, self.table
        with table.lock:
            selection = table.select(scope)
            rows, position_of = table.column["rows"], table.position_of
        in_scope = selection.count
        if not n or not slots.size or not in_scope or not query.any():
            return lambda: (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
        fine = pieces_of(self.embedder.dimensions) >= FINE_PIECES and slots.size <= FINE_SIZE
        deep = max(self.depth // 2 if fine else self.depth, 4 * n)
        """How many of those the codes pick are looked at again."""
        wide = _width(deep, in_scope, slots.size)

        def scan() -> tuple[NDArray[np.int64], int]:
            """What the codes pick, and how many slots have one."""
            with self._lock:
                return slots.codes.search(query, wide) if slots.codes else NOTHING, slots.coded

        def seen(wanted: NDArray[np.int64]) -> NDArray[np.int64]:
            """Those slots that are live and whose rows were in the scope when it was worked out."""
            wanted = wanted.compress(slots.live.take(wanted))
            positions = places_in(position_of, slots.row_of.take(wanted))
            here = (positions >= 0) & (positions < selection.end)
            return wanted.compress(here & selection.mask.take(positions, mode="clip"))

        def picked(raw: NDArray[np.int64], coded: int) -> NDArray[np.int64]:
            """What the codes picked and what has no codes yet."""
            chosen = seen(raw)
            # Codes of vectors that are all alike give fewer than asked for; and a scope that lies
            # far from the query may have too few rows among those picked.
            short = len(raw) < min(wide, coded) or len(chosen) < min(n, in_scope)
            if short and len(raw) < coded:
                return seen(np.arange(slots.size))
            return np.concatenate((chosen[:deep], seen(np.arange(coded, slots.size))))

        if selection.positions is not None and self._scanned(in_scope):
            wanted = slots.slots_of(rows[selection.positions])
            scanned = None
        else:
            scanned = ahead.start(scan) if slots.coded >= SCANNED_AHEAD else scan

        def end() -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            among = wanted[wanted >= 0] if scanned is None else picked(*scanned())
            found, cosines = slots.nearest(among, query, n)
            keys = slots.row_of.take(found).astype(np.int64)
            order = np.lexsort((keys, -cosines))[:n]
            return keys[order], _bounded(cosines[order])

        return end

    def _scanned(self, in_scope: int) -> bool:
        """Whether so many rows of a larger table are better scanned than picked by codes."""
        if in_scope <= self.exact_scope:
            return True
        size = self._slots.size
        picking = PASSED * size + PICKED * _width(self.depth, in_scope, size)
        return self.exact_scope > 0 and SCORED * in_scope < picking

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
            found[there] = _bounded(slots.matrix.products(wanted[there], _unit(vector)))
        return found


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """A vector of unit length; as embedders give it, it is only looked at."""
    if abs(float(vector.dot(vector)) - 1.0) <= UNIT:
        return vector
    wide = vector.astype(np.float64)
    return np.asarray(wide / (float(np.linalg.norm(wide)) or 1.0), dtype=np.float32)


def _bounded(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosines, which rounding may have carried past 1 or -1."""
    return np.minimum(np.maximum(cosines, np.float32(-1.0)), np.float32(1.0))


def _width(depth: int, in_scope: int, size: int) -> int:
    """How many slots the codes are asked for, so that about `depth` of them are in scope.

    The smaller the part of the store that is in scope, the less even it may lie.
    """
    others = max(1.0, size / max(1, in_scope))
    return min(WIDEST, int(depth * others * (1.0 + min(0.5, 4.0 * (others - 1.0)))))
