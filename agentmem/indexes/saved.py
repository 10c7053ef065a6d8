"""Save both engines beside the store, and have them back without building them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.errors import StoreCorrupt
from agentmem.indexes.batch import COLUMNS
from agentmem.indexes.files import Saved, open_arrays, write_arrays
from agentmem.indexes.lexical import PostingsIndex
from agentmem.indexes.rows import RowTable
from agentmem.indexes.segments import Segment
from agentmem.indexes.vector import VectorIndex
from agentmem.protocols import EmbedderId

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SEGMENT = {
    "terms": np.uint64,
    "offsets": np.int64,
    "positions": np.int32,
    "counts": np.uint8,
    "codes": np.uint8,
}


CHECKED_AT_ONCE = 1 << 24
"""A file of up to so many bytes is tested before it is used, a larger one afterwards."""

Later = Callable[[Saved], None]
"""Takes a file whose blocks are to be tested while it is already in use."""


def save_postings(index: PostingsIndex, path: str | os.PathLike[str]) -> str:
    """Write the rows and their words, nothing deleted among them, and return the SHA-256."""
    columns, segment = index.snapshot()
    arrays: dict[str, NDArray[Any]] = {
        f"column.{name}": values[:1] if bool((values == values[:1]).all()) else values
        for name, values in columns.items()
    }
    arrays |= {name: getattr(segment, name) for name in _SEGMENT}
    return write_arrays(path, {"engine": "postings"}, arrays)


def load_postings(
    path: str | os.PathLike[str],
    expected_sha256: str,
    *,
    later: Later = Saved.check,
    **settings: Any,
) -> PostingsIndex:
    """The index that was saved with this digest; anything else is `StoreCorrupt`."""
    saved = _opened(path, expected_sha256, later)
    header, arrays = saved.header, saved.arrays
    _require(header.get("engine") == "postings", path)
    _require(set(arrays) == {f"column.{name}" for name in COLUMNS} | set(_SEGMENT), path)
    columns = {name: arrays[f"column.{name}"] for name in COLUMNS}
    count = len(columns["rows"])
    for name, dtype in COLUMNS.items():
        _require(columns[name].dtype == dtype and columns[name].ndim == 1, path)
        if count > 1 and len(columns[name]) == 1:  # the same in every row
            columns[name] = np.broadcast_to(columns[name], count)
        _require(len(columns[name]) == count, path)
    for name, segment_dtype in _SEGMENT.items():
        _require(arrays[name].dtype == segment_dtype and arrays[name].ndim == 1, path)
    segment = Segment(**{name: arrays[name] for name in _SEGMENT})
    size = segment.size
    _require(len(segment.counts) == size and len(segment.codes) == size, path)
    _require(len(segment.offsets) == len(segment.terms) + 1, path)
    _require(int(segment.offsets[0]) == 0 and int(segment.offsets[-1]) == size, path)
    # Whatever else is damaged is found when the blocks are tested: until then it can only
    # give a wrong answer, never lead out of an array.
    _require(bool((segment.offsets[1:] >= segment.offsets[:-1]).all()), path)
    if size:
        low, high = int(segment.positions.min()), int(segment.positions.max())
        _require(low >= 0 and high < len(columns["rows"]), path)
    try:
        table = RowTable.restored(columns)
    except ValueError as error:
        raise _unfit(path) from error
    return PostingsIndex(table, base=segment, **settings)


def save_vectors(index: VectorIndex, path: str | os.PathLike[str]) -> str:
    """Write the vectors and their codes, nothing deleted among them, and return the SHA-256.

    Codes that are being made are waited for: without them every open would make them again.
    """
    index.upkeep.wait()
    rows, vectors, codes = index.snapshot()
    embedder = index.embedder
    header: dict[str, Any] = {
        "engine": "vectors",
        "embedder": [embedder.name, embedder.version, embedder.dimensions],
        "trained_at": 0,
        "coded": 0,
    }
    arrays: dict[str, NDArray[Any]] = {"rows": rows, "vectors": vectors}
    if codes is not None:
        packed, coded, centroids, trained_at = codes
        header |= {"trained_at": trained_at, "coded": coded}
        arrays |= {"centroids": centroids, "packed": packed}
    return write_arrays(path, header, arrays)


def load_vectors(
    path: str | os.PathLike[str],
    expected_sha256: str,
    *,
    embedder: EmbedderId,
    table: RowTable,
    later: Later = Saved.check,
    **settings: Any,
) -> VectorIndex:
    """The vectors that were saved with this digest by this embedder; else `StoreCorrupt`."""
    saved = _opened(path, expected_sha256, later)
    header, arrays = saved.header, saved.arrays
    _require(header.get("engine") == "vectors", path)
    _require(header.get("embedder") == [embedder.name, embedder.version, embedder.dimensions], path)
    _require({"rows", "vectors"} <= set(arrays), path)
    index = VectorIndex(embedder, table, **settings)
    try:
        index.restore(
            arrays["rows"],
            arrays["vectors"],
            packed=arrays.get("packed"),
            centroids=arrays.get("centroids"),
            coded=int(header.get("coded", 0)),
            trained_at=int(header.get("trained_at", 0)),
        )
    except (ValueError, TypeError) as error:
        raise _unfit(path) from error
    return index


def _opened(path: str | os.PathLike[str], expected_sha256: str, later: Later) -> Saved:
    saved = open_arrays(path, expected_sha256)
    if saved.size <= CHECKED_AT_ONCE:
        saved.check()
    else:
        later(saved)
    return saved


def _unfit(path: str | os.PathLike[str]) -> StoreCorrupt:
    return StoreCorrupt(
        f"The index file {os.path.basename(path)} does not fit together.",
        remedy="Nothing is lost: the index is built again from the store.",
    )


def _require(good: bool, path: str | os.PathLike[str]) -> None:
    if not good:
        raise StoreCorrupt(
            f"The index file {os.path.basename(path)} does not hold what is asked for.",
            remedy="Nothing is lost: the index is built again from the store.",
        )
