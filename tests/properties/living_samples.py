"""Memories that meet each other: near-duplicates, contradictions, chatter, all ages and uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from hypothesis import strategies as st

from agentmem.base.config import MemorySettings
from agentmem.base.types import Memory, Scope, Usage
from agentmem.living.plans import MERGE_SIMILARITY, MergeReason, compare_texts
from agentmem.memory.manager import MemoryManager
from agentmem.search.intake import prepare_all
from agentmem.search.postgres import PostgresSearch
from agentmem.stores.base import Store
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties.store_model import fresh_folder
from tests.properties.strategies import texts
from tests.servers.postgres import drawn_database

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ANN, BOB = Scope(user_id="ann"), Scope(user_id="bob", project_id="p")
MARKET = (
    "Ana went to the market in Lisbon. It was really very nice there. She bought 3 apples, "
    "some bread and a little cheese. Then she simply walked home again with her sister Eva."
)
FIXED = (
    "The build failed because of a missing header. We fixed it by installing libpq-dev. "
    "After that everything was green again, and we were all quite happy about it."
)
SAID = (
    "We use Postgres 15 for the main database.",
    "We use Postgres 15 for the main database now.",
    "We use Postgres 16 for the main database.",
    "The API limit is 900 requests per minute.",
    "The API limit is 600 requests per minute.",
    "As of today the API limit is 600 requests per minute.",
    "Deploys go out on Thursdays.",
    "Deploys do not go out on Thursdays.",
    MARKET,
    MARKET.replace("really very", "really"),
    FIXED,
    "",
    "\x00",
)
_usages = st.sampled_from(
    (
        Usage(),
        Usage(),
        Usage(retrieved=2, last_used_at=NOW - timedelta(days=40)),
        Usage(retrieved=3, cited=3, last_used_at=NOW - timedelta(days=1)),
        Usage(retrieved=30, ignored=30, last_used_at=NOW - timedelta(days=2)),
    )
)
_metadatas: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    ({}, {}, {}, {"pinned": True}, {"tags": ["a"]}, {"tags": ["b"]}, {"tags": None, "n": 1.0})
)
_owners = st.sampled_from(
    ((ANN, "private"), (ANN, "private"), (ANN, "private"), (BOB, "private"), (BOB, "project"))
)


def _memory(  # noqa: PLR0917 # a strategy's parts come by position
    text: str, days: float, kind: str, owner: tuple[Scope, Any], usage: Usage, metadata: Any
) -> Memory:
    scope, visibility = owner
    return Memory(
        id="?",
        text=text,
        created_at=NOW - timedelta(days=days),
        kind=kind,
        scope=scope,
        visibility=visibility,
        usage=usage,
        metadata=metadata,
    )


_one = st.builds(
    _memory,
    st.sampled_from(SAID) | texts(30),
    st.sampled_from((0, 1, 8, 20, 31, 60, 89.9, 90, 91, 200)),
    st.sampled_from(("fact", "fact", "message", "message", "episode", "preference", "page")),
    _owners,
    _usages,
    _metadatas,
)


def living_memories(most: int = 12) -> st.SearchStrategy[list[Memory]]:
    """Up to `most` memories with ids of their own."""
    lists = st.lists(_one, max_size=most)
    return lists.map(lambda found: [replace(m, id=f"m{n:02}") for n, m in enumerate(found)])


Place = Literal["file", "memory", "database"]
PLACES: st.SearchStrategy[Place] = st.sampled_from(("file", "memory", "file", "memory", "database"))
"""Where a memory is kept; a database, which is slower, in every fifth example."""


@contextmanager
def opened_memory(
    memories: list[Memory], place: Place, *, embedder: bool = True
) -> Iterator[MemoryManager]:
    """A memory with these in it, at the moment `NOW`."""
    folder = fresh_folder() if place == "file" else None
    parts: dict[str, Any] = {}
    store: Store
    if place == "database":
        store = database = drawn_database()
        parts["search"] = PostgresSearch(database)
    else:
        store = SqliteStore(":memory:") if folder is None else SqliteStore(folder / "store.db")
    manager = MemoryManager(
        store,
        **parts,
        embedder=HashEmbedder() if embedder else None,
        clock=ManualClock(NOW),
        settings=MemorySettings(save_indexes=False, embed_in_background=False),
        path=None if folder is None else folder / "store.db",
    )
    try:
        if memories:
            manager.store.put(prepare_all(memories, manager.embedding.embed(memories)))
        yield manager
    finally:
        manager.close()
        if folder is not None:
            import shutil

            shutil.rmtree(folder)


def contents(manager: MemoryManager) -> dict[str, Any]:
    """All that a consolidation could touch, and more."""
    feed = manager.store.feed
    indexed = feed.index_rows()
    rows = indexed.rows.tolist()
    columns = ("flags", "valid_from", "valid_to", "owner", "previous", "terms", "frequencies")
    return {
        "memories": feed.texts(rows),
        "index": {name: getattr(indexed, name).tolist() for name in columns},
        "vectors": [
            (found.tolist(), matrix.tobytes())
            for found, matrix in (feed.vectors(e) for e in feed.embedders())
        ],
        "links": [manager.store.links.all(scope) for scope in (ANN, BOB)],
        "contradictions": [manager.store.contradictions.all(scope) for scope in (ANN, BOB)],
        "history": [manager.store.history(one.scope, one.id) for one in feed.texts(rows).values()],
    }


def same_meaning(
    first: str, second: str, similarity: float, *, threshold: float = MERGE_SIMILARITY
) -> MergeReason:
    """Whether two texts that nobody read before say the same."""
    return compare_texts(first, second, similarity, least=threshold)
