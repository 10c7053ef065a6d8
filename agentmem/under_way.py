"""Know when calls on threads that nobody waits for have ended."""

from __future__ import annotations

import threading


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
