"""A static model that comes with its package and answers in microseconds.

The package's own loader sets up logging for the whole process and can reach
for the network, so its two files are read directly: token vectors and the
tokenizer. A text's vector is the mean of its tokens' vectors. The first texts
are cut into tokens here, as the tokenizer's library takes long to load.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import EmbedderUnavailable
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import check_texts, package_folder, to_unit
from agentmem.text.terms import STOP_WORDS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# ----------------------------------------------------------------------------
# Byte-pair tokens of a short text, from a tokenizer's own file.
#
# The library that does this for many texts takes longer to load its tables than
# a short command takes for everything else; for one question they need not be
# built. The ids are the library's, or there are none and the library is asked.


MAX_CHARACTERS = 400
"""Each merge looks at every pair again, so a long text is for the library."""

KNOWN_SHA256 = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
"""The tokenizer's file whose texts are cut here as the library cuts them; another is left to it."""
_SPACE = "▁"
_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


class BytePairs:
    """The pieces a tokenizer knows, and which two become one before which others."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        merges = table["model"]["merges"]
        self._pieces: dict[str, int] = table["model"]["vocab"]
        self._rank = dict(zip(merges, range(len(merges)), strict=True))
        self._special = tuple(token["content"] for token in table["added_tokens"])

    def encode(self, text: str) -> list[int] | None:
        """The ids of the text's tokens; `None` if only the library can tell."""
        if len(text) > MAX_CHARACTERS or any(mark in text for mark in self._special):
            return None
        if not text:
            return []
        parts: list[str] = []
        for character in _SPACE + text.replace(" ", _SPACE):
            known = character in self._pieces
            parts += [character] if known else [_BYTES[byte] for byte in character.encode()]
        return [self._pieces[part] for part in self._merged(parts)]

    def _merged(self, parts: list[str]) -> list[str]:
        """Join the pair that ranks first, the leftmost of equals, until no two belong together."""
        never = len(self._rank)
        ranks = [self._rank.get(f"{one} {two}", never) for one, two in pairwise(parts)]
        while ranks and (best := min(ranks)) < never:
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            del ranks[at]
            for pair in (at - 1, at):
                if 0 <= pair < len(ranks):
                    ranks[pair] = self._rank.get(f"{parts[pair]} {parts[pair + 1]}", never)
        return parts


WORDLLAMA_MAX_CHARACTERS = 16_000
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_BATCH = 256
_FEW = 32
"""Up to so many texts use less of the tables than it costs to convert or to build them."""


class WordLlamaEmbedder:
    """256-dimensional static vectors, offline, about 0.1 ms a text.

    Questions are embedded by their content words: with every word counting
    the same, stop words would be half of the mean.
    """

    def __init__(self) -> None:
        self._loaded = loaded = Lazy(_read_files)
        self._wide: Lazy[NDArray[np.float32]] = Lazy(lambda: loaded.value[2].astype("f4"))
        """The table in single precision, for many texts."""

    @property
    def id(self) -> EmbedderId:
        return self._loaded.value[0]

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        texts = check_texts(texts, max_characters=WORDLLAMA_MAX_CHARACTERS)
        _, tokens, halves = self._loaded.value
        table = self._wide.value if len(texts) > _FEW else halves
        rows = np.zeros((len(texts), table.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            for row, ids in enumerate(tokens.of(texts[start : start + _BATCH]), start):
                if ids:
                    known = table[np.minimum(ids, len(table) - 1)]
                    rows[row] = known.astype(np.float32, copy=False).mean(axis=0)
        return to_unit(rows, embedder="wordllama", count=len(texts))

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        (text,) = check_texts([text], max_characters=WORDLLAMA_MAX_CHARACTERS)
        content = [w for w in text.split() if w.strip("?!.,;:\"'()").lower() not in STOP_WORDS]
        vector: NDArray[np.float32] = self.embed_documents([" ".join(content) or text])[0]
        return vector


class _Tokens:
    """The ids of texts' tokens: without the tokenizer's library for the first few short texts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        data = path.read_bytes()
        known = hashlib.sha256(data).hexdigest() == KNOWN_SHA256
        self._pairs = BytePairs(json.loads(data)) if known else None
        self._left = _FEW
        self._library: Any = None
        if self._pairs is None:
            self._load()

    def of(self, texts: Sequence[str]) -> list[list[int]]:
        pairs = self._pairs
        if pairs is not None and len(texts) <= self._left:
            self._left -= len(texts)
            found = [ids for text in texts if (ids := pairs.encode(text)) is not None]
            if len(found) == len(texts):
                return found
        encoded = self._load().encode_batch_fast(list(texts), add_special_tokens=False)
        return [tokens.ids for tokens in encoded]

    def _load(self) -> Any:
        with self._lock:
            if self._library is None:
                try:
                    from tokenizers import Tokenizer

                    library = Tokenizer.from_file(str(self._path))
                except Exception as error:  # it raises bare exceptions of its own
                    raise _unreadable(error) from error
                library.no_padding()
                library.no_truncation()
                self._library, self._pairs = library, None
            return self._library


def _unreadable(error: Exception) -> EmbedderUnavailable:
    return EmbedderUnavailable(
        f"The files of wordllama cannot be read: {error}.", remedy="Reinstall wordllama."
    )


def _read_files() -> tuple[EmbedderId, _Tokens, NDArray[np.float16]]:
    from concurrent.futures import ThreadPoolExecutor

    folder = package_folder("wordllama")
    if folder is None or not (folder / _WEIGHTS).is_file() or not (folder / _TOKENIZER).is_file():
        raise EmbedderUnavailable(
            "The package wordllama with its 256-dimensional weights is not installed.",
            remedy="Install it with: pip install 'wordllama>=0.3'",
        )
    try:
        with (folder / _WEIGHTS).open("rb") as file:
            weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        with ThreadPoolExecutor(1) as beside:  # the digest is made outside of Python
            digest = beside.submit(lambda: hashlib.sha256(weights).hexdigest())
            table = _read_table(weights)
            tokens = _Tokens(folder / _TOKENIZER)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _unreadable(error) from error
    version = digest.result()[:12]
    identity = EmbedderId(name="wordllama", version=version, dimensions=table.shape[1])
    return identity, tokens, table


def _read_table(data: mmap.mmap) -> NDArray[np.float16]:
    """The one matrix in a safetensors file: the header's length, a JSON header, the numbers.

    It stays in half precision and in its file: what a text needs of it is little.
    """
    import numpy as np

    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    (entry,) = header.values()
    if entry["dtype"] != "F16":
        raise ValueError(f"the weights are {entry['dtype']} and not F16")
    start, end = entry["data_offsets"]
    numbers = np.frombuffer(data, dtype="<f2", offset=8 + length + start, count=(end - start) // 2)
    table: NDArray[np.float16] = numbers.reshape(entry["shape"])
    return table
