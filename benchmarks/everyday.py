"""Does the block of a turn hold what the user once said, and stay silent where nothing is asked?

    python benchmarks/everyday.py FILE … [--together] [--embedder NAME] [--misses] [--json]

FILE has one person a line: `memories` (id, by, date, text) and `questions` (q, gold, type,
before). Every memory goes in as what it was, every question is one dry turn with default
settings; a memory counts when its text stands in the block. `--together` gives all people of a
file one scope. Beside it stands what plain cosines of the same embedder find: the first ten.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import interval, plain
from gate_data import add_person, read_lines

import agentmem
from agentmem.base.protocols import Embedder
from agentmem.search.embedders.base import load_embedder

COSINES = 10
"""So many memories a peer that ranks by cosine alone would show, whatever is asked."""
EMPTY_TYPES = ("unanswerable", "unrelated")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one question brought: the share of its gold, or 1 for a silence that was due."""

    type: str
    language: str
    found: float
    cosine: float
    tokens: float
    shown: int
    questions_shown: int
    newest_first: bool
    text: str
    missing: tuple[str, ...] = ()


def ask_all(
    people: Sequence[dict[str, Any]], memory: agentmem.MemoryManager, user_of: Any, embedder: Any
) -> Iterator[Asked]:
    """Every question of `people`, each a dry turn."""
    for person in people:
        user = user_of(person)
        scope = [p for p in people if user_of(p) == user]
        known = {(p["id"], m["id"]): m for p in scope for m in p["memories"]}
        texts = {key: plain(m["text"]) for key, m in known.items()}
        vectors = embedder.embed_documents([m["text"] for m in known.values()])
        for question in person["questions"]:
            messages: list[dict[str, str]] = []
            for before in question.get("before", []):
                messages.append({"role": "user", "content": before})
                messages.append({"role": "assistant", "content": "Okay."})
            messages.append({"role": "user", "content": question["q"]})
            turn = memory.turn(messages, model="gpt-4o", user_id=user, dry=True)
            block = plain(turn.block_text)
            knowledge = plain(turn.block_text.partition("<related_knowledge")[2])
            inside = {key for key, text in texts.items() if text and text in block}
            gold = [(person["id"], one) for one in question["gold"]]
            asked = " ".join([*question.get("before", []), question["q"]])
            cosines = vectors @ embedder.embed_query(asked)
            near = {list(known)[at] for at in np.argsort(-cosines, kind="stable")[:COSINES]}
            told = {
                key for key in inside if texts[key] in knowledge
            }  # the profile may always stand
            places = [knowledge.find(texts[key]) for key in gold if key in told]
            older = [
                knowledge.find(texts[key])
                for key in told
                if gold and known[key]["date"] < min(known[one]["date"] for one in gold)
                and known[key]["by"] == "user"
            ]  # fmt: skip
            yield Asked(
                type=question["type"],
                language=person["lang"],
                found=sum(one in inside for one in gold) / len(gold) if gold else not told,
                cosine=sum(one in near for one in gold) / len(gold) if gold else 0.0,
                tokens=len(turn.block_text) / 4,
                shown=len(inside),
                questions_shown=sum(
                    known[key]["by"] == "user" and known[key]["text"].rstrip().endswith(("?", "？"))
                    for key in inside
                ),
                newest_first=not places or not older or max(places) < min(older),
                text=question["q"],
                missing=tuple(known[one]["text"] for one in gold if one not in inside),
            )


def run(path: Path, *, together: bool, embedder: Embedder, name: str | None) -> list[Asked]:
    people = read_lines(path)

    def user_of(person: dict[str, Any]) -> str:
        return "all" if together else str(person["id"])

    with tempfile.TemporaryDirectory() as folder:
        options = {"embedder": name} if name else {}
        with agentmem.open(Path(folder) / "m.db", **options) as memory:  # type: ignore[arg-type]
            for person in people:
                add_person(memory, person, user_of(person))
            memory.flush()
            return list(ask_all(people, memory, user_of, embedder))


def table(asked: Sequence[Asked], by: str) -> None:
    groups: dict[str, list[Asked]] = defaultdict(list)
    for one in asked:
        groups[getattr(one, by)].append(one)
    for name, ones in sorted(groups.items()):
        told = [one for one in ones if one.type not in EMPTY_TYPES]
        quiet = [one for one in ones if one.type == "unrelated"]
        parts = []
        if told:
            parts.append(f"found {interval([one.found for one in told])}")
            parts.append(f"cosine@{COSINES} {np.mean([one.cosine for one in told]):.3f}")
        if quiet:
            parts.append(f"unrelated silent {interval([one.found for one in quiet])}")
        if not parts:
            parts.append(f"silent {interval([one.found for one in ones])}")
        print(f"  {name:13} {'  '.join(parts)}")


def summary(asked: Sequence[Asked]) -> dict[str, Any]:
    """The figures of a run in one line."""
    told = [one for one in asked if one.type not in EMPTY_TYPES]
    quiet = [one.found for one in asked if one.type == "unrelated"]
    updates = [one.newest_first for one in told if one.type == "update"]
    return {
        "found": round(float(np.mean([one.found for one in told])), 4),
        "cosine": round(float(np.mean([one.cosine for one in told])), 4),
        "unrelated silent": round(float(np.mean(quiet)), 4) if quiet else None,
        "newest first": round(float(np.mean(updates)), 4) if updates else None,
        "questions shown": sum(one.questions_shown for one in asked),
        "tokens": round(float(np.mean([one.tokens for one in told]))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--together", action="store_true", help="all people in one scope")
    parser.add_argument("--embedder", help="instead of the default one")
    parser.add_argument("--misses", action="store_true", help="list what was not found")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peer = load_embedder("minilm")
    if peer is None:
        raise SystemExit("There is no embedder to compare with.")
    asked = [
        one
        for path in options.files
        for one in run(path, together=options.together, embedder=peer, name=options.embedder)
    ]
    report = summary(asked)
    if options.json:
        print(json.dumps({"report": report, "asked": [asdict(one) for one in asked]}))
        return
    print(report)
    table(asked, "type")
    table(asked, "language")
    if options.misses:
        for one in asked:
            if one.found < 1:
                print(f"- [{one.language} {one.type}] {one.text} -> {list(one.missing)}, "
                      f"{one.shown} shown")  # fmt: skip


if __name__ == "__main__":
    main()
