"""What is kept beside the memories: settings, jobs, artifacts, links and traces."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import DuplicateRecord, RecordNotFound, StoreCorrupt
from agentmem.base.types import Scope, visible
from agentmem.prompt.snapshot import TEXT_PREFIX
from agentmem.stores.postgres.connection import PostgresDatabase, Row, Transaction, digest
from agentmem.stores.postgres.reading import by_ids, by_rows, seen_owners
from agentmem.stores.postgres.writing import intern_owner
from agentmem.stores.protocol import Change
from agentmem.stores.rules import Kept, too_old
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

# ----------------------------------------------------------------------------
# Settings.


SECRET = "secret"  # noqa: S105 - its name


class PostgresSettings:
    """`Settings` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._secret: bytes | None = None

    def get(self, name: str, /) -> str | None:
        """The value under a name, or None."""
        require_text(name, "name")
        found = self._database.read(lambda t: t.only(_VALUE, key=digest(name)))
        return str(found[0][0]) if found else None

    def set(self, name: str, value: str | None, /) -> None:
        """Keep a value; None removes it."""
        require_text(name, "name")
        if value is not None:
            require_text(value, name)
        self._database.write(lambda transaction: set_value(transaction, name, value))

    def update(self, name: str, change: Change, /) -> str | None:
        """Keep what `change` makes of the value, None for none, and give it.

        Nobody else writes between reading and writing, on any machine: what two
        learn at once is kept of both.
        """
        require_text(name, "name")

        def apply(transaction: Transaction) -> str | None:
            transaction.run(
                "SELECT pg_advisory_xact_lock(hashtextextended("
                "'agentmem setting ' || %(tenant)s || ' ' || %(name)s, 0))",
                name=name,
            )
            before = get_value(transaction, name)
            value = change(before)
            if value is not None:
                require_text(value, name)
            if value != before:
                set_value(transaction, name, value)
            return value

        return self._database.write(apply)

    def secret(self) -> bytes:
        """32 random bytes of this tenant, made when they are first asked for, never changed."""
        if self._secret is None:
            written = self.get(SECRET) or self.update(
                SECRET, lambda there: there or os.urandom(32).hex()
            )
            self._secret = bytes.fromhex(str(written))
        return self._secret


_VALUE = "SELECT value FROM settings WHERE tenant = %(tenant)s AND key = %(key)s"


def get_value(transaction: Transaction, name: str) -> str | None:
    """A setting inside a transaction."""
    found = transaction.one(_VALUE, key=digest(name))
    return None if found is None else str(found[0])


def set_value(transaction: Transaction, name: str, value: str | None) -> None:
    """Keep a setting inside a transaction; None removes it."""
    if value is None:
        transaction.run(
            "DELETE FROM settings WHERE tenant = %(tenant)s AND key = %(key)s", key=digest(name)
        )
        return
    transaction.run(
        """INSERT INTO settings (tenant, key, name, value)
        VALUES (%(tenant)s, %(key)s, %(name)s, %(value)s)
        ON CONFLICT (tenant, key) DO UPDATE SET value = excluded.value""",
        key=digest(name),
        name=name,
        value=value,
    )


# ----------------------------------------------------------------------------
# Jobs.


