"""Properties of taking our own blocks out of what is about to be stored.

Every piece of a block carries a needle. The block is mangled the way people,
models and tools mangle what they quote; after `strip` no needle may be left.
"""

from __future__ import annotations

import html
import json
import textwrap
import urllib.parse
from collections.abc import Callable
from datetime import date
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.base.config import Framing, ReferenceRole
from agentmem.prompt.block import BlockSource, ContextBlock, Pointer, render_context
from agentmem.prompt.messages import inject
from agentmem.prompt.strip import WORDS_IN_A_ROW, fingerprints, strip
from agentmem.text.clean import clean_text
from tests.properties.attacks import SECRET, any_texts, hostile_texts
from tests.properties.strategies import texts

NEEDLE = "zqxneedle"
TWO_IN_A_ROW = render_context(ContextBlock(user_profile=(NEEDLE,)), secret=SECRET)


def needled(text: str) -> str:
    """`text` with a needle at both ends and in the middle, each a word of its own."""
    middle = len(text) // 2
    return f"{NEEDLE} {text[:middle]} {NEEDLE} {text[middle:]} {NEEDLE}"


@st.composite
def needled_blocks(draw: st.DrawFn) -> str:
    """A rendered block all of whose contents carry needles."""
    words = any_texts().map(needled)
    plain = st.sampled_from(("A plain sentence.", "Two.\n\nParagraphs.", "```py\nx = 1\n```")).map(
        needled
    )
    contents = words | plain
    sources = st.builds(
        BlockSource,
        text=contents,
        title=contents,
        url=contents,
        retrieved=st.dates(),
        speaker=contents,
    )
    pointers = st.builds(Pointer, id=contents, summary=contents, tool=contents)
    block = ContextBlock(
        user_profile=tuple(draw(st.lists(contents, max_size=2))),
        related_knowledge=tuple(draw(st.lists(sources, min_size=1, max_size=2))),
        working_memory=tuple(draw(st.lists(pointers, max_size=1))),
        summary=draw(st.just("") | contents),
    )
    return render_context(block, secret=SECRET)


def _prefixed(prefix: str) -> Callable[[str], str]:
    return lambda text: "\n".join(prefix + line for line in text.split("\n"))


def _rewrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(" ".join(text.split()), 60, break_long_words=False))


MANGLERS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "indented": _prefixed("    "),
    "quoted": _prefixed("> "),
    "quoted twice": _prefixed("> > "),
    "commented": _prefixed("# "),
    "fenced": lambda t: f"```xml\n{t}\n```",
    "tilde fence": lambda t: f"~~~\n{t}\n~~~",
    "fence in a quote": lambda t: _prefixed("> ")(f"```\n{t}\n```"),
    "json": lambda t: json.dumps({"said": t, "other": 1}),
    "json, unicode kept": lambda t: json.dumps({"said": t}, ensure_ascii=False),
    "json twice": lambda t: json.dumps(json.dumps({"said": t})),
    "html": html.escape,
    "html twice": lambda t: html.escape(html.escape(t)),
    "html in json": lambda t: json.dumps([html.escape(t)]),
    "percent": urllib.parse.quote,
    "one line": lambda t: " ".join(t.split()),
    "rewrapped": _rewrapped,
    "rewrapped and quoted": lambda t: _prefixed("> ")(_rewrapped(t)),
    "double spaced": lambda t: t.replace("\n", "\n\n"),
    "carriage returns": lambda t: t.replace("\n", "\r\n"),
    "upper": str.upper,
    "markdown escapes": lambda t: t.replace("_", "\\_").replace("<", "\\<"),
    "smart quotes": lambda t: t.replace('"', "”").replace("--", "—"),
    "without its first line": lambda t: t.partition("\n")[2],
    "without its last line": lambda t: t.rpartition("\n")[0],
    "without both lines": lambda t: t.partition("\n")[2].rpartition("\n")[0],
    "in bold": lambda t: f"**{t}**",
    "as an attribute": lambda t: f"<div title='{html.escape(t)}'></div>",
    "python repr": repr,
}  # fmt: skip
OUTSIDE = "kept outside"


def leaked(text: object) -> bool:
    return NEEDLE in str(text).lower() or NEEDLE in urllib.parse.unquote(str(text)).lower()


@given(needled_blocks(), st.data())
def test_nothing_of_a_block_is_left(text: str, data: st.DataObject) -> None:
    """P21 No echo. Indexing any transcript that contains our blocks, whole, quoted or cut, stores
    none of their content again.
    """
    mangle = MANGLERS[data.draw(st.sampled_from(sorted(MANGLERS)))]
    assert not leaked(strip(mangle(text)))
    assert not leaked(strip(f"{OUTSIDE}\n\n{mangle(text)}\n\n{OUTSIDE}"))

    cut = data.draw(st.integers(0, len(text)))
    for half in (text[:cut], text[cut:]):
        assert not leaked(strip(half)), half
    inner = data.draw(needled_blocks())
    assert not leaked(strip(f"{text[:cut]}{inner}{text[cut:]}"))
    assert not leaked(strip(f"{text[:cut]}\n{mangle(inner)}\n{text[cut:]}"))
    quoted = mangle(text[:cut])
    assert not leaked(strip(f"{OUTSIDE}\n\n{quoted}")), quoted
    quoted = mangle(text[cut:])
    assert not leaked(strip(f"{quoted}\n\n{OUTSIDE}")), quoted


