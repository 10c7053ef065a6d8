"""The same memory for callers that await: every call goes to a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from agentmem.living.preferences import PreferenceStore
from agentmem.memory.manager import MemoryManager
from agentmem.memory.parts import Living, MemoryUpkeep, Sources

P = ParamSpec("P")
T = TypeVar("T")
M_co = TypeVar("M_co", covariant=True)


class Awaitable(Generic[M_co]):
    """A manager, or a part of one, whose calls are awaited."""

    def __init__(self, manager: M_co) -> None:
        self._of = manager

    @property
    def manager(self) -> M_co:
        """What is called, on a thread."""
        return self._of

    def __repr__(self) -> str:
        return f"Async{self.manager!r}"


def awaited(
    call: Callable[Concatenate[M_co, P], T],
) -> Callable[Concatenate[Awaitable[M_co], P], Coroutine[Any, Any, T]]:
    """A call, with its parameters and its documentation, to be awaited."""

    @wraps(call)
    async def run(self: Awaitable[M_co], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(call, self.manager, *args, **kwargs)

    return run


class AsyncUpkeep(Awaitable[MemoryUpkeep]):
    """`memory.upkeep`, awaited."""

    erase_all = awaited(MemoryUpkeep.erase_all)
    get_stats = awaited(MemoryUpkeep.get_stats)
    users = awaited(MemoryUpkeep.users)
    verify = awaited(MemoryUpkeep.verify)
    sync = awaited(MemoryUpkeep.sync)
    backup = awaited(MemoryUpkeep.backup)
    vacuum = awaited(MemoryUpkeep.vacuum)
    reembed = awaited(MemoryUpkeep.reembed)
    export_jsonl = awaited(MemoryUpkeep.export_jsonl)
    import_jsonl = awaited(MemoryUpkeep.import_jsonl)
    import_from = awaited(MemoryUpkeep.import_from)
    merge_from = awaited(MemoryUpkeep.merge_from)


class AsyncSources(Awaitable[Sources]):
    """`memory.sources`, awaited; what only queues is called on `memory.manager.sources`."""

    add_document = awaited(Sources.add_document)
    index_page = awaited(Sources.index_page)
    index_path = awaited(Sources.index_path)
    index_url = awaited(Sources.index_url)
    learn_patterns = awaited(Sources.learn_patterns)
    search_by_url = awaited(Sources.search_by_url)
    remove_by_url = awaited(Sources.remove_by_url)


class AsyncPreferences(Awaitable[PreferenceStore]):
    """`memory.preferences`, awaited."""

    add = awaited(PreferenceStore.add)
    detect = awaited(PreferenceStore.detect)
    listen = awaited(PreferenceStore.listen)
    get_all = awaited(PreferenceStore.get_all)
    remove = awaited(PreferenceStore.remove)
    undo = awaited(PreferenceStore.undo)
    clear = awaited(PreferenceStore.clear)


class AsyncLiving(Awaitable[Living]):
    """`memory.living`, awaited."""

    learn = awaited(Living.learn)
    history_of = awaited(Living.history_of)
    consolidate = awaited(Living.consolidate)
    supersede = awaited(Living.supersede)
    undo = awaited(Living.undo)
    journal = awaited(Living.journal)
    bring_back = awaited(Living.bring_back)
    contradictions = awaited(Living.contradictions)
    contradiction = awaited(Living.contradiction)
    resolve = awaited(Living.resolve)
    signal = awaited(Living.signal)
    predict = awaited(Living.predict)
    prefetch = awaited(Living.prefetch)
    assemble_context = awaited(Living.assemble_context)


class AsyncMemoryManager(Awaitable[MemoryManager]):
    """A facade over a `MemoryManager`: the same names and arguments, awaited.

    It holds no state of its own, so both may be used side by side.
    """

    @property
    def upkeep(self) -> AsyncUpkeep:
        """Look after the memory as a whole."""
        return AsyncUpkeep(self.manager.upkeep)

    @property
    def sources(self) -> AsyncSources:
        """Remember pages, files and addresses."""
        return AsyncSources(self.manager.sources)

    @property
    def living(self) -> AsyncLiving:
        """Learn, consolidate, resolve and predict."""
        return AsyncLiving(self.manager.living)

    @property
    def preferences(self) -> AsyncPreferences:
        """What users told about themselves."""
        return AsyncPreferences(self.manager.preferences)

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Any call of the manager on a thread: `await memory.run(memory.manager.upkeep.verify)`."""
        return await asyncio.to_thread(call, *args, **kwargs)

    add = awaited(MemoryManager.add)
    search = awaited(MemoryManager.search)
    get = awaited(MemoryManager.get)
    get_all = awaited(MemoryManager.get_all)
    history = awaited(MemoryManager.history)
    update = awaited(MemoryManager.update)
    delete = awaited(MemoryManager.delete)
    delete_all = awaited(MemoryManager.delete_all)
    erase = awaited(MemoryManager.erase)
    turn = awaited(MemoryManager.turn)
    flush = awaited(MemoryManager.flush)
    close = awaited(MemoryManager.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
