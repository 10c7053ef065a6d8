"""What consolidation saves and what it costs: tokens and recall@10 before and after.

    python benchmarks/living.py --data DIR [--embedder wordllama|none] [--json]
    python benchmarks/living.py --time 10000 [--embedder wordllama|none]
    python benchmarks/living.py --year 1000 [--embedder wordllama|none]

DIR is a folder as `benchmarks/retrieval.py` reads it, with conversations. Half of the questions
are asked first, as a loop would: what they find counts as retrieved, what answers them as cited.
Then everything is consolidated, a year after the last message, and all questions are asked.

Tokens are those of the text a context would show, of all memories that can be found, and of the
ten best for each question. "Forgotten, cited" must be 0. With `--time` that many messages and
facts are made up and consolidated, then once more after a hundred new ones. With `--year` that
many come every month for a year, one in twenty of them is used, and each month ends with a
consolidation that keeps three months' worth hot: how long a search takes after three months and
after twelve, beside a store that puts nothing away.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from retrieval import load, read_gold, read_lines

import agentmem
from agentmem.base.filters import Selection
from agentmem.base.types import Scope, served_text
from agentmem.living.plans import ConsolidationSettings
from agentmem.memory.manager import MemoryManager
from agentmem.testing import ManualClock
from agentmem.tokens.counter import tokenizer_for

DEPTH = 10
YEAR = timedelta(days=365)


def opened(path: Path, embedder: str | None, clock: ManualClock) -> MemoryManager:
    memory = agentmem.open(path, embedder=embedder, durability="normal", judge_new=False)
    memory.clock = clock
    return memory


def ask(memory: MemoryManager, query: dict[str, Any]) -> list[Any]:
    return list(memory.search(query["text"], top_k=DEPTH, threshold=0.0, user_id=query["group"]))


def measure(
    memory: MemoryManager, queries: list[dict[str, Any]], gold: dict[str, set[str]]
) -> dict[str, float]:
    """Recall@10, and the tokens of what is shown: for a question, and in all."""
    count = tokenizer_for("gpt-4o")
    recall = shown = asked = 0.0
    for query in queries:
        wanted = gold.get(query["_id"])
        if not wanted:
            continue
        hits = ask(memory, query)
        asked += 1
        recall += len(wanted & {hit.memory.metadata["document"] for hit in hits}) / len(wanted)
        shown += sum(count(served_text(hit.memory)) for hit in hits)
    groups = sorted({query["group"] for query in queries})
    total = rows = 0
    for group in groups:
        for one in memory.store.scan(Selection(reader=Scope(user_id=group))):
            total += count(served_text(one))
            rows += 1
    return {
        "recall@10": round(recall / max(1, asked), 4),
        "tokens": total,
        "memories": rows,
        "tokens of ten hits": round(shown / max(1, asked), 1),
    }


def use(
    memory: MemoryManager, queries: list[dict[str, Any]], gold: dict[str, set[str]]
) -> set[str]:
    """Ask as a loop would and count what was found and cited; gives the ids of the cited."""
    cited: set[str] = set()
    for query in queries:
        scope = Scope(user_id=query["group"])
        hits = ask(memory, query)
        wanted = gold.get(query["_id"], set())
        good = [hit.memory.id for hit in hits if hit.memory.metadata["document"] in wanted]
        rest = [hit.memory.id for hit in hits if hit.memory.metadata["document"] not in wanted]
        now = memory.clock.now()
        memory.store.record_usage(scope, good, at=now, retrieved=1, cited=1)
        memory.store.record_usage(scope, rest, at=now, retrieved=1, ignored=1)
        cited.update(good)
    return cited


def run(arguments: argparse.Namespace, *, used: bool) -> dict[str, Any]:
    corpus = read_lines(arguments.data / "corpus.jsonl")
    queries = read_lines(arguments.data / "queries.jsonl")
    gold = read_gold(arguments.data / "qrels.tsv")
    random.Random(7).shuffle(queries)
    half = len(queries) // 2
    clock = ManualClock(datetime(2024, 3, 1, tzinfo=UTC))
    embedder = None if arguments.embedder == "none" else arguments.embedder
    with tempfile.TemporaryDirectory() as scratch:
        memory = opened(Path(scratch) / "memory.db", embedder, clock)
        with memory:
            load(memory, corpus, quiet=True)
            cited = use(memory, queries[:half], gold) if used else set()
            clock.advance(YEAR.total_seconds())
            before = measure(memory, queries[half:], gold)
            settings = ConsolidationSettings()
            began = time.perf_counter()
            reports = [
                memory.living.consolidate(user_id=group, settings=settings)
                for group in sorted({line["group"] for line in corpus})
            ]
            seconds = time.perf_counter() - began
            after = measure(memory, queries[half:], gold)
            kept = {
                one.id
                for group in {line["group"] for line in corpus}
                for one in memory.store.scan(
                    Selection(reader=Scope(user_id=group), superseded=True)
                )
            }
            lost = len(cited - kept)
    totals = {
        name: sum(getattr(report, name) for report in reports)
        for name in (
            "deduped",
            "summarised",
            "compressed",
            "forgotten",
            "cooled",
            "links",
            "contradictions",
        )
    }
    return {
        "use was counted": used,
        "before": before,
        "after": after,
        "tokens saved": round(1 - after["tokens"] / before["tokens"], 4),
        "tokens saved in ten hits": round(
            1 - after["tokens of ten hits"] / before["tokens of ten hits"], 4
        ),
        "recall lost": round(before["recall@10"] - after["recall@10"], 4),
        "cited": len(cited),
        "forgotten, cited": lost,
        "seconds": round(seconds, 2),
        **totals,
    }


WORDS = tuple(
    word
    for line in (
        "server database meeting invoice release garden train kitchen report camera market budget",
        "window letter bridge engine forest ticket doctor island museum coffee office planet river",
    )
    for word in line.split()
)
NAMES = ("Ana", "Bob", "Carla", "Dimitri", "Eva", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kim")


def made_up(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """Messages and facts with numbers and names, one in ten of them a near-duplicate."""
    chance = random.Random(seed)
    made: list[tuple[str, str]] = []
    for number in range(count):
        one, other, third = chance.sample(WORDS, 3)
        name, friend = chance.sample(NAMES, 2)
        if made and number % 10 == 0:
            kind, text = made[chance.randrange(len(made))]
            made.append((kind, text.replace(" was ", " really was ")))
        elif number % 5 == 0:
            made.append(("fact", f"The {one} {other} limit of {name} is {chance.randrange(900)}."))
        else:
            said = (
                f"{name} went to the {one} with {friend} and talked about the {other}. It was a "
                f"long day, and the {third} cost {chance.randrange(5000)} euros. In the end they "
                f"just went home again and everybody was quite happy about it, I think."
            )
            made.append(("message", said))
    return made


def put(memory: MemoryManager, made: list[tuple[str, str]], now: datetime, spread: int) -> None:
    from agentmem.base.types import Memory, content_hash
    from agentmem.search.intake import prepare_all

    memories = [
        Memory(
            id=memory.ids.new(),
            text=text,
            kind=kind,
            created_at=now - timedelta(days=number % spread),
            content_hash=content_hash(text),
        )
        for number, (kind, text) in enumerate(made)
    ]
    for start in range(0, len(memories), 500):
        part = memories[start : start + 500]
        memory.store.put(prepare_all(part, memory.embedding.embed(part)))


def timed(arguments: argparse.Namespace) -> dict[str, Any]:
    embedder = None if arguments.embedder == "none" else arguments.embedder
    now = datetime(2026, 6, 1, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as scratch:
        memory = opened(Path(scratch) / "memory.db", embedder, ManualClock(now))
        with memory:
            put(memory, made_up(arguments.time), now, 200)
            figures: dict[str, Any] = {"memories": arguments.time}
            for name in ("first", "again", "after 100 new"):
                if name == "after 100 new":
                    put(memory, made_up(100, seed=2), now, 5)
                began, spent = time.perf_counter(), time.process_time()
                report = memory.living.consolidate()
                figures[name] = {
                    "seconds": round(time.perf_counter() - began, 2),
                    "cpu seconds": round(time.process_time() - spent, 2),
                    **{
                        field: value
                        for field, value in replace(report, operations=()).to_dict().items()
                        if isinstance(value, int) and value
                    },
                }
            began = time.perf_counter()
            memory.living.undo(memory.living.journal()[-1].id)
            figures["undo of the first, seconds"] = round(time.perf_counter() - began, 2)
    return figures


def simulate_year(arguments: argparse.Namespace, *, cooling: bool) -> dict[str, Any]:
    """Milliseconds of a search (p50) after three months and after twelve, and what is hot."""
    embedder = None if arguments.embedder == "none" else arguments.embedder
    clock = ManualClock(datetime(2025, 1, 31, tzinfo=UTC))
    monthly: int = arguments.year
    settings = ConsolidationSettings(
        hot_memories=3 * monthly if cooling else 10**9, cool_after=timedelta(days=60)
    )
    chance = random.Random(5)
    figures: dict[str, Any] = {"put away": "what is old and unused" if cooling else "nothing"}
    with (
        tempfile.TemporaryDirectory() as scratch,
        opened(Path(scratch) / "memory.db", embedder, clock) as memory,
    ):
        for month in range(1, 13):
            made = made_up(monthly, seed=month)
            put(memory, made, clock.now(), 30)
            new = memory.get_all(limit=monthly)
            used = [one.id for one in chance.sample(new, max(1, len(new) // 20))]
            memory.store.record_usage(Scope(), used, at=clock.now(), retrieved=1, cited=1)
            cooled = memory.living.consolidate(settings=settings).cooled
            if month in (3, 12):
                figures[f"search after {month} months, ms"] = search_time(memory, made, chance)
                figures[f"put away in month {month}"] = cooled
            clock.advance(30 * 86_400)
        figures["memories"] = memory.store.count(Selection(reader=Scope()))
        figures["cold"] = memory.store.feed.cold_count()
    return figures


def search_time(memory: MemoryManager, made: list[tuple[str, str]], chance: random.Random) -> float:
    spent = []
    for _, text in [chance.choice(made) for _ in range(105)]:
        question = " ".join(chance.sample(text.split(), 5))
        began = time.perf_counter()
        memory.search(question, top_k=DEPTH, threshold=0.0, cold=False)
        spent.append(1000 * (time.perf_counter() - began))
    return round(sorted(spent[5:])[50], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--embedder", default="wordllama")
    parser.add_argument("--time", type=int, default=0, metavar="MEMORIES")
    parser.add_argument("--year", type=int, default=0, metavar="MONTHLY")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.data and not arguments.time and not arguments.year:
        parser.error("give --data, --time or --year")
    results = [timed(arguments)] if arguments.time else []
    if arguments.year:
        results += [simulate_year(arguments, cooling=cooling) for cooling in (True, False)]
    if arguments.data:
        results += [run(arguments, used=used) for used in (False, True)]
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for result in results:
        for name, value in result.items():
            print(f"{name}: {value}")
        print()


if __name__ == "__main__":
    main()
