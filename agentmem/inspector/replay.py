"""What changed between two contexts, and why one memory is in or not in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, get_args

from agentmem.base.checks import require_count, require_unit
from agentmem.base.errors import InvalidInput
from agentmem.base.protocols import TokenCounter
from agentmem.base.types import Memory, Origin, visible
from agentmem.prompt.block import BlockSource
from agentmem.prompt.budget import PREFERENCE_TOKENS, calculate_knowledge_budget
from agentmem.prompt.build import (
    OfferedSource,
    content_key,
    fill_knowledge,
    rank_key,
    sort_ranked,
)
from agentmem.prompt.snapshot import ERASED_TEXT, Decision, Looked, Snapshot

_COMPARED = (
    "model", "query", "window_tokens", "reserve_tokens", "estimated_tokens", "cached",
    "warnings", "degradations",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that differs; `None` where one side has none."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDifference:
    """One memory whose fate or score differs; `None` where it was not looked at."""

    id: str
    before: Looked | None
    after: Looked | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotDiff:
    """What differs from `before` to `after`; empty for a context and itself (N4)."""

    before_id: str
    after_id: str
    fields: tuple[Difference, ...] = ()
    settings: tuple[Difference, ...] = ()
    parts: tuple[Difference, ...] = ()
    memories: tuple[MemoryDifference, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.fields or self.settings or self.parts or self.memories)


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """One memory's fate in one context: in a sentence, and what it is read from."""

    memory_id: str
    snapshot_id: str
    answer: str
    looked: Looked | None = None
    last_kept: Looked | None = None
    details: tuple[str, ...] = ()


def diff(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """What changed from one context to another, in the order it was recorded."""
    old, new = _by_place(before), _by_place(after)
    return SnapshotDiff(
        before_id=before.id,
        after_id=after.id,
        fields=_differences(
            *({name: getattr(one, name) for name in _COMPARED} for one in (before, after))
        ),
        settings=_differences(before.settings, after.settings),
        parts=_differences(
            *({part.name: part.tokens for part in one.parts} for one in (before, after))
        ),
        memories=tuple(
            MemoryDifference(id=place[1], before=old.get(place), after=new.get(place))
            for place in dict.fromkeys((*new, *old))
            if not _same(old.get(place), new.get(place))
        ),
    )


def why(snapshot: Snapshot, memory_id: str, *, memory: Memory | None = None) -> Why:
    """Why a memory is in a context or not; `memory` is what is stored under the id now."""
    seen = [looked for looked in snapshot.looked_at if looked.id == memory_id]
    if not seen:
        return Why(
            memory_id=memory_id, snapshot_id=snapshot.id, answer=_not_looked_at(snapshot, memory)
        )
    looked = next((one for one in seen if one.decision != "dropped"), seen[0])
    beside = [one for one in snapshot.kept if one.section == looked.section]
    last = min(beside, key=lambda one: (one.score is None, one.score or 0.0), default=None)
    sections = {"knowledge": "the related knowledge", "profile": "the user profile"}
    fates = {"kept": "It is in", "cut": "A part of it is in", "dropped": "It was left out of"}
    where = sections.get(looked.section, looked.section)
    return Why(
        memory_id=memory_id,
        snapshot_id=snapshot.id,
        looked=looked,
        last_kept=last,
        answer=f"{fates[looked.decision]} {where}: {looked.reason}.",
        details=tuple(_details(looked, last, snapshot)),
    )


def _details(looked: Looked, last: Looked | None, snapshot: Snapshot) -> Iterator[str]:
    if looked.rank is not None:
        offered = sum(one.rank is not None for one in snapshot.looked_at)
        yield f"rank {looked.rank:,} of {offered:,}"
    if looked.score is not None:
        yield f"score {looked.score:.3f}"
        threshold = snapshot.settings.get("similarity_threshold")
        if isinstance(threshold, int | float):
            yield f"threshold {threshold:g}"
    for name, score, rank in (
        ("words", looked.lexical, looked.lexical_rank),
        ("meaning", looked.vector, looked.vector_rank),
    ):
        if score is None:
            yield f"not found by {name}"
        else:
            yield f"by {name} {score:.3f}" + ("" if rank is None else f" (place {rank:,})")
    for name, boost in looked.boosts.items():
        yield f"{name} {boost:+.3f}"
    if looked.decision == "dropped" and last is not None and last.score is not None:
        yield f"the last one that went in has {last.score:.3f}"
    if looked.tokens:
        yield f"{looked.tokens:,} tokens"


def _not_looked_at(snapshot: Snapshot, memory: Memory | None) -> str:
    if memory is None:
        return "It was not looked at, and no memory with this id can be seen from this scope."
    then, begins, ends = snapshot.created_at, memory.valid_from, memory.valid_to
    if memory.created_at > then:
        why_not = "it was remembered after this context was built"
    elif not visible(memory, snapshot.scope):
        why_not = "it is out of this context's scope"
    elif memory.deleted_at is not None:
        why_not = f"it was deleted on {memory.deleted_at.date()}"
    elif memory.superseded_by is not None:
        why_not = f"it is superseded by {memory.superseded_by}"
    elif begins is not None and begins > then:
        why_not = "it was not valid yet"
    elif ends is not None and ends <= then:
        why_not = "it was no longer valid"
    else:
        asked = sum(looked.section == "knowledge" for looked in snapshot.looked_at)
        found = f"the {asked:,} candidates that the question found by words or meaning"
        return f"It was not among {found}."
    return f"It was not looked at: {why_not}."


def _by_place(snapshot: Snapshot) -> dict[tuple[str, str], Looked]:
    found: dict[tuple[str, str], Looked] = {}
    for looked in snapshot.looked_at:
        found.setdefault((looked.section, looked.id), looked)
    return found


def _same(before: Looked | None, after: Looked | None) -> bool:
    if before is None or after is None:
        return before is after
    compared = ("decision", "reason", "score", "rank", "tokens", "text")
    return all(getattr(before, name) == getattr(after, name) for name in compared)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Difference, ...]:
    return tuple(
        Difference(name=name, before=before.get(name), after=after.get(name))
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    )


