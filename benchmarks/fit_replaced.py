"""Fit the model that tells which standing statements a message ends; held-out figures by source.

    python benchmarks/fit_replaced.py [--check]

fits agentmem/data/replaced.npz; `--check` prints figures for held-out sources instead.

Learned from are benchmarks/data/replaced (what stands, a message, which of them it ends; and
sentences by the slot they speak of), the dialogues of benchmarks/data/profiles whose misses were
read, and as messages that end nothing: two statements of one message, and what people told over
months. Needs scipy, scikit-learn and the weights of statements.npz.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fit_statements import DATA as STATEMENTS
from fit_statements import KEPT
from gate_data import read_lines
from scipy.optimize import minimize
from sklearn.ensemble import HistGradientBoostingClassifier

from agentmem.search.embedders.use import UseEmbedder
from agentmem.text.detect import hear
from agentmem.text.replaced import ENDS, Fitted, Trees, pair_features, said_texts, saying
from agentmem.text.statements import Told, clauses, tell

OWN = Path(__file__).parent / "data"
WEIGHTS = Path(__file__).parents[1] / "agentmem" / "data" / "replaced.npz"
DIALOGUES = (
    "blind", "changing", "fresh", "held_choose", "newer", "passing", "strangers", "unseen",
)  # fmt: skip
PEOPLE = (OWN / "blind" / "choose.jsonl", *sorted((OWN / "questions").glob("p*.jsonl")))
SLOT_STRENGTH, CHANGE_STRENGTH, ROUNDS = 40.0, 12.0, 3
ABOUT = 48
"""In so many directions what people say is told apart."""
FOLDS = 8


@dataclass(frozen=True, slots=True)
class Case:
    """A message, what stood before it and the places of what it ended."""

    source: str
    standing: tuple[str, ...]
    message: str
    ends: frozenset[int] = frozenset()


ENCODER = UseEmbedder()


@cache
def vector(text: str) -> np.ndarray[Any, Any]:
    return np.asarray(ENCODER.embed_documents([text or " "])[0])


def embed(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    rows = [vector(text) for text in texts]
    return np.array(rows, dtype=np.float32).reshape(len(rows), ENCODER.id.dimensions)


def written() -> Iterator[Case]:
    for path in sorted((OWN / "replaced").glob("*.jsonl")):
        if path.stem == "slots":
            continue
        for row in read_lines(path):
            ends = frozenset(row["ends"])
            yield Case(path.stem, tuple(row["standing"]), row["message"], ends)


def alone(cases: Sequence[Case]) -> Iterator[Case]:
    """The cases, and of each what it ended, or what it did not, as all that stood."""
    for case in cases:
        yield case
        for at, text in enumerate(case.standing):
            if len(case.standing) > 1 and (at in case.ends or not case.ends):
                yield replace(case, standing=(text,), ends=frozenset({0} if case.ends else ()))


def dialogues(name: str) -> Iterator[Case]:
    """What each turn of a dialogue ended, as what must and must not stand at its end tells."""
    for case in read_lines(OWN / "profiles" / f"{name}.jsonl"):
        told = [any(1 - one.chance("other") > 0.4 for one in tell(clauses(turn), embed))
                for turn in case["turns"]]  # fmt: skip
        stood: list[str] = []
        for at, turn in enumerate(case["turns"]):
            here: dict[str, bool] = {}
            for text in stood:
                must = any(_holds(text, want["words"]) for want in case["must"])
                forbidden = any(_holds(text, words) for words in case["must_not"])
                if must != forbidden and (must or not any(told[at + 1 :])):
                    here[text] = forbidden
            ends = frozenset(at for at, ended in enumerate(here.values()) if ended)
            if here and told[at]:
                yield Case(name, tuple(here), turn, ends)
            stood += [one.content for one in hear(turn, embed).stated]


def _holds(text: str, words: Iterable[str]) -> bool:
    return all(word.lower() in text.lower() for word in words)


def lives(path: Path) -> Iterator[Case]:
    """What people told over months; a message that a question calls an update is left out."""
    for person in read_lines(path):
        newer = {
            gold
            for asked in person["questions"]
            if "update" in asked.get("type", "")
            for gold in asked["gold"]
        }
        stood: list[str] = []
        for memory in person["memories"]:
            if memory["by"] != "user":
                continue
            heard = hear(memory["text"], embed)
            if stood and heard.told and memory["id"] not in newer:
                yield Case(path.stem, tuple(stood), memory["text"])
            stood += [one.content for one in heard.stated]


def pairs_of_a_message() -> Iterator[Case]:
    """Two statements of one message, which both stand."""
    for path in sorted(STATEMENTS.glob("*.jsonl")):
        for row in read_lines(path):
            pieces = [(one["text"], one["label"]) for one in row.get("clauses", ())]
            pieces = pieces or [
                (text.strip(" ,.;"), label) for text, label in row.get("marked", ())
            ]
            kept = [text for text, label in pieces if label in KEPT]
            if len(kept) > 1 and all(label != "retract" for _, label in pieces):
                yield Case(path.stem, (kept[0],), kept[1])


def fit_slots() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A softmax from vectors to slots, fitted on a few sentences of each; and their means."""
    rows = read_lines(OWN / "replaced" / "slots.jsonl")
    vectors = embed([text for row in rows for text in row["said"]])
    slot = [at for at, row in enumerate(rows) for _ in row["said"]]
    truly = np.eye(len(rows))[slot]
    seen = np.hstack([vectors, np.ones((len(vectors), 1))])

    def cost(flat: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        made = flat.reshape(len(rows), -1)
        scores = seen @ made.T
        scores -= scores.max(axis=1, keepdims=True)
        told = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        penalty = made.copy()
        penalty[:, -1] = 0
        missed = -(truly * np.log(told + 1e-12)).sum() + (penalty**2).sum() / (2 * SLOT_STRENGTH)
        return float(missed), ((told - truly).T @ seen + penalty / SLOT_STRENGTH).ravel()

    start = np.zeros(len(rows) * seen.shape[1])
    best = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    means = truly.T @ vectors
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return np.asarray(best.reshape(len(rows), -1), dtype=np.float32), means.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Read:
    """A case whose message says something, as it was told."""

    case: Case
    told: tuple[Told, ...]


def fit_changes(read: Sequence[Read]) -> np.ndarray[Any, Any]:
    """What tells from the vector of a message whether it ends anything."""
    vectors = embed([said_texts(one.told)[-1] for one in read])
    seen = np.hstack([vectors, np.ones((len(read), 1))])
    truly = np.array([bool(one.case.ends) for one in read])
    return regression(seen.astype(float), truly, np.zeros(seen.shape[1]), CHANGE_STRENGTH)


def regression(seen: Any, truly: Any, start: Any, strength: float) -> np.ndarray[Any, Any]:
    def cost(made: Any) -> tuple[float, Any]:
        score = seen @ made
        told = 1 / (1 + np.exp(-score))
        missed = np.logaddexp(0, score).sum() - score[truly].sum()
        missed += (made**2).sum() / (2 * strength)
        return float(missed), seen.T @ (told - truly) + made / strength

    made = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": 400}).x
    return np.asarray(made, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Rows:
    """Each clause beside each statement; `pair` numbers message and statement."""

    features: np.ndarray[Any, Any]
    pair: np.ndarray[Any, Any]
    ended: np.ndarray[Any, Any]
    source: np.ndarray[Any, Any]


def differing(read: Sequence[Read]) -> np.ndarray[Any, Any]:
    """The directions in which messages and statements differ most, each as long as makes what
    differs in it 1."""
    said = {text for one in read for text in (said_texts(one.told)[-1], *one.case.standing)}
    vectors = embed(sorted(said))
    _, spread, directions = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    made = directions[:ABOUT] * np.sqrt(len(vectors)) / spread[:ABOUT, None]
    return np.asarray(made, dtype=np.float32)


def rows_of(
    read: Sequence[Read],
    slots: np.ndarray[Any, Any],
    typical: np.ndarray[Any, Any],
    about: np.ndarray[Any, Any],
) -> Rows:
    """The features of all pairs; what tells a change is fitted without the case's own source."""
    sources = sorted({one.case.source for one in read})
    changes: dict[str, Any] = {}
    for fold in range(FOLDS):
        held = sources[fold::FOLDS]
        without = fit_changes([one for one in read if one.case.source not in held])
        changes |= dict.fromkeys(held, without)
    features, pair, ended, source = [], [], [], []
    count = 0
    for one in read:
        case = one.case
        fitted = Fitted(slots=slots, typical=typical, changes=changes[case.source], about=about)
        made = pair_features(
            saying(one.told), case.standing, new=embed(said_texts(one.told)),
            old=embed(case.standing), fitted=fitted,
        )  # fmt: skip
        for row in made:
            features.append(row)
            pair += [count + at for at in range(len(case.standing))]
            ended += [at in case.ends for at in range(len(case.standing))]
            source += [case.source] * len(case.standing)
        count += len(case.standing)
    return Rows(np.vstack(features), np.array(pair), np.array(ended), np.array(source))


def fit(rows: Rows, known: np.ndarray[Any, Any]) -> Trees:
    """Trees in which of the clauses of a message the likeliest ended what ended."""
    scores: np.ndarray[Any, Any] = np.zeros(len(rows.pair))
    for _ in range(ROUNDS):
        chosen = known & ~rows.ended
        for pair in np.unique(rows.pair[known & rows.ended]):
            own = np.flatnonzero(rows.pair == pair)
            chosen[own[scores[own].argmax()]] = True
        learner = HistGradientBoostingClassifier(
            max_iter=200, learning_rate=0.08, max_leaf_nodes=15, l2_regularization=5.0,
            min_samples_leaf=30, max_features=0.3, random_state=1,
        )  # fmt: skip
        learner.fit(rows.features[chosen], rows.ended[chosen])
        trees = trees_of(learner)
        scores = trees.scores(rows.features)
    return trees


def trees_of(learner: Any) -> Trees:
    """The trees that were learned, the nodes of all in one list, the roots first."""
    grown = [one.nodes for (one,) in learner._predictors]
    after = len(grown) + np.cumsum([0, *(len(nodes) - 1 for nodes in grown)])
    feature, threshold, left, right, value = np.zeros((5, after[-1]))
    for number, nodes in enumerate(grown):
        place = np.array([number, *range(after[number], after[number + 1])])
        leaf = nodes["is_leaf"].astype(bool)
        feature[place] = np.where(leaf, 0, nodes["feature_idx"])
        threshold[place] = np.where(leaf, 0.0, nodes["num_threshold"])
        left[place] = np.where(leaf, place, place[np.where(leaf, 0, nodes["left"])])
        right[place] = np.where(leaf, place, place[np.where(leaf, 0, nodes["right"])])
        value[place] = nodes["value"]
    return Trees(
        feature=feature.astype(np.int16), threshold=threshold.astype(np.float32),
        left=left.astype(np.int16), right=right.astype(np.int16), value=value.astype(np.float32),
        trees=len(grown), deep=int(max(nodes["depth"].max() for nodes in grown)),
        base=float(learner._baseline_prediction.item()),
    )  # fmt: skip


def check(rows: Rows, group: str, sources: Iterable[str], folds: int) -> None:
    """Print how many pairs of a group are found ended, each source held out once."""
    names = sorted(set(sources))
    told: dict[int, float] = {}
    for fold in range(min(folds, len(names))):
        held = np.isin(rows.source, names[fold::folds])
        scores = 1 / (1 + np.exp(-fit(rows, ~held).scores(rows.features[held])))
        for pair, score in zip(rows.pair[held], scores, strict=True):
            told[pair] = max(told.get(pair, 0.0), float(score))
    truly = {pair: bool(ended) for pair, ended in zip(rows.pair, rows.ended, strict=True)}
    for enough in (0.4, ENDS, 0.6):
        found = [pair for pair, score in told.items() if score > enough]
        right, all_ = sum(truly[p] for p in found), sum(truly[p] for p in told)
        print(
            f"{group:10} > {enough:.2f}: {right} of {all_} ended found,"
            f" {len(found) - right} of {len(told) - all_} wrongly"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="hold out only, save nothing")
    slots, typical = fit_slots()
    groups = {
        "written": list(alone(list(written()))),
        "dialogues": [case for name in DIALOGUES for case in dialogues(name)],
        "lives": [case for path in PEOPLE for case in lives(path)],
        "messages": list(pairs_of_a_message()),
    }
    told = [
        Read(case, tell(clauses(case.message), embed))
        for cases in groups.values()
        for case in cases
    ]
    read = [one for one in told if saying(one.told)]
    about = differing(read)
    rows = rows_of(read, slots, typical, about)
    print(f"{len(np.unique(rows.pair)):,} pairs, {len(np.unique(rows.pair[rows.ended])):,} ended")
    if parser.parse_args().check:
        for group, cases in groups.items():
            check(rows, group, (case.source for case in cases), 4)
        return
    trees = fit(rows, np.ones(len(rows.pair), dtype=bool))
    np.savez_compressed(
        WEIGHTS,
        slots=slots.astype(np.float16),
        typical=typical.astype(np.float16),
        changes=fit_changes(read).astype(np.float16),
        about=about.astype(np.float16),
        **{name: getattr(trees, name) for name in Trees.__slots__},
    )
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
