"""The everyday API: one object that wires store, indexes and embedder, and decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, Unpack, cast

from agentmem.base.checks import require_count, require_text
from agentmem.base.config import SearchMode
from agentmem.base.errors import AgentMemError, InvalidInput
from agentmem.base.telemetry import span
from agentmem.base.types import Memory, Whose
from agentmem.memory.adding import Changing
from agentmem.memory.agents import Agents
from agentmem.memory.base import Base
from agentmem.memory.living import Living
from agentmem.memory.sources import Sources
from agentmem.memory.upkeep import MemoryUpkeep
from agentmem.search.intake import Instant, scope_of
from agentmem.search.results import Memories, SearchResults
from agentmem.search.retriever import Request
from agentmem.stores.values import Version

# ----------------------------------------------------------------------------
# Find and read what is remembered.


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
        wanted = top_k if top_k is not None else limit
        usual = self.settings.recall
        request = Request(
            query=query,
            selection=self._selection(
                whose,
                filters,
                kinds=kinds,
                url=url,
                session=session,
                since=since,
                until=until,
                as_of=as_of,
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
            found = self._retriever.search(request)
            told.found(
                len(found),
                [{"id": h.memory.id, "score": h.score, "content": h.memory.text} for h in found]
                if told.wants_records
                else (),
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

    def recent(self, limit: int = 10, **whose: Unpack[Whose]) -> Memories:
        """The newest memories of this reader."""
        return self.get_all(limit=limit, **whose)

    def history(self, memory_id: str, **whose: Unpack[Whose]) -> tuple[Version, ...]:
        """What a memory said before each change, oldest first."""
        return self.store.history(scope_of(whose), require_text(memory_id, "memory_id"))


# ----------------------------------------------------------------------------
# Close it, and what is kept of it.


_log = logging.getLogger(__name__)
_LATE_SECONDS = 5.0


class Closing(Base):
    """How a memory is closed, and the parts that are not of every day."""

    @property
    def upkeep(self) -> MemoryUpkeep:
        """Look after the memory as a whole: check it, copy it, move it."""
        return MemoryUpkeep(cast("MemoryManager", self))

    def users(self) -> Mapping[str | None, int]:
        """How many memories each user has, most first, in the whole store.

        `None` has those that were added without a user's name. It is for who
        runs the store, as `get_stats` without a name is; no reader needs it.
        """
        return self.store.upkeep.users()

    @property
    def sources(self) -> Sources:
        """Remember pages, files and addresses."""
        return Sources(cast("MemoryManager", self))

    @property
    def living(self) -> Living:
        """Learn, consolidate, resolve and predict."""
        return Living(cast("MemoryManager", self))

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


class MemoryManager(Reading, Changing, Closing, Agents):
    """A memory.

    Every call may say whose memory is meant with `user_id`, `project_id`,
    `agent_id` and `run_id`; somebody not named is the one user of a memory
    without users. What is returned, counted, changed or ranked is only what
    that reader may see (P24).
    """
