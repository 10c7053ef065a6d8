"""What learning is to change, as one plan: new memories, those whose place they take, links.

The plan is made over memories as they were read; applying it is one step, and
so is taking it back. Planning again over what was applied gives nothing (G5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from agentmem.core.living.settling import start_of
from agentmem.core.living.timelines import insert_fact, key_of
from agentmem.core.values import dataclass
from agentmem.types import Memory, Origin, Scope, Visibility

_Line = tuple[str, str, Scope, Visibility, Origin]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory that may be added, and the id of the message that said it, if one is kept."""

    memory: Memory
    source_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedFrom:
    """That a new memory was learned from a message."""

    memory_id: str
    source_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlan:
    """What is to be written, all of it together.

    `added` are as they are to be stored, later ones of the same plan counted
    in; `before` and `after` are memories that are there, as read and as they
    are to be. `superseded` are the ids whose place was taken, `known` counts
    what adds nothing.
    """

    added: tuple[Memory, ...] = ()
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    links: tuple[LearnedFrom, ...] = ()
    superseded: tuple[str, ...] = ()
    known: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to write."""
        return not self.added


def plan_learning(candidates: Sequence[Candidate], there: Iterable[Memory]) -> LearningPlan:
    """How `candidates`, in the order they were said, find their place among what is `there`.

    A fact goes into the timeline of its key (P38); of several values of a key
    that were said at one moment the last one counts. An episode that is there
    in the same words adds nothing. `there` must hold the facts of the
    candidates' keys and the memories with their content.
    """
    read = {one.id: one for one in there}
    state = dict(read)
    timelines: dict[_Line, list[str]] = {}
    words = {_words(one) for one in read.values()}
    for one in read.values():
        if not is_merged(one):
            timelines.setdefault(_line(one), []).append(one.id)
    added: dict[str, str] = {}
    superseded: list[str] = []
    known = 0
    for candidate in _last_of_a_moment(candidates):
        made = candidate.memory
        if not key_of(made):
            if _words(made) in words:
                known += 1
                continue
            words.add(_words(made))
            state[made.id] = made
        else:
            line = timelines.setdefault(_line(made), [])
            placed = insert_fact([state[one] for one in line], made)
            if placed is None:
                known += 1
                continue
            line.append(made.id)
            state |= {one.id: one for one in (placed.new, *placed.after)}
            if placed.new.supersedes is not None:
                superseded.append(placed.new.supersedes)
        added[made.id] = candidate.source_id
    changed = [one for one in read.values() if state[one.id] != one]
    return LearningPlan(
        added=tuple(state[one] for one in added),
        before=tuple(changed),
        after=tuple(state[one.id] for one in changed),
        links=tuple(
            LearnedFrom(memory_id=one, source_id=source, at=state[one].created_at)
            for one, source in added.items()
            if source
        ),
        superseded=tuple(superseded),
        known=known,
    )


def is_merged(memory: Memory) -> bool:
    """Whether another memory says the same and stands for it; such a one has no time of its own."""
    return memory.superseded_by is not None and memory.valid_to is None


def _last_of_a_moment(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Without values that were corrected in the same breath, which held for no time at all."""
    last: dict[tuple[str, datetime], str] = {}
    for one in candidates:
        key = key_of(one.memory)
        if key:
            last[key, start_of(one.memory)] = one.memory.id
    standing = set(last.values())
    return [one for one in candidates if not key_of(one.memory) or one.memory.id in standing]


def _line(memory: Memory) -> _Line:
    """What the facts of one timeline have in common: the key, and whose they are."""
    owner = (memory.scope, memory.visibility, memory.origin)
    return (memory.kind, key_of(memory), *owner)


def _words(memory: Memory) -> tuple[str, str, Scope]:
    return memory.kind, memory.content_hash, memory.scope
