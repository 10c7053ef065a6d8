"""How long a coding agent waits for `agentmem hook`, once its helper runs.

python benchmarks/hook.py [--memories 2000] [--runs 40]

Each line is the whole command, from the start of Python to its end: wall time and CPU time of
the command itself, and for comparison a Python that does nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import agentmem

EVENTS = {
    "session start": {"hook_event_name": "SessionStart", "session_id": "s"},
    "prompt": {
        "hook_event_name": "UserPromptSubmit",
        "session_id": "s",
        "prompt": "What does ship 17 of the harbour carry?",
    },
    "after a tool": {
        "hook_event_name": "PostToolUse",
        "session_id": "s",
        "tool_name": "Bash",
        "tool_input": {"command": "ls"},
        "tool_response": {"stdout": "nine boats and a crane", "stderr": ""},
    },
    "end": {"hook_event_name": "Stop", "session_id": "s", "last_assistant_message": "Wood."},
}
HOOK = ["-P", "-m", "agentmem", "hook", "--user", "ana"]


def measure(command: list[str], given: str, env: dict[str, str]) -> tuple[float, float]:
    """Milliseconds by the clock and of the CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, *command], input=given, env=env, text=True, check=True, capture_output=True
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return 1000 * wall, 1000 * spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=40)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "memory.db"
        with agentmem.open(store) as memory:
            memory.sources.add_document(
                [f"Ship {n} of the harbour carries wood and tar." for n in range(said.memories)],
                url="https://harbour.example/ships", user_id="ana",
            )  # fmt: skip
            memory.preferences.add("I prefer short answers.", user_id="ana")
        env = {**os.environ, "AGENTMEM_STORE": str(store)}
        cold, _ = measure(HOOK, json.dumps(EVENTS["session start"]), env)
        print(
            f"{said.memories:,} memories; the first hook, which starts the helper: {cold:,.0f} ms"
        )
        print(f"{'':16}{'wall p50':>10}{'wall p95':>10}{'CPU p50':>10}   (ms)")
        try:
            for name, command, given in (
                ("bare Python", ["-c", "pass"], ""),
                *((name, HOOK, json.dumps(event)) for name, event in EVENTS.items()),
            ):
                runs = [measure(command, given, env) for _ in range(said.runs)]
                walls = sorted(wall for wall, _ in runs)
                cpu = statistics.median(spent for _, spent in runs)
                p95 = walls[int(0.95 * (len(walls) - 1))]
                print(f"{name:16}{statistics.median(walls):10.0f}{p95:10.0f}{cpu:10.0f}")
        finally:
            stop = [sys.executable, "-P", "-m", "agentmem", "hook", "--stop"]
            subprocess.run(stop, env=env, check=True, capture_output=True)


if __name__ == "__main__":
    main()
