"""What changed between two contexts, and why one memory is in or not in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentmem.core.scope import visible
from agentmem.core.snapshot import Looked, Snapshot
from agentmem.core.values import dataclass
from agentmem.types import Memory

_COMPARED = (
    "model", "query", "window_tokens", "reserve_tokens", "estimated_tokens", "cached",
    "warnings", "degradations",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that differs; `None` where one side has none."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDifference:
    """One memory whose fate or score differs; `None` where it was not looked at."""

    id: str
    before: Looked | None
    after: Looked | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDiff:
    """What differs from `before` to `after`; empty for a context and itself (N4)."""

    before_id: str
    after_id: str
    fields: tuple[Difference, ...] = ()
    settings: tuple[Difference, ...] = ()
    parts: tuple[Difference, ...] = ()
    memories: tuple[MemoryDifference, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.fields or self.settings or self.parts or self.memories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One memory's fate in one context: in a sentence, and what it is read from."""

    memory_id: str
    snapshot_id: str
    answer: str
    looked: Looked | None = None
    last_kept: Looked | None = None
    details: tuple[str, ...] = ()


def diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """What changed from one context to another, in the order it was recorded."""
    old, new = _by_place(before), _by_place(after)
    return SnapshotDiff(
        before_id=before.id,
        after_id=after.id,
        fields=tuple(
            _differences(
                {name: getattr(before, name) for name in _COMPARED},
                {name: getattr(after, name) for name in _COMPARED},
            )
        ),
        settings=tuple(_differences(before.settings, after.settings)),
        parts=tuple(
            _differences(
                {part.name: part.tokens for part in before.parts},
                {part.name: part.tokens for part in after.parts},
            )
        ),
        memories=tuple(
            MemoryDifference(id=place[1], before=old.get(place), after=new.get(place))
            for place in dict.fromkeys((*new, *old))
            if not _same(old.get(place), new.get(place))
        ),
    )


def why(snapshot: Snapshot, memory_id: str, *, memory: Memory | None = None) -> Why:
    """Why a memory is in a context or not; `memory` is what is stored under the id now."""
    seen = [looked for looked in snapshot.looked_at if looked.id == memory_id]
    if not seen:
        return Why(
            memory_id=memory_id, snapshot_id=snapshot.id, answer=_not_looked_at(snapshot, memory)
        )
    looked = next((one for one in seen if one.decision != "dropped"), seen[0])
    beside = [one for one in snapshot.kept if one.section == looked.section]
    last = min(beside, key=lambda one: (one.score is None, one.score or 0.0), default=None)
    return Why(
        memory_id=memory_id,
        snapshot_id=snapshot.id,
        looked=looked,
        last_kept=last,
        answer=_answer(looked),
        details=tuple(_details(looked, last, snapshot)),
    )


def _answer(looked: Looked) -> str:
    where = {"knowledge": "the related knowledge", "profile": "the user profile"}.get(
        looked.section, looked.section
    )
    if looked.decision == "kept":
        return f"It is in {where}: {looked.reason}."
    if looked.decision == "cut":
        return f"A part of it is in {where}: {looked.reason}."
    return f"It was left out of {where}: {looked.reason}."


def _details(looked: Looked, last: Looked | None, snapshot: Snapshot) -> Iterator[str]:
    if looked.rank is not None:
        offered = sum(one.rank is not None for one in snapshot.looked_at)
        yield f"rank {looked.rank:,} of {offered:,}"
    if looked.score is not None:
        yield f"score {looked.score:.3f}"
        threshold = snapshot.settings.get("similarity_threshold")
        if isinstance(threshold, int | float):
            yield f"threshold {threshold:g}"
    for name, score, rank in (
        ("words", looked.lexical, looked.lexical_rank),
        ("meaning", looked.vector, looked.vector_rank),
    ):
        if score is None:
            yield f"not found by {name}"
        else:
            yield f"by {name} {score:.3f}" + ("" if rank is None else f" (place {rank:,})")
    for name, boost in looked.boosts.items():
        yield f"{name} {boost:+.3f}"
    if looked.decision == "dropped" and last is not None and last.score is not None:
        yield f"the last one that went in has {last.score:.3f}"
    if looked.tokens:
        yield f"{looked.tokens:,} tokens"


def _not_looked_at(snapshot: Snapshot, memory: Memory | None) -> str:
    if memory is None:
        return "It was not looked at, and no memory with this id can be seen from this scope."
    if memory.created_at > snapshot.created_at:
        return "It was not looked at: it was remembered after this context was built."
    if not visible(memory, snapshot.scope):
        return "It was not looked at: it is out of this context's scope."
    if memory.deleted_at is not None:
        return f"It was not looked at: it was deleted on {memory.deleted_at.date()}."
    if memory.superseded_by is not None:
        return f"It was not looked at: it is superseded by {memory.superseded_by}."
    if memory.valid_from is not None and memory.valid_from > snapshot.created_at:
        return "It was not looked at: it was not valid yet."
    if memory.valid_to is not None and memory.valid_to <= snapshot.created_at:
        return "It was not looked at: it was no longer valid."
    asked = sum(looked.section == "knowledge" for looked in snapshot.looked_at)
    return f"It was not among the {asked:,} candidates that the question found by words or meaning."


def _by_place(snapshot: Snapshot) -> dict[tuple[str, str], Looked]:
    found: dict[tuple[str, str], Looked] = {}
    for looked in snapshot.looked_at:
        found.setdefault((looked.section, looked.id), looked)
    return found


def _same(before: Looked | None, after: Looked | None) -> bool:
    if before is None or after is None:
        return before is after
    compared = ("decision", "reason", "score", "rank", "tokens", "text")
    return all(getattr(before, name) == getattr(after, name) for name in compared)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield Difference(name=name, before=before.get(name), after=after.get(name))
