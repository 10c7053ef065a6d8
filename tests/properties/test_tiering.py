"""Contexts by tiers and what is learned for them: whose they are, and what they cost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentmem import BudgetConfig, LoopConfig, RecallConfig
from agentmem.living.facts import Episode, EpisodeArtifact, Pattern, Workflow, to_memory_fields
from agentmem.living.predict import unpack
from agentmem.living.tiers import SHARES
from agentmem.memory.manager import MemoryManager
from agentmem.prompt.block import parse_context
from agentmem.prompt.strip import strip
from agentmem.stores.sqlite.store import SqliteStore
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties.strategies import texts

USERS = ("ana", "bob")
words = st.sampled_from(("ledger", "postgres", "deploy", "zebra", "a.py", "not", "14"))
said = st.one_of(texts(max_size=40), st.lists(words, max_size=8).map(" ".join))
signals = st.lists(
    st.tuples(st.sampled_from(("file", "branch", "error", "collaborator", "tool", "task")), said),
    max_size=4,
)


@st.composite
def records(draw: st.DrawFn) -> Any:
    text = draw(said)
    return draw(
        st.sampled_from(
            (
                Episode(title=text, sort="decision", reason=text,
                        artifacts=(EpisodeArtifact(kind="file", reference="src/a.py"),)),
                Episode(title=text, sort="error", error=text, fix=text),
                Episode(title=text),
                Pattern(trigger=text, template=text),
                Workflow(trigger=text, steps=(text,)),
                text,
            )
        )
    )  # fmt: skip


owned = st.lists(
    st.tuples(records(), st.sampled_from(USERS), st.sampled_from(("private", "project"))),
    max_size=8,
)


def opened() -> MemoryManager:
    return MemoryManager(SqliteStore(":memory:"), embedder=HashEmbedder(), clock=ManualClock())


def put(memory: MemoryManager, number: int, record: Any, user: str, visibility: Any) -> str:
    """Keep a record with a mark that no other has; gives the mark."""
    mark = f"mark{user}{visibility}{number}"
    fields = to_memory_fields(record) if not isinstance(record, str) else None
    memory.add(
        f"{fields.text if fields else record} {mark}",
        kind=fields.kind if fields else "fact",
        metadata=dict(fields.metadata) if fields else {},
        visibility=visibility,
        user_id=user,
        project_id="shop" if visibility == "project" else None,
    )
    return mark


@given(
    given_=owned,
    seen=signals,
    task=said,
    budget=st.integers(0, 600),
    activity=st.sampled_from(sorted(SHARES)),
)
def test_a_context_is_its_readers_own(
    given_: list[Any], seen: list[Any], task: str, budget: int, activity: str
) -> None:
    """H1 One reader's tiers. An assembled context shows nothing its reader may not see, stays in its budget, and is the same again."""
    with opened() as memory:
        marks = [
            (put(memory, number, record, user, visibility), user, visibility)
            for number, (record, user, visibility) in enumerate(given_)
        ]
        options: Any = {"signals": seen, "task": task, "activity": activity, "user_id": "ana"}
        for project in (None, "shop"):
            assert memory.flush(30)  # contradictions are looked for in the background
            context = memory.living.assemble_context(budget, project_id=project, **options)
            assert context.degradations == ()
            assert context.tokens <= budget
            assert sum(context.tier_budgets.values()) == budget
            for mark, user, visibility in marks:
                if (visibility == "private" and user != "ana") or (
                    visibility == "project" and project is None
                ):
                    assert mark not in context.text
            assert memory.living.assemble_context(budget, project_id=project, **options) == context


@given(
    given_=owned,
    seen=signals,
    ask=said,
    knowledge=st.integers(0, 800),
    activity=st.sampled_from(sorted(SHARES)),
)
def test_tiers_go_into_the_one_block(
    given_: list[Any], seen: list[Any], ask: str, knowledge: int, activity: Any
) -> None:
    """H2 Tiers in the block. A turn by tiers sends one block that parses, within its budget, each citation of a memory its reader may see."""
    with opened() as memory:
        for number, (record, user, visibility) in enumerate(given_):
            put(memory, number, record, user, visibility)
        config = LoopConfig(
            recall=RecallConfig(assembly="tiers", activity=activity),
            budget=BudgetConfig(knowledge=knowledge),
        )
        turn = memory.turn(
            [{"role": "user", "content": ask}], config=config, signals=seen, user_id="ana"
        )
        assert turn.degradations == []
        assert turn.context.built.knowledge.tokens <= knowledge
        for citation in turn.citations:
            assert citation.memory_id
            memory.get(citation.memory_id, user_id="ana")
        if turn.injected:
            block = parse_context(turn.block_text, secret=memory.store.settings.secret())
            assert len(block.related_knowledge) == len(turn.citations)
            assert turn.messages[-1] == {"role": "user", "content": ask}
            assert strip(turn.block_text).strip() == ""


@given(
    lessons=st.lists(st.tuples(signals, st.sets(st.integers(0, 4), min_size=1)), max_size=6),
    erased=st.sets(st.integers(0, 4)),
    everything=st.booleans(),
)
def test_what_is_erased_is_predicted_no_more(
    lessons: list[Any], erased: set[int], everything: bool
) -> None:
    """H3 Nothing learned of the erased. After an erasure no predictor holds an erased id, and none ever holds the words of a signal."""
    store = SqliteStore(":memory:")
    with MemoryManager(store, embedder=HashEmbedder(), clock=ManualClock()) as memory:
        ids = [memory.add(f"text number {n}", user_id="ana").items[0].id for n in range(5)]
        predictions = memory.runtime.predictions
        from agentmem.base.types import Scope
        from agentmem.living.predict import read_signals

        scope = Scope(user_id="ana")
        for seen, cited in lessons:
            features = predictions.features(
                read_signals([*seen, ("task", "okapi counting")]), scope
            )
            predictions.remember(features, [ids[n] for n in sorted(cited)], scope)
        assert memory.flush(10)
        before = memory.living.predict([("task", "okapi counting")], user_id="ana")
        assert {p.memory.id for p in before} == {ids[n] for _, cited in lessons for n in cited}
        if everything:
            memory.upkeep.erase_all(user_id="ana")
            gone = set(ids)
        elif erased:
            gone = {ids[n] for n in erased}
            memory.erase(sorted(gone), user_id="ana")
        else:
            gone = set()
        after = memory.living.predict([("task", "okapi counting")], user_id="ana")
        assert {p.memory.id for p in after} == {p.memory.id for p in before} - gone
        for name, value in kept_settings(store).items():
            written = str(unpack(value)) if name.startswith("predictor ") else value
            assert not any(memory_id in written for memory_id in gone)
            assert "okapi" not in written


def kept_settings(store: SqliteStore) -> dict[str, str]:
    found = {}
    for part in range(256):
        shard = store.settings.get(f"predictors {part:02x}")
        if shard:
            import json

            for name in json.loads(shard):
                value = store.settings.get(name)
                if value is not None:
                    found[name] = value
    return found
