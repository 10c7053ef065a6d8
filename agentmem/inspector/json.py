"""What the inspector says as JSON, each document under a schema with a name and a version.

The schemas are made of the very dataclasses the functions give, with the
figures they compute; docs/json.md is written from them and a test keeps it so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field, TypeAdapter

from agentmem.agent.trace import to_fields
from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidInput
from agentmem.inspector.audit import AuditReport
from agentmem.inspector.budget import BudgetEstimate
from agentmem.inspector.doctor import DoctorReport
from agentmem.inspector.look import Event, Inspection
from agentmem.inspector.replay import Replay, SnapshotDiff, Why
from agentmem.inspector.stats import StatsReport
from agentmem.prompt.budget import Budget, BudgetWarning, Fate, budget_to_dict, fate_to_dict
from agentmem.prompt.snapshot import Snapshot

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """One past context."""

    context: Snapshot


DOCUMENTS: dict[str, tuple[type, str]] = {
    "inspect": (Inspection, "`agentmem inspect --json`: the context that would be built now."),
    "budget": (BudgetEstimate, "`agentmem budget --json`: a dry run."),
    "explain": (Explained, "`agentmem explain --json`: one past context."),
    "diff": (SnapshotDiff, "`agentmem explain --diff OTHER --json`."),
    "why": (Why, "`agentmem explain --why MEMORY_ID --json`."),
    "replay": (Replay, "`agentmem explain --if NAME=VALUE --json`."),
    "monitor": (Event, "One line of `agentmem monitor --json`."),
    "stats": (StatsReport, "`agentmem stats --json`."),
    "audit": (AuditReport, "`agentmem audit --json`."),
    "doctor": (DoctorReport, "`agentmem doctor --json`."),
}
NAMES = tuple(DOCUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeJson:
    """Tokens and items of one package type."""

    tokens: int
    items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentJson:
    """One component of a prompt."""

    tokens: int
    items: int
    by_type: Mapping[str, TypeJson]


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetJson:
    """What a prompt uses of a window."""

    window_tokens: int
    reserved_tokens: int
    available_tokens: int
    used_tokens: int
    remaining_tokens: int
    percent: float
    over_budget: bool
    memories_asked: int
    components: Mapping[str, ComponentJson]
    warnings: tuple[BudgetWarning, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedJson:
    """One package that would not be sent."""

    id: str
    type: str
    outcome: str
    reason: str
    score: float | None
    tokens: int
    sent_tokens: int


_WRITTEN_AS: dict[Any, type] = {Budget: BudgetJson, Fate: DroppedJson}
_COMPUTED: dict[str, dict[str, Any]] = {
    "Snapshot": {
        "version": int,
        "room_tokens": int,
        "usage": float | None,
        "estimate_error": float | None,
    },
    "SnapshotDiff": {"empty": bool},
    "Replay": {"snapshot_id": str},
    "AuditReport": {"clean": bool},
    "DoctorReport": {"state": Literal["ok", "warn", "fail"], "exit_code": int},
}
"""What is written besides the fields; all but a snapshot's version are properties of the value."""
_LEFT_OUT = {("Replay", "snapshot")}
_MEANINGS = {
    "Looked.id": "The memory's id, or the message's for history.",
    "Looked.tokens": "What it took; 0 for what was never counted.",
    "Looked.score": "Calibrated, 0 to 1.",
    "Looked.lexical": "What words alone gave; null if unseen by it.",
    "Looked.vector": "What meaning alone gave; null if unseen by it.",
    "Looked.boosts": "Parts of the score from neither leg.",
    "Outcome.usage": "As the provider sent it.",
    "Snapshot.room_tokens": "The window without what is reserved for the answer.",
    "Snapshot.usage": "Estimated tokens as a share of that room.",
    "Snapshot.estimate_error": "(estimated - counted) / counted.",
    "Why.last_kept": "The lowest-scored one that went in.",
    "Event.changed": "+ID and -ID for memories, else what differs by name.",
    "BudgetEstimate.problem": "Why it cannot be sent at all; empty when it can.",
    "ModelFigures.counted": "How many had their tokens counted by the provider.",
    "StatsReport.last_seconds": "How far back; null for all that is recorded.",
    "Example.user": "Whose it is.",
    "Example.project": "Whose it is when a project shares it.",
    "AuditFinding.remedy": "The command that mends it; empty when there is nothing to.",
}
"""What the docstring of a class does not say of its fields."""


def to_json(name: str, value: Any) -> dict[str, Any]:
    """`value` as the JSON of command `name`, checked against its schema; the key `schema` is first.

    Computed figures that are properties of the values (a share, a worst state)
    are among them.
    """
    found = _values(Explained(context=value) if name == "explain" else value)
    adapter = adapter_of(name)
    read = adapter.validate_python({"schema": f"agentmem.{name}/{VERSION}", **found})
    written: dict[str, Any] = adapter.dump_python(read, mode="json")
    return written


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of command `name`."""
    return adapter_of(require_text(name, "name")).json_schema(mode="serialization")


@cache
def adapter_of(name: str) -> TypeAdapter[Any]:
    """What reads and writes the document of command `name`."""
    if name not in DOCUMENTS:
        raise InvalidInput("name", name, "has no schema", remedy=f"Use one of: {', '.join(NAMES)}.")
    kind, said = DOCUMENTS[name]
    named = Annotated[str, Field(description="Name and version, such as agentmem.stats/1.")]
    return TypeAdapter(_make(kind, said, {"schema": named}))


@cache
def written_type(kind: Any) -> Any:
    """`kind` as JSON has it: each dataclass in it with its computed figures."""
    kind = _WRITTEN_AS.get(kind, kind)
    if is_dataclass(kind):
        return _make(kind, kind.__doc__, {})
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        return reduce(or_, map(written_type, inner))
    if origin in (None, Literal):
        return kind
    return origin[tuple(map(written_type, inner))]


def _make(kind: Any, said: str | None, first: Mapping[str, Any]) -> type:
    hints = {**_COMPUTED.get(kind.__name__, {}), **get_type_hints(kind)}
    listed = {**first}
    for name, hint in hints.items():
        if (kind.__name__, name) not in _LEFT_OUT:
            meaning = _MEANINGS.get(f"{kind.__name__}.{name}")
            listed[name] = Annotated[written_type(hint), Field(description=meaning)]
    return make_dataclass(kind.__name__, listed.items(), namespace={"__doc__": said})


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot with its computed figures."""
    figures = [name for name in _COMPUTED["Snapshot"] if name != "version"]
    return {**to_fields(snapshot), **{name: getattr(snapshot, name) for name in figures}}


def _values(value: Any) -> Any:
    """A value and all in it as dicts, lists and plain values; moments stay as they are."""
    if isinstance(value, Snapshot):
        return snapshot_json(value)
    if isinstance(value, Budget):
        return budget_to_dict(value)
    if isinstance(value, Fate):
        return fate_to_dict(value)
    if is_dataclass(value):
        title = type(value).__name__
        names = (*_COMPUTED.get(title, ()), *(one.name for one in fields(value)))
        return {
            name: _values(getattr(value, name)) for name in names if (title, name) not in _LEFT_OUT
        }
    if isinstance(value, Mapping):
        return {str(key): _values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_values(item) for item in value]
    return value
