"""What every store refuses in the same words, whatever it is made of."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import ChangedMeanwhile, InvalidInput, InvalidScope
from agentmem.base.filters import Selection
from agentmem.base.types import (
    EMPTY,
    Memory,
    Scope,
    Usage,
    is_forgotten,
    memory_to_fields,
    require_instant,
    visible,
)
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.values import (
    ERASED,
    NO_SCOPE,
    Entry,
    Link,
    Source,
    check_entries,
    memory_from_fields,
    write_json,
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


# ----------------------------------------------------------------------------
# Many small changes as one step that can be taken back: what is kept of it, how it is undone.
#
# A revision adds memories, changes fields of those that are there, and relations
# between them; it removes no memory and touches no text. For every field it
# changes, the journal keeps what the field was, and a digest of what it became.
# Undoing puts back each field that still is what the revision made it, and
# leaves alone what somebody changed since; counts of use go back by what the
# revision added to them. What it added is deleted as `delete` does it, unless
# its words or its place among the values of a key were changed since; then what
# led up to it stays as well, so that a key keeps one value at a time.


Family = Literal["link", "contradiction"]
REVISED = (
    "summary", "compressed", "index", "importance", "valid_from", "valid_to", "supersedes",
    "superseded_by",
)  # fmt: skip
"""The fields a revision may change, beside metadata and usage."""
_COUNTS = ("retrieved", "cited", "ignored")
KEPT_RUNS = 100
"""Of one owner and kind; older ones can no longer be undone."""
ADDED = "added"
"""Where an item tells of a memory that was not there before."""
Item = dict[str, Any]
"""What the journal keeps of one memory or one relation, as JSON values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A link or contradiction as it is to be; `replaces` is what stands there now, if anything."""

    family: Family
    link: Link
    replaces: Link | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Changes that are made together: memories as they were read and as they are to be.

    `added` are new memories, as they are once all is done. `mark` names a
    setting that gets the store's sequence number after the change. `report` is
    kept in the journal; it must hold no text of a memory.
    """

    id: str
    kind: str
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    added: tuple[Entry, ...] = ()
    relations: tuple[Relation, ...] = ()
    mark: str = ""
    report: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        for name in ("id", "kind", "mark"):
            require_text(getattr(self, name), name)
        if [m.id for m in self.before] != [m.id for m in self.after]:
            raise InvalidInput("after", len(self.after), "are not the memories of `before`")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A revision that was applied; `undone_at` when it was taken back."""

    id: str
    kind: str
    created_at: datetime
    report: Mapping[str, Any]
    scope: Scope = NO_SCOPE
    undone_at: datetime | None = None
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What taking a revision back did. `left` names what somebody changed since, and stays.

    `removed` counts the memories it had added, which are deleted now.
    """

    id: str
    restored: int
    relations: int
    removed: int = 0
    left: tuple[str, ...] = ()


def changed_fields(before: Memory, after: Memory) -> Item:
    """What the journal keeps of a memory that becomes `after`; empty when nothing differs."""
    _require_same_elsewhere(before, after)
    old, new = memory_to_fields(before), memory_to_fields(after)
    item: Item = {}
    fields = {n: [old[n], digest(new[n])] for n in REVISED if old[n] != new[n]}
    if fields:
        item["fields"] = fields
    keys = {
        key: [*_kept(old["metadata"], key), _digest_of(new["metadata"], key)]
        for key in sorted({*old["metadata"], *new["metadata"]})
        if _digest_of(old["metadata"], key) != _digest_of(new["metadata"], key)
    }
    if keys:
        item["metadata"] = keys
    if before.usage != after.usage:
        item["usage"] = [old["usage"], new["usage"]]
    return item


def revised(current: Memory, before: Memory, after: Memory, item: Item) -> Memory:
    """`current` with the changes from `before` to `after`.

    `ChangedMeanwhile` when a field to be changed is not what it was in
    `before`. Use that was counted meanwhile is kept.
    """
    now = memory_to_fields(current)
    old = memory_to_fields(before)
    same = all(now[name] == old[name] for name in item.get("fields", ())) and all(
        _digest_of(now["metadata"], key) == _digest_of(old["metadata"], key)
        for key in item.get("metadata", ())
    )
    if not same or current.deleted_at != before.deleted_at:
        raise ChangedMeanwhile(current.id)
    metadata = dict(current.metadata)
    for key in item.get("metadata", ()):
        metadata.pop(key, None)
        if key in after.metadata:
            metadata[key] = after.metadata[key]
    changes: dict[str, Any] = {name: getattr(after, name) for name in item.get("fields", ())}
    if "metadata" in item:
        changes["metadata"] = metadata
    if "usage" in item:
        changes["usage"] = _moved(current.usage, before.usage, after.usage)
    return replace(current, **changes)


