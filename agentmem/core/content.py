"""One form for equal texts, and a hash over all of it."""

from __future__ import annotations

from hashlib import blake2b
from unicodedata import normalize as unicode_normalize

from agentmem.core.checks import require_text

_NEWLINES: tuple[str, ...] = ("\r\n", "\r", "\u0085", "\u2028", "\u2029")


def normalise(text: str) -> str:
    """`text` in the one form that equal contents share; applying it again changes nothing.

    Unicode NFC; every line break is `\\n`; no white space at the end of a line;
    no blank lines at the start or the end. Indentation, blank lines inside,
    case and every other character stay, so code and Markdown keep their meaning.
    """
    composed = require_text(text, "text")
    newlines: tuple[str, ...] = _NEWLINES[:2]
    if not composed.isascii():
        composed, newlines = unicode_normalize("NFC", composed), _NEWLINES
    for newline in newlines:
        if newline in composed:
            composed = composed.replace(newline, "\n")
    if "\n" not in composed:
        return composed.rstrip()
    return "\n".join([line.rstrip() for line in composed.split("\n")]).strip("\n")


def content_hash(text: str) -> str:
    """64 hexadecimal digits for the whole of `text`, equal exactly when `normalise` is.

    BLAKE2b with 256 bits over every character: a change anywhere changes it.
    """
    return blake2b(normalise(text).encode("utf-8"), digest_size=32).hexdigest()
