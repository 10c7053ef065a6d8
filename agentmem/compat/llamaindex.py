"""Memory for LlamaIndex: a block of its `Memory`.

Whose memory it is, is `scope` (a scope, or a function of the session's id), else the
session's id. A block is shown the chat history before a model is asked, and is given
the messages that leave it; it is not told of answers when they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import PrivateAttr

from agentmem.agent.adapters.replies import as_chat, is_ours, view_items
from agentmem.agent.adapters.turn import Remembers, TurnKeeper
from agentmem.base.errors import MissingExtra

try:
    from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
    from llama_index.core.memory import BaseMemoryBlock
except ModuleNotFoundError as error:
    raise MissingExtra(
        "llama-index-core", extra="llamaindex", purpose="Memory in LlamaIndex"
    ) from error

_ROLES = {"chatbot": "assistant", "model": "assistant"}


class AgentMemBlock(Remembers, BaseMemoryBlock[list[ChatMessage]]):
    """`Memory.from_defaults(session_id="ann", memory_blocks=[AgentMemBlock(memory)])`.

    The reference pair stands before the chat history, where LlamaIndex puts what blocks
    give; the system prompt and every message stay as they are.
    """

    name: str = "agentmem"
    _keeper: TurnKeeper = PrivateAttr()

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> list[ChatMessage]:
        session = block_kwargs.get("session_id")
        opened = await self._keeper.aopen(messages or [], view, context=session, names=[session])
        if opened is None:
            return []
        opened.abandon(None)  # the question is kept; the answer comes with `aput`
        return opened.added

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Remember what leaves the chat history."""
        with self._keeper.failing_open("messages could not be remembered"):
            said: dict[Any, list[dict[str, Any]]] = {}
            for message in messages:
                session = message.additional_kwargs.get("session_id")
                read = _read(message)
                if not is_ours(read):
                    said.setdefault(session, []).append(read)
            for session, told in said.items():
                whose = self._keeper.whose(None, context=session, names=[session]).whose
                memory: Any = self._keeper.memory
                await asyncio.to_thread(
                    memory.add, told, session=str(session or ""), once=True, **whose
                )


def _read(message: ChatMessage) -> dict[str, Any]:
    role = "tool" if message.role == MessageRole.FUNCTION else str(message.role.value)
    return as_chat(
        _ROLES.get(role, role),
        message.content or "",
        calls=[
            (one.tool_call_id, one.tool_name, one.tool_kwargs)
            for one in message.blocks
            if isinstance(one, ToolCallBlock)
        ],
        answers=str(message.additional_kwargs.get("tool_call_id") or ""),
    )


def _make(message: Mapping[str, Any]) -> ChatMessage:
    return ChatMessage(role=message["role"], content=message["content"])


view = partial(view_items, read=_read, make=_make)
