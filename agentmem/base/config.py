"""How a turn is built and a loop is run, checked when it is said."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from agentmem.base.checks import (
    require_choice,
    require_count,
    require_number,
    require_text,
    require_unit,
)
from agentmem.base.errors import InvalidInput

# ----------------------------------------------------------------------------
# How a memory behaves, checked when it is said.


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


# ----------------------------------------------------------------------------
# Names shared.


Framing = Literal["pair", "single"]


ReferenceRole = Literal["assistant", "user"]


Placement = Literal["before_last_user", "append"]

Assembly = Literal["search", "tiers"]
Activity = Literal["general", "debugging", "feature", "review", "writing"]
"""What tiers can be divided for; `core.living.tiers.SHARES` has the division of each."""

EXTRACTIVE = "extractive"
"""The name of the model that needs none: it quotes what memory holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig:
    """The settings of one turn.

    `top_k`, `similarity_threshold` and `search_mode` say what may be recalled,
    the budgets how many tokens of the prompt it may take. What is seen is
    remembered afterwards when `enable_auto_index` is on, and with `learn_facts`
    the facts that the user states are kept as such, too, by rules unless
    `learn_model` (a litellm name) is to help, within `learn_calls` and
    `learn_tokens` a turn. A process that lives
    through the night consolidates (`consolidate_nightly`). A tool result of at
    most `stand_in_tokens` goes to the model whole; results are kept for
    `keep_results_days` and up to `keep_results_bytes`, pinned ones always.
    `context_window` says how many tokens the model takes, where no table knows
    it or a server takes less.
    With `assembly="tiers"` the knowledge is what the tiers hold, its budget
    divided by `activity`. `learn_workflows` records which tool calls answered
    a goal and what was the same the next time.
    """

    top_k: int = 50
    similarity_threshold: float = 0.3
    knowledge_budget: int = 800
    preference_budget: int = 500
    working_budget: int = 500
    search_mode: SearchMode = "hybrid"
    assembly: Assembly = "search"
    activity: Activity = "general"
    learn_workflows: bool = False
    enable_auto_index: bool = True
    detect_preferences: bool = True
    learn_facts: bool = False
    learn_model: str = ""
    learn_calls: int = 2
    learn_tokens: int = 8_000
    consolidate_nightly: bool = True
    memory_tools: bool = True
    memory_save_tool: bool = False
    context_window: int | None = None
    max_iterations: int = 8
    stand_in_tokens: int = 100
    keep_results_days: float = 30.0
    keep_results_bytes: int = 200_000_000
    read_limit_tokens: int = 1_000
    tool_timeout_seconds: float = 60.0
    retrieval_timeout_seconds: float = 10.0
    framing: Framing = "pair"
    reference_role: ReferenceRole = "assistant"
    placement: Placement = "before_last_user"

    def __post_init__(self) -> None:
        for name in ("top_k", "knowledge_budget", "preference_budget", "working_budget"):
            require_count(getattr(self, name), name)
        require_text(self.learn_model, "learn_model")
        for name in ("learn_calls", "learn_tokens"):
            require_count(getattr(self, name), name)
        if self.context_window is not None:
            require_count(self.context_window, "context_window", least=1)
        for name in ("max_iterations", "stand_in_tokens", "read_limit_tokens"):
            require_count(getattr(self, name), name, least=1)
        require_unit(self.similarity_threshold, "similarity_threshold")
        require_count(self.keep_results_bytes, "keep_results_bytes")
        for name in ("tool_timeout_seconds", "retrieval_timeout_seconds", "keep_results_days"):
            require_number(getattr(self, name), name, low=0)
        for name, choices in (
            ("search_mode", SearchMode),
            ("assembly", Assembly),
            ("activity", Activity),
            ("framing", Framing),
            ("reference_role", ReferenceRole),
            ("placement", Placement),
        ):
            require_choice(getattr(self, name), get_args(choices), name)


def require_config(config: object) -> None:
    """Refuse what is no LoopConfig; None stands for the usual one."""
    if config is not None and not isinstance(config, LoopConfig):
        raise InvalidInput(
            "config", config, "is no LoopConfig", remedy="Pass LoopConfig(top_k=…) or leave it out."
        )
