"""A process that does one thing to a store somebody else has open.

    python -m tests.unit.locks_child ACTION PATH [COUNT]

`visit` opens the store, reads it and closes it again. `indexed` and `forked`
write COUNT memories after what used to take the locks away, say so and wait to
be killed. `learn` learns COUNT times in every way there is, beginning when told.
`watched` does everything that reads or writes files, and says which file of the
store was opened by Python meanwhile; SQLite's own opening is not seen.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agentmem
from agentmem.base.filters import Selection
from agentmem.base.types import Scope
from agentmem.inspector.doctor import examine
from agentmem.stores.sqlite.store import SqliteStore
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
    memory.sources.index_path(path.parent, user_id="ann")
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
        runtime.tokenizer("gpt-4o", estimated_for="")  # no vocabulary has to be loaded
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
        runtime.predictions.replace_kept("relations", None, "x", other)


def watched(path: Path) -> None:
    folder = path.parent
    (folder / "notes.txt").write_text("A zebra crosses.")
    with agentmem.open(folder / "other.db", embedder=None, judge_new=False) as other:
        other.add("A pear a week", user_id="ann")
    memory = agentmem.open(path, embedder=None, judge_new=False)
    memory.add("An apple a day", user_id="ann")
    locked = {os.stat(f"{path}{suffix}").st_ino for suffix in ("", "-wal", "-shm")}

    def look(event: str, about: tuple[object, ...]) -> None:
        if event == "open" and isinstance(about[0], str | bytes):
            try:
                if os.stat(about[0]).st_ino in locked:
                    say(f"opened {about[0]!r}")
            except OSError:
                pass

    sys.addaudithook(look)
    memory.sources.index_path(folder, user_id="ann")
    memory.search("apple", user_id="ann")
    memory.upkeep.export_jsonl(folder / "export.jsonl")
    memory.upkeep.import_jsonl(folder / "export.jsonl")
    memory.upkeep.import_from(folder / "export.jsonl")
    memory.upkeep.backup(folder / "backup.db")
    memory.upkeep.merge_from(folder / "other.db")
    memory.upkeep.verify()
    memory.upkeep.vacuum()
    memory.upkeep.sync()
    memory.upkeep.get_stats()
    examine(memory, now=NOW)
    agentmem.open(path, embedder=None).close()
    with agentmem.open(path, embedder=None) as again:
        again.search("zebra", user_id="ann")
    memory.upkeep.erase_all(user_id="ann")
    memory.close()
    say("done")


if __name__ == "__main__":
    where = Path(sys.argv[2])
    if sys.argv[1] in ("visit", "watched"):
        {"visit": visit, "watched": watched}[sys.argv[1]](where)
    else:
        {"indexed": indexed, "forked": forked, "learn": learn}[sys.argv[1]](where, int(sys.argv[3]))
