"""The values that go into a store and come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentmem.core.checks import require_text
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.protocols import EmbedderId
from agentmem.types import EMPTY, Memory, Scope, Visibility, require_instant

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """What a memory was before `replaced_at`."""

    memory: Memory
    replaced_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A memory with what is needed to find it, as it is written; see `agentmem.preparing`."""

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
    of `ids` that nobody named: they were made of what was.
    """

    ids: tuple[str, ...]
    derived: tuple[str, ...] = ()
    vectors: int
    versions: int
    snapshots: int
    artifacts: int
    jobs: int
    index_files: tuple[str, ...]
    complete: bool
    erased_at: datetime


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

    def __post_init__(self) -> None:
        import numpy as np

        for column in fields(self):
            value = np.asarray(getattr(self, column.name))
            if value.ndim != 1 or (value.size and value.dtype.kind not in "iu"):
                raise InvalidInput(column.name, value, "is not a list of whole numbers")
            object.__setattr__(self, column.name, value)
        size = len(self.rows)
        for name in INDEX_COLUMNS:
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
            **{name: getattr(self, name)[start:end] for name in INDEX_COLUMNS},
        )

    def without(self, chosen: NDArray[np.bool_]) -> IndexRows:
        """The rows that are not chosen."""
        import numpy as np

        kept = ~chosen
        sizes = np.diff(self.term_offsets)
        words = np.repeat(kept, sizes)
        return IndexRows(
            term_offsets=np.concatenate(([0], np.cumsum(sizes[kept]))).astype(np.int64),
            terms=self.terms[words],
            frequencies=self.frequencies[words],
            **{name: getattr(self, name)[kept] for name in INDEX_COLUMNS},
        )

    def by_owner(self) -> IndexRows:
        """The same rows, those of one owner together, each owner's in the order they had."""
        import numpy as np

        if not len(self) or bool((self.owner[1:] >= self.owner[:-1]).all()):
            return self
        order = np.argsort(self.owner, kind="stable")
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
