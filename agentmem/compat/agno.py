"""Memory for Agno: a model with memory.

Agno's hooks see a run's input and output; the messages that go to the model are seen by
the model alone, so that is what is wrapped. Whose memory a run has is `scope` (a scope,
or a function of the `RunOutput`), else the run's `user_id`, else its `session_id`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from agentmem.agent.adapters.replies import Reply, as_chat, read_usage, view_items
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, TurnMaker, Whose
from agentmem.base.config import LoopConfig
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get

try:
    from agno.models.base import Model
    from agno.models.message import Message
except ModuleNotFoundError as error:
    raise MissingExtra("agno", extra="agno", purpose="Memory in Agno") from error

M = TypeVar("M", bound=Model)


def remembering(
    model: M,
    memory: TurnMaker,
    *,
    scope: Whose | None = None,
    config: LoopConfig | None = None,
    on_turn: OnTurn | None = None,
) -> M:
    """A copy of `model` with memory: `Agent(model=remembering(OpenAIChat(), memory))`.

    Sync, async and streams; what did not work is in the copy's `degradations`. The
    agent's own messages never have the reference.
    """
    made: Any = copy.copy(model)
    keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)

    def whose(rest: Mapping[str, Any]) -> dict[str, Any]:
        run = rest.get("run_response")
        names = [get(run, "user_id"), get(run, "session_id")]
        return {"context": run, "names": names, "named": {"model": model.id}}

    def invoke(*, messages: list[Message], **rest: Any) -> Any:
        def ask(sent: Any) -> Any:
            return model.invoke(messages=sent, **rest)

        return keeper.call(messages, ask, view, read=_read_response, **whose(rest))

    async def ainvoke(*, messages: list[Message], **rest: Any) -> Any:
        async def ask(sent: Any) -> Any:
            return await model.ainvoke(messages=sent, **rest)

        return await keeper.acall(messages, ask, view, read=_read_response, **whose(rest))

    def invoke_stream(*, messages: list[Message], **rest: Any) -> Iterator[Any]:
        def ask(sent: Any) -> Iterator[Any]:
            return model.invoke_stream(messages=sent, **rest)

        return keeper.stream(messages, ask, view, read=_read_response, **whose(rest))

    def ainvoke_stream(*, messages: list[Message], **rest: Any) -> AsyncIterator[Any]:
        def ask(sent: Any) -> AsyncIterator[Any]:
            return model.ainvoke_stream(messages=sent, **rest)

        return keeper.astream(messages, ask, view, read=_read_response, **whose(rest))

    made.invoke, made.ainvoke = invoke, ainvoke
    made.invoke_stream, made.ainvoke_stream = invoke_stream, ainvoke_stream
    made.degradations = keeper.degradations
    remembering_model: M = made
    return remembering_model


def _read(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message.content, str) else str(message.content or "")
    found = as_chat(message.role, content, answers=message.tool_call_id)
    return {**found, "tool_calls": message.tool_calls} if message.tool_calls else found


def _make(message: Mapping[str, Any]) -> Message:
    return Message(role=message["role"], content=message["content"])


view = partial(view_items, read=_read, make=_make)


def _read_response(response: Any) -> Reply:
    said = response.content if isinstance(response.content, str) else ""
    return Reply(text=said, usage=read_usage(response.response_usage))
