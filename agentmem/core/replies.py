"""Read what a chat-completions model gave back: whole, or chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, TypeGuard

from agentmem.core.values import dataclass
from agentmem.types import EMPTY

_TEXT_PARTS = ("text", "output_text", "refusal", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer of a model. `tool_calls` are chat-completions dicts with ids."""

    text: str = ""
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    usage: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    model: str = ""
    finish_reason: str = ""

    @property
    def message(self) -> dict[str, Any]:
        """The reply as the assistant message to carry on with."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.tool_calls:
            message["tool_calls"] = [dict(call) for call in self.tool_calls]
        elif not self.text:
            message["content"] = ""
        return message


def read_reply(response: Any) -> Reply:
    """The first choice of a response: a dict, an object with the same names, or just a text.

    What a response lacks is empty; nothing is raised for a strange one.
    """
    if isinstance(response, str):
        return Reply(text=response)
    choices = get(response, "choices")
    choice = choices[0] if is_list(choices) and choices else None
    message = get(choice, "message") if choice is not None else response
    calls = get(message, "tool_calls")
    return Reply(
        text=message_text(message),
        tool_calls=tuple(
            read_call(call, at) for at, call in enumerate(calls if is_list(calls) else ())
        ),
        usage=read_mapping(get(response, "usage")),
        model=str(get(response, "model") or ""),
        finish_reason=str(get(choice, "finish_reason") or ""),
    )


class ReplyParts:
    """Puts the chunks of a streamed answer together."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._usage: Mapping[str, Any] = EMPTY
        self._model = ""
        self._finish = ""

    def add(self, chunk: Any) -> str:
        """Take one chunk in; gives the text it added."""
        if isinstance(chunk, str):
            self._texts.append(chunk)
            return chunk
        usage = read_mapping(get(chunk, "usage"))
        if usage:
            self._usage = usage
        self._model = str(get(chunk, "model") or self._model)
        choices = get(chunk, "choices")
        if not is_list(choices) or not choices:
            return ""
        if get(choices[0], "index") not in (0, None):
            return ""
        self._finish = str(get(choices[0], "finish_reason") or self._finish)
        delta = get(choices[0], "delta") or get(choices[0], "message")
        text = message_text(delta)
        if text:
            self._texts.append(text)
        calls = get(delta, "tool_calls")
        for at, call in enumerate(calls if is_list(calls) else ()):
            self._add_call(call, at)
        return text

    def _add_call(self, call: Any, at: int) -> None:
        index = get(call, "index")
        place = index if isinstance(index, int) else at
        known = self._calls.setdefault(place, {"id": "", "name": "", "arguments": ""})
        known["id"] = known["id"] or str(get(call, "id") or "")
        function = get(call, "function")
        known["name"] += str(get(function, "name") or "")
        known["arguments"] += str(get(function, "arguments") or "")

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def reply(self) -> Reply:
        """The whole answer as far as it came."""
        return Reply(
            text=self.text,
            tool_calls=tuple(
                _call(part["id"] or f"call_{place}", part["name"], part["arguments"])
                for place, part in sorted(self._calls.items())
            ),
            usage=self._usage,
            model=self._model,
            finish_reason=self._finish,
        )


def read_call(call: Any, at: int = 0) -> dict[str, Any]:
    """A tool call as a dict with an id, a name and its arguments as text."""
    function = get(call, "function")
    arguments = get(function, "arguments")
    if arguments is not None and not isinstance(arguments, str):
        import json

        arguments = json.dumps(arguments, ensure_ascii=False, default=str)
    return _call(
        str(get(call, "id") or f"call_{at}"), str(get(function, "name") or ""), arguments or ""
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
    return "".join(map(_part_text, content)) if is_list(content) else ""


def _part_text(part: Any) -> str:
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


def read_usage(usage: Any) -> dict[str, int]:
    """Prompt, completion and total tokens under whichever names a provider has for them."""
    values = plain(usage or {})
    names = {
        "prompt": ("prompt_tokens", "input_tokens"),
        "completion": ("completion_tokens", "output_tokens"),
        "total": ("total_tokens",),
    }
    found = {
        ours: value
        for ours, theirs in names.items()
        for name in theirs
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


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }
