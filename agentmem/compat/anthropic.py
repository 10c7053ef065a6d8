"""Anthropic's memory tool with memories of one scope as its files.

A file is one memory of the kind `note`, found by searches and turns like every
other. Folders are what the paths say, so an empty one does not exist.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import MissingExtra
from agentmem.base.types import ScopeLike
from agentmem.compat.records import Records, text_of

try:
    from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ModuleNotFoundError as error:
    raise MissingExtra("anthropic", extra="anthropic", purpose="The memory tool") from error

if TYPE_CHECKING:
    from agentmem.search.parts import Calls

ROOT = "/memories"
MOST_LINES = 999_999
Done = tuple[str, Mapping[str, str | None]]
"""What a command says, and the files it changes: None takes one away."""


@dataclass(frozen=True, slots=True)
class FileTexts:
    """What each command says of these files, by path, and which of them it changes."""

    texts: Mapping[str, str]

    def view(self, command: Any) -> Done:
        path = _checked(command.path)
        if path in self.texts:
            return _numbered(command.path, self.texts[path], command.view_range), {}
        inside = self._below(path)
        if not inside and path != ROOT:
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return _listed(path, {at: len(self.texts[at].encode()) for at in inside}), {}

    def create(self, command: Any) -> Done:
        path = _checked(command.path)
        if self._is_taken(path):
            raise ToolError(f"File {command.path} already exists")
        self._require_folders(path)
        return f"File created successfully at: {command.path}", {path: command.file_text}

    def str_replace(self, command: Any) -> Done:
        path = self._existing(command.path)
        text, old = self.texts[path], command.old_str
        times = text.count(old)
        if times == 0:
            raise ToolError(
                f"No replacement was performed, old_str `{old}` did not appear "
                f"verbatim in {command.path}."
            )
        if times > 1:
            lines = ", ".join(str(line) for line in _lines_with(text, old))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str "
                f"`{old}` in lines: {lines}. Please ensure it is unique"
            )
        changed = text[: text.find(old)].count("\n")
        written = text.replace(old, command.new_str)
        shown = list(enumerate(written.split("\n"), start=1))[max(0, changed - 2) : changed + 3]
        return (
            "The memory file has been edited. Here is the snippet showing the change "
            "(with line numbers):\n" + _lines(shown),
            {path: written},
        )

    def insert(self, command: Any) -> Done:
        path = self._existing(command.path)
        lines = self.texts[path].removesuffix("\n").split("\n") if self.texts[path] else []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. "
                f"It should be within the range [0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        written = "\n".join(lines)
        ended = written if written.endswith("\n") else f"{written}\n"
        return f"The file {command.path} has been edited.", {path: ended}

    def delete(self, command: Any) -> Done:
        path = _checked(command.path)
        if path == ROOT:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        gone = [path] if path in self.texts else self._below(path)
        if not gone:
            raise ToolError(f"The path {command.path} does not exist")
        return f"Successfully deleted {command.path}", dict.fromkeys(gone)

    def rename(self, command: Any) -> Done:
        old, new = _checked(command.old_path), _checked(command.new_path)
        if old == ROOT:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        if self._is_taken(new):
            raise ToolError(f"The destination {command.new_path} already exists")
        moved = [old] if old in self.texts else self._below(old)
        if not moved:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new.startswith(f"{old}/"):
            raise ToolError(f"{command.old_path} cannot be moved into itself")
        self._require_folders(new)
        changes: dict[str, str | None] = {new + at[len(old) :]: self.texts[at] for at in moved}
        said = f"Successfully renamed {command.old_path} to {command.new_path}"
        return said, changes | dict.fromkeys(moved)

    def _below(self, path: str) -> list[str]:
        return [at for at in self.texts if at.startswith(f"{path}/")]

    def _is_taken(self, path: str) -> bool:
        return path == ROOT or path in self.texts or bool(self._below(path))

    def _require_folders(self, path: str) -> None:
        for above in self.texts:
            if path.startswith(f"{above}/"):
                raise ToolError(f"The path {above} is a file.")

    def _existing(self, path: str) -> str:
        checked = _checked(path)
        if checked in self.texts:
            return checked
        if self._is_taken(checked):
            raise ToolError(f"The path {path} is not a file.")
        raise ToolError(f"The path {path} does not exist. Please provide a valid path.")


class MemoryFiles:
    """The files of one scope; what cannot be done raises the SDK's `ToolError`."""

    def __init__(self, memory: Calls, scope: ScopeLike) -> None:
        self._files = Records(memory, scope, kind="note")
        self._lock = threading.Lock()

    def run(self, command: Any) -> str:
        """Do one command of the SDK."""
        with self._lock:
            kept = {str(one.metadata["key"]): one for one in self._files.all()}
            files = FileTexts({path: text_of(one) for path, one in kept.items()})
            said, changes = getattr(files, command.command)(command)
            for path, text in changes.items():
                if text is not None:
                    self._files.put(path, text)
            self._files.delete(kept[path] for path, text in changes.items() if text is None)
            return said

    def clear(self) -> str:
        """Remove every file of this scope."""
        with self._lock:
            self._files.delete(self._files.all())
        return "All memory cleared"


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


def _lines_with(text: str, wanted: str) -> list[int]:
    found = re.finditer(f"(?={re.escape(wanted)})", text)
    return [text.count("\n", 0, one.start()) + 1 for one in found]


def _lines(numbered: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"{number:>6}\t{line}" for number, line in numbered)


def _numbered(path: str, text: str, view_range: Any) -> str:
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of {MOST_LINES:,} lines.")
    first, last = 1, len(lines)
    if view_range and len(view_range) == 2:
        first = max(1, view_range[0])
        last = len(lines) if view_range[1] == -1 else view_range[1]
    shown = enumerate(lines[first - 1 : last], start=first)
    return f"Here's the content of {path} with line numbers:\n{_lines(shown)}"


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
