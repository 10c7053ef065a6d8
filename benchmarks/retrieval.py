"""How well memories are found: recall@5, recall@10, MRR and nDCG@10 through the public API.

    python benchmarks/retrieval.py --data DIR [--embedder pair|minilm|none] [--json]

DIR holds `corpus.jsonl` (`_id`, `text`; for conversations also `group`, `speaker`, `session`,
`pos`, `date`, `caption`), `queries.jsonl` (`_id`, `text`, `group`, `category`) and `qrels.tsv`
(query, document). A line with a speaker is added as a message of that group's user, any other as a
document. A query looks only into its own group. `--unrelated OTHER` also asks the questions of
another folder, which this memory cannot answer, and counts how often it rightly finds nothing.
"""

from __future__ import annotations

import argparse
import collections
import json
import math
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import track

import agentmem

DEPTH = 10
THRESHOLD = 0.3
_DATE_FORMS = ("%I:%M %p on %d %B, %Y", "%d %B, %Y", "%Y-%m-%d", "%Y-%m-%dT%H:%M:%S")

Line = dict[str, Any]
Memory = agentmem.MemoryManager


def read_lines(path: Path) -> list[Line]:
    with path.open(encoding="utf-8") as file:
        return [plain(json.loads(line)) for line in file if line.strip()]


def plain(line: Line) -> Line:
    """A line with ids and groups as texts, however they were written."""
    group, category = line.get("group"), line.get("category")
    return {
        **line,
        "_id": str(line["_id"]),
        "text": line.get("text") or "",
        "title": line.get("title") or "",
        "group": "everybody" if group in (None, "") else str(group),
        "category": int(str(category)) if str(category).isdecimal() else category,
    }


def read_gold(path: Path) -> dict[str, set[str]]:
    gold: dict[str, set[str]] = collections.defaultdict(set)
    for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
        query, document, *grade = line.split("\t")
        if grade != ["0"]:
            gold[query].add(document)
    return gold


def read_date(written: str) -> str | None:
    """A date in one of the forms people write, as ISO 8601; None for anything else."""
    for form in _DATE_FORMS:
        try:
            return datetime.strptime(written.strip(), form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    return None


def load(memory: Memory, corpus: list[Line], *, quiet: bool) -> None:
    """Put the corpus in: conversations session by session, documents one by one."""
    sessions: dict[tuple[str, str], list[Line]] = collections.defaultdict(list)
    for line in corpus:
        if line.get("speaker"):
            sessions[line["group"], str(line.get("session", ""))].append(line)
    for (group, session), lines in track(sessions.items(), "conversations", disable=quiet):
        memory.add([message(line) for line in lines], session=session, user_id=group)
    documents = [line for line in corpus if not line.get("speaker") and line["text"].strip()]
    for line in track(documents, "documents", disable=quiet or not documents):
        memory.sources.add_document(
            line["text"],
            url=f"doc:{line['_id']}",
            title=line["title"],
            metadata={"document": line["_id"]},
            user_id=line["group"],
        )


def message(line: Line) -> Line:
    metadata = {"document": line["_id"]}
    if line.get("caption"):
        metadata["caption"] = line["caption"]
    date = read_date(str(line.get("date", "")))
    return {
        "role": "user",
        "name": line["speaker"],
        "content": line["text"],
        "position": line.get("pos"),
        "metadata": metadata,
        **({"created_at": date} if date else {}),
    }


def ask(memory: Memory, query: Line, *, threshold: float, mode: Any) -> list[tuple[str, float]]:
    """The documents found and their best scores; several chunks of one count once."""
    hits = memory.search(
        query["text"],
        top_k=3 * DEPTH,
        threshold=threshold,
        mode=mode,
        user_id=query["group"],
    )
    found: dict[str, float] = {}
    for hit in hits:
        found.setdefault(hit.memory.metadata["document"], hit.score)
    return list(found.items())[:DEPTH]


def score(found: list[str], wanted: set[str]) -> dict[str, float]:
    hits = [document in wanted for document in found]
    gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
    ideal = sum(1 / math.log2(place + 2) for place in range(min(DEPTH, len(wanted))))
    return {
        "recall@5": sum(hits[:5]) / len(wanted),
        "recall@10": sum(hits) / len(wanted),
        "mrr": next((1 / (place + 1) for place, hit in enumerate(hits) if hit), 0.0),
        "ndcg@10": gain / ideal,
    }


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: round(sum(row[name] for row in rows) / len(rows), 4) for name in rows[0]}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    quiet = arguments.json or not sys.stderr.isatty()
    folder: Path = arguments.data
    queries = read_lines(folder / "queries.jsonl")
    gold = read_gold(folder / "qrels.tsv")
    rows: dict[str, list[dict[str, float]]] = collections.defaultdict(list)
    run: list[str] = []
    kept = answered = 0
    with (
        tempfile.TemporaryDirectory() as scratch,
        agentmem.open(
            Path(scratch) / "memory.db", embedder=arguments.embedder, durability="normal"
        ) as memory,
    ):
        started = time.perf_counter()
        load(memory, read_lines(folder / "corpus.jsonl"), quiet=quiet)
        loaded = time.perf_counter() - started
        started = time.perf_counter()
        for query in track(queries, "questions", disable=quiet):
            found = ask(memory, query, threshold=0.0, mode=arguments.mode)
            run += [f"{query['_id']}\t{document}\t{value:.6f}" for document, value in found]
            wanted = gold.get(query["_id"])
            if not wanted:
                continue
            category = query.get("category")
            row = score([document for document, _ in found], wanted)
            rows["category 5" if category == 5 else "all"].append(row)
            if category not in (None, 5):
                rows[f"category {category}"].append(row)
            if category != 5 and row["recall@10"]:
                answered += 1
                kept += any(d in wanted and value >= THRESHOLD for d, value in found)
        asked = time.perf_counter() - started
        result: dict[str, Any] = {
            "data": folder.name,
            "embedder": arguments.embedder,
            "mode": arguments.mode,
            "scores": {name: {"n": len(r), **mean(r)} for name, r in sorted(rows.items())},
            "answers_kept_at_threshold": round(kept / max(1, answered), 4),
            "load_seconds": round(loaded, 2),
            "query_ms_mean": round(1000 * asked / max(1, len(queries)), 2),
        }
        if arguments.unrelated:
            result["unrelated"] = unrelated(memory, queries, arguments)
    if arguments.run:
        arguments.run.write_text("\n".join(run) + "\n", encoding="utf-8")
    return result


