"""Candidates of both legs to one ranked list with scores that mean something.

A turn of a conversation is judged with what surrounds it: the words of the
question it covers alone, together with the turn before it, within two turns,
and within its session; the same for cosines; who speaks, and whether it looks
like the sort of answer that is asked for. A page is judged by its own words
and its own vector. A linear model adds these up (leg scores never count
against a row: P27) and a logistic curve turns the sum into a score, where 0.3
means "a person would call it related".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from math import exp, log1p
from typing import TYPE_CHECKING, Any

from agentmem.core.features import (
    FEATURES,
    LEG_FEATURES,
    OWN_FEATURES,
    SPEAKER,
    Evidence,
    compute_features,
    gate_features,
)
from agentmem.core.rows import (
    HOPS,
    USUAL_BACKGROUND,
    embedded_text,
    indexed_text,
    match_speakers,
    measure_background,
    row_flags,
)
from agentmem.core.values import dataclass
from agentmem.data import read_json
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.core.question import Question
    from agentmem.protocols import EmbedderId

__all__ = [
    "FEATURES", "HOPS", "LEG_FEATURES", "RELATED", "Curve", "Evidence", "Model", "Ranked",
    "embedded_text", "indexed_text", "match_speakers", "measure_background",
    "model_for", "rank", "row_flags",
]  # fmt: skip

RELATED = 0.3
"""From this score on a person would call a memory related to the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """From sums to scores: (does the memory know of this at all × does this row) ^ power.

    The first is a logistic curve over the best sum, the best window share, the
    best cosine, the share of the question made of words that no row holds, and
    the same for capitalised names; it is equal for all rows of a sort, so it
    moves the list as a whole and never its order. The second is a logistic
    curve over the row's own sum. The power puts RELATED where it belongs.
    """

    gate: tuple[float, float, float, float, float]
    gate_offset: float
    slope: float
    offset: float
    power: float

    def __post_init__(self) -> None:
        if min(*self.gate[:3], self.slope, self.power) < 0:
            raise InvalidInput("gate", self.gate, "would let a better match score lower")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights over FEATURES for rows of conversations, statements and pages, and their curves.

    Where people with names speak, a turn is judged with what surrounds it;
    what one user told an assistant is judged statement by statement.
    `cosine_mean` and `cosine_spread` are of unrelated pairs in the embedder's space.
    """

    conversation: tuple[float, ...]
    statement: tuple[float, ...]
    page: tuple[float, ...]
    conversation_curve: Curve
    statement_curve: Curve
    page_curve: Curve
    cosine_mean: float = 0.0
    cosine_spread: float = 1.0

    def __post_init__(self) -> None:
        for name in ("conversation", "statement", "page"):
            weights = getattr(self, name)
            if len(weights) != len(FEATURES) or min(weights[:LEG_FEATURES]) < 0:
                raise InvalidInput(name, weights, "is not one weight a feature, legs at least 0")
        if self.cosine_spread <= 0:
            raise InvalidInput("cosine_spread", self.cosine_spread, "is not above 0")

    @property
    def pages_stand_alone(self) -> bool:
        """Whether a page is judged by its own words and its own vector, and by nothing else."""
        return not any(weight for at, weight in enumerate(self.page) if at not in OWN_FEATURES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Scores by row, and the rows' positions from best to worst (equal scores: lowest first)."""

    scores: NDArray[np.float64]
    order: NDArray[np.intp]
    lexical: NDArray[np.float32]
    vector: NDArray[np.float32] | None
    features: NDArray[np.float32]


def rank(
    evidence: Evidence, question: Question, *, model: Model, all_features: bool = True
) -> Ranked:
    """Every row with its score from 0 to 1, best first.

    Without `all_features` those that weigh nothing may be left 0.
    """
    import numpy as np

    features = compute_features(
        evidence,
        question,
        cosine_mean=model.cosine_mean,
        cosine_spread=model.cosine_spread,
        own_only=not all_features and not evidence.conversation.any() and model.pages_stand_alone,
    )
    logs = np.zeros(len(features), dtype=np.float64)
    for pages, weights, curve in (
        (True, model.page, model.page_curve),
        (False, model.conversation, model.conversation_curve)
        if evidence.dialogue
        else (False, model.statement, model.statement_curve),
    ):
        here = evidence.conversation != pages
        count = int(np.count_nonzero(here))
        if count:
            whole = count == len(here)
            rows, speaker = features, evidence.speaker
            if not whole:
                rows, speaker = rows.compress(here, axis=0), speaker.compress(here)
            sums = sum_features(rows, speaker, weights=weights)
            gate = gate_features(rows, evidence, question, best_sum=float(sums.max()))
            logs[... if whole else here] = log_score(sums, gate, curve=curve)
    return Ranked(
        scores=np.exp(logs),
        order=np.argsort(-logs, kind="stable"),
        lexical=features[:, 0],
        vector=evidence.cosine,
        features=features,
    )


def sum_features(
    features: NDArray[np.floating], speaker: NDArray[np.int8], *, weights: Sequence[float]
) -> NDArray[np.float64]:
    """Each row's weighted sum.

    A question that names a speaker is not more related to the memory for it,
    so the one who is named gets no bonus and the others pay twice.
    """
    import numpy as np

    sums = features.astype(np.float64) @ np.array(weights, dtype=np.float64)
    return np.asarray(sums - weights[SPEAKER] * bool(speaker.any()), dtype=np.float64)


def log_score(
    sums: NDArray[np.float64], gate: Sequence[float], *, curve: Curve
) -> NDArray[np.float64]:
    """The logarithm of each score, so that scores near 0 keep their order."""
    import numpy as np

    weighed = sum(g * w for g, w in zip(gate, curve.gate, strict=True)) + curve.gate_offset
    known = min(weighed, 0.0) - log1p(exp(-abs(weighed)))
    rows = -np.logaddexp(0.0, -(curve.slope * sums + curve.offset))
    return np.asarray(curve.power * (known + rows), dtype=np.float64)


@lru_cache(maxsize=64)
def model_for(
    embedder: EmbedderId | None, *, background: tuple[float, float] | None = None
) -> Model:
    """The fitted model that suits an embedder; None is search by words alone.

    Embedders that nothing was fitted for use MiniLM's weights, with cosines
    brought to its scale by `background`: their own mean and spread between
    unrelated rows, from `measure_background`.
    """
    models = fitted_models()
    if embedder is None:
        return models["none"]
    if embedder.name in models:
        return models[embedder.name]
    mean, spread = background or USUAL_BACKGROUND
    return replace(models["minilm"], cosine_mean=mean, cosine_spread=spread)


@cache
def fitted_models() -> Mapping[str, Model]:
    """Models by the embedder they were fitted for, as benchmarks/fit_ranking.py wrote them."""
    return {name: _read_model(found) for name, found in read_json("ranking.json").items()}


def _read_model(found: Mapping[str, Any]) -> Model:
    weights = {name: tuple(found[name]) for name in ("conversation", "statement", "page")}
    curves = {
        name: Curve(**{**found[name], "gate": tuple(found[name]["gate"])})
        for name in ("conversation_curve", "statement_curve", "page_curve")
    }
    return Model(**{**found, **weights, **curves})
