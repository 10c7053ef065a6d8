"""Real tokenizers from files that are already here; nothing is ever downloaded."""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

from agentmem.base.checks import require_choice, require_text
from agentmem.base.lazy import compile_late
from agentmem.base.protocols import TokenCounter
from agentmem.data import read_json
from agentmem.tokens.litellm import claude_tokenizer, environment
from agentmem.tokens.models import EncodingName, Family

# ----------------------------------------------------------------------------
# Cut a text where a tokenizer cuts it anyway, so that endless words cost linear time.
#
# Byte-pair encoders look at one word at a time, and their work grows faster than
# its length: a megabyte of one letter takes minutes or overflows. A cut inside a
# word may hide a token or two, so each such cut is paid for.


LONGEST_RUN_CHARACTERS = 512
LONGEST_PART_CHARACTERS = 32_768
CUT_TOKENS = 3

# What may become one word of an encoder: letters and marks of any script, digits, ASCII marks,
# or whitespace.
_KINDS = (r"[^\s0-9!-/:-@\[-`{-~]", r"[0-9]", r"[!-/:-@\[-`{-~]", r"\s")
_RUN = compile_late("|".join(f"{kind}{{{LONGEST_RUN_CHARACTERS}}}" for kind in _KINDS))
# Before one of these, after a letter, every encoding begins a new word.
_CLAUSE = compile_late(r"(?<=[^\W\d_])[、。，！？；：「（]")
_NEXT_WORD = compile_late(r"(?<=\w) (?=[^\W\d_])")


def split_runs(text: str) -> tuple[list[str], int]:
    """`text` in parts whose words are short, and how many cuts went through a word."""
    if not _may_have_runs(text):
        return list(_shorter(text, 0, len(text))), 0
    parts: list[str] = []
    start = cuts = 0
    while (run := _RUN.search(text, start)) is not None:
        end = run.end()
        clauses = [m.start() for m in _CLAUSE.finditer(text, run.start() + 1, end)]
        if clauses:
            end = clauses[-1]
        elif end < len(text):
            cuts += 1
        parts += _shorter(text, start, end)
        start = end
    return [*parts, *_shorter(text, start, len(text))], cuts


def _may_have_runs(text: str) -> bool:
    """A quick look, since hardly any text has one."""
    if len(text) < LONGEST_RUN_CHARACTERS:
        return False
    words = text.split()
    spare = len(text) - sum(map(len, words)) - len(words)
    return spare + 2 > LONGEST_RUN_CHARACTERS or max(map(len, words)) >= LONGEST_RUN_CHARACTERS


def _shorter(text: str, start: int, end: int) -> Iterator[str]:
    """The text from `start` to `end`, cut between words where it is long."""
    while end - start > LONGEST_PART_CHARACTERS:
        word = _NEXT_WORD.search(text, start + LONGEST_PART_CHARACTERS, end)
        if word is None:
            break
        yield text[start : word.start()]
        start = word.start()
    if start < end:
        yield text[start:end]


_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
# tiktoken deletes a cached file of another hash and downloads it, so we look first.
SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
}
OUR_RANKS = Path(__file__).parents[1] / "data" / "encodings"
# The tokenizers litellm takes for these families, if somebody has downloaded them before.
HUGGING_FACE = {
    "llama2": "hf-internal-testing/llama-tokenizer",
    "llama3": "Xenova/llama-3-tokenizer",
    "cohere": "Xenova/c4ai-command-r-v01-tokenizer",
}
_DIGITS = compile_late(r"[0-9]+")
_loading = threading.Lock()


def tiktoken_counter(name: EncodingName) -> TokenCounter | None:
    """A counter with tiktoken's encoding `name`, or `None` when its ranks are not on disk."""
    encoding = _tiktoken_encoding(name)
    return None if encoding is None else _by_parts(lambda part: len(encoding.encode_ordinary(part)))


