"""What memory costs a call of a wrapped model, beside the bare call.

    python benchmarks/overhead.py [--memories 10000] [--turns 60] [--pairs 0,10,50,200]
        [--embedder pair] [--json]

`memory.wrap` around a model that answers at once, with the default embedder,
and conversations of 0, 10, 50 and 200 pairs of messages before the question.
CPU, apart: of the caller's own thread (`caller`), of the embedder (`embedder`)
and of the thread that searches (`search`), for which the caller waits, and of
the worker (`background`: the trace, usage, indexing the turn, taking it into the
index; with the embedding of what was said). Each as the median and the 95th
percentile of single turns; between them the background is waited for. `wall` is
how long the caller waits. `loop` is a plain Python loop timed beside each turn:
where machines are shared their speed changes by the minute, and two runs compare
only by it.
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
    arguments.add_argument("--embedder", default="pair")
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
    print(f"{asked.memories:,} memories, {asked.turns} turns a row, p50 / p95 in ms")
    names = [name.removesuffix("_ms") for name in rows[0]]
    print("".join(f"{name:>16}" for name in names))
    for row in rows:
        shown = [row["pairs"], *(f"{v['p50']:g} / {v['p95']:g}" for v in list(row.values())[1:])]
        print("".join(f"{value:>16}" for value in shown))
    print(
        f"goals: caller {CALLER_GOAL_MS:g} without history, at most {HISTORY_GOAL:g} times that "
        f"with 200 pairs; background {BACKGROUND_GOAL_MS:g}"
    )


class Watched:
    """An embedder that counts the CPU it takes while callers wait for it."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self.caller = 0.0

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
            if threading.current_thread().name != WORKER:
                self.caller += time.thread_time() - began


def measure(
    folder: Path, embedder: Watched, *, memories: int, turns: int, pairs: Sequence[int]
) -> list[dict[str, Any]]:
    source = Texts()
    memory = agentmem.open(folder / "memory.db", embedder=embedder)
    for first in track(range(0, memories, 1_000), description=f"adding {memories:,}"):
        texts = [source.text(12, 40) for _ in range(min(1_000, memories - first))]
        memory.sources.add_document(texts, url=f"bench:{first}", user_id="sam")
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
        embedded = embedder.caller
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
        looped = time.thread_time()
        sum(n * n for n in range(20_000))  # a millisecond on a machine that nobody else uses
        looped = time.thread_time() - looped
        if number < WARM_UP:  # the first ones open files and fill caches
            continue
        here = embedder.caller - embedded
        figures.append((own - bare, here, spent - own - here, background, wall - bare, looped))
    names = ("caller_ms", "embedder_ms", "search_ms", "background_ms", "wall_ms", "loop_ms")
    return {
        "pairs": len(history) // 2,
        **{name: spread(one) for name, one in zip(names, zip(*figures, strict=True), strict=True)},
    }


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """The middle and the 95th percentile, in milliseconds."""
    cuts = statistics.quantiles(seconds, n=20, method="inclusive")
    return {"p50": round(1000 * cuts[9], 2), "p95": round(1000 * cuts[18], 2)}


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
