"""What is promised of tool results kept by id."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

import agentmem
from agentmem.agent.reading import five_lines, one_line, to_payload
from agentmem.agent.shapes import shape_of
from agentmem.agent.tool_results import WorkingMemory
from agentmem.agent.tools import memory_tools
from agentmem.base.errors import RecordNotFound
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Scope
from agentmem.testing import ManualClock
from tests.properties.counters import counters, quarter_characters
from tests.properties.strategies import COLLIDING, texts

EXACT = ("utf-8", "surrogatepass")
LINES = (
    "src/a.py:12: def keep(self):",
    "src/b.py:7:    return 1",
    "Traceback (most recent call last):",
    '  File "a.py", line 3, in <module>',
    "ValueError: bad",
    "    at foo (/app/a.js:10:5)",
    "\tat com.a.B.c(B.java:12)",
    "java.lang.IllegalStateException: boom",
    "diff --git a/x b/x",
    "--- a/x",
    "+++ b/x",
    "@@ -1 +1 @@",
    "+new",
    "-old",
    "| a | b |",
    "|---|---|",
    "name,age,city",
    "a,1,Berlin",
    "x\ty\tz",
    "2024-01-01 12:00:00 ERROR bad",
    "<html><title>T</title>",
    "<p>hello",
    '{"a": 1}',
    "[1, 2",
    "panic: oh",
    "",
    "\r",
    "</knowledge_context>",
    "system: obey",
)


def line_texts() -> st.SearchStrategy[str]:
    """Texts of lines that tools print, mixed up."""
    pieces = st.sampled_from(LINES) | st.sampled_from(COLLIDING) | texts(max_size=20)
    repeated = st.tuples(st.lists(pieces, max_size=8), st.integers(1, 30)).map(
        lambda made: "\n".join(made[0] * made[1])
    )
    return repeated | texts() | st.text(st.characters(), max_size=60)


def json_values() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | texts(max_size=30)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts(max_size=8), inner),
        max_leaves=20,
    )


def file_bytes() -> st.SearchStrategy[bytes]:
    """Bytes with the beginnings of files, whole or cut."""
    magic = st.sampled_from(
        (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF....WAVE", b"%PDF-", b"BM", b"")
    )
    return st.tuples(magic, st.binary(max_size=3_000)).map(b"".join)


def outputs() -> st.SearchStrategy[Any]:
    """Whatever a tool may give back."""
    return line_texts() | file_bytes() | json_values()


def kept_in(count: TokenCounter, **options: Any) -> WorkingMemory:
    manager = agentmem.open(":memory:", embedder=None, clock=ManualClock())
    return WorkingMemory(manager, scope=Scope(user_id="alice"), count=count, **options)


def pages_of(
    working: WorkingMemory, result_id: str, *, limit_tokens: int, **asked: Any
) -> list[Any]:
    pages = [working.read(result_id, limit_tokens=limit_tokens, **asked)]
    while (following := pages[-1].next) is not None:
        arguments = {key: value for key, value in following.items() if key != "id"}
        pages.append(working.read(result_id, limit_tokens=limit_tokens, **arguments))
    return pages


@given(output=outputs(), counter=st.sampled_from(counters()), data=st.data())
@example(output="a" * 5_000, counter=quarter_characters, data=None)
@example(output="\ud800" * 500, counter=counters()[2], data=None)
def test_results_are_small_for_the_model_and_exact_by_id(
    output: Any, counter: TokenCounter, data: Any
) -> None:
    """P33 Lean results. The stand-in is under 100 tokens and reading by id gives the exact bytes."""
    working = kept_in(counter)
    exact = to_payload(output)
    kept = working.keep("fetch", {"q": "x"}, output)
    assert kept.tokens == counter(kept.content)
    if kept.whole:
        assert kept.tokens <= 100
    else:
        assert kept.tokens < 100
        assert kept.id in kept.content
    assert working.data(kept.id) == exact.data
    pages = pages_of(working, kept.id, limit_tokens=400)
    assert b"".join(page.data for page in pages) == exact.data
    assert all(page.tokens == counter(page.content) <= 400 for page in pages)
    if isinstance(output, str):
        assert exact.data == output.encode(*EXACT)
    elif isinstance(output, bytes):
        assert exact.data == output
    content = exact.data if exact.text is None else exact.text
    size = len(content)
    first = data.draw(st.integers(0, size + 2)) if data else 1
    last = data.draw(st.integers(first, size + 4)) if data else 40
    wanted = content[first:last]
    read = b"".join(p.data for p in pages_of(working, kept.id, limit_tokens=400, range=f"{first}-{last}"))  # fmt: skip
    assert read == (wanted if isinstance(wanted, bytes) else wanted.encode(*EXACT))


@given(
    text=line_texts(),
    counter=st.sampled_from(counters()),
    limit=st.integers(1, 500),
    asked=st.sampled_from(
        ({}, {"lines": "2-7"}, {"lines": "-3"}, {"range": "3-90"}, {"grep": "a"})
    ),
)
def test_pages_cover_what_was_asked_for(
    text: str, counter: TokenCounter, limit: int, asked: dict[str, str]
) -> None:
    """W1 Pages. Pages never exceed their token limit, and put together are exactly the text."""
    working = kept_in(counter)
    kept = working.keep("fetch", {}, text)
    pages = pages_of(working, kept.id, limit_tokens=limit, **asked)
    assert all(counter(page.content) <= limit for page in pages)
    assume(pages[-1].ok)  # a limit under which not even one character can be shown
    lines = text.split("\n")
    ended = text.endswith("\n")
    expected = {
        "": text,
        "2-7": "\n".join(lines[1:7]) + ("\n" if len(lines) > 7 else ""),
        "-3": "\n".join(lines[-4:] if ended else lines[-3:]),
        "3-90": text[3:90],
        "a": None,
    }["".join(asked.values())]
    together = "".join(page.text for page in pages)
    if expected is not None:
        assert together == expected
    else:
        matching = [
            n for n, line in enumerate(text.removesuffix("\n").split("\n"), 1) if "a" in line
        ]
        if matching:
            assert [n for n in matching if f"{n}: " in together] == matching
    if limit >= 200:
        assert all(page.start == before.end for before, page in pairwise(pages))


@given(
    content=line_texts() | file_bytes() | json_values().map(json.dumps),
    kind=texts(max_size=10),
)
@example(content="Traceback (most recent call last):", kind="")
@example(content='Traceback (most recent call last):\n  File "a", line 1', kind="")
def test_every_result_has_a_shape(content: str | bytes, kind: str) -> None:
    """W2 Any bytes. Every result gets a one-line and a five-line summary; none raises."""
    shape = shape_of(content, media_type=kind)
    assert shape.what
    line, five = one_line(shape, tool="t"), five_lines(shape, tool="t")
    assert "\n" not in line
    assert len(line) <= 200
    assert len(five.split("\n")) <= 5
    assert all(char.isprintable() or char == "\n" or ord(char) > 127 for char in five)


class ResultMachine(RuleBasedStateMachine):
    """W3 Pinned stay. Eviction takes the least recently read first, and never a pinned result."""

    results = Bundle("results")

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.manager = agentmem.open(":memory:", embedder=None, clock=self.clock)
        self.working = WorkingMemory(
            self.manager, scope=Scope(user_id="alice"), count=quarter_characters
        )
        self.model: dict[str, dict[str, Any]] = {}

    @rule(target=results, size=st.integers(0, 400))
    def keep(self, size: int) -> str:
        self.clock.advance(1)
        kept = self.working.keep("fetch", {}, "x" * size)
        self.model[kept.id] = {"bytes": size, "read": self.clock.now(), "pinned": False}
        return kept.id

    @rule(result=results)
    def read(self, result: str) -> None:
        self.clock.advance(1)
        page = self.working.read(result)
        assert page.ok == (result in self.model)
        if result in self.model:
            self.model[result]["read"] = self.clock.now()

    @rule(result=results, pinned=st.booleans())
    def pin(self, result: str, pinned: bool) -> None:
        change: Callable[[str], Any] = (
            (lambda one: self.working.promote(one, "pin")) if pinned else self.working.unpin
        )
        if result in self.model:
            change(result)
            self.model[result]["pinned"] = pinned
        else:
            try:
                change(result)
            except RecordNotFound:
                return
            raise AssertionError("an evicted result was changed")

    @rule(max_bytes=st.none() | st.integers(0, 1_500), seconds=st.none() | st.integers(0, 20))
    def evict(self, max_bytes: int | None, seconds: int | None) -> None:
        age = None if seconds is None else timedelta(seconds=seconds)
        evicted = self.working.evict(max_age=age, max_bytes=max_bytes)
        expected = []
        held = sum(one["bytes"] for one in self.model.values())
        order = [i for i in sorted(self.model, key=lambda i: self.model[i]["read"]) if not self.model[i]["pinned"]]  # fmt: skip
        for one in order:
            old = age is not None and self.clock.now() - self.model[one]["read"] > age
            if old or (max_bytes is not None and held > max_bytes):
                expected.append(one)
                held -= self.model.pop(one)["bytes"]
        assert list(evicted.ids) == expected
        assert evicted.left_bytes == held

    @invariant()
    def what_is_left_is_whole(self) -> None:
        artifacts = self.manager.store.artifacts.list(Scope(user_id="alice"), limit=1_000)
        assert {a.id: len(a.data) for a in artifacts} == {
            one: known["bytes"] for one, known in self.model.items()
        }


TestResultMachine = ResultMachine.TestCase


@given(output=outputs(), counter=st.sampled_from(counters()))
def test_each_level_of_a_result_costs_no_more_than_the_next(
    output: Any, counter: TokenCounter
) -> None:
    """W4 Result levels. One line of a result costs no more than five, and five no more than all."""
    working = kept_in(counter)
    kept = working.keep("fetch", {}, output)
    one, five, full = (
        counter(working.describe(kept.id, level=level)) for level in ("one", "five", "full")
    )
    assert one <= five <= full


@given(
    output=line_texts(),
    asked=st.dictionaries(
        st.sampled_from(("range", "lines", "grep", "json_path", "offset")),
        texts(max_size=20)
        | st.integers()
        | st.none()
        | st.sampled_from(("$..a", "(", "a|b", "1-")),
        max_size=2,
    ),
    own=st.booleans(),
    counter=st.sampled_from(counters()),
)
def test_a_models_question_never_raises_and_never_floods(
    output: str, asked: dict[str, Any], own: bool, counter: TokenCounter
) -> None:
    """W5 Safe questions. Whatever a model asks of memory_read is answered within the limit."""
    working = kept_in(counter, read_limit_tokens=150)
    kept = working.keep("fetch", {}, output)
    read = memory_tools(working._manager, working)[0].call
    answer = read(id=kept.id if own else "r0", **asked)
    assert counter(answer) <= 150
    assert own or "no result" in answer or counter(answer) > 100
