"""One sort, one fill, and how many tokens each part of a prompt may have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Literal

from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.packages import (
    DEFAULT_WEIGHTS,
    ContentPackage,
    ScoreWeights,
    require_now,
    score,
)
from agentmem.core.values import dataclass
from agentmem.errors import FixedContentTooLarge, InvalidInput
from agentmem.protocols import TokenCounter

BASE_KNOWLEDGE_TOKENS = 2_000
PREFERENCE_TOKENS = 500
KNOWLEDGE_SHARE = 0.3
_SHARE_UNITS = 1_000_000

Shrink = Callable[[str, int], str]
"""Cuts a text to at most so many tokens, or to nothing; `truncate_at_sentence` fits."""
Outcome = Literal["fixed", "kept", "cut", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudgets:
    """What each part may have, with every number on the way (P4).

    `available_tokens` is negative when the window cannot hold system prompt,
    question and reserve; the budgets are then 0. `history_tokens` is what is
    left for the conversation when preferences and knowledge use all of theirs.
    """

    window_tokens: int
    system_tokens: int
    query_tokens: int
    reserve_tokens: int
    available_tokens: int
    preference_tokens: int
    base_knowledge_tokens: int
    knowledge_share: float
    knowledge_tokens: int
    history_tokens: int


def calculate_token_budgets(
    *,
    window_tokens: int,
    system_tokens: int,
    query_tokens: int,
    reserve_tokens: int,
    preference_tokens: int = PREFERENCE_TOKENS,
    base_knowledge_tokens: int = BASE_KNOWLEDGE_TOKENS,
    knowledge_share: float = KNOWLEDGE_SHARE,
) -> TokenBudgets:
    """The budgets for one request.

    The whole preference budget is deducted before the knowledge budget, also
    when the preferences turn out shorter: the knowledge budget then stays the
    same from turn to turn, and what preferences leave goes to the history.
    """
    for name, value in (
        ("window_tokens", window_tokens),
        ("system_tokens", system_tokens),
        ("query_tokens", query_tokens),
        ("reserve_tokens", reserve_tokens),
    ):
        require_count(value, name)
    available = window_tokens - system_tokens - query_tokens - reserve_tokens
    preference = min(require_count(preference_tokens, "preference_tokens"), max(0, available))
    knowledge = calculate_knowledge_budget(
        available,
        base_tokens=base_knowledge_tokens,
        preference_tokens=preference,
        share=knowledge_share,
    )
    return TokenBudgets(
        window_tokens=window_tokens,
        system_tokens=system_tokens,
        query_tokens=query_tokens,
        reserve_tokens=reserve_tokens,
        available_tokens=available,
        preference_tokens=preference,
        base_knowledge_tokens=base_knowledge_tokens,
        knowledge_share=knowledge_share,
        knowledge_tokens=knowledge,
        history_tokens=max(0, available - preference - knowledge),
    )


def calculate_knowledge_budget(
    available_tokens: int,
    *,
    base_tokens: int = BASE_KNOWLEDGE_TOKENS,
    preference_tokens: int = 0,
    share: float = KNOWLEDGE_SHARE,
) -> int:
    """min(base, share × (available − preference budget)), rounded down, never negative.

    `available_tokens` may be negative, which gives 0. The share is read to six
    decimals and applied in whole numbers, so no rounding error costs a token.
    """
    require_count(base_tokens, "base_tokens")
    require_count(preference_tokens, "preference_tokens")
    require_number(share, "share", low=0.0, high=1.0)
    left = _whole_number(available_tokens, "available_tokens") - preference_tokens
    return max(0, min(base_tokens, left * round(share * _SHARE_UNITS) // _SHARE_UNITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a package, and why.

    `sent` is the package as it goes out: the same, a cut one, or `None`.
    """

    package: ContentPackage
    outcome: Outcome
    reason: str
    sent: ContentPackage | None = None
    score: float | None = None

    @property
    def tokens(self) -> int:
        """The tokens that go out."""
        return self.sent.tokens if self.sent else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """The outcome of a fill: every package's fate, in the order they were tried."""

    limit_tokens: int
    fates: tuple[Fate, ...]

    @property
    def kept(self) -> tuple[ContentPackage, ...]:
        """The packages to send, fixed ones first, then by score."""
        return tuple(fate.sent for fate in self.fates if fate.sent)

    @property
    def dropped(self) -> tuple[ContentPackage, ...]:
        return tuple(fate.package for fate in self.fates if not fate.sent)

    @property
    def used_tokens(self) -> int:
        return sum(fate.tokens for fate in self.fates)

    @property
    def left_tokens(self) -> int:
        return self.limit_tokens - self.used_tokens


