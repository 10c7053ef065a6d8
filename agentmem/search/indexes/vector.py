"""Vectors to rows: exact while small, then codes that pick and the vectors that decide.

A scope's rows are scanned exactly when they are few, however large the store
is. Beyond `approximate_from` vectors a search of many rows asks the codes for
candidates and scores those on the stored vectors; the newest ones, which
have no codes yet, are always scanned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.checks import require_count
from agentmem.base.errors import BadVector, InvalidInput
from agentmem.base.guards import Ahead, IndexUpkeep
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.matrix import (
    TRAINING_ROWS,
    Fetch,
    Matrix,
    Narrow,
    Near,
    Scan,
    Slots,
    VectorCodes,
    bounded,
    directions,
    nearest,
    pieces_of,
    width,
)
from agentmem.search.indexes.rows import EVERYTHING, RowScope, RowSelection, RowTable
from agentmem.stores.values import ROW_LIMIT

if TYPE_CHECKING:
    from numpy.typing import NDArray


ahead = Ahead()

APPROXIMATE_FROM = 6144
EXACT_SCOPE = 4096
DEPTH = 1024
FINE_PIECES, FINE_SIZE = 48, 50_000
"""Codes of so many pieces tell so many vectors apart well enough for half of that."""
FRESH = 1024
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

    `table` says whose each row is. `background=False` does all upkeep inside
    the call that makes it due.
    """

    def __init__(
        self,
        embedder: EmbedderId,
        table: RowTable,
        *,
        background: bool = True,
        approximate_from: int = APPROXIMATE_FROM,
        exact_scope: int = EXACT_SCOPE,
        depth: int = DEPTH,
        fresh: int = FRESH,
        fetch: Fetch | None = None,
    ) -> None:
        """`fetch` gives the vectors of rows that `restore` brought without them."""
        self.embedder = embedder
        self.table = table
        self._lock = threading.RLock()
        self._fetch: Fetch = _nothing if fetch is None else fetch
        self._slots = Slots(embedder.dimensions, fetch=self._fetch)
        self._approximate_from = require_count(approximate_from, "approximate_from", least=1)
        self._exact_scope = require_count(exact_scope, "exact_scope")
        self._depth = require_count(depth, "depth", least=1)
        self._fresh = require_count(fresh, "fresh", least=1)
        self.upkeep = IndexUpkeep(self._tidy, background=background)

    def __len__(self) -> int:
        return self._slots.live_count

    @property
    def approximate(self) -> bool:
        """Whether searches of many rows go through codes."""
        return self._slots.codes is not None

    @property
    def unfinished(self) -> bool:
        """Whether upkeep has something left to do, such as the first codes."""
        with self._lock:
            return self._job_due() is not None

    # -- changing -----------------------------------------------------------------

    def add(self, rows: NDArray[Any] | Sequence[int], vectors: NDArray[np.float32]) -> None:
        """Take in a vector for each row; a row that has one gets the new one.

        Vectors not of unit length are brought to it; all or none are taken.
        """
        ids = np.asarray(rows, dtype=np.int64).reshape(-1)
        if ids.size and (int(ids.min()) < 1 or int(ids.max()) > ROW_LIMIT):
            raise InvalidInput("rows", rows, f"is not within 1 to {ROW_LIMIT}")
        given = self._checked(vectors, len(ids))
        if not ids.size:
            return
        with self._lock:
            for start in range(0, len(ids), ADDED_AT_ONCE):
                part = slice(start, start + ADDED_AT_ONCE)
                self._slots.append(ids[part], *directions(given[part]))
            due = self._job_due() is not None
        if due:
            self.upkeep.wake()

    def delete(self, rows: NDArray[Any] | Sequence[int]) -> int:
        """Take the vectors of `rows` out and return how many there were."""
        with self._lock:
            count = self._slots.delete(np.asarray(rows, dtype=np.int64).reshape(-1))
            due = self._job_due() is not None
        if due:
            self.upkeep.wake()
        return count

    def compact(self) -> None:
        """Forget every deleted vector now, in memory too."""
        self.snapshot()

    def snapshot(
        self,
    ) -> tuple[NDArray[np.int32], tuple[NDArray[np.uint8], int, NDArray[np.float32], int] | None]:
        """Every row at one moment, and the codes: packed, how many, centroids, and how many
        vectors there were when they were fitted."""
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
        *,
        packed: NDArray[np.uint8] | None,
        centroids: NDArray[np.float32] | None,
        coded: int,
        trained_at: int,
    ) -> None:
        """Take over what `snapshot` gave; ValueError if it does not fit together."""
        if rows.ndim != 1 or rows.dtype != np.int32 or not 0 <= coded <= len(rows):
            raise ValueError("other types")
        if rows.size and int(rows.min()) < 1:
            raise ValueError("rows that are none")
        slots = Slots(self.embedder.dimensions, rows=rows, fetch=self._fetch)
        if (slots.slots_of(rows) != np.arange(len(rows))).any():
            raise ValueError("rows twice")
        if packed is not None and centroids is not None:
            slots.codes = VectorCodes(centroids, self.embedder.dimensions)
            slots.codes.load_packed(packed, coded)
            slots.trained_at = max(1, trained_at)
        with self._lock:
            self._slots = slots
            due = self._job_due() is not None
        if due:
            self.upkeep.wake()

    def close(self) -> None:
        """Let the job at hand finish; searches still work."""
        self.upkeep.close()

    def _checked_query(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """One vector of unit length; as embedders give it, it is only looked at."""
        given: NDArray[np.float32] = np.asarray(vector)
        if (
            given.dtype == np.float32
            and given.shape == (self.embedder.dimensions,)
            and abs(float(given.dot(given)) - 1.0) <= UNIT
        ):
            return given
        (wide,) = self._checked(given, 1).astype(np.float64)
        length = float(np.linalg.norm(wide))
        return np.asarray(wide / (length or 1.0), dtype=np.float32)

    def _checked(self, vectors: NDArray[np.float32], count: int) -> NDArray[np.float32]:
        dimensions = self.embedder.dimensions
        try:
            given = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError):
            raise BadVector(f"Vectors of {self.embedder} must be numbers.") from None
        if given.ndim == 1 and count == 1:
            given = given[None, :]
        if given.shape != (count, dimensions) and not (count == 0 and given.size == 0):
            raise BadVector(
                f"{self.embedder} has {dimensions} dimensions and {count} vectors were due; "
                f"the shape is {given.shape}.",
                remedy="Embed again with the store's embedder.",
            )
        if not np.isfinite(given).all():
            raise BadVector(
                "A vector holds NaN or infinity.", remedy="Embed the text again, or leave it out."
            )
        return given

    # -- upkeep ---------------------------------------------------------------------

    def _job_due(self) -> str | None:
        slots = self._slots
        dead = slots.size - slots.live_count
        if dead > max(self._fresh, slots.size // 8):
            return "rebuild"
        if slots.codes is None:
            return "rebuild" if slots.live_count >= self._approximate_from else None
        if slots.live_count >= RETRAIN_GROWTH * slots.trained_at:
            return "rebuild"
        return "code" if slots.size - slots.coded >= self._fresh else None

    def _tidy(self) -> bool:
        with self._lock:
            job = self._job_due()
        if job == "rebuild":
            self._rebuild()
        elif job == "code":
            self._code_fresh()
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
        new = Slots(self.embedder.dimensions, fetch=self._fetch)
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
            gone = rows[old.slots_of(rows) != kept]
            if gone.size:
                new.delete(gone)
            since = np.flatnonzero(old.live[end : old.size]) + end
            if since.size:
                new.append(old.row_of[since].astype(np.int64), *old.matrix.at(since))
            new.codes, new.trained_at = codes, trained_at
            self._slots = new

    def _new_codes(self, old: Slots, matrix: Matrix, count: int) -> tuple[VectorCodes | None, int]:
        if count < self._approximate_from:
            return None, 0
        codes, trained_at = old.codes, old.trained_at
        if codes is None or count >= RETRAIN_GROWTH * trained_at:
            step = max(1, count // TRAINING_ROWS)
            codes = VectorCodes.trained(matrix.take(np.arange(0, count, step)))
            trained_at = count
        else:
            codes = codes.emptied()
        for first in range(0, count, CODED_AT_ONCE):
            codes.add(matrix.take(np.arange(first, min(count, first + CODED_AT_ONCE))))
        return codes, trained_at

    # -- searching --------------------------------------------------------------------

    def search(
        self, vector: NDArray[np.float32], n: int, *, scope: RowScope = EVERYTHING
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The `n` nearest rows of `scope` and their cosines, nearest first, equal ones by row.

        A query of zeros is near nothing. Exact for up to `exact_scope` rows in
        scope (0: never mind the scope) and up to `approximate_from` in all.
        """
        return self.begin(vector, n, scope=scope)()

    def begin(
        self, vector: NDArray[np.float32], n: int, *, scope: RowScope = EVERYTHING
    ) -> Callable[[], tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """`search`, begun: what is returned gives its answer.

        Many codes are scanned meanwhile by another thread.
        """
        require_count(n, "n")
        query = self._checked_query(vector)
        slots = self._slots
        if not n or not slots.size or not query.any():
            return lambda: (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
        with self.table.lock:
            selection = self.table.select(scope)
            row_column = self.table.column["rows"]
            position_of = self.table.position_of
            live = self.table.live
        if selection.positions is not None and self._scanned(selection.count):
            wanted = slots.slots_of(row_column.take(selection.positions))
            scan = None
        else:
            mask = None if selection.positions is None else selection.mask()
            narrow = Narrow(slots, position_of, mask)
            scan = self._begin_scan(slots, query, self._wide(n, selection.count, slots))

        def end() -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            if scan is None:
                found, cosines = nearest(slots, wanted[wanted >= 0], query, n)
            else:
                found, cosines = self._picked(query, n, narrow, scan(), in_scope=selection.count)
            rows, seen = self._seen(slots, found, selection, scope)
            if selection.positions is None and scan is not None and not seen.all():
                # Vectors of rows the table does not have, or has since: leave them out beforehand.
                known = Narrow(slots, position_of, live[: selection.end])
                found, cosines = self._picked(query, n, known, scan(), in_scope=selection.count)
                rows, seen = self._seen(slots, found, selection, scope)
            if not seen.all():
                rows, cosines = rows[seen], cosines[seen]
            order = np.lexsort((rows, -cosines))[:n]
            return rows[order], bounded(cosines[order])

        return end

    def _begin_scan(
        self, slots: Slots, query: NDArray[np.float32], wide: int
    ) -> Callable[[], Scan]:
        def scan() -> Scan:
            with self._lock:
                codes = slots.codes
                raw = np.zeros(0, dtype=np.int64) if codes is None else codes.search(query, wide)
                return codes is not None, raw, slots.coded

        if slots.coded >= SCANNED_AHEAD:
            return lru_cache(maxsize=1)(ahead.start(scan))
        return lru_cache(maxsize=1)(scan)

    def _wide(self, n: int, in_scope: int, slots: Slots) -> int:
        return width(self._deep(n, slots), in_scope, slots.size)

    def _deep(self, n: int, slots: Slots) -> int:
        """How many of those the codes pick are looked at again."""
        fine = pieces_of(self.embedder.dimensions) >= FINE_PIECES and slots.size <= FINE_SIZE
        return max(self._depth // 2 if fine else self._depth, 4 * n)

    def _scanned(self, in_scope: int) -> bool:
        """Whether so many rows of a larger table are better scanned than picked by codes."""
        if in_scope <= self._exact_scope:
            return True
        size = self._slots.size
        picking = PASSED * size + PICKED * width(self._depth, in_scope, size)
        return self._exact_scope > 0 and SCORED * in_scope < picking

    def _seen(
        self, slots: Slots, found: NDArray[np.int64], selection: RowSelection, scope: RowScope
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """The rows in these slots, and which of them are in `scope` now: what was added since
        the scope was worked out is not ours to show."""
        rows = slots.row_of.take(found).astype(np.int64)
        table = self.table
        with table.lock:
            if table.select(scope) is not selection:
                return rows, table.holds(scope, rows)
            if selection.positions is None:
                return rows, table.positions_of(rows) >= 0
        return rows, np.ones(len(rows), dtype=bool)  # nothing else was looked at

    def cosines_of(
        self, vector: NDArray[np.float32], rows: NDArray[Any] | Sequence[int]
    ) -> NDArray[np.float32]:
        """The cosine of each row with `vector`, NaN for a row without a vector."""
        query = self._checked_query(vector)
        slots = self._slots
        wanted = slots.slots_of(np.asarray(rows, dtype=np.int64).reshape(-1))
        missing = wanted < 0
        if missing.all():
            return np.full(len(wanted), np.nan, dtype=np.float32)
        slots.fill(wanted[~missing])
        gaps = bool(missing.any())
        wanted = np.where(missing, 0, wanted) if gaps else wanted
        found = bounded(slots.matrix.products(wanted, query))
        if gaps:
            found[missing] = np.nan
        return found

    def _picked(
        self, query: NDArray[np.float32], n: int, narrow: Narrow, scan: Scan, *, in_scope: int
    ) -> Near:
        """The nearest of what the codes pick and of what has no codes yet."""
        slots = narrow.slots
        has_codes, raw, coded = scan
        picked = narrow(raw)
        # Codes of vectors that are all alike give fewer than asked for; and a scope that lies
        # far from the query may have too few rows among those picked.
        wide = self._wide(n, in_scope, slots)
        short = len(raw) < min(wide, coded) or len(picked) < min(n, in_scope)
        if not has_codes or (short and len(raw) < coded):
            return nearest(slots, narrow(np.arange(slots.size)), query, n)
        picked = picked[: self._deep(n, slots)]
        if coded < slots.size:
            picked = np.concatenate((picked, narrow(np.arange(coded, slots.size))))
        return nearest(slots, picked, query, n)


def _nothing(rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    return rows[:0], np.zeros((0, 0), dtype=np.float32)
