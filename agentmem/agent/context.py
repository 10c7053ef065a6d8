"""Build the context of one turn: query, search, choose, fill, inject, and the trace of it.

`build_context` never raises because memory failed: what did not work is named
in `degradations`, and the messages go out as they came.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentmem.base.config import EXTRACTIVE, LoopConfig
from agentmem.base.errors import BudgetError, FixedContentTooLarge
from agentmem.base.filters import Selection
from agentmem.base.guards import Guard, Lanes, TtlCache
from agentmem.base.lazy import Lazy
from agentmem.base.types import EMPTY, Hit, Memory, Scope
from agentmem.living.usage import usage_factor
from agentmem.prompt.block import Pointer
from agentmem.prompt.budget import Budget, make_package
from agentmem.prompt.build import (
    BuiltBlock,
    Chosen,
    Room,
    build_block,
    choose,
    citations_of,
    room_for,
    write_whole,
)
from agentmem.prompt.cite import Citation
from agentmem.prompt.fill import ContextPlan, pack_context
from agentmem.prompt.inject import inject
from agentmem.prompt.messages import Conversation
from agentmem.prompt.query import read_queries
from agentmem.prompt.snapshot import (
    Snapshot,
    looked_at_knowledge,
    looked_at_messages,
    looked_at_profile,
    packages_of,
    parts_of_request,
)
from agentmem.search.gate import Sort, is_echo, turn_score
from agentmem.search.intake import TEXT_KINDS
from agentmem.text.messages import SYSTEM_ROLES
from agentmem.tokens.counter import Tokenizer

if TYPE_CHECKING:
    from agentmem.agent.runtime import Runtime
    from agentmem.living.predict import Signal
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.results import SearchResults


# ----------------------------------------------------------------------------
# A built context, and what can be said of it once somebody asks.


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Context:
    """A built context. `messages` is what to send."""

    messages: list[dict[str, Any]]
    text: str | None = None
    """The block as it is sent; None where there is none."""
    shows_knowledge: bool = False
    hits: tuple[Hit, ...] = ()
    query: str = ""
    snapshot_id: str = ""
    message_id: str = ""
    accounts: Accounts | None = None
    """What nobody waits for; the background asks for it soon enough."""
    resent: Budget | None = None
    """What was sent in the end, where that is not what the plan says."""

    @property
    def built(self) -> BuiltBlock:
        """The block with what became of everything offered, counted."""
        return BuiltBlock() if self.accounts is None else self.accounts.built.value

    @property
    def plan(self) -> ContextPlan | None:
        """The whole request, counted."""
        return None if self.accounts is None else self.accounts.plan.value

    @property
    def snapshot(self) -> Snapshot | None:
        return None if self.accounts is None else self.accounts.snapshot.value

    @property
    def citations(self) -> tuple[Citation, ...]:
        """One for each source in the block, under the number it has there."""
        return self.citations_for("")

    def citations_for(self, answer: str) -> tuple[Citation, ...]:
        """The citations, each with the sentence that this answer takes from its source."""
        return citations_of(self.built, self.hits, asked=self.query, answer=answer)

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words; the plan is made for it, which may be one of them."""
        if self.accounts is None:
            return []
        _ = self.plan
        return list(self.accounts.steps.degradations)

    def tell_degradations(self, tell: Callable[[str], None]) -> None:
        """Tell what did not work so far, and what comes of it later, when it comes."""
        if self.accounts is not None:
            self.accounts.steps.tell_to(tell)

    @property
    def budget(self) -> Budget | None:
        if self.resent is not None:
            return self.resent
        return None if self.plan is None else self.plan.budget

    @property
    def estimated_tokens(self) -> int:
        """What the request costs, as we count."""
        return 0 if self.budget is None else self.budget.used_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The counted block, the plan and the snapshot of a context, and what went wrong in it."""

    steps: Steps
    built: Lazy[BuiltBlock]
    plan: Lazy[ContextPlan | None]
    snapshot: Lazy[Snapshot | None]


class Steps:
    """Runs the steps of a build: times each, and names the one that failed."""

    def __init__(self) -> None:
        self.degradations: list[str] = []
        self.timings_ms: dict[str, float] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._lock = threading.Lock()

    def note(self, *problems: str) -> None:
        """Keep what did not work."""
        with self._lock:
            self.degradations += problems
            listeners = tuple(self._listeners)
        for tell in listeners:
            for problem in problems:
                tell(problem)

    def tell_to(self, tell: Callable[[str], None]) -> None:
        """Tell what was noted, and from now on whatever is."""
        with self._lock:
            known = tuple(self.degradations)
            self._listeners.append(tell)
        for problem in known:
            tell(problem)

    def run(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives, or `otherwise` when it fails; the failure is noted."""
        began = time.perf_counter()
        try:
            return step()
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.note(f"{name} failed: {type(error).__name__}: {error}")
            return otherwise
        finally:
            spent = 1000 * (time.perf_counter() - began)
            self.timings_ms[name] = round(self.timings_ms.get(name, 0.0) + spent, 3)


