"""The store's promises, over every store."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from agentmem.base.errors import DuplicateRecord, InvalidInput, RecordNotFound, StoreError
from agentmem.base.filters import Selection, parse_filter
from agentmem.base.types import Memory, Scope
from agentmem.stores.base import Store
from agentmem.stores.jsonl import export_jsonl
from agentmem.stores.sqlite.schema import MIGRATIONS
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import Artifact, Entry, IndexFile, SnapshotRecord, Source
from tests.entries import make_entry
from tests.properties.erasure_model import DEED, ERASURE, Life, bytes_of
from tests.properties.store_model import (
    MemoryMachine,
    PostgresMachine,
    SqliteMachine,
    StoreMachine,
    fresh_folder,
)
from tests.properties.store_strategies import SPACES, entries, filters, memories, scopes
from tests.properties.strategies import texts
from tests.unit.power_cut import Disk, Driver
from tests.unit.store_samples import ANN, NOW, entry, everything, fill
from tests.unit.test_store_crash import Acknowledged, after_the_cut, check


@pytest.mark.parametrize("machine", [SqliteMachine, MemoryMachine, PostgresMachine])
def test_any_sequence_of_operations_agrees_with_a_dictionary(
    machine: type[StoreMachine],
) -> None:
    """P23 Model. Any sequence of add, update, supersede, delete, erase, search, sync, reopen agrees with a plain dictionary, for every store."""
    most = settings().max_examples // machine.slower
    run_state_machine_as_test(machine, settings=settings(stateful_step_count=20, max_examples=most))


@contextmanager
def both_stores() -> Iterator[tuple[Store, Store]]:
    """An empty store of each kind."""
    folder = fresh_folder()
    try:
        with SqliteStore(folder / "store.db") as sqlite, SqliteStore(":memory:") as memory:
            yield sqlite, memory
    finally:
        shutil.rmtree(folder)


def private(memory: Memory, scope: Scope) -> Memory:
    return replace(memory, scope=scope, visibility="private")


@given(
    batch=st.lists(entries(), min_size=1, max_size=4, unique_by=lambda e: e.memory.id),
    owner=scopes(),
    stranger=scopes(),
    other=entries(),
    written=filters(),
)
def test_a_stranger_sees_counts_and_changes_nothing(
    batch: list[Entry], owner: Scope, stranger: Scope, other: Entry, written: dict[str, Any]
) -> None:
    """D1 Store scope. No read, count, change or erasure in the store reaches another user's private memories."""
    assume(owner.user_id != stranger.user_id)
    own = [replace(e, memory=private(e.memory, owner)) for e in batch]
    ids = [e.memory.id for e in own]
    where = parse_filter(written)
    with both_stores() as stores:
        for store in stores:
            rows = store.put(own)
            store.put([replace(other, memory=replace(private(other.memory, stranger), id="own"))])
            before = store.feed.texts(rows)
            everything = Selection(reader=stranger, where=where, deleted=True, superseded=True)
            assert [m.id for m in store.scan(replace(everything, where=parse_filter(None)))] == [
                "own"
            ]
            assert store.get_many(stranger, ids) == ()
            assert store.get_rows(stranger, rows) == {}
            assert store.count(everything) <= 1
            assert store.upkeep.stats(stranger).chunks == 1
            assert not set(store.visible_owners(stranger)) & set(store.visible_owners(owner)) - (
                set(store.feed.index_rows(rows=[store.row_of(stranger, "own")]).owner)
            )
            mine = replace(other, memory=private(other.memory, stranger))
            for memory_id in ids:
                for attempt in attempts(store, stranger, memory_id, mine):
                    with pytest.raises(RecordNotFound):
                        attempt()
            assert store.record_usage(stranger, ids, at=NOW, cited=1) == 0
            store.delete_all(Selection(reader=stranger, where=where), at=NOW)
            store.remove_by_source_url(stranger, own[0].memory.source_url, at=NOW)
            store.erase_all(everything, at=NOW)
            assert store.feed.texts(rows) == before


