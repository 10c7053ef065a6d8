"""Whether two statements contradict each other: typed values, a few rules and a fitted veto.

Two statements contradict when they speak of the same subject and attribute and
give it values that cannot both be true: another number, date, version or name,
a negation, an opposite. Where the newer one is worded as a change ("we moved
to …", "no longer", "since May"), it supersedes instead. When in doubt the
answer is "none": a false alarm costs more trust than a missed one.

`judge` reads both texts each time. Where one text meets many others, give it a
`read` that keeps what it read.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import Stemmer

from agentmem.base.checks import require_count, require_text, require_unit
from agentmem.base.types import require_instant, utc
from agentmem.data import Words, patterns_of, read_json
from agentmem.text.sentences import sentences

# ----------------------------------------------------------------------------
# The words that are known: small lists of general English and of software work, none taken
# from a data set. A word that is not listed is compared by its stem.


P = patterns_of("conflict_words.json")
_TABLES = P.told
WORDS = Words(_TABLES)
UNITS: dict[str, tuple[str, float]] = {
    name: (unit, factor)
    for unit, names in _TABLES["units"].items()
    for name, factor in names.items()
}
"""Name → what it measures, and how much of its base: "minutes" are 60 of a duration."""
SCALES: dict[str, float] = _TABLES["scales"]
SMALL_NUMBERS: dict[str, float] = _TABLES["numbers"]
_BOUNDS = {name: frozenset(words.split()) for name, words in _TABLES["bounds"].items()}
_NOT_UNITS = WORDS.fillers | WORDS.negators | WORDS.clause_breaks
PERSONS: dict[str, str] = {
    word: person for person, words in _TABLES["persons"].items() for word in words.split()
}
_POSSESSIVES = ("my", "our", "your", "his", "her", "its", "their")
_PHRASES = {tuple(words.split()): joined for words, joined in _TABLES["phrases"].items()}
_VERBS = frozenset[str]().union(
    WORDS.single_verbs, WORDS.many_verbs, WORDS.auxiliaries, WORDS.change_verbs,
    WORDS.leading_verbs, WORDS.other_verbs,
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def stem_word(word: str) -> str:
    """The stem of a lower-case `word`, synonyms kept apart."""
    # A stemmer keeps state and may not be shared by threads; a new one costs a microsecond.
    return str(Stemmer.Stemmer("english", 0).stemWord(word)) if word.isalpha() else word


def _groups(name: str) -> Iterator[list[str]]:
    """The groups of words that a table lists, parted by bars."""
    for line in _TABLES[name]:
        yield from (group.split() for group in line.split("|"))


_CANONICAL: dict[str, str] = {}
for _group in _groups("synonyms"):
    for _word in _group:
        _CANONICAL.setdefault(stem_word(_word), stem_word(_group[0]))


@lru_cache(maxsize=1 << 16)
def canonical(word: str) -> str:
    """The stem that all forms and listed synonyms of a lower-case `word` share."""
    stem = stem_word(word)
    return _CANONICAL.get(stem, stem)


def same_stem(one: str, other: str) -> bool:
    """Whether one stem is the other with a little more: "deliver" and "deliveri"."""
    short, long = sorted((one, other), key=len)
    return len(short) >= 5 and len(long) - len(short) <= 2 and long.startswith(short)


_OPPOSITES: set[tuple[str, str]] = {
    (form(one), form(other))
    for pair in _groups("opposites")
    for one, other in (pair, pair[::-1])
    for form in (stem_word, canonical)
}
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "non-")


@lru_cache(maxsize=1 << 16)
def opposite(one: str, other: str) -> bool:
    """Whether two stems are opposites, listed or made with un-, in-, dis-, non-, -less."""
    if (one, other) in _OPPOSITES:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < 4:
        return False
    return any(long == prefix + short for prefix in _PREFIXES) or (
        long.endswith("less") and long.removesuffix("less") == short.removesuffix("ful")
    )


SORTS: dict[str, str] = {
    name: sort for sort, names in reversed(_TABLES["sorts"].items()) for name in names.split()
}
"""Lower-case name → its sort, of which people often have one at a time: databases, editors."""

EXCLUSIVE = frozenset(SORTS.values()) - {"language", "runtime", "color", "browser", "os", "shell"}
"""Sorts of which one name excludes another when the same people say they use it."""


# ----------------------------------------------------------------------------
# Numbers with units, dates, times and versions as they are written, and whether two agree.
#
# "1,000", "1k" and "one thousand" are one number; "15 minutes" and "900 seconds"
# are one length of time; "3 May" agrees with "May 3rd, 2024"; version 15 agrees
# with 15.2. "About 100" leaves a tenth of room, "at least 100" leaves all above.


ValueKind = Literal["number", "date", "time", "version"]


@dataclass(frozen=True, slots=True)
class Value:
    """One typed value in a statement; what the fields hold depends on `kind`.

    number: `size` in the base of `unit`, `raw` as written. date: `parts` are
    year, month, day and weekday, None where unsaid. time: `size` is minutes
    after midnight. version: `parts` are its numbers and `unit` the name before
    it. `label` is the word that makes a number a name ("room"), `bound` the one
    that leaves room: "about", "least" or "most".
    """

    kind: ValueKind
    shown: str
    size: float = 0.0
    unit: str = ""
    label: str = ""
    bound: str = ""
    parts: tuple[int | None, ...] = ()
    raw: float = 0.0


_MONTH_NUMBERS, _WEEKDAY_NUMBERS = (
    {form: number for number, forms in enumerate(_TABLES[name], first) for form in forms.split()}
    for name, first in (("months", 1), ("weekdays", 0))
)


def month_number(name: str) -> int:
    """1 to 12 for a month's name or its short form, 0 for anything else."""
    return _MONTH_NUMBERS.get(name.lower().rstrip("."), 0)


