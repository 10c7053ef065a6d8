"""What indexes need of a row, as one small blob, and many blobs as arrays.

A blob is a fixed head, then the term hashes (uint64), then how often each
occurs (uint16). A hundred thousand of them become arrays without a loop over
their terms.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentmem.stores.entries import NO_POSITION, name_id, to_microseconds
from agentmem.stores.values import Entry, IndexRows
from agentmem.types import Memory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEAD = struct.Struct("<iIqqqqqqqii")
_FIELDS = [
    ("owner", "<i4"), ("flags", "<u4"), ("strand", "<i8"), ("place", "<i8"), ("speaker", "<i8"),
    ("kind", "<i8"), ("created_at", "<i8"), ("valid_from", "<i8"), ("valid_to", "<i8"),
    ("length", "<i4"), ("count", "<i4"),
]  # fmt: skip
DELETED, SUPERSEDED = 1, 2
ALWAYS_BEFORE, ALWAYS_AFTER = -(1 << 63), (1 << 63) - 1
_LONGEST = (1 << 31) - 1


def pack(entry: Entry, *, owner: int, strand: int) -> bytes:
    """The blob of an entry."""
    return pack_terms(
        entry.memory,
        terms=entry.terms,
        frequencies=entry.frequencies,
        length=entry.length,
        owner=owner,
        strand=strand,
    )


def pack_terms(
    memory: Memory, *, terms: bytes, frequencies: bytes, length: int, owner: int, strand: int
) -> bytes:
    """The blob of a memory with these terms."""
    head = _HEAD.pack(
        owner,
        (DELETED if memory.deleted_at is not None else 0)
        | (SUPERSEDED if memory.superseded_by is not None else 0),
        strand,
        place_of(memory),
        name_id(memory.speaker),
        name_id(memory.kind),
        to_microseconds(memory.created_at),
        ALWAYS_BEFORE if memory.valid_from is None else to_microseconds(memory.valid_from),
        ALWAYS_AFTER if memory.valid_to is None else to_microseconds(memory.valid_to),
        min(length, _LONGEST),
        len(terms) // 8,
    )
    return head + terms + frequencies


def place_of(memory: Memory) -> int:
    """Where a row stands in its strand; rows without a position come last."""
    return NO_POSITION if memory.position is None else memory.position


def unpack_terms(data: bytes) -> tuple[bytes, bytes, int]:
    """The terms, frequencies and length inside a blob."""
    *_, length, count = _HEAD.unpack_from(data)
    middle = _HEAD.size + 8 * count
    return data[_HEAD.size : middle], data[middle:], length


def well_formed(data: bytes) -> bool:
    """Whether a blob has the size its head says."""
    return len(data) >= _HEAD.size and (len(data) == _HEAD.size + 10 * _HEAD.unpack_from(data)[-1])


def to_index_rows(
    rows: Sequence[int], blobs: Sequence[bytes], *, previous: Sequence[int] | None = None
) -> IndexRows:
    """Arrays over `rows`; without `previous` they are all there is, and it is worked out here."""
    import numpy as np

    buffer = np.frombuffer(b"".join(blobs), dtype=np.uint8)
    sizes = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    starts = np.cumsum(sizes) - sizes
    heads = (
        np.ascontiguousarray(buffer[starts[:, None] + np.arange(_HEAD.size)])
        .view(np.dtype(_FIELDS))
        .reshape(-1)
    )
    counts = heads["count"].astype(np.int64)
    row_array = np.asarray(rows, dtype=np.int64)
    columns = {name: np.ascontiguousarray(heads[name]) for name, _ in _FIELDS if name != "count"}
    if previous is None:
        linked = _previous(row_array, columns["strand"], columns["place"], columns["flags"])
    else:
        linked = np.asarray(previous, dtype=np.int64)
    return IndexRows(
        rows=row_array,
        previous=linked,
        term_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        terms=_gather(buffer, starts + _HEAD.size, counts, np.dtype("<u8")),
        frequencies=_gather(buffer, starts + _HEAD.size + 8 * counts, counts, np.dtype("<u2")),
        **columns,
    )


def _gather(
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    counts: NDArray[np.int64],
    kind: np.dtype[np.unsignedinteger],
) -> NDArray[np.unsignedinteger]:
    """The `counts[i]` numbers that begin at byte `starts[i]`, for all i, one after another."""
    import numpy as np

    sizes = counts * kind.itemsize
    total = int(sizes.sum())
    if not total:
        return np.empty(0, kind)
    # A mask over the bytes is built by toggling at each start and end.
    toggles = np.zeros(len(buffer) + 1, dtype=np.int8)
    np.add.at(toggles, starts, (sizes > 0).astype(np.int8))
    np.subtract.at(toggles, starts + sizes, (sizes > 0).astype(np.int8))
    kept: NDArray[np.unsignedinteger] = buffer[np.cumsum(toggles[:-1], dtype=np.int8).view(bool)]
    return kept.view(kind)


def _previous(
    rows: NDArray[np.int64],
    strand: NDArray[np.int64],
    place: NDArray[np.int64],
    flags: NDArray[np.uint32],
) -> NDArray[np.int64]:
    import numpy as np

    previous = np.zeros(len(rows), dtype=np.int64)
    live = np.flatnonzero((strand > 0) & (flags & DELETED == 0))
    order = live[np.lexsort((rows[live], place[live], strand[live]))]
    same = strand[order[1:]] == strand[order[:-1]]
    previous[order[1:][same]] = rows[order[:-1][same]]
    return previous
