"""Ids: unique, in order, also when the clock is not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import InvalidInput
from agentmem.base.types import Ids
from agentmem.testing import ManualClock


@given(
    steps=st.lists(st.integers(-5, 5), max_size=60),
    noise=st.sampled_from((b"\x00", b"\xff", b"\x5a")),
)
def test_ids_never_repeat_and_never_go_back(steps: list[int], noise: bytes) -> None:
    """D9 Ids. Ids made one after another never repeat and sort in the order they were made, whatever the clock does and however poor the randomness."""
    clock = ManualClock()
    ids = Ids(clock, random_bytes=lambda count: noise * count)
    made = []
    for step in steps:
        clock.advance(step / 1000)
        made.append(ids.new())
    assert made == sorted(set(made))
    for memory_id in made:
        parsed = UUID(memory_id)
        assert (parsed.version, parsed.variant) == (7, "specified in RFC 4122")
        assert str(parsed) == memory_id


def test_an_id_tells_when_it_was_made() -> None:
    clock = ManualClock(datetime(2026, 7, 1, 12, 0, 0, 123_000, tzinfo=UTC))
    milliseconds = UUID(Ids(clock).new()).int >> 80
    assert datetime.fromtimestamp(milliseconds / 1000, UTC) == clock.now()


def test_many_ids_in_one_millisecond_borrow_the_next() -> None:
    ids = Ids(ManualClock())
    made = [ids.new() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_a_clock_before_1970_is_refused() -> None:
    with pytest.raises(InvalidInput, match="1970"):
        Ids(ManualClock(datetime(1970, 1, 1, tzinfo=UTC) - timedelta(seconds=1))).new()


def test_ids_taken_together_follow_those_before_them() -> None:
    ids = Ids(ManualClock())
    made = [ids.new(), *ids.take(5_000), ids.new(), *ids.take(0), *ids.take(2)]
    assert made == sorted(set(made))
    assert len(made) == 5_004
