"""Time limits, a breaker and a short memory around any call that may fail or hang."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from agentmem.base.checks import require_count, require_number
from agentmem.base.errors import TimedOut
from agentmem.base.protocols import Clock
from agentmem.base.time import time_between

# ----------------------------------------------------------------------------
# A circuit breaker (P31).
#
#     closed ──(failure_limit failures in a row)──▶ open
#     open ──(cool-down over, somebody asks)──▶ half_open: that one call is the trial
#     half_open ──(trial succeeds)──▶ closed        ──(trial fails)──▶ open
#     half_open ──(trial silent for too long, somebody asks)──▶ half_open, a new trial


BreakerState = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerSettings:
    """When to stop calling, for how long, and how long a trial may stay silent."""

    failure_limit: int = 3
    cooldown_seconds: float = 300.0
    trial_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        require_count(self.failure_limit, "failure_limit", least=1)
        require_number(self.cooldown_seconds, "cooldown_seconds", low=0)
        require_number(self.trial_timeout_seconds, "trial_timeout_seconds", low=0)


class BreakerDecision(NamedTuple):
    """Whether to call. A permitted call reports back with its `ticket`; a refused one has none
    and may ask again after `retry_after_seconds`."""

    ticket: int | None
    retry_after_seconds: float = 0.0


class Breaker:
    """Says whether a call may be made, by what came of the ones before; for any thread.

    `since` is when it opened last or the running trial began; a closed one waits for nothing.
    A ticket from before the last change of state changes nothing: a slow call that began while
    the breaker was closed can neither close it again nor be taken for the trial.
    """

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self._settings = settings or BreakerSettings()
        self._lock = threading.Lock()
        self._ticket = 0
        self.state: BreakerState = "closed"
        self.failures = 0
        self.since: datetime | None = None

    def allow(self, now: datetime) -> BreakerDecision:
        """Whether a call may be made at `now`.

        After the cool-down exactly one asker gets the trial; all others are
        refused until it reports or has been silent for `trial_timeout_seconds`.
        """
        with self._lock:
            if self.since is None:
                return BreakerDecision(self._ticket)
            settings = self._settings
            is_open = self.state == "open"
            wait = settings.cooldown_seconds if is_open else settings.trial_timeout_seconds
            passed = time_between(self.since, now).total_seconds()
            if passed < 0:
                # The clock jumped back, and the wait starts again: no wait is ever longer than
                # its setting counted from the last jump.
                passed, self.since = 0.0, now
            if passed < wait:
                return BreakerDecision(None, wait - passed)
            self._enter("half_open", self.failures, now)
            return BreakerDecision(self._ticket)

    def report(self, ticket: int, now: datetime, *, failed: bool) -> bool:
        """Take in that the call with `ticket` succeeded, or failed at `now`; whether it opened.

        A success starts the count of failures anew, and closes it after a trial. A
        failure is one more in a row: it opens at the limit, and at once when the
        trial fails.
        """
        with self._lock:
            if ticket != self._ticket or self.state == "open":
                return False
            is_trial = self.state == "half_open"
            self.failures = self.failures + 1 if failed else 0
            if failed and (is_trial or self.failures >= self._settings.failure_limit):
                self._enter("open", self.failures, now)
                return True
            if is_trial:
                self._enter("closed", 0, None)
            return False

    def _enter(self, state: BreakerState, failures: int, since: datetime | None) -> None:
        self.state, self.failures, self.since = state, failures, since
        self._ticket += 1


T = TypeVar("T")

STUCK_LIMIT = 8
"""So many calls may hang at once; the next one is refused instead of taking another thread."""


class TtlCache(Generic[T]):
    """The last `capacity` values, none of them older than `ttl_seconds` (P32).

    A clock that jumps back makes what was kept before the jump unusable rather
    than young.
    """

    def __init__(self, clock: Clock, *, capacity: int = 100, ttl_seconds: float = 60.0) -> None:
        self._clock = clock
        self._capacity = require_count(capacity, "capacity")
        self._ttl = timedelta(seconds=require_number(ttl_seconds, "ttl_seconds", low=0))
        self._kept: OrderedDict[Hashable, tuple[datetime, T]] = OrderedDict()
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, key: Hashable) -> T | None:
        """The value kept under `key` if it is fresh."""
        now = self._clock.now()
        with self._lock:
            found = self._kept.get(key)
            if found is not None and timedelta(0) <= now - found[0] <= self._ttl:
                self._kept.move_to_end(key)
                self.hits += 1
                return found[1]
            self._kept.pop(key, None)
            self.misses += 1
            return None

    def put(self, key: Hashable, value: T) -> None:
        """Keep `value`; the one used longest ago makes room for it."""
        with self._lock:
            self._kept[key] = (self._clock.now(), value)
            self._kept.move_to_end(key)
            while len(self._kept) > self._capacity:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


class Lanes:
    """Threads that run calls under a time limit; one that hangs is left behind.

    They are daemons: a call that never returns keeps no process alive.
    """

    def __init__(self, name: str = "agentmem-call") -> None:
        self._name = name
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._stuck: set[Future[Any]] = set()

    def run(self, call: Callable[[], T], timeout_seconds: float) -> T:
        """What `call` gives, or `TimedOut` after `timeout_seconds`; its errors are its own."""
        stuck = len(self._stuck)
        if stuck >= STUCK_LIMIT:
            raise TimedOut(f"{stuck} earlier calls are still hanging; this one was not made.")
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker(self._name)
        answer = worker.make(call)
        try:
            answer.exception(min(max(0.0, timeout_seconds), threading.TIMEOUT_MAX))
        except TimeoutError:
            worker.end()
            self._stuck.add(answer)
            answer.add_done_callback(self._stuck.discard)
            raise TimedOut(f"No answer within {timeout_seconds:g} seconds.") from None
        self._idle.put(worker)
        return answer.result()

    def close(self) -> None:
        """End the idle threads."""
        with suppress(queue.Empty):
            while True:
                worker = self._idle.get_nowait()
                worker.end()
                worker.join()


def settle(answer: Future[T], call: Callable[[], T]) -> None:
    """Make `call`, and give `answer` what comes of it."""
    try:
        answer.set_result(call())
    except BaseException as error:  # noqa: BLE001 - it is raised where the call was asked for
        answer.set_exception(error)
        del answer  # it holds the error, which holds this frame


class _Worker(threading.Thread):
    """A daemon that makes calls one after the other, until it is told to end."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.start()

    def make(self, call: Callable[[], T]) -> Future[T]:
        """Have `call` made; what comes of it."""
        answer: Future[T] = Future()
        self._jobs.put(partial(settle, answer, call))
        return answer

    def end(self) -> None:
        """Make no call after those that wait."""
        self._jobs.put(None)

    def run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # what it holds is not ours to keep


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt(Generic[T]):
    """What came of a guarded call: `value`, or the `problem` in words.

    `refused` means that the breaker did not let the call be made, `opened`
    that this failure opened it.
    """

    value: T | None = None
    problem: str = ""
    refused: bool = False
    opened: bool = False

    @property
    def ok(self) -> bool:
        return not self.problem


