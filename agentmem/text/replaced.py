"""Which standing statements a message ends: a move, a new name, "tabs after all" (P41, P43).

Whether a clause ends a statement is told by a fitted linear model (benchmarks/fit_replaced.py)
over what the clause is (`statements.tell`), the words both share, how near their vectors are and
how likely both speak of one thing of which there is one at a time, such as a home, a diet, a
browser or the length of answers. Vectors are those of a multilingual model, so a statement in one
language can end one in another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agentmem.data import read_bytes
from agentmem.text.detect import is_need, names, stems
from agentmem.text.statements import KINDS, Embed, Told, marked

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SIGNS = ("changed", "resumed", "that", "instead", "used to", "takes back")
SAYS_NOTHING = 0.9
"""A clause that is so likely nothing ends nothing."""
ENDS = 0.42
_NUMBER = re.compile(r"\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A clause that ends the standing statement `at`."""

    said: Told
    at: int
    chance: float


def ending(message: Sequence[Told], standing: Sequence[str], embed: Embed) -> tuple[Ending, ...]:
    """The standing statements that clauses of a message end; none where there are no vectors."""
    import numpy as np

    said = [one for one in message if one.chance("other") <= SAYS_NOTHING]
    vectors = embed([*(one.clause.words for one in said), *standing]) if said and standing else None
    if vectors is None:
        return ()
    new, old = vectors[: len(said)], vectors[len(said) :]
    rows = pair_features(said, standing, new=new, old=old, slots=_weights()["slots"])
    chances = 1 / (1 + np.exp(-(rows @ _weights()["pairs"])))
    return tuple(
        Ending(said=said[clause], at=int(at), chance=float(chances[clause, at]))
        for clause, at in zip(*np.nonzero(chances > ENDS), strict=True)
    )


def pair_features(
    said: Sequence[Told],
    standing: Sequence[str],
    *,
    new: NDArray[np.float32],
    old: NDArray[np.float32],
    slots: NDArray[np.float32],
) -> NDArray[np.float32]:
    """What the model sees of each clause beside each statement: clauses by statements by features.

    `new` and `old` are their vectors, `slots` the weights that tell the slot of a vector.
    """
    import numpy as np

    whole = " ".join(one.clause.words for one in said)
    most = max(one.chance("retract") for one in said)
    signs = [float(names(sign, whole)) for sign in SIGNS]
    clauses = [_clause_features(one, signs, most) for one in said]
    words = [stems(one.clause.words) for one in said]
    banning = [float(names("against", one.clause.words)) for one in said]
    held = [_statement_features(text) for text in standing]
    held_words = [stems(text) for text in standing]
    near = new @ old.T
    slot_new, slot_old = slot_chances(new, slots), slot_chances(old, slots)
    alike = np.sqrt(slot_new) @ np.sqrt(slot_old).T
    same = slot_new.argmax(axis=1)[:, None] == slot_old.argmax(axis=1)[None, :]
    rows = []
    for at, clause in enumerate(clauses):
        kept = sum(clause[:5])
        weights = (clause[KINDS.index("retract")], kept, max(clause[8], clause[14]), most)
        for to, statement in enumerate(held):
            shared = len(words[at] & held_words[to])
            both = (
                shared / max(1, len(held_words[to])),
                shared / max(1, len(words[at])),
                float(near[at, to]), float(alike[at, to]), float(same[at, to]),
            )  # fmt: skip
            crossed = [weight * one for weight in (*weights, statement[0]) for one in both]
            numbers = float(_has_number(said[at].clause.words) and statement[2])
            rows.append(
                [*clause, *statement[:2], banning[at], numbers, float(shared > 0), *both, *crossed]
            )
    return np.array(rows, dtype=np.float32).reshape(len(said), len(standing), -1)


def slot_chances(vectors: NDArray[np.float32], slots: NDArray[np.float32]) -> NDArray[np.float32]:
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
        float(names("also", words)), float(marked("kin", words)), float(one.clause.asks),
        min(len(words.split()), 12) / 12, 1.0,
    ]  # fmt: skip


def _statement_features(text: str) -> tuple[float, float, float]:
    against = float(names("against", text.lower()))
    return float(is_need(text)), against, float(_has_number(text))


def _has_number(text: str) -> bool:
    return _NUMBER.search(text) is not None


@lru_cache(maxsize=1)
def _weights() -> dict[str, NDArray[Any]]:
    import numpy as np

    with np.load(BytesIO(read_bytes("replaced.npz"))) as stored:
        return {name: stored[name].astype(np.float32) for name in stored.files}
