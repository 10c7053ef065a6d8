"""What learning is to change, as one plan: new memories, those whose place they take, links.

The plan is made over memories as they were read; applying it is one step, and
so is taking it back. Planning again over what was applied gives nothing (G5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from agentmem.core.living.settling import start_of
from agentmem.core.living.timelines import already_said, insert_fact, key_of
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
    """That a message states a memory."""

    memory_id: str
    source_id: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningPlan:
    """What is to be written, all of it together.

    `added` are as they are to be stored, later ones of the same plan counted
    in; `before` and `after` are memories that are there, as read and as they
    are to be. `superseded` are the ids whose place was taken, `known` counts
    what adds nothing; `restated` are the messages that say it once more.
    """

    added: tuple[Memory, ...] = ()
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    links: tuple[LearnedFrom, ...] = ()
    restated: tuple[LearnedFrom, ...] = ()
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
    words = {_words(one): one.id for one in read.values()}
    for one in read.values():
        if not is_merged(one):
            timelines.setdefault(_line(one), []).append(one.id)
    added: dict[str, None] = {}
    superseded: list[str] = []
    stated: list[tuple[str, str]] = []
    known = 0
    for candidate in _last_of_a_moment(candidates):
        made = candidate.memory
        if not key_of(made):
            if _words(made) in words:
                known += 1
                stated.append((words[_words(made)], candidate.source_id))
                continue
            words[_words(made)] = made.id
            state[made.id] = made
        else:
            line = timelines.setdefault(_line(made), [])
            there_already = [state[one] for one in line]
            placed = insert_fact(there_already, made)
            if placed is None:
                known += 1
                held = already_said(there_already, made)
                stated += [(held.id, candidate.source_id)] if held is not None else []
                continue
            line.append(made.id)
            state |= {one.id: one for one in (placed.new, *placed.after)}
            if placed.new.supersedes is not None:
                superseded.append(placed.new.supersedes)
        added[made.id] = None
        stated.append((made.id, candidate.source_id))
    links = tuple(
        LearnedFrom(memory_id=one, source_id=source, at=state[one].created_at)
        for one, source in dict.fromkeys(stated)
        if source
    )
    changed = [one for one in read.values() if state[one.id] != one]
    return LearningPlan(
        added=tuple(state[one] for one in added),
        before=tuple(changed),
        after=tuple(state[one.id] for one in changed),
        links=tuple(link for link in links if link.memory_id in added),
        restated=tuple(link for link in links if link.memory_id not in added),
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
