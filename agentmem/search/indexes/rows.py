"""What both engines know about each row: whose it is, when, how long, and what stands beside it."""

from __future__ import annotations

import threading
from array import array
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# Rows on their way into the indexes, as columns.


N = TypeVar("N", bound=np.integer)

DELETED = 1
"""The bit of `flags` that says a row is no longer to be found."""

COLUMNS: Mapping[str, type[np.generic]] = {
    "rows": np.int32,
    "owner": np.int32,
    "strand": np.int64,
    "previous": np.int32,
    "speaker": np.int64,
    "kind": np.int64,
    "created_at": np.int64,
    "length": np.int32,
    "flags": np.uint32,
}


def distinct(values: NDArray[N]) -> NDArray[N]:
    """The values in order, each once: `np.unique`, which would import all of `numpy.ma`."""
    ordered = np.sort(values)
    return ordered[firsts_of(ordered)]


def firsts_of(*columns: NDArray[Any]) -> NDArray[np.intp]:
    """Where another value begins in any of some columns of one length."""
    new = np.ones(len(columns[0]), dtype=np.bool_)
    new[1:] = False
    for values in columns:
        new[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(new)


# ----------------------------------------------------------------------------
# Which rows a search may see: a value, and the same thing worked out on one table.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScope:
    """What a search may see; every part narrows it, and a part left out does not.

    `owners` are the owner ids the reader may see, `rows` the rows a filter let
    through (in any order). The others are looked up in the table's own columns:
    `kinds`, when it was made (the first moment included, the second not), and bits
    none of which may be set in its flags.
    """

    owners: frozenset[int] | None = None
    rows: NDArray[np.int64] | None = None
    kinds: frozenset[int] | None = None
    created_from_us: int | None = None
    created_before_us: int | None = None
    without_flags: int = 0


EVERYTHING = RowScope()

FEW = 64
"""A scope of at most one row in so many has places of its own."""
SCATTERED = 32
"""Looking up a row costs about as much as asking a table about so many postings."""


class RowSelection:
    """A scope worked out on one table: the live rows it holds, as of that moment.

    `positions` is ascending; `None` stands for every live row below `end`, which spares large
    stores from writing the list down. What is asked of a few rows goes by *places*, where each
    stands in that list, so that nothing is as long as the table; for other scopes a row's place
    is its position.
    """

    def __init__(
        self, table: RowTable, positions: NDArray[np.int32] | None, *, total_length: int
    ) -> None:
        self.positions = positions
        self.end = table.size
        self.deletions = table.deletions
        self.count = table.live_count if positions is None else len(positions)
        self.mean_length = total_length / self.count if self.count else 0.0
        self._few = positions if 0 < FEW * self.count <= self.end else None
        self._live, self._columns = table.live, table.column
        self._position_of = table.position_of

    @cached_property
    def mask(self) -> NDArray[np.bool_]:
        """Which positions below `end` are in it."""
        if self.positions is None:
            return self._live[: self.end].copy()
        mask = np.zeros(self.end, dtype=bool)
        mask[self.positions] = True
        return mask

    @cached_property
    def listed(self) -> NDArray[np.int32]:
        """Its positions, written down."""
        if self.positions is None:
            return np.flatnonzero(self.mask).astype(np.int32)
        return self.positions

    @property
    def rows(self) -> NDArray[np.int32]:
        """The rows themselves, in the order of their positions."""
        found: NDArray[np.int32] = self._columns["rows"][self.listed]
        return found

    def holds(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of `rows` are in it."""
        positions = places_in(self._position_of, rows)
        inside = (positions >= 0) & (positions < self.end)
        if self.count == self.end or not self.end:
            return inside
        if self._few is not None:
            return inside & (self.places_of(rows) >= 0)
        known = self._live if self.positions is None else self.mask
        return inside & known.take(positions, mode="clip")

    # -- by place -------------------------------------------------------------------

    @cached_property
    def rows_and_lengths(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Two columns of the table, by place."""
        rows, lengths = self._columns["rows"], self._columns["length"]
        if self._few is not None:
            return rows[self._few], lengths[self._few]
        return rows[: self.end], lengths[: self.end]

    def places_of(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The place of each row that is in it; that of others is no place of a row in it."""
        positions = places_in(self._position_of, rows)
        if self._few is None:
            return positions
        places = self._few.searchsorted(positions).astype(np.int32)
        places[self._few.take(places, mode="clip") != positions] = -1
        return places

    def within(
        self, positions: NDArray[np.int32], counts: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Those of ascending positions that are in it, by place, and what is told of each."""
        if self.count == self.end:
            return positions, counts
        few = self._few
        if few is None:
            inside = self.mask.take(positions)
            return positions.compress(inside), counts.compress(inside)
        if few[-1] - few[0] < self.count:  # side by side
            part = slice(*positions.searchsorted((few[0], few[-1] + 1)).tolist())
            return positions[part] - few[0], counts[part]
        if len(positions) < SCATTERED * len(few):
            at = np.flatnonzero(self.mask.take(positions))
            places = few.searchsorted(positions.take(at))
        else:
            at = positions.searchsorted(few)
            places = np.flatnonzero(positions.take(at, mode="clip") == few)
            at = at.take(places)
        return places.astype(np.int32), counts.take(at)


KEPT_SELECTIONS = 32
MIXED_RUNS = 4096


class RowTable:
    """The columns of every row, by position: the order in which rows came.

    A row that comes again gets a new position and the old one is dead. Nothing
    but `live` ever changes below `size`, so who holds the arrays can go on
    reading them while rows are added. One lock guards what changes.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.size = 0
        self.deletions = 0
        self.live_count = 0
        self.live_length = 0
        self.column: dict[str, NDArray[Any]] = {
            name: np.empty(0, dtype=dtype) for name, dtype in COLUMNS.items()
        }
        self.live = np.zeros(0, dtype=bool)
        self.position_of = np.zeros(1, dtype=np.int32)  # by row id, one more than the position
        self._next_of = np.zeros(1, dtype=np.int32)  # by row id, the row that follows, 0 for none
        self._owned: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))
        """Where an owner's rows are, the dead ones too."""
        self._counts: Counter[int] = Counter()
        """How many live rows an owner has."""
        self._kept: OrderedDict[tuple[frozenset[int] | None, int], RowSelection] = OrderedDict()
        self._flags_seen = 0
        self._speakers: defaultdict[int, Counter[int]] = defaultdict(Counter)
        """By owner who speaks in how many live rows."""
        self._turns: Counter[int] = Counter()

    # -- changing -----------------------------------------------------------------

    def append(self, columns: Mapping[str, NDArray[Any]]) -> int:
        """Put rows at the end and return where; a row that was there is replaced."""
        rows = columns["rows"].astype(np.int32, copy=False)
        previous = columns["previous"].astype(np.int32, copy=False)
        start, end = self.size, self.size + len(rows)
        if start == end:
            return start
        self._reserve(end, int(max(rows.max(), previous.max())))
        self.delete(rows)
        for name, values in self.column.items():
            values[start:end] = columns[name]
        self.live[start:end] = True
        positions = np.arange(start, end, dtype=np.int32)
        self.position_of[rows] = positions + 1
        # The last of several in one batch is the one that counts.
        losers = positions[self.position_of[rows] != positions + 1]
        self._enter(start, end)
        if losers.size:
            self._bury(losers)
        return start

    def _enter(self, start: int, end: int) -> None:
        """Take note of rows whose columns are written, all of them live."""
        part = {name: values[start:end] for name, values in self.column.items()}
        self.size = end
        self.live_count += end - start
        self.live_length += int(part["length"].sum(dtype=np.int64))
        self._flags_seen |= int(np.bitwise_or.reduce(part["flags"]))
        kinds = part["kind"]
        self._turns.update(distinct(kinds[firsts_of(kinds)]).tolist())
        known = np.flatnonzero(part["previous"] > 0)
        np.maximum.at(self._next_of, part["previous"][known], part["rows"][known])
        order = np.argsort(part["owner"], kind="stable").astype(np.int32)
        owners = part["owner"][order]
        order += np.int32(start)
        firsts = firsts_of(owners).tolist()
        for owner, first, last in zip(
            owners[firsts].tolist(), firsts, [*firsts[1:], len(order)], strict=True
        ):
            self._owned[owner].frombytes(order[first:last].tobytes())
            self._counts[owner] += last - first
        spoken = np.flatnonzero(part["speaker"])
        owners, speakers = part["owner"][spoken], part["speaker"][spoken]
        pairs = np.lexsort((speakers, owners))
        owners, speakers = owners[pairs], speakers[pairs]
        starts = firsts_of(owners, speakers)
        counts = np.diff(starts, append=len(pairs))
        for owner, speaker, count in zip(
            owners[starts].tolist(), speakers[starts].tolist(), counts.tolist(), strict=True
        ):
            self._speakers[owner][speaker] += count

    def delete(self, rows: NDArray[Any]) -> int:
        """Take rows out and return how many there were; unknown ones are passed over."""
        positions = self.positions_of(rows)
        positions = distinct(positions[positions >= 0])
        if positions.size:
            self.position_of[self.column["rows"][positions]] = 0
            self._bury(positions)
        return int(positions.size)

    def _bury(self, positions: NDArray[np.int32]) -> None:
        found = [self.column[name][positions] for name in ("kind", "owner", "speaker")]
        kinds, owners, speakers = (values.tolist() for values in found)
        self._turns.update(kinds)
        self._counts.subtract(owners)
        for owner, speaker in zip(owners, speakers, strict=True):
            if speaker:
                self._speakers[owner][speaker] -= 1
        self.live[positions] = False
        self.live_count -= len(positions)
        self.live_length -= int(self.column["length"][positions].sum(dtype=np.int64))
        self.deletions += 1

    def changes_of(self, kind: int) -> int:
        """A number that grows whenever a row of this kind comes, changes or goes."""
        return self._turns[kind]

    def _reserve(self, size: int, highest_row: int) -> None:
        if size > len(self.live):
            capacity = max(1024, size, len(self.live) * 3 // 2)
            for name, values in self.column.items():
                self.column[name] = grown(values[: self.size], capacity)
            self.live = grown(self.live[: self.size], capacity)
        if highest_row >= len(self.position_of):
            capacity = max(1024, highest_row + 1, len(self.position_of) * 3 // 2)
            self.position_of = grown(self.position_of, capacity)
            self._next_of = grown(self._next_of, capacity)

    # -- looking up ----------------------------------------------------------------

    def positions_of(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Where each row is, -1 for a row that is not here."""
        return places_in(self.position_of, rows)

    @property
    def dead_count(self) -> int:
        return self.size - self.live_count

    @property
    def mixed(self) -> bool:
        """Whether owners' rows lie so much among each other that ordering them is worth it."""
        runs = len(firsts_of(self.column["owner"][: self.size]))
        return runs > 2 * len(self._owned) + MIXED_RUNS

    def select(self, scope: RowScope = EVERYTHING) -> RowSelection:
        """The live rows of `scope`; scopes of owners and flags alone are kept and extended."""
        with self.lock:
            if scope.rows is not None:
                positions = self.positions_of(scope.rows)
                positions = distinct(positions[positions >= 0])
                return self._selection(positions[self._passes(positions, scope)])
            key = scope.owners, scope.without_flags & self._flags_seen
            found = self._kept.pop(key, None)
            if found is None or (found.end, found.deletions) != (self.size, self.deletions):
                found = self._worked_out(*key, found)
            self._kept[key] = found
            if len(self._kept) > KEPT_SELECTIONS:
                self._kept.popitem(last=False)
            if (scope.kinds, scope.created_from_us, scope.created_before_us) == (None, None, None):
                return found
            passes = self._passes(found.listed, replace(scope, owners=None))
            return self._selection(found.listed[passes])

    def _worked_out(
        self, owners: frozenset[int] | None, flags: int, before: RowSelection | None
    ) -> RowSelection:
        """The rows of owners without flags, from what they were `before` where only rows came."""
        everyone = owners is None or sum(self._counts[one] for one in owners) == self.live_count
        if everyone and not flags:
            return RowSelection(self, None, total_length=self.live_length)
        start, known = 0, np.zeros(0, dtype=np.int32)
        if before is not None and before.deletions == self.deletions:
            start, known = before.end, before.listed
        elif owners is not None and not everyone:
            start = self.size
            parts = [np.array(self._owned[one], np.int32) for one in owners if one in self._owned]
            known = np.sort(np.concatenate(parts)) if len(parts) > 1 else (*parts, known)[0]
            known = known[self._passes(known, RowScope(without_flags=flags))]
        fresh = np.arange(start, self.size, dtype=np.int32)
        fresh = fresh[self._passes(fresh, RowScope(owners=owners, without_flags=flags))]
        return self._selection(np.concatenate((known, fresh)) if fresh.size else known)

    def _selection(self, positions: NDArray[np.int32]) -> RowSelection:
        total = int(self._at("length", positions).sum(dtype=np.int64))
        whole = len(positions) == self.live_count
        return RowSelection(self, None if whole else positions, total_length=total)

    def columns_of(
        self, rows: NDArray[Any], names: Collection[str] = tuple(COLUMNS)
    ) -> dict[str, NDArray[Any]]:
        """These columns of `rows`, zeros for a row that is not here (`rows` is then 0 too)."""
        with self.lock:
            positions = self.positions_of(np.asarray(rows))
            gone = positions < 0
            if gone.all():
                return {name: np.zeros(len(gone), self.column[name].dtype) for name in names}
            found = {name: self._at(name, np.maximum(positions, 0)) for name in names}
        if gone.any():
            for values in found.values():
                values[gone] = 0
        return found

    def neighbours(
        self, rows: NDArray[Any], seen: RowSelection
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row before and the row after each of `rows`, 0 where none is live and `seen`.

        Of several live rows that name the same previous one, the newest follows it.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        with self.lock:
            positions = self.positions_of(wanted)
            here = positions >= 0
            if not here.any():
                return np.zeros_like(wanted), np.zeros_like(wanted)
            before = np.where(here, self._at("previous", np.maximum(positions, 0)), 0)
            after = np.where(here, self._next_of.take(wanted, mode="clip"), np.int64(0))
            next_at = self.positions_of(after)
            named = self._at("previous", np.maximum(next_at, 0))
            gone = (after > 0) & ((next_at < 0) | (named != wanted))
            for at in np.flatnonzero(gone).tolist():
                after[at] = self._next_of[wanted[at]] = self._find_next(int(wanted[at]))
            return (
                np.where(seen.holds(before), before, np.int64(0)),
                np.where(seen.holds(after), after, np.int64(0)),
            )

    def _find_next(self, row: int) -> int:
        """The newest live row that names `row`, sought through all: only after links changed."""
        named = np.flatnonzero(self.column["previous"][: self.size] == row)
        return int(self.column["rows"][named[self.live[named]]].max(initial=0))

    def speakers(self, scope: RowScope = EVERYTHING) -> frozenset[int]:
        """Who speaks in any live row of the owners in `scope`."""
        with self.lock:
            owners = self._speakers if scope.owners is None else scope.owners
            known = [self._speakers[owner] for owner in owners if owner in self._speakers]
            return frozenset(who for counts in known for who, rows in counts.items() if rows)

    def _at(self, name: str, positions: NDArray[Any]) -> NDArray[Any]:
        """A column at these positions. Not by `take`: it writes out the whole of a column of one
        value, which is saved and opened as that value alone."""
        values: NDArray[Any] = self.column[name][positions]
        return values

    def _passes(self, positions: NDArray[Any], scope: RowScope) -> NDArray[np.bool_]:
        """Which positions are live and of the owners, kinds, times and flags of `scope`."""
        passes: NDArray[np.bool_] = self.live[positions]
        if scope.owners is not None:
            passes &= _among(self._at("owner", positions), scope.owners)
        if scope.kinds is not None:
            passes &= _among(self._at("kind", positions), scope.kinds)
        if scope.created_from_us is not None:
            passes &= self._at("created_at", positions) >= scope.created_from_us
        if scope.created_before_us is not None:
            passes &= self._at("created_at", positions) < scope.created_before_us
        if scope.without_flags:
            passes &= (self._at("flags", positions) & scope.without_flags) == 0
        return passes

    # -- whole tables ---------------------------------------------------------------

    def adopt(self, compacted: RowTable, *, end: int) -> int:
        """Go on as `compacted`, made of what was live below `end`, plus all that came since.

        Returns by how much the positions from `end` on have moved down.
        """
        since = {name: values[end : self.size].copy() for name, values in self.column.items()}
        known = compacted.column["rows"][: compacted.size].copy()
        start = compacted.append(since)
        for rows in (known, since["rows"]):
            compacted.delete(rows[self.positions_of(rows) < 0])
        lock, turns = self.lock, self._turns
        self.__dict__.update(compacted.__dict__)
        self.lock, self._turns = lock, turns
        return end - start

    @classmethod
    def restored(cls, columns: Mapping[str, NDArray[Any]]) -> RowTable:
        """A table over these very arrays, which may be read-only, each row once and all live.

        ValueError if a row is there twice or a number is none that a row can have.
        """
        table = cls()
        rows, previous, lengths = (columns[name] for name in ("rows", "previous", "length"))
        size = len(rows)
        if not size:
            return table
        if min(int(rows.min()) - 1, int(previous.min()), int(lengths.min())) < 0:
            raise ValueError("rows that are none")
        highest = max(int(rows.max()), int(previous.max()))
        table.column = {name: columns[name] for name in COLUMNS}
        table.live = np.ones(size, dtype=bool)
        table.position_of = np.zeros(highest + 1, dtype=np.int32)
        table._next_of = np.zeros(highest + 1, dtype=np.int32)
        table.position_of[rows] = np.arange(1, size + 1, dtype=np.int32)
        if np.count_nonzero(table.position_of) != size:
            raise ValueError("rows twice")
        table._enter(0, size)
        return table


def places_in(known: NDArray[np.int32], wanted: NDArray[Any]) -> NDArray[np.int32]:
    """What stands in `known` at `wanted`, less one; -1 for what is not within it."""
    wanted = np.asarray(wanted)
    found = known.take(wanted, mode="clip") - np.int32(1)
    found[(wanted < 0) | (wanted >= len(known))] = -1
    return found


def grown(values: NDArray[Any], capacity: int) -> NDArray[Any]:
    """`values` with room for more, zeros so far."""
    larger = np.zeros(capacity, dtype=values.dtype)
    larger[: len(values)] = values
    return larger


def _among(values: NDArray[Any], wanted: frozenset[int]) -> NDArray[np.bool_]:
    """Which of `values` are in `wanted`."""
    if len(wanted) == 1:
        (only,) = wanted
        return np.asarray(values == only)
    return np.isin(values, np.fromiter(wanted, dtype=np.int64, count=len(wanted)))