class PostgresJobs:
    """`Jobs` over the database. A job is waiting, or running until its lease ends, or failed."""

    def __init__(self, database: PostgresDatabase) -> None:
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
        job = NewJob(kind=kind, payload=payload, at=at, key=key, scope=scope)
        values = _job_values(job)
        return self._database.write(lambda transaction: _add_job(transaction, job, values))

    def keep(self, jobs: Sequence[NewJob], /) -> tuple[int, ...]:
        """Write many at once, each in the place of one of its key that waits; their numbers."""
        written = [(job, _job_values(job)) for job in jobs]

        def apply(transaction: Transaction) -> tuple[int, ...]:
            numbers = []
            for job, values in written:
                if values["key"] is not None:
                    transaction.run(
                        """DELETE FROM jobs WHERE tenant = %(tenant)s AND state = 'waiting'
                        AND key = %(key)s AND owner = %(owner)s""",
                        key=values["key"],
                        owner=intern_owner(transaction, ("private", job.scope)),
                    )
                numbers.append(_add_job(transaction, job, values))
            return tuple(numbers)

        return self._database.write(apply)

    def claim(
        self, *, at: datetime, lease_seconds: float = 60, kinds: Collection[str] | None = None
    ) -> Job | None:
        """The oldest job that is ready, given to nobody else until its lease ends."""
        require_number(lease_seconds, "lease_seconds", low=0)
        moment = to_microseconds(at, "at")
        until = to_microseconds(at + timedelta(seconds=lease_seconds), "lease_seconds")
        only = "" if kinds is None else "AND kind = ANY(%(kinds)s)"
        found = self._database.write(
            lambda transaction: transaction.one(
                # Materialized: inside a join the choice might be made once a row.
                f"""WITH next AS MATERIALIZED (
                    SELECT job FROM jobs WHERE tenant = %(tenant)s
                    AND state IN ('waiting', 'running') AND ready_at <= %(at)s {only}
                    ORDER BY ready_at, job LIMIT 1 FOR UPDATE SKIP LOCKED)
                UPDATE jobs AS j
                SET state = 'running', attempts = j.attempts + 1, ready_at = %(until)s
                FROM next WHERE j.tenant = %(tenant)s AND j.job = next.job
                RETURNING j.job, j.kind, j.payload, j.attempts, j.error""",  # noqa: S608 # our own names
                at=moment,
                until=until,
                kinds=list(kinds or ()),
            )
        )
        return None if found is None else _job(found)

    def done(self, job_id: int, /) -> None:
        """Forget a finished job; one that is gone already is fine."""
        require_count(job_id, "job_id")
        self._database.write(
            lambda transaction: transaction.run(
                "DELETE FROM jobs WHERE tenant = %(tenant)s AND job = %(job)s", job=job_id
            )
        )

    def fail(self, job_id: int, error: str, *, retry_at: datetime | None) -> None:
        """Note a failure; the job waits until `retry_at`, or stays failed without one."""
        require_text(error, "error")
        ready = None if retry_at is None else to_microseconds(retry_at, "retry_at")
        # One of the same key may wait by now: this one then goes on without its key.
        again = """state = 'waiting', ready_at = %(ready)s, key = CASE WHEN EXISTS (
            SELECT 1 FROM jobs AS o WHERE o.tenant = %(tenant)s AND o.owner = j.owner
            AND o.key = j.key AND o.state = 'waiting' AND o.job <> j.job) THEN NULL ELSE j.key END
            """
        self._database.write(
            lambda transaction: transaction.run(
                f"""UPDATE jobs AS j SET error = %(error)s,
                {"state = 'failed'" if ready is None else again}
                WHERE j.tenant = %(tenant)s AND j.job = %(job)s""",  # noqa: S608 # our own names
                job=job_id,
                error=error,
                ready=ready,
            )
        )

    def failed(self, *, limit: int = 5) -> tuple[Job, ...]:
        """The newest jobs that failed for good, with why, newest first."""
        found = self._database.read(
            lambda transaction: transaction.all(
                """SELECT job, kind, payload, attempts, error FROM jobs
                WHERE tenant = %(tenant)s AND state = 'failed' ORDER BY job DESC LIMIT %(limit)s""",
                limit=require_count(limit, "limit"),
            )
        )
        return tuple(map(_job, found))

    def counts(self) -> Mapping[str, int]:
        """How many jobs are waiting, running and failed."""
        return self._database.read(job_counts)


