"""A whole agent loop with memory: recall, ask, run tools, answer, remember."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from agentmem.agent.reading import READ_TOOL
from agentmem.agent.runtime import DEFAULT_MODEL
from agentmem.agent.tool_runner import ToolOutcome, ToolRunner
from agentmem.agent.tools import Tool, as_tool
from agentmem.agent.turn import CallOutcome, Turn, require_named, session_of, working_for
from agentmem.base.checks import require_messages
from agentmem.base.config import EXTRACTIVE, LoopConfig, require_config
from agentmem.base.errors import (
    AgentMemWarning,
    BudgetError,
    InvalidInput,
    InvalidMessage,
    RequestTooLong,
)
from agentmem.base.threads import Stopped, awaited, in_thread, unless_stopped
from agentmem.base.types import EMPTY, Document, Message, Scope, ScopeLike, Whose, turn_of
from agentmem.living.predict import Signal, read_signals
from agentmem.living.preferences import Preference
from agentmem.models.call import (
    RETRIES,
    Model,
    as_model,
    figures_of,
    refuses_tools,
    repack_limit,
    trouble_of,
    wait_seconds,
)
from agentmem.prompt.budget import Budget, make_package, tally
from agentmem.prompt.cite import Citation, listed_sources, resolve_citations, told_apart
from agentmem.prompt.messages import Conversation, last_question
from agentmem.prompt.trim import TrimPlan, trim
from agentmem.search.intake import read_scope
from agentmem.search.parts import memory_of
from agentmem.text.clean import clean_line
from agentmem.text.messages import ModelAnswer, read_usage, text_of

if TYPE_CHECKING:
    from agentmem.agent.runtime import Host
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.search.parts import Facade
    from agentmem.tokens.counter import Tokenizer


# ----------------------------------------------------------------------------
# What a loop takes and gives: pages, statuses and the result.


Step = Literal[
    "ready", "preferences", "context", "model", "tool", "limit", "answer", "indexing", "stopped"
]
Why = Literal["answered", "limit", "stopped"]
Page = Document | Mapping[str, Any] | tuple[str, str]
"""A page that was seen: a document, `{"url": …, "title": …, "content": …}`, or (url, content)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the loop is doing now, in words for people and values for programs."""

    step: Step
    text: str
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLoopResult:
    """The answer and everything about how it came to be.

    `messages` is the conversation to go on with: what was passed in, the steps
    of this turn and the answer, without anything memory added. `sent` is what
    the model was sent last. `answer` is what the model wrote, byte for byte;
    `citations` are the sources it uses, of the web or of the memory as each
    says, `offered` all that it could have used. `dangling` are the numbers in
    it that no source has, and `cleaned` is the answer without them.
    `preferences` are what the user said of themselves, `taken_back` what they
    no longer hold to. `why` says what ended the loop.
    """

    answer: str
    messages: tuple[Message, ...]
    citations: tuple[Citation, ...] = ()
    offered: tuple[Citation, ...] = ()
    cleaned: str = ""
    dangling: tuple[int, ...] = ()
    usage: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    budget: Budget | None = None
    snapshot_id: str = ""
    message_id: str = ""
    degradations: tuple[str, ...] = ()
    tool_calls: tuple[ToolOutcome, ...] = ()
    preferences: tuple[Preference, ...] = ()
    taken_back: tuple[Preference, ...] = ()
    iterations: int = 0
    why: Why = "answered"
    sent: tuple[Message, ...] = ()
    block: str = ""


def read_page(page: Page) -> tuple[str, str, str]:
    """The url, title and content of a page in any of its forms."""
    if isinstance(page, Document):
        return page.url, page.title, page.text
    if isinstance(page, Mapping):
        content = page.get("content") or page.get("text") or page.get("html") or ""
        return str(page.get("url", "")), str(page.get("title") or ""), content
    if isinstance(page, tuple) and len(page) == 2:
        return page[0], "", page[1]
    raise InvalidInput(
        "page", page, "is no page", remedy='Pass {"url": …, "title": …, "content": …}.'
    )


# ----------------------------------------------------------------------------
# One run of the loop: the turn, the model and its tools, and what is kept of it.


_log = logging.getLogger(__name__)

BEST_ANSWER = (
    "No more tools can be used in this turn. Give your best answer now with what you have, "
    "and say what is missing."
)
STOPPED = "stopped by its signal"
NOT_ENDED = "Stopped by the user before it gave a result."


@dataclass(slots=True, kw_only=True, eq=False)
class LoopRun:
    """The state of one run."""

    memory: Host | None
    model: Model
    config: LoopConfig
    on_status: Callable[[Status], Awaitable[None] | None] | None
    on_chunk: Callable[[str], Awaitable[None] | None] | None
    signal: Any
    signals: tuple[Signal, ...] = ()
    steps: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[ToolOutcome] = field(default_factory=list)
    usage: Counter[str] = field(default_factory=Counter)
    first_prompt_tokens: int | None = None
    iterations: int = 0
    heard: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    degradations: list[str] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    own_tools: list[Tool] = field(default_factory=list)
    sources: list[Citation] = field(default_factory=list)
    """What has a number in this turn: the reference's sources, then those of the web tool."""
    working: WorkingMemory | None = None
    limit_tokens: int | None = None
    resent: Budget | None = None

    async def run(
        self, given: list[Any], tools: list[Tool], pages: tuple[Page, ...], scope: Scope
    ) -> AgentLoopResult:
        began = time.perf_counter()
        if self.memory is not None:
            require_named(self.memory, scope, self.config)
        await self._say("ready", "memory is off" if self.memory is None else "memory is ready")
        self.tools = tools
        turn: Turn | None = None
        answer, error = "", ""
        why: Why = "answered"
        try:
            with turn_of(scope, self.sources):
                turn = await self._turn(given, tools, scope)
                self.sources += turn.citations if turn is not None else ()
                answer, why = await self._answer(turn, given)
        except Stopped:
            answer, why, error = "".join(self.heard), "stopped", STOPPED
            await self._say("stopped", "stopped; what was learned is kept")
        except BaseException as raised:
            answer, error = "".join(self.heard), f"{type(raised).__name__}: {raised}"
            raise
        finally:
            self._finish(turn, answer, pages, scope, error=error, began=began)
        if self.memory is not None and self.config.learn.auto_index:
            await self._say("indexing", "the turn is kept in the background", pages=len(pages))
        await self._say("answer", f"{len(answer):,} characters", why=why)
        return self._result(turn, given, answer, why)

    # -- before ------------------------------------------------------------------------

    async def _turn(self, given: list[Any], tools: list[Tool], scope: Scope) -> Turn | None:
        memory = self.memory
        if memory is None:
            return None

        made: list[Turn] = []
        begun: list[bool] = []
        left, handing = threading.Event(), threading.Lock()

        def build() -> Turn:
            try:
                return make()
            finally:
                memory.under_way.end()

        async def building() -> Turn:
            begun.append(True)
            memory.under_way.begin()
            return await in_thread(build)

        def make() -> Turn:
            if self.model.name in memory.runtime.without_tools:
                self.config = replace(self.config, memory_tools=False)
            self.working = self._open_working(memory, scope)
            self.own_tools = tools
            self.tools = self._all_tools(tools)
            turn = Turn(
                memory,
                given,
                model=self.model.name,
                tools=[tool.definition() for tool in self.tools],
                scope=scope,
                config=self.config,
                trim=True,
                working=self.working,
                signals=self.signals,
            )
            with handing:
                made.append(turn)
                late = left.is_set()
            if late:
                turn.done(error=STOPPED)
            return turn

        try:
            turn = await unless_stopped(building(), self.signal)
        except (Stopped, asyncio.CancelledError):
            with handing:  # whoever comes second keeps what the user said
                left.set()
            for turn in made:
                turn.done(error=STOPPED)
            if not begun:
                self._keep_said(memory, given, scope)
            raise
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._degrade(f"memory failed: {type(error).__name__}: {error}")
            return None
        for preference in turn.preferences:
            await self._say("preferences", preference.text, id=preference.id, type=preference.type)
        if self.on_status is None:
            return turn  # nobody asks what it costs
        await self._say(
            "context",
            f"{len(turn.citations)} {'memory' if len(turn.citations) == 1 else 'memories'} "
            f"in {turn.context.built.tokens:,} tokens",
            snapshot_id=turn.snapshot_id,
            degradations=tuple(turn.degradations),
        )
        return turn

    def _keep_said(self, memory: Host, given: list[Any], scope: Scope) -> None:
        """Keep what the user said in a turn that was stopped before it began."""
        if not self.config.learn.auto_index:
            return
        try:
            runtime = memory.runtime
            now = runtime.now()
            said = {"role": "user", "content": text_of(given[-1]), "created_at": now.isoformat()}
            session = session_of(scope, now)
            runtime.indexer.enqueue_messages([said], session=session, scope=scope)
        except Exception as error:  # noqa: BLE001 - stopping goes on
            self._degrade(f"what was said was not kept: {type(error).__name__}: {error}")

    def _open_working(self, memory: Host, scope: Scope) -> WorkingMemory | None:
        try:
            return working_for(memory, scope=scope, model=self.model.name, config=self.config)
        except Exception as error:  # noqa: BLE001 - tools run without it
            self._degrade(f"working memory failed: {type(error).__name__}: {error}")
            return None

    def _all_tools(self, tools: list[Tool]) -> list[Tool]:
        """The caller's tools and those that read the memory; a caller's name wins."""
        if self.working is None or not self.config.memory_tools or self.model.name == EXTRACTIVE:
            return tools
        taken = {tool.name for tool in tools}
        ours = self.working.tools(save=self.config.memory_save_tool)
        return [*tools, *(tool for tool in ours if tool.name not in taken)]

    # -- the model and its tools ---------------------------------------------------------

    async def _answer(self, turn: Turn | None, given: list[Any]) -> tuple[str, Why]:
        base = list(turn.messages if turn is not None else given)
        # The first call may find out that the model takes no tools.
        reply: ModelAnswer | None = await self._first(turn, base)
        schemas = [tool.definition() for tool in self.tools]
        runner = ToolRunner(
            self.tools, self.working, timeout_seconds=self.config.tool_timeout_seconds
        )
        try:
            for _ in range(self.config.max_iterations):
                reply = reply or await self._ask(turn, base, schemas)
                if not reply.tool_calls:
                    return reply.text, "answered"
                self.steps.append(reply.message)
                self.heard = []
                await self._say(
                    "tool",
                    ", ".join(call["function"]["name"] for call in reply.tool_calls),
                    calls=reply.tool_calls,
                )
                await self._run_tools(runner, reply.tool_calls)
                reply = None
        finally:
            self.degradations += runner.degradations
        await self._say("limit", f"{self.config.max_iterations} rounds of tools are used up")
        self.steps.append({"role": "user", "content": BEST_ANSWER})
        # The tools stay in the request: some providers refuse their calls in the history without.
        reply = await self._ask(turn, base, schemas, tools_off=True)
        self.steps.pop()
        return reply.text, "limit"

    async def _first(self, turn: Turn | None, base: list[Any]) -> ModelAnswer:
        """The first reply; a model that refuses tools is asked again without those of memory."""
        schemas = [tool.definition() for tool in self.tools]
        try:
            return await self._ask(turn, base, schemas)
        except Exception as error:
            ours = len(self.tools) - len(self.own_tools)
            if self.heard or self.memory is None or not ours or not refuses_tools(error):
                raise
        self.iterations -= 1
        self.config = replace(self.config, memory_tools=False)
        self.tools = self.own_tools
        if turn is not None:
            self.working = self._open_working(self.memory, turn.scope)
        reply = await self._ask(turn, base, [tool.definition() for tool in self.tools])
        self.memory.runtime.without_tools.add(self.model.name)
        self._degrade(
            f"{self.model.name or 'the model'} takes no tools, so those of the memory are left "
            "out; LoopConfig(memory_tools=False) leaves them out from the start"
        )
        return reply

    async def _run_tools(self, runner: ToolRunner, calls: Sequence[Mapping[str, Any]]) -> None:
        """Run the calls of one reply; stopped in between, each has an answer to go on with."""
        before = len(runner.outcomes)
        try:
            outcomes = await unless_stopped(runner.run(calls), self.signal)
        except Stopped:
            ended = {outcome.call_id: outcome for outcome in runner.outcomes[before:]}
            for call in calls:
                outcome = ended.get(call["id"])
                self.steps.append(
                    {"role": "tool", "tool_call_id": call["id"], "content": NOT_ENDED}
                    if outcome is None
                    else dict(outcome.message)
                )
            self.outcomes += ended.values()
            raise
        self.outcomes += outcomes
        self.steps += [dict(outcome.message) for outcome in outcomes]

    async def _ask(
        self,
        turn: Turn | None,
        base: list[Any],
        schemas: Sequence[Mapping[str, Any]],
        *,
        tools_off: bool = False,
    ) -> ModelAnswer:
        self.iterations += 1
        self.sent = self._fit(turn, [*base, *self.steps], schemas)
        await self._say("model", f"asking {self.model.name or 'the model'}", round=self.iterations)
        try:
            reply = await self._send(schemas, tools_off=tools_off)
        except Exception as error:
            if self.heard or trouble_of(error) != "too long":
                raise
            self._pack_smaller(error, base, schemas)
            if turn is not None and self.first_prompt_tokens is None:
                # The provider's count is compared with what was sent, not with what was refused.
                turn.context.resent = self.resent
            try:
                reply = await self._send(schemas, tools_off=tools_off)
            except Exception as again:
                if trouble_of(again) != "too long":
                    raise
                raise self._too_long(again, schemas) from again
        counts = read_usage(reply.usage)
        if self.first_prompt_tokens is None:
            self.first_prompt_tokens = counts.get("prompt")
        self.usage.update({f"{name}_tokens": tokens for name, tokens in counts.items()})
        return reply

    async def _send(self, schemas: Sequence[Mapping[str, Any]], *, tools_off: bool) -> ModelAnswer:
        """The model's reply to what is packed; a rate limit is waited for a few times."""
        for attempt in range(1, RETRIES + 2):
            self.heard = []
            ask = self.model(
                self.sent,
                tools=schemas,
                tools_off=tools_off,
                on_chunk=self._hear if self.on_chunk is not None else None,
            )
            try:
                return await unless_stopped(ask, self.signal)
            except Exception as error:
                wait = wait_seconds(error, attempt)
                limited = trouble_of(error) == "rate limit"
                if not limited or self.heard or wait is None or attempt > RETRIES:
                    raise
                await self._say(
                    "model", f"the model is busy; asking again in {wait:g} s", attempt=attempt
                )
                await unless_stopped(asyncio.sleep(wait), self.signal)
        raise AssertionError  # the last attempt returns or raises

    async def _hear(self, text: str) -> None:
        self.heard.append(text)
        if self.on_chunk is not None:
            await awaited(self.on_chunk(text))

    def _fit(
        self, turn: Turn | None, messages: list[Any], schemas: Sequence[Mapping[str, Any]]
    ) -> list[Any]:
        """`messages` if they fit the window, else without the oldest of them."""
        small = self.limit_tokens is not None
        if not small and (turn is None or not self.steps or self.memory is None):
            return messages
        try:
            tokenizer = self._tokenizer()
            if not (small or tokenizer.window_known or not self.model.name):
                return messages  # nobody knows what fits until the model refuses
            limit = tokenizer.available_tokens if self.limit_tokens is None else self.limit_tokens
            limit = max(1, limit - tokenizer.count_messages([], tools=schemas))
            if sum(map(tokenizer.count_message, messages)) <= limit:
                return messages
            return list(self._trimmed(messages, limit, tokenizer).messages)
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self._degrade(f"the steps were not trimmed: {type(error).__name__}: {error}")
            return messages

    def _trimmed(self, messages: list[Any], limit: int, tokenizer: Tokenizer) -> TrimPlan:
        dicts = Conversation(messages).messages
        return trim(
            dicts,
            limit,
            count_message=tokenizer.count_message,
            now=datetime.now(UTC) if self.memory is None else self.memory.clock.now(),
            current=last_question(dicts[: len(dicts) - len(self.steps)]),
        )

    def _pack_smaller(
        self, error: Exception, base: list[Any], schemas: Sequence[Mapping[str, Any]]
    ) -> None:
        """Learn from a refusal how much the model takes, and pack that; raise if nothing can go."""
        tokenizer, figures = self._tokenizer(), figures_of(error)
        estimated = self._count(schemas)
        self.limit_tokens = repack_limit(
            figures, estimated_tokens=estimated, reserve_tokens=tokenizer.reserve.total
        )
        if self.memory is not None and self.model.name:
            with contextlib.suppress(Exception):  # only the next turn's count is poorer for it
                self.memory.runtime.refused(self.model.name, estimated=estimated, error=error)
        tool_tokens = tokenizer.count_messages([], tools=schemas)
        room = self.limit_tokens - tool_tokens
        before = len(self.sent)
        try:
            plan = self._trimmed([*base, *self.steps], max(1, room), tokenizer)
            smaller = list(plan.messages)
        except BudgetError:
            raise self._too_long(error, schemas) from error
        if len(smaller) >= before and smaller == self.sent:
            raise self._too_long(error, schemas) from error
        self.sent = smaller
        schemas_sent = make_package("tool-schema", "", id="tool-schema", tokens=tool_tokens)
        self.resent = tally(
            [*plan.report.kept, *([schemas_sent] if schemas else ())],
            window_tokens=tokenizer.available_tokens + tokenizer.reserve.total,
            reserved_tokens=tokenizer.reserve.total,
        )
        self._degrade(
            f"the model refused the request as too long; it was sent {len(smaller)} of "
            f"{before} messages"
        )

    def _too_long(self, error: Exception, schemas: Sequence[Mapping[str, Any]]) -> RequestTooLong:
        said = clean_line(str(error), limit_characters=300)
        return RequestTooLong(self.model.name, estimated_tokens=self._count(schemas), said=said)

    def _count(self, schemas: Sequence[Mapping[str, Any]]) -> int:
        return self._tokenizer().count_messages(self.sent, tools=schemas)

    def _tokenizer(self) -> Tokenizer:
        if self.memory is not None:
            window = self.config.budget.context_window
            return self.memory.runtime.tokenizer(self.model.name, window)[0]
        from agentmem.tokens.counter import tokenizer_for

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentMemWarning)
            return tokenizer_for(self.model.name or DEFAULT_MODEL)

    # -- afterwards ----------------------------------------------------------------------

    def _finish(
        self,
        turn: Turn | None,
        answer: str,
        pages: tuple[Page, ...],
        scope: Scope,
        *,
        error: str,
        began: float,
    ) -> None:
        if turn is not None:
            turn.outcomes += map(_as_outcome, self.outcomes)
            for outcome in self.outcomes:
                if outcome.ok and outcome.executed and not outcome.name.startswith("memory_"):
                    turn.note_call(outcome.name, outcome.arguments, result_id=outcome.result_id)
            turn.done(
                answer,
                usage=self.usage,
                prompt_tokens=self.first_prompt_tokens,
                duration_ms=1000 * (time.perf_counter() - began),
                error=error,
                keep_answer=self.model.name != EXTRACTIVE,  # it only quotes what is kept already
            )
        if self.memory is None or not self.config.learn.auto_index:
            return
        whose = {name: getattr(scope, name) for name in Scope.__slots__}
        for page in pages:
            try:
                url, title, content = read_page(page)
                self.memory.sources.enqueue_page(content, url, title, **whose)
            except Exception as failed:  # noqa: BLE001 - memory failing never breaks the answer
                self._degrade(f"a page was not indexed: {type(failed).__name__}: {failed}")

    def _result(
        self, turn: Turn | None, given: list[Any], answer: str, why: Why
    ) -> AgentLoopResult:
        used = turn.citations_for(answer) if turn is not None else ()
        quotes = {citation.memory_id: citation.quote for citation in used if citation.memory_id}
        offered = tuple(
            replace(citation, quote=quotes.get(citation.memory_id, citation.quote))
            for citation in self._offered(answer)
        )
        resolved = resolve_citations(answer, offered)
        last = [{"role": "assistant", "content": answer}] if answer or why != "stopped" else []
        return AgentLoopResult(
            answer=answer,
            messages=(*given, *self.steps, *last),
            citations=resolved.cited,
            offered=offered,
            cleaned=resolved.text,
            dangling=resolved.missing,
            usage=dict(self.usage),
            budget=turn.budget if turn is not None else None,
            snapshot_id=turn.snapshot_id if turn is not None else "",
            message_id=turn.message_id if turn is not None else "",
            degradations=(*(turn.degradations if turn is not None else ()), *self.degradations),
            tool_calls=tuple(self.outcomes),
            preferences=turn.preferences if turn is not None else (),
            taken_back=turn.taken_back if turn is not None else (),
            iterations=self.iterations,
            why=why,
            sent=tuple(self.sent),
            block=turn.block_text if turn is not None else "",
        )

    def _offered(self, answer: str) -> tuple[Citation, ...]:
        """Every source that has a number in this turn, those of the caller's own tools too."""
        listed: dict[int, Citation] = {}
        for outcome in self.outcomes:
            if outcome.ok and outcome.name != "memory_search":
                for citation in listed_sources(outcome.content):
                    listed.setdefault(citation.index, citation)
        return told_apart(answer, self.sources, tuple(listed.values()))

    # -- inside ----------------------------------------------------------------------------

    def _degrade(self, problem: str) -> None:
        self.degradations.append(problem)
        try:
            warn = _log.warning if self.memory is None else self.memory.runtime.warn
            warn(problem)
        except Exception:  # noqa: BLE001 - a memory this broken is warned of all the same
            _log.warning("memory degraded: %s", problem)

    async def _say(self, step: Step, text: str, **data: Any) -> None:
        if self.on_status is not None:
            await awaited(self.on_status(Status(step=step, text=text, data=data)))


