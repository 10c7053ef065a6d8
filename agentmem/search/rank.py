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

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from math import exp, log1p
from typing import TYPE_CHECKING, Any

from agentmem.base.checks import require_text
from agentmem.base.errors import InvalidInput
from agentmem.base.lazy import compile_late
from agentmem.data import read_json
from agentmem.text.language import language_number
from agentmem.text.terms import K1, PRIOR_ROWS, B

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.base.protocols import EmbedderId
    from agentmem.search.question import Question
    from agentmem.text.dates import DateRange


# ----------------------------------------------------------------------------
# What is kept of a row for ranking, and how rows are gathered around the candidates.


USUAL_BACKGROUND = (0.33, 0.14)
"""Mean and spread of MiniLM's cosines between rows of one store."""

HOPS = 2
"""How far the neighbours of a candidate count."""

ASKS, TIME, NUMBER, NAME = 1, 2, 4, 8
LANGUAGE_SHIFT = 4
"""The upper half of a row's flags is the number of its language, 0 where it cannot be told."""
_TIME = compile_late(
    r"\b(?:yesterday|today|tonight|tomorrow|last|ago|next|weekend|recently|since"
    r"|this (?:week|month|year|morning|evening|afternoon|spring|summer|autumn|fall|winter)"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|june|july|august"
    r"|september|october|november|december|(?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_NUMBER = compile_late(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|couple|few|several|dozen|hundred"
    r"|thousand|once|twice)\b",
    re.IGNORECASE,
)
_NAME = compile_late(r"[a-z,] [A-Z][a-z]|[\"“”«»]")
_FLAGGED_CHARACTERS = 4_000
# Words of every other question; who has only a role has no name.
CHAT_ROLES = frozenset({"user", "assistant", "system", "tool", "developer", "human", "ai", "bot"})


def embedded_text(
    text: str,
    *,
    speaker: str = "",
    title: str = "",
    heading_path: tuple[str, ...] = (),
    extra: str = "",
) -> str:
    """The text to embed for a row: who says it, under what title, and what comes with it.

    A role is nobody's name, and says nothing about what is said.
    """
    head = " ".join(part for part in (title, *heading_path) if part)
    named = speaker and speaker.casefold() not in CHAT_ROLES
    said = f"{speaker}: {text}" if named else text
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
        | language_number(text) << LANGUAGE_SHIFT
    )


def match_speakers(codes: NDArray[np.int32], named_codes: Collection[int]) -> NDArray[np.int8]:
    """`Evidence.speaker` from each row's speaker code (-1 none) and those the question names."""
    import numpy as np

    if len(named_codes) != 1:
        return np.zeros(len(codes), dtype=np.int8)
    (named,) = named_codes
    return np.where(codes == named, 1, np.where(codes < 0, 0, -1)).astype(np.int8)


def measure_background(vectors: NDArray[np.float32]) -> tuple[float, float]:
    """Mean and spread of the cosines between unrelated rows, from a sample of unit vectors.

    Give some hundred rows spread over the store. With fewer than eight the
    answer is USUAL_BACKGROUND, which suits sentence embedders.
    """
    import numpy as np

    sample = np.asarray(vectors, dtype=np.float32)[:512]
    if len(sample) < 8:
        return USUAL_BACKGROUND
    cosines = (sample @ sample.T)[np.triu_indices(len(sample), k=1)]
    return float(np.median(cosines)), max(float(cosines.std()), 0.01)


# ----------------------------------------------------------------------------
# What each leg, the neighbours, the session and the speaker say for a row, as numbers.
#
# All arrays are over the same R rows: the candidates first, then their
# neighbours. Nothing here loops over rows in Python.


FEATURES = (
    "lexical", "lexical_pair", "lexical_window", "lexical_session", "lexical_session_best",
    "cosine", "cosine_previous", "cosine_next", "cosine_window", "cosine_session_best",
    "speaker", "date", "asks", "answers", "length", "time", "when_time", "count_number", "name",
    "echo", "recent", "other_language",
)  # fmt: skip
LEG_FEATURES = 10
"""The first ones come from the legs; their weights may not be negative."""
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


def compute_features(
    evidence: Evidence,
    question: Question,
    *,
    cosine_mean: float = 0.0,
    cosine_spread: float = 1.0,
) -> NDArray[np.float32]:
    """One row of FEATURES for each row of evidence."""
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
    if question.language:
        spoken = flags >> LANGUAGE_SHIFT
        columns[:, 21] = (spoken != 0) & (spoken != question.language)
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
class RankingModel:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """Scores by row, and the rows' positions from best to worst (equal scores: lowest first)."""

    scores: NDArray[np.float64]
    order: NDArray[np.intp]
    lexical: NDArray[np.float32]
    vector: NDArray[np.float32] | None
    features: NDArray[np.float32]


def rank(evidence: Evidence, question: Question, *, model: RankingModel) -> Ranked:
    """Every row with its score from 0 to 1, best first."""
    import numpy as np

    mean, spread = model.cosine_mean, model.cosine_spread
    features = compute_features(evidence, question, cosine_mean=mean, cosine_spread=spread)
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
    told = evidence.conversation
    if evidence.cosine is None and not evidence.dialogue and told.any() and not told.all():
        # By words alone the two curves do not compare: a page with more of the words goes first.
        words, best = features[:, 0], logs[told].max()
        logs[~told & (words > words[told].max()) & (logs < best)] = best + 1e-9
    return Ranked(
        scores=np.exp(np.minimum(logs, 0.0)),
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

    # Not a product of BLAS, which may wake other cores for a few hundred rows.
    sums = np.einsum("ij,j->i", features.astype(np.float64), np.array(weights, dtype=np.float64))
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
) -> RankingModel:
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
def fitted_models() -> Mapping[str, RankingModel]:
    """Models by the embedder they were fitted for, as benchmarks/fit_ranking.py wrote them."""
    return {name: _read_model(found) for name, found in read_json("ranking.json").items()}


def _read_model(found: Mapping[str, Any]) -> RankingModel:
    weights = {name: tuple(found[name]) for name in ("conversation", "statement", "page")}
    curves = {
        name: Curve(**{**found[name], "gate": tuple(found[name]["gate"])})
        for name in ("conversation_curve", "statement_curve", "page_curve")
    }
    return RankingModel(**{**found, **weights, **curves})
