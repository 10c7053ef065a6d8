"""Time limits, a breaker and a short memory around any call that may fail or hang."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, Literal, NamedTuple, TypeVar, get_args

from agentmem.base.checks import require_choice, require_count, require_number
from agentmem.base.errors import InvalidInput, TimedOut
from agentmem.base.protocols import Clock
from agentmem.base.time import time_between, utc_offset
from agentmem.base.types import require_instant

# ----------------------------------------------------------------------------
# Circuit-breaker transitions as functions over one value (P31).
#
#     closed ──(failure_limit failures in a row)──▶ open
#     open ──(cool-down over, somebody asks)──▶ half_open: that one call is the trial
#     half_open ──(trial succeeds)──▶ closed        ──(trial fails)──▶ open
#     half_open ──(trial silent for too long, somebody asks)──▶ half_open, a new trial
#
# `allow` hands out a ticket with each permitted call, and `succeed` or `fail`
# take it back. A ticket from before the last change of state changes nothing: a
# slow call that began while the breaker was closed can neither close it again
# nor be taken for the trial. The shell keeps one `Breaker` under a lock and
# replaces it by what these functions return; nothing here waits or calls.
#
# A clock that jumps back starts the wait again at the new time, so no wait is
# ever longer than its setting counted from the last jump.


BreakerState = Literal["closed", "open", "half_open"]
Permission = Literal["call", "trial", "refuse"]


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


DEFAULT_SETTINGS = BreakerSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The whole state: failures in a row, since when it waits, and which tickets count.

    `opened_at` is when it opened last, and `trial_at` when the running trial
    began; each is set exactly while it is being waited for.
    """

    state: BreakerState = "closed"
    failures: int = 0
    opened_at: datetime | None = None
    trial_at: datetime | None = None
    ticket: int = 0

    def __post_init__(self) -> None:
        require_choice(self.state, get_args(BreakerState), "state")
        require_count(self.failures, "failures")
        require_count(self.ticket, "ticket")
        require_instant(self.opened_at, "opened_at")
        require_instant(self.trial_at, "trial_at")
        if (self.opened_at is not None) != (self.state == "open"):
            raise InvalidInput("opened_at", self.opened_at, f"does not fit the state {self.state}")
        if (self.trial_at is not None) != (self.state == "half_open"):
            raise InvalidInput("trial_at", self.trial_at, f"does not fit the state {self.state}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerDecision:
    """Whether to call. A permitted call reports back with `ticket`; a refused one may ask
    again after `retry_after_seconds`."""

    permission: Permission
    ticket: int | None = None
    retry_after_seconds: float = 0.0

    @property
    def allowed(self) -> bool:
        """Whether the call may be made."""
        return self.permission != "refuse"


def allow(
    breaker: Breaker, now: datetime, *, settings: BreakerSettings = DEFAULT_SETTINGS
) -> tuple[BreakerDecision, Breaker]:
    """Whether a call may be made at `now`, and the breaker to keep from here on.

    After the cool-down exactly one asker gets the trial; all others are
    refused until it reports or has been silent for `trial_timeout_seconds`.
    """
    utc_offset(now, "now")
    if breaker.opened_at is not None:
        left, since = _wait(breaker.opened_at, now, settings.cooldown_seconds)
        waiting = replace(breaker, opened_at=since)
    elif breaker.trial_at is not None:
        left, since = _wait(breaker.trial_at, now, settings.trial_timeout_seconds)
        waiting = replace(breaker, trial_at=since)
    else:
        return BreakerDecision(permission="call", ticket=breaker.ticket), breaker
    if left > 0:
        return BreakerDecision(permission="refuse", retry_after_seconds=left), waiting
    trial = replace(
        breaker, state="half_open", opened_at=None, trial_at=now, ticket=breaker.ticket + 1
    )
    return BreakerDecision(permission="trial", ticket=trial.ticket), trial


def succeed(breaker: Breaker, ticket: int) -> Breaker:
    """The breaker after the call with `ticket` succeeded: the count of failures starts anew.

    A successful trial closes it. An old ticket changes nothing.
    """
    if not _counts(breaker, ticket):
        return breaker
    if breaker.state == "half_open":
        return Breaker(ticket=breaker.ticket + 1)
    return replace(breaker, failures=0) if breaker.failures else breaker


def fail(
    breaker: Breaker, ticket: int, now: datetime, *, settings: BreakerSettings = DEFAULT_SETTINGS
) -> Breaker:
    """The breaker after the call with `ticket` failed at `now`: one more in a row.

    It opens at the limit, and at once when the trial fails. An old ticket
    changes nothing.
    """
    utc_offset(now, "now")
    if not _counts(breaker, ticket):
        return breaker
    failures = breaker.failures + 1
    if breaker.state == "closed" and failures < settings.failure_limit:
        return replace(breaker, failures=failures)
    return Breaker(state="open", failures=failures, opened_at=now, ticket=breaker.ticket + 1)


def _counts(breaker: Breaker, ticket: int) -> bool:
    require_count(ticket, "ticket")
    return ticket == breaker.ticket and breaker.state != "open"


def _wait(since: datetime, now: datetime, seconds: float) -> tuple[float, datetime]:
    """How many of `seconds` are left, and since when they count."""
    passed = time_between(since, now).total_seconds()
    if passed < 0:
        return seconds, now
    return max(0.0, seconds - passed), since


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
        self._idle: queue.SimpleQueue[_Lane] = queue.SimpleQueue()
        self._stuck = 0
        self._lock = threading.Lock()

    def run(self, call: Callable[[], T], timeout_seconds: float) -> T:
        """What `call` gives, or `TimedOut` after `timeout_seconds`; its errors are its own."""
        if self._stuck >= STUCK_LIMIT:
            raise TimedOut(f"{self._stuck} earlier calls are still hanging; this one was not made.")
        try:
            lane = self._idle.get_nowait()
        except queue.Empty:
            lane = self._start()
        answer = _Answer[T]()
        lane.jobs.put((call, answer))
        if not answer.wait(timeout_seconds):
            with self._lock:
                self._stuck += 1
            if answer.abandon(self._freed):
                raise TimedOut(f"No answer within {timeout_seconds:g} seconds.")
        self._idle.put(lane)
        return answer.value()

    def close(self) -> None:
        """End the idle threads."""
        while True:
            try:
                lane = self._idle.get_nowait()
            except queue.Empty:
                return
            lane.jobs.put(None)
            lane.thread.join()

    def _freed(self) -> None:
        with self._lock:
            self._stuck -= 1

    def _start(self) -> _Lane:
        jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        thread = threading.Thread(target=_serve, args=(jobs,), name=self._name, daemon=True)
        thread.start()
        return _Lane(jobs, thread)


class _Lane(NamedTuple):
    jobs: queue.SimpleQueue[Any]
    thread: threading.Thread


class _Answer(Generic[T]):
    """A place for what a call gives, and for whoever stopped waiting for it."""

    def __init__(self) -> None:
        self._waited_for = threading.Lock()  # held until the answer is there
        self._waited_for.acquire()
        self._lock = threading.Lock()
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._left: Callable[[], None] | None = None

    def wait(self, timeout_seconds: float) -> bool:
        """Whether the answer came within that time; asked once."""
        seconds = min(max(0.0, timeout_seconds), threading.TIMEOUT_MAX)
        return self._waited_for.acquire(timeout=seconds)

    def set(self, value: T | None, error: BaseException | None) -> bool:
        """Keep the answer; whether somebody still waits for it."""
        with self._lock:
            self._value, self._error = value, error
            self._done = True
            self._waited_for.release()
            left = self._left
        if left is not None:
            left()
        return left is None

    def abandon(self, freed: Callable[[], None]) -> bool:
        """Stop waiting, unless the answer is there by now; `freed` is called when it comes."""
        with self._lock:
            if not self._done:
                self._left = freed
                return True
        freed()
        return False

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # set together with done


def _serve(lane: queue.SimpleQueue[Any]) -> None:
    while True:
        job = lane.get()
        if job is None:
            return
        call, answer = job
        try:
            value, error = call(), None
        except BaseException as raised:  # noqa: BLE001 - it is raised where the call was asked for
            value, error = None, raised
        wanted = answer.set(value, error)
        del call, answer, value, error, job
        if not wanted:
            return


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
        settings: BreakerSettings = DEFAULT_SETTINGS,
        lanes: Lanes | None = None,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._breaker = Breaker()
        self._lock = threading.Lock()
        self._lanes = lanes or Lanes()
        self.openings = 0

    @property
    def state(self) -> BreakerState:
        return self._breaker.state

    def call(self, call: Callable[[], T], *, timeout_seconds: float) -> Attempt[T]:
        """The answer of `call`, or why there is none; nothing is raised for a failure of it."""
        with self._lock:
            decision, self._breaker = allow(
                self._breaker, self._clock.now(), settings=self._settings
            )
        if not decision.allowed or decision.ticket is None:
            wait = decision.retry_after_seconds
            return Attempt(problem=f"paused for {wait:.0f} s after failures", refused=True)
        try:
            value = self._lanes.run(call, timeout_seconds)
        except Exception as error:  # noqa: BLE001 - whatever failed, the answer goes on without it
            opened = self._report(decision.ticket, failed=True)
            return Attempt(problem=f"{type(error).__name__}: {error}", opened=opened)
        except BaseException:
            self._report(decision.ticket, failed=True)
            raise
        self._report(decision.ticket, failed=False)
        return Attempt(value=value)

    def close(self) -> None:
        self._lanes.close()

    def _report(self, ticket: int, *, failed: bool) -> bool:
        """Tell the breaker; whether that opened it."""
        with self._lock:
            before = self._breaker.state
            if failed:
                self._breaker = fail(
                    self._breaker, ticket, self._clock.now(), settings=self._settings
                )
            else:
                self._breaker = succeed(self._breaker, ticket)
            opened = self._breaker.state == "open" and before != "open"
            self.openings += opened
        return opened


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
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], queue.SimpleQueue[Any]]] = (
            queue.SimpleQueue()
        )
        self._started = False

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
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            self._ensure_thread()
        except RuntimeError:  # no more threads, or the interpreter is going down
            self._free.release()
            return None
        self._jobs.put((call, answers))
        process = self._process

        def wait() -> T:
            if os.getpid() != process:
                return call()
            value, error = answers.get()
            if error is not None:
                raise error
            found: T = value
            return found

        return wait

    def _ensure_thread(self) -> None:
        if not self._started:
            threading.Thread(target=self._work, name="agentmem-ahead", daemon=True).start()
            self._started = True

    def _work(self) -> None:
        while True:
            call, answers = self._jobs.get()
            found: tuple[Any, BaseException | None]
            try:
                found = (call(), None)
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is wanted
                found = (None, error)
            self._free.release()  # before the answer: who has it finds the thread free
            answers.put(found)
            del call, answers, found  # what they hold is not ours to keep


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


