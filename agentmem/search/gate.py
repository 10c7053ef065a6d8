"""Whether a message asks about the user's own world, and who is believed about it.

Similarity does not tell: the best memory for "why do cats purr" may lie nearer
than the one for "what car do I own". A fitted model decides, from the words
of the message (mine, we, mum, how to, translate, …, by language), from what
memory knows of it (cosines, the share of its words and names that some memory
holds) and from what the embedder's models say of it: a weight for each, and a
layer of units for what only several of them together tell. `benchmarks/fit_gate.py` fits it; this
module reads the features and applies it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, log1p
from typing import TYPE_CHECKING, Literal

from agentmem.base.blas import one_thread
from agentmem.base.types import Hit, Memory
from agentmem.data import read_bytes
from agentmem.search.rank import RELATED, missing_shares, term_shares
from agentmem.text.language import (
    LANGUAGES,
    READ_CHARACTERS,
    UNSPACED,
    detect_language,
    gram_places,
    gram_scale,
    is_greeting,
    question_words,
    words_of,
)
from agentmem.text.terms import STOP_WORDS, analyse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from agentmem.search.question import Question
    from agentmem.search.rank import Evidence, Ranked


WORD_FEATURES = (
    "own", "i", "me", "first_person", "kin", "now", "recall", "task", "howto", "general",
    "greeting", "ending", "howto_own", "long", "length", "lines", "digits", "few_words",
    "indefinite", "definite", "plural", "people", "usual", "why", "they", "past",
    *LANGUAGES,
)  # fmt: skip
FORMS = ("indefinite", "definite", "plural", "people", "usual", "why", "they", "past")
"""How a question speaks of things: of a cat, the cat, cats, what people do, what is usual, …"""
MEMORY_FEATURES = (
    "best", "third", "tenth", "contrast", "covered", "names_missing", "row_share", "rows",
    "named", "covered_unspaced",
)  # fmt: skip
SHUT, OPEN = 0.15, 0.55
"""Up to the one the gate is shut, from the other on it is open; between them it depends on how near
a memory is. The usual threshold of 0.3 is where the gate is as often wrong on either side."""
PASTED_LINES = 3
"""A message with so many line breaks holds something pasted; two lines are how people type."""
ANSWERS = 0.5
"""From this score on a page answers by itself, whatever is asked about."""
SEARCHED = 0.15
"""How generous a search is to statements when the user's own world is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Weights of the words, of what memory knows, of n-grams and of the models' reading.

    Embedders without weights of their own leave `reading` empty. `units` see all of these but the
    n-grams, each from its `start` on, and count by `counts`.
    """

    words: NDArray[np.float32]
    memory: NDArray[np.float32]
    grams: NDArray[np.float32]
    reading: NDArray[np.float32]
    units: NDArray[np.float32]
    start: NDArray[np.float32]
    counts: NDArray[np.float32]
    offset: float


@cache
def gate_of(name: str) -> Gate:
    """The fitted gate for an embedder; "none" for who is not known, or search by words."""
    import io

    import numpy as np

    with np.load(io.BytesIO(read_bytes("gates.npz"))) as file:
        family = name if f"{name}_words" in file else "none"
        parts: dict[str, NDArray[np.float32]] = {
            part: file[f"{family}_{part}"].astype(np.float32)
            for part in ("words", "memory", "grams", "reading", "units", "start", "counts")
        }
        return Gate(offset=float(file[f"{family}_offset"]), **parts)


def own_world(
    text: str,
    question: Question,
    evidence: Evidence,
    reading: NDArray[np.float32] | None,
    *,
    gate: Gate,
) -> float:
    """How likely `text` asks about what the memories of `evidence` are about, from 0 to 1."""
    if is_greeting(text):
        return 0.0
    import numpy as np

    said = word_features(text)
    known = memory_features(question, evidence, unspaced=_unspaced(said))
    total = gate.offset + float(gate.words @ said) + float(gate.memory @ known)
    total += float(gate.grams[gram_places(text)].sum()) * gram_scale(text)
    if reading is None or len(reading) != len(gate.reading):
        reading = gate.reading[:0]
    else:
        total += float(gate.reading @ reading)
    seen = np.concatenate([said, known, reading])
    if len(seen) == len(gate.units):
        with one_thread:
            total += float(gate.counts @ np.maximum(seen @ gate.units + gate.start, 0))
    return 1 / (1 + exp(-max(-50.0, min(50.0, total))))


Sort = Literal["statement", "echo", "page"]
"""What a memory is to a turn: what people stated, what the assistant answered, what was read."""


def openness(world: float) -> float:
    """How far the gate is open, from 0 to 1."""
    return min(1.0, max(0.0, world - SHUT) / (OPEN - SHUT))


def turn_score(score: float, world: float, *, sort: Sort = "statement") -> float:
    """What a memory with a search's `score` is worth to a turn that asks about this `world`.

    When the user's own world is asked about, everything that was stated in it may
    help and the score says what helps most; of pages, which are longer, and of the
    assistant's own answers only what is at least a little like the question. When
    it is not, nothing does but a page that answers by itself.
    """
    near, world = max(score, 0.0) ** 0.25, openness(world)
    if sort == "statement":
        return float(world * (1 + near) / 2)
    alone = score if sort == "page" and score >= ANSWERS else 0.0
    return float(max(alone, world * near))


def search_scores(ranked: Ranked, evidence: Evidence, world: float) -> Ranked:
    """`ranked` as a search tells it, raised where the user's own world is asked about.

    The ranking alone sees words and vectors of single rows. "What car do I own" shares no
    word with "I drive a Tesla", and is answered by it because it asks for what was told.
    """
    import numpy as np

    power = np.where(evidence.conversation, SEARCHED, 0.25)
    raised = openness(world) * np.maximum(ranked.scores, 0.0) ** power
    scores = np.maximum(ranked.scores, raised)
    order = ranked.order[np.argsort(-scores[ranked.order], kind="stable")]
    return replace(ranked, scores=scores, order=order)


def word_features(text: str) -> NDArray[np.float32]:
    """WORD_FEATURES of a message."""
    import numpy as np

    read = text.strip()[:READ_CHARACTERS].casefold().replace("’", "'")
    language = detect_language(read)
    sorts = question_words()[language]
    said = words_of(read)
    parts = {*said, *(part for word in said for part in word.replace("-", "'").split("'"))}
    unspaced = language in UNSPACED

    def has(sort: str) -> bool:
        listed = sorts.get(sort, frozenset())
        return any(word in read for word in listed) if unspaced else not listed.isdisjoint(parts)

    own, mine = has("own"), has("me")
    first = has("i") or (language == "fr" and any(word.startswith("j'") for word in said))
    endings = tuple(sorts.get("ending", ()))
    ending = any(word.endswith(endings) and len(word) > 4 for word in said) if endings else False
    if unspaced:
        task, howto = has("task"), has("howto")
    else:
        task = bool(said) and said[0] in sorts["task"]
        howto = read.lstrip("¿¡\"' ").startswith(tuple(sorts["howto"]))
    values: dict[str, float] = {
        "own": own,
        "i": first,
        "me": mine,
        "first_person": own or first or mine or ending,
        "kin": has("kin"),
        "now": has("now"),
        "recall": has("recall"),
        "task": task,
        "howto": howto,
        "general": has("general"),
        "greeting": is_greeting(text),
        "ending": ending,
        "howto_own": howto and own,
        "long": len(text) > 200,
        "length": min(len(text), 1_000) ** 0.5 / 10,
        "lines": text.strip().count("\n") >= PASTED_LINES,
        "digits": any(character.isdigit() for character in read),
        "few_words": len(said) <= 3 and not unspaced,
        **{sort: has(sort) for sort in FORMS},
        language: 1.0,
    }
    return np.array([values.get(name, 0.0) for name in WORD_FEATURES], dtype=np.float32)


def memory_features(
    question: Question, evidence: Evidence, *, unspaced: bool
) -> NDArray[np.float32]:
    """MEMORY_FEATURES: what the rows of `evidence` know of a question."""
    import numpy as np

    best = third = tenth = mean = 0.0
    if evidence.cosine is not None:
        known = np.sort(evidence.cosine[~np.isnan(evidence.cosine)])[::-1]
        if len(known):
            best, third, tenth = (float(known[min(at, len(known) - 1)]) for at in (0, 2, 9))
            mean = float(known.mean())
    missing, names = missing_shares(evidence, question)
    covered = 1.0 - missing if question.terms else 0.0
    shares = term_shares(evidence, question).sum(axis=1) if question.terms else np.zeros(1)
    values = (
        best,
        third,
        tenth,
        best - mean,
        covered,
        names,
        float(shares.max(initial=0.0)),
        log1p(evidence.rows_in_scope) / 5,
        float(bool(question.named)),
        covered * unspaced,
    )
    return np.array(values, dtype=np.float32)


def _unspaced(said: Sequence[float] | NDArray[np.float32]) -> bool:
    return any(said[WORD_FEATURES.index(language)] for language in UNSPACED)


# ----------------------------------------------------------------------------
# What the assistant said about the user never stands before what the user said.
#
# An assistant answers from memory, and sometimes wrongly. Its answers are kept as
# messages like any other, so that a question that was asked five times would find
# five answers and not the fact they were made of. Here they are put in their place.


SAME = 0.8
"""So much of what an answer says, by its words, is said by a memory that it repeats."""
SHARED = 2
"""With so many telling words in common an answer and a statement speak of the same."""


def is_echo(memory: Memory) -> bool:
    """Whether the assistant itself said it."""
    return memory.kind == "message" and memory.origin == "assistant"


def settle_echoes(hits: Sequence[Hit]) -> list[Hit]:
    """`hits` without answers that repeat one of the others, and no answer before its source.

    An answer that speaks to the user of the user, or of the same as a related
    statement, gets at most that statement's score and stands behind it: of
    two that contradict each other the user's own is read first.
    """
    if not any(is_echo(hit.memory) for hit in hits):
        return list(hits)
    stated = [(hit, _telling(hit.memory.text)) for hit in hits if not is_echo(hit.memory)]
    kept: list[tuple[float, bool, int, Hit]] = []
    said_before: list[frozenset[str]] = []
    for at, hit in enumerate(hits):
        if not is_echo(hit.memory):
            kept.append((-hit.score, False, at, hit))
            continue
        said = _telling(hit.memory.text)
        if said and _repeats(said, (words for _, words in stated)):
            continue
        if any(said == other for other in said_before):
            continue
        said_before.append(said)
        limit = _limit(hit, said, stated)
        kept.append((-limit, True, at, hit if limit == hit.score else replace(hit, score=limit)))
    return [hit for *_, hit in sorted(kept, key=lambda one: one[:3])]


def _repeats(said: frozenset[str], others: Iterable[frozenset[str]]) -> bool:
    numbers = {term for term in said if any(map(str.isdigit, term))}
    return any(numbers <= other and len(said & other) >= SAME * len(said) for other in others)


def _limit(hit: Hit, said: frozenset[str], stated: Sequence[tuple[Hit, frozenset[str]]]) -> float:
    """The most an answer may score: no more than any related statement of a user it is about."""
    addressed = _addresses(hit.memory.text)
    return min(
        (
            other.score
            for other, words in stated
            if other.memory.origin == "user"
            and RELATED <= other.score < hit.score
            and (addressed or len(said & words) >= SHARED)
        ),
        default=hit.score,
    )


def _addresses(text: str) -> bool:
    """Whether a text speaks to somebody of themselves."""
    read = text.casefold().replace("’", "'")
    language = detect_language(read)
    listed = question_words()[language]["you"]
    if language in UNSPACED:
        return any(word in read for word in listed)
    return not listed.isdisjoint(words_of(read))


def _telling(text: str) -> frozenset[str]:
    return frozenset(term for term in analyse(text) if term not in STOP_WORDS)
