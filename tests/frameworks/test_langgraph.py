"""LangGraph's store: what its contract says, with its in-memory store as twin, and in a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder, ManualClock
from tests.frameworks.shared import operations

pytest.importorskip("langgraph", reason="needs agentmem-loop[langgraph]")

from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore

from agentmem.compat.langgraph import MemoryStore


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def opened(clock: ManualClock) -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=clock) as memory:
        yield memory


@pytest.fixture
def store(opened: MemoryManager) -> MemoryStore:
    return MemoryStore(opened)


def test_an_item_comes_back_as_it_was_put(store: MemoryStore, clock: ManualClock) -> None:
    value = {"a": 1, "b": [1, {"c": None}], "d": {"e": "ü", "f": True}, "g": ""}
    store.put(("users", "ann"), "k", value)
    found = store.get(("users", "ann"), "k")
    assert found is not None
    assert (found.value, found.key, found.namespace) == (value, "k", ("users", "ann"))
    assert type(found.value["b"]) is list
    assert found.created_at == found.updated_at == clock.now()
    assert store.get(("users",), "k") is None
    assert store.get(("users", "ann"), "other") is None


def test_a_second_put_replaces_and_keeps_when_it_was_made(
    store: MemoryStore, clock: ManualClock
) -> None:
    store.put(("a",), "k", {"v": 1})
    made = clock.now()
    clock.advance(60)
    store.put(("a",), "k", {"v": 2})
    found = store.get(("a",), "k")
    assert found is not None
    assert (found.value, found.created_at, found.updated_at) == ({"v": 2}, made, clock.now())


def test_what_is_deleted_is_gone_and_may_come_again(store: MemoryStore) -> None:
    store.put(("a",), "k", {"v": 1})
    store.delete(("a",), "k")
    store.delete(("a",), "never there")
    assert store.get(("a",), "k") is None
    assert store.search(("a",)) == []
    store.put(("a",), "k", {"v": 1})
    assert store.get(("a",), "k") is not None


def test_a_batch_answers_in_order_and_reads_before_it_writes(store: MemoryStore) -> None:
    store.put(("a",), "k", {"v": 1})
    put = PutOp(namespace=("a",), key="k", value={"v": 2})
    last = PutOp(namespace=("a",), key="k", value={"v": 3})
    got = store.batch(
        [put, GetOp(("a",), "k"), SearchOp(("a",)), ListNamespacesOp(), GetOp(("a",), "x"), last]
    )
    assert got[0] is None
    assert got[1].value == {"v": 1}  # type: ignore[union-attr]
    assert [one.value for one in got[2]] == [{"v": 1}]  # type: ignore[union-attr]
    assert got[3] == [("a",)]
    assert got[4:] == [None, None]
    assert store.get(("a",), "k").value == {"v": 3}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "namespace", [(), ("",), ("a", ""), ("a.b",), ("langgraph",), ("a", 1), ("a\0",)]
)
def test_a_namespace_that_is_none_is_refused(store: MemoryStore, namespace: Any) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"v": 1})
    if namespace not in ((), ("langgraph",)):
        with pytest.raises(InvalidNamespaceError):
            store.batch([PutOp(namespace, "k", {"v": 1})])


def test_labels_do_not_run_into_each_other(store: MemoryStore) -> None:
    store.put(("ab", "c"), "k", {"v": 1})
    store.put(("a", "bc"), "k", {"v": 2})
    assert [one.value for one in store.search(("a",))] == [{"v": 2}]
    assert store.get(("ab", "c"), "k").value == {"v": 1}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"kind": "report"}, {"a", "b"}),
        ({"score": {"$gt": 4.99}}, {"b", "c"}),
        ({"score": {"$gte": 3, "$lt": 5}}, {"a", "b"}),
        ({"score": {"$lte": 3}}, {"a"}),
        ({"kind": {"$ne": "report"}}, {"c", "d"}),
        ({"kind": {"$eq": "note"}}, {"c"}),
        ({"by": {"name": "ann"}}, {"a"}),
        ({"tags": ["x", "y"]}, {"b"}),
        ({"tags": ["x"]}, set()),
        ({"missing": {"$gt": 1}}, set()),
        ({}, {"a", "b", "c", "d"}),
    ],
)
def test_filters_compare_fields_of_the_value(
    store: MemoryStore, wanted: dict[str, Any], keys: set[str]
) -> None:
    store.put(("d",), "a", {"kind": "report", "score": 3, "by": {"name": "ann", "age": 3}})
    store.put(("d",), "b", {"kind": "report", "score": 4.995, "tags": ["x", "y"]})
    store.put(("d", "e"), "c", {"kind": "note", "score": 9})
    store.put(("d",), "d", {"tags": []})
    assert {one.key for one in store.search(("d",), filter=wanted)} == keys


def test_an_unknown_operator_is_refused(store: MemoryStore) -> None:
    store.put(("d",), "a", {"n": 1})
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.search(("d",), filter={"n": {"$near": 1}})


def test_pages_hold_everything_once(store: MemoryStore, clock: ManualClock) -> None:
    for number in range(7):
        store.put(("p",), str(number), {"n": number})
        clock.advance(1)
    pages = [store.search(("p",), limit=3, offset=at) for at in (0, 3, 6, 9)]
    assert [one.key for page in pages for one in page] == list("6543210")
    assert [len(page) for page in pages] == [3, 3, 1, 0]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, [("a", "b"), ("a", "b", "c"), ("a", "x", "c"), ("d",)]),
        ({"prefix": ("a",)}, [("a", "b"), ("a", "b", "c"), ("a", "x", "c")]),
        ({"prefix": ("a", "*", "c")}, [("a", "b", "c"), ("a", "x", "c")]),
        ({"suffix": ("c",)}, [("a", "b", "c"), ("a", "x", "c")]),
        ({"suffix": ("b", "*")}, [("a", "b", "c")]),
        ({"prefix": ("a",), "suffix": ("x", "c")}, [("a", "x", "c")]),
        ({"max_depth": 1}, [("a",), ("d",)]),
        ({"max_depth": 2}, [("a", "b"), ("a", "x"), ("d",)]),
        ({"limit": 1, "offset": 1}, [("a", "b", "c")]),
        ({"prefix": ("nobody",)}, []),
    ],
)
def test_namespaces_are_listed_by_prefix_suffix_and_depth(
    store: MemoryStore, options: dict[str, Any], found: list[tuple[str, ...]]
) -> None:
    for namespace in (("a", "b"), ("a", "b", "c"), ("a", "x", "c"), ("d",)):
        store.put(namespace, "k", {"v": 1})
    assert store.list_namespaces(**options) == found


def test_a_search_by_words_ranks_by_what_items_say(store: MemoryStore) -> None:
    store.put(("docs",), "tea", {"text": "green tea in the morning"})
    store.put(("docs",), "boat", {"text": "the ferry leaves at seven"})
    store.put(("docs", "old"), "cup", {"text": "a cup of green tea"}, index=False)
    found = store.search(("docs",), query="green tea")
    assert found[0].key == "tea"
    assert {one.key for one in found} == {"tea", "boat", "cup"}
    assert found[0].score is not None
    assert found[-1].key == "cup"
    assert found[-1].score is None
    assert [one.key for one in store.search(("docs",), query="green tea", limit=1)] == ["tea"]


def test_chosen_fields_alone_are_searched(opened: MemoryManager) -> None:
    store = MemoryStore(opened, fields=["title", "parts[*].text"])
    store.put(("d",), "a", {"title": "harbour hours", "secret": "zanzibar"})
    store.put(("d",), "b", {"title": "x", "parts": [{"text": "zanzibar"}, {"text": "y"}]})
    store.put(("d",), "c", {"title": "x", "other": "zanzibar"}, index=["other"])
    texts = {one.metadata["name"]: one.text for one in opened.get_all(user_id="langgraph")}
    assert texts == {"a": "harbour hours", "b": "x\nzanzibar\ny", "c": "zanzibar"}
    ranked = [one.key for one in store.search(("d",), query="zanzibar")]
    assert set(ranked[:2]) == {"b", "c"}


def test_an_item_may_change_between_indexed_and_not(store: MemoryStore) -> None:
    for index in (None, False, None, False):
        store.put(("a",), "k", {"v": "tea"}, index=index)
        assert [one.key for one in store.search(("a",))] == ["k"]
    store.delete(("a",), "k")
    assert store.search(("a",)) == []


def test_items_end_when_their_time_is_over(opened: MemoryManager, clock: ManualClock) -> None:
    store = MemoryStore(opened, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("a",), "short", {"v": 1}, ttl=1)
    store.put(("a",), "usual", {"v": 1})
    store.put(("a",), "ever", {"v": 1}, ttl=None)
    clock.advance(45)
    assert store.get(("a",), "short") is not None  # read, so it lives on
    clock.advance(45)
    assert store.get(("a",), "short", refresh_ttl=False) is not None
    clock.advance(45)
    assert store.get(("a",), "short") is None
    assert {one.key for one in store.search(("a",), refresh_ttl=False)} == {"usual", "ever"}
    clock.advance(600)
    assert [one.key for one in store.search(("a",))] == ["ever"]
    assert store.sweep_ttl() == 2
    assert store.list_namespaces() == [("a",)]
    store.put(("a",), "short", {"v": 2})
    assert store.get(("a",), "short").created_at == clock.now()  # type: ignore[union-attr]


def test_a_time_without_end_is_none(store: MemoryStore) -> None:
    store.put(("a",), "k", {"v": 1}, ttl=1e300)
    assert store.get(("a",), "k") is not None


def test_many_writers_at_once_lose_nothing(store: MemoryStore) -> None:
    async def main() -> int:
        await asyncio.gather(*(store.aput(("a",), str(n), {"n": n}) for n in range(20)))
        return len(await store.asearch(("a",), limit=100))

    assert asyncio.run(main()) == 20


def test_two_stores_of_two_scopes_are_apart(opened: MemoryManager, spans: Any) -> None:
    one, other = MemoryStore(opened, scope="ann"), MemoryStore(opened, scope="bob")
    one.put(("a",), "k", {"v": "tea"})
    assert other.get(("a",), "k") is None
    assert other.search((), query="tea") == []
    assert other.list_namespaces() == []
    assert operations(spans) >= {"create_memory", "search_memory"}


NAMESPACES = st.sampled_from([("a",), ("a", "b"), ("b",), ("a", "b", "c")])
KEYS = st.sampled_from(["k", "K", "é", ""])
VALUES = st.none() | st.fixed_dictionaries(
    {"v": st.integers(0, 2)}, optional={"t": st.text(max_size=4)}
)
OPS = st.one_of(
    st.builds(
        PutOp,
        namespace=NAMESPACES,
        key=KEYS,
        value=VALUES,
        index=st.sampled_from([None, False]),
        ttl=st.none(),
    ),
    st.builds(GetOp, namespace=NAMESPACES, key=KEYS),
    st.builds(
        SearchOp,
        namespace_prefix=st.sampled_from([(), ("a",), ("a", "b"), ("z",)]),
        filter=st.sampled_from([None, {"v": 1}, {"v": {"$gte": 1}}, {"t": "x"}]),
        limit=st.just(100),
    ),
    st.builds(
        ListNamespacesOp,
        match_conditions=st.sampled_from(
            [None, (MatchCondition("prefix", ("a",)),), (MatchCondition("suffix", ("*", "c")),)]
        ),
        max_depth=st.sampled_from([None, 1, 2]),
    ),
)


@given(st.lists(st.lists(OPS, max_size=4), max_size=4))
@settings(max_examples=25, deadline=None)
def test_a_batch_answers_as_langgraphs_own_store_does(batches: list[list[Any]]) -> None:
    """The order of an unranked search is the store's own; a namespace without items is none."""
    twin = InMemoryStore()
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        ours = MemoryStore(memory)
        for batch in batches:
            kinds = [type(op) for op in batch]
            expected, got = twin.batch(batch), ours.batch(batch)
            for kind, one, other in zip(kinds, expected, got, strict=True):
                if kind is not ListNamespacesOp:
                    assert _plain(one) == _plain(other)
            alive = {item.namespace for item in twin.search((), limit=1000)}
            assert set(ours.list_namespaces(limit=1000)) == alive


