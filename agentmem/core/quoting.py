"""Whether a text repeats another one: the whole of a short one, or a run of words of a long one.

Case, white space, punctuation and the numbers of sources do not count: what is
kept of an answer differs from the answer in just these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any
from unicodedata import normalize

from agentmem.core.values import dataclass

RUN_WORDS = 8
"""So many words in a row are a quote; of a shorter text all of it is."""
STRIDE = 4
LEAST_CHARACTERS = 4
"""Shorter texts stand in everything."""
_FEW_ANCHORS = 64
_MARK = re.compile(  # "[1]", "(source 2)", "【3†source】", "[1, 4-6]"
    r"[\[(【［][ ]?(?:[^\W\d_]{1,10}[ :#^]{0,3})?\d{1,3}"
    r"(?:[ ]?[-–,;&†][ ]?\w{1,20}){0,9}[ ]?[\])】］]"
)
_WORD = re.compile(  # one sign where signs are words, else letters and digits in a row
    r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]"
    r"|[^\W_\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+"
)

_ID = re.compile(r"[\w-]{4,}")


class Quotes:
    """Texts to look for in other texts, all of them in one pass.

    They are read when they are first looked for. Of a long text every
    `STRIDE`th run is known, so that a quote of eleven words is always found
    and a shorter one mostly.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)

    def are_in(self, text: str) -> bool:
        """Whether `text` repeats one of them."""
        known = self._known
        if any(bare in text for bare in known.bare):
            return True
        if not known.runs:
            return False
        plain = _plain(text)
        if known.anchors is not None and not any(word in plain for word in known.anchors):
            return False
        words = _words(plain)
        return any(
            not runs.isdisjoint(map(hash, _in_a_row(words, length)))
            for length, runs in known.runs.items()
        )

    @cached_property
    def _known(self) -> _Known:
        runs: dict[int, set[int]] = {}
        anchors: set[str] = set()
        bare: set[str] = set()
        for text in dict.fromkeys(self._texts):
            words = _words(_plain(text))
            if sum(map(len, words)) < LEAST_CHARACTERS:  # signs, around a letter or two
                bare |= {text.strip()} if len(text.strip()) >= LEAST_CHARACTERS else set()
                continue
            length = min(len(words), RUN_WORDS)
            last = len(words) - length
            for start in {*range(0, last, STRIDE), last}:
                run = tuple(words[start : start + length])
                runs.setdefault(length, set()).add(hash(run))
                if len(anchors) <= _FEW_ANCHORS:
                    anchors.add(max(run, key=len))
        few = len(anchors) <= _FEW_ANCHORS
        return _Known(runs=runs, bare=frozenset(bare), anchors=frozenset(anchors) if few else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Runs of words as hashes, by length; `anchors` are words of which every quote has one."""

    runs: Mapping[int, set[int]]
    bare: frozenset[str]
    anchors: frozenset[str] | None


class Names:
    """Ids to look for in texts; each only as a word of its own, unless it is no word."""

    def __init__(self, ids: Iterable[str]) -> None:
        telling = {one for one in ids if len(one) >= LEAST_CHARACTERS}
        self._words = {one for one in telling if _ID.fullmatch(one)}
        self._others = telling - self._words

    def are_in(self, text: str) -> bool:
        """Whether `text` names one of them."""
        if any(one in text for one in self._others):
            return True
        if len(self._words) <= _FEW_ANCHORS and not any(one in text for one in self._words):
            return False
        return not self._words.isdisjoint(_ID.findall(text))


def texts_in(value: Any) -> Iterator[str]:
    """Every text of a JSON value, the names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield str(key)
            yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)


def _plain(text: str) -> str:
    composed = text if text.isascii() else normalize("NFC", text)
    return _MARK.sub(" ", composed).casefold()


def _words(plain: str) -> list[str]:
    return _WORD.findall(plain)


def _in_a_row(words: list[str], length: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(length)), strict=False)
