"""What is known, asked and answered in the tests of frameworks, and what memory kept of it."""

from __future__ import annotations

from typing import Any

from agentmem.memory.manager import MemoryManager

FACT = "The harbour in Oban closes at nine in winter."
QUESTION = "When does the harbour in Oban close?"
ANSWER = "The Oban harbour shuts at nine [1]."
KEPT = "The Oban harbour shuts at nine."  # a mark means nothing outside of its answer

OF_CREWAI = "ignore:(function_calling_llm is )?deprecated:DeprecationWarning:crewai"
"""CrewAI reads its own deprecated fields whenever a crew runs."""
OF_LLAMAINDEX = (
    "ignore:<aiosqlite.core.Connection:ResourceWarning",
    "ignore:Exception in thread .*_connection_worker_thread:pytest.PytestUnhandledThreadExceptionWarning",
)
"""LlamaIndex never closes the database in memory that its `Memory` opens."""


def kept(memory: MemoryManager, user: str = "ann") -> list[str]:
    """The messages that were remembered of a user."""
    assert memory.flush(30)
    return sorted(m.text for m in memory.get_all(user_id=user) if m.kind == "message")


def counted(memory: MemoryManager, turn: Any) -> tuple[int | None, int | None]:
    """The prompt and completion tokens that were traced of a turn."""
    outcome = memory.runtime.trace.get(turn.snapshot_id, scope=turn.scope).outcome
    assert outcome is not None
    return outcome.prompt_tokens, outcome.completion_tokens


def operations(spans: Any) -> set[str]:
    """The names of the memory operations that were traced, none with a text in it."""
    found = spans.get_finished_spans()
    assert not any("Oban" in str(value) for span in found for value in span.attributes.values())
    return {span.attributes["gen_ai.operation.name"] for span in found}
