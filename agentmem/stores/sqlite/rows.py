"""Memories as rows of the file and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from agentmem.core.scope import may_see
from agentmem.errors import InvalidInput
from agentmem.stores.entries import (
    NO_POSITION,
    freeze_metadata,
    from_microseconds,
    to_microseconds,
    write_json,
)
from agentmem.stores.packing import place_of
from agentmem.stores.sqlite.ledger import Row, checked, corrupt, opened, seal
from agentmem.stores.sqlite.names import (
    INTEGERS,
    NO_STRAND,
    NameCache,
    Owner,
    Strand,
    among,
    integers,
)
from agentmem.stores.sqlite.schema import COLD, MEMORIES, USAGE
from agentmem.stores.sqlite.transactions import Read
from agentmem.types import EMPTY, UNUSED, Memory, Scope, Usage

COLUMN = {name: index for index, name in enumerate(MEMORIES.columns)}
_OWNER, _STRAND, _TEXT = COLUMN["owner"], COLUMN["strand"], COLUMN["text"]


def memory_values(memory: Memory) -> tuple[Any, ...]:
    """The columns of a memory from `place` on; the row, id, owner and strand stand before."""
    return (
        place_of(memory),
        memory.kind,
        memory.origin,
        memory.speaker,
        to_microseconds(memory.created_at, "created_at"),
        None if memory.valid_from is None else to_microseconds(memory.valid_from, "valid_from"),
        None if memory.valid_to is None else to_microseconds(memory.valid_to, "valid_to"),
        memory.supersedes,
        memory.superseded_by,
        None if memory.deleted_at is None else to_microseconds(memory.deleted_at, "deleted_at"),
        float(memory.importance),
        memory.content_hash,
        memory.title,
        write_json(memory.heading_path, "heading_path") if memory.heading_path else "[]",
        write_json(memory.metadata, "metadata") if memory.metadata else "{}",
        memory.text,
        memory.summary,
        memory.compressed,
        memory.index,
    )


def usage_values(usage: Usage) -> tuple[Any, ...]:
    last = usage.last_used_at
    return (
        usage.retrieved,
        usage.cited,
        usage.ignored,
        None if last is None else to_microseconds(last, "last_used_at"),
    )


def read_memories(read: Read, names: NameCache, rows: Sequence[Row]) -> list[Memory]:
    """The memories of tested rows of the memories table, in their order."""
    if not rows:
        return []
    keys = [row[0] for row in rows]
    owners = names.owners(read, [row[_OWNER] for row in rows])
    strands = names.strands(read, [strand for row in rows if (strand := row[_STRAND]) is not None])
    marks, numbers = among(keys)
    usage = {row[0]: _usage(row) for row in read.rows(USAGE, f"WHERE row IN {marks}", numbers)}
    cold = cold_texts(read, [row[0] for row in rows if not row[_TEXT]])
    try:
        return [
            _memory(
                row,
                owners[row[_OWNER]],
                NO_STRAND if row[_STRAND] is None else strands[row[_STRAND]],
                usage.get(row[0], UNUSED),
                row[_TEXT] or cold.get(row[0], ""),
            )
            for row in rows
        ]
    except (InvalidInput, ValueError, OverflowError, TypeError, KeyError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error


def _usage(row: Row) -> Usage:
    _, retrieved, cited, ignored, last = row
    return Usage(
        retrieved=retrieved,
        cited=cited,
        ignored=ignored,
        last_used_at=None if last is None else from_microseconds(last),
    )


def few_memories(
    ask: Callable[[str, Sequence[Any]], list[Row]],
    names: NameCache,
    keys: Sequence[int],
    reader: Scope,
) -> dict[int, Memory] | None:
    """The memories of a few rows that `reader` may see, found by one statement.

    None where that is not enough: for a text that was put away, or a name that
    was not met before.
    """
    marks, numbers = among(keys)
    found: dict[int, Memory] = {}
    try:
        for stored in ask(_WITH_USAGE.format(marks), numbers):
            row = checked(MEMORIES, stored[:_WIDTH])
            owner = names.known_owner(row[_OWNER])
            strand = names.known_strand(row[_STRAND])
            if owner is None or strand is None or not row[_TEXT]:
                return None
            if may_see(reader, *owner):
                used = stored[_WIDTH:]
                usage = UNUSED if used[0] is None else _usage(checked(USAGE, used))
                found[row[0]] = _memory(row, owner, strand, usage, row[_TEXT])
    except (InvalidInput, ValueError, OverflowError) as error:
        raise corrupt(f"a row cannot be read ({error})") from error
    return found


_WIDTH = len(MEMORIES.stored)
_WITH_USAGE = (
    f"SELECT {', '.join(f'm.{name}' for name in MEMORIES.stored)}, "  # noqa: S608 # our own names
    f"{', '.join(f'u.{name}' for name in USAGE.stored)} "
    "FROM memories AS m LEFT JOIN usage AS u ON u.row = m.row WHERE m.row IN {} ORDER BY m.row"
)


def cold_texts(read: Read, keys: Collection[int]) -> dict[int, str]:
    """The texts of those rows that are kept compressed, outside the rows themselves."""
    if not keys:
        return {}
    found = read.rows(COLD, f"WHERE row IN {INTEGERS}", (integers(keys),))
    try:
        return {key: zlib.decompress(opened(key, data)).decode("utf-8") for key, data in found}
    except (zlib.error, UnicodeDecodeError):
        raise corrupt("a cold text cannot be unpacked") from None


def pack_text(key: int, text: str) -> Row:
    """A row of the table of cold texts."""
    return key, seal(key, zlib.compress(text.encode("utf-8"), 9))


def seen_rows(read: Read, names: NameCache, rows: Sequence[Row], reader: Scope) -> list[Row]:
    """Those of tested rows of the memories table that `reader` may see."""
    owners = names.owners(read, [row[_OWNER] for row in rows])
    seen = {number for number, owner in owners.items() if may_see(reader, *owner)}
    return [row for row in rows if row[_OWNER] in seen]


def _memory(row: Row, owner: Owner, strand: Strand, usage: Usage, text: str) -> Memory:
    (
        _, memory_id, _, _, place, kind, origin, speaker, created_at, valid_from,
        valid_to, supersedes, superseded_by, deleted_at, importance, content_hash, title,
        heading_path, metadata, _, summary, compressed, index,
    ) = row  # fmt: skip
    visibility, scope = owner
    _, url, session = strand
    return Memory(
        id=memory_id,
        text=text,
        created_at=from_microseconds(created_at),
        kind=kind,
        scope=scope,
        visibility=visibility,
        origin=origin,
        summary=summary,
        compressed=compressed,
        index=index,
        source_url=url,
        title=title,
        heading_path=() if heading_path == "[]" else tuple(json.loads(heading_path)),
        speaker=speaker,
        session=session,
        position=None if place == NO_POSITION else place,
        importance=importance,
        valid_from=None if valid_from is None else from_microseconds(valid_from),
        valid_to=None if valid_to is None else from_microseconds(valid_to),
        supersedes=supersedes,
        superseded_by=superseded_by,
        deleted_at=None if deleted_at is None else from_microseconds(deleted_at),
        content_hash=content_hash,
        usage=usage,
        metadata=EMPTY if metadata == "{}" else freeze_metadata(json.loads(metadata)),
    )


def rows_by_id(read: Read, ids: Collection[str]) -> dict[str, Row]:
    """The stored rows of these ids, tested; ids nobody has are left out."""
    found: dict[str, Row] = {}
    wanted = list(dict.fromkeys(ids))
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        asked = set(part)
        marks = ", ".join("?" * len(part))
        for row in read.rows(MEMORIES, f"WHERE id IN ({marks})", part):
            if row[1] not in asked:
                raise corrupt("the index of ids points to another memory")
            found[row[1]] = row
    return found


def rows_by_key(read: Read, keys: Collection[int]) -> list[Row]:
    """The stored rows with these numbers, tested, ascending."""
    marks, numbers = among(tuple(keys))
    return read.rows(MEMORIES, f"WHERE row IN {marks} ORDER BY row", numbers)
