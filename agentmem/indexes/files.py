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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.core.values import dataclass
from agentmem.errors import StoreCorrupt, StoreFull, StoreReadOnly
from agentmem.stores.whole_files import new_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"agentmem index 2\n"
ALIGNMENT = 64
PIECE_BYTES = 1 << 20
BLOCK_BYTES = 1 << 22
HEADER_LIMIT = 1 << 24
_REMEDY = "Nothing is lost: the index is built again from the store."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Saved:
    """A file that was opened: its size and its names are as written, its arrays not yet tested."""

    name: str
    size: int
    header: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    digests: Mapping[str, tuple[str, ...]]

    def check(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Read every block; one that is not as written is `StoreCorrupt`."""
        for name, values in self.arrays.items():
            for block, digest in zip(_blocks(values), self.digests[name], strict=True):
                if stop():
                    return
                if hashlib.sha256(block).hexdigest() != digest:
                    raise _altered(self.name)


def write_arrays(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write a file that is there whole or not at all, and return what `open_arrays` knows it by.

    The file gets mode 0600. A file of that name is replaced at the last moment.
    """
    target = Path(path)
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
        with new_bytes(target) as file:
            for piece in (start, *_padded(len(start), arrays)):
                view = memoryview(piece)
                for first in range(0, len(view), PIECE_BYTES):
                    _write_all(file.fileno(), view[first : first + PIECE_BYTES])
    except OSError as error:
        full = error.errno in {28, 122}
        kind = StoreFull if full else StoreReadOnly
        raise kind(f"The index file {target.name} cannot be written: {error.strerror}.") from error
    return hashlib.sha256(start).hexdigest()


def open_arrays(path: str | os.PathLike[str], expected_sha256: str) -> Saved:
    """The header and arrays of the file that was written with this digest, or `StoreCorrupt`.

    A file that is missing, cut or another one is refused before anything in it is
    used; whoever asked builds the index again. Where the system lets a mapped file
    be replaced, the arrays stay in its pages: we only ever replace files, never
    write into them.
    """
    target = Path(path)
    try:
        with open(target, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if os.name == "posix" and size:
                pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                content = np.frombuffer(pages, dtype=np.uint8)
            else:
                content = np.frombuffer(file.read(), dtype=np.uint8)
    except OSError as error:
        raise StoreCorrupt(
            f"The index file {target.name} cannot be read: {error.strerror}.", remedy=_REMEDY
        ) from error
    at = len(MAGIC) + 8
    length = int.from_bytes(content[len(MAGIC) : at].tobytes(), "little")
    if length > HEADER_LIMIT:
        raise _altered(target.name)
    start = content[: at + length].tobytes()
    if hashlib.sha256(start).hexdigest() != expected_sha256:
        raise _altered(target.name)
    try:
        return _parse(target.name, start, content)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(
            f"The index file {target.name} cannot be understood.", remedy=_REMEDY
        ) from error


def _altered(name: str) -> StoreCorrupt:
    return StoreCorrupt(f"The index file {name} is not the one the store saved.", remedy=_REMEDY)


def _parse(name: str, start: bytes, content: NDArray[np.uint8]) -> Saved:
    if not start.startswith(MAGIC):
        raise ValueError("another kind of file")
    described = json.loads(start[len(MAGIC) + 8 :])
    at = len(start)
    arrays: dict[str, NDArray[Any]] = {}
    for entry in described["arrays"]:
        dtype = np.dtype(str(entry["type"]))
        if dtype.hasobject:
            raise ValueError("objects are not data")
        shape = tuple(int(length) for length in entry["shape"])
        if any(length < 0 for length in shape):
            raise ValueError("a negative length")
        gap = -at % ALIGNMENT
        end = at + gap + dtype.itemsize * int(np.prod(shape, dtype=object))
        if end > len(content) or content[at : at + gap].any():
            raise ValueError("cut short")
        arrays[str(entry["name"])] = content[at + gap : end].view(dtype).reshape(shape)
        at = end
    if at != len(content):
        raise ValueError("more bytes than arrays")
    digests = {str(e["name"]): tuple(str(d) for d in e["blocks"]) for e in described["arrays"]}
    if any(len(digests[n]) != -(-v.nbytes // BLOCK_BYTES) for n, v in arrays.items()):
        raise ValueError("other blocks")
    return Saved(
        name=name, size=len(content), header=described["header"], arrays=arrays, digests=digests
    )


def _blocks(values: NDArray[Any]) -> list[memoryview]:
    flat = _flat(values)
    return [flat[at : at + BLOCK_BYTES] for at in range(0, len(flat), BLOCK_BYTES)]


def _flat(values: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _padded(at: int, arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    pieces: list[bytes | memoryview] = []
    for values in arrays.values():
        gap = -at % ALIGNMENT
        flat = _flat(values)
        pieces += [bytes(gap), flat]
        at += gap + flat.nbytes
    return pieces


def _write_all(descriptor: int, part: memoryview) -> None:
    written = 0
    while written < len(part):
        written += os.write(descriptor, part[written:])
