"""What somebody else's interface keeps under keys of its own, as memories of one scope.

Files of a memory tool, items of a store, documents of a vector store: each is one
memory, found by searches and turns like every other. It is pinned, so that no
consolidation merges two keys or forgets one. What is not to be found by its words is
kept as forgotten memories are: in no search, in no turn. And what mem0's `Memory` and
its `MemoryClient` say and are told, over records of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.types import FORGOTTEN_AT, Memory, ScopeLike, is_forgotten
from agentmem.search.intake import read_scope

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager
    from agentmem.search.parts import Calls
    from agentmem.search.results import SearchResults
    from agentmem.stores.values import Version

MOST = 100_000
_BLANK = "blank"
"""Where the metadata keeps a text without a word: a memory says something."""


class Records:
    """Texts with data beside them, each under a key of `kind`."""

    def __init__(self, memory: Calls, scope: ScopeLike, *, kind: str) -> None:
        self.memory = memory
        self.whose = read_scope(scope, {}).whose
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
            self.memory.add(text, kind=self.kind, id=own, metadata=marks, **self.whose)
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
        every = list(memories)
        try:
            return self.memory.delete([one.id for one in every], **self.whose) if every else 0
        except RecordNotFound:  # somebody else took some of them
            return sum(self.delete([one]) for one in every) if len(every) > 1 else 0


def thawed(value: Any) -> Any:
    """Data as it was put: plain dicts and lists."""
    if isinstance(value, Mapping):
        return {name: thawed(item) for name, item in value.items()}
    return [thawed(item) for item in value] if isinstance(value, list | tuple) else value


def text_of(memory: Memory) -> str:
    """The text that was put."""
    return str(memory.metadata.get(_BLANK, memory.text))


# ----------------------------------------------------------------------------
# mem0's dicts.


IDS = ("user_id", "agent_id", "run_id")
_BESIDE = frozenset({"expiration_date", "updated_at"})
"""What is kept in the metadata and stands beside it in mem0's dicts."""


def item(memory: Memory) -> dict[str, Any]:
    """A memory as mem0 gives it; what is not known of it is left out."""
    made, told = memory.created_at.isoformat(), memory.metadata
    beside = {name: getattr(memory.scope, name) for name in IDS}
    if memory.kind == "message":
        named = memory.speaker != memory.origin
        beside |= {"role": memory.origin, "actor_id": memory.speaker if named else None}
    beside["expiration_date"] = told.get("expiration_date")
    return {
        "id": memory.id,
        "memory": memory.text,
        "hash": hashlib.md5(memory.text.encode(), usedforsecurity=False).hexdigest(),
        "metadata": {name: told[name] for name in told if name not in _BESIDE} or None,
        "created_at": made,
        "updated_at": told.get("updated_at", made),
        **{name: value for name, value in beside.items() if value is not None},
    }


def added(memory: Memory) -> dict[str, Any]:
    """What `add` tells of a memory it made."""
    shown = item(memory)
    told = {name: shown.get(name) for name in ("id", "memory", "actor_id", "role")}
    return {**told, "event": "ADD"}


def events(memory: Memory, versions: Sequence[Version]) -> list[dict[str, Any]]:
    """What a memory said, oldest first: ADD, each UPDATE, and DELETE."""
    texts: list[str | None] = [None, *(one.memory.text for one in versions), memory.text]
    moments = [memory.created_at, *(one.replaced_at for one in versions)]
    names = ["ADD"] + ["UPDATE"] * len(versions)
    if memory.deleted_at is not None:
        texts.append(None)
        moments.append(memory.deleted_at)
        names.append("DELETE")
    shown = item(memory)
    return [
        {
            "id": f"{memory.id}:{number}",
            "memory_id": memory.id,
            "old_memory": texts[number],
            "new_memory": texts[number + 1],
            "event": name,
            "created_at": shown["created_at"],
            "updated_at": moments[number].isoformat(),
            "is_deleted": name == "DELETE",
            "actor_id": shown.get("actor_id"),
            "role": shown.get("role"),
        }
        for number, name in enumerate(names)
    ]


def find(memory: MemoryManager, memory_id: str, *, deleted: bool = False) -> Memory:
    """A memory by its id alone, as mem0 asks for it: whose it is was told with the id."""
    for owner in memory.store.upkeep.owners(memory_id):
        with suppress(RecordNotFound):
            return memory.store.get(owner, memory_id, deleted=deleted)
    raise RecordNotFound(memory_id)


def messages_of(said: Any) -> list[dict[str, Any]]:
    """The messages that say something; those without a role or a text are left out, as in mem0."""
    if isinstance(said, str):
        said = [{"role": "user", "content": said}]
    every = [said] if isinstance(said, Mapping) else said
    return [dict(m) for m in every if m.get("role") is not None and m.get("content") is not None]


def marks_of(metadata: Mapping[str, Any] | None, expiration_date: Any) -> dict[str, Any]:
    """The metadata to keep: whose a memory is, is never said there."""
    marks = {name: value for name, value in (metadata or {}).items() if name not in IDS}
    if expiration_date is not None:
        day = expiration_date.date() if isinstance(expiration_date, datetime) else expiration_date
        try:
            marks["expiration_date"] = date.fromisoformat(str(day)).isoformat()
        except ValueError:
            raise InvalidInput(
                "expiration_date", expiration_date, "is no day", remedy="Use YYYY-MM-DD."
            ) from None
    return marks


def unexpired(memory: MemoryManager, where: Mapping[str, Any]) -> dict[str, Any]:
    """The filter `where` without what was to end before today."""
    today = memory.clock.now().date().isoformat()
    alive = [{"NOT": {"expiration_date": "*"}}, {"expiration_date": {"gte": today}}]
    return {"AND": [dict(where), {"OR": alive}]}


def whose_of(said: Mapping[str, Any]) -> dict[str, Any]:
    """The names that were said, as texts; one at least."""
    named = {name: str(value).strip() for name, value in said.items() if value is not None}
    blank = next((name for name, value in named.items() if not value), None)
    if blank is not None or not named:
        raise InvalidInput(
            blank or "user_id", said[blank or "user_id"], "names nobody" if blank else "is missing",
            remedy=f"Say at least one of {', '.join(IDS)}, in filters or beside them.",
        )  # fmt: skip
    return named
