"""A second pair of hands for one search: compiled code that runs while the caller goes on.

FAISS lets go of the interpreter, so a scan of many codes costs no time when
the words are looked up meanwhile on another core.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Ahead:
    """One thread that does one call at a time; a call that comes meanwhile is made at once."""

    def __init__(self, *, cores: int | None = None) -> None:
        self._alone = (_cores() if cores is None else cores) < 2
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._free = threading.Semaphore(1)
        self._jobs: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[Any]]] = SimpleQueue()
        self._started = False

    def start(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin `call`; what is returned waits for its answer, or raises what it raised."""
        if os.getpid() != self._process:
            self._reset()  # a forked child has none of its parent's threads
        if self._alone or not self._free.acquire(blocking=False):
            answer = call()
            return lambda: answer
        answers: SimpleQueue[Any] = SimpleQueue()
        try:
            self._ensure_thread()
        except RuntimeError:  # no more threads, or the interpreter is going down
            self._free.release()
            answer = call()
            return lambda: answer
        self._jobs.put((call, answers))

        def wait() -> T:
            value, error = answers.get()
            if error is not None:
                raise error
            found: T = value
            return found

        return wait

    def _ensure_thread(self) -> None:
        if not self._started:
            threading.Thread(target=self._work, name="agentmem-scan", daemon=True).start()
            self._started = True

    def _work(self) -> None:
        while True:
            call, answers = self._jobs.get()
            try:
                answers.put((call(), None))
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is wanted
                answers.put((None, error))
            del call, answers  # what they hold is not ours to keep
            self._free.release()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


ahead = Ahead()
