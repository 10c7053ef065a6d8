"""The values that go into a store and come out of it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import BadVector, InvalidInput, InvalidNumber, InvalidText
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import (
    COLD_AT,
    EMPTY,
    FORGOTTEN_AT,
    UNUSED,
    Memory,
    Scope,
    Usage,
    Visibility,
    require_instant,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Durability = Literal["full", "normal"]
Operation = Literal["put", "update", "delete", "erase", "vectors"]
INDEX_COLUMNS = (
    "rows", "owner", "strand", "place", "previous", "speaker", "kind", "created_at", "valid_from",
    "valid_to", "length", "flags",
)  # fmt: skip
"""What `IndexRows` has one value a row of."""
ROW_LIMIT = 2**31 - 2
"""Row ids stand in four bytes in an index, whose table reaches up to the largest one."""
COUNT_LIMIT = 255
"""A word found more often in one row counts this often."""
NO_SCOPE = Scope()
ERASED = "erased"
"""Stands where a memory named another one that was erased since."""
LEARNED_FROM = "learned from"
"""The relation of a fact to a message that states it: one of several is enough."""
HEARD_IN = "heard in"
"""The same of a preference."""
STATED_IN = (LEARNED_FROM, HEARD_IN)
DERIVED = "derived_from"
"""The relation of a memory to one that it was made of: its words are in it, whatever else is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What a memory was before `replaced_at`."""

    memory: Memory
    replaced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A memory with what is needed to find it, as it is written; see `agentmem.search.intake`."""

    memory: Memory
    terms: bytes = b""
    frequencies: bytes = b""
    length: int = 0
    text_flags: int = 0
    vectors: tuple[tuple[EmbedderId, bytes], ...] = ()
    versions: tuple[Version, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A page or document as a whole: whose it is and which content it had."""

    url: str
    content_hash: str
    title: str = ""
    scope: Scope = NO_SCOPE
    visibility: Visibility = "private"
    synced_at: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("url", "content_hash", "title"):
            require_text(getattr(self, name), name)
        require_instant(self.synced_at, "synced_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """What became of a source: `unchanged` when the same content was there already."""

    unchanged: bool
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What `erase` removed. `complete` means the bytes are out of every file of the store.

    It is false when another process was still reading an older state; the
    rest is then done at the next open, `sync` or `erase`. `derived` are those
    of `ids` that nobody named: they were made of what was. `remains` says what
    is left to do on disk where the store cannot do it, as in a database server.
    """

    ids: tuple[str, ...]
    derived: tuple[str, ...] = ()
    vectors: int = 0
    versions: int = 0
    snapshots: int = 0
    artifacts: int = 0
    jobs: int = 0
    index_files: tuple[str, ...] = ()
    complete: bool
    erased_at: datetime
    remains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Rows `first` to `last` (both included) were changed by the write number `seq`."""

    seq: int
    operation: Operation
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What changed up to `seq`; when not `complete` the log no longer reaches back that far."""

    seq: int
    complete: bool
    items: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IndexRows:
    """What indexes need to know of some rows, as arrays of one length, ascending by row.

    `previous` is the row before it in the same source and session (0: none),
    `strand` numbers that pair within its owner (0: none). Speakers and kinds are `name_id`s.
    `flags`: 1 deleted, 2 superseded, from bit 8 on the entry's `text_flags`. Moments are
    microseconds since 1970 UTC;
    open validity is the smallest or largest int64. The terms of row i are
    `terms[term_offsets[i]:term_offsets[i + 1]]`, each once, and how often it stands
    there likewise in `frequencies`.
    """

    rows: NDArray[np.int64]
    owner: NDArray[np.int32]
    strand: NDArray[np.int64]
    place: NDArray[np.int64]
    previous: NDArray[np.int64]
    speaker: NDArray[np.int64]
    kind: NDArray[np.int64]
    created_at: NDArray[np.int64]
    valid_from: NDArray[np.int64]
    valid_to: NDArray[np.int64]
    length: NDArray[np.int32]
    flags: NDArray[np.uint32]
    term_offsets: NDArray[np.int64]
    terms: NDArray[np.uint64]
    frequencies: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, start: int, end: int) -> IndexRows:
        """The rows from `start` to before `end`, without copying."""
        first, last = int(self.term_offsets[start]), int(self.term_offsets[end])
        return IndexRows(
            term_offsets=self.term_offsets[start : end + 1] - first,
            terms=self.terms[first:last],
            frequencies=self.frequencies[first:last],
            **{name: getattr(self, name)[start:end] for name in INDEX_COLUMNS},
        )

    def without(self, chosen: NDArray[np.bool_]) -> IndexRows:
        """The rows that are not chosen."""
        import numpy as np

        return self._taken(np.flatnonzero(~chosen))

    def by_owner(self) -> IndexRows:
        """The same rows, those of one owner together, each owner's in the order they had."""
        import numpy as np

        if not len(self) or bool((self.owner[1:] >= self.owner[:-1]).all()):
            return self
        return self._taken(np.argsort(self.owner, kind="stable"))

    def _taken(self, order: NDArray[np.int64]) -> IndexRows:
        import numpy as np

        sizes = np.diff(self.term_offsets)[order]
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        words = np.repeat(self.term_offsets[:-1][order] - offsets[:-1], sizes)
        words += np.arange(len(words))
        return IndexRows(
            term_offsets=offsets,
            terms=self.terms[words],
            frequencies=self.frequencies[words],
            **{name: getattr(self, name)[order] for name in INDEX_COLUMNS},
        )

    def counts(self) -> NDArray[np.uint8]:
        """The frequencies in one byte each, 1 at the least."""
        import numpy as np

        clipped: NDArray[Any] = np.clip(self.frequencies, 1, COUNT_LIMIT)
        return clipped.astype(np.uint8)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """An index saved beside the store, as of `seq`; only a file with this SHA-256 may be used."""

    name: str
    sha256: str
    seq: int
    embedder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work that outlives the process: `payload` is JSON."""

    id: int
    kind: str
    payload: Mapping[str, Any]
    attempts: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """Work to be kept: `payload` is JSON, `at` when it is due; one of the same key is replaced."""

    kind: str
    payload: Mapping[str, Any]
    at: datetime
    key: str = ""
    scope: Scope = NO_SCOPE


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRecord:
    """One stored trace of a built context; `mentions` are the ids of the memories in it."""

    id: str
    created_at: datetime
    data: Mapping[str, Any]
    mentions: tuple[str, ...] = ()
    scope: Scope = NO_SCOPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Bytes kept by id, such as a whole tool result."""

    id: str
    data: bytes
    created_at: datetime
    media_type: str = "text/plain"
    scope: Scope = NO_SCOPE
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """`first_id` stands in a relation to `second_id`; `settled_at` closes a contradiction."""

    first_id: str
    second_id: str
    relation: str
    created_at: datetime
    note: str = ""
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderCoverage:
    """How many of the rows that can be found have a vector of this embedder."""

    embedder: EmbedderId
    vectors: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """The size and state of a store, as one reader sees it."""

    documents: int
    chunks: int
    kinds: Mapping[str, int]
    deleted: int
    superseded: int
    bytes: int
    last_sync: datetime | None
    embedders: tuple[EmbedderCoverage, ...]
    jobs: Mapping[str, int]
    seq: int
    schema_version: int
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What `restore` did: how many memories the store has now, and where the old one is kept."""

    path: Path
    memories: int
    set_aside: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What a full check found; `ok` when there is no problem."""

    problems: tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def ok(self) -> bool:
        return not self.problems