def attempts(
    store: Store, stranger: Scope, memory_id: str, mine: Entry
) -> tuple[Callable[[], object], ...]:
    """Everything that names a memory by its id."""
    forged = replace(mine, memory=replace(mine.memory, id=memory_id))
    return (
        lambda: store.get(stranger, memory_id, deleted=True),
        lambda: store.history(stranger, memory_id),
        lambda: store.row_of(stranger, memory_id),
        lambda: store.delete(stranger, ["own", memory_id], at=NOW),
        lambda: store.erase(stranger, ["own", memory_id], at=NOW),
        lambda: store.restore(stranger, [memory_id]),
        lambda: store.unsupersede(stranger, memory_id),
        lambda: store.links.of(stranger, memory_id),
        lambda: store.mark_superseded(stranger, memory_id, "own", at=NOW),
        lambda: store.supersede(stranger, memory_id, mine, at=NOW),
        lambda: store.update(stranger, forged, at=NOW),
    )


@given(
    contents=st.lists(
        st.tuples(st.sampled_from("12"), st.lists(texts(5), max_size=3)), min_size=1, max_size=5
    ),
    source=memories(),
)
def test_a_source_has_the_chunks_of_its_newest_content(
    contents: list[tuple[str, list[str]]], source: Memory
) -> None:
    """D2 Source replacement. Storing the same content of a url again changes nothing; other content leaves only its own chunks."""
    with both_stores() as stores:
        for store in stores:
            newest, number = "", 0
            chunks: list[str] = []
            for content_hash, pieces in contents:
                made = []
                for position, text in enumerate(pieces):
                    number += 1
                    memory = replace(
                        source, id=f"c{number}", text=text, source_url="u", position=position
                    )
                    made.append(make_entry(memory))
                whole = Source(
                    url="u", content_hash=content_hash, scope=source.scope,
                    visibility=source.visibility,
                )  # fmt: skip
                report = store.replace_source(whole, made, at=NOW)
                assert report.unchanged == (content_hash == newest)
                if content_hash != newest:
                    assert report.removed == len(chunks)
                    newest, chunks = content_hash, pieces
                found = store.search_by_source_url(source.scope, "u")
                assert [m.text for m in found] == chunks
                assert [s.content_hash for s in store.upkeep.sources(source.scope)] == [newest]


@given(
    edges=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12),
    put_edges=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=4),
)
def test_no_memory_ever_stands_for_itself(
    edges: list[tuple[int, int]], put_edges: list[tuple[int, int]]
) -> None:
    """D3 No circle of supersession. Whatever is superseded by whatever, following the newer memory always ends."""
    with both_stores() as stores:
        for store in stores:
            reader = Scope()
            store.put(make_entry(Memory(id=str(n), text="", created_at=NOW)) for n in range(6))
            for old, new in edges:
                with suppress(InvalidInput):
                    store.mark_superseded(reader, str(old), str(new), at=NOW)
            for number, (old, new) in enumerate(put_edges):
                memory = Memory(
                    id=str(6 + number), text="", created_at=NOW, supersedes=str(old),
                    superseded_by=str(new),
                )  # fmt: skip
                with suppress(InvalidInput):
                    store.put([make_entry(memory)])
            found = list(store.scan(Selection(reader=reader, superseded=True)))
            newer: dict[str, set[str]] = {}
            for m in found:
                newer.setdefault(m.id, set()).update(filter(None, [m.superseded_by]))
                newer.setdefault(m.supersedes or "none", set()).add(m.id)
            for start, direct in newer.items():
                seen: set[str] = set()
                waiting = list(direct)
                while waiting:
                    current = waiting.pop()
                    assert current != start
                    if current not in seen:
                        seen.add(current)
                        waiting += newer.get(current, ())


