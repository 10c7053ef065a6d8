"""Memory for the clients people already call: one file a client.

Importing this loads none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.adapters.calls import wrap
    from agentmem.adapters.litellm import MemoryLogger
    from agentmem.adapters.openai import wrap_openai

_WHERE = {
    "MemoryLogger": "agentmem.adapters.litellm",
    "wrap": "agentmem.adapters.calls",
    "wrap_openai": "agentmem.adapters.openai",
}

__all__ = ["MemoryLogger", "wrap", "wrap_openai"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem.adapters' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
