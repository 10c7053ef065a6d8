"""What the command line promises of everything it prints and reads."""

from __future__ import annotations

import io
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agentmem
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Memory
from agentmem.cli.app import command
from agentmem.cli.chat import Flow
from agentmem.cli.common import (
    AmbiguousId,
    CommandRun,
    one_line,
    resolve_id,
    run_of,
    to_json,
    visible,
)
from agentmem.cli.memories import read_metadata
from agentmem.inspector.layout import Pen, width_of

PIECES = st.sampled_from(
    ["\x1b", "[", "31m", "\x9b", "\x1b]", "0;", "\x07", "\x1b\\", "\x90", "\x9c", "\n", "\r", "\t",
     "\u202e", "\u200b", "\u200d", "\ufeff", "\U000e0041", "\x7f", "\x00", "a", "é", "漢", " "]
)  # fmt: skip
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


SEQUENCES = st.sampled_from(
    ["\x1b[31m", "\x1b[2J", "\x9b1;2H", "\x1b]0;t\x07", "\x1b]8;;u\x1b\\", "\x1bP+q\x1b\\", "\x1bc",
     "\x9d0;t\x9c", "\x00", "\u202e", "\ufeff"]
)  # fmt: skip
WORDS = st.lists(st.sampled_from(["a", "bc", "漢", "é", "\n", "x" * 50]), min_size=30).map(" ".join)


def is_harmless(text: str) -> bool:
    """Nothing in it but what is seen, line breaks, tabs and joiners."""
    return all(c.isprintable() or c in "\n\t\u200c\u200d" for c in text)


@given(TEXTS, st.lists(st.tuples(TEXTS.map(visible), SEQUENCES), max_size=5))
@example("\x1b\x1b[31m[31m", [])
@example("\x9b\x1b]0;x\x07", [])
def test_visible_text_is_harmless(text: str, parts: list[tuple[str, str]]) -> None:
    """Y1 Harmless output. No stored text puts an escape sequence or a hidden character on a terminal."""
    shown = visible(text)
    assert is_harmless(shown)
    assert visible(shown) == shown
    if is_harmless(text):
        assert shown == text
    assert "\n" not in one_line(text)
    dirty = "".join(said + sequence for said, sequence in parts)
    assert visible(dirty) == "".join(said for said, _ in parts)


@given(
    st.lists(st.text(alphabet="0aA", min_size=3, max_size=6), min_size=2, max_size=8, unique=True),
    st.data(),
)
def test_an_id_is_resolved_or_refused(ids: list[str], data: st.DataObject) -> None:
    """Y2 Ids by an end. An abbreviated id opens the one memory it can mean, and is refused if there are more."""
    with agentmem.open(":memory:", embedder=None) as memory:
        from agentmem.search.intake import prepare

        moment = memory.clock.now()
        memory.store.put([prepare(Memory(id=i, text=i, created_at=moment), ()) for i in ids])
        whole = data.draw(st.sampled_from(ids))
        size = data.draw(st.integers(1, len(whole)))
        part = whole[:size] if data.draw(st.booleans()) else whole[-size:]
        low = part.lower()
        fitting = [i for i in ids if i.lower().startswith(low) or i.lower().endswith(low)]
        exact = [i for i in ids if i.lower() == low]
        if part in ids:
            assert resolve_id(memory, part, {}) == part
        elif len(part.strip("….")) < 4:
            with pytest.raises(InvalidInput):
                resolve_id(memory, part, {})
        elif len(exact or fitting) > 1:
            with pytest.raises(AmbiguousId) as refused:
                resolve_id(memory, part, {})
            assert set(refused.value.ids) == set(exact or fitting)
        else:
            assert resolve_id(memory, part, {}) == (exact or fitting)[0]


@given(VALUES, st.booleans())
def test_json_output_is_read_back_as_it_was(value: Any, ascii_only: bool) -> None:
    """Y3 One document. JSON output reads back as the value it shows and hides no character."""
    written = to_json(value, ascii_only=ascii_only)
    assert json.loads(written) == value
    assert all(c.isprintable() or c == "\n" for c in written)
    assert written.isascii() or not ascii_only


@example(" " + "0" * 40, [], 40)
@example("0" * 39 + "漢", [], 40)
@given(TEXTS | WORDS, st.lists(st.integers(0, 400), max_size=6), st.integers(40, 120))
def test_a_streamed_answer_is_wrapped_and_whole(text: str, cuts: list[int], width: int) -> None:
    """Y4 Streaming. However an answer arrives in pieces, its words come out in order and no line is too wide."""
    text = visible(text)
    out = io.StringIO()
    at = CommandRun(out=out, err=io.StringIO(), pen=Pen(), width=width, on_terminal=True)
    flow = Flow(at)
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    for first, last in pairwise(places):
        flow.add(text[first:last])
    flow.end()
    written = out.getvalue()
    assert "".join(written.split()) == "".join(text.split())
    assert all(width_of(line) <= width for line in written.split("\n"))


OPTIONS = st.dictionaries(
    st.sampled_from(["store", "user", "project", "agent", "run"]),
    st.text(alphabet="abc-= é", min_size=1).filter(lambda t: not t.startswith("-")),
)


@given(st.lists(OPTIONS, min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_options_count_wherever_they_stand(
    levels: list[dict[str, str]], json_at: list[bool]
) -> None:
    """Y5 Options anywhere. A shared option means the same before and after a command; the last one typed wins."""

    def typed(level: int) -> list[str]:
        pairs = [part for name, value in levels[level].items() for part in (f"--{name}", value)]
        return [*pairs, *(["--json"] if json_at[level] else [])]

    root = command()
    top = root.make_context("agentmem", [*typed(0), "prefs", "list"])
    prefs = root.get_command(top, "prefs")
    middle = prefs.make_context("prefs", [*typed(1), "list"], parent=top)
    leaf = prefs.get_command(middle, "list").make_context("list", typed(2), parent=middle)
    said = run_of(leaf)
    expected = {**levels[0], **levels[1], **levels[2]}
    for name in ("store", "user", "project", "agent", "run"):
        assert getattr(said, name) == expected.get(name)
    assert said.json == any(json_at)


TYPED = st.sampled_from(["1.10", "007", "1e5", "true", "null", "[1]", "-0", " 1", "1_0", "NaN"])


@given(st.dictionaries(st.text(alphabet="abc_", min_size=1), VALUES | TYPED, max_size=4))
def test_metadata_written_as_json_is_kept(fields: dict[str, Any]) -> None:
    """Y6 Metadata. Numbers, lists and words given as KEY=VALUE are kept as they were typed."""
    written = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in fields.items()
    }
    read = read_metadata(tuple(f"{name}={value}" for name, value in written.items()))
    for name, value in fields.items():
        kept = read[name]
        if isinstance(value, str):
            whole = isinstance(kept, list | dict) and kept == json.loads(value)
            assert whole or kept == value or json.dumps(kept) == value
        else:
            assert kept == value
