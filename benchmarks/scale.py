"""Speed and size of a memory with N chunks, through the public API, beside other systems.

    python benchmarks/scale.py --n 100000 [--peers fts5,chroma,lancedb,mem0] [--json]

Texts follow a Zipf law over a growing vocabulary; vectors lie in clusters, as those of real texts
do. Peers are installed into environments of their own under `.bench/` and do the same work in the
same run; one that cannot be installed or fails is reported and the others go on. Times are medians
of single calls on this machine; figures ending in `_cpu` count this process's own CPU time, which
a busy machine changes less. Single adds are timed in turn: to N chunks, to 1,000, and bare, which
is described at `bare_adds`.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

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
PEER_ADDS = 20
"""Fewer for peers: some write their whole file for each."""
QUERIES = 200
INSTALL_SECONDS = 900
PEER_SECONDS = 3_600


class Note(Protocol):
    """Takes what is being done, and how much of it is done where that is known."""

    def __call__(self, text: str, done: float = 0.0, /) -> None: ...


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
    vectors = np.empty((n, centres.shape[1]), dtype=np.float32)
    for start in range(0, n, 10_000):  # a million at once would take several gigabytes more
        part = vectors[start : start + 10_000]
        random.standard_normal(dtype=np.float32, out=part)
        part *= np.float32(0.7)
        part += centres[random.integers(0, len(centres), len(part))]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def open_memory(path: Path, vectors: NDArray[np.float32]) -> agentmem.MemoryManager:
    return agentmem.open(path, embedder=Given(vectors), durability="full")


Timed = tuple[float, float]
"""Median milliseconds of a call: on the clock, and of CPU."""


def timed(calls: Sequence[Callable[[], object]]) -> Timed:
    return timed_in_turn({"": calls})[""]


def timed_in_turn(calls: Mapping[str, Sequence[Callable[[], object]]]) -> dict[str, Timed]:
    """One call of each after the other, again and again: what slows one slows all of them."""
    wall: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    for turn in zip(*calls.values(), strict=True):
        for name, call in zip(calls, turn, strict=True):
            start, used = time.perf_counter(), time.process_time()
            call()
            cpu[name].append(1000 * (time.process_time() - used))
            wall[name].append(1000 * (time.perf_counter() - start))
    return {
        name: (round(statistics.median(wall[name]), 3), round(statistics.median(cpu[name]), 3))
        for name in calls
    }


def fill(
    memory: agentmem.MemoryManager,
    work: Work,
    n: int,
    *,
    user: str,
    start: int = 0,
    note: Note = lambda _, __=0.0: None,
) -> tuple[float, float]:
    """Add n chunks in batches; gives chunks a second, on the clock and of CPU."""
    began, used = time.perf_counter(), time.process_time()
    for first in range(start, start + n, BATCH):
        last = min(first + BATCH, start + n)
        memory.add_chunks(
            work.texts[first:last],
            url=f"bench:{user}:{first}",
            vectors=work.vectors[first:last],
            user_id=user,
        )
        note(f"adding {n:,}", (last - start) / n)
    return n / (time.perf_counter() - began), n / (time.process_time() - used)


def query_times(memory: agentmem.MemoryManager, work: Work, user: str) -> Timed:
    def ask(query: str) -> Callable[[], object]:
        return lambda: memory.search(query, top_k=10, threshold=0.0, user_id=user)

    for query in work.queries[:5]:
        ask(query)()
    return timed([ask(query) for query in work.queries])


def add_call(
    memory: agentmem.MemoryManager, work: Work, number: int, *, name: str
) -> Callable[[], object]:
    text, vector = work.texts[number], work.vectors[number : number + 1]
    return lambda: memory.add_chunks(
        [text], url=f"one:{name}:{number}", vectors=vector, user_id="adder"
    )


def add_calls(
    memory: agentmem.MemoryManager, work: Work, *, name: str
) -> list[Callable[[], object]]:
    """One add each; a few are made beforehand."""
    for number in range(ADDS, ADDS + 5):
        add_call(memory, work, number, name=name)()
    return [add_call(memory, work, number, name=name) for number in range(ADDS)]


ROWS_OF_ONE = ("strands", "memories", "indexed", "embeddings", "sources")
"""The tables that one added chunk is one row of; besides, the ledger's one row is rewritten."""


