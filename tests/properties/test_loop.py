"""Whatever of memory fails, the loop's answer is the one it would give without memory."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.agent.loop import AgentLoopResult, run_agent_loop_sync
from agentmem.base.config import LoopConfig, RecallConfig
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.cite import resolve_citations
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import FaultyStore, HashEmbedder, ManualClock, ScriptedModel
from tests.properties.strategies import texts

CALLS = (
    "put", "supersede", "get", "get_rows", "recent", "scan", "record_usage", "visible_owners",
    "replace_source", "has_source", "count", "feed.seq", "feed.changes", "feed.index_rows",
    "feed.data_version", "feed.vectors", "settings.get", "settings.set", "settings.update",
    "settings.secret",
    "snapshots.put", "snapshots.get", "artifacts.put", "artifacts.get", "jobs.enqueue",
    "jobs.claim", "jobs.counts", "close",
)  # fmt: skip
ERRORS = (OSError("disk"), ValueError("odd"), MemoryError("full"), agentmem.AgentMemError("ours"))


class FailingEmbedder(HashEmbedder):
    def embed_query(self, text: str, /) -> Any:
        raise OSError("no embedder")


def look_up(word: str) -> str:
    """Look a word up."""
    return f"{word} " * 400


def tool_call(name: str) -> Mapping[str, Any]:
    function = {"name": name, "arguments": '{"word": "deploy"}'}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def answer(memory: MemoryManager | None, goal: str, script: Sequence[Any]) -> AgentLoopResult:
    return run_agent_loop_sync(
        goal,
        memory=memory,
        model=ScriptedModel(*script),
        tools=[look_up],
        user_id="sam",
        pages=[("https://wiki.example/", "# A page\n\nOf no use.")],
        config=LoopConfig(recall=RecallConfig(timeout_seconds=30)),
    )


@pytest.fixture(autouse=True)
def quiet() -> Any:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@given(
    goal=st.sampled_from(("When do deploys go out?", "I prefer tea. Why?")) | texts(),
    broken=st.sets(st.sampled_from(CALLS), min_size=1, max_size=4) | st.just(set(CALLS)),
    after=st.integers(0, 6),
    error=st.sampled_from(ERRORS),
    script=st.sampled_from((("On Thursdays [1].",), (tool_call("look_up"), "Found it."), ("",))),
    embedder=st.sampled_from((HashEmbedder(), FailingEmbedder(), None)),
)
def test_whatever_fails_the_answer_is_the_same(  # noqa: PLR0917 - drawn by name
    goal: str,
    broken: set[str],
    after: int,
    error: Exception,
    script: Sequence[Any],
    embedder: Any,
) -> None:
    """P30 Fail open. Any failure of any memory part, at any step, leaves the same answer as without memory, plus a recorded degradation."""
    if not goal.strip():
        goal = "What?"
    faults = Faults(broken, after=after, error=error)
    store: Any = FaultyStore(SqliteStore(":memory:"), faults)
    memory = MemoryManager(store, embedder=embedder, clock=ManualClock())
    memory.add("Deploys go out on Thursdays at 10:00.", user_id="sam")
    faults.on = True
    try:
        result = answer(memory, goal, script)
        memory.flush(20)
        faults.on = False
        alone = answer(None, goal, script)
        assert result.answer == alone.answer
        assert [c.ok for c in result.tool_calls] == [c.ok for c in alone.tool_calls]
        if faults.here:
            assert result.degradations
    finally:
        faults.on = False
        memory.close()


class Faults:
    """Fails the chosen calls once they were made `after` times; knows those of the turn itself."""

    def __init__(self, broken: set[str], *, after: int, error: Exception) -> None:
        self._broken = broken
        self._after = after
        self._error = error
        self._made = 0
        self.on = False
        self.here = 0

    def __call__(self, name: str) -> Exception | None:
        if not self.on or name not in self._broken:
            return None
        self._made += 1
        if self._made <= self._after:
            return None
        # What the worker meets is told by its own state; the turn must tell the rest.
        self.here += "agentmem-worker" not in threading.current_thread().name
        return self._error


@given(
    facts=st.integers(0, 9),
    styles=st.integers(0, 2),
    top_k=st.integers(1, 6),
    said=st.lists(st.sampled_from(("At nine.", "[1]", "[2]", "[3, 4]", "[7]", "[0]", "[99]"))),
)
def test_what_the_model_is_shown_is_true_and_what_it_cites_exists(
    facts: int, styles: int, top_k: int, said: list[str]
) -> None:
    """Through the whole loop: P9 for the block that is sent, P12 for the answer that comes back."""
    with agentmem.open(":memory:", embedder=None, clock=ManualClock()) as memory:
        for number in range(facts):
            memory.add(f"Kiln {number} fires at {900 + number} degrees.", user_id="sam")
        for style in ("I prefer short answers.", "I prefer tea over coffee.")[:styles]:
            memory.preferences.add(style, user_id="sam")
        result = run_agent_loop_sync(
            "At how many degrees does each kiln fire?",
            memory=memory,
            model=ScriptedModel(" ".join(said) or "At nine."),
            user_id="sam",
            config=LoopConfig(recall=RecallConfig(top_k=top_k, timeout_seconds=30)),
        )
        sent = "\n".join(str(message["content"]) for message in result.sent)
        shown = min(facts, top_k)
        counts = re.findall(r"Showing (\d+) of (\d+) sources", sent)
        assert counts == ([(str(shown), str(facts))] if facts else [])
        assert sent.count("<source ") + len(re.findall(r"^\[\d+\] ", sent, re.M)) == shown
        assert len(result.offered) == shown
        assert sent.count("<user_profile>") == bool(styles)
        if facts and styles:
            assert sent.index("<user_profile>") < sent.index("<related_knowledge")
        offered = {citation.index for citation in result.offered}
        assert offered == set(range(1, shown + 1))
        numbers = {int(number) for number in re.findall(r"\d+", result.answer)}
        assert {citation.index for citation in result.citations} == numbers & offered
        resolved = resolve_citations(result.answer, result.offered)
        assert {int(number) for number in re.findall(r"\d+", resolved.text)} == numbers & offered
        for citation in result.citations:
            assert citation.label == "Knowledge Base"
            assert memory.get(citation.memory_id, user_id="sam").text.startswith(citation.quote)
