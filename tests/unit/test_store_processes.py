"""Several threads and several processes on one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

import agentmem
from agentmem.base.errors import StoreBusy, StoreClosed
from agentmem.base.filters import Selection
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Source
from tests.local_search import local
from tests.unit.store_samples import ANN, BOB, NOW, entry

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Selection(reader=ANN)


def run_together(path: Path, limit: str) -> None:
    """Four writers and four readers at once; nobody fails, nothing is lost or doubled."""
    written, _ = run_children(path, limit, write=4, read=2, search=2)
    with SqliteStore(path) as store:
        assert store.count(EVERYTHING) == written
        assert len(store.feed.index_rows().rows) == written
        assert store.upkeep.verify().problems == ()


def run_in_trouble(path: Path, limit: str) -> None:
    """Six writers and two readers, while another does all that once took their locks away."""
    written, kept = run_children(path, limit, write=6, read=2, trouble=1)
    with SqliteStore(path) as store:
        assert store.count(EVERYTHING) == written
        assert store.count(Selection(reader=BOB)) == kept > 0
        assert store.upkeep.verify().problems == ()


def run_children(path: Path, limit: str, **counts: int) -> tuple[int, int]:
    """How many memories the writers were told are kept, and how many the troublemakers."""
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.unit.busy_child", what, str(path), f"{what}{n}", limit],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for what, count in counts.items()
        for n in range(count)
    ]
    answers = [child.communicate() for child in children]
    assert [error for _, error in answers] == [""] * len(children)
    told = [int(out) for out, _ in answers]
    writers = counts["write"]
    return sum(told[:writers]), sum(told[len(told) - counts.get("trouble", 0) :])


def test_four_writers_and_four_readers_at_once(tmp_path: Path) -> None:
    run_together(tmp_path / "new" / "store.db", "25")


@pytest.mark.deep
def test_four_writers_and_four_readers_for_half_a_minute(tmp_path: Path) -> None:
    run_together(tmp_path / "store.db", "30s")


def test_eight_processes_beside_one_that_makes_trouble(tmp_path: Path) -> None:
    run_in_trouble(tmp_path / "store.db", "2")


@pytest.mark.deep
def test_eight_processes_beside_one_that_makes_trouble_for_ten_minutes(tmp_path: Path) -> None:
    run_in_trouble(tmp_path / "store.db", "600s")


def test_threads_share_one_store(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:

        def work(name: int) -> None:
            for number in range(10):
                store.put([entry(f"{name}-{number}", session=str(name))])
                assert store.get(ANN, f"{name}-{number}").session == str(name)
                assert store.count(EVERYTHING) > number

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert store.count(EVERYTHING) == 80
        assert store.upkeep.verify().problems == ()


def test_the_same_page_from_many_threads_and_stores_is_stored_once(tmp_path: Path) -> None:
    """Every one of them makes chunks with ids of its own; one set wins."""
    path = tmp_path / "store.db"
    start = threading.Barrier(8)

    def work(name: int) -> bool:
        with SqliteStore(path) as store:
            start.wait()
            chunks = [
                entry(f"{name}-{n}", f"chunk {n}", source_url="u", position=n) for n in range(5)
            ]
            source = Source(url="u", content_hash="same", scope=ANN)
            return store.replace_source(source, chunks, at=NOW).unchanged

    with ThreadPoolExecutor(8) as pool:
        unchanged = list(pool.map(work, range(8)))
    assert unchanged.count(False) == 1
    with SqliteStore(path) as store:
        found = store.search_by_source_url(ANN, "u")
        assert [m.text for m in found] == [f"chunk {n}" for n in range(5)]


def test_a_process_sees_what_another_committed_at_its_next_read(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path) as one, SqliteStore(path) as two:
        assert two.count(EVERYTHING) == 0
        version = two.feed.data_version()
        one.put([entry("a")])
        assert two.feed.data_version() != version
        assert two.feed.seq() == one.feed.seq() == 1
        assert [c.first for c in two.feed.changes(0).items] == [1]
        assert two.get(ANN, "a") == one.get(ANN, "a")


def test_owners_erased_by_another_process_can_come_back(tmp_path: Path) -> None:
    """What one process remembers of owners and sessions is void once another erased them."""
    path = tmp_path / "store.db"
    with SqliteStore(path) as one, SqliteStore(path) as two:
        for number in range(3):
            one.put([entry(f"a{number}", session="s"), entry(f"b{number}", session="s")])
            one.put([entry(f"c{number}", session="s")])
            two.erase_all(EVERYTHING, at=NOW)
            assert one.count(EVERYTHING) == 0
            two.put([entry(f"d{number}", scope=BOB)])
        one.put([entry("last", session="s")])
        one.put([entry("least", session="s")])
        assert [m.session for m in two.scan(EVERYTHING)] == ["s", "s"]
        assert two.upkeep.verify().problems == ()


def test_a_writer_that_waits_too_long_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path) as one, SqliteStore(path, busy_seconds=0.01) as two:
        one.put([entry("a")])

        def batches() -> object:
            with pytest.raises(StoreBusy):
                two.put([entry("b")])
            assert two.count(EVERYTHING) == 1  # reading goes on meanwhile
            yield [entry("c")]

        one.load(batches())  # type: ignore[arg-type]  # a generator of lists
        two.put([entry("b")])
        assert two.count(EVERYTHING) == 3


def test_closing_while_others_read_is_safe(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.put([entry(f"{n}") for n in range(50)])
    begun = threading.Event()

    def read() -> None:
        try:
            while True:
                store.count(EVERYTHING)
                list(store.scan(EVERYTHING))
                begun.set()
        except StoreClosed:
            pass

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    begun.wait()
    store.close()
    store.close()
    for reader in readers:
        reader.join()
    with pytest.raises(StoreClosed):
        store.get(ANN, "1")
    with pytest.raises(StoreClosed):
        store.put([entry("x")])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_may_go_on_with_the_store(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.put([entry("parent")])
        child = os.fork()
        if child == 0:
            try:
                store.put([entry("child")])
                os._exit(0 if store.count(EVERYTHING) == 2 else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.get(ANN, "child").id == "child"
        store.put([entry("after")])
        assert store.upkeep.verify().problems == ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_finds_what_its_parent_adds_after_the_fork(tmp_path: Path) -> None:
    heard, say = os.pipe()
    with agentmem.open(tmp_path / "store.db", embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        assert len(memory.search("apple", user_id="ann")) == 1
        child = os.fork()
        if child == 0:
            try:
                os.read(heard, 1)
                found = memory.search("zebra", user_id="ann", threshold=0.0)
                os._exit(0 if len(found) == 1 else 3)
            finally:
                os._exit(4)
        memory.add("A zebra crosses", user_id="ann")
        os.write(say, b"!")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(heard)
    os.close(say)


def exit_code_of_fork(child_does: Callable[[], object]) -> int:
    """How a forked child ends that does this and nothing else; it is given ten seconds."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(10)
            child_does()
            os._exit(0)
        finally:
            os._exit(4)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def in_another_thread(holding: AbstractContextManager[object]) -> Iterator[threading.Event]:
    """While another thread is inside `holding`; what is given lets it go on."""
    begun, end = threading.Event(), threading.Event()

    def hold() -> None:
        with holding:
            begun.set()
            end.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    begun.wait()
    try:
        yield end
    finally:
        end.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_writes_can_write(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db", busy_seconds=1) as store:
        store.put([entry("parent")])
        with in_another_thread(store._database.writing()) as end:
            os.register_at_fork(before=end.set)  # the fork has begun, and waits for the write
            assert exit_code_of_fork(lambda: store.put([entry("child")])) == 0
        assert store.count(EVERYTHING) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_forked_while_a_thread_is_at_the_index_can_search(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "store.db", embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        memory.search("apple", user_id="ann")

        def search() -> None:
            assert len(memory.search("apple", user_id="ann")) == 1

        for lock in (local(memory)._lock, local(memory).table.lock):
            with in_another_thread(lock):
                assert exit_code_of_fork(search) == 0
