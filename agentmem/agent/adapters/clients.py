"""A copy of somebody's SDK client whose resources have memory.

The OpenAI and Anthropic SDKs come from one generator: a client has `copy`, lazily
made resources and raw responses that are alike. What differs is which methods ask
a model and with what.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from agentmem.agent.adapters.replies import view_chat, view_responses
from agentmem.agent.adapters.streams import closing
from agentmem.agent.adapters.turn import (
    OpenTurn,
    TurnKeeper,
    TurnMaker,
    TurnOptions,
    Viewer,
    of_async_client,
    remembering,
    signature_of,
)
from agentmem.base.errors import InvalidInput

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI

Client = TypeVar("Client")
Equip = Callable[[Any, str, TurnKeeper], None]
"""Wraps the asking methods of a resource, given its name on the client."""

KEEPER = "_agentmem_keeper"
_patching = threading.RLock()


def _copied(
    client: Any, keeper: TurnKeeper, names: Sequence[str], equip: Equip, *, sdk: str
) -> Any:
    """A copy of `client` with memory; one that has this memory already is given back."""
    if getattr(client, KEEPER, None) is not None and client.memory is keeper.memory:
        return client
    owned = hasattr(type(client), names[0]) or names[0] in getattr(client, "__dict__", {})
    if not hasattr(type(client), "copy") or not owned:
        raise InvalidInput(
            "client", client, f"is no client of the {sdk} SDK",
            remedy=f"Pass {sdk}() or Async{sdk}(); for another callable use memory.wrap(fn).",
        )  # fmt: skip
    return with_memory(client.copy(), keeper, names, equip)


def with_memory(client: Any, keeper: TurnKeeper, names: Sequence[str], equip: Equip) -> Any:
    """`client` turned into one of our class, in place, with its resources `names` wrapped."""
    if not isinstance(type(client).__dict__.get(names[0]), _Resource):
        kind: Any = type(client)
        client.__class__ = _class_for(kind, tuple(names), equip)
    client.__dict__[KEEPER] = keeper
    return client


@functools.cache
def _class_for(base: Any, names: tuple[str, ...], equip: Equip) -> type:
    """A subclass of the client's class whose resources are wrapped when they are reached."""

    def copied(self: Any, *args: Any, **options: Any) -> Any:
        made = base.copy(self, *args, **options)
        return with_memory(made, self.__dict__[KEEPER], names, equip)

    copied = functools.wraps(base.copy)(copied)
    members: dict[str, Any] = {
        "copy": copied,
        "with_options": copied,
        "memory": property(lambda self: self.__dict__[KEEPER].memory),
        "degradations": property(lambda self: self.__dict__[KEEPER].degradations),
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
    }
    for name in names:
        if hasattr(base, name) or name in getattr(base, "__annotations__", {}):
            members[name] = _Resource(name, base, equip)
    return type(base.__name__, (base,), members)


class _Resource:
    """A resource of the client, wrapped before anybody can call it."""

    def __init__(self, name: str, base: type, equip: Equip) -> None:
        self._name = name
        self._base = base
        self._equip = equip

    def __get__(self, client: Any, owner: type | None = None) -> Any:
        if client is None:
            return getattr(self._base, self._name)
        with _patching:
            found = client.__dict__.get(self._name)
            if found is None:
                # The SDK's cached property; what it leaves in __dict__ is found above next time.
                found = inspect.getattr_static(self._base, self._name).__get__(client, owner)
            keeper = client.__dict__.get(KEEPER)
            if keeper is not None:
                self._equip(found, self._name, keeper)
            return found

    def __set__(self, client: Any, value: Any) -> None:
        client.__dict__[self._name] = value


def with_keywords(resource: Any, name: str, *, inner: str) -> Callable[..., Any]:
    """A method of a resource that takes our two keywords; the `inner` one it calls gets them."""
    plain = getattr(type(resource), name)

    @functools.wraps(plain)
    def asking(
        *args: Any, memory_scope: Any = None, memory_off: bool = False, **options: Any
    ) -> Any:
        view = copy.copy(resource)
        said = {"memory_scope": memory_scope, "memory_off": memory_off}
        setattr(view, inner, functools.partial(getattr(resource, inner), **said))
        return plain(view, *args, **options)

    bound = signature_of(plain.__get__(resource))
    if bound is not None:
        asking.__signature__ = bound  # type: ignore[attr-defined]  # inspect reads it
    return asking


def take_result(opened: OpenTurn, result: Any) -> Any:
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
            taken[id(parsed)] = take_result(opened, parsed)
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
            setattr(closable, name, closing(close, lambda _: tell()))


# ----------------------------------------------------------------------------
# OpenAI: everything it offers for asking a model ends in two methods of a resource, `create`
# and `parse`, which `.stream()`, `.with_raw_response` and `.with_streaming_response` call. So
# those two are wrapped, and a turn is opened once whichever way it is reached.


