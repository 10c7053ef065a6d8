"""What the everyday API promises, on both stores."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import agentmem
from agentmem.base.errors import EmbedderFailed, InvalidText, RecordNotFound
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope, content_hash
from agentmem.sources.pages import one_line
from agentmem.stores.values import is_dsn
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties.strategies import texts
from tests.servers.postgres import drawn_dsn

WORDS = ("tea", "Tea", "coffee", "green", "blue", "deploy", "Thursday", "not", "the", "日本", "a")
SAID = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
USERS = st.sampled_from(("alice", "bob"))


@contextmanager
def opened(path: Path | str, embedder: Any = None) -> Iterator[agentmem.MemoryManager]:
    memory = agentmem.open(
        path,
        embedder=embedder or HashEmbedder(16),
        clock=ManualClock(),
        durability="normal",
        save_indexes=False,
    )
    with memory:
        yield memory


IN_A_DATABASE = st.sampled_from((False, False, False, False, True))
"""Whether an example is tried in a database too, which is slower."""


@contextmanager
def stores(*, database: bool = False) -> Iterator[list[Path | str]]:
    """A place for each kind of store."""
    folder = Path(tempfile.mkdtemp())
    try:
        yield [":memory:", folder / "memory.db", *([drawn_dsn()] if database else [])]
    finally:
        shutil.rmtree(folder)


def seen(memory: agentmem.MemoryManager, query: str, user: str) -> list[tuple[str, float]]:
    hits = memory.search(query, user_id=user, top_k=20, threshold=0.0)
    assert not hits.degradations
    return [(hit.memory.text, hit.score) for hit in hits]


@given(
    said=st.lists(SAID, min_size=1, max_size=12),
    query=texts() | SAID,
    top_k=st.integers(0, 15),
    threshold=st.sampled_from((0.0, 0.3, 0.9, 1.0)),
    mode=st.sampled_from(("hybrid", "vector", "fulltext")),
)
def test_a_search_gives_at_most_top_k_in_order_and_none_below_the_threshold(
    said: list[str], query: str, top_k: int, threshold: float, mode: Any
) -> None:
    """P1 Top-k bound. Any query, any `top_k`: at most that many hits, best first, none below."""
    with opened(":memory:") as memory:
        for text in said:
            memory.add(text, user_id="alice")
        hits = memory.search(query, top_k=top_k, threshold=threshold, mode=mode, user_id="alice")
        scores = [hit.score for hit in hits]
        assert len(hits) <= top_k
        assert scores == sorted(scores, reverse=True)
        assert all(score >= threshold for score in scores)
        assert len({hit.memory.id for hit in hits}) == len(hits)


@given(
    text=texts(), url=texts(30), title=texts(30), late=st.integers(0, 10**6), first=st.booleans()
)
def test_every_chunk_of_a_page_says_where_and_when_it_is_from(
    text: str, url: str, title: str, late: int, first: bool
) -> None:
    """P5 Index metadata. Every chunk of a page carries its url, its title and when it was handed over, at once or through the background, however late that comes to it."""
    with opened(":memory:") as memory:
        page = agentmem.Document(text=text, url=url, title=title)
        if not text.strip():
            try:
                memory.add(page)
            except InvalidText:
                return
            raise AssertionError("an empty page was taken")
        added = memory.add(page)
        chunks = memory.get_all(limit=1000)
        assert {chunk.id for chunk in chunks} == set(added.ids)
        now = ManualClock().now()
        for chunk in chunks:
            assert chunk.source_url == (url or f"text:{content_hash(text)[:24]}")
            assert chunk.title == title
            assert abs((chunk.created_at - now).total_seconds()) <= 1
    for chunk in handed_over(f"The harbour. {text}", title, late=late, first=first):
        assert chunk.source_url == "https://x.example/a"
        assert chunk.title == one_line(title)
        assert abs((chunk.created_at - now).total_seconds()) <= 1


def wait_for(event: Event) -> None:
    assert event.wait(30)


def handed_over(text: str, title: str, *, late: int, first: bool) -> list[Memory]:
    """What a page becomes that the background comes to `late` seconds after it was handed over.

    The first page of a memory waits for what has to be loaded, every other one in the queue.
    """
    clock, opens = ManualClock(), Event()
    with agentmem.open(":memory:", embedder=None, clock=clock) as memory:
        if not first:
            memory.runtime.worker.handle("gate", lambda _payload, _scope: wait_for(opens))
            memory.runtime.worker.submit("gate", {}, scope=Scope())
        assert memory.sources.enqueue_page(text, "https://x.example/a", title)
        clock.advance(late)
        opens.set()
        assert memory.flush(30)
        return list(memory.get_all(limit=1000))


@given(
    first=SAID,
    second=SAID,
    times=st.integers(1, 4),
    filler=st.integers(0, 40),
)
def test_a_page_indexed_again_is_one_page(first: str, second: str, times: int, filler: int) -> None:
    """P6 Index idempotence. Same url and content, from many threads: one set; changed: the newest."""
    body = "\n\n".join(
        f"Paragraph {number} of the page stays as it is." for number in range(filler)
    )
    pages = [f"{body}\n\n{last}" for last in (first, second)]
    with stores() as places:
        for place in places:
            with opened(place) as memory:
                for number, page in enumerate(pages):
                    with ThreadPoolExecutor(3) as threads:
                        work = [
                            threads.submit(
                                memory.sources.add_document, page, url="https://a.example/p"
                            )
                            for _ in range(times)
                        ]
                        results = [future.result() for future in work]
                    changed = number == 0 or pages[0] != pages[1]
                    assert sum(not result.unchanged for result in results) == int(changed)
                    chunks = memory.sources.search_by_url("https://a.example/p")
                    joined = "\n\n".join(chunk.text for chunk in chunks)
                    assert joined.split() == page.split()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), USERS, SAID),
        st.tuples(st.just("page"), USERS, SAID),
        st.tuples(st.just("delete"), USERS, st.integers(0, 5)),
        st.tuples(st.just("erase"), USERS, st.integers(0, 5)),
        st.tuples(st.just("update"), USERS, SAID),
        st.tuples(st.just("meddle"), USERS, SAID),
        st.tuples(st.just("search"), USERS, SAID),
    ),
    max_size=12,
)


def play(memory: agentmem.MemoryManager, steps: Sequence[tuple[str, str, Any]]) -> None:
    """Do the steps; whoever meddles tries to change everybody's memories under their own name."""
    everybody: list[str] = []
    for what, user, value in steps:
        mine = [m.id for m in memory.get_all(user_id=user, limit=100)]
        everybody += [i for i in mine if i not in everybody]
        if what == "add":
            memory.add(value, user_id=user)
        elif what == "page":
            memory.sources.add_document(value, url="https://a.example/same", user_id=user)
        elif what == "search":
            memory.search(value, user_id=user)
        elif what == "meddle":
            for other in [i for i in everybody if i not in mine]:
                try:
                    memory.update(other, value, user_id=user)
                except RecordNotFound:
                    continue
                raise AssertionError("somebody else's memory was changed")
        elif mine:
            chosen = mine[value % len(mine)] if isinstance(value, int) else mine[0]
            if what == "delete":
                memory.delete(chosen, user_id=user)
            elif what == "erase":
                memory.erase(chosen, user_id=user)
            else:
                memory.update(chosen, value, user_id=user)


