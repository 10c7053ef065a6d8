"""The values at a JSONPath in a result, in bounded time: the path is a model's own words."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from agentmem.errors import InvalidInput
from agentmem.result_grep import LONGEST_SECONDS, View

PATH_CHARACTERS = 1_000
MOST_VALUES = 10_000
_SLOW_PARTS = ("match(", "search(", "=~")


def find_json(text: str, path: str) -> View:
    """The values at a JSONPath: one as itself, several one a line. At most 10,000."""
    import jsonpath

    if not path.strip():
        raise InvalidInput("json_path", path, "is empty", remedy='Use "$.key[0]" or "$..name".')
    if len(path) > PATH_CHARACTERS or path.count("..") > 2:
        raise InvalidInput("json_path", path, "is too wide", remedy='Use at most two "..".')
    if any(part in path for part in _SLOW_PARTS):
        raise InvalidInput("json_path", path, "uses a pattern", remedy="Use grep for patterns.")
    values = _load(text)
    wanted = path if path.lstrip().startswith(("$", "@", "^", "/")) else f"$.{path.strip()}"
    found: list[Any] = []
    cut = ""
    deadline = time.monotonic() + LONGEST_SECONDS
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