def restored(current: Memory, item: Item) -> tuple[Memory, tuple[str, ...]]:
    """`current` as it was before the revision, and the names of what somebody changed since."""
    now = memory_to_fields(current)
    left: list[str] = []
    fields: dict[str, Any] = {}
    for name, (before, after) in item.get("fields", {}).items():
        if digest(now[name]) == after:
            fields[name] = before
        else:
            left.append(name)
    metadata = dict(now["metadata"])
    for key, (had, before, after) in item.get("metadata", {}).items():
        if _digest_of(now["metadata"], key) != after:
            left.append(f"metadata.{key}")
            continue
        metadata.pop(key, None)
        if had:
            metadata[key] = before
    made = memory_from_fields({**now, **fields, "metadata": metadata})
    if "usage" in item:
        before, after = (_usage(written) for written in item["usage"])
        made = replace(made, usage=_moved(current.usage, after, before))
    return made, tuple(left)


def added_item(memory: Memory) -> Item:
    """What the journal keeps of a memory that a revision added; none of its words."""
    return {ADDED: digest(_standing(memory))}


def is_as_added(memory: Memory, item: Item) -> bool:
    """Whether an added memory still says what it said, in the place where it was put."""
    return bool(digest(_standing(memory)) == item[ADDED])


def planned_changes(revision: Revision) -> list[tuple[Memory, Memory, Item]]:
    """The memories that a revision changes, as they are and are to be, and what is kept of each."""
    return [
        (before, after, item)
        for before, after in zip(revision.before, revision.after, strict=True)
        if (item := changed_fields(before, after))
    ]


def plan_undo(
    found: Mapping[int, Memory], known: Mapping[int, Item], scope: Scope
) -> tuple[list[int], dict[int, Memory], list[str]]:
    """How memories, by row, become what they were before the items of a revision.

    Gives the rows to delete, the rows to write, and what stays.
    """
    added = {r: m for r, m in found.items() if ADDED in known[r] and m.deleted_at is None}
    gone = [r for r, m in added.items() if visible(m, scope) and is_as_added(m, known[r])]
    kept = frozenset(m.id for r, m in added.items() if r not in gone)
    left = sorted(kept)
    changed: dict[int, Memory] = {}
    for row, memory in found.items():
        if ADDED in known[row]:
            continue
        beside = memory.superseded_by in kept or memory.supersedes in kept
        if beside or not visible(memory, scope):
            left.append(memory.id)
            continue
        new, since = restored(memory, known[row])
        left += [f"{memory.id} {name}" for name in since]
        if new != memory:
            changed[row] = new
    return gone, changed, left


def plan_letting_go(
    found: Mapping[int, Memory],
    known: Mapping[int, Item],
    said: Sequence[tuple[int, int, Item]],
    scope: Scope,
) -> tuple[dict[int, Memory], list[int]]:
    """How memories that were added stop standing for others, by what later runs noted of both.

    `said` is what they noted of rows, the latest first, each with its number; gives the rows that
    change and the numbers of what was taken back. What was changed otherwise stays as it is.
    """
    changed: dict[int, Memory] = {}
    done: list[int] = []
    for row, memory in found.items():
        if ADDED not in known.get(row, {}) or not visible(memory, scope):
            continue
        own = [(n, i) for n, at, i in said if at == row and _fields_of(i) == {"supersedes"}]
        was = memory
        for _, item in own:
            was = restored(was, item)[0]
        if memory.deleted_at is not None or not is_as_added(was, known[row]):
            continue
        done += [number for number, _ in own]
        if was != memory:
            changed[row] = was
        for number, at, item in said:
            after = item.get("fields", {}).get("superseded_by", (None, None))[1]
            if after == digest(memory.id) and visible(found[at], scope):
                changed[at] = restored(changed.get(at, found[at]), item)[0]
                done.append(number)
    return changed, done


def _fields_of(item: Item) -> set[str]:
    return set(item["fields"]) if set(item) == {"fields"} else set()


