"""Memory for AutoGen: a model context that shows the reference and keeps what is said.

AutoGen's own `Memory` can only append a message that stays in the context for good, so
this is a `ChatCompletionContext`: what it stores is the agent's conversation, what it
gives to the model has the reference in it. AutoGen has no notion of a user: `scope` says
whose memory an agent has.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from agentmem.agent.adapters.replies import Reply, as_chat, view_items
from agentmem.agent.adapters.turn import OpenTurn, Remembers, TurnMaker
from agentmem.base.errors import MissingExtra
from agentmem.base.types import ScopeLike

try:
    from autogen_core.model_context import ChatCompletionContext
    from autogen_core.models import (
        AssistantMessage,
        FunctionExecutionResultMessage,
        LLMMessage,
        SystemMessage,
        UserMessage,
    )
except ModuleNotFoundError as error:
    raise MissingExtra("autogen-core", extra="autogen", purpose="Memory in AutoGen") from error


class MemoryContext(Remembers, ChatCompletionContext):
    """`AssistantAgent(name, model_client, model_context=MemoryContext(memory, scope="ann"))`."""

    def __init__(self, memory: TurnMaker, *, scope: ScopeLike, **options: Any) -> None:
        super().__init__(memory, scope=scope, **options)
        self._open: OpenTurn | None = None

    async def get_messages(self) -> list[LLMMessage]:
        """What goes to the model: the conversation, and the reference in it."""
        self._end(Reply())
        self._open = await self._keeper.aopen(self._messages, view)
        if self._open is None:
            return list(self._messages)
        self._open.end_with_task()
        return list(self._open.sent)

    async def add_message(self, message: LLMMessage) -> None:
        await super().add_message(message)
        if isinstance(message, AssistantMessage):
            said = message.content if isinstance(message.content, str) else ""
            self._end(Reply(text=said))

    def _end(self, reply: Reply) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.finish(reply)


def _read(message: LLMMessage) -> dict[str, Any] | None:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.content}
    if isinstance(message, UserMessage):
        content = message.content
        if not isinstance(content, str):
            content = [one if isinstance(one, str) else {"type": "image"} for one in content]  # type: ignore[misc]  # media are counted, not read
        return {"role": "user", "content": content}
    if isinstance(message, FunctionExecutionResultMessage):
        results = [
            {"type": "tool_result", "tool_use_id": one.call_id, "content": one.content}
            for one in message.content
        ]
        return {"role": "tool", "content": results}
    if isinstance(message.content, str):
        return {"role": "assistant", "content": message.content}
    return as_chat(
        "assistant", None, calls=[(one.id, one.name, one.arguments) for one in message.content]
    )


def _make(message: Mapping[str, Any]) -> LLMMessage:
    if message["role"] == "user":
        return UserMessage(content=message["content"], source="agentmem")
    return AssistantMessage(content=message["content"], source="agentmem")


view = partial(view_items, read=_read, make=_make)