def _as_outcome(outcome: ToolOutcome) -> CallOutcome:
    reads = outcome.arguments.get("id", "") if outcome.name == READ_TOOL else ""
    stands_in = outcome.result_id and outcome.result_id in outcome.content and not reads
    return CallOutcome(
        name=outcome.name,
        ok=outcome.ok,
        kept_as=outcome.result_id if stands_in and outcome.ok else "",
        reads=reads if isinstance(reads, str) else "",
    )


class LoopOptions(Whose, total=False):
    """What `run_agent_loop` may be told, for the call that passes it on."""

    tools: Sequence[Any]
    messages: Sequence[Any]
    pages: Sequence[Page]
    scope: ScopeLike | None
    config: LoopConfig | None
    signals: Sequence[Signal | tuple[str, str]]
    on_status: Callable[[Status], Awaitable[None] | None] | None
    on_chunk: Callable[[str], Awaitable[None] | None] | None
    signal: Any
    model_options: Mapping[str, Any] | None


async def run_agent_loop(
    goal: str | Sequence[Mapping[str, Any]],
    *,
    memory: Host | Facade[Host] | None,
    model: str | Callable[..., Any],
    tools: Sequence[Any] = (),
    messages: Sequence[Any] = (),
    pages: Sequence[Page] = (),
    scope: ScopeLike | None = None,
    config: LoopConfig | None = None,
    signals: Sequence[Signal | tuple[str, str]] = (),
    on_status: Callable[[Status], Awaitable[None] | None] | None = None,
    on_chunk: Callable[[str], Awaitable[None] | None] | None = None,
    signal: Any = None,
    model_options: Mapping[str, Any] | None = None,
    **whose: Unpack[Whose],
) -> AgentLoopResult:
    """Answer `goal` with the tools and what memory knows, and remember the turn.

    `goal` is what the user says now, a text or content parts; `messages` what
    was said before. `model` is a litellm name, a chat-completions callable, or
    `"extractive"`. `signals` say what is going on (a file that is open, an
    error seen). With `on_chunk` the answer streams. A set `signal` ends the
    loop at once; what was said and seen until then is kept. A failing memory
    never fails the loop: see `degradations`. What the model raises is raised.
    """
    _check(config=config, signal=signal, on_status=on_status, on_chunk=on_chunk)
    manager = memory_of(memory, or_none=True)
    embed = None if manager is None else manager.embedding.sentence_vectors
    usual = LoopConfig() if manager is None else manager.settings.loop
    loop = LoopRun(
        memory=manager,
        model=as_model(model, options=model_options, embed=embed),
        config=config or usual,
        on_status=on_status,
        on_chunk=on_chunk,
        signal=signal,
        signals=read_signals(signals),
    )
    given = [*_said_before(messages), {"role": "user", "content": _goal(goal)}]
    return await loop.run(given, _own_tools(tools), tuple(pages), read_scope(scope, whose))


