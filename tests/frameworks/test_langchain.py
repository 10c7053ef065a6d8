"""LangChain: an agent with tools and a checkpointer, and what its vector store filters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, kept, operations

pytest.importorskip("langchain", reason="needs agentmem-loop[langchain]")

from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from agentmem.compat.langchain import MemoryMiddleware, MemoryVectorStore, view
from agentmem.prompt.messages import is_reference


class Model(GenericFakeChatModel):
    """Answers from a list and keeps what it was sent."""

    seen: list[list[BaseMessage]] = []  # noqa: RUF012  # a pydantic field

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **options)


def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


CALL = AIMessage(content="", tool_calls=[{"id": "c1", "name": "hours", "args": {"day": "Monday"}}])
SAID = AIMessage(
    content=ANSWER, usage_metadata={"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
)


def scripted(*answers: Any) -> Model:
    return Model(messages=iter(answers), seen=[])


def pairs(messages: list[BaseMessage]) -> int:
    return sum(is_reference(message) for message in view(messages).messages)


def test_an_agent_with_tools_gets_one_pair_a_turn_and_its_state_none(
    memory: MemoryManager, spans: Any
) -> None:
    model = scripted(CALL, SAID, AIMessage(content="Yes, at nine."))
    agent = create_agent(
        model,
        [hours],
        system_prompt="Be kind.",
        middleware=[MemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    run: Any = {"configurable": {"thread_id": "t1", "user_id": "ann"}}
    done = agent.invoke({"messages": [HumanMessage(QUESTION)]}, run)
    assert done["messages"][-1].content == ANSWER
    assert memory.flush(30)
    done = agent.invoke({"messages": [HumanMessage("Is that so in Oban harbour?")]}, run)
    assert pairs(done["messages"]) == 0
    assert len(done["messages"]) == 6
    first, second, third = model.seen
    assert [pairs(seen) for seen in model.seen] == [1, 1, 1]
    assert second[: len(first)] == first
    assert first[0].content == "Be kind."
    assert [m.type for m in first] == ["system", "human", "ai", "human"]
    assert FACT in str(first[2].content)
    assert third[0] == first[0]
    assert kept(memory) == sorted([KEPT, QUESTION, "Is that so in Oban harbour?", "Yes, at nine."])
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_the_runs_context_names_the_user_and_else_the_thread(memory: MemoryManager) -> None:
    model = scripted(SAID, SAID, SAID)
    agent = create_agent(model, [], middleware=[MemoryMiddleware(memory)], context_schema=dict)
    asked: Any = {"messages": [HumanMessage(QUESTION)]}
    agent.invoke(asked, context={"user_id": "ann"})
    agent.invoke(asked, {"configurable": {"thread_id": "t9"}})
    agent.invoke(asked, context={"user_id": "bob"})
    assert [pairs(seen) for seen in model.seen] == [1, 0, 0]
    for user in ("ann", "t9", "bob"):
        assert kept(memory, user) == [KEPT, QUESTION]


def test_an_async_agent_streams_its_own_chunks(memory: MemoryManager) -> None:
    async def main(middleware: list[Any]) -> list[str]:
        agent = create_agent(scripted(AIMessage(content=ANSWER)), [], middleware=middleware)
        asked: Any = {"messages": [HumanMessage(QUESTION)]}
        return [
            chunk.content
            async for chunk, _ in agent.astream(asked, stream_mode="messages")
            if chunk.content
        ]

    plain = asyncio.run(main([]))
    assert asyncio.run(main([MemoryMiddleware(memory, scope="ann")])) == plain
    assert len(plain) > 1
    assert kept(memory) == [KEPT, QUESTION]


def test_what_the_model_raises_is_raised(memory: MemoryManager) -> None:
    class Broken(Model):
        def _generate(self, *args: Any, **options: Any) -> Any:
            raise TimeoutError("slow")

    agent = create_agent(
        Broken(messages=iter(()), seen=[]), [], middleware=[MemoryMiddleware(memory, scope="ann")]
    )
    with pytest.raises(TimeoutError, match="slow"):
        agent.invoke({"messages": [HumanMessage(QUESTION)]})
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing_and_is_told_in_the_stream(
    broken: MemoryManager,
) -> None:
    model = scripted(SAID)
    agent = create_agent(model, [], middleware=[MemoryMiddleware(broken, scope="ann")])
    told = list(agent.stream({"messages": [HumanMessage(QUESTION)]}, stream_mode="custom"))
    assert model.seen == [[HumanMessage(QUESTION, id=model.seen[0][0].id)]]
    assert told[0]["agentmem"]["degradations"]


def test_a_scope_may_be_read_from_the_runtime(memory: MemoryManager) -> None:
    model = scripted(SAID)
    middleware = MemoryMiddleware(memory, scope=lambda runtime: runtime.context["who"])
    agent = create_agent(model, [], middleware=[middleware], context_schema=dict)
    agent.invoke({"messages": [HumanMessage(QUESTION)]}, context={"who": "ann"})
    assert [pairs(seen) for seen in model.seen] == [1]


def test_a_vector_store_filters_scores_and_keeps_to_its_scope(memory: MemoryManager) -> None:
    store = MemoryVectorStore.from_texts(
        ["green tea", "black tea", ""],
        metadatas=[{"cold": True}, {"cold": False}, {}],
        ids=["g", "b", "e"],
        memory=memory,
        scope="ann",
    )
    assert [d.id for d in store.similarity_search("tea", filter={"cold": True})] == ["g"]
    ((found, score),) = store.similarity_search_with_relevance_scores("green tea", k=1)
    assert (found.id, found.page_content) == ("g", "green tea")
    assert 0 <= score <= 1
    assert store.get_by_ids(["e"])[0].page_content == ""
    other = MemoryVectorStore(memory, scope="bob")
    assert other.similarity_search("tea") == []
    store.delete()
    assert store.get_by_ids(["g", "b"]) == []
    assert FACT in [one.text for one in memory.get_all(user_id="ann")]
