"""Read a model's tool call, and say in plain words how it differs from the tool's schema."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import Any

from agentmem.core.checks import require_text
from agentmem.core.cleaning import clean_line
from agentmem.core.payloads import sendable
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, shown
from agentmem.tools import Tool
from agentmem.types import EMPTY

_FENCE = re.compile(r"\A\s*```[\w-]*\s*\n?(.*?)\n?\s*```\s*\Z", re.DOTALL)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_MOST_DIFFERENCES = 8
_DEEPEST = 30
_VALUE_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCall:
    """A call as it can be looked up; `problem` when its arguments could not be read."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    raw: str = ""
    problem: str = ""

    @property
    def key(self) -> str:
        """Equal for calls that ask for the same: same tool, same arguments in any order."""
        if self.problem:
            return f"{self.name}\n!{self.raw}"
        written = json.dumps(
            self.arguments, sort_keys=True, ensure_ascii=True, separators=(",", ":"), default=repr
        )
        return f"{self.name}\n{written}"


def parse_call(call: Any, number: int) -> ParsedCall:
    """A call of chat completions, as a dict or an SDK's object, also with broken arguments."""
    plain = _as_mapping(call)
    function = _as_mapping(plain.get("function")) or plain
    call_id = plain.get("id") or plain.get("call_id") or plain.get("tool_call_id")
    name = function.get("name")
    given = function.get("arguments", function.get("input", function.get("args")))
    found = ParsedCall(
        call_id=sendable(str(call_id)) if call_id else f"call_{number}",
        name=sendable(name) if isinstance(name, str) else "",
    )
    arguments, problem = read_arguments(given)
    raw = given if isinstance(given, str) else repr(given)
    return ParsedCall(
        call_id=found.call_id, name=found.name, arguments=arguments, raw=raw, problem=problem
    )


def read_arguments(given: Any) -> tuple[Mapping[str, Any], str]:
    """The arguments, or what is wrong with them.

    Nothing is an empty object. Read as well: a code fence around the object, line
    breaks inside strings, a trailing comma, a Python literal, JSON inside a
    JSON string. What was cut off is not guessed.
    """
    if given is None:
        return {}, ""
    if isinstance(given, Mapping):
        return {str(key): value for key, value in given.items()}, ""
    if not isinstance(given, str):
        return {}, f"the arguments are a {type(given).__name__}, not a JSON object"
    text = given.strip()
    if not text:
        return {}, ""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        value, problem = _repaired(text), str(error)
        if value is None:
            return {}, f"the arguments are not valid JSON ({problem})"
    if isinstance(value, str):
        try:
            value = json.loads(value, strict=False)
        except (ValueError, RecursionError):
            return {}, "the arguments are a text, not a JSON object"
    if value is None:
        return {}, ""
    if not isinstance(value, dict):
        return {}, f"the arguments are a JSON {_type_name(value)}, not an object"
    try:
        require_text(json.dumps(value, ensure_ascii=False, default=str), "arguments")
    except (InvalidInput, ValueError, RecursionError):
        return {}, "the arguments hold characters that are no Unicode text"
    return {str(key): item for key, item in value.items()}, ""


