"""What goes with a memory when it is erased: its duplicates, and what was made of it.

Somebody who erases what they see means all of it: a near-duplicate that was
merged into it says the same, a fact or a preference that was taken from it
quotes it, and so does what a tool result was promoted to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from agentmem.base.types import Memory, Scope, is_pinned, visible

LEARNED_FROM = "learned from"
"""The relation of a fact to a message that states it: one of several is enough."""
HEARD_IN = "heard in"
"""The same of a preference."""
STATED_IN = (LEARNED_FROM, HEARD_IN)
DERIVED = "derived_from"
"""The relation of a memory to one that it was made of: its words are in it, whatever else is."""


class Origins(Protocol):
    """How memories, by row, came from each other; both stores tell it inside one transaction."""

    def memory(self, row: int, /) -> Memory | None: ...
    def merged_into(self, survivor: Memory, /) -> Iterable[int]: ...
    def made_of(self, row: int, /) -> Iterable[tuple[int, str]]: ...
    def sources_of(self, row: int, /) -> Iterable[tuple[int, str]]: ...


def derived_rows(origins: Origins, rows: Collection[int], reader: Scope) -> list[int]:
    """The rows that go with `rows`, of those the reader sees; pinned ones stay."""
    gone = set(rows)
    waiting, found = list(rows), []
    while waiting:
        row = waiting.pop()
        memory = origins.memory(row)
        if memory is None:
            continue
        loose = [
            one
            for one, relation in origins.made_of(row)
            if relation == DERIVED or (relation in STATED_IN and _unstated(origins, one, gone))
        ]
        for one in (*_merged(origins, memory), *loose):
            derived = origins.memory(one)
            if one in gone or derived is None or is_pinned(derived):
                continue
            if visible(derived, reader):
                gone.add(one)
                found.append(one)
                waiting.append(one)
    return found


def _merged(origins: Origins, survivor: Memory) -> list[int]:
    """The rows of duplicates that `survivor` stands for."""
    named = survivor.metadata.get("merged_from")
    ids = {str(name) for name in named} if isinstance(named, list | tuple) else set()
    if not ids:
        return []
    return [
        row
        for row in origins.merged_into(survivor)
        if (one := origins.memory(row)) is not None and one.id in ids and one.valid_to is None
    ]


def _unstated(origins: Origins, row: int, gone: Collection[int]) -> bool:
    """Whether no message is left that states this."""
    return not any(
        relation in STATED_IN and source not in gone and _is_there(origins, source)
        for source, relation in origins.sources_of(row)
    )


def _is_there(origins: Origins, row: int) -> bool:
    memory = origins.memory(row)
    return memory is not None and memory.deleted_at is None
