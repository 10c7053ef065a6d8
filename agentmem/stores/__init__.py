"""Where memories are kept: one protocol, a SQLite file, and a dictionary for tests."""

from __future__ import annotations

from agentmem.stores.base import Store
from agentmem.stores.sqlite import SqliteStore
