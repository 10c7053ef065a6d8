"""What a process does that works on a shared PostgreSQL store: it says what was acknowledged.

It ends after `count` rounds or `seconds` seconds. A writer adds a text of its own and one that all
writers say; while the server is away it waits and tries the same text again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Literal

import agentmem
from agentmem.base.errors import StoreUnavailable
from agentmem.memory.manager import MemoryManager
from agentmem.search.postgres import PostgresSearch
from agentmem.stores.postgres.store import PostgresStore
from agentmem.testing import HashEmbedder

Deed = Literal["write", "read", "consolidate"]
Tell = Callable[[tuple[str, str]], None]


def work(
    told: Connection, what: Deed, *, dsn: str, tenant: str, name: str, count: int, seconds: float
) -> None:
    """Do it, sending a pair of words for each thing that was done."""
    store = PostgresStore(dsn, tenant=tenant, connections=2)
    settings = agentmem.MemorySettings(judge_new=False)
    until = time.monotonic() + seconds
    with MemoryManager(
        store, search=PostgresSearch(store), embedder=HashEmbedder(16), settings=settings
    ) as memory:
        for number in range(count):
            if time.monotonic() > until:
                break
            if what == "write":
                say(memory, f"{name} wrote number {number}", told.send)
                say(memory, f"everybody writes number {number}", told.send)
            elif what == "read":
                found = memory.search(f"wrote number {number}", user_id="ann", threshold=0.0)
                assert len({hit.memory.id for hit in found}) == len(found)
            else:
                memory.living.consolidate(user_id="ann")
                time.sleep(0.2)
    told.send(("", "done"))


def say(memory: MemoryManager, text: str, tell: Tell) -> None:
    """Add a text until it is acknowledged, then say so."""
    while True:
        try:
            result = memory.add(text, user_id="ann")
        except StoreUnavailable:
            time.sleep(0.02)
            continue
        break
    tell((result.items[0].id, text))
