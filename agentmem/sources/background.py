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
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, TypeVar

from agentmem.base.checks import require_count, require_instance, require_number, require_text
from agentmem.base.errors import AgentMemError, FileRefused, FileUnreadable, InvalidInput
from agentmem.base.lazy import Lazy
from agentmem.base.protocols import Clock
from agentmem.base.types import Scope
from agentmem.stores.base import Store
from agentmem.stores.values import NO_SCOPE, Job, NewJob
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
    """One job. `serial` is that of its payload; a `flush` waits for it by its `number`, which
    a job that replaces another or that another submits takes over, to a third `generation`."""

    kind: str
    scope: Scope
    key: str
    payload: Mapping[str, Any]
    submitted_at: datetime
    serial: int = 0
    number: int = 0
    generation: int = 0
    worker: str = ""
    attempts: int = 0
    due_at: datetime | None = None
    stored_id: int | None = None
    characters: int = 0

    @property
    def identity(self) -> Identity:
        """What makes it the same job; without a key every job is one of its own."""
        return (self.kind, self.scope, self.key or f"\0{self.worker}\0{self.serial}")

    def is_due(self, now: datetime) -> bool:
        return self.due_at is None or self.due_at <= now


class Waiting:
    """The queue: first in, first out, one job an identity."""

    def __init__(self, *, capacity: int, worker: str) -> None:
        self.last_number = 0
        self.entries: dict[Identity, QueuedJob] = {}
        self.stored: dict[Identity, QueuedJob] = {}
        self._capacity = capacity
        self._worker = worker
        self._newest: OrderedDict[Identity, tuple[datetime, bool, int]] = OrderedDict()

    def add(self, entry: QueuedJob, *, cause: QueuedJob | None = None) -> bool:
        """Queue a job, or give its payload to the same job that waits; False when full.

        `cause` is the job that submits it.
        """
        entry.worker, entry.serial = self._worker, self.last_number + 1
        entry.characters = weigh(entry.payload)
        same = self.entries.get(entry.identity)
        full = len(self.entries) >= 2 * self._capacity and same is None
        held = sum(other.characters for other in self.entries.values() if other is not same)
        if full or held + entry.characters > MOST_CHARACTERS:
            return False
        entry.number = self.last_number = entry.serial
        if same is not None:
            entry.number, entry.generation = same.number, same.generation
        elif cause is not None and cause.generation + 1 < GENERATIONS:
            entry.number, entry.generation = cause.number, cause.generation + 1
        if entry.identity in self._newest:  # whatever the clock says, this is the newer one
            entry.submitted_at = max(entry.submitted_at, self._newest[entry.identity][0])
        self.entries[entry.identity] = entry
        self._remember(entry)
        self.stored.pop(entry.identity, None)
        return True

    def take(self, entries: Sequence[QueuedJob]) -> list[QueuedJob]:
        """These jobs, which wait no longer."""
        return [self.entries.pop(entry.identity) for entry in entries]

    def take_excess(self) -> list[QueuedJob]:
        """The newest jobs, those that are over the capacity, in order."""
        return self.take(list(self.entries.values())[self._capacity :])

    def put_back(self, entry: QueuedJob) -> None:
        """Let a job wait again where it did, unless the same one was submitted anew meanwhile."""
        if self.is_superseded(entry):
            return
        if entry.stored_id is not None:
            self.stored[entry.identity] = entry
        else:
            self.entries.setdefault(entry.identity, entry)

    def nothing_stored(self, now: datetime, kinds: Collection[str]) -> None:
        """The store has none of these kinds that is due: somebody else has what was ours."""
        for entry in list(self.stored.values()):
            if entry.kind in kinds and entry.is_due(now):
                del self.stored[entry.identity]

    def settle(self, entry: QueuedJob) -> None:
        """A job is done or given up; an older one of the same key is not to run after it."""
        waits = self.stored.get(entry.identity)
        if waits is not None and waits.stored_id == entry.stored_id:
            del self.stored[entry.identity]
        self._remember(entry)

    def is_superseded(self, entry: QueuedJob) -> bool:
        """Whether the same job was submitted later than this one."""
        moment = self._moment(entry)
        return self._newest.get(entry.identity, moment) > moment

    def ours_stored(self) -> list[QueuedJob]:
        """The jobs of this worker that wait in the store."""
        return [entry for entry in self.stored.values() if entry.worker == self._worker]

    def unsettled(self, mark: int) -> bool:
        """Whether a job up to this number waits, here or in the store."""
        return any(e.number <= mark for e in (*self.entries.values(), *self.ours_stored()))

    def due(self, now: datetime, kinds: Collection[str]) -> Iterator[QueuedJob]:
        """The jobs of these kinds that could run now, in order."""
        return (e for e in self.entries.values() if e.kind in kinds and e.is_due(now))

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next try is, of what waits here or in the store."""
        here = (e.due_at for e in self.entries.values() if e.kind in kinds)
        moments = [*here, *(e.due_at for e in self.stored.values())]
        return min((moment for moment in moments if moment is not None), default=None)

    def retrying(self, now: datetime) -> int:
        """How many wait for their next try."""
        return sum(not entry.is_due(now) for entry in self.entries.values())

    def _moment(self, entry: QueuedJob) -> tuple[datetime, bool, int]:
        """When it was submitted; of two at one moment, ours is the newer."""
        ours = entry.worker == self._worker
        return (entry.submitted_at, ours, entry.serial if ours else entry.stored_id or 0)

    def _remember(self, entry: QueuedJob) -> None:
        if not entry.key:
            return
        this = self._moment(entry)
        self._newest[entry.identity] = max(this, self._newest.pop(entry.identity, this))
        if len(self._newest) > REMEMBERED_KEYS:
            self._newest.popitem(last=False)


_WRITTEN = ("key", "worker", "serial", "number", "generation", "attempts")


def to_stored(entry: QueuedJob) -> dict[str, Any]:
    """A job as JSON values, if its payload has only those, bytes and sets of bytes."""
    return {
        "job": 1,
        "payload": {name: as_json(value) for name, value in entry.payload.items()},
        "scope": [getattr(entry.scope, name) for name in Scope.__slots__],
        "submitted_at": entry.submitted_at.isoformat(),
        **{name: getattr(entry, name) for name in _WRITTEN},
    }


def from_stored(job: Job, *, at: datetime) -> QueuedJob:
    """The job that `to_stored` wrote; what somebody else wrote is a payload without an owner.

    A job that was given out before and not settled has used up a try each time.
    """
    written = job.payload
    if written.get("job") != 1:
        return QueuedJob(
            kind=job.kind, scope=NO_SCOPE, key="", payload=written, submitted_at=at,
            serial=job.id, attempts=job.attempts - 1, stored_id=job.id,
        )  # fmt: skip
    found = QueuedJob(
        kind=job.kind,
        scope=Scope(**dict(zip(Scope.__slots__, written["scope"], strict=True))),
        payload={name: from_json(value) for name, value in written["payload"].items()},
        submitted_at=datetime.fromisoformat(written["submitted_at"]),
        stored_id=job.id,
        **{name: written[name] for name in _WRITTEN if name in written},
    )
    found.attempts += job.attempts - 1
    return found


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
    if type(value) is str or type(value) is bytes:
        return len(value)
    if isinstance(value, Lazy):
        return value.characters
    if isinstance(value, set | frozenset):
        return 8 * len(value)  # what is in it is usually shared with other payloads
    if depth and isinstance(value, Mapping | list | tuple):
        items = value.values() if isinstance(value, Mapping) else value
        return sum([weigh(item, depth=depth - 1) for item in islice(items, 200)])
    return 8


def _inside(owner: Scope, scope: Scope) -> bool:
    parts = ("project_id", "agent_id", "run_id")
    return owner.user_id == scope.user_id and all(
        getattr(scope, name) in (None, getattr(owner, name)) for name in parts
    )


# ----------------------------------------------------------------------------
# Running the jobs one after the other, again when they fail, and keeping the rest in the store.


_log = logging.getLogger(__name__)

Handler = Callable[[Mapping[str, Any], Scope], None]

IDLE_SECONDS = 10.0
LOOK_SECONDS = 30.0
"""How often the store is asked for jobs that other processes left or failed at."""
LONGEST_NAP_SECONDS = 60.0
LEASE_SECONDS = 600.0
"""How long a job is left alone after somebody took it; a dead process's jobs are free then."""
MOST_ATTEMPTS = 5
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 2.0, 300.0
LINGER_SECONDS = 0.03
"""How long a job waits for its turn to end; a model takes longer to answer."""
CLOSE_SECONDS = 0.4
"""What is not done by then waits in the store for the next worker."""
EXIT_SECONDS = 2.0
GENERATIONS = 3
"""`flush` waits for jobs, for what they submit, and for what that submits."""
TROUBLE = (AgentMemError, OSError, KeyError, TypeError, ValueError, RecursionError)
"""What a store or a payload that is not JSON may raise."""
HOPELESS = (InvalidInput, FileRefused, FileUnreadable)
"""What is wrong with the payload itself; another try would find the same."""
Answer = TypeVar("Answer")

