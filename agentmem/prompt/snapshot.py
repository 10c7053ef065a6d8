"""The trace of one built context: what was looked at, what went in, what was left out and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from agentmem.base.types import EMPTY, Hit, Memory, Scope, quoted, served_text, utc
from agentmem.prompt.budget import ContentPackage, Fate, make_package
from agentmem.prompt.build import BuiltBlock, Chosen, SourceFate

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
    """What came back from the model, once it is known.

    `calls` counts the tool calls of the turn: `made`, `succeeded`, `corrected`
    (a failed one after which the same tool succeeded), results that were `kept`
    and stood in for, and of those the ones `read_back`.
    """

    answer: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    duration_ms: float | None = None
    usage: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    error: str = ""
    calls: Mapping[str, int] = field(default_factory=lambda: EMPTY)


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

    def __repr__(self) -> str:
        return f"Snapshot({quoted(self.query)}, {len(self.kept)} kept, id={self.id!r})"

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


# ----------------------------------------------------------------------------
# The trace of a built context: what was looked at, and where the tokens went.


def packages_of(built: BuiltBlock) -> list[ContentPackage]:
    """The reference message as fixed packages, one for each thing it shows and one for its frame.

    It was cut to its own budget already; together they cost what it costs.
    """
    if built.text is None:
        return []
    sections = (
        ("", built.knowledge.fates),
        ("preference", built.profile),
        ("tool-result", built.pointers),
    )
    shown = [
        make_package(kind or fate.type, id=fate.id, tokens=fate.tokens, can_drop=False)
        for kind, fates in sections
        for fate in fates
        if fate.outcome != "dropped"
    ]
    frame = built.tokens - sum(package.tokens for package in shown)
    return [*shown, make_package("overhead", id="reference", tokens=max(0, frame))]


def looked_at_knowledge(
    hits: Sequence[Hit],
    chosen: Chosen,
    built: BuiltBlock,
    *,
    factors: Mapping[str, float] = EMPTY,
    reasons: Mapping[str, str] = EMPTY,
) -> list[Looked]:
    """What was found, with its scores and fate; tool results that are pointed to are `working`.

    `reasons` say why something was offered that no search found.
    """
    passed_by = {hit.memory.id: reason for hit, reason in chosen.passed_over}
    fates = {fate.id: fate for fate in (*built.knowledge.fates, *built.pointers)}
    pointers = {fate.id for fate in built.pointers}
    looked = []
    for rank, hit in enumerate(hits, start=1):
        memory = hit.memory
        fate = fates.get(memory.id, _NO_ROOM)
        passed = passed_by.get(memory.id, "")
        offered = f"{reasons[memory.id]}; " if memory.id in reasons else ""
        factor = factors.get(memory.id, 1.0)
        looked.append(
            looked_at(
                memory,
                fate,
                section="working" if memory.id in pointers else "knowledge",
                reason=passed or offered + fate.reason,
                text=served_text(memory),
                rank=rank,
                score=hit.score,
                merit=chosen.merits.get(memory.id),
                lexical=hit.lexical,
                vector=hit.vector,
                lexical_rank=hit.lexical_rank,
                vector_rank=hit.vector_rank,
                # What being cited or passed over does to the score, as a part of it.
                boosts=EMPTY if factor == 1.0 else {"use": factor - 1.0},
                fixed=bool(passed) and not passed.startswith(("below", "over")),
            )
        )
    return looked


def looked_at_profile(
    profile: Sequence[Memory], built: BuiltBlock, *, heard: Collection[str] = ()
) -> list[Looked]:
    """The preferences that were offered, and which of them had room; `heard` came just now."""
    fates = (*built.profile, *[_NO_ROOM] * len(profile))
    return [
        looked_at(
            memory,
            fate,
            section="profile",
            reason=f"{fate.reason}; heard in this turn" if memory.id in heard else fate.reason,
            text=memory.text,
        )
        for memory, fate in zip(profile, fates, strict=False)
    ]


_NO_ROOM = SourceFate(id="", outcome="dropped", reason="no room for a block")


def looked_at(memory: Memory, fate: SourceFate, **more: Any) -> Looked:
    """The trace of a memory that was offered; `more` are the other fields of `Looked`."""
    return Looked(
        id=memory.id,
        decision="kept" if fate.outcome == "included" else fate.outcome,
        tokens=fate.tokens,
        kind=memory.kind,
        title=memory.title,
        url=memory.source_url,
        origin=memory.origin,
        retrieved=utc(memory.created_at).date().isoformat(),
        heading=" › ".join(memory.heading_path),
        speaker=memory.speaker,
        **more,
    )


def looked_at_messages(dropped: Iterable[Fate]) -> list[Looked]:
    """The messages and media that had to stay behind."""
    return [
        Looked(
            id=fate.package.id,
            section="media" if fate.package.type.startswith("media-") else "history",
            decision="dropped",
            reason=fate.reason,
            kind=fate.package.type,
            tokens=fate.package.tokens,
        )
        for fate in dropped
    ]


# ----------------------------------------------------------------------------
# What a kept trace is found by: the memories in it, its message, what was said in its turn.


TEXT_PREFIX = "text:"
MESSAGE_PREFIX = "message:"
SAID_PREFIX = "said:"
ERASED_TEXT = "(erased)"


def said_mention(memory_id: str) -> str:
    """How the trace of a turn names a memory of what was said in it."""
    return SAID_PREFIX + memory_id
