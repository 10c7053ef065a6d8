"""Words to terms, for any text; and what terms are worth."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.search.indexes.lexical import PostingsIndex
from agentmem.text.terms import (
    MAX_WORD_CHARACTERS,
    STOP_WORDS,
    analyse,
    analyse_query,
    pack_terms,
    term_hash,
)
from tests.entries import hash_terms
from tests.properties.index_models import Row, batch, search_words
from tests.properties.strategies import texts

WORDS = st.from_regex(r"[a-z]{3,12}", fullmatch=True).filter(lambda word: word not in STOP_WORDS)


@given(texts())
@example("日本語" * 50)
@example("a" * 100 + ".b")
def test_any_text_has_short_terms_and_counted_hashes(text: str) -> None:
    """R1 Terms of any text. Any text gives terms of 1 to 64 characters, and its hashes count them."""
    terms = analyse(text)
    assert all(1 <= len(term) <= MAX_WORD_CHARACTERS for term in terms)
    hashes, counts = hash_terms(text)
    expected = Counter(term_hash(term) for term in terms)
    assert dict(zip(hashes.tolist(), counts.tolist(), strict=True)) == expected
    assert hashes.dtype == np.uint64
    assert counts.dtype == np.uint16
    assert (np.diff(hashes.astype(object)) > 0).all()


@given(texts())
@example("猫")
@example("to be or not to be")
@example("Straße e\u0301té O'Brien won't")
def test_a_text_is_found_by_itself(text: str) -> None:
    """R2 Found by itself. Every term of a text asked as a question is a term of the stored text."""
    asked = {term for term, _ in analyse_query(text, max_terms=10_000)}
    assert asked <= set(analyse(text))
    assert bool(asked) == bool(analyse(text))


@given(texts(), st.integers(1, 20))
def test_a_question_has_a_bounded_number_of_terms(text: str, limit: int) -> None:
    """R3 Bounded question. A question of any length has at most the set number of distinct terms."""
    terms = analyse_query(text, max_terms=limit)
    assert len(terms) <= limit
    assert len({term for term, _ in terms}) == len(terms)
    assert all(weight >= 1 for _, weight in terms)


@given(WORDS)
def test_case_does_not_matter(word: str) -> None:
    """R4 Case. A word in capitals, small letters or with a first capital is the same term."""
    assert analyse(word) == analyse(word.upper()) == analyse(word.title())


@given(st.lists(WORDS, min_size=2, max_size=4))
def test_identifiers_are_found_by_their_parts_and_whole(words: list[str]) -> None:
    """R5 Identifiers. An identifier holds the terms of its parts, and spelt in any style it is one."""
    parts = {term for word in words for term in analyse(word)}
    camel = words[0] + "".join(word.title() for word in words[1:])
    spelt = ["_".join(words), "-".join(words), ".".join(words), camel]
    assert all(parts <= set(analyse(name)) for name in spelt)
    assert {analyse(name)[-1] for name in spelt} == set(analyse("".join(words)))


@given(
    frequency=st.integers(1, 300),
    length=st.integers(1, 5000),
    more=st.integers(0, 1000),
    others=st.lists(st.integers(0, 5000), max_size=8),
)
def test_more_is_never_worth_less(
    frequency: int, length: int, more: int, others: list[int]
) -> None:
    """R6 BM25. In the index that searches, a term more often, in a shorter row, or rarer is never worth less; none is negative."""
    common, rare = 1, 2
    rows = [
        Row(row=1, length=length, words=((common, frequency),)),
        Row(row=2, length=length, words=((common, frequency + more),)),
        Row(row=3, length=length + more, words=((common, frequency),)),
        Row(row=4, length=length, words=((rare, frequency),)),
        *(Row(row=5 + at, length=size, words=((common, 1),)) for at, size in enumerate(others)),
    ]
    index = PostingsIndex(background=False)
    index.add(batch(rows))
    worth = dict(search_words(index, {common: 1.0, rare: 1.0}, len(rows)))
    assert set(worth) == {row.row for row in rows}
    assert all(score >= 0 for score in worth.values())
    slack = 1e-9 * (1 + worth[1])
    assert worth[2] >= worth[1] - slack
    assert worth[3] <= worth[1] + slack
    assert worth[4] >= worth[1] - slack


@given(st.lists(texts(), min_size=1, max_size=20))
@example(["the", "", "a a b", "日本語"] * 5)
@example(["a b " * 70_000] * 8)
def test_texts_counted_together_are_counted_as_alone(many: list[str]) -> None:
    """I7 Counted together. The terms of many texts added at once are those of each text alone."""
    packed = pack_terms(many)
    assert packed == [pack_terms([text])[0] for text in many]
    for text, (hashes, counts, length) in zip(many, packed, strict=True):
        expected, occurrences = hash_terms(text)
        assert hashes == expected.astype("<u8").tobytes()
        assert counts == occurrences.astype("<u2").tobytes()
        assert length == int(occurrences.sum(dtype=np.int64))
