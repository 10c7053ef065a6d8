"""Worked examples and past surprises of the vector index and the index files."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentmem.base.errors import StoreCorrupt, StoreReadOnly
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes.files import (
    load_vectors,
    open_arrays,
    save_postings,
    save_vectors,
    write_arrays,
)
from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.rows import RowScope
from agentmem.search.indexes.vector import Slots, VectorIndex, directions
from tests.properties.index_models import Row, batch, no_vectors, tuned

EMBEDDER = EmbedderId(name="test", version="1", dimensions=32)


def clustered(count: int, *, seed: int) -> Any:
    """Unit vectors around a few hundred centres, as texts lie; not noise on a sphere."""
    chance = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((200, EMBEDDER.dimensions))
    vectors = centres[chance.integers(0, 200, count)]
    vectors = vectors + 0.5 * chance.standard_normal(vectors.shape)
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def index_of(count: int, **settings: Any) -> tuple[VectorIndex, Any]:
    words = PostingsIndex(background=False)
    words.add(batch([Row(row=row, owner=row % 50) for row in range(1, count + 1)]))
    background = settings.pop("background", False)
    index = VectorIndex(EMBEDDER, words.table, no_vectors, background=background)
    tuned(index, **settings)
    vectors = clustered(count, seed=1)
    index.add(np.arange(1, count + 1), vectors)
    return index, vectors


def test_codes_agree_with_exact_search_on_all_but_a_stated_fraction() -> None:
    index, vectors = index_of(6000, approximate_from=1000, exact_scope=500)
    assert index._slots.codes
    hits = total = 0
    for query in clustered(40, seed=2):
        exact = np.argsort(-(vectors @ query))[:100] + 1
        rows, _ = index.search(query, 100)
        hits += len(set(rows.tolist()) & set(exact.tolist()))
        total += 100
    assert hits / total >= 0.95


def test_a_small_scope_is_searched_exactly_under_codes() -> None:
    index, vectors = index_of(3000, approximate_from=100)
    query = clustered(1, seed=3)[0]
    mine = np.arange(7, 3001, 50)
    expected = mine[np.argsort(-(vectors[mine - 1] @ query))][:10]
    rows, _ = index.search(query, 10, scope=RowScope(owners=frozenset({7})))
    assert rows.tolist() == expected.tolist()


def test_the_switch_to_codes_happens_beside_the_searches() -> None:
    index, vectors = index_of(3000, approximate_from=1000, background=True)
    rows, cosines = index.search(vectors[5], 1)
    assert rows.tolist() == [6]
    assert cosines[0] == pytest.approx(1.0, abs=5e-5)
    index.upkeep.wait()
    assert index._slots.codes
    assert index.upkeep.failure is None
    assert index.search(vectors[5], 1)[0].tolist() == [6]
    index.close()


def test_long_vectors_are_brought_to_unit_length_and_zeros_are_near_nothing() -> None:
    index, vectors = index_of(3)
    index.add(np.array([2]), vectors[1:2] * 1e30)
    assert index.cosines_of(vectors[1] * 7, [2])[0] == pytest.approx(1.0, abs=1e-4)
    assert index.search(np.zeros(32, np.float32), 5)[0].tolist() == []


def test_rows_without_a_vector_and_vectors_without_a_row_are_absent() -> None:
    index, vectors = index_of(3)
    index.table.delete(np.array([1]))
    index.add(np.array([77]), vectors[:1])
    rows, _ = index.search(vectors[0], 5)
    assert set(rows.tolist()) == {2, 3}
    assert np.isnan(index.cosines_of(vectors[0], [500])).all()


def test_search_add_delete_and_coding_at_once() -> None:
    index, _ = index_of(2000, approximate_from=500, exact_scope=10, fresh=64, background=True)
    more = clustered(1500, seed=5)

    def write() -> None:
        for at in range(0, 1500, 3):
            index.add(np.arange(at, at + 3) % 2000 + 1, more[at : at + 3])
            index.delete([at % 2000 + 1])

    def read() -> None:
        for query in more[:200]:
            rows, cosines = index.search(query, 10)
            assert len(rows) == len(set(rows.tolist())) == 10
            assert (np.diff(cosines) <= 0).all()

    with ThreadPoolExecutor() as pool:
        for running in [pool.submit(target) for target in (write, read, read)]:
            running.result()
    index.close()
    assert index.upkeep.failure is None


def test_nothing_deleted_is_in_a_saved_file(tmp_path: Path) -> None:
    index, _ = index_of(40, approximate_from=10)
    words = PostingsIndex(background=False)
    words.add(batch([Row(row=1, words=((0xABCDEF0123456789, 1),)), Row(row=2)]))
    words.delete([1])
    index.delete([5])
    digest = save_vectors(index, tmp_path / "vectors")
    save_postings(words, tmp_path / "words")
    saved = open_arrays(tmp_path / "vectors", digest)
    assert saved.arrays["rows"].tolist() == [row for row in range(1, 41) if row != 5]
    assert saved.header["coded"] <= 39
    assert (0xABCDEF0123456789).to_bytes(8, "little") not in (tmp_path / "words").read_bytes()


def test_vectors_of_another_embedder_are_refused(tmp_path: Path) -> None:
    index, _ = index_of(5)
    digest = save_vectors(index, tmp_path / "vectors")
    other = EmbedderId(name="test", version="2", dimensions=32)
    with pytest.raises(StoreCorrupt):
        load_vectors(tmp_path / "vectors", digest, VectorIndex(other, index.table, no_vectors))


def test_files_are_private_and_leave_nothing_behind(tmp_path: Path) -> None:
    digest = write_arrays(tmp_path / "a", {"x": 1}, {"n": np.arange(5), "e": np.zeros((0, 3))})
    assert stat.S_IMODE(os.stat(tmp_path / "a").st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a"]
    saved = open_arrays(tmp_path / "a", digest)
    saved.check()
    assert saved.header == {"x": 1}
    assert saved.arrays["n"].tolist() == [0, 1, 2, 3, 4]
    assert saved.arrays["e"].shape == (0, 3)


def test_files_that_cannot_be_had_are_typed_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt):
        open_arrays(tmp_path / "missing", "0" * 64)
    with pytest.raises(StoreReadOnly):
        write_arrays(tmp_path / "no" / "folder", {}, {})


def test_a_crafted_file_with_the_right_digest_still_runs_nothing(tmp_path: Path) -> None:
    import hashlib

    for head in (b"[]", b"{}", b'{"header":{},"arrays":[{"name":"a","type":"O","shape":[1]}]}',
                 b'{"header":{},"arrays":[{"name":"a","type":"<i8","shape":[99999999999]}]}',
                 b'{"header":{},"arrays":[{"name":"a","type":"<i8","shape":[-1]}]}', b"\xff"):  # fmt: skip
        content = b"agentmem index 2\n" + len(head).to_bytes(8, "little") + head
        (tmp_path / "crafted").write_bytes(content)
        with pytest.raises(StoreCorrupt):
            open_arrays(tmp_path / "crafted", hashlib.sha256(content).hexdigest())


def test_vectors_keep_their_values_however_they_grow() -> None:
    size = 3_000
    vectors = clustered(size, seed=4)
    query = clustered(1, seed=5)[0]
    grown = Slots(EMBEDDER.dimensions, no_vectors)
    rows = np.arange(1, size + 1)
    for first in range(0, size, 9):
        part = slice(first, first + 9)
        grown.append(rows[part], *directions(vectors[part]))
    slots = np.random.default_rng(0).permutation(size)
    largest = np.abs(vectors).max(axis=1, keepdims=True)[slots]
    assert (np.abs(grown.take(slots) - vectors[slots]) <= largest / 100).all()
    one = Slots(EMBEDDER.dimensions, no_vectors)
    one.append(rows, *grown.at(np.arange(size)))
    assert (grown.products(slots, query) == one.products(slots, query)).all()
    assert (one.take(slots) == grown.take(slots)).all()


def test_what_a_saved_index_compares_is_fetched_once(tmp_path: Path) -> None:
    index, vectors = index_of(40, approximate_from=10)
    expected = index.search(vectors[7], 5)
    digest = save_vectors(index, tmp_path / "vectors")
    asked: list[int] = []

    def fetch(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.extend(rows.tolist())
        there = rows[rows != 3]  # one was erased since
        return there, vectors[there - 1]

    opened = VectorIndex(EMBEDDER, index.table, fetch)
    load_vectors(tmp_path / "vectors", digest, opened)
    assert not asked
    for _ in range(2):
        found = opened.search(vectors[7], 5)
        assert found[0].tolist() == expected[0].tolist()
        assert found[1].tolist() == expected[1].tolist()
    known = len(set(asked))
    assert asked.count(8) == 1
    assert 5 <= known == len(asked) - (asked.count(3) - 1 if 3 in asked else 0)
    assert np.isnan(opened.cosines_of(vectors[2], [3])[0])
    assert 3 not in opened.search(vectors[2], 40)[0]