def bare_adds(path: Path, *, indexes: bool) -> list[Callable[[], object]]:
    """What plain `sqlite3` has to do for the transaction that one added chunk is, for each add.

    `path` is a copy of the store with all its rows. The rows written are copies
    of the newest ones under new keys, ids and urls: the same tables, columns
    and bytes (text, hash, terms, frequencies, vector, source, checksums, and the
    ledger's line), in one transaction that is as durable. Nothing is computed,
    looked up or checked. Without `indexes`, what finds a row by anything but its
    number is dropped first: rows alone.
    """
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL").fetchall()
    for setting in ("synchronous = FULL", "secure_delete = ON", "cache_size = -8000"):
        base.execute(f"PRAGMA {setting}").fetchall()
    if not indexes:
        made = base.execute("SELECT name FROM sqlite_master WHERE type = 'index' AND sql NOT NULL")
        for (name,) in made.fetchall():
            base.execute(f"DROP INDEX {name}")
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    (ledger,) = base.execute("SELECT data FROM ledger").fetchone()
    newest = {t: newest_rows(base, t) for t in ROWS_OF_ONE}
    statements = {
        table: f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})"
        for table, rows in newest.items()
    }
    written = [
        [(statements[table], renewed(table, newest[table][number], number)) for table in newest]
        for number in range(ADDS)
    ]

    def add(rows: list[tuple[str, tuple[Any, ...]]]) -> None:
        base.execute("BEGIN IMMEDIATE")
        for statement, values in rows:
            base.execute(statement, values)
        base.execute("UPDATE ledger SET data = ? WHERE one = 1", (ledger,))
        base.execute("COMMIT")

    return [partial(add, rows) for rows in written]


def newest_rows(base: sqlite3.Connection, table: str) -> list[tuple[Any, ...]]:
    found = base.execute(f"SELECT * FROM {table} ORDER BY 1 DESC LIMIT {ADDS}")
    return found.fetchall()[::-1]


