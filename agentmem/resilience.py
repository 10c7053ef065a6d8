"""Time limits, a breaker and a short memory around any call that may fail or hang."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from agentmem.core.breaker import (
    DEFAULT_SETTINGS,
    Breaker,
    BreakerSettings,
    BreakerState,
    allow,
    fail,
    succeed,
)
from agentmem.core.checks import require_count, require_number
from agentmem.core.values import dataclass
from agentmem.errors import TimedOut
from agentmem.protocols import Clock

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
        self._idle: queue.SimpleQueue[queue.SimpleQueue[Any]] = queue.SimpleQueue()
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
        lane.put((call, answer))
        if not answer.wait(timeout_seconds):
            with self._lock:
                self._stuck += 1
            if answer.abandon(self._freed):
                raise TimedOut(f"No answer within {timeout_seconds:g} seconds.")
        self._idle.put(lane)
        return answer.value()

    def close(self) -> None:
        """Let the idle threads end."""
        while True:
            try:
                self._idle.get_nowait().put(None)
            except queue.Empty:
                return

    def _freed(self) -> None:
        with self._lock:
            self._stuck -= 1

    def _start(self) -> queue.SimpleQueue[Any]:
        lane: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(lane,), name=self._name, daemon=True).start()
        return lane


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

    `refused` means that the breaker did not let the call be made.
    """

    value: T | None = None
    problem: str = ""
    refused: bool = False

    @property
    def ok(self) -> bool:
        return not self.problem


class Guard:
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
            self._report(decision.ticket, failed=True)
            return Attempt(problem=f"{type(error).__name__}: {error}")
        except BaseException:
            self._report(decision.ticket, failed=True)
            raise
        self._report(decision.ticket, failed=False)
        return Attempt(value=value)

    def close(self) -> None:
        self._lanes.close()

    def _report(self, ticket: int, *, failed: bool) -> None:
        with self._lock:
            before = self._breaker.state
            if failed:
                self._breaker = fail(
                    self._breaker, ticket, self._clock.now(), settings=self._settings
                )
            else:
                self._breaker = succeed(self._breaker, ticket)
            if self._breaker.state == "open" and before != "open":
                self.openings += 1
