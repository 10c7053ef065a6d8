"""Worked examples and past surprises of the word index."""

from __future__ import annotations

import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from agentmem.search.indexes import lexical
from agentmem.search.indexes import rows as rows_module
from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.search.indexes.rows import COLUMNS, RowScope, RowTable
from agentmem.text.terms import B
from tests.properties.index_models import Row, batch, best, bm25_scores, search_words, tuned


def index_of(*rows: Row) -> PostingsIndex:
    index = PostingsIndex(background=False)
    index.add(batch(rows))
    return index


def rows_found(index: PostingsIndex, *words: int, n: int = 5) -> list[int]:
    return [row for row, _ in search_words(index, dict.fromkeys(words, 1.0), n)]


def test_score_of_a_worked_example() -> None:
    index = index_of(
        Row(row=1, length=4, words=((7, 2), (8, 1))),
        Row(row=2, length=2, words=((7, 1),)),
        Row(row=3, length=3, words=((9, 1),)),
    )
    rows, scores = zip(*search_words(index, {7: 1.0}, 10), strict=True)
    idf = math.log(1 + (3 + 100 - 2 + 0.5) / (2 + 0.5))
    assert rows == (1, 2)
    assert scores[0] == pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (1 - B + B * 4 / 3)))
    assert scores[1] == pytest.approx(idf * 1 * 2.2 / (1 + 1.2 * (1 - B + B * 2 / 3)))


def test_equal_scores_come_by_row() -> None:
    index = index_of(*(Row(row=row, length=1, words=((5, 1),)) for row in (9, 3, 7, 1)))
    assert rows_found(index, 5, n=3) == [1, 3, 7]


def test_nothing_to_find_is_an_empty_answer() -> None:
    index = PostingsIndex(background=False)
    assert rows_found(index) == rows_found(index, 1) == []
    index.add(batch([Row(row=1, words=((5, 1),))]))
    assert rows_found(index, 6) == []
    assert search_words(index, {5: 0.0}, 5) == []
    assert search_words(index, {5: 1.0}, 5, RowScope(owners=frozenset())) == []


def test_an_updated_row_is_found_by_its_new_words_only() -> None:
    index = index_of(Row(row=1, words=((5, 1),)), Row(row=2, words=((6, 1),)))
    index.add(batch([Row(row=1, words=((6, 1),))]))
    assert rows_found(index, 5) == []
    assert rows_found(index, 6) == [1, 2]


def test_a_row_flagged_deleted_is_taken_out() -> None:
    index = index_of(Row(row=1, words=((5, 1),)), Row(row=2, words=((5, 1),)))
    index.add(batch([Row(row=1, flags=1, words=((5, 1),))]))
    assert rows_found(index, 5) == [2]


def zipf_rows(count: int, *, seed: int, first: int = 1) -> list[Row]:
    chance = np.random.default_rng(seed)
    rows = []
    for row in range(first, first + count):
        drawn = np.minimum(chance.zipf(1.3, size=chance.integers(3, 30)), 2000)
        words, counts = np.unique(drawn, return_counts=True)
        held = tuple(zip(words.tolist(), counts.tolist(), strict=True))
        rows.append(Row(row=row, owner=row % 3, length=len(drawn), previous=row - 1, words=held))
    return rows


@pytest.mark.parametrize(("cheap", "step"), [(1 << 14, 12), (0, 12), (0, 0)])
def test_large_lists_are_pruned_without_changing_the_answer(
    cheap: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lexical, "CHEAP", cheap)
    monkeypatch.setattr(lexical, "_STEP", step)
    rows = zipf_rows(6000, seed=1)
    index = index_of(*rows)
    for query in ({1: 1.0, 2: 1.0, 50: 1.0}, {1: 1.0}, {3: 0.2, 400: 2.0, 7: 1.0, 1: 0.1}):
        expected = bm25_scores(rows, query)
        assert search_words(index, query, 25) == best(expected, 25)


