"""Read a chat message: its role, text, media, tool calls and tool results.

Both common forms are understood: the chat-completions form (`tool_calls`,
`role="tool"`) and content blocks (`tool_use`, `tool_result`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeGuard

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidMessage
from agentmem.base.types import EMPTY, Message

Part = Mapping[str, Any]
MediaKind = Literal["image", "audio", "video", "file"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
SYSTEM_ROLES = ("system", "developer")
RESULT_ROLES = ("tool", "function")

_MEDIA_TYPES: Mapping[str, MediaKind] = MappingProxyType(
    {
        **dict.fromkeys(("image", "image_url", "image_file", "input_image"), "image"),
        **dict.fromkeys(("audio", "audio_url", "input_audio"), "audio"),
        **dict.fromkeys(("video", "video_url", "input_video"), "video"),
        **dict.fromkeys(("document", "file", "input_file"), "file"),
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
    if content is None and role != "assistant" and not message.get("images"):
        problem = f"is missing on a {role} message"
        raise InvalidMessage(
            f"{name}.content", content, problem, remedy="Pass '' for an empty text."
        )
    parts = (content or "",) if isinstance(content, str | None) else content
    if not is_list(parts) or not all(isinstance(part, str | Mapping) for part in parts):
        raise InvalidMessage(
            f"{name}.content",
            content,
            "is neither a text nor a list of parts",
            remedy="Pass a str, or a list of dicts that each have a type.",
        )
    for part in parts:
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
    ids = [call.get("id") for call in _mappings(message.get("tool_calls"))]
    return _ids(ids, message, "tool_use", "id", "toolUse")


def _ids(
    ids: list[object], message: Message, kind: str, key: str, other_kind: str
) -> tuple[str, ...]:
    """`ids` and those in the parts of one kind, as Anthropic writes it or as Bedrock does."""
    for part in parts_of(message):
        if part.get("type") == kind:
            ids.append(part.get(key))
        elif isinstance(part.get(other_kind), Mapping):
            ids.append(part[other_kind].get("toolUseId"))
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
    ids = [message.get("tool_call_id")] if message.get("role") in RESULT_ROLES else []
    return _ids(ids, message, "tool_result", "tool_use_id", "toolResult")


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


# ----------------------------------------------------------------------------
# Read what a chat-completions model gave back: whole, or chunk by chunk.


_TEXT_PARTS = ("text", "output_text", "refusal", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """One answer of a model. `tool_calls` are chat-completions dicts with ids."""

    text: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    usage: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    model: str = ""

    @property
    def message(self) -> dict[str, Any]:
        """The reply as the assistant message to carry on with."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [dict(call) for call in self.tool_calls]
        elif not self.text:
            message["content"] = ""
        return message


def read_reply(response: Any) -> ModelAnswer:
    """The first choice of a response: a dict, an object with the same names, or just a text.

    What a response lacks is empty; nothing is raised for a strange one.
    """
    if isinstance(response, str):
        return ModelAnswer(text=response)
    choices = get(response, "choices")
    message = get(choices[0], "message") if is_list(choices) and choices else response
    calls = get(message, "tool_calls")
    if is_list(calls):  # of a whole answer the place counts, whatever index a call says
        calls = [{"id": get(one, "id"), "function": get(one, "function")} for one in calls]
    parts = ReplyParts()
    parts.add(
        {
            "usage": get(response, "usage"),
            "model": get(response, "model"),
            "choices": [{"delta": {"content": message_text(message), "tool_calls": calls}}],
        }
    )
    return parts.reply()


