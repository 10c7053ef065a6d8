"""The OpenAI Agents SDK: its scripted model, its runner, and the contract of its sessions."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentmem
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations
from tests.noted_memory import references

pytest.importorskip("agents.testing", reason="needs agentmem-loop[openai-agents]")

from agents import Agent, RunConfig, Runner, SQLiteSession, Usage, function_tool
from agents.memory import Session, SessionSettings
from agents.run_config import CallModelData, ModelInputData
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from agentmem.compat.openai_agents import AgentsMemory, MemorySession

SAID = [assistant_message(ANSWER)]


@function_tool
def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def agent_of(model: Any, **options: Any) -> Agent[Any]:
    return Agent(name="harbour", instructions="Be kind.", model=model, **options)


QUIET = RunConfig(tracing_disabled=True)


def run(*args: Any, **options: Any) -> Any:
    return asyncio.run(Runner.run(*args, **options))


def test_a_run_with_a_tool_gets_one_pair_and_its_items_none(
    memory: MemoryManager, spans: Any
) -> None:
    model = ScriptedModel([[function_call("hours", '{"day": "Monday"}', call_id="c1")], SAID])
    remembering = AgentsMemory(memory)
    done = run(
        agent_of(model, tools=[hours]),
        QUESTION,
        context={"user_id": "ann"},
        run_config=remembering.run_config(QUIET),
        hooks=remembering,
    )
    assert done.final_output == ANSWER
    first, second = (list(call.input) for call in model.calls)
    assert [call.system_instructions for call in model.calls] == ["Be kind."] * 2
    assert second[: len(first)] == first
    assert [item["role"] for item in first] == ["user", "assistant", "user"]
    assert FACT in first[1]["content"]
    assert [references([i for i in sent if "role" in i]) for sent in (first, second)] == [1, 1]
    assert "agentmem" not in str(done.to_input_list())
    assert kept(memory) == [KEPT, QUESTION]
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_streamed_run_gives_the_sdks_events_and_its_usage(memory: MemoryManager) -> None:
    turns: list[Any] = []

    async def main(remembering: AgentsMemory | None) -> list[str]:
        step = ModelStep(
            SAID, usage=Usage(requests=1, input_tokens=9, output_tokens=4, total_tokens=13)
        )
        streamed = Runner.run_streamed(
            agent_of(ScriptedModel([step])),
            QUESTION,
            run_config=QUIET if remembering is None else remembering.run_config(QUIET),
            hooks=remembering,
        )
        return [event.type async for event in streamed.stream_events()]

    plain = asyncio.run(main(None))
    ours = asyncio.run(main(AgentsMemory(memory, scope="ann", on_turn=turns.append)))
    assert ours == plain
    assert kept(memory) == [KEPT, QUESTION]
    assert counted(memory, turns[0]) == (9, 4)


def test_a_session_goes_with_it_and_holds_no_reference(memory: MemoryManager) -> None:
    session = MemorySession("chat 1", memory, scope="ann")
    model = ScriptedModel([SAID, [assistant_message("Yes, in Oban.")]])
    remembering = AgentsMemory(memory, scope="ann")
    for question in (QUESTION, "Is that the harbour in Oban?"):
        run(
            agent_of(model), question, session=session,
            run_config=remembering.run_config(QUIET), hooks=remembering,
        )  # fmt: skip
    items = asyncio.run(session.get_items())
    assert len(items) == 4
    assert "agentmem" not in str(items)
    second = [item for item in model.calls[1].input if "role" in item]
    assert references(second) == 1
    assert len(second) == 5
    assert kept(memory) == sorted([KEPT, QUESTION, "Is that the harbour in Oban?", "Yes, in Oban."])


def test_what_a_model_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    remembering = AgentsMemory(memory, scope="ann")
    with pytest.raises(TimeoutError, match="slow"):
        run(
            agent_of(ScriptedModel([TimeoutError("slow")])), QUESTION,
            run_config=remembering.run_config(QUIET), hooks=remembering,
        )  # fmt: skip
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    model = ScriptedModel([SAID])
    remembering = AgentsMemory(broken, scope="ann")
    done = run(
        agent_of(model), QUESTION, run_config=remembering.run_config(QUIET), hooks=remembering
    )
    assert done.final_output == ANSWER
    assert model.calls[0].input == [{"content": QUESTION, "role": "user"}]
    assert remembering.degradations


def test_a_filter_that_was_there_runs_first(memory: MemoryManager) -> None:
    def theirs(data: CallModelData[Any]) -> ModelInputData:
        return ModelInputData(input=data.model_data.input, instructions="Be brief.")

    model = ScriptedModel([SAID])
    remembering = AgentsMemory(memory, scope="ann")
    config = remembering.run_config(
        RunConfig(tracing_disabled=True, call_model_input_filter=theirs)
    )
    run(agent_of(model), QUESTION, run_config=config, hooks=remembering)
    assert model.calls[0].system_instructions == "Be brief."
    assert len(model.calls[0].input) == 3


def test_runs_side_by_side_keep_their_answers_apart(memory: MemoryManager) -> None:
    async def main() -> None:
        async def ask(user: str) -> None:
            remembering = AgentsMemory(memory)
            await Runner.run(
                agent_of(ScriptedModel([[assistant_message(f"Good day, {user}.")]])),
                f"Hello from {user}, how are you?", context={"user_id": user},
                run_config=remembering.run_config(QUIET), hooks=remembering,
            )  # fmt: skip

        await asyncio.gather(*(ask(f"user{n}") for n in range(5)))

    asyncio.run(main())
    for n in range(5):
        assert kept(memory, f"user{n}") == [
            f"Good day, user{n}.",
            f"Hello from user{n}, how are you?",
        ]


# ----------------------------------------------------------------------------
# The contract of a session, with the SDK's own as twin.


ITEMS = st.sampled_from(
    [
        {"role": "user", "content": "hello"},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": [{"type": "output_text", "text": "ü \n]]>"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": [1, null]}'},
        {"type": "function_call_output", "call_id": "c", "output": "done"},
        {"type": "reasoning", "id": "r", "summary": [], "extra": {"x": 1.5, "y": None}},
    ]
)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(ITEMS, max_size=3)),
    st.tuples(st.just("pop"), st.none()),
    st.tuples(st.just("clear"), st.none()),
    st.tuples(st.just("get"), st.sampled_from([None, 0, 1, 2, 100, -1])),
)


@given(st.lists(st.tuples(st.sampled_from(["one", "two"]), STEPS), max_size=10))
@settings(max_examples=25, deadline=None)
def test_a_session_does_what_the_sdks_own_does(steps: list[Any]) -> None:
    async def main() -> None:
        with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
            ours = {name: MemorySession(name, memory, scope="ann") for name in ("one", "two")}
            twins = {name: SQLiteSession(name) for name in ("one", "two")}
            for name, (step, argument) in steps:
                got = [await _do(one[name], step, argument) for one in (ours, twins)]
                assert got[0] == got[1]
            for name in ("one", "two"):
                assert await ours[name].get_items() == await twins[name].get_items()
                twins[name].close()

    asyncio.run(main())


async def _do(session: Any, step: str, argument: Any) -> Any:
    if step == "add":
        return await session.add_items([dict(item) for item in argument])
    if step == "pop":
        return await session.pop_item()
    return await (session.clear_session() if step == "clear" else session.get_items(argument))


def test_a_session_is_one_for_the_sdk_and_outlives_its_object(memory: MemoryManager) -> None:
    async def main() -> None:
        session = MemorySession("chat", memory, scope="ann")
        assert isinstance(session, Session)
        await session.add_items([{"role": "user", "content": "first"}])
        again = MemorySession("chat", memory, scope="ann")
        await again.add_items([{"role": "user", "content": "second"}])
        assert [item["content"] for item in await session.get_items()] == ["first", "second"]
        assert await MemorySession("chat", memory, scope="bob").get_items() == []

    asyncio.run(main())
    assert not memory.search("first", user_id="ann", threshold=0.0, kinds=["session-item"])
    assert memory.upkeep.erase_all(user_id="ann").ids


def test_a_session_keeps_to_the_limit_it_was_made_with(memory: MemoryManager) -> None:
    async def main() -> None:
        session = MemorySession("c", memory, session_settings=SessionSettings(limit=2))
        await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        assert [item["content"] for item in await session.get_items()] == ["3", "4"]
        assert len(await session.get_items(4)) == 4

    asyncio.run(main())


# ----------------------------------------------------------------------------
# What the SDK's own tests ask of a session, in our words: each way to run, both sessions.


def ran(way: str, agent: Agent[Any], asked: Any, **options: Any) -> Any:
    """A run in one of the SDK's three ways."""
    options.setdefault("run_config", QUIET)
    if way == "run_sync":
        loop = asyncio.new_event_loop()  # which `run_sync` wants to find, and does not close
        asyncio.set_event_loop(loop)
        try:
            return Runner.run_sync(agent, asked, **options)
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    async def main() -> Any:
        if way == "run":
            return await Runner.run(agent, asked, **options)
        streamed = Runner.run_streamed(agent, asked, **options)
        async for _ in streamed.stream_events():
            pass
        return streamed

    return asyncio.run(main())


