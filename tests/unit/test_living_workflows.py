"""Workflows learned from tool calls that worked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem import LearnConfig, LoopConfig
from agentmem.agent.loop import run_agent_loop_sync
from agentmem.living.facts import Workflow, from_memory
from agentmem.living.workflows import (
    Call,
    Run,
    common,
    hide,
    learn,
    read_call,
    read_run,
    run_from_json,
    run_to_json,
)
from agentmem.testing import HashEmbedder, ManualClock, ScriptedModel

LEARNING = LoopConfig(learn=LearnConfig(workflows=True))


def digest(text: str) -> str:
    return f"#{sum(map(ord, text)) * 31 + len(text)}"


def run(goal: str, *calls: tuple[str, dict[str, Any]]) -> Run:
    made = read_run(goal, [read_call(tool, given) for tool, given in calls])
    assert made is not None
    return made


def release(version: str, *, extra: bool = False) -> Run:
    calls = [("run_tests", {"path": "tests"}), ("tag", {"name": version, "branch": "main"})]
    if extra:
        calls.insert(1, ("read_file", {"path": "CHANGELOG.md"}))
    return run(f"Release version {version} of the app", *calls, ("push", {"tag": version}))


def test_two_runs_of_one_sort_become_a_workflow_with_placeholders() -> None:
    learned, kept = learn(release("1.2"), [], digest=digest)
    assert learned is None
    learned, kept = learn(release("1.3", extra=True), kept, digest=digest)
    assert learned is not None
    flow = learned
    assert int(flow.details["runs"]) == len(kept) == 2
    assert flow.trigger == "Release version of the app" or "Release version" in flow.trigger
    assert flow.steps == (
        "run_tests(path=tests)", "tag(name=<name>, branch=main)", "push(tag=<name>)",
    )  # fmt: skip
    assert flow.details == {"<name>": "such as 1.3", "runs": "2"}


def test_other_goals_and_other_tools_are_no_workflow() -> None:
    _, kept = learn(release("1.2"), [], digest=digest)
    other = run("Release version 3", ("cook", {}), ("eat", {}))
    assert learn(other, kept, digest=digest)[0] is None
    goal = run("Paint a fence", ("run_tests", {"path": "tests"}), ("tag", {}), ("push", {}))
    assert learn(goal, kept, digest=digest)[0] is None


def test_too_few_calls_or_no_words_are_no_run() -> None:
    call = Call(tool="a")
    assert read_run("do it well", [call]) is None
    assert read_run("do it well", [call, call]) is None
    assert read_run("", [call, Call(tool="b")]) is None


def test_kept_runs_hold_no_words_and_are_read_back() -> None:
    hidden = hide(release("1.2"), digest)
    assert run_from_json(json.loads(json.dumps(run_to_json(hidden)))) == hidden
    assert "Release" not in str(hidden)
    assert "1.2" not in str(hidden)
    odd: list[Any] = [None, {}, [], {"words": 3, "calls": ()}, {"words": [], "calls": [3]}]
    for bad in odd:
        assert run_from_json(bad) is None


def test_odd_arguments_are_told_in_short() -> None:
    call = read_call("t", {"a": "x" * 500, "b": {"c": [1]}, "d": object(), "e": "line\nbreak"})
    assert len(call.arguments["a"]) <= 80
    assert call.arguments["b"] == '{"c": [1]}'
    assert call.arguments["d"] == "object"
    assert "\n" not in call.arguments["e"]


def test_common_is_the_longest_sequence_of_both() -> None:
    assert common("abcbdab", "bdcaba") in (list("bcba"), list("bdab"), list("bcab"))
    assert common("", "abc") == []


def run_tests(path: str) -> str:
    """Run the tests."""
    return f"all of {path} passed"


def tag(name: str) -> str:
    """Tag a version."""
    return f"tagged {name}"


def script(version: str) -> ScriptedModel:
    def call(name: str, /, **given: str) -> dict[str, Any]:
        function = {"name": name, "arguments": json.dumps(given)}
        return {
            "role": "assistant", "content": None,
            "tool_calls": [{"id": name, "type": "function", "function": function}],
        }  # fmt: skip

    return ScriptedModel(
        call("run_tests", path="tests"), call("tag", name=version), f"Version {version} is out."
    )


def answer(memory: agentmem.MemoryManager, version: str, config: LoopConfig) -> None:
    result = run_agent_loop_sync(
        f"Please release version {version} of the app",
        memory=memory, model=script(version), tools=[run_tests, tag], config=config, user_id="ana",
    )  # fmt: skip
    assert result.degradations == ()
    assert memory.flush(10)


def test_the_loop_learns_a_workflow_over_runs_and_forgets_it_when_erased(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with agentmem.open(path, embedder=HashEmbedder(), clock=ManualClock()) as memory:
        answer(memory, "1.0-quokka", LEARNING)
        assert memory.get_all(kinds=["workflow"], user_id="ana") == ()
        answer(memory, "1.1-quokka", LEARNING)
        (kept,) = memory.get_all(kinds=["workflow"], user_id="ana")
        record = from_memory(kept)
        assert isinstance(record, Workflow)
        assert record.steps == ("run_tests(path=tests)", "tag(name=<name>)")
        answer(memory, "1.2-quokka", LEARNING)
        (kept,) = memory.get_all(kinds=["workflow"], user_id="ana")
        assert kept.metadata["record"]["details"]["runs"] == "3"
        context = memory.living.assemble_context(task="zebra", user_id="ana")
        assert "worked before" in context.text
        memory.upkeep.erase_all(user_id="ana")
    for file in tmp_path.iterdir():
        assert b"quokka" not in file.read_bytes(), file.name


def test_without_the_setting_nothing_is_learned() -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as memory:
        for version in ("1.0", "1.1"):
            answer(memory, version, LoopConfig())
        assert memory.get_all(kinds=["workflow"], user_id="ana") == ()


def test_a_loop_of_ones_own_teaches_by_its_tool_results() -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as memory:
        for version in ("1.0", "1.1"):
            ask = [{"role": "user", "content": f"Please release version {version} of the app"}]
            with memory.turn(ask, config=LEARNING, user_id="ana") as turn:
                turn.tool_result("run_tests", {"path": "tests"}, "ok")
                turn.tool_result("lint", {}, "", error="failed")
                turn.tool_result("tag", {"name": version}, "ok")
                turn.done("It is out.")
            assert memory.flush(10)
        (kept,) = memory.get_all(kinds=["workflow"], user_id="ana")
        assert "lint" not in kept.text


def test_a_job_done_twice_is_one_run() -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=ManualClock()) as memory:
        scope = agentmem.Scope(user_id="ana")
        payload = {"id": "x", "goal": "release the app", "calls": [["a", {}], ["b", {}]]}
        for _ in range(2):
            memory.runtime.workflows.learn(payload, scope)
        assert memory.get_all(kinds=["workflow"], user_id="ana") == ()


@pytest.mark.parametrize("goal", ["", "   ", "\x00"])
def test_goals_without_words_teach_nothing(goal: str) -> None:
    assert read_run(goal, [Call(tool="a"), Call(tool="b")]) is None
