"""Memory inside a client of the OpenAI SDK.

Everything the SDK offers for asking a model ends in two methods of a resource,
`create` and `parse`: `.stream()`, `.with_raw_response` and
`.with_streaming_response` all call them. So those two are wrapped, on the
resources of a copy of the client, and a turn is opened once whichever way it
is reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from agentmem.agent.adapters.calls import Wrapping, of_async_client
from agentmem.agent.adapters.clients import KEEPER, remembering, take_result, with_keywords
from agentmem.agent.adapters.replies import view_chat, view_responses
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, TurnMaker, Viewer
from agentmem.base.config import LoopConfig
from agentmem.base.errors import InvalidInput
from agentmem.base.types import ScopeLike

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI

Client = TypeVar("Client")


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
    if getattr(client, KEEPER, None) is not None and client.memory is memory:
        return client
    kind = type(client)
    own = getattr(client, "__dict__", {})
    if not hasattr(kind, "copy") or not (hasattr(kind, "chat") or "chat" in own):
        raise InvalidInput(
            "client", client, "is no client of the OpenAI SDK",
            remedy="Pass OpenAI() or AsyncOpenAI(); for another callable use memory.wrap(fn).",
        )  # fmt: skip
    keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)
    return remembering(client.copy(), keeper, ("chat", "responses", "beta"), _equip)


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
    if own.get(KEEPER) is keeper:
        return
    for name in ("create", "parse"):
        if hasattr(type(resource), name):
            wrapping = Wrapping(
                keeper,
                getattr(type(resource), name).__get__(resource),
                argument=argument,
                view_of=view_of,
                take=take_result,
                is_async=of_async_client(resource),
            )
            own[name] = wrapping.function()
    if hasattr(type(resource), "stream"):
        own["stream"] = with_keywords(resource, "stream", inner="create")
    own[KEEPER] = keeper
