"""The documents tell the truth: their code runs, and their properties have tests."""

from __future__ import annotations

import ast
import re
import socket
import sys
import warnings
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import agentmem
from tests.reference_page import render

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PROPERTY = re.compile(r"^([A-Z]\d+) ([^.]+)\.")
NEEDS = re.compile(r"<!-- needs ([\w.]+) -->")
ROW = re.compile(r"^\| ([A-Z]\d+) \| ([^|]+) \|", re.MULTILINE)


def names_of(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_every_python_block_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(page)
    with warnings.catch_warnings():
        for needed in NEEDS.findall(page.read_text(encoding="utf-8")):
            warnings.simplefilter("ignore")  # a framework may warn of itself
            pytest.importorskip(
                needed, reason=f"{page.name} needs {needed}, which is not installed"
            )
        for example in document.examples():
            example.evaluate()


INNER = re.compile(r"^\s*(?:from|import) agentmem\.(?!testing\b|compat\.)\S+", re.MULTILINE)


@pytest.mark.parametrize("page", [*PAGES, *EXAMPLES], ids=names_of([*PAGES, *EXAMPLES]))
def test_documents_and_examples_import_from_the_top_level(page: Path) -> None:
    """Fakes for tests and what speaks another project's interface have modules of their own."""
    assert INNER.findall(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=names_of(PAGES))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def properties_quoted_by_tests() -> dict[str, str]:
    """Id to name, from the docstrings in tests/properties/; twice quoted is an error."""
    quoted: dict[str, str] = {}
    for path in sorted((ROOT / "tests" / "properties").glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef):
                continue
            match = PROPERTY.match(ast.get_docstring(node) or "")
            if match:
                assert match[1] not in quoted, f"{match[1]} is quoted twice, again in {path.name}"
                quoted[match[1]] = match[2].strip()
    return quoted


def test_documented_properties_and_tested_properties_are_the_same() -> None:
    page = (ROOT / "docs" / "properties.md").read_text(encoding="utf-8")
    documented = {number: name.strip() for number, name in ROW.findall(page)}
    assert documented == properties_quoted_by_tests()


def test_every_public_name_is_in_the_docs() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = [name for name in agentmem.__all__ if not re.search(rf"\b{name}\b", text)]
    assert not missing


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="others spell signatures otherwise")
def test_the_reference_is_fresh() -> None:
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == render(), "python -m tests.reference_page > docs/reference.md"


def test_tests_cannot_reach_the_network() -> None:
    with pytest.raises(OSError, match="tried to reach"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)


def test_nobody_is_told_to_install_somebody_elses_package() -> None:
    for page in PAGES:
        assert not re.search(r"pip install ['\"]?agentmem(?!-loop)\b", page.read_text("utf-8"))
