"""The pydantic models of what the inspector says as JSON. Import this only to read or write it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agentmem.base.errors import InvalidInput
from agentmem.prompt.snapshot import Looked, Outcome, Part, Snapshot, from_fields, to_fields


class JsonPart(BaseModel):
    """A part of a document: no field that is not listed."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class JsonDocument(JsonPart):
    """What a command prints with `--json`."""

    schema_: str = Field(alias="schema", description="Name and version, such as agentmem.stats/1.")


class ScopeModel(JsonPart):
    """Whose memory."""

    user_id: str | None = None
    project_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None


class PartModel(JsonPart):
    """How much of the window one component took."""

    name: str
    tokens: int
    items: int


class LookedModel(JsonPart):
    """One thing that was offered to a context, and its fate."""

    id: str = Field(description="The memory's id, or the message's for history.")
    section: str = Field(description="knowledge, profile, working, history, media or other.")
    decision: Literal["kept", "cut", "dropped"]
    reason: str = Field(description="Why, written for people.")
    kind: str = ""
    title: str = ""
    text: str = Field("", description="The whole text that was offered.")
    tokens: int = Field(0, description="What it took; 0 for what was never counted.")
    rank: int | None = Field(None, description="Place in the fused order, from 1.")
    score: float | None = Field(None, description="Calibrated, 0 to 1.")
    lexical: float | None = Field(None, description="What words alone gave; null if unseen by it.")
    vector: float | None = Field(None, description="What meaning alone gave; null if unseen by it.")
    lexical_rank: int | None = None
    vector_rank: int | None = None
    boosts: dict[str, float] = Field({}, description="Parts of the score from neither leg.")
    url: str = ""
    origin: str = ""
    retrieved: str = ""
    heading: str = ""
    speaker: str = ""
    fixed: bool = Field(False, description="No setting would have changed its fate.")


class OutcomeModel(JsonPart):
    """What came back from the model."""

    answer: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    duration_ms: float | None = None
    usage: dict[str, Any] = Field({}, description="As the provider sent it.")
    error: str = ""
    calls: dict[str, int] = Field({}, description="Tool calls made, succeeded, corrected, …")


class SnapshotModel(JsonPart):
    """Everything about one built context."""

    version: int
    id: str
    message_id: str
    created_at: datetime
    scope: ScopeModel
    model: str
    query: str
    window_tokens: int
    reserve_tokens: int
    estimated_tokens: int
    room_tokens: int = Field(description="The window without what is reserved for the answer.")
    usage: float | None = Field(description="Estimated tokens as a share of that room.")
    estimate_error: float | None = Field(description="(estimated - counted) / counted.")
    settings: dict[str, Any]
    parts: list[PartModel]
    looked_at: list[LookedModel]
    message: str = Field(description="The reference as it was sent.")
    warnings: list[str]
    degradations: list[str]
    timings_ms: dict[str, float]
    cached: bool
    outcome: OutcomeModel | None
    knowledge_limit: int | None = None
    total_found: int = 0


class StatusModel(JsonPart):
    """The state of a memory."""

    memories: int
    kinds: dict[str, int]
    embedder: str
    embedder_ready: bool
    embedder_error: str
    jobs_waiting: int
    jobs_failed: int
    bytes: int
    location: str
    last_context_at: datetime | None


class InspectDocument(JsonDocument):
    """`agentmem inspect --json`: the context that would be built now."""

    query: str
    snapshot: SnapshotModel | None
    status: StatusModel
    degradations: list[str]


class ExplainDocument(JsonDocument):
    """`agentmem explain --json`: one past context."""

    context: SnapshotModel


class DifferenceModel(JsonPart):
    """One value that differs; null where one side has none."""

    name: str
    before: Any = None
    after: Any = None


class MemoryDifferenceModel(JsonPart):
    """One memory whose fate or score differs; null where it was not looked at."""

    id: str
    before: LookedModel | None
    after: LookedModel | None


