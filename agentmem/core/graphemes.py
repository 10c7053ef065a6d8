"""Where a text may be cut without breaking what a reader sees as one character.

The standard library has no grapheme property, so the rules of Unicode's UAX 29
are followed from general categories, always on the side of keeping together.
"""

from __future__ import annotations

from unicodedata import category, combining

_ZWNJ, _ZWJ = "\u200c", "\u200d"
# Extending characters that are not marks: halfwidth voicing marks, Thai and Lao AM.
_ALSO_EXTEND = frozenset("\uff9e\uff9f\u0e33\u0eb3")
_PREPEND = frozenset(
    [chr(code) for code in range(0x600, 0x606)]
    + ["\u06dd", "\u070f", "\u0890", "\u0891", "\u08e2", "\u0d4e"]
    + [chr(code) for code in (0x110BD, 0x110CD, 0x111C2, 0x111C3, 0x1193F, 0x11941, 0x11A3A)]
    + [chr(code) for code in (*range(0x11A84, 0x11A8A), 0x11D46, 0x11F02)]
)


def extends(char: str) -> bool:
    """Whether `char` belongs to the character before it.

    So does one this Python's Unicode does not know yet: it may be a mark.
    """
    if char < "\u0300":
        return False
    return (
        char in (_ZWNJ, _ZWJ)
        or category(char) in ("Mn", "Mc", "Me", "Cn")
        or "\U0001f3fb" <= char <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= char <= "\U000e007f"  # tags of flags
        or char in _ALSO_EXTEND
    )


def is_boundary(text: str, position: int, *, start: int = 0) -> bool:
    """Whether `text` may be cut at `position`; `start` is a known boundary before it.

    Rarely False where UAX 29 allows a cut (after any joiner or virama), never
    True where it does not.
    """
    if position <= start or position >= len(text):
        return True
    before, after = text[position - 1], text[position]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if before in "\r\n" or after in "\r\n":
        return True
    if extends(after) or before in _PREPEND or before == _ZWJ:
        return False
    if combining(before) == 9:  # a virama binds the next consonant
        return False
    if _is_flag_half(before) and _is_flag_half(after):
        return _flag_halves_before(text, position, start) % 2 == 0
    return not _one_syllable(ord(before), ord(after))


def boundary_at_or_before(text: str, position: int, *, start: int) -> int:
    """The last cut in `(start, position]` that keeps characters whole.

    When all of it is one character (a base under thousands of marks),
    `position` itself: a hard limit comes before a whole character.
    """
    if position >= len(text):
        return len(text)
    for cut in range(position, start, -1):
        if is_boundary(text, cut, start=start):
            return cut
    return position


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_halves_before(text: str, position: int, start: int) -> int:
    first = position
    while first > start and _is_flag_half(text[first - 1]):
        first -= 1
    return position - first


def _one_syllable(before: int, after: int) -> bool:
    """Hangul letters that compose: L with L, V or a syllable; V with V or T; T with T."""
    if not (0x1100 <= before <= 0xD7FB and 0x1100 <= after <= 0xD7FB):
        return False
    left, right = _hangul(before), _hangul(after)
    return (
        (left == "L" and right in ("L", "V", "LV", "LVT"))
        or (left in ("V", "LV") and right in ("V", "T"))
        or (left in ("T", "LVT") and right == "T")
    )


def _hangul(code: int) -> str:
    if 0x1100 <= code <= 0x115F or 0xA960 <= code <= 0xA97C:
        return "L"
    if 0x1160 <= code <= 0x11A7 or 0xD7B0 <= code <= 0xD7C6:
        return "V"
    if 0x11A8 <= code <= 0x11FF or 0xD7CB <= code <= 0xD7FB:
        return "T"
    if 0xAC00 <= code <= 0xD7A3:
        return "LV" if (code - 0xAC00) % 28 == 0 else "LVT"
    return ""
