"""Fit the ranking weights and print what they are worth on conversations they have not seen.

    python benchmarks/fit_ranking.py --data DIR [DIR …] [--embedder NAME …] [--held DIR] [--write]

Folders are in the benchmark form (corpus.jsonl, queries.jsonl, qrels.tsv); those
with speakers teach the conversation weights, the others the page weights. Only
numpy: a listwise softmax fitted by Newton's method, leg weights at least 0. The
same data gives the same numbers. `--write` puts them into agentmem/data/ranking.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from fit_pair import KeptPair, Reader
from numpy.typing import NDArray
from ranking_data import Asked, Memory, ask, embed, read_folder

from agentmem.base.protocols import Embedder
from agentmem.search.embedders.base import load_embedder
from agentmem.search.rank import (
    FEATURES,
    LEG_FEATURES,
    RELATED,
    SPEAKER,
    Curve,
    RankingModel,
    compute_features,
    fitted_models,
    gate_features,
    log_score,
    measure_background,
    sum_features,
)

RIDGE = 10.0
REJECTED = 0.86
"""At least so many of the questions a memory cannot answer are to get nothing."""
KEPT = 0.98
"""Where more can be rejected than that, so many answers are still to be kept."""
LENIENCE = 0.7
"""Added to the rows' curve: losing an answer costs more than a row too many."""
FAR_DOWN = (40, 80, 150)
"""Places in a list where rows are taken to be unrelated."""
OFF_TOPIC = 60
"""Questions of every other memory asked of each memory, for the calibration."""

CURVE_ROWS = (
    "answerable", "nameless", "answer", "nameless answer", "near", "far", "rest"
)  # fmt: skip
Float = NDArray[np.float64]
CONVERSATION_FEATURES = [
    f for f in FEATURES if f not in ("lexical", "date", "echo", "recent", "other_language")
]  # the last three are of what one user and an assistant said: fit_recall.py
PAGE_FEATURES = ["lexical", "cosine"]
DATE_WEIGHT = 3.0  # the fit says 6.9, which finds no more; see docs/ranking.md
_LINE = Curve(gate=(0.0,) * 5, gate_offset=0.0, slope=1.0, offset=0.0, power=1.0)
FLAT = RankingModel(
    conversation=(0.0,) * len(FEATURES),
    statement=(0.0,) * len(FEATURES),
    page=(0.0,) * len(FEATURES),
    conversation_curve=_LINE,
    statement_curve=_LINE,
    page_curve=_LINE,
)


def fit(tables: Sequence[Float], relevant: Sequence[NDArray[np.bool_]], used: list[int]) -> Float:
    """Weights over all features (0 where not used) that put the relevant rows first.

    Minimises the mean cross-entropy between a softmax over each question's rows
    and its relevant rows, plus a ridge on standardised weights.
    """
    table = np.concatenate(tables)[:, used]
    spread = table.std(axis=0)
    live = spread > 1e-9
    spread[~live] = 1.0
    table = table / spread
    sizes = [len(rows) for rows in tables]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    segment = np.repeat(np.arange(len(sizes)), sizes)
    target = np.concatenate([rows / rows.sum() for rows in relevant])
    bounded = np.array([index < LEG_FEATURES for index in used])

    def loss(weights: Float) -> tuple[float, Float]:
        sums = table @ weights
        sums -= np.maximum.reduceat(sums, starts)[segment]
        chances = np.exp(sums)
        totals = np.add.reduceat(chances, starts)
        value = -(target * (sums - np.log(totals)[segment])).sum() + RIDGE / 2 * weights @ weights
        return float(value), chances / totals[segment]

    weights = np.zeros(len(used))
    free = live.copy()
    for _ in range(len(used)):
        for _ in range(50):
            value, chances = loss(weights)
            means = np.add.reduceat(chances[:, None] * table, starts, axis=0)
            slope = table.T @ target - means.sum(axis=0) - RIDGE * weights
            bend = (table * chances[:, None]).T @ table - means.T @ means
            bend += RIDGE * np.eye(len(used))
            step = np.zeros(len(used))
            step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
            size = 1.0
            while (
                size > 1e-4 and loss(weights + size * step)[0] > value - 1e-4 * size * slope @ step
            ):
                size /= 2
            weights = weights + size * step
            if np.abs(size * step).max() < 1e-4:
                break
        against = free & bounded & (weights < 0)
        if not against.any():
            break
        free &= ~against
        weights[against] = 0.0
    whole = np.zeros(len(FEATURES))
    whole[used] = weights / spread
    return whole


