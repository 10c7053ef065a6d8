"""Properties of what is learned: one value of a key at a time, and all of them in its history."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.filters import Selection
from agentmem.base.types import Memory
from agentmem.living.plans import key_of, start_of
from agentmem.living.settle import value_of
from agentmem.memory.manager import MemoryManager
from tests.properties.living_samples import ANN, NOW, PLACES, Place, opened_memory

THINGS = ("API", "upload")
SAYINGS = st.tuples(
    st.sampled_from(THINGS), st.integers(1, 4), st.integers(0, 6), st.booleans()
)  # fmt: skip


def message(thing: str, value: int, day: int) -> dict[str, Any]:
    at = NOW - timedelta(days=30 - day)
    text = f"The {thing} limit is {value}00 requests."
    return {"role": "user", "content": text, "created_at": at.isoformat()}


@given(st.lists(SAYINGS, max_size=9), PLACES)
def test_a_key_has_one_value_at_a_time(
    said: list[tuple[str, int, int, bool]], place: Place
) -> None:
    """P38 Supersession. A read shows current values only; history on request; no cycle of
    supersession; validity intervals of one key do not overlap."""
    with opened_memory([], place) as memory:
        truth: dict[str, list[tuple[int, int]]] = {thing: [] for thing in THINGS}
        for thing, value, day, consolidated in said:
            memory.living.learn(message(thing, value, day), user_id="ann")
            truth[thing].append((day, value))
            if consolidated:
                memory.living.consolidate(user_id="ann")
        assert memory.upkeep.verify().ok
        for thing, told in truth.items():
            history = memory.living.history_of(f"{thing} limit", user_id="ann")
            current = [m for m in memory.get_all(user_id="ann") if thing in m.text]
            if not told:
                assert history == ()
                assert current == []
                continue
            (shown,) = current
            expected = timeline(told)
            assert value_of(shown)[0].startswith(f"{expected[-1][1]}00")
            assert {key_of(m) for m in history} == {key_of(shown)}
            check_intervals(history)
            for day in range(-1, 8):
                at = NOW - timedelta(days=30 - day)
                held = memory.living.history_of(f"{thing} limit", as_of=at, user_id="ann")
                values = [v for d, v in expected if d <= day]
                assert [m.text for m in held] == [
                    f"The {thing} limit is {v}00 requests." for v in values[-1:]
                ]


def timeline(told: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Day and value in order; what is told again while it holds adds nothing."""
    line: list[tuple[int, int]] = []
    for day, value in told:
        place = sum(known <= day for known, _ in line)
        if not place or line[place - 1][1] != value:
            line.insert(place, (day, value))
    return line


def check_intervals(history: tuple[Memory, ...]) -> None:
    by_id = {m.id: m for m in history}
    for one, following in pairwise(history):
        assert one.valid_to is not None
        assert one.valid_to <= start_of(following)
    for one in history:
        seen = {one.id}
        newer = one.superseded_by
        while newer is not None:
            assert newer not in seen
            seen.add(newer)
            newer = by_id[newer].superseded_by


EPISODES = (
    "We decided to use Kafka because it scales.",
    "The build failed with a missing header; fixed it by installing libpq-dev.",
    "Is the API limit 100 requests?",
)
TURNS = SAYINGS.map(lambda one: message(*one[:3])) | st.tuples(
    st.sampled_from(EPISODES), st.integers(0, 6)
).map(lambda one: message("API", 1, one[1]) | {"content": one[0]})


def visible(memory: MemoryManager) -> dict[str, Any]:
    """All that a reader can get at, in whatever way, once the background is done."""
    assert memory.flush(30)
    every = Selection(reader=ANN, superseded=True, forgotten=True)
    found = memory.search("the API limit", user_id="ann", top_k=20).hits
    return {
        "memories": list(memory.store.scan(every)),
        "links": memory.store.links.all(ANN),
        "contradictions": memory.store.contradictions.all(ANN),
        "found": [(hit.memory.id, hit.score) for hit in found],
    }


@given(st.lists(TURNS, max_size=4), st.lists(TURNS, max_size=4), PLACES)
def test_what_was_learned_can_be_taken_back(
    before: list[dict[str, Any]], said: list[dict[str, Any]], place: Place
) -> None:
    """G4 Unlearned. Undoing right after learning gives back what could be read, found and
    followed before, and changes no owner's memory else."""
    with opened_memory([], place) as memory:
        memory.add(before + said, user_id="ann")
        memory.living.learn(before, user_id="ann")
        memory.living.learn(said, user_id="bob")
        then, others = visible(memory), memory.get_all(user_id="bob")
        learned = memory.living.learn(said, user_id="ann")
        assert bool(learned.journal_id) == bool(learned.added)
        if learned.journal_id:
            undone = memory.living.undo(learned.journal_id, user_id="ann")
            assert (undone.removed, undone.left) == (len(learned), ())
        assert visible(memory) == then
        assert memory.get_all(user_id="bob") == others
        assert memory.upkeep.verify().ok


@given(st.lists(TURNS, max_size=4), st.lists(TURNS, max_size=6), PLACES)
def test_the_same_is_learned_once(
    before: list[dict[str, Any]], said: list[dict[str, Any]], place: Place
) -> None:
    """G5 Learned once. Learning the same turns again changes nothing, and a dry run says what
    a run does without doing it."""
    with opened_memory([], place) as memory:
        memory.living.learn(before, user_id="ann")
        seq = memory.store.feed.seq()
        foreseen = memory.living.learn(said, user_id="ann", dry_run=True)
        assert memory.store.feed.seq() == seq
        learned = memory.living.learn(said, user_id="ann")
        assert [m.text for m in foreseen.added] == [m.text for m in learned.added]
        assert (foreseen.known, len(foreseen.superseded)) == (
            learned.known,
            len(learned.superseded),
        )
        then, runs = visible(memory), memory.living.journal(user_id="ann")
        again = memory.living.learn(said, user_id="ann")
        assert (again.added, again.superseded, again.journal_id) == ((), (), "")
        assert visible(memory) == then
        assert memory.living.journal(user_id="ann") == runs
