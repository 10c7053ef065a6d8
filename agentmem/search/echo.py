"""What the assistant said about the user never stands before what the user said.

An assistant answers from memory, and sometimes wrongly. Its answers are kept as
messages like any other, so that a question that was asked five times would find
five answers and not the fact they were made of. Here they are put in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentmem.base.types import Hit, Memory
from agentmem.search.rank import RELATED
from agentmem.text.language import UNSPACED, detect_language, question_words, words_of
from agentmem.text.terms import STOP_WORDS, analyse

SAME = 0.8
"""So much of what an answer says, by its words, is said by a memory that it repeats."""
SHARED = 2
"""With so many telling words in common an answer and a statement speak of the same."""


def is_echo(memory: Memory) -> bool:
    """Whether the assistant itself said it."""
    return memory.kind == "message" and memory.origin == "assistant"


def settle_echoes(hits: Sequence[Hit]) -> list[Hit]:
    """`hits` without answers that repeat one of the others, and no answer before its source.

    An answer that speaks to the user of the user, or of the same as a related
    statement, gets at most that statement's score and stands behind it: of
    two that contradict each other the user's own is read first.
    """
    if not any(is_echo(hit.memory) for hit in hits):
        return list(hits)
    stated = [(hit, _telling(hit.memory.text)) for hit in hits if not is_echo(hit.memory)]
    kept: list[tuple[float, bool, int, Hit]] = []
    said_before: list[frozenset[str]] = []
    for at, hit in enumerate(hits):
        if not is_echo(hit.memory):
            kept.append((-hit.score, False, at, hit))
            continue
        said = _telling(hit.memory.text)
        if said and _repeats(said, (words for _, words in stated)):
            continue
        if any(said == other for other in said_before):
            continue
        said_before.append(said)
        limit = _limit(hit, said, stated)
        kept.append((-limit, True, at, hit if limit == hit.score else replace(hit, score=limit)))
    return [hit for *_, hit in sorted(kept, key=lambda one: one[:3])]


def _repeats(said: frozenset[str], others: Iterable[frozenset[str]]) -> bool:
    numbers = {term for term in said if any(map(str.isdigit, term))}
    return any(numbers <= other and len(said & other) >= SAME * len(said) for other in others)


def _limit(hit: Hit, said: frozenset[str], stated: Sequence[tuple[Hit, frozenset[str]]]) -> float:
    """The most an answer may score: no more than any related statement of a user it is about."""
    addressed = _addresses(hit.memory.text)
    return min(
        (
            other.score
            for other, words in stated
            if other.memory.origin == "user"
            and RELATED <= other.score < hit.score
            and (addressed or len(said & words) >= SHARED)
        ),
        default=hit.score,
    )


def _addresses(text: str) -> bool:
    """Whether a text speaks to somebody of themselves."""
    read = text.casefold().replace("’", "'")
    language = detect_language(read)
    listed = question_words()[language]["you"]
    if language in UNSPACED:
        return any(word in read for word in listed)
    return not listed.isdisjoint(words_of(read))


def _telling(text: str) -> frozenset[str]:
    return frozenset(term for term in analyse(text) if term not in STOP_WORDS)
