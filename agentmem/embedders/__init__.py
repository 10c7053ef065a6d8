"""Text to vectors: one file per implementation, chosen by name with `load_embedder`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from agentmem.core.checks import require_text
from agentmem.errors import InvalidInput
from agentmem.protocols import Embedder

if TYPE_CHECKING:
    from agentmem.embedders.fastembed import FastEmbedEmbedder
    from agentmem.embedders.litellm import LiteLLMEmbedder
    from agentmem.embedders.minilm import MiniLMEmbedder
    from agentmem.embedders.sentence_transformers import SentenceTransformersEmbedder
    from agentmem.embedders.wordllama import WordLlamaEmbedder

__all__ = [
    "FastEmbedEmbedder",
    "LiteLLMEmbedder",
    "MiniLMEmbedder",
    "SentenceTransformersEmbedder",
    "WordLlamaEmbedder",
    "load_embedder",
]

_WHERE = {
    "FastEmbedEmbedder": "agentmem.embedders.fastembed",
    "LiteLLMEmbedder": "agentmem.embedders.litellm",
    "MiniLMEmbedder": "agentmem.embedders.minilm",
    "SentenceTransformersEmbedder": "agentmem.embedders.sentence_transformers",
    "WordLlamaEmbedder": "agentmem.embedders.wordllama",
}
DEFAULT = "minilm"
NAMES = (
    "minilm", "wordllama", "minilm:FOLDER", "litellm:MODEL", "fastembed:MODEL",
    "sentence-transformers:MODEL", "hash", "none",
)  # fmt: skip


def load_embedder(name: str = DEFAULT) -> Embedder | None:
    """The embedder called `name`; None for "none", which leaves search to words.

    Nothing is loaded before the first text is embedded, so a missing package
    or file shows then, as EmbedderUnavailable or MissingExtra.
    """
    require_text(name, "embedder")
    kind, colon, detail = name.partition(":")
    if not colon:
        if kind == "wordllama":
            from agentmem.embedders.wordllama import WordLlamaEmbedder

            return WordLlamaEmbedder()
        if kind == "minilm":
            from agentmem.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder()
        if kind == "hash":
            from agentmem.testing import HashEmbedder

            return HashEmbedder()
        if kind == "none":
            return None
    elif detail:
        if kind == "minilm":
            from agentmem.embedders.minilm import MiniLMEmbedder

            return MiniLMEmbedder(detail)
        if kind == "litellm":
            from agentmem.embedders.litellm import LiteLLMEmbedder

            return LiteLLMEmbedder(detail)
        if kind == "fastembed":
            from agentmem.embedders.fastembed import FastEmbedEmbedder

            return FastEmbedEmbedder(detail)
        if kind == "sentence-transformers":
            from agentmem.embedders.sentence_transformers import SentenceTransformersEmbedder

            return SentenceTransformersEmbedder(detail)
    raise InvalidInput(
        "embedder", name, "is not a known embedder", remedy=f"Use one of: {', '.join(NAMES)}."
    )


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem.embedders' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
