"""The inspector's commands, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import agentmem
from agentmem.cli import inspecting
from agentmem.cli.common import common_options
from agentmem.core.layout import width_of
from agentmem.errors import InvalidInput

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
    monkeypatch.setenv("AGENTMEM_EMBEDDER", "none")
    app = typer.Typer()
    app.callback()(common_options)
    inspecting.register(app)

    def call(*words: str, columns: int = 80) -> Any:
        monkeypatch.setenv("COLUMNS", str(columns))
        return CliRunner().invoke(app, ["--store", str(store), *words])

    return call


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_fits_the_terminal(run: Any, words: tuple[str, ...], columns: int) -> None:
    found = run("--user", "ann", *words, columns=columns)
    assert found.exit_code == 0, (found.output, found.exception)
    assert found.output.strip()
    assert "\x1b" not in found.output  # not a terminal: no colour
    assert max(map(width_of, found.output.splitlines())) <= columns


@pytest.mark.parametrize("words", [c for c in COMMANDS if "--message" not in c], ids=" ".join)
def test_every_command_prints_json(run: Any, words: tuple[str, ...]) -> None:
    found = run("--json", "--user", "ann", *words)
    assert found.exit_code == 0, (found.output, found.exception)
    lines = found.output.splitlines() if words[0] == "monitor" else [found.output]
    for line in lines:
        assert json.loads(line)["schema"].startswith("agentmem.")


def test_two_contexts_are_compared_and_a_memory_is_explained(run: Any) -> None:
    first, second = dict.fromkeys(
        json.loads(line)["snapshot"]["id"] for line in run("--json", "monitor").output.splitlines()
    )
    compared = run("explain", second, "--diff", first)
    assert "Which tea do I like? → When do deploys run?" in compared.output
    assert "Nothing differs." in run("explain", first, "--diff", first).output
    looked = json.loads(run("--json", "explain", first).output)["context"]["looked_at"]
    told = run("explain", first, "--why", looked[0]["id"])
    assert "It is in the related knowledge" in told.output


def test_a_page_of_statistics_is_written(run: Any, tmp_path: Path) -> None:
    target = tmp_path / "stats.html"
    assert run("stats", "--html", str(target)).exit_code == 0
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    failed = run("stats", "--html", str(tmp_path / "no" / "such" / "folder.html"))
    assert isinstance(failed.exception, InvalidInput)


def test_without_a_user_the_whole_store_is_read(run: Any) -> None:
    assert json.loads(run("--json", "stats").output)["contexts"]["contexts"] == 2
    assert json.loads(run("--json", "--user", "bob", "stats").output)["contexts"]["contexts"] == 0


@pytest.mark.parametrize("written", ["top_k", "=3", "top_k=", "nobody=1"])
def test_bad_changes_are_refused_with_the_remedy(run: Any, written: str) -> None:
    found = run("explain", "--if", written)
    assert isinstance(found.exception, InvalidInput)
    assert found.exception.remedy


def test_the_doctor_of_a_broken_store_exits_with_1(run: Any, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is not a store at all" * 500)
    found = run("--store", str(broken), "doctor")
    assert found.exit_code == 1
    assert "FAIL" in found.output
