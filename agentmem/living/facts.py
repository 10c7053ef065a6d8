"""What a text states, found without a model: facts, decisions with reasons, errors with fixes.

Only plain assertions count. Questions, conditions and wishes, what somebody
else said, quotations, code blocks and denials give nothing: a fact that was
never stated is worse than one that is missed. Who may be believed is decided
elsewhere, by the origin of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.errors import InvalidInput
from agentmem.base.types import Memory
from agentmem.data import Words, patterns_of
from agentmem.living.conflicts import PERSONS, SORTS, WORDS, month_number, weekday_number
from agentmem.text.detect import of_project
from agentmem.text.regions import (
    Span,
    code_spans,
    cover,
    element_spans,
    quotation_spans,
    quoted_line_spans,
)
from agentmem.text.sentences import sentences
from agentmem.text.statements import orders

P = patterns_of("facts.json")
W = Words(P.told["sets"])
"""The patterns, rules and words by which facts are read."""

# ----------------------------------------------------------------------------
# Facts, episodes, patterns and workflows as values, and how each is kept in a memory row.
#
# A record becomes three things of a row: its `kind`, a `text` that reads well and
# can be searched, and `metadata` as JSON, from which the same record is read back (L1).


ArtifactKind = Literal["commit", "pr", "adr", "file"]
EpisodeSort = Literal["event", "decision", "error"]
FactScope = Literal["", "user", "project"]

RECORD = "record"
"""The metadata key that holds a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One attribute with its value: key "database", value "Postgres 15".

    `start` and `end` say where in the text it was stated; `ended` that it is
    stated to hold no longer; `scope` of whom it was said: of the `user` ("my
    landlord"), of the `project` or team at hand ("we", "this repo"), or "" of neither.
    """

    key: str
    value: str
    text: str = ""
    confidence: float = 1.0
    start: int = 0
    end: int = 0
    ended: bool = False
    scope: FactScope = ""

    def __post_init__(self) -> None:
        _require_texts(self, "key", "value", "text")
        require_choice(self.scope, get_args(FactScope), "scope")
        require_unit(self.confidence, "confidence")
        require_count(self.start, "start")
        require_count(self.end, "end", least=self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeArtifact:
    """What an episode left behind: a commit, a pull request, a decision record or a file."""

    kind: ArtifactKind
    reference: str

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(ArtifactKind), "kind")
        require_text(self.reference, "reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Something that happened: an event, a decision with its reason, an error with its fix."""

    title: str
    narrative: str = ""
    artifacts: tuple[EpisodeArtifact, ...] = ()
    sort: EpisodeSort = "event"
    reason: str = ""
    error: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        _require_texts(self, "title", "narrative", "reason", "error", "fix")
        require_choice(self.sort, get_args(EpisodeSort), "sort")
        _require_all(self.artifacts, EpisodeArtifact, "artifacts")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedEpisode(Episode):
    """A decision or a fixed error, and where a text states it; kept as a plain episode."""

    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A way things are done here: when `trigger`, write `template`; `hint` says why or how."""

    trigger: str
    template: str
    hint: str = ""

    def __post_init__(self) -> None:
        _require_texts(self, "trigger", "template", "hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Steps that worked before, in order, when `trigger` came up."""

    trigger: str
    steps: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require_text(self.trigger, "trigger")
        _require_all(self.steps, str, "steps")
        for step in self.steps:
            require_text(step, "steps")
        for name, detail in self.details.items():
            require_text(name, "details")
            require_text(detail, "details")


Record = Fact | Episode | Pattern | Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFields:
    """The fields of a memory row that a record decides."""

    kind: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def to_memory_fields(record: Record) -> MemoryFields:
    """What to store for `record`; `from_memory` of such a row gives the record back (L1)."""
    more: dict[str, Any] = {}
    match record:
        case Fact():
            kind, title = "fact", record.key
            parts = [record.text or f"{record.key}: {record.value}"]
        case Episode():
            kind, title, parts = "episode", record.title, [record.title, record.narrative]
            more = {"artifacts": [[one.kind, one.reference] for one in record.artifacts]}
        case Pattern():
            kind, title = "pattern", record.trigger
            parts = [f"When: {record.trigger}", record.template, record.hint]
        case Workflow():
            kind, title = "workflow", record.trigger
            steps = "\n".join(f"{number}. {step}" for number, step in enumerate(record.steps, 1))
            parts = [f"When: {record.trigger}\n\n{steps}".strip()]
            more = {"steps": list(record.steps), "details": dict(record.details)}
    plain = {name: getattr(record, name) for name in _RECORDS[kind].__dataclass_fields__}
    return MemoryFields(
        kind=kind,
        text="\n\n".join(filter(None, parts)),
        title=title,
        metadata=MappingProxyType({RECORD: {**plain, **more}}),
    )


def from_memory(memory: Memory) -> Record | None:
    """The record a memory holds, or None when it holds none or one that cannot be read.

    Metadata may come from an import: fields that are missing get their
    defaults, and what does not fit is no record, never an error.
    """
    data, sort = memory.metadata.get(RECORD), _RECORDS.get(memory.kind)
    if sort is None or not isinstance(data, Mapping):
        return None
    fields = {name: data[name] for name in sort.__dataclass_fields__ if name in data}
    try:
        if sort is Episode:
            pairs = fields.get("artifacts", ())
            fields["artifacts"] = tuple(EpisodeArtifact(kind=p[0], reference=p[1]) for p in pairs)
        elif sort is Workflow:
            fields["steps"] = tuple(fields.get("steps", ()))
            fields["details"] = MappingProxyType(dict(fields.get("details", {})))
        record: Record = sort(**fields)
    except (InvalidInput, TypeError, ValueError, KeyError):
        return None
    return record


_RECORDS: dict[str, type[Any]] = {
    "fact": Fact, "episode": Episode, "pattern": Pattern, "workflow": Workflow,
}  # fmt: skip


def _require_texts(record: object, *names: str) -> None:
    for name in names:
        require_text(getattr(record, name), name)


def _require_all(values: object, wanted: type, name: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, wanted) for value in values):
        raise InvalidInput(name, values, f"is not a tuple of {wanted.__name__}")


