"""Compares two clauses: what they share, what differs, and whether the difference contradicts."""

from __future__ import annotations

from dataclasses import field

from agentmem.core.conflicts_kinds import EXCLUSIVE
from agentmem.core.conflicts_reading import Clause
from agentmem.core.conflicts_synonyms import canonical, opposite
from agentmem.core.conflicts_values import Value, values_agree, values_comparable
from agentmem.core.conflicts_verdicts import Reason, Verdict
from agentmem.core.conflicts_words import SPECIFIERS
from agentmem.core.values import dataclass


@dataclass(slots=True)
class _Difference:
    """What is left of two clauses after everything they share."""

    shared: frozenset[str]
    ours: set[str] = field(default_factory=set)
    theirs: set[str] = field(default_factory=set)
    opposites: tuple[tuple[str, str], ...] = ()


def compare_clauses(ours: Clause, theirs: Clause, *, keyed: bool) -> Verdict | None:
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


def _difference(ours: Clause, theirs: Clause) -> _Difference:
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


def _by_negation(ours: Clause, theirs: Clause, rest: _Difference, keyed: bool) -> Verdict | None:
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


def _by_opposite(ours: Clause, theirs: Clause, rest: _Difference, keyed: bool) -> Verdict | None:
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


def _by_quantity(ours: Clause, theirs: Clause, rest: _Difference, keyed: bool) -> Verdict | None:
    if (rest.ours or rest.theirs) and not keyed:
        return None
    return _verdict(
        "antonym", ours, rest, confidence=0.7, first=_saying(ours), second=_saying(theirs)
    )


def _by_value(
    ours: Clause,
    theirs: Clause,
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


def _same_thing(ours: Clause, theirs: Clause, rest: _Difference) -> bool:
    """Whether the words beside the values name one thing: one side adds little to the other."""
    if rest.ours and rest.theirs:
        return False
    extra, side, other = (rest.ours, ours, theirs) if rest.ours else (rest.theirs, theirs, ours)
    if _other_thing(extra, side, other):
        return False
    return len(extra) <= max(1, len(rest.shared))


def _other_thing(extra: set[str], side: Clause, other: Clause | None = None) -> bool:
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


def _by_start(ours: Clause, theirs: Clause, rest: _Difference) -> Verdict | None:
    """Two beginnings of one state: "since 2019" and "since 2021"."""
    if rest.ours or rest.theirs or ours.change != theirs.change:
        return None
    agreeing, differing = _match_values(ours.since, theirs.since)
    if agreeing or not differing or ours.values != theirs.values:
        return None
    one, other = differing[0]
    return _verdict("date", ours, rest, confidence=0.7, first=one.shown, second=other.shown)


def _by_words(ours: Clause, theirs: Clause, rest: _Difference, keyed: bool) -> Verdict | None:
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


def _one_sort(ours: Clause, theirs: Clause, rest: _Difference) -> bool:
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


def _in_value_place(clause: Clause, only: set[str]) -> bool:
    """Whether the words of one side alone stand after words that both share."""
    if not only.isdisjoint(clause.subject):
        return False
    return bool(clause.order) and (clause.order[0] not in only or bool(clause.person))


def _coverage(rest: _Difference) -> float:
    total = 2 * len(rest.shared) + len(rest.ours) + len(rest.theirs)
    return 2 * len(rest.shared) / total if total else 1.0


def _words(clause: Clause, only: set[str]) -> str:
    return " ".join(clause.surfaces.get(w, w) for w in dict.fromkeys(clause.order) if w in only)


def _saying(clause: Clause) -> str:
    words = " ".join(clause.surfaces.get(w, w) for w in dict.fromkeys(clause.order))
    return f"not {words}" if clause.negated else words


def _verdict(
    reason: Reason,
    ours: Clause,
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
