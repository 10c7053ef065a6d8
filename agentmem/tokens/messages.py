"""What a whole request costs: messages with their roles, names, tool calls, tool schemas, media.

The text of a message is counted by `count`, its media by `count_media`; what
stands around them follows OpenAI's documented accounting: 3 tokens a message, 1
more for a name, 3 that open the answer. Other providers frame messages in about
as many. https://cookbook.openai.com/examples/how_to_count_tokens_with_tiktoken
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidMessage
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Message
from agentmem.text.messages import ROLES, require_message
from agentmem.tokens.media import Media, media_of

# ----------------------------------------------------------------------------
# Tool definitions as the model reads them: a namespace of typed functions.
#
# OpenAI shows functions to the model as TypeScript declarations, not as JSON
# Schema; so they are counted in that form. Keywords that have no place in it
# (`minimum`, `pattern`, …) are kept in a comment, so that nothing is left out.


_DEEPEST = 32
# fmt: off
_WRITTEN = frozenset({
    "$ref", "$schema", "additionalProperties", "allOf", "anyOf", "const", "default", "description",
    "enum", "items", "nullable", "oneOf", "properties", "required", "strict", "title", "type",
})
# fmt: on
_TYPES = {"integer": "number", "object": "object", "array": "any[]"}


def render_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """The text the model sees for `tools`, in OpenAI's, Anthropic's or Gemini's form of them."""
    lines = ["namespace functions {", ""]
    for tool in tools:
        for function in _functions(tool):
            lines += _declaration(function)
    lines.append("} // namespace functions")
    return require_text("\n".join(lines), "tools")