def weekday_number(name: str) -> int | None:
    """0 for Monday to 6 for Sunday, from "Thursday", "thursdays" or "Thu"; else None."""
    return _WEEKDAY_NUMBERS.get(name.lower().rstrip("."))


def _read_version(text: str) -> tuple[int, ...]:
    """The numbers of a version: (2, 3, 1) for "v2.3.1"."""
    return tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:6])


def _read_moment(text: str, kind: str) -> Value | None:
    """The date or time of day a text says, as far as it says one; None for the 40th of May."""
    numbers: list[int | None] = [*map(int, re.findall(r"\d+", text)), None, None]
    if kind == "time":
        half = re.search("[ap]", text.lower())
        hour = (numbers[0] or 0) % 12 + 12 * (half[0] == "p") if half else numbers[0] or 0
        return Value("time", text.strip(), size=hour * 60.0 + (numbers[1] or 0))
    month: int | None = max(map(month_number, re.findall(r"[a-z]+", text.lower())), default=0)
    day, year = numbers[:2]
    if kind == "iso":
        year, month, day = numbers[:3]
    elif kind in ("slash", "monthyear"):  # 03/05/24 may be in March or in May
        year, day = numbers[-3] or 0, None
        year += 2000 * (year < 100)
    if not 1 <= (month or 1) <= 12 or not 1 <= (1 if day is None else day) <= 31:
        return None
    return Value("date", text.strip(), parts=(year, month, day, None))


def values_comparable(first: Value, second: Value) -> bool:
    """Whether the two speak of the same sort of thing, so that they can differ at all."""
    either = not first.unit or not second.unit or first.unit == second.unit
    if first.kind != second.kind:
        return {first.kind, second.kind} == {"number", "version"} and either
    return either and (first.label == second.label or not (first.label and second.label))


def values_agree(first: Value, second: Value) -> bool:
    """Whether two comparable values can both be true."""
    if first.kind == second.kind == "date":
        both = zip(first.parts, second.parts, strict=True)
        return all(a is None or b is None or a == b for a, b in both)
    versions = "version" in (first.kind, second.kind)
    one, other = (_order(value, as_version=versions) for value in (first, second))
    bounds = {first.bound, second.bound}
    if len(bounds) > 1 and "about" not in bounds:  # "3.8 or newer" leaves room for 3.11
        return other <= one if first.bound == "most" or second.bound == "least" else one <= other
    if versions:
        return all(a == b for a, b in zip(one, other, strict=False))
    if first.unit != second.unit:  # one of them has no unit
        return any(
            _near(a, b, 1e-6) for a in (first.raw, first.size) for b in (second.raw, second.size)
        )
    # A kilobyte has 1,000 or 1,024; miles are rounded; months and years are uneven.
    long = first.unit == "duration" and first.size + second.size > 4e6
    room = {"bytes": 0.03, "length": 0.02}.get(first.unit, 0.02 if long else 1e-6)
    return _near(first.size, second.size, max(room, 0.1 if "about" in bounds else 0.0))


def _order(value: Value, *, as_version: bool) -> list[float]:
    parts = value.parts or _read_version(value.shown)
    return [part or 0.0 for part in parts] if as_version else [value.size]


def _near(one: float, other: float, room: float) -> bool:
    return abs(one - other) <= room * max(abs(one), abs(other), 1e-12)


# ----------------------------------------------------------------------------
# A sentence as tokens: words, and numbers, dates, times and versions as they are written.


