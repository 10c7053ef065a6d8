"""Anthropic's memory tool with memories of one scope as its files.

A file is one memory of the kind `note`, found by searches and turns like every
other. Folders are what the paths say, so an empty one does not exist.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import MissingExtra
from agentmem.base.types import Memory, ScopeLike
from agentmem.compat.records import Records, text_of

try:
    from anthropic.tools import (
        BetaAbstractMemoryTool,
        BetaAsyncAbstractMemoryTool,
        ToolError,
    )
except ModuleNotFoundError as error:
    raise MissingExtra("anthropic", extra="anthropic", purpose="The memory tool") from error

if TYPE_CHECKING:
    from agentmem.search.parts import Calls

ROOT = "/memories"
MOST_LINES = 999_999
_WIDTH = 6


class MemoryFiles:
    """The commands of the memory tool; what cannot be done raises the SDK's `ToolError`."""

    def __init__(self, memory: Calls, scope: ScopeLike) -> None:
        self._files = Records(memory, scope, kind="note")
        self._lock = threading.Lock()

    def run(self, command: Any) -> str:
        """Do one command of the SDK."""
        with self._lock:
            done: str = getattr(self, f"_{command.command}")(command)
            return done

    def clear(self) -> str:
        """Remove every file of this scope."""
        with self._lock:
            self._files.delete(self._files.all())
        return "All memory cleared"

    def _view(self, command: Any) -> str:
        path = _checked(command.path)
        files = {_path_of(one): one for one in self._files.all()}
        if path in files:
            return _numbered(command.path, text_of(files[path]), command.view_range)
        inside = {at: one for at, one in files.items() if at.startswith(f"{path}/")}
        if not inside and path != ROOT:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return _listed(path, {at: len(text_of(one).encode()) for at, one in inside.items()})

    def _create(self, command: Any) -> str:
        path = _checked(command.path)
        if path == ROOT or self._files.get(path) is not None or self._below(path):
            raise ToolError(f"File {command.path} already exists")
        parents = path.split("/")[2:-1]
        for depth in range(len(parents)):
            above = "/".join([ROOT, *parents[: depth + 1]])
            if self._files.get(above) is not None:
                raise ToolError(f"The path {above} is a file.")
        self._files.put(path, command.file_text)
        return f"File created successfully at: {command.path}"

    def _str_replace(self, command: Any) -> str:
        found = self._existing(command.path)
        text = text_of(found)
        times = text.count(command.old_str)
        if times == 0:
            raise ToolError(
                f"No replacement was performed, old_str `{command.old_str}` did not appear "
                f"verbatim in {command.path}."
            )
        if times > 1:
            lines = ", ".join(str(line) for line in _lines_with(text, command.old_str))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str "
                f"`{command.old_str}` in lines: {lines}. Please ensure it is unique"
            )
        changed = text[: text.find(command.old_str)].count("\n")
        new = text.replace(command.old_str, command.new_str)
        self._files.put(_path_of(found), new)
        written = new.split("\n")
        shown = range(max(0, changed - 2), min(len(written), changed + 3))
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            "(with line numbers):\n" + "\n".join(_line(at + 1, written[at]) for at in shown)
        )

    def _insert(self, command: Any) -> str:
        found = self._existing(command.path)
        lines = text_of(found).removesuffix("\n").split("\n")
        lines = [] if lines == [""] and not text_of(found) else lines
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        new = "\n".join(lines)
        self._files.put(_path_of(found), new if new.endswith("\n") else f"{new}\n")
        return f"The file {command.path} has been edited."

    def _delete(self, command: Any) -> str:
        path = _checked(command.path)
        if path == ROOT:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        one = self._files.get(path)
        gone = [one] if one is not None else self._below(path)
        if not gone:
            raise ToolError(f"The path {command.path} does not exist")
        self._files.delete(gone)
        return f"Successfully deleted {command.path}"

    def _rename(self, command: Any) -> str:
        old, new = _checked(command.old_path), _checked(command.new_path)
        if old == ROOT:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        if new == ROOT or self._files.get(new) is not None or self._below(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        one = self._files.get(old)
        moved = [one] if one is not None else self._below(old)
        if not moved:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"{command.old_path} cannot be moved into itself")
        for each in moved:
            self._files.put(new + _path_of(each)[len(old) :], text_of(each))
        self._files.delete(moved)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def _below(self, path: str) -> list[Memory]:
        return [one for one in self._files.all() if _path_of(one).startswith(f"{path}/")]

    def _existing(self, path: str) -> Memory:
        checked = _checked(path)
        found = self._files.get(checked)
        if found is None and (checked == ROOT or self._below(checked)):
            raise ToolError(f"The path {path} is not a file.")
        if found is None:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        return found


