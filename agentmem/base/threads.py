"""Await calls that block, without letting one that hangs hold up the process."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar

from agentmem.base.guards import settle

T = TypeVar("T")


async def in_thread(call: Callable[[], T], *, name: str = "agentmem-call") -> T:
    """What `call` gives, from a daemon thread of its own.

    Unlike `asyncio.to_thread`, a cancelled wait is over at once: nothing at the
    end of the event loop or of the process waits for the thread.
    """
    context = contextvars.copy_context()

    def made() -> T:
        try:
            return context.run(call)
        except (StopIteration, KeyboardInterrupt, asyncio.CancelledError) as raised:
            # A future cannot carry the first, and the others would stop the loop, not the call.
            raise RuntimeError(f"the call raised {type(raised).__name__}") from raised

    return await asyncio.wrap_future(begin(made, name))


def begin(call: Callable[[], T], name: str) -> Future[T]:
    """What `call` gives, from a daemon thread that was begun for it."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # who stops waiting does not stop the call
    threading.Thread(target=settle, args=(answer, call), name=name, daemon=True).start()
    return answer


async def awaited(value: Awaitable[T] | T) -> T:
    """`value`, awaited if it has to be."""
    if inspect.isawaitable(value):
        return await value
    return value


def is_async(call: Callable[..., Any]) -> bool:
    """Whether calling gives something to await, as far as can be known before."""
    while isinstance(call, partial):
        call = call.func
    call = inspect.unwrap(call)
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
        getattr(call, "__call__", None)  # noqa: B004 - its colour is asked, not whether it is there
    )


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
    if signal.is_set():  # before anything of `work` has run
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise Stopped
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


# ----------------------------------------------------------------------------
# Run a coroutine for a caller that does not await.


def run_anywhere(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What the coroutine gives; inside a running event loop it runs on a thread of its own."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    return begin(lambda: asyncio.run(make()), "agentmem-web").result()


# ----------------------------------------------------------------------------
# How long a service asks us to wait.


LONGEST_WAIT_SECONDS = 3_600.0


def retry_after_seconds(header: object, *, now: datetime | None = None) -> float | None:
    """The seconds a Retry-After header asks for, at most an hour; `None` when it says nothing.

    It holds seconds or a date; a date needs `now`, else the machine's clock is asked.
    """
    if not isinstance(header, str) or not header.strip():
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            moment = parsedate_to_datetime(header)
        except (ValueError, TypeError, IndexError):
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    if not math.isfinite(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_WAIT_SECONDS)
