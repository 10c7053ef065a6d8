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
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from agentmem.core.checks import require_count, require_number, require_text
from agentmem.core.retrying import retry_delay
from agentmem.core.waiting import Entry, Waiting, WorkerState
from agentmem.errors import (
    AgentMemError,
    FileRefused,
    FileUnreadable,
    InvalidInput,
    InvalidScope,
)
from agentmem.kept_jobs import KeptJobs
from agentmem.protocols import Clock
from agentmem.stores.base import Store
from agentmem.stores.values import NO_SCOPE
from agentmem.types import Scope

_log = logging.getLogger(__name__)

__all__ = ["Handler", "Worker", "WorkerState"]

Handler = Callable[[Mapping[str, Any], Scope], None]

IDLE_SECONDS = 10.0
LOOK_SECONDS = 30.0
"""How often the store is asked for jobs that other processes left or failed at."""
LONGEST_NAP_SECONDS = 60.0
EXIT_SECONDS = 2.0
MOST_ATTEMPTS = 5
GENERATIONS = 3
"""`flush` waits for jobs, for what they submit, and for what that submits."""
REMEMBERED_CAUSES = 256
LINGER_SECONDS = 0.03
"""How long a job waits for its turn to end; a model takes longer to answer."""
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
        self._running: Entry | None = None
        self._thread: threading.Thread | None = None
        self._look = True  # the store may hold jobs of an earlier process
        self._looked_at: datetime | None = None
        self._stored_turn = True  # what an earlier process left comes first
        self._closing = self._stopping = self._closed = False
        self._done = self._failed = self._dropped = 0
        self._last_error = ""
        self._logged: set[tuple[str, str]] = set()

    # -- what callers do ---------------------------------------------------------------

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
            entry = Entry(
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

    def close(self, *, timeout_seconds: float = 5.0) -> None:
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
        _alive.discard(self)
        for number in stale:
            self._ask(self._kept.done, number)
        for entry in rest:
            if entry.stored_id is None and not self._keep(entry):
                with self._lock():
                    self._dropped += 1

    def run_due(self, *, deadline: float | None = None) -> int:
        """Run here and now what is due, in the store too; gives how many jobs were tried.

        `deadline` is a moment of `time.monotonic()` after which none is begun.
        """
        ran = 0
        while (deadline is None or time.monotonic() < deadline) and self._run_one():
            ran += 1
        return ran

    # -- what the thread does ----------------------------------------------------------

    def _lock(self) -> threading.Condition:
        if os.getpid() != self._process:
            self._reset()
        return self._changed

    def _refuse(self, reason: str) -> bool:
        self._dropped += 1
        self._last_error = reason
        return False

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

    def _next(self) -> Entry | None:
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

    def _after_success(self, entry: Entry) -> None:
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

    def _after_failure(self, entry: Entry, error: Exception) -> None:
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

    def _claim(self) -> Entry | None:
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
            kept = self._keep(entry)
            with self._changed:
                self._look = self._look or kept
                if not kept:
                    self._waiting.put_back(entry)

    def _keep(self, entry: Entry) -> bool:
        """Put a job into the store; whether it is there."""
        _, number = self._ask(self._kept.keep, entry)
        with self._changed:
            if number is not None:
                self._waiting.note_stored(entry, number, due_at=entry.due_at)
        return number is not None

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


def _require_scope(scope: object) -> Scope:
    if not isinstance(scope, Scope):
        raise InvalidScope("scope", scope, "is not a Scope", remedy="Pass agentmem.Scope(...).")
    return scope


def _close_all() -> None:
    """At the end of the process: give each worker a moment, then keep what waits."""
    for worker in tuple(_alive):
        worker.close(timeout_seconds=EXIT_SECONDS)
