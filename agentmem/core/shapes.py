"""Say what any tool result is: its kind, its counts, its first and last telling line.

Nothing raises, whatever the bytes are (W2), and every step is linear in them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agentmem.core.media_headers import image_size, recording_seconds
from agentmem.core.patterns import compile_late
from agentmem.core.shape_code import (
    diff_shape,
    grep_shape,
    markup_shape,
    python_trace,
    trace_shape,
)
from agentmem.core.shape_data import json_shape, table_shape
from agentmem.core.shape_values import (
    LINE_CHARACTERS,
    MOST_LINES,
    Shape,
    ends,
    number,
    share,
    some,
    telling,
)

__all__ = ["Shape", "failed_shape", "shape_of", "sniff"]

_MOST_CHARACTERS = 20_000_000
_DATA_URL = compile_late(
    r"\s*data:(?P<type>(?:image|audio|video)/[\w.+-]{1,40})[;,]", re.IGNORECASE
)
_LEVEL = compile_late(
    r"\b(?:(?P<error>ERROR|FATAL|CRITICAL|SEVERE|[Ee]rror(?=:))|(?P<warning>WARN(?:ING)?|[Ww]arning)"
    r"|INFO|DEBUG|TRACE|NOTICE)\b"
)
_STAMPED = compile_late(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d"
    r"|\d\d/[A-Z][a-z]{2}/\d{4}|\d{10,13}\b)"
    r"|\W{0,3}(?:ERROR|FATAL|CRITICAL|SEVERE|WARN(?:ING)?|INFO|DEBUG|TRACE)\b"
    r"|\S{1,60} - - \[\d\d/"
)
# Colours and cursor moves of terminals, and what they set as a title or link.
_ANSI = compile_late(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\))")
_PATH = compile_late(r"(?:\.{0,2}/|[A-Za-z]:\\)?(?:[\w.@+~-]+[/\\])+[\w.@+~-]*$|\./\S+$")
_MAGIC: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png", "PNG image"),
    (b"\xff\xd8\xff", "image/jpeg", "JPEG image"),
    (b"GIF87a", "image/gif", "GIF image"),
    (b"GIF89a", "image/gif", "GIF image"),
    (b"BM", "image/bmp", "BMP image"),
    (b"%PDF-", "application/pdf", "PDF document"),
    (b"PK\x03\x04", "application/zip", "ZIP archive"),
    (b"\x1f\x8b", "application/gzip", "gzip data"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3", "SQLite database"),
    (b"\x7fELF", "application/x-elf", "ELF program"),
    (b"fLaC", "audio/flac", "FLAC recording"),
    (b"ID3", "audio/mpeg", "MP3 recording"),
    (b"OggS", "application/ogg", "Ogg recording"),
)
_NAMED = (
    ("image/png", "PNG image"), ("image/jpeg", "JPEG image"), ("image/gif", "GIF image"),
    ("image/webp", "WebP image"), ("image/svg+xml", "SVG image"), ("image/", "image"),
    ("audio/", "recording"), ("video/", "video"), ("application/pdf", "PDF document"),
)  # fmt: skip


def sniff(data: bytes) -> tuple[str, str]:
    """The media type and the name of a kind of file, from its first bytes."""
    opening = bytes(data[:16])
    for magic, media_type, name in _MAGIC:
        if opening.startswith(magic) and (magic != b"BM" or image_size(data[:64])):
            return media_type, name
    if opening[:4] == b"RIFF":
        if opening[8:12] == b"WEBP":
            return "image/webp", "WebP image"
        if opening[8:12] == b"WAVE":
            return "audio/wav", "WAV recording"
    if opening[4:8] == b"ftyp":
        if opening[8:12] in (b"avif", b"heic", b"heix", b"mif1"):
            return "image/avif" if opening[8:12] == b"avif" else "image/heic", "HEIF image"
        return "video/mp4", "MP4 video"
    return "application/octet-stream", "binary data"


def shape_of(content: str | bytes, *, media_type: str = "") -> Shape:
    """What `content` is; bytes are taken as a file, text is looked at line by line."""
    if isinstance(content, bytes):
        return _binary(content, media_type)
    if match := _DATA_URL.match(content[:200]):
        return _media(content.strip(), match["type"].lower(), "", f"{len(content):,} characters")
    if media_type == "image/svg+xml" or content[:400].lstrip().startswith("<svg"):
        return _media(content.encode("utf-8", "replace"), "image/svg+xml", "", _size(content))
    if len(content) > _MOST_CHARACTERS:  # its ends say what it is
        half = _MOST_CHARACTERS // 2
        shape = _text(content[:half] + "\n" + content[-half:])
        return Shape(
            kind=shape.kind, what=f"very large {shape.what}",
            counts=(number(content.count("\n") + 1, "line"), _size(content)),
            first=shape.first, last=shape.last, notes=shape.notes, reads=shape.reads,
        )  # fmt: skip
    return _text(content)


def failed_shape(error: str, shape: Shape) -> Shape:
    """The shape of a call that failed: the error first, then what its output was."""
    last = shape.last if shape.kind == "trace" else shape.first
    return replace(
        shape, kind="error", what="failed", first=error, last="" if last == error else last
    )


def _text(whole: str) -> Shape:
    text = _ANSI.sub("", whole) if "\x1b" in whole else whole
    text = text.replace("\r\n", "\n") if "\r" in text else text
    shape = json_shape(text) or markup_shape(text)
    lines = text.split("\n")
    if shape is None:
        shape = diff_shape(text, lines) or trace_shape(text, lines) or grep_shape(lines)
    if shape is None:
        shape = _log(lines) or table_shape(lines) or _paths(lines) or _plain(text, lines)
    count = _line_count(whole)
    counted = (number(count, "line"),) if count > 1 else ()
    return replace(shape, counts=(*shape.counts, *counted, _size(whole)))


def _log(lines: Sequence[str]) -> Shape | None:
    sample = some(lines)
    if len(sample) < 3 or share(_STAMPED, sample) < 0.5:
        return None
    errors = warnings = 0
    first_error = ""
    for line in lines:
        match = _LEVEL.search(line[:200])
        if match is None:
            continue
        if match["error"]:
            errors += 1
            first_error = first_error or line
        elif match["warning"]:
            warnings += 1
    first, last = ends(lines)
    counts = [number(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n]
    notes = (f"first error: {first_error.strip()[:LINE_CHARACTERS]}",) if first_error else ()
    return Shape(kind="log", what="log", counts=tuple(counts), first=first, last=last, notes=notes)


def _paths(lines: Sequence[str]) -> Shape | None:
    sample = some(lines)
    if len(sample) < 3 or share(_PATH, sample) < 0.9:
        return None
    first, last = ends(lines)
    count = sum(1 for line in lines if line.strip())
    return Shape(
        kind="paths", what="list of paths", counts=(number(count, "path"),), first=first, last=last
    )


def _plain(text: str, lines: Sequence[str]) -> Shape:
    first, last = ends(lines)
    inside = python_trace(text, lines)
    notes = (f"holds a Python traceback: {inside.first}",) if inside else ()
    looked = lines if len(lines) <= 2 * MOST_LINES else (*lines[:MOST_LINES], *lines[-MOST_LINES:])
    flagged = next((s for s in looked if (m := _LEVEL.search(s[:200])) and m["error"]), "")
    if flagged:
        notes = (*notes, f"first error: {flagged.strip()[:LINE_CHARACTERS]}")
    if len(lines) > 4:
        notes = (*notes, telling(lines[len(lines) // 2 :][:MOST_LINES]))
    shape = Shape(kind="text", what="text", first=first, last=last, notes=notes[:2])
    return shape if len(lines) > 1 else replace(shape, reads=('range="0-2000"', 'grep="…"'))


def _binary(data: bytes, media_type: str) -> Shape:
    found, name = sniff(data)
    if found == "application/octet-stream":
        named = next((n for prefix, n in _NAMED if media_type.startswith(prefix)), "")
        if named:
            return _media(data, media_type, named, number(len(data), "byte"))
    if found.startswith(("image/", "audio/", "video/")):
        return _media(data, found, name, number(len(data), "byte"))
    opening = data[:16].hex(" ")
    return Shape(
        kind="binary", what=name, counts=(number(len(data), "byte"),),
        first=f"begins with {opening}" if data else "", reads=('range="0-500"',),
    )  # fmt: skip


def _media(source: str | bytes, media_type: str, name: str, size: str) -> Shape:
    named = name or next((n for prefix, n in _NAMED if media_type.startswith(prefix)), "media")
    counts: list[str] = []
    if media_type.startswith("image/"):
        pixels = image_size(source)
        counts = [f"{pixels[0]:,} x {pixels[1]:,} pixels"] if pixels else ["size in pixels unknown"]
    elif seconds := recording_seconds(source):
        counts = [f"{seconds:,.1f} seconds"]
    return Shape(
        kind="image" if media_type.startswith("image/") else "media",
        what=named, counts=(*counts, size), first=media_type, reads=('range="0-500"',),
    )  # fmt: skip


def _line_count(text: str) -> int:
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _size(text: str) -> str:
    return number(len(text), "character")
