"""Tool definitions as the model reads them: a namespace of typed functions.

OpenAI shows functions to the model as TypeScript declarations, not as JSON
Schema; so they are counted in that form. Keywords that have no place in it
(`minimum`, `pattern`, …) are kept in a comment, so that nothing is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentmem.core.checks import require_text
from agentmem.errors import InvalidMessage

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


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(
            "tool", value, "cannot be written as JSON", remedy="Pass plain values."
        ) from error
