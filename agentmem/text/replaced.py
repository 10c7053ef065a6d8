"""Which standing statements a message ends: a move, a new name, "tabs after all" (P41, P43).

Whether a clause ends a statement is told by fitted trees (benchmarks/fit_replaced.py) over what
the clause is (`statements.tell`), the words both share, how near their vectors are, beside the
other statements and what is usual, how likely both speak of one thing of which there is one at a
time, such as a home, a diet, a browser or the length of answers, how likely the message changes
anything, and what message and statement are about at all. Vectors are those of a multilingual
model, so a statement in one language can end one in another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agentmem.base.blas import one_thread
from agentmem.data import read_bytes
from agentmem.text.detect import is_need, names, stems
from agentmem.text.statements import KINDS, Embed, Told, marks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

SIGNS = ("changed", "resumed", "that", "instead", "used to", "takes back")
SAYS_NOTHING = 0.9
"""A clause that is so likely nothing ends nothing."""
ENDS = 0.5
NEAR_ENOUGH, ALIKE_ENOUGH = 0.25, 0.15
"""What stands alone must be so little less near than what is usual, and so much alike, to lead."""
_NUMBER = re.compile(r"\d")


def ending(
    message: Sequence[Told], standing: Sequence[str], embed: Embed
) -> tuple[tuple[int, Told], ...]:
    """The places of standing statements that a message ends, each with the clause that most likely
    does, the surest first; none where there are no vectors."""
    import numpy as np

    said = saying(message)
    vectors = embed([*said_texts(message), *standing]) if said and standing else None
    if vectors is None:
        return ()
    new, old = vectors[: len(said) + 1], vectors[len(said) + 1 :]
    fitted, trees = _weights()
    with one_thread:
        rows = pair_features(said, standing, new=new, old=old, fitted=fitted)
        scores = trees.scores(rows.reshape(-1, rows.shape[2]))
        chances = (1 / (1 + np.exp(-scores))).reshape(rows.shape[:2])
    surest = sorted(range(len(standing)), key=lambda at: -chances[:, at].max())
    ended = (at for at in surest if chances[:, at].max() > ENDS)
    return tuple((at, said[chances[:, at].argmax()]) for at in ended)


def saying(message: Sequence[Told]) -> tuple[Told, ...]:
    """The clauses of a message that say something."""
    return tuple(one for one in message if one.chance("other") <= SAYS_NOTHING)


def said_texts(message: Sequence[Told]) -> tuple[str, ...]:
    """What is embedded of a message: its clauses that say something, then the whole of it."""
    whole = " ".join(one.clause.words for one in message)
    return (*(one.clause.words for one in saying(message)), whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Weights that tell the slot of a vector (`slots`) and whether a message changes anything
    (`changes`), the vectors of what people typically say of each slot (`typical`), and the
    directions in which what people say differs most (`about`)."""

    slots: Floats
    typical: Floats
    changes: Floats
    about: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """Fitted trees, the nodes of all in one list: below `threshold` of its `feature` a node leads
    `left`, else `right`, and a leaf to itself; the first nodes are the roots."""

    feature: NDArray[np.int16]
    threshold: Floats
    left: NDArray[np.int16]
    right: NDArray[np.int16]
    value: Floats
    trees: int
    deep: int
    base: float

    def scores(self, rows: Floats) -> Floats:
        """What the trees make of each row together."""
        import numpy as np

        at = np.broadcast_to(np.arange(self.trees), (len(rows), self.trees))
        own = np.arange(len(rows))[:, None]
        for _ in range(self.deep):
            below = rows[own, self.feature[at]] <= self.threshold[at]
            at = np.where(below, self.left[at], self.right[at])
        return np.asarray(self.base + self.value[at].sum(axis=1), dtype=np.float32)


