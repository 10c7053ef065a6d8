"""A process that does one thing to a store somebody else has open.

    python -m tests.unit.locks_child ACTION PATH [COUNT]

`visit` opens the store, reads it and closes it again. `indexed` and `forked`
write COUNT memories after what used to take the locks away, say so and wait to
be killed. `learn` learns COUNT times in every way there is, beginning when told.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agentmem
from agentmem.core.filters import Selection
from agentmem.stores import SqliteStore
from agentmem.types import Scope
from tests.unit.store_samples import ANN, NOW, entry


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def visit(path: Path) -> None:
    with SqliteStore(path) as store:
        say(str(store.count(Selection(reader=ANN))))


def wait_for_the_end() -> None:
    sys.stdin.read()


def indexed(path: Path, count: int) -> None:
    memory = agentmem.open(path, embedder=None, judge_new=False)
    memory.add("The first one", user_id="ann")
    memory.index_path(path.parent, user_id="ann")
    say("indexed")
    sys.stdin.readline()  # somebody else visits the store
    for number in range(count):
        memory.store.put([entry(f"{number}")])
    say("written")
    wait_for_the_end()


def forked(path: Path, count: int) -> None:
    store = SqliteStore(path)
    store.put([entry("parent")])
    begun, begin = os.pipe()
    if os.fork() == 0:
        os.read(begun, 1)
        store.put([entry("0")])
        say(f"forked {os.getpid()}")
        sys.stdin.readline()  # somebody else visits the store
        for number in range(1, count):
            store.put([entry(f"{number}")])
        say("written")
        wait_for_the_end()
        os._exit(0)
    store.close()
    os.write(begin, b"!")
    os.wait()


def learn(path: Path, count: int) -> None:
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        runtime = memory.runtime
        say("ready")
        sys.stdin.readline()
        for number in range(count):
            runtime._observe({"model": "gpt-4o", "estimated": 100, "actual": 110}, ANN)
            lesson = {"features": ["file:x"], "cited": ["a"], "at": NOW.isoformat()}
            runtime.predictions.learn(lesson, ANN)
            steps = [["read", {"path": "a"}], ["write", {"path": "b"}]]
            goal = {"id": f"{os.getpid()}-{number}", "goal": "Copy a file", "calls": steps}
            runtime.workflows.learn(goal, ANN)
        other = Scope(user_id=f"{os.getpid()}")
        runtime.predictions.set_kept("relations", "x", other)


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] == "visit":
        visit(where)
    else:
        {"indexed": indexed, "forked": forked, "learn": learn}[sys.argv[1]](where, int(sys.argv[3]))
