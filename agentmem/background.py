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
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from agentmem.core.checks import require_number, require_text
from agentmem.core.waiting import Entry, WorkerState
from agentmem.errors import AgentMemError, InvalidScope
from agentmem.job_running import Handler, JobRunner, describe
from agentmem.stores.values import NO_SCOPE
from agentmem.types import Scope

__all__ = ["Handler", "Worker", "WorkerState", "describe"]

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
        _alive.discard(self)
        for number in stale:
            self._ask(self._kept.done, number)
        rest = [entry for entry in rest if entry.stored_id is None]
        if rest and not self._keep_all(rest):
            # One of them cannot be written down; it must not take the others with it.
            lost = sum(not self._keep(entry) for entry in rest)
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
