"""What consolidation did, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentmem.core.living.plans import ConsolidationPlan, Operation
from agentmem.core.values import dataclass
from agentmem.stores.revisions import Undone


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationReport:
    """What a run did, or what a dry run would do.

    `tokens_saved` counts what contexts are spared at the levels that are
    served. `journal_id` is what `undo` takes; it is empty when nothing was
    changed. `looked_at` is how many memories were new or changed since the
    last run. `model_calls` and `model_tokens` say what a model was asked.
    """

    deduped: int = 0
    superseded: int = 0
    summarised: int = 0
    compressed: int = 0
    forgotten: int = 0
    contradictions: int = 0
    links: int = 0
    reranked: int = 0
    cooled: int = 0
    tokens_saved: int = 0
    memories: int = 0
    looked_at: int = 0
    dry_run: bool = False
    journal_id: str = ""
    duration_seconds: float = 0.0
    model_calls: int = 0
    model_tokens: int = 0
    notes: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there was nothing to do."""
        return not self.operations

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values; each operation with its sort."""
        plain = {
            name: getattr(self, name)
            for name in self.__dataclass_fields__
            if name not in ("operations", "notes")
        }
        operations = [operation_fields(operation) for operation in self.operations]
        return {**plain, "notes": list(self.notes), "operations": operations}


def report_of(plan: ConsolidationPlan, **more: Any) -> ConsolidationReport:
    """The report of a plan."""
    told: dict[str, Any] = {**plan.counts(), **more}
    return ConsolidationReport(operations=plan.operations, **told)


def operation_fields(operation: Operation) -> dict[str, Any]:
    """An operation as JSON values."""
    fields: dict[str, Any] = {"operation": type(operation).__name__}
    for name in operation.__dataclass_fields__:
        value = getattr(operation, name)
        if name == "usage":
            value = {n: getattr(value, n) for n in ("retrieved", "cited", "ignored")}
        elif name == "verdict":
            value = {n: getattr(value, n) for n in value.__dataclass_fields__}
        elif isinstance(value, Mapping):
            value = dict(value)
        fields[name] = value
    return fields


def undone_fields(undone: Undone) -> dict[str, Any]:
    """What an undo did, as JSON values."""
    return {
        "journal_id": undone.id,
        "restored": undone.restored,
        "relations": undone.relations,
        "removed": undone.removed,
        "left": list(undone.left),
    }
