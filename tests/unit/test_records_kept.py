"""Facts, episodes, patterns and workflows are added as they are and read back whole."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import agentmem
from agentmem import Episode, EpisodeArtifact, Fact, Pattern, Workflow
from agentmem.base.errors import InvalidInput
from agentmem.living.facts import Record, from_memory
from agentmem.memory.manager import MemoryManager
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RECORDS: tuple[Record, ...] = (
    Fact(key="VAT rate", value="21 %", text="VAT is 21 % here.", confidence=0.7),
    Episode(
        title="The mail relay was down",
        narrative="The queue was full at 03:12.",
        artifacts=(
            EpisodeArtifact(kind="commit", reference="ab12"),
            EpisodeArtifact(kind="pr", reference="#77"),
            EpisodeArtifact(kind="adr", reference="0009"),
            EpisodeArtifact(kind="file", reference="src/mail.py"),
        ),
        sort="error",
        error="QueueFull",
        fix="a larger queue",
    ),
    Pattern(trigger="a new endpoint", template="@get('/x')\ndef x(): ...", hint="always typed"),
    Workflow(trigger="a release", steps=("tag", "build"), details={"tag": "vX.Y.Z"}),
)


@pytest.fixture(params=["memory", "sqlite"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryManager]:
    store = (
        SqliteStore(":memory:") if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    )
    with MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock(NOW)) as made:
        yield made


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: type(r).__name__)
def test_a_record_is_added_and_read_back(memory: MemoryManager, record: Record) -> None:
    (item,) = memory.add(
        record, user_id="ann", project_id="p", visibility="project", metadata={"seen": True}
    ).items
    kept = memory.get(item.id, user_id="bob", project_id="p")
    assert from_memory(kept) == record
    assert kept.kind == type(record).__name__.lower()
    assert kept.metadata["seen"] is True
    assert memory.add(record, user_id="ann", project_id="p", visibility="project").unchanged


def test_a_fact_that_is_added_has_a_history_by_its_key(memory: MemoryManager) -> None:
    memory.add(RECORDS[0], user_id="ann")
    assert [m.text for m in memory.living.history_of("VAT rate", user_id="ann")] == [
        "VAT is 21 % here."
    ]


def test_facts_of_one_key_that_disagree_are_found_however_they_are_worded(
    memory: MemoryManager,
) -> None:
    memory.add(Fact(key="city ann", value="Lima", text="Ann lives in Lima."), user_id="ann")
    memory.add(Fact(key="city ann", value="Oslo", text="Home is Oslo for her."), user_id="ann")
    assert memory.flush(30)
    assert len(memory.living.contradictions(user_id="ann")) == 1


def test_a_record_that_says_nothing_is_refused() -> None:
    with agentmem.open(":memory:", embedder=None) as memory:
        with pytest.raises(InvalidInput):
            memory.add(Pattern(trigger="", template=""), user_id="ann")
        with pytest.raises(InvalidInput):
            memory.add(Fact(key="", value=""), user_id="ann")
        with pytest.raises(InvalidInput, match="nothing to remember"):
            memory.add(object())  # type: ignore[arg-type]  # the mistake
