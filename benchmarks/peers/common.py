"""What every peer does: read the folder, time the same three steps, print one line of JSON."""

from __future__ import annotations

import argparse
import json
import statistics
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
    folder: str


@dataclass(frozen=True)
class Peer:
    """How one system loads, answers and takes one more text."""

    load: Callable[[Sequence[str], Vectors], None]
    ask: Callable[[str, Vectors], object]
    add: Callable[[int, str, Vectors], object]


def timed(calls: Sequence[Callable[[], object]]) -> list[float]:
    spent = []
    for call in calls:
        start = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - start))
    return spent


def measure(work: Work, peer: Peer, *, adds: int) -> dict[str, Any]:
    n = len(work.texts) - adds
    start = time.perf_counter()
    peer.load(work.texts[:n], work.vectors[:n])
    loaded = time.perf_counter() - start
    peer.ask(work.queries[0], work.query_vectors[0])
    pairs = list(zip(work.queries, work.query_vectors, strict=True))
    asked = timed([lambda q=q, v=v: peer.ask(q, v) for q, v in pairs])  # type: ignore[misc]
    added = timed(
        [lambda i=i: peer.add(i, work.texts[i], work.vectors[i]) for i in range(n, n + adds)]  # type: ignore[misc]
    )
    return {
        "n": n,
        "bulk_per_s": round(n / loaded),
        "query_ms_p50": round(statistics.median(asked), 3),
        "query_ms_p95": round(sorted(asked)[int(0.95 * len(asked))], 3),
        "add_ms_p50": round(statistics.median(added), 3),
    }


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
            folder=scratch,
        )
        figures = measure(work, build(work), adds=arguments.adds)
    json.dump({"peer": name, "version": version, **figures}, sys.stdout)
