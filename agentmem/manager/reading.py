"""Find and read what is remembered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentmem.core.checks import require_count, require_text
from agentmem.errors import InvalidInput
from agentmem.manager.base import Base
from agentmem.manager.whose import Instant, scope_of
from agentmem.results import Memories, SearchResults
from agentmem.searches import Request
from agentmem.settings import SearchMode
from agentmem.stores.values import Version
from agentmem.telemetry import span
from agentmem.types import Memory


class Reading(Base):
    """The calls that find and read."""

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        mode: SearchMode | None = None,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        source_url: str | None = None,
        session: str | None = None,
        since: Instant = None,
        until: Instant = None,
        as_of: Instant = None,
        explain: bool = False,
        cold: bool | None = None,
        limit: int | None = None,
        **whose: str | None,
    ) -> SearchResults:
        """The memories that answer `query`, best first, none below `threshold` (P1).

        `limit` is another name for `top_k`. A query without words finds nothing.
        Memories that were put away are searched when the others do not answer
        well, always with `cold=True` and never with `cold=False`.
        """
        if top_k is not None and limit is not None:
            raise InvalidInput("limit", limit, "is top_k said twice", remedy="Give one of them.")
        wanted = top_k if top_k is not None else limit
        settings = self.settings
        request = Request(
            query=query,
            selection=self._selection(
                whose,
                filters,
                kinds=kinds,
                source_url=source_url,
                session=session,
                since=since,
                until=until,
                as_of=as_of,
            ),
            top_k=settings.top_k if wanted is None else wanted,
            threshold=settings.similarity_threshold if threshold is None else threshold,
            mode=mode or settings.search_mode,
            explain=explain,
            cold=cold,
            now=self.clock.now(),
        )
        with span("search_memory", query=query, store_id=self.telemetry_id) as told:
            found = self._retriever.search(request)
            told.found(
                len(found),
                [{"id": h.memory.id, "score": h.score, "content": h.memory.text} for h in found]
                if told.wants_records
                else (),
            )
        return found

    def get(self, memory_id: str, **whose: str | None) -> Memory:
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
        **whose: str | None,
    ) -> Memories:
        """Up to `limit` memories of this reader, newest first; the forgotten ones on request."""
        selection = self._selection(whose, filters, kinds=kinds, as_of=as_of)
        selection = replace(selection, superseded=superseded, forgotten=forgotten)
        return Memories(self.store.recent(selection, limit=require_count(limit, "limit")))

    def recent(self, limit: int = 10, **whose: str | None) -> Memories:
        """The newest memories of this reader."""
        return self.get_all(limit=limit, **whose)  # type: ignore[arg-type]  # the rest are names

    def search_by_source_url(self, url: str, **whose: str | None) -> Memories:
        """Every chunk of a page, in its order."""
        found = self.store.search_by_source_url(scope_of(whose), require_text(url, "url"))
        return Memories(found)

    def history(self, memory_id: str, **whose: str | None) -> tuple[Version, ...]:
        """What a memory said before each change, oldest first."""
        return self.store.history(scope_of(whose), require_text(memory_id, "memory_id"))
