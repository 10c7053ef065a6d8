"""The truth a store is compared with: a plain dictionary, and the machine that drives both."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from agentmem.base.errors import DuplicateRecord, InvalidInput, InvalidScope, RecordNotFound
from agentmem.base.filters import Selection, parse_filter, selected
from agentmem.base.types import Memory, Scope, visible
from agentmem.stores.base import Store
from agentmem.stores.jsonl import export_jsonl, import_jsonl
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.values import (
    ERASED,
    Entry,
    IndexRows,
    Source,
    pack_vector,
    place_of,
)
from tests.entries import make_entry
from tests.properties.store_strategies import (
    IDS,
    SPACES,
    URLS,
    entries,
    filters,
    memories,
    scopes,
)
from tests.properties.strategies import instants
from tests.servers.postgres import fresh_tenant, postgres_store
from tests.unit.store_samples import NOW

SHARED_MEMORY = Path("/dev/shm")


def fresh_folder() -> Path:
    """A folder where syncing costs nothing, if the machine has one: commits are most of a run."""
    return Path(tempfile.mkdtemp(dir=SHARED_MEMORY if SHARED_MEMORY.is_dir() else None))


READERS = st.tuples(scopes(), st.sampled_from(IDS))


class Model:
    """The truth: rows and memories in dictionaries, nothing clever."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.memories: dict[str, Memory] = {}
        self.history: dict[str, list[Memory]] = {}
        self.sources: dict[tuple[Any, ...], str] = {}
        self.vectors: dict[Any, dict[str, bytes]] = {space: {} for space in SPACES}

    def add(self, entry: Entry, row: int) -> None:
        assert row > max(self.rows.values(), default=0), "rows only grow"
        self.rows[entry.memory.id] = row
        self.memories[entry.memory.id] = entry.memory
        for space, vector in entry.vectors:
            self.vectors[space][entry.memory.id] = vector

    def seen(self, scope: Scope) -> dict[str, Memory]:
        return {i: m for i, m in self.memories.items() if visible(m, scope)}

    def forget_sources(self) -> None:
        live = {
            (m.visibility, m.scope, m.source_url)
            for m in self.memories.values()
            if m.deleted_at is None
        }
        for key in [key for key in self.sources if key not in live]:
            if key in self.touched:
                del self.sources[key]

    touched: frozenset[Any] = frozenset()

    def hide(self, ids: list[str], at: datetime | None) -> None:
        for memory_id in ids:
            self.memories[memory_id] = replace(self.memories[memory_id], deleted_at=at)
        self.touch([self.memories[i] for i in ids])

    def touch(self, memories: list[Memory]) -> None:
        self.touched = frozenset((m.visibility, m.scope, m.source_url) for m in memories)
        self.forget_sources()

    def erase(self, ids: list[str]) -> None:
        gone = [self.memories[i] for i in ids]
        for memory_id in ids:
            del self.memories[memory_id], self.rows[memory_id]
            self.history.pop(memory_id, None)
            for vectors in self.vectors.values():
                vectors.pop(memory_id, None)
        for key, memory in self.memories.items():
            self.memories[key] = forgetting(memory, ids)
        for versions in self.history.values():
            versions[:] = [forgetting(memory, ids) for memory in versions]
        self.touch(gone)

    def previous(self) -> dict[int, int]:
        """For each row, the row before it in its strand among those not deleted."""
        found = dict.fromkeys(self.rows.values(), 0)
        for memory_id, memory in self.memories.items():
            if memory.deleted_at is None and (memory.source_url or memory.session):
                before = [
                    (place_of(m), self.rows[m.id])
                    for m in self.memories.values()
                    if (m.visibility, m.scope, m.source_url, m.session)
                    == (memory.visibility, memory.scope, memory.source_url, memory.session)
                    and m.deleted_at is None
                    and (place_of(m), self.rows[m.id]) < (place_of(memory), self.rows[memory_id])
                ]
                found[self.rows[memory_id]] = max(before, default=(0, 0))[1]
        return found


def forgetting(memory: Memory, ids: list[str]) -> Memory:
    for name in ("supersedes", "superseded_by"):
        if getattr(memory, name) in ids:
            memory = replace(memory, **{name: ERASED})  # type: ignore[arg-type]  # both are texts
    return memory


