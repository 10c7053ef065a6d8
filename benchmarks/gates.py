"""Fail when a figure that users judge memory by falls below what it once was.

    python benchmarks/gates.py [--data FOLDER] [--only NAME …] [--write]

Without `--data` the small sets of benchmarks/data are run, which nothing was fitted on; with it
also the public ones (everyday/, profiles/, ordinary/, facts/, retrieval/ in FOLDER). The floors and
ceilings stand in benchmarks/data/gates/floors.json; `--write` records what this run found for the
figures that have none yet, with a little room.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import block
import everyday
import ordinary
import profiles
from figures import mean
from gate_data import read_lines

from agentmem.search.embedders.base import load_embedder

OWN = Path(__file__).parent / "data"
FLOORS = OWN / "gates" / "floors.json"
ROOM = 0.03
AT_MOST = ("tokens", "questions shown", "wrongly standing", "inverted", "preference", "fact",
           "contradictions opened", "hidden")  # fmt: skip
"""Of these less is better."""

Figures = dict[str, float]


def people(path: Path, *, together: bool = False) -> Figures:
    peer = load_embedder("minilm")
    if peer is None:
        raise SystemExit("The default embedder is not there.")
    asked = everyday.run(path, together=together, embedder=peer, name=None)
    found = everyday.summary(asked)
    if together:  # whose is whose cannot be told there
        return {"found": found["found"]}
    types = {
        kind: mean([one.found for one in asked if one.type == kind])
        for kind in ("paraphrase", "update")
    }
    names = ("found", "unrelated silent", "newest first", "questions shown", "tokens")
    return {name: found[name] for name in names if found[name] is not None} | types


def talk(folder: Path, budgets: tuple[int, ...]) -> Figures:
    rows = block.run(folder, budgets, peer=False)
    return {f"found at {row['budget']}": mean(row["found"]) for row in rows}


def prompts(path: Path) -> Figures:
    left = ordinary.left_behind([line["text"] for line in read_lines(path)])
    return {"preference": mean([bool(kept) for _, kept, _ in left]),
            "fact": mean([bool(facts) for *_, facts in left])}  # fmt: skip


def dialogues(path: Path) -> Figures:
    return profiles.summary([profiles.judge(case) for case in read_lines(path)])


def gates(data: Path | None) -> dict[str, Callable[[], Figures]]:
    """Every gate by name; those of public data only where a folder is given."""
    own = OWN / "gates"
    found: dict[str, Callable[[], Figures]] = {
        "everyday": lambda: people(own / "everyday.jsonl"),
        "everyday in one scope": lambda: people(own / "everyday.jsonl", together=True),
        "conversation": lambda: talk(own / "talk", (150, 400)),
        "messy chat": lambda: talk(own / "chat", (150, 300)),
        "people, close questions": lambda: people(OWN / "blind" / "choose.jsonl"),
        "people in one scope": lambda: people(OWN / "blind" / "choose.jsonl", together=True),
        "profiles": lambda: dialogues(OWN / "profiles" / "fresh2.jsonl"),
        "ordinary": lambda: prompts(own / "ordinary.jsonl"),
    }
    if data is not None:
        dev = data / "everyday" / "dev.jsonl"
        found |= {
            "public everyday": lambda: people(dev),
            "public everyday in one scope": lambda: people(dev, together=True),
            "public conversations": lambda: talk(data / "retrieval/locomo_dev", (440, 1000, 2000)),
            "public profiles": lambda: dialogues(data / "profiles" / "dev.jsonl"),
            "public ordinary": lambda: prompts(data / "ordinary" / "dev.jsonl"),
            "public facts": lambda: {
                name: float(value)
                for name, value in ordinary.quarrels(read_lines(data / "facts/dev.jsonl")).items()
                if name != "facts"
            },
        }
    return found


def is_kept(name: str, value: float, mark: float) -> bool:
    return value <= mark if name in AT_MOST else value >= mark


def marked(name: str, value: float) -> float:
    """The mark to record for a figure: a little room, none where it is perfect or a count."""
    if name == "tokens":
        return 600.0
    if name in ("questions shown", "inverted", "contradictions opened", "hidden"):
        return value
    return round(min(1.0, value + ROOM) if name in AT_MOST else max(0.0, value - ROOM), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with the public sets")
    parser.add_argument("--only", nargs="+", help="names of gates")
    parser.add_argument("--write", action="store_true", help="record figures that have no mark yet")
    asked = parser.parse_args()
    if asked.data is not None and not asked.data.is_dir():
        parser.error(f"{asked.data} is no folder")
    marks: dict[str, Figures] = json.loads(FLOORS.read_text("utf-8")) if FLOORS.exists() else {}
    fallen = 0
    for gate, run in gates(asked.data).items():
        if asked.only and gate not in asked.only:
            continue
        began = time.perf_counter()
        figures = run()
        known = marks.setdefault(gate, {})
        print(f"{gate} ({time.perf_counter() - began:.0f} s)", flush=True)
        for name, value in figures.items():
            if asked.write and name not in known:
                known[name] = marked(name, value)
            mark = known.get(name)
            kept = mark is None or is_kept(name, value, mark)
            fallen += not kept
            bound = "" if mark is None else f"  {'<=' if name in AT_MOST else '>='} {mark:g}"
            print(f"  {'ok  ' if kept else 'FELL'} {name:24} {value:>8g}{bound}", flush=True)
    if asked.write:
        FLOORS.write_text(json.dumps(marks, indent=1) + "\n", encoding="utf-8")
    if fallen:
        sys.exit(f"{fallen} figures fell")


if __name__ == "__main__":
    main()
