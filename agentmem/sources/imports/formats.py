"""Read the exports of other memory systems: mem0 here, agents, graphs and chats beside it.

Each reader takes JSON values as they were parsed and gives what it finds, one
by one. Fields may be missing and others may be there: what cannot be used is
given as left out with a reason, never raised.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from agentmem.sources.imports.chats import is_chatgpt, is_claude, read_chatgpt, read_claude
from agentmem.sources.imports.graphs import is_part, is_zep, plain_item, read_zep
from agentmem.sources.imports.letta import is_letta, read_letta
from agentmem.sources.imports.values import (
    FIRST_MOMENT,
    ExportedItem,
    Foreign,
    Item,
    Items,
    LeftOut,
    list_in,
    mapping_in,
    moment_in,
    names_in,
    text_in,
)

_MEM0_TEXT = ("memory", "text", "data", "content", "fact")
_MEM0_LISTS = ("results", "memories", "data", "points")
_HISTORY = {"old_memory", "new_memory", "prev_value", "new_value"}
_OWNERS = ("user_id", "agent_id", "run_id")


def detect_source(value: Any) -> Foreign | None:
    """Which system's export a JSON value looks like; `None` when it looks like none."""
    items = value if isinstance(value, list) else [value]
    first = next((item for item in items if isinstance(item, Mapping)), None)
    if first is None:
        return None
    if is_chatgpt(first):
        return "chatgpt"
    if is_claude(first):
        return "claude"
    if is_letta(first):
        return "letta"
    if isinstance(value, Mapping):
        if is_zep(value):
            return "zep"
        inner = list_in(value, *_MEM0_LISTS, "history", "conversations")
        if not inner:
            return "mem0" if isinstance(value.get("results"), list) else None
        return "mem0" if list_in(value, "history") else detect_source(inner)
    first = plain_item(first)
    if "conversations_memory" in first or {"docs", "prompt_template"} & set(first):
        return "claude"
    if "fact" in first and not {"memory", "hash"} & set(first):
        return "zep"
    if is_zep(first) or is_part(first):
        return "zep"
    chat = "role" in first and not {"memory", "hash", "payload"} & set(first)
    if (_mem0_text(first) and not chat) or _HISTORY & set(first):
        return "mem0"
    return None


def reader_of(source: Foreign) -> Callable[[Any], Items]:
    """What reads the exports of `source`."""
    readers: dict[Foreign, Callable[[Any], Items]] = {
        "mem0": read_mem0,
        "letta": read_letta,
        "zep": read_zep,
        "chatgpt": read_chatgpt,
        "claude": read_claude,
    }
    return readers[source]


# -- mem0 ------------------------------------------------------------------------------


def read_mem0(value: Any) -> Items:
    """Memories as `get_all` or an export gives them, with their history where it is there.

    A history alone is enough: the last value holds, the ones before it are
    kept as earlier versions, and what was deleted is left out.
    """
    memories = value if isinstance(value, list) else list_in(value, *_MEM0_LISTS)
    history: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    rows: list[Any] = []
    for item in (*memories, *list_in(value, "history")):
        if isinstance(item, Mapping) and _HISTORY & set(item) and not text_in(item, "memory"):
            history[text_in(item, "memory_id", "id")].append(item)
        else:
            rows.append(item)
    if isinstance(value, Mapping) and not memories and _mem0_text(value):
        rows.append(value)
    users = _openmemory_user(value)
    owners: dict[tuple[tuple[str, str], ...], None] = {}
    known = set()
    for row in rows:
        if not isinstance(row, Mapping):
            yield LeftOut(reason="not an object")
            continue
        key = text_in(row, "id", "uuid")
        known.add(key)
        item = _mem0_memory(row, key, history.get(key, ()), users)
        if isinstance(item, ExportedItem):
            owners[tuple(item.whose.items())] = None
        yield item
    yield from (_mem0_history(key, steps) for key, steps in history.items() if key not in known)
    for relation in list_in(value, "relations"):
        said = [text_in(relation, *names) for names in _RELATION]
        if all(said):
            text = " ".join(part.replace("_", " ") for part in said)
            yield ExportedItem(
                text=text,
                key=f"relation {text}",
                whose=_relation_owner(relation, said, [dict(owner) for owner in owners]),
                metadata={"relation": said[1]},
            )
        else:
            yield LeftOut(reason="a relation without both ends")


