"""Divide a budget among four tiers and fill each at the level it affords (P36).

    1 critical      what must be known now: in full
    2 relevant      what will probably be needed: summaries
    3 background    how things are done here: compressed
    4 index         what can be asked for: one line and an id

What one tier leaves is the next one's to use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Literal, get_args

from agentmem.core.checks import require_choice, require_count, require_number, require_text
from agentmem.core.cleaning import clean_line, clean_text
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter
from agentmem.types import Level

Tier = Literal[1, 2, 3, 4]
Shares = tuple[float, float, float, float]
Outcome = Literal["included", "lowered", "dropped"]

TIERS: tuple[Tier, ...] = (1, 2, 3, 4)
NAMES: Mapping[Tier, str] = MappingProxyType(
    {1: "Critical", 2: "Relevant", 3: "Background", 4: "Can be asked for"}
)
LEVELS: Mapping[Tier, tuple[Level, ...]] = MappingProxyType(
    {
        1: ("full", "summary", "compressed", "index"),
        2: ("summary", "compressed", "index"),
        3: ("compressed", "index"),
        4: ("index",),
    }
)
SHARES: Mapping[str, Shares] = MappingProxyType(
    {
        "general": (0.25, 0.375, 0.25, 0.125),
        "debugging": (0.375, 0.3125, 0.1875, 0.125),
        "feature": (0.1875, 0.4375, 0.25, 0.125),
        "review": (0.25, 0.3125, 0.3125, 0.125),
        "writing": (0.125, 0.375, 0.375, 0.125),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierItem:
    """A memory that may be shown: its text at each level, and why it is here.

    `levels` has the four texts from full to index; the nearest fuller one
    stands where a level was not made. Items are tried in the order given.
    """

    id: str
    levels: tuple[str, str, str, str]
    why: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        require_text(self.id, "id")
        if len(self.levels) != len(get_args(Level)):
            raise InvalidInput("levels", self.levels, "are not four texts", remedy="Full to index.")
        for text in (*self.levels, self.why, self.kind):
            require_text(text, "levels")

    def at(self, level: Level) -> str:
        return self.levels[get_args(Level).index(level)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TierFate:
    """What became of an item, at which level, and what it costs."""

    id: str
    tier: Tier
    outcome: Outcome
    level: Level | None = None
    tokens: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TieredContext:
    """The assembled text, what each tier costs, and what could not be read for it."""

    text: str = ""
    tokens: int = 0
    budget_tokens: int = 0
    tier_budgets: Mapping[int, int] = field(default_factory=dict)
    tier_tokens: Mapping[int, int] = field(default_factory=dict)
    fates: tuple[TierFate, ...] = ()
    degradations: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """What is shown, in order."""
        return tuple(fate.id for fate in self.fates if fate.outcome != "dropped")


def shares_for(activity: str, table: Mapping[str, Shares] = SHARES) -> Shares:
    """The shares of an activity; they are parts of one whole."""
    require_choice(activity, tuple(table), "activity")
    shares = table[activity]
    if len(shares) != len(TIERS):
        raise InvalidInput("shares", shares, "are not four", remedy="One share for each tier.")
    for share in shares:
        require_number(share, "share", low=0.0, high=1.0)
    if abs(sum(shares) - 1.0) > 1e-9:
        raise InvalidInput("shares", shares, "do not sum to 1", remedy="They divide one budget.")
    return shares


def split_budget(total_tokens: int, shares: Shares) -> dict[Tier, int]:
    """`total_tokens` divided by `shares`, to the last token."""
    require_count(total_tokens, "total_tokens")
    whole = [int(total_tokens * share) for share in shares]
    rest = sorted(range(len(shares)), key=lambda at: (-(total_tokens * shares[at] - whole[at]), at))
    for at in rest[: total_tokens - sum(whole)]:
        whole[at] += 1
    return dict(zip(TIERS, whole, strict=True))


def assemble_tiers(
    items: Mapping[Tier, Sequence[TierItem]],
    total_tokens: int,
    *,
    count: TokenCounter,
    shares: Shares = SHARES["general"],
) -> TieredContext:
    """The items that fit, tier by tier, each at the fullest level its tier affords.

    An item that fits at no level is dropped and the ones after it are still
    tried. One that an earlier tier shows is not shown again. The whole text
    never costs more than `total_tokens`, headings included.
    """
    budgets = split_budget(total_tokens, shares)
    lines: dict[Tier, list[tuple[str, TierFate]]] = {tier: [] for tier in TIERS}
    fates: list[TierFate] = []
    shown: set[str] = set()
    left = 0
    for tier in TIERS:
        left += budgets[tier]
        for item in items.get(tier, ()):
            if item.id in shown:
                continue
            heading = 0 if lines[tier] else count(_heading(tier))
            line, fate = _fit(item, tier, left - heading, count)
            fates.append(fate)
            if fate.outcome != "dropped":
                shown.add(item.id)
                lines[tier].append((line, fate))
                left -= fate.tokens + heading
    text = _render(lines)
    # Counters may give a whole more than its parts: the last and least goes first.
    while count(text) > total_tokens:
        tier = next(tier for tier in reversed(TIERS) if lines[tier])
        _, fate = lines[tier].pop()
        fates[fates.index(fate)] = TierFate(
            id=fate.id, tier=tier, outcome="dropped", why="no room in the whole"
        )
        text = _render(lines)
    return TieredContext(
        text=text,
        tokens=count(text) if text else 0,
        budget_tokens=total_tokens,
        tier_budgets={int(tier): tokens for tier, tokens in budgets.items()},
        tier_tokens={
            tier: sum(fate.tokens for _, fate in kept) + (count(_heading(tier)) if kept else 0)
            for tier, kept in lines.items()
        },
        fates=tuple(fates),
    )


def order_tiers(
    items: Mapping[Tier, Sequence[TierItem]],
    total_tokens: int,
    *,
    count: TokenCounter,
    shares: Shares = SHARES["general"],
) -> tuple[TierFate, ...]:
    """The items of all tiers as one order of candidates, for a fill that keeps to it.

    However early that fill stops, what is in has been divided by about these
    shares: next comes the tier that is furthest behind its share, of equals the
    more urgent one, and a tier that has no more leaves its share to the others.
    The last tier, whose items are only named, comes last. An item has the
    fullest level of its tier that fits the tier's share by itself, else its
    shortest. Nothing is dropped; one that an earlier tier has is not given again.
    """
    budgets = split_budget(total_tokens, shares)
    waiting: dict[Tier, list[TierFate]] = {}
    there: set[str] = set()
    for tier in TIERS:
        mine: dict[str, TierItem] = {}
        for item in items.get(tier, ()):
            if item.id not in there:
                mine.setdefault(item.id, item)
        there |= set(mine)
        fates = [_at_level(item, tier, budgets[tier], count) for item in mine.values()]
        waiting[tier] = fates[::-1]
    ordered: list[TierFate] = []
    given = dict.fromkeys(TIERS, 0.0)
    named = waiting.pop(TIERS[-1])
    while left := [tier for tier, fates in waiting.items() if fates]:
        tier = min(left, key=lambda tier: (given[tier], tier))
        fate = waiting[tier].pop()
        share = shares[tier - 1]
        given[tier] += fate.tokens / share if share else float("inf")
        ordered.append(fate)
    return (*ordered, *reversed(named))


def _at_level(item: TierItem, tier: Tier, share_tokens: int, count: TokenCounter) -> TierFate:
    levels = LEVELS[tier]
    for level in levels:
        tokens = count(item.at(level))
        if tokens <= share_tokens or level == levels[-1]:
            break
    outcome: Outcome = "included" if level == levels[0] else "lowered"
    return TierFate(
        id=item.id, tier=tier, outcome=outcome, level=level, tokens=tokens, why=item.why
    )


def _fit(item: TierItem, tier: Tier, left_tokens: int, count: TokenCounter) -> tuple[str, TierFate]:
    levels = LEVELS[tier]
    for level in levels:
        line = _line(item, level, tier)
        tokens = count(line)
        if tokens <= left_tokens:
            outcome: Outcome = "included" if level == levels[0] else "lowered"
            return line, TierFate(
                id=item.id, tier=tier, outcome=outcome, level=level, tokens=tokens, why=item.why
            )
    why = f"does not fit in the {max(0, left_tokens):,} tokens left"
    return "", TierFate(id=item.id, tier=tier, outcome="dropped", why=why)


def _heading(tier: Tier) -> str:
    return f"\n## {NAMES[tier]}\n"


def _line(item: TierItem, level: Level, tier: Tier) -> str:
    text = item.at(level)
    if tier == 4:
        return f"- {clean_line(text, limit_characters=300)} (memory_read {item.id})\n"
    why = f" [{clean_line(item.why, limit_characters=80)}]" if item.why else ""
    body = clean_text(text).replace("\n", "\n  ")
    return f"- {body}{why}\n"


def _render(lines: Mapping[Tier, Iterable[tuple[str, TierFate]]]) -> str:
    parts: list[str] = []
    for tier in TIERS:
        kept = [line for line, _ in lines[tier]]
        if kept:
            parts += [_heading(tier), *kept]
    return "".join(parts).strip("\n")
