"""Cutting at sentence ends, against an oracle that shares no code with the cut."""

from __future__ import annotations

import importlib
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.text.sentences import (
    boundary_at_or_before,
    sentence_ends,
    sentences,
    truncate_at_sentence,
)
from tests.properties.counters import cl100k, counters
from tests.properties.strategies import texts

regex: Any = importlib.import_module("regex")  # comes with tiktoken, has no type hints

MARKS = ".!?…‼‽⁇⁈⁉。｡！？．﹒﹖﹗؟۔؝؞।॥։።፧፨។៕။།༎᠃᠉᪨᪩᪪᪫꩝꩞꩟᭚᭛᭞᭟꧈꧉꯫꫰꫱᰻᰼᱾᱿꣎꣏꤯꘎꘏꛳꛷꓿߹᥄᥅᙮܀܁܂"
CLOSING = re.compile(r"[\"'`*_~)\]}>”’“‘»«›‹」』】〉》〕〗〙〛｝）］｣﹂﹄＂＇\s]+$")
CITATIONS = re.compile(r"(?:\[\d{1,3}\])+$")
UNCUT = (
    re.compile(r"(?<!\w)v?\d+(?:[.,]\d+)+(?!\w)"),  # numbers and versions
    re.compile(r"https?://[!-~]*[0-9A-Za-z/=&#_-]"),
    re.compile(r"[\w.]+@\w+(?:\.\w+)+"),
    re.compile(r"\w+\.(?:py|md|json|txt)\b"),
    re.compile(r"\.{2,}|…+|\. \. \."),
)
ABBREVIATED = regex.compile(
    r"(?<![\w\p{M}.&=/])(?:Dr|Mr|Mrs|Prof|Inc|Co|No|vs|etc|Fig|e\.g|i\.e|U\.S|a\.m|Ph\.D|J|R|z\.B|bzw)\.(?= \S)"
)
ATOMS = (
    "Dr. Smith", "Prof. Ada", "e.g. ", "i.e. this", "U.S. Army", "U.S.", "No. 5", "Acme Inc. Ltd.",
    "a.m. today", "J. R. R. Tolkien", "Ph.D. work", "z.B. so", "1.5", "1,000.25", "v2.3.1", "3.14.",
    "https://example.com/a.b?c=d", "www.example.org/x!", "a.b@example.com", "setup.py", "see setup.py.",
    "...", ". . .", "…", "Wait... what?", "Wait... What?", "Yahoo! is", "Hello.", "Really?", "Yes!",
    "“Quoted.”", "(Bracketed.)", "**Bold.**", "It is so.[1]", "日本語。", "「はい。」と", "你好!我", "１．５",
    "नमस्ते।", "مرحبا؟", "یہ ہے۔", "Բարև։", "ሰላም።", "សួស្តី។", "မြန်မာ။", "\n1. One", "\n\n", "\n", " ",
    " ", "  ", "word", "lower case. then", "e\u0301", ".\u0301", "!\ufe0f", "。\u0301", "Wait . . . Then", "So ... Then", "👩\u200d👩\u200d👧", "🇫🇷🇩🇪", "\x00",
)  # fmt: skip


ABBREVIATIONS = (
    "Dr.",
    "Mr.",
    "Prof.",
    "Inc.",
    "Acme Co.",
    "vs.",
    "etc.",
    "Fig.",
    "e.g.",
    "U.S.",
    "a.m.",
    "Ph.D.",
    "J.",
)


def prose() -> st.SearchStrategy[str]:
    """Text made of what makes sentence ends hard, with and without spaces between."""
    names = st.sampled_from(("Smith", "He", "5", "A", "then", "“Yes”", "日", "\n"))
    shortened = st.tuples(st.sampled_from(ABBREVIATIONS), names).map(" ".join)
    pieces = st.lists(
        st.sampled_from(ATOMS) | shortened | st.text(max_size=5), min_size=1, max_size=25
    )
    return st.tuples(st.sampled_from((" ", " ", "")), pieces).map(lambda d: d[0].join(d[1]))


