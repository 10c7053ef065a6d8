"""The search of a memory that keeps its indexes in this process, for tests that look into it."""

from __future__ import annotations

import agentmem
from agentmem.search.local import LocalSearch


def local(memory: agentmem.MemoryManager) -> LocalSearch:
    """What `memory` searches with."""
    assert isinstance(memory.index, LocalSearch)
    return memory.index
