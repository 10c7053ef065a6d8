"""Answers without a model: how often the sentence that answers is among those quoted.

    python benchmarks/extractive.py --data FOLDER [--half tune|held|all] [--most 3] \\
        [--embedder NAME] [--every N] [--json]

FOLDER holds the public sets of benchmarks/retrieval.py. Every question of the
conversations gets sources in which its answer is: `turns` are the ten turns a
plain word search finds, the answering ones put in where it misses them;
`sessions` are whole conversations of a day, the one with the answer among
three. A question counts when a sentence of a turn that answers it is quoted.
Conversations are parted in two halves, one to tune on, one held out. `abstracts`
asks whether a claim's sentence comes from the paper it belongs to, out of ten.
`strangers` asks of sources from another conversation: the share refused. With
`--embedder minilm` sentences are compared by meaning too, as a loop does by default.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import log1p
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agentmem.models.extract import Embed, ExtractSource, extract_answer  # noqa: E402
from agentmem.search.embedders.base import load_embedder  # noqa: E402
from agentmem.text.sentences import sentences  # noqa: E402
from agentmem.text.terms import analyse, analyse_query  # noqa: E402

UNANSWERABLE = 5


@dataclass(frozen=True)
class Case:
    """A question, its sources, and the spans of each source (by number) that answer it."""

    question: str
    sources: tuple[ExtractSource, ...]
    answers: Mapping[int, tuple[tuple[int, int], ...]]
    group: str = ""


Quoted = list[tuple[int, int, int]]
Method = Callable[[Case, int], Quoted]


def ours(case: Case, most: int, *, embed: Embed | None = None) -> Quoted:
    answer = extract_answer(case.question, case.sources, most_sentences=most, embed=embed)
    return [(part.index, part.start, part.end) for part in answer.sentences]


def first_sentences(case: Case, most: int) -> Quoted:
    return _all(case)[:most]


def longest_sentences(case: Case, most: int) -> Quoted:
    return sorted(_all(case), key=lambda span: span[1] - span[2])[:most]


def random_sentences(case: Case, most: int) -> Quoted:
    spans = _all(case)
    return random.Random(case.question).sample(spans, min(most, len(spans)))


def plain_bm25(case: Case, most: int) -> Quoted:
    spans = _all(case)
    texts = {source.index: source.text for source in case.sources}
    terms = [Counter(analyse(texts[index][start:end])) for index, start, end in spans]
    scores = _bm25([term for term, _ in analyse_query(case.question)], terms)
    ranked = sorted(range(len(spans)), key=lambda place: -scores[place])
    return [spans[place] for place in ranked[:most]]


METHODS: dict[str, Method] = {
    "first sentences": first_sentences,
    "longest sentences": longest_sentences,
    "random sentences": random_sentences,
    "plain BM25": plain_bm25,
    "extract_answer": ours,
}


def _all(case: Case) -> Quoted:
    return [(s.index, start, end) for s in case.sources for start, end in sentences(s.text)]


def _bm25(asked: Sequence[str], rows: Sequence[Counter[str]]) -> list[float]:
    mean = sum(map(Counter.total, rows)) / max(1, len(rows)) or 1.0
    held = Counter(term for row in rows for term in row)
    scores = [0.0] * len(rows)
    for term in asked:
        worth = log1p((len(rows) - held[term] + 0.5) / (held[term] + 0.5))
        for place, row in enumerate(rows):
            if often := row[term]:
                scores[place] += worth * often * 2.2 / (often + 0.3 + 0.9 * row.total() / mean)
    return scores


def is_hit(case: Case, quoted: Quoted) -> bool:
    """Whether something quoted lies in a span that answers."""
    return any(
        start < last and first < end
        for index, start, end in quoted
        for first, last in case.answers.get(index, ())
    )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _relevant(folder: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query, document, *_ = line.split("\t")
        found[query].append(document)
    return found


class Conversations:
    """The turns of all conversations, and the questions whose answer is in them."""

    def __init__(self, folder: Path) -> None:
        self.turns = {row["_id"]: row for row in _lines(folder / "corpus.jsonl")}
        self.by_group: dict[str, list[str]] = defaultdict(list)
        for turn_id, row in self.turns.items():
            self.by_group[row["group"]].append(turn_id)
        self.terms = {
            turn_id: Counter(analyse(f"{row['speaker']} {row['text']}"))
            for turn_id, row in self.turns.items()
        }
        relevant = _relevant(folder)
        self.questions = [
            (row["text"], row["group"], [t for t in relevant[row["_id"]] if t in self.turns])
            for row in _lines(folder / "queries.jsonl")
            if row.get("category") != UNANSWERABLE
        ]
        self.questions = [question for question in self.questions if question[2]]

    def written(self, turn_id: str) -> str:
        row = self.turns[turn_id]
        return f"{row['speaker']}: {row['text']}"

    def turn_cases(self, count: int = 10) -> Iterator[Case]:
        for question, group, answering in self.questions:
            ids = self.by_group[group]
            asked = [term for term, _ in analyse_query(question)]
            scores = _bm25(asked, [self.terms[turn_id] for turn_id in ids])
            ranked = [ids[place] for place in sorted(range(len(ids)), key=lambda p: -scores[p])]
            found = [turn_id for turn_id in ranked if turn_id not in answering]
            chosen = [*answering, *found][:count]
            random.Random(question).shuffle(chosen)
            yield self._case(question, group, chosen, answering)

    def stranger_cases(self, count: int = 10) -> Iterator[Case]:
        groups = sorted(self.by_group)
        for question, group, _ in self.questions:
            other = groups[(groups.index(group) + 1) % len(groups)]
            chosen = random.Random(question).sample(self.by_group[other], count)
            yield self._case(question, group, chosen, [])

    def _case(self, question: str, group: str, chosen: list[str], answering: list[str]) -> Case:
        sources = tuple(
            ExtractSource(index=n, text=self.written(turn_id), title=self.turns[turn_id]["date"])
            for n, turn_id in enumerate(chosen, start=1)
        )
        answers = {
            n: ((0, len(sources[n - 1].text)),)
            for n, turn_id in enumerate(chosen, start=1)
            if turn_id in answering
        }
        return Case(question=question, sources=sources, answers=answers, group=group)

    def session_cases(self, count: int = 3) -> Iterator[Case]:
        sessions: dict[tuple[str, int], list[str]] = defaultdict(list)
        for turn_id, row in self.turns.items():
            sessions[row["group"], row["session"]].append(turn_id)
        for question, group, answering in self.questions:
            wanted = {(group, self.turns[turn_id]["session"]) for turn_id in answering}
            if len(wanted) > count:
                continue
            others = [key for key in sessions if key[0] == group and key not in wanted]
            draw = random.Random(question)
            keys = [*sorted(wanted), *draw.sample(others, min(len(others), count - len(wanted)))]
            draw.shuffle(keys)
            yield self._session_case(question, group, [sessions[key] for key in keys], answering)

    def _session_case(
        self, question: str, group: str, chosen: list[list[str]], answering: list[str]
    ) -> Case:
        sources: list[ExtractSource] = []
        answers: dict[int, tuple[tuple[int, int], ...]] = {}
        for number, turn_ids in enumerate(chosen, start=1):
            text, spans = "", []
            for turn_id in turn_ids:
                start = len(text)
                text += self.written(turn_id)
                if turn_id in answering:
                    spans.append((start, len(text)))
                text += "\n\n"
            sources.append(
                ExtractSource(index=number, text=text, title=self.turns[turn_ids[0]]["date"])
            )
            answers[number] = tuple(spans)
        return Case(question=question, sources=tuple(sources), answers=answers, group=group)


def abstract_cases(folder: Path, count: int = 10) -> Iterator[Case]:
    """Claims with the abstract that speaks of them among those a word search finds."""
    texts = {row["_id"]: row["text"] for row in _lines(folder / "corpus.jsonl")}
    ids = list(texts)
    terms = [Counter(analyse(texts[document])) for document in ids]
    relevant = _relevant(folder)
    for row in _lines(folder / "queries.jsonl"):
        wanted = [document for document in relevant[row["_id"]] if document in texts]
        if not wanted:
            continue
        scores = _bm25([term for term, _ in analyse_query(row["text"])], terms)
        ranked = [ids[place] for place in sorted(range(len(ids)), key=lambda p: -scores[p])]
        chosen = [*wanted, *(found for found in ranked[:20] if found not in wanted)][:count]
        random.Random(row["text"]).shuffle(chosen)
        yield Case(
            question=row["text"],
            sources=tuple(
                ExtractSource(index=n, text=texts[one]) for n, one in enumerate(chosen, start=1)
            ),
            answers={
                n: ((0, len(texts[one])),) for n, one in enumerate(chosen, start=1) if one in wanted
            },
            group=row["_id"],
        )


def in_half(case: Case, half: str, groups: Sequence[str]) -> bool:
    """Whether the case belongs to `half`: every other conversation, or every other claim."""
    return half == "all" or (groups.index(case.group) % 2 == 0) == (half == "tune")


def measure(cases: Sequence[Case], most: int) -> dict[str, float]:
    """The share of cases in which each method quotes an answering sentence."""
    return {
        name: sum(is_hit(case, method(case, most)) for case in cases) / max(1, len(cases))
        for name, method in METHODS.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--half", choices=("tune", "held", "all"), default="held")
    parser.add_argument("--most", type=int, default=3)
    parser.add_argument("--sets", nargs="*", default=["turns", "sessions", "abstracts"])
    parser.add_argument("--embedder", default="none", help="compare by meaning too: minilm")
    parser.add_argument("--every", type=int, default=1, help="ask every so many questions only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    embedder = load_embedder(options.embedder)
    embed = None if embedder is None else embedder.embed_documents
    METHODS["extract_answer"] = partial(ours, embed=embed)
    folder = next(
        (f for f in (options.data / "retrieval", options.data) if (f / "locomo_dev").is_dir()),
        options.data,
    )
    talks = Conversations(folder / "locomo_dev")
    sets: dict[str, Callable[[], Iterator[Case]]] = {
        "turns": talks.turn_cases,
        "sessions": talks.session_cases,
        "abstracts": lambda: abstract_cases(folder / "scifact"),
    }
    report: dict[str, Any] = {"half": options.half, "most_sentences": options.most}
    for name in options.sets:
        cases = list(sets[name]())
        groups = sorted({case.group for case in cases})
        cases = [case for case in cases if in_half(case, options.half, groups)][:: options.every]
        report[name] = {"questions": len(cases), **measure(cases, options.most)}
    strangers = list(talks.stranger_cases())[:: options.every]
    refused = sum(not ours(case, options.most, embed=embed) for case in strangers)
    report["strangers refused"] = refused / max(1, len(strangers))
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"half: {options.half}, at most {options.most} sentences")
    for name in options.sets:
        row = report[name]
        print(f"\n{name} ({row['questions']} questions)")
        for method in METHODS:
            print(f"  {method:<20} {row[method]:.3f}")
    print(f"\nstrangers refused      {report['strangers refused']:.3f}")


if __name__ == "__main__":
    main()
