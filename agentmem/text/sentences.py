"""Where sentences end, in many scripts, and the longest whole-sentence prefix that fits.

What counts as an end, and what is left alone, is told in `docs/chunking.md`.
When in doubt a full stop is no end: a cut then comes a sentence earlier, which
is never wrong, instead of after "Dr.".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Any
from unicodedata import category, normalize

from agentmem.base.checks import require_count, require_text
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.data import read_words

# ----------------------------------------------------------------------------
# Where a text may be cut without breaking what a reader sees as one character (UAX 29).


_CONJUNCT = r"\X(?:(?<=\p{CCC=9})\X)*"  # a virama binds the next consonant, as in क्ष


@cache
def _pattern(source: str) -> Any:
    import regex  # type: ignore[import-untyped]

    return regex.compile(source)


def extends(char: str) -> bool:
    """Whether `char` belongs to the character before it.

    So does one that Unicode does not know yet: it may be a mark.
    """
    if char < "\u0300":
        return False
    marks = r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}\p{M}\p{Cn}]"
    return _pattern(marks).fullmatch(char) is not None


def boundary_at_or_before(text: str, position: int, *, start: int) -> int:
    """The last cut in `(start, position]` that keeps characters whole; `start` is a cut too.

    When all of it is one character (a base under thousands of marks),
    `position` itself: a hard limit comes before a whole character.
    """
    if position >= len(text):
        return len(text)
    if text[position - 1] < "\u0300" > text[position] != "\n":
        return position
    for clusters in (_CONJUNCT, r"\X"):
        # One character more is read, so that one that reaches over `position` ends behind it.
        found = (one.end() for one in _pattern(clusters).finditer(text, start, position + 1))
        cut = max((end for end in found if end <= position), default=0)
        if cut:
            return cut
    return position


# ----------------------------------------------------------------------------
# Whether a full stop, or its like in another script, ends the sentence it stands in.


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
_ONE_FORM = "\"'`*_~＂＇"  # signs that open and close
_TERMINATORS = re.escape(_SPACED + _ALWAYS)
# Possessive, and never started inside a run of marks: each character is read once.
CANDIDATE = compile_late(
    rf"(?<![{_TERMINATORS}])([{_TERMINATORS}]++)"
    rf"(?:[{re.escape(_CLOSERS)}]|[\u0020\u00a0\u202f]»)*+(?:\[\d{{1,3}}\])*+"
)
_UNSPACED = compile_late(f"[{re.escape(_ALWAYS)}]")
_WHITE = compile_late(r"\s*+")
_NEXT_WORD = compile_late(rf"[{re.escape(_OPENERS)}]{{0,8}}+(\w*)")
_LETTER = compile_late(r"[^\W\d_]")
_ROMAN = compile_late(r"[IVXLC]+|[ivxlc]+")
_VOWEL = compile_late(r"[aeiouy]", re.IGNORECASE)
BLANK_LINE = compile_late(r"(?>\r\n|[\r\n])[^\S\r\n\u2029]*+(?>\r\n|[\r\n])|\u2029")

_NEWLINE = compile_late(r"[\r\n]")
_NEW_PART = compile_late(r"(?:[-*+•‣◦#>|]|\d{1,3}[.)])[ \t]")
_NO_SPACE_SCRIPTS = compile_late(
    "[\u2e80-\u303f\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef"
    "\U00020000-\U0003ffff]"
)
# R&D. and ?c=d. end with a letter that is not an initial.
_JOINS_A_LETTER = "&=/_"
# Scripts in which one letter can be a word, so that it is not an initial.
_WORD_OF_ONE = compile_late(rf"{_NO_SPACE_SCRIPTS.pattern}|[\uac00-\ud7a3]")
_LONGEST_WORD = 24
_FAR_BACK = 200


def end_at(text: str, match: re.Match[str], sentence_start: int) -> int | None:
    """Where the sentence ends if this match of `CANDIDATE` ends it."""
    mark, marks_end, end = match.start(), match.end(1), match.end()
    unspaced = _UNSPACED.search(text, mark, marks_end) is not None
    if unspaced:
        end = _closed_at(text, marks_end, end, sentence_start)
    after = text[end : end + 1]
    if not after:
        return end
    if extends(after):
        return None
    if unspaced:
        return end if _is_unspaced_end(text, mark, marks_end, end) else None
    return end if _is_spaced_end(text, text[mark:marks_end], mark, end, sentence_start) else None


def _closed_at(text: str, start: int, end: int, sentence_start: int) -> int:
    """The end of the closing signs from `start`, when no space shows which of them open.

    他说。“好”: the quote opens. A sign with one form closes if it stood in the
    sentence an odd number of times.
    """
    if end >= len(text) or text[end].isspace():
        return end
    back = text[max(sentence_start, start - _FAR_BACK) : start]
    position, closed = start, ""
    while position < end:
        char = text[position]
        width = _opened_width(back, char) if char in _ONE_FORM and char not in closed else 0
        if char in _ONE_FORM + "“‘«‹" and not width:
            break
        closed += char
        position += max(1, width if text.startswith(char * width, position) else 1)
    return min(position, end)


def _opened_width(back: str, char: str) -> int:
    """How many of `char` opened something that is not yet closed: 2 for **, 0 for nothing."""
    runs = [len(run) for run in re.findall(re.escape(char) + "+", back)]
    return runs[-1] if len(runs) % 2 else 0


def _is_spaced_end(text: str, marks: str, mark: int, end: int, sentence_start: int) -> bool:
    """Whether marks that want a space after them end a sentence here."""
    if not text[end].isspace():
        return (
            marks.strip("!?") == ""
            and _NO_SPACE_SCRIPTS.match(text, end) is not None
            and _NO_SPACE_SCRIPTS.match(text[mark - 1 : mark]) is not None
            and text[end] not in "、，：；"
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
        or BLANK_LINE.search(text, end, next_at) is not None
        or (_NEWLINE.search(text, end, next_at) and _NEW_PART.match(text, next_at) is not None)
        or _starts_lower(text, sentence_start)
    )


def _after_white(text: str, position: int) -> int:
    match = _WHITE.match(text, position)
    return match.end() if match else position


def _is_unspaced_end(text: str, mark: int, marks_end: int, end: int) -> bool:
    """Whether marks that need no space after them end a sentence here."""
    before, after, closing = text[mark - 1 : mark], text[end], text[marks_end:end]
    if after.isascii() and not after.isspace() and _in_address(text, mark):
        return False
    if before.isdigit() and after.isdigit() and not closing:
        return False
    if text[mark:marks_end] == "．" and not closing and after.isalnum() and _folds_to_ascii(after):
        return False  # a fullwidth number, version or file name
    if after in "、，,：；:;":
        return False
    # 「はい。」と答えた: the quotation is inside the sentence.
    return not (closing[-1:] in ("」", "』", "｣") and after in "とっでをがにのもはへや")


def _folds_to_ascii(char: str) -> bool:
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
    if len(segments) > 1 and max(map(len, segments)) <= 4 and min(map(len, segments)) <= 1:
        return True  # U.S., e.g., Ph.D.
    last = segments[-1]
    if len(segments) == 1 and len(last) == 1 and not _WORD_OF_ONE.match(last):
        if before == "-":
            return text[first - 2 : first - 1] == "."  # J.-P., but not vitamin-C.
        return not before or before not in _JOINS_A_LETTER
    folded, listed = last.casefold(), read_words("abbreviations.txt")
    if folded in listed["always"]:
        return True
    if folded in listed["capitalised"] and last[:1].isupper():
        return True
    if folded in listed["before numbers"] and (
        following[:1].isdigit() or (following != "I" and _ROMAN.fullmatch(following) is not None)
    ):
        return True
    # Sgt., Blvd., hrs.: short, without a vowel, and not a name in capitals such as SQL.
    return (
        len(segments) == 1
        and len(last) <= 5
        and last.isascii()
        and last[1:].islower()
        and _VOWEL.search(last) is None
    )


def _is_ordinal(text: str, mark: int, following: str) -> bool:
    """Whether a German-style ordinal stands here: "am 3. Oktober"."""
    first = mark
    while first > 0 and mark - first < 3 and text[first - 1].isdigit():
        first -= 1
    listed = read_words("abbreviations.txt")["after ordinals"]
    return 0 < mark - first <= 2 and following.casefold() in listed


def sentence_ends(text: str, *, stop: int | None = None) -> Iterator[int]:
    """The positions right after each sentence, its closing quotes and brackets included.

    Lazy and linear. A blank line is no end of its own, nor is the end of the
    text: there has to be a mark, and one before `stop`; nothing far behind it is read.
    """
    require_text(text, "text")
    stop = len(text) if stop is None else stop
    start = 0
    for found in CANDIDATE.finditer(text, 0, stop):
        match: re.Match[str] | None = found
        if found.end() == stop < len(text):
            match = CANDIDATE.match(text, found.start())
        end = end_at(text, match, start) if match else None
        if end is not None:
            yield end
            start = end


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """The spans of the sentences in order, without the white space between them.

    A blank line also parts two sentences (a heading has no full stop), and what
    follows the last end is a span too: every visible character is in one span.
    """
    require_text(text, "text")
    ends = sentence_ends(text)
    breaks = (match.start() for match in BLANK_LINE.finditer(text))
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
    too_long, too_many = _first_overflow(text, limit_tokens, count)
    if too_many <= limit_tokens:
        return text
    ends = [end for end in sentence_ends(text, stop=too_long) if end <= too_long]
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
