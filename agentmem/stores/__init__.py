"""Where memories are kept: one protocol, a SQLite file, and a dictionary for tests."""

from __future__ import annotations

from agentmem.stores.base import Store
from agentmem.stores.memory import MemoryStore
from agentmem.stores.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store"]
