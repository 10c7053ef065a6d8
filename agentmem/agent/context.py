"""What the steps of a turn hand on, what they are measured with, and the account of them.

`agent/turn.py` has the steps. Nothing here raises because memory failed: what did not work is
named in `degradations`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agentmem.base.config import EXTRACTIVE, LoopConfig
from agentmem.base.errors import FixedContentTooLarge
from agentmem.base.filters import Selection
from agentmem.base.guards import CallGuard, Lanes, TtlCache
from agentmem.base.lazy import Lazy
from agentmem.base.types import EMPTY, Hit, Memory, Message, Scope
from agentmem.prompt.block import Pointer
from agentmem.prompt.budget import Budget, ContextPlan, fill, make_package, pack_context
from agentmem.prompt.build import BuiltBlock, Chosen, Room, citations_of, room_for
from agentmem.prompt.cite import Citation
from agentmem.prompt.messages import Conversation
from agentmem.prompt.snapshot import (
    Part,
    Snapshot,
    looked_at_knowledge,
    looked_at_messages,
    looked_at_profile,
    packages_of,
)
from agentmem.search.gate import Sort, is_echo, turn_score
from agentmem.search.intake import TEXT_KINDS
from agentmem.text.messages import SYSTEM_ROLES
from agentmem.tokens.counter import Tokenizer

if TYPE_CHECKING:
    from agentmem.agent.runtime import Runtime
    from agentmem.living.predict import Signal
    from agentmem.search.parts import Calls
    from agentmem.search.results import SearchResults


# ----------------------------------------------------------------------------
# How the steps of a turn are run.


T = TypeVar("T")


class Steps:
    """Runs the steps of a build: times each, names the one that failed, and tells `warn` of it."""

    def __init__(self, warn: Callable[[str], None] | None = None) -> None:
        self._warn = warn
        self.degradations: list[str] = []
        self.timings_ms: dict[str, float] = {}
        self._listeners: list[Callable[[str], None]] = []
        self._lock = threading.Lock()

    def note(self, *problems: str, known: bool = False) -> None:
        """Keep what did not work; what is `known` already is no warning again."""
        if self._warn is not None and not known:
            for problem in problems:
                self._warn(problem)
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

    def run(
        self,
        name: str,
        step: Callable[[], T],
        otherwise: T,
        *,
        raises: type[Exception] | tuple[()] = (),
    ) -> T:
        """What `step` gives, or `otherwise` when it fails, which is noted; `raises` go through."""
        began = time.perf_counter()
        try:
            return step()
        except raises:
            raise
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

SEARCH = "memory search "
"""How a degradation begins when memory was not searched, or in vain."""
PAUSED = "; nobody asks it for a while"
"""How it ends when that opened the breaker."""

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

    def __init__(self, memory: Calls) -> None:
        self._memory = memory
        self._lanes = Lanes()
        self.guard = CallGuard(memory.clock, lanes=self._lanes)
        self.cache: TtlCache[SearchResults] = TtlCache(memory.clock)
        """What each query found; a turn may ask several, of which some were asked before."""

    def recall(self, queries: Sequence[str], scope: Scope, config: LoopConfig) -> Recalled:
        """What the queries find together; a memory found by several keeps its best score."""
        if not queries or not config.recall.turn_top_k:
            return Recalled()
        attempt = self.guard.call(
            lambda: self._search(tuple(queries), scope, config),
            timeout_seconds=config.recall.timeout_seconds,
        )
        if attempt.value is not None:
            return attempt.value
        if attempt.refused:
            return self._recent(scope, config, f"{SEARCH}is {attempt.problem}")
        opened = PAUSED if attempt.opened else ""
        return Recalled(degradations=(f"{SEARCH}failed: {attempt.problem}{opened}",))

    def close(self) -> None:
        """Let go of the threads."""
        self.guard.close()
        self._lanes.close()

    def _search(self, queries: tuple[str, ...], scope: Scope, config: LoopConfig) -> Recalled:
        memory, recall = self._memory, config.recall
        most = max(LEAST_OFFERED, config.budget.knowledge // OFFERED_TOKENS)
        wanted = min(max(LEAST_OFFERED, OFFERED * recall.turn_top_k), most)
        # Read before the search: an answer kept under a sequence is never older than it.
        state = (memory.store.feed.seq(), memory.embedding.serving_id, memory.embedding.error)
        how: How = "cached"
        found: list[SearchResults] = []
        for query in queries:
            key = (scope, query, wanted, recall.search_mode, state)
            kept = self.cache.get(key)
            if kept is None:
                how = "searched"
                kept = memory.search(
                    query,
                    top_k=wanted,
                    threshold=0.0,
                    mode=recall.search_mode,
                    by_question=False,
                    user_id=scope.user_id,
                    project_id=scope.project_id,
                    agent_id=scope.agent_id,
                    run_id=scope.run_id,
                )
                if not kept.degradations:
                    self.cache.put(key, kept)
            found.append(kept)
        # One sentence of a long task may sound personal: the message as a whole decides.
        asked = zip(queries, found, strict=True)
        whole = max(one.own_world for query, one in asked if queries[0] in query)
        best: dict[str, Hit] = {}
        for one in found:
            for hit in one:
                score = turn_score(hit.score, min(one.own_world, whole), sort=_sort(hit.memory))
                known = best.get(hit.memory.id)
                if known is None or score > known.score:
                    best[hit.memory.id] = Hit(
                        memory=hit.memory, score=score, lexical=hit.lexical, vector=hit.vector,
                        lexical_rank=hit.lexical_rank, vector_rank=hit.vector_rank,
                    )  # fmt: skip
        hits = sorted(best.values(), key=lambda hit: (-hit.score, hit.memory.id))
        degradations = dict.fromkeys(problem for one in found for problem in one.degradations)
        return Recalled(
            hits=tuple(hits), own_world=whole, how=how, degradations=tuple(degradations)
        )

    def _recent(self, scope: Scope, config: LoopConfig, problem: str) -> Recalled:
        """The newest memories in place of a search, each with the same middling score."""
        selection = Selection(reader=scope)

        def newest() -> tuple[Memory, ...]:
            return self._memory.store.recent(selection, limit=OFFERED * config.recall.turn_top_k)

        try:
            found = self._lanes.run(newest, config.recall.timeout_seconds)
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


ENDLESS = 10**12
"""As good as the tokens of a window that nobody knows the end of."""
COUNTED_FIRST = 8
"""So many of the longest messages are counted at first, where it is not known what fits."""


@dataclass(slots=True, kw_only=True, eq=False)
class Context:
    """What a context is to be built for, and what the steps of a turn make of it, each from what
    those before it found. `messages` is what to send.

    With `trim` old messages give way when the window is too small; without, the caller's
    messages are theirs and only the block is cut. `heard` are the preferences that this turn
    stated.
    """

    scope: Scope
    config: LoopConfig
    given: Conversation = field(default_factory=Conversation)
    model: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    pointers: tuple[Pointer, ...] = ()
    trim: bool = False
    message_id: str = ""
    heard: frozenset[str] = frozenset()
    signals: tuple[Signal, ...] = ()

    messages: list[Any] = field(default_factory=list)
    snapshot_id: str = ""
    at: datetime = field(init=False)
    tokenizer: Tokenizer = field(init=False)
    window_tokens: int = 0
    reserve_tokens: int = 0
    sure: bool = False
    """Whether the caller, a table or a refusal names the window's size."""
    open: bool = False
    """Whether nobody names that of a named model: it takes what it is sent until it refuses."""
    assumed: tuple[str, ...] = ()
    steps: Steps = field(default_factory=Steps)
    query: str = ""
    secret: bytes | None = None
    """What the boundary of a block is made from; without it there is no block."""
    profile: tuple[Memory, ...] = ()
    recalled: Recalled = Recalled()
    hits: tuple[Hit, ...] = ()
    chosen: Chosen = field(default_factory=Chosen)
    """What is offered to the block, in order, of the `hits` that were looked at."""
    factors: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    reasons: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    room: Room = field(default_factory=Room)
    text: str | None = None
    """The block as it is sent; None where there is none."""
    shows_knowledge: bool = False
    counted: Lazy[BuiltBlock] = field(default_factory=lambda: Lazy(BuiltBlock))
    planned: Lazy[ContextPlan | None] = field(default_factory=lambda: Lazy(lambda: None))
    traced: Lazy[Snapshot | None] = field(default_factory=lambda: Lazy(lambda: None))
    """What nobody waits for; the background asks for it soon enough."""
    resent: Budget | None = None
    """What was sent in the end, where that is not what the plan says."""

    @property
    def built(self) -> BuiltBlock:
        """The block with what became of everything offered, counted."""
        return self.counted.value

    @property
    def snapshot(self) -> Snapshot | None:
        return self.traced.value

    def citations_for(self, answer: str) -> tuple[Citation, ...]:
        """One for each source in the block, under the number it has there, each with the
        sentence that this answer takes from it."""
        return citations_of(self.built, self.hits, asked=self.query, answer=answer)

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words; the plan is made for it, which may be one of them."""
        _ = self.planned.value
        return list(self.steps.degradations)

    @property
    def budget(self) -> Budget | None:
        plan = self.planned.value
        return self.resent or (None if plan is None else plan.budget)

    @property
    def estimated_tokens(self) -> int:
        """What the request costs, as we count."""
        return 0 if self.budget is None else self.budget.used_tokens


def measure(runtime: Runtime, context: Context) -> None:
    """Say what the request is measured with and what the model takes, as it is known now: later
    lessons are the next context's."""
    window = context.config.budget.context_window
    context.tokenizer, context.assumed = tokenizer, _ = runtime.tokenizer(context.model, window)
    named = context.model not in ("", EXTRACTIVE)
    context.reserve_tokens = tokenizer.reserve.total
    context.window_tokens = tokenizer.available_tokens + context.reserve_tokens
    context.sure = tokenizer.window_known and (named or window is not None)
    context.open = named and not tokenizer.window_known


