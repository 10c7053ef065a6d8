"""What a clause speaks of: subjects that can stand in a key, and the keys made of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from agentmem.core.conflicts_words import ATTRIBUTES, DEFINITE
from agentmem.core.living.fact_words import (
    CODE_WORDS,
    MORE_ATTRIBUTES,
    NO_SUBJECT,
    OPINIONS,
    word_set,
)
from agentmem.core.living.keys import fact_key, key_words, normal_word
from agentmem.core.living.stated_values import date_sort, value_span
from agentmem.core.patterns import compile_late

Found = tuple[str, float] | None
"""The key of a fact and how sure it is."""
Reader = Callable[[re.Match[str]], Found]

_FLAGS = re.IGNORECASE
PRONOUN = re.compile(
    r"^(?:i|we|us|me|you|it|they|he|she|him|them|this|that|there|these|those|one|here|what|who)$",
    _FLAGS,
)
_SPEAKERS = compile_late(
    r"(?:we|i|our team|the team|us|my team|everyone|everybody|we all)\Z", _FLAGS
)
FOR_NOW = compile_late(
    r"\s+(?:this (?:week|month|year|quarter|sprint|term|semester)|today|tonight|right now"
    r"|at the moment|currently|nowadays|these days|as of now|for now)\b",
    _FLAGS,
)
OWNED = compile_late(r"\b(?:my|our|your|his|her|its|their)\b|['’]s\b|s['’](?=\s)", _FLAGS)
DETERMINED = compile_late(r"(?:the|our|my|all)\b|[\w-]+['’]s?\s", _FLAGS)
AFTER_NAME = re.compile(r"\s(?:of|for|in|on|at|with)\s", _FLAGS)
NO_VALUE = re.compile(r"(?:the|my|our|a|an|this|that|his|her|it|your|their|some)\b", _FLAGS)

HEADS = frozenset(normal_word(word) for word in (ATTRIBUTES | MORE_ATTRIBUTES) - {"capital"})
DEFINITE_WORDS = frozenset(normal_word(word) for word in DEFINITE - {"first", "only"})


def value_of(match: re.Match[str]) -> str:
    """The value of a match, without what goes around it."""
    begin, end = value_span(match.string, match.start("v"), match.end("v"))
    return match.string[begin:end]


def subject_of(text: str) -> str | None:
    """The subject as it may stand in a key: "" for "we", None when it is no name of a thing."""
    stripped = _OUR_OWN.sub("the ", FOR_NOW.sub("", text.strip()))
    if _SPEAKERS.match(stripped):
        return ""
    words = stripped.lower().replace("’", "'").split()
    if words and words[0].endswith("ing") and words[0] not in _NAMED_ING:
        return None  # "learning a language is …" tells of doing, not of a thing
    if words and (words[-1] in CODE_WORDS or _LETTER.search(stripped)):
        return None
    words = _TO_NAME.sub("", stripped).lower().replace("’", "'").split()
    if any(word.partition("'")[0] in NO_SUBJECT and "'" in word for word in words):
        return None
    if PRONOUN.match(stripped) or len(words) > 7 or not NO_SUBJECT.isdisjoint(words):
        return None
    if not words or words[0] in OPINIONS - _MAY_BEGIN:
        return None
    return stripped


_LETTER = re.compile(r"(?:^|\s)(?![aiI]\b)[a-z](?=\s|$)")
_TO_NAME = re.compile(r"\bto (?=[A-Z])")  # "my flight to Rome"
_OUR_OWN = re.compile(
    r"^this (?=(?:project|repo|repository|codebase|team|company|service|app)\b)", _FLAGS
)
_NAMED_ING = word_set(
    "staging billing pricing marketing engineering accounting training onboarding planning logging"
    " monitoring caching testing hosting routing building meeting parking"
)
_MAY_BEGIN = word_set(
    "key off long last next my his her all new old big small main first red full other best"
)


def dated_key(subject: str, value: str) -> str:
    """The key of a subject whose value may say when: "meeting day", else the subject itself."""
    sort = date_sort(value)
    words = key_words(subject)
    if re.search(r"\byears? old\b", value, _FLAGS):
        return fact_key(subject, "age")
    if sort is None or any(word in HEADS for word in words[-1:]):
        return fact_key(subject)
    return fact_key(subject, sort)
