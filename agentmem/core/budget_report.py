"""Where the tokens of a prompt go: per component, as a value and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from agentmem.core.budget import Fate
from agentmem.core.checks import require_count
from agentmem.core.packagers import COMPONENTS, TYPES, Types, rule_for
from agentmem.core.packages import ContentPackage
from agentmem.core.values import dataclass
from agentmem.errors import InvalidNumber

NEARLY_FULL_PERCENT = 80

WarningCode = Literal["over_budget", "nearly_full", "no_memories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeUse:
    """How many tokens and items of one package type there are."""

    type: str
    tokens: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentUse:
    """One component of a prompt, with its types from the largest down."""

    name: str
    by_type: tuple[TypeUse, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(use.tokens for use in self.by_type)

    @property
    def items(self) -> int:
        return sum(use.items for use in self.by_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarning:
    """Something the caller may want to act on."""

    code: WarningCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a prompt uses of a window, component by component.

    `reserved_tokens` are kept free for the answer; `percent` is of what is
    available without them. An over-budget prompt has a negative `remaining`.
    """

    window_tokens: int
    reserved_tokens: int
    components: tuple[ComponentUse, ...] = ()
    memories_asked: int = 0

    def __post_init__(self) -> None:
        require_count(self.window_tokens, "window_tokens")
        require_count(self.memories_asked, "memories_asked")
        if require_count(self.reserved_tokens, "reserved_tokens") > self.window_tokens:
            raise InvalidNumber(
                "reserved_tokens",
                self.reserved_tokens,
                f"is larger than the window of {self.window_tokens:,}",
                remedy="Lower the reserve or use a model with a larger window.",
            )

    @property
    def available_tokens(self) -> int:
        return self.window_tokens - self.reserved_tokens

    @property
    def used_tokens(self) -> int:
        return sum(component.tokens for component in self.components)

    @property
    def remaining_tokens(self) -> int:
        return self.available_tokens - self.used_tokens

    @property
    def percent(self) -> float:
        """Used of available, to one decimal; of one token where none is available."""
        return round(100 * self.used_tokens / max(1, self.available_tokens), 1)

    @property
    def over_budget(self) -> bool:
        return self.remaining_tokens < 0

    @property
    def warnings(self) -> tuple[BudgetWarning, ...]:
        found: list[BudgetWarning] = []
        if self.over_budget:
            text = f"Over budget by {-self.remaining_tokens:,} tokens."
            found.append(BudgetWarning(code="over_budget", text=text))
        elif 100 * self.used_tokens > NEARLY_FULL_PERCENT * self.available_tokens:
            text = f"Over {NEARLY_FULL_PERCENT} % of the budget is used."
            found.append(BudgetWarning(code="nearly_full", text=text))
        if self.memories_asked and not self.component("memories").items:
            text = f"No memories are in the prompt, though {self.memories_asked:,} were asked for."
            found.append(BudgetWarning(code="no_memories", text=text))
        return tuple(found)

    def component(self, name: str) -> ComponentUse:
        """A component by its name; an empty one if nothing of it is in the prompt."""
        return next((c for c in self.components if c.name == name), ComponentUse(name=name))


def tally(
    packages: Iterable[ContentPackage],
    *,
    window_tokens: int,
    reserved_tokens: int,
    memories_asked: int = 0,
    types: Types = TYPES,
) -> Budget:
    """The budget of these packages. A package of several messages counts as that many items.

    The eight usual components are always listed, also when empty; others
    only when something is in them.
    """
    used: dict[str, dict[str, tuple[int, int]]] = {
        name: {} for name in COMPONENTS if name != "other"
    }
    for package in packages:
        component = used.setdefault(rule_for(package.type, types).component, {})
        tokens, items = component.get(package.type, (0, 0))
        together = len(package.content) if isinstance(package.content, tuple) else 1
        component[package.type] = (tokens + package.tokens, items + together)
    return Budget(
        window_tokens=window_tokens,
        reserved_tokens=reserved_tokens,
        memories_asked=memories_asked,
        components=tuple(
            ComponentUse(
                name=name,
                by_type=tuple(
                    TypeUse(type=kind, tokens=tokens, items=items)
                    for kind, (tokens, items) in sorted(
                        by_type.items(), key=lambda pair: (-pair[1][0], pair[0])
                    )
                ),
            )
            for name, by_type in used.items()
        ),
    )


def budget_to_dict(budget: Budget) -> dict[str, Any]:
    """The budget as plain JSON values; the keys are listed in docs/budgets.md."""
    return {
        "window_tokens": budget.window_tokens,
        "reserved_tokens": budget.reserved_tokens,
        "available_tokens": budget.available_tokens,
        "used_tokens": budget.used_tokens,
        "remaining_tokens": budget.remaining_tokens,
        "percent": budget.percent,
        "over_budget": budget.over_budget,
        "memories_asked": budget.memories_asked,
        "components": {
            component.name: {
                "tokens": component.tokens,
                "items": component.items,
                "by_type": {
                    use.type: {"tokens": use.tokens, "items": use.items}
                    for use in component.by_type
                },
            }
            for component in budget.components
        },
        "warnings": [{"code": w.code, "text": w.text} for w in budget.warnings],
    }


def fates_to_list(fates: Iterable[Fate]) -> list[dict[str, Any]]:
    """Every package's fate as plain JSON values."""
    return [
        {
            "id": fate.package.id,
            "type": fate.package.type,
            "outcome": fate.outcome,
            "reason": fate.reason,
            "score": fate.score,
            "tokens": fate.package.tokens,
            "sent_tokens": fate.tokens,
        }
        for fate in fates
    ]
