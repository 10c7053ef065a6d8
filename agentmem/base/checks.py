"""Refuse what cannot be used, before anything is counted, sent or stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from agentmem.base.errors import InvalidInput, InvalidNumber, InvalidText

T = TypeVar("T")


def require_text(value: object, name: str) -> str:
    """`value` if it is a string that can be written as UTF-8; empty and NUL are allowed."""
    if not isinstance(value, str):
        raise InvalidText(name, value, "is not a string", remedy="Pass a str.")
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InvalidText(
                name,
                value[error.start : error.start + 10],
                f"has a lone surrogate at position {error.start}",
                remedy="Clean it with text.encode('utf-8', 'replace').decode('utf-8').",
            ) from None
    return value


def all_ascii(values: Iterable[Any]) -> bool:
    """Whether all of them are surely text, told without looking at each."""
    try:
        return "".join(values).isascii()
    except TypeError:
        return False


def require_count(value: object, name: str, *, least: int = 0) -> int:
    """`value` if it is a whole number of at least `least`; booleans are refused."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidNumber(name, value, "is not a whole number", remedy="Pass an int.")
    if value < least:
        raise InvalidNumber(name, value, f"is below {least}", remedy=f"Use {least} or more.")
    return value


def require_number(
    value: object, name: str, *, low: float = -math.inf, high: float = math.inf
) -> float:
    """`value` as a finite float between `low` and `high`, both included."""
    if type(value) is float and low <= value <= high and math.isfinite(value):
        return value  # nearly always, and some hundred times a turn
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidNumber(name, value, "is not a number", remedy="Pass an int or a float.")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidNumber(name, value, "is not finite", remedy="Pass a finite number.")
    if not low <= value <= high:
        raise InvalidNumber(name, value, f"is not within {low:g} to {high:g}")
    try:
        return float(value)
    except OverflowError:
        raise InvalidNumber(name, value, "is too large", remedy="Pass a float.") from None


def require_unit(value: object, name: str) -> float:
    """`value` as a float between 0 and 1, both included."""
    return require_number(value, name, low=0.0, high=1.0)


def require_choice(value: object, choices: Sequence[str], name: str) -> str:
    """`value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidInput(
            name, value, "is not a known choice", remedy=f"Use one of: {', '.join(choices)}."
        )
    return value


def require_messages(value: object) -> list[Any]:
    """`value` as a list, refused unless it is one of things; what they are is not looked at."""
    return require_items(value, "messages", "messages", remedy="Pass a list of dicts.")


def require_mapping(value: object, name: str) -> Mapping[str, Any]:
    """`value` if it has names and values; which is not looked at."""
    if not isinstance(value, Mapping):
        raise InvalidInput(name, value, "is no mapping", remedy="Pass a dict.")
    return value


def require_instance(value: object, kind: type[T], name: str, *, remedy: str = "") -> T:
    """`value` if it is a `kind`."""
    if not isinstance(value, kind):
        remedy = remedy or f"Pass a {kind.__name__}."
        raise InvalidInput(name, value, f"is no {kind.__name__}", remedy=remedy)
    return value


def require_path(value: object) -> str:
    """`value` as the text of a path that a file can have."""
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if not isinstance(value, str):
        raise InvalidInput("path", value, "is not a path", remedy="Pass a str or Path.")
    if not require_text(value, "path") or "\x00" in value:
        raise InvalidText("path", value, "names no file", remedy="Pass a path to a file.")
    return value


def require_items(value: object, name: str, what: str, *, remedy: str = "") -> list[Any]:
    """`value` as a list of `what`; one text is not a list of letters."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        remedy = remedy or f"Pass a list of {what}."
        raise InvalidInput(name, value, f"is no list of {what}", remedy=remedy)
    return list(value)
