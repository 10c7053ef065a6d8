"""Marks in the metadata of a memory: forgotten or put away by living memory, pinned by somebody.

They are metadata so that every store, export and history keeps them, and so
that taking one away is all it takes to have the memory back.
"""

from __future__ import annotations

from agentmem.types import Memory

FORGOTTEN_AT = "forgotten_at"
"""The memory is in no search and no listing; by id it can still be read."""
COLD_AT = "cold_at"
"""The memory has left the indexes that are kept ready; a search for cold ones still finds it."""


def is_forgotten(memory: Memory) -> bool:
    """Whether a consolidation took the memory out of search."""
    return FORGOTTEN_AT in memory.metadata


def is_cold(memory: Memory) -> bool:
    """Whether the memory has left the hot indexes."""
    return COLD_AT in memory.metadata


def is_pinned(memory: Memory) -> bool:
    """Whether somebody asked to keep this memory."""
    return memory.metadata.get("pinned") is True
