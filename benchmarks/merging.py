"""How often two memories that say different things would be merged, beside a plain threshold.

    python benchmarks/merging.py [--data FOLDER] [--json]

Pairs that must not merge: the contradictions and the neutral pairs of `dev.jsonl` in the folder
(one JSON object a line with a, b and label), the conflicting pairs of `keyed_facts.py`, and
perturbations made here: a statement with one number, one name or one negation changed. Pairs that
may merge: the entailments, and a statement with its case, punctuation or a filler changed.

Similarities come from the static embedder when it is installed, else from bags of words; both
systems see the same ones. "merge error" is the share of all merges that were wrong; the rows
"written" are of the pairs that people wrote alone.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

THRESHOLD = 0.92
WRITTEN = ("contradiction", "neutral", "entailment")
"""The sources of pairs that people wrote; the others are made here, and far easier to tell."""
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")


class Pair(NamedTuple):
    first: str
    second: str
    may_merge: bool
    source: str


def perturb(statements: Sequence[str]) -> list[Pair]:
    """Each statement with one thing changed that matters, or one that does not."""
    pairs: list[Pair] = []
    names = sorted({name for text in statements for name in _NAME.findall(text)})
    for place, text in enumerate(statements):
        if number := _NUMBER.search(text):
            other = str(int(number[0]) + 1 + place % 7)
            changed = text[: number.start()] + other + text[number.end() :]
            pairs.append(Pair(text, changed, False, "number changed"))
        if (name := _NAME.search(text)) and names:
            other = names[(names.index(name[0]) + 1 + place) % len(names)]
            if other != name[0]:
                changed = text[: name.start()] + other + text[name.end() :]
                pairs.append(Pair(text, changed, False, "name changed"))
        if re.search(r"\b(?:is|are)\b", text) and " not " not in text:
            changed = re.sub(r"\b(is|are)\b", r"\1 not", text, count=1)
            pairs.append(Pair(text, changed, False, "negation added"))
        pairs.append(Pair(text, text.rstrip(".") + ".", True, "punctuation"))
        pairs.append(Pair(text, re.sub(r"\b(is|are)\b", r"\1 really", text), True, "filler"))
    return [pair for pair in pairs if pair.first != pair.second]


def read_pairs(folder: Path | None) -> list[Pair]:
    """All labelled pairs."""
    from keyed_facts import DEVELOPED, HELD_OUT

    pairs: list[Pair] = []
    statements: dict[str, None] = {}
    for line in (DEVELOPED + HELD_OUT).strip().splitlines():
        if not line.strip():
            continue
        kind, first, second = line.split("|")
        statements |= {first: None, second: None}
        if kind in "CS":
            pairs.append(Pair(first, second, False, "keyed conflict"))
    pairs += perturb(list(statements))
    if folder is not None:
        path = folder / "dev.jsonl" if folder.is_dir() else folder
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            pairs.append(Pair(row["a"], row["b"], row["label"] == "entailment", row["label"]))
    return pairs


def similarities(pairs: Sequence[Pair]) -> list[float]:
    """One cosine a pair."""
    try:
        from agentmem.search.embedders.wordllama import WordLlamaEmbedder

        embedder = WordLlamaEmbedder()
        firsts = embedder.embed_documents([pair.first for pair in pairs])
        seconds = embedder.embed_documents([pair.second for pair in pairs])
        return [float(a @ b) for a, b in zip(firsts, seconds, strict=True)]
    except ImportError:
        return [_bag_cosine(pair.first, pair.second) for pair in pairs]


def _bag_cosine(first: str, second: str) -> float:
    one, other = (Counter(_WORD.findall(text.lower())) for text in (first, second))
    dot = sum(count * other[word] for word, count in one.items())
    norms = math.sqrt(sum(c * c for c in one.values()) * sum(c * c for c in other.values()))
    return dot / norms if norms else 0.0


def summarise(pairs: Sequence[Pair], merged: Sequence[bool]) -> dict[str, object]:
    """The merge error rate, the share of allowed merges made, and the wrong ones by source."""
    wrong = [pair for pair, m in zip(pairs, merged, strict=True) if m and not pair.may_merge]
    right = sum(m and pair.may_merge for pair, m in zip(pairs, merged, strict=True))
    allowed = sum(pair.may_merge for pair in pairs)
    total = sum(merged)
    return {
        "pairs": len(pairs),
        "merged": total,
        "wrong": len(wrong),
        "merge_error": len(wrong) / total if total else 0.0,
        "wrong_of_forbidden": len(wrong) / max(1, len(pairs) - allowed),
        "merged_of_allowed": right / allowed if allowed else 0.0,
        "wrong_by_source": dict(Counter(pair.source for pair in wrong)),
    }


def main() -> None:
    from agentmem.living.plans import compare_texts

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, help="a folder with dev.jsonl")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    pairs = read_pairs(options.data)
    scores = similarities(pairs)
    ours = [
        compare_texts(pair.first, pair.second, score) == "same"
        for pair, score in zip(pairs, scores, strict=True)
    ]
    plain = [score >= THRESHOLD for score in scores]
    results = {
        "agentmem": summarise(pairs, ours),
        f"cosine >= {THRESHOLD}": summarise(pairs, plain),
    }
    written = [at for at, pair in enumerate(pairs) if pair.source in WRITTEN]
    for system, merged in (("agentmem", ours), (f"cosine >= {THRESHOLD}", plain)):
        results[f"{system}, written"] = summarise(
            [pairs[at] for at in written], [merged[at] for at in written]
        )
    if options.json:
        print(json.dumps(results, indent=2))
        return
    print(f"{len(pairs):,} pairs, {sum(pair.may_merge for pair in pairs):,} may merge")
    print(f"{'':24} {'merged':>7} {'wrong':>6} {'merge error':>12} {'of allowed':>11}")
    for system, row in results.items():
        print(
            f"{system:24} {row['merged']:7} {row['wrong']:6} {row['merge_error']:12.4f}"
            f" {row['merged_of_allowed']:11.3f}"
        )
        print(f"{'':24} wrong by source: {row['wrong_by_source']}")


if __name__ == "__main__":
    main()
