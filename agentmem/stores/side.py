"""What is kept beside the memories: settings, jobs, artifacts, links and traces."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import DuplicateRecord, RecordNotFound
from agentmem.base.types import Scope, visible
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.tables import (
    ARTIFACTS,
    JOBS,
    LINKS,
    SETTINGS,
    SNAPSHOTS,
    Match,
    Row,
    Table,
    TableReader,
    Tables,
    TableWriter,
    corrupt,
)
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

Change = Callable[[str | None], str | None]
"""What a setting becomes, given what it is; it must not write to the store."""


class _Beside:
    """A part of a store that asks for rows of its tables and nothing else."""

    def __init__(self, tables: Tables[TableReader]) -> None:
        self._tables = tables


# ----------------------------------------------------------------------------
# Settings.


SECRET = "secret"  # noqa: S105 - its name


class StoredSettings(_Beside):
    """Small texts by name, and the secret the block boundary is made from."""

    _secret: bytes | None = None

    def get(self, name: str, /) -> str | None:
        """The value under a name, or None."""
        require_text(name, "name")
        return self._tables.read(lambda read: get_value(read, name, last=True))

    def set(self, name: str, value: str | None, /) -> None:
        """Keep a value; None removes it."""
        require_text(name, "name")
        if value is not None:
            require_text(value, name)
        self._tables.write(lambda write: set_value(write, name, value))

    def update(self, name: str, change: Change, /) -> str | None:
        """Keep what `change` makes of the value, None for none, and give it.

        Nobody else writes between reading and writing, in any process and on any
        machine: what two learn at once is kept of both.
        """
        require_text(name, "name")
        if not self._tables.exists() and change(None) is None:
            return None

        def apply(write: TableWriter) -> str | None:
            write.hold(f"setting {name}")
            before = get_value(write, name)
            value = change(before)
            if value is not None:
                require_text(value, name)
            if value != before:
                set_value(write, name, value)
            return value

        return self._tables.write(apply)

    def secret(self) -> bytes:
        """32 random bytes of this store, never changed."""
        if self._secret is not None:
            return self._secret
        written = self.get(SECRET) or self.update(SECRET, self._tables.first_secret)
        secret = bytes.fromhex(str(written))
        if self._tables.exists():
            self._secret = secret
        return secret


def get_value(read: TableReader, name: str, *, last: bool = False) -> str | None:
    """A setting inside a transaction."""
    found = read.find(SETTINGS, {"name": name}, last=last)
    return str(found[0][2]) if found else None


def set_value(write: TableWriter, name: str, value: str | None) -> None:
    """Keep a setting inside a transaction; None removes it."""
    if value is None:
        write.remove(SETTINGS, {"name": name})
    else:
        write.put(SETTINGS, name=name, value=value)


# ----------------------------------------------------------------------------
# Jobs.


class StoredJobs(_Beside):
    """A queue that survives the process; each job is claimed by one worker at a time.

    A job is waiting, or running until its lease ends, or failed.
    """

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
        values = _job_values(NewJob(kind=kind, payload=payload, at=at, key=key))
        return self._tables.write(lambda write: _add_job(write, scope, values))

    def keep(self, jobs: Sequence[NewJob], /) -> tuple[int, ...]:
        """Write many at once, each in the place of one of its key that waits; their numbers."""
        written = [(job.scope, _job_values(job)) for job in jobs]

        def apply(write: TableWriter) -> tuple[int, ...]:
            return tuple(_add_job(write, scope, values, anew=True) for scope, values in written)

        return self._tables.write(apply)

    def claim(
        self, *, at: datetime, lease_seconds: float = 60, kinds: Collection[str] | None = None
    ) -> Job | None:
        """The oldest job that is ready, given to nobody else until its lease ends."""
        require_number(lease_seconds, "lease_seconds", low=0)
        moment = to_microseconds(at, "at")
        until = to_microseconds(at + timedelta(seconds=lease_seconds), "lease_seconds")

        def apply(write: TableWriter) -> Job | None:
            found = write.find(
                JOBS,
                {} if kinds is None else {"kind": list(kinds)},
                "state IN ('waiting', 'running') AND ready_at <= :at",
                order="ready_at, job",
                limit=1,
                lock="skip",
                at=moment,
            )
            if not found:
                return None
            job = _job(found[0])
            tried = replace(job, attempts=job.attempts + 1)
            write.change(JOBS, found[0], state="running", attempts=tried.attempts, ready_at=until)
            return tried

        return self._tables.write(apply)

    def done(self, job_id: int, /) -> None:
        """Forget a finished job; one that is gone already is fine."""
        require_count(job_id, "job_id")
        self._tables.write(lambda write: write.remove(JOBS, {"job": job_id}))

    def fail(self, job_id: int, error: str, *, retry_at: datetime | None) -> None:
        """Note a failure; the job waits until `retry_at`, or stays failed without one."""
        require_text(error, "error")
        ready = None if retry_at is None else to_microseconds(retry_at, "retry_at")

        def apply(write: TableWriter) -> None:
            for row in write.find(JOBS, {"job": job_id}, lock=True):
                if ready is None:
                    write.change(JOBS, row, state="failed", error=error)
                    continue
                _, owner, kind, dedupe, *_ = row
                again = {"state": "waiting", "error": error, "ready_at": ready}
                same = {"owner": owner, "kind": kind, "dedupe": dedupe, "state": "waiting"}
                if dedupe and any(other[0] != job_id for other in write.find(JOBS, same)):
                    again["dedupe"] = ""  # one of the same key waits by now: this goes on without
                write.change(JOBS, row, **again)

        self._tables.write(apply)

    def failed(self, *, limit: int = 5) -> tuple[Job, ...]:
        """The newest jobs that failed for good, with why, newest first."""
        most = require_count(limit, "limit")
        return self._tables.read(
            lambda read: tuple(
                map(_job, read.find(JOBS, {"state": "failed"}, order="job DESC", limit=most))
            )
        )

    def counts(self) -> Mapping[str, int]:
        """How many jobs are waiting, running and failed."""
        return self._tables.read(job_counts)


def _job_values(job: NewJob) -> dict[str, Any]:
    moment = to_microseconds(job.at, "at")
    return {
        "kind": require_text(job.kind, "kind"),
        "dedupe": require_text(job.key, "key"),
        "payload": write_json(job.payload, "payload"),
        "state": "waiting",
        "attempts": 0,
        "ready_at": moment,
        "error": "",
        "created_at": moment,
    }


def _add_job(
    write: TableWriter, scope: Scope, values: Mapping[str, Any], *, anew: bool = False
) -> int:
    """The number of a new job, or of one of its key that waits, which goes if it is made `anew`."""
    owner = write.owner_number(("private", scope))
    same = {"owner": owner, "kind": values["kind"], "dedupe": values["dedupe"], "state": "waiting"}
    if anew and values["dedupe"]:
        write.remove(JOBS, same)
    while True:
        number = write.add(JOBS, owner=owner, **values)
        if number is not None:
            return number
        for row in write.find(JOBS, same):
            return int(row[0])


def job_counts(read: TableReader, scope: Scope | None = None) -> dict[str, int]:
    """How many jobs of whom `scope` may see, or of all, are waiting, running and failed."""
    counts = {"waiting": 0, "running": 0, "failed": 0}
    return counts | dict(read.ask("state, count(*)", JOBS, seen_by(scope), group="state"))


def _job(row: Row) -> Job:
    job, _, kind, _, payload, _, attempts, _, error, _ = row
    return Job(id=job, kind=kind, payload=json.loads(payload), attempts=attempts, error=error)


# ----------------------------------------------------------------------------
# What has an id and an owner of its own, seen by who may see that owner's memories.


def seen_by(scope: Scope | None) -> dict[str, Any]:
    """What matches the rows of whom a reader may see; without one, of everybody."""
    return {} if scope is None else {"owner": scope}


def newest(
    read: TableReader, table: Table, match: Match, where: str = "", *, limit: int, **values: Any
) -> list[Row]:
    """The rows made last, the last one first."""
    order = f"t.created_at DESC, t.{table.key} DESC"
    return read.find(table, match, where, order=order, limit=limit, **values)


class StoredArtifacts(_Beside):
    """Exact bytes by id."""

    def put(self, artifact: Artifact, /) -> None:
        """Keep bytes under an id."""
        self._tables.write(lambda write: add_artifact(write, artifact))

    def get(self, scope: Scope, artifact_id: str, /) -> Artifact:
        """Exactly the bytes that were put."""

        def apply(read: TableReader) -> Artifact:
            found = read.find(ARTIFACTS, {"id": artifact_id, "owner": scope}, last=True)
            if not found:
                raise RecordNotFound(artifact_id)
            return _artifact(read, found[0])

        return self._tables.read(apply)

    def list(self, scope: Scope, *, limit: int = 100) -> tuple[Artifact, ...]:
        """The newest artifacts, newest first."""
        most = require_count(limit, "limit")

        def apply(read: TableReader) -> tuple[Artifact, ...]:
            found = newest(read, ARTIFACTS, {"owner": scope}, limit=most, last=True)
            return tuple(_artifact(read, row) for row in found)

        return self._tables.read(apply)

    def remove(self, scope: Scope, artifact_id: str, /) -> None:
        """Remove an artifact; its bytes are overwritten in a file."""
        if not self._tables.write(lambda write: remove_artifacts(write, scope, [artifact_id])):
            raise RecordNotFound(artifact_id)


def add_artifact(write: TableWriter, artifact: Artifact) -> None:
    """Keep bytes inside a transaction."""
    new = write.add(
        ARTIFACTS,
        id=require_text(artifact.id, "id"),
        owner=write.owner_number(("private", artifact.scope)),
        created_at=to_microseconds(artifact.created_at, "created_at"),
        media_type=require_text(artifact.media_type, "media_type"),
        metadata=write_json(artifact.metadata, "metadata"),
        data=bytes(artifact.data),
    )
    if new is None:
        raise DuplicateRecord(artifact.id)


def remove_artifacts(write: TableWriter, scope: Scope, ids: Collection[str]) -> int:
    """Remove those of `ids` that are there and the reader's, inside a transaction."""
    return write.remove(ARTIFACTS, {"id": list(ids), "owner": scope})


