"""How a memory behaves, a turn is built and a loop is run, checked when it is said."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from agentmem.base.checks import (
    require_choice,
    require_count,
    require_instance,
    require_number,
    require_text,
    require_unit,
)

SearchMode = Literal["hybrid", "vector", "fulltext"]
Durability = Literal["full", "normal"]
Framing = Literal["pair", "single"]
ReferenceRole = Literal["assistant", "user"]
Placement = Literal["before_last_user", "append"]

Assembly = Literal["search", "tiers"]
Activity = Literal["general", "debugging", "feature", "review", "writing"]
"""What tiers can be divided for; `SHARES` of `living.tiers` has the division of each."""

EXTRACTIVE = "extractive"
"""The name of the model that needs none: it quotes what memory holds."""

SEARCH_TOP_K = 5
TURN_TOP_K = 50


# ----------------------------------------------------------------------------
# The groups: said once for a memory, or otherwise for a turn.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallConfig:
    """What may be recalled.

    Left out, `top_k` is 5 for a search and 50 for a turn, which shows what fits of
    them. A turn waits for `timeout_seconds` and goes on without memory then. With
    `assembly="tiers"` the knowledge is what the tiers hold, its budget divided by
    `activity`.
    """

    top_k: int | None = None
    similarity_threshold: float = 0.3
    search_mode: SearchMode = "hybrid"
    timeout_seconds: float = 10.0
    assembly: Assembly = "search"
    activity: Activity = "general"

    def __post_init__(self) -> None:
        if self.top_k is not None:
            require_count(self.top_k, "top_k")
        require_unit(self.similarity_threshold, "similarity_threshold")
        require_choice(self.search_mode, get_args(SearchMode), "search_mode")
        require_number(self.timeout_seconds, "timeout_seconds", low=0)
        require_choice(self.assembly, get_args(Assembly), "assembly")
        require_choice(self.activity, get_args(Activity), "activity")

    @property
    def search_top_k(self) -> int:
        """How many a search gives."""
        return SEARCH_TOP_K if self.top_k is None else self.top_k

    @property
    def turn_top_k(self) -> int:
        """How many a turn is offered."""
        return TURN_TOP_K if self.top_k is None else self.top_k


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetConfig:
    """How many tokens of a prompt memory may take, by what they are spent on.

    `context_window` says how many tokens the model takes, where no table knows
    it or a server takes less.
    """

    knowledge: int = 655
    preferences: int = 500
    working: int = 500
    context_window: int | None = None

    def __post_init__(self) -> None:
        for name in ("knowledge", "preferences", "working"):
            require_count(getattr(self, name), name)
        if self.context_window is not None:
            require_count(self.context_window, "context_window", least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnConfig:
    """What is kept of a turn.

    What is seen is remembered afterwards with `auto_index`, and what users say about
    themselves with `preferences`. With `facts` the facts that the user states are
    kept as such, too, by rules unless `model` (a litellm name) is to help, within
    `calls` and `tokens` a turn. `workflows` records which tool calls answered a
    goal and what was the same the next time. A process that lives through the
    night consolidates (`nightly`).
    """

    auto_index: bool = True
    preferences: bool = True
    facts: bool = False
    workflows: bool = False
    model: str = ""
    calls: int = 2
    tokens: int = 8_000
    nightly: bool = True

    def __post_init__(self) -> None:
        require_text(self.model, "model")
        for name in ("calls", "tokens"):
            require_count(getattr(self, name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsConfig:
    """What becomes of tool results.

    One of at most `stand_in_tokens` goes to the model whole, others in short; of
    those `read_limit_tokens` are read at a time. They are kept for `keep_days` and
    up to `keep_bytes`, pinned ones always.
    """

    stand_in_tokens: int = 100
    read_limit_tokens: int = 1_000
    keep_days: float = 30.0
    keep_bytes: int = 200_000_000

    def __post_init__(self) -> None:
        for name in ("stand_in_tokens", "read_limit_tokens"):
            require_count(getattr(self, name), name, least=1)
        require_number(self.keep_days, "keep_days", low=0)
        require_count(self.keep_bytes, "keep_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """What is said of a memory, and may be said otherwise of a turn."""

    recall: RecallConfig = RecallConfig()
    budget: BudgetConfig = BudgetConfig()
    learn: LearnConfig = LearnConfig()
    results: ResultsConfig = ResultsConfig()
    strict_scope: bool = False

    def _require_groups(self) -> None:
        for name, group in _GROUPS.items():
            remedy = f"Pass {group.__name__}(…) or leave it out."
            require_instance(getattr(self, name), group, name, remedy=remedy)


_GROUPS = {
    "recall": RecallConfig,
    "budget": BudgetConfig,
    "learn": LearnConfig,
    "results": ResultsConfig,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopConfig(_Groups):
    """The settings of one turn, or of all turns of a loop.

    Who gives none gets those of the memory (`agentmem.open(recall=…, budget=…)`).
    With `strict_scope` a turn that names no user is refused. `knowledge_budget` is
    `budget.knowledge` said alone, the setting that is changed most.
    """

    memory_tools: bool = True
    memory_save_tool: bool = False
    max_iterations: int = 8
    tool_timeout_seconds: float = 60.0
    framing: Framing = "pair"
    reference_role: ReferenceRole = "assistant"
    placement: Placement = "before_last_user"
    knowledge_budget: InitVar[int | None] = None

    def __post_init__(self, knowledge_budget: int | None) -> None:
        if knowledge_budget is not None:
            object.__setattr__(self, "budget", replace(self.budget, knowledge=knowledge_budget))
        self._require_groups()
        require_count(self.max_iterations, "max_iterations", least=1)
        require_number(self.tool_timeout_seconds, "tool_timeout_seconds", low=0)
        require_choice(self.framing, get_args(Framing), "framing")
        require_choice(self.reference_role, get_args(ReferenceRole), "reference_role")
        require_choice(self.placement, get_args(Placement), "placement")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings(_Groups):
    """How one memory behaves; its groups are what searches and turns do unless told otherwise.

    A chunk of a document is about `chunk_tokens` long and never longer than
    `chunk_limit_tokens`. `save_indexes` writes the indexes beside the store at
    `sync()` and `close()`, `embed_in_background` makes missing vectors on a
    thread of its own. `judge_new` looks in the background whether what is
    new contradicts what is known. Snapshots of built contexts are kept for
    `keep_contexts_days` and in at most `keep_contexts_bytes`; `None` is no limit.
    With `strict_scope` a turn that names no user is refused.
    """

    durability: Durability = "full"
    chunk_tokens: int = 250
    chunk_limit_tokens: int = 400
    save_indexes: bool = True
    embed_in_background: bool = True
    judge_new: bool = True
    keep_contexts_days: float | None = 30.0
    keep_contexts_bytes: int | None = 64 * 1024 * 1024
    loop: LoopConfig = field(init=False, repr=False, compare=False)
    """What a turn does that is given no config of its own."""

    def __post_init__(self) -> None:
        self._require_groups()
        require_choice(self.durability, get_args(Durability), "durability")
        require_count(self.chunk_tokens, "chunk_tokens", least=1)
        require_count(self.chunk_limit_tokens, "chunk_limit_tokens", least=self.chunk_tokens)
        if self.keep_contexts_days is not None:
            require_number(self.keep_contexts_days, "keep_contexts_days", low=0, high=365_000)
        if self.keep_contexts_bytes is not None:
            require_count(self.keep_contexts_bytes, "keep_contexts_bytes")
        groups = {name: getattr(self, name) for name in _GROUPS}
        loop = LoopConfig(**groups, strict_scope=self.strict_scope)
        object.__setattr__(self, "loop", loop)


def default_path() -> Path:
    """The store under the user's data folder; nothing is created."""
    import platformdirs

    return Path(platformdirs.user_data_dir("agentmem", appauthor=False)) / "memory.db"


def require_config(config: object) -> None:
    """Refuse what is no LoopConfig; None stands for the usual one."""
    if config is not None:
        require_instance(config, LoopConfig, "config", remedy="Pass LoopConfig(…) or leave it out.")
