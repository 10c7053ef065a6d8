"""Which standing statements a message ends, told by a fitted model."""

from __future__ import annotations

import pytest

from agentmem.search.embedders.use import UseEmbedder
from agentmem.text.detect import hear
from agentmem.text.replaced import ending

ENCODER = UseEmbedder()


def ended(message: str, *standing: str) -> set[str]:
    embed = ENCODER.embed_documents
    return {standing[at] for at, _ in ending(hear(message, embed).told, standing, embed)}


@pytest.mark.parametrize(
    ("message", "old", "beside"),
    [
        ("we finally moved!! Ghent now", "We're in Leeds", "I'm a plumber"),
        ("ich wohne jetzt in Leipzig", "I live in Berlin", "I'm a designer"),
        ("kilometres from now on", "use miles", "I cycle to work"),
        ("今は大阪に住んでいます", "東京に住んでいます", "猫が好きです"),
    ],
)
def test_a_change_ends_what_it_speaks_of_and_nothing_beside(
    message: str, old: str, beside: str
) -> None:
    assert ended(message, old, beside) == {old}


def test_another_thing_of_the_same_kind_ends_nothing() -> None:
    assert ended("I love coffee too", "I love tea", "I'm from Leeds") == set()
    assert ended("my brother lives in Hamburg", "I live in Munich") == set()


def test_each_statement_is_ended_by_one_clause() -> None:
    embed = ENCODER.embed_documents
    told = hear("we finally moved!! Ghent now", embed).told
    found = ending(told, ["We're in Leeds", "I'm a plumber"], embed)
    assert [at for at, _ in found] == [0]


def test_nothing_is_ended_without_vectors() -> None:
    told = hear("we relocated to Cardiff").told
    assert ending(told, ["I live in Bristol"], lambda texts: None) == ()
