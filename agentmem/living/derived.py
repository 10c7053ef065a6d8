"""What goes with a memory when it is erased: its duplicates, and what was learned from it.

Somebody who erases what they see means all of it: a near-duplicate that was
merged into it says the same, and a fact that was taken from it quotes it.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentmem.errors import RecordNotFound
from agentmem.living.learning import LEARNED_FROM
from agentmem.stores.base import Store
from agentmem.types import Memory, Scope


def with_derived(store: Store, scope: Scope, ids: Sequence[str]) -> list[str]:
    """`ids`, with the losers merged into them and the facts learned from them alone."""
    wanted = dict.fromkeys(ids)
    waiting = list(wanted)
    while waiting:
        memory_id = waiting.pop()
        found = _get(store, scope, memory_id)
        if found is None:
            continue
        merged = found.metadata.get("merged_from")
        names = [str(name) for name in merged] if isinstance(merged, list | tuple) else []
        names = [name for name in names if _stands_for(store, scope, found, name)]
        names += _learned(store, scope, memory_id, wanted)
        for name in names:
            if name not in wanted:
                wanted[name] = None
                waiting.append(name)
    return list(wanted)


def _stands_for(store: Store, scope: Scope, survivor: Memory, name: str) -> bool:
    loser = _get(store, scope, name)
    return loser is not None and loser.superseded_by == survivor.id and loser.valid_to is None


def _learned(store: Store, scope: Scope, memory_id: str, wanted: dict[str, None]) -> list[str]:
    facts = [
        link.first_id
        for link in store.links.of(scope, memory_id)
        if link.relation == LEARNED_FROM and link.second_id == memory_id
    ]
    return [
        fact
        for fact in facts
        if all(
            link.second_id in wanted
            for link in store.links.of(scope, fact)
            if link.relation == LEARNED_FROM and link.first_id == fact
        )
    ]


def _get(store: Store, scope: Scope, memory_id: str) -> Memory | None:
    try:
        return store.get(scope, memory_id, deleted=True)
    except RecordNotFound:
        return None
