"""Programs written for mem0 run with one import changed."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.errors import AgentMemWarning
from agentmem.compat.mem0 import AsyncMemory, Memory
from agentmem.testing import HashEmbedder, ManualClock

TALK = [
    {"role": "user", "content": "I'm planning to watch a movie tonight. Any recommendations?"},
    {"role": "assistant", "content": "How about thriller movies? They can be quite engaging."},
    {"role": "user", "content": "I'm not a big fan of thriller movies but I love sci-fi movies."},
    {"role": "assistant", "content": "Got it! I'll avoid thriller recommendations."},
]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def m(clock: ManualClock) -> Iterator[Memory]:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=clock) as memory:
        yield Memory(memory=memory)


def texts(found: dict[str, Any]) -> set[str]:
    return {one["memory"] for one in found["results"]}


def test_a_conversation_is_kept_and_found_in_either_versions_way(m: Memory) -> None:
    result = m.add(TALK, user_id="alice", metadata={"category": "movies"})
    assert all({"id", "memory", "event"} <= set(one) for one in result["results"])
    assert TALK[2]["content"] in texts(result)
    new = m.search("Which movies does alice love?", filters={"user_id": "alice"})
    old = m.search("Which movies does alice love?", user_id="alice", limit=20)
    assert new == old
    (best, *_) = [one for one in new["results"] if one["memory"] == TALK[2]["content"]]
    assert {"id", "memory", "hash", "metadata", "score", "created_at", "updated_at", "user_id"} <= set(best)  # fmt: skip
    assert best["metadata"]["category"] == "movies"
    assert 0 <= best["score"] <= 1
    assert m.search("movies", user_id="bob") == {"results": []}


def test_without_infer_messages_are_kept_word_for_word(m: Memory) -> None:
    added = m.add(TALK, user_id="alice", infer=False)["results"]
    assert [one["memory"] for one in added] == [one["content"] for one in TALK]
    assert {one["event"] for one in added} == {"ADD"}
    assert texts(m.get_all(filters={"user_id": "alice"})) == {one["content"] for one in TALK}


def test_with_infer_stated_facts_are_memories_of_their_own(m: Memory) -> None:
    result = m.add("The API limit is 100 requests per minute.", user_id="alice", metadata={"a": 1})
    stored = m.get_all(user_id="alice")["results"]
    assert len(stored) == len(result["results"]) > 1
    assert all(one["metadata"]["a"] == 1 for one in stored)


def test_one_memory_is_read_changed_and_deleted_by_its_id_alone(
    m: Memory, clock: ManualClock
) -> None:
    (added,) = m.add("Likes to play cricket", user_id="alice", infer=False)["results"]
    clock.advance(5)
    assert m.update(added["id"], "Likes to play tennis", metadata={"sport": "tennis"}) == {
        "message": "Memory updated successfully!"
    }
    found = m.get(added["id"])
    assert found is not None
    assert (found["memory"], found["metadata"], found["user_id"]) == (
        "Likes to play tennis", {"sport": "tennis"}, "alice",
    )  # fmt: skip
    assert found["updated_at"] > found["created_at"]
    m.update(memory_id=added["id"], data="Plays chess")
    assert m.delete(added["id"]) == {"message": "Memory deleted successfully!"}
    assert m.get(added["id"]) is None
    told = [(one["event"], one["old_memory"], one["new_memory"]) for one in m.history(added["id"])]
    assert told == [
        ("ADD", None, "Likes to play cricket"),
        ("UPDATE", "Likes to play cricket", "Likes to play tennis"),
        ("UPDATE", "Likes to play tennis", "Plays chess"),
        ("DELETE", "Plays chess", None),
    ]
    assert [one["is_deleted"] for one in m.history(added["id"])] == [False] * 3 + [True]
    with pytest.raises(ValueError, match=added["id"]):
        m.delete(added["id"])
    assert m.history("nobody knows") == []


def test_another_object_finds_an_id_too(m: Memory) -> None:
    (added,) = m.add("green tea", user_id="alice", agent_id="a", infer=False)["results"]
    again = Memory(memory=m.memory)
    found = again.get(added["id"])
    assert found is not None
    assert (found["user_id"], found["agent_id"]) == ("alice", "a")
    assert "run_id" not in found


def test_agents_and_runs_narrow_exactly(m: Memory) -> None:
    m.add("of nobody's", user_id="u", infer=False)
    m.add("of a", user_id="u", agent_id="a", infer=False)
    m.add("of b", user_id="u", agent_id="b", run_id="r", infer=False)
    m.add("of the agent alone", agent_id="a", infer=False)
    assert texts(m.get_all(user_id="u")) == {"of nobody's", "of a", "of b"}
    assert texts(m.get_all(filters={"user_id": "u", "agent_id": "a"})) == {"of a"}
    assert texts(m.get_all(user_id="u", run_id="r")) == {"of b"}
    assert texts(m.get_all(agent_id="a")) == {"of the agent alone"}
    assert m.delete_all(user_id="u", agent_id="a") == {"message": "Memories deleted successfully!"}
    assert texts(m.get_all(user_id="u")) == {"of nobody's", "of b"}


def test_metadata_is_filtered_with_mem0s_operators(m: Memory) -> None:
    for stars, city in ((1, "Oban"), (3, "Mallaig"), (5, "Oban")):
        m.add(
            f"{city} has {stars}", user_id="u", infer=False, metadata={"stars": stars, "city": city}
        )
    who = {"user_id": "u"}
    assert texts(m.get_all(filters={**who, "city": "Oban"})) == {"Oban has 1", "Oban has 5"}
    assert texts(m.get_all(filters={**who, "stars": {"gte": 3}, "city": {"ne": "Oban"}})) == {
        "Mallaig has 3"
    }
    either = {**who, "OR": [{"stars": 1}, {"city": {"in": ["Mallaig"]}}]}
    assert texts(m.get_all(filters=either)) == {"Oban has 1", "Mallaig has 3"}
    assert len(m.search("has", filters={**who, "stars": {"lt": 5}}, threshold=0.0)["results"]) == 2


def test_what_is_over_is_hidden_until_it_is_asked_for(m: Memory, clock: ManualClock) -> None:
    m.add("today only", user_id="u", infer=False, expiration_date="2026-01-01")
    (kept,) = m.add("for long", user_id="u", infer=False)["results"]
    assert texts(m.get_all(user_id="u")) == {"today only", "for long"}
    clock.advance(86_400)
    assert texts(m.get_all(user_id="u")) == {"for long"}
    assert texts(m.get_all(user_id="u", show_expired=True)) == {"today only", "for long"}
    m.update(kept["id"], expiration_date="2025-01-01")
    assert texts(m.get_all(user_id="u")) == set()
    m.update(kept["id"], expiration_date=None)
    assert texts(m.get_all(user_id="u")) == {"for long"}
    with pytest.raises(ValueError, match="no day"):
        m.add("x", user_id="u", expiration_date="soon")


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.add("x"),
        lambda m: m.search("x"),
        lambda m: m.get_all(),
        lambda m: m.delete_all(),
        lambda m: m.add("x", user_id="  "),
        lambda m: m.update("some id"),
    ],
)
def test_what_mem0_refuses_is_refused_as_a_value_error(m: Memory, call: Any) -> None:
    with pytest.raises(ValueError, match=r"is missing|names nobody"):
        call(m)


def test_reset_forgets_everybody(m: Memory) -> None:
    m.add("one", user_id="u", infer=False)
    m.add("two", agent_id="a", infer=False)
    m.reset()
    assert m.get_all(user_id="u") == m.get_all(agent_id="a") == {"results": []}


def test_options_that_mean_nothing_are_named_in_one_warning(tmp_path: Path) -> None:
    config = {
        "vector_store": {"provider": "qdrant"},
        "llm": {"provider": "openai"},
        "version": "v1.1",
    }
    with pytest.warns(AgentMemWarning, match="llm, vector_store, version") as told:
        m = Memory.from_config(config, path=tmp_path / "m.db")
    assert len(told) == 1
    with m, pytest.warns(AgentMemWarning, match=r"of search\(\).*rerank"):
        m.search("x", user_id="u", rerank=True)


def test_what_is_added_is_known_to_turns(m: Memory) -> None:
    m.add("The harbour in Oban closes at nine in winter.", user_id="ann", infer=False)
    question = [{"role": "user", "content": "When does the harbour in Oban close?"}]
    assert "closes at nine" in m.memory.turn(question, user_id="ann", dry=True).block_text


def test_everything_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncMemory(path=tmp_path / "m.db") as m:
            (added,) = (await m.add("green tea", user_id="u", infer=False))["results"]
            assert texts(await m.search("green tea", user_id="u")) == {"green tea"}
            await m.update(added["id"], "black tea")
            assert (await m.get(added["id"]))["memory"] == "black tea"  # type: ignore[index]
            assert len(await m.history(added["id"])) == 2
            assert texts(await m.get_all(filters={"user_id": "u"})) == {"black tea"}
            await m.delete(added["id"])
            await m.delete_all(user_id="u")
            await m.reset()
            assert m.memory.path == tmp_path / "m.db"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
