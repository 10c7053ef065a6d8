"""What a text states, found without a model: facts, decisions with reasons, errors with fixes.

Only plain assertions count. Questions, conditions and wishes, what somebody
else said, quotations, code blocks and denials give nothing: a fact that was
never stated is worse than one that is missed. Who may be believed is decided
elsewhere, by the origin of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.base.checks import require_choice, require_count, require_text, require_unit
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.base.types import Memory
from agentmem.living.conflicts import (
    ATTRIBUTES,
    DEFINITE,
    GENERIC_ACRONYMS,
    PERSONS,
    SORTS,
    month_number,
    weekday_number,
)
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
    if isinstance(record, Fact):
        text = record.text or f"{record.key}: {record.value}"
        return _fields("fact", text, record.key, _plain(record))
    if isinstance(record, Episode):
        told = (record.title, record.narrative)
        text = "\n\n".join(part for part in told if part)
        data = _plain(record) | {
            "artifacts": [[artifact.kind, artifact.reference] for artifact in record.artifacts]
        }
        return _fields("episode", text, record.title, data)
    if isinstance(record, Pattern):
        parts = (f"When: {record.trigger}", record.template, record.hint)
        text = "\n\n".join(part for part in parts if part)
        return _fields("pattern", text, record.trigger, _plain(record))
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(record.steps, 1))
    text = f"When: {record.trigger}\n\n{steps}".strip()
    data = {
        "trigger": record.trigger,
        "steps": list(record.steps),
        "details": dict(record.details),
    }
    return _fields("workflow", text, record.trigger, data)


def from_memory(memory: Memory) -> Record | None:
    """The record a memory holds, or None when it holds none or one that cannot be read.

    Metadata may come from an import: fields that are missing get their
    defaults, and what does not fit is no record, never an error.
    """
    data = memory.metadata.get(RECORD)
    if not isinstance(data, Mapping):
        return None
    try:
        return _read(memory.kind, data)
    except (InvalidInput, TypeError, ValueError, KeyError):
        return None


def _read(kind: str, data: Mapping[str, Any]) -> Record | None:
    if kind == "fact":
        return Fact(**_known(Fact, data))
    if kind == "episode":
        fields = _known(Episode, data)
        fields["artifacts"] = tuple(
            EpisodeArtifact(kind=pair[0], reference=pair[1]) for pair in fields.get("artifacts", ())
        )
        return Episode(**fields)
    if kind == "pattern":
        return Pattern(**_known(Pattern, data))
    if kind == "workflow":
        fields = _known(Workflow, data)
        fields["steps"] = tuple(fields.get("steps", ()))
        fields["details"] = MappingProxyType(dict(fields.get("details", {})))
        return Workflow(**fields)
    return None


def _known(record: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in record.__dataclass_fields__ if name in data}  # type: ignore[attr-defined]  # every record is a dataclass


def _plain(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _fields(kind: str, text: str, title: str, data: Mapping[str, Any]) -> MemoryFields:
    return MemoryFields(
        kind=kind, text=text, title=title, metadata=MappingProxyType({RECORD: dict(data)})
    )


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
UNCERTAIN = compile_late(
    r"\b(?:if|unless|suppose|supposing|imagine|assume|assuming|maybe|perhaps|probably|possibly"
    r"|might|may be|could|would|should|shall|let's|lets|let us|wish|hope|hopefully|what if|wonder"
    r"|whether|going to|plan to|plans to|planning to|want to|wants to|wanna|gonna|need to|needs to"
    r"|have to|has to|considering|thinking about|thinking of|proposal|propose[sd]?|for example"
    r"|for instance|e\.g\.|hypothetically|pretend|previously|formerly|as if|as though"
    r"|in theory|will|won't|in the past|not sure|unsure|no idea|ideally|ought to|supposed to"
    r"|once (?=we|i|the|it|you)|option)\b|['’]ll\b|['’]d (?:like|love|rather|prefer|be)\b",
    _FLAGS,
)
_APPOINTED = compile_late(
    r"\bwill (?=be (?:held |released |launched )?(?:on|at)\b|(?:take place|happen|start|begin|end"
    r"|open|close|launch|go live|expire)\b)",
    _FLAGS,
)
"""What "will" is no guess: something that has its date."""
_REPORTED = compile_late(
    r"\b(?:said|says|told|tells me|claims?|claimed|thinks|thought|believes|believed|argues|argued"
    r"|wrote|writes|hear|heard|asked|asks|insists|insisted|suggests|suggested|mentioned"
    r"|mentions|promises|promised|according to|reportedly|allegedly|apparently|supposedly"
    r"|rumou?rs?|rumou?red|i(?:'ve)? read|i saw that|people say|they say|gossip|guesses"
    r"|advertises|announced|legend|stereotype|in the (?:article|tutorial|example|exercise|exam))\b",
    _FLAGS,
)
_FICTION = compile_late(
    r"\b(?:once upon a time"
    r"|in (?:the|this|that|a|an|my|our|his|her|their) (?:\w+ )?(?:book|novel|story|stories|tale"
    r"|film|movie|game|play|series|comic|manga|anime|dream|poem|song|script|fantasy|campaign)"
    r"|(?:a|the|this|my) (?:story|tale|novel|poem|song|joke|movie|film|book) (?:about|where|of|in)"
    r"|(?:my|our|the|his|her|main) (?:main )?(?:character|hero|heroine|protagonist|villain|wizard"
    r"|dragon|knight) (?!flaw|limit|count|set|encoding|class)"
    r"|role-?play|act as|you are an?)\b",
    _FLAGS,
)
_IRONY = compile_late(
    r"\A\W*(?:oh,? (?:great|wonderful|joy|perfect|nice|sure|wow|no|yes|how)|yeah,? (?:right|sure)"
    r"|sure,|of course,|as always,|wow,|great,|fantastic,|brilliant,|haha|lol|nice try)"
    r"|/s\s*\Z|\bhaha|\blol\b|\bjust kidding\b|\bjk\b|🙄|😂|🤣",
    _FLAGS,
)
_ASKED_FOR = compile_late(
    r"\A\W*(?:(?:ok|okay|so|now|then|and|also|next|first|hey|hi)\W+)?(?:please\b(?! note| remember)"
    r"|(?:can|could|would|will) you\b|(?:kindly|don['’]?t|do not|never|let me|let us|feel free"
    r"|make sure|be sure|bear with)\b"
    r"|(?:write|create|make|add|change|set|use|translate|generate|rename|remove|delete|fix"
    r"|implement"
    r"|explain|summari[sz]e|rewrite|ensure|check|verify|give|tell|show|try|run|update|install"
    r"|consider|ignore|find|build|draft|list|print|return|convert|refactor|describe|compare|keep"
    r"|read|open|move|put|call|send|book|schedule|configure|deploy|test|start|stop|turn|switch"
    r"|replace|insert|complete|answer|continue|repeat|forget|act|say|help|pick|choose|look|go|do"
    r"|disregard|name|define|calculate|solve|prove|plot|draw|design|plan|review|edit|format)"
    r"\s+(?:an?|the|this|that|these|those|my|our|your|it|its|me|us|them|all|any|each|some|every|for"
    r"|with|to|from|out|off|in|only|\d+|up|previous|tabs|spaces|restarting|sure|down|as)\b)",
    _FLAGS,
)
_POINTED = compile_late(
    r"\b(?:this|these|those) (?!week|weekend|month|year|quarter|sprint|morning|afternoon|evening"
    r"|term|semester|season|summer|winter|spring|autumn|fall|project|repo|repository|team|company"
    r"|codebase|machine|laptop|house|apartment|is|are)\w+",
    _FLAGS,
)
"""What is before the eyes of two people now, and means nothing to a later reader."""
_SPEAKER = compile_late(
    r"^\s*(?:[-*•]\s*)?(?!Got |Saw |Hit |\S*(?:Error|Exception|Warning|Fault):)"
    r"[A-Z][\w.-]*(?: [A-Z][\w.-]*)?:\s+(?=\S+\s+\S+\s+\S+)"
)
_LABELLED = compile_late(
    r"^\s*(?:(?:quick|small|side|short|important|one|just a|another) )?(?:note|update|fyi|reminder"
    r"|decision|decided|reason|rationale|fix|error|context|info|tl;dr|summary|fact|bug|cause"
    r"|root cause|solution|problem|issue|heads[ -]up|btw|by the way|correction|edit|ps|p\.s\.|psa"
    r"|announcement|news|important|status|for the record|also|remember|change|background)\b",
    _FLAGS,
)
_CODE_LIKE = compile_late(
    r"[{}\\]|(?<=\s)[<=!]?=(?=\s)|\w=\S|\)\s*=|<-|->|;\s*\Z|^\s*\"[^\"]+\"\s*:|\w\([^)]*[:=]",
    _FLAGS,
)
"""Code, formulas and JSON that stand without a fence: `discount = .9999`, `"Name": "Sera"`."""
_ENDS = "\"'”’)*_ "


def is_question(sentence: str) -> bool:
    """Whether a sentence asks."""
    return sentence.rstrip(_ENDS).endswith(("?", "？"))


def is_asserted(sentence: str) -> bool:
    """Whether a sentence is a plain assertion of its writer's: no question, wish or report."""
    if not is_own(sentence) or _ASKED_FOR.search(sentence):
        return False
    certain = _APPOINTED.sub(lambda found: " " * len(found[0]), sentence)
    return UNCERTAIN.search(certain) is None


