"""The rules that find a stated fact in one clause: who or what, which attribute, which value."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from agentmem.core.conflicts_kinds import SORTS
from agentmem.core.conflicts_values import month_number, weekday_number
from agentmem.core.conflicts_words import ATTRIBUTES, DEFINITE
from agentmem.core.living.keys import fact_key, key_words, normal_word
from agentmem.core.values import dataclass

LONGEST_VALUE = 80
MOST_VALUE_WORDS = 8

_FLAGS = re.IGNORECASE
_S = r"(?P<s>[^,;:=?!]{1,70}?)"
_V = r"(?P<v>[^;?!]{1,160})"
_NOW = r"(?:\s+(?:now|currently|always|still|usually|already|generally|typically|all|mostly))?"
_CHANGED = (
    r"(?:switched|moved|migrated|changed|transitioned|upgraded|standardi[sz]ed|settled)(?:\s+over)?"
    r"(?:\s+from\s+[^,;]{1,40}?)?\s+(?:to|on)"
)
# The clause goes on after the value: what follows one of these is no part of it.
_VALUE_END = re.compile(
    r"\s+(?:because|since|which|that|who|so|when|while|until|unless|instead|rather|but|if|where"
    r"|although|though|due to|in order|from now on|going forward|these days|at the moment"
    r"|right now|anymore|any more|as of|starting|effective|now)\b|\s*[(—–]|,\s|\s-\s",
    _FLAGS,
)
_OPENERS = re.compile(
    r"^(?:(?:also|note that|note|fyi|btw|by the way|remember that|remember|please note that"
    r"|please remember that|for the record|just so you know|heads up|reminder|actually|basically"
    r"|so|and|well|ok|okay|yes|update|it turns out that|it turns out|for context|for reference"
    r"|as you know|i confirmed that|confirmed|currently|now|today|these days|as of \w+(?: \d+)?"
    r"|since \w+(?: \d+)?|starting (?:in|on|from) \w+(?: \d+)?|from now on|going forward)"
    r"(?:\s*[,:]\s*|\s+))+",
    _FLAGS,
)
_BELIEF = re.compile(r"^(?:i (?:think|believe|guess|suppose)|i'm pretty sure)(?: that)? ", _FLAGS)
_ARTICLE = re.compile(r"^(?:a|an|the|our|my|about|around|only|just|called|named|to)\s+", _FLAGS)
_PERSON = re.compile(r"^(?:i|we|us|me|you|it|they|he|she|this|that|there|these|those|one)$", _FLAGS)
_NEGATED = re.compile(r"\b(?:not|never|no|none|nobody|without|cannot)\b|n['’]t\b", _FLAGS)
_ENDED = re.compile(r"\bno longer\s+|\s+any ?more\b", _FLAGS)
_DIGIT = re.compile(r"\d")
_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty"
    r"|fifty|sixty|ninety|hundred|thousand|million|noon|midnight|daily|weekly|monthly|hourly"
    r"|yearly|quarterly|an hour|a (?:day|week|month|year|minute|second))\b",
    _FLAGS,
)
_CLOCK = re.compile(r"\b(?:\d{1,2}:\d\d|\d{1,2}\s?[ap]\.?m\b|noon|midnight)", _FLAGS)
_SPLIT_WORDS = re.compile(r"[^\W_][\w.+#/-]*")


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact as found in a clause: its value stands at `start` to `end` of the clause."""

    key: str
    value: str
    start: int
    end: int
    confidence: float
    ended: bool = False


Found = tuple[str, float] | None
Rule = tuple[str, Callable[[re.Match[str]], Found]]


def stated_fact(clause: str) -> Stated | None:
    """The fact that a clause states, or None; the first rule that fits decides."""
    ended = _ENDED.search(clause) is not None
    bare = _ENDED.sub(" ", clause) if ended else clause
    if _NEGATED.search(bare):
        return None
    opened = _OPENERS.match(clause)
    start = opened.end() if opened else 0
    belief = _BELIEF.match(clause[start:])
    start += belief.end() if belief else 0
    body = (
        _ENDED.sub(lambda found: " " * len(found[0]), clause[start:]) if ended else clause[start:]
    )
    for pattern, read in _rules():
        match = pattern.match(body)
        if match is None:
            continue
        found = read(match)
        if found is None or not found[0]:
            continue
        key, confidence = found
        begin, end = _value_span(body, match.start("v"), match.end("v"))
        value = " ".join(body[begin:end].split())
        if not value or len(value.split()) > MOST_VALUE_WORDS or len(value) > LONGEST_VALUE:
            return None
        if _PERSON.match(value):
            return None
        return Stated(
            key, value, start + begin, start + end, confidence * (0.6 if belief else 1.0), ended
        )
    return None


