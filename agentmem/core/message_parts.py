"""Read a chat message: its role, text, media, tool calls and tool results.

Both common forms are understood: the chat-completions form (`tool_calls`,
`role="tool"`) and content blocks (`tool_use`, `tool_result`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from agentmem.core.checks import require_text
from agentmem.errors import InvalidMessage
from agentmem.types import Message

Part = Mapping[str, Any]
MediaKind = Literal["image", "audio", "video", "file"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SYSTEM_ROLES = ("system", "developer")
RESULT_ROLES = ("tool", "function")

_MEDIA_TYPES: Mapping[str, MediaKind] = MappingProxyType(
    {
        "image": "image",
        "image_url": "image",
        "image_file": "image",
        "input_image": "image",
        "audio": "audio",
        "audio_url": "audio",
        "input_audio": "audio",
        "video": "video",
        "video_url": "video",
        "input_video": "video",
        "document": "file",
        "file": "file",
        "input_file": "file",
    }
)
_TEXT_TYPES = ("text", "input_text", "output_text")


def require_message(message: object, name: str = "message") -> Message:
    """`message` if a provider could take it.

    A missing content is refused except on an assistant message, where it is
    normal beside tool calls. An empty string is allowed.
    """
    if not isinstance(message, Mapping):
        raise InvalidMessage(
            name,
            message,
            "is not a mapping",
            remedy="Pass a dict with role and content; objects of a client library have "
            "model_dump() or to_dict().",
        )
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise InvalidMessage(
            f"{name}.role", role, "is not a known role", remedy=f"Use one of: {', '.join(ROLES)}."
        )
    content = message.get("content")
    if content is None:
        if role != "assistant" and not message.get("images"):
            raise InvalidMessage(
                f"{name}.content",
                content,
                f"is missing on a {role} message",
                remedy="Pass '' for an empty text.",
            )
    elif isinstance(content, str):
        require_text(content, f"{name}.content")
    elif not isinstance(content, list | tuple) or not all(
        isinstance(part, str | Mapping) for part in content
    ):
        raise InvalidMessage(
            f"{name}.content",
            content,
            "is neither a text nor a list of parts",
            remedy="Pass a str, or a list of dicts that each have a type.",
        )
    else:
        for part in content:
            text = part if isinstance(part, str) else part.get("text")
            if isinstance(text, str):
                require_text(text, f"{name}.content")
    return message


def parts_of(message: Message) -> tuple[Part, ...]:
    """The content as parts; a plain text is one text part, an absent content none."""
    content = message.get("content")
    if content is None:
        return ()
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    return tuple({"type": "text", "text": p} if isinstance(p, str) else p for p in content)


def text_of(message: Message) -> str:
    """The words of a message, its text parts joined by newlines."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, (_part_text(part) for part in parts_of(message))))


def media_kind(part: Part) -> MediaKind | None:
    """What sort of media a content part is, or `None` for text and tool blocks."""
    if not isinstance(part, Mapping):
        return None
    kind = part.get("type")
    if isinstance(kind, str):
        return _MEDIA_TYPES.get(kind)
    for key in ("inline_data", "inlineData", "file_data", "fileData"):
        data = part.get(key)
        if isinstance(data, Mapping):
            mime = str(data.get("mime_type") or data.get("mimeType") or "")
            found = mime.split("/", maxsplit=1)[0]
            return _MEDIA_TYPES.get(found, "file")
    return next((_MEDIA_TYPES[k] for k in ("image", "video", "document") if k in part), None)


def media_parts(message: Message) -> tuple[Part, ...]:
    """Every media part, those inside tool results too; `images` beside the content count."""
    found = [part for part in _flat(parts_of(message)) if media_kind(part)]
    images = message.get("images")
    if isinstance(images, list | tuple):
        found += [{"type": "image", "data": image} for image in images]
    return tuple(found)


def without_media(message: Message) -> Message:
    """A copy whose media is replaced by a short note such as `[image left out]`."""
    copy = {key: value for key, value in message.items() if key != "images"}
    if isinstance(copy.get("content"), list | tuple):
        copy["content"] = _without_media(copy["content"])
    elif message.get("images"):
        text = copy.get("content") or ""
        copy["content"] = f"{text}\n[image left out]".strip()
    return copy


def call_ids(message: Message) -> tuple[str, ...]:
    """The ids of the tool calls an assistant message makes."""
    if message.get("role") != "assistant":
        return ()
    ids: list[object] = [call.get("id") for call in _mappings(message.get("tool_calls"))]
    for part in parts_of(message):
        if part.get("type") == "tool_use":
            ids.append(part.get("id"))
        elif isinstance(part.get("toolUse"), Mapping):
            ids.append(part["toolUse"].get("toolUseId"))
    return tuple(i for i in ids if isinstance(i, str) and i)


def makes_calls(message: Message) -> bool:
    """Whether an assistant message asks for a tool, with or without ids."""
    if message.get("role") != "assistant":
        return False
    if message.get("tool_calls") or message.get("function_call"):
        return True
    return any(p.get("type") == "tool_use" or "toolUse" in p for p in parts_of(message))


def result_ids(message: Message) -> tuple[str, ...]:
    """The ids of the tool calls that this message answers."""
    ids: list[object] = []
    if message.get("role") in RESULT_ROLES:
        ids.append(message.get("tool_call_id"))
    for part in parts_of(message):
        if part.get("type") == "tool_result":
            ids.append(part.get("tool_use_id"))
        elif isinstance(part.get("toolResult"), Mapping):
            ids.append(part["toolResult"].get("toolUseId"))
    return tuple(i for i in ids if isinstance(i, str) and i)


def is_result(message: Message) -> bool:
    """Whether the message brings the result of a tool, alone or beside other content."""
    return message.get("role") in RESULT_ROLES or any(map(_is_result, parts_of(message)))


def is_question(message: Message) -> bool:
    """Whether a user speaks here: a user message that is not only tool results."""
    if message.get("role") != "user":
        return False
    parts = parts_of(message)
    return not parts or not all(map(_is_result, parts))


def _is_result(part: Part) -> bool:
    return part.get("type") == "tool_result" or "toolResult" in part


def _part_text(part: Part) -> str:
    text = part.get("text")
    if isinstance(text, str) and part.get("type", "text") in _TEXT_TYPES:
        return text
    return ""


def _flat(parts: Sequence[Part]) -> list[Part]:
    flat: list[Part] = []
    for part in parts:
        flat.append(part)
        if part.get("type") == "tool_result":
            flat += _mappings(part.get("content"))
    return flat


def _without_media(content: Sequence[Any]) -> list[Any]:
    kept: list[Any] = []
    for part in content:
        if not isinstance(part, Mapping):
            kept.append(part)
        elif kind := media_kind(part):
            kept.append({"type": "text", "text": f"[{kind} left out]"})
        elif part.get("type") == "tool_result" and isinstance(part.get("content"), list | tuple):
            kept.append({**part, "content": _without_media(part["content"])})
        else:
            kept.append(part)
    return kept


def _mappings(value: object) -> list[Part]:
    if not isinstance(value, list | tuple):
        return []
    return [item for item in value if isinstance(item, Mapping)]
