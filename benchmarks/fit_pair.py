"""Fit the projections of the default embedder: questions near what answers them.

    python benchmarks/fit_pair.py --data ../shared/bench/data/retrieval/locomo_dev

fits the shipped ones, agentmem/data/pair.npz, on benchmarks/data/told (a statement and a question
for it, a line each), the people of benchmarks/data/questions and `blind/choose.jsonl`, and the
conversations that `--data` names; with the same vectors it writes the same bytes again. Each
set is a crowd: a question's answer is to stand before everything else that was told in its set.
`--judge` prints recall@10 by the vectors alone for each crowd that is left out of the fit,
and for `--unseen` files, beside both models alone; `--held FOLDER` writes for each conversation
a fit without every other one, itself among them, so that `fit_ranking.py --held FOLDER` fits
and judges by vectors that have not seen it.
What the two models say is kept in .bench.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gate_data import query_of, read_lines
from numpy.typing import NDArray
from ranking_data import read_folder

from agentmem.search.embedders.pair import DIMENSIONS, WEIGHTS, PairEmbedder
from agentmem.search.question import read_question

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "benchmarks" / "data"
CACHE = ROOT / ".bench" / "pair_rows.npz"
HEAT = 0.1
"""Cosines are divided by this before they are weighed against each other."""
ROUNDS, STEP, PULL = 60, 0.001, 30.0
"""How often and how far the projections move, and how they are drawn back to where they began."""
PEOPLE = ("questions/pairs.jsonl", "questions/people.jsonl", "blind/choose.jsonl")
Rows = NDArray[np.float32]
Projections = dict[str, Rows]


@dataclass(frozen=True, eq=False)
class Crowd:
    """What was told in one set, the questions asked of it and the rows that answer each."""

    name: str
    told: Rows
    asked: Rows
    answers: tuple[tuple[int, ...], ...]
    languages: tuple[str, ...]


class Reader:
    """What both models say of a text, kept between runs."""

    def __init__(self) -> None:
        self.embedder = PairEmbedder()
        self._known: dict[str, Rows] = {}
        if CACHE.exists():
            with np.load(CACHE) as stored:
                self._known = dict(zip(stored["keys"].tolist(), stored["rows"], strict=True))

    def __call__(self, texts: Sequence[str]) -> Rows:
        keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
                for text in texts]  # fmt: skip
        missing = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in self._known
        }
        if missing:
            rows = self.embedder.read(list(missing.values()))
            self._known |= dict(zip(missing, rows, strict=True))
        return np.array([self._known[key] for key in keys], dtype=np.float32)

    def save(self) -> None:
        CACHE.parent.mkdir(exist_ok=True)
        np.savez(CACHE, keys=np.array(list(self._known)), rows=np.array(list(self._known.values())))


class KeptPair(PairEmbedder):
    """The default embedder over what a reader keeps; `path` names projections of its own."""

    def __init__(self, reader: Reader, path: Path | None = None) -> None:
        super().__init__(path)
        self._models = reader.embedder._models
        self._reader = reader

    def read(self, texts: Sequence[str]) -> Rows:
        return self._reader(texts)


def pairs(path: Path, read: Reader) -> Crowd:
    """A file of statements with a question each."""
    lines = read_lines(path)
    return Crowd(
        name=path.stem,
        told=read([line["m"] for line in lines]),
        asked=read([line["q"] for line in lines]),
        answers=tuple((at,) for at in range(len(lines))),
        languages=tuple(line["lang"] for line in lines),
    )


def people(path: Path, read: Reader) -> Crowd:
    """All people of a file in the everyday form, in one room."""
    told: list[str] = []
    asked: list[tuple[str, tuple[int, ...], str]] = []
    for person in read_lines(path):
        at = {one["id"]: len(told) + place for place, one in enumerate(person["memories"])}
        told += [one["text"] for one in person["memories"]]
        asked += [
            (query_of(q)[:2][-1], tuple(at[gold] for gold in q["gold"]), person["lang"])
            for q in person["questions"]
            if q["gold"]
        ]
    texts, answers, languages = zip(*asked, strict=True)
    return Crowd(path.stem, read(told), read(texts), answers, languages)


def conversations(folder: Path, read: Reader) -> list[Crowd]:
    """Each conversation of a folder in the retrieval form."""
    crowds = []
    for memory in read_folder(folder):
        place = {name: at for at, name in enumerate(memory.ids)}
        asked = [q for q in memory.questions if q.get("category") != 5]
        texts = [read_question(q["text"], memory.speakers).vector_text for q in asked]
        answers = tuple(
            tuple(place[one] for one in memory.gold[q["_id"]] if one in place) for q in asked
        )
        known = [at for at, found in enumerate(answers) if found]
        crowds.append(
            Crowd(
                memory.name,
                read(memory.texts),
                read([texts[at] for at in known]),
                tuple(answers[at] for at in known),
                ("en",) * len(known),
            )
        )
    return crowds


def unit(rows: Rows) -> Rows:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def fit(crowds: Sequence[Crowd], *, start: Rows) -> Projections:
    """Projections by which a question is likelier to find its answers than anything else told.

    Both begin as the plane in which all rows differ most, and gradient steps (Adam) move them
    towards a smaller cross-entropy between what is near a question and what answers it.
    """
    found = {"asked": start.copy(), "told": start.copy()}
    mean = {name: np.zeros_like(start) for name in found}
    square = {name: np.zeros_like(start) for name in found}
    count = sum(len(crowd.asked) for crowd in crowds)
    for step in range(1, ROUNDS + 1):
        slope = {name: PULL / count * (found[name] - start) for name in found}
        for crowd in crowds:
            asked, told = crowd.asked @ found["asked"], crowd.told @ found["told"]
            one, other = unit(asked), unit(told)
            near = one @ other.T / HEAT
            near = np.exp(near - near.max(axis=1, keepdims=True))
            near /= near.sum(axis=1, keepdims=True)
            for row, answers in enumerate(crowd.answers):
                near[row, list(answers)] -= 1 / len(answers)
            near /= HEAT * count
            slope["asked"] += crowd.asked.T @ _through(near @ other, asked, one)
            slope["told"] += crowd.told.T @ _through(near.T @ one, told, other)
        for name, before in list(found.items()):
            mean[name] = 0.9 * mean[name] + 0.1 * slope[name]
            square[name] = 0.99 * square[name] + 0.01 * slope[name] ** 2
            size = np.sqrt(square[name] / (1 - 0.99**step)) + 1e-6
            found[name] = before - STEP * mean[name] / (1 - 0.9**step) / size
    return {name: np.asarray(value, dtype=np.float32) for name, value in found.items()}


def _through(slope: Rows, rows: Rows, units: Rows) -> Rows:
    """The slope before rows were brought to unit length."""
    across = slope - units * (units * slope).sum(axis=1, keepdims=True)
    return np.asarray(across / np.linalg.norm(rows, axis=1, keepdims=True))


def plane(crowds: Sequence[Crowd]) -> Rows:
    """The DIMENSIONS directions in which what was told and asked differs most."""
    rows = unit(np.concatenate([part for crowd in crowds for part in (crowd.told, crowd.asked)]))
    _, turned = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
    return np.asarray(turned[:, ::-1][:, :DIMENSIONS], dtype=np.float32)


def recall(crowd: Crowd, asked: Rows, told: Rows) -> str:
    """The share of answers among the first ten, by the vectors alone."""
    near = unit(asked) @ unit(told).T
    shares: dict[str, list[float]] = {}
    for row, answers in enumerate(crowd.answers):
        first = set(np.argsort(-near[row], kind="stable")[:10].tolist())
        share = len(first & set(answers)) / len(answers)
        for key in ("all", "en" if crowd.languages[row] == "en" else "other"):
            shares.setdefault(key, []).append(share)
    return " ".join(f"{key} {np.mean(values):.3f}" for key, values in sorted(shares.items()))


def report(crowd: Crowd, found: Projections) -> None:
    ways = {
        "fitted": (crowd.asked @ found["asked"], crowd.told @ found["told"]),
        "side by side": (crowd.asked, crowd.told),
        "MiniLM": (crowd.asked[:, :384], crowd.told[:, :384]),
        "USE": (crowd.asked[:, 384:], crowd.told[:, 384:]),
    }
    shown = "; ".join(f"{name} {recall(crowd, *way)}" for name, way in ways.items())
    print(f"{crowd.name} ({len(crowd.asked)}): {shown}", flush=True)


def save(found: Projections, path: Path) -> None:
    """As bytes with a scale a column."""
    arrays: dict[str, Any] = {}
    for name, value in found.items():
        scale = np.abs(value).max(axis=0) / 127
        arrays[name] = np.round(value / scale).astype(np.int8)
        arrays[f"{name}_scale"] = scale.astype(np.float32)
    np.savez_compressed(path, **arrays)
    print(f"wrote {path.name}, {path.stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, default=[], help="folders of conversations")
    parser.add_argument("--unseen", nargs="+", type=Path, default=[], help="people in no fit")
    parser.add_argument("--judge", action="store_true", help="leave each crowd out; write nothing")
    parser.add_argument("--held", type=Path, help="where to write fits without each conversation")
    options = parser.parse_args()
    read = Reader()
    talks = [crowd for folder in options.data for crowd in conversations(folder, read)]
    crowds = [pairs(path, read) for path in sorted((DATA / "told").glob("*.jsonl"))]
    crowds += [people(DATA / name, read) for name in PEOPLE]
    crowds += talks
    unseen = [people(path, read) for path in options.unseen]
    read.save()
    start = plane(crowds)
    if options.held:
        options.held.mkdir(parents=True, exist_ok=True)
        for left in (talks[::2], talks[1::2]):
            found = fit([crowd for crowd in crowds if crowd not in left], start=start)
            for crowd in left:
                report(crowd, found)
                save(found, options.held / f"{crowd.name}.npz")
        return
    if options.judge:
        for left_out in crowds:
            report(left_out, fit([one for one in crowds if one is not left_out], start=start))
        return
    found = fit(crowds, start=start)
    for crowd in unseen:
        report(crowd, found)
    save(found, ROOT / "agentmem" / "data" / WEIGHTS)


if __name__ == "__main__":
    main()
