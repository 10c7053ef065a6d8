"""Ids that sort by the time they were made: UUID version 7 (RFC 9562)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

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
        moment = (self._clock.now() - _EPOCH) // _MILLISECOND
        if not 0 <= moment <= _LARGEST_MOMENT:
            raise InvalidInput(
                "clock", moment, "is out of range", remedy="Set the clock after the year 1970."
            )
        with self._lock:
            last_moment, last_count = self._last
            count = 0
            if moment <= last_moment:
                moment, count = last_moment, last_count + 1
            if count > _LARGEST_COUNT:
                moment, count = moment + 1, 0
            self._last = (moment, count)
        noise = int.from_bytes(self._random_bytes(8), "big") >> 2
        return str(UUID(int=moment << 80 | 7 << 76 | count << 64 | 2 << 62 | noise))
