"""Running the jobs of a worker one after the other, again when they fail, and keeping the rest."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from agentmem.core.checks import require_count
from agentmem.core.retrying import retry_delay
from agentmem.core.waiting import Entry, Waiting
from agentmem.errors import FileRefused, FileUnreadable, InvalidInput
from agentmem.kept_jobs import KeptJobs
from agentmem.protocols import Clock
from agentmem.stores.base import Store
from agentmem.types import Scope

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
        self._running: Entry | None = None
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
        return self._keep_all([entry])

    def _keep_all(self, entries: Sequence[Entry]) -> bool:
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
