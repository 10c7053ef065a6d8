"""Memory inside a client of the Anthropic SDK.

`create`, `parse`, `stream`, the raw responses and the tool runner all end in one
request of the resource, made where it is sent. So that request is wrapped, and
a turn is opened when the model is asked: for `stream` on entering it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, TypeVar

from agentmem.agent.adapters.calls import Wrapping, of_async_client
from agentmem.agent.adapters.clients import KEEPER, remembering, take_result, with_keywords
from agentmem.agent.adapters.replies import view_chat
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, TurnMaker
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput
from agentmem.base.types import ScopeLike

Client = TypeVar("Client")

_PATHS = ("/v1/messages", "/v1/messages?beta=true")
_ASKING = ("create", "parse", "stream")


def wrap_anthropic(
    client: Client,
    memory: TurnMaker,
    *,
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> Client:
    """A copy of `client` whose messages have memory; yours stays as it is.

    `client` is an `Anthropic`, an `AsyncAnthropic` or one of their kind (Bedrock,
    Vertex). The copy shares its connections and is an instance of the same class.
    `create`, `parse` and `stream`, on `messages` and `beta.messages`, take
    `memory_scope=` and `memory_off=` as in `wrap`; without them `scope` counts,
    else the request's `metadata["user_id"]`.
    """
    known: Any = client
    if getattr(known, KEEPER, None) is not None and known.memory is memory:
        return client
    if not hasattr(type(client), "copy") or not hasattr(type(client), "messages"):
        raise InvalidInput(
            "client", client, "is no client of the Anthropic SDK",
            remedy="Pass Anthropic() or AsyncAnthropic(); for a callable use memory.wrap(fn).",
        )  # fmt: skip
    keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)
    wrapped: Client = remembering(known.copy(), keeper, ("messages", "beta"), _equip)
    return wrapped


def _equip(resource: Any, name: str, keeper: TurnKeeper) -> None:
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

    wrapping = Wrapping(keeper, ask, view_of=view_chat, take=take_result, is_async=awaits)
    named = {name: body.get(name) for name in ("messages", "model", "tools", "metadata")}
    return wrapping.function()(**named, memory_scope=memory_scope, memory_off=memory_off)
