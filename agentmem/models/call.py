"""Ask a model, whatever it is: a litellm name, a callable, or our own extractive one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from agentmem.base.config import EXTRACTIVE
from agentmem.base.errors import InvalidInput
from agentmem.base.threads import awaited, in_thread, is_async
from agentmem.models.extract import Embed, ExtractiveModel
from agentmem.text.messages import ModelAnswer, ReplyParts, get, read_reply

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
    ) -> ModelAnswer: ...


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
    ) -> ModelAnswer:
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


async def read_response(response: Any, on_chunk: OnChunk | None) -> ModelAnswer:
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


def as_model(
    model: str | Callable[..., Any],
    *,
    options: Mapping[str, Any] | None = None,
    embed: Embed | None = None,
) -> Model:
    """A model to ask: `"extractive"`, a litellm model name, or a chat-completions callable.

    With `embed` the extractive one also finds what is said in other words.
    """
    if isinstance(model, str) and model.strip():
        if model == EXTRACTIVE:
            return ExtractiveModel(embed=embed)
        from agentmem.tokens.litellm import import_litellm

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


# ----------------------------------------------------------------------------
# Tell from a model's error what can be done about it: wait, send less, or nothing.
#
# Errors are recognised by litellm's and OpenAI's class names and HTTP status, so
# neither package is needed to read them.


Trouble = Literal["rate limit", "too long", "other"]

RETRIES = 3
FIRST_WAIT_SECONDS = 1.0
LONGEST_WAIT_SECONDS = 60.0
"""Nobody sits through more than this for one answer; the error is raised instead."""
GUESSED_SHARE = 0.6
"""Of a request that was refused without figures, what is tried the second time."""
_READ_CHARACTERS = 4_000

_UNSUPPORTED = "UnsupportedParamsError"
_BAD_REQUESTS = frozenset({"BadRequestError", "UnprocessableEntityError"})
_OTHER_WORDS = {"response_format": ("json_schema", "structured output", "json schema")}
_REFUSED = frozenset({400, 413, 422, None})
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size|limit)|maximum context|"
    r"(?:prompt|input|request|messages?)\s+(?:\w+\s+){0,3}too (?:long|large)|"
    r"too many (?:input )?tokens|"
    r"exceeds?\s+(?:\w+\s+){0,6}(?:number of tokens|token limit|tokens allowed)",
    re.IGNORECASE,
)
_NO_TOOLS = frozenset({400, 404, 422, 500, 501})
_TOOL_WORD = r"(?:tools?|tool[ _-](?:use|choice|calling|calls?)|function[ _-]calling|functions)\b"
_UNABLE = (
    r"support|unrecogni[sz]ed|unknown|unexpected|not (?:enabled|available|permitted|allowed|impl)|"
    r"requires? --|extra (?:inputs|fields)"
)
_NO_TOOL = re.compile(
    rf"{_TOOL_WORD}.{{0,80}}?(?:{_UNABLE})|(?:{_UNABLE}).{{0,80}}?{_TOOL_WORD}",
    re.IGNORECASE | re.DOTALL,
)
_OUT_OF_MONEY = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
_NUMBER = r"(\d[\d,]{2,11})"
_WINDOWS = (
    re.compile(rf"[>≥]\s*{_NUMBER}"),
    re.compile(rf"{_NUMBER}\s*(?:tokens?\s*)?maximum", re.IGNORECASE),
    re.compile(
        rf"(?:context (?:length|window|size|limit)|maximum|limit|allowed)[^\d\n]{{0,40}}?{_NUMBER}",
        re.IGNORECASE,
    ),
)
_COUNTED = re.compile(
    r"(?:resulted in|requested|your (?:prompt|messages|input)[^\d\n]{0,30}|"
    r"prompt is too long:|request|input token count|contains?)[^\d\n]{0,20}?"
    rf"{_NUMBER}\s*(?:input )?(?:tokens|\)|[>≥])",
    re.IGNORECASE,
)
_IN_MESSAGES = re.compile(
    rf"{_NUMBER}\s*(?:tokens\s*)?in (?:the|your) (?:messages|prompt)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a refusal says of the request's tokens and of the window; `None` where it does not."""

    counted_tokens: int | None = None
    window_tokens: int | None = None


