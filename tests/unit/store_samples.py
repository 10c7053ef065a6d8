"""A small store with something in every table, and all its answers as one value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from agentmem.base.filters import Selection, parse_filter
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope
from agentmem.stores.base import Store
from agentmem.stores.values import Artifact, Entry, IndexFile, Link, SnapshotRecord, Source
from tests.entries import make_entry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Scope(user_id="ann")
BOB = Scope(user_id="bob", project_id="p")
SPACE = EmbedderId(name="hash", version="1", dimensions=8)
READERS = (ANN, BOB, Scope(), Scope(user_id="bob"))


def entry(
    memory_id: str, text: str = "", *, scope: Scope = ANN, minutes: int = 0, **fields: Any
) -> Entry:
    """An entry with terms and a vector that depend on its id."""
    memory = Memory(
        id=memory_id,
        text=text or f"What is known about {memory_id}.",
        created_at=NOW + timedelta(minutes=minutes),
        scope=scope,
        **fields,
    )
    random = np.random.default_rng(abs(hash_of(memory_id)))
    return make_entry(
        memory,
        terms=np.unique(random.integers(0, 2**63, 6, dtype=np.uint64)),
        frequencies=np.full(6, 2, np.uint16),
        vectors={SPACE: random.standard_normal(8).astype(np.float32)},
    )


def hash_of(text: str) -> int:
    return sum((index + 1) * ord(letter) for index, letter in enumerate(text))


def fill(store: Store, *, size: int = 30) -> None:
    """Put something into every table."""
    store.put(
        [
            entry(
                f"m{number}",
                scope=ANN if number % 3 else BOB,
                session=f"s{number % 4}",
                position=number // 4,
                speaker="Ann" if number % 2 else "Bob",
                kind="message",
                minutes=number,
                metadata={"number": number, "even": number % 2 == 0},
                summary=f"short {number}",
            )
            for number in range(size)
        ]
    )
    long = "A long page. " * 500  # does not fit into one page of the file
    store.replace_source(
        Source(url="https://example.com/a", content_hash="1", title="A", scope=ANN),
        [entry("p1", long, source_url="https://example.com/a", title="A", position=0)],
        at=NOW,
    )
    store.put([entry("shared", scope=BOB, visibility="project"), entry("all", visibility="system")])
    store.update(ANN, entry("m1", "changed", session="s1", position=9), at=NOW)
    store.supersede(ANN, "m2", entry("m2b", "newer"), at=NOW)
    store.delete(ANN, ["m4"], at=NOW)
    store.record_usage(ANN, ["m5", "m7"], at=NOW, retrieved=2, cited=1)
    store.settings.set("color", "green")
    store.jobs.enqueue("index", {"url": "https://example.com/b"}, at=NOW, key="b", scope=ANN)
    store.snapshots.put(
        SnapshotRecord(id="t1", created_at=NOW, data={"seen": ["m5"]}, mentions=("m5",), scope=ANN)
    )
    store.artifacts.put(Artifact(id="r1", data=b"\x00result" * 50, created_at=NOW, scope=ANN))
    store.links.put(ANN, Link(first_id="m5", second_id="m7", relation="same", created_at=NOW))
    store.contradictions.put(
        ANN, Link(first_id="m7", second_id="m8", relation="denies", created_at=NOW)
    )
    store.feed.keep_index_file(IndexFile(name="words.idx", sha256="ab", seq=store.feed.seq()))


def everything(store: Store) -> dict[str, Any]:
    """Every answer the store can give about what `fill` put into it."""
    indexed = store.feed.index_rows()
    rows = indexed.rows.tolist()
    found, matrix = store.feed.vectors(SPACE)
    answers: dict[str, Any] = {
        "index": {
            name: getattr(indexed, name).tolist()
            for name in ("rows", "owner", "strand", "previous", "kind", "created_at", "flags",
                         "length", "terms", "frequencies")
        },
        "changes": store.feed.changes(0),
        "texts": store.feed.texts(rows),
        "vectors": (found.tolist(), matrix.tobytes()),
        "embedders": store.feed.embedders(),
        "sources": store.upkeep.sources(),
        "secret": store.settings.secret(),
        "color": store.settings.get("color"),
        "jobs": store.jobs.counts(),
        "index file": store.feed.index_file("words.idx"),
    }  # fmt: skip
    for reader in READERS:
        ids = [memory.id for memory in answers["texts"].values()]
        selections = (
            Selection(reader=reader, superseded=True, deleted=True),
            Selection(reader=reader, where=parse_filter({"even": True})),
            Selection(reader=reader, source_url="https://example.com/a"),
        )
        answers[str(reader)] = (
            [(s, store.select_rows(s).tolist(), store.count(s)) for s in selections],
            store.recent(selections[0], limit=5),
            store.get_many(reader, ids),
            [store.history(reader, m.id) for m in store.get_many(reader, ids)],
            store.snapshots.list(reader),
            store.artifacts.list(reader),
            store.links.all(reader),
            store.contradictions.all(reader),
            store.upkeep.stats(reader).kinds,
        )
    return answers