def _value_span(text: str, start: int, end: int) -> tuple[int, int]:
    """The value without what follows it, its article and the marks around it."""
    cut = _VALUE_END.search(text, start, end)
    if cut is not None:
        end = cut.start()
    article = _ARTICLE.match(text[start:end])
    if article:
        start += article.end()
    while start < end and text[start] in " \t\"'“”‘’`*_":
        start += 1
    while start < end and text[end - 1] in " \t.,:;!\"'“”‘’`*_":
        end -= 1
    return start, end


def _value(match: re.Match[str]) -> str:
    begin, end = _value_span(match.string, match.start("v"), match.end("v"))
    return match.string[begin:end]


def is_typed(value: str) -> bool:
    """Whether a value is an amount, a date, a time or a version."""
    return (
        _DIGIT.search(value) is not None
        or _NUMBER_WORD.search(value) is not None
        or _date_sort(value) is not None
    )


def _date_sort(value: str) -> str | None:
    if _CLOCK.search(value):
        return "time"
    words = [word.lower().rstrip(".") for word in _SPLIT_WORDS.findall(value)]
    if any(len(word) > 5 and weekday_number(word) is not None for word in words):
        return "day"
    if any(len(word) > 2 and month_number(word) and word != "may" for word in words) or (
        "May" in value.split() or re.search(r"\b(?:19|20)\d\d\b", value)
    ):
        return "date"
    return None


def _sort_of(value: str) -> str | None:
    """The sort of the first known name in a value: "database" for "Postgres 15"."""
    words = value.split()
    for word in words[:3]:
        lowered = word.lower().strip(".,`'\"")
        sort = SORTS.get(lowered)
        if sort is not None and sort != "color" and (lowered != "go" or word[:1].isupper()):
            return sort
    return None


_JUDGING = (
    "very too so quite really more less being going not awesome amazing great tough incredible good"
    " bad nice important hard easy key something one some all fine ok okay cool fun beautiful"
    " wonderful terrible horrible perfect interesting exciting boring weird strange funny hilarious"
    " lovely best better worse worst pretty super totally always never here there coming ready done"
    " broken wrong right true false tomorrow today yesterday soon tonight next last also still just"
    " like what how why where who when unclear unknown different similar same worth such my his her"
    " delicious fantastic excellent brilliant impressive inspiring huge big small long short high"
    " low full empty up down on off in out over under about because due ongoing"
)
_OPINIONS = frozenset(_JUDGING.split())
_VERBAL = (
    "to that who which when while because decided agreed chose want wants need needs plan try have"
    " has had can must does do did make makes let see saw know there here it this i you they he she"
    " we and or"
)
_NO_SUBJECT = frozenset(_VERBAL.split())


def _subject(text: str) -> str | None:
    """The subject as it may stand in a key: "" for "we", None when it is no name of a thing."""
    stripped = text.strip()
    if re.fullmatch(r"(?:we|i|our team|the team|us|my team|everyone|everybody)", stripped, _FLAGS):
        return ""
    words = stripped.lower().replace("’", "'").split()
    if words and words[0].endswith("ing"):
        return None  # "learning a language is …" tells of doing, not of a thing
    if any(word.partition("'")[0] in _NO_SUBJECT and "'" in word for word in words):
        return None
    if _PERSON.match(stripped) or len(words) > 7 or not _NO_SUBJECT.isdisjoint(words):
        return None
    return stripped


def _with(attribute: str, *, typed: bool = False) -> Callable[[re.Match[str]], Found]:
    """A reader for rules whose attribute is fixed: "lives in" is always the location."""

    def read(match: re.Match[str]) -> Found:
        subject = _subject(match["s"])
        value = _value(match)
        if subject is None or not value or (typed and not is_typed(value)):
            return None
        if attribute == "duration" and _date_sort(value):
            return None  # "we met last Friday"
        if not typed and value.split()[0].lower() in _OPINIONS - {"my", "his", "her"}:
            return None
        return fact_key(subject, attribute), 0.8

    return read