_MONTH = _TABLES["month"]
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
    | (?P<number>(?<![\w.])[-+]?[$€£¥₹]?(?:\d{{1,3}}(?:,\d\d\d)+|\d+)(?:\.\d+)?
        (?P<glued>(?:k|m|bn|mn)?(?:%|°[cf]?)|[a-zµ]{{1,4}})?(?![\w]))
    | (?P<word>[^\W\d_](?:[\w+#]|['’.\-/_](?=\w))*)
    | (?P<other>\w+)
    | (?P<mark>[;:,?()=%$€£~<>≥≤])
    """,
    re.VERBOSE | re.IGNORECASE,
)


class Token(NamedTuple):
    """A piece of a sentence; `kind` is the group of the pattern that found it."""

    kind: str
    text: str
    lower: str
    glued: str = ""


def split_tokens(sentence: str) -> list[Token]:
    """The tokens in order; two words that are one term ("pull request") become one."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sentence):
        text, lower = match[0], match[0].lower().replace("’", "'")
        joined = _PHRASES.get((found[-1].lower, lower)) if found else None
        if match["number"] is not None:
            found.append(Token("number", text, lower, (match["glued"] or "").lower()))
        elif joined is not None:
            found[-1] = Token("word", f"{found[-1].text} {text}", joined)
        else:
            found.append(Token(match.lastgroup or "word", text, lower))
    return found


# ----------------------------------------------------------------------------
# What one clause says: what it is about, its typed values, and how it is worded.


@dataclass(slots=True)
class JudgedClause:
    """What one clause says, read from its tokens left to right; `first` in its sentence."""

    tokens: list[Token]
    asserted: bool
    change: bool
    first: bool
    order: list[str] = field(default_factory=list)
    bag: frozenset[str] = frozenset()
    subject: list[str] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    particles: set[str] = field(default_factory=set)
    values: list[Value] = field(default_factory=list)
    sorts: dict[str, str] = field(default_factory=dict)
    """Word → the sort of thing it names."""
    topics: set[str] = field(default_factory=set)
    surfaces: dict[str, str] = field(default_factory=dict)
    person: str = ""
    verb: str = ""
    """What is done; while the clause is read the first word that may say so."""
    main_word: str = ""
    verb_at: int = 0
    single: bool = False
    """Whether the value said here leaves no room for a second one."""
    owned: bool = False
    copula: bool = False
    scene: bool = False
    negated: bool = False
    past: bool = False
    all: bool = False
    few: bool = False
    ended: int = -1
    """Where the last number ended."""

    def __post_init__(self) -> None:
        index = 0
        while index < len(self.tokens):
            token = self.tokens[index]
            if token.kind == "word":
                end = self._word(index, token)
            elif token.kind == "number":
                end = self._number(index, token)
            else:
                end = 0 if token.kind == "mark" else self._typed(index, token)
            index = max(index + 1, end)
        self._turn_round()
        self.bag = frozenset(self.order)
        self.single = self._is_single()
        self.past = self.past and not self.change
        self.copula = self.verb in WORDS.copulas and not self.main_word
        self.verb = canonical(self.main_word or self.verb)

    def _at(self, index: int) -> str:
        return self.tokens[index].lower if 0 <= index < len(self.tokens) else ""

    # -- typed values ------------------------------------------------------------------

    def _typed(self, index: int, token: Token) -> int:
        if token.kind == "version":
            return self._version(index, "")
        read = token.kind not in ("url", "other", "code")
        value = _read_moment(token.text, token.kind) if read else None
        if value is None:
            self._add(token, token.lower, index)
        else:
            self._keep_date(index, value)
        return index + 1

    def _version(self, index: int, unit: str) -> int:
        text = self.tokens[index].text
        bound = self._bound(index, index + 1, older="most")
        self.values.append(
            Value("version", text, unit=unit, bound=bound, parts=_read_version(text))
        )
        return index + 1

    def _keep_date(self, index: int, value: Value) -> None:
        before = self._at(index - 1)
        pair = (self._at(index - 2), before)
        began = before in ("since", "starting", "effective", "from")
        if not began and pair not in (("as", "of"), ("starting", "on"), ("effective", "on")):
            self.values.append(value)

    def _date_word(self, index: int, token: Token, lower: str) -> bool:
        """Whether a word is a date or a time by itself: a month, a weekday, noon."""
        if len(lower) < 3 or (lower in WORDS.cased_dates and not token.text[0].isupper()):
            return False
        minutes = {"noon": 720.0, "midday": 720.0, "midnight": 0.0}.get(lower)
        month, weekday = month_number(lower) or None, weekday_number(lower)
        if minutes is not None:
            self._keep_date(index, Value("time", token.text, size=minutes))
        elif month or weekday is not None:
            self._keep_date(index, Value("date", token.text, parts=(None, month, None, weekday)))
        else:
            return False
        return True

    def _number_words(self, index: int) -> int | None:
        """Where "twenty-five" ends, read as a number; None if none begins here."""
        total, end = 0.0, index
        while word := self._at(end):
            pieces = word.split("-")
            if not all(piece in SMALL_NUMBERS for piece in pieces):
                break
            total += sum(SMALL_NUMBERS[piece] for piece in pieces)
            end += 1
        return self._amount(index, end - 1, total) if end > index else None

    def _number(self, index: int, token: Token) -> int:
        plain = token.lower.removesuffix(token.glued)
        symbol = next((c for c in plain if c in "$€£¥₹"), "")
        plain = plain.replace(symbol, "")
        if not token.glued and not symbol:
            before, at_end = self._at(index - 1), not self._at(index + 1).isalpha()
            dated = before in WORDS.year_before or (before in WORDS.year_before_end and at_end)
            if dated and len(plain) == 4 and plain[:2] in ("19", "20"):
                year = Value("date", token.text, parts=(int(plain), None, None, None))
                self._keep_date(index, year)
                return index + 1
            if (name := self._version_of(index, plain)) is not None:
                return self._version(index, name)
        amount = float(plain.replace(",", "")[:300])
        return self._amount(index, index, amount, glued=token.glued, symbol=symbol)

    def _version_of(self, index: int, plain: str) -> str | None:
        """The name a version belongs to, "" for "version 3", None for a plain number."""
        before, after = self._at(index - 1), self._at(index + 1)
        if before in ("version", "release"):
            return ""
        if not before or before in WORDS.labels or (after.isalpha() and after not in _NOT_UNITS):
            return None
        previous = self.tokens[index - 1]
        named = previous.text[0].isupper() and (index > 1 or "." in plain)
        known = before in SORTS or (named and previous.kind == "word" and before not in UNITS)
        return self.order[-1] if known and self.order else None

    def _amount(
        self, start: int, index: int, amount: float, *, glued: str = "", symbol: str = ""
    ) -> int:
        """Keep the number that stands from `start` to `index`, and give where its unit ends."""
        unit, factor, scale = UNITS[symbol][0] if symbol else "", 1.0, 1.0
        if glued in SCALES and (symbol or glued not in UNITS):
            scale = SCALES[glued]
        elif glued in UNITS:
            unit, factor = UNITS[glued]
        end = index + 1
        if len(self._at(end)) > 1 and self._at(end) in SCALES:
            scale *= SCALES[self._at(end)]
            end += 1
        before, word = self._at(start - 1), self._at(end).rstrip(".")
        measure = UNITS.get(word) or UNITS.get(word.split("-")[0])
        if measure is not None and unit in ("", measure[0]):
            unit, factor = measure[0], factor if unit else measure[1]
            end += 1
        elif not unit and len(word) > 1 and word not in _NOT_UNITS and word[0].isalpha():
            reads = word in _VERBS and not self.verb  # "sensor 3 reads"
            unit = "" if reads else canonical(word)  # "100 requests": it is a word too
        noun = end + (bool(unit) and unit == canonical(word))
        per = UNITS.get(self._at(noun + 1), ("", 0.0))
        if per[0] == "duration" and self._at(noun) in ("per", "a", "an", "every", "each"):
            if noun > end:
                self._add(self.tokens[end], word, end)
            unit, factor, end = f"{unit}/s", factor / per[1], noun + 2
        raw = amount * scale
        shown = " ".join(token.text for token in self.tokens[start:end])[:60]
        label = before if before in WORDS.labels else ""
        bound = self._bound(start, end, older="least")
        value = Value("number", shown, raw * factor, unit, label, bound, raw=raw)
        linked = self.ended in (start, start - (before == "and"))
        if linked and unit in ("duration", "length", "mass") and self.values[-1].unit == unit:
            whole = self.values.pop()  # "2 hours 55 minutes" is one length
            shown = f"{whole.shown} {value.shown}"[:60]
            value = replace(whole, shown=shown, size=whole.size + value.size)
        self.values.append(value)
        self.ended = end
        return end

    def _bound(self, start: int, end: int, *, older: str) -> str:
        """What leaves room for other values: "least" for "at least 3" and "3 or more"."""
        more = self._at(end + 1) if self._at(end) in ("or", "and") else ""
        if more == "older":
            return older
        before = self._at(start - 1)
        said = {f"or-{more}", before, f"{self._at(start - 2)}-{before}"}
        return next((name for name, words in _BOUNDS.items() if not words.isdisjoint(said)), "")

    # -- words -------------------------------------------------------------------------

    def _word(self, index: int, token: Token) -> int:
        lower, possessive, before = token.lower, False, self._at(index - 1)
        if lower.endswith("n't"):
            self.negated = True
            return index + 1
        if lower.endswith(("'s", "s'")):
            lower = lower[:-2] if lower.endswith("'s") else lower[:-1]
            possessive = lower not in ("it", "that", "there", "he", "she", "what", "let", "who")
        lower = lower.split("'")[0].rstrip(".")
        if not self.person and not self.order:
            self.person = PERSONS.get(lower, "")
        if lower in _POSSESSIVES and not self.verb:
            self.owned = True
        if lower in WORDS.negators:
            self._negate(lower, self._at(index + 1))
            return index + 1
        if self._date_word(index, token, lower):
            return index + 1
        if (end := self._number_words(index)) is not None:
            return end
        if lower == "old" and self.values and self.values[-1].unit == "duration":
            return index + 1  # "34 years old" is an age
        accustomed = lower == "used-to" and before in WORDS.copulas
        self.change = self.change or lower in WORDS.change_words
        self.past = self.past or (lower in WORDS.past and not accustomed)
        self.all = self.all or lower in WORDS.all
        self.few = self.few or (lower in WORDS.few and before != "a")
        if lower in WORDS.particles:
            self.particles.add(canonical(lower))
        if self.order or self.person or lower in WORDS.single_verbs:
            self._note_verb(lower, index)
        named = bool(index) and token.text[0].isupper() and (lower in SORTS or token.text == "A")
        longer = lower == "longer" and before not in ("no", "any")
        if lower not in WORDS.fillers or possessive or named or longer:
            self._add(token, lower, index, possessive=possessive)
        return index + 1

    def _negate(self, lower: str, after: str) -> None:
        ends = lower in ("stopped", "stops", "quit")
        if (ends and lower != "quit" and not after.endswith("ing")) or (
            lower == "not" and after in ("only", "just")
        ):
            return
        self.change = self.change or ends
        self.negated = True

    def _note_verb(self, lower: str, index: int) -> None:
        placed = self._at(index + 1) in WORDS.places
        if not self.verb and lower in _VERBS:
            self.verb, self.verb_at, self.subject = lower, index, list(self.order)
            self.single = lower in WORDS.single_verbs or lower in WORDS.change_verbs
            self.scene = self._is_indefinite() and lower in WORDS.copulas and placed
            return
        if self.verb not in WORDS.auxiliaries or index - self.verb_at > 3 or self.main_word:
            return
        passive = lower.endswith(("ed", "en")) and len(lower) > 4 and self.verb in WORDS.copulas
        if lower in WORDS.single_verbs or (
            passive and placed and lower not in WORDS.many_participles
        ):
            self.main_word, self.single = lower, True
        elif passive and lower.endswith("ed"):
            self.main_word = lower
        elif lower.endswith("ing") and lower not in WORDS.many_verbs and len(lower) > 5:
            self.main_word = lower
            self.scene = self._is_indefinite() or self.scene

    def _is_indefinite(self) -> bool:
        """Whether it begins with somebody or something that was not named: "a man is …"."""
        opener = self._at(0)
        return opener in SMALL_NUMBERS or opener in (
            "a", "an", "some", "another", "several", "people",
        )  # fmt: skip

    def _add(self, token: Token, lower: str, index: int, *, possessive: bool = False) -> None:
        text, word = token.text, canonical(lower)
        self.order.append(word)
        self.surfaces.setdefault(word, text)
        inner = any(c.isupper() or c.isdigit() for c in text[1:])
        starts = text[0].isupper() and (index > 0 or not self.first or possessive)
        if lower not in WORDS.generic_acronyms and (inner or starts):
            self.names.add(word)
        if possessive and not self.verb:
            self.owned = True
        if (sort := SORTS.get(lower)) is not None:
            self.sorts[word] = sort
        self.topics |= {sort or lower, word} & EXCLUSIVE

    def _is_single(self) -> bool:
        if self.single:
            return True
        if (self.verb and self.verb not in WORDS.copulas) or self.main_word:
            return False
        if self.verb and self._at(self.verb_at + 1) in WORDS.places:
            return True
        if not self.verb and len(self.order) > 2:
            return False
        before = self.tokens[: self.verb_at] if self.verb_at else self.tokens
        lowered = {form for t in before for form in (t.lower, t.lower.removesuffix("s"))}
        return self.owned or not lowered.isdisjoint(_ONE_VALUED)

    def _turn_round(self) -> None:
        """ "Postgres is our database" says what our database is: the subject is the value."""
        rest = self.order[len(self.subject) :]
        if not (self.verb and rest and self.subject):
            return
        after = (token.lower for token in self.tokens[self.verb_at + 1 :])
        opener = next((word for word in after if word not in _BEFORE_A_NAME), "")
        if opener not in ("the", *_POSSESSIVES) and not opener.endswith("'s"):
            return
        if self.verb in WORDS.copulas:
            turned = not _HEADS.isdisjoint(rest) and _HEADS.isdisjoint(self.subject)
        else:
            opens = self.tokens[0].text[:1].isupper() and self.tokens[0].lower not in WORDS.fillers
            turned = self.verb in WORDS.leading_verbs and opens
            self.single = self.single or turned
        if turned:
            self.order, self.subject = rest + self.order[: len(self.subject)], rest
            self.owned = True


_HEADS = frozenset(canonical(word) for word in WORDS.attributes)
_ONE_VALUED = WORDS.attributes | WORDS.definite
_BEFORE_A_NAME = WORDS.copulas | WORDS.negators | WORDS.adverbs


# ----------------------------------------------------------------------------
# A statement read once, so that it can be compared with many others quickly.


MAX_CLAUSES = 24
MAX_CHARACTERS = 8_000
"""Of a longer text the beginning is read: a statement is a sentence or a few."""


class StatementReading(NamedTuple):
    """A text as the judge needs it; made by `read_statement`."""

    clauses: tuple[JudgedClause, ...]
    words: frozenset[str]


def read_statement(text: str) -> StatementReading:
    """`text` read clause by clause; any text can be read, and most of the work is done here."""
    clauses: list[JudgedClause] = []
    shortened = text[:MAX_CHARACTERS]
    corrects = P.correction.match(shortened) is not None
    for start, end in sentences(shortened):
        clauses += _read_sentence(shortened[start:end], corrects)
        if len(clauses) >= MAX_CLAUSES:
            break
    del clauses[MAX_CLAUSES:]
    words = {word for clause in clauses for word in clause.bag}
    for clause in clauses:  # what relates a clause beside its words, in a form that no word has
        words |= {f" {topic}" for topic in clause.topics}
    return StatementReading(tuple(clauses), frozenset(words))


def _read_sentence(sentence: str, corrects: bool) -> Iterator[JudgedClause]:
    asserted = not sentence.rstrip().endswith("?") and P.hypothesis.match(sentence) is None
    parts: list[list[Token]] = [[]]
    kept = P.old_value.sub(lambda found: found[1] or found[2], sentence)
    for token in split_tokens(kept):
        if token.text == ";" or (token.lower in WORDS.clause_breaks and token.kind == "word"):
            parts.append([])
        else:
            parts[-1].append(token)
    for place, tokens in enumerate(parts):
        piece = " ".join(token.text for token in tokens)
        change = corrects or P.change.search(piece) is not None
        clause = JudgedClause(tokens, asserted, change, first=place == 0)
        if clause.order or clause.values:
            yield clause


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

    @property
    def conflicting(self) -> bool:
        """Whether the two cannot both be true now."""
        return self.kind in ("contradicts", "supersedes")

    def swapped(self) -> Verdict:
        """The same verdict with the sides exchanged."""
        sides: dict[Side, Side] = {"first": "second", "second": "first", "": ""}
        return replace(
            self,
            first_value=self.second_value,
            second_value=self.first_value,
            newer=sides[self.newer],
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


class _Pair:
    """Two clauses, and what is left of them after everything they share.

    `keyed` says that both are about one attribute, however they are worded.
    """

    def __init__(self, ours: JudgedClause, theirs: JudgedClause, *, keyed: bool) -> None:
        self.first, self.second, self.keyed = ours, theirs, keyed
        shared = set(ours.bag & theirs.bag)
        self.ours, self.theirs = set(ours.bag - shared), set(theirs.bag - shared)
        pairs: list[tuple[str, str]] = []
        for one in sorted(self.ours):
            for other in sorted(self.theirs):
                same = same_stem(one, other)
                if same or opposite(one, other):
                    self.ours.discard(one)
                    self.theirs.discard(other)
                    if same:
                        shared.add(one)
                    else:
                        pairs.append((one, other))
                    break
        self.shared = frozenset(shared)
        self.opposites = pairs or self._opposite_particles()

    def _opposite_particles(self) -> list[tuple[str, str]]:
        """The first opposite that is made with a small word: "on" and "off"."""
        ours, theirs = self.first.particles, self.second.particles
        for one in sorted(self.ours | (ours - theirs)):
            for other in sorted(self.theirs | (theirs - ours)):
                if opposite(one, other):
                    self.ours.discard(one)
                    self.theirs.discard(other)
                    return [(one, other)]
        return []

    @property
    def coverage(self) -> float:
        """How much of all words both have."""
        total = 2 * len(self.shared) + len(self.ours) + len(self.theirs)
        return 2 * len(self.shared) / total if total else 1.0

    def compare(self) -> Verdict | None:
        """A contradiction between the two, before anybody asks which one is newer."""
        ours, theirs, keyed = self.first, self.second, self.keyed
        same_person = bool(ours.person) and ours.person == theirs.person
        if not keyed and ours.person and theirs.person and not same_person:
            return None
        if not keyed and not self.shared:
            if ours.topics & theirs.topics:
                return self._by_words()
            if not (self.opposites and same_person):
                return None
        agreeing, differing = _match_values(ours.values, theirs.values)
        opposed = len(self.opposites) % 2 == 1
        if ours.negated != theirs.negated:
            return None if opposed or differing else self._by_negation()
        plain = not (self.ours or self.theirs or opposed or differing)
        if ours.past != theirs.past and plain:
            return self._said("negation", 0.9)
        if ours.scene or theirs.scene:
            return None  # "a man is standing", "a man is sitting": two men
        if opposed:
            if differing and not keyed:
                return None
            return self._by_opposite() or self._by_words()
        if self.opposites or ours.negated:
            return None  # two denials can both be true
        if differing:
            return self._by_value(differing)
        if agreeing and (keyed or not (self.ours and self.theirs)):
            return None
        if keyed and (ours.names & theirs.names) - {*ours.subject, *theirs.subject}:
            return None  # both give the same name, in other words
        return self._by_words()

    def _by_negation(self) -> Verdict | None:
        sides = [(self.first, self.ours), (self.second, self.theirs)]
        sides.sort(key=lambda side: side[0].negated)
        (asserted, only_asserted), (denied, only_denied) = sides
        if only_denied or len(only_asserted) > max(2, 2 * len(self.shared)):
            return None
        if denied.values and not asserted.values:
            return None  # "not 900 seconds" denies the number, and the other names none
        telling = only_asserted & {*asserted.subject, *_SPECIFYING}
        if not self.keyed and _other_thing(telling, asserted):
            return None
        return self._said("negation", 0.6 + 0.35 * self.coverage)

    def _by_opposite(self) -> Verdict | None:
        one, other = self.opposites[0]
        if (self.ours and self.theirs) or not self._one_thing():
            return None
        if one in self.first.subject and other in self.second.subject and not self.keyed:
            return None  # "the left door", "the right door": two doors
        first = self.first.surfaces.get(one, one)
        second = self.second.surfaces.get(other, other)
        return self._verdict("antonym", 0.5 + 0.4 * self.coverage, first, second)

    def _by_value(self, differing: list[tuple[Value, Value]]) -> Verdict | None:
        one, other = differing[0]
        if not self.keyed:
            if len({_family(value) for value, _ in differing}) > 1:
                return None  # last year's figure and this year's are two facts
            if (self.ours and self.theirs) or not self._one_thing():
                return None
            if len(differing) > 1 and _names_its_thing(one) and _names_its_thing(other):
                return None  # "table 5 ordered 2 coffees", "table 6 ordered 3": two tables
        version = "version" in (one.kind, other.kind)
        if version and not self.shared.isdisjoint(_MANY_VERSIONS):
            return None  # one version is supported and so is another
        weekdays = one.parts[:3] == other.parts[:3] == (None, None, None)
        if weekdays and not self.shared.isdisjoint(_MANY_DAYS):
            return None  # it is open on Monday, and on Tuesday too
        reason = "version" if version else _family(one)
        return self._verdict(reason, 0.6 + 0.35 * self.coverage, one.shown, other.shown)

    def _by_words(self) -> Verdict | None:
        """Another name or word as the value of one attribute."""
        ours, theirs = self.first, self.second
        if not self.ours or not self.theirs:
            return None
        named = bool(self.ours & ours.names) and bool(self.theirs & theirs.names)
        if not self.keyed:
            if ours.verb in self.ours and theirs.verb in self.theirs:
                return None  # living somewhere and working somewhere are two attributes
            sorts = self._one_sort()
            if not sorts and not (
                ours.single
                and theirs.single
                and _in_value_place(ours, self.ours)
                and _in_value_place(theirs, self.theirs)
                and len(self.ours) + len(self.theirs) <= 2 + 2 * len(self.shared)
            ):
                return None
            named = named or sorts
        sure = (0.6 if named else 0.5) + 0.25 * self.coverage + (0.1 if self.keyed else 0.0)
        first, second = _words(ours, self.ours), _words(theirs, self.theirs)
        return self._verdict("name" if named else "value", sure, first, second)

    def _one_sort(self) -> bool:
        """Whether both sides name things of one sort of which people have one: two databases."""
        ours, theirs = self.first, self.second
        one_of = EXCLUSIVE | ({"color"} if ours.copula and theirs.copula else set())
        our, their = (
            {word: sort for word, sort in side.sorts.items() if word in only and sort in one_of}
            for side, only in ((ours, self.ours), (theirs, self.theirs))
        )
        sorts = {*our.values()} & {*their.values()}
        rest = (self.ours | self.theirs) - {*our, *their, *sorts}
        placed = _in_value_place(ours, {*our}) and _in_value_place(theirs, {*their})
        return bool(sorts) and len(rest) <= 1 and placed

    def _one_thing(self) -> bool:
        """Whether the words that one side has more leave it the same thing."""
        if len(self.ours) + len(self.theirs) > max(1, len(self.shared)):
            return False
        return self.keyed or not (
            _other_thing(self.ours, self.first, self.second)
            or _other_thing(self.theirs, self.second, self.first)
        )

    def _said(self, reason: Reason, confidence: float) -> Verdict:
        return self._verdict(reason, confidence, _saying(self.first), _saying(self.second))

    def _verdict(self, reason: Reason, confidence: float, first: str, second: str) -> Verdict:
        return Verdict(
            kind="contradicts",
            reason=reason,
            subject=_words(self.first, self.shared)[:200],
            first_value=first[:200],
            second_value=second[:200],
            confidence=round(min(0.99, max(0.0, confidence)), 4),
        )


_MANY_VERSIONS = frozenset(map(canonical, WORDS.many_versions))
_MANY_DAYS = frozenset(map(canonical, WORDS.many_days))
_SPECIFYING = frozenset(map(canonical, WORDS.specifiers))


def _match_values(
    ours: Sequence[Value], theirs: Sequence[Value]
) -> tuple[int, list[tuple[Value, Value]]]:
    """How many values agree, and the comparable pairs for which nothing agrees."""
    agreeing = 0
    left, open_theirs = list(ours), list(theirs)
    for one in ours:
        same = (o for o in open_theirs if values_comparable(one, o) and values_agree(one, o))
        if (twin := next(same, None)) is not None:
            agreeing += 1
            left.remove(one)
            open_theirs.remove(twin)
    differing: list[tuple[Value, Value]] = []
    for one in left:
        candidates = [other for other in open_theirs if values_comparable(one, other)]
        candidates.sort(key=lambda other: other.unit != one.unit)
        if candidates:
            open_theirs.remove(candidates[0])
            differing.append((one, candidates[0]))
    return agreeing, differing


def _names_its_thing(value: Value) -> bool:
    """Whether a number may be part of a name: it counts and measures nothing."""
    return bool(value.label) or (value.kind in ("number", "version") and not value.unit)


def _family(value: Value) -> Reason:
    return "date" if value.kind == "time" else value.kind


def _other_thing(extra: set[str], side: JudgedClause, other: JudgedClause | None = None) -> bool:
    """Whether words on one side alone say that it is another thing of the same sort."""
    if any(word in _SPECIFYING or word in side.names for word in extra):
        return True
    if other is None or not other.person or other.subject:
        return False
    return not extra.isdisjoint(side.subject)  # "I hate it", "my brother hates it"


def _in_value_place(clause: JudgedClause, only: set[str]) -> bool:
    """Whether the words of one side alone stand after words that both share."""
    return only.isdisjoint(clause.subject) and (clause.order[0] not in only or bool(clause.person))


def _words(clause: JudgedClause, only: set[str] | frozenset[str]) -> str:
    return " ".join(clause.surfaces.get(w, w) for w in dict.fromkeys(clause.order) if w in only)


def _saying(clause: JudgedClause) -> str:
    words = _words(clause, clause.bag)
    return f"not {words}" if clause.negated else words


# ----------------------------------------------------------------------------
# The judge: the surest conflict of any two clauses, past the veto, and which side is newer.


MOST_SENTENCES = 5_000
MOST_CANDIDATES = 50
"""Bounds of one search for conflicts: sentences a side, and comparisons a sentence."""

UNRELATED = Verdict(kind="unrelated")
NONE = Verdict(kind="none")


Read = Callable[[str], StatementReading]


def judge(first: Statement, second: Statement, *, read: Read = read_statement) -> Verdict:
    """How `second` stands to `first`; the order only decides which side is which (J1).

    `read` is `read_statement`, or gives what that gave before for the same text (J6).
    """
    keyed = bool(first.key and second.key)
    if keyed and first.key.casefold() != second.key.casefold():
        return UNRELATED
    if first.text == second.text:
        return NONE
    if second.text < first.text:  # one order for both directions, so that they agree (J1)
        return judge(second, first, read=read).swapped()
    found, related = _surest(first, second, read, keyed=keyed)
    if found is not None and (keyed or probability(found.features) >= _veto()["least"]):
        return found.verdict
    return NONE if related else UNRELATED


class ClauseFinding(NamedTuple):
    """What the rules find in two clauses, and what the veto looks at."""

    verdict: Verdict
    features: dict[str, float]


def find_unvetoed(first: str, second: str) -> ClauseFinding | None:
    """What the rules alone find in two texts without keys: what the veto is fitted on."""
    one, other = (Statement(text=text) for text in sorted((first, second)))
    return _surest(one, other, read_statement, keyed=False)[0]


def _surest(
    first: Statement, second: Statement, read: Read, *, keyed: bool
) -> tuple[ClauseFinding | None, bool]:
    """The surest conflict of any two clauses, and whether the texts are about one thing."""
    best: ClauseFinding | None = None
    related = keyed
    first_reading, second_reading = read(first.text), read(second.text)
    if not keyed and first_reading.words.isdisjoint(second_reading.words):
        return None, False
    for ours in first_reading.clauses:
        for theirs in second_reading.clauses:
            if not (ours.asserted and theirs.asserted):
                continue
            shared = len(ours.bag & theirs.bag)
            if not keyed and not shared and ours.topics.isdisjoint(theirs.topics):
                continue
            related = related or 2 * shared >= min(len(ours.bag), len(theirs.bag))
            pair = _Pair(ours, theirs, keyed=keyed)
            found = pair.compare()
            if found is not None and (best is None or found.confidence > best.verdict.confidence):
                newer = _newer(found, ours, theirs, first.date, second.date)
                if newer:
                    found = replace(found, kind="supersedes", newer=newer)
                best = ClauseFinding(found, features_of(pair, found.reason))
    return best, related


def _newer(
    found: Verdict,
    ours: JudgedClause,
    theirs: JudgedClause,
    our_date: datetime | None,
    their_date: datetime | None,
) -> Side:
    """The side that says of itself that it holds now; "" where neither does."""
    if ours.past != theirs.past:
        if found.reason != "negation":
            return "second" if ours.past else "first"
        # "I live in Lima", "I used to live in Lima": the one that says it ended is the newer.
        past, present = (our_date, their_date) if ours.past else (their_date, our_date)
        if past is None or present is None or utc(past) >= utc(present):
            return "first" if ours.past else "second"
        return ""
    if our_date is not None and their_date is not None and utc(our_date) != utc(their_date):
        later: Side = "first" if utc(our_date) > utc(their_date) else "second"
        return later if (ours if later == "first" else theirs).change else ""
    if ours.change != theirs.change:
        return "first" if ours.change else "second"
    return ""


# The veto: what the rules find without a key counts only if such pairs mostly do conflict.
# "Jon is working on a plan" and "Jon is working on his website" differ as two values of one
# attribute do. The weights are fitted by `benchmarks/fit_conflicts.py`.


@cache
def _veto() -> dict[str, Any]:
    """The `weights` of the features, the `bias`, and the `least` probability that counts."""
    told: dict[str, Any] = read_json("conflicts.json")
    return told


def features_of(pair: _Pair, reason: Reason) -> dict[str, float]:
    """What the veto looks at, each about between 0 and 1; the same for both orders."""
    ours, theirs = pair.first, pair.second
    extra = sorted((len(pair.ours), len(pair.theirs)))
    return {
        **{name: float(reason == name) for name in ("negation", "antonym", "name", "value")},
        "typed": float(reason in ("number", "date", "version")),
        "coverage": pair.coverage,
        "extra": min(extra[1], 6) / 6,
        "extra_both": min(extra[0], 6) / 6,
        "shared": min(len(pair.shared), 6) / 6,
        "same_verb": float(bool(ours.verb) and ours.verb == theirs.verb),
        "copulas": (ours.copula + theirs.copula) / 2,
        "change": float(ours.change or theirs.change),
        "long_value": float(reason == "value" and extra[1] > 2),
    }


def probability(features: Mapping[str, float]) -> float:
    """How likely it is that two statements with these features contradict each other."""
    weights = _veto()["weights"]
    total = _veto()["bias"] + sum(weights[name] * value for name, value in features.items())
    return float(1 / (1 + math.exp(-total)))


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
    read = cache(read_statement)
    their_parts = list(_parts(theirs, read))
    by_word: defaultdict[str, list[int]] = defaultdict(list)
    for place, (_, part) in enumerate(their_parts):
        for word in read(part.text).words:
            by_word[word].append(place)
    found: list[Conflict] = []
    for our_index, our in _parts(ours, read):
        shared = Counter(at for word in read(our.text).words for at in by_word.get(word, ()))
        nearest = sorted(shared, key=lambda place: (-shared[place], place))[:MOST_CANDIDATES]
        for place in sorted(nearest):
            index, their = their_parts[place]
            said = judge(our, their, read=read)
            if said.conflicting and said.confidence >= least_confidence:
                sides = {"our_index": our_index, "their_index": index}
                found.append(Conflict(ours=our, theirs=their, verdict=said, **sides))
    found.sort(key=lambda conflict: -conflict.verdict.confidence)
    return tuple(found[:most])


def _parts(statements: Sequence[Statement], read: Read) -> Iterator[tuple[int, Statement]]:
    seen: set[tuple[str, datetime | None, str]] = set()
    for index, statement in enumerate(statements):
        for start, end in sentences(statement.text):
            text = statement.text[start:end]
            said = (text, statement.date, statement.key)
            if said in seen:
                continue
            seen.add(said)
            if read(text).clauses:
                yield index, replace(statement, text=text)
            if len(seen) >= MOST_SENTENCES:
                return
