"""How each provider turns an image's width and height into tokens.

All arithmetic is on whole numbers, and every rule resizes first, so no size is
too large for it. Sources stand in docs/tokens.md.
"""

from __future__ import annotations

import math
from typing import Protocol

from agentmem.core.models import canonical, names_of
from agentmem.core.patterns import compile_late
from agentmem.core.values import dataclass


class ImageRule(Protocol):
    """Tokens of an image of `width` x `height` pixels, both at least 1."""

    def tokens(self, width: int, height: int, *, detail: str) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """OpenAI's older models: fit 2,048 px, shorten the short side, count 512 px tiles."""

    base: int
    tile: int
    short_side: int = 768

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        if detail == "low":
            return self.base
        width, height = _fit(width, height, longest=2_048)
        short = min(width, height)
        if short > self.short_side:
            width, height = (_scale(s, self.short_side, short) for s in (width, height))
        return self.base + self.tile * _cells(width, height, 512)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """OpenAI's newer models: 32 px patches up to a budget, times a multiplier."""

    percent: int
    budget: int = 1_536
    longest: int = 2_048
    original_budget: int = 0
    original_longest: int = 0

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        budget, longest = self.budget, self.longest
        if detail == "low":
            budget, longest = 256, 512
        elif detail in ("auto", "original") and self.original_budget:
            budget, longest = self.original_budget, self.original_longest
        width, height = _fit(width, height, longest=longest)
        patches = _cells(width, height, 32)
        if patches > budget:
            shrink = math.sqrt(32 * 32 * budget / (width * height))
            across, down = width * shrink / 32, height * shrink / 32
            shrink *= min(math.floor(across) / across, math.floor(down) / down) or 1
            patches = _cells(max(1, int(width * shrink)), max(1, int(height * shrink)), 32)
        return -(-min(patches, budget) * self.percent // 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudePatches:
    """Anthropic: the largest size within both limits, then one token a 28 px patch."""

    longest: int
    most: int

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        long, short = max(width, height), min(width, height)
        low, high = 1, min(long, self.longest)
        while low < high:  # the largest long side whose patches are within the limit
            middle = (low + high + 1) // 2
            if _cells(middle, _scale(short, middle, long), 28) <= self.most:
                low = middle
            else:
                high = middle - 1
        return _cells(low, _scale(short, low, long), 28)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiTiles:
    """Gemini up to 2.5: 258 tokens for a small image, or for each 768 px tile within 3,072 px."""

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        if width <= 384 and height <= 384:
            return 258
        width, height = _fit(width, height, longest=3_072)
        return 258 * _cells(width, height, 768)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """So many tokens whatever the size, fewer at low detail."""

    high: int
    low: int

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        return self.low if detail == "low" else self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class QwenPatches:
    """Qwen-VL: sides rounded to the patch, 4 to 16,384 patches, and two marks around them."""

    patch: int

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        fewest, most = 4, 16_384
        across = max(1, _scale(width, 1, self.patch))
        down = max(1, _scale(height, 1, self.patch))
        if across * down > most:
            shrink = math.sqrt(width * height / (most * self.patch**2))
            across = max(1, math.floor(width / shrink / self.patch))
            down = max(1, math.floor(height / shrink / self.patch))
        elif across * down < fewest:
            grow = math.sqrt(fewest * self.patch**2 / (width * height))
            across = math.ceil(width * grow / self.patch)
            down = math.ceil(height * grow / self.patch)
        return min(across * down, most) + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LlavaTiles:
    """LLaVA 1.6: a 336 px overview and the grid of 336 px tiles that keeps most of the image."""

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        def kept(grid: tuple[int, int]) -> tuple[int, int]:
            columns, rows = grid[0] * 336, grid[1] * 336
            scale = min(columns / width, rows / height)
            used = min(int(width * scale) * int(height * scale), width * height)
            return used, used - columns * rows

        columns, rows = max(((1, 2), (2, 1), (2, 2), (1, 3), (3, 1)), key=kept)
        return 576 + 576 * columns * rows + 24 * rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PixtralPatches:
    """Pixtral: fit 1,024 px, one token a 16 px patch, one more at the end of each row."""

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        width, height = _fit(width, height, longest=1_024)
        rows = -(-height // 16)
        return rows * -(-width // 16) + rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeTiles:
    """Llama 3.2 Vision and Grok: few large tiles at a fixed price each."""

    side: int
    tile: int
    most: int
    overview: int = 0

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        return self.overview + self.tile * min(self.most, _cells(width, height, self.side))


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """Anybody else: width times height through 750, sides cut at 10,000 pixels."""

    def tokens(self, width: int, height: int, *, detail: str) -> int:
        return -(-min(width, 10_000) * min(height, 10_000) // 750)


_PATCHES = Patches(percent=120)
_RULES: tuple[tuple[str, ImageRule], ...] = (
    (r"^gpt4o-mini", Tiles(base=2_833, tile=5_667)),
    (r"^gpt(?:4-1|5)-mini", Patches(percent=162)),
    (r"^gpt(?:4-1|5)-nano", Patches(percent=246)),
    (r"^o4-mini", Patches(percent=172)),
    (r"^gpt5-?\d*-codex|^gpt5-[23](?!\d)|^codex", _PATCHES),
    (
        r"^gpt5-[45](?!\d)",
        Patches(percent=120, budget=2_500, original_budget=10_000, original_longest=6_000),
    ),
    (
        r"^gpt(?:5-(?:[6-9]|\d\d)|[6-9])",
        Patches(
            percent=120,
            budget=2_500,
            longest=65_535,
            original_budget=30_000,
            original_longest=65_535,
        ),
    ),
    (r"^gpt5", Tiles(base=70, tile=140)),
    (r"^o\d", Tiles(base=75, tile=150)),
    (r"^computer-use", Tiles(base=65, tile=129)),
    (r"^gpt-image", Tiles(base=65, tile=129, short_side=512)),
    (r"^(?:chat)?gpt", Tiles(base=85, tile=170)),
    (
        r"claude-[a-z]+-?(?:4-(?:[7-9]|\d\d)|[5-9])(?:-|$)|claude(?:4-[7-9]|[5-9])(?:-|$)",
        ClaudePatches(longest=2_576, most=4_784),
    ),
    (r"claude", ClaudePatches(longest=1_568, most=1_568)),
    (r"gemini[3-9]", Fixed(high=1_120, low=280)),
    (r"gemini", GeminiTiles()),
    (r"gemma", Fixed(high=256, low=256)),
    (r"qwen3.*vl|qwen3-5", QwenPatches(patch=32)),
    (r"qwen|qvq", QwenPatches(patch=28)),
    (r"pixtral|mistral-(?:small|medium|large)", PixtralPatches()),
    (r"llama", LargeTiles(side=560, tile=1_601, most=4)),
    (r"grok", LargeTiles(side=448, tile=256, most=6, overview=256)),
)
_COMPILED = tuple((compile_late(pattern), rule) for pattern, rule in _RULES)
_LLAVA = compile_late(r"llava")
_LLAVA_NEXT = compile_late(r"llava.*(?:1\.6|1-6|next|onevision)")


def rule_for(model: str) -> ImageRule:
    """The arithmetic that `model`'s provider publishes, else `Area`."""
    written = names_of(model)[0]
    if _LLAVA.search(written):
        return LlavaTiles() if _LLAVA_NEXT.search(written) else Fixed(high=576, low=576)
    name = canonical(model)
    return next((rule for pattern, rule in _COMPILED if pattern.search(name)), Area())


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
