"""How often two memories were cited in one answer, kept as links between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from agentmem.core.living.plans import Pair, pair_of
from agentmem.errors import RecordNotFound
from agentmem.stores.base import Store
from agentmem.stores.values import Link
from agentmem.types import Scope

CO_CITED = "co-cited"
MOST_CITED = 6
"""Of an answer that cites more, only the first count: it tells little about any two of them."""


def count_co_citations(store: Store, scope: Scope, cited: Sequence[str], *, at: datetime) -> None:
    """Count that these were cited together; those that are gone are passed over."""
    for first, second in combinations(sorted(set(cited[:MOST_CITED])), 2):
        try:
            known = [
                link
                for link in store.links.of(scope, first)
                if link.relation == CO_CITED and link.second_id == second
            ]
            new = Link(first_id=first, second_id=second, relation=CO_CITED, created_at=at, note="1")
            if known:
                note = str(times_of(known[0]) + 1)
                store.links.settle(scope, known[0], at=at, note=note)
            else:
                store.links.put(scope, new)
        except RecordNotFound:
            continue


def co_cited(links: Iterable[Link]) -> Mapping[Pair, int]:
    """The counts, by pair."""
    return {
        pair_of(link.first_id, link.second_id): times_of(link)
        for link in links
        if link.relation == CO_CITED
    }


def times_of(link: Link) -> int:
    """The count a link holds; a note that is no number counts once."""
    return int(link.note) if link.note.isdecimal() else 1
