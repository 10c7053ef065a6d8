"""Make any text harmless to show inside the block, and still readable.

`clean_text` and `clean_line` change what is shown, never what is stored.
Both are idempotent (K1). `escape_text` and `escape_attribute` then write the
cleaned text as XML.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, lru_cache
from itertools import count
from types import MappingProxyType

from agentmem.base.lazy import compile_late
from agentmem.data import read_lists

# ----------------------------------------------------------------------------
# What a lenient reader would see in a text: escapes undone, look-alikes read as ASCII.
#
# Both the clean-up (which must find what pretends to be our markup) and `strip`
# (which must find our markup after somebody quoted it) look at this view and act
# on the original, so every position in the view maps back.


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


@cache
def _confusable() -> Mapping[str, str]:
    """What characters read as that look like ASCII; outlined ones fold only from Unicode 16 on."""
    lists = read_lists("markup_words.txt")
    rows = (line.split() for line in lists["look-alikes"])
    found = {char: plain for chars, plain in rows for char in chars}
    found |= {chr(0x1CCD6 + n): chr(ord("A") + n) for n in range(26)}
    return found | {chr(0x1CCF0 + n): str(n) for n in range(10)}


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

Change = tuple[int, int, str]
"""The characters from the first to the second place read as this."""


class Seen:
    """The view of a text, and where its characters stand in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._size = len(text)
        self._rounds: list[list[Change]] = []

    def change(self, changes: list[Change]) -> bool:
        """Read it with these changes to the view; whether there are any."""
        pieces: list[str] = []
        done = 0
        for start, end, plain in changes:
            pieces += (self.text[done:start], plain)
            done = end
        if changes:
            self.text = "".join((*pieces, self.text[done:]))
            self._rounds.append(changes)
        return bool(changes)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters `start` to `end` of the view stand in the original text."""
        starts, ends = self._places
        if start < end:
            return starts[start], ends[end - 1]
        at = starts[start] if start < len(starts) else ends[start - 1] if start else 0
        return at, at

    @cached_property
    def _places(self) -> tuple[Sequence[int], Sequence[int]]:
        """Where each character of the view begins and ends in the text; few ask for it."""
        starts: Sequence[int] = range(self._size)
        ends: Sequence[int] = range(1, self._size + 1)
        for changes in self._rounds:
            new_starts: list[int] = []
            new_ends: list[int] = []
            done = 0
            for start, end, plain in (*changes, (len(starts), len(starts), "")):
                new_starts += starts[done:start]
                new_ends += ends[done:start]
                for _ in plain:
                    new_starts.append(starts[start])
                    new_ends.append(ends[end - 1])
                done = end
            starts, ends = new_starts, new_ends
        return starts, ends


def see(text: str) -> Seen:
    """`text` as somebody reads it who undoes every escape and takes look-alikes at face value."""
    seen = Seen(text)
    if text.isascii() and not _READ_OTHERWISE.search(text):
        return seen
    for _ in range(ROUNDS):
        seen.change(_folds(seen.text))
        if not seen.change(_decodings(seen.text)):
            break
    return seen


@lru_cache(maxsize=4096)
def fold(char: str) -> str:
    """The ASCII a character reads as, "" for one that is not seen, or the character itself."""
    if _DROPPED.match(char):
        return ""
    if char in _confusable():
        return _confusable()[char]
    plain = unicodedata.normalize("NFKC", char)
    return plain if plain.isascii() else char


def _folds(text: str) -> list[Change]:
    if text.isascii() and not _CONTROL.search(text):
        return []
    folded = {char: plain for char in set(text) if (plain := fold(char)) != char}
    if not folded:
        return []
    return [(at, at + 1, folded[char]) for at, char in enumerate(text) if char in folded]


def _decodings(text: str) -> list[Change]:
    if "&" not in text and "%" not in text and "\\" not in text:
        return []
    found: list[Change] = []
    for match in _ESCAPE.finditer(text):
        decode = _DECODERS[match[0][0]]
        found += decode(match[0], match.start())
    return found


def _entity(escape: str, start: int) -> list[Change]:
    name = _AMPERSANDS.sub("", escape)
    plain = html.unescape("&" + name)
    end = start + len(escape)
    while plain not in ("", "&") and name and plain[-1] == name[-1]:
        plain, name, end = plain[:-1], name[:-1], end - 1  # "&ltb" is "<" and "b"
    return [(start, end, plain)] if plain != "&" or end - start > 1 else []


def _backslash(escape: str, start: int) -> list[Change]:
    letters = escape.lstrip("\\")
    end = start + len(escape)
    if len(letters) < 2:
        return [(start, end, _CONTROL_LETTERS.get(letters, letters or "\\"))]
    if letters[0] in "uU" and letters[1] != "{":
        return _units(escape, start)
    return [(start, end, chr(min(int(letters[1:].strip("{}"), 16), 0x10FFFF)))]


def _percent(run: str, start: int) -> list[Change]:
    octets = [(int(m[1], 16), start + m.start(), start + m.end()) for m in _BYTE.finditer(run)]
    raw = bytes(octet for octet, _, _ in octets)
    found: list[Change] = []
    at = 0
    while at < len(raw):
        width = 1 if raw[at] < 0xC0 else 2 if raw[at] < 0xE0 else 3 if raw[at] < 0xF0 else 4
        char = raw[at : at + width].decode("utf-8", "replace")
        if len(char) != 1 or char == "\ufffd":
            width, char = 1, "\ufffd"
        found.append((octets[at][1], octets[at + width - 1][2], char))
        at += width
    return found


def _units(run: str, start: int) -> list[Change]:
    units = [(int(m[1], 16), start + m.start(), start + m.end()) for m in _UNIT.finditer(run)]
    found: list[Change] = []
    for unit, first, last in units:
        if found and 0xDC00 <= unit < 0xE000 and "\ud800" <= found[-1][2] < "\udc00":
            high = ord(found[-1][2]) - 0xD800
            pair = chr(0x10000 + (high << 10) + unit - 0xDC00)
            found[-1] = (found[-1][0], last, pair)
        else:
            found.append((first, last, chr(unit)))
    return found


_DECODERS = MappingProxyType({"&": _entity, "%": _percent, "\\": _backslash})


_BREAKS = compile_late("\r\n?|[\v\f\x1c-\x1e\x85\u2028\u2029]")
_INVISIBLE = compile_late(f"[{INVISIBLE}]+")
_UNUSUAL = compile_late(r"[^\n\t -~]")

# Characters that a normal form turns into markup, and spaces of odd widths, which can hide bits.
_PLAIN = (
    dict.fromkeys("＜﹤", "<")
    | dict.fromkeys("＞﹥", ">")
    | dict.fromkeys("＆﹠", "&")
    | {"＂": '"', "＇": "'", "≮": "!<", "≯": "!>"}
    | dict.fromkeys(map(chr, (0x1680, *range(0x2000, 0x200B), 0x205F)), " ")
)
_TO_PLAIN = str.maketrans(_PLAIN)

_EMOJI = (
    "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u231a-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Scripts whose spelling uses joiners: Arabic, Syriac, the Indic family, Tibetan, Myanmar,
# Khmer, Mongolian.
_JOINING = (
    "\u0610-\u061a\u0620-\u06dc\u06de-\u06ff\u0710-\u077f\u08a0-\u08e1\u08e3-\u0dff\u0f00-\u109f"
    "\u1780-\u17b3\u17b6-\u17ff\u1820-\u18af\ufb50-\ufdcf\ufe70-\ufefc"
)
_STRAY_SELECTOR = compile_late(
    f"(?<![{_EMOJI}])(?<![0-9#*](?=\ufe0f\u20e3))[\ufe0e\ufe0f]|(?<=[\ufe0e\ufe0f])[\ufe0e\ufe0f]"
)
_STRAY_JOINER = compile_late(
    f"\u200d(?![{_EMOJI}])(?![{_JOINING}])"
    f"|\u200d(?=[{_EMOJI}])(?<![{_EMOJI}\ufe0f]\u200d)"
    f"|\u200c(?![{_JOINING}])"
    f"|[\u200c\u200d](?=[{_JOINING}])(?<![{_JOINING}][\u200c\u200d])"
)

_OWN_TAGS, _ANGLE_TOKENS, _SQUARE_TOKENS = (
    "|".join(" ".join(read_lists("markup_words.txt")[name]).split())
    for name in ("own tags", "angle tokens", "square tokens")
)
# One pattern per first character: a scan for a literal is many times faster than for a choice.
MOST_ROUNDS = 16  # text that still changes after so many is nothing but an attack
_NO_SYNTAX = str.maketrans(dict.fromkeys("<>[]&%\\", " "))
_VERBOSE = re.VERBOSE | re.IGNORECASE | re.MULTILINE
_ANGLE = compile_late(
    rf"""
    <\s*\| (?=\s*/?[\w▁]) [^|<>\n]{{1,80}} \|\s*>
    | <\|/?[\w▁][\w▁.-]{{0,40}}> | </?[\w▁][\w▁.-]{{0,40}}\|>
    | <[\s/!?\\]{{0,8}} (?P<own>{_OWN_TAGS}) (?:[^<>]{{0,400}}>)?
    | <<{{0,2}}[\s/\\]{{0,8}} (?:{_ANGLE_TOKENS}) \s{{0,8}}/?\s{{0,8}} >{{1,3}}
    | <[\s/\\]{{0,8}} (?:antml:\w{{1,40}}|invoke|parameter) (?:\s[^<>]{{0,400}})? >
    """,
    _VERBOSE,
)
_SQUARE = compile_late(
    rf"""
    \[[\s/\\]{{0,8}} (?:{_SQUARE_TOKENS}) \s{{0,8}} \]
    | \[\s{{0,8}}\|\s{{0,8}} /?[\w▁][\w▁ -]{{0,40}} \|\s{{0,8}}\]
    """,  # [INST], [|system|]
    _VERBOSE,
)
# Brackets that are no pair, around a tilde or another such pair: ]~b], ]~!b[, [e~[, ]<]image[>[
_BENT = compile_late(
    r"""
    (?: \] (?P<closed>[!\w]{0,8}~[!\w]{0,8}) [\[\]] | \[ (?P<opened>[!\w]{0,8}~[!\w]{0,8}) \[ )
    | \]<\] (?P<between>[^<>\[\]\n]{1,40}) \[>\[
    """,
    _VERBOSE,
)
_ROOT = compile_late(r"knowledge\s{0,8}_+\s{0,8}context", re.IGNORECASE)
_BRAND = compile_late(r"agentmem\W{1,8}reference", re.IGNORECASE)
_ROLE = compile_late(
    r"""
    ^[^\w\n(]{0,80} (?: (human|assistant|system|user|developer)
    | \#[^\w\n(]{0,8} (instructions?|response|input|output) ) (?=[\s*_]{0,8}:)
    """,
    _VERBOSE,
)
_NAME = compile_late(r"[A-Za-z0-9_-]")
_BRACKETS = compile_late(r"(?:[<\[]\s*\||<+|\[)(.*?)(?:\|\s*[>\]]|>+|\]|\Z)", re.DOTALL)
_IMAGE = compile_late(r"([!！﹗︕])(?=[\[［﹇])")
_LINK = compile_late(r"([\]］﹈])(?=[(（﹙⁽₍︵])")
_DEFINITION = compile_late(
    r"^([^\w\n]{0,12}[\[［﹇][^\n]{0,200}?[\]］﹈])(?=[:：﹕︓])", re.MULTILINE
)
_FIRST_LINES = compile_late(r"(?:[^\S\n]*\n)+")
_SPACES = compile_late(r"\s+")
_TOUCHED = compile_late(r"[^\n\t -~]|[<\[\]&%\\]")
# What no rule touches, alone or put together.
_WORD = compile_late(r"(?!.*(?:knowledge|agentmem))[a-z0-9_-]*", re.IGNORECASE)


def clean_text(text: str) -> str:
    """`text` as the block may show it: visible characters, nothing a reader takes for markup.

    Line breaks become `\\n`; blank lines at either end go. The table in
    docs/block.md lists every change.
    """
    return _trimmed(text) if _is_harmless(text) else _cleaned(text)


def _is_harmless(text: str) -> bool:
    """Whether no rule can find anything in it, so that none need be asked: most texts are."""
    if _TOUCHED.search(text) or (":" in text and _ROLE.search(text)):
        return False
    lowered = text.lower()
    return "knowledge" not in lowered and "agentmem" not in lowered


def _trimmed(text: str) -> str:
    """`text` without blank lines at either end."""
    text = text.rstrip()
    blank = _FIRST_LINES.match(text)
    return text[blank.end() :] if blank else text


def _cleaned(text: str) -> str:
    for rounds in count(1):
        if rounds % MOST_ROUNDS == 0:
            text = text.translate(_NO_SYNTAX)
        cleaned = _trimmed(_neutralise(drop_invisible(text)))
        if cleaned == text:
            break
        text = cleaned
    return text


def clean_line(text: str, *, limit_characters: int) -> str:
    """`clean_text` on one line, white space collapsed, cut with `…` past `limit_characters`."""
    if _WORD.fullmatch(text) and len(text) <= limit_characters:
        return text  # a kind, an id, a name: most lines
    if len(text) > 20 * limit_characters:
        text = text[: 20 * limit_characters]  # a title of megabytes is not worth reading whole
    while True:
        line = _SPACES.sub(" ", clean_text(text)).strip()
        if len(line) > limit_characters:
            line = line[: limit_characters - 1].rstrip() + "…"
        if line == text:
            return line
        text = line


def escape_text(text: str) -> str:
    """`text` as XML character data."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str) -> str:
    """`text` as the inside of a double-quoted XML attribute."""
    return escape_text(text).replace('"', "&quot;")


def drop_invisible(text: str) -> str:
    """`text` without control, bidi and zero-width characters that no script needs."""
    if not _UNUSUAL.search(text):
        return text
    text = _BREAKS.sub("\n", text)
    text = _INVISIBLE.sub("", text)
    characters = set(text)
    if not characters.isdisjoint("\ufe0e\ufe0f"):
        text = _STRAY_SELECTOR.sub("", text)
    if not characters.isdisjoint("\u200c\u200d"):
        text = _STRAY_JOINER.sub("", text)
    return text if characters.isdisjoint(_PLAIN) else text.translate(_TO_PLAIN)


def _neutralise(text: str) -> str:
    """`text` without live links, control tokens, forged tags and role labels."""
    if "]" in text or not text.isascii():
        text = _DEFINITION.sub(r"\1 ", _LINK.sub(r"\1 ", text))
        text = _IMAGE.sub(r"\1 ", text)
    seen = see(text)
    changes = sorted(_dangers(text, seen))
    pieces: list[str] = []
    done = 0
    for first, last, before, inner_first, inner_last, after in changes:
        start, end = seen.span(first, last)
        if start < done:
            continue  # inside what was just replaced; the next round looks again
        inner_start, inner_end = seen.span(inner_first, inner_last)
        pieces += (text[done:start], before, text[inner_start:inner_end], after)
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


_Change = tuple[int, int, str, int, int, str]
"""Replace first–last by: a text, what stands at inner first–last, another text."""


def _dangers(text: str, seen: Seen) -> Iterator[_Change]:
    view = seen.text
    if "<" in view:
        for match in _ANGLE.finditer(view):
            if match["own"] is None or _ends_name(text, seen, match.end("own")):
                yield _rounded(match)
    if "[" in view:
        yield from (_rounded(match) for match in _SQUARE.finditer(view))
    if "~" in view or "]<]" in view:
        for match in _BENT.finditer(view):
            first, last = match.span(match.lastgroup or 0)
            yield *match.span(), "(", first, last, ")"
    if ":" in view:
        for match in _ROLE.finditer(view):
            first, last = match.span(match.lastindex or 0)
            yield first, last, "(", first, last, ")"
    lowered = view.lower()
    if "knowledge" in lowered:
        for match in _ROOT.finditer(view):
            yield *match.span(), "knowledge-context", match.end(), match.end(), ""
    if "agentmem" in lowered:
        for match in _BRAND.finditer(view):
            yield *match.span(), "agentmem_reference", match.end(), match.end(), ""


def _ends_name(text: str, seen: Seen, end: int) -> bool:
    """Whether a tag's name ends here: `<sources>` is another tag, unless an escape makes it so."""
    return not _NAME.match(text, seen.span(end - 1, end)[1])


def _rounded(match: re.Match[str]) -> _Change:
    """The same words in round brackets, which no template and no parser takes for a token."""
    inside = _BRACKETS.fullmatch(match[0])
    first, last = inside.span(1) if inside else (0, len(match[0]))
    closed = ")" if match[0][-1] in ">]" else ""
    return *match.span(), "(", match.start() + first, match.start() + last, closed


# ----------------------------------------------------------------------------
# Text of others as an answer may show it: no live markup, no number that looks like a citation.
#
# An answer is often rendered as Markdown. An image in it is fetched the moment
# it is shown, so its address can carry away what the answer knows; a `[2]` that a
# page wrote itself would be read as our second source.


_TAG = compile_late(r"<(?=[A-Za-z/!?])")
# Whatever a reader of citation marks could take for one: brackets with a number inside.
_MARK = compile_late(
    r"[\[［﹇【]([^\[\]［］﹇﹈【】]{0,400}?\d[^\[\]［］﹇﹈【】]{0,400})[\]］﹈】]"
)
_OPEN_MARK = compile_late(r"[\[［﹇【](?=\s{0,3}[\w#^ .:]{0,24}\d)")
_NESTED = 20


def show_quote(text: str) -> str:
    """`text` on one line with live images, links, tags and citation marks taken apart.

    Words stay as they are; only the punctuation that makes them live changes
    (`![a](b)` becomes `! [a] (b)`, `[1]` becomes `(1)`, `<img` becomes `< img`).
    Applying it again changes nothing.
    """
    for _ in range(_NESTED):
        line = _SPACES.sub(" ", clean_text(text)).strip()
        line = _TAG.sub("< ", _without_marks(line))
        if line.count("`") % 2 or "``" in line:
            line = line.replace("`", "'")  # an open code span would swallow what follows
        if line == text:
            return line
        text = line
    return text.translate(_FLAT)


_FLAT = str.maketrans({"[": "(", "]": ")", "<": "(", ">": ")", "!": ".", "`": "'"})


def _without_marks(text: str) -> str:
    for _ in range(_NESTED):
        changed = _MARK.sub(r"(\1)", text)
        if changed == text:
            break
        text = changed
    return _OPEN_MARK.sub("(", text)
