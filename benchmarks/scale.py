"""Speed and size of a memory with N chunks, through the public API, beside other systems.

    python benchmarks/scale.py --n 100000 [--text FILE] [--embedder wordllama] [--embedded 2000]
        [--peers fts5,chroma,lancedb,mem0] [--no-rebuild] [--json]
    python benchmarks/scale.py --store postgres --n 100000 [--shared 100000]   # scale_postgres.py

Texts are runs of words from real text (the documentation of this package and of Python, or FILE),
every third word drawn from anywhere in it; questions likewise. Vectors are made beforehand: what is
measured is the memory. The questions and the first `--embedded` texts are embedded with the default
embedder (or the one named) and kept under `.bench/`; every further vector is mixed of two of those
so that mean and covariance stay theirs (`mixed`). So the words and the vector of such a chunk have
nothing to do with each other, and the two legs of a search agree on fewer rows than they would. One
user owns 1,000 chunks that came scattered among all others. Peers are installed into environments
of their own under `.bench/`, load the same work, and are asked in turn with this process, one
question or one add each; one that cannot be installed or fails is reported and the others go on.
Times are of single calls on this machine: p50, `_p95`, and `_cpu`, the p50 of the process's CPU
time, which a busy machine changes less. Single adds are timed beside bare ones, which are described
at `bare_adds`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import pydoc_data.topics
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

import agentmem
from agentmem.base.protocols import EmbedderId
from agentmem.search.embedders.base import load_embedder
from agentmem.search.local import LocalSearch
from agentmem.text.terms import STOP_WORDS

ROOT = Path(__file__).resolve().parents[1]
PEERS = {
    "fts5": ("fts5.py", ("numpy",)),
    "chroma": ("chroma.py", ("chromadb",)),
    "lancedb": ("lance.py", ("lancedb",)),
    "mem0": ("mem0_faiss.py", ("mem0ai", "faiss-cpu")),
}
ONE_USER = 1_000
BATCH = 1_000
ADDS = 60
PEER_ADDS = 20
"""Fewer for peers: some write their whole file for each."""
QUERIES = 200
EXACT = 100
"""So many questions are also answered by looking at every vector."""
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

    def __init__(
        self, n: int, words: NDArray[Any], *, embedder: str, embedded: int, seed: int = 7
    ) -> None:
        random = np.random.default_rng(seed)
        self.queries = [make_text(random, words, 8) for _ in range(QUERIES)]
        self.texts = [make_text(random, words, int(random.integers(12, 41))) for _ in range(n)]
        real = min(n, embedded)
        made = embed([*self.queries, *self.texts[:real]], embedder)
        self.query_vectors = made[:QUERIES]
        self.vectors = mixed(random, made[QUERIES:], n)

    @property
    def text_bytes(self) -> int:
        return sum(len(text.encode()) for text in self.texts)


def embed(texts: Sequence[str], embedder: str) -> NDArray[np.float32]:
    """The vectors of `texts`, made once: the same texts are found under `.bench/` again."""
    model = load_embedder(embedder)
    assert model is not None
    digest = hashlib.blake2b(f"{model.id}\n".encode(), digest_size=8)
    for text in texts:
        digest.update(f"{text}\n".encode())
    kept = ROOT / ".bench" / f"vectors-{digest.hexdigest()}.npy"
    if not kept.exists():
        parts = [model.embed_documents(texts[at : at + 100]) for at in range(0, len(texts), 100)]
        kept.parent.mkdir(exist_ok=True)
        np.save(kept, np.concatenate(parts))
    vectors: NDArray[np.float32] = np.load(kept)
    return vectors


def mixed(random: np.random.Generator, real: NDArray[np.float32], n: int) -> NDArray[np.float32]:
    """`n` unit vectors: the real ones first, then 0.8 of one and 0.6 of another around the mean."""
    vectors = np.empty((n, real.shape[1]), dtype=np.float32)
    vectors[: len(real)] = real
    mean = real.mean(axis=0)
    spread = real - mean
    for start in range(len(real), n, BATCH):
        part = vectors[start : start + BATCH]
        one, other = random.integers(0, len(real), (2, len(part)))
        part[:] = mean + np.float32(0.8) * spread[one] + np.float32(0.6) * spread[other]
        part /= np.linalg.norm(part, axis=1, keepdims=True)
    return vectors


def real_words(path: Path | None) -> NDArray[Any]:
    """The words of `path`, or of what comes with this package and with Python, in their order."""
    if path is not None:
        texts = [path.read_text("utf-8")]
    else:
        pages = [*sorted(ROOT.glob("*.md")), ROOT / "LICENSE", *sorted(ROOT.glob("docs/**/*.md"))]
        texts = [page.read_text("utf-8") for page in pages]
        texts += pydoc_data.topics.topics.values()
        for module in sorted(Path(ast.__file__).parent.glob("*.py")):
            texts += docstrings(module.read_bytes())
    found = re.findall(r"[^\W\d_](?:[\w'.-]*\w)?|\d+", " ".join(texts))
    return np.array(found, dtype=object)


def docstrings(source: bytes) -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return [text for node in nodes if (text := ast.get_docstring(node))]


def make_text(random: np.random.Generator, words: NDArray[Any], size: int) -> str:
    """A run of words from some place, a third of them replaced by words from other places."""
    start = int(random.integers(0, len(words) - size))
    run = words[start : start + size].copy()
    other = np.flatnonzero(random.random(size) < 1 / 3)
    run[other] = words[random.integers(0, len(words), len(other))]
    return " ".join(run)


def open_memory(path: Path, vectors: NDArray[np.float32]) -> agentmem.MemoryManager:
    return agentmem.open(path, embedder=Given(vectors), durability="full")


Spent = tuple[float, float]
"""Milliseconds of a call: on the clock, and of CPU."""


@dataclass(frozen=True)
class Timed:
    """Milliseconds of many calls."""

    p50: float
    p95: float
    cpu: float

    @classmethod
    def of(cls, spent: Sequence[Spent]) -> Timed:
        wall, cpu = [w for w, _ in spent], [c for _, c in spent]
        return cls(
            p50=round(statistics.median(wall), 3),
            p95=round(sorted(wall)[int(0.95 * len(wall))], 3),
            cpu=round(statistics.median(cpu), 3),
        )


def timed(call: Callable[[], object]) -> Callable[[], Spent]:
    """`call`, giving what it took."""

    def run() -> Spent:
        start, used = time.perf_counter(), time.process_time()
        call()
        cpu = time.process_time() - used
        return 1000 * (time.perf_counter() - start), 1000 * cpu

    return run


def in_turn(calls: Mapping[str, Sequence[Callable[[], Spent]]]) -> dict[str, Timed]:
    """One call of each after the other, again and again: what slows one slows all of them.

    Who has fewer calls is left out of the later turns.
    """
    spent: dict[str, list[Spent]] = {name: [] for name in calls}
    for turn in zip_longest(*calls.values()):
        for name, call in zip(calls, turn, strict=True):
            if call is not None:
                spent[name].append(call())
    return {name: Timed.of(measured) for name, measured in spent.items()}


def fill(
    memory: agentmem.MemoryManager,
    work: Work,
    n: int,
    *,
    one_user: int = 0,
    note: Note = lambda _, __=0.0: None,
) -> tuple[float, float]:
    """Add n chunks in batches, `one_user` of them spread over all as those of one user; gives
    chunks a second, on the clock and of CPU."""
    began, used = time.perf_counter(), time.process_time()
    for first in range(0, n, BATCH):
        last = min(first + BATCH, n)
        middle = first + one_user * (last - first) // n
        for user, start, end in (("one", first, middle), ("everyone", middle, last)):
            if start < end:
                memory.sources.add_document(
                    work.texts[start:end],
                    url=f"bench:{user}:{start}",
                    vectors=work.vectors[start:end],
                    user_id=user,
                )
        note(f"adding {n:,}", last / n)
    return n / (time.perf_counter() - began), n / (time.process_time() - used)


def asks(memory: agentmem.MemoryManager, work: Work, user: str) -> list[Callable[[], Spent]]:
    """One question each; a few are asked beforehand."""

    def ask(query: str) -> Callable[[], object]:
        return lambda: memory.search(query, top_k=10, threshold=0.0, user_id=user)

    for query in work.queries[:5]:
        ask(query)()
    return [timed(ask(query)) for query in work.queries]


def recall(memory: agentmem.MemoryManager, work: Work, n: int, *, k: int) -> float:
    """How many of the `k` nearest by exact search in single precision the vector leg finds."""
    embedder = memory.embedding.serving_id
    assert embedder is not None
    assert isinstance(memory.index, LocalSearch)
    index = memory.index.vectors(embedder)
    found = 0
    for query in work.query_vectors[:EXACT]:
        exact = np.concatenate(
            [work.vectors[at : min(n, at + 65_536)] @ query for at in range(0, n, 65_536)]
        )
        rows, _ = index.search(query, k)
        # What is as near as the last of them is as good: texts can be alike.
        least = np.partition(exact, n - k)[n - k] - 1e-4
        found += int(np.count_nonzero(exact[rows - 1] >= least))
    return round(found / (k * EXACT), 4)


def add_call(
    memory: agentmem.MemoryManager, work: Work, number: int, *, name: str
) -> Callable[[], object]:
    text, vector = work.texts[number], work.vectors[number : number + 1]
    return lambda: memory.sources.add_document(
        [text], url=f"one:{name}:{number}", vectors=vector, user_id="adder"
    )


def add_calls(
    memory: agentmem.MemoryManager, work: Work, *, name: str
) -> list[Callable[[], Spent]]:
    """One add each; a few are made beforehand."""
    for number in range(ADDS, ADDS + 5):
        add_call(memory, work, number, name=name)()
    return [timed(add_call(memory, work, number, name=name)) for number in range(ADDS)]


ROWS_OF_ONE = ("strands", "memories", "indexed", "embeddings", "sources")
"""The tables that one added chunk is one row of; besides, the ledger's one row is rewritten."""


