"""The first bytes of image and sound files, built by hand as their formats say."""

from __future__ import annotations

import struct
from collections.abc import Callable


def png(width: int, height: int) -> bytes:
    return (
        b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06" * 9
    )


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\xf7\x00\x00"


def bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<Iii", 40, width, -height) + bytes(20)


def old_bmp(width: int, height: int) -> bytes:
    return b"BM" + bytes(12) + struct.pack("<IHH", 12, width, height) + bytes(20)


def webp_lossy(width: int, height: int) -> bytes:
    frame = b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width | 0x4000, height | 0x8000)
    return b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00" + frame


def webp_lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14 | 1 << 28
    return b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + struct.pack("<I", bits)


def webp_extended(width: int, height: int) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00" + sides


def jpeg(width: int, height: int, *, before: int = 0, marker: int = 0xC0) -> bytes:
    """`before` bytes of application data (photos carry previews) stand before the size."""
    data = b"\xff\xd8"
    while before > 0:
        body = min(before, 60_000)
        data += b"\xff\xe1" + struct.pack(">H", body + 2) + b"\xff" * body
        before -= body
    data += b"\xff\xc4\x00\x04ab\xff"  # a table, then a fill byte
    return data + struct.pack(">BBHBHH", 0xFF, marker, 17, 8, height, width) + bytes(10)


def avif(width: int, height: int) -> bytes:
    small = struct.pack(">I4sIII", 20, b"ispe", 0, 1, 1)
    return (
        b"\x00\x00\x00\x1cftypavif" + bytes(30) + small
        + struct.pack(">I4sIII", 20, b"ispe", 0, width, height)
    )  # fmt: skip


def svg(width: int, height: int) -> bytes:
    return f'<?xml version="1.0"?><svg xmlns="x" width="{width}px" height="{height}">'.encode()


def svg_box(width: int, height: int) -> bytes:
    return f'<svg viewBox="0 0 {width} {height}"><path d="M0 0"/></svg>'.encode()


def wav(seconds: float, *, rate: int = 16_000, declared: int | None = None) -> bytes:
    body = int(seconds * rate) * 2
    length = body if declared is None else declared
    head = b"RIFF\x00\x00\x00\x00WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 1, 1, rate, rate * 2, 2, 16
    )
    return head + b"data" + struct.pack("<I", length) + bytes(body)


def flac(seconds: float, *, rate: int = 44_100) -> bytes:
    packed = rate << 44 | 1 << 41 | 15 << 36 | int(seconds * rate)
    return b"fLaC\x80\x00\x00\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16)


def mp3(seconds: float) -> bytes:
    tag = b"ID3\x04\x00\x00" + bytes((0, 0, 1, 0)) + bytes(128)  # 128 bytes, 7 bits a byte
    return tag + b"\xff\xfb\x90\x00" + bytes(int(seconds * 16_000) - 4)  # 128 kbit/s


def mp4(seconds: float) -> bytes:
    header = struct.pack(">I4sIIIII", 108, b"mvhd", 0, 0, 0, 1_000, int(seconds * 1_000))
    return b"\x00\x00\x00\x18ftypisom" + bytes(12) + header + bytes(80)


IMAGES: dict[str, Callable[[int, int], bytes]] = {
    "png": png,
    "gif": gif,
    "bmp": bmp,
    "old bmp": old_bmp,
    "webp lossy": webp_lossy,
    "webp lossless": webp_lossless,
    "webp extended": webp_extended,
    "jpeg": jpeg,
    "avif": avif,
    "svg": svg,
    "svg box": svg_box,
}
