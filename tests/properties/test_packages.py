"""The score of a package (P15), and what a package refuses."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.errors import AgentMemError
from agentmem.prompt.budget import ContentPackage, composite, recency
from tests.properties.strategies import instants, units


@given(
    priority=st.integers(1, 10),
    importance=units(),
    relevance=st.none() | units(),
    moment=instants(),
    now=instants(),
    data=st.data(),
)
def test_score_is_from_0_to_1_and_never_falls_when_a_part_grows(
    *,
    priority: int,
    importance: float,
    relevance: float | None,
    moment: datetime,
    now: datetime,
    data: st.DataObject,
) -> None:
    """P15 Score. Every finite package has a finite score in 0–1; more priority, importance, relevance or recency never lowers it."""
    parts: dict[str, Any] = {
        "priority": priority, "importance": importance, "relevance": relevance,
        "recency": recency(moment, now=now),
    }  # fmt: skip
    before = composite(**parts)
    assert math.isfinite(before)
    assert 0.0 <= before <= 1.0

    later = max(moment, data.draw(instants()))
    grown: list[dict[str, Any]] = [
        {"priority": data.draw(st.integers(priority, 10))},
        {"importance": max(importance, data.draw(units()))},
        {"relevance": max(0.5 if relevance is None else relevance, data.draw(units()))},
        {"recency": recency(later, now=now)},
    ]
    for part in grown:
        assert composite(**{**parts, **part}) >= before


@given(
    st.sampled_from(["tokens", "relevance", "priority"]),
    st.sampled_from(
        [math.nan, math.inf, -math.inf, -1, 1.5, 11, "5", None, True, [], 10**400, 10**5000]
    )
    | st.floats(max_value=-1e-9),
)
def test_a_package_refuses_what_is_not_a_sane_number(field: str, value: object) -> None:
    """B1 Checked packages. A package with a NaN, negative or wrong-typed number cannot be made: it is a typed error that names the field."""
    if value is None and field == "relevance":
        return
    if field == "tokens" and value in (11, 10**400, 10**5000) and not isinstance(value, bool):
        return
    fields: dict[str, Any] = {"id": "a", "type": "x", "tokens": 5, field: value}
    with pytest.raises(AgentMemError, match=field):
        ContentPackage(**fields)
