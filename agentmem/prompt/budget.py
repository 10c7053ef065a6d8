"""What may enter a request: one sort, one fill, the tokens each part may have, and what of a
conversation gives way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal

from agentmem.base.checks import require_count, require_unit
from agentmem.base.errors import FixedContentTooLarge, InvalidMessage, InvalidNumber
from agentmem.base.types import Message
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
# The content package: anything that may enter a prompt, counted once, and its score.


UNKNOWN = 0.5
"""Stands in for what nobody knows of a thing: neither good nor bad."""
RECENCY_DAYS = 30.0
_SECONDS_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPackage:
    """One thing that may enter a prompt, with its tokens counted once.

    `can_drop=False` makes it fixed: it is always sent. Types are an open set of strings.
    `items` is how many messages it is, where several belong together. `shorter` is what its
    shorter forms cost, the longest first, of which one may go out in its place.
    """

    id: str
    type: str
    tokens: int
    items: int = 1
    relevance: float | None = None
    can_drop: bool = True
    priority: int = 5
    shorter: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_count(self.tokens, "tokens")
        if self.relevance is not None:
            require_unit(self.relevance, "relevance")
        if require_count(self.priority, "priority", least=1) > 10:
            raise InvalidNumber("priority", self.priority, "is above 10", remedy="Use 1 to 10.")


def recency(timestamp: datetime, *, now: datetime) -> float:
    """exp(−days/30): 1 now, about 0.37 after a month. A moment in the future counts as now."""
    days = max(0.0, (now - timestamp).total_seconds() / _SECONDS_A_DAY)
    return math.exp(-days / RECENCY_DAYS)


def composite(
    *,
    priority: int,
    relevance: float | None,
    importance: float = UNKNOWN,
    recency: float = UNKNOWN,
) -> float:
    """The weighted mean of the four, from 0 to 1 (P15); an unknown relevance counts half."""
    known = UNKNOWN if relevance is None else relevance
    # fsum rounds once, so the sum can neither pass 1 nor fall when a part grows.
    return math.fsum((0.4 * (priority / 10), 0.3 * importance, 0.2 * known, 0.1 * recency))


BASE_KNOWLEDGE_TOKENS = 2_000
PREFERENCE_TOKENS = 500
KNOWLEDGE_TENTHS = 3
"""How many tenths of what is available knowledge may have."""

Outcome = Literal["fixed", "kept", "dropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBudgets:
    """What each part may have (P4).

    `available_tokens` is negative when the window cannot hold system prompt,
    question and reserve; the budgets are then 0. `history_tokens` is what is
    left for the conversation when preferences and knowledge use all of theirs.
    """

    available_tokens: int
    preference_tokens: int
    knowledge_tokens: int
    history_tokens: int


def calculate_token_budgets(
    *,
    window_tokens: int,
    system_tokens: int,
    query_tokens: int,
    reserve_tokens: int,
    preference_tokens: int = PREFERENCE_TOKENS,
    base_knowledge_tokens: int = BASE_KNOWLEDGE_TOKENS,
) -> TokenBudgets:
    """The budgets for one request.

    The whole preference budget is deducted before the knowledge budget, also
    when the preferences turn out shorter: the knowledge budget then stays the
    same from turn to turn, and what preferences leave goes to the history.
    """
    available = window_tokens - system_tokens - query_tokens - reserve_tokens
    preference = min(preference_tokens, max(0, available))
    knowledge = calculate_knowledge_budget(
        available, base_tokens=base_knowledge_tokens, preference_tokens=preference
    )
    return TokenBudgets(
        available_tokens=available,
        preference_tokens=preference,
        knowledge_tokens=knowledge,
        history_tokens=max(0, available - preference - knowledge),
    )


def calculate_knowledge_budget(
    available_tokens: int,
    *,
    base_tokens: int = BASE_KNOWLEDGE_TOKENS,
    preference_tokens: int = 0,
) -> int:
    """min(base, 0.3 × (available − preference budget)), rounded down, never negative.

    `available_tokens` may be negative, which gives 0. The share is applied in
    whole numbers, so no rounding error costs a token.
    """
    left = available_tokens - preference_tokens
    return max(0, min(base_tokens, left * KNOWLEDGE_TENTHS // 10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What became of a package, and why."""

    package: ContentPackage
    outcome: Outcome
    reason: str
    score: float | None = None

    @property
    def tokens(self) -> int:
        """The tokens that go out."""
        return 0 if self.outcome == "dropped" else self.package.tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """The outcome of a fill: every package's fate, in the order they were tried."""

    fates: tuple[Fate, ...]

    @property
    def kept(self) -> tuple[ContentPackage, ...]:
        """The packages to send, fixed ones first, then by score."""
        return tuple(fate.package for fate in self.fates if fate.outcome != "dropped")

    @property
    def dropped(self) -> tuple[Fate, ...]:
        return tuple(fate for fate in self.fates if fate.outcome == "dropped")

    @property
    def used_tokens(self) -> int:
        return sum(fate.tokens for fate in self.fates)


