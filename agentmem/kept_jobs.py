"""Jobs that wait in the store, where they outlive the process."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from agentmem.core.waiting import Entry, from_stored, to_stored
from agentmem.errors import AgentMemError
from agentmem.stores.base import Store
from agentmem.stores.values import NewJob

LEASE_SECONDS = 600.0
"""How long a job is left alone after somebody took it; a dead process's jobs are free then."""
TROUBLE = (AgentMemError, OSError, KeyError, TypeError, ValueError, RecursionError)
"""What a store or a payload that is not JSON may raise."""


class KeptJobs:
    """The store's job table, in entries of a worker."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.any_left = False
        self._asked = False

    def claim(self, now: datetime, kinds: Collection[str]) -> Entry | None:
        """The oldest job of these kinds that is due, for us alone until its lease ends."""
        if not self._look():
            return None  # claiming is a write, looking is not
        job = self._store.jobs.claim(at=now, lease_seconds=LEASE_SECONDS, kinds=tuple(kinds))
        if job is None:
            return None
        try:
            return from_stored(job.kind, job.payload, stored_id=job.id, claims=job.attempts, at=now)
        except TROUBLE as error:
            self._store.jobs.fail(job.id, f"It cannot be read: {error!a}", retry_at=None)
            return self.claim(now, kinds)

    def keep(self, *entries: Entry) -> tuple[int, ...]:
        """Write jobs down, each in place of an older one of its key; their numbers in the store."""
        numbers = self._store.jobs.keep(
            [
                NewJob(
                    kind=entry.kind,
                    payload=to_stored(entry),
                    at=entry.due_at or entry.submitted_at,
                    key=entry.key,
                    scope=entry.scope,
                )
                for entry in entries
            ]
        )
        self.any_left = self.any_left or bool(numbers)
        return numbers

    def replace(self, entry: Entry) -> None:
        """Remove an older job of the same key that waits; it would undo what this one did."""
        if not entry.key or not (self.any_left if self._asked else self._look()):
            return
        later = entry.submitted_at + timedelta(days=1)
        number = self._store.jobs.enqueue(
            entry.kind, {}, at=later, key=entry.key, scope=entry.scope
        )  # the number of the one that waits, if there is one
        self._store.jobs.done(number)

    def _look(self) -> bool:
        """Whether anything waits or runs in the store."""
        counts = self._store.jobs.counts()
        self.any_left = bool(counts["waiting"] or counts["running"])
        self._asked = True
        return self.any_left

    def done(self, stored_id: int) -> None:
        """A job need not be kept any longer."""
        self._store.jobs.done(stored_id)

    def fail(self, entry: Entry, error: str, again: datetime | None) -> None:
        """Note a failure; without a next try the job stays as failed, for people to see."""
        number = entry.stored_id if entry.stored_id is not None else self.keep(entry)[0]
        self._store.jobs.fail(number, error, retry_at=again)
