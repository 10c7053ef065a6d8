"""Connecting programs: their own configuration is edited, and all else in it stays."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from agentmem.server.programs import (
    CLAUDE_EVENTS,
    CODEX_EVENTS,
    CURSOR_EVENTS,
    PROGRAMS,
    NotEditable,
    drop_json,
    program_of,
    read_json,
    set_json,
)
from tests.unit.cli_running import Cli

SERVER, HOOK = ["/opt/agentmem", "mcp", "--user", "ana"], ["/opt/agentmem", "hook", "--user", "ana"]
WITH_COMMENTS = """\
{
  // what I use every day
  "servers": {
    "files": {"command": "files", "args": ["--root", "/"]}, // the whole disk
  },
  "inputs": [],
}
"""
SETTINGS = """\
{
    "model": "opus",
    "hooks": {
        "PostToolUse": [
            {"matcher": "Edit", "hooks": [{"type": "command", "command": "ruff format"}]}
        ]
    },
    "permissions": {"allow": ["Bash(ls:*)"]}
}
"""
TOML = """\
# mine
model = "gpt-5-codex"   # the good one

[mcp_servers.files]
command = "files"

[profiles.fast]
model = "mini"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path / "memory.db", monkeypatch)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_connected_twice_alike_and_disconnected_as_it_was(
    name: str, home: Path, cli: Cli
) -> None:
    program = program_of(name, home=home, env={})
    put(program.servers, TOML if program.servers.suffix == ".toml" else '{\n  "a": 1\n}\n')
    if program.hooks is not None:
        put(program.hooks, SETTINGS)
    files = [path for path in (program.servers, program.hooks) if path is not None]
    before = [path.read_text("utf-8") for path in files]
    shown = cli("connect", name, "--user", "ana", "--yes")
    assert shown.code == 0
    assert "+" in shown.out
    assert f"{name} is connected." in shown.out
    command = program.command()
    assert command is not None
    assert command[-4:] == ["--store", str(cli.store), "--user", "ana"]
    assert "mcp" in command
    assert program.hooked()
    once = [path.read_text("utf-8") for path in files]
    assert "nothing to change" in cli("connect", name, "--user", "ana", "--yes").out
    assert [path.read_text("utf-8") for path in files] == once
    assert f"{name} is no longer connected." in cli("connect", name, "--undo", "--yes").out
    after = [path.read_text("utf-8") for path in files]
    if name == "cursor":  # it says which version it is of, and that stays
        after[1] = after[1].replace('\n    "version": 1,', "")
    assert after == before
    assert program.command() is None


def test_comments_order_and_other_entries_stay(home: Path) -> None:
    program = program_of("vscode", home=home, env={})
    put(program.servers, WITH_COMMENTS)
    (change,) = program.connect(SERVER, HOOK)
    kept = [line for line in change.after.splitlines() if line in WITH_COMMENTS.splitlines()]
    assert kept == WITH_COMMENTS.splitlines()
    entry = read_json(change.after)["servers"]["agentmem"]
    assert entry == {"type": "stdio", "command": "/opt/agentmem", "args": SERVER[1:]}
    put(program.servers, change.after)
    (back,) = program.disconnect()
    assert back.after == WITH_COMMENTS


def test_each_program_is_told_of_the_events_it_has(home: Path) -> None:
    for name, events in (
        ("claude-code", CLAUDE_EVENTS), ("codex", CODEX_EVENTS), ("cursor", CURSOR_EVENTS)
    ):  # fmt: skip
        _, hooks = program_of(name, home=home, env={}).connect(SERVER, HOOK)
        read = json.loads(hooks.after)
        assert tuple(read["hooks"]) == events
        assert all("/opt/agentmem hook --user ana" in json.dumps(read["hooks"][e]) for e in events)
    for name in ("claude-desktop", "vscode"):
        assert len(program_of(name, home=home, env={}).connect(SERVER, HOOK)) == 1


def test_the_toml_of_codex_keeps_its_comments_and_tables(home: Path) -> None:
    program = program_of("codex", home=home, env={})
    put(program.servers, TOML)
    servers, _ = program.connect(SERVER, HOOK)
    assert servers.after.startswith(TOML)
    read = tomllib.loads(servers.after)
    assert read["mcp_servers"]["agentmem"] == {"command": SERVER[0], "args": SERVER[1:]}
    assert read["mcp_servers"]["files"] == {"command": "files"}
    edited = servers.after.replace("args = [", "startup_timeout_sec = 20\nargs = [")
    put(program.servers, edited + "\n[mcp_servers.agentmem.env]\nA = 'b'\n\n[last]\nx = 1\n")
    (back,) = program.disconnect()
    assert tomllib.loads(back.after) == {**tomllib.loads(TOML), "last": {"x": 1}}


