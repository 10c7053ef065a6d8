"""The hooks of coding agents: what they are told, what is kept, and that they never get in the way."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.types import Scope
from agentmem.cli.hook import send
from agentmem.prompt.block import parse_context
from agentmem.server.hook import MOST_CHARACTERS, MOST_TOKENS, Hooks, last_answer, read_event
from tests.servers import agents
from tests.unit.cli_running import ROOT, environment

EVENTS = ROOT / "tests" / "fixtures" / "hooks"
ANA = Scope(user_id="ana")
PROGRAMS = ("claude-code", "codex", "cursor")


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        yield opened


def told(program: str) -> list[str]:
    return (EVENTS / f"{program}.jsonl").read_text("utf-8").splitlines()


def run(memory: agentmem.MemoryManager, *events: str | dict[str, Any], **options: Any) -> list[str]:
    """What each event is answered; all that is to be kept is kept afterwards."""
    hooks = Hooks(memory)
    said = [
        hooks.answer(one if isinstance(one, str) else json.dumps(one), ANA, **options)
        for one in events
    ]
    hooks.close()
    memory.flush()
    return said


def context_in(answer: str) -> str:
    """The text an agent would be given."""
    if not answer:
        return ""
    read = json.loads(answer)
    found = read.get("hookSpecificOutput", {}).get("additionalContext")
    return str(found or read["additional_context"])


def kept(memory: agentmem.MemoryManager) -> list[str]:
    return [one.text for one in memory.get_all(user_id="ana", limit=1_000)]


def prompt(text: str, session: str = "s1") -> dict[str, Any]:
    return {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": text}


def stop(text: str, session: str = "s1") -> dict[str, Any]:
    return {"hook_event_name": "Stop", "session_id": session, "last_assistant_message": text}


def bash(output: Any, command: str = "ls", session: str = "s1") -> dict[str, Any]:
    return {
        "hook_event_name": "PostToolUse", "session_id": session, "tool_name": "Bash",
        "tool_input": {"command": command}, "tool_response": output,
    }  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_recorded_session_is_told_what_is_known_and_kept(
    program: str, memory: agentmem.MemoryManager
) -> None:
    memory.preferences.add("I prefer short answers.", user_id="ana")
    memory.add("The tests of the cart fail on Mondays.", user_id="ana")
    said = [context_in(answer) for answer in run(memory, *told(program))]
    begun, asked, *rest = said
    for text in (begun, asked):
        shown = parse_context(text, secret=memory.runtime.secret())
        assert shown.user_profile == ("I prefer short answers.",)
        assert [source.text for source in shown.related_knowledge] == [
            "The tests of the cart fail on Mondays."
        ]
    assert not any(rest)
    texts = kept(memory)
    assert "Run the tests of the cart. Which of them fail at the moment?" in texts
    assert "One test fails: the discount is rounded down in the shopping cart." in texts
    assert any("test_discount_is_rounded" in text for text in texts)
    assert not any("unreadable_by_memory" in text for text in texts)
    assert not any("knowledge_context" in text for text in texts)


def test_what_a_codex_patch_shows_is_left_in_the_files(memory: agentmem.MemoryManager) -> None:
    shown = "def unreadable_by_memory(): ..."
    run(memory, {**bash(shown, command="*** Begin Patch"), "tool_name": "apply_patch"})
    assert kept(memory) == []


def test_what_a_tool_of_another_server_says_is_kept_as_its_text(
    memory: agentmem.MemoryManager,
) -> None:
    parts = [{"type": "text", "text": 'The tide "is" out.'}, {"type": "image", "data": "AAAA"}]
    tool = {"tool_name": "mcp__sea__tide", "tool_input": {}}
    for output in (parts, {"content": parts}):
        event = read_event(json.dumps({**bash(output), **tool}))
        assert event is not None
        assert event.output == 'The tide "is" out.'


@pytest.mark.parametrize("program", agents.COMMANDS)
def test_the_real_program_tells_its_model_what_is_known_and_its_answer_is_kept(
    program: str, tmp_path: Path
) -> None:
    if agents.found(program) is None:
        pytest.skip(f"{program} is not here: `make agents` installs it into .node")
    ran = agents.run_agent(program, tmp_path)
    assert agents.ANSWER in ran.said
    names = [json.loads(event)["hook_event_name"] for event in ran.events]
    assert names[:2] == ["SessionStart", "UserPromptSubmit"]
    assert agents.KNOWN in json.dumps(ran.bodies[0])
    with agentmem.open(ran.store, embedder=None) as memory:
        texts = kept(memory)
    assert {agents.KNOWN, agents.PROMPT, agents.ANSWER} <= set(texts)
    assert any("test_discount_is_rounded" in text for text in texts)
    assert not any("unreadable_by_memory" in text for text in texts)
    assert not any("knowledge_context" in text for text in texts)


def test_what_codex_notifies_is_kept_too(memory: agentmem.MemoryManager) -> None:
    run(memory, *told("codex-notify"))
    assert len(kept(memory)) == 2


def test_each_program_gets_its_own_form_of_answer(memory: agentmem.MemoryManager) -> None:
    memory.add("The tests of the cart fail on Mondays.", user_id="ana")
    for program in ("claude-code", "codex"):
        for at, name in enumerate(("SessionStart", "UserPromptSubmit")):
            read = json.loads(run(memory, *told(program)[: at + 1])[at])
            assert list(read) == ["hookSpecificOutput"]
            assert read["hookSpecificOutput"]["hookEventName"] == name
    begun, asked = map(json.loads, run(memory, *told("cursor")[:2]))
    assert list(begun) == ["additional_context"]
    assert asked["continue"] is True


def test_a_memory_that_knows_nothing_says_nothing(memory: agentmem.MemoryManager) -> None:
    assert run(memory, *told("claude-code")[:2]) == ["", ""]


@pytest.mark.parametrize("limit", [200, 700, 2_500, 100_000])
def test_what_is_told_stays_within_its_limit(limit: int, memory: agentmem.MemoryManager) -> None:
    for number in range(120):
        memory.add(f"Ship {number} of the harbour carries wood, tar and rope.", user_id="ana")
    said = run(
        memory,
        {"hook_event_name": "SessionStart", "session_id": "s"},
        prompt("What do the ships of the harbour carry?"),
        limit_tokens=limit,
    )
    count = memory.runtime.tokenizer("")[0]
    for text in map(context_in, said):
        assert count(text) <= min(limit, MOST_TOKENS)
        assert len(text) <= MOST_CHARACTERS
    assert limit == 200 or all(said)


def test_secrets_are_kept_nowhere(tmp_path: Path) -> None:
    key, password = "sk-proj-Abcdefghij1234567890ABCD", "hunter2!correct"
    token = "ghp_" + "a1B2" * 9
    with agentmem.open(tmp_path / "memory.db", embedder=None) as memory:
        run(
            memory,
            prompt(f"Deploy with {key}, the password is {password}"),
            bash(f"export TOKEN={token}\ndone", command=f"curl -H 'Authorization: Bearer {key}'"),
            {**bash(""), "hook_event_name": "PostToolUseFailure", "error": f"refused {token}"},
            stop(f"I used {key} and {password}."),
            {"hook_event_name": "UserPromptSubmit", "session_id": "s2", "prompt": f"again {token}"},
        )
        assert any("Deploy with" in text for text in kept(memory))
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    for secret in (key, password, token):
        assert secret.encode() not in written


def test_what_was_injected_is_not_kept_again(memory: agentmem.MemoryManager) -> None:
    fact = "The harbour master of Lindau keeps the spare key under the blue boat."
    memory.add(fact, user_id="ana")
    question = "Where does the harbour master of Lindau keep the spare key?"
    hooks = Hooks(memory)
    begun = context_in(
        hooks.answer(json.dumps({"hook_event_name": "SessionStart", "session_id": "s1"}), ANA)
    )
    asked = context_in(hooks.answer(json.dumps(prompt(question)), ANA))
    assert fact in begun
    assert fact in asked
    for event in (
        bash(asked),
        {**bash(fact), "tool_name": "mcp__agentmem__search_memories"},
        stop(f"Memory says: {fact}\n{asked}"),
        prompt(f"You told me this:\n{begun}", session="s2"),
        stop("Indeed.", session="s2"),
    ):
        hooks.answer(json.dumps(event), ANA)
    hooks.close()
    memory.flush()
    assert [text for text in kept(memory) if fact in text] == [fact]
    assert not any("knowledge_context" in text for text in kept(memory))


def test_an_answer_is_recognised_as_an_echo_by_the_next_helper_too(
    memory: agentmem.MemoryManager,
) -> None:
    fact = "The harbour master of Lindau keeps the spare key under the blue boat."
    memory.add(fact, user_id="ana")
    before = Hooks(memory)
    before.answer(json.dumps(prompt("Where is the spare key of the harbour master?")), ANA)
    memory.flush()  # and then it is killed
    run(memory, stop(f"I looked into it for you. {fact}"))
    assert [text for text in kept(memory) if fact in text] == [fact]
    assert any(text.startswith("I looked into it for you.") for text in kept(memory))


def test_a_prompt_without_an_answer_is_kept_with_the_next_one(
    memory: agentmem.MemoryManager,
) -> None:
    run(memory, prompt("The mooring has number nine."), prompt("And the boat is blue."))
    assert set(kept(memory)) >= {"The mooring has number nine.", "And the boat is blue."}


def test_commands_to_the_program_are_no_prompts(memory: agentmem.MemoryManager) -> None:
    run(memory, prompt("/compact keep the plan"), stop(""))
    assert kept(memory) == []


@pytest.mark.parametrize(
    "event",
    ["", "nonsense", "[]", "null", "{}", '{"hook_event_name": 7}', '{"hook_event_name": "Stop"}',
     '{"hook_event_name": "UserPromptSubmit", "prompt": ["x"]}', "[" * 100_000,
     '{"hook_event_name": "PostToolUse", "tool_name": null, "tool_input": "{", "tool_response": 1}',
     '{"hook_event_name": "Stop", "transcript_path": "/dev/zero"}',
     '{"hook_event_name": "UserPromptSubmit", "prompt": "\\ud800 what"}'],
)  # fmt: skip
def test_no_event_makes_a_hook_fail(event: str, memory: agentmem.MemoryManager) -> None:
    assert run(memory, event, prompt("And now?")) == ["", ""]


def test_the_last_answer_is_read_from_a_transcript(tmp_path: Path) -> None:
    file = tmp_path / "transcript.jsonl"
    lines = [
        {"type": "user", "message": {"role": "user", "content": "Which tests fail?"}},
        {"message": {"role": "assistant", "content": [{"type": "text", "text": "One fails."}]}},
        {"message": {"role": "assistant", "content": [{"type": "tool_use", "name": "Bash"}]}},
        {"type": "summary", "summary": "…"},
    ]
    file.write_text("\n".join(map(json.dumps, lines)) + "\n{broken", "utf-8")
    assert last_answer(str(file)) == "One fails."
    event = read_event(json.dumps({"hook_event_name": "Stop", "transcript_path": str(file)}))
    assert event is not None
    assert event.answer == "One fails."
    assert last_answer(str(tmp_path)) == last_answer("") == last_answer("/dev/null") == ""


# -- the command and its helper ------------------------------------------------------------


def hook(store: Path, event: dict[str, Any] | str, *options: str, **env: str) -> str:
    """What the command prints; it must end with 0 whatever happens."""
    ran = subprocess.run(
        [sys.executable, "-m", "agentmem", "hook", "--user", "ana", *options],
        input=event if isinstance(event, str) else json.dumps(event),
        env=environment(store, env), capture_output=True, text=True, encoding="utf-8", timeout=120,
        check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def ended(store: Path) -> None:
    """Wait until the helper of a store is gone: then its lock can be had."""
    with open(f"{store}.hook.lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def stop_by_command(store: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "agentmem", "hook", "--stop"],
        env=environment(store), capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return ran.stdout


def test_the_command_starts_one_helper_that_only_its_owner_reaches(tmp_path: Path) -> None:
    store = tmp_path / ("a long name of a folder " * 6) / "memory.db"
    try:
        assert hook(store, prompt("The mooring has number nine.")) == ""
        assert oct((store.parent / "memory.db.hook").stat().st_mode & 0o777) == "0o700"
        hook(store, stop("Nine, then."))
        hook(store, prompt("Which number has the mooring?", "s2"))
    finally:
        assert stop_by_command(store) == "The helper ends.\n"
        ended(store)
    assert stop_by_command(store) == "There is no helper.\n"
    assert not (store.parent / "memory.db.hook").exists()
    with agentmem.open(store, embedder=None) as memory:
        assert set(kept(memory)) >= {"The mooring has number nine.", "Nine, then."}


def test_a_helper_ends_by_itself_and_one_of_another_version_makes_way(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    hook(store, prompt("The mooring has number nine."), AGENTMEM_HOOK_IDLE_SECONDS="600")
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        asked = json.dumps({"version": "0.0.0", "event": "{}", "scope": {}, "limit_tokens": 1})
        assert send("memory.db.hook", asked.encode()) is None
    finally:
        os.chdir(here)
    ended(store)
    hook(store, stop("Nine, then."), AGENTMEM_HOOK_IDLE_SECONDS="0.2")
    ended(store)
    with agentmem.open(store, embedder=None) as memory:
        assert set(kept(memory)) >= {"The mooring has number nine.", "Nine, then."}


@pytest.mark.parametrize(
    ("options", "event"),
    [(("--limit-tokens", "many"), prompt("x")), (("--unknown",), "nonsense"), (("--store",), "{}")],
)
def test_the_command_never_fails(
    options: tuple[str, ...], event: dict[str, Any] | str, tmp_path: Path
) -> None:
    store = tmp_path / "memory.db"
    store.write_text("this is no store")
    with socket.socket(socket.AF_UNIX) as nobody:  # a helper that never answers is not there either
        here = Path.cwd()
        os.chdir(tmp_path)
        try:
            nobody.bind("memory.db.hook")
        finally:
            os.chdir(here)
    soon = {"AGENTMEM_HOOK_WAIT_SECONDS": "0.1", "AGENTMEM_HOOK_IDLE_SECONDS": "0.1"}
    assert hook(store, event, *options, **soon) == ""