class DiffDocument(JsonDocument):
    """`agentmem explain --diff OTHER --json`."""

    before_id: str
    after_id: str
    empty: bool
    fields_: list[DifferenceModel] = Field(alias="fields")
    settings: list[DifferenceModel]
    parts: list[DifferenceModel]
    memories: list[MemoryDifferenceModel]


class WhyDocument(JsonDocument):
    """`agentmem explain --why MEMORY_ID --json`."""

    memory_id: str
    snapshot_id: str
    answer: str
    looked: LookedModel | None
    last_kept: LookedModel | None = Field(description="The lowest-scored one that went in.")
    details: list[str]


class ChangeModel(JsonPart):
    """One thing whose fate would be another."""

    before: LookedModel
    after: LookedModel


class ReplayDocument(JsonDocument):
    """`agentmem explain --if NAME=VALUE --json`."""

    snapshot_id: str
    settings: dict[str, Any]
    changes: list[ChangeModel]
    looked_at: list[LookedModel]
    knowledge_tokens: int
    notes: list[str]


class MonitorDocument(JsonDocument):
    """One line of `agentmem monitor --json`."""

    kind: Literal["context", "response"]
    snapshot: SnapshotModel
    changed: list[str] = Field(description="+ID and -ID for memories, else what differs by name.")


class TypeUseModel(JsonPart):
    """Tokens and items of one package type."""

    tokens: int
    items: int


class ComponentModel(JsonPart):
    """One component of a prompt."""

    tokens: int
    items: int
    by_type: dict[str, TypeUseModel]


class BudgetWarningModel(JsonPart):
    """Something the caller may want to act on."""

    code: str
    text: str


class BudgetModel(JsonPart):
    """What a prompt uses of a window."""

    window_tokens: int
    reserved_tokens: int
    available_tokens: int
    used_tokens: int
    remaining_tokens: int
    percent: float
    over_budget: bool
    memories_asked: int
    components: dict[str, ComponentModel]
    warnings: list[BudgetWarningModel]


class DroppedModel(JsonPart):
    """One package that would not be sent."""

    id: str
    type: str
    outcome: str
    reason: str
    score: float | None
    tokens: int
    sent_tokens: int


class SizesModel(JsonPart):
    """What one of each was taken to cost, in tokens."""

    system: int
    message: int
    current: int
    memory: int
    preference: int
    tool_schema: int


class BudgetDocument(JsonDocument):
    """`agentmem budget --json`: a dry run."""

    model: str
    counted_with: str
    budget: BudgetModel
    dropped: list[DroppedModel]
    knowledge_budget: int
    preference_budget: int
    history_budget: int
    image_tokens: int
    sizes: SizesModel
    problem: str = Field(description="Why it cannot be sent at all; empty when it can.")
    notes: list[str]


class SpreadModel(JsonPart):
    """How a number was distributed; null when there was none."""

    count: int
    mean: float | None
    low: float | None
    high: float | None


class ShareModel(JsonPart):
    """What one component took of all tokens sent."""

    name: str
    tokens: int
    share: float


class KindModel(JsonPart):
    """What became of the candidates of one kind."""

    kind: str
    looked_at: int
    kept: int
    cut: int
    dropped: int
    score: float | None
    relevance: float | None = Field(description="Mean score of those that went in.")


class ModelFiguresModel(JsonPart):
    """One model's contexts."""

    model: str
    contexts: int
    prompt_tokens: int
    completion_tokens: int
    counted: int = Field(description="How many had their tokens counted by the provider.")
    error: float | None = Field(description="Mean of estimate / count - 1.")
    absolute: float | None = Field(description="Mean size of that.")


class TallyModel(JsonPart):
    """How often something was said."""

    text: str
    count: int


class SlotModel(JsonPart):
    """One stretch of time."""

    begins: datetime
    contexts: int
    usage: float | None
    fallbacks: int = Field(description="Contexts for which memory was not searched, or in vain.")
    breaker_openings: int


