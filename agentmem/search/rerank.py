"""Judge the best memories again, each read together with the question: a cross-encoder.

The model is one you name by its folder: nothing is downloaded, and no code of
the folder runs. It costs some milliseconds a memory, so only the best fifty of
a search are asked about.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_count, require_path, require_text
from agentmem.base.errors import InvalidInput, RerankerFailed, RerankerUnavailable
from agentmem.base.lazy import Lazy
from agentmem.base.types import Memory
from agentmem.search.intake import text_to_embed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.search.retriever import Reranker


# ----------------------------------------------------------------------------
# Open an ONNX model and its tokenizer so that they stay small.


def open_model(
    model: str | bytes, tokenizer_json: bytes, *, max_tokens: int, threads: int
) -> tuple[Any, Any, frozenset[str]]:
    """The tokenizer, the session and the names of its inputs; errors are the packages' own.

    `model` is a file's path or what stands in it.
    """
    import onnxruntime
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(tokenizer_json)
    tokenizer.enable_truncation(max_tokens)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False  # the arena keeps the largest batch for ever
    options.enable_mem_pattern = False
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["SkipLayerNormFusion"],  # fused it takes four times as long as apart
    )
    return tokenizer, session, frozenset(value.name for value in session.get_inputs())


MAX_TOKENS = 512
MAX_CHARACTERS = 8_000
BATCH = 8
NAMES = ("cross-encoder:FOLDER",)
_MODEL_FILES = (
    "model.onnx", "model_quantized.onnx", "model_int8.onnx", "onnx/model.onnx",
    "onnx/model_quantized.onnx",
)  # fmt: skip


def load_reranker(name: str) -> Reranker:
    """The re-ranker called `name`; its files and packages are looked for at once."""
    require_text(name, "rerank")
    kind, _, detail = name.partition(":")
    if kind == "cross-encoder" and detail:
        return CrossEncoder(detail)
    raise InvalidInput(
        "rerank", name, "is not a known re-ranker", remedy=f"Use one of: {', '.join(NAMES)}."
    )


class CrossEncoder:
    """Scores from 0 to 1 for a question and memories, by a model from your own folder.

    `folder` holds `tokenizer.json` and `model.onnx` (or `model_quantized.onnx`,
    also under `onnx/`) of a sequence classifier for pairs, such as an MS MARCO
    cross-encoder: one logit a pair goes through a sigmoid, of two the second is
    "related". The weights are read when it is first asked.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        batch: int = BATCH,
        max_tokens: int = MAX_TOKENS,
        threads: int = 1,
    ) -> None:
        self._batch = require_count(batch, "batch", least=1)
        require_count(max_tokens, "max_tokens", least=8)
        require_count(threads, "threads", least=1)
        model, tokenizer = _find_in(Path(require_path(folder)))
        for package in ("onnxruntime", "tokenizers"):
            if importlib.util.find_spec(package) is None:
                raise RerankerUnavailable(
                    f"The package {package} is not installed.",
                    remedy=f"Install it with: pip install {package}",
                )
        self._loaded = Lazy(
            partial(_load_files, model, tokenizer, max_tokens=max_tokens, threads=threads)
        )

    def __call__(self, query: str, memories: Sequence[Memory], /) -> list[float]:
        """How related each memory is to the question, in the order given."""
        question = require_text(query, "query")[:MAX_CHARACTERS]
        texts = [text_to_embed(memory)[:MAX_CHARACTERS] for memory in memories]
        if not texts:
            return []
        tokenizer, session, inputs = self._loaded.value
        encoded = tokenizer.encode_batch([(question, text) for text in texts])
        # Pairs of about one length share a batch, so that little of it is padding.
        order = sorted(range(len(texts)), key=lambda at: len(encoded[at].ids))
        scores = [0.0] * len(texts)
        for start in range(0, len(order), self._batch):
            part = order[start : start + self._batch]
            logits = _run(session, inputs, [encoded[at] for at in part])
            found = _scores(logits, count=len(part))
            for at, score in zip(part, found, strict=True):
                scores[at] = score
        return scores


def _find_in(folder: Path) -> tuple[Path, Path]:
    model = next((folder / name for name in _MODEL_FILES if (folder / name).is_file()), None)
    tokenizer = folder / "tokenizer.json"
    if model is None or not tokenizer.is_file():
        missing = "model.onnx" if model is None else tokenizer.name
        raise RerankerUnavailable(
            f"There is no {missing} in {str(folder)!a}.",
            remedy="Name the folder that holds model.onnx and tokenizer.json of a cross-encoder.",
        )
    return model, tokenizer


def _load_files(
    model: Path, tokenizer_file: Path, *, max_tokens: int, threads: int
) -> tuple[Any, Any, frozenset[str]]:
    try:
        tokenizer_json = tokenizer_file.read_bytes()
        return open_model(str(model), tokenizer_json, max_tokens=max_tokens, threads=threads)
    except Exception as error:  # both libraries raise bare exceptions of their own
        raise RerankerUnavailable(
            f"{model.name} or {tokenizer_file.name} cannot be read: {error}.",
            remedy="Check that the folder holds a cross-encoder as ONNX with its tokenizer.json.",
        ) from error


def _run(session: Any, inputs: frozenset[str], encoded: Sequence[Any]) -> NDArray[np.float32]:
    """The logits of a few pairs, padded to the longest of them."""
    import numpy as np

    shape = (len(encoded), max(1, *(len(one.ids) for one in encoded)))
    feeds = {
        name: np.zeros(shape, dtype=np.int64)
        for name in ("input_ids", "attention_mask", "token_type_ids")
    }
    for row, one in enumerate(encoded):
        size = len(one.ids)
        feeds["input_ids"][row, :size] = one.ids
        feeds["attention_mask"][row, :size] = 1
        feeds["token_type_ids"][row, :size] = one.type_ids
    try:
        given = {name: value for name, value in feeds.items() if name in inputs}
        logits = session.run(None, given)[0]
        return np.asarray(logits, dtype=np.float32)
    except Exception as error:  # onnxruntime raises its own unnamed exceptions
        raise RerankerFailed(f"The cross-encoder could not judge: {error}.") from error


def _scores(logits: NDArray[np.float32], *, count: int) -> list[float]:
    import numpy as np

    wide = logits.astype(np.float64)
    if wide.shape == (count, 2):
        wide = wide[:, 1] - wide[:, 0]  # the softmax of two is a sigmoid of their difference
    elif wide.size != count:
        raise RerankerFailed(
            f"The model gives {logits.shape} numbers for {count} pairs.",
            remedy="Use a model with one or two logits a pair.",
        )
    flat = wide.reshape(-1)
    if not np.isfinite(flat).all():
        raise RerankerFailed("The model gives numbers that are not finite.")
    scores: list[float] = (1.0 / (1.0 + np.exp(-np.clip(flat, -50.0, 50.0)))).tolist()
    return scores
