"""Both engines over one store: loaded, kept in step with every process's writes, and saved."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from agentmem.errors import StoreCorrupt
from agentmem.indexes.files import Saved
from agentmem.indexes.lexical import PostingsIndex
from agentmem.indexes.rows import RowTable
from agentmem.indexes.saved import load_postings, load_vectors, save_postings, save_vectors
from agentmem.indexes.upkeep import Upkeep
from agentmem.indexes.vector import VectorIndex
from agentmem.protocols import EmbedderId
from agentmem.stores.base import Store
from agentmem.stores.packing import COLD
from agentmem.stores.values import Change, IndexFile, IndexRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)

Index = TypeVar("Index", PostingsIndex, VectorIndex)

WORDS = ".words"
"""Ends the name of the file of words; the one of vectors ends with its embedder's digest."""
FEW_ROWS = 200
MANY_ROWS = 5_000
"""So many rows written are taken in beside the caller as soon as no more come."""
QUIET_SECONDS = 0.1
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
        self._closed = False
        self._checks = Upkeep(self._check_next, background=self._background)
        self._waiting = 0
        self._stop = threading.Event()
        self._expected: Callable[[], EmbedderId | None] = lambda: None
        self._soon = Upkeep(self._take_in, background=self._background)

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

    def changes_of(self, kind: int) -> tuple[int, int, int] | None:
        """What differs whenever a row of this kind came, changed or went since it was the same,
        wherever the row is; None while nothing is loaded."""
        self._require_own()
        if not self._loaded:
            return None
        self.catch_up()
        with self._lock:
            return self.rebuilds, self._elsewhere, self.table.changes_of(kind)

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
        if self._background and self._waiting >= MANY_ROWS:
            self._expected = embedder
            self._soon.wake()

    def finish_taking_in(self) -> None:
        """Wait until what was expected is here."""
        self._soon.wait()

    def _take_in(self) -> bool:
        seen = 0
        while seen != self._waiting and not self._stop.is_set():
            seen = self._waiting
            self._stop.wait(QUIET_SECONDS)
        if self._waiting < MANY_ROWS or self._stop.is_set():
            return False
        self._waiting = 0
        self.catch_up()
        embedder = self._expected()
        if embedder is not None:
            self.vectors(embedder).upkeep.wait()
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
        self._postings = postings  # only now: a search that is under way goes on with the old one
        self._seq = seq
        for embedder in tuple(self._vectors):
            self._vectors[embedder].close()
            self._vectors[embedder] = self._built_vectors(embedder)

    def _built_vectors(self, embedder: EmbedderId) -> VectorIndex:
        index = VectorIndex(embedder, self._table(), background=self._background)
        index.add(*self._here(*self._store.feed.vectors(embedder)))
        return index

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
                self._postings = load_postings(
                    path, file.sha256, later=self._check_later, background=self._background
                )
            except (OSError, StoreCorrupt) as error:
                self._report(error)
            else:
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
        try:
            self._unchecked.get_nowait().check(lambda: self._closed)
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

    @property
    def worth_saving(self) -> bool:
        """Whether so much changed that the next open would rather load than catch up."""
        self._require_own()
        if self._path is None or not self._loaded or not self._seq:
            return False
        if self._saved_seq is None:
            return True
        changes = self._store.feed.changes(self._saved_seq)
        rows = sum(change.last - change.first + 1 for change in changes.items)
        return not changes.complete or rows > max(FEW_ROWS, len(self._postings) // 20)

    def save(self, embedder: EmbedderId | None = None) -> None:
        """Write both indexes beside the store, so that the next open need not build them."""
        self._require_own()
        if self._path is None:
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
        self._closed = True
        self._stop.set()
        self._soon.close()
        self._checks.close()
        with self._lock:
            self._postings.close()
            for index in self._vectors.values():
                index.close()


def vectors_suffix(embedder: EmbedderId) -> str:
    """What the file of this embedder's vectors ends with."""
    digest = hashlib.blake2b(str(embedder).encode("utf-8"), digest_size=6).hexdigest()
    return f".vectors-{digest}"
