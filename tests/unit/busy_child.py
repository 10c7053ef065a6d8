"""A process that writes to or reads from a store others use too.

    python -m tests.unit.busy_child write PATH NAME COUNT   (or SECONDSs)
    python -m tests.unit.busy_child read PATH NAME COUNT

A writer adds one or several memories at a time and prints how many it added;
a reader prints the largest number of rows it saw, after checking that what it
sees only grows and is never half a batch. `search` reads through a memory's own
searches, which have to know of every write that was committed before them.
`trouble` does what once took the locks away or replaced a file: it indexes the
store's own folder, opens and closes managers, forks, copies the store, restores
the copy elsewhere and tries to restore it over the others. It writes as `bob`
and prints how many memories it was told are kept.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import agentmem
from agentmem.base.errors import StoreBusy
from agentmem.base.filters import Selection
from agentmem.memory.opening import restore
from agentmem.stores.base import Store
from agentmem.stores.sqlite.store import SqliteStore
from tests.local_search import local
from tests.unit.store_samples import ANN, BOB, entry

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
            newest = store.recent(Selection(reader=ANN), limit=10)
            assert len(newest) >= min(10, count), (len(newest), count)
    return seen


def search(path: str, name: str, limit: str) -> int:
    del name
    seen = 0
    with agentmem.open(path, embedder=None) as memory, SqliteStore(path) as store:
        for _ in turns(limit):
            committed = store.count(Selection(reader=ANN))
            memory.search("what is known", threshold=0.0, user_id=ANN.user_id)
            local(memory).catch_up()
            count = len(local(memory).words)
            assert count >= max(seen, committed), (count, seen, committed)
            assert count % BATCH == 0, count
            seen = count
    return seen


def trouble(path: str, name: str, limit: str) -> int:
    folder = Path(path).parent
    copy, elsewhere = folder / "copy.db", folder / "elsewhere" / "store.db"
    (folder / "notes.md").write_text("The harbour opens at nine.", encoding="utf-8")
    kept = 0
    for number in turns(limit):
        with agentmem.open(path, embedder=None, judge_new=False) as memory:
            memory.sources.index_path(folder, user_id="carol")
            copy.unlink(missing_ok=True)
            memory.upkeep.backup(copy)
            restore(copy, elsewhere)
            try:
                restore(copy, Path(path))
            except StoreBusy:
                pass
            else:
                raise AssertionError("a store that others have open was replaced")
            kept += fork_and_write(memory.store, f"{name}-{number}")
            with ThreadPoolExecutor(3) as pool:
                kept += sum(pool.map(visit, [path] * 3, [f"{name}-{number}-{n}" for n in range(3)]))
        for old in elsewhere.parent.iterdir():
            old.unlink()
    return kept


def visit(path: str, memory_id: str) -> int:
    with SqliteStore(path) as store:
        store.put([entry(memory_id, scope=BOB)])
    return 1


def fork_and_write(store: Store, memory_id: str) -> int:
    """What a forked process writes is there whatever its parent does meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads run: that is the point
        child = os.fork()
    if child == 0:
        try:
            store.put([entry(f"{memory_id}-forked", scope=BOB)])
        finally:
            os._exit(0)
    store.put([entry(f"{memory_id}-parent", scope=BOB)])
    os.waitpid(child, 0)
    return 2


if __name__ == "__main__":
    command = {"write": write, "read": read, "search": search, "trouble": trouble}[sys.argv[1]]
    sys.stdout.write(f"{command(*sys.argv[2:5])}\n")
