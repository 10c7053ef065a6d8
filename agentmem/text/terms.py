"""Text to terms, and how much a term found in a row is worth (BM25).

Documents and queries go through the same analysis: words are lower-cased,
freed of accents and stemmed; identifiers are split (`camelCase`, `snake_case`,
`kebab-case`, `dotted.name`) and also kept whole; scripts written without
spaces become character pairs; numbers stay. Stop words are dropped unless a
text has nothing else, so "to be or not to be" can still be found.
"""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import log, log1p

import Stemmer

from agentmem.base.checks import require_text
from agentmem.base.lazy import compile_late
from agentmem.data import read_text

K1 = 1.2
B = 0.3
"""BM25 constants; chosen on conversations and abstracts, see docs/decisions/0005-ranking.md."""

PRIOR_ROWS = 100
MAX_QUERY_TERMS = 64
MAX_WORD_CHARACTERS = 64
_KEPT_CHARACTERS = 2_000
_CACHED_WORDS = 1 << 17
_MOST_COUNTED = 65_535
_HASH_BYTES = 8

# Han, kana, Hangul, Thai, Lao, Myanmar, Khmer: no spaces between words, so pairs of characters.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003134f"
)
# Vowel signs and accents that `\w` leaves out although they are inside words.
_MARKS = (
    "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed\u0900-\u0963"
    "\u0966-\u0dff\u0f00-\u0fff\u1ab0-\u1aff\u20d0-\u20ff"
)
_WORD = compile_late(rf"[\w{_MARKS}]+(?:[.'’\-][\w{_MARKS}]+|,\d\d\d(?!\d))*")
_RUN = compile_late(rf"([{_UNSPACED}]+)")
_PIECE = compile_late(r"[A-Z]+(?![a-z])|[A-Z]?(?:[a-z]|[^\x00-\x7f])+|\d+")
_SEPARATOR = compile_late(r"[._'’\-,]+")
_ENDING = compile_late(r"['’](?:s|re|ve|ll|d|m)$", re.IGNORECASE)
_NUMBER = compile_late(r"\d+(?:,\d{3})*(?:\.\d+)?")
_ACCENT = compile_late("[\u0300-\u036f\u00ad]+")

STOP_WORDS = frozenset(read_text("stop_words.txt").split())

_NEGATED = {"ca": "can", "wo": "will", "sha": "shall", "ai": "is"}


def analyse(text: str) -> list[str]:
    """The terms of a text to be found later, in order, repeated as often as they occur."""
    return _terms(require_text(text, "text"), query=False)


def analyse_query(text: str, *, max_terms: int = MAX_QUERY_TERMS) -> list[tuple[str, float]]:
    """The distinct terms of a question with their weights, at most `max_terms` of them.

    A word said twice weighs more (1 + ln of its count). Where there are more
    than `max_terms`, the most repeated ones stay, then the earliest: a whole
    page pasted as a query is asked by what it is about.
    """
    weigh = _weighed if len(require_text(text, "text")) <= _KEPT_CHARACTERS else _weigh
    return list(weigh(text, max_terms))


def _weigh(text: str, max_terms: int) -> tuple[tuple[str, float], ...]:
    counts = Counter(_terms(text, query=True))
    return tuple((term, 1.0 + log(count)) for term, count in counts.most_common(max_terms))


_weighed = lru_cache(maxsize=32)(_weigh)  # one turn reads the same question several times


def word_runs(text: str) -> list[str]:
    """The words of a text as they stand in it, before they are split and stemmed."""
    return _WORD.findall(text)


def pack_terms(texts: Sequence[str]) -> list[tuple[bytes, bytes, int]]:
    """For each text its distinct term hashes, ascending, how often each occurs (at most 65,535),
    both as little-endian bytes, and the row's length for BM25: the sum of these."""
    return [_count(_hash_tokens(text)) for text in texts]


def _count(hashes: bytes) -> tuple[bytes, bytes, int]:
    counted = Counter(struct.unpack(f"<{len(hashes) // _HASH_BYTES}Q", hashes))
    order = sorted(counted)
    counts = [min(counted[number], _MOST_COUNTED) for number in order]
    size = len(order)
    return struct.pack(f"<{size}Q", *order), struct.pack(f"<{size}H", *counts), sum(counts)


def _hash_tokens(text: str) -> bytes:
    """The hashes of a text's terms, one after the other."""
    tokens = require_text(text, "text").split()
    return b"".join(map(_HASHES.__getitem__, tokens)) or b"".join(
        map(_ALL_HASHES.__getitem__, tokens)
    )


