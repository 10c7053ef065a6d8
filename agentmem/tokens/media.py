"""What media cost in tokens, by each provider's published arithmetic (sources in docs/tokens.md).

An estimate never raises: media that cannot be read are counted as a 1,024 x
1,024 image or a minute of sound, and the estimate carries a warning that says so.
"""

from __future__ import annotations

import binascii
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, cast, get_args

from agentmem.data import read_json
from agentmem.tokens.models import canonical, family_of, names_of

# ----------------------------------------------------------------------------
# The size of an image and the length of a recording, read from the first bytes of the file.
#
# Nothing is decoded: PNG, GIF, BMP, WebP, JPEG, AVIF, HEIC and SVG say their size
# near the front; WAV, FLAC, MP3 and MP4 say or imply their length. `None` means
# the bytes do not tell; no input raises.


_FIRST_BYTES = 4_096
_MOST_BYTES = 16 * 1_024 * 1_024
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/]+")
_URL_SAFE = str.maketrans("-_", "+/")
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})")

# Start-of-frame markers; C4, C8 and CC between them are tables.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Markers without a length: fill bytes, and those of restarts and the beginning.
_JPEG_ALONE = frozenset({0xFF, 0x01, *range(0xD0, 0xD9)})
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
            return _pair(">II", data, 16)
        if data[:4] == b"GIF8":
            return _pair("<HH", data, 6)
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


def _pair(form: str, data: bytes, at: int) -> tuple[int, int]:
    one, other = struct.unpack_from(form, data, at)
    return one, other


def _bmp_size(data: bytes) -> tuple[int, int]:
    is_old = int.from_bytes(data[14:18], "little") == 12
    width, height = _pair("<HH" if is_old else "<ii", data, 18)
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
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _JPEG_ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in (0xD9, 0xDA):
            return None
        (length,) = struct.unpack(">H", data[at + 2 : at + 4])
        if marker in _JPEG_FRAMES:
            return _pair(">HH", data, at + 5)[::-1]
        at += 2 + max(length, 2)
    return None


def _heif_size(data: bytes) -> tuple[int, int] | None:
    places = (match.start() + 8 for match in re.finditer(b"ispe", data))
    sizes = [_pair(">II", data, at) for at in places if at + 8 <= len(data)]
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


MediaKind = Literal["image", "audio", "video", "document"]
Detail = Literal["low", "high", "auto", "original"]

DEFAULT_SIDE_PIXELS = 1_024
DEFAULT_SECONDS = 60.0
LARGEST_SIDE_PIXELS = 65_535
LONGEST_SECONDS = 7 * 24 * 3_600.0
PAGE_TOKENS = 3_000
GEMINI_PAGE_TOKENS = 258
GEMINI_3_PAGE_TOKENS = 560