# ----------------------------------------------------------------------------
# Ask a memory for what belongs to a turn, so that a failing memory never breaks it (P30).


FALLBACK_SCORE = 0.5
OFFERED = 2
"""So many times `top_k` are looked at: what is already in the conversation gives its place up."""
LEAST_OFFERED = 15
OFFERED_TOKENS = 16
"""Few memories are shorter than this: no more are read than could fill the budget."""

How = Literal["searched", "cached", "fallback", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What was found, best first, those below the threshold too, and what went wrong.

    `own_world` is how likely the user's own world is asked about. `fallback`
    hits are the most recent memories, which nobody compared with the question.
    """

    hits: tuple[Hit, ...] = ()
    own_world: float = 0.0
    how: How = "nothing"
    degradations: tuple[str, ...] = ()


class Recaller:
    """Searches behind a time limit, a breaker and a short memory of answers."""

    def __init__(
        self,
        memory: MemoryManager,
        *,
        guard: Guard | None = None,
        cache: TtlCache[Recalled] | None = None,
    ) -> None:
        self._memory = memory
        self._lanes = Lanes()
        self.guard = Guard(memory.clock, lanes=self._lanes) if guard is None else guard
        self.cache = TtlCache(memory.clock) if cache is None else cache
        """What each query found; a turn may ask several, of which some were asked before."""

    def recall(self, queries: Sequence[str], scope: Scope, config: LoopConfig) -> Recalled:
        """What the queries find together; a memory found by several keeps its best score."""
        if not queries or not config.top_k:
            return Recalled()
        attempt = self.guard.call(
            lambda: self._search(tuple(queries), scope, config),
            timeout_seconds=config.retrieval_timeout_seconds,
        )
        if attempt.value is not None:
            return attempt.value
        if attempt.refused:
            return self._recent(scope, config, f"memory search is {attempt.problem}")
        return Recalled(degradations=(f"memory search failed: {attempt.problem}",))

    def close(self) -> None:
        """Let go of the threads."""
        self.guard.close()
        self._lanes.close()

    def _search(self, queries: tuple[str, ...], scope: Scope, config: LoopConfig) -> Recalled:
        memory = self._memory
        most = max(LEAST_OFFERED, config.knowledge_budget // OFFERED_TOKENS)
        wanted = min(max(LEAST_OFFERED, OFFERED * config.top_k), most)
        # Read before the search: an answer kept under a sequence is never older than it.
        state = (memory.store.feed.seq(), memory.embedding.serving_id, memory.embedding.error)
        best: dict[str, Hit] = {}
        degradations: dict[str, None] = {}
        how: How = "cached"
        found: list[Recalled] = []
        for query in queries:
            key = (scope, query, wanted, config.search_mode, state)
            kept = self.cache.get(key)
            if kept is None:
                how = "searched"
                kept = self._ask(query, scope, config, wanted)
                if not kept.degradations:
                    self.cache.put(key, kept)
            degradations |= dict.fromkeys(kept.degradations)
            found.append(kept)
        # One sentence of a long task may sound personal: the message as a whole decides.
        worlds = [one.own_world for one in found]
        whole = max(
            world for query, world in zip(queries, worlds, strict=True) if queries[0] in query
        )
        for kept, world in zip(found, worlds, strict=True):
            for hit in kept.hits:
                score = turn_score(hit.score, min(world, whole), sort=_sort(hit.memory))
                known = best.get(hit.memory.id)
                if known is None or score > known.score:
                    best[hit.memory.id] = replace(hit, score=score)
        hits = sorted(best.values(), key=lambda hit: (-hit.score, hit.memory.id))
        return Recalled(
            hits=tuple(hits), own_world=whole, how=how, degradations=tuple(degradations)
        )

    def _ask(self, query: str, scope: Scope, config: LoopConfig, wanted: int) -> Recalled:
        """What one query finds, with the scores of a search."""
        found = self._find(query, scope, config, wanted)
        return Recalled(
            hits=tuple(found),
            own_world=found.own_world,
            how="searched",
            degradations=tuple(found.degradations),
        )

    def _find(self, query: str, scope: Scope, config: LoopConfig, wanted: int) -> SearchResults:
        return self._memory.search(
            query,
            top_k=wanted,
            threshold=0.0,
            mode=config.search_mode,
            user_id=scope.user_id,
            project_id=scope.project_id,
            agent_id=scope.agent_id,
            run_id=scope.run_id,
        )

    def _recent(self, scope: Scope, config: LoopConfig, problem: str) -> Recalled:
        """The newest memories in place of a search, each with the same middling score."""
        selection = Selection(reader=scope)

        def newest() -> tuple[Memory, ...]:
            return self._memory.store.recent(selection, limit=OFFERED * config.top_k)

        try:
            found = self._lanes.run(newest, config.retrieval_timeout_seconds)
        except Exception as error:  # noqa: BLE001 - the turn goes on without memories
            return Recalled(degradations=(problem, f"recent memories failed: {error}"))
        return Recalled(
            hits=tuple(Hit(memory=memory, score=FALLBACK_SCORE) for memory in found),
            how="fallback",
            degradations=(f"{problem}; the most recent memories stand in",),
        )


def _sort(memory: Memory) -> Sort:
    if memory.kind in TEXT_KINDS:
        return "page"
    return "echo" if is_echo(memory) else "statement"


COUNTED_FIRST = 8
"""So many of the longest messages are counted at first, where it is not known what fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What a context is to be built for.

    With `trim` old messages give way when the window is too small; without,
    the caller's messages are theirs and only the block is cut. `heard` are the
    preferences that this turn stated.
    """

    messages: Conversation
    scope: Scope
    config: LoopConfig
    model: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    pointers: tuple[Pointer, ...] = ()
    trim: bool = False
    message_id: str = ""
    heard: frozenset[str] = frozenset()
    signals: tuple[Signal, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the model takes, as it is known when the context is built; later lessons are the
    next one's. `sure` says that the table or the caller names its size."""

    tokens: int
    reserve_tokens: int
    sure: bool

    @property
    def limit_tokens(self) -> int:
        return self.tokens - self.reserve_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What a request is measured with, and what had to be assumed about its model."""

    tokenizer: Tokenizer
    window: Window
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What memory has for a turn: who the user is, and what the queries find."""

    secret: bytes | None
    """What the boundary of a block is made from; without it there is no block."""
    queries: tuple[str, ...]
    profile: tuple[Memory, ...]
    recalled: Recalled


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is offered to the block, in order, of the `hits` that were looked at."""

    chosen: Chosen
    hits: tuple[Hit, ...]
    room: Room
    factors: Mapping[str, float]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The block as it is sent, and its exact account once somebody asks."""

    text: str | None
    shows_knowledge: bool
    built: Lazy[BuiltBlock]


def build_context(runtime: Runtime, ask: Ask) -> Context:
    """The messages of `ask` with what memory knows of them.

    `BudgetError` is raised, with `trim` only, when what must be sent does not
    fit into a window whose size is known; nothing else is.
    """
    steps = Steps()
    scale = _scale(runtime, ask)
    nothing: tuple[str, ...] = ()
    steps.note(*steps.run("readiness", runtime.readiness, nothing))
    ask = steps.run("messages", lambda: _without_old_blocks(ask), ask)
    queries = steps.run("query", lambda: read_queries(ask.messages), nothing)
    found = _search(runtime, ask, queries, steps)
    choice = _choose(runtime, ask, found, scale, steps)
    filled = _fill(ask, found, choice, scale, steps)
    at, snapshot_id = runtime.now(), runtime.new_id()
    message_id = ask.message_id or runtime.new_id()
    offered = len(choice.chosen.candidates)
    plan = Lazy(lambda: _pack(ask, filled.built.value, scale, steps, offered=offered, now=at))
    messages = _inject(ask, filled, plan, steps)
    trace = partial(
        _trace, ask, found, choice, filled, planned=plan, scale=scale, steps=steps,
        created_at=at, snapshot_id=snapshot_id, message_id=message_id,
    )  # fmt: skip
    return Context(
        messages=messages,
        text=filled.text,
        shows_knowledge=filled.shows_knowledge,
        hits=choice.hits,
        query=queries[0] if queries else "",
        snapshot_id=snapshot_id,
        message_id=message_id,
        accounts=Accounts(steps=steps, built=filled.built, plan=plan, snapshot=Lazy(trace)),
    )


def _scale(runtime: Runtime, ask: Ask) -> Scale:
    tokenizer, notes = runtime.tokenizer(ask.model, ask.config.context_window)
    reserve = tokenizer.reserve.total
    named = ask.model not in ("", EXTRACTIVE) or ask.config.context_window is not None
    window = Window(
        tokens=tokenizer.available_tokens + reserve,
        reserve_tokens=reserve,
        sure=named and tokenizer.window_known,
    )
    return Scale(tokenizer=tokenizer, window=window, notes=notes)


def _search(runtime: Runtime, ask: Ask, queries: tuple[str, ...], steps: Steps) -> Found:
    secret = steps.run("secret", runtime.secret, None)
    profile: tuple[Memory, ...] = steps.run("preferences", lambda: runtime.profile(ask.scope), ())
    recalled = Recalled()
    if secret is not None:
        recalled = steps.run(
            "search", lambda: runtime.recall(queries, ask.scope, ask.config), recalled
        )
    steps.note(*recalled.degradations)
    return Found(secret=secret, queries=queries, profile=profile, recalled=recalled)


def _choose(runtime: Runtime, ask: Ask, found: Found, scale: Scale, steps: Steps) -> Choice:
    """The best of what was found; with tiers, those decide what is offered and in what order."""
    hits, now = found.recalled.hits, runtime.now()
    factors = {hit.memory.id: usage_factor(hit.memory.usage, now=now) for hit in hits}
    chosen = steps.run(
        "choose",
        lambda: choose(
            hits,
            ask.messages,
            top_k=ask.config.top_k,
            threshold=ask.config.similarity_threshold,
            now=now,
            factors=factors,
        ),
        Chosen(),
    )
    room = _room(ask, scale, steps)
    choice = Choice(chosen=chosen, hits=hits, room=room, factors=factors, reasons=EMPTY)
    if ask.config.assembly != "tiers" or found.secret is None:
        return choice
    offer = steps.run(
        "tiers",
        lambda: runtime.tiers.offer(
            ask.scope,
            budget_tokens=room.knowledge_tokens,
            signals=ask.signals,
            task=found.queries[0] if found.queries else "",
            chosen=chosen,
            hits=hits,
            profile=found.profile,
            config=ask.config,
            count=scale.tokenizer,
        ),
        None,
    )
    if offer is None:
        return choice
    steps.note(*offer.degradations)
    chosen, hits = offer.as_chosen(chosen, hits)
    return replace(choice, chosen=chosen, hits=hits, reasons=offer.reasons)


def _fill(ask: Ask, found: Found, choice: Choice, scale: Scale, steps: Steps) -> Filled:
    """The block that has room, rendered; where all of it surely fits, it is counted later."""
    chosen, room, tokenizer = choice.chosen, choice.room, scale.tokenizer
    if found.secret is None or room.limit_tokens <= 0:
        return Filled(text=None, shows_knowledge=False, built=Lazy(BuiltBlock))
    pointers = {pointer.id: pointer for pointer in (*ask.pointers, *chosen.pointers)}
    offered: dict[str, Any] = {
        "secret": found.secret,
        "limit_tokens": room.limit_tokens,
        "user_profile": [memory.text for memory in found.profile],
        "profile_tokens": min(ask.config.preference_budget, room.limit_tokens),
        "candidates": chosen.candidates,
        "knowledge_tokens": room.knowledge_tokens,
        "total_found": chosen.related,
        "working_memory": tuple(pointers.values()),
        "framing": ask.config.framing,
        "role": ask.config.reference_role,
    }

    def build(step: str, otherwise: str | None = None) -> BuiltBlock:
        return steps.run(
            step,
            lambda: build_block(
                count=tokenizer,
                count_messages=lambda m: sum(tokenizer.count_message(x) for x in m),
                **offered,
            ),
            BuiltBlock(text=otherwise),
        )

    if not ask.trim:  # where the plan is needed anyway, everything has to be counted
        whole = partial(write_whole, at_most=tokenizer.at_most, **offered)
        text = steps.run("block", whole, None)
        if text is not None:
            built = Lazy(lambda: build("count", text))
            return Filled(text=text, shows_knowledge=bool(chosen.candidates), built=built)
    counted = build("block")
    return Filled(
        text=counted.text,
        shows_knowledge=bool(counted.knowledge.shown),
        built=Lazy(lambda: counted),
    )


def _inject(
    ask: Ask, filled: Filled, plan: Lazy[ContextPlan | None], steps: Steps
) -> list[dict[str, Any]]:
    """The messages to send: the caller's, trimmed if they may be, and the reference."""
    sent: Sequence[Mapping[str, Any]] = ask.messages
    if ask.trim and plan.value is not None:
        sent = plan.value.messages
    messages: list[dict[str, Any]] | None = steps.run(
        "inject",
        lambda: inject(
            sent,
            filled.text,
            framing=ask.config.framing,
            role=ask.config.reference_role,
            placement=ask.config.placement,
        ),
        None,
    )
    return [dict(message) for message in sent] if messages is None else messages


def _without_old_blocks(ask: Ask) -> Ask:
    """`ask` with the messages that will go out: what `inject` takes away costs nothing."""
    keep_earlier = ask.config.placement == "append"
    kept = ask.messages.without_old_references(keep_earlier=keep_earlier)
    return ask if kept is ask.messages else replace(ask, messages=kept)


def _room(ask: Ask, scale: Scale, steps: Steps) -> Room:
    """What the block may take. Far from the window's end that is known without counting a token;
    nearer, the longest messages are counted until it is known."""

    tokenizer, window = scale.tokenizer, scale.window

    def measure() -> Room:
        tool_tokens = _tool_tokens(ask, tokenizer)
        tokens = tokenizer.messages_at_most(ask.messages)
        room = _room_beside(ask, window, tokens, tool_tokens)
        longest = sorted(range(len(tokens)), key=tokens.__getitem__, reverse=True)
        counted, more = 0, COUNTED_FIRST
        while not room.full and counted < len(tokens):
            for at in longest[counted : counted + more]:
                tokens[at] = tokenizer.count_message(ask.messages[at])
            counted, more = counted + more, 2 * more
            room = _room_beside(ask, window, tokens, tool_tokens)
        return room

    return steps.run("budget", measure, Room())


def _room_beside(ask: Ask, window: Window, counted: Sequence[int], tool_tokens: int) -> Room:
    """The room beside messages that cost so many tokens each."""
    asked = ask.messages.asked
    query = 0 if asked is None else counted[asked]
    system = sum(
        tokens
        for message, tokens in zip(ask.messages, counted, strict=True)
        if message.get("role") in SYSTEM_ROLES
    )
    return room_for(
        window_tokens=window.tokens,
        reserve_tokens=window.reserve_tokens,
        system_tokens=system + tool_tokens,
        query_tokens=query,
        other_tokens=0 if ask.trim else sum(counted) - system - query,
        preference_budget=ask.config.preference_budget,
        knowledge_budget=ask.config.knowledge_budget,
        working_budget=ask.config.working_budget,
    )


def _tool_tokens(ask: Ask, tokenizer: Tokenizer) -> int:
    if not ask.tools:
        return 0
    return tokenizer.count_messages([], tools=ask.tools) - tokenizer.count_messages([])


def _pack(
    ask: Ask,
    built: BuiltBlock,
    scale: Scale,
    steps: Steps,
    *,
    offered: int,
    now: datetime,
) -> ContextPlan | None:
    """The whole request, counted, and trimmed if it may be; of `offered` memories."""
    tokenizer, window = scale.tokenizer, scale.window
    if ask.messages.asked is None:
        return None
    tools = _tool_tokens(ask, tokenizer)
    packages = packages_of(built)
    if tools:
        packages.append(make_package("tool-schema", "", id="tool-schema", tokens=tools))

    def pack(window_tokens: int = window.tokens) -> ContextPlan:
        # What cannot be read was said when the messages were counted for the budget.
        plan = pack_context(
            ask.messages,
            window_tokens=window_tokens,
            reserve_tokens=window.reserve_tokens,
            count_message=lambda message: tokenizer.count_message(message, warn=False),
            packages=packages,
            memories_asked=offered,
            now=now,
            as_they_are=not ask.trim,
        )
        if window_tokens == window.tokens:
            return plan
        return replace(  # packed into more than there is, and told so
            plan,
            budget=replace(plan.budget, window_tokens=window.tokens),
            report=replace(plan.report, limit_tokens=window.limit_tokens),
        )

    def trimmed() -> ContextPlan:
        try:
            return pack()
        except FixedContentTooLarge as error:
            if window.sure and tokenizer.corrected(error.needed_tokens) > tokenizer.limits.window:
                raise
            steps.note(f"what must be sent leaves too little room: {error}")
            return pack(error.needed_tokens + window.reserve_tokens)

    def as_it_is() -> ContextPlan:
        plan = pack()
        error = _too_large(plan)
        if error is not None:
            steps.note(f"the messages alone do not fit the window: {error}")
        return plan

    if ask.trim:
        return _timed(steps, "pack", trimmed)
    return _timed(steps, "plan", as_it_is)  # which nothing that is sent waits for


def _too_large(plan: ContextPlan) -> FixedContentTooLarge | None:
    """What a provider will say of a request from which no earlier message could be left out."""
    fixed = [p for p in plan.report.kept if p.type != "message-recent"]
    needed, limit = sum(package.tokens for package in fixed), plan.report.limit_tokens
    if needed <= limit:
        return None
    largest = sorted(fixed, key=lambda package: -package.tokens)
    items = tuple(f"{package.id} {package.tokens:,}" for package in largest)
    return FixedContentTooLarge(needed_tokens=needed, limit_tokens=limit, items=items)


def _timed(steps: Steps, name: str, pack: Callable[[], ContextPlan]) -> ContextPlan | None:
    """`pack`, timed; only its own refusal of what cannot fit comes through."""
    refused: list[BudgetError] = []

    def guarded() -> ContextPlan | None:
        try:
            return pack()
        except BudgetError as error:
            refused.append(error)
            return None

    plan = steps.run(name, guarded, None)
    if refused:
        raise refused[0]
    return plan


def _trace(
    ask: Ask,
    found: Found,
    choice: Choice,
    filled: Filled,
    *,
    planned: Lazy[ContextPlan | None],
    scale: Scale,
    steps: Steps,
    created_at: datetime,
    snapshot_id: str,
    message_id: str,
) -> Snapshot | None:
    """What was looked at for a turn, and what became of it."""
    built, plan = filled.built.value, planned.value

    def snapshot() -> Snapshot:
        return Snapshot(
            id=snapshot_id,
            message_id=message_id,
            created_at=created_at,
            scope=ask.scope,
            model=ask.model,
            query=found.queries[0] if found.queries else "",
            window_tokens=scale.tokenizer.limits.window,
            reserve_tokens=scale.tokenizer.reserve.total,
            estimated_tokens=plan.budget.used_tokens if plan else 0,
            settings=_settings(ask.config, offered=len(choice.reasons)),
            parts=parts_of_request(plan),
            looked_at=(
                *looked_at_knowledge(
                    choice.hits,
                    choice.chosen.passed_over,
                    built,
                    factors=choice.factors,
                    reasons=choice.reasons,
                    merits=choice.chosen.merits,
                ),
                *looked_at_profile(found.profile, built, heard=ask.heard),
                *looked_at_messages(plan),
            ),
            message=built.text or "",
            warnings=(*scale.notes, *(w.text for w in (plan.budget.warnings if plan else ()))),
            degradations=tuple(steps.degradations),
            timings_ms=dict(steps.timings_ms),
            cached=found.recalled.how == "cached",
        )

    return steps.run("trace", snapshot, None)


def _settings(config: LoopConfig, *, offered: int) -> dict[str, Any]:
    """The settings as they held; tiers offer what they offer, whatever `top_k` says."""
    found = {name: getattr(config, name) for name in LoopConfig.__slots__}
    return {**found, "top_k": max(config.top_k, offered)}
