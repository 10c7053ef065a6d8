"""The operations of a consolidation as values, what they report, and what they leave behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from agentmem.core.checks import require_count, require_text, require_unit
from agentmem.core.conflicts import Verdict
from agentmem.core.marks import COLD_AT
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import Memory, Usage

ForgetReason = Literal["superseded", "unused"]
LinkReason = Literal["entity", "co-citation"]
Pair = tuple[str, str]
"""Two ids, the smaller first."""


def pair_of(first: str, second: str) -> Pair:
    """The two ids in their order."""
    return (first, second) if first <= second else (second, first)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationSettings:
    """When things are summarised, compressed, merged, linked and forgotten.

    Something that happened is forgotten for not being used only if it tells
    little: if it has fewer than `keep_words` words that one could ask for.
    Nothing is put away while there are at most `hot_memories`.
    """

    summarise_after: timedelta = timedelta(days=7)
    compress_after: timedelta = timedelta(days=30)
    forget_after: timedelta = timedelta(days=90)
    cool_after: timedelta = timedelta(days=180)
    merge_similarity: float = 0.92
    contradiction_confidence: float = 0.6
    keep_importance: float = 0.8
    forget_unused: bool = True
    cool_unused: bool = True
    hot_memories: int = 20_000
    keep_words: int = 6
    unmerged_kinds: frozenset[str] = frozenset({"preference", "tool_result"})
    unforgettable_kinds: frozenset[str] = frozenset({"preference"})
    contradiction_kinds: frozenset[str] = frozenset({"fact", "preference", "episode"})
    most_links: int = 8
    rare_entity_rows: int = 20
    least_co_citations: int = 2

    def __post_init__(self) -> None:
        for name in ("summarise_after", "compress_after", "forget_after", "cool_after"):
            value = getattr(self, name)
            if not isinstance(value, timedelta) or value < timedelta(0):
                raise InvalidInput(name, value, "is no length of time", remedy="Use a timedelta.")
        for name in ("merge_similarity", "contradiction_confidence", "keep_importance"):
            require_unit(getattr(self, name), name)
        for name in (
            "most_links",
            "rare_entity_rows",
            "least_co_citations",
            "keep_words",
            "hot_memories",
        ):
            require_count(getattr(self, name), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarPair:
    """Two memories and how alike their embeddings are."""

    first: str
    second: str
    similarity: float

    def __post_init__(self) -> None:
        require_text(self.first, "first")
        require_text(self.second, "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """`loser` is superseded by `survivor`, which takes over its metadata and usage."""

    survivor: str
    loser: str
    similarity: float
    metadata: Mapping[str, Any]
    usage: Usage
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarise:
    """The memory gets this summary."""

    id: str
    summary: str
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compress:
    """The memory gets this compressed text and this index line."""

    id: str
    compressed: str
    index: str
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """The memory leaves search; it is kept and can be brought back."""

    id: str
    reason: ForgetReason
    tokens_saved: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenContradiction:
    """Two memories that cannot both be true; somebody should say which one is."""

    first: str
    second: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Supersede:
    """`old` held until `new`, which is worded as a change."""

    old: str
    new: str
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class AddLink:
    """Two memories belong together."""

    first: str
    second: str
    reason: LinkReason
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerank:
    """The memory's importance after how it was used; `base` is what it was given at first."""

    id: str
    importance: float
    base: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cool:
    """The memory leaves the indexes that are kept ready; a search for cold ones finds it."""

    id: str


Operation = (
    Merge | Summarise | Compress | Forget | OpenContradiction | Supersede | AddLink | Rerank | Cool
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationPlan:
    """Operations in the order in which they are to be applied, all or none."""

    operations: tuple[Operation, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.operations

    def counts(self) -> dict[str, int]:
        """How much the plan does, and the tokens saved at the levels that will be served."""
        found: Counter[type] = Counter(type(operation) for operation in self.operations)
        return {
            "deduped": found[Merge],
            "superseded": found[Supersede],
            "summarised": found[Summarise],
            "compressed": found[Compress],
            "forgotten": found[Forget],
            "contradictions": found[OpenContradiction],
            "links": found[AddLink],
            "reranked": found[Rerank],
            "cooled": found[Cool],
            "tokens_saved": sum(getattr(op, "tokens_saved", 0) for op in self.operations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LivingState:
    """What a consolidation looks at: the rows, and what earlier runs and people decided.

    `contested` are pairs whose contradiction is open, `settled` those whose
    contradiction was resolved: neither is opened again. `co_cited` counts how
    often two memories were cited in one answer.
    """

    memories: tuple[Memory, ...] = ()
    links: frozenset[Pair] = frozenset()
    contested: frozenset[Pair] = frozenset()
    settled: frozenset[Pair] = frozenset()
    co_cited: Mapping[Pair, int] = field(default_factory=lambda: MappingProxyType({}))


def is_forgotten(memory: Memory) -> bool:
    """Whether an earlier consolidation took it out of search."""
    return "forgotten_at" in memory.metadata


def is_active(memory: Memory) -> bool:
    """Whether the memory is served: not deleted, forgotten or superseded."""
    return memory.deleted_at is None and memory.superseded_by is None and not is_forgotten(memory)


def apply_plan(state: LivingState, plan: ConsolidationPlan, *, now: datetime) -> LivingState:
    """The state after the plan: no row is removed, every text stays; the order of rows too.

    What the shell writes to a store is the difference between the two states.
    """
    rows = {memory.id: memory for memory in state.memories}
    links, contested = set(state.links), set(state.contested)
    for operation in plan.operations:
        match operation:
            case Merge():
                kept = rows[operation.survivor]
                rows[kept.id] = replace(kept, metadata=operation.metadata, usage=operation.usage)
                rows[operation.loser] = replace(rows[operation.loser], superseded_by=kept.id)
            case Supersede():
                old, new = rows[operation.old], rows[operation.new]
                until = max(new.valid_from or new.created_at, old.valid_from or old.created_at)
                rows[old.id] = replace(old, superseded_by=new.id, valid_to=old.valid_to or until)
                rows[new.id] = replace(new, supersedes=new.supersedes or old.id)
            case Summarise():
                rows[operation.id] = replace(rows[operation.id], summary=operation.summary)
            case Compress():
                rows[operation.id] = replace(
                    rows[operation.id], compressed=operation.compressed, index=operation.index
                )
            case Forget():
                memory = rows[operation.id]
                marks = {"forgotten_at": now.isoformat(), "forgotten_because": operation.reason}
                rows[memory.id] = replace(
                    memory, metadata=MappingProxyType({**memory.metadata, **marks})
                )
            case Cool():
                memory = rows[operation.id]
                mark = {COLD_AT: now.isoformat()}
                rows[memory.id] = replace(
                    memory, metadata=MappingProxyType({**memory.metadata, **mark})
                )
            case OpenContradiction():
                contested.add(pair_of(operation.first, operation.second))
            case AddLink():
                links.add(pair_of(operation.first, operation.second))
            case Rerank():
                memory = rows[operation.id]
                base = MappingProxyType({**memory.metadata, "base_importance": operation.base})
                rows[memory.id] = replace(memory, importance=operation.importance, metadata=base)
    return replace(
        state,
        memories=tuple(rows[memory.id] for memory in state.memories),
        links=frozenset(links),
        contested=frozenset(contested),
    )
