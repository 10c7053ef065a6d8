"""Ranked lists to one ranked list, and raw scores to 0–1 (P27).

A leg is what one index answered: pairs of id and score, in any order. Its
order never matters, only its scores do, so shuffled input gives the same
answer. An id that stands twice in a leg counts once, with its best score. Every
id of every leg is in the result, so a keyword-only and a vector-only match
both get there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from agentmem.core.checks import require_number, require_text, require_unit
from agentmem.core.values import dataclass
from agentmem.errors import InvalidInput, InvalidNumber

Legs = Mapping[str, Iterable[tuple[str, float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """One id with its fused score from 0 to 1 and the score each leg gave it, by leg name."""

    id: str
    score: float
    legs: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        require_text(self.id, "id")
        require_unit(self.score, "score")

    def leg(self, name: str) -> float | None:
        """What the leg `name` said, or None when it did not find this id."""
        return dict(self.legs).get(name)


def reciprocal_rank(
    legs: Legs, *, k: float = 60, weights: Mapping[str, float] | None = None
) -> tuple[Fused, ...]:
    """All ids by the sum of weight / (k + rank), scaled so that first in every leg is 1.

    Formula: Cormack, Clarke and Büttcher, 2009. Only the order within a leg
    counts, so raw scores of any range may be given. Equal scores share the
    better rank; equal sums stand in the order of their ids.
    """
    k = require_number(k, "k", low=0)
    shares = _shares(legs, weights)
    found = {name: _best(pairs, name) for name, pairs in legs.items()}
    parts: dict[str, list[float]] = {}
    for name, scores in found.items():
        for item, rank in _ranks(scores).items():
            parts.setdefault(item, []).append(shares[name] * ((k + 1) / (k + rank)))
    return _ordered(parts, found, total=math.fsum(shares.values()))


def weighted(legs: Legs, weights: Mapping[str, float] | None = None) -> tuple[Fused, ...]:
    """All ids by the weighted mean of their calibrated scores; a leg without the id counts 0.

    Scores must be within 0 to 1 already: see `saturate`, `from_cosine` and
    `min_max`. Weights are relative; legs weigh the same when none are given.
    Equal means stand in the order of their ids.
    """
    shares = _shares(legs, weights)
    found = {name: _best(pairs, name) for name, pairs in legs.items()}
    parts: dict[str, list[float]] = {}
    for name, scores in found.items():
        for item, score in scores.items():
            parts.setdefault(item, []).append(
                shares[name] * require_unit(score, f"score of {item!a} in {name!a}")
            )
    return _ordered(parts, found, total=math.fsum(shares.values()))


def min_max(pairs: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The leg with its lowest score at 0 and its highest at 1; all 1 when all are equal.

    Relative: the best of a bad lot is 1 too, so no threshold should look at it.
    """
    leg = [
        (item, require_number(score, f"score of {item!a}")) for item, score in _pairs(pairs, "leg")
    ]
    if not leg:
        return ()
    low = min(score for _, score in leg)
    high = max(score for _, score in leg)
    if low == high:
        return tuple((item, 1.0) for item, _ in leg)
    half = 1.0 if math.isfinite(high - low) else 0.5  # the span of the largest floats is infinite
    span = high * half - low * half
    return tuple((item, min(1.0, (score * half - low * half) / span)) for item, score in leg)


def saturate(score: float, *, half_at: float = 5.0) -> float:
    """A BM25-like score, larger is better, as score / (score + half_at); 0 and below are 0.

    Absolute: the same score gives the same value whatever else was found.
    SQLite's FTS5 gives negative numbers for better matches: pass them negated.
    """
    half_at = require_number(half_at, "half_at", low=0)
    if half_at == 0:
        raise InvalidNumber("half_at", half_at, "is zero", remedy="Use the score that should be ½.")
    score = require_number(score, "score")
    # Written so that neither end overflows: score + half_at may be infinite.
    return 0.0 if score <= 0 else 1.0 / (1.0 + half_at / score)


def from_cosine(cosine: float, *, floor: float = 0.0) -> float:
    """A cosine similarity with `floor` and below at 0 and 1 at 1.

    `floor` is where unrelated texts lie for the embedder; rounding just past
    ±1 is forgiven, anything further is not a cosine.
    """
    floor = require_number(floor, "floor", low=-1, high=0.999)
    cosine = require_number(cosine, "cosine", low=-1.001, high=1.001)
    return min(1.0, max(0.0, (cosine - floor) / (1.0 - floor)))


def _best(pairs: Iterable[tuple[str, float]], leg: str) -> dict[str, float]:
    best: dict[str, float] = {}
    for item, score in _pairs(pairs, leg):
        value = require_number(score, f"score of {item!a} in {leg!a}")
        best[item] = max(value, best.get(item, value))
    return best


def _pairs(pairs: Iterable[tuple[str, float]], leg: str) -> Iterator[tuple[str, float]]:
    if not isinstance(pairs, Iterable) or isinstance(pairs, str | bytes | Mapping):
        raise InvalidInput(leg, pairs, "is not a list", remedy="Pass pairs of id and score.")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInput(leg, pair, "is not a pair", remedy="Pass pairs of id and score.")
        require_text(pair[0], "id")
        yield pair[0], pair[1]


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """1 + how many score strictly higher, for each id."""
    ranks: dict[str, int] = {}
    rank, previous = 0, math.nan
    for place, item in enumerate(sorted(scores, key=lambda i: -scores[i]), start=1):
        if scores[item] != previous:
            rank, previous = place, scores[item]
        ranks[item] = rank
    return ranks


def _shares(legs: Legs, weights: Mapping[str, float] | None) -> dict[str, float]:
    """Each leg's weight, the largest being 1."""
    if not isinstance(legs, Mapping):
        raise InvalidInput(
            "legs", legs, "is not a mapping", remedy='Name each leg: {"lexical": [(id, score), …]}.'
        )
    if weights is None:
        return dict.fromkeys(legs, 1.0)
    if set(weights) != set(legs):
        raise InvalidInput(
            "weights",
            sorted(map(str, weights)),
            f"do not name the legs {sorted(map(str, legs))!a}",
            remedy="Give one weight to each leg.",
        )
    checked = {name: require_number(weights[name], f"weight of {name!a}", low=0) for name in legs}
    largest = max(checked.values(), default=1.0)
    if largest == 0:
        raise InvalidNumber(
            "weights", dict(checked), "are all zero", remedy="Give some leg a weight above 0."
        )
    return {name: weight / largest for name, weight in checked.items()}


def _ordered(
    parts: Mapping[str, list[float]], found: Mapping[str, Mapping[str, float]], *, total: float
) -> tuple[Fused, ...]:
    names = sorted(found)
    fused = [
        Fused(
            id=item,
            # fsum rounds once, so the order of the legs cannot show in the last bit.
            score=min(1.0, math.fsum(values) / total),
            legs=tuple((name, found[name][item]) for name in names if item in found[name]),
        )
        for item, values in parts.items()
    ]
    return tuple(sorted(fused, key=lambda hit: (-hit.score, hit.id)))
