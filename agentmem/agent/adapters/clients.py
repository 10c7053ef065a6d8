"""A copy of somebody's SDK client whose resources have memory.

The OpenAI and Anthropic SDKs come from one generator: a client has `copy`, lazily
made resources and raw responses that are alike. What differs, which methods ask
a model and with what, is each SDK's own file.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from agentmem.agent.adapters.replies import signature_of
from agentmem.agent.adapters.streams import closing
from agentmem.agent.adapters.turn import OpenTurn, TurnKeeper

Equip = Callable[[Any, str, TurnKeeper], None]
"""Wraps the asking methods of a resource, given its name on the client."""

KEEPER = "_agentmem_keeper"
_patching = threading.RLock()


def remembering(client: Any, keeper: TurnKeeper, names: Sequence[str], equip: Equip) -> Any:
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
        return remembering(made, self.__dict__[KEEPER], names, equip)

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
