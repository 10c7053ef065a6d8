"""Which parts of a text are code, quotation or markup."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agentmem.text.regions import (
    Span,
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)


def parts(find: Callable[[str], list[Span]], text: str) -> list[str]:
    return [text[start:end] for start, end in find(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a `b` c", ["`b`"]),
        ("``a ` b`` c", ["``a ` b``"]),
        ("a `b c", []),
        ("a `b\n\nc` d", []),
        (r"a \`b` c", []),
        ("```py\nx\n```\ny", ["```py\nx\n```"]),
        ("~~~\nx\n```\n~~~", ["~~~\nx\n```\n~~~"]),
        ("```\nnever closed", ["```\nnever closed"]),
        ("Text:\n\n    code\n\nmore", ["    code\n"]),
        ("- item\n\n    still the item\n", []),
        ("<pre>x</pre> <b>y</b>", ["<pre>x</pre>"]),
    ],
)
def test_code(text: str, found: list[str]) -> None:
    assert parts(code_spans, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('He said "no" twice', ['"no"']),
        ("“a” „b“ «c» 「d」", ["“a”", "„b“", "«c»", "「d」"]),
        ("the 'big one' isn't here", ["'big one'"]),
        ("don't, can't, dogs' toys, 'cause", []),
        ('a 5" screen and a 6" one', []),
        ('an "open end\nnext line', ['"open end']),
        ("‘it’s mine’ he said", ["‘it’s mine’"]),
    ],
)
def test_quotations(text: str, found: list[str]) -> None:
    assert parts(quotation_spans, text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("<doc>a</doc> b", ["<doc>a</doc>"]),
        ("<p>a</p> <b>b</b>", []),
        ("<x><x>a</x> b</x> c", ["<x><x>a</x> b</x>"]),
        ("a < b and c > d", []),
        ("<context>cut", ["<context>cut"]),
        ("cut</source> rest", ["cut</source>"]),
        ("<other>never closed", []),
    ],
)
def test_elements(text: str, found: list[str]) -> None:
    assert parts(element_spans, text) == found


def test_quoted_lines() -> None:
    assert parts(quoted_line_spans, "a\n> b\n >c\nd > e") == ["> b", " >c"]


def test_covering_keeps_the_length() -> None:
    assert cover("abcdef", [(3, 5), (1, 2)], "#") == "a#c##f"
