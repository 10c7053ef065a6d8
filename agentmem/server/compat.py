"""Other people's clients: mem0's `MemoryClient`, and what searches OpenAI's vector stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from agentmem.base.errors import InvalidInput, NotPermitted, RecordNotFound
from agentmem.base.filters import Selection
from agentmem.base.types import Memory, Scope, Whose, memory_to_dict
from agentmem.compat.records import events, find, item, marks_of, unexpired
from agentmem.search.intake import scope_and_filter
from agentmem.server.api import MOST, RequestScope
from agentmem.server.wire import Operation

_TYPES = {"user": "user_id", "agent": "agent_id", "app": "project_id", "run": "run_id"}
"""What mem0 calls an entity, and which of our names it is."""


def read_mem0(said: dict[str, Any]) -> dict[str, Any]:
    """A request of mem0's client in our words: an app is a project, `*` names nobody.

    What it calls its organisation and project is what `ping` told it.
    """
    told = ("org_id", "project_id")
    found = {_ours(name): value for name, value in said.items() if name not in told}
    if isinstance(found.get("filters"), Mapping):
        found["filters"] = _renamed(found["filters"])
    for name in ("page", "page_size"):
        if isinstance(found.get(name), str) and found[name].isdecimal():
            found[name] = int(found[name])
    return {name: value for name, value in found.items() if value is not None}


def _ours(name: str) -> str:
    return "project_id" if name == "app_id" else name


def _renamed(filters: Any) -> Any:
    if isinstance(filters, list):
        return [_renamed(one) for one in filters]
    if not isinstance(filters, Mapping):
        return filters
    return {
        _ours(name): _renamed(value) if name.upper() in ("AND", "OR", "NOT") else value
        for name, value in filters.items()
        if not (_ours(name) in Scope.__slots__ and value == "*")
    }


def ping(asked: RequestScope) -> Mapping[str, Any]:
    """Whether the token is good."""
    return {"status": "ok", "org_id": "agentmem", "project_id": "default", "user_email": None}


def add(
    asked: RequestScope,
    *,
    messages: list[dict[str, Any]],
    metadata: dict[str, Any] | None = None,
    expiration_date: str | None = None,
    infer: bool = True,
) -> Mapping[str, Any]:
    """Remember messages; without `infer` word for word, with nothing heard in them."""
    added = asked.memory.add(
        messages,
        listen=infer,
        once=infer,
        metadata=marks_of(metadata, expiration_date),
        **asked.names,
    )
    return {"results": added["results"], "message": "Remembered.", "status": "SUCCEEDED"}


def search(
    asked: RequestScope,
    *,
    query: str,
    filters: dict[str, Any] | None = None,
    top_k: int = 10,
    threshold: float | None = None,
) -> Mapping[str, Any]:
    """Find memories."""
    where = unexpired(asked.memory, filters or {})
    found = asked.memory.search(
        query, top_k=top_k, threshold=threshold, filters=where, **asked.names
    )
    return {"results": [{**_item(hit.memory), "score": hit.score} for hit in found]}


def list_all(
    asked: RequestScope,
    *,
    filters: dict[str, Any] | None = None,
    page: int = 1,
    page_size: int = 100,
) -> Mapping[str, Any]:
    """A page of memories, newest first."""
    if not (1 <= page <= 10_000 and 1 <= page_size <= MOST):
        raise InvalidInput("page", page, f"or its size is not from 1 to {MOST:,}")
    filters = unexpired(asked.memory, filters or {})
    found = asked.memory.get_all(filters=filters, limit=page * page_size + 1, **asked.names)
    shown = found[(page - 1) * page_size : page * page_size]
    reader, where = scope_and_filter(asked.names, filters)
    more = len(found) > page * page_size
    return {
        "count": asked.memory.store.count(Selection(reader=reader, where=where)),
        "next": f"?page={page + 1}&page_size={page_size}" if more else None,
        "previous": f"?page={page - 1}&page_size={page_size}" if page > 1 else None,
        "results": [_item(one) for one in shown],
    }


def _item(memory: Memory) -> dict[str, Any]:
    """A memory as mem0 gives it, and what we say of one."""
    more: dict[str, Any] = {"app_id": memory.scope.project_id, "categories": []}
    return {**memory_to_dict(memory), **item(memory), **more}


def _owned(asked: RequestScope, memory_id: str, *, deleted: bool = False) -> tuple[Memory, Whose]:
    """A memory and the names it is seen under; an admin who names nobody means its owner."""
    if asked.grant.reader(asked.scope) is None:
        found = find(asked.memory, memory_id, deleted=deleted)
        return found, found.scope.whose
    return asked.memory.store.get(asked.scope, memory_id, deleted=deleted), asked.scope.whose


def get(asked: RequestScope, *, memory_id: str) -> Mapping[str, Any]:
    """One memory."""
    return _item(_owned(asked, memory_id)[0])


def update(
    asked: RequestScope,
    *,
    memory_id: str,
    text: str | None = None,
    metadata: dict[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Change what a memory says."""
    names = _owned(asked, memory_id)[1]
    return _item(asked.memory.update(memory_id, text, metadata=metadata, **names))