# ----------------------------------------------------------------------------
# Whether a sentence asserts something of its writer's own world, in their own voice.
#
# Questions, conditions, wishes, requests, hearsay, stories and irony do not: what
# they say may be false, and a memory of it would be junk.


_FLAGS = re.IGNORECASE
_ENDS = "\"'”’)*_ "


def is_question(sentence: str) -> bool:
    """Whether a sentence asks."""
    return sentence.rstrip(_ENDS).endswith(("?", "？"))


def is_asserted(sentence: str) -> bool:
    """Whether a sentence is a plain assertion of its writer's: no question, wish or report."""
    if not is_own(sentence) or P.asked_for.search(sentence):
        return False
    certain = P.appointed.sub(lambda found: " " * len(found[0]), sentence)
    return P.uncertain.search(certain) is None


def is_own(sentence: str) -> bool:
    """Whether the writer speaks for themselves and in earnest, however sure they are."""
    if is_question(sentence) or is_spoken_by_other(sentence):
        return False
    doubts = (P.reported, P.fiction, P.irony)
    return all(doubt.search(sentence) is None for doubt in doubts)


def is_spoken_by_other(sentence: str) -> bool:
    """Whether a name and a colon stand before what is said: "Bob: we use MySQL now"."""
    return P.speaker.match(sentence) is not None and P.labelled.match(sentence) is None


# ----------------------------------------------------------------------------
# One key for one attribute, however it is said: "the API's limit" and "limit of the API".
#
# A key is the normal forms of the words that name the subject and the attribute,
# in alphabetical order: articles, possessives and "we" fall away, plurals become
# singular, synonyms take the first word of their group. "my sister is called
# Ana" and "my sister's name is Ana" both have the key "name sister".


_DROPPED = frozenset(P.told["tables"]["articles"].split()) | frozenset(PERSONS)
_HEADS = {word: group.split()[0] for group in P.told["tables"]["same"] for word in group.split()}
_ENDINGS = {"ies": "y", "ches": "ch", "shes": "sh", "xes": "x", "sses": "ss", "ss": "ss",
            "us": "us", "is": "is", "os": "os", "s": ""}  # fmt: skip
"""How words end → how they do when there is one of them; the first that fits."""
MOST_KEY_WORDS = 6


@lru_cache(maxsize=1 << 14)
def normal_word(word: str) -> str:
    """The form of a lower-case word that keys use; readable, unlike a stem."""
    return _HEADS.get(word) or _HEADS.get(_singular(word)) or _singular(word)


def _singular(word: str) -> str:
    if word in WORDS.generic_acronyms or len(word) < 4 or not word.isalpha():
        return word
    ending = next((end for end in _ENDINGS if word.endswith(end)), "")
    return word.removesuffix(ending) + _ENDINGS.get(ending, "")


def key_words(text: str) -> list[str]:
    """The normal forms of the words in `text` that can stand in a key, in order."""
    found: list[str] = []
    for match in P.word.finditer(text):
        word = match[0].lower().replace("’", "'")
        word = word.removesuffix("'s").removesuffix("'")
        if word not in _DROPPED:
            found.append(normal_word(word))
    return found


def fact_key(subject: str, attribute: str = "") -> str:
    """The key for a subject and an attribute in its normal form.

    Empty when they have no words, or more than can name an attribute.
    """
    words = sorted({*key_words(subject), *attribute.split()})
    return " ".join(words) if len(words) <= MOST_KEY_WORDS else ""


# ----------------------------------------------------------------------------
# The words that the rules of stated facts know: heads of attributes, opinions, people, states.


def _normal(*words: str) -> frozenset[str]:
    return frozenset(map(normal_word, words))


