"""Properties of what is taken from a model: nothing the text does not say, and never an error."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.living.consolidate import read_judgement, read_shorter
from agentmem.living.facts import Fact, StatedEpisode, extract, key_words
from agentmem.living.learn import (
    Grounded,
    GroundTurn,
    Proposal,
    cut_pieces,
    ground,
    merge_found,
    read_proposals,
)
from agentmem.living.levels import has_word, read_essentials
from tests.properties.strategies import texts

NAMES = ("Postgres", "MySQL", "Ana", "gRPC", "libpq-dev", "C++", "Rome", "São Paulo")
NUMBERS = ("5", "15", "1.5", "1,500", "-5", "5%", "5 million", "v2.1", "five", "4 GB", "$5")
FRAMES = (
    "We use {name} {number} for billing.",
    "We do not use {name} {number}.",
    "The limit is {number}, not {other}.",
    "We moved from {name} to {other}.",
    "We decided to use {name} because {other} needs {number}.",
    "{name} kept dying; what helped was raising it to {number}.",
    "Is it {name}?",
    "{name} is {number}",
)
DIGITS = re.compile(r"\d+")
_parts = st.sampled_from((*NAMES, *NUMBERS))
_fragments = st.sampled_from(("5", "1", "1.", "500", "2.1", "Paulo", "dev", "C", "PC", "Post"))
_sentences = st.builds(
    lambda frame, name, other, number: frame.format(name=name, other=other, number=number),
    st.sampled_from(FRAMES), st.sampled_from(NAMES), _parts, st.sampled_from(NUMBERS),
)  # fmt: skip
_said = st.lists(_sentences | texts(30), max_size=5).map(" ".join)


@st.composite
def proposals(draw: st.DrawFn, text: str) -> Proposal:
    """A proposal made of pieces of the text, of names and numbers, and of anything."""
    places = st.integers(0, len(text))
    pieces = st.tuples(places, places).map(lambda two: text[min(two) : max(two)])
    words = st.sampled_from(text.split() or [""])
    fields = words | _fragments | _parts | pieces | texts(10)
    return Proposal(
        sort=draw(st.sampled_from(("fact", "fact", "decision", "error", "error", "wish"))),
        value=draw(fields),
        key=draw(words | st.sampled_from(("limit", "main database", "port 9")) | texts(10)),
        reason=draw(st.just("") | fields),
        fix=draw(fields),
        evidence=draw(st.just("") | st.sampled_from(text.split(". ")) | pieces),
        turn=draw(st.integers(-1, 3)),
        ended=draw(st.sampled_from((False, False, True))),
        confidence=draw(st.floats(0.5, 1) | st.floats()),
    )


@given(st.data(), _said, _said)
def test_nothing_is_accepted_that_the_text_does_not_say(
    data: st.DataObject, one: str, other: str
) -> None:
    """L11 Grounded. What a model proposes is kept only with a confidence and a key, word for
    word as a sentence of the user's says it: no number and no name that is not there."""
    turns = [GroundTurn(one), GroundTurn(other)]
    for _ in range(3):
        checked = ground(data.draw(proposals(data.draw(st.sampled_from((one, other))))), turns)
        if isinstance(checked, str):
            assert checked
            continue
        turn, found = turns[checked.turn], checked.found
        said = turn.own[found.start : found.end]
        whole = read_essentials(said)
        for quote in quotes(found):
            assert " ".join(quote.split()) in " ".join(said.split())
            quoted = read_essentials(quote)
            assert quoted.numbers <= whole.numbers
            assert all(has_word(whole, name) for name in quoted.names)
            assert {*DIGITS.findall(quote)} <= {*DIGITS.findall(said)}
        if isinstance(found, Fact):
            assert 0.5 <= found.confidence <= 1
            assert 0 < len(found.key) <= 60
            assert found.text == turn.text[found.start : found.end]
            numbers = {word for word in found.key.split() if word[0].isdigit()}
            assert numbers <= set(key_words(turn.own))
        rules = extract(turn.text)
        merged = merge_found(rules, [found, found])
        assert set(rules.facts) <= set(merged.facts)
        assert count(merged) - count(rules) in (0, 1)


def quotes(found: Fact | StatedEpisode) -> list[str]:
    if isinstance(found, Fact):
        return [found.value]
    if found.sort == "decision":
        return [found.title.removesuffix("…"), found.reason]
    return [found.error, found.fix]


def count(found: Any) -> int:
    return len(found.facts) + len(found.episodes)


_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | texts(10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("records", "facts", "sort", "value", "turn", "confidence", "note"))
            | texts(5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_answers = st.builds(
    lambda value, before, after, cut: (before + json.dumps(value) + after)[: cut or None],
    _values, texts(10), texts(10), st.integers(0, 60),
)  # fmt: skip


@given(texts(60) | _answers)
@example("[" * 3_000)
@example('{"records": [' + '{"value": "' * 500)
@example('{"records": [{"value": ' + "9" * 5_000 + "}]}")
@example('{"records": [{"value": "x", "turn": 1e999, "confidence": NaN}]}')
def test_any_reply_can_be_read(reply: str) -> None:
    """L12 Any reply. Whatever a model answers is read without an error: proposals, a verdict
    and a note, or none."""
    found = read_proposals(reply)
    turn = GroundTurn("We use Postgres 15 for billing.")
    for one in found or ():
        assert isinstance(ground(one, [turn]), Grounded | str)
    assert read_judgement(reply) in ("yes", "no", "")
    assert isinstance(read_shorter(reply), str)


@given(st.lists(_said, max_size=5), st.integers(1, 40))
def test_pieces_leave_nothing_out(said: list[str], limit: int) -> None:
    """L13 In pieces. Texts cut for a model are all in its pieces, in order, each within the
    limit unless it is one character."""
    pieces = cut_pieces(said, limit_tokens=limit, count=len)
    for number, text in enumerate(said, 1):
        parts = [part for piece in pieces for at, part in piece if at == number]
        assert "".join("".join(parts).split()) == "".join(text.split())
    for piece in pieces:
        assert piece
        assert sum(len(part) for _, part in piece) <= max(limit, 1)
    numbers = [number for piece in pieces for number, _ in piece]
    assert numbers == sorted(numbers)
