"""The inspector's commands, as they are typed."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.inspector.layout import width_of
from tests.unit.cli_running import Cli, Terminal, start

COMMANDS = (
    ("inspect", "--query", "Which tea do I like?", "--model", "gpt-4o"),
    ("budget", "--model", "gpt-4o", "--messages", "20", "--memories", "5", "--images", "2"),
    ("explain", "last"),
    ("explain", "--if", "top_k=1", "--if", "knowledge_budget=50"),
    ("explain", "last", "--message"),
    ("monitor",),
    ("stats", "--last", "24h"),
    ("audit",),
    ("doctor",),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "m.db"
    with agentmem.open(path, embedder=None) as memory:
        for text in ("I like green tea.", "My dog Rex likes tea too.", "Deploys run on Fridays."):
            memory.add(text, user_id="ann")
        for question in ("Which tea do I like?", "When do deploys run?"):
            with memory.turn(
                [{"role": "user", "content": question}], user_id="ann", model="gpt-4o"
            ) as turn:
                turn.done("So it is [1].", usage={"prompt_tokens": 90, "completion_tokens": 5})
    return path


@pytest.fixture
def run(store: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return Cli(store, monkeypatch)


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_fits_the_terminal(run: Any, words: tuple[str, ...], columns: int) -> None:
    found = run("--no-color", "--user", "ann", *words, columns=columns)
    assert found.code == 0, found.err
    assert found.out.strip()
    assert "\x1b" not in found.out  # it was declined
    assert max(map(width_of, found.out.splitlines())) <= columns


@pytest.mark.parametrize("words", [c for c in COMMANDS if "--message" not in c], ids=" ".join)
def test_every_command_prints_json(run: Any, words: tuple[str, ...]) -> None:
    found = run("--json", "--user", "ann", *words)
    assert found.code == 0, found.err
    lines = found.out.splitlines() if words[0] == "monitor" else [found.out]
    for line in lines:
        assert json.loads(line)["schema"].startswith("agentmem.")


def test_two_contexts_are_compared_and_a_memory_is_explained(run: Any) -> None:
    first, second = dict.fromkeys(
        json.loads(line)["snapshot"]["id"] for line in run("--json", "monitor").out.splitlines()
    )
    compared = run("explain", second, "--diff", first)
    assert "Which tea do I like? → When do deploys run?" in compared.out
    assert "Nothing differs." in run("explain", first, "--diff", first).out
    looked = json.loads(run("--json", "explain", first).out)["context"]["looked_at"]
    told = run("explain", first, "--why", looked[0]["id"])
    assert "It is in the " in told.out


def test_ids_may_be_given_by_an_end(run: Any) -> None:
    lines = run("--json", "monitor").out.splitlines()
    shots = {json.loads(line)["snapshot"]["id"]: json.loads(line)["snapshot"] for line in lines}
    first, second = shots
    assert first[-8:] in run("monitor").out  # where people read them
    assert first in run("explain", first[-8:]).out
    assert first in run("explain", shots[first]["message_id"][-8:]).out
    assert "Which tea do I like? → When do" in run("explain", second[-8:], "--diff", first[-8:]).out
    looked = json.loads(run("--json", "explain", first).out)["context"]["looked_at"]
    known = next(one["id"] for one in looked if one["section"] == "knowledge")
    told = run("explain", first[-8:], "--why", known[-8:])
    assert known in told.out
    assert "It is in the related knowledge" in told.out
    other = json.loads(run("--json", "--user", "ann", "add", "Rex sleeps.").out)
    added = json.dumps(other).split('"id": "')[1].split('"')[0]
    told = run("explain", first, "--why", added[-8:])
    assert added in told.out
    assert "it was remembered after this context was built" in told.out
    assert run("explain", "zzzzzzzz").code == 3
    assert run("explain", first[:4]).code == 2  # all ids begin like this


def test_the_fate_of_an_unknown_memory_is_not_found(run: Any) -> None:
    looked = run("explain", "last", "--json").json["context"]["looked_at"]
    found = run("explain", "last", "--why", "zzzzzzzz")
    assert (found.code, found.out) == (3, "")
    assert looked[0]["id"] in found.err  # what can be asked for instead
    almost = looked[-1]["id"][:-1] + "z"
    as_json = run("--json", "explain", "last", "--why", almost)
    assert as_json.code == 3
    assert as_json.error["type"] == "RecordNotFound"
    assert f"looked at: {looked[-1]['id']}" in as_json.error["remedy"]
    assert run("--user", "bob", "explain", "last", "--why", looked[0]["id"]).code == 3


def test_a_page_of_statistics_is_written(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "stats.html"
    assert run("stats", "--html", str(target)).code == 0
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    failed = run("stats", "--html", str(tmp_path / "no" / "such" / "folder.html"))
    assert failed.code == 2
    assert "cannot be written" in failed.err


def test_without_a_user_the_whole_store_is_read(run: Any) -> None:
    assert json.loads(run("--json", "stats").out)["contexts"]["contexts"] == 2
    assert json.loads(run("--json", "--user", "bob", "stats").out)["contexts"]["contexts"] == 0


@pytest.mark.parametrize("written", ["top_k", "=3", "top_k=", "nobody=1"])
def test_bad_changes_are_refused_with_the_remedy(run: Any, written: str) -> None:
    found = run("explain", "--if", written)
    assert found.code == 2
    assert found.err.startswith("Error:")


def test_the_doctor_of_a_broken_store_exits_with_1(run: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is not a store at all" * 500)
    found = run("--store", str(broken), "doctor")
    assert found.code == 1
    assert found.out.count("FAIL") == 1  # what is wrong with the file is told once
    assert found.out.count("is not an agentmem") == 1


def test_the_doctor_names_what_failed(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(store) in run("doctor", columns=300).out
    absent = run("--store", str(tmp_path / "none.db"), "doctor", columns=300)
    assert "none.db is not there yet; the first write makes it" in absent.out
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "nosuch")
    found = run("--no-color", "doctor", columns=300)
    assert found.code == 1
    (line,) = [line for line in found.out.splitlines() if line.startswith("FAIL")]
    assert line.split()[1] == "embedder"
    assert "restore a backup" not in found.out
    assert "Use one of: pair, minilm" in found.out


def test_commands_to_copy_name_the_store(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "my shop" / "m.db"
    with agentmem.open(other, embedder=None) as memory:
        memory.add("Write to ann@example.com.", user_id="ann b")
    found = run("--json", "--store", str(other), "audit").json["findings"]
    (remedy,) = [one["remedy"] for one in found if one["count"]]
    assert remedy.startswith(f"agentmem erase --store '{other}' --user 'ann b' ")
    shown = run("--no-color", "--store", str(other), "audit", columns=60).out
    lines = [line.strip() for line in shown.splitlines()]
    at = next(at for at, line in enumerate(lines) if line.startswith("> "))
    copied = [lines[at].removeprefix("> ")]
    while copied[-1].endswith("\\"):
        at += 1
        copied.append(lines[at])
    words = shlex.split("".join(line.removesuffix("\\") for line in copied))
    assert words == shlex.split(remedy)
    assert run(*words[1:], "--yes").code == 0
    found = run("--json", "--store", str(other), "audit").json["findings"]
    assert not any(one["count"] for one in found)


def test_the_monitor_follows_other_processes_until_it_is_told_to_stop(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with agentmem.open(path, embedder=None) as memory:
        memory.add("I like green tea.", user_id="ann")
        terminal = Terminal(path, "monitor", "--follow", columns=100)
        terminal.wait_for("Ctrl-C ends.")
        piped = start(path, "monitor", "--follow")
        turn = memory.turn(
            [{"role": "user", "content": "Which tea?"}], user_id="ann", model="gpt-4o"
        )
        turn.done("Green [1].", usage={"prompt_tokens": 90, "completion_tokens": 5}, duration_ms=40)
        memory.runtime.worker.flush(10)
        assert "gpt-4o" in terminal.wait_for("Which tea?")
        terminal.wait_for("5 tokens out")
        assert piped.stdout is not None
        assert b"Which tea?" in piped.stdout.readline()
        assert b"5 tokens out, 90 in, 0.04 s" in piped.stdout.readline()
    terminal.type("\x03")
    assert terminal.end() == 0
    assert "Traceback" not in terminal.shown
    piped.send_signal(signal.SIGINT)
    _, err = piped.communicate(timeout=60)
    assert (piped.returncode, err) == (0, b"")


def test_the_doctor_looks_at_the_model(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def model(*options: str) -> dict[str, str]:
        ran = run("doctor", "--json", *options)
        (check,) = [one for one in ran.json["checks"] if one["name"] == "model"]
        assert ran.code == (check["state"] == "fail"), ran.err
        return {name: str(check[name]) for name in ("state", "found", "remedy")}

    assert model()["found"].startswith("extractive: ")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    monkeypatch.setenv("AGENTMEM_MODEL", "gpt-4o")
    assert model() == {
        "state": "warn",
        "found": "gpt-4o at openai, window of 128,000 tokens; not set: OPENAI_API_KEY",
        "remedy": "Set what openai asks for: OPENAI_API_KEY.",
    }
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    found = run("doctor", columns=200)
    assert "gpt-4o at openai" in found.out
    assert "sk-very-secret" not in found.out
    assert model()["state"] == "ok"
    local = model("--model", "ollama/my-own")  # what is typed goes before the environment
    assert local["state"] == "ok"
    assert "8,192 tokens assumed" in local["found"]
    unknown = model("--model", "no-such\x1b[2J-model")
    assert unknown["state"] == "fail"
    assert "\x1b" not in unknown["found"]
    assert "openai/NAME" in unknown["remedy"]


def test_json_is_one_document_and_a_limit_is_a_count(run: Any, tmp_path: Path) -> None:
    both = ("explain", "last", "--diff", "last", "--if", "top_k=1")
    assert run(*both).code == 0
    refused = run("--json", *both)
    assert (refused.code, refused.out) == (2, "")
    page = run("--json", "stats", "--html", str(tmp_path / "stats.html"))
    assert page.json["schema"] == "agentmem.stats/1"
    assert (tmp_path / "stats.html").exists()
    assert run("monitor", "--limit", "-1").code == 2
    assert run("monitor", "--limit", "0").code == 0


def test_a_whole_conversation_is_inspected_from_a_file(run: Any, tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/tea.png"}}
    history = [
        {"role": "user", "content": [{"type": "text", "text": "Look at this."}, image]},
        {"role": "assistant", "content": "A cup of tea."},
        {"role": "user", "content": "Which tea do I like?"},
    ]
    listed = [{"role": "system", "content": "Be kind."}, *history]
    shapes = {
        "list.json": json.dumps(listed),
        "lines.jsonl": "\n".join(json.dumps(one) for one in listed),
        "request.json": json.dumps({"model": "m", "system": "Be kind.", "messages": history}),
    }
    for name, text in shapes.items():
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        found = run("--json", "--user", "ann", "inspect", "--messages", str(path), "-m", "gpt-4o")
        assert found.code == 0, found.err
        assert found.json["query"] == "Which tea do I like?"
        parts = {one["name"]: one["items"] for one in found.json["snapshot"]["parts"]}
        assert parts["system_prompt"] == 1, parts
        assert parts["media"] == 1, parts
    shown = run("--user", "ann", "inspect", "--messages", str(path), "--query", "And coffee?")
    assert "And coffee?" in shown.out
    assert "STATUS ok" in shown.out


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '"hello"'])
def test_a_file_without_messages_is_refused(run: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "messages.json"
    path.write_text(text, encoding="utf-8")
    found = run("--user", "ann", "inspect", "--messages", str(path))
    assert found.code != 0
    assert "role" in found.err