# ----------------------------------------------------------------------------
# Memories with their terms and vectors, checked and made ready to be written.


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
_FIRST_MOMENT = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
_LAST_MOMENT = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
NO_POSITION = 1 << 62
"""Stands for "no position": after all that have one, in the order they came."""
_REMEDY = "Use agentmem.search.intake.prepare()."
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=dict)


def pack_vector(embedder: EmbedderId, vector: NDArray[np.float32]) -> bytes:
    """`vector` as `pack_vectors` gives it."""
    return pack_vectors(embedder, [vector])[0]


def pack_vectors(embedder: EmbedderId, vectors: Any) -> list[bytes]:
    """Each of `vectors` as little-endian float32, all of one length and of this embedder's space.

    Numbers are rounded to the steps in which a store keeps them, unless that
    would not do: some too large or all too small for it.
    """
    import numpy as np

    remedy = f"Pass {embedder.dimensions} numbers for each, or name the embedder they came from."
    try:
        array = np.asarray(vectors)
    except (TypeError, ValueError) as error:
        raise BadVector(f"Vectors are not numbers: {error}.", remedy=remedy) from None
    if not len(array):
        return []
    if array.shape[1:] != (embedder.dimensions,):
        raise BadVector(
            f"A vector of shape {array.shape[1:]} is not one of {embedder}.", remedy=remedy
        )
    if array.dtype.kind not in "fiu":
        raise BadVector(
            f"A vector of {array.dtype} is not numbers.", remedy="Pass an array of float32."
        )
    with np.errstate(over="ignore"):
        packed = array.astype("<f4", copy=False)
    if not np.isfinite(packed).all():
        raise BadVector(
            "A vector holds NaN or infinity.", remedy="Embed the text again, or leave it out."
        )
    data, size = _rounded(packed).tobytes(), 4 * embedder.dimensions
    return [data[at : at + size] for at in range(0, len(data), size)]


