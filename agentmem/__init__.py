"""The memory layer for the agent loop you already have.

Importing this does nothing and loads nothing heavy; each name is found when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.async_manager import AsyncMemoryManager
    from agentmem.errors import AgentMemError
    from agentmem.manager import MemoryManager
    from agentmem.opening import open  # noqa: A004 - `agentmem.open` is what users type
    from agentmem.results import AddResult, SearchResults
    from agentmem.settings import Settings
    from agentmem.tokenizer import Tokenizer, tokenizer_for
    from agentmem.types import Document, Hit, Memory, Scope

__version__ = "0.1.0"

_WHERE = {
    "AddResult": "agentmem.results",
    "AgentMemError": "agentmem.errors",
    "AsyncMemoryManager": "agentmem.async_manager",
    "Document": "agentmem.types",
    "Hit": "agentmem.types",
    "Memory": "agentmem.types",
    "MemoryManager": "agentmem.manager",
    "Scope": "agentmem.types",
    "SearchResults": "agentmem.results",
    "Settings": "agentmem.settings",
    "Tokenizer": "agentmem.tokenizer",
    "open": "agentmem.opening",
    "tokenizer_for": "agentmem.tokenizer",
}

__all__ = [  # noqa: RUF022 - what most people want comes first
    "open",
    "MemoryManager",
    "AsyncMemoryManager",
    "AddResult",
    "AgentMemError",
    "Document",
    "Hit",
    "Memory",
    "Scope",
    "SearchResults",
    "Settings",
    "Tokenizer",
    "tokenizer_for",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