def _job_values(job: NewJob) -> dict[str, Any]:
    require_text(job.kind, "kind")
    return {
        "kind": job.kind,
        "dedupe": require_text(job.key, "key"),
        "key": digest(job.kind, job.key) if job.key else None,
        "payload": write_json(job.payload, "payload"),
        "at": to_microseconds(job.at, "at"),
    }


def _add_job(transaction: Transaction, job: NewJob, values: dict[str, Any]) -> int:
    owner = intern_owner(transaction, ("private", job.scope))
    while True:
        found = transaction.one(
            """INSERT INTO jobs (tenant, owner, kind, dedupe, key, payload, state, attempts,
                ready_at, error, created_at)
            VALUES (%(tenant)s, %(owner)s, %(kind)s, %(dedupe)s, %(key)s, %(payload)s, 'waiting',
                0, %(at)s, '', %(at)s)
            ON CONFLICT (tenant, owner, key) WHERE state = 'waiting' AND key IS NOT NULL
            DO NOTHING RETURNING job""",
            owner=owner,
            **values,
        ) or transaction.one(
            """SELECT job FROM jobs WHERE tenant = %(tenant)s AND owner = %(owner)s
            AND key = %(key)s AND state = 'waiting'""",
            owner=owner,
            key=values["key"],
        )
        if found is not None:
            return int(found[0])


def job_counts(transaction: Transaction, owners: Collection[int] | None = None) -> dict[str, int]:
    """How many jobs of these owners, or of all, are waiting, running and failed."""
    counts = {"waiting": 0, "running": 0, "failed": 0}
    only = "" if owners is None else "AND owner = ANY(%(owners)s)"
    found = transaction.all(
        f"SELECT state, count(*) FROM jobs WHERE tenant = %(tenant)s {only} GROUP BY state",  # noqa: S608 # our own names
        owners=list(owners or ()),
    )
    return counts | dict(found)


def _job(row: Row) -> Job:
    job, kind, payload, attempts, error = row
    return Job(id=job, kind=kind, payload=json.loads(payload), attempts=attempts, error=error)


# ----------------------------------------------------------------------------
# Artifacts.


_SCOPE = "o.user_id, o.project_id, o.agent_id, o.run_id"
_OWNED = "JOIN owners AS o ON o.tenant = %(tenant)s AND o.owner = t.owner"


def scope_of(values: Sequence[str | None]) -> Scope:
    user, project, agent, run = values
    return Scope(user_id=user, project_id=project, agent_id=agent, run_id=run)


class PostgresArtifacts:
    """`Artifacts` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def put(self, artifact: Artifact, /) -> None:
        """Keep bytes under an id."""
        self._database.write(lambda transaction: add_artifact(transaction, artifact))

    def get(self, scope: Scope, artifact_id: str, /) -> Artifact:
        """Exactly the bytes that were put."""
        found = self._database.read(
            lambda transaction: _artifacts(
                transaction, scope, "AND t.key = %(key)s", key=digest(artifact_id)
            )
        )
        if not found:
            raise RecordNotFound(artifact_id)
        return found[0]

    def list(self, scope: Scope, *, limit: int = 100) -> tuple[Artifact, ...]:
        """The newest artifacts, newest first."""
        count = require_count(limit, "limit")
        return self._database.read(
            lambda transaction: _artifacts(
                transaction,
                scope,
                "ORDER BY t.created_at DESC, t.artifact DESC LIMIT %(limit)s",
                limit=count,
            )
        )

    def remove(self, scope: Scope, artifact_id: str, /) -> None:
        """Remove an artifact."""
        gone = self._database.write(
            lambda transaction: remove_artifacts(transaction, scope, [artifact_id])
        )
        if not gone:
            raise RecordNotFound(artifact_id)


def add_artifact(transaction: Transaction, artifact: Artifact) -> None:
    """Keep bytes inside a transaction."""
    values = {
        "key": digest(require_text(artifact.id, "id")),
        "id": artifact.id,
        "at": to_microseconds(artifact.created_at, "created_at"),
        "media_type": require_text(artifact.media_type, "media_type"),
        "metadata": write_json(artifact.metadata, "metadata"),
        "data": bytes(artifact.data),
    }
    new = transaction.run(
        """INSERT INTO artifacts (tenant, key, id, owner, created_at, media_type, metadata, data)
        VALUES (%(tenant)s, %(key)s, %(id)s, %(owner)s, %(at)s, %(media_type)s, %(metadata)s,
            %(data)s) ON CONFLICT (tenant, key) DO NOTHING""",
        owner=intern_owner(transaction, ("private", artifact.scope)),
        **values,
    )
    if not new:
        raise DuplicateRecord(artifact.id)


def remove_artifacts(transaction: Transaction, scope: Scope, ids: Collection[str]) -> int:
    """Remove those of `ids` that are there and the reader's, inside a transaction."""
    seen = seen_owners(scope)
    return transaction.run(
        "DELETE FROM artifacts WHERE tenant = %(tenant)s AND key = ANY(%(keys)s) "  # noqa: S608 # our own names
        f"AND owner = ANY({seen.sql})",
        keys=[digest(one) for one in ids],
        **seen.values,
    )


