"""Fit how statements are ranked: what one user told an assistant, asked for in other words.

    python benchmarks/fit_recall.py --people FILE … --questions FILE … [--embedder NAME …] \\
        [--cache DIR] [--write]

All people of a file share one scope, so that there is something to rank. Each file is held out
in turn; what is printed is of the file that was not fitted on. `--write` fits on all of them and
changes agentmem/data/ranking.json.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from fit_ranking import FAR_DOWN, Float, fit, fit_curve, write
from gate_data import Cached, add_person, query_of, read_lines
from numpy.typing import NDArray

import agentmem
from agentmem.base.filters import Selection
from agentmem.base.types import Scope
from agentmem.search.embedders.base import load_embedder
from agentmem.search.rank import (
    FEATURES,
    RankingModel,
    compute_features,
    fitted_models,
    gate_features,
)
from agentmem.search.retriever import Request

USED = [FEATURES.index(name) for name in ("lexical", "cosine", "asks", "echo", "other_language")]
"""Without `recent`: the fit would put what is new last, and the block shows it first anyway."""
TOP = (8, 16, 20)


@dataclass
class Asked:
    """A question with the features of what was found, and which of it answers."""

    file: str
    features: Float
    relevant: NDArray[np.bool_]
    wanted: int
    found: Any


def gather(
    people: list[Path], questions: list[Path], embedder: Any, scale: RankingModel
) -> list[Asked]:
    """What every question finds among all people of its file; those of `questions` find nothing."""
    asked: list[Asked] = []
    with closing(agentmem.open(":memory:", embedder=embedder, judge_new=False)) as memory:
        for path in people:
            persons = read_lines(path)
            for person in persons:
                add_person(memory, person, str(path))
            pairs = [
                (query_of(q)[:2][-1], {m["text"] for m in p["memories"] if m["id"] in q["gold"]})
                for p in persons
                for q in p["questions"]
                if q["type"] != "unanswerable"
            ]
            pairs += [
                (line["q"], set())
                for file in questions
                for line in read_lines(file)[::3]
                if line["about"] in ("general", "task", "howto")
            ]
            asked += [_ask(memory, query, str(path), gold, scale) for query, gold in pairs]
    return [one for one in asked if len(one.relevant)]


def _ask(memory: Any, query: str, user: str, gold: set[str], scale: RankingModel) -> Asked:
    request = Request(query=query, selection=Selection(reader=Scope(user_id=user)), top_k=100)
    retriever = memory._retriever
    memory.index.catch_up()
    found = retriever.find(request, [])
    if found is None:
        return Asked(user, np.zeros((0, len(FEATURES))), np.zeros(0, dtype=bool), 0, None)
    known = memory.store.get_rows(request.selection.reader, found.rows.tolist())
    texts = [known[row].text if row in known else "" for row in found.rows.tolist()]
    features = compute_features(
        found.evidence,
        found.asked.question,
        cosine_mean=scale.cosine_mean,
        cosine_spread=scale.cosine_spread,
    ).astype(np.float64)
    return Asked(user, features, np.array([text in gold for text in texts]), len(gold), found)


def learn(asked: list[Asked]) -> Float:
    used = [one for one in asked if one.relevant.any()]
    return fit([one.features for one in used], [one.relevant for one in used], USED)


def recalls(asked: list[Asked], weights: Float) -> str:
    shares = []
    for top in TOP:
        found = [
            one.relevant[np.argsort(-(one.features @ weights), kind="stable")[:top]].sum()
            / one.wanted
            for one in asked
            if one.wanted
        ]
        shares.append(f"@{top} {np.mean(found):.3f}")
    return " ".join(shares)


def curve_rows(asked: list[Asked], weights: Float) -> dict[str, Float]:
    """(sum, gate features) of best rows, answers and rows far down, as `fit_curve` takes them."""
    rows: dict[str, list[Float]] = {
        name: [] for name in ("answerable", "answer", "near", "rest", "far")
    }
    for one in asked:
        sums = one.features @ weights
        gate = gate_features(
            one.features, one.found.evidence, one.found.asked.question, best_sum=float(sums.max())
        )
        best = np.append(sums.max(), gate)
        if one.relevant.any():
            rows["answerable"].append(best)
            rows["answer"].append(np.append(sums[one.relevant].max(), gate))
            ordered = np.sort(sums)
            rows["rest"] += [
                np.append(ordered[-1 - far], gate) for far in FAR_DOWN if far < len(sums)
            ]
        elif not one.wanted:
            rows["near"].append(best)
    empty = {name: np.zeros((0, 6)) for name in ("nameless", "nameless answer")}
    return {name: np.array(found).reshape(-1, 6) for name, found in rows.items()} | empty


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--people", nargs="+", type=Path, required=True)
    parser.add_argument("--questions", nargs="+", type=Path, required=True)
    parser.add_argument("--embedder", nargs="+", default=["minilm", "wordllama", "none"])
    parser.add_argument("--cache", type=Path, help="folder for vectors computed before")
    parser.add_argument("--write", action="store_true", help="change agentmem/data/ranking.json")
    options = parser.parse_args()
    models = {}
    for name in options.embedder:
        loaded = load_embedder(name)
        embedder = None if loaded is None else Cached(loaded, options.cache)
        asked = gather(options.people, options.questions, embedder, fitted_models()[name])
        for file in sorted({one.file for one in asked}):
            weights = learn([one for one in asked if one.file != file] or asked)
            print(name, "without", Path(file).name,
                  recalls([one for one in asked if one.file == file], weights))  # fmt: skip
        weights = learn(asked)
        curve = fit_curve(curve_rows(asked, weights))
        print({FEATURES[at]: round(float(weights[at]), 2) for at in USED}, curve, flush=True)
        models[name] = replace(
            fitted_models()[name],
            statement=tuple(round(float(weight), 4) for weight in weights),
            statement_curve=curve,
        )
        if embedder is not None:
            embedder.save()
    if options.write:
        write(models)


if __name__ == "__main__":
    main()
