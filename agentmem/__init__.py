"""The memory layer for the agent loop you already have.

Importing this does nothing and loads nothing heavy; each name is found when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.adapters import MemoryLogger, wrap_openai
    from agentmem.async_manager import AsyncMemoryManager
    from agentmem.config import LoopConfig
    from agentmem.core.living.records import Artifact, Episode, Fact, Pattern, Workflow
    from agentmem.errors import AgentMemError
    from agentmem.loop import AgentLoopResult, Status, run_agent_loop, run_agent_loop_sync
    from agentmem.manager import MemoryManager
    from agentmem.opening import (
        open,  # noqa: A004 - `agentmem.open` is what users type
        restore,
    )
    from agentmem.preferences import Preference, PreferenceStore
    from agentmem.results import AddResult, SearchResults
    from agentmem.settings import Settings
    from agentmem.tokenizer import Tokenizer, tokenizer_for
    from agentmem.tools import Tool
    from agentmem.turns import Turn
    from agentmem.types import Document, Hit, Memory, Scope
    from agentmem.web import EnhancedSearchResult, enhanced_search, enhanced_search_sync

__version__ = "0.1.0"

_WHERE = {
    "AddResult": "agentmem.results",
    "AgentLoopResult": "agentmem.loop",
    "AgentMemError": "agentmem.errors",
    "Artifact": "agentmem.core.living.records",
    "AsyncMemoryManager": "agentmem.async_manager",
    "Document": "agentmem.types",
    "EnhancedSearchResult": "agentmem.web",
    "Episode": "agentmem.core.living.records",
    "Fact": "agentmem.core.living.records",
    "Hit": "agentmem.types",
    "LoopConfig": "agentmem.config",
    "Memory": "agentmem.types",
    "MemoryLogger": "agentmem.adapters",
    "MemoryManager": "agentmem.manager",
    "Pattern": "agentmem.core.living.records",
    "Preference": "agentmem.preferences",
    "PreferenceStore": "agentmem.preferences",
    "Scope": "agentmem.types",
    "SearchResults": "agentmem.results",
    "Settings": "agentmem.settings",
    "Status": "agentmem.loop",
    "Tokenizer": "agentmem.tokenizer",
    "Tool": "agentmem.tools",
    "Turn": "agentmem.turns",
    "Workflow": "agentmem.core.living.records",
    "enhanced_search": "agentmem.web",
    "enhanced_search_sync": "agentmem.web",
    "open": "agentmem.opening",
    "restore": "agentmem.opening",
    "run_agent_loop": "agentmem.loop",
    "run_agent_loop_sync": "agentmem.loop",
    "tokenizer_for": "agentmem.tokenizer",
    "wrap_openai": "agentmem.adapters",
}

__all__ = [  # noqa: RUF022 - what most people want comes first
    "open",
    "restore",
    "run_agent_loop",
    "run_agent_loop_sync",
    "enhanced_search",
    "enhanced_search_sync",
    "wrap_openai",
    "MemoryManager",
    "AsyncMemoryManager",
    "AddResult",
    "AgentLoopResult",
    "AgentMemError",
    "Artifact",
    "Document",
    "EnhancedSearchResult",
    "Episode",
    "Fact",
    "Hit",
    "LoopConfig",
    "Memory",
    "MemoryLogger",
    "Pattern",
    "Preference",
    "PreferenceStore",
    "Scope",
    "SearchResults",
    "Settings",
    "Status",
    "Tokenizer",
    "Tool",
    "Turn",
    "Workflow",
    "tokenizer_for",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