def _used(match: re.Match[str]) -> Found:
    subject = _subject(match["s"])
    if subject is None:
        return None
    value = _value(match)
    if sort := _sort_of(value):
        return fact_key(subject, sort), 0.85
    if not match["use"] or _date_sort(value):
        return None  # "we run on coffee"
    if match["role"] and (words := key_words(match["role"])):
        return fact_key(subject, " ".join(words)), 0.8
    named = [word for word in value.split() if not _DIGIT.match(word)]
    if not 1 <= len(named) <= 3 or not value[:1].isalnum() or named[0].lower() in _OPINIONS:
        return None
    if re.match(r"(?:the|my|our|a|an|this|that|his|her|it|your)\b", match["v"].strip(), _FLAGS):
        return None  # "we use the time", not the name of a thing
    if value.islower() and len(named) > 1:
        return None
    return fact_key(subject, " ".join(["uses", *key_words(" ".join(named))])), 0.6


def _changed(match: re.Match[str]) -> Found:
    subject = _subject(match["s"])
    if subject is None:
        return None
    value = _value(match)
    if sort := _sort_of(value):
        return fact_key(subject, sort), 0.85
    moved = re.search(r"\b(?:moved|relocated)\b", match[0], _FLAGS)
    if moved and value[:1].isupper() and not is_typed(value):
        return fact_key(subject, "location"), 0.75
    if subject and is_typed(value):
        return _dated_key(subject, value), 0.8
    return None


def _dated_key(subject: str, value: str) -> str:
    """The key of a subject whose value may say when: "meeting day", else the subject itself."""
    sort = _date_sort(value)
    words = key_words(subject)
    if re.search(r"\byears? old\b", value, _FLAGS):
        return fact_key(subject, "age")
    if sort is None or any(word in _HEADS for word in words[-1:]):
        return fact_key(subject)
    return fact_key(subject, sort)


def _scheduled(match: re.Match[str]) -> Found:
    subject = _subject(match["s"])
    sort = _date_sort(_value(match))
    if not subject or sort is None:
        return None
    return _dated_key(subject, _value(match)), 0.85


def _done_on(match: re.Match[str]) -> Found:
    sort = _date_sort(_value(match))
    return (fact_key(match["s"], sort), 0.85) if sort else None


def _counted(match: re.Match[str]) -> Found:
    subject = _subject(match["s"])
    words = _value(match).split()
    if subject is None or len(words) < 2:
        return None
    return fact_key(f"{subject} {' '.join(words[1:])}", "count"), 0.75


def _has_attribute(match: re.Match[str]) -> Found:
    """ "The retry limit is 3": the subject names an attribute, or the value is an amount."""
    subject = _subject(match["s"])
    if not subject:
        return None
    value = _value(match)
    words = key_words(subject)
    if not words or not value:
        return None
    owned = re.search(r"\b(?:my|our|your|his|her|its|their)\b|['’]s\b", subject, _FLAGS)
    before_of = key_words(re.split(r"\s(?:of|for|in|on|at|with)\s", subject)[0])
    head = (before_of or words)[-1]
    one_valued = head in _HEADS or any(word in _DEFINITE for word in words)
    if is_typed(value):
        if not (one_valued or owned or len(words) > 1 or head in _HEADS):
            return None
        return _dated_key(subject, value), 0.9
    if not one_valued:
        return None
    first = value.split()[0].lower()
    if len(value.split()) > 4 or first in _OPINIONS or (first.endswith("ing") and value.islower()):
        return None
    return fact_key(subject), 0.9


def _turned_round(match: re.Match[str]) -> Found:
    """ "Postgres is our database": the value comes first."""
    value = match["v"].strip()
    attribute = _VALUE_END.split(match["s"])[0]
    words = key_words(re.split(r"\s(?:of|for|in|at)\s", attribute)[0])
    if not words or words[-1] not in _HEADS or key_words(value)[-1:] == []:
        return None
    if not (value[:1].isupper() or _sort_of(value)) or _PERSON.match(value):
        return None
    if re.match(r"(?:the|this|that|our|my|his|her|it)\b", value, _FLAGS):
        return None
    return fact_key(attribute), 0.85