def measure(asked: Sequence[Asked], scores: Sequence[Float]) -> tuple[float, float, float, int]:
    """recall@5, recall@10, nDCG@10 and the number of questions, category 5 left out."""
    rows = []
    for item, score in zip(asked, scores, strict=True):
        if item.category == 5:
            continue
        hits = item.relevant[np.argsort(-score, kind="stable")[:10]].astype(float)
        gains = 1 / np.log2(np.arange(10) + 2)
        ideal = gains[: min(10, item.wanted)].sum()
        rows.append(
            (
                hits[:5].sum() / item.wanted,
                hits.sum() / item.wanted,
                (hits * gains[: len(hits)]).sum() / ideal,
            )
        )
    early, recall, gain = (float(value) for value in np.mean(rows, axis=0))
    return early, recall, gain, len(rows)


def fit_logistic(values: Float, labels: Float, share: Float, signs: Float) -> Float:
    """Weights and offset of a logistic curve; a weight of the wrong sign is 0 instead."""
    count = values.shape[1]
    spread = values.std(axis=0) + 1e-9
    design = np.concatenate([values / spread, np.ones((len(values), 1))], axis=1)
    found = np.zeros(count + 1)
    free = np.append(values.std(axis=0) > 1e-9, True)
    for _ in range(count + 1):
        for _ in range(200):
            chances = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
            slope = design.T @ (share * (labels - chances)) - 1e-3 * found
            bend = (design * (share * chances * (1 - chances))[:, None]).T @ design
            bend += 1e-3 * np.eye(count + 1)
            step = np.zeros(count + 1)
            step[free] = np.linalg.solve(bend[np.ix_(free, free)], slope[free])
            found = found + np.clip(step, -1, 1)
            if np.abs(step).max() < 1e-9:
                break
        wrong = free & (np.append(found[:-1] * signs, 0.0) < 0)
        if not wrong.any():
            break
        free &= ~wrong
        found[wrong] = 0.0
    return np.append(found[:-1] / spread, found[-1]).round(4)


def fit_curve(rows: dict[str, Float]) -> Curve:
    """The curve between what is related and what is not.

    Rows are (a row's sum, gate features). The gate parts questions the memory
    can answer from those it cannot; the row's curve parts answers from rows far
    down the list of the same question. The power puts RELATED where at least
    REJECTED of the questions that the memory cannot answer are turned away.
    """

    def shares(parts: list[tuple[Float, float]]) -> tuple[Float, Float]:
        weights = [np.full(len(part), weight / max(len(part), 1)) for part, weight in parts]
        return np.concatenate([part for part, _ in parts]), np.concatenate(weights)

    able = np.concatenate([rows["answerable"], rows["nameless"]])
    values, share = shares([(able, 0.5), (rows["near"], 0.35), (rows["far"], 0.15)])
    labels = np.arange(len(values)) < len(able)
    gate = fit_logistic(values[:, 1:], labels.astype(float), share, np.array([1, 1, 1, -1, -1.0]))
    answers = np.concatenate([rows["answer"], rows["nameless answer"]])
    values, share = shares([(answers, 0.5), (rows["rest"], 0.5)])
    labels = np.arange(len(values)) < len(answers)
    own = fit_logistic(values[:, :1], labels.astype(float), share, np.array([1.0]))
    curve = Curve(
        gate=tuple(gate[:5].tolist()),
        gate_offset=float(gate[5]),
        slope=float(own[0]),
        offset=round(float(own[1]) + LENIENCE, 4),
        power=1.0,
    )
    marks = [("near", REJECTED), ("far", REJECTED), ("answer", 1 - KEPT)]
    cut = max(
        np.quantile(apply_curve(rows[name], curve), mark) for name, mark in marks if len(rows[name])
    )
    return replace(curve, power=round(float(np.log(RELATED) / np.log(cut)), 4))


