"""Worked examples of the one form of a text."""

from __future__ import annotations

import pytest

from agentmem.base.errors import InvalidText
from agentmem.base.types import content_hash, normalise


def test_equal_contents_share_a_form() -> None:
    assert normalise("\r\n  a\u0301 \r\n\r\nb\t\r") == "  á\n\nb"
    assert normalise(" \n ") == ""
    assert content_hash("cafe\u0301\r\n") == content_hash("café")


def test_what_carries_meaning_stays() -> None:
    code = "def f():\n    return 1\n\n\ndef G():\n\treturn 2"
    assert normalise(code) == code
    assert content_hash("a b") != content_hash("a  b")
    assert content_hash("a\nb") != content_hash("a\n\nb")


def test_the_hash_never_changes_between_versions() -> None:
    assert content_hash("") == ("0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8")
    assert len(content_hash("x" * 10_000_000)) == 64


def test_a_megabyte_of_white_space_is_read_once() -> None:
    assert normalise((" " * 1_000_000 + "a") * 2).endswith("a")
    assert normalise(" " * 1_000_000) == ""


@pytest.mark.parametrize("bad", [None, b"bytes", 5, "a\ud800"])
def test_bad_input_is_named(bad: object) -> None:
    with pytest.raises(InvalidText, match="text"):
        content_hash(bad)  # type: ignore[arg-type]  # on purpose
