"""What holds in every framework that is awaited, with the real package: whichever is installed."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import agentmem
from agentmem.base.errors import NamelessCaller
from agentmem.memory.manager import MemoryManager
from agentmem.testing import HashEmbedder
from tests.frameworks.asking import ASKS, NAMELESS, crewai, llamaindex
from tests.frameworks.shared import ANSWER, KEPT, QUESTION, kept

pytestmark = pytest.mark.filterwarnings("ignore")
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
            memory.add_chunks(chunks, url=f"x://{folder}", user_id="ann")
        yield memory


@pytest.mark.deep
@every
def test_the_loop_runs_on_while_ten_thousand_memories_are_searched(
    ask: Ask, large: MemoryManager
) -> None:
    """Beside a model that answers at once: what the framework itself does is taken off."""

    async def watch(lags: list[float], over: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not over.is_set():
            began = loop.time()
            await asyncio.sleep(0.001)
            lags.append(loop.time() - began - 0.001)

    async def main(memory: Any) -> list[float]:
        lags: list[float] = []
        over = asyncio.Event()
        watching = asyncio.create_task(watch(lags, over))
        for _ in range(TURNS):
            await ask(memory, answered, scope="ann")
        over.set()
        await watching
        return sorted(lags)

    with agentmem.open(":memory:", embedder=HashEmbedder()) as empty:
        asyncio.run(main(empty))  # whatever the framework loads, it has loaded now
        without = asyncio.run(main(empty))
    asyncio.run(main(large))  # the indexes are there from now on
    lags = asyncio.run(main(large))
    assert len(lags) > TURNS
    # The machine itself stops now and then; the loop is not held up if nearly none is late.
    late = lags[int(len(lags) * 0.95)] - without[int(len(without) * 0.95)]
    assert late < LAG_SECONDS
