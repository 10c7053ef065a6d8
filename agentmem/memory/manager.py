"""The everyday API: one object that wires store, indexes and embedder, and decides nothing.

What serves a loop is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from agentmem.base.checks import require_count, require_text
from agentmem.base.config import SearchMode
from agentmem.base.errors import AgentMemError, InvalidInput
from agentmem.base.telemetry import span
from agentmem.base.types import Memory, ScopeLike, Whose
from agentmem.memory.adding import Keeper
from agentmem.memory.parts import Living, MemoryUpkeep, Sources
from agentmem.search.intake import Instant, instant, read_scope, scope_of
from agentmem.search.results import Memories, SearchResults
from agentmem.search.retriever import Request
from agentmem.stores.values import Version

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.calls import Remembering
    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI
    from agentmem.agent.adapters.turn import TurnOptions
    from agentmem.agent.runtime import Runtime
    from agentmem.agent.turn import Turn
    from agentmem.base.config import LoopConfig
    from agentmem.living.predict import Signal
    from agentmem.living.preferences import PreferenceStore
    from agentmem.memory.parts import Signals
    from agentmem.sources.background import Worker
    from agentmem.sources.web.enhanced import SearchOptions

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

_log = logging.getLogger(__name__)
_LATE_SECONDS = 5.0
_MAKING = threading.Lock()


def on_a_thread(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """`call` for callers that await."""

    @wraps(call)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        return await asyncio.to_thread(call, *args, **kwargs)

    return run


class MemoryManager(Keeper):
    """A memory.

    Every call may say whose memory is meant with `user_id`, `project_id`,
    `agent_id` and `run_id`; somebody not named is the one user of a memory
    without users. What is returned, counted, changed or ranked is only what
    that reader may see (P24).
    """

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        mode: SearchMode | None = None,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
        explain: bool = False,
        cold: bool | None = None,
        questions: bool = False,
        by_question: bool = True,
        limit: int | None = None,
        **whose: Unpack[Whose],
    ) -> SearchResults:
        """The memories that answer `query`, best first, none below `threshold` (P1).

        `limit` is another name for `top_k`. A query without words finds nothing.
        Memories that were put away are searched when the others do not answer
        well, always with `cold=True` and never with `cold=False`. What a user
        only asked answers nothing and is found with `questions=True` alone. A
        question about the user's own world raises what was told to at least what it
        would be worth in a turn; `by_question=False` gives the ranking's own scores.
        """
        if top_k is not None and limit is not None:
            raise InvalidInput("limit", limit, "is top_k said twice", remedy="Give one of them.")
        wanted = limit if top_k is None else top_k
        usual = self.settings.recall
        request = Request(
            query=query,
            selection=replace(
                self._selection(whose, filters, kinds=kinds, as_of=as_of),
                source_url=url,
                session=session,
                since=instant(since, "since"),
                until=instant(until, "until"),
            ),
            top_k=usual.search_top_k if wanted is None else wanted,
            threshold=usual.similarity_threshold if threshold is None else threshold,
            mode=mode or usual.search_mode,
            explain=explain,
            cold=cold,
            questions=questions,
            by_question=by_question,
            now=self.clock.now(),
        )
        with span("search_memory", query=query, store_id=self.telemetry_id) as told:
            found = self.retriever.search(request)
            shown = found if told.wants_records else ()
            told.found(
                len(found),
                [{"id": h.memory.id, "score": h.score, "content": h.memory.text} for h in shown],
            )
        return found

    def get(self, memory_id: str, **whose: Unpack[Whose]) -> Memory:
        """The memory with this id; `RecordNotFound` if this reader has none."""
        return self.store.get(scope_of(whose), require_text(memory_id, "memory_id"))

    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 100,
        superseded: bool = False,
        forgotten: bool = False,
        as_of: Instant = None,
        **whose: Unpack[Whose],
    ) -> Memories:
        """Up to `limit` memories of this reader, newest first; the forgotten ones on request."""
        selection = self._selection(whose, filters, kinds=kinds, as_of=as_of)
        selection = replace(selection, superseded=superseded, forgotten=forgotten)
        return Memories(self.store.recent(selection, limit=require_count(limit, "limit")))

    def history(self, memory_id: str, **whose: Unpack[Whose]) -> tuple[Version, ...]:
        """What a memory said before each change, oldest first."""
        return self.store.history(scope_of(whose), require_text(memory_id, "memory_id"))

    @property
    def upkeep(self) -> MemoryUpkeep:
        """Look after the memory as a whole: check it, copy it, move it."""
        return MemoryUpkeep(self)

    @property
    def sources(self) -> Sources:
        """Remember pages, files and addresses."""
        return Sources(self)

    @property
    def living(self) -> Living:
        """Learn, consolidate, resolve and predict."""
        return Living(self)

    def close(self) -> None:
        """Save what can be saved and close; again is harmless.

        A turn that was stopped while it was built is let finish: it keeps what
        the user said.
        """
        if self._closed:
            return
        self.under_way.wait(_LATE_SECONDS)
        self.early_pages.close(_LATE_SECONDS)
        self._closed = True
        if self._runtime is not None:
            self._runtime.close()
        self.embedding.close()
        if self.settings.save_indexes:
            self._save_quietly()
        self.index.close()
        self.store.close()
        # It holds this memory: what was closed is freed now, not when the collector comes round.
        self._runtime = None

    def _save_quietly(self) -> None:
        try:
            self.index.save(self.embedding.serving_id, if_worth=True)
        except (AgentMemError, OSError) as error:
            _log.warning(
                "The indexes could not be saved; they are built at the next open: %s", error
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runtime(self) -> Runtime:
        """What the turns of this memory share; made when it is first needed.

        After `close` whoever asks gets one of their own that takes no work.
        """
        found = self._runtime
        if found is None:
            from agentmem.agent.runtime import Runtime

            with _MAKING:
                found = self._runtime
                if found is None:
                    found = Runtime(self)
                    if self._closed:
                        found.close()
                    else:
                        self._runtime = found
        return found

    @property
    def worker(self) -> Worker:
        """The queue for work beside the loop."""
        self.early_pages.settle()
        return self.runtime.worker

    @property
    def preferences(self) -> PreferenceStore:
        """What users told about themselves."""
        return self.runtime.preferences

    def turn(
        self,
        messages: Sequence[Any],
        *,
        model: str = "",
        tools: Sequence[Mapping[str, Any]] | None = None,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        message_id: str = "",
        trim: bool = False,
        dry: bool = False,
        signals: Signals = (),
        **whose: Unpack[Whose],
    ) -> Turn:
        """One turn of a loop of your own: send `turn.messages`, then say `turn.done(answer)`.

        It never raises because memory failed. With `trim` old messages give
        way when the window is too small, and `BudgetError` is raised when what
        must be sent does not fit. `dry` keeps nothing of the turn. `signals`
        say what is going on (a file that is open, an error seen): what is cited
        under them is predicted the next time.
        """
        from agentmem.agent.turn import Turn

        said: tuple[Signal, ...] = ()
        if signals != ():
            from agentmem.living.predict import read_signals

            said = read_signals(signals)
        return Turn(
            self,
            messages,
            model=model,
            tools=tools,
            scope=read_scope(scope, whose),
            config=config,
            message_id=message_id,
            trim=trim,
            dry=dry,
            signals=said,
        )

    aturn = on_a_thread(turn)

    def wrap(self, fn: Callable[P, T], **how: Unpack[TurnOptions]) -> Remembering[P, T]:
        """A chat-completions callable with memory: the same signature, the same return type.

        Sync or async, streaming or not. `scope` says whose memory it is, `config` how its
        turns go, and `on_turn` is shown each turn when it has ended. Each call may say
        `memory_scope=` and `memory_off=`.
        """
        from agentmem.agent.adapters.calls import wrap

        memory = self
        return wrap(memory, fn, **how)

    @overload
    def wrap_openai(self, client: OpenAI, **how: Unpack[TurnOptions]) -> RememberingOpenAI: ...
    @overload
    def wrap_openai(
        self, client: AsyncOpenAI, **how: Unpack[TurnOptions]
    ) -> RememberingAsyncOpenAI: ...
    @overload
    def wrap_openai(self, client: C, **how: Unpack[TurnOptions]) -> C: ...
    def wrap_openai(self, client: Any, **how: Unpack[TurnOptions]) -> Any:
        """An OpenAI client with memory; yours stays as it is. Options as in `wrap`."""
        from agentmem.agent.adapters.clients import wrap_openai

        memory = self
        return wrap_openai(client, memory, **how)

    def wrap_anthropic(self, client: C, **how: Unpack[TurnOptions]) -> C:
        """An Anthropic client with memory; yours stays as it is. Options as in `wrap`."""
        from agentmem.agent.adapters.clients import wrap_anthropic

        memory = self
        return wrap_anthropic(client, memory, **how)

    def wrap_search(
        self,
        fn: Callable[P, T],
        *,
        allow_private: bool = False,
        **options: Unpack[SearchOptions],
    ) -> Remembering[P, T]:
        """A web-search function with memory beside its results.

        Each call may say `memory_scope=`; `options` are those of `enhanced_search`.
        Addresses in a private network are shown in citations only with `allow_private`.
        """
        from agentmem.sources.web.enhanced import wrap_search

        found = wrap_search(self, fn, allow_private=allow_private, **options)
        return cast("Remembering[P, T]", found)

    def flush(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the background work; whether all of it was done in time."""
        began = time.monotonic()
        if not (self.under_way.wait(timeout_seconds) and self.early_pages.settle(timeout_seconds)):
            return False

        def left() -> float | None:
            if timeout_seconds is None:
                return None
            return max(0.0, timeout_seconds - (time.monotonic() - began))

        if self._runtime is not None and not self._runtime.worker.flush(left()):
            return False
        return self.embedding.wait(left())
