"""What records, merging and consolidation promise for any memories."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agentmem
from agentmem.base.types import Memory, Scope, Usage
from agentmem.living.facts import (
    Episode,
    EpisodeArtifact,
    Fact,
    Pattern,
    Record,
    Workflow,
    extract,
    fact_key,
    from_memory,
    to_memory_fields,
)
from agentmem.living.plans import (
    Compress,
    ConsolidationPlan,
    ConsolidationSettings,
    Forget,
    LivingState,
    Planner,
    SimilarPair,
    Summarise,
    Supersede,
    apply_plan,
    choose_survivor,
    merge_metadata,
    pair_of,
    plan_consolidation,
)
from agentmem.testing import HashEmbedder, ManualClock
from tests.properties.counters import quarter_characters
from tests.properties.living_samples import same_meaning
from tests.properties.strategies import texts, units

NOW = datetime(2024, 6, 1, tzinfo=UTC)
AGES = (400, 0, 6, 8, 31, 89, 90, 91)
SENTENCES = (
    "We use Postgres 15.", "We use Postgres 14.", "We switched to MySQL 8.", "We use Postgres 15",
    "The limit is 900 seconds.", "The limit is 600 seconds.", "The limit is now 600 seconds.",
    "Ana lives in Lima. It is really a nice place, and the people there are kind to her.",
    "Ana lives in Berlin.", "The deploy was slow. We looked at it. It was not the database at all.",
    "Thanks!", "",
)  # fmt: skip


def records() -> st.SearchStrategy[Record]:
    """Facts, episodes, patterns and workflows with any texts in them."""
    artifacts = st.builds(
        EpisodeArtifact, kind=st.sampled_from(("commit", "pr", "adr", "file")), reference=texts()
    )
    spans = st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted)
    facts = spans.flatmap(
        lambda span: st.builds(
            Fact,
            key=texts(),
            value=texts(),
            text=texts(),
            confidence=units(),
            start=st.just(span[0]),
            end=st.just(span[1]),
            ended=st.booleans(),
        )
    )
    episodes = st.builds(
        Episode,
        title=texts(),
        narrative=texts(),
        artifacts=st.lists(artifacts, max_size=3).map(tuple),
        sort=st.sampled_from(("event", "decision", "error")),
        reason=texts(),
        error=texts(),
        fix=texts(),
    )
    patterns = st.builds(Pattern, trigger=texts(), template=texts(), hint=texts())
    workflows = st.builds(
        Workflow,
        trigger=texts(),
        steps=st.lists(texts(), max_size=4).map(tuple),
        details=st.dictionaries(texts(), texts(), max_size=3),
    )
    return facts | episodes | patterns | workflows


@st.composite
def memories(
    draw: st.DrawFn, number: int, pool: tuple[str, ...] = SENTENCES, ages: tuple[int, ...] = AGES
) -> Memory:
    kind = draw(
        st.sampled_from(("fact", "fact", "fact", "fact", "episode", "message", "preference"))
    )
    stated = st.sampled_from(pool)
    text = draw(st.one_of(stated, stated, stated, stated, texts(max_size=40)))
    metadata: dict[str, Any] = draw(st.sampled_from(({}, {}, {"pinned": True}, {"tags": ["a"]})))
    if kind == "fact" and draw(st.booleans()):
        fact = Fact(key=draw(st.sampled_from(("database", "limit"))), value="x", text=text)
        metadata = {**metadata, **to_memory_fields(fact).metadata}
    return Memory(
        id=f"m{number:02}",
        text=text,
        kind=kind,
        created_at=NOW - timedelta(days=draw(st.sampled_from(ages))),
        scope=Scope(user_id=draw(st.sampled_from(("ana", "ana", "ana", "ana", "bo")))),
        importance=draw(st.sampled_from((0.1, 0.5, 0.79, 0.9))),
        superseded_by=draw(st.sampled_from((None, None, None, None, None, "gone"))),
        usage=Usage(
            retrieved=draw(st.sampled_from((0, 0, 0, 3))),
            cited=draw(st.sampled_from((0, 2, 9))),
            ignored=draw(st.sampled_from((0, 0, 20))),
            last_used_at=draw(st.sampled_from((None, None, NOW - timedelta(days=10)))),
        ),
        metadata=metadata,
    )


WORDED_AS_CHANGE = ("now", "switched", "moved", "no longer", "used to")
SAID_OF_ONE_THING = (
    "We use Postgres 15.", "We use MySQL 8.", "We switched to MySQL 8.", "We moved to Postgres 16.",
    "The retry limit is 3.", "The retry limit is 5.", "The retry limit is now 5.",
    "The retry limit used to be 9.", "Ana lives in Lima.", "Ana lives in Berlin.",
    "Ana is working on a plan.", "Ana is working on her website.",
)  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from(SAID_OF_ONE_THING),
            st.sampled_from(("ana", "ana", "bo")),
            st.sampled_from(("", "", "Carl")),
            st.integers(0, 9),
        ),
        min_size=2,
        max_size=6,
    )
)
def test_comparing_hides_nothing_without_a_stated_change(
    said: list[tuple[str, str, str, int]],
) -> None:
    """P42 Nothing on a guess. Comparing memories supersedes one only where the same owner and
    speaker state a change of the same key; everything else is at most an open contradiction."""
    rows = [
        Memory(
            id=f"m{number}",
            text=text,
            kind="fact",
            scope=Scope(user_id=owner),
            speaker=speaker,
            created_at=NOW - timedelta(days=days),
        )
        for number, (text, owner, speaker, days) in enumerate(said)
    ]
    pairs = [
        SimilarPair(first=one.id, second=other.id, similarity=0.5)
        for place, one in enumerate(rows)
        for other in rows[place + 1 :]
    ]
    state = LivingState(memories=tuple(rows))
    planner = Planner(state, NOW, len, ConsolidationSettings(), {one.id for one in rows})
    planner.contradict(pairs)
    plan = ConsolidationPlan(operations=tuple(planner.operations))
    known = {one.id: one for one in rows}
    hidden = {one.id for one in apply_plan(state, plan, now=NOW).memories if one.superseded_by}
    changes = [one for one in plan.operations if isinstance(one, Supersede)]
    assert hidden == {one.old for one in changes}
    for change in changes:
        old, new = known[change.old], known[change.new]
        assert (old.scope, old.speaker) == (new.scope, new.speaker)
        assert any(word in f"{old.text} {new.text}" for word in WORDED_AS_CHANGE)
        keys = [{fact.key for fact in extract(one.text).facts} for one in (old, new)]
        assert keys[0] & keys[1]


@st.composite
def states(
    draw: st.DrawFn, ages: tuple[int, ...] = AGES
) -> tuple[LivingState, tuple[SimilarPair, ...]]:
    start = draw(st.sampled_from((4, 0, 7, 9)))  # few texts a state, so that they meet
    pool = SENTENCES[start : start + 3]
    rows = tuple(draw(memories(number, pool, ages)) for number in range(draw(st.integers(0, 5))))
    ids = [row.id for row in rows] or ["m00"]
    pairs = st.tuples(st.sampled_from(ids), st.sampled_from(ids)).map(lambda p: pair_of(*p))
    scores = st.sampled_from((0.5, 0.95, 0.92, 1.0))
    similar = [
        SimilarPair(first=one, second=other, similarity=draw(scores))
        for place, one in enumerate(ids)
        for other in ids[place:]
    ]
    state = LivingState(
        memories=rows,
        links=frozenset(draw(st.lists(pairs, max_size=2))),
        contested=frozenset(draw(st.lists(pairs, max_size=2))),
        settled=frozenset(draw(st.lists(pairs, max_size=2))),
        co_cited=draw(st.dictionaries(pairs, st.integers(0, 4), max_size=3)),
    )
    return state, tuple(similar)


Input = tuple[LivingState, tuple[SimilarPair, ...]]


def plan_of(given_: Input, settings: ConsolidationSettings | None = None) -> Any:
    state, similar = given_
    return plan_consolidation(
        state, now=NOW, count=quarter_characters, similar=similar, settings=settings
    )


@given(records())
def test_a_record_survives_storage(record: Record) -> None:
    """L1 Records come back. A record read from the row that was stored for it is the same record."""
    fields = to_memory_fields(record)
    metadata: Mapping[str, Any] = json.loads(json.dumps(dict(fields.metadata)))
    memory = Memory(id="a", text=fields.text, kind=fields.kind, created_at=NOW, metadata=metadata)
    assert from_memory(memory) == record


@given(texts(), texts(), st.floats(-1, 1))
def test_sameness_has_no_direction(first: str, second: str, similarity: float) -> None:
    """L4 Same both ways. Two texts merge or not whichever is given first, never below the limit."""
    one = same_meaning(first, second, similarity)
    assert one == same_meaning(second, first, similarity)
    assert one != "same" or similarity >= 0.92
    assert same_meaning(first, first, 1.0) == "same"


@given(states(), st.randoms(use_true_random=False))
def test_the_order_of_memories_does_not_matter(given_: Input, random: Any) -> None:
    """L5 Any order. A consolidation plan is the same for any order of memories and pairs."""
    state, similar = given_
    shuffled = list(state.memories)
    random.shuffle(shuffled)
    turned = [
        SimilarPair(first=pair.second, second=pair.first, similarity=pair.similarity)
        for pair in similar
    ]
    random.shuffle(turned)
    other = LivingState(
        memories=tuple(shuffled),
        links=state.links,
        contested=state.contested,
        settled=state.settled,
        co_cited=state.co_cited,
    )
    assert plan_of(given_) == plan_of((other, tuple(turned)))


@given(states())
def test_a_plan_that_was_applied_leaves_nothing_to_do(given_: Input) -> None:
    """L6 Once is enough. Planning again right after a plan was applied gives an empty plan."""
    state, similar = given_
    plan = plan_of(given_)
    after = apply_plan(state, plan, now=NOW)
    assert plan_of((after, similar)).operations == ()


@given(states(ages=(400, 91, 90, 89)))
def test_nothing_that_matters_is_forgotten(given_: Input) -> None:
    """P39 No false forgetting. Nothing cited, pinned, contradicted-and-unresolved or younger than
    the limit is forgotten; nothing forgotten is lost before erasure."""
    state, _ = given_
    plan = plan_of(given_)
    after = apply_plan(state, plan, now=NOW)
    before = {memory.id: memory for memory in state.memories}
    contested = {id_ for pair in after.contested for id_ in pair}
    for operation in plan.operations:
        if isinstance(operation, Forget):
            memory = before[operation.id]
            assert memory.usage.cited == 0
            assert memory.metadata.get("pinned") is not True
            assert memory.kind != "preference"
            assert operation.id not in contested
            assert NOW - memory.created_at >= timedelta(days=90)
    assert [(m.id, m.text) for m in after.memories] == [(m.id, m.text) for m in state.memories]


@given(states())
def test_scopes_do_not_mix_and_levels_get_cheaper(given_: Input) -> None:
    """L7 Own scope. No merge, link or contradiction joins memories that not everybody sees alike."""
    state, _ = given_
    plan = plan_of(given_)
    owner = {memory.id: (memory.scope, memory.visibility) for memory in state.memories}
    text = {memory.id: memory.text for memory in state.memories}
    for operation in plan.operations:
        for one, other in (("survivor", "loser"), ("first", "second"), ("old", "new")):
            if hasattr(operation, one):
                assert owner[getattr(operation, one)] == owner[getattr(operation, other)]
        if isinstance(operation, Summarise):
            assert quarter_characters(operation.summary) < quarter_characters(text[operation.id])
        if isinstance(operation, Compress):
            assert operation.tokens_saved > 0


@given(memories(1), memories(2))
def test_of_two_memories_one_stays_and_takes_the_rest(first: Memory, second: Memory) -> None:
    """L8 One survivor. Of two merged memories the same one stays either way and names the other."""
    survivor, loser = choose_survivor(first, second)
    assert (survivor, loser) == choose_survivor(second, first)
    metadata = merge_metadata(survivor, loser)
    assert loser.id in metadata["merged_from"]
    assert all(
        metadata[name] == value for name, value in survivor.metadata.items() if name != "tags"
    )


@given(texts())
def test_what_is_extracted_stands_in_the_text(text: str) -> None:
    """L9 In the text. Every extracted fact, decision and fix quotes the place it was read from."""
    found = extract(text + "\nWe use Postgres 15.\n" + text)
    assert found == extract(text + "\nWe use Postgres 15.\n" + text)
    source = text + "\nWe use Postgres 15.\n" + text
    for fact in found.facts:
        assert source[fact.start : fact.end] == fact.text
        assert fact.key
        assert fact.key == " ".join(sorted(fact.key.split()))
    for episode in found.episodes:
        assert 0 <= episode.start < episode.end <= len(source)


@given(texts(), texts())
def test_a_key_is_the_same_in_any_order_of_its_words(first: str, second: str) -> None:
    """L10 One key. The key of an attribute does not depend on the order its words are said in."""
    assert fact_key(f"{first} {second}") == fact_key(f"{second} {first}")


@given(
    st.sampled_from(("rent", "deadline", "retry limit", "budget")),
    st.lists(st.integers(10, 99), min_size=2, max_size=2, unique=True),
    st.sampled_from((0, 1, 60, 3_600, 86_400, 40 * 86_400)),
    st.tuples(st.sampled_from(("text", "message")), st.sampled_from(("text", "message"))),
)
def test_of_two_values_that_stand_the_newer_is_shown_first(
    key: str, values: list[int], seconds: int, ways: tuple[str, str]
) -> None:
    """P43 Newest first. Of two values of one key that both stand, the newer is shown before the
    older."""
    said = [f"My {key} is {value} at the office." for value in values]
    clock = ManualClock()
    with agentmem.open(":memory:", embedder=HashEmbedder(), clock=clock) as memory:
        for text, way in zip(said, ways, strict=True):
            memory.add(text if way == "text" else [{"role": "user", "content": text}], user_id="a")
            clock.advance(1 + seconds)
        with memory.turn(
            [{"role": "user", "content": f"What is my {key} at the office?"}], user_id="a"
        ) as turn:
            shown = "\n".join(str(message["content"]) for message in turn.messages)
    at = [shown.find(f" {value} ") for value in values]
    assert at[1] >= 0
    assert at[0] < 0 or at[1] < at[0]
