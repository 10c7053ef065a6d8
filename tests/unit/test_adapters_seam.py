"""What the adapters of all frameworks stand on: whose memory, and what is told of a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import agentmem
from agentmem.agent.adapters.replies import Reply, as_chat, view_chat, view_items
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


class TooLong(Exception):
    """What a provider raises for a request that its window cannot hold."""

    code = "context_length_exceeded"
    status_code = 400


@pytest.mark.parametrize("knows", [True, False])
def test_a_request_that_is_refused_as_too_long_goes_again_without_memory(knows: bool) -> None:
    memory = NotedMemory(knows=knows)
    keeper = TurnKeeper(memory)
    sent: list[Any] = []

    def ask(messages: Any) -> dict[str, Any]:
        sent.append(messages)
        if len(sent) == 1:
            raise TooLong("maximum context length is 10 tokens")
        return {"choices": [{"message": {"role": "assistant", "content": "At nine."}}]}

    async def aask(messages: Any) -> dict[str, Any]:
        return ask(messages)

    if not knows:  # there is nothing to leave out: it is the caller's own to be refused
        with pytest.raises(TooLong):
            keeper.call(ASK, ask, view_chat)
        return
    keeper.call(ASK, ask, view_chat)
    assert [len(messages) for messages in sent] == [3, 1]
    sent.clear()
    asyncio.run(keeper.acall(ASK, aask, view_chat))
    assert [len(messages) for messages in sent] == [3, 1]
    assert [turn.end["answer"] for turn in memory.turns] == ["At nine."] * 2
    assert any("too long" in one for one in keeper.degradations)


def _read(chunk: str) -> Reply:
    return Reply(text=chunk, usage={"prompt_tokens": 9} if chunk == "nine." else None)


def test_a_stream_gives_its_chunks_and_its_words_are_the_answer() -> None:
    memory = NotedMemory()
    keeper = TurnKeeper(memory)

    async def chunks(messages: Any) -> Any:
        for chunk in ("At ", "nine."):
            yield chunk

    async def main() -> list[str]:
        return [chunk async for chunk in keeper.astream(ASK, chunks, view_chat, read=_read)]

    plain = keeper.stream(ASK, lambda messages: iter(["At ", "nine."]), view_chat, read=_read)
    assert list(plain) == asyncio.run(main()) == ["At ", "nine."]
    assert [turn.end for turn in memory.turns] == [
        {"answer": "At nine.", "usage": {"prompt_tokens": 9}, "error": ""}
    ] * 2


def test_a_stream_that_is_left_or_breaks_keeps_what_came() -> None:
    memory = NotedMemory()
    keeper = TurnKeeper(memory)

    def breaking(messages: Any) -> Any:
        yield "At "
        raise TimeoutError("slow")

    left: Any = keeper.stream(ASK, breaking, view_chat, read=_read)
    assert next(left) == "At "
    left.close()
    with pytest.raises(TimeoutError):
        list(keeper.stream(ASK, breaking, view_chat, read=_read))
    assert [turn.end["answer"] for turn in memory.turns] == ["At "] * 2
    assert memory.turns[1].end["error"] == "TimeoutError: slow"


@pytest.mark.parametrize("breaks", ["turn", ""])
def test_without_anything_to_add_the_very_messages_are_sent(breaks: str) -> None:
    keeper = TurnKeeper(NotedMemory(knows=False, breaks=breaks))
    sent: list[Any] = []
    keeper.call(ASK, sent.append, view_chat)
    assert sent[0] is ASK
    said = list(keeper.stream(ASK, lambda messages: [messages], view_chat, read=_read))
    assert said[0] is ASK


def test_what_memory_added_is_known_from_what_was_there() -> None:
    turn = opened(NotedMemory())
    assert len(turn.added) == 2
    assert [one for one in turn.sent if one not in turn.added] == ASK
    assert opened(NotedMemory(knows=False)).added == []


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (as_chat("user", "hi"), {"role": "user", "content": "hi"}),
        (
            as_chat("assistant", None, calls=[("c", "f", {"a": 1})]),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": "{'a': 1}"},
                    }
                ],
            },
        ),
        (
            as_chat("tool", "nine", answers="c"),
            {"role": "tool", "content": "nine", "tool_call_id": "c"},
        ),
    ],
)
def test_a_frameworks_message_becomes_one_of_chat_completions(
    message: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert message == expected
