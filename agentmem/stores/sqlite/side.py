"""What is kept beside the memories: settings, jobs, artifacts and links."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import DuplicateRecord, RecordNotFound
from agentmem.base.types import Scope, visible
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.protocol import Change
from agentmem.stores.rules import Kept, too_old
from agentmem.stores.sqlite.connection import Read, Row, Write, corrupt
from agentmem.stores.sqlite.pool import Database
from agentmem.stores.sqlite.reading import (
    INTEGERS,
    integers,
    intern_owner,
    read_memories,
    rows_by_id,
    rows_by_key,
    visible_owners,
)
from agentmem.stores.sqlite.schema import ARTIFACTS, JOBS, LINKS, SETTINGS, SNAPSHOTS, Table
from agentmem.stores.values import (
    NO_SCOPE,
    Artifact,
    Job,
    Link,
    NewJob,
    SnapshotRecord,
    from_microseconds,
    to_microseconds,
    write_json,
)


class SqliteSettings:
    """`Settings` over the file."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._secret: bytes | None = None

    def get(self, name: str, /) -> str | None:
        """The value under a name, or None."""
        require_text(name, "name")
        with self._database.read() as read:
            found = read.rows(SETTINGS, "WHERE name = ?", (name,))
        return str(found[0][2]) if found else None

    def set(self, name: str, value: str | None, /) -> None:
        """Keep a value; None removes it."""
        require_text(name, "name")
        if value is not None:
            require_text(value, name)
        with self._database.write() as write:
            set_value(write, name, value)

    def update(self, name: str, change: Change, /) -> str | None:
        """Keep what `change` makes of the value, None for none, and give it.

        Nobody else writes between reading and writing, in any process: what two
        learn at once is kept of both.
        """
        require_text(name, "name")
        if not self._database.exists() and change(None) is None:
            return None
        with self._database.write() as write:
            found = write.rows(SETTINGS, "WHERE name = ?", (name,))
            before = str(found[0][2]) if found else None
            value = change(before)
            if value is not None:
                require_text(value, name)
            write.abandoned = value == before
            set_value(write, name, value)
        return value

    def secret(self) -> bytes:
        """32 random bytes of this store, made with it and never changed."""
        if self._secret is None:
            value = self.get("secret")
            if value is None:
                raise corrupt("its secret is missing")
            if not self._database.exists():
                return bytes.fromhex(value)
            self._secret = bytes.fromhex(value)
        return self._secret


def set_value(write: Write, name: str, value: str | None) -> None:
    """Keep a setting inside a transaction."""
    found = write.rows(SETTINGS, "WHERE name = ?", (name,))
    if found and value is not None:
        write.change(SETTINGS, found[0], value=value)
        return
    write.delete(SETTINGS, [row[0] for row in found])
    if value is not None:
        (key,) = write.take(SETTINGS)
        write.insert(SETTINGS, [(key, name, value)])


