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
    from agentmem.agent.tools import Tool, as_tool, search_web_tool
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
    from agentmem.base.protocols import EmbedderId
    from agentmem.base.types import Document, Hit, Memory, Scope
    from agentmem.inspector.json import schema_of
    from agentmem.inspector.look import explain, explain_memory, replay_context
    from agentmem.inspector.render import render_budget, render_explanation
    from agentmem.living.facts import Episode, EpisodeArtifact, Fact, Pattern, Workflow
    from agentmem.living.models import Spend
    from agentmem.living.plans import ConsolidationSettings
    from agentmem.living.preferences import Preference, PreferenceStore
    from agentmem.memory.facade import AsyncMemoryManager
    from agentmem.memory.manager import MemoryManager
    from agentmem.memory.opening import (
        open,  # noqa: A004 - `agentmem.open` is what users type
        restore,
    )
    from agentmem.search.embedders.base import load_embedder
    from agentmem.search.rerank import CrossEncoder
    from agentmem.search.results import AddResult, SearchResults
    from agentmem.server.app import create_app
    from agentmem.sources.web.enhanced import (
        EnhancedSearchResult,
        enhanced_search,
        enhanced_search_sync,
    )
    from agentmem.sources.web.services import DuckDuckGo, SearchChain, SearXNG
    from agentmem.stores.sqlite.store import SqliteStore
    from agentmem.text.chunks import chunk
    from agentmem.text.detect import detect_preferences
    from agentmem.text.sentences import truncate_at_sentence
    from agentmem.tokens.counter import Corrections, Tokenizer, tokenizer_for
    from agentmem.tokens.encodings import estimate_tokens

from agentmem.base import __version__ as __version__

_NAMES = {
    "agent.adapters.clients": "wrap_anthropic wrap_openai",
    "agent.adapters.litellm": "MemoryLogger",
    "agent.loop": "AgentLoopResult run_agent_loop run_agent_loop_sync Status",
    "agent.tool_results": "WorkingMemory",
    "agent.tool_runner": "ToolRunner",
    "agent.tools": "as_tool search_web_tool Tool",
    "agent.turn": "Turn",
    "base.config": "BudgetConfig LearnConfig LoopConfig MemorySettings RecallConfig ResultsConfig",
    "base.errors": "AgentMemError DuplicateRecord FetchRefused FixedContentTooLarge InvalidMessage"
    " MediaWarning",
    "base.protocols": "EmbedderId",
    "base.types": "Document Hit Memory Scope",
    "inspector.json": "schema_of",
    "inspector.look": "explain explain_memory replay_context",
    "inspector.render": "render_budget render_explanation",
    "living.facts": "Episode EpisodeArtifact Fact Pattern Workflow",
    "living.models": "Spend",
    "living.plans": "ConsolidationSettings",
    "living.preferences": "Preference PreferenceStore",
    "memory.facade": "AsyncMemoryManager",
    "memory.manager": "MemoryManager",
    "memory.opening": "open restore",
    "search.embedders.base": "load_embedder",
    "search.rerank": "CrossEncoder",
    "search.results": "AddResult SearchResults",
    "server.app": "create_app",
    "sources.web.enhanced": "enhanced_search enhanced_search_sync EnhancedSearchResult",
    "sources.web.services": "DuckDuckGo SearchChain SearXNG",
    "stores.sqlite.store": "SqliteStore",
    "text.chunks": "chunk",
    "text.detect": "detect_preferences",
    "text.sentences": "truncate_at_sentence",
    "tokens.counter": "Corrections Tokenizer tokenizer_for",
    "tokens.encodings": "estimate_tokens",
}
"""The public names by the module that has them, which is imported when one is used."""
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}

# What most people want comes first.
__all__ = ["AsyncMemoryManager", "Hit", "Memory", "MemoryManager", "Scope", "open", "restore"]
__all__ += ["run_agent_loop", "run_agent_loop_sync", "wrap_anthropic", "wrap_openai"]
__all__ += ["EnhancedSearchResult", "enhanced_search", "enhanced_search_sync"]
__all__ += ["AddResult", "AgentLoopResult", "SearchResults", "Status", "Turn"]
__all__ += ["BudgetConfig", "LearnConfig", "LoopConfig", "RecallConfig", "ResultsConfig"]
__all__ += ["ConsolidationSettings", "MemorySettings", "Spend"]
__all__ += ["Document", "Episode", "EpisodeArtifact", "Fact", "Pattern", "Preference", "Workflow"]
__all__ += ["MemoryLogger", "PreferenceStore", "SqliteStore", "WorkingMemory"]
__all__ += ["DuckDuckGo", "SearXNG", "SearchChain", "search_web_tool"]
__all__ += ["Tool", "ToolRunner", "as_tool"]
__all__ += ["Corrections", "Tokenizer", "estimate_tokens", "tokenizer_for"]
__all__ += ["AgentMemError", "DuplicateRecord", "FetchRefused", "FixedContentTooLarge"]
__all__ += ["InvalidMessage", "MediaWarning"]
__all__ += ["CrossEncoder", "EmbedderId", "load_embedder"]
__all__ += ["chunk", "create_app", "detect_preferences", "truncate_at_sentence"]
__all__ += ["explain", "explain_memory", "render_budget", "render_explanation"]
__all__ += ["replay_context", "schema_of"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    return getattr(importlib.import_module(f"agentmem.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
