"""Ask a model, whatever it is: a litellm name, a callable, or our own extractive one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from agentmem.config import EXTRACTIVE
from agentmem.core.replies import Reply, ReplyParts, get, read_reply
from agentmem.errors import InvalidInput
from agentmem.extracting import ExtractiveModel
from agentmem.threads import awaited, in_thread, is_async

OnChunk = Callable[[str], Awaitable[None] | None]


class Model(Protocol):
    """Something that answers messages."""

    name: str

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tools_off: bool = False,
        on_chunk: OnChunk | None = None,
        response_format: Mapping[str, Any] | None = None,
    ) -> Reply: ...


class CallableModel:
    """A chat-completions callable as a model: sync or async, streaming or not.

    It is called with `messages=` (its first argument if it has none of that
    name), and with `tools=`, `stream=`, `response_format=` and `model=`
    where it takes them. A sync one runs on a thread.
    """

    def __init__(
        self, call: Callable[..., Any], *, name: str = "", options: Mapping[str, Any] | None = None
    ) -> None:
        self._call = call
        self._options = dict(options or {})
        self._takes = parameters_of(call)
        self._by_place = self._takes is not None and "messages" not in self._takes
        self.name = name

    async def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tools_off: bool = False,
        on_chunk: OnChunk | None = None,
        response_format: Mapping[str, Any] | None = None,
    ) -> Reply:
        request: dict[str, Any] = {"messages": list(messages), **self._options}
        if tools and self._accepts("tools"):
            request["tools"] = list(tools)
            if tools_off and self._accepts("tool_choice"):
                request["tool_choice"] = "none"
        if response_format is not None and self._accepts("response_format"):
            request["response_format"] = dict(response_format)
        if self.name and self._accepts("model"):
            request["model"] = self.name
        if on_chunk is not None and self._accepts("stream"):
            request["stream"] = True
            if self._accepts("stream_options"):
                request.setdefault("stream_options", {"include_usage": True})
        first = (request.pop("messages"),) if self._by_place else ()
        if is_async(self._call):
            response = await awaited(self._call(*first, **request))
        else:
            response = await awaited(await in_thread(lambda: self._call(*first, **request)))
        return await read_response(response, on_chunk)

    def _accepts(self, name: str) -> bool:
        return self._takes is None or name in self._takes


async def read_response(response: Any, on_chunk: OnChunk | None) -> Reply:
    """The reply in a response or in a stream of chunks, each told to `on_chunk` as it comes."""
    parts = ReplyParts()
    if hasattr(response, "__aiter__"):
        async for chunk in response:
            await _tell(on_chunk, parts.add(chunk))
        return parts.reply()
    if is_stream(response):
        chunks = iter(response)
        while (chunk := await in_thread(lambda: next(chunks, _END))) is not _END:
            await _tell(on_chunk, parts.add(chunk))
        return parts.reply()
    reply = read_reply(response)
    await _tell(on_chunk, reply.text)
    return reply


_END = object()


async def _tell(on_chunk: OnChunk | None, text: str) -> None:
    if on_chunk is not None and text:
        await awaited(on_chunk(text))


def is_stream(response: Any) -> bool:
    """Whether a response comes in chunks rather than whole."""
    if isinstance(response, str | bytes | Mapping) or get(response, "choices") is not None:
        return False
    return isinstance(response, Iterator) or hasattr(response, "__iter__")


def parameters_of(call: Callable[..., Any]) -> frozenset[str] | None:
    """The keyword names a callable takes; `None` when it takes any or cannot be read."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return frozenset(
        p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
    )


def as_model(model: str | Callable[..., Any], *, options: Mapping[str, Any] | None = None) -> Model:
    """A model to ask: `"extractive"`, a litellm model name, or a chat-completions callable."""
    if isinstance(model, str) and model.strip():
        if model == EXTRACTIVE:
            return ExtractiveModel()
        from agentmem.litellm_loader import import_litellm

        return CallableModel(import_litellm().acompletion, name=model, options=options)
    if callable(model):
        name = str(getattr(model, "name", "") or getattr(model, "model", "") or "")
        return CallableModel(model, name=name, options=options)
    raise InvalidInput(
        "model",
        model,
        "is no model",
        remedy='Pass a litellm model name, a chat-completions callable, or "extractive".',
    )
