"""The default: a static model that comes with its package and answers in microseconds.

The package's own loader sets up logging for the whole process and can reach
for the network, so its two files are read directly: token vectors and the
tokenizer. A text's vector is the mean of its tokens' vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentmem.core.lexical import STOP_WORDS
from agentmem.embedders.vectors import check_texts, file_sha256, package_folder, to_unit
from agentmem.errors import EmbedderUnavailable
from agentmem.protocols import EmbedderId

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_CHARACTERS = 16_000
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_BATCH = 256


class WordLlamaEmbedder:
    """256-dimensional static vectors, offline, about 0.1 ms a text.

    Questions are embedded by their content words: with every word counting
    the same, stop words would be half of the mean.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[EmbedderId, Any, NDArray[np.float32]] | None = None

    @property
    def id(self) -> EmbedderId:
        return self._load()[0]

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        texts = check_texts(texts, max_characters=MAX_CHARACTERS)
        _, tokenizer, table = self._load()
        rows = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            encoded = tokenizer.encode_batch_fast(
                texts[start : start + _BATCH], add_special_tokens=False
            )
            for row, tokens in enumerate(encoded, start):
                if tokens.ids:
                    rows[row] = table[np.minimum(tokens.ids, len(table) - 1)].mean(axis=0)
        return to_unit(rows, embedder="wordllama", count=len(texts))

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        (text,) = check_texts([text], max_characters=MAX_CHARACTERS)
        content = [w for w in text.split() if w.strip("?!.,;:\"'()").lower() not in STOP_WORDS]
        vector: NDArray[np.float32] = self.embed_documents([" ".join(content) or text])[0]
        return vector

    def _load(self) -> tuple[EmbedderId, Any, NDArray[np.float32]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = _read_files()
            return self._loaded


def _read_files() -> tuple[EmbedderId, Any, NDArray[np.float32]]:
    import numpy as np

    folder = package_folder("wordllama")
    if folder is None or not (folder / _WEIGHTS).is_file() or not (folder / _TOKENIZER).is_file():
        raise EmbedderUnavailable(
            "The package wordllama with its 256-dimensional weights is not installed.",
            remedy="Install it with: pip install 'wordllama>=0.3'",
        )
    version = file_sha256(folder / _WEIGHTS)[:12]
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        (table,) = load_file(folder / _WEIGHTS).values()
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        tokenizer.no_padding()
        tokenizer.no_truncation()
    except Exception as error:  # both libraries raise bare exceptions of their own
        raise EmbedderUnavailable(
            f"The files of wordllama cannot be read: {error}.", remedy="Reinstall wordllama."
        ) from error
    table = np.ascontiguousarray(table, dtype=np.float32)
    identity = EmbedderId(name="wordllama", version=version, dimensions=table.shape[1])
    return identity, tokenizer, table