NO_HEADS = _normal(*W.no_heads)
"""What is no attribute of anything."""
NOT_COUNTED = NO_HEADS | _normal(*W.not_counted)
"""What one has two of today, and not worth keeping."""
PEOPLE, PETS, ROLES = _normal(*W.people), _normal(*W.pets), _normal(*W.roles)
HEADS = _normal(*(WORDS.attributes | W.more_attributes) - {"capital"})
DEFINITE_WORDS = _normal(*WORDS.definite - {"first", "only"})


def _read_table(name: str) -> dict[str, str]:
    table = P.told["tables"][name]
    return {word: attribute for attribute, words in table.items() for word in words.split()}


FORMS = _read_table("forms")
"""A form that texts and names can have → what it is a form of."""
STATES = _read_table("states")
"""A state in one word → what it is a state of; of one attribute a thing has one."""


# ----------------------------------------------------------------------------
# Values as they are said: where they end, and of what sort they are.


def value_in(said: str) -> str:
    """The value without what follows it, its article and the marks around it."""
    cut = P.value_end.search(said)
    value = said[: cut.start()] if cut else said
    for before in (P.every_weekday, P.article):
        found = before.match(value)
        value = value[found.end() :] if found else value
    return value.lstrip(" \t\"'“”‘’`*_").rstrip(" \t.,:;!\"'“”‘’`*_")


def is_typed(value: str) -> bool:
    """Whether a value is an amount, a date, a time or a version."""
    return (
        P.digit.search(value) is not None
        or P.number_word.search(value) is not None
        or date_sort(value) is not None
    )


def date_sort(value: str) -> str | None:
    """Whether a value says when: a "time", a "day" of the week or a "date"."""
    if P.clock.search(value):
        return "time"
    words = [word.lower().rstrip(".") for word in P.split_words.findall(value)]
    if any(len(word) > 5 and weekday_number(word) is not None for word in words):
        return "day"
    if any(len(word) > 2 and month_number(word) and word != "may" for word in words) or (
        "May" in value.split() or P.year.search(value) or P.day_of_month.search(value)
    ):
        return "date"
    return None


def sort_of(value: str) -> str | None:
    """The sort of the first known name in a value: "database" for "Postgres 15"."""
    words = value.split()
    lowered = [word.lower().strip(".,`'\"") for word in words[:4]]
    for place, word in enumerate(lowered[:3]):
        pair = P.told["tables"]["pairs"].get(" ".join(lowered[place : place + 2]))
        sort = pair or SORTS.get(word)
        if sort is None or sort in ("color", "frequency"):
            continue
        if word not in ("go", "express", "edge", "swift", "fish") or words[place][:1].isupper():
            return sort
    return None


def is_place(value: str) -> bool:
    """Whether a value can be where something is: a path, an address, a name, a room."""
    first = value.split(maxsplit=1)[0] if value else ""
    bare = P.article.sub("", value)
    return (
        P.path.match(first.rstrip(".,")) is not None
        or P.place.match(value) is not None
        or (bare[:1].isupper() and not date_sort(value))
    )


def is_path(value: str) -> bool:
    """Whether a value is a path, a region or an address of the web."""
    return len(value.split()) == 1 and P.path.match(value) is not None


def is_name(value: str) -> bool:
    """Whether a value can name a tool or a maker: capital letters, digits, or one plain word."""
    words = value.split()
    if not 1 <= len(words) <= 4 or words[0].lower() in W.no_names:
        return False
    return (
        len(words) == 1 or any(not word.islower() for word in words) or sort_of(value) is not None
    )


def is_duration(value: str) -> bool:
    """Whether a value is an amount of time, unlike the "Friday" of "last Friday"."""
    return bool(is_typed(value) and P.time_unit.search(value) and not date_sort(value))


def is_subject(value: str) -> bool:
    """Whether one can study it: not "hard", "every day" or "for an exam"."""
    return value.split(maxsplit=1)[0].lower() not in W.how_studied


def is_person(value: str) -> bool:
    """Whether a value looks like the name of somebody: capitalised words, no more than four."""
    words = value.split()
    return 1 <= len(words) <= 4 and all(
        word[:1].isupper() or word in ("de", "van", "von", "der", "da", "la", "and")
        for word in words
    )


# ----------------------------------------------------------------------------
# What a clause speaks of: subjects that can stand in a key, and the keys made of them.


class Matched(NamedTuple):
    """What a rule finds in a clause: a subject that can stand in a key, and what is said of it."""

    match: re.Match[str]
    subject: str
    value: str
    words: list[str]
    """The words of the subject as keys have them."""

    def part(self, name: str) -> str:
        """What another part of the rule found, or ""."""
        return (self.match.groupdict().get(name) or "").strip()


Reader = Callable[[Matched], str]
"""Gives the key of the fact that was found, or "" if there is none."""


