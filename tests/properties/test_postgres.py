"""PostgreSQL keeps what the file keeps, and any number of workers are one memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.base.errors import DuplicateRecord
from agentmem.base.filters import Selection
from agentmem.base.types import Scope, content_hash
from agentmem.memory.manager import MemoryManager
from agentmem.search.postgres import PostgresSearch
from agentmem.search.results import Added, SearchResults
from agentmem.search.retriever import Request
from agentmem.stores.base import Store
from agentmem.stores.postgres.schema import TABLES
from agentmem.stores.postgres.store import PostgresStore
from agentmem.stores.postgres.transaction import Transaction
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.transfer import copy_store
from agentmem.stores.values import Artifact, Entry, SnapshotRecord
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties import test_store as promises
from tests.properties.store_strategies import entries
from tests.properties.test_search_twin import fill, memories, said, selections
from tests.servers.postgres import fresh_tenant, postgres_store
from tests.unit.store_samples import ANN, NOW, entry

FEWER = 8
"""A store over a socket is asked so many times fewer examples."""


@pytest.fixture
def fewer() -> Iterator[None]:
    before = settings.default
    assert before is not None
    settings.register_profile("socket", before, max_examples=before.max_examples // FEWER)
    settings.register_profile("before the socket", before)
    settings.load_profile("socket")
    yield
    settings.load_profile("before the socket")


@contextmanager
def postgres_alone() -> Iterator[tuple[Store, ...]]:
    with postgres_store() as store:
        yield (store,)


@pytest.mark.parametrize(
    "promise",
    [
        promises.test_a_stranger_sees_counts_and_changes_nothing,
        promises.test_a_source_has_the_chunks_of_its_newest_content,
        promises.test_no_memory_ever_stands_for_itself,
        promises.test_two_vector_spaces_never_mix,
    ],
)
def test_the_promises_of_a_store_hold_in_a_database(
    promise: Callable[[], None], fewer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promises, "both_stores", postgres_alone)
    promise()


def opened(tenant: str, clock: ManualClock) -> MemoryManager:
    store = postgres_store(tenant)
    return MemoryManager(
        store, search=PostgresSearch(store), embedder=HashEmbedder(16), clock=clock,
        settings=agentmem.MemorySettings(judge_new=False),
    )  # fmt: skip


def require_same(theirs: SearchResults, ours: SearchResults) -> None:
    """Both found the same texts with the same scores; the last bits are the server's."""
    found = [sorted((hit.memory.text, hit.score) for hit in one) for one in (theirs, ours)]
    assert [text for text, _ in found[0]] == [text for text, _ in found[1]]
    scores = [[score for _, score in one] for one in found]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


QUESTIONS = st.lists(
    st.tuples(said, selections(), st.sampled_from(("hybrid", "fulltext", "vector"))),
    min_size=1,
    max_size=3,
)


@given(drawn=memories(), questions=QUESTIONS, graph=st.booleans())
def test_the_database_finds_what_the_file_finds(
    drawn: list[dict[str, Any]], questions: list[tuple[str, Selection, Any]], graph: bool
) -> None:
    """P51 One search. A store in PostgreSQL finds the same memories as a SQLite file with the same data, with the same scores in the same order; only equal scores may change places."""
    clock = ManualClock()
    with (
        agentmem.open(":memory:", embedder=HashEmbedder(16), clock=clock, judge_new=False) as file,
        postgres_store() as store,
    ):
        fill(file, clock, drawn)
        file.flush()
        assert isinstance(file.store, SqliteStore)
        copy_store(file.store, store.database)
        search = PostgresSearch(store, exact_rows=0 if graph else 20_000)
        with MemoryManager(store, search=search, embedder=HashEmbedder(16), clock=clock) as there:
            for query, selection, mode in questions:
                request = Request(
                    query=query, selection=selection, top_k=4, mode=mode, now=clock.now()
                )
                ours, theirs = file.retriever.search(request), there.retriever.search(request)
                assert [h.score for h in theirs] == pytest.approx([h.score for h in ours], abs=1e-3)
                wide = replace(request, top_k=50)
                require_same(there.retriever.search(wide), file.retriever.search(wide))
                assert theirs.own_world == pytest.approx(ours.own_world, abs=1e-2)


def add_all(memory: MemoryManager, texts: list[str], user: str) -> list[Added]:
    return [item for text in texts for item in memory.add(text, user_id=user).items]


DEEDS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(("add", "add", "search", "erase")), said),
    min_size=1,
    max_size=5,
)
AT_ONCE = st.lists(st.lists(said, min_size=1, max_size=2), min_size=3, max_size=3)