def is_own(sentence: str) -> bool:
    """Whether the writer speaks for themselves and in earnest, however sure they are."""
    if is_question(sentence) or is_spoken_by_other(sentence):
        return False
    doubts = (_REPORTED, _FICTION, _IRONY)
    return all(doubt.search(sentence) is None for doubt in doubts)


def is_spoken_by_other(sentence: str) -> bool:
    """Whether a name and a colon stand before what is said: "Bob: we use MySQL now"."""
    return _SPEAKER.match(sentence) is not None and _LABELLED.match(sentence) is None


def points_at_something(sentence: str) -> bool:
    """Whether it speaks of "this function" or "these lines", which nobody knows later."""
    return _POINTED.search(sentence) is not None


# ----------------------------------------------------------------------------
# One key for one attribute, however it is said: "the API's limit" and "limit of the API".
#
# A key is the normal forms of the words that name the subject and the attribute,
# in alphabetical order: articles, possessives and "we" fall away, plurals become
# singular, synonyms take the first word of their group. "my sister is called
# Ana" and "my sister's name is Ana" both have the key "name sister".


_WORD = re.compile(r"[^\W_](?:[\w+#]|['’.\-/_](?=\w))*")
_ARTICLES = (
    "a an the this that these those of for to in on at by with our my your his her its their"
    " we i us me is are was were be current currently actual now new all each every some any"
    " and used"
)
_DROPPED = frozenset(_ARTICLES.split()) | frozenset(PERSONS)
_SAME = """
database db databases|limit cap ceiling quota|price cost costs fee|deadline due-date|maximum max
meeting meetings call sync|standup stand-up|deploy deploys deployment deployments rollout rollouts
minimum min|main primary principal|application app|environment env|production prod
development dev|phone telephone|config configuration|email e-mail mail
favorite favourite|license licence|repo repository|birthday birthdate|job occupation profession
manager boss supervisor|lead leader head|location place|expiry expiration|headquarters hq
release releases|cache caching|timeout time-out|queue queueing queuing|test testing
authentication auth login|kubernetes k8s|retention keeping|salary pay wage|wife spouse
mother mom mum|father dad|child kid children|apartment flat|vacation holiday
documentation docs|on-call oncall|retro retrospective|color colour
"""
_HEADS = {
    word: group.split()[0]
    for group in _SAME.replace("\n", "|").split("|")
    for word in group.split()
}
_WORDS_IN_OS = "retros logos photos videos repos demos memos macros zoos radios"
_WORDS_IN_ICS = (
    "analytics physics mathematics economics logistics robotics ethics graphics politics"
)
_SCIENCES = frozenset(_WORDS_IN_ICS.split())
_PLURAL_OS = frozenset(_WORDS_IN_OS.split())
MOST_KEY_WORDS = 6


@lru_cache(maxsize=1 << 14)
def normal_word(word: str) -> str:
    """The form of a lower-case word that keys use; readable, unlike a stem."""
    return _HEADS.get(word) or _HEADS.get(_singular(word)) or _singular(word)


def _singular(word: str) -> str:
    if word in GENERIC_ACRONYMS or len(word) < 4 or not word.isalpha():
        return word
    if word in _PLURAL_OS:
        return word[:-1]
    if word in _SCIENCES:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ss", "us", "is", "os")):
        return word
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word.removesuffix("s")


def key_words(text: str) -> list[str]:
    """The normal forms of the words in `text` that can stand in a key, in order."""
    found: list[str] = []
    for match in _WORD.finditer(text):
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


def word_set(text: str) -> frozenset[str]:
    """The words of a text that lists them."""
    return frozenset(text.split())


def _normal(text: str) -> frozenset[str]:
    return frozenset(map(normal_word, text.split()))


OPINIONS = word_set(
    "very too so quite really more less being going not awesome amazing great tough incredible good"
    " bad nice important hard easy key something one some all fine ok okay cool fun beautiful"
    " wonderful terrible horrible perfect interesting exciting boring weird strange funny hilarious"
    " lovely best better worse worst pretty super totally always never here there coming ready done"
    " broken wrong right true false tomorrow today yesterday soon tonight next last also still just"
    " like what how why where who when unclear unknown different similar same worth such my his her"
    " delicious fantastic excellent brilliant impressive inspiring huge big small long short high"
    " low full empty up down on off in out over under about because due ongoing simple complex"
    " enough many much few several another other both most only lots plenty kind sort part red"
    " green slow fast old new young happy sad tired sick busy late early real major minor"
    " clear obvious necessary possible impossible useful useless stupid silly crazy smart clever"
    " cute sweet fluffy playful energetic adorable gorgeous stunning favorite favourite absolute"
    " at almost nearly barely as getting becoming looking feeling sure certain glad proud"
)
"""First words of what is no value but a judgement or the beginning of a story."""
NO_SUBJECT = word_set(
    "to that who which when while because decided agreed chose want wants need needs plan try have"
    " has had can must does do did make makes let see saw know there here it this i you they he she"
    " we and or please nobody nothing something anything someone somebody anyone if what how why"
    " your yours where these those than then think guess feel love hope him them me us was were"
    " said not"
)
MORE_ATTRIBUTES = word_set(
    "mascot channel rent deposit gate anniversary laptop car bike slogan motto hostname namespace"
    " bucket"
    " prefix suffix extension seat row terminal platform vendor contact coach trainer therapist"
    " accountant nanny roommate flatmate surname pronouns instrument hobby type subdomain workspace"
    " ci sso cdn crm tagline assignee sponsor treasurer secretary chairman chairwoman captain"
    " principal vet gp pediatrician barber hairdresser neighbour neighbor sla uptime ttl retention"
    " checksum charset timestamp topic tag convention style cutoff allowance"
    " coverage headcount framework linter formatter bundler orm engineer admin administrator"
    " architect analyst designer tester scientist representative lawyer pm vp cfo coo ciso cio"
    " counsel plumber electrician bank insurer carrier airline hotel gym pharmacy supermarket"
    " dns tld iban blood-type zip postcode zodiac sign major minor-subject tool mentor successor"
    " predecessor anthem quorum fee tax discount salary bonus grade score-limit dose dosage"
)
NO_HEADS = _normal(
    "answer question problem issue point thing idea reason way result sum total output example case"
    " step line variable function method loop argument parameter word letter sentence story truth"
    " fact goal trick catch difference rest part kind sort bit lot side hand hope dream movie film"
    " book song game weather sky food life love world everything plan option minute second choice"
    " thought concern request comment suggestion favor favour more other chance opportunity feeling"
    " meeting-point moment issue bug error conclusion assumption difference bottom guess task todo"
    " left time memory file code script document commit diff score class object"
)
"""What is no attribute of anything."""
NOT_COUNTED = NO_HEADS | _normal(
    "element item row column method parameter argument line bullet paragraph hour day week month"
    " year friend people test change ticket email message file pr typo beer drink"
    " coffee meeting call deadline exam interview appointment date"
)
"""What one has two of today, and not worth keeping."""
CODE_WORDS = word_set(
    "function array tuple dict loop variable example tutorial article argument snippet string"
    " regex struct enum exercise"
)
EPHEMERAL = word_set("it this that i we you they he she lunch dinner breakfast")
PEOPLE = _normal(
    "son daughter child kid baby toddler brother sister mother mom mum father dad wife husband"
    " partner spouse girlfriend boyfriend fiance fiancee uncle aunt cousin nephew niece grandmother"
    " grandfather grandma grandpa grandson granddaughter stepson stepdaughter boss manager friend"
    " colleague neighbour neighbor roommate flatmate landlord twin twins parent sibling nanny"
)
PETS = _normal("dog cat puppy kitten rabbit hamster parrot horse pony turtle fish guinea-pig pet")
ROLES = _normal(
    "wife husband partner spouse girlfriend boyfriend fiance fiancee mother father boss manager"
    " landlord dentist doctor ceo cto cfo coo lead owner mentor coach trainer therapist accountant"
    " supervisor director president founder chair maintainer lawyer vet gp pediatrician roommate"
    " flatmate nanny hairdresser captain principal"
)
"""Of these one has one: "my manager" and "my manager's name" are the same attribute."""
OCCUPATIONS = word_set(
    "engineer developer teacher nurse doctor dentist lawyer architect chef cook pilot accountant"
    " designer scientist researcher student professor lecturer manager consultant analyst"
    " programmer"
    " writer author journalist photographer plumber electrician carpenter farmer mechanic"
    " pharmacist"
    " veterinarian vet paramedic firefighter librarian translator interpreter baker barber"
    " therapist"
    " psychologist psychiatrist surgeon physician biologist chemist physicist mathematician"
    " statistician economist banker realtor cashier waiter waitress bartender barista musician"
    " composer actor actress painter sculptor illustrator editor publisher recruiter administrator"
    " sysadmin technician tailor driver soldier judge freelancer contractor entrepreneur midwife"
    " physiotherapist optician radiologist cardiologist geologist historian archaeologist notary"
    " policeman policewoman detective welder gardener florist hairdresser receptionist secretary"
    " principal tutor coach trainer auditor actuary bookkeeper broker salesman saleswoman tester"
    " administrator machinist postdoc paralegal caretaker janitor dancer singer violinist pianist"
)
_STATES = """
visibility: private public internal internal-only
encryption: encrypted unencrypted
status: enabled disabled deprecated archived frozen discontinued retired decommissioned unmaintained
    obsolete experimental
access: read-only readonly write-only append-only
source: open-source proprietary closed-source
diet: vegan vegetarian pescatarian
marital-status: married single divorced engaged widowed
handedness: left-handed right-handed ambidextrous
condition: diabetic asthmatic dyslexic colorblind colour-blind color-blind
pregnancy: pregnant
requirement: optional mandatory compulsory
mutability: immutable mutable
compression: compressed uncompressed
case: case-sensitive case-insensitive
state: stateless stateful
work-mode: remote hybrid
"""

