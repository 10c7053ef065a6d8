"""The default: MiniLM and the multilingual encoder together, fitted to what people ask.

MiniLM reads English better, the other one sixteen languages, and they are wrong about different
texts. What both say of a text is one row of 896 numbers; a projection of its own for questions
and one for what was told bring it to 384, so that "What car do I own?" lies near "I drive a
Tesla". `benchmarks/fit_pair.py` fitted them.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from functools import lru_cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from agentmem.base.blas import one_thread
from agentmem.base.errors import EmbedderUnavailable
from agentmem.base.guards import Ahead
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import Embedder, EmbedderId
from agentmem.data import read_bytes
from agentmem.search.embedders.base import to_unit
from agentmem.search.embedders.minilm import MiniLMEmbedder
from agentmem.search.embedders.use import UseEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DIMENSIONS = 384
WEIGHTS = "pair.npz"
SHARES = (0.6, 0.4)
"""How much each of the two counts before the projection."""
KEPT_READINGS = 256


class PairEmbedder:
    """384-dimensional vectors; a question's are made otherwise than those of what it is asked of.

    `path` names projections that you fitted yourself; the id carries their hash and both models'.
    """

    at_once = 128
    """So many texts are embedded while who adds them waits: about a second."""

    def __init__(self, path: str | Path | None = None) -> None:
        self.minilm, self.use = MiniLMEmbedder(), UseEmbedder()
        self._models: tuple[Embedder, ...] = (self.minilm, self.use)
        self.reading = lru_cache(KEPT_READINGS)(partial(_read_one, self._models))
        """The row of one question, before the projection: whose world it asks about is told from
        how it is put, which the projection drops."""
        self._loaded = Lazy(partial(_load, self._models, None if path is None else Path(path)))

    @property
    def id(self) -> EmbedderId:
        return self._loaded.value[1]

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        rows = self._projected(self.read(texts), "told")
        return to_unit(rows, embedder="pair", count=len(rows))

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        rows = self._projected(self.reading(text)[None], "asked")
        vector: NDArray[np.float32] = to_unit(rows, embedder="pair", count=1)[0]
        return vector

    def read(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What both models say of each text, side by side, as what is fitted on it expects it."""
        return _read(self._models, texts)

    def _projected(self, rows: NDArray[np.float32], side: str) -> NDArray[np.float32]:
        projection = self._loaded.value[0][side]
        with one_thread:
            projected: NDArray[np.float32] = rows @ projection
        return projected


def _load(
    models: Sequence[Embedder], path: Path | None
) -> tuple[dict[str, NDArray[np.float32]], EmbedderId]:
    """From what both models say to one space, of a question and of what was told; the id."""
    found, digest = _ours() if path is None else _from_file(path)
    versions = [*(model.id.version for model in models), digest]
    version = "-".join(version[:8] for version in versions)
    return found, EmbedderId(name="pair", version=version, dimensions=DIMENSIONS)


def _read(models: Sequence[Embedder], texts: Sequence[str]) -> NDArray[np.float32]:
    return _beside_each_other([model.embed_documents(texts) for model in models])


def _read_one(models: Sequence[Embedder], text: str) -> NDArray[np.float32]:
    """Somebody waits for a question: its two models read it at once where there are two cores."""
    first, second = models
    begun = _at_once.start(partial(first.embed_documents, [text]))
    also = second.embed_documents([text])
    row: NDArray[np.float32] = _beside_each_other([begun(), also])[0]
    return row


_at_once = Ahead()


def _beside_each_other(said: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    import numpy as np

    scaled = [rows * np.float32(share**0.5) for rows, share in zip(said, SHARES, strict=True)]
    return np.hstack(scaled)


@lru_cache(maxsize=1)  # every memory of a process projects by the same three megabytes
def _ours() -> tuple[dict[str, NDArray[np.float32]], str]:
    data = read_bytes(WEIGHTS)
    return _unpack(data, name=WEIGHTS), hashlib.sha256(data).hexdigest()


def _from_file(path: Path) -> tuple[dict[str, NDArray[np.float32]], str]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EmbedderUnavailable(
            f"Cannot read the projections {str(path)!a}: {error.strerror}.",
            remedy="Name a file that benchmarks/fit_pair.py wrote, or use embedder='pair'.",
        ) from error
    return _unpack(data, name=path.name), hashlib.sha256(data).hexdigest()


def _unpack(data: bytes, *, name: str) -> dict[str, NDArray[np.float32]]:
    import numpy as np

    try:
        with np.load(BytesIO(data)) as stored:
            found = {
                side: stored[side] * stored[f"{side}_scale"].astype(np.float32)
                for side in ("asked", "told")
            }
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise EmbedderUnavailable(
            f"{name} does not hold projections of this embedder.",
            remedy="Name a file that benchmarks/fit_pair.py wrote, or use embedder='pair'.",
        ) from error
    wanted = (896, DIMENSIONS)
    if any(value.shape != wanted for value in found.values()):
        raise EmbedderUnavailable(f"{name} holds projections of another shape than {wanted}.")
    return found
