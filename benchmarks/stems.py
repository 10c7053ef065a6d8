"""Whether stems by language find more than the one stemmer in use: BM25 over a person's words.

    python benchmarks/stems.py [FILE.jsonl …]

People of `data/blind` (or of the files named) who do not write English, each question with an
answer, the share of it among the first five. Words, stop words and BM25 are the same throughout;
only the stems differ: those of the package, none, those of the person's own language and those
of the language that is detected text by text.
"""

from __future__ import annotations

import argparse
import collections
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import Stemmer
from rank_bm25 import BM25Okapi

from agentmem.text.language import detect_language
from agentmem.text.terms import STOP_WORDS, B, analyse, word_runs

BLIND = Path(__file__).parent / "data" / "blind"
LANGUAGES = {
    "de": "german", "es": "spanish", "fr": "french", "it": "italian", "pt": "portuguese",
}  # fmt: skip
FIRST = 5


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", nargs="*", type=Path, default=sorted(BLIND.glob("*.jsonl")))
    found: dict[tuple[str, str], list[float]] = collections.defaultdict(list)
    for file in arguments.parse_args().files:
        for line in file.read_text("utf-8").splitlines():
            person = json.loads(line)
            if person["lang"] in LANGUAGES:
                for name, cut in ways(person["lang"]).items():
                    shares = shares_found(person, cut)
                    found[name, person["lang"]] += shares
                    found[name, "all"] += shares
    names = dict.fromkeys(name for name, _ in found)
    for language in (*sorted(LANGUAGES), "all"):
        shown = {name: found[name, language] for name in names}
        size = len(next(iter(shown.values())))
        figures = (f"{name} {sum(v) / len(v):.3f}" for name, v in shown.items() if v)
        print(f"{language:4} {size:4} questions  " + "  ".join(figures))


def ways(language: str) -> dict[str, Callable[[str], list[str]]]:
    def by_detected(text: str) -> list[str]:
        return stemmed(text, detect_language(text))

    return {
        "as shipped": analyse,
        "no stems": lambda text: stemmed(text, ""),
        "own language": lambda text: stemmed(text, language),
        "detected": by_detected,
    }


def stemmed(text: str, language: str) -> list[str]:
    """The words of a text that say something, in the stems of `language` if it has a stemmer."""
    words = [word for word in word_runs(text.lower()) if plain(word) not in STOP_WORDS]
    if language in LANGUAGES:
        words = Stemmer.Stemmer(LANGUAGES[language]).stemWords(words)
    return [plain(word) for word in words]


def plain(word: str) -> str:
    parted = unicodedata.normalize("NFKD", word)
    return "".join(letter for letter in parted if not unicodedata.combining(letter))


def shares_found(person: dict[str, Any], cut: Callable[[str], list[str]]) -> list[float]:
    memories = person["memories"]
    index = BM25Okapi([cut(memory["text"]) or ["-"] for memory in memories], k1=1.2, b=B)
    shares = []
    for question in person["questions"]:
        gold = set(question.get("gold") or ())
        if gold:
            scores = index.get_scores(cut(question["q"]))
            best = sorted(range(len(memories)), key=lambda at: -scores[at])[:FIRST]
            shown = {memories[at]["id"] for at in best if scores[at] > 0}
            shares.append(len(gold & shown) / len(gold))
    return shares


if __name__ == "__main__":
    main()
