"""Work an index does on itself: one job at a time, beside the searches or at once."""

from __future__ import annotations

import threading
from collections.abc import Callable


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

    def close(self) -> None:
        """Finish the job at hand and start no other."""
        with self._guard:
            self._closed = True
        self.wait()
