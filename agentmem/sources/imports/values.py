"""What an export of another system gives: things to remember, and what is left out and why."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from agentmem.base.lazy import compile_late
from agentmem.base.types import EMPTY, Origin
from agentmem.text.decode import sound

Foreign = Literal["mem0", "letta", "zep", "chatgpt", "claude"]

_WRAPPINGS = 3
FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
LONGEST_SECONDS = 253_402_300_799.0
"""The last second of the year 9999."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedItem:
    """One thing of an export that is worth remembering.

    `key` is what it is called there, if it has a name that no other thing has.
    `ended` says that it holds no longer, from `valid_to` on if that is known;
    `replaced_by` names what holds instead. `earlier` are texts it had before,
    each with the moment it was replaced, oldest first.
    """

    text: str
    kind: str = "fact"
    key: str = ""
    origin: Origin = "import"
    title: str = ""
    speaker: str = ""
    session: str = ""
    position: int | None = None
    created_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    ended: bool = False
    replaced_by: str = ""
    earlier: tuple[tuple[str, datetime | None], ...] = ()
    whose: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Something of an export that is not remembered, and why in a few words."""

    reason: str


FOREIGN_REASONS = frozenset(
    {"not an object", "not a conversation", "not an agent", "no part of a graph"}
)
"""Why a thing is left out that is no part of such an export at all."""

Item = ExportedItem | LeftOut
Items = Iterator[Item]


_MACHINE = compile_late(
    r"""\s*(?:
    # "[This is an automated system message hidden from the user] …"
    \[(?:this\ is\ an?\ automated|system\b|incoming\ message\ from\ agent|request\ interrupted
        |scheduled|automated|note\ from\ system)
    # "<system-reminder>…"
    | <(?:system(?:[-_]reminder)?|command-(?:name|message|args)|local-command-\w+
        |environment_details|task-notification|user-prompt-submit-hook)\b
    | caveat:\ the\ messages\ below\ were\ generated
    | this\ session\ is\ being\ continued\ from\ a\ previous\ conversation
    | (?:original\ )?custom\ instructions\ no\ longer\ available
    | (?:the\ following|here)\ is\ a\ (?:recursive\ )?summary\ of
        \ (?:the\ )?(?:previous|prior|earlier)
    | note:\ (?:prior|previous)\ messages\ (?:have\ been|were|are)\ hidden
    # "Generate a concise, 5-word title for …", by which a program names the chat
    | generate\ a\ (?:concise|short|brief)[^.\n]{0,40}\ title\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


def is_machine_prompt(text: str) -> bool:
    """Whether a program wrote what stands in the user's place: a reminder, an event, a summary."""
    return _MACHINE.match(text) is not None


def unpacked(value: Any) -> Any:
    """A value without the JSON text it is wrapped in: exports are sometimes written twice."""
    for _ in range(_WRAPPINGS):
        if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"')):
            break
        try:
            value = json.loads(value, parse_constant=lambda name: None)
        except (ValueError, RecursionError):
            break
    return value


def text_in(value: Any, *names: str) -> str:
    """The first of the named fields that holds text with something in it."""
    if isinstance(value, Mapping):
        for name in names:
            found = value.get(name)
            if isinstance(found, str) and found.strip():
                return sound(found)
    return ""


def mapping_in(value: Any, name: str) -> Mapping[str, Any]:
    """A field that is an object, or an empty one."""
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else EMPTY


def list_in(value: Any, *names: str) -> list[Any]:
    """The first of the named fields that is a list with something in it, also one written as
    JSON into a text."""
    if isinstance(value, Mapping):
        for name in names:
            found = value.get(name)
            if isinstance(found, str) and found.startswith("["):
                found = unpacked(found)
            if isinstance(found, list) and found:
                return found
    return []


def moment_in(value: Any, *names: str) -> datetime | None:
    """The first of the named fields that is a moment: ISO 8601, or seconds since 1970."""
    if isinstance(value, Mapping):
        for name in names:
            found = read_moment(value.get(name))
            if found is not None:
                return found
    return None


def read_moment(value: Any) -> datetime | None:
    """A moment in UTC; without a zone it is taken for UTC, and nonsense for nothing."""
    try:
        if isinstance(value, str) and value.strip():
            found = datetime.fromisoformat(value.strip())
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
            return found.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > LONGEST_SECONDS else value
            return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None
    return None


def names_in(value: Any, *names: str) -> dict[str, str]:
    """Those of the named fields that are names: of a user, an agent, a run."""
    found = {name: text_in(value, name).strip() for name in names}
    return {name: text for name, text in found.items() if text}


def named(given: str, sort: str) -> str:
    """What a thing of this sort is called there; "" when nothing names it, and its words must."""
    return f"{sort} {given}" if given else ""


def text_of_parts(content: Any) -> str:
    """The text of a message's content: a text, or the text parts of a list, in their order."""
    if isinstance(content, str):
        return sound(content)
    if isinstance(content, Mapping):
        return text_in(content, "text")
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(sound(part))
        elif isinstance(part, Mapping) and part.get("type", "text") in ("text", "output_text"):
            parts.append(text_in(part, "text"))
    return "\n\n".join(part for part in parts if part.strip())
