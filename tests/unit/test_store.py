"""Worked examples of both stores, bad input, and mistakes once made."""

from __future__ import annotations

import enum
import errno
import json
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmem.base.errors import (
    BadVector,
    ChangedMeanwhile,
    DuplicateRecord,
    InvalidInput,
    InvalidNumber,
    InvalidScope,
    InvalidText,
    RecordNotFound,
    StoreClosed,
    StoreError,
    StoreFull,
)
from agentmem.base.filters import Selection, parse_filter
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Memory, Scope, Usage
from agentmem.stores.base import Store
from agentmem.stores.jsonl import export_jsonl, import_jsonl
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.stores.tables import memory_values
from agentmem.stores.upkeep import tells_of
from agentmem.stores.values import (
    ERASED,
    Artifact,
    Entry,
    IndexFile,
    Link,
    NewJob,
    SnapshotRecord,
    Source,
    name_id,
    pack,
    pack_vectors,
    place_of,
    read_vectors,
    shortest,
    to_index_rows,
    unpack_terms,
    vector_sizes,
)
from tests.entries import make_entry
from tests.servers.postgres import postgres_store
from tests.unit.store_samples import ANN, BOB, NOW, SPACE, entry, everything, fill

ALL = Selection(reader=ANN)


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "postgres":
        made = postgres_store()
    else:
        made = SqliteStore(":memory:" if request.param == "memory" else tmp_path / "store.db")
    yield made
    made.close()


def ids(store: Store, selection: Selection = ALL) -> list[str]:
    return [memory.id for memory in store.scan(selection)]