def _relation_owner(
    relation: Any, said: list[str], owners: list[dict[str, str]]
) -> Mapping[str, str]:
    """Whose a relation is: whom it names, the one of the memories beside it, or whoever of their
    owners is one of its ends, which mem0 writes as `ana_lopez`."""
    own = names_in(relation, *_OWNERS) | names_in(mapping_in(relation, "metadata"), *_OWNERS)
    if own or len(owners) == 1:
        return own or owners[0]
    ends = {said[0].lower(), said[2].lower()}
    written = [
        {form for name in owner.values() for form in (name.lower(), name.lower().replace(" ", "_"))}
        for owner in owners
    ]
    named = [owner for owner, forms in zip(owners, written, strict=True) if ends & forms]
    return named[0] if len(named) == 1 else {}


def _openmemory_user(value: Any) -> dict[str, str]:
    """The name of the user whose rows have its number in OpenMemory's export."""
    user = mapping_in(value, "user")
    number, name = text_in(user, "id"), text_in(user, "user_id")
    return {number: name} if number and name else {}


_RELATION = (("source",), ("relationship", "relation"), ("target", "destination"))


def _mem0_text(row: Mapping[str, Any]) -> str:
    return text_in(row, *_MEM0_TEXT) or text_in(mapping_in(row, "payload"), *_MEM0_TEXT)


def _mem0_memory(row: Mapping[str, Any], key: str, steps: Any, users: Mapping[str, str]) -> Item:
    payload = mapping_in(row, "payload")
    text = _mem0_text(row)
    state = text_in(row, "state").lower()
    if state == "deleted" or row.get("deleted_at") or row.get("is_deleted") in (1, True):
        return LeftOut(reason="deleted there")
    if state in ("archived", "paused"):
        return LeftOut(reason=f"{state} there")
    if not text:
        return LeftOut(reason="no text")
    kept = {**mapping_in(row, "metadata")}
    for name in ("categories", "app_id", "actor_id", "role", "structured_attributes"):
        if row.get(name):
            kept[name] = row[name]
    whose = names_in(payload, *_OWNERS) | names_in(row, *_OWNERS)
    if users:  # of an OpenMemory: its rows say the number, or nothing
        user = whose.get("user_id", next(iter(users)))
        whose["user_id"] = users.get(user, user)
    return ExportedItem(
        text=text,
        key=key,
        created_at=moment_in(row, "created_at", "updated_at") or moment_in(payload, "created_at"),
        earlier=_mem0_earlier(steps),
        whose=whose,
        metadata=kept,
    )


def _mem0_earlier(steps: Any) -> tuple[tuple[str, datetime | None], ...]:
    """The texts a memory had before, each with when it was changed."""
    changed = [step for step in _in_order(steps) if _old(step) and _event(step) == "UPDATE"]
    return tuple((_old(step), moment_in(step, "updated_at", "created_at")) for step in changed)


def _mem0_history(key: str, steps: list[Mapping[str, Any]]) -> Item:
    ordered = _in_order(steps)
    last = ordered[-1]
    if _event(last) == "DELETE" or last.get("is_deleted") in (1, True):
        return LeftOut(reason="deleted there")
    text = text_in(last, "new_memory", "new_value")
    if not text:
        return LeftOut(reason="no text")
    return ExportedItem(
        text=text,
        key=key,
        created_at=moment_in(ordered[0], "created_at", "updated_at"),
        earlier=_mem0_earlier(ordered),
        whose=names_in(last, *_OWNERS),
    )


def _in_order(steps: Any) -> list[Mapping[str, Any]]:
    return sorted(
        steps, key=lambda step: moment_in(step, "updated_at", "created_at") or FIRST_MOMENT
    )


def _old(step: Mapping[str, Any]) -> str:
    return text_in(step, "old_memory", "prev_value")


def _event(step: Mapping[str, Any]) -> str:
    return text_in(step, "event", "action").upper()
