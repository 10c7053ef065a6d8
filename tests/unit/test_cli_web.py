"""Web search and fetching on the command line, against servers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.pages import PageServer
from tests.servers.search import SearchServer
from tests.unit.cli_running import Cli


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    return Cli(tmp_path / "memory.db", monkeypatch)


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with SearchServer() as running:
        yield running


def test_web_and_memory_answer_together_with_numbered_sources(
    cli: Cli, server: SearchServer
) -> None:
    memory_id = cli.add("The lamp museum in Oldham is closed in January.")
    ran = cli("websearch", "When", "did", "the", "lamp", "museum", "open?", "--searxng", server.url)
    assert ran.code == 0
    assert "1987" in ran.out
    assert "[1] " in ran.out
    assert "https://museum.example.org/lamps" in ran.out
    assert memory_id in ran.out
    assert "\x1b" not in ran.out


def test_the_document_has_answer_citations_and_problems(cli: Cli, server: SearchServer) -> None:
    asked = ("websearch", "lamp museum opened", "--searxng", server.url, "--json", "--no-memory")
    found = cli(*asked).json
    assert "1987" in found["answer"]
    assert {one["source"] for one in found["citations"]} == {"web"}
    assert found["memory_results"] == []
    assert not cli.store.exists()


def test_sources_are_links_on_a_terminal(cli: Cli, server: SearchServer) -> None:
    out = cli("websearch", "lamp museum opened", "--searxng", server.url, columns=80).out
    assert "\x1b]8;;https://museum.example.org/lamps\x1b\\" in out
    plain = ("websearch", "lamp museum opened", "--searxng", server.url, "--no-color")
    assert "\x1b" not in cli(*plain, columns=80).out


def test_hostile_results_cannot_write_escapes(cli: Cli) -> None:
    rows = [
        {
            "title": "Lamp \x1b]0;owned\x07 [bold]museum[/bold]",
            "url": "https://example.org/\x1b]8;;x",
            "content": "The lamp museum opened in 1987. \x1b[2J \x9b31m",
        }
    ]
    with SearchServer(rows) as server:
        ran = cli(
            "websearch", "lamp museum opened", "--searxng", server.url, "--no-color", columns=60
        )
    assert not any(c in ran.out for c in "\x1b\x07\x9b")


def test_without_an_answer_or_a_service_the_exit_code_says_so(
    cli: Cli, server: SearchServer
) -> None:
    assert cli("websearch", "zebra xylophone", "--searxng", server.url).code == 5
    ran = cli("websearch", "lamp museum", "--searxng", "http://127.0.0.1:9")
    assert ran.code == 5
    assert "Note: " in ran.err
    assert cli("websearch", "", "--searxng", server.url).code == 2
    for address in ("no address", "ftp://searx.example"):
        ran = cli("websearch", "lamps", "--searxng", address)
        assert (ran.code, "is no web address" in ran.err) == (2, True)


def test_a_page_is_fetched_where_private_addresses_are_allowed(cli: Cli) -> None:
    with PageServer() as server:
        assert cli("index", server.url("/page")).code == 1
        ran = cli("index", server.url("/page"), "--allow-private")
        assert ran.out.startswith("Added: The harbour")
        assert "six" in cli("search", "when does the harbour open").out
        again = cli("index", server.url("/page"), "--allow-private", "--json").json
        assert again["status"] == "unchanged"
        missing = cli("index", server.url("/status?code=404"), "--allow-private")
        assert missing.code == 1
        assert "404" in missing.err
