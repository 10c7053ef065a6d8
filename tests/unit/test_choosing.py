"""What of the recalled is offered to the block."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentmem.core.choosing import MOST_ANSWERS, choose
from agentmem.types import Hit, Memory

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


def test_answers_to_like_questions_do_not_crowd_out_what_matches() -> None:
    hits = [hit for n in range(9) for hit in turn(n, f"It is closed on day {n}.")]
    chosen = choose([*hits, FACT], [], top_k=5, threshold=0.3)
    ids = [candidate.id for candidate in chosen.candidates]
    assert ids[-1] == "fact"
    assert len(ids) == MOST_ANSWERS + 1
    reasons = {reason for hit, reason in chosen.passed_over if hit.memory.speaker == "assistant"}
    assert reasons == {"one more answer to a like question"}


def test_an_answer_that_says_nothing_by_itself_is_not_shown() -> None:
    for empty in ("The", "x", "it is", "{}"):
        chosen = choose([*turn(1, empty), FACT], [], top_k=5, threshold=0.3)
        assert [candidate.id for candidate in chosen.candidates] == ["fact"]
    for short in ("Rex", "42", "木曜日"):
        chosen = choose([*turn(1, short), FACT], [], top_k=5, threshold=0.3)
        assert [candidate.id for candidate in chosen.candidates] == ["assistant1", "fact"]