@pytest.mark.parametrize(
    ("text", "said"),
    [("{oops", "line 1"), ("[]", "no object"), ('{"mcpServers": 3}', "no object"),
     ('{"a": 1} x', "after its end"), ("{" * 5_000, "")],
)  # fmt: skip
def test_what_cannot_be_read_is_left_alone(text: str, said: str, home: Path, cli: Cli) -> None:
    path = put(program_of("cursor", home=home, env={}).servers, text)
    ran = cli("connect", "cursor", "--yes", "--json")
    assert ran.code != 0
    assert ran.error["type"] == "NotEditable"
    assert said in ran.error["message"]
    assert path.read_text("utf-8") == text


def test_an_inline_table_of_codex_is_left_alone(home: Path) -> None:
    program = program_of("codex", home=home, env={})
    put(program.servers, 'mcp_servers = { files = { command = "files" } }\n')
    with pytest.raises(NotEditable):
        program.connect(SERVER, HOOK)


def test_nothing_is_written_unasked(home: Path, cli: Cli) -> None:
    dry = cli("connect", "claude-code", "--dry-run")
    assert dry.code == 0
    assert '"agentmem"' in dry.out
    refused = cli("connect", "claude-code")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert list(home.iterdir()) == []
    listed = cli("connect", "claude-code", "--dry-run", "--json").json
    assert listed["written"] is False
    assert [Path(one["path"]).name for one in listed["files"]] == [".claude.json", "settings.json"]
    assert cli("connect", "emacs").code == 2
    assert cli("connect", "claude-desktop", "--here", "--yes").code == 2


def test_a_linked_file_stays_linked_and_keeps_its_mode(home: Path, cli: Cli) -> None:
    real = put(home / "dotfiles" / "mcp.json", "{}\n")
    real.chmod(0o640)
    link = home / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert cli("connect", "cursor", "--no-hooks", "--yes").code == 0
    assert link.is_symlink()
    assert "agentmem" in real.read_text("utf-8")
    assert real.stat().st_mode & 0o777 == 0o640
    assert not (home / ".cursor" / "hooks.json").exists()


def test_a_folder_of_its_own_can_be_connected(
    home: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("claude-code", "codex", "cursor", "vscode"):
        assert cli("connect", name, "--here", "--project", "shop", "--yes").code == 0
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == [
        ".claude/settings.json", ".codex/config.toml", ".codex/hooks.json", ".cursor/hooks.json",
        ".cursor/mcp.json", ".mcp.json", ".vscode/mcp.json",
    ]  # fmt: skip
    assert list(home.iterdir()) == []


def test_the_doctor_says_what_is_connected_and_what_could_not_start(home: Path, cli: Cli) -> None:
    def states() -> dict[str, tuple[str, str]]:
        checks = cli("doctor", "--json").json["checks"]
        return {one["name"]: (one["state"], one["found"]) for one in checks}

    assert not set(states()) & set(PROGRAMS)
    cli("connect", "claude-code", "--yes")
    cli("connect", "vscode", "--yes")
    assert states()["claude-code"] == ("ok", "connected, with hooks")
    assert states()["vscode"] == ("ok", "connected, it has no hooks")
    path = program_of("vscode", home=home, env=os.environ).servers
    entry = read_json(path.read_text("utf-8"))
    entry["servers"]["agentmem"]["command"] = "/nowhere/agentmem"
    put(path, json.dumps(entry))
    state, found = states()["vscode"]
    assert state == "fail"
    assert "/nowhere/agentmem" in found
    put(path, "\xff")
    path.write_bytes(b"\xff\xfe")
    assert states()["vscode"][0] == "warn"


@pytest.mark.parametrize(
    "text",
    ["{}", '{"a": 1}', '{"hooks": {"Stop": []}}', "{ // c\n}", "{\n\t\"a\": [1, 2,],\n}\n",
     '{"hooks": {"Stop": [{"command": "x"}]}}', '{\n  "hooks": {\n    "Stop": [1]\n  }\n}'],
)  # fmt: skip
def test_an_item_of_a_list_is_put_in_and_taken_out(text: str) -> None:
    new = set_json(text, ("hooks", "Stop"), {"command": "ours"}, in_list=True)
    read = read_json(new)
    assert read["hooks"]["Stop"][0] == {"command": "ours"}
    back = drop_json(new, ("hooks", "Stop"), lambda one: one == {"command": "ours"})
    if '"Stop": []' in text:
        assert read_json(back) == {}
    else:
        assert back == text
