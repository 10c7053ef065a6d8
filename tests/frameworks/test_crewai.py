"""CrewAI: a crew whose model calls pass our hooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentmem.memory.manager import MemoryManager
from tests.frameworks.shared import ANSWER, FACT, KEPT, OF_CREWAI, operations
from tests.noted_memory import references

pytest.importorskip("crewai", reason="needs agentmem-loop[crewai]")
pytestmark = pytest.mark.filterwarnings(OF_CREWAI)

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM

from agentmem.agent.adapters.replies import is_ours
from agentmem.compat.crewai import CrewMemory


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


class Scripted(BaseLLM):
    """Answers from a list and keeps what it was sent."""

    replies: list[Any] = []  # noqa: RUF012  # a pydantic field
    seen: list[Any] = []  # noqa: RUF012  # a pydantic field

    def call(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.seen.append([dict(message) for message in messages])
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def acall(self, messages: Any, *args: Any, **options: Any) -> Any:
        return self.call(messages)

    def supports_function_calling(self) -> bool:
        return False


def crew_of(
    *replies: Any,
    kind: type[Scripted] = Scripted,
    task: str = "Say when the harbour in Oban closes.",
) -> tuple[Scripted, Crew]:
    llm = kind(model="scripted", replies=list(replies), seen=[])
    agent = Agent(role="harbour master", goal="answer", backstory="kind", llm=llm, verbose=False)
    asked = Task(description=task, expected_output="an hour", agent=agent)
    return llm, Crew(agents=[agent], tasks=[asked], verbose=False)


def test_a_crew_gets_one_pair_and_the_answer_is_kept(memory: MemoryManager, spans: Any) -> None:
    llm, crew = crew_of(f"Thought: I now can give a great answer\nFinal Answer: {ANSWER}")
    with CrewMemory(memory, scope="ann"):
        assert ANSWER in str(crew.kickoff())
    sent = llm.seen[0]
    assert references(sent) == 1
    assert FACT in str(sent)
    place = next(at for at, message in enumerate(sent) if references([message]))
    assert sent[place + 1]["role"] == "user"
    assert memory.flush(30)
    said = [m.text for m in memory.get_all(user_id="ann") if m.kind == "message"]
    assert KEPT in said
    assert "Say when the harbour in Oban closes." in said
    assert operations(spans) >= {"search_memory", "create_memory"}


def test_an_awaited_crew_is_served_too(memory: MemoryManager) -> None:
    llm, crew = crew_of(f"Thought: I know\nFinal Answer: {ANSWER}")

    async def main() -> str:
        with CrewMemory(memory, scope="ann"):
            return str(await crew.akickoff())

    assert ANSWER in asyncio.run(main())
    assert [references(seen) for seen in llm.seen] == [1]
    assert memory.flush(30)
    assert KEPT in [m.text for m in memory.get_all(user_id="ann") if m.kind == "message"]


def test_outside_of_the_block_nothing_is_added(memory: MemoryManager) -> None:
    with CrewMemory(memory, scope="ann"):
        pass
    llm, crew = crew_of(f"Thought: fine\nFinal Answer: {ANSWER}")
    crew.kickoff()
    assert references(llm.seen[0]) == 0


def test_a_store_that_is_gone_changes_nothing(broken: MemoryManager) -> None:
    llm, crew = crew_of(f"Thought: fine\nFinal Answer: {ANSWER}")
    with CrewMemory(broken, scope="ann") as remembering:
        assert ANSWER in str(crew.kickoff())
    assert references(llm.seen[0]) == 0
    assert remembering.degradations


def test_the_crew_sends_its_own_messages_and_keeps_them_to_itself(memory: MemoryManager) -> None:
    steps = (
        "Thought: I look\nAction: hours\nAction Input: {}",
        f"Thought: I know\nFinal Answer: {ANSWER}",
    )
    plain, bare = crew_of(*steps)
    bare.kickoff()
    ours, crew = crew_of(*steps)
    with CrewMemory(memory, scope="ann"):
        crew.kickoff()
    assert type(ours) is Scripted
    assert references(ours.seen[0]) == 1  # later steps ask what CrewAI says of the tool
    for seen, expected in zip(ours.seen, plain.seen, strict=True):
        assert [message for message in seen if not is_ours(message)] == expected


def test_what_a_model_raises_is_raised_and_the_task_is_kept(memory: MemoryManager) -> None:
    _, crew = crew_of(TimeoutError("slow"))
    with CrewMemory(memory, scope="ann"), pytest.raises(TimeoutError, match="slow"):
        crew.kickoff()
    assert memory.flush(30)
    said = [m.text for m in memory.get_all(user_id="ann") if m.kind == "message"]
    assert said == ["Say when the harbour in Oban closes."]
