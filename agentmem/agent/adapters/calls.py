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
from functools import partial
from typing import Any, Literal, NamedTuple, ParamSpec, Protocol, TypeVar, Unpack, cast, overload

from agentmem.agent.adapters.replies import view_chat
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
from agentmem.text.messages import get

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
    return cast("Remembering[P, T]", remembering(TurnKeeper(memory, **how), fn))


def remembering(
    keeper: TurnKeeper,
    fn: Callable[..., Any],
    *,
    argument: str = "messages",
    view_of: Viewer = view_chat,
    take: Taker = OpenTurn.take,
    is_async: bool | None = None,
) -> Callable[..., Any]:
    """`fn` with memory, sync or async as it is; `take` gets what it gives for its `argument`."""
    signature = signature_of(fn)

    def read(args: tuple[Any, ...], options: dict[str, Any]) -> _Call:
        scope, off = options.pop("memory_scope", None), options.pop("memory_off", False)
        names = _positions(signature)
        place = _place_of(argument, names, args, options)
        messages = args[place] if isinstance(place, int) else options.get(place or "")

        def ask(messages: Any) -> Any:
            if isinstance(place, int):
                return fn(*args[:place], messages, *args[place + 1 :], **options)
            return fn(*args, **(options if place is None else {**options, place: messages}))

        if off:
            return _Call(messages, ask, None, Inside())
        if isinstance(messages, Iterable) and not isinstance(messages, str | bytes | Mapping):
            if not isinstance(messages, list | tuple):  # an iterator can be read only once
                messages = list(messages)
        elif not (isinstance(messages, str) and argument == "input"):
            keeper.note(f"a call without {argument} went without memory")
            return _Call(messages, ask, None)
        named = {**dict(zip(names, args, strict=False)), **options}
        return _Call(messages, ask, {"view_of": view_of, "scope": scope, "named": named})

    async def awaited_later(call: _Call, opened: OpenTurn | None, result: Awaitable[Any]) -> Any:
        """What a plain function gave that has to be awaited."""
        if opened is None:
            with call.around:
                return await result
        asked: Awaitable[Any] | None = result

        def ask(messages: Any) -> Any:
            nonlocal asked
            answer, asked = asked or call.ask(messages), None
            return answer

        return take(opened, await opened.acall(ask))

    def synchronous(*args: Any, **options: Any) -> Any:
        call = read(args, options)
        opened = None if call.whose is None else keeper.open(call.messages, **call.whose)
        with call.around:
            result = call.ask(call.messages) if opened is None else opened.call(call.ask)
        if inspect.isawaitable(result):
            return awaited_later(call, opened, result)
        return result if opened is None else take(opened, result)

    async def asynchronous(*args: Any, **options: Any) -> Any:
        call = read(args, options)
        opened = None if call.whose is None else await keeper.aopen(call.messages, **call.whose)

        async def ask(messages: Any) -> Any:
            return await awaited(call.ask(messages))

        with call.around:
            result = await (ask(call.messages) if opened is None else opened.acall(ask))
        return result if opened is None else take(opened, result)

    async def flowing(*args: Any, **options: Any) -> AsyncIterator[Any]:
        call = read(args, options)
        opened = None if call.whose is None else await keeper.aopen(call.messages, **call.whose)
        stream = call.ask(call.messages if opened is None else opened.sent)
        if opened is not None:
            stream = opened.watch(stream)
        async with contextlib.aclosing(stream) as chunks:
            async for chunk in chunks:
                yield chunk

    made: Any = synchronous
    if inspect.isasyncgenfunction(fn):
        made = flowing
    elif _runs_async(fn) if is_async is None else is_async:
        made = asynchronous
    # functools.wraps, also for callables without a name.
    functools.update_wrapper(made, fn.func if isinstance(fn, partial) else fn, updated=())
    made.__wrapped__ = fn
    made.memory, made.degradations = keeper.memory, keeper.degradations
    if signature is not None:
        made.__signature__ = _with_ours(signature)
    return cast("Callable[..., Any]", made)


class _Call(NamedTuple):
    """One call: its messages, and what it is with others."""

    messages: Any
    ask: Callable[[Any], Any]
    whose: dict[str, Any] | None
    """What to open a turn with; None where it goes without memory."""
    around: AbstractContextManager[None] = contextlib.nullcontext()
    """What it is made in, so that hooks further in know that memory is off."""


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fn`, or None where Python cannot tell."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _positions(signature: inspect.Signature | None) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []


def _place_of(
    name: str, positions: list[str], args: tuple[Any, ...], options: Mapping[str, Any]
) -> int | str | None:
    """Where the argument `name` stands, a keyword or a position; else the first of either that
    looks like messages."""
    if name in options:
        return name
    if name in positions and positions.index(name) < len(args):
        return positions.index(name)
    if name != "messages":
        return None
    places = (*enumerate(args), *options.items())
    return next((place for place, given in places if _looks_like_messages(given)), None)


def _looks_like_messages(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(get(item, "role"), str) for item in value)
    )


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