def _artifacts(
    transaction: Transaction, scope: Scope, condition: str, **values: Any
) -> tuple[Artifact, ...]:
    seen = seen_owners(scope)
    found = transaction.only(
        f"""SELECT t.id, t.created_at, t.media_type, t.metadata, t.data, {_SCOPE}
        FROM artifacts AS t {_OWNED}
        WHERE t.tenant = %(tenant)s AND t.owner = ANY({seen.sql}) {condition}""",  # noqa: S608 # our own names
        **seen.values,
        **values,
    )
    return tuple(
        Artifact(
            id=record_id,
            created_at=from_microseconds(created),
            media_type=media_type,
            metadata=json.loads(metadata),
            data=bytes(data),
            scope=scope_of(whose),
        )
        for record_id, created, media_type, metadata, data, *whose in found
    )


# ----------------------------------------------------------------------------
# Links.


class PostgresLinks:
    """`Links` over the database; contradictions are a family of their own."""

    def __init__(self, database: PostgresDatabase, *, family: str) -> None:
        self._database = database
        self._family = family

    def put(self, scope: Scope, link: Link, /) -> None:
        """Keep a relation between two memories the reader can see; again changes nothing."""
        require_text(link.relation, "relation")
        require_text(link.note, "note")
        to_microseconds(link.created_at, "created_at")

        def apply(transaction: Transaction) -> None:
            insert_link(transaction, self._family, self._ends(transaction, scope, link), link)

        self._database.write(apply)

    def of(self, scope: Scope, memory_id: str, /) -> tuple[Link, ...]:
        """The relations of one memory."""

        def apply(transaction: Transaction) -> tuple[Link, ...]:
            one = by_ids(transaction, [memory_id]).get(memory_id)
            if one is None or not visible(one.memory, scope):
                raise RecordNotFound(memory_id)
            where = "AND (first = %(row)s OR second = %(row)s)"
            return self._seen(transaction, scope, where, row=one.row)

        return self._database.read(apply)

    def among(self, scope: Scope, memory_ids: Collection[str], /) -> tuple[Link, ...]:
        """The relations between two of these memories, oldest first; no others are looked at."""

        def apply(transaction: Transaction) -> tuple[Link, ...]:
            rows = [one.row for one in by_ids(transaction, memory_ids).values()]
            where = "AND first = ANY(%(rows)s) AND second = ANY(%(rows)s)"
            return self._seen(transaction, scope, where, rows=rows)

        return self._database.read(apply)

    def all(self, scope: Scope, *, open_only: bool = False) -> tuple[Link, ...]:
        """Every relation whose both ends the reader sees, oldest first."""
        only = "AND settled_at IS NULL" if open_only else ""

        def apply(transaction: Transaction) -> tuple[Link, ...]:
            seen = seen_owners(scope)
            where = f"""{only} AND EXISTS (SELECT 1 FROM memories AS m WHERE
                m.tenant = %(tenant)s AND m.row = first AND m.owner = ANY({seen.sql}))"""  # noqa: S608 # our own names
            return self._seen(transaction, scope, where, **seen.values)

        return self._database.read(apply)

    def settle(self, scope: Scope, link: Link, *, at: datetime, note: str = "") -> None:
        """Mark a relation as settled at `at`."""
        require_text(note, "note")
        moment = to_microseconds(at, "at")

        def apply(transaction: Transaction) -> None:
            key = self._require(transaction, scope, link)
            change_link(transaction, key, note, moment)

        self._database.write(apply)

    def remove(self, scope: Scope, link: Link, /) -> None:
        """Remove a relation."""

        def apply(transaction: Transaction) -> None:
            remove_link(transaction, self._require(transaction, scope, link))

        self._database.write(apply)

    def _require(self, transaction: Transaction, scope: Scope, link: Link) -> int:
        ends = self._ends(transaction, scope, link)
        found = find_link(transaction, self._family, ends, link.relation)
        if found is None:
            raise RecordNotFound(f"{link.first_id}→{link.second_id}")
        return int(found[0])

    def _ends(self, transaction: Transaction, scope: Scope, link: Link) -> tuple[int, int]:
        found = by_ids(transaction, [link.first_id, link.second_id])
        for memory_id in (link.first_id, link.second_id):
            if memory_id not in found or not visible(found[memory_id].memory, scope):
                raise RecordNotFound(memory_id)
        return found[link.first_id].row, found[link.second_id].row

    def _seen(
        self, transaction: Transaction, scope: Scope, condition: str, **values: Any
    ) -> tuple[Link, ...]:
        found = transaction.all(
            "SELECT first, second, relation, created_at, note, settled_at FROM links "  # noqa: S608 # our own names
            f"WHERE tenant = %(tenant)s AND family = %(family)s {condition} ORDER BY link",
            family=self._family,
            **values,
        )
        ends = by_rows(transaction, {end for row in found for end in row[:2]}, reader=scope)
        return tuple(
            Link(
                first_id=ends[first].memory.id,
                second_id=ends[second].memory.id,
                relation=relation,
                created_at=from_microseconds(created),
                note=note,
                settled_at=None if settled is None else from_microseconds(settled),
            )
            for first, second, relation, created, note, settled in found
            if first in ends and second in ends
        )


