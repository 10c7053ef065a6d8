"""Make a conversation fit: media goes first, then the oldest messages.

Seen from the inside, each ring gets what the rings before it leave:

    fixed  ·  steps of the present turn  ·  earlier messages  ·  media

and once a ring had to leave something out, the rings outside it are left out
altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentmem.base.errors import InvalidMessage
from agentmem.base.types import Message
from agentmem.prompt.budget import (
    Budget,
    BudgetReport,
    ContentPackage,
    Fate,
    MessageCounter,
    fill,
    make_package,
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
    if current is None:
        current = _current_index(messages)
    pairs, orphans = _link_results(messages)
    parent = list(range(len(messages)))

    def first_of(place: int) -> int:
        """The smallest place among those that `place` was joined with."""
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    def join(one: int, other: int) -> None:
        low, high = sorted((first_of(one), first_of(other)))
        parent[high] = low

    for place, call in pairs:
        join(place, call)
    question: int | None = None
    for place, message in enumerate(messages[:current]):
        with_current = current is not None and first_of(place) == first_of(current)
        if message["role"] in SYSTEM_ROLES or with_current:
            continue
        if is_question(message):
            question = place
        elif question is not None:
            join(place, question)
    units: dict[int, list[int]] = {}
    for place in range(len(messages)):
        units.setdefault(first_of(place), []).append(place)
    return tuple(
        Unit(
            indices=tuple(places),
            current=current in places,
            fixed=current in places or messages[first]["role"] in SYSTEM_ROLES,
            recent=current is not None and first > current,
            orphan=first in orphans,
        )
        for first, places in units.items()
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimPlan:
    """What to send: `messages` in their order; `kept_indices` says where each stood.

    One whose media was left out is a copy with a short note in its place.
    """

    messages: tuple[Message, ...]
    kept_indices: tuple[int, ...]
    report: BudgetReport


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
    packages: Iterable[ContentPackage] = (),
    current: int | None = None,
) -> TrimPlan:
    """The part of a conversation that fits in `limit_tokens` (P17).

    System prompt, current message and the `packages` that go with them always stay; if
    they do not fit, `FixedContentTooLarge` is raised. Otherwise goes, in this order and
    only as far as needed: media inside earlier messages, the oldest first; earlier
    messages, oldest first and in whole turns, so an answer goes with its question; at
    last the steps of the present turn, oldest first. A tool call and its results stay or
    go together, and a tool result without a call is never the first message. Each
    message is counted once, one with media twice.
    """
    pieces = [
        _piece(unit, messages, count_message) for unit in group_turns(messages, current=current)
    ]
    outcome: dict[int, Fate] = {}
    room = limit_tokens

    def note(ring: Iterable[Fate]) -> bool:
        """Keep what became of a ring, take it from the room; whether all of it is sent."""
        nonlocal room
        whole = True
        for fate in ring:
            outcome[id(fate.package)] = fate
            room -= fate.tokens
            whole = whole and fate.outcome != "dropped"
        return whole

    def is_sent(package: ContentPackage) -> bool:
        return outcome[id(package)].outcome != "dropped"

    # The fixed ring: one fill over all of it, which raises when it is too large.
    fixed = [piece for piece in pieces if piece.unit.fixed]
    must = [*(piece.package for piece in fixed), *packages]
    note(fill([*must, *(media.package for piece in fixed for media in piece.media)], room).fates)
    loose = [piece for piece in pieces if not piece.unit.fixed]
    open_ = note(_keep_newest([piece for piece in loose if piece.unit.recent], room))
    earlier = [piece for piece in loose if not piece.unit.recent]
    open_ = note(_keep_newest(earlier, room if open_ else -1)) and open_
    for piece in pieces:  # every provider refuses a result without its call at the front
        if not is_sent(piece.package) or piece.package.type == "system-prompt":
            continue
        if not piece.unit.orphan or piece.unit.fixed:
            break
        room += piece.package.tokens
        note(_drop([piece.package], "left out: its tool call is not in the conversation"))

    sent = [piece for piece in pieces if is_sent(piece.package)]
    inside = [media for piece in sent if not piece.unit.fixed for media in piece.media]
    shown = [media.package for media in inside]
    note(fill(shown, room).fates if open_ else _drop(shown, "trimmed: media goes before messages"))
    bare = {media.place: media.bare for media in inside if not is_sent(media.package)}
    kept = sorted(place for piece in sent for place in piece.unit.indices)
    said = {id(piece.package): outcome[id(piece.package)] for piece in pieces}
    return TrimPlan(
        messages=tuple(bare.get(place, messages[place]) for place in kept),
        kept_indices=tuple(kept),
        report=BudgetReport(limit_tokens=limit_tokens, fates=tuple((said | outcome).values())),
    )


def _piece(unit: Unit, messages: Sequence[Message], count_message: MessageCounter) -> _Piece:
    tokens = 0
    media: list[MediaInside] = []
    for place in unit.indices:
        cost, inside = _counted(messages, place, count_message, can_drop=not unit.fixed)
        tokens += cost
        media += [inside] if inside else []
    first = unit.indices[0]
    system = messages[first]["role"] in SYSTEM_ROLES
    kind = "message-current" if unit.current else "system-prompt" if system else "message-recent"
    package = make_package(
        kind,
        id=f"message-{first:04d}",
        tokens=tokens,
        items=len(unit.indices),
        relevance=(first + 1) / len(messages),
        can_drop=not unit.fixed,
    )
    return _Piece(unit=unit, package=package, media=tuple(media))


def _counted(
    messages: Sequence[Message],
    place: int,
    count_message: MessageCounter,
    *,
    can_drop: bool = False,
) -> tuple[int, MediaInside | None]:
    """What a message costs without its media, and these, where it has any that cost something."""
    message = messages[place]
    tokens = count_message(message)
    if type(message.get("content")) is str and not message.get("images"):
        return tokens, None
    parts = media_parts(message)
    if not parts:
        return tokens, None
    bare = without_media(message)
    cost = count_message(bare)
    if cost >= tokens:
        return tokens, None
    package = make_package(
        f"media-{media_kind(parts[0])}",
        id=f"message-{place:04d}-media",
        tokens=tokens - cost,
        items=len(parts),
        # Later in the conversation is nearer to what is asked now.
        relevance=(place + 1) / len(messages),
        can_drop=can_drop,
    )
    return cost, MediaInside(place=place, bare=bare, package=package)


def _keep_newest(pieces: Sequence[_Piece], room: int) -> Iterator[Fate]:
    """Keep the newest pieces up to the first that does not fit; none if `room` is negative."""
    full = "trimmed: earlier messages go before the steps of this turn" if room < 0 else ""
    for piece in reversed(pieces):
        package, needs = piece.package, f"needs {piece.package.tokens:,}, {room:,} left"
        if not full and package.tokens <= room:
            room -= package.tokens
            yield Fate(package=package, outcome="kept", reason=f"kept: {needs}")
        else:
            yield from _drop([package], full or f"trimmed, oldest first: {needs}")
            full = full or "trimmed: older than one that did not fit"


def _drop(packages: Sequence[ContentPackage], reason: str) -> tuple[Fate, ...]:
    return tuple(Fate(package=one, outcome="dropped", reason=reason) for one in packages)


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


def pack_context(
    messages: Iterable[Any],
    *,
    window_tokens: int,
    reserve_tokens: int,
    count_message: MessageCounter,
    packages: Iterable[ContentPackage] = (),
    memories_asked: int = 0,
    as_they_are: bool = False,
) -> ContextPlan:
    """What of a conversation and of `packages` fits into `window_tokens` − `reserve_tokens`.

    Packages are whatever goes with the messages: memories, preferences,
    tool results, tool schemas, each of its own type. `trim` decides which messages have to
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
    account = partial(
        tally,
        window_tokens=window_tokens,
        reserved_tokens=reserve_tokens,
        memories_asked=memories_asked,
    )
    limit = account(()).available_tokens
    if as_they_are:
        sent: tuple[Message, ...] = conversation.messages
        report = _as_they_are(conversation, packages, limit, count_message)
    else:
        plan = trim(
            conversation.messages,
            limit,
            count_message=count_message,
            packages=packages,
            current=conversation.asked,
        )
        sent, report = plan.messages, plan.report
    return ContextPlan(messages=sent, report=report, budget=account(report.kept))


def _as_they_are(
    conversation: Conversation,
    packages: Iterable[ContentPackage],
    limit_tokens: int,
    count_message: MessageCounter,
) -> BudgetReport:
    """Everything goes in; what the conversation says before and after the question is one each."""
    asked = conversation.asked or 0
    parts: dict[tuple[str, str], list[int]] = {}
    counted = [_counted(conversation, at, count_message) for at in range(len(conversation))]
    for place, message in enumerate(conversation):
        name, kind = ("history" if place < asked else "steps"), "message-recent"
        if message["role"] in SYSTEM_ROLES or place == asked:
            name = f"message-{place:04d}"
            kind = "message-current" if place == asked else "system-prompt"
        parts.setdefault((name, kind), []).append(place)
    listed = [
        make_package(
            kind,
            id=name,
            tokens=sum(counted[at][0] for at in places),
            items=len(places),
            can_drop=False,
        )
        for (name, kind), places in parts.items()
    ]
    media = [inside.package for _, inside in counted if inside]
    fates = (
        Fate(package=package, outcome="fixed", reason="sent as it came")
        for package in (*listed, *media, *packages)
    )
    return BudgetReport(limit_tokens=limit_tokens, fates=tuple(fates))
