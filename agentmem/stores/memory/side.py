"""Settings, jobs, snapshots, artifacts and links in dictionaries."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.scope import visible
from agentmem.core.snapshot_codec import TEXT_PREFIX
from agentmem.errors import (
    DuplicateRecord,
    RecordNotFound,
)
from agentmem.stores.entries import write_json
from agentmem.stores.memory.state import State, job_counts, may_see
from agentmem.stores.retention import Kept, too_old
from agentmem.stores.values import (
    NO_SCOPE,
    Artifact,
    Job,
    Link,
    NewJob,
    SnapshotRecord,
)
from agentmem.types import Scope

if TYPE_CHECKING:
    pass


class MemorySettings:
    """`Settings` over a dictionary."""

    def __init__(self, state: State, secret: bytes) -> None:
        self._state = state
        state.settings["secret"] = secret.hex()

    def get(self, name: str, /) -> str | None:
        with self._state as state:
            return state.settings.get(require_text(name, "name"))

    def set(self, name: str, value: str | None, /) -> None:
        require_text(name, "name")
        with self._state as state:
            if value is None:
                state.settings.pop(name, None)
            else:
                state.settings[name] = require_text(value, name)

    def secret(self) -> bytes:
        return bytes.fromhex(self.get("secret") or "")


class MemoryJobs:
    """`Jobs` over a dictionary."""

    def __init__(self, state: State) -> None:
        self._state = state

    def enqueue(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        at: datetime,
        key: str = "",
        scope: Scope = NO_SCOPE,
    ) -> int:
        written = json.loads(write_json(payload, "payload"))
        require_text(kind, "kind")
        with self._state as state:
            for job, state_name, known, _, owner in state.jobs.values():
                same = (job.kind, known, state_name, owner) == (kind, key, "waiting", scope)
                if require_text(key, "key") and same:
                    return job.id
            state.last_job += 1
            new = Job(id=state.last_job, kind=kind, payload=written, attempts=0)
            state.jobs[new.id] = (new, "waiting", key, at, scope)
            return new.id

    def keep(self, jobs: Sequence[NewJob], /) -> tuple[int, ...]:
        written = [(job, json.loads(write_json(job.payload, "payload"))) for job in jobs]
        numbers: list[int] = []
        with self._state as state:
            for job, payload in written:
                for number, (old, name, key, _, owner) in tuple(state.jobs.items()):
                    same = (old.kind, key, name, owner) == (job.kind, job.key, "waiting", job.scope)
                    if require_text(job.key, "key") and same:
                        del state.jobs[number]
                state.last_job += 1
                kind = require_text(job.kind, "kind")
                new = Job(id=state.last_job, kind=kind, payload=payload, attempts=0)
                state.jobs[new.id] = (new, "waiting", job.key, job.at, job.scope)
                numbers.append(new.id)
        return tuple(numbers)

    def claim(
        self, *, at: datetime, lease_seconds: float = 60, kinds: Collection[str] | None = None
    ) -> Job | None:
        require_number(lease_seconds, "lease_seconds", low=0)
        with self._state as state:
            ready = [
                (moment, job.id)
                for job, name, _, moment, _ in state.jobs.values()
                if name != "failed" and moment <= at and (kinds is None or job.kind in kinds)
            ]
            if not ready:
                return None
            _, number = min(ready)
            job, _, key, _, scope = state.jobs[number]
            job = replace(job, attempts=job.attempts + 1)
            until = at + timedelta(seconds=lease_seconds)
            state.jobs[number] = (job, "running", key, until, scope)
            return job

    def done(self, job_id: int, /) -> None:
        with self._state as state:
            state.jobs.pop(require_count(job_id, "job_id"), None)

    def fail(self, job_id: int, error: str, *, retry_at: datetime | None) -> None:
        require_text(error, "error")
        with self._state as state:
            if job_id in state.jobs:
                job, _, key, moment, scope = state.jobs[job_id]
                name = "failed" if retry_at is None else "waiting"
                new = replace(job, error=error)
                state.jobs[job_id] = (new, name, key, retry_at or moment, scope)

    def failed(self, *, limit: int = 5) -> tuple[Job, ...]:
        with self._state as state:
            found = [job for job, name, *_ in state.jobs.values() if name == "failed"]
        newest = sorted(found, key=lambda job: -job.id)
        return tuple(newest[: require_count(limit, "limit")])

    def counts(self) -> Mapping[str, int]:
        with self._state as state:
            return job_counts(state, None)


class MemorySnapshots:
    """`Snapshots` over a dictionary."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, snapshot: SnapshotRecord, /, *, shared: Sequence[SnapshotRecord] = ()) -> None:
        records = [
            replace(record, data=json.loads(write_json(record.data, "data")))
            for record in (snapshot, *shared)
        ]
        with self._state as state:
            if require_text(snapshot.id, "id") in state.snapshots:
                raise DuplicateRecord(snapshot.id)
            for record in records:
                state.snapshots.setdefault(record.id, record)

    def replace(self, snapshot: SnapshotRecord, /) -> bool:
        data = json.loads(write_json(snapshot.data, "data"))
        with self._state as state:
            found = state.snapshots.get(snapshot.id)
            if found is None:
                return False
            state.snapshots[snapshot.id] = replace(found, data=data, mentions=snapshot.mentions)
            return True

    def get(self, scope: Scope | None, snapshot_id: str, /) -> SnapshotRecord:
        require_text(snapshot_id, "snapshot_id")
        with self._state as state:
            found = state.snapshots.get(snapshot_id)
            if found is None or not _may_read(found, scope):
                raise RecordNotFound(snapshot_id)
            return found

    def list(
        self, scope: Scope | None, *, limit: int = 20, since: datetime | None = None
    ) -> tuple[SnapshotRecord, ...]:
        seen = [s for s in self._newest(scope) if since is None or s.created_at >= since]
        return tuple(seen[: require_count(limit, "limit")])

    def mentioning(
        self, scope: Scope | None, mention: str, *, limit: int = 20
    ) -> tuple[SnapshotRecord, ...]:
        require_text(mention, "mention")
        seen = [s for s in self._newest(scope) if mention in s.mentions]
        return tuple(seen[: require_count(limit, "limit")])

    def shared(self, ids: Collection[str], /) -> Mapping[str, SnapshotRecord]:
        with self._state as state:
            return {i: state.snapshots[i] for i in ids if i in state.snapshots}

    def prune(
        self,
        *,
        keep: int | None = None,
        before: datetime | None = None,
        most_bytes: int | None = None,
    ) -> int:
        with self._state as state:
            newest = sorted(state.snapshots.values(), key=_moment)[::-1]
            rows = [
                Kept(
                    key=record.id, id=record.id, owner=record.scope, moment=record.created_at,
                    mentions=frozenset(record.mentions), bytes=len(json.dumps(dict(record.data))),
                )
                for record in newest
            ]  # fmt: skip
            gone = too_old(rows, keep=keep, before=before, most_bytes=most_bytes)
            for row in gone:
                del state.snapshots[row.key]
            return sum(not row.is_text for row in gone)

    def _newest(self, scope: Scope | None) -> Sequence[SnapshotRecord]:
        with self._state as state:
            seen = [
                record
                for record in state.snapshots.values()
                if not record.id.startswith(TEXT_PREFIX) and _may_read(record, scope)
            ]
        return sorted(seen, key=_moment)[::-1]


