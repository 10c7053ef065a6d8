"""The OpenAI Agents SDK: its scripted model, its runner, and the contract of its sessions."""

from __future__ import annotations

import asyncio
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
from agents.memory import Session
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
    assert memory.erase_all(user_id="ann").ids


def test_a_session_keeps_to_the_limit_it_was_made_with(memory: MemoryManager) -> None:
    async def main() -> None:
        from agents.memory import SessionSettings

        session = MemorySession("c", memory, session_settings=SessionSettings(limit=2))
        await session.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        assert [item["content"] for item in await session.get_items()] == ["3", "4"]
        assert len(await session.get_items(4)) == 4

    asyncio.run(main())