def family_counter(family: Family) -> TokenCounter | None:
    """A counter with the family's own tokenizer file, or `None` when it is not on disk."""
    path = _tokenizer_file(family)
    tokenizer = _hugging_face_tokenizer(path) if path else None
    if tokenizer is None:
        return None
    # A batch of one: `encode` alone also works out where each token stands.
    encode = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)
    return _by_parts(lambda part: len(encode([part], add_special_tokens=False)[0].ids))


def adjusted(
    count: TokenCounter, encoding: EncodingName, *, digits: bool, factor: float
) -> TokenCounter:
    """`count` for a vocabulary that is like `encoding` but for its size and its numbers.

    With `digits` every digit is a token. `cl100k_base` and `o200k_base` take three at a time, so
    the rest is added; `p50k_base` takes what it knows, so numbers are counted without it, and the
    blank before each is a token of its own.
    """

    def count_adjusted(text: str, /) -> int:
        numbers = _DIGITS.findall(text) if digits else ()
        if numbers and encoding == "p50k_base":
            words = count(_DIGITS.sub("0", text))
            return math.ceil(words * factor) + sum(map(len, numbers))
        extra = sum(len(number) - math.ceil(len(number) / 3) for number in numbers)
        return math.ceil(count(text) * factor) + extra

    return count_adjusted


def rank_file(name: EncodingName) -> Path | None:
    """The undamaged rank file of an encoding: tiktoken's own copy, else ours."""
    key = hashlib.sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()
    for folder in (_tiktoken_cache(), OUR_RANKS):
        path = folder / key if folder else None
        if path is None:
            continue
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() == SHA256[name]:
                return path
        except OSError:
            continue
    return None


def _by_parts(count: Callable[[str], int]) -> TokenCounter:
    def count_by_parts(text: str, /) -> int:
        if len(text) < LONGEST_RUN_CHARACTERS:  # nothing in it can be long
            return count(text)
        parts, cuts = split_runs(text)
        return sum(count(part) for part in parts) + CUT_TOKENS * cuts

    return count_by_parts


def _tiktoken_cache() -> Path | None:
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            chosen = os.environ[variable]
            return Path(chosen) if chosen else None
    return Path(tempfile.gettempdir(), "data-gym-cache")


def _tiktoken_encoding(name: EncodingName) -> Any:
    try:
        from tiktoken import registry
    except ImportError:
        return None
    with _loading:
        if name in registry.ENCODINGS:
            return registry.ENCODINGS[name]
        path = rank_file(name)
        if path is None:
            return None
        with environment(TIKTOKEN_CACHE_DIR=str(path.parent)):
            return registry.get_encoding(name)


def _tokenizer_file(family: Family) -> Path | None:
    if family == "claude":
        return claude_tokenizer()
    repository = HUGGING_FACE.get(family)
    if repository is None:
        return None
    snapshots = _hub_cache() / f"models--{repository.replace('/', '--')}" / "snapshots"
    return next(iter(sorted(snapshots.glob("*/tokenizer.json"))), None)


def _hub_cache() -> Path:
    for variable, inside in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub")):
        if os.environ.get(variable):
            return Path(os.environ[variable], inside)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "huggingface", "hub")


@lru_cache(maxsize=8)
def _hugging_face_tokenizer(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(path))
    except Exception:  # noqa: BLE001  # the package raises bare Exception for a bad file
        return None


# ----------------------------------------------------------------------------
# How many tokens a text is, without any tokenizer: the fallback when none can be had.
#
# The text is cut the way byte-pair encodings cut it (words with the space before
# them, groups of three digits, runs of marks, whitespace) and every piece is
# priced from `data/token_prices.json`. What a piece may cost more than its price is summed
# as a variance, and the estimate lies some deviations above the expected count,
# so a document comes out slightly too large rather than too small.


