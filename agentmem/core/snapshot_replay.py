"""Decide a past context again with other settings: the plan is a value, nothing is asked.

What was found stays as it was recorded; which of it goes in is decided anew by
the same rules and the same fill (N3). Settings that change what is found
cannot be replayed and are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any, get_args

from agentmem.core.block import Source
from agentmem.core.budget import PREFERENCE_TOKENS, calculate_knowledge_budget
from agentmem.core.checks import require_count, require_unit
from agentmem.core.knowledge import (
    Candidate,
    Truncate,
    content_key,
    fill_knowledge,
    rank_key,
    sort_ranked,
)
from agentmem.core.sentences import truncate_at_sentence
from agentmem.core.snapshot import Decision, Looked, Snapshot
from agentmem.core.snapshot_codec import ERASED_TEXT
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter
from agentmem.types import Origin

REPLAYED = ("top_k", "similarity_threshold", "knowledge_budget", "preference_budget")
_DEFAULTS: Mapping[str, int | float] = {
    "top_k": 5,
    "similarity_threshold": 0.3,
    "knowledge_budget": 2_000,
    "preference_budget": PREFERENCE_TOKENS,
}
_NO_BUDGET = 10**9
_CALLERS_PARTS = ("system_prompt", "tool_schemas", "current_message")
_REPLAYED_PARTS = ("knowledge", "working_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing whose fate is another: what it was, and what it would have been."""

    before: Looked
    after: Looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A context as it would have been. `settings` are those it was decided with."""

    snapshot: Snapshot
    settings: Mapping[str, Any]
    looked_at: tuple[Looked, ...]
    changes: tuple[Change, ...]
    knowledge_tokens: int
    notes: tuple[str, ...] = ()


def read_setting(name: str, written: object) -> int | float:
    """A setting as it was typed (`"10"`, `"0.1"`), checked; `InvalidInput` names what is wrong."""
    if name not in REPLAYED:
        raise InvalidInput(
            "setting", name, "cannot be replayed", remedy=f"Use one of: {', '.join(REPLAYED)}."
        )
    value = written
    if isinstance(written, str):
        try:
            value = float(written) if name == "similarity_threshold" else int(written)
        except ValueError:
            raise InvalidInput(
                name, written, "is not a number", remedy=f"Write {name}=NUMBER."
            ) from None
    if name == "similarity_threshold":
        return require_unit(value, name)
    return require_count(value, name)


def knowledge_room(snapshot: Snapshot) -> int:
    """The most the knowledge section could have had, whatever its own budget."""
    if snapshot.knowledge_limit is not None:
        return snapshot.knowledge_limit
    if not snapshot.parts:
        return snapshot.room_tokens
    spent = {part.name: part.tokens for part in snapshot.parts}
    available = snapshot.room_tokens - sum(spent.get(name, 0) for name in _CALLERS_PARTS)
    profile = _setting(snapshot, "preference_budget")
    share = calculate_knowledge_budget(
        available, base_tokens=_NO_BUDGET, preference_tokens=int(min(profile, max(0, available)))
    )
    others = sum(tokens for name, tokens in spent.items() if name not in _REPLAYED_PARTS)
    return max(0, min(share, snapshot.room_tokens - others))


def replay(
    snapshot: Snapshot,
    changes: Mapping[str, object] | None = None,
    *,
    count: TokenCounter,
    truncate: Truncate = truncate_at_sentence,
) -> Replay:
    """`snapshot` decided again with `changes` to its settings; without any, as it was."""
    wanted = {name: read_setting(name, value) for name, value in (changes or {}).items()}
    settings = {name: wanted.get(name, _setting(snapshot, name)) for name in REPLAYED}
    profile = _replay_profile(snapshot, settings, count)
    knowledge, tokens = _replay_knowledge(snapshot, settings, count, truncate)
    again = {id(before): after for before, after in (*profile, *knowledge)}
    looked_at = tuple(again.get(id(looked), looked) for looked in snapshot.looked_at)
    return Replay(
        snapshot=snapshot,
        settings={**snapshot.settings, **settings},
        looked_at=looked_at,
        changes=tuple(
            Change(before=before, after=after)
            for before, after in zip(snapshot.looked_at, looked_at, strict=True)
            if before.decision != after.decision or _cut_otherwise(before, after)
        ),
        knowledge_tokens=tokens,
        notes=_notes(snapshot, settings),
    )


def candidate_of(looked: Looked, snapshot: Snapshot) -> Candidate:
    """What was looked at as the fill takes it, with the citation it had."""
    try:
        retrieved = date.fromisoformat(looked.retrieved)
    except ValueError:
        retrieved = snapshot.created_at.date()
    origin: Origin = looked.origin if looked.origin in get_args(Origin) else "web"  # type: ignore[assignment]  # checked
    source = Source(
        text=looked.text,
        retrieved=retrieved,
        url=looked.url,
        title=looked.title,
        origin=origin,
        kind=looked.kind,
        section=looked.heading,
        speaker=looked.speaker,
    )
    return Candidate(
        id=looked.id, source=source, score=weighed_score(looked), merit=looked.merit or 0.0
    )


def weighed_score(looked: Looked) -> float:
    """The score that decided its place: being cited or passed over before moves it a little."""
    return (looked.score or 0.0) * (1.0 + looked.boosts.get("use", 0.0))


def is_fixed(looked: Looked) -> bool:
    """Whether no setting would change its fate."""
    return looked.fixed or looked.score is None or looked.kind == "preference"


def _replay_knowledge(
    snapshot: Snapshot, settings: Mapping[str, Any], count: TokenCounter, truncate: Truncate
) -> tuple[list[tuple[Looked, Looked]], int]:
    found = sort_ranked(
        (seen for seen in snapshot.looked_at if seen.section in ("knowledge", "working")),
        rank=lambda seen: rank_key(weighed_score(seen), seen.merit or 0.0),
        content=lambda seen: (*content_key(candidate_of(seen, snapshot).source), seen.id),
    )
    threshold, top_k = settings["similarity_threshold"], settings["top_k"]
    decided: list[tuple[Looked, Looked]] = []
    chosen: list[Looked] = []
    places = 0
    for seen in found:
        if is_fixed(seen):
            continue
        if (seen.score or 0.0) < threshold:
            decided.append((seen, _dropped(seen, f"below the threshold {threshold:g}")))
        elif places >= top_k:
            decided.append((seen, _dropped(seen, f"over top_k {top_k}")))
        else:
            places += 1
            if seen.section == "knowledge":
                chosen.append(seen)
    fill = fill_knowledge(
        [candidate_of(seen, snapshot) for seen in chosen],
        min(settings["knowledge_budget"], knowledge_room(snapshot)),
        count=count,
        truncate=truncate,
        total_found=snapshot.total_found
        or sum(seen.section == "knowledge" for seen in snapshot.looked_at),
    )
    by_id = {seen.id: seen for seen in chosen}
    for fate in fill.fates:
        decision: Decision = "kept" if fate.outcome == "included" else fate.outcome
        seen = by_id[fate.id]
        after = replace(seen, decision=decision, reason=fate.reason, tokens=fate.tokens)
        decided.append((seen, after))
    return decided, fill.tokens


def _replay_profile(
    snapshot: Snapshot, settings: Mapping[str, Any], count: TokenCounter
) -> list[tuple[Looked, Looked]]:
    limit = settings["preference_budget"]
    if limit == _setting(snapshot, "preference_budget"):
        return []
    decided = []
    spent = count("<user_profile>\n</user_profile>\n")
    for seen in snapshot.looked_at:
        if seen.section != "profile" or seen.fixed:
            continue
        if spent + seen.tokens <= limit:
            spent += seen.tokens
            decided.append((seen, replace(seen, decision="kept", reason="fits")))
        else:
            left = max(0, limit - spent)
            decided.append((seen, _dropped(seen, f"does not fit in the {left:,} tokens left")))
    return decided


def _dropped(looked: Looked, reason: str) -> Looked:
    return replace(looked, decision="dropped", reason=reason)


def _cut_otherwise(before: Looked, after: Looked) -> bool:
    return before.decision == after.decision == "cut" and before.tokens != after.tokens


def _setting(snapshot: Snapshot, name: str) -> int | float:
    """A setting as it was recorded, or the usual one where it was not or makes no sense."""
    try:
        return read_setting(name, snapshot.settings.get(name, _DEFAULTS[name]))
    except InvalidInput:
        return _DEFAULTS[name]


def _notes(snapshot: Snapshot, settings: Mapping[str, Any]) -> tuple[str, ...]:
    notes = []
    offered = sum(seen.section in ("knowledge", "working") for seen in snapshot.looked_at)
    if settings["top_k"] > offered:
        notes.append(f"Only {offered:,} candidates were looked at; a search might find more.")
    if any(seen.text == ERASED_TEXT for seen in snapshot.looked_at):
        notes.append("Some texts were erased since; what they would have cost is not known.")
    return tuple(notes)