MOST_STEPS = 127


def in_steps(vectors: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Each vector as whole numbers of -127 to 127, and how long its step is.

    A step is one of eight between two powers of two, so that every product is
    exact in half precision too; what `in_steps` gave is given again for it. A
    vector that half precision cannot hold gets NaN for its step.
    """
    import numpy as np

    largest = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float64)
    fraction, exponent = np.frexp(largest / MOST_STEPS)
    eighths = np.ceil(16.0 * fraction)
    step = np.ldexp(eighths, exponent - 4)
    fits = (largest <= 65_504.0) & ((exponent >= -20) | (largest == 0.0))
    safe = np.where(fits & (step > 0.0), step, 1.0).astype(np.float32)
    counts = np.rint(vectors / safe[:, None]).clip(-MOST_STEPS, MOST_STEPS)
    # The largest number must not fall so low that a shorter step would do for it.
    least = np.floor(MOST_STEPS * (eighths - 1.0) / np.maximum(eighths, 1.0)) + 1.0
    low = np.flatnonzero(fits & (step > 0.0) & (np.abs(counts).max(axis=1, initial=0.0) < least))
    if low.size:
        at = np.abs(vectors[low]).argmax(axis=1)
        counts[low, at] = np.copysign(least[low], vectors[low, at])
    return counts.astype(np.int8), np.where(fits, safe, np.nan).astype(np.float32)


def _rounded(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors in steps; as they are where half precision cannot hold them."""
    import numpy as np

    counts, step = in_steps(vectors)
    rounded: NDArray[np.float32] = counts.astype("<f4") * step[:, None]
    kept = np.isnan(step)
    rounded[kept] = vectors[kept]
    return rounded


def shorten(vector: bytes) -> bytes:
    """The same numbers in half precision if nothing is lost by it: half as many bytes."""
    import numpy as np

    with np.errstate(over="ignore"):
        short = np.frombuffer(vector, "<f4").astype("<f2")
    return short.tobytes() if short.astype("<f4").tobytes() == vector else vector


def vector_sizes(dimensions: int) -> tuple[int, int, int]:
    """How many bytes a stored vector takes in steps, in half and in single precision."""
    steps = dimensions + 2 if dimensions > 2 else -1  # two halves would look the same
    return steps, 2 * dimensions, 4 * dimensions


def shortest(vectors: Sequence[bytes]) -> list[bytes]:
    """Vectors of one space as packed, each in as few bytes as hold the same numbers."""
    import numpy as np

    if not vectors or len(vectors[0]) <= 8:
        return [shorten(vector) for vector in vectors]
    given = np.frombuffer(b"".join(vectors), "<f4").reshape(len(vectors), -1)
    counts, step = in_steps(given)
    with np.errstate(invalid="ignore"):
        same = (counts.astype(np.float32) * step[:, None] == given).all(axis=1)
    steps = step.astype("<f2")
    return [
        counts[at].tobytes() + steps[at].tobytes() if exact else shorten(vector)
        for at, (vector, exact) in enumerate(zip(vectors, same.tolist(), strict=True))
    ]


def read_vectors(stored: Sequence[bytes], dimensions: int) -> NDArray[np.float32] | None:
    """The vectors that `shortest` wrote, now or in an earlier schema; None if one has no such
    size."""
    import numpy as np

    matrix = np.empty((len(stored), dimensions), dtype=np.float32)
    sizes = np.array([len(blob) for blob in stored], dtype=np.int64)
    left = len(stored)
    for size, kind in zip(vector_sizes(dimensions), ("i1", "<f2", "<f4"), strict=True):
        chosen = np.flatnonzero(sizes == size)
        left -= len(chosen)
        if not chosen.size:
            continue
        data = np.frombuffer(b"".join([stored[at] for at in chosen.tolist()]), np.uint8)
        lines = data.reshape(len(chosen), size)
        if kind == "i1":
            step = np.ascontiguousarray(lines[:, dimensions:]).view("<f2").astype(np.float32)
            matrix[chosen] = lines[:, :dimensions].view(np.int8) * step
        else:
            matrix[chosen] = lines.view(kind)
    return None if left else matrix


@lru_cache(maxsize=4096)
def name_id(name: str) -> int:
    """A speaker or kind as a number for index arrays; the empty name is 0."""
    if not name:
        return 0
    digest = hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) or 1


