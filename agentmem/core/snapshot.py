"""The trace of one built context: what was looked at, what went in, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from agentmem.types import EMPTY, Scope

Decision = Literal["kept", "cut", "dropped"]
Section = Literal["knowledge", "profile", "working", "history", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One thing that was offered to a context. Scores are `None` where a leg did not see it.

    `rank` is its place in the fused order, from 1. `reason` is written for people.
    """

    id: str
    section: Section
    decision: Decision
    reason: str
    kind: str = ""
    title: str = ""
    text: str = ""
    tokens: int = 0
    rank: int | None = None
    score: float | None = None
    lexical: float | None = None
    vector: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    boosts: Mapping[str, float] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much of the window one component took."""

    name: str
    tokens: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came back from the model, once it is known."""

    answer: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    duration_ms: float | None = None
    usage: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything about one built context; `outcome` is added after the model's answer.

    `settings` are those the context was built with, so that the plan can be
    replayed with others. `message` is the reference message as it was sent.
    """

    id: str
    message_id: str
    created_at: datetime
    scope: Scope
    model: str
    query: str
    window_tokens: int
    reserve_tokens: int
    estimated_tokens: int
    settings: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    parts: tuple[Part, ...] = ()
    looked_at: tuple[Looked, ...] = ()
    message: str = ""
    warnings: tuple[str, ...] = ()
    degradations: tuple[str, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    cached: bool = False
    outcome: Outcome | None = None