class SqliteJobs:
    """`Jobs` over the file. A job is waiting, or running until its lease ends, or failed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        at: datetime,
        key: str = "",
        scope: Scope = NO_SCOPE,
    ) -> int:
        """The number of the job; with a `key` that waits already for this scope, that one's."""
        written = write_json(payload, "payload")
        require_text(kind, "kind")
        with self._database.write() as write:
            owner = intern_owner(write, ("private", scope))
            if require_text(key, "key"):
                same = write.rows(
                    JOBS,
                    "WHERE state = 'waiting' AND kind = ? AND dedupe = ? AND owner = ?",
                    (kind, key, owner),
                )
                if same:
                    write.abandoned = True
                    return int(same[0][0])
            (job,) = write.take(JOBS)
            moment = to_microseconds(at, "at")
            write.insert(JOBS, [(job, owner, kind, key, written, "waiting", 0, moment, "", moment)])
        return job

    def keep(self, jobs: Sequence[NewJob], /) -> tuple[int, ...]:
        """Write many at once, each in the place of one of its key that waits; their numbers."""
        written = [(job, write_json(job.payload, "payload")) for job in jobs]
        numbers: list[int] = []
        with self._database.write() as write:
            for job, payload in written:
                owner = intern_owner(write, ("private", job.scope))
                if require_text(job.key, "key"):
                    same = write.rows(
                        JOBS,
                        "WHERE state = 'waiting' AND kind = ? AND dedupe = ? AND owner = ?",
                        (job.kind, job.key, owner),
                    )
                    write.delete(JOBS, [row[0] for row in same])
                (number,) = write.take(JOBS)
                moment = to_microseconds(job.at, "at")
                row = (number, owner, require_text(job.kind, "kind"), job.key, payload)
                write.insert(JOBS, [(*row, "waiting", 0, moment, "", moment)])
                numbers.append(number)
        return tuple(numbers)

    def claim(
        self, *, at: datetime, lease_seconds: float = 60, kinds: Collection[str] | None = None
    ) -> Job | None:
        """The oldest job that is ready, given to nobody else until its lease ends."""
        require_number(lease_seconds, "lease_seconds", low=0)
        moment = to_microseconds(at, "at")
        wanted = list(kinds or ())
        with self._database.write() as write:
            only = f"AND kind IN ({', '.join('?' * len(wanted))})" if kinds is not None else ""
            found = write.rows(
                JOBS,
                f"WHERE state IN ('waiting', 'running') AND ready_at <= ? {only} "
                "ORDER BY ready_at, job LIMIT 1",
                (moment, *wanted),
            )
            if not found:
                write.abandoned = True
                return None
            until = to_microseconds(at + timedelta(seconds=lease_seconds), "lease_seconds")
            (row,) = found
            new = write.change(JOBS, row, state="running", attempts=row[6] + 1, ready_at=until)
        return _job(new)

    def done(self, job_id: int, /) -> None:
        """Forget a finished job; one that is gone already is fine."""
        with self._database.write() as write:
            write.abandoned = not write.delete(JOBS, [require_count(job_id, "job_id")])

    def fail(self, job_id: int, error: str, *, retry_at: datetime | None) -> None:
        """Note a failure; the job waits until `retry_at`, or stays failed without one."""
        require_text(error, "error")
        with self._database.write() as write:
            for row in write.rows(JOBS, "WHERE job = ?", (job_id,)):
                if retry_at is None:
                    write.change(JOBS, row, state="failed", error=error)
                else:
                    ready = to_microseconds(retry_at, "retry_at")
                    write.change(JOBS, row, state="waiting", error=error, ready_at=ready)

    def failed(self, *, limit: int = 5) -> tuple[Job, ...]:
        """The newest jobs that failed for good, with why, newest first."""
        count = require_count(limit, "limit")
        with self._database.read() as read:
            rows = read.rows(JOBS, "WHERE state = 'failed' ORDER BY job DESC LIMIT ?", (count,))
            return tuple(map(_job, rows))

    def counts(self) -> Mapping[str, int]:
        """How many jobs are waiting, running and failed."""
        with self._database.read() as read:
            return job_counts(read)


def job_counts(read: Read, owners: Collection[int] | None = None) -> dict[str, int]:
    """How many jobs of these owners, or of all, are waiting, running and failed."""
    counts = {"waiting": 0, "running": 0, "failed": 0}
    for state, owner, count in read.execute(
        "SELECT state, owner, count(*) FROM jobs GROUP BY state, owner"
    ):
        counts[state] += count if owners is None or owner in owners else 0
    return counts


def _job(row: Row) -> Job:
    job, _, kind, _, payload, _, attempts, _, error, _ = row
    return Job(id=job, kind=kind, payload=json.loads(payload), attempts=attempts, error=error)


class Owned:
    """Rows with an id of their own and an owner, seen by who may see that owner's memories."""

    table: Table
    what = "memory"
    seen_with = "list"

    def __init__(self, database: Database) -> None:
        self._database = database

    def _find(self, read: Read, scope: Scope, record_id: str) -> Row:
        owners = visible_owners(read, scope)
        for row in read.rows(self.table, "WHERE id = ?", (record_id,)):
            if row[2] in owners:
                return row
        raise RecordNotFound(record_id, what=self.what, seen_with=self.seen_with)

    def _newest(self, read: Read, scope: Scope, limit: int) -> list[Row]:
        owners = visible_owners(read, scope)
        return read.rows(
            self.table,
            f"WHERE owner IN {INTEGERS} ORDER BY created_at DESC, {self.table.key} DESC LIMIT ?",
            (integers(owners), require_count(limit, "limit")),
        )

    def _scope(self, read: Read, row: Row) -> Scope:
        return read.names.owners(read, [row[2]])[row[2]][1]


