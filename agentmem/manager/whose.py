"""Who is meant and when, as callers say it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentmem import remembering
from agentmem.core.checks import require_mapping
from agentmem.core.filters import ALWAYS, Filter, parse_filter
from agentmem.errors import InvalidInput, InvalidScope
from agentmem.types import Scope

Instant = datetime | str | float | None
SCOPE_NAMES = tuple(Scope.__slots__)

_BOTH = ("AND", "and", "$and")
_DEEPEST = 8

Whose = Scope | Mapping[str, str | None] | str | None
"""A scope, its names in a mapping, or just a user's id."""


def scope_of(whose: Mapping[str, str | None]) -> Scope:
    """The scope named by `user_id=` and the like; another name is refused."""
    for name in whose:
        if name not in SCOPE_NAMES:
            raise InvalidScope(
                name, whose[name], "is no parameter of this call",
                remedy=f"Whose memory it is is said with {', '.join(SCOPE_NAMES)}.",
            )  # fmt: skip
    return Scope(**whose)


def scope_and_filter(
    whose: Mapping[str, str | None], filters: Mapping[str, Any] | None
) -> tuple[Scope, Filter]:
    """Who reads, and the other conditions.

    `filters={"user_id": "alice"}` says who reads, as `user_id="alice"` does,
    inside an `AND` too; a project, agent or run there must also match exactly.
    """
    if filters is None:
        return scope_of(whose), ALWAYS
    named = dict(whose)
    written = dict(require_mapping(filters, "filters"))
    condition = parse_filter(_take_names(written, named))
    return scope_of(named), condition


def _take_names(
    written: dict[str, Any], named: dict[str, str | None], *, depth: int = 0
) -> dict[str, Any]:
    """`written` without the user, who goes into `named` with the other names."""
    left: dict[str, Any] = {}
    for name, value in written.items():
        if name == "user_id" and isinstance(value, str):
            if named.get(name) not in (None, value):
                raise InvalidScope(name, value, "is said twice, differently")
            named[name] = value
            continue
        if name in SCOPE_NAMES and isinstance(value, str) and named.get(name) is None:
            named[name] = value
        left[name] = value
        if name in _BOTH and isinstance(value, list | tuple) and depth < _DEEPEST:
            left[name] = [
                _take_names(dict(part), named, depth=depth + 1)
                if isinstance(part, Mapping)
                else part
                for part in value
            ]
    return left


def instant(value: Instant, name: str) -> datetime | None:
    """A moment as users write it: a datetime, ISO 8601, or seconds since 1970."""
    if value is None:
        return None
    found = remembering.read_moment(value)
    if found is None:
        raise InvalidInput(
            name, value, "is not a moment", remedy="Use ISO 8601, a datetime, or seconds."
        )
    return found


def read_scope(scope: Whose, whose: Mapping[str, str | None]) -> Scope:
    """The scope a caller means: a `Scope`, a mapping, a user's id, or `user_id=` and the like."""
    named = {name: value for name, value in whose.items() if value is not None}
    if scope is None:
        return scope_of(whose)
    if named:
        raise InvalidInput(
            "scope", scope, "is said twice", remedy="Pass scope=, or user_id= and the like."
        )
    if isinstance(scope, Scope):
        return scope
    if isinstance(scope, str):
        return Scope(user_id=scope)
    if isinstance(scope, Mapping):
        return scope_of(scope)
    raise InvalidScope(
        "scope", scope, "is no scope", remedy='Pass Scope(user_id="…"), a mapping, or a user id.'
    )
