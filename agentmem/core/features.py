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

    from agentmem.core.dates import DateRange
    from agentmem.core.question import Question

FEATURES = (
    "lexical", "lexical_pair", "lexical_window", "lexical_session", "lexical_session_best",
    "cosine", "cosine_previous", "cosine_next", "cosine_window", "cosine_session_best",
    "speaker", "date", "asks", "answers", "length", "time", "when_time", "count_number", "name",
    "echo", "recent",
)  # fmt: skip
LEG_FEATURES = 10
"""The first ones come from the legs; their weights may not be negative."""
OWN_FEATURES = (0, 5)
SPEAKER = 10


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
    echo: NDArray[np.bool_] | None = None  # (R,) said by the assistant itself
    dialogue: bool = True  # whether people with names speak in the reader's scope

    def __post_init__(self) -> None:
        rows, terms = self.frequencies.shape
        for name in (
            "lengths", "cosine", "previous", "next", "session", "speaker", "flags", "created",
            "conversation", "echo",
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
    own_only: bool = False,
) -> NDArray[np.float32]:
    """One row of FEATURES for each row of evidence.

    With `own_only` only the words and the vector of a row and of those around it
    are asked, and the features of nothing else are set.
    """
    import numpy as np

    rows, terms = evidence.frequencies.shape
    columns = np.zeros((rows, len(FEATURES)), dtype=np.float32)
    if not rows:
        return columns
    # What neighbours and sessions are asked for side by side, and a last row of zeros: that is
    # where -1, nobody, points to.
    known = np.zeros((rows + 1, terms + 3), dtype=np.float32)
    shares, lexical, cosine, asks = (
        known[:rows, :terms],
        known[:rows, terms],
        known[:rows, terms + 1],
        known[:rows, terms + 2],
    )
    shares[...] = term_shares(evidence, question)
    lexical[...] = shares.sum(axis=1)
    if evidence.cosine is not None:
        scaled = (evidence.cosine - cosine_mean) / cosine_spread
        scaled[np.isnan(scaled)] = 0.0
        np.minimum(np.maximum(scaled, -5.0), 30.0, out=cosine)
    if not own_only:
        asks[...] = evidence.flags & ASKS != 0
    columns[:, :3] = known[:rows, terms : terms + 1]
    columns[:, 5] = cosine
    window = np.maximum(cosine, 0.0)  # as where no neighbour is near
    if int(evidence.previous.max()) >= 0 or int(evidence.next.max()) >= 0:
        before, after, before_last, after_next = (
            known.take(positions, axis=0) for positions in _around(evidence)
        )
        pair = np.maximum(shares, before[:, :terms])
        columns[:, 1] = pair.sum(axis=1)
        for side in (after, before_last, after_next):
            np.maximum(pair, side[:, :terms], out=pair)
        columns[:, 2] = pair.sum(axis=1)
        columns[:, 6] = before[:, terms + 1]
        columns[:, 7] = after[:, terms + 1]
        for fade, near, far in ((0.9, before, after), (0.8, before_last, after_next)):
            best = np.maximum(near[:, terms + 1], far[:, terms + 1])
            np.maximum(window, np.float32(fade) * best, out=window)
        columns[:, 13] = before[:, terms + 2]
    if own_only:
        return columns
    session = _best_of_session(known[:rows, : terms + 2], evidence.session)
    columns[:, 3] = session[:, :terms].sum(axis=1)
    columns[:, 4] = session[:, terms]
    if evidence.cosine is not None:
        columns[:, 8] = window
        columns[:, 9] = session[:, terms + 1]
    flags = evidence.flags
    columns[:, 10] = evidence.speaker
    if question.dates is not None:
        columns[:, 11] = _date_match(evidence, question.dates)
    columns[:, 12] = asks
    np.log1p(np.minimum(evidence.lengths, 40.0), out=columns[:, 14])
    columns[:, 15] = flags & TIME != 0
    if question.asks_when:
        columns[:, 16] = columns[:, 15]
    if question.asks_count:
        columns[:, 17] = flags & NUMBER != 0
    if question.asks_name:
        columns[:, 18] = flags & NAME != 0
    if evidence.echo is not None:
        columns[:, 19] = evidence.echo
    columns[:, 20] = _recent(evidence.created)
    return columns


def gate_features(
    features: NDArray[np.floating], evidence: Evidence, question: Question, *, best_sum: float
) -> tuple[float, float, float, float, float]:
    """What is known of the question as a whole, from the features of rows of one sort.

    The best sum, window share and cosine; the share of the question made of
    words no row in scope holds; and the same counting capitalised names only.
    """
    missing, names = missing_shares(evidence, question)
    return (
        best_sum,
        float(features[:, 2].max(initial=0.0)),
        float(features[:, 5].max(initial=-5.0)) if evidence.cosine is not None else 0.0,
        missing,
        names,
    )


def missing_shares(evidence: Evidence, question: Question) -> tuple[float, float]:
    """How much of the question is made of words no row in scope holds; of names among them."""
    unknown = [not found for found in evidence.document_frequencies.tolist()]
    if not any(unknown):
        return 0.0, 0.0
    worth = _term_worth(evidence, question).tolist()
    total = max(sum(worth), 1e-9)
    terms = tuple(zip(worth, unknown, question.term_is_name, strict=True))
    missing = sum(value for value, is_unknown, _ in terms if is_unknown)
    names = sum(value for value, is_unknown, is_name in terms if is_unknown and is_name)
    return missing / total, names / total


def _around(evidence: Evidence) -> tuple[NDArray[np.int32], ...]:
    """Where the row before stands, the one after, the one before that, and the one after that."""
    import numpy as np

    previous, after = evidence.previous, evidence.next
    nobody = np.array([-1], dtype=np.int32)
    further = (np.concatenate((links, nobody)).take(links) for links in (previous, after))
    return previous, after, *further


def _best_of_session(
    values: NDArray[np.float32], session: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The best value in each row's session; a row without one is a session of its own."""
    import numpy as np

    codes = np.where(session >= 0, session, -1 - np.arange(len(session)))
    order = codes.argsort(kind="stable")
    ordered = codes.take(order)
    fresh = np.ones(len(codes), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    starts = fresh.nonzero()[0]
    if len(starts) == len(codes):
        return values
    member = np.empty(len(codes), dtype=np.intp)
    member[order] = fresh.cumsum() - 1
    best: NDArray[np.float32] = np.maximum.reduceat(values.take(order, axis=0), starts, axis=0)
    return best.take(member, axis=0)


def term_shares(evidence: Evidence, question: Question) -> NDArray[np.float32]:
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


def _recent(created: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 for the oldest of the rows, 1 for the newest, by how many are older; 0 when not known."""
    import numpy as np

    known = np.sort(created[~np.isnan(created)])
    known = known[np.diff(known, prepend=-np.inf) > 0]  # `unique` loads much that is not needed
    if len(known) < 2:
        return np.zeros(len(created))
    places = np.searchsorted(known, np.nan_to_num(created, nan=known[0])) / (len(known) - 1)
    return np.asarray(np.where(np.isnan(created), 0.0, places))


def _date_match(evidence: Evidence, dates: DateRange) -> NDArray[np.float64]:
    """1 inside the question's dates, fading over a fortnight or their own length outside."""
    import numpy as np

    start, end = dates.start.timestamp(), dates.end.timestamp()
    away = np.maximum(np.maximum(start - evidence.created, evidence.created - end), 0.0)
    fade = max(end - start, 14 * 86_400.0)
    return np.nan_to_num(np.exp(-away / fade), nan=0.0)
