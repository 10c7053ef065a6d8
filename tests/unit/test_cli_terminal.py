"""The command line in processes of its own: pipes, terminals, signals."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agentmem.inspector.layout import width_of
from tests.unit.cli_running import Cli, Terminal, environment, start

SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;;[^\x1b]*\x1b\\")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path / "memory.db", monkeypatch)


def fill(cli: Cli, count: int, *, text: str = "") -> None:
    """Import many memories at once."""
    import agentmem

    with agentmem.open(cli.store, embedder=None) as memory:
        memory.add([{"role": "user", "content": f"{text} line {n}"} for n in range(count)])


@pytest.mark.parametrize("args", [("list", "--limit", "0"), ("export", "-")], ids=" ".join)
def test_head_takes_what_it_wants(cli: Cli, args: tuple[str, ...]) -> None:
    fill(cli, 300, text="word " * 100)
    with start(cli.store, *args) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(10)
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr.read() == b""


def test_an_interrupt_exits_with_130(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentmem.cli.common.CommandRun.memory", interrupt)
    ran = cli("list")
    assert (ran.code, ran.out) == (130, "")
    assert "Traceback" not in ran.err


def test_exit_codes_reach_the_shell(cli: Cli) -> None:
    cli.add("alpha beta")
    for args, code in (
        (("search", "alpha"), 0),
        (("search", "zebra"), 5),
        (("get", "zzzzzz"), 3),
        (("get",), 2),
        (("list", "--store", str(cli.store.parent)), 4),
    ):
        process = start(cli.store, *args)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, (args, out, err)
        assert b"Traceback" not in err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("list >&-", 0),
        ("list --json >&- 2>&-", 0),
        ("export - >&-", 0),
        ("--version >&-", 0),
        ("stats >&-", 0),
        ("get zzzz 2>&-", 3),
        ("nonsense 2>&-", 2),
        ("chat <&-", 0),
        ("add - <&-", 2),
        ("add text <&- >&- 2>&-", 0),
    ],
)
def test_a_closed_stream_is_one_that_leads_nowhere(cli: Cli, command: str, code: int) -> None:
    cli.add("alpha beta")
    line = f"{shlex.quote(sys.executable)} -m agentmem {command}"
    ran = subprocess.run(
        ["/bin/sh", "-c", line],
        check=False,
        env=environment(cli.store),
        capture_output=True,
        timeout=60,
    )
    assert ran.returncode == code, ran
    for bad in (b"Traceback", b"NoneType", b"alpha"):
        assert bad not in ran.stdout + ran.stderr


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 200, 500])
def test_lines_fit_the_terminal_and_stored_escapes_do_not_reach_it(cli: Cli, columns: int) -> None:
    memory_id = cli.add("\x1b]0;owned\x07 漢字かな " * 20 + "word " * 60 + "x" * 300)
    cli("prefs", "add", "I like long answers " * 20)
    for args in (
        ("list",),
        ("search", "word"),
        ("get", memory_id),
        ("prefs",),
        ("history", memory_id),
        ("get", "zzzzzz"),
        ("ask", "What is a word?", "--no-remember"),
        ("erase", memory_id, "--yes"),
    ):
        ran = cli(*args, columns=columns)
        assert ran.code in (0, 3)
        assert "\x1b]0" not in ran.out
        for line in SEQUENCE.sub("", ran.out + ran.err).split("\n"):
            assert width_of(line) <= max(40, min(200, columns)), line


def test_what_is_exported_to_a_terminal_neither_moves_it_nor_turns_its_lines_around(
    cli: Cli,
) -> None:
    fill(cli, 1, text="a\x9b2J\x85b\u202ec\u2066d\u200be \U000e0041f 漢字")
    terminal = Terminal(cli.store, "export", "-")
    assert terminal.end() == 0
    for unseen in "\x1b\x9b\x85\u202e\u2066\u200b\U000e0041":
        assert unseen not in terminal.shown
    assert "漢字" in terminal.shown
    piped = cli("export", "-").out
    shown = [json.loads(line) for line in terminal.shown.splitlines()]
    assert shown == [json.loads(line) for line in piped.split("\n") if line]
    assert "\u202e" in piped  # a file or a pipe gets the bytes as they are


def test_a_real_terminal_is_measured(cli: Cli) -> None:
    memory_id = cli.add("word " * 60 + "\n    return 1")
    terminal = Terminal(cli.store, "get", memory_id, columns=57)
    assert terminal.end() == 0
    lines = [width_of(line) for line in SEQUENCE.sub("", terminal.shown).split("\n")]
    assert 50 < max(lines) <= 57
    assert "\n    return 1\n" in terminal.shown


def test_colour_is_for_terminals_and_can_be_declined(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.add("alpha beta")
    assert "\x1b" not in cli("search", "alpha").out
    assert "\x1b[" in cli("search", "alpha", columns=80).out
    assert "\x1b" not in cli("search", "alpha", "--no-color", columns=80).out
    assert "\x1b" not in cli("--no-color", "search", "alpha", columns=80).out
    terminal = Terminal(cli.store, "search", "alpha", env={"NO_COLOR": "1"})
    assert terminal.end() == 0
    assert "\x1b" not in terminal.shown


def test_a_person_is_asked_before_something_is_destroyed(cli: Cli) -> None:
    memory_id = cli.add("alpha beta")
    terminal = Terminal(cli.store, "delete", memory_id[-8:])
    asked = terminal.wait_for("[y/N]")
    assert memory_id in asked
    assert "alpha beta" in asked  # what it is about, not only how it is called
    terminal.type("n\n")
    assert terminal.end() == 1
    assert "Nothing was changed" in terminal.shown
    assert cli("get", memory_id).code == 0
    terminal = Terminal(cli.store, "erase", "--all")
    terminal.wait_for("[y/N]")
    terminal.type("y\n")
    assert terminal.end() == 0
    assert cli("get", memory_id).code == 3


def test_a_person_is_asked_before_a_folder_is_made(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "new" / "memory.db"
    for answer, code in (("n\n", 1), ("y\n", 0)):
        terminal = Terminal(cli.store, "--store", str(store), "add", "alpha beta")
        terminal.wait_for("Make it? [y/N]")
        assert not store.parent.exists()
        terminal.type(answer)
        assert terminal.end() == code
        assert store.exists() == (code == 0)


def test_ctrl_c_at_a_question_changes_nothing(cli: Cli) -> None:
    memory_id = cli.add("alpha beta")
    terminal = Terminal(cli.store, "erase", memory_id)
    terminal.wait_for("[y/N]: ")
    assert terminal.interrupt() == 130
    assert cli("get", memory_id).code == 0


def test_a_missing_text_on_a_terminal_is_an_error_and_not_a_wait(cli: Cli) -> None:
    terminal = Terminal(cli.store, "add")
    assert terminal.end() == 2
    assert "is missing" in terminal.shown