@overload
def wrap_openai(
    client: OpenAI, memory: TurnMaker, **how: Unpack[TurnOptions]
) -> RememberingOpenAI: ...
@overload
def wrap_openai(
    client: AsyncOpenAI, memory: TurnMaker, **how: Unpack[TurnOptions]
) -> RememberingAsyncOpenAI: ...
@overload
def wrap_openai(client: Client, memory: TurnMaker, **how: Unpack[TurnOptions]) -> Client: ...
def wrap_openai(client: Any, memory: TurnMaker, **how: Unpack[TurnOptions]) -> Any:
    """A copy of `client` whose chat completions and responses have memory.

    `client` is an `OpenAI`, an `AsyncOpenAI` or one of their kind (Azure); it
    stays as it is. The copy shares its connections, is an instance of the same
    class, and its own `copy()` and `with_options()` keep the memory. Every
    asking method takes `memory_scope=` and `memory_off=`, and `scope=`, `config=` and
    `on_turn=` are those of `wrap`.
    """
    keeper = TurnKeeper(memory, **how)
    return _copied(client, keeper, ("chat", "responses", "beta"), _equip_openai, sdk="OpenAI")


def _equip_openai(resource: Any, name: str, keeper: TurnKeeper) -> None:
    if name == "chat":
        _equip_asking(resource.completions, "messages", view_chat, keeper)
    elif name == "responses":
        _equip_asking(resource, "input", view_responses, keeper)
    else:
        if hasattr(type(resource), "chat"):
            _equip_openai(resource.chat, "chat", keeper)
        if hasattr(type(resource), "responses"):
            _equip_openai(resource.responses, "responses", keeper)


def _equip_asking(resource: Any, argument: str, view_of: Viewer, keeper: TurnKeeper) -> None:
    """Wrap the asking methods of one resource object, once."""
    own = vars(resource)
    if own.get(KEEPER) is keeper:
        return
    for name in ("create", "parse"):
        if hasattr(type(resource), name):
            own[name] = remembering(
                keeper,
                getattr(type(resource), name).__get__(resource),
                argument=argument,
                view_of=view_of,
                take=take_result,
                is_async=of_async_client(resource),
            )
    if hasattr(type(resource), "stream"):
        own["stream"] = with_keywords(resource, "stream", inner="create")
    own[KEEPER] = keeper


# ----------------------------------------------------------------------------
# Anthropic: `create`, `parse`, `stream`, the raw responses and the tool runner all end in one
# request of the resource, made where it is sent. So that request is wrapped, and a turn is
# opened when the model is asked: for `stream` on entering it.


_PATHS = ("/v1/messages", "/v1/messages?beta=true")
_ASKING = ("create", "parse", "stream")


def wrap_anthropic(client: Client, memory: TurnMaker, **how: Unpack[TurnOptions]) -> Client:
    """A copy of `client` whose messages have memory; yours stays as it is.

    `client` is an `Anthropic`, an `AsyncAnthropic` or one of their kind (Bedrock,
    Vertex). The copy shares its connections and is an instance of the same class.
    `create`, `parse` and `stream`, on `messages` and `beta.messages`, take
    `memory_scope=` and `memory_off=` as in `wrap`; without them `scope` counts,
    else the request's `metadata["user_id"]`.
    """
    keeper = TurnKeeper(memory, **how)
    made: Client = _copied(client, keeper, ("messages", "beta"), _equip_anthropic, sdk="Anthropic")
    return made


def _equip_anthropic(resource: Any, name: str, keeper: TurnKeeper) -> None:
    """Wrap the request of one resource object, once, and let its methods take two keywords."""
    if name == "beta":
        resource = resource.messages
    own = vars(resource)
    if own.get(KEEPER) is keeper:
        return
    plain = own["_post"]
    own["_post"] = functools.partial(_post, plain, keeper, of_async_client(resource))
    for method in _ASKING:
        if hasattr(type(resource), method):
            own[method] = with_keywords(resource, method, inner="_post")
    own[KEEPER] = keeper


def _post(
    plain: Any,
    keeper: TurnKeeper,
    awaits: bool,
    path: str,
    *,
    body: Any = None,
    memory_scope: Any = None,
    memory_off: bool = False,
    **options: Any,
) -> Any:
    """Send a request, the reference among its messages if it is one that asks a model."""
    if path not in _PATHS or not isinstance(body, Mapping) or "messages" not in body:
        return plain(path, body=body, **options)

    def ask(*, messages: Any, **_: Any) -> Any:
        return plain(path, body={**body, "messages": messages}, **options)

    asking = remembering(keeper, ask, take=take_result, is_async=awaits)
    named = {name: body.get(name) for name in ("messages", "model", "tools", "metadata")}
    return asking(**named, memory_scope=memory_scope, memory_off=memory_off)