@pytest.fixture(params=["run", "run_sync", "run_streamed"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["the SDK's own", "ours"])
def make(request: pytest.FixtureRequest, memory: MemoryManager, tmp_path: Path) -> Any:
    """Sessions by their name: the SDK's own stands beside ours."""
    made: list[SQLiteSession] = []

    def session(name: str, **options: Any) -> Any:
        if request.param == "ours":
            return MemorySession(name, memory, scope="ann", **options)
        made.append(SQLiteSession(name, tmp_path / "sessions.db", **options))
        return made[-1]

    yield session
    for one in made:
        one.close()


def said(text: str) -> list[Any]:
    return [assistant_message(text)]


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def contents(items: Any) -> list[Any]:
    """What each item says, whichever form the SDK keeps it in."""
    found = []
    for item in items:
        content = item["content"]
        found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def test_a_later_run_sees_what_was_said_before(way: str, make: Any) -> None:
    model, session = ScriptedModel([said("Oban"), said("Argyll")]), make("one")
    assert ran(way, agent_of(model), "Which port?", session=session).final_output == "Oban"
    assert ran(way, agent_of(model), "Which county?", session=session).final_output == "Argyll"
    assert contents(model.calls[1].input) == ["Which port?", "Oban", "Which county?"]
    kept_items = asyncio.run(session.get_items())
    assert contents(kept_items) == ["Which port?", "Oban", "Which county?", "Argyll"]


def test_without_a_session_nothing_is_carried_over(way: str) -> None:
    model = ScriptedModel([said("Oban"), said("What?")])
    ran(way, agent_of(model), "Which port?")
    ran(way, agent_of(model), "And where?")
    assert len(model.calls[1].input) == 1 or contents(model.calls[1].input) == ["And where?"]


def test_two_sessions_do_not_hear_each_other(way: str, make: Any) -> None:
    model = ScriptedModel([said("cats"), said("dogs"), said("cats again")])
    ran(way, agent_of(model), "I like cats", session=make("one"))
    ran(way, agent_of(model), "I like dogs", session=make("two"))
    ran(way, agent_of(model), "What do I like?", session=make("one"))
    assert contents(model.calls[1].input) == ["I like dogs"]
    assert contents(model.calls[2].input) == ["I like cats", "cats", "What do I like?"]


def test_a_list_of_items_is_added_to_what_is_there(way: str, make: Any) -> None:
    session, model = make("one"), ScriptedModel([said("ok")])
    earlier = [user("before"), {"role": "assistant", "content": "answer"}]
    asyncio.run(session.add_items(earlier))
    ran(way, agent_of(model), [user("now")], session=session)
    assert list(model.calls[0].input) == [*earlier, user("now")]


def test_a_callback_chooses_from_the_history(way: str, make: Any) -> None:
    def only_users(history: list[Any], new: list[Any]) -> list[Any]:
        return [item for item in history if item["role"] == "user"] + new

    session, model = make("one"), ScriptedModel([said("ok")])
    asyncio.run(session.add_items([user("before"), {"role": "assistant", "content": "answer"}]))
    config = RunConfig(tracing_disabled=True, session_input_callback=only_users)
    ran(way, agent_of(model), [user("now")], session=session, run_config=config)
    assert contents(model.calls[0].input) == ["before", "now"]


@pytest.mark.parametrize(
    ("limit", "sent"),
    [(2, ["q2", "a2", "q3"]), (0, ["q3"]), (None, ["q1", "a1", "q2", "a2", "q3"]), (100, ["q1", "a1", "q2", "a2", "q3"])],
)  # fmt: skip
def test_a_run_may_limit_how_much_it_sees(way: str, make: Any, limit: Any, sent: list[str]) -> None:
    session, model = make("one"), ScriptedModel([said("a1"), said("a2"), said("a3")])
    for question in ("q1", "q2"):
        ran(way, agent_of(model), question, session=session)
    config = RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=limit))
    ran(way, agent_of(model), "q3", session=session, run_config=config)
    assert contents(model.calls[2].input) == sent
    assert len(asyncio.run(session.get_items())) == 6