# ----------------------------------------------------------------------------
# Decide a past context again with other settings: the plan is a value, nothing is asked.
#
# What was found stays as it was recorded; which of it goes in is decided anew by
# the same rules and the same fill (N3). Settings that change what is found
# cannot be replayed and are refused.


_DEFAULTS: Mapping[str, int | float] = {
    "top_k": 5,
    "similarity_threshold": 0.3,
    "knowledge_budget": 2_000,
    "preference_budget": PREFERENCE_TOKENS,
}
REPLAYED = tuple(_DEFAULTS)
_NO_BUDGET = 10**9
_CALLERS_PARTS = ("system_prompt", "tool_schemas", "current_message")
_REPLAYED_PARTS = ("knowledge", "working_memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class FateChange:
    """One thing whose fate is another: what it was, and what it would have been."""

    before: Looked
    after: Looked


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A context as it would have been. `settings` are those it was decided with."""

    snapshot: Snapshot
    settings: Mapping[str, Any]
    looked_at: tuple[Looked, ...]
    changes: tuple[FateChange, ...]
    knowledge_tokens: int
    notes: tuple[str, ...] = ()

    @property
    def snapshot_id(self) -> str:
        return self.snapshot.id


def read_setting(name: str, written: object) -> int | float:
    """A setting as it was typed (`"10"`, `"0.1"`), checked; `InvalidInput` names what is wrong."""
    if name not in REPLAYED:
        remedy = f"Use one of: {', '.join(REPLAYED)}."
        raise InvalidInput("setting", name, "cannot be replayed", remedy=remedy)
    value = written
    if isinstance(written, str):
        try:
            value = float(written) if name == "similarity_threshold" else int(written)
        except ValueError:
            remedy = f"Write {name}=NUMBER."
            raise InvalidInput(name, written, "is not a number", remedy=remedy) from None
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
) -> Replay:
    """`snapshot` decided again with `changes` to its settings; without any, as it was."""
    wanted = {name: read_setting(name, value) for name, value in (changes or {}).items()}
    settings = {name: wanted.get(name, _setting(snapshot, name)) for name in REPLAYED}
    profile = _replay_profile(snapshot, settings, count)
    knowledge, tokens = _replay_knowledge(snapshot, settings, count)
    again = {id(before): after for before, after in (*profile, *knowledge)}
    looked_at = tuple(again.get(id(looked), looked) for looked in snapshot.looked_at)
    return Replay(
        snapshot=snapshot,
        settings={**snapshot.settings, **settings},
        looked_at=looked_at,
        changes=tuple(
            FateChange(before=before, after=after)
            for before, after in zip(snapshot.looked_at, looked_at, strict=True)
            if before.decision != after.decision
            or (after.decision == "cut" and before.tokens != after.tokens)
        ),
        knowledge_tokens=tokens,
        notes=_notes(snapshot, settings),
    )


def candidate_of(looked: Looked, snapshot: Snapshot) -> OfferedSource:
    """What was looked at as the fill takes it, with the citation it had."""
    try:
        retrieved = date.fromisoformat(looked.retrieved)
    except ValueError:
        retrieved = snapshot.created_at.date()
    origin: Origin = looked.origin if looked.origin in get_args(Origin) else "web"  # type: ignore[assignment]  # checked
    source = BlockSource(
        text=looked.text,
        retrieved=retrieved,
        url=looked.url,
        title=looked.title,
        origin=origin,
        kind=looked.kind,
        section=looked.heading,
        speaker=looked.speaker,
    )
    return OfferedSource(
        id=looked.id, source=source, score=weighed_score(looked), merit=looked.merit or 0.0
    )


def weighed_score(looked: Looked) -> float:
    """The score that decided its place: being cited or passed over before moves it a little."""
    return (looked.score or 0.0) * (1.0 + looked.boosts.get("use", 0.0))


def is_fixed(looked: Looked) -> bool:
    """Whether no setting would change its fate."""
    return looked.fixed or looked.score is None or looked.kind == "preference"


def _replay_knowledge(
    snapshot: Snapshot, settings: Mapping[str, Any], count: TokenCounter
) -> tuple[list[tuple[Looked, Looked]], int]:
    found = sort_ranked(
        (seen for seen in snapshot.looked_at if seen.section in ("knowledge", "working")),
        rank=lambda seen: rank_key(weighed_score(seen), seen.merit or 0.0),
        content=lambda seen: (*content_key(candidate_of(seen, snapshot).offered), seen.id),
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
