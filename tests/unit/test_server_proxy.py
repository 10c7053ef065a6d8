"""The proxy, asked by the real SDKs, in front of strict servers on loopback."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

import agentmem
from agentmem.base.types import Scope
from agentmem.prompt.messages import is_reference, is_stub
from agentmem.server.app import create_app
from agentmem.server.proxy import Upstream
from agentmem.server.tokens import Tokens
from tests.servers.chat import Calls, ChatServer, Fault
from tests.servers.claude import ClaudeServer
from tests.servers.serving import Serving

KNOWN = "Ann's cat is called Miso."
ASKED = "What is my cat called, is it Miso?"
ASK: list[Any] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": ASKED},
]
TOOL: Any = {
    "name": "look",
    "description": "Look.",
    "parameters": {"type": "object", "properties": {}},
}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


@pytest.fixture
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as opened:
        opened.add(KNOWN, user_id="ann")
        yield opened


@contextmanager
def proxied(
    memory: agentmem.MemoryManager, chat: str, claude: str = "", **scope: str
) -> Iterator[tuple[str, str]]:
    """The proxy's address and a token for ann, or for whom is said."""
    upstream = Upstream(openai=chat, anthropic=claude or chat, openai_key="up", anthropic_key="up")
    made = scope or {"user_id": "ann"}
    token, _ = Tokens(memory.store.settings).make(scope=Scope(**made))
    with Serving(create_app(memory, upstream=upstream)) as served:
        yield served.url, token


def added(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in messages if is_stub(one) or is_reference(one)]


def test_the_openai_sdk_gets_memory_by_its_base_url(memory: agentmem.MemoryManager) -> None:
    with ChatServer("Miso, of course.") as chat, proxied(memory, chat.url) as (url, token):  # noqa: SIM117 - reads better
        with openai.OpenAI(base_url=f"{url}/v1", api_key=token) as client:
            whole = client.chat.completions.create(model="gpt-4o", messages=ASK, seed=7)
            assert whole.choices[0].message.content == "Miso, of course."
            stream = client.chat.completions.create(model="gpt-4o", messages=ASK, stream=True)
            said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            assert said == "Miso, of course."
            assert client.models.list().data[0].id == "gpt-4o"
            assert client.embeddings.create(model="e", input="x", encoding_format="float").data
            answered = client.responses.create(model="gpt-4o", input=ASKED)
            assert answered.output_text == "Miso, of course."
            with client.responses.stream(model="gpt-4o", input=ASKED) as events:
                assert events.get_final_response().output_text == "Miso, of course."
    first = chat.bodies[0]
    assert first["seed"] == 7
    assert [one for one in first["messages"] if one not in added(first["messages"])] == ASK
    assert len(added(first["messages"])) == 2
    assert "Miso" in added(first["messages"])[1]["content"]
    assert chat.headers[0]["authorization"] == "Bearer up"
    assert all(token not in str(headers) for headers in chat.headers)
    assert not chat.refusals
    memory.flush()
    assert any("of course" in one.text for one in memory.get_all(user_id="ann"))


def test_the_asynchronous_sdk_and_tools_pass(memory: agentmem.MemoryManager) -> None:
    calls = Calls(calls=(("c1", "look", '{"a": 1}'),))

    async def ask(url: str, token: str) -> None:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=token) as client:
            tools: Any = [{"type": "function", "function": TOOL}]
            messages = list(ASK)
            first = await client.chat.completions.create(
                model="gpt-4o", messages=messages, tools=tools
            )
            called = first.choices[0].message
            assert called.tool_calls
            messages += [
                called.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
            ]
            stream = await client.chat.completions.create(
                model="gpt-4o", messages=messages, tools=tools, stream=True
            )
            said = [chunk.choices[0].delta.content or "" async for chunk in stream]
            assert "".join(said) == "Miso."

    with ChatServer(calls, "Miso.") as chat, proxied(memory, chat.url) as (url, token):
        asyncio.run(ask(url, token))
    one, two = (body["messages"] for body in chat.bodies)
    assert added(one) == added(two)  # the same block, byte for byte, in each step of a turn
    assert two[-2]["tool_calls"][0]["id"] == two[-1]["tool_call_id"] == "c1"
    assert chat.bodies[0]["tools"] == [{"type": "function", "function": TOOL}]


