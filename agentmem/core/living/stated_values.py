"""Values as they are said: where they end, and of what sort they are."""

from __future__ import annotations

import re

from agentmem.core.conflicts_kinds import SORTS
from agentmem.core.conflicts_values import month_number, weekday_number
from agentmem.core.living.fact_words import word_set
from agentmem.core.patterns import compile_late

_FLAGS = re.IGNORECASE
# The clause goes on after the value: what follows one of these is no part of it.
VALUE_END = compile_late(
    r"\s+(?:because|since|which|that|who|so|when|while|until|unless|instead|rather|but|if|where"
    r"|although|though|due to|in order|from now on|going forward|these days|at the moment"
    r"|right now|anymore|any more|as of|starting|effective|now|currently|as well|too|again|already"
    r"|this (?:week|month|year|quarter|sprint)|over (?=[A-Z])|and (?=it\b|we\b|i\b|that\b|they\b)"
    r"|thanks to|in case|by default)\b|\s*[(—–]|,\s|\s-\s",
    _FLAGS,
)
_ARTICLE = compile_late(
    r"^(?:(?:a|an|the|our|my|about|around|roughly|approximately|only|just|exactly|called|named|to"
    r"|at (?=least|most)|up to|at most|at least|a maximum of|a total of)\s+)+",
    _FLAGS,
)
_DIGIT = re.compile(r"\d")
_NUMBER_WORD = compile_late(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty"
    r"|forty|fifty|sixty|ninety|hundred|thousand|million|noon|midnight|daily|weekly|monthly|hourly"
    r"|yearly|quarterly|nightly|annually|fortnightly|half|dozen|twice|an hour"
    r"|(?:a|every|each|per) (?:day|night|week|month|year|minute|second|hour|quarter|morning"
    r"|evening|sprint))\b",
    _FLAGS,
)
_CLOCK = compile_late(r"\b(?:\d{1,2}:\d\d|\d{1,2}\s?[ap]\.?m\b|noon\b|midnight\b)", _FLAGS)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DAY_OF_MONTH = compile_late(
    r"\b(?:\d{1,2}(?:st|nd|rd|th)|first|last)(?: \w+)? of (?:each|every|the) month", _FLAGS
)
_SPLIT_WORDS = re.compile(r"[^\W_][\w.+#/-]*")
_EVERY_WEEKDAY = compile_late(
    r"(?:every|each) (?=(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b)", _FLAGS
)
_UNIT = compile_late(
    r"(?:[$€£]\s?\d|\d[\d.,]*\s?(?:[%°€$£]|[a-zµ]+)|\b(?:one|two|three|four|five|six|seven|eight"
    r"|nine|ten|twelve|twenty|thirty|forty|fifty|sixty|ninety|hundred) [a-z]+)",
    _FLAGS,
)
_PATH = re.compile(r"\S*(?:\w/|/\w|\w\.[A-Za-z]{2,}|\w:\d)\S*\Z|[a-z]{2,}-[a-z-]+-?\d+[a-z]?\Z")
_PLACE = compile_late(
    r"(?:(?:the|our|my|a|an) )?(?:[\w-]+ ){0,2}(?:floor|room|hall|hallway|kitchen|garage|basement"
    r"|attic|drawer|fridge|freezer|cupboard|closet|shelf|garden|cellar|bedroom|bathroom|building"
    r"|street|road|avenue|folder|directory|bucket|repo|repository|datacenter|warehouse|safe|shed"
    r"|corridor|lobby|desk|suburbs|countryside|channel)\b",
    _FLAGS,
)
_PAIRS = {
    "github actions": "ci", "gitlab ci": "ci", "azure devops": "ci", "azure pipelines": "ci",
    "sql server": "database", "google cloud": "cloud", "vs code": "editor",
    "visual studio": "editor", "apache kafka": "queue", "amazon web": "cloud",
}  # fmt: skip
_NO_NAMES = word_set(
    "confidence care love pride joy caution ease success help pleasure friends people others kids"
    " family me you him her us them it this that these those everyone nothing something anything"
    " everything way time times effort fun luck hand hands caution style less more"
)


