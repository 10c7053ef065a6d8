"""The indexer: pages and turns now or in the background, files, folders and addresses."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Unpack

import pytest

import agentmem
from agentmem.base.errors import (
    FetchRefused,
    FileRefused,
    FileUnreadable,
    InvalidInput,
    InvalidScope,
    InvalidText,
    StoreBusy,
)
from agentmem.base.types import Whose
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.strip import fingerprints
from agentmem.sources.background import Worker
from agentmem.sources.indexer import Indexer
from agentmem.testing import HashEmbedder, ManualClock
from tests.pdf_files import make_pdf
from tests.servers.pages import PageServer

URL = "https://example.com/foo"
PAGE = "<html><title>Foo</title><body><h1>Foo</h1><p>Foo listens on port {port}.</p></body></html>"


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    path = ":memory:" if request.param == "memory" else tmp_path / "m.db"
    with agentmem.open(path, embedder=HashEmbedder(), clock=ManualClock()) as opened:
        yield opened


@pytest.fixture
def indexer(memory: MemoryManager) -> Iterator[Indexer]:
    worker = Worker(memory.store, clock=memory.clock)
    yield Indexer(memory, worker=worker)
    worker.close()


def texts(memory: MemoryManager, url: str = URL, **whose: Unpack[Whose]) -> list[str]:
    return [m.text for m in memory.sources.search_by_url(url, **whose)]


def test_a_page_is_added_then_known_then_replaced(memory: MemoryManager, indexer: Indexer) -> None:
    first = indexer.index_page(PAGE.format(port=80), URL)
    assert (first.status, first.title, first.chunks, first.ok) == ("added", "Foo", 1, True)
    assert first.tokens > 0
    again = indexer.index_page(PAGE.format(port=80), URL)
    assert (again.status, again.chunks) == ("unchanged", 0)
    other = indexer.index_page(PAGE.format(port=8080), URL, "My title")
    assert (other.status, other.title, other.removed) == ("replaced", "My title", 1)
    assert texts(memory) == ["# Foo\n\nFoo listens on port 8080."]


def test_markdown_and_plain_text_stay_as_they_are(memory: MemoryManager, indexer: Indexer) -> None:
    indexer.index_page("# Head\n\nA <b>tag</b> inside.", URL)
    assert texts(memory) == ["# Head\n\nA <b>tag</b> inside."]
    indexer.index_page("Grüße aus Köln".encode("cp1252"), URL)
    assert texts(memory) == ["Grüße aus Köln"]


def test_a_page_without_words_changes_nothing(memory: MemoryManager, indexer: Indexer) -> None:
    indexer.index_page(PAGE.format(port=80), URL)
    for empty in ("", "  \n", "<html><body><script>x()</script></body></html>", b""):
        assert indexer.index_page(empty, URL).status == "empty"
    assert len(texts(memory)) == 1


def test_pages_belong_to_who_saw_them(memory: MemoryManager, indexer: Indexer) -> None:
    indexer.index_page("Ana's page.", URL, user_id="ana")
    indexer.enqueue_page("Ben's page.", URL, user_id="ben")
    assert indexer.flush()
    assert texts(memory, user_id="ana") == ["Ana's page."]
    assert texts(memory, user_id="ben") == ["Ben's page."]
    assert texts(memory) == []


def test_our_own_block_inside_a_page_is_not_remembered(
    memory: MemoryManager, indexer: Indexer
) -> None:
    block = '<knowledge_context>\n<related_knowledge count="1">\n<source index="1" url="u">secret memory</source>\n</related_knowledge>\n</knowledge_context>'
    indexer.index_page(f"Before.\n\n{block}\n\nAfter.", URL)
    (text,) = texts(memory)
    assert "secret memory" not in text
    assert "Before." in text
    assert "After." in text


@pytest.mark.parametrize(
    ("arguments", "whose", "error"),
    [
        ((None, URL), {}, InvalidText),
        ((7, URL), {}, InvalidText),
        (("text", None), {}, InvalidText),
        (("text", URL, None), {}, InvalidText),
        (("text", "\ud800"), {}, InvalidText),
        (("x" * 20_000_001, URL), {}, InvalidText),
        (("text", URL), {"user_id": ""}, InvalidScope),
        (("text", URL), {"nobody": "x"}, InvalidScope),
    ],
)
def test_mistakes_raise_when_waiting_and_never_in_the_background(
    memory: MemoryManager, indexer: Indexer, arguments: Any, whose: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        indexer.index_page(*arguments, **whose)
    assert indexer.enqueue_page(*arguments, **whose) is False


def test_lone_surrogates_are_repaired(memory: MemoryManager, indexer: Indexer) -> None:
    assert indexer.index_page("<html><p>a\ud800b is read</p></html>", URL).status == "added"
    assert texts(memory) == ["a?b is read"]
    assert indexer.index_page("plain \ud800 text", URL).status == "replaced"
    assert texts(memory) == ["plain ? text"]
    indexer.enqueue_messages([{"role": "user", "content": [{"type": "text", "text": "\ud83d!"}]}])
    assert indexer.flush()
    assert [m.text for m in memory.get_all(kinds=["message"])] == ["?!"]


def test_a_failing_store_is_in_the_result_and_retried_in_the_background(
    memory: MemoryManager, indexer: Indexer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: Any, **__: Any) -> Any:
        raise StoreBusy("Somebody writes.")

    with monkeypatch.context() as patch:
        patch.setattr(memory.store, "replace_source", busy)
        result = indexer.index_page("Some text.", URL)
        assert (result.status, result.ok) == ("failed", False)
        assert "Somebody writes." in result.error
        assert indexer.enqueue_page("Some text.", URL)
        assert not indexer.flush()
    assert isinstance(memory.clock, ManualClock)
    memory.clock.advance(10)
    assert indexer.flush()
    assert texts(memory) == ["Some text."]


def test_a_failing_embedder_is_a_degradation(memory: MemoryManager, tmp_path: Path) -> None:
    class Broken(HashEmbedder):
        def embed_documents(self, texts: Sequence[str], /) -> Any:
            raise RuntimeError("out of order")

    logging.getLogger("agentmem.search.embedding").setLevel(logging.ERROR)
    with agentmem.open(":memory:", embedder=Broken(), clock=ManualClock()) as broken:
        result = Indexer(broken, worker=Worker(broken.store, clock=broken.clock)).index_page(
            "Some text about harbours.", URL
        )
        assert result.status == "added"
        assert "out of order" in result.degradations[0]
        assert broken.search("harbours")
    logging.getLogger("agentmem.search.embedding").setLevel(logging.NOTSET)


def test_bytes_may_be_a_pdf_and_binary_ones_are_given_up_at_once(
    memory: MemoryManager, indexer: Indexer
) -> None:
    assert indexer.index_page(make_pdf("The harbour opens at six."), URL).status == "added"
    (chunk,) = memory.sources.search_by_url(URL)
    assert chunk.heading_path == ("Page 1",)
    assert "not text" in indexer.index_page(b"\x89PNG\0\0", URL).error
    assert indexer.enqueue_page(b"\x89PNG\0\0", URL)
    assert indexer.flush()
    assert indexer._worker.state.failed == 1
    assert len(texts(memory)) == 1


def test_the_newest_content_of_a_page_wins_in_the_queue(
    memory: MemoryManager, indexer: Indexer
) -> None:
    gate, reached = threading.Event(), threading.Event()

    def hold(payload: Any, scope: Any) -> None:
        reached.set()
        assert gate.wait(30)

    worker = indexer._worker
    worker.handle("hold", hold)
    worker.submit("hold", {})
    assert reached.wait(30)
    for port in range(5):
        assert indexer.enqueue_page(PAGE.format(port=port), URL)
    assert worker.state.queued == 1
    gate.set()
    assert indexer.flush()
    assert texts(memory) == ["# Foo\n\nFoo listens on port 4."]


def test_bytes_and_fingerprints_outlive_the_process(memory: MemoryManager) -> None:
    worker = Worker(memory.store, clock=memory.clock, threaded=False)
    indexer = Indexer(memory, worker=worker)
    known = fingerprints(["the quick brown fox jumps over the lazy dog today"])
    assert indexer.enqueue_page("Grüße aus Köln".encode("cp1252"), URL)
    assert indexer.enqueue_messages(
        [
            {"role": "user", "content": "Where is my boat?"},
            {
                "role": "assistant",
                "content": "Known: the quick brown fox jumps over the lazy dog today. In Porto.",
            },
        ],
        known=known,
        session="s",
    )
    worker.close(timeout_seconds=0)
    following = Worker(memory.store, clock=memory.clock)
    Indexer(memory, worker=following)
    following.start()
    assert following.flush()
    assert texts(memory) == ["Grüße aus Köln"]
    said = [m.text for m in memory.get_all(kinds=["message"])]
    assert "Where is my boat?" in said
    assert any("In Porto." in text and "quick brown" not in text for text in said)
    following.close()


def test_only_what_people_said_is_indexed_of_a_turn(
    memory: MemoryManager, indexer: Indexer
) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are a pirate."},
        {"role": "user", "content": "I keep my boat in Porto."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "1", "content": "I live in Berlin."},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "2", "content": "I live in Rome."}],
        },
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": [{"type": "text", "text": "And thanks."}]},
        {"role": "nobody", "content": "?"},
        {"role": "user", "content": 7},
        {"content": "no role"},
    ]
    before = [dict(message) for message in messages]
    assert indexer.enqueue_messages(messages, session="s", user_id="ana")
    assert messages == before
    assert indexer.flush()
    found = memory.get_all(kinds=["message"], user_id="ana")
    assert {(m.text, m.origin, m.session) for m in found} == {
        ("I keep my boat in Porto.", "user", "s"),
        ("Noted.", "assistant", "s"),
        ("And thanks.", "user", "s"),
    }


def test_a_turn_indexed_twice_is_there_once(memory: MemoryManager, indexer: Indexer) -> None:
    turn = [{"role": "user", "content": "Hello there", "created_at": "2026-01-01T00:00:00Z"}]
    for _ in range(3):
        indexer.enqueue_messages(turn)
        assert indexer.flush()
    assert len(memory.get_all(kinds=["message"])) == 1


@pytest.mark.parametrize("messages", [None, 7, [7], ["text"], [None]])
def test_messages_that_are_none_are_refused_without_raising(
    memory: MemoryManager, indexer: Indexer, messages: Any
) -> None:
    assert indexer.enqueue_messages(messages) is False
    assert indexer.enqueue_messages([]) is True


# -- files and folders


def test_a_file_becomes_a_page_under_its_address(
    memory: MemoryManager, indexer: Indexer, tmp_path: Path
) -> None:
    file = tmp_path / "Über uns.md"
    file.write_text("# About\n\nWe build boats.", encoding="utf-8")
    report = indexer.index_path(file)
    assert (report.files, report.added) == (1, 1)
    assert report.results[0].title == "About"
    assert texts(memory, file.resolve().as_uri()) == ["# About\n\nWe build boats."]
    assert indexer.index_path(str(file)).unchanged == 1


def test_a_folder_is_read_with_everything_in_it(
    memory: MemoryManager, indexer: Indexer, tmp_path: Path
) -> None:
    root = tmp_path / "docs"
    (root / "sub" / "deep").mkdir(parents=True)
    (root / ".hidden").mkdir()
    (root / "node_modules").mkdir()
    (root / "a.md").write_text("# A\n\nAlpha.")
    (root / "sub" / "b.py").write_text("def beta():\n    return 2\n")
    (root / "sub" / "deep" / "c.html").write_text(PAGE.format(port=1))
    (root / "sub" / "d.unknown").write_text("Delta words.")
    (root / ".hidden" / "x.md").write_text("hidden")
    (root / ".env").write_text("KEY=secret")
    (root / "node_modules" / "y.js").write_text("installed")
    (root / "z.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (root / "big.txt").write_text("x" * 5_000)
    (root / "empty.txt").write_text("")
    (root / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "out.md").symlink_to(tmp_path / "elsewhere.md")
    seen: list[tuple[int, int, str]] = []
    report = indexer.index_path(
        root, limit_bytes=4_000, progress=lambda n, of, path: seen.append((n, of, path.name))
    )
    assert report.added == 4
    assert report.empty == 1
    assert {skip.path: skip.reason for skip in report.skipped} == {
        "z.png": "is not text",
        "big.txt": "is larger than 4,000 bytes",
        "loop": "is a symbolic link",
        "out.md": "is a symbolic link",
        "node_modules": "holds installed packages",
    }
    assert [fail.path for fail in report.failed] == ["broken.pdf"]
    assert seen[0][:2] == (0, 8)
    assert seen[-1] == (8, 8, "docs")
    assert memory.search("beta", mode="fulltext", threshold=0)
    again = indexer.index_path(root, limit_bytes=4_000)
    assert (again.added, again.unchanged) == (0, 4)


def test_gitignore_is_respected_also_from_above_and_below(
    memory: MemoryManager, indexer: Indexer, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    docs = repository / "docs"
    (docs / "build").mkdir(parents=True)
    (docs / "sub").mkdir()
    (repository / ".git").mkdir()
    (repository / ".gitignore").write_text("*.log\n/docs/private.md\n")
    (docs / ".gitignore").write_text("build/\n")
    (docs / "sub" / ".gitignore").write_text("!kept.log\n")
    for name in ("a.md", "private.md", "x.log", "build/b.md", "sub/kept.log", "sub/y.log"):
        (docs / name).write_text(f"words of {name}")
    report = indexer.index_path(docs)
    assert sorted(r.title for r in report.results) == ["a.md", "kept.log"]
    assert {skip.path for skip in report.skipped} == {"private.md", "x.log", "build", "sub/y.log"}


def test_vanished_files_are_reported_and_forgotten_on_request(
    memory: MemoryManager, indexer: Indexer, tmp_path: Path
) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    (tmp_path / "docs2").mkdir()
    for name in ("docs/a.md", "docs/b é.md", "docs2/c.md"):
        (tmp_path / name).write_text(f"words of {name}")
    indexer.index_path(root)
    indexer.index_path(tmp_path / "docs2")
    indexer.index_path(root, user_id="ana")
    (root / "b é.md").unlink()
    gone = (root.resolve() / "b é.md").as_uri()
    report = indexer.index_path(root)
    assert (report.vanished, report.pruned) == ((gone,), 0)
    assert texts(memory, gone)
    report = indexer.index_path(root, prune=True)
    assert (report.vanished, report.pruned) == ((gone,), 1)
    assert texts(memory, gone) == []
    assert texts(memory, gone, user_id="ana")
    assert indexer.index_path(root, prune=True).vanished == ()
    (root / "b é.md").write_text("words of docs/b é.md")
    assert indexer.index_path(root).added == 1
    assert texts(memory, gone)


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("a.docx", b"PK\x03\x04\0\0", (FileRefused, "Save it as PDF")),
        ("a.exe", b"MZ\0\0", (FileRefused, "convert it")),
        ("a.md", b"\0\1\2\3", (FileRefused, "is not text")),
        ("a.pdf", b"%PDF-1.4\nbroken", (FileUnreadable, "damaged")),
        ("a.txt", b"%PDF-1.4\nbroken", (FileUnreadable, "damaged")),
        ("a.txt", b"x" * 101, (FileRefused, "limit_bytes")),
    ],
)
def test_a_file_that_cannot_be_read_says_why(
    indexer: Indexer, tmp_path: Path, name: str, data: bytes, problem: tuple[type[Exception], str]
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(problem[0], match=problem[1]):
        indexer.index_path(tmp_path / name, limit_bytes=100)


def test_paths_that_are_none_are_typed_errors(indexer: Indexer, tmp_path: Path) -> None:
    for path in (tmp_path / "nothing", tmp_path / ("x" * 5_000)):
        with pytest.raises(FileUnreadable):
            indexer.index_path(path)
    no_paths: tuple[Any, ...] = ("", " ", "a\0b", Path("a\0b"), None, 5, b"a", [tmp_path])
    for nowhere in no_paths:
        with pytest.raises(InvalidInput, match="path"):
            indexer.index_path(nowhere)
    with pytest.raises(InvalidText):
        indexer.index_path("\ud800")


# -- addresses


def test_an_address_is_fetched_and_remembered(memory: MemoryManager, indexer: Indexer) -> None:
    with PageServer() as server:
        result = indexer.index_url(server.url("/redirect?to=/page"), allow_private=True)
        assert (result.status, result.url, result.title) == (
            "added", server.url("/page"), "The harbour",
        )  # fmt: skip
        (text,) = texts(memory, server.url("/page"))
        assert "permit" in text
        assert memory.sources.search_by_url(server.url("/page"))[0].origin == "web"
        assert indexer.index_url(server.url(), allow_private=True).status == "unchanged"
        missing = indexer.index_url(server.url("/status?code=404"), allow_private=True)
        assert (missing.status, "404" in missing.error) == ("failed", True)
        note = server.put("/notes.md", "# Notes\n\nKeep left.", "text/plain")
        assert indexer.index_url(note, allow_private=True).title == "Notes"
        data = server.put("/data", b"\0\1\2" * 100, "")
        assert "not text" in indexer.index_url(data, allow_private=True).error
        with pytest.raises(FetchRefused):
            indexer.index_url(server.url())
