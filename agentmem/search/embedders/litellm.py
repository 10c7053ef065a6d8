"""Any hosted embedding model that litellm can reach."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import EmbedderFailed
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import check_texts, to_unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_CHARACTERS = 16_000
BATCH = 64


class LiteLLMEmbedder:
    """Vectors from `litellm.embedding(model=…)`, asked in batches of 64 texts.

    How long a vector is shows only in an answer: unless `dimensions` is given,
    reading `id` embeds one word. `embedding` may be any callable of the same
    shape, for a client of your own.
    """

    def __init__(
        self,
        model: str,
        *,
        dimensions: int | None = None,
        embedding: Callable[..., Any] | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        self._model = require_text(model, "model")
        if dimensions is not None:
            require_count(dimensions, "dimensions", least=1)
        self._requested = dimensions
        self._dimensions = dimensions
        self._embedding = embedding
        self._timeout_seconds = timeout_seconds
        self._lock = threading.Lock()

    @property
    def id(self) -> EmbedderId:
        if self._dimensions is None:
            self.embed_documents(["dimensions"])
        return EmbedderId(
            name=f"litellm:{self._model}", version="1", dimensions=self._dimensions or 0
        )

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        # Hosted models refuse empty input; a space is the nearest thing to it.
        texts = [text or " " for text in check_texts(texts, max_characters=MAX_CHARACTERS)]
        batches = [self._ask(texts[start : start + BATCH]) for start in range(0, len(texts), BATCH)]
        if not batches:
            return np.zeros((0, self.id.dimensions), dtype=np.float32)
        if len({batch.shape[1] for batch in batches} | {self._dimensions}) > 1:
            raise EmbedderFailed(
                f"{self._model} returned vectors of another size than {self._dimensions}."
            )
        return np.concatenate(batches)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        return vector

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        ask = self._client()
        extra = {} if self._requested is None else {"dimensions": self._requested}
        try:
            reply = ask(model=self._model, input=texts, timeout=self._timeout_seconds, **extra)
            data = reply["data"] if isinstance(reply, Mapping) else reply.data
            rows = sorted(
                ((int(_field(item, "index", at)), _field(item, "embedding", None))
                 for at, item in enumerate(data)),
                key=lambda pair: pair[0],
            )  # fmt: skip
        except Exception as error:  # every provider has exceptions of its own
            raise EmbedderFailed(
                f"{self._model} did not embed {len(texts)} texts: "
                f"{type(error).__name__}: {str(error)[:200]}",
                remedy="Check the model's name, its key and the network.",
            ) from error
        unit = to_unit([row for _, row in rows], embedder=self._model, count=len(texts))
        with self._lock:
            if self._dimensions is None:
                self._dimensions = unit.shape[1]
        return unit

    def _client(self) -> Callable[..., Any]:
        with self._lock:
            if self._embedding is None:
                self._embedding = _import_embedding()
            return self._embedding


def _field(item: Any, name: str, default: Any) -> Any:
    return item.get(name, default) if isinstance(item, Mapping) else getattr(item, name, default)


def _import_embedding() -> Callable[..., Any]:
    from agentmem.tokens.litellm import import_litellm

    function: Callable[..., Any] = import_litellm("A hosted embedder").embedding
    return function