_PROFILES = get_args(EncodingName)
_LOWER = "a-z\u00df-\u00f6\u00f8-\u024f"
_UPPER = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_BLANK = "\t-\r\x1c-\x20\x85\xa0"
# Pieces are bounded, so that pricing stays linear whatever the text. A class is compiled one
# character at a time, so the one of all scripts says what is not in it.
_PIECE = compile_late(
    rf" ?[{_UPPER}]?[{_LOWER}]{{1,64}}| ?[{_UPPER}]{{1,64}}(?![{_LOWER}])| ?[{_UPPER}]"
    r"| ?[0-9]{1,63}| ?[^\x00-\u024f]{1,64}| ?[!-/:-@\[-`{-~]{1,64}"
    rf"|[{_BLANK}]{{1,1024}}(?= \S)|[{_BLANK}]{{1,1024}}|.",
    re.DOTALL,
)
_MIXED_BLANK = compile_late(r"\n\n| +|[^ ]")
_BLANK_LINE = compile_late(r"\n[^\n]+(?=\n)")
_CHUNK_CHARACTERS = 1_000_000

# By profile: o200k_base, cl100k_base, p50k_base.
_ACCENT = (0.25, 0.45, 0.75)
_LONE_ACCENT = (1.2, 1.6, 1.8)
_RARE_LATIN = "\u0180"
_CAPITALS = (1.15, 1.2, 1.5)
_COMMON = (1.01, 1.01, 1.1)
# An unlisted word costs more in a text of unlisted words, which is then not English.
_ENGLISH = (0.80, 0.84, 1.0)
_FOREIGN = (1.0, 1.12, 1.28)

_DEVIATIONS = 2.5
_CJK_START = 0x4E00
_EAST_ASIAN = "\u2e80"
_RARE_IDEOGRAPH = (2.3, 2.9, 3.0)


class _Prices(NamedTuple):
    """What the file holds; it tells what the figures mean."""

    words: frozenset[str]
    marks: frozenset[str]
    pairs: tuple[str, ...]
    starts: tuple[int, ...]
    scripts: tuple[tuple[int, ...], ...]


@cache
def _prices() -> _Prices:
    found = read_json("token_prices.json")
    return _Prices(
        words=frozenset(" ".join(found["words"]).split()),
        marks=frozenset(" ".join(found["marks"]).split()),
        pairs=tuple(found["pairs"]),
        starts=tuple(int(script["from"], 16) for script in found["scripts"]),
        scripts=tuple(tuple(script["hundredths"]) for script in found["scripts"]),
    )


Piece = tuple[float, float, bool, bool]
"""Price, variance, is it a listed word, is it an unlisted one."""


def estimate_tokens(text: str, *, encoding: EncodingName = "cl100k_base") -> int:
    """The tokens of `text` in an encoding like `encoding`, rather too many than too few.

    On the corpora it was measured on, no document came out more than 5 % below
    the real encoding (T1). An empty text has none; any other has at least one.
    """
    require_text(text, "text")
    require_choice(encoding, _PROFILES, "encoding")
    if not text:
        return 0
    profile = _PROFILES.index(encoding)
    price = variance = unlisted = 0.0
    listed_words = unlisted_words = 0
    for piece, times in _pieces(text).items():
        cost, spread, is_listed, is_unlisted = _price(piece, profile)
        variance += spread * times
        if is_unlisted:
            unlisted += cost * times
            unlisted_words += times
        else:
            price += cost * times
            listed_words += is_listed * times
    if unlisted_words:
        english = min(1.0, 2 * listed_words / (listed_words + unlisted_words))
        factor = _FOREIGN[profile] - (_FOREIGN[profile] - _ENGLISH[profile]) * english
        price += max(unlisted_words, unlisted * factor)
    return max(1, math.ceil(price + _DEVIATIONS * math.sqrt(variance)))


def _pieces(text: str) -> Counter[str]:
    """How often each piece occurs; long texts are read bit by bit, for the memory's sake."""
    found: Counter[str] = Counter()
    for start in range(0, len(text), _CHUNK_CHARACTERS):
        found.update(_PIECE.findall(text, start, start + _CHUNK_CHARACTERS))
    return found


