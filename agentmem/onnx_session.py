"""Open an ONNX model and its tokenizer so that they stay small."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def open_model(
    model: Path, tokenizer_json: bytes, *, max_tokens: int, threads: int
) -> tuple[Any, Any, frozenset[str]]:
    """The tokenizer, the session and the names of its inputs; errors are the packages' own."""
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
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return tokenizer, session, frozenset(value.name for value in session.get_inputs())
