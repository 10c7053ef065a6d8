"""Write docs/reference.md from the docstrings of every public name.

python -m tests.reference_page > docs/reference.md
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import agentmem

INTRODUCTION = """\
# Reference

<!-- Written by `python -m tests.reference_page > docs/reference.md`; change the docstrings. -->

Every name that `agentmem` exports, from its docstring. Calls that take `**whose` may be told
`user_id`, `project_id`, `agent_id` and `run_id`: whose memory is meant. Somebody not named is the one
user of a memory without users. `memory.upkeep`, `memory.sources`, `memory.living` and
`memory.preferences` hold the calls that are not of every day; `AsyncMemoryManager` has all of them
to be awaited.
"""
PARTS = ("Upkeep", "Sources", "Living")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_SET = re.compile(r"(?<=frozenset\(\{)[^}]*")
_PATHS = re.compile(
    r"\b(?:agentmem|collections\.abc|typing|datetime|numpy|pathlib)(?:\.[a-z_]+)*\."
)


def render() -> str:
    """The page."""
    from agentmem.memory import parts as of

    found = {name: getattr(agentmem, name) for name in agentmem.__all__}
    parts = dict(zip(PARTS, (of.MemoryUpkeep, of.Sources, of.Living), strict=True))
    lines = [INTRODUCTION]
    for name, value in sorted({**found, **parts}.items(), key=lambda one: one[0].lower()):
        shown = f"memory.{name.lower()}" if name in parts else name
        lines += describe(shown, value)
    return "\n".join(lines).rstrip() + "\n"


def describe(name: str, value: Any) -> Iterator[str]:
    """A name with what it says of itself, and its calls if it is a class."""
    yield f"## `{name}`\n"
    if not callable(value):
        yield f"`{value!r}`\n"
        return
    takes = signature(value)
    if takes and not issubclass_of_error(value) and not name.startswith("memory."):
        yield f"    {name.rpartition('.')[2]}{takes}\n"
    yield said(value)
    if not inspect.isclass(value) or issubclass_of_error(value):
        return
    for call in sorted(public(value)):
        member = inspect.getattr_static(value, call)
        inner = getattr(value, call)
        if isinstance(member, property):
            yield f"- **`.{call}`**: {said(member.fget).strip()}"
        elif callable(inner):
            yield f"- **`.{call}{signature(inner, bound=True)}`**: {said(inner).strip()}"
    yield ""


def public(kind: type) -> Iterator[str]:
    """Calls and properties with a docstring of their own, inherited ones of ours included."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        inner = member.fget if isinstance(member, property) else getattr(kind, name)
        ours = str(getattr(inner, "__module__", "")).startswith("agentmem")
        if not name.startswith("_") and ours and getattr(inner, "__doc__", None):
            yield name


def signature(value: Any, *, bound: bool = False) -> str:
    """What a call takes, on one line; nothing where that cannot be told."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    given = list(found.parameters.values())
    if bound and given and given[0].name in ("self", "cls"):
        given = given[1:]
    text = str(found.replace(parameters=given, return_annotation=found.return_annotation))
    text = _ADDRESS.sub("", text).replace("= ''", '= ""').replace("'", "")
    text = _SET.sub(lambda found: ", ".join(sorted(found[0].split(", "))), text)
    return _PATHS.sub("", text)


def said(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and is_dataclass(value) and text.startswith(f"{value.__name__}("):
        text = ""
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def issubclass_of_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


if __name__ == "__main__":
    sys.stdout.write(render())
