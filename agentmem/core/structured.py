"""Ask a model for JSON of a given shape, and read what it makes of that.

The shape is a strict JSON schema as chat-completions providers take it in
`response_format`. Not every model keeps to it, so replies are read for
whatever JSON they hold: in a fence, amid prose, or cut off in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

LONGEST_REPLY = 200_000
_STARTS_TRIED = 40
_MENDED = 4
_CUTS_TRIED = 100
_DEEPEST = 50
_CLOSING = {"{": "}", "[": "]"}


def strict_object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object that has exactly these properties."""
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def json_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `response_format` that asks for JSON of this shape and nothing else."""
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "strict": True, "schema": dict(schema)},
    }


def find_json(reply: str, wanted: Callable[[Any], bool]) -> Any:
    """The first JSON value in `reply` that is `wanted`, or None; never raises (L12).

    Of a value that was cut off, the part before its last complete piece.
    """
    text = reply[:LONGEST_REPLY]
    starts = list(_starts(text))
    for read, tried in ((_whole, starts), (_cut_off, starts[:_MENDED])):
        for start in tried:
            value = read(text, start)
            if value is not None and wanted(value):
                return value
    return None


def _starts(text: str) -> Iterator[int]:
    found = 0
    for place, character in enumerate(text):
        if character in _CLOSING:
            yield place
            found += 1
            if found == _STARTS_TRIED:
                return


def _whole(text: str, start: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        return None


def _cut_off(text: str, start: int) -> Any:
    for end, closing in list(_cuts(text, start))[: -_CUTS_TRIED - 1 : -1]:
        value = _whole(text[start:end] + closing, 0)
        if value is not None:
            return value
    return None


def _cuts(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Where a value that began at `start` could have ended, and what closes it there."""
    open_: list[str] = []
    quoted = escaped = False
    for place in range(start, len(text)):
        character = text[place]
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in _CLOSING:
            open_.append(_CLOSING[character])
            if len(open_) > _DEEPEST:
                return
        elif character in "}]":
            if not open_ or open_.pop() != character:
                return
            yield place + 1, "".join(reversed(open_))
            if not open_:
                return
        elif character == ",":
            yield place, "".join(reversed(open_))