def renewed(table: str, row: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """The row as another one of the same size would be: a new key, and a new id or url."""
    key, *rest = row
    if table == "memories":
        rest[0] = f"{number:08x}{rest[0][8:]}"
    elif table in ("strands", "sources"):
        rest[1] = f"{rest[1][:-4]}{9000 + number}"
    return (key + ADDS, *rest)


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


def put_timed(result: dict[str, Any], name: str, spent: Timed) -> None:
    result[name], result[f"{name}_cpu"] = spent


def measure(n: int, folder: Path, note: Note) -> dict[str, Any]:
    note("making texts and vectors")
    small = max(100, n // 100)
    work = Work(n + small)
    path = folder / "memory.db"
    result: dict[str, Any] = {"n": n}
    memory = open_memory(path, work.query_vectors)
    fill(memory, work, 1_000, user="everyone")
    rate, rate_cpu = fill(memory, work, n - 1_000, user="everyone", start=1_000, note=note)
    result |= {"bulk_per_s": round(rate), "bulk_per_s_cpu": round(rate_cpu)}
    fill(memory, work, small, user="small", start=n)
    note("building the indexes")
    memory.search("settle", user_id="everyone")
    memory.sync()  # joins and trains in the background are over when it returns
    note("asking")
    put_timed(result, "query_ms_whole_store", query_times(memory, work, "everyone"))
    put_timed(result, "query_ms_one_user", query_times(memory, work, "small"))
    note("adding one by one")
    ours = f"add_ms_at_{n}"
    small_memory = open_memory(folder / "small.db", work.query_vectors)
    fill(small_memory, work, 1_000, user="everyone")
    small_memory.search("settle", user_id="everyone")
    for call in add_calls(memory, work, name="newest"):  # what the bare ones copy
        call()
    adds: dict[str, Sequence[Callable[[], object]]] = {}
    for name, indexes in (("bare_sqlite_add_ms", True), ("bare_rows_only_add_ms", False)):
        memory.store.upkeep.backup(folder / f"bare-{indexes}.db")
        adds[name] = bare_adds(folder / f"bare-{indexes}.db", indexes=indexes)
    adds[ours] = add_calls(memory, work, name="large")
    adds["add_ms_at_1000"] = add_calls(small_memory, work, name="small")
    for name, spent in timed_in_turn(adds).items():
        put_timed(result, name, spent)
    small_memory.close()
    del adds  # their files with them
    for left in folder.glob("bare-*.db*"):
        left.unlink()
    for clock in ("", "_cpu"):
        spent_ms = result[ours + clock]
        result[f"add_over_bare{clock}"] = round(spent_ms / result[f"bare_sqlite_add_ms{clock}"], 2)
        result[f"add_over_bare_rows_only{clock}"] = round(
            spent_ms / result[f"bare_rows_only_add_ms{clock}"], 2
        )
    result["add_over_1000"] = round(result[ours] / result["add_ms_at_1000"], 2)
    note("saving and opening again")
    memory.close()
    result["cold_open_ms_saved"], taken = cold_open(path, folder, work)
    rows = n + small + 2 * (ADDS + 5)
    result["bytes_per_chunk_beyond_vectors"] = round(taken / rows - 4 * DIMENSIONS)
    for pattern in ("memory.db.words*", "memory.db.vectors*"):
        for saved in folder.glob(pattern):
            saved.unlink()
    result["cold_open_ms_rebuilt"], _ = cold_open(path, folder, work)
    path.unlink()
    return result


def measure_peer(name: str, n: int, folder: Path, note: Note, *, adds: int) -> dict[str, Any]:
    """A peer's figures, or why there are none."""
    try:
        python = peer_python(name, note)
        note(f"measuring {name}")
        return run_peer(name, python, folder, adds=adds)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or str(error)).strip().splitlines()
        problem = lines[-1] if lines else f"exit code {error.returncode}"
    except subprocess.TimeoutExpired as error:
        problem = f"not done after {error.timeout:,.0f} s"
    except (OSError, ValueError, IndexError) as error:
        problem = str(error) or type(error).__name__
    return {"peer": name, "n": n, "error": problem}


def peer_python(name: str, note: Note) -> Path:
    """The Python of the peer's own environment, made and filled when it is not there."""
    home = ROOT / ".bench" / name
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():  # a half-made one is made anew
        note(f"installing {name}")
        run([sys.executable, "-m", "venv", "--clear", str(home)], INSTALL_SECONDS)
        run([str(python), "-m", "pip", "install", "--quiet", *PEERS[name][1]], INSTALL_SECONDS)
        ready.touch()
    return python


def run_peer(name: str, python: Path, folder: Path, *, adds: int) -> dict[str, Any]:
    script = ROOT / "benchmarks" / "peers" / PEERS[name][0]
    command = [str(python), str(script), str(folder), "--adds", str(adds)]
    found: dict[str, Any] = json.loads(run(command, PEER_SECONDS).strip().splitlines()[-1])
    return found


def run(command: Sequence[str], seconds: float) -> str:
    """What the command printed; it raises when it fails or takes longer."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    return done.stdout


def write_work(n: int, folder: Path) -> None:
    work = Work(n + PEER_ADDS)
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
def progress(quiet: bool) -> Iterator[Note]:
    with Progress(disable=quiet, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def note(text: str, done: float = 0.0) -> None:
            bar.update(task, description=text, completed=done, total=1.0 if done else None)

        yield note


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--n", type=int, default=20_000, help="how many chunks (at least 2,000)")
    parser.add_argument("--peers", default="", help=f"comma-separated: {','.join(PEERS)}")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = [name.strip() for name in arguments.peers.split(",") if name.strip()]
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
        peers = [
            measure_peer(name, arguments.n, Path(scratch), note, adds=PEER_ADDS) for name in names
        ]
    if arguments.json:
        json.dump({"agentmem": ours, "peers": peers}, sys.stdout)
        print()
    else:
        show(ours, peers)


if __name__ == "__main__":
    main()
