"""Memory for Agno: a model with memory.

Agno's hooks see a run's input and output; the messages that go to the model are seen by
the model alone, so that is what is wrapped. Whose memory a run has is `scope` (a scope,
or a function of the `RunOutput`), else the run's `user_id`, else its `session_id`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
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

    def through(way: Callable[..., Any], name: str) -> Callable[..., Any]:
        def ask(*, messages: list[Message], **rest: Any) -> Any:
            run = rest.get("run_response")
            return way(
                messages,
                lambda sent: getattr(model, name)(messages=sent, **rest),
                view,
                read=_read_response,
                context=run,
                names=[get(run, "user_id"), get(run, "session_id")],
                named={"model": model.id},
            )

        return ask

    made.invoke = through(keeper.call, "invoke")
    made.ainvoke = through(keeper.acall, "ainvoke")
    made.invoke_stream = through(keeper.stream, "invoke_stream")
    made.ainvoke_stream = through(keeper.astream, "ainvoke_stream")
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
