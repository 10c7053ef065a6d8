"""Strands Agents: an agent with our plugin and a model of theirs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations
from tests.noted_memory import references

pytest.importorskip("strands.middleware", reason="needs agentmem-loop[strands]")

from strands import Agent, tool
from strands.models.model import Model

from agentmem.compat.strands import MemoryPlugin


class Scripted(Model):
    """Answers from a list and keeps what it was sent."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.seen: list[Any] = []
        self.prompts: list[Any] = []

    def update_config(self, **config: Any) -> None:
        """Nothing to set."""

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, *args: Any, system_prompt: Any = None, **options: Any
    ) -> Any:
        self.seen.append([dict(message) for message in messages])
        self.prompts.append(args[1] if len(args) > 1 else system_prompt)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, str):
            for word in reply.split(" "):
                piece = word if word == reply.split(" ")[0] else f" {word}"
                yield {"contentBlockDelta": {"delta": {"text": piece}}}
        else:
            start = (
                {"toolUse": {"name": reply, "toolUseId": "t1"}}
                if not isinstance(reply, dict)
                else reply
            )
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"day": "Monday"}'}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(reply, str) else "tool_use"}}
        usage = {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


CALL = {"toolUse": {"name": "hours", "toolUseId": "t1"}}


@tool
def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def agent_of(model: Model, plugins: list[Any], **options: Any) -> Agent:
    return Agent(model=model, plugins=plugins, callback_handler=None, **options)


def test_an_agent_with_a_tool_gets_one_pair_and_its_messages_none(
    memory: MemoryManager, spans: Any
) -> None:
    model = Scripted(CALL, ANSWER, "Yes, at nine.")
    turns: list[Any] = []
    plugin = MemoryPlugin(memory, on_turn=turns.append)
    agent = agent_of(model, [plugin], tools=[hours], system_prompt="Be kind.")
    agent.state.set("user_id", "ann")
    assert str(agent(QUESTION)).strip() == ANSWER
    agent("Is the harbour in Oban closed?")
    assert [references(seen) for seen in model.seen] == [1, 1, 1]
    first, second, _ = model.seen
    assert [m["role"] for m in first] == ["user", "assistant", "user"]
    assert FACT in first[1]["content"][0]["text"]
    assert second[: len(first)] == first
    assert model.prompts == ["Be kind."] * 3
    assert "agentmem reference" not in str(agent.messages)
    assert kept(memory) == sorted(
        [KEPT, QUESTION, "Is the harbour in Oban closed?", "Yes, at nine."]
    )
    assert counted(memory, turns[1]) == (9, 4)
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_stream_gives_the_same_pieces(memory: MemoryManager) -> None:
    async def main(plugins: list[Any]) -> list[str]:
        agent = agent_of(Scripted(ANSWER), plugins)
        events = [event async for event in agent.stream_async(QUESTION)]
        return [event["data"] for event in events if "data" in event]

    plain = asyncio.run(main([]))
    assert len(plain) > 1
    assert asyncio.run(main([MemoryPlugin(memory, scope="ann")])) == plain
    assert kept(memory) == [KEPT, QUESTION]


def test_what_a_model_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    agent = agent_of(Scripted(TimeoutError("slow")), [MemoryPlugin(memory, scope="ann")])
    with pytest.raises(TimeoutError, match="slow"):
        agent(QUESTION)
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    model, plugin = Scripted(ANSWER), MemoryPlugin(broken, scope="ann")
    assert str(agent_of(model, [plugin])(QUESTION)).strip() == ANSWER
    assert len(model.seen[0]) == 1
    assert plugin.degradations
