"""What holds in every framework that is awaited, with the real package: whichever is installed."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
from agentmem.base.errors import NamelessCaller
from agentmem.memory.manager import MemoryManager
from agentmem.stores.sqlite.pool import Database
from agentmem.testing import HashEmbedder
from tests.frameworks.asking import ASKS, NAMELESS, crewai, llamaindex
from tests.frameworks.shared import ANSWER, KEPT, OF_CREWAI, OF_LLAMAINDEX, QUESTION, kept

pytestmark = pytest.mark.filterwarnings(OF_CREWAI, *OF_LLAMAINDEX)

Ask = Callable[..., Any]
MEMORIES = 10_000
LAG_SECONDS = 0.020
TURNS = 20

every = pytest.mark.parametrize("ask", ASKS, ids=lambda ask: str(ask.__name__))


@pytest.fixture(autouse=True)
def _installed(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    pytest.importorskip(ASKS[request.getfixturevalue("ask")])
    for name, value in (("DISABLE_TELEMETRY", "true"), ("TRACING_ENABLED", "false")):
        monkeypatch.setenv(f"CREWAI_{name}", value)
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


async def answered() -> str:
    return ANSWER


class WhereEmbedder(HashEmbedder):
    """Notes on which threads it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def embed_documents(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.threads.add(threading.get_ident())
        return super().embed_documents(texts)

    def embed_query(self, text: str, /) -> NDArray[np.float32]:
        self.threads.add(threading.get_ident())
        return super().embed_query(text)


@every
def test_a_run_is_answered_and_remembered(ask: Ask, memory: MemoryManager) -> None:
    assert ANSWER in asyncio.run(ask(memory, answered, scope="ann"))
    answers = [] if ask is llamaindex else [KEPT]
    assert kept(memory) == sorted([*answers, QUESTION])


@every
def test_no_search_runs_on_the_event_loop(ask: Ask) -> None:
    embedder = WhereEmbedder()
    with agentmem.open(":memory:", embedder=embedder) as memory:
        memory.add("The harbour in Oban closes at nine in winter.", user_id="ann")
        embedder.threads.clear()
        asyncio.run(ask(memory, answered, scope="ann"))
        assert memory.flush(30)
        assert embedder.threads
        assert threading.get_ident() not in embedder.threads


@pytest.mark.parametrize("ask", [a for a in ASKS if a is not crewai], ids=lambda a: str(a.__name__))
def test_a_run_that_is_cancelled_is_cancelled_and_its_question_kept(
    ask: Ask, memory: MemoryManager
) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def never() -> str:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        running = asyncio.create_task(ask(memory, never, scope="ann"))
        await asyncio.wait_for(begun.wait(), 20)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    assert kept(memory) == [QUESTION]


@every
def test_what_a_model_raises_is_raised_and_its_question_kept(
    ask: Ask, memory: MemoryManager
) -> None:
    async def slow() -> str:
        raise TimeoutError("slow")

    with pytest.raises(Exception, match="slow"):
        asyncio.run(ask(memory, slow, scope="ann"))
    assert kept(memory) == [QUESTION]


@every
def test_a_store_that_is_gone_changes_no_answer_and_is_told_in_the_log(
    ask: Ask, broken: MemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    assert ANSWER in asyncio.run(ask(broken, answered, scope="ann"))
    assert "memory degraded" in caplog.text


@pytest.mark.parametrize("ask", NAMELESS, ids=lambda ask: str(ask.__name__))
def test_nobody_named_is_warned_of_and_refused_where_scopes_are_strict(
    ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        assert ANSWER in asyncio.run(ask(memory, answered))
    assert "names no user" in caplog.text
    with agentmem.open(":memory:", embedder=HashEmbedder(), strict_scope=True) as memory:
        with pytest.raises(NamelessCaller, match="strict_scope"):
            asyncio.run(ask(memory, answered))
        assert ANSWER in asyncio.run(ask(memory, answered, scope="ann"))


@pytest.fixture(scope="module")
def large() -> Iterator[MemoryManager]:
    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        for folder in range(MEMORIES // 1000):
            chunks = [f"Port {folder * 1000 + n} closes at {n % 24}." for n in range(1000)]
            memory.sources.add_document(chunks, url=f"x://{folder}", user_id="ann")
        yield memory


@pytest.fixture
def callbacks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The CPU seconds of each callback that an event loop runs on this thread, as it runs them."""
    spent: list[float] = []
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        spent.append(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", timed)
    return spent


@pytest.mark.deep
@every
def test_the_loop_is_held_up_for_less_than_20_ms_beside_ten_thousand_memories(
    ask: Ask, large: MemoryManager, callbacks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loop lags by what one callback takes of its thread, or waits for.

    The clock on the wall would also count what other processes take of the machine. So a
    callback is timed by the processor's seconds of the loop's own thread, and nothing that
    could wait may run there: no statement of the store (the embedder: see above). What the
    framework does by itself is seen beside a memory with nothing in it. The collector rests:
    its pauses are those of everything this process holds.
    """
    waited: set[str] = set()
    for name in ("read", "write"):
        entered = getattr(Database, name)

        def noting(*args: Any, entered: Any = entered, **more: Any) -> Any:
            if asyncio._get_running_loop() is not None:
                waited.add("".join(traceback.format_stack(limit=8)))
            return entered(*args, **more)

        monkeypatch.setattr(Database, name, noting)

    async def main(memory: MemoryManager) -> None:
        for _ in range(TURNS):
            await ask(memory, answered, scope="ann")

    def worst(memory: MemoryManager) -> float:
        asyncio.run(main(memory))  # whatever is loaded on the way, is loaded now
        assert memory.flush(60)
        callbacks.clear()
        gc.collect()
        gc.disable()
        try:
            asyncio.run(main(memory))
        finally:
            gc.enable()
        assert len(callbacks) > TURNS
        return max(callbacks)

    with agentmem.open(":memory:", embedder=HashEmbedder()) as empty:
        alone = worst(empty)
    assert worst(large) - alone < LAG_SECONDS, alone
    assert waited == set()