def matched(match: re.Match[str]) -> Matched | None:
    """What was found, or None when its subject is no name of a thing or nothing is said of it."""
    subject = subject_of(match.groupdict().get("s") or "we")
    value = value_in(match["v"])
    if subject is None or not value:
        return None
    return Matched(match, subject, value, key_words(subject))


def subject_of(text: str) -> str | None:
    """The subject as it may stand in a key: "" for "we", None when it is no name of a thing."""
    stripped: str = P.our_own.sub("the ", P.for_now.sub("", text.strip()))
    if P.speakers.match(stripped):
        return ""
    if P.of_others.match(stripped):
        return None
    words = stripped.lower().replace("’", "'").split()
    if words and (words[-1] in W.code_words or P.letter.search(stripped)):
        return None
    words = P.to_name.sub("", stripped).lower().replace("’", "'").split()
    if P.pronoun.match(stripped) or len(words) > 7 or not W.no_subject.isdisjoint(words):
        return None
    if not words or words[0] in W.opinions - W.may_begin:
        return None
    return stripped


def dated_key(subject: str, value: str) -> str:
    """The key of a subject whose value may say when: "meeting day", else the subject itself."""
    sort = date_sort(value)
    words = key_words(subject)
    if sort is None or any(word in HEADS for word in words[-1:]):
        return fact_key(subject)
    return fact_key(subject, sort)


# ----------------------------------------------------------------------------
# What a matched clause states: each reader gives the key of the fact.
#
# A pattern is generous, its reader strict: it asks whether the subject names a
# thing, and whether the value is of a sort that the attribute can have.


def read_scheduled(found: Matched) -> str:
    """When something happens, or we do it: on a day, at a time, or how often."""
    events = {"meet": "meeting", "back up": "backup", "ship": "release"}
    what = events.get(found.subject.lower(), found.subject)
    words = key_words(what)
    if not words or what.lower() in W.ephemeral:
        return ""
    if sort := date_sort(found.value):
        return fact_key(what, "" if words[-1] in W.dated else sort)
    often = P.often.match(found.value) and is_typed(found.value)
    return fact_key(what, "frequency") if often else ""


def read_counted(found: Matched) -> str:
    """ "Our team has seven engineers": how many of what."""
    counted = " ".join(found.value.split()[1:])
    things = key_words(counted)
    if not things or not NOT_COUNTED.isdisjoint((things[0], things[-1])) or things[0] in W.opinions:
        return ""
    return fact_key(f"{found.subject} {found.part('where')} {counted}", "count")


def read_limit(found: Matched) -> str:
    """ "The free plan allows up to 3 projects": the limit on them."""
    unit = [word for word in key_words(found.value) if word.isalpha()]
    things = unit[-1:] if found.part("holds") else []
    return fact_key(found.subject, " ".join(["limit", *things]))


def read_age(found: Matched) -> str:
    """ "My son is 6": for a person or a pet a bare number is the age."""
    grows = not found.words or found.words[-1] in PEOPLE | PETS
    return fact_key(found.subject, "age") if grows else ""


def read_set_to(found: Matched) -> str:
    """ "The retry limit was raised from 3 to 5"."""
    return dated_key(found.subject, found.value) if found.subject else ""


def with_attribute(attribute: str, fits: Callable[[str], bool]) -> Reader:
    """A reader for rules whose attribute is fixed: "lives in" is always the location."""

    def read(found: Matched) -> str:
        first = found.value.split()[0].lower()
        opinion = fits is not is_typed and first in W.opinions - {"my", "his", "her"}
        return "" if opinion or not fits(found.value) else fact_key(found.subject, attribute)

    return read


def read_name(found: Matched) -> str:
    """ "My sister is called Ana": for a role of which there is one, the role alone is the key."""
    if found.value.split()[0].lower() in W.opinions:
        return ""
    return fact_key(found.subject, "" if {*found.words[-1:]} & ROLES else "name")


def with_value(verb: str) -> Reader:
    """A reader for what one may have many of: the value is in the key, so that none is replaced."""

    def read(found: Matched) -> str:
        words = key_words(found.value)
        preference = verb in ("like", "dislike") and not found.subject  # what one likes oneself
        if not words or preference or len(found.value.split()) > 6:
            return ""
        return fact_key(found.subject, " ".join([verb, *words]))

    return read


def read_used(found: Matched) -> str:
    """ "We use Postgres for billing": the sort of thing, and what for if that is another thing."""
    subject, value, how = found.subject, found.value, found.part("how").lower()
    role = [word for word in key_words(found.part("role")) if word not in W.opinions]
    if len(role) > 3:
        role = []
    if sort := sort_of(value):
        if sort == "ci" and found.words in (["pipeline"], ["build"]):
            subject = ""
        if {*role[-1:]} & {*sort.split("-"), "project", "work", "everything"}:
            role = []  # "caching" says "cache"
        return fact_key(subject, " ".join({sort, *role}))
    named = [word for word in value.split() if not word[0].isdigit()]
    vague = P.no_value.match(found.part("v")) or not is_name(value) or not named
    if not found.part("use") or date_sort(value) or vague:
        return ""  # "we run on coffee"
    small = value.islower()
    if role and (not small or (how in ("", "for", "as") and len(value.split()) == 1)):
        return fact_key(subject, " ".join(role))
    if small and (how.startswith("to") or len(named) > 1):
        return ""  # "I use pictures to remember", "we use the time"
    return fact_key(subject, " ".join(["uses", *key_words(" ".join(named))]))


