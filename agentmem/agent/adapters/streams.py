"""Watch a stream without changing it.

The watched stream gives the same chunks, object by object, as they come, has
the attributes of the original and passes for its class. When it ends, is
closed, fails or is dropped, whoever watches is told, once.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import gc
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

OnChunk = Callable[[Any], None]
OnEnd = Callable[[BaseException | None], None]
During = Callable[[], contextlib.AbstractContextManager[None]]

_collecting: set[int] = set()


def watch(
    stream: Any, *, on_chunk: OnChunk, on_end: OnEnd, during: During = contextlib.nullcontext
) -> Any:
    """`stream`, watched. It must have one of `__next__`, `__iter__`, `__anext__`, `__aiter__`.

    Each step of the stream runs inside `during()`.
    """
    watch_collections()
    kind = type(stream)
    return _class_for(
        hasattr(kind, "__iter__") or hasattr(kind, "__next__"),
        hasattr(kind, "__aiter__") or hasattr(kind, "__anext__"),
        hasattr(kind, "__enter__"),
        hasattr(kind, "__aenter__"),
    )(stream, on_chunk, on_end, during)


def is_stream(value: object) -> bool:
    """Whether `value` can be watched: something one goes through, but no container or model."""
    kind = type(value)
    if any(hasattr(kind, name) for name in ("__next__", "__anext__", "__aiter__")):
        return True
    return hasattr(kind, "__iter__") and not (
        hasattr(kind, "__len__") or hasattr(kind, "__getitem__") or hasattr(kind, "model_dump")
    )


def watch_collections() -> None:
    """Know from now on when a thread collects garbage."""
    if _note_collection not in gc.callbacks:
        gc.callbacks.append(_note_collection)


def outside_collection(call: Callable[[], None]) -> None:
    """Run `call` here, or on a thread of its own while this one collects garbage.

    The collector runs anywhere, also under a lock that `call` needs.
    """
    if threading.get_ident() in _collecting:
        _thread.start_new_thread(call, ())
    else:
        call()


def closing(close: Callable[..., Any], tell: OnEnd) -> Callable[..., Any]:
    """`close`, whether it is awaited or not, after which `tell` hears that it is over."""

    @functools.wraps(close)
    def closed(*args: Any, **kwargs: Any) -> Any:
        try:
            result = close(*args, **kwargs)
        except BaseException as error:
            tell(error)
            raise
        if inspect.isawaitable(result):
            return waited(result)
        tell(None)
        return result

    async def waited(result: Awaitable[Any]) -> Any:
        try:
            return await result
        finally:
            tell(None)

    return closed


def _note_collection(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        _collecting.add(threading.get_ident())
    else:
        _collecting.discard(threading.get_ident())


class Watched:
    """Stands for a stream; everything that is not iteration is the stream's own."""

    def __init__(self, stream: Any, on_chunk: OnChunk, on_end: OnEnd, during: During) -> None:
        set_own = object.__setattr__
        set_own(self, "_agentmem_stream", stream)
        set_own(self, "_agentmem_on_chunk", on_chunk)
        set_own(self, "_agentmem_on_end", on_end)
        set_own(self, "_agentmem_during", during)
        set_own(self, "_agentmem_iterator", None)
        set_own(self, "_agentmem_stepping", False)

    @property  # type: ignore[misc]  # isinstance() asks for __class__, and the caller's must hold
    def __class__(self) -> type:  # a property, as isinstance() reads it
        return type(self._agentmem_stream)

    def __getattr__(self, name: str) -> Any:
        found = getattr(object.__getattribute__(self, "_agentmem_stream"), name)
        if name in ("close", "aclose") and callable(found):
            return closing(found, self._agentmem_end)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._agentmem_stream, name, value)

    def __repr__(self) -> str:
        return repr(self._agentmem_stream)

    def __del__(self) -> None:
        on_end = self.__dict__.pop("_agentmem_on_end", None)
        if on_end is not None:
            outside_collection(functools.partial(on_end, None))

    def _agentmem_end(self, error: BaseException | None) -> None:
        """Tell that the stream is over; again is harmless."""
        on_end = self.__dict__.pop("_agentmem_on_end", None)
        if on_end is not None:
            on_end(error)

    def _agentmem_source(self, step: str, begin: Callable[[Any], Any]) -> Any:
        """What the chunks come from: the stream if it has `step`, else what it begins."""
        source = self._agentmem_iterator
        if source is None:
            stream = self._agentmem_stream
            source = stream if hasattr(type(stream), step) else begin(stream)
            object.__setattr__(self, "_agentmem_iterator", source)
        return source

    @contextlib.contextmanager
    def _agentmem_step(self) -> Iterator[None]:
        """Around each step; the one that finds the end, or fails, tells who watches."""
        object.__setattr__(self, "_agentmem_stepping", True)
        try:
            with self._agentmem_during():
                yield
        except BaseException as error:
            over = isinstance(error, StopIteration | StopAsyncIteration)
            self._agentmem_end(None if over else error)
            raise
        finally:
            object.__setattr__(self, "_agentmem_stepping", False)

    def _agentmem_closed(self) -> None:
        """What the stream reads from was closed; in the middle of a step the step will tell."""
        if not self._agentmem_stepping:
            self._agentmem_end(None)


class _Iterates(Watched):
    def __iter__(self) -> Iterator[Any]:
        if not hasattr(type(self._agentmem_stream), "__next__"):
            object.__setattr__(self, "_agentmem_iterator", iter(self._agentmem_stream))
        return self

    def __next__(self) -> Any:
        source = self._agentmem_source("__next__", iter)
        with self._agentmem_step():
            chunk = next(source)
        self._agentmem_on_chunk(chunk)
        return chunk


class _IteratesAsync(Watched):
    def __aiter__(self) -> AsyncIterator[Any]:
        if not hasattr(type(self._agentmem_stream), "__anext__"):
            object.__setattr__(self, "_agentmem_iterator", aiter(self._agentmem_stream))
        return self

    async def __anext__(self) -> Any:
        source = self._agentmem_source("__anext__", aiter)
        with self._agentmem_step():
            chunk = await anext(source)
        self._agentmem_on_chunk(chunk)
        return chunk


class _Enters(Watched):
    def __enter__(self) -> Any:
        entered = self._agentmem_stream.__enter__()
        return self if entered is self._agentmem_stream else entered

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        try:
            return self._agentmem_stream.__exit__(kind, error, trace)
        finally:
            self._agentmem_end(error)


class _EntersAsync(Watched):
    async def __aenter__(self) -> Any:
        entered = await self._agentmem_stream.__aenter__()
        return self if entered is self._agentmem_stream else entered

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> Any:
        try:
            return await self._agentmem_stream.__aexit__(kind, error, trace)
        finally:
            self._agentmem_end(error)


@functools.cache
def _class_for(iterates: bool, iterates_async: bool, enters: bool, enters_async: bool) -> type:
    """A class with exactly the protocols of the stream, so that hasattr() stays true to it."""
    wanted = (
        (_Iterates, iterates),
        (_IteratesAsync, iterates_async),
        (_Enters, enters),
        (_EntersAsync, enters_async),
    )
    bases = tuple(base for base, has in wanted if has)
    return type("WatchedStream", bases or (Watched,), {})