def _artifact(read: TableReader, row: Row) -> Artifact:
    _, record_id, owner, created_at, media_type, metadata, data = row
    return Artifact(
        id=record_id,
        data=data,
        created_at=from_microseconds(created_at),
        media_type=media_type,
        scope=read.owners([owner])[owner][1],
        metadata=json.loads(metadata),
    )


# ----------------------------------------------------------------------------
# Links.


class StoredLinks(_Beside):
    """Relations between memories, seen only by who sees both ends; contradictions are a family."""

    def __init__(self, tables: Tables[TableReader], *, family: str) -> None:
        super().__init__(tables)
        self._family = family

    def put(self, scope: Scope, link: Link, /) -> None:
        """Keep a relation between two memories the reader can see; again changes nothing."""
        values = link_values(link)

        def apply(write: TableWriter) -> None:
            first, second = _ends(write, scope, link.first_id, link.second_id)
            write.add(LINKS, family=self._family, first=first, second=second, **values)

        self._tables.write(apply)

    def of(self, scope: Scope, memory_id: str, /) -> tuple[Link, ...]:
        """The relations of one memory."""

        def apply(read: TableReader) -> tuple[Link, ...]:
            (one,) = _ends(read, scope, memory_id)
            return self._seen(read, scope, {}, "first = :row OR second = :row", row=one)

        return self._tables.read(apply)

    def among(self, scope: Scope, memory_ids: Collection[str], /) -> tuple[Link, ...]:
        """The relations between two of these memories, oldest first; no others are looked at."""

        def apply(read: TableReader) -> tuple[Link, ...]:
            found = read.by_ids(list(memory_ids))
            rows = [one.row for one in found.values()]
            return self._seen(read, scope, {"first": rows, "second": rows})

        return self._tables.read(apply)

    def all(self, scope: Scope, *, open_only: bool = False) -> tuple[Link, ...]:
        """Every relation whose both ends the reader sees, oldest first."""
        match: Match = {"settled_at": None} if open_only else {}
        where = """EXISTS (SELECT 1 FROM memories AS m
            WHERE [m] AND m.row = t.first AND m.owner IN :owners)"""
        return self._tables.read(lambda read: self._seen(read, scope, match, where, owners=scope))

    def settle(self, scope: Scope, link: Link, *, at: datetime, note: str = "") -> None:
        """Mark a relation as settled at `at`."""
        changed = {"settled_at": to_microseconds(at, "at"), "note": require_text(note, "note")}
        self._tables.write(
            lambda write: write.change(LINKS, self._require(write, scope, link), **changed)
        )

    def remove(self, scope: Scope, link: Link, /) -> None:
        """Remove a relation."""
        self._tables.write(
            lambda write: write.remove(LINKS, {"link": self._require(write, scope, link)[0]})
        )

    def _require(self, write: TableWriter, scope: Scope, link: Link) -> Row:
        first, second = _ends(write, scope, link.first_id, link.second_id)
        found = find_link(write, self._family, (first, second), link.relation)
        if found is None:
            raise RecordNotFound(f"{link.first_id}→{link.second_id}")
        return found

    def _seen(
        self, read: TableReader, scope: Scope, match: Match, where: str = "", **values: Any
    ) -> tuple[Link, ...]:
        found = read.find(LINKS, {"family": self._family, **match}, where, order="t.link", **values)
        ends = read.by_rows({end for row in found for end in row[2:4]}, reader=scope)
        return tuple(
            Link(
                first_id=ends[first].memory.id,
                second_id=ends[second].memory.id,
                relation=relation,
                created_at=from_microseconds(created),
                note=note,
                settled_at=None if settled is None else from_microseconds(settled),
            )
            for _, _, first, second, relation, created, note, settled in found
            if first in ends and second in ends
        )


