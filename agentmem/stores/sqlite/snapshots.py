"""Traces of built contexts in the file, compressed, with the texts they share."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agentmem.core.checks import require_count, require_text
from agentmem.core.snapshot_codec import TEXT_PREFIX
from agentmem.errors import DuplicateRecord, RecordNotFound
from agentmem.stores.entries import from_microseconds, to_microseconds, write_json
from agentmem.stores.retention import Kept, too_old
from agentmem.stores.sqlite.ledger import Row, corrupt
from agentmem.stores.sqlite.names import INTEGERS, integers, intern_owner, visible_owners
from agentmem.stores.sqlite.schema import SNAPSHOTS
from agentmem.stores.sqlite.side import Owned
from agentmem.stores.sqlite.transactions import Read, Write
from agentmem.stores.values import SnapshotRecord
from agentmem.types import Scope

_PLAIN_CHARACTERS = 200
_LISTED = f"id NOT GLOB '{TEXT_PREFIX}*'"


def pack_data(data: Mapping[str, Any]) -> str | bytes:
    """`data` as it stands in the file: JSON, compressed where that is worth it."""
    written = write_json(data, "data")
    if len(written) < _PLAIN_CHARACTERS:
        return written
    return zlib.compress(written.encode("utf-8"), 6)


def plain_data(stored: str | bytes) -> str:
    """The JSON that `pack_data` wrote."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(stored).decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        raise corrupt("a snapshot cannot be unpacked") from None


class SqliteSnapshots(Owned):
    """`Snapshots` over the file."""

    table = SNAPSHOTS

    def put(self, snapshot: SnapshotRecord, /, *, shared: Sequence[SnapshotRecord] = ()) -> None:
        """Keep a trace, and those of its shared texts that are not there yet."""
        rows = [_values(record) for record in (snapshot, *shared)]
        with self._database.write() as write:
            if write.rows(SNAPSHOTS, "WHERE id = ?", (snapshot.id,)):
                raise DuplicateRecord(snapshot.id)
            there = _there(write, [record.id for record in shared])
            for record, values in zip((snapshot, *shared), rows, strict=True):
                if record.id in there:
                    continue
                there.add(record.id)
                owner = intern_owner(write, ("private", record.scope))
                (key,) = write.take(SNAPSHOTS)
                write.insert(SNAPSHOTS, [(key, record.id, owner, *values)])

    def replace(self, snapshot: SnapshotRecord, /) -> bool:
        """Write another trace in the place of the one with this id; false when that is gone."""
        _, mentions, data = _values(snapshot)
        with self._database.write() as write:
            found = write.rows(SNAPSHOTS, "WHERE id = ?", (snapshot.id,))
            if not found:
                write.abandoned = True
                return False
            write.change(SNAPSHOTS, found[0], mentions=mentions, data=data)
        return True

    def get(self, scope: Scope | None, snapshot_id: str, /) -> SnapshotRecord:
        """The trace with this id."""
        require_text(snapshot_id, "snapshot_id")
        with self._database.read() as read:
            if scope is not None:
                return self._record(read, self._find(read, scope, snapshot_id))
            for row in read.rows(SNAPSHOTS, "WHERE id = ?", (snapshot_id,)):
                return self._record(read, row)
        raise RecordNotFound(snapshot_id)

    def list(
        self, scope: Scope | None, *, limit: int = 20, since: datetime | None = None
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces, newest first; with `since`, those from that moment on."""
        least = None if since is None else to_microseconds(since, "since")
        with self._database.read() as read:
            found = self._select(
                read,
                scope,
                f"{_LISTED} AND created_at >= ?",
                (-(1 << 62) if least is None else least,),
                limit,
            )
            return tuple(self._record(read, row) for row in found)

    def mentioning(
        self, scope: Scope | None, mention: str, *, limit: int = 20
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces that mention this memory, shared text or message."""
        written = json.dumps(require_text(mention, "mention"), ensure_ascii=False)
        with self._database.read() as read:
            found = self._select(
                read, scope, f"{_LISTED} AND instr(mentions, ?)", (written,), limit
            )
            return tuple(self._record(read, row) for row in found)

    def shared(self, ids: Collection[str], /) -> Mapping[str, SnapshotRecord]:
        """The shared texts with these ids that are there."""
        with self._database.read() as read:
            rows = [
                row
                for text_id in dict.fromkeys(ids)
                for row in read.rows(SNAPSHOTS, "WHERE id = ?", (text_id,))
            ]
            return {row[1]: self._record(read, row) for row in rows}

    def prune(
        self,
        *,
        keep: int | None = None,
        before: datetime | None = None,
        most_bytes: int | None = None,
    ) -> int:
        """Remove the oldest traces until all limits are met, and texts nothing mentions.

        `keep` counts for each owner, `before` and `most_bytes` for the store.
        Gives how many traces went.
        """
        moment = None if before is None else to_microseconds(before, "before")
        with self._database.write() as write:
            found = write.execute(
                "SELECT snapshot, id, owner, created_at, mentions, length(CAST(data AS BLOB)) "
                "FROM snapshots ORDER BY created_at DESC, snapshot DESC"
            )
            rows = [
                Kept(
                    key=key, id=record_id, owner=owner, moment=created,
                    mentions=frozenset(json.loads(mentions)), bytes=size + len(mentions),
                )
                for key, record_id, owner, created, mentions, size in found
            ]  # fmt: skip
            gone = too_old(rows, keep=keep, before=moment, most_bytes=most_bytes)
            removed = write.delete(SNAPSHOTS, [row.key for row in gone])
            write.abandoned = not removed
        return sum(not row.is_text for row in gone)

    def _select(
        self, read: Read, scope: Scope | None, condition: str, values: Iterable[Any], limit: int
    ) -> Sequence[Row]:
        whose = "" if scope is None else f" AND owner IN {INTEGERS}"
        owners = () if scope is None else (integers(visible_owners(read, scope)),)
        return read.rows(
            SNAPSHOTS,
            f"WHERE {condition}{whose} ORDER BY created_at DESC, snapshot DESC LIMIT ?",
            (*values, *owners, require_count(limit, "limit")),
        )

    def _record(self, read: Read, row: Row) -> SnapshotRecord:
        _, record_id, _, created_at, mentions, data = row
        return SnapshotRecord(
            id=record_id,
            created_at=from_microseconds(created_at),
            data=json.loads(plain_data(data)),
            mentions=tuple(json.loads(mentions)),
            scope=self._scope(read, row),
        )


def _values(record: SnapshotRecord) -> tuple[int, str, str | bytes]:
    require_text(record.id, "id")
    return (
        to_microseconds(record.created_at, "created_at"),
        write_json(list(record.mentions), "mentions"),
        pack_data(record.data),
    )


def _there(write: Write, ids: Sequence[str]) -> set[str]:
    return {
        text_id
        for text_id in ids
        if write.execute("SELECT 1 FROM snapshots WHERE id = ?", (text_id,))
    }
