"""Wrapped clients with a real memory behind them: what is kept, once, for whom, and what never."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import openai
import pytest

import agentmem
from agentmem.agent import context as contexts
from agentmem.base.config import BudgetConfig, LoopConfig
from agentmem.base.errors import StoreBusy
from agentmem.base.types import Scope
from agentmem.memory.manager import MemoryManager
from agentmem.stores.base import Store
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import FaultyStore, HashEmbedder, ScriptedModel
from agentmem.tokens.litellm import import_litellm
from tests.noted_memory import references
from tests.servers.chat import Calls, ChatServer, Fault

FACT = "The harbour in Oban closes at nine in winter."
QUESTION = "When does the harbour in Oban close?"
ASK: list[Any] = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": QUESTION}]
ANSWER = "The Oban harbour shuts at nine [1]."
KEPT = "The Oban harbour shuts at nine."  # a mark means nothing outside of its answer
SECRET = "sk-never-store-this-1234"


@pytest.fixture
def memory() -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        memory.add(FACT, user_id="ann")
        yield memory


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(ANSWER, roles="anthropic") as server:
        yield server
        assert not server.refusals


def connect(server: ChatServer, **options: Any) -> Any:
    http = openai.DefaultHttpxClient(verify=False, trust_env=False)
    given: dict[str, Any] = {"max_retries": 0, "http_client": http, **options}
    return openai.OpenAI(base_url=server.url, api_key=SECRET, **given)


def kept(memory: MemoryManager, user: str = "ann", kind: str = "message") -> list[str]:
    assert memory.flush(30)
    return sorted(m.text for m in memory.get_all(user_id=user) if m.kind == kind)


def test_what_was_said_is_known_to_the_same_user_in_the_next_session(
    memory: MemoryManager, server: ChatServer
) -> None:
    with connect(server) as client:
        ask = memory.wrap_openai(client).chat.completions.create
        ask(model="gpt-4o", messages=ASK, memory_scope="ann")
        assert kept(memory) == [KEPT, QUESTION]
        follow: Any = [{"role": "user", "content": "At what hour does the Oban harbour shut?"}]
        ask(model="gpt-4o", messages=follow, memory_scope="ann")
        ask(model="gpt-4o", messages=follow, memory_scope="bob")
    first, second, other = (body["messages"] for body in server.bodies)
    assert FACT in first[2]["content"]
    assert KEPT in second[1]["content"]
    assert references(other) == 0


def test_a_turn_is_kept_once_through_retries_wrappers_and_tool_steps(memory: MemoryManager) -> None:
    tool_call = Calls(calls=(("c1", "hours", "{}"),))
    with (
        ChatServer(Fault(), tool_call, Fault(status=429), ANSWER) as server,
        connect(server, max_retries=2) as client,
    ):
        ask = memory.wrap(memory.wrap_openai(client).chat.completions.create)
        said = ask(model="gpt-4o", messages=ASK, memory_scope="ann").choices[0].message
        assert memory.flush(30)  # what was learned meanwhile does not change the turn's block
        step = [
            *ASK,
            {"role": "assistant", "tool_calls": [said.tool_calls[0].model_dump()]},
            {"role": "tool", "tool_call_id": "c1", "content": "21:00"},
        ]
        ask(model="gpt-4o", messages=step, memory_scope="ann")
        assert not server.refusals
    requests = [body["messages"] for body in server.bodies]
    assert requests[0] == requests[1]
    assert requests[2] == requests[3]
    assert requests[2][:4] == requests[0]
    assert [references(request) for request in requests] == [1] * 4
    assert kept(memory) == [KEPT, QUESTION]


def test_a_stream_left_early_keeps_what_the_user_said(
    memory: MemoryManager, server: ChatServer
) -> None:
    with connect(server) as client:
        wrapped = memory.wrap_openai(client, scope="ann")
        with wrapped.chat.completions.stream(model="gpt-4o", messages=ASK) as events:
            next(iter(events))
    assert kept(memory) == [QUESTION]


def test_many_users_at_once_stay_apart(memory: MemoryManager, server: ChatServer) -> None:
    users = [f"user {n}" for n in range(20)]
    with connect(server) as client:
        create = memory.wrap_openai(client).chat.completions.create

        def ask(user: str) -> None:
            question: Any = [{"role": "user", "content": f"What does {user} like?"}]
            create(model="gpt-4o", messages=question, memory_scope=user)

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(ask, users))

    async def main() -> None:
        http = openai.DefaultAsyncHttpxClient(verify=False, trust_env=False)
        async with openai.AsyncOpenAI(base_url=server.url, api_key="k", http_client=http) as client:
            create: Any = memory.wrap(client.chat.completions.create)
            asked = [
                create(
                    model="gpt-4o",
                    messages=[{"role": "user", "content": f"Where does {user} live?"}],
                    memory_scope={"user_id": user},
                )
                for user in users
            ]
            await asyncio.gather(*asked)

    asyncio.run(main())
    for user in users:
        words = [text for text in kept(memory, user) if text != KEPT]
        assert words == [f"What does {user} like?", f"Where does {user} live?"]


def test_a_store_that_is_gone_changes_no_answer(server: ChatServer) -> None:
    broken = agentmem.open(":memory:", embedder=HashEmbedder())
    broken.add(FACT, user_id="ann")
    broken.close()
    with connect(server) as client:
        plain = client.chat.completions.create(model="gpt-4o", messages=ASK)
        wrapped = broken.wrap_openai(client, scope="ann")
        answer = wrapped.chat.completions.create(model="gpt-4o", messages=ASK)
    assert answer == plain
    assert server.bodies[0] == server.bodies[1]
    assert wrapped.degradations


@pytest.mark.parametrize(
    "error", [OSError("disk"), KeyError("x"), StoreBusy("held"), MemoryError()], ids=repr
)
def test_a_store_that_fails_at_every_call_changes_no_answer(
    server: ChatServer, error: Exception
) -> None:
    failing = False
    store = FaultyStore(SqliteStore(":memory:"), lambda path: error if failing else None)
    memory = MemoryManager(cast(Store, store), embedder=HashEmbedder())
    memory.add(FACT, user_id="ann")
    failing = True
    with connect(server) as client:
        plain = client.chat.completions.create(model="gpt-4o", messages=ASK)
        chat = memory.wrap_openai(client, scope="ann").chat.completions
        answer = chat.create(model="gpt-4o", messages=ASK)
        with chat.stream(model="gpt-4o", messages=ASK) as events:
            streamed = events.get_final_completion()
        memory.flush(1)
    assert answer == plain
    assert streamed.choices[0].message.content == ANSWER
    assert store.failed
    assert chat.create.degradations
    failing = False
    memory.close()


@pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)
def test_no_key_or_header_of_a_request_is_in_any_file_of_the_store(tmp_path: Path) -> None:
    litellm = import_litellm()
    from agentmem.agent.adapters.litellm import MemoryLogger

    with (
        ChatServer(ANSWER) as server,
        agentmem.open(tmp_path / "m.db", embedder=HashEmbedder()) as memory,
    ):
        memory.add(FACT, user_id="ann")
        logger = MemoryLogger(memory)
        litellm.callbacks = [logger]

        async def main() -> None:
            request = {"model": "openai/gpt-4o", "api_base": server.url, "api_key": SECRET}
            await litellm.acompletion(
                messages=ASK,
                user="ann",
                extra_headers={"x-secret": SECRET},
                metadata={"headers": {"authorization": SECRET}},
                **request,
            )
            data = {
                "messages": ASK,
                "litellm_call_id": "1",
                "user": "ann",
                "api_key": SECRET,
                "secret_fields": {"raw_headers": {"authorization": SECRET}},
            }
            prepared = await logger.async_pre_call_hook(None, None, data, "acompletion")
            await logger.async_log_success_event(
                prepared or data, {"choices": [{"message": {"content": ANSWER}}]}, None, None
            )

        asyncio.run(main())
        litellm.logging_callback_manager._reset_all_callbacks()
        memory.wrap(litellm.completion)(
            model="openai/gpt-4o", api_base=server.url, api_key=SECRET, messages=ASK, user="ann"
        )
        assert kept(memory) == [KEPT, QUESTION]
        memory.upkeep.sync()
        assert references(server.bodies[0]["messages"]) == 1
        assert not list(logger.degradations)
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert QUESTION.encode() in stored
    assert SECRET.encode() not in stored


def test_the_citations_and_the_trace_of_a_call_can_be_had(memory: MemoryManager) -> None:
    turns: list[Any] = []
    memory.wrap(ScriptedModel(ANSWER), scope="ann", on_turn=turns.append)(messages=ASK)
    (turn,) = turns
    assert turn.injected
    assert turn.citations[0].quote == FACT
    assert memory.flush(30)
    found = memory.runtime.trace.get(turn.snapshot_id, scope=Scope(user_id="ann"))
    assert found.outcome is not None
    assert found.outcome.answer == ANSWER


def test_a_wrapped_call_comes_back_before_its_plan_is_made(
    memory: MemoryManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        assert threading.current_thread() is not threading.main_thread(), "the caller waits for it"
        raise OSError("no plan today")

    monkeypatch.setattr(contexts, "pack_context", forbidden)
    ask: Any = memory.wrap(ScriptedModel("Fine."), scope="ann")
    ask(messages=ASK, model="gpt-4o")
    assert memory.flush(30)
    assert [text for text in ask.degradations if "no plan today" in text]


def test_messages_that_do_not_fit_the_window_are_told_of_once_the_background_has_counted(
    memory: MemoryManager,
) -> None:
    config = LoopConfig(budget=BudgetConfig(context_window=200))
    ask: Any = memory.wrap(ScriptedModel("Fine."), scope="ann", config=config)
    ask(messages=[{"role": "user", "content": "harbour " * 500}], model="gpt-4o")
    assert memory.flush(30)
    assert [text for text in ask.degradations if "do not fit the window" in text]