def read_tool(found: Matched) -> str:
    """ "We deploy with Helm", "code is formatted with ruff": the tool of that work."""
    if not is_name(found.value):
        return ""
    said = found.part("verb").lower()
    verb = P.told["tables"]["work"].get(said, said)
    what = key_words(f"{found.subject} {found.part('object')}")
    if sort := sort_of(found.value):
        return sort if verb != "cache" else " ".join(sorted({sort, *what}))
    work = [] if verb == "run" else [normal_word(verb)]
    return fact_key(" ".join(what), " ".join(["tool", *work]))


def read_changed(found: Matched) -> str:
    """ "We moved from Jenkins to Drone": of the sort that either of them has."""
    subject, value = found.subject, found.value
    if sort := sort_of(value) or sort_of(found.part("old")):
        return fact_key(subject, sort)
    if is_typed(value):
        return dated_key(subject, value) if subject else ""
    moved = re.search(r"\b(?:moved|relocated)\b", found.match[0], _FLAGS)
    placed = moved and value[:1].isupper() and not found.part("object")
    return fact_key(subject, "location") if placed else ""


def read_place(found: Matched) -> str:
    """ "The office is on the third floor": where a thing is, if that can be a place."""
    if not found.words or P.for_now.search(found.match.string):
        return ""
    if not is_path(found.value):
        hidden = found.part("at").lower() in ("under", "behind", "inside")
        head = found.words[-1]
        unplaced = head in NO_HEADS or (head in HEADS and head not in W.where)
        if unplaced or not P.determined.match(found.part("s")):
            return ""
        if not hidden and not is_place(found.part("v")):
            return ""
    return fact_key(found.subject, "location")


def read_form(found: Matched) -> str:
    """ "Table names are in snake_case", "the docs are in English"."""
    return fact_key(found.subject, FORMS[found.part("v").lower()]) if found.subject else ""


def read_state(found: Matched) -> str:
    """ "The repo is private": a state out of a few that exclude each other."""
    said, attribute = found.part("s"), STATES.get(found.part("v").lower(), "")
    if not found.subject:
        personal = attribute in ("diet", "marital-status", "handedness", "condition", "pregnancy")
        return attribute if personal and re.match(r"i\b", said, _FLAGS) else ""
    if not found.words or not (P.determined.match(said) or said[:1].isupper()):
        return ""
    return fact_key(found.subject, attribute) if attribute else ""


def read_attribute(found: Matched) -> str:
    """ "The retry limit is 3": the subject names an attribute, or the value is an amount."""
    subject, value, words = found.subject, found.value, found.words
    if not words or "variable" in words:
        return ""
    named = key_words(P.after_name.split(subject)[0]) or words
    head = named[-1]
    if _is_secret(named) or head in NO_HEADS:
        return ""
    if re.search(r"\b(?:is|are|was|were|has|have)\b", value, _FLAGS):
        return ""
    if "on-call" in words:
        return "on-call" if is_person(value) else ""
    one_valued = head in HEADS or not DEFINITE_WORDS.isdisjoint(words)
    if is_typed(value):
        return _amount(subject, value, words, one_valued)
    if (sort := sort_of(value)) and sort.split("-")[-1] == head:
        return sort if words == sort.split("-") else fact_key(subject)
    if SORTS.get(value.split()[-1].lower()) == "color" and head not in ("color", "theme"):
        owned = P.owned.search(subject) and len(value.split()) <= 2
        return fact_key(subject, "color") if owned else ""
    return fact_key(subject) if (one_valued or _is_agent(words, value)) and is_plain(value) else ""


def _is_agent(words: list[str], value: str) -> bool:
    """ "Our bug tracker is Jira": what does some work, and the name of it."""
    if words[-1] in PEOPLE or not words[-1].endswith(("er", "or")) or len(words) < 2:
        return False
    return is_person(value) and len(value.split()) <= 3


def _is_secret(words: list[str]) -> bool:
    """Whether the words name what must not be kept: a password, a token, a key that opens."""
    if words[-1] == "key":
        return W.open_keys.isdisjoint(words)
    return words[-1] in W.secrets


