"""What `stats` says of calls, fallbacks and the breaker, from what the store keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.agent.turn import CallOutcome, count_calls
from agentmem.inspector.render import render_stats
from agentmem.inspector.stats import collect_stats
from agentmem.testing import ManualClock, ScriptedModel

ASKED = [{"role": "user", "content": "Where is the harbour of Piran?"}]


def calling(name: str, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"c-{name}", "type": "function", "function": function}],
    }


def test_another_process_sees_the_openings_and_fallbacks_of_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise OSError("the disk is gone")

    path, clock = tmp_path / "memory.db", ManualClock()
    with agentmem.open(path, embedder=None, clock=clock, judge_new=False) as memory:
        memory.add("The harbour of Piran is small.", user_id="ana")
        memory.turn(ASKED, user_id="ana").done("At sea.")
        monkeypatch.setattr(memory.retriever, "search", broken)
        for _ in range(4):  # three failures open it, the fourth is not searched for
            clock.advance(70)  # past what the cache keeps
            memory.turn(ASKED, user_id="ana").done("I do not know.")
        memory.flush(10)
    with agentmem.open(path, embedder=None) as again:
        report = collect_stats(again, now=datetime(2026, 1, 2, tzinfo=UTC))
    figures = report.contexts
    assert (figures.contexts, figures.fallbacks, figures.breaker_openings) == (5, 4, 1)
    assert figures.fallback_rate == pytest.approx(0.8)
    assert sum(slot.fallbacks for slot in figures.slots) == 4
    assert sum(slot.breaker_openings for slot in figures.slots) == 1
    shown = render_stats(report)
    assert "opened 1 time\n" in shown
    assert "4 of 5 contexts (80.0 %)" in shown
    assert "fallbacks " in shown


def test_calls_that_fail_are_corrected_and_read_back_are_counted(tmp_path: Path) -> None:
    def read_log(lines: int) -> str:
        """Read the log.

        Args:
            lines: how many lines.
        """
        return "\n".join(f"line {number} of the log" for number in range(lines))

    def read_back(request: dict[str, Any]) -> dict[str, Any]:
        shown = str(request["messages"][-1]["content"])
        result_id = shown.split('id="')[1].split('"', maxsplit=1)[0]
        return calling("memory_read", f'{{"id": "{result_id}"}}')

    model = ScriptedModel(
        calling("read_log", '{"lines": "many"}'),
        calling("read_log", '{"lines": 500}'),
        read_back,
        "It has 500 lines.",
    )
    with agentmem.open(tmp_path / "memory.db", embedder=None) as memory:
        run_agent_loop_sync("Read it", memory=memory, model=model, tools=[read_log], user_id="ana")
        memory.flush(10)
        report = collect_stats(memory, now=memory.clock.now())
    calls = report.contexts.calls
    assert (calls.made, calls.success_rate) == (2, 0.5)
    assert (calls.correction_rate, calls.read_back_rate) == (1.0, 1.0)
    said = "2, 50.0 % succeeded, 100.0 % of the failed corrected, 100.0 % of the kept results read"
    assert said in render_stats(report, width=140)


def test_turns_without_tools_count_nothing() -> None:
    assert count_calls([]) == {}
    assert count_calls([CallOutcome(name="memory_search", ok=True)]) == {}
    failed = CallOutcome(name="a", ok=False)
    assert count_calls([CallOutcome(name="a", ok=True), failed])["corrected"] == 0