def window_not_known(tokenizer: Tokenizer) -> str:
    """What is assumed of a model that nobody lists, and what to do about it."""
    return (
        f"the window of {tokenizer.model!a} is not known and {tokenizer.limits.window:,} tokens "
        "are assumed; set LoopConfig(budget=BudgetConfig(context_window=…))"
    )


def room_of(context: Context) -> Room:
    """What the block may take. Far from the window's end that is known without counting a token;
    nearer, the longest messages are counted until it is known."""
    tokenizer = context.tokenizer
    budget, asked = context.config.budget, context.given.asked
    budgets = {
        "preference_budget": budget.preferences,
        "knowledge_budget": budget.knowledge,
        "working_budget": budget.working,
    }
    if context.open:
        # Who sends so much to a window nobody knows has the room for it, until it is refused.
        return room_for(window_tokens=ENDLESS, **budgets)
    tool_tokens = _tool_tokens(context, tokenizer)
    tokens = tokenizer.messages_at_most(context.given)
    systems = [at for at, one in enumerate(context.given) if one.get("role") in SYSTEM_ROLES]

    def beside() -> Room:
        """The room beside messages that cost so many tokens each."""
        query = 0 if asked is None else tokens[asked]
        system = sum([tokens[at] for at in systems])
        return room_for(
            window_tokens=context.window_tokens,
            reserve_tokens=context.reserve_tokens,
            system_tokens=system + tool_tokens,
            query_tokens=query,
            other_tokens=0 if context.trim else sum(tokens) - system - query,
            **budgets,
        )

    room, counted, more = beside(), 0, COUNTED_FIRST
    longest: list[int] = []
    while not room.full and counted < len(tokens):
        longest = longest or sorted(range(len(tokens)), key=tokens.__getitem__, reverse=True)
        for at in longest[counted : counted + more]:
            tokens[at] = tokenizer.count_message(context.given[at])
        counted, more = counted + more, 2 * more
        room = beside()
    return room


