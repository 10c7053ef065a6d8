"""How much of the evidence stands in the block of a turn, against the tokens it costs.

    python benchmarks/block.py FOLDER … [--budget N …] [--limit N] [--misses] [--json]

FOLDER is in the retrieval form, conversations only (see retrieval.py). Default settings, one dry
turn a question; evidence counts when its text stands in the block. Several budgets give the curve
of docs/ranking.md. Beside it stands what lines by plain BM25 (stems, no stop words) and by plain
cosines of MiniLM show at as many tokens.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from figures import interval, mean, plain
from rank_bm25 import BM25Okapi
from retrieval import load, read_gold, read_lines

import agentmem
from agentmem.search.embedders.base import load_embedder
from agentmem.text.terms import analyse

UNANSWERABLE = 5


def run(
    folder: Path, budgets: Sequence[int | None], *, embedder: str | None = None,
    limit: int | None = None, peer: bool = True,
) -> list[dict[str, Any]]:  # fmt: skip
    """One row for each budget: block recall, that of cosines at the same tokens, and the misses."""
    corpus = read_lines(folder / "corpus.jsonl")
    gold = read_gold(folder / "qrels.tsv")
    questions = [q for q in read_lines(folder / "queries.jsonl") if q["category"] != UNANSWERABLE]
    questions = [q for q in questions if gold.get(q["_id"])][:limit]
    texts = {line["_id"]: plain(line["text"]) for line in corpus}
    count = agentmem.tokenizer_for("gpt-4o")
    near = PlainLines(corpus) if peer else None
    rows = []
    with tempfile.TemporaryDirectory() as place:
        options: dict[str, Any] = {"embedder": embedder} if embedder else {}
        with agentmem.open(Path(place) / "m.db", **options) as memory:
            load(memory, corpus, quiet=True)
            memory.flush()
            for budget in budgets:
                config = agentmem.LoopConfig()
                if budget is not None:
                    config = agentmem.LoopConfig(budget=agentmem.BudgetConfig(knowledge=budget))
                found, tokens, misses = [], [], []
                peers: dict[str, list[float]] = {"bm25": [], "cosine": []}
                for question in questions:
                    turn = memory.turn(
                        [{"role": "user", "content": question["text"]}],
                        model="gpt-4o", user_id=question["group"], dry=True, config=config,
                    )  # fmt: skip
                    block = plain(turn.block_text)
                    wanted = gold[question["_id"]]
                    inside = {one for one in wanted if texts[one] and texts[one] in block}
                    spent = count(turn.block_text) if turn.block_text else 0
                    found.append(len(inside) / len(wanted))
                    tokens.append(spent)
                    if near is not None:
                        for name, shares in peers.items():
                            shown = near.show(question, spent, count, by=name)
                            shares.append(len(wanted & shown) / len(wanted))
                    if inside != wanted:
                        misses.append(question["text"])
                rows.append({
                    "budget": config.budget.knowledge, "found": found, **peers,
                    "tokens": mean(tokens), "misses": misses,
                })  # fmt: skip
    return rows


class PlainLines:
    """The peers: lines `speaker: text`, the best by one leg first, until the tokens are spent."""

    def __init__(self, corpus: Sequence[dict[str, Any]]) -> None:
        embedder = load_embedder("minilm")
        if embedder is None:
            raise SystemExit("There is no embedder to compare with.")
        self._embedder = embedder
        self._lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in corpus:
            self._lines[line["group"]].append(line)
        self._vectors = {
            group: embedder.embed_documents([line["text"] for line in lines])
            for group, lines in self._lines.items()
        }
        self._words = {
            group: BM25Okapi([analyse(f"{line['speaker']} {line['text']}") for line in lines])
            for group, lines in self._lines.items()
        }

    def show(self, question: dict[str, Any], limit_tokens: int, count: Any, *, by: str) -> set[str]:
        group = question["group"]
        if by == "cosine":
            scores = self._vectors[group] @ self._embedder.embed_query(question["text"])
        else:
            scores = self._words[group].get_scores(analyse(question["text"]))
        shown: set[str] = set()
        for at in np.argsort(-scores, kind="stable").tolist():
            line = self._lines[group][at]
            limit_tokens -= count(f"{line['speaker']}: {line['text']}\n")
            if limit_tokens < 0:
                break
            shown.add(line["_id"])
        return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--budget", nargs="+", type=int, help="tokens of the knowledge section")
    parser.add_argument("--embedder", help="instead of the default one")
    parser.add_argument("--limit", type=int, help="only the first so many questions")
    parser.add_argument("--misses", action="store_true", help="list what was not found")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for folder in asked.folders:
        rows = run(folder, asked.budget or [None], embedder=asked.embedder, limit=asked.limit)
        if asked.json:
            print(json.dumps({"data": folder.name, "rows": rows}))
            continue
        print(f"{folder.name}\n  budget  tokens  in the block  lines by BM25  lines by cosines")
        for row in rows:
            print(f"  {row['budget']:>6}  {row['tokens']:>6.0f}  {interval(row['found'])}  "
                  f"{interval(row['bm25'])}  {interval(row['cosine'])}")  # fmt: skip
        if asked.misses:
            print("\n".join(f"- {text}" for text in rows[-1]["misses"]))


if __name__ == "__main__":
    main()
