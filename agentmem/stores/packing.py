"""What indexes need of a row, as one small blob, and many blobs as arrays.

A blob is a fixed head, then the term hashes (uint64), then how often each
occurs (uint16). A hundred thousand of them become arrays without a loop over
their terms.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.core.marks import COLD_AT, FORGOTTEN_AT
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
DELETED, SUPERSEDED, FORGOTTEN, COLD = 1, 2, 4, 8
TEXT_FLAGS_SHIFT = 8
ALWAYS_BEFORE, ALWAYS_AFTER = -(1 << 63), (1 << 63) - 1
_LONGEST = (1 << 31) - 1


def pack(entry: Entry, *, owner: int, strand: int) -> bytes:
    """The blob of an entry."""
    return pack_terms(
        entry.memory,
        terms=entry.terms,
        frequencies=entry.frequencies,
        length=entry.length,
        text_flags=entry.text_flags,
        owner=owner,
        strand=strand,
    )


def pack_terms(
    memory: Memory,
    *,
    terms: bytes,
    frequencies: bytes,
    length: int,
    text_flags: int,
    owner: int,
    strand: int,
) -> bytes:
    """The blob of a memory with these terms."""
    head = _HEAD.pack(
        owner,
        _flags(memory.deleted_at, memory.superseded_by, memory.metadata)
        | text_flags << TEXT_FLAGS_SHIFT,
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


def describes(data: bytes, owner: int, strand: int | None, *fields: Any) -> bool:
    """Whether a blob was made from a row with these columns.

    `fields` are the place, speaker, kind, the moments it was created and valid
    from and to, when and by what it was deleted and superseded, and its metadata.
    """
    place, speaker, kind, created, valid_from, valid_to, deleted, superseded, metadata = fields
    head = _HEAD.unpack_from(data)
    flags = _flags(deleted, superseded, metadata)
    return (
        len(data) == _HEAD.size + 10 * head[-1]
        and head[1] & 0xFF == flags
        and (head[0], *head[2:9])
        == (
            owner,
            strand or 0,
            place,
            name_id(speaker),
            name_id(kind),
            created,
            ALWAYS_BEFORE if valid_from is None else valid_from,
            ALWAYS_AFTER if valid_to is None else valid_to,
        )
    )


def _flags(deleted: object, superseded: object, metadata: Mapping[str, Any]) -> int:
    flags = (DELETED if deleted is not None else 0) | (SUPERSEDED if superseded is not None else 0)
    if metadata:
        flags |= FORGOTTEN if FORGOTTEN_AT in metadata else 0
        flags |= COLD if COLD_AT in metadata else 0
    return flags


def place_of(memory: Memory) -> int:
    """Where a row stands in its strand; rows without a position come last."""
    return NO_POSITION if memory.position is None else memory.position


def unpack_terms(data: bytes) -> dict[str, Any]:
    """What a blob holds that the memory itself does not, as `pack_terms` takes it."""
    _, flags, *_, length, count = _HEAD.unpack_from(data)
    middle = _HEAD.size + 8 * count
    return {
        "terms": data[_HEAD.size : middle],
        "frequencies": data[middle:],
        "length": length,
        "text_flags": flags >> TEXT_FLAGS_SHIFT,
    }


def to_index_rows(
    rows: Sequence[int],
    blobs: Sequence[bytes],
    *,
    trailing: int = 0,
    previous: Sequence[int] | None = None,
) -> IndexRows:
    """Arrays over `rows`; the last `trailing` bytes of each blob are not looked at.

    Without `previous` the rows are all there is, and it is worked out here.
    """
    import numpy as np

    head = _HEAD.size
    counts = [(len(blob) - head - trailing) // 10 for blob in blobs]
    ends = [head + 8 * count for count in counts]
    heads = np.frombuffer(b"".join([blob[:head] for blob in blobs]), np.dtype(_FIELDS))
    terms = b"".join([blob[head:end] for blob, end in zip(blobs, ends, strict=True)])
    frequencies = b"".join(
        [blob[end : end + 2 * n] for blob, end, n in zip(blobs, ends, counts, strict=True)]
    )
    row_array = np.asarray(rows, dtype=np.int64)
    columns = {name: np.ascontiguousarray(heads[name]) for name, _ in _FIELDS if name != "count"}
    if previous is None:
        linked = _previous(row_array, columns["strand"], columns["place"], columns["flags"])
    else:
        linked = np.asarray(previous, dtype=np.int64)
    return IndexRows(
        rows=row_array,
        previous=linked,
        term_offsets=np.cumsum([0, *counts], dtype=np.int64),
        terms=np.frombuffer(terms, "<u8"),
        frequencies=np.frombuffer(frequencies, "<u2"),
        **columns,
    )


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