def _amount(subject: str, value: str, words: list[str], one_valued: bool) -> str:
    if words[-1] in PEOPLE | PETS or P.relative.search(value):
        return ""  # "my sister is one of a kind", "the moon is 384,000 km away"
    if not one_valued:
        first = value.split(maxsplit=1)[0].lower()
        owned = P.owned.search(subject) or len(words) > 1 or P.unit.match(value)
        bare = len(words) == 1 and not P.determined.match(subject)
        if not owned or bare or first in W.opinions | W.prepositions or first.endswith("ed"):
            return ""
    return dated_key(subject, value)


def is_plain(value: str) -> bool:
    """Whether a value is a few words that say what something is, not how it is just now."""
    words = value.lower().split()
    doing = words[0].endswith("ing") and value.islower()
    states = W.opinions | W.prepositions | W.no_subject
    return not (len(words) > 4 or words[0] in states or words[-1] in W.passing_states or doing)


def read_turned_round(found: Matched) -> str:
    """ "Postgres is our database": the value comes first."""
    attribute = P.value_end.split(found.part("s"))[0]
    words = key_words(P.after_name.split(attribute)[0])
    if not words or not key_words(found.value):
        return ""
    if words[-1] in (PEOPLE | PETS) - ROLES and is_person(found.value):
        alone = len(words) == 1 or words[0] in ("older", "younger", "eldest", "little", "big")
        return fact_key(attribute, "name") if alone else ""
    return fact_key(attribute) if words[-1] in HEADS - NO_HEADS else ""


def read_led(found: Matched) -> str:
    """ "Maria leads the platform team"."""
    attribute = P.told["tables"]["leading"][found.part("verb").lower()]
    value = found.part("v")
    if not value[:1].isupper() or len(value.split()) > 3:
        return ""
    if P.no_value.match(value) and attribute != "owner":
        return ""
    return fact_key(P.value_end.split(found.part("s"))[0], attribute)


# ----------------------------------------------------------------------------
# The patterns of stated facts, in order: the first whose reader finds something decides.


_READERS: dict[str, Reader] = {
    read.__name__.removeprefix("read_"): read
    for read in (
        read_age, read_attribute, read_changed, read_counted, read_form, read_led, read_limit,
        read_name, read_place, read_scheduled, read_set_to, read_state, read_tool,
        read_turned_round, read_used,
    )
}  # fmt: skip
_FITTING: dict[str, Callable[[str], bool]] = {
    "attribute": bool, "duration": is_duration, "name": is_name, "person": is_person,
    "place": is_place, "subject": is_subject, "typed": is_typed,
}  # fmt: skip


def _reader(told: str) -> Reader:
    """The reader that a rule names: `place`, or `typed price` with an attribute of its own."""
    name, _, attribute = told.partition(" ")
    if not attribute:
        return _READERS[name]
    return with_value(attribute) if name == "with" else with_attribute(attribute, _FITTING[name])


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Reader], ...]], ...]:
    """Groups of rules, each after words of which one stands in all that they find."""
    return tuple(
        (
            re.compile(P.expand(group["telling"]), re.IGNORECASE),
            tuple(
                (re.compile(r"\s*" + P.expand(one), re.IGNORECASE), _reader(told))
                for one, told in group["rules"]
            ),
        )
        for group in P.told["rules"]
    )


def rules_for(clause: str) -> Iterator[tuple[re.Pattern[str], Reader]]:
    """The rules that may find something in a clause, in order."""
    for words, group in _compiled():
        if words.search(clause) is not None:
            yield from group


# ----------------------------------------------------------------------------
# Find the fact that one clause states: its key, its value, and where the value stands.


LONGEST_VALUE = 80
MOST_VALUE_WORDS = 8
RULE_CONFIDENCE = 0.85
"""How sure a fact is that a rule found; one that is said as a belief is less so."""


def stated_fact(clause: str) -> Fact | None:
    """The fact that a clause states; the first rule that fits decides."""
    opened = P.openers.match(clause)
    said = clause[opened.end() :] if opened else clause
    belief = P.belief.match(said)
    said = said[belief.end() :] if belief else said
    body = P.ended.sub(" ", P.used_to_be.sub(" is", said))
    ended = body != said or P.stated_facts_dropped.search(body) is not None
    if P.negated.search(P.at_most.sub("", body)):
        return None
    for pattern, read in rules_for(body):
        match = pattern.match(body)
        found = None if match is None else matched(match)
        if found is not None and (key := read(found)):
            value = " ".join(found.value.split())
            long = len(value) > LONGEST_VALUE or len(value.split()) > MOST_VALUE_WORDS
            if long or P.pronoun.match(value):
                return None
            sure = round(RULE_CONFIDENCE * (0.6 if belief else 1.0), 4)
            scope = scope_of_clause(clause)
            return Fact(key=key, value=value, confidence=sure, ended=ended, scope=scope)
    return None


def clauses_of(sentence: str) -> Iterator[tuple[int, int]]:
    """Where the clauses of a sentence begin and end; most sentences have one."""
    start = 0
    for cut in P.clause.finditer(sentence):
        yield start, cut.start()
        start = cut.end()
    yield start, len(sentence)


