"""Memory for pydantic-ai: one capability.

Whose memory a run has is `scope` (a scope, or a function of the `RunContext`), else the
`user_id`, `thread_id` or `session_id` of the run's `deps`, else of its `metadata`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from agentmem.agent.adapters.replies import Reply, View, as_chat, read_usage, view_items
from agentmem.agent.adapters.turn import Remembers
from agentmem.base.errors import MissingExtra
from agentmem.text.messages import get

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        UserPromptPart,
    )
except ModuleNotFoundError as error:
    raise MissingExtra(
        "pydantic-ai", extra="pydantic-ai", purpose="Memory in pydantic-ai"
    ) from error

_NAMES = ("user_id", "thread_id", "session_id")


class MemoryCapability(Remembers, AbstractCapability[Any]):
    """`Agent(model, capabilities=[MemoryCapability(memory)])`.

    The reference goes into the request alone; the run's message history never has it.
    """

    async def wrap_model_request(
        self, ctx: RunContext[Any], *, request_context: Any, handler: Any
    ) -> ModelResponse:
        async def ask(items: Any) -> Any:
            messages = items if items is request_context.messages else list(_messages(items))
            return await handler(dataclasses.replace(request_context, messages=messages))

        return await self._keeper.acall(
            request_context.messages,
            ask,
            view,
            read=_read_response,
            context=ctx,
            names=[get(told, name) for told in (ctx.deps, ctx.metadata) for name in _NAMES],
            named={"model": get(request_context.model, "model_name")},
        )


@dataclasses.dataclass(slots=True)
class _Piece:
    """A response, or one part of a request: a system prompt and a question may share one."""

    message: ModelMessage
    part: Any = None


def view(messages: Iterable[ModelMessage]) -> View:
    """pydantic-ai's messages as a conversation, part by part."""
    return view_items(_pieces(messages), _read, _make)


def _pieces(messages: Iterable[ModelMessage]) -> Iterator[_Piece]:
    for message in messages:
        if isinstance(message, ModelRequest) and message.parts:
            yield from (_Piece(message, part) for part in message.parts)
        else:
            yield _Piece(message)


def _messages(pieces: Iterable[_Piece]) -> Iterator[ModelMessage]:
    """The messages again: the very same objects, but for one that the reference divides."""
    for _, same in groupby(pieces, key=lambda piece: id(piece.message)):
        group = list(same)
        message = group[0].message
        whole = not isinstance(message, ModelRequest) or len(group) >= len(message.parts)
        yield message if whole else dataclasses.replace(message, parts=[one.part for one in group])


def _read(piece: _Piece) -> dict[str, Any] | None:
    if isinstance(piece.message, ModelResponse):
        calls = [part for part in piece.message.parts if isinstance(part, ToolCallPart)]
        made = [(one.tool_call_id, one.tool_name, one.args_as_json_str()) for one in calls]
        return as_chat("assistant", _text(piece.message), calls=made)
    kind = get(piece.part, "part_kind")
    if kind == "system-prompt":
        return {"role": "system", "content": piece.part.content}
    if kind == "user-prompt":
        content = piece.part.content
        if not isinstance(content, str):
            content = [one if isinstance(one, str) else {"type": "file"} for one in content]
        return {"role": "user", "content": content}
    if kind == "tool-return":
        text = piece.part.model_response_str()
        return as_chat("tool", text, answers=piece.part.tool_call_id)
    return None


def _make(message: Mapping[str, Any]) -> _Piece:
    if message["role"] == "user":
        part = UserPromptPart(message["content"])
        return _Piece(ModelRequest(parts=[part]), part)
    return _Piece(ModelResponse(parts=[TextPart(message["content"])]))


def _text(message: ModelResponse) -> str:
    return "".join(part.content for part in message.parts if isinstance(part, TextPart))


def _read_response(response: ModelResponse) -> Reply:
    return Reply(text=_text(response), usage=read_usage(response.usage))
