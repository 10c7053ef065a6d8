"""Find the messages in a call, and put the reference among the caller's own objects."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agentmem.core.conversation import Conversation, is_reference, is_stub
from agentmem.core.message_parts import is_result, makes_calls, text_of
from agentmem.core.replies import get
from agentmem.core.values import dataclass
from agentmem.types import Scope

ScopeLike = Scope | Mapping[str, str | None] | str
"""Whose memory is meant: a Scope, a mapping such as `{"user_id": "ann"}`, or a user's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a request says, as chat messages; `places` are their positions in `items`.

    Items that are no messages, such as reasoning, are in `items` only.
    """

    items: list[Any]
    messages: Conversation
    places: list[int] = field(default_factory=list)


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
    items = list(request_input)
    messages: list[dict[str, Any]] = []
    places: list[int] = []
    for at, item in enumerate(items):
        message = _message_of(item)
        if message is not None:
            messages.append(message)
            places.append(at)
    return View(items=items, messages=Conversation(messages), places=places)


def splice(view: View, built: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """The caller's items with what `built` adds to their messages, or None if it changed others.

    Every item of the caller is the same object as before; an older reference
    that `built` left out is left out.
    """
    spliced: list[Any] = []
    done = 0
    seen = 0
    mine = view.messages.messages
    for message in built:
        same = seen < len(mine) and mine[seen] == message
        while not same and seen < len(mine) and is_ours(mine[seen]):
            place = view.places[seen]
            spliced += view.items[done:place]
            done = place + 1
            seen += 1
            same = seen < len(mine) and mine[seen] == message
        if same:
            place = view.places[seen]
            spliced += view.items[done : place + 1]
            done = place + 1
            seen += 1
        elif is_ours(message):
            place = view.places[seen] if seen < len(view.places) else len(view.items)
            spliced += view.items[done:place]
            done = place
            spliced.append(dict(message))
        else:
            return None
    for at in range(seen, len(mine)):
        if not is_ours(mine[at]):
            return None
        spliced += view.items[done : view.places[at]]
        done = view.places[at] + 1
    return spliced + view.items[done:]


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
    """The user a request names: `metadata={"user_id": …}`, else `user=`."""
    metadata = options.get("metadata")
    for user in (get(metadata, "user_id"), options.get("user")):
        if isinstance(user, str) and user:
            return user
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of one call, and where among them the messages are.

    `place` is a position, a keyword, or None when there are no messages.
    """

    args: tuple[Any, ...]
    options: dict[str, Any]
    place: int | str | None
    named: Mapping[str, Any]

    @property
    def messages(self) -> Any:
        if isinstance(self.place, int):
            return self.args[self.place]
        return None if self.place is None else self.options[self.place]

    def with_messages(self, messages: Any) -> Call:
        """The same call with other messages."""
        if isinstance(self.place, int):
            args = (*self.args[: self.place], messages, *self.args[self.place + 1 :])
            return replace(self, args=args)
        return replace(self, options={**self.options, str(self.place): messages})


def read_call(
    signature: inspect.Signature | None, args: tuple[Any, ...], options: dict[str, Any], name: str
) -> Call:
    """Find the argument `name`, by keyword or position; else the first that looks like messages."""
    positions = _positions(signature)
    named = {**dict(zip(positions, args, strict=False)), **options}
    place: int | str | None = None
    if name in options:
        place = name
    elif name in positions and positions.index(name) < len(args):
        place = positions.index(name)
    elif name == "messages":
        place = next((at for at, arg in enumerate(args) if _looks_like_messages(arg)), None)
        if place is None:
            place = next((key for key, arg in options.items() if _looks_like_messages(arg)), None)
    return Call(args=args, options=options, place=place, named=named)


def signature_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fn`, or None where Python cannot tell."""
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError):
        return None


def _positions(signature: inspect.Signature | None) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in signature.parameters.values() if p.kind in kinds] if signature else []


def _looks_like_messages(value: object) -> bool:
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(get(item, "role"), str) for item in value)
    )


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
        called = {
            "name": get(item, "name"),
            "arguments": get(item, "arguments"),
        }
        call = {"id": get(item, "call_id"), "type": "function", "function": called}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if kind == "function_call_output":
        output = get(item, "output")
        content = [_plain(part) for part in output] if isinstance(output, list | tuple) else output
        return {"role": "tool", "tool_call_id": get(item, "call_id"), "content": content}
    return None


def _plain(part: Any) -> Any:
    dump = None if isinstance(part, str | Mapping) else getattr(part, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else part
