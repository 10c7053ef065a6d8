"""Both engines over one store: loaded, kept in step with every process's writes, and saved."""

from __future__ import annotations

import hashlib
import json
import logging
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from agentmem.base.errors import StoreCorrupt, StoreFull, StoreReadOnly
from agentmem.base.guards import IndexUpkeep
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.match import Segment
from agentmem.search.indexes.matrix import Fetch
from agentmem.search.indexes.rows import COLUMNS, RowTable, distinct
from agentmem.search.indexes.vector import VectorIndex
from agentmem.search.protocol import IndexState
from agentmem.stores.base import Store
from agentmem.stores.open_files import new_bytes
from agentmem.stores.values import COLD, Change, IndexFile, IndexRows, name_id

if TYPE_CHECKING:
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# Index files: a cache beside the store, written whole or not at all, believed only by digest.
#
# A file is a line of JSON that names its arrays with the digests of their blocks,
# then the arrays' bytes. Nothing in it is run and nothing in it is trusted: the
# digest of that line is kept by the store, and a file with any other is refused.
# The arrays stay in the file's pages, which processes share; a large file is
# opened first and its blocks are tested afterwards.


MAGIC = b"agentmem index 3\n"
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


# ----------------------------------------------------------------------------
# Save both engines beside the store, and have them back without building them.


_SEGMENT = {
    "terms": np.uint64,
    "offsets": np.int64,
    "positions": np.int32,
    "counts": np.uint8,
    "codes": np.uint8,
}


_ALL_DIFFERENT = ("rows", "previous", "created_at")
_FEW_VALUES = 1 << 16

CHECKED_AT_ONCE = 1 << 24
"""A file of up to so many bytes is tested before it is used, a larger one afterwards."""

Later = Callable[[Saved], None]
"""Takes a file whose blocks are to be tested while it is already in use."""


