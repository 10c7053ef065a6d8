"""Fit the gate that tells questions about the user's own world from all others.

    python benchmarks/fit_gate.py --people FILE … --questions FILE … --prompts FILE … \\
        --conversations DIR … [--embedder minilm wordllama none] [--judge] [--write]

Needs scikit-learn, which nothing else does. With `--judge` every source is held out in turn
(never single lines), then a fifth of the people at a time; what is printed is of
what the fit has not seen. `--write` fits on everything and puts the
weights into agentmem/data/gates.npz.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gate_data import Cached, Example, gather
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from agentmem.search.embedders.base import load_embedder
from agentmem.search.gate import MEMORY_FEATURES, WORD_FEATURES

SCALES = {"words": 1.0, "memory": 1.0, "grams": 2.0, "vector": 3.0}
"""How freely each sort of feature may be weighed: its ridge is one over the square."""
RIDGE = 3.0
OPEN = 0.3
"""The score from which on a question is let through, in what is printed."""
FOLDS = 5

Fit = dict[str, NDArray[np.float64]]


def table(examples: Sequence[Example], part: str) -> NDArray[np.float64]:
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


def fit(examples: Sequence[Example], parts: Sequence[str], *, ridge: float = RIDGE) -> Fit:
    """The weights of each part, and the offset."""
    blocks, means, spreads = [], {}, {}
    for part in parts:
        values = table(examples, part).astype(np.float32)
        means[part] = values.mean(axis=0)
        spread = values.std(axis=0) if part in ("words", "memory") else np.ones(values.shape[1])
        spreads[part] = np.where(spread < 1e-6, 1.0, spread) / SCALES[part]
        blocks.append((values - means[part]) / spreads[part])
    model = LogisticRegression(C=1 / ridge, max_iter=2_000)
    model.fit(np.hstack(blocks), [one.own for one in examples], sample_weight=weigh(examples))
    found: Fit = {}
    offset, at = float(model.intercept_[0]), 0
    for part, block in zip(parts, blocks, strict=True):
        size = block.shape[1]
        found[part] = model.coef_[0][at : at + size] / spreads[part]
        offset -= float(found[part] @ means[part])
        at += size
    found["offset"] = np.array(offset)
    return found


def apply(examples: Sequence[Example], found: Fit) -> NDArray[np.float64]:
    total = np.full(len(examples), float(found["offset"]))
    for part, weights in found.items():
        if part != "offset":
            total += table(examples, part) @ weights
    return np.asarray(1 / (1 + np.exp(-total)))


def report(label: str, examples: Sequence[Example], scores: NDArray[np.float64]) -> None:
    """The share of each kind that is let through, or kept out."""
    by: dict[tuple[str, str], list[float]] = defaultdict(list)
    for one, score in zip(examples, scores, strict=True):
        right = float((score >= OPEN) == one.own)
        by["all own" if one.own else "all other", ""].append(right)
        by[one.kind, ""].append(right)
        by["own" if one.own else "other", one.language].append(right)
    print(f"{label}: " + "  ".join(
        f"{kind} {language} {np.mean(rights):.3f} ({len(rights)})".replace("  ", " ")
        for (kind, language), rights in sorted(by.items())
    ), flush=True)  # fmt: skip


def judge(examples: list[Example], parts: Sequence[str]) -> None:
    """Print what the fit does with each source, then each person, it has not seen."""
    for source in sorted({one.source for one in examples}):
        seen = [one for one in examples if one.source != source]
        unseen = [one for one in examples if one.source == source]
        report(f"without {source}", unseen, apply(unseen, fit(seen, parts)))
    people = [one for one in examples if one.source.startswith("people-")]
    scores = np.zeros(len(people))
    persons = sorted({one.user for one in people if one.user.count("-") == 2})
    for fold in range(FOLDS):
        held = set(persons[fold::FOLDS])
        texts = {one.text for one in people if one.user in held}
        found = fit([o for o in examples if o.user not in held and o.text not in texts], parts)
        mine = [at for at, one in enumerate(people) if one.text in texts]
        scores[mine] = apply([people[at] for at in mine], found)
    for crowd in (False, True):
        chosen = [at for at, one in enumerate(people) if (one.user.count("-") == 1) == crowd]
        report(
            f"people held out, {'one scope for all' if crowd else 'each alone'}",
            [people[at] for at in chosen],
            scores[chosen],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("people", "questions", "prompts", "conversations"):
        parser.add_argument(f"--{name}", nargs="+", type=Path, default=[])
    parser.add_argument("--embedder", nargs="+", default=["minilm", "wordllama", "none"])
    parser.add_argument("--cache", type=Path, help="folder for vectors computed before")
    parser.add_argument("--judge", action="store_true", help="hold out each source and person")
    parser.add_argument("--write", action="store_true", help="change agentmem/data/gates.npz")
    options = parser.parse_args()
    weights: dict[str, Any] = {}
    for name in options.embedder:
        loaded = load_embedder(name)
        embedder = None if loaded is None else Cached(loaded, options.cache)
        examples = gather(
            people=options.people,
            questions=options.questions,
            prompts=options.prompts,
            conversations=options.conversations,
            embedder=embedder,
        )
        if embedder is not None:
            embedder.save()
        parts = ["words", "memory", "grams"] + (["vector"] if name == "minilm" else [])
        print(f"{name}: {len(examples)} examples", Counter(one.source for one in examples))
        if options.judge:
            judge(examples, parts)
        found = fit(examples, parts)
        for names, part in ((WORD_FEATURES, "words"), (MEMORY_FEATURES, "memory")):
            spread = table(examples, part).std(axis=0)
            print({n: round(float(w * s), 2) for n, w, s in
                   zip(names, found[part], spread, strict=True)})  # fmt: skip
        found.setdefault("vector", np.zeros(0))
        weights |= {f"{name}_{part}": value.astype(np.float32) for part, value in found.items()}
    if options.write:
        path = Path(__file__).resolve().parents[1] / "agentmem" / "data" / "gates.npz"
        with np.load(path) as known:  # embedders that were not fitted keep theirs
            weights = {**known, **weights}
        np.savez_compressed(path, **weights)
        print(f"wrote {path.name}, {path.stat().st_size:,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
