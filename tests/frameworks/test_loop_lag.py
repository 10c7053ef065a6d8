"""Memory never holds up the event loop of an async framework."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import agentmem
from agentmem.testing import HashEmbedder

MEMORIES = 10_000
LAG_SECONDS = 0.020
TURNS = 20


@pytest.mark.deep
def test_the_loop_runs_on_while_ten_thousand_memories_are_searched() -> None:
    async def model(messages: list[Any]) -> dict[str, Any]:
        return {"choices": [{"message": {"role": "assistant", "content": "At nine."}}]}

    async def watch(lags: list[float], over: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while not over.is_set():
            began = loop.time()
            await asyncio.sleep(0.001)
            lags.append(loop.time() - began - 0.001)

    async def main(ask: Any) -> list[float]:
        lags: list[float] = []
        over = asyncio.Event()
        watching = asyncio.create_task(watch(lags, over))
        for number in range(TURNS):
            question = f"What is said of port {number * 37}?"
            await ask([{"role": "user", "content": question}], memory_scope="ann")
        over.set()
        await watching
        return lags

    with agentmem.open(":memory:", embedder=HashEmbedder()) as memory:
        for folder in range(MEMORIES // 1000):
            chunks = [f"Port {folder * 1000 + n} closes at {n % 24}." for n in range(1000)]
            memory.add_chunks(chunks, url=f"x://{folder}", user_id="ann")
        ask = memory.wrap(model)
        asyncio.run(main(ask))  # the indexes are there from now on
        lags = sorted(asyncio.run(main(ask)))
    assert len(lags) > TURNS
    # The machine itself stops now and then; the loop is not held up if nearly none is late.
    assert lags[int(len(lags) * 0.99)] < LAG_SECONDS