def test_both_stores_give_the_same_answers(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as one, SqliteStore(":memory:") as two:
        fill(one)
        fill(two)
        left, right = everything(one), everything(two)
        for answers in (left, right):
            for name in ("secret", "changes", "index file"):  # theirs alone
                del answers[name]
        assert left == right


def test_what_is_there_already_is_not_put_again(store: Store) -> None:
    store.put([entry("old", "tea", content_hash="t"), entry("bobs", "tea", scope=BOB)])
    batch = [
        entry("again", "tea", content_hash="t"),
        entry("new", "milk", content_hash="m"),
        entry("twice", "milk", content_hash="m"),
    ]
    assert store.put_new(batch, same="text") == ("old", "new", "new")
    assert ids(store) == ["old", "new"]
    assert store.put_new([], same="text") == ()


def test_what_is_gone_is_put_again(store: Store) -> None:
    store.put([entry(i, i, content_hash=i) for i in ("deleted", "superseded", "forgotten")])
    store.delete(ANN, ["deleted"], at=NOW)
    store.supersede(ANN, "superseded", entry("newer"), at=NOW)
    forgotten = entry("forgotten", "forgotten", content_hash="forgotten")
    marked = replace(forgotten.memory, metadata={"forgotten_at": "2026-01-01"})
    store.update(ANN, replace(forgotten, memory=marked), at=NOW)
    again = [entry(f"{i} again", i, content_hash=i) for i in ("deleted", "superseded", "forgotten")]
    assert store.put_new(again, same="text") == tuple(e.memory.id for e in again)


def test_a_page_that_is_there_is_not_put_again(store: Store) -> None:
    store.put([entry("old", "p", kind="page", content_hash="p")])
    new = entry("new", "p", kind="page", content_hash="p")
    assert store.put_new([new], same="text") == ("old",)


def test_an_update_of_what_was_changed_meanwhile_is_refused(store: Store) -> None:
    store.put([entry("a", "one")])
    was = store.get(ANN, "a")
    store.record_usage(ANN, ["a"], at=NOW, cited=1)
    store.update(ANN, entry("a", "two"), at=NOW, was=was)  # being used is no change
    with pytest.raises(ChangedMeanwhile):
        store.update(ANN, entry("a", "three"), at=NOW, was=was)
    assert store.get(ANN, "a").text == "two"
    assert len(store.history(ANN, "a")) == 1


def test_every_field_comes_back_exactly(store: Store) -> None:
    memory = Memory(
        id="\x00 id",
        text="a\x00b \U0001f469\u200d\U0001f469 ]]> \ufffe",
        created_at=datetime(1, 1, 1, 12, tzinfo=UTC),
        kind="new kind",
        scope=Scope(user_id="u\x00", project_id="p", agent_id="a", run_id="r"),
        visibility="project",
        origin="import",
        summary="",
        compressed="c",
        index="i",
        source_url="https://e.x/\x00",
        title="t\n",
        heading_path=("", "a/b"),
        speaker="Ann",
        session="s",
        position=-7,
        importance=1 / 3,
        valid_from=datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        valid_to=datetime(2026, 1, 1, 3, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        deleted_at=NOW,
        content_hash="h",
        usage=Usage(retrieved=2**40, cited=1, ignored=3, last_used_at=NOW),
        metadata={"": [1, 1.0, True, None, {"k": "\x00"}], "big": 2**70, "tiny": 5e-324},
    )
    store.put([make_entry(memory)])
    found = store.get(memory.scope, memory.id, deleted=True)
    assert found == memory
    assert [type(v) for v in found.metadata[""]] == [int, float, bool, type(None), dict]
    with pytest.raises(TypeError):
        found.metadata["x"] = 1  # type: ignore[index]  # the point of the test


@pytest.mark.parametrize("count", [1, 15, 32, 33, 90])
def test_few_rows_are_read_as_many_are(store: Store, count: int) -> None:
    put = store.put(
        [
            entry(
                f"m{at}",
                "" if at % 7 == 0 else f"text {at} é",
                scope=BOB if at % 5 == 0 else ANN,
                source_url=f"page {at % 3}" if at % 2 else "",
            )
            for at in range(90)
        ]
    )
    store.record_usage(ANN, ["m1", "m2"], at=NOW, retrieved=2, cited=1)
    store.delete(ANN, ["m3"], at=NOW)
    rows = put[:count]
    for reader, strangers in ((ANN, 0), (BOB, 1)):
        one_by_one = {}
        for at in range(count):
            if (at % 5 == 0) == bool(strangers):
                one_by_one[put[at]] = store.get(reader, f"m{at}", deleted=True)
        for _ in range(2):  # the second time every name is known
            assert store.get_rows(reader, rows) == one_by_one
    assert store.get_rows(ANN, []) == {}
    assert store.get_rows(ANN, [1_000]) == {}


def test_ten_megabytes_come_back(store: Store) -> None:
    text = "日本語 and a NUL \x00. " * 500_000
    store.put([entry("big", text)])
    assert store.get(ANN, "big").text == text


def test_names_that_are_enum_members_are_stored_as_their_text(store: Store) -> None:
    class Kind(enum.StrEnum):
        NOTE = "note"

    store.put([entry("a", kind=Kind.NOTE, metadata={"kind": Kind.NOTE})])
    assert store.get(ANN, "a").kind == "note"
    assert ids(store, Selection(reader=ANN, kinds=("note",))) == ["a"]


def test_order_in_a_session_follows_positions_also_when_they_come_late(store: Store) -> None:
    rows = {
        position: store.put([entry(f"m{position}", session="s", position=position)])[0]
        for position in (5, 1, 9, 3)
    }

    def chain() -> dict[int, int]:
        indexed = store.feed.index_rows()
        return dict(zip(indexed.rows.tolist(), indexed.previous.tolist(), strict=True))

    assert chain() == {rows[1]: 0, rows[3]: rows[1], rows[5]: rows[3], rows[9]: rows[5]}
    store.delete(ANN, ["m3"], at=NOW)
    assert chain() == {rows[1]: 0, rows[3]: 0, rows[5]: rows[1], rows[9]: rows[5]}
    store.restore(ANN, ["m3"])
    store.erase(ANN, ["m1"], at=NOW)
    assert chain() == {rows[3]: 0, rows[5]: rows[3], rows[9]: rows[5]}
    last = store.put([entry("end", session="s"), entry("after", session="s")])
    assert chain()[last[1]] == last[0]
    assert chain()[last[0]] == rows[9]


def test_rows_are_never_given_twice(store: Store) -> None:
    first = store.put([entry("a"), entry("b")])
    store.erase(ANN, ["a", "b"], at=NOW)
    assert min(store.put([entry("a")])) > max(first)


def test_superseding_keeps_the_old_value_for_its_time(store: Store) -> None:
    later = NOW + timedelta(days=30)
    store.put([entry("rome", "Lives in Rome")])
    store.supersede(ANN, "rome", entry("oslo", "Lives in Oslo", minutes=60 * 24 * 30), at=later)
    assert ids(store) == ["oslo"]
    assert ids(store, Selection(reader=ANN, superseded=True)) == ["rome", "oslo"]
    assert ids(store, Selection(reader=ANN, as_of=NOW + timedelta(days=1))) == ["rome"]
    assert ids(store, Selection(reader=ANN, as_of=later)) == ["oslo"]
    assert store.get(ANN, "rome").superseded_by == "oslo"
    assert store.get(ANN, "oslo").supersedes == "rome"
    with pytest.raises(InvalidInput, match="superseded by 'oslo' already"):
        store.supersede(ANN, "rome", entry("bonn"), at=later)
    with pytest.raises(InvalidInput, match="stand for itself"):
        store.mark_superseded(ANN, "oslo", "rome", at=later)
    with pytest.raises(InvalidInput, match="stand for itself"):
        store.mark_superseded(ANN, "oslo", "oslo", at=later)
    with pytest.raises(InvalidInput, match="stand for itself"):
        store.put([entry("x", supersedes="oslo", superseded_by="rome")])
    store.unsupersede(ANN, "rome")
    assert ids(store) == ["rome", "oslo"]
    store.supersede(ANN, "rome", entry("bonn"), at=later)
    store.erase(ANN, ["bonn"], at=later)
    assert store.get(ANN, "rome").superseded_by == ERASED  # still not current


def test_updating_keeps_versions_and_drops_vectors_of_another_text(store: Store) -> None:
    rows = store.put([entry("a", "one")])
    store.record_usage(ANN, ["a"], at=NOW, retrieved=1)
    changed = replace(entry("a", "two"), vectors=())
    assert store.update(ANN, changed, at=NOW).usage.retrieved == 1
    assert [v.memory.text for v in store.history(ANN, "a")] == ["one"]
    assert len(store.feed.vectors(SPACE)[0]) == 0
    assert store.feed.missing_vectors(SPACE) == (store.row_of(ANN, "a"),)
    seq = store.feed.seq()
    store.update(ANN, replace(entry("a", "three"), vectors=()), at=NOW)
    stale = np.ones((1, 8), np.float32)
    assert store.feed.put_vectors(SPACE, rows, stale, seq=seq) == 0  # made from "two"
    assert store.feed.put_vectors(SPACE, rows, stale, seq=store.feed.seq()) == 1
    same = replace(entry("a", "three", title="T"), vectors=())
    store.update(ANN, same, at=NOW)
    assert len(store.feed.vectors(SPACE)[0]) == 1  # the text is the same
    with pytest.raises(InvalidScope):
        store.update(ANN, entry("a", scope=BOB), at=NOW)


def test_a_source_can_come_again_after_it_was_removed(store: Store) -> None:
    source = Source(url="u", content_hash="1", scope=ANN)
    assert not store.replace_source(source, [entry("a", source_url="u")], at=NOW).unchanged
    assert store.replace_source(source, [entry("b", source_url="u")], at=NOW).unchanged
    assert store.remove_by_source_url(ANN, "u", at=NOW) == 1
    assert not store.replace_source(source, [entry("c", source_url="u")], at=NOW).unchanged
    assert [m.id for m in store.search_by_source_url(ANN, "u")] == ["c"]
    with pytest.raises(InvalidInput, match="is not 'u'"):
        store.replace_source(source, [entry("d", source_url="v")], at=NOW)
    with pytest.raises(InvalidScope):
        store.replace_source(source, [entry("d", scope=BOB, source_url="u")], at=NOW)


def test_a_failed_replacement_leaves_the_old_chunks(store: Store) -> None:
    store.put([entry("taken")])
    source = Source(url="u", content_hash="1", scope=ANN)
    store.replace_source(source, [entry("a", source_url="u")], at=NOW)
    seq = store.feed.seq()
    with pytest.raises(DuplicateRecord):
        store.replace_source(
            replace(source, content_hash="2"),
            [entry("b", source_url="u"), entry("taken", source_url="u")],
            at=NOW,
        )
    assert [m.id for m in store.search_by_source_url(ANN, "u")] == ["a"]
    assert store.feed.seq() == seq


def test_deleting_everything_spares_what_is_shared(store: Store) -> None:
    store.put([entry("own"), entry("all", visibility="system")])
    mine = Selection(reader=ANN, visibilities=("private",))
    assert store.delete_all(mine, at=NOW) == 1
    assert ids(store) == ["all"]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (lambda: entry(""), InvalidText),
        (lambda: entry(ERASED), InvalidText),
        (lambda: entry("a", position=2**62), InvalidNumber),
        (lambda: entry("a", position=1.5), InvalidNumber),
        (lambda: entry("a", metadata={1: "x"}), InvalidInput),
        (lambda: entry("a", metadata={"x": float("nan")}), InvalidInput),
        (lambda: entry("a", metadata={"x": object()}), InvalidInput),
        (lambda: entry("a", metadata={"x": "\ud800"}), InvalidText),
        (lambda: entry("a", metadata={"x": nested(200)}), InvalidInput),
        (lambda: entry("a", metadata={"x": 10**5000}), InvalidInput),
        (lambda: entry("a", usage=Usage(retrieved=-1)), InvalidNumber),
        (lambda: entry("a", usage=Usage(retrieved=2**70)), InvalidNumber),
        (lambda: entry("a", valid_to=datetime.min.replace(tzinfo=timezone(timedelta(hours=9)))), InvalidInput),
        (lambda: replace(entry("a"), terms=b"123"), InvalidInput),
        (lambda: replace(entry("a"), vectors=((SPACE, b"1234"),)), BadVector),
        (lambda: entry("a").memory, InvalidInput),
    ],
)  # fmt: skip
def test_what_could_not_be_read_back_is_refused(
    store: Store, bad: Callable[[], Entry], error: type[Exception]
) -> None:
    with pytest.raises(error):
        store.put([entry("fine"), bad()])
    assert ids(store) == []


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "vector",
    [
        np.ones(7, np.float32),
        np.ones((1, 8), np.float32),
        np.full(8, np.nan, np.float32),
        np.full(8, np.inf, np.float32),
        np.full(8, 1e300),
        np.array(["a"] * 8),
    ],
)
def test_a_vector_of_another_shape_or_not_finite_is_refused(store: Store, vector: Any) -> None:
    with pytest.raises(BadVector):
        make_entry(entry("a").memory, vectors={SPACE: vector})
    store.put([entry("a")])
    with pytest.raises(BadVector):
        store.feed.put_vectors(SPACE, [1], [vector])  # type: ignore[arg-type]  # any sequence