@example(one=TWO_IN_A_ROW, two=TWO_IN_A_ROW, first="e", middle=".", last="")
@example(one=TWO_IN_A_ROW, two=TWO_IN_A_ROW, first="", middle="\x08", last="")
@given(one=needled_blocks(), two=needled_blocks(), first=texts(), middle=texts(), last=texts())
def test_text_around_whole_blocks_stays(
    one: str, two: str, first: str, middle: str, last: str
) -> None:
    """K12 Only ours. What stands before, between and after whole blocks is kept to the letter,
    white space next to a block aside.
    """
    assert "".join(strip(f"{first}\n{one}\n{middle}\n{two}\n{last}").split()) == "".join(
        (first + middle + last).split()
    )
    kept = strip(f"a{one}b")
    assert kept == "ab"


@given(any_texts())
def test_text_without_a_block_is_not_touched(text: str) -> None:
    """K13 Nothing else. Text in which no block was ever rendered is returned as it came, also when it
    mentions our tags in a sentence.
    """
    shown = clean_text(text)
    assert strip(shown) == shown
    mention = f"What does <knowledge_context> mean, and </knowledge_context>? {shown} I use <source> and </user_profile>."
    assert strip(mention) == mention


@given(needled_blocks(), texts(20), st.sampled_from(("pair", "single")), st.sampled_from(("assistant", "user")), st.data())  # fmt: skip
def test_messages_lose_the_block_and_nothing_else(
    text: str, question: str, framing: Framing, role: ReferenceRole, data: st.DataObject
) -> None:
    """K14 Whole transcripts. A transcript with our messages, and with echoes in answers, parts, tool
    arguments and results, comes back without them and otherwise as it was.
    """
    mangle = MANGLERS[data.draw(st.sampled_from(sorted(MANGLERS)))]
    echo = mangle(text)
    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "f", "arguments": json.dumps({"q": text})},
    }
    plain: list[dict[str, Any]] = [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": question},
    ]
    sent = inject(plain, text, framing=framing, role=role)
    assert strip(sent) == plain
    transcript = [
        *sent,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": echo},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": f"see: {echo}"}]}]},
        {"role": "assistant", "content": f"You were told:\n\n{echo}"},
        {"role": "user", "content": [{"type": "text", "text": echo}, {"type": "text", "text": "thanks"}]},
    ]  # fmt: skip
    kept = strip(transcript)
    assert not leaked(json.dumps(kept, ensure_ascii=False))
    assert kept[:2] == plain
    (called,) = (m for m in kept if m.get("tool_calls"))
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == {"q": ""}


words = st.lists(st.sampled_from(("tea", "milk", "sugar", "日本", "über", "Zug", "1.5")) | st.text("abcdefgh", min_size=3, max_size=8), min_size=WORDS_IN_A_ROW, max_size=60)  # fmt: skip


@given(words, st.data())
def test_known_pieces_are_found_without_any_markup(content: list[str], data: st.DataObject) -> None:
    """K15 Known echoes. With the fingerprints of what was injected, any eight words in a row of it are
    removed, whatever is left of the markup; other text stays.
    """
    marked = [f"{NEEDLE}{word}" for word in content]
    block = ContextBlock(
        related_knowledge=(BlockSource(text=" ".join(marked), retrieved=date(2026, 1, 1)),)
    )
    known = fingerprints(block)
    start = data.draw(st.integers(0, len(marked) - WORDS_IN_A_ROW))
    end = data.draw(st.integers(start + WORDS_IN_A_ROW, len(marked)))
    piece = data.draw(st.sampled_from((" ", "\n", ", "))).join(marked[start:end])
    mangle = MANGLERS[
        data.draw(st.sampled_from(("as it is", "quoted", "json", "upper", "html", "rewrapped")))
    ]
    text = f"{OUTSIDE} {mangle(piece)} {OUTSIDE}"
    kept = strip(text, known=known)
    assert not leaked(kept)
    assert kept.startswith(OUTSIDE)
    assert kept.endswith(OUTSIDE)
    assert strip(OUTSIDE, known=known) == OUTSIDE


@given(hostile_texts() | st.text())
def test_strip_takes_any_text(text: str) -> None:
    """K16 Strip only removes. Any text can be stripped, and what is left was there in that order."""
    rest = iter(text)
    assert all(char in rest for char in strip(text))
