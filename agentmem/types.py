"""Values shared by all parts: who may see a memory, and the memory itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.core.checks import (
    all_ascii,
    require_choice,
    require_mapping,
    require_text,
    require_unit,
)
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, InvalidScope

Visibility = Literal["private", "project", "system"]
Origin = Literal["user", "assistant", "tool", "web", "import", "system"]
Level = Literal["full", "summary", "compressed", "index"]
CognitiveType = Literal["semantic", "episodic", "procedural"]
_VISIBILITIES: tuple[str, ...] = get_args(Visibility)
_ORIGINS: tuple[str, ...] = get_args(Origin)

Message = Mapping[str, Any]
"""A chat-completions message as the caller has it; we never change one in place."""

TextFormat = Literal["markdown", "text", "code", "chat"]
_FORMATS: tuple[str, ...] = ("auto", *get_args(TextFormat))

_COGNITIVE: Mapping[str, CognitiveType] = MappingProxyType(
    {
        "fact": "semantic",
        "preference": "semantic",
        "episode": "episodic",
        "message": "episodic",
        "page": "episodic",
        "tool_result": "episodic",
        "pattern": "procedural",
        "workflow": "procedural",
    }
)

EMPTY: Mapping[str, Any] = MappingProxyType({})

PREFERENCES_URL = "preference://user"
"""The source of every preference; what is kept under it is found without a search."""


def cognitive_type(kind: str) -> CognitiveType:
    """What sort of knowing a kind is; kinds nobody listed count as episodic."""
    return _COGNITIVE.get(kind, "episodic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose memory is meant. `None` means "not said", which for a user is a user of its own."""

    user_id: str | None = None
    project_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        for name in ("user_id", "project_id", "agent_id", "run_id"):
            value = getattr(self, name)
            if value is None:
                continue
            require_text(value, name)
            if not value:
                raise InvalidScope(name, value, "is empty", remedy="Leave it out or name somebody.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How often a memory was found, cited and passed over."""

    retrieved: int = 0
    cited: int = 0
    ignored: int = 0
    last_used_at: datetime | None = None


UNUSED = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One remembered thing. Every kind has the same fields, so each rule is written once."""

    id: str
    text: str
    created_at: datetime
    kind: str = "fact"
    scope: Scope = Scope()
    visibility: Visibility = "private"
    origin: Origin = "user"
    summary: str | None = None
    compressed: str | None = None
    index: str | None = None
    source_url: str = ""
    title: str = ""
    heading_path: tuple[str, ...] = ()
    speaker: str = ""
    session: str = ""
    position: int | None = None
    importance: float = 0.5
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    deleted_at: datetime | None = None
    content_hash: str = ""
    usage: Usage = UNUSED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        if not _is_plain(self):
            _check_texts(self)
        if self.visibility not in _VISIBILITIES:
            require_choice(self.visibility, _VISIBILITIES, "visibility")
        if self.origin not in _ORIGINS:
            require_choice(self.origin, _ORIGINS, "origin")
        if type(self.importance) is not float or not 0.0 <= self.importance <= 1.0:
            require_unit(self.importance, "importance")
        if type(self.created_at) is not datetime or self.created_at.tzinfo is not UTC:
            require_instant(self.created_at, "created_at")
        if self.valid_from is not None or self.valid_to is not None or self.deleted_at is not None:
            for name in ("valid_from", "valid_to", "deleted_at"):
                require_instant(getattr(self, name), name)
        if self.visibility == "project" and self.scope.project_id is None:
            raise InvalidScope(
                "project_id", None, "is missing", remedy="A project memory names its project."
            )

    def __getitem__(self, name: str) -> Any:
        """A value by the name it has in JSON; `memory["memory"]` is the text, as in mem0."""
        from agentmem.results import memory_to_dict

        if not isinstance(name, str):
            raise TypeError("A memory is no list: ask for a value by its name.")
        return memory_to_dict(self)[name]

    def at_level(self, level: Level) -> str:
        """The text at `level`, or the nearest fuller one when that level was not made."""
        levels = (self.index, self.compressed, self.summary, self.text)
        order = ("index", "compressed", "summary", "full")
        return next(t for t in levels[order.index(level) :] if t is not None)


def _is_plain(memory: Memory) -> bool:
    """Whether all its texts are surely text, told without looking at each: most memories are."""
    m = memory
    if m.summary is not None or m.compressed is not None or m.index is not None:
        return False
    if m.supersedes is not None or m.superseded_by is not None or type(m.text) is not str:
        return False
    short = (m.id, m.kind, m.source_url, m.title, m.speaker, m.session, *m.heading_path)
    return m.text.isascii() and all_ascii(short)


def _check_texts(memory: Memory) -> None:
    for name in ("id", "kind", "text", "source_url", "title", "speaker", "session"):
        require_text(getattr(memory, name), name)
    for name in ("summary", "compressed", "index", "supersedes", "superseded_by"):
        if getattr(memory, name) is not None:
            require_text(getattr(memory, name), name)
    for heading in memory.heading_path:
        require_text(heading, "heading_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text to be remembered, before it is cut into chunks.

    With the format "auto", code and chats are recognised and all else is read as Markdown.
    """

    text: str
    url: str = ""
    title: str = ""
    format: TextFormat | Literal["auto"] = "auto"
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        for name in ("text", "url", "title"):
            require_text(getattr(self, name), name)
        require_mapping(self.metadata, "metadata")
        require_choice(self.format, _FORMATS, "format")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """`text` is the document's characters from `start` to `end`, exactly."""

    text: str
    start: int
    end: int
    tokens: int
    heading_path: tuple[str, ...] = ()
    speaker: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A memory that was found, with its calibrated score and what each leg said.

    Ranks count from 1 within their leg.
    """

    memory: Memory
    score: float
    lexical: float | None = None
    vector: float | None = None
    lexical_rank: int | None = None
    vector_rank: int | None = None

    def __post_init__(self) -> None:
        if type(self.score) is not float or not 0.0 <= self.score <= 1.0:
            require_unit(self.score, "score")


def require_instant(value: datetime | None, name: str) -> None:
    """Refuse a datetime without a time zone: it means a different moment on every machine."""
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        raise InvalidInput(
            name,
            value,
            "is not a datetime with a time zone",
            remedy="Use datetime.now(UTC), or attach the zone it was written in.",
        )


def utc(value: datetime) -> datetime:
    """The same moment in UTC."""
    return value.astimezone(UTC)
