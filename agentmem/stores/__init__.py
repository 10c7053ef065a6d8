"""Where memories are kept: one protocol, and SQLite in a file or in memory."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentmem.stores.base import Store
    from agentmem.stores.sqlite import SqliteStore

__all__ = ["SqliteStore", "Store"]

_WHERE = {
    "SqliteStore": "agentmem.stores.sqlite",
    "Store": "agentmem.stores.base",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentmem.stores' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)