def to_microseconds(moment: datetime, name: str = "moment") -> int:
    """Microseconds since 1970 UTC, exact."""
    count = _microseconds(moment)
    if not _FIRST_MOMENT <= count <= _LAST_MOMENT:
        raise InvalidInput(
            name, moment, "is outside the years 1 to 9999 in UTC", remedy="Use a nearer moment."
        )
    return count


@lru_cache(maxsize=256)
def _microseconds(moment: datetime) -> int:
    return (moment - EPOCH) // MICROSECOND


def from_microseconds(count: int) -> datetime:
    """The moment `to_microseconds` was given, in UTC."""
    return EPOCH + timedelta(microseconds=count)


def write_json(value: Any, name: str) -> str:
    """`value` as compact JSON that reads back equal, or a typed error."""
    try:
        _require_json(value, name, 0)
        return require_text(_JSON.encode(value), name)
    except InvalidText as error:
        raise InvalidText(name, value, error.problem, remedy=error.remedy) from None
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(
            name, type(value).__name__, f"is not JSON ({error})", remedy="Use JSON values only."
        ) from None


_LEAVES = frozenset({str, int, float, bool, type(None)})
_KEYS = frozenset({str})


def _require_json(value: Any, name: str, depth: int) -> None:
    if depth > 100:
        raise InvalidInput(name, "…", "is nested deeper than 100", remedy="Flatten it.")
    if isinstance(value, (dict, Mapping)):  # a dict is told at once, and a union takes long to make
        for key in () if _KEYS.issuperset(map(type, value)) else value:
            if not isinstance(key, str):
                raise InvalidInput(
                    name, key, "has a key that is not a string", remedy="Use str keys."
                )
        inside: Iterable[Any] = value.values()
    elif isinstance(value, (list, tuple)):
        inside = value
    else:
        return
    if not _LEAVES.issuperset(map(type, inside)):
        for item in inside:
            _require_json(item, name, depth + 1)


def check_entry(entry: Entry) -> None:
    """Refuse what could not be read back as it was given."""
    memory = entry.memory
    if memory.id in ("", ERASED):
        problem = "stands for erased memories" if memory.id else "is empty"
        remedy = "Use agentmem.base.types.Ids to make one."
        raise InvalidText("id", memory.id, problem, remedy=remedy)
    position = memory.position
    if position is not None and not (type(position) is int and 0 <= position < NO_POSITION):
        require_count(position, "position", least=-NO_POSITION)
        if position >= NO_POSITION:
            raise InvalidNumber("position", position, "is too large")
    if memory.usage is not UNUSED:
        for count in ("retrieved", "cited", "ignored"):
            require_number(require_count(getattr(memory.usage, count), count), count, high=2**62)
    if len(entry.terms) != 4 * len(entry.frequencies) or len(entry.frequencies) % 2:
        raise InvalidInput("terms", len(entry.terms), "and frequencies differ", remedy=_REMEDY)
    if type(entry.length) is not int or entry.length < 0:
        require_count(entry.length, "length")
    if entry.text_flags and not 0 <= require_count(entry.text_flags, "text_flags") < 256:
        raise InvalidNumber("text_flags", entry.text_flags, "is more than eight bits")
    for embedder, vector in entry.vectors:
        if len(vector) != 4 * embedder.dimensions:
            raise BadVector(
                f"{len(vector) // 4} numbers are not a vector of {embedder}.",
                remedy="Use agentmem.stores.values.pack_vector(), which checks vectors.",
            )


