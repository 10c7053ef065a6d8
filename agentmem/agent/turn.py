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
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from agentmem.agent.context import (
    Context,
    Recalled,
    Steps,
    measure,
    pack_request,
    room_of,
    trace_of,
    window_not_known,
)
from agentmem.agent.trace import contexts_log, fields_or_none, log_context
from agentmem.base.checks import require_messages, require_text
from agentmem.base.config import LoopConfig, require_config
from agentmem.base.errors import BudgetError, NamelessCaller
from agentmem.base.lazy import Lazy
from agentmem.base.types import Hit, Memory, Scope, quoted, served_text
from agentmem.living.preferences import TOLD, Preference
from agentmem.living.usage import usage_factor
from agentmem.prompt.block import ContextBlock, Pointer
from agentmem.prompt.budget import Budget, ContextPlan
from agentmem.prompt.build import BuiltBlock, Chosen, Room, build_block, choose, write_whole
from agentmem.prompt.cite import Citation
from agentmem.prompt.messages import Conversation, inject, read_conversation
from agentmem.prompt.query import read_queries
from agentmem.prompt.snapshot import Outcome, Snapshot
from agentmem.prompt.strip import strip
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


def build_context(runtime: Runtime, context: Context) -> Context:
    """`context` with the messages to send: what it was given, and what memory knows of it.

    `BudgetError` is raised, with `trim` only, when what must be sent does not
    fit into a window whose size is known; nothing else is.
    """
    steps = context.steps = Steps(runtime.warn)
    keep_earlier = context.config.placement == "append"
    context.given = steps.run(  # what `inject` takes away costs nothing
        "messages",
        lambda: context.given.without_old_references(keep_earlier=keep_earlier),
        context.given,
    )
    measure(runtime, context)
    context.at, context.snapshot_id = runtime.now(), runtime.new_id()
    context.message_id = context.message_id or runtime.new_id()
    nothing: tuple[str, ...] = ()
    steps.note(*steps.run("readiness", runtime.readiness, nothing))
    if context.open and runtime.first_time(context.tokenizer.model):
        steps.note(window_not_known(context.tokenizer))
    queries = steps.run("query", lambda: read_queries(context.given), nothing)
    _search(runtime, context, queries)
    _choose(runtime, context)
    _fill_and_render(context)
    context.planned = Lazy(lambda: _plan(context))
    context.traced = Lazy(
        lambda: steps.run("trace", lambda: trace_of(context, context.planned.value), None)
    )
    plan = context.planned.value if context.trim else None
    sent: Sequence[Mapping[str, Any]] = context.given if plan is None else plan.messages
    messages = steps.run("inject", lambda: _with_block(sent, context.text, context.config), None)
    context.messages = [dict(message) for message in sent] if messages is None else messages
    return context


def _search(runtime: Runtime, context: Context, queries: tuple[str, ...]) -> None:
    steps = context.steps
    context.query = queries[0] if queries else ""
    context.secret = steps.run("secret", runtime.secret, None)
    context.profile = steps.run("preferences", lambda: runtime.profile(context.scope), ())
    if context.secret is not None:
        context.recalled = steps.run(
            "search",
            lambda: runtime.recaller.recall(queries, context.scope, context.config),
            Recalled(),
        )
    recalled = context.recalled
    context.hits = recalled.hits
    steps.note(*recalled.degradations)
    told = turn_score(0.0, recalled.own_world) >= context.config.recall.similarity_threshold
    if recalled.how in ("searched", "cached") and not told:
        context.profile = tuple(one for one in context.profile if TOLD not in one.metadata)


def _choose(runtime: Runtime, context: Context) -> None:
    """The best of what was found; with tiers, those decide what is offered and in what order."""
    steps, hits = context.steps, context.hits
    factors = {hit.memory.id: usage_factor(hit.memory.usage, now=context.at) for hit in hits}
    context.factors = factors
    context.chosen = steps.run(
        "choose",
        lambda: choose(
            hits,
            context.given,
            top_k=context.config.recall.turn_top_k,
            threshold=context.config.recall.similarity_threshold,
            now=context.at,
            factors=factors,
        ),
        Chosen(),
    )
    context.room = steps.run("budget", lambda: room_of(context), Room())
    if context.config.recall.assembly == "tiers" and context.secret is not None:
        offer = steps.run(
            "tiers",
            lambda: runtime.tiers.offer(
                context.scope,
                budget_tokens=context.room.knowledge_tokens,
                signals=context.signals,
                task=context.query,
                chosen=context.chosen,
                hits=hits,
                profile=context.profile,
                config=context.config,
                count=context.tokenizer,
            ),
            None,
        )
        if offer is not None:
            steps.note(*offer.degradations)
            context.chosen, context.hits, context.reasons = offer.chosen, offer.hits, offer.reasons
    context.profile = _told_once(context.profile, context.chosen)


