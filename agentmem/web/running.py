"""Run a coroutine for a caller that does not await."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_anywhere(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine gives; inside a running event loop it runs on a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    outcome: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(asyncio.run(make()))
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            errors.append(error)

    thread = threading.Thread(target=work, name="agentmem-web", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return outcome[0]
