"""LlamaIndex: a block inside its own `Memory`, and a chat engine that uses it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import FACT, OF_LLAMAINDEX, QUESTION, kept, operations

pytest.importorskip("llama_index.core", reason="needs agentmem-loop[llamaindex]")
pytestmark = pytest.mark.filterwarnings(*OF_LLAMAINDEX)
from llama_index.core.base.llms.types import ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.llms.mock import MockLLMWithChatMemoryOfLastCall
from llama_index.core.memory import InsertMethod, Memory, StaticMemoryBlock

from agentmem.agent.adapters.replies import is_ours
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


# ----------------------------------------------------------------------------
# What LlamaIndex's own tests ask of a memory and of its blocks, in our words.


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", content=text)


def history(messages: Any) -> list[ChatMessage]:
    """The messages without what memory added."""
    seen = view(messages)
    return [one for one, read in zip(messages, seen.messages, strict=True) if not is_ours(read)]


def words(text: str) -> list[str]:
    return text.split()


def small(block: AgentMemBlock, **options: Any) -> Memory:
    return talk(block, tokenizer_fn=words, **options)


def test_messages_are_put_read_set_and_reset(memory: MemoryManager) -> None:
    async def main() -> None:
        llama = talk(AgentMemBlock(memory))
        await llama.aput(user("one"))
        await llama.aput_messages([assistant("two"), user("three")])
        assert [m.content for m in history(await llama.aget())] == ["one", "two", "three"]
        assert [m.content for m in await llama.aget_all()] == ["one", "two", "three"]
        await llama.aset([user("four"), assistant("five")])
        assert [m.content for m in history(await llama.aget())] == ["four", "five"]
        await llama.areset()
        assert history(await llama.aget()) == []

    asyncio.run(main())


def test_nothing_asked_is_nothing_given_and_nothing_said_is_nothing_kept(
    memory: MemoryManager,
) -> None:
    async def main() -> None:
        block = AgentMemBlock(memory)
        assert await block.aget([], session_id="ann") == []
        assert await block.aget(None, session_id="ann") == []
        await block.aput([], session_id="ann")
        await block.aput([ChatMessage(role="user", content=None, blocks=[])], session_id="ann")

    asyncio.run(main())
    assert kept(memory) == []


def test_what_was_put_is_found_by_another_question(memory: MemoryManager) -> None:
    async def main() -> Any:
        block = AgentMemBlock(memory)
        await block.aput(
            [user("My ferry to Mull leaves at seven"), assistant("I will remember the ferry")],
            session_id="bob",
        )
        assert await asyncio.to_thread(memory.flush, 30)
        return await block.aget([user("When does my ferry to Mull leave?")], session_id="bob")

    (_, reference) = asyncio.run(main())
    assert "leaves at seven" in str(reference.content)


@pytest.mark.parametrize("method", [InsertMethod.SYSTEM, InsertMethod.USER])
def test_the_pair_is_messages_of_its_own_wherever_texts_of_blocks_go(
    memory: MemoryManager, method: InsertMethod
) -> None:
    async def main() -> list[ChatMessage]:
        facts = StaticMemoryBlock(name="facts", static_content="Ann sails.")
        llama = Memory.from_defaults(
            session_id="ann", memory_blocks=[facts, AgentMemBlock(memory)], insert_method=method
        )
        await llama.aput(user(QUESTION))
        return await llama.aget()

    found = asyncio.run(main())
    assert pairs(found) == 1
    holder = next(m for m in found if "Ann sails." in str(m.content))
    assert "agentmem" not in str(holder.content)
    assert holder.role.value == ("system" if method is InsertMethod.SYSTEM else "user")


@pytest.mark.parametrize(("priority", "given"), [(0, 1), (1, 0)])
def test_without_room_the_pair_is_left_out_whole_unless_it_must_stay(
    memory: MemoryManager, priority: int, given: int
) -> None:
    async def main() -> list[ChatMessage]:
        llama = small(
            AgentMemBlock(memory, priority=priority), token_limit=20, chat_history_token_ratio=0.9,
            token_flush_size=5,
        )  # fmt: skip
        await llama.aput(user(QUESTION))
        return await llama.aget()

    found = asyncio.run(main())
    assert pairs(found) == given
    assert [m.content for m in history(found)] == [QUESTION]


def test_a_history_that_is_too_long_leaves_from_its_front_and_is_remembered(
    memory: MemoryManager,
) -> None:
    async def main() -> list[ChatMessage]:
        llama = small(
            AgentMemBlock(memory), token_limit=1_000, chat_history_token_ratio=0.02,
            token_flush_size=10,
        )  # fmt: skip
        for number in range(8):
            await llama.aput(user(f"Boat {number} lies in the bay"))
            await llama.aput(assistant(f"I noted boat {number} for you"))
        return history(await llama.aget())

    left = asyncio.run(main())
    assert left[0].role.value == "user"
    assert left[-1].content == "I noted boat 7 for you"
    gone = kept(memory)
    assert "Boat 0 lies in the bay" in gone
    assert len(gone) == len(set(gone))


def test_tool_calls_stay_with_their_results(memory: MemoryManager) -> None:
    async def main() -> list[ChatMessage]:
        llama = small(
            AgentMemBlock(memory), token_limit=100, chat_history_token_ratio=0.5,
            token_flush_size=20,
        )  # fmt: skip
        call = ToolCallBlock(tool_call_id="c1", tool_name="hours", tool_kwargs={"day": "a " * 20})
        for _ in range(4):
            await llama.aput(user(QUESTION))
            await llama.aput(ChatMessage(role="assistant", blocks=[call]))
            told = {"tool_call_id": "c1"}
            await llama.aput(ChatMessage(role="tool", content="nine " * 5, additional_kwargs=told))
            await llama.aput(assistant("At nine."))
        return await llama.aget()

    found = asyncio.run(main())
    assert pairs(found) <= 1
    left = history(found)
    assert left[0].role.value == "user"
    for before, after in pairwise(left):
        if after.role.value == "tool":
            assert before.role.value in ("assistant", "tool")
    read = view([one for one in left if one.role.value == "assistant"]).messages
    assert any(message.get("tool_calls") for message in read)


def test_many_readers_at_once_get_the_same(memory: MemoryManager) -> None:
    async def main() -> list[list[ChatMessage]]:
        llama = talk(AgentMemBlock(memory))
        await llama.aput(user(QUESTION))
        return list(await asyncio.gather(*(llama.aget() for _ in range(6))))

    found = asyncio.run(main())
    assert all([m.content for m in one] == [m.content for m in found[0]] for one in found)
    assert kept(memory) == [QUESTION]
