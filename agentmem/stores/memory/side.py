"""Settings, jobs, snapshots, artifacts and links in dictionaries."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.scope import visible
from agentmem.errors import (
    DuplicateRecord,
    RecordNotFound,
)
from agentmem.stores.entries import write_json
from agentmem.stores.memory.state import State, job_counts, may_see
from agentmem.stores.values import (
    NO_SCOPE,
    Artifact,
    Job,
    Link,
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

    def counts(self) -> Mapping[str, int]:
        with self._state as state:
            return job_counts(state, None)


class MemorySnapshots:
    """`Snapshots` over a dictionary."""

    def __init__(self, state: State) -> None:
        self._state = state

    def put(self, snapshot: SnapshotRecord, /) -> None:
        data = json.loads(write_json(snapshot.data, "data"))
        with self._state as state:
            if require_text(snapshot.id, "id") in state.snapshots:
                raise DuplicateRecord(snapshot.id)
            state.snapshots[snapshot.id] = replace(snapshot, data=data)

    def get(self, scope: Scope, snapshot_id: str, /) -> SnapshotRecord:
        with self._state as state:
            found = state.snapshots.get(snapshot_id)
            if found is None or not may_see("private", found.scope, scope):
                raise RecordNotFound(snapshot_id)
            return found

    def list(self, scope: Scope, *, limit: int = 20) -> tuple[SnapshotRecord, ...]:
        with self._state as state:
            seen = [s for s in state.snapshots.values() if may_see("private", s.scope, scope)]
        seen.sort(key=lambda s: s.created_at)
        return tuple(seen[::-1][: require_count(limit, "limit")])

    def prune(self, *, keep: int) -> int:
        require_count(keep, "keep")
        with self._state as state:
            gone = []
            for scope in {s.scope for s in state.snapshots.values()}:
                own = [s for s in reversed(state.snapshots.values()) if s.scope == scope]
                own.sort(key=lambda s: s.created_at, reverse=True)
                gone += own[keep:]
            for snapshot in gone:
                del state.snapshots[snapshot.id]
            return len(gone)


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