def _told_once(profile: tuple[Memory, ...], chosen: Chosen) -> tuple[Memory, ...]:
    """`profile` without what it only tells and a source on offer tells in full."""
    if not any(TOLD in memory.metadata for memory in profile):
        return profile
    sources = [_folded(one.offered.text) for one in chosen.candidates]

    def is_told(memory: Memory) -> bool:
        said = _folded(memory.text)
        return TOLD in memory.metadata and any(said in source for source in sources)

    return tuple(memory for memory in profile if not is_told(memory))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _fill_and_render(context: Context) -> None:
    """The block that has room, rendered; where all of it surely fits, it is counted later."""
    steps, chosen, room = context.steps, context.chosen, context.room
    tokenizer, window = context.tokenizer, context.window_tokens
    if room.limit_tokens <= 0 and (context.profile or chosen.candidates):
        steps.note(f"the messages leave no room for memory in the window of {window:,} tokens")
    if context.secret is None or room.limit_tokens <= 0:
        return
    pointers = {pointer.id: pointer for pointer in (*context.pointers, *chosen.pointers)}
    offered: dict[str, Any] = {
        "secret": context.secret,
        "limit_tokens": room.limit_tokens,
        "user_profile": [memory.text for memory in context.profile],
        "profile_tokens": min(context.config.budget.preferences, room.limit_tokens),
        "candidates": chosen.candidates,
        "knowledge_tokens": room.knowledge_tokens,
        "total_found": chosen.related,
        "working_memory": tuple(pointers.values()),
        "framing": context.config.framing,
        "role": context.config.reference_role,
    }

    def count_messages(messages: Sequence[Mapping[str, Any]]) -> int:
        return sum(tokenizer.count_message(message) for message in messages)

    counted = partial(build_block, count=tokenizer, count_messages=count_messages, **offered)
    if not context.trim:  # where the plan is needed anyway, everything has to be counted
        whole = partial(write_whole, at_most=tokenizer.at_most, **offered)
        text = context.text = steps.run("block", whole, None)
        if text is not None:
            context.shows_knowledge = bool(chosen.candidates)
            context.counted = Lazy(lambda: steps.run("count", counted, BuiltBlock(text=text)))
            return
    built = steps.run("block", counted, BuiltBlock())
    context.text, context.shows_knowledge = built.text, bool(built.knowledge.shown)
    context.counted = Lazy(lambda: built)


def _plan(context: Context) -> ContextPlan | None:
    """The whole request; nothing that is sent waits for a plan that trims nothing."""
    if context.given.asked is None:
        return None
    name = "pack" if context.trim else "plan"
    return context.steps.run(name, lambda: pack_request(context), None, raises=BudgetError)