def test_asking_wrongly_is_a_typed_error(store: Store) -> None:
    store.put([entry("a")])
    with pytest.raises(InvalidNumber):
        store.recent(ALL, limit=-1)
    with pytest.raises(InvalidInput):
        store.get_many(ANN, "abc")
    with pytest.raises(InvalidText):
        store.get(ANN, None)  # type: ignore[arg-type]  # the point
    with pytest.raises(RecordNotFound):
        store.get(ANN, "unknown")
    with pytest.raises(RecordNotFound):
        store.delete(ANN, ["a", "unknown"], at=NOW)
    assert ids(store) == ["a"]
    with pytest.raises(InvalidInput):
        store.delete(ANN, ["a"], at=datetime(2026, 1, 1))
    with pytest.raises(InvalidText):
        store.feed.keep_index_file(IndexFile(name="../x", sha256="", seq=0))
    with pytest.raises(DuplicateRecord):
        store.put([entry("b"), entry("b")])
    assert store.put([]) == ()
    assert store.delete(ANN, [], at=NOW) == 0


def test_a_closed_store_says_so(store: Store) -> None:
    store.put([entry("a")])
    store.close()
    store.close()
    for use in (
        lambda: store.get(ANN, "a"),
        lambda: store.put([entry("b")]),
        store.feed.seq,
        store.jobs.counts,
        lambda: store.settings.get("x"),
        lambda: store.count(ALL),
    ):
        with pytest.raises(StoreClosed):
            use()


