"""Readers of facts that are amounts: when, how often, how many, how large, at most."""

from __future__ import annotations

import re

from agentmem.core.living.fact_subjects import HEADS, Found, dated_key, subject_of, value_of
from agentmem.core.living.fact_words import EPHEMERAL, NOT_COUNTED, OPINIONS, PEOPLE, PETS, word_set
from agentmem.core.living.keys import fact_key, key_words
from agentmem.core.living.stated_values import date_sort, is_typed

_FLAGS = re.IGNORECASE


def read_scheduled(match: re.Match[str]) -> Found:
    """When something happens: on a day, at a time, or how often."""
    subject, value = subject_of(match["s"]), value_of(match)
    if not subject or not key_words(subject) or not value or subject.lower() in EPHEMERAL:
        return None
    sort = date_sort(value)
    if sort is None:
        return _repeated(subject, value)
    return fact_key(subject, "" if key_words(subject)[-1] in _DATED else sort), 0.85


def _repeated(subject: str, value: str) -> Found:
    often = re.match(
        r"(?:every|each|once|twice|hourly|daily|nightly|weekly|biweekly|monthly|quarterly|yearly"
        r"|annually|fortnightly|\w+ times? (?:a|per))\b",
        value,
        _FLAGS,
    )
    if often is None or not is_typed(value):
        return None
    return fact_key(subject, "frequency"), 0.85


_DATED = word_set("deadline birthday anniversary date day time schedule expiry")


def read_done_on(match: re.Match[str]) -> Found:
    """ "We deploy every Tuesday": when or how often we do it."""
    value = value_of(match)
    what = {"meet": "meeting", "back up": "backup", "ship": "release"}.get(
        match["s"].lower(), match["s"]
    )
    sort = date_sort(value)
    return (fact_key(what, sort), 0.85) if sort else _repeated(what, value)


def read_rotation(match: re.Match[str]) -> Found:
    """ "Certificates are rotated every 90 days"."""
    subject, value = subject_of(match["s"]), value_of(match)
    if not subject or not is_typed(value):
        return None
    return fact_key(subject, "rotation"), 0.8


def read_counted(match: re.Match[str]) -> Found:
    """ "Our team has seven engineers": how many of what."""
    groups = match.groupdict()
    subject = "" if groups.get("s") is None else subject_of(match["s"])
    words = value_of(match).split()
    if subject is None or len(words) < 2:
        return None
    things = key_words(" ".join(words[1:]))
    if not things or not NOT_COUNTED.isdisjoint((things[0], things[-1])) or things[0] in OPINIONS:
        return None
    where = groups.get("where") or ""
    return fact_key(f"{subject} {where} {' '.join(words[1:])}", "count"), 0.75


def read_limit(match: re.Match[str]) -> Found:
    """ "The free plan allows up to 3 projects": the limit on them."""
    subject, value = subject_of(match["s"]), value_of(match)
    if subject is None or not is_typed(value):
        return None
    unit = [word for word in key_words(value) if word.isalpha()]
    things = unit[-1:] if match.groupdict().get("holds") and unit else []
    return fact_key(subject, " ".join(["limit", *things])), 0.8


def read_bound(match: re.Match[str]) -> Found:
    """ "Coverage must be at least 80%"."""
    subject, value = subject_of(match["s"]), value_of(match)
    if not subject or not is_typed(value):
        return None
    least = match["bound"].lower() in ("at least", "above", "over", "more than", "no less than")
    return fact_key(subject, "minimum" if least else "maximum"), 0.8


def read_size(match: re.Match[str]) -> Found:
    """ "I'm 182 cm tall", "the pool is 20 m long"."""
    subject = subject_of(match["s"])
    if subject is None:
        return None
    attribute = {"tall": "height", "high": "height", "long": "length", "wide": "width"}
    word = match["how"].lower()
    return fact_key(subject, attribute.get(word, word)), 0.8


def read_age(match: re.Match[str]) -> Found:
    """ "My son is 6": for a person or a pet a bare number is the age."""
    subject = subject_of(match["s"])
    words = key_words(subject or "")
    if subject is None or (subject and words and words[-1] not in PEOPLE | PETS):
        return None
    if not subject and not re.match(r"i\b", match["s"].strip(), _FLAGS):
        return None
    return fact_key(subject, "age"), 0.85


def read_set_to(match: re.Match[str]) -> Found:
    """ "The retry limit was raised from 3 to 5"."""
    subject = subject_of(match["s"])
    if not subject:
        return None
    value = value_of(match)
    words = key_words(subject)
    if not is_typed(value) and words and words[-1] not in HEADS:
        return None
    return dated_key(subject, value), 0.85
