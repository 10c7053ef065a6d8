"""Memory in litellm: its callback, its wrapper, Router, and what arrives on the wire."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentmem.agent.adapters.turn import wrap
from agentmem.base.types import Scope
from agentmem.tokens.litellm import import_litellm
from tests.noted_memory import NotedMemory, references
from tests.servers.chat import ChatServer, Fault

litellm = import_litellm()

from agentmem.agent.adapters.litellm import MemoryLogger  # noqa: E402  # needs a quiet import before

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)

ASK: list[dict[str, Any]] = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "When does it close?"},
]
HELLO = "At nine o'clock."
SECRET = "sk-never-store-this-1234"


@pytest.fixture
def memory() -> NotedMemory:
    return NotedMemory()


@pytest.fixture
def logger(memory: NotedMemory) -> Iterator[MemoryLogger]:
    made = MemoryLogger(memory)
    litellm.callbacks = [made]
    yield made
    litellm.logging_callback_manager._reset_all_callbacks()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(HELLO, roles="anthropic") as server:
        yield server
        assert not server.refusals


def over(server: ChatServer, **more: Any) -> dict[str, Any]:
    return {"model": "openai/gpt-4o", "api_base": server.url, "api_key": SECRET, **more}


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await work()

    return asyncio.run(main())


async def until(true: Callable[[], Any]) -> None:
    """Wait for litellm's own background logging."""
    for _ in range(400):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("litellm did not report the end of the call")


@pytest.mark.usefixtures("logger")
def test_an_async_call_is_prepared_and_remembered(memory: NotedMemory, server: ChatServer) -> None:
    run(lambda: litellm.acompletion(messages=ASK, **over(server)))
    arrived = server.bodies[0]["messages"]
    assert [m["role"] for m in arrived] == ["system", "user", "assistant", "user"]
    assert [arrived[0], arrived[-1]] == ASK
    assert memory.only.end["answer"] == HELLO
    assert memory.only.end["usage"]["completion_tokens"] == 3
    assert memory.only.options["model"] == "openai/gpt-4o"


@pytest.mark.usefixtures("logger")
def test_an_async_stream_is_prepared_and_remembered(
    memory: NotedMemory, server: ChatServer
) -> None:
    async def work() -> None:
        stream = await litellm.acompletion(messages=ASK, stream=True, **over(server))
        assert "".join([c.choices[0].delta.content or "" async for c in stream]) == HELLO
        await until(lambda: memory.only.ends)

    run(work)
    assert references(server.bodies[0]["messages"]) == 1
    assert memory.only.end["answer"] == HELLO


def test_a_stream_left_early_keeps_the_turn(
    memory: NotedMemory, server: ChatServer, logger: MemoryLogger
) -> None:
    async def work() -> None:
        stream = await litellm.acompletion(messages=ASK, stream=True, **over(server))
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        del stream, chunk
        gc.collect()
        await until(lambda: memory.only.ends)

    run(work)
    assert HELLO.startswith(memory.only.end["answer"])
    assert not logger._waiting


@pytest.mark.usefixtures("logger")
def test_mocked_answers_are_remembered(memory: NotedMemory) -> None:
    async def work() -> None:
        await litellm.acompletion(model="gpt-4o", messages=ASK, mock_response="mocked", user="ann")
        stream = await litellm.acompletion(
            model="gpt-4o",
            messages=ASK,
            mock_response="mocked",
            stream=True,
            metadata={"user_id": "bob"},
        )
        async for _ in stream:
            pass
        await until(lambda: memory.turns[1].ends)

    run(work)
    assert [t.end["answer"] for t in memory.turns] == ["mocked", "mocked"]
    assert [t.options["scope"].user_id for t in memory.turns] == ["ann", "bob"]


