"""What the everyday calls give back: typed values that also read like mem0's dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, SupportsIndex, overload

from agentmem.base.types import Hit, Memory, memory_to_dict, quoted
from agentmem.search.embedding import EmbeddingState
from agentmem.stores.values import StoreStats

Event = Literal["ADD", "UPDATE", "NONE", "DELETE"]


def _few(name: str, shown: Sequence[str]) -> str:
    """`Name(3: …, …)`: how many there are and the first two, for a line of a terminal."""
    parts = [*shown[:2], "…"] if len(shown) > 2 else list(shown)
    return f"{name}({len(shown)}: {', '.join(parts)})" if shown else f"{name}(0)"


class Memories(tuple[Memory, ...]):
    """Several memories. `memories["results"]` gives them as dictionaries."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _few("Memories", [quoted(memory.text) for memory in self])

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Memory: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[Memory, ...]: ...
    @overload
    def __getitem__(self, index: Literal["results"], /) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: SupportsIndex | slice | str, /) -> Any:
        if index == "results":
            return [memory_to_dict(memory) for memory in self]
        if isinstance(index, str):
            raise KeyError(index)
        return super().__getitem__(index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One memory that was looked at: what each leg said of it, and what became of it.

    `lexical_raw` is BM25, `vector_raw` the cosine; the calibrated ones lie in
    0–1. Ranks count from 1 within their leg. `boosts` are the parts of the
    score that come from neither leg. `fate` is `returned`, `below threshold`,
    `over top_k`, or `filtered: <which>`.
    """

    id: str
    score: float
    lexical_raw: float | None
    vector_raw: float | None
    lexical: float | None
    vector: float | None
    lexical_rank: int | None
    vector_rank: int | None
    boosts: Mapping[str, float]
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResults(Sequence[Hit]):
    """The hits, best first. `results["results"]` gives them as dictionaries.

    `degradations` names what did not work on the way; `candidates` is filled
    when the search was asked to explain itself. `own_world` is how likely the
    query asks about what these memories are about, from 0 to 1: a turn shows
    no memory for a question about the world at large, however alike it is.
    """

    hits: tuple[Hit, ...] = ()
    own_world: float = 0.0
    degradations: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    def __repr__(self) -> str:
        return _few("SearchResults", [f"{h.score:.2f} {quoted(h.memory.text)}" for h in self.hits])

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    @overload
    def __getitem__(self, index: Literal["results"]) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice | str) -> Any:
        if index == "results":
            return [{**memory_to_dict(hit.memory), "score": hit.score} for hit in self.hits]
        if isinstance(index, str):
            raise KeyError(index)
        return self.hits[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """One memory of an add: `NONE` means that it was there already."""

    id: str
    text: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class AddResult:
    """What an add did. `result["results"]` gives it as dictionaries."""

    items: tuple[Added, ...] = ()
    unchanged: bool = False
    replaced: int = 0
    degradations: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return _few("AddResult", [f"{i.event} {quoted(i.text)}" for i in self.items])

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(item.id for item in self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, key: Literal["results"]) -> list[dict[str, str]]:
        if key != "results":
            raise KeyError(key)
        return [{"id": i.id, "memory": i.text, "event": i.event} for i in self.items]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The size and state of a memory, as one reader sees it."""

    store: StoreStats
    embedding: EmbeddingState

    @property
    def documents(self) -> int:
        return self.store.documents

    @property
    def chunks(self) -> int:
        return self.store.chunks

    @property
    def bytes(self) -> int:
        return self.store.bytes

    def to_dict(self) -> dict[str, Any]:
        """The figures as JSON values."""
        store = self.store
        return {
            "documents": store.documents,
            "chunks": store.chunks,
            "kinds": dict(store.kinds),
            "deleted": store.deleted,
            "superseded": store.superseded,
            "bytes": store.bytes,
            "last_sync": store.last_sync and store.last_sync.isoformat(),
            "jobs": dict(store.jobs),
            "schema_version": store.schema_version,
            "location": store.location,
            "embedder": self.embedding.serving,
            "embedder_wanted": self.embedding.wanted,
            "embedder_ready": self.embedding.ready,
            "embedder_error": self.embedding.error,
            "vectors": {str(c.embedder): c.vectors for c in store.embedders},
            "vectors_missing": {str(c.embedder): c.missing for c in store.embedders},
        }


# ----------------------------------------------------------------------------
# What indexing gives back: one page, or a whole folder.


IndexStatus = Literal["added", "replaced", "unchanged", "empty", "failed"]

Progress = Callable[[int, int, Path], None]
"""Called with how many files are done, how many there are, and the one that comes next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexingResult:
    """What became of one page.

    `empty` is a page without words; what was remembered of it before stays.
    `removed` are the chunks of the older content. `degradations` names what
    did not work although the page was remembered, such as missing vectors.
    """

    url: str
    status: IndexStatus
    title: str = ""
    chunks: int = 0
    removed: int = 0
    tokens: int = 0
    error: str = ""
    duration_ms: float = 0.0
    degradations: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status != "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver:
    """A file or folder that was not remembered, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReport:
    """What became of a file or of everything in a folder.

    `skipped` is what was left out on purpose (binary, ignored, too large),
    `failed` what should have worked. `vanished` are files that were remembered
    earlier and are gone; `pruned` says how many chunks of them were removed.
    """

    root: str
    results: tuple[IndexingResult, ...] = ()
    skipped: tuple[PassedOver, ...] = ()
    failed: tuple[PassedOver, ...] = ()
    vanished: tuple[str, ...] = ()
    pruned: int = 0
    duration_ms: float = 0.0

    @property
    def files(self) -> int:
        """How many files were read and remembered, or were there already."""
        return len(self.results)

    @property
    def added(self) -> int:
        return self._count("added")

    @property
    def replaced(self) -> int:
        return self._count("replaced")

    @property
    def unchanged(self) -> int:
        return self._count("unchanged")

    @property
    def empty(self) -> int:
        return self._count("empty")

    @property
    def chunks(self) -> int:
        """How many chunks were written."""
        return sum(result.chunks for result in self.results)

    def _count(self, status: IndexStatus) -> int:
        return sum(result.status == status for result in self.results)
