"""One turn of any loop: what to send before the model is asked, what to keep afterwards.

query → search → choose → fill → render → inject    `build_context`, while the caller waits
model → reply                                       the caller's, between `messages` and `done`
plan, trace, usage, indexing                        the background's, made of what waits as `Lazy`
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from agentmem.agent.context import Ask, Context, build_context
from agentmem.agent.trace import contexts_log, log_context
from agentmem.base.checks import require_messages, require_text
from agentmem.base.config import LoopConfig, require_config
from agentmem.base.errors import BudgetError
from agentmem.base.lazy import Lazy
from agentmem.base.types import Hit, Scope, served_text
from agentmem.living.preferences import Preference
from agentmem.prompt.block import ContextBlock, Pointer
from agentmem.prompt.budget import Budget
from agentmem.prompt.cite import Citation
from agentmem.prompt.inject import inject
from agentmem.prompt.messages import Conversation, read_conversation
from agentmem.prompt.snapshot import Outcome, Snapshot
from agentmem.prompt.strip import strip
from agentmem.text.decode import sound
from agentmem.text.messages import plain, read_usage, text_of

if TYPE_CHECKING:
    from agentmem.agent.runtime import Runtime
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.living.predict import Signal
    from agentmem.living.workflows import Call
    from agentmem.memory.manager import MemoryManager


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


def session_of(scope: Scope, now: datetime) -> str:
    """What a turn belongs to: its run, or else the day."""
    return scope.run_id or now.date().isoformat()


def working_for(
    memory: MemoryManager, *, scope: Scope, model: str, config: LoopConfig
) -> WorkingMemory:
    """The working memory of a scope, counting as `model` does."""
    from agentmem.agent.tool_results import WorkingMemory

    runtime = memory.runtime
    return WorkingMemory(
        memory,
        scope=scope,
        count=runtime.tokenizer(model)[0],
        stand_in_tokens=config.stand_in_tokens if config.memory_tools else WHOLE_TOKENS,
        read_limit_tokens=config.read_limit_tokens,
        session=session_of(scope, runtime.now()),
    )


def again(kept: Context, given: Conversation, config: LoopConfig) -> Context:
    """The context of a later step: `given` with the block that the turn has already."""
    messages = inject(
        given,
        kept.text,
        framing=config.framing,
        role=config.reference_role,
        placement=config.placement,
    )
    return replace(kept, messages=messages)


_log = logging.getLogger(__name__)

TASK_CHARACTERS = 2_000


@lru_cache(maxsize=1)
def _usual_config() -> LoopConfig:
    return LoopConfig()


class Turn:
    """The turn of one user message. Send `messages`; afterwards say `done(answer)`.

    Whatever of memory fails is named in `degradations`, and the turn goes on.
    Used as a context manager it also keeps what the user said when the model
    was never reached.
    """

    def __init__(
        self,
        memory: MemoryManager,
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
        self.memory = memory
        self.scope = scope or Scope()
        self.config = config or _usual_config()
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
        try:
            given = read_conversation(messages)
            self._build(given, tools=tuple(tools or ()), message_id=message_id, trim=trim)
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._note("memory", error)

    # -- what to send -----------------------------------------------------------------

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
        return self._context.citations

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

        self._context.tell_degradations(once)
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
        if self.config.detect_preferences and not self.dry:
            self._learn(runtime)
        ask = Ask(
            messages=given,
            scope=self.scope,
            config=self.config,
            model=self.model,
            tools=tools,
            pointers=self._pointers(),
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
            self._context = again(known[1], given, self.config)
            return
        self._context = build_context(runtime, ask)
        if self.dry:
            return
        runtime.blocks.put(key, (given, self._context))
        context = self._context
        if self.injected:
            runtime.remember_shown(self.scope, context)
        if context.accounts is not None:
            size = sum(len(hit.memory.text) for hit in context.hits) + len(self.block_text)
            late = Lazy(lambda: context.snapshot, characters=size)
            self._try(
                "trace", lambda: runtime.trace.record_late(context.snapshot_id, late, self.scope)
            )
            if contexts_log.isEnabledFor(logging.INFO) and self.snapshot is not None:
                log_context(self.snapshot)

    def _read_signals(self, runtime: Runtime) -> tuple[Signal, ...]:
        """What is going on; learned from only where somebody says so or the tiers need it."""
        noted = self._try("signals", lambda: runtime.noted_signals(self.scope)) or ()
        signals = tuple(dict.fromkeys((*self._signals, *noted)))
        if (signals or self.config.assembly == "tiers") and self._asked is not None:
            from agentmem.living.predict import Signal

            task = Signal(kind="task", value=strip(text_of(self._asked))[:TASK_CHARACTERS])
            self._features = self._try(
                "signals", lambda: runtime.predictions.features((*signals, task), self.scope)
            ) or ()  # fmt: skip
        return signals

    def _learn(self, runtime: Runtime) -> None:
        asked = self._asked
        if asked is not None:
            heard = self._try(
                "preferences",
                lambda: runtime.preferences.listen([asked], user_id=self.scope.user_id),
            )
            if heard is not None:
                self.preferences, self.taken_back = heard.kept, heard.taken_back

    def _pointers(self) -> tuple[Pointer, ...]:
        if not self.config.working_budget:
            return ()
        return self._try("working memory", self._read_pointers) or ()

    def _read_pointers(self) -> tuple[Pointer, ...]:
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
        if not error:
            self.note_call(name, arguments or {}, result_id="" if kept is None else kept.id)
        if kept is not None:
            return str(kept.content)
        return error or (output if isinstance(output, str) else repr(output))

    def note_call(self, name: str, arguments: Mapping[str, Any], *, result_id: str = "") -> None:
        """Say that a tool call worked; with `learn_workflows` it is a step of what is learned.

        What is learned of it is erased with the result `result_id`.
        """
        if self.config.learn_workflows:
            from agentmem.living.workflows import read_call

            self._try("workflows", lambda: self._calls.append(read_call(name, arguments)))
            self._results += [result_id] if result_id else []

    # -- afterwards --------------------------------------------------------------------

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
        )
        self._try("trace", lambda: self._complete(outcome))
        self._try("token counts", lambda: self._observe(prompt_tokens or counts.get("prompt")))
        if self.config.enable_auto_index:
            self._try("indexing", lambda: self._index(answer if keep_answer else ""))
        self._try("usage", lambda: self._count_use(answer))
        if self.config.consolidate_nightly:
            self._try("schedule", self.memory.runtime.nightly.start)
        if self._calls and not error and answer and self._asked is not None:
            goal = text_of(self._asked)
            self._try(
                "workflows",
                lambda: self.memory.runtime.workflows.remember(
                    goal, self._calls, self.scope, results=self._results
                ),
            )
        if self._working is not None or self.config.working_budget:
            self._try("eviction", lambda: self.memory.runtime.tidy_results(self.scope, self.config))

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
        listened = self.config.detect_preferences
        if any(any(map(str.isalnum, text)) for text in texts):
            runtime.indexer.enqueue_messages(
                Lazy(tell, characters=sum(map(len, texts))),
                session=session_of(self.scope, runtime.now()),
                scope=self.scope,
                trace=self.snapshot_id,
                heard=[one.id for one in self.preferences] if listened else None,
            )
        if self.config.learn_facts and said:
            payload: dict[str, Any] = {"messages": said}
            if self.config.learn_model:
                payload["model"] = self.config.learn_model
                payload |= {"calls": self.config.learn_calls, "tokens": self.config.learn_tokens}
            runtime.worker.submit("learn", payload, scope=self.scope)

    def _count_use(self, answer: str) -> None:
        """Tell the store which of the shown memories the answer used (found, cited, ignored)."""
        from agentmem.living.usage import Shown, find_used

        context = self._context
        if not (answer and context.shows_knowledge) or self._repeated:
            return
        asked = text_of(self._asked) if self._asked is not None else ""

        def look() -> list[Shown]:
            texts = {hit.memory.id: served_text(hit.memory) for hit in context.hits}
            return [
                Shown(id=c.memory_id, number=c.index, text=texts.get(c.memory_id, c.quote))
                for c in context.citations
                if c.memory_id
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
