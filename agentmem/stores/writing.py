"""What every store refuses, and the changes it makes of memories, inside one transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

from agentmem.base.errors import ChangedMeanwhile, InvalidInput, InvalidScope
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope, is_forgotten, is_pinned, memory_to_fields, visible
from agentmem.prompt.snapshot import TEXT_PREFIX, said_mention
from agentmem.prompt.strip import Names, Quotes, texts_in
from agentmem.stores.side import mentioned, plain_data, set_value
from agentmem.stores.tables import (
    ANY,
    ARTIFACTS,
    HISTORY,
    INDEX_FILES,
    JOBS,
    JOURNAL,
    JOURNAL_ITEMS,
    LINKS,
    MEMORIES,
    OWNERS,
    SNAPSHOTS,
    SOURCES,
    STRANDS,
    Found,
    Table,
    TableReader,
    TableWriter,
)
from agentmem.stores.values import (
    DERIVED,
    ERASED,
    STATED_IN,
    Entry,
    Receipt,
    Source,
    to_microseconds,
    write_json,
)

AT_ONCE = 500
"""So many rows are asked for at once."""
Edge = tuple[str, str]
"""An older id and the newer one that stands for it."""
Sameness = Literal["text", "words", "message", "record"]
"""When two memories of one owner are the same: the same text of one kind; by one speaker; at one
moment and place of one session; or the same text of one kind with the same record."""


# ----------------------------------------------------------------------------
# What every store refuses in the same words, whatever it is made of.


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
# Changes.


def refuse_circles(write: TableWriter, edges: Sequence[Edge]) -> None:
    """Refuse edges that close a circle (P38); others who add edges wait until this one ends."""
    if edges:
        write.hold("edges")
        refuse_cycles(edges, lambda memory_id: _newer_than(write, memory_id))


def _newer_than(read: TableReader, memory_id: str) -> list[str]:
    """The ids of those that stand for this memory directly."""
    named = read.ask("superseded_by", MEMORIES, {"id": memory_id}, "superseded_by IS NOT NULL")
    return [newer for (newer,) in (*named, *read.ask("id", MEMORIES, {"supersedes": memory_id}))]


def keep_version(write: TableWriter, row: int, old: Memory, at: datetime) -> None:
    """Remember what a memory was until `at`."""
    data = write_json(memory_to_fields(old), "memory")
    write.add(HISTORY, row=row, replaced_at=to_microseconds(at, "at"), data=data)


def hide(write: TableWriter, found: Sequence[Found], at: datetime | None) -> int:
    """Mark memories as deleted at `at`, or as there again (None)."""
    # Before anything is marked: a row that is hidden next has its follower close by.
    moved = write.followers([one.place for one in found])
    for one in found:
        write.rewrite(one, replace(one.memory, deleted_at=at), relink=False)
    rows = [one.row for one in found]
    write.log("delete" if at is not None else "update", rows)
    write.log("update", moved - set(rows))
    if at is not None:
        forget_empty_sources(write, found)
    return len(found)


# ----------------------------------------------------------------------------
# Sources.


CHUNKS = """m.owner = :owner AND m.deleted_at IS NULL AND m.strand IN (
    SELECT s.strand FROM strands AS s WHERE [s] AND s.url = :url AND s.owner = :owner)"""
_NO_CHUNK = """NOT EXISTS (SELECT 1 FROM strands AS s
    JOIN memories AS m ON m.owner = s.owner AND m.strand = s.strand
    WHERE [s] AND [m] AND s.url = :of_url AND s.owner = t.owner AND m.deleted_at IS NULL)"""


def forget_empty_sources(write: TableWriter, found: Collection[Found]) -> None:
    """Forget the content hash of sources that have no chunk left, so they can come again."""
    for owner, url in sorted({(one.owner, one.memory.source_url) for one in found}):
        if url:
            write.remove(SOURCES, {"owner": owner, "url": url}, _NO_CHUNK, of_url=url)


def note_source(write: TableWriter, source: Source) -> None:
    """Keep the hash of a source whose chunks came some other way, unless it has one."""
    write.add(SOURCES, **source_values(write, source))


def source_values(write: TableWriter, source: Source) -> dict[str, Any]:
    synced = source.synced_at
    return {
        "owner": write.owner_number((source.visibility, source.scope)),
        "url": source.url,
        "title": source.title,
        "content_hash": source.content_hash,
        "synced_at": 0 if synced is None else to_microseconds(synced, "synced_at"),
    }


# ----------------------------------------------------------------------------
# What goes with a memory when it is erased: its duplicates, and what was made of it.
#
# Somebody who erases what they see means all of it: a near-duplicate that was merged into it says
# the same, a fact or a preference that was taken from it quotes it, and so does what a tool result
# was promoted to.


def with_derived(read: TableReader, found: Sequence[Found], reader: Scope) -> list[Found]:
    """`found`, and after it what goes with it, as far as the reader sees it; pinned ones stay."""
    known = {one.row: one for one in found}
    waiting = list(known)
    while waiting:
        merged = _merged_into(read, [known[row].memory for row in waiting])
        made = _made_of(read, waiting, gone=known.keys())
        new = read.by_rows((merged | made) - known.keys())
        waiting = [
            row
            for row, one in new.items()
            if not is_pinned(one.memory) and visible(one.memory, reader)
        ]
        known |= {row: new[row] for row in waiting}
    return list(known.values())


def _merged_into(read: TableReader, survivors: Sequence[Memory]) -> set[int]:
    """The rows of duplicates that one of `survivors` stands for."""
    named = {one.id: one.metadata.get("merged_from") for one in survivors}
    ids = {
        survivor: set(map(str, listed))
        for survivor, listed in named.items()
        if listed and isinstance(listed, list | tuple)
    }
    standing, rows = list(ids), set()
    for start in range(0, len(standing), AT_ONCE):
        part = standing[start : start + AT_ONCE]
        for one in read.find_where("m.superseded_by IN :ids", ids=part):
            memory = one.memory
            if memory.valid_to is None and memory.id in ids[str(memory.superseded_by)]:
                rows.add(one.row)
    return rows


def _made_of(read: TableReader, rows: Sequence[int], *, gone: Collection[int]) -> set[int]:
    """The rows of what was made of these, and of what no message that is left states."""
    match: dict[str, Any] = {"family": "link", "relation": [DERIVED, *STATED_IN]}
    links = read.ask("first, relation", LINKS, {**match, "second": rows})
    made = {row for row, relation in links if relation == DERIVED}
    stated = {row for row, _ in links} - made
    match = {"family": "link", "relation": list(STATED_IN), "first": stated}
    others = [pair for pair in read.ask("first, second", LINKS, match) if pair[1] not in gone]
    there = read.by_rows({source for _, source in others})
    live = {row for row, at in others if at in there and there[at].memory.deleted_at is None}
    return made | stated - live


# ----------------------------------------------------------------------------
# Removing memories for good: from every table, with what was made of them (P26).


_REFERENCES = ("supersedes", "superseded_by")
_TEXTS = ("text", "summary", "compressed", "index")
_NO_ROWS = """NOT EXISTS (SELECT 1 FROM memories AS m
    WHERE [m] AND m.owner = t.owner AND m.strand = t.strand)"""
_NOTHING_LEFT = " AND ".join(
    f"NOT EXISTS (SELECT 1 FROM {table.name} AS u WHERE [u] AND u.owner = t.owner)"  # noqa: S608 # our own names
    for table in (MEMORIES, STRANDS, SOURCES, SNAPSHOTS, ARTIFACTS, JOBS, JOURNAL)
)


def erase_rows(
    write: TableWriter,
    found: Sequence[Found],
    *,
    at: datetime,
    reader: Scope | None = None,
    all_of: Scope | None = None,
) -> Receipt:
    """Take memories out of every table; what is left to do on disk is the back end's.

    With a `reader`, what was made of them goes too, as far as the reader sees
    it. With `all_of`, so do the snapshots, artifacts and jobs that reader owns.
    """
    named = len(found)
    if reader is not None:
        found = with_derived(write, found, reader)
    rows = [one.row for one in found]
    ids = [one.memory.id for one in found]
    moved = write.followers([one.place for one in found])
    owners = {one.owner for one in found}
    quotes = Quotes(_texts(write, found))
    versions = write.remove(HISTORY, {"row": rows})
    for column in ("first", "second"):
        write.remove(LINKS, {column: rows})
    for column in ("row", "other"):
        write.remove(JOURNAL_ITEMS, {column: rows})
    vectors = write.remove_memories(found)
    _forget_references(write, ids)
    own = set() if all_of is None else _private_owners(write, all_of)
    owners |= own
    runs = [entry for (entry,) in write.ask("entry", JOURNAL, {"owner": own})] if own else []
    write.remove(JOURNAL_ITEMS, {"entry": runs})
    write.remove(JOURNAL, {"entry": runs})
    readers = _readers(write, [one.memory for one in found])
    snapshots, artifacts, jobs = (
        _remove_mentioning(write, table, ids=ids, quotes=quotes, readers=readers, own=own)
        for table in (SNAPSHOTS, ARTIFACTS, JOBS)
    )
    forget_empty_sources(write, found)
    strands = {one.strand for one in found if one.strand is not None}
    write.remove(STRANDS, {"strand": strands}, _NO_ROWS)
    write.remove(OWNERS, {"owner": owners}, _NOTHING_LEFT)
    write.after_erasing(owners)
    files = tuple(row[1] for row in write.find(INDEX_FILES))
    write.remove(INDEX_FILES, ANY)
    write.log("erase", rows)
    write.log("update", moved - set(rows))
    set_value(write, "erased_seq", str(write.seq()))
    return Receipt(
        ids=tuple(ids),
        derived=tuple(ids[named:]),
        vectors=vectors,
        versions=versions,
        snapshots=snapshots,
        artifacts=artifacts,
        jobs=jobs,
        index_files=files,
        complete=False,
        erased_at=at,
    )


def _texts(read: TableReader, found: Sequence[Found]) -> Iterator[str]:
    """What to look for inside other records: the texts of memories, and what they said before."""
    for one in found:
        yield from (text for name in _TEXTS if (text := getattr(one.memory, name)) is not None)
    for (data,) in read.ask("data", HISTORY, {"row": [one.row for one in found]}):
        kept = json.loads(data)
        yield from (kept[name] for name in _TEXTS if isinstance(kept.get(name), str))


def _private_owners(read: TableReader, reader: Scope) -> set[int]:
    found = read.ask("owner", OWNERS, {"owner": reader, "visibility": "private"})
    return {owner for (owner,) in found}


def _readers(read: TableReader, memories: Sequence[Memory]) -> set[int]:
    """The owners whose records may quote these memories: the same user, or anybody if shared."""
    users = {memory.scope.user_id for memory in memories}
    shared = any(memory.visibility != "private" for memory in memories)
    return {row[0] for row in read.find(OWNERS) if shared or row[2] in users}


def _remove_mentioning(
    write: TableWriter,
    table: Table,
    *,
    ids: Sequence[str],
    quotes: Quotes,
    readers: set[int],
    own: set[int],
) -> int:
    """Remove records that name one of `ids`, or that are `readers`' and quote an erased text.

    Those of `own` go all. Texts that snapshots share are not counted: they are no records of
    their own.
    """
    names, exact = Names(ids), {*ids, *map(said_mention, ids)}
    gone: list[int] = []
    counted = 0
    for row in write.find(table):
        columns = dict(zip(table.columns, row, strict=True))
        owner = columns["owner"]
        written = [_value(value) for value in row if isinstance(value, str | list)]
        data = ""
        if table is SNAPSHOTS:
            written.append(json.loads(plain_data(columns["data"])))
        elif table is ARTIFACTS:
            data = columns["data"].decode("utf-8", "replace")
        texts = list(texts_in(written))
        if (
            owner in own
            or (table is SNAPSHOTS and not exact.isdisjoint(mentioned(columns["mentions"])))
            or any(map(names.are_in, texts))
            or (owner in readers and any(map(quotes.are_in, (*texts, data))))
        ):
            gone.append(row[0])
            counted += table is not SNAPSHOTS or not columns["id"].startswith(TEXT_PREFIX)
    write.remove(table, {table.key: gone})
    return counted


def _value(written: Any) -> Any:
    """A column as JSON has it, or else itself."""
    try:
        return json.loads(written) if isinstance(written, str) else written
    except ValueError:
        return written


def _forget_references(write: TableWriter, ids: Sequence[str]) -> None:
    """Put a constant where other memories name an erased one."""
    gone = set(ids)
    for start in range(0, len(ids), AT_ONCE):
        part = list(ids[start : start + AT_ONCE])
        condition = "m.supersedes IN :ids OR m.superseded_by IN :ids"
        for one in write.find_where(condition, lock=True, ids=part):
            changes: dict[str, Any] = {
                name: ERASED for name in _REFERENCES if getattr(one.memory, name) in gone
            }
            write.rewrite(one, replace(one.memory, **changes))
            write.log("update", [one.row])
    naming = " OR ".join(f"""t.data LIKE '%"{name}":"%'""" for name in _REFERENCES)
    for row in write.find(HISTORY, ANY, naming):
        kept = json.loads(row[3])
        named = {name: ERASED for name in _REFERENCES if kept.get(name) in gone}
        if named:
            written = json.dumps(kept | named, ensure_ascii=False, separators=(",", ":"))
            write.change(HISTORY, row, data=written)
