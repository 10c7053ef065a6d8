"""A store somebody else sent: whatever it says, nothing but its own files is touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agentmem
from agentmem.base.errors import AgentMemError, StoreCorrupt, StoreError
from agentmem.stores.side import set_value
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.tables import INDEX_FILES, SETTINGS
from tests.unit.store_samples import ANN, NOW, entry, fill

NEIGHBOURS = (
    "precious.txt", "store.db.notes", "store.db.wordsmith", "store.db.vectors-",
    "store.dbx", "other.db", "words", ".words", "store.db.vectors-0123456789ab.bak",
    "nested/precious.txt",
)  # fmt: skip
CODE = (
    "CREATE TRIGGER sneaky AFTER INSERT ON memories BEGIN DELETE FROM owners; END",
    "CREATE TRIGGER sqlitesneaky AFTER UPDATE ON ledger BEGIN DELETE FROM owners; END",
    "CREATE VIEW extra AS SELECT * FROM memories",
    "CREATE VIEW sqlitex AS SELECT * FROM memories",
    "CREATE TABLE extra (a)",
    "CREATE TABLE SQLiteExtra (a)",
    "CREATE INDEX extra ON memories (lower(text))",
    "CREATE INDEX sqliteindex ON memories (text)",
    "DROP TABLE cold",
    "DROP INDEX jobs_by_state",
    "ALTER TABLE jobs ADD COLUMN extra",
)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a closed store in it."""
    folder = tmp_path_factory.mktemp("sent")
    with SqliteStore(folder / "store.db") as store:
        fill(store)
    return folder


@pytest.fixture
def store(sent: Path, tmp_path: Path) -> Path:
    shutil.copy(sent / "store.db", tmp_path)
    return tmp_path / "store.db"


def put_neighbours(folder: Path) -> dict[str, bytes]:
    (folder / "nested").mkdir()
    for name in NEIGHBOURS:
        (folder / name).write_bytes(b"precious " * 20)
    return neighbours(folder)


def neighbours(folder: Path) -> dict[str, bytes]:
    """Everything in the folder that is none of the store's own files."""
    own = {"store.db", "store.db-wal", "store.db-shm", "store.db-mark", "store.db.words"}
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and file.name not in own
        and not (file.name.startswith("store.db.vectors-") and len(file.name) == 29)
    }


def use(path: Path) -> None:
    """Do with a store what opens, reads, changes, erases and closes it."""
    with agentmem.open(path, embedder=None) as memory:
        memory.search("known", user_id="ann")
        memory.add("The boiler is serviced in May.", user_id="ann")
        memory.erase("m1", user_id="ann")
        memory.upkeep.sync()
        memory.upkeep.verify()
        memory.upkeep.get_stats()


def doctor(path: Path, *, pending: str, index_names: list[str]) -> None:
    """Change what a store says, with checksums that are right."""
    with SqliteStore(path, checked_below_bytes=0) as store, store._database.writing() as write:
        set_value(write, "erase_pending", pending)
        for name in index_names:
            if not write.rows(INDEX_FILES, "WHERE name = ?", (name,)):
                (key,) = write.take(INDEX_FILES)
                write.insert(INDEX_FILES, [(key, name, "ab", "", 1)])
        assert write.rows(SETTINGS, "WHERE name = ?", ("erase_pending",))


def test_a_store_that_names_a_neighbour_as_left_to_erase_does_not_remove_it(store: Path) -> None:
    before = put_neighbours(store.parent)
    doctor(store, pending=json.dumps(["precious.txt"]), index_names=["other.db"])
    use(store)
    assert neighbours(store.parent) == before


def test_index_files_of_the_store_itself_are_still_removed_by_an_erasure(store: Path) -> None:
    words = store.with_name("store.db.words")
    words.write_bytes(b"What is known about m1.")
    doctor(store, pending="[]", index_names=[])
    with SqliteStore(store) as opened:
        opened.erase(ANN, ["m1"], at=NOW)
    assert not words.exists()


LINKS = [
    *(("symlink_to", suffix) for suffix in (".words", "-mark", "-wal", "-shm")),
    *(("hardlink_to", suffix) for suffix in (".words", "-mark", ".vectors-0123456789ab")),
]


