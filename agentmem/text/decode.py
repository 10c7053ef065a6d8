"""Bytes to text, whatever their sender says about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from agentmem.base.types import TextFormat
from agentmem.data import read_lists, read_words

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
_META = re.compile(rb"""<meta[^>]{0,400}?charset\s*=\s*["']?\s*([\w:.+-]{1,40})""", re.IGNORECASE)
_XML = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w:.+-]{1,40})""", re.IGNORECASE)
_LABEL = re.compile(r"""charset\s*=\s*["']?\s*([\w:.+-]{1,40})""", re.IGNORECASE)
# Codecs of Python that are not charsets of documents, such as utf-7 and punycode, stay out.
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|utf-?32(?:-?[lb]e)?|iso-?8859-\d{1,2}|windows-\d{3,4}|cp\d{3,4}"
    r"|koi8-[ru]|gb18030|big5(?:hkscs)?|euc-?(?:jp|kr|tw)|iso-2022-(?:jp|kr)|hz|mac_roman",
    re.IGNORECASE,
)
_SIGNS = {"iso-2": b"\x1b", "hz": b"~{", "utf-1": b"\0", "utf-3": b"\0", "utf16": b"\0"}
META_BYTES = 4096
LEAST_TO_GUESS = 64
"""Bytes whose charset is worth guessing; fewer tell nothing."""


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
    labels = [_charsets().get(label.strip().lower(), label.strip().lower()) for label in written]
    known = [label for label in labels if _KNOWN.fullmatch(label)]
    # Some bytes of these are valid UTF-8 by accident, but not without leaving a sign.
    first = [label for label in known if _SIGNS.get(label[:5], b"\xff\xff") in data]
    names = [*first, "utf-8", *known]
    guess = _wide(data)
    return tuple(dict.fromkeys([*([guess] if guess else []), *names]))


def decode(data: bytes, *, declared: str = "") -> str:
    """`data` as text that can be stored; never raises.

    What no credible charset can read is read as the likeliest, with replacement
    characters where that has no letter either.
    """
    for name in charsets_of(data, declared=declared):
        try:
            return sound(data.decode(name))
        except (UnicodeDecodeError, LookupError):
            continue
    from charset_normalizer import from_bytes

    best = from_bytes(data[:20_000]).best() if len(data) >= LEAST_TO_GUESS else None
    return sound(data.decode("cp1252" if best is None else best.encoding, "replace"))


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


# ----------------------------------------------------------------------------
# Which answers of a web server hold text worth reading.


def media_type_of(content_type: str) -> str:
    """The type without its parameters, in lower case; "" when there is none."""
    return content_type.split(";", maxsplit=1)[0].strip().lower()


def is_readable(media_type: str) -> bool:
    """Whether text may be in it; a missing type is settled by looking at the bytes."""
    return (
        not media_type
        or media_type.startswith("text/")
        or media_type in read_words("file_kinds.txt")["readable"]
        or media_type.endswith(("+json", "+xml"))
    ) and media_type != "image/svg+xml"


# ----------------------------------------------------------------------------
# What a file is, by its name and its first bytes.


FileKind = Literal["markdown", "text", "code", "html", "pdf", "notebook", "binary"]


@cache
def _kinds() -> dict[str, FileKind]:
    """What files are, by the endings of their names."""
    told = read_words("file_kinds.txt")
    kinds: tuple[FileKind, ...] = ("markdown", "html", "pdf", "notebook", "text", "code")
    return {extension: kind for kind in kinds for extension in told[kind]}


@cache
def _charsets() -> dict[str, str]:
    """The charsets that labels mean which say less."""
    rows = map(str.split, read_lists("file_kinds.txt")["charsets"])
    return {label: charset for charset, *labels in rows for label in labels}


_MEDIA: dict[str, FileKind] = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
}
_CODE_NAMES = ("makefile", "dockerfile", "gemfile", "rakefile", "jenkinsfile", "vagrantfile")
_OFFICE = re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0")
_FIRST_HEADING = re.compile(r"\s{0,3}#[ \t]+([^\n]{1,300})")


def kind_of(name: str, head: bytes, *, media_type: str = "") -> FileKind:
    """What a file with this name, these first bytes and this declared type is."""
    if b"%PDF-" in head[:1024]:
        return "pdf"
    lowered = name.lower()
    extension = lowered.rsplit(".", 1)[-1] if "." in lowered else ""
    kind = _MEDIA.get(media_type) or _kinds().get(extension)
    if looks_binary(head):
        return "binary"
    if kind is None and lowered in _CODE_NAMES:
        return "code"
    return kind or "text"


def text_format(kind: FileKind) -> TextFormat:
    """How a chunker should read text of this kind."""
    if kind in ("markdown", "html", "pdf", "notebook"):
        return "markdown"
    return "code" if kind == "code" else "text"


def binary_remedy(head: bytes) -> str:
    """What to do about a file that is no text."""
    if _OFFICE.match(head):
        return "Save it as PDF, HTML or Markdown (an archive: unpack it) and index that."
    return "Only text, code, HTML, PDF and notebooks can be read; convert it to one of these."


def first_heading(text: str) -> str:
    """The title that a Markdown text begins with, or ""."""
    found = _FIRST_HEADING.match(text)
    return found[1].strip(" #\t") if found else ""