@pytest.mark.parametrize("few", [1, 64])
def test_one_owner_of_several_gets_the_same_answer_however_the_rows_lie(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "FEW", few)
    monkeypatch.setattr(rows_module, "MIXED_RUNS", 0)
    rows = zipf_rows(3000, seed=2)
    rows += [replace(row, row=row.row + 3000, owner=row.row // 1000) for row in rows]
    index = index_of(*rows)
    query = {1: 1.0, 2: 1.0, 50: 1.0}
    mine = [row for row in rows if row.owner == 1]
    expected = best(bm25_scores(mine, query), 25)

    def found() -> list[tuple[int, float]]:
        return search_words(index, query, 25, RowScope(owners=frozenset({1})))

    assert index.table.mixed
    assert found() == expected
    index.snapshot()
    assert not index.table.mixed
    assert found() == expected


def test_search_add_delete_and_upkeep_at_once() -> None:
    index = tuned(PostingsIndex(), seal_rows=16, join_ratio=2)
    mine = zipf_rows(60, seed=2)
    index.add(batch([Row(row=r.row, owner=9, length=r.length, words=r.words) for r in mine]))
    scope = RowScope(owners=frozenset({9}))
    asked = dict.fromkeys((1, 2, 3), 1.0)
    expected = search_words(index, asked, 20, scope)
    others = zipf_rows(600, seed=3, first=1000)

    def write() -> None:
        for at, row in enumerate(others):
            index.add(batch([row]))
            if at % 3 == 0:
                index.delete([row.row])

    def read() -> None:
        for _ in range(150):
            assert search_words(index, asked, 20, scope) == expected
            rows_found(index, 1, 5, 30)

    with ThreadPoolExecutor() as pool:
        for running in [pool.submit(target) for target in (write, read, read)]:
            running.result()
    index.close()
    assert index.upkeep.failure is None
    kept = [row for at, row in enumerate(others) if at % 3]
    kept += [Row(row=r.row, owner=9, length=r.length, words=r.words) for r in mine]
    scores = bm25_scores(kept, {1: 1.0, 5: 1.0})
    assert search_words(index, {1: 1.0, 5: 1.0}, 50) == best(scores, 50)


def test_neighbours_follow_the_links() -> None:
    index = index_of(Row(row=1), Row(row=2, previous=1, owner=5), Row(row=3, previous=2))
    table = index.table
    before, after = table.neighbours(np.array([1, 2, 3, 4]), table.select())
    assert before.tolist() == [0, 1, 2, 0]
    assert after.tolist() == [2, 3, 0, 0]
    seen = table.select(RowScope(owners=frozenset({0})))
    before, after = table.neighbours(np.array([1, 3]), seen)
    assert (before.tolist(), after.tolist()) == ([0, 0], [0, 0])


def test_speakers_are_those_of_the_owners_in_scope() -> None:
    index = index_of(Row(row=1, speaker=4), Row(row=2, owner=1, speaker=6), Row(row=3))
    assert index.table.speakers() == {4, 6}
    assert index.table.speakers(RowScope(owners=frozenset({1}))) == {6}


@pytest.mark.parametrize("asked_before", [False, True])
def test_who_speaks_in_no_live_row_is_no_speaker_whenever_that_was_asked(
    asked_before: bool,
) -> None:
    many = [Row(row=row, speaker=2 + row % 2) for row in range(10, 60)]
    index = index_of(Row(row=1, speaker=4), Row(row=2, speaker=6), Row(row=3, speaker=4), *many)
    if asked_before:
        assert index.table.speakers() == {2, 3, 4, 6}
    index.delete([1, 2, *range(10, 60, 2)])
    assert index.table.speakers() == {3, 4}
    index.add(batch([Row(row=3, speaker=8)]))
    assert index.table.speakers() == {3, 8}
    index.snapshot()
    index.delete([3])
    assert index.table.speakers() == {3}


def test_a_row_is_found_once_however_little_a_word_weighs() -> None:
    index = index_of(Row(row=1, length=1, words=((2, 1),)), Row(row=2, length=1, words=((2, 1),)))
    assert [row for row, _ in search_words(index, {2: 8e-87}, 2)] == [1, 2]


def test_a_column_of_one_value_is_never_written_out() -> None:
    """A saved index of a million rows is opened with such columns as the one value each."""
    size = 200_000
    columns = {
        name: np.broadcast_to(np.ones(1, dtype=dtype), (size,)) for name, dtype in COLUMNS.items()
    }
    columns["rows"] = np.arange(1, size + 1, dtype=np.int32)
    columns["previous"] = np.zeros(size, dtype=np.int32)
    table = RowTable.restored(columns)
    rows = np.array([5, 7, size])
    tracemalloc.start()
    try:
        assert table.columns_of(rows)["kind"].tolist() == [1, 1, 1]
        assert table.neighbours(rows, table.select())[0].tolist() == [0, 0, 0]
        assert tracemalloc.get_traced_memory()[1] < size
    finally:
        tracemalloc.stop()