def bare_adds(path: Path, *, indexes: bool) -> list[Callable[[], Spent]]:
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

    return [timed(partial(add, rows)) for rows in written]


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
import json, sys, time
import numpy as np
sys.path.insert(0, {benchmarks!r})
import agentmem, faiss, Stemmer, agentmem.memory.manager, agentmem.search.local
from scale import Given, open_memory
from pathlib import Path
def held(name):
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith(name + ":"))
vectors = np.load({queries!r})
before = held("Rss"), held("Anonymous")
start = time.perf_counter()
memory = open_memory(Path({path!r}), vectors)
found = memory.search({query!r}, top_k=10, threshold=0.0, user_id="everyone")
spent = time.perf_counter() - start
later = []
for query in {queries_text!r}:
    again = time.perf_counter()
    memory.search(query, top_k=10, threshold=0.0, user_id="everyone")
    later.append(time.perf_counter() - again)
resident, own = held("Rss") - before[0], held("Anonymous") - before[1]
print(json.dumps([1000 * spent, 1000 * sorted(later)[len(later) // 2], resident, own, len(found)]))
memory.close()
"""


def cold_open(path: Path, folder: Path, work: Work) -> tuple[float, float, int, int]:
    """Milliseconds from opening to the first answer in a new process and of the next ones (p50),
    the memory it then holds, and how much of that no other process can share."""
    np.save(folder / "cold.npy", work.query_vectors)
    script = COLD.format(
        benchmarks=str(ROOT / "benchmarks"),
        queries=str(folder / "cold.npy"),
        path=str(path),
        query=work.queries[0],
        queries_text=work.queries[1:21],
    )
    output = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    spent, later, resident, own, found = json.loads(output)
    assert found, "the first search found nothing"
    return round(spent, 1), round(later, 3), int(resident), int(own)


def put_timed(result: dict[str, Any], name: str, spent: Timed) -> None:
    result |= {name: spent.p50, f"{name}_p95": spent.p95, f"{name}_cpu": spent.cpu}


def measure(
    work: Work,
    n: int,
    folder: Path,
    peers: Mapping[str, PeerProcess],
    note: Note,
    *,
    rebuild: bool = True,
) -> dict[str, Any]:
    """Our figures; those of the peers, which have loaded their work, are put into them."""
    path = folder / "memory.db"
    one_user = min(ONE_USER, n // 20)
    result: dict[str, Any] = {"n": n, "one_user": one_user}
    memory = open_memory(path, work.query_vectors)
    rate, rate_cpu = fill(memory, work, n, one_user=one_user, note=note)
    result |= {"bulk_per_s": round(rate), "bulk_per_s_cpu": round(rate_cpu)}
    note("building the indexes")
    start = time.perf_counter()
    assert isinstance(memory.index, LocalSearch)
    memory.index.intake.wait()
    result["indexed_after_ms"] = round(1000 * (time.perf_counter() - start), 1)
    first = timed(lambda: memory.search(work.queries[0], threshold=0.0, user_id="everyone"))
    result["first_question_ms"] = round(first()[0], 3)
    memory.upkeep.sync()  # joins and trains in the background are over when it returns
    note("asking")
    questions = {
        "query_ms_whole_store": asks(memory, work, "everyone"),
        "query_ms_one_user": asks(memory, work, "one"),
    }
    questions |= {name: peer.calls("ask", range(QUERIES)) for name, peer in peers.items()}
    asked = in_turn(questions)
    for name in ("query_ms_whole_store", "query_ms_one_user"):
        put_timed(result, name, asked[name])
    for k in (10, 50):
        result[f"vector_recall_at_{k}"] = recall(memory, work, n, k=k)
    note("adding one by one")
    ours = f"add_ms_at_{n}"
    small_memory = open_memory(folder / "small.db", work.query_vectors)
    fill(small_memory, work, 1_000)
    small_memory.search("settle", user_id="everyone")
    for call in add_calls(memory, work, name="newest"):  # what the bare ones copy
        call()
    adds: dict[str, Sequence[Callable[[], Spent]]] = {}
    for name, indexes in (("bare_sqlite_add_ms", True), ("bare_rows_only_add_ms", False)):
        memory.store.upkeep.backup(folder / f"bare-{indexes}.db")
        adds[name] = bare_adds(folder / f"bare-{indexes}.db", indexes=indexes)
    adds[ours] = add_calls(memory, work, name="large")
    adds["add_ms_at_1000"] = add_calls(small_memory, work, name="small")
    own = list(adds)
    adds |= {name: peer.calls("add", range(n, n + PEER_ADDS)) for name, peer in peers.items()}
    added = in_turn(adds)
    for name in own:
        put_timed(result, name, added[name])
    for name, peer in peers.items():
        put_timed(peer.figures, "query_ms", asked[name])
        put_timed(peer.figures, "add_ms", added[name])
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
    memory.upkeep.sync()
    for call in add_calls(memory, work, name="last"):  # so that there is something to finish
        call()
    result["close_ms"] = round(timed(memory.close)()[0], 1)
    rows = n + 3 * ADDS + 15
    taken = sum(file.stat().st_size for file in folder.glob("memory.db*"))
    result["bytes_per_chunk"] = round(taken / rows)
    result["bytes_over_text"] = round(taken / work.text_bytes, 2)
    opened, later, resident, private = cold_open(path, folder, work)
    result |= {"cold_open_ms_saved": opened, "query_ms_after_open": later}
    result["resident_bytes_per_chunk"] = round(resident / rows)
    result["unshared_bytes_per_chunk"] = round(private / rows)
    if rebuild:
        for pattern in ("memory.db.words*", "memory.db.vectors*"):
            for saved in folder.glob(pattern):
                saved.unlink()
        result["cold_open_ms_rebuilt"], *_ = cold_open(path, folder, work)
    path.unlink()
    return result


class PeerFailed(Exception):
    """A peer could not be installed, started, or asked."""


class PeerProcess:
    """A peer in a process of its own that has loaded the work and is asked line by line."""

    def __init__(self, name: str, python: Path, folder: Path) -> None:
        script = ROOT / "benchmarks" / "peers" / PEERS[name][0]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(python), str(script), str(folder), "--adds", str(PEER_ADDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._watch = threading.Timer(PEER_SECONDS, self._process.kill)
        self._watch.start()
        self.figures: dict[str, Any] = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("{"):  # some print of themselves
                return json.loads(line)
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines()
        raise PeerFailed(lines[-1] if lines else "it ended, or took too long")

    def calls(self, kind: str, numbers: range) -> list[Callable[[], Spent]]:
        return [partial(self._call, kind, number) for number in numbers]

    def _call(self, kind: str, number: int) -> Spent:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({kind: number}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return answer["wall"], answer["cpu"]

    def close(self) -> None:
        self._watch.cancel()
        self._process.kill()
        self._process.wait()
        self._errors.close()


def start_peer(name: str, folder: Path, note: Note) -> PeerProcess:
    try:
        python = peer_python(name, note)
        note(f"loading {name}")
        return PeerProcess(name, python, folder)
    except subprocess.CalledProcessError as error:
        lines = (error.stderr or error.stdout or str(error)).strip().splitlines()
        raise PeerFailed(lines[-1] if lines else f"exit code {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise PeerFailed(f"not done after {error.timeout:,.0f} s") from error
    except (OSError, ValueError) as error:
        raise PeerFailed(str(error) or type(error).__name__) from error


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


def run(command: Sequence[str], seconds: float) -> str:
    """What the command printed; it raises when it fails or takes longer."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=seconds)
    return done.stdout


def write_work(work: Work, folder: Path) -> None:
    (folder / "texts.json").write_text(json.dumps(work.texts), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps(work.queries), encoding="utf-8")
    (folder / "stop_words.json").write_text(json.dumps(sorted(STOP_WORDS)), encoding="utf-8")
    np.save(folder / "vectors.npy", work.vectors)
    np.save(folder / "query_vectors.npy", work.query_vectors)


def show(ours: dict[str, Any], peers: list[dict[str, Any]]) -> None:
    n = ours["n"]
    print(f"\nagentmem {agentmem.__version__}, {n:,} chunks, {os.cpu_count()} cores")
    for name, value in ours.items():
        print(f"  {name:<34} {value:>12,}")
    if peers:
        print("\n  beside                  query ms p50   p95   cpu    add ms p50   cpu    bulk/s")
        own = {"query_ms": "query_ms_whole_store", "add_ms": f"add_ms_at_{n}"}
        mine = {
            f"{k}{end}": ours[f"{v}{end}"] for k, v in own.items() for end in ("", "_p95", "_cpu")
        }
        peers = [{"peer": "agentmem (hybrid)", "bulk_per_s": ours["bulk_per_s"], **mine}, *peers]
    for peer in peers:
        if "error" in peer:
            print(f"  {peer['peer']:<22} {peer['error']}")
            continue
        print(
            f"  {peer['peer']:<22} {peer['query_ms']:>12,.2f} {peer['query_ms_p95']:>6,.1f}"
            f" {peer['query_ms_cpu']:>5,.1f} {peer['add_ms']:>12,.2f} {peer['add_ms_cpu']:>6,.2f}"
            f" {peer['bulk_per_s']:>9,}"
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
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--n", type=int, default=20_000, help="how many chunks (at least 2,000)")
    parser.add_argument("--text", type=Path, help="draw words from this file")
    parser.add_argument("--embedder", default="minilm", help="minilm or wordllama")
    parser.add_argument("--embedded", type=int, default=2_000, help="vectors made of their texts")
    parser.add_argument(
        "--no-rebuild", action="store_true", help="do not open without index files (long for many)"
    )
    parser.add_argument("--peers", default="", help=f"comma-separated: {','.join(PEERS)}")
    parser.add_argument("--json", action="store_true")
    arguments, rest = parser.parse_known_args()
    if arguments.store == "postgres":
        import scale_postgres

        scale_postgres.main(["--n", str(arguments.n), *rest])
        return
    if rest:
        parser.error(f"unknown arguments {rest}")
    names = [name.strip() for name in arguments.peers.split(",") if name.strip()]
    unknown = [name for name in names if name not in PEERS]
    if unknown or arguments.n < 2_000:
        parser.error(f"unknown peers {unknown}" if unknown else "--n is at least 2000")
    peers: dict[str, PeerProcess] = {}
    failed: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        progress(arguments.json or not sys.stderr.isatty()) as note,
    ):
        folder = Path(scratch)
        note("making texts and vectors")
        words = real_words(arguments.text)
        work = Work(
            arguments.n + PEER_ADDS,
            words,
            embedder=arguments.embedder,
            embedded=arguments.embedded,
        )
        try:
            if names:
                write_work(work, folder)
            for name in names:
                try:
                    peers[name] = start_peer(name, folder, note)
                except PeerFailed as error:
                    failed.append({"peer": name, "error": str(error)})
            rebuild = not arguments.no_rebuild
            ours = measure(work, arguments.n, folder, peers, note, rebuild=rebuild)
        finally:
            for peer in peers.values():
                peer.close()
    beside = [*(peer.figures for peer in peers.values()), *failed]
    if arguments.json:
        json.dump({"agentmem": ours, "peers": beside}, sys.stdout)
        print()
    else:
        show(ours, beside)


if __name__ == "__main__":
    main()
