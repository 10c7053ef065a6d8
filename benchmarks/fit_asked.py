"""Fit the weights by which a message is known to ask and to tell nothing, without a mark.

    python benchmarks/fit_asked.py [--check PEOPLE …]

fits agentmem/data/asked.npz on benchmarks/data/questions and told, where people ask, and on what
they told there and in benchmarks/data/statements. `--check` prints, of the people in the files it
names, how many marked questions are known without their mark and how many memories that answer a
question would be lost. Needs scipy.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gate_data import grams_of, read_lines
from numpy.typing import NDArray
from scipy.optimize import minimize

from agentmem.text.language import ASKED_CHARACTERS, ASKS, GRAMS, QUESTION_MARKS

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "data"
WEIGHTS = ROOT / "agentmem" / "data" / "asked.npz"
SCALE, RIDGE, ROUNDS = 6.0, 1.0, 200
TASKS = ("ordinary_tasks", "ordinary_prompts", "ordinary_science")
NOTHING = ("other", "once")
Fitted = tuple[NDArray[np.float64], float]


def examples() -> Iterator[tuple[str, bool]]:
    """Every text with whether it only asks. What neither asks nor is kept is left out: "I had
    pasta last night" tells something."""
    for path in sorted((DATA / "questions").glob("*.jsonl")):
        for row in read_lines(path):
            if "memories" in row:
                yield from ((asked["q"], True) for asked in row["questions"])
                told = [one["text"] for one in row["memories"] if one["by"] == "user"]
                yield from ((text, False) for text in told if not is_marked(text))
            elif path.stem != "closings":
                yield row["q"], True
    for path in sorted((DATA / "told").glob("*.jsonl")):
        for row in read_lines(path):
            yield row["q"], True
            yield row["m"], False
    for path in sorted((DATA / "statements").glob("*.jsonl")):
        for row in read_lines(path):
            labelled = [(one["text"], one["label"]) for one in row.get("clauses", ())]
            marked = [(text, label) for text, label in row.get("marked", ())]
            whole = row.get("text") or "".join(text for text, _ in marked)
            whole = whole or " ".join(text for text, _ in labelled)
            if path.stem in TASKS:
                yield whole, True
            elif any(label not in NOTHING for _, label in labelled + marked):
                yield whole, False


def is_marked(text: str) -> bool:
    return text.rstrip().endswith(QUESTION_MARKS)


def unmarked(text: str) -> str:
    return text.rstrip(" " + "".join(QUESTION_MARKS))


def fit() -> Fitted:
    seen = {unmarked(text): asks for text, asks in examples() if len(text) <= ASKED_CHARACTERS}
    rows = grams_of(list(seen)) * SCALE
    turned = rows.T.tocsr()
    sides = np.where(list(seen.values()), 1.0, -1.0)
    print(f"{len(seen):,} texts, {int((sides > 0).sum()):,} only ask")

    def loss(found: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = sides * (rows @ found[:-1] + found[-1])
        slopes = -sides / (1 + np.exp(np.clip(margins, -50, 50)))
        cost = float(np.logaddexp(0, -margins).sum()) + RIDGE / 2 * float(found[:-1] @ found[:-1])
        return cost, np.append(turned @ slopes + RIDGE * found[:-1], slopes.sum())

    start = np.zeros(GRAMS + 1)
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS}).x
    return best[:-1] * SCALE, float(best[-1])


def check(path: Path, fitted: Fitted) -> None:
    """Print what becomes of the messages of people in a file that is in no fit."""
    weights, offset = fitted
    questions: list[str] = []
    answers: list[str] = []
    rest: list[str] = []
    for person in read_lines(path):
        gold = {one for asked in person["questions"] for one in asked["gold"]}
        for memory in person["memories"]:
            if memory["by"] == "user" and len(memory["text"]) <= ASKED_CHARACTERS:
                sort = answers if memory["id"] in gold else rest
                (questions if is_marked(memory["text"]) else sort).append(unmarked(memory["text"]))
    shares = [
        int((grams_of(texts) @ weights + offset >= ASKS).sum()) if texts else 0
        for texts in (questions, answers, rest)
    ]
    print(
        f"{path.name}: {shares[0]} of {len(questions)} marked questions known without the mark,"
        f" {shares[1]} of {len(answers)} answers lost, {shares[2]} of {len(rest)} other messages"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", nargs="+", type=Path, default=[], metavar="PEOPLE")
    options = parser.parse_args()
    fitted = fit()
    for path in options.check:
        check(path, fitted)
    if not options.check:
        weights = fitted[0].astype(np.float16)
        np.savez_compressed(WEIGHTS, grams=weights, offset=np.float32(fitted[1]))
        print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
