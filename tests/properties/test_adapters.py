"""Wrapping a callable changes nothing but the one inserted pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.agent.adapters.replies import Gathering, read_reply, splice, view_responses
from agentmem.agent.adapters.turn import wrap
from agentmem.prompt.messages import inject
from tests.noted_memory import BLOCK, NotedMemory, references
from tests.properties.conversations import conversations
from tests.properties.strategies import texts

OPTIONS = st.dictionaries(
    st.sampled_from(("model", "temperature", "tools", "user", "metadata", "extra_headers", "n")),
    texts(max_size=8) | st.integers() | st.none() | st.just({"user_id": "ann"}) | st.just(["x"]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ("choices", "message", "delta", "content", "text", "usage", "output", "type", "index",
             "prompt_tokens", "input_tokens", "tool_calls", "refusal", "response", "item")
        ),
        inner | st.sampled_from(("message", "output_text", "response.completed", "function_call")),
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip

OTHER_ITEMS: tuple[dict[str, Any], ...] = (
    {"type": "reasoning", "id": "r", "summary": []},
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c", "output": "done"},
    {"type": "item_reference", "id": "m"},
)


def recorder(
    result: object,
) -> tuple[Callable[..., Any], list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def chat(*args: Any, **options: Any) -> object:
        calls.append((args, options))
        return result

    return chat, calls


@given(conversations(), OPTIONS, st.booleans())
def test_a_wrapped_callable_gets_its_arguments_and_one_pair(
    messages: list[dict[str, Any]], options: dict[str, Any], by_position: bool
) -> None:
    """A1 Transparent wrapper. For any messages and options the callable gets the same arguments, its own message objects in their order, and gives back the same object; at most the one reference pair is added, before the last user message."""
    result = object()
    chat, calls = recorder(result)
    before = [dict(message) for message in messages]
    by_position = by_position and bool(messages)
    args, named = ((messages,), {}) if by_position else ((), {"messages": messages})
    answer = wrap(NotedMemory(), chat)(*args, **named, **options)
    ((got_args, got),) = calls
    sent = got_args[0] if by_position else got.pop("messages")
    assert answer is result
    assert got == options
    assert messages == before
    added = [m for m in sent if not any(m is mine for mine in messages)]
    assert [m for m in sent if any(m is mine for mine in messages)] == messages
    assert len(added) in (0, 2)
    if added:
        place = next(at for at, m in enumerate(sent) if m is added[0])
        assert all(one is other for one, other in zip(sent[:place], messages, strict=False))
        assert sent == inject(messages, BLOCK)


@given(st.lists(texts(max_size=6), max_size=8), st.integers(0, 9), st.booleans())
def test_a_watched_stream_gives_the_same_chunks(pieces: list[str], stop: int, close: bool) -> None:
    """A2 Same chunks. A stream through the wrapper yields the caller's chunks, object by object, as they come; ended, closed early or dropped, the words so far become the answer, once."""
    chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
    memory = NotedMemory()
    stream = wrap(memory, lambda messages: iter(chunks))([{"role": "user", "content": "q"}])
    seen: list[Any] = []
    for _ in range(stop):
        chunk = next(stream, None)
        if chunk is None:
            break
        seen.append(chunk)
    if close:
        del stream
    else:
        seen += list(stream)
    assert all(one is other for one, other in zip(seen, chunks, strict=False))
    assert close or len(seen) == len(chunks)
    assert memory.only.end["answer"] == "".join(pieces[: len(seen)])


@st.composite
def items(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Input items of the responses API: messages, calls, results and things we do not read."""
    message = st.builds(
        lambda role, text: {"role": role, "content": text},
        st.sampled_from(("user", "assistant", "developer")),
        texts(max_size=8),
    )
    other: st.SearchStrategy[dict[str, Any]] = st.sampled_from(OTHER_ITEMS).map(lambda i: {**i})
    return draw(st.lists(message | other, max_size=8))


@given(items())
def test_the_pair_goes_among_the_callers_items(mine: list[dict[str, Any]]) -> None:
    """A3 Items kept. In a list of response items, whatever they are, every item of the caller stays the same object in its place and the pair stands directly before the last user message."""
    view = view_responses(mine)
    sent = splice(view, inject(view.messages, BLOCK))
    assert sent is not None
    kept = [item for item in sent if any(item is own for own in mine)]
    assert len(kept) == len(mine)
    assert all(one is other for one, other in zip(kept, mine, strict=True))
    asked = [item for item in mine if item.get("role") == "user"]
    assert references([i for i in sent if "role" in i]) == bool(asked)


@given(conversations(), st.integers(1, 4), st.booleans())
def test_however_often_wrapped_there_is_one_reference_and_one_turn(
    messages: list[dict[str, Any]], times: int, knows: bool
) -> None:
    """A4 One turn. However many wrappers stand around a callable, of one memory or of several, a call opens one turn and carries at most one reference."""
    chat, calls = recorder({"choices": [{"message": {"content": "yes"}}]})
    memories = [NotedMemory(knows=knows) for _ in range(times)]
    wrapped: Callable[..., Any] = chat
    for memory in memories:
        wrapped = wrap(memory, wrapped)
    wrapped(messages=messages)
    assert sum(len(memory.turns) for memory in memories) == 1
    assert memories[-1].only.end["answer"] == "yes"
    ours = references(messages)
    assert references(calls[0][1]["messages"]) <= max(1, ours)


@given(JSON, st.lists(JSON, max_size=5))
def test_any_reply_can_be_read(whole: Any, chunks: list[Any]) -> None:
    """A5 Any reply. Whatever a provider sends as a response or as chunks of one, reading it gives a text and counts or nothing, and never raises."""
    reply = read_reply(whole)
    assert isinstance(reply.text, str)
    assert reply.usage is None or all(isinstance(n, int) for n in reply.usage.values())
    gathering = Gathering()
    for chunk in chunks:
        gathering.add(chunk)
    assert isinstance(gathering.reply().text, str)


@given(conversations(), st.sampled_from(("turn", "done")), st.booleans())
def test_a_broken_memory_leaves_the_answer_alone(
    messages: list[dict[str, Any]], breaks: str, fails: bool
) -> None:
    """A6 Fail open. When memory raises at any step the callable is called with the caller's messages, its answer or its exception comes back unchanged, and a degradation is recorded."""
    error = ValueError("the model is gone")
    result = {"choices": [{"message": {"content": "yes"}}]}
    sent: list[Any] = []

    def chat(messages: Any) -> object:
        sent.append(messages)
        if fails:
            raise error
        return result

    wrapped: Any = wrap(NotedMemory(breaks=breaks), chat)
    if fails:
        with pytest.raises(ValueError, match="gone") as raised:
            wrapped(messages)
        assert raised.value is error
    else:
        assert wrapped(messages) is result
    assert [m for m in sent[0] if any(m is mine for mine in messages)] == messages
    assert breaks != "turn" or sent[0] is messages
    assert wrapped.degradations
