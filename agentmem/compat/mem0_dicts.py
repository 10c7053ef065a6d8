"""mem0's dicts: what its `Memory` and its `MemoryClient` say and are told, over records of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from agentmem.base.errors import InvalidInput, RecordNotFound
from agentmem.base.types import Memory
from agentmem.memory.manager import MemoryManager
from agentmem.stores.values import Version

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
