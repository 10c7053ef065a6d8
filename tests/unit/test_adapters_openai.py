"""Memory inside OpenAI clients, against a strict server on loopback."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import openai
import pydantic
import pytest

from agentmem.agent.adapters.clients import wrap_openai
from agentmem.agent.adapters.turn import wrap
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Scope
from agentmem.prompt.messages import is_reference, is_stub
from tests.noted_memory import NotedMemory, references
from tests.servers.chat import Calls, ChatServer, Fault

ASK: list[Any] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "When does it close?"},
]
HELLO = "At nine o'clock."
CHAT: dict[str, Any] = {"model": "gpt-4o", "messages": ASK}
RESPONSE: dict[str, Any] = {
    "model": "gpt-4o",
    "input": "When does it close?",
    "instructions": "Be kind.",
}


class Hour(pydantic.BaseModel):
    hour: int


@pytest.fixture
def memory() -> NotedMemory:
    return NotedMemory()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(HELLO, roles="anthropic") as server:
        yield server
        assert not server.refusals


@pytest.fixture
def client(server: ChatServer) -> Iterator[Any]:
    with connect(server.url) as client:
        yield client


def connect(url: str, **options: Any) -> Any:
    """A client that loads no certificates: it only talks to loopback."""
    http = openai.DefaultHttpxClient(verify=False, trust_env=False)
    return openai.OpenAI(
        **{
            "base_url": url,
            "api_key": "sk-secret",
            "max_retries": 0,
            "http_client": http,
            **options,
        }
    )


@asynccontextmanager
async def async_client(server: ChatServer) -> AsyncIterator[Any]:
    http = openai.DefaultAsyncHttpxClient(verify=False, trust_env=False)
    async with openai.AsyncOpenAI(
        base_url=server.url, api_key="k", max_retries=0, http_client=http
    ) as client:
        yield client


def sent(server: ChatServer, at: int = -1) -> list[dict[str, Any]]:
    body = server.bodies[at]
    messages: list[dict[str, Any]] = body.get("messages") or body["input"]
    return messages


def assert_remembered(memory: NotedMemory, server: ChatServer, answer: str = HELLO) -> None:
    """One turn was opened, one request went out with one reference, and the answer is kept."""
    assert memory.only.end["answer"] == answer
    assert memory.only.end["error"] == ""
    assert len(server.bodies) == 1
    messages = sent(server)
    assert references(messages) == 1
    assert is_stub(messages[-3])
    assert is_reference(messages[-2])
    assert messages[-1]["content"] == "When does it close?"


def test_the_wire_carries_the_callers_request_and_one_pair(
    client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    client.chat.completions.create(**CHAT, temperature=0.5)
    answer = wrap_openai(client, memory).chat.completions.create(**CHAT, temperature=0.5)
    plain, rich = server.bodies
    assert type(answer).__name__ == "ChatCompletion"
    messages = rich.pop("messages")
    assert json.dumps(messages[:1]) == json.dumps(plain["messages"][:1])
    assert messages[-1] == plain.pop("messages")[-1]
    assert rich == plain
    assert memory.only.end["usage"] == {
        "prompt_tokens": answer.usage.prompt_tokens,
        "completion_tokens": 3,
        "total_tokens": answer.usage.total_tokens,
    }


def test_the_client_of_the_caller_stays_as_it_is(
    client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    first = client.chat.completions
    wrapped = wrap_openai(client, memory)
    assert isinstance(wrapped, openai.OpenAI)
    assert type(wrapped).__name__ == "OpenAI"
    assert wrapped is not client
    assert client.chat.completions is first
    client.chat.completions.create(**CHAT)
    assert not memory.turns
    assert sent(server) == ASK
    assert wrap_openai(wrapped, memory) is wrapped


def test_other_things_are_refused_with_a_remedy(memory: NotedMemory) -> None:
    for other in (object(), None, {"copy": 1}, "client"):
        with pytest.raises(InvalidInput, match="no client of the OpenAI SDK"):
            wrap_openai(other, memory)


def test_copies_keep_the_memory(client: Any, server: ChatServer, memory: NotedMemory) -> None:
    wrapped = wrap_openai(client, memory, scope="ann")
    again = wrapped.with_options(timeout=5).copy(max_retries=1)
    assert again.max_retries == 1
    again.chat.completions.create(**CHAT)
    assert_remembered(memory, server)
    assert memory.only.options["scope"] == Scope(user_id="ann")


def test_azure_clients_are_wrapped_too(memory: NotedMemory) -> None:
    azure: Any = openai.AzureOpenAI(
        api_key="k", api_version="1", azure_endpoint="http://127.0.0.1:1"
    )
    wrapped = wrap_openai(azure, memory).with_options(max_retries=0)
    assert isinstance(wrapped, openai.AzureOpenAI)
    with pytest.raises(openai.APIConnectionError):
        wrapped.chat.completions.create(**CHAT)
    assert memory.only.end["error"].startswith("APIConnectionError")
    azure.close()


def test_create_has_its_signature_and_two_more_keywords(client: Any, memory: NotedMemory) -> None:
    plain = inspect.signature(client.chat.completions.create).parameters
    ours = inspect.signature(wrap_openai(client, memory).chat.completions.create).parameters
    assert [*plain, "memory_scope", "memory_off"] == list(ours)


def chat_stream(client: Any, **more: Any) -> Any:
    stream = client.chat.completions.create(**CHAT, stream=True, **more)
    assert isinstance(stream, openai.Stream)
    return list(stream)


def chat_stream_manager(client: Any, **more: Any) -> Any:
    with client.chat.completions.stream(**CHAT, **more) as stream:
        return stream.get_final_completion()


def response_stream(client: Any, **more: Any) -> Any:
    return list(client.responses.create(**RESPONSE, stream=True, **more))


def response_stream_manager(client: Any, **more: Any) -> Any:
    with client.responses.stream(**RESPONSE, **more) as stream:
        return stream.get_final_response()


def raw_stream(client: Any, **more: Any) -> Any:
    raw = client.chat.completions.with_raw_response.create(**CHAT, stream=True, **more)
    assert raw.headers["content-type"] == "text/event-stream"
    assert raw.parse() is raw.parse()
    return list(raw.parse())


def streamed_raw(client: Any, **more: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, **more) as raw:
        return raw.parse()


def streamed_json(client: Any, **more: Any) -> Any:
    with client.responses.with_streaming_response.create(**RESPONSE, **more) as raw:
        return raw.json()


WAYS: dict[str, Callable[..., Any]] = {
    "create": lambda c, **more: c.chat.completions.create(**CHAT, **more),
    "parse": lambda c, **more: c.chat.completions.parse(**CHAT, **more),
    "stream": chat_stream,
    "stream manager": chat_stream_manager,
    "raw": lambda c, **more: c.chat.completions.with_raw_response.create(**CHAT, **more).parse(),
    "raw of the client": lambda c, **more: c.with_raw_response.chat.completions.create(
        **CHAT, **more
    ),
    "raw unparsed": lambda c, **more: c.responses.with_raw_response.create(**RESPONSE, **more),
    "raw stream": raw_stream,
    "streamed raw": streamed_raw,
    "streamed json": streamed_json,
    "responses": lambda c, **more: c.responses.create(**RESPONSE, **more),
    "responses parse": lambda c, **more: c.responses.parse(**RESPONSE, **more),
    "responses stream": response_stream,
    "responses stream manager": response_stream_manager,
    "beta chat": lambda c, **more: c.beta.chat.completions.create(**CHAT, **more),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_ask_has_memory_once(
    way: str, client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    WAYS[way](wrap_openai(client, memory), memory_scope="ann")
    assert_remembered(memory, server)
    assert memory.only.options["scope"] == Scope(user_id="ann")
    assert server.bodies[0].get("instructions", "Be kind.") == "Be kind."


@pytest.mark.parametrize("way", WAYS)
def test_memory_off_leaves_every_way_bare(
    way: str, client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    plain = WAYS[way](client)
    bare = WAYS[way](wrap_openai(client, memory), memory_off=True)
    assert type(plain) is type(bare)
    assert server.bodies[0] == server.bodies[1]
    assert not memory.turns


async def _async_ways(client: Any) -> AsyncIterator[str]:
    await client.chat.completions.create(**CHAT)
    yield "create"
    await client.chat.completions.parse(**CHAT)
    yield "parse"
    stream = await client.chat.completions.create(**CHAT, stream=True)
    assert isinstance(stream, openai.AsyncStream)
    async for _ in stream:
        pass
    yield "stream"
    async with client.chat.completions.stream(**CHAT) as events:
        await events.get_final_completion()
    yield "stream manager"
    (await client.chat.completions.with_raw_response.create(**CHAT)).parse()
    yield "raw"
    async with client.chat.completions.with_streaming_response.create(**CHAT) as raw:
        await raw.parse()
    yield "streamed raw"
    async with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as raw:
        async for _ in await raw.parse():
            pass
    yield "streamed raw stream"
    await client.responses.create(**RESPONSE)
    yield "responses"
    await client.responses.parse(**RESPONSE)
    yield "responses parse"
    async for _ in await client.responses.create(**RESPONSE, stream=True):
        pass
    yield "responses stream"
    async with client.responses.stream(**RESPONSE) as events:
        await events.get_final_response()
    yield "responses stream manager"
    await client.with_options(timeout=5).chat.completions.create(**CHAT)
    yield "copy"


def test_every_way_to_ask_asynchronously_has_memory_once(server: ChatServer) -> None:
    async def main() -> None:
        async with async_client(server) as client:
            memory = NotedMemory()
            async for way in _async_ways(wrap_openai(client, memory)):
                assert_remembered(memory, server)
                assert memory.only.end["answer"], way
                memory.turns.clear()
                server.bodies.clear()

    asyncio.run(main())


def test_the_hidden_coroutine_function_of_an_async_client_is_awaited(server: ChatServer) -> None:
    memory = NotedMemory()

    async def main() -> None:
        async with async_client(server) as client:
            assert not inspect.iscoroutinefunction(client.chat.completions.create)
            answer = await wrap(memory, client.chat.completions.create)(**CHAT)
            assert answer.choices[0].message.content == HELLO

    asyncio.run(main())
    assert_remembered(memory, server)


def test_a_stream_left_early_keeps_the_turn(
    client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    wrapped = wrap_openai(client, memory)
    with wrapped.chat.completions.stream(**CHAT) as events:
        for event in events:
            if event.type == "content.delta" and event.delta:
                break
    with wrapped.chat.completions.create(**CHAT, stream=True) as chunks:
        next(chunks)
    with wrapped.responses.stream(**RESPONSE) as items:
        for item in items:
            if item.type == "response.output_text.delta":
                break
    for chunk in wrapped.chat.completions.create(**CHAT, stream=True):
        if chunk.choices[0].delta.content:
            break
    del chunk
    assert [turn.end["answer"] for turn in memory.turns] == ["At", "", "At", "At"]


def test_a_connection_that_breaks_raises_as_without_memory(memory: NotedMemory) -> None:
    with ChatServer(Fault(drop="in the middle")) as server:
        client = connect(server.url)

        def texts(asking: Any) -> list[Any]:
            return [
                c.choices[0].delta.content
                for c in asking.chat.completions.create(**CHAT, stream=True)
            ]

        assert texts(wrap_openai(client, memory)) == texts(client) == ["", "one"]
        client.close()
    assert memory.only.end["answer"] == "one"


def test_the_sdks_own_retries_are_one_turn(memory: NotedMemory) -> None:
    with ChatServer(Fault(status=500), Fault(drop="at once"), HELLO) as server:
        client = connect(server.url, max_retries=3)
        wrap_openai(client, memory).chat.completions.create(**CHAT)
        client.close()
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[1] == server.bodies[2]
    assert memory.only.end["answer"] == HELLO


def test_errors_of_the_api_come_through(memory: NotedMemory) -> None:
    with ChatServer(Fault(status=429)) as server:
        client = connect(server.url)
        with pytest.raises(openai.RateLimitError):
            wrap_openai(client, memory).chat.completions.create(**CHAT)
        client.close()
    assert memory.only.end["error"].startswith("RateLimitError")


@pytest.mark.parametrize("roles", ["openai", "anthropic", "gemini"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_loop_is_accepted_by_every_provider(roles: Any, stream: bool) -> None:
    memory = NotedMemory()
    arguments = '{"place": "harbour"}'
    with ChatServer(
        Calls(calls=(("c1", "hours", arguments), ("c2", "hours", "{}"))), HELLO, roles=roles
    ) as server:
        client = connect(server.url)
        ask = wrap_openai(client, memory).chat.completions
        messages = list(ASK)
        for _ in range(2):
            if stream:
                with ask.stream(model="gpt-4o", messages=messages) as events:
                    said = events.get_final_completion().choices[0].message
            else:
                said = ask.create(model="gpt-4o", messages=messages).choices[0].message
            if not said.tool_calls:
                break
            assert said.tool_calls[0].function.arguments == arguments
            messages.append(
                {
                    "role": "assistant",
                    "tool_calls": [
                        c.model_dump(
                            include={"id": True, "type": True, "function": {"name", "arguments"}}
                        )
                        for c in said.tool_calls
                    ],
                }
            )
            messages += [
                {"role": "tool", "tool_call_id": c.id, "content": "21:00"} for c in said.tool_calls
            ]
        client.close()
    assert not server.refusals
    assert said.content == HELLO
    first, second = (sent(server, at) for at in (0, 1))
    assert second[: len(first)] == first
    assert references(second) == 1
    assert [t.end["answer"] for t in memory.turns] == ["", HELLO]


def test_parsed_answers_are_parsed(memory: NotedMemory) -> None:
    with ChatServer('{"hour": 21}') as server:
        client = connect(server.url)
        wrapped = wrap_openai(client, memory)
        chat = wrapped.chat.completions.parse(**CHAT, response_format=Hour)
        response = wrapped.responses.parse(**RESPONSE, text_format=Hour)
        client.close()
    assert chat.choices[0].message.parsed == response.output_parsed == Hour(hour=21)
    assert [t.end["answer"] for t in memory.turns] == ['{"hour": 21}'] * 2


def test_response_items_keep_their_place(
    client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Look it up."}]},
        {"type": "reasoning", "id": "r1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "hours", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "21:00"},
        {"role": "user", "content": "So when does it close?"},
    ]
    before = copy.deepcopy(items)
    wrapped = wrap_openai(client, memory)
    wrapped.responses.create(model="gpt-4o", input=items)
    assert items == before
    arrived = sent(server)
    assert arrived[:4] == items[:4]
    assert is_reference(arrived[5])
    assert arrived[6] == items[4]
    wrapped.responses.create(model="gpt-4o", input="And tomorrow?", previous_response_id="resp_1")
    assert references(sent(server)) == 1
    assert server.bodies[1]["previous_response_id"] == "resp_1"


def test_output_items_of_the_sdk_can_be_sent_back(memory: NotedMemory) -> None:
    with ChatServer(Calls(calls=(("c1", "hours", "{}"),)), HELLO) as server:
        client = connect(server.url)
        ask = wrap_openai(client, memory).responses
        items: list[Any] = [{"role": "user", "content": "When does it close?"}]
        items += ask.create(model="gpt-4o", input=items).output
        items.append({"type": "function_call_output", "call_id": "c1", "output": "21:00"})
        assert ask.create(model="gpt-4o", input=items).output_text == HELLO
        client.close()
    assert not server.refusals
    assert sent(server, 1)[:3] == sent(server, 0)
    assert [i.get("type") for i in sent(server, 1)[3:]] == ["function_call", "function_call_output"]


def test_of_several_choices_the_first_is_kept(
    client: Any, server: ChatServer, memory: NotedMemory
) -> None:
    wrapped = wrap_openai(client, memory)
    assert len(wrapped.chat.completions.create(**CHAT, n=3).choices) == 3
    list(
        wrapped.chat.completions.create(
            **CHAT, n=2, stream=True, stream_options={"include_usage": True}
        )
    )
    assert [turn.end["answer"] for turn in memory.turns] == [HELLO, HELLO]
    assert memory.turns[1].end["usage"]["completion_tokens"] == 3


def test_twenty_threads_and_tasks_share_one_client(server: ChatServer) -> None:
    memory = NotedMemory()
    with connect(server.url) as client:
        wrapped = wrap_openai(client, memory)
        barrier = threading.Barrier(20)

        def ask(n: int) -> Any:
            barrier.wait()
            question: Any = [{"role": "user", "content": f"question {n}"}]
            made = wrapped.chat.completions.create(
                model="m", messages=question, memory_scope=str(n)
            )
            return made.choices[0].message.content

        with ThreadPoolExecutor(20) as pool:
            assert set(pool.map(ask, range(20))) == {HELLO}

    async def main() -> None:
        async with async_client(server) as client:
            asking = wrap_openai(client, memory).chat.completions
            await asyncio.gather(
                *(
                    asking.create(
                        model="m",
                        messages=[{"role": "user", "content": f"question {n}"}],
                        user=str(n),
                    )
                    for n in range(20)
                )
            )

    asyncio.run(main())
    assert len(memory.turns) == 40
    for turn in memory.turns:
        assert turn.asked[-1]["content"] == f"question {turn.options['scope'].user_id}"
        assert turn.end["answer"] == HELLO


@pytest.mark.parametrize("breaks", ["turn", "done"])
@pytest.mark.parametrize("way", WAYS)
def test_a_broken_memory_changes_no_answer(way: str, breaks: str, client: Any) -> None:
    wrapped = wrap_openai(client, NotedMemory(breaks=breaks))
    assert repr(type(WAYS[way](wrapped))) == repr(type(WAYS[way](client)))
    assert wrapped.degradations
