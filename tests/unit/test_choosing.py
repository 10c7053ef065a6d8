"""What of the recalled is offered to the block."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agentmem.base.types import Hit, Memory
from agentmem.prompt.build import choose

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACT = Hit(
    memory=Memory(
        id="fact", text="The weir opens at noon.", created_at=NOW, kind="fact", content_hash="f"
    ),
    score=0.6,
    lexical=4.5,
)


def turn(number: int, answer: str) -> list[Hit]:
    """A question that matches and the answer it got, which does not."""
    said = (("user", "When does the weir open?", 5.0, 0.9), ("assistant", answer, None, 0.95))
    return [
        Hit(
            memory=Memory(
                id=f"{role}{number}", text=text, created_at=NOW + timedelta(minutes=number),
                kind="message", origin="user" if role == "user" else "assistant", speaker=role,
                session="s", content_hash=f"{role}{number}",
            ),
            score=score, lexical=lexical,
        )
        for role, text, lexical, score in said
    ]  # fmt: skip


def test_an_answer_that_says_nothing_by_itself_is_not_shown() -> None:
    for empty in ("The", "x", "it is", "{}"):
        chosen = choose([*turn(1, empty), FACT], [], top_k=5, threshold=0.3, now=NOW)
        assert [candidate.id for candidate in chosen.candidates] == ["fact"]
    for short in ("Rex", "42", "木曜日"):
        chosen = choose([*turn(1, short), FACT], [], top_k=5, threshold=0.3, now=NOW)
        assert [candidate.id for candidate in chosen.candidates] == ["assistant1", "fact"]


def test_what_is_over_top_k_still_counts_as_found() -> None:
    hits = [fact(f"m{n:02}", f"Gate {n} is shut.") for n in range(12)]
    chosen = choose(hits, [], top_k=5, threshold=0.3, now=NOW)
    assert (len(chosen.candidates), chosen.related) == (5, 12)


def fact(name: str, text: str, *, score: float = 0.6, **fields: Any) -> Hit:
    said: dict[str, Any] = {"created_at": NOW, "kind": "fact", **fields}
    memory = Memory(id=name, text=text, **said)
    return Hit(memory=memory, score=score, lexical=1.0)


def texts_of(hits: list[Hit], top_k: int = 5) -> list[str]:
    chosen = choose(hits, [], top_k=top_k, threshold=0.3, now=NOW)
    return [candidate.offered.text for candidate in chosen.candidates]


def test_of_equally_relevant_memories_the_important_and_the_new_come_first() -> None:
    plain = fact("a", "The weir is old.", score=0.604)
    vital = fact("b", "The weir is cracked.", score=0.596, importance=0.9)
    fresh = fact("c", "The weir was painted.", score=0.6, created_at=NOW - timedelta(days=1))
    stale = fact("d", "The weir was green.", score=0.6, created_at=NOW - timedelta(days=300))
    better = fact("e", "The weir opens at noon.", score=0.61, importance=0.1)
    expected = [one.memory.text for one in (better, vital, plain, fresh, stale)]
    assert texts_of([stale, fresh, plain, vital, better]) == expected
    assert texts_of([stale, fresh, plain, vital, better], top_k=2) == expected[:2]


def test_ids_do_not_decide_which_memories_are_shown() -> None:
    said = [f"Gate {number} is shut." for number in range(6)]
    one_way = [fact(f"m{number}", text) for number, text in enumerate(said)]
    other_way = [fact(f"m{9 - number}", text) for number, text in enumerate(said)]
    assert texts_of(one_way, top_k=3) == texts_of(other_way[::-1], top_k=3)


def test_a_memory_is_a_package_of_its_own_type() -> None:
    hits = [
        fact("f", "Tea is at four.", kind="fact"),
        fact("e", "They met at the weir.", kind="episode"),
        fact("w", "To open the gate, turn the wheel.", kind="workflow"),
    ]
    chosen = choose(hits, [], top_k=5, threshold=0.3, now=NOW)
    assert {candidate.id: candidate.type for candidate in chosen.candidates} == {
        "f": "memory-semantic",
        "e": "memory-episodic",
        "w": "memory-procedural",
    }