def test_a_run_overrides_the_limit_of_its_session(make: Any) -> None:
    session = make("one", session_settings=SessionSettings(limit=100))
    asyncio.run(session.add_items([user(str(number)) for number in range(10)]))
    model = ScriptedModel([said("ok")])
    config = RunConfig(tracing_disabled=True, session_settings=SessionSettings(limit=2))
    run(agent_of(model), "new", session=session, run_config=config)
    assert contents(model.calls[0].input) == ["8", "9", "new"]


def test_items_are_added_read_taken_and_cleared(make: Any) -> None:
    async def main() -> None:
        one, two = make("one"), make("two")
        assert await one.pop_item() is None
        assert await one.get_items() == []
        items = [user("first"), {"role": "assistant", "content": "second"}, user("third")]
        await one.add_items(items)
        await two.add_items([user("other"), user("another")])
        assert await one.get_items() == items
        for number in (2, 1, 0):
            assert await one.pop_item() == items[number]
            assert await one.get_items() == items[:number]
        assert await one.pop_item() is None
        assert await two.pop_item() == user("another")
        assert await two.get_items() == [user("other")]
        await one.add_items(items)
        await one.clear_session()
        assert await one.get_items() == []
        assert await two.get_items() == [user("other")]
        await one.add_items([])
        assert await one.get_items() == []

    asyncio.run(main())