def test_memories_and_their_bytes_are_put_and_deleted_all_or_none(store: Store) -> None:
    kept = Artifact(id="a", data=b"1", created_at=NOW, scope=ANN)
    store.put([entry("a")], artifacts=[kept])
    for entries, artifacts in (
        ([entry("b")], [replace(kept, id="b"), kept]),
        ([entry("c"), entry("a")], [replace(kept, id="c")]),
    ):
        with pytest.raises(DuplicateRecord):
            store.put(entries, artifacts=artifacts)
    assert ids(store) == ["a"]
    assert [artifact.id for artifact in store.artifacts.list(ANN)] == ["a"]
    with pytest.raises(RecordNotFound):
        store.delete(ANN, ["a", "none"], at=NOW, artifacts=True)
    assert store.artifacts.get(ANN, "a").data == b"1"
    store.put([entry("without")])
    assert store.delete(ANN, ["a", "without"], at=NOW, artifacts=True) == 2
    assert store.artifacts.list(ANN) == ()
    store.put([], artifacts=[kept])
    assert store.artifacts.get(ANN, "a").data == b"1"


def test_a_setting_is_changed_from_what_it_is(store: Store) -> None:
    settings = store.settings
    assert settings.update("x", lambda value: value) is None
    assert settings.update("x", lambda value: f"{value}!") == "None!"
    assert settings.update("x", lambda value: f"{value}?") == settings.get("x") == "None!?"

    def fail(value: str | None) -> str:
        raise ValueError(value)

    with pytest.raises(ValueError, match="None"):
        settings.update("x", fail)
    assert settings.update("x", lambda value: None) is None
    assert settings.get("x") is None


def test_failed_jobs_are_listed_with_why_newest_first(store: Store) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for name in ("one", "two", "three"):
        number = store.jobs.enqueue("page", {"name": name}, at=at)
        store.jobs.claim(at=at)
        store.jobs.fail(number, f"no {name}", retry_at=at if name == "two" else None)
    assert [job.error for job in store.jobs.failed()] == ["no three", "no one"]
    assert [job.error for job in store.jobs.failed(limit=1)] == ["no three"]


def test_jobs_are_claimed_once_and_come_back_when_their_worker_dies(store: Store) -> None:
    first = store.jobs.enqueue("index", {"url": "a"}, at=NOW, key="a")
    assert store.jobs.enqueue("index", {"url": "a2"}, at=NOW, key="a") == first
    other = store.jobs.enqueue("index", {"url": "a"}, at=NOW, key="a", scope=ANN)
    assert other != first
    second = store.jobs.enqueue("embed", {}, at=NOW)
    job = store.jobs.claim(at=NOW, lease_seconds=10, kinds=["index"])
    assert job is not None
    assert (job.id, job.payload, job.attempts) == (first, {"url": "a"}, 1)
    claimed = [store.jobs.claim(at=NOW, lease_seconds=10) for _ in range(3)]
    assert [job and job.id for job in claimed] == [other, second, None]
    again = store.jobs.claim(at=NOW + timedelta(seconds=10))
    assert again is not None
    assert (again.id, again.attempts) == (first, 2)
    store.jobs.done(first)
    store.jobs.done(first)
    store.jobs.fail(second, "no model", retry_at=None)
    store.jobs.fail(other, "later", retry_at=NOW + timedelta(hours=1))
    assert store.jobs.counts() == {"waiting": 1, "running": 0, "failed": 1}
    retried = store.jobs.claim(at=NOW + timedelta(hours=1))
    assert retried is not None
    assert (retried.id, retried.error) == (other, "later")