def memory_from_fields(fields: Mapping[str, Any]) -> Memory:
    """The memory `memory_to_fields` wrote; anything else is a typed error."""
    try:
        values = dict(fields)
        for name in ("created_at", "valid_from", "valid_to", "deleted_at"):
            values[name] = _moment(values.get(name))
        usage = dict(values.get("usage") or {})
        usage["last_used_at"] = _moment(usage.get("last_used_at"))
        headings = values.get("heading_path") or []
        if not isinstance(headings, list):
            raise TypeError("heading_path is not a list")
        values["heading_path"] = tuple(headings)
        values["scope"] = Scope(**(values.get("scope") or {}))
        values["usage"] = Usage(**usage)
        values["metadata"] = freeze_metadata(dict(values.get("metadata") or {}))
        return Memory(**values)
    except (TypeError, AttributeError, OverflowError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("memory", str(error), "cannot be read") from None


def freeze_metadata(metadata: dict[str, Any]) -> Mapping[str, Any]:
    """`metadata` as it stands in a memory: not to be written to."""
    from types import MappingProxyType

    return MappingProxyType(metadata) if metadata else EMPTY


def check_entries(entries: Sequence[Entry]) -> None:
    """Refuse a batch with a bad entry or the same id twice, before anything is written."""
    from agentmem.base.errors import DuplicateRecord

    seen: set[str] = set()
    for entry in entries:
        if not isinstance(entry, Entry):
            raise InvalidInput("entry", entry, "is not an Entry", remedy=_REMEDY)
        check_entry(entry)
        if entry.memory.id in seen:
            raise DuplicateRecord(entry.memory.id)
        seen.add(entry.memory.id)


def is_dsn(path: object) -> bool:
    """Whether this names a database server, not a file."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def require_ids(ids: Collection[str]) -> list[str]:
    """`ids` as a list of texts; one text alone is refused, it would be read letter by letter."""
    if isinstance(ids, str | bytes):
        raise InvalidInput("ids", ids, "is one id, not several", remedy="Pass a list of ids.")
    return [require_text(memory_id, "id") for memory_id in ids]


def require_file_name(name: str) -> str:
    """`name` if it can stand beside a store and nowhere else."""
    require_text(name, "name")
    if not name or name.startswith(".") or not name.isprintable() or {"/", "\\", ":"} & {*name}:
        raise InvalidText("name", name, "is not a plain file name", remedy="Use letters and dots.")
    return name


def _moment(written: object) -> datetime | None:
    if written is None:
        return None
    if not isinstance(written, str):
        raise InvalidInput("moment", written, "is not an ISO 8601 text")
    return datetime.fromisoformat(written)


# ----------------------------------------------------------------------------
# What indexes need of a row, as one small blob, and many blobs as arrays.
#
# A blob is a head, then the term hashes (uint64), then how often each occurs. The
# head begins with the owner, its bits turned over, and the flags, whose upper half
# says what else is there: what few rows have takes no room in the others. Blobs of
# the first schemas begin with the owner itself and hold everything. A hundred
# thousand of them become arrays without a loop over their terms.


_FIRST_HEAD = [
    ("owner", "<i4"), ("flags", "<u4"), ("strand", "<i8"), ("place", "<i8"), ("speaker", "<i8"),
    ("kind", "<i8"), ("created_at", "<i8"), ("valid_from", "<i8"), ("valid_to", "<i8"),
    ("length", "<i4"), ("count", "<i4"),
]  # fmt: skip
_HEAD = [
    ("owner", "<i4"), ("flags", "<u4"), ("strand", "<u4"), ("place", "<u4"), ("length", "<u4"),
    ("kind", "<i8"), ("created_at", "<i8"),
]  # fmt: skip
_RARE = ("place", "speaker", "valid_from", "valid_to")
"""Fields of eight bytes that follow the head where their bits are set, in this order."""
_RARE_SHIFT, _WIDTH_SHIFT = 16, 20
_NO_PLACE = (1 << 32) - 1
_FIRST_LAYOUT = -1
DELETED, SUPERSEDED, FORGOTTEN, COLD = 1, 2, 4, 8
TEXT_FLAGS_SHIFT = 8
_FIRST_PACKED, _PACKED_HEAD = struct.Struct("<iIqqqqqqqii"), struct.Struct("<iIIIIqq")
_HEAD_NAMES = tuple(name for name, _ in _HEAD)
ALWAYS_BEFORE, ALWAYS_AFTER = -(1 << 63), (1 << 63) - 1
_LONGEST = (1 << 31) - 1
_INDEX_COLUMNS = {name: kind for name, kind in _FIRST_HEAD if name != "count"}
_LEFT_OUT = {"speaker": 0, "valid_from": ALWAYS_BEFORE, "valid_to": ALWAYS_AFTER}


def pack(entry: Entry, *, owner: int, strand: int) -> bytes:
    """The blob of an entry."""
    memory, frequencies = entry.memory, entry.frequencies
    place = place_of(memory)
    near = 0 <= place < _NO_PLACE or place == NO_POSITION
    rare = (
        None if near else place,
        name_id(memory.speaker) or None,
        None if memory.valid_from is None else to_microseconds(memory.valid_from),
        None if memory.valid_to is None else to_microseconds(memory.valid_to),
    )
    flags = flags_of(memory) | entry.text_flags << TEXT_FLAGS_SHIFT
    for bit, value in enumerate(rare):
        flags |= (value is not None) << (_RARE_SHIFT + bit)
    width = 2 if any(frequencies[1::2]) else int(bool(frequencies[::2].strip(b"\x01")))
    head = _PACKED_HEAD.pack(
        ~owner,
        flags | width << _WIDTH_SHIFT,
        strand,
        place if near and place != NO_POSITION else _NO_PLACE,
        min(entry.length, _LONGEST),
        name_id(memory.kind),
        to_microseconds(memory.created_at),
    )
    more = [value.to_bytes(8, "little", signed=True) for value in rare if value is not None]
    counts = frequencies if width == 2 else frequencies[: len(frequencies) * width : 2]
    return b"".join((head, *more, entry.terms, counts))


def told_flags(deleted: object, superseded: object, metadata: Mapping[str, Any]) -> int:
    """Whether a memory is deleted, superseded, forgotten or cold, as bits, told by its columns."""
    flags = (DELETED if deleted is not None else 0) | (SUPERSEDED if superseded is not None else 0)
    if metadata:
        flags |= FORGOTTEN if FORGOTTEN_AT in metadata else 0
        flags |= COLD if COLD_AT in metadata else 0
    return flags


def flags_of(memory: Memory) -> int:
    """The same of a memory."""
    return told_flags(memory.deleted_at, memory.superseded_by, memory.metadata)


def place_of(memory: Memory) -> int:
    """Where a row stands in its strand; rows without a position come last."""
    return NO_POSITION if memory.position is None else memory.position


def unpack_terms(data: bytes) -> dict[str, Any]:
    """What a blob holds that the memory itself does not, as an `Entry` takes it."""
    head, size, width = read_head(data)
    middle = size + (len(data) - size) // (8 + width) * 8
    frequencies = bytearray(b"\x01\x00") * ((middle - size) // 8)
    if width:
        frequencies[::2] = data[middle::width]
    if width == 2:
        frequencies[1::2] = data[middle + 1 :: 2]
    return {
        "terms": data[size:middle],
        "frequencies": bytes(frequencies),
        "length": head["length"],
        "text_flags": head["flags"] >> TEXT_FLAGS_SHIFT,
    }


def index_head(data: bytes) -> dict[str, int]:
    """The flags, without those of the text, and the length that a blob tells of."""
    head, _, _ = read_head(data)
    return {"flags": head["flags"] & 0xFF, "length": head["length"]}


def read_head(data: bytes) -> tuple[dict[str, int], int, int]:
    """A blob's head, its size, and how many bytes a frequency takes.

    ValueError or `struct.error` where it is none, or what follows it has no such size.
    """
    owner, flags = struct.unpack_from("<iI", data)
    if owner >= 0:
        size, width = _FIRST_PACKED.size, 2
        head = dict(zip(_INDEX_COLUMNS, _FIRST_PACKED.unpack_from(data), strict=False))
    else:
        width = flags >> _WIDTH_SHIFT
        head = _LEFT_OUT | dict(zip(_HEAD_NAMES, _PACKED_HEAD.unpack_from(data), strict=True))
        head |= {"owner": ~owner, "flags": flags & 0xFFFF}
        if head["place"] == _NO_PLACE:
            head["place"] = NO_POSITION
        size = _PACKED_HEAD.size
        for bit, name in enumerate(_RARE):
            if flags >> (_RARE_SHIFT + bit) & 1:
                (head[name],) = struct.unpack_from("<q", data, size)
                size += 8
    if width > 2 or len(data) < size or (len(data) - size) % (8 + width):
        raise ValueError("a blob of another size")
    return head, size, width


def to_index_rows(
    rows: Sequence[int],
    blobs: Sequence[bytes],
    *,
    trailing: int = 0,
    previous: Sequence[int] | None = None,
) -> IndexRows:
    """Arrays over `rows`; the last `trailing` bytes of each blob are not looked at.

    Without `previous` the rows are all there is, and it is worked out here. A
    blob that has no size it can have is a ValueError.
    """
    import numpy as np

    columns = {name: np.zeros(len(blobs), kind) for name, kind in _INDEX_COLUMNS.items()}
    begins = np.frombuffer(b"".join([blob[:8] for blob in blobs]), [("o", "<i4"), ("f", "<u4")])
    layouts = np.where(begins["o"] < 0, begins["f"].astype(np.int64) >> _RARE_SHIFT, _FIRST_LAYOUT)
    sizes = np.array([len(blob) for blob in blobs], dtype=np.int64) - trailing
    heads, widths = np.zeros_like(sizes), np.zeros_like(sizes)
    for layout in dict.fromkeys(layouts.tolist()):
        here = np.flatnonzero(layouts == layout)
        dtype, width = _layout(layout)
        read = np.frombuffer(b"".join([blobs[at][: dtype.itemsize] for at in here.tolist()]), dtype)
        for name in _INDEX_COLUMNS:
            if f"rare.{name}" in (read.dtype.names or ()):
                columns[name][here] = read[f"rare.{name}"]
            elif name in (read.dtype.names or ()):
                columns[name][here] = read[name]
            else:
                columns[name][here] = _LEFT_OUT[name]
        if layout != _FIRST_LAYOUT:
            columns["owner"][here] = ~read["owner"]
            columns["flags"][here] &= 0xFFFF
            if "rare.place" not in (read.dtype.names or ()):
                columns["place"][here[read["place"] == _NO_PLACE]] = NO_POSITION
        heads[here], widths[here] = dtype.itemsize, width
    counts, odd = np.divmod(sizes - heads, 8 + widths)
    if odd.any() or (counts < 0).any():
        raise ValueError("a blob of another size")
    ends = heads + 8 * counts
    places = list(zip(blobs, heads.tolist(), ends.tolist(), sizes.tolist(), strict=True))
    offsets = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
    frequencies = np.ones(int(offsets[-1]), dtype=np.uint16)
    for width in (1, 2):
        here = np.flatnonzero(widths == width)
        data = b"".join([blob[end:size] for blob, _, end, size in map(places.__getitem__, here)])
        held = counts[here]
        at = np.repeat(offsets[here] - np.cumsum(held) + held, held) + np.arange(held.sum())
        frequencies[at] = np.frombuffer(data, f"<u{width}")
    row_array = np.asarray(rows, dtype=np.int64)
    if row_array.max(initial=0) > ROW_LIMIT:
        raise InvalidInput("rows", int(row_array.max()), f"is not within 1 to {ROW_LIMIT}")
    if previous is None:
        linked = _previous(row_array, columns["strand"], columns["place"], columns["flags"])
    else:
        linked = np.asarray(previous, dtype=np.int64)
    return IndexRows(
        rows=row_array,
        previous=linked,
        term_offsets=offsets,
        terms=np.frombuffer(b"".join([blob[head:end] for blob, head, end, _ in places]), "<u8"),
        frequencies=frequencies,
        **columns,
    )


@lru_cache(maxsize=128)
def _layout(layout: int) -> tuple[np.dtype[Any], int]:
    """What the heads of this layout hold, and how many bytes a frequency takes."""
    import numpy as np

    if layout == _FIRST_LAYOUT:
        return np.dtype(_FIRST_HEAD), 2
    rare = [(f"rare.{name}", "<i8") for bit, name in enumerate(_RARE) if layout >> bit & 1]
    width = layout >> (_WIDTH_SHIFT - _RARE_SHIFT)
    if width > 2:
        raise ValueError("a blob of another kind")
    return np.dtype([*_HEAD, *rare]), width


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
