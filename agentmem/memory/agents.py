"""What a memory does for a loop: turns, wrappers, preferences, background indexing.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

from agentmem.base.checks import require_count, require_text
from agentmem.base.types import ScopeLike, Whose
from agentmem.memory.base import Base
from agentmem.search.intake import Instant, instant, read_scope, scope_of

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.calls import Remembering
    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI
    from agentmem.agent.adapters.turn import OnTurn
    from agentmem.agent.runtime import Runtime
    from agentmem.agent.turn import Turn
    from agentmem.base.config import LoopConfig
    from agentmem.base.types import Memory
    from agentmem.living.consolidate import ConsolidationReport
    from agentmem.living.learn import Learned
    from agentmem.living.models import Model, Spend
    from agentmem.living.plans import ConsolidationSettings, Contradiction, Resolution
    from agentmem.living.predict import Prediction, Signal, SignalKind
    from agentmem.living.preferences import PreferenceStore
    from agentmem.living.settle import Resolved
    from agentmem.living.tiers import Prefetched, Shares, TieredContext
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.results import FolderReport, IndexingResult, SearchResults
    from agentmem.search.results import Progress as FolderProgress
    from agentmem.search.retriever import Request
    from agentmem.sources.background import Worker
    from agentmem.sources.code import LearnedPatterns
    from agentmem.sources.fetch import FetchLimits
    from agentmem.stores.rules import JournalEntry, Undone


if TYPE_CHECKING:
    Signals = Sequence[Signal | tuple[str, str]]

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")

_MAKING = threading.Lock()


def on_a_thread(call: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """`call` for callers that await."""

    @wraps(call)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        import asyncio

        return await asyncio.to_thread(call, *args, **kwargs)

    return run


class Agents(Base):
    """The calls that serve agent loops."""

    @property
    def runtime(self) -> Runtime:
        """What the turns of this memory share; made when it is first needed."""
        if self._runtime is None:
            from agentmem.agent.runtime import Runtime

            with _MAKING:
                if self._runtime is None:
                    keep_up = self._retriever.keep_up
                    self._runtime = Runtime(cast("MemoryManager", self), keep_up=keep_up)
        return self._runtime

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
            cast("MemoryManager", self),
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

    def signal(self, kind: SignalKind, value: str, **whose: Unpack[Whose]) -> None:
        """Say what is going on; the turns and predictions of the next two hours know it.

        `kind` is `file`, `branch`, `error`, `time`, `collaborator`, `tool` or `task`.
        """
        from agentmem.living.predict import Signal

        self.runtime.predictions.note(Signal(kind=kind, value=value), scope_of(whose))

    def predict(
        self, signals: Signals = (), limit: int = 10, **whose: Unpack[Whose]
    ) -> tuple[Prediction, ...]:
        """The memories most probably needed in this situation, best first, with a confidence."""
        from agentmem.living.predict import read_signals

        scope = scope_of(whose)
        require_count(limit, "limit")
        tiers = self.runtime.tiers
        given = tiers.signals_for(read_signals(signals), scope)
        return tuple(self.runtime.predictions.predict(given, scope, limit=limit))

    def prefetch(
        self,
        signals: Signals = (),
        *,
        budget_ms: float = 200.0,
        config: LoopConfig | None = None,
        **whose: Unpack[Whose],
    ) -> Prefetched:
        """Make ready what the next turn will need, within about `budget_ms`.

        Tasks and errors among the signals are searched for ahead: a turn that
        says the same is served from the cache. The embedder, the indexes and
        what counts tokens are loaded, so that any other turn is faster too;
        what takes longer than the budget goes on in the background.
        """
        from agentmem.base.config import LoopConfig
        from agentmem.living.predict import read_signals

        return self.runtime.prefetcher.run(
            scope_of(whose),
            read_signals(signals),
            budget_ms=budget_ms,
            config=config or LoopConfig(),
        )

    def assemble_context(
        self,
        budget: int = 8_000,
        *,
        signals: Signals = (),
        activity: str = "general",
        task: str = "",
        table: Mapping[str, Shares] | None = None,
        model: str = "",
        **whose: Unpack[Whose],
    ) -> TieredContext:
        """What is worth knowing now in four tiers, within `budget` tokens of `model` (P36).

        `task` says in words what is being done. `table` gives shares of your
        own by activity. A part that cannot be read is left out and named in
        `degradations`.
        """
        from agentmem.living.predict import read_signals

        return self.runtime.tiers.assemble(
            scope_of(whose),
            budget_tokens=budget,
            signals=read_signals(signals),
            activity=activity,
            task=task,
            table=table,
            count=self.runtime.tokenizer(model)[0],
        )

    def wrap(
        self,
        fn: Callable[P, T],
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> Remembering[P, T]:
        """A chat-completions callable with memory: the same signature, the same return type.

        Sync or async, streaming or not. Each call may say `memory_scope=` and
        `memory_off=`.
        """
        from agentmem.agent.adapters.calls import wrap

        memory = cast("MemoryManager", self)
        return wrap(memory, fn, scope=scope, config=config, on_turn=on_turn)

    @overload
    def wrap_openai(
        self,
        client: OpenAI,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> RememberingOpenAI: ...
    @overload
    def wrap_openai(
        self,
        client: AsyncOpenAI,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> RememberingAsyncOpenAI: ...
    @overload
    def wrap_openai(
        self,
        client: C,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> C: ...
    def wrap_openai(
        self,
        client: Any,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> Any:
        """An OpenAI client with memory; yours stays as it is."""
        from agentmem.agent.adapters.openai import wrap_openai

        memory = cast("MemoryManager", self)
        return wrap_openai(client, memory, scope=scope, config=config, on_turn=on_turn)

    def wrap_search(self, fn: Callable[P, T], **options: Any) -> Remembering[P, T]:
        """A web-search function with memory beside its results.

        Each call may say `memory_scope=`; `options` are those of `enhanced_search`.
        """
        from agentmem.sources.web.enhanced import wrap_search

        found = wrap_search(cast("MemoryManager", self), fn, **options)
        return cast("Remembering[P, T]", found)

    def index_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> IndexingResult:
        """Remember a page now, HTML or text; what went wrong is in the result."""
        return self.runtime.indexer.index_page(content, url, title, **whose)

    def enqueue_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> bool:
        """Remember a page in the background; returns at once and never raises."""
        early, sound = self.early_pages, isinstance(content, str | bytes)
        if sound and (early.busy or self._runtime is None) and not self._closed:
            # The first must not wait for what it loads.
            early.call(content, url, title, at=self.clock.now(), **whose)
            return True
        return self.runtime.indexer.enqueue_page(content, url, title, **whose)

    def index_path(
        self,
        path: str | Path,
        *,
        progress: FolderProgress | None = None,
        prune: bool = False,
        limit_bytes: int = 20_000_000,
        **whose: Unpack[Whose],
    ) -> FolderReport:
        """Remember a file, or every readable file of a folder."""
        return self.runtime.indexer.index_path(
            path, progress=progress, prune=prune, limit_bytes=limit_bytes, **whose
        )

    def index_url(
        self,
        url: str,
        *,
        allow_private: bool = False,
        robots: bool = False,
        limits: FetchLimits | None = None,
        **whose: Unpack[Whose],
    ) -> IndexingResult:
        """Fetch a page and remember it; private addresses are refused unless allowed."""
        return self.runtime.indexer.index_url(
            url, allow_private=allow_private, robots=robots, limits=limits, **whose
        )

    def learn_patterns(
        self, path: str | Path, *, languages: bool = True, **whose: Unpack[Whose]
    ) -> LearnedPatterns:
        """Remember how code is written in a folder, and which files belong together.

        Python is read as it is; other languages when tree-sitter is installed
        (`agentmem-loop[code]`). What was learned of the folder before is replaced.
        """
        from agentmem.sources.code import learn_patterns

        return learn_patterns(
            cast("MemoryManager", self), path, scope=scope_of(whose), languages=languages
        )

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


# ----------------------------------------------------------------------------
# What a memory does to keep itself in order: consolidate, undo, contradictions, learning.
#
# Each call is a door to a module of its own, opened when it is used.


class Living(Base):
    """The calls that keep a memory small, true and useful."""

    def consolidate(
        self,
        *,
        dry_run: bool = False,
        settings: ConsolidationSettings | None = None,
        full: bool = False,
        model: Model | None = None,
        spend: Spend | None = None,
        **whose: Unpack[Whose],
    ) -> ConsolidationReport:
        """Merge, shorten, forget, link and look for contradictions, all in one step (P37).

        `undo(report.journal_id)` takes it back. A dry run changes nothing and
        reports what a run would do now. Only what changed since the last run
        is compared again, unless `full`. A `model` (a litellm name or a
        chat-completions callable) writes shorter summaries and looks at what
        the rules are not sure of, within `spend`; a dry run asks none.
        """
        from agentmem.living.consolidate import Consolidator

        consolidator = Consolidator(cast("MemoryManager", self))
        return consolidator.run(
            scope_of(whose),
            dry_run=dry_run,
            settings=settings,
            full=full,
            model=model,
            spend=spend,
        )

    def undo(self, journal_id: str, **whose: Unpack[Whose]) -> Undone:
        """Take a run or what was learned back; what was changed since stays as it is."""
        require_text(journal_id, "journal_id")
        return self.store.journal.undo(scope_of(whose), journal_id, at=self.clock.now())

    def journal(self, limit: int = 20, **whose: Unpack[Whose]) -> tuple[JournalEntry, ...]:
        """The newest runs that can be undone, and those that were."""
        return self.store.journal.recent(scope_of(whose), limit=require_count(limit, "limit"))

    def bring_back(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> JournalEntry:
        """Let memories that were forgotten or put away be found again; `undo` takes it back."""
        from agentmem.living.consolidate import bring_back

        ids = [memory_id] if isinstance(memory_id, str) else list(memory_id)
        return bring_back(cast("MemoryManager", self), scope_of(whose), ids)

    def contradictions(
        self, *, open_only: bool = True, **whose: Unpack[Whose]
    ) -> tuple[Contradiction, ...]:
        """Memories that cannot both be true, oldest first; the resolved ones on request."""
        from agentmem.living.settle import Settler

        settler = Settler(cast("MemoryManager", self))
        return settler.all(scope_of(whose), open_only=open_only)

    def contradiction(self, contradiction: str, **whose: Unpack[Whose]) -> Contradiction:
        """One contradiction by its id, or the beginning of it."""
        from agentmem.living.settle import Settler

        return Settler(cast("MemoryManager", self)).get(scope_of(whose), contradiction)

    def resolve(
        self, contradiction: str, resolution: Resolution, *, note: str = "", **whose: Unpack[Whose]
    ) -> Resolved:
        """Say what is true: `a_wins`, `b_wins`, `both_valid` or `merged`.

        The side that does not hold is superseded, and kept; `undo` with the
        result's `journal_id` opens the contradiction again.
        """
        from agentmem.living.settle import Settler

        settler = Settler(cast("MemoryManager", self))
        return settler.resolve(scope_of(whose), contradiction, resolution, note=note)

    def learn(
        self,
        data: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        model: Model | None = None,
        spend: Spend | None = None,
        dry_run: bool = False,
        **whose: Unpack[Whose],
    ) -> Learned:
        """Keep the facts, decisions and fixes that a user's text or turns state, in one step.

        A later value for the same key takes the earlier one's place (P38).
        Turns of others than the user teach nothing. `undo(result.journal_id)`
        takes it all back; a dry run changes nothing. A `model` (a litellm name
        or a chat-completions callable) finds what the rules miss, within
        `spend`; what it proposes is kept only if the text says it (L11). What
        users say about themselves reaches their profile too (P45); that is
        taken back with `preferences.undo`.
        """
        from agentmem.living.learn import Learner

        memory = cast("MemoryManager", self)
        learner, scope = Learner(memory), scope_of(whose)
        said = learner.read(scope, data)
        learned = learner.learn(scope, said, model=model, spend=spend, dry_run=dry_run)
        if scope.user_id is not None and not dry_run:
            ordered = sorted(said, key=lambda one: one.at)
            own: list[dict[str, Any]] = [{"role": "user", "content": one.text} for one in ordered]
            memory.preferences.listen(own, user_id=scope.user_id)
        return learned

    def history_of(
        self, key: str, *, as_of: Instant = None, **whose: Unpack[Whose]
    ) -> tuple[Memory, ...]:
        """Every value that a key ("API limit") ever had, earliest first; or the one as of then."""
        from agentmem.living.learn import Learner

        learner = Learner(cast("MemoryManager", self))
        return learner.history(scope_of(whose), key, as_of=instant(as_of, "as_of"))

    def find(self, request: Request) -> SearchResults:
        """What a search finds that was put together already."""
        return self._retriever.search(request)
