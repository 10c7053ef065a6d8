"""Whether two texts say the same, which of two memories stays, and what it takes over.

A similarity alone merges "the limit is 900" with "the limit is 600". Two texts
are the same here only when they are alike and agree in their numbers, names,
negations and code, when no rule sees a contradiction, and when neither has a
word in a place where the other has another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal

from agentmem.base.checks import require_number
from agentmem.base.lazy import compile_late
from agentmem.base.types import Memory, Usage, is_pinned
from agentmem.living.conflicts import (
    SPECIFIERS,
    JudgedClause,
    Statement,
    StatementReading,
    judge_readings,
    read_statement,
    same_stem,
    stem_word,
)
from agentmem.living.levels import Essentials, has_word, read_essentials

MERGE_SIMILARITY = 0.92
MOST_EXTRA_WORDS = 3
"""How many words one text may have more than the other and still say the same."""

MergeReason = Literal[
    "same", "similarity", "number", "name", "negation", "code", "conflict", "words", "order", "time"
]
_BOOKKEEPING = frozenset({"base_importance", "forgotten_at", "forgotten_because", "cold_at"})
_MODAL_WORDS = "must may might can could should shall will would"
_MODALS = frozenset(_MODAL_WORDS.split())
_SMALL_WORDS = (
    "and or nor to from by for with until since before after during more less fewer most least"
    " on off up down is are was were has have had do does did"
    " i you he she we they me him her us them my your his our their if unless"
)
_SMALL = _MODALS | frozenset(_SMALL_WORDS.split())
"""Words that no comparison of telling words sees, and that change what is said."""
_WORD = compile_late(r"[a-z]+(?:'[a-z]+)?")
_SPECIFYING = frozenset(stem_word(word) for word in SPECIFIERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeVerdict:
    """Whether two texts may become one, and what speaks against it."""

    same: bool
    reason: MergeReason
    similarity: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReading:
    """A text read once for comparing it with many."""

    text: str
    essentials: Essentials
    reading: StatementReading


def read_for_merging(text: str) -> MergeReading:
    """`text` as `same_readings` needs it."""
    return MergeReading(text=text, essentials=read_essentials(text), reading=read_statement(text))


def same_readings(
    first: MergeReading,
    second: MergeReading,
    similarity: float,
    *,
    threshold: float = MERGE_SIMILARITY,
) -> MergeVerdict:
    """Whether two texts, this similar, say the same; the order does not matter (L4)."""
    require_number(similarity, "similarity")
    require_number(threshold, "threshold", low=0.0, high=1.0)

    def verdict(reason: MergeReason) -> MergeVerdict:
        return MergeVerdict(same=reason == "same", reason=reason, similarity=float(similarity))

    if similarity < threshold:
        return verdict("similarity")
    if first.text == second.text:
        return verdict("same")
    one, other = first.essentials, second.essentials
    if one.numbers != other.numbers:
        return verdict("number")
    if one.negations != other.negations:
        return verdict("negation")
    if set(one.code) != set(other.code):
        return verdict("code")
    if not (_names_in(one, other) and _names_in(other, one)):
        return verdict("name")
    if judge_readings(
        Statement(text=first.text),
        first.reading,
        second=Statement(text=second.text),
        second_reading=second.reading,
    ).conflicting:
        return verdict("conflict")
    if _small_words_swapped(first.text, second.text):
        return verdict("words")
    return verdict(_compare_clauses(first.reading, second.reading))


def choose_survivor(first: Memory, second: Memory) -> tuple[Memory, Memory]:
    """The memory that stays and the one that goes, whichever way round they are given.

    A pinned one stays, then the one that says more, the one cited more often,
    the newer one, the more important one, and of equal ones the smaller id.
    """
    ranked = sorted((first, second), key=_rank)
    return ranked[0], ranked[1]


def merge_metadata(survivor: Memory, loser: Memory) -> Mapping[str, Any]:
    """The metadata of both: the survivor's word counts, lists are joined, `merged_from` grows."""
    merged: dict[str, Any] = {
        name: value for name, value in loser.metadata.items() if name not in _BOOKKEEPING
    }
    for name, value in survivor.metadata.items():
        before = merged.get(name)
        if isinstance(value, list | tuple) and isinstance(before, list | tuple):
            merged[name] = [*value, *(item for item in before if item not in value)]
        else:
            merged[name] = value
    ids = {loser.id}
    for memory in (survivor, loser):
        listed = memory.metadata.get("merged_from")
        ids |= {str(item) for item in listed} if isinstance(listed, list | tuple) else set()
    merged["merged_from"] = sorted(ids - {survivor.id})
    return MappingProxyType(merged)