class ReplyParts:
    """Puts an answer together from its chunks, of which one may be the whole."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Mapping[str, Any] = EMPTY
        self._model = ""

    def add(self, chunk: Any) -> str:
        """Take one chunk in; gives the text it added."""
        if isinstance(chunk, str):
            self._texts.append(chunk)
            return chunk
        self._usage = read_mapping(get(chunk, "usage")) or self._usage
        self._model = str(get(chunk, "model") or self._model)
        choices = get(chunk, "choices")
        if not is_list(choices) or not choices or get(choices[0], "index") not in (0, None):
            return ""
        return self._take(get(choices[0], "delta") or get(choices[0], "message"))

    def _take(self, message: Any) -> str:
        text = message_text(message)
        self._texts.append(text)
        calls = get(message, "tool_calls")
        for at, call in enumerate(calls if is_list(calls) else ()):
            index = get(call, "index")
            place = index if isinstance(index, int) else at
            known = self._calls.setdefault(place, {"id": "", "name": "", "arguments": ""})
            function = get(call, "function")
            arguments = get(function, "arguments")
            if arguments is not None and not isinstance(arguments, str):
                arguments = json.dumps(arguments, ensure_ascii=False, default=str)
            known["id"] = known["id"] or str(get(call, "id") or "")
            known["name"] += str(get(function, "name") or "")
            known["arguments"] += arguments or ""
        return text

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def reply(self) -> ModelAnswer:
        """The whole answer as far as it came."""
        return ModelAnswer(
            text=self.text,
            tool_calls=tuple(
                {
                    "id": call["id"] or f"call_{place}",
                    "type": "function",
                    "function": {"name": call["name"], "arguments": call["arguments"]},
                }
                for place, call in sorted(self._calls.items())
            ),
            usage=self._usage,
            model=self._model,
        )


def message_text(message: Any) -> str:
    """The words of a message or of a piece of one: its content, else why it refused."""
    for name in ("content", "refusal", "text"):
        text = read_text(get(message, name))
        if text:
            return text
    return ""


def read_text(content: Any) -> str:
    """The words of a content: a text, or the text parts and refusals of a list."""
    if isinstance(content, str):
        return content
    return "".join(map(_replies_part_text, content)) if is_list(content) else ""


def _replies_part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = get(part, "type")
    text = get(part, "refusal" if kind == "refusal" else "text")
    return text if isinstance(text, str) and kind in _TEXT_PARTS else ""


def read_mapping(value: Any) -> Mapping[str, Any]:
    """A mapping, or an object's `model_dump`, or its plain attributes; else nothing."""
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        found = dump()
        return found if isinstance(found, Mapping) else EMPTY
    return dict(vars(value)) if hasattr(value, "__dict__") else EMPTY


_USAGE_NAMES = {
    "prompt": "prompt_tokens input_tokens inputTokens prompt_token_count input_token_count",
    "completion": "completion_tokens output_tokens outputTokens candidates_token_count"
    " output_token_count",
    "total": "total_tokens totalTokens total_token_count",
}


def read_usage(usage: Any) -> dict[str, int]:
    """Prompt, completion and total tokens under whichever names a provider has for them."""
    values = plain(usage or {})
    found = {
        ours: value
        for ours, theirs in _USAGE_NAMES.items()
        for name in theirs.split()
        if is_count(value := values.get(name))
    }
    if "prompt" in found and "prompt_tokens" not in values:  # Anthropic counts these apart
        for name in ("cache_read_input_tokens", "cache_creation_input_tokens"):
            if is_count(value := values.get(name)):
                found["prompt"] += value
    if "total" not in found and len(found) == 2:
        found["total"] = found["prompt"] + found["completion"]
    return found


def plain(value: Any) -> dict[str, Any]:
    """A provider's usage object as JSON values; what cannot be read is left out."""
    try:
        fields = read_mapping(value)
    except Exception:  # noqa: BLE001 - somebody else's object may raise anything
        return {}
    return {
        str(name): item
        for name, item in fields.items()
        if isinstance(item, int | float | str | bool) or item is None
    }


def is_count(value: object) -> TypeGuard[int]:
    """Whether it is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_list(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether `value` is a list of things rather than a text."""
    return isinstance(value, list | tuple)


def get(value: Any, name: str) -> Any:
    """The key or attribute `name`, or None; odd objects count as having nothing."""
    if value is None or isinstance(value, str | bytes | int | float):
        return None
    if isinstance(value, Mapping):
        return value.get(name)
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of somebody else's object may raise anything
        return None
