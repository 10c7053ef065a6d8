"""Fusion keeps what each leg found, whatever order it came in."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from agentmem.core.fusion import (
    Fused,
    from_cosine,
    min_max,
    reciprocal_rank,
    saturate,
    weighted,
)
from tests.properties.strategies import texts, units

Leg = list[tuple[str, float]]
Fuse = Callable[[dict[str, Leg], dict[str, float]], tuple[Fused, ...]]

finite = st.floats(allow_nan=False, allow_infinity=False)
ids = st.sampled_from("abcdef") | texts(max_size=4)


def legs() -> st.SearchStrategy[dict[str, Leg]]:
    """A few legs of scores from 0 to 1, with ties and repeated ids."""
    leg = st.lists(st.tuples(ids, units()), max_size=8)
    return st.dictionaries(st.sampled_from(("lexical", "vector", "web")), leg, max_size=3)


def weights_for(found: dict[str, Leg]) -> st.SearchStrategy[dict[str, float]]:
    some = st.sampled_from((0.1, 1.0, 3.0)) | st.floats(1e-6, 1e6)
    return st.fixed_dictionaries(dict.fromkeys(found, some))


def fusers() -> st.SearchStrategy[Fuse]:
    return st.sampled_from(
        (
            lambda found, weights: reciprocal_rank(found, weights=weights),
            lambda found, weights: reciprocal_rank(found, k=0, weights=weights),
            weighted,
        )
    )


@given(st.data(), legs(), fusers())
def test_every_leg_reaches_the_results_in_any_order(
    data: st.DataObject, found: dict[str, Leg], fuse: Fuse
) -> None:
    """P27 Hybrid. Every id of every leg is in the result, and shuffled input gives the same answer."""
    weights = data.draw(weights_for(found))
    fused = fuse(found, weights)
    assert {hit.id for hit in fused} == {item for leg in found.values() for item, _ in leg}
    assert len({hit.id for hit in fused}) == len(fused)
    assert list(fused) == sorted(fused, key=lambda hit: (-hit.score, hit.id))
    names = data.draw(st.permutations(list(found)))
    shuffled = {name: data.draw(st.permutations(found[name])) for name in names}
    assert fuse(shuffled, {name: weights[name] for name in reversed(names)}) == fused


@given(st.data(), legs().filter(lambda found: any(found.values())), fusers())
def test_raising_a_score_never_lowers_the_place(
    data: st.DataObject, found: dict[str, Leg], fuse: Fuse
) -> None:
    """S3 Fusion is monotone. Raising one score in one leg never lowers that id's fused score, nor lets another one overtake it."""
    weights = data.draw(weights_for(found))
    name = data.draw(st.sampled_from([n for n, leg in found.items() if leg]))
    place = data.draw(st.integers(0, len(found[name]) - 1))
    item, score = found[name][place]
    raised = dict(found)
    raised[name] = list(found[name])
    raised[name][place] = (item, data.draw(st.floats(score, 1.0)))
    before, after = fuse(found, weights), fuse(raised, weights)
    old = next(hit for hit in before if hit.id == item)
    new = next(hit for hit in after if hit.id == item)
    assert new.score >= old.score
    beaten = {hit.id for hit in before[before.index(old) + 1 :]}
    assert beaten <= {hit.id for hit in after[after.index(new) + 1 :]}


@given(st.lists(st.tuples(ids, finite), max_size=8), finite, finite, st.floats(1e-3, 1e6))
def test_calibration_is_monotone_and_within_0_to_1(
    leg: Leg, one: float, other: float, half_at: float
) -> None:
    """S4 Calibration. Every calibrated score is within 0 to 1, and a better raw score is never worse after it."""
    low, high = sorted((one, other))
    assert 0.0 <= saturate(low, half_at=half_at) <= saturate(high, half_at=half_at) <= 1.0
    calibrated = min_max(leg)
    assert [item for item, _ in calibrated] == [item for item, _ in leg]
    pairs = sorted(zip((s for _, s in leg), (s for _, s in calibrated), strict=True))
    assert all(0.0 <= value <= 1.0 for _, value in pairs)
    assert [value for _, value in pairs] == sorted(value for _, value in pairs)
    if pairs:
        assert pairs[-1][1] == 1.0


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 0.9))
def test_cosines_keep_their_order(one: float, other: float, floor: float) -> None:
    """S5 Cosine calibration. Cosines map into 0 to 1 in their order, the floor to 0 and 1 to 1."""
    low, high = sorted((one, other))
    assert 0.0 <= from_cosine(low, floor=floor) <= from_cosine(high, floor=floor) <= 1.0
    assert from_cosine(floor, floor=floor) == 0.0
    assert from_cosine(1.0, floor=floor) == 1.0
