"""Whether two statements contradict each other, decided by rules.

Two statements contradict when they speak of the same subject and attribute and
give it values that cannot both be true: another number, date, version or name,
a negation, an opposite. Where the newer one is worded as a change ("we moved
to …", "no longer", "since May"), it supersedes instead. When in doubt the
answer is "none": a false alarm costs more trust than a missed one.

`judge` reads both texts each time. Where one text meets many others, read it
once with `read_statement` and use `judge_readings`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Literal, NamedTuple, get_args

import Stemmer

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.types import require_instant, utc
from agentmem.data import read_json
from agentmem.text.dates import MONTHS
from agentmem.text.sentences import sentences

# ----------------------------------------------------------------------------
# Numbers with units, dates, times and versions as they are written, and whether two agree.
#
# "1,000", "1k" and "one thousand" are one number; "15 minutes" and "900 seconds"
# are one length of time; "3 May" agrees with "May 3rd, 2024"; version 15 agrees
# with 15.2. "About 100" leaves a tenth of room, "at least 100" leaves all above.


ValueKind = Literal["number", "date", "time", "version"]
Comparison = Literal["exact", "about", "least", "most"]

WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


@dataclass(frozen=True, slots=True)
class Value:
    """One typed value in a statement; what the fields hold depends on `kind`.

    number: `low` to `high` in the base of `unit`. date: `parts` are year, month,
    day and weekday, None where unsaid, and 1 when day and month may be swapped.
    time: `low` and `high` are minutes after midnight.
    version: `parts` are its numbers and `unit` the name before it.
    """

    kind: ValueKind
    shown: str
    low: float = 0.0
    high: float = 0.0
    unit: str = ""
    label: str = ""
    comparison: Comparison = "exact"
    parts: tuple[int | None, ...] = ()
    raw: float = 0.0


_WORDS = read_json("conflict_words.json")
_SECONDS: dict[str, float] = _WORDS["seconds"]
_BYTES: dict[str, float] = _WORDS["bytes"]
_METRES: dict[str, float] = _WORDS["metres"]
_GRAMS: dict[str, float] = _WORDS["grams"]
_MONEY: dict[str, str] = _WORDS["money"]
_SCALES: dict[str, float] = _WORDS["scales"]
_ONES = _WORDS["ones"]
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL_NUMBERS = {word: float(value) for value, word in enumerate(_ONES.split())} | {
    word: 10.0 * (value + 2) for value, word in enumerate(_TENS.split())
}

UNITS: dict[str, tuple[str, float]] = (
    {name: ("duration", factor) for name, factor in _SECONDS.items()}
    | {name: ("bytes", factor) for name, factor in _BYTES.items()}
    | {name: ("length", factor) for name, factor in _METRES.items()}
    | {name: ("mass", factor) for name, factor in _GRAMS.items()}
    | {name: (currency, 1.0) for name, currency in _MONEY.items()}
    | {"%": ("percent", 1.0), "percent": ("percent", 1.0), "pct": ("percent", 1.0)}
    | {"°c": ("celsius", 1.0), "celsius": ("celsius", 1.0), "°f": ("fahrenheit", 1.0)}
    | {"fahrenheit": ("fahrenheit", 1.0), "°": ("degree", 1.0), "degrees": ("degree", 1.0)}
)
NUMBER_WORDS = frozenset(SMALL_NUMBERS) | {
    "dozen",
    "half",
    "hundred",
    "thousand",
    "million",
    "billion",
}
SCALES = _SCALES

_MONTH_NUMBERS = {name: index + 1 for index, name in enumerate(MONTHS)} | {
    name[:3]: index + 1 for index, name in enumerate(MONTHS)
} | {"sept": 9}  # fmt: skip


def month_number(name: str) -> int:
    """1 to 12 for a month's name or its short form, 0 for anything else."""
    return _MONTH_NUMBERS.get(name.lower().rstrip("."), 0)


def weekday_number(name: str) -> int | None:
    """0 for Monday to 6 for Sunday, from "Thursday", "thursdays" or "Thu"; else None."""
    return _WEEKDAY_NUMBERS.get(name.lower().rstrip("."))


_WEEKDAY_NUMBERS = {
    form: number
    for number, weekday in enumerate(WEEKDAYS)
    for form in (weekday, weekday + "s", weekday[:3], weekday[:4], weekday[:5])
    if form not in ("sund", "frid", "mond", "satu", "satur", "wedn", "wedne", "thursd")
}


def read_float(digits: str) -> float:
    """The number written with digits, thousands separators allowed; never raises."""
    plain = digits.replace(",", "").replace("_", "").replace("\u202f", "")
    try:
        value = float(plain[:300])
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


_PART = re.compile(r"\d{1,9}")


