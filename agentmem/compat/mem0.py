"""mem0's `Memory` and `AsyncMemory` over a memory of ours: the same calls, the same dicts.

A program written for mem0 changes one import. What differs stands in
docs/frameworks/mem0.md; options that mean nothing here are named in one warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from agentmem.base.checks import require_count, require_mapping, require_text
from agentmem.base.errors import AgentMemWarning, InvalidInput, RecordNotFound
from agentmem.base.types import Memory as Record
from agentmem.compat import records as dicts
from agentmem.memory.facade import Awaitable, awaited
from agentmem.memory.manager import MemoryManager
from agentmem.memory.opening import open as open_memory

_PAGE = 20
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
        self._memory = memory if memory is not None else open_memory(path)
        self._mine = memory is None

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
        whose = dicts.whose_of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        marks = dicts.marks_of(metadata, expiration_date)
        said = dicts.messages_of(messages)
        kept = self._memory.add(said, listen=infer, once=infer, metadata=marks, **whose)
        new = [one.id for one in kept.items if one.event == "ADD"]
        for fact in self._memory.living.learn(said, **whose).added if infer else ():
            told = {**fact.metadata, **marks}
            self._memory.update(fact.id, metadata=told, **fact.scope.whose)
            new.append(fact.id)
        return {"results": [dicts.added(self._memory.get(one, **whose)) for one in new]}

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
            results.append({**dicts.item(hit.memory), "score": hit.score})
            if explain:
                legs = {"lexical": hit.lexical, "vector": hit.vector, "final": hit.score}
                results[-1]["score_details"] = legs
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
        found = self._memory.get_all(filters=where, limit=limit)
        return {"results": [dicts.item(one) for one in found]}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, or None."""
        with suppress(RecordNotFound):
            return {**dicts.item(dicts.find(self._memory, memory_id)), "score": None}
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
        marks = {**found.metadata, **dicts.marks_of(metadata, None), "updated_at": now}
        if expiration_date is not _UNSET:
            marks.pop("expiration_date", None)
            marks |= dicts.marks_of(None, expiration_date)
        self._memory.update(found.id, text, metadata=marks, **found.scope.whose)
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Take one memory out; `MissingMemory`, a ValueError as in mem0, without it."""
        found = self._find(memory_id)
        self._memory.delete(found.id, **found.scope.whose)
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Take out everything of somebody."""
        whose = dicts.whose_of({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        self._memory.delete_all(filters=whose)
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What a memory said, oldest first: ADD, each UPDATE, and DELETE."""
        with suppress(RecordNotFound):
            found = dicts.find(self._memory, memory_id, deleted=True)
            return dicts.events(found, self._memory.store.history(found.scope, memory_id))
        return []

    def reset(self) -> None:
        """Erase every private memory of everybody in this store."""
        for user in self._memory.upkeep.users():
            self._memory.upkeep.erase_all(user_id=user)

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
        named = {name: options.pop(name, None) for name in (*dicts.IDS, "limit")}
        _warn_of(options, f"of {call}()")
        limit = named.pop("limit") if top_k is None else top_k
        chosen = dict(filters or {})
        whose = dicts.whose_of({name: chosen.pop(name, None) or named[name] for name in dicts.IDS})
        where = {**chosen, **whose}
        limit = require_count(_PAGE if limit is None else limit, "top_k")
        return where if show_expired else dicts.unexpired(self._memory, where), limit

    def _find(self, memory_id: str) -> Record:
        try:
            return dicts.find(self._memory, memory_id)
        except RecordNotFound:
            raise MissingMemory(memory_id) from None


class MissingMemory(RecordNotFound, ValueError):
    """mem0 raises a ValueError for what is not there."""


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