def value_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The value without what follows it, its article and the marks around it."""
    cut = VALUE_END.search(text, start, end)
    if cut is not None:
        end = cut.start()
    for before in (_EVERY_WEEKDAY, _ARTICLE):
        found = before.match(text[start:end])
        start += found.end() if found else 0
    while start < end and text[start] in " \t\"'“”‘’`*_":
        start += 1
    while start < end and text[end - 1] in " \t.,:;!\"'“”‘’`*_":
        end -= 1
    return start, end


def is_typed(value: str) -> bool:
    """Whether a value is an amount, a date, a time or a version."""
    return (
        _DIGIT.search(value) is not None
        or _NUMBER_WORD.search(value) is not None
        or date_sort(value) is not None
    )


def has_unit(value: str) -> bool:
    """Whether a value is an amount of something: "900 euros", "80%", not a bare number."""
    return _UNIT.match(value) is not None


def date_sort(value: str) -> str | None:
    """Whether a value says when: a "time", a "day" of the week or a "date"."""
    if _CLOCK.search(value):
        return "time"
    words = [word.lower().rstrip(".") for word in _SPLIT_WORDS.findall(value)]
    if any(len(word) > 5 and weekday_number(word) is not None for word in words):
        return "day"
    if any(len(word) > 2 and month_number(word) and word != "may" for word in words) or (
        "May" in value.split() or _YEAR.search(value) or _DAY_OF_MONTH.search(value)
    ):
        return "date"
    return None


def sort_of(value: str) -> str | None:
    """The sort of the first known name in a value: "database" for "Postgres 15"."""
    words = value.split()
    lowered = [word.lower().strip(".,`'\"") for word in words[:4]]
    for place, word in enumerate(lowered[:3]):
        pair = _PAIRS.get(" ".join(lowered[place : place + 2]))
        sort = pair or SORTS.get(word)
        if sort is None or sort in ("color", "frequency"):
            continue
        if word not in ("go", "express", "edge", "swift", "fish") or words[place][:1].isupper():
            return sort
    return None


def is_place(value: str) -> bool:
    """Whether a value can be where something is: a path, an address, a name, a room."""
    first = value.split(maxsplit=1)[0] if value else ""
    bare = _ARTICLE.sub("", value)
    return (
        _PATH.match(first.rstrip(".,")) is not None
        or _PLACE.match(value) is not None
        or (bare[:1].isupper() and not date_sort(value))
    )


def is_path(value: str) -> bool:
    """Whether a value is a path, a region or an address of the web."""
    return len(value.split()) == 1 and _PATH.match(value) is not None


def is_name(value: str) -> bool:
    """Whether a value can name a tool or a maker: capital letters, digits, or one plain word."""
    words = value.split()
    if not 1 <= len(words) <= 4 or words[0].lower() in _NO_NAMES:
        return False
    if words[0].lower() in ("the", "a", "an", "my", "our", "your", "his", "her", "their", "some"):
        return False
    return (
        len(words) == 1 or any(not word.islower() for word in words) or sort_of(value) is not None
    )


def is_duration(value: str) -> bool:
    """Whether a value is an amount of time."""
    return is_typed(value) and _TIME_UNIT.search(value) is not None


_TIME_UNIT = compile_late(
    r"(?:second|minute|hour|day|night|week|month|quarter|year|sprint|milli\w+|\bmin|\bsec|\bhr)s?\b"
    r"|\d\s?(?:ms|s|h|m|d)\b",
    _FLAGS,
)


def is_subject(value: str) -> bool:
    """Whether one can study it: not "hard", "every day" or "for an exam"."""
    return value.split(maxsplit=1)[0].lower() not in _HOW_STUDIED


_HOW_STUDIED = word_set(
    "every for in on with hard a the all too from by alone together abroad online at more less this"
    " that it them people how what something part-time full-time and"
)


def is_person(value: str) -> bool:
    """Whether a value looks like the name of somebody: capitalised words, no more than four."""
    words = value.split()
    return 1 <= len(words) <= 4 and all(
        word[:1].isupper() or word in ("de", "van", "von", "der", "da", "la", "and")
        for word in words
    )