@pytest.mark.parametrize(("limit", "first"), [(2, 4), (4, 2), (6, 0), (10, 0), (0, 6), (None, 0)])
def test_a_limit_gives_the_latest_in_their_order(make: Any, limit: Any, first: int) -> None:
    async def main() -> None:
        session = make("one")
        items = [user(str(number)) for number in range(6)]
        await session.add_items(items)
        assert await session.get_items(limit=limit) == items[first:]

    asyncio.run(main())


def test_a_session_has_settings_and_a_limit_that_is_said_comes_first(make: Any) -> None:
    async def main() -> None:
        plain = make("plain")
        assert isinstance(plain.session_settings, SessionSettings)
        assert plain.session_settings.limit is None
        session = make("one", session_settings=SessionSettings(limit=3))
        await session.add_items([user(str(number)) for number in range(8)])
        assert contents(await session.get_items()) == ["5", "6", "7"]
        assert contents(await session.get_items(limit=2)) == ["6", "7"]

    asyncio.run(main())


@pytest.mark.parametrize(
    "text",
    ["こんにちは", "😊👍", "Привет", "O'Reilly", "DROP TABLE sessions;", "Robert'); --", '"SELECT *"', "", "\n\t", "a\u0000b", "]]>"],
)  # fmt: skip
def test_items_come_back_as_they_were(make: Any, text: str) -> None:
    async def main() -> None:
        session = make(text or "empty")
        item = {"role": "user", "content": text, "extra": {text: [text, 1.5, None, True]}}
        await session.add_items([item])
        assert await session.get_items() == [item]

    asyncio.run(main())


def test_writers_at_once_lose_nothing(make: Any) -> None:
    session = make("one")

    def add(number: int) -> None:
        asyncio.run(session.add_items([user(str(number))]))

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(add, range(10)))
    assert set(contents(asyncio.run(session.get_items()))) == {str(n) for n in range(10)}


def test_takers_at_once_get_each_item_once(memory: MemoryManager) -> None:
    async def main() -> None:
        session = MemorySession("one", memory, scope="ann")
        await session.add_items([user(str(number)) for number in range(6)])
        taken = await asyncio.gather(*(session.pop_item() for _ in range(8)))
        assert sorted(contents(item for item in taken if item)) == [str(n) for n in range(6)]

    asyncio.run(main())


def test_a_session_that_cannot_write_stops_the_stream_with_its_error(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = MemorySession("one", memory, scope="ann")

    def full(*args: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(session, "_add", full)
    with pytest.raises(OSError, match="disk is full"):
        ran("run_streamed", agent_of(ScriptedModel([SAID])), QUESTION, session=session)