class CallFiguresModel(JsonPart):
    """Tool calls and what became of them; the rates are null where nothing could be counted."""

    made: int
    success_rate: float | None
    correction_rate: float | None = Field(description="Failed calls that were put right.")
    read_back_rate: float | None = Field(description="Kept results that were read.")


class ContextFiguresModel(JsonPart):
    """Figures over the contexts of the period."""

    contexts: int
    injected: int
    begins: datetime | None
    ends: datetime | None
    usage: SpreadModel
    tokens: SpreadModel
    build_ms: SpreadModel
    response_ms: SpreadModel
    components: list[ShareModel]
    kinds: list[KindModel]
    relevance: float | None
    models: list[ModelFiguresModel]
    warnings: list[TallyModel]
    degradations: list[TallyModel]
    errors: int
    breaker_openings: int
    fallbacks: int
    fallback_rate: float | None
    calls: CallFiguresModel
    cache_hits: int
    slots: list[SlotModel]


class QueueModel(JsonPart):
    """Work in the background."""

    waiting: int
    running: int
    failed: int
    done: int
    dropped: int
    last_error: str


class StatsDocument(JsonDocument):
    """`agentmem stats --json`."""

    at: datetime
    last_seconds: float | None = Field(description="How far back; null for all that is recorded.")
    contexts: ContextFiguresModel
    queue: QueueModel
    memories: int
    kinds: dict[str, int]
    documents: int
    superseded: int
    deleted: int
    bytes: int
    vectors: dict[str, int]
    vectors_missing: dict[str, int]
    location: str


class ExampleModel(JsonPart):
    """One memory of a finding; secrets and personal data are masked."""

    id: str
    shown: str
    note: str
    user: str | None = Field(description="Whose it is.")
    project: str | None = Field(None, description="Whose it is when a project shares it.")


class FindingModel(JsonPart):
    """One sort of trouble."""

    name: str
    meaning: str
    count: int
    examples: list[ExampleModel]
    remedy: str = Field(description="The command that mends it; empty when there is nothing to.")


class AuditDocument(JsonDocument):
    """`agentmem audit --json`."""

    at: datetime
    memories: int
    clean: bool
    findings: list[FindingModel]
    notes: list[str]


class CheckModel(JsonPart):
    """One thing that was looked at."""

    name: str
    state: Literal["ok", "warn", "fail"]
    found: str
    remedy: str


class DoctorDocument(JsonDocument):
    """`agentmem doctor --json`."""

    at: datetime
    state: Literal["ok", "warn", "fail"]
    exit_code: int
    checks: list[CheckModel]


MODELS: dict[str, type[JsonDocument]] = {
    "inspect": InspectDocument,
    "budget": BudgetDocument,
    "explain": ExplainDocument,
    "diff": DiffDocument,
    "why": WhyDocument,
    "replay": ReplayDocument,
    "monitor": MonitorDocument,
    "stats": StatsDocument,
    "audit": AuditDocument,
    "doctor": DoctorDocument,
}


# ----------------------------------------------------------------------------
# Everything the inspector says as JSON, each under a schema with a name and a version.
#
# The schemas are pydantic's, of the very values the functions give; docs/json.md
# is written from them and a test keeps it so.


VERSION = 1
NAMES = (
    "inspect", "budget", "explain", "diff", "why", "replay", "monitor", "stats", "audit", "doctor",
)  # fmt: skip


def to_json(name: str, value: Any) -> dict[str, Any]:
    """`value` as the JSON of command `name`, checked against its schema; the key `schema` is first.

    Computed figures that are properties of the values (a share, a worst state)
    are among them.
    """
    model = model_of(name)
    return model.model_validate(_plain(name, value)).model_dump(mode="json", by_alias=True)


def schema_of(name: str) -> dict[str, Any]:
    """The JSON schema of command `name`."""
    return model_of(name).model_json_schema(by_alias=True, mode="serialization")


def model_of(name: str) -> type[BaseModel]:
    """The pydantic model of command `name`."""

    if name not in NAMES:
        raise InvalidInput("name", name, "has no schema", remedy=f"Use one of: {', '.join(NAMES)}.")
    found: type[BaseModel] = MODELS[name]
    return found