def delete(asked: RequestScope, *, memory_id: str) -> Mapping[str, Any]:
    """Take a memory out of every read."""
    asked.memory.delete(memory_id, **_owned(asked, memory_id)[1])
    return {"message": "Memory deleted successfully!"}


def history(asked: RequestScope, *, memory_id: str) -> list[dict[str, Any]]:
    """What a memory said, oldest first: ADD, each UPDATE, and DELETE."""
    found, names = _owned(asked, memory_id, deleted=True)
    return events(found, asked.memory.history(memory_id, **names))


def delete_all(asked: RequestScope) -> Mapping[str, Any]:
    """Delete everything of who is named."""
    if asked.scope == Scope():
        raise InvalidInput("user_id", None, "is missing", remedy="Say whose memories are meant.")
    asked.memory.delete_all(**asked.names)
    return {"message": "Memories deleted successfully!"}


def entities(asked: RequestScope) -> Mapping[str, Any]:
    """Whose memories there are."""
    counts: dict[str | None, int]
    if asked.grant.admin:
        counts = dict(asked.memory.upkeep.users())
    else:
        user = asked.scope.user_id
        counts = {user: asked.memory.store.upkeep.stats(asked.scope).chunks}
    found = [
        {"id": name, "name": name, "type": "user", "total_memories": count}
        for name, count in counts.items()
        if name is not None and count
    ]
    return {"count": len(found), "next": None, "previous": None, "results": found}


def delete_entity(asked: RequestScope, *, entity_type: str, name: str) -> Mapping[str, Any]:
    """Delete everything of a user, agent, app or run."""
    if entity_type not in _TYPES:
        raise InvalidInput("entity_type", entity_type, "is unknown", remedy=", ".join(_TYPES))
    try:
        scope = asked.grant.narrowed(Scope(**{_TYPES[entity_type]: name}))
    except NotPermitted:
        raise RecordNotFound(name, what=entity_type) from None
    asked.memory.delete_all(**scope.whose)
    return {"message": "Entity deleted successfully!"}


def _each(call: Callable[..., Any], asked: RequestScope, memories: list[dict[str, Any]]) -> int:
    if not 1 <= len(memories) <= MOST:
        raise InvalidInput("memories", len(memories), f"are not from 1 to {MOST:,}")
    known = ("memory_id", "text", "metadata")
    for one in memories:
        if not isinstance(one.get("memory_id"), str):
            raise InvalidInput("memory_id", one.get("memory_id"), "is no id")
        _owned(asked, one["memory_id"])  # before anything is changed
    for one in memories:
        call(asked, **{name: one[name] for name in known if name in one})
    return len(memories)