def fill(packages: Iterable[ContentPackage], limit_tokens: int) -> BudgetReport:
    """Fixed packages, then the best-scored ones that fit in `limit_tokens` (P14).

    A package too large for what is left goes out in the first of its shorter forms that
    fits, or is dropped; smaller ones after it are still tried. Equal scores are tried in the
    order of their ids. If the fixed packages alone do not fit, `FixedContentTooLarge` is raised.
    """
    left = require_count(limit_tokens, "limit_tokens")
    listed = list(packages)
    ids = {package.id for package in listed}
    # Ids should differ; where they do not, the order must still not depend on the input's.
    alike = len(ids) < len(listed)
    listed.sort(key=lambda package: (package.id, package.tokens, repr(package) if alike else ""))
    fixed = [package for package in listed if not package.can_drop]
    left -= sum(package.tokens for package in fixed)
    if left < 0:
        raise FixedContentTooLarge(
            needed_tokens=limit_tokens - left,
            limit_tokens=limit_tokens,
            items=tuple(f"{p.id} {p.tokens:,}" for p in sorted(fixed, key=lambda p: -p.tokens)),
        )
    fates = [Fate(package=p, outcome="fixed", reason="fixed: always sent") for p in fixed]
    scored = [
        (composite(priority=package.priority, relevance=package.relevance), package)
        for package in listed
        if package.can_drop
    ]
    for score, package in sorted(scored, key=lambda pair: -pair[0]):
        costs = (package.tokens, *package.shorter)
        tokens = next((cost for cost in costs if cost <= left), costs[-1])
        needs = f"needs {tokens:,}, {left:,} left"
        if tokens <= left:
            left -= tokens
            sent = package if tokens == package.tokens else replace(package, tokens=tokens)
            fate = Fate(package=sent, outcome="kept", reason=f"kept: {needs}", score=score)
        else:
            fate = Fate(
                package=package, outcome="dropped", reason=f"did not fit: {needs}", score=score
            )
        fates.append(fate)
    return BudgetReport(fates=tuple(fates))


# ----------------------------------------------------------------------------
# What a package's type means: one row of a table, so a new type is a new row and the
# fill stays as it is.
#
#     type               priority  fixed  component
#     system-prompt          10     yes   system_prompt
#     message-current        10     yes   current_message
#     tool-schema            10     yes   tool_schemas
#     overhead               10     yes   other
#     message-recent          9           recent_messages
#     preference              9           preferences
#     memory-semantic         8           memories
#     memory-procedural       7           memories
#     memory-episodic         6           memories
#     tool-result             5           tool_results
#     media-*                 3           media
#     anything else           5           other
#
# Preferences stand beside recent messages: they hold whatever the question is,
# within their own budget. A stored tool result stands below the memories, since
# its text can be read again by its id.


MessageCounter = Callable[[Message], int]
"""The tokens of a whole message: role, names, calls and media included."""

