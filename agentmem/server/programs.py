"""The programs a memory can be connected to, and how each is told of it in its own configuration.

Files are edited as texts: what is there stays as it is, with its comments and its order, and
taking our entries out again gives back what was there. Nothing is written here.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentmem.base.errors import AgentMemError, InvalidInput
from agentmem.server.members import Members, read_members, skip

NAME = "agentmem"


class NotEditable(AgentMemError, ValueError):
    """A configuration is not as its program would read it, so nothing is changed in it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}.", remedy="Mend it first, or add the entry by hand.")
        self.path = path


# ----------------------------------------------------------------------------
# JSON with comments, edited in place.


_QUOTED = r'("(?:[^"\\\n]|\\.)*")'
_COMMENT = re.compile(rf"{_QUOTED}|//[^\n]*|/\*.*?\*/", re.DOTALL)
# the comma in [1, 2,]
_LAST_COMMA = re.compile(rf"{_QUOTED}|(?<=[\w\"\]}}])\s*,(?=\s*[\]}}])")


def _blanked(what: re.Pattern[str], text: str) -> str:
    """`text` with blanks for what matches outside of strings; all else keeps its place."""
    return what.sub(lambda found: found[1] or re.sub(r"\S", " ", found[0]), text)


def _bare(text: str) -> str:
    """`text` as plain JSON, each value in its place; `ValueError` if it is none."""
    bare = _blanked(_LAST_COMMA, _blanked(_COMMENT, text))
    try:
        json.loads(bare)
    except json.JSONDecodeError as error:
        after = "has something after its end" if error.msg == "Extra data" else ""
        raise ValueError(after or f"is no JSON in line {error.lineno}") from None
    return bare


def read_json(text: str) -> Any:
    """The value of a JSON text with comments and trailing commas."""
    return json.loads(_bare(text))


def _insert(text: str, node: Members, value: Any, *, name: str = "", depth: int) -> str:
    """`value` as the first member or item of a node."""
    indented = re.search(r"[{\[][^\S\n]*\n([ \t]+)\S", text)
    unit = indented[1] if indented else "  "
    inline = bool(node.members) and "\n" not in text[node.start : node.members[0].begin]
    written = json.dumps(value, ensure_ascii=False, indent=None if inline else unit)
    margin = unit * (depth + 1)
    written = (f"{json.dumps(name)}: " if name else "") + written.replace("\n", f"\n{margin}")
    start, rest = text[: node.start + 1], text[node.start + 1 :]
    if inline:
        return f"{start}{written}, {rest}"
    if node.members:
        return f"{start}\n{margin}{written},{rest}"
    if text[node.start + 1 : node.end - 1].strip():
        return f"{start}\n{margin}{written}{rest}"
    return f"{start}\n{margin}{written}\n{unit * depth}{text[node.end - 1 :]}"


def _remove(text: str, node: Members, at: int) -> str:
    """A node without its member or item number `at`."""
    member = node.members[at]
    plain = _blanked(_COMMENT, text)
    comma = skip(plain, member.end)
    followed = plain.startswith(",", comma)
    start = node.members[at - 1].end if at else node.start + 1
    if at and followed:  # the comma before it stays for what comes next
        start = plain.index(",", start) + 1
    end = comma + 1 if followed else member.end
    inline = "\n" not in text[start : member.begin]
    if followed and inline and text[end : end + 1] == " ":
        end += 1
    left = text[:start] + text[end:]
    inside = left[node.start + 1 : node.end - 1 - (end - start)]
    if not inside.strip():
        return left[: node.start + 1] + left[node.start + 1 + len(inside) :]
    return left


def set_json(text: str, path: Sequence[str], value: Any, *, in_list: bool = False) -> str:
    """`text` with `value` at `path`, or as the first item of the list there."""
    text = text if text.strip() else "{}\n"
    bare = _bare(text)
    at = skip(bare, 0)
    for depth, name in enumerate(path):
        if not bare.startswith("{", at):
            raise ValueError(f"has no object where {name!r} belongs")
        node = read_members(bare, at)
        inner = node.get(name)
        if inner is None:
            rest: Any = [value] if in_list else value
            for missing in reversed(path[depth + 1 :]):
                rest = {missing: rest}
            return _insert(text, node, rest, name=name, depth=depth)
        at = inner.start
    if not in_list or not bare.startswith("[", at):
        raise ValueError(f"has something else at {path[-1]!r}")
    return _insert(text, read_members(bare, at), value, depth=len(path))


