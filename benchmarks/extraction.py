"""Recall and precision of what is learned from single sentences without a model.

    python benchmarks/extraction.py [--show LIST] [--chat FILE] [--json]

The sentences are in `stated_sentences.py`, in lists that are measured apart; one was written to
develop the rules, one only to measure them. The second has been read since and its misses mended
where they were plain, so its figures now flatter: what it gave when it was first read is in
docs/contradictions.md. "Recall" counts a statement when something of its
sort is found in its sentence, "strict recall" when key and value (or title and reason, or error
and fix) are right too. "Precision" is the share of all that is found, in every sentence of the
list, that is right to the letter; "about" counts as right what is in a sentence that states
something of the sort. `--show` prints what is missed and what is wrong in a list. `--chat` prints
what is found in a file of messages (one JSON object a line with `text`), to be read by a person.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

MORE_TITLE_WORDS = 3


class Statement(NamedTuple):
    """One statement, expected or found: its sort, key (or title, or error) and value."""

    sort: str
    key: str
    value: str


class Case(NamedTuple):
    sentence: str
    expected: tuple[Statement, ...]


def read_cases(text: str) -> list[Case]:
    """The sentences of a list with all they state."""
    found: dict[str, list[Statement]] = {}
    for line in filter(str.strip, text.splitlines()):
        sort, key, value, sentence = line.split("|", 3)
        wanted = found.setdefault(sentence, [])
        if sort != "N":
            wanted.append(Statement(sort, key, value))
    return [Case(sentence, tuple(wanted)) for sentence, wanted in found.items()]


def found_in(sentence: str) -> list[Statement]:
    """What would be learned from a sentence."""
    from agentmem.living.facts import Episode, Fact, extract
    from agentmem.living.learn import records_of

    found: list[Statement] = []
    for one in records_of(extract(sentence))[0]:
        if isinstance(one, Fact):
            found.append(Statement("F", one.key, one.value))
        elif isinstance(one, Episode) and one.sort == "decision":
            found.append(Statement("D", one.title, one.reason))
        elif isinstance(one, Episode):
            found.append(Statement("E", one.error, one.fix))
    return found


def is_right(found: Statement, wanted: Statement) -> bool:
    """Whether what was found is what the sentence states, in key and value."""
    if found.sort != wanted.sort.upper():
        return False
    values = [_plain(value) for value in wanted.value.split(" // ")]
    if found.sort == "F":
        keys = [" ".join(sorted(key.split())) for key in wanted.key.split(",")]
        return found.key in keys and _plain(found.value) in values
    titles = [_plain(title).split() for title in wanted.key.split(" // ")]
    got = _plain(found.key).split()
    near = any(set(one) <= set(got) and len(got) <= len(one) + _room(found) for one in titles)
    return near and _plain(found.value) in values


def _room(found: Statement) -> int:
    return MORE_TITLE_WORDS if found.sort == "D" else 2 * MORE_TITLE_WORDS


def _plain(text: str) -> str:
    words = re.findall(r"[^\s\"'`“”]+", text.lower())
    kept = [word.strip(".,;:()") for word in words if word not in ("the", "a", "an", "about")]
    return " ".join(kept)


def measure(cases: list[Case]) -> dict[str, Any]:
    """Counts and rates over a list, and what was missed or wrong in it."""
    counts = dict.fromkeys(("stated", "met", "right", "found", "found_right", "found_about"), 0)
    missed: list[str] = []
    wrong: list[str] = []
    for sentence, expected in cases:
        found = found_in(sentence)
        for wanted in expected:
            if wanted.sort.islower():
                continue
            counts["stated"] += 1
            counts["met"] += any(one.sort == wanted.sort for one in found)
            right = any(is_right(one, wanted) for one in found)
            counts["right"] += right
            if not right:
                missed.append(f"{sentence}  wanted {wanted}  got {found}")
        for one in found:
            counts["found"] += 1
            right = any(is_right(one, wanted) for wanted in expected)
            counts["found_right"] += right
            counts["found_about"] += any(one.sort == wanted.sort.upper() for wanted in expected)
            if not right:
                wrong.append(f"{sentence}  got {one}")
    return {
        "sentences": len(cases),
        **counts,
        "recall": _share(counts["met"], counts["stated"]),
        "strict_recall": _share(counts["right"], counts["stated"]),
        "precision": _share(counts["found_right"], counts["found"]),
        "about": _share(counts["found_about"], counts["found"]),
        "missed": missed,
        "wrong": wrong,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def chat_lines(path: Path) -> Iterator[str]:
    """What is found in each message of a file, as lines to read."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text = str(json.loads(line)["text"])
        for one in found_in(text):
            yield f"{one.sort} {one.key} = {one.value}   <- {text}"


def main() -> None:
    """Print the table, and what was asked for."""
    from stated_sentences import DEVELOPED, EARLIER, HELD_OUT

    lists = {"developed": DEVELOPED, "read-since": HELD_OUT, "earlier": EARLIER}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--show", choices=sorted(lists))
    parser.add_argument("--chat", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {name: measure(read_cases(text)) for name, text in lists.items()}
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    print("list       sentences  stated  found  recall  strict  precision  about")
    for name, row in figures.items():
        print(
            f"{name:<10} {row['sentences']:>9} {row['stated']:>7} {row['found']:>6}"
            f" {row['recall']:>7.2f} {row['strict_recall']:>7.2f} {row['precision']:>10.2f}"
            f" {row['about']:>6.2f}"
        )
    if options.show:
        for title in ("missed", "wrong"):
            print(f"\n{title}:", *figures[options.show][title], sep="\n  ")
    if options.chat:
        print("", *chat_lines(options.chat), sep="\n")


if __name__ == "__main__":
    main()