def run_agent_loop_sync(
    goal: str | Sequence[Mapping[str, Any]],
    *,
    memory: Host | Facade[Host] | None,
    model: str | Callable[..., Any],
    **options: Unpack[LoopOptions],
) -> AgentLoopResult:
    """`run_agent_loop` for scripts without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_agent_loop(goal, memory=memory, model=model, **options))
    raise InvalidInput(
        "call", "run_agent_loop_sync", "is made where an event loop runs already",
        remedy="Write `await run_agent_loop(…)`.",
    )  # fmt: skip


def _own_tools(tools: Any) -> list[Tool]:
    if isinstance(tools, str | bytes | Mapping) or not isinstance(tools, Iterable):
        raise InvalidInput("tools", tools, "is no list", remedy="Pass a list of functions.")
    return [as_tool(tool) for tool in tools]


def _check(*, config: object, signal: object, **callbacks: object) -> None:
    """Refuse at once what would fail in the middle of a turn."""
    require_config(config)
    if signal is not None and not callable(getattr(signal, "is_set", None)):
        raise InvalidInput(
            "signal", signal, "cannot be asked", remedy="Pass an asyncio.Event or threading.Event."
        )
    for name, callback in callbacks.items():
        if callback is not None and not callable(callback):
            raise InvalidInput(
                name, callback, "is no function", remedy="Pass one, or leave it out."
            )


def _said_before(messages: Any) -> list[Any]:
    given = require_messages(messages)
    for at, message in enumerate(given):
        if not isinstance(message, Mapping) and not hasattr(message, "model_dump"):
            raise InvalidMessage(
                f"messages[{at}]",
                message,
                "is not a mapping",
                remedy="Pass dicts with role and content, or objects with model_dump().",
            )
    return given


def _goal(goal: Any) -> Any:
    if isinstance(goal, str) and goal.strip():
        return goal
    if isinstance(goal, Sequence) and not isinstance(goal, str | bytes) and goal:
        return list(goal)
    raise InvalidInput("goal", goal, "is empty", remedy="Say what the user wants.")
