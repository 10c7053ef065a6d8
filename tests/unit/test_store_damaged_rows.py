"""Damage in a store too large to be checked when it is opened: each row is named, the rest kept."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import agentmem
from agentmem.base.errors import IncompleteExport, StoreCorrupt
from agentmem.stores.jsonl import export_jsonl, import_jsonl
from agentmem.stores.sqlite.store import SqliteStore
from tests.entries import make_entry
from tests.unit.cli_running import Cli
from tests.unit.store_samples import ANN, NOW, entry

COUNT = 400


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Above 8 MiB, so that opening it checks nothing."""
    path = tmp_path_factory.mktemp("large") / "store.db"
    with SqliteStore(path) as store:
        store.put([entry(f"m{n}", f"{n} " + "text " * 5000) for n in range(1, COUNT + 1)])
        store.update(ANN, entry("m5", "changed"), at=NOW)
    assert path.stat().st_size > 8 << 20
    return path


@pytest.fixture
def store(large: Path, tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    path.write_bytes(large.read_bytes())
    return path


def run(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def break_pages(path: Path) -> None:
    """Overwrite what one row's text is kept on, and a page of the table itself."""
    content = bytearray(path.read_bytes())
    at = content.index(b"77 text text")
    content[at : at + 20] = b"\xff" * 20
    path.write_bytes(content)


def break_a_leaf(path: Path) -> None:
    """Make a page of the memories table unreadable, which takes several rows at once."""
    content = bytearray(path.read_bytes())
    at = content.index(b"m200") // 4096 * 4096
    assert content[at] == 0x0D
    content[at : at + 100] = b"\x07" * 100
    path.write_bytes(content)


DAMAGES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "another text": (lambda p: run(p, "UPDATE memories SET text = 'x' WHERE id = 'm7'"), {"m7"}),
    "two rows": (
        lambda p: run(p, "UPDATE memories SET importance = 1 WHERE id IN ('m7', 'm300')"),
        {"m7", "m300"},
    ),
    "not text": (
        lambda p: run(p, "UPDATE memories SET text = CAST(x'ff00ff' AS TEXT) WHERE id = 'm9'"),
        {"m9"},
    ),
    "not JSON": (lambda p: run(p, "UPDATE memories SET metadata = '{' WHERE id = 'm9'"), {"m9"}),
    "a number too large": (
        lambda p: run(p, f"UPDATE memories SET created_at = {2**62} WHERE id = 'm9'"), {"m9"},
    ),
    "a row is gone": (lambda p: run(p, "DELETE FROM memories WHERE id = 'm11'"), {"m11"}),
    "terms are gone": (lambda p: run(p, "DELETE FROM indexed WHERE row = 11"), set()),
    "terms are another type": (lambda p: run(p, "UPDATE indexed SET data = 3 WHERE row = 2"), set()),
    "a vector is damaged": (lambda p: run(p, "UPDATE embeddings SET data = x'00'"), set()),
    "owners are gone": (
        lambda p: run(p, "DELETE FROM owners"), {f"m{n}" for n in range(1, COUNT + 1)},
    ),
    "bytes of a text": (break_pages, {"m77"}),
}  # fmt: skip


def exported(path: Path) -> set[str]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert "end" in lines[-1]
    return {line["memory"]["id"] for line in lines if "memory" in line}


EVERYBODY = {f"m{n}" for n in range(1, COUNT + 1)}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_named_by_verify_and_by_an_export_that_goes_on(
    store: Path, tmp_path: Path, damage: str
) -> None:
    make, lost = DAMAGES[damage]
    make(store)
    with SqliteStore(store) as opened:
        report = opened.upkeep.verify()
        assert not report.ok
        for memory_id in lost if len(lost) < 5 else ():
            assert any(f"row {memory_id[1:]} " in problem for problem in report.problems)
        for scope in (None, ANN):
            target = tmp_path / f"{scope is None}.jsonl"
            missing: tuple[str, ...] = ()
            with suppress(IncompleteExport) if not lost else pytest.raises(IncompleteExport) as e:
                assert export_jsonl(opened, target, scope=scope, vectors=True) == COUNT
            if e is not None:
                missing = e.value.missing
                assert e.value.exported == COUNT - len(lost)
            assert exported(target) == EVERYBODY - lost
            for memory_id in lost if len(lost) < 5 else ():
                assert any(f"row {memory_id[1:]}:" in one for one in missing)


def test_a_page_of_the_table_that_cannot_be_read_takes_only_its_own_rows(
    store: Path, tmp_path: Path
) -> None:
    break_a_leaf(store)
    with SqliteStore(store) as opened:
        assert len(opened.upkeep.verify().problems) > 1
        with pytest.raises(IncompleteExport) as raised:
            export_jsonl(opened, tmp_path / "out.jsonl")
    there = exported(tmp_path / "out.jsonl")
    assert "m200" not in there
    assert len(there) == raised.value.exported > COUNT - 50
    with SqliteStore(":memory:") as other:  # what is left can be used
        taken = import_jsonl(other, tmp_path / "out.jsonl", analyse=make_entry)
        assert (taken.imported, taken.bad_lines) == (len(there), ())


def test_two_damaged_tables_are_both_reported(store: Path) -> None:
    run(
        store,
        "UPDATE memories SET title = 'x' WHERE row IN (3, 4)",
        "UPDATE history SET data = '{' WHERE row = 5",
        "UPDATE owners SET user_id = 'eve'",
    )
    with SqliteStore(store) as opened:
        said = "\n".join(opened.upkeep.verify().problems)
    for wanted in ("row 3 of memories", "row 4 of memories", "row 1 of history", "of owners"):
        assert wanted in said


def test_lost_versions_are_said_and_the_memory_kept(store: Path, tmp_path: Path) -> None:
    run(store, "UPDATE history SET data = '{' WHERE row = 5")
    with SqliteStore(store) as opened, pytest.raises(IncompleteExport, match="earlier versions"):
        export_jsonl(opened, tmp_path / "out.jsonl")
    assert exported(tmp_path / "out.jsonl") == EVERYBODY


def test_a_whole_store_is_exported_without_a_word(store: Path, tmp_path: Path) -> None:
    with agentmem.open(store, embedder=None) as memory:
        assert memory.upkeep.verify().ok
        assert memory.upkeep.export_jsonl(tmp_path / "out.jsonl") == COUNT


def test_the_command_line_says_what_is_missing_and_fails(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, "UPDATE memories SET title = 'x' WHERE row IN (3, 4)")
    cli = Cli(store, monkeypatch)
    ran = cli("export", str(tmp_path / "out.jsonl"))
    assert ran.code == 4
    assert "row 3" in ran.err
    assert "row 4" in ran.err
    assert len(exported(tmp_path / "out.jsonl")) == COUNT - 2
    streamed = cli("export", "-")
    assert streamed.code == 4
    assert len(streamed.out.splitlines()) == COUNT
    assert (
        cli("export", str(tmp_path / "other.jsonl"), "--json").error["type"] == "IncompleteExport"
    )


def test_a_row_that_was_read_before_is_checked_again_when_it_differs(store: Path) -> None:
    with SqliteStore(store) as opened:
        opened.get_rows(ANN, [7])  # whose it is
        before = opened.get_rows(ANN, [7])
        assert opened.get_rows(ANN, [7])[7] is before[7]  # nothing changed: not made anew
        run(store, "UPDATE memories SET text = 'other words' WHERE row = 7")
        with pytest.raises(StoreCorrupt):
            opened.get_rows(ANN, [7])
        assert list(opened.get_rows(ANN, [8])) == [8]


def test_usage_that_changed_is_seen_in_a_row_that_was_read_before(store: Path) -> None:
    with SqliteStore(store) as opened:
        for _ in range(2):  # the first finds out whose it is, the second is kept
            assert opened.get_rows(ANN, [7])[7].usage.retrieved == 0
        opened.record_usage(ANN, ["m7"], at=NOW, retrieved=1)
        assert opened.get_rows(ANN, [7])[7].usage.retrieved == 1
