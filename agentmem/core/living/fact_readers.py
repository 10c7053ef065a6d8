"""What a matched clause states: each reader gives the key of the fact, or None if there is none.

A pattern is generous, its reader strict: it asks whether the subject names a
thing, and whether the value is of a sort that the attribute can have.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agentmem.core.conflicts_kinds import SORTS
from agentmem.core.living.fact_subjects import (
    AFTER_NAME,
    DEFINITE_WORDS,
    DETERMINED,
    FOR_NOW,
    HEADS,
    NO_VALUE,
    OWNED,
    PRONOUN,
    Found,
    Reader,
    dated_key,
    subject_of,
    value_of,
)
from agentmem.core.living.fact_words import (
    FORMS,
    NO_HEADS,
    NO_SUBJECT,
    OPINIONS,
    PEOPLE,
    PETS,
    ROLES,
    STATES,
    word_set,
)
from agentmem.core.living.keys import fact_key, key_words, normal_word
from agentmem.core.living.stated_values import (
    VALUE_END,
    date_sort,
    has_unit,
    is_name,
    is_path,
    is_person,
    is_place,
    is_typed,
    sort_of,
)

_FLAGS = re.IGNORECASE
LEADING = {
    "leads": "lead", "heads": "lead", "runs": "lead", "owns": "owner", "manages": "manager",
    "maintains": "maintainer", "chairs": "chair", "handles": "owner", "looks after": "owner",
    "takes care of": "owner", "is responsible for": "owner", "is in charge of": "owner",
    "mentors": "mentor", "teaches": "teacher", "coaches": "coach",
}  # fmt: skip


def with_attribute(
    attribute: str, *, typed: bool = False, fits: Callable[[str], bool] | None = None
) -> Reader:
    """A reader for rules whose attribute is fixed: "lives in" is always the location."""

    def read(match: re.Match[str]) -> Found:
        subject, value = subject_of(match["s"]), value_of(match)
        if subject is None or not value or (typed and not is_typed(value)):
            return None
        if fits is not None and not fits(value):
            return None
        if attribute in ("duration", "retention") and date_sort(value):
            return None  # "we met last Friday"
        if not typed and value.split()[0].lower() in OPINIONS - {"my", "his", "her"}:
            return None
        return fact_key(subject, attribute), 0.8

    return read


def read_name(match: re.Match[str]) -> Found:
    """ "My sister is called Ana": for a role of which there is one, the role alone is the key."""
    subject, value = subject_of(match["s"]), value_of(match)
    if not value or value.split()[0].lower() in OPINIONS:
        return None
    if subject is None:
        return None
    words = key_words(subject)
    if words and words[-1] in ROLES:
        return fact_key(subject), 0.8
    return fact_key(subject, "name"), 0.8


def read_with_value(verb: str) -> Reader:
    """A reader for what one may have many of: the value is in the key, so that none is replaced."""

    def read(match: re.Match[str]) -> Found:
        subject, value = subject_of(match["s"]), value_of(match)
        words = key_words(value)
        if subject is None or not words or len(value.split()) > 6:
            return None
        first = value.split()[0].lower()
        if (
            first in OPINIONS - {"most", "all", "some"}
            or first in NO_SUBJECT
            or first.endswith("ing")
        ):
            return None
        if verb in ("like", "dislike") and (not subject or PRONOUN.match(value)):
            return None  # what somebody likes themselves is a preference
        return fact_key(subject, " ".join([verb, *words])), 0.75

    return read


def read_used(match: re.Match[str]) -> Found:
    """ "We use Postgres for billing": the sort of thing, and what for if that is another thing."""
    subject, value = subject_of(match["s"]), value_of(match)
    if subject is None or not value:
        return None
    groups = match.groupdict()
    role = [word for word in key_words(groups.get("role") or "") if word not in OPINIONS]
    if sort := sort_of(value):
        if sort == "ci" and key_words(subject) in (["pipeline"], ["build"]):
            subject = ""
        return fact_key(subject, " ".join({sort, *_other_than(sort, role)})), 0.85
    if not groups.get("use") or date_sort(value):
        return None  # "we run on coffee"
    if role and len(role) <= 3 and is_name(value) and not NO_VALUE.match(match["v"].strip()):
        plain = (groups.get("how") or "for").lower() in ("for", "as") and len(value.split()) == 1
        if plain or not value.islower():
            return fact_key(subject, " ".join(role)), 0.8
    if value.islower() and (groups.get("how") or "").startswith("to"):
        return None  # "I use pictures to remember"
    return _named_use(subject, value, match["v"])


def _other_than(sort: str, role: list[str]) -> list[str]:
    """The words of a role that say more than the sort does: "caching" says "cache"."""
    if not role or role[-1] in {*sort.split("-"), "project", "work", "everything"}:
        return []
    return role if len(role) <= 3 else []


def _named_use(subject: str, value: str, said: str) -> Found:
    named = [word for word in value.split() if not word[0].isdigit()]
    if not 1 <= len(named) <= 3 or not value[:1].isalnum() or named[0].lower() in OPINIONS:
        return None
    if NO_VALUE.match(said.strip()) or (value.islower() and len(named) > 1):
        return None  # "we use the time", not the name of a thing
    if len(value) < 3 or not is_name(value):
        return None
    return fact_key(subject, " ".join(["uses", *key_words(" ".join(named))])), 0.6


def read_tool(match: re.Match[str]) -> Found:
    """ "We deploy with Helm", "code is formatted with ruff": the tool of that work."""
    groups = match.groupdict()
    subject = "" if groups.get("s") is None else subject_of(match["s"])
    value = value_of(match)
    if subject is None or not value or not is_name(value) or PRONOUN.match(value):
        return None
    verb = _WORK.get(match["verb"].lower(), match["verb"].lower())
    what = key_words(f"{subject} {groups.get('object') or ''}")
    work = [] if verb == "run" else [normal_word(verb)]
    if sort := sort_of(value):
        if sort in ("language", "runtime", "os"):
            return fact_key(" ".join(what), sort), 0.8
        return (sort if verb != "cache" else " ".join(sorted({sort, *what}))), 0.85
    if not what and not work:
        return None
    if not what and verb in ("track", "manage", "write", "generate", "document"):
        return None
    return fact_key(" ".join(what), " ".join(["tool", *work])), 0.75


_WORK = {
    "deployed": "deploy", "built": "build", "tested": "test", "linted": "lint",
    "formatted": "format", "managed": "run", "run": "run", "done": "run", "handled": "run",
    "monitored": "monitor", "compiled": "compile", "packaged": "package", "bundled": "bundle",
    "provisioned": "provision", "generated": "generate", "tracked": "track", "made": "run",
    "manage": "run", "handle": "run", "do": "run", "served": "serve", "powered": "run",
    "drawn": "draw", "written": "write", "signed": "sign", "released": "release",
    "cached": "cache", "logged": "log", "traced": "trace", "documented": "document",
    "set up": "run", "automated": "run", "orchestrated": "run", "scheduled": "schedule",
}  # fmt: skip


def read_changed(match: re.Match[str]) -> Found:
    """ "We moved from Jenkins to Drone": of the sort that either of them has."""
    subject = subject_of(match["s"])
    if subject is None:
        return None
    value = value_of(match)
    groups = match.groupdict()
    if sort := sort_of(value) or sort_of(groups.get("old") or ""):
        return fact_key(subject, sort), 0.85
    moved = re.search(r"\b(?:moved|relocated)\b", match[0], _FLAGS)
    if moved and value[:1].isupper() and not is_typed(value) and not groups.get("object"):
        return fact_key(subject, "location"), 0.75
    if subject and is_typed(value):
        return dated_key(subject, value), 0.8
    return None


def read_place(match: re.Match[str]) -> Found:
    """ "The office is on the third floor": where a thing is, if that can be a place."""
    said = match["s"].strip()
    subject, value = subject_of(said), value_of(match)
    if not subject or not value or FOR_NOW.search(match.string):
        return None
    if sort := sort_of(value):
        words = key_words(subject)
        return (fact_key(subject, sort), 0.8) if words[-1:] == [sort] else None
    if is_path(value):
        return fact_key(subject, "location"), 0.8
    hidden = match["at"].lower() in ("under", "behind", "inside")
    if not DETERMINED.match(said) or not (hidden or is_place(match["v"].strip())):
        return None
    if hidden and not re.match(r"(?:the|my|our|a|an)\s", match["v"].strip(), _FLAGS):
        return None
    words = key_words(subject)
    if not words or words[-1] in NO_HEADS or (words[-1] in HEADS and words[-1] not in _WHERE):
        return None
    if len(value.split()) > 5:
        return None
    return fact_key(subject, "location"), 0.75


_WHERE = word_set(
    "office room venue headquarters school university registry frontend backend car doctor dentist"
    " source server phone laptop gym router endpoint venue cache queue database"
)


def read_form(match: re.Match[str]) -> Found:
    """ "Table names are in snake_case", "the docs are in English"."""
    subject = subject_of(match["s"])
    if not subject or not key_words(subject):
        return None
    return fact_key(subject, FORMS[match["v"].lower()]), 0.8


def read_state(match: re.Match[str]) -> Found:
    """ "The repo is private": a state out of a few that exclude each other."""
    said = match["s"].strip()
    subject = subject_of(said)
    attribute = STATES.get(match["v"].lower())
    if subject is None or attribute is None:
        return None
    personal = attribute in ("diet", "marital-status", "handedness", "condition", "pregnancy")
    if not subject:
        alone = re.match(r"i\b", said, _FLAGS) is not None
        return (attribute, 0.8) if personal and alone else None
    if not personal and key_words(subject)[-1:] and key_words(subject)[-1] in PEOPLE:
        return None
    if not (DETERMINED.match(said) or said[:1].isupper()) or key_words(subject)[-1:] == []:
        return None
    return fact_key(subject, attribute), 0.75


def read_attribute(match: re.Match[str]) -> Found:
    """ "The retry limit is 3": the subject names an attribute, or the value is an amount."""
    subject = subject_of(match["s"])
    value = value_of(match)
    words = key_words(subject or "")
    if not subject or not words or not value or "variable" in words:
        return None
    before_of = key_words(AFTER_NAME.split(subject)[0])
    head = (before_of or words)[-1]
    if _is_secret(before_of or words):
        return None
    if head in NO_HEADS or re.search(r"\b(?:is|are|was|were|has|have)\b", value, _FLAGS):
        return None
    if "on-call" in words:
        return ("on-call", 0.85) if is_person(value) else None
    one_valued = head in HEADS or any(word in DEFINITE_WORDS for word in words)
    if is_typed(value):
        return _amount(subject, value, words, one_valued)
    if (sort := sort_of(value)) and sort.split("-")[-1] == head:
        if words == sort.split("-"):
            return sort, 0.85
        return fact_key(subject), 0.85
    if SORTS.get(value.split()[-1].lower()) == "color" and head not in ("color", "theme"):
        owned = OWNED.search(subject) and len(value.split()) <= 2
        return (fact_key(subject, "color"), 0.8) if owned else None
    one_valued = one_valued or _is_agent(head, words, value)
    return _plain_value(subject, value) if one_valued else None


def _is_agent(head: str, words: list[str], value: str) -> bool:
    """ "Our bug tracker is Jira": what does some work, and the name of it."""
    if head in PEOPLE or not head.endswith(("er", "or")) or len(words) < 2:
        return False
    return is_person(value) and len(value.split()) <= 3


def _is_secret(words: list[str]) -> bool:
    """Whether the words name what must not be kept: a password, a token, a key that opens."""
    if words[-1] == "key":
        return _OPEN_KEYS.isdisjoint(words)
    return words[-1] in _SECRETS


_SECRETS = word_set("password passphrase passcode secret token pin credential cvv otp")
_OPEN_KEYS = word_set("main foreign partition sort cache sorting shortcut hot public")


def _amount(subject: str, value: str, words: list[str], one_valued: bool) -> Found:
    first = value.split(maxsplit=1)[0].lower()
    if not (one_valued or OWNED.search(subject) or len(words) > 1 or has_unit(value)):
        return None
    if not one_valued and (first in OPINIONS or first in _PREPOSITIONS or first.endswith("ed")):
        return None
    if len(words) == 1 and not one_valued and not DETERMINED.match(subject):
        return None
    if words[-1] in PEOPLE | PETS or _RELATIVE.search(value):
        return None  # "my sister is one of a kind", "the moon is 384,000 km away"
    return dated_key(subject, value), 0.9


_RELATIVE = re.compile(r"\b(?:away|ago|left|more|late|early|behind|ahead|times)\Z", _FLAGS)
_PREPOSITIONS = word_set(
    "in on at for with by from of to as like per under over about after before between within"
    " through during into onto up down off out built made run set written sent kept based"
)


def _plain_value(subject: str, value: str) -> Found:
    words = value.split()
    first = words[0].lower()
    if len(words) > 4 or first in OPINIONS or first in _PREPOSITIONS or first in NO_SUBJECT:
        return None
    if first.endswith("ing") and value.islower():
        return None
    if key_words(subject)[-1:] == ["name"] and " " in subject and words[-1].endswith("ed"):
        return None
    return fact_key(subject), 0.9


def read_turned_round(match: re.Match[str]) -> Found:
    """ "Postgres is our database": the value comes first."""
    value = match["v"].strip()
    attribute = VALUE_END.split(match["s"])[0]
    words = key_words(AFTER_NAME.split(attribute)[0])
    if not words or key_words(value)[-1:] == []:
        return None
    if not (value[:1].isupper() or sort_of(value)) or PRONOUN.match(value):
        return None
    if NO_VALUE.match(value) or len(value.split()) > 4 or words[0] in OPINIONS:
        return None
    if words[-1] in (PEOPLE | PETS) - ROLES and is_person(value):
        alone = len(words) == 1 or words[0] in ("older", "younger", "eldest", "little", "big")
        return (fact_key(attribute, "name"), 0.75) if alone else None
    if words[-1] not in HEADS or words[-1] in NO_HEADS:
        return None
    return fact_key(attribute), 0.85


def read_led(match: re.Match[str]) -> Found:
    """ "Maria leads the platform team"."""
    attribute = LEADING[re.sub(r"^are ", "is ", match["verb"].lower())]
    value = match["v"].strip()
    what = VALUE_END.split(match["s"])[0]
    if not value[:1].isupper() or PRONOUN.match(value) or len(value.split()) > 3:
        return None
    if NO_VALUE.match(value) and attribute != "owner":
        return None
    words = key_words(what)
    if not words or len(words) > 4 or words[-1] in NO_HEADS:
        return None
    return fact_key(what, attribute), 0.8


def read_on_call(match: re.Match[str]) -> Found:
    """ "Tomasz is on call this week"."""
    return (
        ("on-call", 0.8)
        if is_person(match["v"].strip()) and not PRONOUN.match(match["v"].strip())
        else None
    )
