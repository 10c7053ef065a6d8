"""Memory for Strands Agents: a plugin that wraps its model calls.

Whose memory an agent has is `scope` (a scope, or a function of the `InvokeModelContext`),
else `user_id` or `session_id` of the invocation's state, else of the agent's state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from agentmem.agent.adapters.replies import Reply, read_usage, view_items
from agentmem.agent.adapters.turn import Remembers
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get, read_text

try:
    from strands.middleware import InvokeModelContext, InvokeModelStage, ModelStopReason
    from strands.plugins import Plugin
except ModuleNotFoundError as error:
    raise MissingExtra("strands-agents", extra="strands", purpose="Memory in Strands") from error

_NAMES = ("user_id", "session_id")


class MemoryPlugin(Remembers, Plugin):
    """`Agent(plugins=[MemoryPlugin(memory)])`; the agent's messages never have the reference."""

    name = "agentmem"

    def init_agent(self, agent: Any) -> None:
        """Wrap the model calls of this agent."""
        agent.add_middleware(InvokeModelStage, self._around)

    async def _around(self, context: InvokeModelContext, next_fn: Any) -> AsyncIterator[Any]:
        state = get(context.agent, "state")
        names = [context.invocation_state.get(name) for name in _NAMES]
        names += [state.get(name) if state is not None else None for name in _NAMES]
        asked = {
            "context": context,
            "names": names,
            "named": {"model": get(get(context.model, "config"), "model_id")},
        }

        def ask(messages: Any) -> AsyncIterator[Any]:
            mine = messages is context.messages
            told: AsyncIterator[Any] = next_fn(
                context if mine else context.replace(messages=messages)
            )
            return told

        events = self._keeper.astream(context.messages, ask, view, read=_read_event, **asked)
        async for event in events:
            yield event


def _read(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": [_part(part) for part in message["content"]]}


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    used, told = part.get("toolUse"), part.get("toolResult")
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if used is not None:
        named = {"id": used["toolUseId"], "name": used["name"], "input": used["input"]}
        return {"type": "tool_use", **named}
    if told is not None:
        result = {"tool_use_id": told["toolUseId"], "content": str(told["content"])}
        return {"type": "tool_result", **result}
    return {"type": "file"}


def _make(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": message["role"], "content": [{"text": message["content"]}]}


view = partial(view_items, read=_read, make=_make)


def _read_event(event: Any) -> Reply:
    """The words and the tokens are all in the last event of a call."""
    if not isinstance(event, ModelStopReason):
        return Reply()
    _, message, told, *_ = event["stop"]
    return Reply(text=read_text(message.get("content")), usage=read_usage(told))
