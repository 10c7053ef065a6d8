"""What a memory does for a loop: turns, wrappers, preferences, background indexing.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from agentmem.core.checks import require_count
from agentmem.manager.base import Base
from agentmem.manager.whose import Whose, read_scope, scope_of

if TYPE_CHECKING:
    from agentmem.background import Worker
    from agentmem.code_reading import LearnedPatterns
    from agentmem.config import LoopConfig
    from agentmem.core.living.prediction import Signal, SignalKind
    from agentmem.core.living.tiers import Shares, TieredContext
    from agentmem.importing import ImportSummary
    from agentmem.importing import Source as ImportSource
    from agentmem.indexer import FolderReport, IndexingResult
    from agentmem.manager import MemoryManager
    from agentmem.predicting import Prediction
    from agentmem.preferences import PreferenceStore
    from agentmem.prefetching import Prefetched
    from agentmem.runtime import Runtime
    from agentmem.turns import Turn

    Signals = Sequence[Signal | tuple[str, str]]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C")

_MAKING = threading.Lock()


class Agents(Base):
    """The calls that serve agent loops."""

    @property
    def runtime(self) -> Runtime:
        """What the turns of this memory share; made when it is first needed."""
        if self._runtime is None:
            from agentmem.runtime import Runtime

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
        scope: Whose = None,
        config: LoopConfig | None = None,
        message_id: str = "",
        trim: bool = False,
        dry: bool = False,
        signals: Signals = (),
        **whose: str | None,
    ) -> Turn:
        """One turn of a loop of your own: send `turn.messages`, then say `turn.done(answer)`.

        It never raises because memory failed. With `trim` old messages give
        way when the window is too small, and `BudgetError` is raised when what
        must be sent does not fit. `dry` keeps nothing of the turn. `signals`
        say what is going on (a file that is open, an error seen): what is cited
        under them is predicted the next time.
        """
        from agentmem.turns import Turn

        said: tuple[Signal, ...] = ()
        if signals != ():
            from agentmem.predicting import read_signals

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

    async def aturn(self, messages: Sequence[Any], **options: Any) -> Turn:
        """`turn` for callers that await: it is built on a thread."""
        import asyncio

        return await asyncio.to_thread(self.turn, messages, **options)

    def signal(self, kind: SignalKind, value: str, **whose: str | None) -> None:
        """Say what is going on; the turns and predictions of the next two hours know it.

        `kind` is `file`, `branch`, `error`, `time`, `collaborator`, `tool` or `task`.
        """
        from agentmem.core.living.prediction import Signal

        self.runtime.predictions.note(Signal(kind=kind, value=value), scope_of(whose))

    def predict(
        self, signals: Signals = (), limit: int = 10, **whose: str | None
    ) -> tuple[Prediction, ...]:
        """The memories most probably needed in this situation, best first, with a confidence."""
        from agentmem.predicting import read_signals

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
        **whose: str | None,
    ) -> Prefetched:
        """Make ready what the next turn will need, within about `budget_ms`.

        Tasks and errors among the signals are searched for ahead: a turn that
        says the same is served from the cache. The embedder, the indexes and
        what counts tokens are loaded, so that any other turn is faster too;
        what takes longer than the budget goes on in the background.
        """
        from agentmem.config import LoopConfig
        from agentmem.predicting import read_signals

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
        **whose: str | None,
    ) -> TieredContext:
        """What is worth knowing now in four tiers, within `budget` tokens of `model` (P36).

        `task` says in words what is being done. `table` gives shares of your
        own by activity. A part that cannot be read is left out and named in
        `degradations`.
        """
        from agentmem.predicting import read_signals

        return self.runtime.tiers.assemble(
            scope_of(whose),
            budget_tokens=budget,
            signals=read_signals(signals),
            activity=activity,
            task=task,
            table=table,
            count=self.runtime.tokenizer(model)[0],
        )

    def wrap(self, fn: F, **options: Any) -> F:
        """A chat-completions callable with memory: the same signature, the same return type.

        Sync or async, streaming or not. Each call may say `memory_scope=` and
        `memory_off=`.
        """
        from agentmem.adapters.calls import wrap

        return wrap(cast("MemoryManager", self), fn, **options)

    def wrap_openai(self, client: C, **options: Any) -> C:
        """An OpenAI client with memory; yours stays as it is."""
        from agentmem.adapters.openai import wrap_openai

        return wrap_openai(client, cast("MemoryManager", self), **options)

    def wrap_search(self, fn: F, **options: Any) -> F:
        """A web-search function with memory beside its results."""
        from agentmem.web import wrap_search

        return wrap_search(cast("MemoryManager", self), fn, **options)

    def index_page(
        self, content: str | bytes, url: str, title: str = "", **whose: str | None
    ) -> IndexingResult:
        """Remember a page now, HTML or text; what went wrong is in the result."""
        return self.runtime.indexer.index_page(content, url, title, **whose)

    def index_page_async(
        self, content: str | bytes, url: str, title: str = "", **whose: str | None
    ) -> bool:
        """Remember a page in the background; returns at once and never raises."""
        early, sound = self.early_pages, isinstance(content, str | bytes)
        if sound and (early.busy or self._runtime is None) and not self._closed:
            early.call(content, url, title, **whose)  # the first must not wait for what it loads
            return True
        return self.runtime.indexer.index_page_async(content, url, title, **whose)

    def index_path(self, path: str | Path, **options: Any) -> FolderReport:
        """Remember a file, or every readable file of a folder."""
        return self.runtime.indexer.index_path(path, **options)

    def index_url(self, url: str, **options: Any) -> IndexingResult:
        """Fetch a page and remember it; private addresses are refused unless allowed."""
        return self.runtime.indexer.index_url(url, **options)

    def learn_patterns(
        self, path: str | Path, *, languages: bool = True, **whose: str | None
    ) -> LearnedPatterns:
        """Remember how code is written in a folder, and which files belong together.

        Python is read as it is; other languages when tree-sitter is installed
        (`agentmem-loop[code]`). What was learned of the folder before is replaced.
        """
        from agentmem.code_reading import learn_patterns

        return learn_patterns(
            cast("MemoryManager", self), path, scope=scope_of(whose), languages=languages
        )

    def import_from(
        self,
        path: str | Path,
        source: ImportSource = "auto",
        *,
        dry_run: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **whose: str | None,
    ) -> ImportSummary:
        """Add what mem0, Letta, Zep, ChatGPT, Claude or `export_jsonl` exported.

        With a name everything becomes that owner's. What is there already is
        skipped; what was not taken is counted by reason.
        """
        from agentmem.importing import import_from

        return import_from(
            cast("MemoryManager", self),
            path,
            source=source,
            scope=scope_of(whose) if any(whose.values()) else None,
            dry_run=dry_run,
            progress=progress,
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