_FORMS = """
convention: snake_case camelcase kebab-case pascalcase uppercase lowercase
format: json yaml xml csv markdown parquet protobuf toml
language: english german french spanish dutch italian portuguese polish chinese japanese
"""


def _read_table(text: str) -> dict[str, str]:
    table: dict[str, str] = {}
    attribute = ""
    for line in text.strip().splitlines():
        name, colon, words = line.partition(":")
        attribute = name.strip() if colon else attribute
        table.update(dict.fromkeys((words if colon else line).split(), attribute))
    return table


FORMS = _read_table(_FORMS)
"""A form that texts and names can have → what it is a form of."""
STATES = _read_table(_STATES)
"""A state in one word → what it is a state of; of one attribute a thing has one."""


# ----------------------------------------------------------------------------
# Values as they are said: where they end, and of what sort they are.


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


# ----------------------------------------------------------------------------
# What a clause speaks of: subjects that can stand in a key, and the keys made of them.


Found = tuple[str, float] | None
"""The key of a fact and how sure it is."""
Reader = Callable[[re.Match[str]], Found]

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
    if _OF_OTHERS.match(stripped):
        return None
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


_OF_OTHERS = re.compile(
    r"(?:his|her|their|its|your|whose)\b"
    r"|(?:the |my |our |a )?(?:main )?(?:character|hero|heroine|protagonist|villain)"
    r"(?:['’]s|s['’]|\Z)",
    _FLAGS,
)
"""Whose they are is said elsewhere: "their names are Pepper and Panda"."""
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


# ----------------------------------------------------------------------------
# Readers of facts that are amounts: when, how often, how many, how large, at most.


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


# ----------------------------------------------------------------------------
# What a matched clause states: each reader gives the key of the fact, or None if there is none.
#
# A pattern is generous, its reader strict: it asks whether the subject names a
# thing, and whether the value is of a sort that the attribute can have.


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


PASSING_STATES = word_set(
    "dead broken down empty full charged charging lost stolen stuck frozen hot cold wet dirty clean"
    " late early ready gone missing closed open locked unlocked sick ill tired asleep awake busy"
    " offline online cracked damaged fixed repaired"
)
"""How something is just now: "my phone is dead" will not be so tomorrow."""


def _plain_value(subject: str, value: str) -> Found:
    words = value.split()
    first = words[0].lower()
    if len(words) > 4 or first in OPINIONS or first in _PREPOSITIONS or first in NO_SUBJECT:
        return None
    if words[-1].lower() in PASSING_STATES:
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


# ----------------------------------------------------------------------------
# The patterns of stated facts, in order: the first whose reader finds something decides.


Rule = tuple[str, Reader]

_S = r"(?P<s>[^,;:=?!]{1,70}?)"
_V = r"(?P<v>[^;?!]{1,160})"
_WORD_NOW = r"(?:now|currently|always|still|usually|already|generally|typically|all|mostly|also)"
_NOW = rf"(?:\s+{_WORD_NOW})?"
_BE = r"(?:\s+is|\s+are|\s+am|['’]m|['’]re|['’]s(?=\s(?:called|named|on|in|at)\b)|\s+will be)"
_HAVE = r"(?:\s+have|\s+has|['’]ve)"
_TO = r"(?:was|were|has been|have been|got|is|are)"
_NUMBER = (
    r"(?:\d[\d,.]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|forty|fifty)"
)
_OLD = r"(?:\s+from\s+(?P<old>[^,;]{1,40}?))?"
_CHANGED = (
    r"(?:switched|moved|migrated|changed|transitioned|upgraded|standardi[sz]ed|settled)(?:\s+over)?"
    rf"(?P<object>\s+(?:our|the|all|my)\s+[^,;]{{1,30}}?)?{_OLD}\s+(?:to|on)"
)
_USE = (
    r"(?:(?P<use>use|uses|using|are using|am using|is using|'re using|'m using|adopted|rely on"
    r"|relies on)"
    r"|run on|runs on|host on|hosts on|deploy to|deploys to|deploy on|are on|is on|am on|(?:is"
    r"|are) (?:built|based) on"
    r"|chose|went with|dropped|abandoned|ditched|retired|picked|standardi[sz]ed on|develop on)"
)
_VALUE_STOP = (
    r"(?=[.,]?$|[.,;]\s|\s+(?:because|since|so|which|and|but|when|instead|rather|now|until|over"
    r"|in|on|across|everywhere)\b)"
)
_WORK_VERBS = (
    r"deploy|build|test|lint|format|monitor|compile|package|bundle|provision|manage|track|release"
    r"|handle|do|run|trace|log|cache|sign|schedule|document|generate"
)
_WORK_DONE = (
    r"deployed|built|tested|linted|formatted|managed|run|done|handled|monitored|compiled|packaged"
    r"|bundled|provisioned|generated|tracked|made|served|powered|drawn|signed|released|cached"
    r"|logged"
    r"|traced|documented|set up|automated|orchestrated|scheduled"
)
_HAPPENS = (
    r"(?:go out|goes out|go live|goes live|happens?|takes? place|is held|are held|occurs?|is due"
    r"|are due|(?:is|are) (?:scheduled|planned|set|booked|due|run|released|published|shipped|sent"
    r"|sent out|generated|made|taken|paid|updated|refreshed|synced|performed)|runs?|meets?|ships?"
    r"|starts?|begins?|kicks? off|leaves?|departs?|arrives?|lands?|refresh(?:es)?|syncs?|updates?"
    r"|launch(?:es)?|is|are|will be(?: held)?|['’]s)"
)
_OFTEN = (
    r"(?=(?:every|each|once|twice|hourly|daily|nightly|weekly|biweekly|monthly|quarterly|yearly"
    r"|annually|fortnightly)\b)"
)
_WHEN = rf"(?:on|at|for|by|in|{_OFTEN})"
_AT = r"(?:in|at|on|under|near|inside|behind|within)"
_JOBS = "|".join(sorted(OCCUPATIONS))
_ADJECTIVES = "|".join(sorted(STATES, key=len, reverse=True))
_LIKER = (
    r"(?P<s>(?:my|our)\s+[a-z][\w -]{1,25}?|(?!looks|sounds|seems|feels|tastes|smells)"
    r"(?-i:[A-Z])[a-z]+(?=\s+(?:really )?\w+s\b))"
)
_SEVERE = r"(?:(?:very )?(?:severe|bad|mild|serious|slight|strong|nasty|deadly|terrible))"
_FACT_RULES_FORMS = "|".join(sorted(FORMS, key=len, reverse=True))
_NATIONS = (
    r"(?:Dutch|French|German|Greek|Swiss|Thai|Czech|Norwegian|American|Mexican|Moroccan|Kenyan"
    r"|Pakistani|Israeli|Iraqi|Welsh|[A-Z][a-z]+(?:ish|ese|ian))"
)


def _rule(pattern: str, read: Reader) -> Rule:
    return pattern, read


def _typed(pattern: str, attribute: str) -> Rule:
    return pattern, with_attribute(attribute, typed=True)


