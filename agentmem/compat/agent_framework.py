"""Memory for Microsoft's Agent Framework: a context provider.

Whose memory a run has is `scope` (a scope, or a function of the `AgentSession`), else the
`user_id` in the session's state, else the session's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agentmem.agent.adapters.replies import Reply, as_chat, read_usage, view_items
from agentmem.agent.adapters.turn import Remembers, TurnMaker
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


class MemoryProvider(Remembers, ContextProvider):
    """`Agent(client, context_providers=[history, MemoryProvider(memory)])`, the last of them.

    The reference pair goes directly before the new messages of a run, once for all its
    model calls, and no history provider keeps it.
    """

    def __init__(self, memory: TurnMaker, *, source_id: str = "agentmem", **options: Any) -> None:
        super().__init__(memory, source_id=source_id, **options)

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        opened = await self._keeper.aopen(
            [*context.get_messages(), *context.input_messages],
            view,
            context=session,
            names=[get(session.state, "user_id"), context.session_id],
            named={"model": get(context.options, "model")},
        )
        if opened is not None:
            context.metadata[self.source_id] = opened
            opened.end_with_task()
            if opened.added:
                context.extend_messages(self, opened.added)

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


def _read(message: Message) -> dict[str, Any]:
    results = [one for one in message.contents if one.type == "function_result"]
    return as_chat(
        "tool" if results else str(message.role),
        message.text or "",
        calls=[
            (one.call_id, one.name, one.arguments)
            for one in message.contents
            if one.type == "function_call"
        ],
        answers=results[0].call_id if results else None,
    )


def _make(message: Mapping[str, Any]) -> Message:
    return Message(role=message["role"], contents=[message["content"]])


view = partial(view_items, read=_read, make=_make)


def _read_response(response: Any) -> Reply:
    if response is None:
        return Reply()
    said = [one.text for one in response.messages if str(one.role) == "assistant" and one.text]
    return Reply(text=said[-1] if said else "", usage=read_usage(response.usage_details))
