"""The content package: anything that may enter a prompt, counted once, and its score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from agentmem.core.checks import require_count, require_number, require_text, require_unit
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, InvalidNumber, InvalidText
from agentmem.types import EMPTY, Message, require_instant

Content = str | Message | tuple[Message, ...]
"""A text, a message or content part as the caller has it, or messages that belong together."""

UNKNOWN = 0.5
"""Stands in for a relevance or a date nobody knows: neither good nor bad."""
RECENCY_DAYS = 30.0
_SECONDS_A_DAY = 86_400.0
_LARGEST_WEIGHT = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPackage:
    """One thing that may enter a prompt, with its tokens counted once.

    `can_drop=False` makes it fixed: it is always sent, whole. `min_tokens`
    allows a text to be cut down to that many tokens where the fill is given a
    way to cut; `None` means all or nothing. Types are an open set of strings.
    """

    id: str
    type: str
    content: Content
    tokens: int
    importance: float = 0.5
    relevance: float | None = None
    timestamp: datetime | None = None
    can_drop: bool = True
    priority: int = 5
    min_tokens: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        for name in ("id", "type"):
            if not require_text(getattr(self, name), name):
                raise InvalidText(name, "", "is empty", remedy=f"Give the package a {name}.")
        _require_content(self.content)
        require_count(self.tokens, "tokens")
        require_unit(self.importance, "importance")
        if self.relevance is not None:
            require_unit(self.relevance, "relevance")
        require_instant(self.timestamp, "timestamp")
        if not isinstance(self.can_drop, bool):
            raise InvalidInput(
                "can_drop", self.can_drop, "is not a bool", remedy="Pass True or False."
            )
        if require_count(self.priority, "priority", least=1) > 10:
            raise InvalidNumber("priority", self.priority, "is above 10", remedy="Use 1 to 10.")
        if self.min_tokens is not None and require_count(self.min_tokens, "min_tokens") > (
            self.tokens
        ):
            raise InvalidNumber(
                "min_tokens",
                self.min_tokens,
                f"is above the package's {self.tokens} tokens",
                remedy="Use None for all or nothing.",
            )
        if not isinstance(self.metadata, Mapping):
            raise InvalidInput("metadata", self.metadata, "is not a mapping", remedy="Pass a dict.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreWeights:
    """How much each part counts towards the score; only the proportions matter."""

    priority: float = 0.4
    importance: float = 0.3
    relevance: float = 0.2
    recency: float = 0.1

    def __post_init__(self) -> None:
        for name in ("priority", "importance", "relevance", "recency"):
            require_number(getattr(self, name), name, low=0.0, high=_LARGEST_WEIGHT)
        if self.total == 0.0:
            raise InvalidNumber(
                "weights", 0, "are all zero", remedy="Give at least one part a weight above 0."
            )

    @property
    def total(self) -> float:
        return math.fsum((self.priority, self.importance, self.relevance, self.recency))


DEFAULT_WEIGHTS = ScoreWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreParts:
    """What the score is made of, each from 0 to 1, before weighting."""

    priority: float
    importance: float
    relevance: float
    recency: float


def recency(timestamp: datetime | None, *, now: datetime) -> float:
    """exp(−days/30): 1 now, about 0.37 after a month.

    A moment in the future counts as now. Without a timestamp the answer is 0.5,
    the value of about three weeks.
    """
    if timestamp is None:
        return UNKNOWN
    days = max(0.0, (now - timestamp).total_seconds() / _SECONDS_A_DAY)
    return math.exp(-days / RECENCY_DAYS)


def score_parts(package: ContentPackage, *, now: datetime) -> ScoreParts:
    """The four parts: priority is divided by ten, an unknown relevance is 0.5."""
    return ScoreParts(
        priority=package.priority / 10,
        importance=float(package.importance),
        relevance=UNKNOWN if package.relevance is None else float(package.relevance),
        recency=recency(package.timestamp, now=now),
    )


def score(
    package: ContentPackage, *, now: datetime, weights: ScoreWeights = DEFAULT_WEIGHTS
) -> float:
    """The weighted mean of the package's parts, from 0 to 1 (P15)."""
    return weigh(score_parts(package, now=now), weights)


def weigh(parts: ScoreParts, weights: ScoreWeights = DEFAULT_WEIGHTS) -> float:
    """The weighted mean of the parts."""
    # fsum rounds once, so the sum can neither pass the total nor fall when a part grows.
    weighted = math.fsum(
        (
            weights.priority * parts.priority,
            weights.importance * parts.importance,
            weights.relevance * parts.relevance,
            weights.recency * parts.recency,
        )
    )
    return weighted / weights.total


def require_now(now: object) -> datetime:
    """`now` if it is a datetime with a time zone."""
    if not isinstance(now, datetime):
        raise InvalidInput("now", now, "is not a datetime", remedy="Pass the moment, in UTC.")
    require_instant(now, "now")
    return now


def _require_content(content: object) -> None:
    if isinstance(content, str):
        require_text(content, "content")
        return
    if isinstance(content, Mapping):
        return
    if isinstance(content, tuple) and all(isinstance(part, Mapping) for part in content):
        return
    raise InvalidInput(
        "content",
        content,
        "is neither a text, a message nor a tuple of messages",
        remedy="Pass a str, a dict or a tuple of dicts.",
    )
