"""How much of a request the block may take."""

from __future__ import annotations

from agentmem.core.budget import calculate_token_budgets
from agentmem.core.values import dataclass

FRAME_TOKENS = 250
"""More than the block's own lines cost with any counter; what is not used is not taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many tokens the block may take, and its knowledge section.

    A `full` room is as large as the settings allow: messages that cost less
    would not make it larger.
    """

    limit_tokens: int = 0
    knowledge_tokens: int = 0
    full: bool = False


def room_for(
    *,
    window_tokens: int,
    reserve_tokens: int,
    system_tokens: int,
    query_tokens: int,
    other_tokens: int,
    preference_budget: int,
    knowledge_budget: int,
    working_budget: int,
) -> Room:
    """The room beside messages that cost so much; `other_tokens` are those that have to stay."""
    budgets = calculate_token_budgets(
        window_tokens=window_tokens,
        system_tokens=system_tokens,
        query_tokens=query_tokens,
        reserve_tokens=reserve_tokens,
        preference_tokens=preference_budget,
        base_knowledge_tokens=knowledge_budget,
    )
    free = budgets.available_tokens - other_tokens
    wanted = budgets.preference_tokens + budgets.knowledge_tokens + working_budget + FRAME_TOKENS
    return Room(
        limit_tokens=max(0, min(free, wanted)),
        knowledge_tokens=budgets.knowledge_tokens,
        full=(
            free >= wanted
            and budgets.preference_tokens == preference_budget
            and budgets.knowledge_tokens == knowledge_budget
        ),
    )