def save_postings(index: PostingsIndex, path: str | os.PathLike[str]) -> str:
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
    _require({f"column.{name}" for name in COLUMNS} | set(_SEGMENT) <= set(arrays), path)
    columns = {name: _column(arrays, name) for name in COLUMNS}
    for name, dtype in COLUMNS.items():
        _require(columns[name].dtype == dtype and columns[name].ndim == 1, path)
        _require(len(columns[name]) == len(columns["rows"]), path)
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
    """Write which rows have vectors and their codes, nothing deleted among them, and return the
    SHA-256. The vectors themselves are in the store and nowhere else.

    Codes that are being made are waited for: without them every open would make them again.
    """
    index.upkeep.wait()
    rows, codes = index.snapshot()
    embedder = index.embedder
    header: dict[str, Any] = {
        "engine": "vectors",
        "embedder": [embedder.name, embedder.version, embedder.dimensions],
    }
    arrays: dict[str, NDArray[Any]] = {"rows": rows}
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
    """The index that was saved with this digest for this embedder; else `StoreCorrupt`."""
    saved = _opened(path, expected_sha256, later)
    header, arrays = saved.header, saved.arrays
    _require(header.get("engine") == "vectors", path)
    _require(header.get("embedder") == [embedder.name, embedder.version, embedder.dimensions], path)
    _require("rows" in arrays, path)
    index = VectorIndex(embedder, table, **settings)
    try:
        index.restore(
            arrays["rows"],
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


_log = logging.getLogger(__name__)

Index = TypeVar("Index", PostingsIndex, VectorIndex)

WORDS = ".words"
"""Ends the name of the file of words; the one of vectors ends with its embedder's digest."""
FEW_ROWS = 200
MANY_ROWS = 5_000
"""So many rows written are taken in beside the caller as soon as no more come."""
QUIET_SECONDS = 0.1
SAME_INGEST_SECONDS = 5.0
"""What comes so soon after many rows were taken in is the rest of them, however few."""
CHECKED_AFTER_SECONDS = 1.0
"""Large files are tested so much later: what opened them has an answer to give first."""
REBUILD_ROWS = 2_000
"""Past this many changed rows, and a fifth of all, reading everything anew is the shorter way."""


class LiveIndex:
    """Words and vectors of a store, as of its last committed write.

    `path` is the store's file; index files stand beside it and are only a
    cache: one that is missing, damaged or of another embedder is built anew.
    Without a path nothing is saved. Memories that were put away are left out;
    with `cold` only they are in it.
    """

    def __init__(
        self, store: Store, *, path: Path | None, background: bool = True, cold: bool = False
    ) -> None:
        self._store = store
        self._cold = cold
        self._path = path
        self._background = background
        self.rebuilds = 0
        self._elsewhere = 0
        """How often rows changed that are not here, such as those that were put away."""
        self._start()

    def _start(self) -> None:
        """Begin with nothing; also in a forked child, whose parent may have been at work here."""
        self._process = os.getpid()
        self._away: set[int] = set()
        self._lock = threading.RLock()
        self._postings = PostingsIndex(background=self._background)
        self._loaded = False
        self._vectors: dict[EmbedderId, VectorIndex] = {}
        self._with_gaps: set[EmbedderId] = set()
        self._seq = 0
        self._saved_seq: int | None = None
        self._version: int | None = None
        self._unchecked: SimpleQueue[Saved] = SimpleQueue()
        self._damaged = False
        self._stop = threading.Event()
        self._checks = IndexUpkeep(self._check_next, background=self._background)
        self._waiting = 0
        self._taken_in = float("-inf")
        self._expected: Callable[[], EmbedderId | None] = _nobody
        self._soon = IndexUpkeep(self._take_in, background=self._background)

    @property
    def seq(self) -> int:
        """The number of the last write these indexes know of."""
        return self._seq

    @property
    def postings(self) -> PostingsIndex:
        """The words as of now: a search begins here and goes on with the state it found."""
        self.catch_up()
        return self._postings

    @property
    def words(self) -> PostingsIndex:
        """The words as of the last `catch_up`."""
        return self._postings

    @property
    def table(self) -> RowTable:
        """The rows as of the last `catch_up`."""
        return self._postings.table

    def vectors(self, embedder: EmbedderId) -> VectorIndex:
        """The vectors of this embedder, and of no other, as of the last `postings`."""
        self._require_own()
        with self._lock:
            if not self._loaded:
                self.catch_up()
            if embedder not in self._vectors:
                self._vectors[embedder] = self._load_vectors(embedder)
            return self._vectors[embedder]

    def take_gaps(self, embedder: EmbedderId) -> bool:
        """Whether rows came since this was last asked that have no vector of this embedder."""
        if embedder not in self._with_gaps:
            return False
        self._with_gaps.discard(embedder)
        return True

    def changes_of(self, kind: str) -> tuple[int, int, int] | None:
        """What differs whenever a row of this kind came, changed or went since it was the same,
        wherever the row is; None while nothing is loaded."""
        self._require_own()
        if not self._loaded:
            return None
        self.catch_up()
        with self._lock:
            return self.rebuilds, self._elsewhere, self.table.changes_of(name_id(kind))

    # -- keeping in step ------------------------------------------------------------

    def catch_up(self) -> None:
        """Take in what was committed since, by any process; nearly free when nothing was."""
        self._require_own()
        feed = self._store.feed
        if self._loaded and not self._damaged and feed.data_version() == self._version:
            return
        with self._lock:
            version = feed.data_version()
            if self._damaged:
                self._damaged, self._saved_seq = False, None
                self._rebuild()
            if not self._loaded:
                self._load_postings()
                self._loaded = True
            changes = feed.changes(self._seq)
            if not changes.complete:
                self._rebuild()
            elif changes.items:
                self._apply(changes.items)
                self._seq = changes.seq
            self._version = version

    def _require_own(self) -> None:
        if os.getpid() != self._process:
            self._start()

    def keep_up(self) -> None:
        """`catch_up` for an index that is in use, so that the next search finds it done."""
        if self._loaded:
            self.catch_up()

    def expect(self, rows: int, embedder: Callable[[], EmbedderId | None]) -> None:
        """Take note that rows were written: many are taken in before anybody asks.

        That waits until no more come, so that a long ingest is taken in once.
        `embedder` says whose vectors are wanted then.
        """
        self._require_own()
        self._waiting += rows
        rest = time.monotonic() - self._taken_in < SAME_INGEST_SECONDS
        if self._background and (rest or self._waiting >= MANY_ROWS):
            self._expected = embedder
            self._soon.wake()

    def finish_taking_in(self) -> None:
        """Wait until what was expected is here."""
        self._soon.wait()

    def _take_in(self) -> bool:
        seen = -1
        while seen != self._waiting and not self._stop.is_set():
            seen = self._waiting
            self._stop.wait(QUIET_SECONDS)
        if not self._waiting or self._stop.is_set():
            return False
        self._waiting = 0
        self.catch_up()
        embedder = self._expected()
        if embedder is not None:
            self.vectors(embedder).upkeep.wait()
        self._taken_in = time.monotonic()
        return True

    def _apply(self, changes: Iterable[Change]) -> None:
        touched: set[int] = set()
        revectored: set[int] = set()
        for change in changes:
            rows = range(change.first, change.last + 1)
            (revectored if change.operation == "vectors" else touched).update(rows)
        if len(touched) > max(REBUILD_ROWS, len(self._postings) // 5):
            self._rebuild()
            return
        if touched:
            wanted = sorted(touched)
            here = self._table().positions_of(np.array(wanted)) >= 0
            batch = self._wanted(self._store.feed.index_rows(rows=wanted))
            gone = touched - set(batch.rows.tolist())
            if gone:
                self._postings.delete(sorted(gone))
            self._postings.add(batch)
            here |= self._table().positions_of(np.array(wanted)) >= 0
            self._elsewhere += not here.all()
        for embedder, index in self._vectors.items():
            self._refresh_vectors(embedder, index, sorted(touched | revectored))

    def _refresh_vectors(self, embedder: EmbedderId, index: VectorIndex, rows: list[int]) -> None:
        found, vectors = self._here(*self._store.feed.vectors(embedder, rows=rows))
        gone = set(rows) - set(found.tolist())
        if gone:
            index.delete(sorted(gone))
            if (self._table().positions_of(np.array(sorted(gone))) >= 0).any():
                self._with_gaps.add(embedder)
        if len(found):
            index.add(found, vectors)

    def _rebuild(self) -> None:
        self.rebuilds += 1
        feed = self._store.feed
        seq = feed.seq()  # before reading: what is written meanwhile is applied again
        postings = PostingsIndex(background=self._background)
        # An owner's rows side by side are found as one slice of each word's list.
        postings.add(self._wanted(feed.index_rows()).by_owner())
        self._replace(postings)  # only now: a search that is under way goes on with the old one
        self._seq = seq
        for embedder in tuple(self._vectors):
            self._vectors[embedder].close()
            self._vectors[embedder] = self._built_vectors(embedder)

    def _replace(self, postings: PostingsIndex) -> None:
        before, self._postings = self._postings, postings
        before.upkeep.stop()

    def _built_vectors(self, embedder: EmbedderId) -> VectorIndex:
        index = VectorIndex(
            embedder, self._table(), background=self._background, fetch=self._fetch(embedder)
        )
        index.add(*self._here(*self._store.feed.vectors(embedder)))
        return index

    def _fetch(self, embedder: EmbedderId) -> Fetch:
        feed = self._store.feed
        return lambda rows: feed.vectors(embedder, rows=rows.tolist())

    def _wanted(self, batch: IndexRows) -> IndexRows:
        """The rows that belong here: the hot ones, or the cold ones."""
        cold = (batch.flags & COLD) != 0
        if not self._cold:
            self._away.difference_update(batch.rows[~cold].tolist())
            self._away.update(batch.rows[cold].tolist())
        other = cold != self._cold
        return batch.without(other) if other.any() else batch

    def _here(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The vectors of rows that belong here."""
        if self._cold:
            kept = self._table().positions_of(rows) >= 0
        elif self._away:
            kept = ~np.isin(rows, np.fromiter(self._away, np.int64, len(self._away)))
        else:
            return rows, vectors
        return rows[kept], vectors[kept]

    def _table(self) -> RowTable:
        return self._postings.table

    # -- files ----------------------------------------------------------------------

    def _load_postings(self) -> None:
        kept = self._kept(WORDS)
        if kept is not None:
            path, file = kept
            try:
                loaded = load_postings(
                    path, file.sha256, later=self._check_later, background=self._background
                )
            except (OSError, StoreCorrupt) as error:
                self._report(error)
            else:
                self._replace(loaded)
                self._seq = self._saved_seq = file.seq
                return
        self._rebuild()

    def _load_vectors(self, embedder: EmbedderId) -> VectorIndex:
        kept = self._kept(vectors_suffix(embedder))
        if kept is not None and kept[1].embedder == str(embedder):
            path, file = kept
            try:
                index = load_vectors(
                    path,
                    file.sha256,
                    embedder=embedder,
                    table=self._table(),
                    later=self._check_later,
                    background=self._background,
                    fetch=self._fetch(embedder),
                )
            except (OSError, StoreCorrupt) as error:
                self._report(error)
            else:
                changes = self._store.feed.changes(file.seq)
                rows = {r for c in changes.items for r in range(c.first, c.last + 1)}
                if index.unfinished:
                    self._saved_seq = None  # to be saved again, with the codes that are made now
                if changes.complete and len(rows) <= max(REBUILD_ROWS, len(index) // 5):
                    if rows:
                        self._refresh_vectors(embedder, index, sorted(rows))
                    return index
                index.close()
        return self._built_vectors(embedder)

    def _check_later(self, saved: Saved) -> None:
        self._unchecked.put(saved)
        self._checks.wake()

    def finish_checks(self) -> None:
        """Wait until every file that was opened is tested."""
        self._checks.wait()

    def _check_next(self) -> bool:
        """Test a file that is in use already; a damaged one is replaced before the next search."""
        self._stop.wait(CHECKED_AFTER_SECONDS)
        try:
            self._unchecked.get_nowait().check(self._stop.is_set)
        except Empty:
            return False
        except StoreCorrupt as error:
            self._report(error)
            self._damaged = True
        return True

    def _kept(self, suffix: str) -> tuple[Path, IndexFile] | None:
        if self._path is None:
            return None
        path = self._beside(self._path, suffix)
        file = self._store.feed.index_file(path.name)
        return None if file is None else (path, file)

    def _report(self, error: Exception) -> None:
        _log.warning("An index file cannot be used and is built anew: %s", error)

    def state(self) -> IndexState:
        """How many rows there are, as of which write, and what the saved copy knows of."""
        self.catch_up()
        kept = self._kept(WORDS)
        return IndexState(
            rows=len(self._postings), seq=self._seq, saved_seq=None if kept is None else kept[1].seq
        )

    def _worth_saving(self) -> bool:
        """Whether so much changed that the next open would rather load than catch up."""
        if not self._loaded or not self._seq:
            return False
        if self._saved_seq is None:
            return True
        changes = self._store.feed.changes(self._saved_seq)
        rows = sum(change.last - change.first + 1 for change in changes.items)
        return not changes.complete or rows > max(FEW_ROWS, len(self._postings) // 20)

    def save(self, embedder: EmbedderId | None = None, *, if_worth: bool = False) -> None:
        """Write both indexes beside the store, so that the next open need not build them."""
        self._require_own()
        if self._path is None or (if_worth and not self._worth_saving()):
            return
        with self._lock:
            self.catch_up()
            if embedder is not None:
                self.vectors(embedder)
            if self._saved_seq == self._seq or not self._seq:
                return  # nothing to save; where nothing was written there may be no store yet
            words = self._beside(self._path, WORDS)
            self._keep(words, self._postings, save_postings, embedder="")
            for space, index in self._vectors.items():
                path = self._beside(self._path, vectors_suffix(space))
                self._keep(path, index, save_vectors, embedder=str(space))
            self._saved_seq = self._seq

    def _keep(
        self, path: Path, index: Index, write: Callable[[Index, Path], str], *, embedder: str
    ) -> None:
        seq = self._seq
        file = IndexFile(name=path.name, sha256=write(index, path), seq=seq, embedder=embedder)
        noted = False
        try:
            noted = self._store.feed.keep_index_file(file)
        finally:
            if not noted:  # something was erased meanwhile, or the store could not be written
                path.unlink(missing_ok=True)

    @staticmethod
    def _beside(path: Path, suffix: str) -> Path:
        return path.with_name(path.name + suffix)

    def forget(self) -> None:
        """Let go of everything erased, in memory too."""
        self._require_own()
        with self._lock:
            self.catch_up()
            self._postings.compact()
            for index in self._vectors.values():
                index.compact()
            self._saved_seq = None

    def close(self) -> None:
        self._require_own()
        self._stop.set()
        self._soon.close()
        self._checks.close()
        with self._lock:
            self._postings.close()
            for index in self._vectors.values():
                index.close()
        self._expected = _nobody


def _nobody() -> None:
    """The embedder of an index that expects no rows."""


def vectors_suffix(embedder: EmbedderId) -> str:
    """What the file of this embedder's vectors ends with."""
    digest = hashlib.blake2b(str(embedder).encode("utf-8"), digest_size=6).hexdigest()
    return f".vectors-{digest}"
