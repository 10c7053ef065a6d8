"""Turn memories, messages, media, tool results and preferences into packages.

What a type means is one row of a table, so a new type is a new row and the
fill stays as it is:

    type               priority  fixed  component
    system-prompt          10     yes   system_prompt
    message-current        10     yes   current_message
    tool-schema            10     yes   tool_schemas
    overhead               10     yes   other
    message-recent          9           recent_messages
    preference              9           preferences
    memory-semantic         8           memories
    memory-procedural       7           memories
    memory-episodic         6           memories
    tool-result             5           tool_results
    media-*                 3           media
    anything else           5           other

Preferences stand beside recent messages: they hold whatever the question is,
within their own budget. A stored tool result stands below the memories, since
its text can be read again by its id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from agentmem.core.checks import require_count, require_text
from agentmem.core.message_parts import Part, media_kind
from agentmem.core.packages import Content, ContentPackage
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, InvalidNumber, InvalidText
from agentmem.protocols import TokenCounter
from agentmem.types import EMPTY, Hit, Level, Memory, Message, cognitive_type

MessageCounter = Callable[[Message], int]
"""The tokens of a whole message: role, names, calls and media included."""
MediaCounter = Callable[[Part], int]
"""The tokens of one media part."""

COMPONENTS = (
    "system_prompt",
    "tool_schemas",
    "preferences",
    "memories",
    "recent_messages",
    "tool_results",
    "media",
    "current_message",
    "other",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRule:
    """What a package type means: where it is accounted for and how firmly it stands."""

    component: str = "other"
    priority: int = 5
    can_drop: bool = True

    def __post_init__(self) -> None:
        if not require_text(self.component, "component"):
            raise InvalidText("component", "", "is empty", remedy="Name a component.")
        if require_count(self.priority, "priority", least=1) > 10:
            raise InvalidNumber("priority", self.priority, "is above 10", remedy="Use 1 to 10.")
        if not isinstance(self.can_drop, bool):
            raise InvalidInput(
                "can_drop", self.can_drop, "is not a bool", remedy="Pass True or False."
            )


Types = Mapping[str, TypeRule]

TYPES: Types = MappingProxyType(
    {
        "system-prompt": TypeRule(component="system_prompt", priority=10, can_drop=False),
        "message-current": TypeRule(component="current_message", priority=10, can_drop=False),
        "tool-schema": TypeRule(component="tool_schemas", priority=10, can_drop=False),
        "overhead": TypeRule(component="other", priority=10, can_drop=False),
        "message-*": TypeRule(component="recent_messages", priority=9),
        "preference": TypeRule(component="preferences", priority=9),
        "memory-semantic": TypeRule(component="memories", priority=8),
        "memory-procedural": TypeRule(component="memories", priority=7),
        "memory-*": TypeRule(component="memories", priority=6),
        "tool-result": TypeRule(component="tool_results", priority=5),
        "media-*": TypeRule(component="media", priority=3),
    }
)
_OTHER = TypeRule()


def rule_for(type: str, types: Types = TYPES) -> TypeRule:  # noqa: A002  # the field's own name
    """The rule of a type: its own row, else its family's (`memory-*`), else "other"."""
    family = type.split("-", 1)[0] + "-*"
    return types.get(type) or types.get(family) or _OTHER


def with_types(extra: Types, types: Types = TYPES) -> Types:
    """A table that knows `extra` too; a row given again replaces the old one."""
    return MappingProxyType({**types, **extra})


def make_package(
    type: str,  # noqa: A002  # the field's own name
    content: Content,
    *,
    id: str,  # noqa: A002  # the field's own name
    tokens: int,
    types: Types = TYPES,
    importance: float = 0.5,
    relevance: float | None = None,
    timestamp: datetime | None = None,
    min_tokens: int | None = None,
    metadata: Mapping[str, Any] = EMPTY,
) -> ContentPackage:
    """A package of any type, with the priority and firmness its type has in the table."""
    rule = rule_for(require_text(type, "type"), types)
    return ContentPackage(
        id=id,
        type=type,
        content=content,
        tokens=tokens,
        importance=importance,
        relevance=relevance,
        timestamp=timestamp,
        can_drop=rule.can_drop,
        priority=rule.priority,
        min_tokens=None if min_tokens is None else _at_most(min_tokens, tokens),
        metadata=metadata,
    )


