"""What a search text asks: its terms, whom it names, when it means, what answer it wants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from agentmem.base.checks import require_text
from agentmem.base.lazy import compile_late
from agentmem.search.rank import CHAT_ROLES
from agentmem.text.dates import DateRange, find_date_range
from agentmem.text.language import language_number, telling_text
from agentmem.text.terms import STOP_WORDS, analyse_query, term_hash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


MAX_QUESTION_CHARACTERS = 20_000
"""Of a longer text the beginning is asked; a whole page as a query costs no more than this."""

_WORD = compile_late(r"\w+")
_POSSESSIVE = compile_late(r"['’]s\b")
_WHEN = compile_late(
    r"\b(?:when|how long)\b"
    r"|\b(?:what|which) (?:day|date|week|month|year|time)\b",
    re.IGNORECASE,
)
# A capital inside a sentence: "Does Ada like Lima?" names Lima as well as Ada.
_CAPITALISED = compile_late(r"(?<=[\w,;:'’\"] )[\"'“‘(]?([A-Z][\w'’\-]*)")
_COUNT = compile_late(r"\bhow (?:many|much|often|long|old|far|big|tall)\b", re.IGNORECASE)
_NAME = compile_late(r"\s*(?:who|whose|whom|which|where|what)\b", re.IGNORECASE)
# Months are words of dates.
_CASE_MATTERS = STOP_WORDS | {"may", "april", "june", "august", "mark", "rose", "grace", "hope"}
_MAX_NAME_WORDS = 4


def names_in(text: str) -> tuple[str, ...]:
    """The words that stand with a capital inside a sentence of `text`."""
    return tuple(dict.fromkeys(_CAPITALISED.findall(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search text as ranking needs it; made by `read_question`."""

    text: str
    terms: tuple[str, ...]
    term_weights: tuple[float, ...]
    term_is_name: tuple[bool, ...]
    vector_text: str
    named: tuple[str, ...] = ()
    dates: DateRange | None = None
    asks_when: bool = False
    asks_count: bool = False
    asks_name: bool = False
    language: int = 0

    def hashes(self) -> NDArray[np.uint64]:
        """The terms as 64-bit hashes, in order."""
        import numpy as np

        return np.array([term_hash(term) for term in self.terms], dtype=np.uint64)

    def weights(self) -> NDArray[np.float32]:
        """What each term weighs in the question, in order."""
        import numpy as np

        return np.array(self.term_weights, dtype=np.float32)


def read_question(
    text: str,
    speakers: Sequence[str] = (),
    *,
    now: datetime | None = None,
) -> Question:
    """What `text` asks, given who speaks in the memories it is asked of.

    A speaker's name says whose words are wanted, not which words: it is left
    out of the terms and of the text to embed, unless nothing else remains.
    `now` gives "last May" its year; without it only full dates count.
    Words that its language uses everywhere are no evidence.
    """
    require_text(text, "query")
    text = text[:MAX_QUESTION_CHARACTERS]
    named, rest = _take_names(text, _name_table(tuple(speakers)))
    terms = analyse_query(telling_text(rest)) or analyse_query(rest)
    if not terms or all(term in STOP_WORDS for term, _ in terms):
        rest = text
        terms = analyse_query(text)
    capitalised = {
        term for word in _CAPITALISED.findall(rest) for term, _ in analyse_query(word)
    } - STOP_WORDS
    return Question(
        text=text,
        terms=tuple(term for term, _ in terms),
        term_weights=tuple(weight for _, weight in terms),
        term_is_name=tuple(term in capitalised for term, _ in terms),
        vector_text=" ".join(rest.split()),
        named=named,
        dates=find_date_range(text, now=now),
        asks_when=_WHEN.search(text) is not None,
        asks_count=_COUNT.search(text) is not None,
        asks_name=_NAME.match(text) is not None,
        language=language_number(text),
    )


@lru_cache(maxsize=256)
def _name_table(speakers: tuple[str, ...]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Folded words of a name → the speakers it may mean; a part counts when unambiguous."""
    whole: dict[tuple[str, ...], list[str]] = {}
    parts: dict[tuple[str, ...], list[str]] = {}
    for speaker in dict.fromkeys(speakers):
        words = tuple(word.casefold() for word in _WORD.findall(speaker))[:_MAX_NAME_WORDS]
        if not words or (len(words) == 1 and words[0] in CHAT_ROLES):
            continue
        whole.setdefault(words, []).append(speaker)
        for word in dict.fromkeys(words if len(words) > 1 else ()):
            if len(word) > 2 and word not in STOP_WORDS:
                parts.setdefault((word,), []).append(speaker)
    table = {words: tuple(names) for words, names in parts.items() if len(names) == 1}
    return table | {words: tuple(names) for words, names in whole.items()}


def _take_names(
    text: str, table: dict[tuple[str, ...], tuple[str, ...]]
) -> tuple[tuple[str, ...], str]:
    if not table:
        return (), text
    words = list(_WORD.finditer(text))
    folded = [word[0].casefold() for word in words]
    named: dict[str, None] = {}
    kept: list[str] = []
    index = copied = 0
    while index < len(words):
        for size in range(min(_MAX_NAME_WORDS, len(words) - index), 0, -1):
            speakers = table.get(tuple(folded[index : index + size]))
            if speakers and (folded[index] not in _CASE_MATTERS or words[index][0][0].isupper()):
                named.update(dict.fromkeys(speakers))
                kept.append(text[copied : words[index].start()])
                copied = words[index + size - 1].end()
                if ending := _POSSESSIVE.match(text, copied):
                    copied = ending.end()
                index += size
                break
        else:
            index += 1
    return tuple(named), "".join([*kept, text[copied:]])
