"""Both search engines against obvious loops, on every path: tail, segments, joins, codes, files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agentmem.base.errors import StoreCorrupt
from agentmem.base.protocols import EmbedderId
from agentmem.search.indexes import lexical as lexical_module
from agentmem.search.indexes import rows as rows_module
from agentmem.search.indexes.files import load_postings, load_vectors, save_postings, save_vectors
from agentmem.search.indexes.lexical import PostingsIndex, join
from agentmem.search.indexes.rows import EVERYTHING, RowScope
from agentmem.search.indexes.vector import VectorIndex
from agentmem.stores.values import in_steps
from agentmem.text.terms import K1, B, analyse, analyse_query, term_hash
from tests.entries import hash_terms
from tests.properties.index_models import (
    ReferenceBM25,
    Row,
    batch,
    best,
    bm25_scores,
    no_vectors,
    queries,
    rows,
    scopes,
    sees,
    tuned,
)
from tests.properties.index_models import search_words as found

EMBEDDER = EmbedderId(name="test", version="1", dimensions=8)
SMALL = {"seal_rows": 3, "join_ratio": 2, "bulk_rows": 4}


def words_of(settings: dict[str, int]) -> PostingsIndex:
    return tuned(PostingsIndex(background=False), **settings)


def vectors_over(words: PostingsIndex, **settings: int) -> VectorIndex:
    return tuned(VectorIndex(EMBEDDER, words.table, no_vectors, background=False), **settings)


@pytest.fixture(params=["added up", "looked up", "few of many", "few looked up"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run everything as small stores do, and as large ones do."""
    if request.param.endswith("looked up"):
        monkeypatch.setattr(lexical_module, "CHEAP", 0)
        monkeypatch.setattr(lexical_module, "_STEP", 0)
    if request.param.startswith("few"):
        monkeypatch.setattr(rows_module, "FEW", 1)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def filled(drawn: list[Row], **settings: int) -> PostingsIndex:
    index = words_of({**SMALL, **settings})
    for row in drawn:
        index.add(batch([row]))
    return index


def remaining(drawn: list[Row]) -> dict[int, Row]:
    """What is left when each row replaces an earlier one of its id, and a deleted one goes."""
    model: dict[int, Row] = {}
    for row in drawn:
        model.pop(row.row, None)
        if not row.flags & 1:
            model[row.row] = row
    return model