def _with_block(
    messages: Sequence[Mapping[str, Any]], text: str | None, config: LoopConfig
) -> list[dict[str, Any]]:
    """The messages with the block where the settings want it."""
    role, placement = config.reference_role, config.placement
    return inject(messages, text, framing=config.framing, role=role, placement=placement)


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
T = TypeVar("T")


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
        self.outcomes: list[CallOutcome] = []
        """What became of the tool calls of this turn, in their order."""
        self._began = time.perf_counter()
        self._finished = False
        self._working = working
        if not isinstance(messages, Conversation):
            messages = require_messages(messages)
        self.context = Context(scope=self.scope, config=self.config, messages=list(messages))
        self._steps = Steps(partial(warn, memory))
        self._asked: dict[str, Any] | None = None
        self._repeated = False
        self._features: tuple[str, ...] = ()
        self._calls: list[Call] = []
        self._results: list[str] = []
        try:
            if self.scope.user_id is None and not dry:
                memory.runtime.warn_of_the_nameless()
            given = read_conversation(messages)
            self._asked = given.question
            if given.asked is None:
                self.context.messages = given.copies()
            else:
                asked = Context(
                    given=given,
                    heard=self._listen(),
                    scope=self.scope,
                    config=self.config,
                    model=model,
                    tools=tuple(tools or ()),
                    pointers=self._try("working memory", self._pointers) or (),
                    trim=trim,
                    message_id=message_id,
                    signals=self._read_signals(signals),
                )
                self._build(asked, given.asked)
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._steps.note(f"memory failed: {type(error).__name__}: {error}")

    def __repr__(self) -> str:
        return f"Turn({quoted(self.context.query)}, {len(self.block_text)} characters of memory)"

    # -- before the model: what to send --------------------------------------------------

    @property
    def messages(self) -> list[Any]:
        """What to send to the model: the caller's messages and the one reference."""
        return self.context.messages

    @property
    def injected(self) -> bool:
        return self.context.text is not None

    @property
    def block(self) -> ContextBlock | None:
        return self.context.built.block

    @property
    def block_text(self) -> str:
        return self.context.text or ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        return self.context.citations_for("")

    def citations_for(self, answer: str) -> tuple[Citation, ...]:
        """The citations, each with the sentence that this answer takes from its source."""
        return self.context.citations_for(answer)

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self.context.hits

    @property
    def budget(self) -> Budget | None:
        return self.context.budget

    @property
    def snapshot(self) -> Snapshot | None:
        return self.context.snapshot

    @property
    def snapshot_id(self) -> str:
        return self.context.snapshot_id

    @property
    def message_id(self) -> str:
        return self.context.message_id

    @property
    def degradations(self) -> list[str]:
        """What did not work, in words; empty when everything did."""
        return [*dict.fromkeys((*self.context.degradations, *self._steps.degradations))]

    def tell_degradations(self, tell: Callable[[str], None]) -> None:
        """Tell what did not work so far, and later what the background finds out; each once."""
        told: set[str] = set()

        def once(problem: str) -> None:
            if problem not in told:
                told.add(problem)
                tell(problem)

        self.context.steps.tell_to(once)
        self._steps.tell_to(once)

    def _listen(self) -> frozenset[str]:
        """Hear what the user says of themselves, while the vector of their question is made."""
        runtime, asked = self.memory.runtime, self._asked
        if asked is not None and self.config.learn.preferences and not self.dry:
            self._try("query", runtime.expect_question, asked, self.config)
            whose = {"user_id": self.scope.user_id, "project_id": self.scope.project_id}
            heard = self._try("preferences", runtime.preferences.listen, [asked], **whose)
            if heard is not None:
                self.preferences, self.taken_back = heard.kept, heard.taken_back
        return frozenset(preference.id for preference in self.preferences)

    def _build(self, context: Context, at: int) -> None:
        runtime, given = self.memory.runtime, context.given
        key = (self.scope, self.config, self.model, at, given.prefix_hash())
        known = runtime.blocks.get(key) if at + 1 < len(given) else None
        if known is not None and known[0][: at + 1] == given[: at + 1]:
            # A later step of a turn: the same block again, byte for byte.
            self._repeated = True
            self.context = copy(known[1])
            self.context.messages = _with_block(given, self.context.text, self.config)
            return
        self.context = build_context(runtime, context)
        if self.dry:
            return
        runtime.blocks.put(key, (given, context))
        if self.injected:
            runtime.remember_shown(self.scope, context)
        size = sum(len(hit.memory.text) for hit in context.hits) + len(self.block_text)
        late = Lazy(lambda: context.snapshot, characters=size, write=fields_or_none)
        self._try("trace", lambda: runtime.trace.record_late(context.snapshot_id, late, self.scope))
        if contexts_log.isEnabledFor(logging.INFO) and self.snapshot is not None:
            log_context(self.snapshot)

    def _read_signals(self, said: Sequence[Signal]) -> tuple[Signal, ...]:
        """What is going on; learned from only where somebody says so or the tiers need it."""
        runtime = self.memory.runtime
        noted = self._try("signals", runtime.noted_signals, self.scope) or ()
        signals = tuple(dict.fromkeys((*said, *noted)))
        if (signals or self.config.recall.assembly == "tiers") and self._asked is not None:
            from agentmem.living.predict import Signal

            task = Signal(kind="task", value=strip(text_of(self._asked))[:TASK_CHARACTERS])
            features = self._try(
                "signals", lambda: runtime.predictions.features((*signals, task), self.scope)
            )
            self._features = features or ()
        return signals

    def _pointers(self) -> tuple[Pointer, ...]:
        runtime = self.memory.runtime
        session = session_of(self.scope, runtime.now())
        if not self.config.budget.working or (
            self._working is None and not runtime.has_results(self.scope, session)
        ):  # most turns have no results to point at, and need not open it
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
        asked = "" if self._asked is None else text_of(self._asked)
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
        if self.snapshot_id:
            self._try("trace", self._trace, outcome)
        self._try("token counts", self._observe, prompt_tokens or counts.get("prompt"))
        if self.config.learn.auto_index:
            self._try("indexing", self._index, asked, answer if keep_answer else "")
        self._try("usage", self._count_use, asked, answer)
        if self.config.learn.nightly:
            self._try("schedule", self.memory.runtime.nightly.start)
        if self._calls and not error and answer:
            self._try("workflows", self._learn_workflow, asked)
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
            runtime, sent = self.memory.runtime, self.context
            self._try(
                "token counts",
                lambda: runtime.refused(self.model, estimated=sent.estimated_tokens, error=error),
            )
        return True

    def _trace(self, outcome: Outcome) -> None:
        self.memory.runtime.trace.complete(self.snapshot_id, outcome, scope=self.scope)

    def _observe(self, prompt_tokens: int | None) -> None:
        if prompt_tokens and self.model and not self._repeated:
            context = self.context
            estimated = Lazy(lambda: context.estimated_tokens)
            self.memory.runtime.observe(self.model, estimated=estimated, actual=prompt_tokens)

    def _index(self, asked: str, answer: str) -> None:
        runtime, learn = self.memory.runtime, self.config.learn
        now = runtime.now()
        said = [{"role": "user", "content": asked, "created_at": now.isoformat()}]

        def tell() -> list[dict[str, Any]]:
            # What users say is theirs even when a block said it too; an answer's quotes are not.
            own = own_words(answer, runtime.shown_to(self.scope))
            reply = {"role": "assistant", "content": own, "created_at": now.isoformat()}
            return [one for one in (*said, reply) if any(map(str.isalnum, one["content"]))]

        if any(map(str.isalnum, asked + answer)):
            runtime.indexer.enqueue_messages(
                Lazy(tell, characters=len(asked) + len(answer)),
                session=session_of(self.scope, now),
                scope=self.scope,
                trace=self.snapshot_id,
                heard=[one.id for one in self.preferences] if learn.preferences else None,
            )
        if learn.facts and self._asked is not None:
            payload: dict[str, Any] = {"messages": said}
            if learn.model:
                payload |= {"model": learn.model, "calls": learn.calls, "tokens": learn.tokens}
            runtime.worker.submit("learn", payload, scope=self.scope)

    def _count_use(self, asked: str, answer: str) -> None:
        """Tell the store which of the shown memories the answer used (found, cited, ignored)."""
        from agentmem.living.usage import Shown, find_used

        context, runtime = self.context, self.memory.runtime
        if not (answer and context.shows_knowledge) or self._repeated:
            return

        def look() -> tuple[list[str], list[str]]:
            found = {hit.memory.id: hit.memory for hit in context.hits}
            shown = [
                Shown(id=id_, number=number, text=served_text(found[id_]))
                for number, id_ in enumerate(context.built.knowledge.ids, start=1)
                if id_ in found
            ]
            used = find_used(answer, shown, question=asked)
            ids = [one.id for one in shown]
            return [id_ for id_ in ids if id_ in used], [id_ for id_ in ids if id_ not in used]

        read = Lazy(look)
        cited = Lazy(lambda: read.value[0], characters=len(answer))
        ignored = Lazy(lambda: read.value[1], characters=len(answer))
        runtime.worker.submit("usage", {"cited": cited, "ignored": ignored}, scope=self.scope)
        if self._features:
            runtime.predictions.remember(self._features, cited.value, self.scope)

    def _learn_workflow(self, goal: str) -> None:
        workflows = self.memory.runtime.workflows
        workflows.remember(goal, self._calls, self.scope, results=self._results)

    # -- inside ------------------------------------------------------------------------

    def _try(self, name: str, call: Callable[..., T], *given: Any, **named: Any) -> T | None:
        """What `call` gives; None, and a degradation, where it fails (P30)."""
        return self._steps.run(name, lambda: call(*given, **named), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.done(error="" if error is None else f"{type(error).__name__}: {error}")


def warn(memory: Host, problem: str) -> None:
    """Log what did not work, once a minute; whatever else is broken, it is logged."""
    try:
        memory.runtime.warn(problem)
    except Exception:  # noqa: BLE001 - a memory this broken is warned of all the same
        _log.warning("memory degraded: %s", problem)