def _ends(read: TableReader, scope: Scope, *ids: str) -> list[int]:
    """The rows of these ids, if the reader may see them all."""
    found = read.by_ids(ids)
    for memory_id in ids:
        if memory_id not in found or not visible(found[memory_id].memory, scope):
            raise RecordNotFound(memory_id)
    return [found[memory_id].row for memory_id in ids]


def find_link(write: TableWriter, family: str, ends: tuple[int, int], relation: str) -> Row | None:
    """The row of a relation, held until the end; or None."""
    first, second = ends
    match = {"family": family, "first": first, "second": second, "relation": relation}
    found = write.find(LINKS, match, lock=True)
    return found[0] if found else None


def link_values(link: Link) -> dict[str, Any]:
    """The columns of a relation beside its ends."""
    settled = link.settled_at
    return {
        "relation": require_text(link.relation, "relation"),
        "created_at": to_microseconds(link.created_at, "created_at"),
        "note": require_text(link.note, "note"),
        "settled_at": None if settled is None else to_microseconds(settled, "settled_at"),
    }


# ----------------------------------------------------------------------------
# Traces of built contexts, compressed, with the texts they share.


_PLAIN_CHARACTERS = 200
_LISTED = f"substr(t.id, 1, {len(TEXT_PREFIX)}) <> '{TEXT_PREFIX}'"