def apply_curve(values: Float, curve: Curve) -> Float:
    """The scores of (sum, gate features) rows."""
    scores = [np.exp(log_score(row[:1], row[1:], curve=curve))[0] for row in values]
    return np.array(scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    parser.add_argument("--embedder", nargs="+", default=["wordllama", "none"])
    parser.add_argument("--cache", type=Path, help="folder for vectors computed before")
    parser.add_argument("--held", type=Path, help="projections that fit_pair.py --held wrote")
    parser.add_argument("--write", action="store_true", help="change ranking.json")
    options = parser.parse_args()
    memories = [memory for folder in options.data for memory in read_folder(folder)]
    models = {}
    for name in options.embedder:
        reader = Reader() if name == "pair" else None
        embedder = KeptPair(reader) if reader else load_embedder(name)
        held = sorted(options.held.glob("*.npz")) if reader and options.held else []
        own = {path.stem: KeptPair(reader, path) for path in held if reader}
        embed(memories, embedder, cache=options.cache, own=own)
        family = name.split(":")[0]
        models[family] = fit_family(family, memories, embedder)
        if reader:
            reader.save()
    if options.write:
        write(models)


def fit_family(family: str, memories: list[Memory], embedder: Embedder | None) -> RankingModel:
    """The model for one family of embedders, with its scores printed."""
    mean, spread = 0.0, 1.0
    if embedder is not None:
        measured = [
            measure_background(m.vectors[:: max(1, len(m.ids) // 64)])
            for m in memories
            if m.vectors is not None
        ]
        mean, spread = (round(float(value), 4) for value in np.mean(measured, axis=0))
    scale = replace(FLAT, cosine_mean=mean, cosine_spread=spread)
    weights: dict[str, tuple[float, ...]] = {}
    curves: dict[str, Curve] = {}
    for kind in ("conversation", "page"):
        of_kind = [m for m in memories if m.conversation == (kind == "conversation")]
        if not of_kind:
            raise SystemExit(f"No folder with {kind} rows was given.")
        weights[kind], curves[kind] = fit_kind(
            f"{family} {kind}", of_kind, memories, embedder, scale=scale
        )
    known = fitted_models().get(family, FLAT)
    model = RankingModel(
        conversation=weights["conversation"],
        statement=known.statement,
        page=weights["page"],
        conversation_curve=curves["conversation"],
        statement_curve=known.statement_curve,
        page_curve=curves["page"],
        cosine_mean=mean,
        cosine_spread=spread,
    )
    print(model, flush=True)
    return model


def fit_kind(
    label: str,
    of_kind: list[Memory],
    memories: list[Memory],
    embedder: Embedder | None,
    *,
    scale: RankingModel,
) -> tuple[tuple[float, ...], Curve]:
    """Weights and curve for rows of conversations or of pages, each judged held out."""
    conversation = of_kind[0].conversation
    used = [FEATURES.index(n) for n in (CONVERSATION_FEATURES if conversation else PAGE_FEATURES)]
    asked = {m.name: [ask(m, q) for q in m.questions] for m in of_kind}
    # The same questions without the names: most people do not name whom they talk to.
    nameless = {
        m.name: [
            ask(m, {**q, "text": a.question.vector_text})
            for q, a in zip(m.questions, asked[m.name], strict=True)
            if a.question.named and a.category != 5
        ]
        for m in of_kind
    }
    strange = {
        near: {
            m.name: [
                ask(m, query)
                for other in memories
                if other is not m and (other.conversation == conversation) == near
                for query in _spread(other.questions)
            ]
            for m in of_kind
        }
        for near in (True, False)
    }
    table = {name: [_features(item, scale) for item in items] for name, items in asked.items()}

    def learn(names: list[str]) -> Float:
        pairs = [
            (features, item.relevant)
            for name in names
            for features, item in zip(table[name], asked[name], strict=True)
            if item.relevant.any() and item.category != 5
        ]
        found = fit([p[0] for p in pairs], [p[1] for p in pairs], used)
        found[FEATURES.index("date")] = DATE_WEIGHT if conversation else 0.0
        return found

    names = list(asked)
    scored: list[Float] = []
    by_memory: dict[str, dict[str, list[Float]]] = {}
    for held in names:
        found = learn([name for name in names if name != held] or names)
        curve_rows = by_memory[held] = {name: [] for name in CURVE_ROWS}
        sums = [features @ found for features in table[held]]
        scored += sums
        print(f"  {label} {held}: {_show(measure(asked[held], sums))}", flush=True)
        for name, items in (
            ("answer", [i for i in asked[held] if i.category != 5]),
            ("nameless answer", nameless[held]),
        ):
            reached = [item for item in items if item.relevant.any()]
            other = "answerable" if name == "answer" else "nameless"
            for item in reached:
                best, answer, *rest = _curve_rows(item, found, scale)
                curve_rows[other].append(best)
                curve_rows[name].append(answer)
                curve_rows["rest"] += rest
        for name, near in (("near", True), ("far", False)):
            curve_rows[name] += [
                _curve_rows(i, found, scale)[0] for i in strange[near][held] if len(i.rows)
            ]
    everything = [item for name in names for item in asked[name]]
    print(f"{label} held out: {_show(measure(everything, scored))}")
    for name, sums in _baselines([t for n in names for t in table[n]], embedder).items():
        start = 0
        for held in names:
            if not conversation:
                part = sums[start : start + len(asked[held])]
                print(f"  {label} {held} {name}: {_show(measure(asked[held], part))}")
            start += len(asked[held])
        print(f"{label} {name}: {_show(measure(everything, sums))}")
    # Each memory is judged by a curve fitted on the others; the one that ships is fitted on all.
    through: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in CURVE_ROWS}
    for held in names:
        others = [name for name in names if name != held] or names
        held_out = fit_curve(_gather(by_memory, others))
        for name, values in _gather(by_memory, [held]).items():
            through[name].append(apply_curve(values, held_out) >= RELATED)
        rejected = 1 - np.concatenate([through["near"][-1], through["far"][-1]]).mean()
        print(f"  {label} {held} at {RELATED}: strangers rejected {rejected:.3f}")
    for name, parts in through.items():
        passed = np.concatenate(parts)
        if len(passed):
            print(
                f"{label} held out at {RELATED}: {name} {passed.mean():.3f} of {len(passed)} pass"
            )
    curve = fit_curve(_gather(by_memory, names))
    return tuple(round(float(value), 4) for value in learn(names)), curve


def _gather(by_memory: dict[str, dict[str, list[Float]]], names: list[str]) -> dict[str, Float]:
    return {
        kind: np.array([row for name in names for row in by_memory[name][kind]]).reshape(-1, 6)
        for kind in CURVE_ROWS
    }


def _features(item: Asked, scale: RankingModel) -> Float:
    return compute_features(
        item.evidence,
        item.question,
        cosine_mean=scale.cosine_mean,
        cosine_spread=scale.cosine_spread,
    ).astype(np.float64)


def _curve_rows(item: Asked, weights: Float, scale: RankingModel) -> list[Float]:
    """(sum, gate features) of the best row, of the best answer if any, of rows far down."""
    features = _features(item, scale)
    sums = sum_features(features, item.evidence.speaker, weights=weights.tolist())
    gate = gate_features(features, item.evidence, item.question, best_sum=float(sums.max()))
    chosen = [sums.max()]
    if item.relevant.any():
        chosen.append(sums[item.relevant].max())
        chosen += [np.sort(sums)[-1 - place] for place in FAR_DOWN if place < len(sums)]
    return [np.append(value, gate) for value in chosen]


def _baselines(table: list[Float], embedder: Embedder | None) -> dict[str, list[Float]]:
    result = {"words alone": [features[:, 0] for features in table]}
    if embedder is not None:
        result["vectors alone"] = [features[:, 5] for features in table]
        result["hand weights"] = [
            f[:, 1] / max(f[:, 1].max(), 1e-9)
            + 0.5 * f[:, 5] / max(f[:, 5].max(), 1e-9)
            + 0.2 * f[:, SPEAKER]
            for f in table
        ]
    return result


def _spread(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    usable = [q for q in questions if q.get("category") != 5]
    return usable[:: max(1, len(usable) // OFF_TOPIC)][:OFF_TOPIC]


def _show(figures: tuple[float, float, float, int]) -> str:
    return "recall@5 {:.4f} recall@10 {:.4f} nDCG@10 {:.4f} ({} questions)".format(*figures)


def write(models: dict[str, RankingModel]) -> None:
    """Put `models` into agentmem/data/ranking.json; other families keep their numbers."""
    entries = []
    for name, model in {**fitted_models(), **models}.items():
        fields = [
            f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in asdict(model).items()
        ]
        entries.append(f"{json.dumps(name)}: {{\n" + ",\n".join(fields) + "\n}")
    path = Path(__file__).resolve().parents[1] / "agentmem" / "data" / "ranking.json"
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")
    print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
