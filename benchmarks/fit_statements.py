"""Fit the models that tell what a clause says about its author; held-out figures by source.

    pip download --no-deps -d wheels evals==3.0.1.post1 inspect-evals==0.26.0 \\
        chatterbot-corpus==1.3.3
    python benchmarks/fit_statements.py --shared ../shared/bench/data --wheels wheels

fits the shipped weights, agentmem/data/statements.npz; `--check` prints figures for sources of
sentences that were held out instead, `--without NAME` leaves a source of prompts out.

The sentences are in benchmarks/data/statements, one file a source; in dialogues.jsonl are those of
benchmarks/data/profiles whose profile says what they are, the others without a label. handed.jsonl
has messages that hand a text over ("Make it rhyme: {}") or mean it ("Quick note about me: {}"),
into which sentences of the other files are put. The questions of benchmarks/data/questions state
nothing. Further prompts in which nothing is a statement are read from public sets that are no part
of the project: `--shared` names the folder with ordinary/dev.jsonl (Arena-Hard), prefs/dev.jsonl
(PrefEval), everyday/dev.jsonl and retrieval/*/queries.jsonl, `--wheels` one with three packages of
the registry that hold prompts.
Needs scipy, and the multilingual encoder for the second model.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import nets
import numpy as np
from gate_data import read_lines
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import softmax

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.search.embedders.use import DIMENSIONS, UseEmbedder  # noqa: E402
from agentmem.text.detect import in_first_person  # noqa: E402
from agentmem.text.language import find_language  # noqa: E402
from agentmem.text.statements import (  # noqa: E402
    BLANK,
    BUCKETS,
    KINDS,
    PLAIN_SCALE,
    VECTOR_SCALE,
    Clause,
    buckets,
    clauses,
    context_of,
    plain_features,
)

DATA = ROOT / "benchmarks" / "data" / "statements"
QUESTIONS = ROOT / "benchmarks" / "data" / "questions"
WEIGHTS = ROOT / "agentmem" / "data" / "statements.npz"
CACHE = ROOT / ".bench" / "statement_vectors.npz"
SPOKEN = ("german", "spanish", "french", "portuguese", "italian", "japanese", "chinese")
PLAN = nets.Plan(units=128, passes=16, pace=2e-3, decay=0.1, unseen=0.2)
KEPT = ("like", "dislike", "instruct", "avoid", "identity")
MOST_OF_A_PROMPT = 10
LONGEST_PROMPT = 20_000
ROUNDS = 120
FRAMED, FRAMED_OWN, FRAMED_WEIGHT = 0.3, 0.5, 0.5
"""How many of the statements are also put into other messages, and what those count."""
CERTAINLY_NOTHING = 0.97
"""What the letters think surer than this to be nothing is never given a vector."""
Example = tuple[
    str, Clause, tuple[Clause, ...], str, float
]  # source, clause, message, kind, weight


def read_examples(*, seed: int = 7) -> list[Example]:
    """Every labelled clause alone or in its message, and once more beside clauses of others."""
    rng = random.Random(seed)
    found: list[Example] = []
    single: list[tuple[str, str, str]] = []
    frames: dict[tuple[str, bool], list[str]] = {}
    for path in sorted(DATA.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            source = row["source"]
            if "frame" in row:
                frames.setdefault((row["lang"], row["own"]), []).append(row["frame"])
                continue
            if "text" in row:
                message = clauses(row["text"])
                found += [(source, one, message, "other", 1.0) for one in message]
                continue
            if "marked" in row:
                found += [(source, *one, 1.0) for one in _marked(row["marked"]) if one[2]]
                single += [(source, text.strip(), label) for text, label in row["marked"] if label]
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
        if label in KEPT and frames:
            alike = [one for one in by_source[source] if one[1] in KEPT]
            found += _framed(source, (text, label), alike, frames, rng)
    return found


def _framed(
    source: str,
    said: tuple[str, str],
    beside: Sequence[tuple[str, str]],
    frames: Mapping[tuple[str, bool], Sequence[str]],
    rng: random.Random,
) -> Iterator[Example]:
    """A statement inside a message that hands it over for work, and inside one that means it."""
    tongue = find_language(said[0]) or "en"
    for own in (False, True):
        choice = frames.get((tongue, own)) or frames["en", own]
        if rng.random() > (FRAMED_OWN if own else FRAMED):
            continue
        before, after = rng.choice(choice).split("{}")
        others = rng.choices(beside, k=rng.choice((0, 1, 2) if not own else (0, 0, 1)))
        stated = [(_ended(text), label) for text, label in (said, *others)]
        pieces = [(before, "other"), *stated, (after, "other")]
        labelled = pieces if own else [(text, "other") for text, _ in pieces]
        yield from ((source, *one, FRAMED_WEIGHT) for one in _marked(labelled))


def _ended(text: str) -> str:
    """A statement as a sentence of a longer text."""
    return text if text.rstrip().endswith((".", "!", "?", "。", "！", "？")) else f"{text}. "


def read_ordinary(sources: Mapping[str, Sequence[str]]) -> list[Example]:
    """Clauses of prompts of others; nothing in them is a statement."""
    rng = random.Random(5)
    found: list[Example] = []
    for name, texts in sources.items():
        for text in texts:
            message = clauses(text)
            chosen = rng.sample(message, min(MOST_OF_A_PROMPT, len(message)))
            found += [(name, one, message, "other", 0.7) for one in chosen]
    return found


def shared_prompts(folder: Path) -> dict[str, list[str]]:
    """The prompts and questions of the public sets in `folder`, by source."""
    questions = [
        asked["q"]
        for user in read_lines(folder / "everyday" / "dev.jsonl")
        for asked in user["questions"]
    ]
    looked_up = [
        row["text"]
        for path in sorted((folder / "retrieval").glob("*/queries.jsonl"))
        for row in read_lines(path)
    ]
    prefs = read_lines(folder / "prefs" / "dev.jsonl")
    return {
        "arena": [row["text"] for row in read_lines(folder / "ordinary" / "dev.jsonl")],
        "prefeval": [row["text"] for row in prefs if not row["preference"]],
        "everyday": questions,
        "looked up": looked_up,
    }


def asked_prompts() -> dict[str, list[str]]:
    """The questions and tasks that the gate is fitted on."""
    rows = [row for path in sorted(QUESTIONS.glob("*.jsonl")) for row in read_lines(path)]
    return {"asked": [row["q"] for row in rows if "q" in row]}


def wheel_prompts(folder: Path, *, of_each: int = 3) -> dict[str, list[str]]:
    """What three packages ask; `of_each` of the hundreds of task sets in one of them."""
    rng = random.Random(2)
    sets: dict[str, list[str]] = {}
    with zipfile.ZipFile(next(folder.glob("evals-*.whl"))) as wheel:
        for name in sorted(wheel.namelist()):
            if name.startswith("evals/registry/data/") and name.endswith(".jsonl"):
                with wheel.open(name) as lines:
                    sets.setdefault(name.split("/")[3], []).extend(_asked(islice(lines, 40)))
    asked = [
        text for texts in sets.values() for text in rng.sample(texts, min(of_each, len(texts)))
    ]
    with zipfile.ZipFile(next(folder.glob("inspect_evals-*.whl"))) as wheel:
        tasks = json.loads(
            wheel.read("inspect_evals/mind2web_sc/data/seeact/sample_labeled_all.json")
        )
    return {
        "evals": asked,
        "mind2web": sorted(set(_named(tasks, "confirmed_task"))),
        "chatter": _chatter(next(folder.glob("chatterbot_corpus-*.whl"))),
    }


def _chatter(path: Path) -> list[str]:
    """Lines said to a bot in other languages, of every other topic; who speaks of themselves is
    left out, and so are the other topics, by which the threshold can be judged."""
    found: list[str] = []
    with zipfile.ZipFile(path) as wheel:
        for name in sorted(wheel.namelist())[::2]:
            if name.endswith(".yml") and Path(name).parent.name in SPOKEN:
                lines = wheel.read(name).decode("utf-8", "replace").splitlines()
                found += [line[4:].strip(" '\"") for line in lines if line.startswith("- - ")]
    own = ("我", "私", "僕")
    return [
        line
        for line in dict.fromkeys(found)
        if line and not line.startswith(own) and not in_first_person(line)
    ]


def _asked(lines: Iterable[bytes]) -> Iterator[str]:
    """The last turn of the user in each line of a task set."""
    for line in lines:
        with suppress(ValueError, AttributeError):
            told = json.loads(line).get("input")
            turns = told if isinstance(told, list) else [{"role": "user", "content": told}]
            said = [turn["content"] for turn in turns if turn.get("role") == "user"]
            if said and isinstance(said[-1], str) and len(said[-1]) < LONGEST_PROMPT:
                yield said[-1]


def _named(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from [inner] if name == key and isinstance(inner, str) else _named(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _named(inner, key)


def _marked(pieces: Sequence[tuple[str, str]]) -> Iterator[tuple[Clause, tuple[Clause, ...], str]]:
    """The clauses of a message written as labelled pieces, each with the label of its most.

    One or two words of a longer piece say nothing by themselves ("Correction, …").
    """
    message = clauses("".join(text for text, _ in pieces))
    for clause in message:
        most, of, kind = 0, 0, "other"
        end = 0
        for text, label in pieces:
            start, end = end, end + len(text)
            share = min(end, clause.end) - max(start, clause.start)
            most, of, kind = max((most, of, kind), (share, len(text), label))
        scrap = len(clause.words.split()) <= 2 and clause.words.isascii() and 2 * most < of
        yield clause, message, "other" if scrap else kind


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
    """The multilingual vectors of `texts`, kept between runs."""
    known: dict[str, np.ndarray[Any, Any]] = {}
    if CACHE.exists():
        with np.load(CACHE) as stored:
            known = dict(zip(stored["keys"].tolist(), stored["rows"], strict=True))
    keys = [hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in texts]
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if missing:
        rows = UseEmbedder().embed_documents([text or " " for text in missing.values()])
        known |= dict(zip(missing, rows, strict=True))
        CACHE.parent.mkdir(exist_ok=True)
        np.savez(CACHE, keys=np.array(list(known)), rows=np.array(list(known.values())))
    return np.array([known[key] for key in keys], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Rows:
    """The features of clauses in their messages: hashed letters, and the few dense ones."""

    grams: Any
    dense: np.ndarray[Any, Any]

    def __getitem__(self, chosen: Any) -> Rows:
        return Rows(self.grams[chosen], self.dense[chosen])

    def without_vectors(self) -> Rows:
        return Rows(self.grams, self.dense[:, : -2 * DIMENSIONS])


def rows_of(found: Sequence[tuple[Clause, Sequence[Clause]]], *, vectors: bool) -> Rows:
    columns: list[int] = []
    values: list[float] = []
    pointers = [0]
    for clause, _ in found:
        hashed = buckets(clause.words)
        columns += hashed
        values += [1 / max(1, len(hashed)) ** 0.5] * len(hashed)
        pointers.append(len(columns))
    grams = sparse.csr_matrix(
        (np.array(values, dtype=np.float32), columns, pointers), shape=(len(found), BUCKETS)
    )
    messages = {id(message): message for _, message in found}
    known = {name: plain_features(message) for name, message in messages.items()}
    plain = [known[id(message)][clause.at] for clause, message in found]
    rows = Rows(grams, np.array(plain, dtype=np.float32) * np.float32(PLAIN_SCALE))
    return with_vectors(rows, found) if vectors else rows


def with_vectors(rows: Rows, found: Sequence[tuple[Clause, Sequence[Clause]]]) -> Rows:
    """The rows with the vector of each clause and of what its message begins and ends with."""
    around = [context_of(message) for _, message in found]
    made = vectors_of([*(shown(clause.words) for clause, _ in found), *around])
    own, beside = made[: len(found)], made[len(found) :]
    beside *= np.array([bool(text) for text in around])[:, None]
    return Rows(rows.grams, np.hstack([rows.dense, own * VECTOR_SCALE, beside * VECTOR_SCALE]))


@dataclass(frozen=True, slots=True)
class Fitted:
    """A softmax over `KINDS`: `weights` has a row a kind, `bias` a number a kind."""

    weights: np.ndarray[Any, Any]
    bias: np.ndarray[Any, Any]

    def chances(self, rows: Rows) -> np.ndarray[Any, Any]:
        scores = rows.grams @ self.weights[:, :BUCKETS].T
        scores = scores + rows.dense @ self.weights[:, BUCKETS:].T + self.bias
        return np.asarray(softmax(scores, axis=1))


def fit(rows: Rows, kinds: Iterable[str], weights: Any, strength: float) -> Fitted:
    """The multinomial logistic regression of `kinds`, with a quadratic penalty."""
    size = BUCKETS + rows.dense.shape[1]
    truly = np.array([[kind == one for one in KINDS] for kind in kinds], dtype=np.float32)
    weigh = np.asarray(weights, dtype=np.float32)[:, None]

    def cost(flat: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        made = flat.astype(np.float32).reshape(len(KINDS), size + 1)
        told = Fitted(made[:, :size], made[:, size]).chances(rows)
        off = (told - truly) * weigh
        slope = np.empty((len(KINDS), size + 1))
        slope[:, :BUCKETS] = (rows.grams.T @ off).T
        slope[:, BUCKETS:size] = off.T @ rows.dense
        slope[:, size] = off.sum(axis=0)
        slope[:, :size] += made[:, :size] / strength
        missed = -(np.log(told + 1e-12) * truly * weigh).sum(dtype=np.float64)
        penalty = (made[:, :size].astype(np.float64) ** 2).sum() / (2 * strength)
        return float(missed + penalty), slope.ravel()

    start = np.zeros(len(KINDS) * (size + 1))
    best = minimize(cost, start, jac=True, method="L-BFGS-B", options={"maxiter": ROUNDS}).x
    made = best.astype(np.float32).reshape(len(KINDS), size + 1)
    return Fitted(made[:, :size], made[:, size])


def fit_net(rows: Rows, kinds: Iterable[str], weights: Any) -> nets.Net:
    """The net that sees the plain features and the vector of a clause, and not its letters."""
    truly = np.array([[kind == one for one in KINDS] for kind in kinds], dtype=np.float32)
    plain = rows.dense.shape[1] - 2 * DIMENSIONS
    return nets.fit(rows.dense, truly, np.asarray(weights, dtype=np.float32), PLAN, alike=plain)


def by_net(net: nets.Net, rows: Rows) -> np.ndarray[Any, Any]:
    heard = np.maximum(rows.dense @ net.units + net.start, 0)
    return nets.chances(heard @ net.counts + net.offset)


def held_out(examples: Sequence[Example], *, strength: float, folds: int = 5) -> None:
    """Print how each kind is found in sources that were not learned from."""
    rows = rows_of([(clause, message) for _, clause, message, _, _ in examples], vectors=True)
    sources = sorted({source for source, *_ in examples})
    random.Random(3).shuffle(sources)
    kinds = np.array([kind for *_, kind, _ in examples])
    weights = np.array([weight for *_, weight in examples])
    fold_of = {source: at % folds for at, source in enumerate(sources)}
    fold = np.array([fold_of[source] for source, *_ in examples])
    found = {name: np.empty((len(examples), len(KINDS))) for name in ("letters", "vectors")}
    for at in range(folds):
        known, held = fold != at, fold == at
        letters = fit(rows[known].without_vectors(), kinds[known], weights[known], strength)
        found["letters"][held] = letters.chances(rows[held].without_vectors())
        net = fit_net(rows[known], kinds[known], weights[known])
        found["vectors"][held] = by_net(net, rows[held])
    for name, told in found.items():
        print(name)
        report(told, kinds, whole=weights == 1.0)
    print("both")
    report((found["letters"] + found["vectors"]) / 2, kinds, whole=weights == 1.0)


def report(told: np.ndarray[Any, Any], kinds: Any, *, whole: np.ndarray[Any, Any]) -> None:
    order: list[str] = list(KINDS)
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


def save(letters: Fitted, net: nets.Net, path: Path) -> None:
    """The weights of the letters as int8 with one scale a kind, and those of the net."""
    grams, rest = letters.weights[:, :BUCKETS], letters.weights[:, BUCKETS:]
    scale = np.abs(grams).max(axis=1) / 127
    np.savez_compressed(
        path,
        letters_grams=np.round(grams / scale[:, None]).astype(np.int8),
        letters_scale=scale.astype(np.float32),
        letters_rest=rest.astype(np.float16),
        letters_bias=letters.bias,
        net_units=net.units.astype(np.float16),
        net_start=net.start.astype(np.float32),
        net_counts=net.counts.astype(np.float32),
        net_offset=net.offset.astype(np.float32),
    )
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--strength", type=float, default=6.0, help="inverse of the penalty")
    parser.add_argument("--shared", type=Path, help="folder of public sets")
    parser.add_argument("--wheels", type=Path, help="folder of three packages with prompts")
    parser.add_argument("--without", action="append", default=[], help="a source to leave out")
    parser.add_argument("--out", type=Path, default=WEIGHTS, help="where the weights go")
    parser.add_argument("--check", action="store_true", help="hold out only, save nothing")
    parser.add_argument("--folds", type=int, default=5)
    options = parser.parse_args()
    prompts = asked_prompts() | (shared_prompts(options.shared) if options.shared else {})
    prompts |= wheel_prompts(options.wheels) if options.wheels else {}
    for name, texts in prompts.items():
        print(f"{name}: {len(texts):,} prompts{', left out' if name in options.without else ''}")
    examples = [one for one in read_examples() if one[0] not in options.without]
    examples += read_ordinary({k: v for k, v in prompts.items() if k not in options.without})
    print(f"{len(examples):,} examples, {sum(w == 1.0 for *_, w in examples):,} of them as written")
    if options.check:
        held_out(examples, strength=options.strength, folds=options.folds)
        return
    rows = rows_of([one[1:3] for one in examples], vectors=False)
    kinds = np.array([one[3] for one in examples])
    weights = np.array([one[4] for one in examples])
    letters = fit(rows, kinds, weights, options.strength)
    close = np.flatnonzero((kinds != "other") | (letters.chances(rows)[:, -1] < CERTAINLY_NOTHING))
    print(f"{len(close):,} of them are seen by the model with vectors")
    seen = with_vectors(rows[close], [examples[at][1:3] for at in close])
    save(letters, fit_net(seen, kinds[close], weights[close]), options.out)


if __name__ == "__main__":
    main()
