"""Words to terms, for any text; and what terms are worth."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.core.lexical import (
    MAX_WORD_CHARACTERS,
    STOP_WORDS,
    analyse,
    analyse_query,
    bm25,
    hash_terms,
    idf,
    pack_terms,
    term_hash,
)
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
    st.tuples(st.integers(1, 1000), st.integers(1, 5000), st.floats(1, 500)),
    st.integers(0, 1000),
    st.tuples(st.integers(0, 1000), st.integers(0, 10**7)),
)
def test_more_is_never_worth_less(
    row: tuple[int, int, float], more: int, store: tuple[int, int]
) -> None:
    """R6 BM25. A term more often, in a shorter row, or rarer is never worth less; none is negative."""
    frequency, length, mean = row
    found, rows = store[0], sum(store)

    def worth(times: int, terms: int, holding: int) -> float:
        return float(
            bm25(
                np.array([times], dtype=np.float32),
                np.array([terms], dtype=np.float32),
                weight=idf(holding, rows),
                mean_length=mean,
            )[0]
        )

    base = worth(frequency, length, found)
    assert base >= 0
    assert np.isfinite(base)
    slack = 1e-5 * (1 + base)
    assert worth(frequency + more, length, found) >= base - slack
    assert worth(frequency, length + more, found) <= base + slack
    assert worth(frequency, length, found // 2) >= base - slack


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
