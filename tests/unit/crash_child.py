"""A process that writes to a store and says so, until it is killed.

    python -m tests.unit.crash_child PATH SEED

Each line it prints is one acknowledged write: `put ID`, `update ID TEXT`,
`delete ID`, `erase ID`. What it is about to do goes first, with a `?`.
"""

from __future__ import annotations

import random
import sys
from datetime import UTC, datetime

from agentmem.base.types import Scope
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.store_samples import entry

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Scope(user_id="ann")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(path: str, seed: int) -> None:
    source = random.Random(seed)
    store = SqliteStore(path)
    known: list[str] = []
    number = 0
    say("ready")
    while True:
        choice = source.random()
        if choice < 0.6 or not known:
            batch = [f"{seed}-{number + i}" for i in range(source.choice((1, 1, 1, 5)))]
            number += len(batch)
            say("? put " + " ".join(batch))
            store.put([entry(i, f"text of {i}", session="s") for i in batch])
            say("put " + " ".join(batch))
            known += batch
        else:
            memory_id = known[source.randrange(len(known))]
            if choice < 0.8:
                say(f"? update {memory_id} {number}")
                store.update(ANN, entry(memory_id, f"update {number}", session="s"), at=NOW)
                say(f"update {memory_id} {number}")
                number += 1
            elif choice < 0.97:
                say(f"? delete {memory_id}")
                store.delete(ANN, [memory_id], at=NOW)
                say(f"delete {memory_id}")
                known.remove(memory_id)
            else:
                say(f"? erase {memory_id}")
                store.erase(ANN, [memory_id], at=NOW)
                say(f"erase {memory_id}")
                known.remove(memory_id)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
