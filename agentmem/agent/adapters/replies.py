"""Read what a model answered, in whichever shape its client gives it.

Chat completions, the responses API and Anthropic messages are understood, as
dicts, pydantic models or plain objects. What cannot be read counts as no
answer; nothing here raises because a reply is odd.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmem.prompt.messages import Conversation, is_reference, is_stub
from agentmem.text.messages import (
    get,
    is_count,
    is_list,
    is_result,
    makes_calls,
    message_text,
    plain,
    read_text,
    text_of,
)
from agentmem.text.messages import read_usage as read_counts

_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The words of an answer, and what it cost."""

    text: str = ""
    usage: Mapping[str, Any] | None = None


NO_REPLY = Reply()


def read_reply(response: object) -> Reply:
    """The reply in `response`: of several choices the first."""
    choices, output = get(response, "choices"), get(response, "output")
    if is_list(choices):
        message = get(choices[0], "message") if choices else None
        if message is None and choices:
            message = choices[0]  # the older completions form has its text here
        text = message_text(message)
    elif is_list(output):
        said = [item for item in output if get(item, "type") == "message"]
        text = "".join(read_text(get(item, "content")) for item in said)
    else:
        text = response if isinstance(response, str) else message_text(response)
    return Reply(text=text, usage=read_usage(get(response, "usage")))


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
        self._counts: dict[str, Any] = {}
        self._whole = NO_REPLY

    def add(self, chunk: object) -> None:
        """Take the next chunk; those of other choices and unknown ones add nothing."""
        choices, kind = get(chunk, "choices"), get(chunk, "type")
        said: object = None
        if isinstance(chunk, Reply):
            said = chunk.text
            self._usage = chunk.usage or self._usage
        elif is_list(choices):
            said = "".join(map(_said_in, choices))
            self._usage = read_usage(get(chunk, "usage")) or self._usage
        elif isinstance(chunk, str):
            said = chunk
        elif kind == "response.output_text.delta":
            said = get(chunk, "delta")
        elif kind in _LAST_EVENTS:
            self._whole = read_reply(get(chunk, "response"))
        elif kind == "content_block_delta":
            said = get(get(chunk, "delta"), "text")
        elif kind in ("message_start", "message_delta"):
            usage = get(get(chunk, "message"), "usage") or get(chunk, "usage")
            told = {name: count for name, count in plain(usage or {}).items() if count is not None}
            self._counts |= told  # the end tells what the start did not
            if kind == "message_delta":
                self._usage = read_usage(self._counts) or self._usage
        if isinstance(said, str):
            self._texts.append(said)

    def reply(self) -> Reply:
        """What has come so far."""
        return Reply(
            text=self._whole.text or "".join(self._texts), usage=self._whole.usage or self._usage
        )


def _said_in(choice: object) -> str:
    """What one choice of a chunk adds; only the first choice counts."""
    if get(choice, "index") not in (0, None):
        return ""
    for name in ("delta", "message"):
        if (said := get(choice, name)) is not None:
            return message_text(said)
    return message_text(choice)


# ----------------------------------------------------------------------------
# Find the messages in a call, and put the reference among the caller's own objects.


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a request says, as chat messages; `places` are their positions in `items`.

    Items that are no messages, such as reasoning, are in `items` only. `make`
    gives what memory adds the form that the other items have.
    """

    items: list[Any]
    messages: Conversation
    places: list[int] = field(default_factory=list)
    make: Callable[[Mapping[str, Any]], Any] = dict


def view_chat(messages: Iterable[Any]) -> View:
    """The messages of a chat completion; those that are objects are read as dicts.

    Raises InvalidMessage for what no provider would take.
    """
    items = list(messages)
    return View(items=items, messages=Conversation(items), places=list(range(len(items))))


def view_responses(request_input: Any) -> View:
    """The input of a response: a text, or items of which messages and tool calls are read."""
    if isinstance(request_input, str):
        request_input = [{"role": "user", "content": request_input}]
    return view_items(request_input, _message_of)


def view_items(
    items: Iterable[Any],
    read: Callable[[Any], dict[str, Any] | None],
    make: Callable[[Mapping[str, Any]], Any] = dict,
) -> View:
    """Any framework's items: `read` gives an item as a chat message, or None for what is none."""
    items = list(items)
    found = [(at, read(item)) for at, item in enumerate(items)]
    return View(
        items=items,
        messages=Conversation(message for _, message in found if message is not None),
        places=[at for at, message in found if message is not None],
        make=make,
    )


