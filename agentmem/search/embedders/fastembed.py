"""Models that fastembed can load (extra `fastembed`)."""

from __future__ import annotations

from typing import Any

from agentmem.base.errors import MissingExtra
from agentmem.search.embedders.base import PackageEmbedder


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