_NAMES: tuple[Rule, ...] = (
    _rule(rf"{_S}(?:['’]s?)?\s+name{_NOW}\s*(?:is|:|=)\s+{_V}$", read_name),
    _rule(rf"the name of {_S}\s+is\s+{_V}$", read_name),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:called|named)\s+{_V}$", read_name),
    _rule(r"(?:i|we)(?:\s+have|['’]ve got)\s+an?\s+(?P<s>[a-z ]{2,30}?),?\s+(?:called|named)\s+"
     r"(?P<v>(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?)", read_name),
    _rule(r"(?P<s>(?:my|our) [a-z][a-z -]{1,25}?),\s+"
     r"(?P<v>(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)?),"
     r"\s+(?:is|are|has|lives|works|was|loves|likes)\b", read_name),
    _rule(r"(?P<s>i)\s+go by\s+(?P<v>(?-i:[A-Z])\w+)", with_attribute("nickname")),
    _rule(r"(?:my friends|everyone|people) calls? (?P<s>me)\s+(?P<v>(?-i:[A-Z])\w+)",
     with_attribute("nickname")),
)  # fmt: skip
_TOOLS: tuple[Rule, ...] = (
    _typed(rf"{_S}{_NOW}\s+(?:listens? on|runs? on|is on|uses)\s+port\s+{_V}$", "port"),
    _rule(rf"{_S}{_NOW}\s+(?P<use>uses?)\s+(?P<v>\S+)\s+as\s+(?:its|their|his"
          rf"|her)\s+(?P<role>[\w -]{{2,30}})",
     read_used),
    _rule(rf"for\s+(?P<role>[^,;.?!]{{1,40}}?),?\s+(?P<s>we|i){_NOW}\s+{_USE}\s+"
     rf"(?P<v>[^;?!]{{1,80}}?){_VALUE_STOP}", read_used),
    _rule(rf"in\s+(?P<role>production|prod|staging|development|dev|tests?|ci|the \w+),?\s+"
     rf"(?P<s>we|i){_NOW}\s+{_USE}\s+(?P<v>[^;?!]{{1,80}}?){_VALUE_STOP}", read_used),
    _rule(rf"{_S}{_NOW}\s*{_USE}\s+(?P<v>[^;?!]{{1,80}}?)(?:\s+(?P<how>as|for|in"
          rf"|to(?: \w+)?)\s+(?:our |the "
     rf"|my |all |all our )?(?P<role>[^,;.?!]{{1,40}}?))?{_VALUE_STOP}", read_used),
    _rule(rf"(?:we|i){_NOW}\s+(?P<verb>{_WORK_VERBS})(?:\s+(?:(?:our|the|all|my) )?"
     rf"(?P<object>[\w -]{{2,30}}?))?\s+(?:with|using|through|via|in)\s+{_V}$", read_tool),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<verb>{_WORK_DONE})\s+(?:with|using|through|via|in)\s+{_V}$",
     read_tool),
    _rule(rf"{_S}{_NOW}\s+(?P<verb>run)s?\s+(?:with|through|via)\s+{_V}$", read_tool),
    _rule(rf"{_S}{_HAVE}?{_NOW}\s+{_CHANGED}\s+{_V}$", read_changed),
    _rule(rf"{_S}{_HAVE}?\s+replaced\s+(?P<old>[^,;]{{1,40}}?)\s+(?:with"
          rf"|by)\s+{_V}$", read_changed),
    _rule(rf"{_S}{_HAVE}?\s+relocated(?:\s+from\s+\S+)?\s+to\s+{_V}$", read_changed),
    _rule(rf"{_S}\s+{_TO}{_NOW}\s+(?:raised|lowered|increased|decreased|reduced|changed|extended"
          rf"|set"
     rf"|moved|bumped|fixed|postponed|rescheduled|updated|renamed|pushed(?: back)?"
     rf"|upgraded|downgraded|migrated|switched"
     rf"|shortened|cut)(?:\s+from\s+\S+(?:\s\S+)?)?\s+to\s+{_V}$", read_set_to),
    _rule(rf"we\s+(?:raised|lowered|increased|decreased|reduced|changed|extended|set|moved|bumped"
     rf"|postponed|rescheduled|pushed)\s+(?P<s>(?:the|our)\s+[^,;:=?!]{{1,50}}?)"
     rf"(?:\s+from\s+\S+(?:\s\S+)?)?\s+to\s+{_V}$", read_set_to),
)  # fmt: skip
_AMOUNTS: tuple[Rule, ...] = (
    _rule(rf"{_S}{_NOW}\s+defaults?\s+to\s+{_V}$", with_attribute("default")),
    _rule(rf"(?:we|i){_NOW}\s+(?:keep|retain|store|save)\s+{_S}\s+for\s+(?P<v>(?:at least |up to )?"
     rf"(?:{_NUMBER}|an?)\s[^;?!]{{1,40}})$", with_attribute("retention", typed=True)),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:kept|retained|stored|saved|preserved)\s+for\s+{_V}$",
           "retention"),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:deleted|purged|removed|wiped|erased|dropped)\s+after\s+{_V}$",
           "retention"),
    _typed(rf"{_S}{_BE}{_NOW}\s+(?:valid|good)\s+for\s+{_V}$", "validity"),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+rotated|{_NOW}\s+rotates?)\s+{_WHEN}\s*{_V}$", read_rotation),
    _rule(rf"(?:we|i){_NOW}\s+rotate\s+{_S}\s+{_WHEN}\s*{_V}$", read_rotation),
    _rule(rf"{_S}(?:{_BE}|\s+was|\s+were){_NOW}\s+(?:limited|capped|restricted)\s+(?:to"
          rf"|at)\s+{_V}$", read_limit),
    _rule(rf"we{_NOW}\s+(?:limit|cap|restrict)\s+{_S}\s+(?:to|at)\s+{_V}$", read_limit),
    _rule(rf"{_S}{_NOW}\s+(?P<holds>allows?|supports?|accepts?|permits?|handles?|returns?"
          rf"|can (?:hold|have"
     rf"|store|handle|take|seat|fit)|holds|seats|fits)\s+(?:up to|at most|a maximum of|no more than"
     rf"|only|(?={_NUMBER}\b))\s*(?P<v>{_NUMBER}\s[^;?!]{{1,40}})$", read_limit),
    _rule(rf"{_S}{_BE}{_NOW}\s+retried\s+(?P<v>(?:up to )?(?:{_NUMBER}\s+times|once|twice))",
     with_attribute("limit retry")),
    _rule(rf"{_S}\s+(?:must|has to|have to|needs? to)\s+be\s+(?P<bound>at least|at most|under|below"
     rf"|above|over|less than|more than|no more than|no less than)\s+{_V}$", read_bound),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>{_NUMBER}\s?[\w.]+(?:\s+\w+)?)\s+(?P<how>tall|high|long|wide"
          rf"|deep"
     rf"|thick)\W*$", read_size),
    _rule(rf"{_S}(?:{_BE}{_NOW}|\s+(?:just )?turned)\s+(?P<v>{_NUMBER})(?:\s+years?(?:\s+old"
          rf"|\s+of age)?"
     rf"|\s+months?\s+old)?\W*$", read_age),
    _typed(rf"{_S}{_NOW}\s+expires?\s+(?:on|in|at|after|every)\s+{_V}$", "expiry"),
    _typed(rf"{_S}{_NOW}\s+(?:opens?)\s+(?:on|at)\s+{_V}$", "opening"),
    _typed(rf"{_S}{_NOW}\s+(?:closes?)\s+(?:on|at)\s+{_V}$", "closing"),
    _typed(rf"{_S}(?:{_NOW}|\s+will)\s+ends?\s+(?:on|at|in|after)\s+{_V}$", "end"),
    _rule(rf"{_S}{_NOW}\s+(?:takes?|lasts?)\s+{_V}$", with_attribute("duration", fits=is_duration)),
    _typed(rf"{_S}{_NOW}\s+costs?(?:\s+(?:me|us))?\s+{_V}$", "price"),
    _rule(rf"(?:we|i){_NOW}\s+pay\s+(?P<v>[^;?!]{{1,40}}?\d[^;?!]{{0,40}}?)\s+(?:for|in)\s+"
     rf"(?P<s>(?:the |our |my )?\w[\w -]{{1,30}})\W*$", with_attribute("price", typed=True)),
    _typed(rf"{_S}{_NOW}\s+weighs?\s+{_V}$", "weight"),
    _typed(rf"{_S}{_NOW}\s+(?:times? out|timeout)\s+after\s+{_V}$", "timeout"),
)  # fmt: skip
_PEOPLE: tuple[Rule, ...] = (
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:\w+ly )?allergic\s+to\s+{_V}$", read_with_value("allergy")),
    _rule(rf"{_S}{_NOW}\s+(?:has|have)\s+an?\s+(?:{_SEVERE} )?allergy\s+to\s+{_V}$",
     read_with_value("allergy")),
    _rule(rf"{_S}{_NOW}\s+(?:has|have)\s+an?\s+(?:{_SEVERE} )?"
     r"(?P<v>[\w-]+(?: [\w-]+)?)\s+allergy\b",
     read_with_value("allergy")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>lactose|gluten|fructose|histamine)[ -]intolerant",
     read_with_value("intolerance")),
    _rule(rf"{_S}{_BE}{_NOW}\s+intolerant\s+to\s+{_V}$", read_with_value("intolerance")),
    _rule(rf"{_S}{_NOW}\s+works?\s+as\s+{_V}$", with_attribute("job")),
    _rule(rf"{_S}{_BE}{_NOW}\s+an?\s+(?P<v>(?:[\w-]+ ){{0,3}}(?:{_JOBS}))(?=\s+(?:at|for|in|with"
          rf"|by)\b"
     rf"|\W*$)", with_attribute("job")),
    _rule(rf"{_S}{_NOW}\s+works?\s+(?:at|for)\s+{_V}$", with_attribute("employer")),
    _rule(rf"{_S}(?:{_HAVE})\s+(?:been working|worked)\s+(?:at|for)\s+"
     rf"(?P<v>(?-i:[A-Z])[^,;?!]{{0,40}}?)(?=\s+(?:for|since)\b|\W*$)", with_attribute("employer")),
    _rule(rf"{_S}(?:{_HAVE})\s+(?:been living|lived)\s+in\s+(?P<v>(?-i:[A-Z])[^,;?!]{{0,40}}?)"
     rf"(?=\s+(?:for|since)\b|\W*$)", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+employed\s+(?:at|by)\s+{_V}$", with_attribute("employer")),
    _rule(rf"{_S}\s+(?:was|were)\s+born\s+in\s+(?P<v>[A-Z][^;?!]{{1,60}})$",
     with_attribute("birthplace")),
    _typed(rf"{_S}\s+(?:was|were)\s+born\s+(?:in|on)\s+{_V}$", "birth date"),
    _rule(rf"{_S}\s+grew\s+up\s+in\s+{_V}$", with_attribute("hometown", fits=is_name)),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+(?:originally )?"
          rf"|\s+comes? )from\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("origin", fits=is_name)),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<v>(?-i:{_NATIONS}))\W*$", with_attribute("nationality")),
    _rule(rf"{_S}{_NOW}\s+reports?\s+to\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("manager")),
    _rule(rf"{_S}{_BE}{_NOW}\s+married\s+to\s+{_V}$", with_attribute("spouse")),
    _rule(rf"{_S}(?:{_BE}\s+studying|{_NOW}\s+stud(?:y"
          rf"|ies))\s+at\s+{_V}$", with_attribute("school")),
    _rule(rf"{_S}(?:{_BE}\s+studying|{_NOW}\s+stud(?:y"
          rf"|ies))\s+(?P<v>[\w-]+(?: [\w-]+)?)(?=\s+at\b|\W*$)",
     with_attribute("study", fits=is_subject)),
    _rule(rf"{_S}{_NOW}\s+(?:goes|go"
          rf"|attends?)\s+(?:to\s+)?(?P<v>(?-i:[A-Z])[^;?!]{{0,40}}?(?:School"
     rf"|Elementary|High|College|University|Academy|Kindergarten|Montessori|Gymnasium)\b[^;?!]*)$",
     with_attribute("school")),
    _rule(rf"{_S}{_NOW}\s+drives?\s+an?\s+(?P<v>(?-i:[A-Z])[^;?!]{{1,40}})$",
     with_attribute("car")),
    _rule(rf"{_S}{_NOW}\s+(?:speaks?)\s+(?P<v>(?-i:[A-Z])[a-z]+)(?=\W*$|\s+(?:at|fluently|well"
          rf"|and)\b)",
     read_with_value("speak")),
    _rule(rf"{_S}{_NOW}\s+plays?\s+(?P<v>(?:the )?[\w-]+)(?=\W*$|\s+(?:on|every|in|for|at)\b)",
     read_with_value("play")),
    _rule(rf"{_LIKER}\s+(?:really )?(?:loves?|likes?"
          rf"|adores?)\s+(?P<v>[\w-]+(?: [\w-]+)?)\W*$", read_with_value("like")),
    _rule(rf"{_LIKER}\s+(?:really )?(?:hates?|dislikes?|is (?:afraid"
          rf"|scared) of)\s+(?P<v>[\w-]+(?: [\w-]+)?)\W*$", read_with_value("dislike")),
    _rule(rf"{_S}{_BE}{_NOW}\s+an?\s+(?P<v>(?:[\w-]+ ){{0,2}}(?:collie|retriever|labrador|poodle"
          rf"|terrier"
     rf"|shepherd|beagle|dachshund|husky|spaniel|pug|bulldog|corgi|greyhound|siamese|persian"
     rf"|maine coon|tabby|ragdoll|mutt|schnauzer|setter|dalmatian|chihuahua))\W*$",
     with_attribute("breed")),
    _rule(rf"(?P<v>[^,;:=?!]{{1,40}}?){_NOW}\s+(?P<verb>{'|'.join(LEADING)})\s+"
     rf"(?P<s>(?:(?:the|our|my|all)\s+)?[^,;?!]{{1,50}})$", read_led),
    _rule(r"(?P<v>[^,;:=?!]{1,40}?)\s+is\s+(?:currently )?on[ -]call\b", read_on_call),
)  # fmt: skip
_THINGS: tuple[Rule, ...] = (
    _rule(rf"{_S}{_NOW}\s+(?<!\bgo )(?<!\bgoes )(?:lives?|resides?"
          rf"|sits?)\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:based|located|stored|kept|situated|headquartered|saved|found"
          rf"|backed up"
     rf"|checked in|archived|parked|buried|hidden|defined|documented)\s+(?:in|at|on|under|near|to)"
     rf"\s+{_V}$", with_attribute("location")),
    _rule(rf"(?:we|i){_NOW}\s+(?:store|keep|save|put|archive|back up)\s+"
     rf"(?P<s>(?:the |our |my |all |all our )?[\w-]+(?: [\w-]+){{0,2}}?)\s+(?:in|at|on|under|to)\s+"
     rf"{_V}$", with_attribute("location")),
    _rule(rf"you(?: can|['’]ll|) find\s+{_S}\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}\s+can be found\s+{_AT}\s+{_V}$", with_attribute("location")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:written|implemented"
          rf"|coded)\s+in\s+{_V}$", with_attribute("language")),
    _rule(rf"{_S}{_BE}{_NOW}\s+licensed\s+under\s+{_V}$", with_attribute("license")),
    _rule(rf"{_S}(?:{_BE}{_NOW}\s+(?:owned|run|handled)\s+by|{_NOW}\s+belongs?\s+to)\s+{_V}$",
     with_attribute("owner")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:maintained"
          rf"|looked after)\s+by\s+{_V}$", with_attribute("maintainer")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:led|headed)\s+by\s+{_V}$", with_attribute("lead")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:managed)\s+by\s+{_V}$", with_attribute("manager")),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:hosted|deployed)\s+(?:on|in|at|by|to)\s+{_V}$",
     with_attribute("host")),
    _rule(rf"(?:we|i){_NOW}\s+(?:host|serve|publish)\s+(?P<s>(?:the |our |my "
          rf"|all )?[\w -]{{2,30}}?)\s+"
     rf"(?:on|in|at|from)\s+{_V}$", with_attribute("host", fits=is_name)),
    _typed(r"(?P<s>(?:the|our|my)\s+[^,;:=?!]{1,40}?)\s+was\s+(?:founded|established|created"
           rf"|built|launched|released)\s+(?:in|on)\s+{_V}$", "founded"),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?!closed|open|off)\w+(?:ed|built|run|sent|made|paid"
          rf"|taken)\s+{_OFTEN}{_V}$",
     read_scheduled),
    _rule(rf"{_S}{_NOW}\s+(?<!\bi )(?<!we )(?:needs?|requires?)\s+(?:at least )?"
     rf"(?P<v>{_NUMBER}\s+[a-z-]+)(?:\s+(?:per|for each|on each)\s+(?P<where>[\w -]{{2,30}}))?"
     rf"(?=[.,]?$)", read_counted),
    _rule(rf"(?P<s>we)\s+require\s+(?:at least )?(?P<v>{_NUMBER}\s+[a-z-]+)\s+(?:per|for each"
          rf"|on each"
     rf"|for every|on every)\s+(?P<where>[\w -]{{2,30}})(?=[.,]?$)", read_counted),
    _rule(rf"(?:we|i){_NOW}\s+(?P<s>deploy|release|ship|meet|publish|review|run|plan|launch|train"
          rf"|back up"
     rf"|invoice|swim)"
     rf"{_NOW}\s+{_WHEN}\s*{_V}$", read_done_on),
    _rule(rf"{_S}(?:{_NOW}\s+|(?=['’]s)){_HAPPENS}{_NOW}\s+{_WHEN}\s*{_V}$", read_scheduled),
    _rule(rf"(?:{_S}(?:{_NOW}|['’]ve got)\s+(?:has|have|consists? of|contains?)|there are"
          rf"|we are)\s+"
     rf"(?:about |around |exactly |only |a total of )?(?P<v>{_NUMBER}\s+[a-z-]+(?:\s+[a-z]+)?)"
     rf"(?:\s+(?:in|on|at|per)\s+(?P<where>(?:the|our|my|each) [\w -]{{2,30}}))?(?=[.,]?$)",
     read_counted),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:an?\s+)?(?P<v>{_ADJECTIVES})\W*$", read_state),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?:written |given |returned |sent |stored )?(?:in"
          rf"|as)\s+(?P<v>{_FACT_RULES_FORMS})"
     rf"\W*$", read_form),
    _rule(rf"{_S}{_NOW}\s+(?:takes? place|(?:is|are) held|happens?)\s+{_AT}\s+{_V}$",
     with_attribute("location", fits=is_place)),
    _rule(rf"{_S}{_BE}{_NOW}\s+(?P<at>{_AT})\s+{_V}$", read_place),
    _rule(rf"{_S}\s*(?:{_BE}{_NOW}|:|=)\s+{_V}$", read_attribute),
    _rule(rf"(?P<v>[^,;:=?!]{{1,50}}?)\s+(?:is|are){_NOW}\s+(?:the|our"
          rf"|my)\s+(?P<s>[^,;?!]{{1,60}})$",
     read_turned_round),
)  # fmt: skip


