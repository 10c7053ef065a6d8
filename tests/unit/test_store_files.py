"""What stands at the path: nothing, something else, an older or newer store, a full disk."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import agentmem
from agentmem.base.errors import (
    InvalidInput,
    NotAStore,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreTooNew,
)
from agentmem.base.filters import Selection
from agentmem.stores.sqlite.connection import Connection
from agentmem.stores.sqlite.opening import connect_sqlite
from agentmem.stores.sqlite.schema import APPLICATION_ID, MIGRATIONS
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.sqlite.upkeep import empty_log
from tests.unit.store_samples import ANN, NOW, entry, everything, fill

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
EVERYTHING = Selection(reader=ANN)
NEXT_VERSION = (*MIGRATIONS, ("CREATE TABLE later (key INTEGER PRIMARY KEY)",))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_reading_a_store_that_is_not_there_finds_nothing_and_creates_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a" / "b" / "store.db"
    with SqliteStore(path) as store:
        assert store.count(EVERYTHING) == 0
        assert list(store.scan(EVERYTHING)) == []
        assert store.feed.seq() == store.feed.data_version() == 0
        assert len(store.feed.index_rows().rows) == 0
        assert store.upkeep.stats().chunks == 0
        assert store.upkeep.verify().ok
        secret = store.settings.secret()
        assert list(tmp_path.iterdir()) == []
        store.put([entry("a")])
        assert store.settings.secret() == secret
        assert store.count(EVERYTHING) == 1
    assert len(secret) == 32


def test_files_belong_to_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.db"
    with SqliteStore(path) as store:
        store.put([entry("a")])
        store.upkeep.backup(tmp_path / "copy.db")
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in path.parent.iterdir()}
    assert set(modes) == {"store.db", "store.db-wal", "store.db-shm", "store.db-mark"}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["store.db"]  # after closing, one file


@pytest.mark.parametrize(
    "content",
    [b"not a database", b"SQLite format 3\x00", b"\x00" * 5000, b"{}", b"x"],
    ids=["text", "cut", "zeros", "json", "letter"],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    with SqliteStore(path) as store:
        for use in (lambda: store.count(EVERYTHING), lambda: store.put([entry("a")])):
            with pytest.raises(NotAStore):
                use()
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()
    before = digest(path)
    with SqliteStore(path) as store, pytest.raises(NotAStore):
        store.put([entry("a")])
    assert digest(path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["store.db"]


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with SqliteStore(path) as store:
        assert store.count(EVERYTHING) == 0
        assert path.stat().st_size == 0
        store.put([entry("a")])
    with SqliteStore(path) as store:
        assert store.get(ANN, "a").id == "a"


def test_an_empty_file_that_was_searched_can_be_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    for _ in range(2):
        with agentmem.open(path, embedder=None) as memory:
            assert not memory.search("apple", user_id="ann")
        assert [(p.name, p.stat().st_size) for p in tmp_path.iterdir()] == [("store.db", 0)]
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        assert len(memory.search("apple", user_id="ann")) == 1


def test_an_index_file_the_store_cannot_take_note_of_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("An apple a day", user_id="ann")
        memory.search("apple", user_id="ann")
        path.unlink()
        with pytest.raises(StoreReplaced):
            memory.index.save()
    assert not (tmp_path / "store.db.words").exists()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with SqliteStore(tmp_path) as store, pytest.raises(NotAStore, match="folder"):
        store.count(EVERYTHING)


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path, migrations=NEXT_VERSION) as store:
        fill(store)
    before = digest(path)
    with (
        SqliteStore(path) as store,
        pytest.raises(StoreTooNew, match=f"version {len(NEXT_VERSION)}"),
    ):
        store.put([entry("a")])
    assert digest(path) == before


def stored_file(version: int, path: Path) -> None:
    """A store as the release with that schema version wrote it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript((FIXTURES / f"store_v{version}.sql").read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_a_store_of_every_older_version_opens(tmp_path: Path, version: int) -> None:
    stored_file(version, tmp_path / "old.db")
    with SqliteStore(tmp_path / "new.db") as fresh, SqliteStore(tmp_path / "old.db") as old:
        fill(fresh)
        expected, found = everything(fresh), everything(old)
        assert old.upkeep.verify().problems == ()
        assert old.upkeep.stats().schema_version == len(MIGRATIONS)
        old.put([entry("later")])
    assert found.pop("secret") != expected.pop("secret")
    # Vectors of new rows take one byte a number, those of old ones two or four.
    (ids, kept), (old_ids, old_kept) = expected.pop("vectors"), found.pop("vectors")
    assert old_ids == ids
    assert np.frombuffer(old_kept, np.float32) == pytest.approx(
        np.frombuffer(kept, np.float32), abs=0.02
    )
    assert found == expected


def test_a_store_is_brought_to_the_next_version_keeping_everything(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path) as store:
        fill(store)
        expected = everything(store)
    with SqliteStore(path, migrations=NEXT_VERSION) as store:
        assert everything(store) == expected
        assert store.upkeep.stats().schema_version == len(NEXT_VERSION)
    with SqliteStore(path, migrations=NEXT_VERSION) as store:
        assert everything(store) == expected


def test_a_step_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path) as store:
        fill(store)
        expected = everything(store)
    broken = (*MIGRATIONS, ("CREATE TABLE later (key INTEGER)", "CREATE TABLE later (key TEXT)"))
    with SqliteStore(path, migrations=broken) as store, pytest.raises(StoreError):
        store.count(EVERYTHING)
    with SqliteStore(path) as store:
        assert everything(store) == expected


