"""What a function's docstring says about it and about each parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import cleandoc

_SECTION = re.compile(
    r"^(args|arguments|parameters|params|keyword args|keyword arguments|other parameters)\s*:?\s*$",
    re.IGNORECASE,
)
_OTHER = re.compile(
    r"^(returns?|yields?|raises|examples?|notes?|see also|references|warnings?|attributes)"
    r"\s*:?\s*$",
    re.IGNORECASE,
)
_GOOGLE = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")
_NUMPY = re.compile(r"^\*{0,2}(\w+)\s*:(?!:)")
_FIELD = re.compile(r"^:param\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_ANY_FIELD = re.compile(r"^:\w+[^:]*:")


def read_docstring(docstring: str | None) -> tuple[str, Mapping[str, str]]:
    """The description before the first section, and a text for each parameter named.

    Google, NumPy and Sphinx styles are read; anything else is description.
    """
    if not docstring:
        return "", {}
    lines = cleandoc(docstring).split("\n")
    said: list[str] = []
    parameters: dict[str, str] = {}
    inside = ""
    current = ""
    indent = 0
    for at, line in enumerate(lines):
        ruled = at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1]) is not None
        if field := _FIELD.match(line):
            inside, current = "field", field[1]
            parameters[current] = field[2].strip()
        elif _SECTION.match(line):
            inside, current = ("numpy" if ruled else "google"), ""
        elif _OTHER.match(line) or _ANY_FIELD.match(line):
            inside, current = "other", ""
        elif not inside:
            said.append(line)
        elif (
            inside == "google"
            and (match := _GOOGLE.match(line))
            and (not current or len(match[1]) <= indent)
        ):
            indent, current = len(match[1]), match[2]
            parameters[current] = match[3].strip()
        elif inside == "numpy" and (match := _NUMPY.match(line)):
            current = match[1]
            parameters[current] = ""
        elif current and line.startswith((" ", "\t")):
            parameters[current] = f"{parameters[current]} {line.strip()}".strip()
        elif inside == "google" and line.strip():
            inside, current = "", ""
            said.append(line)
    return "\n".join(said).strip(), parameters
