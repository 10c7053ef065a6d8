"""A statement read once, so that it can be compared with many others quickly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentmem.core.conflicts_clauses import COPULAS, ClauseReader
from agentmem.core.conflicts_kinds import EXCLUSIVE
from agentmem.core.conflicts_synonyms import canonical
from agentmem.core.conflicts_tokens import Token, split_tokens
from agentmem.core.conflicts_values import Value
from agentmem.core.conflicts_words import CLAUSE_BREAKS
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass

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
    r"|moved (?:to|from|into|over)|since (?:the |last |this )?\w+|is now|are now"
    r"|has been (?:changed|moved|replaced|raised|lowered)|(?:went|gone|go) from \S+ to)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Clause:
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
class Reading:
    """A text as the judge needs it; made by `read_statement`."""

    text: str
    clauses: tuple[Clause, ...]
    words: frozenset[str]


def read_statement(text: str) -> Reading:
    """`text` read clause by clause; any text can be read, and most of the work is done here."""
    clauses: list[Clause] = []
    shortened = text[:MAX_CHARACTERS]
    for start, end in sentences(shortened):
        for clause in _read_sentence(shortened[start:end]):
            clauses.append(clause)
            if len(clauses) >= MAX_CLAUSES:
                break
        if len(clauses) >= MAX_CLAUSES:
            break
    words = frozenset(
        word for clause in clauses for group in (clause.bag, _marked(clause)) for word in group
    )
    return Reading(text=text, clauses=tuple(clauses), words=words)


def _marked(clause: Clause) -> Iterator[str]:
    """What relates a clause beside its words, in a form that no word has."""
    yield from (f" {topic}" for topic in clause.topics)
    if clause.person and len(clause.bag) <= _FEW_WORDS:
        yield f" {clause.person}"  # "I'm left-handed": hardly a word to share


def _read_sentence(sentence: str) -> Iterator[Clause]:
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
) -> Clause | None:
    builder = ClauseReader(tokens, first)
    builder.read()
    if not builder.order and not builder.values and not builder.since:
        return None
    piece = " ".join(token.text for token in tokens)
    change = builder.change or _CHANGE_PHRASE.search(piece) is not None
    return Clause(
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
