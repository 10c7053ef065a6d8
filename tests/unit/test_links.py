"""Answers without live markup, by example."""

from __future__ import annotations

import pytest

from agentmem.text.markdown import is_live, remove_live_markup

OWN = ("https://example.com/a", "https://example.com/ü_(b)", "https://example.com/c?d=1")


@pytest.mark.parametrize(
    "answer",
    [
        "Plain words, a list:\n\n- one [1]\n- two [2, 3]",
        "A link to [the page](https://example.com/a) [1].",
        "[1](https://example.com/ü_(b))",
        "See https://example.com/c?d=1.",
        "Code: `![x](https://evil.example)` and\n\n```\n<img src=x>\n```",
        "a < b and c > d!",
        "list[int] and x[0]",
    ],
)
def test_what_is_harmless_stays_byte_for_byte(answer: str) -> None:
    safe = remove_live_markup(answer, OWN)
    assert safe.text == answer
    assert not safe.removed


@pytest.mark.parametrize(
    ("answer", "shown", "removed"),
    [
        ("![a cat](https://evil.example/?q=1)", "a cat", ("https://evil.example/?q=1",)),
        ("![](https://example.com/a)", "", ("https://example.com/a",)),
        ("[![x](https://e.example/i)](https://e.example/l)", "x", None),
        ("[words](https://evil.example/p)", "words", ("https://evil.example/p",)),
        ("[1](https://example.com/a?utm_source=secret)", "[1]", None),
        ("[w](https://example.com/a#secret)", "w", ("https://example.com/a#secret",)),
        ("https://evil.example/?q=1.", "`evil.example`.", ("https://evil.example/?q=1",)),
        ("<https://evil.example/x>", "<`evil.example`>", None),
        ("<img src=x>", "< img src=x>", ()),
        ("[w](javascript:alert(1))", "w", None),
        ("![x][r]\n\n[r]: https://evil.example/r", "x\n\n", ("https://evil.example/r",)),
    ],
)
def test_what_is_live_is_taken_apart(
    answer: str, shown: str, removed: tuple[str, ...] | None
) -> None:
    safe = remove_live_markup(answer, OWN)
    assert safe.text == shown
    assert removed is None or safe.removed == removed
    assert not is_live(safe.text, OWN)
