"""What both engines know about each row: whose it is, when, how long, and what stands beside it."""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentmem.base.errors import InvalidFilter
from agentmem.stores.values import IndexRows

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
    "place": np.int64,
    "previous": np.int32,
    "speaker": np.int64,
    "kind": np.int64,
    "created_at": np.int64,
    "valid_from": np.int64,
    "valid_to": np.int64,
    "length": np.int32,
    "flags": np.uint32,
}


def distinct(values: NDArray[N]) -> NDArray[N]:
    """The values in order, each once: `np.unique`, which would import all of `numpy.ma`."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def batch_of(columns: Mapping[str, NDArray[Any]]) -> IndexRows:
    """Rows with these columns and no terms."""
    return IndexRows(
        term_offsets=np.zeros(len(columns["rows"]) + 1, dtype=np.int64),
        terms=np.zeros(0, dtype=np.uint64),
        frequencies=np.zeros(0, dtype=np.uint8),
        **{name: columns[name] for name in COLUMNS},
    )


# ----------------------------------------------------------------------------
# Which rows a search may see: a value, and the same thing worked out on one table.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowScope:
    """What a search may see; every part narrows it, and a part left out does not.

    `owners` are the owner ids the reader may see, `rows` the rows a filter let
    through (in any order). The others are looked up in the table's own columns:
    `kinds`, when it was made (the first moment included, the second not), when
    it is valid, and bits none of which may be set in its flags.
    """

    owners: frozenset[int] | None = None
    rows: NDArray[np.int64] | None = None
    kinds: frozenset[int] | None = None
    created_from_us: int | None = None
    created_before_us: int | None = None
    valid_at_us: int | None = None
    without_flags: int = 0

    def __post_init__(self) -> None:
        for name in ("owners", "kinds"):
            value = getattr(self, name)
            if value is None or type(value) is frozenset:
                continue
            if isinstance(value, str | bytes) or not isinstance(value, Iterable):
                raise InvalidFilter(name, value, "is not a set of ids", remedy="Pass a set of int.")
            object.__setattr__(self, name, frozenset(value))
        if self.rows is not None:
            rows = np.asarray(self.rows)
            if rows.ndim != 1 or not (rows.size == 0 or np.issubdtype(rows.dtype, np.integer)):
                raise InvalidFilter("rows", self.rows, "is not a list of row ids")
            rows = rows.astype(np.int64)
            if rows.size > 1 and not bool((rows[1:] > rows[:-1]).all()):
                rows = distinct(rows)
            object.__setattr__(self, "rows", rows)

    @property
    def by_owner_and_flags(self) -> bool:
        """Whether nothing but `owners` and `without_flags` narrows the scope."""
        return (
            self.rows is None
            and self.kinds is None
            and self.created_from_us is None
            and self.created_before_us is None
            and self.valid_at_us is None
        )


EVERYTHING = RowScope()

Runs = tuple["NDArray[np.int32]", "NDArray[np.int32]", "NDArray[np.int64]"]
"""The first position of each run, the one after its last, and the place of the first in the
scope's list."""