def fill(
    packages: Iterable[ContentPackage],
    limit_tokens: int,
    *,
    now: datetime,
    weights: ScoreWeights = DEFAULT_WEIGHTS,
    shrink: Shrink | None = None,
    count: TokenCounter | None = None,
) -> BudgetReport:
    """Fixed packages, then the best-scored ones that fit in `limit_tokens` (P14).

    A package too large for what is left is dropped; smaller ones after it are
    still tried. Equal scores are tried in the order of their ids. If the fixed
    packages alone do not fit, `FixedContentTooLarge` is raised.

    With `shrink` (and `count`, to know what the result costs), a text with
    `min_tokens` that does not fit whole is cut to what is left, and dropped
    only if that would leave fewer than `min_tokens`, or nothing. Without it,
    and for content that is not text, it is all or nothing.
    """
    require_count(limit_tokens, "limit_tokens")
    require_now(now)
    if shrink is not None and count is None:
        raise InvalidInput("count", None, "is missing", remedy="Pass count= beside shrink=.")
    listed = list_packages(packages)
    fixed = sorted((p for p in listed if not p.can_drop), key=_tie_key)
    needed = sum(package.tokens for package in fixed)
    if needed > limit_tokens:
        raise FixedContentTooLarge(
            needed_tokens=needed,
            limit_tokens=limit_tokens,
            items=tuple(f"{p.id} {p.tokens:,}" for p in sorted(fixed, key=lambda p: -p.tokens)),
        )
    fates = [Fate(package=p, outcome="fixed", reason="fixed: always sent", sent=p) for p in fixed]
    left = limit_tokens - needed
    for value, package in _ranked(listed, now=now, weights=weights):
        fate = _try(package, left, value=value, shrink=shrink, count=count)
        fates.append(fate)
        left -= fate.tokens
    return BudgetReport(limit_tokens=limit_tokens, fates=tuple(fates))


def list_packages(packages: Iterable[ContentPackage]) -> list[ContentPackage]:
    """`packages` as a list, refused if anything else is in it."""
    listed = list(packages)
    for package in listed:
        if not isinstance(package, ContentPackage):
            raise InvalidInput(
                "packages", package, "holds something else", remedy="Pass ContentPackage values."
            )
    return listed


def _try(
    package: ContentPackage,
    left: int,
    *,
    value: float,
    shrink: Shrink | None,
    count: TokenCounter | None,
) -> Fate:
    if package.tokens <= left:
        reason = f"kept: needs {package.tokens:,}, {left:,} left"
        return Fate(package=package, outcome="kept", reason=reason, sent=package, score=value)
    reason = f"did not fit: needs {package.tokens:,}, {left:,} left"
    if package.min_tokens is not None:
        cut = _cut(package, left, shrink=shrink, count=count)
        if cut:
            reason = f"cut from {package.tokens:,} to {cut.tokens:,}: {left:,} left"
            return Fate(package=package, outcome="cut", reason=reason, sent=cut, score=value)
        reason = f"did not fit: needs {package.tokens:,}, at least {package.min_tokens:,}, "
        reason += f"{left:,} left"
    return Fate(package=package, outcome="dropped", reason=reason, score=value)


def _cut(
    package: ContentPackage, left: int, *, shrink: Shrink | None, count: TokenCounter | None
) -> ContentPackage | None:
    text, least = package.content, package.min_tokens
    if shrink is None or count is None or not isinstance(text, str) or least is None:
        return None
    # What the package costs beyond its text (a wrapper) stays when the text is cut.
    overhead = max(0, package.tokens - require_count(count(text), "count(text)"))
    room = left - overhead
    if room <= 0 or left < least:
        return None
    shorter = require_text(shrink(text, room), "shrink(text, limit)")
    tokens = require_count(count(shorter), "count(text)") + overhead
    if not shorter.strip() or not least <= tokens <= left:
        return None
    return replace(package, content=shorter, tokens=tokens)


def _ranked(
    packages: list[ContentPackage], *, now: datetime, weights: ScoreWeights
) -> list[tuple[float, ContentPackage]]:
    scored = [(score(p, now=now, weights=weights), p) for p in packages if p.can_drop]
    ids = [package.id for _, package in scored]
    if len(ids) == len(set(ids)):
        return sorted(scored, key=lambda pair: (-pair[0], pair[1].id))
    return sorted(scored, key=lambda pair: (-pair[0], *_tie_key(pair[1])))


def _tie_key(package: ContentPackage) -> tuple[str, int, str]:
    """Ids should differ; where they do not, the order must still not depend on the input's."""
    return (package.id, package.tokens, repr(package))


def _whole_number(value: object, name: str) -> int:
    return require_count(value, name, least=-(10**30))
