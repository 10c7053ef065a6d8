"""A byte changed anywhere in any file: an error or the same answers, never a wrong one."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentmem.base.errors import StoreCorrupt, StoreError
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.store_samples import everything, fill

ROOT = Path(__file__).resolve().parents[2]
CASES = 100
DEEP_CASES = 2000
WITHOUT_CLOSING = """
import os, sys
from agentmem.stores.sqlite.store import SqliteStore
from tests.unit.store_samples import fill
store = SqliteStore(sys.argv[1])
fill(store)
os._exit(0)
"""


@pytest.fixture(scope="module")
def closed_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("closed")
    with SqliteStore(folder / "store.db") as store:
        fill(store)
        answers = everything(store)
    return folder, answers


@pytest.fixture(scope="module")
def killed_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A store whose process went without closing it, so that most of it is in the log."""
    folder = tmp_path_factory.mktemp("killed")
    path = folder / "store.db"
    subprocess.run([sys.executable, "-c", WITHOUT_CLOSING, str(path)], check=True, cwd=ROOT)
    copy = folder / "copy"
    copy.mkdir()
    for file in folder.glob("store.db*"):
        shutil.copy(file, copy)
    with SqliteStore(copy / "store.db") as store:
        answers = everything(store)
    shutil.rmtree(copy)
    assert (folder / "store.db-wal").stat().st_size > 10_000
    return folder, answers


def flip(path: Path, source: random.Random) -> str:
    content = bytearray(path.read_bytes())
    place = source.randrange(len(content))
    before = content[place]
    content[place] ^= source.randrange(1, 256)
    path.write_bytes(content)
    return f"{path.name} byte {place}: {before:#x} -> {content[place]:#x}"


def check_flips(
    original: Path, answers: dict[str, Any], *, suffixes: tuple[str, ...], seeds: range, work: Path
) -> int:
    refused = 0
    for seed in seeds:
        source = random.Random(seed)
        folder = work / str(seed)
        folder.mkdir()
        for file in original.glob("store.db*"):
            shutil.copy(file, folder)
        what = flip(folder / f"store.db{source.choice(suffixes)}", source)
        try:
            with SqliteStore(folder / "store.db") as store:
                found = everything(store)
        except StoreError:
            refused += 1
        else:
            assert found == answers, (seed, what)
        shutil.rmtree(folder)
    return refused


def test_a_flipped_byte_in_the_file_is_refused_or_harmless(
    closed_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    refused = check_flips(*closed_store, suffixes=("",), seeds=range(CASES), work=tmp_path)
    assert refused > CASES // 20  # the test can see damage


def test_a_flipped_byte_beside_a_killed_process_is_refused_or_harmless(
    killed_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    suffixes = ("", "-wal", "-wal", "-wal", "-shm", "-mark")
    refused = check_flips(*killed_store, suffixes=suffixes, seeds=range(CASES), work=tmp_path)
    assert refused > CASES // 10


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_many_flipped_bytes(
    closed_store: tuple[Path, dict[str, Any]],
    killed_store: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    part: int,
) -> None:
    step = DEEP_CASES // 10
    seeds = range(CASES + part * step, CASES + (part + 1) * step)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    check_flips(*closed_store, suffixes=("",), seeds=seeds, work=tmp_path / "a")
    check_flips(*killed_store, suffixes=("", "-wal"), seeds=seeds, work=tmp_path / "b")


def test_a_log_that_lost_an_acknowledged_write_is_refused_until_the_mark_is_removed(
    killed_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    for file in killed_store[0].glob("store.db*"):
        shutil.copy(file, tmp_path)
    log = tmp_path / "store.db-wal"
    log.write_bytes(log.read_bytes()[:-100])  # the last frame is cut
    for _ in range(2):  # refusing does not destroy the evidence
        store = SqliteStore(tmp_path / "store.db")
        with pytest.raises(StoreCorrupt, match="acknowledged writes are missing"):
            store.feed.seq()
        store.close()
    (tmp_path / "store.db-mark").unlink()
    with SqliteStore(tmp_path / "store.db") as store:
        assert store.upkeep.verify().ok


def test_a_row_that_vanished_is_noticed(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "store.db"
    with SqliteStore(path) as store:
        fill(store)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DELETE FROM memories WHERE id = 'm9'")
    connection.execute("DELETE FROM indexed WHERE row NOT IN (SELECT row FROM memories)")
    connection.execute("DELETE FROM embeddings WHERE key & 1099511627775 = 10")
    connection.close()
    store = SqliteStore(path, checked_below_bytes=0)
    for read in (store.feed.index_rows, lambda: everything(store)):
        with pytest.raises(StoreCorrupt):
            read()
    assert not store.upkeep.verify().ok
    store.close()
    with SqliteStore(path) as store, pytest.raises(StoreCorrupt):
        store.feed.seq()