_TELLING = (
    (r"\b(?:names?|named|called|calls?|go by)\b|(?:my|our) [^,]+,", _NAMES),
    (
        (
            rf"\b(?:us(?:e|es|ing)|adopted|rely|relies|runs?|hosts?|deploys?|(?:is|are|am) on"
            rf"|built|based|chose"
            rf"|went"
            rf"|dropped|abandoned|ditched|retired|picked|\w+i[sz]ed|develop|replaced|listens?"
            rf"|relocated"
            rf"|{_WORK_VERBS}|{_WORK_DONE}|switched|moved|migrated|changed|transitioned|upgraded"
            rf"|settled"
            rf"|raised|lowered|increased|decreased|reduced|extended|set|bumped|fixed|postponed"
            rf"|rescheduled|updated|renamed|pushed|shortened|cut)\b|['’]re on\b"
        ),
        _TOOLS,
    ),
    (
        (
            rf"\d|\b(?:{_NUMBER}|every|each|once|twice|defaults?|hourly|daily|nightly|weekly"
            rf"|biweekly"
            rf"|monthly|quarterly|yearly|annually|hundred|thousand|million|half|hours?|days?|weeks?"
            rf"|months?|years?|minutes?|seconds?|noon|midnight|\w+day|january|february|march"
            rf"|april|may"
            rf"|june|july|august|september|october|november|december)\b"
        ),
        _AMOUNTS,
    ),
    (
        (
            rf"\b(?:allerg\w+|intolerant|works?|working|worked|employed|liv(?:ed|ing)|born|grew"
            rf"|from"
            rf"|reports?|married|stud(?:y|ies|ying)|goes|go|attends?|drives?|speaks?|plays?|loves?"
            rf"|likes?"
            rf"|adores?|hates?|dislikes?|afraid|scared|on[ -]call|{'|'.join(LEADING)}|an?"
            rf"|{_NATIONS})\b"
        ),
        _PEOPLE,
    ),
    ("", _THINGS),
)
"""Groups of rules, each after words of which one stands in all that they find."""


