"""What somebody else's interface keeps under keys of its own, as memories of one scope.

Files of a memory tool, items of a store, documents of a vector store: each is one
memory, found by searches and turns like every other. It is pinned, so that no
consolidation merges two keys or forgets one. What is not to be found by its words is
kept as forgotten memories are: in no search, in no turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import RecordNotFound
from agentmem.base.types import FORGOTTEN_AT, Memory, ScopeLike, is_forgotten
from agentmem.search.intake import read_scope
from agentmem.sources.indexer import names_of

if TYPE_CHECKING:
    from agentmem.search.parts import Calls
    from agentmem.search.results import SearchResults

MOST = 100_000
_BLANK = "blank"
"""Where the metadata keeps a text without a word: a memory says something."""


class Records:
    """Texts with data beside them, each under a key of `kind`."""

    def __init__(self, memory: Calls, scope: ScopeLike, *, kind: str) -> None:
        self.memory = memory
        self.whose = names_of(read_scope(scope, {}))
        self.kind = kind

    def put(
        self,
        key: str | None,
        text: str,
        data: Mapping[str, Any] | None = None,
        *,
        findable: bool = True,
    ) -> str:
        """Keep `text` under `key`, in the place of what stood there; None is a new one."""
        old = None if key is None else self.get(key)
        key = key or self.memory.ids.new()
        marks: dict[str, Any] = {**(data or {}), "key": key, "pinned": True}
        if not findable:
            marks[FORGOTTEN_AT] = self.memory.clock.now().isoformat()
        if not text.strip():
            text, marks[_BLANK] = f"({self.kind} without a word: {key})", text
        if old is not None and is_forgotten(old) is findable:
            self.delete([old])
            old = None
        if old is not None:
            self.memory.update(old.id, text, metadata=marks, **self.whose)
        else:  # an id of its own, for two keys may say the same
            own = self.memory.ids.new()
            self.memory.add_text(text, kind=self.kind, id=own, metadata=marks, **self.whose)
        return key

    def get(self, key: str) -> Memory | None:
        """What stands under `key`."""
        return next(iter(self.all(keys=[key])), None)

    def all(
        self, where: Mapping[str, Any] | None = None, *, keys: Sequence[str] | None = None
    ) -> list[Memory]:
        """Everything that passes `where`, or stands under `keys`, newest first."""
        if keys is not None:
            where = {**(where or {}), "metadata.key": {"in": list(keys)}}
        found = self.memory.get_all(
            filters=where, kinds=[self.kind], limit=MOST, forgotten=True, **self.whose
        )
        return list(found)

    def search(
        self, query: str, *, limit: int, where: Mapping[str, Any] | None = None
    ) -> SearchResults:
        """The best for `query`, however little they answer it."""
        return self.memory.search(
            query, top_k=limit, threshold=0.0, filters=where, kinds=[self.kind], **self.whose
        )

    def delete(self, memories: Iterable[Memory]) -> int:
        """Take them out; how many of them were there still."""
        ids: Sequence[str] = [one.id for one in memories]
        try:
            return self.memory.delete(ids, **self.whose) if ids else 0
        except RecordNotFound:  # somebody else took some of them
            return sum(self._delete_one(one) for one in ids)

    def _delete_one(self, memory_id: str) -> int:
        try:
            return self.memory.delete(memory_id, **self.whose)
        except RecordNotFound:
            return 0


def thawed(value: Any) -> Any:
    """Data as it was put: plain dicts and lists."""
    if isinstance(value, Mapping):
        return {name: thawed(item) for name, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list | tuple) else value


def text_of(memory: Memory) -> str:
    """The text that was put."""
    return str(memory.metadata.get(_BLANK, memory.text))
