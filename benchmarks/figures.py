"""Shares with their intervals, as every table of the benchmarks writes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import sqrt


def plain(text: str) -> str:
    """A text without what separates its words, so that layout decides nothing."""
    return re.sub(r"\W+", "", text).lower()


def mean(values: Sequence[float]) -> float:
    return round(sum(values) / max(1, len(values)), 4)


def interval(values: Sequence[float], digits: int = 2) -> str:
    """A share with its 95 % interval (Wilson) and how many it is of."""
    n, share, z = len(values), sum(values) / max(1, len(values)), 1.96
    if not n:
        return "- (0)"
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return f"{share:.3f} ({low:.{digits}f}-{high:.{digits}f}, {n})"
