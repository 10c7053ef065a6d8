"""Index files: a cache beside the store, written whole or not at all, believed only by digest.

A file is a line of JSON that names its arrays, then the arrays' bytes. Nothing
in it is run and nothing in it is trusted: the digest of the whole file is kept
by the store, and a file with any other digest is refused.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentmem.errors import StoreCorrupt, StoreFull, StoreReadOnly
from agentmem.stores.whole_files import new_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAGIC = b"agentmem index 1\n"
ALIGNMENT = 64
PIECE_BYTES = 1 << 20
HEADER_LIMIT = 1 << 16
_REMEDY = "Nothing is lost: the index is built again from the store."


def write_arrays(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> str:
    """Write a file that is there whole or not at all, and return its SHA-256 in hex.

    The file gets mode 0600. A file of that name is replaced at the last moment.
    """
    target = Path(path)
    described = [
        {"name": name, "type": values.dtype.str, "shape": list(values.shape)}
        for name, values in arrays.items()
    ]
    head = json.dumps({"header": dict(header), "arrays": described}).encode() + b"\n"
    digest = hashlib.sha256()
    try:
        with new_bytes(target) as file:
            start = MAGIC + len(head).to_bytes(8, "little") + head
            for piece in (start, *_padded(len(start), arrays)):
                view = memoryview(piece)
                for first in range(0, len(view), PIECE_BYTES):
                    part = view[first : first + PIECE_BYTES]
                    digest.update(part)
                    _write_all(file.fileno(), part)
    except OSError as error:
        full = error.errno in {28, 122}
        kind = StoreFull if full else StoreReadOnly
        raise kind(f"The index file {target.name} cannot be written: {error.strerror}.") from error
    return digest.hexdigest()


def read_arrays(
    path: str | os.PathLike[str], expected_sha256: str, *, mapped: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and arrays of a file that is exactly the one written, or `StoreCorrupt`.

    A file that is missing, cut, altered or not ours is refused before anything
    in it is used; whoever asked builds the index again. With `mapped` the arrays
    stay in the file's pages where the system allows a mapped file to be replaced:
    large files open faster, and processes share them. We only ever replace files,
    never write into them.
    """
    target = Path(path)
    try:
        with open(target, "rb", buffering=0) as file:
            if mapped and os.name == "posix" and os.fstat(file.fileno()).st_size:
                content, digest = _map_and_digest(file.fileno())
            else:
                content, digest = _read_and_digest(file.fileno())
    except OSError as error:
        raise StoreCorrupt(
            f"The index file {target.name} cannot be read: {error.strerror}.", remedy=_REMEDY
        ) from error
    if digest != expected_sha256:
        raise StoreCorrupt(
            f"The index file {target.name} is not the one the store saved.", remedy=_REMEDY
        )
    try:
        return _parse(content)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreCorrupt(
            f"The index file {target.name} cannot be understood.", remedy=_REMEDY
        ) from error


def _map_and_digest(descriptor: int) -> tuple[NDArray[np.uint8], str]:
    pages = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    return np.frombuffer(pages, dtype=np.uint8), hashlib.sha256(pages).hexdigest()


def _read_and_digest(descriptor: int) -> tuple[NDArray[np.uint8], str]:
    """The file's bytes, digested piece by piece while the next piece is read."""
    size = os.fstat(descriptor).st_size
    content = np.empty(size, dtype=np.uint8)
    view = content.data
    digest = hashlib.sha256()
    with ThreadPoolExecutor(max_workers=1) as reader:

        def read(first: int) -> int:
            return os.readv(descriptor, [view[first : first + 8 * PIECE_BYTES]])

        done = 0
        pending = reader.submit(read, 0)
        while count := pending.result():
            start, done = done, done + count
            pending = reader.submit(read, done)
            digest.update(view[start:done])
    return content[:done], digest.hexdigest()


def _parse(content: NDArray[np.uint8]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    if content[: len(MAGIC)].tobytes() != MAGIC:
        raise ValueError("another kind of file")
    at = len(MAGIC) + 8
    size = int.from_bytes(content[len(MAGIC) : at].tobytes(), "little")
    if size > HEADER_LIMIT:
        raise ValueError("a header that long is not ours")
    described = json.loads(content[at : at + size].tobytes())
    at += size
    arrays: dict[str, NDArray[Any]] = {}
    for entry in described["arrays"]:
        dtype = np.dtype(str(entry["type"]))
        if dtype.hasobject:
            raise ValueError("objects are not data")
        shape = tuple(int(length) for length in entry["shape"])
        if any(length < 0 for length in shape):
            raise ValueError("a negative length")
        at += -at % ALIGNMENT
        end = at + dtype.itemsize * int(np.prod(shape, dtype=object))
        if end > len(content):
            raise ValueError("cut short")
        arrays[str(entry["name"])] = content[at:end].view(dtype).reshape(shape)
        at = end
    if at != len(content):
        raise ValueError("more bytes than arrays")
    return described["header"], arrays


def _padded(at: int, arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    pieces: list[bytes | memoryview] = []
    for values in arrays.values():
        gap = -at % ALIGNMENT
        flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        pieces += [bytes(gap), flat.data]
        at += gap + flat.nbytes
    return pieces


def _write_all(descriptor: int, part: memoryview) -> None:
    written = 0
    while written < len(part):
        written += os.write(descriptor, part[written:])