def test_snapshots_artifacts_and_links_are_seen_by_their_owner(store: Store) -> None:
    store.put([entry("a"), entry("b"), entry("hidden", scope=BOB)])
    for number in range(4):
        moment = NOW + timedelta(minutes=number)
        store.snapshots.put(
            SnapshotRecord(id=f"t{number}", created_at=moment, data={"n": number}, scope=ANN)
        )
    store.snapshots.put(SnapshotRecord(id="bob", created_at=NOW, data={}, scope=BOB))
    assert [s.id for s in store.snapshots.list(ANN, limit=2)] == ["t3", "t2"]
    assert store.snapshots.get(ANN, "t1").data == {"n": 1}
    with pytest.raises(RecordNotFound):
        store.snapshots.get(BOB, "t1")
    with pytest.raises(DuplicateRecord):
        store.snapshots.put(SnapshotRecord(id="t1", created_at=NOW, data={}))
    assert store.snapshots.mention(ANN, "t1", ["m", "k", "m"])
    assert store.snapshots.mention(ANN, "t1", ["l", "k"])
    assert not store.snapshots.mention(BOB, "t1", ["his"])
    assert not store.snapshots.mention(ANN, "gone", ["m"])
    told = store.snapshots.get(ANN, "t1")
    assert (told.mentions, told.data) == (("m", "k", "l"), {"n": 1})
    assert [s.id for s in store.snapshots.mentioning(ANN, "l")] == ["t1"]
    assert store.snapshots.prune(keep=1) == 3
    assert [s.id for s in store.snapshots.list(BOB)] == ["bob"]

    store.artifacts.put(
        Artifact(id="r", data=bytes(range(256)), created_at=NOW, scope=ANN, metadata={"tool": "x"})
    )
    assert store.artifacts.get(ANN, "r").data == bytes(range(256))
    with pytest.raises(RecordNotFound):
        store.artifacts.remove(BOB, "r")
    store.artifacts.remove(ANN, "r")
    assert store.artifacts.list(ANN) == ()

    link = Link(first_id="a", second_id="b", relation="denies", created_at=NOW, note="n")
    store.contradictions.put(ANN, link)
    store.contradictions.put(ANN, replace(link, note="again"))
    assert store.contradictions.of(ANN, "b") == (link,)
    assert store.links.of(ANN, "b") == ()
    assert store.contradictions.among(ANN, ["b", "a", "nobody"]) == (link,)
    assert store.contradictions.among(ANN, ["b"]) == ()
    assert store.contradictions.among(BOB, ["a", "b"]) == ()
    assert store.links.among(ANN, ["a", "b"]) == ()
    with pytest.raises(RecordNotFound):
        store.contradictions.put(ANN, replace(link, second_id="hidden"))
    store.contradictions.settle(ANN, link, at=NOW, note="b was wrong")
    assert store.contradictions.all(ANN, open_only=True) == ()
    assert store.contradictions.all(ANN)[0].settled_at == NOW
    store.erase(ANN, ["b"], at=NOW)
    assert store.contradictions.all(ANN) == ()


def test_many_jobs_are_kept_at_once_each_in_the_place_of_one_of_its_key(store: Store) -> None:
    old = store.jobs.enqueue("page", {"n": 0}, at=NOW, key="k", scope=ANN)
    store.jobs.enqueue("page", {"n": 9}, at=NOW, key="k", scope=BOB)
    jobs = [
        NewJob(kind="page", payload={"n": 1}, at=NOW, key="k", scope=ANN),
        NewJob(kind="page", payload={"n": 2}, at=NOW),
        NewJob(kind="page", payload={"n": 3}, at=NOW),
        NewJob(kind="page", payload={"n": 4}, at=NOW, key="k", scope=ANN),
    ]
    numbers = store.jobs.keep(jobs)
    assert len({old, *numbers}) == 5
    assert store.jobs.keep([]) == ()
    found = []
    while (job := store.jobs.claim(at=NOW)) is not None:
        found.append((job.id, job.payload["n"]))
        store.jobs.done(job.id)
    assert sorted(n for _, n in found) == [2, 3, 4, 9]
    assert dict(found)[numbers[3]] == 4


def test_an_index_file_made_before_an_erasure_is_not_kept(store: Store) -> None:
    store.put([entry("a"), entry("b")])
    file = IndexFile(name="words.idx", sha256="00", seq=store.feed.seq(), embedder="e")
    assert store.feed.keep_index_file(file)
    assert store.feed.index_file("words.idx") == file
    store.erase(ANN, ["a"], at=NOW)
    assert store.feed.index_file("words.idx") is None
    assert not store.feed.keep_index_file(file)
    assert store.feed.keep_index_file(replace(file, seq=store.feed.seq()))