# ----------------------------------------------------------------------------
# Find what was decided in a sentence, and why, if that was said there or right after.


TITLE_CHARACTERS = 80
TRIMMED = " \t\n\r.,;:—–-"


def stated_decision(
    text: str, span: Span, following: Span | None
) -> tuple[StatedEpisode | None, int]:
    """The decision in a sentence, and how many sentences it takes with its reason."""
    sentence = text[slice(*span)]
    if is_question(sentence) or is_spoken_by_other(sentence):
        return None, 1
    needs_reason = True
    if label := P.decision_label.match(sentence):
        what, reason = _parted(label["what"])
        needs_reason = False
    elif decided := P.decided.match(sentence):
        lead, before = decided["lead"], decided["before"].strip()
        why = P.because_before.match(f"{before} ") or P.so.match(before)
        if P.undecided.search(lead[len(decided["before"]) :] if why else lead):
            return None, 1
        what, reason = _parted(decided["what"])
        reason = reason or (why["why"] if why else "")
        needs_reason = _is_small(decided["verb"], what, lead)
        if not decided["to"] and not what.startswith("not "):
            what = f"{decided['verb']}{decided['on'] or ''}{what}"
    elif going := P.going.match(sentence) or P.stated_decisions_changed.match(sentence):
        if P.undecided.search(going["before"]):
            return None, 1
        what, reason = _parted(going["what"])
        needs_reason = going.groupdict().get("sure") is None
    elif passive := P.passive.match(sentence):
        what, reason = passive["what"], _parted(passive["rest"])[1]
    else:
        return None, 1
    end, used = span[1], 1
    if not reason and following is not None and (why := P.reason.match(text[slice(*following)])):
        reason = why["why"] or why["why2"] or ""
        end, used = following[1], 2
    what, reason = what.strip(TRIMMED), reason.strip(TRIMMED)
    if (needs_reason and not reason) or not _is_decision(what, reason):
        return None, 1
    return episode_of(text, (span[0], end), what, reason=reason), used


def _is_small(verb: str, what: str, lead: str) -> bool:
    """Whether it is a choice of the moment ("I picked a seat"), unless there is a reason for it."""
    if verb.split(maxsplit=1)[0].lower() not in ("chose", "picked", "selected", "went"):
        return False
    alone = re.search(r"\bi(?:['’]ve)?\s+\w+\s+(?:\w+\s+)?\Z", lead, _FLAGS) is not None
    return alone or what.islower()


def _parted(what: str) -> tuple[str, str]:
    """What was decided and the reason that follows it in the same sentence."""
    because = P.because.search(what)
    reason = what[because.end() :] if because else ""
    what = what[: because.start()] if because else what
    aside = P.aside.search(what)
    return (what[: aside.start()] if aside else what), reason


def _is_decision(what: str, reason: str) -> bool:
    """Whether the words name something that a later reader can understand."""
    if not what.strip() or P.no_decision.match(what) or P.pointing.search(what):
        return False
    return " " in what or bool(reason) or not what.islower()


