"""Memory for Microsoft's Agent Framework: a context provider.

Whose memory a run has is `scope` (a scope, or a function of the `AgentSession`), else the
`user_id` in the session's state, else the session's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.agent.adapters.replies import Reply, View, view_items
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, TurnMaker, Whose
from agentmem.base.config import LoopConfig
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get

try:
    from agent_framework import ContextProvider, Message
except ModuleNotFoundError as error:
    raise MissingExtra(
        "agent-framework-core", extra="agent-framework", purpose="Memory in Agent Framework"
    ) from error

if TYPE_CHECKING:
    from agent_framework import AgentSession, SessionContext, SupportsAgentRun


class MemoryProvider(ContextProvider):
    """`Agent(client, context_providers=[history, MemoryProvider(memory)])`, the last of them.

    The reference pair goes directly before the new messages of a run, once for all its
    model calls, and no history provider keeps it.
    """

    def __init__(
        self,
        memory: TurnMaker,
        *,
        scope: Whose | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
        source_id: str = "agentmem",
    ) -> None:
        super().__init__(source_id)
        self._keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)

    @property
    def degradations(self) -> Sequence[str]:
        """What did not work, newest last."""
        return self._keeper.degradations

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        messages = [*context.get_messages(), *context.input_messages]
        opened = await self._keeper.aopen(
            messages,
            view,
            context=session,
            names=[get(session.state, "user_id"), context.session_id],
            named={"model": get(context.options, "model")},
        )
        if opened is not None:
            context.metadata[self.source_id] = opened
            opened.end_with_task()
            added = [one for one in opened.sent if not any(one is mine for mine in messages)]
            if added:
                context.extend_messages(self, added)

    async def after_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        opened = context.metadata.pop(self.source_id, None)
        if opened is not None:
            opened.finish(self._keeper.read(context.response, _read_response))


def view(messages: Iterable[Message]) -> View:
    """Agent Framework's messages as a conversation."""
    return view_items(messages, _read, _make)


def _read(message: Message) -> dict[str, Any] | None:
    found: dict[str, Any] = {"role": str(message.role), "content": message.text or ""}
    calls = [one for one in message.contents if one.type == "function_call"]
    results = [one for one in message.contents if one.type == "function_result"]
    if calls:
        found["tool_calls"] = [
            {
                "id": one.call_id,
                "type": "function",
                "function": {"name": one.name, "arguments": str(one.arguments)},
            }
            for one in calls
        ]
    if results:
        found |= {"role": "tool", "tool_call_id": results[0].call_id}
    return found


def _make(message: Mapping[str, Any]) -> Message:
    return Message(role=message["role"], contents=[message["content"]])


def _read_response(response: Any) -> Reply:
    if response is None:
        return Reply()
    told = response.usage_details or {}
    usage = {
        "prompt_tokens": get(told, "input_token_count"),
        "completion_tokens": get(told, "output_token_count"),
    }
    said = [one.text for one in response.messages if str(one.role) == "assistant" and one.text]
    return Reply(text=said[-1] if said else "", usage=usage if any(usage.values()) else None)
