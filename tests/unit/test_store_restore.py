"""Putting a backup in the place of a store, and noticing a log that belongs to another file."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import agentmem
from agentmem.base.errors import (
    FileUnreadable,
    InvalidInput,
    NotAStore,
    StaleLog,
    StoreBusy,
    StoreCorrupt,
)
from agentmem.base.filters import Selection
from agentmem.stores.sqlite.connection import Ledger
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.cli_running import Cli
from tests.unit.store_samples import ANN, entry

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Selection(reader=ANN)
KILLED = """
import os, sys
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.store_samples import entry
store = SqliteStore(sys.argv[1], checked_below_bytes=0)
first, last = int(sys.argv[2]), int(sys.argv[3])
for number in range(first, last):
    store.put([entry(f"late{number}", f"{number} " + "late " * 600)])
os._exit(0)
"""
OPEN_ELSEWHERE = """
import sys
from agentmem.stores.sqlite.store import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    store.feed.seq()
    print("open", flush=True)
    sys.stdin.read()
"""


def write_and_be_killed(path: Path, first: int, last: int) -> None:
    """Add memories in a process that goes without closing the store."""
    command = [sys.executable, "-c", KILLED, str(path), str(first), str(last)]
    subprocess.run(command, check=True, cwd=ROOT)
    assert path.with_name(path.name + "-wal").stat().st_size > 32


def ids(path: Path) -> list[str]:
    with SqliteStore(path, checked_below_bytes=0) as store:
        return sorted(memory.id for memory in store.scan(EVERYTHING))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but SQLite's shared memory, which holds nothing but locks."""
    return {f.name: f.read_bytes() for f in sorted(folder.iterdir()) if not f.name.endswith("-shm")}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two memories and a backup of it, and then a process that was killed."""
    path = tmp_path / "store.db"
    with SqliteStore(path) as opened:
        opened.put([entry("one"), entry("two")])
        opened.upkeep.backup(tmp_path / "backup.db")
    return path


@pytest.mark.parametrize("late", [3, 700], ids=["short log", "log begun anew several times"])
@pytest.mark.parametrize("checked_below_bytes", [0, 8 << 20])
def test_a_backup_copied_over_a_killed_store_is_not_mixed_with_its_log(
    store: Path, late: int, checked_below_bytes: int
) -> None:
    write_and_be_killed(store, 0, 1)
    ids(store)  # closes it: another log is begun next
    write_and_be_killed(store, 1, late)
    shutil.copy(store.with_name("backup.db"), store)
    before = contents(store.parent)
    for _ in range(2):  # refusing does not destroy the evidence
        with (
            SqliteStore(store, checked_below_bytes=checked_below_bytes) as opened,
            pytest.raises(StaleLog, match=r"store\.db-wal.*agentmem restore"),
        ):
            opened.feed.seq()
    assert contents(store.parent) == before


def test_a_closed_store_that_was_copied_is_told_from_its_later_self(store: Path) -> None:
    shutil.copy(store, store.with_name("copy.db"))
    write_and_be_killed(store, 0, 600)
    shutil.copy(store.with_name("copy.db"), store)
    with SqliteStore(store) as opened, pytest.raises(StaleLog):
        opened.feed.seq()


def test_a_log_on_a_file_that_was_written_anew_is_not_its_own(store: Path) -> None:
    with SqliteStore(store) as opened:
        opened.upkeep.vacuum()  # says the same in other places
    write_and_be_killed(store, 0, 1)
    shutil.copy(store.with_name("backup.db"), store)
    with SqliteStore(store) as opened, pytest.raises(StaleLog):
        opened.feed.seq()


def test_a_log_whose_store_was_removed_is_not_put_into_a_new_one(store: Path) -> None:
    write_and_be_killed(store, 0, 3)
    store.unlink()
    with SqliteStore(store) as opened, pytest.raises(StaleLog):
        opened.put([entry("new")])


@pytest.mark.parametrize("late", [1, 3, 700])
def test_the_log_of_a_killed_process_still_belongs_to_its_store(store: Path, late: int) -> None:
    write_and_be_killed(store, 0, late)
    assert len(ids(store)) == 2 + late
    write_and_be_killed(store, late, late + 1)
    assert len(ids(store)) == 3 + late


def test_a_store_opens_while_others_write_and_empty_its_log(store: Path) -> None:
    with SqliteStore(store) as writer:
        for number in range(60):
            writer.put([entry(f"{number}", "x" * 20_000)])
            if number % 7 == 0:
                writer.upkeep.vacuum()
            with SqliteStore(store) as other:
                assert other.count(EVERYTHING) == 3 + number


def test_every_ledger_names_the_one_before() -> None:
    ledger = Ledger()
    first = ledger.write()
    ledger.step()
    second = Ledger(ledger.write())
    assert second.previous == first.rpartition("#")[2]
    assert second.commits == 1


@pytest.mark.parametrize("copied", [False, True], ids=["", "after copying it by hand"])
def test_restoring_puts_the_backup_in_the_place_of_a_killed_store(
    store: Path, copied: bool
) -> None:
    write_and_be_killed(store, 0, 30)
    if copied:
        shutil.copy(store.with_name("backup.db"), store)
    found = agentmem.restore(store.with_name("backup.db"), store)
    assert found.memories == 2
    assert found.set_aside is not None
    assert ids(store) == ["one", "two"]
    assert store.stat().st_mode & 0o777 == 0o600
    if not copied:
        assert len(ids(found.set_aside)) == 32  # nothing is lost, its log went with it
    with SqliteStore(store) as opened:
        opened.put([entry("three")])
    assert ids(store) == ["one", "three", "two"]


def test_restoring_makes_a_store_where_there_is_none(store: Path, tmp_path: Path) -> None:
    target = tmp_path / "folder" / "new.db"
    found = agentmem.restore(tmp_path / "backup.db", target)
    assert found.set_aside is None
    assert ids(target) == ["one", "two"]
    assert sorted(f.name for f in target.parent.iterdir()) == ["new.db"]


def test_restoring_leaves_the_backup_as_it_is(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    before = backup.read_bytes()
    agentmem.restore(backup, store)
    assert backup.read_bytes() == before
    assert {f.name for f in tmp_path.glob("backup.db*")} == {"backup.db"}


def test_a_store_that_is_open_elsewhere_is_not_replaced(store: Path, tmp_path: Path) -> None:
    before = store.read_bytes()
    child = subprocess.Popen(
        [sys.executable, "-c", OPEN_ELSEWHERE, str(store)],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(StoreBusy, match="open"):
            agentmem.restore(tmp_path / "backup.db", store)
        child.stdin.close()
    with SqliteStore(store) as opened:
        opened.feed.seq()
        with pytest.raises(StoreBusy, match="open"):
            agentmem.restore(tmp_path / "backup.db", store)
    assert store.read_bytes() == before
    assert not [f for f in tmp_path.iterdir() if f.name.startswith(".")]


def test_a_damaged_backup_is_refused_and_the_store_kept(store: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    connection = sqlite3.connect(backup, isolation_level=None)
    connection.execute("UPDATE memories SET text = 'other' WHERE id = 'one'")
    connection.close()
    before = contents(tmp_path)
    with pytest.raises(StoreCorrupt, match="row 1 of memories"):
        agentmem.restore(backup, store)
    assert contents(tmp_path) == before


def test_what_is_no_backup_is_refused(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a store" * 100)
    with pytest.raises(NotAStore):
        agentmem.restore(other, store)
    with pytest.raises(FileUnreadable):
        agentmem.restore(tmp_path / "missing.db", store)
    with pytest.raises(InvalidInput, match="itself"):
        agentmem.restore(store, store)
    assert ids(store) == ["one", "two"]


def test_something_else_at_the_stores_path_is_not_replaced(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a store" * 100)
    with pytest.raises(NotAStore):
        agentmem.restore(tmp_path / "backup.db", other)
    assert other.read_text() == "not a store" * 100


def test_the_command_line_restores(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli = Cli(store, monkeypatch)
    backup = str(store.with_name("backup.db"))
    write_and_be_killed(store, 0, 3)
    shutil.copy(backup, store)
    assert cli("list").code == 4
    assert "restore" in cli("list").err
    refused = cli("restore", backup)
    assert refused.code == 2
    assert "--yes" in refused.err
    done = cli("restore", backup, "--yes", "--json")
    assert done.code == 0
    assert done.json["memories"] == 2
    assert Path(done.json["set_aside"]).exists()
    assert cli("list", "--user", "ann", "--json").json["count"] == 2
