"""Models that sentence-transformers can load (extra `sentence-transformers`)."""

from __future__ import annotations

from typing import Any

from agentmem.base.errors import MissingExtra
from agentmem.search.embedders.base import PackageEmbedder


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
