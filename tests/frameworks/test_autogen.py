"""AutoGen: an assistant whose model context is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, kept, operations

pytest.importorskip("autogen_agentchat", reason="needs agentmem-loop[autogen]")

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    ModelInfo,
    RequestUsage,
    UserMessage,
)

from agentmem.compat.autogen import MemoryContext, view
from agentmem.prompt.messages import is_reference


class Client(ChatCompletionClient):
    """Answers from a list and keeps what it was sent."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.seen: list[list[LLMMessage]] = []

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        self.seen.append(list(messages))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        reason: Any = "stop" if isinstance(reply, str) else "function_calls"
        usage = RequestUsage(prompt_tokens=9, completion_tokens=4)
        return CreateResult(finish_reason=reason, content=reply, usage=usage, cached=False)

    async def create_stream(self, messages: Sequence[LLMMessage], **options: Any) -> Any:
        whole = await self.create(messages)
        for word in str(whole.content).split(" "):
            yield f"{word} "
        yield whole

    async def close(self) -> None:
        """Nothing to close."""

    def actual_usage(self) -> RequestUsage:
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    total_usage = actual_usage

    def count_tokens(self, messages: Any, **options: Any) -> int:
        return 0

    def remaining_tokens(self, messages: Any, **options: Any) -> int:
        return 1000

    @property
    def capabilities(self) -> Any:
        return self.model_info

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(
            vision=False, function_calling=True, json_output=False, family="unknown",
            structured_output=False,
        )  # fmt: skip


async def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def pairs(messages: list[LLMMessage]) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def test_an_assistant_with_a_tool_gets_one_pair_and_its_context_none(
    memory: MemoryManager, spans: Any
) -> None:
    call = [FunctionCall(id="c1", name="hours", arguments='{"day": "Monday"}')]
    client = Client(call, ANSWER, "Yes, at nine.")
    context = MemoryContext(memory, scope="ann")
    agent = AssistantAgent(
        "port", client, tools=[hours], model_context=context, system_message="Be kind.",
        reflect_on_tool_use=True,
    )  # fmt: skip

    async def main() -> None:
        done = await agent.run(task=QUESTION)
        assert done.messages[-1].content == ANSWER  # type: ignore[union-attr]
        await agent.run(task="Is the harbour in Oban closed?")
        assert "agentmem reference" not in str(await context.save_state())

    asyncio.run(main())
    assert [pairs(seen) for seen in client.seen] == [1, 1, 1]
    first, second, _ = client.seen
    assert [type(m).__name__ for m in first] == [
        "SystemMessage", "UserMessage", "AssistantMessage", "UserMessage",
    ]  # fmt: skip
    assert first[0].content == "Be kind."
    assert FACT in str(first[2].content)
    assert second[: len(first)] == first
    assert kept(memory) == sorted(
        [KEPT, QUESTION, "Is the harbour in Oban closed?", "Yes, at nine."]
    )
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_what_a_client_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    agent = AssistantAgent(
        "port", Client(TimeoutError("slow")), model_context=MemoryContext(memory, scope="ann")
    )

    async def main() -> None:
        await agent.run(task=QUESTION)

    with pytest.raises(TimeoutError, match="slow"):
        asyncio.run(main())
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    async def main() -> None:
        context = MemoryContext(broken, scope="ann")
        await context.add_message(UserMessage(content=QUESTION, source="user"))
        assert [m.content for m in await context.get_messages()] == [QUESTION]
        await context.add_message(AssistantMessage(content=ANSWER, source="port"))
        assert context.degradations

    asyncio.run(main())


def test_a_stream_gives_the_same_pieces(memory: MemoryManager) -> None:
    async def main(**options: Any) -> list[str]:
        agent = AssistantAgent("port", Client(ANSWER), model_client_stream=True, **options)
        events = [event async for event in agent.run_stream(task=QUESTION)]
        return [str(getattr(event, "content", "")) for event in events[:-1]]

    plain = asyncio.run(main())
    assert len(plain) > 3
    assert asyncio.run(main(model_context=MemoryContext(memory, scope="ann"))) == plain
    assert kept(memory) == [KEPT, QUESTION]
