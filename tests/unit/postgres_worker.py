"""A process that works on a shared PostgreSQL store and says what was acknowledged, line by line.

    python -m tests.unit.postgres_worker write|read|consolidate DSN TENANT NAME COUNT SECONDS

It ends after COUNT rounds or SECONDS seconds. A writer adds a text of its own and one that all
writers say; while the server is away it waits and tries the same text again.
"""

from __future__ import annotations

import sys
import time

import agentmem
from agentmem.base.errors import StoreUnavailable
from agentmem.memory.manager import MemoryManager
from agentmem.search.postgres import PostgresSearch
from agentmem.stores.postgres.store import PostgresStore
from agentmem.testing import HashEmbedder


def main(*arguments: str) -> None:
    what, dsn, tenant, name, count, seconds = arguments
    store = PostgresStore(dsn, tenant=tenant, connections=2)
    settings = agentmem.MemorySettings(judge_new=False)
    until = time.monotonic() + float(seconds)
    with MemoryManager(
        store, search=PostgresSearch(store), embedder=HashEmbedder(16), settings=settings
    ) as memory:
        for number in range(int(count)):
            if time.monotonic() > until:
                break
            if what == "write":
                said(memory, f"{name} wrote number {number}")
                said(memory, f"everybody writes number {number}")
            elif what == "read":
                found = memory.search(f"wrote number {number}", user_id="ann", threshold=0.0)
                assert len({hit.memory.id for hit in found}) == len(found)
                sys.stdout.write(f"read {len(found)}\n")
            else:
                memory.living.consolidate(user_id="ann")
                sys.stdout.write("consolidated\n")
                time.sleep(0.2)


def said(memory: MemoryManager, text: str) -> None:
    """Add a text until it is acknowledged, then say so."""
    while True:
        try:
            result = memory.add(text, user_id="ann")
        except StoreUnavailable:
            time.sleep(0.02)
            continue
        break
    sys.stdout.write(f"{result.items[0].id} {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
