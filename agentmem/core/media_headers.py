"""The size of an image and the length of a recording, read from the first bytes of the file.

Nothing is decoded: PNG, GIF, BMP, WebP, JPEG, AVIF, HEIC and SVG say their size
near the front; WAV, FLAC, MP3 and MP4 say or imply their length. `None` means
the bytes do not tell; no input raises.
"""

from __future__ import annotations

import binascii
import re
import struct
from collections.abc import Iterator

_FIRST_BYTES = 4_096
_MOST_BYTES = 16 * 1_024 * 1_024
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_URL_SAFE = str.maketrans("-_", "+/")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")

# Start-of-frame markers; C4, C8 and CC between them are tables.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MP3_KBIT = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_SVG = re.compile(rb"<svg\b[^>]*>", re.IGNORECASE)
_SVG_SIDE = re.compile(rb"\b(width|height)\s*=\s*[\"']\s*([0-9]{1,9})(?:\.[0-9]*)?(?:px)?\s*[\"']")
_SVG_BOX = re.compile(
    rb"viewBox\s*=\s*[\"']\s*[-0-9.]{1,20}[\s,]+[-0-9.]{1,20}[\s,]+([0-9]{1,9})[0-9.]*[\s,]+([0-9]{1,9})"
)


def openings(source: str | bytes) -> Iterator[bytes]:
    """The beginning of the file, each time longer, until it is all there or 16 MB.

    `source` is the file's bytes, a data URL, or bare base64. A link to
    somewhere else has no bytes here and gives nothing.
    """
    size = _FIRST_BYTES
    while True:
        data, whole = _opening(source, size)
        yield data
        if whole or size >= _MOST_BYTES:
            return
        size *= 16


def _opening(source: str | bytes, size: int) -> tuple[bytes, bool]:
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source[:size]), len(source) <= size
    head, comma, _ = source[:1_024].partition(",")
    if head[:5].lower() == "data:" and comma:
        start = len(head) + 1
        if not head.lower().endswith(";base64"):
            text = source[start : start + size].encode("utf-8", "replace")
            return _PERCENT.sub(lambda m: bytes([int(m[1], 16)]), text), True
    else:
        start = 0
    length = size * 4 // 3
    piece = source[start : start + length]
    whole = len(source) <= start + length
    return _decode(piece), whole


def _decode(text: str) -> bytes:
    clean = _NOT_BASE64.sub("", text.translate(_URL_SAFE))
    rest = len(clean) % 4
    clean = clean[:-1] if rest == 1 else clean + "=" * (-rest % 4)
    return binascii.a2b_base64(clean)


def image_size(source: str | bytes) -> tuple[int, int] | None:
    """Width and height in pixels, or `None` when the bytes do not tell."""
    for data in openings(source):
        size = _image_size(data)
        if size is not None:
            return size
        if data[:2] != b"\xff\xd8" and len(data) > _FIRST_BYTES:
            return None  # only a JPEG may carry much before its size
    return None


def _image_size(data: bytes) -> tuple[int, int] | None:
    try:
        if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR":
            width, height = struct.unpack(">II", data[16:24])
            return width, height
        if data[:4] == b"GIF8":
            width, height = struct.unpack("<HH", data[6:10])
            return width, height
        if data[:2] == b"BM":
            return _bmp_size(data)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            return _webp_size(data)
        if data[:2] == b"\xff\xd8":
            return _jpeg_size(data)
        if data[4:8] == b"ftyp":
            return _heif_size(data)
        return _svg_size(data)
    except (struct.error, IndexError):
        return None


def _bmp_size(data: bytes) -> tuple[int, int]:
    (header,) = struct.unpack("<I", data[14:18])
    if header == 12:
        width, height = struct.unpack("<HH", data[18:22])
        return width, height
    width, height = struct.unpack("<ii", data[18:26])
    return abs(width), abs(height)  # a negative height means top-down rows


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return (width, height) if len(data) >= 30 else None
    if kind == b"VP8L" and data[20] == 0x2F:
        (bits,) = struct.unpack("<I", data[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill bytes
            at += 1
            continue
        if marker == 0x01 or 0xD0 <= marker <= 0xD8:
            at += 2
            continue
        if marker in (0xD9, 0xDA):
            return None
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        at += 2 + max(length, 2)
    return None


def _heif_size(data: bytes) -> tuple[int, int] | None:
    sizes: list[tuple[int, int]] = []
    at = data.find(b"ispe")
    while at >= 0 and at + 16 <= len(data):
        width, height = struct.unpack(">II", data[at + 8 : at + 16])
        sizes.append((width, height))
        at = data.find(b"ispe", at + 4)
    return max(sizes, key=lambda s: s[0] * s[1], default=None)


def _svg_size(data: bytes) -> tuple[int, int] | None:
    tag = _SVG.search(data[:_FIRST_BYTES])
    if tag is None:
        return None
    sides = {name.lower(): int(value) for name, value in _SVG_SIDE.findall(tag[0])}
    if len(sides) == 2:
        return sides[b"width"], sides[b"height"]
    box = _SVG_BOX.search(tag[0])
    return (int(box[1]), int(box[2])) if box else None


def recording_seconds(source: str | bytes) -> float | None:
    """How long a recording is, or `None` when the bytes do not tell."""
    data = next(openings(source), b"")
    length = _source_bytes(source)
    try:
        if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
            return _wav_seconds(data, length)
        if data[:4] == b"fLaC":
            packed = int.from_bytes(data[18:26], "big")
            rate, samples = packed >> 44, packed & (1 << 36) - 1
            return samples / rate if rate and samples else None
        if data[:3] == b"ID3" or data[:1] == b"\xff":
            return _mp3_seconds(data, length)
        if data[4:8] == b"ftyp":
            return _mp4_seconds(source)
    except (struct.error, IndexError, ZeroDivisionError):
        return None
    return None


def _source_bytes(source: str | bytes) -> int:
    if not isinstance(source, str):
        return len(source)
    return (len(source) - source.find(",", 0, 1_024) - 1) * 3 // 4


def _wav_seconds(data: bytes, length: int) -> float | None:
    byte_rate = int.from_bytes(data[28:32], "little")
    at = data.find(b"data", 12)
    if at < 0:
        return length / byte_rate
    declared = int.from_bytes(data[at + 4 : at + 8], "little")
    # Streams are written with a length of 0 or 2^32 - 1.
    body = max(0, length - at - 8)
    return (min(declared, body) if 0 < declared < 0xFFFFFFFF else body) / byte_rate


def _mp3_seconds(data: bytes, length: int) -> float | None:
    at = 0
    if data[:3] == b"ID3":
        size = 0
        for byte in data[6:10]:
            size = size << 7 | byte & 0x7F
        at = size + 10
    frame = data[at : at + 4]
    if len(frame) < 4 or frame[0] != 0xFF or frame[1] & 0xE6 != 0xE2:
        return None
    index = frame[2] >> 4
    is_version_1 = frame[1] & 0x18 == 0x18
    kbit = _MP3_KBIT[index] if is_version_1 else _MP3_KBIT[index] / 2
    return (length - at) / (kbit * 125)


def _mp4_seconds(source: str | bytes) -> float | None:
    for data in openings(source):
        at = data.find(b"mvhd")
        if at >= 0 and at + 36 <= len(data):
            if data[at + 4] == 1:
                scale, ticks = struct.unpack(">IQ", data[at + 24 : at + 36])
            else:
                scale, ticks = struct.unpack(">II", data[at + 16 : at + 24])
            return float(ticks / scale) if ticks else None
    return None
