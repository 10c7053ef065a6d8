"""What asks nothing brings nothing, and what the assistant said stands behind its source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import Hit, Memory
from agentmem.prompt.block import parse_context
from agentmem.search.gate import is_echo, settle_echoes
from agentmem.text.language import question_words

GREETINGS = sorted({one for sorts in question_words().values() for one in sorts["greeting"]})
EARLIER = ("Where did I park my car?", "What car do I drive?", "")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def memory() -> Iterator[agentmem.MemoryManager]:
    with agentmem.open(":memory:", embedder="hash") as opened:
        opened.add([{"role": "user", "content": "I drive a red Volvo"}], user_id="ann")
        opened.add("My car is parked on level 4, good for today", user_id="ann")
        opened.sources.add_document(
            "Hello, thanks and good morning: a car park's sign.", user_id="ann"
        )
        yield opened


@given(
    said=st.lists(st.sampled_from(GREETINGS), min_size=1, max_size=2),
    mark=st.sampled_from(["", "!", ".", " 👍", "…", "?"]),
    before=st.sampled_from(EARLIER),
    upper=st.booleans(),
)
def test_a_message_that_asks_nothing_brings_no_knowledge(
    memory: agentmem.MemoryManager, said: list[str], mark: str, before: str, upper: bool
) -> None:
    """P44 Asks nothing. A message that asks nothing (a greeting, thanks, an acknowledgement)
    brings no knowledge into the prompt, whatever was asked before it."""
    text = ", ".join(said) + mark
    earlier = [{"role": "user", "content": before}, {"role": "assistant", "content": "On level 4."}]
    turn = memory.turn(
        [
            *(earlier if before else []),
            {"role": "user", "content": text.upper() if upper else text},
        ],
        user_id="ann",
        dry=True,
    )
    assert not turn.block_text or not parse_context(turn.block_text).related_knowledge


def test_the_questions_it_leans_on_do_bring_knowledge(memory: agentmem.MemoryManager) -> None:
    turn = memory.turn([{"role": "user", "content": EARLIER[0]}], user_id="ann", dry=True)
    assert parse_context(turn.block_text).related_knowledge


TEXTS = ("I drive a red Volvo", "You drive a red Volvo.", "You own a blue Saab, don't you",
         "Volvo makes cars in Sweden", "my car is red", "du fährst einen roten Volvo", "")  # fmt: skip


@st.composite
def some_hits(draw: st.DrawFn) -> list[Hit]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from(TEXTS),
                st.sampled_from(["user", "assistant"]),
                st.sampled_from([0.0, 0.2, 0.3, 0.5, 0.9]),
            ),
            max_size=8,
        )
    )
    hits = [
        Hit(
            memory=Memory(
                id=f"m{at}", text=text, created_at=NOW + timedelta(days=at), kind="message",
                origin="user" if by == "user" else "assistant", speaker=by, content_hash=f"{at}",
            ),
            score=score,
        )
        for at, (text, by, score) in enumerate(drawn)
    ]  # fmt: skip
    return sorted(hits, key=lambda hit: -hit.score)


@given(hits=some_hits())
def test_what_the_user_said_is_all_there_and_nothing_said_of_them_comes_before_it(
    hits: list[Hit],
) -> None:
    """R13 Echoes. Every memory that is not the assistant's own answer keeps its place and score;
    an answer never scores more for it, and none that speaks of the user stands before a related
    statement of theirs."""
    found = settle_echoes(hits)
    stated = [hit for hit in hits if not is_echo(hit.memory)]
    assert [hit for hit in found if not is_echo(hit.memory)] == stated
    before = {hit.memory.id: hit.score for hit in hits}
    assert all(hit.score <= before[hit.memory.id] for hit in found)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert settle_echoes(found) == found
    related = [at for at, hit in enumerate(found) if not is_echo(hit.memory) and hit.score >= 0.3]
    claims = [
        at for at, hit in enumerate(found) if is_echo(hit.memory) and "You" in hit.memory.text
    ]
    assert not related or not claims or max(related) < min(claims)