@pytest.mark.parametrize(("make", "suffix"), LINKS)
def test_a_link_in_the_place_of_a_file_of_the_store_leads_nowhere(
    store: Path, make: str, suffix: str
) -> None:
    victim = store.with_name("victim")
    victim.write_bytes(b"precious")
    getattr(store.with_name(store.name + suffix), make)(victim)
    doctor_quietly(store)
    with_errors(use, store)
    assert victim.read_bytes() == b"precious"


def doctor_quietly(path: Path) -> None:
    with_errors(lambda one: doctor(one, pending="[]", index_names=[]), path)


def with_errors(act: Callable[[Path], None], path: Path) -> bool:
    """Whether it went through; errors of ours are answers too."""
    try:
        act(path)
    except AgentMemError:
        return False
    return True


@pytest.mark.parametrize("statement", CODE)
def test_tables_triggers_and_views_that_are_not_ours_are_refused(
    store: Path, statement: str
) -> None:
    connection = sqlite3.connect(store)
    connection.execute(statement)
    connection.commit()
    connection.close()
    before = store.read_bytes()
    for _ in range(2):
        with SqliteStore(store) as opened, pytest.raises(StoreCorrupt, match="tables"):
            opened.put([entry("a")])
    assert store.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 3])
def test_code_is_refused_before_an_older_store_is_brought_up_to_date(
    store: Path, version: int
) -> None:
    connection = sqlite3.connect(store)
    connection.execute(CODE[0])
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()
    before = store.read_bytes()
    with SqliteStore(store) as opened, pytest.raises(StoreError):
        opened.put([entry("a")])
    assert store.read_bytes() == before


def test_a_ledger_that_is_a_view_is_not_asked(store: Path) -> None:
    """Asked for its only row, this one would never answer."""
    connection = sqlite3.connect(store)
    connection.execute("ALTER TABLE ledger RENAME TO kept")
    connection.execute(
        "CREATE VIEW ledger AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT 1 AS one, group_concat(x) AS data FROM n"
    )
    connection.commit()
    shutil.copy(store, store.with_name("copy.db"))
    shutil.copy(store.with_name("store.db-wal"), store.with_name("copy.db-wal"))
    connection.close()
    for path in (store, store.with_name("copy.db")):
        with SqliteStore(path) as opened, pytest.raises(StoreCorrupt, match="tables"):
            opened.feed.seq()
    with pytest.raises(StoreCorrupt, match="tables"):
        agentmem.restore(store, store.with_name("new.db"))


names = st.sampled_from([*NEIGHBOURS, "store.db", "store.db-wal", "../precious.txt", "/etc/hosts"])
pending_values = st.one_of(
    st.lists(st.one_of(names, st.text(max_size=20))).map(json.dumps),
    st.text(max_size=30),
    st.recursive(
        st.none() | st.integers() | names,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
)


@given(
    pending=pending_values,
    index_names=st.lists(st.one_of(names, st.text(min_size=1, max_size=20)), max_size=4),
    statement=st.one_of(st.none(), st.none(), st.sampled_from(CODE)),
    flips=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(1, 255)), max_size=2),
)
@example(pending='["precious.txt"]', index_names=["other.db"], statement=None, flips=[])
@example(pending="[1]", index_names=[], statement=None, flips=[])
@example(pending="{", index_names=[".."], statement=None, flips=[])
def test_no_doctored_store_changes_anything_outside_its_own_files(
    sent: Path,
    pending: str,
    index_names: list[str],
    statement: str | None,
    flips: list[tuple[int, int]],
) -> None:
    for folder in folders():
        path = folder / "inner" / "store.db"
        path.parent.mkdir()
        shutil.copy(sent / "store.db", path)
        (folder / "precious.txt").write_bytes(b"precious")
        before = put_neighbours(path.parent)
        if pending.isprintable() and all(name.isprintable() for name in index_names):
            doctor(path, pending=pending, index_names=index_names)
        if statement is not None:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute(statement)
            connection.close()
        content = bytearray(path.read_bytes())
        for place, change in flips:
            content[place % len(content)] ^= change
        path.write_bytes(content)
        with_errors(use, path)
        assert neighbours(path.parent) == before
        assert (folder / "precious.txt").read_bytes() == b"precious"
        assert sorted(os.listdir(folder)) == ["inner", "precious.txt"]


def folders() -> Iterator[Path]:
    """One folder, gone afterwards: Hypothesis runs many examples within one test."""
    with TemporaryDirectory() as folder:
        yield Path(folder)
