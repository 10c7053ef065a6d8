"""Through every framework that is installed, a model gets what its caller sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentmem.prompt.block import STUB
from tests.frameworks.drivers import DRIVERS, Driven, Talk
from tests.noted_memory import KNOWN, NotedMemory
from tests.properties.strategies import texts

ROUND = (("call", ""), ("result", "nine"))


@st.composite
def talks(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Turns of a user and an assistant, some with a tool in between."""
    talk: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 3))):
        talk.append(("user", draw(texts(max_size=12))))
        talk += ROUND if draw(st.booleans()) else ()
        talk.append(("assistant", draw(texts(max_size=12))))
    if draw(st.booleans()):
        talk.append(("user", draw(texts(max_size=12))))
        talk += ROUND if draw(st.booleans()) else ()
    return talk


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: str(driver.__name__))
@given(talks(), st.booleans())
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_a_model_gets_its_callers_messages_through_any_framework(
    driver: Callable[[Any, Talk], Driven], talk: list[tuple[str, str]], knows: bool
) -> None:
    """P49 Same messages. Through any framework the model receives the caller's messages unchanged and in order, plus at most one reference pair."""
    memory = NotedMemory(knows=knows)
    given_messages, got = driver(memory, talk)
    added = [one for one in got if not any(_same(one, mine) for mine in given_messages)]
    rest = [one for one in got if not any(one is new for new in added)]
    assert len(rest) == len(given_messages)
    assert all(_same(one, mine) for one, mine in zip(rest, given_messages, strict=True))
    assert len(added) in (0, 2)
    if added:
        assert knows
        said = [str(getattr(one, "text", None) or one) for one in added]
        assert STUB in said[0]
        assert KNOWN in said[1]
        assert got[got.index(added[0]) + 1] is added[1]


def _same(one: Any, other: Any) -> bool:
    """The very object; Agent Framework marks copies of its messages with where they came from."""
    contents = getattr(one, "contents", None)
    return one is other or (contents is not None and contents is other.contents)
