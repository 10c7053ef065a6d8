"""Run work that Ctrl-C stops gently: it is told, and gives what it has."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")


class Stoppable:
    """One event loop for many runs; Ctrl-C during one sets its event and nothing more."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def run(self, work: Callable[[asyncio.Event], Awaitable[T]]) -> tuple[T, bool]:
        """What `work` gives, and whether it was stopped."""

        async def run() -> tuple[T, bool]:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            try:
                loop.add_signal_handler(signal.SIGINT, stop.set)
            except (NotImplementedError, RuntimeError, ValueError):
                # Not on this platform, or not in the main thread: Ctrl-C raises as usual.
                return await work(stop), False
            try:
                return await work(stop), stop.is_set()
            finally:
                loop.remove_signal_handler(signal.SIGINT)

        return self._runner.run(run())

    def close(self) -> None:
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