def as_chat(
    role: str, content: Any, *, calls: Iterable[tuple[Any, Any, Any]] = (), answers: Any = None
) -> dict[str, Any]:
    """A chat message that makes `calls` (id, name, arguments), or has the result of one."""
    made = []
    for of, name, given in calls:
        arguments = str(given) if isinstance(given, Mapping) else given
        function = {"name": name, "arguments": arguments}
        made.append({"id": of, "type": "function", "function": function})
    message = {"role": role, "content": content}
    message |= {"tool_calls": made} if made else {}
    return message | ({"tool_call_id": answers} if role == "tool" else {})


def splice(view: View, built: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The caller's items with what `built` adds to their messages, or None if it changed others.

    Every item of the caller is the same object as before; an older reference
    that `built` left out is left out.
    """
    mine = view.messages.messages
    same_so_far = [*map(operator.eq, mine, built), False]  # a long history, at a glance
    seen = same_so_far.index(False)
    done = view.places[seen - 1] + 1 if seen else 0
    spliced: list[Any] = view.items[:done]

    def take_up_to(place: int) -> None:
        nonlocal done, spliced
        spliced += view.items[done:place]
        done = place

    def leave_ours_out(but: object = None) -> None:
        nonlocal done, seen
        while seen < len(mine) and mine[seen] != but and is_ours(mine[seen]):
            take_up_to(view.places[seen])
            done += 1
            seen += 1

    for message in built[seen:]:
        leave_ours_out(message)
        if seen < len(mine) and mine[seen] == message:
            take_up_to(view.places[seen] + 1)
            seen += 1
        elif is_ours(message):
            take_up_to(view.places[seen] if seen < len(mine) else len(view.items))
            spliced.append(view.make(message))
        else:
            return None
    leave_ours_out()
    return spliced + view.items[done:] if seen == len(mine) else None


def has_reference(messages: Conversation) -> bool:
    """Whether the reference of this turn is there: before the last message of the user."""
    at = -1 if messages.asked is None else messages.asked - 1
    while at >= 0 and (
        is_ours(messages[at]) or is_result(messages[at]) or makes_calls(messages[at])
    ):
        if is_reference(messages[at]):
            return True
        at -= 1
    return False


def question_key(messages: Conversation) -> bytes:
    """A digest of what the user said last; equal for the iterations of one turn."""
    text = "" if messages.question is None else text_of(messages.question)
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def named_user(options: Mapping[str, Any]) -> str | None:
    """The user a request names: `metadata={"user_id": …}`, else `safety_identifier=` or `user=`.

    Each is read in `extra_body` too, where older SDKs want what they do not know.
    """
    for named in (options, options.get("extra_body")):
        found = (get(get(named, "metadata"), "user_id"), get(named, "safety_identifier"))
        for user in (*found, get(named, "user")):
            if isinstance(user, str) and user:
                return user
    return None


def is_ours(message: Mapping[str, Any]) -> bool:
    """Whether memory added this message."""
    return is_stub(message) or is_reference(message)


def _message_of(item: Any) -> dict[str, Any] | None:
    """An input item of the responses API as a chat message, or None for what is none."""
    kind = get(item, "type")
    if kind in (None, "message") and get(item, "role") is not None:
        content = get(item, "content")
        if isinstance(content, list | tuple):
            content = [_plain(part) for part in content]
        return {"role": get(item, "role"), "content": content}
    if kind == "function_call":
        call = (get(item, "call_id"), get(item, "name"), get(item, "arguments"))
        return as_chat("assistant", None, calls=[call])
    if kind == "function_call_output":
        output = get(item, "output")
        content = [_plain(part) for part in output] if isinstance(output, list | tuple) else output
        return as_chat("tool", content, answers=get(item, "call_id"))
    return None


def _plain(part: Any) -> Any:
    dump = None if isinstance(part, str | Mapping) else getattr(part, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else part
