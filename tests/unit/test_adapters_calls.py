"""Memory around callables: worked examples of every shape, and what must not be lost."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from agentmem.agent.adapters import turn as turns
from agentmem.agent.adapters.replies import read_reply, read_usage
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Scope
from agentmem.testing import ScriptedModel
from tests.noted_memory import KNOWN, NotedMemory, references

ASK = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "When does it close?"},
]


def wrap(memory: Any, fn: Any, **options: Any) -> Any:
    """`wrap` without types: a checker knows nothing of the two more keywords."""
    return turns.wrap(memory, fn, **options)


def chunk(text: str | None, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": {"content": text, **more}}]}


def test_the_reference_stands_before_the_question_and_the_answer_is_kept() -> None:
    memory = NotedMemory()
    model = ScriptedModel("At nine.")
    answer = wrap(memory, model)(messages=ASK, model="gpt-4o")
    sent = model.requests[0]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "user"]
    assert sent[0] is ASK[0]
    assert sent[-1] is ASK[1]
    assert KNOWN in sent[2]["content"]
    assert memory.only.end["answer"] == answer["choices"][0]["message"]["content"] == "At nine."
    assert memory.only.end["usage"] == answer["usage"]
    assert memory.only.options["model"] == "gpt-4o"


def test_the_callers_own_list_is_sent_when_memory_has_nothing() -> None:
    sent: list[Any] = []
    wrap(NotedMemory(knows=False), sent.append)(ASK)
    assert sent[0] is ASK


def test_an_iterator_of_messages_is_read_once_and_sent_whole() -> None:
    for breaks in ("", "turn"):
        model = ScriptedModel("yes")
        wrap(NotedMemory(breaks=breaks), model)(messages=iter(ASK))
        sent = model.requests[0]["messages"]
        assert [m for m in sent if m in ASK] == ASK


def test_messages_of_a_client_library_stay_the_objects_they_are() -> None:
    class Said:
        role = "assistant"

        def model_dump(self, **_: Any) -> dict[str, Any]:
            return {"role": "assistant", "content": "Hello."}

    said = Said()
    memory = NotedMemory()
    sent = wrap(memory, lambda messages: messages)(
        [{"role": "user", "content": "Hi"}, said, ASK[1]]
    )
    assert len(sent) == 5
    assert sent[1] is said
    assert memory.only.asked[1]["content"] == "Hello."


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("ann", Scope(user_id="ann")),
        ({"user_id": "ann", "project_id": "x"}, Scope(user_id="ann", project_id="x")),
        (Scope(run_id="7"), Scope(run_id="7")),
        (None, Scope()),
    ],
)
def test_the_scope_is_said_per_call(scope: Any, expected: Scope) -> None:
    memory = NotedMemory()
    wrap(memory, ScriptedModel())(messages=ASK, memory_scope=scope)
    assert memory.only.options["scope"] == expected


def test_a_request_that_names_its_user_uses_that_users_memory() -> None:
    memory = NotedMemory()
    ask = wrap(memory, ScriptedModel())
    ask(messages=ASK, user="ann")
    ask(messages=ASK, user="ann", metadata={"user_id": "bob"})
    ask(messages=ASK, user="ann", memory_scope="eve")
    wrap(memory, ScriptedModel(), scope="zoe")(messages=ASK, user="ann")
    assert [t.options["scope"].user_id for t in memory.turns] == ["ann", "bob", "eve", "zoe"]


@pytest.mark.parametrize("scope", ["", 5, {"userid": "ann"}, {"user_id": ""}, ["ann"], "\ud800"])
def test_a_scope_that_cannot_be_used_means_no_memory_rather_than_anothers(scope: Any) -> None:
    memory = NotedMemory()
    model = ScriptedModel("yes")
    ask = wrap(memory, model)
    assert ask(messages=ASK, memory_scope=scope)["choices"][0]["message"]["content"] == "yes"
    assert not memory.turns
    assert model.requests[0]["messages"] == ASK
    assert "InvalidScope" in ask.degradations[-1] or "InvalidText" in ask.degradations[-1]


def test_memory_off_reaches_neither_memory_nor_the_model() -> None:
    memory = NotedMemory()
    model = ScriptedModel()
    wrap(NotedMemory(), wrap(memory, model))(messages=ASK, memory_off=True)
    assert model.requests == [{"messages": ASK}]
    assert not memory.turns


def test_a_call_without_messages_passes_and_is_noted() -> None:
    ask = wrap(NotedMemory(), lambda prompt: prompt.upper())
    assert ask("hi") == "HI"
    assert "without messages" in ask.degradations[0]


@pytest.mark.parametrize(
    "messages", [None, "hi", 5, [], [{"role": "pirate"}], [None], {"role": "user"}]
)
def test_messages_nobody_could_send_reach_the_callable_as_they_are(messages: Any) -> None:
    sent: list[Any] = []
    wrap(NotedMemory(), sent.append)(messages)
    assert sent == [messages]


def test_only_callables_are_wrapped() -> None:
    with pytest.raises(InvalidInput, match="fn cannot be called"):
        wrap(NotedMemory(), "litellm.completion")


def test_the_signature_is_the_callables_own_with_two_more_keywords() -> None:
    def chat(model: str, messages: list[Any], *, n: int = 1, **more: Any) -> int:
        """Ask."""
        return n

    wrapped = wrap(NotedMemory(), chat)
    names = list(inspect.signature(wrapped).parameters)
    assert names == ["model", "messages", "n", "memory_scope", "memory_off", "more"]
    assert (wrapped.__name__, wrapped.__doc__) == ("chat", "Ask.")
    assert inspect.signature(wrapped).return_annotation == "int"
    assert list(inspect.signature(wrap(NotedMemory(), wrapped)).parameters) == names


def test_messages_are_found_by_position_in_a_partial_and_under_another_name() -> None:
    def chat(model: str, messages: list[Any]) -> list[Any]:
        return messages

    memory = NotedMemory()
    assert references(wrap(memory, chat)("m", ASK)) == 1
    assert references(wrap(memory, functools.partial(chat, "m"))(ASK)) == 1
    assert references(wrap(memory, functools.partial(chat, model="m"))(messages=ASK)) == 1
    assert references(wrap(memory, lambda history: history)(ASK)) == 1
    assert references(wrap(memory, lambda **options: options["history"])(history=ASK)) == 1
    assert [t.options["model"] for t in memory.turns] == ["m", "", "", "", ""]


def test_wrapping_twice_gives_the_same_function() -> None:
    memory = NotedMemory()
    once = wrap(memory, ScriptedModel())
    assert wrap(memory, once) is once


def test_a_hand_built_turn_is_not_built_again() -> None:
    memory = NotedMemory()
    model = ScriptedModel()
    wrap(memory, model)(messages=memory.turn(ASK).messages)
    assert len(memory.turns) == 1
    assert references(model.requests[0]["messages"]) == 1


def test_a_question_inside_the_callable_is_a_turn_of_its_own() -> None:
    memory = NotedMemory()
    inner = wrap(memory, ScriptedModel("inner"))

    def agent(messages: list[Any]) -> Any:
        return inner(messages=[{"role": "user", "content": "another question"}])

    wrap(memory, agent)(ASK)
    assert [t.asked[-1]["content"] for t in memory.turns] == [ASK[1]["content"], "another question"]


def test_the_callables_exception_comes_through_and_the_turn_is_ended() -> None:
    memory = NotedMemory()
    error = ConnectionError("down")
    with pytest.raises(ConnectionError) as raised:
        wrap(memory, ScriptedModel(error))(messages=ASK)
    assert raised.value is error
    assert memory.only.end == {"answer": "", "usage": None, "error": "ConnectionError: down"}


def test_an_async_callable_stays_one() -> None:
    async def chat(messages: list[Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"choices": [{"message": {"content": "yes"}}]}

    memory = NotedMemory()
    wrapped = wrap(memory, chat)
    assert inspect.iscoroutinefunction(wrapped)
    asyncio.run(wrapped(ASK))
    assert memory.only.end["answer"] == "yes"


def test_what_only_turns_out_to_be_async_is_awaited() -> None:
    async def answer(messages: list[Any]) -> str:
        if not messages:
            raise ValueError
        return "yes"

    memory = NotedMemory()
    wrapped = wrap(memory, lambda messages: answer([*messages]))
    assert asyncio.run(wrapped(ASK)) == "yes"
    assert memory.only.end["answer"] == "yes"


def test_a_cancelled_call_keeps_what_the_user_said() -> None:
    memory = NotedMemory()

    async def chat(messages: list[Any]) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        task = asyncio.create_task(wrap(memory, chat)(ASK))
        while not memory.turns:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert memory.only.end["error"].startswith("CancelledError")


def test_an_async_generator_function_streams() -> None:
    async def chat(messages: list[Any]) -> AsyncIterator[Any]:
        for text in ("At ", "nine."):
            yield chunk(text)

    memory = NotedMemory()
    wrapped = wrap(memory, chat)
    assert inspect.isasyncgenfunction(wrapped)

    async def main() -> list[Any]:
        return [c async for c in wrapped(ASK)]

    assert len(asyncio.run(main())) == 2
    assert memory.only.end["answer"] == "At nine."


class OwnStream:
    """A stream as client libraries have them."""

    def __init__(self, *pieces: str | Exception) -> None:
        self._pieces = iter(pieces)
        self.response = SimpleNamespace(status=200)
        self.closed = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        piece = next(self._pieces)
        if isinstance(piece, Exception):
            raise piece
        return chunk(piece)

    def __enter__(self) -> OwnStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1


def test_a_stream_passes_for_what_it_is() -> None:
    mine: Any = OwnStream("At ", "nine.")
    stream: Any = wrap(NotedMemory(), lambda messages: mine)(ASK)
    passes = isinstance(stream, OwnStream)
    assert passes
    assert stream.response is mine.response
    assert repr(stream) == repr(mine)
    assert not hasattr(stream, "__anext__")
    stream.label = "x"
    assert mine.label == "x"
    with stream as entered:
        assert entered is stream
        assert len(list(entered)) == 2
    assert mine.closed == 1


def test_a_stream_closed_early_keeps_what_came() -> None:
    for how in ("close", "with", "drop", "collect"):
        memory = NotedMemory()
        stream = wrap(memory, lambda messages: OwnStream("At ", "nine."))(ASK)
        if how == "with":
            with stream:
                next(stream)
        else:
            next(stream)
        if how == "close":
            stream.close()
        elif how == "collect":
            stream.itself = [stream]
        del stream
        if how == "collect":
            gc.collect()
            while not memory.only.ends:
                threading.Event().wait(0.001)
        assert memory.only.end["answer"] == "At ", how


def test_a_stream_that_breaks_raises_and_keeps_what_came() -> None:
    memory = NotedMemory()
    error = OSError("gone")
    stream = wrap(memory, lambda messages: OwnStream("At ", error))(ASK)
    with pytest.raises(OSError, match="gone") as raised:
        list(stream)
    assert raised.value is error
    assert memory.only.end == {"answer": "At ", "usage": None, "error": "OSError: gone"}


def test_an_iterable_that_is_no_iterator_can_be_gone_through_twice() -> None:
    class Pieces:
        def __iter__(self) -> Iterator[Any]:
            return iter([chunk("At "), chunk("nine.")])

    memory = NotedMemory()
    stream = wrap(memory, lambda messages: Pieces())(ASK)
    assert [len(list(stream)), len(list(stream))] == [2, 2]
    assert memory.only.end["answer"] == "At nine."


def test_a_list_of_chunks_is_read_and_given_back() -> None:
    memory = NotedMemory()
    chunks = [chunk("At "), chunk("nine.")]
    assert wrap(memory, lambda messages: chunks)(ASK) is chunks
    assert memory.only.end["answer"] == "At nine."


def test_a_generator_that_asks_a_wrapped_callable_is_one_turn() -> None:
    memory = NotedMemory(knows=False)
    inner = wrap(memory, lambda messages: iter([chunk("yes")]))

    def chat(messages: list[Any]) -> Iterator[Any]:
        yield from inner(messages)

    assert len(list(wrap(memory, chat)(ASK))) == 1
    assert memory.only.end["answer"] == "yes"


def test_of_several_choices_the_first_is_the_answer() -> None:
    memory = NotedMemory()
    stream = wrap(memory, lambda messages: iter([chunk("yes"), chunk("NO", index=1)]))(ASK)
    list(stream)
    assert memory.only.end["answer"] == "yes"
    two = {"choices": [{"message": {"content": "a"}}, {"message": {"content": "b"}}]}
    assert read_reply(two).text == "a"


def test_tool_calls_come_through_whole() -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
    memory = NotedMemory()
    model = ScriptedModel({"role": "assistant", "content": None, "tool_calls": calls}, "done")
    ask = wrap(memory, model)
    first = ask(messages=ASK, tools=[{"type": "function"}])
    said = first["choices"][0]["message"]
    assert said["tool_calls"] == calls
    assert memory.only.options["tools"] == [{"type": "function"}]
    step = [*ASK, said, {"role": "tool", "tool_call_id": "c1", "content": "42"}]
    ask(messages=step)
    sent = model.requests[1]["messages"]
    assert sent[4:] == step[2:]
    assert sent[:4] == model.requests[0]["messages"]
    assert [t.end["answer"] for t in memory.turns] == ["", "done"]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="a"))]), "a"),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "a"}, "b"]}}]}, "ab"),
        ({"choices": [{"message": {"content": None, "refusal": "No."}}]}, "No."),
        ({"choices": [{"text": "older"}]}, "older"),
        ({"choices": []}, ""),
        ({"output": [{"type": "reasoning"}, {"type": "message", "content": [{"type": "output_text", "text": "r"}]}]}, "r"),
        ({"content": [{"type": "text", "text": "claude"}], "usage": {"input_tokens": 1}}, "claude"),
        ("plain", "plain"),
        (None, ""),
        (object(), ""),
    ],
)  # fmt: skip
def test_answers_are_read_in_every_shape(response: Any, text: str) -> None:
    assert read_reply(response).text == text


def test_token_counts_have_one_set_of_names() -> None:
    assert read_usage({"input_tokens": 5, "output_tokens": 2}) == {
        "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7,
    }  # fmt: skip
    assert read_usage(SimpleNamespace(prompt_tokens=5, completion_tokens=True)) == {
        "prompt_tokens": 5
    }
    assert read_usage({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}) is None
    assert read_usage({"prompt_tokens": -1}) is None
    assert read_usage(None) is None


def test_twenty_calls_at_once_stay_apart() -> None:
    memory = NotedMemory()

    def chat(messages: list[Any]) -> dict[str, Any]:
        return {"choices": [{"message": {"content": messages[-1]["content"].upper()}}]}

    async def achat(messages: list[Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return chat(messages)

    questions = [f"question {n}" for n in range(20)]
    asked = [[{"role": "user", "content": q}] for q in questions]
    ask = wrap(memory, chat)
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, asked))

    async def main() -> None:
        aask = wrap(memory, achat)
        await asyncio.gather(*map(aask, asked))

    asyncio.run(main())
    assert len(memory.turns) == 40
    for turn in memory.turns:
        assert turn.end["answer"] == turn.asked[-1]["content"].upper()


def test_whoever_asks_is_shown_each_turn_and_cannot_break_it() -> None:
    seen: list[Any] = []
    memory = NotedMemory()
    wrap(memory, ScriptedModel(), on_turn=seen.append)(messages=ASK)
    assert seen == memory.turns
    failing = wrap(memory, ScriptedModel("yes"), on_turn=lambda turn: 1 / 0)
    assert failing(messages=ASK)["choices"][0]["message"]["content"] == "yes"
    assert "ZeroDivisionError" in failing.degradations[-1]