class CallGuard:
    """Makes calls under a time limit and stops making them while they keep failing (P31)."""

    def __init__(
        self,
        clock: Clock,
        *,
        settings: BreakerSettings | None = None,
        lanes: Lanes | None = None,
    ) -> None:
        self._clock = clock
        self._breaker = Breaker(settings)
        self._lanes = lanes or Lanes()

    @property
    def state(self) -> BreakerState:
        return self._breaker.state

    def call(self, call: Callable[[], T], *, timeout_seconds: float) -> Attempt[T]:
        """The answer of `call`, or why there is none; nothing is raised for a failure of it."""
        ticket, wait = self._breaker.allow(self._clock.now())
        if ticket is None:
            return Attempt(problem=f"paused for {wait:.0f} s after failures", refused=True)
        try:
            value = self._lanes.run(call, timeout_seconds)
        except BaseException as error:
            opened = self._breaker.report(ticket, self._clock.now(), failed=True)
            if not isinstance(error, Exception):
                raise
            return Attempt(problem=f"{type(error).__name__}: {error}", opened=opened)
        self._breaker.report(ticket, self._clock.now(), failed=False)
        return Attempt(value=value)

    def close(self) -> None:
        self._lanes.close()


# ----------------------------------------------------------------------------
# A second pair of hands for one search: compiled code that runs while the caller goes on.
#
# FAISS and onnxruntime let go of the interpreter, so a scan of many codes or the vector of a
# question costs no time when something else is done meanwhile on another core.


