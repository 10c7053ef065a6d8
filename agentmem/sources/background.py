"""Work that happens beside the agent loop: one bounded queue, one thread, nothing lost.

A job is a kind, a scope, a key and a payload of JSON values (bytes and sets of
bytes may stand in it too). It waits in memory, runs on
the worker's thread, and is tried again later when it fails. What still waits
when the worker closes is kept in the store's job table, and so is what does
not fit in memory; any later worker over that store takes it up. A job may
therefore run twice (a process that died halfway), never not at all: handlers
must not mind being called again with the same payload.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import uuid
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from agentmem.base.checks import require_count, require_number, require_text
from agentmem.base.errors import (
    AgentMemError,
    FileRefused,
    FileUnreadable,
    InvalidInput,
    InvalidScope,
)
from agentmem.base.guards import retry_delay
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import Clock
from agentmem.base.types import Scope
from agentmem.stores.base import Store
from agentmem.stores.values import NO_SCOPE, NewJob
from agentmem.text.decode import sound_values
from agentmem.text.secrets import without_keys

# ----------------------------------------------------------------------------
# The jobs of a worker that wait in memory, in order, and how one is written down.
#
# Nothing here runs, sleeps or stores anything: moments come in as arguments.


PAGE, MESSAGES, SNAPSHOT = "index page", "index messages", "snapshot"
"""Kinds of jobs that are done by what a worker's memory makes only when it is needed."""
REMEMBERED_KEYS = 10_000
MOST_CHARACTERS = 100_000_000
"""What the payloads in memory may hold together, whatever their number."""

_BYTES, _SET = "bytes as hex", "set of bytes as hex"

