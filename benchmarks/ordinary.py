"""What ordinary prompts leave behind, and what true facts do to each other.

    python benchmarks/ordinary.py --prompts FILE … [--facts FILE …] [--limit N] [--misses] [--json]

Each prompt (`text`) is one user's only message: the share that leaves a lasting preference or fact.
Facts (`group`, `text`) are added in order as one user's: contradictions opened, memories hidden.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from figures import interval, mean
from gate_data import read_lines

import agentmem


def left_behind(prompts: Sequence[str]) -> list[tuple[str, list[str], int]]:
    """Each prompt with the preferences it left, and how many facts."""
    with (
        tempfile.TemporaryDirectory() as folder,
        agentmem.open(Path(folder) / "m.db", durability="normal") as memory,
    ):
        for at, text in enumerate(prompts):
            messages = [{"role": "user", "content": text}]
            with memory.turn(messages, model="gpt-4o", user_id=f"u{at}") as turn:
                turn.done("Okay.")
        memory.flush()
        return [
            (
                text,
                [p.text for p in memory.preferences.get_all(user_id=f"u{at}")],
                len(memory.get_all(kinds=["fact"], user_id=f"u{at}")),
            )
            for at, text in enumerate(prompts)
        ]


def quarrels(facts: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many contradictions true facts open, and how many of them are hidden."""
    groups: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        groups[str(fact["group"])].append(fact["text"])
    opened = hidden = 0
    for group, texts in groups.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            agentmem.open(Path(folder) / "m.db", durability="normal") as memory,
        ):
            for text in texts:
                memory.add(text, user_id=group)
            memory.flush()
            opened += len(list(memory.living.contradictions(user_id=group)))
            kept = {one.text for one in memory.get_all(user_id=group, limit=100_000)}
            hidden += len(set(texts)) - len(kept & set(texts))
    return {"facts": len(facts), "contradictions opened": opened, "hidden": hidden}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prompts", nargs="+", type=Path, default=[])
    parser.add_argument("--facts", nargs="+", type=Path, default=[])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--misses", action="store_true", help="list what was kept of which prompt")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    prompts = [line["text"] for path in asked.prompts for line in read_lines(path)][: asked.limit]
    left = left_behind(prompts)
    flagged = [bool(kept) for _, kept, _ in left]
    stated = [bool(facts) for *_, facts in left]
    report: dict[str, Any] = {"prompts": len(prompts), "preference": mean(flagged),
                              "fact": mean(stated)}  # fmt: skip
    if asked.facts:
        report |= quarrels([line for path in asked.facts for line in read_lines(path)])
    if asked.json:
        print(json.dumps(report))
        return
    print(f"{len(prompts)} prompts: a preference {interval(flagged)}, a fact {interval(stated)}")
    print({name: value for name, value in report.items() if name not in ("preference", "fact")})
    if asked.misses:
        for text, kept, _ in left:
            if kept:
                print(f"- {text[:200]!r} left {kept}")


if __name__ == "__main__":
    main()
