"""Who may see a memory: the one rule that every index and store must follow (P24)."""

from __future__ import annotations

from dataclasses import replace

from agentmem.types import Memory, Scope


def visible(memory: Memory, reader: Scope) -> bool:
    """Whether `reader` may see `memory`."""
    return may_see(reader, memory.visibility, memory.scope)


def may_see(reader: Scope, visibility: str, owner: Scope) -> bool:
    """Whether `reader` may see what `owner` keeps with this visibility.

    Private: the same user, where "no user" is a user of its own. Project: the
    same project. System: everybody. A project, agent or run named on the
    memory narrows it: a reader who names another one does not see it, a reader
    who names none does, since these are the reader's own memories.
    """
    if visibility == "private":
        if owner.user_id != reader.user_id:
            return False
        if not _fits(owner.project_id, reader.project_id):
            return False
    elif visibility == "project" and owner.project_id != reader.project_id:
        return False
    if visibility == "system":
        return True
    return _fits(owner.agent_id, reader.agent_id) and _fits(owner.run_id, reader.run_id)


def same_audience(one: Memory, other: Memory) -> bool:
    """Whether exactly the same readers see both: whose they are matters only to private ones."""
    return audience(one) == audience(other)


def audience(memory: Memory) -> tuple[str, Scope]:
    """Who sees a memory, in a form that is the same for all that the same readers see."""
    if memory.visibility == "private":
        return memory.visibility, memory.scope
    if memory.visibility == "project":
        return memory.visibility, replace(memory.scope, user_id=None)
    return memory.visibility, Scope()


def _fits(owner: str | None, reader: str | None) -> bool:
    return owner is None or reader is None or owner == reader