def unrelated(
    memory: Memory, queries: list[Line], arguments: argparse.Namespace
) -> dict[str, float]:
    """How often questions of another folder find nothing in each of this folder's groups."""
    groups = sorted({query["group"] for query in queries})
    result = {}
    for folder in arguments.unrelated:
        others = read_lines(folder / "queries.jsonl")[:300]
        nothing = [
            not ask(
                memory,
                {**query, "group": groups[number % len(groups)]},
                threshold=THRESHOLD,
                mode=arguments.mode,
            )
            for number, query in enumerate(others)
        ]
        result[folder.name] = round(sum(nothing) / len(nothing), 4)
    return result


def show(result: dict[str, Any]) -> None:
    print(f"{result['data']}, {result['embedder']}, {result['mode']}")
    for group, row in result["scores"].items():
        figures = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if name != "n")
        print(f"  {group:<12} n {row['n']:>5,}  {figures}")
    print(
        f"  an answer that is found stays at {THRESHOLD}: "
        f"{100 * result['answers_kept_at_threshold']:.1f} %"
    )
    for name, rate in result.get("unrelated", {}).items():
        print(f"  questions of {name} find nothing: {100 * rate:.1f} %")
    print(f"  loaded in {result['load_seconds']} s, {result['query_ms_mean']} ms a question")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with corpus, queries and qrels")
    parser.add_argument("--embedder", default="pair", help="wordllama, minilm, none, …")
    parser.add_argument("--mode", default="hybrid", choices=["hybrid", "vector", "fulltext"])
    parser.add_argument("--unrelated", type=Path, nargs="*", help="folders with other questions")
    parser.add_argument("--run", type=Path, help="write query, document, score lines here")
    parser.add_argument("--json", action="store_true", help="one line of JSON instead of a table")
    arguments = parser.parse_args()
    if arguments.data is None:
        print("No --data given: name a folder with corpus.jsonl, queries.jsonl and qrels.tsv.")
        return
    missing = [
        name
        for name in ("corpus.jsonl", "queries.jsonl", "qrels.tsv")
        if not (arguments.data / name).exists()
    ]
    if missing:
        parser.error(f"{arguments.data} has no {', '.join(missing)}")
    result = measure(arguments)
    if arguments.json:
        json.dump(result, sys.stdout)
        print()
    else:
        show(result)


if __name__ == "__main__":
    main()
