"""A memory as the columns of a row and back, the same in every database."""

from __future__ import annotations

import json
from typing import Any

from agentmem.base.types import EMPTY, UNUSED, Memory, Scope, Usage, Visibility
from agentmem.stores.values import (
    NO_POSITION,
    freeze_metadata,
    from_microseconds,
    place_of,
    to_microseconds,
    write_json,
)

Owner = tuple[Visibility, Scope]
Strand = tuple[int, str, str]
"""Owner, url and session: rows of one strand follow each other by place."""
NO_STRAND: Strand = (0, "", "")


def is_dsn(path: object) -> bool:
    """Whether this names a database server, not a file."""
    return isinstance(path, str) and path.startswith(("postgresql://", "postgres://"))


def scope_values(scope: Scope) -> tuple[str | None, ...]:
    return scope.user_id, scope.project_id, scope.agent_id, scope.run_id


def owned_by(memory: Memory) -> Owner:
    return memory.visibility, memory.scope


def in_strand(memory: Memory) -> tuple[Owner, str, str]:
    """Whose a memory is and what it belongs to: memories that agree in it follow each other."""
    return owned_by(memory), memory.source_url, memory.session


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


def usage_of(row: tuple[Any, ...]) -> Usage:
    """The counts in a row of the table of usage."""
    _, retrieved, cited, ignored, last = row
    return Usage(
        retrieved=retrieved,
        cited=cited,
        ignored=ignored,
        last_used_at=None if last is None else from_microseconds(last),
    )


def memory_of(
    row: tuple[Any, ...], owner: Owner, strand: Strand, usage: Usage | None, text: str | None = None
) -> Memory:
    """The memory of a row of the table of memories; `text` if it stands somewhere else."""
    (
        _, memory_id, _, _, place, kind, origin, speaker, created_at, valid_from,
        valid_to, supersedes, superseded_by, deleted_at, importance, content_hash, title,
        heading_path, metadata, written, summary, compressed, index,
    ) = row  # fmt: skip
    visibility, scope = owner
    _, url, session = strand
    return Memory(
        id=memory_id,
        text=written if text is None else text,
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
        usage=UNUSED if usage is None else usage,
        metadata=EMPTY if metadata == "{}" else freeze_metadata(json.loads(metadata)),
    )