def test_a_log_that_was_cut_tells_indexes_to_begin_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentmem.stores.sqlite import transaction as transactions

    monkeypatch.setattr(transactions, "KEPT_CHANGES", 10)
    with SqliteStore(tmp_path / "store.db") as store:
        store.put([entry("x")])
        last = store.feed.seq()
        with store._database.writing() as write:
            write.log("update", range(1, 9000, 2))
        assert not store.feed.changes(0).complete
        assert not store.feed.changes(last).complete
        now = store.feed.seq()
        assert store.feed.changes(now - 5).complete
        assert store.feed.changes(now).items == ()
        assert store.upkeep.verify().problems == ()


def test_statistics_count_what_the_reader_sees(store: Store) -> None:
    fill(store)
    stats = store.upkeep.stats(BOB)
    assert stats.jobs["waiting"] == 0
    assert stats.documents == 0
    assert stats.kinds == {"message": 10, "fact": 2}
    whole = store.upkeep.stats()
    assert (whole.documents, whole.deleted, whole.superseded) == (1, 1, 1)
    assert [(c.embedder, c.missing) for c in whole.embedders] == [(SPACE, 0)]
    assert whole.jobs["waiting"] == 1


def test_purging_removes_what_was_deleted_long_ago(store: Store) -> None:
    store.put([entry("a"), entry("b"), entry("c")])
    store.delete(ANN, ["a"], at=NOW)
    store.delete(ANN, ["b"], at=NOW + timedelta(days=9))
    assert store.upkeep.purge(deleted_before=NOW + timedelta(days=1)) == 1
    assert store.upkeep.purge(deleted_before=NOW + timedelta(days=1)) == 0
    with pytest.raises(RecordNotFound):
        store.get(ANN, "a", deleted=True)
    assert store.get(ANN, "b", deleted=True).id == "b"


def test_erasing_spares_what_only_looks_alike(store: Store) -> None:
    store.put([entry("aaaa", "the text"), entry("bbbb", "the text", scope=BOB)])
    for scope, name in ((ANN, "a"), (BOB, "b")):
        store.snapshots.put(
            SnapshotRecord(id=name, created_at=NOW, data={"shown": "the text"}, scope=scope)
        )
        store.jobs.enqueue("index", {"text": "the text"}, at=NOW, scope=scope)
    receipt = store.erase(ANN, ["aaaa"], at=NOW)
    assert (receipt.snapshots, receipt.jobs) == (1, 1)
    assert [s.id for s in store.snapshots.list(BOB)] == ["b"]
    assert store.jobs.counts()["waiting"] == 1
    assert store.get(BOB, "bbbb").text == "the text"


def test_erasing_all_that_is_mine_leaves_nothing_of_mine(store: Store) -> None:
    run = replace(ANN, run_id="r")
    for scope, name in ((run, "mine"), (BOB, "his")):
        store.snapshots.put(SnapshotRecord(id=name, created_at=NOW, data={}, scope=scope))
        store.artifacts.put(Artifact(id=name, created_at=NOW, data=b"x", scope=scope))
        store.jobs.enqueue("index", {}, at=NOW, scope=scope)
    receipt = store.erase_all(Selection(reader=ANN, kinds=("fact",)), at=NOW)
    assert receipt.snapshots == 0  # narrowed: memories only
    receipt = store.erase_all(Selection(reader=ANN), at=NOW)
    assert (receipt.ids, receipt.snapshots, receipt.artifacts, receipt.jobs) == ((), 1, 1, 1)
    assert [s.id for s in store.snapshots.list(BOB)] == ["his"]
    assert store.jobs.counts()["waiting"] == 1


def test_two_embedders_of_one_name_are_two_spaces(store: Store) -> None:
    other = EmbedderId(name="hash", version="2", dimensions=8)
    rows = store.put([entry("a")])
    assert store.feed.missing_vectors(other) == rows
    assert len(store.feed.vectors(other)[0]) == 0
    assert store.feed.put_vectors(other, [*rows, 1 << 30], np.ones((2, 8), np.float32)) == 1
    assert store.feed.embedders() == (SPACE, other)
    assert store.feed.drop_vectors(SPACE) == 1
    assert store.feed.embedders() == (other,)
    assert store.feed.vectors(other)[1] == pytest.approx(np.ones((1, 8)), rel=1 / 127)


def test_names_have_stable_numbers() -> None:
    assert name_id("") == 0
    assert name_id("Ann") == name_id("Ann") != name_id("ann")
    assert name_id("fact") == -11131488873754196  # stored in files: never to change


# JSONL


def exported(tmp_path: Path) -> Path:
    with SqliteStore(tmp_path / "from.db") as store:
        fill(store)
        assert export_jsonl(store, tmp_path / "out.jsonl", deleted=True) == 34
    return tmp_path / "out.jsonl"


