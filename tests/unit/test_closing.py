"""A memory that was closed leaves nothing behind: no object, no thread, no open file."""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agentmem
from agentmem.base.protocols import Embedder
from agentmem.memory.manager import MemoryManager
from agentmem.search.embedders.pair import PairEmbedder
from agentmem.search.local import LocalSearch
from agentmem.testing import HashEmbedder
from tests.servers.postgres import CannotStart, shared_server

ASKED = [{"role": "user", "content": "Which tea is my favourite?"}]
TIMES = 30


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is let go of is freed at once, or stays for the test to see."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def only_open(memory: MemoryManager) -> None:
    pass


def search(memory: MemoryManager) -> None:
    memory.add("My favourite tea is rooibos.", user_id="ann")
    assert memory.search("Which tea?", user_id="ann").hits


def take_turns(memory: MemoryManager) -> None:
    search(memory)
    with memory.turn(ASKED, user_id="ann") as turn:
        turn.done("Rooibos.")
    memory.flush(30)


def do_everything(memory: MemoryManager) -> None:
    take_turns(memory)
    memory.sources.index_page("Tea grows in Assam. " * 40, "https://example.com/tea", user_id="ann")
    memory.living.learn("The API limit is 100 requests.", user_id="ann")
    memory.living.consolidate(user_id="ann")
    memory.living.prefetch([("task", "tea")], budget_ms=60_000, user_id="ann")
    memory.search("tea", user_id="ann", cold=True)
    memory.upkeep.erase_all(user_id="ann")


def parts_of(memory: MemoryManager) -> list[object]:
    """What has to go with a memory: what holds other things in turn, or much."""
    parts: list[object] = [memory, memory.store, memory.index, memory.embedding]
    if memory._runtime is not None:
        parts += [memory._runtime, memory._runtime.recaller, memory._runtime.worker]
    if isinstance(memory.index, LocalSearch):
        parts += [memory.index.words, memory.index.table, *memory.index._vectors.values()]
    return parts


def used(
    path: Path | str, use: Callable[[MemoryManager], None], *, embedder: Embedder | None = None
) -> list[weakref.ref[Any]]:
    """What is to be gone after a memory was opened, used and closed."""
    with agentmem.open(path, embedder=embedder or HashEmbedder(16)) as memory:
        use(memory)
        return [weakref.ref(part) for part in parts_of(memory)]


def held() -> Counter[object]:
    """The threads that run, and the files and sockets that are open."""
    files: list[str] = []
    for number in os.listdir("/proc/self/fd"):
        try:
            files.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:  # the list of the files itself
            continue
    return Counter([*threading.enumerate(), *files])


def dsn_of_a_tenant() -> str:
    try:
        return f"{shared_server().dsn}&tenant=closing"
    except CannotStart as error:
        pytest.skip(f"PostgreSQL cannot be started here: {error}")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed on Linux")
@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("use", [only_open, search, take_turns, do_everything])
@pytest.mark.parametrize("place", ["memory", "file", "database"])
def test_a_closed_memory_is_gone_at_once(
    place: str, use: Callable[[MemoryManager], None], tmp_path: Path
) -> None:
    path: Path | str = tmp_path / "store.db" if place == "file" else ":memory:"
    if place == "database":
        path = dsn_of_a_tenant()
    used(path, use)  # what the process keeps for all memories is there now
    before = held()
    for _ in range(TIMES if use is only_open else TIMES // 5):
        left = [ref() for ref in used(path, use)]
        assert [type(one).__name__ for one in left if one is not None] == []
    assert held() - before == Counter()


@pytest.mark.usefixtures("without_collector")
def test_the_default_embedder_goes_with_its_memory_and_its_weights_stay() -> None:
    kept = PairEmbedder()
    embedder = PairEmbedder()
    weights = embedder._loaded.value[0]
    assert kept._loaded.value[0] is weights
    left = [weakref.ref(embedder), *used(":memory:", search, embedder=embedder)]
    del embedder
    assert [ref() for ref in left] == [None] * len(left)
