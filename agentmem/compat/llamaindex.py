"""Memory for LlamaIndex: a block of its `Memory`.

Whose memory it is, is `scope` (a scope, or a function of the session's id), else the
session's id. A block is shown the chat history before a model is asked, and is given
the messages that leave it; it is not told of answers when they come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import PrivateAttr

from agentmem.agent.adapters.replies import View, is_ours, view_items
from agentmem.agent.adapters.turn import OnTurn, TurnKeeper, Whose
from agentmem.base.config import LoopConfig
from agentmem.base.errors import MissingExtra
from agentmem.sources.indexer import names_of

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.memory import BaseMemoryBlock
except ModuleNotFoundError as error:
    raise MissingExtra(
        "llama-index-core", extra="llamaindex", purpose="Memory in LlamaIndex"
    ) from error

_ROLES = {"chatbot": "assistant", "model": "assistant"}


class AgentMemBlock(BaseMemoryBlock[list[ChatMessage]]):
    """`Memory.from_defaults(session_id="ann", memory_blocks=[AgentMemBlock(memory)])`.

    The reference pair stands before the chat history, where LlamaIndex puts what blocks
    give; the system prompt and every message stay as they are.
    """

    name: str = "agentmem"
    _keeper: TurnKeeper = PrivateAttr()

    def __init__(
        self,
        memory: Any,
        *,
        scope: Whose | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(**fields)
        self._keeper = TurnKeeper(memory, scope=scope, config=config, on_turn=on_turn)

    @property
    def degradations(self) -> Sequence[str]:
        """What did not work, newest last."""
        return self._keeper.degradations

    async def _aget(
        self, messages: list[ChatMessage] | None = None, **block_kwargs: Any
    ) -> list[ChatMessage]:
        session = block_kwargs.get("session_id")
        asked = messages or []
        opened = await self._keeper.aopen(asked, view, context=session, names=[session])
        if opened is None:
            return []
        opened.abandon(None)  # the question is kept; the answer comes with `aput`
        return [one for one in opened.sent if not any(one is mine for mine in asked)]

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Remember what leaves the chat history."""
        with self._keeper.failing_open("messages could not be remembered"):
            said: dict[Any, list[dict[str, Any]]] = {}
            for message in messages:
                session = message.additional_kwargs.get("session_id")
                read = _read(message)
                if read is not None and not is_ours(read):
                    said.setdefault(session, []).append(read)
            for session, told in said.items():
                whose = names_of(self._keeper.whose(None, context=session, names=[session]))
                memory: Any = self._keeper.memory
                await asyncio.to_thread(
                    memory.add_messages, told, session=str(session or ""), once=True, **whose
                )


def view(messages: Iterable[ChatMessage]) -> View:
    """LlamaIndex's messages as a conversation."""
    return view_items(messages, _read, _make)


def _read(message: ChatMessage) -> dict[str, Any] | None:
    role = str(message.role.value)
    found = {"role": _ROLES.get(role, role), "content": message.content or ""}
    if found["role"] in ("tool", "function"):
        found["tool_call_id"] = str(message.additional_kwargs.get("tool_call_id") or "")
    return found


def _make(message: Mapping[str, Any]) -> ChatMessage:
    return ChatMessage(role=message["role"], content=message["content"])
