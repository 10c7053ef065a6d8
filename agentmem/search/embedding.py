"""Which embedder answers questions, and the vectors that are still to be made (P29).

A store may hold vectors of several embedders, never compared with each other.
The one that is wanted answers as soon as every memory has its vector; until
then an older one that can still be loaded goes on answering. Without any, or
when one fails, words alone are searched and the result says so.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from agentmem.base.errors import BadVector, EmbedderError, EmbedderFailed
from agentmem.base.guards import Ahead
from agentmem.base.protocols import Embedder, EmbedderId
from agentmem.base.types import Memory
from agentmem.data import read_lists
from agentmem.search.intake import Packed, text_to_embed
from agentmem.search.rank import fitted_models, measure_background
from agentmem.stores.base import Store
from agentmem.stores.values import pack_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = Sequence[Sequence[float]] | NDArray[np.floating]

_log = logging.getLogger(__name__)

BATCH = 64
ABOUT_ONE = 1e-3
KEPT_QUERIES = 256
_ahead = Ahead()

Progress = Callable[[int, int], None]
"""Called with how many vectors were made and how many there were to make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingState:
    """What `stats` and `doctor` show: who answers, who is wanted, and what is missing."""

    serving: str | None
    wanted: str | None
    ready: bool
    error: str = ""


