"""The search of a store that has none of its own: words and vectors in this process.

Both engines are loaded, kept in step with every process's writes, and saved beside the store.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from agentmem.base.errors import StoreCorrupt
from agentmem.base.filters import ALL_VISIBILITIES, ALWAYS, Selection
from agentmem.base.guards import IndexUpkeep
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.indexes.files import (
    Saved,
    load_postings,
    load_vectors,
    save_postings,
    save_vectors,
)
from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.rows import RowScope, RowTable
from agentmem.search.indexes.vector import VectorIndex
from agentmem.search.protocol import (
    RANKED_BY,
    Asked,
    Candidates,
    IndexState,
    Leg,
    brought_in,
    gather,
)
from agentmem.stores.base import Store
from agentmem.stores.values import (
    COLD,
    FORGOTTEN,
    SUPERSEDED,
    Change,
    IndexFile,
    IndexRows,
    name_id,
    to_microseconds,
)

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
SAME_INGEST_SECONDS = 5.0
"""What comes so soon after many rows were taken in is the rest of them, however few."""
CHECKED_AFTER_SECONDS = 1.0
"""Large files are tested so much later: what opened them has an answer to give first."""
REBUILD_ROWS = 2_000
"""Past this many changed rows, and a fifth of all, reading everything anew is the shorter way."""
_KEPT_OWNERS = 64
_BLOCK_ROWS = 256


class LocalSearch:
    """BM25 and FAISS over one store, as of its last committed write.

    `path` is the store's file; index files stand beside it and are only a
    cache: one that is missing, damaged or of another embedder is built anew.
    Without a path nothing is saved. Memories that were put away have indexes of
    their own, built when they are first asked: with `cold` only they are in it.
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
        self._lock = threading.RLock()
        self.words = PostingsIndex(background=self._background)
        """The words as of the last `catch_up`."""
        self._loaded = False
        self._vectors: dict[EmbedderId, VectorIndex] = {}
        self._with_gaps: set[EmbedderId] = set()
        self.seq = 0
        """The number of the last write these indexes know of."""
        self._saved_seq: int | None = None
        self._version: int | None = None
        self._unchecked: SimpleQueue[Saved] = SimpleQueue()
        self._damaged = False
        self._stop = threading.Event()
        self.checks = IndexUpkeep(self._check_next, background=self._background)
        """Tests files that were opened and are in use already."""
        self._waiting = 0
        self._taken_in = float("-inf")
        self._expected: Callable[[], EmbedderId | None] = _nobody
        self.intake = IndexUpkeep(self._take_in, background=self._background)
        """Takes in what was expected."""
        self._owners: OrderedDict[Scope, tuple[int, frozenset[int]]] = OrderedDict()
        self._put_away: tuple[int, bool] | None = None

    def _require_own(self) -> None:
        if os.getpid() != self._process:
            self._start()

    @property
    def table(self) -> RowTable:
        """The rows as of the last `catch_up`."""
        return self.words.table

    def vectors(self, embedder: EmbedderId) -> VectorIndex:
        """The vectors of this embedder, and of no other, as of the last `catch_up`."""
        self._require_own()
        with self._lock:
            if not self._loaded:
                self.catch_up()
            if embedder not in self._vectors:
                self._vectors[embedder] = self._load_vectors(embedder)
            return self._vectors[embedder]

    @cached_property
    def _of_cold(self) -> LocalSearch:
        return LocalSearch(self._store, path=None, background=self._background, cold=True)

    # -- searching ------------------------------------------------------------------

    def candidates(self, asked: Asked) -> Candidates | None:
        """What both legs bring in and what surrounds it; None when neither finds anything."""
        if asked.cold and not self._cold:
            return self._of_cold.candidates(asked)
        scope = self._row_scope(asked.selection, unfiltered=asked.unfiltered)
        vectors = None if asked.vector is None else self.vectors(asked.vector[0])
        question = asked.question
        match = self.words.match(question.hashes(), question.term_weights, scope=scope)
        near = cosines_of = None
        if vectors is not None and asked.vector is not None:
            near = vectors.begin(asked.vector[1], asked.most, match.selection)
            cosines_of = partial(vectors.cosines_of, asked.vector[1])
        lexical = Leg(*match.top(asked.most)) if asked.words else Leg()
        vector = Leg(*near()) if near is not None else Leg()
        if not lexical.places and not vector.places:
            return None
        return gather(
            asked,
            lexical,
            vector,
            brought_in(lexical, vector),
            columns_of=partial(self.table.columns_of, names=RANKED_BY),
            neighbours=partial(self.table.neighbours, seen=match.selection),
            counts_of=match.counts_of,
            cosines_of=cosines_of,
            row_frequencies=match.row_frequencies,
            rows_in_scope=match.row_count,
            mean_length=match.mean_length,
        )

    def speakers(self, reader: Scope, *, cold: bool = False) -> frozenset[int]:
        """Who speaks in any row that `reader` may see, of the hot ones or the cold."""
        if cold and not self._cold:
            self._of_cold.catch_up()
            return self._of_cold.speakers(reader)
        return self.table.speakers(RowScope(owners=self._visible_owners(reader)))

    def nearest(
        self, embedder: EmbedderId, rows: Collection[int], most: int, *, among: Collection[int]
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.float32]]]:
        """Each of `rows` that has a vector, with the rows `among` nearest to it."""
        self.catch_up()
        index = self.vectors(embedder)
        scope = RowScope(rows=np.fromiter(among, np.int64, len(among)))
        asking = list(rows)
        for start in range(0, len(asking), _BLOCK_ROWS):
            here = asking[start : start + _BLOCK_ROWS]
            keys, vectors = self._store.feed.vectors(embedder, rows=here)
            for key, vector in zip(keys.tolist(), vectors, strict=True):
                yield key, *index.search(vector, most, scope=scope)

    def has_cold(self) -> bool:
        """Whether memories are put away, as of the write that the index knows of."""
        seq = self.seq
        if self._put_away is None or self._put_away[0] != seq:
            self._put_away = (seq, self._store.feed.cold_count() > 0)
        return self._put_away[1]

    def take_gaps(self, embedder: EmbedderId) -> bool:
        """Whether rows came since this was last asked that have no vector of this embedder."""
        found = embedder in self._with_gaps
        self._with_gaps.discard(embedder)
        return found

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
                self._load_words()
                self._loaded = True
            changes = feed.changes(self.seq)
            if not changes.complete:
                self._rebuild()
            elif changes.items:
                self._apply(changes.items)
                self.seq = changes.seq
            self._version = version

    def keep_up(self) -> None:
        """Work out beforehand what the next search by one who searched lately would have to."""
        if self._loaded:
            self.catch_up()
        if self._owners:
            self.has_cold()
        for reader in tuple(self._owners):
            self._visible_owners(reader)

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
            self.intake.wake()

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
        if len(touched) > max(REBUILD_ROWS, len(self.words) // 5):
            self._rebuild()
            return
        if touched:
            wanted = np.array(sorted(touched))
            here = self.table.positions_of(wanted) >= 0
            batch = self._wanted(self._store.feed.index_rows(rows=wanted.tolist()))
            self.words.delete(sorted(touched - set(batch.rows.tolist())))
            self.words.add(batch)
            here |= self.table.positions_of(wanted) >= 0
            self._elsewhere += not here.all()
        for index in self._vectors.values():
            self._refresh(index, sorted(touched | revectored))

    def _refresh(self, index: VectorIndex, rows: list[int]) -> None:
        found, vectors = self._here(*self._store.feed.vectors(index.embedder, rows=rows))
        gone = sorted(set(rows) - set(found.tolist()))
        index.delete(gone)
        if (self.table.positions_of(np.array(gone, dtype=np.int64)) >= 0).any():
            self._with_gaps.add(index.embedder)
        index.add(found, vectors)

    def _rebuild(self) -> None:
        self.rebuilds += 1
        feed = self._store.feed
        seq = feed.seq()  # before reading: what is written meanwhile is applied again
        words = PostingsIndex(background=self._background)
        # An owner's rows side by side are found as one slice of each word's list.
        words.add(self._wanted(feed.index_rows()).by_owner())
        self._replace(words)  # only now: a search that is under way goes on with the old one
        self.seq = seq
        for embedder, index in tuple(self._vectors.items()):
            index.close()
            self._vectors[embedder] = self._filled(self._new_vectors(embedder))

    def _replace(self, words: PostingsIndex) -> None:
        before, self.words = self.words, words
        before.upkeep.stop()

    def _new_vectors(self, embedder: EmbedderId) -> VectorIndex:
        feed = self._store.feed
        return VectorIndex(
            embedder,
            self.table,
            lambda rows: feed.vectors(embedder, rows=rows.tolist()),
            background=self._background,
        )

    def _filled(self, index: VectorIndex) -> VectorIndex:
        index.add(*self._here(*self._store.feed.vectors(index.embedder)))
        return index

    def _wanted(self, batch: IndexRows) -> IndexRows:
        """The rows that belong here: the hot ones, or the cold ones."""
        other = ((batch.flags & COLD) != 0) != self._cold
        return batch.without(other) if other.any() else batch

    def _here(
        self, rows: NDArray[np.int64], vectors: NDArray[np.float32]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The vectors of rows that are here; of one that comes later they are read then."""
        kept = self.table.positions_of(rows) >= 0
        return (rows, vectors) if kept.all() else (rows[kept], vectors[kept])

    # -- files ----------------------------------------------------------------------

    def _load_words(self) -> None:
        load = partial(load_postings, later=self._check_later, background=self._background)
        found = self._loaded_file(WORDS, load)
        if found is None:
            self._rebuild()
            return
        words, self.seq = found
        self._saved_seq = self.seq
        self._replace(words)

    def _load_vectors(self, embedder: EmbedderId) -> VectorIndex:
        index = self._new_vectors(embedder)
        load = partial(load_vectors, index=index, later=self._check_later)
        found = self._loaded_file(vectors_suffix(embedder), load)
        if found is None:
            return self._filled(index)
        changes = self._store.feed.changes(found[1])
        rows = {r for c in changes.items for r in range(c.first, c.last + 1)}
        if index.unfinished:
            self._saved_seq = None  # to be saved again, with the codes that are made now
        if not changes.complete or len(rows) > max(REBUILD_ROWS, len(index) // 5):
            index.close()
            return self._filled(self._new_vectors(embedder))
        if rows:
            self._refresh(index, sorted(rows))
        return index

    def _loaded_file(
        self, suffix: str, load: Callable[[Path, str], Index]
    ) -> tuple[Index, int] | None:
        """The index of a saved file and the write it knows of; None where it must be built."""
        path = self._beside(suffix)
        file = None if path is None else self._store.feed.index_file(path.name)
        if path is None or file is None:
            return None
        try:
            return load(path, file.sha256), file.seq
        except (OSError, StoreCorrupt) as error:
            _report(error)
            return None

    def _check_later(self, saved: Saved) -> None:
        self._unchecked.put(saved)
        self.checks.wake()

    def _check_next(self) -> bool:
        """Test a file that is in use already; a damaged one is replaced before the next search."""
        self._stop.wait(CHECKED_AFTER_SECONDS)
        try:
            self._unchecked.get_nowait().check(self._stop.is_set)
        except Empty:
            return False
        except StoreCorrupt as error:
            _report(error)
            self._damaged = True
        return True

    def _beside(self, suffix: str) -> Path | None:
        return None if self._path is None else self._path.with_name(self._path.name + suffix)

    def state(self) -> IndexState:
        """How many rows there are, as of which write, and what the saved copy knows of."""
        self.catch_up()
        path = self._beside(WORDS)
        file = None if path is None else self._store.feed.index_file(path.name)
        return IndexState(
            rows=len(self.words), seq=self.seq, saved_seq=None if file is None else file.seq
        )

    def _worth_saving(self) -> bool:
        """Whether so much changed that the next open would rather load than catch up."""
        if not self._loaded or not self.seq:
            return False
        if self._saved_seq is None:
            return True
        changes = self._store.feed.changes(self._saved_seq)
        rows = sum(change.last - change.first + 1 for change in changes.items)
        return not changes.complete or rows > max(FEW_ROWS, len(self.words) // 20)

    def save(self, embedder: EmbedderId | None = None, *, if_worth: bool = False) -> None:
        """Write both indexes beside the store, so that the next open need not build them."""
        self._require_own()
        if self._path is None or (if_worth and not self._worth_saving()):
            return
        with self._lock:
            self.catch_up()
            if embedder is not None:
                self.vectors(embedder)
            if self._saved_seq == self.seq or not self.seq:
                return  # nothing to save; where nothing was written there may be no store yet
            self._keep(WORDS, partial(save_postings, self.words))
            for space, index in self._vectors.items():
                self._keep(vectors_suffix(space), partial(save_vectors, index), str(space))
            self._saved_seq = self.seq

    def _keep(self, suffix: str, write: Callable[[Path], str], embedder: str = "") -> None:
        path = self._beside(suffix)
        if path is None:
            return
        file = IndexFile(name=path.name, sha256=write(path), seq=self.seq, embedder=embedder)
        noted = False
        try:
            noted = self._store.feed.keep_index_file(file)
        finally:
            if not noted:  # something was erased meanwhile, or the store could not be written
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Let go of everything erased, in memory too."""
        self._require_own()
        with self._lock:
            self.catch_up()
            self.words.snapshot()
            for index in self._vectors.values():
                index.snapshot()
            self._saved_seq = None
        if "_of_cold" in self.__dict__:
            self._of_cold.forget()

    def close(self) -> None:
        """End what runs beside the searches."""
        self._require_own()
        self._stop.set()
        self.intake.close()
        self.checks.close()
        with self._lock:
            self.words.close()
            for index in self._vectors.values():
                index.close()
        self._expected = _nobody
        if "_of_cold" in self.__dict__:
            self._of_cold.close()

    # -- what may be seen ---------------------------------------------------------------

    def _row_scope(self, selection: Selection, *, unfiltered: bool = False) -> RowScope:
        """The selection as the indexes understand it; the rest of it becomes a list of rows."""
        owners = self._visible_owners(selection.reader)
        if unfiltered:
            return RowScope(owners=owners)
        listed = (
            selection.where != ALWAYS
            or selection.source_url is not None
            or selection.session is not None
            or selection.as_of is not None
            or selection.superseded
            or selection.forgotten
            or selection.visibilities != ALL_VISIBILITIES
        )
        return RowScope(
            owners=owners,
            rows=self._store.select_rows(selection) if listed else None,
            kinds=None
            if selection.kinds is None
            else frozenset(name_id(kind) for kind in selection.kinds),
            created_from_us=_microseconds(selection.since),
            created_before_us=_microseconds(selection.until),
            without_flags=0 if listed else SUPERSEDED | FORGOTTEN,
        )

    def _visible_owners(self, reader: Scope) -> frozenset[int]:
        """The owners as of the write that the index knows of; who came since has no row in it."""
        seq = self.seq
        kept = self._owners.get(reader)
        if kept is not None and kept[0] == seq:
            return kept[1]
        owners = frozenset(self._store.visible_owners(reader).tolist())
        self._owners[reader] = (seq, owners)
        if len(self._owners) > _KEPT_OWNERS:
            self._owners.popitem(last=False)
        return owners


def _microseconds(moment: datetime | None) -> int | None:
    return None if moment is None else to_microseconds(moment)


def _report(error: Exception) -> None:
    _log.warning("An index file cannot be used and is built anew: %s", error)


def _nobody() -> None:
    """The embedder of an index that expects no rows."""


def vectors_suffix(embedder: EmbedderId) -> str:
    """What the file of this embedder's vectors ends with."""
    digest = hashlib.blake2b(str(embedder).encode("utf-8"), digest_size=6).hexdigest()
    return f".vectors-{digest}"
