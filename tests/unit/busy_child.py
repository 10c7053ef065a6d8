"""A process that writes to or reads from a store others use too.

    python -m tests.unit.busy_child write PATH NAME COUNT   (or SECONDSs)
    python -m tests.unit.busy_child read PATH NAME COUNT

A writer adds one or several memories at a time and prints how many it added;
a reader prints the largest number of rows it saw, after checking that what it
sees only grows and is never half a batch. `search` reads through a memory's own
searches, which have to know of every write that was committed before them.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator

import agentmem
from agentmem.base.filters import Selection
from agentmem.stores.sqlite.store import SqliteStore
from tests.local_search import local
from tests.unit.store_samples import ANN, entry

BATCH = 3


def turns(limit: str) -> Iterator[int]:
    """As many turns as the number says, or turns for so many seconds (`30s`)."""
    if not limit.endswith("s"):
        yield from range(int(limit))
        return
    deadline = time.monotonic() + float(limit[:-1])
    for number in itertools.count():
        if time.monotonic() > deadline:
            return
        yield number


def write(path: str, name: str, limit: str) -> int:
    added = 0
    with SqliteStore(path) as store:
        for number in turns(limit):
            batch = [f"{name}-{number}-{part}" for part in range(BATCH)]
            store.put([entry(memory_id, session=name) for memory_id in batch])
            added += len(batch)
            found = store.get_many(ANN, batch)  # a process sees its own writes
            assert len(found) == BATCH, found
    return added


def read(path: str, name: str, limit: str) -> int:
    del name
    seen = 0
    with SqliteStore(path) as store:
        for _ in turns(limit):
            count = store.count(Selection(reader=ANN))
            assert count >= seen, (count, seen)
            assert count % BATCH == 0, count
            seen = count
            rows = store.feed.index_rows(after_row=max(0, count - 10)).rows
            assert len(store.get_rows(ANN, rows.tolist())) == len(rows)
    return seen


def search(path: str, name: str, limit: str) -> int:
    del name
    seen = 0
    with agentmem.open(path, embedder=None) as memory, SqliteStore(path) as store:
        for _ in turns(limit):
            committed = store.count(Selection(reader=ANN))
            memory.search("what is known", threshold=0.0, user_id=ANN.user_id)
            count = len(local(memory).postings)
            assert count >= max(seen, committed), (count, seen, committed)
            assert count % BATCH == 0, count
            seen = count
    return seen


if __name__ == "__main__":
    command = {"write": write, "read": read, "search": search}[sys.argv[1]]
    sys.stdout.write(f"{command(*sys.argv[2:5])}\n")
