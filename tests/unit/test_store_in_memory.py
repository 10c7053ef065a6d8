"""What is special about a store that has no file."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentmem.base.errors import StoreClosed
from agentmem.base.filters import Selection
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import IndexFile
from tests.unit.store_samples import ANN, NOW, entry

ALL = Selection(reader=ANN)


def test_two_stores_in_memory_share_nothing() -> None:
    with SqliteStore(":memory:") as one, SqliteStore(":memory:") as other:
        one.put([entry("a")])
        assert one.count(ALL) == 1
        assert other.count(ALL) == 0


def test_nothing_is_written_to_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "words.idx").write_text("somebody else's")
    with SqliteStore(":memory:") as store:
        store.put([entry("a"), entry("b")])
        file = IndexFile(name="words.idx", sha256="00", seq=store.feed.seq(), embedder="e")
        assert store.feed.keep_index_file(file)
        assert store.erase(ANN, ["a"], at=NOW).complete
        store.upkeep.vacuum()
        store.upkeep.sync(at=NOW)
        stats = store.upkeep.stats()
        assert (stats.location, stats.chunks) == (":memory:", 1)
        assert stats.bytes > 0
        assert not store.upkeep.verify().problems
    assert [path.name for path in tmp_path.iterdir()] == ["words.idx"]


def test_a_closed_one_says_so() -> None:
    store = SqliteStore(":memory:")
    store.put([entry("a")])
    store.close()
    store.close()
    with pytest.raises(StoreClosed):
        store.count(ALL)


def test_a_backup_of_it_is_a_file_like_any_other(tmp_path: Path) -> None:
    with SqliteStore(":memory:") as store:
        store.put([entry("a")])
        store.upkeep.backup(tmp_path / "copy.db")
    with SqliteStore(tmp_path / "copy.db") as copy:
        assert [memory.id for memory in copy.scan(ALL)] == ["a"]
        assert not copy.upkeep.verify().problems


def test_threads_take_turns_and_see_whole_writes() -> None:
    with SqliteStore(":memory:") as store, ThreadPoolExecutor(6) as pool:
        begin = threading.Barrier(6)

        def write(who: int) -> None:
            begin.wait()
            for number in range(20):
                store.put([entry(f"{who}-{number}-x"), entry(f"{who}-{number}-y")])

        def read() -> list[int]:
            begin.wait()
            return [store.count(ALL) for _ in range(60)]

        writers = [pool.submit(write, who) for who in range(3)]
        readers = [pool.submit(read) for _ in range(3)]
        for writer in writers:
            writer.result()
        for counts in (reader.result() for reader in readers):
            assert counts == sorted(counts)
            assert all(count % 2 == 0 for count in counts)
        assert store.count(ALL) == 120
        assert not store.upkeep.verify().problems


def test_a_write_that_fails_is_undone_and_changes_no_version() -> None:
    with SqliteStore(":memory:") as store:
        store.put([entry("a")])
        version = store.feed.data_version()
        with pytest.raises(ValueError, match="a"):
            store.put([entry("b"), entry("a")])
        assert store.feed.data_version() == version
        assert store.count(ALL) == 1
        store.put([entry("b")])
        assert store.feed.data_version() != version


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_goes_on_with_a_copy() -> None:
    with SqliteStore(":memory:") as store:
        store.put([entry("a")])
        child = os.fork()
        if child == 0:
            try:
                store.put([entry("b")])
                os._exit(0 if store.count(ALL) == 2 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert store.count(ALL) == 1
        store.put([entry("c")])
        assert store.count(ALL) == 2
