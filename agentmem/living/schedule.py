"""Consolidation every night, in the background, while the process lives.

A timer of its own thread sleeps until the hour; the work is done by the
memory's worker, one run for each owner, and stops after `LIMIT_SECONDS`.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from agentmem.errors import AgentMemError

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

_log = logging.getLogger(__name__)

CONSOLIDATE = "consolidate"
HOUR = 3
"""Local time; a night begins late for those who work at night."""
LIMIT_SECONDS = 600.0


class Nightly:
    """Starts a consolidation at `HOUR` of every day until it is closed."""

    def __init__(self, memory: MemoryManager, *, hour: int = HOUR) -> None:
        self._memory = weakref.ref(memory)  # a night to come keeps no memory alive
        self._hour = hour
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Wait for the next night; again is harmless."""
        with self._lock:
            memory = self._memory()
            if self._timer is None and not self._closed and memory is not None:
                seconds = seconds_until(memory.clock.now(), self._hour)
                self._timer = threading.Timer(seconds, self._fire)
                self._timer.name, self._timer.daemon = "agentmem-nightly", True
                self._timer.start()

    def close(self) -> None:
        """Wait no longer."""
        with self._lock:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _fire(self) -> None:
        memory = self._memory()
        if memory is not None:
            memory.worker.submit(CONSOLIDATE, {}, key=CONSOLIDATE)
        with self._lock:
            self._timer = None
        self.start()


def run_nightly(memory: MemoryManager, *, limit_seconds: float = LIMIT_SECONDS) -> int:
    """Consolidate owner by owner until the time is over; gives how many were reached.

    One that fails keeps nobody else from it.
    """
    from agentmem.living.consolidating import Consolidator

    deadline = time.monotonic() + limit_seconds
    reached = 0
    for scope in memory.store.upkeep.owners():
        if time.monotonic() > deadline:
            _log.warning("The nightly consolidation ran out of time; the next one goes on.")
            break
        try:
            report = Consolidator(memory).run(scope)
        except AgentMemError as error:
            _log.warning("One owner's memories were not consolidated tonight: %s", error)
            continue
        reached += 1
        if report.journal_id:
            _log.info(
                "Consolidated: %d merged, %d shortened, %d forgotten, %d tokens saved (undo: %s).",
                report.deduped, report.summarised + report.compressed, report.forgotten,
                report.tokens_saved, report.journal_id,
            )  # fmt: skip
    return reached


def seconds_until(now: datetime, hour: int) -> float:
    """How long it is until the clock on the wall shows `hour` again."""
    local = now.astimezone()
    night = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    if night <= local:
        night += timedelta(days=1)
    return (night - local).total_seconds()
