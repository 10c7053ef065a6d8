"""Fit the ranking weights and print what they are worth on conversations they have not seen.

    python benchmarks/fit_ranking.py --data DIR [DIR …] [--embedder NAME …] [--write]

Folders are in the benchmark form (corpus.jsonl, queries.jsonl, qrels.tsv); those
with speakers teach the conversation weights, the others the page weights. Only
numpy: a listwise softmax fitted by Newton's method, leg weights at least 0. The
same data gives the same numbers. `--write` replaces agentmem/core/ranking_weights.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from ranking_data import Asked, Memory, ask, embed, read_folder

from agentmem.core.ranking import (
    FEATURES,
    LEG_FEATURES,
    RELATED,
    Model,
    compute_features,
    measure_background,
)
from agentmem.embedders import load_embedder
from agentmem.protocols import Embedder

RIDGE = 10.0
OFF_TOPIC = 60
"""Questions of every other memory asked of each memory, for the calibration."""

Float = NDArray[np.float64]
CONVERSATION_FEATURES = [f for f in FEATURES if f not in ("lexical", "date")]
PAGE_FEATURES = ["lexical", "cosine"]
DATE_WEIGHT = 0.5  # too few dated questions to fit; see docs/ranking.md
FLAT = Model(
    conversation=(0.0,) * len(FEATURES),
    page=(0.0,) * len(FEATURES),
    conversation_curve=(1.0, 0.0),
    page_curve=(1.0, 0.0),
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
            while size > 1e-4 and loss(weights + size * step)[0] > value - 1e-4 * size * slope @ step:
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
    return *(float(value) for value in np.mean(rows, axis=0)), len(rows)


def fit_curve(related: Float, unrelated: Float) -> tuple[float, float]:
    """Slope and offset of a logistic curve through both, with RELATED where they part best.

    The slope is the maximum-likelihood one with both sides weighing the same;
    the offset puts RELATED at the sum where the worse of the two error rates,
    kept too few or rejected too few, is smallest.
    """
    values = np.concatenate([related, unrelated])
    labels = np.concatenate([np.ones(len(related)), np.zeros(len(unrelated))])
    share = np.where(labels == 1, 0.5 / len(related), 0.5 / len(unrelated))
    design = np.stack([values, np.ones(len(values))], axis=1)
    curve = np.zeros(2)
    for _ in range(100):
        chances = 1 / (1 + np.exp(-design @ curve))
        slope = design.T @ (share * (labels - chances)) - 1e-4 * curve
        bend = (design * (share * chances * (1 - chances))[:, None]).T @ design + 1e-4 * np.eye(2)
        step = np.linalg.solve(bend, slope)
        curve += np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-9:
            break
    cuts = np.quantile(unrelated, np.linspace(0.80, 0.98, 37))
    worse = [max((related < cut).mean(), 0.5 * (unrelated >= cut).mean()) for cut in cuts]
    cut = cuts[int(np.argmin(worse))]
    return float(curve[0]), float(np.log(RELATED / (1 - RELATED)) - curve[0] * cut)


def keep_and_reject(related: Float, unrelated: Float, cut: float) -> tuple[float, float]:
    return float((related >= cut).mean()), float((unrelated < cut).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True)
    parser.add_argument("--embedder", nargs="+", default=["wordllama", "none"])
    parser.add_argument("--cache", type=Path, help="folder for vectors computed before")
    parser.add_argument("--write", action="store_true", help="replace ranking_weights.py")
    options = parser.parse_args()
    memories = [memory for folder in options.data for memory in read_folder(folder)]
    models = {}
    for name in options.embedder:
        embedder = load_embedder(name)
        embed(memories, embedder, cache=options.cache)
        family = name.split(":")[0]
        models[family] = fit_family(family, memories, embedder)
    if options.write:
        write(models)


def fit_family(family: str, memories: list[Memory], embedder: Embedder | None) -> Model:
    """The model for one family of embedders, with its scores printed."""
    background = (0.0, 1.0)
    if embedder is not None:
        samples = [m.vectors[:: max(1, len(m.ids) // 64)] for m in memories if m.vectors is not None]
        measured = [measure_background(sample) for sample in samples]
        background = tuple(np.mean(measured, axis=0).round(4).tolist())  # type: ignore[assignment]  # a pair
    scale = _with(FLAT, cosine_mean=background[0], cosine_spread=background[1])
    curves, weights = {}, {}
    for kind, used_names, date in (
        ("conversation", CONVERSATION_FEATURES, DATE_WEIGHT),
        ("page", PAGE_FEATURES, 0.0),
    ):
        of_kind = [m for m in memories if m.conversation == (kind == "conversation")]
        if not of_kind:
            raise SystemExit(f"No folder with {kind} rows was given.")
        used = [FEATURES.index(name) for name in used_names]
        asked = {m.name: [ask(m, q, embedder) for q in m.questions] for m in of_kind}
        strange = {
            m.name: [
                (other.conversation == m.conversation, ask(m, query, embedder))
                for other in memories
                if other is not m
                for query in itertools.islice(_spread(other.questions), OFF_TOPIC)
            ]
            for m in of_kind
        }
        table = {
            name: [np.asarray(compute_features(i.evidence, i.question, model=scale), float) for i in items]
            for name, items in asked.items()
        }
        odd = {
            name: [
                (near, np.asarray(compute_features(i.evidence, i.question, model=scale), float))
                for near, i in items
                if len(i.rows)
            ]
            for name, items in strange.items()
        }

        def learn(names: list[str]) -> Float:
            pairs = [
                (features, item.relevant)
                for name in names
                for features, item in zip(table[name], asked[name], strict=True)
                if item.relevant.any() and item.category != 5
            ]
            found = fit([p[0] for p in pairs], [p[1] for p in pairs], used)
            found[FEATURES.index("date")] = date
            return found

        names = list(asked)
        related, near, far, everything, scored = [], [], [], [], []
        for held in names:
            found = learn([name for name in names if name != held] or names)
            sums = [features @ found for features in table[held]]
            everything += asked[held]
            scored += sums
            print(f"  {family} {kind} {held}: {_show(measure(asked[held], sums))}", flush=True)
            related += [
                sums[at][item.relevant].max()
                for at, item in enumerate(asked[held])
                if item.relevant.any() and item.category != 5
            ]
            near += [(features @ found).max() for alike, features in odd[held] if alike]
            far += [(features @ found).max() for alike, features in odd[held] if not alike]
        print(f"{family} {kind} held out: {_show(measure(everything, scored))}")
        baselines = _baselines(asked, table, embedder is not None)
        for label, sums in baselines.items():
            print(f"{family} {kind} {label}: {_show(measure(everything, sums))}")
        curve = fit_curve(np.array(related), np.array(near + far))
        cut = (np.log(RELATED / (1 - RELATED)) - curve[1]) / curve[0]
        for label, unrelated in (("other sort", far), ("same sort", near)):
            if unrelated:
                kept, rejected = keep_and_reject(np.array(related), np.array(unrelated), cut)
                print(f"{family} {kind} at {RELATED}: kept {kept:.3f}, {label} rejected {rejected:.3f}")
        curves[kind] = tuple(round(value, 4) for value in curve)
        weights[kind] = tuple(round(float(value), 4) for value in learn(names))
    model = Model(
        conversation=weights["conversation"],
        page=weights["page"],
        conversation_curve=curves["conversation"],
        page_curve=curves["page"],
        cosine_mean=background[0],
        cosine_spread=background[1],
    )
    print(family, json.dumps(dict(zip(FEATURES, model.conversation, strict=True))))
    print(family, model.page[0], model.page[5], model.conversation_curve, model.page_curve)
    return model


def _baselines(asked, table, vectors: bool) -> dict[str, list[Float]]:  # type: ignore[no-untyped-def]  # local
    flat = [features for name in asked for features in table[name]]
    result = {"words alone": [f[:, 0] for f in flat]}
    if vectors:
        result["vectors alone"] = [f[:, 5] for f in flat]
        result["hand weights"] = [
            f[:, 1] / max(f[:, 1].max(), 1e-9) + 0.5 * f[:, 5] / max(f[:, 5].max(), 1e-9) + 0.2 * f[:, 10]
            for f in flat
        ]
    return result


def _spread(questions):  # type: ignore[no-untyped-def]  # local
    usable = [q for q in questions if q.get("category") != 5]
    return usable[:: max(1, len(usable) // OFF_TOPIC)]


def _with(model: Model, **changes: float) -> Model:
    from dataclasses import replace

    return replace(model, **changes)  # type: ignore[arg-type]  # floats into float fields


def _show(figures: tuple[float, float, float, int]) -> str:
    return "recall@5 {:.4f} recall@10 {:.4f} nDCG@10 {:.4f} ({} questions)".format(*figures)


def write(models: dict[str, Model]) -> None:
    """Replace agentmem/core/ranking_weights.py with `models`."""
    lines = [
        '"""The fitted ranking models. Generated by benchmarks/fit_ranking.py: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from agentmem.core.ranking import Model",
        "",
        "MODELS = {",
    ]
    for name, model in models.items():
        lines.append(f'    "{name}": {model!r},')
    lines += ["}", ""]
    path = Path(__file__).resolve().parents[1] / "agentmem" / "core" / "ranking_weights.py"
    path.write_text("\n".join(lines), encoding="utf-8")
    print(f"wrote {path.name}; run ruff format on it")


if __name__ == "__main__":
    main()
