"""Await calls that block, without letting one that hangs hold up the process."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_thread(call: Callable[[], T], *, name: str = "agentmem-call") -> T:
    """What `call` gives, from a daemon thread of its own.

    Unlike `asyncio.to_thread`, a cancelled wait is over at once: nothing at the
    end of the event loop or of the process waits for the thread.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type]  # one of both is set

    def work() -> None:
        value: T | None = None
        error: BaseException | None = None
        try:
            value = context.run(call)
        except StopIteration as raised:  # a future cannot carry it
            error = RuntimeError(f"StopIteration: {raised}")
        except BaseException as raised:  # noqa: BLE001 - it is raised where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    threading.Thread(target=work, name=name, daemon=True).start()
    return await answer


async def awaited(value: Awaitable[T] | T) -> T:
    """`value`, awaited if it has to be."""
    import inspect

    if inspect.isawaitable(value):
        return await value
    return value


class Stopped(Exception):
    """A signal was set before the answer came."""


POLL_SECONDS = 0.02


async def unless_stopped(work: Awaitable[T], signal: Any) -> T:
    """What `work` gives, or `Stopped` as soon as `signal` is set.

    `signal` is an `asyncio.Event`, a `threading.Event` or anything with
    `is_set()`; `None` never stops.
    """
    task = asyncio.ensure_future(work)
    if signal is None:
        return await task
    stop = asyncio.ensure_future(_set(signal))
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Stopped
    finally:
        for one in (task, stop):
            if not one.done():
                one.cancel()
        await asyncio.gather(task, stop, return_exceptions=True)


async def _set(signal: Any) -> None:
    if isinstance(signal, asyncio.Event):
        await signal.wait()
        return
    while not signal.is_set():
        await asyncio.sleep(POLL_SECONDS)