class SqliteArtifacts(Owned):
    """`Artifacts` over the file."""

    table = ARTIFACTS

    def put(self, artifact: Artifact, /) -> None:
        """Keep bytes under an id."""
        with self._database.write() as write:
            self.add(write, artifact)

    def add(self, write: Write, artifact: Artifact) -> None:
        """Keep bytes inside a transaction."""
        values = (
            to_microseconds(artifact.created_at, "created_at"),
            require_text(artifact.media_type, "media_type"),
            write_json(artifact.metadata, "metadata"),
            bytes(artifact.data),
        )
        if write.rows(ARTIFACTS, "WHERE id = ?", (require_text(artifact.id, "id"),)):
            raise DuplicateRecord(artifact.id)
        owner = intern_owner(write, ("private", artifact.scope))
        (key,) = write.take(ARTIFACTS)
        write.insert(ARTIFACTS, [(key, artifact.id, owner, *values)])

    def take_out(self, write: Write, scope: Scope, ids: Collection[str]) -> None:
        """Remove those of `ids` that are there, inside a transaction."""
        for artifact_id in ids:
            with suppress(RecordNotFound):
                write.delete(ARTIFACTS, [self._find(write, scope, artifact_id)[0]])

    def get(self, scope: Scope, artifact_id: str, /) -> Artifact:
        """Exactly the bytes that were put."""
        with self._database.read() as read:
            return self._record(read, self._find(read, scope, artifact_id))

    def list(self, scope: Scope, *, limit: int = 100) -> tuple[Artifact, ...]:
        """The newest artifacts, newest first."""
        with self._database.read() as read:
            return tuple(self._record(read, row) for row in self._newest(read, scope, limit))

    def remove(self, scope: Scope, artifact_id: str, /) -> None:
        """Remove an artifact; its bytes are overwritten in the file."""
        with self._database.write() as write:
            write.delete(ARTIFACTS, [self._find(write, scope, artifact_id)[0]])

    def _record(self, read: Read, row: Row) -> Artifact:
        _, record_id, _, created_at, media_type, metadata, data = row
        return Artifact(
            id=record_id,
            data=data,
            created_at=from_microseconds(created_at),
            media_type=media_type,
            scope=self._scope(read, row),
            metadata=json.loads(metadata),
        )


