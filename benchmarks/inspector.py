"""What tracing and inspecting cost: the hot path, a snapshot on disk, `inspect` as a process.

python benchmarks/inspector.py [--memories 10000]
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import agentmem
from agentmem.base.lazy import Lazy
from agentmem.inspector.audit import audit
from agentmem.inspector.look import trace_of
from agentmem.inspector.stats import collect_stats
from agentmem.memory.manager import MemoryManager

WORDS = tuple(
    re.findall(
        r"\w+",
        "harbour boats tea green review deploy Friday approval dog Rex garden river stone winter "
        "morning ticket invoice branch merge window budget token memory answer question",
    )
)


def text_of(number: int) -> str:
    """A sentence or three, all different."""
    picked = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 28)]
    return f"Note {number}: " + " ".join(picked[:14]) + ". And then " + " ".join(picked[14:]) + "."


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median and 99th percentile of a call, in milliseconds."""
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - began))
    spent.sort()
    return statistics.median(spent), spent[min(len(spent) - 1, int(0.99 * len(spent)))]


def hot_path(memory: MemoryManager) -> None:
    turn = memory.turn([{"role": "user", "content": "When is the review of the deploy?"}])
    snapshot = turn.snapshot
    assert snapshot is not None
    print(
        f"a snapshot of {len(snapshot.looked_at)} candidates, {len(snapshot.message):,} characters"
    )
    trace = memory.runtime.trace
    counter = iter(range(10**9))

    def record() -> None:
        number = next(counter)
        moment = snapshot.created_at + timedelta(milliseconds=number)
        made = replace(snapshot, id=f"bench-{number}", message_id="", created_at=moment)
        trace.record_late(made.id, Lazy(lambda: made), made.scope)

    median, worst = timed(record, 500)
    print(f"Trace.record_late            {median:8.3f} ms median, {worst:.3f} ms p99 (limit 1 ms)")
    memory.runtime.worker.flush(120)
    memory.upkeep.sync()
    before = memory.store.upkeep.stats().bytes
    began = time.perf_counter()
    for _ in range(500):
        record()
    memory.runtime.worker.flush(120)
    spent = time.perf_counter() - began
    memory.upkeep.sync()
    grown = memory.store.upkeep.stats().bytes - before
    print(f"written in the background   {500 / spent:8.0f} a second, {grown / 500:,.0f} bytes each")
    median, _ = timed(lambda: trace.get("last", scope=None), 20)
    print(f"explain last                {median:8.1f} ms")
    median, _ = timed(lambda: collect_stats(memory, now=memory.clock.now()), 3)
    contexts = len(trace.list(limit=10**6, scope=None, texts=False))
    print(f"stats over {contexts:,} contexts   {median:8.1f} ms")


def processes(path: Path, repeats: int) -> None:
    """Whole processes in turn, so that what else the machine does falls on all of them alike."""
    words = ("inspect", "--query", "When is the review of the deploy?", "--model", "gpt-4o")
    inspect = ("-m", "agentmem", "--store", str(path), *words)
    commands = {
        "python alone": (("-c", "pass"), ""),
        "python, numpy": (("-c", "import numpy"), ""),
        "agentmem --help": (("-m", "agentmem", "--help"), ""),
        "inspect (wordllama)": (inspect, "wordllama"),
        "inspect (none)": (inspect, "none"),
    }
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for _ in range(1 + repeats):
        for name, (arguments, embedder) in commands.items():
            environment = {**os.environ, "AGENTMEM_EMBEDDER": embedder}
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            began, used = time.perf_counter(), cpu_seconds()
            subprocess.run(
                [sys.executable, *arguments], check=True, capture_output=True, env=environment
            )
            spent[name].append((time.perf_counter() - began, cpu_seconds() - used))
    for name, runs in spent.items():
        walls = sorted(1000 * wall for wall, _ in runs[1:])  # the first one fills caches
        processor = sorted(1000 * used for _, used in runs[1:])
        print(
            f"process: {name:20s}{walls[0]:7.0f} ms least, {statistics.median(walls):.0f} ms "
            f"median, {walls[-1]:.0f} ms most; processor {processor[0]:.0f} ms least, "
            f"{statistics.median(processor):.0f} ms median"
            + (" (limit 500 ms)" if name.startswith("inspect") else "")
        )


def cpu_seconds() -> float:
    """Processor time of the processes that were run: the same on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with agentmem.open(path) as memory:
            began = time.perf_counter()
            messages = [
                {"role": "user", "content": text_of(number)} for number in range(options.memories)
            ]
            for start in range(0, len(messages), 1_000):
                memory.add(messages[start : start + 1_000])
            print(f"{options.memories:,} memories stored in {time.perf_counter() - began:.1f} s")
        processes(path, options.repeats)
        with agentmem.open(path) as memory:
            hot_path(memory)
            median, _ = timed(lambda: audit(memory, now=memory.clock.now()), 1)
            print(f"audit                       {median:8.0f} ms")
            assert trace_of(memory).last(scope=None) is not None


if __name__ == "__main__":
    main()
