"""One turn of any loop, from top to bottom.

query → search → choose → fill → render → inject    `build_context`, while the caller waits
model                                               the caller's, between `messages` and `done`
reply                                               `Turn.done`: what is kept of an answer
background                                          trace, usage, indexing: queued by `done`
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentmem.agent.context import (
    Ask,
    Choice,
    Context,
    Filled,
    Recalled,
    Recollection,
    Scale,
    Steps,
    measure,
    pack_request,
    room_of,
    trace_of,
    window_not_known,
)
from agentmem.agent.trace import contexts_log, log_context
from agentmem.base.checks import require_messages, require_text
from agentmem.base.config import LoopConfig, require_config
from agentmem.base.errors import BudgetError, NamelessCaller
from agentmem.base.lazy import Lazy
from agentmem.base.types import EMPTY, Hit, Memory, Scope, quoted, served_text
from agentmem.living.preferences import TOLD, Preference
from agentmem.living.usage import usage_factor
from agentmem.prompt.block import ContextBlock, Pointer
from agentmem.prompt.budget import Budget
from agentmem.prompt.build import BuiltBlock, Chosen, build_block, choose, write_whole
from agentmem.prompt.cite import Citation
from agentmem.prompt.inject import inject
from agentmem.prompt.messages import Conversation, read_conversation
from agentmem.prompt.query import read_queries
from agentmem.prompt.snapshot import Outcome, Snapshot
from agentmem.prompt.strip import strip
from agentmem.prompt.trim import ContextPlan
from agentmem.search.gate import turn_score
from agentmem.search.parts import memory_of
from agentmem.text.decode import sound
from agentmem.text.messages import plain, read_usage, text_of

if TYPE_CHECKING:
    from agentmem.agent.runtime import Host, Runtime
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.living.predict import Signal
    from agentmem.living.workflows import Call


# ----------------------------------------------------------------------------
# Before the model: query → search → choose → fill → render → inject.


def build_context(runtime: Runtime, ask: Ask) -> Context:
    """The messages of `ask` with what memory knows of them.

    `BudgetError` is raised, with `trim` only, when what must be sent does not
    fit into a window whose size is known; nothing else is.
    """
    steps = Steps(runtime.warn)
    scale = measure(runtime, ask)
    nothing: tuple[str, ...] = ()
    steps.note(*steps.run("readiness", runtime.readiness, nothing))
    ask = steps.run("messages", lambda: _without_old_blocks(ask), ask)
    queries = steps.run("query", lambda: read_queries(ask.messages), nothing)
    if scale.open and runtime.first_assumed(scale.tokenizer):
        steps.note(window_not_known(scale.tokenizer))
    found = _search(runtime, ask, queries, steps)
    choice = _choose(runtime, ask, found, scale, steps)
    found = _tell_once(found, choice.chosen)
    filled = _fill_and_render(ask, found, choice, scale, steps)
    at, snapshot_id = runtime.now(), runtime.new_id()
    message_id = ask.message_id or runtime.new_id()
    offered = len(choice.chosen.candidates)
    plan = Lazy(
        lambda: pack_request(ask, filled.built.value, scale, steps, offered=offered, now=at)
    )
    messages = _inject(ask, filled, plan, steps)
    trace = partial(
        trace_of, ask, found, choice, filled, planned=plan, scale=scale, steps=steps,
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
        steps=steps,
        counted=filled.built,
        planned=plan,
        traced=Lazy(trace),
    )


def _search(runtime: Runtime, ask: Ask, queries: tuple[str, ...], steps: Steps) -> Recollection:
    secret = steps.run("secret", runtime.secret, None)
    profile: tuple[Memory, ...] = steps.run("preferences", lambda: runtime.profile(ask.scope), ())
    recalled = Recalled()
    if secret is not None:
        recalled = steps.run(
            "search", lambda: runtime.recall(queries, ask.scope, ask.config), recalled
        )
    steps.note(*recalled.degradations)
    told = turn_score(0.0, recalled.own_world) >= ask.config.recall.similarity_threshold
    if recalled.how in ("searched", "cached") and not told:
        profile = tuple(memory for memory in profile if TOLD not in memory.metadata)
    return Recollection(secret=secret, queries=queries, profile=profile, recalled=recalled)


def _choose(runtime: Runtime, ask: Ask, found: Recollection, scale: Scale, steps: Steps) -> Choice:
    """The best of what was found; with tiers, those decide what is offered and in what order."""
    hits, now = found.recalled.hits, runtime.now()
    factors = {hit.memory.id: usage_factor(hit.memory.usage, now=now) for hit in hits}
    chosen = steps.run(
        "choose",
        lambda: choose(
            hits,
            ask.messages,
            top_k=ask.config.recall.turn_top_k,
            threshold=ask.config.recall.similarity_threshold,
            now=now,
            factors=factors,
        ),
        Chosen(),
    )
    room = room_of(ask, scale, steps)
    choice = Choice(chosen=chosen, hits=hits, room=room, factors=factors, reasons=EMPTY)
    if ask.config.recall.assembly != "tiers" or found.secret is None:
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
    return replace(choice, chosen=offer.chosen, hits=offer.hits, reasons=offer.reasons)


def _tell_once(found: Recollection, chosen: Chosen) -> Recollection:
    """`found` without what its profile only tells and a source on offer tells in full."""
    told = {memory.id: _folded(memory.text) for memory in found.profile if TOLD in memory.metadata}
    if not told:
        return found
    sources = [_folded(one.offered.text) for one in chosen.candidates]
    twice = {id_ for id_, said in told.items() if any(said in source for source in sources)}
    profile = tuple(memory for memory in found.profile if memory.id not in twice)
    return replace(found, profile=profile)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _fill_and_render(
    ask: Ask, found: Recollection, choice: Choice, scale: Scale, steps: Steps
) -> Filled:
    """The block that has room, rendered; where all of it surely fits, it is counted later."""
    chosen, room, tokenizer = choice.chosen, choice.room, scale.tokenizer
    if room.limit_tokens <= 0 and (found.profile or chosen.candidates):
        steps.note(
            f"the messages leave no room for memory in the window of {scale.window_tokens:,} tokens"
        )
    if found.secret is None or room.limit_tokens <= 0:
        return Filled(text=None, shows_knowledge=False, built=Lazy(BuiltBlock))
    pointers = {pointer.id: pointer for pointer in (*ask.pointers, *chosen.pointers)}
    offered: dict[str, Any] = {
        "secret": found.secret,
        "limit_tokens": room.limit_tokens,
        "user_profile": [memory.text for memory in found.profile],
        "profile_tokens": min(ask.config.budget.preferences, room.limit_tokens),
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
    messages = steps.run("inject", lambda: _with_block(sent, filled.text, ask.config), None)
    return [dict(message) for message in sent] if messages is None else messages


def _with_block(
    messages: Sequence[Mapping[str, Any]], text: str | None, config: LoopConfig
) -> list[dict[str, Any]]:
    """The messages with the block where the settings want it."""
    return inject(
        messages,
        text,
        framing=config.framing,
        role=config.reference_role,
        placement=config.placement,
    )


def _without_old_blocks(ask: Ask) -> Ask:
    """`ask` with the messages that will go out: what `inject` takes away costs nothing."""
    keep_earlier = ask.config.placement == "append"
    kept = ask.messages.without_old_references(keep_earlier=keep_earlier)
    return ask if kept is ask.messages else replace(ask, messages=kept)


# ----------------------------------------------------------------------------
# What a turn reads from its caller, and what it keeps of an answer.


LEFT_OVER_WORDS = 4
LEFT_OVER_CHARACTERS = 20
WHOLE_TOKENS = 4_000
"""What goes to a model whole that has no tool to read more."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_LOOSE_ENDS = re.compile(r"\A[\s.,;:!?)\]]+")


