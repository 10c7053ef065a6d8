"""Fit the gate that tells questions about the user's own world from all others.

    python benchmarks/fit_gate.py

fits the shipped weights, agentmem/data/gates.npz, on benchmarks/data/questions and on the prompts
of benchmarks/data/statements (`ordinary_*.jsonl`), and on nothing else: with the same files and
vectors it writes the same bytes again. `--judge` fits without each source in turn (never without
single lines) and prints what becomes of that one; `--unseen-people`, `--unseen-prompts` and
`--unseen-conversations` name files that are in no fit and are judged by it. Vectors are kept in
.bench. Needs scipy.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gate_data import Cached, Example, gather
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from agentmem.search.embedders.base import load_embedder
from agentmem.search.gate import GRAMS, MEMORY_FEATURES, WORD_FEATURES, gram_places, gram_scale

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "data"
WEIGHTS = ROOT / "agentmem" / "data" / "gates.npz"
CACHE = ROOT / ".bench"
EMBEDDERS = ("pair", "minilm", "wordllama", "none")
SCALES = {"words": 1.0, "memory": 1.0, "vector": 3.0, "grams": 6.0}
"""How freely each sort of feature may be weighed: its ridge is one over the square."""
RIDGE = 3.0
ROUNDS = 400
OPEN = 0.3
"""The score from which on a question is let through, in what is printed."""
LEAN = 0.5
"""What is added to every sum: a question about one's own world that gets nothing is the worse
mistake. Chosen on the people of benchmarks/data/blind, who are in no fit: 0.97 of theirs are let
through.
"""
STEP = 2.0**-10
"""Weights are written in whole steps, so that a last bit of a sum changes none of them."""

Fit = dict[str, NDArray[np.float64]]


def grams_of(examples: Sequence[Example]) -> Any:
    """A row an example, a column a place of an n-gram."""
    places = [gram_places(one.text) for one in examples]
    sizes = [len(row) for row in places]
    values = np.repeat([gram_scale(one.text) for one in examples], sizes)
    pointers = np.concatenate([[0], np.cumsum(sizes)])
    shape = (len(examples), GRAMS)
    return sparse.csr_matrix((values, np.concatenate(places), pointers), shape=shape)


def table(examples: Sequence[Example], part: str) -> Any:
    if part == "grams":
        return grams_of(examples)
    return np.array([getattr(one, part) for one in examples], dtype=np.float64)


def weigh(examples: Sequence[Example]) -> NDArray[np.float64]:
    """Each source counts by the root of its size, own and other alike."""
    keys = [(one.source, one.own) for one in examples]
    sizes = Counter(keys)
    weights = np.array([sizes[key] ** -0.5 for key in keys])
    own = np.array([one.own for one in examples])
    for side in (own, ~own):
        weights[side] *= 0.5 / weights[side].sum()
    return np.asarray(weights * len(examples))


def fit(examples: Sequence[Example], parts: Sequence[str]) -> Fit:
    """The weights of each part, and the offset."""
    blocks, spreads, sizes = [], {}, {}
    for part in parts:
        values = table(examples, part)
        spread = np.ones(values.shape[1])
        if part in ("words", "memory"):
            spread = np.where(values.std(axis=0) < 1e-6, 1.0, values.std(axis=0))
        spreads[part] = spread / SCALES[part]
        sizes[part] = values.shape[1]
        blocks.append(sparse.csr_matrix(values).multiply(1 / spreads[part]).tocsr())
    rows = sparse.hstack(blocks).tocsr()
    turned = rows.T.tocsr()
    sides = np.where([one.own for one in examples], 1.0, -1.0)
    weights = weigh(examples)

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = sides * (rows @ found[:-1] + found[-1])
        slopes = -sides * weights / (1 + np.exp(np.clip(margins, -50, 50)))
        cost = float(weights @ np.logaddexp(0, -margins)) + RIDGE / 2 * float(
            found[:-1] @ found[:-1]
        )
        return cost, np.append(turned @ slopes + RIDGE * found[:-1], slopes.sum())

    start = np.zeros(rows.shape[1] + 1)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS}).x
    found: Fit = {"offset": np.array(best[-1] + LEAN)}
    at = 0
    for part in parts:
        found[part] = best[at : at + sizes[part]] / spreads[part]
        at += sizes[part]
    return {part: np.asarray(np.round(value / STEP) * STEP) for part, value in found.items()}


def apply(examples: Sequence[Example], found: Fit) -> NDArray[np.float64]:
    total = np.full(len(examples), float(found["offset"]))
    for part, weights in found.items():
        if part != "offset":
            total += table(examples, part) @ weights
    return np.asarray(1 / (1 + np.exp(-total)))


def report(label: str, examples: Sequence[Example], scores: NDArray[np.float64]) -> None:
    """The share of each kind and language that is let through, or kept out."""
    by: dict[str, list[bool]] = defaultdict(list)
    for one, score in zip(examples, scores, strict=True):
        right = bool((score >= OPEN) == one.own)
        side = "own" if one.own else "other"
        for key in (f"all {side}", one.kind, f"{side} {one.language}"):
            by[key].append(right)
    print(f"{label}: " + "  ".join(
        f"{name} {np.mean(rights):.3f} ({len(rights)})" for name, rights in sorted(by.items())
    ), flush=True)  # fmt: skip


def judge(examples: list[Example], parts: Sequence[str]) -> None:
    """Print what the fit does with each source it has not seen."""
    for source in sorted({one.source for one in examples}):
        seen = [one for one in examples if one.source != source]
        unseen = [one for one in examples if one.source == source]
        report(f"without {source}", unseen, apply(unseen, fit(seen, parts)))


def digest(folder: Path) -> NDArray[np.uint8]:
    """Of the questions that were read, by which a test knows that the weights are theirs."""
    read = hashlib.sha256()
    for path in sorted(folder.glob("**/*.jsonl")):
        read.update(path.name.encode() + path.read_bytes())
    return np.frombuffer(read.digest(), np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--judge", action="store_true", help="hold out each source; write nothing")
    for name in ("people", "prompts", "conversations"):
        parser.add_argument(f"--unseen-{name}", nargs="+", type=Path, default=[])
    options = parser.parse_args()
    questions = DATA / "questions"
    people = [questions / "pairs.jsonl", questions / "people.jsonl"]
    written = [path for path in sorted(questions.glob("*.jsonl")) if path not in people]
    prompts = sorted((DATA / "statements").glob("ordinary_*.jsonl"))
    weights: dict[str, NDArray[Any]] = {"fitted_on": digest(questions)}
    for name in EMBEDDERS:
        loaded = load_embedder(name)
        embedder = None if loaded is None else Cached(loaded, CACHE)
        examples = gather(
            people=people,
            questions=written,
            prompts=prompts,
            conversations=[questions / "talk"],
            embedder=embedder,
        )
        unseen = gather(
            people=options.unseen_people,
            questions=[],
            prompts=options.unseen_prompts,
            conversations=options.unseen_conversations,
            embedder=embedder,
        )
        if embedder is not None:
            embedder.save()
        parts = ["words", "memory", "grams"] + (["vector"] if name in ("pair", "minilm") else [])
        print(f"{name}: {len(examples)} examples", Counter(one.source for one in examples))
        if options.judge:
            judge(examples, parts)
            continue
        found = fit(examples, parts)
        for source in sorted({one.source for one in unseen}):
            ones = [one for one in unseen if one.source == source]
            report(f"never seen, {source}", ones, apply(ones, found))
        for names, part in ((WORD_FEATURES, "words"), (MEMORY_FEATURES, "memory")):
            spread = table(examples, part).std(axis=0)
            shown = zip(names, found[part] * spread, strict=True)
            print({name: round(float(weight), 2) for name, weight in shown})
        found.setdefault("vector", np.zeros(0))
        weights |= {f"{name}_{part}": value.astype(np.float32) for part, value in found.items()}
    if not options.judge:
        np.savez_compressed(WEIGHTS, **weights)  # type: ignore[arg-type]  # arrays by name
        print(f"wrote {WEIGHTS.name}, {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
