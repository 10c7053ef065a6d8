"""Rows on their way into the indexes, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

N = TypeVar("N", bound=np.integer)

ROW_LIMIT = 2**31 - 2
"""Row ids stand in four bytes here, and a table of four bytes reaches up to the largest one."""

COUNT_LIMIT = 255
"""A word found more often in one row counts this often."""

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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexRows:
    """Some rows as arrays of one length; row i's words are `terms[term_offsets[i]:...[i + 1]]`.

    `rows` are ids from 1 on, `previous` the row before it in its strand (0: none).
    Terms are 64-bit hashes of analysed words, each once a row, with how often
    it stands there in `frequencies`. Moments are microseconds since 1970.
    """

    rows: NDArray[Any]
    owner: NDArray[Any]
    strand: NDArray[Any]
    place: NDArray[Any]
    previous: NDArray[Any]
    speaker: NDArray[Any]
    kind: NDArray[Any]
    created_at: NDArray[Any]
    valid_from: NDArray[Any]
    valid_to: NDArray[Any]
    length: NDArray[Any]
    flags: NDArray[Any]
    term_offsets: NDArray[np.int64]
    terms: NDArray[np.uint64]
    frequencies: NDArray[Any]

    def __post_init__(self) -> None:
        for field in fields(self):
            value = np.asarray(getattr(self, field.name))
            if value.ndim != 1 or (value.size and value.dtype.kind not in "iu"):
                raise InvalidInput(field.name, value, "is not a list of whole numbers")
            object.__setattr__(self, field.name, value)
        size = len(self.rows)
        for name in COLUMNS:
            if len(getattr(self, name)) != size:
                raise InvalidInput(name, len(getattr(self, name)), f"is not one value for {size}")
        offsets = self.term_offsets
        if (
            len(offsets) != size + 1
            or offsets[0] != 0
            or offsets[-1] != len(self.terms)
            or len(self.terms) != len(self.frequencies)
            or (size and int((offsets[1:] - offsets[:-1]).min()) < 0)
        ):
            raise InvalidInput("term_offsets", offsets, "does not fit the terms")
        if not size:
            return
        if int(self.rows.min()) < 1 or int(self.rows.max()) > ROW_LIMIT:
            raise InvalidInput("rows", self.rows, f"is not within 1 to {ROW_LIMIT}")
        if int(self.previous.max()) > ROW_LIMIT:
            raise InvalidInput("previous", self.previous, f"is above {ROW_LIMIT}")
        if int(self.length.min()) < 0:
            raise InvalidInput("length", self.length, "is negative")

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> IndexRows:
        """The rows from `start` to before `end`, without copying."""
        first, last = int(self.term_offsets[start]), int(self.term_offsets[end])
        return IndexRows(
            term_offsets=self.term_offsets[start : end + 1] - first,
            terms=self.terms[first:last],
            frequencies=self.frequencies[first:last],
            **{name: getattr(self, name)[start:end] for name in COLUMNS},
        )

    def without(self, chosen: NDArray[np.bool_]) -> IndexRows:
        """The rows that are not chosen."""
        kept = ~chosen
        sizes = np.diff(self.term_offsets)
        words = np.repeat(kept, sizes)
        return IndexRows(
            term_offsets=np.concatenate(([0], np.cumsum(sizes[kept]))).astype(np.int64),
            terms=self.terms[words],
            frequencies=self.frequencies[words],
            **{name: getattr(self, name)[kept] for name in COLUMNS},
        )

    def counts(self) -> NDArray[np.uint8]:
        """The frequencies in one byte each, 1 at the least."""
        clipped: NDArray[Any] = np.clip(self.frequencies, 1, COUNT_LIMIT)
        return clipped.astype(np.uint8)


def distinct(values: NDArray[N]) -> NDArray[N]:
    """The values in order, each once: `np.unique`, which would import all of `numpy.ma`."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def as_index_rows(batch: Any) -> IndexRows:
    """`batch` itself, or a checked copy of any object with the same fields."""
    if isinstance(batch, IndexRows):
        return batch
    try:
        return IndexRows(**{field.name: getattr(batch, field.name) for field in fields(IndexRows)})
    except AttributeError as error:
        raise InvalidInput("batch", batch, "does not have the columns of IndexRows") from error


def batch_of(columns: Mapping[str, NDArray[Any]]) -> IndexRows:
    """Rows with these columns and no terms."""
    return IndexRows(
        term_offsets=np.zeros(len(columns["rows"]) + 1, dtype=np.int64),
        terms=np.zeros(0, dtype=np.uint64),
        frequencies=np.zeros(0, dtype=np.uint8),
        **{name: columns[name] for name in COLUMNS},
    )