def _tool_tokens(context: Context, tokenizer: Tokenizer) -> int:
    if not context.tools:
        return 0
    return tokenizer.count_messages([], tools=context.tools) - tokenizer.count_messages([])


def pack_request(context: Context) -> ContextPlan:
    """The whole request, counted, and trimmed if it may be."""
    tokenizer, window, reserve = context.tokenizer, context.window_tokens, context.reserve_tokens
    packages = packages_of(context.built)
    if tools := _tool_tokens(context, tokenizer):
        packages.append(make_package("tool-schema", id="tool-schema", tokens=tools))

    def count(message: Message) -> int:
        # What cannot be read was said when the messages were counted for the budget.
        return tokenizer.count_message(message, warn=False)

    def packed(window_tokens: int) -> ContextPlan:
        plan = pack_context(
            context.given,
            window_tokens=window_tokens,
            reserve_tokens=reserve,
            count_message=count,
            packages=packages,
            memories_asked=len(context.chosen.candidates),
            as_they_are=not context.trim,
        )
        # Where it was packed into more than there is, it says so.
        return replace(plan, budget=replace(plan.budget, window_tokens=window))

    if context.open:  # everything, however large it is; said where it is more than was assumed
        needed = sum(map(count, context.given)) + sum(one.tokens for one in packages) + reserve
        if needed > window:
            problem = f"{needed:,} tokens are sent though {window_not_known(tokenizer)}"
            context.steps.note(problem, known=True)
        return packed(max(window, needed))
    try:
        plan = packed(window)
    except FixedContentTooLarge as error:
        if context.sure and tokenizer.corrected(error.needed_tokens) > tokenizer.limits.window:
            raise
        context.steps.note(f"what must be sent leaves too little room: {error}")
        return packed(error.needed_tokens + reserve)
    if not context.trim:  # what a provider says where no earlier message could be left out
        try:
            fixed = [one for one in plan.report.kept if one.type != "message-recent"]
            fill(fixed, plan.budget.available_tokens)
        except FixedContentTooLarge as error:
            context.steps.note(f"the messages alone do not fit the window: {error}")
    return plan


