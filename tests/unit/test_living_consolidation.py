"""Worked examples of a consolidation, from plan to state."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from agentmem.base.errors import InvalidInput
from agentmem.base.types import Memory, Scope, Usage
from agentmem.living.facts import Fact, to_memory_fields
from agentmem.living.plans import (
    AddLink,
    Compress,
    ConsolidationPlan,
    ConsolidationSettings,
    Forget,
    LivingState,
    Merge,
    OpenContradiction,
    Rerank,
    SimilarPair,
    Summarise,
    Supersede,
    apply_plan,
    importance_after_use,
    plan_consolidation,
)

NOW = datetime(2024, 6, 1, tzinfo=UTC)
LONG = (
    "Hello there! The deploy on Thursday was really slow. We looked at it for a while. "
    "It was not the database. Ana found that the cache held only 900 entries. "
    "That was a nice find. The fix is in the cache file."
)


def words(text: str) -> int:
    return len(text.split())


def memory(id_: str, text: str, *, days: float = 1, **fields: object) -> Memory:
    given = {"kind": "fact", **fields}
    return Memory(id=id_, text=text, created_at=NOW - timedelta(days=days), **given)  # type: ignore[arg-type]  # test data


def plan(
    *memories: Memory, similar: tuple[SimilarPair, ...] = (), state: LivingState | None = None
) -> ConsolidationPlan:
    whole = replace(state or LivingState(), memories=memories)
    return plan_consolidation(whole, now=NOW, count=words, similar=similar)


def alike(first: str, second: str, similarity: float = 0.97) -> SimilarPair:
    return SimilarPair(first=first, second=second, similarity=similarity)


def test_near_duplicates_become_one_and_the_other_stays_reachable() -> None:
    rows = (
        memory("a", "We use Postgres 15.", usage=Usage(cited=1)),
        memory("b", "we use Postgres 15"),
        memory("c", "We use Postgres 15", scope=Scope(user_id="somebody else")),
    )
    made = plan(*rows, similar=(alike("a", "b"), alike("a", "c")))
    (merge,) = [op for op in made.operations if isinstance(op, Merge)]
    assert (merge.survivor, merge.loser) == ("a", "b")
    after = apply_plan(LivingState(memories=rows), made, now=NOW)
    assert [m.superseded_by for m in after.memories] == [None, "a", None]
    assert after.memories[1].text == "we use Postgres 15"
    assert made.counts()["deduped"] == 1


def test_alike_is_not_the_same() -> None:
    made = plan(
        memory("a", "The limit is 900 seconds."),
        memory("b", "The limit is 600 seconds."),
        similar=(alike("a", "b", 0.99),),
    )
    (found,) = made.operations
    assert isinstance(found, OpenContradiction)
    assert (found.verdict.first_value, found.verdict.second_value) == ("900 seconds", "600 seconds")


def test_one_key_with_two_values_is_a_contradiction_without_any_index() -> None:
    rows = [
        memory(id_, text, metadata=dict(to_memory_fields(Fact(key="database", value="x")).metadata))
        for id_, text in (("a", "Postgres it is"), ("b", "MySQL for everything"))
    ]
    assert plan(*rows).counts()["contradictions"] == 1
    settled = LivingState(settled=frozenset({("a", "b")}))
    assert plan(*rows, state=settled).counts()["contradictions"] == 0


def test_a_later_change_supersedes() -> None:
    rows = (
        memory("a", "The upload limit is 900 seconds.", days=20),
        memory("b", "The upload limit is now 600 seconds.", days=2),
    )
    made = plan(*rows)
    (found,) = made.operations
    assert isinstance(found, Supersede)
    assert (found.old, found.new) == ("a", "b")
    after = apply_plan(LivingState(memories=rows), made, now=NOW).memories
    assert after[0].superseded_by == "b"
    assert after[0].valid_to == rows[1].created_at
    assert after[1].supersedes == "a"


def test_episodes_are_summarised_after_a_week_and_compressed_after_a_month() -> None:
    made = plan(
        memory("a", LONG, kind="episode", days=6),
        memory("b", LONG + " Bob saw it.", kind="episode", days=8, usage=Usage(retrieved=1)),
        memory("c", LONG + " Cid saw it.", kind="episode", days=31, usage=Usage(retrieved=1)),
        memory("d", LONG + " Dan saw it.", kind="fact", days=31, usage=Usage(retrieved=1)),
    )
    levels = [(type(op), op.id) for op in made.operations if isinstance(op, Summarise | Compress)]
    assert levels == [(Summarise, "b"), (Summarise, "c"), (Compress, "c")]
    counts = made.counts()
    assert (counts["summarised"], counts["compressed"]) == (2, 1)
    assert counts["tokens_saved"] > 0


@pytest.mark.parametrize(
    ("fields", "forgotten"),
    [
        ({}, True),
        ({"superseded_by": "z"}, True),
        ({"superseded_by": "z", "usage": Usage(retrieved=4)}, True),
        ({"usage": Usage(retrieved=1)}, False),
        ({"usage": Usage(cited=1)}, False),
        ({"superseded_by": "z", "usage": Usage(cited=1)}, False),
        ({"metadata": {"pinned": True}}, False),
        ({"kind": "preference"}, False),
        ({"importance": 0.9}, False),
        ({"days": 89}, False),
        ({"valid_from": NOW - timedelta(days=1)}, False),
    ],
)
def test_only_what_nobody_needed_is_forgotten(fields: dict[str, object], forgotten: bool) -> None:
    days = fields.pop("days", 91)
    assert isinstance(days, int)
    made = plan(memory("a", "Box 12 holds cables.", days=days, **fields))
    assert [type(op) for op in made.operations] == ([Forget] if forgotten else [])


def test_a_contested_memory_is_not_forgotten() -> None:
    open_ = LivingState(contested=frozenset({("a", "b")}))
    rows = (memory("a", "Yes.", days=400), memory("b", "No.", days=400))
    assert plan(*rows, state=open_).empty
    assert plan(*rows).counts()["forgotten"] == 2


def test_use_moves_importance_within_bounds_and_fades() -> None:
    cited = memory("a", "x", usage=Usage(cited=50, last_used_at=NOW))
    ignored = memory("b", "x", usage=Usage(ignored=50, last_used_at=NOW))
    assert importance_after_use(cited, base=0.5, now=NOW) == 0.8
    assert importance_after_use(ignored, base=0.5, now=NOW) == 0.3
    later = importance_after_use(cited, base=0.5, now=NOW + timedelta(days=900))
    assert later == 0.5
    (change,) = plan(cited).operations
    assert change == Rerank(id="a", importance=0.8, base=0.5)


def test_links_come_from_shared_names_and_common_citations() -> None:
    rows = (
        memory("a", "We asked Okafor about the Falcon release."),
        memory("b", "In May Okafor showed the Falcon plan."),
        memory("c", "Lunch was good."),
    )
    together = LivingState(co_cited={("a", "c"): 2, ("b", "c"): 1})
    links = [op for op in plan(*rows, state=together).operations if isinstance(op, AddLink)]
    assert [(op.first, op.second, op.reason) for op in links] == [
        ("a", "c", "co-citation"),
        ("a", "b", "entity"),
    ]


def test_only_what_changed_is_compared_again() -> None:
    state = LivingState(
        memories=(
            memory("a", "The limit is 900 seconds."),
            memory("b", "The limit is 600 seconds."),
            memory("c", "The limit is 300 seconds."),
        )
    )
    made = plan_consolidation(
        state, now=NOW, count=words, similar=(alike("a", "b"), alike("b", "c")), changed={"a"}
    )
    assert {
        (op.first, op.second) for op in made.operations if isinstance(op, OpenContradiction)
    } <= {
        ("a", "b"),
        ("a", "c"),
    }
    assert plan_consolidation(state, now=NOW, count=words, changed=()).empty


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidInput, match="forget_after"):
        ConsolidationSettings(forget_after=timedelta(days=-1))
    with pytest.raises(InvalidInput, match="merge_similarity"):
        ConsolidationSettings(merge_similarity=2.0)
    with pytest.raises(InvalidInput, match="now"):
        plan_consolidation(LivingState(), now=datetime(2024, 1, 1), count=words)
