"""LangGraph's store over one scope of a memory.

An item is a memory of the kind `item`, its namespace and value in the metadata, its
text what the item is to be found by. As in LangGraph's own stores, reads of a batch
see what stood before it, and of several writes of one key the last one counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentmem.base.errors import MissingExtra
from agentmem.base.types import Memory, ScopeLike
from agentmem.compat.records import MOST, Records, thawed

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        get_text_at_path,
        tokenize_path,
    )
    from langgraph.store.base import validate_op_namespace as check_labels
except ModuleNotFoundError as error:
    raise MissingExtra("langgraph", extra="langgraph", purpose="A store for LangGraph") from error

if TYPE_CHECKING:
    from agentmem.memory.manager import MemoryManager

_BETWEEN = "\x1f"
_NEVER_SECONDS = 1_000 * 366 * 86_400.0
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda a, b: a == b,
    "$ne": lambda a, b: a != b,
    "$gt": lambda a, b: float(a) > float(b),
    "$gte": lambda a, b: float(a) >= float(b),
    "$lt": lambda a, b: float(a) < float(b),
    "$lte": lambda a, b: float(a) <= float(b),
}


class MemoryStore(BaseStore):
    """`graph.compile(store=MemoryStore(memory))`.

    All of a store belongs to one scope, `langgraph` unless it is said: a user of its
    own, so that nothing of it enters anybody's turns. Searches by words use the
    memory's embedder and both its indexes. `fields` are what items are found by;
    `ttl` is LangGraph's, in minutes. An item whose time is over is not read, and
    `sweep_ttl` removes it.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: MemoryManager,
        *,
        scope: ScopeLike = "langgraph",
        fields: Iterable[str] = ("$",),
        ttl: TTLConfig | None = None,
    ) -> None:
        self._fields = tuple(fields)
        self._indexed = Records(memory, scope, kind="item")
        self._hidden = Records(memory, scope, kind="item-not-indexed", findable=False)
        self._memory = memory
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        for op in ops:
            check_labels(op)
            found: Result = None
            if isinstance(op, GetOp):
                found = self._get(op)
            elif isinstance(op, SearchOp):
                found = self._search(op)
            elif isinstance(op, ListNamespacesOp):
                found = self._namespaces(op)
            elif isinstance(op, PutOp):
                puts[_key(op.namespace, op.key)] = op
            else:
                raise ValueError(f"Unknown operation type: {type(op)}")
            results.append(found)
        for key, op in puts.items():
            self._put(key, op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        gone = [one for one in self._all(None) if self._is_over(one)]
        for records in (self._indexed, self._hidden):
            records.delete(one for one in gone if one.kind == records.kind)
        return len(gone)

    def _put(self, key: str, op: PutOp) -> None:
        there = [one for records in (self._indexed, self._hidden) if (one := records.get(key))]
        created = there[0].created_at if there and not self._is_over(there[0]) else self._now()
        hidden = op.index is False
        for one in there:
            if op.value is None or hidden != (one.kind == self._hidden.kind):
                (self._hidden if one.kind == self._hidden.kind else self._indexed).delete([one])
        if op.value is None:
            return
        ttl = None if op.ttl is None else op.ttl * 60
        data = {
            "namespace": list(op.namespace),
            "under": [_BETWEEN.join(op.namespace[:n]) for n in range(len(op.namespace) + 1)],
            "name": op.key,
            "value": dict(op.value),
            "created_at": created.isoformat(),
            "updated_at": self._now().isoformat(),
            "ttl": ttl,
            "over_at": self._over_at(ttl),
        }
        records = self._hidden if hidden else self._indexed
        fields = self._fields if op.index is None else op.index or ()
        records.put(key, "" if hidden else _text(op.value, fields), data)

    def _get(self, op: GetOp) -> Item | None:
        key = _key(op.namespace, op.key)
        found = self._indexed.get(key) or self._hidden.get(key)
        if found is None or self._is_over(found):
            return None
        self._refresh([found], op.refresh_ttl)
        return _item(Item, found)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        kept = [
            one
            for one in self._all(op.namespace_prefix)
            if not self._is_over(one) and _passes(one.metadata["value"], op.filter)
        ]
        kept.sort(key=lambda one: (one.metadata["updated_at"], one.id), reverse=True)
        scores: dict[str, float] = {}
        if op.query:
            where = {"metadata.under": {"contains": _BETWEEN.join(op.namespace_prefix)}}
            hits = self._indexed.search(op.query, limit=MOST, where=where)
            scores = {hit.memory.id: hit.score for hit in hits}
            kept.sort(key=lambda one: -scores.get(one.id, -1.0))
        page = kept[op.offset : op.offset + op.limit]
        self._refresh(page, op.refresh_ttl)
        return [_item(SearchItem, one, score=scores.get(one.id)) for one in page]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        there = {tuple(one.metadata["namespace"]) for one in self._all(None)}
        conditions = op.match_conditions or ()
        fitting = {one for one in there if all(_matches(one, each) for each in conditions)}
        cut = {one[: op.max_depth] for one in fitting} if op.max_depth is not None else fitting
        return sorted(cut)[op.offset : op.offset + op.limit]

    def _all(self, prefix: tuple[str, ...] | None) -> list[Memory]:
        where = None
        if prefix:
            where = {"metadata.under": {"contains": _BETWEEN.join(prefix)}}
        return [*self._indexed.all(where), *self._hidden.all(where)]

    def _now(self) -> datetime:
        return self._memory.clock.now()

    def _over_at(self, ttl_seconds: float | None) -> str | None:
        if ttl_seconds is None or ttl_seconds > _NEVER_SECONDS:
            return None
        return (self._now() + timedelta(seconds=ttl_seconds)).isoformat()

    def _is_over(self, memory: Memory) -> bool:
        over_at = memory.metadata.get("over_at")
        return over_at is not None and datetime.fromisoformat(over_at) <= self._now()

    def _refresh(self, memories: Iterable[Memory], wanted: bool) -> None:
        """What is read lives on from now, where LangGraph asks for it."""
        for one in memories:
            ttl = one.metadata.get("ttl")
            if wanted and ttl is not None:
                marks = {**one.metadata, "over_at": self._over_at(ttl)}
                self._memory.update(one.id, metadata=marks, **self._indexed.whose)


def _key(namespace: tuple[str, ...], key: str) -> str:
    return _BETWEEN.join([*namespace, "", key])


def _text(value: Mapping[str, Any], fields: Iterable[str]) -> str:
    """What an item is found by: the texts at its fields, one line each."""
    found: list[str] = []
    for path in fields:
        found += get_text_at_path(value, path if path == "$" else tokenize_path(path))
    return "\n".join(found)


def _item(kind: Any, memory: Memory, **more: Any) -> Any:
    told = memory.metadata
    return kind(
        namespace=tuple(told["namespace"]),
        key=told["name"],
        value=thawed(told["value"]),
        created_at=datetime.fromisoformat(told["created_at"]).astimezone(UTC),
        updated_at=datetime.fromisoformat(told["updated_at"]).astimezone(UTC),
        **more,
    )


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[-len(path) :]
    return all(wanted in ("*", there) for wanted, there in zip(path, part, strict=False))


def _passes(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    return all(_fits(value.get(name), wanted) for name, wanted in (conditions or {}).items())


def _fits(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_compared(there, name, limit) for name, limit in wanted.items())
        return isinstance(there, Mapping) and _passes(there, wanted)
    if isinstance(wanted, list | tuple):
        alike = isinstance(there, list | tuple) and len(there) == len(wanted)
        return alike and all(map(_fits, there, wanted))
    return bool(there == wanted)


def _compared(there: Any, operator: str, limit: Any) -> bool:
    if operator not in _COMPARE:
        raise ValueError(f"Unsupported operator: {operator}")
    if there is None and operator not in ("$eq", "$ne"):
        return False
    return bool(_COMPARE[operator](there, limit))
