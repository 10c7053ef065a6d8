"""What every peer does: read the folder, load it, then do what it is asked line by line."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
ADDS = 30


@dataclass(frozen=True)
class Work:
    texts: list[str]
    vectors: Vectors
    queries: list[str]
    query_vectors: Vectors
    stop_words: frozenset[str]
    folder: str


@dataclass(frozen=True)
class Peer:
    """How one system loads, answers and takes one more text."""

    load: Callable[[Sequence[str], Vectors], None]
    ask: Callable[[str, Vectors], object]
    add: Callable[[int, str, Vectors], object]


def measured(call: Callable[[], object]) -> dict[str, float]:
    """What a call took, in milliseconds: on the clock, and of CPU in all threads."""
    start, used = time.perf_counter(), time.process_time()
    call()
    cpu = time.process_time() - used
    return {"wall": 1000 * (time.perf_counter() - start), "cpu": 1000 * cpu}


def serve(work: Work, peer: Peer) -> None:
    for query, vector in zip(work.queries[:5], work.query_vectors[:5], strict=True):
        peer.ask(query, vector)
    for line in sys.stdin:
        ((kind, i),) = json.loads(line).items()
        if kind == "ask":
            spent = measured(lambda i=i: peer.ask(work.queries[i], work.query_vectors[i]))  # type: ignore[misc]
        else:
            spent = measured(lambda i=i: peer.add(i, work.texts[i], work.vectors[i]))  # type: ignore[misc]
        say(spent)


def say(figures: dict[str, Any]) -> None:
    print(json.dumps(figures), flush=True)


def run(name: str, version: str, build: Callable[[Work], Peer]) -> None:
    parser = argparse.ArgumentParser(description=f"Measure {name}.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--adds", type=int, default=ADDS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = Work(
            texts=json.loads((arguments.folder / "texts.json").read_text("utf-8")),
            vectors=np.load(arguments.folder / "vectors.npy"),
            queries=json.loads((arguments.folder / "queries.json").read_text("utf-8")),
            query_vectors=np.load(arguments.folder / "query_vectors.npy"),
            stop_words=frozenset(
                json.loads((arguments.folder / "stop_words.json").read_text("utf-8"))
            ),
            folder=scratch,
        )
        peer = build(work)
        n = len(work.texts) - arguments.adds
        spent = measured(lambda: peer.load(work.texts[:n], work.vectors[:n]))
        say({"peer": name, "version": version, "bulk_per_s": round(1000 * n / spent["wall"])})
        serve(work, peer)