def pack_data(data: Mapping[str, Any]) -> str | bytes:
    """`data` as it is stored: JSON, compressed where that is worth it."""
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


def mentioned(stored: str | list[str]) -> list[str]:
    """What a trace mentions: a list in a database, written as JSON in a file."""
    found: list[str] = json.loads(stored) if isinstance(stored, str) else stored
    return found


class StoredSnapshots(_Beside):
    """Traces of built contexts, and the texts they share; without a scope, of every reader.

    Shared texts have ids that begin with `TEXT_PREFIX`. They are not listed, and go when no trace
    mentions them or their memory is erased.
    """

    def put(self, snapshot: SnapshotRecord, /, *, shared: Sequence[SnapshotRecord] = ()) -> None:
        """Keep a trace, and those of its shared texts that are not there yet."""
        ids = [record.id for record in shared]
        known = self._tables.read(lambda r: r.ask("id", SNAPSHOTS, {"id": ids})) if ids else ()
        new = [snapshot, *(record for record in shared if (record.id,) not in known)]
        written = [(record.scope, _values(record)) for record in new]

        def apply(write: TableWriter) -> None:
            for number, (scope, values) in enumerate(written):
                owner = write.owner_number(("private", scope))
                if write.add(SNAPSHOTS, owner=owner, **values) is None and not number:
                    raise DuplicateRecord(snapshot.id)

        self._tables.write(apply)

    def replace(self, snapshot: SnapshotRecord, /) -> bool:
        """Write another trace in the place of the one with this id; false when that is gone."""
        values = _values(snapshot)

        def apply(write: TableWriter) -> bool:
            found = write.find(SNAPSHOTS, {"id": snapshot.id}, lock=True)
            for row in found:
                write.change(SNAPSHOTS, row, mentions=values["mentions"], data=values["data"])
            return bool(found)

        return self._tables.write(apply)

    def mention(self, scope: Scope, snapshot_id: str, mentions: Collection[str], /) -> bool:
        """Let a trace mention more than it does; false when it is gone, or not this reader's."""
        match = {"id": require_text(snapshot_id, "id"), "owner": scope}

        def apply(write: TableWriter) -> bool:
            found = write.find(SNAPSHOTS, match, lock=True)
            for row in found:
                more = [*dict.fromkeys((*mentioned(row[4]), *mentions))]
                write.change(SNAPSHOTS, row, mentions=write_json(more, "mentions"))
            return bool(found)

        return self._tables.write(apply)

    def get(self, scope: Scope | None, snapshot_id: str, /) -> SnapshotRecord:
        """The trace with this id."""
        require_text(snapshot_id, "snapshot_id")
        found = self._read({"id": snapshot_id, **seen_by(scope)})
        if not found:
            raise RecordNotFound(snapshot_id)
        return found[0]

    def list(
        self, scope: Scope | None, *, limit: int = 20, since: datetime | None = None
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces, newest first; with `since`, those from that moment on."""
        moment = None if since is None else to_microseconds(since, "since")
        later = "" if since is None else "t.created_at >= :since"
        return self._newest(scope, later, limit, since=moment)

    def mentioning(
        self, scope: Scope | None, mention: str, *, limit: int = 20
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces that mention this memory, shared text or message."""
        written = json.dumps(require_text(mention, "mention"), ensure_ascii=False)
        return self._newest(scope, "{mentions}", limit, mention=mention, written=written)

    def shared(self, ids: Collection[str], /) -> Mapping[str, SnapshotRecord]:
        """The shared texts with these ids that are there."""
        return {one.id: one for one in self._read({"id": list(ids)})}

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

        def apply(write: TableWriter) -> int:
            found = write.ask(
                f"snapshot, id, owner, created_at, mentions, length(CAST(data AS {write.blob}))",
                SNAPSHOTS,
                order="created_at DESC, snapshot DESC",
            )
            rows = [
                Kept(key, name, owner, at, frozenset(mentioned(named)), size + len(str(named)))
                for key, name, owner, at, named, size in found
            ]
            gone = too_old(rows, keep=keep, before=moment, most_bytes=most_bytes)
            write.remove(SNAPSHOTS, {"snapshot": [row.key for row in gone]})
            return sum(not row.is_text for row in gone)

        return self._tables.write(apply)

    def _newest(
        self, scope: Scope | None, where: str, limit: int, **values: Any
    ) -> tuple[SnapshotRecord, ...]:
        most = require_count(limit, "limit")

        def apply(read: TableReader) -> tuple[SnapshotRecord, ...]:
            told = f"{_LISTED} AND {where.format(mentions=read.mentions)}" if where else _LISTED
            found = newest(read, SNAPSHOTS, seen_by(scope), told, limit=most, last=True, **values)
            return tuple(_record(read, row) for row in found)

        return self._tables.read(apply)

    def _read(self, match: Match) -> tuple[SnapshotRecord, ...]:
        return self._tables.read(
            lambda read: tuple(_record(read, row) for row in read.find(SNAPSHOTS, match, last=True))
        )


def _values(record: SnapshotRecord) -> dict[str, Any]:
    return {
        "id": require_text(record.id, "id"),
        "created_at": to_microseconds(record.created_at, "created_at"),
        "mentions": write_json(list(record.mentions), "mentions"),
        "data": pack_data(record.data),
    }


def _record(read: TableReader, row: Row) -> SnapshotRecord:
    _, record_id, owner, created_at, mentions, data = row
    return SnapshotRecord(
        id=record_id,
        created_at=from_microseconds(created_at),
        data=json.loads(plain_data(data)),
        mentions=tuple(mentioned(mentions)),
        scope=read.owners([owner])[owner][1],
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
