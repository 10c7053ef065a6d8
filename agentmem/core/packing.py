"""Pack a whole conversation into a model's window: the parts put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime

from agentmem.core.budget import (
    BASE_KNOWLEDGE_TOKENS,
    KNOWLEDGE_SHARE,
    PREFERENCE_TOKENS,
    BudgetReport,
    Fate,
    Shrink,
    TokenBudgets,
    calculate_token_budgets,
    fill,
)
from agentmem.core.budget_report import Budget, tally
from agentmem.core.checks import require_count
from agentmem.core.message_parts import SYSTEM_ROLES, Part, require_message
from agentmem.core.packagers import (
    TYPES,
    MediaCounter,
    MessageCounter,
    Types,
    make_package,
    package_media,
    package_memory,
    package_preference,
    package_tool_result,
    rule_for,
)
from agentmem.core.packages import DEFAULT_WEIGHTS, ContentPackage, ScoreWeights
from agentmem.core.trimming import trim
from agentmem.core.values import dataclass
from agentmem.errors import FixedContentTooLarge, InvalidInput, InvalidMessage, InvalidNumber
from agentmem.protocols import TokenCounter
from agentmem.types import Hit, Memory, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextPlan:
    """What goes into one request, and what became of everything that was offered.

    `messages` are in their original order, system prompt first. `memories` and
    `preferences` are those that go in, in the order given; their text as sent,
    cut where it was cut, is in `sent("memories")`.
    """

    messages: tuple[Message, ...]
    memories: tuple[Hit | Memory, ...]
    preferences: tuple[Hit | Memory, ...]
    media: tuple[Part, ...]
    report: BudgetReport
    budget: Budget
    token_budgets: TokenBudgets
    notes: tuple[str, ...]
    types: Types = field(default_factory=lambda: TYPES)

    def sent(self, component: str) -> tuple[ContentPackage, ...]:
        """The packages of one component as they go out."""
        return tuple(
            p for p in self.report.kept if rule_for(p.type, self.types).component == component
        )


def pack_context(
    *,
    current: Message | str,
    window_tokens: int,
    reserve_tokens: int,
    count: TokenCounter,
    count_message: MessageCounter,
    now: datetime,
    system: Message | str | None = None,
    history: Sequence[Message] = (),
    steps: Sequence[Message] = (),
    memories: Sequence[Hit | Memory] = (),
    preferences: Sequence[Hit | Memory] = (),
    media: Sequence[Part] = (),
    tool_results: Mapping[str, str] | None = None,
    extra: Sequence[ContentPackage] = (),
    count_media: MediaCounter | None = None,
    tool_schema_tokens: int = 0,
    overhead_tokens: int = 0,
    memory_overhead_tokens: int = 0,
    min_memory_tokens: int | None = None,
    preference_tokens: int = PREFERENCE_TOKENS,
    base_knowledge_tokens: int = BASE_KNOWLEDGE_TOKENS,
    knowledge_share: float = KNOWLEDGE_SHARE,
    memories_asked: int | None = None,
    weights: ScoreWeights = DEFAULT_WEIGHTS,
    shrink: Shrink | None = None,
    whole_turns: bool = True,
    types: Types = TYPES,
) -> ContextPlan:
    """What of a conversation and its memories fits into `window_tokens` − `reserve_tokens`.

    Preferences are filled into their own budget, memories into the knowledge
    budget, by score; then `trim` makes the whole fit. `steps` are the messages
    of the present turn after `current`, such as tool calls and results.
    `overhead_tokens` is what the provider or a wrapper adds once per request.
    A memory given twice, or as a preference too, goes in once.
    """
    messages, place = _messages(system, history, current, steps)
    query_tokens = count_message(messages[place])
    already = {id(m): count_message(m) for m in messages if m["role"] in SYSTEM_ROLES}
    system_tokens = sum(already[id(m)] for m in messages if id(m) in already)
    already[id(messages[place])] = query_tokens
    limit = _limit(window_tokens, reserve_tokens)
    budgets = calculate_token_budgets(
        window_tokens=window_tokens,
        system_tokens=system_tokens
        + require_count(tool_schema_tokens, "tool_schema_tokens")
        + require_count(overhead_tokens, "overhead_tokens"),
        query_tokens=query_tokens,
        reserve_tokens=reserve_tokens,
        preference_tokens=preference_tokens,
        base_knowledge_tokens=base_knowledge_tokens,
        knowledge_share=knowledge_share,
    )
    if budgets.available_tokens < 0:
        raise FixedContentTooLarge(
            needed_tokens=limit - budgets.available_tokens,
            limit_tokens=limit,
            items=(
                f"system prompt, tools and overhead {budgets.system_tokens:,}",
                f"current message {budgets.query_tokens:,}",
            ),
        )

    liked = [package_preference(p, count=count, types=types) for p in preferences]
    known = [
        package_memory(
            m,
            count=count,
            overhead_tokens=memory_overhead_tokens,
            min_tokens=min_memory_tokens,
            types=types,
        )
        for m in memories
    ]
    liked, known, twice = _once(liked, known)
    profile = fill(liked, budgets.preference_tokens, now=now, weights=weights)
    knowledge = fill(
        known, budgets.knowledge_tokens, now=now, weights=weights, shrink=shrink, count=count
    )

    pictures = _pictures(media, count_media, types)
    stored = [
        package_tool_result(text, id=name, count=count, types=types)
        for name, text in (tool_results or {}).items()
    ]
    plan = trim(
        messages,
        limit,
        count_message=lambda m: already[id(m)] if id(m) in already else count_message(m),
        now=now,
        packages=[
            *_lump("tool-schema", tool_schema_tokens, types),
            *_lump("overhead", overhead_tokens, types),
            *profile.kept,
            *knowledge.kept,
            *pictures,
            *stored,
            *extra,
        ],
        weights=weights,
        whole_turns=whole_turns,
        current=place,
        types=types,
    )
    notes = list(plan.warnings)
    report = BudgetReport(
        limit_tokens=limit,
        fates=(
            *_merge(plan.report.fates, (*profile.fates, *knowledge.fates)),
            *_left_out(profile, "preference budget"),
            *_left_out(knowledge, "knowledge budget"),
            *twice,
        ),
    )
    sent = {id(package) for package in plan.packages}
    if pictures and not any(id(package) in sent for package in pictures):
        notes.append("none of the media fits")
    return ContextPlan(
        messages=plan.messages,
        memories=_chosen(memories, {p.id for p in knowledge.kept if id(p) in sent}),
        preferences=_chosen(preferences, {p.id for p in profile.kept if id(p) in sent}),
        media=tuple(part for part, p in zip(media, pictures, strict=True) if id(p) in sent),
        report=report,
        budget=tally(
            report.kept,
            window_tokens=window_tokens,
            reserved_tokens=reserve_tokens,
            memories_asked=len(memories) if memories_asked is None else memories_asked,
            types=types,
        ),
        token_budgets=budgets,
        notes=tuple(notes),
        types=types,
    )


def _messages(
    system: Message | str | None,
    history: Sequence[Message],
    current: Message | str,
    steps: Sequence[Message],
) -> tuple[list[Message], int]:
    """The whole list, and the place of the current message in it."""
    if isinstance(system, str):
        system = {"role": "system", "content": system}
    if isinstance(current, str):
        current = {"role": "user", "content": current}
    if system is not None and require_message(system, "system")["role"] not in SYSTEM_ROLES:
        raise InvalidMessage(
            "system.role", system["role"], "is not system", remedy="Use system or developer."
        )
    if require_message(current, "current")["role"] != "user":
        raise InvalidMessage(
            "current.role", current["role"], "is not user", remedy="Pass the user's message."
        )
    before = [*([system] if system is not None else []), *history]
    messages = [*before, current, *steps]
    for number, message in enumerate(messages):
        require_message(message, f"messages[{number}]")
    return messages, len(before)


def _limit(window_tokens: int, reserve_tokens: int) -> int:
    require_count(window_tokens, "window_tokens")
    if require_count(reserve_tokens, "reserve_tokens") > window_tokens:
        raise InvalidNumber(
            "reserve_tokens",
            reserve_tokens,
            f"is larger than the window of {window_tokens:,}",
            remedy="Lower the reserve or use a model with a larger window.",
        )
    return window_tokens - reserve_tokens


def _lump(type: str, tokens: int, types: Types) -> list[ContentPackage]:  # noqa: A002  # as in packagers
    return [make_package(type, "", id=type, tokens=tokens, types=types)] if tokens else []


def _pictures(
    media: Sequence[Part], count_media: MediaCounter | None, types: Types
) -> list[ContentPackage]:
    if not media:
        return []
    if count_media is None:
        raise InvalidInput("count_media", None, "is missing", remedy="Pass it beside media=.")
    return [
        package_media(part, id=f"media-{number:04d}", count_media=count_media, types=types)
        for number, part in enumerate(media)
    ]


def _once(
    preferences: list[ContentPackage], memories: list[ContentPackage]
) -> tuple[list[ContentPackage], list[ContentPackage], list[Fate]]:
    """Each id once, preferences before memories, and the fates of the others."""
    seen: set[str] = set()
    kept: tuple[list[ContentPackage], list[ContentPackage]] = ([], [])
    again: list[Fate] = []
    for packages, into in zip((preferences, memories), kept, strict=True):
        for package in packages:
            if package.id in seen:
                again.append(Fate(package=package, outcome="dropped", reason="offered twice"))
            else:
                seen.add(package.id)
                into.append(package)
    return *kept, again


def _merge(fates: Sequence[Fate], before: Sequence[Fate]) -> list[Fate]:
    """The final fates, telling of a package that was cut before as it first came."""
    first = {id(fate.sent): fate for fate in before if fate.sent}
    merged: list[Fate] = []
    for fate in fates:
        earlier = first.get(id(fate.package))
        if earlier is None:
            merged.append(fate)
        elif fate.sent:
            merged.append(earlier)
        else:
            merged.append(replace(fate, package=earlier.package))
    return merged


def _left_out(report: BudgetReport, where: str) -> list[Fate]:
    return [
        replace(fate, reason=f"{where}: {fate.reason.removeprefix('did not fit: ')}")
        for fate in report.fates
        if not fate.sent
    ]


def _chosen(offered: Sequence[Hit | Memory], ids: set[str]) -> tuple[Hit | Memory, ...]:
    chosen: dict[str, Hit | Memory] = {}
    for one in offered:
        name = one.memory.id if isinstance(one, Hit) else one.id
        if name in ids:
            chosen.setdefault(name, one)
    return tuple(chosen.values())
