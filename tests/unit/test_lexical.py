"""Worked examples of terms."""

from __future__ import annotations

import threading

import pytest

from agentmem.base.errors import InvalidText
from agentmem.text.terms import analyse, analyse_query, idf, term_hash
from tests.entries import hash_terms


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running dogs", ["run", "dog"]),
        ("Caroline's iPhone", ["carolin", "phone", "iphon"]),
        ("I don't, you can't, we won't", ["i", "do", "you", "can", "we", "will"]),
        ("parseHTTPResponse", ["pars", "http", "respons", "parsehttprespons"]),
        ("snake_case_name", ["snake", "case", "name", "snakecasenam"]),
        ("gpt-4", ["gpt", "4", "gpt4"]),
        ("1,000.5 and 2023", ["1000.5", "2023"]),
        ("O'Brien", ["o", "brien", "obrien"]),
        ("Straße ÉTÉ e\u0301te\u0301", ["strass", "ete", "ete"]),
        ("猫が好き", ["猫が", "が好", "好き", "猫", "が", "好", "き"]),
        ("नमस्ते", ["नमस्ते"]),
        ("to be or not to be", ["to", "be", "or", "not", "to", "be"]),
        ("\x00 😀 -- '' \"", []),
        ("", []),
    ],
)
def test_terms_of_a_text(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


def test_one_character_finds_a_longer_run_but_a_run_is_asked_by_its_pairs() -> None:
    assert [term for term, _ in analyse_query("猫")] == ["猫"]
    assert [term for term, _ in analyse_query("猫が好き")] == ["猫が", "が好", "好き"]


def test_a_repeated_word_weighs_more_and_repeats_stay_when_the_query_is_cut() -> None:
    assert analyse_query("tea tea milk") == [("tea", pytest.approx(1.6931, abs=1e-3)), ("milk", 1)]
    text = " ".join(f"{number}" for number in range(500)) + " tea tea"
    terms = [term for term, _ in analyse_query(text, max_terms=10)]
    assert terms[0] == "tea"
    assert len(terms) == 10


def test_hashes_do_not_change_between_versions() -> None:
    assert term_hash("tea") == 10431608578837538234


def test_a_rare_word_is_worth_something_in_a_memory_of_one_row() -> None:
    assert idf(1, 1) > 0.6 * idf(0, 1)


def test_huge_texts_are_read() -> None:
    for text in ("a" * 10**6, "日本" * 200_000, "a.b-" * 250_000, "ab " * 300_000, "'" * 10**6):
        hashes, counts = hash_terms(text)
        assert len(hashes) == len(counts)


def test_what_is_not_text_is_refused() -> None:
    for value in (None, 3, b"tea", "\ud800"):
        with pytest.raises(InvalidText):
            analyse(value)  # type: ignore[arg-type]  # wrong on purpose


def test_threads_get_the_same_terms() -> None:
    words = [f"running{letter}ly" for letter in "abcdefghijklmnop"] * 20
    expected = [analyse(word) for word in words]
    results: list[list[list[str]]] = []
    threads = [
        threading.Thread(target=lambda: results.append([analyse(word) for word in words]))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4
