"""Token counters of several kinds, for the tests of cutting and chunking."""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path

from agentmem.base.protocols import TokenCounter
from tests.properties.strategies import word_counter


def quarter_characters(text: str) -> int:
    """Four characters a token, rounded up."""
    return (len(text) + 3) // 4


def utf8_bytes(text: str) -> int:
    """One token a byte, the worst any byte-level tokenizer does."""
    return len(text.encode("utf-8"))


def wobbly(text: str) -> int:
    """A count that a longer text can lower by a little, as a tokenizer's can."""
    return quarter_characters(text) + (ord(text[-1]) % 3 if text else 0)


@cache
def cl100k() -> TokenCounter:
    """A real tokenizer, whose counts neither add up nor always grow."""
    import tiktoken

    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.origin is not None
    folder = Path(spec.origin).parent / "litellm_core_utils" / "tokenizers"
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        encoding = tiktoken.get_encoding("cl100k_base")
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def counters() -> tuple[TokenCounter, ...]:
    """All of them."""
    return (quarter_characters, word_counter, utf8_bytes, cl100k(), wobbly)
