"""Agno: an agent whose model remembers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, kept, operations

pytest.importorskip("agno", reason="needs agentmem-loop[agno]")

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import Message
from agno.models.response import ModelResponse

from agentmem.compat.agno import remembering, view
from agentmem.prompt.messages import is_reference


@dataclass
class Scripted(Model):
    """Answers from a list and keeps what it was sent."""

    id: str = "scripted"
    replies: list[Any] = field(default_factory=list)
    seen: list[list[Message]] = field(default_factory=list)

    def invoke(self, *, messages: list[Message], **options: Any) -> ModelResponse:
        self.seen.append([message.model_copy() for message in messages])
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ModelResponse(role="assistant", content=reply)
        return ModelResponse(role="assistant", tool_calls=[reply])

    async def ainvoke(self, **options: Any) -> ModelResponse:
        return self.invoke(**options)

    def invoke_stream(self, **options: Any) -> Any:
        for word in str(self.invoke(**options).content).split(" "):
            yield ModelResponse(content=f"{word} ")

    async def ainvoke_stream(self, **options: Any) -> Any:
        for chunk in self.invoke_stream(**options):
            yield chunk

    def _parse_provider_response(self, response: Any, **options: Any) -> ModelResponse:
        raise NotImplementedError

    _parse_provider_response_delta = _parse_provider_response


def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def pairs(messages: list[Message]) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def agent_of(model: Any, **options: Any) -> Agent:
    return Agent(model=model, telemetry=False, **options)


def test_a_run_with_a_tool_gets_one_pair_and_its_messages_none(
    memory: MemoryManager, spans: Any
) -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "hours", "arguments": '{"day": "Monday"}'},
    }
    model = Scripted(replies=[call, ANSWER])
    agent = agent_of(remembering(model, memory), tools=[hours], system_message="Be kind.")
    done = agent.run(QUESTION, user_id="ann")
    assert done.content == ANSWER
    assert [pairs(seen) for seen in model.seen] == [1, 1]
    first, second = model.seen
    assert [m.role for m in first] == ["system", "user", "assistant", "user"]
    assert FACT in str(first[2].content)
    assert [m.content for m in second[: len(first)]] == [m.content for m in first]
    assert pairs(list(done.messages or ())) == 0
    assert kept(memory) == [KEPT, QUESTION]
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_streams_and_awaited_runs_are_the_same(memory: MemoryManager) -> None:
    def stream(model: Any) -> list[str]:
        events = agent_of(model).run(QUESTION, stream=True, user_id="ann")
        return [event.content for event in events if event.event == "RunContent"]

    async def astream(model: Any) -> list[str]:
        events = agent_of(model).arun(QUESTION, stream=True, user_id="ann")
        return [event.content async for event in events if event.event == "RunContent"]

    async def arun(model: Any) -> Any:
        return (await agent_of(model).arun(QUESTION, user_id="ann")).content

    plain = stream(Scripted(replies=[ANSWER]))
    assert len(plain) > 1
    model = Scripted(replies=[ANSWER] * 3)
    ours = remembering(model, memory)
    assert stream(ours) == plain
    assert asyncio.run(astream(ours)) == plain
    assert asyncio.run(arun(ours)) == ANSWER
    assert [pairs(seen) for seen in model.seen] == [1, 1, 1]
    assert set(kept(memory)) == {KEPT, QUESTION}


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    model = Scripted(replies=[ANSWER])
    ours: Any = remembering(model, broken, scope="ann")
    assert agent_of(ours).run(QUESTION).content == ANSWER
    assert [m.content for m in model.seen[0]] == [QUESTION]
    assert ours.degradations
