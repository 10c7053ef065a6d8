"""Which rows a search may see: a value, and the same thing worked out on one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from agentmem.core.values import dataclass
from agentmem.errors import InvalidFilter
from agentmem.indexes.batch import distinct

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


class Selection:
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

    def extended(self, fresh: NDArray[np.bool_], *, count: int, total_length: int) -> Selection:
        """The same part of a table that has grown; `fresh` says which of the new rows are in it."""
        if self.positions is None:
            raise ValueError("a whole table is not extended")
        added = np.flatnonzero(fresh)
        larger = Selection(
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