class PostingsMachine(RuleBasedStateMachine):
    """Any sequence of changes against a dictionary and a loop."""

    folder: Path

    @initialize(seal=st.integers(1, 5), ratio=st.integers(1, 4), bulk=st.sampled_from((1, 3, 1000)))
    def start(self, seal: int, ratio: int, bulk: int) -> None:
        self.settings = {"seal_rows": seal, "join_ratio": ratio, "bulk_rows": bulk}
        self.index = words_of(self.settings)
        self.model: dict[int, Row] = {}

    @rule(row=rows())
    def add_one(self, row: Row) -> None:
        self.index.add(batch([row]))
        self.model = remaining([*self.model.values(), row])

    @rule(drawn=st.lists(rows(), max_size=12))
    def add_many(self, drawn: list[Row]) -> None:
        gone = {row.row for row in drawn if row.flags & 1}
        drawn = [row for row in drawn if not row.flags & 1]
        drawn += [Row(row=row, flags=1) for row in gone]
        self.index.add(batch([row for row in drawn if row.flags & 1]))
        self.index.add(batch([row for row in drawn if not row.flags & 1]))
        order = [row for row in drawn if row.flags & 1] + [r for r in drawn if not r.flags & 1]
        self.model = remaining([*self.model.values(), *order])

    @rule(ids=st.lists(st.integers(-1, 45), max_size=8))
    def delete(self, ids: list[int]) -> None:
        expected = len(self.model.keys() & set(ids))
        assert self.index.delete(np.array(ids, dtype=np.int64)) == expected
        for row in ids:
            self.model.pop(row, None)

    @rule()
    def compact(self) -> None:
        self.index.snapshot()

    @rule()
    def reopen(self) -> None:
        path = self.folder / "postings"
        digest = save_postings(self.index, path)
        self.index = tuned(load_postings(path, digest, background=False), **self.settings)

    @rule(query=queries(), n=st.integers(0, 12), scope=scopes())
    def search(self, query: dict[int, float], n: int, scope: RowScope) -> None:
        visible = [row for row in self.model.values() if sees(scope, row)]
        expected = bm25_scores(visible, query)
        assert found(self.index, query, n, scope) == best(expected, n)
        hashes = np.array(list(query), dtype=np.uint64)
        match = self.index.match(hashes, list(query.values()), scope=scope)
        everyone = np.arange(0, 45)
        assert found(self.index, query, 45, scope) == best(expected, 45)
        assert match.row_count == len(visible)
        seen = {row.row: dict(row.words) for row in visible}
        assert match.counts_of(everyone).tolist() == [
            [min(seen.get(row, {}).get(term, 0), 255) for term in query] for row in range(45)
        ]
        assert match.row_frequencies.tolist() == [
            sum(term in held for held in seen.values()) for term in query
        ]

    @rule(scope=scopes())
    def look_beside(self, scope: RowScope) -> None:
        before, after = self.index.table.neighbours(
            np.arange(0, 45), self.index.table.select(scope)
        )
        visible = {row.row for row in self.model.values() if sees(scope, row)}
        for row in range(45):
            held = self.model.get(row)
            previous = held.previous if held is not None else 0
            assert before[row] == (previous if previous in visible else 0)
            naming = [r.row for r in self.model.values() if held and r.previous == row]
            following = max(naming, default=0)
            assert after[row] == (following if following in visible else 0)

    @rule(owners=st.none() | st.frozensets(st.integers(0, 4)))
    def ask_who_speaks(self, owners: frozenset[int] | None) -> None:
        speaking = {
            row.speaker
            for row in self.model.values()
            if row.speaker and (owners is None or row.owner in owners)
        }
        assert speaking == self.index.table.speakers(RowScope(owners=owners))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.model)
            columns = self.index.table.columns_of(np.arange(0, 45))
            for row in range(45):
                held = self.model.get(row)
                assert columns["rows"][row] == (row if held else 0)
                assert columns["length"][row] == (held.length if held else 0)
                assert columns["created_at"][row] == (held.created_at if held else 0)


@pytest.mark.usefixtures("path")
def test_words_agree_with_an_obvious_loop(folder: Path) -> None:
    """I1 Words, slow twin. Any sequence of adds, updates, deletes, compactions and reopenings
    finds the rows, in the order and with the very scores, that a plain loop over the visible
    rows gives, for any scope."""
    machine = type("Machine", (PostingsMachine,), {"folder": folder})
    run_machine(machine)


def run_machine(machine: type[RuleBasedStateMachine]) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=settings(stateful_step_count=20))


@pytest.mark.usefixtures("path")
@given(
    mine=st.lists(rows(), max_size=20, unique_by=lambda row: row.row),
    others=st.lists(rows(), max_size=20),
    query=queries(),
    n=st.integers(0, 30),
)
def test_foreign_rows_change_no_score(
    mine: list[Row], others: list[Row], query: dict[int, float], n: int
) -> None:
    """I2 Ranked alone. Whatever other owners add, update or delete, every score a reader
    gets, by words or by vectors, stays the same to the last bit."""
    from dataclasses import replace

    mine = [replace(row, owner=1, flags=0) for row in mine]
    others = [replace(row, owner=2, row=row.row + 100, flags=row.flags & 1) for row in others]
    scope = RowScope(owners=frozenset({1}))
    alone = filled(mine)
    mixed = words_of(SMALL)
    vectors_alone, vectors_mixed = vectors_over(alone), vectors_over(mixed)
    for row in mine:
        add_vector(vectors_alone, row.row, vector_of(row.row))
    vector = vector_of(3)
    for at in range(max(len(mine), len(others))):
        for drawn in (others[at : at + 1], mine[at : at + 1]):
            mixed.add(batch(drawn))
            for row in drawn:
                add_vector(vectors_mixed, row.row, vector_of(row.row))
    expected = found(alone, query, n, scope)
    assert found(mixed, query, n, scope) == expected
    nearest = [part.tolist() for part in vectors_alone.search(vector, n, scope=scope)]
    assert [part.tolist() for part in vectors_mixed.search(vector, n, scope=scope)] == nearest
    mixed.delete([row.row for row in others[::2]])
    vectors_mixed.delete([row.row for row in others[::2]])
    assert found(mixed, query, n, scope) == expected
    assert [part.tolist() for part in vectors_mixed.search(vector, n, scope=scope)] == nearest


