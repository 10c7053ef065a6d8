"""Google ADK: its runner with our plugin, and its in-memory service as twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, QUESTION, counted, kept, operations

pytest.importorskip("google.adk", reason="needs agentmem-loop[google-adk]")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App
from google.adk.events.event import Event
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from agentmem.compat.adk import MemoryPlugin, MemoryService, view
from agentmem.prompt.messages import is_reference


class Model(BaseLlm):
    """Answers from a list and keeps what it was sent."""

    replies: list[Any]
    seen: list[list[types.Content]]
    prompts: list[Any] = []  # noqa: RUF012  # a pydantic field

    async def generate_content_async(
        self, llm_request: Any, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.seen.append(list(llm_request.contents))
        self.prompts.append(llm_request.config.system_instruction)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        parts = [types.Part(text=reply)] if isinstance(reply, str) else [reply]
        if stream and isinstance(reply, str):
            for word in reply.split(" "):
                said = types.Content(role="model", parts=[types.Part(text=f"{word} ")])
                yield LlmResponse(content=said, partial=True)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=9, candidates_token_count=4
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


def model(*replies: Any) -> Model:
    return Model(model="scripted", replies=list(replies), seen=[], prompts=[])


def hours(day: str) -> str:
    """When the harbour is open on a day."""
    return f"nine to nine on {day}"


def ask(
    agent: LlmAgent, plugins: list[Any], *questions: str, user: str = "ann", streamed: bool = False
) -> tuple[list[Event], Any]:
    """The events of a run for each question, and the session afterwards."""

    async def main() -> tuple[list[Event], Any]:
        runner = InMemoryRunner(app=App(name="port", root_agent=agent, plugins=plugins))
        session = await runner.session_service.create_session(app_name="port", user_id=user)
        config = RunConfig(streaming_mode=StreamingMode.SSE) if streamed else RunConfig()
        events: list[Event] = []
        for question in questions:
            said = types.Content(role="user", parts=[types.Part(text=question)])
            run = runner.run_async(
                user_id=user, session_id=session.id, new_message=said, run_config=config
            )
            events += [event async for event in run]
        after = await runner.session_service.get_session(
            app_name="port", user_id=user, session_id=session.id
        )
        await runner.close()
        return events, after

    return asyncio.run(main())


def pairs(contents: list[types.Content]) -> int:
    return sum(is_reference(message) for message in view(contents).messages)


def test_a_run_with_a_tool_gets_one_pair_and_its_session_none(
    memory: MemoryManager, spans: Any
) -> None:
    call = types.Part(function_call=types.FunctionCall(name="hours", args={"day": "Monday"}))
    llm = model(call, ANSWER, "Yes, at nine.")
    agent = LlmAgent(name="port", model=llm, instruction="Be kind.", tools=[hours])
    turns: list[Any] = []
    plugin = MemoryPlugin(memory, on_turn=turns.append)
    _, session = ask(agent, [plugin], QUESTION, "Is the harbour in Oban closed?")
    assert [pairs(seen) for seen in llm.seen] == [1, 1, 1]
    first, second, _ = llm.seen
    assert [content.role for content in first] == ["user", "model", "user"]
    assert FACT in str(first[1])
    assert second[: len(first)] == first
    bare = model(call, ANSWER, "Yes, at nine.")
    plain = LlmAgent(name="port", model=bare, instruction="Be kind.", tools=[hours])
    ask(plain, [], QUESTION, "Is the harbour in Oban closed?")
    assert llm.prompts == bare.prompts
    assert "Be kind." in llm.prompts[0]
    assert "agentmem" not in str(session.events)
    assert kept(memory) == sorted(
        [KEPT, QUESTION, "Is the harbour in Oban closed?", "Yes, at nine."]
    )
    assert counted(memory, turns[0])[0] == 9
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_a_stream_gives_the_same_events(memory: MemoryManager) -> None:
    def texts(plugins: list[Any]) -> list[Any]:
        agent = LlmAgent(name="port", model=model(ANSWER))
        events, _ = ask(agent, plugins, QUESTION, streamed=True)
        return [(event.partial, event.content.parts[0].text) for event in events if event.content]

    plain = texts([])
    assert len(plain) > 2
    assert texts([MemoryPlugin(memory)]) == plain
    assert kept(memory) == [KEPT, QUESTION]


def test_what_a_model_raises_is_raised_and_the_question_is_kept(memory: MemoryManager) -> None:
    agent = LlmAgent(name="port", model=model(TimeoutError("slow")))
    with pytest.raises(TimeoutError, match="slow"):
        ask(agent, [MemoryPlugin(memory)], QUESTION)
    assert kept(memory) == [QUESTION]


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    llm = model(ANSWER)
    plugin = MemoryPlugin(broken)
    events, _ = ask(LlmAgent(name="port", model=llm), [plugin], QUESTION)
    assert events[-1].content.parts[0].text == ANSWER  # type: ignore[union-attr, index]
    assert len(llm.seen[0]) == 1
    assert plugin.degradations


# ----------------------------------------------------------------------------
# The memory service.


def event(author: str, text: str, at: float) -> Event:
    role = "user" if author == "user" else "model"
    said = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, content=said, timestamp=at, id=f"{author}-{at}")


TALK = [
    event("user", "My boat is moored in Oban harbour", 1_700_000_000),
    event("port", "Oban harbour closes at nine", 1_700_000_010),
    event("user", "Green tea please", 1_700_000_020),
]


def test_the_service_finds_what_the_frameworks_own_finds(memory: MemoryManager) -> None:
    async def found(service: Any, app: str, user: str, query: str) -> set[tuple[str, Any]]:
        answer = await service.search_memory(app_name=app, user_id=user, query=query)
        return {(one.content.parts[0].text, one.author) for one in answer.memories}

    async def main() -> None:
        services = (MemoryService(memory), InMemoryMemoryService())
        for service in services:
            for _ in range(2):  # again adds nothing
                await service.add_events_to_memory(
                    app_name="port", user_id="eve", events=TALK, session_id="s1"
                )
        ours, twin = services
        for app, user, query in (
            ("port", "eve", "Oban harbour"),
            ("port", "eve", "green tea"),
            ("other", "eve", "Oban harbour"),
            ("port", "mallory", "Oban harbour"),
        ):
            wanted = await found(twin, app, user, query)
            assert wanted <= await found(ours, app, user, query)
            if not wanted:
                assert not await found(ours, app, user, query)

    asyncio.run(main())
    assert len(kept(memory, "eve")) == 3


def test_a_session_and_a_memory_are_added_and_deleted(memory: MemoryManager) -> None:
    async def main() -> None:
        service = MemoryService(memory)
        runner = InMemoryRunner(agent=LlmAgent(name="port", model=model()), app_name="port")
        session = await runner.session_service.create_session(app_name="port", user_id="eve")
        for one in TALK:
            await runner.session_service.append_event(session, one)
        await service.add_session_to_memory(session)
        note = types.Content(parts=[types.Part(text="The ferry to Mull takes an hour")])
        await service.add_memory(
            app_name="port", user_id="eve", memories=[MemoryEntry(content=note)]
        )
        answer = await service.search_memory(app_name="port", user_id="eve", query="ferry to Mull")
        assert answer.memories[0].content.parts[0].text == "The ferry to Mull takes an hour"  # type: ignore[index]
        await service.delete_memory(app_name="port", user_id="eve", memory_id=answer.memories[0].id)
        answer = await service.search_memory(app_name="port", user_id="eve", query="ferry to Mull")
        assert not any("Mull" in str(one) for one in answer.memories)
        await runner.close()

    asyncio.run(main())
