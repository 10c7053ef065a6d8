"""No file of an open store is opened a second time: closing it would drop SQLite's locks.

POSIX locks belong to the process, not to the descriptor: closing any descriptor
of a file drops every lock the process has on it. Another process then takes the
log away under the one that still writes to it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentmem
from agentmem import MemoryManager
from agentmem.base.errors import FileRefused, StoreError, StoreReplaced
from agentmem.base.filters import Selection
from agentmem.living.predict import FADE, _digest, unpack
from agentmem.sources.files import read_file
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.store_samples import ANN, entry

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Selection(reader=ANN)
FAMILY = ("", "-wal", "-shm")
# Whether nobody holds SQLite's shared lock on the file, nor the one that guards the log's index.
TRY_LOCKS = """
import fcntl, sys
for name, first, length in ((sys.argv[1], 0x40000002, 510), (sys.argv[1] + "-shm", 128, 1)):
    with open(name, "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, first)
        except OSError:
            continue
        sys.exit(f"nobody holds a lock on {name}")
"""

posix_only = pytest.mark.skipif(os.name != "posix", reason="POSIX locks")
pytestmark = posix_only


def require_locked(path: Path) -> None:
    """Fail unless this process still holds its locks, as another process sees it."""
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", TRY_LOCKS, str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr


def start(action: str, path: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.locks_child", action, str(path), *more],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def visit(path: Path) -> int:
    """Open the store in another process, and close it there; gives what it counted."""
    with start("visit", path) as child:
        return int(child.communicate()[0])


@pytest.mark.parametrize("action", ["indexed", "forked"])
def test_what_was_acknowledged_survives_a_visitor_and_a_kill(tmp_path: Path, action: str) -> None:
    path = tmp_path / "memory.db"
    with start(action, path, "30") as child:
        assert child.stdin is not None
        assert child.stdout is not None
        said = child.stdout.readline().split()
        assert said[0] == action
        assert visit(path) == {"indexed": 1, "forked": 2}[action]
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "written\n"
        os.kill(int(said[1]) if action == "forked" else child.pid, signal.SIGKILL)
        child.communicate()
    with SqliteStore(path) as store:
        there = {memory.id for memory in store.scan(EVERYTHING)}
        assert {str(number) for number in range(30)} <= there
        assert store.upkeep.verify().problems == ()


READERS: dict[str, Callable[[MemoryManager, Path], object]] = {
    "read_file": lambda memory, path: read_file(path),
    "index_path": lambda memory, path: memory.sources.index_path(path),
    "import_jsonl": lambda memory, path: memory.upkeep.import_jsonl(path),
    "import_from": lambda memory, path: memory.upkeep.import_from(path, user_id="ann"),
    "export_jsonl": lambda memory, path: memory.upkeep.export_jsonl(path),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("suffix", FAMILY, ids=["file", "log", "shm"])
def test_the_files_of_an_open_store_are_refused_and_its_locks_stay(
    tmp_path: Path, read: Callable[[MemoryManager, Path], object], suffix: str
) -> None:
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        require_locked(path)
        other = tmp_path / "link"
        other.symlink_to(path.name + suffix)
        for name in (Path(f"{path}{suffix}"), other):
            with pytest.raises(FileRefused, match="store that is open") as caught:
                read(memory, name)
            assert "backup" in caught.value.remedy
        require_locked(path)
        assert len(memory.search("apple", user_id="ann")) == 1


def test_nothing_the_package_does_opens_a_file_of_an_open_store(tmp_path: Path) -> None:
    with start("watched", tmp_path / "memory.db") as child:
        assert child.communicate()[0].splitlines() == ["done"]


def test_a_folder_is_indexed_without_the_store_in_it(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    (tmp_path / "notes.txt").write_text("A zebra crosses.")
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        report = memory.sources.index_path(tmp_path, user_id="ann")
        assert [Path(one.url).name for one in report.results] == ["notes.txt"]
        told = {one.path: one.reason for one in report.skipped}
        assert {f"memory.db{suffix}" for suffix in FAMILY} <= set(told)
        assert set(told.values()) == {"belongs to a store that is open here"}
        require_locked(path)


def test_managers_opened_at_the_same_moment_keep_their_locks(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([entry("a")])
    for _ in range(15):
        together = threading.Barrier(4)

        def open_store(together: threading.Barrier = together) -> SqliteStore:
            store = SqliteStore(path)
            together.wait()
            assert store.count(EVERYTHING) == 1
            return store

        with ThreadPoolExecutor(4) as pool:
            stores = [task.result() for task in [pool.submit(open_store) for _ in range(4)]]
        require_locked(path)
        for one in stores:
            one.close()


def test_a_file_being_read_when_it_is_opened_as_a_store_is_let_go_after_it(tmp_path: Path) -> None:
    from agentmem.stores.open_files import reading

    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([entry("a")])
    with SqliteStore(path) as store:
        with reading(path) as file:
            store.put([entry("b")])
        require_locked(path)
        assert not file.closed
    assert file.closed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_parent_and_child_each_hold_locks_after_a_fork(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    heard, say = os.pipe()
    locked, tell = os.pipe()
    with SqliteStore(path) as store:
        store.put([entry("parent")])
        child = os.fork()
        if child == 0:
            try:
                store.put([entry("child")])
                os.write(tell, b"!")
                os.read(heard, 1)
                os._exit(0)
            finally:
                os._exit(4)
        try:
            os.read(locked, 1)
            assert store.count(EVERYTHING) == 2
            store.put([entry("after")])
            store.close()
            require_locked(path)  # the child's
        finally:
            os.write(say, b"!")
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for descriptor in (heard, say, locked, tell):
        os.close(descriptor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_may_fork_at_once_while_others_read_and_write(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "a.db") as one, SqliteStore(tmp_path / "b.db") as two:
        together = threading.Barrier(4)
        entry("first")  # it imports, and a child forked in the middle of an import waits for ever

        def use(name: str) -> list[int]:
            together.wait()
            for number in range(5):
                one.put([entry(f"{name}-{number}")])
                assert two.count(EVERYTHING) <= 10
            return [0] * 5

        def fork(name: str) -> list[int]:
            together.wait()
            ended = []
            for number in range(5):
                child = os.fork()
                if child == 0:
                    try:
                        signal.alarm(20)
                        two.put([entry(f"{name}-{number}")])
                        os._exit(one.count(EVERYTHING) > 10)
                    finally:
                        os._exit(4)
                ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            return ended

        with ThreadPoolExecutor(4) as pool:
            tasks = [pool.submit(do, f"{n}") for n, do in enumerate((use, use, fork, fork))]
            assert [task.result() for task in tasks] == [[0] * 5] * 4
        assert one.count(EVERYTHING) == two.count(EVERYTHING) == 10
        assert two.upkeep.verify().problems == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_in_the_middle_of_a_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has SQLite's notes of locks only its parent holds, and cannot get rid of them."""
    monkeypatch.setattr("agentmem.stores.open_files.LONGEST_WAIT_SECONDS", 0.01)
    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([entry("parent")])

        def use_both() -> None:
            for use in (
                lambda: store.put([entry("child")]),
                lambda: store.count(EVERYTHING),
                lambda: SqliteStore(path).count(EVERYTHING),
            ):
                with pytest.raises(StoreError, match="forked"):
                    use()

        child = -1
        with store._database.reading():
            child = os.fork()
            if child == 0:
                try:
                    use_both()
                    os._exit(0)
                finally:
                    os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.put([entry("after")])
        assert store.count(EVERYTHING) == 2
        require_locked(path)


@pytest.mark.parametrize("what", ["deleted", "replaced", "moved"])
def test_a_write_to_a_file_that_is_no_longer_there_is_not_acknowledged(
    tmp_path: Path, what: str
) -> None:
    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([entry("a")])
        if what == "replaced":
            store.upkeep.backup(tmp_path / "copy.db")
            (tmp_path / "copy.db").replace(path)
        elif what == "deleted":
            path.unlink()
        else:
            path.rename(tmp_path / "elsewhere.db")
        for _ in range(2):
            with pytest.raises(StoreReplaced, match=r"memory\.db"):
                store.put([entry("b")])


def test_a_write_to_a_log_that_was_taken_away_is_not_acknowledged(tmp_path: Path) -> None:
    """As when the program itself copied the open file, and another process closed it after."""
    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([entry("a")])
        for suffix in FAMILY:
            shutil.copy(f"{path}{suffix}", tmp_path / f"copy{suffix}")
        assert visit(path) == 1
        for _ in range(2):
            with pytest.raises(StoreReplaced, match="log"):
                store.put([entry("b")])
    with SqliteStore(path) as again, pytest.raises(StoreReplaced, match="new process"):
        again.count(EVERYTHING)
    assert visit(path) == 1  # and closing changed nothing in the file


def test_what_one_process_learned_stays_when_another_learned_since(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    lesson = {"features": ["file:x"], "cited": ["a"]}
    with (
        agentmem.open(path, embedder=None, judge_new=False) as one,
        agentmem.open(path, embedder=None, judge_new=False) as two,
    ):
        one.store.put([entry("a")])
        for _ in range(7):
            for memory in (one, two):
                memory.runtime.predictions.learn(lesson, ANN)
    assert learned_times(path) == pytest.approx(sum(FADE**n for n in range(14)))


def learned_times(path: Path) -> float:
    """How often the predictor heard of `file:x`."""
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        kept = memory.store.settings.get(f"predictor {_digest('ann')} {_digest(None)}")
        return float({name: times for name, times, _ in unpack(kept or "")["seen"]}["file:x"])


def test_two_processes_that_learn_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.store.put([entry("a")])
    children = [start("learn", path, "12") for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for child in children:
        child.communicate()
        assert child.returncode == 0
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        assert memory.runtime.corrections.of("gpt-4o").calls == 24
        kept = unpack(memory.runtime.predictions.get_kept("runs", ANN) or "")
        assert len({run.partition("-")[0] for run in kept["seen"]}) == 2
        shards = [memory.runtime.predictions._registered(f"{at:02x}") for at in range(256)]
        assert sum(map(len, shards)) == 3
    assert learned_times(path) == pytest.approx(sum(FADE**n for n in range(24)))