def own_words(answer: str, shown: Collection[bytes]) -> str:
    """What of an answer is worth keeping: without what it repeats from a block, and without the
    numbers of sources, which mean nothing later. A few words that are left over are nothing.
    """
    from agentmem.prompt.cite import resolve_citations

    kept = strip(answer, known=shown) if shown else answer
    kept = resolve_citations(kept, ()).text.strip()
    if not answer.strip().startswith(kept[:LEFT_OVER_CHARACTERS]):
        kept = _LOOSE_ENDS.sub("", kept)  # the full stop of a quote that is gone
    if kept != answer.strip() and len(_WORD.findall(kept)) < LEFT_OVER_WORDS:
        return ""
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """One tool call: `kept_as` is the id of a result that was stood in for, `reads` the id of
    the result that the call reads."""

    name: str
    ok: bool
    kept_as: str = ""
    reads: str = ""


def count_calls(outcomes: Sequence[CallOutcome]) -> dict[str, int]:
    """How many calls were made, succeeded, and were corrected later; how many results were kept
    and read back. Nothing where no tool was called."""
    own = [one for one in outcomes if not one.name.startswith("memory_")]
    kept = {one.kept_as for one in own if one.kept_as}
    read = {one.reads for one in outcomes if one.ok and one.reads}
    if not own and not read:
        return {}
    return {
        "made": len(own),
        "succeeded": sum(one.ok for one in own),
        "corrected": sum(
            not one.ok and any(later.ok and later.name == one.name for later in own[at:])
            for at, one in enumerate(own)
        ),
        "kept": len(kept | read),  # also results of earlier turns that are read in this one
        "read_back": len(read),
    }


