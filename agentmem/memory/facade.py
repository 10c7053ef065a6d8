"""The same memory for callers that await: every call goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from agentmem.base.types import Document, Memory
from agentmem.living.facts import Record
from agentmem.memory.adding import Addable
from agentmem.memory.manager import MemoryManager
from agentmem.search.results import AddResult, Memories, SearchResults, Stats
from agentmem.stores.values import Receipt, VerifyReport, Version

if TYPE_CHECKING:
    from agentmem.agent.turn import Turn
    from agentmem.living.consolidate import ConsolidationReport
    from agentmem.living.learn import Learned
    from agentmem.living.merge_stores import MergeReport
    from agentmem.living.plans import Contradiction, Resolution
    from agentmem.living.predict import Prediction, SignalKind
    from agentmem.living.settle import Resolved
    from agentmem.living.tiers import Prefetched, TieredContext
    from agentmem.search.results import FolderReport, IndexingResult
    from agentmem.sources.code import LearnedPatterns
    from agentmem.sources.imports.load import ImportSummary
    from agentmem.stores.jsonl import ImportReport
    from agentmem.stores.rules import JournalEntry, Undone


P = ParamSpec("P")
T = TypeVar("T")


class AsyncMemoryManager:
    """A facade over a `MemoryManager`: the same names and arguments, awaited.

    It holds no state of its own, so both may be used side by side.
    """

    def __init__(self, manager: MemoryManager) -> None:
        self.manager = manager

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Any call of the manager on a thread: `await memory.run(memory.manager.verify)`."""
        return await asyncio.to_thread(call, *args, **kwargs)

    async def add(self, data: Addable, **options: Any) -> AddResult:
        return await self.run(self.manager.add, data, **options)

    async def add_text(self, text: str, **options: Any) -> AddResult:
        return await self.run(self.manager.add_text, text, **options)

    async def add_record(self, record: Record, **options: Any) -> AddResult:
        return await self.run(self.manager.add_record, record, **options)

    async def add_messages(self, messages: Sequence[Any], **options: Any) -> AddResult:
        return await self.run(self.manager.add_messages, messages, **options)

    async def add_document(self, document: Document | str, **options: Any) -> AddResult:
        return await self.run(self.manager.add_document, document, **options)

    async def add_chunks(self, chunks: Sequence[str], **options: Any) -> AddResult:
        return await self.run(self.manager.add_chunks, chunks, **options)

    async def search(self, query: str, **options: Any) -> SearchResults:
        return await self.run(self.manager.search, query, **options)

    async def get(self, memory_id: str, **whose: str | None) -> Memory:
        return await self.run(self.manager.get, memory_id, **whose)

    async def get_all(self, **options: Any) -> Memories:
        return await self.run(self.manager.get_all, **options)

    async def recent(self, limit: int = 10, **whose: str | None) -> Memories:
        return await self.run(self.manager.recent, limit, **whose)

    async def search_by_source_url(self, url: str, **whose: str | None) -> Memories:
        return await self.run(self.manager.search_by_source_url, url, **whose)

    async def history(self, memory_id: str, **whose: str | None) -> tuple[Version, ...]:
        return await self.run(self.manager.history, memory_id, **whose)

    async def update(self, memory_id: str, text: str | None = None, **options: Any) -> Memory:
        return await self.run(self.manager.update, memory_id, text, **options)

    async def supersede(self, memory_id: str, text: str, **whose: str | None) -> Memory:
        return await self.run(self.manager.supersede, memory_id, text, **whose)

    async def delete(self, memory_id: str | Sequence[str], **whose: str | None) -> int:
        return await self.run(self.manager.delete, memory_id, **whose)

    async def delete_all(self, **options: Any) -> int:
        return await self.run(self.manager.delete_all, **options)

    async def remove_by_source_url(self, url: str, **whose: str | None) -> int:
        return await self.run(self.manager.remove_by_source_url, url, **whose)

    async def erase(self, memory_id: str | Sequence[str], **whose: str | None) -> Receipt:
        return await self.run(self.manager.erase, memory_id, **whose)

    async def sync(self) -> None:
        await self.run(self.manager.sync)

    async def get_stats(self, **whose: str | None) -> Stats:
        return await self.run(self.manager.get_stats, **whose)

    async def backup(self, path: str | Path) -> None:
        await self.run(self.manager.backup, path)

    async def erase_all(self, **options: Any) -> Receipt:
        return await self.run(self.manager.erase_all, **options)

    async def verify(self) -> VerifyReport:
        return await self.run(self.manager.verify)

    async def vacuum(self) -> None:
        await self.run(self.manager.vacuum)

    async def reembed(self, **options: Any) -> int:
        return await self.run(self.manager.reembed, **options)

    async def export_jsonl(self, path: str | Path, **options: Any) -> int:
        return await self.run(self.manager.export_jsonl, path, **options)

    async def import_jsonl(self, path: str | Path, **options: Any) -> ImportReport:
        return await self.run(self.manager.import_jsonl, path, **options)

    async def import_from(self, path: str | Path, *args: Any, **options: Any) -> ImportSummary:
        return await self.run(self.manager.import_from, path, *args, **options)

    # -- beside a loop ------------------------------------------------------------------

    async def turn(self, messages: Sequence[Any], **options: Any) -> Turn:
        return await self.manager.aturn(messages, **options)

    async def index_page(
        self, content: str | bytes, url: str, *args: Any, **options: Any
    ) -> IndexingResult:
        return await self.run(self.manager.index_page, content, url, *args, **options)

    async def index_path(self, path: str | Path, **options: Any) -> FolderReport:
        return await self.run(self.manager.index_path, path, **options)

    async def index_url(self, url: str, **options: Any) -> IndexingResult:
        return await self.run(self.manager.index_url, url, **options)

    async def flush(self, timeout_seconds: float | None = None) -> bool:
        return await self.run(self.manager.flush, timeout_seconds)

    async def signal(self, kind: SignalKind, value: str, **whose: str | None) -> None:
        await self.run(self.manager.signal, kind, value, **whose)

    async def predict(self, *args: Any, **options: Any) -> tuple[Prediction, ...]:
        return await self.run(self.manager.predict, *args, **options)

    async def prefetch(self, *args: Any, **options: Any) -> Prefetched:
        return await self.run(self.manager.prefetch, *args, **options)

    async def assemble_context(self, *args: Any, **options: Any) -> TieredContext:
        return await self.run(self.manager.assemble_context, *args, **options)

    # -- keeping in order ---------------------------------------------------------------

    async def learn(self, data: Any, **options: Any) -> Learned:
        return await self.run(self.manager.learn, data, **options)

    async def learn_patterns(self, path: str | Path, **options: Any) -> LearnedPatterns:
        return await self.run(self.manager.learn_patterns, path, **options)

    async def history_of(self, key: str, **options: Any) -> tuple[Memory, ...]:
        return await self.run(self.manager.history_of, key, **options)

    async def consolidate(self, **options: Any) -> ConsolidationReport:
        return await self.run(self.manager.consolidate, **options)

    async def undo(self, journal_id: str, **whose: str | None) -> Undone:
        return await self.run(self.manager.undo, journal_id, **whose)

    async def journal(self, limit: int = 20, **whose: str | None) -> tuple[JournalEntry, ...]:
        return await self.run(self.manager.journal, limit, **whose)

    async def bring_back(self, memory_id: str | Sequence[str], **whose: str | None) -> JournalEntry:
        return await self.run(self.manager.bring_back, memory_id, **whose)

    async def contradictions(self, **options: Any) -> tuple[Contradiction, ...]:
        return await self.run(self.manager.contradictions, **options)

    async def contradiction(self, contradiction: str, **whose: str | None) -> Contradiction:
        return await self.run(self.manager.contradiction, contradiction, **whose)

    async def resolve(self, contradiction: str, resolution: Resolution, **options: Any) -> Resolved:
        return await self.run(self.manager.resolve, contradiction, resolution, **options)

    async def merge_from(self, path: str | Path | None = None, **options: Any) -> MergeReport:
        return await self.run(self.manager.merge_from, path, **options)

    async def close(self) -> None:
        await self.run(self.manager.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