def _plain(result: Any) -> Any:
    if isinstance(result, list):
        return sorted((one.namespace, one.key, sorted(one.value.items())) for one in result)
    return None if result is None else (result.namespace, result.key, result.value)


# ----------------------------------------------------------------------------
# What LangGraph's own tests ask of any store, in our words.

PLACES = (
    ("ports", "oban", "boats"),
    ("ports", "oban", "crews", "day"),
    ("ports", "oban", "crews", "night"),
    ("ports", "oban", "tides"),
    ("ports", "mull", "tides"),
    ("ferries", "oban", "tides"),
    ("people", "ann"),
    ("people", "bob", "wishes"),
    ("staff", "people", "cat"),
)


@pytest.fixture
def places(store: MemoryStore) -> MemoryStore:
    for number, namespace in enumerate(PLACES):
        store.put(namespace, f"k{number}", {"n": number})
    return store


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, set(range(9))),
        ({"prefix": ("ports", "oban")}, {0, 1, 2, 3}),
        ({"suffix": ("tides",)}, {3, 4, 5}),
        ({"prefix": ("ports",), "suffix": ("tides",)}, {3, 4}),
        ({"prefix": ("ports", "*", "tides")}, {3, 4}),
        ({"suffix": ("*", "tides")}, {3, 4, 5}),
        ({"prefix": ("people", "*")}, {6, 7}),
        ({"suffix": ("*", "wishes")}, {7}),
        ({"prefix": ("*", "people")}, {8}),
        ({"prefix": ("*", "people"), "suffix": ("*", "wishes")}, set()),
        ({"prefix": ("people", "ann")}, {6}),
        ({"prefix": ("people", "ann", "more")}, set()),
        ({"prefix": ("nowhere",)}, set()),
    ],
)
def test_namespaces_are_found_by_what_they_begin_and_end_with(
    places: MemoryStore, options: dict[str, Any], wanted: set[int]
) -> None:
    expected = {PLACES[number] for number in wanted}
    assert set(places.list_namespaces(**options)) == expected
    assert set(asyncio.run(places.alist_namespaces(**options))) == expected


