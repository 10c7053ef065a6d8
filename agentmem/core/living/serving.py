"""Which level of a memory a context shows."""

from __future__ import annotations

from agentmem.types import Level, Memory, cognitive_type

WHOLE_KINDS = frozenset({"tool_result"})
"""Their summary is a pointer to them, not a shorter way to say the same."""


def served_level(memory: Memory) -> Level:
    """The shortest level that consolidation made of something that happened, else the full text.

    Facts, preferences and ways of doing things are always shown as they are.
    """
    if cognitive_type(memory.kind) != "episodic" or memory.kind in WHOLE_KINDS:
        return "full"
    if memory.compressed is not None:
        return "compressed"
    return "full" if memory.summary is None else "summary"


def served_text(memory: Memory) -> str:
    """The text a context shows of `memory`; by its id the whole text can always be read."""
    return memory.at_level(served_level(memory))
