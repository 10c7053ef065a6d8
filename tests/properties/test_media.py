"""What counting media promises, for any bytes and any size."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from agentmem.tokens.media import (
    Detail,
    Media,
    MediaEstimate,
    estimate_media,
    image_size,
    media_of,
    recording_seconds,
)
from tests.image_files import IMAGES, flac, jpeg, mp3, mp4, wav
from tests.properties.strategies import texts

MODELS = (
    "gpt-4o", "gpt-4o-mini", "gpt-4.1-mini", "gpt-5", "gpt-5-nano", "gpt-5.2", "gpt-5.5", "gpt-6",
    "o1", "o3", "o4-mini", "computer-use-preview", "claude-3-5-sonnet", "claude-opus-4-7",
    "gemini-2.0-flash", "gemini-3-pro", "qwen2.5-vl-7b", "qwen3-vl", "llava", "llava-1.6",
    "pixtral-12b", "llama-3.2-11b-vision", "grok-2-vision", "nobody-knows",
)  # fmt: skip
DETAILS = st.sampled_from(("low", "high", "auto", "original", "", "absurd"))
NUMBERS = st.floats() | st.integers() | st.integers(1, 20_000) | st.none() | st.booleans()
LARGEST_TOKENS = 140_000


def plausible(estimate: MediaEstimate) -> bool:
    return isinstance(estimate.tokens, int) and 0 < estimate.tokens <= LARGEST_TOKENS


@given(model=st.sampled_from(MODELS), width=NUMBERS, height=NUMBERS, detail=DETAILS)
@example(model="qwen2.5-vl-7b", width=10**9, height=1, detail="auto")
@example(model="nobody-knows", width=10**9, height=10**9, detail="auto")
@example(model="gpt-6", width=10**30, height=10**30, detail="auto")
def test_every_size_has_a_price(model: str, width: Any, height: Any, detail: Detail) -> None:
    """T10 Image sizes. Every size has a bounded price; one that cannot be gives a warning instead."""
    estimate = estimate_media(Media(kind="image", width=width, height=height, detail=detail), model)
    assert plausible(estimate)
    sides = [s for s in (width, height) if not isinstance(s, bool) and isinstance(s, int | float)]
    possible = len(sides) == 2 and all(0 < side < float("inf") for side in sides)
    assert (estimate.warning is None) == possible
    if not possible:
        default = estimate_media(
            Media(kind="image", width=1_024, height=1_024, detail=detail), model
        )
        assert estimate.tokens == default.tokens


@given(
    model=st.sampled_from(MODELS),
    kind=st.sampled_from(sorted(IMAGES)),
    cut=st.integers(0, 80),
    noise=st.binary(max_size=300),
    as_text=st.booleans(),
)
def test_broken_media_never_raise(
    model: str, kind: str, cut: int, noise: bytes, as_text: bool
) -> None:
    """T11 Broken media. No bytes raise: they are read, or counted by default with a warning."""
    raw = IMAGES[kind](640, 480)[:cut] + noise
    data = base64.b64encode(raw).decode() if as_text else raw
    estimate = estimate_media(Media(kind="image", source=data), model)
    assert plausible(estimate)
    if image_size(data) is None:
        assert estimate.warning is not None
    for sound in (
        estimate_media(Media(kind="audio", source=data), model),
        estimate_media(Media(kind="video", source=data), model),
    ):
        assert sound.tokens >= 0
        assert sound.warning is None or sound.tokens > 0
    assert estimate_media(Media(kind="document", source=data), model).tokens > 0


@given(text=texts())
def test_no_text_in_place_of_media_raises(text: str) -> None:
    """T12 Odd sources. Any text where data or a link should be is counted, never an error."""
    for part in (
        {"type": "image_url", "image_url": {"url": text, "detail": text}},
        {"type": "image", "source": {"type": "base64", "data": text}},
        {"type": "input_audio", "input_audio": {"data": text, "format": text}},
        {"type": "video_url", "video_url": text},
        {"type": "file", "file": {"file_data": text}},
    ):
        media = media_of(part)
        assert media is not None
        assert estimate_media(media, "gpt-4o").tokens >= 0


@given(
    kind=st.sampled_from(sorted(IMAGES)),
    width=st.integers(1, 16_383),
    height=st.integers(1, 16_383),
    tail=st.binary(max_size=50),
)
def test_sizes_are_read_from_the_first_bytes(
    kind: str, width: int, height: int, tail: bytes
) -> None:
    """T13 Image headers. Bytes, base64 and data URLs of a format give the size that was written."""
    data = IMAGES[kind](width, height) + tail
    text = base64.b64encode(data).decode()
    wrapped = "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
    safe = base64.urlsafe_b64encode(data).decode().rstrip("=")
    for source in (data, text, wrapped, safe, f"data:image/x;base64,{text}"):
        assert image_size(source) == (width, height)


@given(
    before=st.integers(0, 200_000),
    marker=st.sampled_from((0xC0, 0xC1, 0xC2, 0xC9, 0xCF)),
    width=st.integers(1, 65_535),
)
def test_a_photo_may_carry_much_before_its_size(before: int, marker: int, width: int) -> None:
    """T14 Photos. A JPEG's size is found behind previews and profiles of any length."""
    data = jpeg(width, 1_000, before=before, marker=marker)
    assert image_size(base64.b64encode(data).decode()) == (width, 1_000)


@given(seconds=st.floats(0.1, 40))
def test_lengths_are_read_from_recordings(seconds: float) -> None:
    """T15 Recordings. WAV, FLAC, MP3 and MP4 give their length, as bytes and as base64."""
    for build, error in ((wav, 0.001), (flac, 0.001), (mp3, 0.01), (mp4, 0.002)):
        data = build(seconds)
        for source in (data, base64.b64encode(data).decode()):
            found = recording_seconds(source)
            assert found is not None
            assert abs(found - seconds) <= error + 0.001
