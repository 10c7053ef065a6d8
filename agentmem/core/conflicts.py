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

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from agentmem.core.checks import require_count, require_unit
from agentmem.core.conflicts_compare import compare_clauses
from agentmem.core.conflicts_reading import Clause, Reading, read_statement
from agentmem.core.conflicts_verdicts import Conflict, Reason, Side, Statement, Verdict, VerdictKind
from agentmem.core.sentences import sentences
from agentmem.types import utc

__all__ = [
    "Conflict",
    "Reading",
    "Reason",
    "Side",
    "Statement",
    "Verdict",
    "VerdictKind",
    "find_conflicts",
    "judge",
    "judge_readings",
    "read_statement",
]

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
    first: Statement, first_reading: Reading, *, second: Statement, second_reading: Reading
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
    best: Verdict | None = None
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
    if best is not None and not _agrees_elsewhere(best, first_reading, second_reading):
        return best
    return NONE if related else UNRELATED


def _may_relate(ours: Clause, theirs: Clause) -> bool:
    """Whether a closer look can find anything: a shared word, or a sort or person in common."""
    if not ours.bag.isdisjoint(theirs.bag) or not ours.topics.isdisjoint(theirs.topics):
        return True
    return bool(ours.person) and ours.person == theirs.person and len(ours.bag) <= 2


def _agrees_elsewhere(found: Verdict, first: Reading, second: Reading) -> bool:
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


def _parts(statements: Sequence[Statement]) -> Iterator[tuple[int, Statement, Reading]]:
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
    ours: Clause,
    theirs: Clause,
    our_date: datetime | None,
    their_date: datetime | None,
) -> Verdict:
    newer: Side = ""
    if ours.past != theirs.past:
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