class RowSelection:
    """A scope worked out on one table: the live rows it holds, by position.

    `positions` is ascending; `None` stands for every live row below `end`,
    which spares large stores from writing the list down.
    """

    __slots__ = (
        "_mask",
        "_outside",
        "_runs",
        "_taken",
        "count",
        "end",
        "frequencies",
        "positions",
        "total_length",
    )

    def __init__(
        self, positions: NDArray[np.int32] | None, *, end: int, count: int, total_length: int
    ) -> None:
        self.positions = positions
        self.end = end
        self.count = count
        self.total_length = total_length
        self.frequencies: dict[int, int] = {}
        """How many of its rows hold a word, for words that were asked for."""
        self._mask: NDArray[np.bool_] | None = None
        self._outside: NDArray[np.int32] | None = None
        self._runs: Runs | None = None
        self._taken: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None

    @property
    def whole(self) -> bool:
        """Whether every live row of the table is in it."""
        return self.positions is None

    @property
    def wide(self) -> bool:
        """Whether leaving out what is not in it costs less than writing down what is."""
        return 2 * self.count >= self.end

    @property
    def mean_length(self) -> float:
        """Mean length of the rows in it, 0 when there are none."""
        return self.total_length / self.count if self.count else 0.0

    def mask(self) -> NDArray[np.bool_]:
        """Which positions below `end` are in it; made once, and only for part of a table."""
        if self._mask is None:
            mask = np.zeros(self.end, dtype=bool)
            if self.positions is not None:
                mask[self.positions] = True
            self._mask = mask
        return self._mask

    def runs(self) -> Runs:
        """Where its positions follow each other; made once, and only for part of a table."""
        if self._runs is None:
            positions = np.zeros(0, dtype=np.int32) if self.positions is None else self.positions
            cuts = np.flatnonzero(positions[1:] - positions[:-1] != 1) + 1
            firsts = np.concatenate((np.zeros(min(1, len(positions)), dtype=np.int64), cuts))
            lasts = np.append(cuts, len(positions))[: len(firsts)]
            self._runs = positions[firsts], positions[lasts - 1] + np.int32(1), firsts
        return self._runs

    def taken(
        self, rows: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Its part of two columns of its table; made once, and only for part of a table."""
        if self._taken is None:
            positions = np.zeros(0, dtype=np.int32) if self.positions is None else self.positions
            self._taken = rows.take(positions), lengths.take(positions)
        return self._taken

    def outside(self) -> NDArray[np.int32]:
        """The positions below `end` that are not in it, ascending; only for part of a table."""
        if self._outside is None:
            self._outside = np.flatnonzero(~self.mask()).astype(np.int32)
        return self._outside

    def extended(self, fresh: NDArray[np.bool_], *, count: int, total_length: int) -> RowSelection:
        """The same part of a table that has grown; `fresh` says which of the new rows are in it."""
        if self.positions is None:
            raise ValueError("a whole table is not extended")
        added = np.flatnonzero(fresh)
        larger = RowSelection(
            np.concatenate((self.positions, (added + self.end).astype(np.int32))),
            end=self.end + len(fresh),
            count=count,
            total_length=total_length,
        )
        if self._mask is not None and self.wide:  # else it is sooner made anew than copied
            larger._mask = np.concatenate((self._mask, fresh))
        if self._outside is not None:
            others = np.flatnonzero(~fresh) + self.end
            larger._outside = np.concatenate((self._outside, others.astype(np.int32)))
        return larger


KEPT_SELECTIONS = 32
FEW_ROWS = 32
"""So many are entered sooner one by one than by sorting them."""

MIXED_RUNS = 4096

_FlagKey = tuple[frozenset[int] | None, int]


class _Owner:
    """One owner's rows: where they are, and how many and how long the live ones are."""

    __slots__ = ("count", "positions", "total_length")

    def __init__(self) -> None:
        self.positions = array("i")
        self.count = 0
        self.total_length = 0


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
        self._owners: dict[int, _Owner] = {}
        self._kept: OrderedDict[frozenset[int], tuple[RowSelection, int]] = OrderedDict()
        self._whole: tuple[RowSelection, int] | None = None
        self._kept_by_flags: OrderedDict[_FlagKey, tuple[RowSelection, int, int]] = OrderedDict()
        self.flags_seen = 0
        self._dead: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._fresh_dead: list[int] = []
        self._speakers: dict[int, dict[int, int]] = {}  # by owner: in how many live rows
        self._speakers_entered = 0
        self._turns: dict[int, int] = {}

    # -- changing -----------------------------------------------------------------

    def append(self, batch: IndexRows) -> int:
        """Put rows at the end and return where; a row that was there is replaced."""
        count = len(batch)
        start = self.size
        if not count:
            return start
        self._reserve(start + count, int(max(batch.rows.max(), batch.previous.max())))
        self.flags_seen |= int(np.bitwise_or.reduce(batch.flags))
        if count == 1:
            self._append_one(batch, start)
            return start
        end = start + count
        rows = batch.rows.astype(np.int32, copy=False)
        previous = batch.previous.astype(np.int32, copy=False)
        self.delete(rows)
        for name, values in self.column.items():
            values[start:end] = getattr(batch, name)
        self.live[start:end] = True
        positions = np.arange(start, end, dtype=np.int32)
        self.position_of[rows] = positions + 1
        # The last of several in one batch is the one that counts.
        winners = self.position_of[rows] == positions + 1
        known = previous > 0
        np.maximum.at(self._next_of, previous[known], rows[known])
        self.size = end
        self._touch(*distinct(batch.kind).tolist())
        self._enter_owners(start, end)
        self.live_count += count
        self.live_length += int(batch.length.sum(dtype=np.int64))
        if not winners.all():
            for position in positions[~winners].tolist():
                self._bury(position)
            self.deletions += 1
        return start

    def _append_one(self, batch: IndexRows, position: int) -> None:
        row = int(batch.rows[0])
        previous = int(batch.previous[0])
        old = int(self.position_of[row])
        if old:
            self._bury(old - 1)
            self.deletions += 1
        for name, values in self.column.items():
            values[position] = getattr(batch, name)[0]
        self.live[position] = True
        self.position_of[row] = position + 1
        self._touch(int(batch.kind[0]))
        if previous > 0:
            self._next_of[previous] = max(row, int(self._next_of[previous]))
        owner = self._owner(int(batch.owner[0]))
        length = int(batch.length[0])
        owner.positions.append(position)
        owner.count += 1
        owner.total_length += length
        self.live_count += 1
        self.live_length += length
        self.size = position + 1

    def delete(self, rows: NDArray[Any]) -> int:
        """Take rows out and return how many there were; unknown ones are passed over."""
        positions = self.positions_of(rows)
        positions = distinct(positions[positions >= 0])
        if positions.size:
            self.position_of[self.column["rows"][positions]] = 0
            for position in positions.tolist():
                self._bury(position)
            self.deletions += 1
        return int(positions.size)

    def _bury(self, position: int) -> None:
        self._touch(int(self.column["kind"][position]))
        length = int(self.column["length"][position])
        owner = self._owners[int(self.column["owner"][position])]
        owner.count -= 1
        owner.total_length -= length
        self.live[position] = False
        self.live_count -= 1
        self.live_length -= length
        self._fresh_dead.append(position)
        self._take_speaker_back(position)

    def _touch(self, *kinds: int) -> None:
        for kind in kinds:
            self._turns[kind] = self._turns.get(kind, 0) + 1

    def changes_of(self, kind: int) -> int:
        """A number that grows whenever a row of this kind comes, changes or goes."""
        return self._turns.get(kind, 0)

    def _owner(self, owner_id: int) -> _Owner:
        owner = self._owners.get(owner_id)
        if owner is None:
            owner = self._owners[owner_id] = _Owner()
        return owner

    def _enter_owners(self, start: int, end: int) -> None:
        owners = self.column["owner"][start:end]
        if bool((owners[1:] >= owners[:-1]).all()):
            order = np.arange(end - start, dtype=np.int32)
        else:
            order = np.argsort(owners, kind="stable").astype(np.int32)
        sorted_owners = owners[order]
        cuts = np.flatnonzero(np.diff(sorted_owners)) + 1
        firsts = np.concatenate(([0], cuts))
        lasts = np.concatenate((cuts, [end - start]))
        lengths = np.add.reduceat(
            self.column["length"][start:end][order].astype(np.int64), firsts
        ).tolist()
        order += np.int32(start)
        names = sorted_owners[firsts].tolist()
        for name, first, last, length in zip(
            names, firsts.tolist(), lasts.tolist(), lengths, strict=True
        ):
            owner = self._owner(name)
            owner.positions.frombytes(order[first:last].tobytes())
            owner.count += last - first
            owner.total_length += length

    def _reserve(self, size: int, highest_row: int) -> None:
        if size > len(self.live):
            capacity = max(1024, size, len(self.live) * 3 // 2)
            for name, values in self.column.items():
                self.column[name] = _grown(values, capacity, self.size)
            self.live = _grown(self.live, capacity, self.size)
        if highest_row >= len(self.position_of):
            capacity = max(1024, highest_row + 1, len(self.position_of) * 3 // 2)
            known = len(self.position_of)
            self.position_of = _grown(self.position_of, capacity, known)
            self._next_of = _grown(self._next_of, capacity, known)

    # -- looking up ----------------------------------------------------------------

    def positions_of(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """Where each row is, -1 for a row that is not here."""
        wanted = np.asarray(rows)
        if wanted.size == 0:
            return np.zeros(0, dtype=np.int32)
        known = self.position_of
        if int(wanted.min()) < 0 or int(wanted.max()) >= len(known):
            inside = (wanted >= 0) & (wanted < len(known))
            found = known.take(np.where(inside, wanted, 0))
            return np.where(inside, found - np.int32(1), np.int32(-1)).astype(np.int32)
        found = known.take(wanted)
        found -= np.int32(1)
        return found

    def dead_positions(self) -> NDArray[np.int32]:
        """Every dead position, ascending."""
        if self._fresh_dead:
            self._dead = np.union1d(self._dead, np.array(self._fresh_dead, dtype=np.int32))
            self._fresh_dead = []
        return self._dead

    @property
    def dead_count(self) -> int:
        return self.size - self.live_count

    @property
    def mixed(self) -> bool:
        """Whether owners' rows lie so much among each other that ordering them is worth it."""
        owners = self.column["owner"][: self.size]
        runs = 1 + int(np.count_nonzero(owners[1:] != owners[:-1]))
        return runs > 2 * len(self._owners) + MIXED_RUNS

    def select(self, scope: RowScope = EVERYTHING) -> RowSelection:
        """The live rows of `scope`; scopes of owners alone are kept and extended."""
        with self.lock:
            return self._select(scope)

    def _select(self, scope: RowScope) -> RowSelection:
        if scope.by_owner_and_flags:
            if not scope.without_flags & self.flags_seen:
                return self._select_owners(scope.owners)
            key = (scope.owners, scope.without_flags)
            kept = self._kept_by_flags.pop(key, None)
            if kept is None or kept[1:] != (self.size, self.deletions):
                kept = self._narrowed(scope), self.size, self.deletions
            self._kept_by_flags[key] = kept
            if len(self._kept_by_flags) > KEPT_SELECTIONS:
                self._kept_by_flags.popitem(last=False)
            return kept[0]
        return self._narrowed(scope)

    def _narrowed(self, scope: RowScope) -> RowSelection:
        if scope.rows is not None:
            positions = self.positions_of(scope.rows)
            positions = positions[positions >= 0]
            if not bool((positions[1:] > positions[:-1]).all()):
                positions = np.sort(positions)
            if scope.owners is not None:
                positions = positions[_among(self._at("owner", positions), scope.owners)]
        else:
            chosen = self._select_owners(scope.owners).positions
            positions = self._all_live() if chosen is None else chosen
        positions = positions[self._passes(positions, scope)]
        return self._selection(positions)

    def holds(self, scope: RowScope, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of `rows` are live and in `scope`."""
        with self.lock:
            positions = self.positions_of(rows)
            inside = positions >= 0
            if not self.size:
                return inside
            safe = np.where(inside, positions, 0)
            if scope.owners is not None:
                inside &= _among(self._at("owner", safe), scope.owners)
            if scope.rows is not None:
                inside &= np.isin(rows, scope.rows)
            inside &= self._passes(safe, scope)
            return inside

    def columns_of(
        self, rows: NDArray[Any], names: Collection[str] = tuple(COLUMNS)
    ) -> dict[str, NDArray[Any]]:
        """These columns of `rows`, zeros for a row that is not here (`rows` is then 0 too)."""
        with self.lock:
            positions = self.positions_of(np.asarray(rows))
            gone = positions < 0
            if gone.all():
                return {name: np.zeros(len(gone), self.column[name].dtype) for name in names}
            safe = np.maximum(positions, 0)
            found = {name: self._at(name, safe) for name in names}
        if gone.any():
            for values in found.values():
                values[gone] = 0
        return found

    def neighbours(
        self, rows: NDArray[Any] | Sequence[int], scope: RowScope = EVERYTHING
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row before and the row after each of `rows`, 0 where none is live and in `scope`.

        Of several live rows that name the same previous one, the newest follows it.
        """
        wanted = np.asarray(rows, dtype=np.int64).reshape(-1)
        with self.lock:
            here = self.positions_of(wanted) >= 0
            if not here.any():
                nothing = np.zeros(len(wanted), dtype=np.int64)
                return nothing, nothing.copy()
            safe = np.where(here, self.positions_of(wanted), 0)
            before = np.where(here, self._at("previous", safe), 0).astype(np.int64)
            after = np.where(here, self._next_of.take(np.where(here, wanted, 0)), 0)
            for at in np.flatnonzero((after > 0) & ~self._follow(after, wanted)).tolist():
                after[at] = self._next_of[wanted[at]] = self._find_next(int(wanted[at]))
            after = after.astype(np.int64)
            return (
                np.where(self.holds(scope, before), before, 0),
                np.where(self.holds(scope, after), after, 0),
            )

    def _follow(self, after: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.bool_]:
        at = self.positions_of(after)
        named = self._at("previous", np.where(at >= 0, at, 0))
        follows: NDArray[np.bool_] = (at >= 0) & (named == rows)
        return follows

    def _find_next(self, row: int) -> int:
        """The newest live row that names `row`, sought through all: only after links changed."""
        named = np.flatnonzero(self.column["previous"][: self.size] == row)
        named = named[self.live[named]]
        return int(self.column["rows"][named].max()) if named.size else 0

    def speakers(self, scope: RowScope = EVERYTHING) -> frozenset[int]:
        """Who speaks in any live row of the owners in `scope`."""
        with self.lock:
            self._enter_speakers()
            owners = self._speakers if scope.owners is None else scope.owners
            known = [self._speakers[owner] for owner in owners if owner in self._speakers]
            return frozenset().union(*known) if known else frozenset()

    def _enter_speakers(self) -> None:
        start, self._speakers_entered = self._speakers_entered, self.size
        if start == self.size:
            return
        speakers = self.column["speaker"][start : self.size]
        spoken = ((speakers != 0) & self.live[start : self.size]).nonzero()[0]
        speakers = speakers[spoken]
        owners = self.column["owner"][start : self.size][spoken]
        rows = np.ones(len(spoken), dtype=np.int64)
        if len(owners) > FEW_ROWS:
            order = np.lexsort((speakers, owners))
            owners, speakers = owners[order], speakers[order]
            new = np.ones(len(order), dtype=bool)
            new[1:] = (owners[1:] != owners[:-1]) | (speakers[1:] != speakers[:-1])
            firsts = new.nonzero()[0]
            owners, speakers = owners[firsts], speakers[firsts]
            rows = np.diff(firsts, append=len(order))
        lines = zip(owners.tolist(), speakers.tolist(), rows.tolist(), strict=True)
        for owner, speaker, count in lines:
            known = self._speakers.setdefault(owner, {})
            known[speaker] = known.get(speaker, 0) + count

    def _take_speaker_back(self, position: int) -> None:
        speaker = int(self.column["speaker"][position])
        if not speaker or position >= self._speakers_entered:
            return
        known = self._speakers[int(self.column["owner"][position])]
        known[speaker] -= 1
        if not known[speaker]:
            del known[speaker]

    def _at(self, name: str, positions: NDArray[Any]) -> NDArray[Any]:
        """A column at these positions. Not by `take`: it writes out the whole of a column of one
        value, which is saved and opened as that value alone."""
        values: NDArray[Any] = self.column[name][positions]
        return values

    def _passes(self, positions: NDArray[Any], scope: RowScope) -> NDArray[np.bool_]:
        passes = self.live.take(positions) if self.size else np.zeros(len(positions), dtype=bool)
        if scope.kinds is not None:
            passes &= _among(self._at("kind", positions), scope.kinds)
        if scope.created_from_us is not None:
            passes &= self._at("created_at", positions) >= scope.created_from_us
        if scope.created_before_us is not None:
            passes &= self._at("created_at", positions) < scope.created_before_us
        if scope.valid_at_us is not None:
            passes &= self._at("valid_from", positions) <= scope.valid_at_us
            passes &= self._at("valid_to", positions) > scope.valid_at_us
        if scope.without_flags:
            passes &= (self._at("flags", positions) & scope.without_flags) == 0
        return passes

    def _all_live(self) -> NDArray[np.int32]:
        return np.flatnonzero(self.live[: self.size]).astype(np.int32)

    def _selection(self, positions: NDArray[np.int32]) -> RowSelection:
        if len(positions) == self.live_count:
            return self._everything()
        total = int(self._at("length", positions).sum(dtype=np.int64))
        return RowSelection(positions, end=self.size, count=len(positions), total_length=total)

    def _everything(self) -> RowSelection:
        kept = self._whole
        if kept is None or kept[0].end != self.size or kept[1] != self.deletions:
            whole = RowSelection(
                None, end=self.size, count=self.live_count, total_length=self.live_length
            )
            kept = self._whole = (whole, self.deletions)
        return kept[0]

    def _select_owners(self, owners: frozenset[int] | None) -> RowSelection:
        if owners is None:
            return self._everything()
        known = [self._owners[owner] for owner in owners if owner in self._owners]
        count = sum(owner.count for owner in known)
        if count == self.live_count:
            return self._everything()
        kept = self._kept.pop(owners, None)
        if kept is not None and kept[0].end == self.size and kept[1] == self.deletions:
            selection = kept[0]
        else:
            total = sum(owner.total_length for owner in known)
            if kept is not None and kept[1] == self.deletions:
                fresh = _among(self.column["owner"][kept[0].end : self.size], owners)
                selection = kept[0].extended(fresh, count=count, total_length=total)
            else:
                positions = self._positions_of_owners(known)
                selection = RowSelection(positions, end=self.size, count=count, total_length=total)
        self._kept[owners] = (selection, self.deletions)
        if len(self._kept) > KEPT_SELECTIONS:
            self._kept.popitem(last=False)
        return selection

    def _positions_of_owners(self, known: list[_Owner]) -> NDArray[np.int32]:
        parts = [np.array(owner.positions, dtype=np.int32) for owner in known]
        if not parts:
            return np.zeros(0, dtype=np.int32)
        positions = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if len(parts) > 1:
            positions.sort()
        if self.dead_count:
            positions = positions[self.live.take(positions)]
        return positions

    # -- whole tables ---------------------------------------------------------------

    def adopt(self, compacted: RowTable, *, end: int) -> int:
        """Go on as `compacted`, made of what was live below `end`, plus all that came since.

        Returns by how much the positions from `end` on have moved down.
        """
        since = {name: values[end : self.size].copy() for name, values in self.column.items()}
        known = compacted.column["rows"][: compacted.size].copy()
        start = compacted.append(batch_of(since))
        for rows in (known, since["rows"]):
            gone = rows[self.positions_of(rows) < 0]
            if gone.size:
                compacted.delete(gone)
        lock, turns = self.lock, self._turns
        self.__dict__.update(compacted.__dict__)
        self.lock, self._turns = lock, turns
        return end - start

    @classmethod
    def from_columns(cls, columns: Mapping[str, NDArray[Any]]) -> RowTable:
        """A table of these rows, all live."""
        table = cls()
        table.append(batch_of(columns))
        return table

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
        table.column = dict(columns)
        table.live = np.ones(size, dtype=bool)
        table.size = table.live_count = size
        table.live_length = int(lengths.sum(dtype=np.int64))
        highest = max(int(rows.max()), int(previous.max()))
        table.position_of = np.zeros(highest + 1, dtype=np.int32)
        table.position_of[rows] = np.arange(1, size + 1, dtype=np.int32)
        if np.count_nonzero(table.position_of) != size:
            raise ValueError("rows twice")
        table._next_of = np.zeros(highest + 1, dtype=np.int32)
        known = np.flatnonzero(previous)
        np.maximum.at(table._next_of, previous[known], rows[known])
        table.flags_seen = int(np.bitwise_or.reduce(columns["flags"]))
        kinds = columns["kind"]
        table._touch(*distinct(kinds[np.append(True, kinds[1:] != kinds[:-1])]).tolist())
        table._enter_owners(0, size)
        return table


def _grown(values: NDArray[Any], capacity: int, used: int) -> NDArray[Any]:
    larger = np.zeros(capacity, dtype=values.dtype)
    larger[:used] = values[:used]
    return larger


def _among(values: NDArray[Any], wanted: frozenset[int]) -> NDArray[np.bool_]:
    """Which of `values` are in `wanted`."""
    if len(wanted) == 1:
        (only,) = wanted
        return np.asarray(values == only)
    kind = np.fromiter(wanted, dtype=np.int64, count=len(wanted))
    return np.isin(values, kind)
