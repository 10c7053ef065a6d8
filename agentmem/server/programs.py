"""The programs a memory can be connected to, and how each is told of it in its own configuration.

Files are edited as texts: what is there stays as it is, with its comments and its order, and
taking our entries out again gives back what was there. Nothing is written here.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agentmem.base.errors import AgentMemError, InvalidInput

NAME = "agentmem"


class NotEditable(AgentMemError, ValueError):
    """A configuration is not as its program would read it, so nothing is changed in it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path} {problem}.", remedy="Mend it first, or add the entry by hand.")
        self.path = path


# ----------------------------------------------------------------------------
# JSON with comments, edited in place.


@dataclass(slots=True)
class _Node:
    """A value in the text. Members are `(name, where it begins, value)`; items have no name."""

    start: int
    end: int = 0
    kind: Literal["object", "array", "other"] = "other"
    members: list[tuple[str, int, _Node]] = field(default_factory=list)

    def get(self, name: str) -> _Node | None:
        found = [value for key, _, value in self.members if key == name]
        return found[-1] if found and self.kind == "object" else None


_GAP = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_WORD = re.compile(r"[-+\w.]+")
_DEEPEST = 100


def _parse(text: str) -> _Node:
    """The value of a JSON text with comments and trailing commas; `ValueError` if it is none."""

    def skip(at: int) -> int:
        found = _GAP.match(text, at)
        return found.end() if found else at

    def value(at: int, depth: int) -> _Node:
        node = _Node(at)
        if depth > _DEEPEST or at >= len(text):
            raise ValueError("ends early")
        opened = text[at]
        if opened not in "{[":
            found = (_STRING if opened == '"' else _WORD).match(text, at)
            if found is None:
                raise ValueError(f"is no JSON in line {text.count(chr(10), 0, at) + 1}")
            json.loads(found[0])
            node.end = found.end()
            return node
        node.kind = "object" if opened == "{" else "array"
        at = skip(at + 1)
        while text[at : at + 1] != ("}" if opened == "{" else "]"):
            begin, name = at, ""
            if opened == "{":
                key = _STRING.match(text, at)
                colon = skip(key.end()) if key else -1
                if key is None or text[colon : colon + 1] != ":":
                    raise ValueError(f"is no JSON in line {text.count(chr(10), 0, at) + 1}")
                name, at = json.loads(key[0]), skip(colon + 1)
            inner = value(at, depth + 1)
            node.members.append((name, begin, inner))
            at = skip(inner.end)
            if text[at : at + 1] == ",":
                at = skip(at + 1)
            elif text[at : at + 1] not in ("}", "]"):
                raise ValueError(f"is no JSON in line {text.count(chr(10), 0, at) + 1}")
        node.end = at + 1
        return node

    root = value(skip(0), 0)
    if skip(root.end) != len(text):
        raise ValueError("has something after its end")
    return root


def read_json(text: str) -> Any:
    """The value of a JSON text with comments and trailing commas."""

    def plain(node: _Node) -> Any:
        if node.kind == "object":
            return {name: plain(inner) for name, _, inner in node.members}
        if node.kind == "array":
            return [plain(inner) for _, _, inner in node.members]
        return json.loads(text[node.start : node.end])

    return plain(_parse(text))


