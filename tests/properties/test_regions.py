"""Regions of any text are well-formed."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.text.regions import (
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)
from tests.properties.strategies import texts

MARKS = ("`", "``", "```", "~~~", "\n", "    ", "> ", '"', "'", "“", "”", "„", "«", "»", "<a>", "</a>", "<source>", "</source>", "x", " ", "\\")  # fmt: skip


@given(texts() | st.lists(st.sampled_from(MARKS), max_size=30).map("".join))
@example("`a`\n```\nx\n```\n")
def test_spans_are_in_order_and_inside(text: str) -> None:
    """S14 Regions. The code, quotations and elements of any text are spans inside it, in order, without overlap."""
    for find in (code_spans, quotation_spans, element_spans, quoted_line_spans):
        position = 0
        for start, end in find(text):
            assert position <= start < end <= len(text)
            position = end
        covered = cover(text, find(text), "\ufffc")
        assert len(covered) == len(text)
