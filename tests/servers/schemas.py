"""What a strict provider takes: JSON schemas of requests, and rules of role order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import jsonschema

Roles = Literal["openai", "anthropic", "gemini"]

_STRING: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_OBJECT: dict[str, Any] = {"type": "object"}


def _exactly(properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_PARTS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "oneOf": [
            _exactly({"type": {"const": "text"}, "text": _STRING}, ["type", "text"]),
            _exactly({"type": {"const": "image_url"}, "image_url": _OBJECT}, ["type", "image_url"]),
        ]
    },
}
_CALL = _exactly(
    {
        "id": _STRING,
        "type": {"const": "function"},
        "function": _exactly({"name": _STRING, "arguments": _STRING}, ["name", "arguments"]),
    },
    ["id", "type", "function"],
)
_TEXT_OR_PARTS = {"anyOf": [_STRING, _PARTS]}
_MESSAGE = {
    "oneOf": [
        _exactly(
            {
                "role": {"enum": ["system", "developer", "user"]},
                "content": _TEXT_OR_PARTS,
                "name": _STRING,
            },
            ["role", "content"],
        ),
        _exactly(
            {
                "role": {"const": "assistant"},
                "content": {"anyOf": [_STRING, _PARTS, {"type": "null"}]},
                "tool_calls": {"type": "array", "minItems": 1, "items": _CALL},
                "refusal": {"type": ["string", "null"]},
                "name": _STRING,
            },
            ["role"],
        ),
        _exactly(
            {"role": {"const": "tool"}, "content": _TEXT_OR_PARTS, "tool_call_id": _STRING},
            ["role", "content", "tool_call_id"],
        ),
    ]
}
_SAMPLING = {
    "model": {"type": "string", "minLength": 1},
    "stream": {"type": "boolean"},
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "metadata": {"type": "object", "additionalProperties": _STRING},
    "parallel_tool_calls": {"type": "boolean"},
    "store": {"type": "boolean"},
    "tools": {"type": "array", "items": _OBJECT},
    "tool_choice": {"anyOf": [_STRING, _OBJECT]},
    "user": _STRING,
}
CHAT = _exactly(
    {
        **_SAMPLING,
        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
        "frequency_penalty": {"type": "number"},
        "max_completion_tokens": _COUNT,
        "max_tokens": _COUNT,
        "n": _COUNT,
        "response_format": _OBJECT,
        "seed": {"type": "integer"},
        "stop": {"anyOf": [_STRING, {"type": "array", "items": _STRING}]},
        "stream_options": _exactly({"include_usage": {"type": "boolean"}}, []),
    },
    ["model", "messages"],
)
_INPUT_PARTS = {
    "type": "array",
    "items": {
        "oneOf": [
            _exactly({"type": {"const": "input_text"}, "text": _STRING}, ["type", "text"]),
            _exactly(
                {
                    "type": {"const": "output_text"},
                    "text": _STRING,
                    "annotations": {"type": "array"},
                    "logprobs": {},
                },
                ["type", "text"],
            ),
        ]
    },
}
_ITEM = {
    "oneOf": [
        _exactly(
            {
                "type": {"const": "message"},
                "role": {"enum": ["system", "developer", "user", "assistant"]},
                "content": {"anyOf": [_STRING, _INPUT_PARTS]},
                "id": _STRING,
                "status": _STRING,
            },
            ["role", "content"],
        ),
        _exactly(
            {
                "type": {"const": "function_call"},
                "call_id": _STRING,
                "name": _STRING,
                "arguments": _STRING,
                "id": _STRING,
                "status": _STRING,
            },
            ["type", "call_id", "name", "arguments"],
        ),
        _exactly(
            {"type": {"const": "function_call_output"}, "call_id": _STRING, "output": _STRING},
            ["type", "call_id", "output"],
        ),
        _exactly(
            {"type": {"const": "reasoning"}, "id": _STRING, "summary": {"type": "array"}},
            ["type", "id", "summary"],
        ),
    ]
}
RESPONSES = _exactly(
    {
        **_SAMPLING,
        "input": {"anyOf": [_STRING, {"type": "array", "minItems": 1, "items": _ITEM}]},
        "instructions": _STRING,
        "max_output_tokens": _COUNT,
        "previous_response_id": _STRING,
        "text": _OBJECT,
        "include": {"type": "array"},
    },
    ["model", "input"],
)


def problem_of(body: Any, schema: Mapping[str, Any]) -> str:
    """Why the body does not fit the schema, or ""."""
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(body)
    )
    return (
        "" if error is None else f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}"
    )


def role_problem(messages: Sequence[Mapping[str, Any]], roles: Roles) -> str:
    """Why a provider with these rules refuses the order of the messages, or ""."""
    return _unanswered(messages) or ("" if roles == "openai" else _not_alternating(messages, roles))


def _unanswered(messages: Sequence[Mapping[str, Any]]) -> str:
    waiting: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return f"messages[{at}] answers no tool call directly before it"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"messages[{at}] stands before the results of the tool calls {sorted(waiting)}"
        waiting = {call["id"] for call in message.get("tool_calls") or ()}
    return f"the tool calls {sorted(waiting)} have no results" if waiting else ""


def _not_alternating(messages: Sequence[Mapping[str, Any]], roles: Roles) -> str:
    spoken = [m for m in messages if m["role"] not in ("system", "developer")]
    if len(spoken) != len(messages) and messages[0]["role"] not in ("system", "developer"):
        return f"{roles}: a system message stands inside the conversation"
    before = ""
    for at, message in enumerate(spoken):
        # Results of tools are the user's side of the conversation, several at once are one turn.
        side = "assistant" if message["role"] == "assistant" else "user"
        several = message["role"] == "tool" and at > 0 and spoken[at - 1]["role"] == "tool"
        if at == 0 and side != "user":
            return f"{roles}: the first message is not the user's"
        if side == before and not several:
            return f"{roles}: two {side} messages follow each other at {at}"
        if not message.get("content") and not message.get("tool_calls"):
            return f"{roles}: message {at} is empty"
        before = side
    return "" if before == "user" else f"{roles}: the last message is not the user's"