def find_link(
    transaction: Transaction, family: str, ends: tuple[int, int], relation: str
) -> Row | None:
    """The number, note and moment of settling of a relation, held until the end; or None."""
    return transaction.one(
        """SELECT link, note, settled_at FROM links WHERE tenant = %(tenant)s
        AND family = %(family)s AND first = %(first)s AND second = %(second)s AND key = %(key)s
        FOR UPDATE""",
        family=family,
        first=ends[0],
        second=ends[1],
        key=digest(relation),
    )


def insert_link(transaction: Transaction, family: str, ends: tuple[int, int], link: Link) -> None:
    """Keep a relation inside a transaction, unless it is there."""
    settled = link.settled_at
    transaction.run(
        """INSERT INTO links
            (tenant, family, first, second, key, relation, created_at, note, settled_at)
        VALUES (%(tenant)s, %(family)s, %(first)s, %(second)s, %(key)s, %(relation)s, %(at)s,
            %(note)s, %(settled)s)
        ON CONFLICT (tenant, family, first, second, key) DO NOTHING""",
        family=family,
        first=ends[0],
        second=ends[1],
        key=digest(require_text(link.relation, "relation")),
        relation=link.relation,
        at=to_microseconds(link.created_at, "created_at"),
        note=require_text(link.note, "note"),
        settled=None if settled is None else to_microseconds(settled, "settled_at"),
    )


