"""Where the values of a JSON text stand in it, for who changes one and keeps all the others."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # it is there, and stays
from typing import Any

_GAP = re.compile(r"[ \t\n\r]*")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object or, without a name, an item of an array.

    It begins at `begin`; its value stands from `start` to `end`.
    """

    name: str
    begin: int
    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Members:
    """An object or an array: from where to where it is written, and what it holds."""

    start: int
    end: int
    members: Sequence[Member]

    def get(self, name: str) -> Member | None:
        """The member of this name; of several, the last one counts."""
        return next((one for one in reversed(self.members) if one.name == name), None)


def read_members(text: str, at: int, *, inside: str | None = None) -> Members:
    """What the object or array at `at` holds; `ValueError` where none is written.

    The value of the member `inside` is `Members` too, if it is an array.
    """
    start, closing = at, {"{": "}", "[": "]"}.get(text[at : at + 1])
    if closing is None:
        raise json.JSONDecodeError("no object and no array", text, at)
    found: list[Member] = []
    at = skip(text, at + 1)
    more = not text.startswith(closing, at)
    while more:
        begin, name = at, None
        if closing == "}":
            name, at = scanstring(text, _past(text, '"', at), True)
            at = skip(text, _past(text, ":", skip(text, at)))
        if name is not None and name == inside and text.startswith("[", at):
            value: Any = read_members(text, at)
            end = value.end
        else:
            value, end = _decode(text, at)
        found.append(Member(name or "", begin, at, end, value))
        at = skip(text, end)
        more = text.startswith(",", at)
        at = skip(text, at + 1) if more else at
    return Members(start, _past(text, closing, at), found)


def _past(text: str, sign: str, at: int) -> int:
    if not text.startswith(sign, at):
        raise json.JSONDecodeError(f"no {sign}", text, at)
    return at + 1


def skip(text: str, at: int) -> int:
    """Where the next sign stands."""
    found = _GAP.match(text, at)
    return found.end() if found else at
