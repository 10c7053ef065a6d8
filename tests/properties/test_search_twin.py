"""Every search brings in the same: the one with indexes and the one that reads everything."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.base.filters import Selection, parse_filter
from agentmem.base.types import Scope
from agentmem.memory.manager import MemoryManager
from agentmem.search.retriever import Request, Retriever
from agentmem.stores.sqlite.store import IN_MEMORY, SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.scan_search import ScanSearch

WORDS = ("quince", "marmalade", "harbour", "lantern", "Maria", "Tom")
said = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
turns = st.lists(st.tuples(st.sampled_from(("", "?")), said), min_size=1, max_size=5)
USERS = ("ann", "ben")


@st.composite
def memories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations, pages and facts of two people, some of them replaced or deleted."""
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    "user": st.sampled_from(USERS),
                    "turns": turns,
                    "sort": st.sampled_from(("said", "named", "page", "fact")),
                    "then": st.sampled_from(("", "", "supersede", "delete")),
                }
            ),
            min_size=1,
            max_size=8,
        )
    )


def fill(memory: agentmem.MemoryManager, clock: ManualClock, drawn: list[dict[str, Any]]) -> None:
    for number, one in enumerate(drawn):
        clock.advance(86_400)
        texts = [text + mark for mark, text in one["turns"]]
        whose = {"user_id": one["user"]}
        if one["sort"] in ("said", "named"):
            spoken = [
                {
                    "role": ("user", "assistant")[at % 2],
                    "content": text,
                    **({"name": ("Maria", "Tom")[at % 2]} if one["sort"] == "named" else {}),
                }
                for at, text in enumerate(texts)
            ]
            ids = memory.add(spoken, session=f"s{number}", **whose).ids
        elif one["sort"] == "page":
            ids = memory.sources.add_document(
                texts, url=f"https://example.org/{number}", **whose
            ).ids
        else:
            ids = memory.add(texts[0], kind="fact", metadata={"n": number % 2}, **whose).ids
        if ids and one["then"] == "delete":
            memory.delete(ids[0], **whose)
        elif ids and one["then"] == "supersede":
            memory.living.supersede(ids[0], f"{texts[0]} now", **whose)


def selections() -> st.SearchStrategy[Selection]:
    return st.builds(
        Selection,
        reader=st.sampled_from(USERS).map(lambda user: Scope(user_id=user)),
        where=st.sampled_from((parse_filter({}), parse_filter({"n": 1}))),
        kinds=st.sampled_from((None, None, ("message",), ("fact", "page"))),
    )


@given(
    memories(),
    st.lists(
        st.tuples(said, selections(), st.sampled_from(("hybrid", "fulltext", "vector"))),
        min_size=1,
        max_size=3,
    ),
)
def test_every_search_finds_the_same(
    drawn: list[dict[str, Any]], questions: list[tuple[str, Selection, Any]]
) -> None:
    """R21 Any search. A search that reads every row for every question finds what the indexes find: the same memories with the same scores, for the same reasons."""
    clock = ManualClock()
    with agentmem.open(":memory:", embedder=HashEmbedder(16), clock=clock) as memory:
        fill(memory, clock, drawn)
        twin = Retriever(memory.store, ScanSearch(memory.store), memory.embedding)
        for query, selection, mode in questions:
            request = Request(
                query=query, selection=selection, top_k=4, mode=mode, explain=True, now=clock.now()
            )
            ours, theirs = memory.retriever.search(request), twin.search(request)
            scores = [
                {(c.id, c.fate.startswith("filtered")): c.score for c in found.candidates}
                for found in (ours, theirs)
            ]
            assert scores[0] == pytest.approx(scores[1], abs=1e-3)
            best = [[hit.score for hit in found] for found in (ours, theirs)]
            assert best[0] == pytest.approx(best[1], abs=1e-3)
            assert ours.own_world == pytest.approx(theirs.own_world, abs=1e-2)


def test_a_memory_works_with_a_search_of_its_stores_own() -> None:
    store = SqliteStore(IN_MEMORY)
    with MemoryManager(
        store, embedder=HashEmbedder(16), clock=ManualClock(), search=ScanSearch(store)
    ) as memory:
        memory.add("My favourite tea is rooibos.", user_id="ann")
        memory.add("My favourite tea is sencha.", user_id="ben")
        (hit,) = memory.search("Which tea is my favourite?", user_id="ann", threshold=0.0)
        assert hit.memory.text == "My favourite tea is rooibos."
        turn = memory.turn(
            [{"role": "user", "content": "Which tea is my favourite?"}], user_id="ann"
        )
        assert "rooibos" in str(turn.messages)
        assert "sencha" not in str(turn.messages)
        assert memory.living.consolidate(user_id="ann") is not None
