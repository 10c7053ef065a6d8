"""Index files: a cache beside the store, written whole or not at all, believed only by digest.

A file is a line of JSON that names its arrays with the digests of their blocks,
then the arrays' bytes. Nothing in it is run and nothing in it is trusted: the
digest of that line is kept by the store, and a file with any other is refused.
The arrays stay in the file's pages, which processes share; a large file is
opened first and its blocks are tested afterwards.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.base.errors import StoreCorrupt, StoreFull, StoreReadOnly
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.lexical import PostingsIndex, Segment
from agentmem.search.indexes.rows import COLUMNS, RowTable, distinct
from agentmem.search.indexes.vector import VectorIndex
from agentmem.stores.open_files import new_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAGIC = b"agentmem index 3\n"
ALIGNMENT = 64
BLOCK_BYTES = 1 << 22
CHECKED_AT_ONCE = 1 << 24
"""A file of up to so many bytes is tested before it is used, a larger one afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Saved:
    """A file that was opened: its size and its names are as written, its arrays not yet tested."""

    path: Path
    size: int
    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    digests: Mapping[str, list[str]]

    def check(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Read every block; one that is not as written is `StoreCorrupt`."""
        for name, values in self.arrays.items():
            for block, digest in zip(_blocks(values), self.digests[name], strict=True):
                if stop():
                    return
                if hashlib.sha256(block).hexdigest() != digest:
                    raise _unusable(self.path, "is not the one the store saved")


Later = Callable[[Saved], None]
"""Takes a file whose blocks are to be tested while it is already in use."""


def write_arrays(path: Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write a file that is there whole or not at all, and return what `open_arrays` knows it by.

    The file gets mode 0600. A file of that name is replaced at the last moment.
    """
    described = [
        {
            "name": name,
            "type": values.dtype.str,
            "shape": list(values.shape),
            "blocks": [hashlib.sha256(block).hexdigest() for block in _blocks(values)],
        }
        for name, values in arrays.items()
    ]
    head = json.dumps({"header": dict(header), "arrays": described}).encode() + b"\n"
    start = MAGIC + len(head).to_bytes(8, "little") + head
    try:
        with new_bytes(path) as file:
            file.write(start)
            for values in arrays.values():
                file.write(bytes(-file.tell() % ALIGNMENT))
                file.write(_flat(values))
    except OSError as error:
        kind = StoreFull if error.errno in {28, 122} else StoreReadOnly
        raise kind(f"The index file {path.name} cannot be written: {error.strerror}.") from error
    return hashlib.sha256(start).hexdigest()


def open_arrays(path: Path, expected_sha256: str) -> Saved:
    """The header and arrays of the file that was written with this digest, or `StoreCorrupt`.

    A file that is missing, cut or another one is refused before anything in it is
    used; whoever asked builds the index again. Where the system lets a mapped file
    be replaced, the arrays stay in its pages: we only ever replace files, never
    write into them.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            mapped = os.name == "posix" and os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if mapped else file.read()
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    content = np.frombuffer(data, dtype=np.uint8)
    at = len(MAGIC) + 8
    start = content[: at + int.from_bytes(data[len(MAGIC) : at], "little")].tobytes()
    if hashlib.sha256(start).hexdigest() != expected_sha256 or not start.startswith(MAGIC):
        raise _unusable(path, "is not the one the store saved")
    try:
        described = json.loads(start[at:])
        arrays, at = {}, len(start)
        for entry in described["arrays"]:
            dtype, shape, first = np.dtype(entry["type"]), entry["shape"], at + -at % ALIGNMENT
            if content[at:first].any():
                raise ValueError("something between the arrays")
            at = first + dtype.itemsize * int(np.prod(shape, dtype=object))
            arrays[entry["name"]] = content[first:at].view(dtype).reshape(shape)
        if at != len(content):
            raise ValueError("more bytes than arrays")
        digests = {entry["name"]: entry["blocks"] for entry in described["arrays"]}
        return Saved(
            path=path,
            size=len(content),
            header=described["header"],
            arrays=arrays,
            digests=digests,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(path, f"cannot be understood: {error}") from error


def _unusable(path: Path, why: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"The index file {path.name} {why}.",
        remedy="Nothing is lost: the index is built again from the store.",
    )


def _flat(values: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _blocks(values: NDArray[Any]) -> list[memoryview]:
    flat = _flat(values)
    return [flat[at : at + BLOCK_BYTES] for at in range(0, len(flat), BLOCK_BYTES)]


# ----------------------------------------------------------------------------
# Save both engines beside the store, and have them back without building them.


_SEGMENT = tuple(field.name for field in fields(Segment))
_ALL_DIFFERENT = ("rows", "previous", "created_at")
_FEW_VALUES = 1 << 16


def save_postings(index: PostingsIndex, path: Path) -> str:
    """Write the rows and their words, nothing deleted among them, and return the SHA-256."""
    columns, segment = index.snapshot()
    arrays: dict[str, NDArray[Any]] = {}
    for name, values in columns.items():
        arrays[f"column.{name}"] = values
        known = values[:1] if (values == values[:1]).all() else values
        if name not in _ALL_DIFFERENT and len(known := distinct(known)) <= _FEW_VALUES:
            codes = known.searchsorted(values).astype(np.min_scalar_type(len(known)))
            arrays |= {f"column.{name}": codes[: 0 if len(known) < 2 else None]}
            arrays |= {f"values.{name}": known}
    arrays |= {name: getattr(segment, name) for name in _SEGMENT}
    return write_arrays(path, {"engine": "postings"}, arrays)


def _column(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """A column as it was: few different values are written once, with a number for each row."""
    codes, known = arrays[f"column.{name}"], arrays.get(f"values.{name}")
    if known is None:
        return codes
    if len(known) == 1:
        return np.broadcast_to(known, arrays["column.rows"].shape)
    return known.take(codes, mode="clip")


def load_postings(
    path: Path, expected_sha256: str, *, later: Later = Saved.check, background: bool = True
) -> PostingsIndex:
    """The index that was saved with this digest; anything else is `StoreCorrupt`."""
    arrays = _opened(path, expected_sha256, {"engine": "postings"}, later).arrays
    try:
        columns = {name: _column(arrays, name) for name in COLUMNS}
        segment = Segment(**{name: arrays[name] for name in _SEGMENT})
        # Whatever else is damaged is found when the blocks are tested: until then it can only
        # give a wrong answer, never lead out of an array.
        low, high = segment.positions.min(initial=0), segment.positions.max(initial=-1)
        if (np.diff(segment.offsets) < 0).any() or segment.offsets[-1] != segment.size:
            raise ValueError("postings of no word")
        if low < 0 or high >= len(columns["rows"]):
            raise ValueError("postings of no row")
        table = RowTable.restored(columns)
    except (ValueError, KeyError) as error:
        raise _unusable(path, f"does not fit together: {error}") from error
    return PostingsIndex(table, base=segment, background=background)


def save_vectors(index: VectorIndex, path: Path) -> str:
    """Write which rows have vectors and their codes, nothing deleted among them, and return the
    SHA-256. The vectors themselves are in the store and nowhere else.

    Codes that are being made are waited for: without them every open would make them again.
    """
    index.upkeep.wait()
    told, arrays = index.snapshot()
    return write_arrays(path, _of_embedder(index.embedder) | told, arrays)


def _of_embedder(embedder: EmbedderId) -> dict[str, Any]:
    named = [embedder.name, embedder.version, embedder.dimensions]
    return {"engine": "vectors", "embedder": named}


def load_vectors(
    path: Path,
    expected_sha256: str,
    index: VectorIndex,
    *,
    later: Later = Saved.check,
) -> VectorIndex:
    """`index` with what was saved with this digest for its embedder; else `StoreCorrupt`."""
    saved = _opened(path, expected_sha256, _of_embedder(index.embedder), later)
    try:
        index.restore(saved.header, saved.arrays)
    except (ValueError, KeyError) as error:
        raise _unusable(path, f"does not fit together: {error}") from error
    return index


def _opened(path: Path, expected_sha256: str, wanted: Mapping[str, Any], later: Later) -> Saved:
    saved = open_arrays(path, expected_sha256)
    if not wanted.items() <= saved.header.items():
        raise _unusable(path, "does not hold what is asked for")
    if saved.size <= CHECKED_AT_ONCE:
        saved.check()
    else:
        later(saved)
    return saved
