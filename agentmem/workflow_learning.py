"""Learn workflows from turns whose tool calls worked, in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentmem.core.content import content_hash
from agentmem.core.filters import Compare, Selection
from agentmem.core.living.records import Workflow, from_memory, to_memory_fields
from agentmem.core.living.workflows import (
    Call,
    Learned,
    learn,
    read_run,
    run_from_json,
    run_to_json,
    same_workflow,
)
from agentmem.core.strip import strip
from agentmem.errors import InvalidInput, RecordNotFound
from agentmem.predicting import Predictions, pack, unpack
from agentmem.runtime import LEARN_WORKFLOW
from agentmem.stores.derived import DERIVED
from agentmem.stores.values import Link
from agentmem.types import Memory, Scope

if TYPE_CHECKING:
    from agentmem.manager import MemoryManager

MOST_WORKFLOWS = 200
_SEEN = 20
"""So many runs are known by their id: a job may be done twice."""


class Workflows:
    """What worked before, for each user and project."""

    def __init__(self, memory: MemoryManager, predictions: Predictions) -> None:
        self._memory = memory
        self._predictions = predictions

    def remember(
        self, goal: str, calls: Sequence[Call], scope: Scope, *, results: Sequence[str] = ()
    ) -> bool:
        """Learn from a turn in the background; whether there was anything to learn from.

        `results` are the ids of what the calls gave.
        """
        run = read_run(goal, calls)
        if run is None:
            return False
        payload = {
            "id": self._memory.ids.new(),
            "goal": run.goal,
            "said": content_hash(strip(goal)),
            "results": list(results),
            "calls": [[call.tool, dict(call.arguments)] for call in run.calls],
        }
        return self._memory.worker.submit(LEARN_WORKFLOW, payload, scope=scope)

    def learn(self, payload: Mapping[str, Any], scope: Scope) -> None:
        """Do what `remember` asked for."""
        calls = [Call(tool=tool, arguments=dict(given)) for tool, given in payload["calls"]]
        run = read_run(str(payload["goal"]), calls)
        if run is None:
            return
        while True:
            raw = self._predictions.get_kept("runs", scope)
            kept = _read_kept(raw)
            seen = [str(one) for one in kept.get("seen", ())]
            if payload["id"] in seen:
                return
            before = [run for run in map(run_from_json, kept.get("runs", ())) if run is not None]
            learned, after = learn(run, before, digest=self._predictions.digest)
            if learned is not None:
                self._link(self._keep(learned, scope), payload, scope)
            value = {
                "runs": [run_to_json(one) for one in after],
                "seen": [*seen, payload["id"]][-_SEEN:],
            }
            if self._predictions.replace_kept("runs", raw, pack(value), scope):
                return  # nobody else learned meanwhile

    def _keep(self, learned: Learned, scope: Scope) -> str:
        """Remember a workflow, in place of the one it makes more general; gives its id."""
        fields = to_memory_fields(learned.workflow)
        whose: dict[str, Any] = {"user_id": scope.user_id, "project_id": scope.project_id}
        metadata = {**fields.metadata, "learned": True}
        known = self._memory.get_all(kinds=["workflow"], limit=MOST_WORKFLOWS, **whose)
        for memory in known:
            if self._is_older(memory, learned.workflow, whose):
                self._memory.update(memory.id, fields.text, metadata=metadata, **whose)
                return memory.id
        added = self._memory.add_text(fields.text, kind="workflow", metadata=metadata, **whose)
        return added.ids[0]

    def _link(self, workflow_id: str, payload: Mapping[str, Any], scope: Scope) -> None:
        """Note of which message and results a workflow has its words: it is erased with them."""
        store, now = self._memory.store, self._memory.clock.now()
        where = Compare(field="content_hash", operator="eq", value=str(payload.get("said", "")))
        said = store.scan(Selection(reader=scope, kinds=("message",), where=where))
        for source in (*(one.id for one in said), *payload.get("results", ())):
            link = Link(first_id=workflow_id, second_id=source, relation=DERIVED, created_at=now)
            with suppress(RecordNotFound):  # erased meanwhile
                store.links.put(scope, link)

    def _is_older(self, memory: Memory, made: Workflow, whose: Mapping[str, str | None]) -> bool:
        record = from_memory(memory)
        own = memory.visibility == "private" and memory.scope == Scope(**whose)
        return (
            own
            and memory.metadata.get("learned") is True
            and isinstance(record, Workflow)
            and same_workflow(record, made)
        )


def _read_kept(raw: str | None) -> dict[str, Any]:
    try:
        return unpack(raw) if raw else {}
    except InvalidInput:
        return {}
