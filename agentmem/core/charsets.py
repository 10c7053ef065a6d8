"""Bytes to text, whatever their sender says about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_META = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([\w:.+-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w:.+-]{1,40})""", re.IGNORECASE)
_LABEL = re.compile(r"""charset\s*=\s*["']?\s*([\w:.+-]{1,40})""", re.IGNORECASE)
# Labels that browsers read as a larger set than their name says (WHATWG Encoding).
_LARGER = {
    "ascii": "cp1252", "us-ascii": "cp1252", "latin1": "cp1252", "latin-1": "cp1252",
    "iso-8859-1": "cp1252", "iso8859-1": "cp1252", "iso-8859-9": "cp1254", "gb2312": "gb18030",
    "gbk": "gb18030", "x-gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932",
    "sjis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949", "ks_c_5601-1987": "cp949",
    "big5": "big5hkscs", "tis-620": "cp874", "iso-8859-11": "cp874", "windows-874": "cp874",
    "x-mac-roman": "mac_roman", "macintosh": "mac_roman",
}  # fmt: skip
# Codecs of Python that are not charsets of documents, such as utf-7 and punycode, stay out.
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|utf-?32(?:-?[lb]e)?|iso-?8859-\d{1,2}|windows-\d{3,4}|cp\d{3,4}"
    r"|koi8-[ru]|gb18030|big5(?:hkscs)?|euc-?(?:jp|kr|tw)|iso-2022-(?:jp|kr)|hz|mac_roman",
    re.IGNORECASE,
)
_SIGNS = {"iso-2": b"\x1b", "hz": b"~{", "utf-1": b"\0", "utf-3": b"\0", "utf16": b"\0"}
META_BYTES = 4096


def charset_of(content_type: str) -> str:
    """The charset that a Content-Type header names, or ""."""
    found = _LABEL.search(content_type)
    return found[1] if found else ""


def charsets_of(data: bytes, *, declared: str = "") -> tuple[str, ...]:
    """The charsets to try, most credible first.

    A byte order mark is never wrong. Bytes that are valid UTF-8 with anything
    beyond ASCII in them are UTF-8, whatever the label says. Then the header
    (`declared`), then what the document says of itself.
    """
    for mark, name in _BOMS:
        if data.startswith(mark):
            return (name,)
    written = [declared]
    for pattern in (_META, _XML):
        found = pattern.search(data[:META_BYTES])
        if found:
            written.append(found[1].decode("ascii", "replace"))
    labels = [_LARGER.get(label.strip().lower(), label.strip().lower()) for label in written]
    known = [label for label in labels if _KNOWN.fullmatch(label)]
    # Some bytes of these are valid UTF-8 by accident, but not without leaving a sign.
    first = [label for label in known if _SIGNS.get(label[:5], b"\xff\xff") in data]
    names = [*first, "utf-8", *known]
    guess = _wide(data)
    return tuple(dict.fromkeys([*([guess] if guess else []), *names]))


def decode(data: bytes, *, declared: str = "", last: str = "cp1252") -> str:
    """`data` as text that can be stored; never raises.

    What no credible charset can read is read as `last`, with replacement
    characters where that has no letter either.
    """
    for name in charsets_of(data, declared=declared):
        try:
            return sound(data.decode(name))
        except (UnicodeDecodeError, LookupError):
            continue
    try:
        return sound(data.decode(last, "replace"))
    except LookupError:
        return sound(data.decode("utf-8", "replace"))


def sound(text: str) -> str:
    """`text` without a byte order mark and without lone surrogates."""
    text = text.removeprefix("\ufeff")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def sound_values(value: Any) -> Any:
    """JSON values with every text in them `sound`."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, Mapping):
        return {key: sound_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sound_values(item) for item in value]
    return value


def looks_binary(data: bytes) -> bool:
    """Whether these first bytes of a file are of no text: NUL, or many control characters."""
    head = data[:8192]
    if any(head.startswith(mark) for mark, _ in _BOMS) or _wide(head):
        return False
    if b"\0" in head:
        return True
    control = sum(byte < 32 and byte not in b"\t\n\f\r\x1b\b" for byte in head)
    return control * 20 > len(head)


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: of a Latin text every other byte is zero."""
    head = data[:1024]
    half = len(head) // 2
    if half < 8 or len(data) % 2:
        return ""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd * 10 >= half * 7 and even * 10 <= half:
        return "utf-16-le"
    if even * 10 >= half * 7 and odd * 10 <= half:
        return "utf-16-be"
    return ""