def test_the_anthropic_sdk_gets_memory_too(memory: agentmem.MemoryManager) -> None:
    anthropic = pytest.importorskip("anthropic")
    image = {"type": "base64", "media_type": "image/png", "data": PIXEL.split(",")[1]}
    content: Any = [{"type": "image", "source": image}, {"type": "text", "text": ASKED}]
    asked: Any = [{"role": "user", "content": content}]
    tool: Any = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}}

    async def ask(url: str, token: str) -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key=token) as client:
            made = await client.messages.create(model="claude-opus-9", max_tokens=9, messages=asked)
            assert made.content[0].type == "text"

    replies = ([use], "Miso it is.", "Miso it is.", "Async.")
    with ClaudeServer(*replies) as claude:  # noqa: SIM117 - reads better
        with proxied(memory, "http://127.0.0.1:9/v1", f"{claude.url}/v1") as (url, token):
            with anthropic.Anthropic(base_url=url, api_key=token) as client:
                plain: dict[str, Any] = {"model": "claude-opus-9", "max_tokens": 99}
                first = client.messages.create(
                    **plain, system="Be kind.", messages=asked, tools=[tool]
                )
                assert first.stop_reason == "tool_use"
                back = {"type": "tool_result", "tool_use_id": "t1", "content": "a cat"}
                later = [
                    *asked,
                    {"role": "assistant", "content": [use]},
                    {"role": "user", "content": [back]},
                ]
                second = client.messages.create(**plain, messages=later, tools=[tool])
                assert getattr(second.content[0], "text", "") == "Miso it is."
                with client.messages.stream(**plain, messages=asked) as stream:
                    assert "".join(stream.text_stream) == "Miso it is."
            asyncio.run(ask(url, token))
    one, two = claude.bodies[0]["messages"], claude.bodies[1]["messages"]
    assert [m for m in one if m not in added(one)] == asked
    assert len(added(one)) == 2
    assert added(one) == added(two)
    assert two[-1]["content"] == [back]
    assert claude.bodies[0]["system"] == "Be kind."


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_bytes_sent_with_curl_arrive_with_one_pair_among_them(
    memory: agentmem.MemoryManager,
) -> None:
    body = (
        '{ "model":"gpt-4o",\n "stop": ["\\u00e9", "z"],"messages": [ {"role":"user" ,'
        f'"content":"{ASKED}"}} ]\t, "temperature": 0.10 }}\n'
    )
    with ChatServer("ok") as chat, proxied(memory, chat.url) as (url, token):
        command = ["curl", "-sS", f"{url}/v1/chat/completions", "--data-binary", body,
                   "-H", f"Authorization: Bearer {token}"]  # fmt: skip
        answer = subprocess.run(command, capture_output=True, check=True, timeout=30).stdout
        assert json.loads(answer)["choices"][0]["message"]["content"] == "ok"
    arrived = chat.raws[0].decode()
    at = body.index('{"role":"user"')
    assert arrived.startswith(body[:at])
    assert arrived.endswith(body[at:])
    put_in = json.loads(f"[{arrived[at : len(arrived) - len(body) + at].rstrip(', ')}]")
    assert [is_stub(put_in[0]), is_reference(put_in[1])] == [True, True]
    assert len(put_in) == 2


def test_faults_of_the_provider_reach_the_client_as_they_came(
    memory: agentmem.MemoryManager,
) -> None:
    faults = (Fault(status=429), Fault(status=500), Fault(drop="at once"))
    with ChatServer(*faults, Fault(drop="in the middle")) as chat:
        with proxied(memory, chat.url) as (url, token), httpx.Client() as client:
            headers = {"authorization": f"Bearer {token}"}
            where, body = f"{url}/v1/chat/completions", {"model": "gpt-4o", "messages": ASK}
            for status in (429, 500):
                answer = client.post(where, json=body, headers=headers)
                assert answer.status_code == status
                assert answer.json()["error"]["message"] == "scripted"
            dropped = client.post(where, json=body, headers=headers)
            assert dropped.status_code == 502
            assert dropped.json()["error"]["type"] == "UpstreamFailed"
            half = client.post(where, json={**body, "stream": True}, headers=headers)
            assert half.text.count("data: ") == 2
            assert "[DONE]" not in half.text
            assert client.post(where, json={"model": 3}, headers=headers).status_code == 400
            assert client.post(where, content=b"{", headers=headers).status_code == 400
        with proxied(memory, "http://127.0.0.1:9/v1") as (url, token), httpx.Client() as client:
            headers = {"authorization": f"Bearer {token}"}
            nobody = client.post(f"{url}/v1/chat/completions", json=body, headers=headers)
            assert nobody.status_code == 502


def test_whose_memory_it_is_comes_from_the_token_then_a_header_then_the_request(
    memory: agentmem.MemoryManager,
) -> None:
    with ChatServer("ok") as chat, proxied(memory, chat.url) as (url, token):
        admin, _ = Tokens(memory.store.settings).make(admin=True)

        def sends(token: str, headers: dict[str, str], **more: Any) -> int:
            said = {"authorization": f"Bearer {token}", **headers}
            body = {"model": "gpt-4o", "messages": ASK, **more}
            answer = httpx.post(f"{url}/v1/chat/completions", json=body, headers=said)
            return -1 if answer.status_code == 403 else len(added(chat.bodies[-1]["messages"]))

        assert sends(token, {}, user="somebody else") == 2
        assert sends(token, {"x-agentmem-user": "bob"}) == -1
        assert sends(token, {"x-agentmem-off": "1"}) == 0
        assert sends(admin, {}) == 0
        assert sends(admin, {"x-agentmem-user": "ann"}) == 2
        assert sends(admin, {}, user="ann") == 2
        assert sends(admin, {}, safety_identifier="ann") == 2
        assert sends(admin, {}, user="bob") == 0


def test_a_client_may_bring_its_own_key_beside_our_token(memory: agentmem.MemoryManager) -> None:
    with ChatServer("ok") as chat, proxied(memory, chat.url) as (url, token):
        headers = {"authorization": "Bearer own-key", "x-agentmem-token": token}
        body = {"model": "gpt-4o", "messages": ASK}
        assert httpx.post(f"{url}/v1/chat/completions", json=body, headers=headers).is_success
        assert chat.headers[0]["authorization"] == "Bearer own-key"
        assert "x-agentmem-token" not in {name.lower() for name in chat.headers[0]}


def test_the_body_of_one_call_is_never_the_beginning_of_anothers(
    memory: agentmem.MemoryManager,
) -> None:
    hidden = b"GET /v1/hidden HTTP/1.1\r\nhost: x\r\n\r\n"  # a GET's body, which few servers read
    with ChatServer("ok") as chat, proxied(memory, chat.url) as (url, token):
        headers = {"authorization": f"Bearer {token}"}
        answer = httpx.request("GET", f"{url}/v1/models", content=hidden, headers=headers)
    assert answer.status_code == 200
    assert "content-length" not in {name.lower() for name in chat.headers[0]}