def _indent_of(text: str) -> str:
    found = re.search(r"[{\[][^\S\n]*\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _insert(text: str, node: _Node, value: Any, *, name: str = "", depth: int) -> str:
    """`value` as the first member or item of a node."""
    unit = _indent_of(text)
    inline = bool(node.members) and "\n" not in text[node.start : node.members[0][1]]
    written = json.dumps(value, ensure_ascii=False, indent=None if inline else unit)
    margin = unit * (depth + 1)
    written = (f"{json.dumps(name)}: " if name else "") + written.replace("\n", f"\n{margin}")
    inside = text[node.start + 1 : node.end - 1]
    if inline:
        new = f"{written}, "
    elif node.members:
        new = f"\n{margin}{written},"
    elif inside.strip():
        new = f"\n{margin}{written}"
    else:
        return f"{text[: node.start + 1]}\n{margin}{written}\n{unit * depth}{text[node.end - 1 :]}"
    return text[: node.start + 1] + new + text[node.start + 1 :]


def _remove(text: str, node: _Node, at: int) -> str:
    """A node without its member or item number `at`."""
    _, begin, value = node.members[at]
    gap = _GAP.match(text, value.end)
    comma = gap.end() if gap else value.end
    followed = text[comma : comma + 1] == ","
    start = node.members[at - 1][2].end if at else node.start + 1
    if at and followed:  # the comma before it stays for what comes next
        start = text.index(",", start) + 1
    end = comma + 1 if followed else value.end
    inline = "\n" not in text[start:begin]
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
    node = _parse(text)
    for depth, name in enumerate(path):
        if node.kind != "object":
            raise ValueError(f"has no object where {name!r} belongs")
        inner = node.get(name)
        if inner is None:
            rest: Any = [value] if in_list else value
            for missing in reversed(path[depth + 1 :]):
                rest = {missing: rest}
            return _insert(text, node, rest, name=name, depth=depth)
        node = inner
    if not in_list or node.kind != "array":
        raise ValueError(f"has something else at {path[-1]!r}")
    return _insert(text, node, value, depth=len(path))


def drop_json(text: str, path: Sequence[str], ours: Callable[[Any], bool]) -> str:
    """`text` without what is `ours` at `path`, alone or in the list there.

    What holds nothing else goes with it.
    """
    while text.strip():
        trail = [_parse(text)]
        for name in path:
            inner = trail[-1].get(name)
            if inner is None:
                return text
            trail.append(inner)
        last = trail[-1]
        if last.kind == "array":
            at = next(
                (
                    number
                    for number, (_, _, item) in enumerate(last.members)
                    if ours(read_json(text[item.start : item.end]))
                ),
                None,
            )
            if at is None:
                return text
            if len(last.members) > 1:
                text = _remove(text, last, at)
                continue
        elif not ours(read_json(text[last.start : last.end])):
            return text
        # It is all there is: with it goes what holds nothing else.
        for depth in range(len(path) - 1, -1, -1):
            holder = trail[depth]
            number = [name for name, _, _ in holder.members].index(path[depth])
            if depth == 0 or len(holder.members) > 1:
                text = _remove(text, holder, number)
                break
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
    found = _TABLE.search(text)
    while found is not None:
        start = found.start()
        if text[:start].endswith("\n\n"):
            start -= 1
        text = text[:start] + text[found.end() :]
        found = _TABLE.search(text)
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
        except (ValueError, AttributeError):
            return None
        if not isinstance(found, dict) or not isinstance(found.get("command"), str):
            return None
        return [found["command"], *map(str, found.get("args") or ())]

    def hooked(self) -> bool:
        """Whether our hook stands in its configuration; also where it has none."""
        return self.hooks is None or _OURS.search(_read(self.hooks) or "") is not None

    def _changes(self, server: Sequence[str], hook: Sequence[str]) -> Iterator[ProgramChange]:
        edit = self._edit_toml if self.servers.suffix == ".toml" else self._edit_servers
        yield self._change(self.servers, lambda text: edit(text, server))
        if self.hooks is not None:
            yield self._change(self.hooks, lambda text: self._edit_hooks(text, hook))

    def _change(self, path: Path, edit: Callable[[str], str]) -> ProgramChange:
        before = _read(path)
        try:
            return ProgramChange(path=path, before=before, after=edit(before or ""))
        except (ValueError, RecursionError) as error:
            raise NotEditable(path, str(error) or "cannot be read") from None

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
    if os.name == "nt":
        import subprocess

        return subprocess.list2cmdline(command)
    import shlex

    return shlex.join(command)


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
    if name == "codex":
        folder = here / ".codex" if here else Path(env.get("CODEX_HOME") or home / ".codex")
        return Program(
            name=name,
            servers=folder / "config.toml",
            hooks=folder / "hooks.json",
            events=CODEX_EVENTS,
        )
    if name == "cursor":
        folder = (here or home) / ".cursor"
        return Program(
            name=name,
            servers=folder / "mcp.json",
            hooks=folder / "hooks.json",
            events=CURSOR_EVENTS,
        )
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
