"""The everyday API: one object that wires store, indexes and embedder, and decides nothing."""

from __future__ import annotations

from agentmem.manager.adding import Addable
from agentmem.manager.agents import Agents
from agentmem.manager.changing import Changing
from agentmem.manager.living import Living
from agentmem.manager.reading import Reading
from agentmem.manager.upkeep import Upkeep

__all__ = ["Addable", "MemoryManager"]


class MemoryManager(Reading, Changing, Upkeep, Agents, Living):
    """A memory.

    Every call may say whose memory is meant with `user_id`, `project_id`,
    `agent_id` and `run_id`; somebody not named is the one user of a memory
    without users. What is returned, counted, changed or ranked is only what
    that reader may see (P24).
    """
