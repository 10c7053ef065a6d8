"""How far our counts are from a provider's, learned from the usage it reports."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from agentmem.core.checks import require_count, require_number
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput

LEAST_RATIO = 0.2
MOST_RATIO = 5.0
RECENT_CALLS = 5
"""The newest call never weighs less than one in this many, so that a change is followed."""
SETTLED_CALLS = 3
LARGEST_SURPRISE = 2.0
"""Once settled, a call further off than this factor is taken as this far off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What one of our tokens is at the provider (`ratio`), learned from `calls` calls."""

    ratio: float = 1.0
    calls: int = 0
    ignored: int = 0

    def __post_init__(self) -> None:
        require_number(self.ratio, "ratio", low=LEAST_RATIO, high=MOST_RATIO)
        require_count(self.calls, "calls")
        require_count(self.ignored, "ignored")

    def apply(self, tokens: int) -> int:
        """`tokens` as the provider would count them, rounded up."""
        # The product of the floats may lie a hair above a whole number.
        return math.ceil(require_count(tokens, "tokens") * self.ratio - 1e-9)

    def as_dict(self) -> dict[str, float | int]:
        """The same as plain JSON values."""
        return {"ratio": self.ratio, "calls": self.calls, "ignored": self.ignored}


def observe(correction: Correction, *, estimated: float, actual: float) -> Correction:
    """`correction` after a call that we counted as `estimated` and the provider as `actual`.

    The first calls are averaged, in logarithms so that half and double weigh
    the same; from the fifth on the newest call counts for a fifth, and a wild
    one moves the ratio by at most 15 % (T5). What cannot be a count of the same
    request is not learned from, only counted in `ignored`: zero, negative, NaN
    or infinite numbers, and ratios outside 0.2 to 5.
    """
    if not _is_count(estimated) or not _is_count(actual):
        return _ignoring(correction)
    ratio = float(actual) / float(estimated)
    if not LEAST_RATIO <= ratio <= MOST_RATIO:
        return _ignoring(correction)
    calls = correction.calls + 1
    weight = 1 / min(calls, RECENT_CALLS)
    surprise = math.log(ratio / correction.ratio)
    if correction.calls >= SETTLED_CALLS:
        largest = math.log(LARGEST_SURPRISE)
        surprise = min(max(surprise, -largest), largest)
    learned = correction.ratio * math.exp(weight * surprise)
    bounded = min(max(learned, LEAST_RATIO), MOST_RATIO)
    return Correction(ratio=bounded, calls=calls, ignored=correction.ignored)


def correction_from(state: Mapping[str, Any]) -> Correction:
    """The correction that `as_dict` wrote."""
    if not isinstance(state, Mapping) or set(state) - {"ratio", "calls", "ignored"}:
        raise InvalidInput(
            "correction", state, "is not a saved correction", remedy="Pass what as_dict() gave."
        )
    return Correction(**state)


def _is_count(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value) and value > 0
    except OverflowError:  # an int no float can hold
        return False


def _ignoring(correction: Correction) -> Correction:
    return Correction(
        ratio=correction.ratio, calls=correction.calls, ignored=correction.ignored + 1
    )
