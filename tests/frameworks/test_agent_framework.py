"""Microsoft Agent Framework: an agent with our context provider and its in-memory history."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations

pytest.importorskip("agent_framework", reason="needs agentmem-loop[agent-framework]")

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
)

from agentmem.compat.agent_framework import MemoryProvider, view
from agentmem.prompt.messages import is_reference


class Client(FunctionInvocationLayer, BaseChatClient):  # type: ignore[type-arg, misc]
    """Answers from a list and keeps what it was sent."""

    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self.replies = list(replies)
        self.seen: list[list[Message]] = []
        self.prompts: list[Any] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        self.seen.append(list(messages))
        self.prompts.append(options.get("instructions"))
        reply = self.replies.pop(0)
        if stream:

            async def updates() -> Any:
                for word in reply.split(" "):
                    yield ChatResponseUpdate(
                        role="assistant", contents=[Content.from_text(f"{word} ")]
                    )

            return ResponseStream(updates(), finalizer=ChatResponse.from_updates)

        async def whole() -> ChatResponse[Any]:
            if isinstance(reply, Exception):
                raise reply
            said = Message(role="assistant", contents=[reply])
            usage: Any = {"input_token_count": 9, "output_token_count": 4}
            return ChatResponse(messages=[said], usage_details=usage)

        return whole()


def pairs(messages: list[Message]) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def test_a_session_with_a_tool_gets_one_pair_a_run_and_its_history_none(
    memory: MemoryManager, spans: Any
) -> None:
    call = Content.from_function_call("c1", "hours", arguments={"day": "Monday"})
    client = Client(call, ANSWER, "Yes, at nine.")
    turns: list[Any] = []

    async def main() -> None:
        history = InMemoryHistoryProvider()
        agent = Agent(
            client, "Be kind.", tools=[hours],
            context_providers=[history, MemoryProvider(memory, on_turn=turns.append)],
        )  # fmt: skip
        session = agent.create_session(session_id="ann")
        assert (await agent.run(QUESTION, session=session)).text == ANSWER
        await agent.run("Is the harbour in Oban closed?", session=session)
        assert "agentmem reference" not in str(session.to_dict())

    asyncio.run(main())
    assert [pairs(seen) for seen in client.seen] == [1, 1, 1]
    assert client.prompts == ["Be kind."] * 3
    first, second, third = client.seen
    assert [str(m.role) for m in first] == ["user", "assistant", "user"]
    assert FACT in first[1].text
    assert [m.text for m in second[: len(first)]] == [m.text for m in first]
    assert [m.text for m in third][-1] == "Is the harbour in Oban closed?"
    assert is_reference(view(third).messages[-2])
    assert kept(memory) == sorted(
        [KEPT, QUESTION, "Is the harbour in Oban closed?", "Yes, at nine."]
    )
    assert counted(memory, turns[1]) == (9, 4)
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_stream_gives_the_same_pieces(memory: MemoryManager) -> None:
    async def main(providers: list[Any]) -> list[str]:
        agent = Agent(Client(ANSWER), context_providers=providers)
        return [update.text async for update in agent.run(QUESTION, stream=True)]

    plain = asyncio.run(main([]))
    assert len(plain) > 1
    assert asyncio.run(main([MemoryProvider(memory, scope="ann")])) == plain
    assert kept(memory) == [KEPT, QUESTION]


def test_whose_memory_it_is_comes_from_the_session(memory: MemoryManager) -> None:
    client = Client(ANSWER, ANSWER)

    async def main() -> None:
        agent = Agent(client, context_providers=[MemoryProvider(memory)])
        session = agent.create_session()
        session.state["user_id"] = "ann"
        await agent.run(QUESTION, session=session)
        await agent.run(QUESTION, session=agent.create_session(session_id="bob"))

    asyncio.run(main())
    assert [pairs(seen) for seen in client.seen] == [1, 0]
    assert kept(memory, "bob") == [KEPT, QUESTION]


def test_what_a_client_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    agent = Agent(
        Client(TimeoutError("slow")), context_providers=[MemoryProvider(memory, scope="ann")]
    )
    with pytest.raises(TimeoutError, match="slow"):
        asyncio.run(_run(agent))
    assert kept(memory) == [QUESTION]


async def _run(agent: Agent[Any]) -> Any:
    return await agent.run(QUESTION)


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    client = Client(ANSWER)
    provider = MemoryProvider(broken, scope="ann")
    answer = asyncio.run(_run(Agent(client, context_providers=[provider])))
    assert answer.text == ANSWER
    assert [m.text for m in client.seen[0]] == [QUESTION]
    assert provider.degradations
