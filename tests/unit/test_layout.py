"""The package's shape: which files decide without effects, and what importing it costs.

Which room may use which is checked by import-linter (`make lint`, the contract in
pyproject.toml).
"""

from __future__ import annotations

import ast
import collections
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "agentmem"
MOST_FILES_IN_A_FOLDER = 16
MOST_FILES = 240
MOST_LINES_OF_AN_ADAPTER = 200

# Everything in `text/` and `prompt/`, and these: they read no clock and do no I/O.
PURE_FILES = sorted(
    [
        *(PACKAGE / "text").glob("*.py"),
        *(PACKAGE / "prompt").glob("*.py"),
        *(
            PACKAGE / name
            for name in (
                "base/checks.py", "base/errors.py", "base/filters.py",
                "tokens/media.py", "tokens/models.py",
                "search/protocol.py", "search/question.py", "search/rank.py",
                "living/conflicts.py", "living/facts.py", "living/levels.py",
                "living/plans.py",
                "models/extract.py", "agent/shapes.py",
                "sources/imports/formats.py",
                "sources/patterns.py",
                "inspector/replay.py",
            )
        ),
    ]
)  # fmt: skip
# Modules they may use; everything else does I/O, reads a clock or is somebody else's.
PURE = {
    "__future__", "agentmem", "ast", "base64", "binascii", "bisect", "calendar", "collections", "copy", "dataclasses",
    "datetime", "enum", "functools", "hashlib", "heapq", "hmac", "html", "io", "itertools", "json",
    "math", "operator", "re", "reprlib", "string", "struct", "types", "typing", "unicodedata", "xml", "zlib",
}  # fmt: skip
PURE_PACKAGES = {"charset_normalizer", "detect_secrets", "markdown_it", "numpy", "regex", "Stemmer"}
HEAVY = ("litellm", "faiss", "tiktoken", "numpy", "onnxruntime", "pydantic", "wordllama", "rich")
NETWORK = ("socket", "ssl", "http.client", "urllib.request", "requests", "httpx", "aiohttp")


def imported_names(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            names.add(node.module or "")
    return names


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@pytest.mark.parametrize("path", PURE_FILES, ids=short)
def test_a_pure_file_imports_nothing_that_does_io(path: Path) -> None:
    tops = {name.split(".")[0] for name in imported_names(path)}
    assert tops <= PURE | PURE_PACKAGES, short(path)


@pytest.mark.parametrize("path", PURE_FILES, ids=short)
def test_a_pure_file_reads_no_clock_and_opens_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"open", "datetime.now", "datetime.utcnow", "date.today"}, (
                f"{short(path)}:{node.lineno} calls {called}"
            )


def test_no_folder_is_too_full_to_be_read_at_a_glance() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    folders = collections.Counter(path.parent for path in files)
    assert {f: n for f, n in folders.items() if n > MOST_FILES_IN_A_FOLDER} == {}
    assert len(files) <= MOST_FILES


def test_an_adapter_is_thin() -> None:
    """With more to say, the seam it stands on is wrong (agent/adapters/turn.py, compat/records.py)."""
    count = runpy.run_path(str(ROOT / "benchmarks" / "size.py"))["lines_of_code"]
    sizes = {short(p): count(p.read_text("utf-8")) for p in (PACKAGE / "compat").glob("*.py")}
    assert {p: n for p, n in sizes.items() if n > MOST_LINES_OF_AN_ADAPTER} == {}


def test_every_room_says_what_it_is_for() -> None:
    for path in PACKAGE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), short(path)


def test_importing_the_package_loads_nothing_heavy_and_opens_nothing() -> None:
    script = (
        "import sys, time, builtins, logging, os\n"
        "before = time.process_time()\n"
        "import agentmem\n"
        "spent = time.process_time() - before\n"
        f"loaded = [m for m in {HEAVY + NETWORK!r} if m in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert not logging.getLogger('agentmem').handlers\n"
        "print(spent)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 5  # a runaway import; the figure itself is in benchmarks/


def test_no_two_classes_share_a_name() -> None:
    # What stands in for another package has the names of that package.
    seen: dict[str, str] = {}
    twice: dict[str, tuple[str, str]] = {}
    for path in sorted({*PACKAGE.rglob("*.py")} - {*(PACKAGE / "compat").iterdir()}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                first = seen.setdefault(node.name, short(path))
                if first not in ("", short(path)):
                    twice[node.name] = (first, short(path))
    assert twice == {}
