"""Real coding agents, run once without a person against a model of this machine, with our hooks.

    python -m tests.servers.agents tests/fixtures/hooks

writes the events that Claude Code and Codex told their hooks, one line each, as the tests of the
hooks read them. What is of this machine (folders, versions of the day) is replaced by names.
The programs are found in `.node` (`make agents` installs them there).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.servers.chat import Calls, ChatServer
from tests.servers.claude import ClaudeServer

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / ".node" / "node_modules" / ".bin"
COMMANDS = {"claude-code": "claude", "codex": "codex"}
PROMPT = "Run the tests of the cart. Which of them fail at the moment?"
ANSWER = "One test fails: the discount is rounded down in the shopping cart."
KNOWN = "The tests of the cart fail on Mondays."
_TESTS = "echo FAILED tests/test_cart.py::test_discount_is_rounded"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """What one run of a program told its hooks, and what its model was sent."""

    events: tuple[str, ...]
    notified: tuple[str, ...]
    bodies: tuple[Mapping[str, Any], ...]
    said: str
    store: Path


def found(program: str) -> Path | None:
    """Where a program is, if it is installed."""
    path = FOUND / COMMANDS[program]
    return path if path.exists() else None


def run_agent(program: str, folder: Path, *, every_tool: bool = False) -> AgentRun:
    """Connect `program` in a home of its own and let it answer one prompt.

    With `every_tool` its hook is told of the tools that `connect` leaves out, too.
    """
    home, shop, shims = folder / "home", folder / "shop", folder / "bin"
    for one in (home, shop, shims):
        one.mkdir(parents=True)
    (shop / "cart.py").write_text("def unreadable_by_memory(): ...\n")
    store, events, notified = (folder / one for one in ("memory.db", "events", "notified"))
    shim = shims / "agentmem"
    python = f'PYTHONPATH="{ROOT}" "{sys.executable}" -m agentmem "$@"'
    shim.write_text(
        "#!/bin/sh\nfor last; do :; done\n"
        f'case "$1 $last" in hook*--stop) ;; hook*"}}") echo "$last" >> "{notified}";;\n'
        f'hook*) tee -a "{events}" | {python}; echo >> "{events}"; exit;; esac\n{python}\n'
    )
    shim.chmod(0o755)
    environment = {
        "HOME": str(home), "PATH": os.pathsep.join([str(shims), os.environ["PATH"]]),
        "LANG": "C.UTF-8", "AGENTMEM_EMBEDDER": "none", "AGENTMEM_HOOK_IDLE_SECONDS": "60",
    }  # fmt: skip

    def call(*command: str, seconds: float = 240) -> str:
        ran = subprocess.run(
            command, env=environment, cwd=shop, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, encoding="utf-8", timeout=seconds, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"{command[0]}: {ran.stdout[-2_000:]}{ran.stderr[-2_000:]}"
        return ran.stdout

    whose = ("--store", str(store), "--user", "ana")
    call(str(shim), "add", KNOWN, *whose)
    call(str(shim), "connect", program, "--yes", *whose)
    if every_tool:
        for file in home.rglob("*.json"):
            file.write_text(re.sub(r'"matcher": "[^"]*",?', "", file.read_text("utf-8")))
    path = found(program)
    assert path is not None
    server: ClaudeServer | ChatServer
    try:
        if program == "claude-code":
            with _claude(environment, shop) as server:
                tools = ("Bash", "Read", "WaitForMcpServers", "mcp__agentmem")
                said = call(str(path), "-p", PROMPT, "--allowedTools", *tools)
        else:
            notify = (str(shim), "hook", *whose) if every_tool else ()
            with _codex(environment, home, notify) as server:
                unasked = ("--dangerously-bypass-approvals-and-sandbox",
                           "--dangerously-bypass-hook-trust")  # fmt: skip
                said = call(str(path), "exec", "--skip-git-repo-check", *unasked, PROMPT)
    finally:
        call(str(shim), "hook", "--stop", *whose)
    return AgentRun(
        events=_lines(events), notified=_lines(notified), bodies=tuple(server.bodies), said=said,
        store=store,
    )  # fmt: skip


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(filter(None, path.read_text("utf-8").splitlines())) if path.exists() else ()


@contextmanager
def _claude(environment: dict[str, str], shop: Path) -> Iterator[ClaudeServer]:
    def use(name: str, **given: Any) -> list[dict[str, Any]]:
        return [{"type": "tool_use", "id": f"toolu_{name}", "name": name, "input": given}]

    replies = (
        use("WaitForMcpServers", servers=["agentmem"]),
        use("mcp__agentmem__search_memories", query="When do the tests of the cart fail?"),
        use("Bash", command=_TESTS, description="Run the tests"),
        use("Read", file_path=str(shop / "cart.py")),
        ANSWER,
    )
    with ClaudeServer(*replies) as server:
        environment |= {
            "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "no-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
        }  # fmt: skip
        yield server


class _TakesAll(ChatServer):
    """Codex sends fields of its own, which the schema of the tests does not know."""

    def _problem(self, path: str, body: Any) -> str:
        return ""


@contextmanager
def _codex(
    environment: dict[str, str], home: Path, notify: tuple[str, ...]
) -> Iterator[ChatServer]:
    def use(call_id: str, command: str) -> Calls:
        return Calls(calls=((call_id, "exec_command", json.dumps({"cmd": command})),))

    with _TakesAll(use("call_1", _TESTS), ANSWER) as server:
        path = home / ".codex" / "config.toml"
        provider = (
            f"{f'notify = {json.dumps(notify)}' if notify else ''}\n"
            'model = "gpt-5-codex"\nmodel_provider = "here"\n\n[model_providers.here]\n'
            f'name = "here"\nbase_url = "{server.url}"\nwire_api = "responses"\n'
            'env_key = "NO_KEY"\n\n'
        )
        path.write_text(provider + path.read_text("utf-8"))
        environment["NO_KEY"] = "no-key"
        yield server


def without_machine(event: str, folder: Path) -> str:
    """An event as somebody else's machine would have told it."""
    said = event.replace(str(folder / "home"), "/home/ana").replace(str(folder), "/home/ana")
    return said.replace(str(folder).replace("/", "-"), "-home-ana")


def main() -> None:
    """Write the events of every program that is installed."""
    target = Path(sys.argv[1])
    for program in COMMANDS:
        if found(program) is None:
            sys.stdout.write(f"{program} is not in {FOUND}\n")
            continue
        folder = Path(tempfile.mkdtemp())
        try:
            ran = run_agent(program, folder, every_tool=True)
            for name, events in ((program, ran.events), (f"{program}-notify", ran.notified)):
                if events:
                    lines = [f"{without_machine(event, folder)}\n" for event in events]
                    (target / f"{name}.jsonl").write_text("".join(lines), "utf-8")
                    sys.stdout.write(f"{name}: {len(lines)} events\n")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
