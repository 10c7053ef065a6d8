"""What a model's name tells: its family, the encoding nearest to it, its window, the reserve.

Names come as people write them: with a provider before them (`groq/`,
`bedrock/us.anthropic.`), a date, a version, a size or a tag behind them, in any
case. `names_of` lists the spellings to look up, the most exact one first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

from agentmem.base.checks import require_count, require_text
from agentmem.base.errors import InvalidText
from agentmem.base.lazy import compile_late
from agentmem.data import read_lists

# ----------------------------------------------------------------------------
# Names shared.


EncodingName = Literal["o200k_base", "cl100k_base", "p50k_base"]

Family = Literal[
    "openai", "claude", "gemini", "llama2", "llama3", "cohere", "mistral", "qwen", "other"
]

UNKNOWN_WINDOW_TOKENS = 8_192
COMPLETION_TOKENS = 3_000
MARGIN_SHARE_PERCENT = 10
MARGIN_LEAST_TOKENS = 1_000
LEAST_WINDOW_TOKENS = 2

_LONGEST_NAME = 512
_REGION = compile_late(r"^(?:us|eu|apac|au|jp|ca|global|us-gov)\.(?=[a-z])")
_VENDOR = compile_late(r"^(?:anthropic|meta|cohere|mistral|amazon|ai21|deepseek|qwen|openai)\.")
_TAIL = compile_late(
    r"(?:@[\w.-]*|:[\w.-]*|-v\d+(?:\.\d+)*(?::\d+)?|[-@](?:20\d{6}|20\d\d-\d\d-\d\d)|-latest)$"
)
_TIGHT = compile_late(r"(?<=[a-z])[-_ ](?=\d)")


def names_of(model: str) -> tuple[str, ...]:
    """The spellings under which `model` may be listed, from exact to general, without doubles."""
    return _names_of(require_text(model, "model"))


@lru_cache(maxsize=256)
def _names_of(model: str) -> tuple[str, ...]:
    name = model.strip().lower()
    if not name or len(name) > _LONGEST_NAME:
        raise InvalidText(
            "model", model, "is not a model's name", remedy="Pass a name such as 'gpt-4o-mini'."
        )
    if name.startswith("ft:"):  # ft:base:organisation:suffix:id
        name = name[3:].partition(":")[0] or name
    found = [name]
    while "/" in name:
        name = name.partition("/")[2]
        found.append(name)
    anywhere = _REGION.sub("", name)
    bare = _VENDOR.sub("", anywhere)
    found += [anywhere, bare]
    while (shorter := _TAIL.sub("", bare)) != bare and shorter:
        bare = shorter
        found.append(bare)
    return tuple(dict.fromkeys(spelling for spelling in found if spelling))


def canonical(name: str) -> str:
    """`name` with its numbers written one way: `llama-3.1-8b` and `Llama3.1:8b` are alike."""
    last = names_of(name)[-1]
    return _TIGHT.sub("", last.replace(".", "-").replace("_", "-"), count=1)


_FAMILIES: tuple[tuple[re.Pattern[str], Family], ...] = (
    (compile_late(r"claude"), "claude"),
    (compile_late(r"^(?:chat)?gpt|^o\d|^codex|^computer-use|^text-embedding"), "openai"),
    (compile_late(r"davinci|curie|babbage|^ada$|^text-ada|code-cushman"), "openai"),
    (compile_late(r"gemini|gemma|learnlm"), "gemini"),
    (compile_late(r"llama-?2|codellama|vicuna"), "llama2"),
    (compile_late(r"llama"), "llama3"),
    (compile_late(r"^command|c4ai|aya"), "cohere"),
    (compile_late(r"mistral|mixtral|codestral|ministral|pixtral|devstral|magistral"), "mistral"),
    (compile_late(r"qwen|qwq|qvq"), "qwen"),
)
_O200K = compile_late(
    r"^(?:chatgpt-?4o|gpt4(?:o|-1|-5)|gpt(?:[5-9]|[12]\d)(?!\d)|gpt-oss|gpt-(?:audio|realtime|image)"
    r"|o\d|codex|computer-use)"
)
_P50K = compile_late(r"^(?:text-davinci00[23]|text-davinci-00[23]|code-(?:davinci|cushman))")
_R50K = compile_late(r"^(?:text-(?:davinci|curie|babbage|ada)-?001|davinci$|curie$|babbage$|ada$)")
# Vocabularies of about 32,000, by their names: Llama's first ones and those of Mistral until
# "tekken", which came with Nemo.
_SMALL = compile_late(
    r"mistral-?7b|mixtral|zephyr|codestral|mistral-(?:tiny|large)(?!-?3|-?25)"
    r"|mistral-(?:small|medium)-?2[34]\d\d|phi-?3|tinyllama"
)
_DIGIT_BY_DIGIT = frozenset({"qwen", "gemini", "mistral", "llama2"})


def family_of(model: str) -> Family:
    """Whose model it is, as far as its tokenizer and its prices go."""
    name = canonical(model)
    return next((family for pattern, family in _FAMILIES if pattern.search(name)), "other")


def encoding_of(model: str) -> tuple[EncodingName, bool]:
    """The encoding to count `model` with, and whether it is the model's own.

    OpenAI's models have their own. Llama 3, Qwen and DeepSeek were built from
    cl100k_base's method and vocabulary, so it is near and rather above; Gemini
    and unknown models are counted with it too. Claude and vocabularies of about
    32,000 (Llama 2, the first Mistrals) are nearer to p50k_base. Numbers are
    another matter: see `adjustment_of`.
    """
    name = canonical(model)
    family = family_of(model)
    if family == "openai":
        if _O200K.search(name):
            return "o200k_base", True
        if _P50K.search(name):
            return "p50k_base", True
        if _R50K.search(name):
            return "p50k_base", False
        return "cl100k_base", not name.startswith("text-davinci")
    if family in ("claude", "llama2") or _SMALL.search(name):
        return "p50k_base", False
    return "cl100k_base", False


def adjustment_of(model: str) -> tuple[bool, float]:
    """Whether `model` reads numbers digit by digit, and by what its tokens exceed the encoding's.

    Qwen, Gemma and Gemini, Mistral and Llama 2 spend a token on every digit,
    where the encoding that is near to them takes three at once. The factors are
    measured by `benchmarks/vocabularies.py`.
    """
    family = family_of(model)
    if family == "llama2" or _SMALL.search(canonical(model)):
        return True, 1.1
    return family in _DIGIT_BY_DIGIT, 1.05 if family == "mistral" else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLimits:
    """How many tokens a request may have, and how many of them the answer."""

    window: int
    max_output: int

    def __post_init__(self) -> None:
        require_count(self.window, "context_window", least=LEAST_WINDOW_TOKENS)
        require_count(self.max_output, "max_output", least=1)


def find_limits(model: str, listed: Mapping[str, ModelLimits]) -> ModelLimits | None:
    """The limits of `model` from `listed` (lower-case names), else from our own table.

    The exact name wins, then the longest name of our table that `model` begins
    with or contains as whole words, then a name in `listed` that differs only
    by the provider before it. `None` when nobody knows.
    """
    names = names_of(model)
    for name in names:
        if name in listed:
            return listed[name]
    tight = canonical(model)
    windows = _windows()
    known = [key for key in windows if _holds(tight, key)]
    if known:
        best = max(known, key=lambda key: (tight.startswith(key), len(key)))
        return windows[best]
    for name in names[::-1]:
        same = [limits for key, limits in listed.items() if key.rpartition("/")[2] == name]
        if same:
            return min(same, key=lambda limits: (limits.window, limits.max_output))
    return None


@cache
def _windows() -> Mapping[str, ModelLimits]:
    """Our own table: limits by canonical name."""
    found = {}
    for lines in read_lists("windows.txt").values():
        for name, window, max_output in map(str.split, lines):
            found[name] = ModelLimits(window=int(window), max_output=int(max_output))
    return found


def _holds(name: str, key: str) -> bool:
    at = name.find(key)
    while at >= 0:
        before, after = name[at - 1 : at], name[at + len(key) : at + len(key) + 1]
        # "mixtral" is in "mixtral8x7b", but "o1" is not in "o100" nor "phi" in "philosophy".
        ends_inside = after.isdigit() if key[-1].isdigit() else after.isalpha()
        if not (at and before.isalnum()) and not ends_inside:
            return True
        at = name.find(key, at + 1)
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Tokens kept free: for the answer, and because counts are never quite the provider's."""

    completion: int
    margin: int

    @property
    def total(self) -> int:
        return self.completion + self.margin


def reserve_for(limits: ModelLimits, *, completion: int = COMPLETION_TOKENS) -> Reserve:
    """What to keep free in `limits.window`; never more than half of it (T3).

    Completion is `completion`, at most what the model can write; the margin is
    10 % of the window, at least 1,000. Where the two together would take more
    than half of the window both shrink in proportion, so that the other half
    stays available.
    """
    require_count(completion, "completion")
    completion = min(completion, limits.max_output)
    margin = max(limits.window * MARGIN_SHARE_PERCENT // 100, MARGIN_LEAST_TOKENS)
    half = limits.window // 2
    if completion + margin > half:
        completion = completion * half // (completion + margin)
        margin = half - completion
    return Reserve(completion=completion, margin=margin)
