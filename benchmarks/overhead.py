"""What memory costs a call of a wrapped model, beside the bare call.

    python benchmarks/overhead.py [--memories 10000] [--turns 60] [--pairs 0,10,50,200]
        [--embedder minilm] [--json]

`memory.wrap` around a model that answers at once, with the default embedder,
and conversations of 0, 10, 50 and 200 pairs of messages before the question.
`caller_cpu_ms` is all the CPU that the caller waits for: its own thread
(`thread_cpu_ms`) and the one that searches. `background_cpu_ms` is that of the
worker: the trace, usage, indexing the turn, taking it into the index.
`caller_embed_ms` and `background_embed_ms` are the parts of both that the
embedder takes, `caller_rest_ms` and `background_rest_ms` what is left. Medians
of single turns; between them the background is waited for. `loop_ms` is a plain
Python loop timed beside each turn: where machines are shared their speed
changes by the minute, and two runs compare only by it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.progress import track

import agentmem
from agentmem.search.embedders.base import load_embedder
from agentmem.testing import ScriptedModel

ROOT = Path(__file__).resolve().parents[1]
PAIRS = (0, 10, 50, 200)
WARM_UP = 5
WORKER = "agentmem-worker"
CALLER_GOAL_MS = 4.0
HISTORY_GOAL = 1.5
BACKGROUND_GOAL_MS = 8.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--memories", type=int, default=10_000)
    arguments.add_argument("--turns", type=int, default=60)
    arguments.add_argument("--pairs", default=",".join(map(str, PAIRS)))
    arguments.add_argument("--embedder", default="minilm")
    arguments.add_argument("--json", action="store_true")
    asked = arguments.parse_args()
    pairs = [int(number) for number in asked.pairs.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        embedder = Watched(load_embedder(asked.embedder))
        rows = measure(
            Path(folder), embedder, memories=asked.memories, turns=asked.turns, pairs=pairs
        )
    if asked.json:
        print(json.dumps({"memories": asked.memories, "rows": rows}, indent=2))
        return
    print(f"{asked.memories:,} memories, {asked.turns} turns a row, medians in ms")
    print("  ".join(f"{name:>19}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value:>19}" for value in row.values()))
    print(
        f"goals: caller {CALLER_GOAL_MS:g} without history, at most {HISTORY_GOAL:g} times that "
        f"with 200 pairs; background {BACKGROUND_GOAL_MS:g}"
    )


class Watched:
    """An embedder that counts the CPU it takes, of the worker and of everybody else."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.caller = self.worker = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_documents(self, texts: Sequence[str], /) -> Any:
        return self._counted(self._embedder.embed_documents, texts)

    def embed_query(self, text: str, /) -> Any:
        return self._counted(self._embedder.embed_query, text)

    def _counted(self, call: Callable[[Any], Any], given: Any) -> Any:
        began = time.thread_time()
        try:
            return call(given)
        finally:
            spent = time.thread_time() - began
            if threading.current_thread().name == WORKER:
                self.worker += spent
            else:
                self.caller += spent


def measure(
    folder: Path, embedder: Watched, *, memories: int, turns: int, pairs: Sequence[int]
) -> list[dict[str, Any]]:
    source = Texts()
    memory = agentmem.open(folder / "memory.db", embedder=embedder)
    for first in track(range(0, memories, 1_000), description=f"adding {memories:,}"):
        texts = [source.text(12, 40) for _ in range(min(1_000, memories - first))]
        memory.add_chunks(texts, url=f"bench:{first}", user_id="sam")
    memory.preferences.add("I prefer short answers", user_id="sam")
    memory.flush()
    memory.upkeep.sync()
    rows = []
    for number in pairs:
        history = [
            {"role": role, "content": source.text(*size)}
            for _ in range(number)
            for role, size in (("user", (6, 25)), ("assistant", (30, 120)))
        ]
        rows.append(measure_turns(memory, embedder, source, history, turns=turns))
    memory.close()
    return rows


def measure_turns(
    memory: agentmem.MemoryManager,
    embedder: Watched,
    source: Texts,
    history: list[dict[str, str]],
    *,
    turns: int,
) -> dict[str, Any]:
    model = ScriptedModel("That is how it is done here.")
    wrapped = memory.wrap(model, scope="sam")
    figures: list[tuple[float, ...]] = []
    for number in range(turns + WARM_UP):
        messages = [*history, {"role": "user", "content": f"What about {source.text(6, 9)}?"}]
        began, own, all_began, worker = (
            time.perf_counter(), time.thread_time(), time.process_time(), worker_cpu(),
        )  # fmt: skip
        embedded = embedder.caller, embedder.worker
        wrapped(messages=messages, model="gpt-4o")
        wall, own = time.perf_counter() - began, time.thread_time() - own
        waiting = time.thread_time()
        memory.flush()
        waiting = time.thread_time() - waiting
        background = worker_cpu() - worker
        spent = time.process_time() - all_began - background - waiting
        bare = time.thread_time()
        model(messages=messages, model="gpt-4o")
        bare = time.thread_time() - bare
        looped = time.perf_counter()
        sum(n * n for n in range(20_000))  # a millisecond on a machine that nobody else uses
        looped = time.perf_counter() - looped
        if number >= WARM_UP:  # the first ones open files and fill caches
            here, beside = embedder.caller - embedded[0], embedder.worker - embedded[1]
            figures.append(
                (
                    spent - bare,
                    here,
                    spent - bare - here,
                    own - bare,
                    wall - bare,
                    background,
                    beside,
                    background - beside,
                    looped,
                )
            )
    middle = [statistics.median(one) * 1000 for one in zip(*figures, strict=True)]
    names = (
        "caller_cpu_ms", "caller_embed_ms", "caller_rest_ms", "thread_cpu_ms", "wall_ms",
        "background_cpu_ms", "background_embed_ms", "background_rest_ms", "loop_ms",
    )  # fmt: skip
    return {
        "pairs": len(history) // 2,
        **{name: round(value, 2) for name, value in zip(names, middle, strict=True)},
    }


def worker_cpu() -> float:
    """Seconds of CPU the background has used; 0 while it has no thread."""
    for thread in threading.enumerate():
        if thread.name == WORKER and thread.ident is not None:
            return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    return 0.0


class Texts:
    """Runs of words from this project's own pages, none of them twice."""

    def __init__(self, *, seed: int = 7) -> None:
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        self._words = [
            word for page in pages for word in re.findall(r"[^\W_]+", page.read_text("utf-8"))
        ]
        self._random = random.Random(seed)
        self._told: set[str] = set()

    def text(self, least: int, most: int) -> str:
        while True:
            size = self._random.randint(least, most)
            at = self._random.randrange(len(self._words) - size)
            text = " ".join(self._words[at : at + size])
            if text not in self._told:
                self._told.add(text)
                return text


if __name__ == "__main__":
    main()