def _repaired(text: str) -> Any:
    fenced = _FENCE.match(text)
    text = fenced[1] if fenced else text
    for candidate in (text, _TRAILING_COMMA.sub(r"\1", text)):
        try:
            return json.loads(candidate, strict=False)
        except (ValueError, RecursionError):
            continue
    if len(text) > 100_000 or not text.startswith("{"):
        return None
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def without_nulls(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments without the nulls by which strict schemas say "left out", nested ones too."""
    validator = _validator(tool.parameters)
    pruned = _pruned(dict(arguments), tool.parameters, validator, 0)
    return pruned if isinstance(pruned, dict) else arguments


def _pruned(value: Any, schema: Any, validator: Any, depth: int) -> Any:
    schema = _followed(schema, validator.schema)
    if depth > _DEEPEST or not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        items = schema.get("items")
        return [_pruned(item, items, validator, depth + 1) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    required = schema.get("required") or ()
    return {
        key: _pruned(item, properties.get(key), validator, depth + 1)
        for key, item in value.items()
        if item is not None
        or key not in properties
        or key in required
        or _accepts_null(validator, properties[key])
    }


def _followed(schema: Any, root: Any) -> Any:
    """The schema a local reference leads to, such as `#/$defs/Point`."""
    if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
        return schema
    found = root
    for part in schema["$ref"].removeprefix("#/").split("/"):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _accepts_null(validator: Any, schema: Any) -> bool:
    try:
        return bool(validator.evolve(schema=schema).is_valid(None))
    except Exception:  # noqa: BLE001 - a schema that cannot be followed forbids nothing
        return True


def differences(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """What the arguments have that the schema does not want, and the other way round.

    A schema that cannot be followed (a reference to nowhere) forbids nothing.
    """
    try:
        errors = sorted(
            _validator(tool.parameters).iter_errors(dict(arguments)),
            key=lambda error: [str(part) for part in error.absolute_path],
        )
        found = [text for error in errors for text in _say(error)]
    except Exception:  # noqa: BLE001 - a foreign schema may fail in any way while it is followed
        return ()
    found += _unknown_to_function(tool, arguments)
    return tuple(dict.fromkeys(found))[:_MOST_DIFFERENCES]


def _validator(schema: Mapping[str, Any]) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    return kind(schema, registry=Registry())  # an empty registry: references are never fetched


def _say(error: Any) -> Iterable[str]:
    where = _path(error.absolute_path)
    rule, instance = error.validator, error.instance
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    properties = schema.get("properties") or {}
    if rule == "required":
        missing = [name for name in error.validator_value if name not in instance]
        return [
            f"missing field {_field(where, name)}{_expected(properties.get(name))}"
            for name in missing
        ]
    if rule in ("additionalProperties", "unevaluatedProperties") and isinstance(instance, Mapping):
        patterns = schema.get("patternProperties") or {}
        unknown = [
            n
            for n in instance
            if n not in properties and not any(re.search(p, n) for p in patterns)
        ]
        return [_unknown(_field(where, n), n, list(properties)) for n in unknown]
    if rule == "type":
        wanted = _types(error.validator_value)
        return [
            f"{where or 'the arguments'} must be {wanted}, not {_type_name(instance)} "
            + _value(instance)
        ]
    if rule in ("enum", "const"):
        allowed = error.validator_value if rule == "enum" else [error.validator_value]
        near = get_close_matches(str(instance), [str(a) for a in allowed], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        listed = ", ".join(_value(a) for a in list(allowed)[:10])
        return [f"{where} must be one of {listed}, not {_value(instance)}{hint}"]
    if rule in ("anyOf", "oneOf"):
        choices = [_expected(choice).strip(" ()") for choice in error.validator_value]
        listed = " or ".join(dict.fromkeys(filter(None, choices))) or "one of several forms"
        return [f"{where or 'the arguments'} must be {listed}, not {_value(instance)}"]
    message = clean_line(str(error.message), limit_characters=160)
    return [f"{where}: {message}" if where else message]


def _unknown_to_function(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Fields the schema lets pass and the function has no parameter for."""
    import inspect

    try:
        parameters = inspect.signature(tool.call).parameters
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return []
    names = [n for n, p in parameters.items() if p.kind is not p.POSITIONAL_ONLY]
    missing = [
        f"missing field {name}"
        for name, p in parameters.items()
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        and name not in arguments
    ]
    return [_unknown(name, name, names) for name in arguments if name not in names] + missing


def nearest(name: str, names: Sequence[str]) -> list[str]:
    """The names that look most like `name`, best first."""
    folded = {known.casefold(): known for known in names}
    found = get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.5)
    wanted = name.casefold()
    inside = [k for k in folded if len(wanted) > 2 and (wanted in k or k in wanted)]
    return [folded[key] for key in dict.fromkeys([*found, *inside])][:3]


def _unknown(where: str, name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    if near:
        return f"unknown field {_clean(where)}; did you mean {near[0]}?"
    listed = ", ".join(known[:10])
    return f"unknown field {_clean(where)}" + (f"; known fields: {listed}" if listed else "")


def _expected(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return ""
    if "enum" in schema:
        return f" (one of {', '.join(_value(v) for v in list(schema['enum'])[:6])})"
    kind = schema.get("type")
    return f" ({_types(kind)})" if kind else ""


def _types(kind: Any) -> str:
    return " or ".join(map(str, kind)) if isinstance(kind, list | tuple) else str(kind)


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list | tuple) else "object"


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str | int | float | bool):
        return _clean(json.dumps(value, ensure_ascii=False)[: _VALUE_CHARACTERS * 2])
    return _clean(shown(value))


def _clean(text: str) -> str:
    return clean_line(sendable(text), limit_characters=_VALUE_CHARACTERS)


def _path(parts: Iterable[Any]) -> str:
    written = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in parts).lstrip(".")
    return _clean(written)


def _field(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def _as_mapping(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        dumped = dump()
        return dumped if isinstance(dumped, Mapping) else {}
    names = ("id", "call_id", "function", "name", "arguments", "input")
    return {name: getattr(value, name) for name in names if hasattr(value, name)}
