"""The memory layer for the agent loop you already have.

Importing this does nothing and loads nothing heavy; each name is found when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.agent.adapters.clients import wrap_anthropic, wrap_openai
    from agentmem.agent.adapters.litellm import MemoryLogger
    from agentmem.agent.loop import AgentLoopResult, Status, run_agent_loop, run_agent_loop_sync
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.agent.tool_runner import ToolRunner
    from agentmem.agent.tools import Tool, as_tool
    from agentmem.agent.turn import Turn
    from agentmem.base.config import (
        BudgetConfig,
        LearnConfig,
        LoopConfig,
        MemorySettings,
        RecallConfig,
        ResultsConfig,
    )
    from agentmem.base.errors import (
        AgentMemError,
        DuplicateRecord,
        FetchRefused,
        FixedContentTooLarge,
        InvalidMessage,
        MediaWarning,
    )
    from agentmem.base.types import Document, Hit, Memory, Scope
    from agentmem.living.facts import Episode, EpisodeArtifact, Fact, Pattern, Workflow
    from agentmem.living.models import Spend
    from agentmem.living.preferences import Preference, PreferenceStore
    from agentmem.memory.facade import AsyncMemoryManager
    from agentmem.memory.manager import MemoryManager
    from agentmem.memory.opening import (
        open,  # noqa: A004 - `agentmem.open` is what users type
        restore,
    )
    from agentmem.search.embedders.base import load_embedder
    from agentmem.search.results import AddResult, SearchResults
    from agentmem.sources.web.chain import SearchChain
    from agentmem.sources.web.duckduckgo import DuckDuckGo
    from agentmem.sources.web.enhanced import (
        EnhancedSearchResult,
        enhanced_search,
        enhanced_search_sync,
    )
    from agentmem.sources.web.searxng import SearXNG
    from agentmem.stores.sqlite.store import SqliteStore
    from agentmem.text.detect import detect_preferences
    from agentmem.tokens.counter import Corrections, Tokenizer, tokenizer_for
    from agentmem.tokens.encodings import estimate_tokens

from agentmem.base import __version__ as __version__

_WHERE = {
    "AddResult": "agentmem.search.results",
    "AgentLoopResult": "agentmem.agent.loop",
    "AgentMemError": "agentmem.base.errors",
    "EpisodeArtifact": "agentmem.living.facts",
    "AsyncMemoryManager": "agentmem.memory.facade",
    "Corrections": "agentmem.tokens.counter",
    "Document": "agentmem.base.types",
    "DuckDuckGo": "agentmem.sources.web.duckduckgo",
    "DuplicateRecord": "agentmem.base.errors",
    "EnhancedSearchResult": "agentmem.sources.web.enhanced",
    "Episode": "agentmem.living.facts",
    "Fact": "agentmem.living.facts",
    "FetchRefused": "agentmem.base.errors",
    "FixedContentTooLarge": "agentmem.base.errors",
    "Hit": "agentmem.base.types",
    "InvalidMessage": "agentmem.base.errors",
    "BudgetConfig": "agentmem.base.config",
    "LearnConfig": "agentmem.base.config",
    "RecallConfig": "agentmem.base.config",
    "ResultsConfig": "agentmem.base.config",
    "LoopConfig": "agentmem.base.config",
    "MediaWarning": "agentmem.base.errors",
    "Memory": "agentmem.base.types",
    "MemoryLogger": "agentmem.agent.adapters.litellm",
    "MemoryManager": "agentmem.memory.manager",
    "Pattern": "agentmem.living.facts",
    "Preference": "agentmem.living.preferences",
    "PreferenceStore": "agentmem.living.preferences",
    "Scope": "agentmem.base.types",
    "SearXNG": "agentmem.sources.web.searxng",
    "SearchChain": "agentmem.sources.web.chain",
    "SearchResults": "agentmem.search.results",
    "MemorySettings": "agentmem.base.config",
    "Spend": "agentmem.living.models",
    "SqliteStore": "agentmem.stores.sqlite.store",
    "Status": "agentmem.agent.loop",
    "Tokenizer": "agentmem.tokens.counter",
    "Tool": "agentmem.agent.tools",
    "ToolRunner": "agentmem.agent.tool_runner",
    "Turn": "agentmem.agent.turn",
    "Workflow": "agentmem.living.facts",
    "WorkingMemory": "agentmem.agent.tool_results",
    "as_tool": "agentmem.agent.tools",
    "detect_preferences": "agentmem.text.detect",
    "enhanced_search": "agentmem.sources.web.enhanced",
    "enhanced_search_sync": "agentmem.sources.web.enhanced",
    "estimate_tokens": "agentmem.tokens.encodings",
    "load_embedder": "agentmem.search.embedders.base",
    "open": "agentmem.memory.opening",
    "restore": "agentmem.memory.opening",
    "run_agent_loop": "agentmem.agent.loop",
    "run_agent_loop_sync": "agentmem.agent.loop",
    "tokenizer_for": "agentmem.tokens.counter",
    "wrap_anthropic": "agentmem.agent.adapters.clients",
    "wrap_openai": "agentmem.agent.adapters.clients",
}

__all__ = [  # noqa: RUF022 - what most people want comes first
    "open",
    "restore",
    "run_agent_loop",
    "run_agent_loop_sync",
    "enhanced_search",
    "enhanced_search_sync",
    "wrap_openai",
    "wrap_anthropic",
    "MemoryManager",
    "AsyncMemoryManager",
    "AddResult",
    "AgentLoopResult",
    "AgentMemError",
    "EpisodeArtifact",
    "Document",
    "EnhancedSearchResult",
    "Episode",
    "Fact",
    "Hit",
    "LoopConfig",
    "RecallConfig",
    "BudgetConfig",
    "LearnConfig",
    "ResultsConfig",
    "Memory",
    "MemoryLogger",
    "Pattern",
    "Preference",
    "PreferenceStore",
    "Scope",
    "SearchResults",
    "MemorySettings",
    "Status",
    "Tokenizer",
    "Tool",
    "Turn",
    "Workflow",
    "tokenizer_for",
    "Corrections",
    "DuckDuckGo",
    "DuplicateRecord",
    "FetchRefused",
    "FixedContentTooLarge",
    "InvalidMessage",
    "MediaWarning",
    "SearXNG",
    "SearchChain",
    "Spend",
    "SqliteStore",
    "ToolRunner",
    "WorkingMemory",
    "as_tool",
    "detect_preferences",
    "estimate_tokens",
    "load_embedder",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
