"""Models that sentence-transformers can load (extra `sentence-transformers`)."""

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


MAX_CHARACTERS = 16_000


class SentenceTransformersEmbedder:
    """Vectors from `sentence_transformers.SentenceTransformer(model)`."""

    def __init__(self, model: str) -> None:
        self._model_name = require_text(model, "model")
        self._lock = threading.Lock()
        self._loaded: Any = None
        self._dimensions = 0

    @property
    def id(self) -> EmbedderId:
        self._load()
        return EmbedderId(
            name=f"sentence-transformers:{self._model_name}",
            version="1",
            dimensions=self._dimensions,
        )

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return self._embed(check_texts(texts, max_characters=MAX_CHARACTERS))

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        return vector

    def _embed(self, texts: list[str]) -> NDArray[np.float32]:
        import numpy as np

        model = self._load()
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        try:
            rows = list(model.encode(texts, show_progress_bar=False))
        except Exception as error:  # models raise what their backends raise
            raise EmbedderFailed(f"{self._model_name} failed: {error}.") from error
        return to_unit(rows, embedder=self._model_name, count=len(texts))

    def _load(self) -> Any:
        with self._lock:
            if self._loaded is None:
                try:
                    import sentence_transformers
                except ImportError as error:
                    raise MissingExtra(
                        "sentence-transformers",
                        extra="sentence-transformers",
                        purpose="This embedder",
                    ) from error
                try:
                    model = sentence_transformers.SentenceTransformer(self._model_name)
                    probe = to_unit(
                        list(model.encode(["dimensions"], show_progress_bar=False)),
                        embedder=self._model_name,
                        count=1,
                    )
                except Exception as error:  # unknown model, no network, no disk
                    raise EmbedderUnavailable(
                        f"sentence-transformers cannot load {self._model_name!a}: {error}.",
                        remedy="Check the model's name, and that it can be downloaded once.",
                    ) from error
                self._loaded, self._dimensions = model, probe.shape[1]
            return self._loaded