class SqliteLinks:
    """`Links` over the file; contradictions are a family of their own."""

    def __init__(self, database: Database, *, family: str) -> None:
        self._database = database
        self._family = family

    def put(self, scope: Scope, link: Link, /) -> None:
        """Keep a relation between two memories the reader can see; again changes nothing."""
        require_text(link.relation, "relation")
        require_text(link.note, "note")
        created = to_microseconds(link.created_at, "created_at")
        settled = (
            None if link.settled_at is None else to_microseconds(link.settled_at, "settled_at")
        )
        with self._database.write() as write:
            first, second = self._ends(write, scope, link)
            if self._same(write, first, second, link.relation):
                write.abandoned = True
                return
            (key,) = write.take(LINKS)
            write.insert(
                LINKS,
                [
                    (
                        key, self._family, first, second, link.relation, created, link.note,
                        settled,
                    )
                ],
            )  # fmt: skip

    def of(self, scope: Scope, memory_id: str, /) -> tuple[Link, ...]:
        """The relations of one memory."""
        with self._database.read() as read:
            row = rows_by_id(read, [memory_id]).get(memory_id)
            if row is None or not visible(read_memories(read, [row])[0], scope):
                raise RecordNotFound(memory_id)
            found = read.rows(
                LINKS,
                "WHERE family = ? AND (first = ? OR second = ?) ORDER BY link",
                (self._family, row[0], row[0]),
            )
            return self._seen(read, scope, found)

    def among(self, scope: Scope, memory_ids: Collection[str], /) -> tuple[Link, ...]:
        """The relations between two of these memories, oldest first; no others are looked at."""
        with self._database.read() as read:
            ends = sorted(row[0] for row in rows_by_id(read, memory_ids).values())
            wanted, found = set(ends), []
            for start in range(0, len(ends), 500):
                part = ends[start : start + 500]
                marks = ", ".join("?" * len(part))
                where = f"WHERE family = ? AND first IN ({marks})"
                found += [
                    row
                    for row in read.rows(LINKS, where, (self._family, *part))
                    if row[3] in wanted
                ]
            return self._seen(read, scope, sorted(found))

    def all(self, scope: Scope, *, open_only: bool = False) -> tuple[Link, ...]:
        """Every relation whose both ends the reader sees, oldest first."""
        with self._database.read() as read:
            only = "AND settled_at IS NULL " if open_only else ""
            found = read.rows(LINKS, f"WHERE family = ? {only}ORDER BY link", (self._family,))
            return self._seen(read, scope, found)

    def settle(self, scope: Scope, link: Link, *, at: datetime, note: str = "") -> None:
        """Mark a relation as settled at `at`."""
        with self._database.write() as write:
            row = self._require(write, scope, link)
            write.change(
                LINKS, row, settled_at=to_microseconds(at, "at"), note=require_text(note, "note")
            )

    def remove(self, scope: Scope, link: Link, /) -> None:
        """Remove a relation."""
        with self._database.write() as write:
            write.delete(LINKS, [self._require(write, scope, link)[0]])

    def _require(self, write: Write, scope: Scope, link: Link) -> Row:
        found = self._same(write, *self._ends(write, scope, link), link.relation)
        if found is None:
            raise RecordNotFound(f"{link.first_id}→{link.second_id}")
        return found

    def _same(self, read: Read, first: int, second: int, relation: str) -> Row | None:
        found = read.rows(
            LINKS,
            "WHERE family = ? AND first = ? AND second = ? AND relation = ?",
            (self._family, first, second, relation),
        )
        return found[0] if found else None

    def _ends(self, write: Write, scope: Scope, link: Link) -> tuple[int, int]:
        rows = rows_by_id(write, [link.first_id, link.second_id])
        memories = read_memories(write, list(rows.values()))
        seen = {memory.id for memory in memories if visible(memory, scope)}
        for memory_id in (link.first_id, link.second_id):
            if memory_id not in seen:
                raise RecordNotFound(memory_id)
        return rows[link.first_id][0], rows[link.second_id][0]

    def _seen(self, read: Read, scope: Scope, found: list[Row]) -> tuple[Link, ...]:
        rows = rows_by_key(read, {end for row in found for end in row[2:4]})
        memories = read_memories(read, rows)
        ids = {
            row[0]: memory.id
            for row, memory in zip(rows, memories, strict=True)
            if visible(memory, scope)
        }
        return tuple(
            Link(
                first_id=ids[first],
                second_id=ids[second],
                relation=relation,
                created_at=from_microseconds(created),
                note=note,
                settled_at=None if settled is None else from_microseconds(settled),
            )
            for _, _, first, second, relation, created, note, settled in found
            if first in ids and second in ids
        )


# ----------------------------------------------------------------------------
# Traces of built contexts in the file, compressed, with the texts they share.


_PLAIN_CHARACTERS = 200
_LISTED = f"id NOT GLOB '{TEXT_PREFIX}*'"


def pack_data(data: Mapping[str, Any]) -> str | bytes:
    """`data` as it stands in the file: JSON, compressed where that is worth it."""
    written = write_json(data, "data")
    if len(written) < _PLAIN_CHARACTERS:
        return written
    return zlib.compress(written.encode("utf-8"), 1)  # more would take twice as long


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
        records = (snapshot, *shared)
        rows = [_values(record) for record in records]
        with self._database.write() as write:
            if write.rows(SNAPSHOTS, "WHERE id = ?", (snapshot.id,)):
                raise DuplicateRecord(snapshot.id)
            there = _there(write, [record.id for record in shared])
            new = {
                record.id: (record.id, intern_owner(write, ("private", record.scope)), *values)
                for record, values in zip(records, rows, strict=True)
                if record.id not in there
            }
            keys = write.take(SNAPSHOTS, len(new))
            write.insert(
                SNAPSHOTS, [(key, *row) for key, row in zip(keys, new.values(), strict=True)]
            )

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

    def mention(self, scope: Scope, snapshot_id: str, mentions: Collection[str], /) -> bool:
        """Let a trace mention more than it does; false when it is gone, or not this reader's."""
        with self._database.write() as write:
            found = self._select(write, scope, "id = ?", (require_text(snapshot_id, "id"),), 1)
            write.abandoned = not found
            for row in found:
                there = json.loads(row[SNAPSHOTS.columns.index("mentions")])
                more = write_json([*dict.fromkeys((*there, *mentions))], "mentions")
                write.change(SNAPSHOTS, row, mentions=more)
        return bool(found)

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


def _there(read: Read, ids: Sequence[str]) -> set[str]:
    found = read.execute(
        "SELECT id FROM snapshots WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(ids),)
    )
    return {text_id for (text_id,) in found}