def plan_relation(relation: Relation, there: Any) -> tuple[Literal["add", "keep", "change"], str]:
    """What becomes of a relation that is in the state `there` (None if it is not), and its item."""
    link = relation.link
    item = {
        "relation": link.relation,
        "before": link_state(relation.replaces),
        "after": digest(link_state(link)),
    }
    written = write_json(item, "item")
    if relation.replaces is None:
        return ("add", written) if there is None else ("keep", "")  # somebody else found it too
    if there != link_state(relation.replaces):
        raise ChangedMeanwhile(link.first_id)
    return "change", written


def _standing(memory: Memory) -> list[str | None]:
    return [memory.text, memory.supersedes, memory.superseded_by]


def digest(value: Any) -> str:
    """A short name for a JSON value that tells it from others without saying it."""
    written = write_json(value, "value") if isinstance(value, dict | list) else repr(value)
    return hashlib.blake2b(written.encode("utf-8"), digest_size=12).hexdigest()


def link_state(link: Link | None) -> Any:
    """What of a relation can change, as JSON values."""
    if link is None:
        return None
    settled = None if link.settled_at is None else link.settled_at.isoformat()
    return [link.note, settled]


def require_revision(scope: Scope, revision: Revision, at: datetime) -> None:
    """Refuse what no store could apply."""
    require_instant(at, "at")
    if not revision.id:
        raise InvalidInput("id", revision.id, "is empty", remedy="Give the revision an id.")
    check_entries(revision.added)
    for entry in revision.added:
        if not visible(entry.memory, scope):
            raise InvalidScope(
                "added", entry.memory.scope, "is not the scope of the revision",
                remedy="Add memories that their writer may see.",
            )  # fmt: skip


def _require_same_elsewhere(before: Memory, after: Memory) -> None:
    changes: dict[str, Any] = {name: getattr(before, name) for name in REVISED}
    if replace(after, **changes, metadata=before.metadata, usage=before.usage) != before:
        raise InvalidInput(
            "after", after.id, "differs in a field that a revision cannot change",
            remedy=f"Change only {', '.join(REVISED)}, metadata and usage.",
        )  # fmt: skip


def _kept(metadata: Mapping[str, Any], key: str) -> tuple[bool, Any]:
    return (True, metadata[key]) if key in metadata else (False, None)


def _digest_of(metadata: Mapping[str, Any], key: str) -> str | None:
    return digest([metadata[key]]) if key in metadata else None


def _moved(current: Usage, start: Usage, end: Usage) -> Usage:
    """`current` with what lies between `start` and `end` added; never below zero."""
    counts = {
        name: max(0, getattr(current, name) + getattr(end, name) - getattr(start, name))
        for name in _COUNTS
    }
    unused_since = current.last_used_at == start.last_used_at
    last = end.last_used_at if unused_since else current.last_used_at
    return Usage(**counts, last_used_at=last)


def _usage(written: Mapping[str, Any]) -> Usage:
    last = written["last_used_at"]
    return Usage(
        **{name: written[name] for name in _COUNTS},
        last_used_at=None if last is None else datetime.fromisoformat(last),
    )


# ----------------------------------------------------------------------------
# Which traces are too old to keep, and which shared texts nothing needs any more.


class Kept(NamedTuple):
    """One stored trace or shared text: whose, from when, how large, and what it names."""

    key: int
    id: str
    owner: int
    moment: int
    mentions: frozenset[str]
    bytes: int

    @property
    def is_text(self) -> bool:
        return self.id.startswith(TEXT_PREFIX)


def too_old(
    rows: Sequence[Kept],
    *,
    keep: int | None = None,
    before: int | None = None,
    most_bytes: int | None = None,
) -> list[Kept]:
    """What has to go of `rows`, which are given newest first.

    The newest trace is kept however large it is, unless it is older than
    `before`. A text is counted with the newest trace that mentions it, and
    goes with the last one.
    """
    for name, value in (("keep", keep), ("most_bytes", most_bytes)):
        if value is not None:
            require_count(value, name)
    texts = {row.id: row for row in rows if row.is_text}
    needed: set[str] = set()
    gone: list[Kept] = []
    of_owner: Counter[int] = Counter()
    total = 0
    full = False
    for row in rows:
        if row.is_text:
            continue
        fresh = (row.mentions & texts.keys()) - needed
        size = row.bytes + sum(texts[text_id].bytes for text_id in fresh)
        of_owner[row.owner] += 1
        full |= most_bytes is not None and total > 0 and total + size > most_bytes
        many = keep is not None and of_owner[row.owner] > keep
        if full or many or (before is not None and row.moment < before):
            gone.append(row)
            continue
        total += size
        needed |= fresh
    return [*gone, *(text for text_id, text in texts.items() if text_id not in needed)]
