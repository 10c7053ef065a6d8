"""Where sentences end, in many scripts, and the longest whole-sentence prefix that fits.

What counts as an end, and what is left alone, is told in `docs/chunking.md`.
When in doubt a full stop is no end: a cut then comes a sentence earlier, which
is never wrong, instead of after "Dr.".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from unicodedata import category, normalize

from agentmem.core.abbreviations import (
    ABBREVIATIONS,
    CAPITALISED_ABBREVIATIONS,
    NUMBER_ABBREVIATIONS,
    WORDS_AFTER_ORDINAL,
)
from agentmem.core.checks import require_count, require_text
from agentmem.core.graphemes import extends
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter

# Marks that end a sentence only before white space, and those that always do: Unicode's
# Sentence_Terminal for living scripts, with the Tibetan shad.
_SPACED = ".!?…‼‽⁇⁈⁉"
_ALWAYS = (
    "。｡！？．﹒﹖﹗"  # Chinese, Japanese
    "؟۔؝؞"  # Arabic, Urdu
    "।॥"  # Devanagari and its neighbours
    "։"  # Armenian
    "።፧፨"  # Ethiopic
    "។៕"  # Khmer
    "။"  # Burmese
    "།༎"  # Tibetan
    "᠃᠉"  # Mongolian
    "᪨᪩᪪᪫꩝꩞꩟᭚᭛᭞᭟꧈꧉꯫꫰꫱"  # Tai Tham, Cham, Balinese, Javanese, Meetei
    "᰻᰼᱾᱿꣎꣏꤯꘎꘏꛳꛷꓿߹᥄᥅᙮܀܁܂"  # Lepcha, Ol Chiki, Saurashtra, Vai, Bamum, Lisu, N'Ko, Syriac
)
_ALL_MARKS = frozenset(_SPACED + _ALWAYS)
_CLOSERS = "\"'`*_~)]}>”’“‘»«›‹」』】〉》〕〗〙〛｝）］｣﹂﹄＂＇"
_OPENERS = "\"'`*_~([{<“‘„‚«»‹「『【〈《〔｛（［｢¿¡#>-–—•·+"
_TERMINATORS = re.escape(_SPACED + _ALWAYS)
# Possessive, and never started inside a run of marks: each character is read once.
_CANDIDATE = re.compile(
    rf"(?<![{_TERMINATORS}])[{_TERMINATORS}]++"
    rf"(?:[{re.escape(_CLOSERS)}]|[\u0020\u00a0\u202f]»)*+(?:\[\d{{1,3}}\])*+"
)
_WHITE = re.compile(r"\s*+")
_NEXT_WORD = re.compile(rf"[{re.escape(_OPENERS)}]{{0,8}}+(\w*)")
_LETTER = re.compile(r"[^\W\d_]")
_ROMAN = re.compile(r"[IVXLC]+|[ivxlc]+")
_VOWEL = re.compile(r"[aeiouy]", re.IGNORECASE)
_BLANK_LINE = re.compile(r"(?>\r\n|[\r\n])[^\S\r\n\u2029]*+(?>\r\n|[\r\n])|\u2029")

_NO_SPACE_SCRIPTS = re.compile(
    "[\u2e80-\u303f\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003ffff]"
)
# R&D. and ?c=d. end with a letter that is not an initial.
_JOINS_A_LETTER = "&=/_"
_LONGEST_WORD = 24
_FAR_BACK = 200


def sentence_ends(text: str) -> Iterator[int]:
    """The positions right after each sentence, its closing quotes and brackets included.

    Lazy and linear. A blank line is no end of its own, nor is the end of the
    text: there has to be a mark.
    """
    yield from _ends(require_text(text, "text"), len(text))


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """The spans of the sentences in order, without the white space between them.

    A blank line also parts two sentences (a heading has no full stop), and what
    follows the last end is a span too: every visible character is in one span.
    """
    require_text(text, "text")
    ends = _ends(text, len(text))
    breaks = (match.start() for match in _BLANK_LINE.finditer(text))
    end, gap = next(ends, None), next(breaks, None)
    start = 0
    while end is not None or gap is not None:
        if end is not None and (gap is None or end <= gap):
            cut, end = end, next(ends, None)
        elif gap is not None:
            cut, gap = gap, next(breaks, None)
        yield from _trimmed(text, start, cut)
        start = max(start, cut)
    yield from _trimmed(text, start, len(text))


def truncate_at_sentence(text: str, limit_tokens: int, count: TokenCounter) -> str:
    """The longest prefix of whole sentences with at most `limit_tokens` tokens (P8).

    `text` itself when it fits; "" when not even the first sentence does. The
    prefix that is returned was counted as it stands. `count` should grow with
    the text, give or take a few tokens: then one sentence more would not fit.
    The work depends on the limit, not on how long `text` is.
    """
    require_text(text, "text")
    require_count(limit_tokens, "limit_tokens")
    if not callable(count):
        raise InvalidInput(
            "count", count, "is not callable", remedy="Pass a function from str to int."
        )
    too_long, too_many = _first_overflow(text, limit_tokens, count)
    if too_many <= limit_tokens:
        return text
    ends = [end for end in _ends(text, too_long) if end <= too_long]
    return text[: _last_fitting(text, ends, limit_tokens, count, (too_long, too_many))]


def _first_overflow(text: str, limit_tokens: int, count: TokenCounter) -> tuple[int, int]:
    """A length whose prefix is surely too large, found by doubling, and its count.

    A token more in the text can lower a tokenizer's count a little, so "surely"
    asks for some tokens above the limit.
    """
    surely = limit_tokens + limit_tokens // 8 + 16
    length = 4 * limit_tokens + 256
    while length < len(text):
        tokens = count(text[:length])
        if tokens > surely:
            return length, tokens
        length *= 2
    return len(text), count(text)


def _last_fitting(
    text: str,
    ends: list[int],
    limit_tokens: int,
    count: TokenCounter,
    overflow: tuple[int, int],
) -> int:
    """The end of a prefix that fits while the next one does not; 0 when there is none.

    Interpolates, since tokens grow about evenly, and halves at every third
    step, since they may not.
    """
    low, low_at = -1, (0, 0)
    high, high_at = len(ends), overflow
    step = 0
    while high - low > 1:
        step += 1
        if step % 3:
            slope = (high_at[0] - low_at[0]) / max(1, high_at[1] - low_at[1])
            guess = low_at[0] + int((limit_tokens - low_at[1]) * slope)
            middle = min(max(bisect_right(ends, guess) - 1, low + 1), high - 1)
        else:
            middle = (low + high) // 2
        tokens = count(text[: ends[middle]])
        if tokens <= limit_tokens:
            low, low_at = middle, (ends[middle], tokens)
        else:
            high, high_at = middle, (ends[middle], tokens)
    return ends[low] if low >= 0 else 0


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        first = start + len(piece) - len(piece.lstrip())
        yield first, first + len(stripped)


def _ends(text: str, stop: int) -> Iterator[int]:
    """Sentence ends whose mark stands before `stop`."""
    start = 0
    for match in _CANDIDATE.finditer(text):
        if match.start() >= stop:
            return
        if _is_end(text, match.start(), match.end(), start):
            yield match.end()
            start = match.end()


def _is_end(text: str, mark: int, end: int, sentence_start: int) -> bool:
    """Whether the mark at `mark`, with what closes it up to `end`, ends the sentence."""
    after = text[end] if end < len(text) else ""
    if after and extends(after):
        return False
    last_mark = mark
    while last_mark + 1 < end and text[last_mark + 1] in _ALL_MARKS:
        last_mark += 1
    marks = text[mark : last_mark + 1]
    before = text[mark - 1] if mark else ""
    if not after:
        return True
    if any(char in _ALWAYS for char in marks):
        if after.isascii() and not after.isspace() and _in_address(text, mark):
            return False
        return _is_unspaced_end(marks, before, text[last_mark + 1 : end], after)
    if not after.isspace():
        return (
            marks.strip("!?") == ""
            and _NO_SPACE_SCRIPTS.match(after) is not None
            and _NO_SPACE_SCRIPTS.match(before) is not None
            and after not in "、，：；"
            and not _in_address(text, mark)
        )
    next_at = _after_white(text, end)
    if next_at < len(text) and text[next_at] in _ALL_MARKS:
        return False  # a spaced ellipsis, or the " ." of tokenised text
    following = _NEXT_WORD.match(text, next_at)
    word = following.group(1) if following else ""
    if marks == "." and (
        _is_list_marker(text, mark, sentence_start) or _is_abbreviation(text, mark, word)
    ):
        return False
    return (
        not word[:1].islower()
        or _BLANK_LINE.search(text, end, next_at) is not None
        or _starts_lower(text, sentence_start)
    )


def _after_white(text: str, position: int) -> int:
    match = _WHITE.match(text, position)
    return match.end() if match else position


def _is_unspaced_end(marks: str, before: str, closing: str, after: str) -> bool:
    """Whether a mark that needs no space after it ends a sentence here."""
    if before.isdigit() and after.isdigit() and not closing:
        return False
    if marks == "．" and not closing and after.isalnum() and _width_folded_ascii(after):
        return False  # a fullwidth number, version or file name
    if after in "、，,：；:;":
        return False
    # 「はい。」と答えた: the quotation is inside the sentence.
    return not (closing[-1:] in ("」", "』", "｣") and after in "とっでをがにのもはへや")


def _width_folded_ascii(char: str) -> bool:
    return char.isascii() or "！" <= char <= "～"


def _in_address(text: str, mark: int) -> bool:
    """Whether the characters before `mark` without a space are a URL."""
    back = text[max(0, mark - _FAR_BACK) : mark]
    token = back.split()[-1] if back and not back[-1].isspace() else ""
    return "://" in token or "www." in token or "@" in token


def _starts_lower(text: str, sentence_start: int) -> bool:
    """Whether this sentence begins without a capital: then the next one may as well."""
    letter = _LETTER.search(text, sentence_start, sentence_start + 64)
    return letter is not None and letter.group().islower()


def _is_list_marker(text: str, mark: int, sentence_start: int) -> bool:
    """Whether the stop at `mark` numbers an item: "1.", "iv." or "b." and nothing before it."""
    first = mark
    while first > 0 and mark - first <= 6 and text[first - 1].isalnum():
        first -= 1
    label = text[first:mark]
    if not label or not (
        (label.isdigit() and len(label) <= 3) or len(label) == 1 or _ROMAN.fullmatch(label)
    ):
        return False
    while first > sentence_start and text[first - 1] in " \t>#*-([|":
        first -= 1
        if mark - first > 40:
            return False
    return first <= sentence_start or text[first - 1] in "\r\n"


def _is_abbreviation(text: str, mark: int, following: str) -> bool:
    """Whether the stop at `mark` belongs to the word before it, given the word after."""
    first = mark
    while first > 0 and mark - first < _LONGEST_WORD:
        char = text[first - 1]
        if not (char.isalpha() or char == "." or category(char)[0] == "M"):
            break
        first -= 1
    while first < mark and not text[first].isalpha():
        first += 1
    word = normalize("NFC", text[first:mark])
    before = text[first - 1] if first else ""
    if not word:
        return _is_ordinal(text, mark, following)
    if (before in ("'", "’") and text[first - 2 : first - 1].isalpha()) or (
        before.isdigit() and len(word) == 1
    ):
        return False  # don't. and 5m.
    segments = word.split(".")
    if len(segments) > 1 and max(map(len, segments)) <= 3 and min(map(len, segments)) <= 1:
        return True  # U.S., e.g., Ph.D.
    last = segments[-1]
    if len(segments) == 1 and len(last) == 1 and last.upper() != last.lower():
        if before == "-":
            return text[first - 2 : first - 1] == "."  # J.-P., but not vitamin-C.
        return not before or before not in _JOINS_A_LETTER
    folded = last.casefold()
    if folded in ABBREVIATIONS:
        return True
    if folded in CAPITALISED_ABBREVIATIONS and last[:1].isupper():
        return True
    if folded in NUMBER_ABBREVIATIONS and (
        following[:1].isdigit() or _ROMAN.fullmatch(following) is not None
    ):
        return True
    # Sgt., Blvd., hrs.: short, without a vowel, and not a name in capitals such as SQL.
    return len(last) <= 5 and last.isascii() and last[1:].islower() and _VOWEL.search(last) is None


def _is_ordinal(text: str, mark: int, following: str) -> bool:
    """Whether a German-style ordinal stands here: "am 3. Oktober"."""
    first = mark
    while first > 0 and mark - first < 3 and text[first - 1].isdigit():
        first -= 1
    return 0 < mark - first <= 2 and following.casefold() in WORDS_AFTER_ORDINAL
