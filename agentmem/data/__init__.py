"""Word lists, weights and tables; the one module that uses a file reads it when it does."""

from __future__ import annotations

import json
import pkgutil
from typing import Any


def read_bytes(name: str) -> bytes:
    """The bytes of a file of this folder."""
    found = pkgutil.get_data(__name__, name)  # lighter to import than importlib.resources
    if found is None:
        raise FileNotFoundError(name)
    return found


def read_text(name: str) -> str:
    """A file of this folder as text."""
    return read_bytes(name).decode("utf-8")


def read_json(name: str) -> Any:
    """What a JSON file of this folder holds."""
    return json.loads(read_text(name))


def read_lists(name: str) -> dict[str, list[str]]:
    """The lines under each `[heading]` of a text file, without comments and empty lines."""
    lists: dict[str, list[str]] = {}
    for line in read_text(name).splitlines():
        if line.startswith("["):
            lines = lists.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return lists
