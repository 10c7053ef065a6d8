"""No text makes a call slow: what takes in text costs about as much a character, however long.

A pattern that tries every beginning of a long run again (`\\s*when`, searched for) is quadratic:
a few kilobytes from a page or a user then hold the interpreter for seconds.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import agentmem
from agentmem.base.errors import AgentMemError
from agentmem.prompt.cite import resolve_citations
from agentmem.prompt.query import read_queries
from agentmem.prompt.strip import strip
from agentmem.text.chunks import chunk
from agentmem.text.clean import clean_line, clean_text
from agentmem.text.detect import detect_preferences
from agentmem.text.markdown import remove_live_markup
from agentmem.text.regions import all_code_spans, pasted_spans
from agentmem.text.secrets import find_personal, without_keys
from agentmem.text.sentences import sentences, truncate_at_sentence
from agentmem.text.terms import analyse, analyse_query

SIZES = (20_000, 100_000)
"""Each against its half and its quarter. Of a long question 20,000 characters are read: a call
that takes seconds for those costs no more for the rest, and would pass at 100,000 alone."""
FASTER_THAN_LINEAR = 1.3
NOISE = 1.5
TRIES = 3
NO_TIME_SECONDS = 0.05
"""What takes less than this is not slow, whatever the clock says of it."""


def repeated(part: str) -> Callable[[int], str]:
    return lambda size: (part * (size // len(part) + 1))[:size]


def between(part: str) -> Callable[[int], str]:
    """A long run of one thing with a letter at each end."""
    return lambda size: f"a{repeated(part)(size)}b"


KINDS: dict[str, Callable[[int], str]] = {
    "spaces": between(" "),
    "line ends": between("\n"),
    "blank lines": between(" \n\t"),
    "one word": repeated("a"),
    "digits": repeated("1"),
    "statements": repeated("I prefer "),
    "rules": repeated("never always "),
    "tags": repeated("<a "),
    "blocks": repeated("<knowledge_context>"),
    "links": repeated("[a]("),
    "ticks": repeated("` `` "),
    "fences": repeated("```\n"),
    "quotation marks": repeated('"a '),
    "backslashes": repeated("\\"),
    "abbreviations": repeated("a."),
    "quoted lines": repeated("> "),
    "rules across": repeated("-"),
    "addresses": repeated("http://a@"),
    "accents": lambda size: "e" + "\u0301" * size,
    "speakers": repeated("user: hi\n"),
}
MORE_KINDS: dict[str, Callable[[int], str]] = {
    "no-break spaces": between("\u00a0"),
    "invisible": repeated("a\u200b"),
    "openings": repeated("<"),
    "brackets": repeated("["),
    "parentheses": repeated("("),
    "single marks": repeated("'a "),
    "stars": repeated("*a "),
    "table": repeated("|a"),
    "entities": repeated("&amp;"),
    "comments": repeated("<!--"),
    "sections": repeated("]]>"),
    "template": repeated("<|im_start|>"),
    "questions": repeated("why? "),
    "reported": repeated("he said: "),
    "about me": repeated("I am a "),
    "keys": repeated("key="),
    "dates": repeated("2024-01-"),
    "ideographs": repeated("\u6211\u559c\u6b22"),
    "headings": repeated("# a\n\n"),
    "citations": repeated("[1] "),
}
FUNCTIONS: dict[str, Callable[[str], object]] = {
    "strip": strip,
    "clean_text": clean_text,
    "clean_line": lambda text: clean_line(text, limit_characters=200),
    "chunk": lambda text: list(chunk(agentmem.Document(text=text), count=len)),
    "sentences": lambda text: list(sentences(text)),
    "truncate": lambda text: truncate_at_sentence(text, 1_000, len),
    "analyse": analyse,
    "analyse_query": analyse_query,
    "read_queries": lambda text: read_queries([{"role": "user", "content": text}]),
    "detect_preferences": detect_preferences,
    "remove_live_markup": remove_live_markup,
    "resolve_citations": lambda text: resolve_citations(text, ()),
    "find_personal": lambda text: list(find_personal(text)),
    "without_keys": without_keys,
    "code spans": all_code_spans,
    "pasted spans": pasted_spans,
}
CALLS: dict[str, Callable[[agentmem.MemoryManager, str], object]] = {
    "search": lambda memory, text: memory.search(text, user_id="u"),
    "add": lambda memory, text: memory.add(text, user_id="u"),
    "learn": lambda memory, text: memory.living.learn(text, user_id="u"),
    "preferences.add": lambda memory, text: memory.preferences.add(text, user_id="u"),
    "preferences.detect": lambda memory, text: memory.preferences.detect(
        [{"role": "user", "content": text}], user_id="u"
    ),
    "turn": lambda memory, text: memory.turn([{"role": "user", "content": text}], user_id="u"),
    "index_page": lambda memory, text: memory.sources.index_page(
        text, "https://example.com", user_id="u"
    ),
}
"""What also writes; the work it leaves for the background is counted too."""


def run(name: str, text: str) -> float:
    """The seconds of this process's CPU that a call took; refusing the text is an answer too."""
    if name in FUNCTIONS:
        return timed(lambda: FUNCTIONS[name](text))
    with opened() as memory:
        return timed(lambda: (CALLS[name](memory, text), memory.flush(60)))


def timed(call: Callable[[], object]) -> float:
    """Without the collector: it looks at what every other test left, once in a while."""
    gc.disable()
    try:
        began = time.process_time()
        with suppress(AgentMemError):
            call()
        return time.process_time() - began
    finally:
        gc.enable()


@contextmanager
def opened() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder=None) as memory:
        memory.add("Deploys go out on Thursdays.", user_id="u")
        memory.flush(60)
        yield memory


def grows_too_fast(name: str, kind: Callable[[int], str]) -> str | None:
    """What was measured, if at some size the cost grew much faster than the text in every try."""
    return next(filter(None, (grows_too_fast_at(size, name, kind) for size in SIZES)), None)


def grows_too_fast_at(size: int, name: str, kind: Callable[[int], str]) -> str | None:
    measured = ""
    for _ in range(TRIES):
        whole = run(name, kind(size))
        if whole < NO_TIME_SECONDS:
            return None
        quarter = run(name, kind(size // 4))
        if whole <= 4 * FASTER_THAN_LINEAR * NOISE * quarter:
            return None
        half = run(name, kind(size // 2))
        if min(whole / half, half / quarter) <= 2 * FASTER_THAN_LINEAR:
            return None  # one step alone is a pause of the machine: a power grows at each
        measured = f"{quarter:.3f}, {half:.3f}, {whole:.3f} s up to {size:,} characters"
    return measured


def slow_kinds(name: str, kinds: dict[str, Callable[[int], str]]) -> dict[str, str]:
    """The kinds of text of which four times as much cost far more than four times as much."""
    found = {kind: grows_too_fast(name, make) for kind, make in kinds.items()}
    return {kind: measured for kind, measured in found.items() if measured is not None}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_reads_text_costs_as_much_as_the_text_is_long(name: str) -> None:
    assert slow_kinds(name, KINDS) == {}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("search", "spaces"), ("add", "spaces"), ("preferences.add", "statements")],
)
def test_a_call_that_once_took_seconds_costs_as_much_as_its_text_is_long(
    name: str, kind: str
) -> None:
    assert grows_too_fast(name, KINDS[kind]) is None


@pytest.mark.deep
@pytest.mark.parametrize("name", [*FUNCTIONS, *CALLS])
def test_no_kind_of_text_at_all_makes_a_call_slow(name: str) -> None:
    assert slow_kinds(name, KINDS | MORE_KINDS) == {}
