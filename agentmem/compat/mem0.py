"""mem0's `Memory` and `AsyncMemory` over a memory of ours: the same calls, the same dicts.

A program written for mem0 changes one import. What differs stands in
docs/frameworks/mem0.md; options that mean nothing here are named in one warning.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

import agentmem
from agentmem.base.checks import require_count, require_mapping, require_text
from agentmem.base.errors import AgentMemWarning, InvalidInput, RecordNotFound
from agentmem.base.types import Memory as Record
from agentmem.base.types import Scope
from agentmem.memory.facade import Awaitable, awaited
from agentmem.memory.manager import MemoryManager
from agentmem.sources.indexer import names_of

_IDS = ("user_id", "agent_id", "run_id")
_MOST_OWNERS = 10_000
_PAGE = 20
_BESIDE = frozenset({"expiration_date", "updated_at"})
"""What is kept in the metadata and stands beside it in mem0's dicts."""
_UNSET: Any = object()


class Memory:
    """`Memory()` opens the memory of the user's data folder; `path` or `memory` another."""

    def __init__(
        self,
        config: Any = None,
        *,
        path: str | Path | None = None,
        memory: MemoryManager | None = None,
        **options: Any,
    ) -> None:
        _warn_of({**_said(config), **options}, "of the configuration")
        self._memory = memory if memory is not None else agentmem.open(path)
        self._mine = memory is None
        self._owners: OrderedDict[str, Scope] = OrderedDict()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], **options: Any) -> Self:
        """The same; `options` are those of the constructor."""
        return cls(require_mapping(config_dict, "config_dict"), **options)

    @property
    def memory(self) -> MemoryManager:
        """The memory that all this is kept in, for turns and everything else."""
        return self._memory

    def add(
        self,
        /,
        messages: str | Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = None,
        infer: bool = True,
        **options: Any,
    ) -> dict[str, Any]:
        """Remember messages; with `infer` the facts they state too, each a memory of its own."""
        _warn_of(options, "of add()")
        whose = _whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        marks = _marks(metadata, expiration_date)
        said = list(_messages(messages))
        kept = self._memory.add_messages(said, listen=infer, once=infer, metadata=marks, **whose)
        new = [one.id for one in kept.items if one.event == "ADD"]
        for fact in self._memory.living.learn(said, **whose).added if infer else ():
            told = {**fact.metadata, **marks}
            self._memory.update(fact.id, metadata=told, **names_of(fact.scope))
            new.append(fact.id)
        items = [self._item(self._memory.get(one, **whose)) for one in new]
        fields = ("id", "memory", "actor_id", "role")
        results = [{name: item.get(name) for name in fields} | {"event": "ADD"} for item in items]
        return {"results": results}

    def search(
        self,
        /,
        query: str,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        threshold: float | None = 0.1,
        explain: bool = False,
        show_expired: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """The best memories; whose, is said in `filters` or beside them, as in either version.

        `threshold` is mem0's; None is the memory's own, which lets less through.
        """
        where, limit = self._read("search", filters, top_k, show_expired, options)
        if not require_text(query, "query").strip():
            raise InvalidInput("query", query, "says nothing", remedy="Pass a question.")
        hits = self._memory.search(query, top_k=max(1, limit), threshold=threshold, filters=where)
        results = []
        for hit in hits[:limit]:
            item = {**self._item(hit.memory), "score": hit.score}
            legs = {"lexical": hit.lexical, "vector": hit.vector, "final": hit.score}
            results.append({**item, "score_details": legs} if explain else item)
        return {"results": results}

    def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        show_expired: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """The newest memories of somebody."""
        where, limit = self._read("get_all", filters, top_k, show_expired, options)
        found = [self._item(one) for one in self._memory.get_all(filters=where, limit=limit)]
        return {"results": [{n: item[n] for n in item if n != "score"} for item in found]}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, or None."""
        with suppress(MissingMemory):
            return self._item(self._find(memory_id))
        return None

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = _UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change the text, the metadata or the day it ends; None lets it stand for good."""
        text = data if text is None else text
        if text is None and metadata is None and expiration_date is _UNSET:
            raise InvalidInput("text", None, "is missing", remedy="Say what is to be changed.")
        found = self._find(memory_id)
        now = self._memory.clock.now().isoformat()
        marks = {**found.metadata, **_marks(metadata, None), "updated_at": now}
        if expiration_date is not _UNSET:
            marks.pop("expiration_date", None)
            marks |= _marks(None, expiration_date)
        self._memory.update(found.id, text, metadata=marks, **names_of(found.scope))
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Take one memory out; `MissingMemory`, a ValueError as in mem0, without it."""
        found = self._find(memory_id)
        self._memory.delete(found.id, **names_of(found.scope))
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Take out everything of somebody."""
        whose = _whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        self._memory.delete_all(filters=whose)
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What a memory said, oldest first: ADD, each UPDATE, and DELETE."""
        try:
            found = self._find(memory_id, deleted=True)
        except MissingMemory:
            return []
        versions = self._memory.store.history(found.scope, memory_id)
        texts: list[str | None] = [None, *(one.memory.text for one in versions), found.text]
        moments = [found.created_at, *(one.replaced_at for one in versions)]
        events = ["ADD"] + ["UPDATE"] * len(versions)
        if found.deleted_at is not None:
            texts.append(None)
            moments.append(found.deleted_at)
            events.append("DELETE")
        actor = {name: self._item(found).get(name) for name in ("actor_id", "role")}
        return [
            {
                "id": f"{memory_id}:{number}",
                "memory_id": memory_id,
                "old_memory": texts[number],
                "new_memory": texts[number + 1],
                "event": event,
                "created_at": found.created_at.isoformat(),
                "updated_at": moments[number].isoformat(),
                "is_deleted": event == "DELETE",
                **actor,
            }
            for number, event in enumerate(events)
        ]

    def reset(self) -> None:
        """Erase every private memory of everybody in this store."""
        for user in self._memory.users():
            self._memory.erase_all(user_id=user)
        self._owners.clear()

    def close(self) -> None:
        """Close what this opened."""
        if self._mine:
            self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(
        self,
        call: str,
        filters: Mapping[str, Any] | None,
        top_k: int | None,
        show_expired: bool,
        options: dict[str, Any],
    ) -> tuple[dict[str, Any], int]:
        """Which memories of whom a call means, and how many."""
        named = {name: options.pop(name, None) for name in (*_IDS, "limit")}
        _warn_of(options, f"of {call}()")
        limit = named.pop("limit") if top_k is None else top_k
        chosen = dict(filters or {})
        whose = _whose({name: chosen.pop(name, None) or named[name] for name in _IDS})
        conditions: list[dict[str, Any]] = [{**chosen, **whose}]
        if not show_expired:
            today = self._memory.clock.now().date().isoformat()
            alive = {"expiration_date": {"gte": today}}
            conditions.append({"OR": [{"NOT": {"expiration_date": "*"}}, alive]})
        return {"AND": conditions}, require_count(_PAGE if limit is None else limit, "top_k")

    def _find(self, memory_id: str, *, deleted: bool = False) -> Record:
        """A memory by its id alone, as mem0 asks for it: whose it is was told with the id."""
        store = self._memory.store
        known = self._owners.get(memory_id)
        for owner in ([known] if known else []) + list(store.upkeep.owners()):
            with suppress(RecordNotFound):
                return store.get(owner, memory_id, deleted=deleted)
        raise MissingMemory(memory_id)

    def _item(self, memory: Record) -> dict[str, Any]:
        self._owners[memory.id] = memory.scope
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)
        made, told = memory.created_at.isoformat(), memory.metadata
        item: dict[str, Any] = {
            "id": memory.id,
            "memory": memory.text,
            "hash": hashlib.md5(memory.text.encode(), usedforsecurity=False).hexdigest(),
            "metadata": {name: told[name] for name in told if name not in _BESIDE} or None,
            "score": None,
            "created_at": made,
            "updated_at": told.get("updated_at", made),
        }
        beside = {name: getattr(memory.scope, name) for name in _IDS}
        if memory.kind == "message":
            named = memory.speaker != memory.origin
            beside |= {"role": memory.origin, "actor_id": memory.speaker if named else None}
        beside["expiration_date"] = told.get("expiration_date")
        return item | {name: value for name, value in beside.items() if value is not None}


class AsyncMemory(Awaitable[Memory]):
    """The same, awaited: every call goes to a thread."""

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(Memory(config, **options))

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any], **options: Any) -> Self:
        return cls(require_mapping(config_dict, "config_dict"), **options)

    @property
    def memory(self) -> MemoryManager:
        """The memory that all this is kept in."""
        return self.manager.memory

    add = awaited(Memory.add)
    search = awaited(Memory.search)
    get = awaited(Memory.get)
    get_all = awaited(Memory.get_all)
    update = awaited(Memory.update)
    delete = awaited(Memory.delete)
    delete_all = awaited(Memory.delete_all)
    history = awaited(Memory.history)
    reset = awaited(Memory.reset)

    def close(self) -> None:
        self.manager.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


class MissingMemory(RecordNotFound, ValueError):
    """mem0 raises a ValueError for what is not there."""


def _said(config: Any) -> dict[str, Any]:
    """What a configuration sets: a dict, or a `MemoryConfig` of mem0."""
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    chosen = getattr(config, "model_fields_set", None) or vars(config)
    return {name: getattr(config, name, None) for name in chosen}


def _warn_of(options: Mapping[str, Any], where: str) -> None:
    unused = sorted(name for name, value in options.items() if value not in (None, False))
    if unused:
        warnings.warn(
            f"These options {where} mean nothing here and were left out: {', '.join(unused)}.",
            AgentMemWarning,
            stacklevel=3,
        )


def _messages(messages: Any) -> Iterator[dict[str, Any]]:
    """The messages that say something; those without a role or a text are left out, as in mem0."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    for one in [messages] if isinstance(messages, Mapping) else messages:
        if one.get("role") is not None and one.get("content") is not None:
            yield dict(one)


def _marks(metadata: Mapping[str, Any] | None, expiration_date: Any) -> dict[str, Any]:
    """The metadata to keep: whose a memory is, is never said there."""
    marks = {name: value for name, value in (metadata or {}).items() if name not in _IDS}
    if expiration_date is not None:
        day = expiration_date.date() if isinstance(expiration_date, datetime) else expiration_date
        try:
            marks["expiration_date"] = date.fromisoformat(str(day)).isoformat()
        except ValueError:
            raise InvalidInput(
                "expiration_date", expiration_date, "is no day", remedy="Use YYYY-MM-DD."
            ) from None
    return marks


def _whose(said: Mapping[str, Any]) -> dict[str, Any]:
    """The names that were said, as texts; one at least."""
    named = {name: str(value).strip() for name, value in said.items() if value is not None}
    blank = next((name for name, value in named.items() if not value), None)
    if blank is not None or not named:
        raise InvalidInput(
            blank or "user_id", said[blank or "user_id"], "names nobody" if blank else "is missing",
            remedy=f"Say at least one of {', '.join(_IDS)}, in filters or beside them.",
        )  # fmt: skip
    return named