def batch_update(asked: RequestScope, *, memories: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Change several memories."""
    return {"message": f"Successfully updated {_each(update, asked, memories)} memories"}


def batch_delete(asked: RequestScope, *, memories: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Delete several memories."""
    ids = [{"memory_id": one.get("memory_id")} for one in memories]
    return {"message": f"Successfully deleted {_each(delete, asked, ids)} memories"}


# ----------------------------------------------------------------------------
# OpenAI's search of a vector store.


def search_store(
    asked: RequestScope,
    *,
    store_id: str,
    query: str | list[str],
    max_num_results: int = 10,
    filters: dict[str, Any] | None = None,
    ranking_options: dict[str, Any] | None = None,
) -> Mapping[str, Any]:
    """Search as if it were a vector store: `default` is the token's own, another id a user's."""
    if not 1 <= max_num_results <= 50:
        raise InvalidInput("max_num_results", max_num_results, "is not from 1 to 50")
    if store_id != "default":
        try:
            asked = replace(asked, scope=asked.grant.narrowed(Scope(user_id=store_id)))
        except NotPermitted:
            raise RecordNotFound(store_id, what="vector store") from None
    threshold = (ranking_options or {}).get("score_threshold")
    queries = [query] if isinstance(query, str) else query
    best: dict[str, tuple[float, Memory]] = {}
    for one in queries:
        found = asked.memory.search(
            one,
            top_k=max_num_results,
            threshold=float(threshold) if isinstance(threshold, int | float) else None,
            filters=filters,
            **asked.names,
        )
        for hit in found:
            if hit.memory.id not in best or hit.score > best[hit.memory.id][0]:
                best[hit.memory.id] = (hit.score, hit.memory)
    ranked = sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))[:max_num_results]
    return {
        "object": "vector_store.search_results.page",
        "search_query": queries,
        "data": [_result(kept, score) for score, kept in ranked],
        "has_more": False,
        "next_page": None,
    }


def _result(memory: Memory, score: float) -> dict[str, Any]:
    told = {
        name: v for name, v in memory.metadata.items() if isinstance(v, str | bool | int | float)
    }
    attributes = {"kind": memory.kind, "url": memory.source_url, **told}
    return {
        "file_id": memory.id,
        "filename": memory.title or memory.source_url or memory.kind,
        "score": score,
        "attributes": dict(list(attributes.items())[:16]),
        "content": [{"type": "text", "text": memory.text}],
    }


def read_openai(said: dict[str, Any]) -> dict[str, Any]:
    """A request of OpenAI's client in our words; what litellm leaves open it sends as null."""
    given = {name: value for name, value in said.items() if value is not None}
    filters = given.get("filters")
    return {**given, "filters": _condition(filters)} if isinstance(filters, Mapping) else given


def _condition(written: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's filter as ours; the user is the store's, whatever it names."""
    kind = written.get("type")
    inner = written.get("filters")
    if kind in ("and", "or") and isinstance(inner, list):
        return {kind.upper(): [_condition(one) for one in inner if isinstance(one, Mapping)]}
    key = written.get("key")
    if not isinstance(key, str) or not isinstance(kind, str):
        raise InvalidInput("filters", written, "is no filter", remedy="Give type, key and value.")
    if key in Scope.__slots__:
        raise InvalidInput("filters", key, "is not filtered by", remedy="The token says whose.")
    return {key: {kind: written.get("value")}}


def _on(method: str, path: str, call: Callable[..., Any], *, bare: bool = False) -> Operation:
    return Operation(method=method, path=path, call=call, adapt=read_mem0, bare=bare)


OPERATIONS = (
    _on("GET", "/v1/ping/", ping),
    _on("POST", "/v3/memories/add/", add),
    _on("POST", "/v3/memories/search/", search),
    _on("POST", "/v3/memories/", list_all),
    _on("GET", "/v1/memories/{memory_id}/", get),
    _on("PUT", "/v1/memories/{memory_id}/", update),
    _on("DELETE", "/v1/memories/{memory_id}/", delete),
    _on("GET", "/v1/memories/{memory_id}/history/", history, bare=True),
    _on("DELETE", "/v1/memories/", delete_all),
    _on("GET", "/v1/entities/", entities),
    _on("DELETE", "/v2/entities/{entity_type}/{name}/", delete_entity),
    _on("PUT", "/v1/batch/", batch_update),
    _on("DELETE", "/v1/batch/", batch_delete),
    Operation(
        method="POST",
        path="/v1/vector_stores/{store_id}/search",
        call=search_store,
        adapt=read_openai,
    ),
)
