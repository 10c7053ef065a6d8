"""Fit the veto over the rules for contradictions, and print what it does to what it has not seen.

    python benchmarks/fit_conflicts.py --pairs FOLDER --facts FILE [--write]

What the rules find in pairs that do contradict (the keyed facts, the people of `keyed_facts.py`,
SICK's `dev.jsonl` in the folder) is to stay; what they find in pairs that do not, and in any two
true facts of one person (`group` and `text` a line), is to go. The facts are held out by group:
each group's figure comes from weights fitted without it. Ridge logistic regression by Newton's
method in numpy; the same data gives the same numbers. `--write` puts the weights into
agentmem/data/conflicts.json.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from contradictions import Pair, read_free_text, read_keyed
from keyed_facts import DEVELOPED, PEOPLE
from numpy.typing import NDArray

from agentmem.living.conflicts import find_unvetoed

DATA = Path(__file__).resolve().parents[1] / "agentmem" / "data" / "conflicts.json"
RIDGE = 1.0
LEAST = 0.1
"""From this probability on a finding counts."""
Float = NDArray[np.float64]


class Row(NamedTuple):
    """A finding of the rules: where the pair is from, and whether it does contradict."""

    source: str
    features: dict[str, float]
    conflicting: bool
    texts: tuple[str, str]


def rows_of(source: str, pairs: Iterable[Pair]) -> Iterator[Row]:
    for pair in pairs:
        found = find_unvetoed(pair.first, pair.second)
        if found is not None:
            texts = (pair.first, pair.second)
            yield Row(source, found.features, pair.conflicting, texts)


def rows_of_facts(path: Path) -> Iterator[Row]:
    """What is found among the facts of each group: nearly none of it is right."""
    groups: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        groups[told["group"]].append(told["text"])
    for group, texts in groups.items():
        pairs = (Pair(one, other, conflicting=False) for one, other in combinations(texts, 2))
        yield from rows_of(group, pairs)


def fit(rows: list[Row]) -> Float:
    """Weights and, last, the bias; both answers weigh the same in all."""
    inputs = np.array([(*row.features.values(), 1.0) for row in rows])
    wanted = np.array([float(row.conflicting) for row in rows])
    share = np.where(wanted > 0, 0.5 / max(1, wanted.sum()), 0.5 / max(1, (1 - wanted).sum()))
    share *= len(rows)
    ridge = RIDGE * np.eye(inputs.shape[1])
    ridge[-1, -1] = 1e-6
    weights = np.zeros(inputs.shape[1])
    for _ in range(50):
        said = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (share * (said - wanted)) + ridge @ weights
        curve = (inputs.T * (share * said * (1 - said))) @ inputs + ridge
        weights -= np.linalg.solve(curve, slope)
    return weights


def stays(weights: Float, row: Row) -> bool:
    return bool(1 / (1 + np.exp(-np.array((*row.features.values(), 1.0)) @ weights)) >= LEAST)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=Path, required=True, help="a folder with SICK's dev.jsonl")
    parser.add_argument("--facts", type=Path, required=True, help="true facts, JSON lines")
    parser.add_argument("--show", action="store_true", help="print what is decided wrongly")
    parser.add_argument("--write", action="store_true", help="write the weights")
    options = parser.parse_args()
    developed, _ = read_free_text(options.pairs)
    taught = [
        *rows_of("keyed", read_keyed(DEVELOPED)),
        *rows_of("people", read_keyed(PEOPLE)),
        *rows_of("free text", developed),
    ]
    facts = list(rows_of_facts(options.facts))
    left: Counter[str] = Counter()
    for group in sorted({row.source for row in facts}):
        weights = fit(taught + [row for row in facts if row.source != group])
        for row in facts:
            if row.source == group and stays(weights, row):
                left[group] += 1
                if options.show:
                    print("  left:", *row.texts, sep="\n    ")
    print(f"true facts, held out by group: {len(facts)} found, {left.total()} left {dict(left)}")
    weights = fit(taught + facts)
    for source in ("keyed", "people", "free text"):
        rows = [row for row in taught if row.source == source]
        for wanted in (True, False):
            some = [row for row in rows if row.conflicting == wanted]
            kept = sum(stays(weights, row) for row in some)
            print(f"{source}, {'right' if wanted else 'wrong'}: {len(some)} found, {kept} left")
        if options.show:
            for row in rows:
                if row.conflicting != stays(weights, row):
                    print(f"  {row.conflicting}:", *row.texts, sep="\n    ")
    told = {name: round(float(w), 4) for name, w in zip(taught[0].features, weights, strict=False)}
    print(json.dumps(told))
    if options.write:
        plain = {"weights": told, "bias": round(float(weights[-1]), 4), "least": LEAST}
        DATA.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