@given(
    operations=st.lists(
        st.tuples(
            st.sampled_from(("put", "put", "put", "update", "delete", "erase")), st.integers(0, 9)
        ),
        min_size=1,
        max_size=8,
    ),
    operations_left=st.integers(0, 160),
    seed=st.integers(0, 2**32),
)
def test_a_power_cut_at_any_moment_takes_nothing_acknowledged(
    operations: list[tuple[str, int]], operations_left: int, seed: int
) -> None:
    """P25 Durability. Every acknowledged write is there after the process or the power is cut at any moment; the store opens; rows, terms and vectors agree."""
    folder = fresh_folder()
    try:
        disk = Disk(folder, operations_left=operations_left)
        driver = Driver(disk)
        state = Acknowledged()
        with SqliteStore(folder / "store.db", connect=driver) as store:
            try:
                for number, (what, which) in enumerate(operations):
                    live = sorted(set(state.texts) - state.deleted)
                    if what == "put" or not live:
                        state.doing = ["put", f"{number}", f"{number}b"]
                        store.put([entry(i, f"text of {i}", session="s") for i in state.doing[1:]])
                    elif what == "update":
                        state.doing = ["update", live[which % len(live)], str(number)]
                        changed = entry(state.doing[1], f"update {number}", session="s")
                        store.update(ANN, changed, at=NOW)
                    else:
                        state.doing = [what, live[which % len(live)]]
                        change = store.delete if what == "delete" else store.erase
                        change(ANN, state.doing[1:], at=NOW)
                    state.apply(state.doing)
                    state.doing = []
            except StoreError:
                assert disk.dead
        driver.close()
        check(after_the_cut(disk, folder, seed), state)
    finally:
        shutil.rmtree(folder)


NEEDLES = ("Nadel-äöü-7531", "針を探す文字列八", 'n33dle]]>\x00quote"s\\')


@given(
    needle=st.sampled_from(NEEDLES) | st.text(min_size=8, max_size=40),
    length=st.sampled_from((1, 1, 30, 400)),
    others=st.lists(entries(), max_size=3, unique_by=lambda e: e.memory.id),
    way=st.sampled_from(("erase", "erase_all", "purge")),
    moved=st.booleans(),
)
def test_erased_words_are_in_no_file(
    needle: str, length: int, others: list[Entry], way: str, moved: bool
) -> None:
    """P26 Erasure. After `erase`, the text is in no file of the store, no search, snapshot, level, cache or export."""
    assume(not any(needle in repr(e.memory) or needle in ascii(e.memory) for e in others))
    assume(len(set(needle)) > 3)
    assume(not any(needle in statement for step in MIGRATIONS for statement in step))
    folder = fresh_folder()
    try:
        path = folder / "kept" / "store.db"
        with SqliteStore(path) as store:
            plant(store, needle, length, folder)
            with suppress(DuplicateRecord):
                store.put(others)
            if moved:  # pages are rearranged, which leaves copies behind
                store.put([entry(f"x{n}", "x" * 700, position=n) for n in range(40)])
                for number in range(0, 40, 4):
                    store.update(ANN, entry(f"x{number}", "y" * 1900), at=NOW)
            before = export_of(store, folder)
            assert json.dumps(needle, ensure_ascii=False)[1:-1] in before
            if way == "erase":
                receipt = store.erase(ANN, ["secret", "page"], at=NOW)
                assert receipt.complete
                assert receipt.index_files == ("store.db.words",)
            elif way == "erase_all":
                assert store.erase_all(Selection(reader=ANN), at=NOW).complete
            else:
                store.delete(ANN, ["secret", "page"], at=NOW)
                store.upkeep.purge(deleted_before=NOW + timedelta(days=1))
            after = export_of(store, folder)
            assert json.dumps(needle, ensure_ascii=False)[1:-1] not in after
            assert store.snapshots.list(ANN) == ()
            assert store.artifacts.list(ANN) == ()
            assert store.jobs.counts()["waiting"] == 0
            # A copy, because closing any descriptor of an open store would drop its locks.
            found = subprocess_free_copy(path.parent, folder / "copy")
        for file in (*found, *path.parent.iterdir()):
            content = file.read_bytes()
            for part in (
                needle,
                json.dumps(needle, ensure_ascii=False)[1:-1],
                json.dumps(needle)[1:-1],
            ):
                assert part.encode() not in content, file.name
    finally:
        shutil.rmtree(folder)


@given(
    deeds=st.lists(DEED, min_size=1, max_size=6),
    how=ERASURE,
    which=st.integers(0, 99),
)
def test_what_was_made_of_erased_words_is_in_no_file_either(
    deeds: list[tuple[str, int]], how: str, which: int
) -> None:
    """The same over a life at random: derived memories and traces go with their source."""
    folder = fresh_folder()
    life = Life(folder / "kept" / "memory.db")
    try:
        for deed, number in deeds:
            life.do(deed, number)
        gone = life.erase(how, which)
        told = {word[:7].encode(): word for word in gone}
        for moment in ("open", "closed"):
            for name, content in bytes_of(life.path.parent, folder / moment):
                for needle in told:
                    assert needle not in content, (moment, name)
            life.close()
    finally:
        life.close()
        shutil.rmtree(folder)


