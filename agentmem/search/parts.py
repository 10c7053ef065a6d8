"""What a memory is made of, as the rooms below `memory/` see it.

They take what they use, never a whole manager: `Parts` where a store, a search, an embedder
and a clock do, `Calls` where something is added or searched as a user would.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from agentmem.base.config import MemorySettings, SearchMode
from agentmem.base.errors import InvalidInput
from agentmem.base.protocols import Clock
from agentmem.base.types import Document, Ids, Memory, Scope, Whose
from agentmem.search.intake import Instant
from agentmem.stores.values import NO_SCOPE

if TYPE_CHECKING:
    from agentmem.search.embedding import Embedding
    from agentmem.search.protocol import Search
    from agentmem.search.results import AddResult, Memories, SearchResults
    from agentmem.search.retriever import Retriever
    from agentmem.stores.base import Store

M_co = TypeVar("M_co", covariant=True)


class Queue(Protocol):
    """Takes work for the background."""

    def submit(
        self, kind: str, payload: Mapping[str, Any], *, scope: Scope = NO_SCOPE, key: str = ""
    ) -> bool:
        """Whether it was taken; a job of the same kind, scope and key that waits is enough."""
        ...


class RuntimeParts(Protocol):
    """What the turns of a memory share, as far as others use it."""

    @property
    def worker(self) -> Queue: ...


class Parts(Protocol):
    """The parts of a memory, wired."""

    @property
    def store(self) -> Store: ...
    @property
    def index(self) -> Search: ...
    @property
    def embedding(self) -> Embedding: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def ids(self) -> Ids: ...
    @property
    def settings(self) -> MemorySettings: ...
    @property
    def runtime(self) -> RuntimeParts: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def telemetry_id(self) -> str: ...

    @property
    def retriever(self) -> Retriever: ...


class Calls(Parts, Protocol):
    """The everyday calls of a memory, as far as other rooms make them."""

    def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        threshold: float | None = None,
        mode: SearchMode | None = None,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        by_question: bool = True,
        **whose: Unpack[Whose],
    ) -> SearchResults: ...
    def get_all(
        self,
        *,
        filters: Mapping[str, Any] | None = None,
        kinds: Sequence[str] | None = None,
        limit: int = 100,
        forgotten: bool = False,
        **whose: Unpack[Whose],
    ) -> Memories: ...
    def add(
        self,
        data: str | Sequence[Mapping[str, Any]] | Document,
        *,
        kind: str = ...,
        session: str = ...,
        once: bool = ...,
        listen: bool = ...,
        created_at: Instant = ...,
        metadata: Mapping[str, Any] = ...,
        id: str | None = ...,  # noqa: A002 - the field's own name
        **whose: Unpack[Whose],
    ) -> AddResult: ...
    def update(
        self,
        memory_id: str,
        text: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        **whose: Unpack[Whose],
    ) -> Memory: ...
    def delete(self, memory_id: str | Sequence[str], **whose: Unpack[Whose]) -> int: ...


class Facade(Protocol[M_co]):
    """What stands before a memory for callers of another colour."""

    @property
    def manager(self) -> M_co: ...


def changes_of(memory: Parts, kind: str) -> Hashable:
    """Something that is the same only while no memory of this kind came, changed or went."""
    try:
        mark = memory.index.changes_of(kind)
    except Exception:  # noqa: BLE001 - whoever reads the store next says what is wrong with it
        mark = None
    return ("seq", memory.store.feed.seq()) if mark is None else mark


def judge_later(memory: Parts, scope: Scope) -> None:
    """Have what is new of this owner compared with what it may contradict, in the background.

    Nothing is done when the settings say so; asking twice is asking once.
    """
    if memory.settings.judge_new:
        memory.runtime.worker.submit("judge", {}, scope=scope, key="judge")


def memory_of(given: Any, *, or_none: bool = False) -> Any:
    """The memory itself, also behind its async facade; None only where there may be none."""
    found = getattr(given, "manager", given)
    there = hasattr(found, "search") and hasattr(found, "clock")
    if not there and not (or_none and found is None):
        remedy = f"Pass what agentmem.open() gives{', or None' if or_none else ''}."
        raise InvalidInput("memory", given, "is no memory", remedy=remedy)
    return found
