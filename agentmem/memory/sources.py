"""Remember pages, files, addresses and code: where knowledge comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from agentmem.base.checks import require_count, require_text
from agentmem.base.types import Whose
from agentmem.search.intake import scope_of
from agentmem.search.results import FolderReport, IndexingResult, Memories
from agentmem.search.results import Progress as FolderProgress

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager
    from agentmem.sources.code import LearnedPatterns
    from agentmem.sources.fetch import FetchLimits

LIMIT_BYTES = 20_000_000
"""Larger files are refused unless the caller allows more."""


class Sources:
    """The calls that remember pages, files and addresses: `memory.sources`."""

    def __init__(self, memory: MemoryManager) -> None:
        self._memory = memory

    def index_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> IndexingResult:
        """Remember a page now, HTML or text; what went wrong is in the result."""
        return self._memory.runtime.indexer.index_page(content, url, title, **whose)

    def enqueue_page(
        self, content: str | bytes, url: str, title: str = "", **whose: Unpack[Whose]
    ) -> bool:
        """Remember a page in the background; returns at once and never raises."""
        early, sound = self._memory.early_pages, isinstance(content, str | bytes)
        if sound and (early.busy or self._memory._runtime is None) and not self._memory._closed:
            # The first must not wait for what it loads.
            early.call(content, url, title, at=self._memory.clock.now(), **whose)
            return True
        return self._memory.runtime.indexer.enqueue_page(content, url, title, **whose)

    def index_path(
        self,
        path: str | Path,
        *,
        progress: FolderProgress | None = None,
        prune: bool = False,
        limit_bytes: int = LIMIT_BYTES,
        **whose: Unpack[Whose],
    ) -> FolderReport:
        """Remember a file, or every readable file of a folder."""
        return self._memory.runtime.indexer.index_path(
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
        return self._memory.runtime.indexer.index_url(
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
            self._memory,
            path,
            scope=scope_of(whose),
            predictions=lambda: self._memory.runtime.predictions,
            languages=languages,
        )

    def search_by_url(
        self, url: str, *, limit: int | None = None, **whose: Unpack[Whose]
    ) -> Memories:
        """Every chunk of a page, or the first `limit` of them, in its order."""
        if limit is not None:
            require_count(limit, "limit")
        found = self._memory.store.search_by_source_url(scope_of(whose), require_text(url, "url"))
        return Memories(found[:limit])

    def remove_by_url(self, url: str, **whose: Unpack[Whose]) -> int:
        """Delete every chunk of a page."""
        scope = scope_of(whose)
        return self._memory.store.remove_by_source_url(
            scope, require_text(url, "url"), at=self._memory.clock.now()
        )
