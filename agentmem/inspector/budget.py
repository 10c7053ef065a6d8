"""What a request would cost, before there is one: no store, no model, no messages."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from agentmem.base.checks import require_count
from agentmem.base.errors import AgentMemWarning, FixedContentTooLarge
from agentmem.prompt.budget import (
    Budget,
    ContentPackage,
    Fate,
    calculate_token_budgets,
    fill,
    make_package,
    tally,
)
from agentmem.tokens.media import Media

_IMAGE_SIDE_PIXELS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What one of each is taken to cost, in tokens; images are counted for the model."""

    system: int = 400
    message: int = 120
    current: int = 60
    memory: int = 180
    preference: int = 20
    tool_schema: int = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetEstimate:
    """A dry run: what would be sent, what would not, and what was assumed."""

    model: str
    counted_with: str
    budget: Budget
    dropped: tuple[Fate, ...]
    knowledge_budget: int
    preference_budget: int
    history_budget: int
    image_tokens: int
    sizes: Sizes
    problem: str = ""
    notes: tuple[str, ...] = ()


def estimate_budget(
    model: str,
    *,
    messages: int = 0,
    memories: int = 0,
    images: int = 0,
    preferences: int = 0,
    tools: int = 0,
    window_tokens: int | None = None,
) -> BudgetEstimate:
    """Where the tokens of such a request would go with `model`."""
    for name, value in (
        ("messages", messages), ("memories", memories), ("images", images),
        ("preferences", preferences), ("tools", tools),
    ):  # fmt: skip
        if require_count(value, name) > 100_000:
            from agentmem.base.errors import InvalidNumber

            raise InvalidNumber(name, value, "is more than 100,000", remedy="Use fewer.")
    from agentmem.tokens.counter import Tokenizer

    each = Sizes()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AgentMemWarning)
        tokenizer = Tokenizer(model, context_window=window_tokens)
        side = _IMAGE_SIDE_PIXELS
        image = tokenizer.count_media(Media(kind="image", width=side, height=side))
    window, reserve = tokenizer.limits.window, tokenizer.reserve.total
    budgets = calculate_token_budgets(
        window_tokens=window,
        system_tokens=each.system + tools * each.tool_schema,
        query_tokens=each.current,
        reserve_tokens=reserve,
    )
    wanted = [
        _package("system-prompt", 0, each.system),
        _package("message-current", 0, each.current),
        *(_package("tool-schema", at, each.tool_schema) for at in range(tools)),
    ]
    offered = [
        *(_package("preference", at, each.preference) for at in range(preferences)),
        *(_package("memory-semantic", at, each.memory) for at in range(memories)),
        *(_package("message-recent", at, each.message) for at in range(messages)),
        *(_package("media-image", at, image) for at in range(images)),
    ]
    kept: tuple[ContentPackage, ...]
    dropped: tuple[Fate, ...]
    try:
        report = fill([*wanted, *offered], window - reserve)
        kept, dropped, problem = report.kept, report.dropped, ""
    except FixedContentTooLarge as error:
        kept, dropped, problem = (*wanted, *offered), (), str(error)
    return BudgetEstimate(
        model=model,
        counted_with=tokenizer.counted_with,
        budget=tally(kept, window_tokens=window, reserved_tokens=reserve, memories_asked=memories),
        dropped=dropped,
        knowledge_budget=budgets.knowledge_tokens,
        preference_budget=budgets.preference_tokens,
        history_budget=budgets.history_tokens,
        image_tokens=image,
        sizes=each,
        problem=problem,
        notes=tuple(dict.fromkeys(str(warning.message) for warning in caught)),
    )


def _package(kind: str, at: int, tokens: int) -> ContentPackage:
    return make_package(kind, id=f"{kind}-{at:05d}", tokens=tokens)
