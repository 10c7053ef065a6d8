"""Records are kept in memory rows and read back."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.base.types import Memory
from agentmem.living.facts import (
    Episode,
    EpisodeArtifact,
    Fact,
    Pattern,
    Workflow,
    from_memory,
    to_memory_fields,
)

NOW = datetime(2024, 5, 3, tzinfo=UTC)


def stored(kind: str, metadata: dict[str, object]) -> Memory:
    return Memory(id="a", text="x", created_at=NOW, kind=kind, metadata=metadata)


def test_a_fact_reads_well_and_is_json() -> None:
    fields = to_memory_fields(Fact(key="database", value="Postgres 15"))
    assert (fields.kind, fields.text, fields.title) == ("fact", "database: Postgres 15", "database")
    assert json.loads(json.dumps(dict(fields.metadata))) == dict(fields.metadata)


def test_an_episode_keeps_its_artifacts() -> None:
    episode = Episode(
        title="Moved to MySQL",
        narrative="It took two days.",
        artifacts=(EpisodeArtifact(kind="pr", reference="#12"),),
        sort="decision",
        reason="licensing",
    )
    fields = to_memory_fields(episode)
    assert fields.text == "Moved to MySQL\n\nIt took two days."
    assert from_memory(stored("episode", dict(fields.metadata))) == episode


def test_a_workflow_lists_its_steps() -> None:
    fields = to_memory_fields(Workflow(trigger="release", steps=("tag", "build")))
    assert fields.text == "When: release\n\n1. tag\n2. build"


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("fact", {}),
        ("fact", {"key": 3, "value": "x"}),
        ("fact", {"key": "k", "value": "v", "confidence": 7}),
        ("episode", {"title": "t", "artifacts": [["branch", "x"]]}),
        ("episode", {"title": "t", "artifacts": 5}),
        ("workflow", {"trigger": "t", "steps": [1]}),
        ("page", {"key": "k", "value": "v"}),
    ],
)
def test_metadata_that_does_not_fit_is_no_record(kind: str, data: dict[str, object]) -> None:
    assert from_memory(stored(kind, {"record": data})) is None
    assert from_memory(stored(kind, {})) is None


def test_unknown_fields_are_left_out() -> None:
    data: dict[str, object] = {"record": {"trigger": "t", "template": "x", "later": 1}}
    assert from_memory(stored("pattern", data)) == Pattern(trigger="t", template="x")


def test_values_are_checked_when_they_are_made() -> None:
    with pytest.raises(InvalidInput):
        Fact(key="k", value="v", confidence=2.0)
    with pytest.raises(InvalidInput):
        Fact(key="k", value="v", start=5, end=2)
    with pytest.raises(InvalidInput):
        EpisodeArtifact(kind="branch", reference="x")  # type: ignore[arg-type]  # the point of the test