def package_memory(
    found: Hit | Memory,
    *,
    count: TokenCounter,
    level: Level = "full",
    overhead_tokens: int = 0,
    min_tokens: int | None = None,
    types: Types = TYPES,
) -> ContentPackage:
    """A memory as `memory-semantic`, `-procedural` or `-episodic`, by its kind.

    A hit's score is its relevance; a bare memory has none. `overhead_tokens`
    is what the wrapper around each memory costs. `min_tokens` is lowered to
    the memory's own size where that is smaller.
    """
    memory, relevance = _memory_of(found)
    text = memory.at_level(level)
    return make_package(
        f"memory-{cognitive_type(memory.kind)}",
        text,
        id=memory.id,
        tokens=_counted(count, text) + require_count(overhead_tokens, "overhead_tokens"),
        types=types,
        importance=memory.importance,
        relevance=relevance,
        timestamp=memory.created_at,
        min_tokens=min_tokens,
        metadata={"kind": memory.kind, "source_url": memory.source_url, "title": memory.title},
    )


def package_preference(
    preference: Hit | Memory,
    *,
    count: TokenCounter,
    overhead_tokens: int = 0,
    types: Types = TYPES,
) -> ContentPackage:
    """A stored preference. Its relevance is left unknown: it holds for every question."""
    memory, _ = _memory_of(preference)
    return make_package(
        "preference",
        memory.text,
        id=memory.id,
        tokens=_counted(count, memory.text) + require_count(overhead_tokens, "overhead_tokens"),
        types=types,
        importance=memory.importance,
        timestamp=memory.created_at,
        metadata={"kind": memory.kind},
    )


def package_tool_result(
    text: str,
    *,
    id: str,  # noqa: A002  # the field's own name
    count: TokenCounter,
    importance: float = 0.5,
    relevance: float | None = None,
    timestamp: datetime | None = None,
    min_tokens: int | None = None,
    types: Types = TYPES,
) -> ContentPackage:
    """A stored tool result or its stand-in, by its text."""
    return make_package(
        "tool-result",
        text,
        id=id,
        tokens=_counted(count, require_text(text, "text")),
        types=types,
        importance=importance,
        relevance=relevance,
        timestamp=timestamp,
        min_tokens=min_tokens,
    )


def package_media(
    part: Part,
    *,
    id: str,  # noqa: A002  # the field's own name
    count_media: MediaCounter,
    importance: float = 0.5,
    relevance: float | None = None,
    timestamp: datetime | None = None,
    types: Types = TYPES,
) -> ContentPackage:
    """A media part as `media-image`, `-audio`, `-video` or `-file`."""
    kind = media_kind(part)
    if kind is None:
        raise InvalidInput(
            "part",
            part,
            "is not a media part",
            remedy="Pass a content part such as {'type': 'image_url', 'image_url': {...}}.",
        )
    return make_package(
        f"media-{kind}",
        part,
        id=id,
        tokens=count_media(part),
        types=types,
        importance=importance,
        relevance=relevance,
        timestamp=timestamp,
    )


def _memory_of(found: Hit | Memory) -> tuple[Memory, float | None]:
    if isinstance(found, Hit):
        return found.memory, found.score
    if isinstance(found, Memory):
        return found, None
    raise InvalidInput(
        "memory", found, "is neither a Memory nor a Hit", remedy="Pass what a search returned."
    )


def _counted(count: TokenCounter, text: str) -> int:
    return require_count(count(text), "count(text)")


def _at_most(min_tokens: int, tokens: int) -> int:
    return min(require_count(min_tokens, "min_tokens"), tokens)