def require_named(memory: Host, scope: Scope, config: LoopConfig) -> None:
    """Refuse a turn that names no user, where the memory or the turn is to be strict."""
    if scope.user_id is None and (config.strict_scope or memory.settings.strict_scope):
        raise NamelessCaller


def session_of(scope: Scope, now: datetime) -> str:
    """What a turn belongs to: its run, or else the day."""
    return scope.run_id or now.date().isoformat()


def working_for(memory: Host, *, scope: Scope, model: str, config: LoopConfig) -> WorkingMemory:
    """The working memory of a scope, counting as `model` does."""
    from agentmem.agent.tool_results import WorkingMemory

    runtime = memory.runtime
    return WorkingMemory(
        memory,
        scope=scope,
        count=runtime.tokenizer(model)[0],
        stand_in_tokens=config.results.stand_in_tokens if config.memory_tools else WHOLE_TOKENS,
        read_limit_tokens=config.results.read_limit_tokens,
        session=session_of(scope, runtime.now()),
    )


# ----------------------------------------------------------------------------
# Around the model: `messages` go to it, `done` takes its reply, the background keeps the turn.


_log = logging.getLogger(__name__)

TASK_CHARACTERS = 2_000


class Turn:
    """The turn of one user message. Send `messages`; afterwards say `done(answer)`.

    Whatever of memory fails is named in `degradations`, and the turn goes on.
    Used as a context manager it also keeps what the user said when the model
    was never reached.
    """

    def __init__(
        self,
        memory: Host,
        messages: Sequence[Any],
        *,
        model: str = "",
        tools: Sequence[Mapping[str, Any]] | None = None,
        scope: Scope | None = None,
        config: LoopConfig | None = None,
        message_id: str = "",
        trim: bool = False,
        dry: bool = False,
        working: WorkingMemory | None = None,
        signals: Sequence[Signal] = (),
    ) -> None:
        require_config(config)
        require_text(message_id, "message_id")
        self.memory = memory = memory_of(memory)
        self.scope = scope or Scope()
        self.config = config or memory.settings.loop
        require_named(memory, self.scope, self.config)
        self.model = model
        self.dry = dry
        self.preferences: tuple[Preference, ...] = ()
        self.taken_back: tuple[Preference, ...] = ()
        self._began = time.perf_counter()
        self._finished = False
        self._working = working
        if not isinstance(messages, Conversation):
            messages = require_messages(messages)
        self._context = Context(messages=list(messages))
        self._asked: dict[str, Any] | None = None
        self._repeated = False
        self._extra: list[str] = []
        self._signals = tuple(signals)
        self._features: tuple[str, ...] = ()
        self._calls: list[Call] = []
        self._results: list[str] = []
        self.outcomes: list[CallOutcome] = []
        """What became of the tool calls of this turn, in their order."""
        try:
            if self.scope.user_id is None and not dry:
                memory.runtime.warn_of_the_nameless()
            given = read_conversation(messages)
            self._build(given, tools=tuple(tools or ()), message_id=message_id, trim=trim)
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._note("memory", error)

    def __repr__(self) -> str:
        return f"Turn({quoted(self._context.query)}, {len(self.block_text)} characters of memory)"

    # -- before the model: what to send --------------------------------------------------

    @property
    def messages(self) -> list[Any]:
        """What to send to the model: the caller's messages and the one reference."""
        return self._context.messages

    @property
    def context(self) -> Context:
        return self._context

    @property
    def injected(self) -> bool:
        return self._context.text is not None

    @property
    def block(self) -> ContextBlock | None:
        return self._context.built.block

    @property
    def block_text(self) -> str:
        return self._context.text or ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        return self._context.citations_for("")

    def citations_for(self, answer: str) -> tuple[Citation, ...]:
        """The citations, each with the sentence that this answer takes from its source."""
        return self._context.citations_for(answer)

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self._context.hits

    @property
    def budget(self) -> Budget | None:
        return self._context.budget

    @property
    def snapshot(self) -> Snapshot | None:
        return self._context.snapshot

    @property
    def snapshot_id(self) -> str:
        return self._context.snapshot_id

    @property
    def message_id(self) -> str:
        return self._context.message_id

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words; empty when everything did."""
        return [*dict.fromkeys((*self._context.degradations, *self._extra))]

    def tell_degradations(self, tell: Callable[[str], None]) -> None:
        """Tell what did not work so far, and later what the background finds out; each once."""
        told: set[str] = set()

        def once(problem: str) -> None:
            if problem not in told:
                told.add(problem)
                tell(problem)

        self._context.steps.tell_to(once)
        for problem in self._extra:
            once(problem)

    def _build(
        self,
        given: Conversation,
        *,
        tools: tuple[Mapping[str, Any], ...],
        message_id: str,
        trim: bool,
    ) -> None:
        runtime = self.memory.runtime
        at, self._asked = given.asked, given.question
        if at is None or self._asked is None:
            self._context = Context(messages=given.copies())
            return
        if self.config.learn.preferences and not self.dry:
            asked = self._asked
            self._try("query", lambda: runtime.expect_question(asked, self.config))
            whose = {"user_id": self.scope.user_id, "project_id": self.scope.project_id}
            heard = self._try("preferences", lambda: runtime.preferences.listen([asked], **whose))
            if heard is not None:
                self.preferences, self.taken_back = heard.kept, heard.taken_back
        wanted = self.config.budget.working
        ask = Ask(
            messages=given,
            scope=self.scope,
            config=self.config,
            model=self.model,
            tools=tools,
            pointers=self._try("working memory", self._pointers) or () if wanted else (),
            trim=trim,
            message_id=message_id,
            heard=frozenset(preference.id for preference in self.preferences),
            signals=self._read_signals(runtime),
        )
        key = (self.scope, self.config, self.model, at, given.prefix_hash())
        known = runtime.blocks.get(key) if at + 1 < len(given) else None
        if known is not None and known[0][: at + 1] == given[: at + 1]:
            # A later step of a turn: the same block again, byte for byte.
            self._repeated = True
            kept = known[1]
            messages = _with_block(given, kept.text, self.config)
            self._context = replace(kept, messages=messages)
            return
        self._context = build_context(runtime, ask)
        if self.dry:
            return
        runtime.blocks.put(key, (given, self._context))
        context = self._context
        if self.injected:
            runtime.remember_shown(self.scope, context)
        size = sum(len(hit.memory.text) for hit in context.hits) + len(self.block_text)
        late = Lazy(lambda: context.snapshot, characters=size)
        self._try("trace", lambda: runtime.trace.record_late(context.snapshot_id, late, self.scope))
        if contexts_log.isEnabledFor(logging.INFO) and self.snapshot is not None:
            log_context(self.snapshot)

    def _read_signals(self, runtime: Runtime) -> tuple[Signal, ...]:
        """What is going on; learned from only where somebody says so or the tiers need it."""
        noted = self._try("signals", lambda: runtime.noted_signals(self.scope)) or ()
        signals = tuple(dict.fromkeys((*self._signals, *noted)))
        if (signals or self.config.recall.assembly == "tiers") and self._asked is not None:
            from agentmem.living.predict import Signal

            task = Signal(kind="task", value=strip(text_of(self._asked))[:TASK_CHARACTERS])
            self._features = self._try(
                "signals", lambda: runtime.predictions.features((*signals, task), self.scope)
            ) or ()  # fmt: skip
        return signals

    def _pointers(self) -> tuple[Pointer, ...]:
        if self._working is None:  # most turns have no results to point at, and need not open it
            runtime = self.memory.runtime
            if not runtime.has_results(self.scope, session_of(self.scope, runtime.now())):
                return ()
        return self.working.pointers()

    # -- tools -------------------------------------------------------------------------

    @property
    def working(self) -> WorkingMemory:
        """The tool results of this scope, by id."""
        if self._working is None:
            self._working = working_for(
                self.memory, scope=self.scope, model=self.model, config=self.config
            )
        return self._working

    def tool_result(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        output: Any,
        *,
        error: str = "",
        call_id: str = "",
    ) -> str:
        """What to tell the model in place of a tool's output: the output itself if it is small.

        A large one is kept whole and stood in for by a few lines with its id.
        """
        kept = self._try(
            "working memory",
            lambda: self.working.keep(name, dict(arguments or {}), output, error=error),
        )
        kept_as = "" if kept is None or kept.whole else kept.id
        self.outcomes.append(CallOutcome(name=name, ok=not error, kept_as=kept_as))
        if not error:
            self.note_call(name, arguments or {}, result_id="" if kept is None else kept.id)
        if kept is not None:
            return str(kept.content)
        return error or (output if isinstance(output, str) else repr(output))

    def note_call(self, name: str, arguments: Mapping[str, Any], *, result_id: str = "") -> None:
        """Say that a tool call worked; with `learn.workflows` it is a step of what is learned.

        What is learned of it is erased with the result `result_id`.
        """
        if self.config.learn.workflows:
            from agentmem.living.workflows import read_call

            self._try("workflows", lambda: self._calls.append(read_call(name, arguments)))
            self._results += [result_id] if result_id else []

    # -- the reply, and what the background does with it ---------------------------------

    def done(
        self,
        answer: str | None = "",
        *,
        usage: Mapping[str, Any] | None = None,
        prompt_tokens: int | None = None,
        duration_ms: float | None = None,
        error: str = "",
        keep_answer: bool = True,
    ) -> None:
        """Keep the turn: what was said, what it cost, what was cited. Once; again is harmless.

        A model that only calls tools says nothing: None. `prompt_tokens` are
        those of the first call when `usage` is of several. With
        `keep_answer=False` the answer is traced and not remembered.
        """
        if self._finished or self.dry:
            return
        self._finished = True
        answer = "" if answer is None else sound(str(answer))
        spent = 1000 * (time.perf_counter() - self._began) if duration_ms is None else duration_ms
        counts = read_usage(usage)
        outcome = Outcome(
            answer=answer,
            prompt_tokens=counts.get("prompt"),
            completion_tokens=counts.get("completion"),
            total_tokens=counts.get("total"),
            duration_ms=round(spent, 3),
            usage=plain(usage or {}),
            error=error,
            calls=count_calls(self.outcomes),
        )
        self._try("trace", lambda: self._complete(outcome))
        self._try("token counts", lambda: self._observe(prompt_tokens or counts.get("prompt")))
        if self.config.learn.auto_index:
            self._try("indexing", lambda: self._index(answer if keep_answer else ""))
        self._try("usage", lambda: self._count_use(answer))
        if self.config.learn.nightly:
            self._try("schedule", self.memory.runtime.nightly.start)
        if self._calls and not error and answer and self._asked is not None:
            goal = text_of(self._asked)
            self._try(
                "workflows",
                lambda: self.memory.runtime.workflows.remember(
                    goal, self._calls, self.scope, results=self._results
                ),
            )
        if self._working is not None or self.config.budget.working:
            self._try("eviction", lambda: self.memory.runtime.tidy_results(self.scope, self.config))

    def refused(self, error: BaseException) -> bool:
        """Learn from what the model raised; whether it was a request that is too long for it.

        The next turn of this model is built for what it takes.
        """
        from agentmem.models.call import trouble_of

        if trouble_of(error) != "too long":
            return False
        if self.model:
            runtime, sent = self.memory.runtime, self._context
            self._try(
                "token counts",
                lambda: runtime.refused(self.model, estimated=sent.estimated_tokens, error=error),
            )
        return True

    def _complete(self, outcome: Outcome) -> None:
        if self.snapshot_id:
            self.memory.runtime.trace.complete(self.snapshot_id, outcome, scope=self.scope)

    def _observe(self, prompt_tokens: int | None) -> None:
        if prompt_tokens and self.model and not self._repeated:
            context = self._context
            estimated = Lazy(lambda: context.estimated_tokens, characters=0)
            self.memory.runtime.observe(self.model, estimated=estimated, actual=prompt_tokens)

    def _index(self, answer: str) -> None:
        runtime = self.memory.runtime
        now = runtime.now().isoformat()
        said: list[dict[str, Any]] = []
        if self._asked is not None:
            said.append({"role": "user", "content": text_of(self._asked), "created_at": now})

        def tell() -> list[dict[str, Any]]:
            # What users say is theirs even when a block said it too; an answer's quotes are not.
            own = {
                "role": "assistant",
                "content": own_words(answer, runtime.shown_to(self.scope)),
                "created_at": now,
            }
            return [one for one in (*said, own) if any(map(str.isalnum, one["content"]))]

        texts = [*(message["content"] for message in said), answer]
        listened = self.config.learn.preferences
        if any(any(map(str.isalnum, text)) for text in texts):
            runtime.indexer.enqueue_messages(
                Lazy(tell, characters=sum(map(len, texts))),
                session=session_of(self.scope, runtime.now()),
                scope=self.scope,
                trace=self.snapshot_id,
                heard=[one.id for one in self.preferences] if listened else None,
            )
        if self.config.learn.facts and said:
            payload: dict[str, Any] = {"messages": said}
            if self.config.learn.model:
                payload["model"] = self.config.learn.model
                payload |= {"calls": self.config.learn.calls, "tokens": self.config.learn.tokens}
            runtime.worker.submit("learn", payload, scope=self.scope)

    def _count_use(self, answer: str) -> None:
        """Tell the store which of the shown memories the answer used (found, cited, ignored)."""
        from agentmem.living.usage import Shown, find_used

        context = self._context
        if not (answer and context.shows_knowledge) or self._repeated:
            return
        asked = text_of(self._asked) if self._asked is not None else ""

        def look() -> list[Shown]:
            found = {hit.memory.id: hit.memory for hit in context.hits}
            return [
                Shown(id=id_, number=number, text=served_text(found[id_]))
                for number, id_ in enumerate(context.built.knowledge.ids, start=1)
                if id_ in found
            ]

        shown = Lazy(look, characters=0)
        read = Lazy(lambda: find_used(answer, shown.value, question=asked), characters=0)

        def ids(*, cited: bool) -> Lazy[list[str]]:
            return Lazy(
                lambda: [one.id for one in shown.value if (one.id in read.value) is cited],
                characters=len(answer),
            )

        payload = {"cited": ids(cited=True), "ignored": ids(cited=False)}
        self.memory.runtime.worker.submit("usage", payload, scope=self.scope)
        if self._features:
            self.memory.runtime.predictions.remember(
                self._features, payload["cited"].value, self.scope
            )

    # -- inside ------------------------------------------------------------------------

    def _try(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._note(name, error)
            return None

    def _note(self, name: str, error: Exception) -> None:
        problem = f"{name} failed: {type(error).__name__}: {error}"
        self._extra.append(problem)
        try:
            self.memory.runtime.warn(problem)
        except Exception:  # noqa: BLE001 - a memory this broken is warned of all the same
            _log.warning("memory degraded: %s", problem)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.done(error="" if error is None else f"{type(error).__name__}: {error}")
