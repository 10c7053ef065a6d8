"""Read what a model answered, in whichever shape its client gives it.

Chat completions, the responses API and Anthropic messages are understood, as
dicts, pydantic models or plain objects. What cannot be read counts as no
answer; nothing here raises because a reply is odd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentmem.core.replies import get, is_count, is_list, message_text, read_text
from agentmem.core.replies import read_usage as read_counts
from agentmem.core.values import dataclass

_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The words of an answer, what it cost, and whether it asks for tools."""

    text: str = ""
    usage: Mapping[str, Any] | None = None
    calls_tools: bool = False


def read_reply(response: object) -> Reply:
    """The reply in `response`: of several choices the first."""
    choices = get(response, "choices")
    if is_list(choices):
        message = get(choices[0], "message") if choices else None
        if message is None and choices:
            message = choices[0]  # the older completions form has its text here
        return Reply(
            text=message_text(message),
            usage=read_usage(get(response, "usage")),
            calls_tools=bool(get(message, "tool_calls") or get(message, "function_call")),
        )
    output = get(response, "output")
    if is_list(output):
        said = [item for item in output if get(item, "type") == "message"]
        return Reply(
            text="".join(read_text(get(item, "content")) for item in said),
            usage=read_usage(get(response, "usage")),
            calls_tools=any(get(item, "type") == "function_call" for item in output),
        )
    content = get(response, "content")
    return Reply(
        text=response if isinstance(response, str) else message_text(response),
        usage=read_usage(get(response, "usage")),
        calls_tools=is_list(content) and any(get(p, "type") == "tool_use" for p in content),
    )


def is_reply(response: object) -> bool:
    """Whether `response` is a whole answer rather than something that will yield one."""
    if isinstance(response, str | bytes | Mapping) or response is None:
        return True
    return any(is_list(get(response, name)) for name in ("choices", "output", "content"))


def read_usage(usage: object) -> dict[str, Any] | None:
    """Token counts under the names of chat completions, or None where there are none.

    A prompt of no tokens does not exist: clients write zeros for what they were not told.
    """
    counts = read_counts(usage)
    if not (counts.get("prompt") or counts.get("completion")):
        return None
    found = {f"{name}_tokens": count for name, count in counts.items()}
    details = get(usage, "prompt_tokens_details") or get(usage, "input_tokens_details")
    cached = get(details, "cached_tokens")
    return {**found, "cached_tokens": cached} if is_count(cached) else found


class Gathering:
    """Collects a reply from the chunks of a stream."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._usage: Mapping[str, Any] | None = None
        self._calls_tools = False
        self._whole: Reply | None = None

    def add(self, chunk: object) -> None:
        """Take the next chunk; those of other choices and unknown ones add nothing."""
        choices = get(chunk, "choices")
        if is_list(choices):
            self._add_choices(choices)
            self._usage = read_usage(get(chunk, "usage")) or self._usage
            return
        kind = get(chunk, "type")
        if isinstance(chunk, str):
            self._texts.append(chunk)
        elif kind == "response.output_text.delta":
            self._add_text(get(chunk, "delta"))
        elif kind in _LAST_EVENTS:
            self._whole = read_reply(get(chunk, "response"))
        elif kind == "response.output_item.added":
            called = get(get(chunk, "item"), "type") == "function_call"
            self._calls_tools = self._calls_tools or called
        elif kind == "content_block_delta":
            self._add_text(get(get(chunk, "delta"), "text"))
        elif kind == "message_delta":
            self._usage = read_usage(get(chunk, "usage")) or self._usage

    def reply(self) -> Reply:
        """What has come so far."""
        text = "".join(self._texts)
        if self._whole is not None:
            return Reply(
                text=self._whole.text or text,
                usage=self._whole.usage or self._usage,
                calls_tools=self._whole.calls_tools or self._calls_tools,
            )
        return Reply(text=text, usage=self._usage, calls_tools=self._calls_tools)

    def _add_choices(self, choices: Sequence[object]) -> None:
        for choice in choices:
            if get(choice, "index") not in (0, None):
                continue
            delta = get(choice, "delta")
            said = delta if delta is not None else get(choice, "message")
            self._texts.append(message_text(said if said is not None else choice))
            if get(said, "tool_calls") or get(said, "function_call"):
                self._calls_tools = True

    def _add_text(self, text: object) -> None:
        if isinstance(text, str):
            self._texts.append(text)