def snapshot_json(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot with its computed figures; what is as it is by default is written out, too."""
    written = to_fields(snapshot)
    sound = from_fields(written)
    return {
        **{name: _fields(getattr(sound, name)) for name in sound.__dataclass_fields__},
        "version": written["version"],
        "room_tokens": snapshot.room_tokens,
        "usage": snapshot.usage,
        "estimate_error": snapshot.estimate_error,
    }


def _plain(name: str, value: Any) -> dict[str, Any]:
    from agentmem.prompt.budget import budget_to_dict, fates_to_list

    fields = _fields(value)
    if name == "explain":
        fields = {"context": fields}
    elif name == "budget":
        fields |= {
            "budget": budget_to_dict(value.budget),
            "dropped": fates_to_list(value.dropped),
        }
    elif name == "replay":
        fields["snapshot_id"] = value.snapshot.id
    elif name == "diff":
        fields["empty"] = value.empty
    elif name == "audit":
        fields["clean"] = value.clean
    elif name == "doctor":
        fields |= {"state": value.state, "exit_code": value.exit_code}
    return {"schema": f"agentmem.{name}/{VERSION}", **fields}


def _fields(value: Any) -> Any:
    """A value and all in it as dicts, lists and plain values; moments stay as they are."""
    if isinstance(value, Snapshot):
        return snapshot_json(value)
    if isinstance(value, Looked | Part | Outcome) or hasattr(value, "__dataclass_fields__"):
        return {name: _fields(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _fields(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fields(item) for item in value]
    return value


# ----------------------------------------------------------------------------
# Write docs/json.md from the schemas: `python -m agentmem.inspector.json > docs/json.md`.


_HEAD = """<!-- Written by `python -m agentmem.inspector.json`; change the models instead. -->

# JSON of the inspector

Every command of the [inspector](inspector.md) prints one document with `--json`; `monitor`
prints one a line. `schema` names the document and its version: fields may be added within a
version, and a field that changes or goes makes a new one. Moments are ISO 8601 in UTC, shares
are from 0 to 1, `null` means that it is not known. The schemas themselves come from
`agentmem.inspector.json.schema_of(name)`, as JSON Schema.
"""


def render_manual() -> str:
    """The whole page."""
    parts: dict[str, Mapping[str, Any]] = {}
    lines = [_HEAD]
    for name in NAMES:
        schema = schema_of(name)
        parts |= schema.get("$defs", {})
        lines += [
            f"## agentmem.{name}/1",
            "",
            _manual_plain(schema["description"]),
            "",
            *_table(schema),
        ]
    lines += ["# Parts", ""]
    for title in sorted(parts):
        part = parts[title]
        lines += [
            f"## {_name(title)}",
            "",
            _manual_plain(part.get("description", "")),
            "",
            *_table(part),
        ]
    return "\n".join(lines).rstrip() + "\n"


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| Field | Type | Meaning |"
    yield "|---|---|---|"
    for field, said in schema.get("properties", {}).items():
        yield f"| `{field}` | {_type(said)} | {_manual_plain(said.get('description', ''))} |"
    yield ""


def _type(said: Mapping[str, Any]) -> str:
    if "$ref" in said:
        name = _name(said["$ref"].rpartition("/")[2])
        return f"[{name}](#{name.lower()})"
    if "anyOf" in said:
        return " or ".join(_type(one) for one in said["anyOf"])
    if "enum" in said:
        return " or ".join(f"`{one}`" for one in said["enum"])
    kind = said.get("type", "anything")
    if kind == "array":
        return f"list of {_type(said.get('items', {}))}"
    if kind == "object":
        inner = said.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, Mapping) else "object"
    if said.get("format") == "date-time":
        return "moment"
    return str(kind)


def _name(title: str) -> str:
    return title.removesuffix("Model")


def _manual_plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render_manual())
