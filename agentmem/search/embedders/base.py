"""Text to vectors: one file per implementation, chosen by name with `load_embedder`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_text
from agentmem.base.errors import (
    EmbedderFailed,
    EmbedderUnavailable,
    InvalidInput,
    MissingExtra,
)
from agentmem.base.protocols import Embedder, EmbedderId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DEFAULT = "pair"
NAMES = (
    "pair", "minilm", "use", "wordllama", "pair:FILE", "minilm:FOLDER", "litellm:MODEL",
    "fastembed:MODEL", "sentence-transformers:MODEL", "hash", "none",
)  # fmt: skip


def load_embedder(name: str = DEFAULT) -> Embedder | None:
    """The embedder called `name`; None for "none", which leaves search to words.

    Nothing is loaded before the first text is embedded, so a missing package
    or file shows then, as EmbedderUnavailable or MissingExtra.
    """
    require_text(name, "embedder")
    kind, colon, detail = name.partition(":")
    if not colon:
        if kind == "pair":
            from agentmem.search.embedders.pair import PairEmbedder

            return PairEmbedder()
        if kind == "use":
            from agentmem.search.embedders.use import UseEmbedder

            return UseEmbedder()
        if kind == "wordllama":
            from agentmem.search.embedders.wordllama import WordLlamaEmbedder

            return WordLlamaEmbedder()
        if kind == "minilm":
            from agentmem.search.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder()
        if kind == "hash":
            from agentmem.testing import HashEmbedder

            return HashEmbedder()
        if kind == "none":
            return None
    elif detail:
        if kind == "pair":
            from agentmem.search.embedders.pair import PairEmbedder

            return PairEmbedder(detail)
        if kind == "minilm":
            from agentmem.search.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder(detail)
        if kind == "litellm":
            from agentmem.search.embedders.litellm import LiteLLMEmbedder

            return LiteLLMEmbedder(detail)
        if kind == "fastembed":
            from agentmem.search.embedders.fastembed import FastEmbedEmbedder

            return FastEmbedEmbedder(detail)
        if kind == "sentence-transformers":
            from agentmem.search.embedders.sentence_transformers import SentenceTransformersEmbedder

            return SentenceTransformersEmbedder(detail)
    raise InvalidInput(
        "embedder", name, "is not a known embedder", remedy=f"Use one of: {', '.join(NAMES)}."
    )


# ----------------------------------------------------------------------------
# What every embedder does with its texts before and its numbers after.


def check_texts(texts: Sequence[str], *, max_characters: int) -> list[str]:
    """The texts as a list, each cut to what the model would read; not-texts are refused."""
    if isinstance(texts, str):
        texts = [texts]
    return [require_text(text, "text")[:max_characters].replace("\x00", " ") for text in texts]


def to_unit(rows: Any, *, embedder: str, count: int) -> NDArray[np.float32]:
    """`rows` as float32 rows of unit length, `count` of them.

    A text the model knows nothing of gives zeros; it gets the first axis, a
    unit vector like any other, so that no cosine is ever NaN.
    """
    import numpy as np

    try:
        vectors = np.array(rows, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderFailed(f"{embedder} returned rows of different sizes.") from error
    if vectors.ndim != 2 or len(vectors) != count or vectors.shape[1] == 0:
        raise EmbedderFailed(
            f"{embedder} returned an array of shape {vectors.shape} for {count} texts."
        )
    if not np.isfinite(vectors).all():
        raise EmbedderFailed(f"{embedder} returned NaN or infinity.")
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    empty = lengths[:, 0] < 1e-12
    vectors[empty] = 0.0
    vectors[empty, 0] = 1.0
    lengths[empty] = 1.0
    return np.asarray(vectors / lengths, dtype=np.float32)


class PackageEmbedder:
    """Vectors of a model that another package loads by its name, once it is needed."""

    PACKAGE: str
    MAX_CHARACTERS = 16_000

    def __init__(self, model: str) -> None:
        self._model_name = require_text(model, "model")
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._dimensions = 0

    def _open(self, model: str) -> Any:
        """The model; MissingExtra where the package is not installed."""
        raise NotImplementedError

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """A row for each text."""
        raise NotImplementedError

    @property
    def id(self) -> EmbedderId:
        self._load()
        return EmbedderId(
            name=f"{self.PACKAGE}:{self._model_name}", version="1", dimensions=self._dimensions
        )

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return self._embed(check_texts(texts, max_characters=self.MAX_CHARACTERS), query=False)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        texts = check_texts([text], max_characters=self.MAX_CHARACTERS)
        vector: NDArray[np.float32] = self._embed(texts, query=True)[0]
        return vector

    def _embed(self, texts: list[str], *, query: bool) -> NDArray[np.float32]:
        import numpy as np

        model = self._load()
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        try:
            rows = list(self._encode(model, texts, query=query))
        except Exception as error:  # models raise what their backends raise
            raise EmbedderFailed(f"{self._model_name} failed: {error}.") from error
        return to_unit(rows, embedder=self._model_name, count=len(texts))

    def _load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                try:
                    model = self._open(self._model_name)
                    rows = list(self._encode(model, ["dimensions"], query=False))
                    probe = to_unit(rows, embedder=self._model_name, count=1)
                except MissingExtra:
                    raise
                except Exception as error:  # unknown model, no network, no disk
                    raise EmbedderUnavailable(
                        f"{self.PACKAGE} cannot load {self._model_name!a}: {error}.",
                        remedy="Check the model's name, and that it can be downloaded once.",
                    ) from error
                self._loaded, self._dimensions = model, probe.shape[1]
            return self._loaded


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file as hex."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(
            f"Cannot read {path.name}: {error.strerror}.", remedy="Reinstall its package."
        ) from error


def package_folder(package: str) -> Path | None:
    """Where an installed package's files are, without running any of its code."""
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None