def _functions(tool: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    declared = tool.get("function_declarations") or tool.get("functionDeclarations")
    if isinstance(declared, list | tuple):
        yield from (f for f in declared if isinstance(f, Mapping))
    elif isinstance(tool.get("function"), Mapping):
        yield tool["function"]
    else:
        yield tool


def _declaration(function: Mapping[str, Any]) -> Iterator[str]:
    name = function.get("name")
    if not isinstance(name, str):  # a provider's own tool, such as web search
        yield _json(function)
        return
    yield from _comment(function.get("description"))
    schema = function.get("parameters") or function.get("input_schema") or {}
    if not isinstance(schema, Mapping):
        raise InvalidMessage(
            "tool parameters", schema, "is not a dict", remedy="Pass a JSON Schema object."
        )
    definitions = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
    if schema.get("properties"):
        yield f"type {name} = (_: {{"
        yield from _members(schema, 0)
        yield "}) => any;"
    else:
        yield f"type {name} = () => any;"
    if definitions:
        yield _json(definitions)
    yield ""


def _members(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    properties = schema.get("properties") or {}
    required = schema.get("required") or ()
    if not isinstance(properties, Mapping) or depth > _DEEPEST:
        yield _json(properties)
        return
    for name, value in properties.items():
        inner = value if isinstance(value, Mapping) else {}
        yield from _comment(inner.get("description"))
        rest = {k: v for k, v in inner.items() if k not in _WRITTEN}
        if rest:
            yield f"// {_json(rest)}"
        default = f" // default: {_json(inner['default'])}" if "default" in inner else ""
        mark = "" if name in required else "?"
        yield f"{name}{mark}: {_type(inner, depth)},{default}"


def _type(schema: Mapping[str, Any], depth: int) -> str:
    if depth > _DEEPEST:
        return _json(schema)
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        options = schema.get(key)
        if isinstance(options, list | tuple) and options:
            return " | ".join(_options(options, key, depth))
    if "const" in schema:
        return _json(schema["const"])
    if "$ref" in schema:
        return str(schema["$ref"])
    kind = schema.get("type")
    if isinstance(kind, list | tuple):
        return " | ".join(str(k) for k in kind)
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return f"{_type(schema['items'], depth + 1)}[]"
    if schema.get("properties"):
        return "\n".join(("{", *_members(schema, depth + 1), "}"))
    return _TYPES.get(kind, kind) if isinstance(kind, str) else "any"


def _options(options: Iterable[Any], key: str, depth: int) -> Iterator[str]:
    for option in options:
        if key != "enum" and isinstance(option, Mapping):
            yield _type(option, depth + 1)
        else:
            yield _json(option)


def _comment(description: object) -> Iterator[str]:
    if isinstance(description, str) and description:
        yield f"// {description}"


def _json(value: object, *, name: str = "tool", separators: tuple[str, str] | None = None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=separators, default=str)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(
            name, value, "cannot be written as JSON", remedy="Pass plain values."
        ) from error


MESSAGE_TOKENS = 3
NAME_TOKENS = 1
ANSWER_TOKENS = 3
CALL_TOKENS = 6
TOOLS_TOKENS = 9

MediaCounter = Callable[[Media], int]

# Text that a provider shows to the model as it is, by the key that holds it.
_TEXT_PARTS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
    "reasoning": "text",
}
# Parts the provider reads and the model does not see.
_SILENT_PARTS = ("redacted_thinking",)


def count_messages(
    messages: Iterable[Message],
    *,
    count: TokenCounter,
    count_media: MediaCounter,
    tools: Sequence[Mapping[str, Any]] = (),
) -> int:
    """The tokens of a request with these messages and tools; without messages, of the tools."""
    if not isinstance(messages, Iterable):
        raise InvalidMessage("messages", messages, "is not a list", remedy="Pass a list of dicts.")
    total = sum(count_message(m, count=count, count_media=count_media) for m in messages)
    return (total + ANSWER_TOKENS if total else 0) + count_tools(tools, count=count)


def count_message(message: Message, *, count: TokenCounter, count_media: MediaCounter) -> int:
    """The tokens one message adds to a request."""
    role = require_message(message)["role"]
    total = MESSAGE_TOKENS + count(role)
    name = message.get("name")
    if name is not None:
        total += NAME_TOKENS + count(_text(name, "name"))
    if (call_id := message.get("tool_call_id")) is not None:
        total += count(_text(call_id, "tool_call_id"))
    calls = _calls(message)
    total += sum(_count_call(call, count) for call in calls)
    for key in ("refusal", "reasoning_content"):
        if message.get(key) is not None:
            total += count(_text(message[key], key))
    try:
        return total + _count_content(message.get("content") or "", count, count_media)
    except RecursionError as error:
        raise InvalidMessage(
            "content", role, "is nested too deeply in a message of", remedy="Flatten it."
        ) from error


def plain_message(message: Message) -> tuple[str, str] | None:
    """The role and the text of a message that has nothing else; most messages are such."""
    if len(message) != 2:
        return None
    role, content = message.get("role"), message.get("content")
    return (str(role), content) if isinstance(content, str) and role in ROLES else None


def count_tools(tools: Sequence[Mapping[str, Any]], *, count: TokenCounter) -> int:
    """The tokens of the tool definitions sent with a request; none for no tools."""
    if not tools:
        return 0
    if isinstance(tools, str | Mapping) or not all(isinstance(t, Mapping) for t in tools):
        raise InvalidMessage("tools", tools, "is not a list of dicts", remedy="Pass a list.")
    return TOOLS_TOKENS + count(render_tools(tools))


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidMessage(name, value, "is not a string", remedy="Pass a str.")
    return require_text(value, name)


def _calls(message: Message) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise InvalidMessage("tool_calls", calls, "is not a list", remedy="Pass a list of dicts.")
    legacy = message.get("function_call")
    found = [*calls, *([] if legacy is None else [{"function": legacy}])]
    for call in found:
        if not isinstance(call, Mapping) or not isinstance(call.get("function", {}), Mapping):
            raise InvalidMessage(
                "tool_calls", call, "is not a dict with a function", remedy="See the docs."
            )
    return found


def _count_call(call: Mapping[str, Any], count: TokenCounter) -> int:
    function = call.get("function") or call.get("custom") or call
    name = function.get("name")
    arguments = function.get("arguments", function.get("input", ""))
    total = CALL_TOKENS if name is None else CALL_TOKENS + count(_text(name, "function name"))
    if isinstance(arguments, str):
        return total + count(require_text(arguments, "arguments"))
    return total + count(_as_json(arguments))


def _count_content(content: object, count: TokenCounter, count_media: MediaCounter) -> int:
    if isinstance(content, str):
        return count(require_text(content, "content"))
    if not isinstance(content, list | tuple):
        raise InvalidMessage(
            "content", content, "is neither text nor a list of parts", remedy="Pass a str or list."
        )
    return sum(_count_part(part, count, count_media) for part in content)


def _count_part(part: object, count: TokenCounter, count_media: MediaCounter) -> int:
    if isinstance(part, str):
        return count(require_text(part, "content"))
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        raise InvalidMessage(
            "content part", part, "has no type", remedy="Pass {'type': 'text', 'text': …}."
        )
    kind = part["type"]
    if kind in _TEXT_PARTS:
        return count(_text(part.get(_TEXT_PARTS[kind], ""), kind))
    if kind in _SILENT_PARTS:
        return 0
    if kind == "tool_use":
        return _count_call(part, count)
    if kind == "tool_result":
        inner = part.get("content") or ""
        call_id = part.get("tool_use_id") or ""
        return count(_text(call_id, "tool_use_id")) + _count_content(inner, count, count_media)
    media = media_of(part)
    if media is None:
        return count(_as_json(part))
    total = count_media(media) if media.text is None else count(require_text(media.text, kind))
    return total + sum(count(title) for title in media.titles)


def _as_json(value: object) -> str:
    """`value` as compact JSON; a part nobody knows is counted as it would be sent."""
    return require_text(_json(value, name="message", separators=(",", ":")), "message")
