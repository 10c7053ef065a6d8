"""The everyday API by example, and what it says to bad input."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
from agentmem.base import errors
from agentmem.base.types import Document
from agentmem.prompt.block import ContextBlock, render_context
from agentmem.search.embedding import BATCH
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.local_search import local


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    path = ":memory:" if request.param == "memory" else tmp_path / "memory.db"
    with agentmem.open(path, embedder=HashEmbedder(), durability="normal") as opened:
        yield opened


def found(memory: agentmem.MemoryManager, query: str, **options: Any) -> list[str]:
    hits = memory.search(query, threshold=0.0, top_k=50, **options)
    return [hit.memory.text for hit in hits]


def test_results_read_like_mem0s(memory: agentmem.MemoryManager) -> None:
    added = memory.add("Tea is green", user_id="sam", metadata={"a": 1})
    assert added["results"] == [{"id": added.ids[0], "memory": "Tea is green", "event": "ADD"}]
    (result,) = memory.search("green tea", user_id="sam", limit=3)["results"]
    assert result["memory"] == "Tea is green"
    assert result["user_id"] == "sam"
    assert result["metadata"] == {"a": 1}
    assert 0 <= result["score"] <= 1
    (listed,) = memory.get_all(user_id="sam")["results"]
    assert {**listed, "score": result["score"]} == result
    assert memory.get(added.ids[0], user_id="sam")["memory"] == "Tea is green"
    assert memory.get_all(user_id="sam")[:1] == memory.get_all(user_id="sam")
    with pytest.raises(KeyError):
        memory.get_all()["hits"]  # type: ignore[call-overload]  # on purpose
    with pytest.raises(TypeError):
        list(memory.get(added.ids[0], user_id="sam"))  # type: ignore[call-overload]  # on purpose
    with pytest.raises(KeyError):
        memory.search("tea")["hits"]  # type: ignore[call-overload]  # on purpose


def at_once(*calls: Callable[[], object]) -> None:
    start = threading.Barrier(len(calls))

    def call(one: Callable[[], object]) -> None:
        start.wait()
        one()

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(call, calls))


def test_what_several_threads_add_at_once_is_there_once(memory: agentmem.MemoryManager) -> None:
    for number in range(5):
        at_once(*[lambda n=number: memory.add(f"Tea {n}", user_id="sam")] * 6)
    assert len(memory.get_all(user_id="sam")) == 5


def test_two_changes_of_one_memory_at_once_are_both_kept(memory: agentmem.MemoryManager) -> None:
    (name,) = memory.add("Tea", user_id="sam").ids
    for number in range(5):
        at_once(
            lambda n=number: memory.update(name, f"Tea {n}", user_id="sam"),  # type: ignore[misc]  # the default is an int
            lambda n=number: memory.update(name, metadata={"n": n}, user_id="sam"),  # type: ignore[misc]  # the default is an int
        )
        kept = memory.get(name, user_id="sam")
        assert (kept.text, kept.metadata) == (f"Tea {number}", {"n": number})
    assert len(memory.history(name, user_id="sam")) == 10


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "the of and",
        "🎉🎉",
        '" OR * NEAR( : ^',
        "a\x00b",
        "x" * 1_000_000,
        "日本",
        "-",
        "\n",
    ],
    ids=[
        "empty",
        "blank",
        "stop words",
        "emoji",
        "operators",
        "nul",
        "1 MB",
        "cjk",
        "dash",
        "line",
    ],
)
def test_any_query_gives_a_list(memory: agentmem.MemoryManager, query: str) -> None:
    memory.add("The quick brown fox and 日本 a\x00b", user_id="sam")
    for mode in ("hybrid", "vector", "fulltext"):
        assert len(memory.search(query, user_id="sam", mode=mode)) <= 5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"top_k": -1}, errors.InvalidNumber),
        ({"top_k": 2.5}, errors.InvalidNumber),
        ({"threshold": float("nan")}, errors.InvalidNumber),
        ({"threshold": 2}, errors.InvalidNumber),
        ({"mode": "fast"}, errors.InvalidInput),
        ({"filters": {"kind": {"near": 1}}}, errors.InvalidFilter),
        ({"since": "yesterday-ish"}, errors.InvalidInput),
        ({"kinds": "fact"}, errors.InvalidInput),
        ({"userid": "sam"}, errors.InvalidScope),
        ({"user_id": ""}, errors.InvalidScope),
        ({"top_k": 3, "limit": 3}, errors.InvalidInput),
    ],
)
def test_bad_searches_are_refused(
    memory: agentmem.MemoryManager, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        memory.search("tea", **options)


@pytest.mark.parametrize("query", [None, 3, b"tea", "\ud800"])
def test_what_is_no_text_is_refused(memory: agentmem.MemoryManager, query: Any) -> None:
    with pytest.raises(errors.InvalidText):
        memory.search(query)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, errors.InvalidInput),
        ("", errors.InvalidText),
        (" \n", errors.InvalidText),
        ("\ud800", errors.InvalidText),
        (3, errors.InvalidInput),
        ([{"role": "wizard", "content": "x"}], errors.InvalidMessage),
        ([{"role": "user", "content": "x", "created_at": "soon"}], errors.InvalidMessage),
        (agentmem.Document(text=""), errors.InvalidText),
    ],
)
def test_bad_memories_are_refused_and_nothing_is_written(
    memory: agentmem.MemoryManager, data: Any, error: type[Exception]
) -> None:
    with pytest.raises(error):
        memory.add(data)
    assert memory.upkeep.get_stats().chunks == 0


def test_a_batch_with_one_bad_message_writes_none(memory: agentmem.MemoryManager) -> None:
    messages = [{"role": "user", "content": "fine"}, {"role": "user", "content": "\ud800"}]
    with pytest.raises(errors.InvalidText):
        memory.add(messages)
    assert memory.upkeep.get_stats().chunks == 0


@pytest.mark.parametrize(
    "vectors",
    [[[0.0] * 3], [[float("nan")] * 64], [[1.0] * 64, [1.0] * 64], [["a"] * 64]],
    ids=["dimensions", "nan", "count", "words"],
)
def test_bad_vectors_are_refused(memory: agentmem.MemoryManager, vectors: Any) -> None:
    with pytest.raises(errors.BadVector):
        memory.sources.add_document(["one"], url="a:b", vectors=vectors)
    assert memory.upkeep.get_stats().chunks == 0


def test_ids_that_are_not_there_are_said_to_be_missing(memory: agentmem.MemoryManager) -> None:
    ours = memory.add("mine", user_id="sam").ids[0]
    for call in (memory.get, memory.history, memory.delete, memory.erase):
        with pytest.raises(errors.RecordNotFound):
            call("nobody", user_id="sam")
        with pytest.raises(errors.RecordNotFound):
            call(ours, user_id="eve")
    with pytest.raises(errors.RecordNotFound):
        memory.update(ours, "yours", user_id="eve")
    assert memory.get(ours, user_id="sam").text == "mine"


def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    memory = agentmem.open(tmp_path / "m.db", embedder=None)
    memory.add("tea")
    memory.close()
    memory.close()
    with pytest.raises(errors.StoreClosed):
        memory.add("more tea")
    with pytest.raises(errors.StoreClosed):
        memory.search("tea")


def test_nothing_is_created_before_the_first_write(tmp_path: Path) -> None:
    path = tmp_path / "new" / "m.db"
    with agentmem.open(path, embedder=None) as memory:
        assert not memory.search("tea")
        assert memory.upkeep.get_stats().chunks == 0
        assert not path.parent.exists()
        memory.add("tea")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidInput, match="Pass RecallConfig"):
        agentmem.open(tmp_path / "m.db", recall={"top_k": 3})  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidNumber):
        agentmem.open(tmp_path / "m.db", chunk_tokens=0)
    with pytest.raises(errors.InvalidNumber):
        agentmem.RecallConfig(similarity_threshold=3)
    assert os.listdir(tmp_path) == []


def test_what_a_memory_is_opened_with_holds_for_its_searches_and_turns() -> None:
    recall = agentmem.RecallConfig(top_k=1, similarity_threshold=0.0)
    with agentmem.open(":memory:", embedder=HashEmbedder(), recall=recall) as memory:
        memory.add("The green kettle boils slowly.")
        memory.add("The green teapot pours well.")
        assert len(memory.search("What is green?")) == 1
        asked = [{"role": "user", "content": "What is green here, the kettle?"}]
        assert len(memory.turn(asked).citations) == 1
        wide = agentmem.LoopConfig(recall=agentmem.RecallConfig(similarity_threshold=0.0))
        assert len(memory.turn(asked, config=wide).citations) == 2


def test_system_prompts_and_our_own_blocks_are_not_stored(memory: agentmem.MemoryManager) -> None:
    block = render_context(ContextBlock(user_profile=("Likes secretneedle",)), secret=b"s" * 32)
    memory.add(
        [
            {"role": "system", "content": "Be secretneedle."},
            {"role": "assistant", "content": block},
            {"role": "user", "content": f"As you said: {block} And tea?"},
        ]
    )
    texts = [m.text for m in memory.get_all()]
    assert len(texts) == 1
    assert "secretneedle" not in texts[0]
    assert "tea?" in texts[0]


def test_a_turn_is_found_by_what_surrounds_it(memory: agentmem.MemoryManager) -> None:
    memory.add(
        [
            {"role": "user", "name": "Ana", "content": "Which instrument do you play?"},
            {"role": "user", "name": "Ben", "content": "The oboe."},
            {"role": "user", "name": "Ana", "content": "It rained all day."},
        ],
        session="s",
    )
    assert "The oboe." in found(memory, "Which instrument does Ben play?")[:2]


def test_time_and_source_and_metadata_narrow_a_search(memory: agentmem.MemoryManager) -> None:
    for day in (1, 2, 3):
        memory.add(
            [{"role": "user", "content": f"tea {day}", "created_at": f"2024-05-0{day}T12:00:00Z"}],
            metadata={"day": day},
        )
    memory.sources.add_document("tea page", url="https://t.example/tea")
    assert found(memory, "tea", until="2024-05-02T00:00:00Z") == ["tea 1"]
    assert found(memory, "tea", since=datetime(2024, 5, 3, tzinfo=UTC), kinds=["message"]) == [
        "tea 3"
    ]
    assert found(memory, "tea", url="https://t.example/tea") == ["tea page"]
    assert sorted(found(memory, "tea", filters={"day": {"gt": 1, "lt": 9}})) == ["tea 2", "tea 3"]
    assert found(memory, "tea", filters={"NOT": {"day": {"in": [1, 2, 3]}}}) == ["tea page"]


def test_a_superseded_memory_is_read_only_as_of_then(tmp_path: Path) -> None:
    clock = ManualClock()
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=clock) as memory:
        old = memory.add("The pager is with Ann").ids[0]
        clock.advance(3600)
        then = clock.now()
        clock.advance(3600)
        memory.living.supersede(old, "The pager is with Bob")
        assert found(memory, "pager") == ["The pager is with Bob"]
        assert found(memory, "pager", as_of=then) == ["The pager is with Ann"]
        assert [m.text for m in memory.get_all(superseded=True)] != []


def test_an_explained_search_says_what_became_of_everything(
    memory: agentmem.MemoryManager,
) -> None:
    memory.add("green tea", metadata={"n": 1})
    memory.add("black tea", metadata={"n": 2})
    memory.add("green grass", metadata={"n": 3})
    results = memory.search(
        "green tea", top_k=1, threshold=0.0, filters={"n": {"lt": 3}}, explain=True
    )
    fates = {memory.get(c.id).text: c.fate for c in results.candidates}
    assert fates == {
        "green tea": "returned",
        "black tea": "over top_k",
        "green grass": "filtered: filters",
    }
    best = results.candidates[0]
    assert best.lexical_rank == 1
    assert best.lexical_raw is not None
    assert best.vector_raw is not None


class Moody(HashEmbedder):
    """Fails while `broken`."""

    broken = True

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        if self.broken:
            raise RuntimeError("weights are on fire")
        return super().embed_documents(texts)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        row: NDArray[np.float32] = self.embed_documents([text])[0]
        return row


def test_a_failing_embedder_leaves_words_working_and_says_so(tmp_path: Path) -> None:
    embedder = Moody()
    with agentmem.open(tmp_path / "m.db", embedder=embedder) as memory:
        added = memory.add("green tea")
        assert "on fire" in added.degradations[0]
        results = memory.search("green tea")
        assert [hit.memory.text for hit in results] == ["green tea"]
        assert "words alone" in results.degradations[0]
        assert not memory.upkeep.get_stats().embedding.ready
        embedder.broken = False
        seen: list[tuple[int, int]] = []
        assert memory.upkeep.reembed(progress=lambda *at: seen.append(at)) == 1
        assert seen == [(1, 1)]
        assert not memory.search("green tea").degradations
        assert memory.upkeep.get_stats().embedding.ready


def test_a_reranker_decides_and_a_failing_one_does_not_break_the_search() -> None:
    def backwards(question: str, memories: Sequence[agentmem.Memory]) -> list[float]:
        return [place / 10 for place in range(len(memories))]

    def broken(question: str, memories: Sequence[agentmem.Memory]) -> list[float]:
        raise RuntimeError("no model")

    for rerank, first in ((backwards, "tea and cake"), (broken, "green tea")):
        with agentmem.open(":memory:", embedder=HashEmbedder(), rerank=rerank) as memory:
            memory.add("green tea")
            memory.add("tea and cake")
            results = memory.search("green tea", threshold=0.0)
            assert results[0].memory.text == first
            assert bool(results.degradations) == (rerank is broken)


def test_saved_indexes_are_used_and_a_damaged_one_is_built_anew(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with agentmem.open(path, embedder=HashEmbedder()) as memory:
        memory.add("green tea")
        memory.upkeep.sync()
    saved = [file for file in tmp_path.iterdir() if file.name.startswith("m.db.")]
    assert len(saved) == 2
    with agentmem.open(path, embedder=HashEmbedder(), save_indexes=False) as memory:
        assert found(memory, "tea") == ["green tea"]
        assert local(memory).rebuilds == 0
        memory.add("black tea")
        assert sorted(found(memory, "tea")) == ["black tea", "green tea"]
    for file in saved:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    with agentmem.open(path, embedder=HashEmbedder(), save_indexes=False) as memory:
        assert sorted(found(memory, "tea")) == ["black tea", "green tea"]
        assert local(memory).rebuilds == 1


def test_every_call_can_be_awaited(tmp_path: Path) -> None:
    async def story() -> list[str]:
        manager = agentmem.open(tmp_path / "m.db", embedder=HashEmbedder())
        async with agentmem.AsyncMemoryManager(manager) as memory:
            added = await memory.add("green tea", user_id="sam")
            await memory.update(added.ids[0], "black tea", user_id="sam")
            hits = await memory.search("tea", user_id="sam", threshold=0.0)
            return [hit.memory.text for hit in hits]

    assert asyncio.run(story()) == ["black tea"]


def test_users_are_listed_with_what_holds_of_each(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "m.db", embedder=None) as memory:
        assert memory.upkeep.users() == {}
        memory.add("green tea", user_id="sam")
        old = memory.add("black tea", user_id="sam", project_id="p").ids[0]
        memory.living.supersede(old, "white tea", user_id="sam", project_id="p")
        gone = memory.add("red tea", user_id="eve").ids[0]
        memory.add("mint tea")
        assert list(memory.upkeep.users().items()) == [("sam", 2), (None, 1), ("eve", 1)]
        memory.delete(gone, user_id="eve")
        assert memory.upkeep.users() == {"sam": 2, None: 1}


def calls_of(kind: type) -> set[str]:
    return {n for n in dir(kind) if callable(getattr(kind, n)) and not n.startswith("_")}


def test_the_facade_has_every_call_of_the_manager_and_its_parts() -> None:
    at_once = {"wrap", "wrap_anthropic", "wrap_openai", "wrap_search", "aturn"}
    facade = agentmem.AsyncMemoryManager
    assert calls_of(agentmem.MemoryManager) - at_once <= set(vars(facade))
    with agentmem.open(":memory:", embedder=None) as memory:
        for part in ("upkeep", "sources", "living", "preferences"):
            there, awaited = getattr(memory, part), getattr(facade(memory), part)
            assert calls_of(type(there)) - {"enqueue_page", "heard", "current"} <= set(
                vars(type(awaited))
            )


def test_the_manager_has_the_calls_of_every_day() -> None:
    assert len(calls_of(agentmem.MemoryManager)) <= 21


def test_learning_and_its_undoing_can_be_awaited(tmp_path: Path) -> None:
    async def story() -> tuple[int, int]:
        manager = agentmem.open(tmp_path / "m.db", embedder=HashEmbedder())
        async with agentmem.AsyncMemoryManager(manager) as memory:
            learned = await memory.living.learn("We use Postgres 15.", user_id="sam")
            before = len(await memory.living.history_of("database", user_id="sam"))
            await memory.living.undo(learned.journal_id, user_id="sam")
            turn = await memory.turn([{"role": "user", "content": "Hi"}], user_id="sam")
            turn.done("Hello.")
            assert await memory.flush(30)
            return before, len(await memory.living.history_of("database", user_id="sam"))

    assert asyncio.run(story()) == (1, 0)


def test_what_was_exported_is_imported_once_and_embedded_again(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "a.db", embedder=HashEmbedder()) as memory:
        memory.add("green tea", user_id="sam")
        memory.add("black tea", user_id="eve")
        assert memory.upkeep.export_jsonl(tmp_path / "all.jsonl") == 2
        assert memory.upkeep.export_jsonl(tmp_path / "sam.jsonl", user_id="sam") == 1
    with agentmem.open(tmp_path / "b.db", embedder=HashEmbedder()) as memory:
        assert memory.upkeep.import_jsonl(tmp_path / "all.jsonl", as_exported=True).imported == 2
        assert memory.upkeep.import_jsonl(tmp_path / "all.jsonl", as_exported=True).imported == 0
        assert memory.embedding.wait(60)
        assert found(memory, "tea", user_id="eve") == ["black tea"]
        assert memory.upkeep.get_stats().embedding.ready
    lines = (tmp_path / "sam.jsonl").read_text("utf-8").splitlines()
    (tmp_path / "bad.jsonl").write_text("\n".join([*lines[:1], "x", *lines[1:]]), encoding="utf-8")
    (tmp_path / "other.jsonl").write_text("nonsense\n", encoding="utf-8")
    with agentmem.open(tmp_path / "c.db", embedder=None) as memory:
        assert memory.upkeep.import_jsonl(tmp_path / "bad.jsonl").bad_lines[0].number == 2
        with pytest.raises(errors.InvalidInput, match="not an agentmem export"):
            memory.upkeep.import_jsonl(tmp_path / "other.jsonl")
        assert not memory.get_all(user_id="sam")


def test_another_embedder_takes_over_by_itself_when_it_is_ready(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "m.db", embedder=HashEmbedder(32)) as memory:
        memory.add("green tea")
    with agentmem.open(tmp_path / "m.db", embedder=HashEmbedder(48)) as memory:
        assert found(memory, "tea") == ["green tea"]
        assert memory.embedding.wait(60)
        assert found(memory, "tea") == ["green tea"]
        assert memory.upkeep.get_stats().to_dict()["embedder"] == "hash@1/48"
        assert memory.upkeep.get_stats().embedding.ready


CHAT = "Ann: hi Bob\nBob: hi Ann, how was Lima?\nAnn: warm, I lost my umbrella\nBob: oh no\n"
CODE = "import os\n\n\ndef area(width, height):\n    return width * height\n\n\nclass Box:\n    size = 3\n"


@pytest.mark.parametrize(
    ("text", "speakers"),
    [
        (CHAT, {"Ann", "Bob"}),
        (CODE, {""}),
        ("Colour: red\nMaker: Ibis\nOrigin: Peru\n", {""}),
        ("# Boxes\n\nA box has four sides.\n", {""}),
    ],
)
def test_a_document_is_read_as_what_it_looks_like(text: str, speakers: set[str]) -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        memory.sources.add_document(text, url="a", user_id="ann")
        found = memory.sources.search_by_url("a", user_id="ann")
        assert {one.speaker for one in found} == speakers


def test_a_document_that_says_what_it_is_is_read_as_that() -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        memory.sources.add_document(Document(text=CHAT, url="a", format="markdown"), user_id="ann")
        assert {m.speaker for m in memory.sources.search_by_url("a", user_id="ann")} == {""}
        with pytest.raises(errors.InvalidInput, match="format"):
            Document(text=CHAT, format="html")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("size", [1, 8, 9, 40])
def test_chunks_with_ready_vectors_are_added_once(size: int) -> None:
    embedder = HashEmbedder()
    texts = [f"chunk number {number}" for number in range(size)]
    vectors = embedder.embed_documents(texts)
    with agentmem.open(":memory:", embedder=embedder) as memory:
        assert (
            len(memory.sources.add_document(texts, url="a", vectors=vectors, user_id="ann")) == size
        )
        assert memory.sources.add_document(texts, url="a", vectors=vectors, user_id="ann").unchanged
        assert memory.upkeep.get_stats(user_id="ann").chunks == size
        wrong: list[Any] = [
            vectors[:, :-1],
            vectors * float("nan"),
            vectors.tolist()[:-1],
            ["x"] * size,
        ]
        for bad in wrong:
            with pytest.raises(errors.BadVector):
                memory.sources.add_document(texts, url="b", vectors=bad, user_id="ann")
        again = memory.sources.add_document(texts, url="c", vectors=vectors.tolist(), user_id="ann")
        assert len(again) == size


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add("a", metadata=[1]),
        lambda m: m.add([{"role": "user", "content": "a", "metadata": "b"}]),
        lambda m: m.add(None),
        lambda m: m.sources.add_document(None),
        lambda m: m.sources.add_document("a", metadata=5),
        lambda m: m.sources.add_document(Document(text="a", metadata=5)),  # type: ignore[arg-type]  # on purpose
        lambda m: m.add(5),
        lambda m: m.sources.add_document(5, url="u"),
        lambda m: m.search("a", filters=[1]),
        lambda m: m.search("a", filters="b"),
        lambda m: m.get_all(kinds=5),
        lambda m: m.delete(5),
        lambda m: m.delete(None),
        lambda m: m.erase(None),
        lambda m: m.upkeep.export_jsonl(5),
        lambda m: m.upkeep.export_jsonl("a\x00b"),
        lambda m: m.upkeep.import_jsonl("a\x00b"),
        lambda m: m.upkeep.backup(5),
        lambda m: m.update(m.add("a").ids[0], metadata="b"),
        lambda m: m.update(m.add("a").ids[0], " "),
        lambda m: m.living.supersede(m.add("a").ids[0], ""),
        lambda _: agentmem.open(5),  # type: ignore[arg-type]  # on purpose
        lambda _: agentmem.open(":memory:", embedder=5),  # type: ignore[arg-type]  # on purpose
        lambda _: agentmem.open(":memory:", rerank=5),  # type: ignore[arg-type]  # on purpose
    ],
)
def test_what_is_of_another_type_is_refused(
    memory: agentmem.MemoryManager, call: Callable[[agentmem.MemoryManager], object]
) -> None:
    with pytest.raises(errors.InvalidInput):
        call(memory)


def test_chunks_may_come_one_by_one(memory: agentmem.MemoryManager) -> None:
    assert len(memory.sources.add_document((word for word in ("tea", "milk")), url="u")) == 2  # type: ignore[arg-type]  # on purpose


def test_a_closed_memory_refuses_a_query_without_words_too(memory: agentmem.MemoryManager) -> None:
    memory.close()
    with pytest.raises(errors.StoreClosed):
        memory.search(" ")


def embedded_in_the_end(memory: agentmem.MemoryManager, query: str) -> bool:
    """Whether what `query` finds has its vector once the background has had its time."""
    memory.search(query, user_id="sam")
    memory.search(query, user_id="sam")  # what the first one noticed, this one begins
    assert memory.embedding.wait(10)
    return memory.search(query, user_id="sam")[0].vector is not None


class FailsOnDemand(HashEmbedder):
    failing = False
    calls = 0

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.calls += 1
        if self.failing:
            raise ConnectionError("no route")
        return super().embed_documents(texts)


def test_what_could_not_be_embedded_is_embedded_when_the_embedder_answers_again(
    tmp_path: Path,
) -> None:
    embedder = FailsOnDemand()
    with agentmem.open(tmp_path / "memory.db", embedder=embedder, judge_new=False) as memory:
        memory.add("Tea is green", user_id="sam")
        memory.search("tea", user_id="sam")
        embedder.failing = True
        assert memory.add("Milk is white", user_id="sam").degradations
        embedder.failing = False
        assert embedded_in_the_end(memory, "milk")


class AnswersQuestionsOnly(FailsOnDemand):
    """Embeds questions also while it cannot embed documents."""

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        row: NDArray[np.float32] = HashEmbedder().embed_documents([text])[0]
        return row


@pytest.mark.parametrize("in_background", [True, False])
def test_a_question_that_is_embedded_does_not_hide_that_documents_are_not(
    tmp_path: Path, in_background: bool, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = AnswersQuestionsOnly()
    embedder.failing = True
    path = tmp_path / "memory.db"
    with agentmem.open(
        path, embedder=embedder, judge_new=False, embed_in_background=in_background
    ) as memory:
        memory.add("Tea is green", user_id="sam")
        for query in ("tea", "green", "what is green"):
            memory.search(query, user_id="sam")
            memory.embedding.wait(10)
            assert memory.embedding.query(f"{query}?") is not None
            found = memory.search(f"{query}?", user_id="sam")
            assert any("words alone" in problem for problem in found.degradations)
            assert "no route" in memory.embedding.error
            assert "no route" in memory.embedding.unembedded
            assert not memory.upkeep.get_stats().embedding.ready
        assert len([one for one in caplog.records if "Vectors cannot" in one.message]) == 1
        embedder.failing = False
        if in_background:
            assert embedded_in_the_end(memory, "is tea green")
        else:
            assert memory.upkeep.reembed() == 1
        assert (memory.embedding.error, memory.embedding.unembedded) == ("", "")
        assert memory.upkeep.get_stats().embedding.ready


def test_what_could_not_be_embedded_and_is_gone_is_no_trouble_any_more(tmp_path: Path) -> None:
    embedder = AnswersQuestionsOnly()
    with agentmem.open(tmp_path / "memory.db", embedder=embedder, judge_new=False) as memory:
        memory.add("Tea is green", user_id="sam")
        embedder.failing = True
        (milk,) = memory.add("Milk is white", user_id="sam").ids
        assert memory.embedding.unembedded
        memory.delete(milk, user_id="sam")
        embedder.failing = False
        for query in ("tea", "green"):
            memory.search(query, user_id="sam")
            memory.embedding.wait(10)
        assert (memory.embedding.error, memory.embedding.unembedded) == ("", "")


def test_a_text_that_is_refused_is_no_lasting_trouble(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "memory.db", embedder=RefusesPoison(), judge_new=False) as memory:
        assert memory.add("This is poison", user_id="sam").degradations
        for query in ("tea", "green", "milk"):
            memory.search(query, user_id="sam")
            memory.embedding.wait(10)
        assert memory.embedding.unembedded == ""


def test_what_another_process_adds_without_an_embedder_is_embedded(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=HashEmbedder(), judge_new=False) as memory:
        memory.add("Tea is green", user_id="sam")
        memory.search("tea", user_id="sam")
        with agentmem.open(path, embedder=None, judge_new=False) as other:
            other.add("Milk is white", user_id="sam")
        assert embedded_in_the_end(memory, "milk")


class TakesItsTime(HashEmbedder):
    """Embeds ten texts at once, and no document before it is let."""

    at_once = 10

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        if len(texts) > self.at_once:
            assert self.let.wait(10)
        return super().embed_documents(texts)


def test_adding_many_does_not_wait_for_their_vectors(tmp_path: Path) -> None:
    embedder = TakesItsTime()
    with agentmem.open(tmp_path / "memory.db", embedder=embedder, judge_new=False) as memory:
        added = memory.sources.add_document([f"Tea {n}" for n in range(40)], url="a", user_id="sam")
        assert added.degradations == ()
        assert memory.search("tea 3", user_id="sam")  # by its words
        embedder.let.set()
        assert memory.flush(10)
        assert list(memory.upkeep.get_stats().to_dict()["vectors_missing"].values()) == [0]
        assert memory.upkeep.get_stats().embedding.ready


class RefusesPoison(HashEmbedder):
    calls = 0

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.calls += 1
        if any("poison" in text for text in texts):
            raise ValueError("too long")
        return super().embed_documents(texts)


def test_a_text_that_is_refused_keeps_no_other_from_its_vector(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.sources.add_document([f"Tea {n}" for n in range(40)], url="a", user_id="sam")
        memory.add("This is poison", user_id="sam")
        memory.sources.add_document([f"Milk {n}" for n in range(40)], url="b", user_id="sam")
    embedder = RefusesPoison()
    with agentmem.open(path, embedder=embedder, embed_in_background=False) as memory:
        assert memory.upkeep.reembed() == 80
        assert memory.search("poison", user_id="sam")[0].vector is None
        assert list(memory.upkeep.get_stats().to_dict()["vectors_missing"].values()) == [1]
        calls = embedder.calls
        assert memory.upkeep.reembed() == 0
        assert embedder.calls == calls


class Overtaken(HashEmbedder):
    """While it reads its first batch, somebody else stores the vectors of it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path: Path | None = path

    def embed_documents(self, texts: Sequence[str], /) -> Any:
        vectors = super().embed_documents(texts)
        path, self._path = self._path, None
        if path is not None:
            with SqliteStore(path) as store:
                rows = store.feed.missing_vectors(self.id, limit=len(texts))
                assert store.feed.put_vectors(self.id, rows, vectors) == len(texts)
        return vectors


