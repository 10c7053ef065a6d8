"""The small interfaces the parts meet each other through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TokenCounter(Protocol):
    """How many tokens a text is for one model."""

    def __call__(self, text: str, /) -> int: ...


class Clock(Protocol):
    """What time it is, in UTC."""

    def now(self) -> datetime: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderId:
    """Which vector space: two embedders with equal ids give comparable vectors."""

    name: str
    version: str
    dimensions: int

    def __str__(self) -> str:
        return f"{self.name}@{self.version}/{self.dimensions}"


class Embedder(Protocol):
    """Text to unit vectors; safe to call from several threads."""

    @property
    def id(self) -> EmbedderId: ...

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One row of unit length a text, `(len(texts), dimensions)`."""
        ...

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        """One vector of unit length, `(dimensions,)`."""
        ...
