"""Measure both search engines beside what else could have been used.

    python benchmarks/indexes.py --n 100000 [--data DIR] [--dimensions 256]
                                 [--questions 200] [--no-baselines] [--json]

Without `--data` rows are drawn from a Zipf vocabulary that grows with the store
and vectors lie around centres. With `--data` (a folder with `corpus.jsonl` and
`queries.jsonl`) rows are pairs of half sentences of that corpus with mixed
vectors of the default embedder, and the queries are its own. Times are medians
of wall clock and, beside it, of processor time of the asking thread: on a busy
machine the second one says more.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.files import load_postings, load_vectors, save_postings, save_vectors
from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.rows import EVERYTHING, RowScope
from agentmem.search.indexes.vector import VectorIndex
from agentmem.stores.values import IndexRows
from agentmem.text.terms import K1, B

STOP = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been but by can could did do does for from had has have how i if in"
        " is it its me my not of on or our she so than that the their them they this to was we were"
        " what when where which who why will with would you your he her his him",
    )
)
OWNERS = 1000
TOP = 100


@dataclass(slots=True)
class Workload:
    """Rows, vectors and questions to ask about them."""

    batch: IndexRows
    vectors: Any
    questions: list[Any]
    question_vectors: Any


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def unit(vectors: Any) -> Any:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def to_batch(row_of: Any, word_of: Any, hashes: Any, n: int, *, first: int = 1) -> IndexRows:
    """Rows from (row, word) pairs; owners as uneven as users are."""
    chance = np.random.default_rng(3 + first)
    width = len(hashes)
    keys = np.sort(row_of * width + word_of)
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(np.append(starts, len(keys)))
    lengths = np.bincount(row_of, minlength=n)
    keys = keys[starts]
    sizes = np.bincount(keys // width, minlength=n)
    rows = np.arange(first, first + n)
    zeros = np.zeros(n, dtype=np.int64)
    return IndexRows(
        rows=rows,
        owner=np.minimum((chance.pareto(1.0, n) * 3).astype(np.int64), OWNERS - 1),
        strand=rows // 20,
        place=rows,
        previous=np.where(rows % 20 == 0, 0, rows - 1),
        speaker=rows % 3,
        kind=zeros,
        created_at=rows * 1_000_000,
        valid_from=zeros - 1,
        valid_to=zeros + (1 << 60),
        length=lengths.astype(np.int32),
        flags=zeros.astype(np.uint32),
        term_offsets=np.concatenate(([0], np.cumsum(sizes))),
        terms=hashes[keys % width],
        frequencies=counts,
    )


def synthetic(n: int, dimensions: int, questions: int) -> tuple[Workload, Workload]:
    chance = np.random.default_rng(0)
    width = 50_000 + 30 * int(np.sqrt(n))
    odds = 1 / (np.arange(1, width + 1) + 2.7)
    odds[:60] *= 0.15  # the analysis drops stop words
    odds = np.cumsum(odds / odds.sum())
    hashes = np.random.default_rng(7).integers(0, 2**63, width).astype(np.uint64)
    centres = chance.standard_normal((max(200, n // 200), dimensions)).astype(np.float32)

    def rows(count: int, first: int) -> tuple[IndexRows, Any]:
        sizes = chance.integers(12, 41, count)
        words = np.searchsorted(odds, chance.random(int(sizes.sum())))
        made = to_batch(np.repeat(np.arange(count), sizes), words, hashes, count, first=first)
        vectors = np.empty((count, dimensions), dtype=np.float32)
        for start in range(0, count, 50_000):
            part = vectors[start : start + 50_000]
            noise = chance.standard_normal(part.shape).astype(np.float32)
            part[:] = unit(centres[chance.integers(0, len(centres), len(part))] + 0.6 * noise)
        return made, vectors

    asked = [
        np.unique(hashes[np.searchsorted(odds, chance.random(int(chance.integers(4, 11))))])
        for _ in range(questions)
    ]
    noise = chance.standard_normal((questions, dimensions)).astype(np.float32)
    near = unit(centres[chance.integers(0, len(centres), questions)] + 0.6 * noise)
    return Workload(*rows(n, 1), asked, near), Workload(*rows(2000, n + 1), [], near[:0])


def from_corpus(folder: Path, n: int, questions: int) -> tuple[Workload, Workload]:
    import wordllama

    model = wordllama.WordLlama.load(
        cache_dir=Path(wordllama.__file__).parent, disable_download=True
    )
    with open(folder / "corpus.jsonl", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    with open(folder / "queries.jsonl", encoding="utf-8") as file:
        asked = [json.loads(line)["text"] for line in file][:questions]
    sentences = [s for text in texts for s in re.split(r"(?<=[.!?])\s+", text) if len(s) > 20]
    sentences = sentences[:20_000]
    say(f"embedding {len(sentences):,} sentences")
    known = unit(model.embed(sentences))
    numbers: dict[str, int] = {}

    def words(text: str) -> list[int]:
        found = [w for w in re.findall(r"\w+", text.casefold()) if w not in STOP]
        return [numbers.setdefault(w, len(numbers)) for w in found]

    split = [np.array(words(s) or [0]) for s in sentences]
    question_words = [words(q) for q in asked]
    hashes = np.random.default_rng(7).integers(0, 2**63, len(numbers)).astype(np.uint64)
    chance = np.random.default_rng(1)

    def rows(count: int, first: int) -> tuple[IndexRows, Any]:
        a, b = chance.integers(0, len(split), (2, count))
        share = chance.beta(0.5, 0.5, (count, 1)).astype(np.float32)
        held = [
            np.concatenate(
                (split[x][: 1 + int(len(split[x]) * s)], split[y][int(len(split[y]) * s) :])
            )
            for x, y, s in zip(a.tolist(), b.tolist(), share[:, 0].tolist(), strict=True)
        ]
        sizes = np.array([len(h) for h in held])
        made = to_batch(
            np.repeat(np.arange(count), sizes), np.concatenate(held), hashes, count, first=first
        )
        vectors = np.empty((count, known.shape[1]), dtype=np.float32)
        for start in range(0, count, 50_000):
            at = slice(start, start + 50_000)
            noise = chance.standard_normal((len(a[at]), known.shape[1])).astype(np.float32)
            vectors[at] = unit(
                known[a[at]] * share[at] + known[b[at]] * (1 - share[at]) + 0.02 * noise
            )
        return made, vectors

    terms = [np.unique(hashes[np.array(w, dtype=np.int64)]) for w in question_words]
    return Workload(*rows(n, 1), terms, unit(model.embed(asked))), Workload(
        *rows(2000, n + 1), [], known[:0]
    )


def timed(call: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.thread_time()
    call()
    return 1e3 * (time.perf_counter() - wall), 1e3 * (time.thread_time() - processor)


def spread(times: Sequence[tuple[float, float]]) -> dict[str, float]:
    wall = [t[0] for t in times]
    return {
        "p50_ms": round(float(np.median(wall)), 3),
        "p95_ms": round(float(np.quantile(wall, 0.95)), 3),
        "max_ms": round(max(wall), 2),
        "cpu_p50_ms": round(float(np.median([t[1] for t in times])), 3),
    }


def resident() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def scopes_of(batch: IndexRows) -> list[tuple[str, RowScope]]:
    sizes = np.bincount(batch.owner)
    n = len(batch)
    chosen = [("whole", EVERYTHING)]
    for share in (n // 4, n // 20, n // 100, 1000, 100):
        owner = int(np.argmin(np.abs(sizes - share)))
        name = f"one user, {sizes[owner]:,} rows"
        if name not in {known for known, _ in chosen}:
            chosen.append((name, RowScope(owners=frozenset({owner}))))
    chosen.append(("all but one user", RowScope(owners=frozenset(range(OWNERS)) - {7})))
    return chosen


def every_score(work: Workload, question: Any) -> Any:
    """BM25 of every row, by adding up all postings: what `top` must agree with."""
    batch = work.batch
    n = len(batch)
    held = np.flatnonzero(np.isin(batch.terms, question))
    rows = np.searchsorted(batch.term_offsets, held, side="right") - 1
    counts = np.minimum(batch.frequencies[held], 255).astype(np.float64)
    _, which = np.unique(batch.terms[held], return_inverse=True)
    frequency = np.bincount(which)[which] if len(held) else np.zeros(0)
    idf = np.log1p((n + 100 - frequency + 0.5) / (frequency + 0.5))
    norm = K1 * (1 - B + B * batch.length[rows] / batch.length.mean())
    return np.bincount(rows, idf * counts * (K1 + 1) / (counts + norm), minlength=n)


def find_words(index: PostingsIndex, question: Any, scope: RowScope = EVERYTHING) -> Any:
    return index.match(question, [1.0] * len(question), scope=scope).top(TOP)


def measure_words(work: Workload, more: Workload, folder: Path) -> tuple[dict[str, Any], Any]:
    n = len(work.batch)
    before = resident()
    index = PostingsIndex()
    start = time.perf_counter()
    for first in range(0, n, 50_000):
        index.add(work.batch.part(first, min(n, first + 50_000)))
        say(f"words: {min(n, first + 50_000):,} of {n:,} rows")
    added = time.perf_counter() - start
    index.upkeep.wait()
    report: dict[str, Any] = {
        "build_seconds": round(added, 2),
        "settled_seconds": round(time.perf_counter() - start, 2),
        "bytes_per_chunk": round((resident() - before) / n, 1),
        "search": {},
    }
    for name, scope in scopes_of(work.batch):
        say(f"words: {name}")
        report["search"][name] = spread(
            [timed(partial(find_words, index, q, scope)) for q in work.questions]
        )
    same = 0
    tried = work.questions[:20]
    for question in tried:
        truth = every_score(work, question)
        rows, scores = find_words(index, question)
        expected = np.sort(truth[truth > 0])[::-1][:TOP]
        same += int(np.allclose(scores, expected) and np.allclose(truth[rows - 1], scores))
    report["exact_answers"] = f"{same} of {len(tried)}"
    report["add_one"] = spread(
        [timed(partial(index.add, more.batch.part(i, i + 1))) for i in range(len(more.batch))]
    )
    index.upkeep.wait()
    report["search_after_adds"] = spread(
        [timed(partial(find_words, index, q)) for q in work.questions]
    )
    start = time.perf_counter()
    digest = save_postings(index, folder / "words")
    report["save_seconds"] = round(time.perf_counter() - start, 2)
    report["file_bytes_per_chunk"] = round((folder / "words").stat().st_size / n, 1)
    return report, (index, digest)


def recall(index: VectorIndex, work: Workload, scope: RowScope, among: Any) -> dict[str, float]:
    hits: dict[int, list[float]] = {10: [], TOP: []}
    rows = np.flatnonzero(among)
    vectors = work.vectors if among.all() else work.vectors[rows]
    for query in work.question_vectors[:40]:
        products = np.concatenate(
            [vectors[i : i + 8192] @ query for i in range(0, len(vectors), 8192)]
        )
        found = index.search(query, TOP, scope=scope)[0]
        for k, kept in hits.items():
            truth = rows[np.argsort(-products)[:k]] + 1
            kept.append(len(np.intersect1d(found[:k], truth)) / len(truth))
    return {f"recall_at_{k}": round(float(np.mean(kept)), 4) for k, kept in hits.items()}


def measure_vectors(
    work: Workload, more: Workload, folder: Path, words: PostingsIndex
) -> tuple[dict[str, Any], Any]:
    n, dimensions = work.vectors.shape
    embedder = EmbedderId(name="benchmark", version="1", dimensions=dimensions)
    before = resident()
    index = VectorIndex(embedder, words.table, lambda rows: (rows[:0], work.vectors[:0]))
    start = time.perf_counter()
    for first in range(0, n, 10_000):
        index.add(work.batch.rows[first : first + 10_000], work.vectors[first : first + 10_000])
    added = time.perf_counter() - start
    say("vectors: coding")
    index.upkeep.wait()
    report: dict[str, Any] = {
        "dimensions": dimensions,
        "build_seconds": round(added, 2),
        "settled_seconds": round(time.perf_counter() - start, 2),
        "bytes_per_chunk_beyond_vectors": round((resident() - before) / n - 4 * dimensions, 1),
        "search": {},
    }
    for name, scope in scopes_of(work.batch):
        say(f"vectors: {name}")
        among = np.ones(n, bool)
        if scope.owners is not None:
            among = np.isin(work.batch.owner, list(scope.owners))
        report["search"][name] = spread(
            [timed(partial(index.search, q, TOP, scope=scope)) for q in work.question_vectors]
        ) | recall(index, work, scope, among)
    report["add_one"] = spread(
        [
            timed(partial(index.add, more.batch.rows[i : i + 1], more.vectors[i : i + 1]))
            for i in range(len(more.batch))
        ]
    )
    index.upkeep.wait()
    start = time.perf_counter()
    digest = save_vectors(index, folder / "vectors")
    report["save_seconds"] = round(time.perf_counter() - start, 2)
    return report, (index, digest)


def measure_both(
    work: Workload, folder: Path, words: tuple[Any, str], vectors: tuple[Any, str]
) -> dict[str, Any]:
    report: dict[str, Any] = {}

    def ask(postings: PostingsIndex, near: VectorIndex, at: int, scope: RowScope) -> None:
        question = work.questions[at]
        match = postings.match(question, [1.0] * len(question), scope=scope)
        rows = np.union1d(
            match.top(TOP)[0], near.search(work.question_vectors[at], TOP, scope=scope)[0]
        )
        before, after = postings.table.neighbours(rows, match.selection)
        wide = np.unique(np.concatenate((rows, before, after)))
        match.counts_of(wide)
        near.cosines_of(work.question_vectors[at], wide)
        postings.table.columns_of(wide)

    count = min(len(work.questions), len(work.question_vectors))
    for name, scope in scopes_of(work.batch):
        report[name] = spread(
            [timed(partial(ask, words[0], vectors[0], i, scope)) for i in range(count)]
        )
    opened = []
    for _ in range(5):
        start = time.perf_counter()
        postings = load_postings(folder / "words", words[1])
        near = VectorIndex(
            vectors[0].embedder,
            postings.table,
            lambda rows: (
                rows[rows <= len(work.vectors)],
                work.vectors[rows[rows <= len(work.vectors)] - 1],
            ),
        )
        load_vectors(folder / "vectors", vectors[1], near)
        ask(postings, near, 0, EVERYTHING)
        opened.append(1e3 * (time.perf_counter() - start))
    report["cold open to first answer, ms"] = {
        "best": round(min(opened), 1),
        "median": round(float(np.median(opened)), 1),
    }
    return report


def look_up(database: sqlite3.Connection, query: str) -> None:
    database.execute(
        "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank LIMIT 100", (query,)
    ).fetchall()


def measure_baselines(work: Workload, more: Workload) -> dict[str, Any]:
    import faiss
    from rank_bm25 import BM25Okapi

    report: dict[str, Any] = {}
    batch, n = work.batch, len(work.batch)
    texts = [
        " ".join(f"t{term:x}" for term in batch.terms[a:b].tolist())
        for a, b in zip(batch.term_offsets[:-1], batch.term_offsets[1:], strict=True)
    ]
    say("baseline: FTS5")
    database = sqlite3.connect(":memory:")
    database.execute("CREATE VIRTUAL TABLE f USING fts5(t, content='', columnsize=1)")
    start = time.perf_counter()
    database.executemany("INSERT INTO f(rowid, t) VALUES (?, ?)", enumerate(texts, 1))
    report["fts5"] = {"build_seconds": round(time.perf_counter() - start, 2)} | spread(
        [
            timed(partial(look_up, database, " OR ".join(f"t{term:x}" for term in q.tolist())))
            for q in work.questions[:30]
            if len(q)
        ]
    )
    few = min(n, 20_000)
    say(f"baseline: rank-bm25 on {few:,} rows")
    start = time.perf_counter()
    plain = BM25Okapi([text.split() for text in texts[:few]])
    report["rank_bm25"] = {"rows": few, "build_seconds": round(time.perf_counter() - start, 2)}
    report["rank_bm25"] |= spread(
        [
            timed(partial(plain.get_scores, [f"t{term:x}" for term in q.tolist()]))
            for q in work.questions[:10]
        ]
    )
    dimensions = work.vectors.shape[1]
    names = [("flat", "Flat"), ("pq_fastscan_alone", f"PQ{dimensions // 4}x4fs")]
    if n <= 100_000:
        names.append(("hnsw32", "HNSW32"))
    for name, factory in names:
        say(f"baseline: {name}")
        index = faiss.index_factory(dimensions, factory, faiss.METRIC_INNER_PRODUCT)
        start = time.perf_counter()
        index.train(work.vectors[: 1 << 14])
        index.add(work.vectors)
        built = round(time.perf_counter() - start, 2)
        hits = []
        for query in work.question_vectors[:40]:
            truth = np.argsort(-(work.vectors @ query))[:10]
            hits.append(len(np.intersect1d(index.search(query[None], 10)[1], truth)) / 10)
        report[name] = {"build_seconds": built, "recall_at_10": round(float(np.mean(hits)), 4)}
        report[name] |= spread(
            [timed(partial(index.search, q[None], TOP)) for q in work.question_vectors]
        )
        added = [timed(partial(index.add, more.vectors[i : i + 1])) for i in range(50)]
        report[name]["add_one_p50_ms"] = spread(added)["p50_ms"]
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--dimensions", type=int, default=256)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    say(f"making {args.n:,} rows")
    if args.data is None:
        work, more = synthetic(args.n, args.dimensions, args.questions)
    else:
        work, more = from_corpus(args.data, args.n, args.questions)
    report: dict[str, Any] = {"n": args.n}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report["words"], words = measure_words(work, more, folder)
        report["vectors"], vectors = measure_vectors(work, more, folder, words[0])
        say("both")
        report["both"] = measure_both(work, folder, words, vectors)
        words[0].close()
        vectors[0].close()
    if not args.no_baselines:
        report["baselines"] = measure_baselines(work, more)
        ours = report["words"]["search"]["whole"]["cpu_p50_ms"]
        near = report["vectors"]["search"]["whole"]["cpu_p50_ms"]
        report["ratios"] = {
            name: round(entry["cpu_p50_ms"] / (ours if name in {"fts5", "rank_bm25"} else near), 1)
            for name, entry in report["baselines"].items()
        }
    if args.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


def show(report: dict[str, Any], path: str = "") -> None:
    for name, value in report.items():
        if isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()):
            show(value, f"{path}{name} / ")
        elif isinstance(value, dict):
            print(f"{path + name:52s} " + "  ".join(f"{k} {v}" for k, v in value.items()))
        else:
            print(f"{path + name:52s} {value}")


if __name__ == "__main__":
    main()