def _led(match: re.Match[str]) -> Found:
    attribute = _LEADING[match["verb"].lower()]
    value = match["v"].strip()
    if not value[:1].isupper() or _PERSON.match(value) or len(value.split()) > 3:
        return None
    return fact_key(_VALUE_END.split(match["s"])[0], attribute), 0.8


def _set_to(match: re.Match[str]) -> Found:
    subject = _subject(match["s"])
    if not subject:
        return None
    value = _value(match)
    if (
        not is_typed(value)
        and key_words(subject)[-1:] != []
        and (key_words(subject)[-1] not in _HEADS)
    ):
        return None
    return _dated_key(subject, value), 0.85


_HEADS = frozenset(normal_word(word) for word in ATTRIBUTES)
_DEFINITE = frozenset(normal_word(word) for word in DEFINITE - {"first", "only"})
_LEADING = {
    "leads": "lead", "heads": "lead", "owns": "owner", "manages": "manager",
    "maintains": "maintainer", "chairs": "chair",
}  # fmt: skip
_BE = r"(?:is|are|am|'m|’m|'re|’re)"
_TO = r"(?:was|were|has been|have been|got|is|are)"
_USE = (
    r"(?:(?P<use>use|uses|are using|am using|is using|'re using|'m using|adopted)"
    r"|rely on|relies on|run on|runs on|host on|hosts on|deploy to|deploys to|deploy on"
    r"|chose|went with"
    r"|picked|standardi[sz]ed on)"
)

