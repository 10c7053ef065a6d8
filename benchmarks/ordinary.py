"""What ordinary prompts leave behind, and what true facts do to each other.

    python benchmarks/ordinary.py --prompts FILE … [--facts FILE …] [--limit N] [--show] [--json]

Each prompt (`text`) is one user's only message: the share that leaves a lasting preference or fact,
file by file. Prompts marked `lasting` do say something that lasts about who wrote them; how many of
those are heard is counted apart. benchmarks/data/ordinary has two files of prompts that nothing was
fitted on: thresholds were chosen with `choose`, `report` is for figures.
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
    parser.add_argument("--limit", type=int, help="of each file")
    parser.add_argument("--show", action="store_true", help="list what was kept of which prompt")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    report: dict[str, Any] = {}
    for path in asked.prompts:
        rows = read_lines(path)[: asked.limit]
        left = left_behind([row["text"] for row in rows])
        marked = [bool(row.get("lasting")) for row in rows]
        plain = [one for one, lasting in zip(left, marked, strict=True) if not lasting]
        heard = [bool(kept) for (_, kept, _), lasting in zip(left, marked, strict=True) if lasting]
        flagged = [bool(kept) for _, kept, _ in plain]
        stated = [bool(facts) for *_, facts in plain]
        report[str(path)] = {"prompts": len(plain), "preference": mean(flagged),
                             "fact": mean(stated)}  # fmt: skip
        if asked.json:
            continue
        print(f"{path}: a preference {interval(flagged, 3)}, a fact {interval(stated, 3)}")
        if heard:
            print(f"  of {len(heard)} that say something lasting, {sum(heard)} are heard")
        for (text, kept, facts), lasting in zip(left, marked, strict=True):
            if asked.show and bool(kept or facts) != lasting:
                print(f"  - {text[:300]!r} left {kept}{' and a fact' if facts else ''}")
    if asked.facts:
        report |= quarrels([line for path in asked.facts for line in read_lines(path)])
    if asked.json or asked.facts:
        print(json.dumps(report))


if __name__ == "__main__":
    main()