def test_importing_twice_changes_nothing(tmp_path: Path, store: Store) -> None:
    path = exported(tmp_path)
    report = import_jsonl(store, path, analyse=make_entry)
    assert (report.imported, report.same_id, report.bad_lines) == (34, 0, ())
    seq = store.feed.seq()
    again = import_jsonl(store, path, analyse=make_entry)
    assert (again.imported, again.same_id, store.feed.seq()) == (0, 34, seq)
    source = Source(url="https://example.com/a", content_hash="1", scope=ANN)
    assert store.replace_source(source, [], at=NOW).unchanged


def test_the_same_content_under_other_ids_is_left_out(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "out.jsonl"
    with SqliteStore(":memory:") as other:
        other.put([entry("x", "same", content_hash="h"), entry("y", "new", content_hash="h")])
        export_jsonl(other, path)
    store.put([entry("a", "same", content_hash="h")])
    report = import_jsonl(store, path, analyse=make_entry)
    assert (report.imported, report.same_content) == (1, 1)
    assert sorted(ids(store)) == ["a", "y"]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, StoreFull), (errno.EPIPE, StoreError)])
def test_a_pipe_that_takes_no_export_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    with (
        SqliteStore(":memory:") as store,
        pytest.raises(kind, match=re.escape(str(pipe))) as refused,
    ):
        export_jsonl(store, pipe)
    assert type(refused.value) is kind
    assert pipe.is_fifo()


@pytest.mark.parametrize(("number", "kind"), [(errno.EROFS, StoreError), (errno.ENOSPC, StoreFull)])
def test_an_export_that_cannot_clean_up_says_what_went_wrong_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StoreError]
) -> None:
    def refuse(error: int) -> Callable[..., Any]:
        def refused(*_: Any, **__: Any) -> Any:
            raise OSError(error, os.strerror(error))

        return refused

    monkeypatch.setattr(os, "open", refuse(number))
    monkeypatch.setattr(Path, "unlink", refuse(errno.EROFS))
    with SqliteStore(":memory:") as store, pytest.raises(kind, match=r"out\.jsonl") as raised:
        export_jsonl(store, tmp_path / "out.jsonl")
    assert type(raised.value) is kind


def test_an_export_can_be_given_to_somebody_else(tmp_path: Path, store: Store) -> None:
    path = exported(tmp_path)
    import_jsonl(store, path, analyse=make_entry, scope=BOB)
    everyone = [m.scope for m in store.feed.texts(store.feed.index_rows().rows.tolist()).values()]
    assert set(everyone) == {BOB}
    taken = store.feed.texts(store.feed.index_rows().rows.tolist()).values()
    assert {(m.visibility, m.origin) for m in taken} == {("private", "import")}
    assert all(source.visibility == "private" for source in store.upkeep.sources())


def test_one_readers_export_holds_nothing_of_others(tmp_path: Path, store: Store) -> None:
    fill(store)
    export_jsonl(store, tmp_path / "ann.jsonl", scope=ANN)
    lines = [json.loads(line) for line in (tmp_path / "ann.jsonl").read_text().splitlines()]
    owners = {
        line["memory"]["scope"]["user_id"]
        for line in lines
        if "memory" in line and line["memory"]["visibility"] == "private"
    }
    assert owners == {"ann"}
    assert all(line["memory"]["deleted_at"] is None for line in lines if "memory" in line)


def test_lines_that_cannot_be_read_are_named_and_nothing_is_written(
    tmp_path: Path, store: Store
) -> None:
    path = exported(tmp_path)
    lines = path.read_bytes().splitlines()
    lines[3] = b"{not json"
    lines[5] = lines[5].replace(b'"importance":0.5', b'"importance":7')
    lines[7] = b"\xff\xfe"
    lines[8] = b'{"memory": {"id": 5}}'
    lines[9] = lines[9].replace(b'"kind"', b'"unknown"')
    lines[10] = b"[]"
    path.write_bytes(b"\n".join(lines) + b"\n")
    report = import_jsonl(store, path, analyse=make_entry)
    assert [line.number for line in report.bad_lines] == [4, 6, 8, 9, 10, 11]
    assert report.imported == len(ids(store)) == 0
    report = import_jsonl(store, path, analyse=make_entry, skip_bad_lines=True)
    assert report.imported == 28
    assert len(report.bad_lines) == 6


@pytest.mark.parametrize("cut", [1, 2, 50, 500])
def test_a_file_cut_short_is_noticed(tmp_path: Path, store: Store, cut: int) -> None:
    path = exported(tmp_path)
    path.write_bytes(path.read_bytes()[:-cut])
    report = import_jsonl(store, path, analyse=make_entry)
    assert bool(report.bad_lines) == (cut > 1)  # without the last newline it is complete
    assert len(store.feed.index_rows().rows) == (0 if cut > 1 else 34)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"[]\n", b'{"format":"other"}\n', b'{"format":"agentmem-jsonl","version":9}\n', b"\xff\n"]
)  # fmt: skip
def test_a_file_of_another_kind_is_refused(tmp_path: Path, store: Store, content: bytes) -> None:
    (tmp_path / "in.jsonl").write_bytes(content)
    with pytest.raises(InvalidInput):
        import_jsonl(store, tmp_path / "in.jsonl", analyse=make_entry)


