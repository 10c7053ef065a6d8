"""Choose from what was recalled what is offered to the block, and number what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from typing import Any

from agentmem.core.assembly import BuiltBlock
from agentmem.core.block import Pointer, Source, source_of
from agentmem.core.citations import Citation
from agentmem.core.conversation import read_conversation
from agentmem.core.knowledge import Candidate, content_key, rank_key, sort_ranked
from agentmem.core.lexical import STOP_WORDS
from agentmem.core.living.serving import served_text
from agentmem.core.packagers import rule_for
from agentmem.core.packages import ScoreParts, recency, weigh
from agentmem.core.sentences import sentences
from agentmem.core.values import dataclass
from agentmem.types import EMPTY, Hit, Memory, cognitive_type

QUOTE_CHARACTERS = 200
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is offered to the block, as knowledge and as pointers; the rest, and why.

    `related` counts what could have been offered as knowledge but for `top_k`;
    `merits` are the composite scores of everything that was looked at.
    """

    candidates: tuple[Candidate, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    passed_over: tuple[tuple[Hit, str], ...] = ()
    related: int = 0
    merits: Mapping[str, float] = field(default_factory=lambda: EMPTY)


def choose(
    hits: Sequence[Hit],
    messages: Iterable[Any],
    *,
    top_k: int,
    threshold: float,
    now: datetime,
    factors: Mapping[str, float] = EMPTY,
) -> Chosen:
    """What of `hits` is offered to the block.

    Preferences have their own section. What the conversation says already is
    not said again. Of the rest the `top_k` best at or above the threshold, in
    the order of their scores times `factors`; between equally relevant ones
    the composite score decides, by kind, importance and age (P40).
    """
    conversation = read_conversation(messages)
    candidates: list[Candidate] = []
    pointers: list[Pointer] = []
    passed_over: list[tuple[Hit, str]] = []
    related = 0
    weighed = {hit.memory.id: hit.score * factors.get(hit.memory.id, 1.0) for hit in hits}
    merits = {hit.memory.id: merit_of(hit.memory, weighed[hit.memory.id], now=now) for hit in hits}
    ordered = sort_ranked(
        hits,
        rank=lambda hit: rank_key(weighed[hit.memory.id], merits[hit.memory.id]),
        content=lambda hit: (*content_key(_source(hit.memory)), hit.memory.id),
    )
    for hit in ordered:
        memory = hit.memory
        if memory.kind == "preference":
            passed_over.append((hit, "a preference: it stands in the profile"))
        elif hit.score < threshold:
            passed_over.append((hit, f"below the threshold {threshold:g}"))
        elif is_own_question(memory):
            passed_over.append((hit, "a question, which answers nothing"))
        elif memory.kind == "message" and hit.lexical is None and not says_something(memory.text):
            passed_over.append((hit, "says nothing without what stands around it"))
        elif conversation.says(memory.text):
            passed_over.append((hit, "already in the conversation"))
        elif len(candidates) + len(pointers) >= top_k:
            passed_over.append((hit, f"over top_k {top_k}"))
            related += memory.kind != "tool_result"
        elif memory.kind == "tool_result" and memory.metadata.get("large"):
            pointers.append(
                Pointer(
                    id=memory.id,
                    tool=str(memory.metadata.get("name", "")),
                    tokens=int(memory.metadata.get("tokens", 0)),
                    summary=memory.at_level("summary"),
                )
            )
        else:
            score = weighed[memory.id]
            candidates.append(
                Candidate(
                    id=memory.id,
                    source=_source(memory),
                    score=score,
                    merit=merits[memory.id],
                    type=memory_type(memory),
                    importance=memory.importance,
                    timestamp=memory.created_at,
                )
            )
    return Chosen(
        candidates=tuple(candidates),
        pointers=tuple(pointers),
        passed_over=tuple(passed_over),
        related=len(candidates) + related,
        merits=merits,
    )


def merit_of(memory: Memory, relevance: float, *, now: datetime) -> float:
    """The composite score of a memory that is so relevant (P15)."""
    return weigh(
        ScoreParts(
            priority=rule_for(memory_type(memory)).priority / 10,
            importance=memory.importance,
            relevance=min(max(relevance, 0.0), 1.0),
            recency=recency(memory.created_at, now=now),
        )
    )


def _source(memory: Memory) -> Source:
    return source_of(memory, served_text(memory))


def memory_type(memory: Memory) -> str:
    """What a memory is as a package: `memory-semantic`, `-episodic` or `-procedural`."""
    return f"memory-{cognitive_type(memory.kind)}"


def says_something(text: str) -> bool:
    """Whether a text holds a word that means something, or a number."""
    return any(
        word.isdigit() or (len(word) > 1 and word not in STOP_WORDS)
        for word in _WORD.findall(text.casefold())
    )


def is_own_question(memory: Memory) -> bool:
    """Whether a memory is something the user once asked: it answers nothing."""
    return memory.kind == "message" and memory.origin == "user" and is_only_asked(memory.text)


def is_only_asked(text: str) -> bool:
    """Whether every sentence of a text is a question."""
    parts = [text[start:end].rstrip() for start, end in sentences(text)]
    return bool(parts) and all(part.endswith(("?", "？", "؟")) for part in parts)


def citations_of(built: BuiltBlock, hits: Sequence[Hit]) -> tuple[Citation, ...]:
    """One citation a source in the block, under the number it has there."""
    known = {hit.memory.id for hit in hits}
    fill = built.knowledge
    return tuple(
        Citation(
            index=at,
            source="memory",
            url=source.url,
            title=source.title,
            quote=source.text[:QUOTE_CHARACTERS],
            date=source.retrieved,
            memory_id=memory_id if memory_id in known else "",
        )
        for at, (source, memory_id) in enumerate(zip(fill.shown, fill.ids, strict=True), start=1)
    )
