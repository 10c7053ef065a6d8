"""mem0's `Memory` and `AsyncMemory` over a memory of ours: the same calls, the same dicts.

A program written for mem0 changes one import. What differs stands in
docs/frameworks/mem0.md; options that mean nothing here are named in one warning.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, Self

import agentmem
from agentmem.base.checks import require_mapping
from agentmem.base.errors import AgentMemWarning, InvalidInput, RecordNotFound
from agentmem.base.types import Memory as Record
from agentmem.base.types import Scope
from agentmem.memory.facade import Awaitable, awaited
from agentmem.memory.manager import MemoryManager
from agentmem.sources.indexer import names_of

_IDS = ("user_id", "agent_id", "run_id")
_MOST_OWNERS = 10_000
_OURS = frozenset({"expiration_date", "updated_at"})
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
        whose = _whose(user_id, agent_id, run_id)
        said = _messages(messages)
        marks = _marks(metadata, expiration_date)
        kept = self._memory.add_messages(said, listen=infer, once=infer, metadata=marks, **whose)
        results = [
            {"id": one.id, "memory": one.text, "event": one.event}
            for one in kept.items
            if one.event == "ADD"
        ]
        if infer:
            facts = self._memory.living.learn(list(said), **whose).added
            for fact in facts:
                if marks:
                    told = {**fact.metadata, **marks}
                    self._memory.update(fact.id, metadata=told, **names_of(fact.scope))
                results.append({"id": fact.id, "memory": fact.text, "event": "ADD"})
        for result in results:
            self._note_owner(str(result["id"]), Scope(**whose))
        return {"results": results}

    def search(
        self,
        /,
        query: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        threshold: float | None = 0.1,
        explain: bool = False,
        show_expired: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """The best memories; whose, is said in `filters` or beside them, as in either version.

        `threshold` is mem0's; None is the memory's own, which lets less through.
        """
        _warn_of(options, "of search()")
        whose, where = _split(
            filters, (user_id, agent_id, run_id), alive_on=None if show_expired else self._today()
        )
        hits = self._memory.search(
            query,
            top_k=top_k or limit or 20,
            threshold=threshold,
            filters=where,
            explain=explain,
            **whose,
        )
        return {"results": [{**self._item(hit.memory), "score": hit.score} for hit in hits]}

    def get_all(
        self,
        /,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        show_expired: bool = False,
        **options: Any,
    ) -> dict[str, Any]:
        """The newest memories of somebody."""
        _warn_of(options, "of get_all()")
        whose, where = _split(
            filters, (user_id, agent_id, run_id), alive_on=None if show_expired else self._today()
        )
        found = self._memory.get_all(filters=where, limit=top_k or limit or 20, **whose)
        return {"results": [self._item(one) for one in found]}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """One memory, or None."""
        try:
            return self._item(self._find(memory_id))
        except RecordNotFound:
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
        marks = {**found.metadata, **(metadata or {}), "updated_at": self._now().isoformat()}
        if expiration_date is not _UNSET:
            marks.pop("expiration_date", None)
            marks |= _marks(None, expiration_date)
        self._memory.update(found.id, text, metadata=marks, **names_of(found.scope))
        return {"message": "Memory updated successfully!"}

    def delete(self, memory_id: str) -> dict[str, str]:
        """Take one memory out; `RecordNotFound`, a LookupError and a ValueError, without it."""
        try:
            found = self._find(memory_id)
        except RecordNotFound as error:
            raise MissingMemory(memory_id) from error
        self._memory.delete(found.id, **names_of(found.scope))
        return {"message": "Memory deleted successfully!"}

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Take out everything of somebody."""
        whose, where = _split(None, (user_id, agent_id, run_id), alive_on=None)
        self._memory.delete_all(filters=where, **whose)
        return {"message": "Memories deleted successfully!"}

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What a memory said, oldest first: ADD, each UPDATE of the text, and DELETE."""
        try:
            found = self._find(memory_id, deleted=True)
        except RecordNotFound:
            return []
        versions = self._memory.store.history(found.scope, memory_id)
        made = found.created_at.isoformat()
        texts = [(v.memory.text, v.replaced_at.isoformat()) for v in versions]
        told: list[tuple[str, str | None, str | None, str | None]]
        told = [("ADD", None, texts[0][0] if texts else found.text, None)]
        after = [text for text, _ in texts[1:]] + [found.text]
        for (old, at), new in zip(texts, after, strict=True):
            if new != old:
                told.append(("UPDATE", old, new, at))
        if found.deleted_at is not None:
            told.append(("DELETE", found.text, None, found.deleted_at.isoformat()))
        return [
            {
                "id": f"{memory_id}:{number}",
                "memory_id": memory_id,
                "old_memory": old,
                "new_memory": new,
                "event": event,
                "created_at": made,
                "updated_at": at,
                "is_deleted": event == "DELETE",
                "actor_id": None,
                "role": found.speaker or None,
            }
            for number, (event, old, new, at) in enumerate(told)
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

    # -- inside ------------------------------------------------------------------------

    def _now(self) -> datetime:
        return self._memory.clock.now()

    def _today(self) -> str:
        return self._now().date().isoformat()

    def _note_owner(self, memory_id: str, scope: Scope) -> None:
        self._owners[memory_id] = scope
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    def _find(self, memory_id: str, *, deleted: bool = False) -> Record:
        """A memory by its id alone, as mem0 asks for it: whose it is was told with the id."""
        store = self._memory.store
        known = self._owners.get(memory_id)
        for owner in ([known] if known else []) + list(store.upkeep.owners()):
            with suppress(RecordNotFound):
                return store.get(owner, memory_id, deleted=deleted)
        raise RecordNotFound(memory_id)

    def _item(self, memory: Record) -> dict[str, Any]:
        self._note_owner(memory.id, memory.scope)
        made, scope, told = memory.created_at.isoformat(), memory.scope, memory.metadata
        item: dict[str, Any] = {
            "id": memory.id,
            "memory": memory.text,
            "hash": memory.content_hash,
            "metadata": {name: told[name] for name in told if name not in _OURS} or None,
            "score": None,
            "created_at": made,
            "updated_at": told.get("updated_at", made),
        }
        item |= {name: getattr(scope, name) for name in _IDS if getattr(scope, name)}
        if memory.kind == "message":
            item["role"] = memory.speaker
        if "expiration_date" in told:
            item["expiration_date"] = told["expiration_date"]
        return item


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
    """mem0 raises a ValueError for what is not there to delete."""


def _said(config: Any) -> dict[str, Any]:
    """What a configuration sets: a dict, or a `MemoryConfig` of mem0."""
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    chosen = getattr(config, "model_fields_set", None) or vars(config)
    return {name: getattr(config, name, None) for name in chosen}


def _warn_of(options: Mapping[str, Any], where: str) -> None:
    unused = sorted(name for name, value in options.items() if value is not None)
    if unused:
        warnings.warn(
            f"These options {where} mean nothing here and were left out: {', '.join(unused)}.",
            AgentMemWarning,
            stacklevel=3,
        )


def _messages(messages: Any) -> list[dict[str, Any]]:
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [dict(messages)] if isinstance(messages, Mapping) else [dict(one) for one in messages]


def _marks(metadata: Mapping[str, Any] | None, expiration_date: Any) -> dict[str, Any]:
    marks = dict(metadata or {})
    if expiration_date is not None:
        day = expiration_date
        if isinstance(day, datetime):
            day = day.date()
        if not isinstance(day, date):
            try:
                day = date.fromisoformat(str(day))
            except ValueError:
                raise InvalidInput(
                    "expiration_date", expiration_date, "is no day", remedy="Use YYYY-MM-DD."
                ) from None
        marks["expiration_date"] = day.isoformat()
    return marks


def _whose(user_id: Any, agent_id: Any, run_id: Any) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value in zip(_IDS, (user_id, agent_id, run_id), strict=True):
        if value is None:
            continue
        if not isinstance(value, str) or not value.strip():
            raise InvalidInput(name, value, "names nobody", remedy="Pass a text, or leave it out.")
        named[name] = value.strip()
    if not named:
        raise InvalidInput(
            "user_id", None, "is missing",
            remedy=f"Say at least one of {', '.join(_IDS)}, in filters or beside them.",
        )  # fmt: skip
    return named


def _split(
    filters: Mapping[str, Any] | None, given: Sequence[Any], *, alive_on: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Whose memories are meant, and which: an agent or run that is named must be the memory's."""
    rest = dict(filters or {})
    whose = _whose(
        *(rest.pop(name, None) or value for name, value in zip(_IDS, given, strict=True))
    )
    conditions: list[dict[str, Any]] = [rest] if rest else []
    conditions += [{name: whose[name]} for name in ("agent_id", "run_id") if name in whose]
    if alive_on is not None:
        alive = {"expiration_date": {"gte": alive_on}}
        conditions.append({"OR": [{"NOT": {"expiration_date": "*"}}, alive]})
    return whose, {"AND": conditions} if conditions else {}