_RULES: tuple[Rule, ...] = (
    (rf"{_S}(?:['’]s)?\s+name{_NOW}\s*(?:is|:|=)\s+{_V}$", _with("name")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:called|named)\s+{_V}$", _with("name")),
    (
        rf"{_S}{_NOW}\s+(?:listens? on|runs? on|is on|uses)\s+port\s+{_V}$",
        _with("port", typed=True),
    ),
    (
        (
            rf"{_S}{_NOW}\s+{_USE}\s+(?P<v>[^;?!]{{1,80}}?)"
            rf"(?:\s+(?:as|for)\s+(?P<role>[^,;.?!]{{1,40}}))?(?=[.,]?$|[.,;]"
            rf"|\s+(?:because|since|so"
            rf"|which|and|but|when|instead|rather|now|until)\b)"
        ),
        _used,
    ),
    (rf"{_S}(?:\s+have|\s+has|['’]ve)?{_NOW}\s+{_CHANGED}\s+{_V}$", _changed),
    (rf"{_S}(?:\s+have|\s+has|['’]ve)?\s+relocated(?:\s+from\s+\S+)?\s+to\s+{_V}$", _changed),
    (
        (
            rf"{_S}\s+{_TO}{_NOW}\s+(?:raised|lowered|increased|decreased|reduced|changed"
            rf"|extended|set"
            rf"|moved|bumped|capped|limited|fixed|postponed|rescheduled|updated|renamed)"
            rf"(?:\s+from\s+\S+(?:\s\S+)?)?\s+(?:to|at)\s+{_V}$"
        ),
        _set_to,
    ),
    (rf"{_S}{_NOW}\s+defaults?\s+to\s+{_V}$", _with("default")),
    (
        rf"{_S}{_NOW}\s+(?:lives?|resides?|sits?)\s+(?:in|at|on|under|near)\s+{_V}$",
        _with("location"),
    ),
    (
        (
            rf"{_S}\s*{_BE}{_NOW}\s+(?:based|located|stored|kept|situated|headquartered)"
            rf"\s+(?:in|at|on|under|near)\s+{_V}$"
        ),
        _with("location"),
    ),
    (rf"{_S}{_NOW}\s+works?\s+as\s+{_V}$", _with("job")),
    (rf"{_S}{_NOW}\s+works?\s+(?:at|for)\s+{_V}$", _with("employer")),
    (rf"{_S}\s+(?:was|were)\s+born\s+in\s+(?P<v>[A-Z][^;?!]{{1,60}})$", _with("birthplace")),
    (rf"{_S}\s+(?:was|were)\s+born\s+(?:in|on)\s+{_V}$", _with("birth date", typed=True)),
    (rf"{_S}{_NOW}\s+reports?\s+to\s+{_V}$", _with("manager")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:written|implemented)\s+in\s+{_V}$", _with("language")),
    (rf"{_S}\s*{_BE}{_NOW}\s+licensed\s+under\s+{_V}$", _with("license")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:owned)\s+by\s+{_V}$", _with("owner")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:maintained)\s+by\s+{_V}$", _with("maintainer")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:led|headed)\s+by\s+{_V}$", _with("lead")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:managed)\s+by\s+{_V}$", _with("manager")),
    (rf"{_S}\s*{_BE}{_NOW}\s+(?:hosted|deployed)\s+(?:on|in|at|by|to)\s+{_V}$", _with("host")),
    (
        (
            rf"(?P<v>[^,;:=?!]{{1,40}}?){_NOW}\s+(?P<verb>leads|heads|owns|manages"
            rf"|maintains|chairs)"
            rf"\s+(?:the|our|my)\s+(?P<s>[^,;?!]{{1,50}})$"
        ),
        _led,
    ),
    (
        (
            rf"(?:we|i){_NOW}\s+(?P<s>deploy|release|ship|meet|publish|review|run|plan"
            rf"|launch|train)"
            rf"{_NOW}\s+(?:on|every|each|at)\s+{_V}$"
        ),
        _done_on,
    ),
    (
        (
            rf"{_S}{_NOW}\s+(?:go out|goes out|go live|happens?|takes? place|is held"
            rf"|are held|occurs?"
            rf"|is due|are due|is scheduled|are scheduled|runs?|meets?|ships?|starts?"
            rf"|begins?|{_BE})"
            rf"{_NOW}\s+(?:on|at|every|each|for|by)\s+{_V}$"
        ),
        _scheduled,
    ),
    (rf"{_S}{_NOW}\s+expires?\s+(?:on|in|at|after)\s+{_V}$", _with("expiry", typed=True)),
    (rf"{_S}{_NOW}\s+(?:opens?)\s+(?:on|at)\s+{_V}$", _with("opening", typed=True)),
    (rf"{_S}{_NOW}\s+(?:closes?)\s+(?:on|at)\s+{_V}$", _with("closing", typed=True)),
    (rf"{_S}{_NOW}\s+ends?\s+(?:on|at|in|after)\s+{_V}$", _with("end", typed=True)),
    (rf"{_S}{_NOW}\s+(?:takes?|lasts?)\s+{_V}$", _with("duration", typed=True)),
    (rf"{_S}{_NOW}\s+costs?\s+{_V}$", _with("price", typed=True)),
    (rf"{_S}{_NOW}\s+weighs?\s+{_V}$", _with("weight", typed=True)),
    (rf"{_S}{_NOW}\s+(?:times? out|timeout)\s+after\s+{_V}$", _with("timeout", typed=True)),
    (
        (
            rf"{_S}{_NOW}\s+(?:has|have)\s+(?P<v>(?:\d[\d,.]*|one|two|three|four|five|six"
            rf"|seven|eight"
            rf"|nine|ten|eleven|twelve)\s+[a-z]+(?:\s+[a-z]+)?)(?=[.,]?$)"
        ),
        _counted,
    ),
    (rf"{_S}\s*(?:{_BE}{_NOW}|:|=)\s+{_V}$", _has_attribute),
    (
        rf"(?P<v>[^,;:=?!]{{1,50}}?)\s+{_BE}{_NOW}\s+(?:the|our|my)\s+(?P<s>[^,;?!]{{1,60}})$",
        _turned_round,
    ),
)


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Found]], ...]:
    # Compiled when first needed: importing the package stays light.
    return tuple((re.compile(r"\s*" + pattern, _FLAGS), read) for pattern, read in _RULES)


def clauses_of(sentence: str) -> Iterator[tuple[int, int]]:
    """Where the clauses of a sentence begin and end; most sentences have one."""
    start = 0
    for cut in _CLAUSE.finditer(sentence):
        yield start, cut.start()
        start = cut.end()
    yield start, len(sentence)


_CLAUSE = re.compile(
    r"\s*;\s+|,?\s+but\s+|,\s+and\s+|\s+and\s+(?=(?:we|our|my|the|it|i)\b)|,\s+so\s+|\s+[—–]\s+",
    _FLAGS,
)