class MemoryTool(BetaAbstractMemoryTool):
    """The memory tool for `Anthropic().beta.messages.tool_runner(tools=[…])`."""

    def __init__(self, memory: Calls, scope: ScopeLike, **options: Any) -> None:
        super().__init__(**options)
        self._files = MemoryFiles(memory, scope)

    def view(self, command: Any) -> str:
        return self._files.run(command)

    create = str_replace = insert = delete = rename = view

    def clear_all_memory(self) -> str:
        return self._files.clear()


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for `AsyncAnthropic`; the store is asked on a thread."""

    def __init__(self, memory: Calls, scope: ScopeLike, **options: Any) -> None:
        super().__init__(**options)
        self._files = MemoryFiles(memory, scope)

    async def view(self, command: Any) -> str:
        return await asyncio.to_thread(self._files.run, command)

    create = str_replace = insert = delete = rename = view

    async def clear_all_memory(self) -> str:
        return await asyncio.to_thread(self._files.clear)


def _checked(path: str) -> str:
    """The path in its one form; whatever leads out of the root is refused."""
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    lowered = path.lower()
    if ".." in parts or "\\" in path or "\0" in path or "%2e" in lowered or "%2f" in lowered:
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return "/" + "/".join(parts)


def _path_of(memory: Memory) -> str:
    return str(memory.metadata["key"])


def _lines_with(text: str, wanted: str) -> list[int]:
    found, at = [], text.find(wanted)
    while at != -1:
        found.append(text[:at].count("\n") + 1)
        at = text.find(wanted, at + 1)
    return found


def _line(number: int, text: str) -> str:
    return f"{number:>{_WIDTH}}\t{text}"


def _numbered(path: str, text: str, view_range: Any) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {MOST_LINES:,} lines.")
    first, last = 1, len(lines)
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0])
        last = len(lines) if view_range[1] == -1 else view_range[1]
    shown = enumerate(lines[first - 1 : last], start=first)
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(
        _line(number, line) for number, line in shown
    )


def _listed(path: str, sizes: dict[str, int]) -> str:
    """Two levels of what is below `path`, folders with the size of what they hold."""
    found: dict[str, int] = {}
    for at, size in sizes.items():
        parts = at[len(path) + 1 :].split("/")
        if any(part.startswith(".") for part in parts[:2]):
            continue
        for depth in (1, 2):
            if depth < len(parts):
                name = "/".join(parts[:depth]) + "/"
                found[name] = found.get(name, 0) + size
        if len(parts) <= 2:
            found["/".join(parts)] = size
    ordered = sorted(found, key=lambda name: [part for part in name.split("/") if part])
    lines = [f"{_size(sum(sizes.values()))}\t{path}"]
    lines += [f"{_size(found[name])}\t{path}/{name}" for name in ordered]
    return (
        f"Here're the files and directories up to 2 levels deep in {path}, "
        "excluding hidden items:\n" + "\n".join(lines)
    )


def _size(count: float) -> str:
    units = ["B", "K", "M", "G"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        units.pop(0)
    return f"{int(count) if count == int(count) else format(count, '.1f')}{units[0]}"