class StoreMachine(RuleBasedStateMachine):
    """Any sequence of operations, next to the dictionary."""

    slower = 1
    """A store over a socket is asked so many times fewer examples."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = fresh_folder()
        self.store: Store = self.open()
        self.model = Model()
        self.now = NOW
        self.seq = 0
        self.mirror: dict[int, tuple[Any, ...]] = {}

    def open(self) -> Store:
        raise NotImplementedError

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def tick(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now

    def reader(self, asking: tuple[Scope, str]) -> Scope:
        """The scope of the memory with that id, so that somebody sees something; or any scope."""
        scope, memory_id = asking
        found = self.model.memories.get(memory_id)
        return scope if found is None else found.scope

    # Writing

    @initialize(batch=st.lists(entries(), min_size=3, max_size=5, unique_by=lambda e: e.memory.id))
    def begin(self, batch: list[Entry]) -> None:
        self.put(batch)

    @rule(batch=st.lists(entries(), min_size=1, max_size=3))
    def put(self, batch: list[Entry]) -> None:
        ids = [entry.memory.id for entry in batch]
        if len(set(ids)) < len(ids) or self.model.rows.keys() & set(ids):
            with pytest.raises(DuplicateRecord):
                self.store.put(batch)
            return
        rows = self.store.put(batch)
        for entry, row in zip(batch, rows, strict=True):
            self.model.add(entry, row)

    @rule(entry=entries(), near=st.sampled_from(IDS))
    def put_beside(self, entry: Entry, near: str) -> None:
        """Another row of a strand that is there, before or after the others."""
        found = self.model.memories.get(near)
        if found is not None and entry.memory.id not in self.model.rows:
            beside = replace(
                entry.memory,
                scope=found.scope,
                visibility=found.visibility,
                source_url=found.source_url,
                session=found.session,
            )
            self.put([replace(entry, memory=beside)])

    @rule(entry=entries(), asking=READERS)
    def update(self, entry: Entry, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        old = self.model.seen(reader).get(entry.memory.id)
        if old is None or old.deleted_at is not None:
            with pytest.raises(RecordNotFound):
                self.store.update(reader, entry, at=self.now)
            return
        if not visible(entry.memory, reader):
            with pytest.raises(InvalidScope):
                self.store.update(reader, entry, at=self.now)
            return
        new = replace(
            entry.memory,
            usage=old.usage,
            supersedes=old.supersedes,
            superseded_by=old.superseded_by,
        )
        assert self.store.update(reader, entry, at=self.tick()) == new
        self.model.memories[new.id] = new
        self.model.history.setdefault(new.id, []).append(old)
        for space in SPACES:
            if new.text != old.text:
                self.model.vectors[space].pop(new.id, None)
        for space, vector in entry.vectors:
            self.model.vectors[space][new.id] = vector

    @rule(old_id=st.sampled_from(IDS), entry=entries(), asking=READERS)
    def supersede(self, old_id: str, entry: Entry, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        old = self.model.seen(reader).get(old_id)
        at = self.tick()
        if old is None or old.deleted_at is not None:
            expected: type[Exception] = RecordNotFound
        elif old.superseded_by is not None or old_id == entry.memory.id:
            expected = InvalidInput if old.superseded_by is not None else Exception
        elif entry.memory.id in self.model.rows:
            expected = Exception  # taken, or a circle: refused either way
        else:
            new = self.store.supersede(reader, old_id, entry, at=at)
            ended = old.valid_to if old.valid_to is not None and old.valid_to <= at else at
            self.model.memories[old_id] = replace(old, superseded_by=new.id, valid_to=ended)
            row = self.store.row_of(entry.memory.scope, new.id)
            self.model.add(replace(entry, memory=replace(entry.memory, supersedes=old_id)), row)
            return
        with pytest.raises(expected):
            self.store.supersede(reader, old_id, entry, at=at)

    @rule(old_id=st.sampled_from(IDS), new_id=st.sampled_from(IDS), asking=READERS)
    def mark_superseded(self, old_id: str, new_id: str, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        at = self.tick()
        seen = {i: m for i, m in self.model.seen(reader).items() if m.deleted_at is None}
        old, new = seen.get(old_id), seen.get(new_id)
        try:
            self.store.mark_superseded(reader, old_id, new_id, at=at)
        except (InvalidInput, RecordNotFound):
            return
        assert old is not None
        assert new is not None
        assert old.superseded_by is None
        ended = old.valid_to if old.valid_to is not None and old.valid_to <= at else at
        self.model.memories[old_id] = replace(old, superseded_by=new_id, valid_to=ended)
        if new.supersedes is None:
            self.model.memories[new_id] = replace(new, supersedes=old_id)

    @rule(old_id=st.sampled_from(IDS), asking=READERS)
    def unsupersede(self, old_id: str, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        old = self.model.seen(reader).get(old_id)
        if old is None or old.deleted_at is not None or old.superseded_by is None:
            with pytest.raises((InvalidInput, RecordNotFound)):
                self.store.unsupersede(reader, old_id)
            return
        self.store.unsupersede(reader, old_id)
        self.model.memories[old_id] = replace(old, superseded_by=None, valid_to=None)
        newer = self.model.memories.get(str(old.superseded_by))
        if newer is not None and newer.supersedes == old_id:
            self.model.memories[newer.id] = replace(newer, supersedes=None)

    @rule(ids=st.lists(st.sampled_from(IDS), max_size=2, unique=True), asking=READERS)
    def delete(self, ids: list[str], asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        seen = self.model.seen(reader)
        if any(i not in seen or seen[i].deleted_at is not None for i in ids):
            with pytest.raises(RecordNotFound):
                self.store.delete(reader, ids, at=self.now)
            return
        assert self.store.delete(reader, ids, at=self.tick()) == len(ids)
        self.model.hide(ids, self.now)

    @rule(memory_id=st.sampled_from(IDS), asking=READERS)
    def restore(self, memory_id: str, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        seen = self.model.seen(reader)
        if memory_id not in seen or seen[memory_id].deleted_at is None:
            with pytest.raises(RecordNotFound):
                self.store.restore(reader, [memory_id])
            return
        self.store.restore(reader, [memory_id])
        self.model.memories[memory_id] = replace(seen[memory_id], deleted_at=None)

    @rule(ids=st.lists(st.sampled_from(IDS), min_size=1, max_size=2, unique=True), asking=READERS)
    def erase(self, ids: list[str], asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        if any(i not in self.model.seen(reader) for i in ids):
            with pytest.raises(RecordNotFound):
                self.store.erase(reader, ids, at=self.now)
            return
        receipt = self.store.erase(reader, ids, at=self.now)
        assert receipt.complete or receipt.remains
        assert set(receipt.ids) == set(ids)
        self.model.erase(ids)

    @rule(written=filters(), asking=READERS, erase=st.booleans())
    def remove_selected(
        self, written: dict[str, Any], asking: tuple[Scope, str], erase: bool
    ) -> None:
        reader = self.reader(asking)
        selection = Selection(
            reader=reader, where=parse_filter(written), visibilities=("private", "project")
        )
        if erase:
            everything = replace(selection, deleted=True, superseded=True)
            ids = [i for i, m in self.model.memories.items() if selected(everything, m)]
            assert set(self.store.erase_all(selection, at=self.now).ids) == set(ids)
            self.model.erase(ids)
        else:
            ids = [i for i, m in self.model.memories.items() if selected(selection, m)]
            assert self.store.delete_all(selection, at=self.tick()) == len(ids)
            self.model.hide(ids, self.now)

    @rule(url=st.sampled_from(URLS[1:]), chunks=st.lists(entries(), max_size=2), data=st.data())
    def replace_source(self, url: str, chunks: list[Entry], data: st.DataObject) -> None:
        near = self.model.memories.get(data.draw(st.sampled_from(IDS)))
        owner = near or data.draw(memories())
        content_hash = data.draw(st.sampled_from(("1", "2")))
        source = Source(
            url=url, content_hash=content_hash, scope=owner.scope, visibility=owner.visibility
        )
        own = [
            replace(
                c,
                memory=replace(
                    c.memory, source_url=url, scope=owner.scope, visibility=owner.visibility
                ),
            )
            for c in chunks
        ]
        key = (owner.visibility, owner.scope, url)
        ids = [c.memory.id for c in own]
        unchanged = self.model.sources.get(key) == content_hash
        if len(set(ids)) < len(ids) or (not unchanged and self.model.rows.keys() & set(ids)):
            with pytest.raises(DuplicateRecord):
                self.store.replace_source(source, own, at=self.now)
            return
        report = self.store.replace_source(source, own, at=self.tick())
        assert report.unchanged == unchanged
        if unchanged:
            return
        old = [
            i
            for i, m in self.model.memories.items()
            if (m.visibility, m.scope, m.source_url) == key and m.deleted_at is None
        ]
        assert (report.added, report.removed) == (len(own), len(old))
        self.model.hide(old, self.now)
        for chunk in own:
            self.model.add(chunk, self.store.row_of(owner.scope, chunk.memory.id))
        self.model.sources[key] = content_hash

    @rule(url=st.sampled_from(URLS), asking=READERS)
    def remove_by_source_url(self, url: str, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        ids = [
            i
            for i, m in self.model.seen(reader).items()
            if m.source_url == url and m.deleted_at is None and m.visibility == "private"
        ]
        assert self.store.remove_by_source_url(reader, url, at=self.tick()) == len(ids)
        self.model.hide(ids, self.now)

    @rule(ids=st.lists(st.sampled_from(IDS), max_size=3), asking=READERS)
    def record_usage(self, ids: list[str], asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        seen = [m for i, m in self.model.seen(reader).items() if i in ids and m.deleted_at is None]
        at = self.tick()
        assert self.store.record_usage(reader, ids, at=at, retrieved=2, cited=1) == len(seen)
        for memory in seen:
            usage = replace(
                memory.usage,
                retrieved=memory.usage.retrieved + 2,
                cited=memory.usage.cited + 1,
                last_used_at=max(at, memory.usage.last_used_at or at),
            )
            self.model.memories[memory.id] = replace(memory, usage=usage)

    @rule(space=st.sampled_from(SPACES))
    def embed_missing(self, space: Any) -> None:
        live = [self.model.rows[i] for i, m in self.model.memories.items() if m.deleted_at is None]
        known = {self.model.rows[i] for i in self.model.vectors[space]}
        rows = self.store.feed.missing_vectors(space, limit=2)
        assert list(rows) == sorted(set(live) - known)[:2]
        vectors = np.ones((len(rows), space.dimensions), np.float32)
        assert self.store.feed.put_vectors(space, rows, vectors) == len(rows)
        assert self.store.feed.put_vectors(space, rows, vectors) == 0
        by_row = {row: i for i, row in self.model.rows.items()}
        for row in rows:
            self.model.vectors[space][by_row[row]] = pack_vector(space, vectors[0])

    # Upkeep

    @rule()
    def reopen(self) -> None:
        """A new process would see the same."""

    @rule()
    def sync(self) -> None:
        self.store.upkeep.sync(at=self.tick())
        assert self.store.upkeep.stats().last_sync == self.now

    @rule()
    def vacuum(self) -> None:
        self.store.upkeep.vacuum()

    @rule()
    def verify(self) -> None:
        assert self.store.upkeep.verify().problems == ()

    # Reading

    @rule(written=filters(), asking=READERS, data=st.data())
    def select(
        self, written: dict[str, Any], asking: tuple[Scope, str], data: st.DataObject
    ) -> None:
        reader = self.reader(asking)
        moments = st.none() | st.none() | instants()
        selection = Selection(
            reader=reader,
            where=data.draw(st.sampled_from((parse_filter(written), parse_filter(None)))),
            kinds=data.draw(st.none() | st.just(("fact", "page"))),
            source_url=data.draw(st.none() | st.sampled_from(URLS)),
            session=data.draw(st.none() | st.sampled_from(("", "s"))),
            since=data.draw(moments),
            until=data.draw(moments),
            as_of=data.draw(moments | st.just(self.now)),
            superseded=data.draw(st.booleans()),
            deleted=data.draw(st.booleans()),
        )
        rows = sorted(
            self.model.rows[i] for i, m in self.model.memories.items() if selected(selection, m)
        )
        assert self.store.select_rows(selection).tolist() == rows
        assert self.store.count(selection) == len(rows)
        found = {self.model.rows[m.id]: m for m in self.model.memories.values()}
        assert list(self.store.scan(selection)) == [found[row] for row in rows]
        newest = sorted(rows, key=lambda row: (found[row].created_at, row), reverse=True)
        assert self.store.recent(selection, limit=2) == tuple(found[r] for r in newest[:2])

    @rule(url=st.sampled_from(URLS), asking=READERS)
    def search_by_source_url(self, url: str, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        found = self.store.search_by_source_url(reader, url)
        assert {m.id for m in found} == {
            i
            for i, m in self.model.seen(reader).items()
            if m.source_url == url and m.deleted_at is None and m.superseded_by is None
        }

    @rule(asking=READERS)
    def read_each(self, asking: tuple[Scope, str]) -> None:
        reader = self.reader(asking)
        seen = self.model.seen(reader)
        for memory_id in IDS:
            held = self.model.memories.get(memory_id)
            assert self.store.upkeep.owners(memory_id) == (() if held is None else (held.scope,))
            if memory_id not in seen:
                for read in (self.store.get, self.store.history, self.store.row_of):
                    with pytest.raises(RecordNotFound):
                        read(reader, memory_id)
                continue
            memory = seen[memory_id]
            assert self.store.get(reader, memory_id, deleted=True) == memory
            versions = [v.memory for v in self.store.history(reader, memory_id)]
            old = self.model.history.get(memory_id, [])
            assert versions == [m for m in old if visible(m, reader)]
        live = [m for m in seen.values() if m.deleted_at is None]
        assert {m.id for m in self.store.get_many(reader, IDS)} == {m.id for m in live}
        stats = self.store.upkeep.stats(reader)
        assert stats.chunks == sum(m.superseded_by is None for m in live)
        assert stats.deleted == len(seen) - len(live)

    @invariant()
    def agrees_with_the_dictionary(self) -> None:
        rows = {self.model.rows[i]: m for i, m in self.model.memories.items()}
        assert self.store.feed.texts(list(rows)) == rows
        indexed = self.store.feed.index_rows()
        assert indexed.rows.tolist() == sorted(rows)
        assert dict(zip(indexed.rows.tolist(), indexed.previous.tolist(), strict=True)) == (
            self.model.previous()
        )
        for space in SPACES:
            found, matrix = self.store.feed.vectors(space)
            expected = {self.model.rows[i]: v for i, v in self.model.vectors[space].items()}
            got = {int(r): v.tobytes() for r, v in zip(found, matrix, strict=True)}
            assert got == expected

    @invariant()
    def an_index_that_follows_the_changes_is_up_to_date(self) -> None:
        changes = self.store.feed.changes(self.seq)
        assert changes.complete
        assert changes.seq == self.store.feed.seq()
        touched = {row for c in changes.items for row in range(c.first, c.last + 1)}
        self.seq = changes.seq
        reloaded = columns(self.store.feed.index_rows(rows=touched))
        for row in touched:
            self.mirror.pop(row, None)
        self.mirror.update(reloaded)
        assert self.mirror == columns(self.store.feed.index_rows())


def columns(rows: IndexRows) -> dict[int, tuple[Any, ...]]:
    names = ("owner", "strand", "place", "previous", "speaker", "kind", "created_at", "valid_from",
             "valid_to", "length", "flags")  # fmt: skip
    found = {}
    for number, row in enumerate(rows.rows.tolist()):
        part = slice(int(rows.term_offsets[number]), int(rows.term_offsets[number + 1]))
        found[row] = (
            *(int(getattr(rows, name)[number]) for name in names),
            tuple(rows.terms[part].tolist()),
            tuple(rows.frequencies[part].tolist()),
        )
    return found


class SqliteMachine(StoreMachine):
    def open(self) -> Store:
        return SqliteStore(self.folder / "deep" / "store.db")

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @rule()
    def open_in_another_process(self) -> None:
        """A second store on the same file sees everything at once."""
        with SqliteStore(self.folder / "deep" / "store.db") as other:
            rows = list(self.model.rows.values())
            assert other.feed.texts(rows) == self.store.feed.texts(rows)

    @rule()
    def export_and_import(self) -> None:
        path = self.folder / "export.jsonl"
        count = export_jsonl(self.store, path, deleted=True, vectors=True)
        assert count == len(self.model.memories)
        with SqliteStore(self.folder / "copy.db") as copy:
            report = import_jsonl(copy, path, analyse=make_entry)
            assert (report.imported, report.bad_lines) == (count, ())
            again = import_jsonl(copy, path, analyse=make_entry)
            assert (again.imported, again.same_id) == (0, count)
            rows = copy.feed.index_rows().rows.tolist()
            found = {m.id: m for m in copy.feed.texts(rows).values()}
            assert found == self.model.memories
            for space in SPACES:
                kept, matrix = copy.feed.vectors(space)
                named = copy.feed.texts(kept.tolist())
                got = {named[int(r)].id: v.tobytes() for r, v in zip(kept, matrix, strict=True)}
                assert got == self.model.vectors[space]
            for memory_id, versions in self.model.history.items():
                scope = self.model.memories[memory_id].scope
                kept_versions = [v.memory for v in copy.history(scope, memory_id)]
                assert kept_versions == [m for m in versions if visible(m, scope)]
        for file in self.folder.glob("copy.db*"):
            file.unlink()


class MemoryMachine(StoreMachine):
    def open(self) -> Store:
        return SqliteStore(":memory:")


class PostgresMachine(StoreMachine):
    """A tenant of its own in the database that all tests share."""

    slower = 12

    def open(self) -> Store:
        self.tenant = getattr(self, "tenant", None) or fresh_tenant()
        return postgres_store(self.tenant)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @rule()
    def open_in_another_process(self) -> None:
        """A second store on the same tenant sees everything at once; another tenant nothing."""
        rows = list(self.model.rows.values())
        with postgres_store(self.tenant) as other, postgres_store(fresh_tenant()) as stranger:
            assert other.feed.texts(rows) == self.store.feed.texts(rows)
            assert stranger.feed.texts(rows) == {}
