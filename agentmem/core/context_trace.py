"""The trace of a built context: what was looked at, and where the tokens went."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agentmem.core.assembly import BuiltBlock
from agentmem.core.living.serving import served_text
from agentmem.core.packages import ContentPackage
from agentmem.core.packing import ContextPlan
from agentmem.core.snapshot import Looked, Part, looked_at
from agentmem.types import EMPTY, Hit, Memory


def packages_of(built: BuiltBlock) -> list[ContentPackage]:
    """The reference message as fixed packages, one for each thing it shows and one for its frame.

    It was cut to its own budget already; together they cost what it costs.
    """
    if built.text is None:
        return []
    shown = [
        *built.knowledge.packages,
        *(
            ContentPackage(id=fate.id, type=kind, content="", tokens=fate.tokens, can_drop=False)
            for kind, fates in (("preference", built.profile), ("tool-result", built.pointers))
            for fate in fates
            if fate.outcome != "dropped"
        ),
    ]
    frame = built.tokens - sum(package.tokens for package in shown)
    return [
        *shown,
        ContentPackage(
            id="reference", type="overhead", content="", tokens=max(0, frame), can_drop=False
        ),
    ]


def parts_of_request(plan: ContextPlan | None) -> tuple[Part, ...]:
    """The components that the request is made of."""
    if plan is None:
        return ()
    return tuple(
        Part(name=use.name, tokens=use.tokens, items=use.items)
        for use in plan.budget.components
        if use.items
    )


def looked_at_knowledge(
    hits: Sequence[Hit],
    passed_over: Sequence[tuple[Hit, str]],
    built: BuiltBlock,
    *,
    factors: Mapping[str, float] = EMPTY,
    reasons: Mapping[str, str] = EMPTY,
    merits: Mapping[str, float] = EMPTY,
) -> list[Looked]:
    """What was found, with its scores and fate; tool results that are pointed to are `working`.

    `reasons` say why something was offered that no search found.
    """
    passed_by = {hit.memory.id: reason for hit, reason in passed_over}
    fates = {fate.id: fate for fate in (*built.knowledge.fates, *built.pointers)}
    pointers = {fate.id for fate in built.pointers}
    looked = []
    for rank, hit in enumerate(hits, start=1):
        memory = hit.memory
        fate = fates.get(memory.id)
        outcome = "dropped" if fate is None else fate.outcome
        passed = passed_by.get(memory.id, "")
        offered = f"{reasons[memory.id]}; " if memory.id in reasons else ""
        looked.append(
            looked_at(
                memory,
                section="working" if memory.id in pointers else "knowledge",
                decision="kept" if outcome == "included" else outcome,
                reason=passed or offered + (fate.reason if fate else "no room for a block"),
                text=served_text(memory),
                tokens=0 if fate is None else fate.tokens,
                rank=rank,
                score=hit.score,
                merit=merits.get(memory.id),
                lexical=hit.lexical,
                vector=hit.vector,
                lexical_rank=hit.lexical_rank,
                vector_rank=hit.vector_rank,
                boosts=_boosts(factors.get(memory.id, 1.0)),
                fixed=bool(passed) and not passed.startswith(("below", "over")),
            )
        )
    return looked


def _boosts(factor: float) -> Mapping[str, float]:
    """What being cited or passed over does to the score, as a part of it."""
    return EMPTY if factor == 1.0 else {"use": factor - 1.0}


def looked_at_profile(
    profile: Sequence[Memory], built: BuiltBlock, *, heard: Collection[str] = ()
) -> list[Looked]:
    """The preferences that were offered, and which of them had room; `heard` came just now."""
    looked = []
    for at, memory in enumerate(profile):
        fate = built.profile[at] if at < len(built.profile) else None
        outcome = "dropped" if fate is None else fate.outcome
        reason = "no room for a block" if fate is None else fate.reason
        looked.append(
            looked_at(
                memory,
                section="profile",
                decision="kept" if outcome == "included" else outcome,
                reason=f"{reason}; heard in this turn" if memory.id in heard else reason,
                tokens=0 if fate is None else fate.tokens,
            )
        )
    return looked


def looked_at_messages(plan: ContextPlan | None) -> list[Looked]:
    """The messages and media that had to stay behind."""
    if plan is None:
        return []
    return [
        Looked(
            id=fate.package.id,
            section="media" if fate.package.type.startswith("media-") else "history",
            decision="dropped",
            reason=fate.reason,
            kind=fate.package.type,
            tokens=fate.package.tokens,
        )
        for fate in plan.report.fates
        if fate.sent is None
    ]
