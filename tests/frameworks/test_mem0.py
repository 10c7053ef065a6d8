"""mem0's calls beside mem0 itself: one program against both, the same dicts and refusals.

mem0 runs as its users may set it: `infer=False`, a vector store in memory, an embedder of
their own. Texts are compared; ids, moments and scores by what they are.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.compat import mem0 as ours
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder
from tests.frameworks.shared import operations

with pytest.MonkeyPatch.context() as patch:
    patch.setenv("MEM0_TELEMETRY", "False")
    patch.setenv("MEM0_DIR", tempfile.mkdtemp())
    theirs = pytest.importorskip("mem0", reason="needs mem0ai")


DIMENSIONS = 64
TALK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "I moor my boat in Oban harbour", "name": "ann"},
    {"role": "assistant", "content": "Oban harbour closes at nine in winter"},
    {"role": "user"},
]
WHO = {"user_id": "ann"}


class Embedder:
    """Words as numbers, the same for the same words."""

    def __init__(self) -> None:
        self._embedder = HashEmbedder(dimensions=DIMENSIONS)
        self.config = type("Config", (), {"embedding_dims": DIMENSIONS})()

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return [float(number) for number in self._embedder.embed_query(text)]

    def embed_batch(self, texts: list[str], memory_action: str | None = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def real_memory(kind: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "never used")
    store = {"path": str(folder / "qdrant"), "embedding_model_dims": DIMENSIONS, "on_disk": False}
    config = {
        "vector_store": {"provider": "qdrant", "config": store},
        "history_db_path": str(folder / "history.db"),
    }
    memory = kind.from_config(config)
    memory.embedding_model = Embedder()
    return memory


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    real = real_memory(theirs.Memory, tmp_path, monkeypatch)
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        yield ours.Memory(memory=memory), real
    real.close()


def shape(value: Any, ids: dict[str, str]) -> Any:
    """`value` with ids as the text they stand for, moments, hashes and scores by their kind."""
    if isinstance(value, dict):
        told = {name: shape(item, ids) for name, item in value.items()}
        if "score" in told and told["score"] is not None:
            told["score"] = "a score"
        return {**told, "id": "an event"} if "event" in told and "memory_id" in told else told
    if isinstance(value, list):
        return [shape(item, ids) for item in value]
    if isinstance(value, str) and value in ids:
        return f"id of {ids[value]}"
    if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\dT", value):
        return "a moment"
    return value


Program = Callable[[Any], Generator[Any, Any, None]]


def conversation(m: Any) -> Generator[Any, Any, None]:
    added = yield m.add(TALK, user_id="ann", metadata={"topic": "boats"}, infer=False)
    first = added["results"][0]["id"]
    yield m.get(first)
    yield m.get_all(filters=WHO)
    yield m.search("Oban harbour boat", filters=WHO, threshold=0.0)
    yield m.update(first, text="I moor my boat in Mallaig")
    yield m.update(first, metadata={"topic": "ports", "user_id": "eve"})
    yield m.get(first)
    yield m.history(first)
    yield m.delete(first)
    yield m.get(first)
    yield m.history(first)
    yield m.history("nobody knows")
    yield m.get_all(filters=WHO)
    yield m.delete_all(user_id="ann")
    yield m.get_all(filters=WHO)


def one_text(m: Any) -> Generator[Any, Any, None]:
    yield m.add("Likes to play cricket", user_id=7, agent_id="coach", infer=False)
    yield m.add({"role": "user", "content": "Likes tennis"}, user_id="7", run_id="r", infer=False)
    yield m.get_all(filters={"user_id": 7})
    yield m.get_all(filters={"user_id": "7", "agent_id": "coach"})
    yield m.get_all(filters={"user_id": "7", "run_id": "other"})
    yield m.get_all(filters={"user_id": "nobody"})
    yield m.delete_all(user_id="7", agent_id="coach")
    yield m.get_all(filters={"user_id": "7"})


def filtered(m: Any) -> Generator[Any, Any, None]:
    for stars, city in ((1, "Oban"), (3, "Mallaig"), (5, "Oban")):
        told = {"stars": stars, "city": city}
        yield m.add(f"{city} has {stars} stars", user_id="ann", metadata=told, infer=False)
    for chosen in (
        {"city": "Oban"},
        {"city": {"eq": "Oban"}},
        {"city": {"ne": "Oban"}},
        {"city": {"in": ["Mallaig", "Ullapool"]}},
        {"city": {"nin": ["Mallaig", "Ullapool"]}},
        {"city": {"contains": "Oban"}},
        {"city": {"icontains": "mallaig"}},
        {"stars": {"gt": 1}},
        {"stars": {"gte": 3, "lt": 5}},
        {"AND": [{"city": "Oban"}, {"stars": {"lte": 1}}]},
        {"OR": [{"stars": 1}, {"stars": 5}]},
        {"NOT": [{"city": "Oban"}]},
        {"city": "*"},
    ):
        yield m.search("stars", filters={**WHO, **chosen}, threshold=0.0)


def expiring(m: Any) -> Generator[Any, Any, None]:
    yield m.add("was over long ago", user_id="ann", infer=False, expiration_date="2001-01-01")
    kept = yield m.add("stays", user_id="ann", infer=False, expiration_date="2999-01-01")
    yield m.get_all(filters=WHO)
    yield m.get_all(filters=WHO, show_expired=True)
    yield m.update(kept["results"][0]["id"], expiration_date="2001-01-01")
    yield m.get_all(filters=WHO)
    yield m.update(kept["results"][0]["id"], expiration_date=None)
    yield m.get_all(filters=WHO)


def emptied(m: Any) -> Generator[Any, Any, None]:
    yield m.add("one", user_id="ann", infer=False)
    yield m.reset()
    yield m.get_all(filters=WHO)
    yield m.add("two", user_id="ann", infer=False)
    yield m.get_all(filters=WHO)


def told_by(program: Program, m: Any, run: Callable[[Any], Any]) -> list[Any]:
    """What each step of a program gives, in a form that can be compared."""
    ids: dict[str, str] = {}
    steps, told, answer = program(m), list[Any](), None
    while True:
        try:
            answer = run(steps.send(answer))
        except StopIteration:
            return told
        if isinstance(answer, dict) and "results" in answer:
            ids |= {one["id"]: one["memory"] for one in answer["results"]}
            answer_sorted = sorted(answer["results"], key=lambda one: one["memory"])
            told.append({"results": shape(answer_sorted, ids)})
        else:
            told.append(shape(answer, ids))


@pytest.mark.parametrize("program", [conversation, one_text, filtered, expiring, emptied])
def test_a_program_of_mem0_gets_what_mem0_gives(both: tuple[Any, Any], program: Program) -> None:
    mine, real = (told_by(program, m, lambda answer: answer) for m in both)
    for number, (got, expected) in enumerate(zip(mine, real, strict=True)):
        assert _said(got) == _said(expected), number


def _said(value: Any) -> Any:
    """What an answer says: either may name what it does not know, as None, or leave it out."""
    if isinstance(value, dict):
        return {n: _said(v) for n, v in value.items() if v is not None}
    return [_said(one) for one in value] if isinstance(value, list) else value


def test_an_awaited_program_gets_what_mem0_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = real_memory(theirs.AsyncMemory, tmp_path, monkeypatch)
    loop = asyncio.new_event_loop()
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        told = [
            told_by(conversation, m, loop.run_until_complete)
            for m in (ours.AsyncMemory(memory=memory), real)
        ]
    loop.close()
    real.close()
    assert _said(told[0]) == _said(told[1])


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add("x"),
        lambda m: m.add("x", user_id="  ", infer=False),
        lambda m: m.add("x", user_id="u", expiration_date="soon", infer=False),
        lambda m: m.search("  ", filters=WHO),
        lambda m: m.search("x"),
        lambda m: m.search("x", filters={"topic": "boats"}),
        lambda m: m.search("x", filters=WHO, top_k=-1),
        lambda m: m.search("x", filters=WHO, threshold=2),
        lambda m: m.get_all(),
        lambda m: m.get_all(filters=WHO, top_k=-1),
        lambda m: m.update("6f9619ff-8b86-d011-b42d-00cf4fc964ff", text="x"),
        lambda m: m.update("6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        lambda m: m.delete("6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
        lambda m: m.delete_all(),
    ],
)
def test_what_mem0_refuses_is_refused(both: tuple[Any, Any], call: Callable[[Any], Any]) -> None:
    mine, real = both
    with pytest.raises(Exception) as refused:  # noqa: PT011  # whichever class mem0 has for it
        call(real)
    with pytest.raises(ValueError):  # noqa: PT011  # each says what is wrong in words of its own
        call(mine)
    assert isinstance(refused.value, ValueError | theirs.exceptions.MemoryError)


def test_the_best_k_may_be_none_at_all(both: tuple[Any, Any]) -> None:
    for m in both:
        m.add("one", user_id="ann", infer=False)
        assert m.search("one", filters=WHO, top_k=0) == {"results": []}


@pytest.mark.parametrize("kind", ["Memory", "AsyncMemory"])
def test_every_call_of_mem0_is_there_with_its_parameters(kind: str) -> None:
    """`chat` is not written in mem0 either; the others are its platform's."""
    real, mine = getattr(theirs, kind), getattr(ours, kind)
    calls = {name for name in vars(real) if not name.startswith("_")}
    assert calls - set(dir(mine)) <= {"chat", "project", "entity_store"}
    for name in calls & {
        "add",
        "search",
        "get",
        "get_all",
        "update",
        "delete",
        "delete_all",
        "history",
    }:
        wanted = inspect.signature(getattr(real, name)).parameters
        there = inspect.signature(getattr(mine, name)).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in there.values()):
            assert set(wanted) <= set(there), name
        for parameter in set(wanted) & set(there):
            assert wanted[parameter].kind in (there[parameter].kind, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_KEYWORD), (name, parameter)  # fmt: skip


def test_calls_leave_the_spans_of_memory(memory: MemoryManager, spans: Any) -> None:
    m = ours.Memory(memory=memory)
    m.add("Green tea please", user_id="ann", infer=False)
    m.search("tea", filters=WHO)
    assert operations(spans) >= {"search_memory", "create_memory"}
