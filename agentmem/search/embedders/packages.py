"""Models that others run: fastembed, sentence-transformers, and any that litellm can reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import EmbedderFailed, EmbedderUnavailable, MissingExtra
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import OneSided, check_texts, to_unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_CHARACTERS = 16_000
BATCH = 64


class PackageEmbedder:
    """Vectors of a model that another package loads by its name, once it is needed."""

    PACKAGE: str

    def __init__(self, model: str) -> None:
        self._model_name = require_text(model, "model")
        self._loaded = Lazy(self._load)
        """The model, and how long its vectors are."""

    def _open(self, model: str) -> Any:
        """The model; ImportError where the package is not installed."""
        raise NotImplementedError

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        """A row for each text."""
        raise NotImplementedError

    @property
    def id(self) -> EmbedderId:
        name = f"{self.PACKAGE}:{self._model_name}"
        return EmbedderId(name=name, version="1", dimensions=self._loaded.value[1])

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return self._embed(texts, query=False)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._embed([text], query=True)[0]
        return vector

    def _embed(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        import numpy as np

        texts = check_texts(texts, max_characters=MAX_CHARACTERS)
        model, dimensions = self._loaded.value
        if not texts:
            return np.zeros((0, dimensions), dtype=np.float32)
        try:
            rows = list(self._encode(model, texts, query=query))
        except Exception as error:  # models raise what their backends raise
            raise EmbedderFailed(f"{self._model_name} failed: {error}.") from error
        return to_unit(rows, embedder=self._model_name, count=len(texts))

    def _load(self) -> tuple[Any, int]:
        try:
            model = self._open(self._model_name)
            rows = list(self._encode(model, ["dimensions"], query=False))
            return model, to_unit(rows, embedder=self._model_name, count=1).shape[1]
        except ImportError as error:
            raise MissingExtra(self.PACKAGE, extra=self.PACKAGE, purpose="This embedder") from error
        except Exception as error:  # unknown model, no network, no disk
            raise EmbedderUnavailable(
                f"{self.PACKAGE} cannot load {self._model_name!a}: {error}.",
                remedy="Check the model's name, and that it can be downloaded once.",
            ) from error


class FastEmbedEmbedder(PackageEmbedder):
    """Vectors from `fastembed.TextEmbedding(model)`; questions use the model's own query prompt."""

    PACKAGE = "fastembed"

    def _open(self, model: str) -> Any:
        import fastembed

        return fastembed.TextEmbedding(model)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        return model.query_embed(texts) if query else model.embed(texts)


class SentenceTransformersEmbedder(PackageEmbedder):
    """Vectors from `sentence_transformers.SentenceTransformer(model)`."""

    PACKAGE = "sentence-transformers"

    def _open(self, model: str) -> Any:
        import sentence_transformers

        return sentence_transformers.SentenceTransformer(model)

    def _encode(self, model: Any, texts: list[str], *, query: bool) -> Any:
        return model.encode(texts, show_progress_bar=False)


class LiteLLMEmbedder(OneSided):
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
        self._extra = {}
        if dimensions is not None:
            self._extra = {"dimensions": require_count(dimensions, "dimensions", least=1)}
        self._dimensions = dimensions
        self._embedding = embedding
        self._timeout_seconds = timeout_seconds

    @property
    def id(self) -> EmbedderId:
        if self._dimensions is None:
            self.embed_documents(["dimensions"])
        name, dimensions = f"litellm:{self._model}", self._dimensions or 0
        return EmbedderId(name=name, version="1", dimensions=dimensions)

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

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        ask = self._embedding
        if ask is None:
            from agentmem.tokens.litellm import import_litellm

            ask = self._embedding = import_litellm("A hosted embedder").embedding
        try:
            reply = ask(
                model=self._model, input=texts, timeout=self._timeout_seconds, **self._extra
            )
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
        if self._dimensions is None:
            self._dimensions = unit.shape[1]
        return unit


def _field(item: Any, name: str, default: Any) -> Any:
    return item.get(name, default) if isinstance(item, Mapping) else getattr(item, name, default)