class Ahead:
    """One thread that does one call at a time; a call that comes meanwhile is made at once."""

    def __init__(self, *, cores: int | None = None) -> None:
        self._alone = (_cores() if cores is None else cores) < 2
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._free = threading.Semaphore(1)
        self._worker: _Worker | None = None

    def start(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin `call`; what is returned waits for its answer, or raises what it raised."""
        begun = self.begin(call)
        if begun is not None:
            return begun
        answer = call()
        return lambda: answer

    def begin(self, call: Callable[[], T]) -> Callable[[], T] | None:
        """`start`, where the thread is free and there is a core for it; None otherwise."""
        if os.getpid() != self._process:
            self._reset()  # a forked child has none of its parent's threads
        if self._alone or not self._free.acquire(blocking=False):
            return None
        free, process = self._free, self._process

        def made() -> T:
            try:
                return call()
            finally:
                free.release()  # before the answer: who has it finds the thread free

        try:
            self._worker = self._worker or _Worker("agentmem-ahead")
        except RuntimeError:  # no more threads, or the interpreter is going down
            free.release()
            return None
        answer = self._worker.make(made)
        return lambda: answer.result() if os.getpid() == process else call()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


# ----------------------------------------------------------------------------
# Know when calls on threads that nobody waits for have ended.


class UnderWay:
    """Counts calls that run on threads nobody waits for, so that their end can be waited for."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        with self._changed:
            self._count += 1

    def end(self) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Whether none is left; at the latest after `timeout_seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, timeout_seconds)


# ----------------------------------------------------------------------------
# Work that a thread of its own does whenever there is some.


class IndexUpkeep:
    """Runs jobs, in a thread of its own or, for tests, where they are asked for.

    `wake` never waits. A job that fails leaves the index as it was: the failure
    is kept in `failure` for whoever shows the state of things.
    """

    def __init__(
        self, work: Callable[[], bool], *, background: bool, name: str = "agentmem-upkeep"
    ) -> None:
        self._work = work
        self._background = background
        self._name = name
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._closed = False
        self.failure: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Whether a job waits, or is being done."""
        return self._thread is not None

    def wake(self) -> None:
        """See to it that `work` runs until it says there is nothing left."""
        if not self._background:
            while self._work():
                pass
            return
        with self._guard:
            if self._closed:
                return
            self._wanted = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._guard:
                if not self._wanted or self._closed:
                    self._thread = None
                    if self._closed:
                        self._work = _nothing_left
                    return
                self._wanted = False
            try:
                while not self._closed and self._work():
                    pass
            except Exception as error:  # noqa: BLE001  # a thread has nobody to raise to
                self.failure = error

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Return when no job is running, or after `timeout_seconds`; whether that was in time."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_seconds)
        return not thread.is_alive()

    def stop(self) -> None:
        """Start no other job, and let go of the index when the one at hand is done."""
        with self._guard:
            self._closed = True
            if self._thread is None:
                self._work = _nothing_left

    def close(self) -> None:
        """Finish the job at hand and start no other."""
        self.stop()
        self.wait()


def _nothing_left() -> bool:
    return False


# ----------------------------------------------------------------------------
# The first calls of something that takes longer to load than its callers may wait.


_log = logging.getLogger(__name__)
_HEAD_START_SECONDS = 0.001
"""What the caller gets to go on before loading takes the interpreter."""


class Early(IndexUpkeep):
    """Keeps calls in order while a thread loads what makes them, then makes them."""

    settle = IndexUpkeep.wait

    def __init__(self, load: Callable[[], Callable[..., object]]) -> None:
        super().__init__(self._make, background=True, name="agentmem-early")
        self._load = load
        self._waiting: deque[Callable[[Callable[..., object]], object]] = deque()

    def call(self, *arguments: Any, **named: Any) -> None:
        """Have the call made soon; nothing it gives or raises comes back."""
        self._waiting.append(lambda taker: taker(*arguments, **named))
        self.wake()

    def close(self, timeout_seconds: float | None = None) -> None:
        """Wait until every call was made, in that time, and let go of what makes them."""
        if self.wait(timeout_seconds):
            self.stop()
            del self._load

    def _make(self) -> bool:
        threading.Event().wait(_HEAD_START_SECONDS)
        while self._waiting:
            next_call = self._waiting.popleft()
            try:
                next_call(self._load())
            except Exception:  # noqa: BLE001 - nobody is there to catch it
                _log.exception("A call that was put off could not be made")
        return False
