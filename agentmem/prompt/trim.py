"""Make a conversation fit: media goes first, then the oldest messages, then memories.

Seen from the inside, each ring gets what the rings before it leave:

    fixed  ·  steps of the present turn  ·  memories  ·  earlier messages  ·  media

and once a ring had to leave something out, the rings outside it are left out
altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from agentmem.base.checks import require_count
from agentmem.base.errors import InvalidMessage, InvalidNumber
from agentmem.base.types import Message
from agentmem.prompt.budget import (
    Budget,
    BudgetReport,
    ContentPackage,
    Fate,
    MessageCounter,
    Outcome,
    fill,
    list_packages,
    make_package,
    rule_for,
    tally,
)
from agentmem.prompt.messages import Conversation, read_conversation
from agentmem.text.messages import (
    SYSTEM_ROLES,
    call_ids,
    is_question,
    is_result,
    makes_calls,
    media_kind,
    media_parts,
    require_message,
    result_ids,
    without_media,
)

# ----------------------------------------------------------------------------
# Which messages belong together, and what goes first when a conversation is too long.


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


def group_turns(messages: Sequence[Message], *, current: int | None = None) -> tuple[Unit, ...]:
    """The units of a conversation, in the order of their first message (P17).

    A tool call and all its results are one unit, wherever the results stand;
    an id used again belongs to the nearest call before it. A user's message
    and everything up to the next one are one unit as well, so that no answer
    stays behind without its question; the present turn is the
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPlan:
    """What to send: `messages` in their order; `kept_indices` says where each stood.

    One whose media was left out is a copy with a short note in its place.
    """

    messages: tuple[Message, ...]
    kept_indices: tuple[int, ...]
    report: BudgetReport
    warnings: tuple[str, ...] = ()

    @property
    def used_tokens(self) -> int:
        return self.report.used_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A unit of messages, counted without the media inside."""

    unit: Unit
    package: ContentPackage
    media: tuple[MediaInside, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaInside:
    """The media of the message at `place` as a package, and the message without it."""

    place: int
    bare: Message
    package: ContentPackage


def trim(
    messages: Sequence[Message],
    limit_tokens: int,
    *,
    count_message: MessageCounter,
    now: datetime,
    packages: Iterable[ContentPackage] = (),
    current: int | None = None,
) -> TrimPlan:
    """The part of a conversation that fits in `limit_tokens` (P17).

    System prompt and current message always stay; if they and the fixed
    `packages` do not fit, `FixedContentTooLarge` is raised. Otherwise goes, in
    this order and only as far as needed: media, both in `packages` and inside
    earlier messages (lowest score first); earlier messages, oldest first and in
    whole turns, so an answer goes with its question; memories and all other
    packages (lowest score first; one larger than all the room there is goes
    without costing any message its place); at last the steps of the present turn, oldest
    first. A tool call and its results stay or go together, and a tool result
    without a call is never the first message. Each message is counted once, one
    with media twice.
    """
    require_count(limit_tokens, "limit_tokens")
    pieces = [
        _piece(unit, messages, count_message) for unit in group_turns(messages, current=current)
    ]
    others = list_packages(packages)

    # The fixed ring: one fill over all of it, which raises when it is too large.
    fixed = {id(piece.package): piece for piece in pieces if piece.unit.fixed}
    must = fill(
        [
            *(piece.package for piece in fixed.values()),
            *(package for package in others if not package.can_drop),
            *(media.package for piece in fixed.values() for media in piece.media),
        ],
        limit_tokens,
        now=now,
    )
    room = must.left_tokens
    outcome: dict[Unit, Fate] = {}
    fates: list[Fate] = []
    for fate in must.fates:
        owner = fixed.get(id(fate.package))
        if owner is None:
            fates.append(fate)
        else:
            outcome[owner.unit] = fate

    recent = [p for p in pieces if p.unit.recent and not p.unit.fixed]
    outcome |= _keep_newest(recent, room)
    room -= sum(outcome[piece.unit].tokens for piece in recent)
    closed = any(not outcome[piece.unit].sent for piece in recent)

    loose = [p for p in others if p.can_drop and not _is_media(p)]
    if closed:
        offered = _drop(loose, "trimmed: memories go before the steps of this turn")
    else:
        offered = fill(loose, room, now=now).fates
        # One that no trimming makes room for must not cost the conversation its messages.
        closed = any(not fate.sent and fate.package.tokens <= room for fate in offered)
    fates += offered
    room -= sum(fate.tokens for fate in offered)

    earlier = [p for p in pieces if not p.unit.recent and not p.unit.fixed]
    outcome |= _keep_newest(earlier, -1 if closed else room)
    closed = closed or any(not outcome[piece.unit].sent for piece in earlier)
    _drop_leading_orphans(pieces, outcome)
    room -= sum(outcome[piece.unit].tokens for piece in earlier)

    inside = [
        media
        for piece in pieces
        if outcome[piece.unit].sent and not piece.unit.fixed
        for media in piece.media
    ]
    media = [p for p in others if p.can_drop and _is_media(p)]
    media += [one.package for one in inside]
    if closed:
        shown = _drop(media, "trimmed: media goes before messages")
    else:
        shown = fill(media, room, now=now).fates
    bare = _messages_without_media(inside, shown)
    return _plan(messages, pieces, outcome, bare, (*fates, *shown), limit_tokens=limit_tokens)


def _piece(unit: Unit, messages: Sequence[Message], count_message: MessageCounter) -> _Piece:
    tokens = 0
    media: list[MediaInside] = []
    for place in unit.indices:
        message = messages[place]
        whole = require_count(count_message(message), "count_message(message)")
        tokens += whole
        found = media_inside(
            message, place, whole, len(messages), count_message, can_drop=not unit.fixed
        )
        if found is not None:
            tokens -= found.package.tokens
            media.append(found)
    first = unit.indices[0]
    system = messages[first]["role"] in SYSTEM_ROLES
    kind = "message-current" if unit.current else "system-prompt" if system else "message-recent"
    package = make_package(
        kind,
        _content([messages[place] for place in unit.indices]),
        id=f"message-{first:04d}",
        tokens=tokens,
        relevance=(first + 1) / len(messages),
        can_drop=not unit.fixed,
    )
    return _Piece(unit=unit, package=package, media=tuple(media))


def media_inside(
    message: Message,
    place: int,
    tokens: int,
    of: int,
    count_message: MessageCounter,
    *,
    can_drop: bool = False,
) -> MediaInside | None:
    """The media of a message that costs `tokens`, the one at `place` of so many; None without."""
    if type(message.get("content")) is str and not message.get("images"):
        return None
    parts = media_parts(message)
    if not parts:
        return None
    bare = without_media(message)
    saved = tokens - require_count(count_message(bare), "count_message(message)")
    if saved <= 0:
        return None
    package = make_package(
        f"media-{media_kind(parts[0])}",
        parts,
        id=f"message-{place:04d}-media",
        tokens=saved,
        # Later in the conversation is nearer to what is asked now.
        relevance=(place + 1) / of,
        can_drop=can_drop,
    )
    return MediaInside(place=place, bare=bare, package=package)


def _keep_newest(pieces: Sequence[_Piece], room: int) -> dict[Unit, Fate]:
    """Keep the newest pieces up to the first that does not fit; none if `room` is negative."""
    outcome: dict[Unit, Fate] = {}
    full = room < 0
    reason = "trimmed: messages go before memories"
    for piece in reversed(pieces):
        tokens = piece.package.tokens
        if not full and tokens > room:
            full = True
            why = f"trimmed, oldest first: needs {tokens:,}, {room:,} left"
            reason = "trimmed: older than one that did not fit"
        elif full:
            why = reason
        else:
            outcome[piece.unit] = _kept(piece.package, f"kept: needs {tokens:,}, {room:,} left")
            room -= tokens
            continue
        outcome[piece.unit] = _dropped(piece.package, why)
    return outcome


def _drop_leading_orphans(pieces: Sequence[_Piece], outcome: dict[Unit, Fate]) -> None:
    """Take tool results without a call off the front, where every provider refuses them."""
    for piece in pieces:
        if not outcome[piece.unit].sent or piece.package.type == "system-prompt":
            continue
        if not piece.unit.orphan or piece.unit.fixed:
            return
        why = "left out: its tool call is not in the conversation"
        outcome[piece.unit] = _dropped(piece.package, why)


def _messages_without_media(
    inside: Sequence[MediaInside], shown: Sequence[Fate]
) -> dict[int, Message]:
    sent = {id(fate.package) for fate in shown if fate.sent}
    return {one.place: one.bare for one in inside if id(one.package) not in sent}


def _plan(
    messages: Sequence[Message],
    pieces: Sequence[_Piece],
    outcome: dict[Unit, Fate],
    bare: dict[int, Message],
    fates: Sequence[Fate],
    *,
    limit_tokens: int,
) -> TrimPlan:
    kept = sorted(place for unit, fate in outcome.items() if fate.sent for place in unit.indices)
    out = {place: bare.get(place, messages[place]) for place in kept}
    said: list[Fate] = []
    for piece in pieces:
        fate = outcome[piece.unit]
        if fate.sent and bare:
            content = _content([out[place] for place in piece.unit.indices])
            fate = replace(fate, sent=replace(fate.sent, content=content))
        said.append(fate)
    steps = [place for piece in pieces if piece.unit.recent for place in piece.unit.indices]
    lost = bool(steps) and max(steps) not in out
    return TrimPlan(
        messages=tuple(out.values()),
        kept_indices=tuple(kept),
        report=BudgetReport(limit_tokens=limit_tokens, fates=(*said, *fates)),
        warnings=("the latest step of this turn did not fit and was left out",) if lost else (),
    )


def _is_media(package: ContentPackage) -> bool:
    return rule_for(package.type).component == "media"


def _kept(package: ContentPackage, reason: str, outcome: Outcome = "kept") -> Fate:
    return Fate(package=package, outcome=outcome, reason=reason, sent=package)


def _dropped(package: ContentPackage, reason: str) -> Fate:
    return Fate(package=package, outcome="dropped", reason=reason)


def _drop(packages: Sequence[ContentPackage], reason: str) -> tuple[Fate, ...]:
    return tuple(_dropped(package, reason) for package in packages)


def _content(messages: Sequence[Message]) -> Message | tuple[Message, ...]:
    return messages[0] if len(messages) == 1 else tuple(messages)


# ----------------------------------------------------------------------------
# A whole request in a model's window: messages and packages, each with its fate.


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPlan:
    """What goes into one request, and what became of everything that was offered.

    `messages` are in their original order.
    """

    messages: tuple[Message, ...]
    report: BudgetReport
    budget: Budget
    notes: tuple[str, ...] = ()


def pack_context(
    messages: Iterable[Any],
    *,
    window_tokens: int,
    reserve_tokens: int,
    count_message: MessageCounter,
    now: datetime,
    packages: Iterable[ContentPackage] = (),
    memories_asked: int = 0,
    as_they_are: bool = False,
) -> ContextPlan:
    """What of a conversation and of `packages` fits into `window_tokens` − `reserve_tokens`.

    Packages are whatever goes with the messages: memories, preferences, media,
    tool results, tool schemas, each of its own type. `trim` decides what has to
    give way. With `as_they_are` nothing does: the messages are somebody else's
    to shorten, and the budget says when they are too many. `memories_asked`
    are those of which at least one should be in it.
    """
    conversation = read_conversation(messages)
    if conversation.asked is None:
        raise InvalidMessage(
            "messages", len(conversation), "are without a question of the user's",
            remedy="Pass the user's message too.",
        )  # fmt: skip
    require_count(window_tokens, "window_tokens")
    if require_count(reserve_tokens, "reserve_tokens") > window_tokens:
        raise InvalidNumber(
            "reserve_tokens",
            reserve_tokens,
            f"is larger than the window of {window_tokens:,}",
            remedy="Lower the reserve or use a model with a larger window.",
        )
    limit = window_tokens - reserve_tokens
    notes: tuple[str, ...] = ()
    if as_they_are:
        sent: tuple[Message, ...] = conversation.messages
        report = _as_they_are(conversation, list_packages(packages), limit, count_message)
    else:
        plan = trim(
            conversation.messages,
            limit,
            count_message=count_message,
            now=now,
            packages=packages,
            current=conversation.asked,
        )
        sent, report, notes = plan.messages, plan.report, plan.warnings
    budget = tally(
        report.kept,
        window_tokens=window_tokens,
        reserved_tokens=reserve_tokens,
        memories_asked=memories_asked,
    )
    return ContextPlan(messages=sent, report=report, budget=budget, notes=notes)


@dataclass(slots=True, kw_only=True)
class _Part:
    type: str
    messages: list[Message] = field(default_factory=list)
    tokens: int = 0


def _as_they_are(
    conversation: Conversation,
    packages: Sequence[ContentPackage],
    limit_tokens: int,
    count_message: MessageCounter,
) -> BudgetReport:
    """Everything goes in; what the conversation says before and after the question is one each."""
    asked = conversation.asked or 0
    parts: dict[str, _Part] = {}
    media: list[ContentPackage] = []
    for place, message in enumerate(conversation):
        tokens = require_count(count_message(message), "count_message(message)")
        inside = media_inside(message, place, tokens, len(conversation), count_message)
        if inside is not None:
            media.append(inside.package)
            tokens -= inside.package.tokens
        if message["role"] in SYSTEM_ROLES:
            name, kind = f"message-{place:04d}", "system-prompt"
        elif place == asked:
            name, kind = f"message-{place:04d}", "message-current"
        else:
            name, kind = ("history" if place < asked else "steps"), "message-recent"
        part = parts.setdefault(name, _Part(type=kind))
        part.messages.append(message)
        part.tokens += tokens
    listed = [
        make_package(part.type, tuple(part.messages), id=name, tokens=part.tokens, can_drop=False)
        for name, part in parts.items()
    ]
    fates = (
        Fate(package=package, outcome="fixed", reason="sent as it came", sent=package)
        for package in (*listed, *media, *packages)
    )
    return BudgetReport(limit_tokens=limit_tokens, fates=tuple(fates))