def title_of(text: str) -> str:
    """`text` cut at a word to the length of a title."""
    if len(text) <= TITLE_CHARACTERS:
        return text
    cut = text.rfind(" ", 0, TITLE_CHARACTERS)
    return text[: cut if cut > TITLE_CHARACTERS // 2 else TITLE_CHARACTERS].rstrip(TRIMMED) + "…"


def episode_of(
    text: str, span: Span, title: str, *, reason: str = "", error: str = "", fix: str = ""
) -> StatedEpisode:
    """What a part of a text tells of: an error with its fix, else a decision."""
    return StatedEpisode(
        title=title_of(title),
        narrative=text[slice(*span)],
        sort="error" if error else "decision",
        reason=reason,
        error=error,
        fix=fix,
        start=span[0],
        end=span[1],
    )


# ----------------------------------------------------------------------------
# Find an error and what fixed it, in one sentence or in two or three that follow each other.


def stated_fix(text: str, spans: Sequence[Span], place: int) -> tuple[StatedEpisode | None, int]:
    """The error and its fix that begin with a sentence, and how many sentences that took."""
    span = spans[place]
    sentence = text[slice(*span)]
    if not is_own(sentence) or P.open.search(sentence):
        return None, 1
    if found := _in_one(sentence):
        return _made(text, span, *found), 1
    if not P.failed.search(sentence):
        return None, 1
    for further, following in enumerate(spans[place + 1 : place + 3], 1):
        after = text[slice(*following)]
        if not is_own(after) or P.open.search(after):
            return None, 1
        fix = P.fix.match(after) or P.fixed_it.match(after)
        if fix is not None:
            made = _made(text, (span[0], following[1]), sentence, fix["fix"])
            return made, 1 if made is None else further + 1
    return None, 1


def _in_one(sentence: str) -> tuple[str, str] | None:
    """An error and its fix in one sentence."""
    sure = (P.fix_for, P.fixed_first, P.to_fix)
    for pattern in (*sure, P.fix_of, P.went_away, P.after, P.until):
        match = pattern.match(sentence)
        if match is None or P.bare.match(match["error"]):
            continue
        if pattern in sure or P.failed.search(match["error"]):
            return match["error"], match["fix"]
    for cut in P.within.finditer(sentence):
        before, after = sentence[: cut.start()], sentence[cut.end() :]
        if P.failed.search(before) and (fix := P.fix.match(after) or P.fixed_it.match(after)):
            return before, fix["fix"]
    fix = P.fix.search(sentence)
    before = sentence[: fix.start()].strip(TRIMMED) if fix else ""
    told = fix is not None and P.failed.search(before) and not P.bare.match(before)
    return (before, fix["fix"]) if fix and told else None


def _made(text: str, span: Span, error: str, fix: str) -> StatedEpisode | None:
    error = P.error_tail.sub("", P.error_label.sub("", error).strip(TRIMMED))
    fix = P.fix_tail.sub("", P.fix_label.sub("", fix.strip(TRIMMED))).strip(TRIMMED)
    if not error or not fix or P.not_yet.search(fix):
        return None
    return episode_of(text, span, error, error=error, fix=fix)


LONGEST_SENTENCE = 600
MAX_CHARACTERS = 200_000
"""Of a longer text the beginning is read."""
_SHORT_QUOTE_WORDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """All that one text states; offsets are positions in that text."""

    facts: tuple[Fact, ...] = ()
    episodes: tuple[StatedEpisode, ...] = ()


def extract(text: str, *, beside_requests: bool = False) -> Extracted:
    """The facts, decisions and fixed errors that `text` states, in order.

    Any text may be given; the same text always gives the same. A fact's `text`
    is the sentence it stands in, `start` and `end` are that sentence's place. In a text
    that asks for something only what is said of its author or their project is a fact:
    the rest is what the request is about ("the tank is 2 m long, how much …"). With
    `beside_requests` that is read too: to compare it with what was said before.
    """
    require_text(text, "text")
    read = text[:MAX_CHARACTERS]
    own = own_words(read)
    spans = list(statements(own))
    said = [own[slice(*span)] for span in spans]
    asked = not beside_requests and any(is_question(one) or orders(one) for one in said)
    facts: list[Fact] = []
    episodes: list[StatedEpisode] = []
    place = 0
    while place < len(spans):
        following = spans[place + 1] if place + 1 < len(spans) else None
        fix, used = stated_fix(own, spans, place)
        if fix is not None:
            episodes.append(fix)
        else:
            decision, used = stated_decision(own, spans[place], following)
            episodes += [] if decision is None else [decision]
            stated = _facts(own, *spans[place], text)
            facts += [fact for fact in stated if fact.scope or not asked]
        place += used
    return Extracted(facts=tuple(facts), episodes=tuple(episodes))


def own_words(text: str) -> str:
    """`text` with code blocks, quoted lines, markup and longer quotations blanked out."""
    blocks = [span for span in code_spans(text) if _is_block(text, span)]
    hidden = [*blocks, *quoted_line_spans(text), *element_spans(text)]
    for start, end in quotation_spans(text):
        if len(text[start:end].split()) > _SHORT_QUOTE_WORDS:
            hidden.append((start, end))
    shown = cover(text, hidden, "\n") if hidden else text
    return shown.replace("`", " ")


def _is_block(text: str, span: Span) -> bool:
    """Whether a code span is a block of its own and not a word in a sentence."""
    start, end = span
    line_end = text.find("\n", end)
    before = text[text.rfind("\n", 0, start) + 1 : start]
    after = text[end : len(text) if line_end < 0 else line_end]
    return "\n" in text[start:end] or not (before + after).strip()


def statements(text: str) -> Iterator[Span]:
    """Where the sentences of own words are, line by line, without bullets; none too long."""
    for start, end in sentences(text):
        position = start
        for line in text[start:end].split("\n"):
            begin = position
            position += len(line) + 1
            bullet = P.bullet.match(line)
            said = line[bullet.end() :] if bullet else line
            stripped = said.strip()
            if stripped and len(stripped) <= LONGEST_SENTENCE:
                begin += len(line) - len(said.lstrip())
                yield begin, begin + len(stripped)


def _facts(own: str, start: int, end: int, text: str) -> Iterator[Fact]:
    sentence = own[start:end]
    if not is_asserted(sentence) or P.pointed.search(sentence) or P.code_like.search(sentence):
        return
    for begin, stop in clauses_of(sentence):
        if found := stated_fact(sentence[begin:stop].rstrip()):
            yield replace(found, text=text[start:end], start=start, end=end)


def scope_of_clause(clause: str) -> FactScope:
    """Of whom a clause speaks; see `Fact.scope`."""
    if of_project(clause) or P.together.search(clause):
        return "project"
    return "user" if P.alone.search(clause) else ""