@pytest.mark.usefixtures("path")
@given(
    drawn=st.lists(rows(), max_size=30, unique_by=lambda row: row.row),
    query=queries(),
    scope=scopes(),
    seal=st.integers(1, 40),
    cuts=st.lists(st.integers(0, 30), max_size=4),
)
def test_one_by_one_equals_batch(
    drawn: list[Row], query: dict[int, float], scope: RowScope, seal: int, cuts: list[int]
) -> None:
    """I3 Same answer however it came. One by one, in one batch, in any cut, and with segments
    joined at any size, the same rows give the same scores to the last bit."""
    one_by_one = filled(drawn)
    together = words_of({**SMALL, "seal_rows": seal, "bulk_rows": seal})
    edges = sorted({0, len(drawn), *(min(cut, len(drawn)) for cut in cuts)})
    for start, end in pairwise(edges):
        together.add(batch(drawn[start:end]))
    assert found(one_by_one, query, 10, scope) == found(together, query, 10, scope)


@given(
    before=st.lists(rows(20), min_size=1, max_size=12),
    during=st.lists(rows(20), max_size=12),
    gone=st.lists(st.integers(1, 20), max_size=6),
    seal=st.integers(1, 20),
    query=queries(),
)
@example(before=[Row(row=1)], during=[Row(row=1)] * 3, gone=[], seal=1, query={})
def test_changes_during_upkeep_are_kept(
    before: list[Row], during: list[Row], gone: list[int], seal: int, query: dict[int, float]
) -> None:
    """I6 Upkeep loses nothing. Rows and vectors added, updated or deleted while an index is
    being rebuilt beside the searches are there, or gone, when it is swapped in."""
    index = filled(before, seal_rows=1000)
    vectors = vectors_over(index, approximate_from=4)
    for row in before:
        add_vector(vectors, row.row, vector_of(row.row))
    index.delete([before[0].row])
    vectors.delete([before[0].row])
    index.seal_rows = seal
    new_codes = VectorIndex._new_codes

    def join_slowly(*args: Any) -> Any:
        setattr(lexical_module, "join", join)  # noqa: B010 - it is not exported there
        for row in during:
            index.add(batch([row]))
        index.delete(gone)
        return join(*args)

    def code_slowly(*args: Any) -> Any:
        VectorIndex._new_codes = new_codes  # type: ignore[method-assign]  # only the first time
        found_codes = new_codes(*args)
        for row in during:
            add_vector(vectors, row.row, vector_of(row.row + 1))
        vectors.delete(gone)
        return found_codes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lexical_module, "join", join_slowly)
        patch.setattr(VectorIndex, "_new_codes", code_slowly)
        with index._job:
            index._compact()
        vectors._rebuild()
    order = [*before, Row(row=before[0].row, flags=1), *during]
    expected = remaining([*order, *(Row(row=row, flags=1) for row in gone)])
    scores = bm25_scores(expected.values(), query)
    assert found(index, query, 40, EVERYTHING) == best(scores, 40)
    index.snapshot()
    assert found(index, query, 40, EVERYTHING) == best(scores, 40)
    held: dict[int, Any] = {row.row: vector_of(row.row) for row in before}
    del held[before[0].row]
    held |= {row.row: vector_of(row.row + 1) for row in during}
    held = {row: vector for row, vector in held.items() if row not in gone}
    known = vectors.cosines_of(vector_of(1), np.arange(0, 22))
    assert set(np.flatnonzero(~np.isnan(known)).tolist()) == held.keys()
    for number, vector in held.items():
        assert known[number] == pytest.approx(cosine(vector, vector_of(1)), abs=5e-5)
    ids, _ = vectors.search(vector_of(1), 40)
    assert set(ids.tolist()) == held.keys() & expected.keys()


