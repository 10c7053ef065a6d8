"""What was used is told from what was passed over, and neither moves a rank too far."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agentmem.base.types import Usage
from agentmem.living.predict import GUESSES, Predictor, Signal, features_of
from agentmem.living.usage import MOST, Shown, find_used, usage_factor
from tests.properties.strategies import texts

NOW = datetime(2026, 3, 1, tzinfo=UTC)
counts = st.integers(0, 10**6)


@given(cited=counts, ignored=counts, more=st.integers(0, 100), days=st.floats(-10, 10**5))
def test_use_moves_a_score_within_bounds(cited: int, ignored: int, more: int, days: float) -> None:
    """L21 Bounded use. Being cited never lowers a memory's score and being passed over never raises it, by a tenth at most, and both wear off."""
    last = NOW - timedelta(days=days)
    one = usage_factor(Usage(cited=cited, ignored=ignored, last_used_at=last), now=NOW)
    assert 1 - MOST <= one <= 1 + MOST
    cited_more = Usage(cited=cited + more, ignored=ignored, last_used_at=last)
    assert usage_factor(cited_more, now=NOW) >= one - 1e-12
    ignored_more = Usage(cited=cited, ignored=ignored + more, last_used_at=last)
    assert usage_factor(ignored_more, now=NOW) <= one + 1e-12
    later = usage_factor(
        Usage(cited=cited, ignored=ignored, last_used_at=last), now=NOW + timedelta(days=400)
    )
    assert abs(later - 1) <= abs(one - 1) + 1e-12
    assert usage_factor(Usage(), now=NOW) == 1.0


@given(answer=texts(), shown=st.lists(texts(max_size=80), max_size=5), number=st.integers(1, 5))
def test_a_cited_number_is_use(answer: str, shown: list[str], number: int) -> None:
    """L22 Use. A memory whose number an answer cites was used; for any answer only what was shown is ever called used."""
    offered = [Shown(id=f"m{at}", number=at, text=text) for at, text in enumerate(shown, start=1)]
    found = find_used(answer, offered)
    assert found <= {one.id for one in offered}
    if number <= len(offered):
        assert f"m{number}" in find_used(f"It is so [{number}].", offered)


steps = st.tuples(
    st.lists(
        st.builds(
            Signal,
            kind=st.sampled_from(("file", "branch", "error", "collaborator", "tool", "task")),
            value=st.sampled_from(("a/b.py", "a/c.py", "KeyError: 7", "ana")) | texts(max_size=12),
        ),
        max_size=4,
    ),
    st.lists(st.sampled_from("abcdefghijklmnop"), max_size=3, unique=True),
    st.floats(-5, 400, allow_nan=False),
)


@given(trace=st.lists(steps, max_size=25), asked=steps)
def test_predictions_are_total_and_can_be_stored(trace: list, asked: tuple) -> None:  # type: ignore[type-arg]  # drawn
    """L23 Prediction. For any signals, citations and clock a prediction has at most ten memories that were cited before, with falling confidence from 0 to 1, and is the same after it was stored and read back; what is forgotten is never predicted."""
    predictor, ever = Predictor(), set()
    for signals, cited, _ in trace:
        predictor.observe(features_of(signals), cited)
        ever |= set(cited)
    features = features_of(asked[0])
    found = predictor.predict(features)
    confidences = [one.confidence for one in found]
    assert len(found) <= GUESSES
    assert {one.id for one in found} <= ever
    assert all(0 <= c <= 1 for c in confidences)
    assert confidences == sorted(confidences, reverse=True)
    assert Predictor.from_dict(predictor.to_dict()).predict(features) == found
    predictor.forget(["a", "b"])
    assert not {"a", "b"} & {one.id for one in predictor.predict(features, limit=100)}
