"""Pack a whole request into a model's window: messages and packages, each with its fate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
    list_packages,
    make_package,
    tally,
)
from agentmem.prompt.messages import Conversation, read_conversation
from agentmem.prompt.trim import media_inside, trim
from agentmem.text.messages import SYSTEM_ROLES


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
