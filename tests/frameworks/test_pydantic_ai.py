"""pydantic-ai with its own test models."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations

pytest.importorskip("pydantic_ai", reason="needs agentmem-loop[pydantic-ai]")

from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from agentmem.compat.pydantic_ai import MemoryCapability, view
from agentmem.prompt.messages import is_reference

TestModel.__test__ = False  # type: ignore[attr-defined]  # a model of theirs, no test of ours


class Scripted:
    """A function model that answers from a list and keeps what it was sent."""

    def __init__(self, *replies: Any) -> None:
        self._replies = list(replies)
        self.seen: list[list[ModelMessage]] = []
        self.model = FunctionModel(self._answer, stream_function=self._stream)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(list(messages))
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return ModelResponse(parts=[TextPart(reply) if isinstance(reply, str) else reply])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> Any:
        self.seen.append(list(messages))
        for word in self._replies.pop(0).split(" "):
            yield f"{word} "


def pairs(messages: list[ModelMessage]) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def roles(messages: list[ModelMessage]) -> list[str]:
    return [str(message["role"]) for message in view(messages).messages]


def run(agent: Any, *args: Any, **options: Any) -> Any:
    return asyncio.run(agent.run(*args, **options))


@dataclass
class Deps:
    user_id: str


def test_a_run_with_a_tool_gets_one_pair_and_its_history_none(
    memory: MemoryManager, spans: Any
) -> None:
    scripted = Scripted(ToolCallPart("hours", {"day": "Monday"}, "c1"), ANSWER, "Yes, at nine.")
    agent = Agent(
        scripted.model,
        system_prompt="Be kind.",
        deps_type=Deps,
        capabilities=[MemoryCapability(memory)],
    )

    @agent.tool_plain
    def hours(day: str) -> str:
        return f"nine to nine on {day}"

    first = run(agent, QUESTION, deps=Deps("ann"))
    assert first.output == ANSWER
    assert memory.flush(30)
    again = run(
        agent,
        "Is the harbour in Oban closed?",
        message_history=first.all_messages(),
        deps=Deps("ann"),
    )
    assert pairs(again.all_messages()) == 0
    assert [pairs(seen) for seen in scripted.seen] == [1, 1, 1]
    assert roles(scripted.seen[0]) == ["system", "user", "assistant", "user"]
    assert FACT in str(scripted.seen[0])
    assert view(scripted.seen[1]).messages[:4] == view(scripted.seen[0]).messages[:4]
    assert kept(memory) == sorted(
        [KEPT, QUESTION, "Is the harbour in Oban closed?", "Yes, at nine."]
    )
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_streamed_run_gives_the_same_pieces(memory: MemoryManager) -> None:
    async def main(capabilities: list[Any]) -> list[str]:
        agent = Agent(Scripted(ANSWER).model, capabilities=capabilities)
        async with agent.run_stream(QUESTION) as run:
            return [piece async for piece in run.stream_text(delta=True, debounce_by=None)]

    plain = asyncio.run(main([]))
    assert len(plain) > 1
    assert asyncio.run(main([MemoryCapability(memory, scope="ann")])) == plain
    assert kept(memory) == [KEPT, QUESTION]


def test_usage_and_output_are_the_runs_own(memory: MemoryManager) -> None:
    turns: list[Any] = []
    capability = MemoryCapability(memory, scope="ann", on_turn=turns.append)
    plain = run(Agent(TestModel(custom_output_text=ANSWER)), QUESTION)
    ours = run(Agent(TestModel(custom_output_text=ANSWER), capabilities=[capability]), QUESTION)
    assert ours.output == plain.output
    assert memory.flush(30)
    assert counted(memory, turns[0])[1] == ours.usage.output_tokens


def test_what_a_model_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    agent = Agent(
        Scripted(TimeoutError("slow")).model, capabilities=[MemoryCapability(memory, scope="ann")]
    )
    with pytest.raises(TimeoutError, match="slow"):
        run(agent, QUESTION)
    assert kept(memory) == [QUESTION]


def test_a_run_that_is_cancelled_is_cancelled(memory: MemoryManager) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def wait(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        agent = Agent(FunctionModel(wait), capabilities=[MemoryCapability(memory, scope="ann")])
        running = asyncio.create_task(agent.run(QUESTION))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    scripted = Scripted(ANSWER)
    capability = MemoryCapability(broken, scope="ann")
    assert run(Agent(scripted.model, capabilities=[capability]), QUESTION).output == ANSWER
    assert roles(scripted.seen[0]) == ["user"]
    assert capability.degradations


def test_messages_that_nothing_divides_are_the_very_same_objects(memory: MemoryManager) -> None:
    earlier = run(Agent(TestModel()), "Hello there").all_messages()
    scripted = Scripted(ANSWER)
    run(
        Agent(scripted.model, capabilities=[MemoryCapability(memory, scope="ann")]),
        [QUESTION, "and when does it open?"],
        message_history=earlier,
    )
    seen = scripted.seen[0]
    assert seen[:2] == earlier
    assert len(seen) == 5
    assert pairs(seen) == 1