def test_a_depth_cuts_namespaces_and_names_each_once(places: MemoryStore) -> None:
    under = places.list_namespaces(prefix=("ports", "oban"), max_depth=3)
    assert sorted(under) == sorted({namespace[:3] for namespace in PLACES[:4]})
    assert len(places.list_namespaces(max_depth=1)) == 4


def test_pages_of_namespaces_hold_each_once(store: MemoryStore) -> None:
    made = [("port", f"{number:02}") for number in range(20)]
    for namespace in made:
        store.put(namespace, "k", {"n": 1})
    pages = [
        store.list_namespaces(prefix=("port",), limit=6, offset=at) for at in (0, 6, 12, 18, 24)
    ]
    assert [one for page in pages for one in page] == made
    assert [len(page) for page in pages] == [6, 6, 6, 2, 0]


def test_an_empty_store_has_nothing(store: MemoryStore) -> None:
    assert store.list_namespaces() == []
    assert store.search(()) == []
    assert store.search((), query="anything") == []
    assert store.batch([]) == []


@pytest.mark.parametrize("namespace", [("a.b",), ("a", ""), (7,)])
@pytest.mark.parametrize("call", ["put", "get", "delete", "search", "prefix", "suffix"])
def test_labels_that_are_none_are_refused_by_every_call(
    store: MemoryStore, namespace: Any, call: str
) -> None:
    def asked(method: Any) -> Any:
        if call in ("prefix", "suffix"):
            return method("list_namespaces")(**{call: namespace})
        if call == "search":
            return method("search")(namespace)
        return method(call)(namespace, "k", *([{"v": 1}] if call == "put" else []))

    with pytest.raises(InvalidNamespaceError):
        asked(lambda name: getattr(store, name))
    with pytest.raises(InvalidNamespaceError):
        asyncio.run(asked(lambda name: getattr(store, f"a{name}")))
    assert store.search(()) == []