@lru_cache(maxsize=_CACHED_WORDS)
def term_hash(term: str) -> int:
    """A term as 64 bits, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=8).digest(), "little")


def idf(document_frequency: float, rows: float) -> float:
    """What a term that stands in `document_frequency` of `rows` rows is worth; never negative.

    Counted as if PRIOR_ROWS more rows without the term were there: in a memory
    of three rows a word that stands in one of them is still a rare word.
    """
    others = max(0.0, rows + PRIOR_ROWS - document_frequency)
    return log1p((others + 0.5) / (document_frequency + 0.5))


def _terms(text: str, *, query: bool) -> list[str]:
    words = _WORD.findall(text)
    return _terms_of(words, query, False) or _terms_of(words, query, True)


def _terms_of(words: list[str], query: bool, keep_stop_words: bool) -> list[str]:
    terms: list[str] = []
    for word in words:
        known = _word_terms if len(word) <= MAX_WORD_CHARACTERS else _split
        terms += known(word, query, keep_stop_words)
    return terms


class _Hashes(dict[str, bytes]):
    """The term hashes of what stands between two white spaces, worked out once each.

    No word reaches over white space, so a text's terms are those of its tokens.
    """

    def __init__(self, *, keep_stop_words: bool) -> None:
        self._keep_stop_words = keep_stop_words

    def __missing__(self, token: str) -> bytes:
        terms = _terms_of(_WORD.findall(token), False, self._keep_stop_words)
        hashes = b"".join(term_hash(term).to_bytes(_HASH_BYTES, "little") for term in terms)
        if len(token) <= MAX_WORD_CHARACTERS:
            if len(self) >= _CACHED_WORDS:
                self.clear()
            self[token] = hashes
        return hashes


_HASHES = _Hashes(keep_stop_words=False)
_ALL_HASHES = _Hashes(keep_stop_words=True)


def _split(word: str, query: bool, keep_stop_words: bool) -> tuple[str, ...]:
    """The terms of one word as it stands in the text."""
    if word.isascii() and word.isalpha() and (word[1:].islower() or word.isupper()):
        term = word.lower()  # nearly all words: one piece, nothing to take apart
        if term in STOP_WORDS and not keep_stop_words:
            return ()
        return (_stem(term[:MAX_WORD_CHARACTERS]),)
    terms: list[str] = []
    for index, run in enumerate(_RUN.split(word)):
        if index % 2:
            terms += _pairs(run, query)
        elif run:
            terms += _pieces(run, keep_stop_words)
    return tuple(terms)


_word_terms = lru_cache(maxsize=_CACHED_WORDS)(_split)


def _pairs(run: str, query: bool) -> list[str]:
    """Neighbouring characters; a document's single ones too, so that 猫 alone finds 猫が好き."""
    run = unicodedata.normalize("NFKC", run)
    pairs = [run[i : i + 2] for i in range(len(run) - 1)]
    return pairs if query and pairs else [*pairs, *run]


def _pieces(run: str, keep_stop_words: bool) -> list[str]:
    if not run.isascii():
        run = _ACCENT.sub("", unicodedata.normalize("NFKD", run)).replace("’", "'")
    run = _ENDING.sub("", run)
    if run[-3:].lower() == "n't":
        base = run[:-3].lower()
        run = _NEGATED.get(base, base)
    if _NUMBER.fullmatch(run):
        return [run.replace(",", "")[:MAX_WORD_CHARACTERS]]
    pieces = [
        piece.casefold()[:MAX_WORD_CHARACTERS]
        for segment in _SEPARATOR.split(run)
        for piece in _PIECE.findall(segment)
    ]
    terms = [_stem(p) for p in pieces if keep_stop_words or p not in STOP_WORDS]
    if len(pieces) > 1:
        whole = "".join(pieces)[:MAX_WORD_CHARACTERS]
        terms.append(_stem(whole))
    return terms


def _stem(term: str) -> str:
    # A stemmer keeps state and may not be shared by threads; a new one costs a microsecond.
    return str(Stemmer.Stemmer("english", 0).stemWord(term)) if term.isalpha() else term


# ----------------------------------------------------------------------------
# Names shared.


def mentions(text: str, name: str) -> bool:
    """Whether `text` names a file, as a whole word."""
    whole = rf"(?<![\w-]){re.escape(name)}(?![\w-])"
    return len(name) >= 3 and re.search(whole, text, re.IGNORECASE) is not None
