"""Talking on the command line: answers, commands, interruption, broken models."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.cli.chat import Talk
from agentmem.cli.common import CommandRun
from agentmem.inspector.layout import Pen
from agentmem.memory.manager import MemoryManager
from tests.unit.cli_running import Cli, Terminal, start

LAUNCH = "The alpha launch is on Tuesday."


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path / "memory.db", monkeypatch)


@pytest.fixture
def memory() -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


def screen(*, json: bool = False) -> CommandRun:
    return CommandRun(out=io.StringIO(), err=io.StringIO(), pen=Pen(), width=80, json=json)


def printed(at: CommandRun) -> str:
    assert isinstance(at.out, io.StringIO)
    return at.out.getvalue()


def complained(at: CommandRun) -> str:
    assert isinstance(at.err, io.StringIO)
    return at.err.getvalue()


def talk_to(memory: MemoryManager, model: Any, at: CommandRun, runner: asyncio.Runner) -> Talk:
    return Talk(memory=memory, at=at, runner=runner, model=model, whose={"user_id": "alice"})


def chunk(text: str) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": text}}]}


# -- ask ------------------------------------------------------------------------------------


def test_ask_quotes_memory_and_names_its_source(cli: Cli) -> None:
    memory_id = cli.add(LAUNCH)
    found = cli("ask", "When is the alpha launch?", "--json", "--no-remember").json
    assert "Tuesday" in found["answer"]
    assert memory_id in [one for c in found["citations"] for one in c["memory_ids"]]
    assert found["message_id"]
    ran = cli("ask", "When", "is", "the", "alpha", "launch?")
    assert ran.code == 0
    assert "Tuesday" in ran.out
    assert memory_id in ran.out


def test_ask_without_an_answer_exits_with_5(cli: Cli) -> None:
    ran = cli("ask", "What is a zebra?", "--json")
    assert ran.code == 5
    assert ran.json["citations"] == []


def test_a_question_can_be_piped_in(cli: Cli) -> None:
    cli.add(LAUNCH)
    for args in (("ask",), ("ask", "-")):
        assert "Tuesday" in cli(*args, stdin="When is the alpha launch?\n").out


def test_no_remember_keeps_nothing_of_the_turn(cli: Cli) -> None:
    cli.add(LAUNCH)
    cli("ask", "I like tabs. When is the alpha launch?", "--no-remember")
    assert cli("list", "--limit", "0", "--json").json["count"] == 1
    cli("ask", "I like tabs. When is the alpha launch?")
    assert cli("prefs", "--json").json["preferences"]


def test_a_model_that_cannot_be_asked_is_one_line(cli: Cli) -> None:
    ran = cli("ask", "hello", "--model", "no-such-provider/no-such-model", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.error["message"]


@pytest.mark.parametrize("kind", ["text", "folder", "damaged"])
def test_a_store_that_cannot_be_read_is_said_once_before_anything_is_asked(
    cli: Cli, kind: str
) -> None:
    if kind == "folder":
        cli.store.mkdir()
    elif kind == "text":
        cli.store.write_text("# Notes")
    else:
        cli.add(LAUNCH)
        cli.store.write_bytes(cli.store.read_bytes()[:5_000])
    listed = cli("list")
    for args, stdin in ((("ask", "hi"), ""), (("chat",), "hi\n")):
        ran = cli(*args, stdin=stdin)
        assert (ran.code, ran.out, ran.err) == (4, "", listed.err)
    assert cli("ask", "hi", "--json").error["message"]


def test_a_store_that_is_not_there_yet_can_be_asked(cli: Cli) -> None:
    assert cli("chat", stdin="/prefs\n").code == 0
    assert not cli.store.exists()
    assert cli("ask", "hi").code == 5


@pytest.mark.parametrize("typed", ["", "  "])
def test_an_empty_model_name_is_refused_and_an_unset_one_is_none(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    for args in (("ask", "hi"), ("chat",), ("websearch", "hi"), ("doctor",)):
        ran = cli(*args, "--model", typed, "--json", stdin="hi\n")
        assert (ran.code, ran.out, ran.error["type"]) == (2, "", "InvalidInput")
    assert not cli.store.exists()
    monkeypatch.setenv("AGENTMEM_MODEL", "")
    assert cli("ask", "hi").code == 5


# -- chat, piped ------------------------------------------------------------------------------


def test_piped_lines_are_answered_one_by_one(cli: Cli) -> None:
    cli.add(LAUNCH)
    lines = "When is the alpha launch?\n\n/prefs\nI like tabs\n/prefs\n/quit\nnever read\n"
    ran = cli("chat", stdin=lines)
    assert ran.code == 0
    assert "Tuesday" in ran.out
    assert "No preferences are known." in ran.out
    assert "I like tabs" in ran.out
    assert "you>" not in ran.out
    assert "\x1b" not in ran.out


def test_chat_with_json_is_one_document(cli: Cli) -> None:
    cli.add(LAUNCH)
    ran = cli("chat", "--json", stdin="When is the alpha launch?\n/why\nWhat is a zebra?\n")
    turns = ran.json["turns"]
    assert [turn["question"] for turn in turns] == ["When is the alpha launch?", "What is a zebra?"]
    assert "Tuesday" in turns[0]["answer"]


def test_why_shows_the_block_the_budget_and_every_fate(cli: Cli) -> None:
    cli.add(LAUNCH)
    cli.add("Something about the alpha of quite another kind, far from any question")
    ran = cli("chat", stdin="When is the alpha launch?\n/why\n")
    assert "<knowledge_context>" in ran.out
    assert "Context budget" in ran.out
    assert "kept: " in ran.out
    assert "agentmem explain " in ran.out
    assert "Nothing was asked yet" in cli("chat", stdin="/why\n").err


def test_forget_takes_the_last_turn_or_one_memory_back(cli: Cli) -> None:
    memory_id = cli.add(LAUNCH)
    ran = cli("chat", stdin=f"I like tabs\n/forget\n/prefs\n/forget {memory_id[-8:]}\n/forget\n")
    assert "Forgotten: the last turn" in ran.out
    assert "No preferences are known." in ran.out
    assert f"Forgotten: {memory_id}" in ran.out
    assert "Nothing was said yet" in ran.err
    assert cli("list", "--limit", "0", "--json").json["count"] == 0


def test_what_is_forgotten_leaves_the_conversation_too(memory: MemoryManager) -> None:
    (memory_id,) = memory.add(LAUNCH, user_id="alice").ids
    sent: list[str] = []

    def model(messages: Any, **_: Any) -> str:
        sent.append(str(messages))
        return "On Tuesday, I was told."

    at = screen()
    with asyncio.Runner() as runner:
        talk = talk_to(memory, model, at, runner)
        for line in ("When is the alpha launch?", "Really?", f"/forget {memory_id}", "Hm?"):
            talk.hear(line)
        assert "Tuesday" in sent[1]
        assert "Tuesday" not in sent[2]
        for line in ("/forget", "/forget", "Well?"):
            talk.hear(line)
        assert "Tuesday" not in sent[3]
    assert f"Forgotten: {memory_id} (the conversation starts anew)" in printed(at)
    assert complained(at) == ""


def test_forget_again_takes_the_turn_before_back(cli: Cli) -> None:
    ran = cli("chat", stdin="I like tabs\nI like tea\n/forget\n/prefs\n/forget\n/prefs\n/forget\n")
    assert ran.out.count("Forgotten: the last turn (2 memories)") == 2
    assert ran.out.count("I like tabs") == 1
    assert "No preferences are known." in ran.out
    assert ran.err.count("Nothing was said yet") == 1
    assert cli("list", "--limit", "0", "--json").json["count"] == 0


def test_forget_after_a_failed_turn_takes_the_one_before_it(memory: MemoryManager) -> None:
    def model(messages: Any, **_: Any) -> str:
        if "break" in str(messages[-1]):
            raise RuntimeError("broken")
        return "Noted."

    at = screen()
    with asyncio.Runner() as runner:
        talk = talk_to(memory, model, at, runner)
        for line in ("I like tabs", "break", "/forget"):
            talk.hear(line)
    assert "Forgotten: the last turn (" in printed(at)
    assert not memory.preferences.get_all(user_id="alice")
    texts = [one.text for one in memory.get_all(user_id="alice")]
    assert not [text for text in texts if "tabs" in text]


def test_unknown_commands_and_ids_do_not_end_the_conversation(cli: Cli) -> None:
    ran = cli("chat", stdin="/nonsense\n/forget zzzzzz\n/help\n")
    assert ran.code == 1
    assert "There is no /nonsense" in ran.err
    assert "Error: No memory" in ran.err
    assert "/why" in ran.out


def test_a_path_is_a_question_and_not_a_command(cli: Cli) -> None:
    assert "There is no" not in cli("chat", stdin="/etc/hosts is what?\n").err


# -- models -----------------------------------------------------------------------------------


def test_an_answer_streams_and_the_next_turn_knows_the_first(memory: MemoryManager) -> None:
    asked: list[list[Any]] = []

    async def model(messages: list[Any], stream: bool = False) -> AsyncIterator[dict[str, Any]]:
        asked.append(messages)

        async def pieces() -> AsyncIterator[dict[str, Any]]:
            for text in ("Hel", "lo\x1b", "[31m th", "ere"):
                yield chunk(text)

        return pieces()

    at = screen()
    with asyncio.Runner() as runner:
        talk = talk_to(memory, model, at, runner)
        assert talk.hear("hi")
        assert talk.hear("and again")
    assert printed(at) == "Hello[31m there\nHello[31m there\n"
    said = [message["content"] for message in asked[1]]
    assert "hi" in said
    assert said[-1] == "and again"


def test_ctrl_c_stops_the_answer_and_not_the_conversation(memory: MemoryManager) -> None:
    async def model(messages: list[Any], stream: bool = False) -> AsyncIterator[dict[str, Any]]:
        async def pieces() -> AsyncIterator[dict[str, Any]]:
            yield chunk("only the beginning")
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
            yield chunk("never")

        return pieces()

    at = screen()
    with asyncio.Runner() as runner:
        talk = talk_to(memory, model, at, runner)
        assert talk.hear("hi")
        assert talk.stopped
        talk.model = lambda messages: "a second answer"
        assert talk.hear("go on")
        assert not talk.stopped
    assert printed(at).splitlines() == ["only the beginning", "a second answer"]
    assert "(stopped)" in complained(at)


def test_a_model_that_raises_is_named_and_the_conversation_goes_on(memory: MemoryManager) -> None:
    def model(messages: list[Any]) -> str:
        raise ConnectionError("no\x1b[2J route")

    at = screen()
    with asyncio.Runner() as runner:
        assert talk_to(memory, model, at, runner).hear("hi")
    assert "Error: ConnectionError: no route" in complained(at)


# -- a terminal ---------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 200])
def test_a_conversation_on_a_terminal(cli: Cli, columns: int) -> None:
    cli.add(LAUNCH + " " + "It was moved twice because of the weather over the site. " * 3)
    terminal = Terminal(cli.store, "chat", columns=columns)
    terminal.wait_for("you>")
    terminal.type("When is the alpha launch?\r")
    terminal.wait_for("[1]")
    terminal.wait_for("you>")
    terminal.type("half a line\x03")
    terminal.wait_for("you>")
    terminal.type("/why\r")
    shown = terminal.wait_for("agentmem explain ")
    assert "Context budget" in shown
    terminal.wait_for("you>")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.shown
    history = cli.store.with_name(cli.store.name + ".history")
    assert history.stat().st_mode & 0o777 == 0o600
    assert "When is the alpha launch?" in history.read_text()


def test_each_user_has_a_history_of_their_own(cli: Cli) -> None:
    for user in ("sam", "bob"):
        terminal = Terminal(cli.store, "chat", "--user", user)
        terminal.wait_for("you>")
        terminal.type(f"/help {user}s line\r")
        terminal.wait_for("you>")
        terminal.type("/quit\r")
        assert terminal.end() == 0
    kept = [path for path in cli.store.parent.iterdir() if ".history" in path.name]
    assert sorted(text.count("s line") for text in map(Path.read_text, kept)) == [1, 1]
    for path in kept:
        assert path.stat().st_mode & 0o777 == 0o600
        assert "sam" not in path.name


def test_no_history_keeps_no_file(cli: Cli) -> None:
    cli.add(LAUNCH)
    terminal = Terminal(cli.store, "chat", "--no-history")
    terminal.wait_for("you>")
    terminal.type("/quit\r")
    assert terminal.end() == 0
    assert not cli.store.with_name(cli.store.name + ".history").exists()


def test_a_reader_that_goes_away_ends_a_conversation_quietly(cli: Cli) -> None:
    cli.add(LAUNCH)
    with start(cli.store, "chat") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"When is the alpha launch?\n" * 3)
            process.stdin.close()
        assert process.wait(timeout=120) == 141
        assert process.stderr.read() == b""


def test_forget_leaves_what_the_user_says_elsewhere(memory: MemoryManager) -> None:
    def model(messages: Any) -> str:
        return "The dragonfly module needs a new owner by the end of next week."

    with asyncio.Runner() as runner:
        talk = Talk(
            memory=memory, at=screen(), runner=runner, model=model, whose={"user_id": "ann"}
        )
        talk.hear("Who owns  the dragonfly module?")
        with memory.turn([{"role": "user", "content": "Said elsewhere."}], user_id="ann") as turn:
            turn.done("And answered there, by another model in another window.")
        assert memory.flush(10)
        assert len(memory.get_all(kinds=["message"], user_id="ann")) == 4
        talk.hear("/forget")
    left = [one.text for one in memory.get_all(kinds=["message"], user_id="ann")]
    assert len(left) == 2
    assert not any("dragonfly" in text for text in left)
