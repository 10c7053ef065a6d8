"""Memory for the clients people already call: one file a client.

Importing this loads none of them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from agentmem.agent.adapters.replies import CallArguments, read_call, signature_of, view_chat
from agentmem.agent.adapters.turn import (
    Inside,
    OpenTurn,
    TurnKeeper,
    TurnMaker,
    TurnOptions,
    Viewer,
)
from agentmem.base.errors import InvalidInput
from agentmem.base.threads import awaited
from agentmem.base.types import ScopeLike

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Taker = Callable[[OpenTurn, Any], Any]


class Remembering(Protocol[P, T_co]):
    """A wrapped callable: its own parameters, and the two that are about memory."""

    @overload
    def __call__(
        self,
        *args: Any,
        stream: Literal[True],
        memory_scope: ScopeLike | None = None,
        memory_off: bool = False,
        **options: Any,
    ) -> Any: ...
    @overload
    def __call__(self, *args: P.args, **options: P.kwargs) -> T_co: ...
    @overload
    def __call__(
        self,
        *args: Any,
        memory_scope: ScopeLike | None,
        memory_off: bool = False,
        **options: Any,
    ) -> T_co: ...
    @overload
    def __call__(self, *args: Any, memory_off: bool, **options: Any) -> T_co: ...

    @property
    def memory(self) -> TurnMaker: ...
    @property
    def degradations(self) -> deque[str]: ...


def wrap(memory: TurnMaker, fn: Callable[P, T], **how: Unpack[TurnOptions]) -> Remembering[P, T]:
    """`fn` with memory: the same arguments, the same result, two more keywords.

    `fn` is any chat-completions callable: `litellm.completion`, `acompletion`,
    `client.chat.completions.create`, or one of your own; sync or async,
    streaming or not. Before the call the reference goes in before the last
    user message (A1); afterwards the answer is remembered in the background.

    Per call, `memory_scope=` says whose memory it is (a Scope, a mapping or a
    user's id; else `scope`, else the request's `metadata["user_id"]` or `user`)
    and `memory_off=True` leaves memory out. `on_turn` is shown each turn when
    it has ended. What `fn` raises is raised; what memory raises is in
    `degradations` of the wrapped function. Wrapping what is wrapped already
    gives it back.
    """
    if not callable(fn):
        raise InvalidInput("fn", fn, "cannot be called", remedy="Pass a chat-completions function.")
    if (
        not any(how.values())
        and getattr(fn, "memory", None) is memory
        and hasattr(fn, "degradations")
    ):
        return cast("Remembering[P, T]", fn)
    keeper = TurnKeeper(memory, **how)
    return cast("Remembering[P, T]", Wrapping(keeper, fn).function())


class Wrapping:
    """One wrapped callable: where its messages are, and what is done with its result."""

    def __init__(
        self,
        keeper: TurnKeeper,
        fn: Callable[..., Any],
        *,
        argument: str = "messages",
        view_of: Viewer = view_chat,
        take: Taker = OpenTurn.take,
        is_async: bool | None = None,
    ) -> None:
        self._keeper = keeper
        self._fn = fn
        self._argument = argument
        self._view_of = view_of
        self._take = take
        self._is_async = _runs_async(fn) if is_async is None else is_async
        self._signature = signature_of(fn)

    def function(self) -> Callable[..., Any]:
        """The callable to use instead, of the same colour."""
        if inspect.isasyncgenfunction(self._fn):
            made = self._flowing()
        elif self._is_async:
            made = self._asynchronous()
        else:
            made = self._synchronous()
        made.memory = self._keeper.memory  # type: ignore[attr-defined]  # for those who look
        made.degradations = self._keeper.degradations  # type: ignore[attr-defined]  # the same
        if self._signature is not None:
            made.__signature__ = _with_ours(self._signature)  # type: ignore[attr-defined]  # inspect reads it
        return made

    def _synchronous(self) -> Callable[..., Any]:
        @_like(self._fn)
        def wrapped(*args: Any, **options: Any) -> Any:
            call, whose, around = self._read(args, options)
            opened = None if whose is None else self._keeper.open(call.messages, **whose)
            ask = partial(call.ask, self._fn)
            with around:
                result = ask(call.messages) if opened is None else opened.call(ask)
            if inspect.isawaitable(result):
                return self._awaited(result, opened, ask, around)
            return result if opened is None else self._take(opened, result)

        return wrapped

    def _asynchronous(self) -> Callable[..., Any]:
        @_like(self._fn)
        async def wrapped(*args: Any, **options: Any) -> Any:
            call, whose, around = self._read(args, options)
            opened = None if whose is None else await self._keeper.aopen(call.messages, **whose)

            async def ask(messages: Any) -> Any:
                return await awaited(call.ask(self._fn, messages))

            with around:
                result = await (ask(call.messages) if opened is None else opened.acall(ask))
            return result if opened is None else self._take(opened, result)

        return wrapped

    def _flowing(self) -> Callable[..., Any]:
        @_like(self._fn)
        async def wrapped(*args: Any, **options: Any) -> AsyncIterator[Any]:
            call, whose, _ = self._read(args, options)
            opened = None if whose is None else await self._keeper.aopen(call.messages, **whose)
            stream = call.ask(self._fn, call.messages if opened is None else opened.sent)
            if opened is not None:
                stream = opened.watch(stream)
            async with contextlib.aclosing(stream) as chunks:
                async for chunk in chunks:
                    yield chunk

        return wrapped

    async def _awaited(
        self,
        result: Awaitable[Any],
        opened: OpenTurn | None,
        ask: Callable[[Any], Any],
        around: AbstractContextManager[None],
    ) -> Any:
        """What a plain function gave that has to be awaited."""
        if opened is None:
            with around:
                return await result
        asked: Awaitable[Any] | None = result

        def ask_later(messages: Any) -> Any:
            nonlocal asked
            answer, asked = asked or ask(messages), None
            return answer

        return self._take(opened, await opened.acall(ask_later))

    def _read(
        self, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[CallArguments, dict[str, Any] | None, AbstractContextManager[None]]:
        """The call; what to open a turn with, None when it goes without memory; what it is
        made in, so that hooks further in know that memory is off."""
        scope, off = options.pop("memory_scope", None), options.pop("memory_off", False)
        call = read_call(self._signature, args, options, self._argument)
        if off:
            return call, None, Inside()
        messages, around = call.messages, contextlib.nullcontext()
        if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
            if not isinstance(messages, list | tuple):  # an iterator can be read only once
                call = replace(call, messages=list(messages))
        elif not (isinstance(messages, str) and self._argument == "input"):
            self._keeper.note(f"a call without {self._argument} went without memory")
            return call, None, around
        return call, {"view_of": self._view_of, "scope": scope, "named": call.named}, around


def _runs_async(fn: Callable[..., Any]) -> bool:
    """Whether `fn` surely gives something to await.

    Some clients hide their coroutine functions behind a plain decorator; those
    bound to an async resource are known, the others are found out when they
    return.
    """
    inner = fn.func if isinstance(fn, partial) else fn
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(inner, "__call__", None)  # noqa: B004  # an object may be async to call
    if not inspect.isroutine(inner) and inspect.iscoroutinefunction(call):
        return True
    hidden = of_async_client(getattr(inner, "__self__", None))
    return hidden and inspect.iscoroutinefunction(inspect.unwrap(inner))


def of_async_client(resource: object) -> bool:
    """Whether a resource of an SDK is that of an async client."""
    return any(base.__name__ == "AsyncAPIResource" for base in type(resource).__mro__)


def _like(fn: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """functools.wraps, also for callables without a name."""
    named = fn.func if isinstance(fn, partial) else fn

    def decorate(made: Callable[..., Any]) -> Callable[..., Any]:
        functools.update_wrapper(made, named, updated=())
        made.__wrapped__ = fn  # type: ignore[attr-defined]  # set by update_wrapper, here to the partial
        return made

    return decorate


def _with_ours(signature: inspect.Signature) -> inspect.Signature:
    """The signature with `memory_scope` and `memory_off`, before any `**options`."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    ours = [
        inspect.Parameter("memory_scope", keyword, default=None, annotation="ScopeLike | None"),
        inspect.Parameter("memory_off", keyword, default=False, annotation="bool"),
    ]
    parameters = [
        p for p in signature.parameters.values() if p.name not in ("memory_scope", "memory_off")
    ]
    rest = [p for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD]
    first = [p for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD]
    return signature.replace(parameters=[*first, *ours, *rest])