@given(steps=operations, query=SAID, database=IN_A_DATABASE)
def test_nobody_sees_counts_or_is_ranked_against_somebody_elses_memories(
    steps: list[tuple[str, str, Any]], query: str, database: bool
) -> None:
    """P24 Scope. What others do changes nothing a reader sees: no hit, no count, no score."""
    alone = [step for step in steps if step[1] == "alice"]
    with stores(database=database) as places:
        for place in places:
            with ExitStack() as stack:
                together = stack.enter_context(opened(place))
                elsewhere = drawn_dsn() if is_dsn(place) else ":memory:"
                lonely = stack.enter_context(opened(elsewhere))
                play(together, steps)
                play(lonely, alone)
                assert seen(together, query, "alice") == seen(lonely, query, "alice")
                for reader in (together, lonely):
                    reader.search("warm", user_id="alice")
                left = [
                    sorted(m.text for m in r.get_all(user_id="alice")) for r in (together, lonely)
                ]
                assert left[0] == left[1]
                counts = [r.upkeep.get_stats(user_id="alice").store for r in (together, lonely)]
                assert counts[0].chunks == counts[1].chunks
                assert counts[0].documents == counts[1].documents
                assert counts[0].kinds == counts[1].kinds


@given(
    said=st.lists(SAID, min_size=1, max_size=10, unique=True), query=SAID, database=IN_A_DATABASE
)
def test_the_same_memories_answer_the_same_however_they_came(
    said: list[str], query: str, database: bool
) -> None:
    """P28 Same answer. One by one or in a batch, either store, this process or another's writes."""
    messages = [
        {"role": "user", "content": text, "position": place} for place, text in enumerate(said)
    ]
    answers = []
    with stores(database=database) as places:
        for place in places:
            with opened(place) as memory:
                memory.add(messages, session="s", user_id="alice")
                answers.append(seen(memory, query, "alice"))
    with (
        stores(database=database) as places,
        opened(places[-1]) as writer,
        opened(places[-1]) as reader,
    ):
        for message in messages:
            writer.add([message], session="s", user_id="alice")
            reader.search(query, user_id="alice")  # it must see each at its next search
        answers += [seen(writer, query, "alice"), seen(reader, query, "alice")]
    for answer in answers:  # the last bits of a score in a database are the server's
        assert [text for text, _ in answer] == [text for text, _ in answers[0]]
        scores = [score for _, score in answer]
        assert scores == pytest.approx([score for _, score in answers[0]], abs=1e-6)