def test_sync_calls_are_wrapped_instead(
    memory: NotedMemory,
    logger: MemoryLogger,
    server: ChatServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    litellm.completion(messages=ASK, metadata={"memory_off": True}, **over(server))
    assert not logger.degradations
    for _ in range(2):
        litellm.completion(messages=ASK, **over(server))
    assert not memory.turns
    assert "memory.wrap(litellm.completion)" in next(iter(logger.degradations))
    said = [one for one in caplog.records if "went without memory" in one.getMessage()]
    assert [one.levelname for one in said] == ["WARNING"]
    noted = len(list(logger.degradations))
    ask = wrap(memory, litellm.completion)
    assert (
        ask("openai/gpt-4o", ASK, api_base=server.url, api_key=SECRET).choices[0].message.content
        == HELLO
    )
    stream = ask(messages=ASK, stream=True, **over(server))
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert "".join(c.choices[0].delta.content or "" for c in stream) == HELLO
    mocked = ask(model="gpt-4o", messages=ASK, mock_response="mocked")
    assert type(mocked) is litellm.ModelResponse
    assert [t.end["answer"] for t in memory.turns] == [HELLO, HELLO, "mocked"]
    assert [references(b["messages"]) for b in server.bodies] == [0, 0, 0, 1, 1]
    assert len(list(logger.degradations)) == noted


@pytest.mark.parametrize("knows", [True, False])
@pytest.mark.usefixtures("logger")
def test_callback_and_wrapper_together_are_one_turn(
    memory: NotedMemory, server: ChatServer, knows: bool
) -> None:
    memory.knows = knows

    async def work() -> None:
        ask = wrap(memory, litellm.acompletion)
        await ask("openai/gpt-4o", ASK, api_base=server.url, api_key=SECRET)
        stream = await ask(messages=ASK, stream=True, **over(server))
        async for _ in stream:
            pass
        await ask(messages=ASK, memory_off=True, **over(server))

    run(work)
    assert [t.end["answer"] for t in memory.turns] == [HELLO, HELLO]
    assert [references(b["messages"]) for b in server.bodies] == [int(knows), int(knows), 0]


@pytest.mark.usefixtures("logger")
def test_a_router_that_retries_is_one_turn(memory: NotedMemory) -> None:
    with ChatServer(Fault(), Fault(), HELLO) as server:
        deployment = {"model_name": "any", "litellm_params": over(server, max_retries=0)}

        async def work() -> None:
            router = litellm.Router(model_list=[deployment], num_retries=3, retry_after=0)
            await router.acompletion(model="any", messages=ASK, metadata={"user_id": "zoe"})

        run(work)
    assert [references(b["messages"]) for b in server.bodies] == [1, 1, 1]
    assert memory.only.end["answer"] == HELLO
    assert memory.only.options["scope"] == Scope(user_id="zoe")


def test_a_failed_attempt_is_taken_up_by_the_same_user_only(
    memory: NotedMemory, logger: MemoryLogger
) -> None:
    async def work() -> None:
        for user, call_id in (("ann", "1"), ("eve", "2"), ("ann", "3")):
            request = {"messages": ASK, "user": user, "litellm_call_id": call_id}
            await logger.async_pre_call_deployment_hook(request, "acompletion")
            await logger.async_log_failure_event(
                {**request, "exception": OSError("x")}, None, None, None
            )

    run(work)
    assert [t.options["scope"].user_id for t in memory.turns] == ["ann", "eve"]


@pytest.mark.usefixtures("logger")
def test_a_call_that_fails_for_good_keeps_what_the_user_said(memory: NotedMemory) -> None:
    with ChatServer(Fault(status=400)) as server:

        async def work() -> None:
            with pytest.raises(litellm.BadRequestError):
                await litellm.acompletion(messages=ASK, max_retries=0, **over(server))
            gc.collect()

        async def main() -> None:
            await work()
            await until(lambda: (gc.collect(), memory.only.ends)[1])

        run(main)
    assert memory.only.end["answer"] == ""
    assert "BadRequestError" in memory.only.end["error"]


@pytest.mark.usefixtures("logger")
def test_responses_are_prepared_once_though_litellm_asks_twice(
    memory: NotedMemory, server: ChatServer
) -> None:
    async def work() -> None:
        await litellm.aresponses(input="When does it close?", **over(server))
        stream = await litellm.aresponses(input="When does it close?", stream=True, **over(server))
        async for _ in stream:
            pass
        await until(lambda: memory.turns[1].ends)

    run(work)
    for body in server.bodies:
        assert [item["role"] for item in body["input"]] == ["user", "assistant", "user"]
        assert references(body["input"]) == 1
    assert [t.end["answer"] for t in memory.turns] == [HELLO, HELLO]


def test_hooks_that_run_twice_change_a_request_once(
    memory: NotedMemory, logger: MemoryLogger
) -> None:
    async def work() -> None:
        request = {"messages": ASK, "litellm_call_id": "1", "model": "m"}
        prepared = await logger.async_pre_call_deployment_hook(request, "acompletion")
        assert prepared is not None
        assert await logger.async_pre_call_deployment_hook(prepared, "acompletion") is None
        again = await logger.async_pre_call_deployment_hook(request, "acompletion")
        assert again == prepared
        assert request["messages"] is ASK

    run(work)
    assert len(memory.turns) == 1


def test_other_calls_are_left_alone(memory: NotedMemory, logger: MemoryLogger) -> None:
    async def work() -> None:
        for request, kind in (
            ({"input": ["text"]}, "aembedding"),
            ({"prompt": "x"}, "atext_completion"),
            ({"model": "m"}, "acompletion"),
            ({"messages": 5}, "acompletion"),
            ({"messages": ASK, "metadata": {"memory_off": True}}, "acompletion"),
            ({}, None),
        ):
            assert await logger.async_pre_call_deployment_hook(dict(request), kind) is None

    run(work)
    assert not memory.turns


@pytest.mark.usefixtures("logger")
def test_messages_by_position_cannot_be_reached_and_that_is_noted(
    memory: NotedMemory, logger: MemoryLogger
) -> None:
    run(lambda: litellm.acompletion("gpt-4o", ASK, mock_response="mocked"))
    assert not memory.turns
    assert "not a keyword" in list(logger.degradations)[-1]


@pytest.mark.parametrize("breaks", ["turn", "done"])
def test_a_broken_memory_fails_no_call(
    breaks: str, server: ChatServer, logger: MemoryLogger, memory: NotedMemory
) -> None:
    memory.breaks = breaks
    answer = run(lambda: litellm.acompletion(messages=ASK, **over(server)))
    assert answer.choices[0].message.content == HELLO
    assert list(logger.degradations)


def proxy_request(**more: Any) -> dict[str, Any]:
    return {
        "model": "gpt-4o",
        "messages": ASK,
        "secret_fields": {"raw_headers": {"authorization": f"Bearer {SECRET}"}},
        "proxy_server_request": {"headers": {"authorization": SECRET}},
        **more,
    }


def test_the_proxy_hook_prepares_and_the_later_hooks_do_not(
    memory: NotedMemory, logger: MemoryLogger
) -> None:
    key = SimpleNamespace(user_id="team one", api_key=SECRET)

    async def work() -> None:
        request = proxy_request(
            litellm_call_id="call-1", user="ann", metadata={"user_api_key_user_id": "team one"}
        )
        data = await logger.async_pre_call_hook(key, None, request, "acompletion")
        assert data is not None
        assert references(data["messages"]) == 1
        assert data["secret_fields"] is request["secret_fields"]
        assert await logger.async_pre_call_deployment_hook(data, "acompletion") is None
        reply = {"choices": [{"message": {"content": HELLO}}]}
        await logger.async_post_call_success_deployment_hook(data, reply, None)
        await logger.async_log_success_event(data, reply, None, None)

    run(work)
    assert memory.only.end["answer"] == HELLO
    assert memory.only.options["scope"] == Scope(user_id="team%20one/ann")


def test_a_client_of_the_proxy_cannot_name_somebody_elses_memory(
    memory: NotedMemory, logger: MemoryLogger
) -> None:
    claims: list[tuple[str, dict[str, Any]]] = [
        ("mallory", {"user": "ann"}),
        ("mallory", {"metadata": {"user_id": "ann", "memory_scope": {"user_id": "ann"}}}),
        ("ann", {}),
        ("mallory", {"user": "x/../ann"}),
    ]

    async def work() -> None:
        for number, (user_id, request) in enumerate(claims):
            key = SimpleNamespace(user_id=user_id)
            data = proxy_request(**request, litellm_call_id=str(number))
            await logger.async_pre_call_hook(key, None, data, "acompletion")

    run(work)
    scopes = [t.options["scope"].user_id for t in memory.turns]
    assert scopes == ["mallory/ann", "mallory/ann", "ann", "mallory/x%2F..%2Fann"]


def test_two_memories_of_one_process_are_both_told(server: ChatServer) -> None:
    memories = [NotedMemory(), NotedMemory()]
    litellm.callbacks = [MemoryLogger(memory) for memory in memories]
    lists = litellm.logging_callback_manager

    async def work() -> None:
        await litellm.acompletion(messages=ASK, **over(server))

    run(work)
    assert len({lists._get_custom_logger_key(made) for made in litellm.callbacks}) == 2
    assert sum(len(memory.turns) for memory in memories) == 1
    lists._reset_all_callbacks()


def test_calls_that_never_end_are_bounded(
    memory: NotedMemory, logger: MemoryLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentmem.agent.adapters.litellm._MOST_WAITING", 3)

    async def work() -> None:
        for n in range(5):
            request = {"messages": ASK, "litellm_call_id": str(n)}
            await logger.async_pre_call_deployment_hook(request, "acompletion")

    run(work)
    assert [len(t.ends) for t in memory.turns] == [1, 1, 0, 0, 0]


def test_importing_the_adapters_loads_no_client() -> None:
    import subprocess
    import sys

    code = (
        "import sys, agentmem.agent.adapters.turn, agentmem.agent.adapters.turn, agentmem.agent.adapters.clients\n"
        "assert not {'litellm', 'openai', 'httpx'} & set(sys.modules)\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)