Identity = tuple[str, Scope, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """What a worker has done and what is left.

    `queued` wait in memory, `retrying` of them for their next try; `stored`
    wait in the store because memory was full. `failed` were given up after
    their last try, `dropped` could not be taken or kept.
    """

    queued: int = 0
    running: int = 0
    retrying: int = 0
    stored: int = 0
    done: int = 0
    failed: int = 0
    dropped: int = 0
    alive: bool = False
    closed: bool = False
    last_error: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class QueuedJob:
    """One job. `number` orders it for `flush`, `serial` is that of its latest payload."""

    kind: str
    scope: Scope
    key: str
    payload: Mapping[str, Any]
    submitted_at: datetime
    number: int = 0
    serial: int = 0
    worker: str = ""
    attempts: int = 0
    due_at: datetime | None = None
    stored_id: int | None = None
    characters: int = field(default=0)

    @property
    def identity(self) -> Identity:
        """What makes it the same job; without a key every job is one of its own."""
        return (self.kind, self.scope, self.key or f"\0{self.worker}\0{self.number}")


class Waiting:
    """The queue: first in, first out, one job an identity."""

    def __init__(self, *, capacity: int, worker: str) -> None:
        self.last_number = 0
        self._capacity = capacity
        self._worker = worker
        self._entries: OrderedDict[Identity, QueuedJob] = OrderedDict()
        self._stored: dict[int, QueuedJob] = {}
        self._newest: OrderedDict[Identity, tuple[int, datetime, int]] = OrderedDict()
        self._characters = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stored(self) -> int:
        """How many jobs of this worker wait in the store."""
        return sum(map(self._is_ours, self._stored.values()))

    def add(self, entry: QueuedJob) -> bool:
        """Queue a job, or give its payload to the same job that waits; False when full."""
        entry.worker = self._worker
        entry.characters = weigh(entry.payload)
        same = self._entries.get(entry.identity) if entry.key else None
        full = len(self._entries) >= 2 * self._capacity and same is None
        before = same.characters if same is not None else 0
        if full or self._characters + entry.characters - before > MOST_CHARACTERS:
            return False
        self.last_number += 1
        entry.serial = self.last_number
        entry.number = entry.serial if same is None else same.number
        self._characters += entry.characters - before
        self._entries[entry.identity] = entry
        self._remember(entry)
        return True

    def take(self, now: datetime, kinds: Collection[str]) -> QueuedJob | None:
        """The first job that is due and of one of these kinds; it waits no longer."""
        entry = next(self._due(now, kinds), None)
        return None if entry is None else self._pop(entry)

    def take_excess(self) -> list[QueuedJob]:
        """The newest jobs, those that are over the capacity, in order."""
        over = list(islice(self._entries.values(), self._capacity, None))
        return [self._pop(entry) for entry in over]

    def take_all(self) -> list[QueuedJob]:
        """Every job, in order."""
        return [self._pop(entry) for entry in tuple(self._entries.values())]

    def put_back(self, entry: QueuedJob) -> None:
        """Let a job wait again, unless the same one was submitted anew meanwhile."""
        if entry.identity not in self._entries and not self.is_superseded(entry):
            self._entries[entry.identity] = entry
            self._characters += entry.characters

    def retry(self, entry: QueuedJob, *, attempts: int, due_at: datetime) -> None:
        """Let a job that failed wait for its next try."""
        entry.attempts = attempts
        entry.due_at = due_at
        self.put_back(entry)

    def note_stored(self, entry: QueuedJob, stored_id: int, *, due_at: datetime | None) -> None:
        """Remember that a job waits in the store."""
        entry.stored_id = stored_id
        entry.due_at = due_at
        self._stored[stored_id] = entry

    def nothing_stored(self, now: datetime, kinds: Collection[str]) -> None:
        """The store has none of these kinds that is due: somebody else has what was ours."""
        for stored_id, entry in tuple(self._stored.items()):
            if entry.kind in kinds and (entry.due_at is None or entry.due_at <= now):
                del self._stored[stored_id]

    def take_stale(self) -> list[int]:
        """Jobs in the store whose place a newer one has taken."""
        stale = [number for number, entry in self._stored.items() if self.is_superseded(entry)]
        for number in stale:
            del self._stored[number]
        return stale

    def settle(self, entry: QueuedJob) -> None:
        """A job is done or given up; an older one of the same key is not to run after it."""
        if entry.stored_id is not None:
            self._stored.pop(entry.stored_id, None)
        self._remember(entry)

    def is_superseded(self, entry: QueuedJob) -> bool:
        """Whether the same job was submitted later than this one."""
        newest = self._newest.get(entry.identity) if entry.key else None
        if newest is None:
            return False
        serial, moment, stored_id = newest
        if self._is_ours(entry):
            return serial > entry.serial
        if serial:  # of two submitted at one moment, ours is the newer
            return moment >= entry.submitted_at
        return (moment, stored_id) > (entry.submitted_at, entry.stored_id or 0)

    def unsettled(self, mark: int) -> bool:
        """Whether a job up to this number waits, here or in the store."""
        ours = (*self._entries.values(), *filter(self._is_ours, self._stored.values()))
        return any(entry.number <= mark for entry in ours)

    def has_due(self, now: datetime, kinds: Collection[str], *, mark: int | None = None) -> bool:
        """Whether a job (up to the number `mark`) could run now."""
        return any(mark is None or entry.number <= mark for entry in self._due(now, kinds))

    def stored_is_due(self, now: datetime) -> bool:
        """Whether a job in the store has waited long enough for its next try."""
        return any(e.due_at is not None and e.due_at <= now for e in self._stored.values())

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next try is, of what waits here or in the store."""
        here = (e.due_at for e in self._entries.values() if e.kind in kinds)
        moments = [*here, *(e.due_at for e in self._stored.values())]
        return min((moment for moment in moments if moment is not None), default=None)

    @property
    def has_prospects(self) -> bool:
        """Whether anything waits that time alone will make due."""
        return bool(self._entries) or any(e.due_at is not None for e in self._stored.values())

    def retrying(self, now: datetime) -> int:
        """How many wait for their next try."""
        return sum(e.due_at is not None and e.due_at > now for e in self._entries.values())

    def drop(self, scope: Scope) -> int:
        """Forget the jobs of a user, or of the project, agent or run of theirs that is named."""
        gone = [entry for entry in self._entries.values() if _inside(entry.scope, scope)]
        for entry in gone:
            self._pop(entry)
        return len(gone)

    def _due(self, now: datetime, kinds: Collection[str]) -> Iterator[QueuedJob]:
        for entry in self._entries.values():
            if entry.kind in kinds and (entry.due_at is None or entry.due_at <= now):
                yield entry

    def _is_ours(self, entry: QueuedJob) -> bool:
        return entry.worker == self._worker

    def _pop(self, entry: QueuedJob) -> QueuedJob:
        del self._entries[entry.identity]
        self._characters -= entry.characters
        return entry

    def _remember(self, entry: QueuedJob) -> None:
        if not entry.key:
            return
        serial = entry.serial if self._is_ours(entry) else 0
        this = (serial, entry.submitted_at, entry.stored_id or 0)
        self._newest[entry.identity] = max(this, self._newest.pop(entry.identity, this))
        if len(self._newest) > REMEMBERED_KEYS:
            self._newest.popitem(last=False)


def to_stored(entry: QueuedJob) -> dict[str, Any]:
    """A job as JSON values, if its payload has only those, bytes and sets of bytes."""
    scope = entry.scope
    return {
        "job": 1,
        "payload": {name: as_json(value) for name, value in entry.payload.items()},
        "scope": [scope.user_id, scope.project_id, scope.agent_id, scope.run_id],
        "key": entry.key,
        "worker": entry.worker,
        "serial": entry.serial,
        "number": entry.number,
        "attempts": entry.attempts,
        "submitted_at": entry.submitted_at.isoformat(),
    }


def from_stored(
    kind: str, written: Mapping[str, Any], *, stored_id: int, claims: int, at: datetime
) -> QueuedJob:
    """The job that `to_stored` wrote; what somebody else wrote is a payload without an owner.

    `claims` is how often the store gave it out, this time included.
    """
    if written.get("job") != 1:
        return QueuedJob(
            kind=kind, scope=Scope(), key="", payload=written, submitted_at=at,
            attempts=claims - 1, stored_id=stored_id, number=0, worker=f"stored {stored_id}",
        )  # fmt: skip
    user, project, agent, run = written["scope"]
    return QueuedJob(
        kind=kind,
        scope=Scope(user_id=user, project_id=project, agent_id=agent, run_id=run),
        key=written["key"],
        payload={name: from_json(value) for name, value in written["payload"].items()},
        submitted_at=datetime.fromisoformat(written["submitted_at"]),
        number=written["number"],
        serial=written["serial"],
        worker=written["worker"],
        attempts=written["attempts"] + claims - 1,
        stored_id=stored_id,
    )


def as_json(value: Any) -> Any:
    """A value of a payload as JSON: bytes and sets of bytes become hexadecimal digits."""
    value = value.written if isinstance(value, Lazy) else value
    if isinstance(value, bytes):
        return {_BYTES: value.hex()}
    if isinstance(value, set | frozenset) and all(isinstance(item, bytes) for item in value):
        return {_SET: sorted(item.hex() for item in value)}
    return sound_values(value)


def from_json(value: Any) -> Any:
    """The value that `as_json` wrote."""
    if isinstance(value, dict) and len(value) == 1:
        if _BYTES in value:
            return bytes.fromhex(value[_BYTES])
        if _SET in value:
            return frozenset(map(bytes.fromhex, value[_SET]))
    return value


def weigh(value: object, *, depth: int = 4) -> int:
    """About how many characters a payload holds; quick rather than exact."""
    if type(value) is str:
        return len(value)
    if isinstance(value, Lazy):
        return value.characters
    if value is None or type(value) is int:
        return 8
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, set | frozenset):
        return 8 * len(value)  # what is in it is usually shared with other payloads
    if depth and isinstance(value, Mapping):
        return sum([weigh(item, depth=depth - 1) for item in islice(value.values(), 200)])
    if depth and isinstance(value, list | tuple):
        return sum([weigh(item, depth=depth - 1) for item in value[:200]])
    return 8


def _inside(owner: Scope, scope: Scope) -> bool:
    if owner.user_id != scope.user_id:
        return False
    return all(
        getattr(scope, name) in (None, getattr(owner, name))
        for name in ("project_id", "agent_id", "run_id")
    )


# ----------------------------------------------------------------------------
# Jobs that wait in the store, where they outlive the process.


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

    def claim(self, now: datetime, kinds: Collection[str]) -> QueuedJob | None:
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

    def keep(self, *entries: QueuedJob) -> tuple[int, ...]:
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

    def replace(self, entry: QueuedJob) -> None:
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

    def fail(self, entry: QueuedJob, error: str, again: datetime | None) -> None:
        """Note a failure, without keys; with no next try the job stays as failed, to be seen."""
        number = entry.stored_id if entry.stored_id is not None else self.keep(entry)[0]
        self._store.jobs.fail(number, without_keys(error), retry_at=again)


# ----------------------------------------------------------------------------
# Running the jobs of a worker one after the other, again when they fail, and keeping the rest.


_log = logging.getLogger(__name__)

Handler = Callable[[Mapping[str, Any], Scope], None]

IDLE_SECONDS = 10.0
LOOK_SECONDS = 30.0
"""How often the store is asked for jobs that other processes left or failed at."""
LONGEST_NAP_SECONDS = 60.0
MOST_ATTEMPTS = 5
REMEMBERED_CAUSES = 256
LINGER_SECONDS = 0.03
"""How long a job waits for its turn to end; a model takes longer to answer."""
HOPELESS = (InvalidInput, FileRefused, FileUnreadable)
"""What is wrong with the payload itself; another try would find the same."""
Answer = TypeVar("Answer")


class JobRunner:
    """What waits, what runs and what became of it; `Worker` is what callers see of it."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        capacity: int = 1_000,
        most_attempts: int = MOST_ATTEMPTS,
        threaded: bool = True,
    ) -> None:
        self._kept = KeptJobs(store)
        self._clock = clock
        self._capacity = require_count(capacity, "capacity", least=1)
        self._most_attempts = require_count(most_attempts, "most_attempts", least=1)
        self._threaded = threaded
        self._handlers: dict[str, Handler] = {}
        self._when_idle: Callable[[], None] | None = None
        self._reset()

    def _reset(self) -> None:
        """Begin with nothing; also in a forked child, whose parent keeps the jobs it had."""
        self._process = os.getpid()
        self._changed = threading.Condition(threading.Lock())
        self._hurry = threading.Event()
        self._flushing = 0
        self._caused: deque[tuple[int, int]] = deque(maxlen=REMEMBERED_CAUSES)
        self._waiting = Waiting(capacity=self._capacity, worker=uuid.uuid4().hex)
        self._running: QueuedJob | None = None
        self._thread: threading.Thread | None = None
        self._look = True  # the store may hold jobs of an earlier process
        self._looked_at: datetime | None = None
        self._stored_turn = True  # what an earlier process left comes first
        self._closing = self._stopping = self._closed = False
        self._done = self._failed = self._dropped = 0
        self._last_error = ""
        self._logged: set[tuple[str, str]] = set()

    # -- one job after the other -------------------------------------------------------

    def run_due(self, *, deadline: float | None = None) -> int:
        """Run here and now what is due, in the store too; gives how many jobs were tried.

        `deadline` is a moment of `time.monotonic()` after which none is begun.
        """
        ran = 0
        while (deadline is None or time.monotonic() < deadline) and self._run_one():
            ran += 1
        return ran

    def _lock(self) -> threading.Condition:
        if os.getpid() != self._process:
            self._reset()
        return self._changed

    def _refuse(self, reason: str) -> bool:
        self._dropped += 1
        self._last_error = reason
        return False

    @contextmanager
    def _hurrying(self) -> Iterator[None]:
        """While somebody waits for the jobs, they begin at once; the lock is held outside."""
        self._flushing += 1
        self._hurry.set()
        try:
            yield
        finally:
            self._flushing -= 1
            if not self._flushing and not self._closing:
                self._hurry.clear()

    def _work(self) -> None:
        woken = True
        while True:
            if woken:  # the turn that submitted goes on first: both share one interpreter
                self._hurry.wait(LINGER_SECONDS)
                woken = False
            self.run_due()
            with self._changed:
                if self._is_busy(self._waiting.last_number) and not self._stopping:
                    continue
                self._changed.notify_all()
                woken = not self._stopping and self._changed.wait(self._nap_seconds())
                stays = woken or self._waiting.has_prospects or self._kept.any_left
                if self._stopping or not stays:
                    self._thread = None  # the next submit starts another one
                    self._changed.notify_all()
                    return

    def _nap_seconds(self) -> float:
        due = self._waiting.next_due(self._handlers)
        left = IDLE_SECONDS if due is None else (due - self._clock.now()).total_seconds()
        longest = LOOK_SECONDS if self._kept.any_left else LONGEST_NAP_SECONDS
        return min(max(left, 0.01), longest)

    def _is_busy(self, mark: int) -> bool:
        """Whether a job up to `mark` runs or could run now, or the store is to be asked."""
        now = self._clock.now()
        if self._running is not None and self._running.number <= mark:
            return True
        return self._should_look(now) or self._waiting.has_due(now, self._handlers, mark=mark)

    def _should_look(self, now: datetime) -> bool:
        """Whether the store may hold a job that is due."""
        if self._closing:
            return False
        if self._look or self._looked_at is None or self._waiting.stored_is_due(now):
            return True
        return abs((now - self._looked_at).total_seconds()) >= LOOK_SECONDS

    def _run_one(self) -> bool:
        """Try one job, if there is one to try."""
        self._spill()
        entry = self._next()
        if entry is None:
            return False
        try:
            self._handlers[entry.kind](entry.payload, entry.scope)
        except Exception as error:  # noqa: BLE001 - a job may fail in any way, and nothing else may
            if self._closed:  # under its feet; it was kept, and is done again by the next worker
                return False
            self._after_failure(entry, error)
        except BaseException:
            with self._changed:
                self._running = None
                self._waiting.put_back(entry)
                self._changed.notify_all()
            raise
        else:
            self._after_success(entry)
        return True

    def _next(self) -> QueuedJob | None:
        """The next job, from memory and from the store in turn while both have some."""
        with self._lock():
            if self._stopping:
                return None
            now = self._clock.now()
            due = self._waiting.has_due(now, self._handlers)
            ask_store = self._should_look(now) and (self._stored_turn or not due)
            self._stored_turn = not ask_store
        entry = self._claim() if ask_store else None
        if entry is None:
            with self._changed:
                entry = self._waiting.take(self._clock.now(), self._handlers)
                self._running = entry
        return entry

    def _after_success(self, entry: QueuedJob) -> None:
        if self._closed:  # the store has it, and where that is closed too it is done once more
            with suppress(Exception):
                if entry.stored_id is not None:
                    self._kept.done(entry.stored_id)
            return
        if entry.stored_id is not None:
            self._ask(self._kept.done, entry.stored_id)
        else:
            self._ask(self._kept.replace, entry)
        with self._changed:
            idle = not self._waiting.has_due(self._clock.now(), self._handlers)
        if idle and self._when_idle is not None:
            with suppress(Exception):
                self._when_idle()
        with self._changed:
            self._running = None
            self._done += 1
            self._waiting.settle(entry)
            self._changed.notify_all()

    def _after_failure(self, entry: QueuedJob, error: Exception) -> None:
        attempts = entry.attempts + 1
        delay = None
        if not isinstance(error, HOPELESS):
            delay = retry_delay(attempts, most_attempts=self._most_attempts)
        again = None if delay is None else self._clock.now() + timedelta(seconds=delay)
        self._log_once(entry.kind, error, again)
        if entry.stored_id is not None or again is None:
            self._ask(self._kept.fail, entry, describe(error), again)
        with self._changed:
            self._running = None
            self._last_error = f"{entry.kind}: {describe(error)}"
            if again is None:
                self._failed += 1
                self._waiting.settle(entry)
            elif entry.stored_id is None:
                self._waiting.retry(entry, attempts=attempts, due_at=again)
            else:
                self._waiting.note_stored(entry, entry.stored_id, due_at=again)
            self._changed.notify_all()

    def _log_once(self, kind: str, error: Exception, again: datetime | None) -> None:
        seen = (kind, type(error).__name__)
        if seen in self._logged:
            return
        self._logged.add(seen)
        _log.warning(
            "Background work (%s) failed%s; more of this sort is only counted: %s",
            kind, " and is tried again later" if again else "", describe(error),
        )  # fmt: skip

    # -- what the store keeps ----------------------------------------------------------

    def _claim(self) -> QueuedJob | None:
        """The next job of the store that no newer one has taken the place of."""
        while True:
            now, kinds = self._clock.now(), tuple(self._handlers)
            asked, entry = self._ask(self._kept.claim, now, kinds)
            with self._changed:
                if entry is None:
                    self._look, self._looked_at = False, now
                    if asked:
                        self._waiting.nothing_stored(now, kinds)
                    self._changed.notify_all()
                    return None
                superseded = self._waiting.is_superseded(entry)
                if not superseded and entry.attempts < self._most_attempts:
                    self._running = entry
                    return entry
                self._waiting.settle(entry)
                self._failed += not superseded
            if superseded:
                self._ask(self._kept.done, entry.stored_id)
            else:
                self._ask(self._kept.fail, entry, "the process ended each time it was tried", None)

    def _spill(self) -> None:
        """Move what is over the capacity to the store, and drop there what a newer job replaced."""
        with self._lock():
            if self._stopping:
                return
            excess = self._waiting.take_excess()
            stale = self._waiting.take_stale()
        for number in stale:
            self._ask(self._kept.done, number)
        for entry in excess:
            kept = self._keep_all([entry])
            with self._changed:
                self._look = self._look or kept
                if not kept:
                    self._waiting.put_back(entry)

    def _keep_all(self, entries: Sequence[QueuedJob]) -> bool:
        """Put jobs into the store, all or none; whether they are there."""
        _, numbers = self._ask(self._kept.keep, *entries)
        with self._changed:
            for entry, number in zip(entries, numbers or (), strict=False):
                self._waiting.note_stored(entry, number, due_at=entry.due_at)
        return numbers is not None

    def _ask(self, ask: Callable[..., Answer], *about: Any) -> tuple[bool, Answer | None]:
        """Whether the store could be asked, and what it said; trouble is noted."""
        try:
            return True, ask(*about)
        except Exception as error:  # noqa: BLE001 - the worker outlives whatever a store raises
            self._log_once("the store", error, None)
            with self._changed:
                self._last_error = describe(error)
            return False, None


