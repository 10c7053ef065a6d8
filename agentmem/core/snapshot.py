"""The trace of one built context: what was looked at, what went in, what was left out and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Literal

from agentmem.core.values import dataclass
from agentmem.types import EMPTY, Memory, Scope, utc

Decision = Literal["kept", "cut", "dropped"]
Section = Literal["knowledge", "profile", "working", "history", "media", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """One thing that was offered to a context. Scores are `None` where a leg did not see it.

    `rank` is its place in the fused order, from 1; `merit` the composite score that
    decides between equally relevant ones. `reason` is written for people.
    `text` is the whole text that was offered, also when less of it went in;
    `url` to `speaker` are what its citation shows, so that the fill can be
    replayed to the token. `fixed` says that no setting would have changed its
    fate: it is in the conversation already, say, or stands in the profile.
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
    merit: float | None = None
    lexical: float | None = None
    vector: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None
    boosts: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    url: str = ""
    origin: str = ""
    retrieved: str = ""
    heading: str = ""
    speaker: str = ""
    fixed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much of the window one component took."""

    name: str
    tokens: int
    items: int


LATE_STEPS = frozenset({"count", "plan", "trace"})
"""Steps that nothing that is sent waits for."""


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
    `knowledge_limit` is the most the knowledge section could have had whatever
    its budget (worked out from the parts where it is not said); `total_found`
    what "Showing X of Y" named as Y.
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
    knowledge_limit: int | None = None
    total_found: int = 0

    @property
    def kept(self) -> tuple[Looked, ...]:
        """What went in, whole or cut."""
        return tuple(looked for looked in self.looked_at if looked.decision != "dropped")

    @property
    def build_ms(self) -> float:
        """How long the request waited for it; what was counted afterwards took nobody's time."""
        return sum(spent for name, spent in self.timings_ms.items() if name not in LATE_STEPS)

    @property
    def room_tokens(self) -> int:
        """What the prompt may have: the window without what is reserved for the answer."""
        return max(0, self.window_tokens - self.reserve_tokens)

    @property
    def usage(self) -> float | None:
        """The share of that room the prompt takes; `None` where there is no room."""
        return self.estimated_tokens / self.room_tokens if self.room_tokens else None

    @property
    def estimate_error(self) -> float | None:
        """How far the estimate was off what the provider counted, as a share of it."""
        actual = self.outcome.prompt_tokens if self.outcome else None
        return (self.estimated_tokens - actual) / actual if actual else None


def looked_at(
    memory: Memory, *, section: Section, decision: Decision, reason: str, **scores: Any
) -> Looked:
    """The trace of a memory that was offered; `scores` are the other fields of `Looked`."""
    fields: dict[str, Any] = {
        "text": memory.text,
        "kind": memory.kind,
        "title": memory.title,
        "url": memory.source_url,
        "origin": memory.origin,
        "retrieved": utc(memory.created_at).date().isoformat(),
        "heading": " › ".join(memory.heading_path),
        "speaker": memory.speaker,
    }
    return Looked(
        id=memory.id, section=section, decision=decision, reason=reason, **(fields | scores)
    )
