"""Ids that sort by the time they were made: UUID version 7 (RFC 9562)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from agentmem.errors import InvalidInput
from agentmem.protocols import Clock

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LARGEST_MOMENT = (1 << 48) - 1
_LARGEST_COUNT = (1 << 12) - 1


class Ids:
    """Makes ids that never repeat and never go back, also when the clock does.

    Within one millisecond a 12-bit counter keeps the order; when it is used up
    the id borrows the next millisecond. The other 62 bits are random.
    """

    def __init__(self, clock: Clock, *, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last = (0, -1)

    def new(self) -> str:
        """The next id."""
        (made,) = self.take(1)
        return made

    def take(self, count: int) -> list[str]:
        """The next `count` ids, made at one moment."""
        moment = (self._clock.now() - _EPOCH) // _MILLISECOND
        if not 0 <= moment <= _LARGEST_MOMENT:
            raise InvalidInput(
                "clock", moment, "is out of range", remedy="Set the clock after the year 1970."
            )
        with self._lock:
            places = self._places(moment, count)
        noise = self._random_bytes(8 * count)
        made = []
        for number, (at, counter) in enumerate(places):
            low = int.from_bytes(noise[8 * number : 8 * number + 8], "big") >> 2
            digits = f"{at << 80 | 7 << 76 | counter << 64 | 2 << 62 | low:032x}"
            made.append(
                f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
            )
        return made

    def _places(self, moment: int, count: int) -> list[tuple[int, int]]:
        """The next moments and counters; the lock is held."""
        at, counter = self._last
        if moment > at:
            at, counter = moment, -1
        found = []
        for _ in range(count):
            counter += 1
            if counter > _LARGEST_COUNT:
                at, counter = at + 1, 0
            found.append((at, counter))
        self._last = (at, counter)
        return found