def _may_read(record: SnapshotRecord, scope: Scope | None) -> bool:
    return scope is None or may_see("private", record.scope, scope)


def _moment(record: SnapshotRecord) -> datetime:
    return record.created_at


class MemoryArtifacts:
    """`Artifacts` over a dictionary."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, artifact: Artifact, /) -> None:
        metadata = json.loads(write_json(artifact.metadata, "metadata"))
        with self._state as state:
            if require_text(artifact.id, "id") in state.artifacts:
                raise DuplicateRecord(artifact.id)
            state.artifacts[artifact.id] = replace(artifact, metadata=metadata)

    def get(self, scope: Scope, artifact_id: str, /) -> Artifact:
        with self._state as state:
            found = state.artifacts.get(artifact_id)
            if found is None or not may_see("private", found.scope, scope):
                raise RecordNotFound(artifact_id)
            return found

    def list(self, scope: Scope, *, limit: int = 100) -> tuple[Artifact, ...]:
        with self._state as state:
            seen = [a for a in state.artifacts.values() if may_see("private", a.scope, scope)]
        seen.sort(key=lambda a: a.created_at)
        return tuple(seen[::-1][: require_count(limit, "limit")])

    def remove(self, scope: Scope, artifact_id: str, /) -> None:
        self.get(scope, artifact_id)
        with self._state as state:
            state.artifacts.pop(artifact_id, None)


class MemoryLinks:
    """`Links` over a dictionary."""

    def __init__(self, state: State, *, family: str) -> None:
        self._state = state
        self._family = family

    def put(self, scope: Scope, link: Link, /) -> None:
        require_text(link.relation, "relation")
        require_text(link.note, "note")
        with self._state as state:
            state.links.setdefault(self._key(state, scope, link), link)

    def of(self, scope: Scope, memory_id: str, /) -> tuple[Link, ...]:
        with self._state as state:
            row = state.row_of.get(memory_id)
            if row is None or not visible(state.entries[row].memory, scope):
                raise RecordNotFound(memory_id)
            return tuple(k for k in self._seen(scope) if memory_id in (k.first_id, k.second_id))

    def among(self, scope: Scope, memory_ids: Collection[str], /) -> tuple[Link, ...]:
        wanted = set(memory_ids)
        return tuple(k for k in self._seen(scope) if {k.first_id, k.second_id} <= wanted)

    def all(self, scope: Scope, *, open_only: bool = False) -> tuple[Link, ...]:
        return tuple(k for k in self._seen(scope) if k.settled_at is None or not open_only)

    def settle(self, scope: Scope, link: Link, *, at: datetime, note: str = "") -> None:
        with self._state as state:
            key = self._require(state, scope, link)
            state.links[key] = replace(
                state.links[key], settled_at=at, note=require_text(note, "note")
            )

    def remove(self, scope: Scope, link: Link, /) -> None:
        with self._state as state:
            del state.links[self._require(state, scope, link)]

    def _require(self, state: State, scope: Scope, link: Link) -> tuple[str, int, int, str]:
        key = self._key(state, scope, link)
        if key not in state.links:
            raise RecordNotFound(f"{link.first_id}→{link.second_id}")
        return key

    def _key(self, state: State, scope: Scope, link: Link) -> tuple[str, int, int, str]:
        for memory_id in (link.first_id, link.second_id):
            row = state.row_of.get(memory_id)
            if row is None or not visible(state.entries[row].memory, scope):
                raise RecordNotFound(memory_id)
        first, second = state.row_of[link.first_id], state.row_of[link.second_id]
        return self._family, first, second, link.relation

    def _seen(self, scope: Scope) -> list[Link]:
        with self._state as state:
            return [
                link
                for (family, first, second, _), link in state.links.items()
                if family == self._family
                and visible(state.entries[first].memory, scope)
                and visible(state.entries[second].memory, scope)
            ]