def trace_of(context: Context, plan: ContextPlan | None) -> Snapshot:
    """What was looked at for a turn, and what became of it."""
    built = context.built
    found = looked_at_knowledge(
        context.hits, context.chosen, built, factors=context.factors, reasons=context.reasons
    )
    told = looked_at_profile(context.profile, built, heard=context.heard)
    return Snapshot(
        id=context.snapshot_id,
        message_id=context.message_id,
        created_at=context.at,
        scope=context.scope,
        model=context.model,
        query=context.query,
        window_tokens=context.tokenizer.limits.window,
        reserve_tokens=context.tokenizer.reserve.total,
        estimated_tokens=plan.budget.used_tokens if plan else 0,
        settings=_settings(context.config, offered=len(context.reasons)),
        parts=tuple(
            Part(name=use.name, tokens=use.tokens, items=use.items)
            for use in (plan.budget.components if plan else ())
            if use.items
        ),
        looked_at=(*found, *told, *looked_at_messages(plan.report.dropped if plan else ())),
        message=built.text or "",
        warnings=(*context.assumed, *(w.text for w in (plan.budget.warnings if plan else ()))),
        degradations=tuple(context.steps.degradations),
        timings_ms=dict(context.steps.timings_ms),
        cached=context.recalled.how == "cached",
    )


def _settings(config: LoopConfig, *, offered: int) -> dict[str, Any]:
    """The settings as they held; tiers offer what they offer, whatever `top_k` says."""
    recall, budget = config.recall, config.budget
    return {
        **{name: getattr(config, name) for name in _OWN_SETTINGS},
        **{f"learn_{name}": getattr(config.learn, name) for name in config.learn.__slots__},
        **{f"results_{name}": getattr(config.results, name) for name in config.results.__slots__},
        **{name: getattr(recall, name) for name in recall.__slots__},
        "top_k": max(recall.turn_top_k, offered),
        "knowledge_budget": budget.knowledge,
        "preference_budget": budget.preferences,
        "working_budget": budget.working,
        "context_window": budget.context_window,
    }


_OWN_SETTINGS = tuple(
    name for name in LoopConfig.__slots__ if name not in ("recall", "budget", "learn", "results")
)