def test_a_name_that_langgraph_keeps_is_refused_in_front_alone(store: MemoryStore) -> None:
    async def main() -> None:
        with pytest.raises(InvalidNamespaceError):
            await store.aput(("langgraph", "a"), "k", {"v": 1})
        await store.aput(("a", "langgraph"), "k", {"v": 1})
        found = await store.aget(("a", "langgraph"), "k")
        assert found is not None
        assert (await store.asearch(("a", "langgraph")))[0].value == {"v": 1}
        await store.adelete(("a", "langgraph"), "k")
        assert await store.aget(("a", "langgraph"), "k") is None
        # What goes around `put` is the graph's own, and may.
        await store.abatch([PutOp(("langgraph", "a"), "k", {"v": 2})])
        assert (await store.asearch(("langgraph", "a")))[0].value == {"v": 2}

    asyncio.run(main())


def test_signs_of_other_query_languages_are_letters(store: MemoryStore) -> None:
    for name in ("a_%", "a%", "O'Brien", 'x"; --', "ü", "[*]"):
        store.put((name,), name, {"v": name})
    for name in ("a_%", "a%", "O'Brien", 'x"; --', "ü", "[*]"):
        assert [one.value for one in store.search((name,))] == [{"v": name}]
        assert store.get((name,), name).value == {"v": name}  # type: ignore[union-attr]


