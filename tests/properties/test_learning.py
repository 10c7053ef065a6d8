"""Properties of what is learned: one value of a key at a time, and all of them in its history."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentmem.core.living.settling import start_of
from agentmem.core.living.timelines import key_of, value_of
from agentmem.types import Memory
from tests.properties.living_samples import NOW, opened_memory

THINGS = ("API", "upload")
SAYINGS = st.tuples(
    st.sampled_from(THINGS), st.integers(1, 4), st.integers(0, 6), st.booleans()
)  # fmt: skip


def message(thing: str, value: int, day: int) -> dict[str, Any]:
    at = NOW - timedelta(days=30 - day)
    text = f"The {thing} limit is {value}00 requests."
    return {"role": "user", "content": text, "created_at": at.isoformat()}


@settings(max_examples=100)
@given(st.lists(SAYINGS, max_size=9), st.booleans())
def test_a_key_has_one_value_at_a_time(
    said: list[tuple[str, int, int, bool]], sqlite: bool
) -> None:
    """P38 Supersession. A read shows current values only; history on request; no cycle of
    supersession; validity intervals of one key do not overlap."""
    with opened_memory([], sqlite=sqlite) as memory:
        truth: dict[str, list[tuple[int, int]]] = {thing: [] for thing in THINGS}
        for thing, value, day, consolidated in said:
            memory.learn(message(thing, value, day), user_id="ann")
            truth[thing].append((day, value))
            if consolidated:
                memory.consolidate(user_id="ann")
        assert memory.verify().ok
        for thing, told in truth.items():
            history = memory.history_of(f"{thing} limit", user_id="ann")
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
                held = memory.history_of(f"{thing} limit", as_of=at, user_id="ann")
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
