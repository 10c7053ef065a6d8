"""What the adapters of all frameworks stand on: whose memory, and what is told of a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import agentmem
from agentmem.agent.adapters.replies import Reply, view_chat, view_items
from agentmem.agent.adapters.turn import OpenTurn, TurnKeeper
from agentmem.base.errors import NamelessCaller
from agentmem.base.types import Scope
from agentmem.testing import HashEmbedder
from tests.noted_memory import NotedMemory

ASK: list[Any] = [{"role": "user", "content": "When does it close?"}]


def opened(memory: Any, **options: Any) -> OpenTurn:
    turn = TurnKeeper(memory, **options).open(ASK, view_chat)
    assert turn is not None
    return turn


@pytest.mark.parametrize(
    ("scope", "said", "expected"),
    [
        (None, {"names": ["ann", "t1"]}, "ann"),
        (None, {"names": [None, "", 7, "t1"]}, "t1"),
        (None, {"names": [], "named": {"user": "eve"}}, "eve"),
        (None, {}, None),
        ("bob", {"names": ["ann"]}, "bob"),
        (lambda context: context["who"], {"context": {"who": "kim"}, "names": ["ann"]}, "kim"),
        (lambda context: None, {"names": ["ann"]}, "ann"),
    ],
)
def test_the_first_name_that_is_one_says_whose_memory_it_is(
    scope: Any, said: dict[str, Any], expected: str | None
) -> None:
    memory = NotedMemory()
    TurnKeeper(memory, scope=scope).open(ASK, view_chat, **said)
    assert memory.only.options["scope"] == Scope(user_id=expected)


def test_a_scope_that_cannot_be_read_leaves_memory_out() -> None:
    memory = NotedMemory()
    keeper = TurnKeeper(memory, scope=lambda context: context["who"])
    sent: list[Any] = []
    assert keeper.call(ASK, sent.append, view_chat, context={}) is None
    assert sent == [ASK]
    assert not memory.turns
    assert keeper.degradations


def test_a_strict_memory_serves_nobody_without_a_name(caplog: pytest.LogCaptureFixture) -> None:
    with agentmem.open(":memory:", embedder=HashEmbedder(), strict_scope=True) as memory:
        keeper = TurnKeeper(memory)
        with pytest.raises(NamelessCaller, match="strict_scope"):
            keeper.open(ASK, view_chat)
        assert keeper.open(ASK, view_chat, names=["ann"]) is not None
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        caplog.set_level(logging.WARNING)
        assert TurnKeeper(memory).open(ASK, view_chat) is not None
        assert "names no user" in caplog.text


def test_a_turn_ends_with_its_task_when_no_hook_is_told_of_the_failure() -> None:
    memory = NotedMemory()

    async def main() -> None:
        turn = await TurnKeeper(memory).aopen(ASK, view_chat)
        assert turn is not None
        turn.end_with_task()
        raise TimeoutError("slow")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert memory.only.end == {"answer": "", "usage": None, "error": "TimeoutError: slow"}


def test_an_answer_that_came_is_kept_when_the_task_ends() -> None:
    memory = NotedMemory()

    async def main() -> None:
        turn = await TurnKeeper(memory).aopen(ASK, view_chat)
        assert turn is not None
        turn.end_with_task()
        turn.finish(Reply(text="At nine."))

    asyncio.run(main())
    assert memory.only.end["answer"] == "At nine."


def test_a_call_that_is_cancelled_is_cancelled_and_its_question_kept() -> None:
    memory = NotedMemory()

    async def main() -> None:
        begun = asyncio.Event()

        async def ask(messages: Any) -> None:
            begun.set()
            await asyncio.Event().wait()

        call = asyncio.create_task(TurnKeeper(memory).acall(ASK, ask, view_chat))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert memory.only.end["error"].startswith("CancelledError")


def test_what_is_no_message_stays_where_it_is() -> None:
    items = ["mark", ASK[0], "end"]
    memory = NotedMemory()
    turn = TurnKeeper(memory).open(
        items, lambda given: view_items(given, lambda i: i if isinstance(i, dict) else None, str)
    )
    assert turn is not None
    assert [item for item in turn.sent if item in items] == items
    assert [type(item) for item in turn.sent] == [str, str, str, dict, str]


def test_a_degradation_is_an_event_of_the_applications_span() -> None:
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    provider = trace.TracerProvider()
    with provider.get_tracer("app").start_as_current_span("request") as span:
        TurnKeeper(NotedMemory(breaks="turn")).open(ASK, view_chat)
    (event,) = span.events
    assert event.name == "agentmem.degraded"
    assert dict(event.attributes) == {
        "agentmem.problem": "memory was left out of this call",
        "error.type": "OSError",
    }
    provider.shutdown()