def change_link(transaction: Transaction, key: int, note: str, settled: int | None) -> None:
    """Write what of a relation can change."""
    transaction.run(
        "UPDATE links SET note = %(note)s, settled_at = %(settled)s "
        "WHERE tenant = %(tenant)s AND link = %(link)s",
        note=note,
        settled=settled,
        link=key,
    )


def remove_link(transaction: Transaction, key: int) -> None:
    transaction.run("DELETE FROM links WHERE tenant = %(tenant)s AND link = %(link)s", link=key)


# ----------------------------------------------------------------------------
# Traces of built contexts, compressed, with the texts they share.


class PostgresSnapshots:
    """`Snapshots` over the database."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def put(self, snapshot: SnapshotRecord, /, *, shared: Sequence[SnapshotRecord] = ()) -> None:
        """Keep a trace, and those of its shared texts that are not there yet."""
        written = [(record, _snapshot_values(record)) for record in (snapshot, *shared)]

        def apply(transaction: Transaction) -> None:
            for record, values in written:
                new = transaction.run(
                    """INSERT INTO snapshots
                        (tenant, key, id, owner, created_at, mentions, data, is_text)
                    VALUES (%(tenant)s, %(key)s, %(id)s, %(owner)s, %(at)s, %(mentions)s::text[],
                        %(data)s, %(is_text)s) ON CONFLICT (tenant, key) DO NOTHING""",
                    owner=intern_owner(transaction, ("private", record.scope)),
                    **values,
                )
                if not new and record is snapshot:
                    raise DuplicateRecord(snapshot.id)

        self._database.write(apply)

    def replace(self, snapshot: SnapshotRecord, /) -> bool:
        """Write another trace in the place of the one with this id; false when that is gone."""
        values = _snapshot_values(snapshot)
        return bool(
            self._database.write(
                lambda transaction: transaction.run(
                    "UPDATE snapshots SET mentions = %(mentions)s::text[], data = %(data)s "
                    "WHERE tenant = %(tenant)s AND key = %(key)s",
                    **values,
                )
            )
        )

    def mention(self, scope: Scope, snapshot_id: str, mentions: Collection[str], /) -> bool:
        """Let a trace mention more than it does; false when it is gone, or not this reader's."""
        require_text(snapshot_id, "snapshot_id")
        seen = seen_owners(scope)
        return bool(
            self._database.write(
                lambda transaction: transaction.run(
                    f"""UPDATE snapshots SET mentions = mentions || ARRAY(
                        SELECT more FROM unnest(%(more)s::text[]) WITH ORDINALITY AS m (more, at)
                        WHERE more <> ALL(mentions) ORDER BY at)
                    WHERE tenant = %(tenant)s AND key = %(key)s
                        AND owner = ANY({seen.sql})""",  # noqa: S608 # our own names
                    key=digest(snapshot_id),
                    more=list(dict.fromkeys(mentions)),
                    **seen.values,
                )
            )
        )

    def get(self, scope: Scope | None, snapshot_id: str, /) -> SnapshotRecord:
        """The trace with this id."""
        require_text(snapshot_id, "snapshot_id")
        found = self._find(scope, "AND t.key = %(key)s", key=digest(snapshot_id))
        if not found:
            raise RecordNotFound(snapshot_id)
        return found[0]

    def list(
        self, scope: Scope | None, *, limit: int = 20, since: datetime | None = None
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces, newest first; with `since`, those from that moment on."""
        only = "" if since is None else "AND t.created_at >= %(since)s"
        moment = None if since is None else to_microseconds(since, "since")
        return self._newest(scope, only, limit, since=moment)

    def mentioning(
        self, scope: Scope | None, mention: str, *, limit: int = 20
    ) -> tuple[SnapshotRecord, ...]:
        """The newest traces that mention this memory, shared text or message."""
        require_text(mention, "mention")
        return self._newest(scope, "AND %(mention)s = ANY(t.mentions)", limit, mention=mention)

    def shared(self, ids: Collection[str], /) -> Mapping[str, SnapshotRecord]:
        """The shared texts with these ids that are there."""
        keys = [digest(text_id) for text_id in ids]
        return {one.id: one for one in self._find(None, "AND t.key = ANY(%(keys)s)", keys=keys)}

    def prune(
        self,
        *,
        keep: int | None = None,
        before: datetime | None = None,
        most_bytes: int | None = None,
    ) -> int:
        """Remove the oldest traces until all limits are met, and texts nothing mentions.

        `keep` counts for each owner, `before` and `most_bytes` for the tenant.
        Gives how many traces went.
        """
        moment = None if before is None else to_microseconds(before, "before")

        def apply(transaction: Transaction) -> int:
            found = transaction.all(
                "SELECT snapshot, id, owner, created_at, mentions, length(data) FROM snapshots "
                "WHERE tenant = %(tenant)s ORDER BY created_at DESC, snapshot DESC"
            )
            rows = [
                Kept(
                    key=key, id=record_id, owner=owner, moment=created,
                    mentions=frozenset(mentions), bytes=size + len("".join(mentions)),
                )
                for key, record_id, owner, created, mentions, size in found
            ]  # fmt: skip
            gone = too_old(rows, keep=keep, before=moment, most_bytes=most_bytes)
            transaction.run(
                "DELETE FROM snapshots WHERE tenant = %(tenant)s AND snapshot = ANY(%(keys)s)",
                keys=[row.key for row in gone],
            )
            return sum(not row.is_text for row in gone)

        return self._database.write(apply)

    def _newest(
        self, scope: Scope | None, condition: str, limit: int, **values: Any
    ) -> tuple[SnapshotRecord, ...]:
        order = "ORDER BY t.created_at DESC, t.snapshot DESC LIMIT %(limit)s"
        return self._find(
            scope,
            f"AND NOT t.is_text {condition} {order}",
            limit=require_count(limit, "limit"),
            **values,
        )

    def _find(
        self, scope: Scope | None, condition: str, **values: Any
    ) -> tuple[SnapshotRecord, ...]:
        def apply(transaction: Transaction) -> list[Row]:
            seen = seen_owners(NO_SCOPE if scope is None else scope)
            whose = "" if scope is None else f"AND t.owner = ANY({seen.sql})"
            return transaction.only(
                f"""SELECT t.id, t.created_at, t.mentions, t.data, {_SCOPE}
                FROM snapshots AS t {_OWNED}
                WHERE t.tenant = %(tenant)s {whose} {condition}""",  # noqa: S608 # our own names
                **seen.values,
                **values,
            )

        return tuple(
            SnapshotRecord(
                id=record_id,
                created_at=from_microseconds(created),
                data=json.loads(unpacked(data)),
                mentions=tuple(mentions),
                scope=scope_of(whose),
            )
            for record_id, created, mentions, data, *whose in self._database.read(apply)
        )


def packed(data: Mapping[str, Any]) -> bytes:
    """The data of a trace as it is stored."""
    return zlib.compress(write_json(data, "data").encode("utf-8"), 1)


def unpacked(stored: bytes) -> str:
    """The JSON that `packed` wrote."""
    try:
        return zlib.decompress(stored).decode("utf-8")
    except (zlib.error, UnicodeDecodeError):
        raise StoreCorrupt(
            "A snapshot cannot be unpacked.", remedy="Run `agentmem doctor`."
        ) from None


def _snapshot_values(record: SnapshotRecord) -> dict[str, Any]:
    require_text(record.id, "id")
    write_json(list(record.mentions), "mentions")
    return {
        "key": digest(record.id),
        "id": record.id,
        "at": to_microseconds(record.created_at, "created_at"),
        "mentions": list(record.mentions),
        "data": packed(record.data),
        "is_text": record.id.startswith(TEXT_PREFIX),
    }
