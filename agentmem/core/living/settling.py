"""What new memories mean for the old ones they speak of: contradicted, or superseded."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from agentmem.core.living.consolidation import Planner
from agentmem.core.living.merging import choose_survivor, merge_metadata, merge_usage
from agentmem.core.living.plans import (
    ConsolidationPlan,
    ConsolidationSettings,
    LivingState,
    SimilarPair,
)
from agentmem.types import Memory


def plan_contradictions(
    state: LivingState,
    *,
    now: datetime,
    new: Collection[str],
    similar: Iterable[SimilarPair] = (),
    settings: ConsolidationSettings | None = None,
) -> ConsolidationPlan:
    """Contradictions of the memories `new` with others of `state`, and what they supersede."""
    planner = Planner(state, now, len, settings or ConsolidationSettings(), new)
    planner.contradict(tuple(similar))
    return ConsolidationPlan(operations=tuple(planner.operations))


def settle_for(winner: Memory, loser: Memory) -> tuple[Memory, Memory]:
    """Both after `winner` was found to be right: the other one is superseded by it.

    The loser held until the winner began; if it began later, it never held.
    Their times of validity do not overlap.
    """
    until = max(start_of(winner), start_of(loser))
    ended = replace(loser, superseded_by=winner.id, valid_to=until)
    return replace(winner, supersedes=winner.supersedes or loser.id), ended


def settle_as_one(first: Memory, second: Memory) -> tuple[Memory, Memory]:
    """Both after they were found to be one: what stays, with the metadata and use of both."""
    survivor, loser = choose_survivor(first, second)
    kept = replace(
        survivor,
        metadata=merge_metadata(survivor, loser),
        usage=merge_usage(survivor.usage, loser.usage),
    )
    return kept, replace(loser, superseded_by=survivor.id)


def start_of(memory: Memory) -> datetime:
    """When it began to hold."""
    return memory.valid_from or memory.created_at