@lru_cache(maxsize=1)
def _compiled() -> tuple[tuple[re.Pattern[str], tuple[tuple[re.Pattern[str], Reader], ...]], ...]:
    # Compiled when first needed: importing the package stays light.
    return tuple(
        (
            re.compile(words, re.IGNORECASE),
            tuple((re.compile(r"\s*" + one, re.IGNORECASE), read) for one, read in group),
        )
        for words, group in _TELLING
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

_LABEL = (
    r"(?:(?:quick|small|side|short|important|one|just a|another) )?(?:note|fyi|reminder|update"
    r"|heads[ -]up|btw|by the way|info|fact|for the record|ps|p\.s\.|psa|context|correction|edit"
    r"|important|announcement|news|tl;dr|background)"
)
_OPENERS = compile_late(
    r"^(?:(?:also|note that|remember that|remember|please note that|please remember that"
    r"|just so you know|actually|basically|oh|hey|hi|hello|sorry|scratch that|my mistake|my bad"
    r"|(?:that|this|it) was (?:a mistake|wrong|an error)|i was (?:wrong|mistaken)|i misspoke"
    rf"|so|and|well|ok|okay|yes|no|it turns out that|it turns out|turns out|for context"
    r"|for reference|in fact|as you know|i confirmed that|i can confirm that|confirmed|currently"
    r"|now"
    r"|today|these days|nowadays|this (?:week|month|year|quarter|sprint)|at the moment|right now"
    r"|as of \w+(?: \d+)?|since \w+(?: \d+)?|starting (?:in|on|from) \w+(?: \d+)?|from now on"
    rf"|going forward|at work|at home|in our team|in my team|personally|{_LABEL})"
    r"(?:\s*[,:—–.]\s+|\s*[,:—–]\s*|\s+-\s+|\s+))+",
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
_USED_TO_BE = compile_late(r"\sused to be\b", _FLAGS)
_ENDED = compile_late(
    r"\b(?:no longer|used to(?= \w)|(?:have |has )?(?:stopped|quit)(?= using\b)"
    r"|(?:do(?:es)?n['’]t|do(?:es)? not)(?= use\b.*\bany ?more\b))\s+|\s+any ?more\b",
    _FLAGS,
)
_STATED_FACTS_DROPPED = compile_late(
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
    said = _USED_TO_BE.sub(lambda found: " is" + " " * (len(found[0]) - 3), clause[start:])
    body = _ENDED.sub(lambda found: " " * len(found[0]), said)
    ended = body != clause[start:] or _STATED_FACTS_DROPPED.search(body) is not None
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


# ----------------------------------------------------------------------------
# Find what was decided in a sentence, and why, if that was said there or right after.


TITLE_CHARACTERS = 80
TRIMMED = " \t\n\r.,;:—–-"

_WHO = (
    r"(?:we|i|the (?:\w+ )?(?:team|board|group|committee|company)|our team|everyone|my \w+ and i)"
)
_DECIDED = compile_late(
    rf"^(?P<lead>(?P<before>.{{0,80}}?)\b(?:{_WHO}|it was|it has been"
    r"|(?-i:(?!You|He|She|They|It|This|That|Who|If|What|When)[A-Z]\w+))"
    r"(?:['’]ve)?\s+(?:have |has |had |finally |just |then |all |both |also |ultimately |eventually"
    r" |jointly |unanimously )*"
    r"(?P<verb>(?:(?:decided|agreed|opted|resolved|voted|committed)(?= (?:not )?(?:to|on|for"
    r"|against|that)\b)"
    r"|settled(?= (?:on|for)\b)|went(?= (?:with|for)\b)|chose|picked|selected)"
    r"\s+)(?P<to>(?:to|that)\b\s*)?(?P<on>(?:on|for|with|against)\b\s*)?)(?P<what>.+)$",
    _FLAGS,
)
_GOING = compile_late(
    r"^(?P<before>.{0,60}?)\b(?:(?:we|i)(?:['’]re| are|['’]m"
    r"| am)\s+(?:now )?(?=(?P<sure>going with)"
    r"|sticking (?:with|to)\b|settling on\b|dropping\b|standardi[sz]ing on\b)"
    r"|(?:(?:we|i)(?:['’]ll| will)|let['’]?s)\s+(?=(?:go with|use|stick (?:with|to)|drop|pick"
    r"|stay (?:with|on)|adopt|keep (?!\w+ing\b))\b))(?P<what>.+)$",
    _FLAGS,
)
"""Said like a plan; a decision only when a reason comes with it, or "going with"."""
_STATED_DECISIONS_CHANGED = compile_late(
    r"^(?P<before>.{0,40}?)\b(?:we|i)(?:['’]ve| have)?\s+(?:finally |just "
    r"|then )?(?P<what>(?:rejected"
    r"|ruled out|ended up (?:using|with)|switched|migrated|moved|adopted|dropped|abandoned|ditched"
    r"|replaced|stopped using)\s.+)$",
    _FLAGS,
)
"""What was done; with a reason, somebody decided it."""
_PASSIVE = compile_late(
    r"^(?P<lead>)(?P<before>)(?P<what>[^,;]{2,60}?)\s+(?:was|were|has been|got)\s+(?:finally )?"
    r"(?:chosen|picked|selected)\b(?P<rest>.+)$",
    _FLAGS,
)
_DECISION_LABEL = compile_late(
    r"^(?:(?:the |our |my |final )*decision(?:\s+(?:is|was)\s+(?:made )?(?:to|that we)|\s*[:–—-])"
    r"|decided\s*[:–—-]|we decided\s*[:–—-]|adr(?:[ -]?\d+)?\s*[:–—-])\s*(?P<what>.+)$",
    _FLAGS,
)
_WHY = (
    r"(?:because(?: of)?|since|due to|so that|so(?= (?:we|it|the)\b)|in order to|to avoid"
    r"|given that|given|as(?= (?:it|we|the|they|there|our|i|nobody|most|new ones|all|my|everyone"
    r"|no one)\b)|on the grounds that"
    r"|thanks to"
    r"|the reason (?:is|was|being)(?: that)?|for the sake of)"
)
_BECAUSE = compile_late(rf"[,;]?\s+{_WHY}\s+|:\s+(?=(?:we|it|the|they|our|i|there)\b)", _FLAGS)
_BECAUSE_BEFORE = compile_late(
    r"^(?:because(?: of)?|since|as|given that|given|due to)\s+(?P<why>[^,]{3,120}),\s*$", _FLAGS
)
_SO = compile_late(
    r"^(?P<why>.{6,120}?),?\s+(?:so|therefore|hence)(?: then| in the end)?\s*$", _FLAGS
)
_REASON = compile_late(
    r"^(?:the |our |my |main )*(?:reason|rationale|why|motivation)\s*(?:is|was|:|being|–|—"
    r"|-)\s*(?:that\s+|because\s+)?(?P<why>.+)$"
    r"|^(?:this is |that is |that's |it's |this was |that was )?because\s+(?P<why2>.+)$",
    _FLAGS,
)
_UNDECIDED = compile_late(
    r"\b(?:not|never|if|before|until|unless|yet|said|says|told|heard|claims?|claimed|thinks|might"
    r"|could|would|should|maybe|perhaps|wish|when|whether|how|why|what|that you|until|wonder"
    r"|pretend|imagine|suppose|read|have to|need to|used to|in the (?:book|novel|story|movie|film"
    r"|game))\b|n['’]t\b",
    _FLAGS,
)
_NO_DECISION = compile_late(
    r"(?:this|that|them|it|up|out|how|what|where|you|your|and|so|me|him|her|us|whether|between|if"
    r"|when|who|a lot|fun|well|home|go (?:home|out|to bed|for an?)|there|crazy|viral|great|nuts"
    r"|(?:a|the) (?:walk|run|hike|swim"
    r"|drive|coffee|ride|drink|bite))\b",
    _FLAGS,
)
_POINTING = compile_late(r"\b(?:this|these|those|that)(?! (?:week|month|year|quarter)\b)\b", _FLAGS)
_ASIDE = compile_late(r",\s+(?:which|who|even|although|though|but)\b|\s+[-—–]\s+", _FLAGS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Something that was decided, in words of the text, and why if that was said."""

    title: str
    narrative: str
    reason: str = ""
    start: int = 0
    end: int = 0

    def to_episode(self) -> Episode:
        """The same as an episode that can be stored."""
        return Episode(
            title=self.title, narrative=self.narrative, reason=self.reason, sort="decision"
        )


def stated_decision(text: str, span: Span, following: Span | None) -> tuple[Decision | None, int]:
    """The decision in a sentence, and how many sentences it takes with its reason."""
    sentence = text[slice(*span)]
    if is_question(sentence) or is_spoken_by_other(sentence):
        return None, 1
    read = _stated_decisions_read(sentence)
    if read is None:
        return None, 1
    what, reason, needs_reason = read
    end, used = span[1], 1
    if not reason and following is not None and (why := _REASON.match(text[slice(*following)])):
        reason = why["why"] or why["why2"] or ""
        end, used = following[1], 2
    what, reason = what.strip(TRIMMED), reason.strip(TRIMMED)
    if (needs_reason and not reason) or not _is_decision(what, reason):
        return None, 1
    made = Decision(
        title=title_of(what), narrative=text[span[0] : end], reason=reason, start=span[0], end=end
    )
    return made, used


def _stated_decisions_read(sentence: str) -> tuple[str, str, bool] | None:
    """What was decided, why, and whether it counts only with a reason."""
    if label := _DECISION_LABEL.match(sentence):
        return (*_parted(label["what"]), False)
    if decided := _DECIDED.match(sentence):
        lead = decided["lead"]
        before = decided["before"].strip()
        why = _BECAUSE_BEFORE.match(f"{before} ") or _SO.match(before)
        unsure = lead[len(decided["before"]) :] if why else lead
        if _UNDECIDED.search(unsure):
            return None
        what, reason = _parted(decided["what"])
        if not _is_decision(what.strip(TRIMMED), reason):
            return None
        plain = decided["to"] or what.startswith("not ")
        named = what if plain else f"{decided['verb']}{decided['on'] or ''}{what}"
        reason = reason or (why["why"] if why else "")
        return named, reason, _is_small(decided["verb"], what, lead)
    if going := _GOING.match(sentence):
        if _UNDECIDED.search(going["before"]):
            return None
        return (*_parted(going["what"]), going["sure"] is None)
    if changed := _STATED_DECISIONS_CHANGED.match(sentence):
        if _UNDECIDED.search(changed["before"]):
            return None
        return (*_parted(changed["what"]), True)
    if passive := _PASSIVE.match(sentence):
        _, reason = _parted(passive["rest"])
        return passive["what"], reason, True
    return None


def _is_small(verb: str, what: str, lead: str) -> bool:
    """Whether it is a choice of the moment ("I picked a seat"), unless there is a reason for it."""
    if verb.split(maxsplit=1)[0].lower() not in ("chose", "picked", "selected", "went"):
        return False
    alone = re.search(r"\bi(?:['’]ve)?\s+\w+\s+(?:\w+\s+)?\Z", lead, _FLAGS) is not None
    return alone or what.islower()


def _parted(what: str) -> tuple[str, str]:
    """What was decided and the reason that follows it in the same sentence."""
    because = _BECAUSE.search(what)
    reason = what[because.end() :] if because else ""
    what = what[: because.start()] if because else what
    aside = _ASIDE.search(what)
    return (what[: aside.start()] if aside else what), reason


def _is_decision(what: str, reason: str) -> bool:
    """Whether the words name something that a later reader can understand."""
    words = what.split()
    if not words or _NO_DECISION.match(what) or _POINTING.search(what):
        return False
    if len(words) > 1:
        return True
    return bool(reason) or not what.islower()


def title_of(text: str) -> str:
    """`text` cut at a word to the length of a title."""
    if len(text) <= TITLE_CHARACTERS:
        return text
    cut = text.rfind(" ", 0, TITLE_CHARACTERS)
    return text[: cut if cut > TITLE_CHARACTERS // 2 else TITLE_CHARACTERS].rstrip(TRIMMED) + "…"


# ----------------------------------------------------------------------------
# Find an error and what fixed it, in one sentence or in two or three that follow each other.


_FAILED = compile_late(
    r"\b(?:fail(?:ed|s|ing|ures?)?|crash(?:ed|es|ing)?|broke|breaks|broken|errors? out|threw|throws"
    r"|raised? (?:an? )?(?-i:[A-Z])\w+|raises|time[sd] out|timing out|hung|hangs|died|dies"
    r"|got an? (?:\w+ ){0,2}error|\w*Error\b|\w*Exception\b|exceptions?|errors?|errored|bugs?"
    r"|segfault(?:s|ed)?|stack trace|traceback|panick?(?:ed|s)|regressions?|exit code \d+"
    r"|(?:http |status )?[45]\d\d(?=\b(?! ?(?:ms|mb|gb|kb|s\b|px|users|rows|euros)))"
    r"|(?-i:E[A-Z]{4,})"
    r"|(?-i:OOM)\w*|flaky|stuck|freezes|froze|frozen|leak(?:s|ed|ing)?|deadlock(?:s|ed)?|timeouts?"
    r"|(?:was|were|went|is) down|corrupt(?:ed)?|refused|denied|unable to|out of (?:memory|space"
    r"|disk)"
    r"|(?:would|could|did|does|do|was|were|is|are|can)(?:n['’]t| not)(?= \w)|cannot"
    r"|(?:stopped|not) working|jam(?:s|med|ming)?|conflicts?|mismatch(?:es|ed)?|rejected|expired"
    r"|blank|kept (?!up\b)\w+ing|warnings?|overflow(?:ed|s)?|race condition"
    r"|out of sync|missing|too slow|slow|outage|incident|faults?|loop|garbled|not found|blocked"
    r"|lost|wrong|issue|problem|glitch(?:es)?)\b",
    _FLAGS,
)
_CURED = r"(?:fixed|solved|resolved|cured|repaired|sorted(?: out)?|mitigated|addressed)"
_IT = r"(?:it|this|that|them|these|the (?:issue|problem|error|bug|crash|failure|thing))"
_FIX = compile_late(
    r"(?:^|[,;.:—–-]\s*|\band\s+|\bwhich\s+|\bso\s+|\bit\s+|\bwas\s+|\bwere\s+|\bwe\s+|\bi\s+"
    r"|\bthen\s+)"
    r"(?:(?:was |were |got |is |finally |eventually |we |i |have |has |been |['’]ve |which |this "
    rf"|that |it |the (?:problem|issue|error|bug) )*(?:{_CURED}|worked around"
    rf"|got around)(?:\s+{_IT})?"
    r"\s+(?:by|with|after|via|through)\s+"
    r"|(?:the |our |my |a |temporary |quick )*(?:fix|solution|workaround|remedy|cure)"
    r"\s*(?:was|is|:|turned out to be|for (?:it|this|that) (?:was|is))\s*(?:to\s+)?)"
    r"(?P<fix>.+)$",
    _FLAGS,
)
_HELPED = (
    rf"(?:{_CURED}\s+{_IT}|(?:made|let) (?:it|this|the \w+) (?:go away|work(?: again)?|disappear)"
    r"|helped|did the trick|did it|worked|(?<=and it )(?:recovered|came back|passed"
    r"|works)(?: again| now)?|got rid of (?:it|them|the (?:error|problem|issue))"
    r"|brought (?:it|the \w+) back(?: up)?)"
)
_FIXED_IT = compile_late(
    r"^(?:but |then |so |and |in the end,? |finally,? |eventually,? |turns out |it turned out )*"
    r"(?P<fix>[^;]+?)(?:,? (?:and|which) (?:that |this |it )?)?(?:\s+(?:finally |just "
    r"|immediately )?|"
    rf"(?<=which )){_HELPED}\W*$",
    _FLAGS,
)
_FIXED_FIRST = compile_late(
    r"^(?:(?:we|i|(?-i:[A-Z])\w+)(?:['’]ve| have| has)?\s+(?:finally |just )?)?"
    rf"{_CURED}\s+(?P<error>.+?)\s+(?:by|with|via)\s+(?P<fix>.+)$",
    _FLAGS,
)
_FIX_OF = compile_late(
    rf"^(?P<fix>[^;]+?)\s+(?:finally )?(?:{_CURED}|got rid of|eliminated|stopped|put an end to)\s+"
    r"(?P<error>(?:the|our|my|all|those|a|an)\s+[^;]+)$",
    _FLAGS,
)
_WENT_AWAY = compile_late(
    r"^(?P<error>[^;]+?)\s+(?:went away|disappeared|vanished|stopped|(?:is|are|was|were) gone"
    r"|no longer (?:occurs?|happens?|appears?))\s+(?:after|once|when|by)\s+(?P<fix>.+)$",
    _FLAGS,
)
_TO_FIX = compile_late(
    r"^to (?:fix|solve|resolve|work around|get rid of)\s+(?P<error>[^,;]+?),?\s+(?:we|i)\s+"
    r"(?P<fix>(?:just |simply |finally )?\w+(?:ed|t|w|n|an|et|ut|id|ote|ade|ook|ave)\b.+)$",
    _FLAGS,
)
_AFTER = compile_late(
    r"^after (?P<fix>\w+ing .+?),? (?P<error>(?:the|our|my|all) [^,;]+?) (?:went away|disappeared"
    r"|vanished|stopped|was gone|were gone|was fixed|were fixed|was resolved)\W*$",
    _FLAGS,
)
_FIX_FOR = compile_late(
    r"^the (?:fix|solution|workaround|remedy|cure) (?:for|to) (?P<error>(?!it\b|this\b"
    r"|that\b)[^,;]+?)"
    r"\s+(?:was|is)\s+(?:to\s+)?(?P<fix>.+)$",
    _FLAGS,
)
_UNTIL = compile_late(
    r"^(?P<error>[^;]*?\bkept\b[^;]+?|[^;]*?\b(?:failed|crashed|broke)\b[^;]*?)\s+until\s+(?:we"
    r"|i)\s+"
    r"(?P<fix>[^;]+)$",
    _FLAGS,
)
_WITHIN = compile_late(r"\s*;\s+|\s+[—–]\s+|\s+-\s+|,\s+(?:and|but|so)\s+|\.\s+", _FLAGS)
_BARE = compile_late(
    r"(?:the |our |my |an? |this |that |some )*(?:it|them|this|that|issue|problem|error|bug"
    r"|thing)s?"
    r"\W*\Z",
    _FLAGS,
)
_OPEN = compile_late(
    r"\b(?:if|maybe|perhaps|might|should|shall|will|try|let['’]?s|need to|needs to|want to|going to"
    r"|hope|wish|what if|whether|suppose|imagine|nothing|nobody|none|neither|have to|has to|please"
    r"|could (?!not)|would (?!not))\b|['’]ll\b",
    _FLAGS,
)
_NOT_YET = compile_late(
    r"\b(?:not|never|no|nothing|none|nobody|neither|yet|hardly)\b|n['’]t\b|\A(?:how|what|this"
    r"|that|it"
    r"|they|he|she|you|and|the next|tomorrow|friday|monday|tuesday|thursday|next)\b",
    _FLAGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFix:
    """An error that was met and what fixed it."""

    error: str
    fix: str
    narrative: str = ""
    start: int = 0
    end: int = 0

    def to_episode(self) -> Episode:
        """The same as an episode that can be stored."""
        return Episode(
            title=title_of(self.error),
            narrative=self.narrative,
            sort="error",
            error=self.error,
            fix=self.fix,
        )


def stated_fix(text: str, spans: Sequence[Span], place: int) -> tuple[ErrorFix | None, int]:
    """The error and its fix that begin with a sentence, and how many sentences that took."""
    span = spans[place]
    sentence = text[slice(*span)]
    if not is_own(sentence) or _OPEN.search(sentence):
        return None, 1
    if found := _in_one(sentence):
        return _made(text, span, *found), 1
    if not _FAILED.search(sentence):
        return None, 1
    for further, following in enumerate(spans[place + 1 : place + 3], 1):
        after = text[slice(*following)]
        if not is_own(after) or _OPEN.search(after):
            return None, 1
        fix = _FIX.match(after) or _FIXED_IT.match(after)
        if fix is not None:
            made = _made(text, (span[0], following[1]), sentence, fix["fix"])
            return made, 1 if made is None else further + 1
    return None, 1


def _in_one(sentence: str) -> tuple[str, str] | None:
    """An error and its fix in one sentence."""
    for pattern in (_FIX_FOR, _FIXED_FIRST, _TO_FIX):
        match = pattern.match(sentence)
        if match is not None and not _BARE.match(match["error"]):
            return match["error"], match["fix"]
    for cut in _WITHIN.finditer(sentence):
        before, after = sentence[: cut.start()], sentence[cut.end() :]
        if _FAILED.search(before) and (fix := _FIX.match(after) or _FIXED_IT.match(after)):
            return before, fix["fix"]
    fix = _FIX.search(sentence)
    if fix is not None and _FAILED.search(sentence[: fix.start()]):
        before = sentence[: fix.start()].strip(TRIMMED)
        return None if _BARE.match(before) else (before, fix["fix"])
    for pattern in (_FIX_OF, _WENT_AWAY, _AFTER, _UNTIL):
        match = pattern.match(sentence)
        if match is None or _BARE.match(match["error"]):
            continue
        if _FAILED.search(match["error"]):
            return match["error"], match["fix"]
    return None


def _made(text: str, span: Span, error: str, fix: str) -> ErrorFix | None:
    error = re.sub(r"^(?:problem|error|issue|bug|symptom)\s*:\s*", "", error, flags=_FLAGS)
    error = re.sub(
        r"(?:,?\s+(?:and|which|but|it|was|were|we|i|so))+$", "", error.strip(TRIMMED), flags=_FLAGS
    )
    fix = re.sub(r"^(?:(?:we|i)\s+|by\s+|to\s+)", "", fix.strip(TRIMMED), flags=_FLAGS)
    fix = re.sub(r",?\s+(?:and|which)(?: that| this| it)?$", "", fix, flags=_FLAGS).strip(TRIMMED)
    if not error or not fix or _NOT_YET.search(fix):
        return None
    return ErrorFix(error=error, fix=fix, narrative=text[slice(*span)], start=span[0], end=span[1])


LONGEST_SENTENCE = 600
MAX_CHARACTERS = 200_000
"""Of a longer text the beginning is read."""
_SHORT_QUOTE_WORDS = 4
_BULLET = compile_late(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+|^\s*#{1,6}\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """All that one text states; offsets are positions in that text."""

    facts: tuple[Fact, ...] = ()
    decisions: tuple[Decision, ...] = ()
    fixes: tuple[ErrorFix, ...] = ()


def extract(text: str) -> Extracted:
    """The facts, decisions and fixed errors that `text` states, in order.

    Any text may be given; the same text always gives the same. A fact's `text`
    is the sentence it stands in, `start` and `end` are that sentence's place.
    """
    require_text(text, "text")
    read = text[:MAX_CHARACTERS]
    own = own_words(read)
    spans = list(statements(own))
    facts: list[Fact] = []
    decisions: list[Decision] = []
    fixes: list[ErrorFix] = []
    place = 0
    while place < len(spans):
        following = spans[place + 1] if place + 1 < len(spans) else None
        fix, used = stated_fix(own, spans, place)
        decision, used_too = stated_decision(own, spans[place], following)
        if fix is not None:
            fixes.append(fix)
        elif decision is not None:
            decisions.append(decision)
            used = used_too
        if fix is None:
            facts += _facts(own, *spans[place], text)
        place += used
    return Extracted(facts=tuple(facts), decisions=tuple(decisions), fixes=tuple(fixes))


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
    if "\n" in text[start:end]:
        return True
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    return line.strip() == text[start:end].strip()


def statements(text: str) -> Iterator[Span]:
    """Where the sentences of own words are, line by line, without bullets; none too long."""
    for start, end in sentences(text):
        position = start
        for line in text[start:end].split("\n"):
            begin = position
            position += len(line) + 1
            bullet = _BULLET.match(line)
            said = line[bullet.end() :] if bullet else line
            stripped = said.strip()
            if stripped and len(stripped) <= LONGEST_SENTENCE:
                begin += len(line) - len(said.lstrip())
                yield begin, begin + len(stripped)


def _facts(own: str, start: int, end: int, text: str) -> Iterator[Fact]:
    sentence = own[start:end]
    if not is_asserted(sentence) or points_at_something(sentence) or _CODE_LIKE.search(sentence):
        return
    for begin, stop in clauses_of(sentence):
        found = stated_fact(sentence[begin:stop].rstrip())
        if found is not None:
            yield Fact(
                key=found.key,
                value=found.value,
                text=text[start:end],
                confidence=round(found.confidence, 4),
                start=start,
                end=end,
                ended=found.ended,
                scope=scope_of_clause(sentence[begin:stop]),
            )


def scope_of_clause(clause: str) -> FactScope:
    """Of whom a clause speaks; see `Fact.scope`."""
    if of_project(clause) or _TOGETHER.search(clause):
        return "project"
    return "user" if _ALONE.search(clause) else ""


_TOGETHER = re.compile(r"\b(?:we|our|ours|us)\b", _FLAGS)
_ALONE = re.compile(r"\b(?:i|my|me|mine|myself)\b", _FLAGS)
