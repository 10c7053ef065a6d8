"""Look for things inside a stored result: matching lines, and values in JSON.

Both take a model's own words, so both are bounded in time: no pattern and no
path can hold up the loop.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentmem.errors import InvalidInput

PATTERN_CHARACTERS = 1_000
MOST_VALUES = 10_000
_SPECIAL = re.compile(r"[^\w\s\"'=,:;/<>@!%&~`-]")
_SLOW_PARTS = ("match(", "search(", "=~")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What was found, as text, and a few words about how."""

    text: str
    note: str


def grep(text: str, pattern: str, *, seconds: float = 1.0) -> View:
    """The lines that match, each with its number: `12: text`.

    A pattern that is no regular expression is looked for as plain text. When
    nothing matches, upper and lower case are taken as equal. A pattern too
    slow for `seconds` stops there: what was found until then is given, and
    the plain text is looked for when nothing was.
    """
    if not pattern:
        raise InvalidInput("grep", pattern, "is empty", remedy="Give a word or a pattern.")
    if len(pattern) > PATTERN_CHARACTERS:
        raise InvalidInput("grep", pattern, "is too long", remedy="Look for a shorter text.")
    lines = text.removesuffix("\n").split("\n")
    found, how = _by_pattern(lines, pattern, seconds)
    if found is None:
        found, how = _by_text(lines, pattern), f"{how}; looked for as plain text"
    elif not found and not how:
        found, how = _by_pattern(lines, pattern, seconds, ignore_case=True)
        found = found or []
        how = "upper and lower case taken as equal" if found else how
    shown = "".join(f"{number}: {line}\n" for number, line in found)
    note = f"{len(found):,} matching line{'' if len(found) == 1 else 's'} of {len(lines):,}"
    return View(text=shown, note=f"{note} ({how})" if how else note)


def _by_pattern(
    lines: list[str], pattern: str, seconds: float, *, ignore_case: bool = False
) -> tuple[list[tuple[int, str]] | None, str]:
    """Matching lines with their numbers, and what went wrong; None to look for plain text."""
    if not ignore_case and not _SPECIAL.search(pattern):
        return [(n, line) for n, line in enumerate(lines, 1) if pattern in line], ""
    import regex  # type: ignore[import-untyped]

    try:
        compiled = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, OverflowError, RecursionError, MemoryError, ValueError):
        return None, "not a regular expression"
    found: list[tuple[int, str]] = []
    deadline = time.monotonic() + seconds
    for number, line in enumerate(lines, 1):
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            # `concurrent` lets other threads run meanwhile, the loop's among them.
            if compiled.search(line, timeout=left, concurrent=True):
                found.append((number, line))
        except TimeoutError:
            stopped = f"the pattern is too slow, stopped at line {number:,}"
            return (found or None), stopped
    return found, ""


def _by_text(lines: list[str], wanted: str) -> list[tuple[int, str]]:
    folded = wanted.casefold()
    return [(n, line) for n, line in enumerate(lines, 1) if folded in line.casefold()]


def find_json(text: str, path: str, *, seconds: float = 1.0) -> View:
    """The values at a JSONPath: one as itself, several one a line. At most 10,000."""
    import jsonpath

    if not path.strip():
        raise InvalidInput("json_path", path, "is empty", remedy='Use "$.key[0]" or "$..name".')
    if len(path) > PATTERN_CHARACTERS or path.count("..") > 2:
        raise InvalidInput("json_path", path, "is too wide", remedy='Use at most two "..".')
    if any(part in path for part in _SLOW_PARTS):
        raise InvalidInput("json_path", path, "uses a pattern", remedy="Use grep for patterns.")
    values = _load(text)
    wanted = path if path.lstrip().startswith(("$", "@", "^", "/")) else f"$.{path.strip()}"
    found: list[Any] = []
    cut = ""
    deadline = time.monotonic() + seconds
    try:
        for match in jsonpath.finditer(wanted, values):
            found.append(match.value if hasattr(match, "value") else match.obj)
            if len(found) >= MOST_VALUES or time.monotonic() > deadline:
                cut = ", and more"
                break
    except (jsonpath.JSONPathError, ValueError, TypeError, RecursionError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InvalidInput(
            "json_path", path, f"cannot be used ({problem})", remedy='Use "$.key[0]" or "$..name".'
        ) from None
    if not found:
        return View(text="", note=f"no value at {wanted}; {_keys_of(values)}")
    if len(found) == 1:
        return View(text=_one(found[0]), note="1 value")
    lines = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in found)
    return View(text=lines, note=f"{len(found):,} values{cut}, one a line")


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        records = list(_records(text))
    if not records:
        raise InvalidInput(
            "json_path", text[:40], "cannot look into a result that is not JSON",
            remedy="Use lines, range or grep.",
        )  # fmt: skip
    return records


def _records(text: str) -> Iterator[Any]:
    """JSON lines as an array, if every line is one value."""
    for line in text.splitlines():
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                return


def _one(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2)


def _keys_of(value: Any) -> str:
    if isinstance(value, dict):
        return "the keys are " + ", ".join(list(value)[:20])
    if isinstance(value, list):
        return f"it is an array of {len(value):,} items"
    return f"it is one {type(value).__name__}"