def read_version(text: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 3, 1) for "v2.3.1"."""
    return tuple(int(part) for part in _PART.findall(text)[:6])


def values_comparable(first: Value, second: Value) -> bool:
    """Whether the two speak of the same sort of thing, so that they can differ at all."""
    if first.kind != second.kind:
        return {first.kind, second.kind} == {"number", "version"} and (
            not first.unit or not second.unit
        )
    if first.kind == "version":
        return not first.unit or not second.unit or first.unit == second.unit
    if first.kind == "date":
        return any(
            a is not None and b is not None
            for a, b in zip(first.parts[:4], second.parts[:4], strict=True)
        )
    if first.kind == "number":
        if first.label and second.label and first.label != second.label:
            return False
        return first.unit == second.unit or not first.unit or not second.unit
    return True


def values_agree(first: Value, second: Value) -> bool:
    """Whether two comparable values can both be true."""
    if first.kind == "date" and second.kind == "date":
        return _dates_agree(first.parts, second.parts)
    if "version" in (first.kind, second.kind):
        one, other = _as_version(first), _as_version(second)
        length = min(len(one), len(other))
        if one[:length] == other[:length]:
            return True
        # "3.8 or newer" leaves room for 3.11; two such bounds do not agree for being open.
        return first.comparison != second.comparison and (
            _version_allows(first, one, other) or _version_allows(second, other, one)
        )
    if first.unit != second.unit:  # one of them has no unit: as written, or in base units
        bare, full = (first, second) if not first.unit else (second, first)
        return _near(bare.raw, full.raw, 1e-9) or _near(bare.raw, full.low, 1e-6)
    return _ranges_agree(first, second)


def _version_allows(
    bound: Value, limit: tuple[int | None, ...], other: tuple[int | None, ...]
) -> bool:
    above = [part or 0 for part in other] > [part or 0 for part in limit]
    return bound.comparison == ("least" if above else "most")


def _as_version(value: Value) -> tuple[int | None, ...]:
    return value.parts if value.kind == "version" else read_version(value.shown)


def _dates_agree(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    return all(
        a is None or b is None or a == b for a, b in zip(one[:4], other[:4], strict=True)
    ) or _swapped(one, other)


def _swapped(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
    """03/05 may be March or May: a marked date (fifth part 1) agrees in either order."""
    if not (one[4] or other[4]):
        return False
    return (one[0] is None or other[0] is None or one[0] == other[0]) and (
        one[1] == other[2] and one[2] == other[1]
    )


def _ranges_agree(first: Value, second: Value) -> bool:
    room = 0.03 if first.unit == "bytes" else 0.02 if first.unit in ("duration", "length") else 1e-9
    if first.unit == "duration" and max(first.low, second.low) < 2e6:
        room = 1e-6  # only months and years are uneven
    if "about" in (first.comparison, second.comparison):
        room = max(room, 0.1)
    if first.comparison == second.comparison:
        return _below(first.low, second.high, room) and _below(second.low, first.high, room)
    low_first, high_first = _bounds(first)
    low_second, high_second = _bounds(second)
    return _below(low_first, high_second, room) and _below(low_second, high_first, room)


def _bounds(value: Value) -> tuple[float, float]:
    if value.comparison == "least":
        return value.low, math.inf
    if value.comparison == "most":
        return -math.inf, value.high
    return value.low, value.high


def _below(low: float, high: float, room: float) -> bool:
    return low <= high or _near(low, high, room)


def _near(one: float, other: float, room: float) -> bool:
    return abs(one - other) <= room * max(abs(one), abs(other), 1e-12)


# ----------------------------------------------------------------------------
# The words the judge of contradictions knows: verbs, negators, markers of time and change.
#
# Small on purpose: a word that is not here is compared by its stem. Every list is
# general English and the vocabulary of software work; none is taken from a data set.


def _split(text: str) -> frozenset[str]:
    return frozenset(text.split())


NEGATORS = _split(_WORDS["negators"])
CLAUSE_BREAKS = _split("but however while whereas although though yet")
ALL = _split("all every each always everyone everybody everything both entirely fully whole")
FEW = _split("few rarely seldom sometimes occasionally hardly partly partially barely")

# Said of a state that began: the statement knows that it was otherwise before.
CHANGE_WORDS = _split(_WORDS["change_words"])
CHANGE_VERBS = _split(_WORDS["change_verbs"])
PAST_WORDS = _split("previously formerly originally earlier once used-to")

# Small words that are compared only for being opposites: "into" and "out of".
PARTICLES = _split(_WORDS["particles"])

# Words that carry no meaning of their own beside the rest of a sentence.
FILLERS = _split(_WORDS["fillers"])

FIRST_PERSON = _split("i me my mine we us our ours")
PERSONS = {
    **dict.fromkeys(FIRST_PERSON, "first"),
    **dict.fromkeys(_split("you your yours"), "second"),
    **dict.fromkeys(_split("he him his"), "he"),
    **dict.fromkeys(_split("she her hers"), "she"),
    **dict.fromkeys(_split("they them their theirs"), "they"),
}
GENERIC_ACRONYMS = _split(_WORDS["generic_acronyms"])
PHRASES = {
    ("pull", "request"): "pr",
    ("pull", "requests"): "pr",
    ("used", "to"): "used-to",
    ("time", "out"): "timeout",
    ("times", "out"): "timeout",
    ("vs", "code"): "vscode",
    ("sql", "server"): "sqlserver",
    ("log", "in"): "login",
    ("due", "date"): "deadline",
    ("data", "base"): "database",
    ("google", "cloud"): "gcp",
    ("version", "control"): "version-control",
    ("package", "manager"): "package-manager",
}
# Verbs whose subject is the one value of their object: one person leads a team.
LEADING_VERBS = _split(_WORDS["leading_verbs"])
POSSESSIVES = _split("my our your his her its their")

AUXILIARIES = _split(_WORDS["auxiliaries"])

# Verbs after which one value excludes another: nobody lives in two cities.
SINGLE_VERBS = _split(_WORDS["single_verbs"])
# Participles after which many values hold at once: sold in one country and in another.
MANY_PARTICIPLES = _split(_WORDS["many_participles"])
PLACES = _split("in at on from under behind by inside near with via to into through")
# Verbs with many objects at once: liking tea says nothing about coffee.
MANY_VERBS = _split(_WORDS["many_verbs"])
VERBS = (
    SINGLE_VERBS
    | MANY_VERBS
    | AUXILIARIES
    | CHANGE_VERBS
    | LEADING_VERBS
    | _split(
        "takes take allows allow permits needs keeps keep returns return accepts accept rejects"
        " reject sends send receives receive costs exceeds grows grow falls fall rises rise seems"
        " seem looks"
        " starts start begins begin ends end closes close opens open expires expire costs weighs"
        " ships ship go goes went arrives leaves departs meets meet holds hold contains reads"
        " shows measures lasts covers sells pays earns"
        " feels becomes become says said prefers prefer"
    )
)

# Nouns that name an attribute with one value at a time.
ATTRIBUTES = _split(_WORDS["attributes"])
DEFINITE = _split("main primary default current favorite favourite only official preferred first")

# Words that tell two things of one sort apart; one of them on one side alone is another thing.
SPECIFIERS = _split(_WORDS["specifiers"])


# ----------------------------------------------------------------------------
# A sentence as tokens: words, and numbers, dates, times and versions as they are written.


_MONTH = _WORDS["month"]
_YEAR = r"(?:19|20)\d\d"
_TOKEN = re.compile(
    rf"""
      (?P<url>(?:https?://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]+)
    | (?P<iso>(?<![\w-]){_YEAR}-\d\d(?:-\d\d)?(?![\w-]))
    | (?P<slash>(?<!\w)\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d(?!\w))
    | (?P<time>(?<![\w.])\d{{1,2}}(?::\d\d)?[ ]?[ap]\.?m\b\.?|(?<![\w.:])\d{{1,2}}:\d\d(?![\w:]))
    | (?P<daymonth>(?<![\w.])\d{{1,2}}(?:st|nd|rd|th)?(?:[ ]of)?[ ]{_MONTH}(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthday>\b{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?(?![\w:.]\d|\w)(?:,?[ ]{_YEAR}\b)?)
    | (?P<monthyear>\b{_MONTH},?(?:[ ]of)?[ ]{_YEAR}\b)
    | (?P<version>(?<![\w.])v\d+(?:\.\d+)*(?![\w])|(?<![\w.])\d+(?:\.\d+){{2,5}}(?![\w]))
    | (?P<code>(?<![\w.])\d+(?:-\d+){{2,8}}(?![\w-]))
    | (?P<range>(?<![\w.])\d+(?:\.\d+)?[ ]?[-–][ ]?\d+(?:\.\d+)?(?![\w-]|\.\d))
    | (?P<number>(?<![\w.])[-+]?[$€£¥₹]?(?:\d{{1,3}}(?:,\d\d\d)+|\d+)(?:\.\d+)?
        (?P<glued>(?:k|m|bn|mn)?(?:%|°[cf]?)|[a-zµ]{{1,4}})?(?![\w]))
    | (?P<word>[^\W\d_](?:[\w+#]|['’.\-/_](?=\w))*)
    | (?P<other>\w+)
    | (?P<mark>[;:,?()=%$€£~<>≥≤])
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(slots=True)
class Token:
    """A piece of a sentence; `kind` is the group of the pattern that found it."""

    kind: str
    text: str
    lower: str
    glued: str = ""


def split_tokens(sentence: str) -> list[Token]:
    """The tokens in order; two words that are one term ("pull request") become one."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sentence):
        text = match[0]
        if match["number"] is not None:
            found.append(Token("number", text, text.lower(), (match["glued"] or "").lower()))
            continue
        lower = text.lower().replace("’", "'")
        if found and (joined := PHRASES.get((found[-1].lower, lower))) is not None:
            found[-1] = Token("word", f"{found[-1].text} {text}", joined)
        else:
            found.append(Token(match.lastgroup or "word", text, lower))
    return found


def read_time(token: Token) -> Value | None:
    """The time of day a token says, None for 25:61."""
    numbers = [int(n) for n in re.findall(r"\d+", token.text)]
    hour, minute = numbers[0], numbers[1] if len(numbers) > 1 else 0
    lowered = token.lower
    if "p" in lowered and hour < 12:
        hour += 12
    elif "a" in lowered and hour == 12:
        hour = 0
    if hour > 24 or minute > 59:
        return None
    minutes = float(hour * 60 + minute)
    return Value("time", token.text.strip(), low=minutes, high=minutes)


def read_date(token: Token) -> Value | None:
    """The date a token says, as far as it says one; None for the 40th of May."""
    text = token.lower
    numbers = [int(n) for n in re.findall(r"\d+", text)]
    year: int | None = None
    month: int | None = None
    day: int | None = None
    swapped = 0
    if token.kind == "iso":
        year, month = numbers[0], numbers[1]
        day = numbers[2] if len(numbers) > 2 else None
    elif token.kind == "slash":
        month, day, year = numbers[0], numbers[1], numbers[2]
        year += 2000 if year < 100 else 0
        if month > 12:
            month, day = day, month
        elif day <= 12:
            swapped = 1
    else:
        month = next((n for word in re.findall(r"[a-z]+", text) if (n := month_number(word))), None)
        if token.kind == "monthyear":
            year = numbers[-1]
        else:
            day = numbers[0]
            year = numbers[1] if len(numbers) > 1 else None
    if (month is not None and not 1 <= month <= 12) or (day is not None and not 1 <= day <= 31):
        return None
    return Value("date", token.text.strip(), parts=(year, month, day, None, swapped))


# ----------------------------------------------------------------------------
# Which words mean the same or the opposite: a small table, stems, and un-, in-, dis-, -less.


_OPPOSITES = "\n".join(_WORDS["opposites"])

_SYNONYMS = "\n".join(_WORDS["synonyms"])

_STEMMED_TOO = 2


def _stem_word(word: str) -> str:
    # A stemmer keeps state and may not be shared by threads; a new one costs a microsecond.
    return str(Stemmer.Stemmer("english", 0).stemWord(word)) if word.isalpha() else word


def _synonym_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for group in _SYNONYMS.replace("\n", "|").split("|"):
        words = group.split()
        for word in words:
            table.setdefault(_stem_word(word), _stem_word(words[0]))
    return table


_CANONICAL = _synonym_table()


@lru_cache(maxsize=1 << 16)
def canonical(word: str) -> str:
    """The stem that all forms and listed synonyms of a lower-case `word` share."""
    stem = _stem_word(word)
    return _CANONICAL.get(stem, stem)


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """The stem of a lower-case `word`, synonyms kept apart."""
    return _stem_word(word)


def _degrees(word: str) -> tuple[str, str, str]:
    """The word and, for a short one that may be an adjective, its -er and -est forms."""
    if len(word) > 6:
        return word, word, word
    if word.endswith("e"):
        return word, word + "r", word + "st"
    if word.endswith("y"):
        return word, word[:-1] + "ier", word[:-1] + "iest"
    doubled = word + word[-1] if len(word) == 3 and word[1] in "aeiou" else word
    return word, doubled + "er", doubled + "est"


def _opposite_table() -> dict[str, frozenset[str]]:
    table: dict[str, set[str]] = {}
    for pair in _OPPOSITES.replace("\n", "|").split("|"):
        words = pair.split()
        if len(words) != _STEMMED_TOO:
            continue
        for form in (_stem_word, canonical):
            forms = zip(_degrees(words[0]), _degrees(words[1]), strict=True)
            for one, other in ((form(a), form(b)) for a, b in forms):
                table.setdefault(one, set()).add(other)
                table.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in table.items()}


OPPOSITES = _opposite_table()
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-")


@lru_cache(maxsize=1 << 16)
def opposite(one: str, other: str) -> bool:
    """Whether two stems are opposites, listed or made with un-, in-, dis-, non-, -less."""
    if other in OPPOSITES.get(one, ()):
        return True
    if "-" in one and "-" in other:
        left, _, end = one.partition("-")
        right, _, other_end = other.partition("-")
        return end == other_end and opposite(_stem_word(left), _stem_word(right))
    if len(one) > len(other):
        one, other = other, one
    if len(one) < 4:
        return False
    for prefix in _PREFIXES:
        if other == prefix + one:
            return True
    if other.endswith("less"):
        base = one.removesuffix("ful")
        return other.removesuffix("less") == base
    return False


# ----------------------------------------------------------------------------
# Names that are of one sort, of which people have one at a time: databases, editors, clouds.
#
# "We use Postgres" and "we use MySQL" are about one attribute, "we use Postgres"
# and "we use Redis" are not. Sorts of which a project has many (languages) are
# left out of `EXCLUSIVE` and serve only to find the key of a fact.


_SORTS = "\n".join(_WORDS["sorts"])


def _read(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    sort = ""
    for line in text.strip().splitlines():
        name, colon, names = line.partition(":")
        if colon:
            sort = name.strip()
        for word in (names if colon else line).split():
            table.setdefault(word, sort)
    return table


SORTS = _read(_SORTS)
"""Lower-case name → its sort."""

EXCLUSIVE = frozenset(SORTS.values()) - {"language", "runtime", "color", "browser", "os", "shell"}
"""Sorts of which one name excludes another when the same people say they use it."""


# ----------------------------------------------------------------------------
# Reads the typed values of a clause: amounts with their units, dates, times, versions.


_LONG_DIGITS = 18
_ABOUT = frozenset({"about", "around", "roughly", "approximately", "nearly", "almost", "circa"})
_YEAR_BEFORE = frozenset(
    {"in", "since", "until", "during", "year", "late", "early", "mid", "before", "after"}
)
_YEAR_BEFORE_END = frozenset({"by", "for", "of", "to", "from", "is", "was", "on", "around"})
_BEFORE_ONE = frozenset({"for", "within", "after", "in", "than", "about", "to", "of"})
_EFFECTIVE = frozenset({"since", "starting", "effective", "from"})
_LABELS = frozenset(
    {"port", "room", "floor", "gate", "level", "step", "chapter", "page", "line", "team", "phase",
     "section", "table", "figure", "issue", "ticket", "pr", "number", "no", "error", "code",
     "status", "building", "track", "season", "episode", "grade"}
)  # fmt: skip
_OR_MORE = frozenset(
    {"newer", "later", "higher", "above", "more", "greater", "up", "upwards", "over", "onwards"}
)
_OR_LESS = frozenset({"less", "fewer", "below", "lower", "earlier", "under", "younger"})
_IN_PARTS = frozenset({"duration", "length", "mass"})
_NOT_UNITS = FILLERS | NEGATORS | CLAUSE_BREAKS
_CASED_DATES = frozenset({"may", "mar", "march", "sun", "sat", "mon", "wed", "dec", "jan", "fri"})


class ValueReader:
    """Collects the typed values of one clause; the words are left to the class built on it."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.order: list[str] = []
        self.values: list[Value] = []
        self.since: list[Value] = []
        self.labels: list[tuple[int, int]] = []
        self.verb = ""
        self.ended, self.factor = -1, 0.0  # where the last number ended, and its unit

    def _add(self, token: Token, lower: str, index: int, *, possessive: bool = False) -> None:
        raise NotImplementedError

    def _next(self, index: int) -> str:
        return self.tokens[index + 1].lower if index + 1 < len(self.tokens) else ""

    def _before(self, index: int) -> str:
        return self.tokens[index - 1].lower if index else ""

    def _typed(self, index: int, token: Token) -> int:
        if token.kind == "number":
            return self._number(index, token)
        if token.kind in ("url", "other", "code"):
            self._add(token, token.lower, index)
            return index + 1
        if token.kind == "range":
            ends = [len(part) for part in re.findall(r"[0-9]+", token.text)]
            if len(ends) == 2 and min(ends) > 2 and ends[0] != ends[1]:
                self._add(token, token.lower, index)  # a telephone number
                return index + 1
            low, high = (
                read_float(part) for part in re.split(r"[ ]?[-–][ ]?", token.text, maxsplit=1)
            )
            return self._finish_number(index, min(low, high), max(low, high), token.text)
        if token.kind == "version":
            name = self.order[-1] if self.order and self._before(index).isalpha() else ""
            if self._before(index) in ("version", "release", "v"):
                name = ""
            self.values.append(
                Value(
                    "version",
                    token.text,
                    unit=name,
                    comparison=self._comparison(index, index + 1, of_version=True),
                    parts=read_version(token.text),
                )
            )
            return index + 1
        value = read_time(token) if token.kind == "time" else read_date(token)
        if value is None:
            self._add(token, token.lower, index)
        else:
            self._keep_date(index, value)
        return index + 1

    def _keep_date(self, index: int, value: Value) -> None:
        before = self._before(index)
        earlier = self._before(index - 1) if index else ""
        if (
            before in _EFFECTIVE
            or earlier in ("starting", "effective")
            or ((earlier, before) == ("as", "of"))
        ):
            self.since.append(value)
        else:
            self.values.append(value)

    def _date_word(self, index: int, token: Token, lower: str) -> int | None:
        if lower in _CASED_DATES and not token.text[0].isupper():
            return None
        if lower == "second" or len(lower) < 3:
            return None
        parts: tuple[int | None, ...] | None = None
        if lower in ("noon", "midday"):
            self._keep_date(index, Value("time", token.text, low=720.0, high=720.0))
            return index + 1
        if lower == "midnight":
            self._keep_date(index, Value("time", token.text, low=0.0))
            return index + 1
        if month := month_number(lower):
            parts = (None, month, None, None, 0)
        elif (weekday := weekday_number(lower)) is not None and lower != "marry":
            parts = (None, None, None, weekday, 0)
        if parts is None:
            return None
        self._keep_date(index, Value("date", token.text, parts=parts))
        return index + 1

    def _number_words(self, index: int, lower: str) -> int | None:
        before = self._before(index)
        if lower == "one" and before == "no":
            return index + 1
        if lower == "one" and before in ("the", "this", "that", "any", "which", "each", "another"):
            return None
        if lower == "half":
            if before in ("a", "an", "in", "and"):
                return None
            self.values.append(Value("number", "half", 50.0, 50.0, "percent", raw=50.0))
            return index + 1
        total = current = 0.0
        end = index
        while end < len(self.tokens):
            word = self.tokens[end].lower
            pieces = word.split("-") if "-" in word else [word]
            if all(piece in SMALL_NUMBERS for piece in pieces):
                current += sum(SMALL_NUMBERS[piece] for piece in pieces)
            elif word in SCALES and len(word) > 2:
                current = max(current, 1.0) * SCALES[word]
                if SCALES[word] >= 1000:
                    total, current = total + current, 0.0
            elif (
                word == "and"
                and end > index
                and self._next(end) in SMALL_NUMBERS
                and (self._before(end) in SCALES)
            ):
                pass
            else:
                break
            end += 1
        if end == index:  # "one's": the word is a number, the token is not
            return None
        shown = " ".join(token.text for token in self.tokens[index:end])
        return self._finish_number(end - 1, total + current, total + current, shown, start=index)

    def _number(self, index: int, token: Token) -> int:
        digits = token.lower.removesuffix(token.glued) if token.glued else token.lower
        symbol = next((c for c in digits if c in "$€£¥₹"), "")
        plain = digits.replace(symbol, "") if symbol else digits
        if len(plain) > _LONG_DIGITS:  # an identifier, not an amount
            self._add(token, token.lower, index)
            return index + 1
        amount = read_float(plain.lstrip("+"))
        if not token.glued and not symbol:
            if len(plain) == 4 and plain[:2] in ("19", "20") and self._is_year(index):
                self._keep_date(
                    index, Value("date", token.text, parts=(int(plain), None, None, None, 0))
                )
                return index + 1
            if (name := self._version_of(index, plain)) is not None:
                self.values.append(
                    Value(
                        "version",
                        token.text,
                        unit=name,
                        comparison=self._comparison(index, index + 1, of_version=True),
                        parts=read_version(plain),
                        raw=amount,
                    )
                )
                return index + 1
        if token.glued in ("st", "nd", "rd", "th"):
            self.values.append(Value("number", token.text, amount, amount, "ordinal", raw=amount))
            return index + 1
        return self._finish_number(
            index, amount, amount, token.text, glued=token.glued, symbol=symbol
        )

    def _one_unit(self, index: int) -> bool:
        """Whether "a" or "an" counts: "takes an hour", but not "twice a day"."""
        unit = UNITS.get(self._next(index), ("", 0.0))[0]
        before = self._before(index)
        return unit == "duration" and (before in VERBS or before in _BEFORE_ONE)

    def _is_year(self, index: int) -> bool:
        before = self._before(index)
        if before in _YEAR_BEFORE:
            return True
        at_end = index + 1 >= len(self.tokens) or self.tokens[index + 1].kind == "mark"
        return before in _YEAR_BEFORE_END and at_end

    def _version_of(self, index: int, plain: str) -> str | None:
        """The name a version belongs to, "" for "version 3", None for a plain number."""
        before = self._before(index)
        if before in ("version", "release", "v"):
            return ""
        if not before or before in _LABELS or before in FILLERS or before in UNITS:
            return None
        previous = self.tokens[index - 1]
        if previous.kind != "word" or month_number(before) or weekday_number(before) is not None:
            return None
        following = self._next(index)
        if following and following not in _NOT_UNITS and self.tokens[index + 1].kind == "word":
            return None
        known = before in SORTS
        if known or (previous.text[0].isupper() and (index > 1 or "." in plain)):
            return self.order[-1] if self.order else ""
        return None

    def _finish_number(
        self,
        index: int,
        low: float,
        high: float,
        shown: str,
        *,
        glued: str = "",
        symbol: str = "",
        start: int | None = None,
    ) -> int:
        start = index if start is None else start
        scale, unit, factor = 1.0, "", 1.0
        end = index + 1
        if symbol:
            unit = UNITS[symbol][0]
        if glued:
            if glued in UNITS and not (symbol and glued in SCALES) and glued not in ("b", "k"):
                unit, factor = UNITS[glued]
            elif glued in SCALES:
                scale = SCALES[glued]
            elif glued.rstrip("%") in SCALES:
                scale, unit = SCALES[glued.rstrip("%")], "percent"
            else:
                unit = canonical(glued)
        if end < len(self.tokens) and self.tokens[end].lower in SCALES:
            word = self.tokens[end].lower
            if len(word) > 2 or word in ("bn", "mn"):
                scale *= SCALES[word]
                end += 1
        following = self.tokens[end] if end < len(self.tokens) else None
        while following is not None and following.lower in ("of", "more", "extra"):
            end += 1
            following = self.tokens[end] if end < len(self.tokens) else None
            break
        if following is not None and not unit:
            plain = following.lower.rstrip(".")
            name = plain.split("-")[0]
            if plain in UNITS:
                unit, factor = UNITS[plain]
                end += 1
            elif name in UNITS and "-" in plain:
                unit, factor = UNITS[name]
                end += 1
            elif plain == "times":
                unit = "times"
                end += 1
            elif plain in VERBS and self._before(start).isalpha() and not self.verb:
                pass  # "sensor 3 reads": the number belongs to the word before it
            elif following.kind == "word" and plain not in _NOT_UNITS and len(plain) > 1:
                unit = canonical(plain)  # "100 requests": the noun counts and is a word too
        elif (
            following is not None and following.lower in UNITS and unit == UNITS[following.lower][0]
        ):
            end += 1
        rate, end = self._rate(end, unit)
        if rate is not None:
            unit, factor = f"{unit}/s", factor / rate
        before = self._before(start)
        label = before if before in _LABELS else ""
        shown_end = max(end, index + 1)
        words = " ".join(token.text for token in self.tokens[start:shown_end])
        if not unit and before.isalpha() and before not in _NOT_UNITS and not self.verb:
            self.labels.append((len(self.values), start))
        value = Value(
            "number",
            words[:60] or shown,
            low * scale * factor,
            high * scale * factor,
            unit,
            label,
            self._comparison(start, end),
            raw=low * scale,
        )
        whole = self._joined(value, start, factor) if rate is None else None
        if whole is not None:
            self.values[-1] = whole
        else:
            self.values.append(value)
        self.ended, self.factor = end, factor if rate is None else 0.0
        return end

    def _joined(self, part: Value, start: int, factor: float) -> Value | None:
        """ "2 hours 55 minutes" is one length: `part` with the larger unit right before it."""
        if not self.values or part.unit not in _IN_PARTS or not 0 < factor < self.factor:
            return None
        whole, gap = self.values[-1], start - self.ended
        linked = gap == 0 or (gap == 1 and self._before(start) == "and")
        if not linked or whole.unit != part.unit or part.high >= self.factor:
            return None
        return replace(
            whole,
            shown=f"{whole.shown} {part.shown}"[:60],
            low=whole.low + part.low,
            high=whole.high + part.high,
        )

    def _rate(self, end: int, unit: str) -> tuple[float | None, int]:
        """Seconds in "per minute" after a number, and where it ends."""
        for place in (end, end + 1):
            if place + 1 >= len(self.tokens):
                break
            word, following = self.tokens[place].lower, self.tokens[place + 1].lower
            if word in ("per", "a", "an", "every", "each") and UNITS.get(following, ("",))[0] == (
                "duration"
            ):
                if place > end:  # the counted noun in between is a word of the statement
                    noun = self.tokens[end]
                    if noun.kind != "word" or noun.lower in _NOT_UNITS:
                        break
                    self._add(noun, noun.lower, end)
                return UNITS[following][1], place + 2
        return None, end

    def _comparison(self, start: int, end: int, *, of_version: bool = False) -> Comparison:
        before, earlier = self._before(start), self._before(start - 1) if start else ""
        if before == "=" and earlier in (">", "<"):
            return "least" if earlier == ">" else "most"
        link, word = self._next(end - 1), self._next(end)
        if link in ("or", "and"):
            if word in _OR_MORE or (word == "older" and not of_version):
                return "least"
            if word in _OR_LESS or (word == "older" and of_version):
                return "most"
        if before in _ABOUT or before == "~":
            return "about"
        if (earlier, before) in (("at", "least"), ("more", "than"), ("greater", "than")):
            return "least"
        if before in ("over", "above", "exceeds", "minimum", "≥", ">"):
            return "least"
        if (earlier, before) in (("at", "most"), ("less", "than"), ("fewer", "than"), ("up", "to")):
            return "most"
        if before in ("under", "below", "≤", "<"):
            return "most"
        return "exact"


# ----------------------------------------------------------------------------
# Reads the words of one clause: what it is about, who says it, and how it is worded.


_ONE_VALUED = ATTRIBUTES | DEFINITE
_HEADS = frozenset(canonical(word) for word in ATTRIBUTES)
_ADVERBS = frozenset({"now", "currently", "still", "also", "already", "actually", "officially"})
_PERIODS = frozenset({"hour", "day", "week", "month", "quarter", "year"})
_LINKING = frozenset({"is", "are", "was", "were", "be", "been", "am", "became", "becomes"})
COPULAS = frozenset({"is", "are", "was", "were", "be", "been", "am", "'s"})


class ClauseReader(ValueReader):
    """Collects one clause from its tokens, left to right."""

    def __init__(self, tokens: list[Token], first: bool) -> None:
        super().__init__(tokens)
        self.first = first
        self.subject: list[str] = []
        self.names: set[str] = set()
        self.particles: set[str] = set()
        self.sorts: set[str] = set()
        self.topics: set[str] = set()
        self.main_word = ""
        self.surfaces: dict[str, str] = {}
        self.person = ""
        self.owned = False
        self.role = False
        self.single_verb = self.main_verb = self.scene = False
        self.verb_at = 0
        self.firm = False
        opener = tokens[0].lower if tokens else ""
        self.indefinite = opener in ("a", "an", "some", "another", "several", "people") or (
            opener in SMALL_NUMBERS
        )
        self.negated = self.all = self.few = self.change = self.past = False
        self.only = opener == "only"

    def read(self) -> None:
        tokens = self.tokens
        index = 0
        skip_to = self._old_value()
        definite_after = -1
        while index < len(tokens):
            if skip_to and skip_to[0] <= index < skip_to[1]:
                index = skip_to[1]
                continue
            token = tokens[index]
            if token.kind == "word":
                lower = token.lower
                if (
                    lower in ("instead", "rather", "opposed")
                    and self._next(index) in ("of", "than", "to")
                    and self.order
                ):
                    break
                if self.verb in _LINKING and definite_after < 0:
                    definite_after = index
                index = max(index + 1, self._word(index, token, lower))
            elif token.kind == "mark":
                if token.text in ":=" and self.order and not self.verb:
                    self.verb = "is"
                    self.owned = True
                    self.subject = list(self.order)
                    self.verb_at = index
                index += 1
            else:
                index = max(index + 1, self._typed(index, token))
        self._name_labels()
        self._turn_round(definite_after)

    def _name_labels(self) -> None:
        """Numbers that name the subject ("sensor 3 reads …") are no values but names."""
        for place, index in reversed(self.labels):
            if self.verb and index < self.verb_at:
                word = f"#{self.values.pop(place).shown}"
                self.order.insert(0, word)
                self.subject.insert(0, word)
                self.names.add(word)

    def _old_value(self) -> tuple[int, int] | None:
        """The tokens of the old value in "from X to Y" and "replaced X with Y"."""
        lowers = [token.lower for token in self.tokens]
        for verb, link in (("replaced", "with"), ("replaced", "by"), ("swapped", "for")):
            if verb in lowers and link in lowers[lowers.index(verb) :]:
                start = lowers.index(verb) + 1
                return start, lowers.index(link, start)
        if "from" not in lowers or not any(
            word in CHANGE_VERBS or word in ("went", "gone") for word in lowers
        ):
            return None
        start = lowers.index("from")
        for end in range(start + 2, min(start + 8, len(lowers))):
            if lowers[end] == "to":
                return start, end + 1
        return None

    def _word(self, index: int, token: Token, lower: str) -> int:
        possessive = False
        if lower.endswith(("'s", "s'")):
            lower = lower[:-2] if lower.endswith("'s") else lower[:-1]
            possessive = lower not in ("it", "that", "there", "he", "she", "what", "let", "who")
        elif lower.endswith("n't"):
            self.negated = True
            self._note_verb({"ca": "can", "wo": "will"}.get(lower[:-3], lower[:-3]), index)
            return index + 1
        elif "'" in lower:
            lower = lower.split("'")[0]
        lower = lower.rstrip(".")
        if lower in PERSONS and not self.person and not self.order:
            self.person = PERSONS[lower]
        if lower in POSSESSIVES and not self.verb:
            self.owned = True
        if lower in NEGATORS:
            self._negate(lower, index)
            return index + 1
        if (end := self._date_word(index, token, lower)) is not None:
            return end
        if lower in ("a", "an") and self._one_unit(index):
            return self._finish_number(index, 1.0, 1.0, token.text)
        if lower in NUMBER_WORDS and (end := self._number_words(index, lower)) is not None:
            return end
        if lower in _PERIODS and self._before(index) in ("every", "each"):
            self.sorts.add(f"frequency:{canonical(lower)}")
            self.topics.add("frequency")
        if lower == "old" and self.values and self.values[-1].unit == "duration":
            return index + 1  # "34 years old" is an age
        if lower in CHANGE_WORDS:
            self.change = True
        if lower in PAST_WORDS and not (lower == "used-to" and self._before(index) in COPULAS):
            self.past = True
        if lower in ALL:
            self.all = True
        elif lower in FEW and not (lower == "few" and self._before(index) == "a"):
            self.few = True
        if lower in PARTICLES:
            self.particles.add(canonical(lower))
        if self.order or self.person or lower in SINGLE_VERBS:
            self._note_verb(lower, index)
        if lower in ("as", "for") and self.verb in MANY_VERBS:
            self.role = True
        capital = bool(index) and token.text[0].isupper()
        if (
            lower in FILLERS
            and not possessive
            and not (capital and (lower in SORTS or token.text == "A"))
            and not (lower == "longer" and self._before(index) not in ("no", "any"))
        ):
            return index + 1
        self._add(token, lower, index, possessive=possessive)
        return index + 1

    def _negate(self, lower: str, index: int) -> None:
        after = self._next(index)
        if lower in ("stopped", "stops") and not after.endswith("ing"):
            return
        if lower in ("stopped", "stops", "quit"):
            self.change = True
        if lower == "no" and after in ("longer", "more"):
            self.change = True
        if lower == "not" and after in ("only", "just"):
            return
        if lower == "no" and not after:
            return
        self.negated = True
        if not self.order and lower != "not":
            self.scene = False

    def _note_verb(self, lower: str, index: int) -> None:
        if (
            self.verb
            and lower in AUXILIARIES
            and self.verb not in AUXILIARIES
            and not self.firm
            and self._before(index) not in ("that", "which", "who", "what", "where", "and")
        ):
            self.verb = ""  # "quarterly reports are due": a noun was taken for the verb
        if not self.verb and lower in VERBS:
            self.verb = lower
            self.subject = list(self.order)
            self.verb_at = index
            past_habit = self.past and f"{lower}s" in SINGLE_VERBS
            self.single_verb = lower in SINGLE_VERBS or lower in CHANGE_VERBS or past_habit
            if self.indefinite and lower in COPULAS and self._next(index) in PLACES:
                self.scene = True
            self.firm = bool(self.person) and not self.order
            return
        if self.verb in AUXILIARIES and index - self.verb_at <= 3 and not self.main_verb:
            passive = (
                lower.endswith(("ed", "en"))
                and len(lower) > 4
                and self.verb in COPULAS
                and self._next(index) in PLACES
                and lower not in MANY_PARTICIPLES
            )
            if lower in SINGLE_VERBS or passive:
                self.main_verb = self.single_verb = True
                self.main_word = lower
            elif lower.endswith("ed") and self.verb in COPULAS and len(lower) > 5:
                self.main_verb = True
                self.main_word = lower
            elif lower.endswith("ing") and lower not in MANY_VERBS and len(lower) > 5:
                self.main_verb = True
                self.main_word = lower
                self.scene = self.indefinite or self.scene

    def _add(self, token: Token, lower: str, index: int, *, possessive: bool = False) -> None:
        word = canonical(lower)
        self.order.append(word)
        self.surfaces.setdefault(word, token.text)
        text = token.text
        inner = any(c.isupper() or c.isdigit() for c in text[1:])
        if lower in GENERIC_ACRONYMS:
            pass
        elif inner or (text[0].isupper() and (index > 0 or not self.first or possessive)):
            self.names.add(word)
        if possessive and not self.verb:
            self.owned = True
        if (sort := SORTS.get(lower)) is not None:
            self.sorts.add(f"{sort}:{word}")
            self.topics.add(sort)
        elif lower in EXCLUSIVE or word in EXCLUSIVE:
            self.topics.add(lower if lower in EXCLUSIVE else word)
        if self.verb and word in self.subject and word not in self.order[: len(self.subject)]:
            self.subject.remove(word)

    def is_single(self) -> bool:
        """Whether the value said here leaves no room for a second one."""
        if self.single_verb or self.role:
            return True
        if self.verb in COPULAS or not self.verb:
            if self.main_verb:
                return False
            if self._next(self.verb_at) in PLACES and self.verb:
                return True
            if not self.verb and len(self.order) > 2:
                return False
            before = self.tokens[: self.verb_at] if self.verb_at else self.tokens
            lowered = {token.lower for token in before}
            lowered |= {word.removesuffix("s") for word in lowered}
            return self.owned or not lowered.isdisjoint(_ONE_VALUED)
        return False

    def _turn_round(self, definite_after: int) -> None:
        """ "Postgres is our database" says what our database is: the subject is the value."""
        after = self._next(self.verb_at)
        if (
            self.verb in LEADING_VERBS
            and self.subject
            and (after in ("the", "our", "my", "their", "his", "her") or after.endswith("'s"))
        ):
            rest = self.order[len(self.subject) :]
            if (
                rest
                and set(self.subject) <= self.names | set(self.order[:1])
                and (self.tokens[0].text[:1].isupper() and self.tokens[0].lower not in FILLERS)
            ):
                self.order = rest + self.order[: len(self.subject)]
                self.subject = rest
                self.single_verb = True
            return
        if self.verb not in _LINKING or definite_after < 0 or not 1 <= len(self.subject) <= 3:
            return
        opener = next(
            (
                t.lower
                for t in self.tokens[definite_after:]
                if t.lower not in COPULAS and t.lower not in NEGATORS and t.lower not in _ADVERBS
            ),
            "",
        )
        if opener not in ("the", "our", "my", "your", "his", "her", "their", "its") and not (
            opener.endswith("'s")
        ):
            return
        rest = self.order[len(self.subject) :]
        if _HEADS.isdisjoint(rest) or not _HEADS.isdisjoint(self.subject):
            return
        self.order = rest + self.order[: len(self.subject)]
        self.subject = rest
        self.owned = True


# ----------------------------------------------------------------------------
# A statement read once, so that it can be compared with many others quickly.


MAX_CLAUSES = 24
_FEW_WORDS = 2
MAX_CHARACTERS = 8_000
"""Of a longer text the beginning is read: a statement is a sentence or a few."""

_HYPOTHESIS = re.compile(
    r"^\W*(?:if|suppose|imagine|assume|assuming|unless|what if|maybe|perhaps|let's say)\b", re.I
)
_CHANGE_PHRASE = re.compile(
    r"\b(?:no longer|any ?more|as of|from now on|going forward|instead of|rather than"
    r"|starting (?:in|on|from|with|next|this)|effective (?:immediately|from|as of|on)"
    r"|moved (?:to|from|into|over)|(?:pushed|upgraded) (?:(?!to\b|back\b)\S+ ){0,3}(?:to|back)"
    r"|(?:was|were) (?:a mistake|wrong|mistaken)|i misspoke|my mistake|correction"
    r"|since (?:the |last |this )?\w+|is now|are now"
    r"|has been (?:changed|moved|replaced|raised|lowered)|(?:went|gone|go) from \S+ to)\b",
    re.IGNORECASE,
)


_CORRECTION = re.compile(  # "That was a mistake. The limit is 5."
    r"\W*(?:(?:sorry|oops|no|actually)\W+)?(?:(?:that|this|it) was (?:a mistake|wrong|an error)"
    r"|i was (?:wrong|mistaken)|i misspoke|my mistake|correction)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class JudgedClause:
    """What one clause says, as sets that are quick to compare."""

    bag: frozenset[str]
    order: tuple[str, ...]
    subject: frozenset[str]
    names: frozenset[str]
    particles: frozenset[str]
    values: tuple[Value, ...]
    since: tuple[Value, ...]
    sorts: frozenset[str]
    surfaces: dict[str, str]
    person: str
    single: bool
    negated: bool
    all: bool
    few: bool
    change: bool
    past: bool
    asserted: bool
    scene: bool
    verb: str
    copula: bool
    only: bool
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class StatementReading:
    """A text as the judge needs it; made by `read_statement`."""

    text: str
    clauses: tuple[JudgedClause, ...]
    words: frozenset[str]


def read_statement(text: str) -> StatementReading:
    """`text` read clause by clause; any text can be read, and most of the work is done here."""
    clauses: list[JudgedClause] = []
    shortened = text[:MAX_CHARACTERS]
    corrects = _CORRECTION.match(shortened) is not None
    for start, end in sentences(shortened):
        for clause in _read_sentence(shortened[start:end]):
            clauses.append(replace(clause, change=True) if corrects else clause)
            if len(clauses) >= MAX_CLAUSES:
                break
        if len(clauses) >= MAX_CLAUSES:
            break
    words = frozenset(
        word for clause in clauses for group in (clause.bag, _marked(clause)) for word in group
    )
    return StatementReading(text=text, clauses=tuple(clauses), words=words)


def _marked(clause: JudgedClause) -> Iterator[str]:
    """What relates a clause beside its words, in a form that no word has."""
    yield from (f" {topic}" for topic in clause.topics)
    if clause.person and len(clause.bag) <= _FEW_WORDS:
        yield f" {clause.person}"  # "I'm left-handed": hardly a word to share


def _read_sentence(sentence: str) -> Iterator[JudgedClause]:
    tokens = split_tokens(sentence)
    asserted = not sentence.rstrip().endswith("?") and _HYPOTHESIS.match(sentence) is None
    start = 0
    inherited = ""
    for index in range(len(tokens) + 1):
        if index < len(tokens):
            token = tokens[index]
            if token.kind == "mark" and token.text == ";":
                pass
            elif token.lower not in CLAUSE_BREAKS or token.kind != "word":
                continue
        if index > start:
            clause = _read_clause(tokens[start:index], asserted, sentence, first=start == 0)
            if clause is not None:
                inherited = clause.person or inherited
                yield clause
        start = index + 1


def _read_clause(
    tokens: list[Token], asserted: bool, sentence: str, *, first: bool
) -> JudgedClause | None:
    builder = ClauseReader(tokens, first)
    builder.read()
    if not builder.order and not builder.values and not builder.since:
        return None
    piece = " ".join(token.text for token in tokens)
    change = builder.change or _CHANGE_PHRASE.search(piece) is not None
    return JudgedClause(
        bag=frozenset(builder.order),
        order=tuple(builder.order),
        subject=frozenset(builder.subject),
        names=frozenset(builder.names),
        particles=frozenset(builder.particles),
        values=tuple(builder.values),
        since=tuple(builder.since),
        sorts=frozenset(builder.sorts),
        surfaces=builder.surfaces,
        person=builder.person,
        single=builder.is_single(),
        negated=builder.negated,
        all=builder.all,
        few=builder.few,
        change=change,
        past=builder.past and not change,
        asserted=asserted,
        scene=builder.scene,
        verb=canonical(builder.main_word or builder.verb),
        copula=builder.verb in COPULAS and not builder.main_verb,
        only=builder.only,
        topics=frozenset(topic for topic in builder.topics if topic in EXCLUSIVE),
    )


# ----------------------------------------------------------------------------
# Statements and verdicts: what the judge is given and what it says.


VerdictKind = Literal["none", "contradicts", "supersedes", "unrelated"]
Reason = Literal["", "number", "date", "name", "negation", "version", "antonym", "value"]
Side = Literal["", "first", "second"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A text somebody said, when, and about which key if that is known."""

    text: str
    date: datetime | None = None
    key: str = ""

    def __post_init__(self) -> None:
        require_text(self.text, "text")
        require_text(self.key, "key")
        require_instant(self.date, "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How two statements stand to each other.

    "unrelated" means about different things, "none" about the same thing
    without a contradiction. `newer` says which side holds after "supersedes".
    `subject` is what both speak of, in words of the first one.
    """

    kind: VerdictKind
    reason: Reason = ""
    subject: str = ""
    first_value: str = ""
    second_value: str = ""
    confidence: float = 0.0
    newer: Side = ""

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(VerdictKind), "kind")
        require_choice(self.reason, get_args(Reason), "reason")
        require_choice(self.newer, get_args(Side), "newer")
        require_unit(self.confidence, "confidence")

    @property
    def conflicting(self) -> bool:
        """Whether the two cannot both be true now."""
        return self.kind in ("contradicts", "supersedes")

    def swapped(self) -> Verdict:
        """The same verdict with the sides exchanged."""
        newer: Side = {"first": "second", "second": "first"}.get(self.newer, "")  # type: ignore[assignment]  # mypy widens the dict's values
        return Verdict(
            kind=self.kind,
            reason=self.reason,
            subject=self.subject,
            first_value=self.second_value,
            second_value=self.first_value,
            confidence=self.confidence,
            newer=newer,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two sentences that disagree: where they stand and how they do."""

    ours: Statement
    theirs: Statement
    verdict: Verdict
    our_index: int = 0
    their_index: int = 0


# ----------------------------------------------------------------------------
# Compares two clauses: what they share, what differs, and whether the difference contradicts.


@dataclass(slots=True)
class _Difference:
    """What is left of two clauses after everything they share."""

    shared: frozenset[str]
    ours: set[str] = field(default_factory=set)
    theirs: set[str] = field(default_factory=set)
    opposites: tuple[tuple[str, str], ...] = ()


def compare_clauses(ours: JudgedClause, theirs: JudgedClause, *, keyed: bool) -> Verdict | None:
    """A contradiction between the two, before anybody asks which one is newer.

    `keyed` says that both are about one attribute, however they are worded.
    """
    if not keyed and ours.person and theirs.person and ours.person != theirs.person:
        return None
    rest = _difference(ours, theirs)
    if not keyed and not rest.shared:
        if ours.topics & theirs.topics:
            return _by_words(ours, theirs, rest, keyed)
        if not (rest.opposites and ours.person and ours.person == theirs.person):
            return None
    agreeing, differing = _match_values(ours.values, theirs.values)
    opposed = len(rest.opposites) % 2 == 1
    if ours.negated != theirs.negated:
        if opposed or differing:
            return None
        return _by_negation(ours, theirs, rest, keyed)
    if _is_ending(ours, theirs) and not (rest.ours or rest.theirs or opposed or differing):
        return _verdict(
            "negation", ours, rest, confidence=0.9, first=_saying(ours), second=_saying(theirs)
        )
    if ours.scene or theirs.scene:
        return None  # "a man is standing", "a man is sitting": two men
    if opposed:
        if differing and not keyed:
            return None
        found = _by_opposite(ours, theirs, rest, keyed)
        return (
            found
            if found or not (rest.ours and rest.theirs)
            else _by_words(ours, theirs, rest, keyed)
        )
    if rest.opposites:
        return None
    if ours.negated and theirs.negated:
        return None  # two denials can both be true
    if (ours.only and theirs.all and not rest.theirs) or (
        theirs.only and ours.all and not rest.ours
    ):
        return _verdict(
            "antonym", ours, rest, confidence=0.7, first=_saying(ours), second=_saying(theirs)
        )
    if (ours.all and theirs.few) or (ours.few and theirs.all):
        found = _by_quantity(ours, theirs, rest, keyed)
        if found is not None:
            return found
    if differing:
        return _by_value(ours, theirs, rest, differing, keyed)
    found = _by_start(ours, theirs, rest)
    if found is not None:
        return found
    if agreeing and (keyed or not (rest.ours and rest.theirs)):
        return None
    if keyed and (ours.names & theirs.names) - ours.subject - theirs.subject:
        return None  # both give the same name, in other words
    return _by_words(ours, theirs, rest, keyed)


def _is_ending(ours: JudgedClause, theirs: JudgedClause) -> bool:
    """ "I live in Lima", "I used to live in Lima": one says that it held, no more."""
    return ours.past != theirs.past and ours.negated == theirs.negated


def _difference(ours: JudgedClause, theirs: JudgedClause) -> _Difference:
    shared = ours.bag & theirs.bag
    rest = _Difference(shared, set(ours.bag - shared), set(theirs.bag - shared))
    pairs: list[tuple[str, str]] = []
    for one in sorted(rest.ours):
        for other in sorted(rest.theirs):
            if same_stem(one, other):
                rest.shared |= {one}
                rest.ours.discard(one)
                rest.theirs.discard(other)
                break
            if opposite(one, other):
                pairs.append((one, other))
                rest.ours.discard(one)
                rest.theirs.discard(other)
                break
    if not pairs:
        pairs = [
            (one, other)
            for first, second in (
                (rest.ours, theirs.particles),
                (ours.particles, rest.theirs),
                (ours.particles - theirs.particles, theirs.particles - ours.particles),
            )
            for one in sorted(first)
            for other in sorted(second)
            if opposite(one, other)
        ][:1]
        rest.ours.difference_update(one for one, _ in pairs)
        rest.theirs.difference_update(other for _, other in pairs)
    rest.opposites = tuple(pairs)
    return rest


def same_stem(one: str, other: str) -> bool:
    """Whether one stem is the other with a little more: "deliver" and "deliveri"."""
    short, long = (one, other) if len(one) < len(other) else (other, one)
    return (
        len(short) >= 5
        and len(long) - len(short) <= 2
        and long.startswith(short)
        and (long.isalpha())
    )


def _match_values(
    ours: tuple[Value, ...], theirs: tuple[Value, ...]
) -> tuple[int, list[tuple[Value, Value]]]:
    """How many values agree, and the comparable pairs for which nothing agrees."""
    if not ours or not theirs:
        return 0, []
    agreeing = 0
    matched_ours: set[int] = set()
    matched_theirs: set[int] = set()
    for i, one in enumerate(ours):
        for j, other in enumerate(theirs):
            if j in matched_theirs or not values_comparable(one, other):
                continue
            if values_agree(one, other):
                agreeing += 1
                matched_ours.add(i)
                matched_theirs.add(j)
                break
    differing: list[tuple[Value, Value]] = []
    used: set[int] = set()
    for i, one in enumerate(ours):
        if i in matched_ours:
            continue
        candidates = [
            j
            for j, other in enumerate(theirs)
            if j not in matched_theirs and j not in used and values_comparable(one, other)
        ]
        exact = [j for j in candidates if theirs[j].unit == one.unit]
        if chosen := (exact or candidates):
            used.add(chosen[0])
            differing.append((one, theirs[chosen[0]]))
    return agreeing, differing


def _by_negation(
    ours: JudgedClause, theirs: JudgedClause, rest: _Difference, keyed: bool
) -> Verdict | None:
    denied, asserted = (ours, theirs) if ours.negated else (theirs, ours)
    only_denied = rest.ours if ours.negated else rest.theirs
    only_asserted = rest.theirs if ours.negated else rest.ours
    if only_denied or len(only_asserted) > max(2, 2 * len(rest.shared)):
        return None
    if denied.values and not asserted.values:
        return None  # "not 900 seconds" denies the number, and the other names none
    if not keyed and _other_thing(only_asserted & (asserted.subject | _SPECIFYING), asserted):
        return None
    confidence = 0.6 + 0.35 * _coverage(rest)
    return _verdict(
        "negation",
        ours,
        rest,
        confidence=confidence,
        first=_saying(ours),
        second=_saying(theirs),
    )


def _by_opposite(
    ours: JudgedClause, theirs: JudgedClause, rest: _Difference, keyed: bool
) -> Verdict | None:
    if rest.ours and rest.theirs:
        return None
    if not keyed and (
        _other_thing(rest.ours, ours, theirs) or _other_thing(rest.theirs, theirs, ours)
    ):
        return None
    if len(rest.ours) + len(rest.theirs) > max(1, len(rest.shared)):
        return None
    one, other = rest.opposites[0]
    if one in ours.subject and other in theirs.subject and not keyed:
        return None  # "the left door", "the right door": two doors
    confidence = 0.5 + 0.4 * _coverage(rest)
    return _verdict(
        "antonym",
        ours,
        rest,
        confidence=confidence,
        first=ours.surfaces.get(one, one),
        second=theirs.surfaces.get(other, other),
    )


def _by_quantity(
    ours: JudgedClause, theirs: JudgedClause, rest: _Difference, keyed: bool
) -> Verdict | None:
    if (rest.ours or rest.theirs) and not keyed:
        return None
    return _verdict(
        "antonym", ours, rest, confidence=0.7, first=_saying(ours), second=_saying(theirs)
    )


def _by_value(
    ours: JudgedClause,
    theirs: JudgedClause,
    rest: _Difference,
    differing: list[tuple[Value, Value]],
    keyed: bool,
) -> Verdict | None:
    families = {_family(one) for one, _ in differing}
    if len(families) > 1 and not keyed:
        return None  # last year's figure and this year's are two facts
    if not keyed and not _same_thing(ours, theirs, rest):
        return None
    one, other = differing[0]
    if not keyed and len(differing) > 1 and _names_its_thing(one) and _names_its_thing(other):
        return None  # "table 5 ordered 2 coffees", "table 6 ordered 3": two tables
    if "version" in (one.kind, other.kind) and not rest.shared.isdisjoint(_MANY_VERSIONS):
        return None  # one version is supported and so is another
    if _weekdays(one, other) and not rest.shared.isdisjoint(_MANY_DAYS):
        return None  # it is open on Monday, and on Tuesday too
    kind = _family(one) if one.kind == other.kind else "version"
    confidence = 0.6 + 0.35 * _coverage(rest)
    return _verdict(kind, ours, rest, confidence=confidence, first=one.shown, second=other.shown)


def _names_its_thing(value: Value) -> bool:
    """Whether a number may be part of a name: it counts and measures nothing."""
    return bool(value.label) or (value.kind in ("number", "version") and not value.unit)


def _weekdays(one: Value, other: Value) -> bool:
    return all(
        value.kind == "date" and value.parts[:3] == (None, None, None) for value in (one, other)
    )


def _family(value: Value) -> Reason:
    return "date" if value.kind == "time" else value.kind


def _same_thing(ours: JudgedClause, theirs: JudgedClause, rest: _Difference) -> bool:
    """Whether the words beside the values name one thing: one side adds little to the other."""
    if rest.ours and rest.theirs:
        return False
    extra, side, other = (rest.ours, ours, theirs) if rest.ours else (rest.theirs, theirs, ours)
    if _other_thing(extra, side, other):
        return False
    return len(extra) <= max(1, len(rest.shared))


def _other_thing(extra: set[str], side: JudgedClause, other: JudgedClause | None = None) -> bool:
    """Whether words on one side alone say that it is another thing of the same sort."""
    if any(word in _SPECIFYING or word in side.names for word in extra):
        return True
    if other is None or not other.person or other.subject:
        return False
    return not extra.isdisjoint(side.subject)  # "I hate it", "my brother hates it"


_MANY_VERSIONS = frozenset(
    canonical(word) for word in ("support", "test", "compatible", "works", "accept", "vulnerable")
)
_MANY_DAYS = frozenset(canonical(word) for word in ("open", "closed", "available"))
_SPECIFYING = frozenset(canonical(word) for word in SPECIFIERS)


def _by_start(ours: JudgedClause, theirs: JudgedClause, rest: _Difference) -> Verdict | None:
    """Two beginnings of one state: "since 2019" and "since 2021"."""
    if rest.ours or rest.theirs or ours.change != theirs.change:
        return None
    agreeing, differing = _match_values(ours.since, theirs.since)
    if agreeing or not differing or ours.values != theirs.values:
        return None
    one, other = differing[0]
    return _verdict("date", ours, rest, confidence=0.7, first=one.shown, second=other.shown)


def _by_words(
    ours: JudgedClause, theirs: JudgedClause, rest: _Difference, keyed: bool
) -> Verdict | None:
    """Another name or word as the value of one attribute."""
    if not rest.ours or not rest.theirs:
        return None
    named = bool(rest.ours & ours.names) and bool(rest.theirs & theirs.names)
    if not keyed:
        if ours.verb in rest.ours and theirs.verb in rest.theirs:
            return None  # living somewhere and working somewhere are two attributes
        sorts = _one_sort(ours, theirs, rest)
        if not sorts:
            if not (ours.single and theirs.single):
                return None
            if not _in_value_place(ours, rest.ours) or not _in_value_place(theirs, rest.theirs):
                return None
            if len(rest.ours) + len(rest.theirs) > 2 + 2 * len(rest.shared):
                return None
        named = named or sorts
    confidence = (0.6 if named else 0.5) + 0.25 * _coverage(rest) + (0.1 if keyed else 0.0)
    return _verdict(
        "name" if named else "value",
        ours,
        rest,
        confidence=confidence,
        first=_words(ours, rest.ours),
        second=_words(theirs, rest.theirs),
    )


def _one_sort(ours: JudgedClause, theirs: JudgedClause, rest: _Difference) -> bool:
    """Whether both sides name things of one sort of which people have one: two databases."""
    for one in ours.sorts:
        sort, _, our_word = one.partition(":")
        for other in theirs.sorts:
            their_sort, _, their_word = other.partition(":")
            if sort != their_sort or our_word not in rest.ours or their_word not in rest.theirs:
                continue
            if sort not in EXCLUSIVE and not (sort == "color" and ours.copula and theirs.copula):
                continue
            if not _in_value_place(ours, {our_word}) or not _in_value_place(theirs, {their_word}):
                return False
            our_rest = rest.ours - {our_word, sort}
            their_rest = rest.theirs - {their_word, sort}
            if our_rest and their_rest:
                return False
            return not (
                _other_thing(our_rest, ours)
                or _other_thing(their_rest, theirs)
                or len(our_rest) + len(their_rest) > (3 if ours.change != theirs.change else 1)
            )
    return False


def _in_value_place(clause: JudgedClause, only: set[str]) -> bool:
    """Whether the words of one side alone stand after words that both share."""
    if not only.isdisjoint(clause.subject):
        return False
    return bool(clause.order) and (clause.order[0] not in only or bool(clause.person))


def _coverage(rest: _Difference) -> float:
    total = 2 * len(rest.shared) + len(rest.ours) + len(rest.theirs)
    return 2 * len(rest.shared) / total if total else 1.0


def _words(clause: JudgedClause, only: set[str]) -> str:
    return " ".join(clause.surfaces.get(w, w) for w in dict.fromkeys(clause.order) if w in only)


def _saying(clause: JudgedClause) -> str:
    words = " ".join(clause.surfaces.get(w, w) for w in dict.fromkeys(clause.order))
    return f"not {words}" if clause.negated else words


def _verdict(
    reason: Reason,
    ours: JudgedClause,
    rest: _Difference,
    *,
    confidence: float,
    first: str,
    second: str,
) -> Verdict:
    return Verdict(
        kind="contradicts",
        reason=reason,
        subject=_words(ours, set(rest.shared))[:200],
        first_value=first[:200],
        second_value=second[:200],
        confidence=round(min(0.99, max(0.0, confidence)), 4),
    )


MOST_SENTENCES = 5_000
MOST_CANDIDATES = 50
"""Bounds of one search for conflicts: sentences a side, and comparisons a sentence."""

UNRELATED = Verdict(kind="unrelated")
NONE = Verdict(kind="none")


def judge(first: Statement, second: Statement) -> Verdict:
    """How `second` stands to `first`; the order only decides which side is which (J1)."""
    return judge_readings(
        first, read_statement(first.text), second=second, second_reading=read_statement(second.text)
    )


def judge_readings(
    first: Statement,
    first_reading: StatementReading,
    *,
    second: Statement,
    second_reading: StatementReading,
) -> Verdict:
    """As `judge`, for texts that were read before."""
    keyed = bool(first.key and second.key)
    if keyed and first.key.casefold() != second.key.casefold():
        return UNRELATED
    if first.text == second.text:
        return NONE
    if second.text < first.text:  # one order for both directions, so that they agree (J1)
        return judge_readings(
            second, second_reading, second=first, second_reading=first_reading
        ).swapped()
    if not keyed and first_reading.words.isdisjoint(second_reading.words):
        return UNRELATED
    found, related = _surest(first, first_reading, second, second_reading, keyed=keyed)
    if found is None or _agrees_elsewhere(found.verdict, first_reading, second_reading):
        return NONE if related else UNRELATED
    likely = keyed or probability(found.features) >= _veto().least
    return found.verdict if likely else NONE if related else UNRELATED


class ClauseFinding(NamedTuple):
    """What the rules find in two clauses, and what the veto looks at."""

    verdict: Verdict
    features: tuple[float, ...]


def find_unvetoed(first: str, second: str) -> ClauseFinding | None:
    """What the rules alone find in two texts without keys: what the veto is fitted on."""
    texts = sorted((first, second))
    one, other = (read_statement(text) for text in texts)
    found, _ = _surest(Statement(text=texts[0]), one, Statement(text=texts[1]), other, keyed=False)
    return None if found is None or _agrees_elsewhere(found.verdict, one, other) else found


def _surest(
    first: Statement,
    first_reading: StatementReading,
    second: Statement,
    second_reading: StatementReading,
    *,
    keyed: bool,
) -> tuple[ClauseFinding | None, bool]:
    """The surest conflict of any two clauses, and whether the texts are about one thing."""
    best: Verdict | None = None
    sides: tuple[JudgedClause, JudgedClause] | None = None
    related = keyed
    for ours in first_reading.clauses:
        for theirs in second_reading.clauses:
            if not keyed and not _may_relate(ours, theirs):
                continue
            if not (ours.asserted and theirs.asserted):
                continue
            shared = len(ours.bag & theirs.bag)
            related = related or 2 * shared >= min(len(ours.bag), len(theirs.bag))
            found = compare_clauses(ours, theirs, keyed=keyed)
            if found is not None and (best is None or found.confidence > best.confidence):
                best = _in_time(found, ours, theirs, first.date, second.date)
                sides = ours, theirs
    if best is None or sides is None:
        return None, related
    return ClauseFinding(best, features_of(best.reason, *sides)), related


# ----------------------------------------------------------------------------
# The veto: what the rules find without a key counts only if such pairs mostly do conflict.
#
# "Jon is working on a plan" and "Jon is working on his website" differ as two values of one
# attribute do. The weights are fitted by `benchmarks/fit_conflicts.py`.


FEATURES = (
    "negation", "antonym", "typed", "name", "value",
    "coverage", "extra", "extra_both", "shared", "same_verb", "copulas", "change", "long_value",
)  # fmt: skip
_TYPED = ("number", "date", "version")


class _Veto(NamedTuple):
    weights: tuple[float, ...]
    bias: float
    least: float


@cache
def _veto() -> _Veto:
    told = read_json("conflicts.json")
    weights = tuple(float(told["weights"][name]) for name in FEATURES)
    return _Veto(weights, float(told["bias"]), float(told["least"]))


def features_of(reason: Reason, ours: JudgedClause, theirs: JudgedClause) -> tuple[float, ...]:
    """What the veto looks at, each about between 0 and 1; the same for both orders."""
    rest = _difference(ours, theirs)
    extra = sorted((len(rest.ours), len(rest.theirs)))
    verbs = bool(ours.verb) and ours.verb == theirs.verb
    return (
        float(reason == "negation"),
        float(reason == "antonym"),
        float(reason in _TYPED),
        float(reason == "name"),
        float(reason == "value"),
        _coverage(rest),
        min(extra[1], 6) / 6,
        min(extra[0], 6) / 6,
        min(len(rest.shared), 6) / 6,
        float(verbs),
        (ours.copula + theirs.copula) / 2,
        float(ours.change or theirs.change),
        float(reason == "value" and extra[1] > 2),
    )


def probability(features: Sequence[float]) -> float:
    """How likely it is that two statements with these features contradict each other."""
    veto = _veto()
    total = veto.bias + sum(w * f for w, f in zip(veto.weights, features, strict=True))
    return 1 / (1 + math.exp(-total))


def _may_relate(ours: JudgedClause, theirs: JudgedClause) -> bool:
    """Whether a closer look can find anything: a shared word, or a sort or person in common."""
    if not ours.bag.isdisjoint(theirs.bag) or not ours.topics.isdisjoint(theirs.topics):
        return True
    return bool(ours.person) and ours.person == theirs.person and len(ours.bag) <= 2


def _agrees_elsewhere(found: Verdict, first: StatementReading, second: StatementReading) -> bool:
    """Whether a text of several clauses also says what the other one says."""
    if len(first.clauses) == 1 and len(second.clauses) == 1:
        return False
    if found.reason in ("negation", "antonym"):
        return False
    return any(
        ours.bag == theirs.bag
        and ours.negated == theirs.negated
        and ours.values == theirs.values
        and bool(ours.bag)
        for ours in first.clauses
        for theirs in second.clauses
    ) and len(first.clauses) != len(second.clauses)


def find_conflicts(
    ours: Sequence[Statement],
    theirs: Sequence[Statement],
    *,
    least_confidence: float = 0.5,
    most: int = 20,
) -> tuple[Conflict, ...]:
    """Every pair of sentences, one of ours and one of theirs, that disagree.

    The surest come first, then the order of the texts. A text is taken apart
    into sentences, which keep its date and key; a sentence said again is read
    once, and each is compared with those that share most words with it. At most
    `most` are returned.
    """
    require_unit(least_confidence, "least_confidence")
    require_count(most, "most")
    our_parts = list(_parts(ours))
    their_parts = list(_parts(theirs))
    by_word: dict[str, list[int]] = {}
    for place, (_, _, reading) in enumerate(their_parts):
        for word in reading.words:
            by_word.setdefault(word, []).append(place)
    keyed = [place for place, (_, part, _) in enumerate(their_parts) if part.key]
    found: list[Conflict] = []
    for our_index, our_part, our_reading in our_parts:
        shared = Counter(place for word in our_reading.words for place in by_word.get(word, ()))
        nearest = sorted(shared, key=lambda place: (-shared[place], place))[:MOST_CANDIDATES]
        places = {*nearest, *(keyed[:MOST_CANDIDATES] if our_part.key else ())}
        for place in sorted(places):
            their_index, their_part, their_reading = their_parts[place]
            verdict = judge_readings(
                our_part, our_reading, second=their_part, second_reading=their_reading
            )
            if verdict.conflicting and verdict.confidence >= least_confidence:
                found.append(
                    Conflict(
                        ours=our_part,
                        theirs=their_part,
                        verdict=verdict,
                        our_index=our_index,
                        their_index=their_index,
                    )
                )
    found.sort(key=lambda conflict: -conflict.verdict.confidence)
    return tuple(found[:most])


def _parts(statements: Sequence[Statement]) -> Iterator[tuple[int, Statement, StatementReading]]:
    seen: set[tuple[str, datetime | None, str]] = set()
    for index, statement in enumerate(statements):
        for start, end in sentences(statement.text):
            text = statement.text[start:end]
            said = (text, statement.date, statement.key)
            if said in seen:
                continue
            seen.add(said)
            reading = read_statement(text)
            if reading.clauses:
                part = Statement(text=text, date=statement.date, key=statement.key)
                yield index, part, reading
            if len(seen) >= MOST_SENTENCES:
                return


def _in_time(
    found: Verdict,
    ours: JudgedClause,
    theirs: JudgedClause,
    our_date: datetime | None,
    their_date: datetime | None,
) -> Verdict:
    newer: Side = ""
    if found.reason == "negation" and _is_ending(ours, theirs):
        past, present = (our_date, their_date) if ours.past else (their_date, our_date)
        if past is None or present is None or utc(past) >= utc(present):
            newer = "first" if ours.past else "second"
    elif ours.past != theirs.past:
        newer = "second" if ours.past else "first"
    elif our_date is not None and their_date is not None and utc(our_date) != utc(their_date):
        later: Side = "first" if utc(our_date) > utc(their_date) else "second"
        if (ours if later == "first" else theirs).change:
            newer = later
    elif ours.change != theirs.change:
        newer = "first" if ours.change else "second"
    if not newer:
        return found
    return Verdict(
        kind="supersedes",
        reason=found.reason,
        subject=found.subject,
        first_value=found.first_value,
        second_value=found.second_value,
        confidence=found.confidence,
        newer=newer,
    )
