"""What every store refuses in the same words, whatever it is made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Literal

from agentmem.base.errors import ChangedMeanwhile, InvalidInput, InvalidScope
from agentmem.base.filters import Selection
from agentmem.base.types import (
    Memory,
    Scope,
    is_forgotten,
    visible,
)
from agentmem.stores.values import (
    ERASED,
    Entry,
    Source,
)

Edge = tuple[str, str]
"""An older id and the newer one that stands for it."""
Sameness = Literal["text", "words", "message", "record"]
"""When two memories of one owner are the same: the same text of one kind; by one speaker; at one
moment and place of one session; or the same text of one kind with the same record."""


def split_new(
    entries: Sequence[Entry], known: Iterable[Memory], same: Sameness
) -> tuple[list[Entry], tuple[str, ...]]:
    """The entries that are the same as no current one of `known`, nor as each other; and
    for each entry the id of the memory that it is."""

    def key(memory: Memory) -> Hashable:
        return memory.visibility, memory.scope, what_is_same(memory, same)

    there = {key(memory): memory.id for memory in known if _is_current(memory)}
    ids = tuple(there.setdefault(key(e.memory), e.memory.id) for e in entries)
    fresh = [entry for entry, found in zip(entries, ids, strict=True) if found == entry.memory.id]
    return fresh, ids


def what_is_same(memory: Memory, same: Sameness) -> Hashable:
    """What two memories have in common that are the same in this sense."""
    found: tuple[Hashable, ...] = (memory.kind, memory.content_hash)
    if same in ("words", "message"):
        found += (memory.speaker,)
    if same == "message":
        found += (memory.session, memory.created_at.astimezone(UTC), memory.position)
    if same == "record":
        found += (json.dumps(memory.metadata.get("record"), sort_keys=True, default=repr),)
    return found


def _is_current(memory: Memory) -> bool:
    gone = memory.deleted_at is not None or memory.superseded_by is not None
    return not gone and not is_forgotten(memory)


def supersession_edges(memory: Memory) -> list[Edge]:
    """What `memory` itself says about who replaced whom."""
    edges = []
    if memory.supersedes not in (None, ERASED):
        edges.append((str(memory.supersedes), memory.id))
    if memory.superseded_by not in (None, ERASED):
        edges.append((memory.id, str(memory.superseded_by)))
    return edges


def refuse_cycles(new: Sequence[Edge], newer_than: Callable[[str], Iterable[str]]) -> None:
    """Refuse edges that would make a memory stand for itself (P38)."""
    added: dict[str, list[str]] = {}
    for old, newer in new:
        added.setdefault(old, []).append(newer)
    for old, newer in new:
        seen: set[str] = set()
        waiting = [newer]
        while waiting:
            current = waiting.pop()
            if current == old:
                raise InvalidInput(
                    "supersedes",
                    old,
                    "would stand for itself, directly or through others",
                    remedy="Supersede the newest memory of the chain.",
                )
            if current not in seen:
                seen.add(current)
                waiting += [*newer_than(current), *added.get(current, ())]


def superseding(old: Memory, new: Memory, at: datetime) -> tuple[Memory, Memory]:
    """Both memories after `new` took the place of `old` at the moment `at`."""
    if old.superseded_by is not None:
        raise InvalidInput(
            "old_id",
            old.id,
            f"was superseded by {old.superseded_by!a} already",
            remedy="Supersede that one instead.",
        )
    if new.supersedes not in (None, old.id):
        raise InvalidInput(
            "supersedes", new.supersedes, f"is not {old.id!a}", remedy="Leave it out."
        )
    ended = old.valid_to if old.valid_to is not None and old.valid_to <= at else at
    return (
        replace(old, superseded_by=new.id, valid_to=ended),
        replace(new, supersedes=old.id),
    )


def current_again(old: Memory) -> Memory:
    """`old` as if nothing had superseded it."""
    if old.superseded_by is None:
        raise InvalidInput("old_id", old.id, "is not superseded", remedy="Nothing to undo.")
    return replace(old, superseded_by=None, valid_to=None)


def updated(old: Memory, new: Memory, reader: Scope, *, was: Memory | None = None) -> Memory:
    """`new` with what an update does not touch: usage, supersession and deletion are `old`'s.

    `ChangedMeanwhile` when `new` was made of a memory that `was` something else.
    """
    if was is not None and _untouched(was, old) != was:
        raise ChangedMeanwhile(old.id)
    if not visible(new, reader):
        raise InvalidScope(
            "scope", new.scope, "would take the memory out of the reader's sight",
            remedy="Add it as a new memory of that owner instead.",
        )  # fmt: skip
    return _untouched(old, new)


def _untouched(old: Memory, new: Memory) -> Memory:
    """`new` with those parts of `old` that an update leaves alone."""
    return replace(
        new,
        usage=old.usage,
        supersedes=old.supersedes,
        superseded_by=old.superseded_by,
        deleted_at=old.deleted_at,
    )


def wipes_owner(selection: Selection) -> bool:
    """Whether erasing this selection means "all that is mine", beyond the memories themselves."""
    return selection.is_everything and "private" in selection.visibilities


def check_source_entries(source: Source, entries: Sequence[Entry]) -> None:
    """Refuse chunks that do not belong to `source`."""
    if not source.url:
        raise InvalidInput("url", source.url, "is empty", remedy="Name the source.")
    for entry in entries:
        memory = entry.memory
        if memory.source_url != source.url:
            raise InvalidInput(
                "source_url", memory.source_url, f"is not {source.url!a}",
                remedy="All chunks of a source carry its url.",
            )  # fmt: skip
        if (memory.scope, memory.visibility) != (source.scope, source.visibility):
            raise InvalidScope(
                "scope", memory.scope, "is not the source's",
                remedy="All chunks of a source belong to one owner.",
            )  # fmt: skip
        if memory.deleted_at is not None:
            raise InvalidInput("deleted_at", memory.deleted_at, "is set on a new chunk")