@lru_cache(maxsize=16_384)
def _price(piece: str, profile: int) -> Piece:
    spaced = len(piece) > 1 and piece[0] == " " and not piece[1].isspace()
    body = piece[1:] if spaced else piece
    first = body[0]
    if first >= "\u0250":
        return _price_script(body, profile, spaced=spaced)
    if "0" <= first <= "9":
        if profile == 2:
            return max(1.0, len(body) / 1.8), 0.2, False, False
        return spaced + math.ceil(len(body) / 3), 0.02, False, False
    if first.isalpha():
        return _price_word(body, profile)
    if first.isspace():
        return _price_blank(body, profile), 0.08, False, False
    if len(body) == 1:
        return (1.0 if first < "\x7f" else 2.0), 0.02, False, False
    if body in _prices().marks:
        return (1.15 if profile == 2 else 1.0), 0.02, False, False
    if len(set(body)) == 1:
        return 1 + len(body) / 12, 0.3, False, False
    return max(1.0, 0.75 * len(body)), 0.2 * len(body), False, False


def _price_word(word: str, profile: int) -> Piece:
    if len(word) == 1:
        rare = 2.0 if word >= _RARE_LATIN else _LONE_ACCENT[profile]
        return (1.0 if word.isascii() else rare), 0.02, False, False
    lower = word.lower()
    capitals = word.isupper()
    if not capitals and lower in _prices().words:
        return _COMMON[profile], 0.01 if word == lower else 0.04, True, False
    pairs = _prices().pairs
    row, tenths, accents = len(pairs) - 1, 0, 0
    for letter in lower:
        column = ord(letter) - ord("a")
        if not 0 <= column < 26:
            column, accents = 26, accents + (3 if letter >= _RARE_LATIN else 1)
        tenths += ord(pairs[row][column]) - ord("0")
        row = column
    cost = tenths / 10 * (_CAPITALS[profile] if capitals else 1) + _ACCENT[profile] * accents
    cost = max(1.0, cost)
    variance = 0.34 * cost + 0.03 * max(0, len(word) - 6) ** 2
    return cost, variance, False, not capitals


def _price_blank(blank: str, profile: int) -> float:
    last_newline = blank.rfind("\n")
    rest = blank[last_newline + 1 :]
    cost = float(sum(1 + (c > "\x7f") for c in blank if c not in " \t\r\n"))
    if last_newline >= 0:
        cost += 1 + 0.6 * len(_BLANK_LINE.findall(blank)) + (last_newline + 1) // 16
    if rest:
        cost += 1 + len(rest) // 16
        if len(rest) > 1 and rest[-1] == "\t":  # the last tab is taken by what follows it
            cost += 0.8
        if profile == 2:
            cost += 0.7 * rest.count("\t") + len(rest) // 12
    returns = blank.count("\r") - blank.count("\r\n")
    if returns:  # hardly any token has one alone, so it also parts what stands beside it
        cost = max(cost, min(len(blank), 2 * returns + 1))
    if profile == 2:  # two line feeds or some spaces are one token, all else stands alone
        cost = max(cost, len(_MIXED_BLANK.findall(blank)))
    return cost


def _price_script(run: str, profile: int, *, spaced: bool) -> Piece:
    starts, scripts = _prices().starts, _prices().scripts
    total, previous = 0.0, -1
    for character in run:
        script = bisect_right(starts, ord(character)) - 1
        if starts[script] == _CJK_START and not _is_common_ideograph(character):
            total, previous = total + _RARE_IDEOGRAPH[profile], -1
            continue
        total += scripts[script][2 * profile + (script == previous)] / 100
        previous = script
    first = scripts[bisect_right(starts, ord(run[0])) - 1][2 * profile]
    if spaced:  # encodings that know few words of a script spend a token on the space
        total += 1.0 if first >= 200 or run[0] >= _EAST_ASIAN else 0.3
    return total, 0.12 * len(run), False, False


@lru_cache(maxsize=16_384)
def _is_common_ideograph(character: str) -> bool:
    # The first level of the old national character sets lists the characters in daily use.
    for codec, low, high in (
        ("gb2312", b"\xb0", b"\xd8"),
        ("big5", b"\xa4", b"\xc7"),
        ("shift_jis", b"\x88\x9f", b"\x98\x73"),
    ):
        try:
            code = character.encode(codec)
        except UnicodeEncodeError:
            continue
        if low <= code < high:
            return True
    return False
