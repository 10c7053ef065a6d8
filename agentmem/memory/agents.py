"""What a memory does for a loop: turns, wrappers, preferences, background indexing.

Each call is a door to a module of its own, opened when it is used.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast, overload

from agentmem.base.types import ScopeLike, Whose
from agentmem.memory.base import Base
from agentmem.search.intake import read_scope

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from agentmem.agent.adapters.calls import Remembering
    from agentmem.agent.adapters.openai_types import RememberingAsyncOpenAI, RememberingOpenAI
    from agentmem.agent.adapters.turn import OnTurn
    from agentmem.agent.runtime import Runtime
    from agentmem.agent.turn import Turn
    from agentmem.base.config import LoopConfig
    from agentmem.living.predict import Signal
    from agentmem.living.preferences import PreferenceStore
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.results import SearchResults
    from agentmem.search.retriever import Request
    from agentmem.sources.background import Worker
    from agentmem.sources.web.enhanced import SearchOptions


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
        """What the turns of this memory share; made when it is first needed.

        After `close` whoever asks gets one of their own that takes no work.
        """
        found = self._runtime
        if found is None:
            from agentmem.agent.runtime import Runtime

            with _MAKING:
                found = self._runtime
                if found is None:
                    found = Runtime(cast("MemoryManager", self))
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
        from agentmem.agent.adapters.clients import wrap_openai

        memory = cast("MemoryManager", self)
        return wrap_openai(client, memory, scope=scope, config=config, on_turn=on_turn)

    def wrap_anthropic(
        self,
        client: C,
        *,
        scope: ScopeLike | None = None,
        config: LoopConfig | None = None,
        on_turn: OnTurn | None = None,
    ) -> C:
        """An Anthropic client with memory; yours stays as it is."""
        from agentmem.agent.adapters.clients import wrap_anthropic

        memory = cast("MemoryManager", self)
        return wrap_anthropic(client, memory, scope=scope, config=config, on_turn=on_turn)

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

        found = wrap_search(cast("MemoryManager", self), fn, allow_private=allow_private, **options)
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

    def find(self, request: Request) -> SearchResults:
        """What a search finds that was put together already."""
        return self._retriever.search(request)
