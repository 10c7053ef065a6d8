"""Fit the models that tell what a clause says about its author; held-out figures by source.

    python benchmarks/fit_statements.py                 # held out by source, then fit and save
    python benchmarks/fit_statements.py --ordinary prompts.jsonl   # learns them as nothing, too

The sentences are in benchmarks/data/statements, one file a source; the weights go to
agentmem/data/statements.npz. Needs scikit-learn, and MiniLM for the second model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.text.statements import BLANK, BUCKETS, KINDS, Clause, buckets, clauses, plain_features  # noqa: E402

DATA = ROOT / "benchmarks" / "data" / "statements"
WEIGHTS = ROOT / "agentmem" / "data" / "statements.npz"
CACHE = ROOT / ".bench" / "statement_vectors.npz"
KEPT = ("like", "dislike", "instruct", "avoid", "identity")
PLAIN_SCALE, VECTOR_SCALE = 0.35, 2.0
Example = tuple[
    str, Clause, tuple[Clause, ...], str, float
]  # source, clause, message, kind, weight


def read_examples(*, seed: int = 7) -> list[Example]:
    """Every labelled clause alone or in its message, and once more beside clauses of others."""
    rng = random.Random(seed)
    found: list[Example] = []
    single: list[tuple[str, str, str]] = []
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            source = row["source"]
            if "text" in row:
                message = clauses(row["text"])
                found += [(source, one, message, "other", 1.0) for one in message]
                continue
            texts = [(one["text"], one["label"]) for one in row["clauses"]]
            message = _message([text for text, _ in texts])
            found += [
                (source, one, message, label, 1.0)
                for one, (_, label) in zip(message, texts, strict=True)
            ]
            single += [(source, text, label) for text, label in texts]
    by_source: dict[str, list[tuple[str, str]]] = {}
    for source, text, label in single:
        by_source.setdefault(source, []).append((text, label))
    for source, text, label in single:
        others = rng.choices(by_source[source], k=rng.choice((1, 1, 2, 3)))
        at = rng.randrange(len(others) + 1)
        beside = [other for other, _ in others]
        message = _message([*beside[:at], text, *beside[at:]])
        found.append((source, message[at], message, label, 0.5))
    return found


def read_ordinary(path: Path, *, every: int, most: int = 10) -> list[Example]:
    """Clauses of prompts that are not part of the project; nothing in them is a statement."""
    rng = random.Random(5)
    found: list[Example] = []
    for line in path.read_text(encoding="utf-8").splitlines()[::every]:
        message = clauses(json.loads(line)["text"])
        chosen = rng.sample(message, min(most, len(message)))
        found += [("elsewhere", one, message, "other", 0.7) for one in chosen]
    return found


def _message(texts: Sequence[str]) -> tuple[Clause, ...]:
    made: list[Clause] = []
    start = 0
    for at, text in enumerate(texts):
        words = " ".join(text.lower().replace("’", "'").split())
        asks = words.endswith(("?", "？"))
        masked = words.strip(" .!?？")
        masked = _quoted(masked)
        made.append(Clause(start, start + len(text), masked, asks, at, texts[0][:40]))
        start += len(text) + 2
    return tuple(made)


def _quoted(words: str) -> str:
    from agentmem.text.regions import cover, quotation_spans

    return cover(words, quotation_spans(words), BLANK)


def shown(words: str) -> str:
    return words.replace(BLANK, "")


def vectors_of(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """The MiniLM vectors of `texts`, kept between runs."""
    known: dict[str, np.ndarray[Any, Any]] = {}
    if CACHE.exists():
        with np.load(CACHE) as stored:
            known = dict(zip(stored["keys"].tolist(), stored["rows"], strict=True))
    keys = [hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in texts]
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        from agentmem.search.embedders.minilm import MiniLMEmbedder

        rows = MiniLMEmbedder(threads=2).embed_documents([text or " " for text in missing.values()])
        known |= dict(zip(missing, rows, strict=True))
        CACHE.parent.mkdir(exist_ok=True)
        np.savez(CACHE, keys=np.array(list(known)), rows=np.array(list(known.values())))
    return np.array([known[key] for key in keys], dtype=np.float32)


def matrix(found: Sequence[tuple[Clause, Sequence[Clause]]], *, vectors: bool) -> Any:
    """The features of clauses in their messages, as rows."""
    columns: list[int] = []
    values: list[float] = []
    pointers = [0]
    for clause, _ in found:
        hashed = buckets(clause.words)
        columns += hashed
        values += [1 / max(1, len(hashed)) ** 0.5] * len(hashed)
        pointers.append(len(columns))
    grams = sparse.csr_matrix((values, columns, pointers), shape=(len(found), BUCKETS))
    plain = np.array([plain_features(clause, message) for clause, message in found])
    parts = [grams, sparse.csr_matrix(plain * PLAIN_SCALE)]
    if vectors:
        made = vectors_of([shown(clause.words) for clause, _ in found])
        parts.append(sparse.csr_matrix(made * VECTOR_SCALE))
    return sparse.hstack(parts, format="csr")


def fit(rows: Any, kinds: Sequence[str], weights: Sequence[float], strength: float) -> Any:
    model = LogisticRegression(C=strength, max_iter=300, tol=1e-3)
    return model.fit(rows, kinds, sample_weight=np.asarray(weights))


def held_out(
    examples: Sequence[Example], *, vectors: bool, strength: float, folds: int = 5
) -> None:
    """Print how each kind is found in sources that were not learned from."""
    rows = matrix([(clause, message) for _, clause, message, _, _ in examples], vectors=vectors)
    sources = sorted({source for source, *_ in examples})
    random.Random(3).shuffle(sources)
    kinds = np.array([kind for *_, kind, _ in examples])
    weights = np.array([weight for *_, weight in examples])
    fold_of = {source: at % folds for at, source in enumerate(sources)}
    fold = np.array([fold_of[source] for source, *_ in examples])
    told = np.empty((len(examples), len(KINDS)))
    order: list[str] = sorted(KINDS)
    for at in range(folds):
        model = fit(rows[fold != at], kinds[fold != at], weights[fold != at], strength)
        told[fold == at] = model.predict_proba(rows[fold == at])
    whole = weights == 1.0
    guess = np.array(order)[told.argmax(axis=1)]
    kept = sum(told[:, order.index(kind)] for kind in KEPT)
    truly = np.isin(kinds, KEPT)
    for threshold in (0.5, 0.6, 0.7, 0.8):
        flagged = (kept > threshold) & whole
        right = (flagged & truly).sum()
        print(
            f"  kept > {threshold}: recall {right / (truly & whole).sum():.3f}"
            f" precision {right / flagged.sum():.3f}",
            end=";",
        )
    against = np.isin(kinds, ("dislike", "avoid"))
    both = whole & truly & np.isin(guess, KEPT)
    turned = (np.isin(guess, ("dislike", "avoid")) != against) & both
    print(f"\n  polarity turned {turned.sum() / both.sum():.3f}")
    for kind in KINDS:
        is_it, said = (kinds == kind) & whole, (guess == kind) & whole
        hit = (is_it & said).sum()
        print(
            f"  {kind:9} {is_it.sum():5} recall {hit / is_it.sum():.3f}"
            f" precision {hit / max(1, said.sum()):.3f}"
        )


def save(models: dict[str, Any]) -> None:
    """The weights as int8 with one scale a kind; the bias is a plain feature."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for name, model in models.items():
        order = list(model.classes_)
        weights = model.coef_[[order.index(kind) for kind in KINDS]].astype(np.float32)
        bias = model.intercept_[[order.index(kind) for kind in KINDS]].astype(np.float32)
        grams, rest = weights[:, :BUCKETS], weights[:, BUCKETS:]
        scale = np.abs(grams).max(axis=1) / 127
        arrays |= {
            f"{name}_grams": np.round(grams / scale[:, None]).astype(np.int8),
            f"{name}_scale": scale.astype(np.float32),
            f"{name}_rest": rest.astype(np.float16),
            f"{name}_bias": bias,
        }
    np.savez_compressed(WEIGHTS, allow_pickle=False, **arrays)
    print(f"{WEIGHTS.name}: {WEIGHTS.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--strength", type=float, default=6.0, help="inverse of the penalty")
    parser.add_argument(
        "--ordinary", type=Path, help="more prompts that state nothing, as JSON lines"
    )
    parser.add_argument(
        "--half", action="store_true", help="learn from every other one of them only"
    )
    parser.add_argument("--quick", action="store_true", help="fit and save only")
    parser.add_argument("--check", action="store_true", help="hold out only, save nothing")
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    examples = read_examples()
    if options.ordinary:
        examples += read_ordinary(options.ordinary, every=2 if options.half else 1)
    print(f"{len(examples):,} examples, {sum(w == 1.0 for *_, w in examples):,} of them as written")
    pairs = [(clause, message) for _, clause, message, _, _ in examples]
    kinds = [kind for *_, kind, _ in examples]
    weights = [weight for *_, weight in examples]
    models = {}
    for name, vectors in (("letters", False), ("vectors", True)):
        print(name)
        if not options.quick:
            held_out(examples, vectors=vectors, strength=options.strength, folds=options.folds)
        if options.check:
            continue
        models[name] = fit(matrix(pairs, vectors=vectors), kinds, weights, options.strength)
    if models:
        save(models)


if __name__ == "__main__":
    main()