def test_vectors_that_somebody_else_stores_first_end_no_run(tmp_path: Path) -> None:
    path, many = tmp_path / "memory.db", BATCH + 5
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.sources.add_document([f"Tea {n}" for n in range(many)], url="a", user_id="sam")
    with agentmem.open(path, embedder=Overtaken(path), embed_in_background=False) as memory:
        assert memory.upkeep.reembed() == many - BATCH
        assert not any(memory.upkeep.get_stats().to_dict()["vectors_missing"].values())


def test_an_embedder_that_is_down_is_not_asked_for_each_text(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.sources.add_document([f"Tea {n}" for n in range(64)], url="a", user_id="sam")
    embedder = FailsOnDemand()
    embedder.failing = True
    with (
        agentmem.open(path, embedder=embedder, embed_in_background=False) as memory,
        pytest.raises(errors.EmbedderFailed),
    ):
        memory.upkeep.reembed()
    assert embedder.calls < 10


def test_what_looks_after_a_memory_can_be_awaited_too(tmp_path: Path) -> None:
    async def look_after() -> None:
        async with agentmem.AsyncMemoryManager(
            agentmem.open(tmp_path / "memory.db", embedder=HashEmbedder(), judge_new=False)
        ) as memory:
            await memory.add("Tea is green", user_id="sam")
            assert await memory.upkeep.export_jsonl(tmp_path / "out.jsonl") == 1
            assert (await memory.upkeep.erase_all(user_id="sam")).complete
            assert (await memory.upkeep.import_jsonl(tmp_path / "out.jsonl")).imported == 1
            await memory.upkeep.reembed()
            await memory.upkeep.vacuum()
            assert (await memory.upkeep.verify()).ok

    asyncio.run(look_after())


def test_who_reads_may_be_said_inside_an_and(memory: agentmem.MemoryManager) -> None:
    memory.add("Tea is green", user_id="sam", metadata={"about": "tea"})
    memory.add("Milk is white", user_id="sam")
    memory.add("Tea is black", user_id="kim", metadata={"about": "tea"})
    mine = {"AND": [{"user_id": "sam"}, {"about": "tea"}]}
    assert found(memory, "tea milk", filters=mine) == ["Tea is green"]
    assert [m.text for m in memory.get_all(filters={"AND": [mine]})] == ["Tea is green"]
    assert len(memory.get_all(filters={"AND": [{"user_id": "sam"}]})) == 2
    with pytest.raises(errors.InvalidScope):
        memory.get_all(filters=mine, user_id="kim")


def test_the_new_text_may_be_called_data(memory: agentmem.MemoryManager) -> None:
    (name,) = memory.add("Tea is green").ids
    assert memory.update(memory_id=name, data="Tea is black").text == "Tea is black"
    with pytest.raises(errors.InvalidInput):
        memory.update(name, "a", data="b")


@pytest.mark.parametrize("change", ["delete", "supersede"])
def test_what_goes_while_it_is_searched_for_is_not_found(
    memory: agentmem.MemoryManager, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = memory.add("The walrus sleeps on the ice.").ids[0]
    memory.flush()  # the background reads rows too, and the search is to be the first that does
    read = memory.store.get_rows

    def late(*asked: Any) -> Any:
        monkeypatch.setattr(memory.store, "get_rows", read)
        if change == "delete":
            memory.delete(old)
        else:
            memory.living.supersede(old, "The walrus swims.")
        return read(*asked)

    monkeypatch.setattr(memory.store, "get_rows", late)
    assert [hit.memory.id for hit in memory.search("walrus", threshold=0.0)] == []
    assert old not in [hit.memory.id for hit in memory.search("walrus", threshold=0.0)]


def test_a_text_keeps_the_id_its_caller_gave_it(memory: agentmem.MemoryManager) -> None:
    added = memory.add("Order 17 was sent.", id="order-17", user_id="sam")
    assert added.ids == ("order-17",)
    assert memory.get("order-17", user_id="sam").text == "Order 17 was sent."
    again = memory.add("Order 17 was sent.", id="order-17", user_id="sam")
    assert again.unchanged
    assert again.ids == ("order-17",)
    other = memory.add("Order 17 was sent.", id="order-17b", user_id="sam")
    assert other.ids == ("order-17b",)
    with pytest.raises(errors.DuplicateRecord):
        memory.add("Order 17 came back.", id="order-17", user_id="sam")
    with pytest.raises(errors.DuplicateRecord):
        memory.add("Order 17 was sent.", id="order-17", user_id="eve")
    with pytest.raises(errors.InvalidText):
        memory.add("Order 18 was sent.", id=" ", user_id="sam")
    assert len(memory.get_all(user_id="sam")) == 2


def test_memories_are_looked_up_by_metadata(memory: agentmem.MemoryManager) -> None:
    memory.add("Order 17.", metadata={"order": {"no": 17}, "shop": "a"}, user_id="sam")
    memory.add("Order 18.", metadata={"order": {"no": 18}, "shop": "a"}, user_id="sam")
    memory.add("Order 17 of eve.", metadata={"order": {"no": 17}}, user_id="eve")

    def texts(**filters: Any) -> list[str]:
        return sorted(m.text for m in memory.get_all(filters=filters, user_id="sam"))

    assert texts(**{"metadata.order.no": 17}) == ["Order 17."]
    assert texts(**{"metadata.shop": "a"}) == texts(shop="a") == ["Order 17.", "Order 18."]
    assert texts(**{"metadata.order.no": {"gt": 17}}) == ["Order 18."]
    assert texts(**{"metadata.nothing": 1}) == []


def test_what_is_shown_in_a_terminal_is_short(memory: agentmem.MemoryManager) -> None:
    added = memory.add("tea " * 1_000, user_id="sam")
    memory.add("green tea", user_id="sam")
    hits = memory.search("tea", threshold=0.0, user_id="sam")
    memory.preferences.add("I prefer tea. " * 100, user_id="sam")
    with memory.turn([{"role": "user", "content": "Which tea? " * 100}], user_id="sam") as turn:
        turn.done("Green.")
    for shown in (memory, agentmem.AsyncMemoryManager(memory), added, hits, hits[0],
                  hits[0].memory, hits[0].memory.scope, memory.get_all(user_id="sam"), turn,
                  turn.snapshot, memory.preferences.get_all(user_id="sam")[0]):  # fmt: skip
        assert len(repr(shown)) < 300
        assert type(shown).__name__ in repr(shown)
    assert "green tea" in repr(hits)
    assert repr(agentmem.Scope(user_id="sam", run_id="r")) == "Scope(user_id='sam', run_id='r')"


def test_preferences_are_awaited_too() -> None:
    async def keep() -> list[str]:
        async with agentmem.AsyncMemoryManager(agentmem.open(":memory:", embedder=None)) as memory:
            await memory.preferences.add("I prefer tea over coffee", user_id="sam")
            return [one.text for one in await memory.preferences.get_all(user_id="sam")]

    assert asyncio.run(keep()) == ["I prefer tea over coffee"]


def test_the_first_chunks_of_a_page_are_given_where_a_limit_is_said(
    memory: agentmem.MemoryManager,
) -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + f"Sentence {n} says something. " * 60 for n in range(4))
    memory.add(Document(text=text, url="https://a.example/page"), user_id="ann")
    found = memory.sources.search_by_url("https://a.example/page", user_id="ann")
    assert len(found) > 2
    some = memory.sources.search_by_url("https://a.example/page", limit=2, user_id="ann")
    assert [one.id for one in some] == [one.id for one in found][:2]
    with pytest.raises(errors.InvalidInput):
        memory.sources.search_by_url("https://a.example/page", limit=-1, user_id="ann")
