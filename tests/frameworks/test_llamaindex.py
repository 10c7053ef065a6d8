"""LlamaIndex: a block inside its own `Memory`, and a chat engine that uses it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import FACT, QUESTION, kept, operations

pytest.importorskip("llama_index.core", reason="needs agentmem-loop[llamaindex]")
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockLLMWithChatMemoryOfLastCall
from llama_index.core.memory import Memory

from agentmem.compat.llamaindex import AgentMemBlock, view
from agentmem.prompt.messages import is_reference


def pairs(messages: Any) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def talk(block: AgentMemBlock, **options: Any) -> Memory:
    return Memory.from_defaults(session_id="ann", memory_blocks=[block], **options)


def test_a_memory_gives_the_pair_before_a_history_that_stays_as_it_is(
    memory: MemoryManager, spans: Any
) -> None:
    async def main() -> list[ChatMessage]:
        llama = talk(AgentMemBlock(memory))
        await llama.aput_messages(
            [
                ChatMessage(role="system", content="Be kind."),
                ChatMessage(role="user", content=QUESTION),
            ]
        )
        first = await llama.aget()
        assert await llama.aget() == first
        assert pairs(await llama.aget_all()) == 0
        return first

    found = asyncio.run(main())
    assert [m.role.value for m in found] == ["user", "assistant", "system", "user"]
    assert FACT in str(found[1].content)
    assert found[2].content == "Be kind."
    assert kept(memory) == [QUESTION]
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_question_given_beside_the_history_is_asked(memory: MemoryManager) -> None:
    found = asyncio.run(talk(AgentMemBlock(memory)).aget(input=QUESTION))
    assert pairs(found) == 1


def test_messages_that_leave_the_history_are_remembered_once(memory: MemoryManager) -> None:
    async def main() -> None:
        llama = talk(
            AgentMemBlock(memory), token_limit=60, chat_history_token_ratio=0.5, token_flush_size=10
        )
        for number in range(6):
            await llama.aput(ChatMessage(role="user", content=f"Fact {number} about the port"))
            await llama.aput(ChatMessage(role="assistant", content=f"Noted fact {number}, thanks"))

    asyncio.run(main())
    said = kept(memory)
    assert "Fact 0 about the port" in said
    assert len(said) == len(set(said))


def test_a_chat_engine_sends_it(memory: MemoryManager) -> None:
    llm = MockLLMWithChatMemoryOfLastCall()
    engine = SimpleChatEngine(
        llm=llm, memory=talk(AgentMemBlock(memory)), prefix_messages=[ChatMessage(role="system", content="Be kind.")]
    )  # fmt: skip
    asyncio.run(engine.achat(QUESTION))
    sent = list(llm.last_chat_messages or ())
    assert [m.role.value for m in sent] == ["system", "user", "assistant", "user"]
    assert pairs(sent) == 1
    assert sent[-1].content == QUESTION


def test_a_scope_may_be_fixed_or_read_from_the_session(memory: MemoryManager) -> None:
    async def main(block: AgentMemBlock, session: str) -> int:
        llama = Memory.from_defaults(session_id=session, memory_blocks=[block])
        return pairs(await llama.aget(input=QUESTION))

    assert asyncio.run(main(AgentMemBlock(memory), "bob")) == 0
    assert asyncio.run(main(AgentMemBlock(memory, scope="ann"), "chat 7")) == 1
    named = AgentMemBlock(memory, scope=lambda session: session.split("/")[0])
    assert asyncio.run(main(named, "ann/7")) == 1


def test_a_store_that_is_gone_leaves_the_history_alone(broken: MemoryManager) -> None:
    async def main() -> list[ChatMessage]:
        block = AgentMemBlock(broken)
        llama = talk(block)
        await llama.aput(ChatMessage(role="user", content=QUESTION))
        found = await llama.aget()
        await block.aput([ChatMessage(role="user", content=QUESTION)], session_id="ann")
        assert block.degradations
        return found

    assert [m.content for m in asyncio.run(main())] == [QUESTION]
