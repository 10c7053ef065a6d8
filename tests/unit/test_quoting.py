"""When one text repeats another."""

from __future__ import annotations

import pytest

from agentmem.prompt.strip import Names, Quotes, texts_in

LONG = " ".join(f"word{n}" for n in range(100))


@pytest.mark.parametrize(
    ("erased", "other", "repeated"),
    [
        ("The PIN is 4711.", "  the pin\nis 4711!", True),
        ("The PIN is 4711.", "The PIN [1] is 4711 [2, 3].", True),
        ("The PIN is 4711.", "The PIN【3†source】 is (source 1) 4711", True),
        ("The PIN is 4711.", "The PIN is 4712.", False),
        ("The PIN is 4711.", "Is 4711 the PIN?", False),
        (LONG, " ".join(f"word{n}" for n in range(41, 52)), True),
        (LONG, "word99 word98 word97 word1 word3 word5 word7 word9 word11", False),
        (LONG, "so it ends: word92 word93 word94 word95 word96 word97 word98 word99.", True),
        ("鍵は青い箱の中にあります", "昨日の話：鍵は青い箱の中にあります。", True),
        ("鍵は青い箱の中にあります", "鍵は赤い箱の上にありました", False),
        ("→→★★→→", "so: →→★★→→", True),
        ("→→★★→→", "so: ★", False),
        ("ok", "ok, that is fine", False),  # in everything, hence no quote
    ],
)
def test_a_quote_is_a_short_text_or_eleven_words_of_a_long_one(
    erased: str, other: str, repeated: bool
) -> None:
    assert Quotes([erased]).are_in(other) is repeated
    many = [f"something else number {n} is kept in room {n}" for n in range(200)]
    assert Quotes([*many, erased]).are_in(other) is repeated


def test_an_id_is_named_as_a_word_of_its_own() -> None:
    names = Names(["abcd-1234", "id with spaces", "no"])
    assert names.are_in("see (abcd-1234)")
    assert names.are_in("an id with spaces in it")
    assert not names.are_in("abcd-12345, no")
    assert not Names([]).are_in("abcd-1234")


def test_every_text_of_a_value_is_looked_at() -> None:
    assert list(texts_in({"a": ["b", {"c": 1}], "d": ("e", None)})) == ["a", "b", "c", "d", "e"]