def merge_usage(survivor: Usage, loser: Usage) -> Usage:
    """What was counted for either, added up."""
    used = [at for at in (survivor.last_used_at, loser.last_used_at) if at is not None]
    return Usage(
        retrieved=survivor.retrieved + loser.retrieved,
        cited=survivor.cited + loser.cited,
        ignored=survivor.ignored + loser.ignored,
        last_used_at=max(used) if used else None,
    )


def _rank(memory: Memory) -> tuple[bool, int, int, float, float, str]:
    newest: datetime = memory.valid_from or memory.created_at
    return (
        not is_pinned(memory),
        -len(set(memory.text.lower().split())),
        -memory.usage.cited,
        -newest.timestamp(),
        -memory.importance,
        memory.id,
    )


def _names_in(one: Essentials, other: Essentials) -> bool:
    """Whether every name of one text is a word of the other."""
    return all(has_word(other, name) for name in one.names)


def _small_words_swapped(first: str, second: str) -> bool:
    """Whether one has a small word that matters where the other has another, or a "must" alone."""
    one, other = (
        {word for word in _WORD.findall(text.lower().replace("’", "'")) if word in _SMALL}
        for text in (first, second)
    )
    only_one, only_other = one - other, other - one
    return bool(only_one and only_other) or not _MODALS.isdisjoint(only_one | only_other)


def _compare_clauses(first: StatementReading, second: StatementReading) -> MergeReason:
    ours, theirs = first.clauses, second.clauses
    if any(c.past for c in ours) != any(c.past for c in theirs):
        return "time"
    if all(c.asserted for c in ours) != all(c.asserted for c in theirs):
        return "words"
    if any(c.all for c in ours) != any(c.all for c in theirs) or (
        any(c.few for c in ours) != any(c.few for c in theirs)
    ):
        return "words"
    if len(ours) == len(theirs):
        if any(a.particles ^ b.particles for a, b in zip(ours, theirs, strict=True)):
            return "words"
        if any(a.person != b.person for a, b in zip(ours, theirs, strict=True)):
            return "words"
    one = {word for clause in ours for word in clause.bag}
    other = {word for clause in theirs for word in clause.bag}
    only_one, only_other = one - other, other - one
    for word in sorted(only_one):
        twin = next((o for o in sorted(only_other) if same_stem(word, o)), None)
        if twin is not None:
            only_one.discard(word)
            only_other.discard(twin)
    if only_one and only_other:
        return "words"
    extra = only_one or only_other
    if len(extra) > MOST_EXTRA_WORDS or not extra.isdisjoint(_SPECIFYING):
        return "words"
    if len(extra) > max(1, len(one & other) // 2):
        return "words"
    return "same" if _same_order(ours, theirs) else "order"


def _same_order(ours: tuple[JudgedClause, ...], theirs: tuple[JudgedClause, ...]) -> bool:
    """Whether the words both have come in one order: who chases whom is told by nothing else."""
    one = [word for clause in ours for word in clause.order]
    other = [word for clause in theirs for word in clause.order]
    both = set(one) & set(other)
    return list(dict.fromkeys(word for word in one if word in both)) == list(
        dict.fromkeys(word for word in other if word in both)
    )
