"""What media cost in tokens, by each provider's published arithmetic (sources in docs/tokens.md).

An estimate never raises: media that cannot be read are counted as a 1,024 x
1,024 image or a minute of sound, and the estimate carries a warning that says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

from agentmem.core.media_headers import image_size, openings, recording_seconds
from agentmem.core.models import canonical, family_of
from agentmem.core.values import dataclass

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
    if kind in ("image_url", "input_image", "image"):
        return _media("image", part, ("image_url", "source", "image"))
    if kind in ("input_audio", "audio_url", "audio"):
        return _media("audio", part, ("input_audio", "audio_url", "source", "audio"))
    if kind in ("video_url", "input_video", "video"):
        return _media("video", part, ("video_url", "input_video", "source", "video"))
    if kind in ("file", "input_file", "document"):
        return _document(part)
    return None


def estimate_media(media: Media, model: str) -> MediaEstimate:
    """What `media` cost with `model`."""
    if media.kind == "image":
        return estimate_image(
            model,
            width=media.width,
            height=media.height,
            data=media.source,
            detail=media.detail,
        )
    if media.kind == "audio":
        return estimate_audio(model, seconds=media.seconds, data=media.source)
    if media.kind == "video":
        return estimate_video(model, seconds=media.seconds, data=media.source)
    return estimate_document(model, data=media.source)


def estimate_image(
    model: str,
    *,
    width: object = None,
    height: object = None,
    data: str | bytes = "",
    detail: str = "auto",
) -> MediaEstimate:
    """The tokens of an image, from its size, else from its bytes, else by default.

    `data` is the file, a data URL or base64. A link is not followed: without a
    size it is counted as 1,024 x 1,024, without a warning. `detail="auto"` is
    counted as the most a provider may make of it.
    """
    from agentmem.core.image_rules import rule_for

    size, warning = _size(width, height, data)
    chosen = detail if detail in _DETAILS else "auto"
    return MediaEstimate(tokens=rule_for(model).tokens(*size, detail=chosen), warning=warning)


def estimate_audio(
    model: str, *, seconds: object = None, data: str | bytes = "", spoken_by: str = "user"
) -> MediaEstimate:
    """The tokens of a recording that the model hears, or of one it spoke (`"assistant"`)."""
    length, warning = _seconds(seconds, data)
    family = family_of(model)
    if family == "openai":
        per_second = 20 if spoken_by == "assistant" else 10
    else:
        per_second = 25 if family == "qwen" else 32
    return MediaEstimate(tokens=_up(length * per_second), warning=warning)


def estimate_video(
    model: str, *, seconds: object = None, data: str | bytes = "", with_sound: bool = False
) -> MediaEstimate:
    """The tokens of a video at one frame a second; `with_sound` adds its sound track."""
    length, warning = _seconds(seconds, data)
    per_second = 70 if _GEMINI_3.search(canonical(model)) else 263
    if with_sound:
        per_second += 32
    return MediaEstimate(tokens=_up(length * per_second), warning=warning)


def estimate_document(model: str, *, data: str | bytes = "") -> MediaEstimate:
    """The tokens of a PDF by its number of pages, where that stands in the open."""
    page_tokens = PAGE_TOKENS
    if family_of(model) == "gemini":
        is_3 = _GEMINI_3.search(canonical(model))
        page_tokens = GEMINI_3_PAGE_TOKENS if is_3 else GEMINI_PAGE_TOKENS
    if not data or is_link(data):
        return MediaEstimate(tokens=page_tokens)
    whole = b""
    for opening in openings(data):
        whole = opening
    if whole[:5] != b"%PDF-":
        return MediaEstimate(
            tokens=page_tokens, warning="The document is not a PDF; it was counted as one page."
        )
    return MediaEstimate(tokens=page_tokens * max(1, len(_PAGE.findall(whole))))


def is_link(source: str | bytes) -> bool:
    """Whether `source` only says where the bytes are."""
    if not isinstance(source, str):
        return False
    scheme = source[:32].partition("://")[1]
    return bool(scheme) or source[:5].lower() == "file-"


def _size(width: object, height: object, data: str | bytes) -> tuple[tuple[int, int], str | None]:
    default = (DEFAULT_SIDE_PIXELS, DEFAULT_SIDE_PIXELS)
    counted = f"it was counted as {DEFAULT_SIDE_PIXELS:,} x {DEFAULT_SIDE_PIXELS:,}."
    if width is not None or height is not None:
        sides = _side(width), _side(height)
        if sides[0] and sides[1]:
            return (sides[0], sides[1]), None
        return default, f"An image cannot be {_shown(width)} x {_shown(height)} pixels; {counted}"
    if is_link(data):
        return default, None
    if not data:
        return default, f"An image has neither size nor data; {counted}"
    found = image_size(data)
    if found is None:
        return default, f"The image data could not be read; {counted}"
    sides = _side(found[0]), _side(found[1])
    if not (sides[0] and sides[1]):
        return default, f"The image says it is {found[0]} x {found[1]} pixels; {counted}"
    return (sides[0], sides[1]), None


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


def _up(tokens: float) -> int:
    return math.ceil(tokens - 1e-6)


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
