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

import nets
import numpy as np
from gate_data import Cached, Example, gather, grams_of
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from agentmem.search.embedders.base import load_embedder
from agentmem.search.gate import MEMORY_FEATURES, WORD_FEATURES

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "data"
WEIGHTS = ROOT / "agentmem" / "data" / "gates.npz"
CACHE = ROOT / ".bench"
EMBEDDERS = ("pair", "minilm", "wordllama", "none")
SCALES = {"words": 1.0, "memory": 1.0, "reading": 3.0, "grams": 6.0}
"""How freely each sort of feature may be weighed: its ridge is one over the square."""
RIDGE = 3.0
ROUNDS = 400
PLAN = nets.Plan(units=48, passes=8, pace=1.5e-3, decay=0.2, unseen=0.3)
"""Of the nets whose mean is the other half of the sum."""
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


def table(examples: Sequence[Example], part: str) -> Any:
    if part == "grams":
        return grams_of([one.text for one in examples])
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
    """The weights of each part, and the offset; half of the sum is a logistic regression's, half
    the nets'."""
    blocks: dict[str, Any] = {}
    spreads: dict[str, NDArray[np.float64]] = {}
    for part in parts:
        values = table(examples, part)
        spread = np.ones(values.shape[1])
        if part in ("words", "memory"):
            spread = np.where(values.std(axis=0) < 1e-6, 1.0, values.std(axis=0))
        spreads[part] = spread / SCALES[part]
        blocks[part] = (
            values.multiply(1 / spreads[part]).tocsr()
            if sparse.issparse(values)
            else values / spreads[part]
        )
    ends = np.cumsum([block.shape[1] for block in blocks.values()])
    turned = {part: block.T for part, block in blocks.items()}
    turned["grams"] = turned["grams"].tocsr()
    sides = np.where([one.own for one in examples], 1.0, -1.0)
    weights = weigh(examples)

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        pieces = zip(blocks.values(), np.split(found[:-1], ends[:-1]), strict=True)
        margins = sides * (found[-1] + sum(block @ piece for block, piece in pieces))
        slopes = -sides * weights / (1 + np.exp(np.clip(margins, -50, 50)))
        cost = float(weights @ np.logaddexp(0, -margins)) + RIDGE / 2 * float(
            found[:-1] @ found[:-1]
        )
        slope = np.concatenate([block @ slopes for block in turned.values()])
        return cost, np.append(slope + RIDGE * found[:-1], slopes.sum())

    best = minimize(
        loss, np.zeros(ends[-1] + 1), jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS}
    ).x
    found: Fit = {"offset": np.array(best[-1] / 2 + LEAN)}
    for part, piece in zip(parts, np.split(best[:-1], ends[:-1]), strict=True):
        found[part] = piece / spreads[part] / 2
    found |= fit_units(examples, weights)
    found["offset"] += found.pop("nets_offset")
    return {part: np.asarray(np.round(value / STEP) * STEP) for part, value in found.items()}


def seen_by_units(examples: Sequence[Example]) -> NDArray[np.float64]:
    return np.hstack([table(examples, part) for part in ("words", "memory", "reading")])


def fit_units(examples: Sequence[Example], weights: NDArray[np.float64]) -> Fit:
    """A layer of units over all but the n-grams."""
    own = np.array([[one.own] for one in examples], dtype=np.float32)
    alike = len(WORD_FEATURES) + len(MEMORY_FEATURES)
    values = seen_by_units(examples)
    net = nets.fit(values, own, weights.astype(np.float32), PLAN, alike=alike)
    return {
        "units": net.units,
        "start": net.start,
        "counts": net.counts[:, 0] / 2,
        "nets_offset": net.offset[0] / 2,
    }


def apply(examples: Sequence[Example], found: Fit) -> NDArray[np.float64]:
    total = np.full(len(examples), float(found["offset"]))
    for part in ("words", "memory", "grams", "reading"):
        if part in found:
            total += table(examples, part) @ found[part]
    sums = seen_by_units(examples) @ found["units"] + found["start"]
    total += np.maximum(sums, 0) @ found["counts"]
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
    people = [*sorted(questions.glob("p*.jsonl")), *sorted(questions.glob("worlds*.jsonl"))]
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
        parts = ["words", "memory", "grams"] + (["reading"] if name in ("pair", "minilm") else [])
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
        found.setdefault("reading", np.zeros(0))
        weights |= {f"{name}_{part}": value.astype(np.float32) for part, value in found.items()}
    if not options.judge:
        np.savez_compressed(WEIGHTS, **weights)  # type: ignore[arg-type]  # arrays by name
        print(f"wrote {WEIGHTS.name}, {WEIGHTS.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
