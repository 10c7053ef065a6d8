"""Worked examples of filling the section and building the block."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from agentmem.base.errors import InvalidInput, InvalidNumber
from agentmem.prompt.block import BlockSource, Pointer
from agentmem.prompt.build import OfferedSource, build_block, fill_knowledge

SECRET = b"sixteen bytes or more"
DAY = date(2026, 1, 1)


def characters(text: str, /) -> int:
    return len(text)


def candidate(name: str, score: float, text: str) -> OfferedSource:
    return OfferedSource(id=name, score=score, source=BlockSource(text=text, retrieved=DAY))


SENTENCES = "First one here. Second one here. Third one here. "
FOUND = [
    candidate("c", 0.2, "tiny."),
    candidate("a", 0.9, "best."),
    candidate("b", 0.5, SENTENCES * 5),
]


def test_the_last_one_is_cut_at_a_sentence_and_nothing_jumps_over_it() -> None:
    fill = fill_knowledge(FOUND, 460, count=characters)
    assert [fate.id for fate in fill.fates] == ["a", "b", "c"]
    assert [fate.outcome for fate in fill.fates] == ["included", "cut", "dropped"]
    assert fill.sources[1].cut
    kept = fill.sources[1].text.count("here.")
    assert fill.fates[1].reason.startswith(f"cut at sentence {kept}, to the ")
    assert fill.sources[1].text.endswith("here.")
    assert fill.fates[2].reason == "a source with a higher score was the last to fit"


def test_what_fits_to_the_last_token_is_shown_whole() -> None:
    roomy = fill_knowledge(FOUND, 10_000, count=characters)
    exact = fill_knowledge(FOUND, roomy.tokens, count=characters)
    assert exact == roomy
    assert [fate.outcome for fate in exact.fates] == ["included"] * 3
    short = fill_knowledge(FOUND, roomy.tokens - 1, count=characters)
    assert [fate.outcome for fate in short.fates] == ["included", "included", "dropped"]


def test_what_cannot_hold_a_sentence_is_left_out() -> None:
    fill = fill_knowledge(FOUND, 280, count=characters)
    assert [fate.outcome for fate in fill.fates] == ["included", "dropped", "dropped"]
    assert "not even one sentence" in fill.fates[1].reason


def test_an_empty_budget_shows_nothing() -> None:
    fill = fill_knowledge(FOUND, 0, count=characters)
    assert fill.sources == ()
    assert fill.tokens == 0
    assert fill_knowledge([], 100, count=characters).fates == ()


def test_a_megabyte_is_not_read_to_know_that_it_is_large() -> None:
    counted = 0

    def count(text: str, /) -> int:
        nonlocal counted
        counted += len(text)
        return len(text) // 4

    big = candidate("big", 1.0, "A sentence of words. " * 500_000)
    fill = fill_knowledge([big], 500, count=count)
    assert fill.sources[0].cut
    assert counted < 200_000


def test_escapes_are_paid_for() -> None:
    plain = fill_knowledge([candidate("a", 1, "x. " * 9)], 999, count=characters)
    sharp = fill_knowledge([candidate("a", 1, "&. " * 9)], 999, count=characters)
    assert sharp.tokens == plain.tokens + 9 * len("amp;")


def test_everything_offered_gets_a_fate() -> None:
    built = build_block(
        secret=SECRET,
        limit_tokens=1100,
        count=characters,
        user_profile=["likes tea", "\u200b", "x" * 900],
        profile_tokens=80,
        candidates=FOUND,
        working_memory=[Pointer(id="r1", summary="short"), Pointer(id="r2", summary="y" * 2000)],
    )
    assert built.block is not None
    assert built.tokens <= 1100
    assert [fate.outcome for fate in built.profile] == ["included", "dropped", "dropped"]
    assert built.profile[1].reason == "nothing visible in it"
    assert len(built.knowledge.fates) == 3
    assert [fate.outcome for fate in built.pointers][1] == "dropped"


def test_when_nothing_fits_there_is_no_block() -> None:
    built = build_block(
        secret=SECRET, limit_tokens=100, count=characters, user_profile=["likes tea"]
    )
    assert built.block is None
    assert built.text is None
    assert built.tokens == 0
    assert [fate.outcome for fate in built.profile] == ["dropped"]
    assert build_block(secret=SECRET, limit_tokens=10**6, count=characters).block is None


def test_a_counter_of_whole_messages_is_asked() -> None:
    asked: list[Any] = []

    def count_messages(messages: Any) -> int:
        asked.append(messages)
        return 50

    built = build_block(
        secret=SECRET,
        limit_tokens=200,
        count=characters,
        user_profile=["tea"],
        count_messages=count_messages,
    )
    assert built.tokens == 50
    assert [m["role"] for m in asked[-1]] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: candidate("a", float("nan"), "x"), InvalidNumber),
        (lambda: build_block(secret=b"", limit_tokens=1, count=characters), InvalidInput),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