class OtherEmbedder(HashEmbedder):
    """Another space of the same size, and one that fails after `patience` texts."""

    def __init__(self, dimensions: int, patience: int = 10**9) -> None:
        super().__init__(dimensions)
        self.id = EmbedderId(name="other", version="1", dimensions=dimensions)
        self.patience = patience

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        if self.patience < len(texts):
            raise EmbedderFailed("out of patience")
        self.patience -= len(texts)
        rows: NDArray[np.float32] = np.roll(super().embed_documents(texts), 5, axis=1)
        return rows


@given(
    said=st.lists(SAID, min_size=1, max_size=10, unique=True),
    query=SAID,
    patience=st.integers(0, 12),
)
def test_changing_the_embedder_loses_nothing_and_never_mixes_spaces(
    said: list[str], query: str, patience: int
) -> None:
    """P29 Re-embedding. Old vectors serve until all new ones are there; a broken run goes on."""
    with stores() as places:
        path = places[1]
        with opened(path, HashEmbedder(16)) as memory:
            for text in said:
                memory.add(text, user_id="alice")
            before = seen(memory, query, "alice")
        broken = OtherEmbedder(16, patience)
        with changed(path, broken) as memory:
            try:
                memory.embedding.fill_gaps(batch=2)
            except EmbedderFailed:
                assert seen(memory, query, "alice") == before  # the old space still answers
                broken.patience = 10**9
                memory.upkeep.reembed()
            hits = memory.search(query, user_id="alice", top_k=20, threshold=0.0, explain=True)
            assert memory.embedding.serving_id == broken.id
            fresh = OtherEmbedder(16)
            for hit in hits:
                stored = memory.store.feed.vectors(broken.id)[1]
                again = fresh.embed_documents([hit.memory.text])[0]
                assert any(np.allclose(vector, again, atol=1e-2) for vector in stored)
            assert {m.text for m in memory.get_all(user_id="alice")} == set(said)


@contextmanager
def changed(path: Path | str, embedder: Any) -> Iterator[agentmem.MemoryManager]:
    """The store opened with another embedder while the old one can still be had."""
    from agentmem.base.config import MemorySettings
    from agentmem.memory.manager import MemoryManager
    from agentmem.stores.sqlite.store import SqliteStore

    memory = MemoryManager(
        SqliteStore(path, durability="normal"),
        embedder=embedder,
        clock=ManualClock(),
        settings=MemorySettings(embed_in_background=False),
        load_embedder=lambda _: HashEmbedder(16),
    )
    with memory:
        yield memory