# ----------------------------------------------------------------------------
# How long to wait before failed work is tried again.


def retry_delay(
    attempts: int,
    *,
    first_seconds: float = 2.0,
    longest_seconds: float = 300.0,
    most_attempts: int = 5,
) -> float | None:
    """Seconds until the next try after `attempts` failures, or None when it is time to give up.

    Each wait is twice the one before it, up to `longest_seconds`.
    """
    require_count(attempts, "attempts", least=1)
    require_number(first_seconds, "first_seconds", low=0)
    require_number(longest_seconds, "longest_seconds", low=0)
    if attempts >= require_count(most_attempts, "most_attempts", least=1):
        return None
    doublings = min(attempts - 1, 1_000)  # a float holds no more
    return float(min(longest_seconds, first_seconds * 2.0**doublings))


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
# The first calls of something that takes longer to load than its callers may wait.


_log = logging.getLogger(__name__)
_HEAD_START_SECONDS = 0.001
"""What the caller gets to go on before loading takes the interpreter."""


class Early:
    """Keeps calls in order while a thread loads what makes them, then makes them."""

    def __init__(self, load: Callable[[], Callable[..., object]]) -> None:
        self._load = load
        self._waiting: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether calls wait, or are being made."""
        return self._thread is not None

    def call(self, *arguments: Any, **named: Any) -> None:
        """Have the call made soon; nothing it gives or raises comes back."""
        with self._lock:
            self._waiting.append((arguments, named))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="agentmem-early", daemon=True
                )
                self._thread.start()

    def settle(self, timeout_seconds: float | None = None) -> bool:
        """Wait until every call was made; whether that was in time."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return True
        thread.join(timeout_seconds)
        return not thread.is_alive()

    def close(self, timeout_seconds: float | None = None) -> None:
        """Wait until every call was made, in that time, and let go of what makes them."""
        if self.settle(timeout_seconds):
            self._load = _refuse

    def _work(self) -> None:
        threading.Event().wait(_HEAD_START_SECONDS)
        while (next_call := self._next()) is not None:
            arguments, named = next_call
            try:
                self._load()(*arguments, **named)
            except Exception:  # noqa: BLE001 - nobody is there to catch it
                _log.exception("A call that was put off could not be made")

    def _next(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.pop(0)
            self._thread = None  # from here on a call finds everything loaded
            return None


def _refuse() -> Callable[..., object]:
    raise RuntimeError("a call came after the last")


class IndexUpkeep:
    """Runs an index's own jobs, in a thread of its own or, for tests, where they are asked for.

    `wake` never waits. A job that fails leaves the index as it was: the failure
    is kept in `failure` for whoever shows the state of things.
    """

    def __init__(self, work: Callable[[], bool], *, background: bool) -> None:
        self._work = work
        self._background = background
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._closed = False
        self.failure: BaseException | None = None

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
                self._thread = threading.Thread(target=self._run, name="agentmem-upkeep")
                self._thread.daemon = True
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

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Return when no job is running, or after `timeout_seconds`."""
        with self._guard:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout_seconds)

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
