"""Worked examples of fusion and calibration."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentmem.core.fusion import from_cosine, min_max, reciprocal_rank, saturate, weighted
from agentmem.errors import InvalidInput, InvalidNumber, InvalidText


def test_reciprocal_ranks_add_up() -> None:
    fused = reciprocal_rank({"lexical": [("a", 9.0), ("b", 4.0)], "vector": [("b", 0.8)]})
    assert [hit.id for hit in fused] == ["b", "a"]
    assert fused[0].score == pytest.approx((61 / 62 + 1) / 2)
    assert fused[1].score == pytest.approx(0.5)
    assert fused[0].leg("lexical") == 4.0
    assert fused[1].leg("vector") is None


def test_first_in_every_leg_is_one() -> None:
    fused = reciprocal_rank({"x": [("a", 1.0)], "y": [("a", 1.0)]}, weights={"x": 2, "y": 7})
    assert fused[0].score == 1.0


def test_weighted_mean_with_a_missing_leg() -> None:
    fused = weighted(
        {"lexical": [("keyword-only", 1.0)], "vector": [("vector-only", 0.9)]},
        {"lexical": 0.25, "vector": 0.75},
    )
    assert [(hit.id, round(hit.score, 3)) for hit in fused] == [
        ("vector-only", 0.675),
        ("keyword-only", 0.25),
    ]


def test_a_repeated_id_counts_once_with_its_best_score() -> None:
    assert weighted({"l": [("a", 0.2), ("a", 0.9), ("a", 0.4)]})[0].score == pytest.approx(0.9)
    assert len(reciprocal_rank({"l": [("a", 1.0), ("a", 0.0), ("b", 0.5)]})) == 2


def test_equal_scores_share_a_rank_and_stand_by_id() -> None:
    fused = reciprocal_rank({"l": [("b", 1.0), ("a", 1.0), ("c", 0.0)]}, k=0)
    assert [(hit.id, hit.score) for hit in fused] == [("a", 1.0), ("b", 1.0), ("c", 1 / 3)]


def test_nothing_found_is_nothing() -> None:
    assert reciprocal_rank({}) == ()
    assert weighted({"lexical": [], "vector": []}) == ()
    assert min_max([]) == ()


def test_min_max_over_the_whole_range_of_floats() -> None:
    largest = 1.7976931348623157e308
    assert min_max([("a", -largest), ("b", 0.0), ("c", largest)]) == (
        ("a", 0.0),
        ("b", 0.5),
        ("c", 1.0),
    )
    assert min_max([("a", 3.0), ("b", 3.0)]) == (("a", 1.0), ("b", 1.0))


def test_saturation() -> None:
    assert saturate(5.0, half_at=5.0) == 0.5
    assert saturate(-3.0) == 0.0
    assert saturate(1.7e308, half_at=1.7e308) == pytest.approx(0.5)


def test_cosine() -> None:
    assert from_cosine(0.5) == 0.5
    assert from_cosine(-0.2) == 0.0
    assert from_cosine(0.6, floor=0.2) == pytest.approx(0.5)
    assert from_cosine(1.0000002) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, "1", None, True])
def test_a_score_that_is_no_number_is_refused(bad: Any) -> None:
    for call in (
        lambda: reciprocal_rank({"l": [("a", bad)]}),
        lambda: weighted({"l": [("a", bad)]}),
        lambda: min_max([("a", bad)]),
        lambda: saturate(bad),
        lambda: from_cosine(bad),
        lambda: weighted({"l": [("a", 1.0)]}, {"l": bad}),
        lambda: reciprocal_rank({"l": [("a", 1.0)]}, k=bad),
    ):
        with pytest.raises(InvalidNumber):
            call()


def test_what_cannot_be_fused_is_refused() -> None:
    with pytest.raises(InvalidNumber, match="lexical"):
        weighted({"lexical": [("a", 12.5)]})
    with pytest.raises(InvalidInput, match="one weight to each leg"):
        weighted({"lexical": [("a", 0.5)]}, {"lex": 1.0})
    with pytest.raises(InvalidNumber, match="all zero"):
        weighted({"l": [("a", 0.5)]}, {"l": 0.0})
    with pytest.raises(InvalidNumber):
        reciprocal_rank({"l": [("a", 0.5)]}, k=-1)
    with pytest.raises(InvalidNumber):
        saturate(1.0, half_at=0)
    bad_legs: tuple[Any, ...] = (
        None,
        "ab",
        {"a": 1.0},
        [("a",)],
        [("a", 1.0, 2.0)],
        [5],
        [(None, 1.0)],
    )
    for bad in bad_legs:
        with pytest.raises(InvalidInput):
            weighted({"l": bad})
        with pytest.raises(InvalidInput):
            min_max(bad)
    with pytest.raises(InvalidInput, match="Name each leg"):
        reciprocal_rank([[("a", 0.5)]])  # type: ignore[arg-type]  # what the test is about
    with pytest.raises(InvalidText):
        weighted({"l": [("\ud800", 0.5)]})
