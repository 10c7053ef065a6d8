"""A whole agent loop with memory: recall, ask, run tools, answer, remember."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, Unpack

from agentmem.agent.context import Steps
from agentmem.agent.reading import READ_TOOL
from agentmem.agent.runtime import DEFAULT_MODEL
from agentmem.agent.tool_runner import ToolOutcome, ToolRunner
from agentmem.agent.tools import Tool, as_tools
from agentmem.agent.turn import CallOutcome, Turn, require_named, warn, working_for
from agentmem.base.checks import require_messages
from agentmem.base.config import EXTRACTIVE, LoopConfig, require_config
from agentmem.base.errors import (
    AgentMemWarning,
    BudgetError,
    InvalidInput,
    InvalidMessage,
    RequestTooLong,
)
from agentmem.base.threads import Stopped, awaited, begin, unless_stopped
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
from agentmem.prompt.budget import Budget, TrimPlan, make_package, tally, trim
from agentmem.prompt.cite import Citation, listed_sources, resolve_citations, told_apart
from agentmem.prompt.messages import Conversation, last_question
from agentmem.search.intake import read_scope
from agentmem.search.parts import memory_of
from agentmem.text.clean import clean_line
from agentmem.text.messages import ModelAnswer, read_usage

if TYPE_CHECKING:
    from agentmem.agent.runtime import Host
    from agentmem.agent.tool_results import WorkingMemory
    from agentmem.search.parts import Facade
    from agentmem.tokens.counter import Tokenizer


P = ParamSpec("P")
T = TypeVar("T")

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
_OF_TURN = ("budget", "snapshot_id", "message_id", "preferences", "taken_back")


@dataclass(slots=True, kw_only=True, eq=False)
class LoopRun:
    """The state of one run."""

    memory: Host | None
    model: Model
    config: LoopConfig
    given: list[Any]
    scope: Scope
    own_tools: list[Tool]
    pages: tuple[Page, ...]
    on_status: Callable[[Status], Awaitable[None] | None] | None
    on_chunk: Callable[[str], Awaitable[None] | None] | None
    signal: Any
    signals: tuple[Signal, ...]
    guard: Steps
    turn: Turn | None = None
    working: WorkingMemory | None = None
    tools: list[Tool] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    outcomes: list[ToolOutcome] = field(default_factory=list)
    usage: Counter[str] = field(default_factory=Counter)
    first_prompt_tokens: int | None = None
    iterations: int = 0
    heard: list[str] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)
    sources: list[Citation] = field(default_factory=list)
    """What has a number in this turn: the reference's sources, then those of the web tool."""
    limit_tokens: int | None = None

    async def run(self) -> AgentLoopResult:
        began = time.perf_counter()
        if self.memory is not None:
            require_named(self.memory, self.scope, self.config)
        await self._say("ready", "memory is off" if self.memory is None else "memory is ready")
        self._use_tools(self.own_tools)
        answer, error = "", ""
        why: Why = "answered"
        try:
            with turn_of(self.scope, self.sources):
                if self.memory is not None:
                    self.turn = await self._begin(self.memory)
                self.sources += self.turn.citations if self.turn is not None else ()
                answer, why = await self._answer()
        except Stopped:
            answer, why, error = "".join(self.heard), "stopped", STOPPED
            await self._say("stopped", "stopped; what was learned is kept")
        except BaseException as raised:
            answer, error = "".join(self.heard), f"{type(raised).__name__}: {raised}"
            raise
        finally:
            self._finish(answer, error=error, began=began)
        if self.memory is not None and self.config.learn.auto_index:
            await self._say("indexing", "the turn is kept in the background", pages=len(self.pages))
        await self._say("answer", f"{len(answer):,} characters", why=why)
        return self._result(answer, why)

    # -- before ------------------------------------------------------------------------

    async def _begin(self, memory: Host) -> Turn | None:
        """The turn, built on a thread; stopped meanwhile, what the user said is kept."""
        made: list[Turn] = []
        left = threading.Event()

        def end_what_is_left() -> None:
            with contextlib.suppress(IndexError):  # whoever comes second finds it gone
                made.pop().done(error=STOPPED)

        def build() -> Turn:
            try:
                turn = self._make_turn(memory)
                made.append(turn)
                if left.is_set():
                    end_what_is_left()
                return turn
            finally:
                memory.under_way.end()

        try:
            memory.under_way.begin()
            building = begin(partial(contextvars.copy_context().run, build), "agentmem-call")
            turn = await unless_stopped(asyncio.wrap_future(building), self.signal)
        except (Stopped, asyncio.CancelledError):
            left.set()
            end_what_is_left()
            raise
        except BudgetError:
            raise
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.guard.note(f"memory failed: {type(error).__name__}: {error}")
            return None
        for preference in turn.preferences:
            await self._say("preferences", preference.text, id=preference.id, type=preference.type)
        if self.on_status is None:
            return turn  # nobody asks what it costs
        shown = len(turn.citations)
        await self._say(
            "context",
            f"{shown} {'memory' if shown == 1 else 'memories'} "
            f"in {turn.context.built.tokens:,} tokens",
            snapshot_id=turn.snapshot_id,
            degradations=tuple(turn.degradations),
        )
        return turn

    def _make_turn(self, memory: Host) -> Turn:
        if self.model.name in memory.runtime.without_tools:
            self.config = replace(self.config, memory_tools=False)
        self.working = self._open_working(memory)
        if self.working is not None and self.config.memory_tools and self.model.name != EXTRACTIVE:
            taken = {tool.name for tool in self.own_tools}  # a caller's name wins
            ours = self.working.tools(save=self.config.memory_save_tool)
            self._use_tools([*self.own_tools, *(tool for tool in ours if tool.name not in taken)])
        return Turn(
            memory,
            self.given,
            model=self.model.name,
            tools=self.schemas,
            scope=self.scope,
            config=self.config,
            trim=True,
            working=self.working,
            signals=self.signals,
        )

    def _use_tools(self, tools: list[Tool]) -> None:
        self.tools, self.schemas = tools, [tool.definition() for tool in tools]

    def _open_working(self, memory: Host) -> WorkingMemory | None:
        """The working memory; tools run without it where it fails."""
        model, config = self.model.name, self.config
        return self.guard.run(
            "working memory",
            lambda: working_for(memory, scope=self.scope, model=model, config=config),
            None,
        )

    # -- the model and its tools ---------------------------------------------------------

    async def _answer(self) -> tuple[str, Why]:
        # The first call may find out that the model takes no tools.
        reply: ModelAnswer | None = await self._first()
        runner = ToolRunner(
            self.tools, self.working, timeout_seconds=self.config.tool_timeout_seconds
        )
        try:
            for _ in range(self.config.max_iterations):
                reply = reply or await self._ask()
                if not reply.tool_calls:
                    return reply.text, "answered"
                self.steps.append(reply.message)
                self.heard = []
                names = ", ".join(call["function"]["name"] for call in reply.tool_calls)
                await self._say("tool", names, calls=reply.tool_calls)
                await self._run_tools(runner, reply.tool_calls)
                reply = None
        finally:
            self.guard.degradations += runner.degradations
        await self._say("limit", f"{self.config.max_iterations} rounds of tools are used up")
        self.steps.append({"role": "user", "content": BEST_ANSWER})
        # The tools stay in the request: some providers refuse their calls in the history without.
        reply = await self._ask(tools_off=True)
        self.steps.pop()
        return reply.text, "limit"

    async def _first(self) -> ModelAnswer:
        """The first reply; a model that refuses tools is asked again without those of memory."""
        try:
            return await self._ask()
        except Exception as error:
            ours = len(self.tools) - len(self.own_tools)
            if self.heard or self.memory is None or not ours or not refuses_tools(error):
                raise
        self.iterations -= 1
        self.config = replace(self.config, memory_tools=False)
        self._use_tools(self.own_tools)
        if self.turn is not None:
            self.working = self._open_working(self.memory)
        reply = await self._ask()
        self.memory.runtime.without_tools.add(self.model.name)
        self.guard.note(
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

    async def _ask(self, *, tools_off: bool = False) -> ModelAnswer:
        self.iterations += 1
        self.sent = self._fitting()
        await self._say("model", f"asking {self.model.name or 'the model'}", round=self.iterations)
        try:
            reply = await self._send(tools_off=tools_off)
        except Exception as error:
            if self.heard or trouble_of(error) != "too long":
                raise
            resent = self._pack_smaller(error)
            if self.turn is not None and self.first_prompt_tokens is None:
                # The provider's count is compared with what was sent, not with what was refused.
                self.turn.context.resent = resent
            try:
                reply = await self._send(tools_off=tools_off)
            except Exception as again:
                if trouble_of(again) != "too long":
                    raise
                raise self._too_long(again) from again
        counts = read_usage(reply.usage)
        if self.first_prompt_tokens is None:
            self.first_prompt_tokens = counts.get("prompt")
        self.usage.update({f"{name}_tokens": tokens for name, tokens in counts.items()})
        return reply

    def _messages(self) -> list[Any]:
        """What the conversation has come to."""
        return [*(self.given if self.turn is None else self.turn.messages), *self.steps]

    async def _send(self, *, tools_off: bool) -> ModelAnswer:
        """The model's reply to what is packed; a rate limit is waited for a few times."""
        for attempt in range(1, RETRIES + 2):
            self.heard = []
            ask = self.model(
                self.sent,
                tools=self.schemas,
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

    def _fitting(self) -> list[Any]:
        """The messages if they fit the window, else without the oldest of them."""
        messages = self._messages()
        small = self.limit_tokens is not None
        if not small and (self.turn is None or not self.steps):
            return messages
        try:
            tokenizer = self._tokenizer()
            if not (small or tokenizer.window_known or not self.model.name):
                return messages  # nobody knows what fits until the model refuses
            limit = tokenizer.available_tokens if self.limit_tokens is None else self.limit_tokens
            limit = max(1, limit - tokenizer.count_messages([], tools=self.schemas))
            if sum(map(tokenizer.count_message, messages)) <= limit:
                return messages
            return list(self._trimmed(limit, tokenizer).messages)
        except Exception as error:  # noqa: BLE001 - memory failing never breaks the answer (P30)
            self.guard.note(f"the steps were not trimmed: {type(error).__name__}: {error}")
            return messages

    def _trimmed(self, limit: int, tokenizer: Tokenizer) -> TrimPlan:
        dicts = Conversation(self._messages()).messages
        return trim(
            dicts,
            limit,
            count_message=tokenizer.count_message,
            current=last_question(dicts[: len(dicts) - len(self.steps)]),
        )

    def _pack_smaller(self, error: Exception) -> Budget:
        """Learn from a refusal how much the model takes, and pack that; raise if nothing can go."""
        tokenizer, estimated = self._tokenizer(), self._count()
        reserve, before = tokenizer.reserve.total, self.sent
        self.limit_tokens = repack_limit(
            figures_of(error), estimated_tokens=estimated, reserve_tokens=reserve
        )
        if self.memory is not None and self.model.name:
            with contextlib.suppress(Exception):  # only the next turn's count is poorer for it
                self.memory.runtime.refused(self.model.name, estimated=estimated, error=error)
        tool_tokens = tokenizer.count_messages([], tools=self.schemas)
        try:
            plan = self._trimmed(max(1, self.limit_tokens - tool_tokens), tokenizer)
        except BudgetError:
            raise self._too_long(error) from error
        if list(plan.messages) == before:
            raise self._too_long(error) from error
        self.sent = list(plan.messages)
        self.guard.note(
            f"the model refused the request as too long; it was sent {len(self.sent)} of "
            f"{len(before)} messages"
        )
        packages = [*plan.report.kept]
        if self.schemas:
            packages.append(make_package("tool-schema", id="tool-schema", tokens=tool_tokens))
        window = tokenizer.available_tokens + reserve
        return tally(packages, window_tokens=window, reserved_tokens=reserve)

    def _too_long(self, error: Exception) -> RequestTooLong:
        said = clean_line(str(error), limit_characters=300)
        return RequestTooLong(self.model.name, estimated_tokens=self._count(), said=said)

    def _count(self) -> int:
        return self._tokenizer().count_messages(self.sent, tools=self.schemas)

    def _tokenizer(self) -> Tokenizer:
        if self.memory is not None:
            window = self.config.budget.context_window
            return self.memory.runtime.tokenizer(self.model.name, window)[0]
        from agentmem.tokens.counter import tokenizer_for

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentMemWarning)
            return tokenizer_for(self.model.name or DEFAULT_MODEL)

    # -- afterwards ----------------------------------------------------------------------

    def _finish(self, answer: str, *, error: str, began: float) -> None:
        turn = self.turn
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
        whose = {name: getattr(self.scope, name) for name in Scope.__slots__}
        for page in self.pages:
            try:
                url, title, content = read_page(page)
                self.memory.sources.enqueue_page(content, url, title, **whose)
            except Exception as failed:  # noqa: BLE001 - memory failing never breaks the answer
                self.guard.note(f"a page was not indexed: {type(failed).__name__}: {failed}")

    def _result(self, answer: str, why: Why) -> AgentLoopResult:
        turn = self.turn
        used = turn.citations_for(answer) if turn is not None else ()
        quotes = {citation.memory_id: citation.quote for citation in used if citation.memory_id}
        offered = tuple(
            replace(citation, quote=quotes.get(citation.memory_id, citation.quote))
            for citation in self._offered(answer)
        )
        resolved = resolve_citations(answer, offered)
        last = [{"role": "assistant", "content": answer}] if answer or why != "stopped" else []
        of_turn: dict[str, Any] = {}
        if turn is not None:
            of_turn = {name: getattr(turn, name) for name in _OF_TURN} | {"block": turn.block_text}
        told = () if turn is None else turn.degradations
        return AgentLoopResult(
            answer=answer,
            messages=(*self.given, *self.steps, *last),
            citations=resolved.cited,
            offered=offered,
            cleaned=resolved.text,
            dangling=resolved.missing,
            usage=dict(self.usage),
            degradations=(*told, *self.guard.degradations),
            tool_calls=tuple(self.outcomes),
            iterations=self.iterations,
            why=why,
            sent=tuple(self.sent),
            **of_turn,
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
        given=[*_said_before(messages), {"role": "user", "content": _goal(goal)}],
        scope=read_scope(scope, whose),
        own_tools=list(as_tools(tools)),
        pages=tuple(pages),
        on_status=on_status,
        on_chunk=on_chunk,
        signal=signal,
        signals=read_signals(signals),
        guard=Steps(_log.warning if manager is None else partial(warn, manager)),
    )
    return await loop.run()


def _blocking(loop: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    def run_agent_loop_sync(*given: P.args, **options: P.kwargs) -> T:
        """`run_agent_loop` for scripts without an event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(loop(*given, **options))
        raise InvalidInput(
            "call", "run_agent_loop_sync", "is made where an event loop runs already",
            remedy="Write `await run_agent_loop(…)`.",
        )  # fmt: skip

    return update_wrapper(run_agent_loop_sync, loop, assigned=("__module__",))


run_agent_loop_sync = _blocking(run_agent_loop)


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