_DETAILS = get_args(Detail)
_PAGE = re.compile(rb"/Type\s*/Page\b")
_GEMINI_3 = re.compile(r"^gemini[3-9]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """One piece of media in a message: where its bytes are and what is said about it."""

    kind: MediaKind
    source: str | bytes = ""
    detail: Detail = "auto"
    width: object = None
    height: object = None
    seconds: object = None
    text: str | None = None
    titles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaEstimate:
    """The tokens of a piece of media; `warning` says what could not be read."""

    tokens: int
    warning: str | None = None


def media_of(part: Mapping[str, Any]) -> Media | None:
    """The media in a content part of OpenAI's or Anthropic's form; `None` for other parts."""
    kind = part.get("type")
    if kind in ("file", "input_file", "document"):
        return _document(part)
    for sort in ("image", "audio", "video"):
        keys = (f"{sort}_url", f"input_{sort}", sort)
        if kind in keys:
            return _media(sort, part, (*keys, "source"))
    return None


def estimate_media(media: Media, model: str) -> MediaEstimate:
    """What `media` cost with `model`.

    An image by its size, a recording that the model hears by its length, a video
    at one frame a second, a PDF by its pages where they stand in the open. A link
    is not followed: without a size it is counted by default, without a warning.
    `detail="auto"` is counted as the most a provider may make of it.
    """
    family, is_gemini_3 = family_of(model), _GEMINI_3.search(canonical(model))
    if media.kind == "image":
        size, warning = _size(media.width, media.height, media.source)
        tokens = image_tokens(model, *size, detail=media.detail)
        return MediaEstimate(tokens=tokens, warning=warning)
    if media.kind == "document":
        gemini_tokens = GEMINI_3_PAGE_TOKENS if is_gemini_3 else GEMINI_PAGE_TOKENS
        page_tokens = gemini_tokens if family == "gemini" else PAGE_TOKENS
        pages, warning = _pages(media.source)
        return MediaEstimate(tokens=page_tokens * pages, warning=warning)
    length, warning = _seconds(media.seconds, media.source)
    if media.kind == "audio":
        per_second = {"openai": 10, "qwen": 25}.get(family, 32)
    else:
        per_second = 70 if is_gemini_3 else 263
    return MediaEstimate(tokens=math.ceil(length * per_second - 1e-6), warning=warning)


def _pages(data: str | bytes) -> tuple[int, str | None]:
    if not data or is_link(data):
        return 1, None
    *_, whole = openings(data)
    if whole[:5] != b"%PDF-":
        return 1, "The document is not a PDF; it was counted as one page."
    return max(1, len(_PAGE.findall(whole))), None


def is_link(source: str | bytes) -> bool:
    """Whether `source` only says where the bytes are."""
    if not isinstance(source, str):
        return False
    scheme = source[:32].partition("://")[1]
    return bool(scheme) or source[:5].lower() == "file-"


def _size(width: object, height: object, data: str | bytes) -> tuple[tuple[int, int], str | None]:
    default = (DEFAULT_SIDE_PIXELS, DEFAULT_SIDE_PIXELS)
    counted = f"it was counted as {DEFAULT_SIDE_PIXELS:,} x {DEFAULT_SIDE_PIXELS:,}."
    if width is None and height is None:
        if is_link(data):
            return default, None
        if not data:
            return default, f"An image has neither size nor data; {counted}"
        found = image_size(data)
        if found is None:
            return default, f"The image data could not be read; {counted}"
        width, height = found
        problem = f"The image says it is {width} x {height} pixels"
    else:
        problem = f"An image cannot be {_shown(width)} x {_shown(height)} pixels"
    across, down = _side(width), _side(height)
    return ((across, down), None) if across and down else (default, f"{problem}; {counted}")


def _side(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return min(math.ceil(value), LARGEST_SIDE_PIXELS) if value > 0 else None


def _seconds(seconds: object, data: str | bytes) -> tuple[float, str | None]:
    counted = f"it was counted as {DEFAULT_SECONDS:g} seconds."
    if seconds is None:
        if is_link(data):
            return DEFAULT_SECONDS, None
        if not data:
            return DEFAULT_SECONDS, f"A recording has neither length nor data; {counted}"
        seconds = recording_seconds(data)
        if seconds is None:
            return DEFAULT_SECONDS, f"The recording's length could not be read; {counted}"
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0 <= cast(float, seconds) < math.inf:
        return DEFAULT_SECONDS, f"A recording cannot be {_shown(seconds)} seconds long; {counted}"
    return min(float(min(cast(float, seconds), LONGEST_SECONDS)), LONGEST_SECONDS), None


def _shown(value: object) -> str:
    return ascii(value)[:40]


def _media(kind: MediaKind, part: Mapping[str, Any], keys: tuple[str, ...]) -> Media:
    held = next((part[key] for key in keys if part.get(key) is not None), None)
    inner: Mapping[str, Any] = held if isinstance(held, Mapping) else {}
    source = held if isinstance(held, str | bytes) else _first(inner, "url", "data", "file_id")
    if not isinstance(source, str | bytes):
        file_id = part.get("file_id")
        source = f"file-{file_id}" if isinstance(file_id, str) else ""
    detail = inner.get("detail", part.get("detail", "auto"))
    return Media(
        kind=kind,
        source=source,
        detail=detail if detail in _DETAILS else "auto",
        width=_first(inner, "width") or _first(part, "width"),
        height=_first(inner, "height") or _first(part, "height"),
        seconds=_first(inner, "seconds", "duration") or _first(part, "seconds", "duration"),
    )


def _document(part: Mapping[str, Any]) -> Media:
    held = next((part[k] for k in ("file", "source") if isinstance(part.get(k), Mapping)), part)
    source = _first(held, "file_data", "data", "url", "file_url")
    file_id = _first(held, "file_id")
    titles = [_first(held, "filename"), part.get("title"), part.get("context")]
    is_text = held.get("type") == "text" or held.get("media_type") == "text/plain"
    if not isinstance(source, str | bytes):
        source = f"file-{file_id}" if isinstance(file_id, str) else ""
    return Media(
        kind="document",
        source=source,
        text=source if is_text and isinstance(source, str) else None,
        titles=tuple(title for title in titles if isinstance(title, str)),
    )


def _first(held: Mapping[str, Any], *keys: str) -> Any:
    return next((held[key] for key in keys if held.get(key) is not None), None)


# ----------------------------------------------------------------------------
# How each provider turns an image's width and height into tokens.
#
# All arithmetic is on whole numbers, and every rule resizes first, so no size is
# too large for it. Sources stand in docs/tokens.md.
# `data/image_rules.json` says which rule a model has, by the first pattern that its name matches.


def image_tokens(model: str, width: int, height: int, *, detail: str) -> int:
    """The tokens of an image of `width` x `height` pixels, both at least 1, with `model`."""
    name, written = canonical(model), names_of(model)[0]
    for pattern, rule, figures in _rules():
        if pattern.search(written if "llava" in pattern.pattern else name):
            return rule(width, height, detail, **figures)
    return _area(width, height, detail)


def _tiles(
    width: int, height: int, detail: str, *, base: int, tile: int, short_side: int = 768
) -> int:
    """OpenAI's older models: fit 2,048 px, shorten the short side, count 512 px tiles."""
    if detail == "low":
        return base
    width, height = _fit(width, height, longest=2_048)
    short = min(width, height)
    if short > short_side:
        width, height = (_scale(side, short_side, short) for side in (width, height))
    return base + tile * _cells(width, height, 512)


def _patches(
    width: int,
    height: int,
    detail: str,
    *,
    percent: int,
    budget: int = 1_536,
    longest: int = 2_048,
    original: tuple[int, int] | None = None,
) -> int:
    """OpenAI's newer models: 32 px patches up to a budget, times a multiplier.

    `original` are the budget and the longest side of an image that is not made smaller first.
    """
    if detail == "low":
        budget, longest = 256, 512
    elif detail in ("auto", "original") and original:
        budget, longest = original
    width, height = _fit(width, height, longest=longest)
    patches = _cells(width, height, 32)
    if patches > budget:
        shrink = math.sqrt(32 * 32 * budget / (width * height))
        across, down = width * shrink / 32, height * shrink / 32
        shrink *= min(math.floor(across) / across, math.floor(down) / down) or 1
        patches = _cells(max(1, int(width * shrink)), max(1, int(height * shrink)), 32)
    return -(-min(patches, budget) * percent // 100)


def _claude(width: int, height: int, detail: str, *, longest: int, most: int) -> int:
    """Anthropic: the largest size within both limits, then one token a 28 px patch."""
    long, short = max(width, height), min(width, height)
    low, high = 1, min(long, longest)
    while low < high:  # the largest long side whose patches are within the limit
        middle = (low + high + 1) // 2
        if _cells(middle, _scale(short, middle, long), 28) <= most:
            low = middle
        else:
            high = middle - 1
    return _cells(low, _scale(short, low, long), 28)


def _gemini(width: int, height: int, detail: str) -> int:
    """Gemini up to 2.5: 258 tokens for a small image, or for each 768 px tile within 3,072 px."""
    if width <= 384 and height <= 384:
        return 258
    return 258 * _cells(*_fit(width, height, longest=3_072), 768)


def _fixed(width: int, height: int, detail: str, *, high: int, low: int) -> int:
    """So many tokens whatever the size, fewer at low detail."""
    return low if detail == "low" else high


def _qwen(width: int, height: int, detail: str, *, patch: int) -> int:
    """Qwen-VL: sides rounded to the patch, 4 to 16,384 patches, and two marks around them."""
    fewest, most = 4, 16_384
    across, down = _scale(width, 1, patch), _scale(height, 1, patch)
    if across * down > most:
        shrink = math.sqrt(width * height / (most * patch**2))
        across = max(1, math.floor(width / shrink / patch))
        down = max(1, math.floor(height / shrink / patch))
    elif across * down < fewest:
        grow = math.sqrt(fewest * patch**2 / (width * height))
        across = math.ceil(width * grow / patch)
        down = math.ceil(height * grow / patch)
    return min(across * down, most) + 2


def _llava(width: int, height: int, detail: str) -> int:
    """LLaVA 1.6: a 336 px overview and the grid of 336 px tiles that keeps most of the image."""

    def kept(grid: tuple[int, int]) -> tuple[int, int]:
        columns, rows = grid[0] * 336, grid[1] * 336
        scale = min(columns / width, rows / height)
        used = min(int(width * scale) * int(height * scale), width * height)
        return used, used - columns * rows

    columns, rows = max(((1, 2), (2, 1), (2, 2), (1, 3), (3, 1)), key=kept)
    return 576 + 576 * columns * rows + 24 * rows


def _pixtral(width: int, height: int, detail: str) -> int:
    """Pixtral: fit 1,024 px, one token a 16 px patch, one more at the end of each row."""
    width, height = _fit(width, height, longest=1_024)
    rows = -(-height // 16)
    return rows * -(-width // 16) + rows


def _large_tiles(
    width: int, height: int, detail: str, *, side: int, tile: int, most: int, overview: int = 0
) -> int:
    """Llama 3.2 Vision and Grok: few large tiles at a fixed price each."""
    return overview + tile * min(most, _cells(width, height, side))


def _area(width: int, height: int, detail: str) -> int:
    """Anybody else: width times height through 750, sides cut at 10,000 pixels."""
    return -(-min(width, 10_000) * min(height, 10_000) // 750)


@cache
def _rules() -> tuple[tuple[re.Pattern[str], Callable[..., int], Mapping[str, Any]], ...]:
    rules: dict[str, Callable[..., int]] = {
        "tiles": _tiles, "patches": _patches, "claude": _claude, "gemini": _gemini,
        "fixed": _fixed, "qwen": _qwen, "llava": _llava, "pixtral": _pixtral,
        "large tiles": _large_tiles,
    }  # fmt: skip
    return tuple(
        (re.compile(pattern), rules[rule], figures)
        for pattern, rule, figures in read_json("image_rules.json")["rules"]
    )


def _cells(width: int, height: int, side: int) -> int:
    return -(-width // side) * -(-height // side)


def _scale(value: int, numerator: int, denominator: int) -> int:
    """`value` times a fraction, rounded half up, at least 1."""
    return max(1, (2 * value * numerator + denominator) // (2 * denominator))


def _fit(width: int, height: int, *, longest: int) -> tuple[int, int]:
    long = max(width, height)
    if long <= longest:
        return width, height
    return _scale(width, longest, long), _scale(height, longest, long)
