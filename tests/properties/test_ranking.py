"""Ranking: scores between 0 and 1 that no order, neighbour or missing vector can break."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

import agentmem
from agentmem.base.protocols import EmbedderId
from agentmem.base.types import Scope
from agentmem.search.protocol import surround
from agentmem.search.question import Question, read_question
from agentmem.search.rank import (
    FEATURES,
    HOPS,
    Evidence,
    compute_features,
    model_for,
    rank,
    row_flags,
)
from agentmem.testing import ManualClock
from agentmem.text.dates import find_date_range
from agentmem.text.terms import K1, B, idf
from tests.local_search import local
from tests.properties.strategies import instants, texts

EMBEDDERS = (
    None,
    EmbedderId(name="wordllama", version="1", dimensions=256),
    EmbedderId(name="minilm", version="1", dimensions=384),
    EmbedderId(name="another", version="1", dimensions=8),
)


def build_evidence(numbers: Any, *, rows: int, terms: int, vectors: bool) -> Evidence:
    """Any evidence that hangs together, from Hypothesis' own random numbers."""
    session = np.sort(numbers.integers(-1, max(1, rows // 2), rows))
    linked = (session[1:] == session[:-1]) & (session[1:] >= 0)
    positions = np.arange(rows, dtype=np.int32)
    cosine = numbers.uniform(-1, 1, rows).astype(np.float32)
    cosine[numbers.uniform(size=rows) < 0.1] = np.nan
    return Evidence(
        frequencies=numbers.integers(0, 3, (rows, terms)).astype(np.float32),
        lengths=numbers.integers(0, 60, rows).astype(np.float32),
        document_frequencies=numbers.integers(0, rows + 1, terms).astype(np.float32),
        rows_in_scope=rows + int(numbers.integers(0, 1000)),
        mean_length=float(numbers.uniform(0, 40)),
        cosine=cosine if vectors else None,
        previous=np.concatenate([[-1], np.where(linked, positions[:-1], -1)]).astype(np.int32),
        next=np.concatenate([np.where(linked, positions[1:], -1), [-1]]).astype(np.int32),
        session=session,
        speaker=numbers.integers(-1, 2, rows).astype(np.int8),
        flags=numbers.integers(0, 160, rows).astype(np.uint8),
        created=np.where(numbers.uniform(size=rows) < 0.2, np.nan, numbers.uniform(0, 2e9, rows)),
        conversation=numbers.uniform(size=rows) < 0.7,
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Evidence, Question, EmbedderId | None]:
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    text = draw(texts(60) | st.sampled_from(["When did Ada go to Lima in May 2023?", "how many?"]))
    question = read_question(text)
    embedder = draw(st.sampled_from(EMBEDDERS))
    evidence = build_evidence(
        numbers,
        rows=draw(st.integers(1, 12)),
        terms=len(question.terms),
        vectors=embedder is not None,
    )
    return evidence, question, embedder


@given(cases())
def test_every_row_has_a_score_and_a_place(
    case: tuple[Evidence, Question, EmbedderId | None],
) -> None:
    """R7 Scores. Every row of any evidence gets a finite score from 0 to 1 and one place in the order."""
    evidence, question, embedder = case
    ranked = rank(evidence, question, model=model_for(embedder))
    assert ((ranked.scores >= 0) & (ranked.scores <= 1)).all()
    assert sorted(ranked.order.tolist()) == list(range(len(evidence.lengths)))
    assert (np.diff(ranked.scores[ranked.order]) <= 0).all()
    assert np.isfinite(ranked.features).all()


@given(cases(), st.data())
def test_a_better_match_never_scores_lower(
    case: tuple[Evidence, Question, EmbedderId | None], data: st.DataObject
) -> None:
    """R8 Monotone. Raising a row's term count or cosine never lowers its score."""
    evidence, question, embedder = case
    row = data.draw(st.integers(0, len(evidence.lengths) - 1))
    model = model_for(embedder)
    before = rank(evidence, question, model=model).scores[row]
    if question.terms:
        frequencies = evidence.frequencies.copy()
        frequencies[row, data.draw(st.integers(0, len(question.terms) - 1))] += 1
        raised = replace(evidence, frequencies=frequencies)
        assert rank(raised, question, model=model).scores[row] >= before - 1e-9
    if evidence.cosine is not None:
        assume(not np.isnan(evidence.cosine[row]))
        cosine = evidence.cosine.copy()
        cosine[row] += np.float32(data.draw(st.floats(0, 1)))
        raised = replace(evidence, cosine=cosine)
        assert rank(raised, question, model=model).scores[row] >= before - 1e-6


@given(cases(), st.data())
def test_a_better_match_is_never_overtaken_by_another(
    case: tuple[Evidence, Question, EmbedderId | None], data: st.DataObject
) -> None:
    """S3 Fusion is monotone. Raising a page's term count or cosine lets no other page overtake it."""
    evidence, question, embedder = case
    evidence = replace(evidence, conversation=np.zeros_like(evidence.conversation))
    row = data.draw(st.integers(0, len(evidence.lengths) - 1))
    model = model_for(embedder)

    def beaten(judged: Evidence) -> set[int]:
        scores = rank(judged, question, model=model).scores
        return set(np.flatnonzero(scores < scores[row]).tolist())

    before = beaten(evidence)
    if question.terms:
        frequencies = evidence.frequencies.copy()
        frequencies[row, data.draw(st.integers(0, len(question.terms) - 1))] += 1
        assert before <= beaten(replace(evidence, frequencies=frequencies))
    if evidence.cosine is not None:
        assume(not np.isnan(evidence.cosine[row]))
        cosine = evidence.cosine.copy()
        cosine[row] += np.float32(data.draw(st.floats(0, 1)))
        assert before <= beaten(replace(evidence, cosine=cosine))


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(
    case: tuple[Evidence, Question, EmbedderId | None], random: Any
) -> None:
    """R9 Order. Shuffled rows get the same scores."""
    evidence, question, embedder = case
    rows = len(evidence.lengths)
    shuffled = list(range(rows))
    random.shuffle(shuffled)
    order = np.array(shuffled)
    place = np.empty(rows, dtype=np.int32)
    place[order] = np.arange(rows)

    def moved(positions: Any) -> Any:
        return np.where(positions[order] >= 0, place[positions[order]], -1).astype(np.int32)

    names = ("lengths", "session", "speaker", "flags", "created", "conversation", "frequencies")
    other = replace(
        evidence,
        **{name: getattr(evidence, name)[order] for name in names},
        cosine=None if evidence.cosine is None else evidence.cosine[order],
        previous=moved(evidence.previous),
        next=moved(evidence.next),
    )
    model = model_for(embedder)
    left = rank(evidence, question, model=model).scores[order]
    right = rank(other, question, model=model).scores
    assert np.allclose(left, right, atol=1e-6)


@given(cases())
def test_features_agree_with_an_obvious_loop(
    case: tuple[Evidence, Question, EmbedderId | None],
) -> None:
    """R10 Slow twin. The features of all rows at once are those of a plain loop over rows."""
    evidence, question, _ = case
    fast = compute_features(evidence, question, cosine_mean=0.1, cosine_spread=0.2)
    slow = loop_features(evidence, question, mean=0.1, spread=0.2)
    for name, values in slow.items():
        assert np.allclose(fast[:, FEATURES.index(name)], values, atol=1e-3), name


def loop_features(
    evidence: Evidence, question: Question, *, mean: float, spread: float
) -> dict[str, list[float]]:
    count = len(evidence.lengths)
    worth = [
        idf(float(found), evidence.rows_in_scope) * weight
        for found, weight in zip(evidence.document_frequencies, question.term_weights, strict=True)
    ]
    total = max(sum(worth), 1e-9)

    def share(row: int, term: int) -> float:
        times = float(evidence.frequencies[row, term])
        relative = float(evidence.lengths[row]) / max(evidence.mean_length, 1e-9)
        if times == 0:
            return 0.0
        return times * (K1 + 1) / (times + K1 * (1 - B + B * relative)) * worth[term] / total

    def cosine(row: int) -> float:
        assert evidence.cosine is not None
        value = float(evidence.cosine[row])
        return 0.0 if np.isnan(value) else max(-5.0, (value - mean) / spread)

    def around(row: int) -> dict[int, int]:
        found = {}
        for links, sign in ((evidence.previous, -1), (evidence.next, 1)):
            at = row
            for hop in (1, 2):
                at = int(links[at])
                if at < 0:
                    break
                found[sign * hop] = at
        return found

    result: dict[str, list[float]] = {
        name: [] for name in ("lexical", "lexical_pair", "lexical_window", "lexical_session")
    }
    terms = range(len(question.terms))
    for row in range(count):
        near = around(row)
        pair = [row, near.get(-1, row)]
        mates = [
            other
            for other in range(count)
            if other == row
            or (evidence.session[row] >= 0 and evidence.session[row] == evidence.session[other])
        ]
        result["lexical"].append(sum(share(row, t) for t in terms))
        spoken = int(evidence.flags[row]) // 16
        other = bool(question.language and spoken and spoken != question.language)
        result.setdefault("other_language", []).append(float(other))
        result["lexical_pair"].append(sum(max(share(r, t) for r in pair) for t in terms))
        window = [row, *near.values()]
        result["lexical_window"].append(sum(max(share(r, t) for r in window) for t in terms))
        result["lexical_session"].append(sum(max(share(r, t) for r in mates) for t in terms))
        result.setdefault("lexical_session_best", []).append(
            max(sum(share(r, t) for t in terms) for r in mates)
        )
        if evidence.cosine is not None:
            fade = {-1: 0.9, 1: 0.9, -2: 0.8, 2: 0.8}
            rest = [fade[hop] * max(0.0, cosine(r)) for hop, r in near.items()]
            # A missing neighbour counts as an unrelated one.
            floor = [0.0] * (len(near) < 4)
            result.setdefault("cosine", []).append(cosine(row))
            result.setdefault("cosine_window", []).append(max([cosine(row), *rest, *floor]))
            result.setdefault("cosine_previous", []).append(cosine(near[-1]) if -1 in near else 0.0)
            result.setdefault("cosine_next", []).append(cosine(near[1]) if 1 in near else 0.0)
            result.setdefault("cosine_session_best", []).append(max(cosine(r) for r in mates))
    return result


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    wanted=st.lists(st.integers(0, 44), min_size=1, max_size=6, unique=True),
)
def test_expansion_brings_exactly_the_neighbours(sizes: list[int], wanted: list[int]) -> None:
    """R11 Neighbours. What a search looks at are the candidates and every turn of their sessions within two hops, each with its neighbours."""
    with agentmem.open(":memory:", embedder=None, clock=ManualClock()) as memory:
        place: dict[int, tuple[int, int]] = {}
        for number, size in enumerate(sizes):
            said = [
                {"role": ("user", "assistant")[at % 2], "content": f"Session {number}, turn {at}."}
                for at in range(size)
            ]
            added = memory.add(said, session=f"s{number}")
            for at, memory_id in enumerate(added.ids):
                place[memory.store.row_of(Scope(), memory_id)] = (number, at)
        candidates = [row for at, row in enumerate(sorted(place)) if at in wanted]
        assume(candidates)
        memory.index.catch_up()
        table = local(memory).table
        every = np.ones(len(candidates), dtype=bool)
        beside = partial(table.neighbours, seen=table.select())
        found, previous, after = surround(np.array(candidates), every, beside)
    rows = found.tolist()
    near = {
        row
        for row, (session, at) in place.items()
        if any(place[c][0] == session and abs(place[c][1] - at) <= HOPS for c in candidates)
    }
    assert rows[: len(candidates)] == candidates
    assert len(rows) == len(set(rows))
    assert set(rows) == near
    row_at = {spot: row for row, spot in place.items()}
    for step, positions in ((-1, previous), (1, after)):
        for row, position in zip(rows, positions.tolist(), strict=True):
            session, at = place[row]
            other = row_at.get((session, at + step))
            assert position == (rows.index(other) if other in near else -1)


@given(texts(), st.none() | instants())
def test_any_question_is_read(text: str, now: Any) -> None:
    """R12 Any question. Any text is read as a question; its dates are in order, its speakers known."""
    question = read_question(text, ("Ada", "Ada Byron", "Mary Ann", text[:20], ""), now=now)
    assert len(question.terms) == len(question.term_weights) == len(question.term_is_name) <= 64
    assert set(question.named) <= {"Ada", "Ada Byron", "Mary Ann", text[:20]}
    assert 0 <= row_flags(text) < 256
    dates = find_date_range(text, now=now)
    assert dates is None or dates.start < dates.end
