"""Published examples of what images cost, and the forms media come in."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agentmem.base.errors import MediaWarning
from agentmem.tokens.counter import Tokenizer
from agentmem.tokens.media import (
    Detail,
    Media,
    estimate_media,
    image_size,
    media_of,
    recording_seconds,
)
from tests.image_files import png, wav

PIXEL = base64.b64encode(png(1_024, 1_024)).decode()


@pytest.mark.parametrize(
    ("model", "width", "height", "detail", "tokens"),
    [
        # OpenAI's examples for tiles, and what it billed at the edge of rounding
        ("gpt-4o", 1_024, 1_024, "high", 765),
        ("gpt-4o", 2_048, 4_096, "high", 1_105),
        ("gpt-4o", 4_096, 8_192, "low", 85),
        ("gpt-4o", 512, 512, "auto", 255),
        ("gpt-4.1", 2_049, 513, "high", 1_445),
        ("gpt-4.1", 2_050, 513, "high", 765),
        ("gpt-4o-mini", 1_024, 1_024, "high", 25_501),
        ("gpt-4o-mini", 1_024, 1_024, "low", 2_833),
        ("gpt-5", 1_024, 1_024, "high", 630),
        ("azure/o1", 1_024, 1_024, "high", 675),
        ("o3-2025-04-16", 1_024, 1_024, "low", 75),
        ("computer-use-preview", 1_024, 1_024, "high", 581),
        ("gpt-4.5-preview", 1_024, 1_024, "high", 765),
        # OpenAI's examples for patches: 1,024 and 1,452 before the multiplier
        ("gpt-4.1-mini", 1_024, 1_024, "high", 1_659),
        ("gpt-4.1-mini-2025-04-14", 1_800, 2_400, "high", 2_353),
        ("gpt-4.1-nano", 1_024, 1_024, "high", 2_520),
        ("o4-mini", 1_800, 2_400, "auto", 2_498),
        ("gpt-5-mini", 4_000, 1_474, "high", 2_489),
        ("gpt-5-nano", 2_048, 2_048, "low", 630),
        ("gpt-5.5", 3_840, 2_160, "auto", 9_792),
        ("gpt-6", 4_032, 3_024, "auto", 14_364),
        ("gpt-6", 2_560, 1_440, "high", 2_931),
        # Anthropic's examples
        ("claude-sonnet-4-5", 1_075, 1_520, "auto", 1_551),
        ("claude-3-5-sonnet", 3_840, 2_160, "auto", 1_560),
        ("claude-opus-4-7", 3_840, 2_160, "auto", 4_784),
        ("claude-opus-4-7", 4_032, 3_024, "auto", 4_740),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", 200, 200, "auto", 64),
        # Google's
        ("gemini-2.0-flash", 384, 384, "auto", 258),
        ("gemini-2.5-pro", 1_000, 700, "auto", 516),
        ("gemini/gemini-1.5-pro", 3_000, 2_000, "auto", 3_096),
        ("gemini-3-pro-preview", 3_000, 2_000, "auto", 1_120),
        # Qwen's, with two marks around the image
        ("qwen2.5-vl-72b-instruct", 224, 448, "auto", 130),
        ("Qwen/Qwen2-VL-7B-Instruct", 1_024, 1_024, "auto", 1_371),
        # LLaVA
        ("ollama/llava", 800, 600, "auto", 576),
        ("llava-hf/llava-v1.6-mistral-7b-hf", 672, 672, "auto", 2_928),
        # nobody's
        ("my-local-model", 1_000, 750, "auto", 1_000),
        ("my-local-model", 1, 1, "auto", 1),
    ],
)
def test_published_examples(
    model: str, width: int, height: int, detail: Detail, tokens: int
) -> None:
    estimate = estimate_media(Media(kind="image", width=width, height=height, detail=detail), model)
    assert (estimate.tokens, estimate.warning) == (tokens, None)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "high"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
        },
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "input_image", "file_id": "file-123"},
        {"type": "image", "image": {"width": 1_024, "height": 1_024}},
    ],
)
def test_every_form_of_an_image_counts_the_same(part: dict[str, Any]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": "Look:"}, part]}
    plain = {"role": "user", "content": "Look:"}
    tokenizer = Tokenizer("gpt-4o")
    assert tokenizer.count_message(message) - tokenizer.count_message(plain) == 765


def test_low_detail_is_read_from_the_part() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://x.org/a.png", "detail": "low"}}
    media = media_of(part)
    assert media is not None
    assert estimate_media(media, "gpt-4o").tokens == 85


@pytest.mark.parametrize("data", ["", "%%%", "aGVsbG8=", "data:image/png;base64,iVBORw0KGgo="])
def test_broken_images_warn_and_count_the_default(data: str) -> None:
    message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data}}]}
    with pytest.warns(MediaWarning, match="counted as 1,024 x 1,024"):
        assert Tokenizer("gpt-4o").count_message(message) == 765 + 4


def test_an_image_that_says_it_has_no_pixels_warns() -> None:
    assert estimate_media(Media(kind="image", source=png(0, 5)), "gpt-4o").warning is not None
    assert (
        estimate_media(Media(kind="image", source=png(4_000_000_000, 5)), "gpt-4o").warning is None
    )


@pytest.mark.parametrize("side", [0, -1, float("nan"), float("inf"), "12", True])
def test_impossible_sizes_warn(side: object) -> None:
    estimate = estimate_media(Media(kind="image", width=side, height=100), "claude-3-5-sonnet")
    assert estimate.warning is not None
    assert estimate.tokens == 1_369


def test_svg_in_a_plain_data_url() -> None:
    svg = "data:image/svg+xml,%3Csvg%20width='300'%20height='150'%3E%3C/svg%3E"
    assert image_size(svg) == (300, 150)


def test_sound_costs_by_the_second() -> None:
    assert estimate_media(Media(kind="audio", seconds=60), "gpt-4o-audio-preview").tokens == 600
    assert estimate_media(Media(kind="audio", seconds=60), "gemini-2.5-flash").tokens == 1_920
    assert estimate_media(Media(kind="audio", seconds=4), "qwen2-audio").tokens == 100
    assert estimate_media(Media(kind="audio", source=wav(2.5)), "gemini-2.5-flash").tokens == 80
    assert estimate_media(Media(kind="audio", seconds=float("nan")), "gpt-4o").warning is not None


def test_video_costs_by_the_second() -> None:
    assert estimate_media(Media(kind="video", seconds=10), "gemini-2.0-flash").tokens == 2_630
    assert estimate_media(Media(kind="video", seconds=10), "gemini-3-pro").tokens == 700


def test_a_streamed_wav_is_as_long_as_its_bytes() -> None:
    for declared in (0, 0xFFFFFFFF, 10**6):
        assert recording_seconds(wav(2, declared=declared)) == 2


def test_sound_in_a_message() -> None:
    data = base64.b64encode(wav(3)).decode()
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    message = {"role": "user", "content": [part]}
    assert Tokenizer("gpt-4o-audio-preview").count_message(message) == 4 + 30


def test_a_document_costs_by_the_page() -> None:
    pdf = b"%PDF-1.4\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * 3 + b"<< /Type /Pages >>"
    assert estimate_media(Media(kind="document", source=pdf), "claude-3-5-sonnet").tokens == 9_000
    assert estimate_media(Media(kind="document", source=pdf), "gemini-2.0-flash").tokens == 774
    assert estimate_media(Media(kind="document", source=b"no pdf"), "gpt-4o").warning is not None


def test_a_text_document_counts_its_text() -> None:
    part = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "one two three"},
        "title": "Notes",
    }
    tokenizer = Tokenizer("gpt-4o")
    counted = tokenizer.count_message({"role": "user", "content": [part]})
    assert counted == 4 + tokenizer.count("one two three") + tokenizer.count("Notes")