class Batched(AsyncBatchedBaseStore):
    """Ours behind LangGraph's own queue, which asks once for what is asked twice."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__()
        self._store = store
        self.batches: list[list[Any]] = []

    def batch(self, ops: Any) -> list[Any]:
        self.batches.append(list(ops))
        return self._store.batch(self.batches[-1])

    async def abatch(self, ops: Any) -> list[Any]:
        return self.batch(ops)


def test_a_queue_of_langgraph_may_stand_before_it(store: MemoryStore) -> None:
    async def main() -> None:
        batched = Batched(store)
        await asyncio.gather(*(batched.aput(("a",), key, {"v": key}) for key in "xy"))
        got = await asyncio.gather(*(batched.aget(("a",), key) for key in "xxy"))
        assert [one.value["v"] for one in got if one] == ["x", "x", "y"]
        assert len(batched.batches[-1]) == 2
        await asyncio.gather(*(batched.aput(("a",), "x", {"v": number}) for number in range(3)))
        found = await asyncio.gather(*(batched.asearch(("a",), filter={"v": 2}) for _ in "ab"))
        assert [[one.key for one in page] for page in found] == [["x"], ["x"]]
        assert len(batched.batches) == 4

    asyncio.run(main())


def test_writes_of_one_new_key_at_once_are_one_item(store: MemoryStore) -> None:
    async def main() -> None:
        await asyncio.gather(*(store.aput(("a",), "k", {"n": number}) for number in range(8)))
        assert len(await store.asearch(("a",), limit=100)) == 1

    asyncio.run(main())


DOCS = {
    "apple": {"text": "a red apple", "colour": "red", "stars": 4.5},
    "car": {"text": "a red car", "colour": "red", "stars": 3.0},
    "pear": {"description": "a green pear", "colour": "green", "stars": 4.0},
    "boat": {"body": "a blue boat", "colour": "blue", "stars": 3.5},
}


@pytest.fixture
def docs(store: MemoryStore) -> MemoryStore:
    for key, value in DOCS.items():
        store.put(("docs",), key, value)
    return store


@pytest.mark.parametrize(
    ("query", "wanted", "keys", "best"),
    [
        ("apple", None, {"apple", "car", "pear", "boat"}, "apple"),
        ("pear", None, {"apple", "car", "pear", "boat"}, "pear"),
        ("boat", None, {"apple", "car", "pear", "boat"}, "boat"),
        ("apple", {"colour": "red"}, {"apple", "car"}, "apple"),
        ("car", {"colour": "red"}, {"apple", "car"}, "car"),
        ("blue", {"stars": {"$gt": 3.2}}, {"apple", "pear", "boat"}, "boat"),
        ("apple", {"stars": {"$gte": 4.0}, "colour": "green"}, {"pear"}, "pear"),
        ("boat", {"stars": {"$lt": 3.1}}, {"car"}, "car"),
        ("boat", {"colour": "yellow"}, set(), None),
    ],
)
def test_words_rank_what_a_filter_lets_through(
    docs: MemoryStore, query: str, wanted: Any, keys: set[str], best: str | None
) -> None:
    async def main() -> Any:
        return await docs.asearch(("docs",), query=query, filter=wanted)

    for found in (docs.search(("docs",), query=query, filter=wanted), asyncio.run(main())):
        assert {one.key for one in found} == keys
        assert next((one.key for one in found), None) == best


def test_pages_of_a_ranked_search_hold_everything_once(docs: MemoryStore) -> None:
    pages = [docs.search(("docs",), query="red", limit=2, offset=at) for at in (0, 2, 4)]
    assert [len(page) for page in pages] == [2, 2, 0]
    assert {one.key for page in pages for one in page} == set(DOCS)
    assert [one.key for page in pages for one in page] == [
        one.key for one in docs.search(("docs",), query="red")
    ]


def test_a_new_value_is_found_by_its_own_words_alone(docs: MemoryStore) -> None:
    def score(query: str) -> float:
        return next(o.score or 0.0 for o in docs.search(("docs",), query=query) if o.key == "apple")

    before = score("red apple")
    docs.put(("docs",), "apple", {"text": "zebra crossing"})
    assert score("red apple") < before
    assert docs.search(("docs",), query="zebra crossing")[0].key == "apple"
    docs.put(("docs",), "copy", {"text": "zebra crossing"}, index=False)
    best = docs.search(("docs",), query="zebra crossing", limit=3)
    assert "copy" not in {one.key for one in best}
    docs.delete(("docs",), "apple")
    assert "apple" not in {one.key for one in docs.search(("docs",), query="zebra crossing")}


def test_fields_that_are_not_indexed_rank_nothing(opened: MemoryManager) -> None:
    store = MemoryStore(opened, fields=["title", "place"])
    store.put(("d",), "one", {"title": "harbour", "secret": "treasure"})
    store.put(("d",), "two", {"title": "meadow", "place": "lagoon", "secret": "gold"})
    store.put(("d",), "three", {"title": "x", "secret": "emerald"}, index=["secret"])
    store.put(("d",), "four", {"title": "sapphire"}, index=False)
    by = {
        query: {one.key: one.score for one in store.search(("d",), query=query)}
        for query in ("harbour", "lagoon", "treasure", "emerald", "sapphire")
    }
    assert all(scores.keys() == {"one", "two", "three", "four"} for scores in by.values())
    assert all(scores["four"] is None for scores in by.values())
    for query, best in (("harbour", "one"), ("lagoon", "two"), ("emerald", "three")):
        assert next(iter(by[query])) == best
    assert max(s for s in by["treasure"].values() if s is not None) < (by["harbour"]["one"] or 0)


@pytest.mark.parametrize(
    "text", ["这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह हिन्दी है"]
)
def test_words_of_any_script_find_their_item(store: MemoryStore, text: str) -> None:
    for each in ("这是中文", "これは日本語です", "이건 한국어야", "Это русский", "यह हिन्दी है"):
        store.put(("ann", "memories"), each, {"text": each})
    assert store.search(("ann", "memories"), query=text)[0].key == text


def test_many_writes_removals_and_searches_at_once_answer_for_themselves(
    store: MemoryStore,
) -> None:
    async def main() -> None:
        made = {str(n): {"text": f"port {n}", "n": n, "even": n % 2 == 0} for n in range(12)}
        await asyncio.gather(*(store.aput(("p",), key, value) for key, value in made.items()))
        await asyncio.gather(*(store.adelete(("p",), key) for key in made))
        assert await store.asearch(("p",), limit=100) == []
        await asyncio.gather(*(store.aput(("p",), key, value) for key, value in made.items()))
        asked: list[Any] = [{"even": True}, {"n": {"$gt": 8}}, {"n": {"$lte": 2}, "even": False}]
        pages = await asyncio.gather(
            *(store.asearch(("p",), query="port", filter=one, limit=100) for one in asked)
        )
        assert [{one.value["n"] for one in page} for page in pages] == [
            {0, 2, 4, 6, 8, 10}, {9, 10, 11}, {1},
        ]  # fmt: skip

    asyncio.run(main())


def test_a_real_graph_uses_it(store: MemoryStore) -> None:
    class State(TypedDict):
        said: str

    def remember(state: State) -> State:
        store = get_store()
        store.put(("users", "ann"), "tea", {"text": state["said"]})
        (found,) = store.search(("users", "ann"), query="which tea?")
        return {"said": found.value["text"]}

    graph = StateGraph(State).add_node("remember", remember).add_edge(START, "remember")
    compiled = graph.compile(store=store)
    assert compiled.invoke({"said": "green tea"}) == {"said": "green tea"}

    async def main() -> Any:
        return await compiled.ainvoke({"said": "black tea"})

    assert asyncio.run(main()) == {"said": "black tea"}
