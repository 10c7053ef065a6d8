"""The values of one key over time: where a new one belongs, and what that changes (P38).

A timeline is the facts of one key of one owner. Each holds until the next one
begins; the last one holds now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from agentmem.core.living.records import Fact, from_memory
from agentmem.core.living.settling import start_of
from agentmem.core.values import dataclass
from agentmem.types import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Insertion:
    """A new fact as it is to be stored, and the facts before and after it, changed."""

    new: Memory
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()


def key_of(memory: Memory) -> str:
    """The key of the fact a memory holds, or ""."""
    record = from_memory(memory)
    return record.key if isinstance(record, Fact) else ""


def value_of(memory: Memory) -> tuple[str, bool]:
    """What a fact says of its key: the words of its value, and whether it ended."""
    record = from_memory(memory)
    if not isinstance(record, Fact):
        return memory.text.casefold(), False
    return " ".join(record.value.casefold().split()), record.ended


def in_order(facts: Iterable[Memory]) -> list[Memory]:
    """The facts of one key, earliest first."""
    return sorted(facts, key=lambda fact: (start_of(fact), fact.created_at, fact.id))


def already_said(known: Iterable[Memory], new: Memory) -> Memory | None:
    """The fact that held when `new` began and says the same, or None."""
    earlier = [fact for fact in in_order(known) if start_of(fact) <= start_of(new)]
    held = earlier[-1] if earlier else None
    return held if held is not None and value_of(held) == value_of(new) else None


def insert_fact(known: Sequence[Memory], new: Memory) -> Insertion | None:
    """What to write so that `new` has its place among the facts of its key.

    None when the fact that held then says the same. A fact told late, about
    an earlier time, goes where it belongs; it does not become the current one.
    Facts that begin at the same moment take each other's place at once.
    """
    ordered = in_order(known)
    start = start_of(new)
    earlier = [fact for fact in ordered if start_of(fact) <= start]
    later = [fact for fact in ordered if start_of(fact) > start]
    held = earlier[-1] if earlier else None
    if held is not None and value_of(held) == value_of(new):
        return None
    following = later[0] if later else None
    placed = replace(
        new,
        supersedes=None if held is None else held.id,
        superseded_by=None if following is None else following.id,
        valid_from=start,
        valid_to=None if following is None else start_of(following),
    )
    before: list[Memory] = []
    after: list[Memory] = []
    if held is not None:
        before.append(held)
        ended = start if held.valid_to is None else min(held.valid_to, start)
        after.append(replace(held, superseded_by=new.id, valid_to=ended))
    if following is not None:
        before.append(following)
        after.append(replace(following, supersedes=new.id))
    return Insertion(new=placed, before=tuple(before), after=tuple(after))


def held_at(facts: Iterable[Memory], moment: datetime) -> Memory | None:
    """The fact of a key that held at `moment`, or None."""
    for fact in reversed(in_order(facts)):
        if start_of(fact) <= moment and (fact.valid_to is None or moment < fact.valid_to):
            return fact
    return None
