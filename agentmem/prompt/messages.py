"""A conversation, read once: checked messages, where the user asks, what in it is ours, and where
the reference goes, so that it costs no cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args, overload

from agentmem.base.checks import require_choice
from agentmem.base.config import Framing, Placement, ReferenceRole
from agentmem.base.errors import InvalidMessage, MalformedBlock, RoleRefused
from agentmem.base.types import BEGIN_LINE, normalise
from agentmem.prompt.block import STUB, is_rendered
from agentmem.text.messages import (
    call_ids,
    is_question,
    is_result,
    makes_calls,
    parts_of,
    require_message,
    result_ids,
    text_of,
)

_BEGIN = BEGIN_LINE.partition("{")[0]
_FIRST = (_BEGIN[0], STUB[0])
"""What the texts of ours begin with; most messages need no second look."""
_SPEAKERS = ("user", "assistant", "system", "developer")
_CARRIERS = ("assistant", "user")
"""Who may say a reference: the roles that `inject` gives it."""


class Conversation(Sequence[dict[str, Any]]):
    """Chat messages as dicts of our own, and what every step of a turn asks about them.

    `asked` is where the user spoke last: not a tool's result, not our stub; None
    where nobody asks. Raises InvalidMessage for what no provider would take.
    Nobody may change the messages: `copies` gives those that go out.
    """

    def __init__(self, messages: Iterable[Any] = ()) -> None:
        kept: list[dict[str, Any]] = []
        odd: list[int] = []
        suspects: list[int] = []
        for at, message in enumerate(messages):
            # Nearly all are two keys and a plain text, of which nothing else is to be found out.
            if type(message) is dict and len(message) == 2:
                content = message.get("content")
                if type(content) is str and message.get("role") in _SPEAKERS:
                    kept.append(message.copy() if content.isascii() else as_dict(message, at))
                    if content[:1] in _FIRST:
                        suspects.append(at)
                    continue
            kept.append(as_dict(message, at))
            odd.append(at)
            suspects.append(at)
        self.messages = tuple(kept)
        self._odd = tuple(odd)
        self._suspects = tuple(suspects)
        self.asked = last_question(kept)

    @overload
    def __getitem__(self, at: int, /) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice, /) -> tuple[dict[str, Any], ...]: ...
    def __getitem__(self, at: int | slice, /) -> Any:
        return self.messages[at]

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.messages)

    @property
    def question(self) -> dict[str, Any] | None:
        """The message in which the user spoke last."""
        return None if self.asked is None else self.messages[self.asked]

    def prefix_hash(self) -> int:
        """A number that tells conversations up to the question apart, in this process, nearly
        always: whoever takes two for the same compares them too."""
        end = 0 if self.asked is None else self.asked + 1
        contents = [message.get("content") for message in self.messages[:end]]
        return hash(tuple([c if type(c) is str else repr(c) for c in contents]))

    def copies(self) -> list[dict[str, Any]]:
        """The messages for somebody who may change them."""
        return [message.copy() for message in self.messages]

    def without_old_references(self, *, keep_earlier: bool) -> Conversation:
        """The messages that go out beside a new reference; itself where none is ours.

        With `keep_earlier` only those of this turn go.
        """
        gone = self.references_to_replace(keep_earlier=keep_earlier)
        if not gone:
            return self
        return Conversation(m for at, m in enumerate(self.messages) if at not in gone)

    def references_to_replace(self, *, keep_earlier: bool) -> frozenset[int]:
        """The places whose messages a new reference takes the place of."""
        if not self.ours or not keep_earlier:
            return self.ours
        return _run_up_to(self.place, self.ours) | _run_up_to(self.asked or 0, self.ours)

    def says(self, text: str) -> bool:
        """Whether a message says exactly this, but for white space at the ends of lines."""
        likely = self._texts.get(_first_word(text))
        if not likely:
            return False
        wanted = normalise(text)
        return any(normalise(said) == wanted for said in likely)

    # -- worked out when asked for; two threads that ask at once agree ---------------------

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """What is said, by how it begins: to bring all of it to one form would take too long."""
        found: dict[str, list[str]] = {}
        for message in self.messages:
            content = message.get("content")
            if content:
                text = content if type(content) is str else text_of(message)
                found.setdefault(_first_word(text), []).append(text)
        return found

    @cached_property
    def place(self) -> int:
        """Where a reference goes: before the question, and never between a call and its result."""
        asked = self.asked or 0
        waiting: dict[str, int] = {}
        answered: set[str] = set()
        for at in self._odd:
            message = self.messages[at]
            if at >= asked:
                answered.update(result_ids(message))
                continue
            for call in call_ids(message):
                waiting[call] = at
            for call in result_ids(message):
                waiting.pop(call, None)
        unanswered = [at for call, at in waiting.items() if call in answered]
        if asked and is_result(self.messages[asked]) and makes_calls(self.messages[asked - 1]):
            unanswered.append(asked - 1)
        return min(unanswered, default=asked)

    @cached_property
    def ours(self) -> frozenset[int]:
        """The places before the question of what memory added, in this turn or an earlier one.

        A lone reference that directly follows a user's message may be the
        model's answer, a copy of what it was shown: that is not ours, since to
        drop an answer is worse than to send an old block again.
        """
        asked, place, messages = self.asked or 0, self.place, self.messages
        suspects = [at for at in self._suspects if at < asked]
        ours = {at for at in suspects if is_stub(messages[at])}
        for at in suspects:
            if not is_reference(messages[at]):
                continue
            this_turn = at + 1 in (asked, place)
            stubbed = at - 1 in ours and is_stub(messages[at - 1])
            answer = at > 0 and at - 1 not in ours and is_question(messages[at - 1])
            if this_turn or stubbed or (is_question(messages[at + 1]) and not answer):
                ours.add(at)
        return frozenset(ours)


def read_conversation(messages: Iterable[Any]) -> Conversation:
    """`messages` as a conversation; one that is one already is not read again."""
    return messages if isinstance(messages, Conversation) else Conversation(messages)


def last_question(messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Where the user spoke last: not a tool's result, not our stub."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if is_question(message) and not is_result(message) and not is_stub(message):
            return at
    return None


def is_stub(message: Mapping[str, Any]) -> bool:
    """Whether the message is the constant `user` turn of our pair."""
    return message.get("role") == "user" and _only_text(message) == STUB


def is_reference(message: Mapping[str, Any]) -> bool:
    """Whether the message is one rendered block and nothing else."""
    content = message.get("content")
    if type(content) is str and not content.startswith(_BEGIN):
        return False
    return message.get("role") in _CARRIERS and is_rendered(_only_text(message))


def as_dict(message: Any, at: int) -> dict[str, Any]:
    """The message at `at` as a dict of its own, checked."""
    if not isinstance(message, Mapping):
        dump = getattr(message, "model_dump", None)
        if not callable(dump):
            raise InvalidMessage(
                f"messages[{at}]",
                message,
                "is not a mapping",
                remedy="Pass dicts with role and content, or objects with model_dump().",
            )
        message = dump(exclude_none=True)
    return dict(require_message(message, f"messages[{at}]"))


def _first_word(text: str) -> str:
    """How a text begins, whatever white space stands before it; the same for equal contents."""
    start = (text if text.isascii() else normalise(text)).lstrip()[:20].split(None, 1)
    return start[0] if start else ""


def _run_up_to(end: int, ours: frozenset[int]) -> frozenset[int]:
    """The unbroken run of our messages that ends right before `end`."""
    start = end
    while start - 1 in ours:
        start -= 1
    return frozenset(range(start, end))


def _only_text(message: Mapping[str, Any]) -> str:
    """The text of a message that has text alone, else nothing."""
    content = message.get("content")
    if type(content) is str:
        return "" if makes_calls(message) else content
    parts = parts_of(message)
    if len(parts) != 1 or makes_calls(message):
        return ""
    return text_of(message)


# ----------------------------------------------------------------------------
# Put the reference message among chat messages, where it costs no cache.
#
# The block goes directly before the last message in which the user speaks, so
# that everything before it stays as it was and the tool calls of the same turn
# come after it (P18). It is never last, never the system's, and never between a
# tool call and its result.


_FRAMINGS, _ROLES, _PLACEMENTS = map(get_args, (Framing, ReferenceRole, Placement))


def reference_messages(
    text: str, *, framing: Framing = "pair", role: ReferenceRole = "assistant"
) -> list[dict[str, Any]]:
    """The messages that carry a rendered block: a stub and the reference, or the lone reference."""
    if role not in _ROLES:
        raise RoleRefused(role)
    require_choice(framing, _FRAMINGS, "framing")
    reference = {"role": role, "content": text}
    if framing == "single" or role == "user":
        return [reference]
    return [{"role": "user", "content": STUB}, reference]


def inject(
    messages: Iterable[Any],
    text: str | None,
    *,
    framing: Framing = "pair",
    role: ReferenceRole = "assistant",
    placement: Placement = "before_last_user",
) -> list[dict[str, Any]]:
    """A new list with the block before the last message in which the user speaks.

    `text` is what `render_context` wrote. A block of this turn that is there
    already is replaced, so injecting twice is injecting once. Blocks of earlier
    turns are taken out, or kept with `placement="append"`. With `None` only that
    removal is done. Where no user speaks nothing is added: the reference would be last.

    `role="user"` gives one message, since two user turns in a row get merged.
    Messages may be mappings or objects with `model_dump`; the input is not
    changed.
    """
    require_choice(placement, _PLACEMENTS, "placement")
    if text is not None and not (isinstance(text, str) and is_rendered(text)):
        raise MalformedBlock(
            "Only a whole rendered block can be injected.",
            remedy="Pass what render_context returned.",
        )
    # A refused role is refused without a block.
    added = reference_messages(text or "", framing=framing, role=role)
    added = [] if text is None else added
    conversation = read_conversation(messages)
    kept = conversation.copies()
    if conversation.asked is None:
        return kept
    place = conversation.place
    gone = conversation.references_to_replace(keep_earlier=placement == "append")
    if not gone:
        return kept[:place] + added + kept[place:]
    before = [message for at, message in enumerate(kept[:place]) if at not in gone]
    after = [message for at, message in enumerate(kept[place:], start=place) if at not in gone]
    return before + added + after
