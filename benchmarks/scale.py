"""Speed and size of a memory with N chunks, through the public API, beside other systems.

    python benchmarks/scale.py --n 100000 [--peers fts5,chroma,lancedb,mem0] [--json]

Texts follow a Zipf law over a growing vocabulary; vectors lie in clusters, as those of real texts
do. Peers are installed into environments of their own under `.bench/` and do the same work in the
same run. Times are medians of single calls on this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

import agentmem
from agentmem.protocols import EmbedderId

ROOT = Path(__file__).resolve().parents[1]
PEERS = {
    "fts5": ("fts5.py", ("numpy",)),
    "chroma": ("chroma.py", ("chromadb",)),
    "lancedb": ("lance.py", ("lancedb",)),
    "mem0": ("mem0_faiss.py", ("mem0ai", "faiss-cpu")),
}
DIMENSIONS = 256
BATCH = 1_000
ADDS = 60
QUERIES = 200


class Given:
    """Vectors made beforehand: what is measured is the memory, not an embedder."""

    def __init__(self, vectors: NDArray[np.float32]) -> None:
        self.id = EmbedderId(name="given", version="1", dimensions=vectors.shape[1])
        self._vectors = vectors
        self._asked = 0

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        return self._vectors[: len(texts)]

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        self._asked += 1
        vector: NDArray[np.float32] = self._vectors[self._asked % len(self._vectors)]
        return vector


class Work:
    """Texts, questions and vectors, the same for everybody in this run."""

    def __init__(self, n: int, *, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        vocabulary = np.array([word(number) for number in range(max(20_000, n // 5))])
        self.texts = [make_text(random, vocabulary, int(random.integers(12, 41))) for _ in range(n)]
        self.queries = [make_text(random, vocabulary, 8) for _ in range(QUERIES)]
        centres = random.normal(size=(max(50, n // 200), DIMENSIONS)).astype(np.float32)
        self.vectors = around(random, centres, n)
        self.query_vectors = around(random, centres, QUERIES)


def word(number: int) -> str:
    """The nth word of an invented language: pronounceable, so that stemming has work to do."""
    syllables = []
    number += 1
    while number:
        number, part = divmod(number, 105)
        syllables.append("bcdfghjklmnprstvwxyzq"[part // 5] + "aeiou"[part % 5])
    return "".join(syllables) + "n"


def make_text(random: np.random.Generator, vocabulary: NDArray[Any], size: int) -> str:
    places = np.minimum(random.zipf(1.15, size=size), len(vocabulary)) - 1
    return " ".join(vocabulary[places])


def around(
    random: np.random.Generator, centres: NDArray[np.float32], n: int
) -> NDArray[np.float32]:
    chosen = centres[random.integers(0, len(centres), n)]
    vectors = chosen + 0.7 * random.normal(size=chosen.shape).astype(np.float32)
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def open_memory(path: Path, vectors: NDArray[np.float32]) -> agentmem.MemoryManager:
    return agentmem.open(path, embedder=Given(vectors), durability="full")


def milliseconds(calls: Sequence[Callable[[], object]]) -> list[float]:
    spent = []
    for call in calls:
        start = time.perf_counter()
        call()
        spent.append(1000 * (time.perf_counter() - start))
    return spent


def median(calls: Sequence[Callable[[], object]]) -> float:
    return round(statistics.median(milliseconds(calls)), 3)


def fill(memory: agentmem.MemoryManager, work: Work, n: int, *, user: str, start: int = 0) -> float:
    """Add n chunks in batches; gives chunks a second."""
    began = time.perf_counter()
    for first in range(start, start + n, BATCH):
        last = min(first + BATCH, start + n)
        memory.add_chunks(
            work.texts[first:last],
            url=f"bench:{user}:{first}",
            vectors=work.vectors[first:last],
            user_id=user,
        )
    return n / (time.perf_counter() - began)


def query_times(memory: agentmem.MemoryManager, work: Work, user: str) -> float:
    def ask(query: str) -> Callable[[], object]:
        return lambda: memory.search(query, top_k=10, threshold=0.0, user_id=user)

    for query in work.queries[:5]:
        ask(query)()
    return median([ask(query) for query in work.queries])


def add_time(memory: agentmem.MemoryManager, work: Work, *, name: str) -> float:
    def add(number: int) -> Callable[[], object]:
        text, vector = work.texts[number], work.vectors[number : number + 1]
        return lambda: memory.add_chunks(
            [text], url=f"one:{name}:{number}", vectors=vector, user_id="adder"
        )

    return median([add(number) for number in range(ADDS)])


def bare_add_time(folder: Path, work: Work) -> float:
    """One durable transaction that writes the same row and vector with plain SQLite."""
    base = sqlite3.connect(folder / "bare.db", isolation_level=None)
    base.executescript(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE memories (row INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT);"
        "CREATE TABLE vectors (row INTEGER PRIMARY KEY, data BLOB);"
    )

    def add(number: int) -> None:
        base.execute("BEGIN IMMEDIATE")
        row = base.execute(
            "INSERT INTO memories (id, text) VALUES (?, ?)", (str(number), work.texts[number])
        ).lastrowid
        base.execute("INSERT INTO vectors VALUES (?, ?)", (row, work.vectors[number].tobytes()))
        base.execute("COMMIT")

    spent = median([lambda number=number: add(number) for number in range(ADDS)])  # type: ignore[misc]
    base.close()
    return spent


COLD = """
import json, resource, sys, time
import numpy as np
sys.path.insert(0, {benchmarks!r})
import agentmem, faiss, Stemmer, agentmem.manager, agentmem.indexes.saved
from scale import Given, open_memory
from pathlib import Path
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
vectors = np.load({queries!r})
before = resident()
start = time.perf_counter()
memory = open_memory(Path({path!r}), vectors)
found = memory.search({query!r}, top_k=10, threshold=0.0, user_id="everyone")
spent = time.perf_counter() - start
for _ in range(20):
    memory.search({query!r} + str(_), top_k=10, threshold=0.0, user_id="everyone")