def pair_features(
    said: Sequence[Told],
    standing: Sequence[str],
    *,
    new: Floats,
    old: Floats,
    fitted: Fitted,
) -> Floats:
    """What the model sees of each clause beside each statement: clauses by statements by features.

    `new` are the vectors of the clauses and of the whole message, `old` those of the statements.
    """
    import numpy as np

    all_words = " ".join(one.clause.words for one in said)
    most = max(one.chance("retract") for one in said)
    signs = [float(names(sign, all_words)) for sign in SIGNS]
    clauses = [_clause_features(one, signs, most) for one in said]
    words = [stems(one.clause.words) for one in said]
    banning = [float(names("against", one.clause.words)) for one in said]
    held = [_statement_features(text) for text in standing]
    held_words = [stems(text) for text in standing]
    beside = _beside(new, old, fitted)
    rows = []
    for at, clause in enumerate(clauses):
        kept = sum(clause[:5])
        weights = (clause[KINDS.index("retract")], kept, max(clause[8], clause[14]), most)
        for to, statement in enumerate(held):
            shared = len(words[at] & held_words[to])
            lengths = (len(held_words[to]), len(words[at]))
            both = (*(shared / max(1, length) for length in lengths), *beside[at, to, :3])
            crossed = [weight * one for weight in (*weights, statement[0]) for one in both]
            numbers = float(bool(_NUMBER.search(said[at].clause.words)) and statement[2])
            rows.append(
                [*clause, *statement[:2], banning[at], numbers, float(shared > 0), *both, *crossed]
            )
    shape = (len(said), len(standing))
    made = np.array(rows, dtype=np.float32).reshape(*shape, -1)
    whole, each = new[-1:] @ fitted.about.T, old @ fitted.about.T
    told = [
        np.broadcast_to(one, (*shape, one.shape[-1]))
        for one in (np.array([[shape[::-1]]], dtype=np.float32), whole[None], each[None])
    ]
    return np.concatenate([made, beside[:, :, 3:], *told], axis=2)


def _beside(new: Floats, old: Floats, fitted: Fitted) -> Floats:
    """How near each clause is to each statement: by itself, against what is usual for both, against
    the other statements, as a part of its message, and where the message changes something."""
    import numpy as np

    near = new @ old.T
    slot_new, slot_old = slot_chances(new, fitted.slots), slot_chances(old, fitted.slots)
    alike = np.sqrt(slot_new) @ np.sqrt(slot_old).T
    same = slot_new.argmax(axis=1)[:, None] == slot_old.argmax(axis=1)[None, :]
    usual_new, usual_old = _usual(new, fitted.typical), _usual(old, fitted.typical)
    nearer = _lead(near, usual_new - NEAR_ENOUGH)
    liker = _lead(alike, np.full(len(new), ALIKE_ENOUGH))
    whole = [table[-1:] for table in (near, alike, nearer, liker, nearer > 0)]
    score = float(new[-1] @ fitted.changes[:-1] + fitted.changes[-1])
    change = 1 / (1 + np.exp(-score))
    each = [
        near, alike, same, near - usual_new[:, None], near - usual_old[None, :],
        nearer, liker, nearer > 0, liker > 0,
        *whole,
        np.array([[change]]), np.array([[score / 5]]),
        *(change * table for table in (near, alike, nearer, nearer > 0)),
    ]  # fmt: skip
    shape = (len(new) - 1, len(old))
    return np.stack(
        [np.broadcast_to(one[: shape[0]], shape).astype(np.float32) for one in each], axis=2
    )


def _usual(vectors: Floats, typical: Floats) -> Floats:
    """How near the nearest of what people typically say are: some sentences are near to all."""
    import numpy as np

    return np.asarray(np.sort(vectors @ typical.T, axis=1)[:, -5:].mean(axis=1), dtype=np.float32)


def _lead(table: Floats, least: Floats) -> Floats:
    """By how much each column is ahead of the best other one, and of `least` of its row."""
    import numpy as np

    others = np.repeat(least[:, None], table.shape[1], axis=1)
    if table.shape[1] > 1:
        first, second = np.sort(table, axis=1)[:, [-1, -2]].T
        rival = np.where(table == first[:, None], second[:, None], first[:, None])
        others = np.maximum(others, rival)
    return np.asarray(table - others, dtype=np.float32)


def slot_chances(vectors: Floats, slots: Floats) -> Floats:
    """How likely each vector speaks of each slot."""
    import numpy as np

    scores = vectors @ slots[:, :-1].T + slots[:, -1]
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


def _clause_features(one: Told, signs: Sequence[float], most: float) -> list[float]:
    words = one.clause.words
    return [
        *one.chances,
        *(float(names(sign, words)) for sign in SIGNS), *signs, most,
        float(names("also", words)), float(bool(marks()["kin"].search(words))),
        float(one.clause.asks), min(len(words.split()), 12) / 12, 1.0,
    ]  # fmt: skip


def _statement_features(text: str) -> tuple[float, float, float]:
    against, numbered = names("against", text.lower()), _NUMBER.search(text) is not None
    return float(is_need(text)), float(against), float(numbered)


@lru_cache(maxsize=1)
def _weights() -> tuple[Fitted, Trees]:
    import numpy as np

    with np.load(BytesIO(read_bytes("replaced.npz"))) as stored:
        told = {name: stored[name].astype(np.float32) for name in Fitted.__slots__}
        nodes: dict[str, Any] = {name: stored[name] for name in Trees.__slots__}
    for name in ("trees", "deep", "base"):
        nodes[name] = nodes[name].item()
    return Fitted(**told), Trees(**nodes)
