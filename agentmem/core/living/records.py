"""Facts, episodes, patterns and workflows as values, and how each is kept in a memory row.

A record becomes three things of a row: its `kind`, a `text` that reads well and
can be searched, and `metadata` as JSON, from which the same record is read back (L1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal, get_args

from agentmem.core.checks import require_choice, require_count, require_text, require_unit
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput
from agentmem.types import Memory

ArtifactKind = Literal["commit", "pr", "adr", "file"]
EpisodeSort = Literal["event", "decision", "error"]

RECORD = "record"
"""The metadata key that holds a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One attribute with its value: key "database", value "Postgres 15".

    `start` and `end` say where in the text it was stated; `ended` that it is
    stated to hold no longer.
    """

    key: str
    value: str
    text: str = ""
    confidence: float = 1.0
    start: int = 0
    end: int = 0
    ended: bool = False

    def __post_init__(self) -> None:
        _require_texts(self, "key", "value", "text")
        require_unit(self.confidence, "confidence")
        require_count(self.start, "start")
        require_count(self.end, "end", least=self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What an episode left behind: a commit, a pull request, a decision record or a file."""

    kind: ArtifactKind
    reference: str

    def __post_init__(self) -> None:
        require_choice(self.kind, get_args(ArtifactKind), "kind")
        require_text(self.reference, "reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Something that happened: an event, a decision with its reason, an error with its fix."""

    title: str
    narrative: str = ""
    artifacts: tuple[Artifact, ...] = ()
    sort: EpisodeSort = "event"
    reason: str = ""
    error: str = ""
    fix: str = ""

    def __post_init__(self) -> None:
        _require_texts(self, "title", "narrative", "reason", "error", "fix")
        require_choice(self.sort, get_args(EpisodeSort), "sort")
        _require_all(self.artifacts, Artifact, "artifacts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A way things are done here: when `trigger`, write `template`; `hint` says why or how."""

    trigger: str
    template: str
    hint: str = ""

    def __post_init__(self) -> None:
        _require_texts(self, "trigger", "template", "hint")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """Steps that worked before, in order, when `trigger` came up."""

    trigger: str
    steps: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require_text(self.trigger, "trigger")
        _require_all(self.steps, str, "steps")
        for step in self.steps:
            require_text(step, "steps")
        for name, detail in self.details.items():
            require_text(name, "details")
            require_text(detail, "details")


Record = Fact | Episode | Pattern | Workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFields:
    """The fields of a memory row that a record decides."""

    kind: str
    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def to_memory_fields(record: Record) -> MemoryFields:
    """What to store for `record`; `from_memory` of such a row gives the record back (L1)."""
    if isinstance(record, Fact):
        text = record.text or f"{record.key}: {record.value}"
        return _fields("fact", text, record.key, _plain(record))
    if isinstance(record, Episode):
        told = (record.title, record.narrative)
        text = "\n\n".join(part for part in told if part)
        data = _plain(record) | {
            "artifacts": [[artifact.kind, artifact.reference] for artifact in record.artifacts]
        }
        return _fields("episode", text, record.title, data)
    if isinstance(record, Pattern):
        parts = (f"When: {record.trigger}", record.template, record.hint)
        text = "\n\n".join(part for part in parts if part)
        return _fields("pattern", text, record.trigger, _plain(record))
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(record.steps, 1))
    text = f"When: {record.trigger}\n\n{steps}".strip()
    data = {
        "trigger": record.trigger,
        "steps": list(record.steps),
        "details": dict(record.details),
    }
    return _fields("workflow", text, record.trigger, data)


def from_memory(memory: Memory) -> Record | None:
    """The record a memory holds, or None when it holds none or one that cannot be read.

    Metadata may come from an import: fields that are missing get their
    defaults, and what does not fit is no record, never an error.
    """
    data = memory.metadata.get(RECORD)
    if not isinstance(data, Mapping):
        return None
    try:
        return _read(memory.kind, data)
    except (InvalidInput, TypeError, ValueError, KeyError):
        return None


def _read(kind: str, data: Mapping[str, Any]) -> Record | None:
    if kind == "fact":
        return Fact(**_known(Fact, data))
    if kind == "episode":
        fields = _known(Episode, data)
        fields["artifacts"] = tuple(
            Artifact(kind=pair[0], reference=pair[1]) for pair in fields.get("artifacts", ())
        )
        return Episode(**fields)
    if kind == "pattern":
        return Pattern(**_known(Pattern, data))
    if kind == "workflow":
        fields = _known(Workflow, data)
        fields["steps"] = tuple(fields.get("steps", ()))
        fields["details"] = MappingProxyType(dict(fields.get("details", {})))
        return Workflow(**fields)
    return None


def _known(record: type, data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in record.__dataclass_fields__ if name in data}  # type: ignore[attr-defined]  # every record is a dataclass


def _plain(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _fields(kind: str, text: str, title: str, data: Mapping[str, Any]) -> MemoryFields:
    return MemoryFields(
        kind=kind, text=text, title=title, metadata=MappingProxyType({RECORD: dict(data)})
    )


def _require_texts(record: object, *names: str) -> None:
    for name in names:
        require_text(getattr(record, name), name)


def _require_all(values: object, wanted: type, name: str) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, wanted) for value in values):
        raise InvalidInput(name, values, f"is not a tuple of {wanted.__name__}")
