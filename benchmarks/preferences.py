"""Precision, recall and F1 of preference detection beside a plain keyword search.

    python benchmarks/preferences.py --data sentences.jsonl [--json]

The file has one JSON object a line: {"text": …, "preference": true | false}. A text counts as
found when at least one statement is found in it. Without --data the figures are for the
sentences of the unit tests, which the rules were written with.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

Row = tuple[str, bool]
_KEYWORDS = re.compile(
    r"\b(?:prefer\w*|like|love|hate|dislike|enjoy|avoid|favou?rite|always|never"
    r"|i'm a|i am a|call me)\b",
    re.IGNORECASE,
)


def find_keywords(text: str) -> bool:
    """The baseline: any word that preferences are often stated with."""
    return bool(_KEYWORDS.search(text))


def find_statements(text: str) -> bool:
    """What agentmem finds."""
    from agentmem.text.detect import hear

    return bool(hear(text).stated)


def read_rows(path: Path | None) -> list[Row]:
    """The sentences and whether each states a preference."""
    if path is None:
        from tests.unit.test_preferences import NOT_STATED, STATED

        return [(text, True) for text, _, _ in STATED] + [(text, False) for text in NOT_STATED]
    lines = path.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    return [(row["text"], bool(row["preference"])) for row in rows]


def measure(rows: Sequence[Row], find: Callable[[str], bool]) -> dict[str, float]:
    """Counts and rates of `find` over the rows."""
    find("I prefer tea.")  # the first call loads the rules
    started = time.perf_counter()
    found = [find(text) for text, _ in rows]
    seconds = time.perf_counter() - started
    true = sum(f and p for f, (_, p) in zip(found, rows, strict=True))
    precision = true / sum(found) if any(found) else 0.0
    recall = true / sum(p for _, p in rows) if any(p for _, p in rows) else 0.0
    both = precision + recall
    return {
        "texts": len(rows),
        "stated": sum(p for _, p in rows),
        "found": sum(found),
        "right": true,
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / both if both else 0.0,
        "microseconds_per_text": 1e6 * seconds / max(1, len(rows)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, help="JSON lines with text and preference")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = read_rows(options.data)
    results = {
        "agentmem": measure(rows, find_statements),
        "keywords": measure(rows, find_keywords),
    }
    if options.json:
        print(json.dumps(results, indent=2))
        return
    name = options.data.name if options.data else "sentences of the unit tests"
    print(f"{name}: {len(rows):,} texts, {sum(p for _, p in rows):,} with a preference")
    print(f"{'':10} {'precision':>9} {'recall':>7} {'F1':>6} {'µs/text':>8}")
    for system, result in results.items():
        print(
            f"{system:10} {result['precision']:9.3f} {result['recall']:7.3f} {result['f1']:6.3f}"
            f" {result['microseconds_per_text']:8.0f}"
        )


if __name__ == "__main__":
    main()