def test_any_worker_answers_as_the_only_one_would() -> None:
    """P50 Stateless workers. Any interleaving of any number of workers on one PostgreSQL store gives a state that some order of the same calls gives, and every answer is what one worker alone would have given: nothing is kept in a worker that another one's write makes untrue."""
    clock, tenant, users = ManualClock(), fresh_tenant(), count(1)
    alone = agentmem.open(":memory:", embedder=HashEmbedder(16), clock=clock, judge_new=False)
    workers = [opened(tenant, clock) for _ in range(3)]

    @given(deeds=DEEDS, at_once=AT_ONCE)
    def some_order(deeds: list[tuple[int, str, str]], at_once: list[list[str]]) -> None:
        user = f"user {next(users)}"
        for number, what, text in deeds:
            clock.advance(60)
            worker = workers[number]
            for memory in (alone, worker):
                if what == "add":
                    memory.add(text, user_id=user)
                elif what == "erase":
                    for one in memory.get_all(user_id=user, limit=1):
                        memory.erase(one.id, user_id=user)
            expected = alone.search(text, user_id=user, threshold=0.0)
            for memory in {worker, workers[number - 1]}:
                require_same(memory.search(text, user_id=user, threshold=0.0), expected)
        # All at once: whatever the order, each text is there once, under the id that all were told.
        with ThreadPoolExecutor(len(workers)) as pool:
            adding = [
                pool.submit(add_all, memory, texts, user)
                for memory, texts in zip(workers, at_once, strict=True)
            ]
            added = [(item.text, item.id) for one in adding for item in one.result()]
        for texts in at_once:
            add_all(alone, texts, user)
        kept = {m.id: content_hash(m.text) for m in workers[0].get_all(user_id=user, limit=1000)}
        theirs = [content_hash(m.text) for m in alone.get_all(user_id=user, limit=1000)]
        assert sorted(kept.values()) == sorted(theirs)
        assert all(kept[memory_id] == content_hash(text) for text, memory_id in added)

    try:
        some_order()
        assert workers[0].store.upkeep.verify().problems == ()
    finally:
        for memory in (alone, *workers):
            memory.close()


@settings(max_examples=8)
@given(
    needle=st.sampled_from(promises.NEEDLES),
    others=st.lists(entries(), max_size=2, unique_by=lambda e: e.memory.id),
)
def test_erased_words_are_in_no_table(needle: str, others: list[Entry]) -> None:
    """The same as in a file (P26), as far as a statement can see."""
    with postgres_store() as store:
        with suppress(DuplicateRecord):
            store.put(e for e in others if needle not in repr(e.memory))
        text = f"The secret is {needle}."
        secret = entry("secret", text, speaker=needle, session=needle, title=needle)
        store.put_new([secret], same="message")
        store.update(ANN, replace(secret, memory=replace(secret.memory, text=text + "!")), at=NOW)
        store.snapshots.put(
            SnapshotRecord(
                id="t", created_at=NOW, data={"s": text}, mentions=("secret",), scope=ANN
            )
        )
        store.artifacts.put(Artifact(id="r", created_at=NOW, data=text.encode(), scope=ANN))
        store.jobs.enqueue("index", {"text": text}, at=NOW, scope=ANN)
        assert is_written(store, needle)
        receipt = store.erase(ANN, ["secret"], at=NOW)
        assert not receipt.complete
        assert any("VACUUM" in said for said in receipt.remains)
        assert any("write-ahead log" in said for said in receipt.remains)
        assert not is_written(store, needle)
        assert store.snapshots.list(ANN) == ()
        assert store.artifacts.list(ANN) == ()
        assert store.jobs.counts()["waiting"] == 0
        assert store.upkeep.verify().problems == ()


def is_written(store: PostgresStore, needle: str) -> bool:
    """Whether any column of the tenant holds these words, as they are or inside JSON."""
    wanted = (needle, json.dumps(needle, ensure_ascii=False)[1:-1])

    def look(transaction: Transaction) -> bool:
        return any(
            any(one in text for one in wanted)
            for table in TABLES
            for row in transaction.all(f"SELECT * FROM {table} WHERE tenant = %(tenant)s")
            for value in row
            for text in (
                [value.decode("utf-8", "replace")] if isinstance(value, bytes) else [str(value)]
            )
        )

    return store.database.read(look)


def test_a_scope_sees_nothing_of_another_tenant() -> None:
    with postgres_store() as ours, postgres_store() as theirs:
        ours.put([entry("a", "only ours")])
        assert theirs.get_many(Scope(user_id="ann"), ["a"]) == ()
        theirs.put([entry("a", "only theirs")])
        assert ours.get(ANN, "a").text == "only ours"
        assert theirs.get(ANN, "a").text == "only theirs"
