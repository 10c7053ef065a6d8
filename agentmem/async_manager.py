"""The same memory for callers that await: every call goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from agentmem.core.living.records import Record
from agentmem.manager import Addable, MemoryManager
from agentmem.results import AddResult, SearchResults, Stats
from agentmem.stores.values import Receipt, Version
from agentmem.types import Document, Memory

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

    async def get_all(self, **options: Any) -> tuple[Memory, ...]:
        return await self.run(self.manager.get_all, **options)

    async def recent(self, limit: int = 10, **whose: str | None) -> tuple[Memory, ...]:
        return await self.run(self.manager.recent, limit, **whose)

    async def search_by_source_url(self, url: str, **whose: str | None) -> tuple[Memory, ...]:
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

    async def close(self) -> None:
        await self.run(self.manager.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