def plant(store: SqliteStore, needle: str, length: int, folder: Path) -> None:
    """Put the needle wherever a store can keep text."""
    del folder
    text = f"The secret is {needle}. " * length
    fields: dict[str, Any] = {
        "title": f"T {needle}",
        "heading_path": (f"H {needle}",),
        "metadata": {needle: {"deep": [needle]}},
        "summary": needle,
        "compressed": f"c{needle}",
        "index": f"i{needle}",
    }
    secret = entry("secret", text, speaker=needle, session=needle, **fields)
    page = entry("page", text, source_url=f"https://e.x/{needle}", position=0, **fields)
    store.put([secret])
    store.replace_source(
        Source(url=f"https://e.x/{needle}", content_hash="1", title=needle, scope=ANN),
        [page],
        at=NOW,
    )
    store.update(ANN, replace(secret, memory=replace(secret.memory, text=text + "!")), at=NOW)
    store.snapshots.put(
        SnapshotRecord(
            id="t", created_at=NOW, data={"shown": text}, mentions=("secret",), scope=ANN
        )
    )
    store.artifacts.put(Artifact(id="r", created_at=NOW, data=(text + "!").encode(), scope=ANN))
    store.jobs.enqueue("index", {"id": "secret", "text": text}, at=NOW, scope=ANN)
    index = store.path.with_name(f"{store.path.name}.words")
    index.write_bytes(needle.encode())
    store.feed.keep_index_file(IndexFile(name=index.name, sha256="", seq=store.feed.seq()))


def export_of(store: Store, folder: Path) -> str:
    export_jsonl(store, folder / "all.jsonl", deleted=True, vectors=True)
    written = (folder / "all.jsonl").read_text(encoding="utf-8")
    (folder / "all.jsonl").unlink()
    return written


def subprocess_free_copy(folder: Path, target: Path) -> list[Path]:
    target.mkdir()
    subprocess.run(["cp", "-r", *map(str, folder.iterdir()), str(target)], check=True)
    return list(target.iterdir())


@given(batch=st.lists(entries(), min_size=1, max_size=4, unique_by=lambda e: e.memory.id))
def test_two_vector_spaces_never_mix(batch: list[Entry]) -> None:
    """D4 Vector spaces. Vectors of one embedder are never given for another, while a new one is filled in, resumed or dropped."""
    old, new = SPACES
    with both_stores() as stores:
        for store in stores:
            store.put(
                [replace(e, vectors=tuple(v for v in e.vectors if v[0] == old)) for e in batch]
            )
            kept = store.feed.vectors(old)
            while rows := store.feed.missing_vectors(new, limit=1):
                marked = np.full((len(rows), new.dimensions), 7, np.float32)
                store.feed.put_vectors(new, rows, marked)
                assert np.array_equal(store.feed.vectors(old)[1], kept[1])
            found, matrix = store.feed.vectors(new)
            assert len(found) == len(batch)
            assert np.allclose(matrix, 7, rtol=0.01)  # one byte a number
            assert store.feed.drop_vectors(old) == len(kept[0])
            assert len(store.feed.vectors(old)[0]) == 0
            assert len(store.feed.vectors(new)[0]) == len(batch)


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    path = tmp_path_factory.mktemp("whole") / "store.db"
    with SqliteStore(path) as store:
        fill(store, size=12)
        answers = everything(store)
    return path.read_bytes(), answers


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255))
def test_a_changed_byte_never_changes_an_answer(
    damaged: tuple[bytes, dict[str, Any]], place: float, change: int
) -> None:
    """D5 Damage. A byte changed anywhere in the file gives an error or the same answers, never others."""
    content, answers = damaged
    folder = fresh_folder()
    try:
        altered = bytearray(content)
        altered[int(place * len(content))] ^= change
        (folder / "store.db").write_bytes(altered)
        with SqliteStore(folder / "store.db") as store, suppress(StoreError):
            assert everything(store) == answers
    finally:
        shutil.rmtree(folder)
