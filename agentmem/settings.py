"""How a memory behaves, checked when it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from agentmem.core.checks import require_choice, require_count, require_number, require_unit
from agentmem.core.values import dataclass

SearchMode = Literal["hybrid", "vector", "fulltext"]
Durability = Literal["full", "normal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The defaults of one memory; every search may ask otherwise.

    A chunk of a document is about `chunk_tokens` long and never longer than
    `chunk_limit_tokens`. `save_indexes` writes the indexes beside the store at
    `sync()` and `close()`, `embed_in_background` makes missing vectors on a
    thread of its own. `judge_new` looks in the background whether what is
    new contradicts what is known. Snapshots of built contexts are kept for
    `keep_contexts_days` and in at most `keep_contexts_bytes`; `None` is no limit.
    """

    top_k: int = 5
    similarity_threshold: float = 0.3
    search_mode: SearchMode = "hybrid"
    durability: Durability = "full"
    chunk_tokens: int = 250
    chunk_limit_tokens: int = 400
    save_indexes: bool = True
    embed_in_background: bool = True
    judge_new: bool = True
    keep_contexts_days: float | None = 30.0
    keep_contexts_bytes: int | None = 64 * 1024 * 1024

    def __post_init__(self) -> None:
        require_count(self.top_k, "top_k")
        require_unit(self.similarity_threshold, "similarity_threshold")
        require_choice(self.search_mode, get_args(SearchMode), "search_mode")
        require_choice(self.durability, get_args(Durability), "durability")
        require_count(self.chunk_tokens, "chunk_tokens", least=1)
        require_count(self.chunk_limit_tokens, "chunk_limit_tokens", least=self.chunk_tokens)
        if self.keep_contexts_days is not None:
            require_number(self.keep_contexts_days, "keep_contexts_days", low=0, high=365_000)
        if self.keep_contexts_bytes is not None:
            require_count(self.keep_contexts_bytes, "keep_contexts_bytes")


def default_path() -> Path:
    """The store under the user's data folder; nothing is created."""
    import platformdirs

    return Path(platformdirs.user_data_dir("agentmem", appauthor=False)) / "memory.db"
