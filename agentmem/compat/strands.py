"""Memory for Strands Agents: a plugin that wraps its model calls.

Whose memory an agent has is `scope` (a scope, or a function of the `InvokeModelContext`),
else `user_id` or `session_id` of the invocation's state, else of the agent's state.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any

from agentmem.agent.adapters.replies import Reply, View, view_items
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, TurnMaker, Whose
from agentmem.base.config import LoopConfig
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get, read_text

try:
    from strands.middleware import InvokeModelContext, InvokeModelStage, ModelStopReason
    from strands.plugins import Plugin
except ModuleNotFoundError as error:
    raise MissingExtra("strands-agents", extra="strands", purpose="Memory in Strands") from error

_NAMES = ("user_id", "session_id")


class MemoryPlugin(Plugin):
    """`Agent(plugins=[MemoryPlugin(memory)])`; the agent's messages never have the reference."""

    name = "agentmem"

    def __init__(
        self,
        memory: TurnMaker,
        *,
        scope: Whose | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> None:
        super().__init__()
        self._keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)

    @property
    def degradations(self) -> Sequence[str]:
        """What did not work, newest last."""
        return self._keeper.degradations

    def init_agent(self, agent: Any) -> None:
        """Wrap the model calls of this agent."""
        agent.add_middleware(InvokeModelStage, self._around)

    async def _around(self, context: InvokeModelContext, next_fn: Any) -> AsyncIterator[Any]:
        state = get(context.agent, "state")
        names = [context.invocation_state.get(name) for name in _NAMES]
        names += [state.get(name) if state is not None else None for name in _NAMES]
        opened = await self._keeper.aopen(
            context.messages,
            view,
            context=context,
            names=names,
            named={"model": get(get(context.model, "config"), "model_id")},
        )
        if opened is None:
            async for event in next_fn(context):
                yield event
            return
        last: Any = None
        with opened.ending():
            async for event in next_fn(context.replace(messages=opened.sent)):
                last = event if isinstance(event, ModelStopReason) else last
                yield event
        opened.finish(self._keeper.read(last, _read_stop))


def view(messages: Iterable[Any]) -> View:
    """Converse messages as a conversation."""
    return view_items(messages, _read, _make)


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


def _read_stop(event: Any) -> Reply:
    if event is None:
        return Reply()
    reason, message, told, *_ = event["stop"]
    usage = {
        "prompt_tokens": get(told, "inputTokens"),
        "completion_tokens": get(told, "outputTokens"),
    }
    return Reply(
        text=read_text(message.get("content")),
        usage=usage if any(usage.values()) else None,
        calls_tools=reason == "tool_use",
    )
