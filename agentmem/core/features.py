"""What each leg, the neighbours, the session and the speaker say for a row, as numbers.

All arrays are over the same R rows: the candidates first, then their
neighbours. Nothing here loops over rows in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentmem.core.lexical import K1, PRIOR_ROWS, B
from agentmem.core.rows import ASKS, NAME, NUMBER, TIME
from agentmem.core.values import dataclass
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
SPEAKER = 10
"""The first ones come from the legs; their weights may not be negative."""


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
    session: NDArray[np.int64]  # (R,)
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


def compute_features(
    evidence: Evidence,
    question: Question,
    *,
    cosine_mean: float = 0.0,
    cosine_spread: float = 1.0,
) -> NDArray[np.float32]:
    """One row of FEATURES for each row of evidence."""
    import numpy as np

    rows = len(evidence.lengths)
    previous, after = evidence.previous, evidence.next
    sessions = _Sessions(evidence.session)
    columns = np.zeros((rows, len(FEATURES)), dtype=np.float32)

    shares = _term_shares(evidence, question)
    pair = window = shares
    linked = rows > 0 and (int(previous.max()) >= 0 or int(after.max()) >= 0)
    if linked:
        before_last, after_next = _step(previous, previous), _step(after, after)
        pair = np.maximum(shares, _shift(shares, previous))
        window = np.maximum(pair, _shift(shares, after))
        for far in (before_last, after_next):
            window = np.maximum(window, _shift(shares, far))
    lexical = shares.sum(axis=1)
    columns[:, 0] = lexical
    columns[:, 1] = pair.sum(axis=1) if linked else lexical
    columns[:, 2] = window.sum(axis=1) if linked else lexical
    columns[:, 3] = sessions.best(shares).sum(axis=1)
    columns[:, 4] = sessions.best(lexical)

    if evidence.cosine is not None:
        cosine = (evidence.cosine - cosine_mean) / cosine_spread
        cosine[np.isnan(cosine)] = 0.0
        cosine = np.minimum(np.maximum(cosine, -5.0), 30.0).astype(np.float32)
        columns[:, 5] = cosine
        columns[:, 8] = np.maximum(cosine, 0.0)  # as where no neighbour is near
        if linked:
            near = np.maximum(cosine, 0.0)
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
    if linked:
        columns[:, 13] = _shift(asks, previous)
    columns[:, 14] = np.log1p(np.minimum(evidence.lengths, 40.0))
    columns[:, 15] = time
    columns[:, 16] = time * question.asks_when
    columns[:, 17] = (flags & NUMBER != 0) * np.float32(question.asks_count)
    columns[:, 18] = (flags & NAME != 0) * np.float32(question.asks_name)
    return columns


def gate_features(
    features: NDArray[np.floating], evidence: Evidence, question: Question, *, best_sum: float
) -> NDArray[np.float64]:
    """(5,): what is known of the question as a whole, from the features of rows of one sort.

    The best sum, window share and cosine; the share of the question made of
    words no row in scope holds; and the same counting capitalised names only.
    """
    import numpy as np

    worth = _term_worth(evidence, question)
    total = max(float(worth.sum()), 1e-9)
    missing = worth * (evidence.document_frequencies == 0)
    names = np.array(question.term_is_name, dtype=bool)
    return np.array(
        [
            best_sum,
            features[:, 2].max(initial=0.0),
            features[:, 5].max(initial=-5.0) if evidence.cosine is not None else 0.0,
            missing.sum() / total,
            missing[names].sum() / total,
        ]
    )


class _Sessions:
    """The best value in each row's session; a row without one is a session of its own."""

    def __init__(self, session: NDArray[np.int64]) -> None:
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

    worth = _term_worth(evidence, question)
    total = max(float(worth.sum()), 1e-9)
    penalty = K1 * (1.0 - B + B * evidence.lengths / max(evidence.mean_length, 1e-9))
    gain = evidence.frequencies * (K1 + 1.0) / (evidence.frequencies + penalty[:, None])
    return np.asarray(gain * (worth / total), dtype=np.float32)


def _term_worth(evidence: Evidence, question: Question) -> NDArray[np.float64]:
    """(T,): `lexical.idf` times the weight in the question."""
    import numpy as np

    found = evidence.document_frequencies.astype(np.float64)
    others = np.maximum(evidence.rows_in_scope + PRIOR_ROWS - found, 0.0)
    worth = np.log1p((others + 0.5) / (found + 0.5))
    return np.asarray(worth * np.array(question.term_weights), dtype=np.float64)


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
