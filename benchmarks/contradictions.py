"""Precision, recall and F1 of the rule-based judge of contradictions beside two baselines.

    python benchmarks/contradictions.py [--data FOLDER] [--json]

Two sorts of pairs are measured apart. Keyed facts are the pairs in `keyed_facts.py`: statements
about an attribute, of which one half was written to develop the rules and the other only to
measure them. Free text is `dev.jsonl` in the folder (one JSON object a line with a, b and label:
contradiction | neutral | entailment), parted in two by a hash of the text: the rules were
developed with the first half, so the second is the figure to believe.

The baselines: "differs" says contradiction when two statements share half of their words and
differ in a number or in a negation; "cosine" when their bags of words have a cosine of at least
0.8 without being equal.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

_WORD = re.compile(r"\w+")
_NEGATION = re.compile(r"\b(?:not|no|never|nobody|none|without|\w+n't)\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


class Pair(NamedTuple):
    first: str
    second: str
    conflicting: bool
    superseding: bool = False


def judge_pair(first: str, second: str) -> tuple[bool, str, bool]:
    """What agentmem says: conflicting, why, and whether one supersedes the other."""
    from agentmem.living.conflicts import Statement, judge

    found = judge(Statement(text=first), Statement(text=second))
    return found.conflicting, found.reason, found.kind == "supersedes"


def differs(first: str, second: str) -> tuple[bool, str, bool]:
    """A baseline: much the same words, another number or a negation more."""
    one = set(_WORD.findall(first.lower()))
    other = set(_WORD.findall(second.lower()))
    shared = len(one & other) / max(1, min(len(one), len(other)))
    numbers = set(_NUMBER.findall(first)) != set(_NUMBER.findall(second))
    negation = bool(_NEGATION.search(first)) != bool(_NEGATION.search(second))
    return shared >= 0.5 and (numbers or negation), "", False


def cosine(first: str, second: str) -> tuple[bool, str, bool]:
    """A baseline: nearly the same bag of words."""
    one, other = (Counter(_WORD.findall(text.lower())) for text in (first, second))
    dot = sum(count * other[word] for word, count in one.items())
    norms = math.sqrt(sum(c * c for c in one.values()) * sum(c * c for c in other.values()))
    return norms > 0 and 0.8 <= dot / norms < 1.0, "", False


SYSTEMS: dict[str, Callable[[str, str], tuple[bool, str, bool]]] = {
    "agentmem": judge_pair,
    "differs": differs,
    "cosine": cosine,
}


def measure(
    pairs: Sequence[Pair], say: Callable[[str, str], tuple[bool, str, bool]]
) -> dict[str, Any]:
    """Counts and rates of one system over the pairs, and how often each reason was right."""
    say("The limit is 1 s.", "The limit is 2 s.")  # the first call loads the rules
    started = time.perf_counter()
    said = [say(pair.first, pair.second) for pair in pairs]
    seconds = time.perf_counter() - started
    right = sum(s[0] and p.conflicting for s, p in zip(said, pairs, strict=True))
    found = sum(s[0] for s in said)
    wanted = sum(p.conflicting for p in pairs)
    precision = right / found if found else 0.0
    recall = right / wanted if wanted else 0.0
    both = precision + recall
    reasons: dict[str, dict[str, int]] = {}
    for (flagged, reason, _), pair in zip(said, pairs, strict=True):
        if flagged and reason:
            row = reasons.setdefault(reason, {"found": 0, "right": 0})
            row["found"] += 1
            row["right"] += pair.conflicting
    changes = [(s, p) for s, p in zip(said, pairs, strict=True) if p.superseding]
    return {
        "pairs": len(pairs),
        "contradictions": wanted,
        "found": found,
        "right": right,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "changes": len(changes),
        "changes_seen": sum(s[2] for s, _ in changes),
        "pairs_per_second": len(pairs) / seconds if seconds else 0.0,
        "by_reason": dict(sorted(reasons.items())),
    }


def read_free_text(folder: Path) -> tuple[list[Pair], list[Pair]]:
    """The pairs the rules were developed with, and those they were not."""
    halves: tuple[list[Pair], list[Pair]] = ([], [])
    for line in (folder / "dev.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = min(row["a"], row["b"])
        half = blake2b(text.encode(), digest_size=2).digest()[1] % 2
        halves[half].append(Pair(row["a"], row["b"], row["label"] == "contradiction"))
    return halves


def read_keyed(text: str) -> list[Pair]:
    """Pairs from lines "C|first|second": C contradicts, S supersedes, N neither."""
    rows = [line.split("|") for line in text.strip().splitlines() if line.strip()]
    return [Pair(first, second, kind in "CS", kind == "S") for kind, first, second in rows]


def main() -> None:
    from keyed_facts import DEVELOPED, HELD_OUT

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, help="a folder with dev.jsonl, for free text")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    sets = {
        "keyed facts, developed with": read_keyed(DEVELOPED),
        "keyed facts, held out": read_keyed(HELD_OUT),
    }
    if options.data:
        folder = options.data if options.data.is_dir() else options.data.parent
        sets["free text, developed with"], sets["free text, held out"] = read_free_text(folder)
    results = {
        name: {system: measure(pairs, say) for system, say in SYSTEMS.items()}
        for name, pairs in sets.items()
    }
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, systems in results.items():
        any_result = systems["agentmem"]
        print(f"{name}: {any_result['pairs']:,} pairs, {any_result['contradictions']:,} conflict")
        print(f"  {'':10} {'precision':>9} {'recall':>7} {'F1':>6} {'changes':>9} {'pairs/s':>9}")
        for system, row in systems.items():
            changes = f"{row['changes_seen']}/{row['changes']}" if row["changes"] else "-"
            print(
                f"  {system:10} {row['precision']:9.3f} {row['recall']:7.3f} {row['f1']:6.3f}"
                f" {changes:>9} {row['pairs_per_second']:9,.0f}"
            )
        for reason, row in any_result["by_reason"].items():
            print(f"    {reason:10} {row['right']} of {row['found']} found were right")


if __name__ == "__main__":
    main()
