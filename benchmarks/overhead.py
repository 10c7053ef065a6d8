"""What memory costs a turn: building the context and finishing it, beside the bare call.

    python benchmarks/overhead.py [--memories 10000] [--turns 100] [--json]

The embedder's vectors are made beforehand and the model answers at once, so
what is measured is the memory: reading preferences, both searches, filling,
rendering, the trace and handing the turn to the background. Wall and CPU time
of single turns, medians; the background's own work is waited for between turns.
`loop_ms` is a plain Python loop timed beside each turn: where machines are
shared their speed changes by the minute, and two runs compare only by it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from scale import Given, make_text, word

import agentmem
from agentmem.testing import ScriptedModel

GOAL_MS = 5.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--memories", type=int, default=10_000)
    arguments.add_argument("--turns", type=int, default=100)
    arguments.add_argument("--json", action="store_true")
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), memories=asked.memories, turns=asked.turns)
    if asked.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:<28} {value}")


def measure(folder: Path, *, memories: int, turns: int) -> dict[str, Any]:
    random = np.random.default_rng(7)
    vocabulary = np.array([word(number) for number in range(20_000)])
    vectors = random.normal(size=(1_000, 256)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    memory = agentmem.open(folder / "memory.db", embedder=Given(vectors), durability="full")
    for first in track(range(0, memories, 1_000), description=f"adding {memories:,}"):
        size = min(1_000, memories - first)
        texts = [make_text(random, vocabulary, int(random.integers(12, 41))) for _ in range(size)]
        memory.add_chunks(texts, url=f"bench:{first}", vectors=vectors[:size], user_id="sam")
    memory.preferences.add("I prefer short answers", user_id="sam")
    memory.sync()
    model = ScriptedModel("Fine.")
    questions = [make_text(random, vocabulary, 8) + "?" for _ in range(turns + 5)]
    wrapped: list[tuple[float, float]] = []
    bare: list[tuple[float, float]] = []
    loops: list[float] = []
    steps: dict[str, list[float]] = {}
    for number, question in enumerate(questions):
        messages = [{"role": "user", "content": question}]

        def with_memory(messages: list[dict[str, Any]] = messages) -> Any:
            turn = memory.turn(messages, model="gpt-4o", user_id="sam")
            reply = model(messages=turn.messages)
            turn.done(reply["choices"][0]["message"]["content"], usage=reply["usage"])
            return turn

        took = timed(with_memory)
        memory.flush()
        alone = timed(lambda messages=messages: model(messages=messages))  # type: ignore[misc]
        if number >= 5:  # the first ones open files and fill caches
            wrapped.append(took[:2])
            bare.append(alone[:2])
            loops.append(timed(loop)[0])
            for name, spent in took[2].snapshot.timings_ms.items():
                steps.setdefault(name, []).append(spent)
    memory.close()
    result: dict[str, Any] = {"memories": memories, "turns": turns}
    for name, kind in (("wall", 0), ("cpu", 1)):
        with_it = statistics.median(pair[kind] for pair in wrapped)
        without = statistics.median(pair[kind] for pair in bare)
        result[f"with_memory_{name}_ms_p50"] = round(with_it, 3)
        result[f"bare_call_{name}_ms_p50"] = round(without, 3)
        result[f"overhead_{name}_ms_p50"] = round(with_it - without, 3)
    result["goal_ms"] = GOAL_MS
    result["loop_ms_p50"] = round(statistics.median(loops), 3)
    for name, values in steps.items():
        result[f"  {name}_ms_p50"] = round(statistics.median(values), 3)
    return result


def loop() -> int:
    """20,000 squares: a millisecond on a machine that nobody else uses."""
    return sum(number * number for number in range(20_000))


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall and CPU milliseconds of this thread's call, and what it gave."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return 1000 * (time.perf_counter() - wall), 1000 * (time.process_time() - cpu), value


if __name__ == "__main__":
    main()
