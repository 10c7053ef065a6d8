"""Assemble a context by tiers: fetch, let the core sort, and offer a turn an order to fill by.

Whatever part cannot be fetched is left out and named; nothing here raises
because memory failed (P30).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from agentmem.config import LoopConfig
from agentmem.core.block import Pointer, source_of
from agentmem.core.checks import require_count, require_text
from agentmem.core.choosing import Chosen, memory_type
from agentmem.core.filters import Selection
from agentmem.core.knowledge import Candidate
from agentmem.core.living.compression import compress, index_line, make_levels
from agentmem.core.living.gathering import (
    ERROR_AGE,
    Fetched,
    Placed,
    read_situation,
    sort_into_tiers,
    told_text,
)
from agentmem.core.living.prediction import GUESSES, Signal
from agentmem.core.living.tiers import (
    NAMES,
    SHARES,
    TIERS,
    Shares,
    Tier,
    TieredContext,
    TierFate,
    TierItem,
    assemble_tiers,
    order_tiers,
    shares_for,
)
from agentmem.core.values import dataclass
from agentmem.predicting import Predictions, as_guess
from agentmem.protocols import TokenCounter
from agentmem.resilience import TtlCache
from agentmem.telemetry import span
from agentmem.types import EMPTY, Hit, Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

T = TypeVar("T")
Levels = tuple[str, str, str, str]

EPISODES = 300
RULES = 100
RESULTS = 50
RECENT = 150
FOUND = 20
CONTRADICTIONS = 20
LEVEL_CHARACTERS = 6_000
"""Shorter forms are made of so much of a text; a long one is cut before it is shortened."""
SOURCE_TOKENS = 45
"""About what the frame of one source costs inside the block."""
BUDGET_TOKENS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the tiers offer to the block of a turn: sources best first, and pointers to the rest.

    `hits` are the memories as they are offered, at the level their tier affords;
    `reasons` say what tier each is in and why.
    """

    candidates: tuple[Candidate, ...] = ()
    pointers: tuple[Pointer, ...] = ()
    hits: tuple[Hit, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    degradations: tuple[str, ...] = ()

    def as_chosen(self, chosen: Chosen, hits: Sequence[Hit]) -> tuple[Chosen, tuple[Hit, ...]]:
        """What is offered in place of what search chose; what it passed over stays so."""
        mine = {hit.memory.id for hit in self.hits}
        rest = tuple(hit for hit in hits if hit.memory.id not in mine)
        left = {hit.memory.id for hit in rest}
        passed_over = tuple((hit, why) for hit, why in chosen.passed_over if hit.memory.id in left)
        made = Chosen(
            candidates=self.candidates,
            pointers=(*chosen.pointers, *self.pointers),
            passed_over=passed_over,
            related=len(self.candidates),
            merits={hit.memory.id: hit.score for hit in self.hits},
        )
        return made, (*self.hits, *rest)


class Tiers:
    """Assembles contexts by tiers from one memory."""

    def __init__(self, memory: MemoryManager, predictions: Predictions) -> None:
        self._memory = memory
        self._predictions = predictions
        self._fetched: TtlCache[Fetched] = TtlCache(memory.clock)
        self._levels: TtlCache[Levels] = TtlCache(memory.clock, capacity=2_000, ttl_seconds=86_400)

    def assemble(
        self,
        scope: Scope,
        *,
        budget_tokens: int = BUDGET_TOKENS,
        signals: Sequence[Signal] = (),
        activity: str = "general",
        task: str = "",
        table: Mapping[str, Shares] | None = None,
        count: TokenCounter,
    ) -> TieredContext:
        """What is worth knowing now, within `budget_tokens`, headings included (P36)."""
        require_count(budget_tokens, "budget")
        require_text(task, "task")
        shares = shares_for(activity, SHARES if table is None else table)
        with span("search_memory", store_id=self._memory.telemetry_id, step="assemble") as told:
            context = self._assemble(
                scope, budget_tokens, signals=signals, task=task, shares=shares, count=count
            )
            told.found(sum(fate.outcome != "dropped" for fate in context.fates))
        return context

    def _assemble(
        self,
        scope: Scope,
        budget_tokens: int,
        *,
        signals: Sequence[Signal],
        task: str,
        shares: Shares,
        count: TokenCounter,
    ) -> TieredContext:
        given = self.signals_for(signals, scope)
        parts = Parts()
        fetched = self.fetch(scope, given, parts)
        if task.strip():
            hits = parts.read("search", lambda: self._search(task, scope)) or ()
            fetched = replace(fetched, hits=hits)
        placed = self._sort(fetched, given, task, scope, parts)
        items = {tier: [self._item(p, tier, count) for p in placed[tier]] for tier in TIERS}
        context = assemble_tiers(items, budget_tokens, count=count, shares=shares)
        return replace(context, degradations=tuple(parts.problems))

    def offer(
        self,
        scope: Scope,
        *,
        budget_tokens: int,
        signals: Sequence[Signal],
        task: str,
        chosen: Chosen,
        hits: Sequence[Hit],
        profile: Sequence[Memory],
        config: LoopConfig,
        count: TokenCounter,
    ) -> Offer:
        """The tiers of a turn: what was `chosen` by search stands in the second one.

        What the profile says is not said again. Without the tools to read a
        memory, nothing is pointed to.
        """
        parts = Parts()
        fetched = self.fetch(scope, signals, parts)
        by_id = {hit.memory.id: hit for hit in hits}
        wanted = [by_id[candidate.id] for candidate in chosen.candidates]
        told = {memory.id for memory in profile} | {hit.memory.id for hit, _ in chosen.passed_over}
        fetched = replace(
            fetched,
            hits=tuple(wanted),
            preferences=tuple(m for m in fetched.preferences if m.id not in told),
        )
        placed = self._sort(fetched, signals, task, scope, parts)
        said = {
            hit.memory.id
            for hit, why in chosen.passed_over
            if why.startswith(("already", "a question", "a preference"))
        }
        tiers: tuple[Tier, ...] = TIERS if config.memory_tools else TIERS[:3]
        known = {p.memory.id: p for tier in tiers for p in placed[tier]}
        items = {
            tier: [self._item(p, tier, count) for p in placed[tier] if p.memory.id not in said]
            for tier in tiers
        }
        order = order_tiers(
            items,
            budget_tokens,
            count=lambda text: count(text) + SOURCE_TOKENS,
            shares=shares_for(config.activity),
        )
        made = _Offering(known, {i.id: i for tier in tiers for i in items[tier]}, by_id)
        for fate in order:
            made.take(fate)
        return replace(made.offer(), degradations=tuple(parts.problems))

    # -- fetching ------------------------------------------------------------------------

    def signals_for(self, signals: Sequence[Signal], scope: Scope) -> tuple[Signal, ...]:
        """What a caller says is going on, and what was noted before."""
        return tuple(dict.fromkeys((*signals, *self._predictions.current(scope))))

    def fetch(self, scope: Scope, signals: Sequence[Signal], parts: Parts) -> Fetched:
        """Everything the tiers are made of but what a search finds; `parts` notes what failed."""
        store, now = self._memory.store, self._memory.clock.now()
        began = len(parts.problems)
        seq = parts.read("store", store.feed.seq)
        hour = now.replace(minute=0, second=0, microsecond=0)
        key = (scope, tuple(signals), seq, self._predictions.lessons, hour)
        # Links have no sequence of their own, so they are read every time.
        contradictions = parts.read("contradictions", lambda: self._contradictions(scope)) or ()
        kept = self._fetched.get(key) if seq is not None else None
        if kept is not None:
            return replace(kept, contradictions=contradictions)

        def recent(
            name: str, *kinds: str, limit: int, since: timedelta | None = None
        ) -> tuple[Memory, ...]:
            selection = Selection(
                reader=scope, kinds=kinds or None, since=None if since is None else now - since
            )
            return parts.read(name, lambda: store.recent(selection, limit=limit)) or ()

        preferences = self._memory.preferences
        fetched = Fetched(
            episodes=recent("episodes", "episode", limit=EPISODES),
            contradictions=contradictions,
            results=recent("tool results", "tool_result", limit=RESULTS, since=ERROR_AGE),
            predicted=parts.read("prediction", lambda: self._predicted(signals, scope)) or (),
            preferences=parts.read("preferences", lambda: preferences.current(scope)) or (),
            patterns=recent("patterns", "pattern", limit=RULES),
            workflows=recent("workflows", "workflow", limit=RULES),
            recent=_topics(recent("recent memories", limit=RECENT)),
        )
        if len(parts.problems) == began:
            self._fetched.put(key, fetched)
        return fetched

    def forget(self) -> None:
        """Keep nothing that may have been erased."""
        self._fetched.clear()
        self._levels.clear()

    def _contradictions(self, scope: Scope) -> tuple[tuple[Memory, Memory], ...]:
        store = self._memory.store
        links = store.contradictions.all(scope, open_only=True)
        links = tuple(sorted(links, key=lambda link: link.created_at, reverse=True))
        links = links[:CONTRADICTIONS]
        ids = list(dict.fromkeys(i for link in links for i in (link.first_id, link.second_id)))
        known = {memory.id: memory for memory in store.get_many(scope, ids)}
        return tuple(
            (known[link.first_id], known[link.second_id])
            for link in links
            if link.first_id in known and link.second_id in known
        )

    def _predicted(self, signals: Sequence[Signal], scope: Scope) -> tuple[tuple[Memory, Any], ...]:
        found = self._predictions.predict(signals, scope, limit=GUESSES)
        return tuple((prediction.memory, as_guess(prediction)) for prediction in found)

    def _search(self, task: str, scope: Scope) -> tuple[Hit, ...]:
        whose = {name: getattr(scope, name) for name in Scope.__slots__}
        found = self._memory.search(task, top_k=FOUND, **whose)
        kinds = ("preference", "tool_result")
        return tuple(hit for hit in found if hit.memory.kind not in kinds)

    def _sort(
        self,
        fetched: Fetched,
        signals: Sequence[Signal],
        task: str,
        scope: Scope,
        parts: Parts,
    ) -> dict[Tier, tuple[Placed, ...]]:
        related = parts.read("relations", lambda: self._predictions.related(signals, scope)) or {}
        near = [path for paths in related.values() for path in paths]

        def sort() -> dict[Tier, tuple[Placed, ...]]:
            now = self._memory.clock.now()
            situation = read_situation(signals, now=now, task=task, related=near)
            return sort_into_tiers(fetched, situation, reader=scope)

        return parts.read("sorting", sort) or dict.fromkeys(TIERS, ())

    # -- levels ----------------------------------------------------------------------------

    def prepare(self, memories: Sequence[Memory]) -> None:
        """Make the texts that these memories will have in the second tier."""
        count = self._memory.runtime.tokenizer("")[0]
        for memory in memories:
            self._levels_of(memory, 2, count)

    def _item(self, placed: Placed, tier: Tier, count: TokenCounter) -> TierItem:
        memory = placed.memory
        return TierItem(
            id=memory.id, levels=self._levels_of(memory, tier, count), why=placed.why,
            kind=memory.kind,
        )  # fmt: skip

    def _levels_of(self, memory: Memory, tier: Tier, count: TokenCounter) -> Levels:
        """The four texts of a memory: those it has, the others made of it as far as needed."""
        key = (memory.id, memory.content_hash or memory.text, memory.summary, tier)
        kept = self._levels.get(key)
        if kept is None:
            kept = Parts().read("levels", lambda: _make_levels(memory, tier, count))
            if kept is None:
                return (memory.text[:300],) * 4
            self._levels.put(key, kept)
        return kept


class _Offering:
    """Makes an offer of the fates the tiers decided."""

    def __init__(
        self,
        placed: Mapping[str, Placed],
        items: Mapping[str, TierItem],
        found: Mapping[str, Hit],
    ) -> None:
        self._placed = placed
        self._items = items
        self._found = found
        self._candidates: list[Candidate] = []
        self._pointers: list[Pointer] = []
        self._hits: list[Hit] = []
        self._reasons: dict[str, str] = {}

    def take(self, fate: TierFate) -> None:
        placed = self._placed[fate.id]
        score = max(0.0, 1.0 - len(self._hits) / 1_000)
        name = f"tier {fate.tier}, {NAMES[fate.tier].lower()}: {placed.why}"
        shown = replace(placed.memory, heading_path=(f"{NAMES[fate.tier]}: {placed.why}",))
        if fate.level is not None:
            shown = replace(shown, text=self._items[fate.id].at(fate.level))
        known = self._found.get(fate.id)
        hit = Hit(
            memory=shown,
            score=score,
            lexical=known.lexical if known else None,
            vector=known.vector if known else None,
            lexical_rank=known.lexical_rank if known else None,
            vector_rank=known.vector_rank if known else None,
        )
        self._hits.append(hit)
        self._reasons[fate.id] = f"{name}; as {fate.level}"
        if fate.tier == 4:
            pointer = Pointer(id=fate.id, summary=shown.text, tool="memory_read")
            self._pointers.append(pointer)
            return
        self._candidates.append(
            Candidate(
                id=fate.id,
                source=source_of(shown),
                score=score,
                merit=score,
                type=memory_type(shown),
                importance=shown.importance,
                timestamp=shown.created_at,
            )
        )

    def offer(self) -> Offer:
        return Offer(
            candidates=tuple(self._candidates),
            pointers=tuple(self._pointers),
            hits=tuple(self._hits),
            reasons=self._reasons,
        )


def _make_levels(memory: Memory, tier: Tier, count: TokenCounter) -> Levels:
    told = told_text(memory)
    text = told[:LEVEL_CHARACTERS]
    index = memory.index or index_line(text, title=memory.title) or text[:120]
    if tier == 4 or memory.kind in ("pattern", "workflow"):  # steps and templates are short already
        return told, memory.summary or text, memory.compressed or text, index
    if tier == 3:
        return told, memory.summary or text, memory.compressed or compress(text), index
    made = make_levels(text, count, title=memory.title)
    return (
        told,
        memory.summary or made.summary,
        memory.compressed or made.compressed,
        memory.index or made.index,
    )


def _topics(memories: Sequence[Memory]) -> tuple[Memory, ...]:
    """What is worth naming: no small results, no preferences, no single messages."""
    return tuple(
        memory
        for memory in memories
        if memory.kind not in ("preference", "message")
        and (memory.kind != "tool_result" or memory.metadata.get("large"))
    )


class Parts:
    """Reads the parts of a context; one that fails is left out and named."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def read(
        self, name: str, call: Callable[[], T], *, but: tuple[type[Exception], ...] = ()
    ) -> T | None:
        """What `call` gives, or nothing when it fails, `but` for these failures."""
        try:
            return call()
        except but:
            raise
        except Exception as error:  # noqa: BLE001 - a part that fails is left out (P30)
            self.problems.append(f"{name} failed: {type(error).__name__}: {error}")
            return None