def describe(error: BaseException) -> str:
    """An error in one line of at most 300 characters that can be stored."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:300].encode("utf-8", "replace").decode("utf-8")


CLOSE_SECONDS = 0.4
"""What is not done by then waits in the store for the next worker."""
EXIT_SECONDS = 2.0
GENERATIONS = 3
"""`flush` waits for jobs, for what they submit, and for what that submits."""

_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker(JobRunner):
    """A queue with one thread, which the first `submit` starts.

    `threaded=False` runs jobs only inside `flush` and `run_due`, in the
    caller's thread.
    """

    def handle(self, kind: str, handler: Handler) -> None:
        """Say who does the jobs of a kind; jobs that waited for it may run from now on."""
        require_text(kind, "kind")
        with self._lock():
            self._handlers[kind] = handler
            self._look = True
            self._changed.notify_all()

    def when_idle(self, call: Callable[[], None]) -> None:
        """Say what is done after the last of the jobs that wait; its failure is nobody's."""
        self._when_idle = call

    def submit(
        self,
        kind: str,
        payload: Mapping[str, Any],
        *,
        scope: Scope = NO_SCOPE,
        key: str = "",
    ) -> bool:
        """Whether the job was taken; at once and without raising.

        A job that waits with the same kind, scope and key (unless it is "")
        gets the new payload and keeps its place. Jobs are refused after
        `close`, when they make no sense, and while the queue holds twice its
        capacity because one job takes very long.
        """
        try:
            entry = QueuedJob(
                kind=require_text(kind, "kind"),
                scope=_require_scope(scope),
                key=require_text(key, "key"),
                payload=dict(payload),
                submitted_at=self._clock.now(),
            )
        except (AgentMemError, TypeError, ValueError) as error:
            return self.refuse(describe(error))
        with self._lock():
            if self._stopping:
                return self._refuse("the worker is closed")
            if not self._waiting.add(entry):
                return self._refuse("the queue is full")
            if self._running is not None and self._thread is threading.current_thread():
                self._caused.append((self._running.number, self._waiting.last_number))
            self._ensure_thread()
            self._changed.notify_all()
        return True

    def refuse(self, reason: str) -> bool:
        """Count work that could not even be submitted; always False."""
        with self._lock():
            return self._refuse(reason)

    def start(self) -> None:
        """Take up what an earlier process left in the store, without waiting for a `submit`."""
        with self._lock():
            if not self._closing:
                self._look = True
                self._ensure_thread()
                self._changed.notify_all()

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait for everything submitted before, and for what those jobs submit themselves;
        whether all of it is done or given up.

        It does not sit out a back-off: with a job that waits for its next try,
        or for a handler, the answer is False as soon as nothing else is left.
        Called from inside a job it cannot wait and says what is the case.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._lock():
            mark = self._waiting.last_number
            inside = self._thread is threading.current_thread() or (
                not self._threaded and self._running is not None
            )
            if inside:
                return not self._waiting.unsettled(mark)
            for _ in range(GENERATIONS if self._threaded else 0):
                self._wait_until_done(mark, deadline)
                mark = max([mark, *(new for cause, new in self._caused if cause <= mark)])
        if not self._threaded:
            self.run_due(deadline=deadline)
        with self._lock():
            return not self._is_busy(mark) and not self._waiting.unsettled(mark)

    def _wait_until_done(self, mark: int, deadline: float | None) -> None:
        if not self._is_busy(mark) or self._stopping:
            return
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        with self._hurrying():
            self._ensure_thread()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping or not self._is_busy(mark), left)

    def forget(self, scope: Scope) -> int:
        """Drop what waits in memory for this user, or a part of theirs; gives how many jobs.

        A job that is running goes on; what waits in the store is the store's to erase.
        """
        with self._lock():
            gone = self._waiting.drop(scope)
            self._changed.notify_all()
        return gone

    @property
    def problem(self) -> str:
        """What failed last, once something was given up or while it waits to be tried again."""
        with self._lock():
            if self._failed or self._dropped or self._waiting.retrying(self._clock.now()):
                return self._last_error or "a job was given up"
            return ""

    @property
    def state(self) -> WorkerState:
        """What the queue looks like now."""
        with self._lock():
            return WorkerState(
                queued=len(self._waiting),
                running=0 if self._running is None else 1,
                retrying=self._waiting.retrying(self._clock.now()),
                stored=self._waiting.stored,
                done=self._done,
                failed=self._failed,
                dropped=self._dropped,
                alive=self._thread is not None and self._thread.is_alive(),
                closed=self._closed,
                last_error=self._last_error,
            )

    def close(self, *, timeout_seconds: float = CLOSE_SECONDS) -> None:
        """Finish what is due within the time, keep the rest in the store; again is harmless."""
        require_number(timeout_seconds, "timeout_seconds", low=0)
        deadline = time.monotonic() + timeout_seconds
        with self._lock():
            if self._closed:
                return
            self._closing = True
            self._hurry.set()
            thread = self._thread
            inside = thread is threading.current_thread()
            if thread is not None and not inside:
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: not self._is_busy(self._waiting.last_number), timeout_seconds
                )
        if not self._threaded:
            self.run_due(deadline=deadline)
        with self._lock():
            self._stopping = True
            self._changed.notify_all()
        if thread is not None and not inside:
            thread.join(max(0.05, deadline - time.monotonic()))
        with self._lock():
            if self._closed:
                return
            self._closed = True
            stale = self._waiting.take_stale()
            rest = self._waiting.take_all()
            if self._running is not None and not inside:
                rest.insert(0, self._running)  # it did not end in time, and may never
            self._changed.notify_all()
            self._handlers, self._when_idle = {}, None
        _alive.discard(self)
        for number in stale:
            self._ask(self._kept.done, number)
        rest = [entry for entry in rest if entry.stored_id is None]
        if rest and not self._keep_all(rest):
            # One of them cannot be written down; it must not take the others with it.
            lost = sum(not self._keep_all([entry]) for entry in rest)
            with self._lock():
                self._dropped += lost

    def _ensure_thread(self) -> None:
        if not self._threaded or (self._thread is not None and self._thread.is_alive()):
            return
        thread = threading.Thread(target=self._work, name="agentmem-worker", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter is going down
            self._last_error = describe(error)
            return
        self._thread = thread
        self._look = True
        if not _alive:
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        _alive.add(self)


def _require_scope(scope: object) -> Scope:
    if not isinstance(scope, Scope):
        raise InvalidScope("scope", scope, "is not a Scope", remedy="Pass agentmem.Scope(...).")
    return scope


def _close_all() -> None:
    """At the end of the process: give each worker a moment, then keep what waits."""
    for worker in tuple(_alive):
        worker.close(timeout_seconds=EXIT_SECONDS)
