"""Which memories can be contradicted, and by which of their words.

A fact, a preference or an episode is a statement. In a message most words are
none: greetings, questions, moods. Of a message only the sentences count that
state a fact, and only in what a user says; the assistant repeats, and pages
and tools speak of other things by the same names.
"""

from __future__ import annotations

import re
from datetime import timedelta

from agentmem.core.patterns import compile_late
from agentmem.types import Memory

JUDGED_KINDS = frozenset({"fact", "episode", "preference", "message"})
"""What is compared with what is known as soon as it comes in."""
ONE_DAY = timedelta(days=1)
_USER = "user"
_THAT_DAY = compile_late(
    r"(?<!\bas of )(?<!\bsince )(?<!\bfrom )(?<!\bstarting )(?<!\beffective )"
    r"\b(?:today|tonight|tomorrow|this (?:morning|afternoon|evening|week|weekend|month))\b",
    re.IGNORECASE,
)


def may_state(memory: Memory) -> bool:
    """Whether it may state something, as far as one can tell without reading it."""
    if memory.kind == "message":
        return memory.origin == _USER
    return memory.kind in JUDGED_KINDS


def stated_text(memory: Memory) -> str:
    """The words of a memory that can be contradicted; "" when it has none."""
    if memory.kind != "message":
        return memory.text
    if memory.origin != _USER:
        return ""
    from agentmem.core.living.extraction import extract  # many patterns: only where it is read

    return "\n".join(dict.fromkeys(fact.text for fact in extract(memory.text).facts))


def of_two_days(one: Memory, other: Memory) -> bool:
    """Whether they speak of different days: of what happened, or of what holds that day only."""
    first, second = (memory.valid_from or memory.created_at for memory in (one, other))
    if _is_event(one) and _is_event(other):
        return abs(first - second) >= ONE_DAY  # things happen again, and differently
    if first.date() == second.date():
        return False
    return any(_THAT_DAY.search(memory.text) for memory in (one, other))


def _is_event(memory: Memory) -> bool:
    if memory.kind != "episode":
        return False
    from agentmem.core.living.records import Episode, from_memory

    record = from_memory(memory)
    return not (isinstance(record, Episode) and record.sort == "decision")


def same_voice(one: Memory, other: Memory) -> bool:
    """Whether "I" is the same person in both: what one person says binds nobody else.

    A preference and a message are not compared: preferences are taken from
    messages, where a newer one replaces an older one already.
    """
    kinds = {one.kind, other.kind}
    if "message" not in kinds:
        return True
    if "preference" in kinds:
        return False
    return (one.speaker or _USER) == (other.speaker or _USER)