def test_filters_reach_every_field(store: Store) -> None:
    store.put(
        [
            entry("a", importance=0.9, title="Tea\x00!", metadata={"n": 1, "deep": {"x": [1, 2]}}),
            entry("b", importance=0.1, session="s", position=3, metadata={"n": "1"}),
        ]
    )
    for written, expected in (
        ({"importance": {"gt": 0.5}}, ["a"]),
        ({"title": {"icontains": "TEA"}}, ["a"]),
        ({"title": {"in": ["Tea\x00!", "x"]}}, ["a"]),
        ({"title": {"in": ["Tea"]}}, []),
        ({"title": {"in": [*map(str, range(30_000)), "Tea\x00!"]}}, ["a"]),
        ({"n": 1}, ["a"]),
        ({"n": "1"}, ["b"]),
        ({"n": [1, "1"]}, ["a", "b"]),
        ({"metadata.deep.x": {"contains": 2}}, ["a"]),
        ({"position": "*"}, ["b"]),
        ({"NOT": {"session": "s"}}, ["a"]),
        ({"OR": [{"id": "a"}, {"id": "zz"}]}, ["a"]),
        ({"user_id": "ann", "n": {"ne": 1}}, ["b"]),
        ({"created_at": {"lt": "2026-01-01T00:00:00+00:00"}}, []),
    ):
        assert ids(store, Selection(reader=ANN, where=parse_filter(written))) == expected, written


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e9])
def test_vectors_take_a_quarter_of_the_room_where_no_more_than_a_rounding_is_lost(
    tmp_path: Path, scale: float
) -> None:
    vector = np.array([0.1, -0.2, 0.3, 0.5, 0.0, 1.0, -0.7, 0.25], np.float32) * np.float32(scale)
    path = tmp_path / "memory.db"
    with SqliteStore(path) as store:
        store.put([make_entry(entry("a").memory, vectors={SPACE: vector})])
        _, (kept,) = store.feed.vectors(SPACE)
        assert not store.upkeep.verify().problems
    assert np.abs(kept - vector).max() <= np.abs(vector).max() / 127
    base = sqlite3.connect(path)
    (size,) = base.execute("SELECT length(data) FROM embeddings").fetchone()
    base.close()
    numbers = SPACE.dimensions
    assert size == (numbers + 2 if scale == 1.0 else 4 * numbers) + 4


def test_vectors_in_steps_are_what_they_were_when_they_are_rounded_again() -> None:
    chance = np.random.default_rng(3)
    for dimensions in (1, 2, 3, 384):
        vectors = chance.standard_normal((500, dimensions)).astype(np.float32)
        vectors *= np.exp(4 * chance.standard_normal((500, 1))).astype(np.float32)
        vectors[0], vectors[1], vectors[2] = 0.0, vectors[1] * 1e9, vectors[2] * 1e-12
        space = EmbedderId(name="any", version="1", dimensions=dimensions)
        packed = pack_vectors(space, vectors)
        once = np.frombuffer(b"".join(packed), np.float32).reshape(vectors.shape)
        assert pack_vectors(space, once) == packed
        stored = shortest(packed)
        assert {len(data) for data in stored} <= set(vector_sizes(dimensions))
        read = read_vectors(stored, dimensions)
        assert read is not None
        assert (read == once).all()
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        assert (np.abs(once - vectors) <= largest / 112).all()
    assert read_vectors([b"12345"], 384) is None


@pytest.mark.parametrize("position", [None, 0, 5, -7, 1 << 40])
@pytest.mark.parametrize("most", [1, 3, 300])
def test_the_terms_of_a_row_are_read_as_they_were_written(position: int | None, most: int) -> None:
    for speaker, at in (("", None), ("ann", NOW)):
        memory = Memory(
            id="a", text="b", created_at=NOW, position=position, speaker=speaker, valid_from=at
        )
        given = {
            "terms": np.arange(3, dtype=np.uint64).tobytes(),
            "frequencies": np.array([1, most, 1], np.uint16).tobytes(),
            "length": 7,
            "text_flags": 200,
        }
        data = pack(Entry(memory=memory, **given), owner=4, strand=2)  # type: ignore[arg-type]
        assert unpack_terms(data) == given
        assert tells_of(data, (1, "a", 4, 2, *memory_values(memory)))
        assert not tells_of(data, (1, "a", 5, 2, *memory_values(memory)))
        rows = to_index_rows([9], [data], previous=[0])
        assert (rows.terms.tolist(), rows.frequencies.tolist()) == ([0, 1, 2], [1, most, 1])
        assert (int(rows.place[0]), int(rows.owner[0])) == (place_of(memory), 4)
        with pytest.raises(ValueError, match="another size"):
            unpack_terms(data + b"1")
