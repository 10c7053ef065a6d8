"""What an answer of a loop cites: a web page, a memory, or nothing (P12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import AgentLoopResult, run_agent_loop_sync
from agentmem.agent.tools import search_web_tool
from agentmem.prompt.cite import Citation, listed_sources, renumber, told_apart
from agentmem.testing import HashEmbedder, ScriptedModel

QUESTION = "When does the harbour of Piran close?"
KNOWN = "The harbour of Piran closes at nine."
PAGE = {
    "url": "https://piran.example/harbour",
    "title": "Harbour of Piran",
    "content": "The harbour of Piran closes at ten in summer.",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(tmp_path / "memory.db", embedder=HashEmbedder()) as opened:
        yield opened


def calling(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


def searched(memory: agentmem.MemoryManager, answer: str) -> AgentLoopResult:
    tool = search_web_tool(lambda query: [PAGE], memory)
    called = calling("search_web_for_info", '{"query": "harbour Piran closing time"}')
    model = ScriptedModel(called, answer)
    return run_agent_loop_sync(QUESTION, memory=memory, model=model, tools=[tool], user_id="ana")


def test_the_number_of_the_web_tool_is_a_web_citation(memory: agentmem.MemoryManager) -> None:
    result = searched(memory, "It closes at ten [1].")
    assert [(one.index, one.source, one.url) for one in result.citations] == [
        (1, "web", PAGE["url"])
    ]
    assert (result.cleaned, result.dangling) == (result.answer, ())


def test_web_and_knowledge_have_numbers_of_their_own(memory: agentmem.MemoryManager) -> None:
    memory.add(KNOWN, user_id="ana")
    result = searched(memory, "Nine [1], in summer ten [2], and never eleven [7].")
    assert [(one.index, one.source) for one in result.citations] == [(1, "memory"), (2, "web")]
    assert result.dangling == (7,)
    assert result.answer.endswith("eleven [7].")
    assert result.cleaned == "Nine [1], in summer ten [2], and never eleven."
    shown = next(m["content"] for m in result.messages if m.get("role") == "tool")
    assert "[2] Web Source" in shown


def test_a_number_with_no_source_at_all_cites_nothing(memory: agentmem.MemoryManager) -> None:
    result = run_agent_loop_sync(
        QUESTION, memory=memory, model=ScriptedModel("At nine [1]."), user_id="ana"
    )
    assert (result.citations, result.dangling) == ((), (1,))
    assert (result.answer, result.cleaned) == ("At nine [1].", "At nine.")


def test_a_search_of_the_callers_own_is_told_from_knowledge_by_what_is_said(
    memory: agentmem.MemoryManager,
) -> None:
    memory.add(KNOWN, user_id="ana")

    def look(query: str) -> str:
        """Search the web."""
        return "[1] Lighthouse of Piran https://light.example/\n    Built in 1872 on the cape."

    def cited(answer: str) -> list[str]:
        model = ScriptedModel(calling("look", '{"query": "lighthouse"}'), answer)
        result = run_agent_loop_sync(
            QUESTION, memory=memory, model=model, tools=[look], user_id="ana"
        )
        return [one.source for one in result.citations]

    assert cited("The lighthouse on the cape was built in 1872 [1].") == ["web"]
    assert cited("The harbour of Piran closes at nine [1].") == ["memory"]


def test_numbered_lists_of_pages_are_read_as_sources_and_other_lists_are_not() -> None:
    text = """Found:
[1] Piran https://a.example/x
[2] Nothing to see
3. Izola – https://b.example/
  1) first step
  * [4]: Koper
    https://c.example/koper
    A port."""
    found = listed_sources(text)
    assert [(one.index, one.url, one.title) for one in found] == [
        (1, "https://a.example/x", "Piran"),
        (3, "https://b.example/", "Izola"),
        (4, "https://c.example/koper", "Koper"),
    ]


def test_numbers_are_replaced_where_they_cite_and_nowhere_else() -> None:
    answer = "One [1], two [2, 3], `a[1]`, and nothing [9]."
    assert renumber(answer, {1: 4, 2: 5, 3: 6}) == "One [4], two [5, 6], `a[1]`, and nothing."


def test_one_page_under_one_number_stays_what_it_is() -> None:
    known = Citation(index=1, source="both", url="https://a.example/", title="A")
    listed = Citation(index=1, source="web", url="http://www.a.example", title="B")
    assert told_apart("So [1].", [known], [listed]) == (known,)
