"""What is promised of running a turn's tool calls."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.agent.tool_results import WorkingMemory
from agentmem.agent.tool_runner import ToolRunner, differences, parse_call
from agentmem.agent.tools import Tool
from agentmem.base.types import Scope
from agentmem.testing import ManualClock
from agentmem.tokens.encodings import estimate_tokens
from tests.properties.strategies import texts

NAMES = ("write", "look", "wait", "wrte", "")
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["n"],
    "additionalProperties": False,
}


def spelled(arguments: dict[str, Any], form: int) -> Any:
    """The same arguments as different models write them."""
    if form == 0:
        return json.dumps(arguments)
    if form == 1:
        return json.dumps(dict(reversed(arguments.items())), indent=2)
    if form == 2:
        return f"```json\n{json.dumps(arguments)}\n```"
    return arguments


def argument_sets() -> st.SearchStrategy[dict[str, Any]]:
    numbers = st.integers(0, 3) | st.just("1") | st.none()
    return st.fixed_dictionaries({}, optional={"n": numbers, "note": st.sampled_from(("a", "b"))})


def batches() -> st.SearchStrategy[list[list[tuple[str, dict[str, Any], int]]]]:
    call = st.tuples(st.sampled_from(NAMES), argument_sets(), st.integers(0, 3))
    return st.lists(st.lists(call, max_size=5), max_size=5)


class Recorder:
    """Tools that fail for odd numbers and note what was executed."""

    def __init__(self) -> None:
        self.executed: list[tuple[str, str]] = []

    def _note(self, name: str, arguments: dict[str, Any]) -> str:
        self.executed.append((name, json.dumps(arguments, sort_keys=True)))
        if arguments["n"] % 2:
            raise ValueError(f"{arguments['n']} is odd")
        return f"{name} {arguments}"

    def write(self, **arguments: Any) -> str:
        return self._note("write", arguments)

    def look(self, **arguments: Any) -> str:
        return self._note("look", arguments)

    async def wait(self, **arguments: Any) -> str:
        await asyncio.sleep(0)
        return self._note("wait", arguments)

    def tools(self) -> list[Tool]:
        return [
            Tool(name="write", description="", parameters=SCHEMA, call=self.write),
            Tool(name="look", description="", parameters=SCHEMA, call=self.look, read_only=True),
            Tool(name="wait", description="", parameters=SCHEMA, call=self.wait),
        ]


@given(turn=batches(), stored=st.booleans())
def test_a_failed_call_is_never_executed_again_in_its_turn(
    turn: list[list[tuple[str, dict[str, Any], int]]], stored: bool
) -> None:
    """P34 No blind retry. A failed call repeated unchanged is answered from the record, with guidance."""
    recorder = Recorder()
    manager = agentmem.open(":memory:", embedder=None, clock=ManualClock())
    working = WorkingMemory(manager, scope=Scope(user_id="alice"), count=estimate_tokens)
    runner = ToolRunner(recorder.tools(), working if stored else None)
    failed: set[tuple[str, str]] = set()
    answered: set[tuple[str, str]] = set()
    expected: Counter[tuple[str, str]] = Counter()

    async def play() -> None:
        number = 0
        for batch in turn:
            calls = []
            for name, arguments, form in batch:
                number += 1
                function = {"name": name, "arguments": spelled(arguments, form)}
                calls.append({"id": f"c{number}", "type": "function", "function": function})
            outcomes = await runner.run(calls)
            assert [o.call_id for o in outcomes] == [c["id"] for c in calls]
            for outcome, (name, arguments, _) in zip(outcomes, batch, strict=True):
                key = (name, json.dumps(arguments, sort_keys=True))
                fits = name in ("write", "look", "wait") and type(arguments.get("n")) is int
                assert outcome.ok == (fits and arguments["n"] % 2 == 0)
                assert outcome.message["tool_call_id"] == outcome.call_id
                known = key in failed or (name == "look" and key in answered)
                assert outcome.executed == (fits and not known)
                expected[key] += outcome.executed
                if key in failed:
                    assert "unchanged" in outcome.content
                if outcome.ok:
                    answered.add(key)
                else:
                    failed.add(key)
                    assert outcome.error

    asyncio.run(play())
    assert Counter(recorder.executed) == +expected
    assert not runner.degradations


def loose_values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=12)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=4), inner),
        max_leaves=6,
    )


def loose_calls() -> st.SearchStrategy[Any]:
    """Calls as a confused model sends them, or something else altogether."""
    function = st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES) | loose_values(),
            "arguments": loose_values() | texts(max_size=30),
        }
    )
    return loose_values() | st.fixed_dictionaries({"id": loose_values(), "function": function})


@given(calls=st.lists(loose_calls(), max_size=4))
def test_whatever_a_model_sends_is_answered(calls: list[Any]) -> None:
    """W6 Every call answered. Any list of tool calls gets one tool message each; nothing is raised."""
    recorder = Recorder()
    runner = ToolRunner(recorder.tools(), None, limit_tokens=300)
    outcomes = asyncio.run(runner.run(calls))
    assert len(outcomes) == len(calls)
    for outcome in outcomes:
        assert outcome.message["role"] == "tool"
        assert isinstance(outcome.message["tool_call_id"], str)
        assert estimate_tokens(outcome.content) <= 300
        json.dumps(outcome.message, ensure_ascii=False).encode("utf-8")


@given(arguments=st.dictionaries(st.sampled_from(("n", "note", "nots", "x")), loose_values()))
def test_differences_are_found_exactly_when_the_schema_is_not_met(
    arguments: dict[str, Any],
) -> None:
    """W7 Schema first. A call is refused exactly when its arguments do not fit the tool's schema."""
    import jsonschema

    tool = Tool(name="t", description="", parameters=SCHEMA, call=lambda **_: None)
    fits = jsonschema.Draft202012Validator(SCHEMA).is_valid(arguments)
    assert bool(differences(tool, arguments)) is not fits


@given(arguments=st.dictionaries(texts(max_size=6), loose_values(), max_size=4))
def test_spelling_does_not_change_what_a_call_asks_for(arguments: dict[str, Any]) -> None:
    """W8 Same call. A call's key depends on its tool and arguments, not on how they are written."""
    keys = {
        parse_call({"function": {"name": "t", "arguments": spelled(arguments, form)}}, 1).key
        for form in range(4)
    }
    assert len(keys) == 1
