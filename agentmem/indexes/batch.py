"""Rows on their way into the indexes, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentmem.stores.values import IndexRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
