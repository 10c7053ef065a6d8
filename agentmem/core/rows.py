"""What is kept of a row for ranking, and how rows are gathered around the candidates."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from agentmem.core.checks import require_text
from agentmem.core.patterns import compile_late

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

USUAL_BACKGROUND = (0.33, 0.14)
"""Mean and spread of MiniLM's cosines between rows of one store."""

HOPS = 2
"""How far the neighbours of a candidate count."""

ASKS, TIME, NUMBER, NAME = 1, 2, 4, 8
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
