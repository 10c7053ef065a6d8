"""Is the profile right after a user said these things, one turn each?

    python benchmarks/profiles.py FILE … [--embedder NAME] [--misses] [--json]

A line is a dialogue: `turns`, `must` (words that one standing text holds, and its polarity) and
`must_not` (words that none may hold). A dialogue is right when all of that holds.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from figures import interval, mean
from gate_data import read_lines

import agentmem

NEGATED = (
    "no ", "not ", "n't", "never", "avoid", "stop", "without", "hate", "dislike", "can't", "allerg",
    "kein", "nicht", "sin ", "odio", "non ", "pas ", "sem ", "against",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What one dialogue left: how much of what must stand, what stands wrongly or inverted."""

    language: str
    must: int
    kept: int
    forbidden: int
    wrong: int
    inverted: int
    turns: tuple[str, ...]
    held: tuple[str, ...]

    @property
    def right(self) -> bool:
        return self.kept == self.must and not self.wrong and not self.inverted


def judge(case: dict[str, Any], *, embedder: str | None = None) -> Judged:
    options: dict[str, Any] = {"embedder": embedder} if embedder else {}
    with (
        tempfile.TemporaryDirectory() as folder,
        agentmem.open(Path(folder) / "m.db", **options) as memory,
    ):
        talk: list[dict[str, str]] = []
        for said in case["turns"]:
            talk.append({"role": "user", "content": said})
            memory.turn(list(talk), model="gpt-4o", user_id="u").done("Okay.")
            talk.append({"role": "assistant", "content": "Okay."})
        memory.flush()
        held: list[tuple[str, str]] = [
            (p.text.lower(), p.polarity) for p in memory.preferences.get_all(user_id="u")
        ]
        held += [(m.text.lower(), "") for m in memory.get_all(kinds=["fact"], user_id="u")]
    kept = inverted = 0
    for want in case["must"]:
        found = [one for one in held if all(word.lower() in one[0] for word in want["words"])]
        kept += bool(found)
        if found and want.get("polarity") == "against":
            text, polarity = found[0]
            negated = any(word in text for word in NEGATED)
            inverted += not negated and polarity not in ("against", "dislike", "negative")
    wrong = sum(
        any(all(word.lower() in text for word in words) for text, _ in held)
        for words in case["must_not"]
    )
    return Judged(
        language=case["lang"], must=len(case["must"]), kept=kept, forbidden=len(case["must_not"]),
        wrong=wrong, inverted=inverted, turns=tuple(case["turns"]),
        held=tuple(text for text, _ in held),
    )  # fmt: skip


def summary(judged: Sequence[Judged]) -> dict[str, float]:
    return {
        "dialogues right": mean([one.right for one in judged]),
        "recall": round(sum(o.kept for o in judged) / max(1, sum(o.must for o in judged)), 4),
        "wrongly standing": round(
            sum(o.wrong for o in judged) / max(1, sum(o.forbidden for o in judged)), 4
        ),
        "inverted": sum(one.inverted for one in judged),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--embedder", help="instead of the default one")
    parser.add_argument("--misses", action="store_true", help="list the dialogues that are wrong")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    judged = [
        judge(case, embedder=asked.embedder) for path in asked.files for case in read_lines(path)
    ]
    if asked.json:
        report = {"report": summary(judged), "dialogues": [asdict(one) for one in judged]}
        print(json.dumps(report))
        return
    print(summary(judged))
    by_language: dict[str, list[float]] = defaultdict(list)
    for one in judged:
        by_language[one.language].append(one.right)
    for language, rights in sorted(by_language.items()):
        print(f"  {language:4} right {interval(rights)}")
    if asked.misses:
        for one in judged:
            if not one.right:
                print(f"- [{one.language}] {list(one.turns)} holds {list(one.held)}")


if __name__ == "__main__":
    main()