def add_vector(index: VectorIndex, row: int, vector: np.ndarray) -> None:
    index.add(np.array([row]), vector[None])


def vector_of(seed: int) -> np.ndarray:
    """A vector that depends on the number alone; numbers fifty apart have the same."""
    vector = 4 * np.random.default_rng(seed % 50).standard_normal(EMBEDDER.dimensions)
    counts, step = in_steps(vector[None, :].astype(np.float32))  # as a store keeps it
    kept: np.ndarray = counts[0] * step[0]
    return kept


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    lengths = np.linalg.norm(first) * np.linalg.norm(second)
    return float(np.dot(first.astype(np.float64), second) / lengths)


class VectorMachine(RuleBasedStateMachine):
    """Any sequence of changes against a dictionary and a loop, with and without codes."""

    folder: Path

    @initialize(
        start=st.sampled_from((1, 6, 1000)),
        scope=st.sampled_from((0, 4, 1000)),
        owners=st.lists(st.integers(0, 3), min_size=14, max_size=14),
    )
    def start(self, start: int, scope: int, owners: list[int]) -> None:
        self.settings = {"approximate_from": start, "exact_scope": scope, "depth": 1000, "fresh": 3}
        self.words = words_of(SMALL)
        self.index = self.new_index()
        self.model: dict[int, Row] = {}
        self.vectors: dict[int, Any] = {}
        self.add_rows([Row(row=row, owner=owner) for row, owner in enumerate(owners, 1)])

    @rule(drawn=st.lists(rows(16), max_size=3))
    def add_rows(self, drawn: list[Row]) -> None:
        for row in drawn:
            self.words.add(batch([row]))
        self.model = remaining([*self.model.values(), *drawn])

    @rule(ids=st.lists(st.integers(1, 16), max_size=10), seed=st.integers(0, 30))
    def add_vectors(self, ids: list[int], seed: int) -> None:
        rankedvectors = [vector_of(seed + at) for at in range(len(ids))]
        drawn = np.array(rankedvectors, dtype=np.float32).reshape(len(ids), 8)
        self.index.add(np.array(ids, dtype=np.int64), drawn)
        self.vectors |= dict(zip(ids, rankedvectors, strict=True))

    @rule(ids=st.lists(st.integers(-1, 18), max_size=3))
    def delete(self, ids: list[int]) -> None:
        assert self.index.delete(ids) == len(self.vectors.keys() & set(ids))
        for row in ids:
            self.vectors.pop(row, None)

    @rule()
    def compact(self) -> None:
        self.index.snapshot()
        self.words.snapshot()

    @rule()
    def reopen(self) -> None:
        path = self.folder / "vectors"
        digest = save_vectors(self.index, path)
        self.index = load_vectors(path, digest, self.new_index())

    def new_index(self) -> VectorIndex:
        index = VectorIndex(EMBEDDER, self.words.table, self.fetch, background=False)
        return tuned(index, **self.settings)

    def fetch(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        known = [row for row in ids.tolist() if row in self.vectors]
        found = np.array([self.vectors[row] for row in known], dtype=np.float32)
        return np.array(known, dtype=np.int64), found.reshape(len(known), EMBEDDER.dimensions)

    @rule(seed=st.integers(0, 60), n=st.integers(0, 6), scope=scopes(16))
    def search(self, seed: int, n: int, scope: RowScope) -> None:
        query = vector_of(seed)
        ids, cosines = self.index.search(query, n, scope=scope)
        visible = {row.row for row in self.model.values() if sees(scope, row)}
        exact = self.index.cosines_of(query, np.arange(0, 45))
        for row in range(45):
            if row in self.vectors:
                assert abs(exact[row] - cosine(self.vectors[row], query)) < 5e-5
            else:
                assert np.isnan(exact[row])
        wanted = {row: float(exact[row]) for row in visible & self.vectors.keys()}
        assert list(zip(ids.tolist(), cosines.tolist(), strict=True)) == best(wanted, n)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        if hasattr(self, "index"):
            assert len(self.index) == len(self.vectors)


def test_vectors_agree_with_an_obvious_loop(folder: Path) -> None:
    """I4 Vectors, slow twin. Any sequence of adds, updates, deletes, compactions and reopenings
    finds the rows a plain loop over the visible vectors gives, for any scope; with codes too
    when they may look as deep as there are vectors."""
    run_machine(type("Machine", (VectorMachine,), {"folder": folder}))


@given(data=st.data(), drawn=st.lists(rows(), max_size=20), flip=st.integers(1, 255))
def test_an_altered_file_is_refused(
    folder: Path, data: st.DataObject, drawn: list[Row], flip: int
) -> None:
    """I5 Only what was saved. A saved index with any byte changed, cut off or added is refused;
    unchanged it gives the same answers as before."""
    words = filled(drawn)
    vectors = vectors_over(words, approximate_from=4)
    for row in drawn:
        add_vector(vectors, row.row, vector_of(row.row))
    for name, digest in (
        ("words", save_postings(words, folder / "words")),
        ("vectors", save_vectors(vectors, folder / "vectors")),
    ):
        whole = (folder / name).read_bytes()
        at = data.draw(st.integers(0, len(whole) - 1))
        altered = whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
        for content in (altered, whole[:at], whole + b"\0"):
            (folder / name).write_bytes(content)
            with pytest.raises(StoreCorrupt):
                load(folder / name, digest, words)
        (folder / name).write_bytes(whole)
        load(folder / name, digest, words)
    again = load_postings(folder / "words", save_postings(words, folder / "words"))
    query = {1: 1.0, 2: 0.5, 3: 2.0}
    assert found(again, query, 50, EVERYTHING) == found(words, query, 50, EVERYTHING)


def load(path: Path, digest: str, words: PostingsIndex) -> None:
    if path.name == "words":
        load_postings(path, digest)
    else:
        load_vectors(path, digest, vectors_over(words))


# -- another hand's BM25 ------------------------------------------------------------------

SAID = st.lists(
    st.sampled_from(("cat", "Cats", "dog", "the", "tea", "green tea", "Oslo", "42", "snake_case"))
    | st.text(max_size=6),
    max_size=12,
).map(" ".join)


@pytest.mark.usefixtures("path")
@given(
    mine=st.lists(SAID, min_size=1, max_size=12),
    others=st.lists(SAID, max_size=8),
    question=SAID,
)
@example(mine=["cat"], others=[], question="cat")
@example(mine=["cat dog", "cat", "cat cat tea", ""], others=["dog"] * 5, question="cat dog")
def test_scores_are_those_of_rank_bm25(mine: list[str], others: list[str], question: str) -> None:
    """Over one reader's rows the index has the order and the scores of rank-bm25."""
    drawn: list[Row] = []
    for number, text in enumerate([*mine, *others], start=1):
        hashes, counts = (column.tolist() for column in hash_terms(text))
        words = tuple(zip(hashes, counts, strict=True))
        owner = int(number > len(mine))
        drawn.append(Row(row=number, owner=owner, words=words, length=sum(counts)))
    query = dict.fromkeys((term_hash(term) for term, _ in analyse_query(question)), 1.0)
    ranked = found(filled(drawn), query, len(mine), RowScope(owners=frozenset({0})))

    terms = [analyse(text) for text in mine]
    expected = [0.0] * len(mine)
    if any(terms):
        expected = ReferenceBM25(terms, k1=K1, b=B).get_scores(
            [term for term, _ in analyse_query(question)]
        )
    scores = {row: float(score) for row, score in enumerate(expected, start=1) if score > 0}
    assert dict(ranked) == pytest.approx(scores, rel=1e-9)
    in_order = [scores[row] for row, _ in ranked]
    assert all(one >= two * (1 - 1e-9) for one, two in pairwise(in_order))
