"""Text to vectors: one file per implementation, chosen by name with `load_embedder`."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NamedTuple

from agentmem.base.checks import require_text
from agentmem.base.errors import EmbedderFailed, EmbedderUnavailable, InvalidInput
from agentmem.base.protocols import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DEFAULT = "pair"
NAMES = (
    "pair", "minilm", "use", "wordllama", "pair:FILE", "minilm:FOLDER", "litellm:MODEL",
    "fastembed:MODEL", "sentence-transformers:MODEL", "hash", "none",
)  # fmt: skip
_CLASSES = {
    "pair": "agentmem.search.embedders.pair:PairEmbedder",
    "minilm": "agentmem.search.embedders.minilm:MiniLMEmbedder",
    "use": "agentmem.search.embedders.use:UseEmbedder",
    "wordllama": "agentmem.search.embedders.wordllama:WordLlamaEmbedder",
    "litellm": "agentmem.search.embedders.packages:LiteLLMEmbedder",
    "fastembed": "agentmem.search.embedders.packages:FastEmbedEmbedder",
    "sentence-transformers": "agentmem.search.embedders.packages:SentenceTransformersEmbedder",
    "hash": "agentmem.testing:HashEmbedder",
}


def load_embedder(name: str = DEFAULT) -> Embedder | None:
    """The embedder called `name`; None for "none", which leaves search to words.

    Nothing is loaded before the first text is embedded, so a missing package
    or file shows then, as EmbedderUnavailable or MissingExtra.
    """
    require_text(name, "embedder")
    if name == "none":
        return None
    kind, colon, detail = name.partition(":")
    if name in NAMES or (detail and any(one.startswith(kind + colon) for one in NAMES)):
        made: Callable[..., Embedder] = resolve_name(_CLASSES[kind])
        return made(detail) if detail else made()
    raise InvalidInput(
        "embedder", name, "is not a known embedder", remedy=f"Use one of: {', '.join(NAMES)}."
    )


# ----------------------------------------------------------------------------
# What every embedder does with its texts before and its numbers after.


class OneSided(ABC):
    """An embedder that reads a question as it reads anything else."""

    @abstractmethod
    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """A vector for each text."""

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        return vector


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


class Field(NamedTuple):
    """One field of a protobuf message: all its bytes, and those of its value."""

    number: int
    whole: memoryview
    value: memoryview


def read_fields(message: bytes | memoryview) -> Iterator[Field]:
    """The fields of a protobuf message in their order; a whole number's value is left empty."""
    message, at = memoryview(message), 0

    def number() -> int:
        nonlocal at
        found, shift = 0, 0
        while True:
            found |= (message[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 0x80:
                return found

    while at < len(message):
        begun, tag = at, number()
        if tag & 7 == 0:
            number()
            size = 0
        else:
            size = number() if tag & 7 == 2 else 4 if tag & 7 == 5 else 8
        at += size
        yield Field(tag >> 3, message[begun:at], message[at - size : at])
