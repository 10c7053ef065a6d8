"""How much of the package one operation goes through: calls and modules touched.

    python benchmarks/calls.py [--json]

Counts Python calls into functions of `agentmem` (all threads, until the
background is done) for one wrapped turn, one `add`, one `search` and one
`agentmem ask`, each after a warm-up that has loaded everything lazy.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import agentmem
from agentmem.testing import ScriptedModel

FACTS = (
    "Deploys go out on Thursdays at ten.", "The staging database is restored every night.",
    "I drive a Tesla Model 3.", "Our office is in Lisbon.", "The invoice service is written in Go.",
)  # fmt: skip


class Count:
    """Calls into the package, and the files they are in, while it is switched on."""

    def __init__(self) -> None:
        self.root = str(Path(agentmem.__file__).parent)
        self.calls = 0
        self.files: set[str] = set()

    def _seen(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.root):
            self.calls += 1
            self.files.add(frame.f_code.co_filename)

    def __enter__(self) -> Count:
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


def measure(folder: Path) -> dict[str, dict[str, int]]:
    """Calls and modules of each operation, on a store with a few memories."""
    from agentmem.cli.app import main as command

    store = folder / "memory.db"

    def opened() -> agentmem.MemoryManager:
        return agentmem.open(str(store))

    def counted(act: Callable[[agentmem.MemoryManager], object]) -> dict[str, int]:
        with opened() as memory:  # warm: what is lazy is loaded
            act(memory)
            memory.flush()
        with Count() as count, opened() as memory:
            act(memory)
            memory.flush()
        with Count() as empty, opened() as memory:
            memory.flush()
        return {"calls": max(0, count.calls - empty.calls), "modules": len(count.files)}

    def turn(memory: agentmem.MemoryManager) -> None:
        ask = memory.wrap(ScriptedModel("Thursday [1]."))
        said = [{"role": "user", "content": "Which day do we deploy?"}]
        ask(model="gpt-4o", messages=said, memory_scope="sam")

    def asked(_: agentmem.MemoryManager) -> None:
        arguments = ["ask", "Which day do we deploy?", "--store", str(store), "--user", "sam"]
        sys.argv = ["agentmem", *arguments, "--model", "extractive"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            command()

    with opened() as memory:
        for fact in FACTS:
            memory.add(fact, user_id="sam")
    number = iter(range(100))
    return {
        "one wrapped turn": counted(turn),
        "add of one line": counted(lambda m: m.add(f"Lamp {next(number)} is red.", user_id="sam")),
        "search": counted(lambda m: m.search("Which day do we deploy?", user_id="sam")),
        "agentmem ask": counted(asked),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder))
    if wanted.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"{'':20}{'calls':>8}{'modules':>9}")
    for name, figure in figures.items():
        print(f"{name:20}{figure['calls']:>8,}{figure['modules']:>9,}")


if __name__ == "__main__":
    main()
