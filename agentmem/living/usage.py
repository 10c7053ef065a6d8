"""Whether an answer used a memory, and what being used or passed over does to its rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations

from agentmem.base.errors import RecordNotFound
from agentmem.base.types import Scope, Usage
from agentmem.stores.base import Store
from agentmem.stores.values import Link
from agentmem.text.terms import analyse_query

LEAST_WORDS = 4
SHARED = 0.6
"""An answer without a number used a memory when it has so much of what the memory tells."""
READ_CHARACTERS = 20_000

MOST = 0.10
"""Use moves a score by at most a tenth, up or down."""
HALF_LIFE_DAYS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A memory as a model was shown it: under a number, or under none (0)."""

    id: str
    number: int
    text: str


def find_used(answer: str, shown: Sequence[Shown], *, question: str = "") -> frozenset[str]:
    """The ids of what `answer` used.

    Those whose numbers it cites. If it cites none at all, those of whose
    telling words, the question's own left out, it has `SHARED` or more and at
    least `LEAST_WORDS`: a model that does not cite still says what it read.
    """
    from agentmem.prompt.cite import cited_numbers

    numbers = set(cited_numbers(answer))
    cited = frozenset(one.id for one in shown if one.number and one.number in numbers)
    if cited:
        return cited
    said = _terms(answer)
    if len(said) < LEAST_WORDS:
        return frozenset()
    asked = _terms(question)
    return frozenset(
        one.id
        for one in shown
        if len((terms := _terms(one.text) - asked) & said) >= max(LEAST_WORDS, SHARED * len(terms))
    )


def usage_factor(usage: Usage, *, now: datetime) -> float:
    """What to multiply a score with: above 1 for what is cited, below for what is passed over.

    Between 1 − `MOST` and 1 + `MOST`, and halfway back to 1 every
    `HALF_LIFE_DAYS` without use. What was never shown stays at 1; so does what
    was passed over only once or twice.
    """
    if usage.last_used_at is None or not (usage.cited or usage.ignored):
        return 1.0
    balance = 2.0 * usage.cited - max(0, usage.ignored - 2) * 0.5
    age_days = max(0.0, (now - usage.last_used_at).total_seconds() / 86_400)
    fade: float = 0.5 ** (age_days / HALF_LIFE_DAYS)
    return 1.0 + MOST * math.tanh(balance / 4.0) * fade


def _terms(text: str) -> set[str]:
    return {term for term, _ in analyse_query(text[:READ_CHARACTERS], max_terms=2_000)}


# ----------------------------------------------------------------------------
# How often two memories were cited in one answer, kept as links between them.


CO_CITED = "co-cited"
MOST_CITED = 6
"""Of an answer that cites more, only the first count: it tells little about any two of them."""


def count_co_citations(store: Store, scope: Scope, cited: Sequence[str], *, at: datetime) -> None:
    """Count that these were cited together; those that are gone are passed over."""
    for first, second in combinations(sorted(set(cited[:MOST_CITED])), 2):
        new = Link(first_id=first, second_id=second, relation=CO_CITED, created_at=at, note="1")
        with suppress(RecordNotFound):
            links = store.links.of(scope, first)
            known = [one for one in links if (one.relation, one.second_id) == (CO_CITED, second)]
            if known:
                note = str(times_of(known[0]) + 1)
                store.links.settle(scope, known[0], at=at, note=note)
            else:
                store.links.put(scope, new)


def co_cited(links: Iterable[Link]) -> dict[tuple[str, str], int]:
    """The counts, by pair."""
    cited = (link for link in links if link.relation == CO_CITED)
    return {(link.first_id, link.second_id): times_of(link) for link in cited}


def times_of(link: Link) -> int:
    """The count a link holds; a note that is no number counts once."""
    return int(link.note) if link.note.isdecimal() else 1
