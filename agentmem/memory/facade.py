"""The same memory for callers that await: every call goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from agentmem.memory.manager import MemoryManager

P = ParamSpec("P")
T = TypeVar("T")


def awaited(
    call: Callable[Concatenate[MemoryManager, P], T],
) -> Callable[Concatenate[AsyncMemoryManager, P], Coroutine[Any, Any, T]]:
    """A call of the manager, with its parameters and its documentation, to be awaited."""

    @wraps(call)
    async def run(self: AsyncMemoryManager, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, self.manager, *args, **kwargs)

    return run


class AsyncMemoryManager:
    """A facade over a `MemoryManager`: the same names and arguments, awaited.

    It holds no state of its own, so both may be used side by side.
    """

    def __init__(self, manager: MemoryManager) -> None:
        self.manager = manager

    def __repr__(self) -> str:
        return f"Async{self.manager!r}"

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Any call of the manager on a thread: `await memory.run(memory.manager.verify)`."""
        return await asyncio.to_thread(call, *args, **kwargs)

    add = awaited(MemoryManager.add)
    add_text = awaited(MemoryManager.add_text)
    add_record = awaited(MemoryManager.add_record)
    add_messages = awaited(MemoryManager.add_messages)
    add_document = awaited(MemoryManager.add_document)
    add_chunks = awaited(MemoryManager.add_chunks)
    search = awaited(MemoryManager.search)
    get = awaited(MemoryManager.get)
    get_all = awaited(MemoryManager.get_all)
    recent = awaited(MemoryManager.recent)
    search_by_source_url = awaited(MemoryManager.search_by_source_url)
    history = awaited(MemoryManager.history)
    update = awaited(MemoryManager.update)
    supersede = awaited(MemoryManager.supersede)
    delete = awaited(MemoryManager.delete)
    delete_all = awaited(MemoryManager.delete_all)
    remove_by_source_url = awaited(MemoryManager.remove_by_source_url)
    erase = awaited(MemoryManager.erase)
    sync = awaited(MemoryManager.sync)
    get_stats = awaited(MemoryManager.get_stats)
    backup = awaited(MemoryManager.backup)
    erase_all = awaited(MemoryManager.erase_all)
    verify = awaited(MemoryManager.verify)
    vacuum = awaited(MemoryManager.vacuum)
    reembed = awaited(MemoryManager.reembed)
    export_jsonl = awaited(MemoryManager.export_jsonl)
    import_jsonl = awaited(MemoryManager.import_jsonl)
    import_from = awaited(MemoryManager.import_from)
    turn = awaited(MemoryManager.turn)
    index_page = awaited(MemoryManager.index_page)
    index_path = awaited(MemoryManager.index_path)
    index_url = awaited(MemoryManager.index_url)
    flush = awaited(MemoryManager.flush)
    signal = awaited(MemoryManager.signal)
    predict = awaited(MemoryManager.predict)
    prefetch = awaited(MemoryManager.prefetch)
    assemble_context = awaited(MemoryManager.assemble_context)
    learn = awaited(MemoryManager.learn)
    learn_patterns = awaited(MemoryManager.learn_patterns)
    history_of = awaited(MemoryManager.history_of)
    consolidate = awaited(MemoryManager.consolidate)
    undo = awaited(MemoryManager.undo)
    journal = awaited(MemoryManager.journal)
    bring_back = awaited(MemoryManager.bring_back)
    contradictions = awaited(MemoryManager.contradictions)
    contradiction = awaited(MemoryManager.contradiction)
    resolve = awaited(MemoryManager.resolve)
    merge_from = awaited(MemoryManager.merge_from)
    close = awaited(MemoryManager.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
