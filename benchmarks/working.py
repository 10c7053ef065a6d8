"""How many tokens stand-ins save on the outputs of real commands, and how long keeping takes.

    python benchmarks/working.py [--model gpt-4o] [--json]

Every output is made here and now by a command of this machine; one that is not
installed is left out. "with one read" adds a page of at most 300 tokens, which is
what a model that needs a detail asks for.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import agentmem  # noqa: E402
from agentmem.agent.tool_results import WorkingMemory  # noqa: E402
from agentmem.base.types import Scope  # noqa: E402
from agentmem.tokens.counter import tokenizer_for  # noqa: E402

COMMANDS = (
    ("ls -laR", "ls -laR agentmem"),
    ("find", "find agentmem tests docs -type f"),
    ("grep -rn", "grep -rn 'def ' agentmem"),
    ("grep -rl", "grep -rln import agentmem"),
    ("git log", "git log --stat -40"),
    ("git log --oneline", "git log --oneline"),
    ("git show", "git show --stat --patch HEAD~3"),
    ("git diff", "git diff HEAD~8 HEAD -- agentmem"),
    ("pip list", f"{sys.executable} -m pip list"),
    ("pip list (JSON)", f"{sys.executable} -m pip list --format=json"),
    ("wc -l", "wc -l agentmem/*.py agentmem/*/*.py"),
    ("ps aux", "ps aux"),
    ("df", "df -a"),
    ("/etc/services", "cat /etc/services"),
    ("/etc/passwd", "cat /etc/passwd"),
    ("cat source", "cat agentmem/search/retriever.py"),
    ("pydoc", f"{sys.executable} -m pydoc json"),
    ("python --help", f"{sys.executable} --help-all"),
    ("ast dump", f"{sys.executable} -m ast agentmem/base/types.py"),
    ("/proc/cpuinfo", "cat /proc/cpuinfo"),
    ("mounts", "cat /proc/mounts"),
)


def outputs() -> Iterator[tuple[str, object]]:
    """What the commands print, then a trace, JSON, a table, a page and an image."""
    for name, command in COMMANDS:
        if shutil.which(command.split()[0]) is None:
            continue
        run = subprocess.run(command, shell=True, capture_output=True, cwd=ROOT, check=False)
        if run.stdout:
            yield name, run.stdout
    yield "python traceback", deep_traceback()
    sizes = [{"path": str(p.relative_to(ROOT)), "bytes": p.stat().st_size} for p in files()]
    yield "json array", sizes
    yield "json object", {"root": "agentmem", "files": sizes, "count": len(sizes)}
    yield "json lines", "".join(json.dumps(row) + "\n" for row in sizes)
    yield "csv", "path,bytes\n" + "".join(f"{r['path']},{r['bytes']}\n" for r in sizes)
    yield "html", page()
    yield (
        "image",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x04\x00\x00\x00\x03\x00" + bytes(9_000),
    )


def files() -> list[Path]:
    return sorted((ROOT / "agentmem").rglob("*.py"))


def deep_traceback() -> str:
    def fall(depth: int) -> None:
        if not depth:
            json.loads('{"cut": ')
        fall(depth - 1) if depth % 2 else fall_on(depth - 1)

    def fall_on(depth: int) -> None:
        fall(depth)

    try:
        fall(40)
    except ValueError:
        return traceback.format_exc()
    return ""


def page() -> str:
    from markdown_it import MarkdownIt

    text = (ROOT / "README.md").read_text("utf-8")
    return f"<!doctype html><html><title>README</title>{MarkdownIt().render(text)}</html>"


def measure(model: str) -> list[dict[str, float | str]]:
    """One row an output that is too large to go on as it is."""
    count = tokenizer_for(model)
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as folder:
        manager = agentmem.open(Path(folder) / "memory.db", embedder=None)
        with manager:
            working = WorkingMemory(manager, scope=Scope(user_id="bench"), count=count)
            working.keep("warm", {}, "up " * 500)
            for name, output in outputs():
                started = time.perf_counter()
                kept = working.keep(name, {}, output)
                spent = time.perf_counter() - started
                data = working.data(kept.id)
                whole = count(data.decode("utf-8", "backslashreplace"))
                if kept.whole:
                    continue
                started = time.perf_counter()
                read = working.read(kept.id, limit_tokens=300)
                rows.append(
                    {
                        "output": name, "bytes": len(data), "whole": whole,
                        "stand-in": kept.tokens, "with one read": kept.tokens + read.tokens,
                        "saved": 1 - kept.tokens / whole,
                        "saved with one read": 1 - (kept.tokens + read.tokens) / whole,
                        "keep ms": spent * 1_000,
                        "read ms": (time.perf_counter() - started) * 1_000,
                    }
                )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="gpt-4o")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.model)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    names = ("bytes", "whole", "stand-in", "saved", "+ 1 read", "saved", "keep ms", "read ms")
    widths = (10, 9, 10, 8, 10, 8, 9, 9)
    heads = (f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    print(f"{'output':20}" + "".join(heads))
    for row in sorted(rows, key=lambda row: -float(row["whole"])):
        print(
            f"{row['output']:20}{row['bytes']:>10,}{row['whole']:>9,}{row['stand-in']:>10}"
            f"{row['saved']:>8.1%}{row['with one read']:>10,}{row['saved with one read']:>8.1%}"
            f"{row['keep ms']:>9.1f}{row['read ms']:>9.1f}"
        )
    whole = sum(float(row["whole"]) for row in rows)
    small = sum(float(row["stand-in"]) for row in rows)
    read = sum(float(row["with one read"]) for row in rows)
    large = [row for row in rows if float(row["whole"]) >= 1_000]
    worst = min((float(row["saved"]) for row in large), default=0.0)
    print(
        f"\nall outputs: {whole:,.0f} tokens whole, {small:,.0f} as stand-ins "
        f"({1 - small / whole:.1%} fewer), {read:,.0f} with one read each "
        f"({1 - read / whole:.1%} fewer)"
    )
    print(f"of {len(large)} outputs of 1,000 tokens and more, the least saving is {worst:.1%}")


if __name__ == "__main__":
    main()