def trouble_of(error: BaseException) -> Trouble:
    """What an error of a model is about, as far as one can act on it."""
    names, status, said = _names(error), _status(error), _said(error)
    if "ContextWindowExceededError" in names or (status in _REFUSED and _TOO_LONG.search(said)):
        return "too long"
    if ("RateLimitError" in names or status == 429) and not _OUT_OF_MONEY.search(said):
        return "rate limit"
    return "other"


def refuses_parameter(error: BaseException, name: str) -> bool:
    """Whether an error says that a parameter is not known: to a callable, litellm or a provider."""
    said = _said(error).lower()
    if isinstance(error, TypeError):
        return name in said and "argument" in said
    if _UNSUPPORTED in _names(error):
        return True
    refused = _names(error) & _BAD_REQUESTS or _status(error) in (400, 422)
    return bool(refused) and any(word in said for word in (name, *_OTHER_WORDS.get(name, ())))


def refuses_tools(error: BaseException) -> bool:
    """Whether an error says that a model, its server or a callable takes no tools.

    "gemma:2b does not support tools", '"auto" tool choice requires
    --enable-auto-tool-choice', "No endpoints found that support tool use".
    """
    if isinstance(error, TypeError):
        return refuses_parameter(error, "tools")
    refused = _names(error) & {*_BAD_REQUESTS, _UNSUPPORTED} or _status(error) in _NO_TOOLS
    return bool(refused) and _NO_TOOL.search(_said(error)) is not None


def wait_seconds(error: BaseException, attempt: int) -> float | None:
    """How long to wait before attempt number `attempt` + 1, or `None` for too long.

    The provider's `retry-after` counts; else one second, doubled each time.
    """
    seconds = _header(error, "retry-after")
    if (asked := _header(error, "retry-after-ms")) is not None:
        seconds = asked / 1000
    if seconds is None:
        seconds = FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
    return seconds if 0 <= seconds <= LONGEST_WAIT_SECONDS else None


def figures_of(error: BaseException) -> Figures:
    """The token counts in a refusal's words."""
    said = _said(error)
    counted = _IN_MESSAGES.search(said) or _COUNTED.search(said)
    window = next(filter(None, (pattern.search(said) for pattern in _WINDOWS)), None)
    found = Figures(counted_tokens=_integer(counted), window_tokens=_integer(window))
    if found.counted_tokens == found.window_tokens:  # one figure read twice says nothing of both
        return Figures(window_tokens=found.window_tokens)
    return found


def repack_limit(figures: Figures, *, estimated_tokens: int, reserve_tokens: int) -> int:
    """How many of our tokens to send the second time; always fewer than before."""
    limit = int(estimated_tokens * GUESSED_SHARE)
    window, counted = figures.window_tokens, figures.counted_tokens
    if window is not None:
        free = window - min(reserve_tokens, window // 2)
        ratio = counted / estimated_tokens if counted and estimated_tokens else 1.0
        limit = min(int(free / max(ratio, 1.0)), int(estimated_tokens * 0.95))
    return max(1, limit)


def _names(error: BaseException) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


def _said(error: BaseException) -> str:
    try:
        return str(error)[:_READ_CHARACTERS]
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return ""


def _status(error: BaseException) -> int | None:
    status: Any = get(error, "status_code")
    if status is None:
        status = get(get(error, "response"), "status_code")
    try:
        return None if status is None else int(status)
    except (TypeError, ValueError):
        return None


def _header(error: BaseException, name: str) -> float | None:
    for headers in (get(get(error, "response"), "headers"), get(error, "headers")):
        read = getattr(headers, "get", None)
        value = read(name) if callable(read) else None
        if value is not None:
            try:
                return float(value)
            except (TypeError, ValueError):
                return None
    return None


def _integer(match: re.Match[str] | None) -> int | None:
    return None if match is None else int(match[1].replace(",", ""))
