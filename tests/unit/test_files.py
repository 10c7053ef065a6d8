"""Files as documents: what each kind gives, and what is refused."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdf
import pytest

import agentmem
from agentmem.base.errors import AgentMemError, FileRefused, FileUnreadable, InvalidInput
from agentmem.search.results import FolderReport
from agentmem.sources.code import LearnedPatterns
from agentmem.sources.files import document_of, read_file, read_ignore_rules, says
from agentmem.sources.imports.load import read_export
from agentmem.text.decode import kind_of
from tests.pdf_files import make_pdf


def test_a_pdf_gives_its_text_under_its_page_numbers() -> None:
    data = make_pdf("The harbour opens at six.", "", "Permits cost ten.", title="Harbour rules")
    document = document_of(data, url="file:///rules.pdf", name="rules.pdf")
    assert document.title == "Harbour rules"
    assert document.text == (
        "## Page 1\n\nThe harbour opens at six.\n\n## Page 3\n\nPermits cost ten."
    )
    assert document.format == "markdown"


def test_a_pdf_without_words_names_the_remedy() -> None:
    with pytest.raises(FileRefused, match="OCR"):
        document_of(make_pdf(""), url="file:///scan.pdf", name="scan.pdf")


def test_a_pdf_with_a_password_names_the_remedy() -> None:
    writer = pypdf.PdfWriter(io.BytesIO(make_pdf("secret")))
    writer.encrypt("open sesame", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    with pytest.raises(FileUnreadable, match=r"password.*without a password"):
        document_of(out.getvalue(), url="file:///a.pdf", name="a.pdf")


@pytest.mark.parametrize("cut", [10, 100, 300, -40])
def test_a_cut_pdf_is_damaged(cut: int) -> None:
    data = make_pdf("Words of a page.")[:cut]
    problem = ""
    try:
        document_of(data, url="file:///a.pdf", name="a.pdf")
    except (FileUnreadable, FileRefused) as error:
        problem = error.remedy
    assert problem


def test_a_notebook_gives_its_cells() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Boats\n", "Some words."]},
        {"cell_type": "code", "source": "print(1)", "outputs": [{"text": "huge output"}]},
        {"cell_type": "code", "source": []},
    ]
    document = document_of(json.dumps({"cells": cells}).encode(), url="u", name="a.ipynb")
    assert document.text == "# Boats\nSome words.\n\n```\nprint(1)\n```"
    assert document_of(b"{}", url="u", name="a.ipynb").text == "{}"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("a.md", b"# x", "markdown"),
        ("A.PY", b"x = 1", "code"),
        ("a.html", b"<p>x", "html"),
        ("a.csv", b"a,b", "text"),
        ("Dockerfile", b"FROM x", "code"),
        ("LICENSE", b"words", "text"),
        ("a.weird", b"words", "text"),
        ("a.txt", b"%PDF-1.7", "pdf"),
        ("a.py", b"\0\0\0", "binary"),
        ("a.txt", "words".encode("utf-16"), "text"),
        ("", b"", "text"),
    ],
)
def test_a_file_is_what_its_name_and_its_bytes_say(name: str, data: bytes, kind: str) -> None:
    assert kind_of(name, data) == kind


def test_html_without_an_extension_is_recognised() -> None:
    page = b"<!doctype html><title>T</title><p>Words here.</p>"
    assert document_of(page, url="u", name="page").text == "Words here."
    assert document_of(page, url="u", name="page.txt").text.startswith("<!doctype")
    assert document_of(page, url="u", media_type="text/html").title == "T"


def test_encodings_of_files_are_found(tmp_path: Path) -> None:
    for name in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        file = tmp_path / f"{name}.txt"
        file.write_bytes("Grüße aus Köln, der Käse schmeckt schön und gut".encode(name))
        assert read_file(file).text == "Grüße aus Köln, der Käse schmeckt schön und gut"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileRefused, match="folder"):
        read_file(tmp_path)


def ended(call: Callable[[], object]) -> list[object]:
    """What `call` gives or raises, or nothing when it waits for ever."""
    answers: list[object] = []

    def work() -> None:
        try:
            answers.append(call())
        except AgentMemError as error:
            answers.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(10)
    return answers


def test_nobody_waits_for_the_other_end_of_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "code.py").write_text("x = 1\n")
    with agentmem.open(":memory:", embedder=None) as memory:
        (refused,) = ended(lambda: memory.sources.index_path(tmp_path / "pipe.py"))
        assert isinstance(refused, FileRefused)
        assert refused.problem == "is not a file"
        (report,) = ended(lambda: memory.sources.index_path(tmp_path))
        assert isinstance(report, FolderReport)
        assert [one.reason for one in report.skipped] == ["is not a file"]
        (learned,) = ended(lambda: memory.sources.learn_patterns(tmp_path))
        assert isinstance(learned, LearnedPatterns)
        assert dict(learned.left_out) == {"not readable": 1}
        # A pipe that takes the place of a file after it was looked at.
        monkeypatch.setattr(os, "stat", lambda *_, **__: os.lstat(__file__))
        (late,) = ended(lambda: read_file(tmp_path / "pipe.py"))
        assert isinstance(late, FileRefused)


@pytest.mark.parametrize("path", ["", None, 5])
def test_what_is_no_path_is_refused_wherever_one_is_read(path: Any) -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        calls = (
            read_file,
            memory.sources.index_path,
            memory.sources.learn_patterns,
            lambda p: [*read_export(p)],
        )
        for call in calls:
            with pytest.raises(InvalidInput, match="path"):
                call(path)


def test_a_socket_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("talk")
        with pytest.raises(FileRefused, match="is not a file"):
            read_file("talk")


@pytest.mark.parametrize(
    ("rules", "path", "is_folder", "expected"),
    [
        ("*.log", "a/b/x.log", False, True),
        ("/x.log", "a/x.log", False, None),
        ("build/", "build", False, None),
        ("build/", "a/build", True, True),
        ("a/*/c", "a/b/c", False, True),
        ("a/*/c", "a/b/d/c", False, None),
        ("a/**/c", "a/b/d/c", False, True),
        ("a/**/c", "a/c", False, True),
        ("**/foo", "x/y/foo", False, True),
        ("foo/**", "foo/a/b", False, True),
        ("foo/**", "foo", True, None),
        ("*.log\n!keep.log", "keep.log", False, False),
        ("\\!odd", "!odd", False, True),
        ("\\#odd", "#odd", False, True),
        ("# comment", "# comment", False, None),
        ("x  ", "x", False, True),
        ("x\\ ", "x ", False, True),
        ("[a-c].txt", "b.txt", False, True),
        ("[!a-c].txt", "b.txt", False, None),
        ("a?c", "a/c", False, None),
        ("[", "[", False, True),
    ],
)
def test_gitignore_lines_mean_what_git_says(
    rules: str, path: str, is_folder: bool, expected: bool | None
) -> None:
    assert says(path, is_folder=is_folder, rules=read_ignore_rules(rules)) is expected
