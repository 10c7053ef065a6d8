"""LangGraph's store over one scope of a memory.

An item is a memory of the kind `item`, its namespace and value in the metadata, its
text what the item is to be found by. As in LangGraph's own stores, reads of a batch
see what stood before it, and of several writes of one key the last one counts.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agentmem.base.errors import MissingExtra
from agentmem.base.types import Memory, ScopeLike
from agentmem.compat.records import MOST, Records, thawed
from agentmem.memory.manager import MemoryManager

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

_BETWEEN = "\x1f"
_NEVER_SECONDS = 1_000 * 366 * 86_400.0
_COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


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
        self._records = Records(memory, scope, kind="item")
        self._writing = threading.Lock()
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        reads: dict[type, Any] = {
            GetOp: self._get, SearchOp: self._search, ListNamespacesOp: self._namespaces
        }  # fmt: skip
        for op in ops:
            check_labels(op)
            if isinstance(op, PutOp):
                puts[_key(op.namespace, op.key)] = op
            elif type(op) not in reads:
                raise ValueError(f"Unknown operation type: {type(op)}")
            results.append(None if isinstance(op, PutOp) else reads[type(op)](op))
        with self._writing:  # two that write one new key would each add it
            for key, op in puts.items():
                self._put(key, op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Remove the items whose time is over; how many there were."""
        return self._records.delete(one for one in self._records.all() if self._is_over(one))

    def _put(self, key: str, op: PutOp) -> None:
        old, now = self._records.get(key), self._now()
        if op.value is None:
            self._records.delete([] if old is None else [old])
            return
        ttl = None if op.ttl is None else op.ttl * 60
        alive = old is not None and not self._is_over(old)
        data = {
            "namespace": list(op.namespace),
            "under": [_BETWEEN.join(op.namespace[:n]) for n in range(len(op.namespace) + 1)],
            "name": op.key,
            "value": dict(op.value),
            "created_at": old.metadata["created_at"] if old and alive else now.isoformat(),
            "updated_at": now.isoformat(),
            "ttl": ttl,
            "over_at": self._over_at(ttl),
        }
        findable = op.index is not False
        fields = self._fields if op.index is None else op.index or ()
        self._records.put(key, _text(op.value, fields), data, findable=findable)

    def _get(self, op: GetOp) -> Item | None:
        found = self._records.get(_key(op.namespace, op.key))
        if found is None or self._is_over(found):
            return None
        self._refresh([found], op.refresh_ttl)
        return _item(Item, found)

    def _search(self, op: SearchOp) -> list[SearchItem]:
        where = {"metadata.under": {"contains": _BETWEEN.join(op.namespace_prefix)}}
        kept = [
            one
            for one in self._records.all(where)
            if not self._is_over(one) and _passes(one.metadata["value"], op.filter)
        ]
        kept.sort(key=lambda one: (one.metadata["updated_at"], one.id), reverse=True)
        scores: dict[str, float] = {}
        if op.query:
            hits = self._records.search(op.query, limit=MOST, where=where)
            scores = {hit.memory.id: hit.score for hit in hits}
            kept.sort(key=lambda one: -scores.get(one.id, -1.0))
        page = kept[op.offset : op.offset + op.limit]
        self._refresh(page, op.refresh_ttl)
        return [_item(SearchItem, one, score=scores.get(one.id)) for one in page]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        there = {tuple(one.metadata["namespace"]) for one in self._records.all()}
        conditions = op.match_conditions or ()
        fitting = {one for one in there if all(_matches(one, each) for each in conditions)}
        cut = {one[: op.max_depth] for one in fitting} if op.max_depth is not None else fitting
        return sorted(cut)[op.offset : op.offset + op.limit]

    def _now(self) -> datetime:
        return self._records.memory.clock.now()

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
                self._records.memory.update(one.id, metadata=marks, **self._records.whose)


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


def _compared(there: Any, name: str, limit: Any) -> bool:
    if name in ("$eq", "$ne"):
        return (there == limit) is (name == "$eq")
    if name not in _COMPARE:
        raise ValueError(f"Unsupported operator: {name}")
    return there is not None and bool(_COMPARE[name](float(there), float(limit)))
