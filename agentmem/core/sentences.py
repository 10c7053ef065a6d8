"""Where sentences end, in many scripts, and the longest whole-sentence prefix that fits.

What counts as an end, and what is left alone, is told in `docs/chunking.md`.
When in doubt a full stop is no end: a cut then comes a sentence earlier, which
is never wrong, instead of after "Dr.".
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from agentmem.core.checks import require_count, require_text
from agentmem.core.sentence_marks import BLANK_LINE, CANDIDATE, end_at
from agentmem.errors import InvalidInput
from agentmem.protocols import TokenCounter


def sentence_ends(text: str, *, stop: int | None = None) -> Iterator[int]:
    """The positions right after each sentence, its closing quotes and brackets included.

    Lazy and linear. A blank line is no end of its own, nor is the end of the
    text: there has to be a mark, and one before `stop`; nothing far behind it is read.
    """
    require_text(text, "text")
    stop = len(text) if stop is None else stop
    start = 0
    for found in CANDIDATE.finditer(text, 0, stop):
        match: re.Match[str] | None = found
        if found.end() == stop < len(text):
            match = CANDIDATE.match(text, found.start())
        end = end_at(text, match, start) if match else None
        if end is not None:
            yield end
            start = end


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """The spans of the sentences in order, without the white space between them.

    A blank line also parts two sentences (a heading has no full stop), and what
    follows the last end is a span too: every visible character is in one span.
    """
    require_text(text, "text")
    ends = sentence_ends(text)
    breaks = (match.start() for match in BLANK_LINE.finditer(text))
    end, gap = next(ends, None), next(breaks, None)
    start = 0
    while end is not None or gap is not None:
        if end is not None and (gap is None or end <= gap):
            cut, end = end, next(ends, None)
        elif gap is not None:
            cut, gap = gap, next(breaks, None)
        yield from _trimmed(text, start, cut)
        start = max(start, cut)
    yield from _trimmed(text, start, len(text))


def truncate_at_sentence(text: str, limit_tokens: int, count: TokenCounter) -> str:
    """The longest prefix of whole sentences with at most `limit_tokens` tokens (P8).

    `text` itself when it fits; "" when not even the first sentence does. The
    prefix that is returned was counted as it stands. `count` should grow with
    the text, give or take a few tokens: then one sentence more would not fit.
    The work depends on the limit, not on how long `text` is.
    """
    require_text(text, "text")
    require_count(limit_tokens, "limit_tokens")
    if not callable(count):
        raise InvalidInput(
            "count", count, "is not callable", remedy="Pass a function from str to int."
        )
    too_long, too_many = _first_overflow(text, limit_tokens, count)
    if too_many <= limit_tokens:
        return text
    ends = [end for end in sentence_ends(text, stop=too_long) if end <= too_long]
    return text[: _last_fitting(text, ends, limit_tokens, count, (too_long, too_many))]


def _first_overflow(text: str, limit_tokens: int, count: TokenCounter) -> tuple[int, int]:
    """A length whose prefix is surely too large, found by doubling, and its count.

    A token more in the text can lower a tokenizer's count a little, so "surely"
    asks for some tokens above the limit.
    """
    surely = limit_tokens + limit_tokens // 8 + 16
    length = 4 * limit_tokens + 256
    while length < len(text):
        tokens = count(text[:length])
        if tokens > surely:
            return length, tokens
        length *= 2
    return len(text), count(text)


def _last_fitting(
    text: str,
    ends: list[int],
    limit_tokens: int,
    count: TokenCounter,
    overflow: tuple[int, int],
) -> int:
    """The end of a prefix that fits while the next one does not; 0 when there is none.

    Interpolates, since tokens grow about evenly, and halves at every third
    step, since they may not.
    """
    low, low_at = -1, (0, 0)
    high, high_at = len(ends), overflow
    step = 0
    while high - low > 1:
        step += 1
        if step % 3:
            slope = (high_at[0] - low_at[0]) / max(1, high_at[1] - low_at[1])
            guess = low_at[0] + int((limit_tokens - low_at[1]) * slope)
            middle = min(max(bisect_right(ends, guess) - 1, low + 1), high - 1)
        else:
            middle = (low + high) // 2
        tokens = count(text[: ends[middle]])
        if tokens <= limit_tokens:
            low, low_at = middle, (ends[middle], tokens)
        else:
            high, high_at = middle, (ends[middle], tokens)
    return ends[low] if low >= 0 else 0


def _trimmed(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    stripped = piece.strip()
    if stripped:
        first = start + len(piece) - len(piece.lstrip())
        yield first, first + len(stripped)
