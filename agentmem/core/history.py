"""Which messages belong together, and what goes first when a conversation is too long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentmem.core.checks import require_count
from agentmem.core.message_parts import (
    SYSTEM_ROLES,
    call_ids,
    is_question,
    is_result,
    makes_calls,
    require_message,
    result_ids,
)
from agentmem.core.values import dataclass
from agentmem.errors import InvalidNumber
from agentmem.types import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Messages that stay or go together, by their places in the list.

    `fixed` units are never dropped; the one with the current message is one of
    them. `recent` ones belong to the present turn:
    they follow the current message, such as its tool steps. `orphan` ones open
    with a tool result whose call is not in the list.
    """

    indices: tuple[int, ...]
    current: bool = False
    fixed: bool = False
    recent: bool = False
    orphan: bool = False


def group_turns(
    messages: Sequence[Message], *, whole_turns: bool = True, current: int | None = None
) -> tuple[Unit, ...]:
    """The units of a conversation, in the order of their first message (P17).

    A tool call and all its results are one unit, wherever the results stand;
    an id used again belongs to the nearest call before it. With `whole_turns`,
    a user's message and everything up to the next one are one unit as well, so
    that no answer stays behind without its question; the present turn is the
    exception, its steps are units of their own. `current` is the place of the
    current message; when not given, the last one in which a user speaks. User
    messages that only carry tool results do not count, unless there is no other.
    """
    _check(messages)
    if current is None:
        current = _current_index(messages)
    elif require_count(current, "current") >= len(messages):
        raise InvalidNumber(
            "current", current, "is behind the last message", remedy="Pass a place in the list."
        )
    pairs, orphans = _link_results(messages)
    sets = _Sets(len(messages))
    for place, call in pairs:
        sets.join(place, call)
    if whole_turns:
        present = None if current is None else sets.find(current)
        question: int | None = None
        for place, message in enumerate(messages[:current]):
            if message["role"] in SYSTEM_ROLES or sets.find(place) == present:
                continue
            if is_question(message):
                question = place
            elif question is not None:
                sets.join(place, question)
                present = None if current is None else sets.find(current)
    return tuple(
        Unit(
            indices=tuple(places),
            current=current in places,
            fixed=current in places or messages[places[0]]["role"] in SYSTEM_ROLES,
            recent=current is not None and places[0] > current,
            orphan=places[0] in orphans,
        )
        for places in sets.members()
    )


def _check(messages: Sequence[Message]) -> None:
    for number, message in enumerate(messages):
        require_message(message, f"messages[{number}]")


def _current_index(messages: Sequence[Message]) -> int | None:
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    asked = (place for place in reversed(users) if is_question(messages[place]))
    return next(asked, users[-1] if users else None)


def _link_results(messages: Sequence[Message]) -> tuple[list[tuple[int, int]], set[int]]:
    """Pairs of (result, its call), and the results that have no call before them."""
    pairs: list[tuple[int, int]] = []
    orphans: set[int] = set()
    callers: dict[str, int] = {}
    open_call: int | None = None
    for place, message in enumerate(messages):
        if makes_calls(message):
            open_call = place
            callers.update((f"id:{i}", place) for i in call_ids(message))
            function = message.get("function_call")
            if isinstance(function, Mapping):
                callers[f"name:{function.get('name')}"] = place
        elif is_result(message):
            keys = [f"id:{i}" for i in result_ids(message)]
            if not keys and message["role"] == "function":
                keys = [f"name:{message.get('name')}"]
            found = [callers[key] for key in keys if key in callers]
            if not keys and open_call is not None:
                # A result without an id answers the call it directly follows.
                found = [open_call]
            pairs += [(place, owner) for owner in found]
            if not found:
                orphans.add(place)
        else:
            open_call = None
    return pairs, orphans


class _Sets:
    """Places joined into sets; each set is known by its smallest place."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def find(self, place: int) -> int:
        while self._parent[place] != place:
            self._parent[place] = self._parent[self._parent[place]]
            place = self._parent[place]
        return place

    def join(self, one: int, other: int) -> None:
        low, high = sorted((self.find(one), self.find(other)))
        self._parent[high] = low

    def members(self) -> list[list[int]]:
        found: dict[int, list[int]] = {}
        for place in range(len(self._parent)):
            found.setdefault(self.find(place), []).append(place)
        return list(found.values())
