"""Memory inside a client of the OpenAI SDK.

Everything the SDK offers for asking a model ends in two methods of a resource,
`create` and `parse`: `.stream()`, `.with_raw_response` and
`.with_streaming_response` all call them. So those two are wrapped, on the
resources of a copy of the client, and a turn is opened once whichever way it
is reached.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from agentmem.agent.adapters.calls import Wrapping
from agentmem.agent.adapters.replies import signature_of, view_chat, view_responses
from agentmem.agent.adapters.turn import OnTurn, OpenTurn, TurnKeeper, TurnMaker, Viewer
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput
from agentmem.base.types import ScopeLike

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI

Client = TypeVar("Client")

_KEEPER = "_agentmem_keeper"
_patching = threading.RLock()


@overload
def wrap_openai(
    client: OpenAI,
    memory: TurnMaker,
    *,
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> RememberingOpenAI: ...
@overload
def wrap_openai(
    client: AsyncOpenAI,
    memory: TurnMaker,
    *,
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> RememberingAsyncOpenAI: ...
@overload
def wrap_openai(
    client: Client,
    memory: TurnMaker,
    *,
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> Client: ...
def wrap_openai(
    client: Any,
    memory: TurnMaker,
    *,
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> Any:
    """A copy of `client` whose chat completions and responses have memory.

    `client` is an `OpenAI`, an `AsyncOpenAI` or one of their kind (Azure); it
    stays as it is. The copy shares its connections, is an instance of the same
    class, and its own `copy()` and `with_options()` keep the memory. Every
    asking method takes `memory_scope=` and `memory_off=` as in `wrap`.
    """
    if getattr(client, _KEEPER, None) is not None and client.memory is memory:
        return client
    kind = type(client)
    own = getattr(client, "__dict__", {})
    if not hasattr(kind, "copy") or not (hasattr(kind, "chat") or "chat" in own):
        raise InvalidInput(
            "client", client, "is no client of the OpenAI SDK",
            remedy="Pass OpenAI() or AsyncOpenAI(); for another callable use memory.wrap(fn).",
        )  # fmt: skip
    keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)
    return _remembering(client.copy(), keeper)


def _remembering(client: Any, keeper: TurnKeeper) -> Any:
    """`client` turned into one of our class, in place."""
    if not isinstance(type(client).__dict__.get("chat"), _Resource):
        kind: Any = type(client)
        client.__class__ = _class_for(kind)
    client.__dict__[_KEEPER] = keeper
    return client


@functools.cache
def _class_for(base: Any) -> type:
    """A subclass of the client's class whose resources are wrapped when they are reached."""

    def copied(self: Any, *args: Any, **options: Any) -> Any:
        made = base.copy(self, *args, **options)
        return _remembering(made, self.__dict__[_KEEPER])

    copied = functools.wraps(base.copy)(copied)
    members: dict[str, Any] = {
        "copy": copied,
        "with_options": copied,
        "memory": property(lambda self: self.__dict__[_KEEPER].memory),
        "degradations": property(lambda self: self.__dict__[_KEEPER].degradations),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    for name in ("chat", "responses", "beta"):
        if hasattr(base, name) or name in getattr(base, "__annotations__", {}):
            members[name] = _Resource(name, base)
    return type(base.__name__, (base,), members)


class _Resource:
    """A resource of the client, wrapped before anybody can call it."""

    def __init__(self, name: str, base: type) -> None:
        self._name = name
        self._base = base

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        if client is None:
            return getattr(self._base, self._name)
        with _patching:
            found = client.__dict__.get(self._name)
            if found is None:
                # The SDK's cached property; what it leaves in __dict__ is found above next time.
                found = inspect.getattr_static(self._base, self._name).__get__(client, owner)
            keeper = client.__dict__.get(_KEEPER)
            if keeper is not None:
                _equip(found, self._name, keeper)
            return found

    def __set__(self, client: Any, value: Any) -> None:
        client.__dict__[self._name] = value


def _equip(resource: Any, name: str, keeper: TurnKeeper) -> None:
    if name == "chat":
        _equip_asking(resource.completions, "messages", view_chat, keeper)
    elif name == "responses":
        _equip_asking(resource, "input", view_responses, keeper)
    else:
        if hasattr(type(resource), "chat"):
            _equip(resource.chat, "chat", keeper)
        if hasattr(type(resource), "responses"):
            _equip(resource.responses, "responses", keeper)


def _equip_asking(resource: Any, argument: str, view_of: Viewer, keeper: TurnKeeper) -> None:
    """Wrap the asking methods of one resource object, once."""
    own = vars(resource)
    if own.get(_KEEPER) is keeper:
        return
    is_async = any(base.__name__ == "AsyncAPIResource" for base in type(resource).__mro__)
    for name in ("create", "parse"):
        if hasattr(type(resource), name):
            wrapping = Wrapping(
                keeper,
                getattr(type(resource), name).__get__(resource),
                argument=argument,
                view_of=view_of,
                take=_take,
                is_async=is_async,
            )
            own[name] = wrapping.function()
    if hasattr(type(resource), "stream"):
        own["stream"] = _streaming(resource)
    own[_KEEPER] = keeper


def _streaming(resource: Any) -> Callable[..., Any]:
    """`.stream()` of a resource; the `create` it calls gets the two keywords."""
    plain = type(resource).stream

    @functools.wraps(plain)
    def stream(
        *args: Any, memory_scope: Any = None, memory_off: bool = False, **options: Any
    ) -> Any:
        view = copy.copy(resource)
        view.create = functools.partial(
            resource.create, memory_scope=memory_scope, memory_off=memory_off
        )
        return plain(view, *args, **options)

    bound = signature_of(plain.__get__(resource))
    if bound is not None:
        stream.__signature__ = bound  # type: ignore[attr-defined]  # inspect reads it
    return stream


def _take(opened: OpenTurn, result: Any) -> Any:
    """What `create` and `parse` give: a reply, a stream, or a raw response of either."""
    http = getattr(result, "http_response", None)
    if http is not None and callable(getattr(result, "parse", None)):
        return _take_raw(opened, result, http)
    taken = opened.take(result)
    if taken is not result:
        # `.stream()` closes the connection, not the stream it was given.
        _tell_when_closed(getattr(result, "response", None), _ender_of(taken))
    return taken


def _take_raw(opened: OpenTurn, raw: Any, http: Any) -> Any:
    """A raw response: its `parse()` gives what is read; closing it ends the turn."""
    if http.is_closed:
        opened.finish_with(http.json)
        return raw
    parse = raw.parse
    taken: dict[int, Any] = {}

    def take(parsed: Any) -> Any:
        if id(parsed) not in taken:
            taken[id(parsed)] = _take(opened, parsed)
        return taken[id(parsed)]

    async def take_later(parsing: Any) -> Any:
        return take(await parsing)

    @functools.wraps(parse)
    def parsing(*args: Any, **options: Any) -> Any:
        parsed = parse(*args, **options)
        return take_later(parsed) if inspect.isawaitable(parsed) else take(parsed)

    def closed() -> None:
        if not taken:
            opened.finish_with(http.json)

    raw.parse = parsing
    _tell_when_closed(raw if hasattr(raw, "close") else http, closed)
    return raw


def _ender_of(stream: Any) -> Callable[[], None]:
    """Ends a watched stream without keeping it alive."""
    held = weakref.ref(stream)

    def closed() -> None:
        watched = held()
        if watched is not None:
            watched._agentmem_closed()

    return closed


def _tell_when_closed(closable: Any, tell: Callable[[], None]) -> None:
    """Let `tell` know when this one response is closed."""
    for name in ("close", "aclose"):
        close = getattr(closable, name, None)
        if callable(close):
            setattr(closable, name, _closing(close, tell))


def _closing(close: Callable[[], Any], tell: Callable[[], None]) -> Any:
    if inspect.iscoroutinefunction(close):

        @functools.wraps(close)
        async def closing_async() -> None:
            try:
                await close()
            finally:
                tell()

        return closing_async

    @functools.wraps(close)
    def closing() -> None:
        try:
            close()
        finally:
            tell()

    return closing
