"""Find the fact that one clause states: its key, its value, and where the value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentmem.core.living.fact_rules import rules_for
from agentmem.core.living.fact_subjects import PRONOUN
from agentmem.core.living.stated_values import value_span
from agentmem.core.patterns import compile_late
from agentmem.core.values import dataclass

LONGEST_VALUE = 80
MOST_VALUE_WORDS = 8

_FLAGS = re.IGNORECASE
_LABEL = (
    r"(?:(?:quick|small|side|short|important|one|just a|another) )?(?:note|fyi|reminder|update"
    r"|heads[ -]up|btw|by the way|info|fact|for the record|ps|p\.s\.|psa|context|correction|edit"
    r"|important|announcement|news|tl;dr|background)"
)
_OPENERS = compile_late(
    r"^(?:(?:also|note that|remember that|remember|please note that|please remember that"
    r"|just so you know|actually|basically|oh|hey|hi|hello"
    rf"|so|and|well|ok|okay|yes|no|it turns out that|it turns out|turns out|for context"
    r"|for reference|in fact|as you know|i confirmed that|i can confirm that|confirmed|currently"
    r"|now"
    r"|today|these days|nowadays|this (?:week|month|year|quarter|sprint)|at the moment|right now"
    r"|as of \w+(?: \d+)?|since \w+(?: \d+)?|starting (?:in|on|from) \w+(?: \d+)?|from now on"
    rf"|going forward|at work|at home|in our team|in my team|personally|{_LABEL})"
    r"(?:\s*[,:—–]\s*|\s+-\s+|\s+))+",
    _FLAGS,
)
_BELIEF = compile_late(
    r"^(?:i (?:think|believe|guess|suppose)|i'm pretty sure)(?: that)? ",
    _FLAGS,
)
_NEGATED = compile_late(
    r"\b(?:not|never|no|none|nobody|nothing|neither|nor|without|cannot|hardly|barely|isnt|dont)\b"
    r"|n['’]t\b",
    _FLAGS,
)
_AT_MOST = compile_late(r"\bno (?=(?:more|less|fewer) than\b)", _FLAGS)
_ENDED = compile_late(
    r"\b(?:no longer|(?:have |has )?(?:stopped|quit)(?= using\b)|(?:do(?:es)?n['’]t|do(?:es)? not)"
    r"(?= use\b.*\bany ?more\b))\s+|\s+any ?more\b",
    _FLAGS,
)
_DROPPED = compile_late(
    r"\b(?:we|i|team)\s+(?:have |has |'ve )?(?:dropped|abandoned|ditched|retired)\b", _FLAGS
)


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact as found in a clause: its value stands at `start` to `end` of the clause."""

    key: str
    value: str
    start: int
    end: int
    confidence: float
    ended: bool = False


def stated_fact(clause: str) -> Stated | None:
    """The fact that a clause states, or None; the first rule that fits decides."""
    opened = _OPENERS.match(clause)
    start = opened.end() if opened else 0
    belief = _BELIEF.match(clause[start:])
    start += belief.end() if belief else 0
    body = _ENDED.sub(lambda found: " " * len(found[0]), clause[start:])
    ended = body != clause[start:] or _DROPPED.search(body) is not None
    if _NEGATED.search(_AT_MOST.sub("", body)):
        return None
    for pattern, read in rules_for(body):
        match = pattern.match(body)
        found = read(match) if match is not None else None
        if match is None or found is None or not found[0]:
            continue
        key, confidence = found
        begin, end = value_span(body, match.start("v"), match.end("v"))
        value = " ".join(body[begin:end].split())
        if not _is_short(value) or PRONOUN.match(value):
            return None
        sure = confidence * (0.6 if belief else 1.0)
        return Stated(key, value, start + begin, start + end, sure, ended)
    return None


def _is_short(value: str) -> bool:
    return 0 < len(value) <= LONGEST_VALUE and len(value.split()) <= MOST_VALUE_WORDS


def clauses_of(sentence: str) -> Iterator[tuple[int, int]]:
    """Where the clauses of a sentence begin and end; most sentences have one."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        yield start, cut.start()
        start = cut.end()
    yield start, len(sentence)


_CLAUSE = compile_late(
    r"\s*;\s+|,?\s+but\s+|,\s+and\s+|\s+and\s+(?=(?:we|our|my|the|it|i)\b)|,\s+so\s+|\s+[—–]\s+",
    _FLAGS,
)
