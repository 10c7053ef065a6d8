"""Candidates of both legs to one ranked list with scores that mean something.

A turn of a conversation is judged with what surrounds it: the words of the
question it covers alone, together with the turn before it, within two turns,
and within its session; the same for cosines; who speaks, and whether it looks
like the sort of answer that is asked for. A page is judged by its own words
and its own vector. A linear model adds these up (leg scores never count
against a row: P27) and a logistic curve turns the sum into a score, where 0.3
means "a person would call it related".

All arrays are over `rows`: the candidates first, then their neighbours.
Nothing here loops over rows in Python.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmem.core.checks import require_text
from agentmem.core.lexical import K1, B
from agentmem.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.core.question import Question

FEATURES = (
    "lexical", "lexical_pair", "lexical_window", "lexical_session", "lexical_session_best",
    "cosine", "cosine_previous", "cosine_next", "cosine_window", "cosine_session_best",
    "speaker", "date", "asks", "answers", "length", "time", "when_time", "count_number", "name",
)  # fmt: skip
LEG_FEATURES = 10
"""The first ones come from the legs; their weights may not be negative."""

HOPS = 2
RELATED = 0.3

ASKS, TIME, NUMBER, NAME = 1, 2, 4, 8
_TIME = re.compile(
    r"\b(?:yesterday|today|tonight|tomorrow|last|ago|next|weekend|recently|since"
    r"|this (?:week|month|year|morning|evening|afternoon|spring|summer|autumn|fall|winter)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august"
    r"|september|october|november|december|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|couple|few|several|dozen|hundred"
    r"|thousand|once|twice)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"[a-z,] [A-Z][a-z]|[\"“”«»]")
_FLAGGED_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What both legs know about the rows; R rows, T terms of the question.

    `previous` and `next` are positions within these arrays, -1 for none.
    `session` is equal for rows of one session, -1 for a row that stands alone.
    `cosine` is None without an embedder and NaN for a row not embedded yet.
    `speaker` is +1 where the person named in the question speaks, -1 where
    somebody else does, 0 where nobody or several people are named.
    """

    frequencies: NDArray[np.float32]  # (R, T)
    lengths: NDArray[np.float32]  # (R,)
    document_frequencies: NDArray[np.float32]  # (T,) within the reader's scope
    rows_in_scope: int
    mean_length: float
    cosine: NDArray[np.float32] | None  # (R,)
    previous: NDArray[np.int32]  # (R,)
    next: NDArray[np.int32]  # (R,)
    session: NDArray[np.int32]  # (R,)
    speaker: NDArray[np.int8]  # (R,)
    flags: NDArray[np.uint8]  # (R,) from row_flags
    created: NDArray[np.float64]  # (R,) seconds since 1970, NaN when not known
    conversation: NDArray[np.bool_]  # (R,)

    def __post_init__(self) -> None:
        rows, terms = self.frequencies.shape
        for name in (
            "lengths", "cosine", "previous", "next", "session", "speaker", "flags", "created",
            "conversation",
        ):  # fmt: skip
            values = getattr(self, name)
            if values is not None and values.shape != (rows,):
                raise InvalidInput(name, values.shape, f"is not of shape ({rows},)")
        if self.document_frequencies.shape != (terms,):
            raise InvalidInput(
                "document_frequencies", self.document_frequencies.shape, f"is not ({terms},)"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights over FEATURES for rows of conversations and of pages, and their logistic curves.

    A curve `(slope, offset)` gives `1 / (1 + exp(-(slope * sum + offset)))`.
    `cosine_mean` and `cosine_spread` are of unrelated pairs in the embedder's space.
    """

    conversation: tuple[float, ...]
    page: tuple[float, ...]
    conversation_curve: tuple[float, float]
    page_curve: tuple[float, float]
    cosine_mean: float = 0.0
    cosine_spread: float = 1.0

    def __post_init__(self) -> None:
        for name in ("conversation", "page"):
            weights = getattr(self, name)
            if len(weights) != len(FEATURES) or min(weights[:LEG_FEATURES]) < 0:
                raise InvalidInput(name, weights, "is not one weight a feature, legs at least 0")
        if min(self.conversation_curve[0], self.page_curve[0]) < 0 or self.cosine_spread <= 0:
            raise InvalidInput("curve", self.conversation_curve, "has a negative slope")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Scores by row, and the rows' positions from best to worst (equal scores: lowest first)."""

    scores: NDArray[np.float32]
    order: NDArray[np.intp]
    lexical: NDArray[np.float32]
    vector: NDArray[np.float32] | None
    features: NDArray[np.float32]


def rank(evidence: Evidence, question: Question, *, model: Model) -> Ranked:
    """Every row with its score from 0 to 1, best first."""
    import numpy as np

    features = compute_features(evidence, question, model=model)
    return Ranked(
        scores=(scores := score(features, evidence.conversation, model=model)),
        order=np.argsort(-scores, kind="stable"),
        lexical=features[:, 0],
        vector=evidence.cosine,
        features=features,
    )


def score(
    features: NDArray[np.float32], conversation: NDArray[np.bool_], *, model: Model
) -> NDArray[np.float32]:
    """The calibrated score of each row of features, 0 to 1."""
    import numpy as np

    weights = np.array([model.page, model.conversation], dtype=np.float64)
    curves = np.array([model.page_curve, model.conversation_curve], dtype=np.float64)
    kind = conversation.astype(np.intp)
    sums = (features @ weights.T)[np.arange(len(kind)), kind]
    logits = np.clip(curves[kind, 0] * sums + curves[kind, 1], -30.0, 30.0)
    return np.asarray(1.0 / (1.0 + np.exp(-logits)), dtype=np.float64)


def compute_features(
    evidence: Evidence, question: Question, *, model: Model
) -> NDArray[np.float32]:
    """One row of FEATURES for each row of evidence."""
    import numpy as np

    rows = len(evidence.lengths)
    previous, after = evidence.previous, evidence.next
    before_last, after_next = _step(previous, previous), _step(after, after)
    sessions = _Sessions(evidence.session)
    columns = np.zeros((rows, len(FEATURES)), dtype=np.float32)

    shares = _term_shares(evidence, question)
    pair = np.maximum(shares, _shift(shares, previous))
    window = np.maximum(pair, _shift(shares, after))
    for far in (before_last, after_next):
        window = np.maximum(window, _shift(shares, far))
    lexical = shares.sum(axis=1)
    columns[:, 0] = lexical
    columns[:, 1] = pair.sum(axis=1)
    columns[:, 2] = window.sum(axis=1)
    columns[:, 3] = sessions.best(shares).sum(axis=1)
    columns[:, 4] = sessions.best(lexical)

    if evidence.cosine is not None:
        cosine = (evidence.cosine - model.cosine_mean) / model.cosine_spread
        cosine = np.clip(np.nan_to_num(cosine, nan=0.0), -5.0, 30.0).astype(np.float32)
        near = np.maximum(cosine, 0.0)
        columns[:, 5] = cosine
        columns[:, 6] = _shift(cosine, previous)
        columns[:, 7] = _shift(cosine, after)
        columns[:, 8] = np.maximum.reduce(
            [
                cosine,
                0.9 * _shift(near, previous),
                0.9 * _shift(near, after),
                0.8 * _shift(near, before_last),
                0.8 * _shift(near, after_next),
            ]
        )
        columns[:, 9] = sessions.best(cosine)

    flags = evidence.flags
    asks = (flags & ASKS != 0).astype(np.float32)
    time = (flags & TIME != 0).astype(np.float32)
    columns[:, 10] = evidence.speaker
    columns[:, 11] = _date_match(evidence, question)
    columns[:, 12] = asks
    columns[:, 13] = _shift(asks, previous)
    columns[:, 14] = np.log1p(np.minimum(evidence.lengths, 40.0))
    columns[:, 15] = time
    columns[:, 16] = time * question.asks_when
    columns[:, 17] = (flags & NUMBER != 0) * np.float32(question.asks_count)
    columns[:, 18] = (flags & NAME != 0) * np.float32(question.asks_name)
    return columns


def embedded_text(
    text: str,
    *,
    speaker: str = "",
    title: str = "",
    heading_path: tuple[str, ...] = (),
    extra: str = "",
) -> str:
    """The text to embed for a row: who says it, under what title, and what comes with it."""
    head = " ".join(part for part in (title, *heading_path) if part)
    said = f"{speaker}: {text}" if speaker else text
    return "\n".join(part for part in (head, f"{said} {extra}".rstrip() if extra else said) if part)


def indexed_text(
    text: str, *, title: str = "", heading_path: tuple[str, ...] = (), extra: str = ""
) -> str:
    """The text whose terms are indexed for a row; the speaker is evidence of its own."""
    return "\n".join(part for part in (title, *heading_path, text, extra) if part)


def row_flags(text: str) -> int:
    """What sort of statement a text is, in one byte; kept with the row."""
    require_text(text, "text")
    ending = text[-200:].rstrip(" \t\r\n\"'”’)]}*_")
    text = text[:_FLAGGED_CHARACTERS]
    return (
        ASKS * ending.endswith(("?", "？", "؟"))
        | TIME * (_TIME.search(text) is not None)
        | NUMBER * (_NUMBER.search(text) is not None)
        | NAME * (_NAME.search(text) is not None)
    )


def match_speakers(codes: NDArray[np.int32], named_codes: Collection[int]) -> NDArray[np.int8]:
    """`Evidence.speaker` from each row's speaker code (-1 none) and the codes the question names."""
    import numpy as np

    if len(named_codes) != 1:
        return np.zeros(len(codes), dtype=np.int8)
    (named,) = named_codes
    return np.where(codes == named, 1, np.where(codes < 0, 0, -1)).astype(np.int8)


def expand(
    candidates: NDArray[np.int64],
    previous_of: NDArray[np.int32],
    next_of: NDArray[np.int32],
    *,
    hops: int = HOPS,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """The candidates and their neighbours, and each one's neighbours as positions among them.

    `previous_of[row]` and `next_of[row]` are row numbers or -1. The distinct
    candidates come first, in the order given.
    """
    import numpy as np

    _, first = np.unique(candidates, return_index=True)
    rows = candidates[np.sort(first)].astype(np.int64)
    frontier = rows
    for _ in range(hops):
        near = np.concatenate([previous_of[frontier], next_of[frontier]]).astype(np.int64)
        near = np.unique(near[near >= 0])
        frontier = near[~np.isin(near, rows)]
        rows = np.concatenate([rows, frontier])
    order = np.argsort(rows)
    ordered = rows[order]

    def positions(wanted: NDArray[np.int32]) -> NDArray[np.int32]:
        at = np.minimum(np.searchsorted(ordered, wanted), max(len(ordered) - 1, 0))
        found = (wanted >= 0) & (ordered[at] == wanted) if len(ordered) else wanted >= 0
        return np.where(found, order[at] if len(ordered) else -1, -1).astype(np.int32)

    return rows, positions(previous_of[rows]), positions(next_of[rows])


def measure_background(vectors: NDArray[np.float32]) -> tuple[float, float]:
    """Mean and spread of the cosines between unrelated rows, from a sample of unit vectors.

    Give some hundred rows spread over the store. With fewer than eight the
    answer is (0.0, 0.1), which suits embedders trained for cosines.
    """
    import numpy as np

    sample = np.asarray(vectors, dtype=np.float32)[:512]
    if len(sample) < 8:
        return 0.0, 0.1
    cosines = (sample @ sample.T)[np.triu_indices(len(sample), k=1)]
    return float(np.median(cosines)), max(float(cosines.std()), 0.01)


class _Sessions:
    """The best value in each row's session; a row without one is a session of its own."""

    def __init__(self, session: NDArray[np.int32]) -> None:
        import numpy as np

        codes = np.where(session >= 0, session, -1 - np.arange(len(session)))
        self.order = np.argsort(codes, kind="stable")
        ordered = codes[self.order]
        fresh = np.ones(len(codes), dtype=bool)
        fresh[1:] = ordered[1:] != ordered[:-1]
        self.starts = np.flatnonzero(fresh)
        self.member = np.empty(len(codes), dtype=np.intp)
        self.member[self.order] = np.cumsum(fresh) - 1

    def best(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        import numpy as np

        if not len(values):
            return values
        best: NDArray[np.float32] = np.maximum.reduceat(values[self.order], self.starts, axis=0)
        return best[self.member]


def _term_shares(evidence: Evidence, question: Question) -> NDArray[np.float32]:
    """(R, T): BM25 of each term as a share of what the whole question is worth."""
    import numpy as np

    found = evidence.document_frequencies.astype(np.float64)
    worth = np.log1p(np.maximum(evidence.rows_in_scope - found + 0.5, 0.0) / (found + 0.5))
    worth = worth * question.weights()
    total = max(float(worth.sum()), 1e-9)
    penalty = K1 * (1.0 - B + B * evidence.lengths / max(evidence.mean_length, 1e-9))
    gain = evidence.frequencies * (K1 + 1.0) / (evidence.frequencies + penalty[:, None])
    return np.asarray(gain * (worth / total), dtype=np.float32)


def _date_match(evidence: Evidence, question: Question) -> NDArray[np.float32]:
    """1 inside the question's dates, fading over a fortnight or their own length outside."""
    import numpy as np

    if question.dates is None:
        return np.zeros(len(evidence.created), dtype=np.float32)
    start, end = question.dates.start.timestamp(), question.dates.end.timestamp()
    away = np.maximum(np.maximum(start - evidence.created, evidence.created - end), 0.0)
    fade = max(end - start, 14 * 86_400.0)
    return np.nan_to_num(np.exp(-away / fade), nan=0.0).astype(np.float32)


def _shift(values: NDArray[np.float32], positions: NDArray[np.int32]) -> NDArray[np.float32]:
    """Each row's neighbour's values, 0 where there is no neighbour."""
    import numpy as np

    if not len(values):
        return values
    there = positions >= 0
    shape = there if values.ndim == 1 else there[:, None]
    return np.where(shape, values[positions], np.float32(0))


def _step(positions: NDArray[np.int32], further: NDArray[np.int32]) -> NDArray[np.int32]:
    import numpy as np

    if not len(positions):
        return positions
    return np.where(positions >= 0, further[positions], -1).astype(np.int32)
