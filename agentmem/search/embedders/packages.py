"""Models that other packages load by name: fastembed, sentence-transformers (an extra each)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_text
from agentmem.base.errors import EmbedderFailed, EmbedderUnavailable, MissingExtra
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import check_texts, to_unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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


class FastEmbedEmbedder(PackageEmbedder):
    """Vectors from `fastembed.TextEmbedding(model)`; questions use the model's own query prompt."""

    PACKAGE = "fastembed"

    def _open(self, model: str) -> Any:
        try:
            import fastembed
        except ImportError as error:
            raise MissingExtra("fastembed", extra="fastembed", purpose="This embedder") from error
        return fastembed.TextEmbedding(model)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        return model.query_embed(texts) if query else model.embed(texts)


class SentenceTransformersEmbedder(PackageEmbedder):
    """Vectors from `sentence_transformers.SentenceTransformer(model)`."""

    PACKAGE = "sentence-transformers"

    def _open(self, model: str) -> Any:
        try:
            import sentence_transformers
        except ImportError as error:
            raise MissingExtra(
                "sentence-transformers", extra="sentence-transformers", purpose="This embedder"
            ) from error
        return sentence_transformers.SentenceTransformer(model)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        return model.encode(texts, show_progress_bar=False)
