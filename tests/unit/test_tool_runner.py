"""Worked examples of running tool calls."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from types import SimpleNamespace
from typing import Any, Literal

import pytest

import agentmem
from agentmem.agent.tool_results import WorkingMemory
from agentmem.agent.tool_runner import ToolOutcome, ToolRunner, read_arguments
from agentmem.agent.tools import Tool, as_tool
from agentmem.base.errors import InvalidInput, StoreFull
from agentmem.base.types import Scope
from agentmem.testing import ManualClock
from agentmem.tokens.encodings import estimate_tokens


def call(name: str, arguments: Any, call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def run(runner: ToolRunner, *calls: Any) -> tuple[ToolOutcome, ...]:
    return asyncio.run(runner.run(calls))


def working() -> WorkingMemory:
    memory = agentmem.open(":memory:", embedder=None, clock=ManualClock())
    return WorkingMemory(memory, scope=Scope(user_id="alice"), count=estimate_tokens)


def divide(number: int, by: int = 2) -> float:
    """Divide."""
    return number / by


@dataclass
class Point:
    x: int
    y: int = 7


def plot(points: list[Point], title: str = "untitled", note: str | None = "none") -> str:
    """Plot."""
    return f"{points} {title} {note}"


def test_calls_run_and_their_results_are_kept() -> None:
    kept = working()
    runner = ToolRunner([divide], kept)
    (outcome,) = run(runner, call("divide", '{"number": 9}'))
    assert outcome.ok
    assert outcome.executed
    assert outcome.message == {"role": "tool", "tool_call_id": "c1", "content": "4.5"}
    assert kept.data(outcome.result_id) == b"4.5"


def test_a_call_that_does_not_fit_says_what_differs() -> None:
    (outcome,) = run(ToolRunner([divide]), call("divide", '{"numbr": 1, "by": "two"}'))
    assert not outcome.ok
    assert not outcome.executed
    assert "missing field number (integer)" in outcome.content
    assert "unknown field numbr; did you mean number?" in outcome.content
    assert 'by must be integer, not string "two"' in outcome.content


def test_nested_differences_name_their_place() -> None:
    schema = {
        "type": "object",
        "properties": {
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "line": {"type": "integer"},
                        "mode": {"enum": ["add", "remove"]},
                    },
                    "required": ["line"],
                },
            }
        },
    }
    tool = Tool(name="edit", description="", parameters=schema, call=lambda **_: "ok")
    (outcome,) = run(ToolRunner([tool]), call("edit", {"edits": [{"mode": "ad"}]}))
    assert "missing field edits[0].line (integer)" in outcome.content
    assert "edits[0].mode must be one of" in outcome.content
    assert "did you mean 'add'?" in outcome.content


def test_a_field_the_function_does_not_know_is_found_without_a_strict_schema() -> None:
    written = {"name": "f", "parameters": {"type": "object", "properties": {}}, "call": divide}
    (outcome,) = run(ToolRunner([written]), call("f", {"numbre": 1}))
    assert "unknown field numbre; did you mean number?" in outcome.content


def test_nulls_of_strict_schemas_mean_left_out() -> None:
    runner = ToolRunner([plot])
    written = {"points": [{"x": 1, "y": None}], "title": None, "note": None}
    (outcome,) = run(runner, call("plot", written))
    assert outcome.content == "[Point(x=1, y=7)] untitled None"


def test_an_unknown_tool_names_the_nearest() -> None:
    (outcome,) = run(ToolRunner([divide]), call("divde", "{}"))
    assert "There is no tool divde." in outcome.content
    assert "Did you mean divide?" in outcome.content


def test_an_exception_is_one_line_and_its_traceback_is_kept() -> None:
    kept = working()
    (outcome,) = run(ToolRunner([divide], kept), call("divide", '{"number": 1, "by": 0}'))
    assert outcome.error == "ZeroDivisionError: division by zero"
    assert "Traceback" not in outcome.content
    assert outcome.result_id in outcome.content
    assert b"Traceback (most recent call last)" in kept.data(outcome.result_id)


def test_a_failed_call_is_not_executed_again_even_at_the_same_time() -> None:
    times = []

    def fail(n: int) -> None:
        times.append(n)
        raise ValueError("no")

    runner = ToolRunner([fail])
    first, second = run(runner, call("fail", '{"n": 1}', "a"), call("fail", '{ "n":1 }', "b"))
    (third,) = run(runner, call("fail", {"n": 1}, "c"))
    assert times == [1]
    assert [o.executed for o in (first, second, third)] == [True, False, False]
    assert "Not executed" in third.content
    assert "Change the arguments" in third.content
    (other,) = run(runner, call("fail", {"n": 2}))
    assert other.executed


def test_a_read_only_tool_is_asked_once() -> None:
    times = []

    def look(n: int) -> str:
        times.append(n)
        return f"saw {n}"

    runner = ToolRunner([as_tool(look, read_only=True)])
    outcomes = run(runner, call("look", '{"n": 1}'), call("look", '{"n": 1}', "c2"))
    assert [o.content for o in outcomes] == ["saw 1", "saw 1"]
    assert [o.call_id for o in outcomes] == ["c1", "c2"]
    assert times == [1]
    writer = ToolRunner([look])
    run(writer, call("look", '{"n": 1}'), call("look", '{"n": 1}'))
    assert times == [1, 1, 1]


def test_a_pure_tool_is_answered_from_what_an_earlier_turn_kept() -> None:
    times: list[int] = []

    def table(n: int, loud: bool = False) -> str:
        times.append(n)
        if n < 0:
            raise ValueError("negative")
        return "".join(f"{n} x {k} = {n * k}\n" for k in range(n))

    kept = working()
    tool = as_tool(table, pure=True)
    for n in (3, 300):
        (first,) = run(ToolRunner([tool], kept), call("table", {"n": n}))
        (again,) = run(ToolRunner([tool], kept), call("table", {"n": n}, "c2"))
        assert (first.executed, again.executed, again.ok) == (True, False, True)
        assert (again.result_id, again.content) == (first.result_id, first.content)
        assert again.message["tool_call_id"] == "c2"
    assert times == [3, 300]
    run(ToolRunner([tool], kept), call("table", {"n": 3, "loud": True}))
    run(ToolRunner([table], kept), call("table", {"n": 3}))
    for _ in range(2):
        run(ToolRunner([tool], kept), call("table", {"n": -1}))
    assert times == [3, 300, 3, 3, -1, -1], "other arguments, no pure tool, and failures run"
    other = WorkingMemory(kept._manager, scope=Scope(user_id="bob"), count=estimate_tokens)
    run(ToolRunner([tool], other), call("table", {"n": 3}))
    assert times[6:] == [3], "nobody is answered from another's results"
    kept.evict(max_bytes=0)
    run(ToolRunner([tool], kept), call("table", {"n": 300}))
    assert times[7:] == [300], "what was let go is asked again"


def test_what_is_pure_can_be_said_in_three_ways() -> None:
    def look(n: int) -> str:
        return f"saw {n}"

    assert not as_tool(look).pure
    assert as_tool(look, pure=True).pure
    written = {"type": "function", "function": {"name": "look"}, "call": look, "pure": True}
    assert as_tool(written).pure
    look.pure = True  # type: ignore[attr-defined]  # a mark on the function
    assert as_tool(look).pure
    assert not as_tool(look, pure=False).pure


def test_calls_run_at_the_same_time() -> None:
    barrier = threading.Barrier(3, timeout=10)

    def meet(n: int) -> str:
        barrier.wait()
        return f"met {n}"

    outcomes = run(ToolRunner([meet]), *(call("meet", {"n": n}) for n in range(3)))
    assert [o.content for o in outcomes] == ["met 0", "met 1", "met 2"]


def test_a_tool_that_is_late_is_left_behind() -> None:
    held = threading.Event()

    def hang() -> None:
        held.wait(30)

    async def hang_async() -> None:
        while True:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                if not held.is_set():
                    continue  # a tool that does not want to end
                raise

    async def story() -> tuple[ToolOutcome, ...]:
        runner = ToolRunner([hang, hang_async], timeout_seconds=0.05)
        outcomes = await runner.run([call("hang", "{}"), call("hang_async", "{}")])
        held.set()
        return outcomes

    for outcome in asyncio.run(story()):
        assert not outcome.ok
        assert "no answer within 0.05 seconds" in outcome.content


def test_cancelling_ends_the_run_at_once() -> None:
    held = threading.Event()
    cancelled = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def story() -> None:
        runner = ToolRunner([as_tool(slow), {"name": "block", "call": lambda: held.wait(30)}])
        work = asyncio.ensure_future(runner.run([call("slow", ""), call("block", "")]))
        await asyncio.sleep(0.05)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        await asyncio.sleep(0)

    try:
        asyncio.run(story())
    finally:
        held.set()
    assert cancelled == [True]


def test_what_tools_raise_never_comes_through() -> None:
    def leave() -> None:
        raise SystemExit(3)

    def stop() -> None:
        raise StopIteration

    async def give_up() -> None:
        raise asyncio.CancelledError

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def mute() -> None:
        raise Mute

    runner = ToolRunner([leave, stop, give_up, mute], working())
    names = ("leave", "stop", "give_up", "mute")
    outcomes = run(runner, *(call(name, "{}") for name in names))
    assert [o.ok for o in outcomes] == [False] * 4
    assert "tried to exit with 3" in outcomes[0].content


def test_a_store_that_fails_lets_the_output_pass_cut_to_the_limit() -> None:
    kept = working()

    def full(*_: object, **__: object) -> None:
        raise StoreFull("The disk is full.")

    kept._manager.store.put = full  # type: ignore[method-assign,assignment]  # a broken disk
    runner = ToolRunner([{"name": "big", "call": lambda: "word " * 50_000}, divide], kept, limit_tokens=200)  # fmt: skip
    big, small, failed = run(
        runner,
        call("big", ""),
        call("divide", {"number": 4}),
        call("divide", {"number": 4, "by": 0}),
    )
    assert big.ok
    assert big.content.startswith("word word")
    assert "250,000 characters in all" in big.content
    assert estimate_tokens(big.content) <= 200
    assert small.content == "2.0"
    assert failed.error == "ZeroDivisionError: division by zero"
    assert len(runner.degradations) == 3
    assert "The disk is full" in runner.degradations[0]


def test_without_a_memory_binary_outputs_are_named() -> None:
    runner = ToolRunner([{"name": "shot", "call": lambda: b"\x00\x01" * 40}])
    (outcome,) = run(runner, call("shot", None))
    assert outcome.content == "binary data (80 bytes): begins with " + (b"\x00\x01" * 8).hex(" ")


def test_reading_is_not_stored_again() -> None:
    kept = working()
    result = kept.keep("grep", {}, "a line of text\n" * 500)
    runner = ToolRunner(kept.tools(), kept)
    (outcome,) = run(runner, call("memory_read", {"id": result.id, "lines": "1-30"}))
    assert outcome.content.count("a line of text") == 30
    assert outcome.result_id == ""
    (strict,) = run(runner, call("memory_read", {"id": result.id, "lines": "2", "grep": None, "offset": None}))  # fmt: skip
    assert strict.ok
    assert "a line of text" in strict.content
    (wrong,) = run(runner, call("memory_read", {"id": result.id, "line": "2"}))
    assert "did you mean lines?" in wrong.content


def test_tools_that_yield_give_all_they_yield() -> None:
    def count_up(n: int) -> Any:
        yield from (f"{k}\n" for k in range(n))

    async def count_down(n: int) -> Any:
        for k in range(n, 0, -1):
            yield {"k": k}

    runner = ToolRunner([count_up, count_down])
    up, down = run(runner, call("count_up", {"n": 3}), call("count_down", {"n": 2}))
    assert up.content == "0\n1\n2\n"
    assert down.content == '[{"k": 2}, {"k": 1}]'


def test_sdk_objects_and_odd_calls_are_read() -> None:
    sdk = SimpleNamespace(
        id="x", type="function", function=SimpleNamespace(name="divide", arguments='{"number": 2}')
    )
    response = {
        "type": "function_call",
        "call_id": "y",
        "name": "divide",
        "arguments": {"number": 2},
    }
    outcomes = run(ToolRunner([divide]), sdk, response, {}, None)
    assert [o.call_id for o in outcomes] == ["x", "y", "call_3", "call_4"]
    assert [o.ok for o in outcomes] == [True, True, False, False]
    assert asyncio.run(ToolRunner([divide]).run(None)) == ()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("", {}),
        (None, {}),
        ("null", {}),
        ('{"a": 1}', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1,}', {"a": 1}),
        ("{'a': True, 'b': None}", {"a": True, "b": None}),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ({"a": 1}, {"a": 1}),
    ],
)
def test_arguments_are_read_as_they_were_meant(written: Any, meant: Mapping[str, Any]) -> None:
    assert read_arguments(written) == (meant, "")


@pytest.mark.parametrize("broken", ['{"a": ', "[1]", "3", '"text"', "{a: 1}", "[" * 100_000, 7])
def test_broken_arguments_are_named(broken: Any) -> None:
    arguments, problem = read_arguments(broken)
    assert arguments == {}
    assert "the arguments" in problem
    (outcome,) = run(ToolRunner([divide]), call("divide", broken))
    assert not outcome.executed
    assert "Send one JSON object with the fields: number, by." in outcome.content


def test_a_schema_that_leads_nowhere_forbids_nothing() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "https://nowhere.example/x.json"}}}
    tool = Tool(name="t", description="", parameters=schema, call=lambda a: a)
    (outcome,) = run(ToolRunner([tool]), call("t", {"a": "x"}))
    assert outcome.content == "x"


def test_definitions_are_what_a_provider_takes() -> None:
    runner = ToolRunner([divide, *working().tools(save=True)])
    names = [d["function"]["name"] for d in runner.definitions()]
    assert names == ["divide", "memory_read", "memory_search", "memory_save"]
    json.dumps(runner.definitions(strict=True))
    with pytest.raises(InvalidInput):
        ToolRunner([divide, divide])


def test_values_that_hints_refuse_are_told_by_field() -> None:
    def on(day: date) -> str:
        return day.isoformat()

    (outcome,) = run(ToolRunner([on]), call("on", {"day": "someday"}))
    assert not outcome.ok
    assert "day: Input should be a valid date" in outcome.error


def test_a_failed_call_is_answered_with_a_wrong_and_a_right_example() -> None:
    def book(day: str, people: int, table: Literal["inside", "outside"] = "inside") -> str:
        """Book a table.

        Args:
            day: When.
            people: How many.
            table: Where.
        """
        return "booked"

    async def asked(arguments: str) -> str:
        call = {"id": "1", "function": {"name": "book", "arguments": arguments}}
        (outcome,) = await ToolRunner([book]).run([call])
        return outcome.content

    said = asyncio.run(asked('{"day": "Monday", "people": "four", "table": "roof"}'))
    assert 'Wrong: {"day": "Monday", "people": "four", "table": "roof"}' in said
    right = json.loads(said.split("Right: ")[1].splitlines()[0])
    assert right == {"day": "Monday", "people": 10, "table": "inside"}
    assert asyncio.run(asked(json.dumps(right))) == "booked"
    broken = asyncio.run(asked('{"day": "Mon'))
    assert "Wrong: " in broken
    assert 'Right: {"day": "<day>", "people": 10}' in broken