def assert_may_end(text: str, end: int) -> None:
    """`text[:end]` ends with a mark and its closing signs, and cuts nothing that belongs together."""
    head = CLOSING.sub("", CITATIONS.sub("", text[:end]))
    assert head[-1:] in MARKS, f"ends with {text[:end][-20:]!r}"
    for pattern in UNCUT:
        for match in pattern.finditer(text):
            assert not match.start() < end < match.end(), f"cuts {match.group()!r}"
    for match in ABBREVIATED.finditer(text):
        if match.group() == "No." and not text[match.end() + 1].isdigit():
            continue
        assert not match.start() < end <= match.end(), f"cuts {match.group()!r}"
    assert end in {match.end() for match in regex.finditer(r"\X", text)}, "cuts a character"


@given(text=prose() | texts(), limit_tokens=st.integers(0, 60), counter=st.sampled_from(range(5)))
@example(text="Dr. Smith is here. Then he left us", limit_tokens=3, counter=0)
@example(text="A b.", limit_tokens=1, counter=0)
def test_cut_text_ends_at_a_sentence_end(text: str, limit_tokens: int, counter: int) -> None:
    """P8 Sentence boundary. A cut chunk is a prefix that ends at a sentence end, or nothing."""
    count = counters()[counter]
    cut = truncate_at_sentence(text, limit_tokens, count)
    assert text.startswith(cut)
    if count(text) <= limit_tokens:
        assert cut == text
        return
    assert count(cut) <= limit_tokens
    if cut:
        assert_may_end(text, len(cut))
    else:
        first = next(sentence_ends(text), None)
        assert first is None or count(text[:first]) > limit_tokens


@given(text=prose(), repeats=st.integers(1, 400), limit_tokens=st.integers(0, 300))
def test_one_sentence_more_would_not_fit(text: str, repeats: int, limit_tokens: int) -> None:
    """C1 Longest cut. What is returned fits as counted by a real tokenizer; the next sentence
    end would not."""
    long = text * repeats
    count = cl100k()
    cut = truncate_at_sentence(long, limit_tokens, count)
    if cut == long:
        assert count(long) <= limit_tokens
        return
    assert count(cut) <= limit_tokens
    after = next((end for end in sentence_ends(long) if end > len(cut)), None)
    assert after is None or count(long[:after]) > limit_tokens


@given(text=prose() | texts())
@example(text="一。\u0301二。三")
@example(text="Wait . . . Then so. Ok")
@example(text="See J.-P. Sartre, Acme Inc. Ltd. (etc.) Here. Yes")
@example(text="Go to https://x.org/?a=b! 5 and mail a.b@c.org. 1,000.25 v2.3.1. Ok")
def test_sentences_hold_every_visible_character_once(text: str) -> None:
    """C2 Sentence spans. Spans are in order, apart, without white space at their ends, and what
    is between them is white space."""
    position = 0
    for start, end in sentences(text):
        assert position <= start < end
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        position = end
    assert not text[position:].strip()
    ends = list(sentence_ends(text))
    assert ends == sorted(set(ends))
    for end in ends:
        if end < len(text):
            assert_may_end(text, end)


@given(
    text=texts()
    | st.lists(
        st.sampled_from(
            ("각", "क", "्", "\u200d", "\u200c", "🇫", "👩", "🏽", "\ufe0f", "e", "\u0301", "\r", "\n", "ก", "ำ",
             "\u0600", "\U000e0067", "1", "ᄀ", "ᅡ", "ᆨ", "가")
        ),
        max_size=12,
    ).map("".join)
)  # fmt: skip
def test_no_cut_inside_what_is_seen_as_one_character(text: str) -> None:
    """C3 Whole characters. A place where text may be cut is a boundary of Unicode grapheme
    clusters."""
    allowed = {0, len(text)} | {match.end() for match in regex.finditer(r"\X", text)}
    for position in range(1, len(text) + 1):
        cut = boundary_at_or_before(text, position, start=0)
        assert 0 < cut <= position
        assert cut in allowed or allowed.isdisjoint(range(1, position + 1))
