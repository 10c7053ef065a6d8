"""Word lists, weights and tables; the one module that uses a file reads it when it does."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

from agentmem.base.lazy import compile_late


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


@cache
def read_words(name: str) -> dict[str, frozenset[str]]:
    """The words under each `[heading]` of a text file, however many stand on a line; read once."""
    return {heading: frozenset(" ".join(ls).split()) for heading, ls in read_lists(name).items()}


class Words:
    """The lists of words in a table, each an attribute under its name."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self._table = table

    def __getattr__(self, name: str) -> frozenset[str]:
        if name.startswith("_") or not isinstance(self._table.get(name), str):
            raise AttributeError(f"there is no list of words {name!r}")
        made = self.__dict__[name] = frozenset(self._table[name].split())
        return made


# ----------------------------------------------------------------------------
# Patterns and rules that are kept as data: `{NAMES}` in them stand for words and pieces.
#
# A file has `words` (alternatives between bars, the longest matched first), `pieces` of
# expressions, `patterns` (or lists of their alternatives), and tables of `rules`. Nothing is
# read before it is used.


_NAME = re.compile(r"\{([A-Z_]+)\}")


def either(words: str | list[str]) -> str:
    """A group that matches any of the words, which are separated by `|`, line breaks or lists."""
    told = words if isinstance(words, str) else "|".join(words)
    options = [word.strip() for word in told.replace("\n", "|").split("|")]
    return "(?:" + "|".join(sorted(filter(None, options), key=lambda w: -len(w))) + ")"


class Patterns:
    """The patterns of one file of `agentmem.data`, each an attribute under its name."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._pieces: dict[str, str] = {}

    @cached_property
    def told(self) -> dict[str, Any]:
        """What the file holds."""
        found: dict[str, Any] = read_json(self._file)
        return found

    def __getattr__(self, name: str) -> re.Pattern[str]:
        if name.startswith("_") or name not in self.told["patterns"]:
            raise AttributeError(f"{self._file} has no pattern {name!r}")
        made = compile_late(self.expand(self.told["patterns"][name]))
        self.__dict__[name] = made
        return made

    def piece(self, name: str) -> str:
        """A list of words or a piece of an expression, as an expression."""
        if name not in self._pieces:
            words = self.told["words"].get(name)
            self._pieces[name] = (
                self.expand(self.told["pieces"][name]) if words is None else either(words)
            )
        return self._pieces[name]

    def expand(self, template: str | list[str]) -> str:
        """`template`, or the alternatives it lists, with what each name in it stands for."""
        told = template if isinstance(template, str) else "|".join(template)
        return _NAME.sub(lambda found: self.piece(found[1]), told)


@cache
def patterns_of(file: str) -> Patterns:
    """The patterns of a file, read once."""
    return Patterns(file)