_alive: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """A queue with one thread, which the first `submit` starts.

    `threaded=False` runs jobs only inside `flush` and `run_due`, in the
    caller's thread.
    """

    def __init__(
        self,
        store: Store,
        *,
        clock: Clock,
        capacity: int = 1_000,
        most_attempts: int = MOST_ATTEMPTS,
        threaded: bool = True,
    ) -> None:
        self._store = store
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
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._flushing = 0
        self._waiting = Waiting(capacity=self._capacity, worker=uuid.uuid4().hex)
        self._running: QueuedJob | None = None
        self._thread: threading.Thread | None = None
        self._look = True  # the store may hold jobs of an earlier process
        self._looked_at: datetime | None = None
        self._any_left: bool | None = None  # in the store; None before it was asked
        self._stored_turn = True  # what an earlier process left comes first
        self._closing = self._stopping = self._closed = False
        self._done = self._failed = self._dropped = 0
        self._last_error = ""
        self._logged: set[tuple[str, str]] = set()

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
        self, kind: str, payload: Mapping[str, Any], *, scope: Scope = NO_SCOPE, key: str = ""
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
                scope=require_instance(scope, Scope, "scope"),
                key=require_text(key, "key"),
                payload=dict(payload),
                submitted_at=self._clock.now(),
            )
        except (AgentMemError, TypeError, ValueError) as error:
            return self.refuse(describe(error))
        with self._lock():
            inside = self._thread is threading.current_thread()
            if self._stopping:
                return self.refuse("the worker is closed")
            if not self._waiting.add(entry, cause=self._running if inside else None):
                return self.refuse("the queue is full")
            self._ensure_thread()
            self._changed.notify_all()
        return True

    def refuse(self, reason: str) -> bool:
        """Count work that could not even be submitted; always False."""
        with self._lock():
            self._dropped += 1
            self._last_error = reason
        return False

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
            if self._threaded and self._is_busy(mark) and not self._stopping:
                self._ensure_thread()
                self._flushing += 1
                self._hurry.set()  # while somebody waits for the jobs, they begin at once
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: self._stopping or not self._is_busy(mark), timeout_seconds
                )
                self._flushing -= 1
                if not self._flushing and not self._closing:
                    self._hurry.clear()
        if not self._threaded:
            self.run_due(deadline=deadline)
        with self._lock():
            return not self._is_busy(mark) and not self._waiting.unsettled(mark)

    def forget(self, scope: Scope) -> int:
        """Drop what waits in memory for this user, or a part of theirs; gives how many jobs.

        A job that is running goes on; what waits in the store is the store's to erase.
        """
        with self._lock():
            waiting = self._waiting.entries.values()
            gone = self._waiting.take([one for one in waiting if _inside(one.scope, scope)])
            self._changed.notify_all()
        return len(gone)

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
                queued=len(self._waiting.entries),
                running=0 if self._running is None else 1,
                retrying=self._waiting.retrying(self._clock.now()),
                stored=len(self._waiting.ours_stored()),
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
        self.flush(timeout_seconds)
        with self._lock():
            thread = self._thread
            inside = thread is threading.current_thread()
            self._stopping = True
            self._changed.notify_all()
        if thread is not None and not inside:
            thread.join(max(0.05, deadline - time.monotonic()))
        with self._lock():
            if self._closed:
                return
            self._closed = True
            rest = self._waiting.take(list(self._waiting.entries.values()))
            running = self._running
            if running is not None and running.stored_id is None and not inside:
                rest.insert(0, running)  # it did not end in time, and may never
            self._changed.notify_all()
            self._handlers, self._when_idle = {}, None
        _alive.discard(self)
        if rest and not self._keep(*rest):
            # One of them cannot be written down; it must not take the others with it.
            lost = sum(not self._keep(entry) for entry in rest)
            with self._lock():
                self._dropped += lost

    def run_due(self, *, deadline: float | None = None) -> int:
        """Run here and now what is due, in the store too; gives how many jobs were tried.

        `deadline` is a moment of `time.monotonic()` after which none is begun.
        """
        ran = 0
        while (deadline is None or time.monotonic() < deadline) and self._run_one():
            ran += 1
        return ran

    # -- the thread --------------------------------------------------------------------

    def _lock(self) -> threading.Condition:
        if os.getpid() != self._process:
            self._reset()
        return self._changed

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
                due = self._waiting.next_due(self._handlers)
                left = IDLE_SECONDS if due is None else (due - self._clock.now()).total_seconds()
                longest = LOOK_SECONDS if self._any_left else LONGEST_NAP_SECONDS
                woken = not self._stopping and self._changed.wait(min(max(left, 0.01), longest))
                stays = woken or self._waiting.entries or self._any_left or due is not None
                if self._stopping or not stays:
                    self._thread = None  # the next submit starts another one
                    self._changed.notify_all()
                    return

    def _is_busy(self, mark: int) -> bool:
        """Whether a job up to `mark` runs or could run now, or the store is to be asked."""
        now = self._clock.now()
        if self._running is not None and self._running.number <= mark:
            return True
        due = self._waiting.due(now, self._handlers)
        return self._should_look(now) or any(entry.number <= mark for entry in due)

    def _should_look(self, now: datetime) -> bool:
        """Whether the store may hold a job that is due."""
        if self._closing:
            return False
        if self._look or self._looked_at is None:
            return True
        if any(e.due_at is not None and e.is_due(now) for e in self._waiting.stored.values()):
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
            self._settled(entry, again=True)
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
            due = any(self._waiting.due(now, self._handlers))
            ask_store = self._should_look(now) and (self._stored_turn or not due)
            self._stored_turn = not ask_store
        entry = self._claim() if ask_store else None
        if entry is None:
            with self._changed:
                first = islice(self._waiting.due(self._clock.now(), self._handlers), 1)
                self._running = entry = next(iter(self._waiting.take(list(first))), None)
        return entry

    def _after_success(self, entry: QueuedJob) -> None:
        if self._closed:  # the store has it, and where that is closed too it is done once more
            with suppress(Exception):
                if entry.stored_id is not None:
                    self._store.jobs.done(entry.stored_id)
            return
        if entry.stored_id is not None:
            self._ask(self._store.jobs.done, entry.stored_id)
        else:
            self._ask(self._replace, entry)
        with self._changed:
            idle = not any(self._waiting.due(self._clock.now(), self._handlers))
        if idle and self._when_idle is not None:
            with suppress(Exception):
                self._when_idle()
        self._done += 1
        self._settled(entry)

    def _after_failure(self, entry: QueuedJob, error: Exception) -> None:
        entry.attempts += 1
        delay = None
        if not isinstance(error, HOPELESS):
            delay = retry_delay(entry.attempts, most_attempts=self._most_attempts)
        again = None if delay is None else self._clock.now() + timedelta(seconds=delay)
        self._log_once(entry.kind, error, again)
        if entry.stored_id is not None or again is None:
            self._ask(self._fail, entry, describe(error), again)
        entry.due_at = again
        self._last_error = f"{entry.kind}: {describe(error)}"
        self._failed += again is None
        self._settled(entry, again=again is not None)

    def _settled(self, entry: QueuedJob, *, again: bool = False) -> None:
        """A job runs no longer: it is done with, or waits again."""
        with self._changed:
            self._running = None
            if again:
                self._waiting.put_back(entry)
            else:
                self._waiting.settle(entry)
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
        now = self._clock.now()
        asked, entry = self._ask(self._claim_one, now)
        with self._changed:
            self._running = entry
            if entry is None:
                self._look, self._looked_at = False, now
                if asked:
                    self._waiting.nothing_stored(now, self._handlers)
                self._changed.notify_all()
        return entry

    def _claim_one(self, now: datetime) -> QueuedJob | None:
        """The oldest job of the store that is due, for us alone until its lease ends."""
        jobs = self._store.jobs
        while self._look_into_store():  # claiming is a write, looking is not
            job = jobs.claim(at=now, lease_seconds=LEASE_SECONDS, kinds=tuple(self._handlers))
            if job is None:
                return None
            try:
                entry = from_stored(job, at=now)
            except TROUBLE as error:
                jobs.fail(job.id, f"It cannot be read: {error!a}", retry_at=None)
                continue
            with self._changed:
                superseded = self._waiting.is_superseded(entry)
                if not superseded and entry.attempts < self._most_attempts:
                    return entry
                self._waiting.settle(entry)
                self._failed += not superseded
            if superseded:
                jobs.done(job.id)
            else:
                self._fail(entry, "the process ended each time it was tried", None)
        return None

    def _look_into_store(self) -> bool:
        """Whether anything waits or runs in the store."""
        counts = self._store.jobs.counts()
        self._any_left = bool(counts["waiting"] or counts["running"])
        return self._any_left

    def _spill(self) -> None:
        """Move what is over the capacity to the store."""
        with self._lock():
            excess = [] if self._stopping else self._waiting.take_excess()
        for entry in excess:
            kept = self._keep(entry)
            with self._changed:
                self._look = self._look or kept
                if not kept:
                    self._waiting.put_back(entry)

    def _keep(self, *entries: QueuedJob) -> bool:
        """Put jobs into the store, all or none; whether they are there."""
        _, numbers = self._ask(self._write, entries)
        with self._changed:
            for entry, number in zip(entries, numbers or (), strict=False):
                entry.stored_id = number
                self._waiting.put_back(entry)
        return numbers is not None

    def _write(self, entries: Sequence[QueuedJob]) -> tuple[int, ...]:
        """Write jobs down, each in place of an older one of its key; their numbers in the store."""
        jobs = [
            NewJob(
                kind=entry.kind,
                payload=to_stored(entry),
                at=entry.due_at or entry.submitted_at,
                key=entry.key,
                scope=entry.scope,
            )
            for entry in entries
        ]
        numbers = self._store.jobs.keep(jobs)
        self._any_left = True
        return numbers

    def _replace(self, entry: QueuedJob) -> None:
        """Remove an older job of the same key that waits; it would undo what this one did."""
        if not entry.key:
            return
        if self._any_left or (self._any_left is None and self._look_into_store()):
            later = entry.submitted_at + timedelta(days=1)
            number = self._store.jobs.enqueue(
                entry.kind, {}, at=later, key=entry.key, scope=entry.scope
            )  # the number of the one that waits, if there is one
            self._store.jobs.done(number)

    def _fail(self, entry: QueuedJob, error: str, again: datetime | None) -> None:
        """Note a failure, without keys; with no next try the job stays as failed, to be seen."""
        number = entry.stored_id if entry.stored_id is not None else self._write([entry])[0]
        self._store.jobs.fail(number, without_keys(error), retry_at=again)

    def _ask(self, ask: Callable[..., Answer], *about: Any) -> tuple[bool, Answer | None]:
        """Whether the store could be asked, and what it said; trouble is noted."""
        try:
            return True, ask(*about)
        except Exception as error:  # noqa: BLE001 - the worker outlives whatever a store raises
            self._log_once("the store", error, None)
            with self._changed:
                self._last_error = describe(error)
            return False, None


def retry_delay(attempts: int, *, most_attempts: int) -> float | None:
    """Seconds until the next try after so many failures, or None when it is time to give up.

    Each wait is twice the one before it, up to `LONGEST_RETRY_SECONDS`.
    """
    if attempts >= most_attempts:
        return None
    doublings = min(attempts - 1, 100)  # a float holds no more than a thousand
    return min(LONGEST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0**doublings)


def describe(error: BaseException) -> str:
    """An error in one line of at most 300 characters that can be stored."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text[:300].encode("utf-8", "replace").decode("utf-8")


def _close_all() -> None:
    """At the end of the process: give each worker a moment, then keep what waits."""
    for worker in tuple(_alive):
        worker.close(timeout_seconds=EXIT_SECONDS)