def test_code_hidden_in_a_file_somebody_sent_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with SqliteStore(path) as store:
        fill(store)
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER sneaky AFTER INSERT ON memories BEGIN DELETE FROM owners; END"
    )
    connection.commit()
    connection.close()
    with SqliteStore(path) as store, pytest.raises(StoreCorrupt, match="tables"):
        store.put([entry("a")])


def put_until_refused(store: SqliteStore) -> list[str]:
    """The ids that were acknowledged before the store could take no more."""
    acknowledged: list[str] = []
    for number in range(10_000):
        try:
            store.put([entry(f"{number}", "x" * 3000)])
        except StoreError:
            break
        acknowledged.append(f"{number}")
    return acknowledged


def test_a_full_disk_is_said_and_costs_nothing_acknowledged(tmp_path: Path) -> None:
    """SQLite's own quota stands for the device: it fails with the same code at the same places."""
    quota = 120

    def connect(uri: str) -> Connection:
        connection = connect_sqlite(uri)
        connection.execute(f"PRAGMA max_page_count = {quota}")
        return connection

    with SqliteStore(tmp_path / "store.db", connect=connect) as store:
        acknowledged = put_until_refused(store)
        assert len(acknowledged) > 10
        with pytest.raises(StoreFull):
            store.put([entry("one more", "x" * 3000)])
        assert store.count(EVERYTHING) == len(store.get_many(ANN, acknowledged))
        assert store.count(EVERYTHING) == len(acknowledged)
        assert store.upkeep.verify().problems == ()
    quota = 10_000
    with SqliteStore(tmp_path / "store.db", connect=connect) as store:
        store.put([entry("room again")])
        assert store.count(EVERYTHING) == len(acknowledged) + 1


LIMITED = """
import resource, signal, sys
from tests.unit.test_store_files import EVERYTHING, put_until_refused
from agentmem.stores.sqlite.store import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, 800_000))
store = SqliteStore(sys.argv[1])
acknowledged = put_until_refused(store)
assert store.count(EVERYTHING) == len(acknowledged), acknowledged
store.close()
print(len(acknowledged))
"""


def test_a_file_that_may_not_grow_costs_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert run.stderr == ""
    assert int(run.stdout) > 10
    with SqliteStore(path) as store:
        assert store.count(EVERYTHING) == int(run.stdout)
        assert store.upkeep.verify().problems == ()


AS_NOBODY = """
import os, sys
from agentmem.stores.sqlite.connection import Connection
from tests.unit.store_samples import ANN, entry, everything
from agentmem.base.filters import Selection
from agentmem.base.errors import StoreReadOnly
from agentmem.stores.sqlite.store import SqliteStore
entry("imports what it needs")
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
with SqliteStore(sys.argv[1] + "/kept/store.db") as store:
    assert store.get(ANN, "m5").id == "m5"
    assert store.count(Selection(reader=ANN)) > 10
    assert len(store.feed.index_rows().rows) > 10
    try:
        store.put([entry("new")])
    except StoreReadOnly as error:
        print("refused:", type(error).__name__)
with SqliteStore(sys.argv[1] + "/kept/missing/store.db") as store:
    assert store.count(Selection(reader=ANN)) == 0
    try:
        store.put([entry("new")])
    except StoreReadOnly as error:
        print("refused:", type(error).__name__)
"""


