"""What every call of a memory stands on: the store, the embedder, the indexes, the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agentmem.base.checks import require_items
from agentmem.base.config import MemorySettings
from agentmem.base.filters import Selection
from agentmem.base.guards import Early, UnderWay
from agentmem.base.protocols import Clock, Embedder
from agentmem.base.time import SystemClock
from agentmem.base.types import Ids, Memory, Scope, may_state
from agentmem.search.embedding import Embedding
from agentmem.search.intake import Instant, instant, scope_and_filter
from agentmem.search.local import LocalSearch
from agentmem.search.protocol import Search
from agentmem.search.retriever import Reranker, Retriever
from agentmem.stores.base import Store

if TYPE_CHECKING:
    from agentmem.agent.runtime import Runtime
    from agentmem.memory.manager import MemoryManager


class Base:
    """The parts of a memory, wired."""

    def __init__(
        self,
        store: Store,
        *,
        embedder: Embedder | None = None,
        clock: Clock | None = None,
        settings: MemorySettings | None = None,
        path: Path | None = None,
        search: Search | None = None,
        rerank: Reranker | None = None,
        load_embedder: Callable[[str], Embedder | None] | None = None,
    ) -> None:
        self.settings = settings or MemorySettings()
        self.store = store
        self.embedding = Embedding(
            store, embedder, load=load_embedder, background=self.settings.embed_in_background
        )
        self.index: Search = LocalSearch(store, path=path) if search is None else search
        self._closed = False
        self.path = path
        self._runtime: Runtime | None = None
        self.under_way = UnderWay()
        self.early_pages = Early(self._page_taker)
        self.clock = clock or SystemClock()
        self.ids = Ids(self.clock)
        self._retriever = Retriever(store, self.index, self.embedding, rerank=rerank)

    def __repr__(self) -> str:
        where = ":memory:" if self.path is None else str(self.path)
        return f"MemoryManager({where!r}{', closed' if self._closed else ''})"

    def _selection(
        self,
        whose: Mapping[str, object],
        filters: Mapping[str, Any] | None,
        *,
        kinds: Sequence[str] | None = None,
        url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
    ) -> Selection:
        scope, where = scope_and_filter(whose, filters)
        if kinds is not None:
            kinds = require_items(kinds, "kinds", "kinds")
        return Selection(
            reader=scope,
            where=where,
            kinds=None if kinds is None else tuple(kinds),
            source_url=url,
            session=session,
            since=instant(since, "since"),
            until=instant(until, "until"),
            as_of=instant(as_of, "as_of"),
        )

    def _settle(self, scope: Scope) -> None:
        """Let the background finish what it holds of `scope`, which would come back otherwise."""
        self.early_pages.settle()
        if self._runtime is not None:
            self._runtime.settle(scope)

    def _page_taker(self) -> Callable[..., object]:
        """What takes a page for the background, and all that it needs."""
        return cast("MemoryManager", self).runtime.indexer.enqueue_page

    def _judge_later(self, memories: Sequence[Memory]) -> None:
        """Have new memories compared with what they may contradict."""
        for scope in {one.scope for one in memories if may_state(one)}:
            self.judge_later(scope)

    def judge_later(self, scope: Scope) -> None:
        """Have what is new of this owner compared with what it may contradict, in the background.

        Nothing is done when the settings say so; asking twice is asking once.
        """
        if self.settings.judge_new and not self._closed:
            worker = cast("MemoryManager", self).worker
            worker.submit("judge", {}, scope=scope, key="judge")

    def _forget(self) -> None:
        self.index.forget()
        self.embedding.forget()
        if self._runtime is not None:
            self._runtime.forget()

    def _unlearn(self, scope: Scope, gone: Sequence[Memory], *, everything: bool = False) -> None:
        """Take what will be erased out of what was learned, before the files are cleaned (P26)."""
        from agentmem.living.predict import Predictions

        if self._runtime is not None:
            self._runtime.tiers.forget()
            predictions = self._runtime.predictions
        else:
            predictions = Predictions(cast("MemoryManager", self))
        predictions.forget(scope, gone, everything=everything)

    @property
    def telemetry_id(self) -> str:
        """What spans call this memory: the name of its file, without its folder."""
        return self.path.name if self.path is not None else "memory"
