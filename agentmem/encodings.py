"""Real tokenizers from files that are already here; nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentmem.core.estimate import EncodingName
from agentmem.core.models import Family
from agentmem.core.text_runs import CUT_TOKENS, split_runs
from agentmem.litellm_loader import claude_tokenizer, environment
from agentmem.protocols import TokenCounter

_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
# tiktoken deletes a cached file of another hash and downloads it, so we look first.
SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
}
OUR_RANKS = Path(__file__).with_name("data") / "encodings"
# The tokenizers litellm takes for these families, if somebody has downloaded them before.
HUGGING_FACE = {
    "llama2": "hf-internal-testing/llama-tokenizer",
    "llama3": "Xenova/llama-3-tokenizer",
    "cohere": "Xenova/c4ai-command-r-v01-tokenizer",
}
_loading = threading.Lock()


def tiktoken_counter(name: EncodingName) -> TokenCounter | None:
    """A counter with tiktoken's encoding `name`, or `None` when its ranks are not on disk."""
    encoding = _tiktoken_encoding(name)
    return None if encoding is None else _by_parts(lambda part: len(encoding.encode_ordinary(part)))


def family_counter(family: Family) -> TokenCounter | None:
    """A counter with the family's own tokenizer file, or `None` when it is not on disk."""
    path = _tokenizer_file(family)
    tokenizer = _hugging_face_tokenizer(path) if path else None
    if tokenizer is None:
        return None
    # A batch of one: `encode` alone also works out where each token stands.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    return _by_parts(lambda part: len(encode([part], add_special_tokens=False)[0].ids))


def rank_file(name: EncodingName) -> Path | None:
    """The undamaged rank file of an encoding: tiktoken's own copy, else ours."""
    key = hashlib.sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()
    for folder in (_tiktoken_cache(), OUR_RANKS):
        path = folder / key if folder else None
        if path is None:
            continue
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[name]:
                return path
        except OSError:
            continue
    return None


def _by_parts(count: Callable[[str], int]) -> TokenCounter:
    def count_by_parts(text: str, /) -> int:
        parts, cuts = split_runs(text)
        return sum(count(part) for part in parts) + CUT_TOKENS * cuts

    return count_by_parts


def _tiktoken_cache() -> Path | None:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            chosen = os.environ[variable]
            return Path(chosen) if chosen else None
    return Path(tempfile.gettempdir(), "data-gym-cache")


def _tiktoken_encoding(name: EncodingName) -> Any:
    try:
        from tiktoken import registry
    except ImportError:
        return None
    with _loading:
        if name in registry.ENCODINGS:
            return registry.ENCODINGS[name]
        path = rank_file(name)
        if path is None:
            return None
        with environment(TIKTOKEN_CACHE_DIR=str(path.parent)):
            return registry.get_encoding(name)


def _tokenizer_file(family: Family) -> Path | None:
    if family == "claude":
        return claude_tokenizer()
    repository = HUGGING_FACE.get(family)
    if repository is None:
        return None
    snapshots = _hub_cache() / f"models--{repository.replace('/', '--')}" / "snapshots"
    return next(iter(sorted(snapshots.glob("*/tokenizer.json"))), None)


def _hub_cache() -> Path:
    for variable, inside in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(variable):
            return Path(os.environ[variable], inside)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface", "hub")


@lru_cache(maxsize=8)
def _hugging_face_tokenizer(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(path))
    except Exception:  # noqa: BLE001  # the package raises bare Exception for a bad file
        return None