class Embedding:
    """The embedders of one store."""

    def __init__(
        self,
        store: Store,
        wanted: Embedder | None,
        *,
        load: Callable[[str], Embedder | None] | None = None,
        background: bool = False,
    ) -> None:
        self._store = store
        self.wanted = wanted
        self._load = load
        self._background = background
        self._lock = threading.RLock()
        self._serving: Embedder | None = None
        self._complete = False
        self._chosen_at: int | None = None
        self._queries: OrderedDict[tuple[EmbedderId, str], NDArray[np.float32]] = OrderedDict()
        self._coming: dict[tuple[EmbedderId, str], Callable[[], NDArray[np.float32]]] = {}
        self._backgrounds: dict[EmbedderId, tuple[float, float]] = {}
        self._worker: threading.Thread | None = None
        self._filling = threading.Lock()
        self._filled = 0
        self._stop = threading.Event()
        self._refused: set[int] = set()
        self._trouble = self._unembedded = self._warned = ""

    @property
    def error(self) -> str:
        """Why there are no vectors, be it of questions or of documents; empty when all is well."""
        return self._trouble or self._unembedded

    @property
    def unembedded(self) -> str:
        """Why documents have no vector of the embedder that answers; empty when they have.

        That questions can be embedded does not end it: only a document that is
        embedded does, or that none is left to embed.
        """
        return self._unembedded if self._serving is self.wanted else ""

    @property
    def serving(self) -> Embedder | None:
        """Who answers questions now."""
        if self._complete:
            return self._serving
        with self._lock:
            version = self._store.feed.data_version()
            if not self._complete and version != self._chosen_at:
                self._serving, self._chosen_at = self._choose(), version
                if self._background and not self._complete and not self._trouble:
                    self.fill_gaps_in_background()
            return self._serving

    @property
    def serving_id(self) -> EmbedderId | None:
        return self._id_of(self.serving)

    @property
    def background(self) -> tuple[float, float] | None:
        """Mean and spread of the served embedder's cosines between unrelated texts."""
        embedder = self.serving
        if embedder is None or embedder.id.name in fitted_models():
            return None
        with self._lock:
            if embedder.id not in self._backgrounds:
                try:
                    vectors = ask_documents(embedder, _probes())
                except EmbedderError as error:
                    self._note(error)
                    return None
                self._backgrounds[embedder.id] = measure_background(vectors)
            return self._backgrounds[embedder.id]

    @property
    def state(self) -> EmbeddingState:
        serving = self.serving_id
        wanted = self._id_of(self.wanted)
        return EmbeddingState(
            serving=None if serving is None else str(serving),
            wanted=None if wanted is None else str(wanted),
            ready=serving is not None and serving == wanted and not self.error,
            error=self.error,
        )

    def _id_of(self, embedder: Embedder | None) -> EmbedderId | None:
        """Its id; asking may load weights, which may fail."""
        if embedder is None:
            return None
        try:
            return embedder.id
        except EmbedderError as error:
            self._note(error)
            return None

    def _choose(self) -> Embedder | None:
        wanted = self._id_of(self.wanted)
        if wanted is None:
            return None
        if not self._missing(wanted, limit=1):
            self._complete, self._unembedded = True, ""
            return self.wanted
        known = [one for one in self._store.feed.embedders() if one != wanted]
        if self._serving is not None and self._serving.id in known:
            return self._serving
        for older in reversed(known):
            found = self._load_older(older)
            if found is not None and self._covers_more(older, wanted):
                return found
        return self.wanted

    def _missing(self, embedder: EmbedderId, *, limit: int) -> list[int]:
        """Rows without a vector, but for those whose text was refused."""
        known = self._store.feed.missing_vectors(embedder, limit=limit + len(self._refused))
        return [row for row in known if row not in self._refused][:limit]

    def _covers_more(self, one: EmbedderId, other: EmbedderId) -> bool:
        coverage = {c.embedder: c.vectors for c in self._store.upkeep.stats().embedders}
        return coverage.get(one, 0) > coverage.get(other, 0)

    def _load_older(self, wanted: EmbedderId) -> Embedder | None:
        if self._load is None:
            return None
        try:
            found = self._load(wanted.name)
            return found if found is not None and found.id == wanted else None
        except (EmbedderError, ImportError, ValueError) as error:
            _log.info("The older embedder %s cannot be loaded: %s", wanted, error)
            return None

    # -- making vectors ----------------------------------------------------------------

    def embed(self, memories: Sequence[Memory]) -> list[Packed]:
        """The vectors of new memories, packed; empty for those that could not be made.

        While an older embedder still answers, new memories get its vectors too.
        More than an embedder's `at_once` are left for the background (`embed_rest`).
        """
        made: list[Packed] = [()] * len(memories)
        if self._background and len(memories) > getattr(self.wanted, "at_once", len(memories)):
            self.look_for_gaps()
            return made
        texts = [text_to_embed(memory) for memory in memories]
        serving = self.serving
        for embedder in {id(e): e for e in (self.wanted, serving) if e is not None}.values():
            try:
                vectors = ask_documents(embedder, texts)
            except EmbedderError as error:
                self._note_unembedded(error)
                self._complete, self._chosen_at = False, None
                continue
            self._recover()
            space = embedder.id
            packed = pack_vectors(space, vectors)
            made = [(*one, (space, data)) for one, data in zip(made, packed, strict=True)]
        return made

    def embed_rest(self) -> str:
        """Begin with the vectors that `embed` left; why there are none when that is not the case.

        To be called when the memories are written.
        """
        if self._background and not self.error:
            self.fill_gaps_in_background()
        return self.error

    def given(self, vectors: Vectors) -> list[Packed]:
        """Vectors that a caller made with the wanted embedder, checked and packed."""
        wanted = self._id_of(self.wanted)
        if wanted is None:
            raise BadVector(
                "There is no embedder whose vectors these could be.",
                remedy="Open the memory with the embedder that made them.",
            )
        return [((wanted, data),) for data in pack_vectors(wanted, vectors)]

    def query(self, text: str) -> tuple[EmbedderId, NDArray[np.float32]] | None:
        """The question's vector in the space that is served; None when there is none to be had."""
        embedder = self.serving
        if embedder is None:
            return None
        key = (embedder.id, text)
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
                return embedder.id, self._queries[key]
            made = self._coming.pop(key, None)
        try:
            vector = ask_query(embedder, text) if made is None else made()
        except EmbedderError as error:
            self._warn(error)
            raise
        self._warned = ""
        if self.error and embedder is self.wanted:  # it works again, perhaps for documents too
            self._trouble = ""
            self.look_for_gaps()
        with self._lock:
            self._queries[key] = vector
            if len(self._queries) > KEPT_QUERIES:
                self._queries.popitem(last=False)
        return embedder.id, vector

    def expect(self, text: str) -> None:
        """Begin with what `query` will be asked, beside the caller; where it can be begun at once
        and what was expected last was asked too."""
        if not self._complete or self._serving is None:
            return
        embedder = self._serving
        key = (embedder.id, text)
        with self._lock:
            if key in self._queries:
                return
            unasked, self._coming = bool(self._coming), {}
            begun = None if unasked else _ahead.begin(partial(ask_query, embedder, text))
            if begun is not None:
                self._coming[key] = begun

    def reading(self, text: str) -> NDArray[np.float32] | None:
        """What the embedder's models say of a question before that is made one vector; the vector
        where there is one model, None when there is none to be had."""
        read: Callable[[str], NDArray[np.float32]] | None = getattr(self.serving, "reading", None)
        try:
            if read is not None:
                return read(text)
            found = self.query(text)
        except EmbedderError as error:
            self._warn(error)
            return None
        return None if found is None else found[1]

    def sentence_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """MiniLM's vectors for models that were fitted on them; None where it is no part of the
        embedder."""
        embedder = getattr(self.wanted, "minilm", self.wanted)
        return None if _name(embedder) != "minilm" else _vectors_of(embedder, texts)

    def multilingual_vectors(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """The multilingual encoder's, where it is part of the embedder or stands beside MiniLM."""
        beside = _beside_minilm() if _name(self.wanted) == "minilm" else None
        return _vectors_of(getattr(self.wanted, "use", beside), texts)

    def look_for_gaps(self) -> None:
        """See at the next question whether vectors are missing, such as those of rows that
        another process added without an embedder."""
        if self._background:
            with self._lock:
                self._complete, self._chosen_at = False, None

    def fill_gaps(self, *, progress: Progress | None = None, batch: int = BATCH) -> int:
        """Make every vector of the wanted embedder that is missing; gives how many were made.

        Each batch is stored when it is done, so an interrupted run goes on
        where it stopped. A text that the embedder refuses does not keep the
        others from theirs, and is not tried again while this memory is open.
        """
        import numpy as np

        wanted = self.wanted
        if wanted is None:
            return 0
        feed = self._store.feed
        total = len(feed.missing_vectors(wanted.id, limit=2**31)) if progress else 0
        made, before, in_vain = 0, self._filled, frozenset[int]()
        while not self._stop.is_set():
            with self._filling:  # a run beside this one takes the batch after it
                seq = feed.seq()
                memories = feed.texts(self._missing(wanted.id, limit=batch))
                texts = {row: text_to_embed(memory) for row, memory in memories.items()}
                if not texts:
                    self._unembedded = ""
                    break
                vectors = self._ask_for_rows(wanted, texts)
                if not vectors:
                    continue
                given, found = list(vectors), list(vectors.values())
                stored = feed.put_vectors(wanted.id, given, np.array(found), seq=seq)
                self._filled += stored
            if not stored and in_vain == frozenset(given):
                break
            # Another process may have stored them first.
            in_vain = frozenset() if stored else frozenset(given)
            made += stored
            self._recover()
            if progress:
                progress(self._filled - before, total)
        return made

    def _ask_for_rows(
        self, embedder: Embedder, texts: Mapping[int, str]
    ) -> dict[int, NDArray[np.float32]]:
        """The vectors of texts by row, without those that are refused one by one."""
        try:
            return dict(zip(texts, ask_documents(embedder, list(texts.values())), strict=True))
        except EmbedderError as error:
            if len(texts) == 1 and not _works(embedder):
                raise
            self._note_unembedded(error)
        if len(texts) == 1:
            self._refused |= texts.keys()
            return {}
        given, half = list(texts.items()), len(texts) // 2
        parts = (self._ask_for_rows(embedder, dict(p)) for p in (given[:half], given[half:]))
        return {row: vector for part in parts for row, vector in part.items()}

    def fill_gaps_in_background(self) -> None:
        """Start filling gaps on a thread of its own unless one is at it."""
        with self._lock:
            if self.wanted is None or (self._worker is not None and self._worker.is_alive()):
                return
            self._worker = threading.Thread(
                target=self._fill_quietly, name="agentmem-embed", daemon=True
            )
            self._worker.start()

    def _fill_quietly(self) -> None:
        try:
            self.fill_gaps()
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to
            self._note_unembedded(error)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the background run; whether it has ended."""
        worker = self._worker
        if worker is None:
            return True
        worker.join(timeout_seconds)
        return not worker.is_alive()

    def forget(self) -> None:
        """Drop the questions that were kept: they may quote what was erased."""
        with self._lock:
            self._queries.clear()
            self._coming.clear()

    def close(self) -> None:
        self._stop.set()
        self.wait(30)

    def _warn(self, error: Exception) -> None:
        if str(error) not in (self._trouble, self._unembedded, self._warned):
            _log.warning("Vectors cannot be had, words alone are searched: %s", error)
        self._warned = str(error)

    def _note(self, error: Exception) -> None:
        self._warn(error)
        self._trouble = str(error)

    def _note_unembedded(self, error: Exception) -> None:
        self._note(error)
        self._unembedded = str(error)

    def _recover(self) -> None:
        self._trouble = self._unembedded = self._warned = ""


def _name(embedder: Embedder | None) -> str:
    return "" if embedder is None else embedder.id.name


@lru_cache(maxsize=1)
def _beside_minilm() -> Embedder:
    from agentmem.search.embedders.use import UseEmbedder

    return UseEmbedder()


def _vectors_of(embedder: Embedder | None, texts: Sequence[str]) -> NDArray[np.float32] | None:
    """What a part of an embedder says; None where there is none or it fails."""
    import numpy as np

    try:
        if embedder is None or not texts:
            return None if embedder is None else np.zeros((0, embedder.id.dimensions), np.float32)
        return ask_documents(embedder, texts)
    except EmbedderError:
        return None


def _works(embedder: Embedder) -> bool:
    """Whether it answers at all: then it is the text that it does not take."""
    try:
        ask_documents(embedder, _probes()[:1])
    except EmbedderError:
        return False
    return True


def ask_documents(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of `texts`, checked; whatever goes wrong is an `EmbedderError`."""
    return _checked(embedder, lambda: embedder.embed_documents(texts), len(texts))


def ask_query(embedder: Embedder, text: str) -> NDArray[np.float32]:
    """The vector of a question, checked as those of documents are."""
    return _checked(embedder, lambda: embedder.embed_query(text))


def _checked(
    embedder: Embedder, ask: Callable[[], NDArray[np.float32]], *count: int
) -> NDArray[np.float32]:
    import numpy as np

    try:
        vectors = np.asarray(ask(), dtype=np.float32)
    except EmbedderError:
        raise
    except Exception as error:
        raise EmbedderFailed(f"The embedder failed: {error}") from error
    if vectors.shape != (*count, embedder.id.dimensions) or not np.isfinite(vectors).all():
        raise EmbedderFailed(
            f"The embedder {embedder.id} gave vectors of shape {vectors.shape}, or not numbers."
        )
    return unit(vectors)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """`vectors` brought to the length 1 that scores are made for; most have it, and one of
    zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(vectors.astype(np.float64), axis=-1, keepdims=True)
    if (np.abs(lengths - 1) <= ABOUT_ONE).all():
        return vectors
    made: NDArray[np.float32] = (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)
    return made


def _probes() -> list[str]:
    """Short texts about unrelated things: what an embedder says of them is its background.

    Scores must not depend on what other people stored, so the scale of an
    embedder's cosines is measured on these and not on a store's own vectors.
    """
    return read_lists("probes.txt")["texts"]