def test_a_read_only_folder_can_be_read_and_refuses_writes() -> None:
    folder = Path(tempfile.mkdtemp())
    try:
        with SqliteStore(folder / "kept" / "store.db") as store:
            fill(store)
        folder.chmod(0o755)
        (folder / "kept" / "store.db").chmod(0o444)
        (folder / "kept").chmod(0o555)
        run = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert run.stderr == ""
        assert run.stdout == "refused: StoreReadOnly\n" * 2
        assert [p.name for p in (folder / "kept").iterdir()] == ["store.db"]
    finally:
        (folder / "kept").chmod(0o755)
        shutil.rmtree(folder)


def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with SqliteStore(tmp_path / "file" / "store.db") as store, pytest.raises(StoreReadOnly):
        store.put([entry("a")])


def test_a_backup_through_a_link_makes_its_target(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "copies" / "copy.db")
    with SqliteStore(tmp_path / "store.db") as store:
        fill(store)
        store.upkeep.backup(link)
    assert link.is_symlink()
    assert (tmp_path / "copies" / "copy.db").is_file()


def test_a_backup_is_a_store_with_the_same_answers(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        fill(store)
        store.upkeep.backup(tmp_path / "copies" / "copy.db")
        expected = everything(store)
        with pytest.raises(InvalidInput, match="exists already"):
            store.upkeep.backup(tmp_path / "copies" / "copy.db")
        store.delete(ANN, ["m5"], at=store.get(ANN, "m5").created_at)
    assert [p.name for p in (tmp_path / "copies").iterdir()] == ["copy.db"]
    with SqliteStore(tmp_path / "copies" / "copy.db") as copy:
        assert everything(copy) == expected


def test_unusual_paths_work(tmp_path: Path) -> None:
    for name in ("with space.db", "per%20cent.db", "qu?estion#.db", "ümläut.db", "plain"):
        with SqliteStore(tmp_path / name) as store:
            store.put([entry("a")])
        with SqliteStore(tmp_path / name) as store:
            assert store.count(EVERYTHING) == 1
    assert len(list(tmp_path.iterdir())) == 5


def test_a_store_left_open_is_warned_about(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    store.put([entry("a")])
    with pytest.warns(ResourceWarning, match="unclosed store"):
        del store
    assert not (tmp_path / "store.db-wal").exists()


def test_a_relative_path_stays_where_it_was_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with SqliteStore("store.db") as store:
        store.put([entry("a")])
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert store.count(EVERYTHING) == 1
        store.upkeep.vacuum()
    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("seed", range(4))
def test_pages_that_were_rearranged_keep_no_copy_of_what_was_erased(
    tmp_path: Path, seed: int
) -> None:
    """SQLite's secure_delete alone left something behind in 8 of 10 such stores."""
    source = random.Random(seed)
    path = tmp_path / "store.db"
    names = [f"<{seed}-{number}>" * source.randrange(1, 60) for number in range(200)]
    kinds = ["odd" if number % 2 else "even" for number in range(200)]
    with SqliteStore(path) as store:
        for number, name in enumerate(names):
            store.put([entry(f"{number}", "t", session=name, kind=kinds[number])])
        for _ in range(60):
            number = source.randrange(200)
            text = "t" * source.randrange(1, 2000)
            changed = entry(f"{number}", text, session=names[number], kind=kinds[number])
            store.update(ANN, changed, at=NOW)
        assert store.erase_all(Selection(reader=ANN, kinds=("odd",)), at=NOW).complete
    content = path.read_bytes()
    for number, name in enumerate(names):
        written = name[: name.index(">") + 1].encode()
        assert (written in content) == (kinds[number] == "even")


def test_emptying_the_log_gives_way_to_a_writer_of_this_process(tmp_path: Path) -> None:
    with agentmem.open(tmp_path / "m.db", embedder=None) as memory:
        memory.add("Tea is hot.")
        database = memory.store._database  # type: ignore[attr-defined]
        outcome: list[bool] = []
        with database.alone():
            other = threading.Thread(
                target=lambda: outcome.append(empty_log(database, wait_seconds=0))
            )
            other.start()
            other.join(10)
        assert outcome == [False]
        assert empty_log(database, wait_seconds=1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_or_a_device_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(os.devnull)):
        with SqliteStore(path) as store, pytest.raises(NotAStore):
            store.put([entry("a")])


def test_a_store_that_was_cut_to_nothing_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("Tea is green")
        memory.upkeep.sync()
    path.write_bytes(b"")
    with agentmem.open(path, embedder=None) as memory, pytest.raises(StoreCorrupt):
        memory.search("tea")
    for left in tmp_path.iterdir():
        left.unlink()
    path.touch()
    with agentmem.open(path, embedder=None, judge_new=False) as memory:
        memory.add("Milk is white")
        assert len(memory.get_all()) == 1