def drop_json(text: str, path: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """`text` without what is `ours` at `path`, alone or in the list there.

    What holds nothing else goes with it.
    """
    while text.strip():
        bare = _bare(text)
        at = skip(bare, 0)
        holders: list[Members] = []
        value: Any = None
        for name in path:
            inner = None
            if bare.startswith("{", at):
                holders.append(read_members(bare, at))
                inner = holders[-1].get(name)
            if inner is None:
                return text
            at, value = inner.start, inner.value
        if isinstance(value, list):
            number = next((n for n, item in enumerate(value) if ours(item)), None)
            if number is None:
                return text
            if len(value) > 1:
                text = _remove(text, read_members(bare, at), number)
                continue
        elif not ours(value):
            return text
        # It is all there is: with it goes what holds nothing else.
        full = [depth for depth, holder in enumerate(holders) if len(holder.members) > 1]
        holder, name = holders[max(full, default=0)], path[max(full, default=0)]
        text = _remove(text, holder, [one.name for one in holder.members].index(name))
    return text


# ----------------------------------------------------------------------------
# The one table of a TOML file that is ours.


_TABLE = re.compile(
    rf'^\[mcp_servers\.(?:{NAME}|"{NAME}")(?:\.[^\]\n]*)?\][^\n]*\n(?:(?!\[)[^\n]*(?:\n|\Z))*',
    re.MULTILINE,
)


def set_toml(text: str, command: Sequence[str]) -> str:
    """`text` with the server's table at its end."""
    args = json.dumps(list(command[1:]), ensure_ascii=False)
    table = f"[mcp_servers.{NAME}]\ncommand = {json.dumps(command[0], ensure_ascii=False)}\n"
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{table}args = {args}\n"


def drop_toml(text: str) -> str:
    """`text` without the server's table, and the empty line before it."""
    while (found := _TABLE.search(text)) is not None:
        before = text[: found.start()]
        text = (before[:-1] if before.endswith("\n\n") else before) + text[found.end() :]
    return text


def _others_in_toml(text: str) -> Any:
    """All of a TOML file but what is ours."""
    read = tomllib.loads(text)
    servers = read.get("mcp_servers")
    if isinstance(servers, dict):
        servers.pop(NAME, None)
        if not servers:
            del read["mcp_servers"]
    return read


# ----------------------------------------------------------------------------
# The programs.


CLAUDE_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SessionEnd")
CODEX_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
CURSOR_EVENTS = ("sessionStart", "beforeSubmitPrompt", "postToolUse", "afterAgentResponse", "stop")
MATCHED = "Bash|WebFetch|WebSearch|mcp__.*"
"""The tools whose results are kept; what lies in files is left there."""
TIMEOUT_SECONDS = 30
_OURS = re.compile(r"\bagentmem(?:\.exe)?[\"']?\s+hook\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramChange:
    """A file of a program as it is and as it would be; `before` is None where there is none."""

    path: Path
    before: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program that can use a memory: where it looks for servers, and where for hooks."""

    name: str
    servers: Path
    at: tuple[str, ...] = ("mcpServers",)
    """Where in `servers` they stand; not used for TOML."""
    typed: bool = False
    hooks: Path | None = None
    events: tuple[str, ...] = ()

    def connect(self, server: Sequence[str], hook: Sequence[str]) -> tuple[ProgramChange, ...]:
        """The changes that connect it: `server` starts the server, `hook` is run at events."""
        return tuple(self._changes(server, hook))

    def disconnect(self) -> tuple[ProgramChange, ...]:
        """The changes that take our entries out again."""
        return tuple(change for change in self._changes((), ()) if change.before is not None)

    def command(self) -> list[str] | None:
        """The command it would start our server with; None if it is not connected."""
        text = _read(self.servers)
        if not text:
            return None
        try:
            if self.servers.suffix == ".toml":
                found = tomllib.loads(text).get("mcp_servers", {}).get(NAME)
            else:
                found = read_json(text)
                for name in (*self.at, NAME):
                    found = found.get(name)
        except (ValueError, AttributeError, RecursionError):
            return None
        if not isinstance(found, dict) or not isinstance(found.get("command"), str):
            return None
        return [found["command"], *map(str, found.get("args") or ())]

    def hooked(self) -> bool:
        """Whether our hook stands in its configuration; also where it has none."""
        return self.hooks is None or _OURS.search(_read(self.hooks) or "") is not None

    def _changes(self, server: Sequence[str], hook: Sequence[str]) -> Iterator[ProgramChange]:
        in_toml = self.servers.suffix == ".toml"
        for path, edit, command in (
            (self.servers, self._edit_toml if in_toml else self._edit_servers, server),
            (self.hooks, self._edit_hooks, hook),
        ):
            if path is None:
                continue
            before = _read(path)
            try:
                after = edit(before or "", command)
            except (ValueError, RecursionError) as error:
                raise NotEditable(path, str(error) or "cannot be read") from None
            yield ProgramChange(path=path, before=before, after=after)

    def _edit_servers(self, text: str, server: Sequence[str]) -> str:
        path = (*self.at, NAME)
        text = drop_json(text, path, lambda _: True)
        if not server:
            return text
        entry: dict[str, Any] = {"type": "stdio"} if self.typed else {}
        return set_json(text, path, {**entry, "command": server[0], "args": list(server[1:])})

    def _edit_toml(self, text: str, server: Sequence[str]) -> str:
        others = _others_in_toml(text)
        text = drop_toml(text)
        if server:
            text = set_toml(text, server)
        if _others_in_toml(text) != others or bool(server) != bool(
            tomllib.loads(text).get("mcp_servers", {}).get(NAME)
        ):
            raise ValueError("has our entry in a form that cannot be edited")
        return text

    def _edit_hooks(self, text: str, hook: Sequence[str]) -> str:
        for event in self.events:
            text = drop_json(text, ("hooks", event), _is_ours)
        if not hook:
            return text
        said = _shell(hook)
        for event in reversed(self.events):
            text = set_json(text, ("hooks", event), self._entry(event, said), in_list=True)
        if self.events == CURSOR_EVENTS and "version" not in read_json(text):
            text = set_json(text, ("version",), 1)
        return text

    def _entry(self, event: str, said: str) -> dict[str, Any]:
        if self.events == CURSOR_EVENTS:
            return {"command": said}
        run = {"type": "command", "command": said, "timeout": TIMEOUT_SECONDS}
        return {**({"matcher": MATCHED} if event == "PostToolUse" else {}), "hooks": [run]}


def _is_ours(entry: Any) -> bool:
    return _OURS.search(json.dumps(entry, ensure_ascii=False).replace('\\"', '"')) is not None


def _shell(command: Sequence[str]) -> str:
    return subprocess.list2cmdline(command) if os.name == "nt" else shlex.join(command)


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise NotEditable(path, "is not UTF-8 text") from None


PROGRAMS = ("claude-code", "codex", "cursor", "claude-desktop", "vscode")


def program_of(
    name: str, *, home: Path, here: Path | None = None, env: Mapping[str, str] = os.environ
) -> Program:
    """A program by its name, as configured for a user or for the folder `here`."""
    if name not in PROGRAMS:
        raise InvalidInput(
            "program", name, "is not known", remedy=f"Known are: {', '.join(PROGRAMS)}."
        )
    if name == "claude-code":
        own = Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else None
        folder = here / ".claude" if here else own or home / ".claude"
        servers = here / ".mcp.json" if here else (own or home) / ".claude.json"
        settings = folder / "settings.json"
        return Program(name=name, servers=servers, typed=True, hooks=settings, events=CLAUDE_EVENTS)
    if name in ("codex", "cursor"):
        folder = (here or home) / f".{name}"
        if name == "codex" and not here:
            folder = Path(env.get("CODEX_HOME") or folder)
        servers = folder / ("config.toml" if name == "codex" else "mcp.json")
        events = CODEX_EVENTS if name == "codex" else CURSOR_EVENTS
        return Program(name=name, servers=servers, hooks=folder / "hooks.json", events=events)
    if name == "vscode":
        servers = here / ".vscode" if here else _settings_folder(home, env) / "Code" / "User"
        return Program(name=name, servers=servers / "mcp.json", at=("servers",), typed=True)
    if here:
        raise InvalidInput(
            "here", str(here), "has no configuration of claude-desktop",
            remedy="Leave --here out: it is configured for a user only.",
        )  # fmt: skip
    folder = _settings_folder(home, env) / "Claude"
    return Program(name=name, servers=folder / "claude_desktop_config.json")


def _settings_folder(home: Path, env: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if os.name == "nt":
        return Path(env.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(env.get("XDG_CONFIG_HOME") or home / ".config")
