"""The one form of a text and its hash."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.types import content_hash, normalise
from tests.properties.strategies import texts

SPACED = st.lists(
    st.sampled_from(("a", "  b", " ", "\t", "\n", "\r\n", "\r", "\u2028", "\u0085", "\x0b", "\x1c", "e\u0301", "é"))
).map("".join)  # fmt: skip


@given(text=texts() | SPACED)
@example(text="a\x0b\n")
@example(text="\n \n a \n \n")
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    """C4 One form. Normalising is idempotent, keeps every visible character, and leaves neither
    white space at a line's end nor a line break other than a newline."""
    once = normalise(text)
    assert normalise(once) == once
    assert "".join(once.split()) == "".join(unicodedata.normalize("NFC", text).split())
    assert all(line == line.rstrip() for line in once.split("\n"))
    assert not set(once) & set("\r\u0085\u2028\u2029")


@given(text=texts(), position=st.integers(0, 10**6), other=st.characters(exclude_categories=["Cs"]))
def test_a_change_anywhere_changes_the_hash(text: str, position: int, other: str) -> None:
    """C5 Whole hash. Two texts have the same hash exactly when they have the same normal form,
    wherever they differ."""
    place = position % (len(text) + 1)
    for changed in (
        text[:place] + other + text[place:],
        text[:place] + other + text[place + 1 :],
        text[:place] + text[place + 1 :],
    ):
        same = normalise(text) == normalise(changed)
        assert (content_hash(text) == content_hash(changed)) == same


@given(line=st.sampled_from(("a line of text", "é", "日本語。")), lines=st.integers(1, 3000))
def test_the_last_character_of_a_long_text_counts(line: str, lines: int) -> None:
    """The hash reads to the end (C5), and line ends do not count (C4)."""
    text = "\n".join([line] * lines)
    assert content_hash(text) != content_hash(text + "x")
    assert content_hash(text) == content_hash(text.replace("\n", " \r\n") + "\n")
