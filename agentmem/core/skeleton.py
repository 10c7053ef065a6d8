"""What a lenient reader would see in a text: escapes undone, look-alikes read as ASCII.

Both the clean-up (which must find what pretends to be our markup) and `strip`
(which must find our markup after somebody quoted it) look at this view and act
on the original, so every position in the view maps back.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from agentmem.core.patterns import compile_late
from agentmem.core.values import dataclass

ROUNDS = 16  # deeper nesting of mixed escapes than any chain of tools produces

INVISIBLE = (
    "\\x00-\\x08\\x0e-\\x1b\\x1f\\x7f-\\x84\\x86-\\x9f"  # controls that are not line breaks
    "\\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tag characters and ideographic variation selectors
    "\ud800-\udfff\ufdd0-\ufdef"
    + "".join(
        f"{chr(plane + 0xFFFE)}-{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000)
    )
)
"""Inside of a regex class: characters that are never shown, or that change how others are shown.

Written out instead of asked from `unicodedata`, so that every Python renders the same bytes.
Joiners and the two emoji variation selectors are not in it: they depend on their neighbours.
"""

_CONFUSABLE: Mapping[str, str] = MappingProxyType(
    dict.fromkeys("‹〈⟨❮❰˂ᐸ≺⧼⟪《«⪻ᚲ𐊀≪⋖", "<")
    | dict.fromkeys("›〉⟩❯❱˃ᐳ≻⧽⟫》»⪼≫⋗", ">")
    | dict.fromkeys("ǀ∣│┃¦❘⏐", "|")
    | dict.fromkeys("⁄∕⧸╱", "/")
    | dict.fromkeys("【〔⟦❲", "[")
    | dict.fromkeys("】〕⟧❳", "]")
    | dict.fromkeys("∶։׃˸꞉", ":")
    | dict.fromkeys("ˍ‗", "_")
    | dict(
        zip(
            "аԁеһіјӏкоргѕуԝхсмтнвпАВЕКМНОРСТХІЅЈУԜ",
            "adehijlkoprsywxcmthbnABEKMHOPCTXISJYW",
            strict=True,
        )
    )
    | dict(zip("αοερτυνκιωγσΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aoeptuvkiwysABEZHIKMNOPTYX", strict=True))
    | dict.fromkeys("ıɩ", "i")
    # Outlined letters and digits, which NFKC folds only from Unicode 16 on.
    | {chr(0x1CCD6 + n): chr(ord("A") + n) for n in range(26)}
    | {chr(0x1CCF0 + n): str(n) for n in range(10)}
    | {"ɡ": "g", "ո": "n", "օ": "o", "ս": "u", "ԛ": "q", "ʟ": "l", "ʀ": "r", "ɴ": "n", "ᴋ": "k"}
    | {"ᴄ": "c", "ᴅ": "d", "ᴇ": "e", "ᴏ": "o", "ᴛ": "t", "ᴜ": "u", "ᴡ": "w", "ꜱ": "s", "ᴍ": "m"}
)
_DROPPED = compile_late(
    f"[{INVISIBLE}\u200c\u200d\ufe0e\ufe0f\u0300-\u036f\u20d0-\u20ff\ufe20-\ufe2f]"
)
_AMPERSANDS = compile_late(r"&(?:amp;|#0{0,6}38;|#x0{0,6}26;)*", re.IGNORECASE)
_CONTROL = compile_late(r"[\x00-\x08\x0e-\x1b\x1f\x7f]")
_READ_OTHERWISE = compile_late(r"[\x00-\x08\x0e-\x1b\x1f\x7f&%\\]")
_ESCAPE = compile_late(
    r"""
    &(?:amp;|\#0{0,6}38;|\#x0{0,6}26;)*+(?:(?:\#x[0-9a-f]{1,8}|\#[0-9]{1,10}|[a-z][a-z0-9]{1,31});?)?
    | %(?:25)*[0-9a-f]{2}(?:%(?:25)*[0-9a-f]{2})*
    | \\(?:\\*u[0-9a-f]{4}(?:\\+u[0-9a-f]{4})*
    |      \\*u\{[0-9a-f]{1,6}\}
    |      \\*x[0-9a-f]{2}
    |      \\*[nrt"'/<>_*\[\]()!|-]
    |      \\+)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BYTE = compile_late(r"%(?:25)*([0-9a-f]{2})", re.IGNORECASE)
_UNIT = compile_late(r"\\+u([0-9a-f]{4})", re.IGNORECASE)
_CONTROL_LETTERS = MappingProxyType({"n": "\n", "r": "\n", "t": "\t"})

Edit = tuple[int, int, int, int]
"""Start and end in the view, start and end in the text below it."""


@dataclass(frozen=True, slots=True)
class _Layer:
    starts: tuple[int, ...]
    edits: tuple[Edit, ...]

    def below(self, position: int) -> tuple[int, int]:
        """The span in the text below of the one character at `position`."""
        at = bisect_right(self.starts, position) - 1
        if at < 0:
            return position, position + 1
        _, seen_end, start, end = self.edits[at]
        if position < seen_end:
            return start, end
        return end + position - seen_end, end + position - seen_end + 1


@dataclass(frozen=True, slots=True)
class Seen:
    """The view of a text, and the way back from its positions to the text's."""

    text: str
    layers: tuple[_Layer, ...]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters `start` to `end` of the view stand in the original text."""
        if start >= end:
            at = (
                self._below(start)[0]
                if start < len(self.text) or not start
                else self._below(start - 1)[1]
            )
            return at, at
        return self._below(start)[0], self._below(end - 1)[1]

    def _below(self, position: int) -> tuple[int, int]:
        start, end = position, position + 1
        for layer in reversed(self.layers):
            start, end = layer.below(start)[0], layer.below(end - 1)[1]
        return start, end


def see(text: str) -> Seen:
    """`text` as somebody reads it who undoes every escape and takes look-alikes at face value."""
    if text.isascii() and not _READ_OTHERWISE.search(text):
        return Seen(text, ())
    layers: list[_Layer] = []
    for _ in range(ROUNDS):
        folded = _apply(text, _folds(text))
        if folded:
            text = folded[0]
            layers.append(folded[1])
        decoded = _apply(text, _decodings(text))
        if decoded:
            text = decoded[0]
            layers.append(decoded[1])
        if not decoded:
            break
    return Seen(text, tuple(layers))


@lru_cache(maxsize=4096)
def fold(char: str) -> str:
    """The ASCII a character reads as, "" for one that is not seen, or the character itself."""
    if _DROPPED.match(char):
        return ""
    if char in _CONFUSABLE:
        return _CONFUSABLE[char]
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() else char


def _folds(text: str) -> list[tuple[int, int, str]]:
    if text.isascii() and not _CONTROL.search(text):
        return []
    folded = {char: plain for char in set(text) if (plain := fold(char)) != char}
    if not folded:
        return []
    return [(at, at + 1, folded[char]) for at, char in enumerate(text) if char in folded]


def _decodings(text: str) -> list[tuple[int, int, str]]:
    if "&" not in text and "%" not in text and "\\" not in text:
        return []
    found: list[tuple[int, int, str]] = []
    for match in _ESCAPE.finditer(text):
        decode = _DECODERS[match[0][0]]
        found += decode(match[0], match.start())
    return found


def _entity(escape: str, start: int) -> list[tuple[int, int, str]]:
    name = _AMPERSANDS.sub("", escape)
    plain = html.unescape("&" + name)
    end = start + len(escape)
    while plain not in ("", "&") and name and plain[-1] == name[-1]:
        plain, name, end = plain[:-1], name[:-1], end - 1  # "&ltb" is "<" and "b"
    return [(start, end, plain)] if plain != "&" or end - start > 1 else []


def _backslash(escape: str, start: int) -> list[tuple[int, int, str]]:
    letters = escape.lstrip("\\")
    end = start + len(escape)
    if len(letters) < 2:
        return [(start, end, _CONTROL_LETTERS.get(letters, letters or "\\"))]
    if letters[0] in "uU" and letters[1] != "{":
        return _units(escape, start)
    return [(start, end, chr(min(int(letters[1:].strip("{}"), 16), 0x10FFFF)))]


def _percent(run: str, start: int) -> list[tuple[int, int, str]]:
    octets = [(int(m[1], 16), start + m.start(), start + m.end()) for m in _BYTE.finditer(run)]
    raw = bytes(octet for octet, _, _ in octets)
    found: list[tuple[int, int, str]] = []
    at = 0
    while at < len(raw):
        width = 1 if raw[at] < 0xC0 else 2 if raw[at] < 0xE0 else 3 if raw[at] < 0xF0 else 4
        char = raw[at : at + width].decode("utf-8", "replace")
        if len(char) != 1 or char == "\ufffd":
            width, char = 1, "\ufffd"
        found.append((octets[at][1], octets[at + width - 1][2], char))
        at += width
    return found


def _units(run: str, start: int) -> list[tuple[int, int, str]]:
    units = [(int(m[1], 16), start + m.start(), start + m.end()) for m in _UNIT.finditer(run)]
    found: list[tuple[int, int, str]] = []
    for unit, first, last in units:
        if found and 0xDC00 <= unit < 0xE000 and "\ud800" <= found[-1][2] < "\udc00":
            high = ord(found[-1][2]) - 0xD800
            pair = chr(0x10000 + (high << 10) + unit - 0xDC00)
            found[-1] = (found[-1][0], last, pair)
        else:
            found.append((first, last, chr(unit)))
    return found


_DECODERS = MappingProxyType({"&": _entity, "%": _percent, "\\": _backslash})


def _apply(text: str, changes: list[tuple[int, int, str]]) -> tuple[str, _Layer] | None:
    if not changes:
        return None
    pieces: list[str] = []
    edits: list[Edit] = []
    done = length = 0
    for start, end, plain in changes:
        pieces += (text[done:start], plain)
        length += start - done
        edits.append((length, length + len(plain), start, end))
        length += len(plain)
        done = end
    pieces.append(text[done:])
    return "".join(pieces), _Layer(tuple(edit[0] for edit in edits), tuple(edits))