COMPONENTS = (
    "system_prompt",
    "tool_schemas",
    "preferences",
    "memories",
    "recent_messages",
    "tool_results",
    "media",
    "current_message",
    "other",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeRule:
    """What a package type means: where it is accounted for and how firmly it stands."""

    component: str = "other"
    priority: int = 5
    can_drop: bool = True


TYPES: Mapping[str, TypeRule] = MappingProxyType(
    {
        "system-prompt": TypeRule(component="system_prompt", priority=10, can_drop=False),
        "message-current": TypeRule(component="current_message", priority=10, can_drop=False),
        "tool-schema": TypeRule(component="tool_schemas", priority=10, can_drop=False),
        "overhead": TypeRule(component="other", priority=10, can_drop=False),
        "message-*": TypeRule(component="recent_messages", priority=9),
        "preference": TypeRule(component="preferences", priority=9),
        "memory-semantic": TypeRule(component="memories", priority=8),
        "memory-procedural": TypeRule(component="memories", priority=7),
        "memory-*": TypeRule(component="memories", priority=6),
        "tool-result": TypeRule(component="tool_results", priority=5),
        "media-*": TypeRule(component="media", priority=3),
    }
)
_OTHER = TypeRule()


@lru_cache(maxsize=256)
def rule_for(type: str) -> TypeRule:  # noqa: A002  # the field's own name
    """The rule of a type: its own row, else its family's (`memory-*`), else "other"."""
    return TYPES.get(type) or TYPES.get(type.split("-", 1)[0] + "-*") or _OTHER


def make_package(
    type: str,  # noqa: A002  # the field's own name
    *,
    id: str,  # noqa: A002  # the field's own name
    tokens: int,
    items: int = 1,
    can_drop: bool | None = None,
    relevance: float | None = None,
) -> ContentPackage:
    """A package with the priority its type has in the table, and with its firmness unless said."""
    rule = rule_for(type)
    return ContentPackage(
        id=id,
        type=type,
        tokens=tokens,
        items=items,
        relevance=relevance,
        can_drop=rule.can_drop if can_drop is None else can_drop,
        priority=rule.priority,
    )


# ----------------------------------------------------------------------------
# Where the tokens of a prompt go: per component, as a value and as JSON.


NEARLY_FULL_PERCENT = 80

WarningCode = Literal["over_budget", "nearly_full", "no_memories"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeUse:
    """How many tokens and items of one package type there are."""

    type: str
    tokens: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentUse:
    """One component of a prompt, with its types from the largest down."""

    name: str
    by_type: tuple[TypeUse, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(map(attrgetter("tokens"), self.by_type))

    @property
    def items(self) -> int:
        return sum(map(attrgetter("items"), self.by_type))


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetWarning:
    """Something the caller may want to act on."""

    code: WarningCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a prompt uses of a window, component by component.

    `reserved_tokens` are kept free for the answer; `percent` is of what is
    available without them. An over-budget prompt has a negative `remaining`.
    """

    window_tokens: int
    reserved_tokens: int
    components: tuple[ComponentUse, ...] = ()
    memories_asked: int = 0

    def __post_init__(self) -> None:
        require_count(self.window_tokens, "window_tokens")
        require_count(self.memories_asked, "memories_asked")
        if require_count(self.reserved_tokens, "reserved_tokens") > self.window_tokens:
            raise InvalidNumber(
                "reserved_tokens",
                self.reserved_tokens,
                f"is larger than the window of {self.window_tokens:,}",
                remedy="Lower the reserve or use a model with a larger window.",
            )

    @property
    def available_tokens(self) -> int:
        return self.window_tokens - self.reserved_tokens

    @property
    def used_tokens(self) -> int:
        return sum([component.tokens for component in self.components])

    @property
    def remaining_tokens(self) -> int:
        return self.available_tokens - self.used_tokens

    @property
    def percent(self) -> float:
        """Used of available, to one decimal; of one token where none is available."""
        return round(100 * self.used_tokens / max(1, self.available_tokens), 1)

    @property
    def over_budget(self) -> bool:
        return self.remaining_tokens < 0

    @property
    def warnings(self) -> tuple[BudgetWarning, ...]:
        found: list[BudgetWarning] = []
        if self.over_budget:
            text = f"Over budget by {-self.remaining_tokens:,} tokens."
            found.append(BudgetWarning(code="over_budget", text=text))
        elif 100 * self.used_tokens > NEARLY_FULL_PERCENT * self.available_tokens:
            text = f"Over {NEARLY_FULL_PERCENT} % of the budget is used."
            found.append(BudgetWarning(code="nearly_full", text=text))
        if self.memories_asked and not self.component("memories").items:
            text = f"No memories are in the prompt, though {self.memories_asked:,} were asked for."
            found.append(BudgetWarning(code="no_memories", text=text))
        return tuple(found)

    def component(self, name: str) -> ComponentUse:
        """A component by its name; an empty one if nothing of it is in the prompt."""
        return next((c for c in self.components if c.name == name), ComponentUse(name=name))


def tally(
    packages: Iterable[ContentPackage],
    *,
    window_tokens: int,
    reserved_tokens: int,
    memories_asked: int = 0,
) -> Budget:
    """The budget of these packages. A package of several messages counts as that many items.

    The eight usual components are always listed, also when empty; others
    only when something is in them.
    """
    used: dict[str, dict[str, TypeUse]] = {name: {} for name in COMPONENTS if name != "other"}
    for package in packages:
        by_type = used.setdefault(rule_for(package.type).component, {})
        known = by_type.get(package.type)
        tokens, items = (known.tokens, known.items) if known else (0, 0)
        by_type[package.type] = TypeUse(
            type=package.type, tokens=tokens + package.tokens, items=items + package.items
        )
    return Budget(
        window_tokens=window_tokens,
        reserved_tokens=reserved_tokens,
        memories_asked=memories_asked,
        components=tuple(
            ComponentUse(
                name=name,
                by_type=tuple(sorted(by_type.values(), key=lambda use: (-use.tokens, use.type))),
            )
            for name, by_type in used.items()
        ),
    )


def budget_to_dict(budget: Budget) -> dict[str, Any]:
    """The budget as plain JSON values; the keys are listed in docs/budgets.md."""
    return {
        "window_tokens": budget.window_tokens,
        "reserved_tokens": budget.reserved_tokens,
        "available_tokens": budget.available_tokens,
        "used_tokens": budget.used_tokens,
        "remaining_tokens": budget.remaining_tokens,
        "percent": budget.percent,
        "over_budget": budget.over_budget,
        "memories_asked": budget.memories_asked,
        "components": {
            component.name: {
                "tokens": component.tokens,
                "items": component.items,
                "by_type": {
                    use.type: {"tokens": use.tokens, "items": use.items}
                    for use in component.by_type
                },
            }
            for component in budget.components
        },
        "warnings": [{"code": w.code, "text": w.text} for w in budget.warnings],
    }


def fate_to_dict(fate: Fate) -> dict[str, Any]:
    """A package's fate as plain JSON values."""
    return {
        "id": fate.package.id,
        "type": fate.package.type,
        "outcome": fate.outcome,
        "reason": fate.reason,
        "score": fate.score,
        "tokens": fate.package.tokens,
        "sent_tokens": fate.tokens,
    }


# ----------------------------------------------------------------------------
# Make a conversation fit. Seen from the inside, each ring gets what the rings before it leave:
#
#     fixed  ·  steps of the present turn  ·  earlier messages  ·  media
#
# and once a ring had to leave something out, the rings outside it are left out altogether.


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
        users = [place for place, message in enumerate(messages) if message["role"] == "user"]
        asked = (place for place in reversed(users) if is_question(messages[place]))
        current = next(asked, users[-1] if users else None)
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
        report=BudgetReport(fates=tuple((said | outcome).values())),
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
        report = _as_they_are(conversation, packages, count_message)
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
    return BudgetReport(fates=tuple(fates))
