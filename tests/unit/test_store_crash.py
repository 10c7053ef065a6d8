"""What was acknowledged survives: kill -9, power cuts, a full disk, a folder that is read-only."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentmem.base.errors import RecordNotFound, StoreError
from agentmem.base.filters import Selection
from agentmem.base.types import Scope
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Durability
from tests.unit.power_cut import Disk, Driver
from tests.unit.store_samples import NOW, SPACE, entry

ROOT = Path(__file__).resolve().parents[2]
ANN = Scope(user_id="ann")


class Acknowledged:
    """What a child said it had done, and the one thing it was doing when it died."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.deleted: set[str] = set()
        self.erased: set[str] = set()
        self.doing: list[str] = []

    def hear(self, lines: list[str]) -> None:
        self.doing = []
        for line in lines:
            if line.startswith("?"):
                self.doing = line[2:].split()
            elif line != "ready":
                self.apply(line.split())
                self.doing = []

    def apply(self, words: list[str]) -> None:
        match words:
            case ["put", *ids]:
                self.texts.update((i, f"text of {i}") for i in ids)
            case ["update", memory_id, number]:
                self.texts[memory_id] = f"update {number}"
            case ["delete", memory_id]:
                self.deleted.add(memory_id)
            case ["erase", memory_id]:
                self.erased.add(memory_id)
                self.deleted.discard(memory_id)
                del self.texts[memory_id]

    def after(self) -> Acknowledged:
        """The same with what was being done done."""
        other = Acknowledged()
        other.texts, other.deleted, other.erased = (
            dict(self.texts), set(self.deleted), set(self.erased),
        )  # fmt: skip
        other.apply(self.doing)
        return other


def stored(store: SqliteStore) -> tuple[dict[str, str], set[str]]:
    found = list(store.scan(Selection(reader=ANN, deleted=True, superseded=True)))
    return {m.id: m.text for m in found}, {m.id for m in found if m.deleted_at is not None}


def check(path: Path, acknowledged: Acknowledged) -> Acknowledged:
    """The store holds what was acknowledged, or that and all of the write that was cut off."""
    with SqliteStore(path) as store:
        assert store.upkeep.verify().problems == ()
        texts, deleted = stored(store)
        outcomes = [acknowledged, acknowledged.after()] if acknowledged.doing else [acknowledged]
        matching = [o for o in outcomes if (o.texts, o.deleted) == (texts, deleted)]
        assert matching, (acknowledged.doing, set(acknowledged.texts.items()) ^ set(texts.items()))
        rows = {store.row_of(ANN, memory_id) for memory_id in texts}
        assert set(store.feed.index_rows().rows.tolist()) == rows
        assert set(store.feed.vectors(SPACE)[0].tolist()) == rows
        for memory_id in matching[0].erased:
            with pytest.raises(RecordNotFound):
                store.get(ANN, memory_id, deleted=True)
    return matching[0]


def run_and_kill(path: Path, seed: int, acknowledged: Acknowledged, after_seconds: float) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.unit.crash_child", str(path), str(seed)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert child.stdout is not None
    with child.stdout as pipe:
        lines = [pipe.readline().rstrip("\n")]
        assert lines == ["ready"]
        deadline = time.monotonic() + after_seconds
        while time.monotonic() < deadline:
            lines.append(pipe.readline().rstrip("\n"))
        os.kill(child.pid, signal.SIGKILL)
        lines += [line for line in pipe.read().split("\n") if line]
    child.wait()
    acknowledged.hear(lines)


def kill_many_times(path: Path, times: int, source: random.Random) -> None:
    state = Acknowledged()
    for _ in range(times):
        run_and_kill(path, source.randrange(10**9), state, source.uniform(0, 0.2))
        state = check(path, state)
        state.doing = []
    assert state.texts


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    kill_many_times(tmp_path / "store.db", 10, random.Random(7))


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_killed_many_times(tmp_path: Path, part: int) -> None:
    kill_many_times(tmp_path / "store.db", 100, random.Random(100 + part))


# Power cuts


def write_until_the_power_goes(
    folder: Path, seed: int, *, durability: Durability = "full"
) -> tuple[Disk, Acknowledged]:
    """Random writes to a store on a disk that loses power at a random moment."""
    source = random.Random(seed)
    disk = Disk(folder, operations_left=source.randrange(5, source.choice((60, 500, 500, 2000))))
    driver = Driver(disk)
    store = SqliteStore(folder / "store.db", connect=driver, durability=durability)
    state = Acknowledged()
    known: list[str] = []
    try:
        for number in range(200):
            choice = source.random()
            if choice < 0.6 or not known:
                batch = [f"{number}-{i}" for i in range(source.choice((1, 1, 20)))]
                state.doing = ["put", *batch]
                store.put([entry(i, f"text of {i}", session="s") for i in batch])
                known += batch
            elif choice < 0.8:
                state.doing = ["update", source.choice(known), str(number)]
                store.update(ANN, entry(state.doing[1], f"update {number}", session="s"), at=NOW)
            elif choice < 0.95:
                state.doing = ["delete", known.pop(source.randrange(len(known)))]
                store.delete(ANN, state.doing[1:], at=NOW)
            else:
                state.doing = ["erase", known.pop(source.randrange(len(known)))]
                store.erase(ANN, state.doing[1:], at=NOW)
            state.apply(state.doing)
            state.doing = []
    except StoreError:
        assert disk.dead
    store.close()
    driver.close()
    return disk, state


def after_the_cut(disk: Disk, folder: Path, seed: int) -> Path:
    """The files as they may be found; the mark, which is not synced, as late as it can be."""
    found = folder / "found"
    found.mkdir()
    disk.save_torn(found, random.Random(seed))
    mark = folder / "store.db-mark"
    if mark.exists():
        shutil.copy(mark, found)
    return found / "store.db"


def check_power_cuts(work: Path, seeds: range) -> None:
    for seed in seeds:
        folder = work / str(seed)
        folder.mkdir()
        disk, state = write_until_the_power_goes(folder, seed)
        check(after_the_cut(disk, folder, seed), state)
        shutil.rmtree(folder)


def test_a_power_cut_takes_nothing_acknowledged(tmp_path: Path) -> None:
    check_power_cuts(tmp_path, range(50))


@pytest.mark.deep
@pytest.mark.parametrize("part", range(10))
def test_many_power_cuts(tmp_path: Path, part: int) -> None:
    check_power_cuts(tmp_path, range(1000 + part * 200, 1200 + part * 200))


def test_a_torn_first_page_is_mended_from_the_log(tmp_path: Path) -> None:
    """Seed 1401 of the long run: the cut came while the log was moved into the file."""
    check_power_cuts(tmp_path, range(1401, 1402))


def test_normal_durability_may_lose_the_last_writes_and_nothing_else(tmp_path: Path) -> None:
    """Also shows that the simulated disk can lose something at all."""
    lost = 0
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        disk, state = write_until_the_power_goes(folder, seed, durability="normal")
        with SqliteStore(after_the_cut(disk, folder, seed)) as store:
            assert store.upkeep.verify().problems == ()
            texts, _ = stored(store)
        lost += bool(set(state.texts) - set(texts))
    assert lost > 5
