"""The package's shape: what may import what, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORE = sorted((ROOT / "agentmem" / "core").rglob("*.py"))

# Modules the core may use; everything else does I/O, reads a clock or is somebody else's.
PURE = {
    "__future__", "agentmem", "ast", "base64", "binascii", "bisect", "calendar", "collections", "dataclasses",
    "datetime", "enum", "functools", "hashlib", "heapq", "hmac", "html", "itertools", "json",
    "math", "re", "reprlib", "string", "struct", "types", "typing", "unicodedata", "zlib",
}  # fmt: skip
PURE_PACKAGES = {"markdown_it", "numpy", "regex", "Stemmer"}
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


@pytest.mark.parametrize("path", CORE, ids=lambda p: p.name)
def test_core_imports_nothing_that_does_io(path: Path) -> None:
    for name in imported_names(path):
        top = name.split(".")[0]
        assert top in PURE | PURE_PACKAGES, f"{path.name} imports {name}"
        if top == "agentmem":
            below = {"agentmem.data", "agentmem.errors", "agentmem.protocols", "agentmem.types"}
            assert name in below or name.startswith("agentmem.core"), (
                f"{path.name} imports {name}, which is above the core"
            )


@pytest.mark.parametrize("path", CORE, ids=lambda p: p.name)
def test_core_reads_no_clock(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    for call in ("datetime.now(", "datetime.utcnow(", "date.today(", "open("):
        assert call not in source.replace("fdopen(", ""), f"{path.name} calls {call})"


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