print(json.dumps([1000 * spent, resident() - before, len(found)]))
memory.store.close()
"""


def cold_open(path: Path, folder: Path, work: Work) -> tuple[float, int]:
    """Milliseconds from opening to the first answer in a new process, and the memory it took."""
    np.save(folder / "cold.npy", work.query_vectors)
    script = COLD.format(
        benchmarks=str(ROOT / "benchmarks"),
        queries=str(folder / "cold.npy"),
        path=str(path),
        query=work.queries[0],
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    spent, taken, found = json.loads(output)
    assert found, "the first search found nothing"
    return round(spent, 1), int(taken)


def measure(n: int, folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    note("making texts and vectors")
    small = max(100, n // 100)
    work = Work(n + small)
    path = folder / "memory.db"
    note("adding 1,000")
    memory = open_memory(path, work.query_vectors)
    fill(memory, work, 1_000, user="everyone")
    result: dict[str, Any] = {"n": n, "add_ms_at_1000": add_time(memory, work, name="small")}
    note(f"adding {n:,}")
    result["bulk_per_s"] = round(fill(memory, work, n - 1_000, user="everyone", start=1_000))
    fill(memory, work, small, user="small", start=n)
    memory.search("settle", user_id="everyone")
    memory.sync()  # joins and trains in the background are over when it returns
    note("asking")
    result["query_ms_whole_store"] = query_times(memory, work, "everyone")
    result["query_ms_one_user"] = query_times(memory, work, "small")
    note("adding one by one")
    result[f"add_ms_at_{n}"] = add_time(memory, work, name="large")
    result["bare_sqlite_add_ms"] = bare_add_time(folder, work)
    result["add_over_bare"] = round(result[f"add_ms_at_{n}"] / result["bare_sqlite_add_ms"], 2)
    result["add_over_1000"] = round(result[f"add_ms_at_{n}"] / result["add_ms_at_1000"], 2)
    note("saving and opening again")
    memory.close()
    result["cold_open_ms_saved"], taken = cold_open(path, folder, work)
    rows = n + small + 2 * ADDS
    result["bytes_per_chunk_beyond_vectors"] = round(taken / rows - 4 * DIMENSIONS)
    for saved in folder.glob("memory.db.words*"):
        saved.unlink()
    for saved in folder.glob("memory.db.vectors*"):
        saved.unlink()
    result["cold_open_ms_rebuilt"], _ = cold_open(path, folder, work)
    (folder / "memory.db").unlink()
    return result


def measure_peer(name: str, n: int, folder: Path, note: Callable[[str], None]) -> dict[str, Any]:
    script, packages = PEERS[name]
    home = ROOT / ".bench" / name
    python = home / "bin" / "python"
    if not python.exists():
        note(f"installing {name}")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(install, check=True, capture_output=True)
    note(f"measuring {name}")
    run = subprocess.run(
        [str(python), str(ROOT / "benchmarks" / "peers" / script), str(folder), "--adds", "20"],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        return {"peer": name, "n": n, "error": run.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return found


def write_work(n: int, folder: Path) -> None:
    work = Work(n + 20)
    (folder / "texts.json").write_text(json.dumps(work.texts), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps(work.queries), encoding="utf-8")
    np.save(folder / "vectors.npy", work.vectors)
    np.save(folder / "query_vectors.npy", work.query_vectors)


def show(ours: dict[str, Any], peers: list[dict[str, Any]]) -> None:
    n = ours["n"]
    print(f"\nagentmem {agentmem.__version__}, {n:,} chunks, {os.cpu_count()} cores")
    for name, value in ours.items():
        print(f"  {name:<34} {value:>12,}")
    if peers:
        print("\n  beside                     query ms (ours ×)      add ms (ours ×)    bulk/s")
    for peer in peers:
        if "error" in peer:
            print(f"  {peer['peer']:<22} {peer['error']}")
            continue
        query, add = peer["query_ms_p50"], peer["add_ms_p50"]
        print(
            f"  {peer['peer']:<22} {query:>12,.2f} ({query / ours['query_ms_whole_store']:>6.1f})"
            f" {add:>12,.2f} ({add / ours[f'add_ms_at_{n}']:>6.1f}) {peer['bulk_per_s']:>9,}"
        )


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    with Progress(disable=quiet, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text: bar.update(task, description=text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=20_000, help="how many chunks (at least 2,000)")
    parser.add_argument("--peers", default="", help=f"comma-separated: {','.join(PEERS)}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = [name for name in arguments.peers.split(",") if name]
    unknown = [name for name in names if name not in PEERS]
    if unknown or arguments.n < 2_000:
        parser.error(f"unknown peers {unknown}" if unknown else "--n is at least 2000")
    with (
        tempfile.TemporaryDirectory() as scratch,
        progress(arguments.json or not sys.stderr.isatty()) as note,
    ):
        ours = measure(arguments.n, Path(scratch), note)
        if names:
            write_work(arguments.n, Path(scratch))
        peers = [measure_peer(name, arguments.n, Path(scratch), note) for name in names]
    if arguments.json:
        json.dump({"agentmem": ours, "peers": peers}, sys.stdout)
        print()
    else:
        show(ours, peers)


if __name__ == "__main__":
    main()
